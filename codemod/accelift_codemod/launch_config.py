"""The launch configuration that fits a converted script, each value with the line it comes from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import PurePath

from accelift.config import LaunchConfig

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Facts, Role, library
from accelift_codemod.facts.conditions import TRUE
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.options import Options
from accelift_codemod.rules.cuda_settings import visible_devices
from accelift_codemod.source import Source

_NUMBER = re.compile(r"-?\d+")


def launch_config(facts: Facts, draft: Draft | None, options: Options) -> str:
    """The YAML for `accelift launch --config_file` and `accelerate launch --config_file`.

    Args:
        facts: the script.
        draft: its conversion; None for a script that a framework distributes.
        options: `num_processes` is taken from here, if given.
    """
    return _Config(facts, draft, options).yaml()


@dataclass(frozen=True)
class _Gpus:
    """The GPUs that a line of the script names: how many, and which, between commas (empty if that is not known)."""

    count: int = 0
    ids: str = ""
    origin: str = ""


class _Config:
    def __init__(self, facts: Facts, draft: Draft | None, options: Options) -> None:
        self.facts = facts
        self.draft = draft
        self.options = options
        self.name = PurePath(facts.source.path).name
        self.origins: dict[str, str] = {}
        self.notes: list[str] = []

    def yaml(self) -> str:
        use_cpu = self._use_cpu()
        gpus = _Gpus() if use_cpu else self._gpus()
        processes = self._processes(gpus)
        gpu_ids = self._gpu_ids(gpus, processes)
        self._precision()
        function = self._main_function()
        self._accumulation()
        if processes == 1:
            kind = "NO"
        else:
            kind = "MULTI_CPU" if use_cpu else "MULTI_GPU"
        config = LaunchConfig(
            distributed_type=kind,
            num_processes=processes,
            use_cpu=use_cpu,
            gpu_ids=gpu_ids,
            main_training_function=function,
        )
        return config.to_yaml(self.origins, self.notes)

    def _at(self, node: ast.AST, what: str) -> str:
        line = node.lineno  # type: ignore[attr-defined]
        if isinstance(self.facts.source, Source):
            return f"{self.name}:{line} {what}"
        unit = self.facts.source.unit(line)
        return f"{unit.path.name}:{line - unit.base} {what}"

    # ---- values

    def _gpus(self) -> _Gpus:
        """The GPUs that the script names. Those of DataParallel are counted among those that are visible."""
        chosen, visible = self._chosen(), self._visible()
        if visible is None:
            return chosen
        if not chosen.count:
            return visible
        ids = visible.ids.split(",")
        places = [int(i) for i in chosen.ids.split(",")]
        if max(places) >= visible.count:
            return replace(chosen, ids="")
        origin = f"{chosen.origin}, of those in CUDA_VISIBLE_DEVICES"
        return _Gpus(chosen.count, ",".join(ids[i] for i in places), origin)

    def _chosen(self) -> _Gpus:
        """What DataParallel is given."""
        for call in self.facts.index.calls:
            if (self.facts.resolver.qualified(call.func) or "") in library.DATA_PARALLEL:
                chosen = self._integers(self.facts.resolver.argument(call, 1, "device_ids"))
                if chosen:
                    return _Gpus(len(chosen), ",".join(map(str, chosen)), self._at(call, "DataParallel device_ids"))
        return _Gpus()

    def _visible(self) -> _Gpus | None:
        """What the script sets CUDA_VISIBLE_DEVICES to; without an origin if that cannot be told, None if it does not.

        As CUDA reads it, a number that no GPU can have ends the list: "-1" hides all of them.
        """
        assigned = visible_devices(self.draft) if self.draft is not None else []
        if not assigned:
            return None
        statement, value = assigned[0]
        numbers = [number.strip() for number in value.split(",") if value.strip()]
        if len(assigned) > 1 or self._conditional(statement) or not all(_NUMBER.fullmatch(n) for n in numbers):
            return _Gpus()
        ids = list(takewhile(str.isdigit, numbers))
        return _Gpus(len(ids), ",".join(ids), self._at(statement, "CUDA_VISIBLE_DEVICES"))

    def _conditional(self, statement: ast.stmt) -> bool:
        """Whether a statement is in a branch or loop, other than that of a script's main program."""
        return any(
            isinstance(outer, (ast.If, ast.For, ast.While, ast.Try, ast.Match))
            and not (isinstance(outer, ast.If) and "__name__" in self.facts.segment(outer.test))
            for outer in self.facts.index.chain(statement)
        )

    def _gpu_ids(self, gpus: _Gpus, processes: int) -> str:
        if not gpus.ids:
            return "all"
        if processes > gpus.count:
            self.origins["gpu_ids"] = f"{processes} processes need more than {gpus.ids} ({gpus.origin})"
            return "all"
        self.origins["gpu_ids"] = gpus.origin
        return gpus.ids

    def _integers(self, node: ast.expr | None) -> list[int]:
        """A literal list of integers, also through a variable or `range(n)`."""
        if isinstance(node, ast.Name):
            bindings = self.facts.resolver.bindings(node)
            node = bindings[0].value if len(bindings) == 1 else None
        if isinstance(node, (ast.List, ast.Tuple)):
            values = [e.value for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, int)]
            return values if len(values) == len(node.elts) else []
        if isinstance(node, ast.Call) and self.facts.resolver.builtin(node.func) == "range" and len(node.args) == 1:
            count = node.args[0]
            if isinstance(count, ast.Constant) and isinstance(count.value, int):
                return list(range(count.value))
        return []

    def _processes(self, gpus: _Gpus) -> int:
        if self.options.num_processes is not None:
            self.origins["num_processes"] = f"--num-processes {self.options.num_processes}"
            return self.options.num_processes
        if gpus.count:
            self.origins["num_processes"] = gpus.origin
            return gpus.count
        self.origins["num_processes"] = f"{self.name} names no GPUs: set it, or launch with --num_processes"
        return 1

    def _use_cpu(self) -> bool:
        if self.draft is None:
            return False
        visible = self._visible()
        if visible is not None and visible.origin and not visible.count:
            self.origins["use_cpu"] = f"{visible.origin} hides every GPU"
            return True
        condition = self.draft.reach.cpu
        if condition == TRUE:
            self.origins["use_cpu"] = f"{self.name} never moves anything to a GPU"
            return True
        for atom in condition.atoms() if condition.constant is None else ():
            if isinstance(atom, ast.Attribute) and atom.attr in self.facts.command_line.options:
                call = self.facts.command_line.options[atom.attr]
                flag = next((str(a.value) for a in call.args if isinstance(a, ast.Constant)), atom.attr)
                self.origins["use_cpu"] = self._at(call, f"{flag} stays a flag of the script")
        return False

    def _precision(self) -> None:
        """The script sets its precision: by the accelerator, or by autocast and a GradScaler that stay in it, and to
        which the launcher must not add its own."""
        own = self.draft.own_precision if self.draft is not None else None
        if own is not None and own.first is not None and own.is_managed:
            self.origins["mixed_precision"] = self._at(own.first, "the script's Accelerator sets it in place of this")
            return
        uses = [call for call, _ in self.facts.objects_of(Role.SCALER)]
        uses += (c for c in self.facts.index.calls if self.facts.resolver.qualified(c.func) in library.AUTOCAST)
        if not uses:
            self.origins["mixed_precision"] = f"{self.name}: no autocast or GradScaler"
            return
        first = min(uses, key=lambda c: c.lineno)
        name = self.facts.segment(first.func).rpartition(".")[2]
        self.origins["mixed_precision"] = self._at(first, f"{name} stays in the script")

    def _main_function(self) -> str:
        home = self.draft.reach.home if self.draft is not None else None
        for function in self._called_at_top() if home is not None else ():
            if function is home or home in self._calls(function):
                self.origins["main_training_function"] = self._at(function, f"{function.name}() makes the accelerator")
                return function.name
        return "main"

    def _called_at_top(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        for call in self.facts.index.calls:
            target = self.facts.resolver.callee(call)
            if isinstance(target, FUNCTIONS) and self.facts.index.function(call) is None:
                yield target

    def _calls(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[ast.AST]:
        assert self.draft is not None
        return {f for s in function.body for f in self.draft.blueprint.timeline.calls_into(s)}

    def _accumulation(self) -> None:
        gate = self.draft.reach.gate if self.draft is not None else None
        if gate is not None:
            steps = self.facts.segment(gate.steps)
            self.notes.append(
                f"gradient_accumulation_steps: {steps} ({self.name}:{gate.node.lineno}; the script's Accelerator sets "
                "it)"
            )
