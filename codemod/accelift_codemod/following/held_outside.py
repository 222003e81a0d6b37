"""Objects that outlive the function that fills them: what callers hand it, and what lies at module level."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Scope, position
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.keeping import PUTS
from accelift_codemod.facts.scopes import parameters
from accelift_codemod.facts.tree import container, walk
from accelift_codemod.following import keys

_Variable = tuple[Scope, str]


def reads_by_callers(draft: Draft, owner: Scope, name: str) -> list[ast.Name]:
    """Where callers, and theirs, read the object that a parameter holds, after they have handed it over."""
    found: dict[ast.Name, None] = {}
    queue: list[_Variable] = [(owner, name)]
    seen = set(queue)
    for variable in queue:
        for site, argument in _arguments(draft, *variable):
            path = keys.stored(argument)
            for base in _bases(argument):
                holder = draft.facts.index.scope(base).owner(base.id)
                if holder is None:
                    continue
                reads = _later(draft, site, base, holder)
                found.update(dict.fromkeys(read for read in reads if not keys.apart(path, keys.read(draft, read))))
                if (holder, base.id) not in seen:
                    seen.add((holder, base.id))
                    queue.append((holder, base.id))
    return list(found)


def puts_elsewhere(draft: Draft, func: ast.Name) -> bool:
    """Whether a parameter that is called puts what it is given into something of the callers: `train(seen.append)`."""
    owner = draft.facts.index.scope(func).owner(func.id)
    return owner is not None and any(_put_into(argument) for _, argument in _arguments(draft, owner, func.id))


def _put_into(node: ast.expr) -> list[ast.Name]:
    """The variables into whose objects something puts what it is called with: `seen.append`, a lambda that does so."""
    own = {p.arg for p in parameters(node.args)} if isinstance(node, ast.Lambda) else set()
    parts = [n.func for n in walk(node.body) if isinstance(n, ast.Call)] if isinstance(node, ast.Lambda) else [node]
    bases = (container(part.value) for part in parts if isinstance(part, ast.Attribute) and part.attr in PUTS)
    return [base for base in bases if isinstance(base, ast.Name) and base.id not in own]


def reads_elsewhere(draft: Draft, node: ast.AST, name: str) -> Sequence[ast.Name | ast.Attribute]:
    """Where others read the object in a variable that a loop fills and does not bind: callers, if it is a parameter,
    and other functions, or the module, if it is the module's; also what they ask an object for, `trainer.seen`."""
    owner = draft.facts.index.scope(node).owner(name)
    if owner is None:
        return []
    if owner.is_class:
        return draft.facts.asked(owner, name)
    around = draft.facts.index.ancestors
    reads = [read for read in draft.facts.loads(owner, name) if node not in around(read)]
    if isinstance(owner.node, FUNCTIONS):
        bound = any(b.how is not How.AUGMENT and node in around(b.node) for b in owner.bindings.get(name, []))
        within = [read for read in reads if _runs_later(draft, read, owner.node)]
        return within if bound else [*within, *reads_by_callers(draft, owner, name)]
    return [read for read in reads if not _before(draft, read, node)]


def _runs_later(draft: Draft, read: ast.Name, home: ast.AST | None) -> bool:
    """Whether a read is in what stands in a function and is called: another function, or a lambda."""
    outer = (p for p in draft.facts.index.ancestors(read) if isinstance(p, (*FUNCTIONS, ast.Lambda)))
    return next(outer, None) is not home


def _before(draft: Draft, read: ast.Name, node: ast.AST) -> bool:
    """Whether a read of what is the module's is in the function of a loop, or has surely run before that."""
    home = draft.function(read)
    if _runs_later(draft, read, home):
        return False
    if home is draft.function(node):
        return True
    places = draft.blueprint.timeline.places(node, home)
    if not places:
        return False  # a function that may be called after it
    return all(position(read) < position(p) and not draft.blueprint.timeline.repeats(read, p) for p in places)


def _arguments(draft: Draft, owner: Scope, name: str) -> Iterator[tuple[ast.Call, ast.expr]]:
    """What callers hand the parameter that a variable is, and none of its bindings take the place of."""
    function, bindings = owner.node, owner.bindings.get(name, [])
    if isinstance(function, FUNCTIONS) and bindings and all(b.how is How.PARAMETER for b in bindings):
        for site in draft.facts.resolver.sites(function):
            argument = (draft.facts.resolver.bind(site, function) or {}).get(name)
            if argument is not None:
                yield site, argument


def _bases(node: ast.expr) -> list[ast.Name]:
    """The variables that hold an object, or what it is an entry of: `meters["loss"]`; or what something that is called
    puts into."""
    whole = container(node)
    return [whole] if isinstance(whole, ast.Name) else _put_into(node)


def _later(draft: Draft, site: ast.Call, base: ast.Name, holder: Scope) -> Iterator[ast.Name]:
    """Reads of the object in a variable that may come after a call that it is handed to."""
    inside = set(walk(site))
    reaching = draft.facts.resolver.reaching
    held = reaching(base, holder)
    for load in draft.facts.loads(holder, base.id):
        if load in inside:
            continue
        if holder.is_class or draft.function(load) is not draft.function(site):
            yield load  # of a method, or a function, that may be called after it
        elif _follows(draft, site, load, holder):
            made = [b for b in reaching(load, holder) if b in held]
            if any(not position(site) < position(b.node) < position(load) for b in made):
                yield load  # nothing else has taken its place since


def _follows(draft: Draft, site: ast.Call, load: ast.Name, holder: Scope) -> bool:
    """Whether a read of a variable comes after a call in the same function, in a later iteration perhaps."""
    if position(load) > position(site):
        return not draft.blueprint.timeline.exclusive(site, load)
    around = draft.facts.index.enclosing_loops(site)
    shared = [loop for loop in draft.facts.index.enclosing_loops(load) if loop in around]
    if not shared:
        return False
    again = set(walk(shared[-1]))
    made = draft.facts.resolver.reaching(load, holder)
    return any(b.node not in again or position(b.node) > position(load) for b in made)
