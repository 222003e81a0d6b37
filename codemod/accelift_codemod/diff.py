"""Unified diffs from the changes themselves, and the application of one: the check that it can be applied."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accelift_codemod.rewrite import Change

_CONTEXT = 3
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def unified(path: str, lines: Sequence[str], changes: Iterable[Change], bom: str = "") -> str:
    """The diff of a file as `git apply` and `patch -p1` take it, once it is `encoded`.

    Args:
        path: the file.
        lines: its lines, with their endings.
        changes: ordered, not overlapping.
        bom: its byte order mark, which is not a part of the lines.
    """
    changes = list(changes)
    if not changes:
        return ""
    if bom:
        lines, changes = _with_bom(bom, lines, changes)
    name = place(path).lstrip("/")
    tab = "\t" if " " in name else ""
    out = [f"--- a/{name}{tab}\n", f"+++ b/{name}{tab}\n"]
    offset = 0
    for group in _grouped(changes):
        start = max(0, group[0].start - _CONTEXT)
        end = min(len(lines), group[-1].end + _CONTEXT)
        body: list[str] = []
        at = start
        for change in group:
            body += _marked(" ", lines[at : change.start])
            body += _marked("-", lines[change.start : change.end])
            body += _marked("+", change.lines)
            at = change.end
        body += _marked(" ", lines[at:end])
        grown = sum(len(c.lines) - (c.end - c.start) for c in group)
        old, new = end - start, end - start + grown
        out.append(f"@@ -{_range(start, old)} +{_range(start + offset, new)} @@\n")
        out += body
        offset += grown
    return "".join(out)


def place(path: str) -> str:
    """The name that a diff gives to a file: relative to the current folder if the file is below it, else absolute.

    Links are followed: `git apply` and `patch` change no file through a link. A diff with absolute names is applied
    from `/`.
    """
    real, here = Path(os.path.realpath(path)), Path.cwd()
    return (real.relative_to(here) if real.is_relative_to(here) else real).as_posix()


def encoded(diff: str, encoding: str) -> bytes:
    """A file's diff in bytes: its lines are in the file's own encoding, its name is in the file system's."""
    codec = encoding.removesuffix("-sig")  # the byte order mark is a part of the diff's text
    lines = _split(diff)
    names = [os.fsencode(line) for line in lines[:2]]
    return b"".join([*names, *(line[0].encode() + line[1:].encode(codec) for line in lines[2:])])


def _with_bom(bom: str, lines: Sequence[str], changes: list[Change]) -> tuple[list[str], list[Change]]:
    """Lines and changes of a file whose first line starts with a byte order mark, before the changes and after them."""
    first, *others = changes
    if first.start == 0:
        end, new = first.end, first.lines
        if not end or not new:  # the line that follows gives the mark away, or gets it
            end, new = end + 1, (*new, lines[end])
        changes = [replace(first, end=end, lines=(bom + new[0], *new[1:])), *others]
    return [bom + lines[0], *lines[1:]], changes


def _grouped(changes: list[Change]) -> list[list[Change]]:
    groups: list[list[Change]] = []
    for change in changes:
        if groups and change.start - groups[-1][-1].end <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _range(start: int, count: int) -> str:
    """A hunk's range; an empty one names the line before it."""
    first = start + 1 if count else start
    return f"{first}" if count == 1 else f"{first},{count}"


def _marked(mark: str, lines: Iterable[str]) -> list[str]:
    found = []
    for line in lines:
        if line.endswith("\n"):
            found.append(mark + line)
        else:
            found.append(f"{mark}{line}\n\\ No newline at end of file\n")
    return found


def apply(diff: str, lines: Sequence[str]) -> list[str]:
    """The lines of a file after a diff.

    Raises:
        ValueError: the diff does not fit the lines.
    """
    out: list[str] = []
    at = 0
    left_old = left_new = 0
    mark = ""
    for line in _split(diff):
        if line.startswith("\\"):
            if mark != "-" and out:
                out[-1] = out[-1].removesuffix("\n")
        elif left_old or left_new:
            mark, text = line[0], line[1:]
            if mark != "+":
                if at >= len(lines) or lines[at].rstrip("\n") != text.rstrip("\n"):
                    raise ValueError(f"line {at + 1} differs")
                at += 1
                left_old -= 1
            if mark != "-":
                out.append(text)
                left_new -= 1
        elif match := _HUNK.match(line):
            left_old, left_new = (int(n) if n is not None else 1 for n in (match[2], match[4]))
            start = int(match[1]) - (1 if left_old else 0)
            out += lines[at:start]
            at = start
    return [*out, *lines[at:]]


def _split(text: str) -> list[str]:
    """Lines ended by a line feed alone: a carriage return is a part of its line."""
    return [line + "\n" for line in text.split("\n")[:-1]]
