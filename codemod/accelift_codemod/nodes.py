"""Losses over the nodes, or edges, of the graphs in a batch: every process has another number of them."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.tree import walk

_LOADERS = tuple(f"torch_geometric.{home}.DataLoader" for home in ("loader", "data", "loader.dataloader"))
# What tells which nodes belong to which graph. Who gives one row for each graph needs it.
_OF_GRAPHS = frozenset({"batch", "ptr", "to_dense_batch", "to_data_list"})


def averaged(draft: Draft, call: ast.Call) -> bool:
    """Whether a loss that is a mean is surely one over the nodes of the graphs: nothing tells whose they are."""
    loops = draft.training_around(call)
    loaders = [loader for loop in loops for loader in loop.loaders]
    if not loaders or not all(loader.name in _LOADERS for loader in loaders):
        return False
    nodes = [n for loop in loops for s in loop.body for n in walk(s) if isinstance(n, ast.Call)]
    networks = [v for n in nodes for v in draft.facts.objects.models(n.func)]
    own = bool(networks) and all(isinstance(v.declaration, ast.ClassDef) and v.role is Role.MODEL for v in networks)
    return own and not any(_is_asked(draft, name) for name in _OF_GRAPHS)


def _is_asked(draft: Draft, name: str) -> bool:
    index = draft.facts.index
    read = any(isinstance(n.ctx, ast.Load) for n in index.attributes.get(name, ()))
    return read or name in index.module.bindings
