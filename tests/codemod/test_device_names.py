"""DEVNAME: the kind of a device where a script asks for its name."""

from __future__ import annotations

import pytest
from scripts import added, converted

GPU = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
FIRST = 'torch.device("cuda:0" if torch.cuda.is_available() else "cpu")'
NAME = '"cuda:0" if torch.cuda.is_available() else "cpu"'

SCRIPT = """\
import logging
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = {device}
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(16, 4), torch.randn(16, 1)), batch_size=4)
model.to(device)
answer = {asked}
for x, y in loader:
    loss = ((model(x.to(device)) - y.to(device)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def asked(device: str, question: str) -> str:
    """The question in the converted script."""
    lines = converted(SCRIPT.format(device=device, asked=question)).splitlines()
    return next(line for line in lines if line.startswith("answer")).partition(" = ")[2]


@pytest.mark.parametrize(
    ("device", "before", "after"),
    [
        (GPU, "str(device)", "device.type"),
        (GPU, 'str(device) == "cuda"', 'device.type == "cuda"'),
        (GPU, "str(device) != 'cuda'", "device.type != 'cuda'"),
        (GPU, "str(device).upper()", "device.type.upper()"),
        (GPU, 'device == torch.device("cuda")', 'device.type == "cuda"'),
        (GPU, "device != torch.device('cuda') and 1", "device.type != 'cuda' and 1"),
        ('torch.device("cuda")', "torch.autocast(str(device))", "torch.autocast(device.type)"),
        (GPU, 'f"{device}.pt"', 'f"{device.type}.pt"'),
        (GPU, 'f"{device!s}" in ("cuda", "cpu")', 'f"{device.type!s}" in ("cuda", "cpu")'),
        (GPU, '"%s.pt" % device', '"%s.pt" % device.type'),
        (GPU, '"%d-%s" % (1, device)', '"%d-%s" % (1, device.type)'),
        (GPU, '"{}-{d}".format(1, d=device)', '"{}-{d}".format(1, d=device.type)'),
        (FIRST, 'device == torch.device("cuda:0")', 'device.type == "cuda"'),
        (FIRST, 'str(device) == "cuda:0"', 'device.type == "cuda"'),
        (NAME, 'device == "cuda:0"', 'device == "cuda"'),
        (NAME, "device != 'cuda:0'", "device != 'cuda'"),
    ],
)
def test_a_name_is_that_of_the_kind(device: str, before: str, after: str) -> None:
    assert asked(device, before) == after


@pytest.mark.parametrize(
    ("device", "question"),
    [
        (GPU, 'device.type == "cuda"'),
        (GPU, 'device == torch.device("cpu")'),
        (GPU, 'str(torch.float32) == "cuda"'),
        (GPU, 'device == "cuda"'),  # a device is no string: the answer is no, as it was
        (GPU, 'device == torch.device("cuda:0")'),  # another one than that of the script
        (FIRST, "str(device)"),  # the name of the process's own
        (FIRST, 'str(device) == "cuda"'),
        (FIRST, 'device == torch.device("cuda")'),
        (GPU, 'f"{device!r}"'),
        (GPU, '7 % len(f"{loader}")'),
        (GPU, 'logging.getLogger("run").info(f"{device}")'),  # shown, where the number is of use
        (FIRST, 'f"{device}.pt"'),
        (NAME, 'f"{device}.pt"'),
        (NAME, 'device == "cuda"'),
        (NAME, 'device != "cpu"'),
        (NAME, 'device == "mps"'),
    ],
)
def test_other_questions_stay(device: str, question: str) -> None:
    assert asked(device, question) == question


def test_a_name_that_stays_is_asked_for_as_before() -> None:
    text = SCRIPT.format(device=GPU, asked='name == "cuda:0"').replace("answer", f"name = {NAME}\nanswer")
    assert 'answer = name == "cuda:0"' in converted(text)


def test_a_device_that_is_handed_on() -> None:
    text = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def fit(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fast = device == torch.device("cuda")
    for x, y in loader:
        loss = ((model(x.to(device)) - y.to(device)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

device = {GPU}
model = nn.Linear(4, 1).to(device)
fit(model, DataLoader(TensorDataset(torch.zeros(16, 4), torch.zeros(16, 1)), batch_size=4), device)
"""
    assert 'fast = accelerator.device.type == "cuda"' in added(text)
    named = text.replace(GPU, NAME).replace('torch.device("cuda")', '"cuda:0"')
    assert 'fast = accelerator.device.type == "cuda"' in added(named)


def test_a_device_that_is_handed_on_by_many_calls() -> None:
    """There are millions of ways from the last function to the first, and few variables on them."""
    functions = ['def f0(device):\n    return str(device) == "cuda"\n']
    functions += [f"def f{n}(device):\n" + f"    f{n - 1}(device)\n" * 30 for n in range(1, 6)]
    text = SCRIPT.format(device=GPU, asked="f5(device)").replace(
        "\ntorch.manual_seed(0)\n", "\n".join(["", *functions]), 1
    )
    assert 'return device.type == "cuda"' in converted(text) or "return accelerator.device.type" in converted(text)
