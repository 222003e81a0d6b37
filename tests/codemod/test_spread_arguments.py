"""Arguments that a dict holds which is written out: `Trainer(**kwargs)`."""

from __future__ import annotations

import pytest
from scripts import FIT, NO_BODY, TRAINS, converted, lifted, script, severities, unchanged

TRAINER = f"""\
class Trainer:
    def __init__(self, model, optimizer, loader, epochs=2):
        self.model = model
        self.optimizer = optimizer
        self.loader = loader

{FIT}"""
PARTS = '{"model": model, "optimizer": optimizer, "loader": loader}'
MADE = "model = Net().to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
PREPARED = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n"


def spread(how: str, definitions: str = TRAINER) -> str:
    return script(definitions=definitions, after=MADE + how, **NO_BODY)


@pytest.mark.parametrize(
    "how",
    [
        f"Trainer(**{PARTS}).fit()",
        f"parts = {PARTS}\nTrainer(**parts).fit()",
        f"parts = {PARTS}\nmodel.load_state_dict(torch.load('m.pt'))\nmade = Trainer(**parts, epochs=3)\nmade.fit()",
    ],
)
def test_a_dict_that_is_written_out_gives_its_entries(how: str) -> None:
    text = converted(spread(how))
    assert PREPARED + how.partition("\n")[0] in text  # what the dict holds is prepared
    assert "accelerator.backward(F.cross_entropy(self.model(x), y))" in text


@pytest.mark.parametrize(
    "how",
    [
        f"parts = {PARTS}\nparts['model'] = Net()\nTrainer(**parts).fit()",
        f"parts = {PARTS}\nchange(parts)\nTrainer(**parts).fit()",
        f"parts = {PARTS}\nfor name in 'ab':\n    parts = {{**parts, name: 1}}\nTrainer(**parts).fit()",
        f"parts = other = {PARTS}\nother['model'] = Net()\nTrainer(**parts).fit()",
        "name = 'model'\nTrainer(**" + PARTS.replace('"model":', "name:") + ").fit()",
    ],
)
def test_a_dict_that_may_hold_something_else_gives_nothing_that_is_known(how: str) -> None:
    assert unchanged(spread(how, TRAINER + "\n\nfrom elsewhere import change\n")).code == "LOADER-UNKNOWN"


def test_a_parameter_keeps_the_name_that_a_dict_gives_it() -> None:
    train = f"def train(model, optimizer, loader, device):\n{TRAINS}"
    parts = PARTS.replace("}", ', "device": device}')
    text = converted(script(main=True, definitions=train, after=f"{MADE}parts = {parts}\ntrain(**parts)", **NO_BODY))
    assert "def train(model, optimizer, loader, device, accelerator):" in text
    assert '"device": device}' in text and "train(**parts, accelerator=accelerator)" in text


@pytest.mark.parametrize(
    ("given", "told"),
    [("'cuda:0'", ["warning"]), ("torch.device('cuda:1')", ["warning"]), ("device", []), ("'cpu'", [])],
)
@pytest.mark.parametrize("how", ["parts = {0}\nTrainer(**parts).fit()\nTrainer(**parts)", "Trainer(**{0}).fit()"])
def test_one_particular_gpu_in_a_dict_is_told(how: str, given: str, told: list[str]) -> None:
    trainer = TRAINER.replace("epochs=2):", "where=None):\n        self.noise = torch.rand(3).to(where)")
    parts = PARTS.replace("}", f', "where": {given}}}')
    assert severities(spread(how.format(parts), trainer), "DEV-LEFT") == told


OWN = """

class Own(Trainer):
    def __init__(self, {taken}):
        super().__init__({given})
        self.seen = 0
"""


@pytest.mark.parametrize(
    ("taken", "given", "how"),
    [
        ("*args, **kwargs", "*args, **kwargs", "model, optimizer, loader"),
        ("*args, **kwargs", "*args, **kwargs", "model, loader=loader, optimizer=optimizer"),
        ("*args, weight=None, **kwargs", "*args, **kwargs", "model, optimizer, loader=loader, weight=3"),
        ("weight, *args", "*args, epochs=3", "2, model, optimizer, loader"),
        ("model, *args", "model, *args", "model, optimizer, loader"),
        ("model, **others", "model, **others", "model, optimizer=optimizer, loader=loader"),
    ],
)
def test_a_constructor_that_hands_on_what_it_is_given(taken: str, given: str, how: str) -> None:
    text = converted(spread(f"Own({how}).fit()", TRAINER + OWN.format(taken=taken, given=given)))
    assert f"{PREPARED}Own({how}).fit()" in text
    assert "accelerator.backward(F.cross_entropy(self.model(x), y))" in text


@pytest.mark.parametrize(
    ("taken", "given", "how"),
    [
        ("*args", "*args[:3]", "model, optimizer, loader, 3"),
        ("*args", "*(args := args)", "model, optimizer, loader"),
        ("**kwargs", "**kwargs); kwargs.clear(", "model=model, optimizer=optimizer, loader=loader"),
        ("*args", "*args", "*read()"),
        ("*args, **kwargs", "*args, **kwargs", "model, optimizer, **read()"),
    ],
)
def test_a_constructor_that_may_hand_on_something_else(taken: str, given: str, how: str) -> None:
    definitions = f"from reading import read\n\n\n{TRAINER}{OWN.format(taken=taken, given=given)}"
    assert unchanged(spread(f"Own({how}).fit()", definitions)).code == "LOADER-UNKNOWN"


def test_a_constructor_that_hands_on_in_a_comprehension() -> None:
    layers = """\
class Layer(nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.linear = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        return self.linear(x)


class Layers(nn.Module):
    def __init__(self, number, **kwargs):
        super().__init__()
        self.layers = nn.ModuleList([Layer(width=8, **kwargs) for _ in range(number)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
    slots = {"definitions": layers, "model": "model = Layers(2, bias=False).to(device)"}
    assert converted(script(**slots)) == lifted(**slots | {"model": "model = Layers(2, bias=False)"})
