"""What is known of values in a collate function: parts of samples, lists of them, tensors of the batch."""

from __future__ import annotations

import ast
from enum import Enum
from typing import TypeAlias

from accelift_codemod.facts.layout.algebra import FIXED, Layout, Record, Shape


class Part(Enum):
    """What there is in a collate function besides tensors of the batch."""

    SAMPLE = "something of one sample"
    ROW = "something of one sample, as one row"
    EACH = "a list of something of each sample"
    ROWS_EACH = "a list of one row for each sample"
    TIMES = "a list with several entries for each sample, as many for each"
    PIECES = "a list with any number of entries for each sample"
    FIELDS = "the parts of the samples, each as a list of that part of each sample"
    EMPTY = "a list that nothing has been put into"


Known: TypeAlias = "Part | Layout | tuple[Known, ...]"
Environment: TypeAlias = "dict[str, Known]"

LISTS = (Part.EACH, Part.ROWS_EACH)
SEVERAL = (Part.EMPTY, Part.TIMES, *LISTS)
_OF_SAMPLE = (Part.SAMPLE, Part.ROW)


def of_sample(value: Known) -> bool:
    """Whether a value is something of one sample, or has such a part."""
    return value in _OF_SAMPLE or (isinstance(value, tuple) and any(map(of_sample, value)))


def plain(value: Known) -> Layout | None:
    """The layout of an argument; of dimensions in a tuple, that of one."""
    if isinstance(value, tuple) and all(part in FIXED for part in value):
        return Layout.CONST
    return value if isinstance(value, Layout) else None


def mixed(parts: list[Known]) -> Known:
    """What is computed from several things: of a sample, if one of them is; else nothing is known."""
    if any(map(of_sample, parts)):
        return Part.SAMPLE
    return Layout.CONST if all(p in FIXED for p in parts) else Layout.UNKNOWN


def item(value: Known, place: int) -> Known:
    """What an entry of a value is."""
    if value is Part.FIELDS:
        return Part.EACH
    if of_sample(value) and not isinstance(value, tuple):
        return Part.SAMPLE
    if isinstance(value, tuple):
        return value[place] if -len(value) <= place < len(value) else Layout.UNKNOWN
    return Layout.ROWS if value is Layout.BATCH else Layout.UNKNOWN


def settled(value: Known) -> Shape:
    """The layout of what leaves a collate function: of a list, nothing is known but that it is no tensor."""
    if isinstance(value, Record):
        return Layout.BATCH if all(part is Layout.ROWS for part in value) else value
    if isinstance(value, tuple):
        return tuple(map(settled, value))
    return value if isinstance(value, Layout) else Layout.UNKNOWN


def is_whole(cut: ast.Slice) -> bool:
    """Whether a cut of a list has all of its entries, perhaps in another order: `batch[::-1]`, `batch[:]`."""
    back = isinstance(cut.step, ast.UnaryOp) and isinstance(cut.step.op, ast.USub) and ast.unparse(cut.step) == "-1"
    return cut.lower is None and cut.upper is None and (cut.step is None or back)


def shortened(statement: ast.stmt, env: Environment) -> list[str]:
    """The lists that a statement takes entries out of: `del batch[0]`."""
    targets = statement.targets if isinstance(statement, ast.Delete) else []
    cut = [target.value for target in targets if isinstance(target, ast.Subscript)]
    return [node.id for node in cut if isinstance(node, ast.Name) and env.get(node.id) in LISTS]


def settled_number(node: ast.expr, env: Environment) -> bool:
    """Whether a number is not worked out in the collate function: a literal, a variable from outside, an attribute."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and env.get(node.value.id, Layout.CONST) is Layout.CONST
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id not in env)
