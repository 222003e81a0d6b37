"""Layouts, also of tuples, lists and dicts: what one or the other of two is, and what parts of them are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from accelift_codemod.facts.values import Role, Value, Values

_PLACES = re.compile(r"\[(\d+)\]")  # in the name of a part of a batch


class Layout(Enum):
    """How one value depends on the samples of a batch."""

    CONST = "does not depend on the batch"
    ZERO = "a literal number"
    BATCH = "a batch, or a collection of its tensors"
    ROWS = "dimension 0 runs over the samples"
    STACKED = "dimension 0 runs over the samples, several times"
    WIDE = "dimension 0 runs over the samples, and another one has as many places as there are samples"
    TALL = "dimension 1 runs over the samples, and dimension 0 has as many places as there are samples"
    TURNED = "dimension 0 runs over the samples in another order: backwards, or moved by some places"
    PICKED = "dimension 0 runs over some of the samples or of their parts, picked by what they are"
    PIECES = "pieces that the samples are cut into, or what numbers them"
    PIECE = "dimension 0 runs over the samples of one piece"
    CHOSEN = "dimension 0 runs over what places that are not known choose: all samples, or some"
    PACKED = "sequences without their padding, packed"
    SHIFTED = "a mean over the samples, added to what has the samples in dimension 0"
    COLUMNS = "dimension 1 runs over the samples"
    STATES = "dimension 1 runs over the samples, dimension 0 over layers that have such states, or what is stacked"
    PLACES = "numbers of places in the batch"
    MIXED = "made by comparing samples of a batch with each other"
    MEAN = "a mean over the samples"
    WEIGHTED = "a mean over weights, or over what is picked or not ignored"
    QUOTIENT = "a sum over the samples divided by another one: a mean by weights or masks"
    PIECED = "means over pieces of the samples, added up or averaged"
    SUM = "a sum over the samples"
    PART_SUM = "a sum over the samples and something that is none"
    RATE = "one by a sum over the samples"
    COUNT = "the number of samples"
    INVERSE = "one by the number of samples"
    SHRUNK = "a mean over the samples, divided by their number once more"
    SHAPE = "the shape of a sample-first tensor"
    UNSURE = "not known, and samples may have met in it: its mean is not known, either"
    UNKNOWN = "not known"

    __hash__ = object.__hash__  # that of Enum is slower, and the tables of layouts ask for it all the time


Shape: TypeAlias = "Layout | tuple[Shape, ...]"


class Record(tuple["Shape", ...]):
    """The layouts of the entries of a dict, which have names."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, entries: Mapping[str, Shape]) -> Record:
        """A record of entries."""
        record = cls(entries.values())
        record.names = tuple(entries)
        return record

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.names == other.names and tuple.__eq__(self, other)

    def __hash__(self) -> int:
        return hash((self.names, tuple(self)))

    def entry(self, name: object) -> Shape:
        """The layout of an entry."""
        place = name if name in self.names else SOME
        return self[self.names.index(place)] if place in self.names else Layout.UNKNOWN

    def or_else(self, other: Record) -> Record:
        """One record or the other: an entry that may be missing is what it is where it is there."""
        both = {name: join(self.entry(name), other.entry(name)) for name in self.names if name in other.names}
        return Record.of(dict(zip(self.names, self, strict=True)) | dict(zip(other.names, other, strict=True)) | both)


class Listed(tuple["Shape", ...]):
    """The layouts of what is in a list; of any number of things that are alike, two stand for all."""


Environment: TypeAlias = dict[str, "Shape"]
SOME = "*"  # the name of entries of which it cannot be told which ones they are
HANDED = "@"  # before the name of a parameter: what has become of the dict that it was given


@dataclass
class Frame:
    """One function being interpreted: its class (for `self`) and what it has returned so far."""

    owner: ast.ClassDef | None
    returned: Shape | None = None
    outer: frozenset[str] = frozenset()  # the variables of others that it sets
    left: Environment | None = None  # what it has made of the dicts that it was handed, where it has returned

    def leave(self, env: Environment) -> None:
        """Note what has become of the dicts that it was handed, where it returns."""
        handed = {name: value for name, value in env.items() if name.startswith(HANDED)}
        handed |= {HANDED + name: env[name] for name in self.outer if name in env}
        if self.left is None:
            self.left = handed
        else:
            merge(self.left, handed)


FIXED = (Layout.CONST, Layout.ZERO)
SCALARS = (Layout.MEAN, Layout.WEIGHTED, Layout.SUM)
# What is one for the whole batch, so that nothing but a straight line in it may be averaged over shares.
CURVING = (*SCALARS, Layout.QUOTIENT, Layout.PIECED, Layout.PART_SUM, Layout.SHRUNK)


