"""Decorators of the script that run what they decorate as it stands, and measure or tell something besides:

def timed(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        start = time.time()
        result = function(*args, **kwargs)
        print(function.__name__, time.time() - start)
        return result
    return run
"""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import FUNCTIONS, Function, How
from accelift_codemod.facts.names import Names
from accelift_codemod.facts.tree import is_remark, walk

_LEAVING = (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)
_NAMES = frozenset({"__name__", "__qualname__"})
_HARMLESS = ("torch.cuda.",)  # of torch: how long the GPU takes, and how much of its memory


def runs_as_it_stands(names: Names, decorator: ast.expr) -> bool:
    """Whether a decorator is a function of the script that gives back one which runs the decorated function once, with
    what it is given itself, and returns what that does."""
    bindings = names.bindings(decorator) if isinstance(decorator, ast.Name) else []
    made = bindings[0].node if [b.how for b in bindings] == [How.FUNCTION] else None
    if not isinstance(made, ast.FunctionDef) or made.decorator_list or not names.index.scope(made).is_module:
        return False
    given = [n for n in walk(made.args) if isinstance(n, ast.arg)]
    inner = [s for s in made.body if isinstance(s, FUNCTIONS)]
    others = [s for s in made.body if s not in inner and not is_remark(s)]
    if len(given) != 1 or len(inner) != 1 or len(others) != 1 or not isinstance(inner[0], ast.FunctionDef):
        return False
    returned = others[0].value if isinstance(others[0], ast.Return) else None
    back = isinstance(returned, ast.Name) and returned.id == inner[0].name
    return back and _wraps(names, inner[0]) and _hands_on(names, inner[0], given[0].arg)


def _wraps(names: Names, wrapper: Function) -> bool:
    """Whether a wrapper is not decorated itself, but by `functools.wraps`."""
    calls = [d for d in wrapper.decorator_list if isinstance(d, ast.Call)]
    known = all(names.qualified(call.func) == "functools.wraps" for call in calls)
    return known and len(calls) == len(wrapper.decorator_list)


def _hands_on(names: Names, wrapper: ast.FunctionDef, function: str) -> bool:
    """Whether a wrapper calls the function in one of its statements and returns what it gives, and does nothing else
    to it, or to what it is given."""
    body = [n for s in wrapper.body for n in walk(s)]
    calls = [n for n in body if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == function]
    places = [s for s in wrapper.body if isinstance(s, (ast.Assign, ast.Return)) and s.value in calls]
    last = wrapper.body[-1]
    if len(calls) != 1 or len(places) != 1 or any(isinstance(n, _LEAVING) and n is not last for n in body):
        return False
    (call,), (place,) = calls, places
    result = ast.unparse(place.targets[0]) if isinstance(place, ast.Assign) else ""
    returned = isinstance(last, ast.Return) and last.value is not None
    if place is not last and not (returned and ast.unparse(last.value) == result):  # type: ignore[attr-defined]
        return False
    qualified = (names.qualified(n.func) or "" for n in body if isinstance(n, ast.Call))
    if any(q.startswith("torch.") and not q.startswith(_HARMLESS) for q in qualified):
        return False
    own = {n.arg for n in walk(wrapper.args) if isinstance(n, ast.arg)} | {function}
    handed = {n for part in (call.func, *call.args, *call.keywords) for n in walk(part)}
    others = [n for n in body if isinstance(n, ast.Name) and n not in handed]
    asked = (names.index.parents[n] for n in others if n.id in own)
    kept = [n for n in others if n.id == result]
    if not all(isinstance(a, ast.Attribute) and a.attr in _NAMES for a in asked):
        return False
    return len(kept) == (0 if place is last else 2) and _given_on(call, wrapper.args)  # it is bound, and returned


def _given_on(call: ast.Call, arguments: ast.arguments) -> bool:
    """Whether a call gives what a function is given, whatever that is, in its place: `function(*args, **kwargs)`."""
    if arguments.vararg is None or arguments.kwarg is None or arguments.defaults or arguments.kwonlyargs:
        return False
    own = [*(p.arg for p in (*arguments.posonlyargs, *arguments.args)), f"*{arguments.vararg.arg}"]
    given = [ast.unparse(a) for a in call.args], [(k.arg, ast.unparse(k.value)) for k in call.keywords]
    return given == (own, [(None, arguments.kwarg.arg)])
