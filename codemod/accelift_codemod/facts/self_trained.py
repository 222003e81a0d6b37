"""Networks that train themselves: a method of an `nn.Module` loops over batches, calls `self(x)` and steps.

What wraps a network stands outside of it. So such a method gets a variable of its own for the wrapped network, made of
`self` there, and calls that. All else that it asks of `self` is the same for the network inside.
"""

from __future__ import annotations

import ast

from accelift_codemod.facts.classes import Classes
from accelift_codemod.facts.index import FUNCTIONS, LOOPS, Function, Index
from accelift_codemod.facts.tree import is_constant, own_nodes, walk
from accelift_codemod.facts.values import Role

_MODULE = frozenset({"torch.nn.Module", "torch.nn.modules.module.Module"})
# What DistributedDataParallel, or moving a network, asks of it.
_ASKED = frozenset(
    """
    __call__ __getattr__ __getattribute__ __setattr__ parameters named_parameters buffers named_buffers modules
    named_modules children named_children state_dict load_state_dict zero_grad to cuda cpu apply _apply
    """.split()
)
_KEPT = frozenset({Role.OPTIMIZER, Role.SCHEDULER, Role.LOADER})


def training_method(index: Index, names: Classes, cls: ast.ClassDef) -> Function | None:
    """The one method by which a network, which has no other base than nn.Module, trains itself."""
    if not cls.bases or any(names.qualified(base) not in _MODULE for base in cls.bases):
        return None
    own = {m.name: m for m in cls.body if isinstance(m, FUNCTIONS)}
    training = list(dict.fromkeys(index.function(call) for call in _backwards(index, cls)))
    method = training[0] if len(training) == 1 else None
    if method is None or own.get(method.name) is not method or "forward" not in own or method.name == "forward":
        return None
    return method if any(_trains(index, method, call) for call in _backwards(index, cls)) else None


def problem(index: Index, names: Classes, cls: ast.ClassDef, method: Function) -> tuple[ast.AST, str] | None:
    """Why the network may not be wrapped in the method that trains it."""
    changed = next((s for s in cls.body if isinstance(s, FUNCTIONS) and s.name in _ASKED), None)
    if changed is not None:
        return changed, f"the network {cls.name} has a {changed.name}() of its own, which what wraps it would ask"
    if method.decorator_list or isinstance(method, ast.AsyncFunctionDef) or _yields(method):
        return method, f"the method {method.name}(), by which {cls.name} trains itself, is no plain one"
    first = (*method.args.posonlyargs, *method.args.args)[:1]
    runs = [n for n in walk(method) if isinstance(n, ast.Call) and first and _leads(cls, n, first[0].arg, set())]
    inner = next((n for n in runs if _nested(index, n, method)), None)
    if inner is not None:
        return inner, f"a function in {method.name}() calls the network that it trains"
    if not any(index.enclosing_loops(n) for n in runs):
        return method, f"{method.name}() trains {cls.name} by its layers, and never calls it as a whole"
    return None


def _leads(cls: ast.ClassDef, call: ast.Call, name: str, seen: set[str]) -> bool:
    """Whether a call runs the network, or a method of it that does."""
    if is_run(call, name):
        return True
    func = call.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name) or func.value.id != name:
        return False
    methods = [m for m in cls.body if isinstance(m, FUNCTIONS) and m.name == func.attr and m.name not in seen]
    seen.add(func.attr)
    return any(isinstance(n, ast.Call) and _leads(cls, n, name, seen) for m in methods for n in walk(m))


def is_run(call: ast.Call, name: str) -> bool:
    """Whether a call runs the network of this name: `self(x)`, `self.forward(x)`."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr == "forward":
        func = func.value
    return isinstance(func, ast.Name) and func.id == name


def is_kept(names: Classes, values: list[ast.expr | None]) -> bool:
    """Whether what a network keeps is no part of it: an optimizer, a scheduler or a loader, made in that place."""
    made = [v for v in values if not is_constant(v, None)]
    roles = [names.library_role(names.qualified(v.func) or "") if isinstance(v, ast.Call) else None for v in made]
    return bool(made) and all(role in _KEPT for role in roles)


def _backwards(index: Index, cls: ast.ClassDef) -> list[ast.Call]:
    inside = set(walk(cls))
    return [call for call in index.methods.get("backward", ()) if call in inside]


def _trains(index: Index, method: Function, call: ast.Call) -> bool:
    """Whether a backward pass runs in a loop of the method."""
    return any(isinstance(p, LOOPS) and index.function(p) is method for p in index.ancestors(call))


def _yields(method: Function) -> bool:
    return any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)) for n in own_nodes(*method.body))


def _nested(index: Index, node: ast.AST, method: Function) -> bool:
    """Whether a node stands in a function or lambda inside a method."""
    inner = (p for p in index.ancestors(node) if isinstance(p, (*FUNCTIONS, ast.Lambda)))
    return next(inner, None) is not method
