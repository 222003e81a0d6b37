"""Losses that are added up, or collected, sample by sample."""

from __future__ import annotations

import textwrap

import pytest
from scripts import added, findings, script

START = "optimizer.zero_grad()\nout = model(x)\n"


def losses(loss: str) -> tuple[list[str], bool]:
    """What is said of a loss, and whether its gradient is summed across processes."""
    text = script(forward=START + loss)
    told = [code for code in findings(text) if code.startswith("LOSS-")]
    return told, 'accelerator.backward(loss, reduction="sum")' in added(text)


@pytest.mark.parametrize(
    "loop",
    [
        "for o, t in zip(out, y):\n    loss += F.cross_entropy(o, t)",
        "for o, t in zip(out, y):\n    loss = loss + F.cross_entropy(o, t)",
        "for i, (o, t) in enumerate(zip(out, y)):\n    loss += F.cross_entropy(o, t) * 2",
        "for a, t in zip(x, y):\n    loss += F.cross_entropy(model(a), t)",
        "for a in x:\n    loss += model(a).pow(2).mean()",
    ],
)
def test_losses_of_samples_that_are_added_up_are_a_sum(loop: str) -> None:
    assert losses(f"loss = 0\n{loop}") == ([], True)
    assert losses(f"loss = 0\n{loop}\nloss = loss / len(x)") == ([], False)
    assert losses(f"loss = 0\n{loop}\nloss = loss / x.size(0)") == ([], False)


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(x.size(0)):\n    loss = loss + F.cross_entropy(out[i], y[i])",
        "for i in range(len(x)):\n    loss += F.cross_entropy(model(x[i]), y[i])",
    ],
)
def test_losses_of_samples_by_their_number_are_no_mean(loop: str) -> None:
    assert losses(f"loss = 0\n{loop}") == (["LOSS-UNKNOWN"], False)


@pytest.mark.parametrize(
    "loss",
    [
        "found = []\nfor o, t in zip(out, y):\n    found.append((o - t).abs().sum())\nloss = torch.stack(found).mean()",
        "loss = 0\nfor weight in (0.5, 0.5):\n    loss += weight * F.cross_entropy(out, y)",
        "loss = 0\nfor _ in range(3):\n    loss += F.cross_entropy(model(x), y)",
        "for o in out:\n    largest = o.max()\nloss = F.cross_entropy(out, y)",
    ],
)
def test_means_stay_means(loss: str) -> None:
    assert losses(loss) == ([], False)


def test_steps_on_the_way_to_the_loss_of_a_sample() -> None:
    """The gradient of a sample's own loss is that sample's: nothing is compared across the batch."""
    loop = """
        found = []
        for a, t in zip(x, y):
            weight, bias = torch.autograd.grad(
                F.cross_entropy(model(a), t), list(model.parameters()), create_graph=True
            )
            found.append(F.cross_entropy(F.linear(a, model.layer.weight - 0.1 * weight, bias), t))
        loss = torch.stack(found).mean()
    """
    assert "LOSS-INBATCH" not in losses(textwrap.dedent(loop))[0]
    whole = "weight = torch.autograd.grad(F.cross_entropy(out, y), model.layer.weight, create_graph=True)[0]\n"
    assert losses(f"{whole}loss = weight.pow(2).sum()")[0] == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "inner",
    [
        "for p in out:\n        loss += (o - p).pow(2).mean()",
        "for j, p in enumerate(out):\n        found.append((o - p).pow(2).mean())",
    ],
)
def test_every_sample_with_every_other(inner: str) -> None:
    loop = f"loss, found = 0, []\nfor o, t in zip(out, y):\n    loss += F.cross_entropy(o, t)\n    {inner}"
    loop += "\nloss = loss + torch.stack(found).mean()" if "found.append" in loop else ""
    assert losses(loop)[0] == ["LOSS-INBATCH"]
