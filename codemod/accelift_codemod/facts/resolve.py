"""Object flow: which objects an expression may evaluate to.

The analysis is demand-driven: nothing is computed until a rule asks. Within one scope a load sees the
assignments that can reach it; through parameters it sees the arguments of every call site, through calls
the returned expressions. It is an over-approximation in which an unknown stays unknown (an empty tuple, or
the role OBJECT): rules act on what is known only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from accelift_codemod.facts import handed_networks, library, parts, signatures
from accelift_codemod.facts.calls import Calls
from accelift_codemod.facts.classes import Classes, is_class_method, is_static
from accelift_codemod.facts.computing import only_computes
from accelift_codemod.facts.contents import Contents
from accelift_codemod.facts.expressions import Expressions
from accelift_codemod.facts.handing_on import handed_on
from accelift_codemod.facts.index import FUNCTIONS, LOOPS, Binding, Function, How, Index
from accelift_codemod.facts.instances import is_property
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.passing import Passing
from accelift_codemod.facts.self_trained import training_method
from accelift_codemod.facts.tree import own_nodes, walk
from accelift_codemod.facts.values import Role, Value, Values

_MAX_DEPTH = 120
_MAX_ROUNDS = 5
_NO_CYCLE = 1 << 30
# What keeps nothing of the data that its methods are given.
_PASSIVE = frozenset({Role.MODEL, Role.LOSS, Role.OPTIMIZER, Role.SCHEDULER, Role.SCALER, Role.DEVICE, Role.WRITER})


class Resolver(Classes):
    """Answers what expressions of one module may evaluate to."""

    def __init__(
        self,
        index: Index,
        followed: Mapping[ast.ClassDef, str] | None = None,
        known: Mapping[str, Role] | None = None,
        outside: Mapping[ast.AST, tuple[ast.ClassDef, str]] | None = None,
        called: Mapping[ast.AST, list[Function]] | None = None,
    ) -> None:
        super().__init__(index, followed or {}, known or {})
        self.outside = outside or {}  # attributes of followed objects that are set where they are not called self
        self.called = called or {}  # functions that objects keep, where they hand themselves to them
        trained = ((cls, training_method(index, self, cls)) for cls in self.followed)
        self.self_trained = {cls: method for cls, method in trained if method is not None}  # networks, and by what
        self.passing = Passing(self)
        self.contents = Contents(self)
        self.expressions = Expressions(self, Calls(self))
        self.properties = {f for f in index.functions if is_property(self, f)}
        self._values: dict[ast.AST, Values] = {}
        self._active: dict[ast.AST, int] = {}
        self._assumed: dict[ast.AST, Values] = {}
        self._leaned_on: set[ast.AST] = set()  # those whose assumed answer others have gone by
        self._corrected = 0  # how many of these turned out otherwise
        self._tentative: dict[ast.AST, tuple[Values, int]] = {}
        self._pending: list[ast.AST] = []
        self._low = _NO_CYCLE
        self._callees: dict[ast.Call, ast.AST | None] = {}
        self._sites: dict[ast.AST, list[ast.Call]] | None = None
        self._method_names = {f.name for f in index.functions if isinstance(index.parents.get(f), ast.ClassDef)}

    def itself(self, value: Value) -> Value:
        """A network that trains itself as its methods see it; else the value."""
        cls = value.declaration
        method = self.self_trained.get(cls) if isinstance(cls, ast.ClassDef) and value.role is Role.MODEL else None
        return Value(Role.MODEL, method, name=value.name, declaration=cls) if method is not None else value

    def made(self, value: Value) -> Value:
        """An object as it was made, whatever became of it since."""
        return value

    # ---- values

    @property
    def circular(self) -> bool:
        """Whether what has been asked for in answering the last question still depends on a question before it."""
        return self._low != _NO_CYCLE

    def values(self, node: ast.AST | None) -> Values:
        """What an expression may evaluate to; empty if nothing is known.

        Expressions that depend on each other (a variable updated in a loop) are solved together: the first of them that
        is asked for is computed again until its answer no longer changes, each time on the answer of the last time.
        """
        if node is None:
            return ()
        if self._sites is None:  # before anything is asked: a question that is open tells nothing of calls it leads to
            self._sites = self._find_sites()
        final = self._values.get(node)
        if final is not None:
            return final
        active = self._active.get(node)
        if active is not None:
            self._low = min(self._low, active)
            self._leaned_on.add(node)
            return self._assumed.get(node, ())
        tentative = self._tentative.get(node)
        if tentative is not None:
            self._low = min(self._low, tentative[1])
            return tentative[0]
        depth = len(self._active)
        if depth >= _MAX_DEPTH:
            return ()
        outer, start = self._low, len(self._pending)
        self._active[node] = depth
        found: Values = ()
        for _ in range(_MAX_ROUNDS):
            self._low, corrected = _NO_CYCLE, self._corrected
            self._leaned_on.discard(node)
            found = parts.bounded(self.expressions.of(node), node)
            if node in self._leaned_on and found != self._assumed.get(node, ()):
                self._assumed[node] = found
                self._corrected += 1
            if self._low != depth or self._corrected == corrected:
                break  # also one that depends on others before it: the first of them computes it again
            for other in self._pending[start:]:
                self._tentative.pop(other, None)
            del self._pending[start:]
        del self._active[node]
        if self._low >= depth:  # nothing below is still being computed: all of it is final
            for other in self._pending[start:]:
                known = self._tentative.pop(other, None)
                if known is not None:
                    self._values[other] = known[0]
            del self._pending[start:]
            if self._assumed:
                self._assumed = {one: answer for one, answer in self._assumed.items() if one in self._active}
            self._values[node] = found
            self._low = outer
        else:
            self._tentative[node] = (found, self._low)
            self._pending.append(node)
            self._low = min(outer, self._low)
        return found

    def forget(self) -> None:
        """Have all values worked out anew: more is known now."""
        self._values.clear()
        self._callees.clear()
        self.contents.known.clear()
        self.expressions.grouped.clear()

    def is_settled(self, node: ast.AST) -> bool:
        """Whether what an expression may evaluate to has been told, and depends on no question that is still open."""
        return node in self._values

    def roles(self, node: ast.AST | None) -> frozenset[Role]:
        """The roles of `values`."""
        return frozenset(v.role for v in self.values(node))

    def only(self, node: ast.AST | None, role: Role) -> bool:
        """Whether an expression is certainly of one role."""
        return self.roles(node) == {role}

    def is_of(self, node: ast.AST | None, modules: str | tuple[str, ...]) -> bool:
        """Whether an object is certainly one of these libraries'."""
        values = self.values(node)
        return bool(values) and all(value.name.startswith(modules) for value in values)

    def library_function(self, func: ast.expr) -> str | None:
        """The library function that a call of an expression certainly runs, also where a variable holds it."""
        spelled = self.qualified(func)
        values = self.values(func) if spelled is None and isinstance(func, (ast.Name, ast.Attribute)) else ()
        names = {v.name if v.role is Role.LIBRARY else "" for v in values}
        return (names.pop() or None) if len(names) == 1 else spelled

    def bound(self, binding: Binding) -> Values:
        """What a binding gives its name."""
        return self.expressions.bound(binding)

    # ---- calls

    argument = staticmethod(signatures.argument)

    @cached_property
    def lambda_calls(self) -> dict[ast.Lambda, list[ast.Call]]:
        """The calls of lambdas that variables and dicts hold."""
        found: dict[ast.Lambda, list[ast.Call]] = {}
        for call in self.index.calls:
            if isinstance(call.func, (ast.Name, ast.Subscript)):
                for one in self.lambdas_run(call):
                    found.setdefault(one, []).append(call)
        return found

    def lambdas_run(self, call: ast.Call) -> list[ast.Lambda]:
        """The lambdas of which a call surely runs one."""
        return self.expressions.calls.lambdas(call.func)

    def bind(self, call: ast.Call, function: Function | ast.Lambda) -> dict[str, ast.expr] | None:
        """Arguments by parameter name, for the parameters the call gives; None if `*` or `**` hides them."""
        return signatures.bind(self.whole(call), function, self.is_bound(call, function))

    def said(self, call: ast.Call, function: Function | ast.Lambda, name: str) -> ast.expr | None:
        """What a call that hides other arguments by `*` or `**` says itself that a parameter is given."""
        return signatures.told(self.whole(call), function, self.is_bound(call, function)).get(name)

    def whole(self, call: ast.Call) -> ast.Call:
        """A call with what `functools.partial` has given the function before; itself, if there is no such thing."""
        made = {v.origin for v in self.values(call.func)} & self.partials if self.partials else set()
        origin = made.pop() if len(made) == 1 else None
        call = signatures.with_partial(call, origin) if isinstance(origin, ast.Call) else call
        if signatures.is_told(call):
            return call
        written = [part for k in call.keywords for part in self.written_out(k)]
        return handed_on(self, call) or ast.Call(call.func, call.args, written)

    @cached_property
    def partials(self) -> set[ast.AST]:
        """The calls of `functools.partial`."""
        return {call for call in self.index.calls if self.qualified(call.func) == signatures.PARTIAL}

    def taken_from(self, binding: Binding) -> Iterator[ast.expr]:
        """The expressions that a binding takes its value from."""
        if binding.value is not None:
            yield self.gone_through(binding)
        elif binding.how is How.PARAMETER:
            yield from filter(None, self.handed(binding))

    def gone_through(self, binding: Binding) -> ast.expr:
        """What a variable is a part of: `axes` in `for i, ax in enumerate(axes)`, of a `zip` the one that it goes
        through."""
        value, path = binding.value, binding.path
        assert value is not None
        while isinstance(value, ast.Call) and path:
            name = self.builtin(value.func)
            place = 0 if name == "enumerate" and path[0] == 1 else path[0] if name == "zip" else None
            if place is None or place >= len(value.args) or isinstance(value.args[place], ast.Starred):
                break
            value, path = value.args[place], path[1:]
        return value

    def handed(self, parameter: Binding, runs: Callable[[ast.AST], bool] | None = None) -> list[ast.expr | None]:
        """What each call of its function gives a parameter, or its default; None where that cannot be told.

        Of calls that may run only, if it is told which these are, and there are any.
        """
        function = self.index.parents[self.index.parents[parameter.node]]
        if not isinstance(function, (*FUNCTIONS, ast.Lambda)) or not isinstance(parameter.node, ast.arg):
            return [None]
        name, unsaid = parameter.name, signatures.default(function, parameter.node)
        sites = self.lambda_calls.get(function, []) if isinstance(function, ast.Lambda) else self.sites(function)
        sites = (list(filter(runs, sites)) if runs is not None else sites) or sites
        found: list[ast.expr | None] = []
        for call in sites:
            given = self.bind(call, function)
            found.append(given.get(name, unsaid) if given is not None else self.said(call, function, name))
        return found

    def is_bound(self, call: ast.Call, function: Function | ast.Lambda) -> bool:
        """Whether what a call runs has its first parameter already: methods of an object, `__init__` by its class.

        A method that is read from its class (`Net.forward(net, x)`) is given its object by the call.
        """
        if isinstance(function, ast.Lambda) or not isinstance(self.index.parents.get(function), ast.ClassDef):
            return False
        if is_static(function):
            return False
        if is_class_method(function):
            return True
        if isinstance(call.func, ast.Attribute):
            return not self.is_class(call.func.value)
        return not (isinstance(call.func, ast.Name) and self.may_be(call.func, function))

    def is_class(self, node: ast.expr) -> bool:
        """Whether an expression is certainly a class of the script, no object: `Net`, `cls` in its class methods."""
        if self.only(node, Role.CLASS):
            return True
        bindings = self.bindings(node) if isinstance(node, ast.Name) else []
        if len(bindings) != 1 or bindings[0].how is not How.PARAMETER:
            return False
        function = self.index.parents[self.index.parents[bindings[0].node]]
        if not isinstance(function, FUNCTIONS) or not is_class_method(function):
            return False
        return [*function.args.posonlyargs, *function.args.args][:1] == [bindings[0].node]

    def callee(self, call: ast.Call) -> ast.AST | None:
        """The function or class of the script that a call certainly runs; None if unknown or not one."""
        if call in self._callees:
            return self._callees[call]
        found = self._callee(call)
        told_by = [call.func.value if isinstance(call.func, ast.Attribute) else call.func]
        if all(map(self.is_settled, [*told_by, *handed_networks.handed(self, call)])):
            self._callees[call] = found
        return found

    def _callee(self, call: ast.Call) -> ast.AST | None:
        func = call.func
        if call in self.called:
            return self.called[call][0] if len(self.called[call]) == 1 else None
        if isinstance(func, ast.Name):
            bindings = self.bindings(func)
            if len(bindings) == 1 and bindings[0].how in (How.FUNCTION, How.CLASS):
                return bindings[0].node
            values = self.values(func)
            found = {v.declaration for v in values if v.role in (Role.FUNCTION, Role.CLASS)}
            if found and any(v.role in (Role.METHOD, Role.LOSS, Role.LIBRARY) for v in values):
                return None  # it may be something else
            if found:
                return found.pop() if len(found) == 1 else None
            return self._called(values, call)
        if isinstance(func, ast.Attribute) and func.attr in self._method_names:
            if isinstance(func.value, ast.Call) and self.builtin(func.value.func) == "super" and not func.value.args:
                return self.inherited(self.index.enclosing_class(call), func.attr)
            methods = {self.method(v.declaration, func.attr) for v in self.values(func.value) if not v.is_none}
            if len(methods) == 1:
                return methods.pop()
        return self._called(self.values(func), call) if isinstance(func, ast.Call) else None

    def functions_run(self, call: ast.Call) -> list[Function]:
        """The functions of the script of which a call runs one, or several one after the other."""
        target = self.callee(call)
        if target is not None:
            return [target] if isinstance(target, FUNCTIONS) else []
        if known := self.called.get(call, []) or self.methods_called(call):
            return known
        held = (v.declaration for v in self.values(call.func) if v.role in (Role.FUNCTION, Role.METHOD))
        return [one for one in dict.fromkeys(held) if isinstance(one, FUNCTIONS)]

    def methods_called(self, call: ast.Call) -> list[Function]:
        """The methods of which a call certainly runs one, where its object is of one of several classes of the script.

        None that gives back what it is given, or deals batches.
        """
        asked = self._asked_for(call.func)
        names = {*asked[1]} & self._method_names if asked is not None else set()
        if asked is None or not names:
            return []
        values = [v for v in self.values(asked[0]) if not v.is_none]
        found = [
            self.method(v.declaration, name) if v.role is Role.OBJECT else None
            for name in sorted(names)
            for v in values
        ]
        methods = [m for m in dict.fromkeys(found) if m is not None]
        named = isinstance(call.func, ast.Attribute)  # of one, `callee` tells
        if len(methods) < 1 + named or None in found or any(m.decorator_list or self.yields(m) for m in methods):
            return []
        return [] if any(self.passing.handed_back(m) is not None for m in methods) else methods

    def _asked_for(self, func: ast.expr) -> tuple[ast.expr, list[str]] | None:
        """An object and the names by one of which a method of it is read: `hook.after`, `getattr(hook, name)`."""
        if isinstance(func, ast.Attribute):
            return func.value, [func.attr]
        plain = isinstance(func, ast.Call) and len(func.args) == 2 and self.builtin(func.func) == "getattr"
        if not isinstance(func, ast.Call) or not plain:
            return None
        told = [v.keys[0] if v.role is Role.CONSTANT else None for v in self.values(func.args[1])]
        names = [name for name in told if isinstance(name, str)]
        return (func.args[0], names) if len(names) == len(told) else None

    def _called(self, values: Values, call: ast.Call) -> Function | None:
        """The `__call__` of a followed class, if it is certainly an object of that which is called; the `forward` of a
        module that runs the network it is given."""
        methods = {
            self.method(v.declaration, "__call__") if v.role is Role.OBJECT else None for v in values if not v.is_none
        }
        return (methods.pop() if len(methods) == 1 else None) or handed_networks.run_by(self, call)

    def sites(self, function: ast.AST) -> list[ast.Call]:
        """The calls that run a function (or construct a class) of the script."""
        if self._sites is None:
            self._sites = self._find_sites()
        return self._sites.get(function, [])

    def _find_sites(self) -> dict[ast.AST, list[ast.Call]]:
        """Call sites: those by plain name first, since following values needs them."""
        sites: dict[ast.AST, list[ast.Call]] = {}
        self._sites = sites
        indirect = []
        for call in self.index.calls:
            bindings = self.bindings(call.func) if isinstance(call.func, ast.Name) else []
            if call in self.called:
                for function in self.called[call]:
                    sites.setdefault(function, []).append(call)
            elif len(bindings) == 1 and bindings[0].how in (How.FUNCTION, How.CLASS):
                sites.setdefault(bindings[0].node, []).append(call)
                if isinstance(bindings[0].node, ast.ClassDef):  # runs its constructor
                    constructor = self.method(bindings[0].node, "__init__")
                    if constructor is not None:
                        sites.setdefault(constructor, []).append(call)
            elif bindings or isinstance(call.func, (ast.Attribute, ast.Call)):
                indirect.append(call)
        while indirect:
            found = {call: target for call in indirect if (target := self.callee(call)) is not None}
            for call, target in found.items():
                sites.setdefault(target, []).append(call)
                if (constructor := self.method(target, "__init__")) is not None:
                    sites.setdefault(constructor, []).append(call)
            if not found:
                break
            self.forget()  # what was computed without these sites
            indirect = [call for call in indirect if call not in found and self._may_be_known(call)]
        return sites

    def _may_be_known(self, call: ast.Call) -> bool:
        """Whether a call of which nothing is known may be of a method, of an object that another call hands over, or of
        a module, with a network that is handed over."""
        if isinstance(call.func, ast.Attribute):
            return call.func.attr in self._method_names
        return bool(handed_networks.handed(self, call))

    def returns(self, function: Function) -> list[ast.Return]:
        """The return statements of a function, those of nested functions left out."""
        return self._left_by(function)[0]

    def yields(self, function: Function) -> list[ast.Yield | ast.YieldFrom]:
        """The `yield` expressions of a function, those of nested functions left out."""
        return self._left_by(function)[1]

    @memoised
    def _left_by(self, function: Function) -> tuple[list[ast.Return], list[ast.Yield | ast.YieldFrom]]:
        """What takes values out of a function."""
        returns, yields = [], []
        for node in own_nodes(*function.body):
            if isinstance(node, ast.Return) and node.value is not None:
                returns.append(node)
            elif isinstance(node, (ast.Yield, ast.YieldFrom)):
                yields.append(node)
        return returns, yields

    # ---- what functions keep

    def kept(self, function: Function, data: bool = False) -> frozenset[str]:
        """The attributes of followed objects that a function may bind or change, in functions it calls, too.

        Only those that are given something computed from a batch, if `data`.
        """
        return frozenset(name for name, holds in self._kept(function) if holds or not data)

    @memoised
    def _kept(self, function: Function) -> frozenset[tuple[str, bool]]:
        found: set[tuple[str, bool]] = set()
        queue, seen = [function], {function}
        while queue and self.followed:
            for node in own_nodes(*queue.pop().body):
                if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                    statement = self.index.statement(node)
                    found.update((name, self._holds_data(statement)) for name in self._kept_in(node))
                elif isinstance(node, ast.Call):
                    asked = isinstance(node.func, ast.Attribute) and not self._is_passive(node.func.value)
                    if asked and not only_computes(self, node):
                        found.update((name, self._holds_data(node)) for name in self._kept_in(node.func))
                    for target in [self.callee(node), *self.called.get(node, ())]:
                        if isinstance(target, FUNCTIONS) and target not in seen:
                            seen.add(target)
                            queue.append(target)
        return frozenset(found)

    def _is_passive(self, node: ast.expr) -> bool:
        """Whether an object keeps nothing of the data that its methods are given."""
        return any(v.role in _PASSIVE or v.name in library.SHOWS for v in self.values(node))

    def _holds_data(self, node: ast.AST) -> bool:
        if isinstance(node, (*LOOPS, ast.With)):
            return True
        return any(isinstance(n, ast.expr) and self.roles(n) & parts.BATCH_LIKE for n in walk(node))

    def _kept_in(self, node: ast.expr) -> list[str]:
        """The attribute of self that an expression is, or is a part of."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            if node in self.outside:
                return [self.outside[node][1]]
            node = node.value
        return [node.id] if isinstance(node, ast.Name) and "." in node.id else []
