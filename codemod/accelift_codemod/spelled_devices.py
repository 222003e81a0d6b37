"""Devices that are spelled out where they are used, or handed to a function: by name, or by what picks one GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.gpu_numbers import CPU
from accelift_codemod.facts.index import FUNCTIONS, Function

_SPELLED = (ast.Name, ast.Attribute, ast.Call, ast.JoinedStr, ast.BinOp)


def is_spelled(draft: Draft, node: ast.expr | None) -> bool:
    """Whether a device other than the CPU is spelled out, or the number of the process's own; or whether it is an
    option that is one particular GPU by default, or a call of a function that picks one."""
    numbers = draft.facts.devices.numbers
    if isinstance(node, _SPELLED) and numbers.is_own(node):
        return True
    if isinstance(node, ast.Attribute) and not draft.facts.devices.attribute_bindings(node):
        option = draft.facts.devices.option(node)
        given = draft.facts.resolver.argument(option, None, "default") if option is not None else None
        return given is not None and numbers.is_numbered(given)
    if isinstance(node, ast.Call):
        if isinstance(draft.facts.resolver.callee(node), FUNCTIONS):
            return is_one(draft, node) and means_it(draft, node)
        if draft.facts.resolver.qualified(node.func) != "torch.device" or len(node.args) != 1:
            return False
        node = node.args[0]
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and not CPU.match(node.value) and draft.facts.devices.is_device(node)
    return False


def handed(draft: Draft) -> Iterator[tuple[ast.Call, ast.expr]]:
    """What functions of the script are given that is one particular GPU, made where it is handed to them, with the
    call: `train(model, try_gpu())`, `Trainer("cuda:0")`."""
    for call in draft.calls:
        function = _function(draft, call)
        given = (draft.facts.resolver.bind(call, function) or {}) if function is not None else {}
        spelled = (*call.args, *(k.value for k in call.keywords))
        yield from ((call, value) for value in given.values() if value in spelled and is_one(draft, value))


def is_one(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression that is no variable is one particular GPU."""
    devices = draft.facts.devices
    named = isinstance(node, (ast.Name, ast.Attribute))
    return not named and devices.is_device(node) and devices.numbers.is_one(node)


def means_it(draft: Draft, node: ast.expr) -> bool:
    """Whether a device is the CPU where the script means that, and only there."""
    facts = draft.facts
    chosen = {v.cpu for v in facts.devices.variables if facts.runs(v.statements[0])} or {facts.moves.guards_cpu}
    return chosen == {facts.devices.cpu(node)} != {None}


def kind(draft: Draft, node: ast.expr) -> str:
    """The code for the device of a process in place of one that is spelled out: a device, or the name of one."""
    made = any(v.role is Role.DEVICE for v in draft.facts.resolver.values(node))
    return "{accelerator}.device" if made else "{accelerator}.device.type"


def _function(draft: Draft, call: ast.Call) -> Function | None:
    """The function of the script that a call runs, which may be a constructor."""
    callee = draft.facts.resolver.callee(call)
    target = draft.facts.resolver.method(callee, "__init__") if isinstance(callee, ast.ClassDef) else callee
    return target if isinstance(target, FUNCTIONS) else None
