"""What deals a batch in each iteration and is not followed itself: `x, y = batches.next_batch(64)`.

Nothing is known of what it returns but that it does not come from the network. That its parts have a row for each
sample, `split_batch` sees when the script runs.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts import library
from accelift_codemod.facts.command_line import CommandLine
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.layout.algebra import FIXED, Environment
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.layout.strides import Strides
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.picked import Picked

# Libraries whose functions make something else than batches, or batches that are followed.
_KNOWN = frozenset(
    "torch numpy math random time datetime copy os sys json pickle itertools functools collections".split()
)
_STACKS = frozenset({"stack", "vstack", "concatenate", "cat"})
_PLAIN = {Role.OBJECT, Role.TUPLE, Role.SEQUENCE}
_MOST_STEPS = 4


class Sources:
    """Tells statements of a loop that get a batch by a call."""

    def __init__(self, picked: Picked) -> None:
        self.picked = picked
        self.objects = picked.objects
        self.resolver = picked.resolver
        self.index = picked.index
        self._renews: dict[ast.AST, bool] = {}

    def renews(self, function: ast.AST, steps: int = 4) -> bool:
        """Whether a function may return something else each time: by chance, or by what it keeps."""
        if function not in self._renews:
            self._renews[function] = False
            self._renews[function] = any(self._renewed(node, function, steps) for node in walk(function))
        return self._renews[function]

    def _renewed(self, node: ast.AST, function: ast.AST, steps: int) -> bool:
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return True
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        callee = self.resolver.callee(node)
        if isinstance(callee, FUNCTIONS):
            return not steps or self.renews(callee, steps - 1)
        func = node.func
        own = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in stores(function)
        plain = own or callee is not None or self.picked.computes(node, self.resolver.qualified(func) or "")
        return self.picked.chance(node) or not plain

    def of(self, statement: ast.stmt, loop: ast.AST | None, env: Environment) -> ast.Call | None:
        """The call, if a statement of the body of a loop is one."""
        call = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(loop, (ast.For, ast.While)) or statement not in loop.body or not isinstance(call, ast.Call):
            return None
        names = _names(statement.targets[0])  # type: ignore[attr-defined]
        if not names or not self._deals(call) or not self._asked(call, loop, env):
            return None
        if any(not self._as_rows(name, loop) for name in names) or not self._fed(loop) & {*names}:
            return None
        return None if self._learns(call) or self._is_told(call, loop) else call

    def _deals(self, call: ast.Call) -> bool:
        """Whether a call is one of a function that is not known: of the script, or of an object of it; or the next of
        what a generator of the script yields."""
        generated = self._generator(call)
        if generated is not None:
            return self._deals(generated)
        if any(v.role not in _PLAIN for v in self.resolver.values(call)):
            return False
        qualified = self.resolver.qualified(call.func) or ""
        if qualified.partition(".")[0] in _KNOWN or library.matches(qualified, library.ENVIRONMENTS):
            return False
        function = self.resolver.callee(call)
        if isinstance(function, FUNCTIONS):
            return self._collects(function) or self._numbered(call)
        if self.resolver.builtin(call.func) is not None or not self._numbered(call):
            return False
        if qualified:
            return True
        root = _root(call)
        unchanging = isinstance(call.func, ast.Attribute) and call.func.attr not in self.picked.methods
        return unchanging and isinstance(root, ast.Name) and not self._is_network(root)

    def _generator(self, call: ast.Call) -> ast.Call | None:
        """The call of the generator of which something takes the next: `next(stream)`."""
        stream = call.args[0] if self.resolver.builtin(call.func) == "next" and len(call.args) == 1 else None
        bindings = self.resolver.bindings(stream) if isinstance(stream, ast.Name) else []
        made = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
        function = self.resolver.callee(made) if isinstance(made, ast.Call) else None
        generates = function is not None and any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(function))
        return made if generates and isinstance(made, ast.Call) else None

    def _numbered(self, call: ast.Call) -> bool:
        """Whether a call is told a number greater than one, the same each time: how many samples there are to be."""
        return any(self._greater(part) for part in (*call.args, *(k.value for k in call.keywords)))

    def _greater(self, node: ast.expr | None, steps: int = 0) -> bool:
        if isinstance(node, ast.Name) and steps < _MOST_STEPS:
            bindings = self.resolver.bindings(node)
            plain = all(b.how is How.ASSIGN and not b.path for b in bindings)
            return bool(bindings) and plain and all(self._greater(b.value, steps + 1) for b in bindings)
        if isinstance(node, ast.Attribute) and self.resolver.only(node.value, Role.ARGUMENTS):
            option = CommandLine(self.resolver).options.get(node.attr)
            given = {k.arg: k.value for k in option.keywords} if option is not None else {}
            kind = given.get("type")
            return kind is not None and self.resolver.builtin(kind) == "int" and self._greater(given.get("default"))
        return (integer(node) or 0) > 1

    def _collects(self, function: ast.AST) -> bool:
        """Whether a function of the script surely puts several samples together."""
        for node in walk(function):
            call = node if isinstance(node, ast.Call) else None
            name = call.func.attr if call is not None and isinstance(call.func, ast.Attribute) else ""
            sizes = list(call.args) if call is not None else []
            if name in ("view", "reshape") and len(sizes) > 1 and integer(sizes[0]) not in (-1, 1):
                return True
            qualified = (self.resolver.qualified(call.func) or "") if call is not None else ""
            if qualified.rpartition(".")[2] in _STACKS and qualified.startswith(("torch.", "numpy.")):
                return True
        loops = [n for n in walk(function) if isinstance(n, ast.For)]
        written = (n for loop in loops for s in loop.body for n in walk(s) if isinstance(n, (ast.Subscript, ast.Call)))
        return any(_puts(n, loops) for n in written)

    def _asked(self, call: ast.Call, loop: ast.For | ast.While, env: Environment) -> bool:
        """Whether nothing but settings and the number of the iteration says which batch it is."""
        counted = {Strides(self.resolver, loop).number}
        bound = {name for statement in loop.body for name in stores(statement)} - counted
        root = _root(call)
        if isinstance(root, ast.Name) and (root.id in bound | counted or self.picked.read(root, env) not in FIXED):
            return False
        given = [*call.args, *(k.value for k in call.keywords)]
        if any(isinstance(part, ast.Starred) for part in given):
            return False
        names = [n for part in given for n in loads(part)]
        return all(n.id in counted or (n.id not in bound and not self._is_network(n)) for n in names)

    def _as_rows(self, name: str, loop: ast.For | ast.While) -> bool:
        """Whether nothing in the loop takes a variable for a number or a collection."""
        for read in (n for statement in loop.body for n in loads(statement) if n.id == name):
            outer = self.index.parents.get(read)
            if isinstance(outer, (ast.Starred, ast.Slice)) or (isinstance(outer, ast.keyword) and outer.arg is None):
                return False
            if isinstance(outer, ast.Call) and self.resolver.builtin(outer.func) in ("range", "int", "float", "bool"):
                return False
        return True

    def _fed(self, loop: ast.For | ast.While) -> set[str]:
        """The variables of a loop that networks, or functions of the script, are given something of."""
        calls = [n for s in loop.body for n in walk(s) if isinstance(n, ast.Call)]
        calls = [c for c in calls if self._is_network(c.func) or isinstance(self.resolver.callee(c), FUNCTIONS)]
        found = {n.id for c in calls for part in (*c.args, *(k.value for k in c.keywords)) for n in loads(part)}
        for statement in reversed([s for s in loop.body if isinstance(s, ast.Assign)]):
            if stores(statement) & found:
                found |= {n.id for n in loads(statement.value)}
        return found

    # ---- what a batch may come from

    def _learns(self, call: ast.Call) -> bool:
        """Whether a network, or a loader of the script, may take part in making a batch."""
        inside = [self.resolver.callee(call), *(v.declaration for v in self.resolver.values(_root(call)))]
        roots = [n for n in (_root(call), *call.args) if isinstance(n, ast.Name)]
        bindings = [b for root in roots for b in self.resolver.bindings(root)]
        if any(b.how is How.PARAMETER and not self.resolver.values(root) for root in roots for b in bindings):
            return True  # it may be anything
        waiting = [node for node in (*inside, *(b.value for b in bindings)) if node is not None]
        seen: list[ast.AST] = []
        while waiting and len(seen) < 4**_MOST_STEPS:
            node = waiting.pop()
            seen.append(node)
            for part in walk(node):
                roles = (
                    {v.role for v in self.resolver.values(part)} if isinstance(part, (ast.Name, ast.Call)) else set()
                )
                if Role.LOADER in roles or (isinstance(part, (ast.Name, ast.Attribute)) and self._is_network(part)):
                    return True
                callee = self.resolver.callee(part) if isinstance(part, ast.Call) else None
                waiting += [callee] if callee is not None and callee not in (*seen, *waiting) else []
        return bool(waiting)

    def _is_network(self, node: ast.AST) -> bool:
        return bool(self.objects.models(node))

    def _is_outer(self, name: ast.Name, function: ast.AST) -> bool:
        """Whether a variable of a function is one of the code around it, and no module, function or class."""
        owner = self.index.scope(name).owner(name.id)
        bindings = self.resolver.bindings(name)
        return (
            owner is not None
            and owner.node is not function
            and any(not b.qualified and b.how not in (How.FUNCTION, How.CLASS) for b in bindings)
        )

    def _is_told(self, call: ast.Call, loop: ast.For | ast.While) -> bool:
        """Whether the loop hands on what it computes to the object that deals, or to what the function reads."""
        generated = self._generator(call)
        root, function = _root(call), self.resolver.callee(generated or call)
        read = {root.id} if isinstance(root, ast.Name) else set()
        if generated is not None:
            read |= {n.id for part in (call, generated) for n in loads(part)}
        if isinstance(function, FUNCTIONS):
            read |= {n.id for n in walk(function) if isinstance(n, ast.Name) and self._is_outer(n, function)}
        computed = {name for statement in loop.body for name in stores(statement)}
        for statement in (s for part in loop.body for s in walk(part) if isinstance(s, ast.stmt)):
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            places = [t for t in targets if isinstance(t, (ast.Subscript, ast.Attribute))]
            if any(n.id in read for place in places for n in loads(place)):
                return True
        for other in (n for part in loop.body for n in walk(part) if isinstance(n, ast.Call) and n is not call):
            of, given = _root(other), [*other.args, *(k.value for k in other.keywords)]
            about = (isinstance(of, ast.Name) and of.id in read) or any(n.id in read for a in given for n in loads(a))
            if about and any(n.id in computed for a in given for n in loads(a)):
                return True
        return False


def _names(target: ast.expr) -> list[str]:
    """The variables that a target binds, if it is nothing but variables."""
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return [p.id for p in parts if isinstance(p, ast.Name)] if all(isinstance(p, ast.Name) for p in parts) else []


def _puts(node: ast.Subscript | ast.Call, loops: list[ast.For]) -> bool:
    """Whether a node puts something into a list or an array at the place that a loop counts to."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "append"
    counted = {name for loop in loops for name in stores(loop.target)}
    return isinstance(node.ctx, ast.Store) and isinstance(node.slice, ast.Name) and node.slice.id in counted


def _root(call: ast.Call) -> ast.expr | None:
    """What a method is called of, at the beginning of its name: `data` of `data.train.next()`."""
    node: ast.expr | None = call.func
    if not isinstance(node, ast.Attribute):
        return None
    while isinstance(node, (ast.Attribute, ast.Call)):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node
