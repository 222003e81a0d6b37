"""What is in collections: texts, whose hashes are others in every process, or numbers, whose hashes are not."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from enum import Enum
from typing import TypeAlias

from accelift_codemod.facts import Facts, Role
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.kinds import Kind

_MOST = 200  # expressions that are looked at for one answer
_ALIKE = frozenset("set frozenset list tuple sorted reversed iter next min max".split())  # of their first argument
_STEPS_IN = {"next": 1, "min": 1, "max": 1}  # one of its entries
_NUMBERS = frozenset("int len float ord abs round sum hash bool range".split())
_TEXTS = frozenset("str repr chr input ascii open".split())
_TEXT_METHODS = frozenset(
    """
    lower upper strip lstrip rstrip replace join format decode title capitalize casefold read read_text readline
    split rsplit splitlines readlines partition
    """.split()
)
_TEXTS_OF = frozenset(
    "os.listdir glob.glob glob.iglob csv.reader os.path.basename os.path.join os.path.dirname os.getenv".split()
)
_COPIES = frozenset("numpy.unique numpy.array numpy.asarray collections.Counter collections.deque".split())
_VIEWS = frozenset("union intersection difference symmetric_difference copy keys".split())
_GROWS = {"append": 1, "add": 1, "extend": 0, "update": 0}  # whether it is given an entry, or a collection of them


class Entry(Enum):
    """What may be in a collection."""

    TEXT = "text"
    NUMBER = "number"
    UNKNOWN = "unknown"


Found: TypeAlias = frozenset[Entry]
Seen: TypeAlias = set[tuple[ast.expr, int]]  # what has been asked for on the way to an answer, at which depth
_TEXT, _NUMBER, _UNKNOWN = (frozenset({entry}) for entry in Entry)


class Entries:
    """Answers what expressions, and the entries of collections, may be."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.resolver = facts.resolver
        self.index = facts.index

    def of(self, node: ast.expr | None, depth: int = 1, seen: Seen | None = None) -> Found:
        """What the entries of a collection may be; those of its entries at depth 2; what an expression is at depth 0.

        Nothing of what is empty. What is in a text are texts, too.
        """
        seen = set() if seen is None else seen
        if node is None or len(seen) > _MOST:
            return _UNKNOWN
        if (node, depth) in seen:
            return frozenset()  # its part of the answer is another's already
        seen.add((node, depth))
        if isinstance(node, ast.Constant):
            return _TEXT if isinstance(node.value, (str, bytes)) else _NUMBER
        if isinstance(node, ast.JoinedStr):
            return _TEXT
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            found = _join(self._part(e, max(depth - 1, 0), seen) for e in node.elts)
            return _TEXT if not depth and Entry.TEXT in found else found  # a tuple is hashed by all of its parts
        if isinstance(node, ast.Dict):
            return _join(self.of(k, depth - 1, seen) for k in node.keys) if depth else _UNKNOWN
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self.of(node.elt, depth - 1, seen) if depth else _UNKNOWN
        if isinstance(node, ast.DictComp):
            return self.of(node.key, depth - 1, seen) if depth else _UNKNOWN
        if isinstance(node, ast.BinOp):
            right = frozenset() if isinstance(node.op, ast.Sub) else self.of(node.right, depth, seen)
            found = self.of(node.left, depth, seen) | right
            return _TEXT if not depth and Entry.TEXT in found else found
        if isinstance(node, ast.BoolOp):
            return _join(self.of(v, depth, seen) for v in node.values)
        if isinstance(node, ast.IfExp):
            return self.of(node.body, depth, seen) | self.of(node.orelse, depth, seen)
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, depth, seen)
        if isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                return _UNKNOWN
            return self.of(node.value, depth if isinstance(node.slice, ast.Slice) else depth + 1, seen)
        if isinstance(node, ast.Name):
            made = _join(self._bound(b, depth, seen) for b in self.resolver.bindings(node)) or frozenset()
            return made | self._put_into(node, depth, seen) if self.resolver.bindings(node) else _UNKNOWN
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth, seen)
        return self._call(node, depth, seen) if isinstance(node, ast.Call) else _UNKNOWN

    def _part(self, node: ast.expr, depth: int, seen: Seen) -> Found:
        return self.of(node.value, depth + 1, seen) if isinstance(node, ast.Starred) else self.of(node, depth, seen)

    def _bound(self, binding: Binding, depth: int, seen: Seen) -> Found:
        """What a binding gives its variable."""
        value, path = binding.value, binding.path
        if binding.how is How.PARAMETER:
            handed = self.resolver.handed(binding)
            return _join(self.of(given, depth, seen) for given in handed) if handed else _UNKNOWN
        if binding.how in (How.ASSIGN, How.AUGMENT, How.WITH):
            return self.of(value, depth + len(path), seen)
        if binding.how is not How.LOOP:
            return _UNKNOWN
        if isinstance(value, ast.Call) and path and path[0] is not None and value.args:
            rest = depth + len(path)
            name = self.resolver.builtin(value.func)
            if name == "enumerate":
                return self.of(value.args[0], rest, seen) if path[0] else _NUMBER
            if name == "zip":
                return self.of(value.args[path[0]], rest, seen) if path[0] < len(value.args) else _UNKNOWN
        return self.of(value, depth + 1 + len(path), seen)

    def _put_into(self, name: ast.Name, depth: int, seen: Seen) -> Found:
        """What is put into the collection that a variable holds."""
        loads = self.facts.loads_of(name) if depth else []
        return _join(self._put_by(self.index.parents.get(load), depth, seen) for load in loads)

    def _put_by(self, method: ast.AST | None, depth: int, seen: Seen) -> Found:
        """What a method of a collection puts into it."""
        call = self.index.parents.get(method) if isinstance(method, ast.Attribute) else None
        if not isinstance(method, ast.Attribute) or not isinstance(call, ast.Call) or call.func is not method:
            return frozenset()
        return _join(self.of(a, depth - _GROWS[method.attr], seen) for a in call.args if method.attr in _GROWS)

    def _attribute(self, node: ast.Attribute, depth: int, seen: Seen) -> Found:
        owners = self.resolver.values(node.value)
        if node.attr in ("targets", "labels") and owners:
            if all(v.role is Role.DATASET and v.name.startswith("torchvision.") for v in owners):
                return _NUMBER
        bound = self.index.attribute_bindings.get(node.attr, [])
        if not bound:
            return _UNKNOWN
        put = (self._put_by(self.index.parents.get(n), depth, seen) for n in self.index.attributes[node.attr] if depth)
        return _join((*(self._bound(b, depth, seen) for b in bound), *put))

    def _call(self, call: ast.Call, depth: int, seen: Seen) -> Found:
        name, qualified = self.resolver.builtin(call.func) or "", self.resolver.qualified(call.func) or ""
        if name in _NUMBERS or qualified.startswith("numpy.random.") or qualified == "numpy.arange":
            return _NUMBER
        if name in _TEXTS or qualified in _TEXTS_OF:
            return _TEXT
        if name in _ALIKE or qualified in _COPIES:
            first = call.args[0] if call.args else None
            return self.of(first, depth + _STEPS_IN.get(name, 0), seen) if first is not None else frozenset()
        if name == "enumerate":
            return self.of(call.args[0], depth, seen) | _NUMBER if depth > 1 and call.args else _UNKNOWN
        if name in ("map", "filter") and len(call.args) == 2:
            by = self.resolver.builtin(call.args[0])
            if name == "filter":
                return self.of(call.args[1], depth, seen)
            return _NUMBER if by in _NUMBERS else _TEXT if by in _TEXTS else _UNKNOWN
        if qualified.startswith("itertools.chain") and depth:
            inner = depth + 1 if qualified.endswith("from_iterable") else depth
            return _join(self._part(a, inner, seen) for a in call.args)
        target = self.resolver.callee(call)
        if isinstance(target, FUNCTIONS):
            returns = self.resolver.returns(target)
            return _join(self.of(s.value, depth, seen) for s in returns) if returns else _UNKNOWN
        func = call.func
        if not isinstance(func, ast.Attribute) or qualified or target is not None:
            return _UNKNOWN
        if func.attr in _TEXT_METHODS:
            return _TEXT
        if func.attr in _VIEWS:
            return self.of(func.value, depth, seen)
        return _NUMBER if func.attr == "item" or self._from_tensor(call) else _UNKNOWN

    def _from_tensor(self, node: ast.expr) -> bool:
        """Whether methods take numbers out of a tensor: `labels.cpu().numpy()`, `labels.tolist()`."""
        numbers = False
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            numbers = numbers or node.func.attr in ("numpy", "tolist")
            node = node.func.value
        return numbers and self.facts.kinds.of(node) is Kind.TENSOR


def _join(found: Iterable[Found]) -> Found:
    return frozenset().union(*found)
