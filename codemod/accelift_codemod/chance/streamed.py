"""Orders that are drawn without a seed while they are dealt, by every process for itself: data sets that are iterated,
and samplers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance import seeds
from accelift_codemod.chance.picked import SAMPLERS
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, position
from accelift_codemod.facts.chance import SEEDS, drawn_from
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.scopes import end_position
from accelift_codemod.facts.tree import walk

_ORDERS = frozenset({"randperm", "permutation", "shuffle"})
_STREAM = "torch.utils.data.IterableDataset"


def shuffled(draft: Draft) -> Iterator[tuple[ast.Call, ast.ClassDef]]:
    """For each data set that deals its samples one after the other: a call that puts them into order without a seed.

    Not where workers read it, which torch seeds alike on all processes, nor where one process reads for all.
    """
    if draft.options.target == "accelerate":
        return
    for _, value in draft.facts.objects_of(Role.LOADER):
        loader = draft.facts.objects.loader(value)
        if loader.has_workers:
            continue
        for data in draft.facts.resolver.values(loader.arguments.get("dataset")):
            cls = data.declaration
            deals = draft.facts.resolver.method(cls, "__iter__")
            found = list(_drawn(draft, deals)) if deals is not None and _is_stream(draft, cls) else []
            if isinstance(cls, ast.ClassDef) and found:
                yield next((call for call in found if _name(draft, call) in _ORDERS), found[0]), cls


def dealt(draft: Draft) -> Iterator[tuple[ast.Call, ast.ClassDef]]:
    """For each sampler of the script's own, of a loader that is shared out: a call by which it draws without a seed
    after it has dealt something. What it draws before that, all processes draw alike."""
    for cls in _samplers(draft):
        deals = draft.facts.resolver.method(cls, "__iter__")
        drawn = next(_drawn_later(draft, deals), None) if deals is not None else None
        if drawn is not None:
            yield drawn, cls


def made(draft: Draft) -> Iterator[tuple[ast.Call, ast.ClassDef]]:
    """For each of these samplers: a call by which it draws without a seed what it keeps when it is made."""
    for cls in _samplers(draft):
        maker = draft.facts.resolver.method(cls, "__init__")
        functions = (maker, *(f for s in maker.body for f in draft.blueprint.timeline.calls_into(s))) if maker else ()
        calls = (n for f in functions for n in walk(f) if isinstance(n, ast.Call))
        drawn = next((c for c in calls if _is_unseeded(draft, c) and _is_dealt(draft, c, cls)), None)
        if drawn is not None:
            yield drawn, cls


def _is_dealt(draft: Draft, call: ast.Call, cls: ast.ClassDef) -> bool:
    """Whether a sampler may deal by what it draws when it is made: not if it only keeps that in an attribute, which
    neither its methods read nor what they call."""
    statement, index = draft.facts.index.statement(call), draft.facts.index
    kept = statement.targets if isinstance(statement, ast.Assign) else []
    names = [target.attr for target in kept if isinstance(target, ast.Attribute)]
    methods = [f for one in draft.facts.resolver.ancestry(cls) for f in one.body if isinstance(f, FUNCTIONS)]
    if not kept or len(names) < len(kept) or draft.facts.resolver.method(cls, "__iter__") is None:
        return True
    own = {f for m in methods for f in (m, *(f for s in m.body for f in draft.blueprint.timeline.calls_into(s)))}
    if any(isinstance(n, ast.Name) and n.id == "super" for f in methods if f.name == "__iter__" for n in walk(f)):
        return True  # a class of a library deals
    reads = (n for name in names for n in index.attributes.get(name, ()) if isinstance(n.ctx, ast.Load))
    return any(index.function(read) in own for read in reads)


def _samplers(draft: Draft) -> Iterator[ast.ClassDef]:
    """The classes of the samplers of the script's own, of loaders that are shared out."""
    found: dict[ast.ClassDef, None] = {}
    for item in draft.blueprint.items.values():
        given = draft.facts.objects.loader(item.value).arguments if item.kind is Role.LOADER else {}
        values = (v for name in SAMPLERS for v in draft.facts.resolver.values(given.get(name)))
        found.update((v.declaration, None) for v in values if isinstance(v.declaration, ast.ClassDef))
    yield from found


