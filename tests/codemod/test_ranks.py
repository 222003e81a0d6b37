"""Rankings of scores: of those of a whole batch, where a network gives one for each sample."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script

LOADERS = "loader = DataLoader(data, batch_size=16, shuffle=True)\ntest_loader = DataLoader(data, batch_size=16)"
EVALUATION = """\
best = []
with torch.no_grad():
    for x, y in test_loader:
        x, y = x.to(device), y.to(device)
        scores = model(x)
        {ranked}
        best.append(y[places])"""


def evaluated(returned: str, ranked: str) -> str:
    """A script whose network returns something, and whose evaluation ranks that."""
    text = script(loader=LOADERS, after=EVALUATION.format(ranked=ranked), forward="loss = model(x).mean()")
    return text.replace("return self.layer(x)", f"return {returned}")


@pytest.mark.parametrize(
    ("returned", "ranked"),
    [
        ("self.layer(x).sum(dim=-1)", "_, places = torch.topk(scores, 3)"),
        ("torch.sum(self.layer(x), 1)", "places = scores.topk(3)[1]"),
        ("self.layer(x).view(-1)", "places = torch.topk(scores, 3, dim=-1).indices"),
        ("torch.sigmoid(self.layer(x).squeeze())", "places = torch.argsort(scores)"),
        ("self.layer(x)[:, 0] + 1", "_, places = scores.sort(descending=True)"),
    ],
)
def test_the_scores_of_all_samples_are_gathered_before_they_are_ranked(returned: str, ranked: str) -> None:
    text = converted(evaluated(returned, ranked))
    gathering = text.index("accelerator.gather_for_metrics((scores, y))")
    assert text.index("scores = model(x)") < gathering < text.index(ranked)


@pytest.mark.parametrize(
    ("returned", "ranked"),
    [
        ("self.layer(x)", "_, places = torch.topk(scores, 1)"),
        ("self.layer(x).sum(dim=-1)", "_, places = torch.topk(scores.unsqueeze(1), 1)"),
        ("self.layer(x).sum(dim=-1, keepdim=True)", "places = scores.argsort()"),
        ("self.layer(x).sum(dim=-1)", "_, places = torch.topk(scores.view(-1, 1), 1, 1)"),
    ],
)
def test_what_is_ranked_for_each_sample_is_gathered_as_it_is(returned: str, ranked: str) -> None:
    text = converted(evaluated(returned, ranked))
    assert "gather_for_metrics((scores, y))" not in text
    assert text.index(ranked) < text.index("gather_for_metrics(")


@pytest.mark.parametrize(
    ("ranked", "codes"),
    [
        ("model(x).sum(1)[x[:, 0].sort()[1]].mean()", []),  # another order of what is dealt
        ("model(x).topk(2)[0].mean()", []),
    ],
)
def test_other_rankings_leave_losses_known(ranked: str, codes: list[str]) -> None:
    assert findings(script(forward=f"loss = {ranked}")) == codes


@pytest.mark.parametrize(
    "loss",
    [
        "score = model(x).mean(1)\nrank = score.argsort().argsort().float()\nloss = ((score - rank) ** 2).mean()",
        "order = torch.argsort(y)\nrank = torch.argsort(order)\n"
        "loss = (F.cross_entropy(model(x), y, reduction='none') * (rank + 1)).mean()",
        "weight = 1 / (y.argsort(0).argsort(0) + 1)\n"
        "loss = (F.cross_entropy(model(x), y, reduction='none') * weight).mean()",
    ],
)
def test_a_rank_among_the_samples_compares_them(loss: str) -> None:
    assert findings(script(forward=f"optimizer.zero_grad()\n{loss}")) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "loss",
    [
        "order = y.argsort()\nback = order.argsort().to(device)\nloss = F.cross_entropy(model(x)[order][back], y)",
        "order = y.argsort()\nback = order.argsort()\n"
        "loss = F.cross_entropy(model(x).index_select(0, order).index_select(0, back), y)",
        "out = model(x)\nloss = (out * out.argsort(1).argsort(1).float()).mean()",  # among the columns
    ],
)
def test_an_order_that_is_undone_does_not(loss: str) -> None:
    assert "LOSS-INBATCH" not in findings(script(forward=f"optimizer.zero_grad()\n{loss}"))


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("torch.cdist(out, out).mean()", "LOSS-INBATCH"),
        ("torch.cdist(out.view(-1, 3, 1), out.view(-1, 3, 1)).mean()", ""),  # for each of the samples
        ("torch.stack([out[y == k].mean(0) for k in range(3)])[0].pow(2).mean()", "LOSS-INBATCH"),
        ("out.mean(0)[0]", ""),
    ],
)
def test_distances_and_means_of_a_batch(extra: str, code: str) -> None:
    loss = f"optimizer.zero_grad()\nout = model(x)\nloss = F.cross_entropy(out, y) + {extra}"
    assert findings(script(forward=loss)) == ([code] if code else [])
