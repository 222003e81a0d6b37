"""Rows that are taken from a table beside the batch by the places of samples in it: `noise[: len(x)]`."""

from __future__ import annotations

import ast

from accelift_codemod.chance.noise import all_whole
from accelift_codemod.facts.chance import drawn_by
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.layout.algebra import FIXED
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import walk
from accelift_codemod.rows.placed import NUMBERS, Places


def by_places(places: Places, node: ast.AST) -> bool:
    """Whether a node takes the first rows of a table, one for each sample of a batch, and these are surely not alike:
    every process would take the same ones for its share."""
    if isinstance(node, ast.Call):
        return _embeds(places, node)
    if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Store):
        return False
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    if isinstance(first, ast.Slice):
        begins = first.step is None and integer(first.lower or ast.Constant(0)) == 0
        if not begins or places.layout(node, first.upper) is not Layout.COUNT:
            return False
    elif places.layout(node, first) is not Layout.PLACES:
        return False
    beside = places.layout(node, node.value) in FIXED and not all_whole(places.draft, places.loop)
    sources = places.sources(node.value) if beside else []
    return bool(sources) and all(_has_different_rows(places, s) and not _in_each(places, s) for s in sources)


def _embeds(places: Places, call: ast.Call) -> bool:
    """Whether a layer looks up the places of samples: `embedding(torch.arange(len(x)))`."""
    layers = places.facts.resolver.values(call.func) if call.args else ()
    if not layers or any(layer.name != "torch.nn.Embedding" for layer in layers):
        return False
    return places.layout(call, call.args[0]) is Layout.PLACES and not all_whole(places.draft, places.loop)


def _in_each(places: Places, source: ast.expr | None) -> bool:
    """Whether a table is made in each iteration, or in a function that is called there."""
    index, timeline = places.facts.index, places.draft.blueprint.timeline
    if source is None or places.loop.node in index.ancestors(source):
        return True
    return any(index.function(source) is called for s in places.loop.body for called in timeline.calls_into(s))


def _has_different_rows(places: Places, source: ast.expr | None) -> bool:
    """Whether a table is made of drawn numbers, or of some that count up."""
    for call in (n for n in walk(source) if isinstance(n, ast.Call)) if source is not None else ():
        module, _, name = (places.facts.resolver.qualified(call.func) or "").rpartition(".")
        counts = module in ("torch", "numpy") and name in NUMBERS
        if counts or drawn_by(places.facts.resolver, call) in ("torch", "numpy"):
            return True
    return False
