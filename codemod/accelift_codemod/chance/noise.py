"""Random numbers that code draws in each iteration of a loop, in the networks that it runs, too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance.streams import drawn_for_each, draws_samples
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.chance import drawn_from, seeds
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.objects import Loader
from accelift_codemod.facts.tree import is_constant, walk

_STEPS = 4  # from a function to what calls it
# Samplers of torch that draw from a generator, the global one unless they are given one.
DRAWING = frozenset(
    f"torch.utils.data{module}.{name}"
    for module in ("", ".sampler")
    for name in ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")
)


def alike(draft: Draft, loop: BatchLoop) -> bool:
    """Whether all processes compute the same in a loop: all of them get each batch whole, and nothing is drawn."""
    return all_whole(draft, loop) and _draw(draft, loop) is None and not draws_samples(draft, loop)


def all_whole(draft: Draft, loop: BatchLoop) -> bool:
    """Whether every process gets each batch of a loop whole: one sample, or what the data set makes."""
    shared = draft.options.batch == "global" and not draft.facts.processes.managed
    return shared and bool(loop.loaders) and all(map(draft.facts.objects.deals_whole, loop.loaders))


def noise(draft: Draft, loop: BatchLoop) -> ast.Call | None:
    """A call that draws from a global generator which the evaluation does not seed: in the loop, in what it runs, for
    each sample, or for the order of the samples of which it takes the first ones."""
    function = draft.function(loop.node)
    around = function.body if function is not None else []
    if draft.facts.loops.reaches_backward(around):  # that of the training, too
        around = []
    if any(isinstance(n, ast.Call) and seeds(draft.facts.resolver, n) for s in around for n in walk(s)):
        return None
    return _draw(draft, loop) or drawn_for_each(draft, loop) or _partial_order(draft, loop)


def _draw(draft: Draft, loop: BatchLoop) -> ast.Call | None:
    """A call in a loop, or in what it runs, that draws from a global generator."""
    drawing = (n for n in _run(draft, loop.body) if drawn_from(draft.facts.resolver, n))
    return next((n for n in drawing if not in_making(draft, draft.function(n))), None)


def _partial_order(draft: Draft, loop: BatchLoop) -> ast.Call | None:
    """The loader of a loop that ends early, or does not deal the last samples, if its order is drawn: others are among
    the first ones then."""
    leaves = (n for s in loop.body for n in walk(s) if isinstance(n, (ast.Break, ast.Return)))
    early = any(isinstance(n, ast.Return) or draft.facts.index.enclosing_loops(n)[:1] == [loop.node] for n in leaves)
    loader = _in_drawn_order(draft, loop)
    if loader is None or not (
        early or (is_constant(loader.arguments.get("drop_last"), True) and not fills(draft, loader))
    ):
        return None
    return loader.call


def drawn_order(draft: Draft, loop: BatchLoop) -> ast.Call | None:
    """Where a loader of a loop is made that surely draws the order of its samples from torch's global generator."""
    loader = _in_drawn_order(draft, loop)
    return loader.call if loader is not None else None


def _in_drawn_order(draft: Draft, loop: BatchLoop) -> Loader | None:
    for loader in map(draft.facts.objects.loader, loop.loaders):
        given = loader.arguments
        if is_constant(given.get("shuffle"), True) and given.keys().isdisjoint(
            {"generator", "sampler", "batch_sampler"}
        ):
            return loader
        if _draws(draft, given.get("sampler")):
            return loader
    return None


def fills(draft: Draft, loader: Loader) -> bool:
    """Whether a loader is known to have as many samples as fill its batches: the rows of tensors."""
    size = integer(loader.arguments.get("batch_size"))
    for value in draft.facts.resolver.values(loader.arguments.get("dataset")):
        made = value.origin
        tensors = isinstance(made, ast.Call) and value.name.endswith(".TensorDataset") and bool(made.args)
        extent = draft.facts.extents.of(made.args[0]) if tensors else None  # type: ignore[attr-defined]
        rows = extent.sizes[0] if extent is not None and extent.sizes else None
        if not size or rows is None or rows % size:
            return False
    return True


def _draws(draft: Draft, sampler: ast.expr | None) -> bool:
    """Whether a sampler is surely one of torch that draws from the global generator."""
    values = draft.facts.resolver.values(sampler)
    made = [v.origin for v in values if v.name in DRAWING and isinstance(v.origin, ast.Call)]
    return len(made) == len(values) > 0 and all(k.arg not in ("generator", None) for c in made for k in c.keywords)


def in_making(draft: Draft, function: ast.AST | None, depth: int = 0) -> bool:
    """Whether a function runs only when an object is made: a constructor, or what constructors alone call."""
    if not isinstance(function, ast.FunctionDef) or depth > _STEPS:
        return False
    if function.name.startswith("__init"):
        return True
    own = draft.facts.index.enclosing_class(function)
    callers = _callers(draft, function.name).get(own, []) if own is not None else []
    return bool(callers) and all(in_making(draft, caller, depth + 1) for caller in callers)


@kept
def _callers(draft: Draft, name: str) -> dict[ast.ClassDef | None, list[ast.AST | None]]:
    """By their class, the functions that call a method of a name."""
    found: dict[ast.ClassDef | None, list[ast.AST | None]] = {}
    for call in draft.facts.index.methods.get(name, []):
        found.setdefault(draft.facts.index.enclosing_class(call), []).append(draft.facts.index.function(call))
    return found


def _run(draft: Draft, body: list[ast.stmt]) -> Iterator[ast.Call]:
    """The calls in statements, in the functions that they call, and where the networks that these run are made: in
    their classes, but for methods that nothing of it all names."""
    queue: list[ast.AST] = [*body, *(f for s in body for f in draft.blueprint.timeline.calls_into(s))]
    seen = set(queue)
    named: set[str] = set()
    unnamed: dict[str, list[ast.AST]] = {}
    while queue:
        for node in walk(queue.pop()):
            if isinstance(node, ast.Attribute):
                named.add(node.attr)
                queue += unnamed.pop(node.attr, ())
            if not isinstance(node, ast.Call):
                continue
            yield node
            owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            for value in (*draft.facts.objects.models(owner), *draft.facts.objects.models(node)):
                classes = draft.facts.resolver.ancestry(value.declaration)
                made = [value.origin, *(part for cls in classes for part in cls.body)]
                for part in (part for part in made if part not in seen):
                    seen.add(part)
                    runs = not isinstance(part, FUNCTIONS) or part.name == "forward" or part.name.startswith("__")
                    waits = not runs and part.name not in named  # type: ignore[attr-defined]
                    (unnamed.setdefault(part.name, []) if waits else queue).append(part)  # type: ignore[attr-defined]
