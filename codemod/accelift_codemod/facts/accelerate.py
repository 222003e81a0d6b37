"""Facts of scripts that use Accelerate: which objects are accelerators, and what became of what `prepare` was given."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from accelift_codemod.facts import Facts, executed, parts
from accelift_codemod.facts.calls import Calls
from accelift_codemod.facts.classes import own_class
from accelift_codemod.facts.expressions import Expressions
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How, Index, Scope, position
from accelift_codemod.facts.instances import Instances
from accelift_codemod.facts.names import is_placeholder
from accelift_codemod.facts.reaching import Reaching
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.timeline import Timeline
from accelift_codemod.facts.values import Role, Value, Values
from accelift_codemod.source import Source

if TYPE_CHECKING:
    from accelift_codemod.project.program import Program

_MOST_STEPS = 6  # from one variable to another
LIBRARIES = ("accelerate", "accelift")
_ACCELERATORS = frozenset(f"{root}{home}.Accelerator" for root in LIBRARIES for home in ("", ".accelerator"))
_STATES = frozenset(
    f"{root}{home}.{name}"
    for root in LIBRARIES
    for home in ("", ".state")
    for name in ("PartialState", "AcceleratorState")
)
_PREPARES = frozenset({"prepare", "prepare_model", "prepare_data_loader", "prepare_optimizer", "prepare_scheduler"})
# What these return is the same on every process, or made of the values of all of them.
GATHERS = frozenset("gather gather_for_metrics reduce batch_mean gather_object broadcast broadcast_object_list".split())
_JOINED = GATHERS | {"pad_across_processes", "check_trigger"}
# What no process does by itself, so that whoever runs a function with one of these runs it on all.
_BY_ALL = _JOINED | _PREPARES | {"accumulate", "backward", "clip_grad_norm_", "wait_for_everyone"}


class _Calls(Calls):
    """What calls return, those of Accelerate included."""

    resolver: AccelerateResolver

    def _library_call(self, call: ast.Call, qualified: str) -> Iterable[Value] | None:
        root, _, rest = qualified.partition(".")
        if root in LIBRARIES:
            name = rest.rpartition(".")[2]
            if name in _JOINED:
                return (Value(Role.OBJECT, call, "joined"),)
            if name == "skip_first_batches" and call.args:
                return self.resolver.values(call.args[0])
        return super()._library_call(call, qualified)

    def _method_call(self, call: ast.Call, func: ast.Attribute) -> Iterable[Value]:
        if func.attr in _PREPARES or func.attr in _JOINED or func.attr in ("unwrap_model", "skip_first_batches"):
            receivers = self.resolver.values(func.value)
            if receivers and all(is_accelerator(v) for v in receivers):
                return self._verb(call, func.attr)
        return super()._method_call(call, func)

    def _verb(self, call: ast.Call, verb: str) -> Iterable[Value]:
        if verb in _JOINED:
            return (Value(Role.OBJECT, call, "joined"),)
        first = call.args[0] if call.args else None
        if verb == "unwrap_model":
            values = self.resolver.values(first or self.resolver.argument(call, None, "model"))
            return tuple(self.resolver.original(v) for v in values)
        if verb == "skip_first_batches":
            return self.resolver.values(first or self.resolver.argument(call, None, "dataloader"))
        if any(isinstance(a, ast.Starred) for a in call.args):
            return ()
        found = [self._prepared(call, argument) for argument in call.args]
        if len(found) == 1:
            return found[0]
        return (Value(Role.TUPLE, call, inner=tuple(found)),)

    def _prepared(self, call: ast.Call, argument: ast.expr) -> Values:
        """What `prepare` makes of an argument: the same kind of object, whose origin is the argument itself."""
        self.resolver.prepared[argument] = call
        values = self.resolver.values(argument) or (self._declared(argument),)
        return parts.unique(
            v
            if v.origin in self.resolver.prepared
            else Value(v.role, argument, v.name, ((v,),), declaration=v.declaration)
            for v in values
        )

    def _declared(self, argument: ast.expr) -> Value:
        """What something is by the annotation of a parameter, of which no call in sight tells what it is given; or only
        that it is the same parameter."""
        node: ast.AST | None = argument
        for _ in range(_MOST_STEPS):
            bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
            if isinstance(node, ast.Attribute):
                bindings = self.resolver.attribute_bindings(node)
            binding = bindings[0] if len(bindings) == 1 and not bindings[0].path else None
            if binding is None or binding.how not in (How.ASSIGN, How.PARAMETER):
                break
            if binding.how is How.PARAMETER:
                role, declaration = self.resolver.annotated(getattr(binding.node, "annotation", None))
                return Value(role, binding.node, declaration=declaration)
            node = binding.value
        return Value(Role.OBJECT, argument)


class _Expressions(Expressions):
    """What expressions evaluate to, those that are about accelerators included."""

    resolver: AccelerateResolver

    def _parameter(self, node: ast.AST) -> Values:
        found = super()._parameter(node)
        if not found and isinstance(node, ast.arg) and node.annotation is not None:
            name = self.resolver.qualified(node.annotation)  # a module of functions may say what it is to be given
            if name in _ACCELERATORS:
                return (Value(Role.OBJECT, node, name),)
        return found

    def _attribute(self, node: ast.Attribute) -> Iterable[Value]:
        found = tuple(super()._attribute(node))
        if node.attr != "module":
            return found
        inside = (v for v in self.resolver.values(node.value) if self.resolver.is_prepared(v))
        return parts.unique((*(self.resolver.original(v) for v in (*found, *inside)),))

    def set_alike(self, attribute: ast.Attribute) -> list[Binding]:
        found = self.resolver.current(attribute, super().set_alike(attribute))
        values = [self.bound(binding) for binding in found] if len(found) > 1 else []
        perhaps = any(self.resolver.is_prepared(v) for one in values for v in one)
        return found if not perhaps or all(values) else []  # it may be what nothing is known of, which is not prepared


class AccelerateResolver(Resolver):
    """Follows objects through `prepare` and `unwrap_model`."""

    def __init__(self, index: Index, found: Instances | None = None) -> None:
        if found is None:
            super().__init__(index)
        else:
            super().__init__(index, found.followed, None, found.outside, found.called)
        self.expressions = _Expressions(self, _Calls(self))
        self.prepared: dict[ast.AST, ast.Call] = {}  # arguments of `prepare`, and the calls
        self._timeline: Timeline | None = None
        self._reached: dict[tuple[ast.Name, Scope], list[Binding]] = {}
        self.sites(index.tree)  # when every call of a function is known, its reads of outer variables can be placed
        self.forget()
        self._timeline = Timeline(self)

    def bindings(self, name: ast.Name) -> list[Binding]:  # not remembered: a recursive question is answered otherwise
        owner = self.index.scope(name).owner(name.id)
        return self.reaching(name, owner) if owner else []

    def reaching(self, name: ast.Name, owner: Scope) -> list[Binding]:
        """Of the bindings of a variable, those that can reach a read; of one in a function, at the calls that run it.

        `model = accelerator.prepare(model)` at module level is seen by functions that are called afterwards.
        """
        found = super().reaching(name, owner)
        if owner.is_class and "." in name.id and len(found) > 1:
            return self._of_object(name, owner, found)
        home = owner.node if isinstance(owner.node, FUNCTIONS) else None
        index = self.index
        if len(found) < 2 or self._timeline is None or index.function(name) is home:
            return found
        if any(index.function(b.node) is not home for b in found if b.how is not How.PARAMETER):
            return found
        read = (name, owner)
        if read not in self._reached:
            self._reached[read] = found  # a recursive question is answered without
            places = self._timeline.places(name, home)
            if places:
                at_calls = [
                    b
                    for place in places
                    for b in super(AccelerateResolver, self).reaching(self._at(name, place), owner)
                ]
                self._reached[read] = [b for b in found if b in at_calls] or found
        return self._reached[read]

    def _of_object(self, name: ast.Name, owner: Scope, found: list[Binding]) -> list[Binding]:
        """Of the bindings of an attribute, those that can reach a read in a method: the last ones of the constructor,
        if that has surely run before it, or those of the method itself, if there are any before the read."""
        maker = self.constructor(owner.node) if isinstance(owner.node, ast.ClassDef) else None
        return self._of_self(name, maker, found)

    def current(self, read: ast.Attribute, found: list[Binding]) -> list[Binding]:
        """Of the bindings of an attribute that is no variable, those that can reach a read: where only methods of one
        class read and bind it, of their own object (a trainer that is a module, or has a decorator)."""
        cls = self._own_class(read)
        if len(found) < 2 or cls is None or any(self._own_class(b.node) is not cls for b in found):
            return found
        maker = self.constructor(cls)
        found = [b for b in found if b.how is not How.AUGMENT and not is_placeholder(b)] or found
        if maker is None or self.index.function(read) is not maker:
            return self._of_self(read, maker, found)
        later = self._later(maker)
        made = [b for b in found if self.index.function(b.node) not in later]
        sure = {self.index.statement(b.node) for b in made if b.how is How.ASSIGN and b.value is not None}
        reaching = Reaching(self.index, made, maker, sure, self._passes)
        return (reaching.of(read) if reaching.local else made) or found

    def attribute_bindings(self, node: ast.Attribute) -> list[Binding]:
        """Where what an attribute holds is set."""
        self.values(node)
        return self.expressions.set_alike(node)

    def annotated(self, annotation: ast.expr | None) -> tuple[Role, ast.AST | None]:
        """What a parameter is, by its annotation; with its class, if that is one of the script."""
        name = self.qualified(annotation) if annotation is not None else None
        bindings = self.bindings(annotation) if isinstance(annotation, ast.Name) else []
        cls = bindings[0].node if len(bindings) == 1 and bindings[0].how is How.CLASS else None
        role = self.class_role(cls) if cls is not None else None
        return role or (self.library_class(name) if name else None) or Role.OBJECT, cls if role is not None else None

    def _own_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class of whose object a method reads or binds an attribute: `self.model`."""
        return own_class(self.index, node.value) if isinstance(node, ast.Attribute) else None

    def _of_self(self, name: ast.Name | ast.Attribute, maker: Function | None, found: list[Binding]) -> list[Binding]:
        index, function = self.index, self.index.function(name)
        homes = {index.function(binding.node) for binding in found}
        if maker is None or function is None or function is maker or not homes <= {maker, function}:
            return found
        here = index.statement(name)
        again = bool(index.enclosing_loops(name))  # what a statement binds itself, it reads in the next iteration
        own = [
            b for b in found if index.function(b.node) is function and (again or index.statement(b.node) is not here)
        ]
        before = own or [b for b in found if index.function(b.node) is maker]
        if own and any(position(b.node) > position(name) for b in own):
            return found
        if not own and function not in self._later(maker):
            return found
        chain = index.chain(name) if own else []
        sure = [b for b in before if self._surely(b, maker, chain)]
        last = max((position(b.node) for b in sure), default=None)
        return [b for b in before if position(b.node) >= last] if last is not None else found

    def _surely(self, binding: Binding, maker: ast.AST, chain: list[ast.stmt]) -> bool:
        """Whether a binding is surely made: before what stands in other statements, or else by a constructor."""
        statement = self.index.statement(binding.node)
        return self.runs_before(statement, chain) if chain else self.index.parents.get(statement) is maker

    def _at(self, name: ast.Name, place: ast.AST) -> ast.Name:
        """The read of a variable as if it stood where a call is."""
        read = ast.copy_location(ast.Name(name.id, ast.Load()), place)
        self.index.parents[read] = self.index.parents[place]
        return read

    @cached_property
    def run_by_all(self) -> frozenset[Function]:
        """The functions that every process runs, if any does: they call what an accelerator does on all together."""
        calls = (call for name in _BY_ALL for call in self.index.methods.get(name, ()))
        homes = {
            self.index.function(call)
            for call in calls
            if isinstance(call.func, ast.Attribute) and any(map(is_accelerator, self.values(call.func.value)))
        }
        return frozenset(home for home in homes if isinstance(home, FUNCTIONS))

    def is_prepared(self, value: Value) -> bool:
        """Whether a value is what `prepare` returned."""
        return value.origin in self.prepared

    def made(self, value: Value) -> Value:
        return self.original(value)

    def original(self, value: Value) -> Value:
        """What `prepare` was given, of what it returned."""
        return value.inner[0][0] if self.is_prepared(value) and value.inner else value


class AccelerateFacts(Facts):
    """Facts of a script that uses Accelerate."""

    resolver: AccelerateResolver

    def __init__(self, source: Source | Program) -> None:
        super().__init__(source)
        self.resolver = AccelerateResolver(self.index, self.instances)

    @cached_property
    def executed(self) -> frozenset[ast.AST]:
        """The functions that running the script may run; of a file of trainers for other scripts, these, too."""
        found = executed.functions(self.resolver)
        trainers = [f for f in self.resolver.run_by_all if self.same_file(f, self.tree.body[-1])]
        return found if not found.isdisjoint(trainers) else executed.functions(self.resolver, trainers)


def is_accelerator(value: Value) -> bool:
    """Whether a value is what `Accelerator(...)` returned."""
    return value.role is Role.OBJECT and value.name in _ACCELERATORS


def is_state(value: Value) -> bool:
    """Whether a value is an accelerator, or a state that knows of the processes, too."""
    return is_accelerator(value) or (value.role is Role.OBJECT and value.name in _STATES)
