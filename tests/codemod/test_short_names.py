"""PREPARE: methods that keep the network of their object in variables for short."""

from __future__ import annotations

import pytest
from scripts import converted, unchanged

TRAINER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, loader, device):
        self.device = device
        self.loader = loader
        self.model = nn.Linear(8, 3).to(device)
        {made}

    def fit(self):
        {short}
        {late}
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            {optimizer}.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            {optimizer}.step()

    def test(self):
        net, steps = self.model.eval(), self.optimizer
        with torch.no_grad():
            for x, y in self.loader:
                print(net(x.to(self.device)).mean(), y.float().mean())
        torch.save(net.state_dict(), "net.pt")


data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
trainer = Trainer(DataLoader(data, batch_size=16), "cuda")
trainer.fit()
trainer.test()
"""
MADE = "self.optimizer = torch.optim.SGD({}.parameters(), lr=0.1)"


def text(short: str, made: str = MADE.format("self.model"), late: str = "", optimizer: str = "self.optimizer") -> str:
    return TRAINER.format(short=short, made=made, late=late, optimizer=optimizer)


ALL = "self.model, self.optimizer = self.accelerator.prepare("


@pytest.mark.parametrize(
    "short", ["net = self.model", "net = self.model.train()", "net = self.model\n        net.train()"]
)
def test_a_variable_for_an_attribute(short: str) -> None:
    found = converted(text(short))
    assert ALL in found and short in found and "self.accelerator.unwrap_model(net).state_dict()" in found


def test_a_variable_gets_the_model_after_it_is_prepared() -> None:
    found = converted(text("net = self.model", made="pass", late=MADE.format("net")))
    assert found.index("self.model = self.accelerator.prepare(self.model)") < found.index("net = self.model")
    assert "self.optimizer = self.accelerator.prepare(self.optimizer)" in found


def test_a_variable_that_would_have_the_model_before_it_is_prepared() -> None:
    late = "self.model = nn.Linear(8, 3).to(self.device)\n        " + MADE.format("self.model")
    assert unchanged(text("net = self.model", made="pass", late=late)).code == "PREP-NO-POINT"


EPOCH = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, loader, device):
        self.device = device
        self.loader = loader
        self.net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3)).to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def epoch(self):
        model, opt = self.net, self.opt
        {before}
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()


data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
trainer = Trainer(DataLoader(data, batch_size=16), "cuda")
for _ in range(3):
    trainer.epoch()
"""


@pytest.mark.parametrize("before", ["pass", "model.train()", "model.train(True)\n        opt.zero_grad()"])
@pytest.mark.parametrize("apart", [True, False])
def test_what_a_method_has_for_short_is_prepared_once(before: str, apart: bool) -> None:
    text = EPOCH.format(before=before)
    if apart:
        text = text.replace("model, opt = self.net, self.opt", "model = self.net\n        opt = self.opt")
    found = converted(text)
    assert found.count("prepare(") == 1
    assert "self.net, self.opt, self.loader = self.accelerator.prepare(" in found


@pytest.mark.parametrize(
    "before",
    [
        "model[1] = nn.Linear(8, 3).to(self.device)",
        "model[0].requires_grad_(False)",
        "for p in model[0].parameters():\n            p.requires_grad = False",
        "model.apply(print)",
    ],
)
def test_what_a_method_changes_is_prepared_after_that(before: str) -> None:
    text = EPOCH.format(before=before).replace(
        "model, opt = self.net, self.opt", "model = self.net\n        opt = self.opt"
    )
    assert f"{before}\n        model, opt = self.accelerator.prepare(model, opt)" in converted(text)


def test_what_a_method_trains_by_its_own_optimizer_is_prepared_there() -> None:
    own = "opt = torch.optim.SGD(model.parameters(), lr=0.1)"
    text = EPOCH.format(before=own).replace("model, opt = self.net, self.opt", "model = self.net")
    assert "model, opt = self.accelerator.prepare(model, opt)" in converted(text)
