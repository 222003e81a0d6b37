"""Unified diffs from the changes themselves, and the application of one: the check that it can be applied."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from accelift_codemod.rewrite import Change

_CONTEXT = 3
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def unified(path: str, lines: Sequence[str], changes: Iterable[Change]) -> str:
    """The diff of a file as `git apply` and `patch -p1` take it.

    Args:
        path: the file, relative to where the diff will be applied.
        lines: its lines, with their endings.
        changes: ordered, not overlapping.
    """
    groups = _grouped(list(changes))
    if not groups:
        return ""
    name = path.replace("\\", "/").lstrip("/")
    tab = "\t" if " " in name else ""
    out = [f"--- a/{name}{tab}\n", f"+++ b/{name}{tab}\n"]
    offset = 0
    for group in groups:
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
