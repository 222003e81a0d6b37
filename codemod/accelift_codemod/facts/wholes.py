"""Networks that are run as a part of another one, which keeps what its constructor is handed.

`diffusion = Diffusion(unet)`: an optimizer of `unet.parameters()` updates the diffusion's parameters, and its batches
go through `diffusion(x)`. What is trained is the diffusion then: the one whose forward pass leads to the loss.
"""

from __future__ import annotations

import ast
from functools import cached_property

from accelift_codemod.facts.contents import inside
from accelift_codemod.facts.gradients import off, off_within
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How
from accelift_codemod.facts.loops import Loops
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.timeline import Timeline
from accelift_codemod.facts.tree import unmoved, walk
from accelift_codemod.facts.values import Key, Role, Value, Values, key

_DEPTH = 4  # of networks in networks
# Methods of a network that do not run it, and what only looks at one.
_ASKS = frozenset(
    "parameters named_parameters buffers named_buffers modules named_modules children named_children train eval to "
    "cuda cpu state_dict load_state_dict zero_grad requires_grad_".split()
)
_LOOKS = frozenset({"len", "print", "repr", "str", "id", "type", "isinstance"})
_KEEPS = frozenset({"torch.save", "copy.deepcopy"})


class Wholes:
    """Tells of which network another one is trained as a part."""

    def __init__(self, resolver: Resolver, loops: Loops) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.loops = loops

    def of(self, models: Values) -> dict[Key, Value]:
        """Of networks that optimizers update: the network that each is trained as a part of, if all that are parts of
        that one are trained by it alone."""
        found = {key(m): whole for m in models if (whole := self._run_by(m)) is not None}
        kept = {key(m) for m in models} - found.keys()
        spoiled = {key(whole) for one in kept for whole in self._around(one)}
        return {one: whole for one, whole in found.items() if key(whole) not in spoiled}

    def _run_by(self, model: Value) -> Value | None:
        """The one network around another by which alone the training runs it."""
        around = self._around(key(model)) if model.role is Role.MODEL else {}
        if not around or self._is_prepared(key(model)):
            return None
        own = {m for v in around if isinstance(v.declaration, ast.ClassDef) for m in self._methods(v.declaration)}
        parts = [f for f in self._trained_by if f not in own]
        if any(self._runs(n) for part in parts for n in walk(part) if self._is(n, key(model))):
            return None
        calls = [n for part in parts for n in walk(part) if isinstance(n, ast.Call) and not off(self.resolver, n)]
        run = {key(v): v for call in calls for v in self._run_with(call) if v in around}
        return next(iter(run.values())) if len(run) == 1 else None

    def _is_prepared(self, one: Key) -> bool:
        """Whether a script hands a network to `prepare` itself, which wraps it."""
        given = (a for call in self.index.methods.get("prepare", ()) for a in call.args)
        return any(key(v) == one for a in given for v in self.resolver.values(a))

    # ---- what is a part of what

    @cached_property
    def _parts(self) -> dict[Key, dict[Value, None]]:
        """For each network: those of the script whose constructors are handed it, and keep it."""
        found: dict[Key, dict[Value, None]] = {}
        for call in self.index.calls:
            for value in self.resolver.values(call):
                cls = value.declaration
                if value.origin is not call or value.role is not Role.MODEL or not isinstance(cls, ast.ClassDef):
                    continue
                constructor = self.resolver.constructor(cls) if cls not in self.resolver.self_trained else None
                for name, given in ((self.resolver.bind(call, constructor) or {}) if constructor else {}).items():
                    values = self.resolver.values(given)
                    if len(values) == 1 and values[0].role is Role.MODEL and self._keeps(cls, constructor, name):
                        found.setdefault(key(values[0]), {}).setdefault(value)
        return found

    def _around(self, one: Key, depth: int = 0) -> dict[Value, None]:
        """The networks that another one is a part of."""
        found = dict(self._parts.get(one, {})) if depth < _DEPTH else {}
        for whole in list(found):
            found |= self._around(key(whole), depth + 1)
        return found

    def _keeps(self, cls: ast.ClassDef, constructor: Function | None, name: str) -> bool:
        """Whether an attribute of a network is what its constructor is handed, and nothing else ever."""
        kept = [b for b in self._bound_in.get(constructor, []) if self._is_handed(b, name) and not b.path]
        if len(kept) != 1 or self.index.enclosing_loops(kept[0].node):
            return False
        attribute = kept[0].node.attr  # type: ignore[attr-defined]
        return [b for c in self.resolver.ancestry(cls) for b in self.index.set_in(c, attribute)] == kept

    @cached_property
    def _bound_in(self) -> dict[Function | None, list[Binding]]:
        """The bindings of attributes, by the function that they are in."""
        found: dict[Function | None, list[Binding]] = {}
        for binding in (b for bound in self.index.attribute_bindings.values() for b in bound):
            found.setdefault(self.index.function(binding.node), []).append(binding)
        return found

    def _is_handed(self, binding: Binding, name: str) -> bool:
        """Whether an attribute is bound to a parameter that is bound to nothing else."""
        node = unmoved(binding.value)
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(binding.node, ast.Attribute):
            return False
        owner = self.index.scope(node).owner(name)
        return owner is not None and [b.how for b in owner.bindings[name]] == [How.PARAMETER]

    def _methods(self, cls: ast.ClassDef) -> list[Function]:
        return [s for c in self.resolver.ancestry(cls) for s in c.body if isinstance(s, FUNCTIONS)]

    # ---- what runs in training

    @cached_property
    def _trained_by(self) -> list[ast.AST]:
        """The bodies of loops that train, and the functions that these run."""
        timeline = Timeline(self.resolver)
        bodies = [s for loop in self.loops.batch_loops if loop.trains for s in loop.body]
        return [*bodies, *dict.fromkeys(f for s in bodies for f in timeline.calls_into(s))]

    def _run_with(self, call: ast.Call) -> Values:
        """The networks that a call runs with gradients, by themselves or by a method of their class."""
        func, found = call.func, [(v, "forward") for v in self.resolver.values(call.func)]
        if isinstance(func, ast.Attribute) and func.attr not in _ASKS:
            found += [(v, func.attr) for v in self.resolver.values(func.value)]
        return tuple(v for v, name in found if v.role is Role.MODEL and not self._is_off(v.declaration, name))

    def _is_off(self, cls: ast.AST | None, name: str) -> bool:
        """Whether a method of a class of the script switches gradients off."""
        method = self.resolver.method(cls, name)
        return method is not None and off_within(self.resolver, method.body[0])

    def _is(self, node: ast.AST, one: Key) -> bool:
        """Whether an expression may be a network, or a list or dict that has it."""
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return False
        return any(key(v) == one for v in inside(self.resolver.values(node)))

    def _runs(self, read: ast.AST) -> bool:
        """Whether a network may be run where it is read, or by what gets it there."""
        parent = self.index.parents[read]
        if isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Subscript) and parent.value is read):
            outer = self.index.parents[parent]
            called = isinstance(outer, ast.Call) and outer.func is parent
            asked = isinstance(parent, ast.Attribute) and parent.attr in _ASKS
            return not asked if called else self._runs(parent)
        if isinstance(parent, ast.keyword):
            parent = self.index.parents[parent]
        if isinstance(parent, ast.Call):
            if parent.func is read:
                return not off(self.resolver, read)
            known = self.resolver.builtin(parent.func) in _LOOKS or self.resolver.qualified(parent.func) in _KEEPS
            return not known and not isinstance(self.resolver.callee(parent), FUNCTIONS)
        return not isinstance(parent, (ast.Assign, ast.Expr))
