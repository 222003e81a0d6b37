"""What a script asks of the name of its device."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.device_names import Names, names
from accelift_codemod.facts.index import How
from accelift_codemod.facts.showing import is_shown
from accelift_codemod.facts.values import Role
from accelift_codemod.plan import Edit, Finding, Operation
from accelift_codemod.rules import Rule

_RULE = "DEVNAME"
_KIND = "the device of a process has a number; its kind has none"
_SAME = "each process has a GPU of another number"


class DeviceNames(Rule):
    """Asks for the kind of a device where a script asks for its name: accelerator.device is `cuda:0`, `cuda:1`, ...
    where the script's device was `cuda`, and has another number on each process.

    Texts that name the device (`f"model_{device}.pt"`) name its kind, too, unless they are only printed or logged. A
    comparison with another GPU than that of the script, or with one that is not written out, stays.
    """

    code = _RULE
    name = "names of devices"
    always = True
    closing = 2
    before = """\
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if str(device) == "cuda":
    ...
"""
    after = """\
device = accelerator.device
if device.type == "cuda":
    ...
"""

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        done: set[ast.AST] = set()
        for node in [n for n in draft.facts.index.parents if isinstance(n, ast.Compare)]:
            if (
                len(node.ops) == 1
                and isinstance(node.ops[0], (ast.Eq, ast.NotEq))
                and draft.facts.runs(node)
                and not draft.gone(node)
            ):
                found = [*self._compared(draft, node)]
                done |= {node.left} if found else set()
                yield from found
        for call in draft.calls:
            if call not in done and not draft.gone(call) and (device := _spelled(draft, call)) is not None:
                known = names(draft.facts.devices, device)
                if known is not None and not any(":" in name for name in known):
                    yield from self._kind(draft, call, device)
        for device in dict.fromkeys(_filled_in(draft)):
            known = names(draft.facts.devices, device)
            if known is not None and not any(":" in name for name in known):
                yield from self._kind(draft, device, device)

    def _compared(self, draft: Draft, node: ast.Compare) -> Iterator[Edit]:
        """The device, or its name, where it is compared with a GPU that is written out."""
        one, other = node.left, node.comparators[0]
        asked = names(draft.facts.devices, other) if isinstance(other, (ast.Constant, ast.Call)) else None
        if asked is None or len(asked) != 1 or asked == {"cpu"}:
            return
        name = next(iter(asked))
        spelled = _spelled(draft, one)
        device = spelled or one
        if not _is(draft, device) or not _alone(names(draft.facts.devices, device), name):
            return
        if isinstance(other, ast.Call):
            if spelled is None and _is_object(draft, device):
                yield from self._kind(draft, one, device)
                yield draft.edit(_RULE, other, Operation.BECOME, _SAME, _kind(draft, other, name))
        elif spelled is not None or _renamed(draft, device):
            if spelled is not None:
                yield from self._kind(draft, one, device)
            if ":" in name:
                sign = "==" if isinstance(node.ops[0], ast.Eq) else "!="
                yield draft.edit(_RULE, node, Operation.LEFT, _SAME)
                yield draft.edit(_RULE, node, Operation.SURROUND, _SAME, f"{{}} {sign} {_kind(draft, other, name)}")

    def _kind(self, draft: Draft, node: ast.expr, device: ast.expr) -> Iterator[Edit]:
        """The kind of the device, in place of the device or of its name."""
        if node is not device:
            yield draft.edit(_RULE, node, Operation.INNER, _KIND, place=0)
        yield draft.edit(_RULE, device, Operation.SURROUND, _KIND, "{}.type")


def _kind(draft: Draft, node: ast.expr, name: str) -> str:
    """The kind of GPU that is asked for, in the quotes of the script."""
    quote = "'" if "'" in draft.facts.segment(node) else '"'
    return f"{quote}{name.partition(':')[0]}{quote}"


def _spelled(draft: Draft, node: ast.expr) -> ast.expr | None:
    """The device of which an expression is the name: `str(device)`."""
    if not isinstance(node, ast.Call) or draft.facts.resolver.builtin(node.func) != "str" or len(node.args) != 1:
        return None
    device = node.args[0]
    return device if _is(draft, device) and _is_object(draft, device) else None


_FILLED = frozenset({ast.FormattedValue, ast.Call, ast.BinOp})


def _filled_in(draft: Draft) -> Iterator[ast.expr]:
    """The devices whose names are put into texts that are not only shown: `f"{device}.pt"`, `"%s.pt" % device`."""
    for node in (n for n in draft.facts.index.parents if n.__class__ in _FILLED):
        parts: list[ast.expr] = []
        if isinstance(node, ast.FormattedValue) and node.conversion in (-1, ord("s")):
            parts = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            parts = [*node.args, *(k.value for k in node.keywords)] if _is_text(node.func.value) else []
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text(node.left):
            parts = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        for part in parts:
            if draft.facts.runs(node) and not draft.gone(node) and not _shown(draft, node) and _is(draft, part):
                if _is_object(draft, part):
                    yield part


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _shown(draft: Draft, node: ast.AST) -> bool:
    """Whether a text is printed or logged, where the number of the GPU is of use."""
    calls = (p for p in draft.facts.index.ancestors(node) if isinstance(p, ast.Call))
    return any(is_shown(draft.facts.resolver, c) for c in calls)


def _is(draft: Draft, node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and draft.facts.devices.is_device(node)


def _is_object(draft: Draft, node: ast.expr) -> bool:
    """Whether a device surely is a torch.device, and no string."""
    values = draft.facts.resolver.values(node)
    return bool(values) and all(v.role is Role.DEVICE for v in values)


def _alone(known: Names | None, asked: str) -> bool:
    """Whether a device is the one that is asked for if it is of its kind at all."""
    return known is not None and {n for n in known if n.partition(":")[0] == asked.partition(":")[0]} == {asked}


def _renamed(draft: Draft, node: ast.expr, steps: int = 0) -> bool:
    """Whether the conversion makes a variable with the name of a device that of its kind."""
    if any(e.code.endswith(".device.type") for e in draft.edits_at(node)):
        return True
    if not isinstance(node, (ast.Name, ast.Attribute)) or steps > 8:
        return False
    devices = draft.facts.devices
    if isinstance(node, ast.Attribute):
        bindings = devices.index.set_as_spelled(node)
    else:
        bindings = draft.facts.resolver.bindings(node)
    for binding in bindings:
        if binding.how is How.PARAMETER:
            given = draft.facts.resolver.handed(binding, devices.runs)
            if not given or not all(one is not None and _renamed(draft, one, steps + 1) for one in given):
                return False
            continue
        variable = next((v for v in devices.variables if binding in v.bindings), None)
        places = [*variable.statements, *(b.value for b in variable.bindings)] if variable is not None else []
        if not any(e.code.endswith(".device.type") for p in places if p is not None for e in draft.edits_at(p)):
            return False
    return bool(bindings)
