"""Helpers that a script shares with one that is left alone: they ask for the state of the processes, and stay."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from projects import MODEL, outputs, write

UTILS = """\
import os
import shutil

import torch


def save_checkpoint(state, best, folder):
    path = os.path.join(folder, "last.pt")
    torch.save(state, path)
    if best:
        shutil.copyfile(path, os.path.join(folder, "best.pt"))
"""
TRAIN = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from model import Net
from utils import save_checkpoint


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.arange(256.0).view(64, 4), torch.arange(64) % 2)
    loader = DataLoader(data, batch_size=16)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        save_checkpoint({"model": model.state_dict()}, epoch == 1, ".")


main()
"""
OTHER = TRAIN.replace("DataLoader(data, batch_size=16)", "unknown(data)").replace(
    "import torch\n", "import torch\nfrom deal import unknown\n", 1
)
GUARDED = """\
    path = os.path.join(folder, "last.pt")
    if PartialState().is_main_process:
        torch.save(state, path)
        if best:
            shutil.copyfile(path, os.path.join(folder, "best.pt"))
"""


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_helper_of_a_script_that_is_left_alone_is_called_as_before() -> None:
    write({"train.py": TRAIN, "other.py": OTHER, "utils.py": UTILS, "model.py": MODEL})
    found = outputs("train.py", "other.py", "utils.py", "model.py")
    assert set(found) == {"train.py", "utils.py"}
    assert GUARDED in found["utils.py"] and "def save_checkpoint(state, best, folder):\n" in found["utils.py"]
    call = 'save_checkpoint( {"model": accelerator.unwrap_model(model).state_dict()}, epoch == 1, "." )'
    assert call in " ".join(found["train.py"].split())


def test_a_network_that_a_helper_asks_for_its_state_is_handed_to_it_as_it_was() -> None:
    utils = UTILS.replace("torch.save(state, path)", "torch.save(state.state_dict(), path)")
    parts = {"train.py": TRAIN, "other.py": OTHER}
    parts = {name: text.replace('{"model": model.state_dict()}', "model") for name, text in parts.items()}
    write({**parts, "utils.py": utils, "model.py": MODEL})
    found = outputs("train.py", "other.py", "utils.py", "model.py")
    assert 'save_checkpoint(accelerator.unwrap_model(model), epoch == 1, ".")' in found["train.py"]
    assert "        torch.save(state.state_dict(), path)\n" in found["utils.py"]


RESTORING = """

def keep(net, folder, name=None):
    def write(path):
        net.save(path)
        torch.save(folder, "folder.pt")
    write("last.pt")


def restore(net, folder):
    if os.path.exists("last.pt"):
        net.load("last.pt")
    else:
        keep(net, folder)
"""


def test_functions_in_helpers_and_helpers_that_are_called_before_there_is_a_wrapper() -> None:
    parts = {"train.py": TRAIN, "other.py": OTHER}
    for name, text in parts.items():
        text = text.replace("import save_checkpoint", "import keep, restore")
        text = text.replace("    optimizer = ", '    restore(model, ".")\n    optimizer = ')
        parts[name] = re.sub(r"save_checkpoint\(.*\)", 'keep(model, ".")', text)
    methods = "\n    def save(self, path):\n        print(path)\n\n    def load(self, path):\n        print(path)\n"
    write({**parts, "utils.py": UTILS + RESTORING, "model.py": MODEL + methods})
    found = outputs("train.py", "other.py", "utils.py", "model.py")
    assert set(found) == {"train.py", "utils.py"}
    assert '        keep(accelerator.unwrap_model(model), ".")' in found["train.py"]
    assert '    restore(model, ".")\n' in found["train.py"]
    assert (
        '        if PartialState().is_main_process:\n            torch.save(folder, "folder.pt")' in found["utils.py"]
    )
    assert RESTORING[RESTORING.index("def restore") :] in found["utils.py"]


def test_several_scripts_share_what_one_that_is_left_alone_does() -> None:
    second = TRAIN.replace("lr=0.1", "lr=0.2")
    write({"train.py": TRAIN, "second.py": second, "other.py": OTHER, "utils.py": UTILS, "model.py": MODEL})
    found = outputs("train.py", "second.py", "other.py", "utils.py", "model.py")
    assert set(found) == {"train.py", "second.py", "utils.py"} and GUARDED in found["utils.py"]


def test_where_all_are_converted_the_helper_gets_the_accelerator() -> None:
    second = TRAIN.replace("lr=0.1", "lr=0.2")
    write({"train.py": TRAIN, "second.py": second, "utils.py": UTILS, "model.py": MODEL})
    found = outputs("train.py", "second.py", "utils.py", "model.py")
    assert "def save_checkpoint(state, best, folder, accelerator):\n" in found["utils.py"]
    assert set(found) == {"train.py", "second.py", "utils.py"}


@pytest.mark.parametrize("more", ["", "    print(loss)\n"])
def test_a_helper_that_needs_more_than_the_state(more: str) -> None:
    parts = {"train.py": TRAIN, "other.py": OTHER}
    for name, text in parts.items():
        text = text.replace("import save_checkpoint", "import save_checkpoint, step")
        parts[name] = text.replace("F.cross_entropy(model(x), y).backward()", "step(F.cross_entropy(model(x), y))")
    write({**parts, "utils.py": f"{UTILS}\n\ndef step(loss):\n{more}    loss.backward()\n", "model.py": MODEL})
    assert not outputs("train.py", "other.py", "utils.py", "model.py")


GROUP = """\
import os
import torch
import torch.distributed as dist


def setup():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return dist.get_rank()


def log(rank, text):
    if rank == 0:
        print(text)


def is_main():
    return dist.get_rank() == 0
"""
DISTRIBUTED = """\
import os
import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler
from group import is_main, log, setup

rank = setup()
local = int(os.environ["LOCAL_RANK"])
data = TensorDataset(torch.ones(64, 8), torch.zeros(64).long())
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
model = DDP(torch.nn.Linear(8, 3).to(local), device_ids=[local])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(local), y.to(local)
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    log(rank, "step")
if is_main():
    print("done")
"""


def test_a_number_that_a_helper_is_given_is_what_others_give_it() -> None:
    write({"train.py": DISTRIBUTED, "group.py": GROUP, "alone.py": 'from group import log\n\nlog(1, "nothing")\n'})
    found = outputs("train.py", "alone.py", "group.py")
    assert "def log(rank, text):\n    if rank == 0:\n        print(text)\n" in found["group.py"]
    assert "return accelerator.is_main_process\n" in found["group.py"]
    assert 'log(rank, "step")' in found["train.py"] and "rank = setup(accelerator)" in found["train.py"]
