"""The variables through which training and evaluation reach an object."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from functools import cached_property

from accelift_codemod.blueprint import Blueprint, self_trained
from accelift_codemod.blueprint.containers import holds, keeps, replaceable
from accelift_codemod.blueprint.rebinding import (
    RETURNS_SELF,
    carriers,
    given_back,
    handed_inside,
    handed_through,
    is_again,
    is_asked,
    is_changed,
    itself,
    kept_once,
    only_kept,
    stays,
    taken_on,
    unwrapped,
)
from accelift_codemod.blueprint.short_names import is_short
from accelift_codemod.blueprint.used import Uses
from accelift_codemod.facts import Binding, How, Role, Scope, Value
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import children, walk
from accelift_codemod.facts.values import Key, Values, key
from accelift_codemod.reasons import refuse

_TAKES = (ast.Subscript, ast.IfExp)
_DISPLAYS = (ast.Dict, ast.Tuple, ast.List)
_CHOICES = (*_TAKES, *_DISPLAYS)
_NO_OBJECT = (How.IMPORT, How.FUNCTION, How.CLASS)


@dataclass(frozen=True)
class _Search:
    """The object that variables are looked for, and how far."""

    wanted: Key
    through: bool  # a variable that takes it out of a container is not the first
    before: bool = False  # nor is a container that it is put into
    seen: dict[ast.AST, set[tuple[Scope, str]] | None] = field(default_factory=dict)  # what has been traced to where


class Roots:
    """Traces the expressions that training uses back to the variables in which objects were put first."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.facts = blueprint.facts
        self.resolver = blueprint.facts.resolver
        self.index = blueprint.facts.index
        self.uses = Uses(blueprint)
        self.untraced: set[Key] = set()  # what no use of leads to a variable
        self._in_calls: set[Key] = set()  # what is made in calls of functions that bind their parameter again
        self._bare: set[tuple[ast.AST, Key]] = set()  # variables that have an object from the call which makes it alone
        self.copies: dict[ast.AST, None] = {}  # where constructors keep objects that they are handed

    def of(self, value: Value, kind: Role) -> set[tuple[Scope, str]]:
        """The variables through which the training reaches an object, traced back through parameters.

        Of several, the one from which the others have it: out of a container, or put into one.
        """
        found = self._of(value, kind, _Search(key(value), kind is Role.LOADER))
        later = any(
            handed_inside(self.resolver, *root)
            or is_short(self.blueprint, *root)
            or self._taken_in_training(*root, value)
            for root in found
        )
        later = later or self.among_others(found, value)
        if len(found) > 1 or later:
            first = self._of(value, kind, _Search(key(value), True, True))
            found = first if len(first) == 1 else found
        return found

    def _taken_in_training(self, scope: Scope, name: str, value: Value) -> bool:
        """Whether each iteration of a training loop takes the object out of a container: `net = nets[i]`."""
        training = self._bodies_of_training
        taken = [b for b in scope.bindings[name] if self._takes(b, _Search(key(value), False))]
        return any(self.index.statement(binding.node) in training for binding in taken)

    def among_others(self, roots: set[tuple[Scope, str]], value: Value) -> bool:
        """Whether one of the variables is a container of which an entry has the object and other things:
        `nets = [(net, "small")]`."""
        one = key(value)
        for scope, name in roots:
            held = (v for b in scope.bindings[name] for v in self.resolver.bound(b) if keeps((v,), one))
            entries = [entry for container in held for inner in container.inner for entry in inner]
            if any(key(entry) != one and keeps((entry,), one) for entry in entries):
                if not self.resolver.fills(scope, name).otherwise:  # else it is not known which one is where
                    return True
        return False

    def gives_back(self, binding: Binding, value: Value) -> bool:
        """Whether a variable gets an object out of a container that it was put into from that variable."""
        search = _Search(key(value), True, True)
        if binding.value is None or not self._takes(binding, search):
            return False
        return self._trace(binding.value, search) == {(binding.scope, binding.name)}

    @cached_property
    def _bodies_of_training(self) -> set[ast.AST]:
        return {n for loop in self.blueprint.train_loops for s in loop.body for n in walk(s)}

    def _of(self, value: Value, kind: Role, search: _Search) -> set[tuple[Scope, str]]:
        found: set[tuple[Scope, str]] = set()
        uses = self.uses.found.get(key(value)) or self.uses.asked.get(key(value), [])
        for use in uses:
            traced = self._trace(use, replace(search, seen={}))
            if traced is None:
                raise refuse(
                    "PREP-NO-POINT",
                    use.lineno,
                    f"the {kind.value} is reached through `{self.facts.segment(use)}`, which is not a plain variable",
                    "keep it in a plain variable or parameter",
                )
            own = self_trained.variable(self.resolver, value)
            found |= {root for root in traced if root == own or self._carries(*root, value, inside=True)}
        if found and any((use, key(value)) in self._bare for use in uses):
            return set()  # others have it from the call that makes it
        if not found and key(value) not in self._in_calls:
            self.untraced.add(key(value))
            for scope in self.index.scopes.values():
                found |= {(scope, name) for name in scope.bindings if self._carries(scope, name, value)}
        return found

    def instances(self, value: Value) -> Values:
        """The objects that a value stands for: one, if the function that makes it uses it for training, too.

        That object is then prepared there; of others, each where the call has returned it.
        """
        for i in range(len(value.sites), -1, -1):
            inside = replace(value, sites=value.sites[i:])
            if key(inside) in self.uses.found:
                return (inside,)
        return self.facts.objects.instances(value)

    def _carries(self, scope: Scope, name: str, value: Value, inside: bool = False) -> bool:
        """Whether a variable is somewhere assigned the object (or something that has it `inside`)."""
        for binding in scope.bindings[name]:
            values = self.resolver.bound(binding) if binding.how is How.ASSIGN else ()
            if self._trained_in_call(binding, key(value)):
                continue
            if any(key(v) == key(value) for v in values) or (inside and keeps(values, key(value))):
                return True
        return False

    def _trace(self, node: ast.expr, search: _Search) -> set[tuple[Scope, str]] | None:
        """The assigned variables an expression reads, through parameters; None if it is no plain variable."""
        if isinstance(node, ast.Attribute):
            wrapped = node.attr == "module" and self.resolver.values(node) == self.resolver.values(node.value)
            return self._trace(node.value, search) if wrapped else self._of_objects(node, search)
        if isinstance(node, _CHOICES):
            return self._choice(node, search)
        if self._is_made(node, search):
            return set()  # made on the spot
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in RETURNS_SELF:
            return self._trace(node.func.value, search) if self._holds(node, search) else None
        if not isinstance(node, ast.Name):
            return None
        if node not in search.seen:
            search.seen[node] = set()  # while it is being traced
            search.seen[node] = self._bound_to(node, search)
        return search.seen[node]

    def _trained_in_call(self, binding: Binding, wanted: Key) -> bool:
        """Whether a variable gets back a network that the call made which trains it: `net = train(Net(), data)`."""
        if binding.how is not How.ASSIGN or wanted[1] != Role.MODEL.value or binding.value is None:
            return False
        function = self.resolver.callee(binding.value) if isinstance(binding.value, ast.Call) else None
        if not isinstance(function, FUNCTIONS) or not self.facts.loops.reaches_backward(function.body):
            return False
        made = itself(handed_through(self.resolver, binding, moved=True))
        return made is not None and self._is_made(made, _Search(wanted, False))

    def _is_made(self, node: ast.expr, search: _Search) -> bool:
        """Whether an expression makes the object, or has a function of the script make and return it."""
        origin, _, sites = search.wanted
        if node is origin or node in sites or not isinstance(node, ast.Call):
            return node is origin or node in sites
        target = self.resolver.callee(node) if not sites else None
        held = self.resolver.expressions.calls.lambdas(node.func) if not sites else []
        fresh = isinstance(target, FUNCTIONS) and self.resolver.passing.handed_back(target) is None
        fresh = fresh or not {*held}.isdisjoint(self.index.ancestors(origin))
        return fresh and any(key(v) == search.wanted for v in self.resolver.values(node))

    def _bound_to(self, node: ast.Name, search: _Search) -> set[tuple[Scope, str]] | None:
        """The same of a variable: those from which it has the object."""
        owner = self.index.scope(node).owner(node.id)
        if owner is None:
            return None
        found: set[tuple[Scope, str]] = set()
        reaching = self.resolver.reaching(node, owner)
        for binding in reaching:
            if isinstance(getattr(binding.node, "ctx", None), ast.Del):
                continue  # nothing can be read after that
            if binding.how in _NO_OBJECT and len(reaching) > 1:
                continue  # `crnn = crnn.CRNN()`, of a module that is called so before
            if (itself := self_trained.of_binding(self.resolver, binding)) is not None:
                found.add(itself)
            elif binding.how is How.PARAMETER:
                function = self.index.parents[self.index.parents[binding.node]]
                for call in self.resolver.sites(function):
                    if not self.facts.runs(call):
                        continue
                    given = self.resolver.bind(call, function) if isinstance(function, FUNCTIONS) else None
                    argument = (given or {}).get(binding.name)
                    if argument is None:
                        continue
                    if isinstance(argument, ast.Constant) or not self._holds(argument, search):
                        continue
                    traced = self._trace(argument, search)
                    if traced is None:
                        return None
                    if self._is_made(argument, search) or (argument, search.wanted) in self._bare:
                        self._bare.add((node, search.wanted))
                    kept = call not in self.index.ancestors(argument)  # by `functools.partial`, for the call
                    if kept or self.index.function(node) is not function:  # or by a function that it makes
                        self.copies.setdefault(argument)
                    found |= traced
            elif binding.how in (How.ASSIGN, How.WITH) and not binding.path and self._iterates(binding.value):
                for carrier in carriers(binding.value):  # type: ignore[arg-type]
                    found |= self._trace(carrier, search) or set()
                    if (carrier, search.wanted) in self._bare:
                        self._bare.add((node, search.wanted))
            elif binding.how is How.LOOP and self._holds(node, search):
                for name in self._holders(binding.value, search):
                    traced = self._trace(name, search)
                    if traced is None:
                        return None
                    found |= traced
            elif search.through and binding.value is not None and self._takes(binding, search):
                unpacked = isinstance(binding.value, ast.Name)
                chosen = (self._trace if unpacked else self._choice)(binding.value, search)
                if chosen is None:
                    return None
                once = unpacked or kept_once(self.index, binding)
                if once and not all(replaceable(self.facts, scope, name) for scope, name in chosen):
                    chosen = set()  # it is first in a variable of its own here
                if chosen:
                    self.copies.setdefault(binding.node)  # it is to get the prepared one
                found |= chosen or {(owner, node.id)}  # of no variable: it is the first
            elif binding.how in (How.ASSIGN, How.AUGMENT):
                if self._of_another(binding, search):
                    continue
                if self._trained_in_call(binding, search.wanted):
                    self._in_calls.add(search.wanted)
                    continue
                before = (
                    self._handed_to(binding, search)
                    or self._put_in(binding, search)
                    or self._same(binding, search)
                    or self._short_for(binding, search)
                )
                moved = None if before else self._moved_parameter(binding, search)
                found |= before or ({(owner, node.id)} if moved is None else moved)
            else:
                return None
        own = (owner, node.id)
        return {own} if own in found and taken_on(self.resolver, *own, search.wanted[1]) else found

    def _choice(self, node: ast.expr, search: _Search) -> set[tuple[Scope, str]] | None:
        """The variables that an expression takes the object from: `loaders[phase]`, `a if train else b`."""
        parts = [node.value] if isinstance(node, ast.Subscript) else list(children(node))
        found: set[tuple[Scope, str]] = set()
        some = False
        for part in parts:
            if isinstance(part, ast.expr) and self._holds(part, search):
                traced = self._trace(part, search)
                if traced is None:
                    return None
                found |= traced
                some = True
        return found if some else None

    def _holds(self, node: ast.expr, search: _Search) -> bool:
        """Whether an expression is the object, or a container that has it."""
        return holds(self.resolver.values(node), search.wanted)

    def _takes(self, binding: Binding, search: _Search) -> bool:
        """Whether a variable gets the object, or a container that has it, out of a container."""
        if isinstance(binding.value, ast.Subscript) and isinstance(binding.value.slice, ast.Slice):
            return False  # a part of a tuple is another one
        taken = isinstance(binding.value, ast.Name) if binding.path else isinstance(binding.value, _TAKES)
        return taken and holds(self.resolver.bound(binding), search.wanted)

    def _holders(self, node: ast.expr | None, search: _Search) -> list[ast.expr]:
        """The variables in an expression that are the object, or containers that have it."""
        return [n for n in walk(node) if isinstance(n, ast.Name) and self._holds(n, search)] if node is not None else []

    def _put_in(self, binding: Binding, search: _Search) -> set[tuple[Scope, str]]:
        """The variables from which an object is put into a container, if they are what is asked for.

        The object is then prepared before it is put there.
        """
        if not search.before or binding.how is not How.ASSIGN or binding.path or binding.value is None:
            return set()
        entries = [(binding.node, e) for e in children(binding.value) if isinstance(binding.value, _DISPLAYS)]
        entries += [(fill.node, fill.value) for fill in self.resolver.fills(binding.scope, binding.name).entries]
        found: set[tuple[Scope, str]] = set()
        while entries:
            node, entry = entries.pop()
            if not isinstance(entry, ast.expr) or not self._holds(entry, search):
                continue
            if isinstance(entry, _DISPLAYS):
                entries += [(node, one) for one in children(entry)]
                continue
            traced = self._trace(entry, search) if isinstance(entry, ast.Name) else None
            if not traced:
                return set()
            self.copies.setdefault(node)
            found |= traced
        return found

    def _iterates(self, node: ast.expr | None) -> bool:
        """Whether an expression makes an iterator over loaders (`tqdm(loader)`), or is what it is handed, always."""
        if isinstance(node, ast.IfExp):
            return self._iterates(node.body) and self._iterates(node.orelse)
        values = self.resolver.values(node)
        if isinstance(node, (ast.List, ast.Dict, ast.ListComp, ast.DictComp)):
            return self.facts.loops.is_pass(tuple(v for one in values for part in one.inner for v in part))
        loaders = self.facts.loops.loaders(values)
        if not isinstance(node, ast.Call) or not loaders:
            return False
        return not set(loaders) & set(values) or self._hands_back(node)

    def _hands_back(self, call: ast.Call) -> bool:
        """Whether a function gives back what it is handed, or an iterator over it: `bar(loader, quiet)`."""
        function = self.resolver.callee(call)
        if not isinstance(function, FUNCTIONS) or self.resolver.yields(function):
            return False
        given = [statement.value for statement in self.resolver.returns(function)]
        back = self.resolver.passing.handed_back_in
        return bool(given) and all(back(one, function) is not None or self._iterates(one) for one in given)

    def _of_objects(self, node: ast.Attribute, search: _Search) -> set[tuple[Scope, str]] | None:
        """The variable that an attribute of a followed object is (`trainer.model`), or that it was handed in by."""
        found: set[tuple[Scope, str]] = set()
        for value in self.resolver.values(node.value):
            cls = value.declaration
            if not isinstance(cls, ast.ClassDef) or cls not in self.resolver.followed:
                return None
            name = f"{self.resolver.followed[cls]}.{node.attr}"
            bindings = self.index.scopes[cls].bindings.get(name)
            if not bindings:
                return None
            found |= self._handed_to(bindings[0], search) or {(self.index.scopes[cls], name)}
        return found or None

    def _handed_to(self, binding: Binding, search: _Search) -> set[tuple[Scope, str]]:
        """The variables outside whose object a constructor keeps in an attribute (`self.model = model`, and in a class
        that does not train by an optimizer of its own `self.model = model.to(device)`), if that is all the attribute
        ever is: the object is then prepared before it is handed in."""
        early = search.before or binding.scope.node not in self._training
        value = stays(self.facts, binding.value) if early else binding.value
        if not binding.scope.is_class or binding.path or not isinstance(value, ast.Name):
            return set()
        if len(binding.scope.bindings[binding.name]) != 1 or self.index.enclosing_loops(binding.node):
            return set()
        if any(b.how is not How.PARAMETER for b in self.resolver.bindings(value)):
            return set()
        if not only_kept(self.resolver, binding, value.id):
            return set()  # it is changed there, and prepared after that
        traced = self._trace(value, search) or set()
        if not all(replaceable(self.facts, scope, name) for scope, name in traced):
            return set()  # from a tuple, say: the attribute is the first variable of its own
        if traced:
            self.copies.setdefault(binding.node)
        return traced

    @cached_property
    def _training(self) -> set[ast.ClassDef | None]:
        """The classes of which a method runs a backward pass, and one makes an optimizer: they prepare what they move
        together with that."""
        making = {self.index.enclosing_class(one.value.origin) for one in self.facts.objects.optimizers}
        return making & {self.index.enclosing_class(call) for call in self.facts.loops.backwards}

    def _of_another(self, binding: Binding, search: _Search) -> bool:
        """Whether a variable gets what another one has, and that is some other loader."""
        values = self.resolver.values(binding.value) if self._is_copy(binding, search) else ()
        return any(v.role is Role.LOADER for v in values) and not holds(values, search.wanted)

    def _is_copy(self, binding: Binding, search: _Search) -> bool:
        """Whether a variable gets the loader that another one has: `loader = data.train`."""
        copied = isinstance(binding.value, (ast.Name, ast.Attribute))
        return search.wanted[1] == Role.LOADER.value and not binding.path and copied

    def _same(self, binding: Binding, search: _Search) -> set[tuple[Scope, str]]:
        """The variables whose loader another one gets, too."""
        value = binding.value
        if not self._is_copy(binding, search) or value is None or not self._holds(value, search):
            return set()
        if isinstance(value, ast.Name) and any(b.how is How.PARAMETER for b in self.resolver.bindings(value)):
            return set()  # what is handed in is another matter
        traced = self._trace(value, search) or set()
        if not all(replaceable(self.facts, scope, name) for scope, name in traced):
            return set()
        if traced:
            self.copies.setdefault(binding.node)
        return traced

    def _short_for(self, binding: Binding, search: _Search) -> set[tuple[Scope, str]]:
        """The attribute for which variables are short, which get the prepared object: `model = self.model.train()`."""
        node = itself(binding.value)
        if not search.before or search.wanted[1] == Role.LOADER.value or binding.path or binding.scope.is_class:
            return set()
        owner = self.index.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
        kept = isinstance(node, ast.Attribute) or (owner is not None and owner.is_class)
        traced = self._trace(node, search) if kept and node is not None and self._holds(node, search) else None
        if not traced or not all(replaceable(self.facts, scope, name) for scope, name in traced):
            return set()
        self.copies.setdefault(binding.node)
        return traced

    def _moved_parameter(self, binding: Binding, search: _Search) -> set[tuple[Scope, str]] | None:
        """The variables outside whose object a function goes on calling by a name: `net = model.to(device)`."""
        if search.before and (kept := given_back(self.resolver, binding)) is not None:
            again = kept in search.seen
            return self._trace(kept, search) or (set() if again else None)
        node = unwrapped(self.resolver, binding.value)
        if binding.path or binding.scope.is_class or not isinstance(node, ast.Name):
            return None
        others = [b for b in self.resolver.bindings(node) if b.how is not How.PARAMETER]
        if any(b.name != binding.name or not is_again(self.resolver, b) for b in others):
            return None
        reads = [n for n in self.facts.loads(binding.scope, node.id) if n is not node]
        if node.id == binding.name:
            reads = [n for n in reads if n.lineno < node.lineno]
            if not all(is_asked(self.resolver, n) for n in reads):
                return None  # who else has it by then, is not known
        else:
            reads += self.facts.loads(binding.scope, binding.name)
        if any(is_changed(self.index, n) for n in reads):
            return None  # it is prepared after that
        again = node in search.seen or any(unwrapped(self.resolver, b.value) in search.seen for b in others)
        traced = self._trace(node, search)
        # In the next iteration it is what it was; what is made in the calls is prepared there.
        return traced if traced or again or self._made_in_calls(node, search) else None

    def _made_in_calls(self, node: ast.Name, search: _Search) -> bool:
        """Whether a parameter is handed what its callers make in the call."""
        for binding in self.resolver.bindings(node):
            function = self.index.parents[self.index.parents[binding.node]] if binding.how is How.PARAMETER else None
            if not isinstance(function, FUNCTIONS):
                continue
            calls = (call for call in self.resolver.sites(function) if self.facts.runs(call))
            given = [(self.resolver.bind(call, function) or {}).get(binding.name) for call in calls]
            if any(made is not None and self._is_made(made, search) for made in map(itself, given)):
                self._in_calls.add(search.wanted)
                return True
        return False
