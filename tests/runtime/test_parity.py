"""What the table of `python -m benchmarks.parity` says of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.parity.__main__ import Cell, Row, table
from benchmarks.parity.library import Library, difference
from benchmarks.parity.scripts import SCRIPTS

UNEVEN = "uneven tail: 70 samples, batch 16"


@pytest.mark.parametrize("name", ["plain", UNEVEN])
def test_one_process_computes_what_the_plain_script_computes(name: str, tmp_path: Path) -> None:
    script = SCRIPTS[name]
    assert difference(script.managed(Library("accelift", tmp_path)), script.plain()) == 0


def test_another_script_computes_something_else(tmp_path: Path) -> None:
    assert difference(SCRIPTS["plain"].managed(Library("accelift", tmp_path)), SCRIPTS[UNEVEN].plain()) > 1e-3


def test_a_change_of_the_last_bit_is_told() -> None:
    ours, theirs = SCRIPTS["plain"].plain(), SCRIPTS["plain"].plain()
    assert difference(ours, theirs) == 0
    ours[-1][0] = ours[-1][0].nextafter(ours[-1][0] + 1)
    assert 0 < difference(ours, theirs) < 1e-6


def test_the_table_tells_differences_failures_and_missing_peers() -> None:
    cells = {"accelift 1": Cell(0.0), "accelift 2": Cell(3e-8)}
    cells |= {"accelerate 1": Cell(0.5), "accelerate 2": Cell(None, "ValueError: no\nway")}
    lines = table([Row("plain", "", cells)]).splitlines()
    assert lines[2] == "| plain | bit-equal | 3.0e-08 | **no**, 5.0e-01 | fails [1] |"
    assert lines[-1] == "[1] ValueError: no way"
    missing = dict.fromkeys(cells, Cell(None, "not installed"))
    assert "not installed | not installed |" in table([Row("plain", "", missing)]).splitlines()[2]
