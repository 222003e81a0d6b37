"""What makes the rows of a batch as long as the longest of them, which on several processes is that of a share."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from accelift_codemod.batches import lengths, pooling
from accelift_codemod.batches.compared import compared
from accelift_codemod.facts import BatchLoop, Facts, Function, Role, torch_ops
from accelift_codemod.facts.effects import assignments, loads, stores
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.memo import kept, memoised
from accelift_codemod.facts.tree import children, is_constant, leaves, walk
from accelift_codemod.networks import methods

if TYPE_CHECKING:
    from accelift_codemod.blueprint import Blueprint

PAD_SEQUENCE = "torch.nn.utils.rnn.pad_sequence"
_OF_BATCHES = {Role.BATCH, Role.DATA}
_COUNTS = frozenset({"size", "shape"})
_FLATTENS = ("view", "reshape", "flatten", "ravel")


class ShareLengths:
    """Answers which tensors of a loop over batches may have rows as long as the longest sample of a share: they have
    another form on every process, and cannot be gathered, nor is their mean that of equally many numbers."""

    def __init__(self, blueprint: Blueprint, loop: BatchLoop) -> None:
        self.blueprint = blueprint
        self.facts = blueprint.facts
        self.loop = loop
        self._asked: set[Function] = set()
        self._even: set[ast.AST] = set()  # expressions that are compared with others of the same form everywhere

    @cached_property
    def maker(self) -> ast.expr | None:
        """Where the loop makes rows as long as the longest, in the functions and networks that it runs, too."""
        return next((n for n in _run(self.blueprint, self.loop) if lengthens(self.facts, n)), None)

    @property
    def pooled(self) -> ast.expr | None:
        """Where places of such rows are pooled."""
        return pooled(self.blueprint, self.loop)

    def has(self, node: ast.expr) -> bool:
        """Whether an expression in the loop may be such a tensor, or a number computed from one."""
        if self.maker is None:
            return False
        if isinstance(node, ast.Name):
            return node.id in self._names and node not in self._even and not self._is_told(node)
        return self._has(node, self._names)

    @cached_property
    def _names(self) -> frozenset[str]:
        """The variables of the loop that may hold one. What is compared with a tensor that is none has its form."""
        nodes = [n for s in self.loop.body for n in walk(s)]
        pairs = [(pair, _of_one_form(self.facts, n)) for n in nodes if (pair := compared(self.facts, n)) is not None]
        known: frozenset[str] = frozenset()
        while True:
            names = self._holding(self.loop.body, known)
            met = [
                side
                for pair, strict in pairs
                for side, other in (pair, pair[::-1])
                if any(self.facts.resolver.roles(n) & _OF_BATCHES for n in loads(other))
                and not self._has(other, names)
                and (strict or not _is_widened(other))
            ]
            self._even.update(n for side in met for n in walk(side))
            known = known.union(n.id for side in met for n in loads(side) if n.id in names)
            if known.isdisjoint(names):
                return names

    def _holding(
        self, body: Sequence[ast.stmt], known: frozenset[str], given: frozenset[str] = frozenset()
    ) -> frozenset[str]:
        """The variables that may hold one after some statements, beside those given; of some it is known that they do
        not."""
        pairs = [pair for statement in body for n in walk(statement) for pair in _bound_by(n)]
        names = given
        while True:
            found = (stores(target) for target, value in pairs if self._has(value, names))
            more = names.union(*found) - known
            if more == names:
                return names
            names = more

    def _has(self, node: ast.AST, names: frozenset[str]) -> bool:
        if node in self._even:
            return False
        if isinstance(node, ast.Name):
            return node.id in names and not counts_rows(self.facts, node) and not self._is_told(node)
        if isinstance(node, ast.expr) and self._is_told(node):
            return False
        if lengthens(self.facts, node) or (isinstance(node, ast.Call) and self._runs(node)):
            return True
        return any(self._has(child, names) for child in children(node))

    def _is_told(self, node: ast.expr) -> bool:
        """Whether it is known how long the rows of a tensor are, or that there is one number for each sample."""
        extent = self.facts.extents.of(node)
        sized = extent is not None and extent.sizes and not extent.deeper and None not in extent.sizes[1:]
        told = bool(sized) or self.facts.layouts.dimensions.of(node) == 1
        return told and not _is_flat(self.facts, node)

    def _runs(self, call: ast.Call) -> bool:
        """Whether a call gives what a function of the script, or a network, has made such a tensor."""
        return any(map(self._returns, (*self.blueprint.timeline.calls_into(call), *_passes(self.facts, call))))

    def pool(self) -> ast.expr | None:
        """Where a network pools places of such rows, or takes the last, which has one form but other numbers."""
        todo: list[tuple[Sequence[ast.stmt], frozenset[str]]] = [(self.loop.body, frozenset())]
        for body, given in todo if self.maker is not None else ():  # it grows meanwhile
            names = self._holding(body, frozenset(), given)
            nodes = [n for statement in body for n in walk(statement) if isinstance(n, ast.expr)]
            masked = pooling.masks(nodes)
            for node in nodes if body is not self.loop.body else ():
                along = pooling.pools(self.facts, node, masked)
                if along is not None and self._has(along, names):
                    return node
            for call in (n for n in nodes if isinstance(n, ast.Call)):
                for function in dict.fromkeys((*_passes(self.facts, call), *self.blueprint.timeline.calls_into(call))):
                    handed = self.facts.resolver.bind(call, function) or {}
                    follow = function.body, frozenset(n for n, value in handed.items() if self._has(value, names))
                    todo += [follow] if follow not in todo else []
        return None

    @memoised
    def _returns(self, function: Function) -> bool:
        if function in self._asked:
            return False
        self._asked.add(function)
        names = self._holding(function.body, frozenset())
        returned = (r.value for r in self.facts.resolver.returns(function) if r.value is not None)
        return any(self._has(value, names) for value in returned)


@kept
def pooled(blueprint: Blueprint, loop: BatchLoop) -> ast.expr | None:
    """Where a loop has a network go by places of its samples that are as many as the longest of a share has."""
    return ShareLengths(blueprint, loop).pool()


def _is_flat(facts: Facts, node: ast.expr) -> bool:
    """Whether an expression has all places of its samples in dimension 0: `x.view(-1)`, `x.reshape(-1, 3)`."""
    made = [facts.resolver.set_once(name) for name in loads(node)]
    for part in (n for e in (node, *made) if e is not None for n in walk(e)):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _FLATTENS:
            first = part.args[0] if part.args else None
            first = first.elts[0] if isinstance(first, (ast.Tuple, ast.List)) and first.elts else first
            start = 0 if first is None and part.func.attr in ("flatten", "ravel") else integer(first)
            if start in (0, -1):
                return True
    return False


def _of_one_form(facts: Facts, node: ast.AST) -> bool:
    """Whether a comparison is a loss that broadcasts neither of its sides."""
    if not isinstance(node, ast.Call):
        return False
    names = {facts.resolver.library_function(node.func) or "", *(v.name for v in facts.resolver.values(node.func))}
    found = {name.rpartition(".")[2] for name in names if name}
    return bool(found) and found <= torch_ops.OF_ONE_FORM


def _is_widened(node: ast.expr) -> bool:
    """Whether an expression may be broadcast against longer rows: `y[:, None]`, `y.unsqueeze(1)`, `y.view(-1, 1)`."""
    for part in walk(node):
        if is_constant(part, None):
            return True
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            last = part.args[-1] if part.args and part.func.attr in ("view", "reshape") else None
            if part.func.attr == "unsqueeze" or (isinstance(last, ast.Constant) and last.value == 1):
                return True
    return False


def _bound_by(node: ast.AST) -> Iterator[tuple[ast.AST, ast.expr]]:
    """What a node binds, and to what."""
    if isinstance(node, (ast.For, ast.comprehension)):
        yield node.target, node.iter
    elif isinstance(node, (ast.NamedExpr, ast.AugAssign)):
        yield node.target, node.value
    elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        yield from ((target, value or node.value) for target, value in assignments(node))


@kept
def cut_in(blueprint: Blueprint, loop: BatchLoop) -> ast.expr | None:
    """Where a loop cuts the samples of its batch to the longest one, or pads them to it."""
    return next((n for n in _run(blueprint, loop) if _cuts(blueprint.facts, n)), None)


def _run(blueprint: Blueprint, loop: BatchLoop) -> Iterator[ast.expr]:
    """The expressions that run in an iteration of a loop, also in the functions and networks that it calls."""
    for statement in loop.body:
        parts: list[ast.AST] = [statement]
        called: set[ast.AST] = set()  # with all that they call
        for part in parts:  # it grows meanwhile
            yield from (n for n in walk(part) if isinstance(n, ast.expr))
            calls = (n for n in walk(part) if isinstance(n, ast.Call))
            found = dict.fromkeys(f for call in calls for f in _passes(blueprint.facts, call))
            if part not in called:
                inside = blueprint.timeline.calls_into(part)  # type: ignore[arg-type]
                called.update(inside)
                found |= dict.fromkeys(inside)
            parts += [f for f in found if f not in parts]


def _passes(facts: Facts, call: ast.Call) -> Iterator[Function]:
    """The methods that a call of a network runs, or of a part of one in a method of it."""
    cls = facts.index.enclosing_class(call)
    if cls is not None:
        yield from (function for _, function in methods.called(facts, cls, call))
    for network in facts.objects.models(call.func):
        forward = facts.resolver.method(network.declaration, "forward")
        if forward is not None:
            yield forward


def lengthens(facts: Facts, node: ast.AST) -> bool:
    """Whether an expression makes the rows of a tensor as long as the longest sample of the batch."""
    if _cuts(facts, node) or _picks(facts, node):
        return True
    if not isinstance(node, ast.Call):
        return False
    return lengths.is_told_to_pad(node) or _joins_steps(facts, node)


def _cuts(facts: Facts, node: ast.AST) -> bool:
    sizes = (size for size in (length_taken(node), *_sizes(facts, node)) if size is not None)
    if any(_longest(facts, size, 2) for size in sizes):
        return True
    if not isinstance(node, ast.Call):
        return False
    if facts.resolver.library_function(node.func) != PAD_SEQUENCE:
        return unpacks(facts, node)
    padded = facts.resolver.argument(node, 0, "sequences")
    return padded is not None and _of_batch(facts, padded)


def _picks(facts: Facts, node: ast.AST) -> bool:
    """Whether an expression picks places of the samples by what is in the batch: `x[:, mask.any(0)]`."""
    places = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
    if not places or not isinstance(places[0], ast.Slice):
        return False
    return any(not isinstance(place, ast.Slice) and _of_batch(facts, place) for place in places[1:])


def _joins_steps(facts: Facts, call: ast.Call) -> bool:
    """Whether a call joins what the steps of a loop have made that goes on until the samples are done."""
    if facts.resolver.qualified(call.func) not in ("torch.stack", "torch.cat"):
        return False
    joined = facts.resolver.argument(call, 0, "tensors")
    made: list[ast.AST] = [call]  # `tokens = torch.cat([tokens, new], 1)`
    if isinstance(joined, ast.Name):
        bindings = facts.resolver.bindings(joined)
        made = [entry.node for b in bindings for entry in facts.resolver.fills(b.scope, b.name).entries]
    over_batches = {loop.node for loop in facts.loops.batch_loops}
    loops = (loop for node in made for loop in facts.index.enclosing_loops(node) if loop not in over_batches)
    return any(_goes_by_samples(facts, loop) for loop in loops)


def _goes_by_samples(facts: Facts, loop: ast.AST) -> bool:
    """Whether a loop may make as many steps as the longest sample needs."""
    if isinstance(loop, ast.While) or leaves(getattr(loop, "body", ())):
        return True
    steps = loop.iter if isinstance(loop, (ast.For, ast.comprehension)) else None
    return isinstance(steps, ast.Call) and any(_longest(facts, n, 2) for n in steps.args)


def unpacks(facts: Facts, call: ast.Call) -> bool:
    """Whether a call pads packed sequences to the longest of them."""
    unpacks = facts.resolver.library_function(call.func) == "torch.nn.utils.rnn.pad_packed_sequence"
    return unpacks and facts.resolver.argument(call, 3, "total_length") is None


def _sizes(facts: Facts, node: ast.AST) -> Sequence[ast.expr]:
    """How long a tensor is made in its last dimension: `torch.ones(n, longest)`, `torch.arange(longest)`."""
    if not isinstance(node, ast.Call):
        return ()
    module, _, name = (facts.resolver.qualified(node.func) or "").rpartition(".")
    if module != "torch" or not (name in torch_ops.FILLED or name == "arange"):
        return ()
    sizes = node.args[0].elts if node.args and isinstance(node.args[0], (ast.Tuple, ast.List)) else node.args
    return sizes[-1:] if name != "arange" or len(sizes) == 1 else ()


def _longest(facts: Facts, node: ast.expr, depth: int) -> bool:
    """Whether a number is the greatest of what the samples of a batch have, or made from it."""
    resolver = facts.resolver
    for part in walk(node):
        func = part.func if isinstance(part, ast.Call) else None
        if isinstance(part, ast.Call) and (
            resolver.builtin(part.func) == "max" or resolver.qualified(part.func) in ("torch.max", "torch.amax")
        ):
            if len(part.args) == 1 and _of_batch(facts, part.args[0]):
                return True
        elif isinstance(part, ast.Call) and isinstance(func, ast.Attribute) and func.attr in ("max", "amax"):
            if not part.args and not part.keywords and _of_batch(facts, func.value):
                return True
        elif isinstance(part, ast.Subscript) and lengths.is_greatest_of_sorted(resolver, part):
            if _of_batch(facts, part.value):
                return True
        elif isinstance(part, ast.Name) and depth:
            made = [b.value for b in resolver.bindings(part) if b.how is How.ASSIGN and not b.path]
            if any(value is not None and _longest(facts, value, depth - 1) for value in made):
                return True
    return False


def _of_batch(facts: Facts, node: ast.expr) -> bool:
    """Whether something is part of a batch, or computed from it; or what a network is given."""
    parts = [n for n in walk(node) if isinstance(n, ast.expr)]
    if any(facts.resolver.roles(n) & _OF_BATCHES for n in parts):
        return True
    return any(_is_given(facts, n, 3) for n in parts if isinstance(n, ast.Name))


def _is_given(facts: Facts, name: ast.Name, steps: int) -> bool:
    """Whether a variable is a parameter of a network's forward, or of a function that gets it from there."""
    resolver, index = facts.resolver, facts.index
    for binding in resolver.bindings(name) if steps else ():
        function = binding.scope.node
        if binding.how is How.PARAMETER and isinstance(function, FUNCTIONS):
            owner = index.parents.get(function)
            if function.name == "forward" and resolver.class_role(owner) is Role.MODEL:
                return True
            given = (n for a in resolver.handed(binding) if a is not None for n in walk(a))
            if any(isinstance(n, ast.Name) and _is_given(facts, n, steps - 1) for n in given):
                return True
    return False


def length_taken(node: ast.AST) -> ast.expr | None:
    """How much a node takes of a dimension of a tensor that is not the first: `x[:, :n]`, `x.narrow(1, 0, n)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        cuts = (p.upper for p in node.slice.elts[1:] if isinstance(p, ast.Slice) and p.upper is not None)
        return next(cuts, None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "narrow":
        first = node.args[0] if len(node.args) == 3 else None
        return node.args[2] if isinstance(first, ast.Constant) and first.value != 0 else None
    return None


def counts_rows(facts: Facts, load: ast.expr) -> bool:
    """Whether a read of a tensor asks for its number of rows."""
    parents = facts.index.parents
    parent = parents.get(load)
    if isinstance(parent, ast.Call) and facts.resolver.builtin(parent.func) == "len":
        return True
    if not (isinstance(parent, ast.Attribute) and parent.attr in _COUNTS):
        return False
    outer = parents.get(parent)
    if isinstance(outer, ast.Call) and outer.args:
        return len(outer.args) == 1 and _is_zero(outer.args[0])
    outer = parents.get(outer) if isinstance(outer, ast.Call) else outer  # `x.size()[0]`
    return isinstance(outer, ast.Subscript) and _is_zero(outer.slice)


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0
