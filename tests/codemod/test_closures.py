"""Optimizers that step by a closure: converted where the runtime can average what the closure returns."""

from __future__ import annotations

import pytest
from scripts import added, converted, findings, lifted, script, unchanged

LBFGS = "optimizer = torch.optim.LBFGS(model.parameters())"
CLOSURE = """\
def closure():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss
"""
CONVERTED = CLOSURE.replace("loss.backward()", "accelerator.backward(loss)")
STEPS = {"forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"}
SLOTS = {"forward": CLOSURE, "backward": "", "step": "optimizer.step(closure)"}


@pytest.mark.parametrize("optimizer", [LBFGS, "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"])
@pytest.mark.parametrize("step", ["optimizer.step(closure)", "loss = optimizer.step(closure=closure)"])
@pytest.mark.parametrize("main", [False, True])
def test_closure(optimizer: str, step: str, main: bool) -> None:
    slots = {**SLOTS, "optimizer": optimizer, "step": step}
    assert converted(script(main=main, **slots)) == lifted(main=main, **{**slots, "forward": CONVERTED})
    assert findings(script(main=main, **slots)) == []  # the loss is seen to be a mean


def test_a_sum_over_the_batch_stays_one() -> None:
    slots = {**SLOTS, "forward": CLOSURE.replace("y)", "y, reduction='sum')"), "optimizer": LBFGS}
    assert 'accelerator.backward(loss, reduction="sum")' in added(script(**slots))


def test_the_function_around_a_closure_gets_the_accelerator() -> None:
    body = "".join(f"        {line}\n" for line in CLOSURE.splitlines())
    train = f"def train(model, loader, optimizer):\n    for x, y in loader:\n{body}        optimizer.step(closure)"
    slots = {"definitions": train, "optimizer": LBFGS, "loop": "train(model, loader, optimizer)"}
    slots |= dict.fromkeys(("move", "forward", "backward", "step"), "")
    text = converted(script(main=True, **slots))
    assert "def train(model, loader, optimizer, accelerator):" in text
    assert "        def closure():\n" in text and "train(model, loader, optimizer, accelerator)" in text


def test_what_step_returns_is_the_loss_of_the_whole_batch() -> None:
    slots = {
        **SLOTS,
        "optimizer": LBFGS,
        "epoch": "total = 0.0",
        "step": "total += optimizer.step(closure).item() * len(x)",
        "epoch_end": "print(total / len(loader.dataset))",
    }
    assert any("gather_for_metrics" in line for line in added(script(**slots)))
    summed = {**slots, "forward": CLOSURE.replace("y)", "y, reduction='sum')")}
    summed["step"] = "total += optimizer.step(closure).item()"
    assert not any("gather_for_metrics" in line for line in added(script(**summed)))


@pytest.mark.parametrize(
    "slots",
    [
        {"optimizer": LBFGS, "step": "optimizer.step(lambda: closure())"},
        {"optimizer": LBFGS, "step": "optimizer.step(closure if epoch else print)"},
        {"optimizer": LBFGS, **STEPS, "step": "loss.backward()\noptimizer.step()"},
        {"optimizer": LBFGS, **STEPS, "step": "loss.backward()"},
        {
            "definitions": "def read(x):\n    return x",
            "step": "loss = F.cross_entropy(model(x), y)\nloss.backward()\noptimizer.step(read)",
        },
    ],
)
def test_closures_that_cannot_be_followed(slots: dict[str, str]) -> None:
    assert unchanged(script(**{**SLOTS, **slots})).code == "BWD-CLOSURE"


def test_accelerate_keeps_the_loss_to_itself() -> None:
    assert unchanged(script(**SLOTS), target="accelerate").code == "BWD-CLOSURE"


SHOWN = "loss = optimizer.step(closure)\nprint(loss.item())"
OWN = "class Own(torch.optim.SGD):\n    def step(self, closure):\n        return closure() + 1\n"


@pytest.mark.parametrize(
    ("step", "codes"),
    [
        (SHOWN, []),
        (SHOWN.replace("print", "total = "), []),
        ("value = optimizer.step(closure=closure)\nprint(f'{epoch}: {value:.4f}')", []),
        ("loss = optimizer.step(closure)\nif loss.item() < 0.1:\n    break", []),
        ("optimizer.step(closure)\nprint(closure().item())", ["METRIC-TRAIN"]),
        ("loss = optimizer.step(closure)\nloss = F.cross_entropy(model(x), y)\nprint(loss.item())", ["METRIC-TRAIN"]),
        ("loss = optimizer.step(closure) * len(set(y))\nprint(loss.item())", ["METRIC-TRAIN"]),
    ],
)
def test_what_is_shown_of_what_step_returns_is_that_of_the_whole_batch(step: str, codes: list[str]) -> None:
    assert findings(script(**{**SLOTS, "optimizer": LBFGS, "step": step})) == codes


def test_what_an_optimizer_of_the_script_returns_is_not_known() -> None:
    slots = {**SLOTS, "definitions": OWN, "optimizer": "optimizer = Own(model.parameters(), lr=0.1)", "step": SHOWN}
    assert "METRIC-TRAIN" in findings(script(**slots))


def test_a_closure_that_decides_does_so_by_its_own_share() -> None:
    deciding = CLOSURE.replace("    loss.backward()", "    if loss.item() < 10:\n        loss.backward()")
    text = script(**{**SLOTS, "forward": deciding, "optimizer": LBFGS, "step": SHOWN})
    assert findings(text) == ["COLL-RANKFLOW", "METRIC-TRAIN"]
