"""What a function of the script reads besides its parameters: variables around it, and what else it is given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.layout.algebra import Environment, Layout, Shape, join
from accelift_codemod.facts.resolve import Resolver

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts


def rest(resolver: Resolver, function: Function, arguments: list[Shape]) -> dict[str, Shape]:
    """What `*args` of a function gets."""
    places = [*function.args.posonlyargs, *function.args.args]
    own = resolver.index.enclosing_class(function) is not None
    return {"*": Layout.UNKNOWN if own else tuple(arguments[len(places) :])}


def seen(layouts: Layouts, call: ast.Call, function: Function, env: Environment) -> Environment:
    """The variables of the code around a call that a function of it, which stands there, reads."""
    here, there = layouts.index.scope(call), layouts.index.scopes[function]
    names = [name for name in there.loads if name not in there.bindings]
    found = {name: env[name] for name in names if name in env and here.owner(name) is there.owner(name)}
    return _enclosed(layouts, call, function, env, names) | found


def _enclosed(layouts: Layouts, call: ast.Call, function: Function, env: Environment, names: list[str]) -> Environment:
    """What a function reads of another one that has made it: the arguments of calls beside this one."""
    index, resolver = layouts.index, layouts.resolver
    outer = index.function(function)
    if not isinstance(outer, FUNCTIONS) or outer in index.ancestors(call):
        return {}
    found: Environment = {}
    for site in resolver.sites(outer):
        given = resolver.bind(site, outer) if index.function(site) is index.function(call) else None
        for name in names if given is not None else ():
            if given is not None and name in given:
                read = layouts.read(given[name], env)
                found[name] = join(found[name], read) if name in found else read
    return found
