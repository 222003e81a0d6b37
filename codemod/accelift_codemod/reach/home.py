"""The function in which the accelerator is made, and who sees it there."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function, position
from accelift_codemod.facts.command_line import is_main
from accelift_codemod.facts.conditions import FALSE, TRUE, Condition
from accelift_codemod.facts.device_variables import DeviceVariable
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Need
from accelift_codemod.reach import asking, states
from accelift_codemod.reasons import refuse


class Home:
    """Decides, once the ordinary rules have spoken, in which function the accelerator is made."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.facts = draft.facts
        self.index = draft.facts.index
        self.resolver = draft.facts.resolver
        self.timeline = draft.blueprint.timeline
        self.site: ast.AST = self.facts.tree.body[-1]  # a node of the file in which it is made
        needed = [e for e in draft.edits if e.need is Need.STRONG]
        self.stated = [e for e in needed if states.suffices(draft, e)]  # for which the state of the processes is enough
        self.strong = [e for e in needed if e not in self.stated]
        self.home = self._home()
        self.weak = [e for e in draft.edits if e.need is Need.WEAK and e.node is not None]
        self.site = self._site()

    @cached_property
    def variable(self) -> DeviceVariable | None:
        """The variable in which the script keeps its device, in the function where the accelerator is made."""
        for variable in self.facts.devices.variables:
            statement = variable.statements[0]
            if self.facts.runs(statement) and self.index.function(statement) is self.home and not self.apart(statement):
                return variable
        return None

    @cached_property
    def asks(self) -> Condition | None:
        """Whether the chosen device itself tells if it is the CPU, for its choice cannot be read, and by which test."""
        return asking.question(self)

    def _site(self) -> ast.AST:
        """A node of the file in which the accelerator is made."""
        if self.home is not None:
            return self.home
        tops = self.at_home(e.node for e in self.strong)  # type: ignore[misc]
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

    def at_home(self, nodes: Iterable[ast.AST]) -> list[ast.AST]:
        found: list[ast.AST] = []
        for node in nodes:
            found += self.timeline.places(node, self.home)
        return found

    def surely_made(self, node: ast.AST, block: list[ast.stmt], place: int) -> bool:
        """Whether what is made in a list of statements is there for a node at home: no branch leaves it out."""
        around = {id(b): at for b, at in map(self.index.block, self.index.chain(node))}
        while around.get(id(block), -1) < place:
            owner = self.index.parents.get(block[0])
            if not isinstance(owner, (ast.With, ast.AsyncWith)) and not (isinstance(owner, ast.If) and is_main(owner)):
                return False
            block, at = self.index.block(owner)
            place = at + 1
        return True

    def _home(self) -> Function | None:
        """The function in which the accelerator is made; None for module level."""
        groups = [self.index.function(g.anchor) for g in self.draft.blueprint.groups]
        anchors: list[ast.AST] = [e.node for e in self.strong if e.node is not None]
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
                chosen.append((self.evaluable(variable.cpu, candidate), candidate))
        if chosen:  # the first function in which it can be told when the device is the CPU
            return next((candidate for known, candidate in chosen if known), chosen[0][1])
        followed = [cls for cls in self.resolver.followed if cls not in self.resolver.self_trained]
        constructors = [c for cls in followed if (c := self.resolver.constructor(cls)) is not None]
        callers = [c for g in groups for c in self.timeline.callers(g) if c is not None]
        for candidate in [*groups, *constructors, *self._makers(), *sorted(callers, key=position, reverse=True)]:
            if self._leads_to(candidate, anchors):
                return candidate
        if all(self._runs_by(a, None) for a in anchors):
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
        if cls is not None and self.facts.has_several(cls):
            return False  # one accelerator for all objects
        return all(self._runs_by(a, candidate) or self.timeline.follows(a, candidate) for a in anchors)

    def _runs_by(self, node: ast.AST, candidate: Function | None) -> bool:
        """Whether a node runs by a function; so would methods that nothing calls of an object that it makes."""
        if self.timeline.places(node, candidate):
            return True
        cls, function = self.resolver.instance(node), self.index.function(node)
        if cls is None or function is None or self.timeline.callers(function):
            return False
        sites = self.resolver.sites(cls)
        return bool(sites) and all(self.timeline.places(site, candidate) for site in sites)

    def is_constructor(self, function: ast.AST | None) -> bool:
        """Whether a function is the constructor of a followed class."""
        cls = self.keeper(function) if function is not None else None
        return cls is not None and function is self.resolver.constructor(cls)

    def keeper(self, node: ast.AST) -> ast.ClassDef | None:
        """The followed class around a node, whose objects keep the accelerator: networks do not, they get copied."""
        cls = self.resolver.instance(node)
        return None if cls in self.resolver.self_trained else cls

    def _makers(self) -> list[Function | None]:
        """The functions in which followed objects are made."""
        return [self.index.function(site) for cls in self.resolver.followed for site in self.resolver.sites(cls)]

    # ---- who sees it

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
        if isinstance(top, ast.If) and is_main(top):
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

    # ---- what it is made with

    def _finer(self, condition: Condition | None) -> Condition | None:
        """When the script means the CPU, also by how many GPUs it is to use, if that is known where it is made."""
        numbered = self.facts.moves.numbered_cpu if condition in (None, FALSE) else None
        seen = numbered.seen(lambda atom: self._visible(atom, self.home)) if numbered is not None else None
        return numbered if seen is not None and self.evaluable(seen, self.home) else condition

    @cached_property
    def cpu(self) -> Condition:
        """When the script means the CPU although an accelerator is there."""
        mixed = next(filter(self.facts.moves.numbered.is_choice, self.facts.moves.unreadable), None)
        if mixed is not None:
            raise refuse(
                "DEV-UNKNOWN",
                mixed.lineno,
                f"`{self.facts.segment(mixed)}` is the number of a GPU, or else a device, and is used for more than to "
                "say where something is to be: it stays what it is, and so would the GPU of every process",
                "choose a torch.device, and keep the number in a variable of its own",
            )
        variables = [v for v in self.facts.devices.variables if self.facts.runs(v.statements[0])]
        if self.variable is not None:
            variables = [self.variable]
        if variables:
            found = {v.cpu for v in variables}
            batches = self.facts.moves.batches_cpu if self.variable is None else None
            if batches is not None and None not in found:  # a GPU here, chosen there: networks are where batches are
                found = {batches}
            condition = found.pop() if len(found) == 1 else None
            line = variables[0].statements[0].lineno
        else:
            condition = self._finer(self.facts.moves.guards_cpu)
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
            typed = self.facts.moves.typed if condition is None and all(m.kind == "type" for m in moves) else []
            if typed and not unreadable:
                raise refuse(
                    "DEV-UNKNOWN",
                    typed[0].lineno,
                    f"only `{self.facts.segment(typed[0])}` chooses between CPU and GPU, by a type of tensors or for "
                    "new ones, which would be those of one GPU for every process",
                    "choose a torch.device in one place, and move networks and batches there",
                )
        if self.variable is not None and asking.of_file(self, condition):
            condition = None  # unless the device itself can be asked
        condition = self.asks or condition
        if condition is not None and self.variable is None:
            again = self.facts.devices.conditions.can_be_asked_again
            if not all(map(again, condition.atoms())):
                condition = None  # the script asks for it, too
            elif any(self.facts.devices.is_before(atom) for atom in condition.atoms()):
                condition = None  # what it asks for is another thing after the choice
        if condition is not None:
            condition = condition.seen(lambda atom: self._visible(atom, self.home))
        if condition is None or not self.evaluable(condition, self.home):
            condition = asking.handed_over(self)
        if condition is None or not self.evaluable(condition, self.home):
            raise refuse(
                "DEV-UNKNOWN",
                line,
                "it cannot be told when the script means the CPU",
                "choose the device in one place, by torch.cuda.is_available() and a flag",
            )
        return condition

    @cached_property
    def precision(self) -> str:
        """The expression for the precision that the accelerator takes over from the script; empty if there is none."""
        own = self.draft.own_precision
        condition = own.condition(self.cpu) if own.is_managed else FALSE
        if condition.constant is not None:
            return f'"{own.dtype}"' if condition == TRUE else ""
        if not self.evaluable(condition, self.home):
            raise refuse(
                "AMP-KEPT",
                own.regions[0].call.lineno,
                "where the accelerator is made, it cannot be told when autocast is switched on",
                "leave out --precision managed, and the script keeps its own",
            )
        return f'"{own.dtype}" if {condition.seen(lambda atom: self._visible(atom, self.home))} else "no"'

    def evaluable(self, condition: Condition | None, home: Function | None) -> bool:
        """Whether the names in a condition mean the same in a function where the accelerator may be made."""
        if condition is None:
            return False
        seen = condition.seen(lambda atom: self._visible(atom, home))
        return all(self._visible(atom, home) for atom in seen.atoms())

    def _visible(self, atom: ast.expr, home: Function | None) -> bool:
        """Whether the names in an expression mean the same in a function."""
        if not self.means_the_same(atom, home if home is not None else self.site):
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

    def means_the_same(self, node: ast.expr, place: ast.AST) -> bool:
        """Whether an expression means the same in the file of another place."""
        return self.facts.same_file(node, place) or not any(isinstance(n, ast.Name) for n in walk(node))
