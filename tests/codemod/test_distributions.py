"""Losses that are probabilities of torch's distributions: computed for each sample."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script

HEAD = "from torch.distributions import Categorical, Normal"
ZERO = "optimizer.zero_grad()\nout = model(x)\n"


def of(loss: str) -> dict[str, str]:
    return {"from_imports": HEAD, "forward": f"{ZERO}{loss}"}


@pytest.mark.parametrize(
    "loss",
    [
        "loss = -Normal(out, 1.0).log_prob(y.view(-1, 1)).mean()",
        "p = Categorical(logits=out)\nloss = -p.log_prob(y).mean()",
        "p = Categorical(logits=out)\nloss = -torch.mean(p.log_prob(y))",
        "p = Normal(out, 1.0)\nloss = -p.log_prob(F.one_hot(y, 3).float()).sum(1).mean()",
        "p = Normal(0.0, 1.0)\nloss = -p.log_prob(out).mean()",
    ],
)
def test_a_mean_over_samples(loss: str) -> None:
    text = script(**of(loss))
    assert converted(text) == lifted(**of(loss))
    assert findings(text) == []


def test_a_sum_over_samples() -> None:
    loss = "p = Categorical(logits=out)\nloss = -p.log_prob(y).sum()"
    after = lifted(**of(loss), backward='accelerator.backward(loss, reduction="sum")')
    assert converted(script(**of(loss))) == after
    assert findings(script(**of(loss))) == []


@pytest.mark.parametrize(
    "loss",
    [
        "known = y != 0\np = Categorical(logits=out[known])\nloss = -p.log_prob(y[known]).mean()",
        "known = y != 0\nloss = -torch.mean(Categorical(logits=out[known]).log_prob(y[known]))",
        "y = helpers.change(y)\nknown = y != 0\np = Normal(out[known], 1.0)\nloss = -p.log_prob(y[known]).mean()",
    ],
)
def test_a_mean_over_what_is_picked(loss: str) -> None:
    text = script(**of(loss) | {"from_imports": f"import helpers\n{HEAD}"})
    assert findings(text) == ["LOSS-MASKMEAN"]


def test_samples_that_are_set_against_their_mean() -> None:
    loss = "p = Normal(out.mean(0), 1.0)\nloss = -p.log_prob(out).mean()"
    assert "LOSS-INBATCH" in findings(script(**of(loss)))


@pytest.mark.parametrize(
    ("advantage", "told"),
    [("reward - reward.mean()", True), ("(reward - reward.mean()) / reward.std()", True), ("reward - 0.5", False)],
)
def test_samples_that_are_drawn_are_rows(advantage: str, told: bool) -> None:
    drawn = "p = Categorical(logits=out)\nwhat = p.sample()\nreward = (what == y).float()\n"
    loss = f"{drawn}loss = -(p.log_prob(what) * ({advantage})).mean()"
    assert ("LOSS-INBATCH" in findings(script(**of(loss)))) is told


def test_what_is_no_distribution_of_torch_is_not_followed() -> None:
    loss = "p = helpers.Normal(out, 1.0)\nloss = -p.log_prob(y).sum()"
    assert findings(script(**of(loss) | {"from_imports": "import helpers"})) == ["LOSS-UNKNOWN"]
