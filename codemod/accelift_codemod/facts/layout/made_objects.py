"""Objects that a script makes to hold tensors: of a class of its own, of a dataclass, named tuples, namespaces."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from accelift_codemod.facts.index import Function
from accelift_codemod.facts.layout.algebra import Layout, Record, Shape
from accelift_codemod.facts.resolve import Resolver

_NAMED_TUPLE = "typing.NamedTuple"
_DATACLASS = "dataclasses.dataclass"


# Methods that do something when an object is made or read, so that it does not only keep what it is given.
_MAKING = ("__init__", "__new__", "__getattribute__")


def holding(resolver: Resolver, call: ast.Call, arguments: list[Shape], keywords: Mapping[str, Shape]) -> Record | None:
    """The attributes of an object that a call makes, which only keeps what it is given; None for others."""
    if "**" in keywords or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if resolver.library_function(call.func) == "types.SimpleNamespace" and not arguments:
        return Record.of(keywords)
    names = _fields(resolver, call)
    if names is None or len(arguments) > len(names):
        return None
    return Record.of({**dict.fromkeys(names, Layout.CONST), **dict(zip(names, arguments, strict=False)), **keywords})


def plain(resolver: Resolver, cls: ast.ClassDef) -> bool:
    """Whether a class, with those that it is derived from, is the script's own alone, and no object of it is followed
    in another way."""
    family = resolver.ancestry(cls)
    bases = [base for one in family for base in one.bases if resolver.builtin(base) != "object"]
    decorated = any(not _is_dataclass(resolver, one) for one in family if one.decorator_list)
    own = len(bases) == len(family) - 1 and not any(one.keywords for one in family) and not decorated
    return own and cls not in resolver.followed


def finishing(resolver: Resolver, call: ast.Call) -> Function | None:
    """The `__post_init__` of a dataclass that a call makes an object of."""
    cls = resolver.callee(call)
    decorated = isinstance(cls, ast.ClassDef) and any(_is_dataclass(resolver, c) for c in resolver.ancestry(cls))
    return resolver.method(cls, "__post_init__") if decorated else None


def computed(resolver: Resolver, cls: ast.AST | None, name: str) -> Function | None:
    """The method that computes an attribute of objects of a class: a property."""
    method = resolver.method(cls, name)
    decorators = [] if method is None else method.decorator_list
    known = ("property", "cached_property", "functools.cached_property")
    return method if any((resolver.qualified(d) or resolver.builtin(d)) in known for d in decorators) else None


def _is_dataclass(resolver: Resolver, cls: ast.ClassDef) -> bool:
    decorators = [d.func if isinstance(d, ast.Call) else d for d in cls.decorator_list]
    return [resolver.qualified(d) for d in decorators] == [_DATACLASS]


def _fields(resolver: Resolver, call: ast.Call) -> list[str] | None:
    """The names of what such an object is given, in their order."""
    cls = resolver.callee(call)
    if not isinstance(cls, ast.ClassDef):
        return _named(resolver, call.func)
    family = resolver.ancestry(cls)
    kept = plain(resolver, cls) and all(_is_dataclass(resolver, one) for one in family)
    kept = kept or (not cls.decorator_list and [resolver.qualified(b) for b in cls.bases] == [_NAMED_TUPLE])
    if not kept or cls in resolver.followed or any(resolver.method(cls, name) is not None for name in _MAKING):
        return None
    fields = [s.target for one in reversed(family) for s in one.body if isinstance(s, ast.AnnAssign)]
    return list(dict.fromkeys(target.id for target in fields if isinstance(target, ast.Name)))


def _named(resolver: Resolver, func: ast.expr) -> list[str] | None:
    """The fields of `namedtuple("Out", "logits loss")`, which a variable is."""
    made = resolver.set_once(func)
    if (
        not isinstance(made, ast.Call)
        or resolver.qualified(made.func) != "collections.namedtuple"
        or len(made.args) != 2
    ):
        return None
    told = made.args[1]
    if isinstance(told, ast.Constant) and isinstance(told.value, str):
        return told.value.replace(",", " ").split()
    parts = told.elts if isinstance(told, (ast.List, ast.Tuple)) else []
    names = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return names if parts and len(names) == len(parts) else None
