"""Which statements may show what some variables hold: by the names alone, and rather too many than too few."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

Key = tuple[object, str]
"""A variable of a function (`(function, "loss")`) or of the modules (`(None, "loss")`), an attribute of whatever object
(`("attribute", "avg")`), or what functions of a name return (`("function", "train")`)."""

# What is told something to show it, and gives nothing back.
_TELLS = frozenset(
    "debug info warning error critical exception print write log set_postfix set_postfix_str set_description "
    "set_description_str add_scalar add_scalars add_text add_histogram".split()
)
# Methods of tensors and texts that give something new, and put nothing of what they are told into it.
_GIVES = frozenset(
    "to type type_as view view_as reshape permute transpose expand repeat flatten squeeze unsqueeze argmax argmin eq "
    "ne sum mean std max min norm topk softmax size item format join split replace".split()
)
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LAMBDA = "<lambda>"


class Showing:
    """What flows where in some files, through assignments, calls and what functions return.

    The order in which it happens is not looked at, and an attribute of one name is one for all objects.
    """

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._trees = trees
        self._scopes: dict[ast.AST, ast.AST | None] = {}
        self._bound: dict[ast.AST | None, set[str]] = {None: set()}
        self._modules: set[str] = set()  # names that imports bind
        self._functions: dict[str, list[tuple[Function, bool]]] = {}
        self._outer: dict[ast.AST, ast.AST | None] = {}
        self._flows: dict[Key, set[Key]] = {}
        self._tests: dict[ast.AST, frozenset[Key]] = {}  # what the tests around a statement read
        self._as_values: set[str] = {"__call__", _LAMBDA}  # functions that may go by any name
        for tree in trees.values():
            self._declare(tree)
        self._aliases: dict[Key, set[Key]] = {}  # of what may be the same object
        self._filled: set[Key] = set()  # objects that something is put into
        for tree in trees.values():
            self._follow(tree)
        self._fill()

    def reached(self, place: str, statement: ast.stmt, names: Iterable[str]) -> frozenset[Key] | None:
        """What may hold what some expressions of a statement do, or what it sets (a loop: all that it runs) and, if
        there are no such expressions, hands on; None if one of them is no expression."""
        function = self._scopes.get(statement) if place in self._trees else None
        names = [*names]
        hands = not names and not isinstance(statement, (ast.For, ast.AsyncFor, ast.While))
        sets = (node for node in ast.walk(statement) if hands or not isinstance(node, ast.Call))
        queue = [key for node in sets for _, into in self._moves(node) for key in into]
        for name in names:
            try:
                parsed = ast.parse(name, mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
            for node in ast.walk(parsed):
                if isinstance(node, ast.Name):
                    key = self._key(node.id, function)
                    scopes = () if key[0] is not None else self._bound  # a finding may speak of several functions
                    queue += [key, *((scope, node.id) for scope in scopes if node.id in self._bound[scope])]
                elif isinstance(node, ast.Attribute):
                    queue.append(("attribute", node.attr))
        seen = set(queue)
        for key in queue:
            more = self._flows.get(key, set()) - seen
            seen |= more
            queue += more
        return frozenset(seen)

    def may_show(self, statement: ast.stmt, keys: frozenset[Key]) -> bool:
        """Whether a statement reads any of these, or is only reached by a test that does."""
        return not keys.isdisjoint(self._tests.get(statement, frozenset()) | self._read(statement))

    # ---- what there is

    def _declare(self, tree: ast.Module) -> None:
        queue: list[tuple[ast.AST, ast.AST | None, bool]] = [(tree, None, False)]
        for node, function, in_class in queue:
            self._scopes[node] = function
            bound = self._bound[function]
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                plain = isinstance(node, ast.Import)
                self._modules |= {(a.asname or a.name).partition(".")[0] for a in node.names if plain}
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            inner = function
            if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
                inner, self._outer[node] = node, function
                self._bound[node] = set()
                name = node.name if not isinstance(node, ast.Lambda) else _LAMBDA
                self._functions.setdefault(name, []).append((node, in_class))
            queue += [(child, inner, isinstance(node, ast.ClassDef)) for child in ast.iter_child_nodes(node)]
        called = {n.func for n in ast.walk(tree) if isinstance(n, ast.Call)}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Name, ast.Attribute)) and node not in called:
                self._as_values.add(node.id if isinstance(node, ast.Name) else node.attr)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                named = (n.id for n in node.targets if isinstance(n, ast.Name))
                self._functions.update((name, [*self._functions.get(name, ()), (node.value, False)]) for name in named)
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                self._bound[self._scopes[node]] -= set(node.names)
                self._bound[None] |= set(node.names) if isinstance(node, ast.Global) else set()
            elif isinstance(node, ast.ClassDef):  # a call of a class is one of its constructor
                made = [f for f in node.body if isinstance(f, _FUNCTIONS) and f.name == "__init__"]
                self._functions.setdefault(node.name, []).extend((f, True) for f in made)

    def _key(self, name: str, function: ast.AST | None) -> Key:
        while function is not None and name not in self._bound[function]:
            function = self._outer[function]
        return function, name

    def _read(self, node: ast.AST | None) -> frozenset[Key]:
        """What an expression, or a statement without its body, reads; not what is told something to show it."""
        found: set[Key] = set()
        queue: list[ast.AST] = [node] if node is not None else []
        for part in queue:
            if isinstance(part, ast.Name):
                found.add(self._key(part.id, self._scopes.get(part)))
                found.add(("function", part.id))
            elif isinstance(part, ast.Attribute):
                found |= {("attribute", part.attr), ("function", part.attr)}
            skipped = _teller(part)
            queue += [
                n
                for n in ast.iter_child_nodes(part)
                if n is not skipped and not (part is node and isinstance(n, ast.stmt))
            ]
        return frozenset(found)

    # ---- what flows where

    def _fill(self) -> None:
        """What is put into an object is in it by all its names: a list that a function was handed and appends to."""
        queue = list(self._filled)
        for key in queue:
            others = self._aliases.get(key, set())
            self._flows.setdefault(key, set()).update(others)
            queue += others - self._filled
            self._filled |= others

    def _follow(self, tree: ast.Module) -> None:
        queue: list[tuple[ast.AST, frozenset[Key]]] = [(tree, frozenset())]
        for node, tests in queue:
            if tests and isinstance(node, ast.stmt):
                self._tests[node] = tests
            for sources, into in self._moves(node):
                for key in self._read(sources) | tests:
                    self._flows.setdefault(key, set()).update(into)
                if isinstance(sources, ast.expr):
                    for key in into:
                        self._aliases.setdefault(key, set()).update(self._targets(sources))
            if isinstance(node, (ast.If, ast.While)):
                tests |= self._read(node.test)
            elif isinstance(node, ast.Match):
                tests |= self._read(node.subject)
            elif isinstance(node, (*_FUNCTIONS, ast.Lambda)):
                tests = frozenset()
            queue += [(child, tests) for child in ast.iter_child_nodes(node)]

    def _moves(self, node: ast.AST) -> Iterator[tuple[ast.AST, Sequence[Key]]]:
        """What a node reads goes into which variables."""
        if isinstance(node, ast.Assign):
            yield node.value, [key for target in node.targets for key in self._targets(target)]
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
            yield node.value, self._targets(node.target)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            yield node.iter, self._targets(node.target)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield node.context_expr, self._targets(node.optional_vars)
        elif isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and node.value is not None:
            function = self._scopes[node]
            if isinstance(function, _FUNCTIONS):
                yield node.value, [("function", function.name)]
        elif isinstance(node, ast.Call):
            yield from self._handed(node)

    def _handed(self, call: ast.Call) -> Iterator[tuple[ast.AST, Sequence[Key]]]:
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        if name == "setattr" and len(call.args) == 3 and isinstance(call.args[1], ast.Constant):
            yield call.args[2], [("attribute", str(call.args[1].value))]
        given = [(i, None, a) for i, a in enumerate(call.args)] + [(-1, k.arg, k.value) for k in call.keywords]
        starred = any(isinstance(a, ast.Starred) for a in call.args)
        called = self._functions.get(name) or self._unknown
        fills = isinstance(call.func, ast.Attribute) and call.func.attr not in _GIVES and _teller(call) is None
        held = call.func.value if fills else None  # type: ignore[attr-defined]
        kept = self._targets(held) if held is not None else ()
        if call.args or call.keywords:
            self._filled.update(kept)
        for place, keyword, value in given:
            into = [key for key in kept if key[1] != "self" and not (key[0] is None and key[1] in self._modules)]
            into += [(f, one) for f, method in called for one in _taken_by(f, method, place, keyword, starred)]
            if into:
                yield value, into

    @cached_property
    def _unknown(self) -> list[tuple[Function, bool]]:
        """What a call of a name may run that is that of no function."""
        return [one for name in sorted(self._as_values) for one in self._functions.get(name, ())]

    def _targets(self, node: ast.expr) -> list[Key]:
        """The variables and attributes that something is put into."""
        found: list[Key] = []
        queue = [node]
        for one in queue:
            if isinstance(one, ast.Name):
                found.append(self._key(one.id, self._scopes.get(one)))
            elif isinstance(one, ast.Attribute):
                found.append(("attribute", one.attr))
                queue += [one.value] if not (isinstance(one.value, ast.Name) and one.value.id == "self") else []
            elif isinstance(one, (ast.Tuple, ast.List)):
                queue += one.elts
            elif isinstance(one, (ast.Starred, ast.Subscript)):
                queue.append(one.value)
                if isinstance(one.ctx, ast.Store):
                    self._filled.update(self._targets(one.value))
            elif isinstance(one, ast.Call) and isinstance(
                one.func, ast.Attribute
            ):  # history.setdefault("a", []).append
                queue.append(one.func.value)
        return found


def _taken_by(function: Function, method: bool, place: int, keyword: str | None, starred: bool) -> list[str]:
    """The parameters that an argument of a call may go to: a method may be called by its object or by its class."""
    arguments = function.args
    plain = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    more = [a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None]
    named = [*plain, *(a.arg for a in arguments.kwonlyargs)]
    if place >= 0 and not starred:
        names = [*plain[place : place + 1 + method], *more]
    else:
        names = [keyword] if keyword in named else [*more, *(named if keyword is None else ())]
    return [name for name in names if not (method and name == "self")]


def _teller(node: ast.AST) -> ast.expr | None:
    """What is told something to show it: a logger, a writer, a progress bar."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TELLS:
        return node.func.value
    return None
