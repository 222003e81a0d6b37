"""Which functions are given the accelerator, and in which parameter."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelift_codemod.facts import Function
from accelift_codemod.reasons import refuse

if TYPE_CHECKING:
    from accelift_codemod.reach import Reach


@dataclass(frozen=True)
class Passage:
    """How one function gets the accelerator: in place of its device parameter, or by one more parameter."""

    function: Function
    parameter: str  # the device parameter it takes the place of; empty for a new one
    place: int  # where a new one is inserted


class Passages:
    """Decides which functions receive the accelerator, once it is known where it is made."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.facts = reach.facts
        self.index = reach.index
        self.resolver = reach.resolver

    def receivers(self) -> dict[Function, Passage]:
        """The functions that get the accelerator as a parameter."""
        wanted: list[Function] = []
        for edit in self.reach.strong:
            function = self.index.function(edit.node)  # type: ignore[arg-type]
            if function is not None and not self.reach.is_home(function) and function not in wanted:
                wanted.append(function)
        for edit in (
            *self.reach.strong,
            *self.reach.weak,
        ):  # a device parameter becomes the accelerator wherever it is used
            function = self.index.function(edit.node)  # type: ignore[arg-type]
            if function is not None and function not in wanted and function is not self.reach.home:
                if self._device_parameter(function) is not None and self._passable(function) is None:
                    wanted.append(function)
        found: dict[Function, Passage] = {}
        while wanted:
            function = self._receiver(wanted.pop())
            if function in found:
                continue
            problem = self._passable(function)
            if problem is not None:
                raise refuse("ACC-REACH", function.lineno, problem, "pass what it needs as plain arguments")
            found[function] = self._passage(function)
            for twin in self._run_by_others(function):
                found[twin] = self._passage(twin)
                wanted += filter(None, map(self.index.function, self.resolver.sites(twin)))
            for call in self.resolver.sites(function):
                caller = self.index.function(call)
                if caller is None and (self.reach.home is not None or self.reach.apart(call)):
                    raise refuse(
                        "ACC-REACH",
                        call.lineno,
                        f"{function.name}() needs the accelerator, but is called where it does not exist",
                        "call it from the function that makes the model",
                    )
                if caller is not None and not self.reach.is_home(caller):
                    wanted.append(caller)
        return found

    def _receiver(self, function: Function) -> Function:
        """The function that is given the accelerator for another: methods find it in their object, closures outside."""
        outer = self.index.function(function)
        if outer is not None and self.facts.references(function):
            return self._receiver(outer)
        cls = self.reach.keeper(function)
        constructor = self.resolver.constructor(cls) if cls is not None else None
        if cls is not None and constructor is None:
            raise refuse(
                "ACC-REACH",
                function.lineno,
                f"the method {function.name}() needs the accelerator, and {cls.name} has no constructor to keep one",
                "give it an __init__",
            )
        return constructor or function

    def _passable(self, function: Function) -> str | None:
        """Why a function cannot be given one more argument at every call; None if it can."""
        name = function.name
        if self._is_method(function):
            return f"the method {name}() needs the accelerator, and belongs to no object that is followed"
        if name in self.facts.wanted:
            return f"{name}() needs the accelerator, and other files call it as it is"
        if self.facts.references(function):
            return f"{name}() needs the accelerator, but is also handed on as a value"
        if function.args.posonlyargs:
            return f"{name}() needs the accelerator, but has positional-only parameters"
        sites = self.resolver.sites(function)
        if not sites and self.facts.runs(function.body[0]):
            return f"{name}() needs the accelerator, but where it is called cannot be told"
        for call in sites:
            if self.resolver.bind(call, function) is None:
                return f"{name}() needs the accelerator, but is called with * or ** arguments"
        return None

    def _is_method(self, function: Function) -> bool:
        """Whether a function is a method that nobody can be told to call in another way."""
        if not isinstance(self.index.parents.get(function), ast.ClassDef):
            return False
        if self.resolver.instance(function) in self.resolver.self_trained:
            return False  # all its calls are known
        return not self.reach.is_constructor(function) and not self.facts.stands_alone(function)

    def _run_by_others(self, function: Function) -> list[Function]:
        """The twins of a constructor that the constructors of other classes run: `super().__init__()`. They get the
        accelerator, too, as what is written is one."""
        if not self.facts.is_twin(function) or not self.reach.is_constructor(function):
            return []
        written = self.facts.original(function)
        twins = (f for f in self.index.functions if f is not function and self.facts.original(f) is written)
        return [f for f in twins if not self.reach.is_constructor(f) and self.reach.keeper(f) and self._is_run(f)]

    def _is_run(self, twin: Function) -> bool:
        """Whether calls run an inherited constructor with as many arguments as are written."""
        sites = self.resolver.sites(twin)
        written = [self.facts.original(call) for call in sites]
        alike = (len(w.args) == len(c.args) for w, c in zip(written, sites, strict=True) if isinstance(w, ast.Call))
        return bool(sites) and all(alike) and all(self.resolver.bind(c, twin) is not None for c in sites)

    def _has_twins(self, function: Function) -> bool:
        """Whether a function is a method of a class that inherits what others do, too: all get at the accelerator in
        one way."""
        cls = self.index.enclosing_class(function)
        return cls is not None and any(map(self.facts.is_twin, cls.body))

    def _passage(self, function: Function) -> Passage:
        parameter = self._device_parameter(function)
        positional = function.args.args
        return Passage(function, parameter or "", len(positional) - len(function.args.defaults))

    def _device_parameter(self, function: Function) -> str | None:
        """The parameter through which a function is given the device at every call."""
        if self._is_method(function) or self._has_twins(function):
            return None
        scope = self.index.scopes[function]
        for parameter in (*function.args.args, *function.args.kwonlyargs):
            if len(scope.bindings.get(parameter.arg, [])) != 1:
                continue
            arguments: list[ast.expr | None] = []
            for call in self.resolver.sites(function):
                given = self.resolver.bind(call, function)
                arguments.append((given or {}).get(parameter.arg))
            if arguments and all(a is not None and self._is_own_device(a) for a in arguments):
                spread = any(isinstance(self.index.parents[a], ast.Dict) for a in arguments if a is not None)
                return None if spread else parameter.arg  # it keeps its name, which the dict says
        return None

    def _is_own_device(self, node: ast.expr) -> bool:
        """Whether an argument is the script's device variable (not another device spelled out, or kept besides)."""
        if not isinstance(node, (ast.Name, ast.Attribute)) or not self.facts.devices.is_device(node):
            return False
        return not self.facts.devices.may_be_elsewhere(node)
