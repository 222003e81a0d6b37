"""Parameters of functions that nothing reads any more: `use_cuda`, which only asked whether to move a batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from accelift_codemod.draft import Draft, mentioned
from accelift_codemod.facts.index import FUNCTIONS, Function, How
from accelift_codemod.facts.signatures import given
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Operation

_UNREAD = "nothing reads it any more"
_READ_ALL = frozenset({"locals", "vars", "eval", "exec"})


def dropped(draft: Draft, rule: str, is_pure: Callable[[ast.expr], bool]) -> Iterator[Edit]:
    """The edits that take such parameters out, at every call, too.

    Args:
        draft: the draft of the conversion.
        rule: the code of the rule that takes them out.
        is_pure: whether evaluating an expression does nothing but ask.
    """
    for function in draft.facts.index.functions if not draft.facts.processes.managed else ():
        if not isinstance(function, FUNCTIONS) or isinstance(draft.facts.index.parents[function], ast.ClassDef):
            continue
        for parameter in (*function.args.args, *function.args.kwonlyargs):
            if not _is_lost(draft, function, parameter) or not _is_all_told(draft, function, parameter.arg):
                continue
            calls = draft.facts.resolver.sites(function)
            binds = [draft.facts.resolver.bind(c, function) for c in calls]
            values = [(c, bound.get(parameter.arg)) for c, bound in zip(calls, binds, strict=True) if bound is not None]
            told = [(call, value) for call, value in values if value is not None]
            if len(values) < len(binds) or not all(_goes(draft, c, v) and is_pure(v) for c, v in told):
                continue
            yield draft.edit(rule, parameter, Operation.DROP_PARAMETER, _UNREAD)
            yield from (_without(draft, rule, call, value) for call, value in told)


def _without(draft: Draft, rule: str, call: ast.Call, argument: ast.expr) -> Edit:
    """The edit that takes an argument out of a call: by its place where it is a literal, or an f-string."""
    exchanged = [e for e in draft.edits_at(call) if e.operation in (Operation.ARGUMENT, Operation.SURROUND)]
    for other in (*draft.edits_at(argument), *exchanged):
        if other.node is argument or (other.place is not None and call.args[other.place] is argument):
            draft.remove(other)  # what it becomes goes, too
    if not isinstance(argument, (ast.Constant, ast.JoinedStr)):
        return draft.edit(rule, argument, Operation.DROP_ARGUMENT, _UNREAD)
    place = [part.value if isinstance(part, ast.keyword) else part for part in given(call)].index(argument)
    return draft.edit(rule, call, Operation.DROP_ARGUMENT, _UNREAD, place=place)


def reads_all(draft: Draft, function: ast.AST) -> bool:
    """Whether a function may read any variable of its own without its name: `"{use_cuda}".format(**locals())`."""
    calls = (c for c in draft.calls if draft.function(c) is function)
    return any(draft.facts.resolver.builtin(c.func) in _READ_ALL for c in calls)


def _is_lost(draft: Draft, function: Function, parameter: ast.arg) -> bool:
    """Whether a parameter was read before the conversion and is not any more."""
    scope, name = draft.facts.index.scopes[function], parameter.arg
    loads = draft.facts.loads(scope, name)
    if not loads or not all(map(draft.gone, loads)) or draft.gone(parameter) or draft.edits_at(parameter):
        return False
    if [b.how for b in scope.bindings[name]] != [How.PARAMETER]:
        return False
    return not any(name in mentioned(e.code) for node in walk(function) for e in draft.edits_at(node))


def _goes(draft: Draft, call: ast.Call, argument: ast.expr) -> bool:
    """Whether an argument is written in the call itself, not in a dict that it is given, and no edit has to
    do with it yet."""
    written = argument in call.args or any(k.value is argument for k in call.keywords)
    return written and not draft.gone(argument) and not any(draft.edits_at(node) for node in walk(argument))


def _is_all_told(draft: Draft, function: Function, name: str) -> bool:
    """Whether all calls of a function are known, and nothing is said of a parameter that would stay behind."""
    calls = draft.facts.resolver.sites(function)
    if not calls or function.name in draft.facts.wanted or draft.facts.references(function):
        return False
    if reads_all(draft, function) or not draft.facts.same_file(function, draft.facts.tree.body[-1]):
        return False  # other scripts may call what is imported, and what keeps it in one would part them
    if function.decorator_list or draft.facts.is_twin(function) or function.args.kwarg or function.args.vararg:
        return False
    head = draft.facts.segment(function).split("\n")[: function.body[0].lineno - function.lineno]
    if any("#" in text for text in (*head, *map(draft.facts.segment, calls))):
        return False  # a comment may be about it
    return re.search(rf"\b{name}\b", ast.get_docstring(function, clean=False) or "") is None
