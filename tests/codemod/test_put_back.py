"""A copy of the network that a trainer keeps, and puts back in its place when the training is over."""

from __future__ import annotations

import pytest
from scripts import converted, findings, unchanged
from test_trainers import trainer

_KEEP = "best = copy.deepcopy(self.model)"
_KEPT = "best = copy.deepcopy(self.accelerator.unwrap_model(self.model))"
_PREPARED = "self.model, self.optimizer, self.loader = self.accelerator.prepare("


def _text(end: str, **parts: str) -> str:
    return trainer(end=f"{_KEEP}\n{end}", **parts).replace("import torch\n", "import copy\nimport torch\n", 1)


@pytest.mark.parametrize(
    "end",
    [
        "self.model = best",
        "best = None if self.model is None else best\nself.model = best",
        "self.model.load_state_dict(best.state_dict())",
        "with torch.no_grad():\n    self.model = best\n    print(self.model(torch.zeros(1, 8)))",
    ],
)
def test_the_copy_is_bare_and_put_back(end: str) -> None:
    after = converted(_text(end))
    assert _PREPARED in after
    assert _KEPT in after
    assert ("self.model = best" in after) is ("self.model = best" in end)


def test_a_copy_that_is_kept_by_the_loss_of_a_share_is_told() -> None:
    end = "if loss.item() < 1:\n    self.model = best"
    text = _text(end, step="self.optimizer.step()")
    assert "METRIC-TRAIN" in findings(text) or "COLL-RANKFLOW" in findings(text)


def test_what_is_put_back_is_trained_too() -> None:
    text = _text("self.model = best\nself.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)")
    assert unchanged(text).code == "PREP-NO-POINT"


def test_what_a_constructor_reads_was_not_set_by_a_method_that_runs_later() -> None:
    after = converted(_text("self.again()", methods="def again(self):\n    self.model = copy.deepcopy(self.model)"))
    assert _PREPARED in after


def test_a_network_that_takes_the_place_once_training_is_over() -> None:
    after = converted(trainer("Trainer()", last="self.fit()\nself.model = Net()"))
    assert after.index(_PREPARED) < after.index("self.fit()") < after.index("self.model = Net()\n\n")
