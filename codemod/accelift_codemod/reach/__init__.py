"""How the accelerator gets from where it is made to where it is used."""

from __future__ import annotations

import ast
from functools import cached_property

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function, position
from accelift_codemod.facts.accumulation import Gate, find_gate
from accelift_codemod.plan import Edit, Need, Operation, Severity
from accelift_codemod.reach.home import Home
from accelift_codemod.reach.making import Making
from accelift_codemod.reach.passages import Passages


class Reach(Home):
    """Decides which functions receive the accelerator, and before which statement it is made."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.receivers = Passages(self).receivers()
        self.making = Making(self)
        self.block, self.place = self.making.place()
        ties = self.making.ties_devices  # the environment, for CUDA
        self.tying = [s for s in self.block[: self.place] if ties(s, ())]

    def sees(self, function: Function | None) -> bool:
        """Whether code in a function can use the accelerator: by the variable, a parameter or its object."""
        if self.is_home(function):
            return True
        cls = self.keeper(function) if function is not None else None
        return (function if cls is None else self.resolver.constructor(cls)) in self.receivers

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
        if not moments or min(moments) < position(made):
            return False
        if self.facts.processes.managed:
            return True  # where a switch leaves it out, DIST-SWITCH tells
        return all(self.surely_made(place, self.block, self.place) for place in self.at_home([node]))

    def spelled(self, node: ast.AST) -> str:
        """The accelerator as code in the place of a node writes it: methods find it in their object."""
        name = self.draft.blueprint.accelerator
        cls = self.keeper(node)
        if cls is None:
            return self._object(node) or name
        kept = f"{self.resolver.followed[cls]}.{name}"
        if self.is_constructor(self.home) and self.resolver.instance(self.home) is cls:  # type: ignore[arg-type]
            return kept
        constructor = self.resolver.constructor(cls)
        if constructor not in self.receivers:
            return name  # a global
        inside = any(self._within(node, f) for f in self.receivers if self.resolver.instance(f) is cls)
        return name if inside else kept

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

    # ---- where it is made

    @property
    def replaces_variable(self) -> bool:
        """Whether the accelerator is made just where the device was chosen."""
        return self.variable is not None and self.block[self.place] is self.variable.statements[0]

    @property
    def follows_variable(self) -> bool:
        """Whether the accelerator is made after the place where the device was chosen: both move there."""
        if self.variable is None or self.variable.scope is None or self.asks is not None:
            return False
        block, at = self.index.block(self.variable.statements[0])
        return block is self.block and at < self.place

    # ---- the accumulation

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

    def keep_accumulation(self) -> None:
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
