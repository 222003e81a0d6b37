"""Which statements may change the settings that tell when the script means the CPU."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.conditions import Condition
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.reach.home import Home


def may_change(home: Home, statement: ast.stmt) -> bool:
    """Whether a statement may change settings that the accelerator is made of: it runs a method of theirs or hands them
    on, or what it calls sets such an attribute of some object."""
    return any(_changes(home, leaf, statement) for leaf in home.cpu.leaves() if leaf.setting)


def may_set(home: Home, statement: ast.stmt) -> bool:
    """Whether what a statement calls sets an attribute, of some object, that tells when the script means the CPU."""
    called = (n for function in home.timeline.calls_into(statement) for n in walk(function))
    names = attributes(home.cpu)
    return bool(names) and any(_sets(n, name) for n in called for name in names)


def attributes(condition: Condition) -> set[str]:
    """The attributes that a condition asks, as it is written."""
    texts = (ast.parse(f"({leaf.text})", mode="eval") for leaf in condition.leaves())
    return {n.attr for text in texts for n in walk(text) if isinstance(n, ast.Attribute)}


def _changes(home: Home, leaf: Condition, statement: ast.stmt) -> bool:
    asked = ast.parse(f"({leaf.text})", mode="eval").body
    assert isinstance(asked, ast.Compare) and isinstance(asked.left, ast.Attribute)
    holders = {ast.dump(n) for n in walk(asked.left.value) if isinstance(n, (ast.Name, ast.Attribute))}
    holds = (n for n in walk(statement) if isinstance(n, ast.Call))
    if any(ast.dump(part) in holders for call in holds for part in _touched(call)):
        return True
    called = (n for function in home.timeline.calls_into(statement) for n in walk(function))
    return any(_sets(n, asked.left.attr) for n in (*called, *walk(statement)))


def _touched(call: ast.Call) -> list[ast.expr]:
    """What a call may change: the object of a method, and what it is handed."""
    given = [a.value if isinstance(a, ast.Starred) else a for a in (*call.args, *(k.value for k in call.keywords))]
    return [*given, call.func.value] if isinstance(call.func, ast.Attribute) else given


def _sets(node: ast.AST, name: str) -> bool:
    """Whether a node sets an attribute of that name, of whatever object but that of the method."""
    if not isinstance(node, ast.Attribute) or node.attr != name or isinstance(node.ctx, ast.Load):
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id == "self")
