"""Backward passes that train nothing: methods of the author's of that name, and those in methods that nothing calls."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script

FLOW = """\
class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(8))

    def forward(self, x):
        return x * self.scale.exp(), self.scale.sum().expand(len(x))

    def backward(self, z):
        return z * (-self.scale).exp(), -self.scale.sum().expand(len(z))


class Flow(nn.Module):
    def __init__(self, flows):
        super().__init__()
        self.flows = nn.ModuleList(flows)

    def forward(self, x):
        total = 0
        for flow in self.flows:
            x, log_det = flow(x)
            total = total + log_det
        return x, total

    def backward(self, z):
        total = 0
        for flow in self.flows[::-1]:
            {inverts}
            total = total + log_det
        return z, total
"""
PARTS = "z, log_det = flow.backward(z)"
SLOTS = {
    "definitions": FLOW.format(inverts=PARTS),
    "forward": "optimizer.zero_grad()\nz, log_det = model(x)\nloss = (0.5 * (z**2).sum(1) - log_det).mean()",
}


def test_a_flow_that_is_gone_back_through() -> None:
    made = "model = Flow([Coupling() for _ in range(3)])"
    sampled = "with torch.no_grad():\n    x, _ = {}.backward(torch.ones(4, 8))"
    text = script(**SLOTS, model=f"{made}.to(device)", after=sampled.format("model"))
    unwrapped = sampled.format("accelerator.unwrap_model(model)")
    assert converted(text) == lifted(**SLOTS, model=made, after=unwrapped)
    assert findings(text) == []


@pytest.mark.parametrize(
    ("inverts", "trains"),
    [
        (PARTS, False),
        ("z, log_det, *_ = flow.backward(z)", False),
        ("z = flow.backward(z)[0]", False),
        ("log_det = flow.backward(z).log_det", False),
        ("z, log_det = [*flow.backward(z)]", False),
        ("z, log_det = [part for part in flow.backward(z)]", False),
        ("flow.backward(z)", True),  # as a tensor may
        ("done = flow.backward(z)", True),
    ],
)
def test_only_what_gives_something_is_no_backward_pass(inverts: str, trains: bool) -> None:
    slots = {**SLOTS, "definitions": FLOW.format(inverts=inverts), "model": "model = Flow([Coupling()]).to(device)"}
    assert ("LOOP-IN-CLASS" in findings(script(**slots))) is trains


SLOPES = """\
class Sloped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(x)

    def slopes(self, x):
        x = x.clone().requires_grad_(True)
        self.forward(x).sum().backward()
        return x.grad
"""


@pytest.mark.parametrize(
    ("after", "refused"),
    [
        ("print(model(data[:2][0].to(device)))", False),
        ("print(model.slopes(data[:2][0].to(device)))", True),
        ("print(getattr(model, 'slopes')(data[:2][0].to(device)))", True),
        ("slopes = Sloped.slopes", True),
    ],
)
def test_a_method_of_a_network_that_nothing_calls_trains_nothing(after: str, refused: bool) -> None:
    text = script(definitions=SLOPES, model="model = Sloped().to(device)", after=after)
    assert ("LOOP-IN-CLASS" in findings(text)) is refused


def test_a_method_that_is_there_for_others_stays_as_it_is() -> None:
    slots = {"definitions": SLOPES, "after": "print(len(data))"}
    done = lifted(definitions=SLOPES, model="model = Sloped()", after="accelerator.print(len(data))")
    assert converted(script(**slots, model="model = Sloped().to(device)")) == done
