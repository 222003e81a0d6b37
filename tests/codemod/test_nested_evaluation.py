"""What an evaluation inside of the training loop returns is that of all samples, if it gathers them."""

from __future__ import annotations

import pytest
from scripts import findings, script

EVALUATE = """\
def evaluate(batches):
    found, wanted = np.array([]), np.array([])
    with torch.no_grad():
        for x, y in batches:
            out = model(x.to(device))
            {}
    return {}
"""
APPENDED = "found = np.append(found, out.argmax(1).cpu().numpy())\n            wanted = np.append(wanted, y.numpy())"
LOADERS = "loader = DataLoader(data, batch_size=16, shuffle=True)\nothers = DataLoader(data, batch_size=16)"
KEPT = "{}if score > best:\n    best = score\n    torch.save(model.state_dict(), 'best.pt')"


def nested(evaluate: str, measured: str = "score = evaluate(others)\n", **slots: str) -> list[str]:
    text = script(
        imports="import numpy as np",
        loader=LOADERS,
        definitions=evaluate,
        before="best = 0",
        batch_end=KEPT.format(measured),
        **slots,
    )
    return [code for code in findings(text) if code in ("METRIC-TRAIN", "COLL-RANKFLOW")]


@pytest.mark.parametrize(
    "result", ["(found == wanted).mean()", "np.mean(found == wanted)", "(found == wanted).sum() / len(found)"]
)
def test_what_all_samples_say_decides_alike(result: str) -> None:
    assert nested(EVALUATE.format(APPENDED, result)) == []


def test_so_does_what_those_of_the_training_say() -> None:
    assert nested(EVALUATE.format(APPENDED, "(found == wanted).mean()"), "score = evaluate(loader)\n") == []


@pytest.mark.parametrize(
    ("evaluate", "measured"),
    [
        ("", "score = (model(x).argmax(1) == y).float().mean().item()\n"),  # of the batch that trains
        (EVALUATE.format(APPENDED, "(found == wanted).mean()"), "score = evaluate([(x, y)])\n"),
        (EVALUATE.format(APPENDED, "(found == wanted).mean()"), "score = evaluate(others) - loss.item()\n"),
    ],
)
def test_what_a_share_says_does_not(evaluate: str, measured: str) -> None:
    assert nested(evaluate, measured) == ["METRIC-TRAIN", "METRIC-TRAIN"]
