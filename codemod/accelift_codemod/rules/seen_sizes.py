"""Sizes of batches that a script looked at before it trains."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Binding, Role
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rows import batch_sizes, made_for, row_numbers
from accelift_codemod.rules import Explained, Rule

_MOST_STEPS = 5


class SeenSizes(Rule):
    """Reports what training makes, or has made, with as many rows as a batch had that was looked at before.

    The loader is prepared after that look, so it is at one of the author's whole batches. Training sees shares of them.
    """

    code = "LOOK"
    name = "sizes of batches that were looked at"
    findings = (
        Explained(
            "BATCH-SEEN",
            Severity.WARNING,
            "as many rows as a batch that was looked at",
            "A script looks at a batch before it trains, and makes something of as many rows that training uses with "
            "its batches. What it saw is a whole batch, and a process has only its share of one. Take the number of "
            "rows from the batch in the loop.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        if draft.options.batch != "global" or not draft.blueprint.peeks:
            return
        loops = [loop for loop in draft.blueprint.train_loops if draft.blueprint.shares_batches(loop)]
        found = [place for loop in loops for place in self._in_loop(draft, loop)]
        if loops:
            made = (given for several in made_for.made_with(draft).values() for given, _ in several)
            found += [given for given in made if self._is_rows(draft, given)]
        for place in dict.fromkeys(found):
            yield draft.finding(
                "BATCH-SEEN",
                Severity.WARNING,
                place,
                f"`{draft.facts.segment(place)}` has the size of a whole batch, which was looked at before training, "
                "and a process has only its share of one",
                "take the number of rows from the batch in the training loop",
            )

    def _in_loop(self, draft: Draft, loop: BatchLoop) -> Iterator[ast.expr]:
        """The sizes in the code of a training loop, and what it meets its batches with that was made by such."""
        for node in batch_sizes.nodes(draft, loop):
            if isinstance(node, ast.Call):
                yield from self._asked(draft, node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                bound = draft.facts.resolver.bindings(node)
                if any(self._is_in(draft, b, loop) for b in bound) or not self._meets(draft, node, loop):
                    continue
                if any(self._is_made(draft, b) for b in bound) or self._is_seen(draft, node):
                    yield node

    def _is_in(self, draft: Draft, binding: Binding, loop: BatchLoop) -> bool:
        return loop.node in draft.facts.index.ancestors(binding.node)

    def _asked(self, draft: Draft, call: ast.Call) -> Iterator[ast.expr]:
        """The arguments of a call that makes or shapes something which are, or have in them, the size of a batch."""
        if row_numbers.takes(draft, call):
            for argument in (*call.args, *(k.value for k in call.keywords)):
                if self._is_rows(draft, argument) or self._is_shape(draft, argument):
                    yield argument

    def _is_made(self, draft: Draft, binding: Binding) -> bool:
        """Whether a variable is bound to a tensor that is made with as many rows as a seen batch has."""
        if binding.path or binding.how is not How.ASSIGN or binding.value is None:
            return False
        for call in (n for n in walk(binding.value) if isinstance(n, ast.Call)):
            if any(True for _ in self._asked(draft, call)):
                return True
            like = draft.facts.resolver.qualified(call.func) or ""
            if (
                like.startswith("torch.")
                and like.endswith("_like")
                and call.args
                and self._is_seen(draft, call.args[0])
            ):
                return True
        return False

    def _meets(self, draft: Draft, load: ast.Name, loop: BatchLoop) -> bool:
        """Whether all rows of a variable are used in one expression with what a loop computes from its own batch."""
        part: ast.AST = load
        for parent in draft.facts.index.ancestors(load):
            picked = isinstance(parent, (ast.Attribute, ast.Subscript)) and parent.value is part
            call = draft.facts.index.parents.get(parent) if picked else None
            moved = isinstance(call, ast.Call) and call.func is parent and draft.facts.moves.root(call) is load
            if isinstance(parent, ast.stmt) or (picked and not moved):
                return False  # nothing of the batch, or `first[: len(x)]`, `first.mean(0)`
            part = parent
            for name in (n for n in walk(parent) if isinstance(n, ast.Name) and n is not load):
                bound = draft.facts.resolver.bindings(name)
                own = any(self._is_in(draft, b, loop) or b.how is How.PARAMETER for b in bound)
                if own and draft.facts.batches.is_from(name, loop, ()):
                    return True
        return False

    # ---- what was seen

    def _is_rows(self, draft: Draft, node: ast.expr | None, steps: int = 0) -> bool:
        """Whether an expression is the number of rows of a seen batch, or has it as a factor or an entry."""
        if node is None or steps > _MOST_STEPS:
            return False
        if isinstance(node, ast.Name):
            return any(self._binds_rows(draft, b, steps + 1) for b in draft.facts.resolver.bindings(node))
        if isinstance(node, (ast.Tuple, ast.List)):
            return any(self._is_rows(draft, element, steps + 1) for element in node.elts)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.FloorDiv)):
            return self._is_rows(draft, node.left, steps + 1) or self._is_rows(draft, node.right, steps + 1)
        if isinstance(node, ast.Subscript):
            first = isinstance(node.slice, ast.Constant) and node.slice.value == 0
            return first and self._is_shape(draft, node.value)
        return isinstance(node, ast.Call) and self._called_for_rows(draft, node, steps)

    def _called_for_rows(self, draft: Draft, call: ast.Call, steps: int) -> bool:
        resolver = draft.facts.resolver
        if isinstance(call.func, ast.Attribute) and call.func.attr == "size" and len(call.args) == 1:
            first = isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
            return first and self._is_seen(draft, call.func.value)
        if resolver.builtin(call.func) == "len" and len(call.args) == 1:
            return self._is_part(draft, call.args[0]) and self._is_seen(draft, call.args[0])
        function = resolver.callee(call)
        returns = resolver.returns(function) if isinstance(function, FUNCTIONS) else []
        return any(self._is_rows(draft, r.value, steps + 1) for r in returns)

    def _binds_rows(self, draft: Draft, binding: Binding, steps: int) -> bool:
        if binding.how is not How.ASSIGN or binding.value is None:
            return False
        if binding.path == (0,):
            return self._is_shape(draft, binding.value)
        return not binding.path and self._is_rows(draft, binding.value, steps)

    def _is_shape(self, draft: Draft, node: ast.expr) -> bool:
        """Whether an expression is the whole shape of a seen tensor: `x.shape`, `x.size()`."""
        if isinstance(node, ast.Call):
            asked = isinstance(node.func, ast.Attribute) and node.func.attr == "size" and not node.args
            return asked and self._is_seen(draft, node.func.value)  # type: ignore[attr-defined]
        return isinstance(node, ast.Attribute) and node.attr == "shape" and self._is_seen(draft, node.value)

    def _is_part(self, draft: Draft, node: ast.expr) -> bool:
        """Whether an expression is surely a part of a batch, not the tuple of all."""
        if isinstance(node, ast.Name):
            return any(b.path for b in draft.facts.resolver.bindings(node))
        return isinstance(node, ast.Subscript)

    def _is_seen(self, draft: Draft, node: ast.expr, steps: int = 0) -> bool:
        """Whether an expression is a part of a batch that was looked at, perhaps moved."""
        root = draft.facts.moves.root(node)
        if root is None or not draft.blueprint.seen_before(root) or self._may_be_other(draft, root):
            return False
        if Role.BATCH in draft.facts.resolver.roles(root):
            return True
        if isinstance(root, ast.Name) and steps < _MOST_STEPS:
            bound = (b for b in draft.facts.resolver.bindings(root) if b.how is How.ASSIGN and not b.path)
            return any(b.value is not None and self._is_seen(draft, b.value, steps + 1) for b in bound)
        return False

    def _may_be_other(self, draft: Draft, node: ast.expr) -> bool:
        """Whether a parameter is given other batches, too: by the training loop, say."""
        for binding in draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else ():
            given = draft.facts.resolver.handed(binding) if binding.how is How.PARAMETER else []
            if not all(argument is not None and draft.blueprint.seen_before(argument) for argument in given):
                return True
        return False
