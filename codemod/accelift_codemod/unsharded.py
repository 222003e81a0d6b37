"""What a script without a DataLoader trains on: the reason for which it is left alone."""

from __future__ import annotations

import ast

from accelift_codemod.facts import Facts, Role, library, position
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.handmade.steps import Step
from accelift_codemod.facts.handmade.unknown import Lacking, in_no_loop
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.plan import Finding, Severity

_CODE = "DATA-UNSHARDED"
_LOADER = "put the data behind a torch.utils.data.DataLoader"


def reason(facts: Facts, backward: ast.Call) -> Finding:
    """What is known of the data of the first backward pass that runs."""
    handmade, lacking = facts.handmade, Lacking(facts)
    picking = [step for step in handmade.steps.values() if step.picks]
    if handmade.sharable:
        return _by_hand(facts, picking[0]) if picking else _whole(facts, backward)
    environment = _environment(facts)
    if environment is not None:
        return _finding(
            environment,
            f"its data come step by step from `{facts.segment(environment)}`, a simulated environment",
            "let several environments run in processes of their own; the training itself stays on one",
        )
    parameter = bare(facts, backward)
    if parameter is not None:
        return _finding(
            parameter,
            f"it trains `{facts.short(parameter)}`, which is in no network, so nothing would average its gradients "
            "over the processes; and no DataLoader feeds it",
            f"put the parameters into a torch.nn.Module, and {_LOADER[4:]}",
        )
    carried = lacking.carried(backward)
    if carried is not None:
        name, forward = carried
        return _finding(
            forward,
            f"the training loop takes `{name}` from each batch to the next (`{facts.short(forward)}`): row by row, a "
            "batch goes on where the one before it ended, so every process would have to keep the same rows of the "
            f"data and of `{name}` from the start",
            f"give each process its own rows before the loop begins, and a `{name}` for as many: data[rank::processes]",
        )
    source = lacking.source(backward)
    if source is not None and not any(source in step.picks for step in picking):
        return _finding(
            source,
            f"the training loop gets its data by `{facts.short(source)}`, which cannot be followed, and from no "
            "DataLoader: every process would train on the same data",
            f"{_LOADER} first",
        )
    if picking:
        return _by_hand(facts, next((step for step in picking if step.obstacle is not None), picking[0]))
    if handmade.whole(backward):
        return _whole(facts, backward)
    return _not_followed(facts, backward)


def _not_followed(facts: Facts, backward: ast.Call) -> Finding:
    """What is lacking, where the data have no form that is known."""
    if in_no_loop(facts.handmade, backward):
        return _finding(
            backward,
            "its backward pass is in no loop, so there are no batches to share out",
            "keep it on one process, or convert the script that trains",
        )
    step = _stepping(facts, backward)
    if step is not None:
        return _finding(
            step,
            f"its backward pass is in what an optimizer runs as often as it needs a loss (`{facts.short(step)}`), "
            "and no DataLoader feeds it: every process would train on the same data",
            "keep it on one process, or train on batches of a DataLoader, one step for each",
        )
    unknown = Lacking(facts).unknown(backward)
    loop = next((n for n in facts.index.enclosing_loops(unknown)), None) if unknown is not None else None
    dealt = isinstance(unknown, ast.Name) and isinstance(loop, ast.For) and unknown.id in stores(loop.target)
    if isinstance(loop, ast.For) and dealt:
        numbered = isinstance(loop.iter, ast.Call) and facts.resolver.builtin(loop.iter.func) == "enumerate"
        over = loop.iter.args[0] if numbered and loop.iter.args else loop.iter  # type: ignore[attr-defined]
        return _finding(
            over,
            f"the training loop is over `{facts.short(over)}`, which is not known to be a DataLoader: if it is none, "
            "every process would train on the same data",
            f"{_LOADER} first",
        )
    graph = _graph(facts)
    if graph is not None:
        return _finding(
            graph,
            f"its network computes on a graph (`{facts.short(graph.func)}`), where the result for a node depends on "
            "others, so their rows cannot be shared out",
            "keep it on one process, or deal parts of the graph by a loader such as NeighborLoader",
        )
    if unknown is not None and unknown is not backward.func.value:  # type: ignore[attr-defined]
        return _finding(
            unknown,
            "no DataLoader feeds the training, and it cannot be followed how the loss depends on the data by way of "
            f"`{facts.short(unknown)}`: every process would train on the same data",
            f"{_LOADER} first",
        )
    return _finding(
        backward,
        "no DataLoader feeds the training: every process would train on the same data",
        f"{_LOADER} first",
    )


