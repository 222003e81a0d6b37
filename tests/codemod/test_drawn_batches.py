"""Batches that are drawn, cut across all rows, or that have noise and constants beside them: shared out on request."""

from __future__ import annotations

import pytest
from scripts import convert, converted, found_in, script, unchanged

OPEN = {
    "imports": "import numpy as np",
    "data": "X = torch.load('x.pt')\nn = 16\nspread = 0.5",
    "loader": "",
    "loop": "for i in range(0, 64, n):",
}
ZERO = "loss = model(x).pow(2).mean()"

DRAWN = [
    "x = torch.randn(n, 8)",
    "x = torch.rand((n, 8), device=device)",
    "x = torch.normal(0, 1, size=(n, 8))",
    "x = torch.randint(0, 9, (n, 8)).float()",
    "x = torch.from_numpy(np.random.uniform(-1, 1, (n, 8))).float()",
    "x = torch.tensor(np.random.randn(n, 8))",
    "x = torch.randn(n, 8)\nx = x.to(device) * 2",
    "x = torch.randn(n, 8) * spread + 1",
]


@pytest.mark.parametrize("move", DRAWN)
def test_rows_that_are_drawn(move: str) -> None:
    """The main process draws for all."""
    drawn = move.splitlines()[0]
    output = converted(script(**OPEN, move=move, forward=ZERO), shard_manual=True)
    assert f"        {drawn}\n        x = accelerator.split_batch(x)\n" in output and output.count("split_batch") == 1
    assert "--shard-manual" in unchanged(script(**OPEN, move=move, forward=ZERO)).remedy


# What is drawn is one sample, has no certain number of rows, or is something else than a batch.
NOT_DRAWN = [
    {"move": "x = torch.randn(n)"},
    {"move": "x = torch.randn(1, 8)", "forward": "loss = (model(x) * i).pow(2).mean()"},
    {"move": "x = torch.randn(n, 8, requires_grad=True)"},
    {"move": "n = n // 2\nx = torch.randn(n, 8)"},
    {"move": "x = torch.randn(n, 8)\nz = torch.randn(4, 8)", "forward": "loss = (model(x).mean(0) - model(z)).mean()"},
    {"move": "if i:\n    x = torch.randn(n, 8)\nelse:\n    x = torch.zeros(n, 8)"},
    {"move": "x = torch.randn(n, 8)", "forward": "loss = (model(x) @ model(x).t()).mean()"},
    {"move": "x = torch.randn(n, 8)", "forward": "loss = model(X @ x).mean()"},
    # as much noise as there are data
    {"move": "z = torch.randn(n, 8)\nx = X + 0.1 * z"},
    {"move": "z = torch.randn(n, 8)", "forward": "out = 0.1 * z\nloss = model(X - out).mean()"},
    {"move": "z = torch.randn(n, 8)", "forward": "loss = model(torch.cat([X, z], 1)).mean()"},
    {"move": "z = torch.randn(n, 8)", "forward": "loss = model(z, X).mean()"},
]


@pytest.mark.parametrize("slots", NOT_DRAWN)
def test_what_is_drawn_otherwise(slots: dict[str, str]) -> None:
    assert unchanged(script(**{**OPEN, "forward": ZERO, **slots}), shard_manual=True).code == "DATA-UNSHARDED"


PICKED = "x = X[np.random.randint(0, 64, n)]"
GAN = """\
optimizer.zero_grad()
loss = F.mse_loss(model(x), real) + F.mse_loss(model(z), fake)
loss.backward()
optimizer.step()
z = torch.randn(n, 8)
loss = F.mse_loss(model(z), real)"""


