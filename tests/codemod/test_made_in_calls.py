"""PREPARE: networks, optimizers and loaders that are made in the call that hands them to the training."""

from __future__ import annotations

import pytest
from scripts import converted, unchanged

_FIT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"


def fit(net, loader, optimizer):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
loader = DataLoader(data, batch_size=16)
model = nn.Linear(8, 3).to(device)
"""
_MADE = "torch.optim.SGD(model.parameters(), lr=0.1)"


def _prepared(text: str) -> list[str]:
    return [line for line in converted(text).split("\n") if "accelerator.prepare(" in line]


@pytest.mark.parametrize(
    ("end", "lines"),
    [
        (
            f"fit(model, loader, {_MADE})",
            [f"fit(model, loader, accelerator.prepare({_MADE}))"],
        ),
        (
            f"for _ in range(2):\n    fit(model, loader, {_MADE})\nfit(model, loader, {_MADE})",
            [f"{margin}fit(model, loader, accelerator.prepare({_MADE}))" for margin in ("    ", "")],
        ),
        (
            f"make = lambda: {_MADE}\nfit(model, loader, make())",
            [f"make = lambda: accelerator.prepare({_MADE})"],
        ),
        (
            f"def make(model):\n    return {_MADE}\n\n\nfit(model, loader, make(model))",
            [f"    return accelerator.prepare({_MADE})"],
        ),
        (
            f"def make(model):\n    found = {_MADE}\n    return found\n\n\nfit(model, loader, make(model))",
            ["    found = accelerator.prepare(found)"],
        ),
        (
            f"def make(model):\n    found = {_MADE}\n    return found\n\n\n"
            "fit(model, loader, make(model))\nfit(model, loader, make(model))",
            ["fit(model, loader, accelerator.prepare(make(model)))"] * 2,
        ),
    ],
)
def test_an_optimizer(end: str, lines: list[str]) -> None:
    found = _prepared(f"{_FIT}{end}\n")
    assert sorted(found) == sorted(["model, loader = accelerator.prepare(model, loader)", *lines])


@pytest.mark.parametrize(
    ("end", "lines"),
    [
        (
            "fit(model, load(8), optimizer)",
            ["    return accelerator.prepare(DataLoader(data, batch_size=size))"],
        ),
        (
            "fit(model, load(8), optimizer)\nfit(model, load(16), optimizer)",
            [f"fit(model, accelerator.prepare(load({n})), optimizer)" for n in (8, 16)],
        ),
    ],
)
def test_a_loader(end: str, lines: list[str]) -> None:
    load = f"optimizer = {_MADE}\n\n\ndef load(size):\n    return DataLoader(data, batch_size=size)\n\n\n"
    found = _prepared(_FIT.replace("loader = DataLoader(data, batch_size=16)\n", "") + load + end + "\n")
    assert sorted(found) == sorted(["model, optimizer = accelerator.prepare(model, optimizer)", *lines])


_TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)


def train(net):
    {line}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in DataLoader(data, batch_size=16):
        loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(net.state_dict(), "net.pt")
    return net


"""


@pytest.mark.parametrize("line", ["net.train()", "net.to(device)", "net = net.to(device)"])
@pytest.mark.parametrize(
    ("end", "prepared"),
    [
        ("train(nn.Linear(8, 3))", "train(accelerator.prepare(nn.Linear(8, 3)))"),
        ("print(train(nn.Linear(8, 3)).bias)", "train(accelerator.prepare(nn.Linear(8, 3)))"),
        ("train(net=nn.Linear(8, 3).to(device))", "train(net=accelerator.prepare(nn.Linear(8, 3)))"),
        ("def make():\n    return nn.Linear(8, 3)\n\n\ntrain(make())", "train(accelerator.prepare(make()))"),
    ],
)
def test_a_network(line: str, end: str, prepared: str) -> None:
    found = converted(f"{_TRAIN.format(line=line)}{end}\n")
    assert prepared in found and "unwrap_model(net).state_dict()" in found
    assert ".bias" not in end or "accelerator.unwrap_model(train(" in found


_LOOKED = """
with torch.no_grad():
    for x, y in DataLoader(data, batch_size=16):
        print(made(x.to(device)))
"""


@pytest.mark.parametrize("line", ["net.train()", "net.to(device)", "net = net.to(device)"])
@pytest.mark.parametrize("after", ["", "print(made.bias)\n", _LOOKED])
def test_a_network_that_the_call_gives_back(line: str, after: str) -> None:
    found = converted(f"{_TRAIN.format(line=line)}made = train(nn.Linear(8, 3))\n{after}")
    assert "made = train(accelerator.prepare(nn.Linear(8, 3)))\n" in found
    assert "unwrap_model(net).state_dict()" in found
    assert ".bias" not in after or "accelerator.unwrap_model(made).bias" in found


@pytest.mark.parametrize(
    ("begin", "place"),
    [
        ("def drawn(net):\n    net.weight.data.zero_()\n    return net\n\n\n", "net = drawn(nn.Linear(8, 3))"),
        ("", "net = nn.Linear(8, 3)"),
    ],
)
def test_a_network_that_is_trained_after_the_call_is_prepared_after_it(begin: str, place: str) -> None:
    found = converted(f"{_TRAIN.format(line='net.train()')}{begin}{place}\nnet = train(net)\nprint(net.bias)\n")
    assert f"{place}\nnet = accelerator.prepare(net)\nnet = train(net)\n" in found


def test_a_network_that_is_changed_by_the_name_of_a_parameter() -> None:
    line = "net.bias = None\n    net = net.to(device)"
    assert unchanged(f"{_TRAIN.format(line=line)}train(nn.Linear(8, 3))\n").code == "PREP-NO-POINT"


def test_what_is_made_where_nothing_runs_is_left() -> None:
    unused = "def unused():\n    train(nn.Linear(8, 3))\n\n\n"
    found = converted(f"{_TRAIN.format(line='net = net.to(device)')}{unused}model = nn.Linear(8, 3)\ntrain(model)\n")
    assert "model = accelerator.prepare(model)" in found and unused in found


@pytest.mark.parametrize(
    "end",
    [
        f"optimizer = None\nfit(model, loader, optimizer or {_MADE})",
        f"def make(model):\n    return {_MADE}, 1\n\n\n"
        "fit(model, loader, make(model)[0])\nfit(model, loader, make(model)[0])",
        f"def same(net):\n    net.train()\n    return net\n\n\nfit(same(model), loader, {_MADE})",
        f"fit(nn.Linear(8, 3), loader, {_MADE})",
    ],
)
def test_what_is_not_given_by_one_call_is_left(end: str) -> None:
    assert unchanged(f"{_FIT}{end}\n").code in ("PREP-NO-POINT", "OPT-UNKNOWN")
