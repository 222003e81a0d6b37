"""Functions that run a model on several GPUs by hand, and no more: a script's own `data_parallel(model, *inputs)`."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import Function, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import own_nodes

_HOME = "torch.nn.parallel."
_STEPS = ("replicate", "scatter", "parallel_apply", "gather")
_COUNTS = frozenset({"list", "range", "len"})


def calls_model(resolver: Resolver, function: Function) -> bool:
    """Whether a function surely hands back what its first argument, a model, makes of the others.

    It replicates the model, cuts the inputs in parts, has each replica compute its part, and joins the results.
    """
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    inputs = arguments.vararg
    if len(plain) != 1 or inputs is None or arguments.kwonlyargs or arguments.kwarg or function.decorator_list:
        return False
    steps: dict[str, ast.Call] = {}
    for node in own_nodes(*function.body):
        if isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Lambda)):
            return False
        if not isinstance(node, ast.Call):
            continue
        name = (resolver.qualified(node.func) or "").removeprefix(_HOME)
        if name in _STEPS and name not in steps:
            steps[name] = node
        elif resolver.builtin(node.func) not in _COUNTS and name != "torch.cuda.device_count":
            return False
    if set(steps) != set(_STEPS) or any(k.arg == "dim" for call in steps.values() for k in call.keywords):
        return False
    given = [[*steps[name].args] for name in _STEPS]
    if any(len(args) < 2 for args in given) or any(len(given[i]) > 2 for i in (1, 2, 3)):
        return False
    applied = steps["parallel_apply"], steps["replicate"], steps["scatter"]
    returns = resolver.returns(function)
    return (
        _is_given(resolver, given[0][0], plain[0])
        and _is_given(resolver, given[1][0], inputs)
        and _is(resolver, given[2][0], applied[1])
        and _is(resolver, given[2][1], applied[2])
        and _is(resolver, given[3][0], applied[0])
        and len(returns) == 1
        and returns[0] is function.body[-1]
        and _is(resolver, returns[0].value, steps["gather"])
    )


def _is_given(resolver: Resolver, node: ast.expr, parameter: ast.arg) -> bool:
    """Whether an expression is what a call gives a parameter."""
    owner = resolver.index.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
    if not isinstance(node, ast.Name) or owner is None:
        return False
    return [b.node for b in resolver.reaching(node, owner)] == [parameter]


def _is(resolver: Resolver, node: ast.expr | None, call: ast.Call) -> bool:
    """Whether an expression is what a call gives, or as many first parts of that as there are inputs."""
    if node is call:
        return True
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.lower is None:
        return node.slice.step is None and _counted(node.slice.upper) and _is(resolver, node.value, call)
    if not isinstance(node, ast.Name):
        return False
    owner = resolver.index.scope(node).owner(node.id)
    bindings = resolver.reaching(node, owner) if owner is not None else []
    return len(bindings) == 1 and bindings[0].how is How.ASSIGN and _is(resolver, bindings[0].value, call)


def _counted(node: ast.expr | None) -> bool:
    """`len(inputs)`, and no other number: of replicas there are no fewer than inputs."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
