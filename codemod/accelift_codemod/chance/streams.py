"""Whether samples draw, where the training itself runs, from the generator that the training draws from.

Processes that are seeded alike draw alike, as long as they draw equally often. A process that has another number of
samples, or samples that draw another number of times, is at another place of the stream from then on.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.chance import drawn_from
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Value

_TRANSFORMS = "torchvision.transforms."
_STEPS = 40  # functions and classes


def drawing_sample(draft: Draft, loop: BatchLoop, home: str) -> ast.Call | None:
    """A call by which the samples of a loop draw from the generator of a library, in the process that trains."""
    for value in loop.loaders:
        for part in _parts(draft, value):
            for call in (n for n in walk(part) if isinstance(n, ast.Call)):
                if drawn_from(draft.facts.resolver, call) == home and not _in_constructor(draft, call, part):
                    return call
                name = draft.facts.resolver.qualified(call.func) or ""
                if home == "torch" and name.startswith(_TRANSFORMS) and "Random" in name:
                    return call
    return None


def draws_samples(draft: Draft, loop: BatchLoop) -> bool:
    """Whether the samples of a loop draw from any global generator, in workers, too."""
    for part in (part for value in loop.loaders for part in _parts(draft, value, workers=True)):
        for call in (n for n in walk(part) if isinstance(n, ast.Call)):
            name = draft.facts.resolver.qualified(call.func) or ""
            if name.startswith(_TRANSFORMS) or (drawn_from(draft.facts.resolver, call) and not _is_made(draft, call)):
                return True
    return False


def drawn_for_each(draft: Draft, loop: BatchLoop) -> ast.Call | None:
    """A call by which every sample of a loop draws from a global generator, whatever its data set was told."""
    for part in (part for value in loop.loaders for part in _parts(draft, value, workers=True)):
        for method in part.body if isinstance(part, ast.ClassDef) else ():
            if isinstance(method, FUNCTIONS) and method.name in ("__getitem__", "__iter__"):
                calls = (n for n in walk(method) if isinstance(n, ast.Call) and drawn_from(draft.facts.resolver, n))
                found = next((call for call in calls if not _is_chosen(draft, call, method)), None)
                if found is not None:
                    return found
    return None


def _is_chosen(draft: Draft, call: ast.Call, method: ast.AST) -> bool:
    """Whether a test in a method decides if a call is made."""
    around = itertools.takewhile(lambda node: node is not method, draft.facts.index.ancestors(call))
    return any(isinstance(node, (ast.If, ast.IfExp, ast.BoolOp, ast.While, ast.Try)) for node in around)


def _is_made(draft: Draft, call: ast.Call) -> bool:
    """Whether a call is made by a constructor."""
    return getattr(draft.function(call), "name", "") == "__init__"


def _parts(draft: Draft, value: Value, *, workers: bool = False) -> Iterator[ast.AST]:
    """The code that makes the samples of a loader, without workers if not told otherwise: data sets, transforms,
    collate functions."""
    loader = draft.facts.objects.loader(value)
    if loader.has_workers and not workers:
        return
    resolver = draft.facts.resolver
    queue: list[ast.AST] = [a for name in ("dataset", "collate_fn") if (a := loader.arguments.get(name)) is not None]
    seen: set[ast.AST] = set()
    while queue and len(seen) < _STEPS:
        node = queue.pop()
        if node in seen:
            continue
        seen.add(node)
        found = list(resolver.values(node)) if isinstance(node, ast.expr) else []
        queue += [v.declaration for v in found if v.declaration is not None]
        queue += [v.origin for v in found if isinstance(v.origin, ast.Call)]
        if isinstance(node, ast.Call):
            queue += [*node.args, *(k.value for k in node.keywords)]
            if (resolver.qualified(node.func) or "").startswith(_TRANSFORMS):
                yield node
        if isinstance(node, (ast.ClassDef, ast.Lambda, *FUNCTIONS)):
            yield node
            calls = (resolver.callee(n) for n in walk(node) if isinstance(n, ast.Call))
            queue += [target for target in calls if target is not None]
        if isinstance(node, (ast.List, ast.Tuple)):
            queue += node.elts


def _in_constructor(draft: Draft, call: ast.Call, part: ast.AST) -> bool:
    """Whether a call of a class is made once, by its constructor."""
    function = draft.function(call)
    return isinstance(part, ast.ClassDef) and function is not None and function.name == "__init__"
