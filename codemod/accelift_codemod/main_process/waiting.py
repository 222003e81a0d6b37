"""Where all processes wait for the main one: never in a line, or a function, that the main process runs alone."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from accelift_codemod.facts import files
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.plan import Edit, Operation, Span

if TYPE_CHECKING:
    from accelift_codemod.draft import Draft

WAIT = "wait_for_everyone()"


def run_by_all(draft: Draft, node: ast.AST) -> list[ast.AST]:
    """Where all processes run a node: itself; or where the lambda is called that has it, or the function, if other
    calls of that are the main process's alone, or are made if a file is there, which every process asks for itself."""
    found: dict[ast.AST, None] = {}
    queue, seen = [node], set[ast.AST]()
    while queue:
        current = queue.pop()
        if current in seen or draft.guarded(current):
            continue
        seen.add(current)
        called: list[ast.AST] = [*draft.blueprint.timeline.reads_of_lambda(current)]
        function = draft.function(current)
        if not called and isinstance(function, FUNCTIONS) and _is_guarded_somewhere(draft, function):
            called = [*draft.facts.resolver.sites(function)]
        elif not called and isinstance(function, FUNCTIONS) and _is_asked_for(draft, function, current):
            called = [site for site in draft.facts.resolver.sites(function) if draft.facts.runs(site)]
        elif not called:
            found[current] = None
        queue += called
    return [*found]


def _is_asked_for(draft: Draft, function: Function, read: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a function does nothing before it reads, and a call of it, or of one that does nothing before that, is
    under a condition that asks for files."""
    if function in seen or draft.does_more(function, read):
        return False
    for site in draft.facts.resolver.sites(function):
        caller = draft.function(site)
        if _is_under_one(draft, site):
            return True
        if isinstance(caller, FUNCTIONS) and _is_asked_for(draft, caller, site, seen | {function}):
            return True
    return False


def _is_under_one(draft: Draft, site: ast.Call) -> bool:
    """Whether a call is under a condition that asks for files, or for what has been found before."""
    resolver, index = draft.facts.resolver, draft.facts.index
    around = (s for s in index.chain(site) if isinstance(s, ast.If))
    asked = any(files.asks(resolver, s.test) or files.listing(resolver, s.test) is not None for s in around)
    return asked or files.asked_before(resolver, site)


def _is_guarded_somewhere(draft: Draft, function: Function) -> bool:
    """Whether one of the calls that lead to a function is in a line that is the main process's alone."""
    queue, seen = [function], {function}
    while queue:
        for site in draft.facts.resolver.sites(queue.pop()):
            if draft.guarded(site):
                return True
            caller = draft.function(site)
            if isinstance(caller, FUNCTIONS) and caller not in seen:
                seen.add(caller)
                queue.append(caller)
    return False


def settle(draft: Draft) -> None:
    """Once it is known what the main process does alone, waits in functions that it calls there are put before their
    other calls."""
    for edit in [e for e in draft.edits if is_wait(e)]:
        function = draft.function(edit.node) if edit.node is not None else None
        if not isinstance(function, FUNCTIONS) or not _is_guarded_somewhere(draft, function):
            continue
        places = [place for site in draft.facts.resolver.sites(function) for place in run_by_all(draft, site)]
        draft.remove(edit)
        for statement in dict.fromkeys(map(draft.facts.index.statement, places)):
            if not any(map(is_wait, draft.edits_at(statement))):
                draft.add(replace(edit, node=statement, span=Span.of(statement)))


def is_handling(draft: Draft, statement: ast.stmt) -> bool:
    """Whether a statement runs where something has failed, which it may have for some processes only."""
    index = draft.facts.index
    function = index.function(statement)
    return any(isinstance(p, ast.ExceptHandler) and index.function(p) is function for p in index.ancestors(statement))


def is_wait(edit: Edit) -> bool:
    return edit.operation is Operation.BEFORE and WAIT in edit.code
