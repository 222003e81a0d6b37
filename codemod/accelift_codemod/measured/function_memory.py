"""What functions of the script keep of what a call gives them: in objects that they are handed, in variables that they
share with the code that calls them, or among themselves:

def meter():
    seen = []
    def add(value):
        seen.append(value)
    def mean():
        return sum(seen) / len(seen)
    return add, mean
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, Scope
from accelift_codemod.facts.contents import inside
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.scopes import parameters
from accelift_codemod.facts.tree import root, targets, walk
from accelift_codemod.measured.asked import weighs_numbers
from accelift_codemod.measured.filling import FILLING, filled
from accelift_codemod.measured.handed_out import decorators, receiving, run_by, run_with
from accelift_codemod.networks.methods import is_self

_CALLS = 2  # of functions that functions call


@dataclass
class _Following:
    """What is followed from one call: with what into which others, and the objects that these leave something in."""

    seen: set[tuple[ast.Call, frozenset[str]]] = field(default_factory=set)
    objects: set[ast.AST] = field(default_factory=set)


def kept_by_functions(draft: Draft, call: ast.Call, names: Collection[str], chosen: bool = False) -> set[str]:
    """The variables of the code that calls a function whose objects it puts some of the given variables into, also by
    functions that it calls, and those that hold functions which know what it has kept.

    Of a call that runs only if local values say so (`chosen`), whatever is put anywhere follows them.
    """
    following = _Following()
    found = _kept(draft, call, names, _CALLS, following, chosen)
    return found | holders(draft, following.objects, call)


def _kept(
    draft: Draft, call: ast.Call, names: Collection[str], calls: int, following: _Following, chosen: bool
) -> set[str]:
    found: set[str] = set()
    for function in (*run_by(draft, call), *draft.facts.resolver.lambdas_run(call)):
        given = draft.facts.resolver.bind(call, function) or {}
        inside = receiving(draft, call, function, {*names})
        found |= _put_by(draft, call, function, given, inside, calls, following, chosen)
    told = {n.id for a in (*call.args, *call.keywords) for n in loads(a)} & {*names}
    for function in run_with(draft, call) if told else ():
        inside = {p.arg for p in parameters(function.args)}
        found |= _put_by(draft, call, function, {}, inside, calls, following, chosen)
    return found


def _put_by(
    draft: Draft,
    call: ast.Call,
    function: Function | ast.Lambda,
    given: dict[str, ast.expr],
    inside: set[str],
    calls: int,
    following: _Following,
    chosen: bool,
) -> set[str]:
    """The same of one function, which gets something of the variables in some of its parameters."""
    if not inside and not chosen:
        return set()
    inside = set(inside)
    puts: set[str] = set()
    found: set[str] = set()
    if isinstance(function, ast.Lambda):
        puts |= filled(draft, ast.Expr(function.body), inside, chosen)
    statements = [n for n in walk(function) if isinstance(n, (ast.Assign, ast.AugAssign, ast.Expr))]
    loops = [n for n in walk(function) if isinstance(n, (ast.For, ast.AsyncFor))]
    for statement in (*statements, *statements):  # not all of them come in the order in which they run
        inside |= {n for one in loops if inside & {i.id for i in loads(one.iter)} for n in stores(one.target)}
        if isinstance(statement, (ast.Assign, ast.AugAssign)) and inside & {n.id for n in loads(statement.value)}:
            inside |= stores(statement)
        if isinstance(statement, ast.Assign) and inside & {n.id for n in loads(statement.value)}:
            entries = (t.value for t in statement.targets if isinstance(t, (ast.Subscript, ast.Attribute)))
            puts |= {entry.id for entry in entries if isinstance(entry, ast.Name)}
        if chosen or _is_chosen(draft, statement, function, inside):
            inside |= stores(statement)
            puts |= filled(draft, statement, inside, chosen=True)
            found |= {*_set_in_kept(draft, call, statement)}
        puts |= filled(draft, statement, inside)
    for inner in (n for n in walk(function) if isinstance(n, ast.Call)) if calls else ():
        if (key := (inner, frozenset(inside))) not in following.seen:  # of functions that call each other, once
            following.seen.add(key)
            puts |= _kept(draft, inner, inside, calls - 1, following, chosen)
    bases = (root(argument) for name, argument in given.items() if name in puts)
    found |= {base.id for base in bases if base is not None}
    places = ((name, put) for name in given for put in puts if put.startswith(f"{name}."))  # `model.stop`
    found |= {ast.unparse(given[name]) + put[len(name) :] for name, put in places}
    if _keeps_itself(function, puts):
        found |= _object_of(draft, call, function, chosen)
        following.objects |= _objects(draft, call) if calls < _CALLS else set()
    for name in (inside | puts) - {*given}:
        owner = draft.facts.index.scopes[function].owner(name)
        if owner is not None and owner is draft.facts.index.scope(call).owner(name) and owner.node is not function:
            found.add(name)  # of the code that calls it, too: a global
        elif (
            owner is not None and isinstance(owner.node, (*FUNCTIONS, ast.Lambda)) and _outlives(owner, name, function)
        ):
            found |= _holders(draft, (owner, name), call)
    return found


def _keeps_itself(function: Function | ast.Lambda, puts: set[str]) -> bool:
    """Whether a method puts something into its own object."""
    own = parameters(function.args)[:1]
    return any(put.partition(".")[0] == p.arg for put in puts for p in own)


def _object_of(draft: Draft, call: ast.Call, method: Function | ast.Lambda, chosen: bool) -> set[str]:
    """The variables of the object whose method a call runs: one that is called, perhaps in the place of a function
    (`@Log`), whose method something holds (`for hook in [stop.after]: hook(loss)`), or that has a method which is
    chosen to run, `hits.add()`."""
    resolver = draft.facts.resolver
    if isinstance(call.func, ast.Name) and getattr(method, "name", "") == "__call__":
        return {call.func.id}
    if not isinstance(call.func, ast.Attribute):
        held = (v for v in resolver.values(call.func) if v.role is Role.METHOD and v.declaration is method)
        return holders(draft, {of.origin for v in held for part in v.inner for of in part}, call)
    base = root(call.func) if chosen and resolver.is_bound(call, method) else None
    return {base.id} if base is not None and not is_self(base) and not draft.facts.objects.models(base) else set()


def _objects(draft: Draft, call: ast.Call) -> set[ast.AST]:
    """What makes the objects of the script whose method a call runs: `hook.after(x)`, or `getattr(hook, name)(x)`."""
    func = call.func
    base = func.value if isinstance(func, ast.Attribute) else next(iter(getattr(func, "args", ())), None)
    values = draft.facts.resolver.values(base) if base is not None else ()
    return {v.origin for v in values if v.role is Role.OBJECT and isinstance(v.origin, ast.Call) and v.declaration}


def holders(draft: Draft, objects: Collection[ast.AST], place: ast.AST) -> set[str]:
    """The variables that are seen from a place and hold some objects, by what made these, or else what has these in
    it: `callbacks = [Stop(), Log()]`."""
    scope = draft.facts.index.scope(place)
    reads = [n for n in draft.facts.reads() if isinstance(n, ast.Name)] if objects else []
    seen = [(n.id, draft.facts.resolver.values(n)) for n in reads if scope.owner(n.id) is not None]
    found = {name for name, values in seen if any(v.origin in objects for v in values)}
    return found or {name for name, values in seen if any(v.origin in objects for v in inside(values))}


def _set_in_kept(draft: Draft, call: ast.Call, statement: ast.stmt) -> Iterator[str]:
    """What a method sets of something that its object was made with and keeps: `self.model.stop = True` in one of
    `Stop(model)` is `model.stop`."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    for target in targets(statement):
        held = target.value if isinstance(target, ast.Attribute) else None
        if isinstance(target, ast.Attribute) and isinstance(held, ast.Attribute) and is_self(held.value):
            for value in draft.facts.resolver.values(owner):
                if isinstance(value.origin, ast.Call) and isinstance(value.declaration, ast.ClassDef):
                    given = draft.facts.resolver.passing.kept(value.declaration, value.origin, held.attr)
                    if isinstance(given, ast.Name):
                        yield f"{given.id}.{target.attr}"


