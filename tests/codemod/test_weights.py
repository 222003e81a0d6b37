"""REDRAW: weights that are drawn again once the model is prepared."""

from __future__ import annotations

import pytest
from scripts import findings, script

RESET = {"epoch": "model.reset_parameters()"}
DRAWN = "def init(m):\n    if isinstance(m, nn.Linear):\n        nn.init.normal_(m.weight)"
APPLY = {"definitions": DRAWN, "epoch": "model.apply(init)"}
CLOCK = {"setup": "import time\ntorch.manual_seed(int(time.time()))", **RESET}


@pytest.mark.parametrize("slots", [RESET, APPLY, CLOCK])
def test_weights_that_each_process_would_draw_for_itself(slots: dict[str, str]) -> None:
    assert findings(script(**slots)) == ["INIT-UNSEEDED"]


@pytest.mark.parametrize(
    "slots",
    [
        {"setup": "torch.manual_seed(0)", **RESET},
        {"model": "model = Net()\nmodel.reset_parameters()"},
        {"epoch": "model.eval()"},
        {**APPLY, "definitions": DRAWN.replace("normal_", "zeros_")},
        {"definitions": "def quiet(m):\n    m.training = False", "epoch": "model.apply(quiet)"},
        {"epoch": "other.reset_parameters()", "model": "model = Net().to(device)\nother = Net()"},
    ],
)
def test_weights_that_are_alike(slots: dict[str, str]) -> None:
    assert findings(script(**slots)) == []
