"""What conditions do besides telling whether there are several processes: `if init(args):` may also make a folder."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from accelift_codemod.facts import Facts, Function, library
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.numbers import NAMES
from accelift_codemod.facts.tree import targets

_BUILTINS = frozenset(
    "abs all any bool float getattr hasattr int isinstance len list max min str sum tuple type".split()
)
_OF_TEXT = frozenset("format get isdigit lower split startswith endswith strip upper".split())
_PLAIN = frozenset({"os.getenv", "os.environ.get", "os.path.exists", "os.path.isfile", "os.path.isdir"})
_OF_TORCH = ("torch.cuda.is_", "torch.cuda.device_count", "torch.accelerator.", "torch.backends.")
_NOTHING = (ast.Pass, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, *FUNCTIONS, ast.ClassDef)
_ACTS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


class Acting:
    """Tells whether an expression does more than compute something where there is one process.

    Args:
        facts: those of the script.
        truth: what a test is then; None if that is not known.
        dead: whether a node does not run then.
    """

    def __init__(self, facts: Facts, truth: Callable[[ast.AST], bool | None], dead: Callable[[ast.AST], bool]) -> None:
        self.resolver = facts.resolver
        self.truth = truth
        self.dead = dead
        self._functions: dict[Function, bool] = {}

    def acts(self, node: ast.AST | None) -> bool:
        """Whether it does."""
        if node is None or isinstance(node, ast.Lambda):
            return False
        if isinstance(node, _ACTS) or (isinstance(node, ast.Call) and self._calls_more(node)):
            return True
        return any(self.acts(part) for part in self._computed(node))

    def _computed(self, node: ast.AST) -> Sequence[ast.AST]:
        """The parts of an expression that are computed."""
        if isinstance(node, ast.BoolOp):
            decides = isinstance(node.op, ast.Or)
            ends = (i for i, value in enumerate(node.values, 1) if self.truth(value) is decides)
            return node.values[: next(ends, None)]
        if isinstance(node, ast.IfExp) and (known := self.truth(node.test)) is not None:
            return node.test, node.body if known else node.orelse
        return [*ast.iter_child_nodes(node)]

    def _calls_more(self, call: ast.Call) -> bool:
        function = self.resolver.callee(call)
        if isinstance(function, FUNCTIONS):
            if function not in self._functions:
                self._functions[function] = True  # if it calls itself
                self._functions[function] = self._any(function.body)
            return self._functions[function]
        name = self.resolver.qualified(call.func)
        if name is not None:
            return not (name in _PLAIN or name.startswith(_OF_TORCH) or library.matches(name, NAMES) is not None)
        builtin = self.resolver.builtin(call.func)
        return builtin not in _BUILTINS and not (isinstance(call.func, ast.Attribute) and call.func.attr in _OF_TEXT)

    def _any(self, block: Sequence[ast.stmt]) -> bool:
        return any(self._does_more(statement) for statement in block if not self.dead(statement))

    def _does_more(self, statement: ast.stmt) -> bool:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            return not all(isinstance(target, ast.Name) for target in targets(statement)) or self.acts(statement.value)
        if isinstance(statement, (ast.Return, ast.Expr)):
            return self.acts(statement.value)
        if isinstance(statement, ast.If):
            return self.acts(statement.test) or self._any([*statement.body, *statement.orelse])
        if isinstance(statement, ast.Try):
            handled = [s for handler in statement.handlers for s in handler.body]
            return self._any([*statement.body, *handled, *statement.orelse, *statement.finalbody])
        return not isinstance(statement, _NOTHING)
