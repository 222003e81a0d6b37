"""Puts the accelerator in the place of a script's own process group."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, library
from accelift_codemod.facts.index import How, position
from accelift_codemod.facts.processes import Sum
from accelift_codemod.facts.starters import Part
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.networks import scattered
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.reasons import refuse
from accelift_codemod.rules import Explained, Rule
from accelift_codemod.rules.data_parallel import (
    bare_reads,
    checkpoints,
    compared_keys,
    keeps_checkpoints,
    take_out,
    tolerant_loads,
)

_RULE = "DISTRIBUTED"
_COPIES = ("copy.", "torch.optim.swa_utils.", "timm.utils.", "torch_ema.")
_ANYWHERE = (ast.Attribute, ast.BinOp, ast.Compare, ast.AugAssign, ast.Return, ast.FormattedValue, ast.Subscript)


class Distributed(Rule):
    """Converts scripts that distribute themselves: `init_process_group` becomes the accelerator,
    DistributedDataParallel becomes `prepare`, ranks and the number of processes are the accelerator's, `all_reduce`
    becomes `reduce` and `barrier` becomes `wait_for_everyone`. `mp.spawn(f, ...)` becomes a call of `f`.

    A DistributedSampler stays, with the accelerator's numbers, and its loader is not prepared: every process is dealt
    the very samples that it was dealt before. The batch size stays that of one process. What the script prints and
    saves on which process is its own decision, and stays. On any number of processes it computes what it did.
    """

    code = _RULE
    name = "a process group of the script's own"
    required = True
    always = True
    before = """\
dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
sampler = DistributedSampler(data)
model = DistributedDataParallel(model.to(local_rank), device_ids=[local_rank])
if dist.get_rank() == 0:
    torch.save(model.module.state_dict(), "model.pt")
"""
    after = """\
accelerator = Accelerator()
sampler = DistributedSampler(
    data, num_replicas=accelerator.num_processes, rank=accelerator.process_index
)
if accelerator.is_main_process:
    torch.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
