"""Random numbers that only the process draws which makes a missing file: all that follow differ then."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.chance import seeds
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, chance, position
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import is_constant, walk

_LAYERS = ("Linear", "Bilinear", "Conv", "LazyLinear", "LazyConv", "Embedding", "LSTM", "GRU", "RNN", "Transformer")
_RESTORES = frozenset(
    """
    torch.random.fork_rng torch.set_rng_state torch.random.set_rng_state numpy.random.set_state random.setstate
    """.split()
)
_ORDERS = {"torch.utils.data.random_split": "torch", "sklearn.model_selection.train_test_split": "numpy"}


def uneven_draw(draft: Draft, write: ast.Call, making: Sequence[ast.stmt]) -> tuple[ast.AST, ast.Call] | None:
    """What draws from a global generator, or seeds it, while a missing file is made, and a call that draws from the
    same one afterwards, seeded before and not again in between."""
    inside = [*_run(draft, making)]
    if any(isinstance(n, ast.Call) and draft.facts.resolver.qualified(n.func) in _RESTORES for n in inside):
        return None
    first: dict[str, ast.AST] = {}
    for node in inside:
        for home in _moved(draft, node):
            first.setdefault(home, node.iter if isinstance(node, ast.comprehension) else node)
    for call in draft.calls:
        home = _drawn(draft, call)
        if home in first and call not in inside and draft.facts.runs(call) and follows(draft, call, write):
            names = chance.SEEDS[home]
            if seeds.seeded(draft, call, names) and not _seeded_between(draft, write, call, inside, names):
                return first[home], call
    return None


def follows(draft: Draft, later: ast.AST, earlier: ast.AST) -> bool:
    """Whether a node is certainly known to run after another one, seen from a function that runs both."""
    timeline, index = draft.blueprint.timeline, draft.facts.index
    for home in dict.fromkeys((index.function(earlier), index.function(later), None)):
        starts, ends = timeline.places(earlier, home), timeline.places(later, home)
        if starts and ends:
            return any(
                (position(end) > position(start) or end in index.ancestors(start))
                and not timeline.exclusive(start, end)
                for start in starts
                for end in ends
            )
    return False


def _seeded_between(
    draft: Draft, write: ast.Call, draw: ast.Call, inside: Sequence[ast.AST], names: tuple[str, ...]
) -> bool:
    """Whether every process seeds a generator again after the file was made, before it is drawn from."""
    for call in draft.calls:
        if call not in inside and _seeds(draft, call, names) and follows(draft, call, write):
            if follows(draft, draw, call):
                return True
    return False


def _seeds(draft: Draft, call: ast.Call, names: tuple[str, ...]) -> bool:
    qualified = draft.facts.resolver.qualified(call.func) or ""
    return qualified in names or (chance.seeds(draft.facts.resolver, call) and qualified.endswith(".set_seed"))


def _moved(draft: Draft, node: ast.AST) -> Iterator[str]:
    """The libraries whose global generators are elsewhere after a node: it draws, seeds, runs over a loader, or makes
    a layer with weights."""
    resolver = draft.facts.resolver
    if isinstance(node, ast.Call):
        yield from filter(None, [_drawn(draft, node)])
        yield from (home for home, names in chance.SEEDS.items() if _seeds(draft, node, names))
        name = resolver.qualified(node.func) or ""
        if name.startswith("torch.nn.") and name.rpartition(".")[2].startswith(_LAYERS):
            yield "torch"
    elif isinstance(node, (ast.For, ast.comprehension)):
        if any(Role.LOADER in resolver.roles(n) for n in walk(node.iter) if isinstance(n, ast.expr)):
            yield "torch"


def _drawn(draft: Draft, call: ast.Call) -> str:
    """The library from whose global generator a call draws, a split of the data, too; empty if from none."""
    home = _ORDERS.get(draft.facts.resolver.qualified(call.func) or "")
    if home is None:
        return chance.drawn_from(draft.facts.resolver, call)
    given = {k.arg: k.value for k in call.keywords}
    shuffle = given.get("shuffle")
    still = is_constant(shuffle, False)
    place = 2 if home == "torch" else None
    seed = draft.facts.resolver.argument(call, place, "generator" if home == "torch" else "random_state")
    return "" if still or None in given or (seed is not None and ast.unparse(seed) != "None") else home


def _run(draft: Draft, statements: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """What statements hold, and the functions and constructors of the script that they call."""
    queue: list[ast.AST] = [*statements]
    seen = set(queue)
    while queue:
        for node in walk(queue.pop(0)):
            yield node
            target = draft.facts.resolver.callee(node) if isinstance(node, ast.Call) else None
            body = target if isinstance(target, FUNCTIONS) else draft.facts.resolver.method(target, "__init__")
            if body is not None and body not in seen:
                seen.add(body)
                queue.append(body)
