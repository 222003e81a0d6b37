"""Where samples are made as long as the longest of their batch, which is that of a share on several processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.batches import lengths
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Function, Role, Value, torch_ops
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured import inside_networks

_PAD_SEQUENCE = "torch.nn.utils.rnn.pad_sequence"


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
        return draft.facts.resolver.qualified(node.func) == _PAD_SEQUENCE
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
    return next((node for loop in draft.blueprint.train_loops if (node := _cut_in(draft, loop)) is not None), None)


@kept
def _cut_in(draft: Draft, loop: BatchLoop) -> ast.expr | None:
    for statement in loop.body:
        called = (s for f in _run(draft, statement) for s in f.body)
        for node in (n for s in (statement, *called) for n in walk(s)):
            if any(_longest(draft, size, 2) for size in (_bound(node), *_sizes(draft, node)) if size is not None):
                return node  # type: ignore[return-value]
            padded = draft.facts.resolver.argument(node, 0, "sequences") if isinstance(node, ast.Call) else None
            if padded is not None and draft.facts.resolver.qualified(node.func) == _PAD_SEQUENCE:  # type: ignore[attr-defined]
                if _of_batch(draft, padded):
                    return node  # type: ignore[return-value]
    return None


@kept
def alike(draft: Draft, loop: BatchLoop) -> bool:
    """Whether rows of what a loop computes of its batches have the same form on every process: nothing makes them as
    long as the longest sample of a share."""
    if not loop.loaders or not all(map(draft.facts.collated.stacks, loop.loaders)):
        return False
    return _cut_in(draft, loop) is None and not any(_unpacks(draft, call) for call in draft.facts.index.calls)


def _unpacks(draft: Draft, call: ast.Call) -> bool:
    """Whether a call pads packed sequences to the longest of them."""
    if draft.facts.resolver.qualified(call.func) != "torch.nn.utils.rnn.pad_packed_sequence":
        return False
    return draft.facts.resolver.argument(call, 3, "total_length") is None


def _run(draft: Draft, statement: ast.stmt) -> Iterator[Function]:
    """The functions that a statement runs, and those of the networks that it calls."""
    calls_into, resolver = draft.blueprint.timeline.calls_into, draft.facts.resolver
    run = [*calls_into(statement)]
    models = (v for n in walk(statement) if isinstance(n, ast.Call) for v in draft.facts.objects.models(n.func))
    for model in dict.fromkeys(models):
        network = model.declaration
        forward = resolver.method(network, "forward")
        passes = [(network, forward)] if isinstance(network, ast.ClassDef) and forward is not None else []
        for cls, method in passes:  # and those of its parts, as they are found
            calls = (n for n in walk(method) if isinstance(n, ast.Call))
            found = (part for call in calls for part in inside_networks.called(draft, cls, call))
            passes += [part for part in dict.fromkeys(found) if part not in passes]
            run += [method, *(f for s in method.body for f in calls_into(s))]
    yield from dict.fromkeys(run)


def _sizes(draft: Draft, node: ast.AST) -> Sequence[ast.expr]:
    """How long a tensor is made in its last dimension: `torch.ones(n, longest)`, `torch.arange(longest)`."""
    if not isinstance(node, ast.Call):
        return ()
    module, _, name = (draft.facts.resolver.qualified(node.func) or "").rpartition(".")
    if module != "torch" or not (name in torch_ops.FILLED or name == "arange"):
        return ()
    sizes = node.args[0].elts if node.args and isinstance(node.args[0], (ast.Tuple, ast.List)) else node.args
    return sizes[-1:] if name != "arange" or len(sizes) == 1 else ()


def _longest(draft: Draft, node: ast.expr, depth: int) -> bool:
    """Whether a number is the greatest of what the samples of a batch have, or made from it."""
    resolver = draft.facts.resolver
    for part in walk(node):
        func = part.func if isinstance(part, ast.Call) else None
        if isinstance(part, ast.Call) and (
            resolver.builtin(part.func) == "max" or resolver.qualified(part.func) in ("torch.max", "torch.amax")
        ):
            if len(part.args) == 1 and _of_batch(draft, part.args[0]):
                return True
        elif isinstance(part, ast.Call) and isinstance(func, ast.Attribute) and func.attr in ("max", "amax"):
            if not part.args and not part.keywords and _of_batch(draft, func.value):
                return True
        elif isinstance(part, ast.Subscript) and lengths.is_greatest_of_sorted(resolver, part):
            if _of_batch(draft, part.value):
                return True
        elif isinstance(part, ast.Name) and depth:
            made = [b.value for b in resolver.bindings(part) if b.how is How.ASSIGN and not b.path]
            if any(value is not None and _longest(draft, value, depth - 1) for value in made):
                return True
    return False


def only_cuts(draft: Draft, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a number says nothing but how much is taken of a dimension that is not the first; of those that have been
    seen, others tell."""
    child = node
    for parent in draft.facts.index.ancestors(node):
        if isinstance(parent, ast.Subscript) and child is parent.slice:
            bound = _bound(parent)
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


def _of_batch(draft: Draft, node: ast.expr) -> bool:
    """Whether something is part of a batch, or computed from it; or what a network is given."""
    parts = [n for n in walk(node) if isinstance(n, ast.expr)]
    if any(draft.facts.resolver.roles(n) & {Role.BATCH, Role.DATA} for n in parts):
        return True
    return any(_is_given(draft, n, 3) for n in parts if isinstance(n, ast.Name))


def _is_given(draft: Draft, name: ast.Name, steps: int) -> bool:
    """Whether a variable is a parameter of a network's forward, or of a function that gets it from there."""
    resolver, index = draft.facts.resolver, draft.facts.index
    for binding in resolver.bindings(name) if steps else ():
        function = binding.scope.node
        if binding.how is How.PARAMETER and isinstance(function, FUNCTIONS):
            owner = index.parents.get(function)
            if function.name == "forward" and resolver.class_role(owner) is Role.MODEL:
                return True
            given = (n for a in resolver.handed(binding) if a is not None for n in walk(a))
            if any(isinstance(n, ast.Name) and _is_given(draft, n, steps - 1) for n in given):
                return True
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


def _bound(node: ast.AST) -> ast.expr | None:
    """How much a node takes of a dimension of a tensor that is not the first: `x[:, :n]`, `x.narrow(1, 0, n)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        cuts = (p.upper for p in node.slice.elts[1:] if isinstance(p, ast.Slice) and p.upper is not None)
        return next(cuts, None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "narrow":
        first = node.args[0] if len(node.args) == 3 else None
        return node.args[2] if isinstance(first, ast.Constant) and first.value != 0 else None
    return None
