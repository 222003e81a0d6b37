"""Scripts that start as many processes on each of several machines, and number them by hand.

``rank = node_rank * here + local`` and ``world_size = here * nodes``, where ``here`` is what ``mp.spawn`` was given for
``nprocs``, and ``local`` the number that it hands to the function. A launcher knows all four; the accelerator knows the
rank, the rank on the machine and the number of processes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from accelift_codemod.facts.index import Index
from accelift_codemod.facts.tree import walk

Ends = Callable[[ast.expr], "frozenset[ast.expr]"]
Key = tuple[str, object]


@dataclass(frozen=True)
class Machines:
    """The sums and products of one script, in its own words."""

    ranks: frozenset[ast.expr]
    worlds: frozenset[ast.expr]


def machines(
    index: Index, ends: Ends, option: Callable[[ast.expr], bool], started: ast.Call, group: ast.Call
) -> Machines | None:
    """What a script computes its ranks with; None unless the number on each machine is used for nothing else.

    Args:
        index: of the script.
        ends: the expressions that a value comes from, through variables, parameters and attributes; empty if one of
            them cannot be followed.
        option: whether an expression is an option of the command line that the script never sets.
        started: the rank that ``mp.spawn`` hands out, written ``mp.spawn(nprocs)``.
        group: the call that makes the process group.
    """

    def key(node: ast.expr) -> Key | None:
        found = ends(node)
        end = next(iter(found)) if len(found) == 1 else None
        if isinstance(end, ast.Constant):
            return ("constant", end.value)
        if isinstance(end, ast.Attribute) and option(end):
            return ("option", end.attr)
        return ("made", end) if end is not None else None

    def times(node: ast.expr) -> ast.expr | None:
        """What the number on each machine is multiplied with."""
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            return None
        sides = ((node.left, node.right), (node.right, node.left))
        return next((other for one, other in sides if key(one) == here), None)

    def ranked(node: ast.expr) -> bool:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            return False
        sides = ((node.left, node.right), (node.right, node.left))
        return any(times(one) is not None and ends(other) == {started} for one, other in sides)

    given = {k.arg: k.value for k in group.keywords}
    here = key(started.args[0])
    if here is None or "rank" not in given or "world_size" not in given:
        return None
    ranks, worlds = ends(given["rank"]), ends(given["world_size"])
    if not ranks or not worlds or not all(ranked(r) for r in ranks) or any(times(w) is None for w in worlds):
        return None
    formulas = ranks | worlds
    hidden = {n for f in formulas for n in walk(f)} | set(walk(started))
    told = {key(n) for f in formulas for n in _operands(f)} - {None, ("made", started)}
    call = index.parents.get(started)
    handed = set(call.args) if isinstance(call, ast.Call) else set()
    for node in index.parents:
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        if node not in hidden and node not in handed and key(node) in told:
            return None  # it goes on saying what nobody tells it any more
    return Machines(ranks, worlds)


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [*_operands(node.left), *_operands(node.right)]
    return [node]
