"""Methods that are read and not called: `losses.ce`, and what a method gives that only chooses one of its object's."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from accelift_codemod.facts.classes import Classes, is_class_method, is_static
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How, Index
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.signatures import bind, defaults, is_told
from accelift_codemod.facts.tree import is_remark, walk
from accelift_codemod.facts.uses import is_called

_DEEPEST = 4  # variables that are set to others
_ASKED = (ast.Name, ast.Constant, ast.Attribute, ast.expr_context)  # what a choice may be told


@dataclass(frozen=True)
class Leaf:
    """A method of an object."""

    of: ast.expr
    method: str
    cls: ast.ClassDef


class MethodReads:
    """Tells which methods of the script's own classes expressions are."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.names = Classes(index, {}, {})

    def sources(self) -> Iterator[ast.expr]:
        """Where methods are read and not called, and the calls of methods that give one."""
        for name in dict.fromkeys(f.name for f in self.index.functions if self._home(f) is not None):
            for node in self.index.attributes.get(name, ()):
                if not isinstance(node.ctx, ast.Load) or is_called(self.index, node) or not self.leaves(node):
                    continue
                yield node
                giver = self.index.function(node)
                for call in self.index.methods.get(giver.name, ()) if giver is not None else ():
                    if self.leaves(call):
                        yield call

    @memoised
    def leaves(self, node: ast.expr) -> tuple[Leaf, ...]:
        """The methods of which an expression certainly is one; none if it may be something else."""
        if isinstance(node, ast.Attribute):
            cls = self._class(node.value)
            return (Leaf(node.value, node.attr, cls),) if cls is not None and self._has(cls, node.attr) else ()
        return tuple(self._given(node)) if isinstance(node, ast.Call) else ()

    # ---- objects

    def itself(self, node: ast.expr) -> ast.ClassDef | None:
        """The class in one of whose methods an expression is the object that the method is called of."""
        owner = self.index.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        method = owner.node if owner is not None else None
        if not isinstance(method, FUNCTIONS) or not isinstance(node, ast.Name) or len(owner.bindings[node.id]) != 1:  # type: ignore[union-attr]
            return None
        first = (*method.args.posonlyargs, *method.args.args)[:1]
        own = bool(first) and first[0].arg == node.id and not is_static(method) and not is_class_method(method)
        return self._home(method) if own else None

    def is_class(self, node: ast.expr) -> bool:
        """Whether an expression is a class of the script, and no object."""
        bindings = self.names.bindings(node) if isinstance(node, ast.Name) else []
        return any(b.how is How.CLASS for b in bindings)

    def related(self, one: ast.ClassDef, other: ast.ClassDef) -> bool:
        """Whether an object may be of both of two classes, or of others that both are derived of."""
        return not {*self.names.ancestry(one)}.isdisjoint(self.names.ancestry(other))

    def _home(self, function: Function) -> ast.ClassDef | None:
        home = self.index.parents.get(function)
        return home if isinstance(home, ast.ClassDef) else None

    def _class(self, node: ast.expr, depth: int = 0) -> ast.ClassDef | None:
        """The class of the script that an object is of, or which an expression is."""
        if depth > _DEEPEST:
            return None
        if isinstance(node, ast.Call):
            bindings = self.names.bindings(node.func) if isinstance(node.func, ast.Name) else []
            made = bindings[0].node if len(bindings) == 1 else None
            return made if isinstance(made, ast.ClassDef) else None
        if isinstance(node, ast.Name):
            if (own := self.itself(node)) is not None:
                return own
            bindings = self.names.bindings(node)
            if len(bindings) == 1 and isinstance(bindings[0].node, ast.ClassDef):
                return bindings[0].node
        values = self._values(node)
        return self._class(values[0], depth + 1) if values is not None and len(values) == 1 else None

    def is_other(self, node: ast.expr, cls: ast.ClassDef) -> bool:
        """Whether an expression surely is no object of a class, or of those that it has to do with."""
        values = [node] if isinstance(node, ast.Call) else self._values(node)
        return bool(values) and all(self._is_made_otherwise(value, cls) for value in values or ())

    def _is_made_otherwise(self, value: ast.expr, cls: ast.ClassDef) -> bool:
        if isinstance(value, ast.Call) and self.names.qualified(value.func) is not None:
            return True
        of = self._class(value)
        return of is not None and not self.related(of, cls)

    def _values(self, node: ast.expr) -> list[ast.expr] | None:
        """All that a variable is set to, or an attribute of the object that a method has; None if that is not known."""
        bindings: list[Binding] = []
        if isinstance(node, ast.Name):
            bindings = self.names.bindings(node)
        elif isinstance(node, ast.Attribute) and (own := self.itself(node.value)) is not None:
            bindings = [b for b in self.index.attribute_bindings.get(node.attr, ()) if self._may_be_of(b.node, own)]
        values = [b.value for b in bindings if b.how is How.ASSIGN and not b.path and b.value is not None]
        return values if len(values) == len(bindings) else None

    def _may_be_of(self, target: ast.AST, cls: ast.ClassDef) -> bool:
        """Whether what is set may be an attribute of objects of a class."""
        own = self.itself(target.value) if isinstance(target, ast.Attribute) else None
        return own is None or self.related(own, cls)

    # ---- methods

    def _has(self, cls: ast.ClassDef, name: str) -> bool:
        """Whether objects of a class, and of those derived of it, surely have a method of a name, and no attribute."""
        if name.startswith("__") or name in self.index.attribute_bindings or self.names.method(cls, name) is None:
            return False
        return all(self._is_plain(other, name) for other in self.index.classes if self.related(other, cls))

    def has_bound(self, cls: ast.ClassDef, name: str) -> bool:
        """Whether a method that objects of a class have is given the object."""
        method = self.names.method(cls, name) if self._has(cls, name) else None
        return method is not None and not is_static(method) and not is_class_method(method)

    def _is_plain(self, cls: ast.ClassDef, name: str) -> bool:
        """Whether a class is the script's own alone, and binds a name, if at all, once, to a method."""
        scope = self.index.scopes[cls]
        bound = scope.bindings.get(name, [])
        methods = [b.node for b in bound if isinstance(b.node, FUNCTIONS)]
        known = len(bound) == len(methods) <= 1 and not any(
            f.decorator_list and not is_static(f) and not is_class_method(f) for f in methods
        )
        alone = self.names.is_plain(cls) and not cls.decorator_list and not cls.keywords
        return known and alone and "__getattribute__" not in scope.bindings and len(cls.bases) < 2

    # ---- methods that choose

    def _given(self, call: ast.Call) -> list[Leaf]:
        """The methods of which a call gives one, of the object that it is of."""
        func = call.func
        cls = self._class(func.value) if isinstance(func, ast.Attribute) else None
        if not isinstance(func, ast.Attribute) or cls is None or not self._has(cls, func.attr):
            return []
        giver = self.names.method(cls, func.attr)
        same = [f for f in self.index.functions if f.name == func.attr and self._home(f) is not None]
        if giver is None or same != [giver] or giver.decorator_list or not is_told(call) or self.is_class(func.value):
            return []
        told = (*call.args, *(k.value for k in call.keywords))
        if not all(isinstance(n, _ASKED) for part in told for n in walk(part)):
            return []
        given = bind(call, giver, bound=True)
        ends = self._ends(giver.body, {**defaults(giver), **(given or {})}) if given is not None else None
        found: list[Leaf] = []
        for value in ends[0] if ends is not None else ():
            if (
                not isinstance(value, ast.Attribute)
                or self.itself(value.value) is None
                or not self._has(cls, value.attr)
            ):
                return []
            found.append(Leaf(func.value, value.attr, cls))
        return found

    def _ends(self, body: list[ast.stmt], given: Mapping[str, ast.expr]) -> tuple[list[ast.expr | None], bool] | None:
        """What statements that only choose may return, and whether what comes after them may run; None for others."""
        found: list[ast.expr | None] = []
        for statement in body:
            if isinstance(statement, (ast.Return, ast.Raise)):
                return [*found, statement.value] if isinstance(statement, ast.Return) else found, False
            if isinstance(statement, ast.If):
                if any(isinstance(n, (ast.Call, ast.NamedExpr, ast.Await)) for n in walk(statement.test)):
                    return None
                says = _says(statement.test, given)
                arms = (
                    [statement.body, statement.orelse] if says is None else [[statement.orelse, statement.body][says]]
                )
                ends = [self._ends(arm, given) for arm in arms]
                if None in ends:
                    return None
                found += (value for end in ends if end is not None for value in end[0])
                if not any(end[1] for end in ends if end is not None):
                    return found, False
            elif not is_remark(statement):
                return None
        return found, True


def _says(test: ast.expr, given: Mapping[str, ast.expr]) -> bool | None:
    """What a test of a parameter says that is given a constant; None if that cannot be told."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.left, ast.Name):
        return None
    left = given.get(test.left.id)
    right = test.comparators[0]
    parts = right.elts if isinstance(right, (ast.Tuple, ast.List, ast.Set)) else [right]
    if not isinstance(left, ast.Constant) or not all(isinstance(p, ast.Constant) for p in parts):
        return None
    values = [p.value for p in parts if isinstance(p, ast.Constant)]
    same = any(left.value == value and type(left.value) is type(value) for value in values)
    if isinstance(test.ops[0], (ast.Eq, ast.NotEq)) and parts[0] is right:
        return same is isinstance(test.ops[0], ast.Eq)
    if isinstance(test.ops[0], (ast.In, ast.NotIn)) and parts[0] is not right:
        return same is isinstance(test.ops[0], ast.In)
    return None
