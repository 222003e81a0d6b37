"""How inserted code is laid out: the author's indentation and line endings, black's style within."""

from __future__ import annotations

import re
import textwrap
from functools import lru_cache
from pathlib import Path

from accelift_codemod.source import Source

DEFAULT_LINE_LENGTH = 88
_SETTING = re.compile(r"^\[tool\.(?:black|ruff)\](?:(?!^\[).)*?^line-length\s*=\s*(\d+)", re.MULTILINE | re.DOTALL)
_INDENT = re.compile(r"[ \t]*")


def indentation(line: str) -> str:
    """The white space a line starts with."""
    return _INDENT.match(line)[0]  # type: ignore[index]


def indent_unit(source: Source) -> str:
    """One level of indentation as the author writes it."""
    opened = False
    for line in source.lines:
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        white = indentation(line)
        if opened and white:
            return "\t" if white.startswith("\t") else white
        opened = not white and stripped.endswith(":")
    return "    "


@lru_cache(maxsize=256)
def line_length(folder: Path) -> int:
    """The line length of the project a folder belongs to, from the black or ruff settings of its pyproject.toml."""
    for parent in (folder, *folder.parents):
        settings = parent / "pyproject.toml"
        if settings.is_file():
            try:
                match = _SETTING.search(settings.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError):
                match = None
            return int(match[1]) if match else DEFAULT_LINE_LENGTH
        if (parent / ".git").exists():
            break
    return DEFAULT_LINE_LENGTH


def restyled(before: str, after: str, indent: str, limit: int) -> str:
    """A changed statement, laid out by black if that is how its author had laid it out and it has become too long."""
    if not any(len(line) > limit for line in after.splitlines()) or "\t" in indent or '"""' in after:
        return after
    if any(len(line) > limit for line in before.splitlines()):
        return after
    width = limit - len(indent)
    plain = [textwrap.dedent(text.replace("\r\n", "\n")) for text in (before, after)]
    if _black(plain[0], width) != plain[0]:
        return after
    newline = "\r\n" if "\r\n" in before else "\n"
    return "".join(f"{indent}{line}{newline}" if line else newline for line in _black(plain[1], width).splitlines())


def statements(code: str, indent: str, unit: str, newline: str, limit: int) -> list[str]:
    """Code as lines at an indentation."""
    width = limit - len(indent.expandtabs(4))
    if any(len(line) > width for line in code.split("\n")):
        code = _black(code, width)
    lines = []
    for line in code.rstrip("\n").split("\n"):
        body = line.lstrip(" ")
        level, rest = divmod(len(line) - len(body), 4)
        lines.append(f"{indent}{unit * level}{' ' * rest}{body}{newline}" if body else newline)
    return lines


@lru_cache(maxsize=512)
def _black(code: str, width: int) -> str:
    import black  # late: it costs as much to import as the rest of the tool

    header_only = code.rstrip().endswith(":")
    text = f"{code}\n    pass\n" if header_only else f"{code.rstrip()}\n"
    formatted = black.format_str(text, mode=black.Mode(line_length=max(width, 40)))
    return formatted.removesuffix("    pass\n") if header_only else formatted
