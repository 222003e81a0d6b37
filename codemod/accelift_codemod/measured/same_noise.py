"""Noise that training, evaluation, networks and data sets draw for each batch, which every process may draw alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.batches import padding
from accelift_codemod.batches.unasked import unasked
from accelift_codemod.chance import seeds
from accelift_codemod.chance.decided import decides, decides_something, of_batch
from accelift_codemod.chance.noise import in_making
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, torch_ops
from accelift_codemod.facts.chance import NOT_DRAWN, SEEDS, drawn_from, of_distribution, own_generator
from accelift_codemod.facts.gradients import off
from accelift_codemod.facts.index import COMPREHENSIONS, FUNCTIONS, How
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.following.onward import reached
from accelift_codemod.measured.steering import steers

_ENTRIES = frozenset({"forward", "__getitem__", "__iter__"})
_OF_TENSORS = frozenset({"multinomial", "bernoulli"})  # methods that draw by the numbers in a tensor
_NOISE = frozenset("randn rand randint normal randn_like rand_like bernoulli multinomial".split())
_IN_WORKERS = ("noise of its own", "samples", "noise of collating")


def first_draws(draft: Draft) -> dict[str, ast.Call]:
    """The first call that draws noise of each kind."""
    first: dict[str, ast.Call] = {}
    for loop in draft.blueprint.train_loops:
        step = draft.blueprint.handmade.get(loop)
        dealt = loop.body.index(step.made) + 1 if step is not None and step.made in loop.body else 0
        alone = [s for s in loop.body[dealt:] if step is None or s not in step.again]
        for node in _noise(draft, alone):  # what was drawn before, or again, is dealt
            first.setdefault("noise", node)
    for loop in draft.blueprint.cuts:
        for node in _noise(draft, loop.body):
            first.setdefault("noise of an evaluation", node)
    for call in draft.calls:
        noisy = _in_each_batch(draft, call) and _draws(draft, call) and not _is_shown(draft, call)
        if noisy and not _is_not_noise(draft, call, _role(draft, call)):
            first.setdefault(_own_kind(draft, call), call)
    if "noise of its own" not in first:
        for role, call in _for_each_batch(draft):
            if (_draws(draft, call) and not _is_not_noise(draft, call, role)) or _draws_in_place(call):
                first.setdefault(_own_kind(draft, call), call)
    for call in _collating(draft):
        if _draws_in_place(call) or (_draws(draft, call) and not _decides_for_all(draft, call)):
            first.setdefault("noise of collating", call)
    return first


def is_seeded(draft: Draft, kind: str, call: ast.Call) -> bool:
    """Whether the script may seed what is drawn from: otherwise every process draws other numbers."""
    if seeds.unseeded(draft, call):
        return False
    home = "torch" if kind == "dropout" else drawn_from(draft.facts.resolver, call)
    names = SEEDS.get(home, ())
    if home in ("numpy", "random") and kind in _IN_WORKERS and _may_be_in_worker(draft, call):
        names = (*names, *SEEDS["torch"])  # by whose generator torch seeds all those of its workers
    return not home or seeds.perhaps(draft, names)


def _may_be_in_worker(draft: Draft, call: ast.Call) -> bool:
    """Whether a call may be made by a worker of a loader: not by a network."""
    objects, cls = draft.facts.objects, draft.facts.index.enclosing_class(call)
    loaders = (objects.loader(value) for _, value in draft.facts.objects_of(Role.LOADER))
    inside = isinstance(cls, ast.ClassDef) and draft.facts.resolver.class_role(cls) is Role.MODEL
    return not inside and any(one.has_workers or not one.complete for one in loaders)


def decided(draft: Draft) -> Iterator[ast.Call]:
    """The calls that draw what decides, or what is for weights, in training loops and in networks."""
    for loop in draft.blueprint.train_loops:
        yield from (n for n in _run(draft, loop.body) if _draws(draft, n) and _is_same(draft, n))
    inside = (c for c in draft.calls if _in_each_batch(draft, c) and _draws(draft, c))
    yield from (c for c in inside if _role(draft, c) is Role.MODEL and decides(draft, c))


def generator(draft: Draft, call: ast.Call) -> ast.expr | None:
    """The generator of the script's own that a call draws from."""
    own = own_generator(draft.facts.resolver, call)
    given = next((k.value for k in call.keywords if k.arg == "generator"), None)
    return own[0] if own is not None else None if isinstance(given, ast.Constant) else given


def _noise(draft: Draft, body: Sequence[ast.stmt]) -> Iterator[ast.Call]:
    """The calls by which statements of a loop, or functions that they call, draw random numbers."""
    for node in _run(draft, body):
        if _draws_in_place(node) or (_draws(draft, node) and not _is_same(draft, node)):
            if not _is_shown(draft, node):
                yield node


def _run(draft: Draft, body: Sequence[ast.stmt | ast.expr]) -> Iterator[ast.Call]:
    for statement in body:
        called = (s for f in draft.blueprint.timeline.calls_into(statement) for s in f.body)
        yield from (c for s in (statement, *called) for c in draft.facts.loops.own_calls(s))


def _is_same(draft: Draft, call: ast.Call) -> bool:
    """Whether what a training loop draws has to be the same everywhere: it only decides, or is one for weights."""
    given = (n for a in call.args for n in walk(a) if isinstance(n, ast.Name))
    return decides(draft, call) or any(map(draft.facts.objects.is_parameter, given))


