"""How files are opened, and what asks whether they are there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import library
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk

_READING, _WRITING = set("rbt"), set("wax+")  # the letters of a file's mode
_LISTS = frozenset(
    "os.listdir os.scandir os.walk glob.glob glob.iglob os.path.exists os.path.isfile os.path.getmtime".split()
)
_LISTS_OF_PATHS = frozenset({"iterdir", "glob", "rglob", "exists", "is_file"})
_MOST_STEPS = 5
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


def listing(resolver: Resolver, path: ast.expr, steps: int = 0) -> ast.Call | None:
    """The call that looks for the file that a path names, perhaps through variables: `glob.glob(...)`, or a function of
    the script that does."""
    for node in walk(path):
        if isinstance(node, ast.Call):
            target = resolver.callee(node)
            body = target.body if isinstance(target, FUNCTIONS) else []
            calls = [node, *(n for s in body for n in walk(s) if isinstance(n, ast.Call))]
            if any(_lists(resolver, call) for call in calls):
                return node
    names = [n for n in walk(path) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    values = (b.value for name in names for b in resolver.bindings(name) if b.how in (How.ASSIGN, How.LOOP))
    found = (listing(resolver, value, steps + 1) for value in values if value is not None and steps < _MOST_STEPS)
    return next((call for call in found if call is not None), None)


def _lists(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call asks what files there are."""
    if resolver.qualified(call.func) in _LISTS:
        return True
    unknown = resolver.callee(call) is None and resolver.qualified(call.func) is None
    return unknown and isinstance(call.func, ast.Attribute) and call.func.attr in _LISTS_OF_PATHS
