"""Functions that hand on what they are given: `return x.to(device)`, `while True: yield from loader`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from accelift_codemod.facts import library, signatures
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How, Index
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.names import Names
from accelift_codemod.facts.tree import is_remark, own_nodes, walk

if TYPE_CHECKING:
    from accelift_codemod.facts.resolve import Resolver

_PLACES = frozenset({"to", "cuda", "cpu", "xpu"})  # methods that change where something lies, and nothing else
_TYPES = frozenset({"float", "double", "half", "bfloat16", "int", "long", "contiguous"})

_VARIABLES = (ast.Name, ast.Attribute)
_MAX_AROUND = 5  # of what counts and shows the elements of something, one around the other


class Passing:
    """Answers what the functions of one module hand on."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self._asked: list[Function] = []  # of which it is being told what they hand back

    @memoised
    def handed_back(self, function: Function) -> ast.arg | None:
        """The parameter that a function returns, perhaps moved."""
        if function in self._asked:
            return None  # it calls itself in another way than for each of several things
        self._asked.append(function)
        try:
            return self._handed_back(function)
        finally:
            self._asked.pop()

    def _handed_back(self, function: Function) -> ast.arg | None:
        given = [statement.value for statement in self.resolver.returns(function)]
        names = {self.moved(v) or self._each(v, function) for v in given if v is not None}
        name = names.pop() if len(names) == 1 else None
        return None if name is None or self.resolver.yields(function) else self._kept_as_given(name, function)

    def handed_back_in(self, node: ast.expr | None, function: Function) -> ast.arg | None:
        """The parameter that an expression in a function still is, perhaps moved: `return net.to(device), epoch`."""
        name = self.moved(node)
        return self._kept_as_given(name, function) if name is not None else None

    def _kept_as_given(self, name: str, function: Function) -> ast.arg | None:
        """The parameter that a variable of a function is, which it binds to nothing but itself, perhaps moved."""
        bindings = self.index.scopes[function].bindings.get(name, [])
        parameters = [b.node for b in bindings if b.how is How.PARAMETER]
        others = [b for b in bindings if b.how is not How.PARAMETER]
        if len(parameters) != 1 or any(
            b.how is not How.ASSIGN or b.path or self.moved(b.value) != name for b in others
        ):
            return None
        node = parameters[0]
        arguments = function.args
        assert isinstance(node, ast.arg)
        return None if node in (arguments.vararg, arguments.kwarg) else node

    def _each(self, node: ast.expr, function: Function) -> str | None:
        """The variable of which a function hands back each thing as it does one: `[move(x, device) for x in data]`."""
        given, target, source = self._one_by_one(node) or (None, None, None)
        if not isinstance(given, ast.Call) or not isinstance(source, ast.Name):
            return None
        bound = self.resolver.bind(given, function) if self.resolver.callee(given) is function else None
        handed = bound.get(source.id) if bound is not None else None
        same = isinstance(handed, ast.Name) and isinstance(target, ast.Name) and handed.id == target.id
        return source.id if same else None

    def _one_by_one(self, node: ast.expr | None) -> tuple[ast.expr, ast.expr, ast.expr] | None:
        """What a comprehension makes of each thing, what it calls that, and where it takes it from; of a dict, what it
        makes of the values of another one with the same keys."""
        if isinstance(node, ast.Call) and len(node.args) == 1 and self._is_kind(node.func):
            node = node.args[0]
        if not isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.DictComp)):
            return None
        given, loop = node.value if isinstance(node, ast.DictComp) else node.elt, node.generators[0]
        target: ast.expr = loop.target
        source: ast.expr | None = loop.iter
        if isinstance(node, ast.DictComp):  # {key: move(x, device) for key, x in data.items()}
            pair = target.elts if isinstance(target, ast.Tuple) else []
            if len(pair) != 2 or ast.unparse(pair[0]) != ast.unparse(node.key):
                return None
            target, source = pair[1], _receiver(source, "", ("items",), self.resolver)
        return None if len(node.generators) != 1 or loop.ifs or source is None else (given, target, source)

    def _is_kind(self, node: ast.expr) -> bool:
        """Whether an expression is a kind of containers, perhaps that of a variable: `tuple`, `type(data)`."""
        of = node.args if isinstance(node, ast.Call) and self.resolver.builtin(node.func) == "type" else []
        return self.resolver.builtin(node) in ("list", "tuple", "dict") or (
            len(of) == 1 and isinstance(of[0], ast.Name)
        )

    @memoised
    def handed_on(self, function: Function) -> ast.expr | None:
        """What a generator iterates over, if it yields each element of that once, perhaps moved.

        It may begin again when there are no more, and count, measure time and say something beside that. One that
        leaves elements out, or cuts them, hands nothing on: how many there are would depend on what is in them.
        """
        return self._handed_on(function, self._same)

    @memoised
    def handed_through(self, function: Function) -> tuple[ast.expr, ast.Call] | None:
        """The same of a generator that hands the parts of each element to a function: `yield self.prepare(*batch)`."""
        iterable = self._handed_on(function, self._goes_through)
        given = self.resolver.yields(function)[0].value if iterable is not None else None
        return (iterable, given) if iterable is not None and isinstance(given, ast.Call) else None

    def hands_batches_on(self, function: Function) -> bool:
        """Whether a generator hands on what it iterates over, or parts of that, perhaps through a function."""
        ways = (self.handed_on, self.parts_handed_on, self.handed_through)
        return any(way(function) is not None for way in ways)

    def hands_on_in(self, loop: ast.AST, function: Function) -> bool:
        """Whether a generator hands its batches on in one of its loops, not beside that."""
        return self.hands_batches_on(function) and any(node in self.resolver.yields(function) for node in walk(loop))

    @memoised
    def dealt(self, method: Function) -> tuple[ast.expr, ...]:
        """What a method that gives back a batch with each call has its iterators of, if it is always the next batch,
        perhaps moved: `self.loader` of `return next(self.batches)`, where `self.batches = iter(self.loader)`."""
        given: list[tuple[ast.expr | None, tuple[int, ...]]] = []
        for value in (statement.value for statement in self.resolver.returns(method)):
            whole = not isinstance(value, ast.Tuple)
            given += [(value, ())] if whole else [(e, (n,)) for n, e in enumerate(value.elts)]  # type: ignore[union-attr]
        own, found = set[ast.AST](), list[ast.expr | None]()
        for value, place in given:
            found += self._drawn_for(value, place, method, own)
        names = {self.moved(value) for value, _ in given}
        reads = (n for n in own_nodes(*method.body) if isinstance(n, ast.Name) and n.id in names)
        known = found and None not in found and not self.resolver.yields(method) and own.issuperset(reads)
        return tuple(filter(None, found)) if known else ()

    def _drawn_for(
        self, node: ast.expr | None, place: tuple[int, ...], method: Function, own: set[ast.AST]
    ) -> list[ast.expr | None]:
        """What the iterators are made of that an expression is drawn from, each None if it is something else.

        `own` gets what is read and bound for that.
        """
        name = self.moved(node)
        own.update(walk(node) if node is not None else ())
        if name is None:
            iterator = drawn_from(node, self.resolver) if not place else None
            return list(self._begun_by(iterator, method)) if iterator is not None else [None]
        found: list[ast.expr | None] = []
        for binding in self.index.scopes[method].bindings.get(name, ()):
            again = binding.how is How.ASSIGN and not binding.path and self.moved(binding.value) == name
            own.update(walk(self.index.statement(binding.node)))
            if not again:
                drawn = binding.how is How.ASSIGN and binding.path == place and self.moved(binding.value) is None
                found += self._drawn_for(binding.value, (), method, own) if drawn else [None]
        return found or [None]

    def _begun_by(self, iterator: ast.expr, method: Function) -> Iterator[ast.expr | None]:
        """What an iterator that an object keeps is made of, wherever it is."""
        cls = self.index.enclosing_class(method)
        if isinstance(iterator, ast.Name):
            owner = self.index.scope(iterator).owner(iterator.id)
            bound = owner.bindings[iterator.id] if owner is not None and owner.is_class else []
        elif isinstance(iterator, ast.Attribute) and cls is not None and _is_own(iterator, self.index):
            bound = self.set_in(cls, iterator.attr)
        else:
            bound = []
        for binding in bound:
            plain = binding.how is How.ASSIGN and not binding.path
            yield _receiver(binding.value, "iter", ("__iter__",), self.resolver) if plain else None

    def _goes_through(self, given: ast.expr, target: ast.expr) -> bool:
        parts = given.args if isinstance(given, ast.Call) and not given.keywords else []
        whole = parts[0].value if len(parts) == 1 and isinstance(parts[0], ast.Starred) else None
        return isinstance(whole, ast.Name) and isinstance(target, ast.Name) and whole.id == target.id

    @memoised
    def gives_back_all(self, function: Function) -> bool:
        """Whether a function gives back what it is given, in that order, but for places, types and the form of samples:
        `return x.view(-1, 1, 28, 28).to(device), y.to(device)`."""
        arguments = function.args
        statements = [s for s in function.body if not is_remark(s)]
        returned = statements[0].value if len(statements) == 1 and isinstance(statements[0], ast.Return) else None
        parts = [self._rows(part) for part in returned.elts] if isinstance(returned, ast.Tuple) else []
        plain = not (arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs)
        return plain and bool(parts) and parts == [a.arg for a in arguments.args]

    def _rows(self, node: ast.expr) -> str | None:
        """The variable that an expression has the rows of: `x.float()`, `x.view(-1, 784)`."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first = ast.unparse(node.args[0]) if len(node.args) > 1 else ""
            if node.func.attr in _PLACES | _TYPES or (node.func.attr in ("view", "reshape") and first == "-1"):
                return self._rows(node.func.value)
        return self.moved(node)

    def kept(self, cls: ast.ClassDef, call: ast.Call, attribute: str) -> ast.expr | None:
        """What a call that makes an object hands its constructor, which keeps it in an attribute for good."""
        made = self.resolver.method(cls, "__init__")
        own = self.set_in(cls, attribute)
        if made is None or len(own) != 1 or self.index.function(own[0].node) is not made or own[0].path:
            return None
        value, statement = own[0].value, self.index.statement(own[0].node)
        if own[0].how is not How.ASSIGN or statement not in made.body or not isinstance(value, ast.Name):
            return None
        bound = self.index.scopes[made].bindings.get(value.id, [])
        if len(bound) != 1 or not isinstance(parameter := bound[0].node, ast.arg):
            return None
        given = self.resolver.bind(call, made)
        return given.get(value.id, signatures.default(made, parameter)) if given is not None else None

    def set_in(self, cls: ast.ClassDef, attribute: str) -> list[Binding]:
        """Where an attribute is set that may be one of the objects of a class."""
        bindings = self.index.attribute_bindings.get(attribute, [])
        family = self.resolver.ancestry(cls)
        return [b for b in bindings if self.index.enclosing_class(b.node) in family or not _is_own(b.node, self.index)]

    @memoised
    def parts_handed_on(self, function: Function) -> tuple[ast.expr, ast.expr, ast.expr] | None:
        """The same of a generator that yields parts of each element: what it is at in its loop, and what it yields.

        `for x, y in loader: yield x`, `yield y, x`.
        """
        iterable = self._handed_on(function, self._are_parts)
        loop = next((n for n in own_nodes(*function.body) if isinstance(n, ast.For) and n.iter is iterable), None)
        given = self.resolver.yields(function)[0].value if loop is not None else None
        return (loop.iter, loop.target, given) if loop is not None and given is not None else None

    def _handed_on(self, function: Function, hands_on: Callable[[ast.expr, ast.expr], bool]) -> ast.expr | None:
        yields = self.resolver.yields(function)
        if len(yields) != 1 or any(
            isinstance(n, (ast.Return, ast.Break, ast.Continue)) for n in own_nodes(*function.body)
        ):
            return None
        statement = self.index.statement(yields[0])
        if not isinstance(statement, ast.Expr) or statement.value is not yields[0]:
            return None
        around = list(takewhile(lambda n: n is not function, self.index.ancestors(statement)))
        given = yields[0].value
        if isinstance(yields[0], ast.YieldFrom):
            return given if all(map(self._goes_on, around)) else None
        if around and isinstance(loop := around[0], ast.For) and given is not None:
            if loop.orelse or not all(map(self._goes_on, around[1:])):
                return None
            if loop.body == [statement] and hands_on(given, loop.target):
                return self._begun(loop, function) if len(around) == 1 else loop.iter
            target, through = self._bare(loop, function)
            own = {*walk(loop.target), *walk(given)}
            alike = hands_on(given, target) and self._untouched(function, own, target, through)
            return through[-1] if alike else None
        if all(isinstance(n, ast.Try) or self._goes_on(n) for n in around):
            return self._source(given)
        return None

    def _bare(self, loop: ast.For, function: Function) -> tuple[ast.expr, list[ast.expr]]:
        """What a loop binds to each element of what it goes through, and that, last without what counts and shows it.

        `i, batch` in `enumerate(tqdm(loader))`: `batch`, and these three.
        """
        target, through = loop.target, [loop.iter]
        while len(through) < _MAX_AROUND:
            within = self._shown(through[-1], function)
            if within is None:
                pair = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
                within = _receiver(through[-1], "enumerate", (), self.resolver) if len(pair) == 2 else None
                target = target if within is None else pair[1]
            if within is None:
                break
            through.append(within)
        return target, through

    def _shown(self, node: ast.expr, function: Function) -> ast.expr | None:
        """`loader` of `tqdm(loader)`, and of the variable that this is bound to."""
        bound = self.index.scopes[function].bindings.get(node.id, []) if isinstance(node, ast.Name) else []
        if len(bound) == 1 and bound[0].how is How.ASSIGN and not bound[0].path and bound[0].value is not None:
            node = bound[0].value
        bar = isinstance(node, ast.Call) and self.resolver.qualified(node.func) in library.ITERATES
        return node.args[0] if isinstance(node, ast.Call) and bar and node.args else None

    def _untouched(self, function: Function, own: set[ast.AST], target: ast.expr, through: list[ast.expr]) -> bool:
        """Whether what a generator does beside handing on leaves alone what it hands on, and what it takes that from.

        It may ask the latter for its length and its attributes. `own` is what the handing on itself reads.
        """
        handed = {node.id for node in walk(target) if isinstance(node, ast.Name)}
        sources = {ast.dump(node) for node in through if isinstance(node, _VARIABLES)}
        own = own.union(*map(walk, through))
        for node in (n for statement in function.body for n in walk(statement) if n not in own):
            if isinstance(node, ast.Name) and node.id in handed:
                return False
            if isinstance(node, _VARIABLES) and ast.dump(node) in sources and not self._asked_about(node):
                return False
        return isinstance(through[-1], _VARIABLES)

    def _asked_about(self, node: ast.expr) -> bool:
        """Whether an expression only asks something that deals batches for its length, or for an attribute."""
        around = self.index.parents.get(node)
        if isinstance(around, ast.Attribute):
            return not around.attr.startswith("__") and around.attr != "next"
        return isinstance(around, ast.Call) and self.resolver.builtin(around.func) == "len"

    def _begun(self, loop: ast.For, function: Function) -> ast.expr:
        """What a loop goes through, where it is given the iterator of that: `batches = iter(loader)`."""
        if not isinstance(loop.iter, ast.Name):
            return _receiver(loop.iter, "iter", ("__iter__",), self.resolver) or loop.iter
        scope = self.index.scopes[function]
        bound, reads = scope.bindings.get(loop.iter.id, []), scope.loads.get(loop.iter.id, [])
        if len(bound) != 1 or bound[0].how is not How.ASSIGN or len(reads) != 1:
            return loop.iter
        return _receiver(bound[0].value, "iter", ("__iter__",), self.resolver) or loop.iter

    def _same(self, given: ast.expr, target: ast.expr) -> bool:
        """Whether what is yielded is what the loop is at: `batch`, `x, y`."""
        if isinstance(target, (ast.Tuple, ast.List)):
            pairs = zip(given.elts, target.elts, strict=False) if isinstance(given, (ast.Tuple, ast.List)) else ()
            found = [self._same(left, right) for left, right in pairs]
            return len(found) == len(target.elts) == len(getattr(given, "elts", ())) and all(found)
        return isinstance(target, ast.Name) and self.moved(given) == target.id

    def _are_parts(self, given: ast.expr, target: ast.expr) -> bool:
        """Whether what is yielded is some of the variables that a loop unpacks an element into, perhaps moved."""
        names = [e.id for e in getattr(target, "elts", ()) if isinstance(e, ast.Name)]
        parts = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]
        return (
            bool(names)
            and len(names) == len(getattr(target, "elts", ()))
            and all(self.moved(p) in names for p in parts)
        )

    def _goes_on(self, node: ast.AST) -> bool:
        """`while True:`, `for epoch in range(n):`: how often does not depend on what is yielded."""
        if isinstance(node, ast.While):
            return isinstance(node.test, ast.Constant) and bool(node.test.value)
        called = node.iter.func if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) else None
        return called is not None and self.resolver.builtin(called) == "range"

    def _source(self, node: ast.expr | None) -> ast.expr | None:
        """What `next(iterator)` draws from, `iterator` being `iter(loader)` wherever it is bound."""
        if isinstance(node, ast.Name):  # batch = next(iterator); yield batch
            bound = self.resolver.bindings(node)
            return _agreed([self._source(b.value) if b.how is How.ASSIGN else None for b in bound])
        iterator = drawn_from(node, self.resolver)
        if not isinstance(iterator, ast.Name):
            return None
        owner = self.index.scope(iterator).owner(iterator.id)
        bound = owner.bindings.get(iterator.id, []) if owner is not None else []
        made = [_receiver(b.value, "iter", ("__iter__",), self.resolver) for b in bound if b.how is How.ASSIGN]
        return _agreed(made) if len(made) == len(bound) else None

    def moved(self, node: ast.expr | None) -> str | None:
        """The variable that an expression is, but for where it lies: `x`, `x.cuda()`, `x.to(d) if g else x`,
        `[part.to(d) for part in x]`."""
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.IfExp):
            name = self.moved(node.body)
            return name if name == self.moved(node.orelse) else None
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _PLACES:
                return self.moved(node.func.value)
            if self.resolver.qualified(node.func) == "torch.autograd.Variable" and node.args:
                return self.moved(node.args[0])
            target = self.resolver.callee(node)
            back = self.handed_back(target) if isinstance(target, FUNCTIONS) else None
            if back is not None and isinstance(target, FUNCTIONS):
                return self.moved((self.resolver.bind(node, target) or {}).get(back.arg))
        given, target, source = self._one_by_one(node) or (None, None, None)
        if isinstance(given, ast.Call) and isinstance(target, ast.Name) and self.moved(given) == target.id:
            return self.moved(source)
        return None


def drawn_from(node: ast.expr | None, names: Names) -> ast.expr | None:
    """The iterator of `next(iterator)`, `iterator.__next__()` and, of old, `iterator.next()`."""
    if isinstance(node, ast.Call) and names.builtin(node.func) == "next" and node.args:
        return node.args[0]
    return _receiver(node, "", ("__next__", "next"), names)


def _receiver(node: ast.expr | None, builtin: str, methods: tuple[str, ...], names: Names) -> ast.expr | None:
    """`x` of `iter(x)` or `x.__iter__()`."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if names.builtin(node.func) == builtin and len(node.args) == 1:
        return node.args[0]
    if isinstance(node.func, ast.Attribute) and node.func.attr in methods and not node.args:
        return node.func.value
    return None


def _is_own(target: ast.AST, index: Index) -> bool:
    """Whether an attribute that is set is one of the object whose method sets it: `self.loader = loader`."""
    function = index.function(target)
    first = function.args.args[0].arg if isinstance(function, FUNCTIONS) and function.args.args else None
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == first


def _agreed(found: list[ast.expr | None]) -> ast.expr | None:
    """The one expression that all are."""
    first = found[0] if found else None
    if first is None or any(other is None or ast.dump(other) != ast.dump(first) for other in found):
        return None
    return first
