"""The files of a project that a script imports: looked at for a word, not understood."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_MAX_FILES = 200


def mentioning(path: str, tree: ast.Module, word: bytes) -> tuple[ast.stmt, str] | None:
    """The first import of a script by which a file with a word in it is read, and that file's name.

    Files are found beside the script, where it is run from, and beside the files that import them.
    """
    script = Path(path)
    seen: set[Path] = {script}
    for statement in ast.walk(tree):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            queue = [f for name in _modules(statement) for f in _files(script.parent, name)]
            while queue and len(seen) < _MAX_FILES:
                file = queue.pop()
                if file in seen:
                    continue
                seen.add(file)
                try:
                    data = file.read_bytes()
                    inner = ast.parse(data)
                except (OSError, SyntaxError, ValueError):
                    continue
                if word in data:
                    return statement, file.name
                for other in ast.walk(inner):
                    if isinstance(other, (ast.Import, ast.ImportFrom)):
                        queue += (
                            f for n in _modules(other) for d in (script.parent, file.parent) for f in _files(d, n)
                        )
    return None


def _modules(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules that an import may read."""
    if isinstance(statement, ast.Import):
        yield from (a.name for a in statement.names)
        return
    module = statement.module or ""
    if module:
        yield module
    yield from (f"{module}.{a.name}".lstrip(".") for a in statement.names)


def _files(folder: Path, module: str) -> Iterator[Path]:
    """The files of a module, with those of the packages that it is in."""
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        base = folder.joinpath(*parts[:depth])
        yield from (f for f in (base.with_suffix(".py"), base / "__init__.py") if f.is_file())
