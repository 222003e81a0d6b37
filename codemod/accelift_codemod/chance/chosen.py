"""Samples that are taken, or left out, by numbers drawn at random: `if random.random() < 0.1: rows.append(row)`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import pairwise

from accelift_codemod.chance import picked, seeds
from accelift_codemod.chance.constants import is_often
from accelift_codemod.draft import Draft
from accelift_codemod.facts.chance import SEEDS, drawn_from
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import leaves, walk
from accelift_codemod.following.onward import Read, is_within, reached

_FILLS = frozenset("append add extend insert".split())


def chosen(draft: Draft) -> Iterator[tuple[ast.Call, ast.AST, str]]:
    """Calls that draw without a seed which samples there are, each with what these are given to (or the attribute of a
    data set that keeps them), and how to say that there is no seed."""
    for call in draft.calls:
        home = drawn_from(draft.facts.resolver, call)
        known = seeds.seeded(draft, call, SEEDS[home]) if home else not seeds.unseeded(draft, call)
        if known or is_often(draft, call):
            continue
        kept = picked.arrival(draft, _decided(draft, call), draft.function(call), kept=True)
        if kept is not None:
            yield call, kept, seeds.without(draft, call, SEEDS[home] if home else ())


def _decided(draft: Draft, call: ast.Call) -> Iterator[ast.AST]:
    """The lists whose entries a number decides on that is drawn: reads of them, and comprehensions."""
    for read in reached(draft, [call], stop=_is_function):
        around = list(draft.facts.index.ancestors(read))
        for parent, outer in pairwise(around):
            if isinstance(parent, ast.comprehension) and any(is_within(draft, read, test) for test in parent.ifs):
                yield outer
        statement = draft.facts.index.statement(read)
        if isinstance(statement, (ast.If, ast.While)) and is_within(draft, read, statement.test):
            yield from _lists(draft, statement)


def _lists(draft: Draft, branch: ast.If | ast.While) -> Iterator[Read]:
    """The reads of lists that are filled under a condition, or in the rounds of a loop that it skips."""
    loops = draft.facts.index.enclosing_loops(branch)
    if isinstance(branch, ast.If) and leaves([*branch.body, *branch.orelse]) and loops:
        filled = _in_rounds(draft, loops[0])
    else:
        filled = _filled([*branch.body, *branch.orelse])
    for place in filled:
        if isinstance(place, ast.Attribute):
            yield place
        elif isinstance(place, ast.Name):
            yield from (n for n in draft.facts.loads_of(place) if n is not place)


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, FUNCTIONS)


@kept
def _in_rounds(_: Draft, loop: ast.AST) -> list[ast.expr]:
    return _filled(ast.iter_child_nodes(loop))


def _filled(nodes: Iterable[ast.AST]) -> list[ast.expr]:
    """What is given something more."""
    calls = (n.func for node in nodes for n in walk(node) if isinstance(n, ast.Call))
    return [func.value for func in calls if isinstance(func, ast.Attribute) and func.attr in _FILLS]
