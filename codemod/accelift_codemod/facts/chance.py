"""Random numbers: what draws them from a global generator, and what seeds those."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk

_TORCH = frozenset(
    "rand randn randint randperm normal bernoulli multinomial poisson rand_like randn_like randint_like".split()
)
NOT_DRAWN = frozenset(
    "seed default_rng RandomState Generator SeedSequence get_state set_state Random SystemRandom getstate "
    "setstate".split()
)
_GENERATORS = frozenset({"random.Random", "numpy.random.default_rng", "numpy.random.RandomState"})
_DISTRIBUTIONS = "torch.distributions."
_SAMPLES = frozenset({"sample", "rsample", "sample_n"})
# What seeds the global generators of all three.
_OF_ALL = (
    "pytorch_lightning.seed_everything",
    "pytorch_lightning.utilities.seed.seed_everything",
    "lightning.seed_everything",
    "lightning.pytorch.seed_everything",
    "lightning.fabric.seed_everything",
    "lightning_fabric.seed_everything",
    "lightning_lite.utilities.seed.seed_everything",
    "transformers.set_seed",
    "transformers.trainer_utils.set_seed",
)
# What seeds the global generator of a library.
SEEDS = {
    "torch": ("torch.manual_seed", "torch.random.manual_seed", *_OF_ALL),
    "numpy": ("numpy.random.seed", *_OF_ALL),
    "random": ("random.seed", *_OF_ALL),
}
_SEEDS = frozenset(name for names in SEEDS.values() for name in names)


@kept
def drawn_from(resolver: Resolver, call: ast.Call) -> str:
    """The library from whose global generator a call draws: torch, numpy or random; empty if from none."""
    return "" if any(k.arg in ("generator", None) for k in call.keywords) else drawn_by(resolver, call)


def stream(resolver: Resolver, call: ast.Call) -> str:
    """What a call draws from: the library of a global generator, or as what a generator of the script is spelled; empty
    if it does not draw."""
    given = next((k.value for k in call.keywords if k.arg == "generator"), None)
    if given is not None:
        return ast.unparse(given) if drawn_by(resolver, call) else ""
    own = own_generator(resolver, call)
    return ast.unparse(own[0]) if own is not None else drawn_from(resolver, call)


def own_generator(resolver: Resolver, call: ast.Call) -> tuple[ast.expr, str] | None:
    """The generator of the script's own that a call is a method of, and the library that it is of: numpy or random."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr in NOT_DRAWN:
        return None
    makers = (resolver.qualified(made.func) for made in _makers(resolver, func.value))
    return next(((func.value, name.partition(".")[0]) for name in makers if name in _GENERATORS), None)


def drawn_by(resolver: Resolver, call: ast.Call) -> str:
    """The library by which a call draws, perhaps from a generator that it is given."""
    qualified = resolver.qualified(call.func)
    if qualified is None:
        func = call.func
        draws = isinstance(func, ast.Attribute) and func.attr in torch_ops.FILLS and resolver.callee(call) is None
        return "torch" if draws or of_distribution(resolver, call) else ""
    home, _, name = qualified.rpartition(".")
    if home == "torch":
        return "torch" if name in _TORCH else ""
    if home in ("numpy.random", "random"):
        return "" if name in NOT_DRAWN else home.partition(".")[0]
    return ""


def of_distribution(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call draws from a distribution of torch: `Normal(mean, deviation).rsample()`."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in _SAMPLES:
        return False
    return any(
        (resolver.qualified(made.func) or "").startswith(_DISTRIBUTIONS) for made in _makers(resolver, func.value)
    )


def _makers(resolver: Resolver, node: ast.expr) -> Iterator[ast.Call]:
    """The calls that make what an expression reads, perhaps in a function that returns it."""
    made: list[ast.expr | None] = [node]
    if isinstance(node, ast.Name):
        made = [b.value for b in resolver.bindings(node) if not b.path]
    elif isinstance(node, ast.Attribute):
        made = [b.value for b in resolver.index.attribute_bindings.get(node.attr, ()) if not b.path]
    for call in (one for one in made if isinstance(one, ast.Call)):
        yield call
        function = resolver.callee(call)
        if isinstance(function, FUNCTIONS):
            returned = (n.value for n in walk(function) if isinstance(n, ast.Return))
            yield from (value for value in returned if isinstance(value, ast.Call))


def shuffles(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call puts indices into a random order, or picks some at random, by a global generator."""
    return bool(drawn_from(resolver, call)) and (resolver.qualified(call.func) or "").rpartition(".")[2] in (
        "randperm",
        "permutation",
        "shuffle",
        "choice",
        "sample",
    )


def seeds(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call seeds a global generator: a function of torch, numpy or Python, or `set_seed` of Accelerate."""
    qualified = resolver.qualified(call.func) or ""
    root, _, rest = qualified.partition(".")
    return qualified in _SEEDS or (root in ("accelerate", "accelift") and rest.rpartition(".")[2] == "set_seed")
