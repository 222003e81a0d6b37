"""What calls return: those of libraries by what is known of them, those of the script by their code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from accelift_codemod.facts import library, parts, signatures
from accelift_codemod.facts.contents import KEPT
from accelift_codemod.facts.index import FUNCTIONS, Function, How
from accelift_codemod.facts.values import Role, Value, Values

if TYPE_CHECKING:
    from accelift_codemod.facts.resolve import Resolver

_MOVES = frozenset({"to", "cuda", "cpu", "pin_memory", "contiguous", "detach", "data", "requires_grad_"})
# What a function may make anew with each call, and what it may hand that back in.
_MADE = frozenset({Role.MODEL, Role.LOSS, Role.OPTIMIZER, Role.SCHEDULER, Role.LOADER, Role.OBJECT})
_CONTAINERS = frozenset({Role.TUPLE, Role.DICT, Role.SEQUENCE})
_MAX_CALLS = 8  # of a function; the objects of one that is called more often are taken together
_MAX_SITES = 3
_PARAMETER_METHODS = frozenset({"parameters", "named_parameters", "get_parameters"})


class Calls:
    """Answers what the calls of one module return."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def of(self, call: ast.Call) -> Iterable[Value]:
        """The values of a call."""
        func = call.func
        qualified = self.resolver.qualified(func)
        if qualified is not None and not qualified.startswith("."):
            found = self._library_call(call, qualified)
            if found is not None:
                return found
        builtin = self.resolver.builtin(func)
        if builtin is not None:
            return self._builtin_call(call, builtin)
        target = self.resolver.callee(call)
        if isinstance(target, ast.ClassDef):
            role = self.resolver.class_role(target) or Role.OBJECT
            dealt = self._dealt_by(call, target) if role is Role.OBJECT else None
            return (dealt or Value(role, call, target.name, declaration=target),)
        if isinstance(target, FUNCTIONS):
            handed_back = self.resolver.passing.handed_back(target)
            if handed_back is not None:  # what this call gives, not what the others do
                given = self.resolver.bind(call, target)
                if given is None:
                    return ()
                argument = given.get(handed_back.arg, signatures.default(target, handed_back))
                return self.resolver.values(argument)
            stream = self._stream(call, target)
            return self._made_by(call, target) if stream is None else (stream,)
        if several := self.resolver.methods_called(call):
            return parts.unique(self._apart(value, call, m) for m in several for value in self._returned(m))
        if isinstance(func, ast.Attribute) and not any(map(self.is_imported, self.resolver.values(func.value))):
            if not self._holds_library(func):
                return self._method_call(call, func)
        made_so = parts.unique(v for one in self.lambdas(func) for v in self._computed(call, one))
        if made_so and all(v.role in KEPT for v in made_so):
            return made_so
        callees = self.resolver.values(func)
        made = [v.name for v in callees if v.role is Role.LIBRARY]
        if made and len(made) == len(callees):
            roles = {self.resolver.library_role(name) for name in made}
            if roles in ({Role.OPTIMIZER}, {Role.SCHEDULER}, {Role.LOADER}):
                return tuple(Value(role, call, name) for name in made for role in roles if role is not None)
            if roles == {Role.WRITER}:
                return (Value(Role.WRITER, call, made[0]),)
        if objects := self._one_of(call, callees):
            return objects
        if callees and all(v.name in library.MAKES_PICTURES for v in callees):
            return (Value(Role.OBJECT, call, library.PICTURE),)
        if shown := self._shown(call, callees, "__call__"):
            return shown
        arguments = self._argument_values(call)
        if any(v.role in parts.BATCH_LIKE for v in arguments):
            return parts.data(call, arguments)
        if any(v.role in (Role.MODEL, Role.LOSS) for v in callees):
            return ()
        return (Value(Role.OBJECT, call),)

    def _one_of(self, call: ast.Call, callees: Values) -> Values:
        """An object of one of several classes of the script that are no networks or the like: `LOADERS[name](args)`."""
        options = self._options(call.func) if len(callees) > 1 else []
        classes = [v.declaration for v in callees if v.role is Role.CLASS and isinstance(v.declaration, ast.ClassDef)]
        if not options or len(classes) < len(callees) or any(map(self.resolver.class_role, classes)):
            return ()
        if not all(self.resolver.only(option, Role.CLASS) for option in options):
            return ()
        return tuple(Value(Role.OBJECT, call, cls.name, declaration=cls) for cls in classes)

    def _options(self, node: ast.expr) -> list[ast.expr]:
        """What an expression may be that is looked up in a dict which is written out; empty if it is no such thing."""
        found = self._given(node)
        table = self._given(found.value) if isinstance(found, ast.Subscript) else None
        return list(table.values) if isinstance(table, ast.Dict) and None not in table.keys else []

    def lambdas(self, func: ast.expr) -> list[ast.Lambda]:
        """The lambdas of which a call surely runs one: that of a variable, or one of a dict that is written out."""
        given = self._given(func)
        options = self._options(func) if isinstance(given, ast.Subscript) else [given]
        found = [one for one in options if isinstance(one, ast.Lambda)]
        return found if len(found) == len(options) else []

    def _computed(self, call: ast.Call, function: ast.Lambda) -> Values:
        """What a call of a lambda gives; what several calls each make anew is told apart."""
        given = self.resolver.bind(call, function)
        name = self.resolver.passing.moved(function.body)
        if given is not None and name in {p.arg for p in function.args.args}:  # what it is given itself
            return self.resolver.values(given.get(name or ""))
        values = self.resolver.values(function.body)
        if not 1 < len(self.resolver.lambda_calls.get(function, ())) <= _MAX_CALLS:
            return values
        return tuple(
            replace(v, sites=(call, *v.sites))
            if v.role in _MADE and len(v.sites) < _MAX_SITES and function in self.resolver.index.ancestors(v.origin)
            else v
            for v in values
        )

    def _given(self, node: ast.expr) -> ast.expr | None:
        """What a variable is given once, and keeps; an expression that is no variable itself."""
        if not isinstance(node, ast.Name):
            return node
        owner = self.resolver.index.scope(node).owner(node.id)
        bound = self.resolver.bindings(node)
        if owner is None or len(bound) != 1 or bound[0].how is not How.ASSIGN or bound[0].path:
            return None
        return None if self.resolver.changed(owner, node.id) else bound[0].value

    def keys_of(self, node: ast.expr) -> Values:
        """The keys of a dict that is written out, and to which no other is added: `sets = {"train": a, "test": b}`."""
        table = self._given(node)
        keys = table.keys if isinstance(table, ast.Dict) else []
        written = [k for k in keys if isinstance(k, ast.Constant)]
        return parts.unique(v for k in written for v in self.resolver.values(k)) if len(written) == len(keys) else ()

    def _holds_library(self, attribute: ast.Attribute) -> bool:
        """Whether an attribute is set to a name of a library, and is no method: `args.optimizer = torch.optim.Adam`."""
        if attribute.attr not in self.resolver.index.attribute_bindings:
            return False
        values = self.resolver.values(attribute)
        return bool(values) and all(v.role is Role.LIBRARY for v in values)

    def _dealt_by(self, call: ast.Call, cls: ast.ClassDef) -> Value | None:
        """The batches of loaders, if an object of the class keeps these and hands their batches on, perhaps moved."""
        deals, passing = self.resolver.method(cls, "__iter__"), self.resolver.passing
        draws = self.resolver.method(cls, "__next__") or self.resolver.method(cls, "next")
        if draws is not None:
            kept = {self._given_in(call, cls, node) for node in passing.dealt(draws)}
            given = kept.pop() if len(kept) == 1 else None
        elif deals is not None:
            loader, through = passing.handed_on(deals), passing.handed_through(deals)
            if through is not None:
                loader = through[0] if self._gives_back_all(self._kept(call, cls, through[1].func)) else None
            given = self._kept(call, cls, loader)
        else:
            return None
        values = self.resolver.values(given)
        if not values or any(v.role not in (Role.LOADER, *parts.PASSES) for v in values):
            return None
        return Value(Role.ITERATOR, call, cls.name, (values,), declaration=cls)

    def _kept(self, call: ast.Call, cls: ast.ClassDef, node: ast.expr | None) -> ast.expr | None:
        """What a call that makes an object gives it to keep in an attribute: that of `self.loader` in a method."""
        attribute = ast.unparse(node).partition(".")[2] if isinstance(node, (ast.Attribute, ast.Name)) else ""
        return self.resolver.passing.kept(cls, call, attribute) if attribute.isidentifier() else None

    def _given_in(self, call: ast.Call, cls: ast.ClassDef, node: ast.expr) -> ast.expr | None:
        """The same, also of a parameter that the constructor reads."""
        made = self.resolver.constructor(cls)
        if isinstance(node, ast.Name) and made is not None and self.resolver.index.function(node) is made:
            bound = self.resolver.index.scopes[made].bindings.get(node.id, [])
            if len(bound) == 1 and bound[0].how is How.PARAMETER:
                return (self.resolver.bind(call, made) or {}).get(node.id)
        return self._kept(call, cls, node)

    def _gives_back_all(self, node: ast.expr | None) -> bool:
        """Whether an expression surely is a function that gives back what it is given."""
        values = self.resolver.values(node)
        functions = [v.declaration for v in values if v.role is Role.FUNCTION and isinstance(v.declaration, FUNCTIONS)]
        return len(functions) == len(values) > 0 and all(map(self.resolver.passing.gives_back_all, functions))

    def _stream(self, call: ast.Call, function: Function) -> Value | None:
        """The batches of loaders, if that is what a generator hands on."""
        passing = self.resolver.passing
        iterable, parted = passing.handed_on(function), None
        if iterable is None and (parted := passing.parts_handed_on(function)) is not None:
            iterable = parted[0]
        if isinstance(iterable, ast.Name):
            bindings = self.resolver.bindings(iterable)
            if len(bindings) == 1 and bindings[0].how is How.PARAMETER and isinstance(bindings[0].node, ast.arg):
                given = self.resolver.bind(call, function)
                iterable = given.get(iterable.id, signatures.default(function, bindings[0].node)) if given else None
        values = self.resolver.values(iterable)
        if not values or any(v.role not in (Role.LOADER, *parts.PASSES) for v in values):
            return None
        if parted is None:
            return Value(Role.ITERATOR, call, function.name, (values,))
        return Value(Role.ITERATOR, call, function.name, (values, self._parts(values, *parted[1:])))

    def _parts(self, values: Values, target: ast.expr, given: ast.expr) -> Values:
        """What a generator yields of each element of some values."""
        element = parts.element(values)
        places = {e.id: n for n, e in enumerate(target.elts)}  # type: ignore[attr-defined]

        def part(node: ast.expr) -> Values:
            return parts.item(element, places[self.resolver.passing.moved(node) or ""])

        if isinstance(given, (ast.Tuple, ast.List)):
            return (Value(Role.TUPLE, given, inner=tuple(map(part, given.elts))),)
        return part(given)

    def _made_by(self, call: ast.Call, function: Function) -> Values:
        """What a call of a function returns: what it was given itself, and objects that each call makes anew, are told
        apart."""
        if not 1 < len(self.resolver.sites(function)) <= _MAX_CALLS:
            return self._returned(function)
        given = self.resolver.bind(call, function)
        read = None if given is None else lambda node: self._given_back(node, given, function)
        values = self._returned(function, read)
        return tuple(self._apart(value, call, function) for value in values)

    def _given_back(self, node: ast.expr | None, given: Mapping[str, ast.expr], function: Function) -> Values:
        """What an expression that is returned is for a call with some arguments: `return net, optimizer, epoch`."""
        if isinstance(node, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in node.elts):
            return (Value(Role.TUPLE, node, inner=tuple(self._given_back(e, given, function) for e in node.elts)),)
        parameter = self.resolver.passing.handed_back_in(node, function)
        argument = given.get(parameter.arg, signatures.default(function, parameter)) if parameter is not None else None
        return self.resolver.values(node if argument is None else argument)

    def _apart(self, value: Value, call: ast.Call, function: Function) -> Value:
        if value.role in _MADE and len(value.sites) < _MAX_SITES and self._fresh(value, function):
            return replace(value, sites=(call, *value.sites))
        if value.role in _CONTAINERS:
            inner = tuple(tuple(self._apart(v, call, function) for v in part) for part in value.inner)
            return value if inner == value.inner else replace(value, inner=inner)
        return value

    def _fresh(self, value: Value, function: Function) -> bool:
        """Whether an object that a function returns is made while it runs."""
        node, seen = value.sites[0] if value.sites else value.origin, set[ast.AST]()
        while (home := self.resolver.index.function(node)) not in seen:
            if home is None or home is function:
                return home is function
            seen.add(home)
            sites = self.resolver.sites(home)
            if len(sites) != 1:
                return False
            node = sites[0]
        return False

    def _returned(self, function: Function, read: Callable[[ast.expr | None], Values] | None = None) -> Values:
        read, found = read or self.resolver.values, list[Value]()
        for statement in self.resolver.returns(function):
            found += read(statement.value)
        yields = [y for y in self.resolver.yields(function) if y.value]
        if yields:
            inner = parts.unique(
                v
                for y in yields
                for v in (
                    self.resolver.values(y.value)
                    if isinstance(y, ast.Yield)
                    else parts.element(self.resolver.values(y.value))
                )
            )
            return (Value(Role.SEQUENCE, function, inner=(inner,)),)
        return parts.unique(found)

    def _argument_values(self, call: ast.Call) -> Values:
        found: list[Value] = []
        for argument in (*call.args, *(k.value for k in call.keywords)):
            found += self.resolver.values(argument.value if isinstance(argument, ast.Starred) else argument)
        return tuple(found)

    def _library_call(self, call: ast.Call, qualified: str) -> Iterable[Value] | None:
        first = call.args[0] if call.args else None
        if qualified in library.WRAPS_MODULE:
            argument = first if first is not None else self.resolver.argument(call, None, "module")
            return self.resolver.values(argument)
        if qualified in library.RETURNS_ARGUMENTS:
            names = library.RETURNS_ARGUMENTS[qualified]
            given = [self.resolver.argument(call, i, name) for i, name in enumerate(names)]
            returned = tuple(self.resolver.values(argument) for argument in given if argument is not None)
            return returned[0] if len(returned) == 1 else (Value(Role.TUPLE, call, qualified, returned),)
        if qualified in library.ITERATES:
            return (
                Value(
                    Role.ITERATOR,
                    call,
                    qualified,
                    (self.resolver.values(first or self.resolver.argument(call, None, "iterable")),),
                ),
            )
        role = self.resolver.library_role(qualified)
        if role is not None:
            return (Value(role, call, qualified),)
        if qualified == "torch.autograd.Variable":
            return self.resolver.values(first)
        if qualified in ("itertools.chain", "itertools.chain.from_iterable"):
            inner = parts.unique(v for a in call.args for v in self.resolver.values(a))
            passed = inner if qualified == "itertools.chain" else parts.element(inner)
            if passed and all(v.role is Role.LOADER or v.role in parts.PASSES for v in passed):
                return (Value(Role.ITERATOR, call, qualified, (passed,)),)  # their batches, one loader after the other
            if qualified == "itertools.chain":
                return (Value(Role.SEQUENCE, call, qualified, (inner,)),)
        if qualified in ("copy.copy", "copy.deepcopy"):
            return tuple(
                Value(v.role, call, v.name, v.inner, v.keys, v.declaration) for v in self.resolver.values(first)
            )
        if qualified == "importlib.import_module":
            modules = [k for v in self.resolver.values(first) for k in v.keys if v.role is Role.CONSTANT]
            if modules and all(isinstance(name, str) and not name.startswith(".") for name in modules):
                return tuple(Value(Role.LIBRARY, call, str(name)) for name in modules)
        if qualified == signatures.PARTIAL:
            if found := self._partial(call, self.resolver.values(first)):
                return found
        if qualified in library.NOT_DATA:
            return ()
        if qualified.startswith("PIL."):
            return (Value(Role.OBJECT, call, qualified),)  # a picture, whatever it is made of
        if qualified in library.MAKES_PICTURES and not qualified.rpartition(".")[2][0].isupper():
            return (Value(Role.OBJECT, call, library.PICTURE),)
        if qualified.endswith((".parse_args", ".parse_known_args")):
            return (Value(Role.ARGUMENTS, call),)
        arguments = self._argument_values(call)
        if any(v.role in parts.BATCH_LIKE for v in arguments):
            return parts.data(call, arguments)
        return (Value(Role.OBJECT, call, qualified),)

    def is_imported(self, value: Value) -> bool:
        """Whether a value is a module of a library that `importlib.import_module` gives, or something in it."""
        made = value.origin if value.role is Role.LIBRARY else None
        return isinstance(made, ast.Call) and self.resolver.qualified(made.func) == "importlib.import_module"

    def _partial(self, call: ast.Call, values: Values) -> Values:
        """What `functools.partial` makes of functions and classes of the script, which keep what it gives them by its
        place, and of names of libraries, which do not."""
        kept, told = len(call.args) > 1, signatures.is_told(call)
        found: list[Value] = []
        for value in values:
            home = self.resolver.index.parents.get(value.declaration) if value.declaration is not None else None
            function = isinstance(value.declaration, FUNCTIONS) and not isinstance(home, ast.ClassDef)
            own = value.role is Role.CLASS or (value.role is Role.FUNCTION and function)
            if not (told if own else value.role is Role.LIBRARY and not kept):
                return ()
            found.append(replace(value, origin=call))
        return tuple(found)

    def _builtin_call(self, call: ast.Call, name: str) -> Iterable[Value]:
        first = self.resolver.values(call.args[0]) if call.args else ()
        if name == "enumerate":
            return (Value(Role.ENUMERATE, call, inner=(first,)),)
        if name == "zip":
            return (Value(Role.ZIP, call, inner=tuple(self.resolver.values(a) for a in call.args)),)
        if name == "next":
            return parts.element(first)
        owner = self.resolver.qualified(call.args[0]) if name in ("getattr", "vars") and call.args else None
        if owner is not None:
            members = (Value(Role.LIBRARY, call, f"{owner}{parts.MEMBERS}"),)
            if name == "vars":
                return members
            if len(call.args) == 2:
                key = call.args[1]
                return parts.item(members, key.value if isinstance(key, ast.Constant) else None)
        if name in library.ITERATES_BUILTIN:
            if any(v.role in (Role.PARAMETERS, Role.TUPLE, Role.SEQUENCE) for v in first):
                return first
            return (Value(Role.ITERATOR, call, name, (first,)),)
        if name == "dict" and call.keywords and not call.args and all(k.arg for k in call.keywords):
            inner = tuple(self.resolver.values(k.value) for k in call.keywords)
            return (Value(Role.DICT, call, inner=inner, keys=tuple(k.arg for k in call.keywords)),)
        if name in ("filter", "map") and len(call.args) > 1:
            return self.resolver.values(call.args[1]) if name == "filter" or self._moves(call) else ()
        if name in ("sum", "max", "min", "abs"):
            return parts.data(call, (*first, *parts.element(first)))
        if name in ("len", "print", "range", "int", "float", "str", "bool", "isinstance", "open", "type", "format"):
            return ()
        arguments = self._argument_values(call)
        if any(v.role in parts.BATCH_LIKE for v in arguments):
            return parts.data(call, arguments)
        return (Value(Role.OBJECT, call),)

    def _moves(self, call: ast.Call) -> bool:
        """Whether `map` moves each of several things, and no more: `map(lambda x: x.to(device), (model, loss))`."""
        function = call.args[0]
        names = [p.arg for p in function.args.args] if isinstance(function, ast.Lambda) else []
        one = len(names) == 1 and len(call.args) == 2
        return one and isinstance(function, ast.Lambda) and self.resolver.passing.moved(function.body) == names[0]

    def _shown(self, call: ast.Call, bars: Values, method: str) -> list[Value]:
        """What a progress bar goes through, if a call hands it that: `ProgressBar()(loader)`."""
        if not bars or not call.args or any(library.ITERATING.get(v.name) != method for v in bars):
            return []
        return [Value(Role.ITERATOR, call, bars[0].name, (self.resolver.values(call.args[0]),))]

    def _method_call(self, call: ast.Call, func: ast.Attribute) -> Iterable[Value]:
        receivers = self.resolver.values(func.value)
        pending = not receivers and self.resolver.circular  # it depends on this call: `net = net.cpu()` in a loop
        name = func.attr
        if name in ("parse_args", "parse_known_args"):
            parsed = Value(Role.ARGUMENTS, call)
            return (parsed,) if name == "parse_args" else (Value(Role.TUPLE, call, inner=((parsed,), ())),)
        found: list[Value] = []
        for value in receivers:
            if value.role in (Role.MODEL, Role.LOSS, Role.OBJECT) and name in library.RETURNS_SELF:
                found.append(value)
            elif value.role in (Role.MODEL, Role.LOSS, Role.OBJECT) and name in _PARAMETER_METHODS:
                found.append(Value(Role.PARAMETERS, call, inner=((value,),)))
            elif value.role is Role.BATCH and name in ("items", "values"):
                part = Value(Role.BATCH, value.origin, parts.part(value.name, "*"), value.inner)
                pair = Value(Role.TUPLE, call, inner=((), (part,)))
                found.append(Value(Role.SEQUENCE, call, inner=(((pair if name == "items" else part),),)))
            elif value.role is Role.BATCH:
                found.append(value if name in _MOVES else parts.as_data(call, value))
            elif value.role is Role.DATA:
                found.append(parts.as_data(call, value))
            elif value.role is Role.DICT and name in ("values", "items", "get", "keys"):
                inner = parts.unique(v for part in value.inner for v in part)
                if name == "items":
                    pair = Value(Role.TUPLE, call, inner=(self.keys_of(func.value), inner))
                    found.append(Value(Role.SEQUENCE, call, inner=((pair,),)))
                elif name == "values":
                    found.append(Value(Role.SEQUENCE, call, inner=(inner,)))
                elif name == "keys":
                    found.append(Value(Role.SEQUENCE, call, inner=(self.keys_of(func.value),)))
                else:
                    found += inner
            elif value.role in (Role.LOADER, Role.ITERATOR) and name in ("__iter__",):
                found.append(Value(Role.ITERATOR, call, inner=((value,),)))
            elif value.role in (Role.LOADER, Role.ITERATOR, Role.SEQUENCE) and name in ("next", "__next__"):
                found += parts.element((value,))
        for kind in (kind for kind, methods in library.ALIKE.items() if name in methods):
            found += parts.alike(call, receivers, kind)
        if found := found or self._shown(call, receivers, name):
            return found
        arguments = self._argument_values(call)
        if any(v.role in parts.BATCH_LIKE for v in arguments):
            return parts.data(call, arguments)
        return () if pending else (Value(Role.OBJECT, call),)
