"""What the path of a file is put together of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import How
from accelift_codemod.facts.resolve import Resolver

_MOST = 200  # parts of a path
_TEXTS = frozenset({"str", "int", "repr", "format"})
_LIBRARIES = ("os.path.", "pathlib.", "posixpath.")


def texts(resolver: Resolver, call: ast.Call) -> Iterator[ast.expr]:
    """The texts that a call is given, or is a method of: the path of a file, most likely."""
    given = [*call.args, *(k.value for k in call.keywords)]
    if isinstance(call.func, ast.Attribute) and resolver.qualified(call.func) is None:
        given.append(call.func.value)  # `(folder / f"{name}.txt").write_text(text)`
    for one in given:
        if any(_is_text(resolver, part) for part in parts(resolver, one)):
            yield one


def parts(resolver: Resolver, path: ast.expr) -> Iterator[ast.expr]:
    """The expressions that a path is put together of, itself first, through variables."""
    queue, seen = [path], {path}
    while queue and len(seen) < _MOST:
        node = queue.pop(0)
        yield node
        for part in _behind(resolver, node):
            if part not in seen:
                seen.add(part)
                queue.append(part)


def origins(resolver: Resolver, path: ast.expr) -> Iterator[ast.Name]:
    """The variables that a path begins with: what a loop or a caller gives, or what is unpacked; nothing computed."""
    for part in parts(resolver, path):
        if isinstance(part, ast.Name) and not [*_behind(resolver, part)]:
            unpacked = (b.value for b in resolver.bindings(part) if b.how is How.ASSIGN)
            if not any(isinstance(value, ast.Call) for value in unpacked):
                yield part


def _behind(resolver: Resolver, node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Name):
        bindings = resolver.bindings(node)
        yield from (b.value for b in bindings if b.how is How.ASSIGN and not b.path and b.value is not None)
    elif isinstance(node, (ast.Attribute, ast.Subscript, ast.FormattedValue)):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield from node.values
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod, ast.Div)):
        yield from (node.left, node.right)
    elif isinstance(node, (ast.Tuple, ast.List)):
        yield from node.elts
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.Call):
        qualified = resolver.qualified(node.func) or ""
        if resolver.builtin(node.func) in _TEXTS or qualified.startswith(_LIBRARIES):
            yield from node.args
        elif isinstance(node.func, ast.Attribute) and not qualified and resolver.callee(node) is None:
            yield node.func.value
            if node.func.attr in ("format", "join", "joinpath"):
                yield from (*node.args, *(k.value for k in node.keywords))


def _is_text(resolver: Resolver, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.Call) and (resolver.qualified(node.func) or "").startswith(_LIBRARIES)
