"""Writes files, makes folders and shows plots on the main process only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.blueprint.borrowed import Known, known, precedes
from accelift_codemod.draft import Draft
from accelift_codemod.facts import commands, files, library, services
from accelift_codemod.facts.own_values import is_apart
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.main_process import alone, in_expressions
from accelift_codemod.measured.decisions import chosen_by_content
from accelift_codemod.measured.shares import named_after_labels, named_after_samples
from accelift_codemod.plan import FOR_EACH, Assumption, Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "GUARD"
_WRITES = Assumption("the method writes files and does nothing else, as that of its name in pandas or pathlib")
_LIBRARIES = ("pandas.", "matplotlib.", "plotly.", "seaborn.", "transformers.", "PIL.", "pathlib.")
_MAKES = ("os.makedirs", "os.mkdir")
_READS = ("read", "readline", "readlines", "seek", "truncate")
_HEADER = "if {accelerator}.is_main_process:"
_SLOWER = "a slower process would find what the main process has made"


class Guards(Rule):
    """Puts statements that write files, make or remove folders, save pictures or show plots under `if
    accelerator.is_main_process:`.

    Never a statement that contains something every process has to do together (a forward pass of a prepared model, a
    batch loop, a gather): the others would wait for it for ever. Nor one that goes on with what the writing gives, or
    that writes to a temporary folder or file, of which every process has its own.
    A file that is opened for writing and kept in a variable, or that the logging module is given, goes to `os.devnull`
    on the other processes, unless what is in it is read first. A folder that the script makes because it is missing is
    made by every process (`exist_ok=True`): each needs it from then on. What is written
    when a certain sample turns up (`if wanted in ids:`) is left to the process that has it in its share, and so is
    what a training loop writes to files that are named after samples (`f"{name}.png"`); those that are named after
    labels, which samples of several processes may have, are warned of. (A last batch that is too small to be shared out
    goes to all, who write the same.)
    """

    code = _RULE
    name = "side effects on the main process only"
    before = 'save_image(fake, "fake.png")\n'
    after = """\
if accelerator.is_main_process:
    save_image(fake, "fake.png")
