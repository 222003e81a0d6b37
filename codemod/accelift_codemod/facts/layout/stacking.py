"""Collate functions that only stack: what they make of a sample does not go by the samples beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from accelift_codemod.facts.classes import is_static
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.facts.resolve import Resolver

DEFAULT = frozenset(f"torch.utils.data.{home}default_collate" for home in ("", "dataloader.", "_utils.collate."))
# What makes one tensor or array of a list, with a row for each entry; it may be a tensor already.
TENSORS = frozenset(
    "torch.tensor torch.as_tensor torch.Tensor torch.FloatTensor torch.LongTensor torch.IntTensor torch.BoolTensor "
    "torch.DoubleTensor torch.from_numpy numpy.array numpy.asarray".split()
)
STACKS = frozenset({"torch.stack", "numpy.stack"})
JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "numpy.concatenate"})
_ONE_BY_ONE = frozenset({"int", "float"})
_KEEPING = frozenset({"list", "tuple"})
_CASTS = frozenset("float long int double bool".split())  # of a tensor
_PARTS = frozenset({"items", "keys", "values"})
_MOST_CALLS = 40  # of functions of the script


class _Kind(Enum):
    """What a value in a collate function is made of."""

    FIXED = "nothing of the samples"
    ONE = "one sample, that of this turn of a loop"
    PLACE = "the number of that sample"
    EACH = "a list with one entry for each sample, in their order"
    NUMBERED = "such entries with the numbers of the samples"
    PLACES = "the numbers of the samples"
    FIELDS = "several such lists"
    STACKED = "a tensor with a row for each sample"
    SEVERAL = "several of such tensors or lists"
    EMPTY = "a list into which entries are put"


_Known = _Kind | None  # None for what may go by other samples, too
_Environment = dict[str, _Known]
_PLAIN = (_Kind.FIXED, _Kind.ONE)
_OUT = (_Kind.FIXED, _Kind.EACH, _Kind.FIELDS, _Kind.STACKED, _Kind.SEVERAL)


def only_stacks(resolver: Resolver, function: Function | ast.Lambda) -> bool:
    """Whether a function does nothing with samples but put parts of them together, one after the other, so that nothing
    that it makes of one of them goes by its neighbors or its place."""
    names = [p.arg for p in (*function.args.posonlyargs, *function.args.args)]
    method = isinstance(resolver.index.parents.get(function), ast.ClassDef)
    if method and not isinstance(function, ast.Lambda) and not is_static(function):
        del names[0]
    return bool(names) and _Stacking(resolver).of(function, {names[0]: _Kind.EACH}) in _OUT


class _Stacking:
    """Reads a collate function, and what it calls, for what goes by one sample alone."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self.calls = 0

    def of(self, function: Function | ast.Lambda, env: _Environment) -> _Known:
        """What a function returns."""
        if isinstance(function, ast.Lambda):
            return self._read(function.body, env)
        returned: list[_Known] = []
        if not self._run(function.body, env, returned):
            return None
        return returned[0] if len(returned) == 1 else None

    # ---- statements

    def _run(self, body: list[ast.stmt], env: _Environment, returned: list[_Known] | None) -> bool:
        """Run statements; whether they do no more than put samples together. In loops nothing is `returned`."""
        for statement in body:
            if isinstance(statement, ast.Return) and returned is not None and statement.value is not None:
                returned.append(self._read(statement.value, env))
            elif isinstance(statement, ast.Assign):
                if not all(self._assign(target, statement.value, env) for target in statement.targets):
                    return False
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                if not self._assign(statement.target, statement.value, env):
                    return False
            elif isinstance(statement, ast.For) and not statement.orelse:
                if not self._loop(statement, env, outermost=returned is not None):
                    return False
            elif isinstance(statement, ast.Expr):
                put = self._put(statement.value, env)
                if put is None and not isinstance(statement.value, ast.Constant):
                    return False
                if put is not None and returned is not None:
                    return False  # outside of loops: not for each sample
            elif not isinstance(statement, ast.Pass):
                return False
        return True

    def _loop(self, loop: ast.For, env: _Environment, outermost: bool) -> bool:
        over = self._read(loop.iter, env)
        each = over in (_Kind.EACH, _Kind.NUMBERED, _Kind.PLACES)
        own = {name for part in (loop.target, *loop.body) for name in stores(part)}
        env.update(dict.fromkeys(own))  # what an earlier turn has left
        if not (each or over in _PLAIN) or not self._bind(loop.target, over, env):
            return False
        if not self._run(loop.body, env, None):
            return False
        env.update(dict.fromkeys(own))
        filled = [name for n in loop.body for name in self._filled(n)]
        env.update(dict.fromkeys(filled, _Kind.EACH))
        return not filled or (each and outermost and len(filled) == len({*filled}))

    def _filled(self, statement: ast.stmt) -> Iterator[str]:
        """The lists that a statement of a loop puts something into."""
        for node in walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
                if isinstance(node.func.value, ast.Name):
                    yield node.func.value.id

    def _put(self, node: ast.expr, env: _Environment) -> str | None:
        """The list that something of this sample is put into: `xs.append(x)`."""
        func = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute) or func.attr != "append":
            return None
        name = func.value.id if isinstance(func.value, ast.Name) else ""
        one = len(node.args) == 1 and not node.keywords and self._read(node.args[0], env) in _PLAIN
        return name if one and env.get(name) is _Kind.EMPTY else None

    def _assign(self, target: ast.expr, value: ast.expr, env: _Environment) -> bool:
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            if len(target.elts) != len(value.elts):
                return False
            read = [self._read(part, env) for part in value.elts]
            return all(self._bind_to(name, kind, env) for name, kind in zip(target.elts, read, strict=True))
        made = self._read(value, env)
        return self._bind_to(target, made, env) if isinstance(target, ast.Name) else self._bind(target, made, env)

    def _bind(self, target: ast.expr, over: _Known, env: _Environment) -> bool:
        """Bind a target to the parts of a value, or to each of its entries in turn."""
        entry = _ENTRIES.get(over) if over is not None else None
        if over is _Kind.NUMBERED:
            both = target.elts if isinstance(target, ast.Tuple) else []
            if len(both) != 2:
                return False
            return self._bind_to(both[0], _Kind.PLACE, env) and self._bind_to(both[1], _Kind.ONE, env)
        return self._bind_to(target, entry, env)

    def _bind_to(self, target: ast.expr, kind: _Known, env: _Environment) -> bool:
        if isinstance(target, ast.Name):
            env[target.id] = kind
            return True
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = kind if kind in (*_PLAIN, _Kind.EACH, _Kind.STACKED) else None
            return all(self._bind_to(part, parts, env) for part in target.elts)
        return False

    # ---- expressions

    def _read(self, node: ast.expr, env: _Environment) -> _Known:
        if isinstance(node, ast.Constant):
            return _Kind.FIXED
        if isinstance(node, ast.Name):
            return env.get(node.id, _Kind.FIXED)
        if isinstance(node, ast.Attribute):
            inside = self._read(node.value, env)
            return inside if inside in _PLAIN else None
        if isinstance(node, (ast.Tuple, ast.List)):
            return self._several(node.elts, env) if node.elts or isinstance(node, ast.Tuple) else _Kind.EMPTY
        if isinstance(node, ast.Dict):
            return self._several([*(k for k in node.keys if k is not None), *node.values], env)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.DictComp)):
            return self._comprehension(node, env)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, env)
        if isinstance(node, ast.Call):
            return self._call(node, env)
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Slice)):
            return self._computed(node, env)
        return None

    def _computed(self, node: ast.expr, env: _Environment) -> _Known:
        """What is computed of one sample, or of all of them with something that is the same for each."""
        kinds = {self._read(part, env) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)}
        if kinds <= {*_PLAIN}:
            return _Kind.ONE if _Kind.ONE in kinds else _Kind.FIXED
        elementwise = isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult)
        return _Kind.STACKED if elementwise and kinds == {_Kind.STACKED, _Kind.FIXED} else None

    def _several(self, parts: Sequence[ast.expr], env: _Environment) -> _Known:
        kinds = {self._read(part, env) for part in parts}
        if kinds <= {*_PLAIN}:
            return _Kind.ONE if _Kind.ONE in kinds else _Kind.FIXED
        return _Kind.SEVERAL if kinds <= {*_OUT} else None

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp, env: _Environment) -> _Known:
        inner = dict(env)
        [each, *more] = node.generators
        over = self._read(each.iter, env)
        if isinstance(node, ast.DictComp) and self._are_keys(each.iter, env):
            over = _Kind.FIXED
        if more or each.ifs or not self._bind(each.target, over, inner):
            return None
        made = self._read(node.value if isinstance(node, ast.DictComp) else node.elt, inner)
        if isinstance(node, ast.DictComp) and self._read(node.key, inner) not in _PLAIN:
            return None
        if over in (_Kind.EACH, _Kind.NUMBERED, _Kind.PLACES):
            return _Kind.EACH if made in _PLAIN and not isinstance(node, ast.DictComp) else None
        if made in _PLAIN:
            return made if over in _PLAIN else None
        return _Kind.FIELDS if made is _Kind.EACH else _Kind.SEVERAL if made is _Kind.STACKED else None

    def _are_keys(self, node: ast.expr, env: _Environment) -> bool:
        """Whether an expression has the keys of the first sample, which are those of each: `samples[0].keys()`."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys":
            node = node.func.value
        first = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
        return first and self._read(node.value, env) is _Kind.EACH  # type: ignore[attr-defined]

    def _subscript(self, node: ast.Subscript, env: _Environment) -> _Known:
        of, place = self._read(node.value, env), self._read(node.slice, env)
        if of is _Kind.EACH:
            return _Kind.ONE if place is _Kind.PLACE and isinstance(node.slice, ast.Name) else None
        if of is _Kind.FIELDS:
            return _Kind.EACH if isinstance(node.slice, ast.Constant) else None
        return self._computed_of(of, place)

    def _computed_of(self, *kinds: _Known) -> _Known:
        if all(kind in _PLAIN for kind in kinds):
            return _Kind.ONE if _Kind.ONE in kinds else _Kind.FIXED
        return None

    def _call(self, call: ast.Call, env: _Environment) -> _Known:
        """What a call makes of samples."""
        resolver = self.resolver
        qualified, builtin = resolver.qualified(call.func) or "", resolver.builtin(call.func)
        if builtin == "zip" and len(call.args) == 1 and isinstance(call.args[0], ast.Starred):
            return _Kind.FIELDS if self._read(call.args[0].value, env) is _Kind.EACH else None
        given = [self._read(a, env) for a in (*call.args, *(k.value for k in call.keywords))]
        first = given[0] if given else None
        alone = len(given) == 1
        if qualified in DEFAULT:
            return _Kind.SEVERAL if alone and first is _Kind.EACH else None
        if qualified in STACKS | TENSORS:
            return self._tensor(call, qualified, given)
        target = resolver.callee(call)
        if isinstance(target, FUNCTIONS):
            bound = resolver.bind(call, target)
            self.calls += 1
            if bound is None or self.calls > _MOST_CALLS:
                return None
            return self.of(target, {name: self._read(value, env) for name, value in bound.items()})
        if builtin is not None:
            return self._builtin(builtin, call, given)
        if not isinstance(call.func, ast.Attribute) or qualified:
            return None
        receiver, name = self._read(call.func.value, env), call.func.attr
        if name in _CASTS and not given and receiver in (_Kind.ONE, _Kind.STACKED):
            return receiver
        if name == "unsqueeze" and alone and receiver is _Kind.ONE and first is _Kind.FIXED:
            return receiver
        if name == "unsqueeze" and alone and receiver is _Kind.STACKED:
            place = integer(call.args[0]) if call.args else None
            return receiver if place is not None and place != 0 else None
        return receiver if name in _PARTS and not given and receiver in _PLAIN else None

    def _tensor(self, call: ast.Call, qualified: str, given: list[_Known]) -> _Known:
        if qualified.startswith("numpy.") and not isinstance(self.resolver.index.parents.get(call), ast.Call):
            return None  # an array is not gathered
        first, *rest = given or [None]
        if any(kind is not _Kind.FIXED for kind in rest) or not call.args:
            return None
        if first is _Kind.EACH:
            along = argument(call, 1, "dim") or argument(call, 1, "axis") if qualified in STACKS else None
            return _Kind.STACKED if along is None or integer(along) == 0 else None
        return first if first in _PLAIN or (first is _Kind.STACKED and qualified in TENSORS) else None

    def _builtin(self, name: str, call: ast.Call, given: list[_Known]) -> _Known:
        first = given[0] if given else None
        if name == "map" and len(given) == 2:
            stacks = self.resolver.qualified(call.args[0]) in STACKS | TENSORS
            return {_Kind.FIELDS: _Kind.SEVERAL, _Kind.EACH: _Kind.EACH}.get(given[1]) if stacks and given[1] else None
        if name == "zip" and given and all(kind is _Kind.EACH for kind in given):
            return _Kind.EACH
        if len(given) != 1:
            return None
        if name in _KEEPING:
            return first if first in (*_PLAIN, _Kind.EACH, _Kind.FIELDS, _Kind.SEVERAL) else None
        if name == "enumerate":
            return _Kind.NUMBERED if first is _Kind.EACH else None
        if name == "range":
            inner = call.args[0] if call.args else None
            counts = isinstance(inner, ast.Call) and first is _Kind.PLACES
            return _Kind.PLACES if counts else None
        if name == "len":
            outer = self.resolver.index.parents.get(call)
            ranged = isinstance(outer, ast.Call) and self.resolver.builtin(outer.func) == "range"
            return _Kind.PLACES if ranged and first is _Kind.EACH else None
        return first if name in _ONE_BY_ONE and first in _PLAIN else None


_ENTRIES = {
    _Kind.FIXED: _Kind.FIXED,
    _Kind.ONE: _Kind.ONE,
    _Kind.EACH: _Kind.ONE,
    _Kind.PLACES: _Kind.PLACE,
    _Kind.FIELDS: _Kind.EACH,
    _Kind.SEVERAL: _Kind.STACKED,
}
