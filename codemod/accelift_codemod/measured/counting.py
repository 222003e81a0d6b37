"""Numbers of samples that a loop measures, and others that its functions return, made those of all processes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from accelift_codemod.batches import padding
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.layout import Environment, Layout
from accelift_codemod.measured import labels
from accelift_codemod.measured.numbers import is_float, is_integer, is_number, is_one
from accelift_codemod.plan import Edit, Need, Operation

RULE = "REDUCE"
WHY = "a decision or an average over the whole data set depends on it: it must be that of all processes"
GATHERED = "{accelerator}.gather_for_metrics({})"
MEAN_OF_ALL = "{accelerator}.batch_mean({}.detach())"


def numbered(draft: Draft, loop: BatchLoop, statement: ast.stmt, value: ast.expr) -> list[Edit]:
    """Make a number of samples that a statement hands on that of all processes, also if others read it, too."""
    env = draft.environment(loop, statement)
    if env is None or draft.facts.layouts.read(value, env) is not Layout.COUNT:
        return []
    return list(count_of_all(draft, loop, value, env))


def count_of_all(draft: Draft, loop: BatchLoop, count: ast.expr, env: Environment) -> Iterator[Edit]:
    """Make a number of samples that of all processes, where it is read here: others who read a variable keep theirs.

    Labels are gathered and counted; of other parts of a batch, which may be large, the number travels alone.
    """
    made = draft.facts.resolver.set_once(count) if isinstance(count, ast.Name) else count
    counted = counted_in(made) if made is not None and draft.runtime else None
    if made is None or counted is None:
        code = of_all(draft, loop, count, Layout.COUNT)
        yield from [draft.edit(RULE, count, Operation.SURROUND, WHY, code, need=Need.STRONG)] if code else []
        return
    rows = _all_rows(draft, loop, made, env)
    torch = draft.facts.imported("torch", count)
    if torch and (rows is None or not labels.is_label(draft, counted)):
        code = total(draft, f"{torch}.tensor({{}})") + ".item()"
        yield draft.edit(RULE, count, Operation.SURROUND, WHY, code, need=Need.STRONG)
    elif rows is not None and made is count:
        yield draft.edit(RULE, rows, Operation.SURROUND, WHY, GATHERED, need=Need.STRONG)
    elif rows is not None:
        text = draft.facts.segment(rows)
        gathered, alone = GATHERED.replace("{}", text), rf"(?<![\w.]){re.escape(text)}(?!\w)"
        code = re.sub(alone, lambda _: gathered, draft.facts.segment(made), count=1)
        yield draft.edit(RULE, count, Operation.BECOME, WHY, code, need=Need.STRONG)


def of_all(draft: Draft, loop: BatchLoop, number: ast.expr, layout: object) -> str:
    """What makes a number of Python's, as a function returns it, that of all processes; empty if none is known to.

    In float64, as Python's own numbers are.
    """
    torch = draft.facts.imported("torch", number)
    if not torch or not draft.runtime or not is_number(draft, number):
        return ""
    if layout is Layout.MEAN:
        return f"{{accelerator}}.batch_mean({torch}.tensor({{}}, dtype={torch}.float64)).item()"
    if layout not in (Layout.SUM, Layout.COUNT):
        return ""
    if is_integer(draft, number):
        return total(draft, f"{torch}.tensor({{}})") + ".item()"
    wide = total(draft, f"{torch}.tensor({{}}, dtype={torch}.float64)") + ".item()"
    return wide if is_float(draft, loop, number) else ""


def _all_rows(draft: Draft, loop: BatchLoop, count: ast.expr, env: Environment) -> ast.Name | None:
    """The tensor whose rows an expression counts, if it can be gathered from all processes."""
    rows = counted_in(count) if draft.runtime and padding.alike(draft, loop) else None
    return rows if rows is not None and draft.facts.layouts.read(rows, env) is Layout.ROWS else None


def counted_in(node: ast.expr) -> ast.Name | None:
    """The tensor whose rows an expression counts: `x.size(0)`, `x.shape[0]`, `len(x)`."""
    if isinstance(node, ast.Call):
        func = node.func
        length = isinstance(func, ast.Name) and func.id == "len" and len(node.args) == 1
        tensor = node.args[0] if length else func.value if isinstance(func, ast.Attribute) else None
    else:
        shape = node.value if isinstance(node, ast.Subscript) else None
        tensor = shape.value if isinstance(shape, ast.Attribute) else None
    return tensor if isinstance(tensor, ast.Name) else None


def sum_of_all(draft: Draft, tensor: ast.expr) -> str:
    """What makes a sum over the samples that of all processes: of each entry, if it may have several."""
    if not draft.runtime or is_one(draft, tensor):
        return total(draft, "{}.detach()")
    return "{accelerator}.gather_for_metrics({}.detach()[None]).sum(0)"


def total(draft: Draft, part: str) -> str:
    """The sum of every process's part, where a batch that went to all of them whole counts once."""
    if draft.runtime:
        return f"{{accelerator}}.gather_for_metrics({part}).sum()"
    return f'{{accelerator}}.reduce({part}, reduction="sum")'
