"""Names that statements read and write, and what outlives one iteration of a loop."""

from __future__ import annotations

import ast
from functools import cached_property

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.index import FUNCTIONS, How, Index, position
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import LOADS, STORES, children, targets, walk

_DEFINITIONS = frozenset({*FUNCTIONS, ast.ClassDef})
_SCOPES = frozenset({ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp, ast.Lambda})


def loads(node: ast.AST) -> list[ast.Name]:
    """Names read by a statement or expression, nested definitions left out, in source order."""
    known: list[ast.Name] | None = node.__dict__.get(LOADS)
    if known is None:
        known = node.__dict__[LOADS] = _loads(node)
    return known.copy()


def stores(node: ast.AST) -> set[str]:
    """Names that running a statement may bind."""
    known: set[str] | None = node.__dict__.get(STORES)
    if known is None:
        known = node.__dict__[STORES] = _stores(node)
    return known.copy()


def computes_with(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression goes by what is in some variables, and not only by how large that is, or of which type."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute) and node.attr in torch_ops.ABOUT:
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return False
    return any(computes_with(child, names) for child in children(node))


def _loads(node: ast.AST) -> list[ast.Name]:
    found: list[ast.Name] = []
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.Name):
            if not isinstance(item.ctx, ast.Store):
                found.append(item)
            continue
        if isinstance(item, ast.AugAssign) and isinstance(item.target, ast.Name):
            found.append(item.target)
        if item.__class__ not in _DEFINITIONS or item is node:
            stack += reversed(children(item))
    return found


def _stores(node: ast.AST) -> set[str]:
    found: set[str] = set()
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.Name):
            if isinstance(item.ctx, ast.Store):
                found.add(item.id)
        elif isinstance(item, (*FUNCTIONS, ast.ClassDef)):
            found.add(item.name)
        elif item.__class__ not in _SCOPES:
            stack += children(item)
    return found


def flatten(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Statements in execution order, with those inside `with` blocks in the place of the block."""
    found: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            found += flatten(statement.body)
        else:
            found.append(statement)
    return found


def assignments(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr | None]]:
    """Targets of an assignment with the expression each one gets; None where unpacking hides it."""
    if isinstance(statement, ast.AnnAssign):
        return [(statement.target, statement.value)]
    if not isinstance(statement, ast.Assign):
        return []
    found: list[tuple[ast.expr, ast.expr | None]] = []
    for target in statement.targets:
        value = statement.value
        if isinstance(target, (ast.Tuple, ast.List)):
            same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            for i, element in enumerate(target.elts):
                found.append((element, value.elts[i] if same else None))  # type: ignore[attr-defined]
        else:
            found.append((target, value))
    return found


class Effects:
    """Tells which statements of a loop body leave something behind that depends on given names."""

    def __init__(self, resolver: Resolver, loop: ast.For | ast.AsyncFor | ast.While) -> None:
        self.resolver = resolver
        self.index: Index = resolver.index
        self.loop = loop

    def tainted(self, statement: ast.stmt, names: set[str]) -> set[str]:
        """The names bound by a statement from any of the given ones."""
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return {statement.name} if names & {n.id for n in loads(statement)} else set()
        if names & {n.id for n in loads(statement)}:
            return stores(statement)
        return set()

    def escapes(self, statement: ast.stmt, names: set[str], fresh: set[str]) -> bool:
        """Whether a statement changes, by one of the names, anything that outlives the iteration.

        `fresh` are names already assigned in this iteration: adding to them leaves nothing behind.
        """
        used = {n.id for n in loads(statement)}
        if isinstance(statement, ast.AugAssign):
            if used & names and self._fills(statement):
                return True
            if not used & names or (isinstance(statement.target, ast.Name) and used & names == {statement.target.id}):
                return False
            return not (isinstance(statement.target, ast.Name) and statement.target.id in fresh) or self.outlives(
                statement.target
            )
        if isinstance(statement, (ast.If, ast.While, ast.For, ast.AsyncFor, ast.Try, ast.With, ast.AsyncWith)):
            return self._compound(statement, names, fresh)
        if not used & names:
            return False
        if self._fills(statement):
            return True
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            return any(self.outlives(part) for target in targets(statement) for part in _parts(target))
        return not isinstance(statement, (ast.Assert, ast.Raise, ast.Pass))

    def _compound(self, statement: ast.stmt, names: set[str], fresh: set[str]) -> bool:
        inner = set(names)
        test = getattr(statement, "test", None)
        if test is not None and any(n.id in names and not self._asks_kind(n) for n in loads(test)):
            return True  # the iteration takes a different way by the value
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            if names & {n.id for n in loads(statement.iter)}:
                inner |= stores(statement.target)
        bodies = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        bodies += [handler.body for handler in getattr(statement, "handlers", [])]
        seen = set(fresh)
        for body in bodies:
            for child in body:
                if self.escapes(child, inner, seen):
                    return True
                inner |= self.tainted(child, inner)
                if isinstance(child, ast.Assign):
                    seen |= stores(child)
        return False

    def _asks_kind(self, read: ast.Name) -> bool:
        """Whether it is only asked what kind of object a variable holds, which no sample changes."""
        call = self.index.parents.get(read)
        asks = isinstance(call, ast.Call) and self.resolver.builtin(call.func) in ("isinstance", "type")
        return asks and read in call.args[:1]  # type: ignore[union-attr]

    def _fills(self, statement: ast.stmt) -> bool:
        """Whether a statement runs a function that changes what is kept in attributes of self."""
        for call in walk(statement):
            target = self.resolver.callee(call) if isinstance(call, ast.Call) else None
            if isinstance(target, FUNCTIONS) and self.resolver.kept(target):
                return True
        return False

    def outlives(self, target: ast.expr) -> bool:
        """Whether what is assigned to a target can be read outside this iteration."""
        if isinstance(target, ast.Subscript) and self._is_dealt(target.value):
            return self.outlives(target.value)  # `batch[i] = batch[i].to(device)`
        if not isinstance(target, ast.Name):
            return not isinstance(target, ast.Starred)
        owner = self.index.scope(target).owner(target.id)
        if owner is None:
            return False
        if owner.is_class:
            return True  # an attribute of self: any method may read it
        here = position(target)  # what is read in front of it reads what an earlier iteration has left
        return any(load not in self._inside or position(load) < here for load in self.resolver.readers(target))

    def _is_dealt(self, node: ast.expr) -> bool:
        """Whether an expression is the loop's own variable, bound nowhere else: what each iteration is dealt anew."""
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        return bool(bindings) and all(b.how is How.LOOP and b.node in self._targets for b in bindings)

    @cached_property
    def _targets(self) -> frozenset[ast.AST]:
        return frozenset() if isinstance(self.loop, ast.While) else frozenset(walk(self.loop.target))

    @cached_property
    def _inside(self) -> frozenset[ast.AST]:
        return frozenset(walk(self.loop))


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [p for e in target.elts for p in _parts(e.value if isinstance(e, ast.Starred) else e)]
    return [target]


def appended(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The list in a variable that a statement appends to, and what."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    func = call.func if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords else None
    if not isinstance(call, ast.Call) or not isinstance(func, ast.Attribute) or func.attr != "append":
        return None
    return (func.value.id, call.args[0]) if isinstance(func.value, ast.Name) else None
