"""Devices that are spelled out where they are used, or handed to a function: by name, or by what picks one GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.devices.takers import take_devices
from accelift_codemod.devices.texts import held
from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role, written
from accelift_codemod.facts.gpu_numbers import CPU
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.showing import is_logging, is_shown, prints
from accelift_codemod.facts.tree import children, walk

_SPELLED = (ast.Name, ast.Attribute, ast.Call, ast.JoinedStr, ast.BinOp)
_READS = (ast.Name, ast.Attribute, ast.Subscript)
_MOVES = frozenset({"to", "cuda", "to_empty", "set_default_device", "startswith"})


def is_spelled(draft: Draft, node: ast.expr | None) -> bool:
    """Whether a device other than the CPU is spelled out, or a GPU by its number; or whether it is a setting that is
    one particular GPU, or a call of a function that picks one."""
    numbers = draft.facts.devices.numbers
    if draft.facts.moves.numbered.holds(node) or (isinstance(node, _SPELLED) and numbers.is_own(node)):
        return True
    if isinstance(node, ast.expr) and is_setting(draft, node):
        return True
    if isinstance(node, ast.Call):
        if isinstance(draft.facts.resolver.callee(node), FUNCTIONS):
            return is_one(draft, node) and means_it(draft, node)
        if draft.facts.resolver.qualified(node.func) != "torch.device" or len(node.args) != 1:
            return False
        node = node.args[0]
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and not CPU.match(node.value) and draft.facts.devices.is_device(node)
    return False


def is_of_option(draft: Draft, node: ast.expr) -> bool:
    """Whether the name of a GPU is put together of nothing but an option: `f"cuda:{args.gpu}"`, perhaps as a device."""
    if isinstance(node, ast.Call) and draft.facts.resolver.qualified(node.func) == "torch.device":
        node = node.args[0] if len(node.args) == 1 else node
    if not isinstance(node, (ast.JoinedStr, ast.BinOp)) or not draft.facts.devices.is_device(node):
        return False
    reads = [n for n in walk(node) if isinstance(n, ast.Name) and draft.facts.resolver.builtin(n) is None]
    return bool(reads) and all(
        isinstance(draft.facts.index.parents[n], ast.Attribute) and Role.ARGUMENTS in draft.facts.resolver.roles(n)
        for n in reads
    )


def handed(draft: Draft) -> Iterator[tuple[ast.Call, ast.expr]]:
    """What functions of the script are given that is one particular GPU, made where it is handed to them, with the
    call: `train(model, try_gpu())`, `Trainer("cuda:0")`; or in a dict that gives it to them."""
    found = dict[ast.expr, ast.Call]()
    for call in draft.calls:
        function = _function(draft, call)
        given = (draft.facts.resolver.bind(call, function) or {}) if function is not None else {}
        spelled = (*call.args, *(part.value for k in call.keywords for part in draft.facts.resolver.written_out(k)))
        for value in given.values():
            if value in spelled and is_one(draft, value):
                found.setdefault(value, call)
    yield from ((call, value) for value, call in found.items())


def is_one(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression that is no variable is one particular GPU, or an option that is one by default."""
    devices = draft.facts.devices
    if isinstance(node, _READS):
        return is_setting(draft, node)
    return devices.is_device(node) and devices.numbers.is_one(node)


