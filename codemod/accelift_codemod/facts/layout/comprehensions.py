"""Comprehensions over the tensors of a batch: `{k: v.to(device) for k, v in batch.items()}`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.layout import decided, each
from accelift_codemod.facts.layout.algebra import (
    CURVING,
    FIXED,
    SCALARS,
    SOME,
    Environment,
    Frame,
    Layout,
    Listed,
    Record,
    Shape,
)

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts

_ALIKE = (Layout.ROWS, Layout.PICKED, Layout.QUOTIENT, Layout.MIXED, *SCALARS)
Comprehension = ast.ListComp | ast.GeneratorExp | ast.DictComp


def comprehension(layouts: Layouts, node: Comprehension, env: Environment, frame: Frame) -> Shape:
    """The layout of what a comprehension makes."""
    inner = dict(env)
    made = node.value if isinstance(node, ast.DictComp) else node.elt
    single = len(node.generators) == 1 and not node.generators[0].ifs
    record = _entries(layouts, node.generators[0].iter, env, frame) if single else None
    if record is not None and isinstance(node, ast.DictComp):
        produced: dict[str, Shape] = {}
        for name, part in zip(record.names, record, strict=True):
            layouts.assign(node.generators[0].target, (Layout.CONST, part), inner)
            produced[name] = layouts.read(made, inner, frame)
        return Record.of(produced)
    if _sets_against_all(layouts, node, env, frame):
        return Layout.MIXED
    iterated: Shape = Layout.CONST
    each_one: Shape = Layout.CONST
    kind = Listed if isinstance(node, ast.ListComp) else tuple
    for generator in node.generators:
        iterated = layouts.read(each.gone_through(layouts, generator.iter), inner, frame)
        if single and isinstance(iterated, tuple) and not isinstance(node, ast.DictComp):
            parts: list[Shape] = []
            for part in iterated:
                layouts.assign(generator.target, part, inner)
                parts.append(layouts.read(made, inner, frame))
            return kind(parts)
        each_one = layouts.entry(iterated)
        layouts.assign(generator.target, each_one, inner)
        if any(decided.goes_by(layouts, test, inner, frame) for test in generator.ifs):
            return Layout.MIXED
    result = layouts.read(made, inner, frame)
    if result is Layout.ROWS and (iterated is Layout.BATCH or _copies_batch(layouts, node, env, frame)):
        return Layout.BATCH
    if iterated is Layout.PIECES and not isinstance(node, ast.DictComp):
        return Layout.PIECES if result is Layout.PIECE else pieced(result)
    if isinstance(iterated, tuple) and result is not Layout.MIXED:
        return kind(result for _ in iterated)
    if each_one in FIXED and single and not isinstance(node, ast.DictComp) and result in _ALIKE:
        return kind((result, result))  # any number of them: two stand for all
    if isinstance(node, ast.DictComp) and result in (Layout.QUOTIENT, *SCALARS):
        return Record.of({SOME: result})
    if single and each_one is Layout.UNKNOWN and result in (Layout.QUOTIENT, *SCALARS):
        layouts.assign(node.generators[0].target, Layout.CONST, inner)
        if layouts.read(made, inner, frame) is result:  # a mean of each class, whichever there are
            return kind((result, result))
    return result if result in (Layout.MIXED, Layout.UNSURE, *FIXED) else Layout.UNKNOWN


def _sets_against_all(layouts: Layouts, node: Comprehension, env: Environment, frame: Frame) -> bool:
    """Whether each sample is set in relation to what all of them have in common: `[row - x.mean(0) for row in x]`."""
    first = node.generators[0]
    sample = each.one(layouts, first.iter, env, frame) if len(node.generators) == 1 else None
    if sample is None or isinstance(node, ast.DictComp):
        return False
    inner = dict(env)
    layouts.assign(first.target, sample, inner)
    outer, layouts.single = layouts.single, True
    found = layouts.read(node.elt, inner, frame)
    layouts.single = outer
    return found is Layout.MIXED or (found in CURVING and bool(stores(first.target) & {n.id for n in loads(node.elt)}))


def pieced(each: Shape) -> Shape:
    """What there is of all pieces, once it is added up or put together, of which there is one for each."""
    if each in (Layout.MEAN, Layout.WEIGHTED, Layout.QUOTIENT, Layout.PIECED):
        return Layout.PIECED
    return (each, each) if each is Layout.SUM else each if each is Layout.MIXED else Layout.UNKNOWN


def _copies_batch(layouts: Layouts, node: Comprehension, env: Environment, frame: Frame) -> bool:
    """Whether a comprehension makes a dict of the entries of a batch that is one, by their names."""
    source, target = node.generators[0].iter, node.generators[0].target
    if not (isinstance(node, ast.DictComp) and len(node.generators) == 1 and isinstance(target, ast.Tuple)):
        return False
    items = isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr == "items"
    name = target.elts[0]
    same = isinstance(node.key, ast.Name) and isinstance(name, ast.Name) and node.key.id == name.id
    return items and same and layouts.read(source.func.value, env, frame) is Layout.BATCH  # type: ignore[attr-defined]


def _entries(layouts: Layouts, node: ast.expr, env: Environment, frame: Frame) -> Record | None:
    """The dict whose `.items()` an expression is."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items"):
        return None
    found = layouts.read(node.func.value, env, frame)
    return found if isinstance(found, Record) else None
