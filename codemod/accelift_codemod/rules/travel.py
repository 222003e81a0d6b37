"""The accelerator travels to where it is used, the way the device did."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.devices import documented
from accelift_codemod.devices import texts as device_texts
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function
from accelift_codemod.facts.device_variables import DeviceVariable
from accelift_codemod.facts.tree import is_remark
from accelift_codemod.plan import TYPED, Edit, Finding, Operation
from accelift_codemod.reach.passages import Passage
from accelift_codemod.rules import Rule

_RULE = "TRAVEL"


class Travel(Rule):
    """Passes the accelerator to functions that need it and do not see the variable.

    A parameter that is given the device at every call becomes the accelerator, at every call; what is left of the
    device in the function becomes `accelerator.device`. A function without such a parameter gets one more, before its
    parameters with defaults. It has a type (`accelerator: Accelerator`) where all others have. Calls are bound by the
    function's real signature, by position or keyword.
    """

    code = _RULE
    name = "the accelerator as a parameter"
    required = True
    always = True
    closing = 1
    before = """\
def train(model, device, loader):
    ...
train(model, device, loader)
"""
    after = """\
def train(model, accelerator, loader):
    ...
train(model, accelerator, loader)
"""

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for passage in draft.reach.receivers.values():
            if passage.parameter:
                yield from self._rename(draft, passage)
            else:
                yield from self._add(draft, passage)
            if draft.reach.is_constructor(passage.function) or draft.facts.is_twin(passage.function):
                yield from self._keep(draft, passage.function)

    def _keep(self, draft: Draft, constructor: Function) -> Iterator[Edit]:
        """The constructor keeps the accelerator for the other methods."""
        name, (first, *rest) = draft.blueprint.accelerator, constructor.body
        if is_remark(first) and rest:
            first = rest[0]  # not before the docstring
        run = (
            draft.facts.resolver.callee(first.value)
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Call)
            else None
        )
        if run in draft.reach.receivers:
            return  # the constructor of a base does
        cls = draft.facts.resolver.instance(constructor)
        assert cls is not None
        yield draft.edit(
            _RULE,
            first,
            Operation.AFTER if _runs_a_library(draft, cls, first) else Operation.BEFORE,
            "the methods find the accelerator in their object",
            f"{draft.facts.resolver.followed[cls]}.{name} = {name}",
        )

    def _rename(self, draft: Draft, passage: Passage) -> Iterator[Edit]:
        function, name = passage.function, passage.parameter
        accelerator = draft.blueprint.accelerator
        reason = f"{function.name}() needs the accelerator, which has the device"
        parameter = next(p for p in (*function.args.args, *function.args.kwonlyargs) if p.arg == name)
        code = _parameter(draft, function, parameter)
        yield draft.edit(_RULE, parameter, Operation.PARAMETER, reason, code)
        for docstring, code in documented.entries(draft, function, name, accelerator):
            yield draft.edit(_RULE, docstring, Operation.SWAP, reason, code)
        handed: set[ast.AST] = set()
        for call in draft.facts.resolver.sites(function):
            given = draft.facts.resolver.bind(call, function) or {}
            argument = given[name]
            handed.add(argument)
            keyword = next((k for k in call.keywords if k.value is argument), None)
            if keyword is not None:
                code = f"{accelerator}={{accelerator}}"
                yield draft.edit(_RULE, keyword, Operation.KEYWORD, reason, code)
            else:
                yield draft.edit(_RULE, argument, Operation.BECOME, reason, "{accelerator}")
        handed |= self._handed_on(draft, function, name)
        named = self._is_string(draft, function, name)
        for load in draft.facts.loads(draft.facts.index.scopes[function], name):
            if load not in handed and not draft.gone(load):
                state = "{accelerator}"
                code = device_texts.of_read(draft, load, state) if named else f"{state}.device"
                yield draft.edit(_RULE, load, Operation.BECOME, "the parameter is the accelerator now", code)

    def _handed_on(self, draft: Draft, function: ast.AST, name: str) -> set[ast.AST]:
        """Reads of the parameter that hand it on to another function that gets the accelerator in its place."""
        found: set[ast.AST] = set()
        for other in draft.reach.receivers.values():
            if other.parameter:
                for call in draft.facts.resolver.sites(other.function):
                    given = (draft.facts.resolver.bind(call, other.function) or {}).get(other.parameter)
                    if isinstance(given, ast.Name) and given.id == name and draft.function(call) is function:
                        found.add(given)
        return found

    def _is_string(self, draft: Draft, function: ast.AST, name: str, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether the parameter is given a device's name rather than a torch.device."""
        strings: list[DeviceVariable] = [v for v in draft.facts.devices.variables if v.is_string]
        for call in draft.facts.resolver.sites(function):
            given = (draft.facts.resolver.bind(call, function) or {}).get(name)  # type: ignore[arg-type]
            if isinstance(given, ast.Attribute):
                if any(v.scope is None and v.text == draft.facts.segment(given) for v in strings):
                    return True
            elif isinstance(given, ast.Name):
                owner = draft.facts.index.scope(given).owner(given.id)
                if any(v.scope is owner and v.name == given.id for v in strings):
                    return True
                outer = draft.function(given)
                if outer is None or outer in seen or owner is not draft.facts.index.scopes.get(outer):
                    continue
                if self._is_string(draft, outer, given.id, seen | {function}):
                    return True
        return False

    def _add(self, draft: Draft, passage: Passage) -> Iterator[Edit]:
        function = passage.function
        accelerator = draft.blueprint.accelerator
        reason = f"{function.name.partition('@')[0]}() needs the accelerator"
        code = _parameter(draft, function)
        yield draft.edit(_RULE, function, Operation.ADD_PARAMETER, reason, code, place=passage.place)
        place = passage.place - 1 if draft.facts.resolver.is_method(function) else passage.place
        for call in draft.facts.resolver.sites(function):
            by_position = len(call.args) >= place
            code = "{accelerator}" if by_position else f"{accelerator}={{accelerator}}"
            yield draft.edit(
                _RULE,
                call,
                Operation.ADD_ARGUMENT,
                reason,
                code,
                place=place if by_position else None,
            )


