"""Names of devices that a script takes apart: `int(dev.split(":")[1])` asks for the number, which a kind has not."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial

from accelift_codemod.devices.takers import take_devices, takes_device
from accelift_codemod.draft import Draft
from accelift_codemod.facts.device_names import names
from accelift_codemod.facts.device_variables import DeviceVariable
from accelift_codemod.facts.index import FUNCTIONS, Binding
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role
from accelift_codemod.following.onward import Read, reached

# Methods of texts that find something in them, or put something else there.
_PARTS = frozenset(
    "split rsplit partition rpartition index rindex find rfind replace removeprefix lstrip strip".split()
)

_EQUAL = (ast.Eq, ast.NotEq)
_KINDS = frozenset({"cuda", "cpu", "mps", "xpu"})


def of_variable(draft: Draft, variable: DeviceVariable, state: str) -> str:
    """The code for the device of a process in place of one that a variable has."""
    device = f"{state}.device"
    if not variable.is_string:
        return device
    taken = takes_device(draft, variable) or kinds_asked(draft, variable)
    return device if taken else _named(draft, _reads(draft, variable), device)


def kinds_asked(draft: Draft, variable: DeviceVariable) -> list[ast.Name]:
    """Where the name of a device is compared with a kind, `device == "cuda"`, if all others that read it take the
    device: it is asked for its kind there alone."""
    if not variable.is_string or variable.scope is None or draft.reach.asks is not None:
        return []  # or it is still the name where the accelerator is made
    reads = [n for n in _reads(draft, variable) if not draft.gone(n)]
    compared = [n for n in reads if isinstance(n, ast.Name) and _is_compared(draft, n)]
    asked = [n for n in compared if {*draft.facts.resolver.bindings(n)} <= {*variable.bindings}]
    if not 0 < len(asked) < len(reads) or _is_numbered(draft, reads) or not takes_device(draft, variable, asked):
        return []
    return asked


def of_binding(draft: Draft, variable: DeviceVariable, binding: Binding, state: str) -> str:
    """The same where one of several statements binds it: to a name that others make a device of, but that is read
    before."""
    roles = {value.role for value in draft.facts.resolver.bound(binding)}
    if variable.is_string or variable.scope is None or Role.DEVICE in roles:
        return of_variable(draft, variable, state)
    others = (draft.facts.index.statement(b.node) for b in variable.bindings if b is not binding)
    gone = {node for statement in others for node in walk(statement)}
    loads = draft.facts.loads(variable.scope, variable.name)
    own = [n for n in loads if n not in gone and draft.facts.resolver.bindings(n) == [binding]]
    return _of_reads(draft, own, f"{state}.device") if own else of_variable(draft, variable, state)


def of_read(draft: Draft, read: ast.Name, state: str) -> str:
    """The same in place of the name of a device that one place reads."""
    return _of_reads(draft, [read], f"{state}.device")


def _of_reads(draft: Draft, reads: Sequence[ast.Name], device: str) -> str:
    """The device, if no read needs its name."""
    return device if take_devices(draft, reads) else _named(draft, reads, device)


def _named(draft: Draft, reads: Sequence[ast.Name | ast.Attribute], device: str) -> str:
    """The name of a device: with its number, if something asks for that."""
    return f"str({device})" if _is_numbered(draft, reads) and _is_taken_apart(draft, reads) else f"{device}.type"


def _is_numbered(draft: Draft, reads: Sequence[ast.Name | ast.Attribute]) -> bool:
    known = [names(draft.facts.devices, read) for read in reads[:1]]
    return any(":" in name for found in known for name in found or ())


def _is_compared(draft: Draft, read: ast.expr) -> bool:
    """Whether a read is compared with the kind of a device, and nothing else."""
    test = draft.facts.index.parents[read]
    equal = isinstance(test, ast.Compare) and test.left is read and all(isinstance(o, _EQUAL) for o in test.ops)
    return equal and all(isinstance(c, ast.Constant) and c.value in _KINDS for c in test.comparators)  # type: ignore[attr-defined]


def _reads(draft: Draft, variable: DeviceVariable) -> list[ast.Name | ast.Attribute]:
    if variable.scope is not None:
        found = draft.facts.loads(variable.scope, variable.name)
        return [n for n in found if set(draft.facts.resolver.bindings(n)) & {*variable.bindings}]
    spelled = draft.facts.index.attributes.get(variable.name, [])
    return [n for n in spelled if isinstance(n.ctx, ast.Load) and draft.facts.segment(n) == variable.text]


def _is_taken_apart(draft: Draft, reads: Sequence[ast.Name | ast.Attribute]) -> bool:
    """Whether something is cut out of a name, or looked for in it, wherever it gets."""
    return any(_is_cut(draft, read) for read in held(draft, reads))


def held(draft: Draft, reads: Sequence[Read]) -> Iterator[Read]:
    """Where the name of a device is read that some places read, as long as it is a name: in functions of the script,
    too."""
    return reached(draft, reads, stop=partial(_is_end, draft))


def _is_end(draft: Draft, node: ast.AST) -> bool:
    """Whether a node is a call that makes something else of a name: no function of the script."""
    return isinstance(node, ast.Call) and not isinstance(draft.facts.resolver.callee(node), (*FUNCTIONS, ast.ClassDef))


def _is_cut(draft: Draft, read: ast.expr) -> bool:
    parent = draft.facts.index.parents.get(read)
    if isinstance(parent, ast.Subscript):
        return parent.value is read
    return isinstance(parent, ast.Attribute) and parent.attr in _PARTS
