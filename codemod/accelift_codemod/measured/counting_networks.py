"""Numbers that networks count, or keep, in their own methods of the batches that they are run on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, torch_ops
from accelift_codemod.facts.keeping import PUTS
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import children, targets, walk
from accelift_codemod.following.onward import Read, reached
from accelift_codemod.measured.filling import places
from accelift_codemod.measured.numbers import number_of
from accelift_codemod.measured.said import how
from accelift_codemod.measured.steering import steers
from accelift_codemod.networks.methods import attribute, is_self
from accelift_codemod.networks.visits import Visit, changing, runs, visits
from accelift_codemod.plan import Finding, Severity


def counted(draft: Draft) -> Iterator[Finding]:
    """What is told of such numbers, and what decides by them: each process counts its own share."""
    known: set[tuple[ast.ClassDef, str]] = set()
    for loop in draft.blueprint.train_loops:
        for call, model, method in runs(draft, loop):
            given = changing(draft, loop, call, method, (Layout.CONST, Layout.ZERO))
            for visit in visits(draft, model, method, given, _differs, set()):
                for write, name in _writes(draft, visit):
                    if (visit.cls, name) not in known:
                        known.add((visit.cls, name))
                        reads = _reads(draft, visit.cls, name, write)
                        computed = _carries(write, name) and any(_computes(draft, visit, read) for read in reads)
                        yield from [_own(draft, write, name)] if computed else said(draft, write, f"self.{name}", reads)
                for write, name in _leaves(visit):
                    if (visit.cls, name) not in known:
                        known.add((visit.cls, name))
                        reads = _reads(draft, visit.cls, name, write)
                        yield from said(
                            draft, write, f"self.{name}", [r for r in reads if is_of_training(draft, r)], tests=False
                        )


def _own(draft: Draft, write: ast.AST, name: str) -> Finding:
    return draft.finding(
        "BUFFER-OWN",
        Severity.WARNING,
        write,
        f"`self.{name}` follows what a process computes from its own share of the batch, and the network computes with "
        "it: every process would have something else",
        "work it out of what all processes have, averaged by accelerator.reduce",
    )


def _carries(write: ast.AST, name: str) -> bool:
    """Whether what is written is made of what has been there before: `self.scale = 0.9 * self.scale + ...`."""
    inside = write.value if isinstance(write, ast.Assign) else None
    own = inside is not None and any(isinstance(n, ast.Attribute) and attribute(n) == name for n in walk(inside))
    return own or isinstance(write, ast.AugAssign)


def _computes(draft: Draft, visit: Visit, read: Read) -> bool:
    """Whether a method that runs on a batch computes with what is read: it is no test, and not shown."""
    if read not in visit.nodes or _told(draft, read):
        return False
    for parent in draft.facts.index.ancestors(read):
        if isinstance(parent, ast.stmt):
            writes = isinstance(parent, (ast.Assign, ast.AugAssign)) and any(attribute(t) for t in targets(parent))
            return isinstance(parent, (ast.Assign, ast.AugAssign, ast.Return)) and not writes
    return False


def _leaves(visit: Visit) -> Iterator[tuple[ast.AST, str]]:
    """Where a method leaves a tensor of the batch in an attribute of its object."""
    for node in visit.nodes:
        if isinstance(node, ast.Assign) and _differs(node.value, visit.tainted) and not _is_size(node.value):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and is_self(target.value):
                    yield node, target.attr


def is_of_training(draft: Draft, read: Read) -> bool:
    """Whether what is read is what training has left: no network has been run otherwise before it in its function."""
    trains = draft.blueprint.in_training
    if read in trains:
        return True
    calls = (n for n in draft.calls if n not in trains and draft.function(n) is draft.function(read))
    return not any(draft.facts.objects.models(n.func) and n.lineno <= read.lineno for n in calls)


def said(draft: Draft, write: ast.AST, name: str, reads: list[Read], *, tests: bool = True) -> Iterator[Finding]:
    """What is told of something of a share, or decides, where others read it.

    Without `tests` it may be a part of a loss: nothing is said of decisions, nor of what an iteration makes of it.
    """
    if tests and reads and steers(draft, reads):
        yield draft.finding(
            "COLL-RANKFLOW",
            Severity.ERROR,
            write,
            f"`{name}` is of one process's share of the data, and a decision depends on it",
            "average it across processes with accelerator.reduce before it is used",
        )
        return
    trains = set() if tests else draft.blueprint.in_training
    onward = [*reads, *reached(draft, [read for read in reads if read not in trains])]
    ways = [way for read in onward for way in (_told(draft, read),) if way]
    if ways:
        yield draft.finding(
            "METRIC-TRAIN",
            Severity.NOTE,
            write,
            f"`{name}` covers only the share of the process that {ways[0]} it",
            "gather the values if the exact figure matters",
        )


def _told(draft: Draft, read: Read) -> str:
    """How a statement tells what is read: it `prints` or `writes` it."""
    for parent in draft.facts.index.ancestors(read):
        if isinstance(parent, ast.stmt):
            break
        if isinstance(parent, ast.Attribute) and parent.attr in torch_ops.ABOUT | {"keys"}:
            break
        if isinstance(parent, ast.Call) and draft.facts.resolver.builtin(parent.func) == "len":
            break
        if isinstance(parent, ast.Call) and (way := how(draft, parent)):
            return way
    return ""


def _writes(draft: Draft, visit: Visit) -> Iterator[tuple[ast.AST, str]]:
    """Where a method puts a number that depends on the batch into an attribute of its object."""
    for node in visit.nodes:
        if isinstance(node, ast.AugAssign) and any(_differs(place, visit.tainted) for place in places(node)):
            if name := attribute(node.target):  # `self.usage[expert] += 1`
                yield node, name
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            adds = isinstance(node, ast.AugAssign) or any(_has(node.value, t) for t in node.targets)
            if _is_number(draft, node.value, visit.tainted, adds):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if name := attribute(target):
                        yield node, name
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PUTS:
            name = attribute(node.func.value)
            if name and any(_is_number(draft, a, visit.tainted, False) for a in node.args):
                yield node, name


def _has(value: ast.expr, target: ast.expr) -> bool:
    """Whether a value is computed with what it takes the place of: `self.seen = self.seen + len(x)`."""
    name = target.attr if isinstance(target, ast.Attribute) else ""
    named = [n for n in walk(value) if isinstance(n, ast.Attribute) and n.attr == name]
    return bool(named) and ast.unparse(target) in map(ast.unparse, named)


def _is_number(draft: Draft, node: ast.expr, tainted: set[str], adds: bool) -> bool:
    """Whether a value is a number that is taken of a batch; how many rows that has is one only where it is added up."""
    return _differs(node, tainted) and not _rest(draft, node, tainted, adds)


def _rest(draft: Draft, node: ast.AST, tainted: set[str], adds: bool) -> bool:
    """Whether an expression depends on a batch by other things than numbers that are taken of it."""
    if isinstance(node, ast.expr) and _is_taken(draft, node):
        return False
    if isinstance(node, ast.Name):
        return node.id in tainted and not _holds_number(draft, node, adds)
    if _is_size(node):
        return not adds
    return any(_rest(draft, child, tainted, adds) for child in children(node))


def _holds_number(draft: Draft, name: ast.Name, adds: bool) -> bool:
    """Whether a variable holds what is taken of a tensor, or (if it `adds`) a number of rows: `n = x.size(0)`."""
    values: list[ast.expr | None] = []
    for binding in draft.facts.resolver.bindings(name):
        handed = draft.facts.resolver.handed(binding) if binding.how is How.PARAMETER else [binding.value]
        values += handed or [None]
    return bool(values) and all(_is_taken(draft, v) or (adds and v is not None and _is_size(v)) for v in values)


def _is_taken(draft: Draft, node: ast.expr | None) -> bool:
    """Whether a number is taken of a tensor: `x.mean().item()`."""
    return isinstance(node, ast.Call) and number_of(draft, node) is not None


def _is_size(node: ast.AST) -> bool:
    """Whether an expression says how large something is."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id == "len"
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return isinstance(node, ast.Attribute) and node.attr in torch_ops.ABOUT