def _runs_a_library(draft: Draft, cls: ast.AST, statement: ast.stmt) -> bool:
    """Whether a statement is `super().__init__()` of a class whose bases are Python's and torch's: they run none of its
    methods, which would find no accelerator yet."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Call(func=base), attr="__init__"))):
            resolver, bases = draft.facts.resolver, getattr(cls, "bases", [])
            known = (
                resolver.builtin(b) == "object" or (resolver.qualified(b) or "").startswith("torch.") for b in bases
            )
            return resolver.builtin(base) == "super" and all(known)
    return False


def _parameter(draft: Draft, function: Function, replaced: ast.arg | None = None) -> str:
    """The accelerator as a parameter: with its type, where what it takes the place of has one, or every other one.

    All calls give it, so it has no default but behind parameters that have one.
    """
    name = draft.blueprint.accelerator
    if replaced is not None and _is_behind_defaults(function, replaced):
        return f"{name}=None"
    own = function.args.args[1:] if draft.facts.resolver.is_method(function) else function.args.args
    parameters = [*own, *function.args.kwonlyargs]
    others = [p for p in parameters if p is not replaced] or parameters
    told = bool(others) and all(p.annotation is not None for p in others)
    told = told or (replaced is not None and replaced.annotation is not None)
    return f"{name}{TYPED}" if told and "Accelerator" not in draft.facts.bound else name


def _is_behind_defaults(function: Function, parameter: ast.arg) -> bool:
    """Whether a parameter has to have a default, as one before it has."""
    positional = function.args.args
    return parameter in positional and positional.index(parameter) > len(positional) - len(function.args.defaults)
