"""Methods that an object looks up in itself by a name that is put together."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, TRAINS, converted, findings, script, unchanged

TRAINER = f"""\
class Trainer:
    def __init__(self, model):
        self.model = model

    def train_epoch(self, loader):
        model = self.model
{TRAINS.replace("    ", "        ", 1).replace(chr(10) + "    ", chr(10) + "        ")}
    def valid_epoch(self, loader):
        wrong = 0
        with torch.no_grad():
            for x, y in loader:
                wrong += (self.model(x.to(device)).argmax(1) != y.to(device)).sum().item()
        print(wrong)

    def fit(self):
        for epoch in range(2):
            for phase in ("train", "valid"):
                getattr(self, f"{{phase}}_epoch")(loaders[phase])
"""
FIT = 'getattr(self, f"{phase}_epoch")(loaders[phase])'
LOADERS = "loader = DataLoader(data, batch_size=16, shuffle=True)\nvalid = DataLoader(data, batch_size=16)"


def trainer(old: str, new: str, after: str = "") -> str:
    assert old in TRAINER
    definitions = TRAINER.replace(old, new)
    loaders = f'{LOADERS}\nloaders = {{"train": loader, "valid": valid}}'
    return script(
        **{**NO_LOOP, "definitions": definitions, "loader": loaders, "after": f"{after}\nTrainer(model).fit()"}
    )


@pytest.mark.parametrize(
    "call",
    [
        'getattr(self, f"{phase}_epoch")(loaders[phase])',
        'getattr(self, phase + "_epoch")(loaders[phase])',
        'done = getattr(self, f"{phase}_epoch")(loaders[phase])',
    ],
)
def test_a_call_is_one_of_the_methods_whose_names_fit(call: str) -> None:
    after = converted(trainer(FIT, call))
    assert "accelerator.backward(loss)" in after and call in after
    assert "accelerator.gather_for_metrics(" in after and "accelerator.print(wrong)" in after
    assert findings(trainer(FIT, call)) == []


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        (FIT, "getattr(self, name)(loaders[phase])", "name = input()"),  # it may be any
        (FIT, 'getattr(self, f"{phase}_epoch", print)(loaders[phase])', ""),
        (FIT, 'getattr(self, f"{phase}_epoch")(make(phase))', "make = loaders.get"),  # which is called once
        (FIT, FIT, "class Other(Trainer):\n    def test_epoch(self, loader):\n        pass"),
        (FIT, FIT, "Trainer.test_epoch = print"),
        (FIT, FIT, "setattr(Trainer, input(), print)"),
        ("def fit", "@property\n    def test_epoch(self):\n        return print\n\n    def fit", ""),
    ],
)
def test_one_that_may_be_something_else(old: str, new: str, after: str) -> None:
    assert unchanged(trainer(old, new, after)).code == "LOOP-IN-CLASS"
