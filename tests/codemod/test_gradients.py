"""Loops whose losses a backward pass outside of them goes back from: they train, and gather nothing."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, added, converted, findings, lifted, script

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
    listed = {"LOSS-UNKNOWN"} if "parts +=" in forward else set()  # what a list has is followed where it is appended
    assert set(findings(script(**before))) == {"LOSS-LATER"} | listed


SUMMED = 'F.cross_entropy(model(x), y, reduction="sum")'


@pytest.mark.parametrize(
    ("forward", "later"),
    [
        (f"total = total + {SUMMED}", "total"),
        (f"total += {SUMMED}", "total / len(data)"),
        (f"loss = {SUMMED} / 64\ntotal += loss", "total"),
    ],
)
def test_sums_that_are_added_up_are_summed_across_processes(forward: str, later: str) -> None:
    for epoch_end in (f"({later}).backward()", f"loss = {later}\nloss.backward()"):
        text = script(**summed(forward, epoch_end))
        lines = "".join(added(text))
        assert 'reduction="sum")' in lines and "gather" not in lines and "reduce(" not in lines
        assert findings(text) == ["LOSS-LATER"]


def test_the_samples_of_a_share_divide_its_own_losses() -> None:
    slots = summed(f"total += {SUMMED}\nn += len(x)", "(total / n).backward()", "total = 0\nn = 0")
    assert "gather" not in "".join(added(script(**slots))) and findings(script(**slots)) == ["LOSS-LATER"]


def test_means_by_the_samples_of_all() -> None:
    """A sum of means, of which each process has the same, is divided by what all have counted."""
    slots = summed("total += F.cross_entropy(model(x), y)\nn += len(x)", "(total / n).backward()", "total = 0\nn = 0")
    assert "    n += accelerator.gather_for_metrics(torch.tensor(len(x))).sum().item()" in converted(script(**slots))


def test_a_loss_that_is_printed_too_keeps_its_gradient() -> None:
    """Divided by the size of the data, it would be summed and detached if nothing went back from it."""
    end = "loss = total / len(data)\nloss.backward()\nprint(loss.item())"
    text = script(**summed(f"total += {SUMMED}", end))
    assert "detach" not in converted(text) and findings(text) == ["LOSS-LATER", "METRIC-TRAIN"]


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


@pytest.mark.parametrize(
    ("loss", "codes"),
    [
        ("F.cross_entropy(torch.cat(outs), torch.cat(labels).to(device))", ["LOSS-LATER"]),
        ("(torch.cat(outs) - torch.cat(outs).mean(0)).pow(2).mean()", ["LOSS-INBATCH", "LOSS-LATER"]),
    ],
)
def test_a_loss_of_what_lists_have_of_all_batches(loss: str, codes: list[str]) -> None:
    slots = summed(
        "outs.append(model(x))\nlabels.append(y)", f"loss = {loss}\nloss.backward()", "outs, labels = [], []"
    )
    assert sorted(findings(script(**slots))) == codes


KINDS = """\
for epoch in range(2):
    if {first}:
        for x, y in loader:
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
{second}
        for x, y in loader:
            {begin}
            loss += F.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()"""


@pytest.mark.parametrize(
    ("kinds", "later"),
    [
        # Each loop makes its own loss.
        ({"first": "kind == 1", "second": "    else:", "begin": "loss = 0"}, False),
        ({"first": "kind == 1", "second": "    if kind == 2:", "begin": "loss = 0"}, False),
        # It may begin with that of the other loop, which runs with it or in another epoch.
        ({"first": "kind == 1", "second": "    else:", "begin": "pass"}, False),
        ({"first": "kind == 1", "second": "    if kind < 3:", "begin": "pass"}, True),
        ({"first": "epoch == 1", "second": "    else:", "begin": "pass"}, True),
    ],
)
def test_the_losses_of_loops_in_several_arms(kinds: dict[str, str], later: bool) -> None:
    text = script(**NO_LOOP, before="kind = 1\nloss = 0", after=KINDS.format(**kinds))
    assert ("LOSS-LATER" in findings(text)) is later


@pytest.mark.parametrize(
    ("epoch", "forward", "epoch_end", "later"),
    [
        ("", "loss = F.cross_entropy(model(x), y)\ntake(loss)", "", False),
        ("", "out = model(x)\nnested(F.cross_entropy(out, y))", "", False),
        ("total = 0.0", "total += F.cross_entropy(model(x), y)", "take(total)", True),
        ("total = 0.0", "total += F.cross_entropy(model(x), y)", "nested(total)", True),
    ],
)
def test_a_function_that_takes_the_step(epoch: str, forward: str, epoch_end: str, later: bool) -> None:
    """It is the loop around its calls that has to be left before a loss is one of several batches."""
    take = "def take(loss):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()"
    nested = "def nested(loss):\n    take(loss)"
    slots = {**NOTHING, "epoch": epoch, "forward": forward, "epoch_end": epoch_end}
    text = script(definitions=f"{take}\n\n\n{nested}", **slots)
    assert "accelerator.backward(loss)" in converted(text)
    assert ("LOSS-LATER" in findings(text)) is later
