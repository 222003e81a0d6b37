"""Notebooks: their code cells as one script, and the converted script back in the cells.

Only the sources of cells that change are written anew, in the style of the file; outputs, metadata and every other byte
stay. Magics become statements that do nothing while the script is converted, and are put back afterwards.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any

from accelift_codemod import diff
from accelift_codemod.facts.values import Evidence
from accelift_codemod.plan import Edit, Finding, Severity, renamed_lines
from accelift_codemod.results import FileResult
from accelift_codemod.rewrite.result import CannotRewrite, Change
from accelift_codemod.source import BadSource, Source

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SPACE = re.compile(r"[ \t\r\n]*")
_MAGIC = re.compile(r"\s*(?:%{1,2}[a-zA-Z_]|[!?])|.*[\w)\]]\?\??\s*$")
_ASSIGNED = re.compile(r"\s*[\w., ]+=\s*(?:%[a-zA-Z_]|!)")
_INDENT = re.compile(r"(?:[ \t]*\n)*([ \t]*)")
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_BESIDE = re.compile(r".+\.py:\d+: ")
_AROUND_PYTHON = frozenset("time timeit capture prun".split())  # cell magics whose cell is Python
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Cell:
    """A code cell: its place among all cells (from 1), its text, where that is in the file, its first line in the
    script, and the white space that all of it is indented by: Jupyter does not mind."""

    number: int
    text: str
    begin: int
    end: int
    line: int
    white: str

    @property
    def plain(self) -> str:
        """Its text as Jupyter runs it: without that white space, wherever a line starts with it."""
        return "".join(line.removeprefix(self.white) for line in _LINE.findall(self.text))

    def indented(self, new: list[str]) -> list[str]:
        """New lines for `plain`, indented as the text is."""
        old = _LINE.findall(self.text if self.text.endswith("\n") else f"{self.text}\n")
        matcher = difflib.SequenceMatcher(None, [line.removeprefix(self.white) for line in old], new, autojunk=False)
        lines: list[str] = []
        for kind, a, b, c, d in matcher.get_opcodes():
            lines += old[a:b] if kind == "equal" else [self.white * bool(n.strip()) + n for n in new[c:d]]
        return lines


class Notebook:
    """A notebook of format 4.

    Args:
        data: the file.
        path: its name.

    Raises:
        BadSource: it is none, or has no code.
    """

    def __init__(self, data: bytes, path: str) -> None:
        self.path = path
        self.data = data
        self.cells: list[Cell] = []
        self._magics: list[str] = []
        self.digest = hashlib.sha256(data).hexdigest()
        token = self.digest[:12]
        self._mark = f"# %% {token}\n"
        self._magic = f"# magic {token} "
        try:
            self.text = data.decode("utf-8")
            content = json.loads(self.text)
        except ValueError as error:
            raise BadSource(path, 0, f"is not a notebook ({error})", "check the file") from None
        except RecursionError:
            raise BadSource(path, 0, "is not a notebook (it nests too deeply)", "check the file") from None
        if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
            raise BadSource(path, 0, "is not a notebook of format 4", "open it in Jupyter and save it")
        try:
            script = self._script().encode()
        except UnicodeEncodeError:
            raise BadSource(path, 0, "has halves of characters in its code", "check the file") from None
        self.source = Source.decode(script, path)

    # ---- into a script

    def _script(self) -> str:
        parts: list[str] = []
        line = 1
        for number, members in enumerate(self._members_of_cells(), start=1):
            kind, source = members.get("cell_type"), members.get("source")
            if kind is None or source is None or json.loads(self.text[slice(*kind)]) != "code":
                continue
            value = json.loads(self.text[slice(*source)])
            lines = value if isinstance(value, list) else [value]
            if not all(isinstance(part, str) for part in lines):
                raise BadSource(self.path, 0, f"is not a notebook (cell {number} has no text)", "check the file")
            text = "".join(lines)
            indent = _INDENT.match(text)
            self.cells.append(Cell(number, text, *source, line + 1, indent[1] if indent else ""))
            parts.append(self._mark + self._plain(self.cells[-1].plain))
            line += parts[-1].count("\n")
        if not self.cells:
            raise BadSource(self.path, 0, "has no code cells", "nothing to convert; check the path")
        return "".join(parts)

    def _members_of_cells(self) -> Iterator[dict[str, tuple[int, int]]]:
        """Where the members of each cell are in the file."""
        whole = dict(_members(self.text, _skip(self.text, 0)))
        for begin, _ in _elements(self.text, whole["cells"][0]):
            yield dict(_members(self.text, begin)) if self.text[begin] == "{" else {}

    def _plain(self, text: str) -> str:
        """A cell's text as Python: ending with its line, without magics."""
        if text and not text.endswith("\n"):
            text += "\n"
        if _parses(text):
            return text
        lines = _LINE.findall(text)
        first = next((line for line in lines if line.strip()), "")
        around = _CELL_MAGIC.match(first)
        if around and around[1] not in _AROUND_PYTHON:
            return "".join(self._hidden(line, "") for line in lines)
        hidden = []
        for line in lines:
            if _ASSIGNED.match(line):
                hidden.append(self._hidden(line, line.partition("=")[0].rstrip() + " = object()  "))
            elif _MAGIC.match(line):
                hidden.append(self._hidden(line, line[: len(line) - len(line.lstrip())] + "pass  "))
            else:
                hidden.append(line)
        return "".join(hidden)

    def _hidden(self, line: str, statement: str) -> str:
        self._magics.append(line)
        return f"{statement}{self._magic}{len(self._magics) - 1}\n"

    # ---- out of it

    def changed(self, script: str) -> tuple[bytes, list[Change]]:
        """The notebook with the cells of a converted script, and how its lines differ.

        Raises:
            CannotRewrite: the script does not fall into the cells any more.
        """
        texts = self._texts(script)
        pieces: list[str] = []
        at = 0
        for cell, text in zip(self.cells, texts, strict=True):
            if text != cell.text:
                pieces += [self.text[at : cell.begin], self._encoded(text, self.text[cell.begin : cell.end])]
                at = cell.end
        new = "".join([*pieces, self.text[at:]])
        self._check(new, texts)
        return new.encode(), _changes(self.lines, _LINE.findall(new))

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the file."""
        return _LINE.findall(self.text)

    def _texts(self, script: str) -> list[str]:
        before, *parts = script.split(self._mark)
        if before or len(parts) != len(self.cells):
            raise CannotRewrite("an edit reaches over several cells")
        restored = 0
        texts = []
        for cell, part in zip(self.cells, parts, strict=True):
            lines = []
            for line in _LINE.findall(part):
                head, magic, number = line.partition(self._magic)
                if magic:
                    restored += 1
                    indent = head[: len(head) - len(head.lstrip())]
                    line = indent + self._magics[int(number)].lstrip(" \t")
                lines.append(line)
            text = "".join(cell.indented(lines) if cell.white else lines)
            ended = cell.text.endswith("\n") or not cell.text
            texts.append(text if ended or not text.endswith("\n") else text[:-1])
        if restored != len(self._magics):
            raise CannotRewrite("an edit would remove a magic")
        return texts

    def _encoded(self, text: str, old: str) -> str:
        ascii_only = self.text.isascii()
        if not old.startswith("["):
            return json.dumps(text, ensure_ascii=ascii_only)
        between = _SPACE.match(old, 1)
        closing = old[len(old[:-1].rstrip()) : -1]
        space = between[0] if between else ""
        lines = [json.dumps(line, ensure_ascii=ascii_only) for line in _LINE.findall(text)]
        return f"[{space}{(',' + (space or ' ')).join(lines)}{closing}]"

    def _check(self, new: str, texts: Sequence[str]) -> None:
        """Nothing but the sources of code cells has changed."""
        old_content, new_content = json.loads(self.text), json.loads(new)
        for cell, text in zip(self.cells, texts, strict=True):
            source = new_content["cells"][cell.number - 1].pop("source")
            if ("".join(source) if isinstance(source, list) else source) != text:
                raise CannotRewrite(f"cell {cell.number} cannot be written")
            old_content["cells"][cell.number - 1].pop("source")
        if old_content != new_content:
            raise CannotRewrite("something else than code would change")

    # ---- places

    @cached_property
    def _firsts(self) -> list[int]:
        return [cell.line for cell in self.cells]

    def cell_of(self, line: int) -> Cell | None:
        """The cell of a line of the script."""
        at = bisect_right(self._firsts, line) - 1
        return self.cells[at] if at >= 0 else None

    def line_of(self, line: int) -> int:
        """The line of the file for a line of the script; 0 stays 0."""
        cell = self.cell_of(line)
        if cell is None:
            return 0
        begin = self.text.count("\n", 0, cell.begin) + 1
        spread = re.match(r"\[\s*\n", self.text[cell.begin : cell.end])
        return begin + 1 + line - cell.line if spread else begin

    def result(self, result: FileResult) -> FileResult:
        """What becomes of the notebook, for what became of its script.

        Raises:
            CannotRewrite: the converted script does not fall into the cells any more.
        """
        told = self.told(result)
        plan = told.plan
        if plan is None or result.fault or (result.output is None and not result.members):
            return told
        script = (result.output or self.source.data).decode()
        plan = replace(plan, findings=(*plan.findings, note(script)))
        told = replace(told, plan=plan, config=self.config(result.config))
        if result.output is None:
            return told
        output, changes = self.changed(script)
        text = diff.unified(self.path, self.lines, changes)
        return replace(told, diff=text, output=output, hunks=tuple(changes))

    def told(self, result: FileResult) -> FileResult:
        """What is said of the script, and of the files that it imports, with the places of the notebook."""
        plan = result.plan
        if plan is None or result.fault:
            return result
        edits, findings = tuple(map(self.edit, plan.edits)), tuple(map(self.finding, plan.findings))
        plan = replace(plan, digest=self.digest, edits=edits, findings=findings)
        return replace(result, plan=plan, members=tuple(map(self._member, result.members)))

    def _member(self, member: FileResult) -> FileResult:
        """What becomes of a file that the notebook imports, and that may speak of the notebook."""
        plan = member.plan
        if plan is None:
            return member
        findings = (
            replace(
                f, message=self._renamed(f.message, self.path), evidence=tuple(map(self._evidence_beside, f.evidence))
            )
            for f in plan.findings
        )
        edits = (replace(e, evidence=tuple(map(self._evidence_beside, e.evidence))) for e in plan.edits)
        return replace(member, plan=replace(plan, findings=tuple(findings), edits=tuple(edits)))

    def finding(self, finding: Finding) -> Finding:
        """A finding about the script as one about the notebook."""
        beside = not finding.line and _BESIDE.match(finding.message)  # in a file that the script imports
        message = self._renamed(finding.message, self.path if beside else "") + self._where(finding.line)
        evidence = tuple(map(self._evidence, finding.evidence))
        return replace(finding, line=self.line_of(finding.line), message=message, evidence=evidence)

    def _renamed(self, text: str, of: str) -> str:
        return renamed_lines(text, self._named, of)

    def _where(self, line: int) -> str:
        """Which cell a line of the script is in, to be put behind what is said of it."""
        return f" ({self._named(line)})" if self.cell_of(line) else ""

    def _named(self, line: int) -> str:
        """A line of the script, for somebody who reads the notebook."""
        cell = self.cell_of(line)
        return f"cell {cell.number}, line {line - cell.line + 1}" if cell else f"line {line}"

    def edit(self, edit: Edit) -> Edit:
        """An edit of the script with its lines in the notebook."""
        span = edit.span._replace(line=self.line_of(edit.span.line), end_line=self.line_of(edit.span.end_line))
        reason = f"{edit.reason}{self._where(edit.span.line)}"
        return replace(edit, span=span, reason=reason, evidence=tuple(map(self._evidence, edit.evidence)))

    def config(self, text: str) -> str:
        """A launch config of the script with its lines in the notebook."""
        name = re.escape(PurePath(self.path).name)
        return re.sub(rf"({name}):(\d+)", lambda m: f"{m[1]}:{self.line_of(int(m[2]))}", text)

    def _evidence(self, step: Evidence) -> Evidence:
        return step if step.path else replace(step, line=self.line_of(step.line))

    def _evidence_beside(self, step: Evidence) -> Evidence:
        return replace(step, line=self.line_of(step.line)) if step.path == self.path else step

    @contextmanager
    def places(self) -> Iterator[None]:
        """A context in which errors about the script are about the notebook."""
        try:
            yield
        except BadSource as error:
            if error.path != self.path:
                raise
            cell = self.cell_of(error.line)
            where = f" in cell {cell.number}, line {error.line - cell.line + 1}" if cell else ""
            problem = f"{error.problem}{where}"
            raise BadSource(self.path, self.line_of(error.line), problem, error.remedy) from None


def note(script: str) -> Finding:
    """What to say of every converted notebook."""
    function = _launched(script)
    remedy = "to train on several, save it as a script, or put the training into a function for notebook_launcher"
    if function:
        remedy = f"to train on several, call accelift.notebook_launcher({function}, num_processes=N)"
    return Finding("NOTEBOOK", Severity.NOTE, 0, "a notebook runs on one process", remedy)


def _launched(script: str) -> str:
    """The function that makes the Accelerator; empty if that is at module level."""
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "Accelerator":
                    return node.name
    return ""


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _changes(old: list[str], new: list[str]) -> list[Change]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [Change(a, b, tuple(new[c:d])) for kind, a, b, c, d in matcher.get_opcodes() if kind != "equal"]


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _members(text: str, at: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """The names of a JSON object's members, and where their values are."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = _decoded(text, at)
        at = _skip(text, _skip(text, at) + 1)
        _, end = _decoded(text, at)
        yield name, (at, end)
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _elements(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Where the elements of a JSON array are."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = _decoded(text, at)
        yield at, end
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at


def _decoded(text: str, at: int) -> tuple[Any, int]:
    return _DECODER.raw_decode(text, at)
