"""Makes the accelerator, in place of the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from accelift_codemod.devices import texts as device_texts
from accelift_codemod.devices.besides import kept_calls
from accelift_codemod.devices.returned import is_given_back
from accelift_codemod.devices.surviving import is_fixed, is_handed_in, is_imported, is_rebound, survives
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, position
from accelift_codemod.facts.conditions import FALSE, TRUE
from accelift_codemod.facts.device_variables import DeviceVariable
from accelift_codemod.facts.index import FUNCTIONS, Function, How, parameters
from accelift_codemod.facts.signatures import default
from accelift_codemod.facts.tree import walk
from accelift_codemod.inserted import imports
from accelift_codemod.inserted.modules import Known, known
from accelift_codemod.plan import STATE, TYPED, Edit, Finding, Need, Operation, Severity
from accelift_codemod.reach import asking, early, started, states
from accelift_codemod.reasons import refuse
from accelift_codemod.rules import Explained, Rule

_RULE = "ACCELERATOR"
_PUTS = (ast.Dict, ast.List, ast.Return, ast.Set, ast.Tuple)  # what holds a device, and does nothing with it
_OS = re.compile(r"\bos\.(devnull|makedirs)\b")  # what inserted code uses of os
_ASKS = frozenset(
    "empty_cache synchronize memory_allocated memory_reserved max_memory_allocated reset_peak_memory_stats".split()
)


class Create(Rule):
    """Makes the `Accelerator` where the script chose its device, or as soon as its arguments are known if something
    needs it before. A flag that kept the script on the CPU still does: it becomes `cpu=`, read from what the flag
    does, not from its name.

    The size of the global batch is kept: `DataLoaderConfiguration(split_batches=True)` shares each batch of the
    script out among the processes, so learning rates, schedules and step counts keep their meaning. With `--batch
    per-process` every process gets whole batches instead.

    A device variable that is still read is bound to `accelerator.device`. Where it cannot be read how a device is
    chosen, in one place, the choice stays and is asked for: `Accelerator(cpu=device.type == "cpu")`.
    """

    code = _RULE
    name = "the accelerator"
    required = True
    always = True
    closing = 2
    before = """\
use_cuda = not args.no_cuda and torch.cuda.is_available()
device = torch.device("cuda" if use_cuda else "cpu")
"""
    after = """\
