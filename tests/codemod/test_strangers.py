"""OPT-UNKNOWN: optimizers of libraries that nothing is known of, beside one that is known."""

from __future__ import annotations

import pytest
from scripts import convert, found_in, lifted, script

OTHER = "other = nn.Linear(3, 3).to(device)"
STEPS = "optimizer.step()\nsecond.step()"
CLEARS = "optimizer.zero_grad()\nsecond.zero_grad()\nloss = F.cross_entropy(other(model(x)), y)"
IMPORTS = "from losses import Losses\nfrom ranger import Lookahead, Ranger, plan"


def codes(before: str, forward: str = CLEARS, step: str = STEPS, definitions: str = "") -> list[str]:
    slots = {"from_imports": IMPORTS, "definitions": definitions, "before": f"{OTHER}\n{before}"}
    return found_in(convert(script(**slots, forward=forward, step=step)))


@pytest.mark.parametrize(
    ("before", "forward", "step"),
    [
        ("second = Ranger(other.parameters(), lr=0.1)", CLEARS, STEPS),
        ("second = Ranger(other.parameters())", CLEARS.replace("second.", "other."), STEPS),
        ('second = Ranger([{"params": other.parameters()}])', CLEARS, STEPS),
        ("made = Ranger(other.parameters())\nsecond = made", CLEARS, STEPS),
        ("second = Losses(3).optimizer", CLEARS, STEPS),
        ("losses = Losses(3)", CLEARS.replace("second", "losses.opt"), STEPS.replace("second", "losses.opt")),
    ],
)
def test_an_optimizer_of_which_nothing_is_known(before: str, forward: str, step: str) -> None:
    assert codes(before, forward, step) == ["OPT-UNKNOWN"]


def test_an_optimizer_that_a_function_is_handed() -> None:
    definitions = "def advance(opt, loss):\n    opt.zero_grad()\n    loss.backward()\n    opt.step()"
    slots = {"from_imports": IMPORTS, "definitions": definitions, "forward": "loss = F.cross_entropy(model(x), y)"}
    slots |= {"backward": "advance(optimizer, loss)", "step": "n = 1"}
    assert "OPT-UNKNOWN" not in found_in(convert(script(**slots)))
    slots |= {"before": "losses = Losses(3)", "step": "advance(losses.opt, losses(model(x)))"}
    assert found_in(convert(script(**slots))) == ["OPT-UNKNOWN"]


@pytest.mark.parametrize(
    ("before", "forward", "step"),
    [
        ("second = Ranger(model.parameters())", CLEARS, STEPS),  # which is prepared
        ("second = Lookahead(optimizer)", CLEARS, STEPS),
        ("second = plan(optimizer, 3)", CLEARS.replace("second.zero_grad()\n", ""), STEPS),
        ("second = plan(3)", CLEARS.replace("second.zero_grad()\n", ""), STEPS),
        ("second = plan(other.parameters())", CLEARS.replace("second.", "other."), "second.step(other)"),  # an average
        ("second = torch.optim.Adam(other.parameters())", CLEARS, STEPS),
        ("losses = Losses(3)", CLEARS.replace("second.", "losses."), "optimizer.step()"),
    ],
)
def test_what_steps_and_is_no_optimizer_of_its_own(before: str, forward: str, step: str) -> None:
    assert "OPT-UNKNOWN" not in codes(before, forward, step)


def test_an_optimizer_of_the_script_s_own_is_known() -> None:
    own = "class Own(torch.optim.Optimizer):\n    def step(self, closure=None):\n        pass"
    assert "OPT-UNKNOWN" not in codes("second = Own(other.parameters(), {})", definitions=own)


def test_what_does_not_run_is_not_looked_at() -> None:
    definitions = "def unused(losses=Losses(3)):\n    losses.opt.zero_grad()\n    losses.opt.step()"
    slots = {"from_imports": IMPORTS, "definitions": definitions}
    result = convert(script(**slots))
    assert result.output is not None and result.output.decode() == lifted(**slots)
