"""Losses of the hardest samples: which these are, a process can only say of its own share."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script

EACH = "optimizer.zero_grad()\neach = F.cross_entropy(model(x), y, reduction='none')\n"
OHEM = """\
class Ohem(nn.Module):
    def __init__(self, keep=0.7):
        super().__init__()
        self.keep = keep
        self.each = nn.CrossEntropyLoss(reduction="none")

    def forward(self, out, y):
        loss = self.each(out, y){flat}
        hard, _ = {hard}
        return hard.mean()
"""


@pytest.mark.parametrize(
    "loss",
    [
        "each.topk(4)[0].mean()",
        "each.topk(int(0.5 * len(each))).values.mean()",
        "torch.topk(each, 4, sorted=False)[0].mean()",
        "each.view(-1).topk(each.numel() // 2)[0].mean()",
        "torch.sort(each, descending=True)[0][:8].mean()",
        "each[each.topk(4)[1]].mean()",
        "each[each.sort(descending=True)[1][:8]].mean()",
        "-each.kthvalue(3)[0]",
        "(each * 2).detach().topk(3)[0].sum() * each.mean()",
        "model(x).flatten().topk(5)[0].mean()",
    ],
)
def test_the_hardest_of_a_share_are_reported(loss: str) -> None:
    assert findings(script(forward=f"{EACH}loss = {loss}")) == ["LOSS-INBATCH"]


SQUARES = "optimizer.zero_grad()\nout = model(x)\nmeant = F.one_hot(y, 3).float()\neach = {}\nloss = {}"
SQUARED = "F.mse_loss(out, meant, reduction='none')"


@pytest.mark.parametrize(
    ("each", "loss"),
    [
        (f"{SQUARED}.mean(1)", "each.topk(4)[0].mean()"),
        (f"{SQUARED}.mean(dim=-1)", "torch.topk(each, len(each) // 2)[0].mean()"),
        (f"{SQUARED}.view(-1, 3, 1).sum(2).sum(1)", "torch.sort(each)[0][:4].mean()"),
        (f"torch.mean({SQUARED}, dim=(1,))", "each.topk(4)[0].mean()"),
        ("((out - meant) ** 2).mean(1)", "each.topk(4)[0].mean()"),
        ("(out - meant).abs().sum(1)", "each.topk(4)[0].mean()"),
        ("nn.L1Loss(reduction='none')(out, meant).mean(1)", "each.topk(4)[0].mean()"),
    ],
)
def test_the_hardest_by_the_mean_of_a_sample_are_reported(each: str, loss: str) -> None:
    assert findings(script(forward=SQUARES.format(each, loss))) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    ("each", "loss"),
    [
        (f"{SQUARED}.mean(1)", "each.mean()"),
        (SQUARED, "each.topk(2)[0].mean()"),  # the hardest parts of each sample
        (f"{SQUARED}.view(-1, 3, 1).mean(2)", "each.topk(2)[0].mean()"),
        (f"{SQUARED}.mean(1, keepdim=True)", "each.topk(1)[0].mean()"),
        ("out.mean(1)", "F.cross_entropy(out, y)"),
    ],
)
def test_the_hardest_parts_of_each_sample_are_not(each: str, loss: str) -> None:
    assert findings(script(forward=SQUARES.format(each, loss))) == []


@pytest.mark.parametrize(
    "loss",
    [
        "each.mean()",
        "model(x).topk(2)[0].mean()",
        "model(x).topk(2, dim=1).values.mean()",
        "F.cross_entropy(model(x).sort(dim=1)[0], y)",
        "F.cross_entropy(model(x).view(-1, 3).topk(3)[0], y)",
        "F.cross_entropy(model(x)[y.view(-1).sort()[1]], y[y.view(-1).sort()[1]])",
        "(each * model(x).detach().topk(1)[0].squeeze(1)).mean()",
    ],
)
def test_the_greatest_of_each_sample_are_not(loss: str) -> None:
    assert findings(script(forward=f"{EACH}loss = {loss}")) == []


@pytest.mark.parametrize(
    ("flat", "hard"),
    [
        ("", "loss.topk(4)"),
        ("", "torch.topk(loss, int(self.keep * loss.size(0)))"),
        (".view(-1)", "loss.topk(k=max(1, int(self.keep * loss.numel())))"),
        ("", "loss.sort(descending=True)"),
    ],
)
def test_in_a_loss_of_the_script(flat: str, hard: str) -> None:
    slots = {"definitions": OHEM.format(flat=flat, hard=hard), "before": "criterion = Ohem()"}
    forward = "optimizer.zero_grad()\nloss = criterion(model(x), y)"
    assert findings(script(forward=forward, **slots)) == ["LOSS-INBATCH"]


def test_the_whole_loss_in_a_loss_of_the_script() -> None:
    slots = {"definitions": OHEM.format(flat="", hard="loss, 1"), "before": "criterion = Ohem()"}
    assert findings(script(forward="optimizer.zero_grad()\nloss = criterion(model(x), y)", **slots)) == []


def test_the_hardest_that_are_only_shown() -> None:
    assert findings(script(forward=f"{EACH}loss = each.mean()", batch_end="hardest = each.topk(1)[1]")) == []
