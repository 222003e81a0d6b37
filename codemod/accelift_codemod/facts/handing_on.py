"""Constructors that hand on what they are given: `super().__init__(*args, **kwargs)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.signatures import is_told

if TYPE_CHECKING:
    from accelift_codemod.facts.resolve import Resolver

_MOST = 5  # constructors, each of which hands on what it is given by the one before


def handed_on(resolver: Resolver, call: ast.Call, steps: int = _MOST) -> ast.Call | None:
    """A call in a constructor with all that this hands on, where one call makes its object; None if it is not told.

    What that is, stands in another function: nothing but a constructor, which returns nothing, is looked into.
    """
    made = resolver.index.function(call)
    if made is None or made.name.partition("@")[0] != "__init__" or not steps:
        return None
    packed = [a for a in call.args if isinstance(a, ast.Starred)]
    spread = [*(a.value for a in packed), *(k.value for k in call.keywords if k.arg is None)]
    packs = {p.arg for p in (made.args.vararg, made.args.kwarg) if p is not None}
    scope, sites = resolver.index.scopes[made], resolver.sites(made)
    plain = all(isinstance(v, ast.Name) and v.id in packs and scope.loads.get(v.id) == [v] for v in spread)
    if not plain or len(sites) != 1 or any(len(scope.bindings[name]) > 1 for name in packs):
        return None
    site = sites[0] if is_told(sites[0]) else handed_on(resolver, sites[0], steps - 1)
    if site is None:
        return None
    taken = {p.arg for p in (*made.args.args, *made.args.kwonlyargs)}
    places = len(made.args.posonlyargs) + len(made.args.args) - resolver.is_bound(site, made)
    given = [*(a for a in call.args if a not in packed), *(site.args[places:] if packed else ())]
    more = [k for k in site.keywords if k.arg not in taken]
    return ast.Call(call.func, given, [*(k for k in call.keywords if k.arg is not None), *more])
