"""Data that is not shared out among the processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.loops import BatchLoop
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Evidence, Role, Value, Values
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.lints.data import asks_for_process
from accelift_codemod.plan import Finding, Severity

_KNOWN_SAMPLERS = frozenset(
    f"torch.utils.data{home}.{name}"
    for home in ("", ".sampler")
    for name in ("RandomSampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler")
)


class Unsharded(Lint):
    """A DataLoader that is not prepared deals all of its data to every process. Each of them goes over all samples in
    every epoch, in the same batches if they are seeded alike: nothing is gained over one process. A generator that
    deals of the DataLoader is none: `prepare` returns it as it is.
    """

    code = "DATA-UNSHARDED"
    severity = Severity.WARNING
    title = "every process trains on all of the data"
    wrong = """\
model, optimizer = accelerator.prepare(model, optimizer)
for inputs, targets in DataLoader(dataset, batch_size=32, shuffle=True):
    ...
    accelerator.backward(loss)
"""
    right = """\
loader = DataLoader(dataset, batch_size=32, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for inputs, targets in loader:
    ...
    accelerator.backward(loss)
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.unknown_given or asks_for_process(world):
            return
        seen: set[ast.AST] = set()
        for loop in world.loops:
            if not loop.trains or not any(world.together.of(c) == "backward" for c in self._calls(world, loop.body)):
                continue
            early = self._drawn_before(world, loop)
            found: list[tuple[ast.expr, Values]]
            if early is not None:
                found = [(early, loop.loaders)]
            elif isinstance(loop.node, (ast.For, ast.AsyncFor)) and loop.direct:
                found = [(loop.node.iter, loop.loaders)]
            else:
                found = self._draws(world, loop)
            for place, loaders in found:
                given = early is None and any(map(world.is_given, loaders))
                if place in seen or given or not all(self._plain(world, v) for v in loaders):
                    continue
                seen.add(place)
                yield self._finding(world, place, loaders[0], early is not None)

    def _finding(self, world: World, place: ast.expr, loader: Value, early: bool) -> Finding:
        when, remedy = "was not prepared", "give the DataLoader to accelerator.prepare"
        drawn = place.args[0] if isinstance(place, ast.Call) and len(place.args) == 1 else place
        if early:
            when, remedy = "is of the DataLoader before it was prepared", "make it after accelerator.prepare"
        elif any(map(world.is_given, world.resolver.values(drawn))):
            when = "deals of a DataLoader that was not prepared (`prepare` returns what is none as it is)"
        made = loader.origin
        return Finding(
            self.code,
            self.severity,
            place.lineno,
            f"`{world.text(place)}` {when}: every process trains on all of the data",
            remedy,
            (Evidence(made.lineno, f"made by `{world.text(made)}`"),),  # type: ignore[attr-defined]
        )

    def _draws(self, world: World, loop: BatchLoop) -> list[tuple[ast.expr, Values]]:
        """The calls of `next` in a loop that draw what is trained on, with the loaders that they draw from: those that
        losses come from, or else all that gradients may flow from."""
        calls = [*self._calls(world, loop.body)]
        losses = [world.resolver.argument(c, 0, "loss") for c in calls if world.together.of(c) == "backward"]
        behind = {part for loss in losses if loss is not None for part in world.flow.sources(loss)}
        draws = {c for c in (*calls, *behind) if self._draws_next(world, c)}
        found: dict[ast.expr, Values] = {}
        for call in dict.fromkeys(calls):
            if call in draws and (call in behind or draws.isdisjoint(behind)):
                batches = [v for v in world.resolver.values(call) if v.role is Role.BATCH]
                loaders = tuple(v for b in batches for inner in b.inner for v in inner if v in loop.loaders)
                if loaders:
                    found[call] = loaders
        return [*found.items()]

    def _draws_next(self, world: World, node: ast.AST) -> bool:
        """`next(batches)`, where gradients may flow from what it draws."""
        calls = isinstance(node, ast.Call) and world.resolver.builtin(node.func) == "next"
        return calls and not world.gradients_off(node)

    def _drawn_before(self, world: World, loop: BatchLoop) -> ast.Call | None:
        """What a loop draws from, if it was made of loaders before they were prepared: `batches = iter(loader)`."""
        origins = {v.origin for v in loop.loaders}
        prepares = [c for a, c in world.prepared_arguments if {v.origin for v in world.resolver.values(a)} & origins]
        for name in (n for n in walk(loop.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)):
            bindings = world.resolver.bindings(name)
            made = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
            if not isinstance(made, ast.Call) or not made.args or {v.origin for v in _drawn(world, made)} != origins:
                continue
            if prepares and all(world.certainly_before(made, c) and made.lineno < c.lineno for c in prepares):
                return made
        return None

    def _calls(self, world: World, statements: list[ast.stmt]) -> Iterator[ast.Call]:
        """The calls of statements, and of functions of the script that they call."""
        seen: set[ast.AST] = set()
        queue: list[ast.AST] = [*statements]
        while queue:
            for node in walk(queue.pop()):
                if isinstance(node, ast.Call):
                    yield node
                    target = world.resolver.callee(node)
                    if isinstance(target, FUNCTIONS) and target not in seen:
                        seen.add(target)
                        queue.append(target)

    def _plain(self, world: World, value: Value) -> bool:
        """Whether a loader certainly deals all of its data to every process, and that is the data of all of them."""
        loader = world.facts.objects.loader(value)
        if loader.call is None or not loader.complete or "batch_sampler" in loader.arguments:
            return False
        dataset = loader.arguments.get("dataset")
        if dataset is not None and world.collects(dataset):
            return False
        sampler = loader.arguments.get("sampler")
        return "sampler" not in loader.arguments or (
            sampler is not None
            and all(v.name in _KNOWN_SAMPLERS for v in world.resolver.values(sampler))
            and bool(world.resolver.values(sampler))
        )


def _drawn(world: World, call: ast.Call) -> Values:
    """The loaders that are certainly not prepared, of which `iter(loader)`, or a function of the script, deals."""
    values = world.resolver.values(call.args[0])
    deals = world.resolver.builtin(call.func) in ("iter", "enumerate") or world.resolver.callee(call) is not None
    plain = all(v.role is Role.LOADER and not world.resolver.is_prepared(v) for v in values)
    return values if deals and plain else ()
