"""Losses, and what they are computed from, that are changed where they are."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, findings, lifted, script, severities

MEAN = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\n"
EACH = "optimizer.zero_grad()\nlosses = F.cross_entropy(model(x), y, reduction='none')\n"


def told(forward: str, **slots: str) -> list[str]:
    """What is said of a loss."""
    return [code for code in findings(script(forward=forward, **slots)) if code.startswith("LOSS-")]


@pytest.mark.parametrize(
    "change",
    [
        "loss.clamp_(min=1)",
        "loss.data.clamp_(min=1)",
        "loss.pow_(2)",
        "loss.sub_(1).abs_().add_(1)",
        "loss -= 1\nloss.abs_()",
        "loss.view(1).sqrt_()",
        "loss.div_(loss.detach())",
        "loss = loss.add(1).log_()",
        "both = loss.sqrt_() + 1",
        "torch.sqrt_(loss)",
        "torch.clamp(loss, 1, out=loss)",
        "F.relu(loss, inplace=True)",
        "loss.add_(model(x).norm())",
        # and made anew
        "loss = abs(loss - 1) + 1",
        "loss = pow(loss, 2)",
        "loss = 2**loss",
        "loss = loss % 1",
        "loss = max([loss, model(x).pow(2).mean()])",
        "loss = torch.atan(loss)",
    ],
)
def test_a_mean_that_becomes_none_is_reported(change: str) -> None:
    assert told(MEAN + change) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "change",
    ["loss.add_(model(x).pow(2).sum())", "loss += model(x).pow(2).sum()", "torch.add(loss, model(x).sum(), out=loss)"],
)
def test_a_sum_that_is_added_in_place_is_reported(change: str) -> None:
    assert told(MEAN + change) == ["LOSS-SUM"]


@pytest.mark.parametrize(
    "change",
    [
        "loss.mul_(0.5)",
        "loss.div_(4).add_(1)",
        "loss.sub_(1.0)",
        "loss.add_(sum(p.pow(2).sum() for p in model.parameters()), alpha=0.1)",
        "loss.requires_grad_()",
        "loss += F.mse_loss(model(x), F.one_hot(y, 3).float())",
        "copy = loss.clone()\ncopy.clamp_(min=1)",
        "other = loss * 2\nother.abs_()",
    ],
)
def test_a_mean_that_stays_one_is_as_it_was(change: str) -> None:
    assert converted(script(forward=MEAN + change)) == lifted(forward=MEAN + change)


@pytest.mark.parametrize(
    "change",
    [
        "losses[losses > losses.mean()] = 0",
        "losses.masked_fill_(losses > losses.mean(), 0)",
        "losses.sub_(losses.mean()).abs_()",
        "losses.data.div_(losses.data.max())",
    ],
)
def test_samples_that_meet_in_place_are_reported(change: str) -> None:
    assert told(f"{EACH}{change}\nloss = losses.mean()") == ["LOSS-INBATCH"]


@pytest.mark.parametrize("change", ["losses[losses > 1] = 0", "losses.clamp_(max=1)", "losses.mul_(2)", "losses *= 2"])
def test_what_is_changed_for_each_sample_stays_a_mean(change: str) -> None:
    forward = f"{EACH}{change}\nloss = losses.mean()"
    assert converted(script(forward=forward)) == lifted(forward=forward)


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ("value.clamp_(min=1)", "change(loss)"),
        ("value *= value.detach()", "change(loss)"),
        ("value.sub_(1)\n    value.abs_()\n    return 0", "none = change(loss)"),
        ("inner(value)", "change(loss)"),
    ],
)
def test_a_function_that_changes_a_loss_is_followed(body: str, call: str) -> None:
    functions = f"def inner(value):\n    value.sqrt_()\n\n\ndef change(value):\n    {body}"
    assert told(MEAN + call, definitions=functions) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ("value = value.clamp(min=1)", "change(loss)"),
        ("value = value.clone()\n    value.clamp_(min=1)", "change(loss)"),
        ("value = value + 1\n    value *= value.detach()\n    return value", "shown = change(loss)"),
        ("value.mul_(2)", "change(loss)"),
    ],
)
def test_a_function_that_changes_something_else_leaves_the_loss(body: str, call: str) -> None:
    forward, definitions = MEAN + call, f"def change(value):\n    {body}"
    assert converted(script(forward=forward, definitions=definitions)) == lifted(
        forward=forward, definitions=definitions
    )


def test_losses_in_a_list_or_a_dict_are_changed_there() -> None:
    listed = "optimizer.zero_grad()\nlosses = [F.cross_entropy(model(x), y)]\nlosses[0].pow_(2)\nloss = sum(losses)"
    assert told(listed) == ["LOSS-INBATCH"]
    named = 'optimizer.zero_grad()\nparts = {"a": F.cross_entropy(model(x), y)}\nparts["a"].pow_(2)\nloss = parts["a"]'
    assert told(named) == ["LOSS-INBATCH"]


def test_what_begins_as_a_number_becomes_what_is_added_in_place() -> None:
    forward = f"{MEAN}total = torch.zeros((), device=device)\ntotal.add_(model(x).pow(2).sum())\nloss = loss + total"
    assert told(forward) == ["LOSS-SUM"]
    assert severities(script(forward=forward), "LOSS-SUM") == ["error"]


@pytest.mark.parametrize(
    "change",
    [
        "loss = loss / x.size(0)",
        "loss /= len(x)",
        "loss.div_(y.shape[0])",
        "loss = loss * (1 / len(y))",
        "n = x.size(0)\nloss = 0.5 * loss / n + 0.1 * model.layer.weight.norm()",
        "loss = loss + model(x).pow(2).mean() / len(x)",
    ],
)
def test_a_mean_that_is_divided_by_the_number_of_samples_is_reported(change: str) -> None:
    assert told(MEAN + change) == ["LOSS-SHRUNK"]
    assert severities(script(forward=MEAN + change), "LOSS-SHRUNK") == ["error"]


@pytest.mark.parametrize(
    "change",
    [
        "loss = loss / len(x) * x.size(0)",
        "loss = loss / len(loader)",
        "loss = loss / x.size(1)",
        "loss = (loss * len(x)) / len(x)",
        "loss = F.cross_entropy(model(x), y, reduction='sum') / len(x)",
    ],
)
def test_a_mean_that_is_divided_by_other_numbers_is_one(change: str) -> None:
    assert told(MEAN + change) == []
