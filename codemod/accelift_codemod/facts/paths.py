"""What the path of a file is put together of."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterator

from accelift_codemod.facts import library
from accelift_codemod.facts.index import How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.values import Role

_MOST = 200  # parts of a path
_TEXTS = frozenset({"str", "int", "repr", "format"})
_DEEP = 8  # variables and calls that a path is handed through
_PUTS_LAST = frozenset({"os.path.join", "posixpath.join", "pathlib.Path"})
_LIBRARIES = ("os.path.", "pathlib.", "posixpath.")
# Parts of a path, and methods that give another one.
_OF_NAMES = frozenset({"name", "stem", "suffix", "parent", "parents", "parts"})
_SAME = frozenset({"str", "os.fspath", "os.path.normpath", "os.path.expanduser", "os.path.abspath", "os.path.realpath"})
_FIELD = re.compile(r"\{\}|%[sdi]")
_RENAMES = frozenset({"with_name", "with_stem", "with_suffix", "replace", "split", "rsplit"})


def texts(resolver: Resolver, call: ast.Call) -> Iterator[ast.expr]:
    """The texts that a call is given, or is a method of: the path of a file, most likely."""
    if resolver.qualified(call.func) in library.HARMLESS_EVERYWHERE:
        return  # it only shows them
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


def endings(resolver: Resolver, path: ast.expr | None, depth: int = 0) -> set[str]:
    """What each path that an expression may be ends with, `.pt` of `f"{name}.pt"`; an empty text if it is not known."""
    constants = {k for v in resolver.values(path) if v.role is Role.CONSTANT for k in v.keys if isinstance(k, str)}
    if constants:
        return constants
    last: list[ast.expr | None] = []
    if isinstance(path, ast.Constant):
        return {str(path.value)}
    if isinstance(path, ast.JoinedStr):
        last = list(path.values[-1:])
    elif isinstance(path, ast.BinOp) and isinstance(path.op, (ast.Add, ast.Div)):
        last = [path.right]
    elif isinstance(path, ast.IfExp):
        last = [path.body, path.orelse]
    elif isinstance(path, ast.Call) and (resolver.qualified(path.func) or "") in _PUTS_LAST:
        last = list(path.args[-1:])
    elif isinstance(path, ast.Name):
        for binding in resolver.bindings(path):
            if binding.how is How.PARAMETER:
                last += resolver.handed(binding)
            else:
                last.append(binding.value if binding.how is How.ASSIGN and not binding.path else None)
    if not last or depth > _DEEP or any(isinstance(part, ast.Starred) for part in last):
        return {""}
    return {ending for part in last for ending in endings(resolver, part, depth + 1)}


def apart(resolver: Resolver, one: ast.expr | None, other: ast.expr | None) -> bool:
    """Whether the names of two files, whatever folders they are in, surely end otherwise."""
    names, others = ([e.rpartition("/")[2] for e in endings(resolver, path)] for path in (one, other))
    return not any(a.endswith(b) or b.endswith(a) for a in names for b in others)


def spelled(resolver: Resolver, path: ast.expr) -> str | None:
    """What the path of a file comes to, however it is put together: `runs/*.pt` of `"runs/" + name + ".pt"`.

    Variables stand for what was written into them, others in the middle for any text; one that it begins with keeps
    its words, for it may be the folder. None where it is not put together of texts, or not a word of it is known.
    """
    first, *rest = pieces = list(_pieces(resolver, path))
    if len(pieces) == 1 and isinstance(first, ast.expr):
        return f"{{{ast.unparse(first)}}}"
    begins = first if isinstance(first, str) else f"{{{ast.unparse(first)}}}"
    text = begins + "".join(p if isinstance(p, str) else "*" for p in rest)
    return posixpath.normpath(text) if text.strip("*/.") else None


def _pieces(resolver: Resolver, node: ast.expr, depth: int = 0) -> Iterator[str | ast.expr]:
    """The texts that a path is put together of, in their order, and the expressions that are not known."""
    inner: list[str | ast.expr] = []
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
        return
    if depth == _DEEP:
        yield node
        return
    if isinstance(node, ast.JoinedStr):
        inner = list(node.values)
    elif isinstance(node, ast.FormattedValue) and node.format_spec is None and node.conversion == -1:
        inner = [node.value]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Div)):
        inner = [node.left, *(["/"] if isinstance(node.op, ast.Div) else []), node.right]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        inner = _filled(node.left, node.right.elts if isinstance(node.right, ast.Tuple) else [node.right])
    elif isinstance(node, ast.Call) and not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args):
        name = resolver.qualified(node.func) or resolver.builtin(node.func)
        if name in _PUTS_LAST and node.args:
            inner = [part for a in node.args for part in ("/", a)][1:]
        elif name in _SAME and len(node.args) == 1:
            inner = list(node.args)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            inner = _filled(node.func.value, node.args)
    elif isinstance(node, ast.Name):
        value = resolver.set_once(node)
        inner = [value] if value is not None else []
    if not inner:
        yield node
    for part in inner:
        if isinstance(part, str):
            yield part
        else:
            yield from _pieces(resolver, part, depth + 1)


def _filled(text: ast.expr, given: list[ast.expr]) -> list[str | ast.expr]:
    """The parts of a text that others are put into; none if it is not written out, or has other fields than these."""
    if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
        return []
    between = _FIELD.split(text.value)
    if len(between) != len(given) + 1 or any(mark in part for part in between for mark in "{}%"):
        return []
    return [between[0], *(part for pair in zip(given, between[1:], strict=True) for part in pair)]


def is_name(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call only puts a name together, and does nothing with the file: `os.path.join(folder, name)`."""
    qualified = resolver.qualified(call.func)
    if qualified is not None:
        return qualified.startswith(_LIBRARIES)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else None
    if method == "replace":
        return False  # of a Path, it moves the file
    return resolver.builtin(call.func) in _TEXTS or method in _RENAMES | {"format", "join", "joinpath"}


def beginnings(node: ast.expr, stop: Callable[[ast.Call], bool] = lambda call: False) -> Iterator[ast.expr]:
    """The expressions that may be the file which an argument names, or a folder that it is in.

    Not what is only a part of its name, as `kind` of `f"results/{kind}.txt"` and `path` of `folder / path.name`. Calls
    that `stop` are left out.
    """
    if isinstance(node, ast.Call) and stop(node):
        return
    yield node
    inner: list[ast.expr] = []
    if isinstance(node, ast.JoinedStr):
        inner = [value.value for value in node.values[:1] if isinstance(value, ast.FormattedValue)]
    elif isinstance(node, ast.BinOp):
        inner = [node.left]
    elif isinstance(node, ast.Call):
        method = node.func if isinstance(node.func, ast.Attribute) else None
        given = [*node.args, *(k.value for k in node.keywords)]
        if method is not None and method.attr in ("join", "joinpath"):  # of os.path, or of a Path
            inner = [*given[:1], method.value] if method.attr == "join" else [method.value]
        elif method is not None and method.attr == "format" and isinstance(method.value, ast.Constant):
            inner = given[:1] if str(method.value.value).startswith("{") else []
        elif method is None or method.attr not in _RENAMES:
            inner = [*given, *([method.value] if method is not None else [])]
    elif not (isinstance(node, ast.Attribute) and node.attr in _OF_NAMES):
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    for part in inner:
        yield from beginnings(part, stop)


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
