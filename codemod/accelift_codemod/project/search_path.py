"""The folders that a script puts on `sys.path`, where they are spelled out."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from accelift_codemod.facts.tree import walk
from accelift_codemod.source import Source

_ADDS = frozenset({"sys.path.append", "sys.path.insert", "sys.path.extend"})
_PATHS = frozenset({"pathlib.Path", "pathlib.PurePath", "os.path.join", "str"})  # called with parts of a path
_SAME = frozenset({"os.path.abspath", "os.path.realpath", "os.path.normpath"})
_SAME_METHODS = frozenset({"resolve", "absolute", "as_posix"})
_HERE = frozenset({"os.getcwd", "pathlib.Path.cwd"})  # a script is started from its folder


def searched(source: Source, folder: Path) -> list[Path]:
    """Where Python looks for modules that a script in a folder imports: there, and in the folders that the script puts
    on `sys.path`, by literals and `__file__`, in the order that this comes to."""
    found = [folder]
    if b"sys" not in source.data or b"path" not in source.data:
        return found
    names = _Names(source.tree, folder)
    calls = [n for n in walk(source.tree) if isinstance(n, ast.Call) and names.qualified(n.func) in _ADDS]
    for call in sorted(calls, key=lambda n: (n.lineno, n.col_offset)):
        value = names.path(call.args[-1]) if call.args else None
        if value is not None and (folder / value).is_dir():
            place = call.args[0].value if len(call.args) > 1 and isinstance(call.args[0], ast.Constant) else None
            found.insert(place if isinstance(place, int) else len(found), Path(os.path.realpath(folder / value)))
    return found


class _Names:
    """What the names of a script mean outside of its functions."""

    def __init__(self, tree: ast.Module, folder: Path) -> None:
        self.folder = folder
        self.imports: dict[str, str] = {}
        self.values: dict[str, list[ast.expr]] = {}
        for node in walk(tree):
            if isinstance(node, ast.Import):
                self.imports.update((a.asname or a.name.partition(".")[0], a.name) for a in node.names if a.asname)
            elif isinstance(node, ast.ImportFrom) and node.module:
                self.imports.update((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.values.setdefault(target.id, []).append(node.value)

    def qualified(self, node: ast.expr) -> str:
        """The name of a module or of what it has; empty for anything else."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, node.id)
        base = self.qualified(node.value) if isinstance(node, ast.Attribute) else ""
        return f"{base}.{node.attr}" if isinstance(node, ast.Attribute) and base else ""

    def path(self, node: ast.expr, depth: int = 0) -> str | None:
        """A path that is made of literals and `__file__`, by os.path or pathlib; None if it is not."""
        if depth > 8:
            return None
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id="__file__"):
                return str(self.folder / "script")
            case ast.Name(id=name):
                values = self.values.get(name, [])
                return self.path(values[0], depth + 1) if len(values) == 1 else None
            case ast.List(elts=[only]) | ast.Tuple(elts=[only]):
                return self.path(only, depth + 1)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._joined([left, right], depth)
            case ast.Attribute(value=inner, attr="parent"):
                return self._above(inner, 1, depth)
            case ast.Subscript(value=ast.Attribute(value=inner, attr="parents"), slice=ast.Constant(value=int(steps))):
                return self._above(inner, steps + 1, depth)
            case ast.Call():
                return self._called(node, depth)
        return None

    def _called(self, node: ast.Call, depth: int) -> str | None:
        function = self.qualified(node.func)
        if function in _HERE:
            return str(self.folder)
        if function == "os.path.dirname" and len(node.args) == 1:
            return self._above(node.args[0], 1, depth)
        if function in _SAME and len(node.args) == 1:
            return self._absolute(node.args[0], depth)
        if function in _PATHS and node.args:
            return self._joined(node.args, depth)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_METHODS and not node.args:
            return self._absolute(node.func.value, depth)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "joinpath":
            return self._joined([node.func.value, *node.args], depth)
        return None

    def _joined(self, parts: list[ast.expr], depth: int) -> str | None:
        known = [path for part in parts if (path := self.path(part, depth + 1)) is not None]
        return str(Path(*known)) if len(known) == len(parts) else None

    def _above(self, node: ast.expr, steps: int, depth: int) -> str | None:
        path = self.path(node, depth + 1)
        for _ in range(steps if path is not None else 0):
            path = str(Path(path or "").parent)
        return path

    def _absolute(self, node: ast.expr, depth: int) -> str | None:
        path = self.path(node, depth + 1)
        return os.path.normpath(self.folder / path) if path is not None else None
