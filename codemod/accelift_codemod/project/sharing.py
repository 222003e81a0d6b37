"""What a conversion changes for those who use the globals of a script's files."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from accelift_codemod.draft import mentioned
from accelift_codemod.facts.index import FUNCTIONS, Index
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import FOR_EACH, STATE, Edit, Operation
from accelift_codemod.project.finder import project_folder
from accelift_codemod.project.program import is_main
from accelift_codemod.project.users import NO_USE, use, users

_REMOVE = (Operation.DROP, Operation.DROP_NAME)
_CREATION = re.compile(r"(\w+) = Accelerator\(")


@dataclass(frozen=True)
class Sharer:
    """A file that uses globals of a file that a conversion changes: those that mean something else then, and those that
    ask for the state of the processes."""

    member: str
    path: str
    names: tuple[str, ...]
    asking: tuple[str, ...]


@dataclass(frozen=True)
class Changed:
    """A file of a script, with what the conversion of the script changes in it."""

    path: Path
    shown: str
    index: Index
    edits: Sequence[Edit]


_Global = tuple[Path, str]
_Meanings = dict[_Global, set[tuple[str, Edit]]]


class Sharing:
    """What a conversion changes for those who use the globals of a script's files.

    Args:
        script: the script.
        files: it and the files that it imports, each with its edits.
    """

    def __init__(self, script: Path, files: Sequence[Changed]) -> None:
        self.script = script
        self.files = files
        self._meanings = self._found()

    def changes(self) -> dict[str, dict[str, str]]:
        """For each file and global: a digest of the edits that change what it does."""
        found: dict[str, dict[str, str]] = {}
        for (path, name), edits in self._meanings.items():
            text = "\n".join(sorted(f"{where} {e.span} {e.operation} {e.code} {e.place}" for where, e in edits))
            found.setdefault(str(path), {})[name] = sha256(text.encode(errors="surrogateescape")).hexdigest()
        return found

    def sharers(self) -> tuple[Sharer, ...]:
        """Who uses what is changed, and is no file of the program.

        Of the script itself, they can use what it defines as long as that is called as before.
        """
        program = {file.path for file in self.files}
        root = project_folder(Path(os.path.commonpath([path.parent for path in program])))
        found = []
        for file in self.files:
            asking = {n for (path, n), edits in self._meanings.items() if path == file.path and _asks(edits)}
            changed = {n for (path, n), edits in self._meanings.items() if path == file.path and _changes(edits)}
            if file.path == self.script:
                changed &= self._called_otherwise(file)
            readers = list(users(root, file.path, changed | asking, program)) if changed or asking else []
            if file.path != self.script:
                readers.append((file.path, (changed | asking) & _main_names(file)))
            for path, read in readers:
                if read:
                    names, asked = (tuple(sorted(read & group)) for group in (changed, asking))
                    found.append(Sharer(file.shown, str(path), names, asked))
        return tuple(found)

    def _found(self) -> _Meanings:
        """The edits that change what globals do: their own, and those of what they use."""
        meanings: _Meanings = {}
        for file in self.files:
            for edit in file.edits:
                for name in _touched(file.index, edit):
                    meanings.setdefault((file.path, name), set()).add((str(file.path), edit))
        uses = list(self._uses()) if meanings else []
        growing = True
        while growing:
            growing = False
            for user, used in uses:
                new = meanings.get(used, set()) - meanings.get(user, set())
                if new:
                    meanings.setdefault(user, set()).update(new)
                    growing = True
        return meanings

    def _uses(self) -> Iterator[tuple[_Global, _Global]]:
        """Functions, classes and what is imported, with the globals that they use."""
        for file in self.files:
            tops = [top for top in file.index.tree.body if isinstance(top, (*FUNCTIONS, ast.ClassDef))]
            read = {top.name: {n.id for n in walk(top) if isinstance(n, ast.Name)} for top in tops}
            yield from (((file.path, user), (file.path, name)) for user, names in read.items() for name in names)
            for other in self.files:
                how = use(file.path, other.path) if other is not file else NO_USE
                if how is NO_USE:
                    continue
                names = _names(other)
                yield from (((file.path, called), (other.path, name)) for called, name in how.bound(names).items())
                for top in tops if how.attributes else ():
                    members = {n.attr for n in walk(top) if isinstance(n, ast.Attribute)}
                    yield from (((file.path, top.name), (other.path, name)) for name in names & members)

    def _called_otherwise(self, script: Changed) -> set[str]:
        """The globals of a script that others cannot use as they did: they are gone, or have a parameter more, or need
        an accelerator that is made only where the script is run."""
        found: set[str] = set()
        made = ""
        for edit in script.edits:
            if edit.operation in (*_REMOVE, Operation.PARAMETER, Operation.ADD_PARAMETER):
                found |= _touched(script.index, edit)
            top = _top(script.index, edit.node) if edit.node is not None else None
            if isinstance(top, ast.If) and is_main(top.test) and (creation := _CREATION.search(edit.code)):
                made = creation[1]
        needy = {edit for edit in script.edits if made and made in mentioned(edit.code)}
        meanings = ((name, edits) for (path, name), edits in self._meanings.items() if path == script.path)
        return found | {name for name, edits in meanings if any(edit in needy for _, edit in edits)}


def _names(file: Changed) -> set[str]:
    """The globals of a file that may mean something else once it is converted."""
    defined = {top.name for top in file.index.tree.body if isinstance(top, (*FUNCTIONS, ast.ClassDef))}
    return defined.union(*(_touched(file.index, edit) for edit in file.edits))


def _asks(edits: Iterable[tuple[str, Edit]]) -> bool:
    return any(STATE in edit.code for _, edit in edits)


def _changes(edits: Iterable[tuple[str, Edit]]) -> bool:
    """Whether edits change what a global does for others: not those that only ask for the state, which is there for
    every script, and not those that let a folder be there already."""
    return any(STATE not in edit.code and edit.reason != FOR_EACH for _, edit in edits)


def _touched(index: Index, edit: Edit) -> set[str]:
    """The globals of a file that an edit changes or removes."""
    if edit.node is None:
        return set()
    top = _top(index, edit.node)
    if top is edit.node and edit.operation in (Operation.BEFORE, Operation.AFTER):
        return set()  # it only stands beside it
    if isinstance(top, (*FUNCTIONS, ast.ClassDef)):
        return {top.name}
    return _bound(edit.node) if edit.operation in _REMOVE else set()


def _bound(statement: ast.AST) -> set[str]:
    """The names that a statement binds."""
    aliases = (n for n in walk(statement) if isinstance(n, ast.alias))
    stored = (n.id for n in walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return {*(a.asname or a.name.partition(".")[0] for a in aliases), *stored}


def _main_names(file: Changed) -> set[str]:
    """The names that a file uses when it is run itself, in a block that does not run when it is imported."""
    blocks = [s for s in file.index.tree.body if isinstance(s, ast.If) and is_main(s.test)]
    return {n.id for block in blocks for n in walk(block) if isinstance(n, ast.Name)}


def _top(index: Index, node: ast.AST) -> ast.AST:
    while not isinstance(index.parents.get(node, index.tree), ast.Module):
        node = index.parents[node]
    return node
