"""Functions of torch that go along the last dimensions: each sample has its own result, or all of them meet."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script

_OUT = """\
optimizer.zero_grad()
o = model(x)
n = o.size(0)
each = o.pow(2).sum(1)
m = o.view(n, 1, 3).transpose(1, 2) @ o.view(n, 1, 3) + torch.eye(3)
image = o.view(n, 1, 3, 1)
"""


def _said(lines: str) -> list[str]:
    return [code for code in findings(script(forward=_OUT + lines)) if code.startswith("LOSS-")]


@pytest.mark.parametrize(
    "lines",
    [
        "loss = torch.linalg.inv(m).pow(2).mean()",
        "loss = torch.inverse(m).pow(2).mean()",
        "loss = torch.linalg.det(m).mean()",
        "loss = torch.linalg.slogdet(m)[1].mean()",
        "sign, logabs = torch.linalg.slogdet(m)\nloss = logabs.mean()",
        "values, vectors = torch.linalg.eigh(m)\nloss = values.mean()",
        "loss = torch.linalg.svdvals(o.view(n, 3, 1)).sum(-1).mean()",
        "u, s, v = torch.linalg.svd(o.view(n, 3, 1))\nloss = s.mean()",
        "loss = torch.linalg.matrix_norm(o.view(n, 3, 1)).mean()",
        "loss = torch.matrix_exp(m).mean()",
        "loss = torch.fft.fft(o).abs().mean()",
        "loss = torch.fft.rfft2(image).abs().mean()",
        "loss = torch.fft.fft2(image, dim=(-2, -1)).abs().mean()",
        "loss = torch.cross(o, o.flip(1), dim=-1).sum(-1).mean()",
        "loss = m.diagonal(dim1=-2, dim2=-1).sum(-1).mean()",
        "loss = torch.trapezoid(o, dim=1).mean()",
        "loss = torch.diag_embed(o).mean()",
        "loss = torch.logaddexp(o, torch.zeros(3)).mean()",
        "loss = torch.special.entr(o.sigmoid()).sum(1).mean()",
        "loss = F.hardshrink(o).pow(2).mean()",
    ],
)
def test_what_each_sample_has_for_itself_is_a_mean_over_them(lines: str) -> None:
    assert _said(lines) == []


@pytest.mark.parametrize(
    "lines",
    [
        "loss = torch.fft.fft(o, dim=0).abs().mean()",
        "loss = torch.fft.fft(each).abs().mean()",
        "loss = torch.trapezoid(o, dim=0).mean()",
        "loss = torch.cross(o, o.flip(1), dim=0).mean()",
        "loss = torch.maximum(o, o.mean(0)).mean()",
        "loss = torch.logaddexp(o, o.mean(0)).mean()",
        "loss = torch.fmod(o, o.mean(0)).mean()",
        "loss = torch.atan2(o, o.mean(0)).mean()",
        "loss = torch.hypot(each, each.mean()).mean()",
    ],
)
def test_samples_that_meet_are_told_of(lines: str) -> None:
    assert _said(lines) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "lines",
    [
        "loss = torch.linalg.svdvals(o).mean()",
        "loss = torch.linalg.inv(o).mean()",
        "loss = torch.fft.fftn(o).abs().mean()",
        "loss = torch.cross(o, o.flip(1)).mean()",
        "loss = torch.diagonal(o).mean()",
        "loss = torch.linalg.matrix_norm(m, dim=(0, 1)).mean()",
    ],
)
def test_what_cannot_be_told_is_no_mean(lines: str) -> None:
    assert _said(lines) == ["LOSS-UNKNOWN"]


@pytest.mark.parametrize(
    "lines",
    [
        "loss = torch.stack([one.pow(2).sum() for one in list(o)]).mean()",
        "loss = sum(list(each)) / n",
        "loss = 0\nfor one in list(o):\n    loss = loss + one.pow(2).sum()\nloss = loss / n",
        "loss = model(x.repeat_interleave(4, 0)).view(n, 12).mean(1).mean()",
        "loss = model(x.repeat_interleave(4, 0)).view(x.size(0), 4, 3).mean(1).pow(2).mean()",
    ],
)
def test_lists_of_the_samples_and_what_is_put_back_to_them_are_followed(lines: str) -> None:
    assert _said(lines) == []


def test_sums_of_such_lists_are_sums() -> None:
    assert _said("loss = sum(list(o)).pow(2).mean()") == ["LOSS-INBATCH"]


def test_rows_of_several_samples_are_no_mean() -> None:
    assert _said("loss = F.cross_entropy(o, y, reduction='none').view(-1, 2).max(1)[0].mean()") == ["LOSS-UNKNOWN"]


@pytest.mark.parametrize(
    "lines",
    [
        "loss = o.t().softmax(-1).pow(2).mean()",
        "loss = torch.softmax(o.t(), -1).pow(2).mean()",
        "loss = o.t().std(-1).mean()",
        "loss = o.t().mean(-1).pow(2).sum()",
        "loss = o.t().cumsum(-1).pow(2).mean()",
    ],
)
def test_the_last_dimension_may_be_that_of_the_samples(lines: str) -> None:
    assert _said(lines) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "lines",
    [
        "steps = o.view(n, 1, 3).transpose(0, 1)\nloss = F.log_softmax(steps, dim=-1).pow(2).mean()",
        "steps = o.view(n, 1, 3).transpose(0, 1)\nloss = steps.softmax(-1).pow(2).mean()",
        "steps = o.view(n, 1, 3).permute(1, 0, 2)\nloss = F.normalize(steps, dim=2).pow(2).mean()",
        "steps = nn.Identity()(o[:, None]).transpose(0, 1)\nloss = F.log_softmax(steps, dim=-1).pow(2).mean()",
        "loss = o.t().softmax(0).pow(2).mean()",
    ],
)
def test_in_sequences_it_is_another_one(lines: str) -> None:
    assert _said(lines) == []
