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
PIXELS = "F.cross_entropy(out.unsqueeze(2).expand(-1, -1, 4), y.unsqueeze(1).expand(-1, 4), reduction='none')"


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
        (f"{PIXELS}.mean(1)", "each.topk(4)[0].mean()"),
        (f"{PIXELS}.flatten(1).mean(1)", "each[torch.argsort(each)[: int(0.7 * len(each))]].mean()"),
        (f"{PIXELS}.flatten(1).mean(1)", "torch.sort(each)[0][: int(0.7 * len(each))].mean()"),
        (f"{PIXELS}.view(len(y), -1).mean(1)", "each[each <= each.kthvalue(4)[0]].mean()"),
    ],
)
def test_the_hardest_by_the_mean_of_a_sample_are_reported(each: str, loss: str) -> None:
    assert findings(script(forward=SQUARES.format(each, loss))) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    ("each", "loss"),
    [
        (f"{SQUARED}.mean(1)", "each.mean()"),
        (f"{PIXELS}.flatten(1).mean(1)", "each.mean()"),
        (f"{PIXELS}.flatten(1)", "each.topk(2, dim=1)[0].mean()"),  # the hardest pixels of each sample
        (f"{PIXELS}.flatten(1)", "each.sort(dim=1)[0][:, :2].mean()"),
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


NUMPY = "import numpy as np"
PROBABLE = "p = F.softmax(model(x), 1).gather(1, y[:, None]).squeeze(1)\n"
MOST = "values, places = p.view(-1).sort()\n"


@pytest.mark.parametrize(
    "loss",
    [
        "each[each > np.percentile(each.detach().cpu().numpy(), 50)].mean()",
        "each[each > float(np.quantile(each.data.cpu().numpy(), 0.7))].mean()",
        "each[each >= np.sort(each.detach().cpu().numpy())[4]].mean()",
        "each[np.argsort(each.detach().cpu().numpy())[:8]].mean()",
        "F.cross_entropy(model(x)[np.argsort(each.data.cpu())[:8]], y[np.argsort(each.data.cpu())[:8]])",
        "each[torch.argsort(each)[:8]].mean()",
        "sum(sorted(each)[-4:]) / 4",
        "each[each > each.quantile(0.7).item()].mean()",
        "each[each > max(each.median().item(), 0.5)].mean()",
        "F.mse_loss(model(x), x[:, :3], reduction='none').view(-1).sort()[0][:8].mean()",
    ],
)
def test_thresholds_of_a_share_are_reported(loss: str) -> None:
    assert findings(script(imports=NUMPY, forward=f"{EACH}loss = {loss}")) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "threshold",
    ["values[min(4, values.numel() - 1)].item()", "max(values[4].item(), 0.7)", "p.flatten().sort()[0][4]"],
)
def test_a_threshold_at_some_rank_is_reported(threshold: str) -> None:
    forward = f"{EACH}{PROBABLE}{MOST}loss = each[p < {threshold}].mean()"
    assert findings(script(forward=forward)) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("each[each > 0.5].mean()", ["LOSS-MASKMEAN"]),
        ("each[each > np.percentile([0.1, 0.2], 50)].mean()", ["LOSS-MASKMEAN"]),
        ("each[torch.argsort(y)].mean()", []),  # all of them, in another order
        ("each[np.argsort(y.cpu().numpy())].mean()", []),
        ("each.mean() * np.percentile([1.0, 2.0], 50)", []),
        ("F.mse_loss(model(x).sort(dim=1)[0][:, 0], x[:, 0])", []),
        ("F.mse_loss(model(x), x[:, :3], reduction='none').sort(dim=1)[0][:, :2].mean()", []),
    ],
)
def test_other_thresholds_and_orders_are_not(loss: str, told: list[str]) -> None:
    assert findings(script(imports=NUMPY, forward=f"{EACH}loss = {loss}")) == told
