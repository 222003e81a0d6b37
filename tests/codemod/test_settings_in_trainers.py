"""Trainers that take their settings by name, and ask themselves for attributes by name."""

from __future__ import annotations

import pytest
from scripts import FIT, NO_BODY, converted, script, unchanged

KEPT = "        self.model, self.loader = model.to(device), loader\n"
MADE = "        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"
TRAINER = f"class Trainer:\n    def __init__(self, settings, model, loader):\n{{}}{KEPT}{MADE}\n{FIT}"
MADE_OF = "Trainer({'weight': 2.0}, Net(), DataLoader(data, batch_size=16))"
BODY = (
    "trainer = Trainer({'weight': 2.0}, Net(), DataLoader(data, batch_size=16))\n"
    "for epoch in range(2):\n    trainer.fit()\n"
)
LOSS = "F.cross_entropy(self.model(x), y)"
PREPARED = "self.model, self.optimizer, self.loader = accelerator.prepare("


def trainer(first: str = "", old: str = LOSS, new: str = LOSS, body: str = BODY) -> str:
    text = TRAINER.format(first)
    assert old in text
    return script(**NO_BODY, loader="", definitions=text.replace(old, new), after=body)


EACH = "        for name, value in settings.items():\n            setattr(self, name, value)\n"


@pytest.mark.parametrize(
    "first",
    [
        "        self.__dict__.update(settings)\n",
        "        vars(self).update(settings, other=3)\n",
        EACH,
        f"        print('made')\n{EACH}",
    ],
)
def test_settings_that_come_first(first: str) -> None:
    output = converted(trainer(first, new=f"({LOSS} * self.weight)"))
    assert first in output.replace("accelerator.print", "print") and PREPARED in output
    assert "x, y = x.to(device)" not in output


@pytest.mark.parametrize(
    ("first", "old", "new"),
    [
        ("", MADE, f"{MADE}        self.__dict__.update(settings)\n"),  # it may have another model then
        ("", MADE, f"{MADE}{EACH}"),
        ("        if settings:\n            self.__dict__.update(settings)\n", LOSS, LOSS),
        (EACH.replace("            set", "            print(name)\n            set"), LOSS, LOSS),
        ("        self.__dict__.clear()\n", LOSS, LOSS),
        ("        self.__dict__.update(settings)\n", "class Trainer:\n", "class Trainer:\n    weight = 1\n\n"),
        ("        Trainer.__dict__.update(settings)\n", LOSS, LOSS),
    ],
)
def test_settings_that_may_take_the_place_of_others(first: str, old: str, new: str) -> None:
    assert unchanged(trainer(first, old, new)).code == "LOOP-IN-CLASS"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LOSS, f"({LOSS} * (getattr(self, 'scale', None) or 1.0))"),
        (LOSS, "F.cross_entropy(getattr(self, 'model', None)(x), y)"),
        ("in self.loader", "in getattr(self, 'loader')"),
        ("in self.loader", "in getattr(self, 'loader', [])"),
        (
            "            F",
            "            if getattr(self, 'verbose', False):\n                print(x.shape)\n            F",
        ),
    ],
)
def test_attributes_that_are_asked_for_by_name(old: str, new: str) -> None:
    output = converted(trainer("", old, new))
    assert new.splitlines()[0] in output and PREPARED in output
    assert "x, y = x.to(device)" not in output


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LOSS, "F.cross_entropy(getattr(self, input())(x), y)"),
        (LOSS, f"({LOSS} * getattr(self, '__dict__')['scale'])"),
        (LOSS, f"(print(getattr(self, 'fit')), {LOSS})[1]"),
    ],
)
def test_names_that_may_be_any_or_those_of_methods(old: str, new: str) -> None:
    assert unchanged(trainer("", old, new)).code == "LOOP-IN-CLASS"
