"""Where networks that train themselves are prepared: in the method that does, in a variable of its own."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from accelift_codemod.blueprint import Blueprint, Group, Item, naming
from accelift_codemod.facts import Binding, Facts, Function, How, Role, Scope, Value, position
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.reasons import refuse


def variable(resolver: Resolver, value: Value) -> tuple[Scope, str] | None:
    """The parameter by which a network is called in the method that trains it: `self`."""
    cls = value.declaration
    method = resolver.self_trained.get(cls) if isinstance(cls, ast.ClassDef) else None
    if method is None or value.origin is not method:
        return None
    return resolver.index.scopes[method], (*method.args.posonlyargs, *method.args.args)[0].arg


def of_binding(resolver: Resolver, binding: Binding) -> tuple[Scope, str] | None:
    """The same, if a binding is such a parameter, of any method of the network."""
    if binding.how is not How.PARAMETER:
        return None
    found = (variable(resolver, value) for value in resolver.bound(binding))
    return next((one for one in found if one is not None), None)


def item(facts: Facts, value: Value) -> Item | None:
    """What is handed to prepare of a network that trains itself."""
    found = variable(facts.resolver, value)
    if found is None or not isinstance(found[0].node, FUNCTIONS):
        return None
    (scope, name), method = found, found[0].node
    return Item(value, Role.MODEL, scope, name, (method.body[0],), (name,), naming.network(facts, method))


class Networks:
    """Such networks among the objects to prepare, and the optimizers that they keep, which are prepared with them."""

    def __init__(self, blueprint: Blueprint, items: list[Item]) -> None:
        self.index = blueprint.facts.index
        self.timeline = blueprint.timeline
        trained = blueprint.facts.resolver.self_trained
        self.kept = [i for i in items if i.kind is Role.OPTIMIZER and i.scope.node in trained]
        self.items = [self._after(i) if i.target else i for i in items if i not in self.kept]

    def at_the_start(self, uses_in: Callable[[Function], list[ast.AST]]) -> list[Item]:
        """Those whose method begins with the loop that trains them."""
        own = [i for i in self.items if i.target and len(i.statements) == 1]
        chains = {i: [self.index.chain(u) for u in uses_in(i.scope.node)] for i in own}  # type: ignore[arg-type]
        return [i for i in own if any(i.statements[0] in chain for chain in chains[i])]

    def with_kept(self, groups: list[Group]) -> list[Group]:
        """Groups with the optimizers that their networks keep."""
        return [replace(g, items=(*g.items, *(o for i in g.items for o in self._optimizers(i)))) for g in groups]

    def _optimizers(self, network: Item) -> list[Item]:
        return [o for o in self.kept if network.target and o.scope.node is network.value.declaration]

    def _after(self, network: Item) -> Item:
        """A network that is prepared after its method has made the optimizers that it keeps."""
        home: Function = network.scope.node  # type: ignore[assignment]
        made = [p for o in self._optimizers(network) for s in o.statements for p in self.timeline.places(s, home)]
        again = next((place for place in made if self.index.enclosing_loops(place)), None)
        if again is not None:
            raise refuse(
                "PREP-NO-POINT",
                position(again)[0],
                "the optimizer that the network keeps is made here, again and again while the network trains itself",
                "make it once, before the loop, and change its learning rate",
            )
        return replace(
            network, statements=tuple(dict.fromkeys((*network.statements, *map(self.index.statement, made))))
        )
