"""Whether a statement computes with the parameters of a model, or only looks at them and hands them on."""

from __future__ import annotations

import ast

from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import Index
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk

_PARTS = frozenset(
    "parameters named_parameters modules named_modules children named_children buffers named_buffers state_dict".split()
)
_PASSES_ON = frozenset("items values keys".split())
_ITERATES = frozenset("zip enumerate list tuple filter reversed sorted".split())
_LOOKS = frozenset(
    "print isinstance issubclass len str repr id type hasattr getattr bool int list tuple set sum iter next".split()
)
# Methods of modules and tensors (and of their names) that compute nothing on the device.
_QUIET = frozenset(
    "numel nelement size dim element_size requires_grad_ eval train zero_grad register_forward_hook register_hook to "
    "cuda cpu items keys values startswith endswith split load_state_dict".split()
)
_KEEPS = frozenset("append extend add update format".split())


class Touching:
    """Follows the parts of a model where a loop goes over them."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index: Index = resolver.index

    def computes(self, load: ast.Name) -> bool:
        """Whether parts of a model that is read here are computed with: `model.weight.data.mul_(2)`, or that in a loop
        over `model.modules()`."""
        node = self._whole(load)
        if isinstance(node, ast.Attribute) and node.attr in _PARTS:
            return self.iterated(node)
        return node is not load and self._touched(node)

    def iterated(self, node: ast.expr) -> bool:
        """Whether a loop goes over what an expression makes, and computes with that."""
        child: ast.AST = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, (ast.For, ast.AsyncFor)) and child is parent.iter:
                return self._any_touched(parent.body, parent.target)
            if isinstance(parent, ast.comprehension) and child is parent.iter:
                return self._any_touched([self.index.parents[parent]], parent.target)
            passed = isinstance(parent, ast.Attribute) and parent.attr in _PASSES_ON
            taken = isinstance(parent, ast.Call) and (
                parent.func is child or self.resolver.builtin(parent.func) in _ITERATES
            )
            if not (passed or taken or isinstance(parent, ast.Starred)):
                return False
            child = parent
        return False

    def _any_touched(self, roots: list[ast.stmt] | list[ast.AST], target: ast.expr) -> bool:
        """Whether something is computed with what a loop's variables are, or with what is set to parts of it."""
        names = {n.id for n in walk(target) if isinstance(n, ast.Name)}
        nodes = [n for root in roots for n in walk(root)]
        for statement in (n for n in nodes if isinstance(n, ast.Assign)):
            if isinstance(statement.value, (ast.Name, ast.Attribute)):
                if any(isinstance(n, ast.Name) and n.id in names for n in walk(statement.value)):
                    names |= stores(statement)
        reads = (n for n in nodes if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load))
        return any(self._touched(self._whole(read)) for read in reads)

    def _whole(self, node: ast.expr) -> ast.expr:
        """The attribute (of an attribute ...) of a variable that is read."""
        while isinstance(parent := self.index.parents.get(node), (ast.Attribute, ast.Subscript)) and (
            parent.value is node
        ):
            node = parent
        return node

    def _touched(self, node: ast.expr) -> bool:
        """Whether something is computed with a part of a model: by a method, a function, arithmetic."""
        parent = self.index.parents.get(node)
        if isinstance(parent, ast.Call):
            if parent.func is node:
                if not isinstance(node, ast.Attribute):
                    return True
                return node.attr not in _QUIET and not (node.attr in _PARTS and not self.iterated(node))
            kept = isinstance(parent.func, ast.Attribute) and parent.func.attr in _KEEPS
            return not kept and self.resolver.builtin(parent.func) not in _LOOKS
        if isinstance(parent, ast.AugAssign) and parent.target is node:
            return True
        if isinstance(parent, (ast.BinOp, ast.UnaryOp)):
            return self._of_data(node) and not (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not))
        return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)

    def _of_data(self, node: ast.expr) -> bool:
        """Whether what is read may be a tensor, and not one of the numbers that a module has."""
        numbers = (
            "shape",
            "ndim",
            "in_features",
            "out_features",
            "in_channels",
            "out_channels",
            "kernel_size",
            "groups",
        )
        return not any(isinstance(n, ast.Attribute) and n.attr in numbers for n in walk(node))
