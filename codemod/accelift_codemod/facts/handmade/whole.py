"""Training loops that compute on the whole data in each step: whether the rows of these can be shared out."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING

from accelift_codemod.facts import library, torch_ops
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.gradients import off
from accelift_codemod.facts.handmade.rowcounts import Count, RowCounts
from accelift_codemod.facts.handmade.steps import NotProved
from accelift_codemod.facts.handmade.targets import Targets
from accelift_codemod.facts.index import FUNCTIONS, Binding, How, position
from accelift_codemod.facts.layout.dimensions import is_shape
from accelift_codemod.facts.layout.plain import is_plain_number
from accelift_codemod.facts.timeline import Timeline
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.uses import is_called
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts import Facts

# Losses that fail, whatever the shapes, if outputs and targets do not have as many rows.
_STRICT = frozenset("cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits".split())
_STRICT_LAYERS = frozenset({"CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss"})
# Layers that take the last dimension for the features of a sample, and what makes rows of features of numbers.
_FEATURES = frozenset({"Linear", "LazyLinear", "Bilinear", "LayerNorm"})
_SHAPES = frozenset({"unsqueeze", "view", "reshape", "Embedding", "EmbeddingBag", "one_hot", "stack"})
_SAME = frozenset("squeeze view reshape flatten detach cpu float double to".split())  # methods that return a tensor
_DATA = {Role.OBJECT, Role.TUPLE, Role.SEQUENCE}
_MOST_STEPS = 4


class Whole:
    """The variables that one loop trains on, all of each in every step.

    They have as many rows as what the network is called on: by how they are made, or because the loss fails otherwise.
    """

    def __init__(self, facts: Facts, loop: ast.For) -> None:
        self.facts = facts
        self.index = facts.index
        self.resolver = facts.resolver
        self.loop = loop
        self.counts = RowCounts(facts)
        self.changing = {n for statement in loop.body for n in stores(statement)} | stores(loop.target)
        self.expressions = self._leading()  # what the losses are computed from, one by way of the other

    def reads(self) -> dict[str, list[ast.Name]]:
        """By variable, the reads in the loop of what has a row for each sample.

        Raises:
            NotProved: if that cannot be told.
        """
        inputs = self._given(self.forwards)
        if not inputs:
            raise NotProved(self.loop, "")
        count = self.counts.of(inputs[0]) or ("made by", self._bound(inputs[0]))
        if count == ("number", 1):
            raise NotProved(inputs[0], f"and `{inputs[0].id}` has one row")
        self._apart_from_features()
        names = self._alike(count, inputs)
        self._safe(names)
        return names

    def _apart_from_features(self) -> None:
        """A layer of weights takes what has one dimension for one sample, whose numbers are no rows."""
        for call in self.forwards:
            extent = self.facts.extents.of(call.args[0] if call.args else None)
            if extent is not None and extent.flat and self._takes_features(call):
                shown = self.facts.short(call.args[0])
                raise NotProved(call, f"and `{shown}` has one dimension, so it is one sample for the network")

    def _takes_features(self, call: ast.Call) -> bool:
        """Whether a network has such layers, and neither looks up rows nor makes other shapes."""
        waiting: list[ast.AST] = [v.declaration or v.origin for v in self.facts.objects.trained_models(call.func)]
        made: set[str] = set()
        seen: list[ast.AST] = []
        while waiting:
            seen.append(waiting.pop())
            for part in (n for n in walk(seen[-1]) if isinstance(n, ast.Call)):
                made.add((self.resolver.qualified(part.func) or "").rpartition(".")[2])
                made.add(part.func.attr if isinstance(part.func, ast.Attribute) else "")
                inner = (v.declaration for v in self.resolver.values(part) if v.role is Role.MODEL)
                waiting += (cls for cls in inner if cls is not None and cls not in (*seen, *waiting))
        return bool(made & _FEATURES) and not made & _SHAPES

    def _leading(self) -> list[ast.expr]:
        found: list[ast.expr] = []
        waiting: list[ast.expr] = []
        for call in self.facts.loops.backwards_in(self.loop, innermost=True):
            waiting += [call.func.value] if isinstance(call.func, ast.Attribute) else []
        while waiting:
            node = waiting.pop()
            found.append(node)
            for name in (n for n in loads(node) if n.id in self.changing):
                waiting += (value for value in self.made(name) if value not in (*found, *waiting))
        return found

    def made(self, name: ast.Name) -> list[ast.expr]:
        """What the loop binds a variable to."""
        owner = self.index.scope(name).owner(name.id)
        bindings = owner.bindings[name.id] if owner is not None else ()
        return [b.value for b in bindings if b.value is not None and self.loop in self.index.ancestors(b.node)]

    @cached_property
    def _calls(self) -> list[ast.Call]:
        return [n for expression in self.expressions for n in walk(expression) if isinstance(n, ast.Call)]

    @cached_property
    def forwards(self) -> list[ast.Call]:
        return [c for c in self._calls if self.facts.objects.trained_models(c.func) and not self._loss(c)]

    def _given(self, calls: list[ast.Call]) -> list[ast.Name]:
        """The variables that the arguments of calls are made from, and that stay what they are in the loop."""
        arguments = [argument for c in calls for argument in (*c.args, *(k.value for k in c.keywords))]
        return [n for argument in arguments for n in self._origins(argument, 0)]

    def _origins(self, node: ast.AST, steps: int) -> list[ast.Name]:
        found = self.variables(node)
        for name in (n for n in loads(node) if n.id in self.changing and steps < _MOST_STEPS):
            for binding in self.resolver.bindings(name):
                made = binding.value if self.loop in self.index.ancestors(binding.node) else None
                found += self._origins(made, steps + 1) if made is not None else []
        return found

    def variables(self, node: ast.AST) -> list[ast.Name]:
        return [n for n in loads(node) if n.id not in self.changing and not is_called(self.index, n) and self._data(n)]

    def _data(self, name: ast.Name) -> bool:
        """Whether a variable may be data: no module of a library, no network, no number, no device, no options."""
        bindings = self.resolver.bindings(name)
        plain = self.resolver.roles(name) <= _DATA
        return plain and bool(bindings) and not any(b.qualified or self._is_number(b) for b in bindings)

    def _bound(self, name: ast.Name) -> ast.AST:
        return next((b.node for b in self.resolver.bindings(name)), name)

    def _alike(self, count: Count, inputs: list[ast.Name]) -> dict[str, list[ast.Name]]:
        """The variables that the losses are computed from, all with so many rows, and where the loop reads them."""
        strict = {n.id for n in self._strict()} | Targets(self).names(count)
        names = {inputs[0].id}
        for name in (n for expression in self.expressions for n in self.variables(expression)):
            if name.id not in names | strict and self.counts.of(name) != count:
                outer = self.index.parents.get(name)
                shown = self.facts.short(outer if isinstance(outer, ast.Attribute) else name)
                raise NotProved(name, f"and it cannot be proved that `{shown}` has a row for each of `{inputs[0].id}`")
            names.add(name.id)
        found: dict[str, list[ast.Name]] = {}
        for name in (n for statement in self.loop.body for n in loads(statement) if n.id in names):
            if not any(isinstance(outer, ast.JoinedStr) for outer in self.index.ancestors(name)):
                found.setdefault(name.id, []).append(name)
        return found

    def _strict(self) -> list[ast.Name]:
        """The targets of losses that fail if these do not have a row for each output."""
        found = []
        for call in (call for call in self._calls if len(call.args) > 1):
            module, _, name = (self.resolver.qualified(call.func) or "").rpartition(".")
            layers = {v.name.rpartition(".")[2] for v in self.resolver.values(call.func)}
            if (module == "torch.nn.functional" and name in _STRICT) or (layers and layers <= _STRICT_LAYERS):
                found += self._origins(call.args[1], 0)
        return found

    def _loss(self, call: ast.Call) -> bool:
        module, _, name = (self.resolver.qualified(call.func) or "").rpartition(".")
        functional = module == "torch.nn.functional" and name in torch_ops.FUNCTIONAL_LOSSES
        return functional or Role.LOSS in self.resolver.roles(call.func)

    def _safe(self, names: dict[str, list[ast.Name]]) -> None:
        """Refuse what else may happen to the data while the loop runs."""
        for call in self.index.calls:
            qualified = self.resolver.qualified(call.func) or ""
            if library.matches(qualified, library.ENVIRONMENTS):
                raise NotProved(call, "and a simulated environment is run")
        for call in self._calls:
            function = self.resolver.callee(call)
            inside = [n for n in walk(function) if isinstance(n, ast.Name)] if isinstance(function, FUNCTIONS) else []
            for n in (n for n in inside if isinstance(n.ctx, ast.Load) and not is_called(self.index, n)):
                owner = self.index.scope(n).owner(n.id)
                if owner is not None and owner.node is not function and self._data(n):
                    raise NotProved(n, f"and a function that it calls reads `{n.id}`")
        if any(True for _ in self.facts.objects_of(Role.LOADER)):
            raise NotProved(self.loop, "and a DataLoader deals batches beside it")
        for name, reads in names.items():
            owner = self.index.scope(reads[0]).owner(name)
            for binding in owner.bindings[name] if owner is not None else ():
                if self._meanwhile(binding):
                    raise NotProved(binding.node, f"and `{name}` is bound in another function")
            for read in reads:
                self._unchanged(read)

    def apart(self, data: Collection[str]) -> frozenset[ast.AST]:
        """What computes on all of the data without gradients, and on nothing else that comes of a share: a plot of all
        predictions in some iterations. It goes on to do so."""
        regions = [n for statement in self.loop.body for n in walk(statement) if isinstance(n, ast.With)]
        regions = [n for n in regions if not off(self.resolver, n) and off(self.resolver, n.body[0])]
        inside = {part for region in regions for part in walk(region)}
        parts = (n for s in self.loop.body for n in walk(s) if n not in inside)
        plain = [n for n in parts if isinstance(n, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr))]
        shared = set(data)
        for statement in (*plain, *plain):  # what one iteration leaves, the next one reads
            if shared & {n.id for n in loads(statement)}:
                shared |= stores(statement) | self._filled(statement)
        own = shared - set(data)
        if any(stores(part) & shared or own & {n.id for n in loads(part)} for part in regions):
            return frozenset()
        return frozenset(inside)

    def can_be_gathered(self, name: str) -> bool:
        """Whether a variable that every iteration binds, and nothing else, is a tensor that a network returned."""
        owner = self.index.scope(self.loop).owner(name)
        for binding in owner.bindings[name] if owner is not None else ():
            statement = self.index.statement(binding.node)
            if position(statement) > position(self.loop) and self.loop not in self.index.ancestors(statement):
                continue  # after the loop
            if statement not in self.loop.body or not isinstance(statement, ast.Assign):
                return False
            if binding.path or not self._tensor(binding.value) or self.loop.orelse:
                return False
        return not any(isinstance(n, (ast.Break, ast.Continue)) for s in self.loop.body for n in walk(s))

    def _tensor(self, node: ast.expr | None) -> bool:
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
            node = node.func.value
        return isinstance(node, ast.Call) and node in self.forwards

    def _filled(self, statement: ast.stmt) -> set[str]:
        """The variable whose method a statement calls, which may keep what it is given: `losses.append(...)`."""
        call = statement.value if isinstance(statement, ast.Expr) else None
        method = call.func if isinstance(call, ast.Call) else None
        of = method.value if isinstance(method, ast.Attribute) else None
        return {of.id} if isinstance(of, ast.Name) and not self.facts.objects.models(of) else set()

    def _meanwhile(self, binding: Binding) -> bool:
        """Whether a function may bind a variable anew while the loop runs."""
        home = self.index.function(self.loop)
        function = binding.scope.node if binding.how is How.PARAMETER else self.index.function(binding.node)
        if function is home or (home is not None and self.facts.references(home)):
            return function is not home  # what the loop itself binds is seen by the interpreter
        if not isinstance(function, FUNCTIONS):
            return False
        if self.facts.references(function) or not self.resolver.sites(function):
            return True
        places = Timeline(self.resolver).places(binding.node, home)
        return any(self.loop in self.index.ancestors(place) for place in places)

    def sequence(self) -> NotProved | None:
        """The reason if a layer is made that would take rows for the steps of one sequence."""
        for call in self.index.calls:
            qualified = self.resolver.qualified(call.func) or ""
            if qualified.startswith("torch.nn.") and qualified.rpartition(".")[2] in torch_ops.SEQUENTIAL:
                shown = self.facts.short(call.func)
                return NotProved(call, f"and `{shown}` would take data of two dimensions for one sequence")
        return None

    def _unchanged(self, read: ast.Name) -> None:
        if self.index.function(read) is not self.index.function(self.loop):
            raise NotProved(read, f"and `{read.id}` is read in another function")
        parent = self.index.parents.get(read)
        in_place = isinstance(parent, ast.Attribute) and (parent.attr.endswith("_") or parent.attr == "grad")
        stored = isinstance(parent, (ast.Subscript, ast.Attribute)) and not isinstance(parent.ctx, ast.Load)
        if in_place or stored:
            raise NotProved(read, f"and the loop changes `{read.id}`")

    def _is_number(self, binding: Binding) -> bool:
        value = binding.value
        for place in binding.path:
            if isinstance(value, (ast.Tuple, ast.List)):
                value = value.elts[place] if place is not None and place < len(value.elts) else None
            else:
                return is_shape(value)
        sized = isinstance(value, ast.Subscript) and is_shape(value.value)
        counted = isinstance(value, ast.Call) and self.resolver.builtin(value.func) == "len"
        return isinstance(value, ast.Constant) or sized or counted or is_plain_number(self.resolver, value)
