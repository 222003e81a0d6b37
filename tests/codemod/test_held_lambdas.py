"""Loaders, networks and optimizers that lambdas make, which variables and dicts hold."""

from __future__ import annotations

import pytest
from scripts import added, converted, lifted, removed, script, unchanged

TEST = """\
right = 0
with torch.no_grad():
    for x, y in test_loader:
        right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
"""
MAKE = "make = lambda part, size=16: DataLoader(part, batch_size=size)\n"
OPTIMIZERS = '{"adam": lambda p: torch.optim.Adam(p), "sgd": lambda p, lr=0.1: torch.optim.SGD(p, lr=lr)}'
CHOSEN = "import sys\nname = sys.argv[1]"


def test_a_loader() -> None:
    slots = {"loader": f"{MAKE}loader = make(data)"}
    assert converted(script(**slots)) == lifted(**slots)


def test_two_loaders_are_told_apart() -> None:
    made = f"{MAKE}loader, test_loader = make(data), make(data, 8)"
    assert "model, optimizer, loader, test_loader = accelerator.prepare(" in added(script(loader=made, after=TEST))
    after = "print(sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in test_loader))"
    lines = added(script(loader=made, after=after))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in lines


@pytest.mark.parametrize(
    "optimizer",
    [
        "make = lambda net: torch.optim.SGD(net.parameters(), lr=0.1)\noptimizer = make(model)",
        f"{CHOSEN}\noptimizer = {OPTIMIZERS}[name](model.parameters())",
        f"{CHOSEN}\ntable = {OPTIMIZERS}\noptimizer = table[name](model.parameters())",
        f"table = {OPTIMIZERS}\nmake = table['sgd']\noptimizer = make(model.parameters(), 0.2)",
    ],
)
def test_an_optimizer(optimizer: str) -> None:
    text = script(optimizer=optimizer)
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in added(text)
    assert not any("lambda" in line for line in (*added(text), *removed(text)))


def test_a_network_that_is_moved() -> None:
    output = converted(script(model="place = lambda net: net.to(device)\nmodel = place(Net())"))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in output


@pytest.mark.parametrize(
    "optimizer",
    [
        f"{CHOSEN}\ntable = {OPTIMIZERS}\ntable[name] = print\noptimizer = table[name](model.parameters())",
        f"{CHOSEN}\nmake = {OPTIMIZERS}[name]\nif name:\n    make = print\noptimizer = make(model.parameters())",
        f"{CHOSEN}\noptimizer = {{**globals(), 'sgd': lambda p: torch.optim.SGD(p, lr=0.1)}}[name](model.parameters())",
    ],
)
def test_what_may_be_something_else(optimizer: str) -> None:
    assert unchanged(script(optimizer=optimizer)).code == "OPT-UNKNOWN"
