"""Batches that a script makes without a loader: shared out on request, where that is proved right; else the reason."""

from __future__ import annotations

import re
import textwrap

import pytest
from accelift_codemod.plan import Outcome
from scripts import convert, converted, found_in, lifted, script, unchanged

DATA = "X, Y = torch.load('x.pt'), torch.load('y.pt')\norder = torch.randperm(70)"
OPEN = {"data": DATA, "loader": "", "loop": "for i in range(0, 70, 16):"}
MADE = {
    **OPEN,
    "accelerate": "from accelift import Accelerator",
    "device": "accelerator = Accelerator()\ndevice = accelerator.device",
    "prepare": "model, optimizer = accelerator.prepare(model, optimizer)",
}
ROWS = "rows = order[i : i + 16]"
TAKEN = "x, y = X[rows].to(device), Y[rows].to(device)"
DEALT = "rows = accelerator.split_batch(rows)"
GET_BATCH = """\
def get_batch(data):
    picked = torch.randint(len(data) - 8, (16,))
    x = torch.stack([data[i : i + 8] for i in picked])
    y = torch.stack([data[i + 8] for i in picked])
    return x.to(device), y.to(device)
"""

# What the loop does to make its batch, other slots, and the line that follows the last of it.
SHARED = [
    (f"{ROWS}\n{TAKEN}", {}, ROWS, DEALT),
    ("x = X[i : i + 16].to(device)\ny = Y[i : i + 16].to(device)", {}, "", "x, y = accelerator.split_batch(x, y)"),
    ("x, y = X[i : i + 16], Y[i : i + 16]", {}, "", "x, y = accelerator.split_batch(x, y)"),
    (
        "x = X[order[i : i + 16]].to(device)\ny = Y[order[i : i + 16]].to(device)",
        {},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    (
        "x = X[order[i : i + 16]].to(device)\ny = Y[i : i + 16]",
        {"forward": "x += 0.5\nx[:, 0] = 0\nloss = F.cross_entropy(model(x), y)"},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    ("x, y = X[i : i + 16] / 2, Y[i : i + 16]\nx += 0.5", {}, "Y[i : i + 16]", "x, y = accelerator.split_batch(x, y)"),
    ("stop = i + 16\nx, y = X[i:stop], Y[i:stop]", {}, "", "x, y = accelerator.split_batch(x, y)"),
    ("x, y = X[i : min(i + 16, 70)], Y[i : min(i + 16, 70)]", {}, "", "x, y = accelerator.split_batch(x, y)"),
    (
        f"rows = order[k * 16 : (k + 1) * 16]\n{TAKEN}",
        {"loop": "for k in range(4):"},
        "rows = order[k * 16 : (k + 1) * 16]",
        DEALT,
    ),
    (f"{ROWS}\n{TAKEN}", {"loop": "for n, i in enumerate(range(0, 70, 16)):"}, ROWS, DEALT),
    (
        f"rows = torch.randperm(70)[:16]\n{TAKEN}",
        {"loop": "for _ in range(9):"},
        "rows = torch.randperm(70)[:16]",
        DEALT,
    ),
    (
        f"rows = np.random.choice(70, 16)\n{TAKEN}",
        {"loop": "for _ in range(9):", "imports": "import numpy as np"},
        "rows = np.random.choice(70, 16)",
        DEALT,
    ),
    (
        "x, y = get_batch(X)",
        {"loop": "for _ in range(9):", "definitions": GET_BATCH},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    # what the bounds come to
    (
        "x, y = X[(k - 1) * 16 : k * 16], Y[(k - 1) * 16 : k * 16]",
        {"loop": "for k in range(1, 5):", "batch_end": "seen = k"},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    (
        "start, end = 4 + k * 16, 4 + 16 * (k + 1)\nx, y = X[start:end], Y[start:end]",
        {"loop": "for k in range(4):"},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    (
        "end = (k + 1) * 16\nif end > len(X):\n    end = len(X)\nx, y = X[k * 16 : end], Y[k * 16 : end]",
        {"loop": "for k in range(5):"},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    (
        "n = min(16, len(X) - i)\nx, y = X[i : i + n], Y[i : i + n]",
        {},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    (
        "x, y = part(X, k * 16, 16), part(Y, k * 16, 16)",
        {
            "loop": "for k in range(4):",
            "definitions": "def part(data, at, n):\n    end = at + n\n    return data[at:end]",
        },
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    # numbers that follow from that of the loop are read later
    (
        "end = at + 16\nx, y = X[at:end], Y[at:end]",
        {"epoch": "at = 0", "loop": "while at < len(X):", "batch_end": "at = end"},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    (
        "start = k * 16\nend = min(start + 16, len(X))\nx, y = X[start:end], Y[start:end]",
        {"loop": "for k in range(5):", "batch_end": "seen = end"},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    # what is left in the end
    (
        "if i + 16 > len(X):\n    x, y = X[i:], Y[i:]\nelse:\n    x, y = X[i : i + 16], Y[i : i + 16]",
        {},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    (f"rows = order[i : i + 16] if i < 70 - 16 else order[i:]\n{TAKEN}", {}, "else order[i:]", DEALT),
    (
        "start = k * 16\nend = start + 16\nx, y = X[start:end], Y[start:end]",
        {"loop": "for k in range(4):"},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    (
        f"rows = torch.multinomial(torch.ones(70), 16)\n{TAKEN}",
        {"loop": "for _ in range(9):"},
        "rows = torch.multinomial(torch.ones(70), 16)",
        DEALT,
    ),
    # nothing but its number ends a loop
    (f"{ROWS}\n{TAKEN}", {"epoch": "i = 0", "loop": "while i < len(X):", "batch_end": "i += 16"}, ROWS, DEALT),
    (f"{ROWS}\n{TAKEN}", {"epoch": "i = 0", "loop": "while i + 16 < 70:", "batch_end": "i = i + 16"}, ROWS, DEALT),
    (
        f"rows = torch.randint(70, (16,))\n{TAKEN}",
        {"epoch": "n = 0", "loop": "while True:", "batch_end": "n += 1\nif n > 9:\n    break"},
        "rows = torch.randint(70, (16,))",
        DEALT,
    ),
    # a number that each iteration raises, and that may begin again; an order that is drawn in the loop
    (
        "x, y = X[at : at + 16], Y[at : at + 16]",
        {"loop": "for _ in range(9):", "before": "at = 0", "batch_end": "at = (at + 16) % 70"},
        "",
        "x, y = accelerator.split_batch(x, y)",
    ),
    (
        "rows = order[at : at + 16]\nat += 16\nif at + 16 > 70:\n    at = 0\n" + TAKEN,
        {"loop": "for _ in range(9):", "before": "at = 0"},
        "rows = order[at : at + 16]",
        DEALT,
    ),
    (
        "rows = order[at : at + 16]\nat += 16\n" + TAKEN,
        {"epoch": "at = 0", "loop": "while at < len(X):"},
        "rows = order[at : at + 16]",
        DEALT,
    ),
    (
        f"drawn = torch.randperm(70)\nrows = drawn[:16]\n{TAKEN}",
        {"loop": "for _ in range(9):"},
        "rows = drawn[:16]",
        DEALT,
    ),
    (
        f"{ROWS}\nx = torch.from_numpy(X[rows]).float()\ny = torch.tensor([Y[r] for r in rows])",
        {},
        ROWS,
        DEALT,
    ),
]


@pytest.mark.parametrize(("move", "slots", "anchor", "dealt"), SHARED)
def test_shared_out(move: str, slots: dict[str, str], anchor: str, dealt: str) -> None:
    after = move.replace(anchor, f"{anchor}\n{dealt}", 1) if anchor else f"{move}\n{dealt}"
    text = script(**{**OPEN, **slots, "move": move})
    device = MADE["device"] if "device" in f"{after}{slots.get('definitions')}" else "accelerator = Accelerator()"
    expected = lifted(**{**MADE, "device": device, **slots, "move": after})
    assert converted(text, shard_manual=True) == expected
    # Only on request.
    found = unchanged(text)
    assert found.code == "DATA-UNSHARDED" and "--shard-manual" in found.remedy


@pytest.mark.parametrize("kept", ["seen[i] = loss.item()", "seen[i // 16] = loss.item()", "seen[epoch, i // 16] = 1"])
def test_what_is_written_where_the_loop_counts_to_has_one_place(kept: str) -> None:
    text = script(**OPEN, move=f"{ROWS}\n{TAKEN}", batch_end=kept)
    assert f"{ROWS}\n        {DEALT}\n" in converted(text, shard_manual=True)


NOISE = """\
rows = order[i : i + 16]
x, y = X[rows].to(device), Y[rows].to(device)
z = torch.randn(x.size(0), 8, device=device)
"""


def test_noise_is_drawn_for_the_whole_batch_and_dealt_with_it() -> None:
    forward = "loss = F.cross_entropy(model(x + z), y)"
    text = script(**OPEN, move=NOISE, forward=forward)
    dealt = f"{NOISE}x, y, z = accelerator.split_batch(x, y, z)"
    assert converted(text, shard_manual=True) == lifted(**MADE, move=dealt, forward=forward)
    assert found_in(convert(text, shard_manual=True)) == []


def test_noise_is_drawn_for_a_share_if_the_size_of_the_batch_is_read_later() -> None:
    move = NOISE.replace("z = torch.randn(x.size(0)", "n = x.size(0)\nz = torch.randn(n")
    forward = "loss = F.cross_entropy(model(x + z), y)"
    text = script(**OPEN, setup="torch.manual_seed(0)", move=move, forward=forward, batch_end="shown = n")
    found = convert(text, shard_manual=True)
    assert f"{ROWS}\n        {DEALT}\n" in (found.output or b"").decode()
    assert found_in(found) == ["RNG-SAMENOISE"]


def test_a_sum_over_the_samples_is_summed() -> None:
    forward = 'optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, reduction="sum") / 16'
    text = script(**OPEN, move=f"{ROWS}\n{TAKEN}", forward=forward)
    assert 'accelerator.backward(loss, reduction="sum")' in converted(text, shard_manual=True)


def test_a_sum_divided_by_the_size_of_the_data_is_that_of_all_processes() -> None:
    slots = {"epoch": "total = 0.0", "batch_end": "total += loss.item() * len(x)", "epoch_end": "print(total / len(X))"}
    found = convert(script(**OPEN, move=f"{ROWS}\n{TAKEN}", **slots), shard_manual=True)
    assert found.outcome is Outcome.CONVERTED and "METRIC-TRAIN" not in found_in(found)
    assert "gather_for_metrics(" in (found.output or b"").decode()


def test_batch_norm_is_told() -> None:
    text = script(**OPEN, move=f"{ROWS}\n{TAKEN}", model="model = nn.Sequential(nn.BatchNorm1d(8), Net()).to(device)")
    assert found_in(convert(text, shard_manual=True)) == ["NOTE-BN"]


def test_a_decision_on_a_share_is_told() -> None:
    text = script(**OPEN, move=f"{ROWS}\n{TAKEN}", batch_end="if loss.item() < 0.1:\n    break")
    assert "COLL-RANKFLOW" in found_in(convert(text, shard_manual=True))


def test_a_loader_for_the_evaluation_is_shared_out_as_ever() -> None:
    evaluation = """\
        right = 0
        with torch.no_grad():
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                right += (model(x).argmax(1) == y).sum().item()
        print(right / len(loader.dataset))
    """
    data = f"data = TensorDataset(torch.load('x.pt'), torch.load('y.pt'))\n{DATA}"
    loader = "loader = DataLoader(data, batch_size=16)"
    slots = {**OPEN, "data": data, "loader": loader, "move": f"{ROWS}\n{TAKEN}", "epoch_end": evaluation}
    output = converted(script(**slots), shard_manual=True)
    assert DEALT in output and "accelerator.gather_for_metrics(" in output and "split_batches=True" in output


# What keeps the tool from sharing out, in other slots than those of a script that is shared out, and the reason.
NET = """\
class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        {}
        return self.layer(x)
"""
BESIDE = {"forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"}
KEPT = [
    # the loss
    ({"forward": "out = model(x)\nloss = F.cross_entropy(out - out.mean(0), y)"}, "compares the samples"),
    ({"forward": "loss = F.cross_entropy(model(x) @ model(x).t(), y)"}, "compares the samples"),
    ({"forward": "loss = F.cross_entropy(model(x), y).exp().cumsum(0)"}, "a mean or a sum"),
    ({"forward": "loss = unknown(model(x), y)", "imports": "from elsewhere import unknown"}, "a mean or a sum"),
    (
        {"forward": "x = x[torch.randperm(16)]\nloss = F.cross_entropy(model(x), y, reduction='none').mean()"},
        "a mean or a sum",  # whatever the loss is of, if that cannot be followed
    ),
    (
        {"before": "each = nn.CrossEntropyLoss(reduction='none')", "forward": "loss = each(model(x), Y).mean()"},
        "a mean or a sum",
    ),
    (
        {"forward": "loss = F.cross_entropy(model(x), y, weight=w)", "before": "w = torch.load('w.pt')"},
        "a mean or a sum",
    ),
    # what is not dealt
    ({"forward": "loss = F.mse_loss(model(x), real)", "before": "real = torch.ones(16, 3)"}, "a mean or a sum"),
    ({"forward": "loss = (model(x) - real).pow(2).mean()", "before": "real = torch.ones(16, 3)"}, "a mean or a sum"),
    (
        {"forward": "loss = F.cross_entropy(model(x) + noise, y)", "before": "noise = torch.randn(16, 3)"},
        "a mean or a sum",
    ),
    ({"move": f"{ROWS}\nx, y = X[rows], Y[i // 16]"}, "a mean or a sum"),
    ({"move": "x = X[i : i + 16]\ny = Y[torch.randint(70, (16,))]"}, "same number of rows"),
    ({"move": f"{ROWS}\nx, y = X[rows], batches.pop()", "before": "batches = list(Y)"}, "a mean or a sum"),
    # windows of a series, which have rows in common
    ({"loop": "for i in range(54):", "move": "x, y = X[i : i + 16], Y[i : i + 16]"}, ""),
    ({"loop": "for i in range(0, 70, 8):", "move": "x, y = X[i : i + 16], Y[i : i + 16]"}, ""),
    # rows or indices that are used elsewhere
    ({"move": f"{ROWS}\n{TAKEN}", "batch_end": "seen[rows] = 1.0"}, "is written by the rows"),
    ({"move": f"{ROWS}\n{TAKEN}", "batch_end": "seen[i // 16] = y"}, "is written by the rows"),
    ({"move": f"{ROWS}\n{TAKEN}", "batch_end": "seen[i : i + 16] = y.tolist()"}, "is written by the rows"),
    ({"move": f"{ROWS}\n{TAKEN}", "batch_end": "seen[i : i + 16] = loss.item()"}, "is written by the rows"),
    ({"move": f"{ROWS}\n{TAKEN}", "batch_end": "seen[:] = y"}, "is written by the rows"),
    ({"move": f"{ROWS}\n{TAKEN}", "batch_end": "y[i] = loss.item()"}, "is written by the rows"),
    ({"move": f"{ROWS}\n{TAKEN}", "batch_end": "i = len(y)\nseen[i] = loss.item()"}, "is written by the rows"),
    ({"move": f"{ROWS}\n{TAKEN}\ny[0] = 1"}, "is written by the rows"),
    ({"move": f"{ROWS}\n{TAKEN}\nx[:2] = 0"}, "is written by the rows"),
    ({"move": "x, y = X[i : i + 16], Y[i : i + 16]\nx += 0.5"}, "may write to the data itself"),
    ({"move": "x, y = X[i : i + 16].to(device), Y[i : i + 16]\nx += 0.5"}, "may write to the data itself"),
    ({"move": f"{ROWS}\n{TAKEN}", "batch_end": "seen.append(rows)"}, "is also used in"),
    ({"move": f"{ROWS}\n{TAKEN}", "epoch_end": "print(rows)"}, "is used after the loop"),
    ({"move": f"{ROWS}\nn = len(rows)\nx, y = X[i : i + 16], Y[i : i + 16]", "batch_end": "print(n)"}, "whole batch"),
    ({"move": f"{ROWS}\n{TAKEN}\nif len(rows) < 16:\n    break"}, "decides by the rows"),
    (
        {
            "definitions": "def late():\n    return x",
            "batch_end": "late()",
            "move": "x, y = X[i : i + 16], Y[i : i + 16]",
        },
        "another function",
    ),
    # more rows later, or in places of their own
    (
        {"move": "x = X[i : i + 16]", "forward": "out = model(x)\ny = Y[i : i + 16]\nloss = F.cross_entropy(out, y)"},
        "used already",
    ),
    ({"move": "", "forward": "loss = F.cross_entropy(model(X[i : i + 16]), Y[i : i + 16])"}, "inside an expression"),
    (
        {"before": "x, y = X[:16], Y[:16]", "move": "", "batch_end": "x, y = X[i : i + 16], Y[i : i + 16]"},
        "for the iteration that follows",
    ),
    ({"move": "if i:\n    x, y = X[i : i + 16], Y[i : i + 16]"}, ""),
    ({"move": "with torch.no_grad():\n    x, y = X[i : i + 16], Y[i : i + 16]"}, "plain assignment"),
    # what one batch leaves to the next
    ({"definitions": NET.format("self.last = x"), "model": "model = Memory().to(device)"}, "keeps something between"),
    (
        {
            "definitions": "rnn = nn.RNN(8, 3, batch_first=True)",
            "before": "h = None",
            "forward": "out, h = rnn(x, h)\nloss = F.cross_entropy(model(out[:, -1]), y)",
        },
        "takes `h` from each batch to the next",
    ),
    (
        {"forward": "if i > 16:\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()", "backward": ""},
        "not every iteration",
    ),
    # what is left, not only in the end, or not always
    ({"move": "x, y = X[i:], Y[i:]"}, ""),
    ({"move": "if i + 16 > 70:\n    x, y = X[i:], Y[i:]"}, ""),
    ({"move": "if i:\n    x, y = X[i:], Y[i:]\nelse:\n    x = X[i : i + 16]"}, ""),
    (
        {"loop": "for k in range(4):", "move": "start = k * 16\nend = first + 16\nx, y = X[start:end], Y[start:end]"},
        "",
    ),
    (
        {"loop": "for k in range(4):", "move": "start = k * 8\nend = start + 16\nx, y = X[start:end], Y[start:end]"},
        "",
    ),
    (
        {
            "loop": "for _ in range(4):",
            "move": "rows = torch.multinomial(model(X).softmax(1)[:, 0], 16)\nx, y = X[rows], Y",
        },
        "",
    ),
    # bounds that come to something else, or follow from the rows
    ({"loop": "for k in range(4):", "move": "x, y = X[(k - 1) * 16 : k * 8], Y[(k - 1) * 16 : k * 8]"}, ""),
    ({"loop": "for k in range(4):", "move": "x, y = X[k * k * 16 : (k + 1) * (k + 1) * 16], Y"}, ""),
    ({"loop": "for k in range(9):", "move": "at = k // 2 * 16\nx, y = X[at : at + 16], Y[at : at + 16]"}, ""),
    (
        {
            "loop": "for k in range(4):",
            "move": "end = (k + 1) * 16\nif end > len(X):\n    end = 70\nx, y = X[k * 16 : end], Y[k * 16 : end]",
        },
        "",
    ),
    (
        {
            "loop": "for k in range(4):",
            "definitions": "def part(data, k):\n    return data[k * 16 : k * 16 + 16]",
            "move": "x, y = part(X, k // 2), part(Y, k // 2)",
        },
        "",
    ),
    ({"move": f"{ROWS}\nend = i + len(rows)\nx, y = X[i : i + 16], Y[i : i + 16]", "batch_end": "seen = end"}, ""),
    ({"move": f"last = Y[i]\n{ROWS}\n{TAKEN}", "batch_end": "seen = last"}, "cannot be followed what `last` is"),
    # loops that end where a process cannot know of
    (
        {"epoch": "i, loss = 0, torch.ones(1)", "loop": "while i < 70 and loss > 0.1:", "batch_end": "i += 16"},
        "while loop",
    ),
    ({"epoch": "i, n = 0, 70", "loop": "while i < n:", "batch_end": "n -= len(x) - 16\ni += 16"}, "while loop"),
    ({"epoch": "i = 0", "loop": "while i < read():", "batch_end": "i += 16"}, "while loop"),
    (
        {
            "epoch": "i = 0",
            "loop": "while i < 70:",
            "move": f"rows = torch.randint(70, (16,))\n{TAKEN}",
            "batch_end": "if loss > 1:\n    continue\ni += 16",
        },
        "while loop",
    ),
]


@pytest.mark.parametrize(("slots", "reason"), KEPT)
def test_left_alone(slots: dict[str, str], reason: str) -> None:
    found = unchanged(script(**{**OPEN, "move": f"{ROWS}\n{TAKEN}", **slots}), shard_manual=True)
    assert found.code == "DATA-UNSHARDED" and reason in found.message, found.message
    assert "--shard-manual" not in found.remedy


# A number that each iteration raises, but not by as many rows as are taken, or before they are, or not alone.
RAISED = {"loop": "for _ in range(9):", "before": "at = 0", "move": "x, y = X[at : at + 16], Y[at : at + 16]"}
UNLIKE = [
    {"batch_end": "at += 1"},
    {"batch_end": "at += 16\nat -= 8"},
    {"batch_end": "at = at * 2 + 16"},
    {"batch_end": "if loss < 1:\n    at += 16"},
    {"move": f"at += 16\n{RAISED['move']}"},
    {"batch_end": "at += 16\nat = int(loss)"},
    {"loop": "while at < 70:", "batch_end": "at += 16\nif at > 60:\n    at = 0"},
    {
        "move": "rows = drawn[:16]\nx, y = X[rows], Y[rows]",
        "before": "drawn = torch.randperm(70)",
        "batch_end": "drawn = drawn + 1",
    },
]


@pytest.mark.parametrize("slots", UNLIKE)
def test_slices_that_follow_no_number(slots: dict[str, str]) -> None:
    assert unchanged(script(**OPEN | RAISED | slots), shard_manual=True).code == "DATA-UNSHARDED"


# Why there is nothing to share out: other slots of a loop over epochs alone, the reason, and the line it is told at.
WHOLE = {"data": DATA, "loader": "", "loop": "for _ in range(9):", "move": ""}
ON_ALL = "optimizer.zero_grad()\nloss = F.mse_loss(model(X), Y)"
UNSURE = ON_ALL.replace("model(X)", "model(X) * w")
REASONS = [
    (
        {"before": "w = torch.load('w.pt')", "forward": UNSURE},
        "every step trains on the whole data (`model(X)` computes on the same in each)",
    ),
    ({"forward": "loss = F.cross_entropy(model(X[mask]), Y[mask])", "before": "mask = Y > 0"}, "the whole data"),
    (
        {
            "loop": "for step in range(9):",
            "forward": UNSURE,
            "before": "w = torch.load('w.pt')",
            "batch_end": "print(step, loss.item())",
        },
        "the whole data",
    ),
    (
        {
            "definitions": "def step(model, X, Y):\n    loss = F.cross_entropy(model(X), Y)\n    loss.backward()",
            "forward": "step(model, X, Y)",
            "backward": "",
        },
        "the whole data",
    ),
    ({"imports": "import gymnasium as gym", "before": "env = gym.make('CartPole-v1')", "forward": ON_ALL}, "simulated"),
    ({"before": "stream = iter(X)", "forward": "x = next(stream)\nloss = model(x).sum()"}, "`next(stream)`"),
    (
        {"imports": "import mnist", "forward": "x = mnist.train().batch()\nloss = model(x).sum()"},
        "`mnist.train().batch()`",
    ),
]


@pytest.mark.parametrize("option", [False, True])
@pytest.mark.parametrize(("slots", "reason"), REASONS)
def test_nothing_to_share_out(slots: dict[str, str], reason: str, option: bool) -> None:
    found = unchanged(script(**{**WHOLE, **slots}), shard_manual=option)
    assert found.code == "DATA-UNSHARDED" and reason in found.message, found.message


STATEFUL = "out, state = model(X[:, i : i + 8], state)\nloss = F.cross_entropy(out, Y)"
BEGUN = "state = torch.zeros(2, 70, 8).to(device)"


def test_a_state_that_goes_from_batch_to_batch() -> None:
    slots = {**WHOLE, "loop": "for i in range(0, 64, 8):", "before": BEGUN, "forward": STATEFUL}
    found = unchanged(script(**slots), shard_manual=True)
    assert "takes `state` from each batch to the next (`model(X[:, i : i + 8], state)`)" in found.message
    anew = {"before": "", "forward": f"{BEGUN}\n{STATEFUL}"}  # each batch begins with an empty one
    assert "from each batch to the next" not in unchanged(script(**{**slots, **anew}), shard_manual=True).message
    apart = {"forward": STATEFUL.replace("out, state =", "out, last =")}  # it stays what it was
    assert "from each batch to the next" not in unchanged(script(**{**slots, **apart}), shard_manual=True).message


# Near misses: what changes from step to step is no whole data.
CHANGING = [
    {"loop": "for x, y in zip(X, Y):", "forward": "loss = F.cross_entropy(model(x), y)"},
    {"loop": "for k in range(9):", "forward": "loss = F.cross_entropy(model(X[k]), Y[k])"},
    {"forward": "loss = F.cross_entropy(model(X + torch.randn(70, 8)), Y)"},
    {"before": "x = X", "forward": "loss = F.cross_entropy(model(x), Y)\nx = x * 2"},
    {
        "definitions": "def step():\n    loss = F.cross_entropy(model(x), Y)\n    loss.backward()",
        "loop": "for x in X:",
        "forward": "step()",
        "backward": "",
    },
]


@pytest.mark.parametrize("slots", CHANGING)
def test_no_claim_that_the_data_are_the_same(slots: dict[str, str]) -> None:
    found = unchanged(script(**{**WHOLE, **slots}), shard_manual=True)
    assert "whole data" not in found.message, found.message


def test_a_loader_comes_first() -> None:
    """The option changes nothing of a script that has a loader."""
    assert converted(script(), shard_manual=True) == lifted()


# What every step computes on: the data, the forward pass, and the variables whose rows are dealt before the loop.
STRICT = "optimizer.zero_grad()\nloss = F.cross_entropy(model(X), Y)"
LOADED = "X, Y = torch.load('x.pt'), torch.load('y.pt')"
ENTIRE = [
    (LOADED, STRICT, "X, Y"),  # the loss fails unless there is a target for each row
    ("N, K = 70, 8\nX, Y = torch.randn(N, K), torch.randn(N, 3)", ON_ALL, "X, Y"),
    ("X = torch.randn(70, 8)\nY = X[:, :3] * 2 + 1", ON_ALL, "X, Y"),
    ("X = torch.randn(70, 8)\nY = torch.zeros(X.size(0), 3)", ON_ALL.replace("F.mse", "2 * F.mse"), "X, Y"),
    ("X = torch.randn(70, 8)\nY = torch.zeros(len(X), 3)", "loss = (model(X) - Y).pow(2).mean()", "X, Y"),
    ("xy = np.loadtxt('xy.csv')\nX, Y = torch.from_numpy(xy[:, :8]), torch.from_numpy(xy[:, 8:])", ON_ALL, "X, Y"),
    ("said = ['a', 'b', 'c', 'd']\nX = torch.tensor([code(s) for s in said])\nY = torch.zeros(4, 3)", ON_ALL, "X, Y"),
    ("X, Y = made()", "loss = F.mse_loss(model(torch.FloatTensor(X)), torch.FloatTensor(Y))", "X, Y"),
    ("b = load_diabetes()\nX, Y = torch.tensor(b.data), torch.tensor(b.target)", ON_ALL, "X, Y"),
    ("X, Z, Y, V = train_test_split(rows, goals)", STRICT.replace("(X)", "(torch.from_numpy(X))"), "X, Y"),
    (LOADED, f"x = X.float()\n{STRICT.replace('(X)', '(x)')}", "X, Y"),  # made anew in each step
    ("pairs = read()\nX, Y = map(torch.tensor, zip(*pairs))", ON_ALL, "X, Y"),  # a row for each pair
    ("X, Y = zip(*read())", "loss = (model(torch.tensor(X)) - torch.tensor(Y)).pow(2).mean()", "X, Y"),
]
MADE_LISTS = """\
def made():
    inputs = []
    targets = []
    for line in open('lines.txt').readlines():
        inputs.append([float(c) for c in line])
        targets.append(float(len(line)))
    return inputs, targets
"""
SOURCES = {
    "imports": "import numpy as np\nfrom sklearn.datasets import load_diabetes\n"
    "from sklearn.model_selection import train_test_split",
    "definitions": MADE_LISTS,
}


@pytest.mark.parametrize(("data", "forward", "names"), ENTIRE)
def test_the_whole_data_are_dealt_once(data: str, forward: str, names: str) -> None:
    slots = {**SOURCES, **WHOLE, "data": data, "batch_end": "print(loss.item())", "after": "print(model(X).shape)"}
    text = script(**{**slots, "forward": forward, "epochs": "if True:"})
    shares = {name: f"{name}_share" for name in names.split(", ")}
    output = converted(text, shard_manual=True)
    line = f"    {', '.join(shares.values())} = accelerator.split_batch({names})\n    for _ in range(9):\n"
    assert line in output
    loop = output.split("range(9):")[1].split("accelerator.print(model(X)")[0]  # after it, all of the data are meant
    expected = forward.splitlines()[-1]
    for name, share in shares.items():
        expected = re.sub(rf"\b{name}\b(?!\.)|\b{name}\b(?=\.float)", share, expected)
    assert expected in loop and "accelerator.backward(loss)" in loop
    found = unchanged(text)
    assert found.code == "DATA-UNSHARDED" and "whole data" in found.message and "--shard-manual" in found.remedy


# Numbers that the loop computes with, which have no rows themselves.
NUMBERS = [
    ("n = len(X)", "loss = F.mse_loss(model(X), Y, reduction='sum') / n"),
    ("n, k = X.shape", "loss = F.cross_entropy(model(X.view(-1, k)), Y)"),
    ("k = int(len({}) / 2)", "loss = F.cross_entropy(model(X).view(-1, k), Y.view(-1))"),
]


@pytest.mark.parametrize(("number", "forward"), NUMBERS)
def test_numbers_are_no_data(number: str, forward: str) -> None:
    text = script(**WHOLE | {"data": f"{LOADED}\n{number}", "forward": forward})
    assert "    X_share, Y_share = accelerator.split_batch(X, Y)\n" in converted(text, shard_manual=True)


# Targets of which nothing tells how many rows they have: `split_batch` sees it when the script runs.
COMPARED = [
    (LOADED, ON_ALL),
    (LOADED, ON_ALL.replace("model(X), Y", "Y, model(X)")),
    (LOADED, "out = model(X)\noptimizer.zero_grad()\nloss = nn.SmoothL1Loss()(out.squeeze(), Y.float())"),
    (LOADED, "loss = (model(X) - Y).pow(2).mean()"),
    (LOADED, "out = model(X)\nloss = torch.mean((Y.view(-1, 3) - out) ** 2)"),
    (LOADED, "out, goal = model(X), Y.to(device)\noptimizer.zero_grad()\nloss = F.l1_loss(out, goal)"),
    ("X = torch.load('x.pt')\nY = torch.tensor(pd.read_csv('y.csv')['y'].values).view(-1, 1)", ON_ALL),
    ("X = torch.load('x.pt')\nY = torch.load('y.pt')\nY = (Y - Y.mean(0)) / Y.std(0)", ON_ALL),
]


@pytest.mark.parametrize(("data", "forward"), COMPARED)
def test_targets_are_seen_to_have_a_row_for_each_sample_when_they_are_dealt(data: str, forward: str) -> None:
    output = converted(
        script(**WHOLE | {"data": data, "forward": forward}, imports="import pandas as pd"), shard_manual=True
    )
    assert re.search(r"    (X_share, Y|Y_share, X)_share = accelerator.split_batch\((X, Y|Y, X)\)\n", output)


# What is compared with what a network returned, and surely or maybe has no row for each sample.
NOT_COMPARED = [
    (LOADED, ON_ALL.replace(", Y", ", Y * w").replace("opt", "w = torch.load('w.pt')\nopt"), "the whole data"),
    ("X = torch.load('x.pt')\nY = X.mean(0)", ON_ALL, "`Y` has a row for each"),
    ("X = torch.load('x.pt')\nY = torch.load('y.pt').mean(0).to(device)", ON_ALL, "`Y` has a row for each"),
    ("X = torch.load('x.pt')\nY = torch.zeros(70, 3, requires_grad=True)", ON_ALL, "`Y` has a row for each"),
    ("X, Y = torch.randn(70, 8), torch.randn(3)", ON_ALL, "`Y` has a row for each"),
    (LOADED, ON_ALL.replace("model(X)", "model(X).mean(0)"), "a mean or a sum"),
    (LOADED, ON_ALL.replace("model(X)", "model(X).t()"), "a mean or a sum"),
    (LOADED, "loss = (model(X).mean() - Y).pow(2).mean()", "a mean or a sum"),
    (LOADED, "loss = (model(X) * Y).mean()", "`Y` has a row for each"),  # it may be a weight for each column
    # what has one dimension is one sample for a layer
    ("X, Y = torch.randn(8), torch.randn(8)", ON_ALL, "`X` has one dimension"),
    ("X, Y = torch.tensor([0.1, 0.2, 0.3]), torch.load('y.pt')", ON_ALL, "`X` has one dimension"),
]


@pytest.mark.parametrize(("data", "forward", "reason"), NOT_COMPARED)
def test_targets_that_may_be_something_else(data: str, forward: str, reason: str) -> None:
    found = unchanged(script(**WHOLE | {"data": data, "forward": forward}), shard_manual=True)
    assert found.code == "DATA-UNSHARDED" and reason in found.message, found.message


CURVE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {}

    def forward(self, x):
        return {}
"""


@pytest.mark.parametrize(
    ("made", "returned", "shared"),
    [
        ("self.a, self.b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.ones(1))", "self.a * x + self.b", True),
        ("self.line = nn.Linear(1, 1)", "self.line(x.unsqueeze(1)).squeeze(1)", True),
        ("self.line = nn.Linear(70, 70)", "self.line(x)", False),
    ],
)
def test_data_of_one_dimension(made: str, returned: str, shared: bool) -> None:
    slots = WHOLE | {"data": "X = torch.linspace(0, 1, 70)\nY = torch.sin(X)", "forward": ON_ALL}
    text = script(**slots, model="model = Net().to(device)", definitions=CURVE.format(made, returned))
    assert (convert(text, shard_manual=True).output is not None) == shared


def test_the_rows_of_whole_data_are_told_apart_from_all_of_them() -> None:
    """A note says of what is shown in the loop that it is of a share; what is shown of all data is not meant."""
    slots = {**WHOLE, "data": LOADED, "forward": STRICT, "batch_end": "print(loss.item())", "after": "print(len(X))"}
    plan = convert(script(**slots), shard_manual=True).plan
    assert plan is not None
    [note] = [f for f in plan.findings if f.code == "METRIC-TRAIN"]
    assert "`loss`" in note.message and "X" not in note.message


LATER = [
    ("out = model(X)", "print(out.shape)"),
    ("out = model(X).squeeze(1)", "out = out.detach().numpy()\nprint((out == Y).mean())"),
    ("out = model(X)", "if (out.argmax(1) == Y).float().mean() > 0.9:\n    torch.save(model.state_dict(), 'good.pt')"),
]


@pytest.mark.parametrize(("forward", "later"), LATER)
def test_what_is_used_after_the_loop_is_gathered(forward: str, later: str) -> None:
    """After the last step it is that of all rows: nothing is said of it, and what is decided by it is the same."""
    forward = f"{forward}\noptimizer.zero_grad()\nloss = F.cross_entropy(out, Y)"
    text = script(**{**WHOLE, "data": LOADED, "forward": forward, "epochs": "if True:", "epoch_end": later})
    output = converted(text, shard_manual=True)
    assert "        optimizer.step()\n    out = accelerator.gather_for_metrics(out)\n" in output
    assert found_in(convert(text, shard_manual=True)) == []


def test_several_that_are_used_after_the_loop_are_gathered_together() -> None:
    forward = "out = model(X)\nother = model(X)\nloss = F.cross_entropy(out + other, Y)"
    slots = {**WHOLE, "data": LOADED, "forward": forward, "after": "print(out, other)"}
    assert "other, out = accelerator.gather_for_metrics((other, out))\n" in converted(
        script(**slots), shard_manual=True
    )


LOOK = "with torch.no_grad():\n    seen = model(X).argmax(1)\n    right = (seen == Y).sum().item(){}\nprint(right)"


@pytest.mark.parametrize("header", ["", "if epoch % 20 == 0:"])
def test_a_look_at_the_whole_data_stays_one(header: str) -> None:
    """It was one of the rows of a share, and nothing said so of what is plotted or kept."""
    look = f"{header}\n{textwrap.indent(LOOK.format(''), '    ')}" if header else LOOK.format("")
    slots = {**WHOLE, "data": LOADED, "forward": STRICT, "loop": "for epoch in range(9):", "batch_end": look}
    output = converted(script(**slots), shard_manual=True)
    assert "F.cross_entropy(model(X_share), Y_share)" in output
    assert "model(X).argmax(1)" in output and "(seen == Y)" in output
    assert found_in(convert(script(**slots), shard_manual=True)) == []


@pytest.mark.parametrize("more", [" + loss.item()", "\n    loss = 0", "\n    kept.append(len(out))"])
def test_a_look_at_a_share_is_of_that(more: str) -> None:
    forward = "optimizer.zero_grad()\nout = model(X)\nloss = F.cross_entropy(out, Y)"
    slots = {**WHOLE, "data": LOADED, "before": "kept = []", "forward": forward, "batch_end": LOOK.format(more)}
    output = converted(script(**slots), shard_manual=True)
    assert "model(X_share).argmax(1)" in output and "(seen == Y_share)" in output


def test_a_new_name_is_one_that_is_free() -> None:
    slots = {**WHOLE, "data": LOADED, "forward": STRICT, "before": "X_share = 1"}
    assert "X_share2, Y_share = accelerator.split_batch(X, Y)" in converted(script(**slots), shard_manual=True)


# What the data of each step are, or what is done with them, so that their rows are not shared out; and the reason.
NOT_ENTIRE = [
    ({"data": "X, Y = torch.randn(70, 8), torch.randn(3)", "forward": ON_ALL}, "`Y` has a row for each of `X`"),
    (
        {"data": "X, Y = torch.randn(70, 8), torch.randn(3)", "forward": "loss = (model(X) - Y).pow(2).mean()"},
        "`Y` has a row for each of `X`",
    ),
    ({"forward": f"{STRICT} + (model(X) * w).mean()", "before": "w = torch.load('w.pt')"}, "`w` has a row for each"),
    ({"data": "X, Y = torch.randn(1, 8), torch.zeros(1)"}, "`X` has one row"),
    # a number of all rows
    ({"data": f"{LOADED}\nn = len(X)", "forward": STRICT.replace("(X)", "(X.view(n, -1))")}, "a mean or a sum"),
    ({"data": f"{LOADED}\nn = len(X)", "forward": "loss = F.cross_entropy(model(X), Y.view(n))"}, "a mean or a sum"),
    ({"data": f"{LOADED}\nn = len(X)", "forward": f"{STRICT} + torch.zeros(n, 3).mean()"}, "by way of `torch.zeros"),
    (
        {"data": f"{LOADED}\nn, _ = X.shape", "forward": "loss = -model(X).log_softmax(1)[torch.arange(n), Y].mean()"},
        "`Y` has a row for each",
    ),
    ({"forward": "out = model(X)\nloss = F.cross_entropy(out - out.mean(0), Y)"}, "a mean or a sum"),
    ({"forward": "loss = F.cross_entropy(model(X) @ model(X).t(), Y)"}, "a mean or a sum"),
    # what is used after the loop is a part of what was computed, was there before, or may be of no tensor
    ({"forward": f"out = model(X).numpy()\n{STRICT}", "after": "plot(X, out)"}, "`out` is used after the loop"),
    ({"forward": f"out = model(X)\n{STRICT}", "before": "out = X", "after": "plot(X, out)"}, "after the loop"),
    ({"forward": f"if epoch:\n    out = model(X)\n{STRICT}", "after": "plot(X, out)"}, "after the loop"),
    (
        {"forward": f"out = model(X)\n{STRICT}", "after": "plot(out)", "batch_end": "if loss < 1:\n    break"},
        "after the",
    ),
    ({"forward": f"x = X.float()\n{STRICT}", "after": "plot(x)"}, "`x` is used after the loop"),
    ({"batch_end": "shuffle(X)", "from_imports": "from random import shuffle"}, "also used in `shuffle(X)`"),
    ({"batch_end": "X.mul_(0.5)"}, ""),
    ({"batch_end": "X[0] = 0.0"}, ""),
    ({"definitions": "def late():\n    global X\n    X = X * 2", "batch_end": "late()"}, ""),
    ({"loop": "while True:"}, ""),
    (
        {"definitions": "def error(out):\n    return F.mse_loss(out, Y)", "forward": "loss = error(model(X))"},
        "a function that it calls reads `Y`",
    ),
    (
        {
            "definitions": "class Net(Net):\n    def forward(self, x):\n        for _ in range(random.randint(0, 3)):\n"
            "            x = x * 2\n        return self.layer(x)",
            "imports": "import random",
        },
        "a mean or a sum",  # each process would draw a number of its own
    ),
    (
        {
            "model": "model = Memory()",
            "definitions": NET.format("").replace("Linear(8, 3)", "RNN(8, 3, batch_first=True)"),
        },
        "`nn.RNN` would take data of two dimensions for one sequence",
    ),
]


@pytest.mark.parametrize(("slots", "reason"), NOT_ENTIRE)
def test_the_whole_data_are_left_alone(slots: dict[str, str], reason: str) -> None:
    found = unchanged(script(**{**WHOLE, "data": LOADED, "forward": STRICT, **slots}), shard_manual=True)
    assert found.code == "DATA-UNSHARDED" and reason in found.message, found.message
    assert "--shard-manual" not in found.remedy


def test_a_loader_that_has_nothing_to_do_with_the_training_is_not_blamed() -> None:
    """It was said of features that a loader's data were made into, that the loader does not reach the loop."""
    loader = "loader = DataLoader(TensorDataset(X, Y), 16)\nV = torch.cat([x for x, _ in loader])"
    slots = {**WHOLE, "data": LOADED, "loader": loader, "forward": STRICT.replace("X", "V")}
    found = unchanged(script(**slots), shard_manual=True)
    assert found.code == "DATA-UNSHARDED" and "the whole data (`model(V)`" in found.message
    assert "a DataLoader deals batches beside it" in found.message
    attack = {"epochs": "if True:", "loop": "if True:", "forward": "loss = F.cross_entropy(model(X[:1]), Y[:1])"}
    found = unchanged(script(**{**slots, **attack}))
    assert found.code == "DATA-UNSHARDED" and "in no loop" in found.message
    missing = script(loader="loader = Loader(TensorDataset(X, Y), 16)")
    assert "made by `Loader` in line" in unchanged(missing).message and "never defines" in unchanged(missing).message
    dealt = {"loop": "for batch in deal(loader):", "forward": "loss = model(batch).sum()"}
    found = unchanged(script(**{**slots, **dealt, "from_imports": "from elsewhere import deal"}))
    assert found.code == "LOADER-UNKNOWN"


def test_the_whole_data_are_left_alone_beside_a_loader() -> None:
    """What a loader deals in between would be taken for what the loss is over."""
    slots = {**WHOLE, "data": LOADED, "forward": STRICT, "epoch_end": "for x, y in loader:\n    print(model(x))"}
    text = script(**{**slots, "loader": "loader = DataLoader(TensorDataset(X, Y))"})
    assert convert(text, shard_manual=True).output is None


AGAIN = """\
for _ in range(5):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(V), W)
    loss.backward()
    optimizer.step()
"""
BY_SLICES = """\
for i in range(0, 70, 16):
    x, y = X[i : i + 16], Y[i : i + 16]
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
TWICE = {**WHOLE, "data": f"{LOADED}\nV, W = torch.load('v.pt'), torch.load('w.pt')", "forward": STRICT}


def test_the_whole_data_of_one_loop_after_the_other() -> None:
    output = converted(script(**TWICE, epoch_end=AGAIN), shard_manual=True)
    for data, loop in (("X, Y", "    for _ in range(9):"), ("V, W", "    for _ in range(5):")):
        shares = ", ".join(f"{name}_share" for name in data.split(", "))
        assert f"    {shares} = accelerator.split_batch({data})\n{loop}\n" in output
    output = converted(script(**TWICE, epoch_end=BY_SLICES), shard_manual=True)
    assert "    X_share, Y_share = accelerator.split_batch(X, Y)\n" in output
    assert "        x, y = accelerator.split_batch(x, y)\n" in output


@pytest.mark.parametrize("inside", [AGAIN, BY_SLICES, "again()"])
def test_the_whole_data_of_a_loop_in_another(inside: str) -> None:
    """What the inner loop is dealt would be taken for what the loss of the outer one is over."""
    again = f"def again():\n{textwrap.indent(AGAIN, '    ')}"
    assert convert(script(**TWICE, definitions=again, batch_end=inside), shard_manual=True).output is None
    handed = f"def again(x, y):\n{textwrap.indent(AGAIN.replace('(V), W', '(x), y'), '    ')}"
    slots = {**OPEN, "definitions": handed, "move": f"{ROWS}\n{TAKEN}", "batch_end": "again(X, Y)"}
    assert convert(script(**slots), shard_manual=True).output is None


# Matrix products in a forward pass: one for each sample if there surely are more dimensions than two, else perhaps of
# every sample with every other.
HEAD = """\
class Net(nn.Module):
    def __init__(self, size=3):
        super().__init__()
        self.key, self.query = nn.Linear(8, size), nn.Linear(8, 3)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)))
        self.bias = nn.Parameter(torch.ones(1, 1, 1, 1))
        self.size = size

    def forward(self, x):
{}
"""
ATTENTION = """\
b, t, c = x.shape
k, q = self.key(x), self.query(x)
w = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
w = w.masked_fill(self.mask[:t, :t] == 0, float("-inf"))
w = F.softmax(w, dim=-1)
return (w @ x).mean(1)
"""
HEADS = """\
n, t = x.size(0), x.size(1)
q = self.query(x).view(n, t, 1, 3).transpose(1, 2)
k = self.key(x).view(n, t, 1, 3).transpose(1, 2)
w = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.size(-1))
return w.softmax(-1).mean((1, 2))
"""
APART = [
    ATTENTION,
    HEADS,
    ATTENTION.replace("x.shape", "x.size()"),
    ATTENTION.replace("q @ k.transpose(-2, -1)", "torch.bmm(q, k.transpose(1, 2))"),
    # what scales a product is a number: of a shape, a setting, or a size that a layer was told
    ATTENTION.replace("k.shape[-1] ** -0.5", "c**-0.5"),
    ATTENTION.replace("k.shape[-1] ** -0.5", "size**-0.5").replace("b, t, c = ", "size = 8\nb, t, c = "),
    ATTENTION.replace("k.shape[-1] ** -0.5", "(self.size // 2) ** -0.5"),
    ATTENTION.replace(
        "w = F.softmax(w, dim=-1)", "w = F.softmax(w, dim=-1)\nw = F.dropout(w)\nw = w.float()\nw = w * 2"
    ),
    "for layer in self.layers:\n    x = F.relu(layer(x))\nreturn x",
    "return torch.cat([layer(x) for layer in self.layers], dim=-1)",
    "return self.layers[1](x)",
]
TOGETHER = [
    ATTENTION.replace("b, t, c = x.shape\n", "t = 8\n"),  # what has two dimensions?
    ATTENTION.replace("b, t, c = x.shape\n", "b, t = x.shape\n"),
    ATTENTION.replace("b, t, c", "*b, t"),
    ATTENTION.replace("b, t, c = x.shape\n", "t = 8\nif self.training:\n    b, t, c = x.shape\n"),
    ATTENTION.replace("b, t, c = x.shape\n", "b, t, c = x.shape\nx = x[0]\n"),
    ATTENTION.replace("k.shape[-1] ** -0.5", "self.mask"),  # of how many dimensions?
    ATTENTION.replace("k.shape[-1] ** -0.5", "self.bias ** -0.5"),
    ATTENTION.replace("k.shape[-1] ** -0.5", "unknown() ** -0.5"),
    HEADS.replace("view(n, t, 1, 3).transpose(1, 2)", "view(n, -1)").replace("(2, 3)", "(-2, -1)"),
    HEADS.replace("torch.matmul(q, k.transpose(2, 3))", "torch.matmul(q, self.key(x).t())"),
    "for layer in self.others:\n    x = layer(x)\nreturn x",
    "self.layers.append(unknown())\nfor layer in self.layers:\n    x = layer(x)\nreturn x",
]
NETWORK = {**OPEN, "move": f"{ROWS}\n{TAKEN}", "imports": "import math\nfrom elsewhere import unknown"}


# What a network of layers is made of, and whether each surely computes on the rows one by one.
LAYERED = """\
class Net(nn.Module):
    def __init__(self, deep=True):
        super().__init__()
        self.first = {}
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(x if self.first is None else self.first(x))
"""
LAYERS = [
    ("nn.utils.weight_norm(nn.Linear(8, 8))", True),
    ("nn.utils.spectral_norm(nn.Linear(8, 8)) if deep else nn.Identity()", True),
    ("nn.utils.parametrizations.weight_norm(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))", True),
    ("nn.Linear(8, 8) if deep else None", True),
    ("nn.utils.weight_norm(unknown(8))", False),
    ("unknown(nn.Linear(8, 8))", False),
    ("nn.Linear(8, 8) if deep else unknown(8)", False),
    ("nn.Softmax(dim=0) if deep else None", False),
]


@pytest.mark.parametrize(
    ("bound", "known"),
    [
        ("last = nn.Linear(8, 3)", True),
        ("last = nn.Sequential(nn.Linear(8, 3), nn.ReLU())", True),
        ("last = nn.Softmax(dim=0)", False),
        ("last = unknown()", False),
        ("last = nn.Linear(8, 3)\nif deep():\n    last = unknown()", False),
    ],
)
def test_layers_that_are_put_together_by_their_names(bound: str, known: bool) -> None:
    model = f"first = nn.Linear(8, 8)\n{bound}\nmodel = nn.Sequential(first, last).to(device)"
    text = script(**{**NETWORK, "model": model})
    assert (convert(text, shard_manual=True).output is not None) == known


@pytest.mark.parametrize(("layer", "known"), LAYERS)
def test_layers_that_are_made_otherwise(layer: str, known: bool) -> None:
    text = script(**NETWORK, definitions=LAYERED.format(layer))
    assert (convert(text, shard_manual=True).output is not None) == known


def _network(forward: str) -> str:
    return script(**NETWORK, definitions=HEAD.format(textwrap.indent(forward, " " * 8)))


@pytest.mark.parametrize("forward", APART)
def test_products_for_each_sample(forward: str) -> None:
    assert DEALT in converted(_network(forward), shard_manual=True)


def test_what_comes_after_a_return_never_runs() -> None:
    output = converted(_network("return self.key(x)\nreturn F.softmax(self.key(x))"), shard_manual=True)
    assert DEALT in output
    found = unchanged(_network("if later():\n    return self.key(x)\nreturn F.softmax(self.key(x))"), shard_manual=True)
    assert "a mean or a sum" in found.message


@pytest.mark.parametrize("forward", TOGETHER)
def test_products_that_may_bring_samples_together(forward: str) -> None:
    found = unchanged(_network(forward), shard_manual=True)
    assert found.code == "DATA-UNSHARDED" and "a mean or a sum" in found.message


# Recurrent layers take a tensor of two dimensions for one sequence: its rows are steps, and no samples.
RECURRENT = HEAD.replace("self.layers = ", "self.rnn, self.out = nn.GRU(8, 3, batch_first=True), ").replace(
    "nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])", "nn.Linear(3, 3)"
)
SEQUENCES = [
    "b, t, c = x.shape\nout, _ = self.rnn(x)\nreturn self.out(out[:, -1])",
    "out, _ = self.rnn(x)\nreturn self.out(out[:, -1, :])",
    "out, _ = self.rnn(x)\nreturn self.out(out).transpose(1, 2).mean(2) + out.mean(2).mean(1, keepdim=True)",
    "out, h = self.rnn(x)\nreturn self.out(out.reshape(x.size(0), -1, out.size(2)).mean(1))",
    "h = torch.zeros(1, x.size(0), 3, device=x.device)\nout, _ = self.rnn(x, h)\nreturn self.out(out[:, -1])",
    "h = next(self.parameters()).new_zeros(1, x.size(0), 3)\nout, _ = self.rnn(x, h)\nreturn self.out(out[:, -1])",
    "h = torch.zeros(1, x.size(0), 3).to(x.device)\nout, _ = self.rnn(x, h.detach())\nreturn self.out(out[:, -1])",
]
ONE_SEQUENCE = [
    "out, _ = self.rnn(x)\nreturn self.out(out)",
    "out, _ = self.rnn(x)\nreturn self.out(out[-1:, :, None])",
    "out, _ = self.rnn(x)\nout = out.view(-1, 1, 3)\nreturn self.out(out[:, -1, :])",  # another `out`
    "h = None\nout, _ = self.rnn(x, h)\nreturn self.out(out)",
]
# States for the whole batch, or with the samples elsewhere.
STATES = [
    "h = torch.zeros(1, 16, 3)\nout, _ = self.rnn(x, h)\nreturn self.out(out[:, -1])",
    "h = torch.zeros(1, 16, 3).to(x.device)\nout, _ = self.rnn(x, h.detach())\nreturn self.out(out[:, -1])",
    "h = torch.zeros(1, x.size(0), 3).sum(1)\nout, _ = self.rnn(x, h)\nreturn self.out(out[:, -1])",
]


@pytest.mark.parametrize("forward", SEQUENCES)
def test_a_sequence_for_each_sample(forward: str) -> None:
    text = script(**NETWORK, definitions=RECURRENT.format(textwrap.indent(forward, " " * 8)))
    assert DEALT in converted(text, shard_manual=True)
    slots = {**WHOLE, "data": LOADED, "forward": STRICT}
    text = script(**slots, definitions=RECURRENT.format(textwrap.indent(forward, " " * 8)))
    assert "X_share, Y_share = accelerator.split_batch(X, Y)" in converted(text, shard_manual=True)


@pytest.mark.parametrize("forward", ONE_SEQUENCE)
def test_samples_that_may_be_one_sequence(forward: str) -> None:
    text = script(**NETWORK, definitions=RECURRENT.format(textwrap.indent(forward, " " * 8)))
    assert "a mean or a sum" in unchanged(text, shard_manual=True).message
    slots = {**WHOLE, "data": LOADED, "forward": STRICT}
    text = script(**slots, definitions=RECURRENT.format(textwrap.indent(forward, " " * 8)))
    assert "for one sequence" in unchanged(text, shard_manual=True).message


# A loop that makes the state of a recurrent layer for its batch: what makes it, and what stands before the batch.
READER = """\
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 3, batch_first=True)

    def forward(self, x, h):
        out, h = self.rnn(x, h)
        return out[:, -1], h

    def begin(self, n):
        return next(self.parameters()).data.new(1, n, 3).zero_()


def begin(n):
    return torch.zeros(1, n, 3, device=device)


def told(n):
    print("rows", n)
    return n
"""
CARRY = {
    **OPEN,
    "definitions": READER,
    "model": "model = Reader().to(device)",
    "before": "size = 16",
    "loop": "for i in range(0, 64, size):",
    "move": "x, y = X[i : i + size], Y[i : i + size]",
    "forward": "h = begin(size)\noptimizer.zero_grad()\nout, h = model(x, h)\nloss = F.cross_entropy(out, y)",
}
SPLIT = "size // accelerator.num_processes"
MADE_STATES = [
    ("begin(size)", f"begin({SPLIT})"),
    ("torch.zeros(1, size, 3)", f"torch.zeros(1, {SPLIT}, 3)"),
    ("torch.zeros((1, size, 3)).to(device)", f"torch.zeros((1, {SPLIT}, 3)).to(device)"),
    ("x.data.new(1, size, 3).zero_()", f"x.data.new(1, {SPLIT}, 3).zero_()"),
    ("model.begin(n=size)", f"accelerator.unwrap_model(model).begin(n={SPLIT})"),
]
OTHER_STATES = [
    "torch.zeros(1, 8, 3)",
    "torch.zeros(2, 3, size)[:1]",
    "begin(told(size))",
    "torch.zeros(1, size, 3).sum(1)",
]


@pytest.mark.parametrize(("made", "of_share"), MADE_STATES)
def test_a_state_for_as_many_rows_as_a_share_has(made: str, of_share: str) -> None:
    forward = CARRY["forward"].replace("begin(size)", made)
    output = converted(script(**CARRY | {"forward": forward}), shard_manual=True)
    assert (
        f"h={of_share}".replace(" ", "") in re.sub(r"\s", "", output)
        and "x, y = accelerator.split_batch(x, y)\n" in output
    )
    # before the batch is there; what else is told its size, is told that of the whole
    first = {"move": f"h = begin(size)\ntold(size)\n{CARRY['move']}", "forward": forward.partition("\n")[2]}
    output = converted(script(**CARRY | first), shard_manual=True)
    assert f"h = begin({SPLIT})\n" in output and "told(size)\n" in output


def test_a_state_is_told_to_need_shares_of_one_size() -> None:
    plan = convert(script(**CARRY), shard_manual=True).plan
    assert plan is not None
    assumed = {edit.code: edit.assumes.text for edit in plan.edits if edit.rule == "SHARD" and edit.assumes}
    assert assumed == {"{} // accelerator.num_processes": "the number of processes divides the batch size"}


@pytest.mark.parametrize("made", OTHER_STATES)
def test_a_state_for_other_rows(made: str) -> None:
    text = script(**CARRY | {"forward": CARRY["forward"].replace("begin(size)", made)})
    assert unchanged(text, shard_manual=True).code == "DATA-UNSHARDED"


def test_what_is_no_state_is_not_divided() -> None:
    """Of positions there are as many as steps, whatever the batch is; and a state may be made for all batches."""
    forward = CARRY["forward"].replace("model(x, h)", "model(x + torch.zeros(1, size, 8), h)")
    assert unchanged(script(**CARRY | {"forward": forward}), shard_manual=True).code == "DATA-UNSHARDED"
    carried = {"epoch": "h = begin(size)", "forward": CARRY["forward"].replace("begin(size)", "h.detach()")}
    assert unchanged(script(**CARRY | carried), shard_manual=True).code == "DATA-UNSHARDED"


@pytest.mark.parametrize("forward", STATES)
def test_states_that_may_be_of_the_whole_batch(forward: str) -> None:
    """What is lacking is the state, so nothing is said of sequences."""
    definitions = RECURRENT.format(textwrap.indent(forward, " " * 8))
    for slots in (NETWORK, {**WHOLE, "data": LOADED, "forward": STRICT}):
        found = unchanged(script(**slots, definitions=definitions), shard_manual=True).message
        assert "a mean or a sum" in found and "for one sequence" not in found


# Functions that train on the whole data, which are bound outside of them.
FIT = """\
def fit(model):
    for _ in range(9):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X), Y)
        loss.backward()
        optimizer.step()
"""
FITTED = {"data": LOADED, "loader": "", "loop": "if epoch:", "move": "", "backward": "", "step": ""}
TRAINER = """\
class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.load()

    def load(self):
        self.x, self.y = torch.load('x.pt'), torch.load('y.pt')

    def fit(self):
        for _ in range(9):
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(self.x), self.y)
            loss.backward()
            self.optimizer.step()
"""
TRAINED = {"data": "", "loader": "", "epochs": "", "loop": "", "move": "", "forward": "", "backward": "", "step": ""}
RUN = "trainer = Trainer(model, optimizer)\ntrainer.fit()"


@pytest.mark.parametrize("more", [{}, {"epoch": "X = X * 0.5"}])
def test_whole_data_that_are_bound_outside(more: dict[str, str]) -> None:
    output = converted(script(**FITTED, **more, definitions=FIT, forward="fit(model)"), shard_manual=True)
    assert "    X_share, Y_share = accelerator.split_batch(X, Y)\n    for _ in range(9):\n" in output


@pytest.mark.parametrize("after", [RUN, f"{RUN}\ntrainer.load()"])
def test_whole_data_that_are_bound_in_other_methods(after: str) -> None:
    output = converted(script(**TRAINED, definitions=TRAINER, after=after), shard_manual=True)
    assert "        x_share, y_share = accelerator.split_batch(self.x, self.y)\n        for _ in" in output
    assert "F.cross_entropy(self.model(x_share), y_share)" in output


def test_whole_data_of_a_function_that_something_else_runs() -> None:
    outer = f"def search(X, Y, model):\n{textwrap.indent(FIT.replace('model)', ')', 1), '    ')}    study(fit)"
    slots = {**TRAINED, "definitions": outer, "imports": "from elsewhere import study"}
    after = f"{LOADED}\nsearch(X, Y, model)"
    assert "`X` is bound in another function" in unchanged(script(**slots, after=after), shard_manual=True).message
    slots["definitions"] = outer.replace("study(fit)", "fit()")
    output = converted(script(**slots, after=after), shard_manual=True)
    assert "        X_share, Y_share = accelerator.split_batch(X, Y)\n" in output


@pytest.mark.parametrize("inside", ["self.load()", "self.again()"])
def test_whole_data_that_are_bound_anew_meanwhile(inside: str) -> None:
    again = "    def again(self):\n        self.load()\n"
    definitions = f"{TRAINER}            {inside}\n\n{again}"
    found = unchanged(script(**TRAINED, definitions=definitions, after=RUN), shard_manual=True)
    assert found.code == "DATA-UNSHARDED" and "--shard-manual" not in found.remedy


# A function that trains on the batch that it is handed: its parameters and body, and the loop that calls it.
TRAIN = """\
def train({}):
    optimizer.zero_grad()
    loss = {}
    loss.backward()
    optimizer.step()
    return loss.item()
"""
FUNCTION = TRAIN.format("model, x, y", "F.cross_entropy(model(x), y)")
CALL = "total += train(model, X[i : i + 16], Y[i : i + 16])"
APPLIED = {**OPEN, "epoch": "total = 0.0", "move": "", "backward": "", "step": "", "epoch_end": "print(total)"}
HANDED = [
    (FUNCTION, CALL, "x, y"),
    (FUNCTION, f"{ROWS}\ntotal += train(model, X[rows], Y[rows])", "x, y"),
    (FUNCTION, "x, y = X[i : i + 16], Y[i : i + 16]\ntotal += train(model, x, y)\nseen = len(x)", "x, y"),
    (FUNCTION, "total += train(y=Y[i : i + 16], x=X[i : i + 16], model=model)", "x, y"),
    (TRAIN.format("rows", "F.cross_entropy(model(X[rows]), Y[rows])"), f"{ROWS}\ntotal += train(rows)", "rows"),
    (FUNCTION.replace("model(x)", "model.forward(x)"), CALL, "x, y"),
    (FUNCTION.replace(":\n", ':\n    """One step."""\n', 1), CALL, "x, y"),
    # how many rows the whole batch has is the same everywhere
    (
        TRAIN.format("model, x, y, n", "F.cross_entropy(model(x), y) if n > 9 else F.cross_entropy(model(x), y) * 2"),
        f"x, y = X[i : i + 16], Y[i : i + 16]\n{CALL.split('(')[0]}(model, x, y, len(x))",
        "x, y",
    ),
]


@pytest.mark.parametrize(("function", "calls", "names"), HANDED)
def test_a_batch_that_is_handed_to_a_function(function: str, calls: str, names: str) -> None:
    output = converted(script(**APPLIED, definitions=function, forward=calls), shard_manual=True)
    begin = '"""One step."""' if '"""' in function else "):"
    assert f"{begin}\n    {names} = accelerator.split_batch({names})\n    optimizer.zero_grad()\n" in output
    assert "accelerator.backward(loss)" in output


def test_the_loss_of_a_function_that_trains() -> None:
    function = FUNCTION.replace("y)", 'y, reduction="sum")')
    plan = convert(script(**APPLIED, definitions=function, forward=CALL), shard_manual=True).plan
    assert plan is not None and [
        f.message for f in plan.findings if f.code == "METRIC-TRAIN" and "`total`" in f.message
    ]
    assert 'accelerator.backward(loss, reduction="sum")' in converted(
        script(**APPLIED, definitions=function, forward=CALL), shard_manual=True
    )


DEALT_AND_HANDED = [
    ("for x, y in zip(X.split(16), Y.split(16)):", "total += train(model, x, y)"),
    ("for rows in torch.randperm(70).split(16):", "total += train(model, X[rows], Y[rows])"),
    ("for k, (x, y) in enumerate(zip(X.chunk(4), Y.chunk(4))):", "total += train(model, x, y)"),
]


@pytest.mark.parametrize(("loop", "calls"), DEALT_AND_HANDED)
def test_a_piece_that_is_handed_to_a_function(loop: str, calls: str) -> None:
    output = converted(script(**{**APPLIED, "loop": loop}, definitions=FUNCTION, forward=calls), shard_manual=True)
    assert "):\n    x, y = accelerator.split_batch(x, y)\n    optimizer.zero_grad()\n" in output


@pytest.mark.parametrize(
    ("loop", "calls"),
    [
        ("for x, y in zip(X.split(16), Y.chunk(16)):", "total += train(model, x, y)"),
        ("for x, y in zip(X.split(16), Y):", "total += train(model, x, y)"),
        ("for rows in torch.randperm(70).split(16):", "total += train(model, X[rows], Y[:16])"),
    ],
)
def test_a_piece_that_is_handed_with_something_else(loop: str, calls: str) -> None:
    text = script(**{**APPLIED, "loop": loop}, definitions=FUNCTION, forward=calls)
    assert convert(text, shard_manual=True).output is None


def test_a_function_that_a_counting_while_loop_hands_its_batches() -> None:
    slots = {**APPLIED, "epoch": "i = total = 0", "loop": "while i < len(X):", "batch_end": "i += 16"}
    output = converted(script(**slots, definitions=FUNCTION, forward=CALL), shard_manual=True)
    assert "):\n    x, y = accelerator.split_batch(x, y)\n" in output
    text = script(**{**slots, "loop": "while i < 70 and total < 9:"}, definitions=FUNCTION, forward=CALL)
    assert unchanged(text, shard_manual=True).code == "DATA-UNSHARDED"


# What becomes of what such a function returns, and what is said of it.
RETURNED = [
    ("train(model, x, y)", "", ""),
    ("print(train(model, x, y))", "", "`train(model, x, y)` covers only the share"),
    ("print(i, 'of', len(X))\ntrain(model, x, y)", "", ""),
    ("seen.append(train(model, x, y))", "print(sum(seen) / len(seen))", "`seen` covers only the share"),
    ("seen.append(train(model, x, y))", "print(len(X))", ""),
    ("one = train(model, x, y)", "print(one)", "`one` covers only the share"),
]


@pytest.mark.parametrize(("calls", "end", "said"), RETURNED)
def test_what_a_function_that_trains_returns(calls: str, end: str, said: str) -> None:
    slots = {"forward": f"x, y = X[i : i + 16], Y[i : i + 16]\n{calls}", "epoch": "seen = []", "epoch_end": end}
    found = convert(script(**{**APPLIED, "definitions": FUNCTION, **slots}), shard_manual=True)
    assert found.output is not None and found.plan is not None
    told = [f.message for f in found.plan.findings]
    assert (len(told) == 1 and said in told[0]) if said else told == []


def test_what_a_function_that_trains_returns_decides() -> None:
    forward = "x, y = X[i : i + 16], Y[i : i + 16]\nif train(model, x, y) < 0.1:\n    break"
    found = unchanged(script(**{**APPLIED, "definitions": FUNCTION, "forward": forward}), shard_manual=True)
    assert "it cannot be followed what becomes of what `train` returns for them" in found.message


NOT_HANDED = [
    (TRAIN.format("model, x, y, n", "F.cross_entropy(model(x), y, reduction='sum') / n"), "x, y", "a mean or a sum"),
    (TRAIN.format("model, x, y, n", "F.cross_entropy(model(x) - model(x).mean(0), y)"), "x, y", "compares the samples"),
    (TRAIN.format("model, x, y, n", "F.cross_entropy(model(x), Y)"), "x, y", "a mean or a sum"),
    (FUNCTION.replace("x, y):", "x, y, n):\n    kept.append(x)"), "x, y", "also used in `kept.append(x)`"),
    (
        FUNCTION.replace("x, y):", "x, y, n):").replace("    loss.b", "    if n:\n        loss.b"),
        "x, y",
        "not every iter",
    ),
    (FUNCTION.replace("x, y):", "x, y, n):"), "x, Y[torch.randint(70, (16,))]", "same number of rows"),
]


@pytest.mark.parametrize(("function", "given", "reason"), NOT_HANDED)
def test_a_batch_that_a_function_needs_all_of(function: str, given: str, reason: str) -> None:
    calls = f"x, y = X[i : i + 16], Y[i : i + 16]\ntotal += train(model, {given}, len(x))"
    found = unchanged(script(**APPLIED, definitions=function, forward=calls), shard_manual=True)
    assert found.code == "DATA-UNSHARDED" and reason in found.message, found.message


@pytest.mark.parametrize(
    "slots",
    [
        {"after": "train(model, X, Y)"},
        {"after": "for step in (train, print):\n    step(model, X, Y)"},
        {"forward": f"if i:\n    {CALL}"},
        {"loop": "while True:", "forward": f"i = torch.randint(70, (1,))\n{CALL}"},
    ],
)
def test_a_function_that_no_loop_alone_hands_every_batch(slots: dict[str, str]) -> None:
    found = unchanged(script(**{**APPLIED, "definitions": FUNCTION, "forward": CALL, **slots}), shard_manual=True)
    assert found.code == "DATA-UNSHARDED" and "--shard-manual" not in found.remedy


# What is lacking where the data have no form that is known: other slots of a loop over epochs alone, and the reason.
PAIRS = "pairs = [(X[i], Y[i]) for i in range(70)]"
CLOSURE = """\
def closure():
    optimizer.zero_grad()
    loss = F.mse_loss(model(X), Y)
    loss.backward()
    return loss
"""
LACKING = [
    ({"epochs": "if True:", "loop": "if True:", "forward": STRICT}, "its backward pass is in no loop"),
    (
        {"loop": "for x, y in pairs:", "before": PAIRS, "forward": "loss = F.mse_loss(model(x), y)"},
        "the training loop is over `pairs`",
    ),
    (
        {"loop": "for k, p in enumerate(pairs):", "before": PAIRS, "forward": "x, y = p\nloss = (model(x) - y).sum()"},
        "the training loop is over `pairs`",
    ),
    ({"loop": "for k in range(9):", "forward": "loss = F.mse_loss(model(X[k]), Y[k])"}, "by way of `X[k]`"),
    ({"forward": "loss = F.mse_loss(model(X[read():]), Y)", "imports": "from elsewhere import read"}, "`read()`"),
    ({"forward": "h = torch.zeros(1, n, 8)\nloss = model(h).sum()", "before": "n = len(X)"}, "`torch.zeros(1, n, 8)`"),
    (
        {
            "model": "w = torch.zeros(8, requires_grad=True)",
            "optimizer": "",
            "loop": "for k in range(9):",
            "forward": "loss = (X[k] * w).sum()",
            "step": "w.data -= w.grad",
        },
        "it trains `torch.zeros(8, requires_grad=True)`, which is in no network",
    ),
    (
        {
            "model": "w, b = torch.zeros(8), torch.zeros(1)\nweights = [w, b]\n"
            "for p in weights:\n    p.requires_grad = True",
            "optimizer": "",
            "loop": "for k in range(9):",
            "move": "rows = torch.randint(0, 70, (16,))",
            "forward": "loss = ((X[rows] * w).sum(1) + b - Y[rows]).pow(2).mean()",
            "step": "for p in weights:\n    p.data -= p.grad",
        },
        "it trains `p`, which is in no network",
    ),
    (
        {
            "definitions": "class Scale:\n    weight = nn.Parameter(torch.ones(8), requires_grad=True)\n\n"
            "    def __call__(self, x):\n        return x * self.weight",
            "model": "model = Scale()",
            "optimizer": "",
            "loop": "for k in range(9):",
            "forward": "loss = F.mse_loss(model(X[k]), Y[k])",
            "step": "",
        },
        "by way of `X[k]`",
    ),
    (
        {
            "imports": "from elsewhere import Net",
            "model": "model = Net()\nfor p in model.parameters():\n    p.requires_grad = True",
            "loop": "for k in range(9):",
            "forward": "loss = F.mse_loss(model(X[k]), Y[k])",
        },
        "by way of `X[k]`",  # whatever it is, it may be one
    ),
    (
        {
            "imports": "from torch_geometric.nn import GCNConv",
            "definitions": "conv = GCNConv(8, 3)",
            "forward": "loss = model(conv(X, drop(Y))).sum()",
            "from_imports": "from elsewhere import drop",
        },
        "its network computes on a graph (`GCNConv`)",
    ),
    (
        {"forward": CLOSURE, "backward": "", "step": "optimizer.step(closure)"},
        "what an optimizer runs as often as it needs a loss (`optimizer.step(closure)`), and no DataLoader feeds it",
    ),
    ({"forward": CLOSURE, "backward": "", "step": "report(closure)"}, "no DataLoader feeds the training: every"),
    # no number by which it is taken
    ({"forward": "loss = F.mse_loss(model(X[k - 1]), Y[k])", "loop": "for k in range(9):"}, "by way of `X[k - 1]`"),
]


@pytest.mark.parametrize(("slots", "reason"), LACKING)
def test_what_is_lacking_is_told(slots: dict[str, str], reason: str) -> None:
    found = unchanged(script(**{**WHOLE, "data": LOADED, **slots}), shard_manual=True)
    assert found.code == "DATA-UNSHARDED" and reason in found.message, found.message


def test_what_makes_a_loss_unknown_is_told() -> None:
    network = NET.format("x = unknown(x)").replace("Memory", "Net")
    slots = {**OPEN, "move": f"{ROWS}\n{TAKEN}", "definitions": network, "imports": "from elsewhere import unknown"}
    found = unchanged(script(**slots), shard_manual=True)
    assert "`loss` is a mean or a sum over them, as `unknown(x)` cannot be followed" in found.message
    sets_up = "self.layer.flatten_parameters()\n        x = x.data.set_(x)"
    ready = {**slots, "definitions": network.replace("x = unknown(x)", sets_up)}
    assert "as `x.data.set_(x)` cannot be followed" in unchanged(script(**ready), shard_manual=True).message
    known = {**slots, "definitions": network.replace("unknown(x)", "x.cumsum(0)")}
    assert "unknown" not in unchanged(script(**known), shard_manual=True).message


# Loops over batches that another part of the script makes: its definitions, the loop, what it does, and what is dealt.
BATCHES = """\
def batches(inputs, targets, size, shuffle=True):
    order = torch.randperm(len(inputs)) if shuffle else torch.arange(len(inputs))
    for i in range(0, len(inputs), size):
        rows = order[i : i + size]
        yield inputs[rows].to(device), targets[rows].to(device)
"""
COUNTING = """\
def batches(inputs, targets, size):
    start = 0
    while start < len(inputs):
        end = min(len(inputs), start + size)
        yield inputs[start:end], targets[start:end]
        start += size
"""
LAST_LEFT_OUT = BATCHES.replace("        rows", "        if i + size > len(inputs):\n            break\n        rows")
PIECES = """\
def batches(inputs, targets, size):
    order = torch.randperm(len(inputs))
    for rows in order.split(size):
        yield inputs[rows], targets[rows]
"""
LISTED = """\
def batches(inputs, targets, size):
    found = []
    for i in range(0, len(inputs), size):
        found.append((inputs[i : i + size], targets[i : i + size]))
    return found
"""
DEALERS = [
    (LISTED, "for x, y in batches(X, Y, 16):", "", "x, y"),
    ("", "for x, y in [(X[i : i + 16], Y[i : i + 16]) for i in range(0, 70, 16)]:", "", "x, y"),
    ("", "for rows in [order[k * 16 : (k + 1) * 16] for k in range(4)]:", "x, y = X[rows], Y[rows]", "rows"),
    (PIECES, "for x, y in batches(X, Y, 16):", "", "x, y"),
    (BATCHES, "for x, y in batches(X, Y, 16):", "", "x, y"),
    (COUNTING, "for x, y in batches(X, Y, 16):", "", "x, y"),
    (LAST_LEFT_OUT, "for n, (x, y) in enumerate(batches(X, Y, 16)):", "", "x, y"),
    ("", "for x, y in zip(X.split(16), Y.split(16)):", "", "x, y"),
    ("", "for x, y in zip(torch.chunk(X, 4), torch.chunk(Y, 4)):", "", "x, y"),
    ("", "for rows in torch.randperm(70).split(16):", "x, y = X[rows], Y[rows]", "rows"),
    ("", "for rows in np.array_split(np.random.permutation(70), 4):", "x, y = X[rows], Y[rows]", "rows"),
]


@pytest.mark.parametrize(("definitions", "loop", "move", "names"), DEALERS)
def test_batches_that_are_dealt(definitions: str, loop: str, move: str, names: str) -> None:
    slots = {**OPEN, "definitions": definitions, "imports": "import numpy as np", "loop": loop, "move": move}
    output = converted(script(**slots), shard_manual=True)
    assert f"    {loop}\n        {names} = accelerator.split_batch({names})\n        {move}".rstrip() in output
    assert "accelerator.backward(loss)" in output
    found = unchanged(script(**slots))
    assert found.code == "DATA-UNSHARDED" and "--shard-manual" in found.remedy


STREAM = """\
def stream(inputs, targets, size):
    while True:
        rows = torch.randint(0, len(inputs), (size,))
        yield inputs[rows], targets[rows]
"""


def test_the_next_batch_of_a_generator_of_the_script() -> None:
    slots = {**OPEN, "definitions": STREAM, "before": "batches = stream(X, Y, 16)", "loop": "for _ in range(9):"}
    output = converted(script(**slots, move="x, y = next(batches)"), shard_manual=True)
    assert "x, y = next(batches)\n        x, y = accelerator.split_batch(x, y)\n" in output
    noted = STREAM.replace("        yield", "        rows = rows + len(seen)\n        yield")
    for other in (
        {"before": "batches = iter(zip(X, Y))"},
        {"batch_end": "batches.send(loss)"},
        {"definitions": f"seen = []\n{noted}", "batch_end": "seen.append(loss.item())"},
    ):
        found = unchanged(script(**slots | {"move": "x, y = next(batches)"} | other), shard_manual=True)
        assert found.code == "DATA-UNSHARDED"


KEPT_BATCHES = [
    ("batches(X, Y, 16)", "for n, (x, y) in enumerate(kept):", ""),
    ("[(X[i : i + 16], Y[i : i + 16]) for i in range(0, 70, 16)]", "for x, y in kept:", "random.shuffle(kept)"),
    ("X.split(16)", "for x, y in zip(kept, Y.split(16)):", "total = len(kept)"),
]


@pytest.mark.parametrize(("made", "loop", "epoch"), KEPT_BATCHES)
def test_batches_that_a_variable_holds(made: str, loop: str, epoch: str) -> None:
    slots = {**OPEN, "definitions": LISTED, "imports": "import random", "before": f"kept = {made}", "move": ""}
    output = converted(script(**slots | {"epoch": epoch, "loop": loop}), shard_manual=True)
    assert f"    {loop}\n        x, y = accelerator.split_batch(x, y)\n" in output
    for other in ("kept.pop()", "kept[0] = kept[1]", "change(kept)", "kept = kept[1:]"):
        text = script(**slots | {"epoch": other, "loop": loop})
        assert unchanged(text, shard_manual=True).code in ("DATA-UNSHARDED", "LOADER-UNKNOWN")


NOT_DEALT = [
    (LISTED.replace("found.append", "if i:\n            found.append"), "for x, y in batches(X, Y, 16):", ""),
    (LISTED.replace("    return", "    found.pop()\n    return"), "for x, y in batches(X, Y, 16):", ""),
    (LISTED.replace("i + size", "i + 2 * size"), "for x, y in batches(X, Y, 16):", ""),
    ("", "for x, y in [(X[i : i + 16], Y[i : i + 16]) for i in range(0, 70, 8)]:", ""),
    ("", "for x, y in [(X[i : i + 16], Y[i : i + 16]) for i in range(0, 70, 16) if i in kept]:", ""),
    ("", "for x, y in [(X[i], Y[i]) for i in range(70)]:", ""),
    ("", "for x, y in zip(X, Y):", ""),
    ("", "for x, y in zip(X.split(16), Y.chunk(16)):", ""),
    ("", "for x, y in zip(X.split(16, dim=1), Y.split(16)):", ""),
    ("", "for x, y in zip(X.split([30, 40]), Y.split([30, 40])):", ""),
    ("", "for word in text.split(' '):", "x, y = X[[ord(c) for c in word]], Y[[ord(c) for c in word]]"),
    ("", "for x, y in zip(X.split(16), Y.split(16)):", "seen.append(x)"),
    ("", "for rows in torch.randperm(70).split(16):", "x, y = X[rows], Y[rows]\nlast[0] = rows\nseen[rows] = 1"),
    (BATCHES.replace("targets[rows]", "targets[: len(rows)]"), "for x, y in batches(X, Y, 16):", ""),
    (BATCHES.replace("i : i + size", "i : i + 2 * size"), "for x, y in batches(X, Y, 16):", ""),
    (COUNTING.replace("start += size", "start += 1"), "for x, y in batches(X, Y, 16):", ""),
    (COUNTING.replace("        end", "        start += 2\n        end"), "for x, y in batches(X, Y, 16):", ""),
    (PIECES.replace("targets[rows]", "targets[:16]"), "", ""),
    (PIECES.replace(".split(size)", ".tolist()"), "", ""),
    # as many batches on all processes?
    (PIECES.replace("    for", "    size = random.randint(2, 9)\n    for"), "", ""),
    (PIECES.replace("        yield", "        if random.random() < 0.5:\n            continue\n        yield"), "", ""),
    (
        BATCHES.replace("        yield", "        if random.random() < 0.5:\n            continue\n        yield"),
        "",
        "",
    ),
    (
        BATCHES.replace("        yield", "        if targets[rows].sum() < 5:\n            continue\n        yield"),
        "",
        "",
    ),
    (BATCHES.replace("        yield", "        if len(rows) > 1:\n            yield"), "", ""),
    (f"{BATCHES}    yield inputs, targets\n", "", ""),
    (f"def pairs(x, y, size):\n    return some.batches(x, y, size)\n\n\n{BATCHES}", "for x, y in pairs(X, Y, 16):", ""),
]


@pytest.mark.parametrize(("definitions", "loop", "move"), NOT_DEALT)
def test_what_is_dealt_is_left_alone(definitions: str, loop: str, move: str) -> None:
    slots = {**OPEN, "definitions": definitions, "imports": "import random", "move": move}
    text = script(**{**slots, "loop": loop or "for x, y in batches(X, Y, 16):", "epoch": "seen, last = [], [0]"})
    result = convert(text, shard_manual=True)
    assert result.output is None and not result.error


# Lists that are filled row by row: what fills them in a function that draws a batch.
LISTS = """\
def draw():
    inputs, total = [], 0
    targets = []
    for r in np.random.choice(70, 16, replace=False):
{}
    return inputs, targets
"""
DRAWN = "x, y = draw()\nx, y = torch.FloatTensor(x), torch.LongTensor(y)"
FILLED = [
    "inputs.append(words[r][0])\ntargets.append(words[r][1])",
    "word = words[r]\nfirst = word[0]\ninputs.append(np.eye(8)[first])\ntargets.append(word[1])",
    "targets.append(r % 3)\ninputs.append([words[r + k] for k in range(8)])",
]
NOT_FILLED = [
    "inputs.append(words[r][0])\nif r:\n    targets.append(words[r][1])",
    "inputs.append(words[r][0])\ntargets.append(words[r][1])\ntargets.append(0)",
    "total = total + words[r][1]\ninputs.append(words[r][0])\ntargets.append(total)",
    "total += 1\ninputs.append(words[r][0])\ntargets.append(total)",
    "inputs.append(words[r][0])\ntargets.append(words.pop())",
    "inputs.append(words[r][0] + random.random())\ntargets.append(words[r][1])",
    "inputs.append(words[r][0])\ntargets.append(words[r][1])\nif r > 60:\n    break",
]


def _filling(body: str) -> str:
    definition = LISTS.format(textwrap.indent(body, " " * 8))
    slots = {"imports": "import random\nimport numpy as np", "before": "words = torch.load('words.pt')"}
    return script(**{**OPEN, **slots, "definitions": definition, "loop": "for _ in range(9):", "move": DRAWN})


@pytest.mark.parametrize("body", FILLED)
def test_lists_with_something_for_each_row(body: str) -> None:
    assert "x, y = draw()\n        x, y = accelerator.split_batch(x, y)\n" in converted(
        _filling(body), shard_manual=True
    )


@pytest.mark.parametrize("body", NOT_FILLED)
def test_lists_with_something_else(body: str) -> None:
    assert unchanged(_filling(body), shard_manual=True).code == "DATA-UNSHARDED"
