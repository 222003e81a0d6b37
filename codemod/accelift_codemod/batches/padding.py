"""Where samples are made as long as the longest of their batch, which is that of a share on several processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.batches import lengths
from accelift_codemod.batches.share_lengths import PAD_SEQUENCE, cut_in, length_taken, pooled, unpacks
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Function, Role, Value
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import walk

# Losses that are a mean over all elements of their target, unless they are told otherwise.
_MEANS = frozenset(
    "cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss".split()
)
_MEAN_CLASSES = frozenset("CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss MSELoss L1Loss".split())
_OTHERWISE = frozenset({"ignore_index", "weight", "reduction", "size_average", "reduce"})
# What gives a tensor another form, place or type, and keeps all its elements.
_FORMS = frozenset(
    "view reshape flatten contiguous transpose permute t to cuda cpu long float unsqueeze squeeze".split()
)


def collated(draft: Draft) -> ast.expr | ast.If | None:
    """Where the collate function of a training loader pads samples, or asks how long the longest or shortest is."""
    resolver = draft.facts.resolver
    for loader in (v for loop in draft.blueprint.train_loops for v in loop.loaders):
        collator = draft.facts.objects.loader(loader).arguments.get("collate_fn")
        for value in resolver.values(collator):
            made = value.origin if isinstance(value.origin, ast.Call) else None
            if made is not None and resolver.qualified(made.func) in lengths.COLLATORS:
                return made
        for function in collates(draft, loader):
            body = [function.body] if isinstance(function, ast.Lambda) else function.body
            called = (f for part in body for f in draft.blueprint.timeline.calls_into(part))
            for node in (n for f in dict.fromkeys((function, *called)) for n in walk(f)):
                if isinstance(node, ast.If) and lengths.keeps_longest(resolver, node):
                    return node
                if isinstance(node, ast.expr) and (lengths.pads(resolver, node) or _is_longest(draft, node)):
                    return node
    return None


def averaged(draft: Draft) -> ast.Call | None:
    """A loss of a training loop that is a mean over all positions of sequences which a collate function has padded."""
    for loop in draft.blueprint.train_loops:
        parts = {part for loader in loop.loaders for part in _padded_parts(draft, loader)}
        for statement in loop.body if parts else ():
            called = (s for f in draft.blueprint.timeline.calls_into(statement) for s in f.body)
            for node in (n for s in (statement, *called) for n in walk(s)):
                if isinstance(node, ast.Call) and len(node.args) == 2 and _is_mean(draft, node):
                    if parts & set(_names(draft, node.args[1], 3)):
                        return node
    return None


def collates(draft: Draft, loader: Value) -> Iterator[Function | ast.Lambda]:
    """The functions that put the batches of a loader together."""
    collate = draft.facts.objects.loader(loader).arguments.get("collate_fn")
    functions: list[ast.AST | None] = [v.declaration for v in draft.facts.resolver.values(collate)]
    for function in [*functions, collate]:
        if isinstance(function, ast.ClassDef):
            function = draft.facts.resolver.method(function, "__call__")
        if isinstance(function, (*FUNCTIONS, ast.Lambda)):
            yield function


def _padded_parts(draft: Draft, loader: Value) -> Iterator[str]:
    """The parts of a batch, as facts name them, that a collate function makes by padding: `[1]`, `['labels']`."""
    for function in collates(draft, loader):
        returns = [] if isinstance(function, ast.Lambda) else draft.facts.resolver.returns(function)
        given = returns[0].value if len(returns) == 1 else None
        entries: list[tuple[object, ast.expr]] = []
        if isinstance(given, ast.Tuple):
            entries = list(enumerate(given.elts))
        elif isinstance(given, ast.Dict):
            pairs = zip(given.keys, given.values, strict=True)
            entries = [(k.value, v) for k, v in pairs if isinstance(k, ast.Constant)]
        for key, value in entries:
            if _is_padded(draft, value):
                yield f"[{key!r}]"


def _is_padded(draft: Draft, node: ast.expr) -> bool:
    """Whether a value is what pads sequences, perhaps by a variable."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FORMS:
        node = node.func.value
    if isinstance(node, ast.Call):
        return draft.facts.resolver.library_function(node.func) == PAD_SEQUENCE
    bound = draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else []
    values = [b.value for b in bound if b.how is How.ASSIGN and not b.path and b.value is not None]
    calls = [v for v in values if isinstance(v, ast.Call)]
    return len(bound) == len(calls) > 0 and all(_is_padded(draft, call) for call in calls)


