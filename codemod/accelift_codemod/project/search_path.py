"""The folders that a script puts on `sys.path`, where they are spelled out."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

from accelift_codemod.facts.tree import walk
from accelift_codemod.remembered import remembered
from accelift_codemod.source import BadSource, Source, read_bytes

_ADDS = frozenset({"sys.path.append", "sys.path.insert", "sys.path.extend"})
_PATHS = frozenset({"pathlib.Path", "pathlib.PurePath", "os.path.join", "str"})  # called with parts of a path
_SAME = frozenset({"os.path.abspath", "os.path.realpath", "os.path.normpath"})
_SAME_METHODS = frozenset({"resolve", "absolute", "as_posix"})
_HERE = frozenset({"os.getcwd", "pathlib.Path.cwd"})  # a script is started from its folder


Below = Callable[[Path, str], "Path | None"]  # the file of a module below a folder


def searched(source: Source, folder: Path, below: Below) -> list[Path]:
    """Where Python looks for modules that a script in a folder imports: there, and in the folders that the script, or a
    module that it imports, puts on `sys.path`, by literals and `__file__`, in the order that this comes to."""
    found = [folder]
    _search(source, folder, folder, found, below, {Path(os.path.realpath(source.path))})
    return found


def _search(source: Source, home: Path, folder: Path, found: list[Path], below: Below, seen: set[Path]) -> None:
    """Put the folders that a file in `home` adds where they come to stand; `folder` is that of the script."""
    is_script = len(seen) == 1
    here = _mentions(source.data)
    names = _Names(source.tree, home, folder) if here else None
    run = source.tree.body if is_script else [s for s in source.tree.body if not _is_left_out(s)]
    calls = [n for s in run for n in walk(s) if isinstance(n, ast.Call)] if here else []
    steps: list[ast.Call | ast.Import | ast.ImportFrom] = [
        *calls,
        *(n for n in source.tree.body if isinstance(n, (ast.Import, ast.ImportFrom)) and not getattr(n, "level", 0)),
    ]
    for step in sorted(steps, key=lambda n: (n.lineno, n.col_offset)):
        if isinstance(step, ast.Call):
            for place, value in names.added(step) if names is not None else ():
                if (folder / value).is_dir():
                    found.insert(len(found) if place is None else place, Path(os.path.realpath(folder / value)))
            continue
        modules = [a.name for a in step.names] if isinstance(step, ast.Import) else [step.module or ""]
        for module in modules:
            path = next((p for place in found if (p := below(place, module)) is not None), None)
            if path is not None and path.suffix == ".py" and path not in seen:
                seen.add(path)
                other = _adding(path)
                if other is not None:
                    _search(other, path.parent, folder, found, below, seen)


@remembered
def _adding(path: Path) -> Source | None:
    """A file, if by its text it may add to `sys.path`."""
    try:
        return Source.read(path) if _mentions(read_bytes(path)) else None
    except BadSource:
        return None


def _is_left_out(statement: ast.stmt) -> bool:
    """Whether a statement runs nothing where its file is imported."""
    main = isinstance(statement, ast.If) and any(_is_main(n) for n in walk(statement.test))
    return main or isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "__name__"


def _mentions(data: bytes) -> bool:
    return b"sys" in data and b"path" in data


class _Names:
    """What the names of a file mean outside of its functions."""

    def __init__(self, tree: ast.Module, home: Path, folder: Path) -> None:
        self.home = home
        self.folder = folder  # the script's, from which it is started
        self.imports: dict[str, str] = {}
        self.values: dict[str, list[ast.expr]] = {}
        self.adding: dict[str, int | None] = {}  # functions that add what they are given, and where
        for node in walk(tree):
            if isinstance(node, ast.Import):
                self.imports.update((a.asname or a.name.partition(".")[0], a.name) for a in node.names if a.asname)
            elif isinstance(node, ast.ImportFrom) and node.module:
                self.imports.update((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.values.setdefault(target.id, []).append(node.value)
        for function in (n for n in tree.body if isinstance(n, ast.FunctionDef)):
            parameters = [p.arg for p in function.args.args]
            for call in (n for n in walk(function) if isinstance(n, ast.Call)):
                given = call.args[-1] if call.args and self.qualified(call.func) in _ADDS else None
                if isinstance(given, ast.Name) and parameters == [given.id]:
                    self.adding[function.name] = _place(call)

    def added(self, call: ast.Call) -> list[tuple[int | None, str]]:
        """Where a call puts a path, and which; at the end, if it does not say where."""
        adds = self.qualified(call.func) in _ADDS
        own = isinstance(call.func, ast.Name) and call.func.id in self.adding and len(call.args) == 1
        value = self.path(call.args[-1]) if call.args and (adds or own) else None
        if value is None:
            return []
        return [(_place(call) if adds else self.adding[call.func.id], value)]  # type: ignore[attr-defined]

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
                return str(self.home / "script")
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


def _place(call: ast.Call) -> int | None:
    """The place that `sys.path.insert` is told."""
    first = call.args[0].value if len(call.args) > 1 and isinstance(call.args[0], ast.Constant) else None
    return first if isinstance(first, int) else None
