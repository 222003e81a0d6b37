"""Loaders that another file makes outside functions: the script prepares them, after its imports."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import ENGINE, MODEL, outputs, reason, write

DATA_FILE = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = TensorDataset(torch.randn(8, 4), torch.zeros(8).long())
loader = DataLoader(rows, batch_size=4)
loaders = {"train": DataLoader(rows, batch_size=4), "val": DataLoader(rows, batch_size=4)}
"""
USES_LOADER = """\
import torch
from engine import train
from model import Net
from data import loader


def main():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, loader, optimizer)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("bound", "used", "prepared"),
    [
        ("from data import loader", "loader", "loader = accelerator.prepare(loader)"),
        ("import data", "data.loader", "data.loader = accelerator.prepare(data.loader)"),
        ("from data import loaders", 'loaders["train"]', 'loaders["train"] = accelerator.prepare(loaders["train"])'),
    ],
)
def test_a_loader_that_another_file_makes_outside_functions(folder: Path, bound: str, used: str, prepared: str) -> None:
    text = USES_LOADER.replace("from data import loader", bound).replace("model, loader,", f"model, {used},")
    write({"train.py": text, "engine.py": ENGINE, "model.py": MODEL, "data.py": DATA_FILE})
    found = outputs("train.py")
    assert sorted(found) == ["engine.py", "train.py"]
    assert f"\n)\n{prepared}\n\n\ndef main():" in found["train.py"]


def test_a_script_that_chooses_its_device_outside_functions(folder: Path) -> None:
    """Its loaders are prepared below, where the accelerator is made."""
    chosen = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nargs = None\n'
    text = USES_LOADER.replace("\n\n\ndef main", f"\n\n{chosen}\n\ndef main").replace("Net()", "Net().to(device)")
    write({"train.py": text, "engine.py": ENGINE, "model.py": MODEL, "data.py": DATA_FILE})
    script = outputs("train.py")["train.py"]
    assert "\nfrom data import loader\n\naccelerator = Accelerator(" in script
    assert ")\nloader = accelerator.prepare(loader)\nargs = None\n" in script


def test_a_loader_that_a_third_file_has_from_the_same(folder: Path) -> None:
    third = "from data import loader\n\n\ndef count():\n    return sum(len(y) for _, y in loader)\n"
    text = USES_LOADER.replace("from model", "from third import count\nfrom model")
    text = text.replace("    train(", "    print(count())\n    train(")
    write({"train.py": text, "engine.py": ENGINE, "model.py": MODEL, "data.py": DATA_FILE, "third.py": third})
    assert reason("train.py")[0] == "PREP-NO-POINT"
