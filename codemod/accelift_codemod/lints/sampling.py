"""Which samples the processes are dealt: none twice, none never."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.accelerate import is_accelerator
from accelift_codemod.facts.chance import drawn_from, shuffles
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Evidence, Role, Value
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity


class RandomIndices(Lint):
    """Every process draws its batches from its own copy of the sampler, and all copies have to agree. One that shuffles
    with Python's or numpy's random numbers, or picks indices at random when it is made, does not, unless every process
    is seeded alike: some samples are dealt twice, others never. (The bundled runtime keeps samplers in step; indices
    that were picked before it cannot.)
    """

    code = "DATA-SAMPLER-RNG"
    severity = Severity.ERROR
    title = "every process orders the data differently"
    wrong = """\
class Shuffled(Sampler):
    def __iter__(self):
        return iter(numpy.random.permutation(self.size).tolist())
loader = accelerator.prepare(DataLoader(dataset, sampler=Shuffled(dataset)))
"""
    right = """\
class Shuffled(Sampler):
    def __iter__(self):
        return iter(numpy.random.default_rng(self.seed).permutation(self.size).tolist())
loader = accelerator.prepare(DataLoader(dataset, sampler=Shuffled(dataset)))
"""

    def check(self, world: World) -> Iterator[Finding]:
        for node, value in prepared_loaders(world):
            arguments = world.facts.objects.loader(value).arguments
            for name in ("sampler", "batch_sampler", "dataset"):
                draws = self._draws(world, arguments.get(name), name)
                family = drawn_from(world.resolver, draws) if draws is not None else ""
                if draws is not None and not world.seeding.alike(draws, family):
                    why = why_apart(world, family)
                    yield Finding(
                        self.code,
                        self.severity,
                        draws.lineno,
                        f"`{world.text(draws)}` draws other numbers on every process, since {why}: of "
                        f"`{world.text(node)}` some samples are dealt twice, others never",
                        "call set_seed before, or draw from a generator with a seed of its own",
                        (Evidence(value.origin.lineno, f"made by `{world.text(value.origin)}`"),),  # type: ignore[attr-defined]
                    )
                    break

    def _draws(self, world: World, argument: ast.expr | None, name: str) -> ast.Call | None:
        """The call that makes a sampler, or the indices of a data set, differ from process to process."""
        if argument is None:
            return None
        if world.library == "accelerate" and name != "dataset":
            for value in world.resolver.values(argument):
                method = world.resolver.method(value.declaration, "__iter__")
                for node in walk(method) if method is not None else ():
                    if isinstance(node, ast.Call) and shuffles(world.resolver, node):
                        return node
        for value in world.resolver.values(argument):
            made = value.origin
            if not isinstance(made, ast.Call) or world.qualified(made).rpartition(".")[2] not in (
                "Subset",
                "SubsetRandomSampler",
            ):
                continue
            for given in made.args:
                for part in world.flow.sources(given):
                    if isinstance(part, ast.Call) and shuffles(world.resolver, part):
                        return part
        return None


class Tail(Lint):
    """Where the batches of a data set cannot be shared out evenly, Accelerate deals some samples twice: their gradients
    count double in that step. With `even_batches=False` it does not, and some processes have a batch less: the others
    wait for them in backward until a timeout ends the job, unless the loop is under `join_uneven_inputs`. (The bundled
    runtime weights uneven shares.)
    """

    code = "DATA-TAIL"
    severity = Severity.WARNING
    title = "the last batches are not shared out evenly"
    wrong = """\
accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(even_batches=False))
...
for inputs, targets in loader:
    accelerator.backward(criterion(model(inputs), targets))
"""
    right = """\
accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(even_batches=False))
...
with accelerator.join_uneven_inputs([model]):
    for inputs, targets in loader:
        accelerator.backward(criterion(model(inputs), targets))
"""

    def check(self, world: World) -> Iterator[Finding]:
        uneven = next(self._uneven(world), None)
        if world.mentions("join_uneven_inputs") or not world.settings_known:
            return
        for loop in world.loops:
            if not loop.trains or not loop.direct or not world.all_prepared(loop):
                continue
            loaders = [world.facts.objects.loader(world.original(v)) for v in loop.loaders]
            if not all(one.complete and not {"drop_last", "batch_sampler"} & set(one.arguments) for one in loaders):
                continue
            assert isinstance(loop.node, (ast.For, ast.AsyncFor))
            place = world.text(loop.node.iter)
            if uneven is not None:
                yield Finding(
                    self.code,
                    self.severity,
                    loop.node.lineno,
                    f"`{place}` may deal some processes a batch less than others: with even_batches=False those wait "
                    "in backward until the job times out",
                    "put the loop under accelerator.join_uneven_inputs, or give the DataLoader drop_last=True",
                    (Evidence(uneven.lineno, f"`{world.text(uneven)}`"),),
                )
            elif world.library == "accelerate" and not world.mentions("even_batches"):
                yield Finding(
                    self.code,
                    Severity.NOTE,
                    loop.node.lineno,
                    f"`{place}` deals some samples twice where its data set is no multiple of the batches of all "
                    "processes",
                    "give the DataLoader drop_last=True if that matters",
                )
                return

    def _uneven(self, world: World) -> Iterator[ast.expr | ast.stmt]:
        """Where the accelerator is told not to make the processes' shares even."""
        configuration = world.setting("dataloader_config")
        values = world.resolver.values(configuration) if configuration is not None else ()
        for value in values:
            if isinstance(value.origin, ast.Call):
                for keyword in value.origin.keywords:
                    if keyword.arg == "even_batches" and isinstance(keyword.value, ast.Constant):
                        if keyword.value.value is False:
                            yield value.origin
        for target in world.index.attributes.get("even_batches", []):
            statement = world.index.parents.get(target)
            values = world.resolver.values(target.value)
            if isinstance(statement, ast.Assign) and values and all(map(is_accelerator, values)):
                if is_constant(statement.value, False):
                    yield statement


