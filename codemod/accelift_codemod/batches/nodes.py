"""Losses over the nodes, or edges, of the graphs in a batch: every process has another number of them."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, Value
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk

_LOADERS = tuple(f"torch_geometric.{home}.DataLoader" for home in ("loader", "data", "loader.dataloader"))
# What joins graphs to one, given to a DataLoader of torch.
_JOINS = {
    "dgl.batch": "dgl",
    "torch_geometric.data.Batch.from_data_list": "torch_geometric",
    "torch_geometric.data.batch.Batch.from_data_list": "torch_geometric",
}
# What tells which nodes belong to which graph, by library. Who gives one row for each graph needs it.
_OF_GRAPHS = {
    "torch_geometric": frozenset({"batch", "ptr", "to_dense_batch", "to_data_list"}),
    "dgl": frozenset(
        """
        batch_num_nodes batch_num_edges unbatch readout_nodes readout_edges sum_nodes sum_edges mean_nodes mean_edges
        max_nodes max_edges softmax_nodes softmax_edges topk_nodes topk_edges broadcast_nodes broadcast_edges
        segment segment_reduce AvgPooling SumPooling MaxPooling SortPooling WeightAndSum GlobalAttentionPooling Set2Set
        SetTransformerEncoder SetTransformerDecoder
        """.split()
    ),
}


def averaged(draft: Draft, call: ast.Call) -> bool:
    """Whether a loss that is a mean is surely one over the nodes of the graphs: nothing tells whose they are."""
    loops = draft.training_around(call)
    libraries = {_library(draft, loader) for loop in loops for loader in loop.loaders}
    if not libraries or "" in libraries:
        return False
    if any(_follows(draft, loader) for loop in loops for loader in loop.loaders):
        return False
    nodes = [n for loop in loops for s in loop.body for n in walk(s) if isinstance(n, ast.Call)]
    networks = [v for n in nodes for v in draft.facts.objects.models(n.func)]
    own = bool(networks) and all(isinstance(v.declaration, ast.ClassDef) and v.role is Role.MODEL for v in networks)
    return own and not any(_is_asked(draft, name) for library in libraries for name in _OF_GRAPHS[library])


def _follows(draft: Draft, loader: Value) -> bool:
    """Whether a loader tells of further nodes whose they are, and that is read: `follow_batch=["x_s"]`, `x_s_batch`."""
    if draft.facts.objects.loader(loader).arguments.get("follow_batch") is None:
        return False
    read = draft.facts.index.attributes.items()
    return any(n.endswith(("_batch", "_ptr")) and any(isinstance(a.ctx, ast.Load) for a in of) for n, of in read)


def _library(draft: Draft, loader: Value) -> str:
    """The library whose graphs a loader joins to one, if that is known; empty if not."""
    if loader.name in _LOADERS:
        return "torch_geometric"
    collate = draft.facts.objects.loader(loader).arguments.get("collate_fn")
    if collate is None or not loader.name.startswith("torch.utils.data."):
        return ""
    resolver = draft.facts.resolver
    made = [collate, *(v.declaration for v in resolver.values(collate))]
    functions = [f for f in made if isinstance(f, (*FUNCTIONS, ast.Lambda))]
    calls = [n.func for function in functions for n in walk(function) if isinstance(n, ast.Call)]
    return next((_JOINS[name] for f in (collate, *calls) if (name := resolver.qualified(f) or "") in _JOINS), "")


def _is_asked(draft: Draft, name: str) -> bool:
    index = draft.facts.index
    read = any(isinstance(n.ctx, ast.Load) for n in index.attributes.get(name, ()))
    return read or name in index.module.bindings
