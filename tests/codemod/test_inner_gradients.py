"""Gradients that a loss is computed from: those of the parameters are of a share, those of samples are their own."""

from __future__ import annotations

import pytest
from scripts import findings, script

WEIGHT = "model.layer.weight"
INNER = "inner = F.cross_entropy(model(x), y)\n"
ALL = "list(model.parameters())"


@pytest.mark.parametrize(
    "forward",
    [
        f"g = torch.autograd.grad({{inner}}, {WEIGHT}, create_graph=True)[0]\nw = {WEIGHT} - 0.1 * g\nout = x @ w.t()",
        f"(g,) = torch.autograd.grad({{inner}}, {WEIGHT}, create_graph=True)\nw = {WEIGHT} - 0.1 * g\n"
        "out = F.linear(x, w)",
        f"grads = torch.autograd.grad({{inner}}, {ALL}, create_graph=True)\n"
        f"w, b = [p - 0.1 * g for p, g in zip({ALL}, grads)]\nout = F.linear(x, w, b)",
        "grads = torch.autograd.grad({inner}, model.parameters(), create_graph=True)\n"
        "fast = {{n: p - 0.1 * g for (n, p), g in zip(model.named_parameters(), grads)}}\n"
        "out = torch.func.functional_call(model, fast, (x,))",
    ],
)
@pytest.mark.parametrize("inner", ["F.cross_entropy(model(x), y)", "model(x).pow(2).mean()"])
def test_a_step_within_a_step_is_that_of_a_share(forward: str, inner: str) -> None:
    text = script(forward=f"optimizer.zero_grad()\n{forward.format(inner=inner)}\nloss = F.cross_entropy(out, y)")
    assert "LOSS-INBATCH" in findings(text)


def test_a_penalty_on_the_gradients_of_parameters() -> None:
    grads = f"{INNER}grads = torch.autograd.grad(inner, {ALL}, create_graph=True)"
    assert findings(script(forward=f"{grads}\nloss = inner + grads[0].norm()")) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "forward",
    [
        "x.requires_grad_()\nslope = torch.autograd.grad(model(x).sum(), x, create_graph=True)[0]\n"
        "loss = F.cross_entropy(model(x), y) + (slope.norm(dim=1) - 1).pow(2).mean()",
        "x.requires_grad_()\n(slope,) = torch.autograd.grad(inner.sum(), x, create_graph=True)\n"
        "loss = F.cross_entropy(model(x), y) + slope.pow(2).sum(1).mean()",
        f"decay = {WEIGHT}.pow(2).sum()\ng = torch.autograd.grad(decay, {WEIGHT}, create_graph=True)[0]\n"
        f"loss = F.cross_entropy(x @ ({WEIGHT} - 0.1 * g).t(), y)",
    ],
)
def test_gradients_of_samples_and_of_penalties_are_no_comparison(forward: str) -> None:
    assert "LOSS-INBATCH" not in findings(script(forward=f"{INNER}{forward}"))


def test_a_gradient_that_no_loss_is_computed_from() -> None:
    text = script(
        forward=f"{INNER}g = torch.autograd.grad(inner, {WEIGHT})[0]\nprint(g.norm())\nloss = 1 * model(x).mean()"
    )
    assert "LOSS-INBATCH" not in findings(text)
