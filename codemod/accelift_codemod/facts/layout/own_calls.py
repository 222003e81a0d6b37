"""What calls of networks, losses, and the script's own functions and classes give, on layouts."""

from __future__ import annotations

import ast
from functools import reduce
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import FUNCTIONS, Function, How
from accelift_codemod.facts.layout import around, derived, made_objects, pretrained, several, wrapped
from accelift_codemod.facts.layout.algebra import FIXED, Environment, Frame, Layout, Record, Shape, join, written_out
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts

_NUMBERS = ("math.", "numpy.")
# Verbs that give what is that of all processes.
_JOINS = frozenset("gather gather_for_metrics reduce batch_mean broadcast all_gather".split())


class OwnCalls:
    """Reads calls of what is no library's function."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts
        self.objects = layouts.objects
        self.resolver = layouts.resolver
        self.index = layouts.index
        self._running: set[ast.Lambda] = set()

    def network(self, call: ast.Call) -> ast.expr:
        """What a call runs: of `model.forward(x)`, the network."""
        func = call.func
        plain = isinstance(func, ast.Attribute) and func.attr == "forward" and self.resolver.callee(call) is None
        return func.value if plain else func  # type: ignore[attr-defined]

    def _made_with(self, made: ast.Call, env: Environment, frame: Frame) -> dict[str, Shape]:
        """What a loss of torch is made with where it is called at once: `nn.BCELoss(weight=w)(out, y)`."""
        if not self.resolver.only(made, Role.LOSS) or self.resolver.qualified(made.func) is None:
            return {}
        told = {
            k.arg: self.layouts.read(k.value, env, frame) for k in made.keywords if k.arg in ("weight", "pos_weight")
        }
        return {name: layout for name, layout in told.items() if layout not in FIXED}

    def _lambda(self, func: ast.expr) -> ast.Lambda | None:
        """The one lambda that a variable is."""
        bindings = self.resolver.bindings(func) if isinstance(func, ast.Name) else []
        value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
        plain = isinstance(value, ast.Lambda) and bindings[0].how is How.ASSIGN
        return value if plain and isinstance(value, ast.Lambda) else None

    def _computed(self, function: ast.Lambda, env: Environment, frame: Frame) -> Shape:
        """What a lambda gives; one that calls itself is not followed."""
        if function in self._running:
            return Layout.UNKNOWN
        self._running.add(function)
        try:
            return self.layouts.read(function.body, env, frame)
        finally:
            self._running.remove(function)

    def _called(
        self, call: ast.Call, arguments: list[Shape], keywords: dict[str, Shape], env: Environment, frame: Frame
    ) -> Shape:
        """A call of a model, a loss, or a function of the script."""
        everything = [*arguments, *keywords.values()]
        cls = self.index.enclosing_class(call) if derived.is_super(self.resolver, call) else None
        if cls is not None and self.resolver.callee(call) is None and self.resolver.class_role(cls) is Role.LOSS:
            return self.layouts.modules.derived(cls, everything)
        found = self._run(call, arguments, keywords, env, frame)
        target = self.resolver.callee(call)
        if found is None and target is None:
            found = several.of_any(self.layouts, call, env, frame)
        if found is None:
            found = self._of_lambda(call, arguments, env, frame)
        if found is None:
            found = self._of_object(call, arguments, keywords, env, frame)
        if found is None and isinstance(target, FUNCTIONS):
            if wrapped.changes_results(self.resolver, target):
                return Layout.MIXED if Layout.MIXED in everything else Layout.UNKNOWN
            found = self._of_function(call, target, arguments, env, frame)
        return found if found is not None else self._of_unknown(call, everything)

    def _run(
        self, call: ast.Call, arguments: list[Shape], keywords: dict[str, Shape], env: Environment, frame: Frame
    ) -> Shape | None:
        """What networks and losses give, each of those that may be called."""
        func = self.network(call)
        values = self.resolver.values(func)
        answer = pretrained.returned(values, arguments, keywords)
        if answer is not None:
            return answer
        models = [v for v in values if v.role is Role.LOSS or self.objects.is_model(v)]
        models = models if values else self.layouts.modules.submodules.of(func)
        if not models or len(models) < len(values):
            return None
        if arguments[:1] == [Layout.ROWS] and self.layouts.modules.along_samples(models, call):
            return Layout.MIXED
        made = self._made_with(func, env, frame) if isinstance(func, ast.Call) else {}
        return reduce(join, [self.layouts.modules.forward(v, arguments, keywords | made) for v in models])

    def _of_lambda(self, call: ast.Call, arguments: list[Shape], env: Environment, frame: Frame) -> Shape | None:
        short = self._lambda(call.func)
        if short is None or len(call.args) != len(short.args.args) or call.keywords:
            return None
        names = [parameter.arg for parameter in short.args.args]
        here = env if self.index.function(short) is self.index.function(call) else {}  # of others it knows nothing
        return self._computed(short, here | dict(zip(names, arguments, strict=True)), frame)

    def _of_object(
        self, call: ast.Call, arguments: list[Shape], keywords: dict[str, Shape], env: Environment, frame: Frame
    ) -> Shape | None:
        """An object that holds what its constructor is given, or sets."""
        held = made_objects.holding(self.resolver, call, arguments, keywords)
        if held is not None:
            finish = made_objects.finishing(self.resolver, call)
            if finish is None:
                return held
            self.layouts.modules.function(finish, {"self": held}, self.index.enclosing_class(finish))
            return self.layouts.changes.now(held)
        target = self.resolver.callee(call)
        if isinstance(target, ast.ClassDef) and made_objects.plain(self.resolver, target):
            return self._constructed(call, target, env, frame)
        return None

    def _of_function(
        self, call: ast.Call, target: Function, arguments: list[Shape], env: Environment, frame: Frame
    ) -> Shape | None:
        """What a function of the script returns; what it changes is changed where it is called, too."""
        given = self.resolver.bind(call, target)
        changed = dict.fromkeys(self.resolver.kept(target), Layout.UNKNOWN)
        if given is None:
            env.update(changed)
            return None
        by_name = {n: self.layouts.read(e, env, frame) for n, e in given.items()}
        by_name |= around.rest(self.resolver, target, arguments)
        this = self._object(call.func, env, frame)
        if isinstance(this, Record):
            by_name["self"] = this
        env.update(changed)
        owner = self.index.parents.get(target)
        if owner in self.resolver.followed and owner not in self.resolver.self_trained:
            owner = None  # no module: its attributes are variables
        cls = owner if isinstance(owner, ast.ClassDef) else None
        altered: Environment = {}
        seen = around.seen(self.layouts, call, target, env)
        found = self.layouts.modules.function(target, by_name, cls, seen, altered)
        for name, layout in altered.items():
            if name in given:
                self.layouts.changes.altered(given[name], layout, env)
            elif self.index.scope(call).owner(name) is self.index.scopes[target].owner(name):
                env[name] = layout  # `global mean`
        return found

    def _of_unknown(self, call: ast.Call, everything: list[Shape]) -> Shape:
        """What something that is not followed gives: certainly no more than it is given."""
        of_all = isinstance(call.func, ast.Attribute) and call.func.attr in _JOINS
        if not of_all and (Layout.MIXED in everything or Layout.SHIFTED in everything):
            return Layout.MIXED
        known = self.resolver.values(self.network(call))
        plain = not known or (self.resolver.library_function(call.func) or "").startswith(_NUMBERS)
        fixed = all(e in FIXED or (isinstance(e, Record) and written_out(e) in FIXED) for e in everything)
        return Layout.CONST if fixed and plain else Layout.UNKNOWN

    def _object(self, func: ast.expr, env: Environment, frame: Frame) -> Shape | None:
        """The object that a method is one of: of `super().encode`, too."""
        owner = func.value if isinstance(func, ast.Attribute) else None
        if isinstance(owner, ast.Call) and self.resolver.builtin(owner.func) == "super":
            return env.get("self")
        found = self.layouts.read(owner, env, frame) if owner is not None else None
        kept = self.layouts.modules.kept(self.objects.models(owner)) if owner is not None and found in FIXED else None
        return kept or found

    def _constructed(self, call: ast.Call, cls: ast.ClassDef, env: Environment, frame: Frame) -> Shape:
        """The attributes that the constructor of a class sets."""
        record, constructor = Record.of({}), self.resolver.method(cls, "__init__")
        given = self.resolver.bind(call, constructor) if constructor is not None else {}
        if constructor is None or given is None:
            return record if constructor is None and not call.args else Layout.UNKNOWN
        by_name = {n: self.layouts.read(e, env, frame) for n, e in given.items()}
        self.layouts.modules.function(constructor, {**by_name, "self": record}, cls)
        return self.layouts.changes.now(record)
