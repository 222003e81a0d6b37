"""The options of a script's command line."""

from __future__ import annotations

import ast
from functools import cached_property
from itertools import pairwise
from typing import TypeGuard

from accelift_codemod.facts import command_parameters
from accelift_codemod.facts.index import Binding, How
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Role

_STEPS = 4  # from a variable to what it was set to


class CommandLine:
    """Finds the options that a script's argument parser is told of."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self._parameters: dict[Binding, ast.expr | None] = {}

    @cached_property
    def calls(self) -> frozenset[ast.AST]:
        """The `add_argument` calls."""
        return frozenset(self.resolver.index.methods.get("add_argument", []))

    @cached_property
    def options(self) -> dict[str, ast.Call]:
        """`add_argument` calls by destination."""
        return {name: calls[-1] for name, calls in self._told.items()}

    @cached_property
    def _told(self) -> dict[str, list[ast.Call]]:
        """`add_argument` calls by destination, of which several parsers may have one each."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.resolver.index.methods.get("add_argument", []):
            flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            destination = self.resolver.argument(call, None, "dest")
            if isinstance(destination, ast.Constant):
                found.setdefault(str(destination.value), []).append(call)
            elif flags:
                name = next((f for f in flags if f.startswith("--")), flags[0])
                found.setdefault(name.lstrip("-").replace("-", "_"), []).append(call)
        return found

    def word(self, node: ast.AST | None) -> ast.expr | None:
        """The default of the option that an expression is, if that takes a word; the constant None if it has none. So
        are parameters of functions that a library runs by the command line."""
        if isinstance(node, ast.Name):
            bindings = self.resolver.bindings(node)
            return self.handed(bindings[0]) if len(bindings) == 1 else None
        if not isinstance(node, ast.Attribute) or Role.ARGUMENTS not in self.resolver.roles(node.value):
            return None
        call = self.options.get(node.attr)
        if call is None or self.resolver.argument(call, None, "action") is not None:
            return None
        kind = self.resolver.argument(call, None, "type")
        if kind is not None and self.resolver.builtin(kind) != "str":
            return None
        return self.resolver.argument(call, None, "default") or ast.Constant(None)

    def handed(self, parameter: Binding) -> ast.expr | None:
        """The same of a parameter."""
        if parameter not in self._parameters:
            self._parameters[parameter] = command_parameters.default(self.resolver, parameter)
        return self._parameters[parameter]

    def number(self, node: ast.AST | None, steps: int = _STEPS) -> int | None:
        """The number that an expression is unless the command line says otherwise: an option, or a variable of it."""
        if isinstance(node, ast.Name):
            held = [v for b in self.resolver.bindings(node) for v in self._whole(b)] if steps else []
            found = {self.number(value, steps - 1) for value in held}
            return found.pop() if len(found) == 1 else None
        if not isinstance(node, ast.Attribute) or Role.ARGUMENTS not in self.resolver.roles(node.value):
            return None
        call, argument = self.options.get(node.attr), self.resolver.argument
        if call is None or self.resolver.index.attribute_bindings.get(node.attr):
            return None
        kind, default = argument(call, None, "type"), argument(call, None, "default")
        known = self.resolver.builtin(kind) == "int" and argument(call, None, "nargs") is None if kind else False
        value = default.value if isinstance(default, ast.Constant) else None
        return value if known and type(value) is int and not self._set_otherwise else None

    def never(self, node: ast.AST) -> bool:
        """Whether a statement is only for an option that is None, which it never is, whatever the command line says."""
        return any(map(self._is_set, self._where_none(node)))

    def fallback(self, binding: Binding) -> bool:
        """Whether an option is set to something where it is None: `if args.seed is None: args.seed = ...`."""
        target = binding.node
        if not isinstance(target, ast.Attribute) or binding.how is not How.ASSIGN:
            return False
        return any(ast.unparse(asked) == ast.unparse(target) for asked in self._where_none(target))

    def _where_none(self, node: ast.AST) -> list[ast.expr]:
        """What the tests around a node ask whether it is None, where the node is for that case."""
        pairs = pairwise(self.resolver.index.chain(node))
        around = (upper.test for upper, lower in pairs if isinstance(upper, ast.If) and lower in upper.body)
        return [asked for test in around if (asked := _asked_if_none(test)) is not None]

    def _is_set(self, node: ast.expr | None) -> bool:
        """Whether an option is surely not None: its default is not, and the command line has no word for it."""
        if not isinstance(node, ast.Attribute) or Role.ARGUMENTS not in self.resolver.roles(node.value):
            return False
        calls, argument = self._told.get(node.attr, []), self.resolver.argument
        otherwise = [b for b in self.resolver.index.attribute_bindings.get(node.attr, []) if not self.fallback(b)]
        if len(calls) != 1 or otherwise or self._set_otherwise:
            return False
        kind, default = argument(calls[0], None, "type"), argument(calls[0], None, "default")
        told = {k.arg for k in calls[0].keywords}
        converts = kind is None or self.resolver.builtin(kind) in ("int", "float", "str")
        plain = converts and not {"action", "nargs", None} & told
        return plain and isinstance(default, ast.Constant) and default.value is not None

    @cached_property
    def _set_otherwise(self) -> bool:
        """Whether a script sets options, or their defaults, other than by naming them as attributes."""
        index = self.resolver.index
        calls = {
            name: [c for c in index.calls if self.resolver.builtin(c.func) == name] for name in ("setattr", "vars")
        }
        dicts = (*calls["vars"], *index.attributes.get("__dict__", []))
        changed = any(isinstance(index.parents.get(one), (ast.Attribute, ast.Subscript)) for one in dicts)
        return changed or bool(calls["setattr"]) or "set_defaults" in index.methods

    def _whole(self, binding: Binding) -> list[ast.expr | None]:
        """What a variable is bound to as a whole, or callers hand to a parameter."""
        if binding.how is How.PARAMETER:
            return list(self.resolver.handed(binding)) or [None]
        return [binding.value if binding.how is How.ASSIGN and not binding.path else None]

    def is_asked(self, node: ast.AST | None, default: ast.expr) -> bool:
        """Whether an option may be None, or the script asks whether it is the word that it is by default: `"auto"`."""
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(default, ast.Constant):
            return False
        return default.value is None or (_last_name(node), default.value) in self._compared

    def is_a_word(self, node: ast.Attribute) -> bool:
        """Whether the script asks if an attribute is some word: `config.device == "auto"`."""
        return ast.dump(node) in self._words

    @cached_property
    def _words(self) -> set[str]:
        """The attributes, as they are spelled, that are compared with a word, perhaps by a variable that holds them."""
        found: set[str] = set()
        for node in filter(_compares, walk(self.resolver.index.tree)):
            sides = (node.left, *node.comparators)
            if len(sides) == 2 and any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in sides):
                read = [held for n in sides if isinstance(n, ast.Name) for held in self._held(n)]
                found |= {ast.dump(n) for n in (*sides, *read) if isinstance(n, ast.Attribute)}
        return found

    @cached_property
    def _compared(self) -> set[tuple[str, object]]:
        """The attributes and variables that are compared with words, with these."""
        found: set[tuple[str, object]] = set()
        for node in walk(self.resolver.index.tree):
            inner = [n for side in (node.left, *node.comparators) for n in walk(side)] if _compares(node) else []
            words = [n.value for n in inner if isinstance(n, ast.Constant)]
            read = [n for name in inner if isinstance(name, ast.Name) for n in self._held(name)]
            named = [_last_name(n) for n in (*inner, *read) if isinstance(n, (ast.Name, ast.Attribute))]
            found |= {(name, word) for name in named for word in words}
        return found

    def _held(self, name: ast.Name) -> list[ast.expr]:
        """What is assigned to a variable as a whole: `device = args.device`."""
        bindings = self.resolver.bindings(name)
        return [b.value for b in bindings if b.how is How.ASSIGN and not b.path and b.value is not None]

    def above(self, node: ast.Name | ast.Attribute) -> list[ast.If]:
        """The conditions around a statement that sets an option, the inner ones first, after the options are known."""
        parsed = {v.origin for v in self.resolver.values(node.value)} if isinstance(node, ast.Attribute) else set()
        found: list[ast.If] = []
        for statement in reversed(self.resolver.index.chain(node)[:-1]):
            if not isinstance(statement, ast.If) or is_main(statement) or parsed & {*walk(statement)}:
                break
            found.append(statement)
        return found


def _last_name(node: ast.Name | ast.Attribute) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id


def _asked_if_none(test: ast.expr) -> ast.expr | None:
    """What a test asks whether it is None: `x is None`, `x == None`."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Is, ast.Eq)) or len(test.ops) != 1:
        return None
    other = test.comparators[0]
    return test.left if is_constant(other, None) else None


def _compares(node: ast.AST) -> TypeGuard[ast.Compare]:
    return isinstance(node, ast.Compare)


def is_main(statement: ast.If) -> bool:
    """`if __name__ == "__main__":`."""
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in walk(statement.test))
