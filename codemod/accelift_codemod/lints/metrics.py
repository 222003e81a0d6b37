"""Numbers that are computed from a part of the data, or from some of it twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelift_codemod.facts.flow import Local
from accelift_codemod.facts.index import How, Scope, position
from accelift_codemod.facts.loops import BatchLoop
from accelift_codemod.facts.tree import container, is_constant, walk
from accelift_codemod.facts.values import Evidence, Role, Value
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint, divided
from accelift_codemod.lints.data import asks_for_process
from accelift_codemod.plan import Finding, Severity

_COLLECTS = frozenset({"append", "extend"})
_JOINS = frozenset({"torch.cat", "torch.concat", "numpy.concatenate"})
_GATHERING = frozenset({"gather", "reduce", "batch_mean", "gather_for_metrics", "gather_object"})


@dataclass(frozen=True)
class Sum:
    """A variable in which a loop collects something of its batches."""

    name: str
    owner: Scope
    node: ast.stmt
    local: Local


class _Evaluation(Lint):
    """A lint about loops that evaluate on prepared loaders."""

    def _loops(self, world: World) -> Iterator[BatchLoop]:
        for loop in world.loops:
            if loop.direct and loop.body and not loop.trains and world.all_prepared(loop):
                if not world.ranks.perhaps_alone(loop.node) and not self._steps_inside(loop):
                    yield loop

    def _steps_inside(self, loop: BatchLoop) -> bool:
        """Whether a loop trains in a way of its own: an optimizer steps."""
        return any(
            isinstance(n, ast.Attribute) and n.attr in ("step", "backward", "train_step")
            for s in loop.body
            for n in walk(s)
        )

    def _padded(self, world: World, loop: BatchLoop) -> bool:
        """Whether the loaders of a loop may be dealt samples twice, and the script knows nothing of it."""
        if any(map(world.mentions, ("even_batches", "samples_seen", "remainder", "join_uneven_inputs"))):
            return False
        return not any(self._drops(world, value) for value in loop.loaders)

    def _drops(self, world: World, value: Value) -> bool:
        """Whether a loader may leave the samples out that do not fill a batch."""
        loader = world.facts.objects.loader(world.original(value))
        if loader.call is None or not loader.complete:
            return world.mentions("drop_last")
        told = loader.arguments.get("drop_last")
        return "drop_last" in loader.arguments and not is_constant(told, False)

    def _sums(self, world: World, loop: BatchLoop) -> Iterator[Sum]:
        for statement in (n for s in loop.body for n in walk(s) if isinstance(n, ast.stmt)):
            collected = self._collected(world, statement)
            if collected is None:
                continue
            name, values = collected
            owner = world.index.scope(name).owner(name.id)
            local = next(filter(None, map(world.flow.local, values)), None)
            if owner is None or local is None or world.ranks.guard(statement) or world.ranks.counted(statement):
                continue
            if not self._begins_inside(owner, name.id, loop, statement):
                yield Sum(name.id, owner, statement, local)

    def _collected(self, world: World, statement: ast.stmt) -> tuple[ast.Name, list[ast.expr]] | None:
        """The variable that a statement adds something to, and what."""
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
            target = container(statement.target)
            return (target, [statement.value]) if isinstance(target, ast.Name) else None
        if isinstance(statement, ast.Assign):
            return self._continued(world, statement)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            return None
        name = call.func.value
        if not isinstance(name, ast.Name):
            return None
        if call.func.attr in ("add", "add_batch") and _is_metric(world, name):
            return name, [*call.args, *(k.value for k in call.keywords)]
        if call.func.attr in _COLLECTS and len(call.args) == 1:
            return name, call.args
        return (name, call.args) if self._is_meter(world, call) else None

    def _continued(self, world: World, statement: ast.Assign) -> tuple[ast.Name, list[ast.expr]] | None:
        """`correct = correct + ...`, `guesses = torch.cat([guesses, ...])`."""
        target, value = statement.targets[0], statement.value
        parts: list[ast.expr] = []
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            parts = [value.left, value.right]
        elif isinstance(value, ast.Call) and world.qualified(value) in _JOINS and value.args:
            parts = value.args[0].elts if isinstance(value.args[0], (ast.List, ast.Tuple)) else []
        if not isinstance(target, ast.Name) or len(statement.targets) > 1:
            return None
        others = [part for part in parts if not (isinstance(part, ast.Name) and part.id == target.id)]
        return (target, others) if len(others) == len(parts) - 1 else None

    def _is_meter(self, world: World, call: ast.Call) -> bool:
        """Whether a call is of a method that adds to its object, of a class that knows nothing of processes."""
        method = world.resolver.callee(call)
        owner = world.index.parents.get(method) if method is not None else None
        if not isinstance(owner, ast.ClassDef) or len(world.resolver.ancestry(owner)) != 1 or owner.bases[1:]:
            return False
        adds = any(
            isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Attribute) and isinstance(n.op, ast.Add)
            for n in walk(method)  # type: ignore[arg-type]
        )
        return adds and not any(
            isinstance(n, ast.Call) and (world.together.of(n) or world.flow.unknown(n)) for n in walk(owner)
        )

    def _begins_inside(self, owner: Scope, name: str, loop: BatchLoop, statement: ast.stmt) -> bool:
        """Whether a variable is set anew in each iteration, otherwise than by a statement."""
        inside = set(walk(loop.node)) - set(walk(statement))
        return any(b.node in inside for b in owner.bindings[name] if b.how is not How.AUGMENT)

    def _reads(self, world: World, found: Sum, loop: BatchLoop) -> list[ast.Name]:
        """Where the variable is read after the loop."""
        inside = set(walk(loop.node))
        return [
            n
            for n in world.facts.loads(found.owner, found.name)
            if n not in inside and position(n) > position(loop.node) and isinstance(n.ctx, ast.Load)
        ]

    def _gathered(self, world: World, found: Sum) -> ast.Call | None:
        """The collective operation that a variable's value gets into."""
        return world.joined.get((found.owner, found.name))

    def _handed_on(self, world: World, reads: list[ast.Name]) -> bool:
        """Whether the variable is given to something unknown: that may gather it."""
        for read in reads:
            for parent in world.index.ancestors(read):
                if isinstance(parent, ast.stmt):
                    break
                if isinstance(parent, ast.Call) and read is not parent.func and world.flow.unknown(parent):
                    return True
                if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
                    if parent.func.value is read and _is_metric(world, read):
                        continue
                    if world.resolver.roles(parent.func.value) & {Role.OBJECT} and parent.func.attr not in _HARMLESS:
                        if not world.together.verb(parent):
                            return True
        return False


