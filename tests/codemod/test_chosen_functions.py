"""Functions that train, of which one is chosen while the script runs."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, TRAINS, converted, script, unchanged

ONE_LOOP = "def {name}(model, loader, optimizer):\n" + TRAINS


def chosen(choice: str, call: str = "train(model, loader, optimizer)") -> str:
    definitions = "\n\n".join(ONE_LOOP.format(name=name) for name in ("train_one", "train_two"))
    slots = {**NO_LOOP, "epochs": "", "after": f"for epoch in range(2):\n    {call}"}
    return script(imports="import sys", definitions=definitions, before=choice, **slots)


@pytest.mark.parametrize(
    "choice",
    [
        "if sys.argv[1:]:\n    train = train_one\nelse:\n    train = train_two",
        "train = train_one if sys.argv[1:] else train_two",
        "train = {'one': train_one, 'two': train_two}[sys.argv[1]]",
        "TRAINERS = {'one': train_one, 'two': train_two}\ntrain = TRAINERS[sys.argv[1]]",
    ],
)
def test_a_function_that_trains_is_chosen(choice: str) -> None:
    lines = [line.strip() for line in converted(chosen(choice)).splitlines()]
    assert lines.count("accelerator.backward(loss)") == 2
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in lines
    assert choice in converted(chosen(choice))


@pytest.mark.parametrize(
    ("choice", "call"),
    [
        ("", "train = train_one if epoch else train_two\n    train(model, loader, optimizer)"),  # another each time
        ("train = train_one if sys.argv[1:] else train_two\nkept = [train]", "kept[0](model, loader, optimizer)"),
    ],
)
def test_a_function_of_which_it_is_not_known_when_it_trains(choice: str, call: str) -> None:
    assert unchanged(chosen(choice, call)).code == "LOADER-UNKNOWN"
