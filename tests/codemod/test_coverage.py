"""docs/coverage.md names modules, tests, fixtures and codes: they exist, and no rule is missing."""

from __future__ import annotations

import re

import pytest
from accelift_codemod.handbook import entries
from accelift_codemod.lints import all_lints
from accelift_codemod.reasons import REASONS
from cli_runs import FIXTURES, ROOT

TEXT = (ROOT / "docs" / "coverage.md").read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("|")]
QUOTED = sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row)})
CODES = {*entries(), *REASONS, *(lint.code for lint in all_lints())}


def exists(name: str) -> bool:
    """Whether there is a test or check of that name in its file, such a module, or such a fixture."""
    place, _, what = name.partition("::")
    if what and place.startswith("pieces/"):
        return f'"{what}": ' in (ROOT / "tests" / "generated" / place).read_text()
    if what:
        folder = "runtime" if place.startswith("workers/") else "" if place.startswith("e2e/") else "codemod"
        return f"\ndef {what}(" in (ROOT / "tests" / folder / place).read_text()
    if place.startswith("runtime/"):
        return (ROOT / "runtime" / "accelift" / place.removeprefix("runtime/")).exists()
    if place.endswith((".py", "/")):
        return (ROOT / "codemod" / "accelift_codemod" / place).exists()
    return (FIXTURES / place).is_dir() or (FIXTURES / f"{place}.py").is_file()


@pytest.mark.parametrize("name", QUOTED)
def test_what_is_named_exists(name: str) -> None:
    assert exists(name)


@pytest.mark.parametrize("name", ["rules/none.py", "test_moves.py::test_none", "legacy/none", "pieces/data.py::none"])
def test_what_does_not_exist_is_noticed(name: str) -> None:
    assert not exists(name)


def test_codes() -> None:
    named = {code for row in ROWS for code in re.findall(r"\b[A-Z]+(?:-[A-Z]+)+\b", row)}
    assert named and named <= CODES


def test_every_rule_is_there() -> None:
    modules = {path.name for path in (ROOT / "codemod" / "accelift_codemod" / "rules").glob("[!_]*.py")}
    assert {name.removeprefix("rules/") for name in QUOTED if name.startswith("rules/")} == modules
