"""What expressions are where nobody asks a script for several processes: no launcher has started it, and the options
of its command line are what they are by default.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from accelift_codemod.facts import Facts, Role, library
from accelift_codemod.facts.conditions import COMPARED
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.numbers import NAMES

UNKNOWN: Any = object()
LAUNCHER = frozenset(
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK MASTER_ADDR MASTER_PORT SLURM_PROCID "
    "SLURM_NTASKS SLURM_NPROCS SLURM_LOCALID OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE "
    "OMPI_COMM_WORLD_LOCAL_RANK".split()
)
ASKS = frozenset({"torch.distributed.is_initialized", "torch.distributed.is_torchelastic_launched"})
_GPUS = frozenset({"torch.cuda.device_count", "torch.accelerator.device_count"})
_BUILTINS: dict[str, Callable[[Any], Any]] = {"int": int, "bool": bool, "str": str, "float": float, "len": len}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    **COMPARED,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_MOST_STEPS = 400_000
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
Guard = tuple[ast.expr, bool]


@dataclass(frozen=True)
class _Only:
    """A value of which only the truth is known."""

    truth: bool

    def __bool__(self) -> bool:
        return self.truth


_EITHER = {truth: _Only(truth) for truth in (False, True)}


class Several(Exception):
    """The script runs on several processes, or may, whatever it is told; or it cannot be told in time.

    Args:
        why: what it does, in words that follow "it"; empty if it is the script's own way.
        node: where.
    """

    def __init__(self, why: str = "", node: ast.AST | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.node = node
        self.at = ("", 0)  # the file and the line

    def placed(self, place: Callable[[ast.AST], tuple[str, int]]) -> Several:
        """The same, with the place of its node."""
        self.at = place(self.node) if self.node is not None else self.at
        return self


class Defaults:
    """Answers it, for one script.

    Not `supposed`, nothing is taken for granted of options, launchers and GPUs: what is known then holds however the
    script is started. If there is no process group, `alone`, that is known, too. Where `options` are told, others may
    be anything.
    """

    def __init__(
        self, facts: Facts, supposed: bool = True, alone: bool = True, options: Collection[str] | None = None
    ) -> None:
        self.facts = facts
        self.index = facts.index
        self.resolver = facts.resolver
        self.supposed = supposed
        self.alone = alone
        self.options = {} if not supposed or _set_otherwise(facts) else facts.command_line.options
        if options is not None:
            self.options = {name: call for name, call in self.options.items() if name in options}
        self._active: set[ast.AST] = set()
        self._values: dict[ast.AST, Any] = {}
        self._steps = 0

    def step(self) -> None:
        """Count one more look at an expression.

        Raises:
            Several: there were too many.
        """
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise Several("has too many conditions to be told")

    def value(self, node: ast.AST | None) -> Any:
        """What an expression is; UNKNOWN if that cannot be told."""
        if node in self._values:
            return self._values[node]
        self.step()
        if node is None or node in self._active:
            return UNKNOWN
        self._active.add(node)
        try:
            found = self._value(node)
        finally:
            self._active.discard(node)
        if found is not UNKNOWN or not self._active:  # else it may be unknown only for what is looked at meanwhile
            self._values[node] = found
        return found

    def dead_by(self, node: ast.AST) -> Guard | None:
        """The condition that keeps a node from running, the innermost one, and what it is; None if nothing does."""
        for test, runs in guards(self.facts, node):
            known = self.value(test)
            if known is not UNKNOWN and bool(known) is not runs:
                return test, not runs
        return None

    def given(self, node: ast.expr, dead: Callable[[ast.AST], bool] | None = None) -> list[ast.expr | None] | None:
        """The expressions that a variable, a parameter or an option may be; None if it is neither.

        What does not run by default is left out, or what is `dead`.
        """
        dead = dead or (lambda other: self.dead_by(other) is not None)
        live = [b for b in self.bindings(node) if b.how is How.PARAMETER or not dead(b.node)]
        if isinstance(node, ast.Name):
            return self._sources(live, dead)
        if not isinstance(node, ast.Attribute) or not self.is_option(node):
            return None
        found = self._sources(live, dead) if live else []
        if node.attr in self.facts.command_line.options:
            call = self.options.get(node.attr)
            found.append(_default(self.facts, call) if call is not None else None)
        return found

    def bindings(self, node: ast.AST) -> list[Binding]:
        """What a variable, or an attribute of the parsed command line, is bound to."""
        if isinstance(node, ast.Name):
            return self.resolver.bindings(node)
        if not isinstance(node, ast.Attribute) or not self.is_option(node):
            return []
        return [b for b in self.index.attribute_bindings.get(node.attr, []) if self.is_option(b.node)]

    def is_option(self, node: ast.AST) -> bool:
        """Whether a node is an attribute of the parsed command line."""
        return isinstance(node, ast.Attribute) and Role.ARGUMENTS in self.resolver.roles(node.value)

    def asks(self, node: ast.AST) -> bool:
        """Whether a call asks if the script runs on several processes."""
        if not isinstance(node, ast.Call):
            return False
        if self.resolver.qualified(node.func) in ASKS:
            return True
        kind = node.args[1] if len(node.args) == 2 and self.resolver.builtin(node.func) == "isinstance" else None
        return kind is not None and library.matches(self.resolver.qualified(kind) or "", NAMES) is not None

    def variable(self, node: ast.AST) -> tuple[str, ast.expr | None] | None:
        """The variable of a launcher that an expression asks the environment for, and what it is without one."""
        if isinstance(node, ast.Call) and self.resolver.qualified(node.func) in ("os.getenv", "os.environ.get"):
            key, default = self.resolver.argument(node, 0, "key"), self.resolver.argument(node, 1, "default")
        elif isinstance(node, ast.Subscript) and self.resolver.qualified(node.value) == "os.environ":
            key, default = node.slice, None
        else:
            return None
        known = isinstance(key, ast.Constant) and key.value in LAUNCHER
        return (str(key.value), default) if known else None  # type: ignore[union-attr]

    # ---- kinds of expressions

    def _sources(self, bindings: list[Binding], dead: Callable[[ast.AST], bool]) -> list[ast.expr | None]:
        found: list[ast.expr | None] = []
        for binding in bindings:
            if binding.how is How.PARAMETER:
                runs = self.resolver.handed(binding, lambda call: not dead(call))
                found += runs or [None]
            else:
                found.append(binding.value if binding.how is How.ASSIGN and not binding.path else None)
        return found or [None]

    def _value(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._same(self.given(node) or [None])
        if isinstance(node, (ast.List, ast.Tuple)):
            parts = [self.value(e) for e in node.elts]
            return UNKNOWN if UNKNOWN in parts or any(isinstance(p, _Only) for p in parts) else parts
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.BoolOp):
            return self._either(node)
        if isinstance(node, ast.IfExp):
            test = self.value(node.test)
            return UNKNOWN if test is UNKNOWN else self.value(node.body if test else node.orelse)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        return self._called(node) if isinstance(node, ast.Call) else UNKNOWN

    def _same(self, nodes: list[ast.expr | None]) -> Any:
        found = [self.value(n) for n in nodes]
        if not found or any(v is UNKNOWN or v != found[0] for v in found):
            return UNKNOWN
        return found[0]

    def _unary(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        if operand is UNKNOWN:
            return UNKNOWN
        if isinstance(node.op, ast.Not):
            return not operand
        return -operand if isinstance(node.op, ast.USub) and isinstance(operand, (int, float)) else UNKNOWN

    def _either(self, node: ast.BoolOp) -> Any:
        """`a and b` is known by one part that is false, and is that part if those before are known."""
        decides = isinstance(node.op, ast.Or)
        values = [self.value(v) for v in node.values]
        deciding = next((i for i, v in enumerate(values) if v is not UNKNOWN and bool(v) is decides), None)
        if deciding is not None:
            before = [part for part, v in zip(node.values, values[:deciding], strict=False) if v is UNKNOWN]
            return values[deciding] if all(map(self._is_bool, before)) else _EITHER[decides]
        return UNKNOWN if UNKNOWN in values else values[-1]

    def _is_bool(self, node: ast.expr) -> bool:
        """Whether an expression is True or False, so that what it decides is no other value."""
        if isinstance(node, ast.Call):
            return (self.resolver.qualified(node.func) or "").rpartition(".")[2].startswith("is_") or self.asks(node)
        return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))

    def _compared(self, node: ast.Compare) -> Any:
        if len(node.ops) != 1:
            return UNKNOWN
        left, right = node.left, node.comparators[0]
        if isinstance(node.ops[0], (ast.In, ast.NotIn)) and self.resolver.qualified(right) == "os.environ":
            known = isinstance(left, ast.Constant) and left.value in LAUNCHER and self.supposed
            return isinstance(node.ops[0], ast.NotIn) if known else UNKNOWN
        sides = self.value(left), self.value(right)
        if UNKNOWN in sides or any(isinstance(side, _Only) for side in sides):
            return UNKNOWN
        try:
            return _COMPARED[type(node.ops[0])](*sides)
        except TypeError:
            return UNKNOWN

    def _called(self, node: ast.Call) -> Any:
        if self.asks(node):
            return False if self.alone else UNKNOWN
        function = self.resolver.callee(node)
        if isinstance(function, FUNCTIONS):
            returns = [r for r in self.resolver.returns(function) if self.dead_by(r) is None]
            return self._same([r.value for r in returns])
        if self.resolver.qualified(node.func) in _GPUS:
            return 1 if self.supposed else UNKNOWN
        asked = self.variable(node) if self.supposed else None
        if asked is not None:
            return self.value(asked[1]) if asked[1] is not None else None
        named = _BUILTINS.get(self.resolver.builtin(node.func) or "")
        given = self.value(node.args[0]) if named and len(node.args) == 1 and not node.keywords else UNKNOWN
        if named is None or given is UNKNOWN or (isinstance(given, _Only) and named is not bool):
            return UNKNOWN
        try:
            return named(given)
        except (TypeError, ValueError):
            return UNKNOWN


def _set_otherwise(facts: Facts) -> bool:
    """Whether options may have other values than those of the command line, or of an `add_argument`."""
    resolver, methods = facts.resolver, facts.index.methods
    for call in (*methods.get("parse_args", []), *methods.get("parse_known_args", [])):
        if call.args or call.keywords:
            return True
    if methods.get("set_defaults"):
        return True
    for call in facts.index.calls:
        if resolver.builtin(call.func) == "setattr" and call.args and Role.ARGUMENTS in resolver.roles(call.args[0]):
            return True
    updated = [c.func.value for c in methods.get("update", []) if isinstance(c.func, ast.Attribute)]
    set_one = [n.value for n in facts.index.parents if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    for kept in (*updated, *set_one):  # `vars(args).update(config)`, `args.__dict__[key] = value`
        if isinstance(kept, ast.Attribute) and kept.attr == "__dict__":
            return True
        if isinstance(kept, ast.Call) and resolver.builtin(kept.func) == "vars":
            return True
    return False


def _default(facts: Facts, call: ast.Call) -> ast.expr | None:
    """What an option is if it is not given; None if that cannot be told, or it has to be given."""
    required = facts.resolver.argument(call, None, "required")
    flags = [a.value for a in call.args if isinstance(a, ast.Constant)]
    if not all(str(f).startswith("-") for f in flags):
        return None
    if required is not None and not (isinstance(required, ast.Constant) and not required.value):
        return None
    action = facts.resolver.argument(call, None, "action")
    default = facts.resolver.argument(call, None, "default")
    if default is not None:
        return default
    if isinstance(action, ast.Constant) and action.value in ("store_true", "store_false"):
        return ast.Constant(action.value == "store_false")
    return ast.Constant(None) if action is None else None


def guards(facts: Facts, node: ast.AST) -> Iterator[Guard]:
    """The conditions under which a node runs, in its function, the inner ones first, each with what it has to be."""
    index = facts.index
    child = node
    for parent in index.ancestors(node):
        if isinstance(parent, (ast.If, ast.While)):
            if child in parent.body:
                yield parent.test, True
            elif child in parent.orelse and isinstance(parent, ast.If):
                yield parent.test, False
        elif isinstance(parent, ast.IfExp) and child is not parent.test:
            yield parent.test, child is parent.body
        elif isinstance(parent, ast.BoolOp):
            for earlier in reversed(parent.values[: parent.values.index(child)]):  # type: ignore[arg-type]
                yield earlier, isinstance(parent.op, ast.And)
        if isinstance(child, ast.stmt) and not isinstance(parent, ast.Module):
            block, place = index.block(child)
            for statement in reversed(block[:place]):
                yield from _passed(statement)
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return
        child = parent


def _passed(statement: ast.stmt) -> Iterator[Guard]:
    """What holds behind a statement because some of its arms lead nowhere further."""
    entered: list[ast.expr] = []
    arm = statement
    while isinstance(arm, ast.If):
        if not leaves(arm.body):
            entered.append(arm.test)
        elif not entered:
            yield arm.test, False
        if leaves(arm.orelse) and entered:
            yield entered[0] if len(entered) == 1 else ast.copy_location(ast.BoolOp(ast.Or(), entered), arm.test), True
        arm = arm.orelse[0] if len(arm.orelse) == 1 else ast.Pass()


def leaves(block: list[ast.stmt]) -> bool:
    """Whether nothing runs behind a list of statements."""
    return bool(block) and isinstance(block[-1], _LEAVING)