class Buckets(Lint):
    """Accelerate deals batches in rounds of one for each process, and takes a batch that is smaller than the sampler's
    `batch_size` for the end of the data: what others were dealt in that round is dropped. A batch sampler that groups
    samples of like length ends every group with such a batch. (The bundled runtime deals whatever comes.)
    """

    code = "DATA-BUCKET"
    severity = Severity.ERROR
    title = "batches of different sizes are dropped"
    library = "accelerate"
    wrong = """\
class Buckets(Sampler):
    def __iter__(self):
        for bucket in self.buckets:
            for start in range(0, len(bucket), self.batch_size):
                yield bucket[start : start + self.batch_size]
loader = accelerator.prepare(DataLoader(dataset, batch_sampler=Buckets(lengths, batch_size=32)))
"""
    right = """\
class Buckets(Sampler):
    def __iter__(self):
        for bucket in self.buckets:
            for start in range(0, len(bucket) - self.batch_size + 1, self.batch_size):
                yield bucket[start : start + self.batch_size]
loader = accelerator.prepare(DataLoader(dataset, batch_sampler=Buckets(lengths, batch_size=32)))
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.splits_batches:
            return
        for node, value in prepared_loaders(world):
            argument = world.facts.objects.loader(value).arguments.get("batch_sampler")
            for sampler in world.resolver.values(argument):
                smaller = self._smaller(world, sampler)
                if smaller is not None:
                    yield Finding(
                        self.code,
                        self.severity,
                        smaller.lineno,
                        f"`{world.text(smaller)}` yields a smaller batch at the end of each group: of "
                        f"`{world.text(node)}`, Accelerate drops what other processes were dealt in that round",
                        "yield full batches only, or leave the sampler without a batch_size attribute",
                        (Evidence(sampler.origin.lineno, f"`{world.text(sampler.origin)}`"),),  # type: ignore[attr-defined]
                    )
                    break

    def _smaller(self, world: World, sampler: Value) -> ast.Yield | None:
        """Where a batch sampler of the script yields a rest of each group, as parts `[start : start + batch_size]`."""
        method = world.resolver.method(sampler.declaration, "__iter__")
        if method is None or not self._has_size(world, sampler):
            return None
        for node in walk(method):
            if not isinstance(node, ast.Yield) or len(world.index.enclosing_loops(node)) < 2:
                continue
            inner = world.index.enclosing_loops(node)[0]
            part = node.value
            if (
                isinstance(part, ast.Subscript)
                and isinstance(part.slice, ast.Slice)
                and isinstance(inner, ast.For)
                and world.index.parents.get(world.index.statement(node)) is inner
                and self._goes_through(world, inner.iter, part.value)
                and len(inner.body) == 1
            ):
                return node
        return None

    def _goes_through(self, world: World, iterated: ast.expr, group: ast.expr) -> bool:
        """`range(0, len(group), step)`."""
        if not (isinstance(iterated, ast.Call) and world.resolver.builtin(iterated.func) == "range"):
            return False
        if len(iterated.args) != 3 or not isinstance(iterated.args[1], ast.Call):
            return False
        end = iterated.args[1]
        return (
            world.resolver.builtin(end.func) == "len"
            and len(end.args) == 1
            and ast.dump(end.args[0]) == ast.dump(group)
        )

    def _has_size(self, world: World, sampler: Value) -> bool:
        return any(
            world.index.enclosing_class(binding.node) in world.resolver.ancestry(sampler.declaration)
            for binding in world.index.attribute_bindings.get("batch_size", [])
        )


def why_apart(world: World, family: str) -> str:
    """Why every process draws other numbers from the generator of a library."""
    seed = world.seeding.apart(family)
    if seed is None:
        return "nothing seeds it"
    return f"`{world.text(seed)}` (line {seed.lineno}) seeds them otherwise"


def prepared_loaders(world: World) -> Iterator[tuple[ast.expr, Value]]:
    """The loaders that `prepare` is given, with the expressions."""
    for node, _ in world.prepared_arguments:
        for value in world.resolver.values(node):
            if value.role is Role.LOADER and not world.was_prepared(value, node):
                yield node, value
