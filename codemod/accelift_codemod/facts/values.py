"""What an expression may be: roles follow values through a script, never names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum


class Role(str, Enum):
    """What kind of object a value is."""

    MODEL = "model"
    LOSS = "loss function"
    OPTIMIZER = "optimizer"
    SCHEDULER = "learning-rate scheduler"
    LOADER = "DataLoader"
    DATASET = "dataset"
    SCALER = "GradScaler"
    WRITER = "SummaryWriter"
    DEVICE = "device"
    ARGUMENTS = "command-line arguments"
    PARAMETERS = "parameters of a model"
    BATCH = "batch"  # a batch of a loader, or a part of one
    DATA = "tensor computed from a batch"
    OBJECT = "object"  # the result of a call that nothing is known of
    CLASS = "class"
    FUNCTION = "function"
    LIBRARY = "name of a library"
    CONSTANT = "constant"
    TUPLE = "tuple"
    DICT = "dict"
    SEQUENCE = "sequence"
    ENUMERATE = "enumerate"
    ZIP = "zip"
    ITERATOR = "iterator"
    METHOD = "method"

    __hash__ = str.__hash__  # that of Enum is slower, and every value asks for it


@dataclass(frozen=True, slots=True)
class Value:
    """One thing an expression may evaluate to.

    `origin` is the node that created it: two values with one origin are the same object. `name` is a
    qualified library name or an attribute; `inner` holds what it is made of (elements, wrapped iterables,
    the receiver of a method); `declaration` the class or function of the script it refers to. `sites` are the calls of
    functions that each make such an object and return it, the outermost first: without them, one call would stand for
    all. `size` counts the values that it is made of, those that it has in several places there: comparing two values
    takes as many steps.
    """

    role: Role
    origin: ast.AST
    name: str = ""
    inner: tuple[tuple[Value, ...], ...] = ()
    keys: tuple[object, ...] = ()
    declaration: ast.AST | None = None
    sites: tuple[ast.AST, ...] = ()
    size: int = field(init=False, default=1, compare=False, repr=False)
    _hash: int = field(init=False, default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.inner:
            object.__setattr__(self, "size", 1 + sum(part.size for inner in self.inner for part in inner))
        hashed = hash((self.role, self.origin, self.name, self.inner, self.keys, self.declaration))
        object.__setattr__(self, "_hash", hashed)

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_none(self) -> bool:
        """Whether it is None, of which nothing can be asked: `model = None`, before there is one."""
        return self.role is Role.CONSTANT and self.keys == (None,)


Values = tuple[Value, ...]
Key = tuple[ast.AST, str, tuple[ast.AST, ...]]


def key(value: Value) -> Key:
    """The identity of an object: values with one key are the same object."""
    return value.origin, value.name if value.role is Role.OBJECT else value.role._value_, value.sites


def views(value: Value) -> Iterator[Key]:
    """The identities of an object, as it is called outside the functions that made it, inside, and further inside."""
    origin, name, sites = key(value)
    for i in range(len(sites) + 1):
        yield origin, name, sites[i:]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One step of the chain that gave an object its role; `path` names the file if it is another one."""

    line: int
    text: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}" if self.path else f"line {self.line}: {self.text}"
