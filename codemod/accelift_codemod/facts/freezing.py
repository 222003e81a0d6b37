"""Which parameters of a model a script freezes, and which it lets be trained."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelift_codemod.facts.index import How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk

_ALL = frozenset({"parameters", "named_parameters"})

Path = tuple[str, ...]


@dataclass(frozen=True)
class Switch:
    """A statement that freezes the parameters of a part of a model (an empty path: of the whole), or trains them."""

    node: ast.stmt
    root: ast.expr  # the model
    path: Path
    on: bool

    def covers(self, other: Switch) -> bool:
        """Whether the other part lies in this one."""
        return other.path[: len(self.path)] == self.path


def switches(resolver: Resolver) -> Iterator[Switch]:
    """Every statement that sets `requires_grad` of all parameters of something, in source order."""
    for node in walk(resolver.index.tree):
        found: tuple[ast.expr, bool] | None = None
        if isinstance(node, ast.Expr):
            found = _call(node)
        elif isinstance(node, ast.For):
            found = _loop(node)
        if found is not None and isinstance(node, ast.stmt):
            root, path = _root(found[0])
            yield Switch(node, root, path, found[1])


@dataclass(frozen=True)
class Setting:
    """Where `requires_grad` of the parameters of something is set, and whether it is, or may be, to True."""

    node: ast.Attribute
    root: ast.expr
    on: bool


def settings(resolver: Resolver) -> Iterator[Setting]:
    """Every place in a loop over `parameters()` that sets `requires_grad`."""
    for attribute in resolver.index.attributes.get("requires_grad", []):
        statement = resolver.index.parents.get(attribute)
        root = _root_of(resolver, attribute)
        if isinstance(statement, ast.Assign) and attribute in statement.targets and root is not None:
            off = isinstance(statement.value, ast.Constant) and not statement.value.value
            yield Setting(attribute, root, not off)
    for call in resolver.index.methods.get("requires_grad_", []):
        func = call.func
        root = _root_of(resolver, func) if isinstance(func, ast.Attribute) else None
        if isinstance(func, ast.Attribute) and root is not None:
            given = [*call.args, *(k.value for k in call.keywords)]
            yield Setting(func, root, not any(isinstance(g, ast.Constant) and not g.value for g in given))


def _root_of(resolver: Resolver, attribute: ast.Attribute) -> ast.expr | None:
    """The object whose parameters a loop passes over, if one of them has the attribute; of a part, the whole."""
    whole = whole_of(resolver, attribute)
    return None if whole is None else _root(whole)[0]


def whole_of(resolver: Resolver, attribute: ast.Attribute) -> ast.expr | None:
    """The same, but of a part that part."""
    bindings = resolver.bindings(attribute.value) if isinstance(attribute.value, ast.Name) else []
    for every in (n for b in bindings if b.how is How.LOOP for n in walk(b.value or b.node)):
        if isinstance(every, ast.Attribute) and every.attr in _ALL:
            return every.value
    return None


def _call(statement: ast.stmt) -> tuple[ast.expr, bool] | None:
    """`part.requires_grad_(...)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_"):
        return None
    given = [*call.args, *(k.value for k in call.keywords)]
    if len(given) > 1 or not all(isinstance(g, ast.Constant) for g in given):
        return None
    return call.func.value, all(bool(g.value) for g in given if isinstance(g, ast.Constant))


def _loop(loop: ast.For) -> tuple[ast.expr, bool] | None:
    """`for p in part.parameters(): p.requires_grad = ...`, and nothing else."""
    every = loop.iter
    if not (isinstance(every, ast.Call) and isinstance(every.func, ast.Attribute) and every.func.attr in _ALL):
        return None
    target = loop.target
    if every.func.attr == "named_parameters" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    if not isinstance(target, ast.Name) or len(loop.body) != 1 or loop.orelse:
        return None
    statement = loop.body[0]
    called = _call(statement)
    if called is not None:
        return (every.func.value, called[1]) if _is(called[0], target) else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        to, value = statement.targets[0], statement.value
        if isinstance(to, ast.Attribute) and to.attr == "requires_grad" and _is(to.value, target):
            if isinstance(value, ast.Constant) and isinstance(value.value, bool):
                return every.func.value, value.value
    return None


def _is(node: ast.expr, target: ast.Name) -> bool:
    return isinstance(node, ast.Name) and node.id == target.id


def _root(node: ast.expr) -> tuple[ast.expr, Path]:
    """The object that a part belongs to, and the way from it to the part."""
    path: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        path.append(node.attr if isinstance(node, ast.Attribute) else f"[{ast.unparse(node.slice)}]")
        node = node.value
    if path and path[-1] == "module":  # of a wrapper
        path.pop()
    return node, tuple(reversed(path))
