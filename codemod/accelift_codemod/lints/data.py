"""Data that is dealt to the processes twice, not at all, or differently."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import library
from accelift_codemod.facts.showing import is_on_a_bar
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Evidence, Role, Value
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity

_INDEX = frozenset("process_index local_process_index data_parallel_rank".split())
_LOGS = frozenset({"info", "debug", "warning", "error"})
_CHOOSES = frozenset({"torch.device", "torch.cuda.set_device"})
_SAMPLERS = frozenset({"torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler"})


class ShardedTwice(Lint):
    """`prepare` deals the batches of a DataLoader out among the processes. If its sampler, or its data set, has dealt
    them out before, each process gets a part of its part, and most samples are never seen.
    """

    code = "DATA-DOUBLESHARD"
    severity = Severity.ERROR
    title = "data is shared out twice"
    wrong = """\
sampler = DistributedSampler(dataset)
loader = accelerator.prepare(DataLoader(dataset, batch_size=32, sampler=sampler))
"""
    right = """\
loader = accelerator.prepare(DataLoader(dataset, batch_size=32, shuffle=True))
"""

    def check(self, world: World) -> Iterator[Finding]:
        for node, call in world.prepared_arguments:
            values = [v for v in world.resolver.values(node) if not world.was_prepared(v, node)]
            loaders = [v for v in values if v.role is Role.LOADER]
            cuts = [self._cut(world, value) for value in loaders]
            if None in cuts:
                continue  # it may be another loader, made where there is no accelerator to share it out
            for value, cut in zip(loaders, cuts, strict=True):
                if cut is not None:
                    yield Finding(
                        self.code,
                        self.severity,
                        call.lineno,
                        f"`{world.text(node)}` is shared out among the processes by `{world.text(call.func)}`, and was "
                        f"by `{world.text(cut)}` (line {cut.lineno}) before: most samples are never seen",  # type: ignore[attr-defined]
                        "leave that out: prepare does it",
                        (Evidence(value.origin.lineno, f"made by `{world.text(value.origin)}`"),),  # type: ignore[attr-defined]
                    )
                    break

    def _cut(self, world: World, value: Value) -> ast.AST | None:
        """What deals a loader's data out among processes already."""
        loader = world.facts.objects.loader(value)
        sampler = loader.arguments.get("sampler")
        if sampler is not None and world.library == "accelerate":
            values = world.resolver.values(sampler)
            if values and all(v.name in _SAMPLERS for v in values):
                return values[0].origin
        dataset = loader.arguments.get("dataset")
        if dataset is None:
            return None
        for value in world.resolver.values(dataset):
            for cls in world.resolver.ancestry(value.declaration):
                for node in walk(cls):
                    if self._takes_turns(world, node):
                        return node
        for part in world.flow.sources(dataset):
            if self._cuts(world, part):
                return part
        return None

    def _takes_turns(self, world: World, node: ast.AST) -> bool:
        """`index % world == rank`."""
        if not (isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)):
            return False
        sides = (node.left, node.comparators[0])
        return any(world.ranks.is_rank(s) for s in sides) and any(
            isinstance(s, ast.BinOp) and isinstance(s.op, ast.Mod) for s in sides
        )

    def _cuts(self, world: World, node: ast.AST) -> bool:
        """`range(rank, n, world)`, `data[rank::world]`, `.shard(world, rank)`, `split_dataset_by_node(...)`."""
        if isinstance(node, ast.Slice):
            return node.lower is not None and node.step is not None and world.ranks.is_rank(node.lower)
        if isinstance(node, ast.Call):
            if world.resolver.builtin(node.func) == "range":
                return len(node.args) == 3 and world.ranks.is_rank(node.args[0])
            if world.qualified(node) == "datasets.distributed.split_dataset_by_node":
                return True
            if isinstance(node.func, ast.Attribute) and node.func.attr == "shard":
                index = world.resolver.argument(node, 1, "index")
                return index is not None and world.ranks.is_rank(index)
        return False


