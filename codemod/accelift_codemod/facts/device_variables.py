"""The variables and attributes in which a script keeps the device that it has chosen."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accelift_codemod.facts import whereabouts, written
from accelift_codemod.facts.command_line import is_main
from accelift_codemod.facts.conditions import TRUE, Condition
from accelift_codemod.facts.index import FUNCTIONS, Binding, How, Scope, position
from accelift_codemod.facts.names import is_placeholder
from accelift_codemod.facts.tree import own_nodes
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.devices import Devices


@dataclass(frozen=True)
class DeviceVariable:
    """A variable (or attribute) that holds the device the script chose."""

    name: str
    scope: Scope | None  # None for an attribute
    text: str  # how the script spells it
    bindings: tuple[Binding, ...]
    statements: tuple[ast.stmt, ...]  # sibling statements that choose the device, first to last
    whole: bool  # the statements do nothing else
    is_string: bool
    cpu: Condition | None  # when it is the CPU, an accelerator being there; None: cannot be told
    indexed: ast.expr | None  # the expression that picks one accelerator of several


class DeviceVariables:
    """Finds the variables of one script."""

    def __init__(self, devices: Devices) -> None:
        self.devices = devices
        self.resolver = devices.resolver
        self.index = devices.index

    def found(self) -> list[DeviceVariable]:
        """Variables that hold the chosen device, in source order."""
        found: list[DeviceVariable] = []
        for scope in self.index.scopes.values():
            for name, bindings in scope.bindings.items():
                chosen = [b for b in bindings if not self._says_nothing(b)]
                if chosen and all(map(self.devices.chooses, chosen)) and self.devices.bind_devices(chosen, 0):
                    chosen = [b for b in chosen if not self._is_unread(b, chosen)]
                    later = [b for b in chosen if self._is_later(b, chosen)]
                    variable = self._variable(name, scope, name, [b for b in chosen if b not in later] or chosen)
                    if any(self._reads(b, chosen, True) for b in later):
                        variable = replace(variable, cpu=None)  # some read may be of either
                    if not variable.is_string or self._used_as_device(scope, name):
                        found.append(variable)
        for name, bindings in self.index.attribute_bindings.items():
            spellings: dict[str, list[Binding]] = {}
            for binding in bindings:
                spellings.setdefault(ast.dump(binding.node), []).append(binding)
            for same in spellings.values():
                if all(self.devices.chooses(b) and self.devices.is_device(b.value) for b in same):
                    found.append(self._variable(name, None, self.devices.segment(same[-1].node), same))
        if whereabouts.calls_cuda(self.resolver) or any(v.cpu != TRUE for v in found):
            found = [v for v in found if v.cpu != TRUE]
        return sorted(found, key=lambda v: position(v.statements[0]))

    def _says_nothing(self, binding: Binding) -> bool:
        """Whether a binding is none of a device: before one is chosen, or of a parameter that the command line sets."""
        devices = self.devices
        handed = devices.command_line.handed(binding) is not None or devices.conditions.hands_nothing(binding)
        return is_placeholder(binding) or handed

    def _is_unread(self, binding: Binding, chosen: list[Binding]) -> bool:
        """Whether a variable of a module is surely bound again before it is read: once the arguments are known, say."""
        first = self.index.statement(binding.node)
        if not binding.scope.is_module or not self._is_set(first, self.index.tree.body):
            return False
        others = (self.index.statement(b.node) for b in chosen if b is not binding)
        again = (other for other in others if position(other) > position(first))
        return any(self._comes_first(first, statement, binding) for statement in again)

    def _comes_first(self, first: ast.stmt, again: ast.stmt, binding: Binding) -> bool:
        """Whether a variable is read only after a statement of the module's own, or of what is only run as a script,
        as nothing between the first one and this one calls what the file defines."""
        body, around = self.index.tree.body, self.index.parents[again]
        block = around.body if isinstance(around, ast.If) and is_main(around) and around in body else body
        if not self._is_set(again, block):
            return False
        begin, end = body.index(first) + 1, body.index(again if block is body else around)  # type: ignore[arg-type]
        between = [*body[begin:end], *(block[: block.index(again)] if block is not body else [])]
        if any(self._runs_own(statement) for statement in between):
            return False
        reads = (n for s in self.index.scopes.values() for n in s.loads.get(binding.name, ()))
        own = [n for n in reads if self.index.scope(n).owner(n.id) is binding.scope and self.index.function(n) is None]
        return all(position(n) > position(again) and self._is_beside(n, again) for n in own)

    def _is_beside(self, read: ast.Name, statement: ast.stmt) -> bool:
        """Whether a read of the module's own is run where a statement has been, and is no part of that."""
        around, parents = [*self.index.ancestors(read)], self.index.parents
        return statement not in around and parents[statement] in around

    def _is_set(self, statement: ast.stmt, block: list[ast.stmt]) -> bool:
        """Whether a statement of a block does nothing but to set one variable."""
        return isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement in block

    def _runs_own(self, statement: ast.AST) -> bool:
        """Whether a statement may run code of the script that is kept in functions or classes."""
        if isinstance(statement, FUNCTIONS):
            defaults = (*statement.args.defaults, *filter(None, statement.args.kw_defaults))
            return any(map(self._runs_own, (*statement.decorator_list, *defaults)))
        if isinstance(statement, ast.ClassDef):
            return any(map(self._runs_own, (*statement.decorator_list, *statement.body)))
        return any(map(self._is_own, own_nodes(statement)))

    def _is_own(self, node: ast.AST) -> bool:
        """Whether a node names a function or class of the script, or calls one."""
        if isinstance(node, ast.Name):
            return any(b.how in (How.FUNCTION, How.CLASS) for b in self.resolver.bindings(node))
        return isinstance(node, ast.Call) and self.resolver.callee(node) is not None

    def _is_later(self, binding: Binding, chosen: list[Binding]) -> bool:
        """Whether a variable is set to the CPU once something has moved to another device: after the training, say."""
        if len(chosen) == 1 or self.devices.cpu(binding.value) != TRUE:
            return False
        statement = self.index.statement(binding.node)
        if not isinstance(statement, ast.Assign) or isinstance(self.index.parents.get(statement), ast.If):
            return False
        return any(position(n) < position(statement) and self._is_taken(n) for n in self._reads(binding, chosen, False))

    def _reads(self, binding: Binding, chosen: list[Binding], also: bool) -> list[ast.Name]:
        """The reads of a variable that a binding certainly does not reach; or those it reaches beside others."""
        scopes = (s for s in self.index.scopes.values() if s.owner(binding.name) is binding.scope)
        found = ((n, self.resolver.bindings(n)) for s in scopes for n in s.loads.get(binding.name, ()))
        reached = ((n, known) for n, known in found if any(b in chosen for b in known))
        return [n for n, known in reached if (binding in known and len(known) > 1 if also else binding not in known)]

    def _used_as_device(self, scope: Scope, name: str) -> bool:
        """Whether a string variable is handed to something that takes a device."""
        fields = self.index.attributes.get(name, []) if scope.is_class else []
        if any(map(self._is_taken, written.reads(self.resolver, scope.node, name) if fields else ())):
            return True
        for call in self.index.calls:
            arguments = [
                *call.args,
                *(k.value for k in call.keywords if k.arg in ("device", "map_location", "device_type")),
            ]
            takes = (isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "cuda")) or (
                self.resolver.qualified(call.func) == "torch.device"
            )
            for argument in arguments if takes else arguments[len(call.args) :]:
                if isinstance(argument, ast.Name) and argument.id == name:
                    if self.index.scope(argument).owner(name) is scope:
                        return True
                if argument in fields and isinstance(argument, ast.Attribute):
                    field = written.field(self.resolver, argument)
                    if field is not None and field in scope.bindings[name]:
                        return True
        for function in self.index.functions:  # handed on as a parameter
            for call in self.resolver.sites(function):
                given = self.resolver.bind(call, function) or {}
                for parameter, argument in given.items():
                    if isinstance(argument, ast.Name) and argument.id == name:
                        inner = self.index.scopes[function]
                        if self.index.scope(argument).owner(name) is scope and self._used_as_device(inner, parameter):
                            return True
        return False

    def _is_taken(self, node: ast.expr) -> bool:
        """Whether an expression is handed to what takes a device: `x.to(cfg.device)`, `torch.zeros(3, device=...)`."""
        parent = self.index.parents.get(node)
        if isinstance(parent, ast.keyword):
            return parent.arg in ("device", "map_location", "device_type")
        if not isinstance(parent, ast.Call) or node is parent.func:
            return False
        moves = isinstance(parent.func, ast.Attribute) and parent.func.attr in ("to", "cuda")
        return moves or self.resolver.qualified(parent.func) == "torch.device"

    def _variable(self, name: str, scope: Scope | None, text: str, bindings: list[Binding]) -> DeviceVariable:
        bindings = sorted(bindings, key=lambda b: position(b.node))
        statements, whole, cpu = self.devices.region(bindings)
        strings = not any(self._is_object(b) for b in bindings)
        indexed = next((i for b in bindings if (i := self.devices.numbers.indexed(b.value)) is not None), None)
        return DeviceVariable(name, scope, text, tuple(bindings), statements, whole, strings, cpu, indexed)

    def _is_object(self, binding: Binding) -> bool:
        """Whether a device is a torch.device (else a string)."""
        return any(v.role is Role.DEVICE for v in self.resolver.bound(binding))
