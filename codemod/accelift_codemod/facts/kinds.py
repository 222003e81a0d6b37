"""Whether an expression is a tensor, or a number or an array: what can be gathered, and what cannot."""

from __future__ import annotations

import ast
from enum import Enum

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.objects import Objects
from accelift_codemod.facts.values import Role, Values

_NUMBERS = frozenset("item tolist numpy size dim numel nelement element_size stride storage_offset get_device".split())
_OF_ANYTHING = frozenset({"item", "tolist", "numpy"})  # methods that give no tensor, whatever has them
_PARTS = frozenset("data T mT H grad real imag values indices".split())
_ABOUT = torch_ops.ABOUT | {"grad_fn"}
_FROM_NUMBERS = ("math.", "numpy.", "random.", "time.", "sklearn.", "scipy.", "statistics.")
_ASKING = frozenset("is_tensor numel get_num_threads initial_seed get_rng_state is_grad_enabled".split())
_MEMBERSHIP = (ast.In, ast.NotIn, ast.Is, ast.IsNot)
_MOST_STEPS = 12


class Kind(Enum):
    """What an expression is, where that is certain."""

    TENSOR = "a tensor"
    PLAIN = "a number, or an array of another library"


class Kinds:
    """Answers that for expressions."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.resolver = objects.resolver

    def of(self, node: ast.expr | None, steps: int = 0) -> Kind | None:
        """The kind of an expression; None if it is not known."""
        if node is None or steps > _MOST_STEPS:
            return None
        if isinstance(node, ast.Constant):
            return Kind.PLAIN
        values = self.resolver.values(node)
        if values and all(v.role is Role.BATCH for v in values):
            return Kind.TENSOR
        if isinstance(node, ast.Name):
            return self._variable(self.resolver.bindings(node), steps)
        if isinstance(node, ast.Call):
            return self._call(node, steps)
        if isinstance(node, ast.Attribute):
            if node.attr in ("shape", "ndim"):
                return Kind.PLAIN
            if node.attr in _PARTS:
                return self.of(node.value, steps + 1)
            if node.attr in _ABOUT:
                return None
            return self._entry(self._made_by(node.value), node.attr, steps)
        if isinstance(node, ast.Subscript):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            models = self._made_by(node.value) if isinstance(key, str) else ()
            return self._entry(models, key, steps) if models else self.of(node.value, steps + 1)
        if isinstance(node, ast.UnaryOp):
            return Kind.PLAIN if isinstance(node.op, ast.Not) else self.of(node.operand, steps + 1)
        if isinstance(node, ast.BinOp):
            return self._both([node.left, node.right], steps)
        if isinstance(node, ast.Compare):
            if any(isinstance(op, _MEMBERSHIP) for op in node.ops):
                return Kind.PLAIN
            return self._both([node.left, *node.comparators], steps)
        if isinstance(node, ast.IfExp):
            return self._one([self.of(node.body, steps + 1), self.of(node.orelse, steps + 1)])
        return None

    def _made_by(self, node: ast.expr) -> Values:
        """The networks whose output an expression is."""
        if isinstance(node, ast.Name):
            bindings = self.resolver.bindings(node)
            plain = len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path
            made = bindings[0].value if plain else None
            return self.objects.models(made.func) if isinstance(made, ast.Call) else ()
        return self.objects.models(node.func) if isinstance(node, ast.Call) else ()

    def _entry(self, models: Values, name: object, steps: int) -> Kind | None:
        """The kind of what networks return by a name: in a dict, or as torch's and others' do, tensors alone."""
        found: list[Kind | None] = []
        for model in models:
            forward = self.resolver.method(model.declaration, "forward")
            if not isinstance(forward, FUNCTIONS):
                found.append(None if isinstance(model.declaration, ast.ClassDef) else Kind.TENSOR)
                continue
            for returned in (end.value for end in self.resolver.returns(forward)):
                pairs = zip(returned.keys, returned.values, strict=True) if isinstance(returned, ast.Dict) else ()
                entry = next((v for k, v in pairs if isinstance(k, ast.Constant) and k.value == name), None)
                found.append(self.of(entry, steps + 1))
        return self._one(found)

    def _one(self, kinds: list[Kind | None]) -> Kind | None:
        return kinds[0] if kinds and all(k is kinds[0] for k in kinds) else None

    def _both(self, parts: list[ast.expr], steps: int) -> Kind | None:
        """The kind of an operation: a tensor and a number make a tensor."""
        kinds = {self.of(part, steps + 1) for part in parts}
        if None in kinds:
            return None
        return Kind.TENSOR if Kind.TENSOR in kinds else Kind.PLAIN

    def _variable(self, bindings: list[Binding], steps: int) -> Kind | None:
        """The kind of what a variable holds: what is added to a tensor leaves it one."""
        made = self._one([self._bound(b, steps) for b in bindings if b.how is not How.AUGMENT])
        added = {self.of(b.value, steps + 1) for b in bindings if b.how is How.AUGMENT}
        if made is None or None in added:
            return None
        return Kind.TENSOR if Kind.TENSOR in added else made

    def _bound(self, binding: Binding, steps: int) -> Kind | None:
        if binding.how is How.ASSIGN:
            return self._part(binding.value, binding.path, steps) if binding.value is not None else None
        if binding.how is How.PARAMETER:
            return self._one([self.of(argument, steps + 1) for argument in self.resolver.handed(binding)])
        return None

    def _part(self, node: ast.expr, path: tuple[int | None, ...], steps: int) -> Kind | None:
        """The kind of what stands at a place in an expression: of what torch's functions return, each part is alike."""
        if not path:
            return self.of(node, steps + 1)
        if isinstance(node, (ast.Tuple, ast.List)):
            place = path[0]
            return (
                self._part(node.elts[place], path[1:], steps) if place is not None and place < len(node.elts) else None
            )
        if not isinstance(node, ast.Call):
            return None
        models = self.objects.models(node.func)
        targets: list[ast.AST | None] = [self.resolver.method(m.declaration, "forward") for m in models]
        found: list[Kind | None] = []
        for target in targets or [self.resolver.callee(node)]:
            if isinstance(target, FUNCTIONS):
                returned = [s.value for s in self.resolver.returns(target)]
                found += [self._part(value, path, steps + 1) if value is not None else None for value in returned]
            else:
                found.append(None if models else self.of(node, steps + 1))  # a model may return anything
        return self._one(found)

    def _call(self, call: ast.Call, steps: int) -> Kind | None:
        func = call.func
        qualified = self.resolver.qualified(func) or ""
        if qualified.startswith("torch."):
            name = qualified.rpartition(".")[2]
            return Kind.PLAIN if name in _ASKING else Kind.TENSOR if name.islower() else None
        if qualified.startswith(_FROM_NUMBERS) or self.resolver.builtin(func) in ("float", "int", "len", "bool"):
            return Kind.PLAIN
        if self.objects.models(func) or self.resolver.only(func, Role.LOSS):
            return Kind.TENSOR
        target = self.resolver.callee(call)
        if isinstance(target, FUNCTIONS):
            return self._one([self.of(s.value, steps + 1) for s in self.resolver.returns(target)])
        if isinstance(func, ast.Attribute) and target is None:
            if func.attr in _OF_ANYTHING:
                return Kind.PLAIN
            receiver = self.of(func.value, steps + 1)
            return Kind.PLAIN if receiver is not None and func.attr in _NUMBERS else receiver
        return None
