"""Which functions of the script a call may run that does not say which: those that something else keeps, and runs."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, signatures
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.scopes import parameters
from accelift_codemod.facts.tree import walk

# How what is in something is called that is not known, or that the script has filled.
_INSIDE = ("[", "collections.defaultdict[", "collections.deque[")


@kept
def run_by(draft: Draft, call: ast.Call) -> Sequence[Function]:
    """The functions that a call runs: the one that it names, one of those that it may name, or, of what is taken out of
    something unknown (`for f in self.handlers[event]: f(loss)`), any that fits of those that the script hands out."""
    resolver, func = draft.facts.resolver, call.func
    callee = resolver.callee(call)
    if callee is not None:
        return [callee, *_wrappers(draft, callee)] if isinstance(callee, FUNCTIONS) else []
    if several := resolver.functions_run(call):
        return several
    values = resolver.values(func)
    unknown = all(v.role is Role.OBJECT and v.name.startswith(_INSIDE) for v in values)  # what is in something unknown
    if not unknown or not isinstance(func, (ast.Name, ast.Subscript)) or resolver.qualified(func):
        return []
    if resolver.builtin(func) is not None:
        return []
    return [function for function in _handed_out(draft, draft.facts.tree) if _fits(draft, call, function)]


def run_with(draft: Draft, call: ast.Call) -> Sequence[Function]:
    """The functions of the script that a call hands to something unknown, which may run them with all else that it is
    given: `pool.submit(record, loss)`, `Thread(target=record, args=(loss,))`."""
    resolver = draft.facts.resolver
    given = [a for a in (*call.args, *(k.value for k in call.keywords)) if isinstance(a, ast.Name)]
    if len(call.args) + len(call.keywords) == 1 or resolver.callee(call) is not None:
        return []
    declared = (v.declaration for a in given for v in resolver.values(a) if v.role is Role.FUNCTION)
    return [function for function in declared if isinstance(function, FUNCTIONS)]


def decorators(draft: Draft, function: Function) -> list[Function]:
    """The functions of the script that decorate one, `@logged`, or make what does: `@logged(every=10)`."""
    return [node for node in _decorating(draft, function) if isinstance(node, FUNCTIONS)]


def _decorating(draft: Draft, function: Function) -> list[ast.AST]:
    found: list[ast.AST] = []
    for decorator in function.decorator_list:
        while isinstance(decorator, ast.Call):
            decorator = decorator.func
        bindings = draft.facts.resolver.bindings(decorator) if isinstance(decorator, ast.Name) else []
        found += [b.node for b in bindings]
    return found


def _wrappers(draft: Draft, function: Function) -> list[Function]:
    """The functions that decorators of the script put in the place of one: of a class, what its objects do that are
    called."""
    inside = (n for made in decorators(draft, function) for n in walk(made) if n is not made)
    calls = (draft.facts.resolver.method(made, "__call__") for made in _decorating(draft, function))
    return [n for n in (*inside, *calls) if isinstance(n, FUNCTIONS)]


@kept
def _handed_out(draft: Draft, _: ast.AST) -> list[Function]:
    """The functions that are values somewhere, or are decorated by something of the script, and are no methods."""
    index = draft.facts.index
    plain = [f for f in index.functions if isinstance(f, FUNCTIONS) and not index.enclosing_class(f)]
    return [f for f in plain if any(_keeps(draft, d) for d in f.decorator_list) or _is_value(draft, f)]


def _keeps(draft: Draft, decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return draft.facts.resolver.qualified(named) is None and draft.facts.resolver.builtin(named) is None


def _is_value(draft: Draft, function: Function) -> bool:
    owner = draft.facts.index.scope(function).owner(function.name)
    for load in draft.facts.loads(owner, function.name) if owner is not None else ():
        parent = draft.facts.index.parents.get(load)
        if not (isinstance(parent, ast.Call) and parent.func is load):
            return True
    return False


def _fits(draft: Draft, call: ast.Call, function: Function) -> bool:
    """Whether a function takes as many arguments as a call gives, or else those of its `**` that are known."""
    if not signatures.is_told(call):
        packs = (v for k in call.keywords if k.arg is None for v in draft.facts.resolver.values(k.value))
        named = {key for pack in packs if pack.role is Role.DICT for key in pack.keys}
        return function.args.kwarg is not None or named <= {p.arg for p in parameters(function.args)}
    given = signatures.bind(call, function) or {}
    needed = {p.arg for p in parameters(function.args)} - {*signatures.defaults(function)}
    rest = {a.arg for a in (function.args.vararg, function.args.kwarg) if a is not None}
    return needed - rest <= {*given} and (bool(rest) or len(given) == len(call.args) + len(call.keywords))


def receiving(draft: Draft, call: ast.Call, function: Function | ast.Lambda, names: set[str]) -> set[str]:
    """The parameters that a call gives something of some variables, also those that get the rest: `*args`,
    `**kwargs`."""
    given = draft.facts.resolver.bind(call, function)
    if given is None:  # by `*` or `**`, nobody knows which
        told = names & {n.id for argument in (*call.args, *call.keywords) for n in loads(argument)}
        return {p.arg for p in parameters(function.args)} if told else set()
    found = {name for name, argument in given.items() if names & {n.id for n in loads(argument)}}
    taken = {p.arg for p in parameters(function.args)}
    packs = (
        (function.args.vararg, [a for a in call.args if a not in given.values()]),
        (function.args.kwarg, [a for name, a in given.items() if name not in taken]),
    )
    return found | {p.arg for p, rest in packs if p is not None and names & {n.id for a in rest for n in loads(a)}}
