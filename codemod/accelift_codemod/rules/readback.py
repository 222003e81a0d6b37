"""Waits for files before reading them back."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role, files, library, paths, position
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.signatures import defaults
from accelift_codemod.facts.tree import walk
from accelift_codemod.main_process import read_one_by_one
from accelift_codemod.measured import meeting
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "READBACK"
# What puts files into folders, and what asks which there are.
_WAIT = "{accelerator}.wait_for_everyone()"
_MOVES = frozenset(
    "os.rename os.replace os.remove shutil.move shutil.copy shutil.copy2 shutil.copyfile shutil.copytree".split()
)
_LISTS = library.LISTS | frozenset(
    "torchvision.datasets.ImageFolder torchvision.datasets.DatasetFolder imutils.paths.list_images".split()
)


Written = tuple[ast.Call, list[ast.expr]]
# What opens a file on every process, to log into it; and what makes the folder.
_LOGS = frozenset(
    """
    logging.FileHandler logging.basicConfig logging.handlers.RotatingFileHandler
    logging.handlers.TimedRotatingFileHandler logging.handlers.WatchedFileHandler
    """.split()
)
_REMOVES = frozenset({"shutil.rmtree"})
_FOLDERS = frozenset({"os.makedirs", "os.mkdir"}) | _REMOVES


class ReadBack(Rule):
    """Waits for the main process where every process reads a file that a guarded statement has written before.

    Only if both name the file, however they put its path together, in one function or in what it calls with that name,
    and the file is read wherever it is written: a process that waits where others do not would wait for ever. So it is
    with a folder that is listed after files have been moved, or written into it, with a folder that the main process
    makes and every process logs into, and with a file that the main process removes, or writes over, where others may
    still be reading it. Before a loop that reads several files of names like those that were written, one by one, all
    processes wait, too. For checkpoints, see SAVE.
    """

    code = _RULE
    name = "files that are read back"
    findings = (
        Explained(
            "READ-EARLY",
            Severity.WARNING,
            "a file that may not be there yet",
            "The main process alone writes a file that every process reads afterwards, and the accelerator is not at "
            "hand where they could wait for it, or not all of them come there, and who waits would wait for ever: the "
            "others may find nothing, or half of it.",
        ),
    )
    before = """\
torch.onnx.export(model, example, "model.onnx")
exported = onnx.load("model.onnx")
"""
    after = """\
if accelerator.is_main_process:
    torch.onnx.export(accelerator.unwrap_model(model), example, "model.onnx")
