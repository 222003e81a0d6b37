"""Losses whose reduction is a setting: what is always set so is known."""

from __future__ import annotations

import pytest
from scripts import added, findings, script

CLASS = """
class Focal(nn.Module):
    def __init__(self, gamma=2.0, {parameter}):
        super().__init__()
        {keep}

    def forward(self, logits, target):
        loss = F.cross_entropy(logits, target, reduction="none")
        if {test}:
            return loss.mean()
        {rest}
"""
RETURN = "return loss.sum()"


def losses(definitions: str, loss: str, before: str = "") -> tuple[list[str], bool]:
    """What is said of a loss, and whether its gradient is summed across processes."""
    text = script(definitions=definitions, before=before, forward=f"optimizer.zero_grad()\nloss = {loss}")
    told = [code for code in findings(text) if code.startswith("LOSS-")]
    return told, 'accelerator.backward(loss, reduction="sum")' in added(text)


def focal(parameter: str, test: str, keep: str, rest: str = RETURN) -> str:
    return CLASS.format(parameter=parameter, test=test, keep=keep, rest=rest)


@pytest.mark.parametrize(
    ("parameter", "test", "mean", "total"),
    [
        ("size_average=True", "self.size_average", "Focal()", "Focal(size_average=False)"),
        ("summed=False", "not self.summed", "Focal(1.0)", "Focal(1.0, True)"),
        ('reduction="mean"', 'self.reduction == "mean"', "Focal()", 'Focal(reduction="sum")'),
        ('reduction="sum"', 'self.reduction != "sum"', 'Focal(reduction="mean")', "Focal(gamma=1.0)"),
        ("reduction=None", "self.reduction is None", "Focal()", 'Focal(reduction="sum")'),
    ],
)
def test_a_setting_that_an_object_keeps(parameter: str, test: str, mean: str, total: str) -> None:
    name = parameter.partition("=")[0]
    for keep in (f"self.{name} = {name}", f"self.gamma, self.{name} = gamma, {name}"):
        for rest in (RETURN, "else:\n            return loss.sum()"):
            definitions = focal(parameter, test, keep, rest)
            assert losses(definitions, "criterion(model(x), y)", f"criterion = {mean}") == ([], False)
            assert losses(definitions, "criterion(model(x), y)", f"criterion = {total}") == ([], True)


@pytest.mark.parametrize(
    ("keep", "before"),
    [
        ("self.mean = mean", "criterion, other = Focal(mean=False), Focal()"),
        ("self.mean = mean", "kind = Focal\ncriterion = kind(mean=False)"),
        ("self.mean = mean", "criterion = {'focal': Focal}['focal'](mean=False)"),
        ("self.mean = mean", "criterion = Focal()\ncriterion.mean = False"),
        ("self.mean = mean", "import os\ncriterion = Focal(mean=bool(os.environ.get('MEAN')))"),
        ("self.mean = True\n        if gamma > 1:\n            self.mean = mean", "criterion = Focal(mean=False)"),
        ("if gamma > 1:\n            self.mean = mean", "criterion = Focal(mean=True)"),
    ],
)
def test_a_setting_that_may_be_another_is_not_settled(keep: str, before: str) -> None:
    definitions = focal("mean=True", "self.mean", keep)
    assert losses(definitions, "criterion(model(x), y)", before) == (["LOSS-UNKNOWN"], False)


FUNCTION = """
def focal(logits, target, reduction="mean"):
    loss = F.cross_entropy(logits, target, reduction="none")
    if reduction == "none":
        return loss
    elif reduction == "mean":
        return loss.mean()
    elif reduction == "sum":
        return loss.sum()
    raise ValueError(reduction)
"""


@pytest.mark.parametrize(
    ("loss", "before", "expected"),
    [
        ("focal(model(x), y)", "", ([], False)),
        ("focal(model(x), y, 'sum')", "", ([], True)),
        ("focal(model(x), y, reduction='none').mean()", "", ([], False)),
        ("focal(model(x), y, 'sum')", "print(focal(torch.rand(1, 3), torch.tensor([0])))", (["LOSS-UNKNOWN"], False)),
        ("focal(model(x), y)", "kinds = [focal]", (["LOSS-UNKNOWN"], False)),
    ],
)
def test_a_setting_that_every_call_gives(loss: str, before: str, expected: tuple[list[str], bool]) -> None:
    assert losses(FUNCTION, loss, before) == expected
