"""How many micro-batches an accelerator accumulates: counted or divided by twice, or not at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from accelift_codemod.facts.accelerate import is_accelerator
from accelift_codemod.facts.index import FUNCTIONS, position
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Evidence, Role
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity

# What accumulates, or tells when the optimizer steps.
_ACCUMULATES = ("accumulate", "sync_gradients", "no_sync", "_do_sync", "GradientState", "gradient_state")


class DividedTwice(Lint):
    """`accelerator.backward` divides the loss by the accelerator's `gradient_accumulation_steps` itself. Where the
    script divides it by the same number before, gradients are too small by that factor.
    """

    code = "ACC-DIV"
    severity = Severity.ERROR
    title = "the loss is divided by the accumulation steps twice"
    wrong = """\
accelerator = Accelerator(gradient_accumulation_steps=4)
...
with accelerator.accumulate(model):
    loss = criterion(model(inputs), targets) / 4
    accelerator.backward(loss)
"""
    right = """\
accelerator = Accelerator(gradient_accumulation_steps=4)
...
with accelerator.accumulate(model):
    loss = criterion(model(inputs), targets)
    accelerator.backward(loss)
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.steps is None:
            return
        for call in world.verbs("backward"):
            if world.accumulating(call) is None and world.library != "accelerate":
                continue
            loss = world.resolver.argument(call, 0, "loss")
            division = self._division(world, loss, set()) if loss is not None else None
            if division is not None:
                yield Finding(
                    self.code,
                    self.severity,
                    division.lineno,
                    f"`{world.text(division)}` divides the loss by the accumulation steps, and "
                    f"`{world.text(call.func)}` (line {call.lineno}) divides it by them again",
                    "leave the division out",
                    (Evidence(world.steps.lineno, f"gradient_accumulation_steps is `{world.text(world.steps)}`"),),
                )

    def _division(self, world: World, node: ast.expr, seen: set[ast.AST]) -> ast.BinOp | ast.AugAssign | None:
        """Where the whole of a value is divided by the number of steps."""
        if node in seen:
            return None
        seen.add(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return node if self._is_steps(world, node.right) else self._division(world, node.left, seen)
        if isinstance(node, ast.Name):
            for binding in world.resolver.bindings(node):
                if binding.value is not None and not binding.path:
                    found = self._division(world, binding.value, seen)
                    if found is not None:
                        return found
            block = self._statement_before(world, node)
            if block is not None:
                return block
        return None

    def _statement_before(self, world: World, name: ast.Name) -> ast.AugAssign | None:
        """`loss /= k` before a use of `loss`, in the same block or around it."""
        for statement in world.index.chain(name):
            block, place = world.index.block(statement)
            for earlier in block[:place]:
                if (
                    isinstance(earlier, ast.AugAssign)
                    and isinstance(earlier.op, ast.Div)
                    and isinstance(earlier.target, ast.Name)
                    and earlier.target.id == name.id
                    and self._is_steps(world, earlier.value)
                    and all(position(b.node) < position(earlier) for b in world.resolver.bindings(name))
                ):
                    return earlier
        return None

    def _is_steps(self, world: World, node: ast.expr) -> bool:
        """Whether an expression is the number of steps that the accelerator was given."""
        if isinstance(node, ast.Attribute) and node.attr == "gradient_accumulation_steps":
            values = world.resolver.values(node.value)
            if values and all(v.origin in world.accelerators for v in values):
                return True
        assert world.steps is not None
        return _same(world, node, world.steps)


class Twice(Lint):
    """Each `accelerator.accumulate(...)` counts a micro-batch. With two in one iteration the accelerator counts double,
    so that models are stepped after half as many batches, and which of them is stepped depends on the count.
    """

    code = "ACC-TWICE"
    severity = Severity.ERROR
    title = "several accumulate contexts in one iteration"
    wrong = """\
for inputs in loader:
    with accelerator.accumulate(discriminator):
        ...
    with accelerator.accumulate(generator):
        ...
"""
    right = """\
for inputs in loader:
    with accelerator.accumulate(discriminator, generator):
        ...
"""

    def check(self, world: World) -> Iterator[Finding]:
        contexts: dict[ast.AST, list[ast.withitem]] = {}
        for call in world.verbs("accumulate"):
            item = world.index.parents.get(call)
            loops = world.index.enclosing_loops(call)
            if isinstance(item, ast.withitem) and loops and self._steps(world, call) is not None:
                contexts.setdefault(loops[0], []).append(item)
        for items in contexts.values():
            first = items[0]
            steps = self._steps(world, first.context_expr)
            assert steps is not None
            for item in items[1:]:
                if not self._exclusive(world, first, item):
                    line = first.context_expr.lineno
                    yield Finding(
                        self.code,
                        self.severity,
                        item.context_expr.lineno,
                        f"`{world.text(item.context_expr)}` counts the micro-batch that "
                        f"`{world.text(first.context_expr)}` (line {line}) has counted already",
                        "enter one `accumulate` for all the models, around the whole of the iteration",
                        (Evidence(steps.lineno, f"gradient_accumulation_steps is `{world.text(steps)}`"),),
                    )
                    break

    def _steps(self, world: World, verb: ast.expr) -> ast.expr | None:
        """The number of micro-batches of the accelerator that a method is called of, unless that is certainly one."""
        receiver = verb.func.value if isinstance(verb, ast.Call) and isinstance(verb.func, ast.Attribute) else None
        origins = {v.origin for v in world.resolver.values(receiver) if is_accelerator(v)}
        made = [call for call in world.accelerators if call in origins]
        if len(made) != 1:
            return world.steps
        steps = world.resolver.argument(made[0], None, "gradient_accumulation_steps")
        return None if isinstance(steps, ast.Constant) and steps.value == 1 else steps

    def _exclusive(self, world: World, left: ast.AST, right: ast.AST) -> bool:
        """Whether two nodes stand in different arms of an `if`, or the first one leaves the iteration."""
        meeting = world.index.meeting(left, right)
        if meeting is None:
            return False
        parent, first, second = meeting
        if isinstance(parent, (ast.If, ast.Try)):
            return (first in parent.body) != (second in parent.body)
        leaves = (ast.Continue, ast.Break, ast.Return)
        return isinstance(first, ast.If) and any(isinstance(n, leaves) for n in walk(first))


class NoSteps(Lint):
    """`accelerator.accumulate(...)` accumulates over as many micro-batches as the accelerator was told. It was told
    nothing in the script, so that every batch is followed by a step, unless the launch config says otherwise.
    """

    code = "ACC-NOSTEPS"
    severity = Severity.WARNING
    title = "accumulate without a number of steps"
    wrong = """\
accelerator = Accelerator()
...
with accelerator.accumulate(model):
    ...
"""
    right = """\
accelerator = Accelerator(gradient_accumulation_steps=4)
...
with accelerator.accumulate(model):
    ...
"""

    def check(self, world: World) -> Iterator[Finding]:
        if not world.settings_known or any(
            world.setting(name) is not None
            for name in (
                "gradient_accumulation_steps",
                "gradient_accumulation_plugin",
                "deepspeed_plugin",
                "deepspeed_plugins",
            )
        ):
            return
        if world.index.attribute_bindings.get("gradient_accumulation_steps"):
            return
        call = next(world.verbs("accumulate"), None)
        if call is not None:
            made = world.accelerators[0]
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` accumulates nothing unless the launch config says so: the accelerator was given "
                "no gradient_accumulation_steps",
                "give it to Accelerator(...)",
                (Evidence(made.lineno, f"`{world.text(made)}`"),),
            )


class NeverAccumulates(Lint):
    """`accelerator.backward` divides the loss by the accelerator's `gradient_accumulation_steps`, and only
    `accelerator.accumulate(...)` keeps the optimizer from stepping. Without it every batch is followed by a step, on
    gradients that are as many times too small.
    """

    code = "ACC-NONE"
    severity = Severity.ERROR
    title = "the loss is divided, and nothing accumulates"
    wrong = """\
accelerator = Accelerator(gradient_accumulation_steps=4)
...
for inputs, targets in loader:
    loss = criterion(model(inputs), targets)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
"""
    right = """\
accelerator = Accelerator(gradient_accumulation_steps=4)
...
for inputs, targets in loader:
    with accelerator.accumulate(model):
        loss = criterion(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.steps is None or not world.wraps or any(map(world.mentions, _ACCUMULATES)):
            return
        if world.index.attribute_bindings.get("gradient_accumulation_steps"):
            return
        for call in world.verbs("backward"):
            loss = world.resolver.argument(call, 0, "loss")
            if loss is None or self._mentions_steps(world, loss):
                continue  # multiplied by them; divided once more, it is that of ACC-DIV
            step = self._step(world, call)
            if step is not None:
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` divides the loss by `{world.text(world.steps)}`, and "
                    f"`{world.text(step)}` (line {step.lineno}) steps with every batch: nothing accumulates, and "
                    "gradients are as many times too small",
                    "put the iteration under `with accelerator.accumulate(model):`, or leave "
                    "gradient_accumulation_steps out",
                    (Evidence(world.steps.lineno, f"gradient_accumulation_steps is `{world.text(world.steps)}`"),),
                )

    def _mentions_steps(self, world: World, loss: ast.expr) -> bool:
        assert world.steps is not None
        parts = world.flow.sources(loss, lambda node: isinstance(node, ast.Call))
        return any(isinstance(part, ast.expr) and _same(world, part, world.steps) for part in parts)

    def _step(self, world: World, call: ast.Call) -> ast.Call | None:
        """The step of an optimizer that follows in every iteration, without any test; None if there is none."""
        loops = world.index.enclosing_loops(call)[:1]
        inside = takewhile(
            lambda parent: parent not in (*loops, world.index.function(call)), world.index.ancestors(call)
        )
        if any(isinstance(parent, (ast.If, ast.IfExp)) for parent in inside):
            return None  # perhaps that of what was added up over several batches
        for step in world.index.methods.get("step", []):
            assert isinstance(step.func, ast.Attribute)
            if not world.resolver.only(step.func.value, Role.OPTIMIZER) or not world.facts.runs(step):
                continue
            block, place = world.index.block(world.index.statement(step))
            around = [at for other, at in map(world.index.block, world.index.chain(call)) if other is block]
            if around and around[0] < place and world.index.enclosing_loops(step)[:1] == loops:
                between = (n for statement in block[around[0] : place] for n in walk(statement))
                if not any(isinstance(n, (ast.Continue, ast.Break, ast.Return)) for n in between):
                    return step
        return None


