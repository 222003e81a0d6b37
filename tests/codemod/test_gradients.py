"""Loops whose losses a backward pass outside of them goes back from: they train, and gather nothing."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script

NOTHING = {"forward": "", "backward": "", "step": ""}
STEP = "optimizer.zero_grad()\n{}\noptimizer.step()"
GATHERED = "y = accelerator.gather_for_metrics(y)\n"


def summed(forward: str, epoch_end: str, epoch: str = "total = 0.0", **slots: str) -> dict[str, str]:
    return {**NOTHING, "epoch": epoch, "forward": forward, "epoch_end": STEP.format(epoch_end), **slots}


@pytest.mark.parametrize(
    ("epoch", "forward", "loss"),
    [
        ("total = 0.0", "total += F.cross_entropy(model(x), y)", "total"),
        ("total = 0.0", "total = total + F.cross_entropy(model(x), y)", "(total / len(loader))"),
        ("parts = []", "parts.append(F.cross_entropy(model(x), y))", "torch.stack(parts).mean()"),
        ("parts = []", "out = model(x)\nparts += [F.cross_entropy(out, y)]", "sum(parts)"),
    ],
)
def test_losses_that_are_added_up(epoch: str, forward: str, loss: str) -> None:
    before = summed(forward, f"{loss}.backward()", epoch)
    bare = loss[1:-1] if loss.startswith("(") else loss
    after = summed(forward, f"accelerator.backward({bare})", epoch)
    assert converted(script(**before)) == lifted(**after)
    assert set(findings(script(**before))) == {"LOSS-UNKNOWN", "LOSS-LATER"}


def test_a_mean_that_is_divided_in_a_line_of_its_own() -> None:
    forward = "total += F.cross_entropy(model(x), y)"
    before = summed(forward, "total /= len(loader)\ntotal.backward()")
    after = summed(forward, "total /= len(loader)\naccelerator.backward(total)")
    assert converted(script(**before)) == lifted(**after)


def test_a_function_that_returns_the_losses() -> None:
    definitions = """\
def whole(net, batches, device):
    total = 0.0
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        total += F.cross_entropy(net(x), y)
    return total
"""
    slots = {"definitions": definitions, "loop": "", "move": "", **NOTHING}
    text = converted(script(**slots, epoch=STEP.format("loss = whole(model, loader, device)\nloss.backward()")))
    assert "gather" not in text and "accelerator.backward(loss)" in text and "accelerator.prepare(model" in text


ACCURACY = (
    "correct = 0\nwith torch.no_grad():\n    for x, y in held:\n        {}\nshare = correct / len(held.dataset)\n"
)
HELD = "loader = DataLoader(data, batch_size=16, shuffle=True)\nheld = DataLoader(data, batch_size=16)"


@pytest.mark.parametrize(
    "line",
    [
        "correct += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()",
        "correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()",
        "correct += F.cross_entropy(model(x.to(device)), y.to(device)).item()",
    ],
)
def test_what_is_measured_and_weighs_a_loss_is_gathered(line: str) -> None:
    for grad in (True, False):
        block = ACCURACY.format(line)
        if grad:  # the same where nobody has switched gradients off
            block = block.replace("with torch.no_grad():\n    for", "for").replace("\n        corr", "\n    corr")
        text = script(loader=HELD, epoch=block, forward="loss = F.cross_entropy(model(x), y) * (1 - share)")
        assert "gather_for_metrics" in converted(text)


def test_losses_that_are_only_shown_are_gathered() -> None:
    block = "seen = 0.0\nfor x, y in held:\n    seen += F.cross_entropy(model(x.to(device)), y.to(device))\nprint(seen)"
    assert "gather_for_metrics" in converted(script(loader=HELD, epoch_end=block))


def test_what_is_detached_is_gathered() -> None:
    block = "seen = 0.0\nfor x, y in held:\n    seen += F.cross_entropy(model(x.to(device)), y.to(device)).detach()\n"
    text = script(loader=HELD, epoch=block, forward="loss = F.cross_entropy(model(x), y) + seen")
    assert "gather_for_metrics" in converted(text)


def test_a_function_that_training_and_evaluation_call() -> None:
    definitions = "def distance(a, b):\n    return (a - b).pow(2).mean()"
    block = "seen = 0.0\nfor x, y in held:\n    seen += distance(model(x.to(device)), y.to(device))\nprint(seen)"
    text = script(
        definitions=definitions,
        loader=HELD,
        forward="loss = distance(model(x), y)\noptimizer.zero_grad()",
        epoch_end=block,
    )
    assert "LOSS-LATER" not in findings(text) and "gather_for_metrics" in converted(text)
