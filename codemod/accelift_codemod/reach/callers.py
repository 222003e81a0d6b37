"""Models that are handed to what no accelerator reaches: the callers take them out of the wrapper."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cached_property

from accelift_codemod.blueprint.rebinding import is_bare
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function, How
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.plan import Need

# What the wrapper and the model answer alike; and what they answer with themselves.
_ALIKE = frozenset({"parameters", "buffers", "zero_grad", "training"})
_THEMSELVES = frozenset({"train", "eval", "requires_grad_"})
Parameter = tuple[Function, str]


class Callers:
    """Finds the arguments to unwrap in place of what methods, and functions that others call, read in their parameters.

    `ema.update(model)` becomes `ema.update(accelerator.unwrap_model(model))` where the method only asks the model for
    what the wrapper hides. A method that trains it has to be handed the wrapper.
    """

    def __init__(self, draft: Draft, unwrapped: Collection[ast.AST]) -> None:
        self.draft = draft
        self.index = draft.facts.index
        self.resolver = draft.facts.resolver
        self.unwrapped = unwrapped

    def arguments(self, node: ast.AST) -> list[ast.expr] | None:
        """The arguments that a read of a model may be; None if it has to be unwrapped where it is read."""
        parameter = self._parameter(node)
        reached: dict[Parameter, None] = {}
        if parameter is None or not self._reach(parameter, reached):
            return None
        return list(dict.fromkeys(self._handed(reached)))

    def _parameter(self, node: ast.AST | None) -> Parameter | None:
        """The parameter that a node reads, of a function that no accelerator reaches."""
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        if len(bindings) != 1 or bindings[0].how is not How.PARAMETER or not isinstance(bindings[0].node, ast.arg):
            return None
        function = self.index.parents[self.index.parents[bindings[0].node]]
        return (function, bindings[0].name) if isinstance(function, FUNCTIONS) and self._is_apart(function) else None

    def _is_apart(self, function: Function) -> bool:
        """Whether a function is a method of objects that are not followed, one that other files call, too, or one that
        has no other use for the accelerator than to unwrap models."""
        if function.name in self.draft.facts.wanted:
            return self.index.scope(function).is_module
        of_class = isinstance(self.index.parents.get(function), ast.ClassDef)
        if of_class and self.resolver.instance(function) is None and not self.draft.facts.stands_alone(function):
            return True
        needed = self._owner(function) in self._users or self._is_given_devices(function) or self._finds(function)
        return not needed

    def _finds(self, function: Function) -> bool:
        """Whether a function finds the accelerator among its globals."""
        anchors = [group.anchor for group in self.draft.blueprint.groups]
        here = self.draft.facts.same_file
        return any(self.index.function(a) is None and here(a, function) for a in anchors if a is not None)

    @cached_property
    def _users(self) -> frozenset[ast.AST | None]:
        """The functions, and the classes with methods, that use the accelerator for something else."""
        nodes = (e.node for e in self.draft.edits if e.need is Need.STRONG and e.node not in self.unwrapped)
        return frozenset(self._owner(self.index.function(node)) for node in nodes if node is not None)

    def _owner(self, function: Function | None) -> ast.AST | None:
        """The class of a method, or else the function, that has the accelerator for it."""
        cls = self.index.parents.get(function) if function is not None else None
        return cls if isinstance(cls, ast.ClassDef) else function

    def _is_given_devices(self, function: Function) -> bool:
        """Whether a call hands a device to a function, which has the accelerator in its place."""
        given = (self.resolver.bind(call, function) or {} for call in self.resolver.sites(function))
        return any(self.draft.facts.devices.is_device(argument) for bound in given for argument in bound.values())

    def _reach(self, parameter: Parameter, reached: dict[Parameter, None]) -> bool:
        """Whether a parameter may hold the model itself at every call, with all others that this takes."""
        if parameter in reached:
            return True
        reached[parameter] = None
        function, name = parameter
        if not self._all_calls_are_known(function):
            return False
        given = [self.resolver.bind(call, function) for call in self.resolver.sites(function)]
        if None in given or any(isinstance(found.get(name), ast.IfExp) for found in given if found is not None):
            return False
        outer = [self._parameter(found.get(name)) for found in given if found is not None]
        if not any(outer) and not any(found is not None and self._is_wrapped(found.get(name)) for found in given):
            return True  # it never is a prepared one
        loads = self.draft.facts.loads(self.index.scopes[function], name)
        return all(self._reach(p, reached) for p in outer if p is not None) and all(
            self._is_the_same(load, reached) for load in loads
        )

    def _all_calls_are_known(self, function: Function) -> bool:
        """Whether no call runs a method with a model but those that are known, and nobody has it as a value."""
        if not isinstance(self.index.parents.get(function), ast.ClassDef):
            return not self.draft.facts.references(function)
        sites = set(self.resolver.sites(function))
        for read in self.index.attributes.get(function.name, ()):
            call = self.index.parents.get(read)
            if call in sites or self.draft.facts.of_another(read, function):
                continue
            if not isinstance(call, ast.Call) or call.func is not read:
                return False
            if any(self.draft.blueprint.prepared_models(a) for a in (*call.args, *(k.value for k in call.keywords))):
                return False
        return self.draft.facts.only_one(function)

    def _is_the_same(self, load: ast.Name, reached: dict[Parameter, None]) -> bool:
        """Whether code does with the model itself what it did with the wrapper, or would have unwrapped it."""
        parent = self.index.parents.get(load)
        if load in self.unwrapped:
            return True
        if isinstance(parent, ast.Attribute):
            called = self.index.parents.get(parent)
            unused = isinstance(called, ast.Call) and isinstance(self.index.parents.get(called), ast.Expr)
            return parent.attr in _ALIKE or (parent.attr in _THEMSELVES and unused)
        call = self.index.parents.get(parent) if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call):
            return False
        if call.func is load:
            return self.draft.gradients_off(call)
        callee = self.resolver.callee(call)
        if not isinstance(callee, FUNCTIONS) or not self._is_apart(callee):
            return False
        given = self.resolver.bind(call, callee) or {}
        names = [name for name, argument in given.items() if argument is load]
        return bool(names) and all(self._reach((callee, name), reached) for name in names)

    def _handed(self, reached: Collection[Parameter]) -> Iterator[ast.expr]:
        """What callers hand in that may be wrapped."""
        for function, name in reached:
            for call in self.resolver.sites(function):
                argument = (self.resolver.bind(call, function) or {}).get(name)
                if argument is None or self._parameter(argument) in reached:
                    continue
                if self._is_wrapped(argument) and not is_bare(self.resolver, argument):
                    yield argument

    def _is_wrapped(self, argument: ast.expr | None) -> bool:
        """Whether what a caller hands in may be a model that has been prepared."""
        models = self.draft.blueprint.prepared_models(argument) if argument is not None else ()
        return argument is not None and any(self.draft.blueprint.meets_prepared(argument, m) for m in models)
