"""Boolean expressions of a script such as `not args.no_cuda and torch.cuda.is_available()`, as conditions that are
simplified as if an accelerator is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from accelift_codemod.facts import clipped, library
from accelift_codemod.facts.certainty import Certainty
from accelift_codemod.facts.classes import own_class
from accelift_codemod.facts.command_line import CommandLine
from accelift_codemod.facts.conditions import FALSE, TRUE, Condition, asked, both, choose, either, negate
from accelift_codemod.facts.index import Binding, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Role

# Comparisons that are true where others are not.
_OPPOSITES: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Lt: ">=",
    ast.GtE: "<",
    ast.Gt: "<=",
    ast.LtE: ">",
}
# How a number is positive, and how not.
_POSITIVE = {(ast.Gt, "0"): (" > 0", " <= 0"), (ast.GtE, "1"): (" >= 1", " < 1")}
# Calls that do nothing, and give the same for the same: of builtins, of libraries, and methods of texts and dicts.
_LOOKS = frozenset("abs all any bool float getattr hasattr int isinstance len max min str".split())
_ASKS = frozenset("os.environ.get os.getenv torch.device".split())
_READS = frozenset("casefold endswith find get isdigit lower lstrip rstrip split startswith strip upper".split())


class Conditions:
    """Reads the conditions of a script."""

    def __init__(
        self,
        resolver: Resolver,
        command_line: CommandLine,
        segment: Callable[[ast.AST], str],
        runs: Callable[[ast.AST], bool],
    ) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.command_line = command_line
        self.certainty = Certainty(resolver)
        self.segment = segment
        self.runs = runs

    def read(self, node: ast.expr, depth: int = 0) -> Condition:
        """A test, with questions for an accelerator answered by yes and variables replaced by what they hold."""
        if isinstance(node, ast.Constant):
            return TRUE if node.value else FALSE
        inner, wanted = asked(node)
        if inner is not node:
            return self.read(inner, depth) if wanted else negate(self.read(inner, depth))
        if isinstance(node, ast.BoolOp):
            parts = [self.read(v, depth) for v in node.values]
            return both(*parts) if isinstance(node.op, ast.And) else either(*parts)
        if isinstance(node, ast.IfExp):
            return choose(self.read(node.test, depth), self.read(node.body, depth), self.read(node.orelse, depth))
        if self.is_availability(node):
            return TRUE
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left = node.left
            if isinstance(left, ast.Name) and left.id == "__name__":
                return TRUE
            if self.is_availability(left) and isinstance(node.ops[0], (ast.Gt, ast.GtE)):
                return TRUE
            if (
                isinstance(node.ops[0], (ast.Is, ast.IsNot))
                and is_constant(node.comparators[0], None)
                and self.is_nothing(left)
            ):
                return TRUE if isinstance(node.ops[0], ast.Is) else FALSE
            if isinstance(node.ops[0], ast.Eq) and _is_zero(node.comparators[0]) and self._is_count(left):
                return FALSE
            if isinstance(left, ast.Name) and (positive := self._positive(node, left, depth)) is not None:
                return positive
        if depth < 8 and isinstance(node, (ast.Name, ast.Attribute)):
            held = self._held(node)
            if held is not None:
                return self.read(held, depth + 1)
            given = self._given(node, depth)
            if given is not None:
                return given
        return self._of_option(node) or self.atom(node)

    def atom(self, node: ast.expr, comparison: str = "", setting: bool = False) -> Condition:
        """An expression of the script, or its comparison with something, as a condition.

        An attribute of an object that was passed on (`self.args.cuda`) is also one of the variable that held it before;
        one of settings also of the attribute that did: `config.trainer`.
        """
        text = f"{self.segment(node)}{comparison}"
        others: list[Condition] = []
        root, keys = clipped.setting(self.resolver, node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            root = node.value
        if root is not None and (keys or root is not node):
            before, part = re.split(rf"\b{re.escape(self.segment(root))}\b", self.segment(node), maxsplit=1)
            for held in self._before(root, setting):
                spelled = f"{before}{self.segment(held)}{part}{comparison}"
                others.append(Condition("atom", key=spelled, text=spelled, node=held, setting=setting))
            names = [root, *(o.node for o in others if o.node is not None)]
            if self._changed(node, keys, names):
                others = []  # changed under several names: which of them comes first is not known
        key, opposite = others[-1].key if others else text, ""
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and not comparison and _is_plain(node):
            left, right = self.segment(node.left), self.segment(node.comparators[0])
            opposite = f"{left} {_OPPOSITES[type(node.ops[0])]} {right}"
        return Condition("atom", False, key, text, node, (), tuple(others), opposite, setting)

    def _changed(self, node: ast.expr, keys: list[ast.expr], names: list[ast.expr]) -> bool:
        """Whether an attribute is changed under several of the names of its object; or an entry, under any."""
        if isinstance(node, ast.Attribute):
            same = {ast.dump(name) for name in names}
            changed = {ast.dump(b.node.value) for b in self._changes(node.attr)}  # type: ignore[attr-defined]
            return len(changed & same) > 1
        variables = [(n.id, self.index.scope(n).owner(n.id)) for n in names if isinstance(n, ast.Name)]
        known = [owner is not None and not self.resolver.changed(owner, name) for name, owner in variables]
        if not (keys and len(known) == len(names) and all(known)):
            return True
        return len(names) > 1 and any(ast.dump(key) in self._set_keys for key in keys)

    @cached_property
    def _set_keys(self) -> frozenset[str]:
        """The keys under which the script sets entries of any container: it may be that which goes by other names."""
        entries = (n for n in walk(self.index.tree) if isinstance(n, ast.Subscript))
        return frozenset(ast.dump(n.slice) for n in entries if not isinstance(n.ctx, ast.Load))

    def _before(self, name: ast.Name, parts: bool) -> list[ast.expr]:
        """The variables that passed an object on to this one, the nearest first; the last may be a part of another."""
        found: list[ast.expr] = []
        while len(found) < 8:
            bindings = self.resolver.bindings(name)
            if len(bindings) != 1 or bindings[0].path:
                break
            given = self._arguments(bindings[0]) if bindings[0].how is How.PARAMETER else [bindings[0].value]
            before = [(g, root) for g in given or () if g is not None and (root := _held_by(g, parts)) is not None]
            variables = {(ast.dump(b), self.index.scope(root).owner(root.id)) for b, root in before}
            if len(before) != len(given or ()) or len(variables) != 1:
                break
            found.append(before[0][0])
            if not isinstance(found[-1], ast.Name):
                break
            name = found[-1]
        return found

    def _changes(self, attribute: str) -> list[Binding]:
        found = self.index.attribute_bindings.get(attribute, [])
        return [b for b in found if isinstance(b.node, ast.Attribute)]

    def is_availability(self, node: ast.expr) -> bool:
        """Whether an expression asks for the presence of an accelerator."""
        func = node.func if isinstance(node, ast.Call) else node
        return (self.resolver.qualified(func) or "") in library.AVAILABLE

    def is_nothing(self, node: ast.expr | None, depth: int = 0) -> bool:
        """Whether an expression surely is None: a parameter, say, that no call gives anything."""
        if not isinstance(node, ast.Name) or depth > 8:
            return is_constant(node, None)
        bindings = self.resolver.bindings(node)
        return bool(bindings) and all(self.hands_nothing(b, depth + 1) for b in bindings)

    def hands_nothing(self, binding: Binding, depth: int = 0) -> bool:
        """Whether a variable is a parameter that is None in all calls."""
        if binding.how is not How.PARAMETER or self.command_line.handed(binding) is not None:
            return False
        given = self._arguments(binding)
        return bool(given) and all(self.is_nothing(argument, depth) for argument in given)

    def _is_count(self, node: ast.expr) -> bool:
        """Whether an expression, or what a variable certainly holds, is the number of accelerators."""
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        held = bindings[0].value if len(bindings) == 1 and bindings[0].how is How.ASSIGN else None
        count = held if held is not None and not bindings[0].path else node
        return isinstance(count, ast.Call) and (self.resolver.qualified(count.func) or "") in library.COUNTS

    def _positive(self, test: ast.Compare, number: ast.Name, depth: int) -> Condition | None:
        """`number > 0`, of a number that a function was given and has cut down to the accelerators that are there."""
        compared = _POSITIVE.get((type(test.ops[0]), ast.unparse(test.comparators[0])))
        if depth > 8 or compared is None:
            return None
        given = clipped.parameter(
            self.resolver, number, self._is_count, lambda asked: self.read(asked, depth + 1) == FALSE
        )
        arguments = self._arguments(given) if given is not None else []
        found = {self._compared(argument, *compared) for argument in arguments}
        return found.pop() if len(found) == 1 else None

    def _compared(self, number: ast.expr, comparison: str, opposite: str) -> Condition | None:
        """Whether a setting is positive, as a condition: `config["gpus"] > 0`."""
        plain = isinstance(number, (ast.Name, ast.Attribute, ast.Subscript))
        if not plain and clipped.setting(self.resolver, number)[0] is None:
            return None
        known = self.atom(number, comparison)
        others = tuple(replace(o, opposite=o.text.replace(comparison, opposite)) for o in known.others)
        return replace(known, others=others, opposite=f"{self.segment(number)}{opposite}")

    def _of_option(self, test: ast.expr) -> Condition | None:
        """A comparison of a variable that surely holds an option, written with that, too: `self.gpus > 0`, where it is
        `config.gpus`."""
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not _is_plain(test):
            return None
        left, right = test.left, self.segment(test.comparators[0])
        held = self._held(left) if isinstance(left, (ast.Name, ast.Attribute)) else None
        if held is None or not self._is_option(held):
            return None
        comparison = self.segment(test).removeprefix(self.segment(left))
        known = self._compared(held, comparison, f" {_OPPOSITES[type(test.ops[0])]} {right}")
        if known is None:
            return None
        return replace(self.atom(test), key=known.key, others=(replace(known, others=()), *known.others))

    def _held(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        """The boolean expression that a variable certainly holds."""
        bindings: list[Binding]
        if isinstance(node, ast.Name):
            bindings = self.resolver.bindings(node)
        else:
            same = [node.value, *(self._before(node.value, False) if isinstance(node.value, ast.Name) else ())]
            names = {ast.dump(name) for name in same}
            changes = self._changes(node.attr)
            bindings = [b for b in changes if ast.dump(b.node.value) in names]  # type: ignore[attr-defined]
            others = (b for b in changes if b not in bindings)
            if len(names) > 1 and any(Role.ARGUMENTS in self.resolver.roles(b.node.value) for b in others):  # type: ignore[attr-defined]
                return None  # it may be the same object, by one more name
            if bindings and bindings[0].value is not None and _mentions(bindings[0].value, node.attr, names):
                return None
        if len(bindings) != 1 or bindings[0].how is not How.ASSIGN or bindings[0].path:
            return None
        if isinstance(node, ast.Attribute) and not self.is_surely(bindings[0], node):
            return None
        value = bindings[0].value
        if value is None or not self.can_be_asked_again(value):
            return None
        if self._is_boolean(value) or self._handed_in(value) or self._is_option(value):
            return value
        return None

    def is_surely(self, binding: Binding, node: ast.Attribute) -> bool:
        """Whether an attribute surely is what one statement sets it to where it is read, and not what it was before: an
        option has a value that the command line has given it."""
        if self.index.function(binding.node) is not self.index.function(node) and self._is_told(node):
            return False
        return self.certainty.is_set(binding.node, node)

    def _is_told(self, node: ast.Attribute) -> bool:
        return node.attr in self.command_line.options and Role.ARGUMENTS in self.resolver.roles(node.value)

    def can_be_asked_again(self, node: ast.expr) -> bool:
        """Whether an expression does nothing and gives the same each time: `input() == "cpu"` does not."""
        return all(
            self.is_availability(call)
            or self.resolver.builtin(call.func) in _LOOKS
            or (self.resolver.qualified(call.func) or "") in _ASKS | library.COUNTS
            or (isinstance(call.func, ast.Attribute) and call.func.attr in _READS)
            for call in walk(node)
            if isinstance(call, ast.Call)
        )

    def _is_option(self, node: ast.expr) -> bool:
        """Whether an expression is a command-line option that is never set again: each reading of it is the same."""
        if not isinstance(node, ast.Attribute) or self.resolver.roles(node.value) != {Role.ARGUMENTS}:
            return False
        changed = [b.node.value for b in self._changes(node.attr)]  # type: ignore[attr-defined]
        return all(own_class(self.index, o) and Role.ARGUMENTS not in self.resolver.roles(o) for o in changed)

    def _handed_in(self, value: ast.expr) -> bool:
        """Whether what a variable or an attribute holds is a parameter, for which every call passes one condition."""
        return isinstance(value, ast.Name) and self._given(value, 7) is not None

    def _given(self, node: ast.Name | ast.Attribute, depth: int) -> Condition | None:
        """The one condition that every call passes for a parameter."""
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        if len(bindings) != 1 or bindings[0].how is not How.PARAMETER:
            return None
        # where another tensor is (`x.is_cuda`) follows from what the others say
        chosen = [a for a in self._arguments(bindings[0]) if not (isinstance(a, ast.Attribute) and a.attr == "is_cuda")]
        found = {self.read(argument, depth + 1) for argument in chosen}
        return found.pop() if len(found) == 1 else None

    def _arguments(self, parameter: Binding) -> list[ast.expr]:
        """What the calls of a function that may run give a parameter; nothing if one of them cannot be told."""
        given = self.resolver.handed(parameter, self.runs)
        known = [argument for argument in given if argument is not None]
        return known if len(known) == len(given) else []

    def _is_boolean(self, node: ast.expr, depth: int = 0) -> bool:
        if isinstance(node, ast.Constant):
            return isinstance(node.value, bool)
        if isinstance(node, (ast.BoolOp, ast.Compare)):
            return True
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.Not)
        if isinstance(node, ast.IfExp):
            return self._is_boolean(node.body, depth) and self._is_boolean(node.orelse, depth)
        if isinstance(node, ast.Name):
            bindings = self.resolver.bindings(node)
            if depth < 8 and len(bindings) == 1 and bindings[0].how is How.PARAMETER:
                given = self._arguments(bindings[0])
                return bool(given) and all(self._is_boolean(g, depth + 1) for g in given or ())
            return self._held(node) is not None
        return self.is_availability(node)


def _held_by(node: ast.expr, parts: bool) -> ast.Name | None:
    """The variable that an expression is, or whose part it is: `config` in `config.trainer`."""
    while parts and isinstance(node, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0 and not isinstance(node.value, bool)


def _mentions(tree: ast.AST, attribute: str, names: set[str]) -> bool:
    """Whether a part of a tree is an attribute of an object that goes by some names."""
    attributes = (part for part in walk(tree) if isinstance(part, ast.Attribute) and part.attr == attribute)
    return any(ast.dump(part.value) in names for part in attributes)


def _is_plain(node: ast.Compare) -> bool:
    """Whether both sides of a comparison stand without parentheses around them, which are not part of their text."""
    sides = (side.operand if isinstance(side, ast.UnaryOp) else side for side in (node.left, *node.comparators))
    return all(isinstance(s, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant)) for s in sides)