"""
    assumptions = (_WRITES,)
    findings = (
        Explained(
            "SAVE-RACE",
            Severity.WARNING,
            "every process writes the same file",
            "Every process writes the same file or makes the same folder at the same time, or several do; what is left "
            "may be damaged, or that of one of them.",
        ),
        Explained(
            "COMMAND-ALL",
            Severity.WARNING,
            "every process runs the same command",
            "Every process runs a command of the system, and what it does cannot be told. One that writes, fetches or "
            "unpacks something should run once; one that the others depend on, before they go on.",
        ),
        Explained(
            "COLL-MAIN",
            Severity.ERROR,
            "writes and communicates in one statement",
            "The statement writes something and also runs what every process has to run together. On the main process "
            "alone it would wait for the others for ever, so it is not guarded.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        guarded: set[ast.stmt] = set()
        imported: list[ast.stmt] = []
        for call in draft.calls:
            statement = draft.facts.index.statement(call)
            if any(s in guarded for s in (statement, *draft.facts.index.ancestors(statement))) or draft.cached(call):
                continue
            if is_apart(draft.facts, call):
                continue
            if self._of_samples(draft, call):
                guarded.add(statement)
                if self._makes_folder(draft, call):
                    yield from self._by_all(draft, call)
                else:
                    yield from self._of_labels(draft, call)
                continue
            if files.writes(files.mode(draft.facts.resolver, call)) or files.keeps_open(draft.facts.resolver, call):
                yield from self._opened(draft, call, guarded, imported)
                continue
            if services.writes(draft.facts.resolver, call) and not draft.guarded(call):
                yield draft.finding(
                    "SAVE-RACE",
                    Severity.WARNING,
                    call,
                    f"`{draft.facts.segment(call.func)}(...)` is called by every process: what it writes or sends is "
                    "then there once for each",
                    "call it under `if accelerator.is_main_process:`",
                )
                continue
            logged = files.log_file(draft.facts.resolver, call)
            if logged is not None and not draft.guarded(call):
                yield from self._logged(draft, call, logged, imported)
            if not isinstance(statement, ast.Expr) or statement.value is not call:
                if draft.facts.resolver.qualified(call.func) in in_expressions.WRITES_BY_NAME:
                    yield from self._in_expression(draft, call, statement, guarded)
                if commands.acts(draft.facts.resolver, call) and not self._is_one_ones(draft, call):
                    yield self._command(draft, call)
                continue
            if self._makes_folder(draft, call):
                if self._is_caught(draft, statement):
                    continue
                asking = next(files.asking(draft.facts.resolver, call), None)
                if asking is not None and self._ends_else(draft, asking, statement):
                    guarded.add(asking)
                    yield draft.edit(_RULE, asking, Operation.ENCLOSE, _SLOWER, _HEADER, need=Need.WEAK)
                    continue
                if asking is not None:
                    yield from self._by_all(draft, call)
                    continue
            elif _may_exist(draft, call, 2 if draft.facts.resolver.qualified(call.func) in _MAKES else None):
                yield from self._refused_before(draft, call, statement)
            if draft.facts.resolver.qualified(call.func) in library.COMMANDS and not self._helps_making(draft, call):
                yield self._command(draft, call)
            if files.unpacks(draft.facts.resolver, call) and not any(
                map(draft.goes_first, draft.facts.index.ancestors(call))
            ):
                yield self._unpacked(draft, call)
            if not self._has_side_effect(draft, call):
                continue
            together = draft.collective(statement)
            if together is not None and not self._only_unwrappable(draft, statement):
                yield draft.finding(
                    "COLL-MAIN",
                    Severity.ERROR,
                    statement,
                    "this statement writes something and also runs a part of the training that all processes run "
                    "together",
                    "compute the value on a line of its own, and write it under `if accelerator.is_main_process:`",
                )
                continue
            guarded.add(statement)
            chosen = chosen_by_content(draft, statement)
            if chosen is not None:
                yield draft.finding(
                    "SAVE-RACE",
                    Severity.WARNING,
                    call,
                    f"`{draft.facts.segment(chosen)}` asks for something in the batch, and any process may have it "
                    "in its share: what is written here is not left to the main process, and several may write at once",
                    "write to a file whose name says the process (accelerator.process_index), or gather what is asked",
                )
                continue
            if self._makes_folder(draft, call):
                yield from self._asked_before(draft, statement)
            yield draft.edit(
                _RULE,
                statement,
                Operation.ENCLOSE,
                "one process writes, not all of them",
                _HEADER,
                need=Need.WEAK,
                otherwise=self._race(draft, call),
                assumes=_WRITES if self._by_name(draft, call) else None,
            )

    def _in_expression(
        self, draft: Draft, call: ast.Call, statement: ast.stmt, guarded: set[ast.stmt]
    ) -> Iterator[Edit | Finding]:
        """A file that is written in the middle of an expression: one process writes it, if nothing goes on with it."""
        changed = in_expressions.changed(draft, statement)
        thrown_away = in_expressions.thrown_away(draft, statement, call)
        if not thrown_away or changed is not None or draft.collective(statement) is not None:
            yield in_expressions.written(draft, call, changed if thrown_away else None)
            return
        guarded.add(statement)
        reason = "one process writes, not all of them"
        yield draft.edit(
            _RULE, statement, Operation.ENCLOSE, reason, _HEADER, need=Need.WEAK, otherwise=self._race(draft, call)
        )

    def _makes_folder(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call makes a folder, and does not say that it may be there already."""
        if draft.facts.resolver.argument(call, 2, "exist_ok") is not None:
            return False
        if draft.facts.resolver.qualified(call.func) in _MAKES:
            return True
        return self._named_mkdir(draft, call)

    def _named_mkdir(self, draft: Draft, call: ast.Call) -> bool:
        return (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "mkdir"
            and _of(draft, call.func.value, "pathlib.")
        )

    def _of_samples(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call writes what is named after samples of a share: each process has its own, and all are kept."""
        writes = files.writes(files.mode(draft.facts.resolver, call)) or self._has_side_effect(draft, call)
        return writes and named_after_samples(draft, call)

    def _of_labels(self, draft: Draft, call: ast.Call) -> Iterator[Finding]:
        """A file that is named after what several samples have, on several processes."""
        label = named_after_labels(draft, call)
        if label is not None:
            yield draft.finding(
                "SAVE-RACE",
                Severity.WARNING,
                call,
                f"a file is named after `{label.id}`, which a loss is computed with: samples on several processes may "
                "have the same, and each process writes what it has of them, several at once",
                "gather what is written, or let the name say the process (accelerator.process_index)",
            )

    def _asked_before(self, draft: Draft, statement: ast.stmt) -> Iterator[Edit]:
        """A test just before a folder is made, which ends the script if it is there: a slower process would find it."""
        block, place = draft.facts.index.block(statement)
        test = block[place - 1] if place else None
        if (
            isinstance(test, ast.If)
            and not test.orelse
            and files.asks(draft.facts.resolver, test.test)
            and draft.ends(test.body[-1])
        ):
            yield draft.edit(_RULE, test, Operation.ENCLOSE, _SLOWER, _HEADER, need=Need.WEAK)

    def _refused_before(self, draft: Draft, call: ast.Call, statement: ast.stmt) -> Iterator[Edit]:
        """A test before a folder is made by all, which ends the script if that is there: all ask before any makes it,
        so that all end, or none."""
        folder = call.args[0] if draft.facts.resolver.qualified(call.func) and call.args else None
        made = folder if folder is not None else getattr(call.func, "value", None)
        block, place = draft.facts.index.block(statement)
        tests = [s for s in block[:place] if isinstance(s, ast.If) and not s.orelse and draft.ends(s.body[-1])]
        asked = [s for s in tests if made is not None and _is_there(draft, s.test, made)]
        if asked and not draft.guarded(statement):
            code = "{accelerator}.wait_for_everyone()"
            yield draft.edit(_RULE, statement, Operation.BEFORE, _SLOWER, code, need=Need.WEAK)

    def _ends_else(self, draft: Draft, test: ast.If, statement: ast.stmt) -> bool:
        """Whether a test whether a folder is there makes it in one arm, and ends the script in the other."""
        arms = (test.body, test.orelse)
        return any(one and statement in other and draft.ends(one[-1]) for one, other in (arms, arms[::-1]))

    def _is_caught(self, draft: Draft, statement: ast.stmt) -> bool:
        """Whether the script goes on if a folder is there already."""
        block = draft.facts.index.parents[statement]
        handlers = block.handlers if isinstance(block, ast.Try) and statement in block.body else []
        return any(draft.caught(h) & files.IF_THERE and not draft.ends(h.body[-1]) for h in handlers)

    def _by_all(self, draft: Draft, call: ast.Call) -> Iterator[Edit | Finding]:
        """Every process makes the folder, so that it is there for each of them: another one may be the first."""
        if draft.facts.resolver.qualified(call.func) == "os.mkdir":  # which knows no exist_ok
            module = call.func.value if isinstance(call.func, ast.Attribute) else None
            if module is None and known(draft, call, "os") not in (Known.HERE, Known.TOP):
                yield draft.finding(
                    "SAVE-RACE",
                    Severity.WARNING,
                    call,
                    f"`{draft.facts.segment(call.func)}` makes the folder on every process, and fails where another "
                    "one was faster",
                    "use os.makedirs with exist_ok=True",
                )
                return
            spelled = draft.facts.segment(module) if module is not None else "os"
            yield draft.edit(_RULE, call.func, Operation.BECOME, FOR_EACH, f"{spelled}.makedirs")
        yield draft.edit(_RULE, call, Operation.ADD_ARGUMENT, FOR_EACH, "exist_ok=True")

    def _by_name(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a method is only taken to write a file: nothing is known of its object."""
        if draft.facts.resolver.qualified(call.func) is not None or not isinstance(call.func, ast.Attribute):
            return False
        return call.func.attr in library.WRITES | {"open"} and not _of(draft, call.func.value, _LIBRARIES)

    def _only_unwrappable(self, draft: Draft, statement: ast.Expr) -> bool:
        """A model handed to a function that runs it (an export): unwrapped, it may run on one process."""
        return not any(
            draft.blueprint.prepared_models(c.func) for c in walk(statement) if isinstance(c, ast.Call)
        ) and not draft.blueprint.timeline.calls_into(statement)

    def _has_side_effect(self, draft: Draft, call: ast.Call) -> bool:
        qualified = draft.facts.resolver.qualified(call.func)
        if any(map(draft.is_buffer, (*call.args, *(k.value for k in call.keywords)))):
            return False
        if _may_exist(draft, call, 2 if qualified == "os.makedirs" else None):
            return False  # a folder that is made only if it is not there: by all, so that it is there for all
        if qualified == "sys.stdout.flush":  # alone, after a print, it writes nothing
            around = (c for c in draft.calls if draft.function(c) is draft.function(call))
            return any(draft.facts.resolver.qualified(c.func) == "sys.stdout.write" for c in around)
        if qualified is not None:
            return qualified in library.SIDE_EFFECTS
        if not isinstance(call.func, ast.Attribute):
            return False
        libraries = library.WRITES_OF.get(call.func.attr)
        if libraries is not None and draft.facts.objects.models(call.func.value):  # what torch.jit made of a network
            return call.func.attr == "save" and draft.facts.resolver.callee(call) is None
        if libraries is not None:
            return _of(draft, call.func.value, libraries)
        return call.func.attr in library.WRITES

    def _helps_making(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a command is run with what makes a missing file, which the other processes find: `wget`."""
        above = {a for made in draft.caches.made for a in draft.facts.index.ancestors(made) if isinstance(a, ast.If)}
        around = (a for a in draft.facts.index.ancestors(call) if a in above)
        return any(files.asks(draft.facts.resolver, a.test) for a in around if isinstance(a, ast.If))

    def _is_one_ones(self, draft: Draft, call: ast.Call) -> bool:
        """Whether one process runs a command, or what it makes is looked for before."""
        return draft.guarded(call) or self._helps_making(draft, call)

    def _command(self, draft: Draft, call: ast.Call) -> Finding:
        return draft.finding(
            "COMMAND-ALL",
            Severity.WARNING,
            call,
            f"`{draft.facts.segment(call.func)}` runs its command on every process, and what that does cannot be told",
            "put it under `if accelerator.is_main_process:` if once is enough, and `accelerator.wait_for_everyone()` "
            "after it if the others depend on it",
        )

    def _unpacked(self, draft: Draft, call: ast.Call) -> Finding:
        return draft.finding(
            "SAVE-RACE",
            Severity.WARNING,
            call,
            f"`{draft.facts.segment(call.func)}` unpacks the same files on every process, over those that another one "
            "may be reading already",
            "unpack them before the script is launched, or under `if accelerator.is_main_process:` with "
            "`accelerator.wait_for_everyone()` after it",
        )

    def _race(self, draft: Draft, call: ast.Call) -> Finding | None:
        qualified = draft.facts.resolver.qualified(call.func) or ""
        if qualified in library.HARMLESS_EVERYWHERE:
            return None
        if (qualified == "os.makedirs" or self._named_mkdir(draft, call)) and not _may_exist(draft, call, 2):
            return draft.finding(
                "SAVE-RACE",
                Severity.WARNING,
                call,
                f"`{draft.facts.segment(call.func)}` makes the folder on every process, and may fail where another one "
                "was faster",
                "give it exist_ok=True, or make the folder where the accelerator exists, under "
                "`if accelerator.is_main_process:`",
            )
        return draft.finding(
            "SAVE-RACE",
            Severity.WARNING,
            call,
            f"`{draft.facts.segment(call.func)}` runs on every process, for the accelerator is not at hand here",
            "move it to where the accelerator exists, under `if accelerator.is_main_process:`",
        )

    # ---- open

    def _opened(
        self, draft: Draft, call: ast.Call, guarded: set[ast.stmt], imported: list[ast.stmt]
    ) -> Iterator[Edit | Finding]:
        statement = draft.facts.index.statement(call)
        race = self._race(draft, call)
        plain = draft.facts.resolver.builtin(call.func) == "open"
        apart = not plain or self._prints_into(draft, statement, call)
        single = isinstance(statement, ast.Expr) and apart and draft.collective(statement) is None
        if single or (isinstance(statement, ast.With) and alone.self_contained(draft, statement)):
            guarded.add(statement)
            yield draft.edit(
                _RULE,
                statement,
                Operation.ENCLOSE,
                "one process writes the file, not all of them",
                _HEADER,
                need=Need.WEAK,
                otherwise=race,
                assumes=_WRITES if self._by_name(draft, call) else None,
            )
            return
        mode = files.mode(draft.facts.resolver, call) or ""
        read = "r" in mode or ("+" in mode and self._is_read(draft, call))
        os = known(draft, call, "os")
        if not plain or read or os is Known.NEVER or self._counts_on_it(draft, call):
            yield draft.finding(
                "SAVE-RACE",
                Severity.WARNING,
                call,
                f"`{draft.facts.segment(call.func)}` opens a file that every process would write to",
                "open it, and write to it, under `if accelerator.is_main_process:`",
            )
            return
        yield from self._nowhere(draft, call, call.args[0] if call.args else call, imported, race)

    def _logged(
        self, draft: Draft, call: ast.Call, name: ast.expr, imported: list[ast.stmt]
    ) -> Iterator[Edit | Finding]:
        """A file that the logging module writes every line into, on every process."""
        begins = files.begins_log(draft.facts.resolver, call)
        does = (
            "begins the same log anew on every process, which write over what the others have written"
            if begins
            else "adds the lines of every process to the same log"
        )
        finding = draft.finding(
            "SAVE-RACE",
            Severity.WARNING if begins else Severity.NOTE,
            call,
            f"`{draft.facts.segment(call.func)}` {does}",
            "let the main process alone log into a file, or give each a name of its own",
        )
        if known(draft, call, "os") is Known.NEVER:
            yield finding
        else:
            yield from self._nowhere(draft, call, name, imported, finding)

    def _nowhere(
        self, draft: Draft, call: ast.Call, name: ast.expr, imported: list[ast.stmt], otherwise: Finding | None
    ) -> Iterator[Edit]:
        """What opens a file by a name opens another one on the other processes, which takes all and keeps nothing."""
        statement = draft.facts.index.statement(call)
        late = known(draft, call, "os") is Known.LATER
        if late and not any(s is statement or precedes(draft, s, call) for s in imported):
            imported.append(statement)
            reason = "os is imported after this"
            yield draft.edit(_RULE, statement, Operation.BEFORE, reason, "import os", need=Need.WEAK)
        keyword = next((k for k in call.keywords if k.value is name), None)
        yield draft.edit(
            _RULE,
            keyword or call,
            Operation.SURROUND,
            "one process writes the file; the others write to nowhere",
            "{} if {accelerator}.is_main_process else os.devnull",
            place=None if keyword else 0,
            need=Need.WEAK,
            otherwise=otherwise,
        )

    def _is_read(self, draft: Draft, call: ast.Call) -> bool:
        """Whether what a call opens is read, or gone back in."""
        asked = (a.value for name in _READS for a in draft.facts.index.attributes.get(name, ()))
        bound = (b for value in asked if isinstance(value, ast.Name) for b in draft.facts.resolver.bindings(value))
        return any(b.value is call for b in bound)

    def _counts_on_it(self, draft: Draft, call: ast.Call) -> bool:
        """Whether something fails where a file that a call opens is not there: `os.path.getsize(path)`."""
        named = [ast.dump(path) for path in (draft.facts.resolver.argument(call, 0, "file"),) if path is not None]
        asking = (c for c in draft.calls if draft.facts.resolver.qualified(c.func) in library.ASKS_OF)
        return any(ast.dump(a) in named for c in asking for a in c.args[:1] if draft.facts.same_file(c, call))

    def _prints_into(self, draft: Draft, statement: ast.stmt, file: ast.Call) -> bool:
        """Whether a statement does nothing but print into a file that is opened for it."""
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or draft.facts.resolver.builtin(call.func) != "print":
            return False
        return any(k.arg == "file" and k.value is file for k in call.keywords)


def _of(draft: Draft, node: ast.expr, modules: str | tuple[str, ...]) -> bool:
    """Whether an object is certainly one of these libraries'."""
    values = draft.facts.resolver.values(node)
    return bool(values) and all(value.name.startswith(modules) for value in values)


def _is_there(draft: Draft, test: ast.expr, folder: ast.expr) -> bool:
    """Whether a test asks whether a folder is there: `os.path.exists(folder)`, `folder.exists()`."""
    if not isinstance(test, ast.Call):
        return False
    asked = test.args[:1] if draft.facts.resolver.qualified(test.func) else [getattr(test.func, "value", test)]
    return files.asks(draft.facts.resolver, test) and [ast.unparse(a) for a in asked] == [ast.unparse(folder)]


def _may_exist(draft: Draft, call: ast.Call, place: int | None) -> bool:
    """Whether a call says that the folder it makes may be there already."""
    given = draft.facts.resolver.argument(call, place, "exist_ok")
    return is_constant(given, True)
