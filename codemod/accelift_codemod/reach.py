"""Where the accelerator is made, and how it gets to where it is used."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property

from accelift_codemod import states
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function, Role, position
from accelift_codemod.facts.accumulation import Gate, find_gate
from accelift_codemod.facts.conditions import Condition
from accelift_codemod.facts.devices import DeviceVariable
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.passages import Passages
from accelift_codemod.plan import Edit, Need, Operation, Severity
from accelift_codemod.refusals import refuse


class Reach:
    """Decides, once the ordinary rules have spoken, where the accelerator is made and which functions receive it."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.facts = draft.facts
        self.index = draft.facts.index
        self.resolver = draft.facts.resolver
        self.timeline = draft.blueprint.timeline
        self.site: ast.AST = self.facts.tree.body[-1]  # a node of the file in which it is made
        self.home = self._home()
        self.strong = [e for e in draft.edits if e.need is Need.STRONG and not states.suffices(draft, e)]
        self.weak = [e for e in draft.edits if e.need is Need.WEAK and e.node is not None]
        self.site = self._site()
        self.receivers = Passages(self).receivers()
        self.block, self.place = self._position()

    # ---- home

    @cached_property
    def variable(self) -> DeviceVariable | None:
        """The variable in which the script keeps its device, in the function where the accelerator is made."""
        for variable in self.facts.devices.variables:
            statement = variable.statements[0]
            if self.facts.runs(statement) and self.index.function(statement) is self.home and not self.apart(statement):
                return variable
        return None

    def _site(self) -> ast.AST:
        """A node of the file in which the accelerator is made."""
        if self.home is not None:
            return self.home
        tops = self._at_home(e.node for e in self.strong)  # type: ignore[misc]
        for other in tops:
            if not self.facts.same_file(tops[0], other):
                raise refuse(
                    "PREP-NO-POINT",
                    other.lineno,  # type: ignore[attr-defined]
                    "what trains is made or used outside functions in more than one file, and an accelerator that is "
                    "made in one of them does not exist in the others",
                    "make model, optimizer and loaders in one file, or in functions",
                )
        return tops[0] if tops else self.facts.tree.body[-1]

    def apart(self, node: ast.AST) -> bool:
        """Whether code outside functions is in another file than the accelerator."""
        return self.home is None and self.index.function(node) is None and not self.facts.same_file(node, self.site)

    def _home(self) -> Function | None:
        """The function in which the accelerator is made; None for module level."""
        groups = [self.index.function(g.anchor) for g in self.draft.blueprint.groups]
        edits = [e for e in self.draft.edits if e.need is Need.STRONG and not states.suffices(self.draft, e)]
        anchors: list[ast.AST] = [e.node for e in edits if e.node is not None]
        anchors = list(dict.fromkeys(anchors))
        self._chosen_once()
        chosen: list[tuple[bool, Function | None]] = []
        for variable in self.facts.devices.variables:
            statement = variable.statements[0]
            if not self.facts.runs(statement):
                continue
            candidate = self.index.function(statement)
            if candidate is None and variable.scope is not None and not variable.scope.is_module:
                continue
            if candidate is None and not self.facts.same_file(statement, self.facts.tree.body[-1]):
                continue  # of a file that is imported
            if self._leads_to(candidate, anchors):
                chosen.append((self._evaluable(variable.cpu, candidate), candidate))
        if chosen:  # the first function in which it can be told when the device is the CPU
            return next((candidate for known, candidate in chosen if known), chosen[0][1])
        constructors = [c for cls in self.resolver.followed if (c := self.resolver.constructor(cls)) is not None]
        callers = [c for g in groups for c in self.timeline.callers(g) if c is not None]
        for candidate in [*groups, *constructors, *self._makers(), *sorted(callers, key=position, reverse=True)]:
            if self._leads_to(candidate, anchors):
                return candidate
        if all(self.timeline.places(a, None) for a in anchors):
            return None
        raise refuse(
            "PREP-NO-POINT",
            self.draft.blueprint.groups[0].anchor.lineno,
            "there is no one function in which everything that trains is made or called",
            "make model, optimizer and loaders in one function",
        )

    def _chosen_once(self) -> None:
        """Refuse a device that several methods choose: it is another one at other times."""
        for variable in self.facts.devices.variables:
            bindings = variable.scope.bindings[variable.name] if variable.scope is not None else []
            chosen = [b for b in bindings if not isinstance(b.value, ast.Constant) or b.value.value is not None]
            if variable.scope is not None and variable.scope.is_class and "." in variable.name:
                if len({self.index.function(b.node) for b in chosen}) > 1:
                    raise refuse(
                        "DEV-UNKNOWN",
                        chosen[-1].node.lineno,  # type: ignore[attr-defined]
                        f"`{variable.text}` is chosen in several methods, and may be another device at other times",
                        "choose the device in the constructor",
                    )

    def _leads_to(self, candidate: Function | None, anchors: list[ast.AST]) -> bool:
        """Whether all nodes run by a function, or for the object that it constructs."""
        if candidate is not None and self.resolver.is_method(candidate) and not self.is_constructor(candidate):
            return False  # other methods may run before it
        cls = self.resolver.instance(candidate) if candidate is not None and self.is_constructor(candidate) else None
        if cls is not None and cls in self.facts.instances.several:
            return False  # one accelerator for all objects
        return all(self.timeline.places(a, candidate) or self.timeline.follows(a, candidate) for a in anchors)

    def is_constructor(self, function: ast.AST | None) -> bool:
        """Whether a function is the constructor of a followed class."""
        cls = self.resolver.instance(function) if function is not None else None
        return cls is not None and function is self.resolver.constructor(cls)

    def _makers(self) -> list[Function | None]:
        """The functions in which followed objects are made."""
        return [self.index.function(site) for cls in self.resolver.followed for site in self.resolver.sites(cls)]

    def spelled(self, node: ast.AST) -> str:
        """The accelerator as code in the place of a node writes it: methods find it in their object."""
        name = self.draft.blueprint.accelerator
        cls = self.resolver.instance(node)
        if cls is None:
            return self._object(node) or name
        kept = f"{self.resolver.followed[cls]}.{name}"
        if self.is_constructor(self.home) and self.resolver.instance(self.home) is cls:  # type: ignore[arg-type]
            return kept
        constructor = self.resolver.constructor(cls)
        if constructor not in self.receivers:
            return name  # a global
        return name if self._within(node, constructor) else kept

    def _object(self, node: ast.AST) -> str:
        """The accelerator as code spells it that comes after the making of the object which has it."""
        function = self.index.function(node)
        if not self.is_constructor(self.home) or function in self.receivers:
            return ""
        for site in self.resolver.sites(self.resolver.instance(self.home)):  # type: ignore[arg-type]
            statement = self.index.statement(site)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if isinstance(target, ast.Name) and self.index.function(statement) is function:
                block, made = self.index.block(statement)
                if any(b is block and at > made for b, at in map(self.index.block, self.index.chain(node))):
                    return f"{target.id}.{self.draft.blueprint.accelerator}"
        return ""

    def _within(self, node: ast.AST, function: ast.AST) -> bool:
        return node is function or function in self.index.ancestors(node)

    def is_home(self, function: ast.AST | None) -> bool:
        """Whether a function sees the accelerator's variable: it is home, nested in it, or reads module globals.

        Under `if __name__ == "__main__":` a global does not exist for whoever imports the module, so functions get the
        accelerator as a parameter there, unless they read other globals of that block anyway.
        """
        if self.home is None:
            if function is not None and not self.facts.same_file(function, self.site):
                return False
            return function is None or self._inner is None or self._reads_inner(function)
        if self.is_constructor(self.home) and function is not None:
            return self.resolver.instance(function) is self.resolver.instance(self.home)
        while function is not None:
            if function is self.home:
                return True
            function = self.index.function(function)
        return False

    @cached_property
    def _inner(self) -> set[ast.stmt] | None:
        """The statements of the `if __name__ == "__main__":` block, if the accelerator is made there."""
        nodes: list[ast.AST] = [e.node for e in self.strong if e.node is not None]
        nodes += self.variable.statements if self.variable is not None else ()
        tops = {c[0] for n in nodes for c in [self.index.chain(p) for p in self.timeline.places(n, None)] if c}
        top = tops.pop() if len(tops) == 1 else None
        if isinstance(top, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in walk(top.test)):
            return {n for s in top.body for n in walk(s) if isinstance(n, ast.stmt)}
        return None

    def _reads_inner(self, function: ast.AST) -> bool:
        """Whether a function reads a global that only the main block binds."""
        inner = self._inner or set()
        module = self.index.module
        for name in (n for n in walk(function) if isinstance(n, ast.Name)):
            if self.index.scope(name).owner(name.id) is module:
                if all(self.index.statement(b.node) in inner for b in module.bindings[name.id]):
                    return True
        return False

    # ---- where it is made

    def _position(self) -> tuple[list[ast.stmt], int]:
        """The statement list and place before which the accelerator is made."""
        strong = self._at_home(e.node for e in self.strong)  # type: ignore[misc]
        for call in (c for f in self.receivers for c in self.resolver.sites(f)):
            strong += self._at_home([call])
        weak = self._at_home(e.node for e in self.weak if self._may_use(e))  # type: ignore[misc]
        variable = self.variable
        if variable is not None:
            block, at = self.index.block(self._outside_classes(variable.statements[0]))
        elif strong:
            block = self._common(strong)
            at = len(block)
        else:  # a constructor: the object uses it later
            home = self.home
            assert home is not None
            block = home.body
            at = 1 if ast.get_docstring(home, clean=False) is not None and len(block) > 1 else 0
        needed = [i for i in (self._in_block(block, n) for n in strong) if i is not None]
        limit = min(needed, default=len(block) - 1)
        early = [i for i in (self._in_block(block, n) for n in weak) if i is not None]
        wanted = min([at, limit, *early])
        if self.gate is not None and not self._settled(self.gate.steps, block[min(limit, len(block) - 1)]):
            self._keep_accumulation()
        floor = self._floor(block, limit)
        if any(i < floor for i in (self._in_block(block, n) for n in self._urgent()) if i is not None):
            floor = self._floor(block, limit, parsed=False)
        if floor > at and self.gate is not None and not self._may_wait(block, at, floor):
            self._keep_accumulation()  # its number of steps is not known yet where the device is chosen
            floor = self._floor(block, limit)
        chosen = max(floor, wanted)
        if variable is None and floor and floor <= min([limit, *early]) and self._is_here(block[floor]):
            chosen = floor  # right after the arguments are known
        if chosen > limit or not self._may_wait(block, at, chosen):
            raise refuse(
                "DEV-UNKNOWN",
                block[limit].lineno,
                "the accelerator is needed here, before it is known whether the script means the CPU",
                "choose the device before anything else is made",
            )
        return block, chosen

    def _outside_classes(self, statement: ast.stmt) -> ast.stmt:
        """The statement, or the class in whose body it stands."""
        parent = self.index.parents.get(statement)
        return self._outside_classes(parent) if isinstance(parent, ast.ClassDef) else statement

    def _may_wait(self, block: list[ast.stmt], at: int, chosen: int) -> bool:
        """Whether the device variable can be bound later than the script does: nothing reads it in between."""
        variable = self.variable
        if variable is None or chosen <= at:
            return True
        if not variable.whole or variable.scope is None:
            return False
        between = block[at + len(variable.statements) : chosen]
        if variable.scope.is_class and any(
            self.resolver.is_method(f) for statement in between for f in self.timeline.calls_into(statement)
        ):
            return False
        return not any(
            name.id == variable.name for statement in between for name in walk(statement) if isinstance(name, ast.Name)
        )

    def _is_here(self, statement: ast.stmt) -> bool:
        return self.facts.same_file(statement, self.site)

    def _settled(self, steps: ast.expr, limit: ast.stmt) -> bool:
        """Whether an expression has one value for good, and has it before a statement at home."""
        if not self._means_the_same(steps, self.site):
            return False
        for part in walk(steps):
            if isinstance(part, ast.Name):
                owner = self.index.scope(part).owner(part.id)
                if owner is None or not (owner.is_module or owner.is_class or owner.node is self.home):
                    return False
                bindings = self.resolver.bindings(part)
                if len(bindings) > 1 or any(
                    position(b.node) > position(limit) and self.index.function(b.node) is self.home for b in bindings
                ):
                    return False
                if owner.is_class and any(self.index.function(b.node) is not self.home for b in bindings):
                    return False
            elif isinstance(part, ast.Call) or self.index.attribute_bindings.get(getattr(part, "attr", "")):
                return False
        return True

    def _means_the_same(self, node: ast.expr, place: ast.AST) -> bool:
        """Whether an expression means the same in the file of another place."""
        return self.facts.same_file(node, place) or not any(isinstance(n, ast.Name) for n in walk(node))

    def _keep_accumulation(self) -> None:
        """Give up managing the accumulation: the script's own arithmetic stays."""
        for edit in [e for e in self.draft.edits if e.rule == "ACCUMULATE"]:
            self.draft.remove(edit)
        gate = self.gate
        assert gate is not None
        self.draft.findings.append(
            self.draft.finding(
                "ACC-KEPT",
                Severity.NOTE,
                gate.node,
                "this way of accumulating gradients is kept, for the number of steps is not known where the "
                "accelerator is made",
                "nothing has to be done; gradients are averaged after every micro-batch",
            )
        )
        self.__dict__["gate"] = None
        self.strong = [e for e in self.strong if e.rule != "ACCUMULATE"]

    def _may_use(self, edit: Edit) -> bool:
        assert edit.node is not None
        return not self.apart(edit.node) and self.sees(self.index.function(edit.node))

    def sees(self, function: Function | None) -> bool:
        """Whether code in a function can use the accelerator: by the variable, a parameter or its object."""
        if self.is_home(function):
            return True
        cls = self.resolver.instance(function) if function is not None else None
        return (function if cls is None else self.resolver.constructor(cls)) in self.receivers

    def _at_home(self, nodes: Iterable[ast.AST]) -> list[ast.AST]:
        found: list[ast.AST] = []
        for node in nodes:
            found += self.timeline.places(node, self.home)
        return found

    def _common(self, nodes: list[ast.AST]) -> list[ast.stmt]:
        """The innermost statement list that leads to all the nodes."""
        chains = [c for c in (self.index.chain(n) for n in nodes) if c]
        depth = 0
        while (
            all(len(c) > depth + 1 for c in chains)
            and len({c[depth] for c in chains}) == 1
            and isinstance(chains[0][depth], (ast.If, ast.With, ast.Try))
            and len({id(self.index.block(c[depth + 1])[0]) for c in chains}) == 1
        ):
            depth += 1
        return self.index.block(chains[0][depth])[0]

    def _in_block(self, block: list[ast.stmt], node: ast.AST) -> int | None:
        chain = set(self.index.chain(node))
        return next((i for i, s in enumerate(block) if s in chain), None)

    def _urgent(self) -> list[ast.AST]:
        """Where something goes wrong on several processes unless the accelerator is there."""
        edits = (e for e in self.weak if e.otherwise is not None and e.otherwise.severity is not Severity.NOTE)
        return self._at_home(e.node for e in edits if self._may_use(e))  # type: ignore[misc]

    def _floor(self, block: list[ast.stmt], before: int, parsed: bool = True) -> int:
        """The first place after everything that the accelerator's own arguments are made of, and, unless it has to be
        earlier, after the command line has been read."""
        parts = [n for a in self._atoms() for n in walk(a)]
        roots = {n.id for n in parts if isinstance(n, ast.Name)}
        attributes = {n.attr for n in parts if isinstance(n, ast.Attribute)}
        floor = 0
        for i in range(before):
            statement = block[i]
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                continue
            if self._ties_devices(statement) or (parsed and self._parses(statement)):
                floor = i + 1
            elif self.variable is not None and statement in self.variable.statements:
                continue
            elif roots & stores(statement) or any(
                isinstance(n, ast.Attribute)
                and isinstance(n.ctx, ast.Store)
                and n.attr in attributes
                and _root(n) in roots
                for n in walk(statement)
            ):
                floor = i + 1
        return floor

    def _parses(self, statement: ast.stmt) -> bool:
        """Whether a statement reads the command line: `--help` should not start processes' groups."""
        return isinstance(statement, ast.Assign) and any(
            v.role is Role.ARGUMENTS for v in self.resolver.values(statement.value)
        )

    def _ties_devices(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Assign):
            return any(
                isinstance(t, ast.Subscript) and self.resolver.qualified(t.value) == "os.environ"
                for t in statement.targets
            )
        return False

    def _atoms(self) -> list[ast.expr]:
        atoms = [] if self.cpu.constant is not None else self.cpu.atoms()
        gate = self.gate
        return [*atoms, gate.steps] if gate is not None else atoms

    @property
    def replaces_variable(self) -> bool:
        """Whether the accelerator is made just where the device was chosen."""
        return self.variable is not None and self.block[self.place] is self.variable.statements[0]

    @property
    def follows_variable(self) -> bool:
        """Whether the accelerator is made after the place where the device was chosen: both move there."""
        if self.variable is None or self.variable.scope is None:
            return False
        block, at = self.index.block(self.variable.statements[0])
        return block is self.block and at < self.place

    def available(self, edit: Edit) -> bool:
        """Whether the code an edit writes can use the accelerator."""
        node = edit.node
        assert node is not None
        function = self.index.function(node)
        if self.apart(node) or not self.sees(function):
            return edit.need is Need.WEAK and bool(self._object(node))
        moments = self.timeline.moments(node, self.home)
        if not moments and self.timeline.follows(node, self.home):
            return True
        made = self.block[self.place] if self.place < len(self.block) else self.block[-1]
        return bool(moments) and min(moments) >= position(made)

    # ---- what it is made with

    @cached_property
    def cpu(self) -> Condition:
        """When the script means the CPU although an accelerator is there."""
        variables = [v for v in self.facts.devices.variables if self.facts.runs(v.statements[0])]
        if self.variable is not None:
            variables = [self.variable]
        if variables:
            found = {v.cpu for v in variables}
            condition = found.pop() if len(found) == 1 else None
            line = variables[0].statements[0].lineno
        else:
            condition = self.facts.moves.guards_cpu
            moves = self.facts.moves.all
            line = moves[0].call.lineno if moves else 0
            unreadable = self.facts.moves.unreadable
            if condition is None and not moves and unreadable:
                raise refuse(
                    "DEV-UNKNOWN",
                    unreadable[0].lineno,
                    f"it cannot be told whether `{self.facts.segment(unreadable[0])}` is a device, and which",
                    "choose the device in this file, by torch.cuda.is_available() and a flag",
                )
        if condition is not None:
            condition = condition.seen(lambda atom: self._visible(atom, self.home))
        if condition is None or not self._evaluable(condition, self.home):
            raise refuse(
                "DEV-UNKNOWN",
                line,
                "it cannot be told when the script means the CPU",
                "choose the device in one place, by torch.cuda.is_available() and a flag",
            )
        return condition

    def _evaluable(self, condition: Condition | None, home: Function | None) -> bool:
        """Whether the names in a condition mean the same in a function where the accelerator may be made."""
        if condition is None:
            return False
        seen = condition.seen(lambda atom: self._visible(atom, home))
        return all(self._visible(atom, home) for atom in seen.atoms())

    def _visible(self, atom: ast.expr, home: Function | None) -> bool:
        """Whether the names in an expression mean the same in a function."""
        if not self._means_the_same(atom, home if home is not None else self.site):
            return False
        for name in (n for n in walk(atom) if isinstance(n, ast.Name)):
            owner = self.index.scope(name).owner(name.id)
            if owner is None or owner.is_module:
                continue
            bindings = owner.bindings[name.id]
            if owner.is_class and all(self.index.function(b.node) is home for b in bindings):
                continue
            if owner.node is not home:
                return False
        return True

    @cached_property
    def gate(self) -> Gate | None:
        """The accumulation that the accelerator manages."""
        if not any(e.rule == "ACCUMULATE" and e.operation is Operation.ENCLOSE for e in self.draft.edits):
            return None
        for loop in self.draft.blueprint.train_loops:
            gate = find_gate(self.facts.resolver, loop)
            if gate is not None:
                return gate
        return None


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
