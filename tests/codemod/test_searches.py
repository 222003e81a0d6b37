"""HPO-TRIALS: a search for hyperparameters that calls the training for each trial."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script

TRAIN = """\
def train(trial=None):
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return 1.0


def measure(trial=None):
    return float(len(loader))"""
EMPTY = dict.fromkeys(
    ("model", "optimizer", "epochs", "epoch", "loop", "move", "forward", "backward", "step", "batch_end", "epoch_end"),
    "",
)


@pytest.mark.parametrize(
    ("imports", "search"),
    [
        ("import optuna", "study = optuna.create_study()\nstudy.optimize({}, n_trials=3)"),
        ("from optuna import create_study as new", "new().optimize(func={})"),
        ("import optuna", "optuna.create_study().optimize(lambda trial: {}(trial), 3)"),
        ("import wandb", "wandb.agent('id', {}, count=3)"),
        ("import wandb", "wandb.agent('id', function={})"),
        ("from hyperopt import fmin", "fmin(fn={}, space=None)"),
        ("from ray import tune", "tune.run({})"),
    ],
)
def test_a_search_that_calls_the_training(imports: str, search: str) -> None:
    for function, expected in (("train", ["HPO-TRIALS"]), ("measure", [])):
        text = script(imports=imports, after=f"{TRAIN}\ntrain()\n{search.format(function)}", **EMPTY)
        assert [code for code in findings(text) if code == "HPO-TRIALS"] == expected, (function, search)


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("import optuna", "optuna.create_study().tell(train)"),
        ("import wandb", "wandb.watch(train)"),
        ("from other import study", "study.optimize(train)"),
        ("", "for rate in (0.1, 0.2):\n    train(rate)"),
    ],
)
def test_other_calls_are_no_search(imports: str, call: str) -> None:
    text = script(imports=imports, after=f"{TRAIN}\ntrain()\n{call}", **EMPTY)
    assert "HPO-TRIALS" not in findings(text)
    assert "accelerator.backward(" in converted(text)
