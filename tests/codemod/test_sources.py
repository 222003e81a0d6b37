"""Batches that a call deals which is not followed: shared out on request; it shows at run time if they have no rows."""

from __future__ import annotations

import pytest
from scripts import convert, converted, script, unchanged

OPEN = {"data": "X, Y = torch.load('x.pt'), torch.load('y.pt')", "loader": "", "loop": "for step in range(9):"}
SOURCE = "source = Memory(X, Y)"
DRAW = "x, y = source.next_batch(16)"
BATCHER = """\
class Batches:
    def __init__(self, x, y):
        self.x, self.y, self.place = x, y, 0

    def take({}):
        x, y = self.x[self.place : self.place + 16], self.y[self.place : self.place + 16]
        self.place = (self.place + 16) % len(self.x)
        return {}
"""
RANDOM = """\
def make(data, labels):
    {}
    for k in range(16):
        i = random.randrange(len(data))
        {}
    return x, y
"""
PLACED = ("x, y = torch.FloatTensor(16, 8), torch.LongTensor(16)", "x[k], y[k] = data[i], labels[i]")
LISTED = ("x, y = [], []", "x.append(data[i])\n        y.append(labels[i])")
COUNTER = """\
place = 0

def take(n):
    global place
    place = (place + n) % 70
    return X[place : place + n], Y[place : place + n]
"""

# What the script defines, what is there before the loop, and how the loop gets its batch.
DEALT = [
    ("", SOURCE, DRAW),
    ("", f"size = 16\n{SOURCE}", "x, y = source.next_batch(n=size)"),
    ("", SOURCE, "x, y = source.train.next_batch(step, 16)"),
    ("", "", "x, y = draw('train', 16)"),
    (BATCHER.format("self, n", "x, y"), "source = Batches(X, Y)", "x, y = source.take(16)"),
    (BATCHER.format("self", "x.view(16, 8), y"), "source = Batches(X, Y)", "x, y = source.take()"),
    (RANDOM.format(*PLACED), "", "x, y = make(X, Y)"),
    (RANDOM.format(*LISTED), "", "x, y = make(X, Y)\nx, y = torch.stack(x), torch.tensor(y)"),
    (COUNTER, "", "x, y = take(16)"),
]
IMPORTS = {"imports": "import random", "from_imports": "from elsewhere import Memory, draw"}


@pytest.mark.parametrize(("definitions", "before", "move"), DEALT)
def test_what_a_call_deals_is_shared_out(definitions: str, before: str, move: str) -> None:
    text = script(**OPEN, **IMPORTS, definitions=definitions, before=before, move=move)
    first = move.splitlines()[0]
    assert f"        {first}\n        x, y = accelerator.split_batch(x, y)\n" in converted(text, shard_manual=True)
    found = unchanged(text)  # only on request
    assert found.code == "DATA-UNSHARDED" and "--shard-manual" in found.remedy


LOADED = """\
class Batches:
    def __init__(self, x, y):
        self.loader = DataLoader(TensorDataset(x, y), 16)
        self.drawn = list(self.loader)

    def take(self, n):
        return self.drawn[n % 3]
"""
LEARNING = "def take(n):\n    rows = model(X).max(1)[0].topk(n)[1]\n    return X[rows], Y[rows]"
TOLD = "def take(n):\n    return draw(n, seen)"

