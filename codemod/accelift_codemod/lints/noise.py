"""Random numbers that are the same on every process, or come in another order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from accelift_codemod.facts.chance import drawn_from, seeds
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.loops import BatchLoop
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Evidence, Value
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.lints.data import asks_for_process
from accelift_codemod.plan import Finding, Severity


class SameNoise(Lint):
    """Processes that are seeded alike draw the same random numbers. Noise in the training loop is then the same for
    every process's part of the batch: N samples share what was drawn once. So are dropout masks.
    """

    code = "RNG-SAMENOISE"
    severity = Severity.NOTE
    title = "every process draws the same noise"
    wrong = """\
set_seed(0)
...
for images in loader:
    noise = torch.randn_like(images)
"""
    right = """\
set_seed(0)
...
model, loader = accelerator.prepare(model, loader)
set_seed(0, device_specific=True)
for images in loader:
    noise = torch.randn_like(images)
"""

    def check(self, world: World) -> Iterator[Finding]:
        seeded = [c for c in world.calls if seeds(world.resolver, c) and world.facts.runs(c)]
        seeded = [c for c in seeded if not world.ranks.perhaps_alone(c)]
        if not seeded or world.mentions("device_specific") or asks_for_process(world):
            return
        for loop in world.loops:
            if not loop.trains or not world.all_prepared(loop):
                continue
            drawn = next((call for call in _drawn_in(world, loop) if not _is_asked(world, call)), None)
            if drawn is not None:
                family = drawn_from(world.resolver, drawn)
                seed = next((c for c in seeded if _seeds_family(world, c, family)), None)
                if seed is None:
                    continue
                yield Finding(
                    self.code,
                    self.severity,
                    drawn.lineno,
                    f"`{world.text(drawn)}` draws the same numbers on every process: `{world.text(seed)}` "
                    f"(line {seed.lineno}) seeds them alike",
                    "call set_seed(seed, device_specific=True) after prepare",
                    (Evidence(seed.lineno, f"`{world.text(seed)}`"),),
                )
                return


class LookAhead(Lint):
    """Accelerate's prepared loader fetches the next batch before it hands out this one. Where the data set and the
    training loop draw from one generator (with `num_workers=0`), they draw in another order than with a plain
    DataLoader: with the same seed the script computes something else, on one process, too. (GPUs have generators of
    their own: what is drawn there is out of step only where the accelerator is the CPU. The bundled runtime does not
    fetch ahead.)
    """

    code = "RNG-LOOKAHEAD"
    severity = Severity.WARNING
    title = "the data set and the loop draw in another order"
    library = "accelerate"
    wrong = """\
class Noisy(Dataset):
    def __getitem__(self, index):
        return self.data[index] + torch.randn(8)
for inputs in accelerator.prepare(DataLoader(Noisy())):
    loss = model(inputs + torch.randn_like(inputs)).mean()
"""
    right = """\
class Noisy(Dataset):
    def __getitem__(self, index):
        return self.data[index] + torch.randn(8, generator=self.generator)
for inputs in accelerator.prepare(DataLoader(Noisy())):
    loss = model(inputs + torch.randn_like(inputs)).mean()
"""

    def check(self, world: World) -> Iterator[Finding]:
        if not world.seeds:
            return  # results are other ones each time anyway
        for loop in world.loops:
            if not loop.trains or not loop.direct or not world.all_prepared(loop):
                continue
            for value in loop.loaders:
                inside = self._in_data_set(world, world.original(value))
                for drawn in _drawn_in(world, loop) if inside is not None else ():
                    assert inside is not None
                    if drawn_from(world.resolver, drawn) != drawn_from(world.resolver, inside):
                        continue
                    sure = self._on_cpu(world, drawn) and self._on_cpu(world, inside)
                    where = "one generator" if sure else "one generator where the accelerator is the CPU"
                    yield Finding(
                        self.code,
                        self.severity if sure else Severity.NOTE,
                        drawn.lineno,
                        f"`{world.text(drawn)}` and `{world.text(inside)}` (line {inside.lineno}) of the data set draw "
                        f"from {where}, and Accelerate fetches the next batch before this one is handed out: both "
                        "get other numbers than without it",
                        "give the data set a generator of its own, or the DataLoader num_workers=1",
                    )
                    return

    def _on_cpu(self, world: World, call: ast.Call) -> bool:
        """Whether a call certainly draws from the CPU's generator: GPUs have their own."""
        cpu = world.setting("cpu")
        if drawn_from(world.resolver, call) != "torch" or is_constant(cpu, True):
            return True
        name = world.qualified(call)
        return bool(name) and not name.endswith("_like") and not any(k.arg == "device" for k in call.keywords)

    def _in_data_set(self, world: World, value: Value) -> ast.Call | None:
        """Where the data set of a loader without workers draws random numbers."""
        loader = world.facts.objects.loader(value)
        if loader.call is None or not loader.complete or loader.has_workers:
            return None
        for data in world.resolver.values(loader.arguments.get("dataset")):
            for name in ("__getitem__", "__iter__"):
                method = world.resolver.method(data.declaration, name)
                for node in walk(method) if method is not None else ():
                    if isinstance(node, ast.Call) and drawn_from(world.resolver, node):
                        return node
        return None


def _drawn_in(world: World, loop: BatchLoop) -> Iterator[ast.Call]:
    """The calls in the body of a loop that draw random numbers with every batch, on every process."""
    for statement in loop.body:
        for node in walk(statement):
            if isinstance(node, ast.Call) and drawn_from(world.resolver, node):
                if not world.ranks.perhaps_alone(node) and not any(
                    isinstance(p, FUNCTIONS) for p in _between(world, node, loop.node)
                ):
                    yield node


def _is_asked(world: World, call: ast.Call) -> bool:
    """Whether a number is drawn in a test: all processes have to decide alike."""
    chain = (call, *world.index.ancestors(call))
    return any(
        isinstance(outer, (ast.If, ast.While, ast.IfExp)) and outer.test is inner for inner, outer in pairwise(chain)
    )


def _between(world: World, node: ast.AST, outer: ast.AST) -> Iterator[ast.AST]:
    for parent in world.index.ancestors(node):
        if parent is outer:
            return
        yield parent


def _seeds_family(world: World, call: ast.Call, family: str) -> bool:
    """Whether a call seeds a library's generator with what is the same on every process."""
    home = world.qualified(call).partition(".")[0]
    if home not in (family, "accelerate", "accelift"):
        return False
    return not any(
        world.ranks.is_rank(part) or (isinstance(part, ast.Call) and world.flow.unknown(part))
        for argument in call.args
        for part in world.flow.sources(argument)
    )
