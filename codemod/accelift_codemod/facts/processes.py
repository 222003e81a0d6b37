"""Scripts that run on several processes by themselves: what they ask torch.distributed, and what they do with it.

The canonical set: a process group, DistributedDataParallel, DistributedSampler, ranks and the number of processes, sums
over the processes, barriers. Whatever else of torch.distributed a script uses is a problem with a line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from accelift_codemod.facts import library
from accelift_codemod.facts.numbers import ASKED, NAMES, Numbers, is_unset, is_zero
from accelift_codemod.facts.spawned import SPAWN, seen_before
from accelift_codemod.facts.starters import Part
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

_LAUNCHER = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
_REDUCTIONS = {"SUM": "sum", "AVG": "mean", "MAX": "max", "MIN": "min"}
_REDUCE_OP = "torch.distributed.ReduceOp."
_PLACES = frozenset({"device_ids", "output_device", "dim"})  # of DistributedDataParallel: the accelerator knows them
_SETTINGS = frozenset(
    {"broadcast_buffers", "bucket_cap_mb", "find_unused_parameters", "gradient_as_bucket_view", "static_graph"}
)


@dataclass(frozen=True)
class Sum:
    """A tensor that is combined across all processes, in place."""

    statement: ast.Expr
    tensor: ast.expr
    reduction: str


@dataclass(frozen=True)
class Problem:
    """Something that a conversion could not keep."""

    node: ast.AST
    message: str


class Processes(Numbers):
    """What a script does to run on several processes."""

    # ---- what is used

    @cached_property
    def managed(self) -> bool:
        """Whether the script distributes itself, with nothing but the canonical set."""
        return bool(self.wraps and self.groups) and self.problem is None

    @cached_property
    def ends(self) -> list[ast.Call]:
        """The calls that end the process group."""
        return self.calls("torch.distributed.destroy_process_group")

    @cached_property
    def barriers(self) -> list[ast.Call]:
        """The calls that wait for all processes."""
        return self.calls("torch.distributed.barrier")

    @cached_property
    def wraps(self) -> list[ast.Call]:
        """The calls that put a model into DistributedDataParallel."""
        return self.calls(*library.DISTRIBUTED_DATA_PARALLEL)

    @cached_property
    def samplers(self) -> list[ast.Call]:
        """The calls that make a DistributedSampler."""
        return self.calls(*library.DISTRIBUTED_SAMPLER)

    @cached_property
    def sums(self) -> list[Sum]:
        """The tensors that are combined across all processes."""
        found = (self._sum(c) for c in self.calls("torch.distributed.all_reduce", "torch.distributed.reduce"))
        return [one for one in found if isinstance(one, Sum)]

    @cached_property
    def addresses(self) -> list[ast.Assign]:
        """The statements that set what a launcher sets: `os.environ["MASTER_PORT"] = ...`."""
        return [
            s
            for s in self.index.items
            if len(s.targets) == 1
            and isinstance(s.targets[0], ast.Subscript)
            and self.resolver.qualified(s.targets[0].value) == "os.environ"
            and isinstance(s.targets[0].slice, ast.Constant)
            and s.targets[0].slice.value in _LAUNCHER
        ]

    def is_told_elsewhere(self, address: ast.Assign) -> bool:
        """Whether a statement sets which process this is to what neither a launcher nor the script itself tells:
        `os.environ["RANK"] = os.environ["SLURM_PROCID"]`."""
        if self.ranks or address.targets[0].slice.value != "RANK":  # type: ignore[attr-defined]
            return False
        todo = [address.value]
        seen: set[ast.expr] = set()
        while todo:
            one = todo.pop()
            if isinstance(one, ast.Call) and self.resolver.builtin(one.func) in ("str", "int") and len(one.args) == 1:
                todo.append(one.args[0])
            elif isinstance(one, ast.JoinedStr):
                todo += [v.value for v in one.values if isinstance(v, ast.FormattedValue)]
            elif (
                one in seen
                or isinstance(one, ast.Constant)
                or one in self.sources
                or self.starters.part(one) is not None
            ):
                continue
            elif isinstance(one, (ast.Name, ast.Attribute)) and one not in self._ends(one):
                todo += self._ends(one)
            else:
                return True
            seen.add(one)
        return False

    @cached_property
    def settings(self) -> dict[str, ast.expr]:
        """What DistributedDataParallel is given beside the model, in all of its calls."""
        return {k.arg: k.value for c in self.wraps for k in c.keywords if k.arg in _SETTINGS}

    # ---- what is beyond the canonical set

    @cached_property
    def problem(self) -> Problem | None:
        """The first thing that a conversion could not keep, if the script distributes itself."""
        for module in self.index.star_imports:
            if library.matches(module, NAMES) is not None:
                return Problem(self.index.tree.body[0], f"imports all of {module}")
        return next(self._problems(), None) if self.uses else None

    def _problems(self) -> Iterator[Problem]:
        for node, qualified in sorted(self.uses, key=lambda use: use[1] != SPAWN):  # from which the rest follows
            message = self._trouble(node, qualified)
            if message:
                yield Problem(node, message)
        yield from self._environment()
        for name in ("join", "register_comm_hook"):
            for call in self.index.methods.get(name, []):
                if Role.MODEL in self.resolver.roles(call.func.value):  # type: ignore[attr-defined]
                    yield Problem(call, f"calls {name}() of DistributedDataParallel")
        if not self.wraps or not self.groups:
            missing = "init_process_group" if self.wraps else "DistributedDataParallel"
            name = library.DISTRIBUTED[library.matches(self.uses[0][1], NAMES) or ""]
            yield Problem(self.uses[0][0], f"uses {name}, but never calls {missing} in this file")
        texts = {tuple(sorted(ast.dump(k) for k in c.keywords if k.arg in _SETTINGS)) for c in self.wraps}
        if len(texts) > 1:
            yield Problem(self.wraps[-1], "gives its DistributedDataParallel models different settings")

    def _environment(self) -> Iterator[Problem]:
        """What a script does with the launcher's variables beside asking for numbers."""
        own = {s.targets[0].slice.value for s in self.addresses}  # type: ignore[attr-defined]
        for node in self.index.parents:
            if not isinstance(node, ast.Subscript) or self.resolver.qualified(node.value) != "os.environ":
                continue
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            asks = any(a in self.sources or a in self.groups for a in self.index.ancestors(node))
            if key is None and not isinstance(node.ctx, ast.Load):
                yield Problem(node, "sets a variable of the environment whose name cannot be read")
            elif key in own and isinstance(node.ctx, ast.Load) and not asks:
                yield Problem(node, f"reads {key!s} from the environment, which it has set itself")
        for call in self.index.methods.get("update", []):
            if self.resolver.qualified(call.func) == "os.environ.update":
                yield Problem(call, "sets variables of the environment together")

    def _trouble(self, node: ast.Name | ast.Attribute, qualified: str) -> str:
        """Why one use cannot be kept; empty if it can."""
        parent = self.index.parents.get(node)
        known = library.matches(qualified, NAMES) or ""
        name = (
            qualified.removeprefix("torch.distributed.") if known == "torch.distributed" else library.DISTRIBUTED[known]
        )
        plain = f"uses {qualified if known == 'torch.distributed' else name}"
        if qualified.startswith(_REDUCE_OP):
            return "" if isinstance(parent, (ast.keyword, ast.Call)) else plain
        if not isinstance(parent, ast.Call) or parent.func is not node:
            asks = isinstance(parent, ast.Call) and self.resolver.builtin(parent.func) == "isinstance"
            return "" if asks and qualified in library.DISTRIBUTED_SAMPLER else plain
        if any(isinstance(a, ast.Starred) for a in parent.args) or any(k.arg is None for k in parent.keywords):
            return f"{plain} with arguments that cannot be read"
        if any(k.arg in ("group", "process_group", "async_op") and not _is_off(k.value) for k in parent.keywords):
            return f"{plain} for a group of processes, or without waiting"
        if qualified in library.DISTRIBUTED_DATA_PARALLEL:
            return self._wrap_trouble(parent)
        if qualified in library.DISTRIBUTED_SAMPLER:
            return ""
        if qualified in ASKED:
            return "" if self._asked(parent) is not None else f"{plain} for a group of processes"
        if parent in self.ranks:
            return self._spawn_trouble(parent)
        alone = isinstance(self.index.parents.get(parent), ast.Expr)
        if qualified == "torch.distributed.init_process_group":
            return self._group_trouble(parent) if alone else f"{plain} inside an expression"
        if qualified in ("torch.distributed.destroy_process_group", "torch.distributed.barrier"):
            return "" if alone and not parent.args else f"{plain} for a group of processes"
        if qualified in ("torch.distributed.all_reduce", "torch.distributed.reduce"):
            found = self._sum(parent)
            return found if isinstance(found, str) else ""
        return plain

    def _spawn_trouble(self, rank: ast.Call) -> str:
        call = self.index.parents[rank]
        target = self.resolver.callee(call) if isinstance(call, ast.Call) else None
        if target is None or self.resolver.sites(target) != [call]:
            return "starts its processes with a function that is also called otherwise"
        early = seen_before(self.index, self.resolver, call)
        if early is not None:
            line = early.lineno  # type: ignore[attr-defined]
            return f"does something on line {line}, before it starts its processes, that they may not see"
        return ""

    def _wrap_trouble(self, call: ast.Call) -> str:
        for keyword in call.keywords:
            if keyword.arg in _PLACES or keyword.arg == "module":
                continue
            if keyword.arg not in _SETTINGS or not isinstance(keyword.value, ast.Constant):
                return f"gives DistributedDataParallel {keyword.arg}=, which cannot be handed on"
        return "" if len(call.args) <= 4 else "gives DistributedDataParallel settings by position"

    def _group_trouble(self, call: ast.Call) -> str:
        for name, part in (("rank", Part.RANK), ("world_size", Part.WORLD_SIZE)):
            given = self.resolver.argument(call, None, name)
            if given is not None and not is_unset(given) and self.part(given) is not part:
                return f"makes its process group with a {name} whose origin cannot be followed"
        return ""

    def _sum(self, call: ast.Call) -> Sum | str:
        """What a call combines; why it cannot be told, otherwise."""
        statement = self.index.parents.get(call)
        whole = (self.resolver.qualified(call.func) or "").endswith(".reduce")
        tensor = self.resolver.argument(call, 0, "tensor")
        if not isinstance(statement, ast.Expr) or tensor is None:
            return "reduces a tensor inside an expression"
        if not isinstance(tensor, (ast.Name, ast.Attribute, ast.Subscript)) or _mentions_gradient(tensor):
            return "reduces what is no plain tensor, or a gradient by hand"
        root = self.resolver.argument(call, 1, "dst") if whole else None
        if whole and not is_zero(root):
            return "reduces a tensor to another process than the first"
        op = self.resolver.argument(call, 2 if whole else 1, "op")
        name = "SUM" if op is None else (self.resolver.qualified(op) or "").removeprefix(_REDUCE_OP)
        if name not in _REDUCTIONS:
            return "reduces a tensor by an operation that the accelerator does not have"
        return Sum(statement, tensor, _REDUCTIONS[name])


def _mentions_gradient(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in ("grad", "data") for n in walk(node))


def _is_off(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, False)
