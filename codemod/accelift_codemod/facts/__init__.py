"""Facts: one immutable description of a script. They know nothing of rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from accelift_codemod.facts import (
    choices,
    dataclass_fields,
    executed,
    held_methods,
    hooks,
    inheritance,
    instances,
    looked_up,
    named_methods,
    outside,
    spawned,
)
from accelift_codemod.facts.batches import Batches
from accelift_codemod.facts.byhand import ByHand
from accelift_codemod.facts.classes import is_static
from accelift_codemod.facts.command_line import CommandLine
from accelift_codemod.facts.devices import Devices
from accelift_codemod.facts.extents import Extents
from accelift_codemod.facts.handmade import Handmade
from accelift_codemod.facts.index import FUNCTIONS, MARK, Binding, Function, How, Index, Scope, position
from accelift_codemod.facts.kinds import Kind, Kinds
from accelift_codemod.facts.layout import Collated, Layouts
from accelift_codemod.facts.layout.doubting import Doubting
from accelift_codemod.facts.layout.supposing import Supposing
from accelift_codemod.facts.layout.trusting import Trusting
from accelift_codemod.facts.loops import BatchLoop, Loops
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.moves import Moves
from accelift_codemod.facts.objects import Objects
from accelift_codemod.facts.processes import Processes
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.simplifying import Conditions
from accelift_codemod.facts.uses import often
from accelift_codemod.facts.values import Evidence, Role, Value
from accelift_codemod.facts.wholes import Wholes
from accelift_codemod.source import Source

if TYPE_CHECKING:
    from accelift_codemod.project.program import Program

__all__ = ["BatchLoop", "Binding", "Evidence", "Facts", "Function", "How", "Kind", "Role", "Scope", "Value", "position"]


class Facts:
    """Everything the rules may ask about one script, or about a program: a script and the project files it imports.

    Answers are computed when first asked and kept; nothing changes them afterwards. In `tree`, of which `index` is the
    index, attributes of self may be variables (see instances.py) and bases part of their derived class (see
    inheritance.py); `written` is the index of the source's own tree. With a `case`, they are those of the script where
    one class is chosen of several (see choices.py).
    """

    def __init__(
        self,
        source: Source | Program,
        known: Mapping[str, Role] | None = None,
        case: int | None = None,
        apart: frozenset[str] = frozenset(),
    ) -> None:
        self.source = source
        self.known: Mapping[str, Role] = known or {}
        self.assumed: frozenset[str] = frozenset()  # library functions that are taken to give loaders
        self.stateless = False  # whether no code may ask for the state of the processes instead of the accelerator
        self.wanted: frozenset[str] = frozenset()  # globals that files take which are no part of the program
        self.spared: frozenset[str] = frozenset()  # and those whose loops stay as they are, for these files
        self.apart = apart  # and the classes that are only followed if they train, as these files make objects of them
        self.by_state = False  # whether the globals that files take ask for the state of the processes, and stay
        self.written = Index.of(source.tree)
        self.spawned = spawned.find(self.written)
        direct = Index(self.spawned.tree) if self.spawned.ranks else self.written
        self.looked_up = looked_up.find(direct, self._members, self._has_more)
        direct = Index(self.looked_up.tree) if self.looked_up.originals else direct
        self.named = named_methods.find(direct)
        direct = Index(self.named.tree) if self.named.originals else direct
        self.filled = dataclass_fields.find(direct)
        direct = Index(self.filled.tree) if self.filled.originals else direct
        self.held = held_methods.find(direct)
        direct = Index(self.held.tree) if self.held.originals else direct
        self.choices = choices.find(direct)
        self.case = self.choices.whole if case is None else self.choices.cases[case]
        direct = Index(self.case.tree) if self.case.originals else direct
        self.flat = inheritance.find(direct)
        direct = Index(self.flat.tree) if self.flat.originals else direct
        barred = frozenset[ast.AST]()
        while True:
            self.instances = instances.find(direct, barred, self.flat.modules, apart)
            self.tree = self.instances.tree
            self.index = self.instances.index
            found = self.instances
            self.resolver = Resolver(self.index, found.followed, known, found.outside, found.called)
            wrong = outside.wrong(self.resolver)
            if not wrong:
                break
            barred |= {self.instances.originals.get(n, n) for n in wrong}

    def assuming(self, loader: str) -> Facts:
        """These facts, if a library function gives a DataLoader."""
        case = self.choices.cases.index(self.case) if self.case in self.choices.cases else None
        facts = Facts(self.source, {**self.known, loader: Role.LOADER}, case, self.apart)
        facts.assumed = self.assumed | {loader}
        facts.stateless, facts.wanted, facts.spared = self.stateless, self.wanted, self.spared
        facts.by_state = self.by_state
        return facts

    @cached_property
    def cases(self) -> list[Facts]:
        """The facts for each class that may be chosen, if what the classes do cannot be followed together."""
        unknown = self.choices.functions or self.choices.classes & self.instances.unknown.keys()
        if self.case is not self.choices.whole or not unknown:
            return []
        found = [Facts(self.source, self.known, number, self.apart) for number in range(len(self.choices.cases))]
        for facts in found:
            facts.wanted, facts.spared, facts.by_state = self.wanted, self.spared, self.by_state
        return found

    @cached_property
    def objects(self) -> Objects:
        return Objects(self.resolver, Wholes(self.resolver, self.loops))

    @cached_property
    def loops(self) -> Loops:
        return Loops(self.resolver)

    @cached_property
    def by_hand(self) -> ByHand:
        return ByHand(self.resolver)

    @cached_property
    def command_line(self) -> CommandLine:
        return CommandLine(self.resolver)

    @cached_property
    def processes(self) -> Processes:
        own = {call for call in self.index.calls if self._unfolded(call) in self.spawned.ranks}
        return Processes(self.resolver, self.command_line, frozenset(own) or self.spawned.ranks, self.idle)

    @cached_property
    def devices(self) -> Devices:
        conditions = Conditions(self.resolver, self.command_line, self.segment, self.runs)
        return Devices(conditions, self.processes)

    @cached_property
    def moves(self) -> Moves:
        return Moves(self.devices)

    @cached_property
    def batches(self) -> Batches:
        return Batches(self.objects, self.loops, self.moves)

    @cached_property
    def layouts(self) -> Layouts:
        return Layouts(self.objects, self.extents, hooked=self._hooked, registered=self._registered)

    def layouts_where(self, whole: frozenset[ast.AST]) -> Layouts:
        """The interpreter to which some expressions do not depend on the batch."""
        return Layouts(self.objects, self.extents, whole, self._hooked, self._registered)

    @cached_property
    def supposed(self) -> Supposing:
        return Supposing(self.objects, self.extents, self._hooked, self._registered)

    def _hooked(self) -> dict[ast.expr, list[hooks.Kept]]:
        """What hooks of networks have put where, by the places that read it."""
        found: dict[ast.expr, list[hooks.Kept]] = {}
        for one in hooks.kept(self):
            for read in hooks.reads(self, one):
                found.setdefault(read, []).append(one)
        return found

    def _registered(self) -> list[tuple[ast.Call, hooks.Hook]]:
        return hooks.registered(self)

    @cached_property
    def doubted(self) -> Doubting:
        return Doubting(self.objects, self.extents)

    @cached_property
    def compared(self) -> Doubting:
        """Layouts of code that take what is compared with the samples, one by one, for as many rows."""
        return Doubting(self.objects, self.extents, compares=True)

    @cached_property
    def trusting(self) -> Trusting:
        """Layouts of code that take networks of libraries to return one row for each sample."""
        return Trusting(self.objects, self.extents)

    @cached_property
    def collated(self) -> Collated:
        return Collated(self.objects)

    @cached_property
    def extents(self) -> Extents:
        return Extents(self.objects)

    @cached_property
    def kinds(self) -> Kinds:
        return Kinds(self.objects)

    @cached_property
    def handmade(self) -> Handmade:
        return Handmade(self)

    def segment(self, node: ast.AST) -> str:
        """The author's text of a node."""
        return self.source.segment(self.original(node))

    def short(self, node: ast.AST) -> str:
        """The author's text of a node on one line, cut off where it is long."""
        text = " ".join(self.segment(node).split())
        return text if len(text) <= 60 else f"{text[:57]}..."

    def same_file(self, left: ast.AST, right: ast.AST) -> bool:
        """Whether two nodes stand in one file."""
        unit = self.source.unit
        return unit(left.lineno) is unit(right.lineno)  # type: ignore[attr-defined]

    def body(self, node: ast.AST) -> list[ast.stmt]:
        """The statements of the file in which a node stands."""
        return [s for s in self.tree.body if self.same_file(s, node)]

    def imported(self, module: str, node: ast.AST) -> str:
        """What a library module is called in the file in which a node stands; empty if it is not imported there.

        Not by a name that means something else in the function around the node.
        """
        scope = self.index.scope(node)
        for name, bindings in self.index.module.bindings.items():
            owner = scope.owner(name.rpartition(MARK)[2])
            if owner is not None and not owner.is_module:
                continue
            if all(b.qualified == module and self.same_file(b.node, node) for b in bindings):
                return name
        return ""

    @cached_property
    def bound(self) -> frozenset[str]:
        """Every name that something in the script is bound to."""
        return frozenset(name.rpartition(MARK)[2] for s in self.index.scopes.values() for name in s.bindings)

    def original(self, node: ast.AST) -> ast.AST:
        """The node of the source's own tree that a node stands for."""
        node = self._unfolded(node)
        return self.spawned.originals.get(node, node)

    def is_twin(self, node: ast.AST) -> bool:
        """Whether other nodes stand for the same of the source, for several classes inherit it (see inheritance.py)."""
        return self.instances.originals.get(node, node) in self.flat.twins

    def _members(self, node: ast.expr) -> Sequence[str] | None:
        """The classes and functions of the project's module that an expression is; None if it is none."""
        modules = {} if isinstance(self.source, Source) else self.source.modules
        return modules.get(self.spawned.originals.get(node, node))

    def _has_more(self, node: ast.expr) -> bool:
        """Whether the project's module that an expression is has other functions and classes, too."""
        more = set() if isinstance(self.source, Source) else self.source.more
        return self.spawned.originals.get(node, node) in more

    def kinds_looked_up(self, call: ast.AST) -> str:
        """What a call may make that looks up in a module what it runs, where that differs; else empty."""
        unclear = self.looked_up.unclear
        for tree in (self.instances, self.flat, self.case, self.held, self.filled, self.named, self.looked_up):
            if call in unclear:
                break
            call = tree.originals.get(call, call)
        return unclear.get(call, "")

    def _unfolded(self, node: ast.AST) -> ast.AST:
        """The node that a node stands for in the tree in which classes are as they are written."""
        for originals in self._originals:
            node = originals.get(node, node)
        return node

    @cached_property
    def _originals(self) -> list[Mapping[ast.AST, ast.AST]]:
        """What the nodes of each tree that is a copy stand for, from the last one back."""
        trees = (self.instances, self.flat, self.case, self.held, self.filled, self.named, self.looked_up)
        return [tree.originals for tree in trees if tree.originals]

    def unfollowed(self, node: ast.AST) -> ast.ClassDef | None:
        """The class around a node, unless its attributes are followed, or the node has nothing to do with them."""
        if self.resolver.instance(node) is not None:
            return None
        function = self.index.function(node)
        while function is not None and not isinstance(self.index.parents.get(function), ast.ClassDef):
            function = self.index.function(function)
        return None if function is not None and self.stands_alone(function) else self.index.enclosing_class(node)

    def stands_alone(self, function: Function) -> bool:
        """Whether a method is a function as any other: it is static, and nothing but calls that are known reads it."""
        cls = self.index.parents.get(function)
        if not isinstance(cls, ast.ClassDef) or not self.index.scope(cls).is_module:
            return False
        if not is_static(function) or len(function.decorator_list) > 1 or self.references(function):
            return False
        sites = set(self.resolver.sites(function))
        if not self.only_one(function) and not all(self._names_class(site, cls) for site in sites):
            return False
        return all(
            self.index.parents.get(read) in sites or self.of_another(read, function)
            for read in self.index.attributes.get(function.name, ())
        )

    def _names_class(self, call: ast.Call, cls: ast.ClassDef) -> bool:
        """Whether a call is of a method of this very class, whatever is derived of it: `Trainer.evaluate()`."""
        values = self.resolver.values(call.func.value) if isinstance(call.func, ast.Attribute) else ()
        return bool(values) and all(v.role is Role.CLASS and v.declaration is cls for v in values)

    def only_one(self, function: Function) -> bool:
        """Whether no class that inherits a method, or that it is inherited from, has another of its name."""
        cls = self.index.parents.get(function)
        families = (f for c in self.index.classes if cls in (f := self.resolver.ancestry(c)))
        return not any(s is not function for f in families for c in f for s in c.body if _is_named(s, function.name))

    def of_another(self, read: ast.Attribute, function: Function) -> bool:
        """Whether an attribute of a method's name surely belongs to an object that has another one, or none."""
        values = self.resolver.values(read.value)
        return bool(values) and all(
            self.resolver.method(v.declaration, read.attr) is not function
            if v.declaration is not None
            else v.role is not Role.OBJECT or bool(v.name)
            for v in values
        )

    # ---- what runs

    @cached_property
    def executed(self) -> frozenset[ast.AST]:
        """Functions that running the script may run."""
        return executed.functions(self.resolver)

    @memoised
    def runs(self, node: ast.AST) -> bool:
        """Whether running the script may evaluate a node."""
        function = self.index.function(node)
        while function is not None:
            if function not in self.executed:
                return False
            function = self.index.function(function)
        return True

    @memoised
    def has_several(self, cls: ast.AST) -> bool:
        """Whether running the script may make more than one object of a followed class."""
        if cls not in self.instances.several:
            return False
        made = [call for call in self.resolver.sites(cls) if self.runs(call)]
        return len(made) != 1 or often(self.index, made[0])

    def idle(self, node: ast.AST) -> bool:
        """Whether code of an imported file is there for other scripts."""
        return not self.same_file(node, self.tree.body[-1]) and not self.runs(node)

    # ---- references

    def references(self, function: Function) -> list[ast.Name]:
        """Loads of a function's name other than as the callee of a call."""
        owner = self.index.scope(function)
        found = []
        for name in self.loads(owner, function.name):
            parent = self.index.parents.get(name)
            if not (isinstance(parent, ast.Call) and parent.func is name) and self.resolver.may_be(name, function):
                found.append(name)
        return found

    def loads(self, owner: Scope, name: str) -> list[ast.Name]:
        """Every load of a scope's variable, in nested scopes too, in source order."""
        return self._loads.get((owner, name), [])

    def loads_of(self, name: ast.Name) -> list[ast.Name]:
        """Every load of the variable that a name is, in nested scopes too, in source order."""
        owner = self.index.scope(name).owner(name.id)
        return self.loads(owner, name.id) if owner is not None else []

    def readers(self, target: ast.Name) -> list[ast.Name]:
        """The loads of a variable that may read what a place in the script binds it to, in source order."""
        owner = self.index.scope(target).owner(target.id)
        return self.readers_of((owner, target.id)).get(target, []) if owner is not None else []

    @memoised
    def readers_of(self, variable: tuple[Scope, str]) -> dict[ast.AST, list[ast.Name]]:
        """The loads of a variable by what they may read: the nodes that bind it."""
        return self.resolver.by_binding(self.loads(*variable), variable[0])

    def asked(self, owner: Scope, name: str) -> list[ast.Attribute]:
        """The reads of an attribute that is a variable where others ask an object for it: `trainer.epoch`."""
        attribute = name.partition(".")[2]
        asked = self.instances.asked.items() if attribute else ()
        return [a for a, cls in asked if cls is owner.node and a.attr == attribute and isinstance(a.ctx, ast.Load)]

    @cached_property
    def _loads(self) -> dict[tuple[Scope, str], list[ast.Name]]:
        """The loads of every variable, in source order; of imports, also those of what they bring from other files."""
        reads = self.index.reads
        found = {(owner, name): [*loads] for (owner, name), loads in reads.items() if owner is not None}
        imports = {
            self.original(binding.node): (scope, name)
            for scope in (self.index.scopes.values() if self.source.reads else ())
            for name, bindings in scope.bindings.items()
            for binding in bindings
            if binding.how is How.IMPORT
        }
        for load in (n for loads in reads.values() for n in loads) if imports else ():
            for alias in self.source.reads.get(self.original(load), ()):
                found.setdefault(imports[alias], []).append(load)
        for loads in found.values():
            loads.sort(key=position)
        return found

    def reads(self) -> Iterator[ast.Name | ast.Attribute | ast.Subscript]:
        """Reads of variables and of the entries of containers, and of attributes and properties of a followed object
        where it is not called self."""
        for variable in self._variables():
            read: ast.Name | ast.Attribute | ast.Subscript = variable
            yield read
            while isinstance(entry := self.index.parents.get(read), ast.Subscript) and entry.value is read:
                yield entry
                read = entry

    def _variables(self) -> Iterator[ast.Name | ast.Attribute]:
        for scope in self.index.scopes.values():
            for names in scope.loads.values():
                yield from names
        for cls, own in self.instances.followed.items():
            variables = [n.partition(".")[2] for n in self.index.scopes[cls].bindings if n.startswith(f"{own}.")]
            properties = [
                s.name for s in cls.body if isinstance(s, FUNCTIONS) and instances.is_property(self.resolver, s)
            ]
            for attribute in (*variables, *properties):
                for node in self.index.attributes.get(attribute, []):
                    if any(v.declaration is cls for v in self.resolver.values(node.value)):
                        yield node

    # ---- evidence

    def evidence(self, node: ast.AST) -> tuple[Evidence, ...]:
        """How an expression came to be what it is: the chain from its creation to here."""
        steps: list[Evidence] = []
        current: ast.AST | None = node
        for _ in range(8):
            if not isinstance(current, ast.Name):
                break
            owner = self.index.scope(current).owner(current.id)
            bindings = self.resolver.reaching(current, owner) if owner else []
            if not bindings:
                break
            binding = bindings[0]
            current = self._source_of(binding, steps)
        return tuple(reversed(steps))

    def _source_of(self, binding: Binding, steps: list[Evidence]) -> ast.AST | None:
        line = binding.node.lineno  # type: ignore[attr-defined]
        if binding.how is How.PARAMETER and isinstance(binding.node, ast.arg):
            function = self.index.parents[self.index.parents[binding.node]]
            if not isinstance(function, FUNCTIONS):
                return None
            steps.append(Evidence(line, f"parameter `{binding.name}` of {function.name}()"))
            for call in self.resolver.sites(function):
                given = (self.resolver.bind(call, function) or {}).get(binding.name)
                if given is not None:
                    steps.append(Evidence(call.lineno, f"called with `{self.segment(given)}`"))
                    return given
            return None
        if binding.value is not None:
            verb = {How.LOOP: "iterates over", How.WITH: "enters"}.get(binding.how, "is")
            text = self.segment(binding.value).split("\n")[0]
            steps.append(Evidence(line, f"`{binding.name}` {verb} `{text}`"))
            return binding.value if isinstance(binding.value, ast.Name) else None
        return None

    def objects_of(self, role: Role) -> Iterator[tuple[ast.Call, Value]]:
        """The calls that create objects of a role."""
        return iter(self._made.get(role, ()))

    @cached_property
    def _made(self) -> dict[Role, list[tuple[ast.Call, Value]]]:
        found: dict[Role, list[tuple[ast.Call, Value]]] = {}
        for call in self.index.calls:
            for value in self.resolver.values(call):
                if value.origin is call:
                    found.setdefault(value.role, []).append((call, value))
        return found


def _is_named(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, FUNCTIONS) and statement.name == name
