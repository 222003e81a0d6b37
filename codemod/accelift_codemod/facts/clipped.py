"""Numbers of GPUs that a function is given and cuts down to those that are there: they are positive if they were.

def prepare_device(number):
    there = torch.cuda.device_count()
    if number > 0 and there == 0:
        number = 0
    if number > there:
        number = there
    return torch.device("cuda" if number > 0 else "cpu")
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from accelift_codemod.facts.index import Binding, How
from accelift_codemod.facts.resolve import Resolver

_ABOVE = (ast.Gt, ast.GtE)


def setting(resolver: Resolver, node: ast.expr) -> tuple[ast.Name | None, list[ast.expr]]:
    """The variable of settings of which an expression reads an entry, and the keys: `config["train"]["gpus"]`,
    `int(config.get("gpus", 0))`."""
    keys: list[ast.expr] = []
    while True:
        match node:
            case ast.Subscript(value=inner, slice=ast.Constant() as key):
                keys.append(key)
            case ast.Call(
                func=ast.Attribute(value=inner, attr="get"), args=[ast.Constant() as key, *others], keywords=[]
            ):
                if not all(isinstance(other, ast.Constant) for other in others):
                    return None, keys
                keys.append(key)
            case ast.Call(args=[inner], keywords=[]) if resolver.builtin(node.func) == "int":
                pass
            case _:
                return (node if isinstance(node, ast.Name) else None), keys
        node = inner


def parameter(
    resolver: Resolver, read: ast.Name, is_count: Callable[[ast.expr], bool], is_false: Callable[[ast.expr], bool]
) -> Binding | None:
    """The parameter that a variable is positive with, where there are GPUs.

    `is_count` tells how many of them there are, `is_false` which tests do not hold where there is one.
    """
    owner = resolver.index.scope(read).owner(read.id)
    bindings = owner.bindings[read.id] if owner is not None else []
    given = [b for b in bindings if b.how is How.PARAMETER]
    if len(given) != 1:
        return None

    def cuts(binding: Binding) -> bool:
        statement = resolver.index.statement(binding.node)
        above = resolver.index.parents[statement]
        if binding.how is not How.ASSIGN or binding.path or not isinstance(above, ast.If) or above.orelse:
            return False
        if is_false(above.test):
            return True  # it is never run there
        match above.test:
            case ast.Compare(left=ast.Name(id=name), ops=[how], comparators=[limit]) if isinstance(how, _ABOVE):
                same = binding.value is not None and ast.dump(limit) == ast.dump(binding.value)
                return name == read.id and same and is_count(limit)
        return False

    return given[0] if all(cuts(b) for b in bindings if b is not given[0]) else None
