"""Which comments go with statements that go: those that say that something is moved to a device."""

from __future__ import annotations

import ast
import re
from collections.abc import Container

from accelift_codemod.rewrite.places import Places

_NAMED = r"(?<![a-z_.])(?:(?:multi-?)?gpus?|cuda|devices?|(?:distributed)?data ?parallel|ddp)(?![a-z_.(])"
_DEVICE = re.compile(_NAMED, re.IGNORECASE)
_TO_DEVICE = re.compile(
    rf"#\W*(?:move|moving|push|put|send|transfer|copy|to)\b.*{_NAMED}\W*(?:if available\W*)?$", re.IGNORECASE
)
# What a comment says that holds without the move, too, or that tools read: a note, a reason, a cell of a notebook.
_MORE = re.compile(
    r"^# ?%%|^# ?fmt:|://|\b(?:todo|fixme|xxx|hack|bug|note|nb|warning|caution|issue|see|because|since|otherwise|must)\b",
    re.IGNORECASE,
)
_MOST_WORDS = 9


def is_about_devices(comment: str) -> bool:
    """Whether a comment speaks of devices and no more, in words and not as code that is commented out."""
    if not _DEVICE.search(comment) or _MORE.search(comment) or len(comment.split()) > _MOST_WORDS:
        return False
    try:
        code = ast.parse(comment.lstrip("# ")).body
    except SyntaxError:
        return True
    return all(isinstance(s, ast.Expr) and not isinstance(s.value, ast.Call) for s in code)


def heading(places: Places, statement: ast.stmt, gone: Container[ast.stmt]) -> int:
    """The first line of what is said of devices above statements that go, or the statement's own first line.

    It is said of them alone if they end a paragraph, or if it only says that something is moved.
    """
    first = places.head(statement)[0]
    above = places.with_comments(first)
    said = [line.strip() for line in places.lines[above - 1 : first - 1]]
    if not said or not all(map(is_about_devices, said)):
        return first
    block, place = places.index.block(statement)
    for below in block[place + 1 :]:
        line = places.last(block[place])
        following = "".join(places.lines[line : line + 1]).strip()
        if not following or following.startswith("#"):
            break
        if below not in gone:
            return above if all(map(_TO_DEVICE.match, said)) else first
        place += 1
    return above
