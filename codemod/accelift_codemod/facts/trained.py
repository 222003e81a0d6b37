"""Which models are trained, and which may have nothing to train: Accelerate puts no wrapper around these on GPUs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.accelerate import AccelerateResolver
from accelift_codemod.facts.freezing import whole_of
from accelift_codemod.facts.objects import Optimizer
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Value

_WEIGHTLESS = (
    "Module Sequential Identity Dropout AlphaDropout FeatureAlphaDropout ReLU RReLU LeakyReLU GELU ELU SELU CELU GLU "
    "SiLU Mish Hard Soft Log Sigmoid Tanh Threshold Flatten Unflatten Fold Unfold MaxPool MaxUnpool AvgPool "
    "Adaptive LPPool FractionalMax Upsample Pixel Channel CosineSimilarity Pairwise ReflectionPad ReplicationPad "
    "ZeroPad ConstantPad CircularPad"
).split()
_COMPUTES = ("torch.", "numpy.", "math.", "scipy.", "librosa.")  # what these return is no network
_DEPTH = 4  # of networks that are made in networks


class Trained:
    """Reads whether a model surely has parameters that are trained, or may have none.

    `clips` are the calls that clip the gradients of the parameters which they get.
    """

    def __init__(self, resolver: AccelerateResolver, optimizers: list[Optimizer], clips: set[ast.Call]) -> None:
        self.resolver = resolver
        self.optimizers = optimizers
        self.users = {*clips, *(optimizer.call for optimizer in optimizers)}
        self._frozen = list(self._switched_off())

    def surely(self, model: Value) -> bool:
        """Whether an optimizer gets the parameters of what is prepared, or their gradients are clipped."""
        original = self.resolver.original(model)
        made = original.origin, original.sites
        if any((v.origin, v.sites) == made for o in self.optimizers for v in map(self.resolver.original, o.models)):
            return True
        for call in self.resolver.index.methods.get("parameters", []):
            assert isinstance(call.func, ast.Attribute)
            whole = [n for n in walk(call.func.value) if isinstance(n, (ast.Name, ast.Attribute))]  # and its parts
            asked = [self.resolver.original(v) for n in whole for v in self.resolver.values(n)]
            parameters = {b.node for n in whole if isinstance(n, ast.Name) for b in self.resolver.bindings(n)}
            if any((v.origin, v.sites) == made for v in asked) or original.origin in parameters:
                if any(c in self.users for c in self.resolver.index.ancestors(call)):
                    return True
        return False

    def perhaps_not(self, model: Value) -> bool:
        """Whether a model may be frozen, or have no parameters at all."""
        if self.surely(model):
            return False
        original = self.resolver.original(model)
        classes = self.resolver.ancestry(original.declaration)
        return (
            any((v.origin, v.role) == (original.origin, original.role) for v in self._frozen)
            or any(self._freezes_itself(cls) for cls in classes)
            or (bool(classes) and not self._has_weights(original.declaration, _DEPTH))
        )

    def _switched_off(self) -> Iterator[Value]:
        """The models whose parameters may all be frozen somewhere: by a call, or one after the other in a loop."""
        index = self.resolver.index
        for call in index.methods.get("requires_grad_", []):
            if isinstance(call.func, ast.Attribute) and not _trains(call.args[0] if call.args else None):
                yield from self._models(call.func)
        for attribute in index.attributes.get("requires_grad", []):
            statement = index.parents.get(attribute)
            if isinstance(statement, ast.Assign) and attribute in statement.targets and not _trains(statement.value):
                yield from self._models(attribute)

    def _models(self, attribute: ast.Attribute) -> Iterator[Value]:
        """The models that a switch is about: what it is called of, or whose parameters a loop passes over."""
        for node in (attribute.value, whole_of(self.resolver, attribute)):
            if node is not None:
                yield from map(self.resolver.original, self.resolver.values(node))

    def _freezes_itself(self, cls: ast.ClassDef) -> bool:
        """Whether a method of a network freezes all of it."""
        for node in walk(cls):
            if isinstance(node, ast.Attribute) and node.attr in ("requires_grad", "requires_grad_"):
                for whole in (node.value, whole_of(self.resolver, node)):
                    if isinstance(whole, ast.Name) and whole.id == "self":
                        return True
        return False

    def _has_weights(self, declaration: ast.AST | None, depth: int) -> bool:
        """Whether a class of the script may make parameters, itself or in networks that it makes."""
        resolver = self.resolver
        classes = resolver.ancestry(declaration)
        runs = resolver.method(declaration, "forward") is not None
        for cls in classes:
            if any(self._is_strange(base, classes) for base in cls.bases):
                return True
            for call in (n for n in walk(cls) if isinstance(n, ast.Call)):
                inner = resolver.callee(call)
                if isinstance(inner, ast.ClassDef):
                    if inner not in classes and (not depth or self._has_weights(inner, depth - 1)):
                        return True
                elif self._makes_weights(call, runs):
                    return True
        return False

    def _is_strange(self, base: ast.expr, classes: list[ast.ClassDef]) -> bool:
        """Whether a base class is neither one of the script nor `nn.Module`."""
        name = self.resolver.qualified(base)
        if name is not None:
            return name not in ("torch.nn.Module", "torch.nn.modules.module.Module")
        return not any(v.declaration in classes for v in self.resolver.values(base))

    def _makes_weights(self, call: ast.Call, runs: bool) -> bool:
        """Whether a call may make parameters; what is not known, only for a network, which `runs`: other modules may
        keep an optimizer and what goes with it."""
        module, _, name = (self.resolver.qualified(call.func) or "").rpartition(".")
        if module.startswith("torch.nn") and name[:1].isupper():
            return not name.startswith(tuple(_WEIGHTLESS)) and not name.endswith("Loss")
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("register_parameter", "from_pretrained"):
            return True
        parent = self.resolver.index.parents.get(call)
        kept = isinstance(parent, ast.Assign) and any(isinstance(t, ast.Attribute) for t in parent.targets)
        computes = f"{module}.".startswith(_COMPUTES)
        loads = name.startswith("load")
        return kept and (loads or (runs and not computes)) and self.resolver.builtin(call.func) is None


def _trains(value: ast.expr | None) -> bool:
    """Whether what `requires_grad` is set to surely trains a parameter."""
    return value is None or (isinstance(value, ast.Constant) and bool(value.value))