def is_setting(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is an option of the command line that is one particular GPU by default, or the entry of a
    dict that is one; or of a file, where it may be."""
    if draft.facts.devices.settings.says_where(node):
        return means_it(draft, node)
    said, numbers = draft.facts.devices.said(node), draft.facts.devices.numbers
    return said is not None and (numbers.is_numbered(said) or (numbers.is_one(said) and means_it(draft, node)))


def unknown_entries(draft: Draft) -> Iterator[ast.expr]:
    """Entries of dicts that cannot be followed, by the name by which another dict has one particular GPU: it may be
    the same dict, as `self.settings["device"]` in a network."""
    reads = [(n, read[1]) for n in draft.facts.index.parents if (read := written.asked(n)) and isinstance(n, ast.expr)]
    keys = {key for node, key in reads if is_setting(draft, node)}
    for node in (n for n, key in reads if key in keys and draft.facts.runs(n) and not is_setting(draft, n)):
        if written.entry(draft.facts.resolver, node) is None and not draft.gone(node):
            yield node


def means_it(draft: Draft, node: ast.expr) -> bool:
    """Whether a device is the CPU where the script means that, and only there."""
    facts = draft.facts
    chosen = {v.cpu for v in facts.devices.variables if facts.runs(v.statements[0])} or {facts.moves.guards_cpu}
    return chosen == {facts.devices.cpu(node)} != {None}


def is_exchanged(draft: Draft, call: ast.Call, node: ast.expr) -> bool:
    """Whether what a function is handed may be the device of the process as well: it is the CPU where the script means
    that, and if it is only a name, nothing takes it for a text: `f"net_{device}.pt"`, `device.split(":")`. What
    stands in a dict may be made before there is an accelerator."""
    written_here = not isinstance(draft.facts.index.parents[node], ast.Dict)
    return written_here and means_it(draft, node) and (_is_object(draft, node) or not _is_text(draft, call, node))


def is_a_text(draft: Draft, call: ast.Call, node: ast.expr) -> bool:
    """Whether the name of a device that a function is handed is taken for a text there, and the script means it."""
    return means_it(draft, node) and not _is_object(draft, node) and _is_text(draft, call, node)


def kind(draft: Draft, node: ast.expr) -> str:
    """The code for the device of a process in place of one that is spelled out: a device, or the name of one where
    something needs that."""
    device = "{accelerator}.device"
    return device if _is_object(draft, node) or take_devices(draft, [node]) else f"{device}.type"


def _is_object(draft: Draft, node: ast.expr) -> bool:
    return any(v.role is Role.DEVICE for v in draft.facts.resolver.values(node))


def _is_text(draft: Draft, call: ast.Call, node: ast.expr) -> bool:
    """Whether something is done with the name of a device that a function is handed but using it for one, or showing
    it."""
    function = _function(draft, call)
    if function is None:
        return True
    scope = draft.facts.index.scopes[function]
    bound = draft.facts.resolver.bind(call, function) or {}
    loads = (load for name, value in bound.items() if value is node for load in draft.facts.loads(scope, name))
    resolver = draft.facts.resolver
    reads = [n for n in loads if any(b.how is How.PARAMETER for b in resolver.reaching(n, scope))]
    return any(_reads_text(draft, read) for read in held(draft, reads))


def _reads_text(draft: Draft, read: ast.expr) -> bool:
    """Whether a read of the name of a device takes it for a text."""
    index, resolver = draft.facts.index, draft.facts.resolver
    parent = index.parents[read]
    if isinstance(parent, (ast.Attribute, ast.Subscript)):
        return parent.value is read and not (isinstance(parent, ast.Attribute) and parent.attr in _MOVES)
    if isinstance(parent, ast.Compare):
        others = [part.value if isinstance(part, ast.Constant) else "" for part in children(parent) if part is not read]
        return any(other not in (None, "cpu", "cuda") for other in others) or _is_equal(parent, "cuda")
    if isinstance(parent, ast.FormattedValue):
        around = [n for n in index.ancestors(parent) if isinstance(n, ast.Call)]
        return not any(is_shown(resolver, c) for c in around)
    if isinstance(parent, ast.keyword):
        return False
    if isinstance(parent, ast.Call) and read is not parent.func:
        known = isinstance(resolver.callee(parent), (*FUNCTIONS, ast.ClassDef))
        moves = isinstance(parent.func, ast.Attribute) and parent.func.attr in _MOVES
        used = known or moves or (resolver.qualified(parent.func) or "").startswith("torch.")
        return not used and prints(resolver, parent.func) is None and not is_logging(resolver, parent)
    return isinstance(parent, ast.BinOp)


def _is_equal(test: ast.Compare, text: str) -> bool:
    """Whether a test is for a text, and not for its beginning: `device == "cuda"`."""
    parts = [n.value for n in children(test) if isinstance(n, ast.Constant)]
    return text in parts and isinstance(test.ops[0], (ast.Eq, ast.NotEq))


def _function(draft: Draft, call: ast.Call) -> Function | None:
    """The function of the script that a call runs, which may be a constructor."""
    callee = draft.facts.resolver.callee(call)
    target = draft.facts.resolver.method(callee, "__init__") if isinstance(callee, ast.ClassDef) else callee
    return target if isinstance(target, FUNCTIONS) else None
