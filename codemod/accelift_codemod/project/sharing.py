"""What a conversion changes for those who use the globals of a script's files."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from accelift_codemod.draft import mentioned
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, Binding, How, Index
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import DEALT, FOR_EACH, STATE, TAKEN_OUT, Edit, Operation, Span
from accelift_codemod.project.finder import project_folder
from accelift_codemod.project.program import is_main, main_blocks, main_names
from accelift_codemod.project.starting import distributing
from accelift_codemod.project.users import NO_USE, runners, use, users

if TYPE_CHECKING:
    from accelift_codemod.single.files import Folded

_REMOVE = (Operation.DROP, Operation.DROP_NAME)
_SIGNATURE = (Operation.PARAMETER, Operation.ADD_PARAMETER, Operation.DROP_PARAMETER)
_CREATION = re.compile(r"(\w+) = Accelerator\(")
_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_BINDS = re.compile(r"^(\w+(?:, \w+)*) = ", re.MULTILINE)


@dataclass(frozen=True)
class Sharer:
    """A file that uses globals of a file that a conversion changes.

    `names` are those that mean something else then, `reasons` the globals with their files that edits change for them;
    `asking` tells whether any asks for the state of the processes, which is a change only for a file that makes a
    process group itself. `runners` are the files that run what uses them, if not everyone does who imports this one.
    `otherwise` are the globals among the reasons that take other arguments then.
    """

    member: str
    path: str
    names: tuple[str, ...]
    reasons: tuple[tuple[str, str], ...]
    asking: bool
    runners: frozenset[str] | None = None
    otherwise: tuple[str, ...] = ()


@dataclass(frozen=True)
class Changed:
    """A file of a script, with what the conversion of the script changes in it."""

    path: Path
    shown: str
    index: Index
    edits: Sequence[Edit]
    folded: Folded | None = None  # what the file is made of, if a script's own distribution is taken out of it

    @cached_property
    def taken_out(self) -> dict[str, list[Edit]]:
        """The globals out of which something is taken, which only several processes would run, and what that is."""
        found: dict[str, list[Edit]] = {}
        if self.folded is None:
            return found
        tops = [top for top in self.folded.original.tree.body if isinstance(top, _DEFINITIONS)]
        for span, operation, code in self.folded.gone:
            edit = Edit("DISTRIBUTED", span, operation, TAKEN_OUT, code)
            for top in [
                t for t in tops if Span.of(t).contains(span)
            ] or tops:  # outside of them: who knows whom it is for
                found.setdefault(top.name, []).append(edit)
        return found

    def place(self, edit: Edit) -> Span:
        """Where an edit is made, in the file as it was written."""
        return edit.span if self.folded is None or _takes_out(edit) else self.folded.written(edit.span)

    @cached_property
    def anew(self) -> frozenset[str]:
        """The globals that edits bind, wherever the file is run or imported."""
        found: set[str] = set()
        for edit in self.edits:
            if edit.node is not None and isinstance(self.index.parents.get(edit.node), ast.Module):
                found.update(name for names in _BINDS.findall(edit.code) for name in names.split(", "))
        return frozenset(found)

    def touched(self, edit: Edit) -> set[str]:
        """The globals that an edit changes or removes."""
        if edit.node is None:
            return set()
        top = _top(self.index, edit.node)
        if top is edit.node and edit.operation in (Operation.BEFORE, Operation.AFTER):
            return set()  # it only stands beside it
        if isinstance(top, _DEFINITIONS):
            return {top.name}
        if isinstance(top, ast.If) and is_main(top.test):
            return set()  # nobody who imports the file has seen it
        if edit.operation in (*_REMOVE, Operation.SWAP) or _moves(edit):
            return _bound(top if _moves(edit) else edit.node) - self.anew
        return set()

    def handed(self, edit: Edit) -> bool:
        """Whether what an edit no longer moves comes out of a parameter of the function that it stands in."""
        assert edit.node is not None
        calls = (n for n in walk(edit.node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
        moved = [n for call in calls for n in loads(call.func.value)]  # type: ignore[attr-defined]
        queue, seen = moved or loads(edit.node), set[Binding]()
        while queue:
            name = queue.pop()
            owner = self.index.scope(name).owner(name.id)
            if owner is None or owner.is_module:
                continue
            for binding in owner.bindings.get(name.id, []):
                if binding.how is How.PARAMETER or (binding.value is None and binding.how is How.OTHER):
                    return True
                if binding not in seen and binding.value is not None:
                    seen.add(binding)
                    queue += loads(binding.value)
        return False


_Global = tuple[Path, str]


class Sharing:
    """What a conversion changes for those who use the globals of a script's files.

    Args:
        script: the script.
        files: it and the files that it imports, each with its edits.
    """

    def __init__(self, script: Path, files: Sequence[Changed]) -> None:
        self.script = script
        self.files = files
        self._edits: dict[_Global, list[Edit]] = {}  # of each global itself
        for file in files:
            for edit in file.edits:
                for name in file.touched(edit):
                    self._edits.setdefault((file.path, name), []).append(edit)
            for name, gone in file.taken_out.items():
                self._edits.setdefault((file.path, name), []).extend(gone)
        self._uses: dict[_Global, set[_Global]] = {}
        for user, used in self._found_uses() if self._edits else ():
            self._uses.setdefault(user, set()).add(used)

    @cached_property
    def _root(self) -> Path:
        """Where the project begins: not below the folder that all files of the program are in."""
        return project_folder(Path(os.path.commonpath([file.path.parent for file in self.files])))

    @cached_property
    def sharers(self) -> tuple[Sharer, ...]:
        """Who uses what is changed, and is no file of the program.

        Of the script itself, they can use what it defines as long as that is called as before.
        """
        program = {file.path for file in self.files}
        all_changed, all_asking, all_taken = map(self._reaching, (_changes, _asks, _takes_out))
        unused = {one for one, edits in self._edits.items() if all(map(_tidies, edits))}
        found = []
        for file in self.files:
            asking = {name for path, name in all_asking if path == file.path}
            changed = {name for path, name in all_changed if path == file.path}
            if file.path == self.script:
                changed &= self._called_otherwise(file)
            gone = {name for path, name in unused if path == file.path != self.script}
            other = {name for path, name in all_taken if path == file.path != self.script} - changed
            wanted = changed | asking | gone | other
            readers = list(users(self._root, file.path, wanted, program)) if wanted else []
            readers = [(path, read - (gone & use(path, file.path, self._root).own)) for path, read in readers]
            changed |= gone | other
            if file.path != self.script:
                readers.append((file.path, (changed | asking) & main_names(file.index)))
            readers += [(p.path, self._in_block(p, file) & (changed | asking)) for p in self.files if p is not file]
            several = distributing(self._root) if any(read & (other | asking) for _, read in readers) else ()
            for path, used in readers:
                alone = path not in several
                read = used - other if alone else used
                if read:
                    names = tuple(sorted(read & changed if alone else read))
                    reasons = self._reasons(file.path, names, alone)
                    running = runners(path, file.path, read, self._root) if path != file.path else None
                    anew = self._taking_others(reasons)
                    found.append(Sharer(file.shown, str(path), names, reasons, bool(read & asking), running, anew))
        return tuple(found)

    def _in_block(self, user: Changed, file: Changed) -> set[str]:
        """The attributes that a file which the script imports asks for where it is run itself, if it has another one as
        a module: `utils.load(...)`."""
        if user.path == self.script or not use(user.path, file.path, self._root).attributes:
            return set()
        nodes = (n for block in main_blocks(user.index) for n in walk(block))
        return {n.attr for n in nodes if isinstance(n, ast.Attribute)}

    def lost(self) -> dict[_Global, bool]:
        """What others take of the files that is no class, and is gone or called otherwise: whether it is only gone."""
        found: dict[_Global, bool] = {}
        for file in self.files:
            classes = {s.name for s in file.index.tree.body if isinstance(s, ast.ClassDef)}
            gone = {name for path, name in self._edits if path == file.path} - classes
            if self._preparing in file.index.tree.body:
                gone.discard(getattr(self._preparing, "name", ""))
            taken = {n for s in self.sharers if s.member == file.shown for n in s.names} if gone else set()
            for one in ((file.path, name) for name in sorted(gone & taken)):
                found[one] = all(e.operation is Operation.DROP for e in self._edits[one])
        return found

    def changes(self) -> dict[tuple[str, str], str]:
        """For each global that edits change: a digest of these.

        That a value is made the mean over the processes, in a function that trains, is no difference: scripts that read
        it only on the way need not ask for it, and may have it.
        """
        found = {}
        places = {file.path: file.place for file in self.files}
        for (path, name), edits in self._edits.items():
            trains = any(e.rule == "BACKWARD" for e in edits)
            asked = (e for e in edits if not (trains and e.rule == "REDUCE"))
            text = "\n".join(sorted(f"{places[path](e)} {e.operation} {e.code} {e.place}" for e in asked))
            found[str(path), name] = sha256(text.encode(errors="surrogateescape")).hexdigest()
        return found

    def _reasons(self, path: Path, names: Iterable[str], alone: bool) -> tuple[tuple[str, str], ...]:
        """The globals that edits change, of those that some globals of a file use, and these themselves; for a script
        that makes a process group of its own, also those that ask for the state, which makes it before."""
        seen = {(path, name) for name in names}
        queue = [*seen]
        while queue:
            further = self._uses.get(queue.pop(), set()) - seen
            seen |= further
            queue += further
        edits = self._edits
        edited = (
            (str(where), name)
            for where, name in seen
            if any(
                _changes(edit) or _takes_out(edit) or (_asks(edit) and not alone)
                for edit in edits.get((where, name), ())
            )
        )
        return tuple(sorted(edited))

    def _taking_others(self, reasons: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """The globals that take other arguments than before."""
        edits = ((name, self._edits.get((Path(where), name), ())) for where, name in reasons)
        return tuple(name for name, changed in edits if any(edit.operation in _SIGNATURE for edit in changed))

    def _reaching(self, matches: Callable[[Edit], bool]) -> set[_Global]:
        """The globals that such an edit changes, or changes something for that they use."""
        users: dict[_Global, list[_Global]] = {}
        for user, used in self._uses.items():
            for one in used:
                users.setdefault(one, []).append(user)
        queue = [one for one, edits in self._edits.items() if one != self._whole and any(map(matches, edits))]
        found = set(queue)
        while queue:
            further = [user for user in users.get(queue.pop(), ()) if user not in found]
            found.update(further)
            queue += further
        return found

    def _found_uses(self) -> Iterator[tuple[_Global, _Global]]:
        """Functions, classes and what is imported, with the globals that they use."""
        for file in self.files:
            tops = [top for top in file.index.tree.body if isinstance(top, _DEFINITIONS)]
            read = {top.name: _globals(file.index, top) for top in tops}
            known = _names(file)
            yield from (
                ((file.path, user), (file.path, name)) for user, names in read.items() for name in names & known
            )
            for other in self.files:
                how = use(file.path, other.path, self._root) if other is not file else NO_USE
                if how is NO_USE:
                    continue
                names = _names(other)
                for called, name in how.bound(names).items():
                    yield (file.path, called), (other.path, name)
                    yield from (((file.path, user), (file.path, called)) for user in read if called in read[user])
                for top in tops if how.attributes else ():
                    members = {n.attr for n in walk(top) if isinstance(n, ast.Attribute)}
                    yield from (((file.path, top.name), (other.path, name)) for name in names & members)

    def _called_otherwise(self, script: Changed) -> set[str]:
        """The globals of a script that others cannot use as they did: they are gone, or have a parameter more, or need
        an accelerator that is made only where the script is run."""
        found: set[str] = set()
        made = ""
        for edit in script.edits:
            top = _top(script.index, edit.node) if edit.node is not None else None
            if self._is_otherwise(script, edit, top):
                found |= script.touched(edit)
            if isinstance(top, ast.If) and is_main(top.test) and (creation := _CREATION.search(edit.code)):
                made = creation[1]
        needy = self._reaching(lambda edit: made in mentioned(edit.code)) if made else set()
        return found | {name for path, name in needy if path == script.path}

    @cached_property
    def _preparing(self) -> ast.AST | None:
        """The one function in which all is prepared, and the accelerator made: it does the same for all its callers."""
        tops = {
            _top(file.index, edit.node)
            for file in self.files
            for edit in file.edits
            if edit.node is not None and (edit.rule == "PREPARE" or _CREATION.search(edit.code))
        }
        top = tops.pop() if len(tops) == 1 else None
        return top if isinstance(top, FUNCTIONS) else None

    @cached_property
    def _whole(self) -> _Global | None:
        """That function, if it is called as before: who runs it trains as the script does."""
        file = next((f for f in self.files if self._preparing in f.index.tree.body), None)
        name = getattr(self._preparing, "name", "")
        edits = self._edits.get((file.path, name), []) if file is not None else []
        same = all(not self._is_otherwise(file, e, self._preparing) for e in edits) if file is not None else False
        return (file.path, name) if file is not None and file.path != self.script and same else None

    def _is_otherwise(self, script: Changed, edit: Edit, top: ast.AST | None) -> bool:
        """Whether an edit changes what others get who use what it stands in as they did."""
        if isinstance(top, _DEFINITIONS) and _moves(edit):
            if top is self._preparing:
                return False  # whoever calls it
            return edit.reason != DEALT or script.handed(edit)  # batches of loaders that the script has prepared
        if edit.operation in (*_REMOVE, *_SIGNATURE) or _moves(edit):
            return True
        return top is edit.node and edit.operation is Operation.SWAP


def _moves(edit: Edit) -> bool:
    """Whether an edit takes the move of something to a device away."""
    return edit.rule == "MOVE" and edit.operation in (Operation.DROP, Operation.RECEIVER)


def _globals(index: Index, top: ast.AST) -> set[str]:
    """The globals that a function or class uses, and builtins."""
    names = (n for n in walk(top) if isinstance(n, ast.Name))
    owners = ((n.id, index.scope(n).owner(n.id)) for n in names)
    return {name for name, owner in owners if owner is None or owner.is_module}


def _names(file: Changed) -> set[str]:
    """The globals of a file that may mean something else once it is converted."""
    defined = {top.name for top in file.index.tree.body if isinstance(top, _DEFINITIONS)}
    return defined.union(*(file.touched(edit) for edit in file.edits))


def _asks(edit: Edit) -> bool:
    return STATE in edit.code


def _changes(edit: Edit) -> bool:
    """Whether an edit changes what a global does for others: not if it only asks for the state, which is there for
    every script, nor if it lets a folder be there already."""
    return STATE not in edit.code and edit.reason != FOR_EACH and not _tidies(edit) and not _takes_out(edit)


def _takes_out(edit: Edit) -> bool:
    """Whether an edit takes away what only several processes run: nothing changes for scripts that are one process."""
    return edit.reason == TAKEN_OUT


def _tidies(edit: Edit) -> bool:
    """Whether an edit takes away an import that the file has no use for any more: others may have it from there."""
    return edit.rule == "CLEAN" and isinstance(edit.node, (ast.Import, ast.ImportFrom, ast.alias))


def _bound(statement: ast.AST) -> set[str]:
    """The names that a statement binds."""
    aliases = (n for n in walk(statement) if isinstance(n, ast.alias))
    stored = (n.id for n in walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return {*(a.asname or a.name.partition(".")[0] for a in aliases), *stored}


def _top(index: Index, node: ast.AST) -> ast.AST:
    while not isinstance(index.parents.get(node, index.tree), ast.Module):
        node = index.parents[node]
    return node