def _is_mean(draft: Draft, call: ast.Call) -> bool:
    """Whether a call surely is a loss of torch that is a mean over all elements."""
    resolver = draft.facts.resolver
    module, _, name = (resolver.qualified(call.func) or "").rpartition(".")
    if module == "torch.nn.functional":
        return name in _MEANS and not call.keywords
    made = [v.origin if v.declaration is None else None for v in resolver.values(call.func)]
    return bool(made) and all(
        isinstance(m, ast.Call)
        and (resolver.qualified(m.func) or "").removeprefix("torch.nn.") in _MEAN_CLASSES
        and not m.args
        and not any(k.arg in _OTHERWISE or k.arg is None for k in m.keywords)
        for m in made
    )


def _names(draft: Draft, node: ast.expr, steps: int) -> list[str]:
    """Which parts of batches an expression is, in another form or but for some positions."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        if isinstance(node, ast.Subscript):
            cuts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if not all(isinstance(cut, ast.Slice) for cut in cuts):
                break
            node = node.value
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _FORMS:
            node = node.func.value
        else:
            break
    parts = [v.name for v in draft.facts.resolver.values(node) if v.role is Role.BATCH]
    if parts or not isinstance(node, ast.Name) or not steps:
        return parts
    made = [b.value for b in draft.facts.resolver.bindings(node) if b.how is How.ASSIGN and not b.path]
    return [name for value in made if value is not None for name in _names(draft, value, steps - 1)]


def cut(draft: Draft) -> ast.expr | None:
    """Where a training loop cuts the samples of its batch to the longest one, or pads them to it."""
    return next(
        (node for loop in draft.blueprint.train_loops if (node := cut_in(draft.blueprint, loop)) is not None), None
    )


def pools(draft: Draft) -> ast.expr | None:
    """Where the network of a training loop goes by places that it, or the loop, makes as many as the longest has."""
    return next((n for loop in draft.blueprint.train_loops if (n := pooled(draft.blueprint, loop)) is not None), None)


@kept
def alike(draft: Draft, loop: BatchLoop) -> bool:
    """Whether rows of what a loop computes of its batches have the same form on every process: nothing makes them as
    long as the longest sample of a share."""
    if not loop.loaders or not all(map(draft.facts.collated.stacks, loop.loaders)):
        return False
    return cut_in(draft.blueprint, loop) is None and not any(
        unpacks(draft.facts, call) for call in draft.facts.index.calls
    )


def only_cuts(draft: Draft, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a number says nothing but how much is taken of a dimension that is not the first; of those that have been
    seen, others tell."""
    child = node
    for parent in draft.facts.index.ancestors(node):
        if isinstance(parent, ast.Subscript) and child is parent.slice:
            bound = length_taken(parent)
            return bound is not None and node in walk(bound)
        if isinstance(parent, ast.Assign):
            target = parent.targets[0]
            owner = draft.facts.index.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
            reads = draft.facts.loads(owner, target.id) if owner is not None and isinstance(target, ast.Name) else []
            more = [read for read in reads if read not in seen]
            told = all(only_cuts(draft, read, seen.union(more)) for read in more)
            return len(parent.targets) == 1 and bool(reads) and told
        if isinstance(parent, ast.stmt):
            return False
        child = parent
    return False


def _is_longest(draft: Draft, call: ast.expr) -> bool:
    """Whether a call asks for the length of the longest one: `max(len(s) for s in samples)`."""
    resolver = draft.facts.resolver
    if not isinstance(call, ast.Call) or resolver.builtin(call.func) != "max" or len(call.args) != 1:
        return False
    made = [
        call.args[0],
        *(b.value for n in walk(call.args[0]) if isinstance(n, ast.Name) for b in resolver.bindings(n)),
    ]
    sizes = (n for part in made if part is not None for n in walk(part))
    return any(
        (isinstance(n, ast.Call) and resolver.builtin(n.func) == "len")
        or (isinstance(n, ast.Name) and resolver.builtin(n) == "len")
        or (isinstance(n, ast.Attribute) and n.attr in ("shape", "size"))
        for n in sizes
    )
