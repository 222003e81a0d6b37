"""Loops that are left, or not, by what the clock says, or whether a file has come."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, files
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import LOOPS
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured.choices import weighs_up
from accelift_codemod.measured.steering import meets
from accelift_codemod.measured.sums import Loop
from accelift_codemod.plan import Finding, Severity

_CLOCKS = frozenset("time.time time.perf_counter time.monotonic time.process_time time.time_ns".split()) | {
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
}

# Why processes leave a loop at different times, and when one knows that it should.
_CLOCK = "goes by the clock, which every process reads at another time", "the time is over"
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
    one of them, or go through a loader that is shared out."""
    loops = [node, *(n for n in draft.facts.index.enclosing_loops(node) if isinstance(n, LOOPS))]
    yield from _left_by_clock(draft, loops[-1], loops)


def _left_by_clock(draft: Draft, outermost: ast.AST, loops: Collection[ast.AST]) -> Iterator[Finding]:
    for statement in walk(outermost):
        if not isinstance(statement, (ast.If, ast.While)):
            continue
        timed = _clock(draft, statement.test) is not None
        if not timed and not _asks_again(draft, statement):
            continue
        inside = [n for s in statement.body for n in walk(s)]
        exits = [n for n in inside if isinstance(n, (ast.Break, ast.Continue))]
        left = any(around[0] in loops for n in exits if (around := draft.facts.index.enclosing_loops(n)))
        leaves = statement in loops or left or any(isinstance(n, ast.Return) for n in inside)
        if leaves or meets(draft, [*statement.body, *statement.orelse]):
            what, does = ("leave the loop", "leave") if leaves else ("go through a loader", "do it")
            why, when = _CLOCK if timed else _FILE
            asked = draft.facts.segment(statement.test)
            yield draft.finding(
                "COLL-RANKFLOW",
                Severity.ERROR,
                statement,
                f"`{asked}` {why}: some would {what} while others do not, and wait",
                f"set_trigger where {when}, and {does} where check_trigger says so, which asks all processes",
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
    roots: list[ast.AST] = [test] if weighs_up(test) else []
    for name in loads(test) if roots else ():
        bound = [b for b in draft.facts.resolver.bindings(name) if b.how is How.ASSIGN and not b.path]
        roots += [b.value for b in bound if b.value is not None]
    roots += draft.blueprint.timeline.calls_into(test)
    calls = (n for root in roots for n in walk(root) if isinstance(n, ast.Call))
    return next((c for c in calls if draft.facts.resolver.qualified(c.func) in _CLOCKS), None)
