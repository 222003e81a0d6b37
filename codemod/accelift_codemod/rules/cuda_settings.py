"""Settings that tie a process to one GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.devices import spelled as spelled_devices
from accelift_codemod.draft import Draft
from accelift_codemod.facts import whereabouts
from accelift_codemod.facts.conditions import Condition
from accelift_codemod.facts.device_variables import DeviceVariable
from accelift_codemod.facts.moves import Move
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Assumption, Edit, Finding, Operation, Safety, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "DEVSET"
_LAUNCHER = Assumption("GPUs are to be chosen when launching, for one process, too", Safety.UNSAFE)


class CudaSettings(Rule):
    """Removes `torch.cuda.set_device`, and `with torch.cuda.device(0):` from around what is under it: every process
    gets a GPU of its own from the accelerator.

    A GPU chosen by number, by `CUDA_VISIBLE_DEVICES` in the script, or as the default device is reported.
    """

    code = _RULE
    name = "device settings"
    always = True
    before = "torch.cuda.set_device(0)\n"
    after = ""
    assumptions = (_LAUNCHER,)
    findings = (
        Explained(
            "DEV-INDEX",
            Severity.WARNING,
            "the script picks a GPU by its number",
            "The script picks one GPU by its number. Every process gets a GPU of its own from the launcher, so the "
            "number no longer has an effect; choose GPUs with CUDA_VISIBLE_DEVICES, or gpu_ids in the launch config.",
        ),
        Explained(
            "DEV-DEFAULT",
            Severity.WARNING,
            "a GPU is the default device for new tensors",
            "The script makes a GPU the default device for new tensors. On several processes the default has to be the "
            "process's own device; make tensors on accelerator.device instead.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for call in draft.calls:
            qualified = draft.facts.resolver.qualified(call.func)
            if qualified == "torch.cuda.set_device":
                yield from self._set_device(draft, call)
            elif qualified == "torch.cuda.device":
                yield from self._block(draft, call)
            elif qualified in ("torch.set_default_device", "torch.set_default_tensor_type"):
                text = draft.facts.segment(call)
                if "cuda" in text or "device" in text.partition("(")[2]:
                    yield draft.finding(
                        "DEV-DEFAULT",
                        Severity.WARNING,
                        call,
                        "new tensors are made on a GPU by default, the same one for every process",
                        "take it out, and make tensors on accelerator.device",
                    )
        for variable in draft.facts.devices.variables:
            if not draft.facts.runs(variable.statements[0]):
                continue
            if variable.indexed is not None:
                yield self._indexed(draft, variable.indexed)
            yield from self._optional(draft, variable)
        for move in draft.facts.moves.all:
            if draft.facts.runs(move.call) and self._numbered(draft, move):
                yield self._indexed(draft, move.target or move.call)
                break  # once is enough
        targets = (move.target for move in draft.facts.moves.all if draft.facts.runs(move.call))
        entry = next((t for t in targets if t is not None and draft.facts.devices.settings.says_where(t)), None)
        if entry is not None:
            yield self._still_chooses(draft, entry)
        for call, given in spelled_devices.handed(draft):
            if draft.facts.devices.numbers.indexed(given) is not None:
                if spelled_devices.is_exchanged(draft, call, given):
                    yield self._indexed(draft, given)
        yield from self._visible(draft)

    def _optional(self, draft: Draft, variable: DeviceVariable) -> Iterator[Finding]:
        """An option or setting for the device, which may be given a number."""
        for node in (n for b in variable.bindings if b.value is not None for n in walk(b.value)):
            devices, parent = draft.facts.devices, draft.facts.index.parents[node]
            asked = isinstance(parent, ast.Compare) and isinstance(parent.ops[0], (ast.Eq, ast.NotEq))
            if asked:  # for a word that is written out: `args.backend == "gpu"`
                continue
            option = devices.option(node) if isinstance(node, ast.Attribute) else None
            if option is not None and _has_no_number(draft, option):
                continue
            told = isinstance(node, ast.Attribute) and (option is not None or devices.is_told(node))
            told = told or (isinstance(node, ast.expr) and devices.settings.says_where(node))
            if told or (variable.indexed is None and self._is_setting(draft, node, variable.cpu)):
                yield self._still_chooses(draft, node)
                return

    def _still_chooses(self, draft: Draft, node: ast.AST) -> Finding:
        return draft.finding(
            "DEV-INDEX",
            Severity.NOTE,
            node,
            f"`{draft.facts.segment(node)}` still chooses between CPU and GPU, but the number of a GPU given with it "
            "has no effect any more",
            "choose GPUs with CUDA_VISIBLE_DEVICES, or gpu_ids in the launch config",
        )

    def _is_setting(self, draft: Draft, node: ast.AST, cpu: Condition | None) -> bool:
        """Whether a device is what some settings say, which may name a GPU: `torch.device(config.device)`, where that
        is asked whether the script means the CPU, or where it can only be asked at run time."""
        if not isinstance(node, (ast.Attribute, ast.Subscript)):
            return False
        call = draft.facts.index.parents[node]
        if not isinstance(call, ast.Call) or draft.facts.resolver.qualified(call.func) != "torch.device":
            return False
        asked = cpu is None or any(leaf.text.startswith(draft.facts.segment(node)) for leaf in cpu.leaves())
        return asked and node in call.args[:1]

    def _numbered(self, draft: Draft, move: Move) -> bool:
        """Whether a move names a GPU other than the first in place, by a literal or as the argument of `.cuda()`."""
        moves = draft.facts.moves
        if move.target is not None and (moves.is_number(move.target) or moves.follows(move)):
            return False
        if move.kind == "cuda" and move.target is not None and not draft.facts.devices.is_device(move.target):
            return not draft.facts.devices.numbers.is_first(move.target)
        if moves.numbered.holds(move.target):
            return not draft.facts.devices.numbers.is_first(move.target)
        if move.target is None or isinstance(move.target, (ast.Name, ast.Attribute)):
            return False
        devices = draft.facts.devices
        return devices.numbers.indexed(devices.said(move.target) or move.target) is not None

    def _set_device(self, draft: Draft, call: ast.Call) -> Iterator[Edit | Finding]:
        statement = draft.facts.index.statement(call)
        if isinstance(statement, ast.Expr) and statement.value is call:
            yield draft.edit(_RULE, statement, Operation.DROP, "every process gets a GPU of its own")
            devices, given = draft.facts.devices, draft.facts.resolver.argument(call, 0, "device")
            # Of a device in a variable, it is told where the variable is bound.
            variable = isinstance(given, (ast.Name, ast.Attribute)) and devices.is_device(given)
            if not variable and not any(devices.numbers.is_own(a) for a in call.args):
                yield self._indexed(draft, call)
        else:
            yield self._same(draft, call)

    def _block(self, draft: Draft, call: ast.Call) -> Iterator[Edit | Finding]:
        """What makes a GPU the current one: of a block with a number alone, the block is left."""
        devices, given = draft.facts.devices, draft.facts.resolver.argument(call, 0, "device")
        if given is None or self._is_own(draft, given):
            return
        header = draft.facts.index.statement(call)
        alone = isinstance(header, ast.With) and len(header.items) == 1 and header.items[0].context_expr is call
        if not alone or header.items[0].optional_vars is not None or not devices.numbers.picks(given):  # type: ignore[attr-defined]
            yield self._same(draft, call)
            return
        yield draft.edit(_RULE, header, Operation.BARE, "every process gets a GPU of its own")
        if not devices.numbers.is_own(given) and devices.numbers.number(given) != 0:
            yield self._indexed(draft, call)

    def _is_own(self, draft: Draft, given: ast.expr) -> bool:
        """Whether this is right on every process: the device of the accelerator, or where a tensor is, or no GPU."""
        resolver, devices = draft.facts.resolver, draft.facts.devices
        if draft.facts.segment(given) in ("None", "-1"):
            return True
        if isinstance(given, ast.Call) and resolver.qualified(given.func) == "torch.cuda.current_device":
            return True
        if whereabouts.follows(resolver, given):
            return True
        attribute = isinstance(given, ast.Attribute) and given.attr == "device"  # of some tensor, or of settings
        known = attribute or (isinstance(given, (ast.Name, ast.Attribute)) and devices.is_device(given))
        return known and not devices.numbers.picks(given)

    def _same(self, draft: Draft, call: ast.Call) -> Finding:
        return draft.finding(
            "DEV-LEFT",
            Severity.WARNING,
            call,
            f"`{draft.facts.segment(call)}` makes one particular GPU the current one of every process",
            "take it out, or give it accelerator.device",
        )

    def _indexed(self, draft: Draft, node: ast.AST) -> Finding:
        text = draft.facts.segment(node)
        return draft.finding(
            "DEV-INDEX",
            Severity.WARNING,
            node,
            f"`{text}` picks a GPU by its number, which has no effect any more",
            "choose GPUs with CUDA_VISIBLE_DEVICES, or gpu_ids in the launch config",
        )

    def _visible(self, draft: Draft) -> Iterator[Edit | Finding]:
        for statement in _choosing(draft):
            if draft.facts.runs(statement) and not isinstance(statement.value, ast.Constant):
                text = draft.facts.segment(statement.value)
                yield draft.finding(
                    "DEV-INDEX",
                    Severity.WARNING,
                    statement,
                    f"CUDA_VISIBLE_DEVICES is set to `{text}`, which is all that the processes have together",
                    "name as many GPUs as there are processes, or choose them when launching",
                )
        for statement, value in visible_devices(draft):
            count = len([v for v in value.split(",") if v.strip()])
            if count == 1 and value.strip() != "-1":  # which hides every GPU
                finding = draft.finding(
                    "DEV-INDEX",
                    Severity.WARNING,
                    statement,
                    f"CUDA_VISIBLE_DEVICES is set to {value!r}, which leaves one GPU for all processes",
                    "take the line out and choose GPUs when launching",
                )
                reason = "every process gets a GPU of its own"
                yield draft.edit(_RULE, statement, Operation.DROP, reason, assumes=_LAUNCHER, otherwise=finding)


def visible_devices(draft: Draft) -> list[tuple[ast.Assign, str]]:
    """Assignments of a literal to CUDA_VISIBLE_DEVICES in the environment."""
    return [
        (statement, statement.value.value)
        for statement in _choosing(draft)
        if isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    ]


def _choosing(draft: Draft) -> Iterator[ast.Assign]:
    """Assignments to CUDA_VISIBLE_DEVICES in the environment."""
    for statement in draft.facts.index.items:
        for target in statement.targets:
            if (
                isinstance(target, ast.Subscript)
                and draft.facts.resolver.qualified(target.value) == "os.environ"
                and isinstance(target.slice, ast.Constant)
                and target.slice.value == "CUDA_VISIBLE_DEVICES"
            ):
                yield statement


def _has_no_number(draft: Draft, option: ast.Call) -> bool:
    """Whether an option can be nothing but words without a number: `choices=["cpu", "cuda"]`."""
    choices = draft.facts.resolver.argument(option, None, "choices")
    words = choices.elts if isinstance(choices, (ast.List, ast.Tuple, ast.Set)) else []
    texts = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    return bool(texts) and len(texts) == len(words) and not any(c.isdigit() for text in texts for c in text)
