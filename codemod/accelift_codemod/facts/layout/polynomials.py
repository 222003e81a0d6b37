"""Numbers as sums of products of what they are computed from, so that it shows which expressions come to the same."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple, TypeAlias

from accelift_codemod.facts.tree import walk


class Factor(NamedTuple):
    """An expression that is no sum or product, with the variables in it."""

    text: str
    names: frozenset[str]


# By the factors of a product: how often it is added.
Polynomial: TypeAlias = Mapping[tuple[Factor, ...], int]
_MOST_TERMS = 16
_MOST_STEPS = 32


def number(value: int) -> Polynomial:
    """A number that is written there."""
    return {(): value} if value else {}


def of(node: ast.expr, means: Callable[[ast.expr], ast.expr | None], steps: int = 0) -> Polynomial | None:
    """What an expression comes to; `means` says what stands for a variable, None if it stands for itself.

    None if that has too many parts.
    """
    other = means(node)
    if other is not None:
        return of(other, means, steps + 1) if steps < _MOST_STEPS else None
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return number(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        left, right = of(node.left, means, steps + 1), of(node.right, means, steps + 1)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Mult):
            return times(left, right)
        return plus(left, right, -1 if isinstance(node.op, ast.Sub) else 1)
    return {(Factor(ast.unparse(node), frozenset(n.id for n in walk(node) if isinstance(n, ast.Name))),): 1}


def plus(left: Polynomial, right: Polynomial, factor: int = 1) -> Polynomial:
    """A sum, of the second number so many times."""
    found = dict(left)
    for term, count in right.items():
        found[term] = found.get(term, 0) + factor * count
    return {term: count for term, count in found.items() if count}


def times(left: Polynomial, right: Polynomial) -> Polynomial | None:
    """A product; None if that has too many parts."""
    found: Polynomial = {}
    for (a, m), (b, n) in product(left.items(), right.items()):
        found = plus(found, {tuple(sorted((*a, *b))): m * n})
    return found if len(found) <= _MOST_TERMS else None


def growth(value: Polynomial, name: str, step: Polynomial) -> Polynomial | None:
    """How much a number grows where a variable in it grows by so much; None if that depends on the variable."""
    found: Polynomial = {}
    for term, count in value.items():
        others = tuple(factor for factor in term if factor.text != name)
        if len(term) - len(others) > 1 or any(name in factor.names for factor in others):
            return None
        grown = times({others: count}, step) if len(others) < len(term) else {}
        if grown is None:
            return None
        found = plus(found, grown)
    return found


def names(value: Polynomial) -> set[str]:
    """The variables in a number."""
    return {name for term in value for factor in term for name in factor.names}


def text(value: Polynomial) -> str:
    """The code that computes a number."""
    terms = (
        " * ".join([*([str(n)] if n != 1 or not term else []), *(f.text for f in term)])
        for term, n in sorted(value.items())
    )
    return " + ".join(terms)