# Other slots, and the reason.
KEPT = [
    # how many samples are there?
    ({"move": "x, y = source.next_batch()"}, "`source.next_batch()`, which cannot be followed"),
    ({"move": "x, y = source.next_batch(1)"}, "`source.next_batch(1)`, which cannot be followed"),
    ({"move": "x, y = source.next_batch(step)"}, "`source.next_batch(step)`, which cannot be followed"),
    ({"definitions": "def one(i):\n    return draw(i)", "move": "x, y = one(step)"}, "by way of `one(step)`"),
    (  # what is added to a loss is not where its data come from
        {
            "definitions": "def one(i):\n    return draw(i)",
            "move": "x, y = one(step)",
            "backward": "for p in model.parameters():\n    loss += 0.1 * (p**2).sum()\nloss.backward()",
        },
        "by way of `one(step)`",
    ),
    ({"before": "source = iter(X)", "move": "x = next(source)\ny = Y"}, "`next(source)`, which cannot be followed"),
    # it depends on the network, or on what the loop computes
    ({"definitions": LEARNING, "move": "x, y = take(16)"}, ""),
    ({"before": "source = Memory(X, Y, model)"}, "`source.next_batch(16)`, which cannot be followed"),
    ({"move": "x, y = source.next_batch(16, model)"}, "which cannot be followed"),
    ({"batch_end": "source.update(loss.item())"}, "which cannot be followed"),
    ({"batch_end": "source.loss = loss.item()"}, "which cannot be followed"),
    (
        {"definitions": TOLD, "before": "seen = []", "move": "x, y = take(16)", "batch_end": "seen.append(loss)"},
        "`draw(n",
    ),
    (
        {
            "before": f"{SOURCE}\nbest = 0",
            "move": "x, y = source.next_batch(16, best)",
            "batch_end": "best = loss.item()",
        },
        "which cannot be followed",
    ),
    (
        {"definitions": LOADED, "before": "source = Batches(X, Y)", "move": "x, y = source.take(16)"},
        "a DataLoader deals batches beside it",
    ),
    # it is no batch, or one that is made for another one
    (
        {
            "loop": "for k in range(9):",
            "definitions": "def rate(k, n):\n    return draw(k, n)",
            "move": "lr = rate(k, 100)\nfor g in optimizer.param_groups:\n    g['lr'] = lr",
            "forward": "loss = F.cross_entropy(model(X * w), Y)",
            "before": "w = torch.load('w.pt')",
        },
        "every step trains on the whole data",
    ),
    (
        {
            "before": "batches = draw()",
            "loop": "for x, y in batches:",
            "move": "z = noise(x.size(0), 16)",
            "definitions": "def noise(n, size):\n    return draw(n, size)",
            "forward": "loss = F.cross_entropy(model(x + z), y)",
        },
        "the training loop iterates over `batches`",
    ),
    # it may be no tensors, or not of as many rows
    ({"move": "b = source.next_batch(16)", "forward": "loss = F.cross_entropy(model(b[0]), b[1])"}, "`b[0]`"),
    ({"move": "b = source.next_batch(16)", "forward": "loss = F.cross_entropy(model(b.x), b.y)"}, "`b.x`"),
    (
        {"move": "b = source.next_batch(16)", "forward": "loss = F.cross_entropy(model(**b), Y)"},
        "which cannot be followed",
    ),
    ({"move": "x = source.next_batch(16)\ny = source.labels(16)"}, "`source.labels(16)` cannot be followed"),
    ({"move": f"{DRAW.replace('y', 'y, n')}\nfor _ in range(n):\n    x = x * 2"}, "which cannot be followed"),
    # and what is done with any batch
    ({"forward": "loss = F.cross_entropy(model(x) - model(x).mean(0), y)"}, "compares the samples of a batch"),
    ({"batch_end": "if y.sum() == 0:\n    break"}, "decides by the rows of the batch"),
]


@pytest.mark.parametrize(("slots", "reason"), KEPT)
def test_what_a_call_deals_is_left_alone(slots: dict[str, str], reason: str) -> None:
    text = script(**{**OPEN, **IMPORTS, "before": SOURCE, "move": DRAW, **slots})
    found = unchanged(text, shard_manual=True)
    assert found.code in ("DATA-UNSHARDED", "LOADER-UNKNOWN") and reason in found.message, found.message
    assert "--shard-manual" not in found.remedy


@pytest.mark.parametrize(
    "definitions", [RANDOM.format(*PLACED), RANDOM.format(*LISTED), BATCHER.format("self, n", "x, y")]
)
def test_what_is_drawn_anew_is_not_the_same_in_each_step(definitions: str) -> None:
    """It was said of a batch that a function draws, or an object, that every step trains on the whole data."""
    move = "x, y = make(X, Y)" if "def make" in definitions else "x, y = Batches(X, Y).take(16)"
    text = script(
        **OPEN, **IMPORTS, definitions=definitions, move=move, forward="loss = model(x).sum() * model(x).sum()"
    )
    assert "whole data" not in unchanged(text, shard_manual=True).message
    same = script(**OPEN, definitions="def make(x, y):\n    return x * 2, y", move="x, y = make(X, Y)")
    assert convert(same).plan is not None and "whole data" in unchanged(same).message


def test_rows_of_tokens() -> None:
    """The last dimension of what a network returns stays the last one."""
    forward = "out = model(x)\noptimizer.zero_grad()\nloss = F.cross_entropy(out.view(-1, {}), y.view(-1))"
    slots = {**OPEN, **IMPORTS, "before": SOURCE, "move": DRAW}
    for last in ("out.size(-1)", "out.shape[-1]"):
        assert "split_batch(x, y)" in converted(script(**slots, forward=forward.format(last)), shard_manual=True)
    found = unchanged(
        script(**slots, forward="other = model(x)\n" + forward.format("other.size(-2)")), shard_manual=True
    )
    assert "a mean or a sum" in found.message
