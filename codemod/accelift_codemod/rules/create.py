"""Makes the accelerator, in place of the device."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, position
from accelift_codemod.facts.conditions import TRUE
from accelift_codemod.facts.devices import DeviceVariable
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Finding, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "ACCELERATOR"


class Create(Rule):
    """Makes the `Accelerator` where the script chose its device, or as soon as its arguments are known if something
    needs it before. A flag that kept the script on the CPU still does: it becomes `cpu=`, read from what the flag
    does, not from its name.

    The size of the global batch is kept: `DataLoaderConfiguration(split_batches=True)` shares each batch of the
    script out among the processes, so learning rates, schedules and step counts keep their meaning. With `--batch
    per-process` every process gets whole batches instead.

    A device variable that is still read is bound to `accelerator.device`.
    """

    code = _RULE
    name = "the accelerator"
    required = True
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
            "BATCH-SCALE",
            Severity.NOTE,
            "a larger global batch",
            "Every process gets whole batches, so the global batch is the script's times the number of processes, and "
            "an epoch has fewer steps. The learning rate and the schedule are not scaled.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        reach = draft.reach
        yield from self._import(draft)
        creation = self._creation(draft)
        variable = reach.variable
        in_place = reach.replaces_variable and variable is not None and variable.whole
        reason = "one accelerator for the job: it knows processes and devices"
        if in_place and variable is not None:
            code = creation
            if self._survives(draft, variable):
                code += f"\n{variable.text} = {self._device(draft, variable)}"
            yield from self._swap(draft, variable, code, reason)
        elif reach.follows_variable and variable is not None:
            for statement in variable.statements:
                yield draft.edit(_RULE, statement, Operation.DROP, reason)
            code = creation
            if self._survives(draft, variable):
                code += f"\n{variable.text} = {self._device(draft, variable)}"
            yield draft.edit(_RULE, reach.block[reach.place], Operation.BEFORE, reason, code)
        else:
            where = reach.block[reach.place]
            yield draft.edit(_RULE, where, Operation.BEFORE, reason, creation)
            if variable is not None:
                yield from self._rebind(draft, variable)
        for other in draft.facts.devices.variables:
            if other is not variable and draft.facts.runs(other.statements[0]):
                yield from self._other(draft, other)
        if reach.cpu == TRUE:
            yield draft.finding(
                "DEV-CPU",
                Severity.NOTE,
                reach.block[reach.place],
                "the script never moves anything to a GPU, so it stays on the CPU",
                "to use GPUs, take cpu=True out and move what is made outside the loaders to accelerator.device",
            )
        if draft.options.batch != "global":
            yield draft.finding(
                "BATCH-SCALE",
                Severity.NOTE,
                reach.block[reach.place],
                "every process gets whole batches: the global batch grows with the number of processes",
                "scale the learning rate by hand if you want to",
            )

    # ---- the accelerator

    def _creation(self, draft: Draft) -> str:
        arguments = []
        if draft.reach.cpu.constant is not False:
            arguments.append(f"cpu={draft.reach.cpu}")
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
        if _shares_batches(draft):
            arguments.append("dataloader_config=DataLoaderConfiguration(split_batches=True)")
        return f"{{accelerator}} = Accelerator({', '.join(arguments)})"

    def _import(self, draft: Draft) -> Iterator[Edit]:
        package = "accelift" if draft.runtime else "accelerate"
        names = ["Accelerator"]
        if _shares_batches(draft):
            names.append("DataLoaderConfiguration")
        lines = [f"from {package} import {', '.join(names)}"]
        gate = draft.reach.gate
        if gate is not None and not gate.flushes:
            lines.append(f"from {package}.utils import GradientAccumulationPlugin")
        module = draft.facts.index.module
        if "os" not in module.bindings and any("os.devnull" in e.code for e in draft.edits):
            lines.insert(0, "import os")
        anchor, operation = _import_place(draft)
        yield draft.edit(_RULE, anchor, operation, "the accelerator's import", "\n".join(lines))

    # ---- the device

    def _device(self, draft: Draft, variable: DeviceVariable) -> str:
        suffix = ".type" if variable.is_string else ""
        return f"{{accelerator}}.device{suffix}"

    def _survives(self, draft: Draft, variable: DeviceVariable) -> bool:
        """Whether something still reads the variable."""
        if variable.scope is None or isinstance(variable.scope.node, ast.ClassDef):
            if variable.scope is None or variable.scope.node not in draft.facts.resolver.followed:
                return True  # an attribute may be read anywhere
            attributes = draft.facts.index.attributes.get(variable.name.rpartition(".")[2], [])
            values = (v for a in attributes for v in draft.facts.resolver.values(a.value))
            if any(v.declaration is variable.scope.node for v in values):
                return True  # read outside the class
        inside = {n for s in variable.statements for n in walk(s)}
        return any(
            load not in inside and not draft.gone(load) for load in draft.facts.loads(variable.scope, variable.name)
        )

    def _swap(self, draft: Draft, variable: DeviceVariable, code: str, reason: str) -> Iterator[Edit]:
        first, *rest = variable.statements
        yield draft.edit(_RULE, first, Operation.SWAP, reason, code)
        for statement in rest:
            yield draft.edit(_RULE, statement, Operation.DROP, reason)

    def _rebind(self, draft: Draft, variable: DeviceVariable) -> Iterator[Edit]:
        reason = "the device is that of the process"
        if variable.whole:
            if self._survives(draft, variable):
                code = f"{variable.text} = {self._device(draft, variable)}"
                yield from self._swap(draft, variable, code, reason)
            else:
                for statement in variable.statements:
                    yield draft.edit(_RULE, statement, Operation.DROP, "nothing reads it any more")
            return
        for binding in variable.bindings:
            statement = draft.facts.index.statement(binding.node)
            code = self._device(draft, variable)
            if isinstance(statement, ast.Assign) and statement.targets == [binding.node]:
                yield draft.edit(_RULE, statement, Operation.SWAP, reason, f"{variable.text} = {code}")
            elif binding.value is not None:
                yield draft.edit(_RULE, binding.value, Operation.BECOME, reason, code)

    def _other(self, draft: Draft, variable: DeviceVariable) -> Iterator[Edit | Finding]:
        """A further device variable, in another function or after the first."""
        reach = draft.reach
        statement = variable.statements[0]
        visible = reach.sees(draft.function(statement))
        moments = draft.blueprint.timeline.moments(statement, reach.home)
        made = position(reach.block[reach.place])
        if visible and (min(moments) >= made if moments else draft.blueprint.timeline.follows(statement, reach.home)):
            yield from self._rebind(draft, variable)
        elif variable.indexed is not None:
            yield draft.finding(
                "DEV-LEFT",
                Severity.WARNING,
                statement,
                f"`{variable.text}` is one particular GPU for every process",
                "use accelerator.device",
            )


def _shares_batches(draft: Draft) -> bool:
    """Whether the batches of a loader are to be shared out."""
    loads = any(item.kind is Role.LOADER for item in draft.blueprint.items.values())
    return draft.options.batch == "global" and loads


def _import_place(draft: Draft) -> tuple[ast.stmt, Operation]:
    """Where the import goes, past statements that share a line with it."""
    anchor, operation = _beside_torch(draft)
    block, place = draft.facts.index.block(anchor)
    if operation is Operation.AFTER:
        while place + 1 < len(block) and block[place + 1].lineno == block[place].end_lineno:
            place += 1
    else:
        while place and block[place - 1].end_lineno == block[place].lineno:
            place -= 1
    return block[place], operation


def _beside_torch(draft: Draft) -> tuple[ast.stmt, Operation]:
    """Beside the imports of torch: before the first `from` import that follows them, or after them."""
    body = draft.facts.tree.body
    imports = [s for s in body if isinstance(s, (ast.Import, ast.ImportFrom)) and not _is_future(s)]
    torch = [s for s in imports if _imports_torch(s)]
    if not torch:
        if imports:
            return imports[-1], Operation.AFTER
        first = body[0]
        is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        return first, Operation.AFTER if is_docstring or _is_future(first) else Operation.BEFORE
    start = body.index(torch[0])
    run = [torch[0]]
    for statement in body[start + 1 :]:
        if not isinstance(statement, (ast.Import, ast.ImportFrom)) or statement.lineno > (run[-1].end_lineno or 0) + 1:
            break
        run.append(statement)
    later = [s for s in run if isinstance(s, ast.ImportFrom)]
    plain = [s for s in run if isinstance(s, ast.Import)]
    if later and plain and position(plain[-1]) < position(later[0]):
        return later[0], Operation.BEFORE
    return run[-1], Operation.AFTER


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _imports_torch(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.level == 0 and (statement.module or "").partition(".")[0] == "torch"
    return isinstance(statement, ast.Import) and any(a.name.partition(".")[0] == "torch" for a in statement.names)
