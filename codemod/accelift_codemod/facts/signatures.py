"""Arguments and signatures: which argument a parameter gets."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import Function


def bind(call: ast.Call, function: Function, bound: bool = False) -> dict[str, ast.expr] | None:
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


def default(function: Function, parameter: ast.arg) -> ast.expr | None:
    """The default value of a parameter."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    if parameter in positional:
        offset = positional.index(parameter) - (len(positional) - len(arguments.defaults))
        return arguments.defaults[offset] if offset >= 0 else None
    if parameter in arguments.kwonlyargs:
        return arguments.kw_defaults[arguments.kwonlyargs.index(parameter)]
    return None
