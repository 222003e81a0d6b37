"""Modules that are called past the network that has them: how rows combine in what they give."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script

_NETWORKS = """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.steps = nn.LSTM(4, 4)

    def forward(self, x):
        return self.layer(x).relu()


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.fe = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
        self.encoder = Encoder()
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.heads = nn.ModuleDict({"a": nn.Linear(8, 2), "b": nn.Linear(8, 3)})
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.fe(x) + self.encoder(x))


def features(part, x):
    return part(x)
"""


def _said(lines: str, before: str = "") -> list[str]:
    forward = f"optimizer.zero_grad()\n{lines}"
    model = "model = Parts().to(device)"
    found = findings(script(definitions=_NETWORKS, model=model, before=before, forward=forward))
    return [code for code in found if code.startswith("LOSS-")]


_FORMS = [
    ("h = model.fe(x)", ""),
    ("h = part(x)", "part = model.fe"),
    ("h = model.fe[0](x)", ""),
    ("h = model.fe[:1](x)", ""),
    ("h = model.encoder(x)", ""),
    ("h = model.encoder.layer(x)", ""),
    ("h = layer(x)", "layer = model.encoder.layer"),
    ("h = model.blocks[1](x)", ""),
    ("h = x\nfor block in model.blocks:\n    h = block(h)", ""),
    ('h = model.heads["b"](x)', ""),
    ("h = features(model.fe, x)", ""),
    ("h = model.fe(x).view(x.shape[0], -1)", ""),
]


@pytest.mark.parametrize(("lines", "before"), _FORMS)
def test_samples_that_meet_after_a_part_of_a_network(lines: str, before: str) -> None:
    assert _said(f"{lines}\nloss = h.norm(dim=0).mean()", before) == ["LOSS-INBATCH"]
    assert _said(f"{lines}\nloss = h.norm(dim=1).mean()", before) == []


def test_a_part_that_is_set_from_outside_is_not_the_one_of_the_constructor() -> None:
    assert _said("h = model.encoder.layer(x)\nloss = h.norm(dim=0).mean()", "model.encoder.layer = make()") == []


def test_the_gradients_of_stacked_features() -> None:
    penalty = """
with torch.no_grad():
    h = model.fe(x).view(x.shape[0], -1)
points = torch.stack([h, h * 2]).requires_grad_()
out = model.head(points)
grads = torch.autograd.grad(out, points, grad_outputs=torch.ones_like(out), create_graph=True)[0]
loss = ((grads.norm(2, dim={}) - 1) ** 2).mean()
"""
    assert _said(penalty.format(1)) == ["LOSS-INBATCH"]
    assert _said(penalty.format(2)) == []
