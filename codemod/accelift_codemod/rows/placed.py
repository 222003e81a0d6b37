"""Rows that the training takes by their place in the batch, or that meet those in other places."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.batches import lengths, padding
from accelift_codemod.chance.noise import all_whole
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, How, Role, torch_ops
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import Function
from accelift_codemod.facts.kinds import Kind
from accelift_codemod.facts.layout import Layout, Shape
from accelift_codemod.facts.layout.algebra import FIXED, Environment, Frame
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import walk
from accelift_codemod.networks import methods, visits

_LOSSES = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
_LEAVES = frozenset({"item", "detach", "tolist", "numpy"})  # no gradients flow on from these, but the numbers do
_TURNS = {"roll": 1, "flip": 0}  # what puts rows into other places; where the dimensions stand after the tensor
# What cuts rows into pieces, and what takes some of them by their places; where the dimension stands after the tensor.
_CUTS = {"chunk": 1, "split": 1, "tensor_split": 1, "unbind": 0}
_TAKES = frozenset({"narrow", "select"})
_TENSORS = ("torch.tensor", "torch.as_tensor", "torch.LongTensor", "numpy.array")
_STEPS = 3  # from a parameter to what was computed
_PASSES = 40  # that are looked into
NUMBERS = frozenset({"arange", "linspace", "logspace"})


class Places:
    """Answers that for one training loop, the functions that it calls, and the forward passes of its networks."""

    def __init__(self, draft: Draft, loop: BatchLoop) -> None:
        self.draft = draft
        self.facts = draft.facts
        self.loop = loop
        # How the arguments of forward passes depend on the batch, and of which class they are: those of networks that
        # the loop runs, and of networks that are parts of them.
        self.passes: dict[Function, tuple[Environment, ast.ClassDef]] = dict(self._forward())
        for function in self.passes.copy():
            self._enter(function)

    def _forward(self) -> Iterator[tuple[Function, tuple[Environment, ast.ClassDef]]]:
        layouts = self.facts.layouts
        for call, cls, method in visits.runs(self.draft, self.loop):
            env = self.draft.environment(self.loop, call) if method.name == "forward" else None
            given = self.facts.resolver.bind(call, method) if env is not None else None
            if env is not None and given is not None:
                handed = {name: layouts.read(argument, env) for name, argument in given.items()}
                yield method, (layouts.modules.parameters(method, handed), cls)

    def _enter(self, function: Function) -> None:
        """Take up what a forward pass runs of the network's parts, and these of theirs."""
        network = self.passes[function][1]
        calls = (n for n in walk(function) if isinstance(n, ast.Call))
        runs = ((call, *run) for call in calls for run in methods.called(self.facts, network, call))
        for call, cls, method in runs:
            given = self.facts.resolver.bind(call, method) if method not in self.passes else None
            if given is not None and len(self.passes) < _PASSES:
                handed = {name: self.layout(call, argument) or Layout.UNKNOWN for name, argument in given.items()}
                self.passes[method] = (self.facts.layouts.modules.parameters(method, handed), cls)
                self._enter(method)

    def is_placed(self, node: ast.AST) -> bool:
        """Whether rows of a batch are taken by their place, or put into other places."""
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Store):
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            if isinstance(first, ast.Slice):
                return self._is_cut(node, first)
            if integer(first) is not None:
                return self._is_one(node)
            if self._are_written(first):
                return not all_whole(self.draft, self.loop) and self.layout(node, node.value) is Layout.ROWS
            if first is node.slice and "arange" in self.facts.index.attributes:
                return self.layout(node, node.value) is Layout.ROWS and self.layout(node, first) is Layout.PLACES
        if isinstance(node, ast.BinOp) and _counts_up(self.draft, node):
            # `x + 0.1 * torch.arange(len(x))`
            sides = {self.layout(node, side) for side in (node.left, node.right)}
            return sides == {Layout.ROWS, Layout.PLACES}
        func = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute):
            return False
        if func.attr in _TURNS:
            return self._is_along(node, func, _TURNS[func.attr], "dims")
        if self.is_piece(node):
            return self._is_along(node, func, _CUTS[func.attr], "dim")
        takes = func.attr in _TAKES and not any(self._is_each(a) for a in node.args)
        return takes and self._is_along(node, func, 0, "dim", told=True)

    def is_piece(self, node: ast.AST) -> bool:
        """Whether a call cuts a tensor into pieces, of which one is taken by its number, or each into its variable."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CUTS):
            return False
        taker = self.facts.index.parents.get(node)
        if isinstance(taker, ast.Subscript):
            return taker.value is node and integer(taker.slice) is not None
        return isinstance(taker, ast.Assign) and all(isinstance(t, (ast.Tuple, ast.List)) for t in taker.targets)

    def _is_along(self, call: ast.Call, func: ast.Attribute, place: int, name: str, told: bool = False) -> bool:
        """Whether a function works along the rows of a batch: if it is told so, or else as if it were."""
        function = self.facts.resolver.qualified(func) == f"torch.{func.attr}"
        tensor = self.facts.resolver.argument(call, 0, "input") if function else func.value
        along = self.facts.resolver.argument(call, place + function, name)
        first = not told if along is None else ast.unparse(along).strip("()[],") == "0"
        return first and self.layout(call, tensor) is Layout.ROWS

    def is_shift(self, node: ast.AST) -> bool:
        """Whether rows are taken but the first ones, or the last ones."""
        first = node.slice if isinstance(node, ast.Subscript) else None
        first = first.elts[0] if isinstance(first, ast.Tuple) and first.elts else first
        if not isinstance(first, ast.Slice) or first.step is not None:
            return False
        last = first.lower is None and isinstance(first.upper, ast.UnaryOp) and isinstance(first.upper.op, ast.USub)
        return last or (first.lower is not None and first.upper is None)

    def meet(self) -> bool:
        """Whether samples surely meet others in a loss: LOSS-INBATCH says so (see backward.py)."""
        calls = (c for c in self.facts.loops.backwards_in(self.loop.node) if isinstance(c.func, ast.Attribute))
        return any(self.layout(call, call.func.value) is Layout.MIXED for call in calls)  # type: ignore[attr-defined]

    def _is_cut(self, node: ast.Subscript, places: ast.Slice) -> bool:
        """Whether rows are taken from or up to a place that is the same for every batch."""
        bounds = [bound for bound in (places.lower, places.upper) if bound is not None]
        if places.upper is None and integer(places.lower) == 0:
            return False  # `[0:]` is all of them
        if not bounds or any(map(self._is_each, bounds)):
            return False
        return self.layout(node, node.value) is Layout.ROWS and all(
            isinstance(b, ast.Constant) or self.layout(node, b) in FIXED or self._is_part(b) for b in bounds
        )

    def _is_each(self, place: ast.expr) -> bool:
        """Whether a place is one of those of all samples in turn: `j` of `for j in range(len(out))`."""
        bindings = [b for n in loads(place) for b in self.facts.resolver.bindings(n)]
        gone_through = [b.value for b in bindings if b.how is How.LOOP]
        gone_through += [
            n for b in bindings if isinstance(b.scope.node, ast.Lambda) for n in self._mapped(b.scope.node)
        ]
        turns = [value for value in gone_through if isinstance(value, ast.Call)]
        return any(self.layout(place, a) in (Layout.COUNT, Layout.ROWS) for turn in turns for a in turn.args)

    def _mapped(self, function: ast.Lambda) -> list[ast.expr]:
        """What a function is run for that is handed to `map`."""
        call = self.facts.index.parents.get(function)
        maps = isinstance(call, ast.Call) and self.facts.resolver.builtin(call.func) == "map"
        return call.args[1:] if maps and isinstance(call, ast.Call) else []

    def _is_one(self, node: ast.Subscript) -> bool:
        """Whether one row is taken by its number, of a tensor that was worked out: a part of what a loader deals, or of
        what a network of a library returns, may be something else, or one of several."""
        if all_whole(self.draft, self.loop):
            return False  # it is the only one
        if self.facts.layouts.choosing.at_rank(node) is not None:
            return False  # no sample, but the number at some rank: see LOSS-INBATCH
        if lengths.is_greatest_of_sorted(self.facts.resolver, node) and padding.only_cuts(self.draft, node):
            return False  # the longest one, wherever it was: see BATCH-PADDED
        sources = self.sources(node.value)
        surely = all(isinstance(s, (ast.BinOp, ast.Call)) and self.facts.kinds.of(s) is Kind.TENSOR for s in sources)
        networks = [m for s in sources if isinstance(s, ast.Call) for m in self.facts.objects.models(s.func)]
        own = all(isinstance(m.declaration, ast.ClassDef) for m in networks)
        return surely and own and self.layout(node, node.value) is Layout.ROWS

    def sources(self, node: ast.expr, steps: int = _STEPS) -> list[ast.expr | None]:
        """What a variable is set to, or functions are given for it."""
        found: list[ast.expr | None] = []
        for binding in self.facts.resolver.bindings(node) if isinstance(node, ast.Name) else ():
            if binding.how is not How.PARAMETER or not steps:
                found.append(binding.value)
                continue
            for given in self.facts.resolver.handed(binding):
                found += [None] if given is None else self.sources(given, steps - 1)
        return found or [node]

    def _are_written(self, places: ast.expr) -> bool:
        """Whether places are spelled out: `out[[0, 1]]`, `out[torch.tensor([0])]`."""
        if isinstance(places, ast.Call) and self.facts.resolver.qualified(places.func) in _TENSORS and places.args:
            places = places.args[0]
        parts = places.elts if isinstance(places, ast.List) else []
        numbers = all(integer(part) is not None and not _is_truth(part) for part in parts)
        return bool(parts) and numbers

    def _is_part(self, place: ast.expr) -> bool:
        """Whether a place is worked out of the number of rows, such as their middle: `half = len(x) // 2`."""
        bindings = self.facts.resolver.bindings(place) if isinstance(place, ast.Name) else []
        if len(bindings) == 1 and bindings[0].value is not None and not bindings[0].path:
            place = bindings[0].value
        if isinstance(place, ast.Call) and self.facts.resolver.builtin(place.func) == "int" and len(place.args) == 1:
            place = place.args[0]
        parts = [place.left, place.right] if isinstance(place, ast.BinOp) else []
        names = [n for part in parts for n in loads(part)]
        if any(b.how is How.LOOP for n in names for b in self.facts.resolver.bindings(n)):
            return False  # one of several pieces, which may all be treated alike
        layouts = [self.layout(place, part) for part in parts]
        return Layout.COUNT in layouts and all(layout in (Layout.COUNT, *FIXED) for layout in layouts)

    def layout(self, node: ast.AST, part: ast.expr | None) -> Shape | None:
        """How a part of a node depends on the batch."""
        layouts, function = self.facts.layouts, self.draft.function(node)
        statement, frame = self.facts.index.statement(node), None
        if function is not None and function in self.passes:
            begun, cls = self.passes[function]
            frame = Frame(cls)
            env = layouts.before(statement, function.body, dict(begun), frame)
        else:
            env = self.draft.environment(self.loop, statement)
        return layouts.read(part, env, frame) if env is not None and part is not None else None

    def trains(self, node: ast.AST, followed: set[str] | None = None, flows: bool = True) -> bool:
        """Whether what is taken goes into a loss or a model, also through variables and functions; without gradients
        (`flows`), whether it gets into what a backward pass starts from."""
        followed = set() if followed is None else followed
        inside: ast.AST = node
        for parent in self.facts.index.ancestors(node):
            if flows and isinstance(node, ast.BinOp) and _adds_up(self.draft, self.loop, parent):
                return True
            if isinstance(parent, ast.Assign):
                names = {name for target in _targets(parent, inside) for name in stores(target)} - followed
                followed |= names
                function = self.draft.function(node)
                body = (
                    self.loop.body
                    if function is self.draft.function(self.loop.node) or function is None
                    else function.body
                )
                uses = (n for s in body for n in walk(s) if isinstance(n, ast.Name) and n.id in names)
                return any(isinstance(n.ctx, ast.Load) and self.trains(n, followed, flows) for n in uses)
            if isinstance(parent, ast.Return):
                return self._returns(parent, inside, followed, flows)
            if isinstance(parent, ast.stmt):
                return self.facts.loops.is_backward(getattr(parent, "value", parent))
            if isinstance(parent, ast.Attribute) and parent.attr in torch_ops.ABOUT:
                return False
            flows = flows and not (isinstance(parent, ast.Attribute) and parent.attr in _LEAVES)
            if flows and isinstance(parent, ast.Call) and not self.draft.gradients_off(parent):
                if is_loss(self.draft, parent.func) or self.draft.blueprint.prepared_models(parent.func):
                    return True
            inside = inside if isinstance(parent, (ast.Tuple, ast.List)) else parent
        return False

    def _returns(self, statement: ast.Return, part: ast.AST, followed: set[str], flows: bool) -> bool:
        """The same of what a function returns, or the part of it that has what is taken."""
        function = self.draft.function(statement)
        if function in self.passes and flows:
            return True
        if function is None or function is self.draft.function(self.loop.node) or f"{function.name}()" in followed:
            return False
        followed = {f"{function.name}()"}  # its callers have variables of their own
        value = statement.value
        place = value.elts.index(part) if isinstance(value, ast.Tuple) and part in value.elts else None
        for call in self.facts.resolver.sites(function):
            taker = self.facts.index.parents[call]
            target = taker.targets[0] if isinstance(taker, ast.Assign) else None
            if place is None or not isinstance(target, ast.Tuple) or len(target.elts) != len(value.elts):  # type: ignore[union-attr]
                if self.trains(call, followed, flows):
                    return True
                continue
            names = stores(target.elts[place])
            reads = (n for s in self.loop.body for n in walk(s) if isinstance(n, ast.Name) and n.id in names)
            if any(isinstance(n.ctx, ast.Load) and self.trains(n, followed | names, flows) for n in reads):
                return True
        return False


def _is_truth(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def is_loss(draft: Draft, func: ast.expr) -> bool:
    module, _, name = (draft.facts.resolver.library_function(func) or "").rpartition(".")
    known = module == "torch.nn.functional" and (name.endswith("_loss") or name in _LOSSES)
    return known or draft.facts.resolver.only(func, Role.LOSS)


def _targets(statement: ast.Assign, part: ast.AST) -> list[ast.expr]:
    """What a part of an assigned value is put into: that in its place, where several are assigned at once."""
    value = statement.value
    if not isinstance(value, ast.Tuple) or part not in value.elts:
        return statement.targets
    place = value.elts.index(part)
    same = [t for t in statement.targets if isinstance(t, ast.Tuple) and len(t.elts) == len(value.elts)]
    return [t.elts[place] for t in same] if len(same) == len(statement.targets) else statement.targets


def _adds_up(draft: Draft, loop: BatchLoop, node: ast.AST) -> bool:
    """Whether a statement binds what a backward pass of a loop starts from."""
    names = stores(node) if isinstance(node, ast.Assign) else set()
    calls = draft.facts.loops.backwards_in(loop.node) if names else ()
    return any(names & {n.id for n in loads(c.func.value)} for c in calls if isinstance(c.func, ast.Attribute))


def _counts_up(draft: Draft, node: ast.BinOp) -> bool:
    """Whether an operation has numbers in it that count up, perhaps by a variable."""
    if not NUMBERS & draft.facts.index.attributes.keys():
        return False
    bound = (b.value for n in (node.left, node.right) for name in loads(n) for b in draft.facts.resolver.bindings(name))
    parts = (n for value in (node, *bound) if value is not None for n in walk(value))
    return any(isinstance(n, ast.Attribute) and n.attr in NUMBERS for n in parts)