def sets_by_a_test(draft: Draft, method: Function, given: set[str]) -> bool:
    """Whether a method sets something in its object as some of its parameters say: `if loss < best: self.bad = 0`."""
    own = {p.arg for p in parameters(method.args)[:1]}
    chosen = (s for s in walk(method) if isinstance(s, FILLING) and _is_chosen(draft, s, method, given))
    return any(filled(draft, statement, given, chosen=True) & own for statement in chosen)


def _is_chosen(draft: Draft, statement: ast.stmt, function: Function | ast.Lambda, names: set[str]) -> bool:
    """Whether a statement of a function runs only if some of the variables say so: `if loss < best: bad = 0`."""
    tests = draft.facts.index.tests_around(statement, function)
    return any(names & {n.id for n in loads(test)} and weighs_numbers(draft, test) for test in tests)


def _outlives(owner: Scope, name: str, function: Function | ast.Lambda) -> bool:
    """Whether a variable keeps what one call leaves in it for the next: of a function around, or a parameter's default
    that is a list or a dict."""
    if owner.node is not function:
        return True
    places = [*function.args.posonlyargs, *function.args.args]
    defaults = [*zip(reversed(places), reversed(function.args.defaults), strict=False)]
    defaults += zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)  # type: ignore[arg-type]
    return any(parameter.arg == name and isinstance(d, (ast.List, ast.Dict, ast.Set)) for parameter, d in defaults)


def _holders(draft: Draft, variable: tuple[Scope, str], call: ast.Call) -> set[str]:
    """The variables of the code around a call that hold functions which read a variable that is theirs alone."""
    index = draft.facts.index
    scope = index.scope(call)
    found = {n.id for n in _holding(draft, variable) if scope.owner(n.id) is index.scope(n).owner(n.id)}
    base = root(call.func) if found or not isinstance(call.func, ast.Name) else None
    return found | {base.id} if base is not None else found


@kept
def _holding(draft: Draft, variable: tuple[Scope, str]) -> list[ast.Name]:
    """Where functions are read that read a variable of a function which they stand in, or that is such a function."""
    owner, name = variable
    around = (p for load in draft.facts.loads(owner, name) for p in draft.facts.index.ancestors(load))
    functions = {f for f in around if isinstance(f, (*FUNCTIONS, ast.Lambda)) and _within(draft, f, owner.node)}
    functions |= {f for f in draft.facts.index.functions if _decorated_by(draft, f, owner.node)}
    reads = (n for n in draft.facts.reads() if isinstance(n, ast.Name))
    return [n for n in reads if any(v.declaration in functions for v in draft.facts.resolver.values(n))]


def _within(draft: Draft, function: ast.AST, outer: ast.AST) -> bool:
    return function is outer or outer in draft.facts.index.ancestors(function)


def _decorated_by(draft: Draft, function: ast.AST, decorator: ast.AST) -> bool:
    return isinstance(function, FUNCTIONS) and decorator in decorators(draft, function)
