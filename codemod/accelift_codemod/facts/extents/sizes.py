"""Extents, and what operations make of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Extent:
    """The sizes of the dimensions, None for those that are not known.

    With `deeper`, there may be more dimensions before these; a `table` is one of pandas, or a column of it.
    """

    sizes: tuple[int | None, ...]
    deeper: bool = False
    table: bool = False

    @property
    def flat(self) -> bool:
        """Whether there is one number for each row and no second dimension."""
        return not self.deeper and len(self.sizes) == 1 and self.sizes != (1,)

    @property
    def column(self) -> bool:
        """Whether the last of several dimensions has one number; of several, unless what has rows has just one."""
        return self.sizes[-1:] == (1,) and (self.deeper or len(self.sizes) > 1)


NUMBER = Extent(())
ROW = Extent((None,))
GRID = Extent((None, None))
TABLE = Extent((None, None), table=True)


def array(extent: Extent | None) -> Extent | None:
    """The extent of what a table holds, as an array or tensor."""
    return replace(extent, table=False) if extent is not None else None


def alike(extents: Iterable[Extent | None]) -> Extent | None:
    """What is so of all of some extents. No more are asked for than it takes to tell."""
    rest = iter(extents)
    found = next(rest, None)
    for other in rest if found is not None else ():
        if found is None or other is None or len(found.sizes) != len(other.sizes):
            return None
        if (found.deeper, found.table) != (other.deeper, other.table):
            return None
        sizes = tuple(a if a == b else None for a, b in zip(found.sizes, other.sizes, strict=True))
        found = replace(found, sizes=sizes)
    return found


def inside(extent: Extent | None) -> Extent | None:
    """That of one row."""
    if extent is None or extent.deeper or not extent.sizes or (extent.table and len(extent.sizes) > 1):
        return None
    return Extent(extent.sizes[1:])


def stacked(extent: Extent | None) -> Extent | None:
    """That of several, one after the other in a new first dimension."""
    return Extent((None, *extent.sizes)) if extent is not None and not extent.deeper else None


def resized(extent: Extent | None) -> Extent | None:
    """That of some of the rows."""
    if extent is None or extent.deeper or not extent.sizes:
        return extent
    return replace(extent, sizes=(None, *extent.sizes[1:]))


def unsqueezed(extent: Extent | None, place: int | None) -> Extent | None:
    if extent is None or place is None:
        return None
    if place == -1:
        return replace(extent, sizes=(*extent.sizes, 1))
    number = len(extent.sizes)
    place = place + number + 1 if place < 0 else place
    if extent.deeper or not 0 <= place <= number:
        return None
    return Extent((*extent.sizes[:place], 1, *extent.sizes[place:]))


def squeezed(extent: Extent | None) -> Extent | None:
    """Without the dimensions of size one. The first is that of the rows, of which there are more."""
    if extent is None or extent.deeper or None in extent.sizes[1:]:
        return None
    return Extent((*extent.sizes[:1], *(s for s in extent.sizes[1:] if s != 1)))


def without(extent: Extent | None, place: int | None, only_ones: bool = False) -> Extent | None:
    """Without one dimension, which has to be of size one if so wanted."""
    if extent is None or place is None:
        return None
    number = len(extent.sizes)
    if extent.deeper and not -number <= place < 0:
        return None
    if not -number <= place < number:
        return None
    place %= number
    if only_ones and extent.sizes[place] != 1:
        return None if extent.sizes[place] is None and place else extent
    return replace(extent, sizes=(*extent.sizes[:place], *extent.sizes[place + 1 :]))


def broadcast(left: Extent | None, right: Extent | None) -> Extent | None:
    """That of an elementwise operation."""
    if left is None or right is None:
        return None
    for one, other in ((left, right), (right, left)):
        if not one.sizes and not one.deeper:
            return other
    if left.deeper or right.deeper:
        return left if left == right else None
    number = max(len(left.sizes), len(right.sizes))
    pairs = zip(*((*(1,) * (number - len(e.sizes)), *e.sizes) for e in (left, right)), strict=True)
    sizes = tuple(b if a == 1 or (a is None and b != 1) else a for a, b in pairs)
    return Extent(sizes, table=left.table and right.table)
