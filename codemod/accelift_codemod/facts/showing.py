"""Calls that show something: by Python's logging, or beside a progress bar."""

from __future__ import annotations

import ast

from accelift_codemod.facts import library
from accelift_codemod.facts.index import How
from accelift_codemod.facts.resolve import Resolver

_LEVELS = frozenset({"info", "warning", "debug", "error", "log"})
_BESIDE = frozenset({"set_postfix", "set_postfix_str", "set_description", "set_description_str"})


def is_logging(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call logs something by Python's own module."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in _LEVELS:
        return False
    if (resolver.qualified(func) or "").startswith("logging."):
        return True
    return any(v.name == "logging.getLogger" for v in resolver.values(func.value))


def is_beside_a_bar(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call shows something beside a progress bar: `bar.set_postfix(loss=loss.item())`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _BESIDE:
        return False
    bar = call.func.value
    bindings = resolver.bindings(bar) if isinstance(bar, ast.Name) else []
    made = [b.value for b in bindings if b.how in (How.ASSIGN, How.WITH) and not b.path]
    return any(isinstance(value, ast.Call) and resolver.qualified(value.func) in library.TQDM for value in made)