def _draws(draft: Draft, call: ast.Call) -> bool:
    """Whether a call draws random numbers."""
    module, _, name = (draft.facts.resolver.qualified(call.func) or "").rpartition(".")
    if (module, name) == ("torch", "randperm"):  # of the rows of a batch, which mixes those of a share
        return any(of_batch(draft, argument) for argument in call.args)
    if (module == "torch" and name in _NOISE) or (module in ("numpy.random", "random") and name not in NOT_DRAWN):
        return True
    if isinstance(call.func, ast.Attribute) and call.func.attr in _OF_TENSORS and not name:
        of = draft.facts.resolver.values(call.func.value)  # which is no generator of NumPy, say
        if draft.facts.resolver.callee(call) is None and not any(v.name.startswith("numpy.") for v in of):
            return True
    return of_distribution(draft.facts.resolver, call) or own_generator(draft.facts.resolver, call) is not None


def _is_not_noise(draft: Draft, call: ast.Call, role: Role | None) -> bool:
    """Whether what a network draws only decides, for a whole batch, or what a data set draws, for one sample, is
    drawn by a generator that is made for that sample: `torch.Generator().manual_seed(index)`."""
    if role is Role.MODEL:
        return decides(draft, call)
    given = generator(draft, call)
    bound = draft.facts.resolver.bindings(given) if isinstance(given, ast.Name) else []
    here = draft.facts.index.function(call)
    made = (b.how is How.ASSIGN and draft.facts.index.function(b.node) is here for b in bound)
    return role is Role.DATASET and (isinstance(given, ast.Call) or (bool(bound) and all(made)))


def _in_each_batch(draft: Draft, call: ast.Call) -> bool:
    """Whether a call is made by a network or a data set for each batch."""
    function = draft.facts.index.function(call)
    owner = draft.facts.index.parents.get(function) if function is not None else None
    if not isinstance(owner, ast.ClassDef) or in_making(draft, function):
        return False
    # What others have a data set draw is for all of the data, and is to be the same on every process.
    sites = draft.facts.resolver.sites(function) if function is not None else []
    told = [s for s in sites if draft.facts.index.enclosing_class(s) is not owner]
    return _is_made(draft, owner) and not (draft.facts.resolver.class_role(owner) is Role.DATASET and told)


def _is_made(draft: Draft, cls: ast.ClassDef) -> bool:
    """Whether a class is a network or a data set of which the script may make one."""
    maker = draft.facts.resolver.method(cls, "__init__")
    made = maker is None or maker in draft.facts.executed
    return made and draft.facts.resolver.class_role(cls) in (Role.MODEL, Role.DATASET)


def _for_each_batch(draft: Draft) -> Iterator[tuple[Role | None, ast.Call]]:
    """The calls that a network or a data set makes for a batch or a sample, in functions that it calls, too, and
    which of the two it is."""
    for cls in draft.facts.index.classes:
        role = draft.facts.resolver.class_role(cls)
        if _is_made(draft, cls):
            for method in cls.body:
                if isinstance(method, FUNCTIONS) and method.name in _ENTRIES:
                    functions = (f for s in method.body for f in draft.blueprint.timeline.calls_into(s))
                    for function in dict.fromkeys((method, *functions)):
                        calls = (n for s in function.body for n in draft.facts.loops.own_calls(s))
                        yield from ((role, call) for call in calls)


def _collating(draft: Draft) -> Iterator[ast.Call]:
    """The calls by which collate functions make the batches of training loops and evaluations."""
    for loop in (*draft.blueprint.train_loops, *draft.blueprint.cuts):
        for function in (f for loader in loop.loaders for f in padding.collates(draft, loader)):
            body = [function.body] if isinstance(function, ast.Lambda) else function.body
            yield from _run(draft, body)


def _decides_for_all(draft: Draft, call: ast.Call) -> bool:
    """Whether what a collate function draws only decides, for the whole batch."""
    around = draft.facts.index.ancestors(call)
    each = any(isinstance(n, (*COMPREHENSIONS, ast.For, ast.While)) for n in around)
    return not each and decides_something(draft, call)


def _is_shown(draft: Draft, call: ast.Call) -> bool:
    """Whether what a call draws without gradients leads to no loss, as samples that are made to be looked at: what is
    kept in an attribute may."""
    if not off(draft.facts.resolver, call) or steers(draft, [call], saves=False):
        return False
    statements = map(draft.facts.index.statement, reached(draft, [call]))
    return not any(isinstance(t, ast.Attribute) for s in statements for t in targets(s))


def _draws_in_place(call: ast.Call) -> bool:
    """Whether a call fills a tensor with random numbers."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in torch_ops.FILLS


def _own_kind(draft: Draft, call: ast.Call) -> str:
    """What a network or a data set draws by a call: noise, or the samples of which the index says nothing."""
    dataset = draft.facts.index.enclosing_class(call) if _role(draft, call) is Role.DATASET else None
    return "noise of its own" if unasked(draft.facts.resolver, dataset) is None else "samples"


def _role(draft: Draft, call: ast.Call) -> Role | None:
    """What the class is that a call stands in: a network, a data set."""
    return draft.facts.resolver.class_role(draft.facts.index.enclosing_class(call))
