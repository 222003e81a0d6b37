"""What objects, functions and expressions compute besides: properties, constructors of bases, globals, `:=`."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import convert, script

ZERO = "optimizer.zero_grad()\n"
DATACLASS = "@dataclass\nclass Out:\n    o: torch.Tensor\n"


def told(lines: str, definitions: str = "") -> list[str]:
    """What is said of a loss."""
    text = script(imports="from dataclasses import dataclass", definitions=definitions, forward=ZERO + lines)
    plan = convert(text).plan
    assert plan is not None
    return [f.code for f in plan.findings if f.code.startswith("LOSS-")]


MADE = [
    f"{DATACLASS}    def __post_init__(self):\n        self.o = {{}}",
    "@dataclass\nclass Base:\n    o: torch.Tensor\n    def __post_init__(self):\n        self.o = {}\n\n\n"
    "@dataclass\nclass Out(Base):\n    more: int = 0",
    "class Base:\n    def __init__(self, o):\n        self.given = o\n        self.o = o\n        self.o = {}\n\n\n"
    "class Out(Base):\n    pass",
    "class Base:\n    def __init__(self, o):\n        self.o = o\n        self.o = {}\n\n\n"
    "class Out(Base):\n    def __init__(self, o):\n        super().__init__(o)",
    "@dataclass(init=False)\nclass Out:\n    o: torch.Tensor\n    def __init__(self, o):\n        self.o = o\n"
    "        self.o = {}",
]


@pytest.mark.parametrize("definitions", MADE)
def test_what_constructors_make_of_samples_is_followed(definitions: str) -> None:
    loss = "out = Out(model(x))\nloss = F.cross_entropy(out.o, y)"
    assert told(loss, definitions.format("self.o - self.o.mean(0)")) == ["LOSS-INBATCH"]
    assert told(loss, definitions.format("self.o.relu()")) == []


@pytest.mark.parametrize(
    "definitions",
    [
        f"{DATACLASS}    @property\n    def z(self):\n        return {{}}",
        "class Out:\n    def __init__(self, o):\n        self.o = o\n\n"
        "    @property\n    def z(self):\n        return {}",
    ],
)
def test_properties_are_followed(definitions: str) -> None:
    loss = "out = Out(model(x))\nloss = F.cross_entropy(out.z, y)"
    assert told(loss, definitions.format("(self.o - self.o.mean(0)) / self.o.std(0)")) == ["LOSS-INBATCH"]
    assert told(loss, definitions.format("self.o * 2")) == []
    added = "out = Out(model(x))\nloss = F.cross_entropy(out.o, y) + out.z"
    assert told(added, definitions.format("self.o.pow(2).sum()")) == ["LOSS-SUM"]
    assert told(added, definitions.format("self.o.pow(2).mean()")) == []


@pytest.mark.parametrize(
    ("definitions", "lines"),
    [
        ("m = None\n\n\ndef note(o):\n    global m\n    m = {}", "o = model(x)\nnote(o)\nloss = (o - m).pow(2).mean()"),
        (
            "def run(o):\n    m = 0\n    def note():\n        nonlocal m\n        m = {}\n    note()\n    return o - m",
            "loss = run(model(x)).pow(2).mean()",
        ),
        ("", "loss = ((o := model(x)) - {}).pow(2).mean()"),
        ("", "match 1:\n    case 1:\n        o = model(x)\n        loss = (o - {}).pow(2).mean()"),
        ("", "while model is None:\n    o = x\nelse:\n    o = model(x)\n    loss = (o - {}).pow(2).mean()"),
    ],
)
def test_variables_that_are_set_besides_are_followed(definitions: str, lines: str) -> None:
    met, alone = "o.mean(0)", "1"
    assert told(lines.replace("{}", met), definitions.replace("{}", met)) == ["LOSS-INBATCH"]
    assert told(lines.replace("{}", alone), definitions.replace("{}", alone)) == []


def test_arguments_that_a_function_only_hands_on_are_not_known() -> None:
    hands = "def run(f, *given, **named):\n    return f(*given, **named)"
    assert told("o = model(x)\nloss = F.cross_entropy(o, y) + run(torch.sum, o.pow(2))", hands) == ["LOSS-UNKNOWN"]
    named = "def run(o, y, **named):\n    return F.cross_entropy(o, y) * named['scale']"
    assert told("loss = run(model(x), y, scale=2.0)", named) == []
    assert told("o = model(x)\nloss = run(o, y, scale=o.mean())", named) == ["LOSS-INBATCH"]


@pytest.mark.parametrize("given", ["self.dim", "self.fc.in_features", "self.dim + 0"])
def test_what_a_network_gives_a_function_of_its_own_attributes(given: str) -> None:
    """As diffusion models do, to make an embedding of each step."""
    net = """\
def embed(t, dim):
    freqs = torch.exp(-torch.arange(dim // 2, device=t.device) / dim)
    angles = t.float().unsqueeze(1) * freqs.unsqueeze(0)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.dim = 4
        self.fc = nn.Linear(4, 2)

    def forward(self, x, t):
        return self.fc(x + {})
"""
    model = "model = Steps().to(device)"
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x, y), y)"
    for embedded, expected in ((f"embed(t, {given})", []), (f"embed(t, {given}).mean(0)", ["LOSS-INBATCH"])):
        plan = convert(script(definitions=net.format(embedded), model=model, forward=forward)).plan
        assert plan is not None
        assert [f.code for f in plan.findings if f.code.startswith("LOSS-")] == expected
