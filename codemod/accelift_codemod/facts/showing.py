"""Calls that show something: by Python's logging, or beside a progress bar."""

from __future__ import annotations

import ast

from accelift_codemod.facts import library
from accelift_codemod.facts.index import MARK, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.signatures import PARTIAL, is_told
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

_LEVELS = frozenset({"info", "warning", "debug", "error", "log"})
# Methods by whose names something that is not known is taken for a log, or for a writer of curves.
_LOGS_TEXT = frozenset({"info", "warning", "debug", "error", "critical", "exception"})
_DRAWS = frozenset({"add_scalar", "add_scalars", "add_image", "add_images", "add_histogram", "add_figure", "add_text"})
PRINTS = frozenset({"builtins.print", "__builtin__.print"})
_MOST = 4  # names that print goes by, one after the other
_BESIDE = frozenset({"set_postfix", "set_postfix_str", "set_description", "set_description_str"})


def prints(resolver: Resolver, func: ast.expr, steps: int = _MOST) -> list[ast.keyword] | None:
    """What print has been given before, if an expression is print, perhaps by another name: `log = print`,
    `print = partial(print, flush=True)`. None if it is not."""
    if resolver.builtin(func) == "print" or resolver.qualified(func) in PRINTS:
        return []
    if (
        isinstance(func, ast.Call)
        and resolver.qualified(func.func) == PARTIAL
        and is_told(func)
        and len(func.args) == 1
    ):
        before = prints(resolver, func.args[0], steps)
        own = {k.arg for k in func.keywords}
        return None if before is None else [*(k for k in before if k.arg not in own), *func.keywords]
    bound = resolver.bindings(func) if isinstance(func, ast.Name) and steps else []
    if len(bound) != 1 or bound[0].how is not How.ASSIGN or bound[0].path or bound[0].value is None:
        return None
    made = resolver.index.statement(bound[0].node)
    if bound[0].scope.is_module and isinstance(func, ast.Name) and resolver.index.statement(func) is made:
        return [] if func.id.rpartition(MARK)[2] == "print" else None  # until it is bound, that of Python
    return prints(resolver, bound[0].value, steps - 1)


def is_logging(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call logs something by Python's own module."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in _LEVELS:
        return False
    if (resolver.qualified(func) or "").startswith("logging."):
        return True
    return any(v.name == "logging.getLogger" for v in resolver.values(func.value))


def is_shown(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call prints something, or logs it."""
    return prints(resolver, call.func) is not None or is_logging(resolver, call)


def may_log(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a statement shows something by a method that is not known, going by its name: `self.logger.info(text)`,
    `self.board.add_scalar("loss", value)`."""
    func = call.func
    if not isinstance(func, ast.Attribute) or not isinstance(resolver.index.parents.get(call), ast.Expr):
        return False
    if resolver.callee(call) is not None or resolver.qualified(func) is not None:
        return False
    text = call.args and any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in walk(call.args[0]))
    return func.attr in _DRAWS or (func.attr in _LOGS_TEXT and bool(text))


def is_on_a_bar(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call shows something beside a progress bar: `bar.set_postfix(loss=loss.item())`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _BESIDE:
        return False
    bar = call.func.value
    bindings = resolver.bindings(bar) if isinstance(bar, ast.Name) else []
    made = [b.value for b in bindings if b.how in (How.ASSIGN, How.WITH) and not b.path]
    return any(isinstance(value, ast.Call) and resolver.qualified(value.func) in library.TQDM for value in made)


def is_written_beside_a_bar(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call prints beside a progress bar, even a disabled one: `tqdm.write(...)`, `bar.write(...)`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "write":
        return False
    if (resolver.qualified(call.func) or "").rpartition(".")[0] in library.TQDM:
        return True
    bar = call.func.value
    values = resolver.values(bar)
    if values and all(v.role is Role.ITERATOR and v.name in library.TQDM for v in values):
        return True
    made = [b.value for b in resolver.bindings(bar)] if isinstance(bar, ast.Name) else []
    return bool(made) and all(isinstance(m, ast.Call) and resolver.qualified(m.func) in library.TQDM for m in made)
