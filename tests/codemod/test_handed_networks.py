"""Modules that run a network which each call gives them: their calls are followed as those of functions are."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, findings, lifted, script, severities

CRITERION = """\
class Criterion(nn.Module):
    def forward(self, net, x, y):
        {}
"""
STEP = "optimizer.zero_grad()\nloss = {}"
SUM = 'accelerator.backward(loss, reduction="sum")'
MEAN = "accelerator.backward(loss)"
PENALTY = """\
x.requires_grad_(True)
        out = net(x)
        (grad,) = torch.autograd.grad({}, x, create_graph=True)
        return F.cross_entropy(out, y) + (grad ** 2).mean()"""


@pytest.mark.parametrize(
    "call", ["Criterion()(model, x, y)", "criterion(model, x, y)", "criterion(y=y, x=x, net=model)"]
)
@pytest.mark.parametrize(
    ("returned", "backward"),
    [
        ("return (net(x) - F.one_hot(y, 3)).pow(2).sum(0).mean()", SUM),
        ("return F.cross_entropy(net(x), y, reduction='none').sum()", SUM),
        ("return (net(x) - F.one_hot(y, 3)).pow(2).sum(1).mean()", MEAN),
        ("return F.cross_entropy(net(x), y)", MEAN),
    ],
)
def test_what_its_loss_is(returned: str, backward: str, call: str) -> None:
    slots = {
        "definitions": CRITERION.format(returned),
        "before": "criterion = Criterion()",
        "forward": STEP.format(call),
    }
    assert converted(script(**slots)) == lifted(**slots, backward=backward)


@pytest.mark.parametrize(("of", "found"), [("out.mean()", ["GRAD-INPUT"]), ("out.sum()", [])])
def test_gradients_of_samples_in_it(of: str, found: list[str]) -> None:
    slots = {"definitions": CRITERION.format(PENALTY.format(of)), "before": "criterion = Criterion()"}
    assert findings(script(**slots, forward=STEP.format("criterion(model, x, y)"))) == found


def test_a_network_that_is_given_a_function_is_one_still() -> None:
    definitions = """\
class Acts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x, act):
        print(x.mean())
        return act(self.layer(x))
"""
    slots = {"definitions": definitions, "forward": STEP.format("F.cross_entropy(model(x, F.relu), y)")}
    assert findings(script(**slots, model="model = Acts().to(device)")) == ["PRINT-ALL"]


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        ("(out - x).pow(2).sum(0).mean()", ["warning"]),
        ("torch.sum(out - x, dim=0).mean()", ["warning"]),
        ("(out - x).pow(2).sum(1).mean()", []),
        ("torch.sum(out - x, axis=-1).mean()", []),
        ("(out - x).pow(2).mean() + 0.1 * model.layer.weight.abs().sum()", []),
    ],
)
def test_a_sum_along_dimension_0_of_what_is_not_known(loss: str, found: list[str]) -> None:
    forward = f"optimizer.zero_grad()\nout = run(model, x)\nloss = {loss}"
    assert severities(script(imports="from lib import run", forward=forward), "LOSS-UNKNOWN") == found