accelerator.wait_for_everyone()
exported = onnx.load("model.onnx")
"""

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        reads = [c for c in draft.calls if self._paths(draft, c, folders=True) and not draft.guarded(c)]
        guarded = [c for c in draft.calls if _is_once(draft, c)] if reads else []
        guarded = [c for c in guarded if not paths.is_name(draft.facts.resolver, c)]
        written = [write for call in guarded for write in self._written(draft, call, _given(call))]
        saved = [c for c in draft.calls if _is_saved(draft, c)] if reads else []
        saves = [write for call in saved for write in self._written(draft, call, _given(call)[1:])]
        of = {read: [w for w, given in written if self._reads_back(draft, read, w, given)] for read in reads}
        for read in (r for r in reads if not self._loads(draft, r)):
            of[read] += [w for w, given in saves if self._reads_back(draft, read, w, given)]
        back = {read: writes for read, writes in of.items() if writes and self._meets(draft, draft.asked(read))}
        parted = {read: meeting.parting_reads(draft, read) for read in back}
        yield from (meeting.unawaited(draft, read, test) for read, test in parted.items() if test is not None)
        back = {read: writes for read, writes in back.items() if parted[read] is None}
        waited = [read for read in back if not self._is_late(draft, read, back)]
        yield from draft.awaited(_RULE, waited, Need.WEAK, "READ-EARLY")
        others = [r for r in reads if r not in parted and not self._loads(draft, r)]
        yield from self._one_by_one(draft, others, guarded)
        for statement in dict.fromkeys(self._overwrites(draft, reads, written, waited)):
            why = "other processes may still be reading the file"
            yield draft.edit(_RULE, statement, Operation.BEFORE, why, _WAIT, need=Need.WEAK)
        moves = [c for c in draft.calls if draft.facts.resolver.qualified(c.func) in _MOVES and draft.guarded(c)]
        puts = [c for c in draft.calls if draft.guarded(c) and not self._makes_folder(draft, c)]
        listings = [c for c in draft.calls if self._lists(draft, c)] if puts else []
        first = [next((c for c in listings if self._follows(draft, c, move)), None) for move in moves]
        first += (self._listing(draft, listings, call) for call in puts if listings)
        late = dict.fromkeys(c for c in first if c is not None and self._waits(draft, c))
        yield from draft.awaited(_RULE, late, Need.WEAK)  # what is listed after the first is there, too
        yield from draft.awaited(_RULE, dict.fromkeys(self._logging(draft)), Need.WEAK)

    def _one_by_one(self, draft: Draft, reads: list[ast.Call], writes: list[ast.Call]) -> Iterator[Edit | Finding]:
        """Waits before the statements that read again, perhaps in a loop, what the main process has written."""
        for statement, read in read_one_by_one.read_later(draft, reads, writes):
            if not self._meets(draft, statement):
                continue
            test = meeting.parting(draft, statement)
            if test is not None:
                yield meeting.unawaited(draft, statement, test)
            else:
                yield from draft.awaited(_RULE, [read], Need.WEAK, around=statement)

    def _logging(self, draft: Draft) -> Iterator[ast.Call]:
        """The calls by which every process opens a log, or makes a folder, in one that the main process has just made,
        or removed."""
        folders = [c for c in draft.calls if self._makes_folder(draft, c)]
        made = [c for c in folders if draft.guarded(c)]
        logs = [c for c in draft.calls if draft.facts.resolver.qualified(c.func) in _LOGS] if made else []
        logs += [c for c in folders if made and draft.facts.resolver.qualified(c.func) not in _REMOVES]
        opened = [o for c in logs if not draft.guarded(c) for o in self._written(draft, c, self._place(draft, c))]
        for folder in made:
            for written, path in self._written(draft, folder, self._place(draft, folder)):
                names = self._named(draft, path)
                after = ((c, p) for c, p in opened if c is not written and self._follows(draft, c, written))
                later = (c for c, p in after if names & self._named(draft, p))
                first = min(later, key=position, default=None)
                if first is not None and self._waits(draft, first):
                    yield first

    def _place(self, draft: Draft, call: ast.Call) -> list[ast.expr]:
        """What a call names a folder, or a log, by."""
        if draft.facts.resolver.qualified(call.func) in _FOLDERS:
            return call.args[:1]
        method = self._makes_folder(draft, call) and isinstance(call.func, ast.Attribute)
        return [call.func.value] if method and isinstance(call.func, ast.Attribute) else _arguments(call)

    def _makes_folder(self, draft: Draft, call: ast.Call) -> bool:
        name = draft.facts.resolver.qualified(call.func)
        return name in _FOLDERS or (name is None and isinstance(call.func, ast.Attribute) and call.func.attr == "mkdir")

    def _named(self, draft: Draft, path: list[ast.expr], steps: int = 2) -> set[str]:
        """The variables and settings that a path is made of, and those that these are made of."""
        found: set[str] = set()
        for node in (n for part in path for n in walk(part)):
            outer = draft.facts.index.parents.get(node)
            if not isinstance(node, (ast.Name, ast.Attribute)) or isinstance(outer, ast.Attribute):
                continue
            if draft.facts.resolver.qualified(node) is None and not draft.facts.resolver.builtin(node):
                found.add(ast.unparse(node))
            bound = draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) and steps else []
            values = [b.value for b in bound if b.how is How.ASSIGN and b.value is not None]
            found |= self._named(draft, values, steps - 1)
        return found

    def _loads(self, draft: Draft, read: ast.Call, calls: int = 3) -> bool:
        """Whether a call loads checkpoints, perhaps in functions of the script: SAVE has it wait."""
        target = draft.facts.resolver.callee(read)
        inner = [n for n in walk(target) if isinstance(n, ast.Call)] if isinstance(target, FUNCTIONS) and calls else []
        loads = draft.facts.resolver.qualified(read.func) in ("torch.load", "torch.serialization.load")
        return loads or any(self._loads(draft, call, calls - 1) for call in inner)

    def _is_late(self, draft: Draft, read: ast.Call, back: dict[ast.Call, list[ast.Call]]) -> bool:
        """Whether a file has been waited for already, since it was written, where an earlier statement reads it."""
        writes = {position(write) for write in back[read]}
        return any(
            position(other) < position(read)
            and writes <= {position(write) for write in back[other]}
            and not any(position(other) < place < position(read) for place in writes)
            and draft.facts.index.statement(other) is not draft.facts.index.statement(read)
            and self._always(draft, other, read)
            for other in back
        )

    def _overwrites(
        self, draft: Draft, reads: list[ast.Call], written: list[Written], waited: list[ast.Call]
    ) -> Iterator[ast.stmt]:
        """The statements that write or remove a file which other processes may still be reading."""
        for write, given in (w for w in written if not self._paths(draft, w[0])):
            named = [
                part
                for argument in given
                for part in paths.beginnings(argument, lambda call: bool(self._paths(draft, call)))
            ]
            first = [r for r in reads if position(r) < position(write) and self._names(draft, r, named)]
            first = [r for r in first if draft.function(r) is draft.function(write)]
            statement = self._asked(draft, write)
            if any(
                self._always(draft, statement, read)
                and not draft.blueprint.timeline.exclusive(read, write)
                and not self._met(draft, read, statement, waited)
                for read in first
            ) and self._waits(draft, statement):
                yield statement

    def _asked(self, draft: Draft, write: ast.Call) -> ast.stmt:
        """The statement of what writes, or around it the conditions that ask for the file, each process for itself."""
        found = next((p for p in draft.facts.index.ancestors(write) if _is_guard(draft, p)), None)
        statement = found if isinstance(found, ast.stmt) else draft.facts.index.statement(write)
        for asking in files.asking(draft.facts.resolver, write):
            if asking.body[0] is statement and not asking.orelse:
                statement = asking
        return statement

    def _met(self, draft: Draft, read: ast.Call, write: ast.stmt, waited: list[ast.Call]) -> bool:
        """Whether all processes surely meet between a read and what writes: they train, or wait for a file."""
        function, timeline = draft.function(read), draft.blueprint.timeline
        loops = [p for loop in draft.blueprint.train_loops for p in timeline.places(loop.node, function)]
        around = set(draft.facts.index.ancestors(write))
        outer = ([p, *(o for o in draft.facts.index.enclosing_loops(p) if o not in around)] for p in loops)
        return any(
            position(read) < position(place) < position(write) and self._always(draft, place, write)
            for place in (*(node for chain in outer for node in chain), *waited)
        )

    def _waits(self, draft: Draft, node: ast.AST) -> bool:
        """Whether processes can wait for each other before a node: all come to it, at once."""
        return self._meets(draft, node) and meeting.parting(draft, node) is None

    def _meets(self, draft: Draft, read: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether all processes come to a read at once: not one before the others, nor those that miss a file alone."""
        above = (read, *draft.facts.index.ancestors(read))
        if any(map(draft.goes_first, above)) or any(files.asking(draft.facts.resolver, read)):
            return False
        function = draft.function(read)
        sites = draft.facts.resolver.sites(function) if isinstance(function, FUNCTIONS) and function not in seen else ()
        return all(self._meets(draft, site, seen | {function}) for site in sites if function is not None)

    def _lists(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call asks what is in a folder, or makes a data set of the script that does."""
        resolver = draft.facts.resolver
        if (resolver.qualified(call.func) or "") in _LISTS:
            return True
        target = resolver.callee(call)
        if not isinstance(target, ast.ClassDef) or resolver.class_role(target) is not Role.DATASET:
            return False
        bases = (base for one in resolver.ancestry(target) for base in one.bases)
        if any((resolver.qualified(base) or "") in _LISTS for base in bases):
            return True
        made = resolver.constructor(target)
        inner = (n for n in walk(made) if isinstance(n, ast.Call)) if made is not None else ()
        return any((resolver.qualified(c.func) or "") in _LISTS for c in inner)

    def _follows(self, draft: Draft, call: ast.Call, move: ast.Call) -> bool:
        """Whether every process comes to a call after a file has been moved, in the same function."""
        if draft.function(call) is not draft.function(move) or position(call) < position(move):
            return False
        return not draft.blueprint.timeline.exclusive(move, call) and self._always(draft, call, move)

    def _listing(self, draft: Draft, listings: list[ast.Call], write: ast.Call) -> ast.Call | None:
        """The first call that lists a folder which the main process has written files into before."""
        for written, given in self._written(draft, write, _given(write)):
            names = self._named(draft, given) | _texts(given)
            for call in listings:
                if self._follows(draft, call, written) and names & (self._named(draft, call.args) | _texts(call.args)):
                    return call
        return None

    def _paths(self, draft: Draft, call: ast.Call, folders: bool = False) -> list[ast.expr]:
        """The files that a call reads by name: a function that reads one, or a data set of the script that gets it; and
        the folders that a function reads files in."""
        return [*draft.reading.paths(call), *(draft.reading.folders(call) if folders else ())]

    def _written(self, draft: Draft, call: ast.Call, given: list[ast.expr], depth: int = 2) -> Iterator[Written]:
        """A call that writes, and those of the functions that it is in, each with what it may name the file by."""
        yield call, given
        function = draft.function(call)
        for site in draft.facts.resolver.sites(function) if isinstance(function, FUNCTIONS) and depth else ():
            bound = draft.facts.resolver.bind(site, function)  # type: ignore[arg-type]
            bound = {**defaults(function), **bound} if bound is not None else {}  # type: ignore[arg-type]
            of = (p for part in given for p in paths.parts(draft.facts.resolver, part))  # through variables
            names = list(dict.fromkeys(n.id for part in of for n in walk(part) if isinstance(n, ast.Name)))
            handed = [bound[name] for name in names if name in bound]
            constants = [part for part in given if isinstance(part, ast.Constant)]
            yield from self._written(draft, site, [*handed, *constants], depth - 1)

    def _reads_back(self, draft: Draft, read: ast.Call, write: ast.Call, given: list[ast.expr]) -> bool:
        """Whether a call reads what another one in the same function has written, perhaps when that ran before."""
        index = draft.facts.index
        if read is write or index.function(read) is not index.function(write):
            return False
        before = position(read) < position(write)
        if before and not draft.blueprint.timeline.repeats(read, write):
            return False
        asked = draft.asked(read)
        looked = before or (isinstance(asked, ast.If) and files.asks(draft.facts.resolver, asked.test))
        if draft.blueprint.timeline.exclusive(write, read):
            return False
        if not self._always(draft, asked if looked else read, write):
            return False
        parts = (part for argument in given for part in paths.beginnings(argument))
        return self._names(draft, read, parts, folders=True)

    def _names(self, draft: Draft, read: ast.Call, parts: Iterable[ast.AST], folders: bool = False) -> bool:
        """Whether one of some expressions names the file that a call reads, in the same words or in others."""
        files, named = self._paths(draft, read, folders), [part for part in parts if isinstance(part, ast.expr)]
        kinds = {type(path) for path in files}
        alike = {ast.dump(part) for part in named if type(part) in kinds}
        if alike and not alike.isdisjoint(map(ast.dump, files)):
            return True
        spelled = {draft.reading.spelled(path) for path in files} - {None}
        return bool(spelled) and any(draft.reading.spelled(part) in spelled for part in named)

    def _always(self, draft: Draft, read: ast.AST, write: ast.AST) -> bool:
        """Whether every loop and condition that a file is read under is one that it is written under.

        What a condition itself reads, or what a loop runs over, is not under it.
        """
        around = set(draft.facts.index.ancestors(write))
        node = read
        for parent in draft.facts.index.ancestors(read):
            header = parent.test if isinstance(parent, ast.If) else getattr(parent, "iter", None)
            if isinstance(parent, (ast.For, ast.AsyncFor, ast.While, ast.If, ast.Try)) and node is not header:
                if parent not in around:
                    return False
            node = parent
        return True


def _is_once(draft: Draft, call: ast.Call) -> bool:
    """Whether the main process alone writes what a call does: by a guard, or into nowhere on the others."""
    return draft.guarded(call) or any(
        e.operation is Operation.SURROUND and "os.devnull" in e.code
        for node in (call, *call.keywords)
        for e in draft.edits_at(node)
    )


def _is_saved(draft: Draft, call: ast.Call) -> bool:
    """Whether a call saves what the main process alone will: SAVE speaks later."""
    saves = draft.facts.resolver.qualified(call.func) in ("torch.save", "torch.serialization.save")
    if not saves or not draft.options.chooses("SAVE") or draft.facts.unfollowed(call) is not None:
        return False
    return draft.after_training(call) and not draft.in_memory(call) and not draft.cached(call)


def _given(call: ast.Call) -> list[ast.expr]:
    """What may name the file that a call writes: its arguments, or what its method belongs to (`path.unlink()`)."""
    own = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return [*call.args, *(k.value for k in call.keywords), *own]


def _texts(path: list[ast.expr]) -> set[str]:
    """The words that a path is made of, as its parts are written."""
    return {
        repr(n.value) for part in path for n in walk(part) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }


def _is_guard(draft: Draft, node: ast.AST) -> bool:
    return any(e.operation is Operation.ENCLOSE and "is_main_process" in e.code for e in draft.edits_at(node))


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)]
