"""Whether what is drawn at random is drawn alike by every process."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import position
from accelift_codemod.facts.chance import SEEDS, drawn_from
from accelift_codemod.facts.tree import walk

TORCH, NUMPY, PYTHON = SEEDS["torch"], SEEDS["numpy"], SEEDS["random"]
_ALL = (*TORCH, *NUMPY, *PYTHON)
# Generators of a script's own, which are seeded by chance unless they are given a seed.
_GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"})
_CLOCKS = ("time.time", "time.time_ns", "os.urandom", "torch.seed", "torch.initial_seed")


def seeded(draft: Draft, call: ast.Call, names: tuple[str, ...]) -> bool:
    """Whether the generator that a call draws from is seeded before it (perhaps in a helper of the project), by a
    number that is the same on every process."""
    for other, qualified in draft.seeding:
        if qualified not in names and qualified in _ALL:
            continue  # that of another library
        if draft.function(other) is not draft.function(call) or position(other) < position(call):
            return not any(_by_chance(draft, argument) for argument in other.args)
    return False


def unseeded(draft: Draft, call: ast.Call) -> bool:
    """Whether a call is of a method of a generator that the script makes itself, without a seed."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr == "seed":
        return False
    index, resolver = draft.facts.index, draft.facts.resolver
    made: list[ast.expr | None] = [func.value]
    if isinstance(func.value, ast.Name):
        made = [None if b.path else b.value for b in resolver.bindings(func.value)]
    elif isinstance(func.value, ast.Attribute):
        made = [b.value for b in index.attribute_bindings.get(func.value.attr, [])]
    name = ast.unparse(func.value)
    later = (c.func for c in index.methods.get("seed", []) if isinstance(c.func, ast.Attribute))
    if any(ast.unparse(other.value) == name for other in later):
        return False
    return bool(made) and all(_is_unseeded(draft, node) for node in made)


def _is_unseeded(draft: Draft, node: ast.expr | None) -> bool:
    """Whether an expression makes a generator without a seed, or with one that is another on every process."""
    if not isinstance(node, ast.Call) or draft.facts.resolver.qualified(node.func) not in _GENERATORS:
        return False
    given = [*node.args, *(k.value for k in node.keywords)]
    return all((isinstance(a, ast.Constant) and a.value is None) or _by_chance(draft, a) for a in given)


def _by_chance(draft: Draft, node: ast.expr, steps: int = 4) -> bool:
    """Whether a seed is itself drawn, or that of the clock: another one on every process."""
    index, resolver = draft.facts.index, draft.facts.resolver
    for part in walk(node):
        if isinstance(part, ast.Call):
            if drawn_from(resolver, part) or resolver.qualified(part.func) in _CLOCKS:
                return True
        elif isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Load) and steps:
            by_name = isinstance(part, ast.Name)
            bindings = resolver.bindings(part) if by_name else index.attribute_bindings.get(part.attr, [])  # type: ignore[union-attr,arg-type]
            if any(b.value is not None and _by_chance(draft, b.value, steps - 1) for b in bindings):
                return True
    return False
