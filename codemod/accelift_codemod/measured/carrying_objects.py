"""What objects carry from batch to batch, and losses are computed with: a baseline's moving average of the costs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Role
from accelift_codemod.facts.effects import computes_with, loads, stores
from accelift_codemod.facts.index import Function
from accelift_codemod.facts.layout.algebra import FIXED
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import walk
from accelift_codemod.networks.methods import attribute
from accelift_codemod.networks.visits import Visit, changing, visits
from accelift_codemod.plan import Finding, Severity

Carried = tuple[ast.AST, ast.ClassDef, str]
_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "vstack", "hstack"})


def carrying(draft: Draft) -> Iterator[Finding]:
    """What is told of it: every process carries on what its own share gives."""
    told: set[tuple[ast.ClassDef, str]] = set()
    found = (writes for loop in draft.blueprint.train_loops for writes in carried(draft, loop).values())
    for write, cls, name in (one for writes in found for one in writes):
        if (cls, name) not in told:
            told.add((cls, name))
            yield draft.finding(
                "BUFFER-OWN",
                Severity.WARNING,
                write,
                f"`self.{name}` follows what a process computes from its own share of the batch, and the loss is "
                "computed with it: every process would have something else",
                "work it out of what all processes have, averaged by accelerator.reduce",
            )


@kept
def carried(draft: Draft, loop: BatchLoop) -> dict[ast.Call, list[Carried]]:
    """The calls that give losses something that an object carries on, each with where it does, and in what."""
    found: dict[ast.Call, list[Carried]] = {}
    for call, cls, method in _asked(draft, loop):
        found.setdefault(call, []).extend(_carried(draft, loop, call, cls, method))
    losses = led(draft, loop) if any(found.values()) else set()
    return {call: writes for call, writes in found.items() if writes and call in losses}


def _asked(draft: Draft, loop: BatchLoop) -> Iterator[tuple[ast.Call, ast.ClassDef, Function]]:
    """The calls of methods of objects of the script, other than networks, in a loop and in what it calls."""
    resolver = draft.facts.resolver
    functions = dict.fromkeys(f for s in loop.body for f in draft.blueprint.timeline.calls_into(s))
    for call in (n for part in (*loop.body, *functions) for n in walk(part) if isinstance(n, ast.Call)):
        by_name = isinstance(call.func, ast.Attribute)
        of, name = (
            (call.func.value, call.func.attr) if isinstance(call.func, ast.Attribute) else (call.func, "__call__")
        )
        for value in resolver.values(of) if by_name or isinstance(of, ast.Name) else ():
            cls = value.declaration if value.role is Role.OBJECT else None
            method = resolver.method(cls, name) if isinstance(cls, ast.ClassDef) else None
            if method is not None and isinstance(cls, ast.ClassDef):
                yield call, cls, method


def _carried(draft: Draft, loop: BatchLoop, call: ast.Call, cls: ast.ClassDef, method: Function) -> Iterator[Carried]:
    """Where such a method makes an attribute of what it was and of the batch, and returns something of it.

    Samples that it joins to earlier ones are a pool (see tables.py).
    """
    given = changing(draft, loop, call, method, FIXED)
    for visit in visits(draft, cls, method, given, computes_with, set()):
        for node in visit.nodes:
            if not isinstance(node, (ast.Assign, ast.AugAssign)) or not computes_with(node.value, visit.tainted):
                continue
            if any(isinstance(n, ast.Attribute) and n.attr in _JOINS for n in walk(node.value)):
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                name = attribute(target)
                made = _made_of(visit, name) if name else set()
                carries = isinstance(node, ast.AugAssign) or _has(node.value, name, made)
                returns = (n.value for n in visit.nodes if isinstance(n, ast.Return) and n.value is not None)
                if name and carries and any(_has(value, name, made) for value in returns):
                    yield node, visit.cls, name


def _made_of(visit: Visit, name: str) -> set[str]:
    """The variables of a method that are computed from an attribute of its object."""
    found: set[str] = set()
    sets = [n for n in visit.nodes if isinstance(n, (ast.Assign, ast.AugAssign))]
    for _ in range(2):
        for node in sets:
            if _has(node.value, name, found):
                found |= stores(node)
    return found


def _has(node: ast.expr, name: str, names: set[str]) -> bool:
    own = any(isinstance(n, ast.Attribute) and n.attr == name == attribute(n) for n in walk(node))
    return own or any(n.id in names for n in loads(node))


@kept
def led(draft: Draft, loop: BatchLoop) -> set[ast.AST]:
    """All that the losses of a loop are computed from."""
    loops = draft.facts.loops
    calls = [c for c in loops.backwards if isinstance(c.func, ast.Attribute) and loop in draft.training_around(c)]
    return {n for c in calls if isinstance(c.func, ast.Attribute) for n in loops.gradients.led(c.func.value)}
