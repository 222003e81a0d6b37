"""What is decided by what the clock says, or whether a file has come: whether loops are left, and models updated."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import files
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import LOOPS
from accelift_codemod.facts.own_values import CLOCKS, SECONDS
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured import called
from accelift_codemod.measured.asked import deciding
from accelift_codemod.measured.choices import SPELLED, Part, choices, weighs_up
from accelift_codemod.measured.steering import acts, meets
from accelift_codemod.measured.sums import Loop
from accelift_codemod.plan import Finding, Severity

_ASSIGNS = (ast.Assign, ast.AugAssign)

# Why processes leave a loop at different times, and when one knows that it should.
_CLOCK = "goes by the clock, which every process reads at another time", "the time is over"
_LEAVES = "leave the loop while others do not, and wait"
_LOADER = "go through a loader while others do not, and wait"
_BACKWARD = "run the backward pass while others do not, and wait"
_UPDATE = "update the model otherwise than others, and the processes end with different ones"
_LOSS = "train on another loss than others"
_FILE = "looks for a file, which may come or go between the looks of two processes", "it is seen"


def timed_around(draft: Draft) -> Iterator[Finding]:
    """The same as `timed` for the loops from which functions that train are called."""
    index = draft.facts.index
    queue = list(dict.fromkeys(loop.function for loop in draft.blueprint.train_loops if loop.function is not None))
    known, around = set(queue), dict[ast.AST, None]()
    for function in queue:
        for site in filter(draft.facts.runs, draft.facts.resolver.sites(function)):
            around.update(dict.fromkeys(n for n in index.enclosing_loops(site) if isinstance(n, LOOPS)))
            caller = index.function(site)
            if caller is not None and caller not in known:
                known.add(caller)
                queue.append(caller)
    lexical = {n for loop in draft.blueprint.train_loops for n in (loop.node, *index.enclosing_loops(loop.node))}
    outermost = [loop for loop in around if loop not in lexical and not around.keys() & {*index.enclosing_loops(loop)}]
    for loop in outermost:
        yield from _left_by_clock(draft, loop, around.keys())


def timed(draft: Draft, node: Loop) -> Iterator[Finding]:
    """Tests of what the clock says, or whether a file has come, in a training loop or the loops around it, that leave
    one of them, go through a loader that is shared out, or change how the model is trained; in functions that an
    iteration calls, too."""
    loops = [node, *(n for n in draft.facts.index.enclosing_loops(node) if isinstance(n, LOOPS))]
    yield from _left_by_clock(draft, loops[-1], loops)
    functions = dict.fromkeys(f for s in node.body for f in draft.blueprint.timeline.calls_into(s))
    for function in functions:
        for choice, test, parts in _tests(draft, function):
            if _clock(draft, test) is not None and (done := _done(draft, parts)):
                yield _told(draft, choice, test, _CLOCK, done)
    yield from _losses(draft, node)


def _losses(draft: Draft, node: Loop) -> Iterator[Finding]:
    """What a loss of a loop is computed from and the clock says, or is set by what it says."""
    fed = called.losses(node.body, draft.facts.loops.backwards_in(node))
    told: set[ast.AST] = set()
    for choice, test, parts in _tests(draft, node) if fed else ():
        chosen = [choice] if isinstance(choice, _ASSIGNS) else parts
        sets = {name for part in chosen for name in stores(part)} & fed
        if sets and _clock(draft, test) is not None and not _done(draft, parts):
            told.update((choice, *chosen))
            yield _told(draft, choice, test, _CLOCK, _LOSS)
    statements = (s for outer in node.body for s in walk(outer) if isinstance(s, _ASSIGNS) and s not in told)
    for target, value in (pair for statement in statements for pair in _set_to(statement)):
        calls = [n for n in walk(value) if isinstance(n, ast.Call)] if stores(target) & fed else []
        if any(draft.facts.resolver.qualified(call.func) in SECONDS for call in calls):
            yield draft.finding(
                "COLL-RANKFLOW",
                Severity.ERROR,
                value,
                f"`{draft.facts.segment(value)}` {_CLOCK[0]}: some would {_LOSS}",
                "go by the number of the iteration, or read the clock on the main process and broadcast what it says",
            )


def _set_to(statement: ast.Assign | ast.AugAssign) -> Iterator[tuple[ast.AST, ast.expr]]:
    """What a statement sets, with what to: each for itself in `out, took = model(x), time.time() - begun`."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    pairs = [target, statement.value]
    several = all(isinstance(n, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in n.elts) for n in pairs)
    if several and len(target.elts) == len(statement.value.elts):  # type: ignore[attr-defined]
        yield from zip(target.elts, statement.value.elts, strict=True)  # type: ignore[attr-defined]
    else:
        yield statement, statement.value


