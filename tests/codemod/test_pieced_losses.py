"""Losses of pieces that a batch is cut into: a process cuts its own share, into fewer pieces or smaller ones."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import convert, script, severities

PARTS = "zip(x.split(4), y.split(4))"
EACH = "F.cross_entropy(model(a), b)"


def said(forward: str, **slots: str) -> list[str]:
    """The codes of the findings about the loss of a script; `sum` if the loss is marked as one."""
    result = convert(script(forward=f"optimizer.zero_grad()\nout = model(x)\n{forward}", **slots))
    assert result.plan is not None and "accelerator.backward(loss" in result.diff
    found = [f.code for f in result.plan.findings if f.code.startswith("LOSS-")]
    return [*found, *(["sum"] if 'reduction="sum"' in result.diff else [])]


def over(parts: str, each: str = EACH, after: str = "") -> str:
    return f"loss = 0\nfor a, b in {parts}:\n    loss = loss + {each}\n{after}"


@pytest.mark.parametrize(
    "loss",
    [
        over(PARTS),
        over(PARTS, after="loss = loss / 4"),
        over("zip(torch.split(x, 4), torch.split(y, 4, dim=0))"),
        over("zip(x.chunk(3), y.chunk(3))", after="loss /= 3"),
        over("zip(x.tensor_split(3), y.tensor_split(3))", after="loss /= 3"),
        f"parts = list({PARTS})\n{over('parts', after='loss = loss / len(parts)')}",
        f"parts = list({PARTS})\nloss = 0\nwhile parts:\n    a, b = parts.pop()\n    loss += {EACH}",
        "ys = y.split(4)\nloss = 0\nfor i, a in enumerate(x.split(4)):\n    loss += F.cross_entropy(model(a), ys[i])",
        "xs, ys = x.split(4), y.split(4)\nloss = 0\nfor i in range(len(xs)):\n"
        "    loss += F.cross_entropy(model(xs[i]), ys[i])\nloss = loss / len(xs)",
        "loss = 0\nfor i in range(0, len(x), 4):\n    loss += F.cross_entropy(out[i:i + 4], y[i:i + 4])",
        "loss = 0\nfor i in range(0, x.size(0), 4):\n    loss += F.cross_entropy(out[i:i + 4], y[i:i + 4])",
        f"losses = []\nfor a, b in {PARTS}:\n    losses.append({EACH})\nloss = torch.stack(losses).mean()",
        f"losses = []\nfor a, b in {PARTS}:\n    losses.append({EACH})\nloss = sum(losses) / len(losses)",
        f"loss = sum({EACH} for a, b in {PARTS})",
        f"loss = torch.stack([{EACH} for a, b in {PARTS}]).mean()",
        "loss = F.cross_entropy(out, y) + 0.1 * torch.stack([a.abs().mean() for a in out.split(2)]).sum()",
    ],
)
def test_means_over_pieces_are_reported(loss: str) -> None:
    assert said(loss) == ["LOSS-PIECES"]


@pytest.mark.parametrize(
    "loss",
    [
        "loss = F.cross_entropy(torch.cat([model(a) for a in x.split(4)]), y)",
        "outs = []\nfor a in x.split(4):\n    outs.append(model(a))\nloss = F.cross_entropy(torch.cat(outs), y)",
        "loss = F.cross_entropy(torch.cat(out.chunk(2)), y)",
        f"{over(PARTS, EACH[:-1] + ', reduction=' + repr('sum') + ')', 'loss = loss / len(x)')}",
        "loss = 0\nfor a in out.split(1, dim=1):\n    loss = loss + a.pow(2).mean()",
        "loss = torch.stack([a.pow(2).mean() for a in out.chunk(3, 1)]).mean()",
        "a, b = model(torch.cat([x, x])).chunk(2)\nloss = F.cross_entropy(a, y) + F.cross_entropy(b, y)",
        "loss = 0\nfor v in model(torch.cat([x, x])).chunk(2):\n    loss = loss + F.cross_entropy(v, y)",
        "loss = 0\nfor k in range(3):\n    loss = loss + F.cross_entropy(model(x), y)",
        "loss = 0\nfor k in range(0, 8, 2):\n    loss = loss + F.cross_entropy(model(x * k), y)",
        "loss = F.cross_entropy(out, y)\nshown = sum(F.cross_entropy(a, b) for a, b in zip(out.split(4), y.split(4)))",
    ],
)
def test_what_puts_pieces_together_again_and_other_loops_are_not(loss: str) -> None:
    assert said(loss) == []


def test_a_sum_over_the_samples_of_all_pieces_is_one() -> None:
    assert said(over(PARTS, "F.cross_entropy(model(a), b, reduction='sum')")) == ["sum"]


def test_samples_that_meet_in_their_piece_meet() -> None:
    assert said("loss = F.cross_entropy(torch.cat([F.normalize(a, dim=0) for a in out.split(4)]), y)") == [
        "LOSS-INBATCH"
    ]
    rows = "loss = F.cross_entropy(torch.cat([F.normalize(a, dim=1) for a in out.split(4)]), y)"
    assert said(rows) == []
    assert said("whole = torch.cat([a for a in out.split(4)])\nloss = F.cross_entropy(whole - whole.mean(0), y)") == [
        "LOSS-INBATCH"
    ]


@pytest.mark.parametrize(
    ("parts", "severity"),
    [
        ("zip(x.chunk(4), y.chunk(4))", "note"),  # as many pieces everywhere
        ("zip(x.split(4), y.split(4))", "warning"),
        ("zip(torch.split(x, 4), torch.split(y, 4))", "warning"),
        ("zip(torch.chunk(x, 4), torch.chunk(y, 4))", "note"),
    ],
)
@pytest.mark.parametrize(
    "beside",
    [
        "",
        "names = 'a,b'.split(',')\nfor i in range(0, 8, 2):\n    print(names, i)",
        "for step in range(3):\n    halves = x.split(4, 1)",
        "for i in range(0, 8, 2):\n    shown = str(i).split('.')",
    ],
)
def test_fewer_pieces_are_worse_than_smaller_ones(parts: str, severity: str, beside: str) -> None:
    forward = f"optimizer.zero_grad()\n{over(parts, after='loss = loss / 4')}"
    for slots in ({"setup": beside.replace("x.split", "torch.ones(8, 8).split")}, {"batch_end": beside}):
        assert severities(script(forward=forward, **slots), "LOSS-PIECES") == [severity]


def test_pieces_by_their_numbers_have_a_size() -> None:
    loss = "loss = 0\nfor i in range(0, len(x), 4):\n    loss += F.cross_entropy(out[i:i + 4], y[i:i + 4])"
    text = script(forward=f"optimizer.zero_grad()\nout = model(x)\n{loss}")
    assert severities(text, "LOSS-PIECES") == ["warning"]
