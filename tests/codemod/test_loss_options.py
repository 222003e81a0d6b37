"""What losses are told otherwise than where they are called or made: by dicts, by partial, by setting attributes."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import convert, converted, script

ZERO = "optimizer.zero_grad()\n"


def told(before: str, loss: str) -> tuple[list[str], bool]:
    """The codes of what is said of a loss, and whether its gradients are summed."""
    text = script(imports="from functools import partial", before=before, forward=f"{ZERO}loss = {loss}")
    plan = convert(text).plan
    assert plan is not None
    return [f.code for f in plan.findings if f.code.startswith("LOSS-")], 'reduction="sum")' in converted(text)


@pytest.mark.parametrize(
    ("before", "loss"),
    [
        ("criterion = partial(F.cross_entropy, reduction='sum')", "criterion(model(x), y)"),
        ("criterion = nn.CrossEntropyLoss()\ncriterion.reduction = 'sum'", "criterion(model(x), y)"),
        ("criterion = nn.CrossEntropyLoss(reduction='mean')\ncriterion.reduction = 'sum'", "criterion(model(x), y)"),
        ("options = {'reduction': 'sum'}\ncriterion = nn.CrossEntropyLoss(**options)", "criterion(model(x), y)"),
        ("options = dict(reduction='sum')", "F.cross_entropy(model(x), y, **options)"),
        ("", "F.cross_entropy(model(x), y, **{'reduction': 'sum'})"),
    ],
)
def test_a_sum_that_is_told_elsewhere_is_one(before: str, loss: str) -> None:
    found, summed = told(before, loss)
    assert summed and not found


@pytest.mark.parametrize(
    ("before", "loss"),
    [
        ("criterion = partial(F.cross_entropy, label_smoothing=0.1)", "criterion(model(x), y)"),
        ("criterion = nn.CrossEntropyLoss(reduction='sum')\ncriterion.reduction = 'mean'", "criterion(model(x), y)"),
        ("options = {'label_smoothing': 0.1}\ncriterion = nn.CrossEntropyLoss(**options)", "criterion(model(x), y)"),
        ("other = nn.MSELoss()\nother.reduction = 'sum'", "F.cross_entropy(model(x), y)"),
    ],
)
def test_a_mean_that_is_told_elsewhere_is_one(before: str, loss: str) -> None:
    assert told(before, loss) == ([], False)


@pytest.mark.parametrize(
    ("before", "loss", "code"),
    [
        ("criterion = nn.CrossEntropyLoss()\ncriterion.weight = torch.ones(3)", "criterion(model(x), y)", "MASKMEAN"),
        ("criterion = nn.CrossEntropyLoss()\ncriterion.ignore_index = 1", "criterion(model(x), y)", "MASKMEAN"),
        ("criterion = nn.CrossEntropyLoss()\ncriterion.reduction = mode", "criterion(model(x), y)", "UNKNOWN"),
        ("criterion = nn.CrossEntropyLoss(**options)", "criterion(model(x), y)", "UNKNOWN"),
        ("options = {}\noptions['reduction'] = 'sum'", "F.cross_entropy(model(x), y, **options)", "UNKNOWN"),
        (
            "criterion = partial(F.mse_loss, reduction='sum')",
            "F.cross_entropy(model(x), y) + criterion(model(x), x)",
            "SUM",
        ),
    ],
)
def test_what_cannot_be_averaged_is_reported(before: str, loss: str, code: str) -> None:
    found, summed = told(f"mode = input()\n{before}" if "mode" in before else before, loss)
    assert not summed and found == [f"LOSS-{code}"]
