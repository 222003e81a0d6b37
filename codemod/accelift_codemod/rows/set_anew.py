"""Networks that are made for batches of one size, and are told how many rows there are before each batch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Function, Value
from accelift_codemod.facts.effects import flatten
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import key
from accelift_codemod.networks.methods import is_self


def all_of(draft: Draft, network: Value, cls: ast.ClassDef, parameter: str) -> bool:
    """Whether all that a network's constructor makes of a parameter is set anew by every loop over shares of batches,
    in each iteration, before the network runs: `model.batch_size = len(x)`, `model.hidden = model.init_hidden()`."""
    constructor = draft.facts.resolver.constructor(cls)
    made = _made_of(draft, cls, constructor, parameter) if constructor is not None else None
    loops = [loop for loop in draft.blueprint.loops.values() if draft.blueprint.shares_batches(loop)]
    loops = [loop for loop in loops if _reads(draft, network, loop.body)]
    return bool(made) and bool(loops) and all(_sets(draft, network, cls, made or set(), loop) for loop in loops)


def _made_of(draft: Draft, cls: ast.ClassDef, constructor: Function, parameter: str) -> set[str] | None:
    """The attributes that a constructor makes of a parameter; None if anything else has it, too."""
    found: set[str] = set()
    for statement in constructor.body:
        if not _uses(draft, cls, statement, parameter, found):
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(target, ast.Attribute) or not is_self(target.value):
            return None
        found.add(target.attr)
    return found


def _uses(draft: Draft, cls: ast.ClassDef, node: ast.AST, parameter: str, attributes: set[str]) -> bool:
    """Whether code reads a parameter, or attributes that are made of it, in methods that it calls, too."""
    seen: set[ast.AST] = set()
    queue = [node]
    while queue:
        here = queue.pop()
        if here in seen:
            continue
        seen.add(here)
        names = {parameter} if here is node else set()
        if any(_is_read(part, names, attributes) for part in walk(here)):
            return True
        queue += _methods(draft, cls, here)
    return False


def _is_read(part: ast.AST, names: set[str], attributes: set[str]) -> bool:
    """Whether a node reads one of some variables, or of some attributes of `self`."""
    if isinstance(part, ast.Name):
        return part.id in names and isinstance(part.ctx, ast.Load)
    if not isinstance(part, ast.Attribute) or not is_self(part.value):
        return False
    return part.attr in attributes and isinstance(part.ctx, ast.Load)


def _methods(draft: Draft, cls: ast.ClassDef, node: ast.AST) -> Iterator[ast.AST]:
    """The methods of `self` that code names."""
    for part in walk(node):
        if isinstance(part, ast.Attribute) and is_self(part.value):
            method = draft.facts.resolver.method(cls, part.attr)
            yield from [method] if method is not None else []


def _reads(draft: Draft, network: Value, nodes: Iterable[ast.AST]) -> list[ast.expr]:
    """The expressions in some nodes that are the network."""
    names = (n for node in nodes for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute)))
    return [n for n in names if any(key(v) == key(network) for v in draft.facts.resolver.values(n))]


def _sets(draft: Draft, network: Value, cls: ast.ClassDef, made: set[str], loop: BatchLoop) -> bool:
    """Whether each iteration sets attributes of a network, one by others that are set already, before it hands the
    network anything, or hands it on."""
    old = set(made)
    parents = draft.facts.index.parents
    for statement in flatten(list(loop.body)):
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if isinstance(target, ast.Attribute) and _reads(draft, network, [target.value]):
            if not _asks(draft, cls, statement.value, old):  # type: ignore[attr-defined]
                old.discard(target.attr)
        elif any(not isinstance(parents[read], ast.Attribute) for read in _reads(draft, network, [statement])):
            break
    return not old


def _asks(draft: Draft, cls: ast.ClassDef, value: ast.expr, attributes: set[str]) -> bool:
    """Whether an expression goes by attributes of an object, itself or by its methods."""
    for part in (n for n in walk(value) if isinstance(n, ast.Attribute)):
        method = draft.facts.resolver.method(cls, part.attr)
        if part.attr in attributes or (method is not None and _uses(draft, cls, method, "", attributes)):
            return True
    return False
