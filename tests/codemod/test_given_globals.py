"""Globals that a function trains and returns, and that are bound to what it returns: they stay what they are."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, TRAINS, converted, findings, lifted, script

TRAIN = f"def train(epochs):\n{TRAINS}    return {{}}\n"


def slots(returned: str, after: str) -> dict[str, str]:
    """Slots of a script that trains in a function that reads globals."""
    return {**NO_LOOP, "definitions": TRAIN.format(returned), "after": after}


@pytest.mark.parametrize(
    ("returned", "after"),
    [
        ("model", "model = train(2)"),
        ("model, loss", "model, last = train(2)"),
        ("loss, (model, optimizer)", "last, rest = train(2)"),
        ("loss", "last = train(2)"),
    ],
)
def test_a_global_that_a_function_returns(returned: str, after: str) -> None:
    inside = TRAINS.replace("        x, y = x.to(device), y.to(device)\n", "")
    trained = f"def train(epochs):\n{inside}    return {returned}\n".replace(
        "loss.backward()", "accelerator.backward(loss)"
    )
    done = lifted(**{**NO_LOOP, "definitions": trained, "after": after})
    assert converted(script(**slots(returned, after))) == done


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ("Net().to(device)", []),  # another network, which nothing trains
        ("copy.deepcopy(model)", []),
        ("[model, Net()][epochs]", ["PREP-NO-POINT"]),
        ("model if epochs else Net()", ["PREP-NO-POINT"]),
    ],
)
def test_what_may_be_another_object_is_not_taken_for_it(returned: str, found: list[str]) -> None:
    after = "model = train(2)\nprint(model(data[:2][0].to(device)))"
    assert findings(script(imports="import copy", **slots(returned, after))) == found