def _differs(node: ast.AST, tainted: set[str]) -> bool:
    """Whether an expression depends on some variables, and be it on how many rows they have."""
    if isinstance(node, ast.Name):
        return node.id in tainted
    if isinstance(node, ast.Subscript) and _is_size(node.value):
        return _first(node.slice) and _differs(node.value, tainted)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("size", "dim"):
        return all(map(_first, node.args)) and node.func.attr == "size" and _differs(node.func.value, tainted)
    if isinstance(node, ast.Attribute) and node.attr in ("dtype", "device", "ndim"):
        return False
    return any(_differs(child, tainted) for child in children(node))


def _first(node: ast.expr) -> bool:
    """Whether a dimension may be that of the rows."""
    return not isinstance(node, ast.Constant) or node.value == 0


def _reads(draft: Draft, cls: ast.ClassDef, name: str, write: ast.AST) -> list[Read]:
    """Where others read an attribute of the objects of a class, or its other methods do."""
    resolver = draft.facts.resolver
    inside = {*walk(write)}
    found: list[Read] = []
    for read in draft.facts.index.attributes.get(name, []):
        if read in inside or not isinstance(read.ctx, ast.Load):
            continue
        owners = {v.declaration for v in resolver.values(read.value)}
        if is_self(read.value):
            owners.add(draft.facts.index.enclosing_class(read))
        if any(
            isinstance(o, ast.ClassDef) and (o in resolver.ancestry(cls) or cls in resolver.ancestry(o)) for o in owners
        ):
            found.append(read)
    return found
