"""By which conditions a script distributes itself, and which tests they decide where it does not."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from functools import cached_property

from accelift_codemod.facts import Facts, Function
from accelift_codemod.facts.idle import Idle
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.numbers import AVAILABLE
from accelift_codemod.facts.tree import walk
from accelift_codemod.single.defaults import ASKS, LAUNCHER, UNKNOWN, Defaults, Several, guards
from accelift_codemod.single.others import may_start, unknown

_DEPTH = 8


class Switches:
    """Finds them: what keeps a script from making a process group, where that is so by default, and with it all else
    that it does with other processes.

    Raises:
        Several: something is left that it does with other processes.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.index = facts.index
        self.resolver = facts.resolver
        self.defaults = Defaults(facts)
        self._alone = Defaults(facts, supposed=False)
        self._anyway = Defaults(facts, supposed=False, alone=False)
        self._idle = Idle(facts.resolver)
        self.first: ast.expr | None = None  # the test that is named to people
        self.assumed: dict[str, None] = {}  # modules of which nothing must make a process group
        self.apart: set[Function] = set()  # functions that only several processes run
        self._learned = False
        self._known: dict[Hashable, bool] = {}
        self._tests: dict[ast.AST, bool] = {}
        self._truths: dict[ast.AST, bool | None] = {}  # once all is learned
        self._find()
        self._learned = True

    # ---- what is known

    def truth(self, node: ast.AST, depth: int = 0) -> bool | None:
        """What a test is as the script does not distribute itself; None if that does not decide it."""
        if node in self._truths:
            return self._truths[node]
        found = self._truth(node, depth) if depth <= _DEPTH else None
        if self._learned and (found is not None or not depth):
            self._truths[node] = found
        return found

    def _truth(self, node: ast.AST, depth: int) -> bool | None:
        self.defaults.step()
        if self.defaults.asks(node):
            return False
        found = self._tests.get(node)
        found = self._known.get(self._key(node)) if found is None else found
        if found is not None:
            return found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand, depth + 1)
            return None if inner is None else not inner
        if isinstance(node, ast.BoolOp):
            decides = isinstance(node.op, ast.Or)
            parts = [self.truth(v, depth + 1) for v in node.values]
            return decides if decides in parts else not decides if None not in parts else None
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            left = self._left(self.defaults.bindings(node), depth)
            found = self._same(self._given(node, depth), depth) if left is None else left
        elif isinstance(node, ast.Call):
            found = self._returned(node, depth)
        return self._settled(node) if found is None else found

    def _settled(self, node: ast.AST) -> bool | None:
        """What a test is in whatever has no process group, if that decides it: `world_size < 2`."""
        known = self._alone.value(node)
        return bool(known) if known is not UNKNOWN and self._anyway.value(node) is UNKNOWN else None

    def is_plain(self, node: ast.AST, truth: bool) -> bool:
        """Whether what a test is known to be is its very value."""
        return self._switched.value(node) is truth or self._alone.value(node) is truth

    @cached_property
    def _switched(self) -> Defaults:
        """What is known by the defaults of those options alone by which the script would distribute itself: whoever
        sets another one does not ask for that."""
        tests = (t for t in self._tests if not any(isinstance(n, ast.BoolOp) for n in walk(t)))
        asked = {n.attr for t in tests for n in walk(t) if isinstance(n, ast.Attribute)}
        return Defaults(self.facts, options=asked)

    def _given(self, node: ast.Name | ast.Attribute, depth: int) -> list[ast.expr | None]:
        """The expressions that a variable, a parameter or an option may be as the script does not distribute itself."""
        return self.defaults.given(node, lambda other: self.dead(other, depth)) or []

    def _left(self, bindings: list[Binding], depth: int) -> bool | None:
        """What a variable is that is only ever something else where the script distributes itself."""
        alive = [b for b in bindings if b.how is How.PARAMETER or not self.dead(b.node, depth)]
        values = {b.value.value if isinstance(b.value, ast.Constant) and not b.path else None for b in alive}
        return True in values if len(alive) < len(bindings) and values in ({False}, {True}) else None

    def dead(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether a node does not run as the script does not distribute itself."""
        found = ((self.truth(test, depth + 1), runs) for test, runs in guards(self.facts, node))
        return any(known is not None and known is not runs for known, runs in found)

    def _returned(self, call: ast.Call, depth: int) -> bool | None:
        """What a function of the script returns, if it asks whether there are several processes."""
        function = self.resolver.callee(call)
        if not isinstance(function, FUNCTIONS):
            return None
        returns = self.resolver.returns(function)
        left = [r.value for r in returns if not self.dead(r, depth)]
        values = {v.value if isinstance(v, ast.Constant) else None for v in left}
        if len(left) < len(returns) and values in ({False}, {True}):
            return True in values
        return self.truth(left[0], depth + 1) if len(left) == 1 and left[0] is not None else None

    def _same(self, nodes: list[ast.expr | None], depth: int) -> bool | None:
        """What all expressions are that a variable may be; constants alone are nobody's switch."""
        found: set[bool | None] = set()
        for node in nodes:
            constant = isinstance(node, ast.Constant) and isinstance(node.value, bool)
            if not constant:
                found.add(self.truth(node, depth + 1) if node is not None else None)
        if len(found) != 1:
            return None
        (known,) = found
        plain = {n.value for n in nodes if isinstance(n, ast.Constant)}
        return known if plain <= {known} else None

    def _key(self, node: ast.AST) -> Hashable:
        """What two expressions have in common that are the same condition; None if it has no name."""
        if isinstance(node, ast.Attribute):
            return ("option", node.attr) if self.defaults.is_option(node) else None
        if isinstance(node, ast.Name):
            return frozenset(self.resolver.bindings(node)) or None  # the same ones: the same value
        if isinstance(node, ast.Constant):
            return ("constant", repr(node.value))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return ("minus", self._key(node.operand))
        if isinstance(node, ast.Compare):
            sides = [self._key(side) for side in (node.left, *node.comparators)]
            if None not in sides:
                return (*(type(o).__name__ for o in node.ops), *sides)
        return ast.dump(node) if self._of_launcher(node) and isinstance(node, (ast.Compare, ast.Call)) else None

    def _of_launcher(self, node: ast.AST) -> bool:
        """Whether an expression asks for what a launcher tells, and for nothing else."""
        names = [n for n in walk(node) if isinstance(n, ast.Name) and self.resolver.builtin(n) is None]
        words = {n.value for n in walk(node) if isinstance(n, ast.Constant)}
        return not LAUNCHER.isdisjoint(words) and all(self.resolver.qualified(n) is not None for n in names)

    # ---- what is learned

    def _find(self) -> None:
        uses = [(n, name) for n, name in self.facts.processes.uses if not self._only_asks(n, name)]
        for start in self.facts.processes.starts:
            self._switch(start)
        if self.first is None:
            self._look_around()
        for one, _ in uses:
            self._switched_off(one)
        for asked in self._asked():
            if not self.dead(asked):
                self._launched(asked)
        queue: list[tuple[ast.AST, ast.AST, str]] = [(n, n, name) for n, name in uses]
        seen: set[ast.AST] = set()
        while queue:
            node, use, name = queue.pop()
            function = self.index.function(node)
            if node in seen or self.dead(node):
                continue
            seen.add(node)
            if not isinstance(function, FUNCTIONS):
                raise Several(f"uses {name} without asking for a process group, and nothing is seen to make one", use)
            self.apart.add(function)
            queue += [(caller, use, name) for caller in self._callers(function)]

    def _look_around(self) -> None:
        """Note the modules of which nothing must make a process group, as nothing that is looked into does.

        Raises:
            Several: something may be there to make one.
        """
        for call, module in unknown(self.facts, self.dead):
            if may_start(self.facts, call, module):
                name = self.facts.short(call.func)
                raise Several(f"calls {name}(), and whether that makes a process group is not known", call)
            self.assumed[module] = None

    def _switched_off(self, use: ast.AST) -> None:
        """Learn from a condition around what the script does with other processes that never holds."""
        if not self.dead(use):
            for test, runs in guards(self.facts, use):
                known = self._anyway.value(test)
                if known is not UNKNOWN and bool(known) is not runs:
                    self._learn(test, not runs)
                    return

    def _only_asks(self, node: ast.AST, name: str) -> bool:
        parent = self.index.parents.get(node)
        return name in ASKS or (isinstance(parent, ast.Call) and self.defaults.asks(parent))

    def _switch(self, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> None:
        """Learn from the innermost condition under which the script makes its process group, or starts processes.

        Raises:
            Several: it does so by default, or there is none.
        """
        for test, runs in guards(self.facts, node):
            if self.truth(test) is runs or self._asks_for_library(test):
                continue  # `if not is_initialized():`
            known = self.defaults.value(test)
            if known is UNKNOWN or bool(known) is runs:
                raise Several(node=node)
            made = isinstance(test, ast.BoolOp) and test not in self.index.parents  # of several arms
            self.first = self.first or (test.values[0] if made else test)  # type: ignore[attr-defined]
            self._learn(test, not runs)
            return
        function = self.index.function(node)
        if not isinstance(function, FUNCTIONS) or function in seen or not self._callers(function):
            raise Several(node=node)
        for caller in self._callers(function):
            self._switch(caller, seen | {function})

    def _asks_for_library(self, test: ast.expr) -> bool:
        """`if dist.is_available():`, `if not dist.is_initialized():`."""
        inner = test.operand if isinstance(test, ast.UnaryOp) else test
        name = self.resolver.qualified(inner.func) if isinstance(inner, ast.Call) else None
        return name in AVAILABLE or name in ASKS

    def _asked(self) -> Iterator[ast.AST]:
        """What reads or sets variables of a launcher that have to be there."""
        for node in self.index.parents:
            if isinstance(node, ast.Subscript) and self.resolver.qualified(node.value) == "os.environ":
                if isinstance(node.slice, ast.Constant) and node.slice.value in LAUNCHER:
                    yield node

    def _launched(self, node: ast.AST) -> None:
        """Note the condition around what only a launcher makes work: by default it does not hold."""
        for test, runs in guards(self.facts, node):
            known = self.defaults.value(test)
            if known is not UNKNOWN and bool(known) is not runs:
                self._tests[test] = not runs
            return

    def _callers(self, function: Function) -> list[ast.Call]:
        """All that may call a function or method.

        Raises:
            Several: it is also handed on, or it is not known what calls it.
        """
        cls = self.index.parents.get(function)
        if isinstance(cls, ast.ClassDef):  # of any object: which it is of is not asked
            if not self._idle.is_own(cls):
                raise Several(
                    f"has {function.name}(), which works with other processes, and a base that may call it", function
                )
            reads = [a for a in self.index.attributes.get(function.name, []) if self.resolver.qualified(a) is None]
            calls = [self.index.parents.get(a) for a in reads]
            if function.name.startswith("__") or not all(isinstance(c, ast.Call) for c in calls):
                raise Several(f"has {function.name}(), which works with other processes, and hands it on", function)
            return [c for c in calls if isinstance(c, ast.Call)]
        if self.facts.references(function):
            raise Several(f"hands on {function.name}(), which works with other processes", function)
        return self.resolver.sites(function)

    def _learn(self, test: ast.AST, truth: bool, depth: int = 0) -> None:
        """Note what a test is, and what follows of what it is made of."""
        self._tests[test] = truth
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._learn(test.operand, not truth, depth)
        elif isinstance(test, ast.BoolOp):
            either = isinstance(test.op, ast.Or) is truth  # then one part decides it: whose, if not the launcher's
            for part in test.values:
                if not either or (self._of_launcher(part) and self.defaults.value(part) is truth):
                    self._learn(part, truth, depth)
        else:
            key = self._key(test)
            if key is not None and not isinstance(test, ast.Constant):
                self._known[key] = truth
            given = self.defaults.given(test) if isinstance(test, (ast.Name, ast.Attribute)) else None
            for source in given or ():
                if depth < _DEPTH and source is not None and not isinstance(source, ast.Constant):
                    self._learn(source, truth, depth + 1)
            for binding in self.defaults.bindings(test):
                if isinstance(binding.value, ast.Constant) and binding.value.value is (not truth):
                    self._launched(binding.node)

    @cached_property
    def gone(self) -> set[Function]:
        """Of these functions those that were called, and are not any more."""
        found = {f for f in self.apart if self._callers(f)}
        while True:
            called = {f for f in found if any(not self._goes(call, found) for call in self._callers(f))}
            if not called:
                return found
            found -= called

    def _goes(self, call: ast.Call, gone: set[Function]) -> bool:
        return self.dead(call) or any(parent in gone for parent in self.index.ancestors(call))
