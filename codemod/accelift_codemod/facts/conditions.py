"""Conditions, and what they are together: their contrary, both, one or the other, the weakest of several."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any


@dataclass(frozen=True, slots=True)
class Condition:
    """A boolean expression: a constant, an expression of the script, or a combination of conditions.

    `operator` is "constant", "atom", "not", "and" or "or".
    """

    operator: str
    value: bool = False
    key: str = ""  # equal for expressions of one object
    text: str = field(default="", compare=False)
    node: ast.expr | None = field(default=None, compare=False)
    parts: tuple[Condition, ...] = ()
    others: tuple[Condition, ...] = field(default=(), compare=False)  # written with other variables
    opposite: str = field(default="", compare=False)  # how its contrary is written
    setting: bool = field(default=False, compare=False)  # about an object that whoever gets it may change

    @property
    def constant(self) -> bool | None:
        return self.value if self.operator == "constant" else None

    def __str__(self) -> str:
        if self.operator == "constant":
            return str(self.value)
        if self.operator == "atom":
            return self.text
        if self.operator == "not":
            inner = self.parts[0]
            if inner.opposite:
                return inner.opposite
            return f"not {inner}" if inner.operator == "atom" and _simple(inner) else f"not ({inner})"
        return f" {self.operator} ".join(
            f"({p})" if p.operator in ("and", "or") and p.operator != self.operator else str(p) for p in self.parts
        )

    def seen(self, visible: Callable[[ast.expr], bool]) -> Condition:
        """The condition, written with variables that are visible, if there are any."""
        if self.node is not None:
            return next((c for c in (self, *self.others) if c.node is not None and visible(c.node)), self)
        return replace(self, parts=tuple(p.seen(visible) for p in self.parts))

    def atoms(self) -> list[ast.expr]:
        """The expressions of the script that it is made of."""
        return [leaf.node for leaf in self.leaves() if leaf.node is not None]

    def leaves(self) -> list[Condition]:
        """The questions that it is made of."""
        return [self] if self.node is not None else [leaf for p in self.parts for leaf in p.leaves()]


def _simple(condition: Condition) -> bool:
    return isinstance(condition.node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))


COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
TRUE = Condition("constant", True)
FALSE = Condition("constant", False)


def negate(condition: Condition) -> Condition:
    if condition.constant is not None:
        return FALSE if condition.constant else TRUE
    if condition.operator == "not":
        return condition.parts[0]
    return Condition("not", parts=(condition,))


def _combine(operator: str, parts: Iterable[Condition]) -> Condition:
    absorbing = operator == "or"
    kept: list[Condition] = []
    for part in parts:
        if part.constant is absorbing:
            return part
        if part.constant is None and part not in kept:
            kept.append(part)
    if not kept:
        return FALSE if absorbing else TRUE
    if not absorbing and any(_exclude(one, other) for one, other in combinations(kept, 2)):
        return FALSE
    return kept[0] if len(kept) == 1 else Condition(operator, parts=tuple(kept))


def _exclude(one: Condition, other: Condition) -> bool:
    """Whether two conditions say that the same is equal to different constants: `x == "cpu"` and `x == "cuda"`."""
    first, second = _equality(one), _equality(other)
    return first is not None and second is not None and first[0] == second[0] and first[1] != second[1]


def _equality(condition: Condition) -> tuple[str, object] | None:
    """What a condition compares with which constant."""
    if condition.operator == "atom" and " == " in condition.text:
        match ast.parse(f"({condition.text})", mode="eval").body:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=value)]):
                return ast.dump(left), value
    return None


def both(*parts: Condition) -> Condition:
    return _combine("and", parts)


def either(*parts: Condition) -> Condition:
    return _combine("or", parts)


def weakest(conditions: Iterable[Condition]) -> Condition | None:
    """Of comparisons of one expression with numbers, that which is true wherever any of them is: `gpus > 0`."""
    found = {condition: _compared(condition) for condition in conditions}
    tests = [test for test in found.values() if test is not None]
    if len(tests) < len(found) or len({left for left, _, _ in tests}) != 1:
        return None
    points = {number + step for _, _, number in tests for step in (-1, 0, 1)}
    wanted = {x for x in points for _, holds, number in tests if holds(x, number)}
    met = (c for c, test in found.items() if test is not None and all(test[1](x, test[2]) for x in wanted))
    return next(met, None)


def _compared(condition: Condition) -> tuple[str, Callable[[int, int], bool], int] | None:
    """What a condition compares with a number, and how; what is a test by itself, with 0."""
    match condition.node:
        case ast.Compare(left=left, ops=[how], comparators=[ast.Constant(value=int(number))]):
            holds = COMPARED.get(type(how))
            return (ast.dump(left), holds, number) if holds is not None else None
        case ast.Name() | ast.Attribute() | ast.Subscript() as number_itself:  # `if args.gpus:`
            return ast.dump(number_itself), operator.ne, 0
    return None


def choose(test: Condition, yes: Condition, no: Condition) -> Condition:
    """`yes if test else no`, as a condition."""
    if yes == no:
        return yes
    return either(both(test, yes), both(negate(test), no))


def asked(test: ast.expr) -> tuple[ast.expr, bool]:
    """What a test asks for, and whether for being true: `not x`, `x is False`, `x != True`."""
    wanted = True
    while True:
        match test:
            case ast.UnaryOp(op=ast.Not()):
                test, wanted = test.operand, not wanted
            case ast.Compare(ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=bool(value))]):
                test, wanted = test.left, wanted is value
            case ast.Compare(ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=bool(value))]):
                test, wanted = test.left, wanted is not value
            case _:
                return test, wanted
