"""PLACES: rows that training takes by their place in the batch."""

from __future__ import annotations

import pytest
from scripts import findings, script


def trained(loss: str) -> str:
    """A script that trains by a loss."""
    forward = f"optimizer.zero_grad()\nout = model(x)\nloss = {loss}"
    return script(setup="labelled = 4\ncriterion = nn.CrossEntropyLoss()", forward=forward)


@pytest.mark.parametrize(
    "loss",
    [
        "F.cross_entropy(out[:labelled], y[:labelled])",
        "criterion(out[:4], y[:4]) + out.mean()",
        "F.mse_loss(out[4:8], out[8:12])",
        "F.cross_entropy(model(x[labelled:]), y[labelled:])",
    ],
)
def test_other_rows_are_in_these_places(loss: str) -> None:
    assert "BATCH-PLACES" in findings(trained(loss))
    assert "BATCH-PLACES" not in findings(trained(loss), batch="per-process")


@pytest.mark.parametrize(
    "loss",
    [
        "F.cross_entropy(out, y)",
        "F.cross_entropy(out[:], y[:])",
        "F.cross_entropy(out[:, :2], y % 2)",
        "F.cross_entropy(out[: x.size(0)], y)",  # rows of the share
        "F.mse_loss(out[1:], out[:-1].detach())",  # the next of a sequence
        "F.cross_entropy(out[y > 0], y[y > 0])",
    ],
)
def test_rows_by_what_they_are(loss: str) -> None:
    assert "BATCH-PLACES" not in findings(trained(loss))


def test_rows_that_are_only_looked_at() -> None:
    looked = "with torch.no_grad():\n    print(model(x[:4]).argmax(1), F.interpolate(x[:4, None], 4).shape)"
    assert "BATCH-PLACES" not in findings(script(batch_end=looked))
