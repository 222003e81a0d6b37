"""Optimizers that are made, and step, under one condition: prepared there, their models before."""

from __future__ import annotations

import textwrap

import pytest
from scripts import NO_LOOP, TRAINS, converted, findings, script, unchanged
from test_create import parsed

OPTION = parsed('"--test", action="store_true"')
MADE = "if not args.test:\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
RESUME = "def resume(optimizer):\n    optimizer.zero_grad()\n    return optimizer"
LOOP = f"""\
for epoch in range(2):
    if {{}}:
{textwrap.indent(TRAINS, "    ")}\
    with torch.no_grad():
        print(model(torch.ones(1, 8).to(device)))
"""


def under(made: str, test: str = "not args.test", definitions: str = "") -> str:
    slots = {**NO_LOOP, "imports": "import argparse", "setup": OPTION, "optimizer": made, "definitions": definitions}
    return script(**{**slots, "epochs": LOOP.format(test)})


@pytest.mark.parametrize(
    "made",
    [
        MADE,
        f"{MADE}\n    for group in optimizer.param_groups:\n        group['lr'] *= 2",
        f"{MADE}\n    optimizer = resume(optimizer)",
        f"{MADE}\n    if len(data):\n        optimizer = resume(optimizer)",
    ],
)
def test_an_optimizer_is_prepared_where_it_is_made(made: str) -> None:
    text = under(made, definitions=RESUME)
    output = converted(text)
    assert "lr=0.1)\n    optimizer = accelerator.prepare(optimizer)\n" in output
    # what it loads is put where the parameters are by then
    assert output.index("model = accelerator.prepare(model)\n") < output.index("torch.optim.SGD")
    assert findings(text) == []


def test_one_of_two_is_prepared_where_it_is_made() -> None:
    other = "    if len(data):\n        optimizer = torch.optim.Adam(model.parameters())"
    output = converted(under(f"{MADE}\n{other}"))
    assert output.count("optimizer = accelerator.prepare(optimizer)\n") == 2


def test_one_that_is_another_each_time_is_left_alone() -> None:
    made = MADE.replace("if not args.test", "for _ in range(len(data))")
    assert unchanged(under(made, "len(data)")).code == "PREP-NO-POINT"
