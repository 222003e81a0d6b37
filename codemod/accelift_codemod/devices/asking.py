"""Functions of a script that only ask which devices there are: `device, numbers = prepare_device(n)`."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import library
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.showing import is_logging, prints
from accelift_codemod.facts.tree import own_nodes

_ASKS = frozenset({*library.AVAILABLE, *library.COUNTS, "torch.cuda.get_device_name", "torch.cuda.current_device"})
_COMPUTING = frozenset("bool dict enumerate float int isinstance len list max min range set sorted str tuple".split())
_RAISES = (ast.Raise, ast.Assert, ast.Try)
_CHANGES = (*_RAISES, ast.Global, ast.Nonlocal, ast.Delete, ast.Yield, ast.YieldFrom, ast.Await, ast.With)


def only_asks(draft: Draft, call: ast.expr) -> bool:
    """Whether a call of a function does nothing but ask for devices, and say what there is."""
    function = draft.facts.resolver.callee(call) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or not isinstance(function, FUNCTIONS) or function.decorator_list:
        return False
    given = [*call.args, *(k.value for k in call.keywords)]
    if not all(_computes(draft, n) for argument in given for n in ast.walk(argument)):
        return False
    asked = [n for n in own_nodes(*function.body) if isinstance(n, ast.expr)]
    about = any(draft.facts.resolver.qualified(n.func) in _ASKS for n in asked if isinstance(n, ast.Call))
    return about and all(_computes(draft, n) for n in own_nodes(*function.body)) and not _nests(function)


def _nests(function: Function) -> bool:
    return any(isinstance(n, (*FUNCTIONS, ast.ClassDef, ast.Lambda)) for s in function.body for n in ast.walk(s))


def _computes(draft: Draft, node: ast.AST) -> bool:
    """Whether a node changes nothing but variables of its function, perhaps shows something."""
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return isinstance(node.ctx, ast.Load)
    if not isinstance(node, ast.Call):
        return not isinstance(node, _CHANGES)
    resolver = draft.facts.resolver
    name = resolver.qualified(node.func) or ""
    known = resolver.builtin(node.func) in _COMPUTING or name == "torch.device" or name in _ASKS
    return known or prints(resolver, node.func) is not None or is_logging(resolver, node)
