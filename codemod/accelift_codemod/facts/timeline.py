"""When code runs, seen from one function (or from module level)."""

from __future__ import annotations

import ast
from collections.abc import Set

from accelift_codemod.facts.executed import is_handed_over
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How, position
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import children
from accelift_codemod.facts.uses import is_called, reads

Moment = tuple[int, int]


# Built-in functions that run a function which they are given; None: what is not built in may, too.
_RUNS_ARGUMENTS = frozenset({None, "map", "filter", "sorted", "min", "max", "iter"})


class Timeline:
    """Places code that runs inside called functions at the call that runs it."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.index = resolver.index

    def moments(self, node: ast.AST, home: Function | None) -> list[Moment]:
        """When a node is evaluated, as positions in `home` (None: module level); empty if unknown."""
        return sorted({position(place) for place in self.places(node, home)})

    def places(self, node: ast.AST, home: Function | None) -> list[ast.AST]:
        """The nodes in `home` (None: module level) that evaluate a node, through calls; empty if unknown."""
        if self.index.function(node) is not home and home not in self.callers(self.index.function(node)):
            return []
        found: dict[ast.AST, None] = {}
        queue: list[ast.AST] = [node]
        seen: set[ast.AST] = set()
        while queue:
            current = queue.pop()
            function = self.index.function(current)
            held = self._held(current)
            if held is not None:
                if held not in seen:
                    seen.add(held)
                    queue += self.reads_of_lambda(current)
                continue
            if function is home:
                found.setdefault(current)
                continue
            if function is None or function in seen:
                continue
            seen.add(function)
            queue += self.resolver.sites(function)
            queue += self.handed_on(function)
        return list(found)

    def reads_of_lambda(self, node: ast.AST) -> list[ast.Name]:
        """Where a lambda around a node is called, or handed on, if a variable is set to it, and to nothing else."""
        held = self._held(node)
        return self._reads_of(held) if held is not None else []

    def _held(self, node: ast.AST) -> ast.Lambda | None:
        """The lambda around a node that a variable is set to, if that is read; None if there is none."""
        inner = next((n for n in self.index.ancestors(node) if isinstance(n, (ast.Lambda, ast.stmt))), None)
        if not isinstance(inner, ast.Lambda) or inner.args in self.index.ancestors(node):
            return None  # a default value is computed where the lambda is made
        return inner if self._reads_of(inner) else None

    @memoised
    def _reads_of(self, held: ast.Lambda) -> list[ast.Name]:
        statement = self.index.parents.get(held)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or statement.value is not held:
            return []
        target = statement.targets[0]
        owner = self.index.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
        if not isinstance(target, ast.Name) or owner is None or self.resolver.set_once(target) is not held:
            return []
        return reads(self.index, owner, target.id)

    def follows(self, node: ast.AST, home: Function | None, others: bool = False) -> bool:
        """Whether `home` is the constructor of an object, and the node only runs in it, or for methods of that object;
        or, if that does for `others`, after statements that make one.

        What is not among the node's `places` in the constructor then runs when that is done.
        """
        cls = self.resolver.instance(home) if home is not None else None
        if cls is None or home is not self.resolver.constructor(cls):
            return False
        return self._belongs(node, cls, others, set())

    def _belongs(self, node: ast.AST, cls: ast.ClassDef, others: bool, seen: set[ast.AST]) -> bool:
        if self.resolver.instance(node) is cls or (others and self._is_behind_one(node, cls)):
            return True
        function = self.index.function(node)
        if function is None or function in seen:
            return False
        seen.add(function)
        places = [*self.resolver.sites(function), *self.handed_on(function)]
        return bool(places) and all(self._belongs(place, cls, others, seen) for place in places)

    def _is_behind_one(self, node: ast.AST, cls: ast.ClassDef) -> bool:
        """Whether a statement before a node, in a block around it, makes an object of a class: `t = Trainer()`."""
        blocks = self.index.places(self.index.statement(node))
        for site in self.resolver.sites(cls):
            made = self.index.statement(site)
            if isinstance(made, (ast.Assign, ast.AnnAssign, ast.Expr)) and made.value is site:
                block, place = self.index.block(made)
                if blocks.get(id(block), -1) > place:
                    return True
        return False

    def within(self, node: ast.AST, home: Function | None, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether a node only runs in a function, or in what that calls."""
        function = self.index.function(node)
        if function is home:
            return True
        if function is None or function in seen:
            return False
        places = [*self.resolver.sites(function), *self.handed_on(function)]
        return bool(places) and all(self.within(place, home, seen | {function}) for place in places)

    @memoised
    def callers(self, function: Function | None) -> set[Function | None]:
        """The functions (None: the module's own code) that a function may run for, through calls."""
        found: set[Function | None] = set()
        queue = [function]
        while queue:
            current = queue.pop()
            if current is None:
                continue
            for place in (*self.resolver.sites(current), *self.handed_on(current)):
                caller = self.index.function(place)
                if caller not in found:
                    found.add(caller)
                    queue.append(caller)
        return found

    @memoised
    def handed_on(self, function: Function) -> list[ast.AST]:
        """Places where a function is handed on as a value: it may run there."""
        owner = self.index.scope(function)
        found: list[ast.AST] = []
        if self.resolver.is_method(function):
            reads = self._uncalled(function.name)
            return [n for n in reads if any(v.declaration is owner.node for v in self.resolver.values(n.value))]
        for name in owner.loads.get(function.name, []):
            parent = self.index.parents.get(name)
            if not (isinstance(parent, ast.Call) and parent.func is name) and self.resolver.may_be(name, function):
                found.append(name)
        unseen = not found and not self.resolver.sites(function)
        return [function] if unseen and is_handed_over(self.resolver, function) else found

    @memoised
    def _uncalled(self, attribute: str) -> list[ast.Attribute]:
        """The reads of an attribute that are not what a call calls."""
        reads = self.index.attributes.get(attribute, [])
        return [n for n in reads if not is_called(self.index, n)]

    def repeats(self, node: ast.AST, other: ast.AST) -> bool:
        """Whether two nodes of one function may run again and again in turns: in a loop, or the function is called
        several times."""
        if set(self.index.enclosing_loops(node)) & set(self.index.enclosing_loops(other)):
            return True
        function, seen = self.index.function(node), set[ast.AST]()
        while function is not None and function not in seen:
            seen.add(function)
            sites = [*self.resolver.sites(function), *self.handed_on(function)]
            if len(sites) > 1 or any(self.index.enclosing_loops(site) for site in sites):
                return True
            function = self.index.function(sites[0]) if sites else None
        return False

    def alternate(self, node: ast.AST, other: ast.AST) -> bool:
        """Whether two nodes may run again and again in turns, seen from a function that leads to both."""
        function = self.index.function(node)
        return any(
            self.repeats(first, second)
            for home in (function, *self.callers(function))
            for first in self.places(node, home)
            for second in self.places(other, home)
        )

    def exclusive(self, left: ast.AST, right: ast.AST) -> bool:
        """Whether two nodes of one function stand in different arms of an `if`, so that only one of them runs: in every
        iteration the same, if it is in a loop."""
        meeting = self.index.meeting(left, right)
        if meeting is None:
            return False
        parent, first, second = meeting
        if not isinstance(parent, ast.If):
            return False
        apart = (first in parent.body) != (second in parent.body)
        loops = self.index.enclosing_loops(parent)
        return apart and (not loops or self._stays(parent.test, loops[-1]))

    def _stays(self, test: ast.expr, loop: ast.AST) -> bool:
        """Whether a test says the same in every iteration of a loop, which binds nothing of what is compared in it."""
        if isinstance(test, ast.BoolOp):
            return all(self._stays(value, loop) for value in test.values)
        if not isinstance(test, ast.Compare):
            return False
        sides = [test.left, *test.comparators]
        names = [side for side in sides if isinstance(side, ast.Name)]
        if not all(isinstance(side, (ast.Name, ast.Constant)) for side in sides) or len(names) == len(sides):
            return False
        owners = ((name.id, self.index.scope(name).owner(name.id)) for name in names)
        return all(owner is not None and self._before(owner.bindings[name], loop) for name, owner in owners)

    def _before(self, bindings: list[Binding], loop: ast.AST) -> bool:
        """Whether nothing is bound while a loop runs: all is bound in its function, and outside of it."""
        home = self.index.function(loop)
        return all(
            (b.how is How.PARAMETER or self.index.function(b.node) is home) and loop not in self.index.ancestors(b.node)
            for b in bindings
        )

    @memoised
    def calls_into(self, statement: ast.stmt | ast.expr) -> Set[Function]:
        """Functions of the script that a statement, or an expression, may run, always in the same order."""
        return self._into(statement, constructors=False)

    @memoised
    def runs(self, statement: ast.stmt | ast.expr) -> Set[Function]:
        """What `calls_into` gives, and the constructors of objects that are made there, with what those run."""
        return self._into(statement, constructors=True)

    def _into(self, statement: ast.AST, constructors: bool) -> Set[Function]:
        found: dict[Function, None] = {}
        calling = self.index.calling
        stack: list[ast.AST] = [statement]
        while stack:
            node = stack.pop()
            if node not in calling:
                continue
            if isinstance(node, ast.Call):
                target = self.resolver.callee(node)
                if constructors and isinstance(target, ast.ClassDef):
                    target = self.resolver.method(target, "__init__")
                targets = [target] if isinstance(target, FUNCTIONS) else [*self.resolver.called.get(node, ())]
                builtin = self.resolver.builtin(node.func)
                handed = (*node.args, *(k.value for k in node.keywords)) if builtin in _RUNS_ARGUMENTS else ()
                for argument in handed:
                    targets += [
                        v.declaration for v in self.resolver.values(argument) if isinstance(v.declaration, FUNCTIONS)
                    ]
                for function in targets:
                    if isinstance(function, FUNCTIONS) and function not in found:
                        found[function] = None
                        stack.extend(function.body)
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node is not statement:
                continue
            stack.extend(children(node))
        return found.keys()
