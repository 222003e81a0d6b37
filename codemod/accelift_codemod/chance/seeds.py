"""Whether what is drawn at random is drawn alike by every process."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role, position
from accelift_codemod.facts.chance import SEEDS, drawn_from
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.starters import Part
from accelift_codemod.facts.tree import is_constant, walk

TORCH, NUMPY, PYTHON = SEEDS["torch"], SEEDS["numpy"], SEEDS["random"]
_ALL = (*TORCH, *NUMPY, *PYTHON)
# Generators of a script's own, which are seeded by chance unless they are given a seed.
_GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"})
# What gives every process another number.
_ANEW = ("time.time", "time.time_ns", "os.urandom", "torch.seed", "torch.initial_seed")


def seeded(draft: Draft, call: ast.Call, names: tuple[str, ...]) -> bool:
    """Whether the generator that a call draws from is seeded before it (perhaps in a helper of the project), by a
    number that is the same on every process."""
    for other, qualified in draft.seeding:
        if not _concerns(qualified, names):
            continue
        if draft.function(other) is not draft.function(call) or position(other) < position(call):
            if _is_anew(other, qualified) or any(_by_chance(draft, argument) for argument in other.args):
                return False
            if not _is_told_inside(draft, other, names):
                return not any(unset(draft, argument) for argument in other.args)
    return False


def perhaps(draft: Draft, names: tuple[str, ...]) -> bool:
    """Whether anything in the script may seed a generator, by functions of these names or unknown ones, alike on every
    process."""
    seeding = (one for one in draft.seeding if _concerns(one[1], names))
    return any(not _is_anew(*one) and not any(_surely_by_chance(draft, a) for a in one[0].args) for one in seeding)


def _concerns(qualified: str, names: tuple[str, ...]) -> bool:
    """Whether what is called so may seed the generator that functions of these names seed: it is no other library's."""
    home = qualified.partition(".")[0]
    other = home in SEEDS and all(home != name.partition(".")[0] for name in names)
    return qualified in names or not (other or qualified in _ALL)


_OWN = "by a seed that each process draws for itself"


def without(draft: Draft, call: ast.Call, names: tuple[str, ...]) -> str:
    """How to say that a call draws unseeded: with the setting that would seed it, or the seed that is drawn itself."""
    own = [k.value for k in call.keywords if k.arg in ("random_state", "generator")]
    seeding = [(other, qualified) for other, qualified in draft.seeding if qualified in names]
    told = [argument for other, _ in seeding for argument in other.args]
    settings = (a for a in (*own, *told) if not isinstance(a, ast.Constant))
    setting = next((a for a in settings if unset(draft, a) or _is_filled_in(draft, a)), None)
    if setting is not None:
        return f"without a seed unless `{draft.facts.segment(setting)}` is given"
    by_chance = any(_is_anew(*one) for one in seeding) or any(_by_chance(draft, argument) for argument in told)
    return _OWN if by_chance else "without a seed"


def _is_anew(call: ast.Call, qualified: str) -> bool:
    """Whether a generator is seeded by what the system gives each process: `numpy.random.seed()`."""
    return not call.args and not call.keywords and qualified in ("numpy.random.seed", "random.seed")


def remedy(how: str, missing: str = "seed the generator before") -> str:
    """What to do about a call that draws in that way; `missing`, if there is no seed."""
    return "seed it by a number that is the same on every process" if how == _OWN else missing


def _is_filled_in(draft: Draft, node: ast.expr) -> bool:
    """Whether a setting is drawn where the command line does not name it: `if args.seed is None: args.seed = ...`."""
    line = draft.facts.command_line
    option = line.options.get(node.attr) if isinstance(node, ast.Attribute) else None
    if option is None or not isinstance(node, ast.Attribute) or not _is_left_out(option):
        return False
    filled = draft.facts.index.attribute_bindings.get(node.attr, [])
    drawn = all(b.value is not None and line.fallback(b) and _by_chance(draft, b.value) for b in filled)
    return bool(filled) and drawn and Role.ARGUMENTS in draft.facts.resolver.roles(node.value)


