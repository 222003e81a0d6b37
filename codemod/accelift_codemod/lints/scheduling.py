"""Learning rates that move at another pace on several processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import FUNCTIONS, How, position
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Evidence, Role, Value
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity

_PLATEAU = "torch.optim.lr_scheduler.ReduceLROnPlateau"


class _Stepped(Lint):
    """A lint about where a scheduler is stepped."""

    def _steps(self, world: World, prepared: bool) -> Iterator[tuple[ast.Call, list[Value]]]:
        """Calls of a scheduler's `step`, with the schedulers, as they were made, of which it is one."""
        for call in world.index.methods.get("step", []):
            assert isinstance(call.func, ast.Attribute)
            values = world.resolver.values(call.func.value)
            if values and all(v.role is Role.SCHEDULER and self._is(world, v, prepared) for v in values):
                yield call, [world.original(v) for v in values]

    def _is(self, world: World, scheduler: Value, prepared: bool) -> bool:
        """Whether a scheduler was prepared, or certainly was not."""
        return world.resolver.is_prepared(scheduler) is prepared and (prepared or not world.is_given(scheduler))

    def _made(self, world: World, schedulers: list[Value]) -> tuple[Evidence, ...]:
        origins = sorted((scheduler.origin for scheduler in schedulers), key=position)
        return tuple(Evidence(made.lineno, f"made by `{world.text(made)}`") for made in origins)  # type: ignore[attr-defined]

    def _repeats(self, world: World) -> bool:
        """Whether a prepared scheduler steps once for each process."""
        flag = world.setting("step_scheduler_with_optimizer")
        return world.settings_known and flag is None and not world.splits_batches


