"""`[tool.accelift]` in pyproject.toml: what a project says that its own functions and classes give."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import convert

SCRIPT = """\
import torch
import torch.nn as nn
from inhouse.data import make_loader
from inhouse.networks import build

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = make_loader(batch_size=16)
model = build(3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SETTINGS = '[tool.accelift.roles]\n"inhouse.data.make_loader" = "loader"\n"inhouse.networks.build" = "model"\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    Path("train.py").write_text(SCRIPT)
    return tmp_path


def test_without_settings() -> None:
    ran = convert("train.py", "--check")
    assert ran.code == 1 and "refused: LOADER-UNKNOWN" in ran.lines[0]


@pytest.mark.parametrize("lies", [False, True])
def test_what_the_project_says(lies: bool) -> None:
    """Also of files that lie in the project: then they are not looked into."""
    Path("pyproject.toml").write_text(SETTINGS)
    if lies:
        Path("inhouse").mkdir()
        Path("inhouse/data.py").write_text(
            "from fast import Loader\n\n\ndef make_loader(batch_size):\n    return Loader()\n"
        )
    ran = convert("train.py")
    assert ran.code == 0
    assert "+model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in ran.text


@pytest.mark.parametrize("name", ["inhouse.data.other", "make_loader", "elsewhere.data.make_loader"])
def test_other_names_are_not_meant(name: str) -> None:
    Path("pyproject.toml").write_text(f'[tool.accelift.roles]\n"{name}" = "loader"\n')
    assert "refused: LOADER-UNKNOWN" in convert("train.py", "--check").lines[0]


def test_the_nearest_file_counts_and_none_above_the_repository(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(SETTINGS)
    for place, code in (("sub", 0), ("other", 1)):
        Path(place).mkdir()
        Path(place, "train.py").write_text(SCRIPT)
        if code:
            Path(place, ".git").mkdir()
        assert convert(f"{place}/train.py").code == code


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.accelift]\nrols = 1\n", "[tool.accelift] has no setting rols; there is: roles"),
        ("[tool.accelift]\nroles = 1\n", "roles of [tool.accelift] is no table; "),
        ('[tool.accelift.roles]\n"a.b" = "loder"\n', "[tool.accelift.roles] gives a.b no role that there is; "),
        ('[tool.accelift.roles]\na.b = "loader"\n', "[tool.accelift.roles] gives a no role that there is; "),
        ("[tool.accelift\n", "is no TOML ("),
    ],
)
def test_settings_that_cannot_be_read(text: str, said: str) -> None:
    Path("pyproject.toml").write_text(text)
    ran = convert("train.py", "--check")
    assert ran.code == 2 and "/pyproject.toml: " + said in ran.lines[0]


@pytest.mark.parametrize("text", ["", "[project]\nname = 'x'\n", "[tool.black]\nline-length = 100\n"])
def test_settings_of_others(text: str) -> None:
    Path("pyproject.toml").write_text(text)
    assert convert("train.py", "--check").code == 1
