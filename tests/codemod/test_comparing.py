"""Losses that cannot be followed, in which an operation may set the samples of a batch against each other."""

from __future__ import annotations

import pytest
from scripts import convert, findings, script

COMPARE = """\
class Compare(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.ones(3, 3)

    def forward(self, a, b):
        {lines}
        return unread(out)"""


def comparing(lines: str, forward: str = "loss = Compare()(unread(model(x)), unread(x))") -> str:
    definition = COMPARE.format(lines=lines.replace("\n", "\n" + " " * 8))
    slots = {"from_imports": "from other import unread", "definitions": definition}
    return script(**slots, forward=f"optimizer.zero_grad()\n{forward}")


@pytest.mark.parametrize(
    "lines",
    [
        "out = torch.mm(a, b.t())",
        "out = a @ torch.t(b)",
        "out = a.matmul(b.permute(1, 0))",
        "out = torch.cdist(a, b)",
        "out = a[:, None] - b[None]",
        "n = len(a)\na = a.unsqueeze(1).expand(n, n, 3)\nb = b.unsqueeze(0).expand(n, n, 3)\nout = (a - b).pow(2)",
        "out = F.cosine_similarity(a.unsqueeze(1), b.unsqueeze(0), dim=2)",
        "kept = torch.empty(2, len(b), 3)\nfor i in range(2):\n    kept[i] = b\n"
        "out = torch.mm(a, torch.transpose(kept[0], 0, 1))",
    ],
)
def test_rows_that_meet_all_others_are_told_of(lines: str) -> None:
    text = comparing(lines)
    assert findings(text) == ["LOSS-INBATCH"]
    plan = convert(text).plan
    assert plan is not None and "it cannot be told how `loss` is computed" in plan.findings[0].message
    half = comparing(lines, "half, other = Compare()(unread(model(x)), unread(x)), 2\nloss = half * other")
    assert findings(half) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "lines",
    [
        "out = a @ self.weight.t()",
        "rows = self.weight\nout = torch.mm(a, rows.t()) + b",
        "out = torch.bmm(a[None], b[None].transpose(1, 2))",
        "out = a.unsqueeze(1) * b.unsqueeze(2)",
        "at = torch.arange(a.size(1))\nout = a.sum() * (at[:, None] - at[None]).abs().sum()",
        "out = a * b",
    ],
)
def test_others_are_not(lines: str) -> None:
    assert findings(comparing(lines)) == ["LOSS-UNKNOWN"]


def test_a_loss_that_is_followed_is_what_it_is() -> None:
    loss = "loss = F.mse_loss(model(x), torch.mm(model(x), torch.ones(3, 3).t()))"
    assert findings(comparing("out = a @ b.t()", loss)) == []


PROTOTYPES = """\
def prototypical(z, y, means):
    {lines}
    return F.cross_entropy(-torch.cdist(z, means), y)"""


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            "rows = map(lambda c: (y == c).nonzero(), y.unique())\nmeans = torch.stack([z[r].mean(0) for r in rows])",
            True,
        ),
        ("means = unread(z, y)", True),
        ("pass", False),  # they are the same for all samples
        ("means = means * 2", False),
    ],
)
def test_a_mean_of_what_is_not_known_may_compare_them(lines: str, told: bool) -> None:
    """That of `cross_entropy` is one over the samples, as far as these are apart before."""
    definition = PROTOTYPES.format(lines=lines.replace("\n", "\n    "))
    loss = "optimizer.zero_grad()\nloss = prototypical(model(x), y, centers)"
    slots = {"from_imports": "from other import unread", "definitions": definition, "forward": loss}
    found = findings(script(setup="centers = torch.ones(3, 3)", **slots))
    assert found == ["LOSS-INBATCH"] * told


CENTRED = "class Centred(nn.Module):\n    def forward(self, x):\n        return x - x.mean(0)"


@pytest.mark.parametrize(
    ("model", "codes"),
    [
        ("model = nn.Sequential(Net(), Centred())", ["LOSS-INBATCH"]),
        ("model = Net()\nfor i in range(2):\n    model = nn.Sequential(model, Centred())", ["LOSS-INBATCH"]),
        ("model = Net()\nfor i in range(2):\n    model = nn.Sequential(model, nn.Linear(3, 3))", []),
    ],
)
def test_a_network_of_layers_one_of_which_compares_samples(model: str, codes: list[str]) -> None:
    """A network may be made of what its variable was before, too."""
    assert findings(script(definitions=CENTRED, model=f"{model}\nmodel = model.to(device)")) == codes
