"""Modules that inserted code uses: whether a place in the script knows them by their name, and what it takes."""

from __future__ import annotations

import ast
from enum import Enum

from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import MARK, Binding, How, position


class Known(Enum):
    """How code at a place can use a module by its name."""

    HERE = "it is imported"
    TOP = "an import at the top of the file makes it known"
    LATER = "it is imported after that: the import has to come before"
    NEVER = "the name means something else"


def known(draft: Draft, node: ast.AST, module: str) -> Known:
    """How code in the place of a node can use a module.

    A function that imports the module itself knows nothing of an import at the top of the file, even before its own.
    """
    index = draft.facts.index
    scope = index.scope(node)
    owner = scope.owner(module)
    if owner is None or owner.is_module:
        return _known_globally(draft, node, module)
    bindings = owner.bindings[module]
    if not _all_import(bindings, module):
        return Known.NEVER
    if any(precedes(draft, b.node, node) for b in bindings):
        return Known.HERE
    return Known.LATER if owner.node is index.function(node) else Known.NEVER


def _known_globally(draft: Draft, node: ast.AST, module: str) -> Known:
    """The same where the name is that of a global of the file in which a node stands."""
    index = draft.facts.index
    found = [
        binding
        for name, bindings in index.module.bindings.items()
        if name.rpartition(MARK)[2] == module
        for binding in bindings
        if draft.facts.same_file(binding.node, node)
    ]
    if not _all_import(found, module):
        return Known.NEVER
    top = [b for b in found if index.function(b.node) is None]
    if not top:
        return Known.TOP
    early = index.function(node) is not None or any(position(b.node) < position(node) for b in top)
    return Known.HERE if early else Known.LATER


def _all_import(bindings: list[Binding], module: str) -> bool:
    return all(b.how is How.IMPORT and b.qualified == module for b in bindings)


def precedes(draft: Draft, first: ast.AST, node: ast.AST) -> bool:
    """Whether the statement of one node has always run where another node is evaluated."""
    block, place = draft.facts.index.block(draft.facts.index.statement(first))
    around = [node, *draft.facts.index.ancestors(node)]
    places = (draft.facts.index.block(s) for s in around if isinstance(s, ast.stmt))
    return any(other is block and at > place for other, at in places)