def join(left: Shape, right: Shape) -> Shape:
    """The layout of a value that is one or the other."""
    if left == right:
        return left
    if Layout.MIXED in (left, right):
        return Layout.MIXED
    if Layout.UNSURE in (left, right):
        return Layout.UNSURE
    if isinstance(left, Record) and isinstance(right, Record):
        return left.or_else(right)
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        both = [join(a, b) for a, b in zip(left, right, strict=True)]
        return Listed(both) if isinstance(left, Listed) and isinstance(right, Listed) else tuple(both)
    if isinstance(left, Listed) and isinstance(right, Listed):
        every = element(Listed((*left, *right)))
        return Layout.UNKNOWN if every is Layout.UNKNOWN else Listed((every, every))
    pair = {left, right} if not isinstance(left, tuple) and not isinstance(right, tuple) else set()
    if pair == {Layout.CONST, Layout.ZERO}:
        return Layout.CONST
    if Layout.ZERO in pair:
        other = next(iter(pair - {Layout.ZERO}))
        if other in SCALARS:
            return other
    if pair == {Layout.MEAN, Layout.WEIGHTED}:
        return Layout.WEIGHTED
    if pair == {Layout.CONST, Layout.WEIGHTED}:
        return Layout.WEIGHTED  # statistics of classes, where there are some of them
    if pair in ({Layout.ROWS, Layout.PICKED}, {Layout.ROWS, Layout.SHIFTED}):
        return next(iter(pair - {Layout.ROWS}))
    return Layout.UNKNOWN


def merge(env: Environment, other: Environment) -> None:
    """Make an environment one in which each variable may also be what it is in another."""
    joined: dict[tuple[int, int], tuple[Shape, Shape]] = {}  # one dict stays one, under whichever names it goes
    for name, value in other.items():
        left = env.get(name)
        if isinstance(left, (Record, Listed)) and isinstance(value, (Record, Listed)):
            env[name] = joined.setdefault((id(left), id(value)), (left, join(left, value)))[1]
        else:
            env[name] = value if left is None else join(left, value)


def dealt(values: Values, batch: Shape) -> Shape:
    """The layout of what a loop is dealt, from that of a batch."""
    for value in values:
        if value.role is Role.ENUMERATE:
            return (Layout.CONST, dealt(value.inner[0], batch))
        if value.role is Role.ITERATOR:
            return handed_on(value.inner[1], batch) if len(value.inner) > 1 else dealt(value.inner[0], batch)
        if value.role is Role.ZIP:
            return tuple(dealt(inner, batch) for inner in value.inner)
    return batch


def handed_on(values: Values, batch: Shape) -> Shape:
    """The layout of parts of a batch that a generator hands on, from that of the batch."""
    found = {_part_of(value, batch) for value in values}
    return found.pop() if len(found) == 1 else Layout.UNKNOWN


def _part_of(value: Value, batch: Shape) -> Shape:
    if value.role is Role.TUPLE:
        return tuple(handed_on(inner, batch) for inner in value.inner)
    places = _PLACES.findall(value.name)
    if value.role is not Role.BATCH or value.name != "".join(f"[{place}]" for place in places):
        return Layout.UNKNOWN
    for place in places:
        batch = item(batch, int(place))
    return batch


def element(value: Shape) -> Shape:
    """The layout of what iterating over a value yields."""
    if isinstance(value, Record):
        return Layout.CONST  # a key
    if isinstance(value, tuple):
        joined = value[0] if value else Layout.UNKNOWN
        for part in value[1:]:
            joined = join(joined, part)
        return joined
    if value in (Layout.BATCH, Layout.PIECES):
        return Layout.ROWS if value is Layout.BATCH else Layout.PIECE
    return value if value in (Layout.MIXED, Layout.UNSURE, *FIXED) else Layout.UNKNOWN


def item(value: Shape, place: int) -> Shape:
    """The layout of a part of a value."""
    if isinstance(value, tuple):
        return value[place] if -len(value) <= place < len(value) else Layout.UNKNOWN
    if value is Layout.BATCH:
        return Layout.ROWS
    if value is Layout.PACKED:
        return Layout.PICKED if place == 0 else Layout.UNKNOWN
    if value is Layout.SHAPE:
        return Layout.COUNT if place == 0 else Layout.CONST
    return (
        value if value in (Layout.MIXED, Layout.UNSURE, Layout.RATE, *CURVING, *FIXED) else Layout.UNKNOWN
    )  # of a vector of means, a mean


def tensor(value: Shape) -> Shape:
    """The layout of what is surely a tensor: a batch that is used as one has its samples in dimension 0.

    Of states, beside anything else, nothing is known but what those of one layer are.
    """
    return Layout.ROWS if value is Layout.BATCH else Layout.UNKNOWN if value is Layout.STATES else value


def are_rows(given: Iterable[Shape]) -> bool:
    """Whether all that a call is given has the samples in dimension 0, but for what is the same for all batches."""
    parts = [tensor(part) for part in given if part not in FIXED]
    return bool(parts) and all(part is Layout.ROWS for part in parts)


def written_out(value: Shape) -> Shape:
    """What tensors are made of: a list of numbers that no sample is in is a number itself."""
    empty = not value and not isinstance(value, Record)  # a list that is still to be filled
    if isinstance(value, tuple) and not empty and all(written_out(part) in FIXED for part in value):
        return Layout.CONST
    return value
