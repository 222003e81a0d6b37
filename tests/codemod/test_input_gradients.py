"""INPUTGRAD: gradients of samples are averaged by nobody."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script

DELTA = "delta = torch.zeros_like(x, requires_grad=True)\n"
TRAINED = "optimizer.zero_grad()\nloss = F.cross_entropy(model(moved.detach()), y)"
ATTACK = """\
def attack(model, x, y):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        loss = {}
        loss.backward()
        {}
        delta.grad.zero_()
    return (x + delta).detach()
"""
MEAN = "F.cross_entropy(model(x + delta), y)"
SUM = 'F.cross_entropy(model(x + delta), y, reduction="sum")'


def asked(gradient: str, moved: str) -> str:
    """A script that trains on samples that it has moved along a gradient."""
    return script(forward=f"{DELTA}{gradient}\nmoved = {moved}\n{TRAINED}")


def attacked(loss: str, step: str) -> list[str]:
    """What is said of a function that moves samples in steps."""
    forward = "moved = attack(model, x, y)\n" + TRAINED
    return findings(script(definitions=ATTACK.format(loss, step), forward=forward))


@pytest.mark.parametrize("moved", ["x + 0.1 * delta.grad", "x + 0.1 * delta.grad.detach().clamp(-1, 1)"])
def test_a_step_along_a_gradient_is_reported(moved: str) -> None:
    assert findings(asked(f"{MEAN}.backward()", moved)) == ["GRAD-INPUT"]
    assert findings(asked(f"{SUM}.backward()", moved)) == ["GRAD-INPUT"]  # it gets reduction="sum"


@pytest.mark.parametrize(
    "moved",
    [
        "x + 0.1 * delta.grad.sign()",
        "x + 0.1 * torch.sign(delta.grad.data)",
        "x + 0.1 * delta.grad / delta.grad.norm(dim=1, keepdim=True)",
        "x + 0.1 * F.normalize(delta.grad, dim=1)",
        "x + 0.1",
    ],
)
def test_the_direction_of_a_gradient_is_the_same(moved: str) -> None:
    assert findings(asked(f"{MEAN}.backward()", moved)) == []


@pytest.mark.parametrize("inputs", ["delta", "[delta]"])
def test_gradients_that_are_asked_for(inputs: str) -> None:
    gradient = "found = torch.autograd.grad({}, {})[0]"
    assert findings(asked(gradient.format(MEAN, inputs), "x + found * 0.1")) == ["GRAD-INPUT"]
    assert findings(asked(gradient.format(MEAN, inputs), "x + found.sign() * 0.1")) == []
    assert findings(asked(gradient.format(SUM, inputs), "x + found * 0.1")) == []
    assert findings(asked(gradient.format("model(x + delta).sum()", inputs), "x + found * 0.1")) == []


def test_a_penalty_on_gradients() -> None:
    penalty = "x.requires_grad_(True)\nfirst = {}\ng = torch.autograd.grad(first, x, create_graph=True)[0]\n"
    loss = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y) + g.pow(2).sum(1).mean()"
    assert findings(script(forward=penalty.format("F.cross_entropy(model(x), y)") + loss)) == ["GRAD-INPUT"]
    assert findings(script(forward=penalty.format("model(x).sum()") + loss)) == []


@pytest.mark.parametrize(
    ("step", "codes"),
    [
        ("delta.data = delta.data + 0.1 * delta.grad", ["GRAD-INPUT"]),
        ("delta.data += delta.grad", ["GRAD-INPUT"]),
        ("delta.data.add_(0.1 * delta.grad)", ["GRAD-INPUT"]),
        ("delta.data = (delta + 0.1 * delta.grad.sign()).clamp(-1, 1)", []),
        ("step = delta.grad / (delta.grad.norm() + 1e-8)\n        delta.data += step", ["GRAD-INPUT"]),
        ("size = torch.norm(delta.grad)\n        delta.data += delta.grad / size", ["GRAD-INPUT"]),
        ("size = delta.grad.norm(dim=1, keepdim=True)\n        delta.data += delta.grad / size", []),
        ("print(delta.grad.norm())\n        delta.data += delta.grad.sign()", ["METRIC-TRAIN"]),
        ("print(delta.grad.mean())", ["METRIC-TRAIN"]),
    ],
)
def test_steps_of_an_attack(step: str, codes: list[str]) -> None:
    assert attacked(MEAN, step) == codes
    assert attacked(SUM, step) == codes


@pytest.mark.parametrize(
    "penalty", ["g.norm(2, dim=1).pow(2).mean()", "((g.norm(dim=1) - 1) ** 2).mean()", "g.norm(dim=1).mean()"]
)
def test_a_penalty_on_norms_of_gradients(penalty: str) -> None:
    first = "x.requires_grad_(True)\ng = torch.autograd.grad({}, x, create_graph=True)[0]\n"
    loss = f"optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y) + {penalty}"
    assert findings(script(forward=first.format("F.cross_entropy(model(x), y)") + loss)) == ["GRAD-INPUT"]
    assert findings(script(forward=first.format("model(x).sum()") + loss)) == []


@pytest.mark.parametrize(("criterion", "codes"), [("F.cross_entropy(out, y)", ["GRAD-INPUT"]), ("out.sum()", [])])
def test_a_penalty_that_is_all_of_a_loss(criterion: str, codes: list[str]) -> None:
    forward = f"out = model(x)\ng = torch.autograd.grad({criterion}, out, create_graph=True)[0]"
    assert findings(script(forward=f"optimizer.zero_grad()\n{forward}\nloss = g.norm(dim=1).mean()")) == codes


def test_gradients_of_parameters_are_those_of_all_processes() -> None:
    step = "optimizer.step()\nfor p in model.parameters():\n    p.data -= 0.1 * p.grad"
    assert "GRAD-INPUT" not in findings(script(step=step))


def test_nothing_is_changed() -> None:
    forward = f"{DELTA}{MEAN}.backward()\nmoved = x + 0.1 * delta.grad\n{TRAINED}"
    after = forward.replace(f"{MEAN}.backward()", f"accelerator.backward({MEAN})")
    assert converted(script(forward=forward)) == lifted(forward=after)
