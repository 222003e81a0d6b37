"""Losses of samples that are put into order, and losses that a lambda computes."""

from __future__ import annotations

import pytest
from scripts import convert, script

ORDERS = [
    "order = torch.argsort(y, descending=True)",
    "order = y.sort(descending=True)[1]",
    "_, order = torch.sort(y)",
    "order = y.sort().indices.to(device)",
]
RISKS = "loss = -(h - torch.log(torch.cumsum(torch.exp(h), dim=0))).mean()"


def said(forward: str, **slots: str) -> list[tuple[str, str]]:
    """The findings about the loss of a script, and how grave they are."""
    result = convert(script(forward=f"optimizer.zero_grad()\n{forward}", **slots))
    assert result.plan is not None and "accelerator.backward(loss" in result.diff
    found = [(f.code, f.severity.value) for f in result.plan.findings if f.code.startswith("LOSS-")]
    return [*found, *([("sum", "")] if 'reduction="sum"' in result.diff else [])]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("taken", ["p[order]", "torch.index_select(p, 0, order)", "p.index_select(0, order)"])
def test_sums_over_who_comes_before_compare_samples(order: str, taken: str) -> None:
    assert said(f"p = model(x)[:, 0]\n{order}\nh = {taken}\n{RISKS}") == [("LOSS-INBATCH", "warning")]


@pytest.mark.parametrize("order", ORDERS)
def test_neighbours_in_an_order_are_compared(order: str) -> None:
    assert said(f"p = model(x)[:, 0]\n{order}\ns = p[order]\nloss = F.softplus(s[1:] - s[:-1]).mean()") == [
        ("LOSS-INBATCH", "warning")
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_another_order_alone_compares_nothing(order: str) -> None:
    assert said(f"{order}\nloss = F.cross_entropy(model(x[order]), y[order])") == []
    back = "back = torch.argsort(order)\nloss = F.cross_entropy(model(x[order])[back], y)"
    assert said(f"{order}\n{back}") == []
    features = "p = model(x)\nplaces = torch.argsort(p, dim=1)\nloss = p.gather(1, places).cumsum(1).mean()"
    assert said(features) == []


SORTED = "lengths, order = x[:, 0].sort(0, descending=True)\nloss = ((model({taken}) - {lengths}) ** 2).mean()"


@pytest.mark.parametrize("taken", ["x.index_select(0, order)", "torch.index_select(x, 0, order)"])
def test_what_is_sorted_beside_whole_samples_compares_nothing(taken: str) -> None:
    """`index_select` takes places of one dimension alone: it is one number for each sample that was sorted."""
    assert said(SORTED.format(taken=taken, lengths="lengths[:, None]")) == []


def test_features_that_are_sorted_among_the_samples_are_compared() -> None:
    assert [code for code, _ in said(SORTED.format(taken="x", lengths="lengths[:, None]"))] == ["LOSS-INBATCH"]
    assert [code for code, _ in said("p, order = model(x).sort(0)\nloss = (p**2).mean() + p[0].mean()")] == [
        "LOSS-INBATCH"
    ]


@pytest.mark.parametrize(
    ("made", "loss", "found"),
    [
        ("f = lambda a, b: ((a - b) ** 2).mean()", "f(model(x), x[:, :3])", []),
        ("f = lambda a, b: ((a - b) ** 2).sum()", "f(model(x), x[:, :3])", [("sum", "")]),
        ("f = lambda a, b: (a @ b.t()).exp().mean()", "f(model(x), model(x))", [("LOSS-INBATCH", "error")]),
        ("f = lambda a: f(a)", "f(model(x))", [("LOSS-UNKNOWN", "note")]),
        ("f = lambda a, p=2: a.pow(p).sum()", "f(model(x))", [("LOSS-UNKNOWN", "warning")]),
        ("f = lambda a: a.sum()\nf = other(f)", "f(model(x))", [("LOSS-UNKNOWN", "warning")]),
    ],
)
def test_what_a_lambda_computes(made: str, loss: str, found: list[tuple[str, str]]) -> None:
    assert said(f"loss = {loss}", before=made) == found


def test_a_lambda_knows_no_variables_of_who_calls_it() -> None:
    shared = "w = torch.ones(3)\nf = lambda a, b: F.cross_entropy(a * w, b)"
    inner = (
        "def measured(x, y):\n    out = model(x)\n    w = out - out.mean(0)\n    print(w.std())\n    return f(out, y)"
    )
    assert said("loss = measured(x, y)", definitions=inner, before=shared) == []
    centred = "def measured(x, y):\n    out = model(x)\n    f = lambda a, b: F.cross_entropy(a * w, b)\n"
    centred += "    w = out @ out.t()\n    return f(out, y)"
    assert said("loss = measured(x, y)", definitions=centred) == [("LOSS-INBATCH", "error")]
