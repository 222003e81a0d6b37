"""Converts one script, or one program of several files, from its facts to its output."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelift_codemod import diff, gates, settings
from accelift_codemod.facts import Facts
from accelift_codemod.facts.conditions import FALSE
from accelift_codemod.facts.index import Index
from accelift_codemod.options import Options
from accelift_codemod.plan import Finding, Outcome, Plan, Severity
from accelift_codemod.planner import make_plan
from accelift_codemod.project import parts
from accelift_codemod.project.linking import link
from accelift_codemod.project.naming import CannotLink
from accelift_codemod.project.program import Program
from accelift_codemod.project.recent import understood
from accelift_codemod.project.sparing import Attempt, Global, shared, sparing
from accelift_codemod.refusals import already_uses
from accelift_codemod.results import FileResult
from accelift_codemod.rewrite import CannotRewrite, rewrite
from accelift_codemod.rewrite.layout import line_length
from accelift_codemod.source import BadSource, Source

if TYPE_CHECKING:
    from accelift_codemod.single import Single

_PERHAPS_THERE = frozenset({"NO-TRAINING", "NO-ENTRY"})  # what there is none of may be in a file that was not seen
_TRAINS = tuple(b"backward .step( .grad Trainer lightning fastai ignite accelerate accelift".split())


def convert_script(data: bytes, path: str, options: Options, place: Path | None) -> FileResult:
    """Convert a script, with the project files that it imports if it has a place.

    Raises:
        BadSource: it cannot be decoded, or does not parse.
    """
    source = Source.decode(data, path) if place is None else understood(data, path)
    seen: list[Facts] = []
    result = _as_written(source, options, place, seen=seen)
    if result.plan is None or all(f.code != "ALREADY-DISTRIBUTED" for f in result.plan.findings):
        return result
    from accelift_codemod import one_process  # late: few scripts need it

    known = settings.roles(place or Path(source.path))

    def facts(files: Mapping[str, Source]) -> Facts:
        if not files and seen and seen[0].known == known:
            return seen[0]
        entry = files.get(source.path, source)
        try:
            return Facts((link(entry, place, known, files) if place is not None else None) or entry, known)
        except CannotLink:
            return Facts(entry, known)

    def convert(taken: Single) -> FileResult:
        return _as_written(taken.sources.get(source.path, source), options, place, taken)

    try:
        told = one_process.converted(result, source, place, one_process.Ways(facts, convert))
    except CannotRewrite as error:
        return _clash(source, str(error), fault=True)
    return _listening(told, options)


def _listening(result: FileResult, options: Options) -> FileResult:
    """A result without the findings that are not asked for."""
    plan = _without_ignored(result.plan, options) if result.plan is not None else None
    return replace(result, plan=plan, members=tuple(_listening(member, options) for member in result.members))


def convert_sparing(
    source: Source, path: Path, options: Options, spared: frozenset[tuple[str, str]], apart: bool = False
) -> FileResult | None:
    """The conversion of a script in which the loops of some globals of its files stay as they are; None if it fails.
    Classes among them that do not train stay without an accelerator if they are `apart`.

    Raises:
        BadSource: it does not parse.
    """
    try:
        program = link(source, path, settings.roles(path))
    except CannotLink:
        return None
    if program is not None:
        result = convert_program(program, options, spared, apart=apart)
    else:
        real = str(path.resolve())
        result = convert_alone(source, options, path, frozenset(name for where, name in spared if where == real))
    return result if result.output is not None else None


def _as_written(
    source: Source,
    options: Options,
    place: Path | None,
    taken: Single | None = None,
    seen: list[Facts] | None = None,
) -> FileResult:
    """The result of a script, and of its files; or of what is left of them. The facts that it goes by are put into
    what is `seen`."""
    if place is None:
        return convert_source(source, options, seen=seen)
    broken: list[BadSource] = []
    try:
        program = link(source, place, settings.roles(place), taken.sources if taken is not None else None, broken)
    except CannotLink as reason:
        message = f"the project files that it imports are not looked at: {reason}"
        remedy = "set it in the file that it belongs to, or hand it on as an argument"
        return _unlinked(convert_alone(source, options, place, seen=seen), message, remedy)
    if program is None:
        result = convert_alone(source, options, place, seen=seen)
    else:
        result = convert_program(program, options, taken=taken, seen=seen)
    for error in broken:
        where = f"line {error.line} of {error.path}" if error.line else error.path
        result = _unlinked(result, f"{where}, which it imports, {error.problem}", error.remedy)
    return result


def _unlinked(result: FileResult, message: str, remedy: str) -> FileResult:
    """The result of a script of which project files could not be looked at: a finding says why."""
    plan = result.plan
    if plan is None:
        return result
    nothing = plan.outcome is Outcome.NOTHING  # here: what those files do is not known
    finding = Finding("NOT-LINKED", Severity.NOTE if nothing else Severity.WARNING, 0, message, remedy)
    outcome = Outcome.CONVERTED_WITH_FINDINGS if plan.outcome is Outcome.CONVERTED else plan.outcome
    unseen = nothing and any(f.code in _PERHAPS_THERE for f in plan.findings)
    reason = message if unseen else plan.reason
    refused = plan.outcome is Outcome.REFUSED  # the reason comes first
    findings = (*plan.findings, finding) if refused else (finding, *plan.findings)
    return replace(result, plan=replace(plan, outcome=outcome, reason=reason, findings=findings))


def convert_alone(
    source: Source,
    options: Options,
    place: Path,
    spared: frozenset[str] = frozenset(),
    seen: list[Facts] | None = None,
) -> FileResult:
    """Convert a script, and leave the project files that it imports as they are. Nothing is written.

    Args:
        source: the script.
        options: the user's choices.
        place: where it lies.
        spared: its functions whose loops stay as they are.
        seen: is given the facts.

    Raises:
        BadSource: it does not parse.
    """
    real = place.resolve()

    def work(wanted: frozenset[Global]) -> Attempt:
        names = frozenset(name for _, name in wanted)
        result = convert_source(source, options, wanted=names, spared=spared, seen=seen)
        return shared(real, result, {real: (source, result)}) if result.output is not None else (result, {})

    return sparing(work)


def convert_notebook(data: bytes, path: str, options: Options, place: Path | None = None) -> FileResult:
    """Convert the code cells of a notebook, with the project files that it imports if it has a place.

    Raises:
        BadSource: it is none, or a cell does not parse.
    """
    return of_code(data, path, options, lambda source: _as_written(source, options, place))


def of_code(data: bytes, path: str, options: Options, convert: Callable[[Source], FileResult]) -> FileResult:
    """What a conversion makes of a script, or of the code cells of a notebook.

    Raises:
        BadSource: it is neither.
    """
    if not path.endswith(".ipynb"):
        return convert(Source.decode(data, path))
    from accelift_codemod import notebook  # late: most files are none

    book = notebook.Notebook(data, path)
    with book.places():
        result = convert(book.source)
    try:
        return _listening(book.result(result), options)
    except CannotRewrite as error:
        clash = _clash(book.source, str(error), fault=False)
        return replace(clash, plan=replace(clash.plan, digest=book.digest) if clash.plan else None)


def convert_source(
    source: Source,
    options: Options,
    wanted: frozenset[str] = frozenset(),
    spared: frozenset[str] = frozenset(),
    seen: list[Facts] | None = None,
) -> FileResult:
    """Convert one decoded script. Nothing is written.

    Args:
        source: the script.
        options: the user's choices.
        wanted: globals that other files take, and that have to stay.
        spared: functions whose loops stay as they are.
        seen: is given the facts.

    Raises:
        BadSource: it does not parse.
    """
    if not any(mark in source.data for mark in _TRAINS):
        source.tree  # noqa: B018  (raises if it does not parse)
        finding = Finding("NO-TRAINING", Severity.NOTE, 0, "runs no backward pass", "convert the script that trains")
        plan = Plan(source.path, source.digest, (), (finding,), Outcome.NOTHING, finding.message)
        return FileResult(source.path, plan)
    facts = Facts(source, settings.roles(Path(source.path)))
    facts.wanted, facts.spared = wanted, spared
    if seen is not None:
        seen.append(facts)
    plan, draft = make_plan(facts, options)
    plan = _without_ignored(plan, options)
    if draft is None:
        return _left_alone(facts, plan, options)
    result = _rewritten(source, facts.written, plan, _would_change, wanted)
    if result.output is None:
        return result
    return replace(
        result,
        config=_config(draft.facts, draft, options),
        cpu=draft.reach.cpu != FALSE,
        distributes=facts.processes.managed,
    )


def convert_program(
    program: Program,
    options: Options,
    spared: frozenset[tuple[str, str]] = frozenset(),
    taken: Single | None = None,
    seen: list[Facts] | None = None,
    apart: bool = False,
) -> FileResult:
    """Convert a script and the project files that it imports. Nothing is written.

    Args:
        program: these.
        options: the user's choices.
        spared: functions whose loops stay as they are, by file and name.
        taken: what the program is made of, if its own distribution is taken out.
        seen: is given the facts.
        apart: whether the spared classes that do not train are not followed.
    """
    if not program.mentions(*_TRAINS):
        return convert_source(program.entry.source, options)
    names = frozenset(unit.marked(name) for unit in program.units for path, name in spared if path == str(unit.path))

    def work(wanted: frozenset[Global], by_state: bool = False) -> Attempt:
        return _convert_program(program, options, wanted, names, taken, seen, by_state, apart)

    return sparing(work, partial(work, by_state=True))


def _convert_program(
    program: Program,
    options: Options,
    wanted: frozenset[Global],
    spared: frozenset[str],
    taken: Single | None,
    seen: list[Facts] | None,
    by_state: bool,
    apart: bool,
) -> Attempt:
    facts = Facts(program, settings.roles(program.entry.path), apart=spared if apart else frozenset())
    read = {unit: {*unit.run_alone, *(name for path, name in wanted if path == unit.path)} for unit in program.units}
    facts.wanted = frozenset(unit.marked(name) for unit, names in read.items() for name in names)
    facts.spared, facts.by_state = spared, by_state
    if seen is not None:
        seen.append(facts)
    plan, draft = make_plan(facts, options)
    if draft is None:
        alone = _left_alone(facts, parts.refusal(program, plan), options)
        return replace(alone, left=tuple(str(unit.path) for unit in program.units)), {}
    try:
        plans = parts.divide(program, _without_ignored(plan, options))
    except parts.CannotSpell as error:
        finding = Finding("ACC-REACH", Severity.ERROR, 0, str(error), "import it there")
        return FileResult.refused(program.path, program.digest, finding), {}
    folded = taken.files if taken is not None else {}
    for unit in program.units:
        plan = plans.get(unit) or Plan(unit.source.path, unit.source.digest)
        if unit.source.path in folded and plan.outcome in (Outcome.NOTHING, Outcome.CHECKED):
            plans[unit] = replace(plan, outcome=Outcome.CONVERTED)
    ready: list[bool] = []  # for each file: whether it now uses the accelerator; one is enough

    def noted(source: Source, index: Index) -> bool:
        ready.append(not _would_change(source, index))
        return False

    own = frozenset(name for path, name in wanted if path == program.entry.path)
    results = {
        unit: _rewritten(unit.source, unit.index, one, noted, own if unit is program.entry else None)
        for unit, one in plans.items()
    }
    failed = next((r for r in results.values() if r.output is None and r.outcome is not Outcome.CHECKED), None)
    if failed is not None:
        return replace(failed, path=program.path), {}
    if ready and not any(ready):
        return _clash(program.entry.source, gates.UNSTABLE, fault=True), {}
    entry = replace(
        results[program.entry],
        config=_config(draft.facts, draft, options),
        cpu=draft.reach.cpu != FALSE,
        distributes=facts.processes.managed,
        members=tuple(result for unit, result in results.items() if unit is not program.entry),
    )
    files = {unit.path: (unit.source, results.get(unit)) for unit in program.units}
    return shared(program.entry.path, entry, files, folded)


def _left_alone(facts: Facts, plan: Plan, options: Options) -> FileResult:
    framework = any(f.code == "FRAMEWORK" for f in plan.findings)
    config = _config(facts, None, options) if framework else ""
    return FileResult(plan.path, plan, config=config, distributes=facts.processes.managed)


def _rewritten(
    source: Source,
    index: Index,
    plan: Plan,
    again: Callable[[Source, Index], bool],
    wanted: frozenset[str] | None,
) -> FileResult:
    """A file as its plan wants it, or why it cannot be had."""
    if plan.outcome is Outcome.CHECKED:
        return FileResult(source.path, plan)
    try:
        rewritten = rewrite(source, index, plan.edits, line_limit(source.path))
        problems = gates.failures(source, index, rewritten, again, wanted)
    except CannotRewrite as error:
        return _clash(source, str(error), fault=False)
    if problems:
        return _clash(source, "; ".join(problems), fault=True)
    return FileResult(
        source.path,
        plan,
        diff.unified(source.path, source.lines, rewritten.changes, source.bom),
        source.encoding,
        source.encode(rewritten.text),
        hunks=rewritten.changes,
    )


def _config(facts: Facts, draft: Any, options: Options) -> str:
    from accelift_codemod.launch_config import launch_config  # late: yaml

    return launch_config(facts, draft, options)


def line_limit(path: str) -> int:
    """The length of lines that the file's project asks for."""
    return line_length(Path(os.path.normpath(Path(path).absolute())).parent)


def _would_change(source: Source, index: Index) -> bool:
    """Whether converting an output again would plan anything: it imports the accelerator, so it is left alone."""
    return not already_uses(index)


def _without_ignored(plan: Plan, options: Options) -> Plan:
    if not options.ignore or plan.outcome in (Outcome.REFUSED, Outcome.NOTHING):
        return plan
    kept = tuple(f for f in plan.findings if f.code not in options.ignore)
    outcome = plan.outcome
    if outcome is Outcome.CONVERTED_WITH_FINDINGS and all(f.severity is Severity.NOTE for f in kept):
        outcome = Outcome.CONVERTED
    return replace(plan, findings=kept, outcome=outcome)


def _clash(source: Source, message: str, fault: bool) -> FileResult:
    remedy = "please report it" if fault else "put the statements on lines of their own"
    finding = Finding("CLASH", Severity.ERROR, 0, message, remedy)
    refused = FileResult.refused(source.path, source.digest, finding)
    return replace(refused, error=f"{source.path}: {message}; {remedy}", fault=True) if fault else refused