class LoaderClass(Lint):
    """Accelerate's `prepare` builds a loader of its own from the attributes of the given one. Of a subclass of
    DataLoader the methods are lost: an `__iter__` or `__len__` of its own is not called any more.
    """

    code = "DATA-SUBCLASS"
    severity = Severity.ERROR
    title = "a DataLoader's own methods are lost"
    library = "accelerate"
    wrong = """\
class Repeated(DataLoader):
    def __iter__(self):
        ...
loader = accelerator.prepare(Repeated(dataset))
"""
    right = """\
loader = accelerator.prepare(DataLoader(dataset))
for batch in repeated(loader):
    ...
"""

    def check(self, world: World) -> Iterator[Finding]:
        for node, call in world.prepared_arguments:
            for value in world.resolver.values(node):
                if world.resolver.base_role(value.declaration) is not Role.LOADER or world.was_prepared(value, node):
                    continue
                for name in ("__iter__", "__len__"):
                    method = world.resolver.method(value.declaration, name)
                    if method is not None:
                        yield Finding(
                            self.code,
                            self.severity,
                            call.lineno,
                            f"`{world.text(node)}` is rebuilt as a plain DataLoader: its own {name} is not called any "
                            "more",
                            "prepare a plain DataLoader, and change its batches in a function around it",
                            (Evidence(method.lineno, f"{name}() of its class"),),
                        )
                        break


class Replicated(Lint):
    """A loader that is not prepared gives every process all of the data. Evaluated on it, each computes the same
    numbers: they are right, and nothing is gained by several processes.
    """

    code = "EVAL-REPLICATED"
    severity = Severity.NOTE
    title = "every process evaluates everything"
    wrong = """\
for inputs, targets in eval_loader:  # which is not prepared
    correct += (model(inputs).argmax(1) == targets).sum()
"""
    right = """\
eval_loader = accelerator.prepare(eval_loader)
for inputs, targets in eval_loader:
    guesses, targets = accelerator.gather_for_metrics((model(inputs).argmax(1), targets))
    correct += (guesses == targets).sum()
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.unknown_given or asks_for_process(world) or not world.prepared_arguments:
            return
        for loop in world.loops:
            if loop.trains or not loop.direct or not loop.body or any(world.is_given(v) for v in loop.loaders):
                continue
            calls = [n for s in loop.body for n in walk(s) if isinstance(n, ast.Call)]
            if world.ranks.perhaps_alone(loop.node) or not any(world.prepared(c.func, Role.MODEL) for c in calls):
                continue
            assert isinstance(loop.node, (ast.For, ast.AsyncFor))
            place = loop.node.iter
            yield Finding(
                self.code,
                self.severity,
                place.lineno,
                f"every process evaluates all of `{world.text(place)}`, which was not prepared",
                "prepare it and gather_for_metrics the outputs, if that takes long",
            )


class BatchScale(Lint):
    """A prepared loader gives each process batches of the size that it was made with: N processes together take N times
    as many samples for a step. Learning rates and schedules made for one process mean something else.
    """

    code = "BATCH-SCALE"
    severity = Severity.NOTE
    title = "the global batch grows with the processes"
    wrong = """\
accelerator = Accelerator()
loader = accelerator.prepare(DataLoader(dataset, batch_size=64))
"""
    right = """\
accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))
loader = accelerator.prepare(DataLoader(dataset, batch_size=64))
"""

    def check(self, world: World) -> Iterator[Finding]:
        if world.splits_batches or world.mentions("num_processes"):
            return
        for loop in world.loops:
            if loop.trains and world.all_prepared(loop):
                made = world.original(loop.loaders[0]).origin
                yield Finding(
                    self.code,
                    self.severity,
                    made.lineno,  # type: ignore[attr-defined]
                    f"`{world.text(made)}`: each of N processes takes batches of that size, N times as many samples "
                    "for a step",
                    "adapt the learning rate, or give Accelerator DataLoaderConfiguration(split_batches=True)",
                )
                return


class SplitIgnored(Lint):
    """`Accelerator(split_batches=True)` was how the batches of one process could be split among several. Accelerate 1
    still takes the argument, and ignores it: each of N processes gets whole batches, and a prepared scheduler steps N
    times. It is an argument of `DataLoaderConfiguration` now.
    """

    code = "SPLIT-IGNORED"
    severity = Severity.WARNING
    title = "split_batches is ignored"
    library = "accelerate"
    wrong = """\
