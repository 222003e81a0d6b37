"""Settings of the training that every process draws, or reads off the clock, for itself: a learning rate, the size of a
layer or of a batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance import seeds
from accelift_codemod.chance.constants import is_often
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, torch_ops
from accelift_codemod.facts.chance import SEEDS, drawn_from
from accelift_codemod.facts.kinds import Kind
from accelift_codemod.facts.own_values import SECONDS
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.onward import around, is_within, reached
from accelift_codemod.measured import coins
from accelift_codemod.measured.deciding import rated
from accelift_codemod.measured.steering import sets_group
from accelift_codemod.measured.switches import switched_by
from accelift_codemod.plan import Finding, Severity

_UPDATES = "by which the model is updated: the processes would end with different ones"
_LAYERS = "by which a network or a loss is made: each would have another one"
_BATCHES = "by which batches are made: some would have more of them than others, which wait"
_FROZEN = "by which weights are trained or not: a process waits for gradients that another one does not compute"
# What holds the numbers that it is given as weights, which all processes get from the main one.
_VALUES = frozenset({"Parameter", "UninitializedParameter", "Buffer", "register_parameter", "register_buffer"})
_ORDERS = frozenset({"permutation", "permuted", "randperm"})  # which say nothing of how many, or how large
_OF_BATCHES = frozenset({"batch_size", "batch_sampler", "drop_last"})
_STARTS = ("params", "dataset")  # what an optimizer updates and a loader deals is no setting


def drawn_settings(draft: Draft) -> Iterator[Finding]:
    """What is told of them, once for each draw."""
    running = frozenset(draft.calls)
    rates = {
        n: call for call, function in rated(draft, draft.facts.tree) for n in walk(function) if isinstance(n, ast.Call)
    }
    for call in draft.calls:
        timed = draft.facts.resolver.qualified(call.func) in SECONDS
        if not timed and not _is_unseeded(draft, call):
            continue
        asked = call in rates and not _is_shown(draft, call)
        found = (rates[call], _UPDATES) if asked else _set_by(draft, call, running, timed)
        if found is not None:
            yield (_read_off if timed else coins.differing)(draft, found[0], call, found[1])


def _read_off(draft: Draft, place: ast.AST, call: ast.Call, consequence: str) -> Finding:
    return draft.finding(
        "COLL-RANKFLOW",
        Severity.ERROR,
        place,
        f"`{draft.facts.segment(call)}` is something else on every process, which reads the clock at another time, "
        + consequence,
        "go by the number of the iteration, or read the clock on the main process and broadcast what it says",
    )


def _is_shown(draft: Draft, call: ast.Call) -> bool:
    """Whether what a call returns comes to nothing but lines that are there for something else, such as to print."""
    if any(isinstance(n, ast.Lambda) for n in draft.facts.index.ancestors(call)):
        return False
    lines = map(draft.facts.index.statement, reached(draft, [call]))
    return all(isinstance(line, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)) for line in lines)


def _is_unseeded(draft: Draft, call: ast.Call) -> bool:
    home = drawn_from(draft.facts.resolver, call)
    if isinstance(call.func, ast.Attribute) and call.func.attr in _ORDERS:
        return False
    return not seeds.seeded(draft, call, SEEDS[home]) if home else seeds.unseeded(draft, call)


def _set_by(draft: Draft, call: ast.Call, running: frozenset[ast.Call], timed: bool) -> tuple[ast.AST, str] | None:
    """Where a number that is drawn, or tells the time, is a setting, and what follows from that."""
    often = is_often(draft, call)

    def stop(node: ast.AST) -> bool:
        if timed and (isinstance(node, (ast.Dict, ast.JoinedStr)) or _keeps_others(draft, node)):
            return True  # a text, and what has settings beside the time
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and _is_form(node.elt):
            return True
        if isinstance(node, ast.Call):
            return _holds(draft, node)
        # What is drawn for each batch goes into the losses: no number that is computed from these is a setting.
        return often and isinstance(node, (ast.Name, ast.Attribute)) and draft.facts.kinds.of(node) is not Kind.PLAIN

    if often and draft.facts.kinds.of(call) is Kind.TENSOR:
        return None
    for read in reached(draft, [call], stop=stop):
        for node in around(draft, read, stop):
            if isinstance(node, ast.Call) and node is not read and not is_within(draft, read, node.func):
                if node in running and (consequence := _of_call(draft, read, node)):
                    return node, consequence
            elif sets_group(draft, node):
                return node, _UPDATES
            if any(is_within(draft, read, value) for value in switched_by(draft, node)) and _freezes(node):
                return node, _FROZEN
    return None


def _is_form(node: ast.expr) -> bool:
    """Whether an expression is how large a tensor is, which says nothing of what is in it: `x.shape[1]`, `x.size()`."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return isinstance(node, ast.Attribute) and node.attr in torch_ops.ABOUT


def _keeps_others(draft: Draft, node: ast.AST) -> bool:
    """Whether a call makes one thing of several that are told by name: `dict(begun=time.time(), lr=0.1)`."""
    return isinstance(node, ast.Call) and len(node.keywords) > 1 and draft.facts.resolver.callee(node) is None


def _holds(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes weights of the numbers that it is given."""
    home, _, name = (draft.facts.resolver.qualified(call.func) or "").rpartition(".")
    if home.startswith("torch.nn") and any(k.arg == "_weight" for k in call.keywords):
        return True
    return (name if home else getattr(call.func, "attr", "")) in _VALUES


def _of_call(draft: Draft, read: ast.AST, call: ast.Call) -> str:
    """What follows where a call is told a number that every process draws for itself; nothing of data and weights."""
    resolver = draft.facts.resolver
    roles = resolver.roles(call)
    if roles & {Role.OPTIMIZER, Role.SCHEDULER} and _is_setting(draft, read, call):
        return _UPDATES
    if Role.LOADER in roles:
        given = (k.value for k in call.keywords if k.arg in _OF_BATCHES)
        return _BATCHES if any(is_within(draft, read, value) for value in (*given, *call.args[1:2])) else ""
    home, _, name = (resolver.qualified(call.func) or "").rpartition(".")
    layers = home == "torch.nn" or (home.startswith("torch.nn.modules.") and name[:1].isupper())
    made = layers and name[:1].isupper()
    return _LAYERS if made and not is_often(draft, call) else ""  # one for each batch is noise


def _is_setting(draft: Draft, read: ast.AST, call: ast.Call) -> bool:
    """Whether a read is in what an optimizer is told of how it updates, not of what: `[{"params": p, "lr": r}]`."""
    first = draft.facts.resolver.argument(call, 0, "params")
    if first is None or not is_within(draft, read, first):
        return True
    groups = (n for n in walk(first) if isinstance(n, ast.Dict))
    pairs = (pair for group in groups for pair in zip(group.keys, group.values, strict=True))
    told = (value for key, value in pairs if isinstance(key, ast.Constant) and key.value not in _STARTS)
    return any(is_within(draft, read, value) for value in told)


def _freezes(node: ast.AST) -> bool:
    """Whether a node says which weights are trained."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_"
    return any(isinstance(n, ast.Attribute) and n.attr == "requires_grad" for n in getattr(node, "targets", ()))
