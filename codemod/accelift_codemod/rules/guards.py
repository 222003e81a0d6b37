"""Writes files, makes folders and shows plots on the main process only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import commands, files, library, services
from accelift_codemod.facts.own_values import is_apart
from accelift_codemod.facts.tree import walk
from accelift_codemod.main_process import HEADER, RULE, folders, in_expressions, opened
from accelift_codemod.main_process.alone import worked_out
from accelift_codemod.measured.decisions import chosen_by_content
from accelift_codemod.measured.shares import named_after_labels, named_after_samples
from accelift_codemod.plan import Assumption, Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_WRITES = Assumption("the method writes files and does nothing else, as that of its name in pandas or pathlib")
_LIBRARIES = ("pandas.", "matplotlib.", "plotly.", "seaborn.", "transformers.", "PIL.", "pathlib.")


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

    code = RULE
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
                yield from folders.by_all(draft, call) if folders.makes(draft, call) else self._of_labels(draft, call)
            elif files.writes(files.mode(draft.facts.resolver, call)) or files.keeps_open(draft.facts.resolver, call):
                if opened.is_alone(draft, call):
                    guarded.add(statement)
                    yield self._enclosed(draft, call, "one process writes the file, not all of them")
                else:
                    yield from opened.kept(draft, call, imported, self._race(draft, call))
            elif services.writes(draft.facts.resolver, call) and not draft.guarded(call):
                yield self._sent(draft, call)
            else:
                logged = files.log_file(draft.facts.resolver, call)
                if logged is not None and not draft.guarded(call):
                    yield from opened.logged(draft, call, logged, imported)
                if isinstance(statement, ast.Expr) and statement.value is call:
                    yield from self._on_its_own(draft, call, statement, guarded)
                else:
                    yield from self._in_expression(draft, call, statement, guarded)
                    if commands.acts(draft.facts.resolver, call) and not self._is_one_ones(draft, call):
                        yield self._command(draft, call)

    def _on_its_own(
        self, draft: Draft, call: ast.Call, statement: ast.Expr, guarded: set[ast.stmt]
    ) -> Iterator[Edit | Finding]:
        """A call that is a statement of its own: one process runs it, if it writes or makes something."""
        if folders.makes(draft, call):
            if folders.is_caught(draft, statement):
                return
            asking = next(files.asking(draft.facts.resolver, call), None)
            if asking is not None and folders.ends_else(draft, asking, statement):
                guarded.add(asking)
                yield draft.edit(RULE, asking, Operation.ENCLOSE, folders.SLOWER, HEADER, need=Need.WEAK)
                return
            if asking is not None:
                yield from folders.by_all(draft, call)
                return
        elif folders.may_exist(draft, call):
            yield from folders.refused_before(draft, call, statement)
        if draft.facts.resolver.qualified(call.func) in library.COMMANDS and not self._helps_making(draft, call):
            yield self._command(draft, call)
        above = draft.facts.index.ancestors(call)
        if files.unpacks(draft.facts.resolver, call) and not any(map(draft.goes_first, above)):
            yield self._unpacked(draft, call)
        if self._has_side_effect(draft, call):
            yield from self._guard(draft, call, statement, guarded)

    def _guard(
        self, draft: Draft, call: ast.Call, statement: ast.Expr, guarded: set[ast.stmt]
    ) -> Iterator[Edit | Finding]:
        together = draft.collective(statement)
        runs = together is not None and not self._only_unwrappable(draft, statement)
        before = [*worked_out(draft, RULE, call)] if runs else []
        if runs and not before:
            yield draft.finding(
                "COLL-MAIN",
                Severity.ERROR,
                statement,
                "this statement writes something and also runs a part of the training that all processes run together",
                "compute the value on a line of its own, and write it under `if accelerator.is_main_process:`",
            )
            return
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
            return
        if folders.makes(draft, call):
            yield from folders.asked_before(draft, statement)
        yield from before
        yield self._enclosed(draft, call)

    def _enclosed(self, draft: Draft, call: ast.Call, reason: str = "one process writes, not all of them") -> Edit:
        return draft.edit(
            RULE,
            draft.facts.index.statement(call),
            Operation.ENCLOSE,
            reason,
            HEADER,
            need=Need.WEAK,
            otherwise=self._race(draft, call),
            assumes=_WRITES if self._by_name(draft, call) else None,
        )

    def _in_expression(
        self, draft: Draft, call: ast.Call, statement: ast.stmt, guarded: set[ast.stmt]
    ) -> Iterator[Edit | Finding]:
        """A file that is written in the middle of an expression: one process writes it, if nothing goes on with it."""
        if draft.facts.resolver.qualified(call.func) not in in_expressions.WRITES_BY_NAME:
            return
        changed = in_expressions.changed(draft, statement)
        thrown_away = in_expressions.thrown_away(draft, statement, call)
        if not thrown_away or changed is not None or draft.collective(statement) is not None:
            yield in_expressions.written(draft, call, changed if thrown_away else None)
            return
        guarded.add(statement)
        yield self._enclosed(draft, call)

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

    def _by_name(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a method is only taken to write a file: nothing is known of its object."""
        if draft.facts.resolver.qualified(call.func) is not None or not isinstance(call.func, ast.Attribute):
            return False
        return call.func.attr in library.WRITES | {"open"} and not draft.facts.resolver.is_of(
            call.func.value, _LIBRARIES
        )

    def _only_unwrappable(self, draft: Draft, statement: ast.Expr) -> bool:
        """A model handed to a function that runs it (an export): unwrapped, it may run on one process."""
        return not any(
            draft.blueprint.prepared_models(c.func) for c in walk(statement) if isinstance(c, ast.Call)
        ) and not draft.blueprint.timeline.calls_into(statement)

    def _has_side_effect(self, draft: Draft, call: ast.Call) -> bool:
        qualified = draft.facts.resolver.qualified(call.func)
        if any(map(draft.is_buffer, (*call.args, *(k.value for k in call.keywords)))):
            return False
        if folders.may_exist(draft, call):
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
            return draft.facts.resolver.is_of(call.func.value, libraries)
        return call.func.attr in library.WRITES

    def _helps_making(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a command is run with what makes a missing file, which the other processes find: `wget`."""
        above = {a for made in draft.caches.made for a in draft.facts.index.ancestors(made) if isinstance(a, ast.If)}
        around = (a for a in draft.facts.index.ancestors(call) if a in above)
        return any(files.asks(draft.facts.resolver, a.test) for a in around if isinstance(a, ast.If))

    def _is_one_ones(self, draft: Draft, call: ast.Call) -> bool:
        """Whether one process runs a command, or what it makes is looked for before."""
        return draft.guarded(call) or self._helps_making(draft, call)

    def _sent(self, draft: Draft, call: ast.Call) -> Finding:
        return draft.finding(
            "SAVE-RACE",
            Severity.WARNING,
            call,
            f"`{draft.facts.segment(call.func)}(...)` is called by every process: what it writes or sends is then "
            "there once for each",
            "call it under `if accelerator.is_main_process:`",
        )

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
        if folders.is_made_by(draft, call) and not folders.may_exist(draft, call):
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
