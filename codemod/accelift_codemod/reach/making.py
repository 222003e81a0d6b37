"""The place at which the accelerator is made: after what it is made of, before what needs it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from accelift_codemod.facts import Role, position, uses
from accelift_codemod.facts.conditions import FALSE
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import root, walk
from accelift_codemod.plan import Edit, Severity
from accelift_codemod.reach import changing
from accelift_codemod.reasons import refuse

if TYPE_CHECKING:
    from accelift_codemod.reach import Reach

# Variables of the environment that do not tell which devices there are, nor how processes find each other: Python reads
# them, or a library for text, pictures or logs; and those that may be set later if they have to be, as they are read by
# cuBLAS when it first multiplies.
_NOT_OF_DEVICES = tuple(
    "COMET_ DGL DISPLAY HF_ KAGGLE_ MLFLOW_ MPL NEPTUNE_ PL_ PYTHON QT_ TF_ TOKENIZERS_ TRANSFORMERS_ WANDB_".split()
)
_READ_LATER = ("CUBLAS_",)
_ENVIRONMENT = frozenset({"environ", "putenv"})
_SETTING = frozenset({"os.environ.setdefault", "os.environ.update", "os.putenv"})


class Making:
    """Chooses the statement before which the accelerator is made."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.facts = reach.facts
        self.index = reach.index
        self.resolver = reach.resolver
        self.timeline = reach.timeline

    def place(self) -> tuple[list[ast.stmt], int]:
        """The statement list and place before which the accelerator is made."""
        strong = self.reach.at_home(e.node for e in self.reach.strong)  # type: ignore[misc]
        for call in (c for f in self.reach.receivers for c in self.resolver.sites(f)):
            strong += self.reach.at_home([call])
        weak = self.reach.at_home(e.node for e in self.reach.weak if self._may_use(e))  # type: ignore[misc]
        if self.reach.cpu != FALSE:  # else they may ask before there is an accelerator
            urgent = (e for e in self._risky() if not self._may_use(e) and e.by_state() is not None)
            asking = self.reach.at_home(e.node for e in (*self.reach.stated, *urgent))  # type: ignore[misc]
            weak += filter(self._is_here, asking)  # an imported file runs before there can be an accelerator
        variable = self.reach.variable
        if variable is not None:
            block, at = self.index.block(self._outside_classes(variable.statements[0]))
            at += len(variable.statements) if self.reach.asks is not None else 0
            apart = any(self._in_block(block, node) is None for node in strong)
            if apart and not self.facts.processes.managed:  # else it is told by DIST-SWITCH
                raise refuse(
                    "DEV-UNKNOWN",
                    variable.statements[0].lineno,
                    "the device is only chosen under a condition here, and the accelerator is needed elsewhere, too",
                    "choose the device before the condition",
                )
        elif strong:
            block = self._wide_enough(strong, weak)
            at = len(block)
            weak += self._trained()
        else:  # a constructor: the object uses it later
            home = self.reach.home
            assert home is not None
            block = home.body
            at = 1 if ast.get_docstring(home, clean=False) is not None and len(block) > 1 else 0
        needed = [i for i in (self._in_block(block, n) for n in strong) if i is not None]
        limit = min(needed, default=len(block) - 1)
        early = [i for i in (self._in_block(block, n) for n in weak) if i is not None]
        wanted = min([at, limit, *early])
        if self.reach.gate is not None and not self._settled(self.reach.gate.steps, block[min(limit, len(block) - 1)]):
            self.reach.keep_accumulation()
        asked = at if self.reach.asks is not None else 0  # right after the device, which is asked for
        floor = max(self._floor(block, limit), asked)
        if any(i < floor for i in (self._in_block(block, n) for n in self._urgent()) if i is not None):
            floor = max(self._floor(block, limit, parsed=False), asked)
        if floor > at and self.reach.gate is not None and not self._may_wait(block, at, floor):
            self.reach.keep_accumulation()  # its number of steps is not known yet where the device is chosen
            floor = max(self._floor(block, limit), asked)
        chosen = max(floor, wanted)
        if variable is None and floor and floor <= min([limit, *early]) and self._is_here(block[floor]):
            chosen = floor  # right after the arguments are known
        if chosen <= limit and not self._may_wait(block, at, chosen):  # then before the command line is read
            chosen = max(self._floor(block, limit, parsed=False), asked, wanted)
        if chosen <= limit and not self._may_wait(block, at, chosen):
            raise refuse(
                "DEV-UNKNOWN",
                block[chosen - 1].lineno,
                "the accelerator has to be made after this statement, which sets the environment, reads the command "
                "line or says when the script means the CPU, and the device is used before it",
                "move the statement before the choice of the device",
            )
        if chosen > limit:
            raise refuse(
                "DEV-UNKNOWN",
                block[limit].lineno,
                "the accelerator is needed here, before it is known whether the script means the CPU",
                "choose the device before anything else is made",
            )
        self._check_told(block, chosen)
        return block, chosen

    def _trained(self) -> Iterator[ast.stmt]:
        """Where the prepared models and optimizers are made: the accelerator is made before that, not in its midst."""
        for group in self.reach.draft.blueprint.groups:
            for item in group.items:
                for statement in item.statements if item.kind is not Role.LOADER else ():
                    if self.index.function(statement) is self.reach.home and self._is_here(statement):
                        yield statement

    def _check_told(self, block: list[ast.stmt], chosen: int) -> None:
        """Refuse a device that is chosen before or after the accelerator is made, by what is set in between."""
        choices, setters = self._choices(block), self._setters(block)
        told = min((at for _, at in choices), default=0)
        later = self._floor(block, told, parsed=False) - 1 if told > chosen else -1
        inside = [
            i
            for choice, at in choices
            for setter, i in setters
            if (chosen <= i <= at and self._may_precede(setter, choice))
            or (at <= i < chosen and self._may_precede(choice, setter))
        ]
        line = block[max([later, *inside])].lineno
        if later >= chosen or any(i >= chosen for i in inside):
            raise refuse(
                "DEV-UNKNOWN",
                block[chosen].lineno,
                "the accelerator is needed here, and what tells whether the script means the CPU may be set after "
                f"that: in line {line}",
                f"move this below line {line}, or choose the device before it",
            )
        if inside:
            raise refuse(
                "DEV-UNKNOWN",
                line,
                "the accelerator can only be made after this statement, which may set what has told before whether "
                "the script means the CPU",
                "move the statement before the choice of the device, or after all that trains is made",
            )

    def _may_precede(self, first: ast.AST, second: ast.AST) -> bool:
        """Whether a node may run before another one."""
        here = self.index.function(first) is self.index.function(second)
        return not here or position(first) < position(second) or self.timeline.repeats(first, second)

    def _choices(self, block: list[ast.stmt]) -> list[tuple[ast.AST, int]]:
        """What chooses a device, or whether something is moved, and where in a statement list that is run."""
        if self.reach.asks is not None:
            return []
        variables = [v for v in self.facts.devices.variables if v.cpu is not None]
        found = [v.statements[0] for v in variables] or self.facts.moves.choices
        return self._placed(block, found)

    def _setters(self, block: list[ast.stmt]) -> list[tuple[ast.AST, int]]:
        """The same of what may set again what tells when the script means the CPU."""
        own = {n for v in self.facts.devices.variables for s in v.statements for n in walk(s)}
        return self._placed(block, [n for n in changing.setters(self.reach) if n not in own])

    def _placed(self, block: list[ast.stmt], nodes: Sequence[ast.AST]) -> list[tuple[ast.AST, int]]:
        placed = ((node, self._in_block(block, place)) for node in nodes for place in self.reach.at_home([node]))
        return [(node, at) for node, at in placed if at is not None]

    def _outside_classes(self, statement: ast.stmt) -> ast.stmt:
        """The statement, or the class in whose body it stands."""
        parent = self.index.parents.get(statement)
        return self._outside_classes(parent) if isinstance(parent, ast.ClassDef) else statement

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
        while self._is_elif(chains[0][depth]):
            depth -= 1
        return self.index.block(chains[0][depth])[0]

    def _wide_enough(self, strong: list[ast.AST], weak: list[ast.AST]) -> list[ast.stmt]:
        """The innermost statement list that leads to all who need the accelerator, and to who would use it after that.

        Where its arguments are only known in a branch, who comes after that branch does without it.
        """
        block = self._common(strong)
        first = position(block[0])
        later = [n for n in weak if position(n) > first and not self.reach.surely_made(n, block, 0)]
        wide = self._common([*strong, *later])
        if wide is block:
            return block
        branch = next(s for s in self.index.chain(strong[0]) if self.index.block(s)[0] is wide)
        return block if self._floor([branch], 1) else wide

    def _is_elif(self, statement: ast.stmt) -> bool:
        """Whether a statement is an `elif`, before which nothing can be put but before the whole `if`."""
        parent = self.index.parents.get(statement)
        return (
            isinstance(parent, ast.If)
            and parent.orelse == [statement]
            and (isinstance(statement, ast.If) and statement.col_offset == parent.col_offset)
        )

    def _in_block(self, block: list[ast.stmt], node: ast.AST) -> int | None:
        """The place in a statement list of the statement that a node is in; None if it is in none of them."""
        return next((at for b, at in map(self.index.block, self.index.chain(node)) if b is block), None)

    def _may_use(self, edit: Edit) -> bool:
        assert edit.node is not None
        return not self.reach.apart(edit.node) and self.reach.sees(self.index.function(edit.node))

    # ---- the device's variable

    def _may_wait(self, block: list[ast.stmt], at: int, chosen: int) -> bool:
        """Whether the device variable can be bound later than the script does: nothing reads it in between."""
        variable = self.reach.variable
        if variable is None or chosen <= at:
            return True
        if not variable.whole or variable.scope is None or self.reach.asks is not None:
            return False
        if self._outside_classes(variable.statements[0]) is not variable.statements[0]:
            return False  # the body of a class runs where it stands
        between = block[at + len(variable.statements) : chosen]
        if variable.scope.is_class and any(
            self.resolver.is_method(f) for statement in between for f in self.timeline.calls_into(statement)
        ):
            return False
        here = {node for statement in between for node in walk(statement)}
        reads = uses.reads(self.index, variable.scope, variable.name)
        return here.isdisjoint(place for read in reads for place in [read, *self.reach.at_home([read])])

    # ---- what has to come before

    def _urgent(self) -> list[ast.AST]:
        """Where something goes wrong on several processes unless the accelerator is there."""
        return self.reach.at_home(e.node for e in self._risky() if self._may_use(e))  # type: ignore[misc]

    def _risky(self) -> Iterator[Edit]:
        """The edits without which something goes wrong on several processes."""
        return (e for e in self.reach.weak if e.otherwise is not None and e.otherwise.severity is not Severity.NOTE)

    def _floor(self, block: list[ast.stmt], before: int, parsed: bool = True) -> int:
        """The first place after everything that the accelerator's own arguments are made of, and, unless it has to be
        earlier, after the command line has been read."""
        parts = [n for a in self._atoms() for n in walk(a)]
        roots = {n.id for n in parts if isinstance(n, ast.Name)}
        attributes = {n.attr for atom in self._others() for n in walk(atom) if isinstance(n, ast.Attribute)}
        asked = min((at for _, at in self._choices(block)), default=before)
        floor = max((i + 1 for _, i in self._setters(block) if i < min(asked, before)), default=0)
        for i in range(before):
            statement = block[i]
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                continue
            changes = self.ties_devices(statement, () if parsed else _READ_LATER) or changing.may_change(
                self.reach, statement
            )
            if changes or (parsed and self._parses(statement)):
                floor = max(floor, i + 1)
            elif self.reach.variable is not None and statement in self.reach.variable.statements:
                continue
            elif roots & stores(statement) or any(
                isinstance(n, ast.Attribute)
                and isinstance(n.ctx, ast.Store)
                and n.attr in attributes
                and getattr(root(n), "id", "") in roots
                for n in walk(statement)
            ):
                floor = max(floor, i + 1)
        return floor

    def _is_here(self, node: ast.AST) -> bool:
        return self.facts.same_file(node, self.reach.site)

    def _parses(self, statement: ast.stmt) -> bool:
        """Whether a statement reads the command line: `--help` should not start processes' groups."""
        return isinstance(statement, ast.Assign) and any(
            v.role is Role.ARGUMENTS for v in self.resolver.values(statement.value)
        )

    def ties_devices(self, statement: ast.stmt, aside: tuple[str, ...]) -> bool:
        """Whether a statement may set the environment, from which CUDA takes its settings once it is asked for; some
        variables aside."""
        if _ENVIRONMENT.isdisjoint(self.index.attributes) and _ENVIRONMENT.isdisjoint(self.index.module.bindings):
            return False
        nodes = [n for part in (statement, *self.timeline.calls_into(statement)) for n in walk(part)]
        keys = [
            target.slice
            for node in nodes
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Subscript) and self.resolver.qualified(target.value) == "os.environ"
        ]
        calls = (n for n in nodes if isinstance(n, ast.Call))
        keys += [key for c in calls if self.resolver.qualified(c.func) in _SETTING for key in _keys(c)]
        joined = (n for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.BitOr))
        added = [n.value for n in joined if self.resolver.qualified(n.target) == "os.environ"]
        keys += [key for given in added for key in _written(given) or [given]]
        return any(
            not isinstance(key, ast.Constant)
            or not isinstance(key.value, str)
            or not key.value.startswith((*_NOT_OF_DEVICES, *aside))
            for key in keys
        )

    def _atoms(self) -> list[ast.expr]:
        """The expressions that the accelerator's arguments are made of."""
        return [*self.reach.cpu.atoms(), *self._others()]

    def _others(self) -> list[ast.expr]:
        """The same but for when the script means the CPU."""
        own, gate = self.reach.draft.own_precision, self.reach.gate
        atoms = own.condition(self.reach.cpu).atoms() if own.is_managed else []
        return [*atoms, gate.steps] if gate is not None else atoms

    def _settled(self, steps: ast.expr, limit: ast.stmt) -> bool:
        """Whether an expression has one value for good, and has it before a statement at home."""
        if not self.reach.means_the_same(steps, self.reach.site):
            return False
        for part in walk(steps):
            if isinstance(part, ast.Name):
                owner = self.index.scope(part).owner(part.id)
                if owner is None or not (owner.is_module or owner.is_class or owner.node is self.reach.home):
                    return False
                bindings = self.resolver.bindings(part)
                if len(bindings) > 1 or any(
                    position(b.node) > position(limit) and self.index.function(b.node) is self.reach.home
                    for b in bindings
                ):
                    return False
                if owner.is_class and any(self.index.function(b.node) is not self.reach.home for b in bindings):
                    return False
            elif isinstance(part, ast.Call) or self.index.attribute_bindings.get(getattr(part, "attr", "")):
                return False
        return True


def _keys(call: ast.Call) -> list[ast.expr]:
    """The names of the variables that a call sets in the environment, as far as they are written out."""
    given = call.args[0] if call.args else None
    written = _written(given)
    named = [ast.Constant(k.arg) if k.arg else call for k in call.keywords]
    return [*(written or ([given] if given is not None else [])), *named]


def _written(given: ast.expr | None) -> list[ast.expr]:
    """The keys of a dict that is written out; of what is unpacked there, the dict itself."""
    return [key if key is not None else given for key in given.keys] if isinstance(given, ast.Dict) else []
