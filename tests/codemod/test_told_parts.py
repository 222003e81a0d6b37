"""METRIC-TRAIN of objects that trainers keep and fill: only the object is named, not the trainer."""

from __future__ import annotations

import pytest
from scripts import convert

TRAINER = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Meter:
    def __init__(self):
        self.sum = 0

    def update(self, val):
        self.sum += val


class Trainer:
    def __init__(self, model, optim, loader):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.optim = optim
        self.loader = loader
        self.meter = Meter()

    def train(self):
        for i, (x, y) in enumerate(self.loader):
            self.step(x, y)
            print(self.meter.sum)
        self.end()

    def step(self, x, y):
        self.optim.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
        loss.backward()
        self.optim.step()
        self.meter.update(loss.item())

    def end(self):
        {end}


model = nn.Linear(8, 2)
optim = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.zeros(64, 8), torch.zeros(64).long()), batch_size=8)
Trainer(model, optim, loader).train()
"""


@pytest.mark.parametrize("end", ["print(3.0)", "pass"])
def test_of_an_object_and_its_part_only_the_part_is_named(end: str) -> None:
    plan = convert(TRAINER.format(end=end)).plan
    assert plan is not None
    told = [f.message for f in plan.findings]
    assert told == ["`self.meter` covers only the share of the process that prints it"]


def test_objects_whose_names_only_begin_alike_are_all_named() -> None:
    text = TRAINER.format(end="pass")
    for line in ("self.meter = Meter()", "self.meter.update(loss.item())", "print(self.meter.sum)"):
        indent = text[: text.index(line)].rpartition("\n")[2]
        text = text.replace(line, f"{line}\n{indent}{line.replace('meter', 'meters')}")
    plan = convert(text).plan
    assert plan is not None
    told = [f.message for f in plan.findings]
    assert told == ["`self.meter`, `self.meters` cover only the share of the process that prints them"]
