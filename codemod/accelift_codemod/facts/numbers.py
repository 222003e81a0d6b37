"""What a script that distributes itself knows of its processes: ranks and their number, wherever it has them from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property

from accelift_codemod.facts import library
from accelift_codemod.facts.command_line import CommandLine
from accelift_codemod.facts.index import FUNCTIONS, Binding, How, position
from accelift_codemod.facts.machines import Machines, machines
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.spawned import SPAWN
from accelift_codemod.facts.starters import OF_LAUNCHERS, Part, Starters
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.uses import is_called
from accelift_codemod.facts.values import Role

NAMES = frozenset(library.DISTRIBUTED)
_MEMBERS = frozenset("DistributedDataParallel DistributedSampler distributed spawn Process fsdp".split())
AVAILABLE = frozenset({"torch.distributed.is_available", "torch.distributed.is_nccl_available"})
ASKED = {
    "torch.distributed.get_rank": Part.RANK,
    "torch.distributed.get_node_local_rank": Part.LOCAL_RANK,
    "torch.distributed.get_world_size": Part.WORLD_SIZE,
}
_STARTS = frozenset(
    {
        "torch.distributed.init_process_group",
        SPAWN,
        "torch.multiprocessing.Process",
        "horovod.torch.init",
        "deepspeed.init_distributed",
        "deepspeed.initialize",
    }
)
_OPTIONS = {"--local_rank": Part.LOCAL_RANK, "--local-rank": Part.LOCAL_RANK}  # of torch.distributed.launch


class Numbers:
    """Finds the numbers of processes that a script asks for, and where it has them."""

    def __init__(
        self,
        resolver: Resolver,
        command_line: CommandLine,
        ranks: frozenset[ast.AST],
        idle: Callable[[ast.AST], bool] = lambda node: False,
    ) -> None:
        self.resolver = resolver
        self.idle = idle  # whether code is there for other scripts only
        self.ranks = ranks  # of the processes that the script starts itself (see spawned.py)
        self.index = resolver.index
        self.command_line = command_line
        self.starters = Starters(resolver)

    # ---- what is asked

    @cached_property
    def _mentioned(self) -> bool:
        """Whether the script may use such a name at all: a look at imports and attributes."""
        imports = (b for s in self.index.scopes.values() for found in s.bindings.values() for b in found)
        return any(
            b.how is How.IMPORT and library.matches(b.qualified, NAMES) is not None for b in imports
        ) or not _MEMBERS.isdisjoint(self.index.attributes)

    @cached_property
    def uses(self) -> list[tuple[ast.Name | ast.Attribute, str]]:
        """The whole names of torch.distributed and its like that the script writes, in source order.

        Not what asks whether torch has such a thing, which no process group changes.
        """
        if not self._mentioned:
            return []
        names: Iterator[ast.Name | ast.Attribute] = (
            n for s in self.index.scopes.values() for found in s.loads.values() for n in found
        )
        found = []
        for node in [*names, *(a for nodes in self.index.attributes.values() for a in nodes)]:
            parent = self.index.parents.get(node)
            if isinstance(parent, ast.Attribute) and self.resolver.qualified(parent) is not None:
                continue
            qualified = self.resolver.qualified(node)
            if qualified is not None and library.matches(qualified, NAMES) is not None and not self.idle(node):
                found.append((node, qualified.replace(".distributed_c10d.", ".")))
        found = [use for use in found if use[1] not in AVAILABLE]
        return sorted(found, key=lambda use: position(use[0]))

    def calls(self, *names: str) -> list[ast.Call]:
        """The calls of some of these names."""
        return [self.index.parents[n] for n, q in self.uses if q in names and is_called(self.index, n)]  # type: ignore[misc]

    @cached_property
    def starts(self) -> list[ast.Name | ast.Attribute]:
        """What makes a process group, or starts processes."""
        return [node for node, name in self.uses if name in _STARTS]

    @cached_property
    def groups(self) -> list[ast.Call]:
        """The calls that make the process group."""
        return self.calls("torch.distributed.init_process_group")

    # ---- numbers of processes

    @cached_property
    def sources(self) -> dict[ast.expr, Part]:
        """The expressions that ask for a number of processes, which the accelerator answers instead."""
        found: dict[ast.expr, Part] = {}
        if not self.uses:
            return found
        if self.machines is not None:
            found |= dict.fromkeys(self.machines.ranks, Part.RANK)
            found |= dict.fromkeys(self.machines.worlds, Part.WORLD_SIZE)
        for rank in (r for r in self.ranks if isinstance(r, ast.Call)):
            found[rank] = Part.RANK if self.machines is None else Part.LOCAL_RANK
            if self.machines is not None:
                continue
            world = self._origin(rank.args[0])
            if not isinstance(world, (ast.Constant, ast.Attribute)):
                found[world] = Part.WORLD_SIZE
        for call in self.index.calls:
            part = self._asked(call)
            if part is not None and not self._is_default(call):
                found[call] = part
        for name in self.command_line.options:
            for node in self.index.attributes.get(name, []):
                option = self._option(node) if isinstance(node.ctx, ast.Load) else None
                if option is not None:
                    found[node] = option
        return found

    @cached_property
    def machines(self) -> Machines | None:
        """The sums by which a script numbers processes on several machines, if it starts them on each by itself."""
        started = [r for r in self.ranks if isinstance(r, ast.Call)]
        if len(started) != 1 or len(self.groups) != 1:
            return None
        return machines(self.index, self._ends, self._is_given, started[0], self.groups[0])

    def _ends(self, node: ast.expr) -> frozenset[ast.expr]:
        """The expressions that a value comes from, through variables, parameters and attributes; empty if unknown."""
        found: set[ast.expr] = set()
        seen: set[ast.expr] = set()
        todo: list[ast.expr | None] = [node]
        while todo:
            one = todo.pop()
            if one is None:
                return frozenset()
            if one in seen:
                continue
            seen.add(one)
            if not isinstance(one, (ast.Name, ast.Attribute)) or one in self.ranks:
                found.add(one)
                continue
            named = isinstance(one, ast.Name)
            bindings = self.resolver.bindings(one) if isinstance(one, ast.Name) else self.index.set_as_spelled(one)
            if not bindings and named:
                return frozenset()
            found |= set() if bindings else {one}
            for binding in bindings:
                if binding.how is How.PARAMETER:
                    todo += self.resolver.handed(binding)
                else:
                    todo.append(binding.value if binding.how is How.ASSIGN and not binding.path else None)
        return frozenset(found)

    def _is_given(self, node: ast.expr) -> bool:
        """Whether an attribute is an option of the command line."""
        known = isinstance(node, ast.Attribute) and node.attr in self.command_line.options
        return known and Role.ARGUMENTS in self.resolver.roles(node.value)  # type: ignore[attr-defined]

    def _origin(self, node: ast.expr) -> ast.expr:
        """What a variable is made from, through others, if each is made in one place."""
        seen: set[ast.expr] = set()
        while node not in seen:
            seen.add(node)
            if isinstance(node, ast.Name):
                bindings = self.resolver.bindings(node)
            elif isinstance(node, ast.Attribute):
                bindings = self.index.set_as_spelled(node)
            else:
                break
            if len(bindings) != 1 or bindings[0].how is not How.ASSIGN or bindings[0].path or not bindings[0].value:
                break
            node = bindings[0].value
        return node

    def _is_default(self, node: ast.AST) -> bool:
        """Whether an expression is the default of an option: it is read before there can be an accelerator."""
        return any(a in self.command_line.calls for a in self.index.ancestors(node))

    def _asked(self, call: ast.Call) -> Part | None:
        """The number that a call of torch.distributed or `int(os.environ[...])` asks for."""
        part = ASKED.get((self.resolver.qualified(call.func) or "").replace(".distributed_c10d.", "."))
        if part is not None:
            return part if not call.args and not call.keywords else None
        if self.resolver.builtin(call.func) == "int" and len(call.args) == 1 and not call.keywords:
            return self.starters.part(call.args[0])
        return None

    @cached_property
    def cluster(self) -> ast.expr | None:
        """Where the script asks what starts processes on a cluster which process it is, if it goes by that."""
        return next((n for n, p in self.sources.items() if p is Part.RANK and self.starters.on_cluster(n)), None)

    def _option(self, node: ast.Attribute) -> Part | None:
        """The number in a command-line option that a launcher gives, or that the process group is made with."""
        if Role.ARGUMENTS not in self.resolver.roles(node.value):
            return None
        call = self.command_line.options.get(node.attr)
        if call is None:
            return None
        flags = {a.value for a in call.args if isinstance(a, ast.Constant)}
        part = next((p for f, p in _OPTIONS.items() if f in flags), None) or self._given.get(node.attr)
        bound = (b.value for b in self.index.set_as_spelled(node))
        return part if all(isinstance(v, ast.Call) and self._asked(v) is part for v in bound) else None

    def is_option(self, node: ast.expr) -> bool:
        """Whether an expression is an option of the command line that the script never sets, and no launcher gives."""
        known = isinstance(node, ast.Attribute) and self._is_given(node) and self._option(node) is None
        return known and not self.index.set_as_spelled(node)  # type: ignore[arg-type]

    def is_told(self, node: ast.expr) -> bool:
        """Whether a variable or an attribute is set, somewhere, to what a launcher says, or if it says something."""
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        bindings = self.index.set_as_spelled(node) if isinstance(node, ast.Attribute) else bindings
        for binding in bindings:
            tests = (s.test for s in self.index.chain(binding.node) if isinstance(s, ast.If))
            parts = [n for one in (binding.value, *tests) if one is not None for n in walk(one)]
            read = any(self.starters.read(n) for n in parts)
            named = any(isinstance(n, ast.Constant) and str(n.value) in OF_LAUNCHERS for n in parts)
            if (read and named) or any(n in self.sources for n in parts):
                return True
        return False

    @cached_property
    def _given(self) -> dict[str, Part]:
        """The options that the process group is made with (`rank=args.rank`), which the script itself never sets."""
        found = {}
        for call in self.groups:
            for name, part in (("rank", Part.RANK), ("world_size", Part.WORLD_SIZE)):
                given = self.resolver.argument(call, None, name)
                if isinstance(given, ast.Attribute) and not self.index.set_as_spelled(given):
                    found[given.attr] = part
        for rank in (r for r in self.ranks if isinstance(r, ast.Call) and self.machines is None):
            world = self._origin(rank.args[0])
            if isinstance(world, ast.Attribute):
                found[world.attr] = Part.WORLD_SIZE
        return found

    @memoised
    def part(self, node: ast.expr | None) -> Part | None:
        """The number of processes that an expression certainly is."""
        return self._part(node, 0)

    def _part(self, node: ast.expr | None, depth: int) -> Part | None:
        if node is None or depth > 8:
            return None
        if node in self.sources:
            return self.sources[node]
        if isinstance(node, ast.Call):
            target = self.resolver.callee(node)
            if isinstance(target, FUNCTIONS):
                return self._same([r.value for r in self.resolver.returns(target)], depth)
            return self._asked(node)
        if isinstance(node, ast.Name):
            return self._same_bindings(self.resolver.bindings(node), depth)
        if isinstance(node, ast.Attribute):
            return self._same_bindings(self.index.set_as_spelled(node), depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and self._counts_devices(node.right, depth):
            return Part.LOCAL_RANK if self._part(node.left, depth + 1) is Part.RANK else None
        if isinstance(node, ast.BinOp) and self._is_remainder(node, depth):
            return Part.LOCAL_RANK
        return None

    def _is_remainder(self, node: ast.BinOp, depth: int) -> bool:
        """Whether a difference is a rank without the machines before: `rank - gpus * (rank // gpus)`."""
        match node:
            case ast.BinOp(
                left=whole,
                op=ast.Sub(),
                right=ast.BinOp(left=gpus, op=ast.Mult(), right=ast.BinOp(left=rank, op=ast.FloorDiv(), right=divisor)),
            ):
                counted = self._counts_devices(gpus, depth) and self._counts_devices(divisor, depth)
                return counted and all(self._part(n, depth + 1) is Part.RANK for n in (whole, rank))
        return False

    def _same(self, nodes: list[ast.expr | None], depth: int) -> Part | None:
        found = set[Part]()
        for node in nodes:
            part = self._part(node, depth + 1)
            if part is None:
                return None  # whatever the others are: there may be many, of many calls each
            found.add(part)
        return found.pop() if len(found) == 1 else None

    def _same_bindings(self, bindings: list[Binding], depth: int) -> Part | None:
        nodes: list[ast.expr | None] = []
        for binding in bindings:
            if binding.how is How.PARAMETER:
                nodes += self.resolver.handed(binding)
            elif binding.how is How.ASSIGN and not binding.path:
                nodes.append(binding.value)
            else:
                return None
        return self._same(nodes, depth)

    def _counts_devices(self, node: ast.expr, depth: int) -> bool:
        """Whether an expression is the number of this machine's GPUs."""
        if isinstance(node, ast.Name) and depth < 8:
            bindings = self.resolver.bindings(node)
            return len(bindings) == 1 and not bindings[0].path and self._counts_devices_of(bindings[0], depth)
        func = node.func if isinstance(node, ast.Call) else node
        if isinstance(node, ast.Call) and self.resolver.builtin(func) == "int" and len(node.args) == 1:
            return self.starters.counts_gpus(node.args[0])
        return self.resolver.qualified(func) in ("torch.cuda.device_count", "torch.accelerator.device_count")

    def _counts_devices_of(self, binding: Binding, depth: int) -> bool:
        return binding.value is not None and self._counts_devices(binding.value, depth + 1)

    def main_only(self, node: ast.expr) -> tuple[Part, bool] | None:
        """For a test of a rank: which, and whether it is true on the first process (else on all the others)."""
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            return None
        rank, other, operator = node.left, node.comparators[0], node.ops[0]
        if is_zero(rank) and isinstance(operator, (ast.Eq, ast.NotEq)):
            rank, other = other, rank
        part = self.part(rank)
        if part not in (Part.RANK, Part.LOCAL_RANK):
            return None
        if isinstance(operator, (ast.Eq, ast.NotEq)) and is_zero(other):
            return part, isinstance(operator, ast.Eq)
        if isinstance(operator, (ast.In, ast.NotIn)) and _is_zero_or_none(other):
            return part, isinstance(operator, ast.In)
        if isinstance(operator, ast.Gt) and is_zero(other):
            return part, False
        return None


def is_zero(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 0


def _is_zero_or_none(node: ast.expr) -> bool:
    """`[-1, 0]`: the first process, or the only one (of a script that calls itself number -1 then)."""
    if not isinstance(node, (ast.List, ast.Tuple, ast.Set)) or not any(is_zero(e) for e in node.elts):
        return False
    return all(is_zero(e) or is_unset(e) for e in node.elts)


def is_unset(node: ast.expr) -> bool:
    """`-1` or None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return isinstance(node.operand, ast.Constant) and node.operand.value == 1
    return is_constant(node, None)
