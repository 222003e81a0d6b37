"""What networks and objects keep in their attributes for other methods, and what functions see around them."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import convert, script

NETWORK = """\
class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        {forward}

    def encode(self, x):
        self.h = self.layer(x)

    def scaled(self):
        return {scaled}

    def put(self):
        self.parts["h"] = {put}
"""
STAYS = {"scaled": "self.h.relu()", "put": "self.parts['h'].relu()"}
MEETS = {"scaled": "self.h - self.h.mean(0)", "put": "F.normalize(self.parts['h'], dim=0)"}
PASSES = [
    "self.h = self.layer(x)\nreturn self.scaled()",
    "self.encode(x)\nreturn self.scaled()",
    "self.parts = {'h': self.layer(x)}\nself.put()\nreturn self.parts['h']",
]


def losses(**slots: str) -> list[str]:
    plan = convert(script(**slots)).plan
    assert plan is not None
    return [f.code for f in plan.findings if f.code.startswith("LOSS-")]


def of_network(forward: str, methods: dict[str, str], loss: str = "F.cross_entropy(out, y)") -> list[str]:
    lines = forward.replace("\n", "\n        ")
    return losses(
        definitions=NETWORK.format(forward=lines, **methods),
        model="model = Keeping().to(device)",
        forward=f"optimizer.zero_grad()\nout = model(x)\nloss = {loss}",
    )


@pytest.mark.parametrize("forward", PASSES)
def test_samples_that_meet_in_another_method_are_seen(forward: str) -> None:
    assert of_network(forward, MEETS) == ["LOSS-INBATCH"]
    assert of_network(forward, STAYS) == []


@pytest.mark.parametrize(
    ("kept", "loss", "told"),
    [
        ("self.kl = h.pow(2).sum()", "F.cross_entropy(out, y) + model.kl", ["LOSS-SUM"]),
        ("self.kl = h.pow(2).mean()", "F.cross_entropy(out, y) + model.kl", []),
        ("self.h = h", "F.cross_entropy(model.h - model.h.mean(0), y)", ["LOSS-INBATCH"]),
        ("self.h = h", "F.cross_entropy(model.h.relu(), y)", []),
        ("self.h = h", "F.cross_entropy(out, y) + model.scaled().pow(2).mean()", ["LOSS-INBATCH"]),
        ("self.size = len(h)", "F.cross_entropy(out, y)", []),
        ("other = h.sum()", "F.cross_entropy(out, y) + model.layer.bias.sum()", []),
    ],
)
def test_what_a_pass_leaves_behind_is_known_outside(kept: str, loss: str, told: list[str]) -> None:
    assert of_network(f"h = self.layer(x)\n{kept}\nreturn h", MEETS, loss) == told


OBJECTS = """\
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple
"""
CLASSES = """\
Pair = namedtuple("Pair", "h size")


class Named(NamedTuple):
    h: torch.Tensor
    size: int = 0


@dataclass
class Data:
    h: torch.Tensor
    size: int = 0


class Box:
    pass


class Kept:
    def __init__(self, h):
        self.h = h

    def centre(self):
        self.h = self.h - self.h.mean(0)

    def half(self):
        self.h = self.h / 2


def boxed(h):
    box = Box()
    box.h = h
    return box
"""
HOLDING = ["Pair(model(x), 1)", "Named(model(x))", "Data(h=model(x))", "Kept(model(x))", "boxed(model(x))"]
HOLDING += ["SimpleNamespace(h=model(x))"]


def of_object(lines: str) -> list[str]:
    return losses(imports=OBJECTS, definitions=CLASSES, forward=f"optimizer.zero_grad()\n{lines}")


@pytest.mark.parametrize("made", HOLDING)
def test_what_an_object_holds_is_known(made: str) -> None:
    assert of_object(f"o = {made}\nloss = F.cross_entropy(o.h - o.h.mean(0), y)") == ["LOSS-INBATCH"]
    assert of_object(f"o = {made}\nloss = F.cross_entropy(o.h.relu(), y)") == []


def test_methods_of_an_object_change_what_it_holds() -> None:
    assert of_object("o = Kept(model(x))\no.centre()\nloss = F.cross_entropy(o.h, y)") == ["LOSS-INBATCH"]
    assert of_object("o = Kept(model(x))\nother = o\nother.centre()\nloss = F.cross_entropy(o.h, y)") == [
        "LOSS-INBATCH"
    ]
    assert of_object("o = Kept(model(x))\no.half()\nloss = F.cross_entropy(o.h, y)") == []
    assert of_object("o = Kept(model(x))\nKept(model(x)).centre()\nloss = F.cross_entropy(o.h, y)") == []


@pytest.mark.parametrize(
    ("body", "told"), [("z - z.mean(0)", ["LOSS-INBATCH"]), ("z.relu()", []), ("z.norm(dim=1, keepdim=True) * z", [])]
)
def test_a_function_inside_sees_the_variables_around_it(body: str, told: list[str]) -> None:
    around = f"z = model(x)\ndef made():\n    return {body}\nloss = F.cross_entropy(made(), y)"
    assert of_object(around) == told


@pytest.mark.parametrize(
    ("made", "codes"), [("def __post_init__(self):", ["LOSS-INBATCH"]), ("def shifted(self):", [])]
)
def test_what_an_object_does_when_it_is_made_is_followed(made: str, codes: list[str]) -> None:
    kept = f"""\
@dataclass
class Kept:
    out: torch.Tensor
    y: torch.Tensor

    {made}
        self.out = self.out - self.out.mean(0)

    def loss(self):
        return F.cross_entropy(self.out, self.y)"""
    forward = "optimizer.zero_grad()\nloss = Kept(model(x), y).loss()"
    assert losses(imports="from dataclasses import dataclass", definitions=kept, forward=forward) == codes
