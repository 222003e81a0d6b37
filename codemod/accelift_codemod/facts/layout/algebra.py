"""Layouts and their algebra: what arithmetic does to means, sums and sample-first tensors."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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


# Operators by the names of torch functions.
ARITHMETIC: dict[str, ast.operator] = {
    "add": ast.Add(),
    "sub": ast.Sub(),
    "mul": ast.Mult(),
    "div": ast.Div(),
}
FIXED = (Layout.CONST, Layout.ZERO)
_MEANS = (Layout.MEAN, Layout.WEIGHTED)
SCALARS = (Layout.MEAN, Layout.WEIGHTED, Layout.SUM)
# What is one for the whole batch, so that nothing but a straight line in it may be averaged over shares.
CURVING = (*SCALARS, Layout.QUOTIENT, Layout.PIECED, Layout.PART_SUM, Layout.SHRUNK)
_SUMS = (Layout.SUM, Layout.PART_SUM)
# What brings every sample together with every other, as matrices or by broadcasting: similarities, covariances.
COMPARING: tuple[set[Shape], ...] = (
    {Layout.ROWS, Layout.COLUMNS},
    {Layout.STACKED, Layout.COLUMNS},
    {Layout.TURNED, Layout.COLUMNS},
    {Layout.PICKED, Layout.COLUMNS},
    {Layout.ROWS, Layout.TURNED},
    {Layout.WIDE, Layout.COLUMNS},
    {Layout.ROWS, Layout.TALL},
    {Layout.WIDE, Layout.TALL},
)
# Tensors that have, in dimension 0, something other than the samples one by one; and what becomes of them where that
# of the samples themselves is something else. How many are picked is itself a sum over the samples.
_INSTEAD: dict[Shape, dict[Shape, Shape]] = {
    Layout.TURNED: {Layout.ROWS: Layout.TURNED},
    # A sum of what has each sample as often as there are samples is none over these.
    Layout.WIDE: {
        Layout.ROWS: Layout.WIDE,
        Layout.COLUMNS: Layout.TALL,
        Layout.SUM: Layout.UNSURE,
        Layout.SHAPE: (Layout.COUNT, Layout.UNKNOWN, Layout.UNKNOWN, Layout.UNKNOWN),
    },
    Layout.TALL: {
        Layout.COLUMNS: Layout.TALL,
        Layout.ROWS: Layout.WIDE,
        Layout.SUM: Layout.UNSURE,
    },
    Layout.STACKED: {
        Layout.ROWS: Layout.STACKED,
        Layout.COUNT: Layout.UNKNOWN,
        Layout.SHAPE: Layout.UNKNOWN,
    },
    Layout.PIECE: {
        Layout.ROWS: Layout.PIECE,
        Layout.COUNT: Layout.UNKNOWN,
        Layout.SHAPE: Layout.UNKNOWN,
        Layout.BATCH: Layout.UNKNOWN,
        Layout.PIECES: Layout.UNKNOWN,
    },
    Layout.PICKED: {
        Layout.ROWS: Layout.PICKED,
        Layout.MEAN: Layout.WEIGHTED,
        Layout.COUNT: Layout.SUM,
        Layout.SHAPE: (Layout.SUM, Layout.CONST, Layout.CONST, Layout.CONST),
        Layout.BATCH: Layout.UNKNOWN,
    },
    # How many there are is not known, and so neither is what their mean is.
    Layout.CHOSEN: {
        Layout.ROWS: Layout.CHOSEN,
        Layout.MEAN: Layout.UNKNOWN,
        Layout.WEIGHTED: Layout.UNKNOWN,
        Layout.SUM: Layout.UNKNOWN,
        Layout.COUNT: Layout.UNKNOWN,
        Layout.SHAPE: Layout.UNKNOWN,
        Layout.SHIFTED: Layout.UNKNOWN,
        Layout.COLUMNS: Layout.UNKNOWN,
        Layout.BATCH: Layout.UNKNOWN,
    },
}
ALTERED = tuple(_INSTEAD)
_PLAIN: dict[Shape, Shape] = {Layout.TALL: Layout.COLUMNS}  # what such a tensor is otherwise: if none is told, ROWS


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


def written_out(value: Shape) -> Shape:
    """What tensors are made of: a list of numbers that no sample is in is a number itself."""
    empty = not value and not isinstance(value, Record)  # a list that is still to be filled
    if isinstance(value, tuple) and not empty and all(written_out(part) in FIXED for part in value):
        return Layout.CONST
    return value


def combine(operator: ast.operator, left: Shape, right: Shape) -> Shape:
    """The layout of `left operator right`."""
    if Layout.STATES in (left, right) and {left, right} <= {Layout.STATES, *FIXED}:
        return Layout.UNKNOWN if isinstance(operator, ast.MatMult) else Layout.STATES
    left, right = tensor(left), tensor(right)
    if isinstance(left, tuple) or isinstance(right, tuple):
        return _lists(operator, left, right)
    if Layout.MIXED in (left, right):
        return Layout.MIXED
    if Layout.UNSURE in (left, right):
        return Layout.UNSURE
    if Layout.RATE in (left, right):
        return _rated(operator, left, right)
    if isinstance(operator, ast.Div) and right in _SUMS and left in FIXED:
        return Layout.RATE
    if isinstance(operator, ast.Div) and Layout.PART_SUM in (left, right) and right not in FIXED:
        return Layout.QUOTIENT if {left, right} <= {Layout.COUNT, *_SUMS} else _compared({left, right})
    if Layout.PART_SUM in (left, right):
        kept = {left, right} <= {Layout.PART_SUM, *SCALARS, *FIXED}
        return Layout.PART_SUM if kept else _compared({left, right})
    if left in FIXED and right in FIXED:
        return Layout.ZERO if left is right is Layout.ZERO else Layout.CONST
    curved = left in CURVING and isinstance(operator, (ast.Pow, ast.Mod))
    if {left, right} in COMPARING or curved or (right in CURVING and isinstance(operator, ast.Pow)):
        return Layout.MIXED
    if Layout.SHIFTED in (left, right) and not isinstance(operator, (ast.Add, ast.Sub)):
        scaled = isinstance(operator, (ast.Mult, ast.Div)) and right in FIXED
        return Layout.SHIFTED if scaled or (isinstance(operator, ast.Mult) and left in FIXED) else Layout.MIXED
    if left in ALTERED or right in ALTERED:
        return altered((left, right), lambda pair: combine(operator, *pair))
    if Layout.PLACES in (left, right):
        return Layout.PLACES if {left, right} <= {Layout.PLACES, Layout.COUNT, *FIXED} else Layout.UNKNOWN
    if isinstance(operator, (ast.Add, ast.Sub)):
        return _add(left, right)
    if isinstance(operator, ast.Mult):
        return _multiply(left, right)
    if isinstance(operator, (ast.Div, ast.FloorDiv)):
        whole = isinstance(operator, ast.FloorDiv) and left in FIXED and right is Layout.COUNT
        return Layout.UNKNOWN if whole else _divide(left, right)
    if isinstance(operator, ast.MatMult) and left is Layout.ROWS and right in CURVING:
        return Layout.MIXED
    if isinstance(operator, ast.MatMult) and Layout.COLUMNS in (left, right):
        return Layout.COLUMNS if {left, right} <= {Layout.COLUMNS, *FIXED} and left is not right else Layout.UNSURE
    if Layout.ROWS in (left, right) and {left, right} <= {Layout.ROWS, *FIXED}:
        if isinstance(operator, ast.MatMult) and left is not Layout.ROWS:
            return Layout.UNKNOWN
        return Layout.UNKNOWN if isinstance(operator, ast.MatMult) and right is Layout.ROWS else Layout.ROWS
    return Layout.UNKNOWN


def _lists(operator: ast.operator, left: Shape, right: Shape) -> Shape:
    """What becomes of lists: one after the other, if no sample is in them."""
    plain = written_out(left) in FIXED and written_out(right) in FIXED
    if isinstance(operator, ast.Add) and isinstance(left, Listed) and isinstance(right, Listed) and not plain:
        return Listed((*left, *right))
    return Layout.CONST if plain and isinstance(operator, ast.Add) else Layout.UNKNOWN


def elementwise(parts: Iterable[Shape]) -> Shape:
    """The layout of an elementwise function of several values."""
    found = list(map(tensor, parts))
    met = Layout.ROWS in found and any(part in (*CURVING, Layout.SHIFTED) for part in found)
    if (
        Layout.MIXED in found
        or Layout.RATE in found
        or Layout.SHIFTED in found
        or met
        or any(pair <= set(found) for pair in COMPARING)
    ):
        return Layout.MIXED
    if Layout.UNSURE in found:
        return Layout.UNSURE
    if any(part in ALTERED for part in found):
        return altered(found, elementwise)
    if all(p in FIXED for p in found):
        return Layout.CONST
    if any(p is Layout.ROWS for p in found) and all(p is Layout.ROWS or p in FIXED for p in found):
        return Layout.ROWS
    return Layout.UNKNOWN


def altered(parts: Sequence[Shape], done: Callable[[list[Shape]], Shape]) -> Shape:
    """The layout of what is done with tensors that have something other than the samples one by one in dimension 0."""
    kinds = {part for part in parts if part in ALTERED}
    if len(kinds) > 1 and Layout.CHOSEN in kinds:  # as many as of the others
        kinds.remove(Layout.CHOSEN)
        parts = [next(iter(kinds)) if part is Layout.CHOSEN else part for part in parts]
    if {Layout.ROWS, Layout.TURNED} <= set(parts):
        return Layout.MIXED
    if Layout.ROWS in parts or len(kinds) > 1:
        return Layout.UNSURE if kinds & {Layout.WIDE, Layout.TALL} else Layout.UNKNOWN
    found = done([_PLAIN.get(part, Layout.ROWS) if part in kinds else part for part in parts])
    return _like(kinds.pop(), found)


def _like(kind: Shape, found: Shape) -> Shape:
    if isinstance(found, tuple):
        return tuple(_like(kind, part) for part in found)
    return _INSTEAD[kind].get(found, found)


def _add(left: Layout, right: Layout) -> Layout:
    pair = {left, right}
    if pair <= {Layout.ROWS, *FIXED}:
        return Layout.ROWS
    if pair <= {Layout.COLUMNS, *FIXED}:
        return Layout.COLUMNS
    if pair == {Layout.COUNT, Layout.SUM}:
        return Layout.SUM  # how many are none of those that are counted
    if Layout.SHIFTED in pair or pair == {Layout.ROWS, Layout.MEAN}:
        return Layout.SHIFTED if pair <= {Layout.SHIFTED, Layout.ROWS, Layout.MEAN, *FIXED} else Layout.MIXED
    if pair <= {Layout.MEAN, Layout.WEIGHTED, *FIXED}:
        return Layout.WEIGHTED if Layout.WEIGHTED in pair else Layout.MEAN
    if Layout.SHRUNK in pair and pair <= {Layout.SHRUNK, *_MEANS, *FIXED}:
        return Layout.SHRUNK
    if Layout.PIECED in pair and pair <= {Layout.PIECED, Layout.QUOTIENT, *_MEANS, *FIXED}:
        return Layout.PIECED
    if pair <= {Layout.QUOTIENT, *_MEANS, *FIXED}:
        return Layout.QUOTIENT
    if pair <= {Layout.SUM, Layout.ZERO}:
        return Layout.SUM
    if Layout.SUM in pair and pair <= {*SCALARS, *FIXED}:
        return Layout.PART_SUM
    return _compared(pair)


def _multiply(left: Layout, right: Layout) -> Layout:
    pair = {left, right}
    if pair <= {Layout.ROWS, *FIXED}:
        return Layout.ROWS
    if pair <= {Layout.COLUMNS, *FIXED}:
        return Layout.COLUMNS
    for scalar in (
        Layout.MEAN,
        Layout.WEIGHTED,
        Layout.QUOTIENT,
        Layout.PIECED,
        Layout.SUM,
        Layout.COUNT,
        Layout.INVERSE,
        Layout.SHRUNK,
    ):
        if scalar in pair and pair - {scalar} and (pair - {scalar}) <= set(FIXED):
            return scalar
    if pair == {Layout.MEAN, Layout.COUNT}:
        return Layout.SUM
    if pair in ({Layout.SUM, Layout.INVERSE}, {Layout.SHRUNK, Layout.COUNT}):
        return Layout.MEAN
    if Layout.INVERSE in pair and pair & {*_MEANS}:
        return Layout.SHRUNK
    if pair <= set(_MEANS):
        return Layout.MIXED  # a product of means is no mean
    return _compared(pair)


def _compared(pair: set[Layout]) -> Layout:
    """What becomes of samples that meet a statistic of their batch, as in `x - x.mean(0)`."""
    samples = pair & {Layout.ROWS, Layout.COLUMNS}
    return Layout.MIXED if len(samples) == 1 and pair - samples <= {*CURVING} else Layout.UNKNOWN


def _rated(operator: ast.operator, left: Layout, right: Layout) -> Layout:
    """What is multiplied by one by a sum: another sum makes a quotient of the two."""
    if isinstance(operator, (ast.Mult, ast.Div)) and right in FIXED:
        return Layout.RATE
    if isinstance(operator, ast.Mult):
        other = right if left is Layout.RATE else left
        return Layout.RATE if other in FIXED else Layout.QUOTIENT if other in _SUMS else Layout.MIXED
    return Layout.MIXED


def _divide(left: Layout, right: Layout) -> Layout:
    if right in FIXED or (left is Layout.PIECED and right is Layout.PIECES):
        return left  # perhaps by the number of pieces
    if left is right and left in (Layout.ROWS, Layout.COLUMNS):
        return left
    if left in FIXED and right in (Layout.ROWS, Layout.COLUMNS):
        return right
    if right is Layout.COUNT and (left is Layout.SUM or left in FIXED):
        return Layout.MEAN if left is Layout.SUM else Layout.INVERSE
    if right is Layout.COUNT and left in _MEANS:
        return Layout.SHRUNK
    if left is right is Layout.SUM or (left is Layout.COUNT and right is Layout.SUM):
        return Layout.QUOTIENT
    if right in _MEANS and left in (*_MEANS, *FIXED):
        return Layout.MIXED
    return _compared({left, right})
