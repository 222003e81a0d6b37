"""Functions of torch in which samples may meet and that are not followed, and others that are."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, findings, script

_OUT = "optimizer.zero_grad()\no = model(x)\nn = o.size(0)\neach = F.cross_entropy(o, y, reduction='none')\n"
_IMPORTS = "import statistics\nimport numpy as np"


def _said(lines: str) -> list[str]:
    found = findings(script(imports=_IMPORTS, forward=_OUT + lines))
    return [code for code in found if code.startswith("LOSS-")]


@pytest.mark.parametrize(
    "lines",
    [
        "loss = torch.linalg.svdvals(o).mean()",
        "loss = torch.svd(o)[1].mean()",
        "u, s, v = torch.linalg.svd(o, full_matrices=False)\nloss = s.mean()",
        "loss = torch.linalg.qr(o)[1].abs().mean()",
        "loss = torch.linalg.lstsq(o, torch.ones(n, 1)).solution.pow(2).mean()",
        "loss = F.cross_entropy(F.layer_norm(o.T, (n,)).T, y)",
        "loss = F.conv1d(o.T[None], torch.ones(3, 3, 3)).pow(2).mean()",
        "loss = F.avg_pool1d(o.T, 2).pow(2).mean()",
        "loss = F.interpolate(o.T[None], size=4)[0].pow(2).mean()",
        "loss = each.view(-1, 2).max(1)[0].mean()",
        "loss = o.reshape(2, -1, 3).mean(0).pow(2).mean()",
        "loss = o.view((2, -1, 3)).mean(0).pow(2).mean()",
        "loss = F.cross_entropy(o - torch.stack(list(o)).mean(0), y)",
    ],
)
def test_what_is_not_followed_is_no_mean_over_the_samples(lines: str) -> None:
    assert _said(lines) == ["LOSS-UNKNOWN"]


@pytest.mark.parametrize(
    "lines",
    [
        "loss = o.unfold(0, 2, 1).std(-1).mean()",
        "loss = torch.fft.fft(o, dim=0).abs().mean()",
        "loss = torch.cat([o, o.mean(0, keepdim=True)]).pow(2).mean()",
        "loss = torch.cat([o.mean(0, keepdim=True).expand(n, 3), o], 1).pow(2).mean()",
        "loss = F.cross_entropy(o - sum(o) / n, y)",
        "loss = F.cross_entropy(o - torch.from_numpy(o.detach().numpy().mean(0)), y)",
        "loss = (each * (each > statistics.median(each.tolist()))).mean()",
        "loss = (nn.Softmax(dim=-1)(each) * each).sum()",
    ],
)
def test_samples_that_meet_are_told_of(lines: str) -> None:
    assert _said(lines) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "lines",
    [
        "loss = each.dot(each) / n",
        "loss = sum(each) / n",
        "loss = (nn.Softmax(dim=-1)(o) * o).sum(1).mean()",
        "loss = o.unfold(1, 2, 1).std(-1).mean()",
        "loss = o.view(-1, 3).pow(2).mean()",
        "loss = o.view(n, 1, 3).pow(2).mean()",
        "loss = o.reshape(-1).pow(2).mean()",
        "loss = torch.cat([o, o]).reshape(2, -1, 3).mean(0).pow(2).mean()",
        "loss = o.view(n, -1, 3).mean(1).pow(2).mean()",
        "loss = F.interpolate(o[:, None], size=4).pow(2).mean()",
        "loss = F.interpolate(o[:, None], size=y.shape[1:] + (4,)).pow(2).mean()",
        "loss = torch.cat([o, torch.zeros(n, 1)], 1).pow(2).mean()",
        "loss = o.T[0].pow(2).mean()",
        "places = torch.cdist(o, model.layer.weight.T[None].repeat((n, 1, 1))).argmin(-1)\n"
        "loss = (torch.ones(8)[places] * o.mean(1)).mean()",
    ],
)
def test_what_is_done_with_each_sample_is_not(lines: str) -> None:
    assert _said(lines) == []


def test_weights_among_the_samples_are_no_sum_over_them() -> None:
    text = script(forward=_OUT + "loss = (nn.Softmax(dim=-1)(each) * each).sum()")
    assert 'reduction="sum"' not in converted(text)
