"""Cells of notebooks: one shows what its last line gives."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accelift_codemod.facts import Facts

CELL = re.compile(r"# ?(?:%%|In\[)")  # what begins a cell, also of a notebook that is written as a script


def ends_cell(facts: Facts, statement: ast.stmt) -> bool:
    """Whether a statement is the last one of a cell."""
    if not isinstance(facts.index.parents.get(statement), ast.Module):
        return False
    block, place = facts.index.block(statement)
    here = [s for s in block[place + 1 : place + 2] if facts.same_file(s, statement)]
    if not here:
        return facts.source.path.endswith(".ipynb")
    return any(map(CELL.match, facts.source.between(facts.original(statement), facts.original(here[0]))))  # type: ignore[arg-type]
