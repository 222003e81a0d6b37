"""What the losses that backward passes go back from are over the samples of a batch: a mean, a sum, none of these."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import reduce

from accelift_codemod.batches import collating
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout import Layout, Shape
from accelift_codemod.facts.layout.algebra import join
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured import later, steadied
from accelift_codemod.measured.shares import is_share
from accelift_codemod.measured.updates import rows_that_divide

_CUTS = frozenset({"split", "tensor_split", "chunk", "range"})  # what cuts a batch into pieces, or numbers them
_INTO_AS_MANY = frozenset({"chunk"})
_WHOLE = (Layout.ROWS, Layout.CONST, Layout.ZERO)  # gradients that do not divide by how many samples there are


def kind(draft: Draft, call: ast.Call, loss: ast.expr) -> tuple[Shape, bool]:
    """What the loss of a backward pass is over the samples of a batch, and whether that is only supposed."""
    if draft.facts.processes.managed:
        return Layout.MEAN, False  # what a process computes on its own batch is averaged, as it was
    layout = _layout(draft, call, loss)
    if layout is Layout.ROWS:
        layout = _times_gradient(draft, call)
    unproved = layout in (Layout.UNKNOWN, Layout.MEAN, Layout.WEIGHTED)
    supposed = unproved and _supposed(draft, call, loss)
    layout = Layout.MIXED if supposed else layout
    alike = layout is Layout.MIXED or draft.options.batch != "per-process"  # if it is whole on every process
    if layout is not Layout.SUM and alike and _has_one(draft, call):
        layout = Layout.MEAN
    if layout is Layout.MIXED and not supposed:
        layout = steadied.layout(draft, call, loss) or layout
    if layout is Layout.SUM and _divides_gradients(draft, call):
        layout = Layout.MEAN
    if layout is Layout.UNKNOWN and _of_whole(draft, call, loss):
        layout = Layout.MEAN  # of the same data on all processes: their gradients are alike
    return layout, supposed


def collated(draft: Draft, call: ast.Call, loss: ast.expr) -> ast.expr | None:
    """What collates the batches, if nothing is known of it, nor of what the loss is a mean over."""
    collate = collating.unknown(draft, call)
    return collate if collate is not None and doubted(draft, call, loss) else None


def doubted(draft: Draft, call: ast.Call, loss: ast.expr) -> bool:
    """Whether a loss is only taken for a mean over the samples: it is one of something that is not known."""
    loops = (loop for loop in draft.training_around(call) if loop not in draft.blueprint.handmade)
    envs = [draft.environment(loop, call, layouts=draft.facts.doubted) for loop in loops]
    return any(env is not None and draft.facts.doubted.read(loss, env) is Layout.UNKNOWN for env in envs)


def added_along(draft: Draft, loss: ast.expr, steps: int = 4) -> Iterator[int | None]:
    """The dimensions along which elements are added up in what a loss is computed from; None of all elements."""
    for node in walk(loss):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sum":
            function = draft.facts.resolver.qualified(node.func) == "torch.sum"
            told = [*node.args[function:], *(k.value for k in node.keywords if k.arg in ("dim", "axis"))]
            if not told or integer(told[0]) is not None:
                yield integer(told[0]) if told else None
        for part in _made_of(draft, node) if steps else ():
            yield from added_along(draft, part, steps - 1)


def of_loops(draft: Draft, call: ast.Call) -> bool:
    """Whether a pass goes back from what loops over batches before it have computed."""
    exclusive = draft.blueprint.timeline.exclusive
    loops = draft.facts.loops.gradients.before(call)[0]
    return any(loop in draft.blueprint.loops and not exclusive(loop, call) for loop in loops)


def cuts_by_size(draft: Draft) -> bool:
    """Whether pieces of a batch may have a size that is told, so that a share has fewer: not if training surely has
    no others than those of `chunk`, which cuts into as many."""
    found = {name for call, name in _cuts(draft) if _is_cut(draft, call)}
    return not found or not found <= _INTO_AS_MANY


def _layout(draft: Draft, call: ast.Call, loss: ast.expr) -> Shape:
    found: list[Shape] = []
    for loop in draft.training_around(call):
        env = draft.environment(loop, call)
        if env is not None:
            found.append(draft.facts.layouts.read(loss, env))
            if loop.node in draft.facts.index.ancestors(call):
                break  # the others are around this one
    layout = reduce(join, found) if found else later.layout(draft, call, loss)
    return Layout.UNKNOWN if layout is Layout.UNSURE else layout


def _times_gradient(draft: Draft, call: ast.Call) -> Shape:
    """What the backward pass of a loss for each sample computes: the sum over them, each times its gradient."""
    gradient = draft.facts.resolver.argument(call, 0, "gradient")
    parts = [n for n in walk(gradient) if isinstance(n, ast.expr)] if gradient is not None else []
    if not parts or any(_layout(draft, call, n) is Layout.COUNT for n in parts):
        return Layout.UNKNOWN
    return Layout.SUM if _layout(draft, call, parts[0]) in _WHOLE else Layout.UNKNOWN


def _has_one(draft: Draft, call: ast.Call) -> bool:
    """Whether a loss is that of one sample, or of what a data set makes: every process has all of the batch."""
    loaders = [loader for loop in draft.training_around(call) for loader in loop.loaders]
    return bool(loaders) and all(map(draft.facts.objects.deals_whole, loaders))


def _divides_gradients(draft: Draft, call: ast.Call) -> bool:
    """Whether gradients are divided after the backward pass by the number of samples that the process has."""
    for loop in draft.training_around(call):
        for read in (n for s in loop.body for n in walk(s) if isinstance(n, ast.Attribute) and n.attr == "grad"):
            if rows_that_divide(draft, loop, draft.facts.index.statement(read)) is not None:
                return True
    return False


def _of_whole(draft: Draft, call: ast.Call, loss: ast.expr) -> bool:
    """Whether a loss is computed from nothing that a prepared loader may have dealt."""
    if draft.training_around(call) or of_loops(draft, call):
        return False
    queue: list[ast.AST] = [loss]
    for node in queue:
        for part in walk(node):
            if isinstance(part, ast.Name) and any(is_share(draft, v) for v in draft.facts.resolver.values(part)):
                return False
            queue += (made for made in _made_of(draft, part) if made not in queue)
    return True


def _supposed(draft: Draft, call: ast.Call, loss: ast.expr) -> bool:
    """Whether a loss compares samples, if networks that are not known give one row for each."""
    layouts = draft.facts.supposed
    loops = (loop for loop in draft.training_around(call) if loop not in draft.blueprint.handmade)
    envs = [draft.environment(loop, call, layouts=layouts) for loop in loops]
    return any(env is not None and layouts.read(loss, env) is Layout.MIXED for env in envs)


def _made_of(draft: Draft, node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that a variable takes its value from, or a function of the script or loss returns."""
    resolver = draft.facts.resolver
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        owner = draft.facts.index.scope(node).owner(node.id)
        bound = resolver.reaching(node, owner) if owner is not None else []
        yield from (b.value for b in bound if b.value is not None and not b.path)
    elif isinstance(node, ast.Call):
        losses = [v.declaration for v in resolver.values(node.func) if v.role in (Role.LOSS, Role.MODEL)]
        called = [resolver.callee(node), *(resolver.method(loss, "forward") for loss in losses)]
        for function in called:
            returns = resolver.returns(function) if isinstance(function, FUNCTIONS) else []
            yield from (r.value for r in returns if r.value is not None)


def _cuts(draft: Draft) -> Iterator[tuple[ast.Call, str]]:
    """The calls in training that may cut something into pieces, by what they are called."""
    for call in (c for c in draft.calls if c in draft.blueprint.in_training):
        resolver, func = draft.facts.resolver, call.func
        qualified = resolver.qualified(func) or resolver.builtin(func) or str(getattr(func, "attr", ""))
        name = qualified.rpartition(".")[2]
        if name in _CUTS:
            yield call, name


def _is_cut(draft: Draft, call: ast.Call) -> bool:
    """Whether a call may cut a batch into pieces: of where it stands nothing is known, or it does there."""
    known = [env for loop in draft.blueprint.train_loops if (env := draft.environment(loop, call)) is not None]
    return not known or any(draft.facts.layouts.read(call, env) is Layout.PIECES for env in known)