"""
    findings = (
        Explained(
            "DIST-LAUNCH",
            Severity.NOTE,
            "processes come from the launcher",
            "The script started its processes itself, or was told which one it is, on the command line or by what "
            "started it, such as `srun` or `mpirun`. Now `accelift launch` starts them and tells each, so what the "
            "script set or was given for this has no effect any more. Where it was told, this is a warning: started "
            "as before, each process would take itself for the only one, train on all of the data and write the same "
            "files.",
        ),
        Explained(
            "DIST-SINGLE",
            Severity.NOTE,
            "a script that distributes itself only if it is told to",
            "Without that it is a script for one process, and that one is converted: the branches for several "
            "processes go, with the options and variables that only they use. The batch is shared out then, where the "
            "script's own way may have given each process a whole one. Or nothing that it runs makes a process group, "
            "but files that it imports ask whether there is one (`if not dist.is_initialized(): return`): what they "
            "would do with it goes, as the accelerator gathers what is measured, and a sum over the processes would "
            "count it all once more. A file keeps it if another script that makes a process group uses it, too.",
        ),
        Explained(
            "DIST-SUM",
            Severity.ERROR,
            "what all processes have together is a part of a loss",
            "The script's own distribution combines something over its processes, such as the number of boxes of all, "
            "and computes a loss with it. Its distribution is taken out, and no process has that number then: the mean "
            "of the losses of all processes is not the loss of one process any more, until it is combined by the "
            "accelerator.",
        ),
        Explained(
            "DIST-SWITCH",
            Severity.WARNING,
            "a switch that decides whether there are several processes",
            "The script makes its process group only if a flag says so. Launched on several processes without it, each "
            "takes itself for the only one: all of them train on all of the data, and write the same files.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        processes = draft.facts.processes
        if not processes.managed:
            return
        for call in (*processes.groups, *processes.ends, *processes.barriers):
            yield from self._group(draft, call)
        for rank in processes.ranks:
            yield from self._spawn(draft, rank)
        for statement in (s for s in processes.addresses if draft.facts.runs(s)):
            yield draft.edit(_RULE, statement, Operation.DROP, "the launcher tells each process where the others are")
        yield from self._started(draft)
        single = [c for c in draft.calls if draft.facts.resolver.qualified(c.func) in library.DATA_PARALLEL]
        wraps = [*(c for c in processes.wraps if draft.facts.runs(c)), *single]
        for call in wraps:
            argument = draft.facts.resolver.argument(call, 0, "module")
            if argument is not None:
                yield from take_out(draft, _RULE, call, argument)
        if wraps and keeps_checkpoints(draft, wraps):
            yield checkpoints(draft, wraps[0], "DistributedDataParallel")
        yield from bare_reads(draft, _RULE, wraps)
        yield from tolerant_loads(draft, _RULE, wraps)
        yield from compared_keys(draft, _RULE, wraps)
        yield from scattered.moves(draft, _RULE, [c for c in wraps if c in single or _moves_inputs(draft, c)])
        for call in processes.samplers:
            if draft.facts.runs(call):
                yield from self._sampler(draft, call)
        for one in processes.sums:
            if draft.facts.runs(one.statement):
                yield self._sum(draft, one)
        yield from self._numbers(draft)
        yield from self._switches(draft)
        self._not_copied(draft)

    def _switches(self, draft: Draft) -> Iterator[Finding]:
        """Flags that nobody sets but the author, by which the script makes its process group or takes itself for alone.

        A flag that is computed from what a launcher tells is none.
        """
        told: set[str] = set()
        for call in (c for c in draft.facts.processes.groups if draft.facts.runs(c)):
            child: ast.AST = call
            for parent in draft.facts.index.ancestors(call):
                test = parent.test if isinstance(parent, ast.If) and child in parent.body else None
                child = parent
                flag = test and draft.facts.segment(test)
                if not isinstance(test, (ast.Name, ast.Attribute)) or not flag or flag in told:
                    continue
                values = draft.facts.resolver.values(test)
                if draft.facts.processes.is_option(test):
                    off, remedy = f"without what sets `{flag}`", "give that whenever several processes are launched"
                elif draft.facts.processes.is_told(test):
                    continue
                elif values and all(v.role is Role.CONSTANT and v.keys == (False,) for v in values):
                    off, remedy = f"as `{flag}` is False", "make it True before several processes are launched"
                else:
                    continue
                told.add(flag)
                yield draft.finding(
                    "DIST-SWITCH",
                    Severity.WARNING,
                    parent,
                    f"{off}, each of several processes takes itself for the only one: it trains on all of the data, "
                    "and prints and saves as all the others do",
                    f"{remedy}, or set it to accelerator.num_processes > 1",
                )

    def _not_copied(self, draft: Draft) -> None:
        """Refuse a script that copies a model between its wrapping and its training.

        DistributedDataParallel makes the processes' models equal when it wraps them, `prepare` only then.
        """
        resolver = draft.facts.resolver
        for name in draft.facts.reads():
            call = draft.facts.index.parents.get(name)
            if not isinstance(call, ast.Call) or name not in call.args or not draft.facts.runs(call):
                continue
            models = draft.blueprint.prepared_models(name)
            if not models or all(draft.blueprint.may_follow_prepare(name, m) for m in models):
                continue
            wrapped = any(position(w) < position(call) for w in draft.facts.processes.wraps)
            copies = (resolver.qualified(call.func) or "").startswith(_COPIES)
            if wrapped and (copies or isinstance(resolver.callee(call), ast.ClassDef)):
                if draft.facts.index.function(call) is not draft.facts.index.function(draft.facts.processes.wraps[0]):
                    continue
                raise refuse(
                    "ALREADY-DISTRIBUTED",
                    call.lineno,
                    f"manages several processes itself, and hands its wrapped model to "
                    f"`{draft.facts.segment(call.func)}` before it trains, when the processes' models may still differ",
                    "make the copy before wrapping, or convert it by hand",
                )

    def _group(self, draft: Draft, call: ast.Call) -> Iterator[Edit | Finding]:
        statement = draft.facts.index.statement(call)
        if not draft.facts.runs(call):
            return
        if call in draft.facts.processes.groups:
            yield draft.edit(_RULE, statement, Operation.DROP, "the accelerator makes the process group")
            yield from self._by_hand(draft, call)
        else:
            ends = call in draft.facts.processes.ends
            verb = "end_training" if ends else "wait_for_everyone"
            reason = "the accelerator ends the process group" if ends else "the accelerator waits for all processes"
            yield draft.edit(_RULE, call, Operation.BECOME, reason, f"{{accelerator}}.{verb}()", need=Need.STRONG)

    def _spawn(self, draft: Draft, rank: ast.AST) -> Iterator[Edit | Finding]:
        call = draft.facts.index.parents[rank]
        if draft.facts.runs(call):
            reason = "the launcher starts the processes, and each calls the function once"
            code = f"{{accelerator}}.{draft.facts.processes.sources[rank].value}"  # type: ignore[index]
            yield draft.edit(_RULE, call, Operation.DIRECT, reason, code, need=Need.STRONG)
            yield draft.finding(
                "DIST-LAUNCH",
                Severity.NOTE,
                call,
                "the script no longer starts its processes",
                "start it with `accelift launch --num_processes N`",
            )

    def _started(self, draft: Draft) -> Iterator[Finding]:
        """What tells the processes, in the place of a launcher, which they are: `os.environ["RANK"] = slurm_rank`."""
        processes = draft.facts.processes
        told = next((s for s in processes.addresses if draft.facts.runs(s) and processes.is_told_elsewhere(s)), None)
        source = told.value if told is not None else processes.cluster
        if source is not None:
            yield self._elsewhere(draft, told or source, f"`{draft.facts.segment(source)}`")

    def _elsewhere(self, draft: Draft, node: ast.AST, source: str) -> Finding:
        return draft.finding(
            "DIST-LAUNCH",
            Severity.WARNING,
            node,
            f"which process this is comes from the launcher, not from {source}: started as before, each process takes "
            "itself for the only one",
            "start the script with `accelift launch`, once on each machine",
        )

    def _by_hand(self, draft: Draft, call: ast.Call) -> Iterator[Finding]:
        given = {k.arg: k.value for k in call.keywords}
        told = {n: given[n] for n in ("rank", "world_size") if isinstance(given.get(n), ast.Attribute)}
        if not told or draft.facts.processes.ranks:
            return
        names = " and ".join(f"`{draft.facts.segment(n)}`" for n in told.values())
        if "rank" in told:
            yield self._elsewhere(draft, call, names)
            return
        message = f"how many processes there are comes from the launcher, not from {names}"
        remedy = "start the script with `accelift launch --num_processes N`"
        yield draft.finding("DIST-LAUNCH", Severity.NOTE, call, message, remedy)

    def _sampler(self, draft: Draft, call: ast.Call) -> Iterator[Edit]:
        reason = "the sampler deals to the accelerator's processes"
        for place, name, part in ((1, "num_replicas", Part.WORLD_SIZE), (2, "rank", Part.RANK)):
            given = draft.facts.resolver.argument(call, place, name)
            code = f"{name}={{accelerator}}.{part.value}"
            if given is None:
                yield draft.edit(_RULE, call, Operation.ADD_ARGUMENT, reason, code, need=Need.STRONG)

    def _sum(self, draft: Draft, one: Sum) -> Edit:
        tensor = draft.facts.segment(one.tensor)
        reduced = f'{{accelerator}}.reduce({tensor}, reduction="{one.reduction}")'
        code = f"{tensor} = {reduced}" if self._alone(draft, one.tensor) else f"{tensor}.copy_({reduced})"
        reason = "the accelerator combines the tensors of all processes"
        return draft.edit(_RULE, one.statement, Operation.SWAP, reason, code, need=Need.STRONG)

    def _alone(self, draft: Draft, node: ast.expr) -> bool:
        """Whether a tensor has one name only, so that the name may as well be given to the combined tensor."""
        if not isinstance(node, ast.Name):
            return False
        scope = draft.facts.index.scope(node)
        owner = scope.owner(node.id)
        if owner is None or owner is not scope or owner.is_class:
            return False
        made = [b.value for b in owner.bindings[node.id] if b.how is not How.AUGMENT]
        if not all(isinstance(v, ast.Call) for v in made):
            return False
        if any(draft.facts.resolver.callee(v) is not None for v in made if isinstance(v, ast.Call)):
            return False  # a function of the script may keep what it returns
        parents = draft.facts.index.parents
        loads = [n for n in draft.facts.loads(owner, node.id) if n is not node]
        return all(isinstance(parents.get(n), _ANYWHERE) or self._reduces(draft, n) for n in loads)

    def _reduces(self, draft: Draft, node: ast.expr) -> bool:
        return any(one.tensor is node for one in draft.facts.processes.sums)

    # ---- ranks

    def _numbers(self, draft: Draft) -> Iterator[Edit]:
        processes = draft.facts.processes
        tested: set[ast.AST] = set()
        for test in (n for n in draft.facts.index.parents if isinstance(n, ast.Compare)):
            several = _asks_for_several(draft, test) if draft.facts.runs(test) and not draft.gone(test) else ""
            if several:
                tested.update(n for n in walk(test) if n in processes.sources)
                reason = "a rank below 0 stands for one process without a launcher"
                code = f"{{accelerator}}.num_processes {several} 1"
                yield draft.edit(_RULE, test, Operation.BECOME, reason, code, need=Need.STRONG)
                continue
            found = processes.main_only(test) if draft.facts.runs(test) else None
            if found is None or draft.gone(test):
                continue
            part, on_main = found
            sources = [n for n in walk(test) if n in processes.sources]
            if not sources and (_is_given(draft, test) or not draft.facts.same_file(test, processes.groups[0])):
                continue
            tested.update(sources)
            which = "is_main_process" if part is Part.RANK else "is_local_main_process"
            code = f"{{accelerator}}.{which}" if on_main else f"not {{accelerator}}.{which}"
            need = Need.STRONG if sources else Need.WEAK
            reason = "the accelerator knows which process this is"
            yield draft.edit(_RULE, test, Operation.BECOME, reason, code, need=need)
        for node, part in processes.sources.items():
            if node not in tested and draft.facts.runs(node) and not draft.gone(node):
                reason = "the accelerator knows its processes"
                yield draft.edit(
                    _RULE, node, Operation.BECOME, reason, f"{{accelerator}}.{part.value}", need=Need.STRONG
                )


def _is_given(draft: Draft, test: ast.Compare) -> bool:
    """Whether a function of a file that scripts import is given the number that it tests: others may give another."""
    bound = [b for n in walk(test) if isinstance(n, ast.Name) for b in draft.facts.resolver.bindings(n)]
    given = bool(bound) and all(b.how is How.PARAMETER for b in bound)
    return given and not draft.facts.same_file(test, draft.facts.tree.body[-1])


def _asks_for_several(draft: Draft, test: ast.Compare) -> str:
    """How a test compares the number of processes with 1 that asks whether a rank is -1, as it is without a launcher:
    `args.local_rank == -1`, `args.local_rank >= 0`; empty if it asks for something else."""
    if draft.facts.processes.part(test.left) not in (Part.RANK, Part.LOCAL_RANK):
        return ""
    match test:
        case ast.Compare(ops=[op], comparators=[ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))]):
            return {ast.Eq: "==", ast.NotEq: ">", ast.Gt: ">"}.get(type(op), "")
        case ast.Compare(ops=[ast.Lt()], comparators=[ast.Constant(value=0)]):
            return "=="
        case ast.Compare(ops=[ast.GtE()], comparators=[ast.Constant(value=0)]):
            return ">"
    return ""


def _moves_inputs(draft: Draft, wrap: ast.Call) -> bool:
    """Whether DistributedDataParallel moves what its network is called with: only where it is told to which GPU."""
    devices = draft.facts.resolver.argument(wrap, 1, "device_ids")
    return devices is not None and not is_constant(devices, None)