def _is_told_inside(draft: Draft, call: ast.Call, names: tuple[str, ...]) -> bool:
    """Whether a function of the script seeds a generator itself: what it does with its arguments is seen there."""
    target = draft.facts.resolver.callee(call)
    return isinstance(target, FUNCTIONS) and any(
        qualified in names and draft.function(other) is target for other, qualified in draft.seeding
    )


def unset(draft: Draft, node: ast.expr | None, steps: int = 4) -> bool:
    """Whether a setting is None unless somebody says otherwise: an option of the command line without a default, or a
    parameter that is given one."""
    if isinstance(node, ast.Constant) or node is None or steps == 0:
        return is_constant(node, None)
    resolver = draft.facts.resolver
    if isinstance(node, ast.Attribute):
        option = draft.facts.command_line.options.get(node.attr)
        if option is None or draft.facts.index.attribute_bindings.get(node.attr):
            return False
        return Role.ARGUMENTS in resolver.roles(node.value) and _is_left_out(option)
    bindings = resolver.bindings(node) if isinstance(node, ast.Name) else []
    if not bindings or any(b.path or b.how not in (How.ASSIGN, How.PARAMETER) for b in bindings):
        return False
    given = [a for b in bindings for a in (resolver.handed(b) if b.how is How.PARAMETER else [b.value])]
    return bool(given) and all(unset(draft, value, steps - 1) for value in given)


def _is_left_out(option: ast.Call) -> bool:
    """Whether an option is None where the command line does not name it."""
    flags = [a.value for a in option.args if isinstance(a, ast.Constant)]
    told = {k.arg: k.value for k in option.keywords}
    if not all(isinstance(flag, str) and flag.startswith("-") for flag in flags):
        return False  # an argument by its place is always given
    default = told.get("default")
    plain = default is None or is_constant(default, None)
    return plain and not {"required", "action", "nargs", None} & told.keys()


@kept
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
    if not made or not all(_is_unseeded(draft, node) for node in made):
        return False
    name = ast.unparse(func.value)
    later = (c.func for c in index.methods.get("seed", []) if isinstance(c.func, ast.Attribute))
    return not any(ast.unparse(other.value) == name for other in later)


def _is_unseeded(draft: Draft, node: ast.expr | None) -> bool:
    """Whether an expression makes a generator without a seed, or with one that is another on every process."""
    if not isinstance(node, ast.Call) or draft.facts.resolver.qualified(node.func) not in _GENERATORS:
        return False
    given = [*node.args, *(k.value for k in node.keywords)]
    return all(is_constant(a, None) or _is_own(draft, a) for a in given)


def _is_own(draft: Draft, seed: ast.expr) -> bool:
    """Whether a seed is another one on every process: drawn, or computed from the number of the process."""
    parts = {draft.facts.processes.part(n) for n in walk(seed) if isinstance(n, ast.expr)}
    return _by_chance(draft, seed) or not parts.isdisjoint({Part.RANK, Part.LOCAL_RANK})


def _by_chance(draft: Draft, node: ast.expr, steps: int = 4) -> bool:
    """Whether a seed is itself drawn, or that of the clock: another one on every process."""
    index, resolver = draft.facts.index, draft.facts.resolver
    for part in walk(node):
        if isinstance(part, ast.Call):
            if drawn_from(resolver, part) or resolver.qualified(part.func) in _ANEW:
                return True
        elif isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Load) and steps:
            by_name = isinstance(part, ast.Name)
            bindings = resolver.bindings(part) if by_name else index.attribute_bindings.get(part.attr, [])  # type: ignore[union-attr,arg-type]
            run = [b for b in bindings if b.value is not None and not draft.facts.command_line.never(b.node)]
            if any(b.value is not None and _by_chance(draft, b.value, steps - 1) for b in run):
                return True
    return False


def _surely_by_chance(draft: Draft, node: ast.expr) -> bool:
    """Whether a seed is drawn, or that of the clock, whatever the script is told."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return _by_chance(draft, node, 0)
    named = draft.facts.index.attribute_bindings
    bindings = draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else named.get(node.attr, [])
    return bool(bindings) and all(
        b.value is not None
        and _by_chance(draft, b.value)
        and not any(isinstance(n, (ast.BoolOp, ast.IfExp)) for n in walk(b.value))  # `args.seed or randint(1, 9)`
        and not draft.facts.command_line.fallback(b)
        for b in bindings
    )