accelerator = Accelerator(
    cpu=args.no_cuda, dataloader_config=DataLoaderConfiguration(split_batches=True)
)
"""
    findings = (
        Explained(
            "DEV-CPU",
            Severity.NOTE,
            "the script stays on the CPU",
            "The script never moves anything to a GPU, so the converted one stays on the CPU (cpu=True). To use GPUs, "
            "take cpu=True out and move what is made outside the loaders to accelerator.device.",
        ),
        Explained(
            "DEV-OPTION",
            Severity.WARNING,
            "an option for the CPU is lost",
            "The script chooses its device twice, and only the later choice asks an option that means the CPU. There "
            "is one accelerator, which is made where the device is chosen first, so that the option has no effect.",
        ),
        Explained(
            "SPAWN-IMPORT",
            Severity.ERROR,
            "processes that import the script again",
            "Processes that are spawned (or that a fork server starts) run all of the script that does not stand in a "
            'function or under `if __name__ == "__main__":`. If the accelerator is made there, each of them takes '
            "itself for one of the job's processes, and waits for the others.",
        ),
        Explained(
            "BATCH-SCALE",
            Severity.NOTE,
            "a larger global batch",
            "Every process gets whole batches, so the global batch is the script's times the number of processes, and "
            "an epoch has fewer steps. The learning rate and the schedule are not scaled.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        made = list(self._make(draft))
        yield from self._imports(draft, [*draft.edits, *(m for m in made if isinstance(m, Edit))])
        yield from made

    def _make(self, draft: Draft) -> Iterator[Edit | Finding]:
        reach = draft.reach
        creation = self._creation(draft)
        variable = reach.variable
        in_place = reach.replaces_variable and variable is not None and variable.whole
        self._check(draft, variable.statements[0] if in_place and variable is not None else reach.block[reach.place])
        reason = "one accelerator for the job: it knows processes and devices"
        if in_place and variable is not None:
            code = [creation, *kept_calls(draft, variable), *self._bound(draft, variable)]
            yield from self._swap(draft, variable, code, reason)
            yield from self._kinds(draft, variable)
        elif (reach.follows_variable or reach.asks is not None) and variable is not None:
            if reach.asks is None:
                yield from self._swap(draft, variable, kept_calls(draft, variable), reason)
            code = [creation, *self._bound(draft, variable)]
            yield draft.edit(_RULE, reach.block[reach.place], Operation.BEFORE, reason, "\n".join(code))
            yield from self._kinds(draft, variable)
        else:
            where = reach.block[reach.place]
            yield draft.edit(_RULE, where, Operation.BEFORE, reason, creation)
            if variable is not None:
                yield from self._rebind(draft, variable)
        stays = variable is not None and (reach.asks is not None or any(b.path for b in variable.bindings))
        for other in draft.facts.devices.variables:
            part = other is variable or (stays and asking.is_part(reach, other))
            if not part and draft.facts.runs(other.statements[0]):
                yield from self._elsewhere(draft, other) if is_imported(draft, other) else self._other(draft, other)
        yield from self._defaults(draft)
        yield from early.moves(draft)
        yield from started.importing(draft)
        if reach.cpu == TRUE:
            self._no_gpu(draft)
            yield draft.finding(
                "DEV-CPU",
                Severity.NOTE,
                reach.block[reach.place],
                "the script never moves anything to a GPU, so it stays on the CPU",
                "to use GPUs, take cpu=True out and move what is made outside the loaders to accelerator.device",
            )
        if draft.options.batch != "global" and not draft.facts.processes.managed:
            yield draft.finding(
                "BATCH-SCALE",
                Severity.NOTE,
                reach.block[reach.place],
                "every process gets whole batches: the global batch grows with the number of processes",
                "scale the learning rate by hand if you want to",
            )

    def _defaults(self, draft: Draft) -> Iterator[Edit | Finding]:
        """Parameters that are one particular GPU unless they are given another, and are still read."""
        for function in draft.facts.index.functions:
            if not isinstance(function, FUNCTIONS):
                continue
            for parameter in parameters(function.args):
                given = default(function, parameter)
                if given is None or not draft.facts.devices.numbers.is_numbered(given):
                    continue
                left = [read for read in self._reads(draft, function, parameter.arg) if not draft.gone(read)]
                edits = [
                    draft.edit(
                        self.code,
                        read,
                        Operation.BECOME,
                        "no call gives another device than this default, which is one of several",
                        "{accelerator}.device",
                        need=Need.STRONG,
                    )
                    for read in left
                ]
                if function is draft.reach.home and self._is_constant(draft, function, parameter.arg, left):
                    if all(map(draft.reach.available, edits)):
                        yield from edits
                        continue
                if left:
                    yield draft.finding(
                        "DEV-LEFT",
                        Severity.WARNING,
                        given,
                        f"`{parameter.arg}` is one particular GPU for every process",
                        "give accelerator.device",
                    )

    def _reads(self, draft: Draft, function: Function, name: str) -> list[ast.Name]:
        """The reads of a parameter before it is bound again; of an option of the command line, which has another in its
        place wherever it is used, those that only put it somewhere."""
        scope, resolver, parents = draft.facts.index.scopes[function], draft.facts.resolver, draft.facts.index.parents
        loads = draft.facts.loads(scope, name)
        reads = [r for r in loads if isinstance(parents[r], _PUTS) or draft.facts.devices.said(r) is None]
        return [r for r in reads if any(b.how is How.PARAMETER for b in resolver.reaching(r, scope))]

    def _is_constant(self, draft: Draft, function: Function, name: str, reads: list[ast.Name]) -> bool:
        """Whether a parameter always is its default, and is only handed on."""
        sites = draft.facts.resolver.sites(function)
        bound = [draft.facts.resolver.bind(call, function) for call in sites]
        given = any(b is None or name in b for b in bound) or draft.facts.references(function)
        again = len(draft.facts.index.scopes[function].bindings.get(name, [])) != 1
        parents = draft.facts.index.parents
        handed = all(isinstance(parents[r], (ast.keyword, ast.Call)) and draft.function(r) is function for r in reads)
        return bool(sites) and handed and not given and not again

    def _check(self, draft: Draft, place: ast.stmt) -> None:
        """Refuse a condition for the CPU that asks for what nothing has bound yet where the accelerator is made."""
        names = (n for atom in draft.reach.cpu.atoms() for n in walk(atom) if isinstance(n, ast.Name))
        for name in names:
            owner = draft.facts.index.scope(name).owner(name.id)
            if owner is None or not draft.facts.same_file(name, place):
                continue
            bound = (position(binding.node) for binding in owner.bindings[name.id])
            if owner.is_module and draft.function(place) is None and min(bound) > position(place):
                raise refuse(
                    "DEV-UNKNOWN",
                    place.lineno,
                    f"the device is chosen again by `{name.id}` in line {name.lineno}, which is not known here yet",
                    "choose the device in one place, where the arguments are known",
                )

    def _no_gpu(self, draft: Draft) -> None:
        """Refuse a script that asks CUDA what it has done there, and moves nothing there itself."""
        for call in draft.calls:
            module, _, name = (draft.facts.resolver.qualified(call.func) or "").rpartition(".")
            tested = any(isinstance(p, (ast.If, ast.IfExp, ast.Try)) for p in draft.facts.index.ancestors(call))
            if module == "torch.cuda" and name in _ASKS and not tested:
                raise refuse(
                    "DEV-UNKNOWN",
                    call.lineno,
                    f"`torch.cuda.{name}` is called, and nothing is moved to a GPU here: something that the script "
                    "uses chooses the device",
                    "move the model to a device in this script",
                )

    # ---- the accelerator

    def _creation(self, draft: Draft) -> str:
        arguments = []
        if draft.reach.cpu.constant is not False:
            arguments.append(f"cpu={draft.reach.cpu}")
        if draft.reach.precision:
            arguments.append(f"mixed_precision={draft.reach.precision}")
        gate = draft.reach.gate
        if gate is not None:
            steps = draft.facts.segment(gate.steps)
            if gate.flushes:
                arguments.append(f"gradient_accumulation_steps={steps}")
            else:
                arguments.append(
                    "gradient_accumulation_plugin="
                    f"GradientAccumulationPlugin(num_steps={steps}, sync_with_dataloader=False)"
                )
        if self._shares(draft):
            arguments.append("dataloader_config=DataLoaderConfiguration(split_batches=True)")
        settings = draft.facts.processes.settings if draft.facts.processes.managed else {}
        if settings:
            given = ", ".join(f"{name}={draft.facts.segment(value)}" for name, value in settings.items())
            arguments.append(f"kwargs_handlers=[DistributedDataParallelKwargs({given})]")
        return f"{{accelerator}} = Accelerator({', '.join(arguments)})"

    def _shares(self, draft: Draft) -> bool:
        """Whether each batch of the script is shared out; one that distributes itself makes one for each process."""
        loads = any(item.kind is Role.LOADER for item in draft.blueprint.items.values())
        return draft.options.batch == "global" and loads and not draft.facts.processes.managed

    def _imports(self, draft: Draft, edits: list[Edit]) -> Iterator[Edit]:
        """What the edits of each file need, for the file in which the accelerator is made first."""
        unit = draft.facts.source.unit
        here = draft.reach.block[draft.reach.place]
        places: dict[object, ast.AST] = {unit(here.lineno): here}
        written: dict[object, str] = {}
        using_os: set[object] = set()
        for edit in edits:
            if edit.node is not None:
                place = unit(edit.span.line)
                places.setdefault(place, edit.node)
                written[place] = f"{written.get(place, '')}\n{edit.code}"
                if _OS.search(edit.code) and known(draft, edit.node, "os") is Known.TOP:
                    using_os.add(place)
        for place, node in places.items():
            lines = self._lines(draft, node is here, written.get(place, ""))
            if place in using_os:
                lines.insert(0, "import os")
            if lines:
                anchor, operation = imports.place(draft, node, self._first_use(draft, edits, place))
                yield draft.edit(_RULE, anchor, operation, "the accelerator's import", "\n".join(lines))

    def _first_use(self, draft: Draft, edits: list[Edit], place: object) -> ast.AST | None:
        """The first node of a file at which code outside functions uses what is imported."""
        used = [(e.node, TYPED in e.code) for e in edits if any(u in e.code for u in ("Accelerator(", STATE, TYPED))]
        outside = (n for n, typed in used if n is not None and (typed or draft.function(n) is None))
        here = (n for n in outside if draft.facts.source.unit(n.lineno) == place)  # type: ignore[attr-defined]
        return min(here, key=position, default=None)

    def _lines(self, draft: Draft, here: bool, written: str) -> list[str]:
        """The imports from the library that a file needs."""
        package = "accelift" if draft.runtime else "accelerate"
        names = ["Accelerator"] if here or TYPED in written else []
        if here and self._shares(draft):
            names.append("DataLoaderConfiguration")
        if here and draft.facts.processes.managed and draft.facts.processes.settings:
            names.append("DistributedDataParallelKwargs")
        if STATE in written:
            names.append("PartialState")
        lines = [f"from {package} import {', '.join(names)}"] if names else []
        gate = draft.reach.gate
        if here and gate is not None and not gate.flushes:
            lines.append(f"from {package}.utils import GradientAccumulationPlugin")
        return lines

    # ---- the device

    def _device(self, draft: Draft, variable: DeviceVariable, state: str = "{accelerator}") -> str:
        return device_texts.of_variable(draft, variable, state)

    def _bound(self, draft: Draft, variable: DeviceVariable, state: str = "{accelerator}") -> list[str]:
        """The statement that binds the variable, if something still reads it."""
        code = f"{_target(draft, variable)} = {self._device(draft, variable, state)}"
        return [code] if survives(draft, variable) else []

    def _kinds(self, draft: Draft, variable: DeviceVariable) -> Iterator[Edit]:
        """What is the device from now on is asked for its kind where its name was compared with one."""
        for read in device_texts.kinds_asked(draft, variable):
            yield draft.edit(_RULE, read, Operation.SURROUND, "the device has a kind, and is none", "{}.type")

    def _swap(self, draft: Draft, variable: DeviceVariable, code: list[str], reason: str) -> Iterator[Edit]:
        first, *rest = variable.statements
        if code:
            yield draft.edit(_RULE, first, Operation.SWAP, reason, "\n".join(code))
        for statement in rest if code else variable.statements:
            yield draft.edit(_RULE, statement, Operation.DROP, reason)

    def _rebind(self, draft: Draft, variable: DeviceVariable, state: str = "{accelerator}") -> Iterator[Edit]:
        reason = "the device is that of the process"
        if is_given_back(draft, variable):
            return
        yield from self._kinds(draft, variable)
        if variable.whole:
            bound = self._bound(draft, variable, state)
            code = [*kept_calls(draft, variable), *bound]
            yield from self._swap(draft, variable, code, reason if bound else "nothing reads it any more")
            return
        for binding in variable.bindings:
            statement = draft.facts.index.statement(binding.node)
            device = device_texts.of_binding(draft, variable, binding, state)
            if isinstance(statement, ast.Assign) and statement.targets == [binding.node]:
                lines = kept_calls(draft, variable, binding)
                if not lines and _is_bound_before(draft, variable, statement):
                    yield draft.edit(_RULE, statement, Operation.DROP, "it is that device already")
                    continue
                lines.append(f"{variable.text} = {device}")
                yield draft.edit(_RULE, statement, Operation.SWAP, reason, "\n".join(lines))
            elif binding.path:  # unpacked from a call that gives something else, too
                if survives(draft, variable):
                    yield draft.edit(_RULE, statement, Operation.AFTER, reason, f"{variable.text} = {device}")
            elif binding.value is not None:
                lines = kept_calls(draft, variable, binding)
                if lines:
                    yield draft.edit(_RULE, statement, Operation.BEFORE, reason, "\n".join(lines))
                yield draft.edit(_RULE, binding.value, Operation.BECOME, reason, device)

    def _other(self, draft: Draft, variable: DeviceVariable) -> Iterator[Edit | Finding]:
        """A further device variable, in another function or after the first."""
        reach = draft.reach
        if is_handed_in(draft, variable):
            return
        statement = variable.statements[0]
        if is_rebound(draft, variable):
            yield from self._rebind(draft, variable)
            yield from self._option(draft, variable)
            return
        numbered = any(
            draft.facts.devices.numbers.is_numbered(n) for b in variable.bindings for n in walk(b.value or b.node)
        )
        one = numbered or variable.indexed is not None
        late = reach.cpu == FALSE or (not is_fixed(draft, variable) and states.has_device(reach, statement))
        if one and late and survives(draft, variable):
            # It is chosen before there is an accelerator, or out of its reach.
            yield from self._rebind(draft, variable, STATE)
        elif variable.indexed is not None or (numbered and survives(draft, variable)):
            yield draft.finding(
                "DEV-LEFT",
                Severity.WARNING,
                statement,
                f"`{variable.text}` is one particular GPU for every process",
                "use accelerator.device",
            )

    def _option(self, draft: Draft, variable: DeviceVariable) -> Iterator[Finding]:
        """A warning for a variable that may mean the CPU where the accelerator, which is made before, does not."""
        if draft.reach.cpu != FALSE or variable.cpu is None or variable.cpu.constant is not None:
            return
        yield draft.finding(
            "DEV-OPTION",
            Severity.WARNING,
            variable.statements[0],
            f"`{variable.text}` was the CPU if `{variable.cpu}`, which has no effect any more: another device is "
            "chosen before that, without asking",
            "choose the device in one place, or hide the GPUs with CUDA_VISIBLE_DEVICES= to stay on the CPU",
        )

    def _is_left_to_others(self, draft: Draft, variable: DeviceVariable) -> bool:
        """Whether only other scripts read the field of a class: `map_location=config.device` in one that predicts."""
        reads = draft.facts.index.attributes.get(variable.name.rpartition(".")[2], [])
        of_class = variable.scope is not None and variable.scope.is_class
        return of_class and bool(reads) and all(isinstance(r.ctx, ast.Load) and draft.gone(r) for r in reads)

    def _elsewhere(self, draft: Draft, variable: DeviceVariable) -> Iterator[Edit | Finding]:
        """The device of an imported file: that of the process, which is known before there is an accelerator."""
        if variable.cpu == TRUE or self._is_left_to_others(draft, variable):
            return
        if draft.reach.cpu != FALSE:
            raise refuse(
                "DEV-IMPORT-ORDER",
                variable.statements[0].lineno,
                f"`{variable.text}` is chosen when this file is imported, before it is known whether the script means "
                "the CPU",
                "choose the device where the arguments are known, and pass it on",
            )
        yield from self._rebind(draft, variable, STATE)


def _is_bound_before(draft: Draft, variable: DeviceVariable, statement: ast.Assign) -> bool:
    """Whether a statement beside others, in a block, binds what the variable has been bound to just outside of that:
    `if torch.backends.mps.is_available(): device = torch.device("mps")` after another choice."""
    index, scope = draft.facts.index, variable.scope
    if scope is None or len(scope.bindings[variable.name]) != len(variable.bindings):
        return False  # something else takes its place in between
    first = index.statement(variable.bindings[0].node)
    block, place = index.block(first)
    around = {*index.ancestors(statement)}.intersection(block[place + 1 :])
    return isinstance(first, ast.Assign) and bool(around) and len(index.block(statement)[0]) > 1


def _target(draft: Draft, variable: DeviceVariable) -> str:
    """What is assigned to; in a class with its annotation, which may make it a field of a dataclass."""
    statement = draft.facts.index.statement(variable.bindings[0].node)
    if variable.scope is not None and variable.scope.is_class and isinstance(statement, ast.AnnAssign):
        return f"{variable.text}: {draft.facts.segment(statement.annotation)}"
    return variable.text
