"""What tests of whole projects begin with."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[project]\n")  # where the project begins
    monkeypatch.chdir(tmp_path)
    return tmp_path
