"""Static methods that train: functions as any other, where every call of them is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import HEAD, MODEL, outputs, reason, write
from projects import script as program
from scripts import NO_LOOP, added, converted, findings, lifted, script, unchanged

TRAIN = """\
class Training:{base}
    @staticmethod
    def fit(model, loader, optimizer{more}):
        for x, y in loader:
            {move}optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            {backward}
            optimizer.step()
{rest}"""
MOVE = "x, y = x.to({0}), y.to({0})\n            "
LEGACY = {"more": ", device", "move": MOVE.format("device"), "backward": "loss.backward()", "rest": "", "base": ""}
LIFTED = {**LEGACY, "more": ", accelerator", "move": "", "backward": "accelerator.backward(loss)"}
CALL = "Training.fit(model, loader, optimizer, {})"


def _static(call: str = CALL.format("device"), **parts: str) -> str:
    """A script that trains in a static method, which its last line calls."""
    return script(main=True, definitions=TRAIN.format(**{**LEGACY, **parts}), **{**NO_LOOP, "after": call})


@pytest.mark.parametrize("call", [CALL, CALL.replace("Training", "Training()"), f"for epoch in range(2):\n    {CALL}"])
def test_a_static_method_is_a_function(call: str) -> None:
    made = "accelerator = Accelerator(\n    dataloader_config=DataLoaderConfiguration(split_batches=True)\n)"
    after = {**NO_LOOP, "device": made, "after": call.format("accelerator"), "definitions": TRAIN.format(**LIFTED)}
    assert converted(_static(call.format("device"))) == lifted(main=True, **after)
    assert findings(_static(call.format("device"))) == []


def test_one_that_needs_the_accelerator_gets_one_more_parameter() -> None:
    text = script(
        main=True,
        definitions=TRAIN.format(**{**LEGACY, "more": "", "move": ""}),
        **{**NO_LOOP, "device": "", "model": "model = Net()", "after": "Training.fit(model, loader, optimizer)"},
    )
    lines = added(text)
    assert "def fit(model, loader, optimizer, accelerator):" in lines
    assert "Training.fit(model, loader, optimizer, accelerator)" in lines


HELD = """
    def __init__(self, model, loader, optimizer, device):
        self.model, self.loader, self.optimizer, self.device = model, loader, optimizer, device

    def run(self):
        self.fit(self.model, self.loader, self.optimizer, self.device)
"""


def test_one_that_a_method_calls() -> None:
    lines = added(_static("Training(model, loader, optimizer, device).run()", rest=HELD))
    assert "accelerator.backward(loss)" in lines


OTHER = "\n\nclass Other(Training):\n    @staticmethod\n    def fit(*given):\n        pass\n"


def test_another_of_its_name_in_a_class_derived_is_not_called() -> None:
    lines = added(_static(f"{CALL.format('device')}\nOther.fit(1)", rest=OTHER))
    assert "def fit(model, loader, optimizer, accelerator):" in lines
    assert "Training.fit(model, loader, optimizer, accelerator)" in lines


@pytest.mark.parametrize(
    "parts",
    [
        {"rest": OTHER.replace("pass", "super().fit(*given)")},
        {"base": "", "rest": "\n    step = fit\n"},
        {"call": f"{CALL.format('device')}\nrun = Training.fit"},
        {"call": f"{CALL.format('device')}\nmap(Training.fit, [])"},
        {"call": f"{CALL.format('device')}\nlater = lambda given: given.fit(1)"},
        {"call": "Training.fit(*[model, loader, optimizer, device])"},
    ],
)
def test_one_that_may_be_called_in_another_way_is_left_alone(parts: dict[str, str]) -> None:
    assert unchanged(_static(**parts)).code in ("LOOP-IN-CLASS", "LOADER-UNKNOWN")


@pytest.mark.parametrize("other", ["scaler = Scaler()\nscaler.fit(3)", "import numpy\nnumpy.fit(1)"])
def test_others_may_have_a_method_of_that_name(other: str) -> None:
    rest = "\n\nclass Scaler:\n    def fit(self, n):\n        return n\n"
    assert "accelerator.backward(loss)" in converted(_static(f"{CALL.format('device')}\n{other}", rest=rest))


@pytest.mark.parametrize("decorator", ["@classmethod", "@staticmethod\n    @torch.no_grad()"])
def test_other_methods_are_not(decorator: str) -> None:
    text = _static(CALL.format("device")).replace("@staticmethod", decorator)
    assert unchanged(text).code == "LOOP-IN-CLASS"


FILE = f"{HEAD}\n\n{TRAIN.format(**{**LEGACY, 'more': '', 'move': ''})}"


def test_in_a_file_of_its_own(folder: Path) -> None:
    body = program("from engine import Training\nfrom model import Net").replace("train(", "Training.fit(")
    write({"train.py": body, "engine.py": FILE, "model.py": MODEL})
    assert "def fit(model, loader, optimizer, accelerator):" in outputs("train.py")["engine.py"]
    write({"other.py": "from engine import Training\n\nprint(Training.fit)\n"})
    assert reason()[0] == "SHARED-FILE"
