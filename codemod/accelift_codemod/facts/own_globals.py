"""What a script looks up among its own globals: `globals()["fit"]`, `getattr(sys.modules[__name__], name)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.names import Names

_TABLES = frozenset({"globals", "locals", "vars"})
_LEAST = 2  # arguments of `getattr`


def lookups(names: Names) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The expressions that look something up so, each with the name."""
    parents = names.index.parents
    for call in names.index.calls:
        called = names.builtin(call.func)
        if called in _TABLES and not call.args and (called == "globals" or names.index.function(call) is None):
            user = parents[call]
            asked = parents[user] if isinstance(user, ast.Attribute) and user.attr == "get" else None
            if isinstance(user, ast.Subscript) and isinstance(user.ctx, ast.Load):
                yield user, user.slice
            elif isinstance(asked, ast.Call) and asked.args:
                yield asked, asked.args[0]
        elif called == "eval" and len(call.args) == 1 and _is_called(parents[call], call):
            yield call, call.args[0]
        elif called == "getattr" and len(call.args) == _LEAST and _is_itself(names, call.args[0]):
            yield call, call.args[1]


def found(names: Names, name: ast.expr) -> str:
    """The class or function that has a name that is written out; nothing if it is not known which."""
    text = name.value if isinstance(name, ast.Constant) else None
    bindings = names.index.module.bindings.get(text, []) if isinstance(text, str) else []
    defined = [isinstance(b.node, (ast.FunctionDef, ast.ClassDef)) for b in bindings]
    return str(text) if defined == [True] else ""


def _is_called(parent: ast.AST, node: ast.AST) -> bool:
    return isinstance(parent, ast.Call) and parent.func is node


def _is_itself(names: Names, module: ast.expr) -> bool:
    """Whether an expression is the module that it stands in: `sys.modules[__name__]`."""
    if not isinstance(module, ast.Subscript) or names.qualified(module.value) != "sys.modules":
        return False
    return isinstance(module.slice, ast.Name) and module.slice.id.endswith("__name__")