def _same(world: World, left: ast.expr, right: ast.expr) -> bool:
    """Whether two expressions certainly are the same number: equal constants, or one variable or setting."""
    left, right = _held(world, left), _held(world, right)
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        return type(left.value) is type(right.value) and left.value == right.value
    if isinstance(left, ast.Name) and isinstance(right, ast.Name) and left.id == right.id:
        return world.index.scope(left).owner(left.id) is world.index.scope(right).owner(right.id)
    if isinstance(left, ast.Attribute) and isinstance(right, ast.Attribute) and left.attr == right.attr:
        a, b = ({v.origin for v in world.resolver.values(n.value)} for n in (left, right))
        return bool(a) and a == b
    return False


def _held(world: World, node: ast.expr, depth: int = 0) -> ast.expr:
    """What a variable certainly holds, a parameter what all calls pass."""
    if isinstance(node, ast.Name) and depth < 6:
        bindings = world.resolver.bindings(node)
        if len(bindings) == 1 and not bindings[0].path:
            value = bindings[0].value
            if value is not None and isinstance(value, (ast.Constant, ast.Name, ast.Attribute)):
                return _held(world, value, depth + 1)
            function = world.index.parents.get(world.index.parents.get(bindings[0].node, node), node)
            if value is None and isinstance(function, FUNCTIONS):
                given = [(world.resolver.bind(c, function) or {}).get(node.id) for c in world.resolver.sites(function)]
                if len(given) == 1 and given[0] is not None:
                    return _held(world, given[0], depth + 1)
    return node
