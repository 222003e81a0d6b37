"""Which calls draw the weights of a model: by its methods, by functions that it is handed to, or one by one."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.chance import drawn_from
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Value

_RESET = "reset_parameters"  # what torch's layers draw their weights by
_FIXED = frozenset({"constant_", "zeros_", "ones_", "eye_", "dirac_"})  # of torch.nn.init: they draw nothing
_DEEPEST = 4  # calls of functions that hand the model on


@kept
def redrawn(draft: Draft, call: ast.Call) -> tuple[Value, ...]:
    """The prepared models whose weights a call draws."""
    func = call.func
    if isinstance(func, ast.Attribute):
        part, models = draft.blueprint.prepared_part(func.value)
        if models and part is func.value and func.attr not in ("apply", _RESET):
            methods = [draft.facts.resolver.method(m.declaration, func.attr) for m in models]
            return models if any(m is not None and _sets(draft, m, 0) for m in methods) else ()
        if models:
            return models if _draws(draft, call, {n.id for n in loads(part)}) else ()
    given = [*call.args, *(k.value for k in call.keywords)]
    callee = draft.facts.resolver.callee(call)
    if isinstance(callee, FUNCTIONS):
        bound = draft.facts.resolver.bind(call, callee) or {}
        held = {name: draft.blueprint.prepared_part(a)[1] for name, a in bound.items()}
        found = [name for name in held if held[name] and _sets(draft, callee, 0, {name})]
        return tuple(v for name in found for v in held[name])
    if _is_init(draft, call):
        return tuple(v for a in given for v in draft.blueprint.prepared_part(a)[1] or _of_loop(draft, a))
    return _of_loop(draft, func.value) if isinstance(func, ast.Attribute) and _draws_in_place(draft, call) else ()


def _of_loop(draft: Draft, node: ast.expr) -> tuple[Value, ...]:
    """The prepared models over whose modules or parameters a loop goes that binds a variable of an expression, or over
    what another loop binds: `for part in model.children(): for p in part.parameters():`."""
    names = {n.id for n in loads(node)}
    for loop in draft.facts.index.ancestors(node):
        if isinstance(loop, ast.For) and names & {n.id for n in walk(loop.target) if isinstance(n, ast.Name)}:
            asked = loop.iter.func if isinstance(loop.iter, ast.Call) else None
            models = draft.blueprint.prepared_models(asked.value) if isinstance(asked, ast.Attribute) else ()
            if models:
                return models
            names = {n.id for n in loads(loop.iter)}
    return ()


def _sets(draft: Draft, function: Function, depth: int, names: Collection[str] = ()) -> bool:
    """Whether a function draws weights of what some of its parameters hold; a method, of its object."""
    resolver = draft.facts.resolver
    first = [p.arg for p in (*function.args.posonlyargs, *function.args.args)][:1]
    own = {*(names or first)}
    for part in walk(function):  # in the order of the source: what they hand on comes later
        if isinstance(part, (ast.For, ast.comprehension)) and own & {n.id for n in loads(part.iter)}:
            own |= {n.id for n in walk(part.target) if isinstance(n, ast.Name)}
        elif isinstance(part, ast.Assign) and own & {n.id for n in loads(part.value)}:
            own |= {t.id for t in part.targets if isinstance(t, ast.Name)}
    for call in (n for n in walk(function) if isinstance(n, ast.Call)):
        if _draws(draft, call, own):
            return True
        callee = resolver.callee(call)
        if depth < _DEEPEST and isinstance(callee, FUNCTIONS) and callee is not function:
            if any(_sets(draft, callee, depth + 1, passed) for passed in _handed(draft, call, callee, own)):
                return True
    return False


def _handed(draft: Draft, call: ast.Call, callee: Function, own: Collection[str]) -> Iterator[Collection[str]]:
    """The parameters that a call gives something of a model; none of them stands for the object of a method."""
    func = call.func
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in own:
        yield ()
    given = draft.facts.resolver.bind(call, callee) or {}
    names = {name for name, a in given.items() if isinstance(a, ast.Name) and a.id in own}
    if names:
        yield names


def _draws(draft: Draft, call: ast.Call, own: Collection[str]) -> bool:
    """Whether a call draws something of what some variables hold."""
    func = call.func
    if _is_init(draft, call):
        return any(n.id in own for a in (*call.args, *(k.value for k in call.keywords)) for n in loads(a))
    if not isinstance(func, ast.Attribute) or not own & {n.id for n in loads(func.value)}:  # type: ignore[operator]
        return False
    if func.attr == "apply" and call.args:
        applied = (call.args[0], *(v.declaration for v in draft.facts.resolver.values(call.args[0])))
        return any(_initialises(draft, f) for f in applied if isinstance(f, (*FUNCTIONS, ast.Lambda)))
    return _draws_in_place(draft, call)


def _draws_in_place(draft: Draft, call: ast.Call) -> bool:
    """Whether a call of a method draws a layer's weights, or a parameter: `m.weight.data.normal_()`."""
    func = call.func
    if not isinstance(func, ast.Attribute):
        return False
    return func.attr == _RESET or (
        isinstance(func.value, ast.Attribute) and bool(drawn_from(draft.facts.resolver, call))
    )


def _initialises(draft: Draft, function: ast.AST) -> bool:
    """Whether a function that is applied to every module draws weights."""
    for call in (n for n in walk(function) if isinstance(n, ast.Call)):
        resets = isinstance(call.func, ast.Attribute) and call.func.attr == _RESET
        if resets or _is_init(draft, call) or drawn_from(draft.facts.resolver, call):
            return True
    return False


def _is_init(draft: Draft, call: ast.Call) -> bool:
    module, _, name = (draft.facts.resolver.qualified(call.func) or "").rpartition(".")
    return module == "torch.nn.init" and name not in _FIXED
