"""What the docstring of a function says of its parameter for the device, once that is the accelerator."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import FUNCTIONS, Function

# An entry with its further lines, in the ways of Google and NumPy, or of Sphinx.
_ENTRY = (
    r"^(?P<indent>[ \t]*)(?P<name>{0}|:param (?:[\w.]+ )?{0})(?P<type> ?\([^()\n]*\))?(?P<colon> ?:)"
    r"(?P<text>[^\n]*(?:\n(?P=indent)[ \t]+\S[^\n]*)*)$"
)
_TYPE = re.compile(r"\s*(torch\.device|str|string|Device)((?: or | ?\| ?|, ?)(torch\.device|str|string|Device))*\b")
_UNIT = 4  # of inserted code, which is given that of the file
_TYPED = r"^(?P<before>[ \t]*:type ){0}:[^\n]*$"


def entries(draft: Draft, function: Function, name: str, accelerator: str) -> Iterator[tuple[ast.Expr, str]]:
    """The docstring of a function, or of the class that it makes objects of, and what it is when it describes the
    accelerator in place of the parameter."""
    cls = draft.facts.index.parents[function]
    for owner in (function, cls) if function.name.partition("@")[0] == "__init__" else (function,):
        found = _entry(draft, owner, name, accelerator) if isinstance(owner, (*FUNCTIONS, ast.ClassDef)) else None
        if found is not None:
            yield found


def _entry(draft: Draft, owner: Function | ast.ClassDef, name: str, accelerator: str) -> tuple[ast.Expr, str] | None:
    """The same of one docstring; None if it does not describe the parameter, or not in a known way."""
    statement, docstring = owner.body[0], ast.get_docstring(owner, clean=False)
    if docstring is None or not isinstance(statement, ast.Expr):
        return None
    if isinstance(owner, ast.ClassDef) and "Attributes" in docstring:
        return None  # it may be one of these
    text = draft.facts.segment(statement.value)
    found = [*re.finditer(_ENTRY.format(name), text, re.MULTILINE)]
    if len(found) != 1 or re.search(rf"^[ \t]*{accelerator}\b", text, re.MULTILINE):
        return None
    match = found[0]
    text = f"{text[: match.start()]}{_written(match, accelerator)}{text[match.end() :]}"
    text = re.sub(_TYPED.format(name), rf"\g<before>{accelerator}: Accelerator", text, flags=re.MULTILINE)
    code = _flush(text, statement.col_offset, statement.col_offset - owner.col_offset)
    return (statement, code) if code is not None else None


def _flush(text: str, column: int, unit: int) -> str | None:
    """A docstring as code that stands at the margin, four spaces for a level; None where its lines do not go with the
    code around."""
    first, *lines = text.split("\n")
    if not 0 < unit <= _UNIT or any(line.strip() and not line.startswith(" " * column) for line in lines):
        return None
    flush = [first]
    for line in (line[column:] for line in lines):
        level, rest = divmod(len(line) - len(line.lstrip(" ")), unit)
        flush.append(f"{' ' * (_UNIT * level + rest)}{line.lstrip(' ')}")
    return "\n".join(flush)


def _written(match: re.Match[str], accelerator: str) -> str:
    """An entry for the accelerator, as that for the device is written."""
    name = f":param {accelerator}" if match["name"].startswith(":") else accelerator
    kind = f"{' ' * match['type'].startswith(' ')}(Accelerator)" if match["type"] else ""
    first, *more = match["text"].split("\n")
    typed = _TYPE.fullmatch(first.rstrip()) is not None and bool(more)  # the way of NumPy
    text = "\n".join(more) if typed else match["text"].strip()
    words = text.strip()
    said = ("The" if words[:1].isupper() else "the") + " accelerator, which has the device" + "." * words.endswith(".")
    head = f"{match['indent']}{name}{kind}{match['colon']}"
    if not typed:
        space = re.match(r"\s*", match["text"])
        return f"{head}{space[0] if space is not None and words else ''}{said if words else ''}"
    indent = more[0][: len(more[0]) - len(more[0].lstrip())]
    return f"{head} Accelerator\n{indent}{said}"