def _drawn_later(draft: Draft, deals: Function) -> Iterator[ast.Call]:
    """What generators, and what they call, draw without a seed after they have dealt something."""
    calls_into = draft.blueprint.timeline.calls_into
    for function in (deals, *(f for s in deals.body for f in calls_into(s))):
        dealing = [n for n in walk(function) if isinstance(n, (ast.Yield, ast.YieldFrom))]
        if not dealing or not draft.facts.resolver.yields(function):
            continue
        loops = dict.fromkeys(loop for one in dealing for loop in draft.facts.index.enclosing_loops(one))
        again = {n for loop in loops for part in _repeated(loop) for n in walk(part)}
        first = min(map(end_position, dealing))
        calls = [n for n in walk(function) if isinstance(n, ast.Call) and (n in again or position(n) >= first)]
        for call in (*calls, *(n for c in calls for f in calls_into(c) for n in walk(f) if isinstance(n, ast.Call))):
            if _is_unseeded(draft, call):
                yield call


def _repeated(loop: ast.AST) -> list[ast.AST]:
    """What a loop runs each time."""
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        return [*loop.body]
    return [loop.test, *loop.body] if isinstance(loop, ast.While) else []


def _is_unseeded(draft: Draft, call: ast.Call) -> bool:
    home = drawn_from(draft.facts.resolver, call)
    return not seeds.seeded(draft, call, SEEDS[home]) if home else seeds.unseeded(draft, call)


def _is_stream(draft: Draft, cls: ast.AST | None) -> bool:
    bases = (base for one in draft.facts.resolver.ancestry(cls) for base in one.bases)
    return any(draft.facts.resolver.qualified(base) == _STREAM for base in bases)


def _drawn(draft: Draft, deals: Function) -> Iterator[ast.Call]:
    """What is drawn in generators, and what they call: what is drawn before these are begun, all draw alike."""
    run = [deals, *(f for s in deals.body for f in draft.blueprint.timeline.calls_into(s))]
    lazy = [f for f in run if draft.facts.resolver.yields(f)]
    called = (f for one in lazy for s in one.body for f in draft.blueprint.timeline.calls_into(s))
    for function in dict.fromkeys((*lazy, *called)):
        for call in (n for s in function.body for n in walk(s) if isinstance(n, ast.Call)):
            if _is_unseeded(draft, call) and _puts_in_order(draft, call):
                yield call


def _puts_in_order(draft: Draft, call: ast.Call) -> bool:
    """Whether a call shuffles, or draws the place of what is taken out of a list: `rows.pop(random.randrange(n))`.

    What is drawn and put back is no order: another draw is as good.
    """
    if _name(draft, call) in _ORDERS:
        return True
    statement = draft.facts.index.statement(call)
    names = [t for t in getattr(statement, "targets", ()) if isinstance(t, ast.Name)]
    known = isinstance(statement, ast.Assign) and statement.value is call
    function = draft.function(call)
    reads: list[ast.AST] = [call]
    if known and isinstance(function, FUNCTIONS):
        reads += [n for t in names for n in draft.facts.loads(draft.facts.index.scopes[function], t.id)]
    return any(_is_place(draft, read) for read in reads)


def _name(draft: Draft, call: ast.Call) -> str:
    return (draft.facts.resolver.qualified(call.func) or ast.unparse(call.func)).rpartition(".")[2]


def _is_place(draft: Draft, read: ast.AST) -> bool:
    """Whether what is read is the place of an entry that is taken out of something, or gives way to another one."""
    parent = draft.facts.index.parents[read]
    if isinstance(parent, ast.Subscript):
        return parent.slice is read and not isinstance(parent.ctx, ast.Load)
    taken = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr == "pop"
    return taken and isinstance(parent, ast.Call) and read in parent.args
