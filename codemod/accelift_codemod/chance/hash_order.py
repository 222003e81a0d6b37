"""The order of sets, which is that of hashes: of texts, it is another one in every process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance.entries import Entries, Entry
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.chance import drawn_from
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.onward import Read, is_within, reached

_STEPS = 6  # variables and functions that a tuple goes through
_MOST = 200  # expressions that are looked at for one answer
_OPERATIONS = frozenset("union intersection difference symmetric_difference copy keys values items tolist".split())
_COPIES = frozenset("list tuple iter reversed filter map".split())  # in the order of what they are given last
_ARRAYS = frozenset(
    """
    numpy.array numpy.asarray collections.OrderedDict collections.deque pandas.Series itertools.chain
    """.split()
)
_TENSORS = frozenset("tensor as_tensor from_numpy LongTensor FloatTensor Tensor IntTensor stack cat".split())
_FILLS = frozenset("append extend insert appendleft".split())
_DEALS = frozenset({Role.DATASET, Role.LOADER})
_INDIFFERENT = frozenset("sorted len min max sum any all set frozenset".split())
_SETS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor, ast.Add)


class HashOrder:
    """Finds what is numbered, picked or dealt in the order of a set."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.resolver = draft.facts.resolver
        self.index = draft.facts.index
        self.entries = Entries(draft.facts)

    def found(self) -> Iterator[tuple[ast.expr, Entry]]:
        """Sets whose order reaches the data (and hashes that do), and what is in them; each set once."""
        known: set[ast.AST] = set()
        for call in self.draft.calls:
            if self.resolver.builtin(call.func) == "hash" and len(call.args) == 1:
                yield from self._told(call, call, self.entries.of(call.args[0], 0), known)
        written = any(n.__class__ in (ast.Set, ast.SetComp) for n in walk(self.draft.facts.tree))
        if not written and not any(map(self._is_set, self.draft.facts.index.calls)):
            return
        for node, source in self._ordered():
            origin = self.arbitrary(source)
            if origin is not None and self.draft.facts.runs(node):
                named = (
                    source if isinstance(origin, ast.Call) and not origin.args else origin
                )  # `set()` is filled later
                yield from self._told(node, named, self.entries.of(named), known)
        for loop in (n for n in walk(self.draft.facts.tree) if isinstance(n, ast.For)):
            origin = self.arbitrary(loop.iter)
            if origin is not None and self.draft.facts.runs(loop):
                named = loop.iter if self._is_empty(origin) else origin
                for read in self._counted(loop):
                    yield from self._told(read, named, self.entries.of(named), known)

    def _told(
        self, node: Read | ast.expr, origin: ast.expr, kinds: frozenset[Entry], known: set[ast.AST]
    ) -> Iterator[tuple[ast.expr, Entry]]:
        """The finding, if what is in the set may be no numbers, and its order reaches the data."""
        if origin in known or kinds <= {Entry.NUMBER}:
            return
        if self._on_data(node):
            known.add(origin)
            yield origin, Entry.TEXT if kinds == {Entry.TEXT} else Entry.UNKNOWN

    # ---- what has the order of a set

    def _is_set(self, node: ast.expr) -> bool:
        """Whether an expression makes a set with something in it."""
        if isinstance(node, ast.Call) and self.resolver.builtin(node.func) in ("set", "frozenset"):
            return True
        return isinstance(node, (ast.Set, ast.SetComp))

    @memoised
    def arbitrary(self, node: ast.expr | None) -> ast.expr | None:
        """The set in whose order a collection is; None if that is no set's."""
        return self._arbitrary(node, set())

    def _arbitrary(self, node: ast.expr | None, seen: set[ast.expr]) -> ast.expr | None:
        if node is None or node in seen or len(seen) > _MOST:
            return None
        seen.add(node)
        if self._is_set(node):
            return node
        if isinstance(node, ast.BinOp) and isinstance(node.op, _SETS):
            return self._arbitrary(node.left, seen) or self._arbitrary(node.right, seen)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.DictComp)):
            return self._first(seen, *(g.iter for g in node.generators))
        if isinstance(node, (ast.List, ast.Tuple)):
            return self._first(seen, *(e.value for e in node.elts if isinstance(e, ast.Starred)))
        if isinstance(node, ast.IfExp):
            return self._first(seen, node.body, node.orelse)
        if isinstance(node, ast.Name):
            if self._is_sorted(node):
                return None
            return next((o for b in self.resolver.bindings(node) if (o := self._bound(b, seen)) is not None), None)
        if isinstance(node, ast.Attribute):
            bound = self.index.attribute_bindings.get(node.attr, [])
            sorts = self.index.methods.get("sort", [])
            if any(isinstance(c.func, ast.Attribute) and _named(c.func.value) == node.attr for c in sorts):
                return None
            return next((o for b in bound if (o := self._bound(b, seen)) is not None), None)
        return self._of_call(node, seen) if isinstance(node, ast.Call) else None

    def _first(self, seen: set[ast.expr], *nodes: ast.expr) -> ast.expr | None:
        return next((found for n in nodes if (found := self._arbitrary(n, seen)) is not None), None)

    def _of_call(self, call: ast.Call, seen: set[ast.expr]) -> ast.expr | None:
        name, qualified = self.resolver.builtin(call.func), self.resolver.qualified(call.func) or ""
        if (name in _COPIES or qualified in _ARRAYS) and call.args:
            return self._arbitrary(call.args[-1], seen)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "fromkeys" and call.args:
            return self._arbitrary(call.args[0], seen)
        target = self.resolver.callee(call)
        if isinstance(target, FUNCTIONS):
            return self._first(seen, *(r.value for r in self.resolver.returns(target) if r.value is not None))
        if isinstance(call.func, ast.Attribute) and not qualified and call.func.attr in _OPERATIONS:
            return self._arbitrary(call.func.value, seen)
        return None

    def _bound(self, binding: Binding, seen: set[ast.expr]) -> ast.expr | None:
        """The set in whose order a binding gives a variable a collection, or in whose order that is filled."""
        if binding.how is How.PARAMETER:
            return self._first(seen, *(a for a in self.resolver.handed(binding) if a is not None))
        if binding.how is How.ASSIGN and binding.path:
            return self._first(seen, *self._at(binding.value, binding.path))
        if binding.how not in (How.ASSIGN, How.AUGMENT) or binding.path:
            return None
        found = self._arbitrary(binding.value, seen)
        if found is not None or not self._is_empty(binding.value):
            return found
        for loop in self._filling(binding):
            if (found := self._arbitrary(loop.iter, seen)) is not None:
                return found
        return None

    def _at(self, node: ast.expr | None, path: tuple[int | None, ...], steps: int = _STEPS) -> Iterator[ast.expr]:
        """What stands at a place of what an expression gives: of a tuple, perhaps one that functions return."""
        if not path and node is not None:
            yield node
        elif isinstance(node, (ast.Tuple, ast.List)) and not any(isinstance(e, ast.Starred) for e in node.elts):
            if path[0] is not None and path[0] < len(node.elts):
                yield from self._at(node.elts[path[0]], path[1:], steps)
        elif isinstance(node, ast.IfExp):
            yield from (found for arm in (node.body, node.orelse) for found in self._at(arm, path, steps))
        elif isinstance(node, ast.Name) and steps:
            for binding in self.resolver.bindings(node):
                if binding.how is How.ASSIGN:
                    yield from self._at(binding.value, (*binding.path, *path), steps - 1)
        elif isinstance(node, ast.Call) and steps:
            target = self.resolver.callee(node)
            for returned in self.resolver.returns(target) if isinstance(target, FUNCTIONS) else ():
                yield from self._at(returned.value, path, steps - 1)

    def _is_empty(self, node: ast.expr | None) -> bool:
        """Whether an expression makes a collection with nothing in it."""
        if isinstance(node, (ast.List, ast.Dict)):
            return not (node.elts if isinstance(node, ast.List) else node.keys)
        if not isinstance(node, ast.Call):
            return False
        made = self.resolver.builtin(node.func) in ("list", "dict", "set") and not node.args
        return made or (self.resolver.qualified(node.func) or "") == "collections.defaultdict"

    def _filling(self, binding: Binding) -> Iterator[ast.For]:
        """The loops that fill the list or dict that a binding makes before them."""
        node = binding.node
        for read in self._reads(node) if isinstance(node, (ast.Name, ast.Attribute)) else ():
            parent = self.index.parents.get(read)
            fills = isinstance(parent, ast.Attribute) and parent.attr in _FILLS
            fills = fills or (isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store))
            if fills:
                around = self.index.enclosing_loops(read)
                made = self.index.enclosing_loops(node)
                yield from (loop for loop in around if loop not in made and isinstance(loop, ast.For))

    def _is_sorted(self, name: ast.Name) -> bool:
        """Whether a variable holds a list that is sorted in place."""
        methods = (self.index.parents.get(load) for load in self.draft.facts.loads_of(name))
        return any(isinstance(m, ast.Attribute) and m.attr == "sort" for m in methods)

    # ---- what comes of the order

    def _ordered(self) -> Iterator[tuple[ast.expr, ast.expr]]:
        """Expressions whose value follows from the order of a collection, with that collection."""
        for call in self.draft.calls:
            name, qualified = self.resolver.builtin(call.func), self.resolver.qualified(call.func) or ""
            func = call.func
            if name in ("enumerate", "next") and call.args:
                yield call, call.args[0]
            elif name == "zip":
                arbitrary = [a for a in call.args if self.arbitrary(a) is not None]
                if arbitrary and len(arbitrary) < len(call.args):
                    yield call, arbitrary[0]
            elif call.args and (self._is_tensor(call) or drawn_from(self.resolver, call) in ("numpy", "random")):
                yield call, call.args[0]
            elif self.resolver.roles(call) & _DEALS:
                yield from ((call, argument) for argument in (*call.args, *(k.value for k in call.keywords)))
            elif isinstance(func, ast.Attribute) and not qualified and func.attr in ("index", "pop", "popitem"):
                if func.attr != "pop" or not call.args:
                    yield call, func.value
        for node in walk(self.draft.facts.tree):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and not self._is_keyed(node.value):
                yield node, node.value

    def _is_tensor(self, call: ast.Call) -> bool:
        """Whether a call makes a tensor of what it is given."""
        home, _, name = (self.resolver.qualified(call.func) or "").rpartition(".")
        return home == "torch" and name in _TENSORS

    def _is_keyed(self, node: ast.expr, seen: set[ast.expr] | None = None) -> bool:
        """Whether a collection is looked up by keys, or may be: what is found so has no order."""
        seen = set() if seen is None else seen
        if node in seen:
            return False  # no more than what is asked for already
        if len(seen) > _MOST:
            return True
        seen.add(node)
        if isinstance(node, (ast.List, ast.ListComp, ast.Tuple)):
            return False
        if isinstance(node, ast.Call):
            return self.resolver.builtin(node.func) not in ("list", "tuple", "sorted")
        if isinstance(node, ast.BinOp):
            return self._is_keyed(node.left, seen)
        bound = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        if isinstance(node, ast.Attribute):
            bound = self.index.attribute_bindings.get(node.attr, [])
        values: list[ast.expr | None] = []
        for binding in bound:
            values += self.resolver.handed(binding) if binding.how is How.PARAMETER else [binding.value]
        return not values or any(v is None or self._is_keyed(v, seen) for v in values)

    def _counted(self, loop: ast.For) -> Iterator[Read]:
        """What a loop numbers: reads of what it counts, and of the dicts that it gives their size as a number."""
        for node in (n for s in loop.body for n in walk(s)):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                if isinstance(node.op, ast.Add) and isinstance(node.value, ast.Constant):
                    yield from (n for n in self._reads(node.target) if is_within(self.draft, n, loop))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                numbered = node.targets[0].value
                if isinstance(numbered, (ast.Name, ast.Attribute)) and self._is_size(node.value, numbered):
                    yield from (n for n in self._reads(numbered) if not is_within(self.draft, n, loop))

    def _is_size(self, node: ast.expr, of: ast.expr) -> bool:
        sizes = (n for n in walk(node) if isinstance(n, ast.Call) and self.resolver.builtin(n.func) == "len")
        return any(call.args and ast.dump(call.args[0]) == ast.dump(of) for call in sizes)

    def _reads(self, node: ast.Name | ast.Attribute) -> list[Read]:
        """The reads of a variable, or of attributes of that name."""
        if isinstance(node, ast.Attribute):
            return [n for n in self.index.attributes.get(node.attr, []) if isinstance(n.ctx, ast.Load)]
        owner = self.index.scope(node).owner(node.id)
        return [*self.draft.facts.loads(owner, node.id)] if owner is not None else []

    def _on_data(self, start: ast.expr) -> bool:
        """Whether what follows from the order of a set reaches the data: a tensor, a data set, a loader, a sample."""
        if not isinstance(start, (ast.Name, ast.Attribute, ast.Call)):
            inner = next((n for n in walk(start) if isinstance(n, (ast.Name, ast.Attribute, ast.Call))), None)
            return inner is not None and self._on_data(inner)
        return any(map(self._is_data, reached(self.draft, [start], stop=self._has_no_order)))

    def _has_no_order(self, node: ast.AST) -> bool:
        """Whether what a part of an expression is computed from says nothing of the order of that."""
        if isinstance(node, (ast.JoinedStr, ast.Lambda, ast.SetComp, *FUNCTIONS)):
            return True
        if isinstance(node, ast.Call):
            return self.resolver.builtin(node.func) in _INDIFFERENT
        return isinstance(node, ast.Compare) and all(isinstance(o, (ast.In, ast.NotIn)) for o in node.ops)

    def _is_data(self, use: Read) -> bool:
        for node in (use, *self.index.ancestors(use)):
            if isinstance(node, ast.stmt):
                break
            if self._has_no_order(node):
                return False
            if isinstance(node, ast.Call):
                if self._is_tensor(node) or self.resolver.roles(node) & _DEALS:
                    return True
        function = self.draft.function(use)
        cls = self.index.parents.get(function) if function is not None else None
        sample = function is not None and function.name in ("__getitem__", "__iter__")
        return sample and isinstance(cls, ast.ClassDef) and self.resolver.class_role(cls) is Role.DATASET


def _named(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""