def _is_metric(world: World, node: ast.expr) -> bool:
    """Whether a variable is a metric of Hugging Face's evaluate that is told of no other processes."""
    values = world.resolver.values(node)
    return bool(values) and all(
        v.name == "evaluate.load" and isinstance(v.origin, ast.Call) and not _TOLD & {k.arg for k in v.origin.keywords}
        for v in values
    )


_TOLD = frozenset({"num_process", "process_id", None})
_HARMLESS = frozenset("item append format info warning debug error write print log mean sum set_postfix".split())


class LocalMetric(_Evaluation):
    """A prepared loader gives each process its own share of the data. What is summed over its batches, and neither
    gathered nor reduced, is a number about that share: each process has another one, and the one that is printed is not
    that of the data set. Nor does dividing it by the number of processes make it the mean of theirs.
    """

    code = "METRIC-LOCAL"
    severity = Severity.ERROR
    title = "a metric covers one process's share of the data"
    wrong = """\
for inputs, targets in eval_loader:  # which is prepared
    correct += (model(inputs).argmax(1) == targets).sum().item()
accelerator.print(correct / len(dataset))
"""
    right = """\
for inputs, targets in eval_loader:
    guesses, targets = accelerator.gather_for_metrics((model(inputs).argmax(1), targets))
    correct += (guesses == targets).sum().item()
accelerator.print(correct / len(dataset))
"""

    def check(self, world: World) -> Iterator[Finding]:
        for division, local in divided.by_processes(world):
            yield Finding(
                self.code,
                self.severity,
                division.lineno,
                f"`{world.text(division)}` divides this process's own number by the number of processes, and nothing "
                "has added up those of all",
                "take accelerator.reduce(..., 'mean') of it, as a tensor, instead",
                (Evidence(local.node.lineno, local.text),),  # type: ignore[attr-defined]
            )
        if asks_for_process(world):
            return  # each process may keep its own results
        for loop in self._loops(world):
            for found in self._sums(world, loop):
                reads = self._reads(world, found, loop)
                if not reads or self._gathered(world, found) is not None or self._handed_on(world, reads):
                    continue
                place = loop.node
                assert isinstance(place, (ast.For, ast.AsyncFor))
                yield Finding(
                    self.code,
                    self.severity,
                    found.node.lineno,
                    f"`{found.name}` covers only this process's share of `{world.text(place.iter)}`, and nothing joins "
                    "the shares: every process has another number",
                    "gather the outputs and targets with accelerator.gather_for_metrics first",
                    (
                        Evidence(place.lineno, f"`{world.text(place.iter)}` is prepared"),
                        Evidence(found.local.node.lineno, found.local.text),  # type: ignore[attr-defined]
                        Evidence(reads[0].lineno, f"`{found.name}` is read after the loop"),
                    ),
                )
                break


