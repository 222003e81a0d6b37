"""Walking syntax trees, again and again: the children of a node are worked out once; and what single nodes are."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

CHILDREN = "_accelift_children"  # where it is noted
WALK = "_accelift_walk"  # and on a module or statement, all that is in it
LOADS, STORES = "_accelift_loads", "_accelift_stores"  # and the names that it reads and binds
NOTES = frozenset({CHILDREN, WALK, LOADS, STORES})
# What Python's parser makes once and uses everywhere: contexts and operators.
SHARED = frozenset(
    kind
    for family in (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
    for kind in family.__subclasses__()
)
# Fields that hold no nodes, or shared ones alone.
_LEAVES = frozenset(
    {"ctx", "op", "ops", "type_comment", "type_ignores", "kind", "attr", "id", "arg", "asname", "level"}
)
# Nodes in whose lists there are also texts, or None.
_MIXED = frozenset({ast.Dict, ast.arguments, ast.Global, ast.Nonlocal, ast.MatchMapping, ast.MatchClass})
_KEPT = (ast.Module, ast.stmt)
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}  # asked of a kind of node for the first time
_NONE: list[ast.AST] = []  # in names and constants, which most nodes are
LEAVES = frozenset({ast.Name, ast.Constant, ast.alias})  # these have no children
_CLOSED = LEAVES | {ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef}
_GIVE_BACK = frozenset({"to", "cuda", "train", "eval"})


def node_fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node that may hold nodes, but contexts and operators."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(name for name in kind._fields if name not in _LEAVES)
    return _FIELDS[kind]


def children(node: ast.AST) -> list[ast.AST]:
    """What `ast.iter_child_nodes` yields, but contexts and operators. The list belongs to the node: do not change it,
    nor the tree."""
    parts = node.__dict__
    known: list[ast.AST] | None = parts.get(CHILDREN)
    if known is None:
        kind = node.__class__
        fields = _FIELDS.get(kind)
        if fields is None:
            fields = node_fields(kind)
        known = [] if fields else _NONE
        for name in fields:
            value = parts.get(name)
            if value.__class__ is list:
                known += [v for v in value if isinstance(v, ast.AST)] if kind in _MIXED else value
            elif isinstance(value, ast.AST):
                known.append(value)
        parts[CHILDREN] = known
    return known


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """What `ast.walk` yields, but contexts and operators, in the same order."""
    known: list[ast.AST] | None = node.__dict__.get(WALK)
    if known is None:
        known = [node]
        for current in known:  # it grows meanwhile
            if current.__class__ not in LEAVES:
                parts = current.__dict__.get(CHILDREN)
                known += children(current) if parts is None else parts
        if isinstance(node, _KEPT):
            node.__dict__[WALK] = known
    return iter(known)


def own_nodes(*roots: ast.AST) -> Iterator[ast.AST]:
    """Nodes and what is in them, in source order; of functions and classes that are defined there, only themselves."""
    stack: list[ast.AST] = [*reversed(roots)]
    while stack:
        node = stack.pop()
        yield node
        if node.__class__ not in _CLOSED:
            stack += reversed(children(node))


def leaves(statements: Iterable[ast.stmt]) -> bool:
    """Whether statements may be left by `continue` or `break` of the loop around them."""
    stack: list[ast.AST] = [*statements]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Continue, ast.Break)):
            return True
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            stack += node.orelse
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            stack += children(node)
    return False


def fails(statement: ast.AST | None) -> bool:
    """Whether a statement is `assert False`, which ends what it stands in as `raise` does."""
    test = statement.test if isinstance(statement, ast.Assert) else None
    return isinstance(test, ast.Constant) and not test.value


def is_constant(node: ast.AST | None, value: bool | None) -> bool:
    """Whether an expression is None, True or False, written out."""
    return isinstance(node, ast.Constant) and node.value is value


def targets(statement: ast.AST) -> list[ast.expr]:
    """What an assignment sets; nothing of other statements."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else []


def is_spelled_out(node: ast.expr) -> bool:
    """Whether an expression is a variable, or an attribute or a spelled out entry of one: `models["encoder"]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def root(node: ast.AST | None) -> ast.Name | None:
    """The variable whose object has another one somewhere: `state` of `state.meters["loss"]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def container(node: ast.expr) -> ast.expr:
    """What an entry is taken of: `self.meters` of `self.meters["loss"][0]`; anything else itself."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def whole(node: ast.expr) -> ast.expr:
    """A tensor without `.data`, and without the part of it that is taken: `p.grad` of `p.grad.data[0]`."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "data"):
        node = node.value
    return node


def is_same_name(node: ast.AST, other: ast.AST) -> bool:
    """Whether two expressions of a function are one variable."""
    return isinstance(node, ast.Name) and isinstance(other, ast.Name) and node.id == other.id


def is_remark(statement: ast.stmt) -> bool:
    """Whether a statement is a text that stands by itself, or `...`."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def is_taken_apart(node: ast.expr, parent: ast.AST) -> bool:
    """Whether the place of an expression asks for something with parts, which None has not: `a, b = f()`, `f()[0]`."""
    if isinstance(parent, ast.Assign):
        return any(isinstance(target, (ast.Tuple, ast.List)) for target in parent.targets)
    if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
        return parent.iter is node
    part = isinstance(parent, ast.Subscript) and parent.value is node
    return part or isinstance(parent, (ast.Attribute, ast.Starred))


def unmoved(node: ast.expr | None) -> ast.expr | None:
    """A network without what only moves it or sets its mode, which gives it back: `model` of `model.to(device)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GIVE_BACK:
        node = node.func.value
    return node
