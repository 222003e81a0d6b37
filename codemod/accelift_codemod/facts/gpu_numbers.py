"""Which GPU of several a device expression picks: by its number, by its name, or by that of the process."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.starters import Part
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.devices import Devices

DEVICE = re.compile(r"^(cuda|cpu|mps|xpu|npu|hpu|gpu)(: ?\d+)?$")  # torch took the blank once
CPU = re.compile(r"^cpu(:\d+)?$")


class GpuNumbers:
    """Answers that for expressions."""

    def __init__(self, devices: Devices) -> None:
        self.devices = devices
        self.resolver = devices.resolver

    def is_option(self, node: ast.expr | None) -> bool:
        """Whether an expression is a command-line option with a number: that of a GPU."""
        if not isinstance(node, ast.Attribute) or Role.ARGUMENTS not in self.resolver.roles(node.value):
            return False
        call = self.devices.command_line.options.get(node.attr)
        kind = self.resolver.argument(call, None, "type") if call is not None else None
        return kind is not None and self.resolver.builtin(kind) == "int" and not self.devices.index.set_as_spelled(node)

    def is_numeral(self, node: ast.expr | None) -> bool:
        """Whether an expression is the number of a GPU, perhaps handed on: 0 in `.to(gpu_id)`, or that of an option."""
        return self.only_ever(node, lambda one: is_integer(one) or self.is_option(one))

    def is_first(self, node: ast.expr | None) -> bool:
        """Whether an expression is 0, perhaps handed on, or a name with that number; or None: the current GPU."""
        return self.only_ever(node, lambda one: is_constant(one, None) or self.number(one) == 0)

    def picks(self, node: ast.expr | None) -> bool:
        """Whether an expression is a GPU by its number or name: a literal, an option, the process's own, or a variable
        or parameter that only ever is one of these."""
        return self.only_ever(node, self._picks)

    def _picks(self, node: ast.expr) -> bool:
        if self.is_own(node) or self.is_option(node) or self.number(node) is not None:
            return True
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            return self.devices.is_device(node)
        named = isinstance(node, ast.Attribute) and self.devices.option(node) is not None
        return named and not self.devices.index.set_as_spelled(node)  # type: ignore[arg-type]

    def only_ever(
        self,
        node: ast.expr | None,
        is_so: Callable[[ast.expr], bool],
        bound: Callable[[ast.expr], list[Binding]] | None = None,
        known: Container[Binding] = (),
    ) -> bool:
        """Whether an expression is so, or a variable or parameter that only ever is given what is so.

        Args:
            node: the expression.
            is_so: tells that of expressions.
            bound: the bindings of an expression, if not only variables are followed.
            known: bindings that are known to be so.
        """
        todo, seen, found = [node], set[Binding](), False
        while todo:
            one = todo.pop()
            if one is None:
                return False
            if is_so(one):
                found = True
                continue
            bindings = bound(one) if bound else self.resolver.bindings(one) if isinstance(one, ast.Name) else []
            if not bindings:
                return False
            for binding in bindings:  # of each once: there may be many calls, of functions with many calls
                if binding in known:
                    found = True
                elif binding not in seen:
                    seen.add(binding)
                    given = self.resolver.handed(binding) if binding.how is How.PARAMETER else [plain(binding)]
                    todo += given or [None]
        return found

    def indexed(self, node: ast.AST | None) -> ast.expr | None:
        """The part of a device expression that picks one accelerator other than the first, for every process."""
        if node is None or self.is_own(node):
            return None
        tests = (n.test for n in walk(node) if isinstance(n, ast.IfExp))  # which ask how many there are to be, say
        aside = self._aside(node) | {n for test in tests for n in walk(test)}
        for part in walk(node):
            if part in aside:
                continue
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                match = DEVICE.match(part.value)
                if match and match[2] not in (None, ":0") and match[1] != "cpu":
                    return part
            elif isinstance(part, ast.Attribute):
                if self.is_option(part):
                    return part
            elif isinstance(part, (ast.JoinedStr, ast.BinOp)) and self.devices.is_device(part):
                return part
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "format":
                if is_template(part.func.value):
                    return part
        return None

    def _aside(self, node: ast.AST) -> set[ast.AST]:
        """What a function of the script is given beside: all that it does with the seed of `device = setup(seed)` is
        to hand it to functions that know nothing of devices."""
        target = self.resolver.callee(node) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(target, FUNCTIONS):
            return set()
        loads = self.resolver.index.scopes[target].loads
        given = (self.resolver.bind(node, target) or {}).items()
        return {n for name, value in given if all(map(self._is_handed_on, loads.get(name, ()))) for n in walk(value)}

    def _is_handed_on(self, load: ast.expr) -> bool:
        call = self.resolver.index.parents.get(load)
        if not isinstance(call, ast.Call) or load is call.func or self.resolver.builtin(call.func) is not None:
            return False
        return (self.resolver.qualified(call.func) or "torch.cuda.").endswith(("seed", "seed_all"))

    def number(self, node: ast.expr | None, steps: int = 0, handed: bool = False) -> int | None:
        """The number of the GPU that a device is, where it is written out: `"cuda:1"`, perhaps in a variable; also
        where it is `handed` to a function by all its calls."""
        if isinstance(node, ast.Call) and self.resolver.qualified(node.func) == "torch.device":
            index = self.resolver.argument(node, 1, "index")
            return self.number(index or self.resolver.argument(node, 0, "device"), steps, handed)
        if isinstance(node, ast.IfExp):
            arms = (self.number(arm, steps, handed) for arm in (node.body, node.orelse))
            found = {number for number in arms if number is not None}
            return found.pop() if len(found) == 1 else None
        if isinstance(node, (ast.Name, ast.Attribute)) and steps < 8:
            bindings = self.devices.bindings(node)
            if handed and len(bindings) == 1 and bindings[0].how is How.PARAMETER:
                given = self.resolver.handed(bindings[0], self.devices.runs)
                numbers = {self.number(argument, steps + 3, handed) for argument in given}  # there may be many calls
                return numbers.pop() if len(numbers) == 1 else None
            single = len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path
            return self.number(bindings[0].value, steps + 1, handed) if single else None
        if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
            return None
        if isinstance(node.value, int):
            return node.value
        match = DEVICE.match(str(node.value))
        return int(match[2][1:]) if match and match[1] == "cuda" and match[2] else None

    def is_numbered(self, node: ast.AST | None) -> bool:
        """Whether an expression is the name of one particular GPU, as `"cuda:0"`."""
        match = DEVICE.match(str(node.value)) if isinstance(node, ast.Constant) else None
        return match is not None and match[2] is not None and match[1] != "cpu"

    def is_one(self, node: ast.AST, steps: int = 0) -> bool:
        """Whether a device expression is one particular GPU for every process, perhaps by a function of the script."""
        if steps > 8 or self.is_own(node):
            return False
        if isinstance(node, ast.IfExp):
            return any(self.is_one(arm, steps + 1) for arm in (node.body, node.orelse))
        target = self.resolver.callee(node) if isinstance(node, ast.Call) else None
        if isinstance(target, FUNCTIONS):
            returned = (r.value for r in self.resolver.returns(target) if r.value is not None)
            return any(self.is_one(value, steps + 1) for value in returned)
        named = isinstance(node, ast.expr) and self.number(node) is not None
        return named or any(map(self.is_numbered, walk(node))) or self.indexed(node) is not None

    def is_own(self, node: ast.AST) -> bool:
        """Whether a device is chosen by the process's own number (`f"cuda:{local_rank}"`), or is that number."""
        ranks = (Part.RANK, Part.LOCAL_RANK)
        return bool(self.devices.processes.sources) and any(
            self.devices.processes.part(part) in ranks for part in walk(node) if isinstance(part, ast.expr)
        )


def is_template(node: ast.expr) -> bool:
    """Whether an expression is the name of a GPU whose number is put in: `"cuda:{}"`."""
    return isinstance(node, ast.Constant) and str(node.value).startswith(("cuda:{", "xpu:{", "npu:{"))


def is_integer(node: ast.expr | None) -> bool:
    """Whether an expression is a number that is written out."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool)


def plain(binding: Binding) -> ast.expr | None:
    """What a variable is set to as a whole."""
    return binding.value if binding.how is How.ASSIGN and not binding.path else None
