"""Reports rows that training takes by their place in the batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, How, Role
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.layout import Layout, Shape
from accelift_codemod.facts.layout.algebra import FIXED
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_LOSSES = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
_LEAVES = frozenset({"item", "detach", "shape", "size", "device", "dtype"})  # no gradients flow on from these
_TURNS = {"roll": 1, "flip": 0}  # what puts rows into other places; where the dimensions stand after the tensor

_NUMBERS = frozenset({"arange", "linspace", "logspace"})


class BatchPlaces(Rule):
    """Reports a loss, or a forward pass, of rows that are taken by their place in a batch: `out[:labeled]`.

    A process has some rows of each batch. If the first ones are labelled, say, and the others not, the second process
    would learn from what are no labels. So it is with rows that meet their neighbours: `out.roll(1, 0)`.
    """

    code = "PLACES"
    name = "rows by their place in the batch"
    findings = (
        Explained(
            "BATCH-PLACES",
            Severity.WARNING,
            "takes rows by their place in the batch",
            "The training uses the first rows of each batch, or others by a fixed place, in another way than the rest. "
            "A process has only its share of a batch, with other rows in these places. So it is with labels that are "
            "taken, by the number of the batch, from an array beside the loader.",
        ),
        Explained(
            "BATCH-COMPOSED",
            Severity.WARNING,
            "batches that a sampler of the script composes",
            "A class of the script chooses which samples are in a batch together (episodes, pairs, so many of each "
            "class), and the loss is one that the script computes itself. A process has a part of each batch: if the "
            "loss needs all of it, it is another loss.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for loop in draft.blueprint.train_loops:
            yield from self._beside(draft, loop)
        if draft.options.batch != "global":
            return
        for loop in draft.blueprint.train_loops:
            yield from self._composed(draft, loop)
            called = (f for statement in loop.body for f in draft.blueprint.timeline.calls_into(statement))
            bodies = [loop.body, *(function.body for function in dict.fromkeys(called))]
            for node in (n for body in bodies for statement in body for n in walk(statement)):
                if self._is_shift(node) and self._meet(draft, loop):
                    continue
                if self._is_placed(draft, loop, node) and self._trains(draft, loop, node):
                    yield draft.finding(
                        "BATCH-PLACES",
                        Severity.WARNING,
                        node,
                        f"`{draft.facts.segment(node)}` takes rows by their place in the batch, and a process has only "
                        "its share of one: other rows are in these places",
                        "have every process draw whole batches (--batch per-process), or choose rows by what they are",
                    )
                    break  # the other slices say the same

    def _beside(self, draft: Draft, loop: BatchLoop) -> Iterator[Finding]:
        """Rows of an array outside the loader, taken by the number of the batch or of the samples before it."""
        if loop in draft.blueprint.handmade:
            return
        numbers = self._numbers(draft, loop)
        for node in (n for statement in loop.body for n in walk(statement)):
            if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Store):
                continue
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            bounds = [first.lower, first.upper] if isinstance(first, ast.Slice) else []
            counted = [b for b in bounds if b is not None and numbers & {n.id for n in loads(b)}]
            if len(counted) != 2 or self._layout(draft, loop, node, node.value) is not Layout.CONST:
                continue
            if self._trains(draft, loop, node):
                yield draft.finding(
                    "BATCH-PLACES",
                    Severity.ERROR,
                    node,
                    f"`{draft.facts.segment(node)}` takes what belongs to a batch by the batch's number, and a process "
                    "has only its share of that batch: it is not what belongs to its samples",
                    "put it into the data set, so that the loader deals it with the samples",
                )
                return

    def _composed(self, draft: Draft, loop: BatchLoop) -> Iterator[Finding]:
        """Batches that a class of the script puts together, and a loss that is none of torch's."""
        facts = draft.facts
        for loader in loop.loaders if not facts.processes.managed else ():  # else its batches are its own
            given = facts.objects.loader(loader).arguments.get("batch_sampler")
            own = any(isinstance(v.declaration, ast.ClassDef) for v in facts.resolver.values(given)) if given else False
            if own and not all(self._is_of_samples(draft, c) for c in facts.loops.backwards_in(loop.node)):
                yield draft.finding(
                    "BATCH-COMPOSED",
                    Severity.WARNING,
                    loop.node,
                    f"`{facts.segment(given)}` says which samples are in a batch together, and a process has only its "  # type: ignore[arg-type]
                    "share of them: if the loss compares them, it is another loss",
                    "have every process draw whole batches (--batch per-process) if it does",
                )
                return

    def _is_of_samples(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a backward pass starts from a loss of torch, which is one of each sample."""
        loss = call.func.value if isinstance(call.func, ast.Attribute) else call
        bound = draft.facts.resolver.bindings(loss) if isinstance(loss, ast.Name) else []
        return bool(bound) and all(isinstance(b.value, ast.Call) and _is_loss(draft, b.value.func) for b in bound)

    def _numbers(self, draft: Draft, loop: BatchLoop) -> set[str]:
        """Variables that count the batches of a loop, or the samples before them, and what is computed from these."""
        node = loop.node
        counts = isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Tuple)
        enumerated = counts and draft.facts.resolver.builtin(node.iter.func) == "enumerate"  # type: ignore[union-attr]
        numbers = stores(node.target.elts[0]) if enumerated else set()  # type: ignore[union-attr]
        for statement in (s for outer in loop.body for s in walk(outer)):
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
                each = draft.facts.index.enclosing_loops(statement)[:1] == [node]  # once in an iteration
                numbers |= stores(statement) if each else set()
            elif isinstance(statement, ast.Assign) and numbers & {n.id for n in loads(statement.value)}:
                plain = (ast.Name, ast.BinOp, ast.Constant, ast.operator, ast.expr_context)
                if all(isinstance(n, plain) for n in walk(statement.value)):
                    numbers |= stores(statement)
        return numbers

    def _is_placed(self, draft: Draft, loop: BatchLoop, node: ast.AST) -> bool:
        """Whether rows of a batch are taken by their place, or put into other places."""
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Store):
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            if isinstance(first, ast.Slice):
                return self._is_cut(draft, loop, node, first)
            if first is node.slice and "arange" in draft.facts.index.attributes:
                return (
                    self._layout(draft, loop, node, node.value) is Layout.ROWS
                    and self._layout(draft, loop, node, first) is Layout.PLACES
                )
        if isinstance(node, ast.BinOp) and _counts_up(draft, node):
            # `x + 0.1 * torch.arange(len(x))`
            sides = {self._layout(draft, loop, node, side) for side in (node.left, node.right)}
            return sides == {Layout.ROWS, Layout.PLACES}
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(func, ast.Attribute) and func.attr in _TURNS:
            function = draft.facts.resolver.qualified(func) == f"torch.{func.attr}"
            tensor = draft.facts.resolver.argument(node, 0, "input") if function else func.value
            along = draft.facts.resolver.argument(node, _TURNS[func.attr] + function, "dims")
            first_dimension = along is None or ast.unparse(along).strip("()[],") == "0"
            return first_dimension and self._layout(draft, loop, node, tensor) is Layout.ROWS
        return False

    def _is_shift(self, node: ast.AST) -> bool:
        """Whether rows are taken but the first ones, or the last ones."""
        first = node.slice if isinstance(node, ast.Subscript) else None
        first = first.elts[0] if isinstance(first, ast.Tuple) and first.elts else first
        if not isinstance(first, ast.Slice) or first.step is not None:
            return False
        last = first.lower is None and isinstance(first.upper, ast.UnaryOp) and isinstance(first.upper.op, ast.USub)
        return last or (first.lower is not None and first.upper is None)

    def _meet(self, draft: Draft, loop: BatchLoop) -> bool:
        """Whether samples surely meet others in a loss: LOSS-INBATCH says so (see backward.py)."""
        calls = (c for c in draft.facts.loops.backwards_in(loop.node) if isinstance(c.func, ast.Attribute))
        return any(self._layout(draft, loop, call, call.func.value) is Layout.MIXED for call in calls)  # type: ignore[attr-defined]

    def _is_cut(self, draft: Draft, loop: BatchLoop, node: ast.Subscript, places: ast.Slice) -> bool:
        """Whether rows are taken from or up to a place that is the same for every batch."""
        bounds = [bound for bound in (places.lower, places.upper) if bound is not None]
        if places.upper is None and integer(places.lower) == 0:
            return False  # `[0:]` is all of them
        if not bounds:
            return False
        return self._layout(draft, loop, node, node.value) is Layout.ROWS and all(
            isinstance(b, ast.Constant) or self._layout(draft, loop, node, b) in FIXED or self._is_part(draft, loop, b)
            for b in bounds
        )

    def _is_part(self, draft: Draft, loop: BatchLoop, place: ast.expr) -> bool:
        """Whether a place is worked out of the number of rows, such as their middle: `half = len(x) // 2`."""
        bindings = draft.facts.resolver.bindings(place) if isinstance(place, ast.Name) else []
        if len(bindings) == 1 and bindings[0].value is not None and not bindings[0].path:
            place = bindings[0].value
        if isinstance(place, ast.Call) and draft.facts.resolver.builtin(place.func) == "int" and len(place.args) == 1:
            place = place.args[0]
        parts = [place.left, place.right] if isinstance(place, ast.BinOp) else []
        names = [n for part in parts for n in loads(part)]
        if any(b.how is How.LOOP for n in names for b in draft.facts.resolver.bindings(n)):
            return False  # one of several pieces, which may all be treated alike
        layouts = [self._layout(draft, loop, place, part) for part in parts]
        return Layout.COUNT in layouts and all(layout in (Layout.COUNT, *FIXED) for layout in layouts)

    def _layout(self, draft: Draft, loop: BatchLoop, node: ast.AST, part: ast.expr | None) -> Shape | None:
        """How a part of a node depends on the batch."""
        env = draft.environment(loop, draft.facts.index.statement(node))
        return draft.facts.layouts.read(part, env) if env is not None and part is not None else None

    def _trains(self, draft: Draft, loop: BatchLoop, node: ast.AST, followed: set[str] | None = None) -> bool:
        """Whether what is taken goes into a loss or a model, with gradients, also through variables and functions."""
        followed = set() if followed is None else followed
        inside: ast.AST = node
        for parent in draft.facts.index.ancestors(node):
            if isinstance(node, ast.BinOp) and _adds_up(draft, loop, parent):
                return True
            if isinstance(parent, ast.Assign):
                names = {name for target in _targets(parent, inside) for name in stores(target)} - followed
                followed |= names
                function = draft.function(node)
                body = loop.body if function is draft.function(loop.node) or function is None else function.body
                uses = (n for s in body for n in walk(s) if isinstance(n, ast.Name) and n.id in names)
                return any(isinstance(n.ctx, ast.Load) and self._trains(draft, loop, n, followed) for n in uses)
            if isinstance(parent, ast.Return):
                return self._returns(draft, loop, parent, inside, followed)
            if isinstance(parent, ast.stmt):
                return draft.facts.loops.is_backward(getattr(parent, "value", parent))
            if isinstance(parent, ast.Attribute) and parent.attr in _LEAVES:
                return False
            if isinstance(parent, ast.Call) and not draft.gradients_off(parent):
                if _is_loss(draft, parent.func) or draft.blueprint.prepared_models(parent.func):
                    return True
            inside = inside if isinstance(parent, (ast.Tuple, ast.List)) else parent
        return False

    def _returns(self, draft: Draft, loop: BatchLoop, statement: ast.Return, part: ast.AST, followed: set[str]) -> bool:
        """The same of what a function returns, or the part of it that has what is taken."""
        function = draft.function(statement)
        if function is None or function is draft.function(loop.node) or f"{function.name}()" in followed:
            return False
        followed = {f"{function.name}()"}  # its callers have variables of their own
        value = statement.value
        place = value.elts.index(part) if isinstance(value, ast.Tuple) and part in value.elts else None
        for call in draft.facts.resolver.sites(function):
            taker = draft.facts.index.parents[call]
            target = taker.targets[0] if isinstance(taker, ast.Assign) else None
            if place is None or not isinstance(target, ast.Tuple) or len(target.elts) != len(value.elts):  # type: ignore[union-attr]
                if self._trains(draft, loop, call, followed):
                    return True
                continue
            names = stores(target.elts[place])
            reads = (n for s in loop.body for n in walk(s) if isinstance(n, ast.Name) and n.id in names)
            if any(isinstance(n.ctx, ast.Load) and self._trains(draft, loop, n, followed | names) for n in reads):
                return True
        return False


def _is_loss(draft: Draft, func: ast.expr) -> bool:
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
    bound = (b.value for n in (node.left, node.right) for name in loads(n) for b in draft.facts.resolver.bindings(name))
    parts = (n for value in (node, *bound) if value is not None for n in walk(value))
    return any(isinstance(n, ast.Attribute) and n.attr in _NUMBERS for n in parts)
