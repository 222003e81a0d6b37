"""What an expression is computed from, through variables, parameters and functions of the script."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.accelerate import AccelerateResolver, is_state
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How
from accelift_codemod.facts.scopes import Scope
from accelift_codemod.facts.tree import children
from accelift_codemod.facts.values import Role, Value

_MAX_NODES = 4000
# What is the same of every process's part of a batch, or says nothing of its samples.
_SHAPES = torch_ops.ABOUT | {"dataset", "keys"}
# Libraries whose functions compute from their arguments alone, on one process.
_PLAIN = frozenset(
    "torch numpy math sklearn statistics copy tqdm itertools scipy random torchvision torchaudio einops librosa "
    "soundfile cv2 PIL pandas skimage argparse".split()
)


@dataclass(frozen=True)
class Local:
    """Why a value differs from process to process: the node where it comes from, and what that is."""

    node: ast.AST
    text: str


class Flow:
    """Follows expressions backwards."""

    def __init__(self, resolver: AccelerateResolver, collective: Callable[[ast.Call], str]) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.collective = collective
        self._local: dict[ast.AST, Local | None] = {}

    def sources(self, node: ast.AST, stop: Callable[[ast.AST], bool] | None = None) -> Iterator[ast.AST]:
        """The nodes that the value of an expression comes from, itself first; parts of what `stop` accepts left out."""
        queue, seen = [node], {node}
        while queue and len(seen) < _MAX_NODES:
            current = queue.pop(0)
            yield current
            if stop is not None and stop(current):
                continue
            for following in self._behind(current):
                if following not in seen:
                    seen.add(following)
                    queue.append(following)

    def _behind(self, node: ast.AST) -> Iterator[ast.AST]:
        if isinstance(node, ast.Name):
            for binding in self.resolver.bindings(node):
                yield from self._bound(binding)
            owner = self.index.scope(node).owner(node.id)
            for binding in owner.bindings[node.id] if owner else ():
                if binding.how is How.AUGMENT and binding.value is not None:
                    yield binding.value
            return
        if isinstance(node, ast.Call):
            for function in self._run_by(node):
                yield from (r.value for r in self.resolver.returns(function) if r.value is not None)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and not isinstance(node.ctx, ast.Store):
            for binding in self.index.attribute_bindings.get(node.attr, []):
                target = binding.node
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    if target.value.id == node.value.id and binding.value is not None:
                        yield binding.value
        if not isinstance(node, (ast.Lambda, *FUNCTIONS, ast.ClassDef)):
            yield from children(node)

    def _run_by(self, call: ast.Call) -> list[Function]:
        """The functions of the script of which a call runs one: that of its name, or those that a variable holds."""
        target = self.resolver.callee(call)
        if target is not None:
            return [target] if isinstance(target, FUNCTIONS) else []
        values = self.resolver.values(call.func) if isinstance(call.func, ast.Name) else ()
        return [v.declaration for v in values if v.role is Role.FUNCTION and isinstance(v.declaration, FUNCTIONS)]

    def _bound(self, binding: Binding) -> Iterator[ast.AST]:
        if binding.how is How.LOOP and binding.path[:1] == (0,) and self._numbers(binding.value):
            return  # a counter, which is the same on all processes
        if binding.value is not None:
            yield binding.value
        elif binding.how is How.PARAMETER:
            yield from filter(None, self.resolver.handed(binding))

    def _numbers(self, node: ast.AST | None) -> bool:
        return isinstance(node, ast.Call) and self.resolver.builtin(node.func) == "enumerate"

    # ---- what differs from process to process

    def from_batch(self, node: ast.AST) -> Value | None:
        """The prepared loader from whose batches an expression certainly takes its value itself."""
        for value in self.resolver.values(node):
            if value.role in (Role.BATCH, Role.DATA):
                for loader in (v for inner in value.inner for v in inner):
                    if loader.role is Role.LOADER and self.resolver.is_prepared(loader):
                        return loader
        return None

    def local(self, node: ast.AST) -> Local | None:
        """Why an expression differs from process to process; None if it does not, or that is not certain."""
        if node not in self._local:
            self._local[node] = self._find_local(node)
        return self._local[node]

    def _find_local(self, node: ast.AST) -> Local | None:
        found: Local | None = None
        for part in self.sources(node, self.opaque):
            if isinstance(part, ast.Call) and not self.opaque(part) and (self.collective(part) or self.unknown(part)):
                return None
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and self.joined_in_place(part):
                return None
            if found is None and isinstance(part, (ast.Name, ast.Call)) and not self.opaque(part):
                loader = self.from_batch(part)
                if loader is not None:
                    text = f"`{ast.unparse(part)}` comes from this process's part of the data"
                    found = Local(part, text.split("\n")[0])
        return found

    def opaque(self, node: ast.AST) -> bool:
        """Whether what an expression is computed from says nothing of its value."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1:  # `batch is None`, `"labels" in batch`
            left, right = node.left, node.comparators[0]
            if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
                return isinstance(right, ast.Constant)
            return isinstance(node.ops[0], (ast.In, ast.NotIn)) and isinstance(left, ast.Constant)
        if isinstance(node, ast.Attribute):
            return node.attr in _SHAPES
        if isinstance(node, ast.Name):
            return self.names_prepared(node)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES:
                return True
            if self.resolver.builtin(node.func) in ("len", "isinstance", "range", "type", "hasattr"):
                return True
            return self.resolver.only(node, Role.MODEL)  # `accelerator.unwrap_model(model)`
        return False

    def names_prepared(self, node: ast.AST) -> bool:
        """Whether a variable certainly is an object that `prepare` returned (and no batch of one)."""
        values = self.resolver.values(node) if isinstance(node, ast.Name) else ()
        return bool(values) and all(self.resolver.is_prepared(v) and v.role is not Role.BATCH for v in values)

    def unknown(self, call: ast.Call) -> bool:
        """Whether a call may do anything: talk to other processes, for instance."""
        func = call.func
        qualified = self.resolver.qualified(func)
        if qualified is not None:
            root = qualified.partition(".")[0]
            if root in _PLAIN:
                return qualified.startswith("torch.distributed")
            made = self.resolver.values(call)
            return not made or not all(v.role is Role.MODEL or is_state(v) for v in made)  # making these does not
        if self.resolver.builtin(func) is not None:
            return False
        known = self.resolver.callee(call) is not None
        if isinstance(func, ast.Attribute):
            return False  # a method of something: of a tensor, mostly
        values = self.resolver.values(func)
        if known:  # as far as it is a function of the script
            return any(v.role is Role.LIBRARY and not self._computes(v) for v in values)
        if any(v.role in (Role.MODEL, Role.LOSS) or self.resolver.is_prepared(v) for v in values):
            return False
        return not values or not all(map(self._computes, values))

    def _computes(self, function: Value) -> bool:
        """Whether what a variable holds is a function of the script, or of a library that computes on one process."""
        if function.role is Role.LIBRARY:
            root = function.name.partition(".")[0]
            return root in _PLAIN and not function.name.startswith("torch.distributed")
        return function.role is Role.FUNCTION and isinstance(function.declaration, FUNCTIONS)

    def joined_in_place(self, name: ast.Name) -> bool:
        """Whether a variable is handed to something that may make it equal on all processes in place."""
        owner = self.index.scope(name).owner(name.id)
        return owner is not None and (owner, name.id) in self._given_to_all

    @cached_property
    def _given_to_all(self) -> set[tuple[Scope, str]]:
        """The variables that functions of torch.distributed are given, by the scope that they belong to."""
        found = set()
        for call in self.index.calls:
            if not (self.resolver.qualified(call.func) or "").startswith("torch.distributed."):
                continue
            for given in (*call.args, *(k.value for k in call.keywords)):
                for part in given.elts if isinstance(given, (ast.List, ast.Tuple)) else (given,):
                    owner = self.index.scope(part).owner(part.id) if isinstance(part, ast.Name) else None
                    if isinstance(part, ast.Name) and owner is not None:
                        found.add((owner, part.id))
        return found