class PerEpoch(_Stepped):
    """Accelerate's prepared scheduler steps as many times as there are processes for each call of `step`, since it
    takes calls for those of a script whose batches have become as many times fewer. A scheduler stepped once for each
    epoch so runs through its schedule N times too fast, unless it is told the epoch (`scheduler.step(epoch)`).
    """

    code = "SCHED-EPOCH"
    severity = Severity.ERROR
    title = "a prepared scheduler is stepped once an epoch"
    library = "accelerate"
    wrong = """\
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for epoch in range(epochs):
    for batch in loader:
        ...
    scheduler.step()
"""
    right = """\
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(epochs):
    for batch in loader:
        ...
    scheduler.step()
"""
    plateau = False
    times = "N times"

    def check(self, world: World) -> Iterator[Finding]:
        if not self._repeats(world):
            return
        trains = [loop for loop in world.loops if loop.trains]
        for call, chosen in self._steps(world, prepared=True):
            # Of several, a call that tells nothing is of one that needs to be told nothing.
            schedulers = [one for one in chosen if (one.name == _PLATEAU) is self.plateau]
            if not schedulers or (self.plateau and schedulers != chosen):
                continue
            if any(self._is_told(call, one) or mentions_process_count(world, one.origin) for one in schedulers):
                continue
            loops = world.rounds(call)
            if not loops or any(loop.node in loops for loop in world.loops):
                continue
            if not any(loops[0] in world.index.enclosing_loops(loop.node) for loop in trains):
                if not any(self._trains_in(world, n) for n in walk(loops[0]) if isinstance(n, ast.Call)):
                    continue
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` steps {self.times} for each epoch, once for each process",
                "do not prepare the scheduler, or give the accelerator step_scheduler_with_optimizer=False",
                self._made(world, schedulers),
            )

    def _is_told(self, call: ast.Call, scheduler: Value) -> bool:
        """Whether a step is told the epoch: repeated, it sets the same rate."""
        told = bool(call.args or call.keywords)
        return told and not self.plateau and not scheduler.name.endswith(".MultiplicativeLR")

    def _trains_in(self, world: World, call: ast.Call) -> bool:
        target = world.resolver.callee(call)
        return isinstance(target, FUNCTIONS) and any(loop.trains and loop.function is target for loop in world.loops)


class Plateau(PerEpoch):
    """Accelerate's prepared scheduler steps as many times as there are processes for each call of `step`. For
    ReduceLROnPlateau each of these counts as an epoch without improvement, so that its patience is N times shorter.
    """

    code = "SCHED-PLATEAU"
    title = "a prepared ReduceLROnPlateau loses its patience"
    wrong = """\
optimizer, scheduler = accelerator.prepare(optimizer, ReduceLROnPlateau(optimizer, patience=5))
for epoch in range(epochs):
    train(...)
    scheduler.step(evaluate(...))
"""
    right = """\
optimizer = accelerator.prepare(optimizer)
scheduler = ReduceLROnPlateau(optimizer, patience=5)
for epoch in range(epochs):
    train(...)
    scheduler.step(evaluate(...))
"""
    plateau = True
    times = "N times (which uses up its patience)"


class Length(_Stepped):
    """Accelerate's prepared scheduler steps N times for each call, for N processes, and a prepared loader has N times
    fewer batches. So the length of a schedule has to be computed from the loader before `prepare`, if the scheduler is
    prepared; and from the prepared loader, if it is not. The other way round the schedule ends N times too early, or is
    never finished.
    """

    code = "SCHED-LEN"
    severity = Severity.ERROR
    title = "the schedule has the wrong length"
    library = "accelerate"
    wrong = """\
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
scheduler = get_linear_schedule_with_warmup(optimizer, 0, len(loader) * epochs)
scheduler = accelerator.prepare(scheduler)
"""
    right = """\
scheduler = get_linear_schedule_with_warmup(optimizer, 0, len(loader) * epochs)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
"""

    def check(self, world: World) -> Iterator[Finding]:
        if not self._repeats(world) or world.unknown_given:
            return
        for prepared in (True, False):
            for call, schedulers in self._steps(world, prepared):
                loop = world.around(call)
                made = schedulers[0].origin
                if len(schedulers) > 1 or loop is None or not loop.trains or not isinstance(made, ast.Call):
                    continue
                length = self._length(world, made, prepared)
                if length is None:
                    steps = self._steps_of(world, call, made) if prepared else None
                    if steps is not None:
                        yield self._of_steps(world, call, made, steps)
                    continue
                where = f"line {length.lineno}"
                what = (
                    f"the prepared scheduler steps N times for each batch, and `{world.text(length)}` ({where}) is the "
                    "prepared loader's length, N times less: the schedule is over after a part of the training"
                    if prepared
                    else f"the scheduler steps once for each batch of a process, and `{world.text(length)}` ({where}) "
                    "is the length before prepare, N times more: the schedule is never finished"
                )
                yield Finding(
                    self.code,
                    self.severity,
                    made.lineno,
                    what,
                    "take the length before prepare and prepare the scheduler",
                    (Evidence(call.lineno, f"`{world.text(call)}`"),),
                )

    def _of_steps(self, world: World, call: ast.Call, made: ast.Call, steps: ast.expr) -> Finding:
        return Finding(
            self.code,
            self.severity,
            made.lineno,
            f"the prepared scheduler steps N times for each batch, and is made for `{world.text(steps)}` steps, as "
            "many as the loop makes on each process: the schedule is over after a part of the training",
            f"give it {world.text(steps)} * accelerator.num_processes steps",
            (Evidence(call.lineno, f"`{world.text(call)}`"),),
        )

    def _steps_of(self, world: World, call: ast.Call, made: ast.Call) -> ast.expr | None:
        """The number of steps that a schedule is made for, if it is the one at which the loop around a step ends."""
        if mentions_process_count(world, made) or self._may_be_constant(world, made):
            return None
        ends: set[str] = set()
        for loop in world.index.enclosing_loops(call):
            tests = world.facts.loops.endings(loop) if isinstance(loop, (ast.For, ast.While)) else []
            ends |= {text for test in tests if (text := self._end(world, test))}
        given = [*made.args[1:], *(k.value for k in made.keywords if k.arg != "optimizer")]
        return next((g for g in given if isinstance(g, (ast.Name, ast.Attribute)) and ast.unparse(g) in ends), None)

    def _may_be_constant(self, world: World, made: ast.Call) -> bool:
        """Whether a schedule may have no length: `get_scheduler(args.kind, ...)`."""
        if not world.qualified(made).endswith(".get_scheduler"):
            return False
        kind = world.resolver.argument(made, 0, "name")
        return not isinstance(kind, ast.Constant) or "constant" in str(kind.value)

    def _end(self, world: World, test: ast.expr) -> str:
        """What a counter of single steps is compared with: `step >= steps`."""
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
            return ""
        counter, end = test.left, test.comparators[0]
        orders = isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq))
        if not orders or not isinstance(counter, ast.Name):
            return ""
        owner = world.index.scope(counter).owner(counter.id)
        steps = [b.value for b in owner.bindings[counter.id] if b.how is How.AUGMENT] if owner is not None else []
        ones = bool(steps) and all(isinstance(s, ast.Constant) and s.value == 1 for s in steps)
        return ast.unparse(end) if ones and isinstance(end, (ast.Name, ast.Attribute)) else ""

    def _length(self, world: World, made: ast.Call, prepared: bool) -> ast.Call | None:
        """The length of the (prepared, or not yet prepared) loader that a schedule is made for."""
        if mentions_process_count(world, made):
            return None
        lengths = []
        for part in world.flow.sources(made):
            if isinstance(part, ast.Call) and world.resolver.builtin(part.func) == "len" and len(part.args) == 1:
                values = world.resolver.values(part.args[0])
                if values and all(v.role is Role.LOADER for v in values):
                    lengths.append((part, values))
        for _, values in lengths:
            if not all(world.resolver.is_prepared(v) is prepared and world.is_given(v) for v in values):
                return None
        return lengths[0][0] if lengths else None


class PerMicroBatch(_Stepped):
    """A prepared scheduler waits, as a prepared optimizer does, until the accumulated gradients are applied. One that
    is not prepared steps with every micro-batch: the learning rate moves as many times too fast as batches are
    accumulated.
    """

    code = "SCHED-UNPREPARED"
    severity = Severity.WARNING
    title = "a scheduler steps with every micro-batch"
    wrong = """\
with accelerator.accumulate(model):
    accelerator.backward(loss)
    optimizer.step()
    scheduler.step()  # which was not prepared
"""
    right = """\
scheduler = accelerator.prepare(scheduler)
...
with accelerator.accumulate(model):
    accelerator.backward(loss)
    optimizer.step()
    scheduler.step()
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.unknown_given or world.steps is None:
            return
        for call, schedulers in self._steps(world, prepared=False):
            context = world.accumulating(call)
            if world.index.statement(call) not in (context.body if context is not None else self._beside(world, call)):
                continue
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` was not prepared and steps with every micro-batch, whether the optimizer steps "
                "or not",
                "give the scheduler to accelerator.prepare, or step it under `if accelerator.sync_gradients:`",
                self._made(world, schedulers),
            )

    def _beside(self, world: World, call: ast.Call) -> list[ast.stmt]:
        """The statements of an iteration in which an `accumulate` stands beside a call."""
        block, _ = world.index.block(world.index.statement(call))
        loops = [loop for loop in world.loops if loop.trains and loop.body is block]
        around = any(isinstance(s, ast.With) and any(map(world.accumulates, s.items)) for s in block)
        return block if loops and around else []


def mentions_process_count(world: World, made: ast.AST) -> bool:
    """Whether a scheduler was made with the number of processes in mind."""
    return any(
        isinstance(n, ast.Attribute) and n.attr in ("num_processes", "get_world_size") for n in world.flow.sources(made)
    )
