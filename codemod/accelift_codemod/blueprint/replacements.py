"""Objects that take the place of others once training has begun, and are prepared where they are made."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import takewhile

from accelift_codemod.blueprint import Group, Item
from accelift_codemod.facts import Facts, Role, position
from accelift_codemod.facts.certainty import Certainty
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.values import key
from accelift_codemod.reasons import Refused


def takes_over(facts: Facts, item: Item) -> bool:
    """Whether an object is an optimizer or a loader that is made in one statement, for a variable which had another one
    before, that the script has used until then."""
    made = item.value.sites[0] if item.value.sites else item.value.origin
    statement = item.statements[0]
    plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.value is made
    whole = len(item.statements) == 1 and not item.scope.is_class and item.places == (item.name,)
    if item.kind not in (Role.OPTIMIZER, Role.LOADER) or not plain or not whole:
        return False
    places = (position(facts.index.statement(binding.node)) for binding in item.scope.bindings[item.name])
    return min(places) < position(statement)


def group(facts: Facts, item: Item, groups: Sequence[Group], uses: Sequence[ast.AST], problem: Refused) -> Group:
    """The place of such an object: after it is made, if the networks that it updates are prepared by then.

    Raises:
        Refused: `problem`, if they need not be.
    """
    if item.kind is Role.OPTIMIZER and not _of_prepared(facts, item, groups):
        raise problem
    return Group(item.scope, _last(facts, item, uses), (item,))


def _last(facts: Facts, item: Item, uses: Sequence[ast.AST]) -> ast.stmt:
    """The last statement, of those beside the one that makes an object, that has to do with it before it is used."""
    used = {outer for use in uses for outer in facts.index.chain(use)}
    block, place = facts.index.block(item.statements[0])
    last = block[place]
    for statement in takewhile(lambda one: one not in used, block[place + 1 :]):
        touched = any(name.id == item.name for name in loads(statement)) and item.kind is not Role.LOADER
        if touched and not isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Return)):
            last = statement
    return last


def _of_prepared(facts: Facts, item: Item, groups: Sequence[Group]) -> bool:
    """Whether the networks that an optimizer updates have surely been prepared when it is made."""
    optimizer = next((o for o in facts.objects.optimizers if key(o.value) == key(item.value)), None)
    models = {key(model) for model in optimizer.models} if optimizer is not None else set()
    certainty = Certainty(facts.resolver)
    anchors = {key(i.value): g.anchor for g in groups for i in g.items if not g.before}
    known = [anchors[one] for one in models if one in anchors]
    return (
        bool(models)
        and len(known) == len(models)
        and all(isinstance(a, ast.stmt) and certainty.passed({a}, item.statements[0]) for a in known)
    )
