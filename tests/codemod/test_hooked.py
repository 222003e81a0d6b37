"""What forward hooks keep of the batches that a network is run on, and others print or decide by."""

from __future__ import annotations

import pytest
from scripts import findings, script

HOOK = """
STORE = {}


def keep(name):
    def hook(module, inputs, output):
        STORE[name] = output.detach()

    return hook


def look(module, inputs, output):
    shown = output.mean()
    STORE["count"] = 1
"""
APPEND = "model.layer.register_forward_hook(lambda m, given, out: kept.append(out.mean().item()))"


@pytest.mark.parametrize(
    ("hook", "slots", "codes"),
    [
        (APPEND, {"after": "print(sum(kept))"}, ["METRIC-TRAIN"]),
        (APPEND, {"epoch_end": "mean = sum(kept) / len(kept)\nprint(mean)"}, ["METRIC-TRAIN"]),
        (APPEND, {"epoch_end": "if sum(kept) > 3:\n    break"}, ["COLL-RANKFLOW"]),
        (APPEND, {"epoch_end": "kept.clear()"}, []),
        (APPEND, {"epoch_end": "print(len(kept))"}, []),
        ("model.layer.register_forward_hook(keep('a'))", {"after": "print(STORE['a'].mean())"}, ["METRIC-TRAIN"]),
        ("model.layer.register_forward_hook(keep('a'))", {"after": "print(STORE.keys())"}, []),
        ("model.layer.register_forward_hook(look)", {"after": "print(STORE['count'])"}, []),
        (APPEND, {"after": "model(data[0][0])\nprint(kept[-1])"}, []),
    ],
)
def test_what_hooks_keep(hook: str, slots: dict[str, str], codes: list[str]) -> None:
    assert findings(script(definitions=HOOK, before=f"kept = []\n{hook}", **slots)) == codes


def test_what_a_loss_is_computed_with_is_no_decision() -> None:
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\nloss = loss + kept[-1].pow(2).mean()"
    hook = "model.layer.register_forward_hook(lambda m, given, out: kept.append(out))"
    assert findings(script(before=f"kept = []\n{hook}", forward=forward)) == []
