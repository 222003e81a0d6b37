"""Processes that a script starts itself: trees in which `mp.spawn(f, args=(a,), nprocs=n)` is the call `f(rank, a)`.

What `torch.multiprocessing.spawn` runs in every process, a converted script runs once: a launcher starts the processes.
So the call is put in a copy of the tree, and all that is known of calls holds for it: where the arguments go, what runs
when. The rank is written `mp.spawn(n)` there.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from accelift_codemod.facts.copying import Copier, around
from accelift_codemod.facts.index import FUNCTIONS, How, Index
from accelift_codemod.facts.names import Names
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import is_constant, walk

SPAWN = "torch.multiprocessing.spawn"
_TAKEN = frozenset({"fn", "args", "nprocs", "join", "daemon", "start_method"})
# What a script may do before it starts its processes, for it leaves nothing in the memory that they do not share.
_LIBRARIES = ("argparse.", "datetime.", "logging.", "os.", "sys.", "time.", "warnings.", "torch.cuda.device_count")
_STARTING = frozenset({"torch.multiprocessing.set_start_method", "torch.accelerator.device_count"})
_METHODS = frozenset(
    "add_argument add_argument_group add_mutually_exclusive_group parse_args parse_known_args set_defaults "
    "split strip join format lower upper startswith endswith replace get".split()
)
_ACTIVE = frozenset({"exec", "eval", "input", "open", "setattr", "globals", "__import__", "next", "iter", "vars"})


@dataclass(frozen=True)
class Spawned:
    """The tree to draw facts from."""

    tree: ast.Module
    ranks: frozenset[ast.Call] = frozenset()  # the first arguments that stand for the rank: `mp.spawn(n)`
    originals: Mapping[ast.AST, ast.AST] = field(default_factory=dict)  # empty: the tree is the original


def find(index: Index) -> Spawned:
    """The tree of a script with calls in the place of spawned processes, where they can be."""
    names = Names(index)
    calls = {c for c in index.methods.get("spawn", []) if names.qualified(c.func) == SPAWN and _direct(index, names, c)}
    if not calls:
        return Spawned(index.tree)
    copier = _Copier(calls, around(index, calls))
    tree = copier.copy(index.tree)
    return Spawned(tree, frozenset(copier.ranks), copier.originals)


class _Copier(Copier):
    """Copies a tree with calls in the place of spawned processes."""

    def __init__(self, spawns: set[ast.Call], changing: set[ast.AST]) -> None:
        super().__init__({ast.Call: self._called}, changing)
        self.spawns = spawns
        self.ranks: set[ast.Call] = set()

    def _called(self, node: ast.Call) -> ast.Call | None:
        if node not in self.spawns:
            return None
        target, processes, given = argument(node, 0, "fn"), _nprocs(node), argument(node, 1, "args")
        assert target is not None
        assert processes is not None
        rank = self.noted(ast.Call(node.func, [processes], []), node.func)
        self.ranks.add(rank)
        return ast.Call(target, [rank, *(given.elts if isinstance(given, ast.Tuple) else ())], [])


def _nprocs(call: ast.Call) -> ast.expr | None:
    return argument(call, 2, "nprocs")


def _direct(index: Index, names: Names, call: ast.Call) -> bool:
    """Whether a call of spawn may be written as a call of what it starts."""
    given = argument(call, 1, "args")
    join = argument(call, 3, "join")
    target = argument(call, 0, "fn")
    if not isinstance(index.parents.get(call), ast.Expr) or index.enclosing_loops(call) or _nprocs(call) is None:
        return False
    if any(k.arg not in _TAKEN for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    if join is not None and not is_constant(join, True):
        return False
    if given is not None and (not isinstance(given, ast.Tuple) or any(isinstance(e, ast.Starred) for e in given.elts)):
        return False
    if not isinstance(target, ast.Name):
        return False
    found = index.module.bindings.get(target.id, [])
    return len(found) == 1 and found[0].how is How.FUNCTION and names.bindings(target) == found


def seen_before(index: Index, names: Names, spawn: ast.AST) -> ast.AST | None:
    """Something that a script does before it starts its processes, in what they do not run, and that they may not see.

    They import the script again, without what stands under `if __name__ == "__main__":`.
    """
    node = spawn
    while True:
        function = index.function(node)
        if function is None:
            top = index.chain(node)[0]
            guarded = isinstance(top, ast.If) and any(
                isinstance(n, ast.Name) and n.id == "__name__" for n in walk(top.test)
            )
            if not guarded:
                return top
            return _heard(index, names, top, node, set())
        found = _heard(index, names, function, node, {function})
        sites = [c for c in index.calls if isinstance(c.func, ast.Name) and _runs(names, c) is function]
        if found is not None or len(sites) != 1 or index.enclosing_loops(node):
            return found or node
        node = sites[0]


def _heard(index: Index, names: Names, block: ast.AST, until: ast.AST, seen: set[ast.AST]) -> ast.AST | None:
    """The first node of a block that may leave something in memory, before a node of it."""
    end = (until.lineno, until.col_offset) if until is not block else (1 << 30, 0)  # type: ignore[attr-defined]
    for part in walk(block):
        if (getattr(part, "lineno", 0), getattr(part, "col_offset", 0)) >= end or index.function(part) not in (
            block,
            index.function(until),
        ):
            continue
        if isinstance(part, ast.Global):
            return part
        if isinstance(part, ast.Call):
            function = _runs(names, part)
            if function is not None and function not in seen:
                if _heard(index, names, function, function, seen | {function}) is not None:
                    return part
            elif function is None and not _harmless(names, part):
                return part
    return None


def _runs(names: Names, call: ast.Call) -> ast.AST | None:
    """The function of the script that a call runs."""
    found = names.bindings(call.func) if isinstance(call.func, ast.Name) else []
    return found[0].node if len(found) == 1 and isinstance(found[0].node, FUNCTIONS) else None


def _harmless(names: Names, call: ast.Call) -> bool:
    """Whether a library function or method leaves nothing in memory but what it returns."""
    builtin = names.builtin(call.func)
    if builtin is not None:
        return builtin not in _ACTIVE
    qualified = names.qualified(call.func)
    if qualified is not None:
        return qualified.startswith(_LIBRARIES) or qualified in _STARTING
    return isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS
