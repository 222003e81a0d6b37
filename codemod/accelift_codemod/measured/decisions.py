"""Decisions that are taken on what differs from process to process."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from accelift_codemod.chance import apart
from accelift_codemod.chance.moved import moving
from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role
from accelift_codemod.facts.chance import stream
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.layout import Layout, settled
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured import called, coins
from accelift_codemod.measured.asked import deciding, weighs_numbers
from accelift_codemod.measured.averaging import averaging
from accelift_codemod.measured.by_clock import timed
from accelift_codemod.measured.choices import SPELLED, choices, weighs_up
from accelift_codemod.measured.feeding import sets_source
from accelift_codemod.measured.numbers import contents
from accelift_codemod.measured.pieces import alike, as_many, filled_apart, numbered, numbers
from accelift_codemod.measured.same_tests import comes_out_alike, compares_alike, drops, reads_place
from accelift_codemod.measured.shares import local_names
from accelift_codemod.measured.steering import (
    acts,
    keeps_checkpoint,
    leaving_matters,
    meets,
    sets_group,
    takes_batch,
    updates,
)
from accelift_codemod.measured.sums import Loop, containers
from accelift_codemod.measured.switches import switched_by
from accelift_codemod.measured.updates import changes, divides_a_sum
from accelift_codemod.networks import run_apart
from accelift_codemod.plan import Finding, Severity

_OTHER_MODELS = "so would the update of the model: the processes would end with different ones"
_OTHER_DATA = "so would what the samples are made by, or drawn by: the processes would train on other ones"
_OTHER_BATCHES = "some would take a batch that others leave: they go on with parts of different ones"
_OTHER_LOSSES = "some would train on another loss than others"
# What the others wait for.
_WAITING = {
    "leave": "return before the backward pass",
    "raise": "raise what is caught elsewhere",
    "backward": "run the backward pass",
}
# What follows where drawn numbers decide.
_OTHER_TRAINING = "and what trains is decided by them: some would train on one thing while others train on another"
_OTHER_LAYERS = (
    "and which layers run is decided by them: a process waits for gradients that another one does not compute"
)

_DECIDING = (ast.stmt, ast.Call, *SPELLED)  # what may decide, or tell something what a share says


def decisions(draft: Draft, node: Loop, local: set[str], told: Collection[str] = ()) -> Iterator[Finding]:
    """Tests inside the loop on local values that leave it, skip a step, evaluate, or save, and loops over pieces of a
    batch. Of what sets variables that are `told` of, it is not said that some processes evaluate."""
    kept = containers(draft, node, local)
    losses = called.losses(node.body, draft.facts.loops.backwards_in(node))
    yield from timed(draft, node)
    if isinstance(node, ast.While) and goes_by(draft, node.test, local, kept):
        if not comes_out_alike(draft, node, node.test, local):
            yield _waits(draft, node, node.test, "leave the loop")
    yield from (
        coins.differing(draft, draft.facts.index.statement(n), coin, _OTHER_TRAINING)
        for n, coin in coins.picking(draft, node)
    )
    yield from _picked(draft, node, local, kept)
    for statement in (n for outer in node.body for n in walk(outer) if isinstance(n, _DECIDING)):
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            yield from _pieces(draft, statement, local)
        if isinstance(statement, (ast.Assign, ast.AugAssign)) and sets_source(draft, statement):
            if goes_by(draft, statement.value, local, kept):
                yield _differs(draft, statement, statement.value, _OTHER_DATA)
        if isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr)) and sets_group(draft, statement):
            if local & {n.id for n in loads(statement.value)}:
                yield _differs(draft, statement, statement.value, _OTHER_MODELS)
        if isinstance(statement, ast.Assign) and draft.facts.resolver.only(statement.value, Role.OPTIMIZER):
            options = statement.value.keywords if isinstance(statement.value, ast.Call) else []
            by = next((k.value for k in options if local & {n.id for n in loads(k.value)}), None)
            if by is not None:
                yield _differs(draft, statement, by, _OTHER_MODELS)
        if isinstance(statement, ast.Assign) and stores(statement) & losses & local:
            choices = [n for n in walk(statement.value) if isinstance(n, ast.IfExp) and weighs_up(n.test)]
            for choice in choices:
                local_test = goes_by(draft, choice.test, local, kept)
                if local_test and not comes_out_alike(draft, node, choice.test, local):
                    yield _differs(draft, statement, choice.test, _OTHER_LOSSES)
        if isinstance(statement, ast.Expr) and (perturbing := _perturbs(draft, statement.value)):
            if any(coins.drawn(draft, argument) is not None for argument in perturbing):
                yield _differs(draft, statement, statement.value, _OTHER_MODELS)
                continue
            by_chance = next((found for a in perturbing if (found := _drifting(draft, node, a))), None)
            if by_chance is not None:
                yield _drifts(draft, statement, by_chance, "weights are changed by", "ends with another model")
                continue
        if isinstance(statement, ast.stmt) and (by := changes(draft, statement, local)) is not None:
            yield from _changed(draft, node, statement, by)
        told_to = (v for v in switched_by(draft, statement) if goes_by(draft, v, local, kept))
        if (by := next((v for v in told_to if not _is_size(draft, node, v, local)), None)) is not None:
            yield _differs(draft, statement, by, _OTHER_MODELS)
        if isinstance(statement, SPELLED):
            yield from _spelled(draft, node, statement, local, kept)
        switch = coins.switched(draft, statement) if isinstance(statement, (ast.Assign, ast.Expr)) else None
        if switch is not None and isinstance(statement, ast.stmt):
            yield coins.differing(draft, statement, switch, _OTHER_TRAINING)
        if not isinstance(statement, (ast.If, ast.While)):
            continue
        drawn = coins.drawn(draft, statement.test)
        if drawn is not None and (_matters(draft, node, statement) or _evaluates(draft, statement)):
            yield coins.differing(draft, statement, drawn, _OTHER_TRAINING)
        drifting = _drifting(draft, node, statement.test) if drawn is None else None
        if drifting is not None and (_matters(draft, node, statement) or _sets_rate(draft, statement)):
            yield _drifts(draft, statement, drifting, "what trains is decided by", "decides otherwise")
        differs = goes_by(draft, statement.test, local, kept)
        if not differs or comes_out_alike(draft, node, statement.test, local):
            each = coins.for_share(draft, node, statement.test) if drawn is None and drifting is None else None
            if each is not None and _matters(draft, node, statement):
                yield coins.fewer(draft, statement, each)
            if not differs:
                yield from _reached(draft, statement, local, kept)
            continue
        inside, ends, leaves = _leaving(draft, statement, (ast.Break, ast.Continue, ast.Return))
        if leaves or any(map(draft.facts.loops.is_backward, inside)):
            skips = leaves and not any(isinstance(n, (ast.Break, ast.Return)) for n in inside)
            left = "skip the rest of the iteration" if skips else "leave the loop"
            what = "end" if ends else left if leaves else "run the backward pass"
            yield _waits(draft, statement, statement.test, what)
        elif weighs_numbers(draft, statement.test) and meets(draft, [*statement.body, *statement.orelse]):
            if stores(statement) & {*told}:
                continue
            yield _meets(draft, statement, statement.test, [*statement.body, *statement.orelse])
        elif weighs_numbers(draft, statement.test) and acts(draft, [*statement.body, *statement.orelse], saves=False):
            yield _differs(draft, statement, statement.test, _OTHER_MODELS)
        elif (
            weighs_up(statement.test)
            and _is_read_after(
                draft, statement, losses & {n for s in (*statement.body, *statement.orelse) for n in stores(s)}
            )
            and not compares_alike(draft, node, statement.test)
        ):
            yield _differs(draft, statement, statement.test, _OTHER_LOSSES)
        elif (
            weighs_up(statement.test)
            and keeps_checkpoint(draft, statement.body)
            and not compares_alike(draft, node, statement.test)
        ):
            yield _keeps_another(draft, statement, statement.test)
        elif weighs_numbers(draft, statement.test) and (draw := apart.drawn_apart(draft, node, statement)) is not None:
            yield apart.differing(draft, statement, draw)
        elif weighs_numbers(draft, statement.test):
            yield from run_apart.waits(draft, statement, statement.test)


def _spelled(draft: Draft, node: Loop, choice: ast.AST, local: set[str], kept: set[str]) -> Iterator[Finding]:
    """The same of choices that are no `if`."""
    statement = draft.facts.index.statement(choice)
    for test, parts in choices(draft, choice):
        if not goes_by(draft, test, local, kept):
            continue
        inside = [n for part in parts for n in walk(part)]
        exits = (n for n in inside if isinstance(n, (ast.Break, ast.Continue, ast.Return)))
        home = draft.facts.index.function(choice)  # what it picks is left by ends of its own
        leaves = choice in inside or any(draft.facts.index.function(n) is home for n in exits)
        if leaves or any(map(draft.facts.loops.is_backward, inside)):
            yield _waits(draft, statement, test, "leave the loop" if leaves else "run the backward pass")
        elif not weighs_numbers(draft, test):
            continue
        elif meets(draft, parts):
            yield _meets(draft, statement, test, parts)
        elif acts(draft, parts, saves=False) or _picks_update(draft, choice):
            yield _differs(draft, statement, test, _OTHER_MODELS)
        elif keeps_checkpoint(draft, parts) and not compares_alike(draft, node, test):
            yield _keeps_another(draft, statement, test)
        else:
            yield from run_apart.waits(draft, choice, test)


def _is_size(draft: Draft, node: Loop, value: ast.expr, local: set[str]) -> bool:
    """Whether it is only asked how many samples the process has: `net.rows = len(x)`."""
    loop = draft.blueprint.loops.get(node)
    env = draft.environment(loop, draft.facts.index.statement(value)) if loop is not None else None
    counts = env is not None and draft.facts.layouts.read(value, env) is Layout.COUNT
    return counts or not any(n.id in local for n in contents(draft, value))


def _picks_update(draft: Draft, choice: ast.AST) -> bool:
    """Whether an expression picks one of several optimizers or schedules: `(adam if low else sgd).step()`."""
    arms = [choice.body, choice.orelse] if isinstance(choice, ast.IfExp) else []
    return bool(arms) and all(draft.facts.resolver.roles(arm) & {Role.OPTIMIZER, Role.SCHEDULER} for arm in arms)


def decisions_called(draft: Draft, node: Loop, local: set[str], whole: Collection[ast.AST] = ()) -> Iterator[Finding]:
    """The same in functions that an iteration calls to train on a batch; `whole` is made that of all processes."""
    for one in called.decisions(draft, node, local, whole):
        if one.what == "update":
            yield _differs(draft, one.place, one.by, _OTHER_MODELS)
        elif one.what == "loss":
            yield _differs(draft, one.place, one.by, _OTHER_LOSSES)
        elif one.what == "rate":
            yield _differs(draft, one.place, one.by, "so would the learning rate that the schedule sets by it")
        elif one.what == "pass":
            yield from run_apart.waits(draft, one.place, one.by) if weighs_numbers(draft, one.by) else ()
        else:
            yield _waits(draft, one.place, one.by, _WAITING[one.what])


def _waits(draft: Draft, statement: ast.AST, test: ast.expr, what: str) -> Finding:
    return draft.finding(
        "COLL-RANKFLOW",
        Severity.ERROR,
        statement,
        f"`{draft.facts.segment(test)}` differs from process to process, and some would {what} while others do not, "
        "and wait",
        f"decide on a value that is the same everywhere ({averaging(draft, statement, test)}, or set_trigger and "
        "check_trigger)",
    )


def _meets(draft: Draft, statement: ast.AST, test: ast.expr, parts: Sequence[ast.stmt | ast.expr]) -> Finding:
    if takes_batch(draft, parts):
        return _differs(draft, statement, test, _OTHER_BATCHES)
    return _waits(draft, statement, test, "go through a loader")


def layers_by_chance(draft: Draft) -> Iterator[Finding]:
    """Layers of networks that run on some processes only, as drawn numbers decide."""
    for choice, coin in coins.layers_by_chance(draft):
        yield coins.differing(draft, choice, coin, _OTHER_LAYERS)


def _changed(draft: Draft, node: Loop, statement: ast.stmt, by: ast.expr) -> Iterator[Finding]:
    """What is told of weights or gradients that a share changes: the gradient of a sum that is divided by its rows is
    right where shares are as large (see rules/backward.py)."""
    loop = draft.blueprint.loops.get(node)
    if loop is None or not divides_a_sum(draft, loop, statement):
        yield _differs(draft, statement, by, _OTHER_MODELS)
    elif not all(drops(draft, v) for v in loop.loaders):
        yield draft.finding(
            "COLL-RANKFLOW",
            Severity.WARNING,
            statement,
            f"`{draft.facts.segment(by)}` differs from process to process where a batch cannot be shared evenly: "
            "gradients are divided by it, and the processes would end with different models",
            "give the loader drop_last=True and batches that the number of processes divides, or go back from the mean",
        )


def _keeps_another(draft: Draft, statement: ast.AST, test: ast.expr) -> Finding:
    found = draft.finding(
        "METRIC-TRAIN",
        Severity.WARNING,
        statement,
        f"`{draft.facts.segment(test)}` decides which checkpoint is kept by the main process's share "
        "of a batch: it may be another one than one process would keep",
        f"average what it compares with {averaging(draft, statement, test)} before the test",
    )
    # Unless it is loaded again, nothing but the checkpoint, and what is set beside it, is another one.
    return found if _loads_again(draft) else replace(found, tells=())


def _loads_again(draft: Draft) -> bool:
    """Whether a script may go on with a checkpoint that it has kept."""
    names = (draft.facts.resolver.qualified(call.func) or "" for call in draft.calls)
    return bool(draft.facts.index.methods.get("load_state_dict")) or any(name.endswith("load") for name in names)


def _differs(draft: Draft, statement: ast.AST, value: ast.expr, consequence: str) -> Finding:
    return draft.finding(
        "COLL-RANKFLOW",
        Severity.ERROR,
        statement,
        f"`{draft.facts.segment(value)}` differs from process to process, and {consequence}",
        f"decide on a value that is the same everywhere, averaged by {averaging(draft, statement, value)}",
    )


def _drifting(draft: Draft, node: Loop, test: ast.expr) -> tuple[ast.Call, ast.Call] | None:
    """A call in a test that draws from a seeded generator, and one by which samples draw from it, too."""
    loop = draft.blueprint.loops.get(node)
    calls = (n for n in deciding(draft, test) if isinstance(n, ast.Call) and stream(draft.facts.resolver, n))
    for call in calls if loop is not None else ():
        sample = moving(draft, loop, call)  # type: ignore[arg-type]
        if sample is not None:
            return call, sample
    return None


def _picked(draft: Draft, node: Loop, local: set[str], kept: set[str]) -> Iterator[Finding]:
    """Trained networks, or their optimizers, that are picked by what differs from process to process, once for each
    way in which that is spelled."""
    told: set[str] = set()
    for part in coins.picks(draft, node):
        models = draft.facts.objects.models(part)
        spelled = draft.facts.segment(part.slice)
        if models and not draft.blueprint.prepared_models(part):
            continue  # none that processes wait with
        if spelled not in told and goes_by(draft, part.slice, local, kept):
            told.add(spelled)
            yield draft.finding(
                "COLL-RANKFLOW",
                Severity.ERROR,
                draft.facts.index.statement(part),
                f"`{spelled}` differs from process to process, and some would train another network than others, and "
                "wait for each other",
                "pick by what is the same everywhere: average what it is worked out from over the processes before "
                '(accelerator.reduce(..., "mean"))',
            )


def goes_by(draft: Draft, test: ast.expr, local: set[str], kept: set[str]) -> bool:
    """Whether a test may come out otherwise where some variables are other ones."""
    if settled.outcome(draft.facts.resolver, test) is not None:
        return False
    if reads_place(test, local):
        return True
    read = (
        n for n in loads(test) if n.id in local and not _counts(draft, n, kept, local) and not alike(draft, n, local)
    )
    return not all(numbers(draft, name, local) for name in read)


def _leaving(
    draft: Draft, statement: ast.If | ast.While, kinds: tuple[type[ast.stmt], ...]
) -> tuple[list[ast.AST], bool, bool]:
    """The nodes of the arms of a test, whether they end the script, and whether they do that or leave."""
    inside = [n for s in (*statement.body, *statement.orelse) for n in walk(s)]
    ends = any(isinstance(n, ast.Expr) and draft.ends(n) for n in inside)
    around = draft.facts.index.ancestors(statement) if any(isinstance(n, ast.Raise) for n in inside) else ()
    caught = any(isinstance(n, ast.Try) and n.handlers and statement in {*walk(ast.Module(n.body, []))} for n in around)
    leaves = (
        isinstance(n, kinds) and (not isinstance(n, (ast.Break, ast.Continue)) or leaving_matters(draft, n, saves=True))
        for n in inside
    )
    return inside, ends, ends or caught or any(leaves)


def _reached(draft: Draft, statement: ast.If | ast.While, local: set[str], kept: set[str]) -> Iterator[Finding]:
    """What goes by the number of an iteration that only some processes come to, and matters beyond their loop. Of a
    backward pass the loop itself is told of."""
    tested = [n for n in loads(statement.test) if n.id in local and not _counts(draft, n, kept, local)]
    uneven = next((i for n in tested for i in numbered(draft, n) if not as_many(draft, i, local)), None)
    if uneven is None or settled.outcome(draft.facts.resolver, statement.test) is not None:
        return
    _, ends, leaves = _leaving(draft, statement, (ast.Return,))
    if leaves:
        yield _waits(draft, statement, uneven, "end" if ends else "leave the loop")
    elif not _goes_back(draft, uneven) and acts(draft, [*statement.body, *statement.orelse], saves=False):
        yield _differs(draft, statement, uneven, _OTHER_MODELS)


def _goes_back(draft: Draft, iterated: ast.expr) -> bool:
    """Whether a loop over something runs backward passes, so that it is told of itself."""
    loop = draft.facts.index.parents[iterated]
    return isinstance(loop, (ast.For, ast.AsyncFor)) and draft.facts.loops.reaches_backward(loop.body)


def _counts(draft: Draft, name: ast.Name, kept: set[str], local: set[str]) -> bool:
    """Whether it is only asked how much a list has that each iteration fills."""
    parent = draft.facts.index.parents[name]
    asks = isinstance(parent, ast.Call) and draft.facts.resolver.builtin(parent.func) == "len"
    return asks and name.id in kept and not filled_apart(draft, name, local)


def _matters(draft: Draft, node: Loop, choice: ast.If | ast.While) -> bool:
    """Whether processes that decide otherwise would do other things together."""
    arms = [[n for s in arm for n in walk(s)] for arm in (choice.body, choice.orelse)]
    trains = [sum(draft.facts.loops.is_backward(n) or updates(draft, n) for n in arm) for arm in arms]
    acting = [acts(draft, arm, saves=False) for arm in (choice.body, choice.orelse)]
    return acting[0] != acting[1] or coins.matters(draft, node, choice, trains)


def _evaluates(draft: Draft, choice: ast.If | ast.While) -> bool:
    """Whether processes go through a loader together as a test decides."""
    return meets(draft, [*choice.body, *choice.orelse])


def _perturbs(draft: Draft, node: ast.expr) -> list[ast.expr]:
    """What a call is given that changes a parameter in place."""
    func = node.func if isinstance(node, ast.Call) else None
    if not (isinstance(node, ast.Call) and isinstance(func, ast.Attribute) and func.attr.endswith("_")):
        return []
    changed = func.value
    if isinstance(changed, ast.Attribute) and changed.attr == "data":
        changed = changed.value
    return [*node.args, *(k.value for k in node.keywords)] if draft.facts.objects.is_parameter(changed) else []


def _sets_rate(draft: Draft, choice: ast.If | ast.While) -> bool:
    """Whether a test decides a setting of an optimizer."""
    return any(sets_group(draft, n) for s in (*choice.body, *choice.orelse) for n in walk(s))


def _drifts(
    draft: Draft, statement: ast.stmt, drifting: tuple[ast.Call, ast.Call], what: str, consequence: str
) -> Finding:
    coin, sample = map(draft.facts.segment, drifting)
    return draft.finding(
        "COLL-RANKFLOW",
        Severity.WARNING,
        statement,
        f"{what} `{coin}`, and the samples draw from the same generator (`{sample}`): a process that has other samples "
        f"comes to another place of the stream, and {consequence}",
        "draw this from a generator of its own (random.Random(seed), torch.Generator())",
    )


def chosen_by_content(draft: Draft, statement: ast.stmt) -> ast.expr | None:
    """The test around a statement of a training loop that asks whether something is in the batch, or equal to it."""
    tests: list[ast.expr] = []
    for parent in draft.facts.index.ancestors(statement):
        loop = draft.blueprint.loops.get(parent)
        if loop is not None and loop.trains and isinstance(parent, Loop):
            local = local_names(draft, loop, parent) if tests else set()
            return next((t for t in tests if any(is_content(draft, n, local) for n in walk(t))), None)
        if isinstance(parent, ast.If) and any(
            isinstance(n, ast.Compare) and any(isinstance(o, (ast.In, ast.Eq)) for o in n.ops)
            for n in walk(parent.test)
        ):
            tests.append(parent.test)
    return None


def is_content(draft: Draft, node: ast.AST, local: set[str]) -> bool:
    """Whether a node reads one of the variables, and not only its size."""
    if not isinstance(node, ast.Name) or node.id not in local:
        return False
    parent = draft.facts.index.parents[node]
    sized = isinstance(parent, ast.Attribute) and parent.attr in ("size", "shape")
    return not sized and not (isinstance(parent, ast.Call) and draft.facts.resolver.builtin(parent.func) == "len")


def _pieces(draft: Draft, inner: ast.For | ast.AsyncFor, local: set[str]) -> Iterator[Finding]:
    """A loop that runs backward as often as there are pieces of what the process has."""
    if not as_many(draft, inner.iter, local) and draft.facts.loops.reaches_backward(inner.body):
        yield draft.finding(
            "COLL-RANKFLOW",
            Severity.ERROR,
            inner,
            f"`{draft.facts.segment(inner.iter)}` may have more pieces on one process than on another, which then "
            "runs fewer backward passes, and some wait",
            "let every process take as many pieces: of batches that are shared out evenly (drop_last=True), or a "
            "fixed number",
        )


def _is_read_after(draft: Draft, choice: ast.If | ast.While, names: set[str]) -> bool:
    """Whether what a test lets be set in some of the variables is read behind it."""
    index, resolver = draft.facts.index, draft.facts.resolver
    for name in names:
        owner = index.scope(choice).owner(name)
        for load in draft.facts.loads(owner, name) if owner is not None else ():
            if load.lineno > (choice.end_lineno or 0) and owner is not None:
                if any(choice in index.ancestors(b.node) for b in resolver.reaching(load, owner)):
                    return True
                if any(choice in index.ancestors(b.node) for b in owner.bindings[name] if b.how is How.AUGMENT):
                    return True
    return False