accelerator = Accelerator(split_batches=True)
"""
    right = """\
accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))
"""

    def check(self, world: World) -> Iterator[Finding]:
        for made in world.accelerators:
            told = world.resolver.argument(made, 1, "split_batches")
            if told is None or (isinstance(told, ast.Constant) and not told.value):
                continue
            yield Finding(
                self.code,
                self.severity,
                made.lineno,
                f"Accelerate 1 ignores `split_batches={world.text(told)}`: each of N processes gets whole batches",
                "give Accelerator dataloader_config=DataLoaderConfiguration(split_batches=True)",
            )


def asks_for_process(world: World) -> bool:
    """Whether the script asks for the number of its process, not only to show it or to choose a device: it may share
    out data by itself."""
    for name in _INDEX:
        if any(not _only_shown(world, node) for node in world.index.attributes.get(name, [])):
            return True
    return any(
        (isinstance(n, ast.Attribute) and n.attr in ("get_rank", "split_between_processes"))
        or (isinstance(n, ast.Constant) and n.value in ("RANK", "LOCAL_RANK", "rank", "local_rank"))
        or (isinstance(n, ast.Name) and n.id in ("split_dataset_by_node", "DistributedSampler", "get_rank"))
        for n in walk(world.index.tree)
    )


def _only_shown(world: World, node: ast.AST, steps: int = 4) -> bool:
    """Whether the number of a process, or a text with it, is only shown, tells the main process from others, or is that
    of its GPU; also by the variables that hold it."""
    if world.ranks.is_rank(node) and isinstance(world.index.parents.get(node), ast.Compare):
        return True
    statement, child = world.index.statement(node), node
    texts = True
    for parent in world.index.ancestors(node):
        if isinstance(parent, ast.Call):
            if world.qualified(parent) in _CHOOSES or is_on_a_bar(world.resolver, parent):
                return True
            if isinstance(statement, ast.Expr) and statement.value is parent:
                logs = isinstance(parent.func, ast.Attribute) and parent.func.attr in _LOGS
                return logs or world.resolver.builtin(parent.func) == "print" or world.together.verb(parent) == "print"
            if isinstance(statement, ast.Raise):
                return True
        elif isinstance(parent, ast.keyword) and _is_of_bar(world, parent):
            return True
        texts = texts and _is_text(world, parent)
        if parent is statement:
            held = isinstance(parent, ast.Assign) and len(parent.targets) == 1 and child is parent.value
            return texts and held and _held_to_show(world, parent.targets[0], steps)  # type: ignore[attr-defined]
        child = parent
    return False


def _is_of_bar(world: World, told: ast.keyword) -> bool:
    """Whether something says what a progress bar is called, or where it is."""
    call = world.index.parents.get(told)
    return told.arg in ("desc", "position") and isinstance(call, ast.Call) and world.qualified(call) in library.TQDM


def _is_text(world: World, node: ast.AST) -> bool:
    """Whether an expression makes a text of what it is given, or a statement keeps it."""
    if isinstance(node, ast.Call):
        return (isinstance(node.func, ast.Attribute) and node.func.attr == "format") or _is_format(world, node)
    return isinstance(node, (ast.JoinedStr, ast.FormattedValue, ast.Assign, ast.Attribute)) or _is_joined(node)


def _is_format(world: World, node: ast.Call) -> bool:
    return world.resolver.builtin(node.func) == "str"


def _is_joined(node: ast.AST) -> bool:
    """`"rank %d" % rank`, `"rank " + str(rank)`."""
    return isinstance(node, ast.BinOp) and any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) for n in (node.left, node.right)
    )


def _held_to_show(world: World, target: ast.expr, steps: int) -> bool:
    """Whether a variable is read, and only to show it."""
    owner = world.index.scope(target).owner(target.id) if isinstance(target, ast.Name) and steps else None
    reads = list(world.facts.loads(owner, target.id)) if owner is not None else []  # type: ignore[attr-defined]
    return bool(reads) and all(_only_shown(world, read, steps - 1) for read in reads)
