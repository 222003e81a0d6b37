"""Arguments and signatures: which argument a parameter gets."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import Function
from accelift_codemod.facts.scopes import parameters

PARTIAL = "functools.partial"


def with_partial(call: ast.Call, made: ast.Call) -> ast.Call:
    """A call of what `functools.partial` has made, with all that the function is given: `partial(f, a)(b)` is
    `f(a, b)`."""
    own = {k.arg for k in call.keywords}
    kept = [k for k in made.keywords if k.arg is None or k.arg not in own]
    return ast.Call(call.func, [*made.args[1:], *call.args], [*kept, *call.keywords])


def is_told(call: ast.Call) -> bool:
    """Whether no argument of a call is hidden by `*` or `**`."""
    return all(k.arg for k in call.keywords) and not any(isinstance(a, ast.Starred) for a in call.args)


def bind(call: ast.Call, function: Function | ast.Lambda, bound: bool = False) -> dict[str, ast.expr] | None:
    """Arguments by parameter name, for the parameters the call gives; None if `*` or `**` hides them.

    `bound` says that the first parameter (self) is already filled.
    """
    arguments = function.args
    names = [p.arg for p in (*arguments.posonlyargs, *arguments.args)]
    if bound:
        names = names[1:]
    given: dict[str, ast.expr] = {}
    for i, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred):
            return None
        if i < len(names):
            given[names[i]] = argument
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        given[keyword.arg] = keyword.value
    return given


def told(call: ast.Call, function: Function | ast.Lambda, bound: bool = False) -> dict[str, ast.expr]:
    """The arguments that a call says itself, by parameter name, whatever `*` or `**` may add."""
    starred = next((i for i, a in enumerate(call.args) if isinstance(a, ast.Starred)), len(call.args))
    said = ast.Call(call.func, call.args[:starred], [k for k in call.keywords if k.arg is not None])
    return bind(said, function, bound) or {}


def given(call: ast.Call) -> list[ast.expr | ast.keyword]:
    """All arguments of a call, as they stand in the source."""
    return sorted((*call.args, *call.keywords), key=lambda part: (part.lineno, part.col_offset))


def argument(call: ast.Call, place: int | None, name: str) -> ast.expr | None:
    """The argument of a library call at a position or by keyword."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if place is not None and place < len(call.args):
        if any(isinstance(a, ast.Starred) for a in call.args[: place + 1]):
            return None
        return call.args[place]
    return None


def defaults(function: Function | ast.Lambda) -> dict[str, ast.expr]:
    """The default values of parameters, by name."""
    found = {p.arg: default(function, p) for p in parameters(function.args)}
    return {name: value for name, value in found.items() if value is not None}


def defaulted(arguments: ast.arguments, node: ast.expr) -> ast.arg:
    """The parameter whose default an expression is."""
    if node in arguments.kw_defaults:
        return arguments.kwonlyargs[arguments.kw_defaults.index(node)]
    return [*arguments.posonlyargs, *arguments.args][arguments.defaults.index(node) - len(arguments.defaults)]


def default(function: Function | ast.Lambda, parameter: ast.arg) -> ast.expr | None:
    """The default value of a parameter."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    if parameter in positional:
        offset = positional.index(parameter) - (len(positional) - len(arguments.defaults))
        return arguments.defaults[offset] if offset >= 0 else None
    if parameter in arguments.kwonlyargs:
        return arguments.kw_defaults[arguments.kwonlyargs.index(parameter)]
    return None