def test_noise_and_constants_of_the_size_of_a_batch() -> None:
    """What is drawn again in the same iteration is dealt again."""
    labels = "real = torch.ones(n, 3)\nfake = torch.zeros((n, 3), device=device)\nz = torch.randn(n, 8)"
    output = converted(script(**OPEN, move=f"{PICKED}\n{labels}", forward=GAN), shard_manual=True)
    assert "z = torch.randn(n, 8)\n        x, real, fake, z = accelerator.split_batch(x, real, fake, z)\n" in output
    assert "z = torch.randn(n, 8)\n        z = accelerator.split_batch(z)\n        loss = F.mse" in output
    assert output.count("split_batch") == 2
    seeded = script(**OPEN, setup="torch.manual_seed(0)", move=f"{PICKED}\n{labels}", forward=GAN)
    assert "RNG-SAMENOISE" not in found_in(convert(seeded, shard_manual=True))


def test_constants_of_the_size_of_a_batch() -> None:
    text = script(**OPEN, move=f"{PICKED}\ny = torch.ones(n, 3)", forward="loss = F.mse_loss(model(x), y)")
    assert "x, y = accelerator.split_batch(x, y)" in converted(text, shard_manual=True)


# Noise that is drawn for something else, of the size of batches or of another one.
BESIDE = [
    "if i % 32 == 0:\n    shown = model(torch.randn(n, 8))",
    "with torch.no_grad():\n    z = torch.randn(4, 8)\n    shown = model(z)",
    "shown = torch.randn(4, 8)",
]


@pytest.mark.parametrize("more", BESIDE)
def test_noise_for_something_else(more: str) -> None:
    text = script(**OPEN, move=PICKED, forward=ZERO, batch_end=more)
    output = converted(text, shard_manual=True)
    assert "x = accelerator.split_batch(x)" in output and output.count("split_batch") == 1


@pytest.mark.parametrize(
    "forward",
    [
        "loss = F.mse_loss(model(x), real)\nz = torch.randn(8, 8)\nloss = loss + model(z).mean()",
        "loss = F.mse_loss(model(x), real)\nz = x + torch.randn(n, 8)\nloss = loss + (model(z) * X).mean()",
        "loss = F.mse_loss(model(x), real)\nz = torch.randn(n, 8)[:4]\nloss = loss + model(z).mean()",
        "seen = z\nloss = F.mse_loss(model(x), real) + seen.mean()\nz = torch.randn(n, 8)",
    ],
)
def test_noise_that_is_none_of_the_batch(forward: str) -> None:
    slots = {"before": "z = torch.zeros(n, 8)", "move": f"{PICKED}\nreal = torch.ones(n, 3)"}
    assert unchanged(script(**OPEN, **slots, forward=forward), shard_manual=True).code == "DATA-UNSHARDED"


APART = "loss = F.mse_loss(model(x), y)"
STEPS = """\
def get_batch(source, start):
    size = min(8, source.size(1) - 1 - start)
    return source[:, start : start + size], source[:, start + 1 : start + size + 1].contiguous()
"""


@pytest.mark.parametrize("move", ["x, y = X[:, i : i + 8], X[:, i + 1 : i + 9]", "x, y = get_batch(X, i)"])
def test_steps_of_sequences_that_all_have(move: str) -> None:
    """A batch has the same rows in each iteration, and other columns."""
    output = converted(script(**OPEN, definitions=STEPS, move=move, forward=APART), shard_manual=True)
    assert f"        {move}\n        x, y = accelerator.split_batch(x, y)\n" in output


@pytest.mark.parametrize(
    "slots",
    [
        {"move": "x, y = X[:, i], X[:, i + 1]"},  # one dimension
        {"move": "x, y = X[2:, i : i + 8], X[2:, i + 1 : i + 9]"},
        {"move": "x = X[:, i : i + 8]", "before": "y = torch.load('y.pt')"},
        {"move": "x, y = X[:, i : i + 8], X[:8, i + 1 : i + 9]"},
        {"move": "x, y = X[:, i : i + 8], X[:, i + 1 : i + 9]", "forward": "loss = F.mse_loss(model(x).mean(0), y[0])"},
    ],
)
def test_steps_of_sequences_that_are_cut_otherwise(slots: dict[str, str]) -> None:
    assert unchanged(script(**{**OPEN, "forward": APART, **slots}), shard_manual=True).code == "DATA-UNSHARDED"
