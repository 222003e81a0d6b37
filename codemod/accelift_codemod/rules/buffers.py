"""Reports buffers of networks that every process fills with its own share of the data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelift_codemod.draft import Draft
from accelift_codemod.facts.effects import computes_with
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import is_constant, targets, walk
from accelift_codemod.networks.methods import attribute, is_self
from accelift_codemod.networks.overwritten import overwritten
from accelift_codemod.networks.own_averages import averaging
from accelift_codemod.networks.visits import Visit, changing, runs, visits
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_ALIKE = frozenset({"clone", "detach", "float", "to", "cuda", "normal_", "uniform_", "zero_", "fill_"})
_FILLS = frozenset({"append", "appendleft", "extend", "insert"})


@dataclass(frozen=True)
class Write:
    """Where a method puts something of a batch into what its object keeps."""

    node: ast.AST
    name: str


class Buffers(Rule):
    """Reports a memory, prototypes or running statistics that a network keeps from batch to batch.

    Each process writes what its own share of the batch gives. Of registered buffers, DistributedDataParallel hands out
    those of the first process before every forward pass: what the others have written is lost.
    """

    code = "BUFFER"
    name = "buffers that a forward pass fills"
    findings = (
        Explained(
            "BUFFER-OWN",
            Severity.WARNING,
            "every process fills a buffer with its own share",
            "A network writes what it computes from a batch into a buffer, or a tensor that it keeps: a queue of keys, "
            "prototypes, running means. Each process sees only its share of a batch, and registered buffers are those "
            "of the first process again before the next forward pass. Gather what is written, so that every process "
            "writes the same. So it is with an object of the script that carries on what a loss is computed with, such "
            "as the moving average of a baseline. The statistics of torch's BatchNorm are another matter (NOTE-BN), "
            "unless its network is not prepared: nothing hands those out.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for run, _ in averaging(draft):
            yield draft.finding(
                "BUFFER-OWN",
                Severity.WARNING,
                run,
                f"`{draft.facts.segment(run.func)}` is not trained and so not prepared, but runs in the mode of "
                "training: every process averages its own share in its BatchNorm, and evaluates by that",
                f"`{draft.facts.segment(run.func)}.eval()` before the loop, or convert it with torch.nn.SyncBatchNorm",
            )
        if draft.facts.processes.managed or not any(_kept(draft, cls) for cls in draft.facts.index.classes):
            return
        reported: set[str] = set()
        for loop in draft.blueprint.train_loops:
            for call, model, method in runs(draft, loop):
                given = changing(draft, loop, call, method, (Layout.CONST, Layout.ZERO, Layout.COUNT))
                seen = visits(draft, model, method, given, computes_with, set())
                for write in (write for visit in seen for write in _writes(draft, visit)):
                    if write.name in reported:
                        continue
                    reported.add(write.name)
                    yield draft.finding(
                        "BUFFER-OWN",
                        Severity.WARNING,
                        write.node,
                        f"`self.{write.name}` is filled with what a process computes from its own share of the batch: "
                        "every process would keep something else, or what the first one keeps",
                        "write what all processes have, gathered by accelerator.gather",
                    )


def _writes(draft: Draft, visit: Visit) -> Iterator[Write]:
    """What a method writes into tensors that its object keeps, of what depends on the batch."""
    kept, tainted, nodes = _kept(draft, visit.cls), visit.tainted, visit.nodes
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AugAssign)) and computes_with(node.value, tainted):
            for target in targets(node):
                name = attribute(target)
                whole = isinstance(target, ast.Attribute) and isinstance(node, ast.Assign) and target.attr != "data"
                if name in kept and not (whole and name not in _reads(node.value)):
                    yield Write(node, name)
        elif isinstance(node, ast.Call):
            given = [*node.args, *(k.value for k in node.keywords)]
            if any(computes_with(a, tainted) for a in given):
                names = {attribute(a) for a in overwritten(draft, node)}
                yield from (Write(node, name) for name in sorted(names & kept))
            if not isinstance(node.func, ast.Attribute):
                continue
            name = attribute(node.func.value)
            fills = node.func.attr in _FILLS and _computed_with(draft, visit.cls, name, nodes)
            if (
                name in kept
                and (node.func.attr.endswith("_") or fills)
                and any(computes_with(a, tainted) for a in given)
            ):
                yield Write(node, name)


@kept
def _kept(draft: Draft, cls: ast.ClassDef) -> set[str]:
    """The buffers of a class, and the tensors and lists that its constructor makes."""
    found: set[str] = set()
    for owner in draft.facts.resolver.ancestry(cls):
        for node in walk(owner):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                first = node.args[0] if node.args else None
                if node.func.attr == "register_buffer" and isinstance(first, ast.Constant):
                    found.add(str(first.value))
            function = draft.function(node) if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.Assign) and function is not None and function.name == "__init__":
                if _makes_tensor(draft, node.value, found) or _makes_list(draft, node.value):
                    found |= {attribute(target) for target in node.targets}
    return found - {""}


def _makes_tensor(draft: Draft, node: ast.expr, kept: set[str]) -> bool:
    """Whether an expression is a tensor of torch's, or made of one or of what is `kept`, or None, in whose place there
    will be one."""
    if isinstance(node, ast.BinOp):
        return any(isinstance(n, ast.Call) and _makes_tensor(draft, n, kept) for n in (node.left, node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ALIKE:
        of = node.func.value
        return attribute(of) in kept or (isinstance(of, ast.Call) and _makes_tensor(draft, of, kept))
    made = draft.facts.resolver.qualified(node.func) if isinstance(node, ast.Call) else None
    module, _, name = (made or "").rpartition(".")
    empty = is_constant(node, None)
    return empty or made in _PARAMETERS or (module == "torch" and name.islower())


def _makes_list(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is an empty list, or a queue."""
    if isinstance(node, ast.Call):
        name = draft.facts.resolver.builtin(node.func) or draft.facts.resolver.qualified(node.func)
        return name == "collections.deque" or (name == "list" and not node.args)
    return isinstance(node, ast.List) and not node.elts


def _computed_with(draft: Draft, cls: ast.ClassDef, name: str, nodes: list[ast.AST]) -> bool:
    """Whether a method computes with a list that its object keeps from batch to batch: not if it is emptied."""
    parents = draft.facts.index.parents
    for node in (n for owner in draft.facts.resolver.ancestry(cls) for n in walk(owner)):
        if not (isinstance(node, ast.Attribute) and attribute(node) == name == node.attr):
            continue
        parent, function = parents[node], draft.function(node)
        made_anew = isinstance(node.ctx, ast.Store) and function is not None and function.name != "__init__"
        if made_anew or (isinstance(parent, ast.Attribute) and parent.attr == "clear"):
            return False
    for node in nodes:
        if isinstance(node, ast.Attribute) and attribute(node) == name == node.attr:
            call = parents[node]
            if isinstance(call, ast.Call) and (draft.facts.resolver.qualified(call.func) or "").startswith("torch."):
                return True
    return False


def _reads(node: ast.AST) -> set[str]:
    """The attributes of self that an expression computes with itself: a layer carries on the state of each sample."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_self(node.func.value):
        return set()
    own = {attribute(node)} if isinstance(node, ast.Attribute) else set()
    return own.union(*map(_reads, ast.iter_child_nodes(node)))
