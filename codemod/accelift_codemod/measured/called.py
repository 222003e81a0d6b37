"""Decisions that the functions take which an iteration calls, on what is in the process's share of a batch."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function, Role, position, torch_ops
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import LOOPS
from accelift_codemod.facts.layout import settled
from accelift_codemod.facts.scopes import parameters
from accelift_codemod.facts.tree import own_nodes, walk
from accelift_codemod.measured.asked import weighs_numbers
from accelift_codemod.measured.deciding import schedules
from accelift_codemod.measured.feeding import sets_source
from accelift_codemod.measured.shares import trained
from accelift_codemod.measured.steering import acts, is_caught, sets_group, updates
from accelift_codemod.measured.sums import Loop
from accelift_codemod.measured.switches import switched_by
from accelift_codemod.measured.updates import changes

_DEPTH = 3  # of functions that call functions
_PICKS = frozenset({"nonzero", "argwhere", "masked_select", "unique"})
_SIZES = torch_ops.OF_KIND | frozenset("shape size ndim dim ndimension type".split())


@dataclass
class Decision:
    """Where a function decides, by what, and what is different then: 'rate', 'leave', 'raise', 'backward', 'update',
    'loss', or only which 'pass' is made."""

    place: ast.AST
    by: ast.expr
    what: str


@dataclass
class _Called:
    """The functions that an iteration calls with values of a share, and the variables that have such values there."""

    whole: frozenset[ast.AST]  # what is given that of all processes
    local: dict[Function, set[str]] = field(default_factory=dict)
    followed: dict[tuple[Function, int], set[str]] = field(default_factory=dict)  # with what, by how deep
    attributes: set[str] = field(default_factory=set)  # of objects, which all their methods see


def decisions(draft: Draft, node: Loop, local: set[str], whole: Collection[ast.AST]) -> Iterator[Decision]:
    """The decisions of functions that an iteration calls, and by which processes would train otherwise; `whole` is what
    these are given that is made that of all processes."""
    for function, names in shares(draft, node, local, whole).items():
        for part in own_nodes(*function.body):
            yield from _decides(draft, function, part, names)


def shares(draft: Draft, node: Loop, local: set[str], whole: Collection[ast.AST] = ()) -> dict[Function, set[str]]:
    """The functions that an iteration calls with values of a share, and the variables that have such values there."""
    reached = _Called(frozenset(whole), attributes={name for name in local if "." in name})
    for _ in range(2):  # what one call leaves in an object, the next one reads
        for statement in node.body:
            _follow(draft, statement, local, reached, _DEPTH)
    return {function: names | reached.attributes for function, names in reached.local.items()}


def losses(body: list[ast.stmt], backwards: Iterable[ast.Call]) -> set[str]:
    """Variables that backward passes start from, and those that statements compute these from."""
    starts = [call.func.value for call in backwards if isinstance(call.func, ast.Attribute)]
    found = {n.id for start in starts for n in loads(start)}
    sets = [s for outer in body for s in walk(outer) if isinstance(s, (ast.Assign, ast.AugAssign))]
    read = [(stores(s), {n.id for n in loads(s.value)}) for s in sets] if found else []
    while more := {name for stored, names in read if stored & found for name in names} - found:
        found |= more
    return found


def _follow(draft: Draft, root: ast.AST, names: set[str], reached: _Called, depth: int) -> None:
    calls = (n for n in walk(root) if isinstance(n, ast.Call))
    for call, function in ((c, f) for c in calls for f in draft.facts.resolver.functions_run(c)):
        given = _given(draft, call, function)
        told = {name for name, a in given.items() if _read(draft, a, names) and reached.whole.isdisjoint(walk(a))}
        handed = told - {name for name in _filled(function) if not _is_data(draft, given.get(name))}
        if not depth or not (handed or reached.attributes):
            continue
        given_in = reached.local.get(function, set()) | handed | reached.attributes
        known = (reached.followed.get((function, deep)) for deep in range(depth, _DEPTH + 1))
        if any(before is not None and given_in <= before for before in known):
            continue  # of functions that call each other many times, once
        inside = _spread(draft, function, given_in)
        reached.followed[function, depth] = inside | given_in
        reached.local[function] = inside
        reached.attributes |= {name for name in inside if "." in name}
        for statement in function.body:
            _follow(draft, statement, inside, reached, depth - 1)


def _given(draft: Draft, call: ast.Call, function: Function) -> dict[str, ast.expr]:
    """What a call gives the parameters of a function: those that get the rest, all of it, and `f(*args)` gives the
    others what is in `args`."""
    packs = {p.arg for p in (function.args.vararg, function.args.kwarg) if p is not None}
    names = [p.arg for p in parameters(function.args) if p.arg not in packs]
    given = draft.facts.resolver.bind(call, function)
    if given is not None:
        given = {name: argument for name, argument in given.items() if name in names}
        rest = [a for a in (*call.args, *(k.value for k in call.keywords)) if a not in given.values()]
        unsaid = packs
    else:
        rest = [a.value for a in call.args if isinstance(a, ast.Starred)]
        rest += [k.value for k in call.keywords if k.arg is None]
        places = [*names[draft.facts.resolver.is_bound(call, function) :], *packs]
        said = ((name, draft.facts.resolver.said(call, function, name)) for name in places)
        given = {name: argument for name, argument in said if argument is not None}
        unsaid = {*places} - {*given}
    return given | dict.fromkeys(unsaid, ast.Tuple(rest, ast.Load())) if rest else given


def _filled(function: Function) -> set[str]:
    """The variables of which a function sets entries: which of them differ, the entries tell."""
    sets = (n for n in own_nodes(*function.body) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store))
    return {n.value.id for n in sets if isinstance(n.value, ast.Name) and isinstance(n.slice, ast.Constant)}


def _is_data(draft: Draft, argument: ast.expr | None) -> bool:
    return argument is not None and bool(draft.facts.resolver.roles(argument) & {Role.BATCH, Role.DATA})


def _spread(draft: Draft, function: Function, names: set[str]) -> set[str]:
    """Names, with those that a function sets from them; networks and what trains them are the same everywhere."""
    same = trained(draft, function)
    sets = [n for n in own_nodes(*function.body) if isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign))]
    tests = {n: [t for t in draft.facts.index.tests_around(n, function) if weighs_numbers(draft, t)] for n in sets}
    before = set(names) - same
    while True:
        after = set(before)
        for statement in sets:
            if any(_read(draft, part, after) for part in (statement.value, *tests[statement]) if part is not None):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                after |= {_key(n) for target in targets for n in _targets(target)} - same
        if after == before:
            return after
        before = after


def _targets(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _targets(part)
    elif isinstance(target, (ast.Name, ast.Subscript)):
        yield target


def _key(node: ast.expr) -> str:
    """A variable, or an entry of one by what it is called: of a dict, one entry may differ, and another not."""
    if isinstance(node, ast.Subscript):
        entry = f"[{node.slice.value!r}]" if isinstance(node.slice, ast.Constant) else ""
        return f"{_key(node.value)}{entry}"
    return node.id if isinstance(node, ast.Name) else ""


def _read(draft: Draft, node: ast.AST, names: set[str]) -> bool:
    """Whether an expression reads one of the names, and not only its size, its kind, or whether it is there."""
    parents = draft.facts.index.parents
    for name in loads(node):
        parent = parents.get(name)
        entry = _key(parent) if isinstance(parent, ast.Subscript) and parent.value is name else name.id
        if (name.id in names or entry in names) and not _asks_of(draft, name, parent):
            return True
    return False


def _asks_of(draft: Draft, name: ast.Name, parent: ast.AST | None) -> bool:
    """Whether it is only asked how large something is, of which kind, or whether it is there."""
    if isinstance(parent, ast.Attribute):
        return parent.attr in _SIZES
    if isinstance(parent, ast.Compare):
        return any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in parent.ops)
    if isinstance(parent, ast.Call) and name in parent.args:
        if _is_picked(draft, name):
            return False  # how many there are depends on what they are
        return draft.facts.resolver.builtin(parent.func) in ("len", "isinstance", "hasattr", "callable", "type")
    return False


def _is_picked(draft: Draft, name: ast.Name) -> bool:
    """Whether a variable holds what is picked by what it is, or the places of that, in an arm that may be taken."""
    resolver = draft.facts.resolver
    for bound in resolver.bindings(name):
        parts = walk(bound.value) if bound.value is not None else ()
        picks = any(isinstance(n, ast.Call) and _picks(draft, n) for n in parts)
        if picks and settled.may_run(resolver, bound.node):
            return True
    return False


def _picks(draft: Draft, call: ast.Call) -> bool:
    name = draft.facts.resolver.qualified(call.func) or ""
    called = name.rpartition(".")[2] if name else getattr(call.func, "attr", "")
    return called in _PICKS or (called == "where" and name != "" and len(call.args) == 1)


def _decides(draft: Draft, function: Function, node: ast.AST, names: set[str]) -> Iterator[Decision]:
    steered = sets_group(draft, node) or sets_source(draft, node)
    if steered and isinstance(node, (ast.Assign, ast.AugAssign)) and _read(draft, node.value, names):
        yield Decision(node, node.value, "update")
    else:
        by = changes(draft, node, names) if isinstance(node, ast.stmt) else None
        told = (value for value in switched_by(draft, node) if _read(draft, value, names))
        if (by := by or next(told, None)) is not None:
            yield Decision(node, by, "update")
    if isinstance(node, ast.Call) and schedules(draft, node):
        yield from (Decision(node, a, "rate") for a in node.args[:1] if _read(draft, a, names))
    if not isinstance(node, (ast.If, ast.While, ast.IfExp)) or not _compares(node.test, function):
        return
    if _read(draft, node.test, names) and settled.outcome(draft.facts.resolver, node.test) is None:
        yield Decision(node, node.test, _otherwise(draft, function, node))


def _compares(test: ast.expr, function: Function) -> bool:
    """Whether a test weighs something up; a parameter by itself is a switch, which callers set."""
    parameters = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    bare = test.operand if isinstance(test, ast.UnaryOp) else test
    return not (isinstance(bare, ast.Name) and bare.id in parameters)


def _otherwise(draft: Draft, function: Function, choice: ast.If | ast.While | ast.IfExp) -> str:
    """What processes would do otherwise by a test; only a 'pass' if they would train alike."""
    expression = isinstance(choice, ast.IfExp)
    arms = [choice.body, choice.orelse] if isinstance(choice, ast.IfExp) else [*choice.body, *choice.orelse]
    inside = [n for part in arms for n in walk(part)]
    if draft.facts.loops.reaches_backward(arms):
        return "backward"
    later = [
        n for n in own_nodes(*function.body) if isinstance(n, (ast.stmt, ast.Call)) and position(n) > position(choice)
    ]
    if any(isinstance(n, ast.Return) for n in inside) and any(_trains(draft, n) for n in later if n not in inside):
        return "leave"
    if any(isinstance(n, (ast.Break, ast.Continue)) and _in_training(draft, function, n) for n in inside):
        return "leave"
    if any(isinstance(n, ast.Raise) for n in inside) and is_caught(draft, choice):
        return "raise"
    if acts(draft, arms, saves=False):
        return "update"
    backwards = [n for n in later if isinstance(n, ast.Call) and draft.facts.loops.is_backward(n)]
    set_in = [draft.facts.index.statement(choice)] if expression else arms
    sets = {name for part in set_in for name in stores(part)} if backwards else set()
    return "loss" if sets & losses(function.body, backwards) and weighs_numbers(draft, choice.test) else "pass"


def _trains(draft: Draft, node: ast.AST) -> bool:
    if isinstance(node, ast.stmt) and draft.facts.loops.reaches_backward([node]):
        return True
    return updates(draft, node)


def _in_training(draft: Draft, function: Function, node: ast.AST) -> bool:
    """Whether the loop that a statement of a function leaves, or goes on with, runs backward passes."""
    around = [n for n in draft.facts.index.ancestors(node) if isinstance(n, LOOPS)]
    mine = around[0] if around and draft.facts.index.function(around[0]) is function else None
    return mine is not None and draft.facts.loops.reaches_backward(mine.body)