def bare(facts: Facts, backward: ast.Call) -> ast.expr | None:
    """Where a tensor is made that a script differentiates by in a loop, or is said to be one, if no network trains."""
    return _bare(facts) if not facts.objects.trained and not in_no_loop(facts.handmade, backward) else None


def _stepping(facts: Facts, backward: ast.Call) -> ast.Call | None:
    """The step of an optimizer that is handed the function of a backward pass: `optimizer.step(closure)`."""
    function = facts.index.function(backward)
    for reference in facts.references(function) if isinstance(function, FUNCTIONS) else ():
        call = facts.index.parents.get(reference)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "step":
            if reference in call.args:
                return call
    return None


def _bare(facts: Facts) -> ast.expr | None:
    """Where a tensor is made that a script differentiates by, or is said to be one, if one is."""
    for call in facts.index.calls:
        wanted = next((k.value for k in call.keywords if k.arg == "requires_grad"), None)
        if is_constant(wanted, True) and facts.runs(call):
            if facts.resolver.qualified(call.func) != "torch.nn.Parameter":  # which a module keeps
                return call
    for node in (n for n in walk(facts.index.tree) if isinstance(n, ast.Assign) and facts.runs(n)):
        said = [t.value for t in node.targets if isinstance(t, ast.Attribute) and t.attr == "requires_grad"]
        if said and is_constant(node.value, True) and _listed(facts, said[0]):
            return said[0]
    return None


def _listed(facts: Facts, node: ast.expr) -> bool:
    """Whether something is a tensor of a list that the script writes out: `for p in [w, b]:`."""
    made = [b.value for b in facts.resolver.bindings(node)] if isinstance(node, ast.Name) else []
    for name in (v for v in made if isinstance(v, ast.Name)):
        made += [b.value for b in facts.resolver.bindings(name)]
    return any(isinstance(value, (ast.List, ast.Tuple)) for value in made)


def _graph(facts: Facts) -> ast.Call | None:
    """Where a layer is made that computes on a graph, if one is."""
    for call in facts.index.calls:
        qualified = facts.resolver.qualified(call.func) or ""
        if qualified.startswith(("torch_geometric.nn.", "dgl.nn.")) and facts.runs(call):
            return call
    return None


def _whole(facts: Facts, backward: ast.Call) -> Finding:
    """Every step computes on the same data: whether the rows of these can be shared out."""
    model = _model_call(facts, backward)
    shown = f"`{facts.short(model)}`" if model is not None else "the forward pass"
    trains = f"every step trains on the whole data ({shown} computes on the same in each)"
    if facts.handmade.sharable:
        return _finding(
            model or backward,
            f"{trains}: every process would train on all of them",
            "convert with --shard-manual, which gives each process its rows, or keep it on one process",
        )
    loop = next(iter(facts.index.enclosing_loops(backward)), None)
    step = facts.handmade.steps.get(loop) if loop is not None else None
    if step is not None and step.obstacle is not None and step.obstacle.why:
        return _finding(
            model or backward,
            f"{trains}, {step.obstacle.why} (line {position(step.obstacle.node)[0]}): several processes would only "
            "repeat what one does",
            "keep it on one process",
        )
    return _finding(
        model or backward,
        f"{trains}, so there are no batches to share out: several processes would only repeat what one does",
        "keep it on one process",
    )


def _by_hand(facts: Facts, step: Step) -> Finding:
    pick = min(step.picks, key=position)
    loop = position(step.loop.node)[0]
    made = f"the training loop of line {loop} picks its batches by hand (`{facts.short(pick)}`)"
    if step.obstacle is None:
        return _finding(
            pick, f"{made}: every process would train on all of each", f"convert with --shard-manual, or {_LOADER}"
        )
    return _finding(pick, f"{made}, {step.obstacle.why} (line {position(step.obstacle.node)[0]})", f"{_LOADER} first")


def _environment(facts: Facts) -> ast.Call | None:
    """Where a simulated environment is made, if one is."""
    for call in facts.index.calls:
        qualified = facts.resolver.qualified(call.func) or ""
        if library.matches(qualified, library.ENVIRONMENTS) and facts.runs(call):
            return call
    return None


def _model_call(facts: Facts, backward: ast.Call) -> ast.Call | None:
    """The call of a network nearest before a backward pass, in its function."""
    function = facts.index.function(backward)
    calls = [
        call
        for call in facts.index.calls
        if facts.index.function(call) is function
        and facts.objects.trained_models(call.func)
        and Role.LOSS not in facts.resolver.roles(call.func)
        and position(call) < position(backward)
    ]
    return max(calls, key=position, default=None)


def _finding(node: ast.AST, message: str, remedy: str) -> Finding:
    return Finding(_CODE, Severity.ERROR, node.lineno, message, remedy)  # type: ignore[attr-defined]
