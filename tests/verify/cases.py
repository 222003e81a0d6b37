"""Conversions of the scripts beside this file, made wrong in one place or written in another style.

A file of cases has for each a heading, ``## CAUSE: what is wrong [the script that is edited]`` or ``## what is done
otherwise [the script]``, and parts of a diff between ``@@``: lines to leave out, lines to put in, and lines that
say where.  After ``# original`` the original is edited, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_HEADING = re.compile(r"## (?:(?P<cause>[A-Z-]+): )?(?P<name>.+) \[(?P<script>\w+)(?P<hangs>, hangs)?\]\n")


@dataclass(frozen=True)
class Case:
    """A conversion of a script; `cause` is what is wrong with it, empty if nothing is."""

    name: str
    script: str
    cause: str = ""
    hangs: bool = False
    edits: str = ""
    original_edits: str = ""

    @property
    def original(self) -> str:
        """The text of the original."""
        return _edited(self.script.partition("_")[0], self.original_edits)

    @property
    def converted(self) -> str:
        """The text of the conversion."""
        return _edited(self.script, self.edits)

    def __str__(self) -> str:
        return f"{self.script}: {self.name}"


def cases(file: str) -> list[Case]:
    """The cases of a file."""
    found = []
    text = (HERE / file).read_text()
    headings = list(_HEADING.finditer(text))
    assert len(headings) == text.count("## "), f"{file} has a heading that cannot be read"
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        body = text[heading.end() : following.start() if following else len(text)].rstrip("\n")
        edits, _, original = body.partition("# original\n")
        found.append(
            Case(heading["name"], heading["script"], heading["cause"] or "", bool(heading["hangs"]), edits, original)
        )
    return found


def _edited(script: str, edits: str) -> str:
    text = (HERE / "scripts" / f"{script}.py").read_text()
    for part in filter(None, re.split(r"^@@\n", edits, flags=re.MULTILINE)):
        lines = part.rstrip("\n").split("\n")
        old, new = (
            "".join(f"{line[1:]}\n" for line in lines if line[:1] in marks or not line) for marks in (" -", " +")
        )
        assert f"\n{text}".count(f"\n{old}") == 1, f"{script}.py has not once {old!r}"
        text = f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]
    return text
