"""How files are opened, and what asks whether they are there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import library
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk

_READING, _WRITING = set("rbt"), set("wax+")  # the letters of a file's mode
_ASKS = frozenset({"exists", "is_file", "is_dir", "glob"})


def mode(resolver: Resolver, call: ast.Call) -> str | None:
    """The mode in which a call opens a file, as far as it is written out; None if it does not open one by name."""
    if resolver.builtin(call.func) == "open" or resolver.qualified(call.func) in library.OPENS:
        given = resolver.argument(call, 1, "mode") if call.args else None
    elif isinstance(call.func, ast.Attribute) and call.func.attr == "open":  # a path's
        if resolver.qualified(call.func) or resolver.callee(call):
            return None
        given = resolver.argument(call, 0, "mode")
    else:
        return None
    letters = "r" if given is None else str(given.value) if isinstance(given, ast.Constant) else ""
    return letters if letters and set(letters) <= _READING | _WRITING else None


def writes(letters: str | None) -> bool:
    """Whether a file that is opened in a mode is written to."""
    return bool(_WRITING & set(letters or ""))


def keeps_open(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call makes an object that writes a file bit by bit, other than what open() returns."""
    qualified = resolver.qualified(call.func)
    given = resolver.argument(call, 2, "mode") if qualified == "numpy.memmap" else None
    return (qualified or "") in library.WRITERS or (isinstance(given, ast.Constant) and given.value == "w+")


def asking(resolver: Resolver, node: ast.AST) -> Iterator[ast.If]:
    """The conditions around a node, in its function, that ask what files or folders there are, the inner ones first."""
    for parent in resolver.index.ancestors(node):
        if isinstance(parent, FUNCTIONS):
            return
        if isinstance(parent, ast.If) and asks(resolver, parent.test):
            yield parent


def asks(resolver: Resolver, test: ast.expr) -> bool:
    """Whether a test asks what files or folders there are."""
    functions = [n.func for n in walk(test) if isinstance(n, ast.Call)]
    return any(
        (resolver.qualified(function) or "").startswith("os.")
        or (isinstance(function, ast.Attribute) and function.attr in _ASKS)
        for function in functions
    )
