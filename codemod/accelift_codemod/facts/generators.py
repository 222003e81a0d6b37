"""Generators that hand on what they iterate over: `while True: for batch in loader: yield batch`."""

from __future__ import annotations

import ast
from itertools import takewhile

from accelift_codemod.facts.index import Function, How
from accelift_codemod.facts.names import Names
from accelift_codemod.facts.signatures import own_nodes


def handed_on(function: Function, names: Names) -> ast.expr | None:
    """What a generator iterates over, if it yields each element of that once, as it is; None if it does anything else.

    It may begin again when there are no more. One that leaves elements out, or takes them apart, hands nothing on: how
    many there are would depend on what is in them.
    """
    yields = [n for n in own_nodes(function) if isinstance(n, (ast.Yield, ast.YieldFrom))]
    if len(yields) != 1 or any(isinstance(n, (ast.Return, ast.Break, ast.Continue)) for n in own_nodes(function)):
        return None
    index = names.index
    statement = index.statement(yields[0])
    if not isinstance(statement, ast.Expr) or statement.value is not yields[0]:
        return None
    around = list(takewhile(lambda n: n is not function, index.ancestors(statement)))
    given = yields[0].value
    if isinstance(yields[0], ast.YieldFrom):
        return given if all(_goes_on(n, names) for n in around) else None
    if around and isinstance(loop := around[0], ast.For) and isinstance(given, ast.Name):
        same = isinstance(loop.target, ast.Name) and loop.target.id == given.id
        alone = loop.body == [statement] and not loop.orelse
        return loop.iter if same and alone and all(_goes_on(n, names) for n in around[1:]) else None
    if all(_goes_on(n, names) or isinstance(n, ast.Try) for n in around):
        return _source(given, names)
    return None


def _goes_on(node: ast.AST, names: Names) -> bool:
    """`while True:`, `for epoch in range(n):`: how often does not depend on what is yielded."""
    if isinstance(node, ast.While):
        return isinstance(node.test, ast.Constant) and bool(node.test.value)
    return isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and names.builtin(node.iter.func) == "range"


def drawn_from(node: ast.expr | None, names: Names) -> ast.expr | None:
    """The iterator of `next(iterator)`, `iterator.__next__()` and, of old, `iterator.next()`."""
    if isinstance(node, ast.Call) and names.builtin(node.func) == "next" and node.args:
        return node.args[0]
    return _argument(node, "", ("__next__", "next"), names)


def _source(node: ast.expr | None, names: Names) -> ast.expr | None:
    """What `next(iterator)` draws from, `iterator` being `iter(loader)` wherever it is bound."""
    if isinstance(node, ast.Name):  # batch = next(iterator); yield batch
        return _agreed([_source(b.value, names) if _plain(b.how) else None for b in names.bindings(node)])
    iterator = drawn_from(node, names)
    if not isinstance(iterator, ast.Name):
        return None
    owner = names.index.scope(iterator).owner(iterator.id)
    bindings = owner.bindings.get(iterator.id, []) if owner is not None else []
    return _agreed([_argument(b.value, "iter", ("__iter__",), names) if _plain(b.how) else None for b in bindings])


def _plain(how: How) -> bool:
    return how is How.ASSIGN


def _agreed(found: list[ast.expr | None]) -> ast.expr | None:
    """The one expression that all are."""
    first = found[0] if found else None
    if first is None or any(other is None or ast.dump(other) != ast.dump(first) for other in found):
        return None
    return first


def _argument(node: ast.expr | None, builtin: str, methods: tuple[str, ...], names: Names) -> ast.expr | None:
    """`x` of `iter(x)` or `x.__iter__()`."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if names.builtin(node.func) == builtin and len(node.args) == 1:
        return node.args[0]
    if isinstance(node.func, ast.Attribute) and node.func.attr in methods and not node.args:
        return node.func.value
    return None
