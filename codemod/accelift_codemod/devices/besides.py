"""What functions of the script do besides choosing the device that they return: they set a seed, they print."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.device_variables import DeviceVariable
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function
from accelift_codemod.facts.showing import is_shown
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Operation
from accelift_codemod.reasons import refuse

_ASKING = frozenset("len isinstance hasattr getattr bool str int repr RuntimeError ValueError".split())
_OF_TEXT = frozenset("format split strip lower upper startswith endswith replace isdigit get".split())
_OF_TORCH = ("torch.device", "torch.cuda.device_count", "torch.accelerator.", "torch.cuda.get_device_")
_STEPS = 4  # of functions that hand on what others choose


def kept_calls(draft: Draft, variable: DeviceVariable, *bindings: Binding) -> list[str]:
    """The calls by which a device is chosen and that do more than that: they are made still, for what else they do.

    Where a call may be made or not, the choice is made still. Where that is one of statements, it can only be left out,
    if all that it does besides is to show something.
    """
    found: dict[str, None] = {}
    for binding in bindings or variable.bindings:
        statement = draft.facts.index.statement(binding.node)
        targets = getattr(statement, "targets", [])
        if binding.node in targets[1:]:
            continue  # the first of several names, which have the same
        always = isinstance(statement, ast.AnnAssign) or binding.node in targets
        calls = list(_Choice(draft).acting(binding.value))
        if always and statement in variable.statements:
            perhaps = any(_perhaps(draft, call) for call in calls)
            kept = [binding.value] if perhaps and binding.value is not None else calls
            texts = map(draft.facts.segment, kept)
            found.update(dict.fromkeys(f"({text})" if "\n" in text else text for text in texts))
            continue
        for call in _Choice(draft, shows=False).acting(binding.value):
            raise refuse(
                "DEV-UNKNOWN",
                call.lineno,
                f"`{draft.facts.segment(call.func)}` chooses the device and does more than that, here or not",
                "choose the device in a function that does nothing else",
            )
    return list(found)


def acts(draft: Draft, node: ast.expr | None) -> bool:
    """Whether an expression calls a function of the script that does more than to choose the device it returns."""
    return any(_Choice(draft).acting(node))


def _perhaps(draft: Draft, call: ast.Call) -> bool:
    """Whether a call is made only in one arm of an expression."""
    statement = draft.facts.index.statement(call)
    around = (n for n in draft.facts.index.ancestors(call) if isinstance(n, (ast.IfExp, ast.BoolOp)))
    return any(draft.facts.index.statement(n) is statement for n in around)


class _Choice:
    """Looks into functions of the script for what they do besides computing what they return."""

    def __init__(self, draft: Draft, shows: bool = True) -> None:
        self.draft = draft
        self.resolver = draft.facts.resolver
        self.shows = shows  # whether to show something is to do something

    def acting(self, node: ast.expr | None) -> Iterator[ast.Call]:
        """The outermost calls of an expression that run a function of the script which does more than choose."""
        if isinstance(node, ast.Call):
            function = self.resolver.callee(node)
            if isinstance(function, FUNCTIONS) and self._acts(function, _STEPS):
                yield node
                return
        for child in ast.iter_child_nodes(node) if node is not None else ():
            if isinstance(child, ast.expr):
                yield from self.acting(child)

    def _acts(self, function: Function, steps: int) -> bool:
        return any(self._does_more(statement, steps) for statement in function.body)

    def _does_more(self, statement: ast.AST, steps: int) -> bool:
        if any(e.operation is Operation.DROP for e in self.draft.edits_at(statement)):
            return False
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            return not all(isinstance(t, ast.Name) for t in targets) or self._calls_more(statement.value, steps)
        if isinstance(statement, ast.Return):
            return self._calls_more(statement.value, steps)
        if isinstance(statement, ast.Expr):
            shown = isinstance(statement.value, ast.Call) and is_shown(self.resolver, statement.value)
            return not isinstance(statement.value, ast.Constant) and (self.shows or not shown)
        if isinstance(statement, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
            return any(
                self._calls_more(n, steps) if isinstance(n, (ast.expr, ast.withitem)) else self._does_more(n, steps)
                for n in ast.iter_child_nodes(statement)
            )
        return not isinstance(statement, (ast.Raise, ast.Assert, ast.Pass, ast.Import, ast.ImportFrom))

    def _calls_more(self, node: ast.AST | None, steps: int) -> bool:
        """Whether an expression calls what may do more than compute a value."""
        return node is not None and any(isinstance(n, ast.Call) and not self._asks(n, steps) for n in walk(node))

    def _asks(self, call: ast.Call, steps: int) -> bool:
        function = self.resolver.callee(call)
        if isinstance(function, FUNCTIONS):
            return steps > 0 and not self._acts(function, steps - 1)
        if self.draft.facts.devices.conditions.is_availability(call) or self.resolver.builtin(call.func) in _ASKING:
            return True
        if (self.resolver.qualified(call.func) or "").startswith(_OF_TORCH):
            return True
        return isinstance(call.func, ast.Attribute) and call.func.attr in _OF_TEXT
