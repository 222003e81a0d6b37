"""Rows that are taken from a table beside the batch by the places of samples in it: `noise[: len(x)]`."""

from __future__ import annotations

import ast

from accelift_codemod.chance.noise import all_whole
from accelift_codemod.facts.chance import drawn_by
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.layout.algebra import FIXED
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import container, is_constant, is_same_name, walk
from accelift_codemod.networks.methods import is_self
from accelift_codemod.rows.placed import NUMBERS, Places

_STEPS = 4  # from a variable to what it was made of
_SIZED = frozenset("zeros ones empty rand randn".split())  # what is given the size of what it makes
_REGISTERS = ("register_buffer", "register_parameter")


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
    sources = (_registered(places, node.value) or places.sources(node.value)) if beside else []
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


def _registered(places: Places, node: ast.expr) -> list[ast.expr | None]:
    """What a network keeps as a buffer or an attribute: `self.register_buffer("pe", pe)`, `self.pe = pe`."""
    function = places.draft.function(node)
    cls = places.passes[function][1] if function in places.passes else None
    if cls is None or not isinstance(node, ast.Attribute) or not is_self(node.value):
        return []
    found: list[ast.expr | None] = []
    for owner in places.facts.resolver.ancestry(cls):
        found += [b.value for b in places.facts.index.set_in(owner, node.attr)]
        for call in (c for name in _REGISTERS for c in places.facts.index.methods.get(name, ())):
            named = len(call.args) > 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == node.attr
            found += call.args[1:2] if named and places.facts.index.enclosing_class(call) is owner else []
    return found


def _has_different_rows(places: Places, source: ast.expr | None) -> bool:
    """Whether a table is made of drawn numbers, or of some that count up, perhaps in several steps, and has several
    rows."""
    if source is None or _is_one_row(places, source):
        return False
    made, seen = [source], {source}
    for part in made:  # it grows meanwhile
        for call in (n for n in walk(part) if isinstance(n, ast.Call)):
            module, _, name = (places.facts.resolver.qualified(call.func) or "").rpartition(".")
            counts = module in ("torch", "numpy") and name in NUMBERS
            if counts or drawn_by(places.facts.resolver, call) in ("torch", "numpy"):
                return True
        before = {value for name in loads(part) for value in _set_to(places, name)} - seen
        seen |= before
        made += before
    return False


def _set_to(places: Places, name: ast.Name) -> list[ast.expr]:
    """What a variable of a function is set to, as a whole or in part: `pe[:, 0::2] = torch.sin(position * scale)`."""
    function = places.draft.function(name)
    uses = places.draft.names_in(function).get(name.id, []) if function is not None else []
    statements = (places.facts.index.statement(use) for use in uses)
    return [s.value for s in statements if isinstance(s, ast.Assign) and is_same_name(container(s.targets[0]), name)]


def _is_one_row(places: Places, source: ast.expr | None, steps: int = _STEPS) -> bool:
    """Whether a table surely has one row, which all samples get: `pe.unsqueeze(0)`, `torch.randn(1, 50, 8)`."""
    if isinstance(source, ast.Name):
        bound = places.facts.resolver.bindings(source) if steps else []
        return bool(bound) and all(_is_one_row(places, b.value, steps - 1) for b in bound)
    if isinstance(source, ast.Subscript):
        first = source.slice.elts[0] if isinstance(source.slice, ast.Tuple) and source.slice.elts else source.slice
        return is_constant(first, None)
    if not isinstance(source, ast.Call) or not source.args:
        return False
    first = source.args[0]
    if isinstance(source.func, ast.Attribute) and source.func.attr == "unsqueeze":
        return integer(first) == 0
    module, _, name = (places.facts.resolver.qualified(source.func) or "").rpartition(".")
    if name == "Parameter":
        return _is_one_row(places, first, steps)
    sizes = first.elts if isinstance(first, (ast.Tuple, ast.List)) else source.args
    return module == "torch" and name in _SIZED and bool(sizes) and integer(sizes[0]) == 1
