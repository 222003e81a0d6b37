"""How inserted code is laid out: the author's indentation and line endings, black's style within."""

from __future__ import annotations

import ast
import re
import textwrap
import tokenize
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from accelift_codemod.remembered import remembered
from accelift_codemod.source import LINE, Source

DEFAULT_LINE_LENGTH = 88
_DOCSTRING = ('"""', "'''", 'r"""', "r'''")
_SETTING = re.compile(r"^\[tool\.(?:black|ruff)\](?:(?!^\[).)*?^line-length\s*=\s*(\d+)", re.MULTILINE | re.DOTALL)
_NAME = r"[a-zA-Z_][\w.]*"
_NAMES = rf"(?:\w+=)?{_NAME}(?:, (?:\w+=)?{_NAME})*"
_ARGUMENT = rf"(?:\w+=)?(?:not )?{_NAME}(?:\((?:{_NAMES})?\))?"
_CALL = re.compile(rf"({_NAME}(?:, {_NAME})* = {_NAME}\()({_ARGUMENT}(?:, {_ARGUMENT})*)\)", re.ASCII)
_COPY = re.compile(rf"{_NAME} = {_NAME}", re.ASCII)
_MARGIN = re.compile(r"((?:[ \t]*\f)*)([ \t]*)")


def split_lines(text: str) -> list[str]:
    """Lines with their endings, as Python reads them (`str.splitlines` splits at form feeds and others, too)."""
    return LINE.findall(text)


def indentation(line: str) -> str:
    """The white space that indents a line: a form feed starts it anew."""
    return _MARGIN.match(line)[2]  # type: ignore[index]


def form_feeds(line: str) -> str:
    """What stands before the indentation of a line, up to its last form feed."""
    return _MARGIN.match(line)[1]  # type: ignore[index]


def indented(line: str, white: str, indent: str = "") -> str:
    """A line with more indentation: behind what its block has, or tabs could come to stand behind spaces."""
    at = len(form_feeds(line)) + (len(indent) if indentation(line).startswith(indent) else 0)
    return f"{line[:at]}{white}{line[at:]}"


def outdented(line: str, cut: tuple[int, int]) -> str:
    """A line without the white space between two places of its indentation, as far as it has any."""
    feeds, white = form_feeds(line), indentation(line)
    start, end = (min(at, len(white)) for at in cut)
    return feeds + white[:start] + line[len(feeds) + end :]


# ---- strings and comments


def comments(text: str) -> list[str]:
    """The comments in a text of whole logical lines."""
    return [t.string.rstrip() for t in _tokens(text) if t.type == tokenize.COMMENT] if "#" in text else []


def string_lines(text: str) -> set[int]:
    """The lines (from 0) of a text of whole logical lines that start inside a string: their white space is content."""
    found: set[int] = set()
    if "\\" in text or '"""' in text or "'''" in text:
        opened: list[int] = []
        for token in _tokens(text):
            kind = tokenize.tok_name[token.type]
            if kind.endswith("STRING_START"):
                opened.append(token.start[0])
            elif kind.endswith("STRING_END"):
                found.update(range(opened.pop(), token.end[0]))
            elif kind == "STRING":
                found.update(range(token.start[0], token.end[0]))
    return found


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(iter(split_lines(text)).__next__)


def trailing_comment(line: str) -> str:
    """The comment at the end of a line of code that starts outside of strings; empty if there is none."""
    quote = ""
    i = 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                i += 1
            elif line.startswith(quote, i):
                i += len(quote) - 1
                quote = ""
        elif c in "\"'":
            quote = line[i : i + 3] if line[i : i + 3] in ('"""', "'''") else c
            i += len(quote) - 1
        elif c == "#":
            return line[i:].rstrip()
        i += 1
    return ""


# ---- the author's settings


def indent_unit(source: Source) -> str:
    """One level of indentation as the author writes it."""
    for statement in source.tree.body:
        for first in getattr(statement, "body", ())[:1]:
            white = indentation(source.lines[first.lineno - 1])
            if white and len(white) == first.col_offset:  # it begins its line
                return "\t" if white.startswith("\t") else white
    return "    "


def unit_at(indent: str, unit: str) -> str:
    """One more level below some indentation: in a file that mixes tabs and spaces, what that ends with."""
    if not indent or indent[-1] == unit[-1]:
        return unit
    return "\t" if indent.endswith("\t") else "    "


@remembered
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


# ---- new code


def restyled(before: str, after: str, indent: str, unit: str, limit: int) -> str:
    """A changed statement, laid out by black if that is how its author had laid it out and it has become too long."""
    if not _too_long(after, limit) or _too_long(before, limit) or "\t" in indent or '"""' in after:
        return after
    if "'" in before and '"' not in before and "#" not in before:  # black would have written the strings otherwise
        return after
    newline = "\r\n" if "\r\n" in before else "\n"
    old, new = (textwrap.dedent(text.replace("\r\n", "\n")) for text in (before, after))
    width = limit - len(indent)
    try:
        if _black(old, width) != old:
            return after
        styled = "".join(_placed(_black(new, width), indent, unit, newline))
        same = ast.dump(_parsed(styled)) == ast.dump(_parsed(after))
    except (ValueError, SyntaxError):  # black cannot parse the statement; a string's own white space was dedented
        return after
    return styled if same else after


def _too_long(text: str, limit: int) -> bool:
    return len(text) > limit and any(len(line.rstrip("\r\n")) > limit for line in split_lines(text))


def _parsed(text: str) -> ast.Module:
    return ast.parse(f"if 1:\n{text}" if indentation(text) else text)


def statements(code: str, indent: str, unit: str, newline: str, limit: int) -> list[str]:
    """Code as lines at an indentation."""
    width = limit - len(indent.expandtabs(4))
    if any(len(line) > width for line in code.split("\n")) and not code.startswith(_DOCSTRING):
        code = _black(code, width)
    return _placed(code, indent, unit, newline)


def _placed(code: str, indent: str, unit: str, newline: str) -> list[str]:
    """Code that is indented by four blanks, as lines at an indentation, with the author's unit."""
    unit, lines = unit_at(indent, unit), []
    for line in code.rstrip("\n").split("\n"):
        body = line.lstrip(" ")
        level, rest = divmod(len(line) - len(body), 4)
        lines.append(f"{indent}{unit * level}{' ' * rest}{body}{newline}" if body else newline)
    return lines


def assignments(code: str, width: int) -> str | None:
    """What black makes of assignments whose calls are given names, and have these on one line; None of other code."""
    lines = []
    for line in code.rstrip().split("\n"):
        call = _CALL.fullmatch(line)
        if len(line) <= width and (call is not None or _COPY.fullmatch(line)):
            lines.append(line)
        elif call is not None and max(len(call[1]), len(call[2]) + 4) <= width:
            lines.append(f"{call[1]}\n    {call[2]}\n)")
        else:
            return None
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=512)
def _black(code: str, width: int) -> str:
    plain = assignments(code, max(width, 40))
    if plain is not None:
        return plain
    import black  # late: it costs as much to import as the rest of the tool

    header_only = code.rstrip().endswith(":")
    text = f"{code}\n    pass\n" if header_only else f"{code.rstrip()}\n"
    formatted = black.format_str(text, mode=black.Mode(line_length=max(width, 40)))
    return formatted.removesuffix("    pass\n") if header_only else formatted