def _tests(draft: Draft, root: ast.AST) -> Iterator[tuple[ast.AST, ast.expr, list[Part]]]:
    """The choices in some code, what they go by, and what is run or not as that comes out."""
    for node in walk(root):
        if isinstance(node, (ast.If, ast.While)):
            yield node, node.test, [*node.body, *node.orelse]
        elif isinstance(node, SPELLED):
            yield from ((draft.facts.index.statement(node), test, parts) for test, parts in choices(draft, node))


def _left_by_clock(draft: Draft, outermost: ast.AST, loops: Collection[ast.AST]) -> Iterator[Finding]:
    for choice, test, parts in _tests(draft, outermost):
        timed = _clock(draft, test) is not None
        if not timed and not (isinstance(choice, (ast.If, ast.While)) and _asks_again(draft, choice)):
            continue
        inside = [n for part in parts for n in walk(part)]
        exits = [n for n in inside if isinstance(n, (ast.Break, ast.Continue))]
        left = any(around[0] in loops for n in exits if (around := draft.facts.index.enclosing_loops(n)))
        home = draft.facts.index.function(choice)
        returns = (n for n in inside if isinstance(n, ast.Return))
        if choice in loops or left or any(draft.facts.index.function(n) is home for n in returns):
            yield _told(draft, choice, test, _CLOCK if timed else _FILE, _LEAVES)
        elif (done := _done(draft, parts)) and (timed or done is _LOADER):
            yield _told(draft, choice, test, _CLOCK if timed else _FILE, done)


def _done(draft: Draft, parts: list[Part]) -> str:
    """What some processes would do while others do not; nothing if they would train alike."""
    if meets(draft, parts):
        return _LOADER
    if any(draft.facts.loops.is_backward(n) for part in parts for n in walk(part)):
        return _BACKWARD
    return _UPDATE if acts(draft, parts, saves=False) else ""


def _told(draft: Draft, place: ast.AST, test: ast.expr, why: tuple[str, str], done: str) -> Finding:
    does = "leave" if done is _LEAVES else "do it"
    return draft.finding(
        "COLL-RANKFLOW",
        Severity.ERROR,
        place,
        f"`{draft.facts.segment(test)}` {why[0]}: some would {done}",
        f"set_trigger where {why[1]}, and {does} where check_trigger says so, which asks all processes",
    )


def _asks_again(draft: Draft, statement: ast.If | ast.While) -> bool:
    """Whether a test looks for the same file in each iteration, as is done only for one that may come or go."""
    loops = draft.facts.index.enclosing_loops(statement) + [statement] * isinstance(statement, ast.While)
    bound = stores(loops[0]) if loops and isinstance(loops[0], ast.stmt) else set()
    resolver = draft.facts.resolver
    calls = [n for n in walk(statement.test) if isinstance(n, ast.Call)]
    asked = (c for c in calls if files.looks(resolver, c) or files.asks_inside(resolver, c))
    return any(not bound & {n.id for n in loads(call)} for call in asked)


def _clock(draft: Draft, test: ast.expr) -> ast.Call | None:
    """The call by which a test, or what its variables were set to, asks what time it is."""
    asked = list(deciding(draft, test))
    roots: list[ast.AST] = asked if any(isinstance(n, ast.Compare) and weighs_up(n) for n in asked) else []
    calls = [n for n in roots if isinstance(n, ast.Call)]
    calls += [n for f in draft.blueprint.timeline.calls_into(test) for n in walk(f) if isinstance(n, ast.Call)]
    return next((c for c in calls if draft.facts.resolver.qualified(c.func) in CLOCKS), None)