class PaddedMetric(_Evaluation):
    """Accelerate repeats samples so that every process gets equally full batches. `gather` returns the repeated ones,
    too, so that a metric counts them twice wherever the data set is not a multiple of the batches of all processes.
    `gather_for_metrics` leaves them out.
    """

    code = "METRIC-PADDED"
    severity = Severity.ERROR
    title = "repeated samples are counted"
    library = "accelerate"
    wrong = """\
for inputs, targets in eval_loader:
    guesses, targets = accelerator.gather((model(inputs).argmax(1), targets))
    correct += (guesses == targets).sum().item()
"""
    right = """\
for inputs, targets in eval_loader:
    guesses, targets = accelerator.gather_for_metrics((model(inputs).argmax(1), targets))
    correct += (guesses == targets).sum().item()
"""

    def check(self, world: World) -> Iterator[Finding]:
        for loop in self._loops(world):
            if not self._padded(world, loop):
                continue
            assert isinstance(loop.node, (ast.For, ast.AsyncFor))
            for call in (n for s in loop.body for n in walk(s) if isinstance(n, ast.Call)):
                if world.together.of(call) != "gather" or not call.args:
                    continue
                local = world.flow.local(call.args[0])
                if local is None or self._truncates(world, call):
                    continue
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` also returns the samples that are repeated to fill up the last batches: "
                    "they are counted twice",
                    "use accelerator.gather_for_metrics, which leaves them out",
                    (
                        Evidence(loop.node.lineno, f"`{world.text(loop.node.iter)}` is prepared"),
                        Evidence(local.node.lineno, local.text),  # type: ignore[attr-defined]
                    ),
                )

    def _truncates(self, world: World, call: ast.Call) -> bool:
        """Whether what a call returns is cut to length: the repeated samples may be left out by the script itself."""
        home = world.index.function(call)
        for node in walk(world.index.tree):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.upper is not None:
                if world.index.function(node) is home and world.onwards.holds(node.value, call):
                    return True
                if call in world.flow.sources(node.value):
                    return True
        return False


class AfterLoop(_Evaluation):
    """Accelerate repeats samples so that every process gets equally full batches. Which ones is known inside the loop
    only, to `gather_for_metrics`. Sums of the processes' shares that are joined after the loop contain them.
    """

    code = "METRIC-AFTERLOOP"
    severity = Severity.ERROR
    title = "shares with repeated samples are joined after the loop"
    library = "accelerate"
    wrong = """\
for inputs, targets in eval_loader:
    correct += (model(inputs).argmax(1) == targets).sum()
correct = accelerator.reduce(correct)
"""
    right = """\
for inputs, targets in eval_loader:
    guesses, targets = accelerator.gather_for_metrics((model(inputs).argmax(1), targets))
    correct += (guesses == targets).sum()
"""

    def check(self, world: World) -> Iterator[Finding]:
        for loop in self._loops(world):
            if not self._padded(world, loop):
                continue
            inside = set(walk(loop.node))
            for found in self._sums(world, loop):
                call = self._gathered(world, found)
                if call is None or call in inside or world.together.of(call) not in _GATHERING:
                    continue
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{found.name}` was summed over prepared batches (line {found.node.lineno}) with the samples that "
                    f"are repeated to fill up the last ones: `{world.text(call)}` counts them twice",
                    "gather_for_metrics the outputs inside the loop instead",
                    (Evidence(found.local.node.lineno, found.local.text),),  # type: ignore[attr-defined]
                )
                break
