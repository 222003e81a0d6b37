"""Samples that a loss has as often as there are samples: their sum is none over the batch."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, findings, script

_OUT = "optimizer.zero_grad()\no = model(x)\nn = o.size(0)\n"
_SUMMED = 'accelerator.backward(loss, reduction="sum")'


def _said(lines: str) -> list[str]:
    return [code for code in findings(script(forward=_OUT + lines)) if code.startswith("LOSS-")]


@pytest.mark.parametrize(
    "lines",
    [
        "a = o.unsqueeze(1).expand(n, n, 3)\nloss = a.pow(2).sum()",
        "a = o.unsqueeze(1).expand((n, n, 3))\nloss = a.pow(2).sum()",
        "a = o[:, None].expand(-1, n, -1)\nloss = a.pow(2).sum()",
        "a = o.unsqueeze(1).repeat(1, n, 1)\nloss = a.pow(2).sum()",
        "a = o.unsqueeze(0).expand(n, n, 3)\nloss = a.pow(2).sum()",
        "a = o.expand(n, n, 3)\nloss = a.pow(2).sum()",
        "a = o.unsqueeze(1) * torch.ones(n, n, 3)\nloss = a.pow(2).sum()",
        "a = o.unsqueeze(1).expand(n, n, 3)\nloss = a.pow(2).sum(1).mean()",
        "a = o.unsqueeze(1).expand(n, n, 3)\nloss = F.mse_loss(a, torch.zeros_like(a), reduction='sum')",
    ],
)
def test_a_sum_of_copies_is_no_sum_over_the_samples(lines: str) -> None:
    assert _said(lines) == ["LOSS-UNKNOWN"]
    assert _SUMMED not in converted(script(forward=_OUT + lines))


@pytest.mark.parametrize(
    "lines",
    [
        "a = o.unsqueeze(1).expand(n, n, 3)\nb = o.unsqueeze(0).expand(n, n, 3)\nloss = (a - b).pow(2).mean()",
        "a = o.unsqueeze(1).expand(n, n, 3)\nb = o.expand(n, n, 3)\nloss = (a - b).pow(2).mean()",
        "a = o.unsqueeze(1).expand(n, n, 3)\nloss = (a - a.transpose(0, 1)).pow(2).mean()",
        "a = o.unsqueeze(1).expand(n, n, 3)\nloss = F.mse_loss(a, o.unsqueeze(0).expand_as(a))",
    ],
)
def test_copies_that_meet_others_are_samples_that_meet(lines: str) -> None:
    assert _said(lines) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "lines",
    [
        "a = o.unsqueeze(1).expand(n, n, 3)\nloss = a.pow(2).mean()",
        "a = o.unsqueeze(1).expand(n, n, 3)\nloss = a.pow(2).sum(-1).mean()",
        "a = o.unsqueeze(1).expand(n, n, 3)\nloss = a.pow(2).mean(1).mean()",
        "a = o[:, None].expand(-1, n, -1)\nloss = F.mse_loss(a, torch.zeros_like(a))",
        "a = o.unsqueeze(1).expand(n, 4, 3)\nloss = a.pow(2).mean()",
    ],
)
def test_a_mean_of_copies_is_one_over_the_samples(lines: str) -> None:
    assert _said(lines) == []


@pytest.mark.parametrize("size", ["4", "y.size(1)"])
def test_copies_of_another_number_are_summed(size: str) -> None:
    lines = f"a = o.unsqueeze(1).expand(n, {size}, 3)\nloss = a.pow(2).sum()"
    assert _SUMMED in converted(script(forward=_OUT + lines))
