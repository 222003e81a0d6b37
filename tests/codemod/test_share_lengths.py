"""Evaluations whose rows are as long as the longest sample of a share: another length on every process."""

from __future__ import annotations

import textwrap

import pytest
from accelift_codemod.plan import Severity
from scripts import convert, converted, script

DATA = """\
words = torch.randint(0, 10, (64, 12))
data = TensorDataset(words, torch.randint(2, 12, (64,)), torch.arange(64) % 3)
"""
NET = """\
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.layer = nn.Linear(8, 3)

    def forward(self, x, n):
        h = self.table(x)
{forward}
"""
PACKED = """\
packed = pack_padded_sequence(h, n.cpu(), batch_first=True, enforce_sorted=False)
h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True{})
"""
BCE = "bce = nn.BCEWithLogitsLoss()"
BINARY = "self.layer(h[:, 0])[:, :1]"
STEPS = "steps = []\nfor i in range({}):\n    steps.append(self.layer(h[:, i]))\nreturn torch.stack(steps, 1)"


def evaluating(body: str, forward: str = "return self.layer(h)") -> str:
    """A script whose evaluation does something with the batches `x, n, y`, and counts or keeps that."""
    loop = "with torch.no_grad():\n    for x, n, y in held_out:\n" + textwrap.indent(body, " " * 8)
    return script(
        definitions=NET.format(forward=textwrap.indent(forward, " " * 8)),
        data=DATA,
        loader="loader = DataLoader(data, batch_size=16)\nheld_out = DataLoader(data, batch_size=16)",
        model="model = Tagger().to(device)",
        loop="for x, n, y in loader:",
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x, n).mean(1), y)",
        epoch_end=f"kept, total = [], 0.0\n{loop}\nprint(len(kept), total)",
    )


def whole(source: str) -> str:
    """Why every process evaluates all data; empty if the evaluation is shared out."""
    plan = convert(source).plan
    assert plan is not None
    gathers = any("gather_for_metrics" in e.code or "batch_mean" in e.code for e in plan.edits)
    told = [f.message for f in plan.findings if f.code == "EVAL-REPLICATED"]
    assert gathers is not bool(told)
    return "".join(told)


@pytest.mark.parametrize(
    ("body", "maker"),
    [
        ("x = x[:, :int(n.max())]\nkept.append(model(x, n).argmax(-1))", "x[:, :int(n.max())]"),
        ("top = n.max().item()\nx = x[:, :top]\npred = model(x, n).argmax(-1)\nkept.append(pred)", "x[:, :top]"),
        ("x = x[:, (x != 0).any(0)]\npred = model(x, n)\nkept.append(pred)", "x[:, (x != 0).any(0)]"),
    ],
)
def test_what_a_loop_cuts_to_its_longest_sample(body: str, maker: str) -> None:
    assert f"`{maker}" in whole(evaluating(body))


@pytest.mark.parametrize(
    ("forward", "maker"),
    [
        (PACKED.format("") + "return self.layer(h)", "pad_packed_sequence("),
        (
            STEPS.format("int(n.max())"),
            "torch.stack(steps, 1)",
        ),
        (
            "out = self.layer(h[:, :1])\nwhile (out[:, -1].argmax(1) > 0).any():\n"
            "    out = torch.cat([out, self.layer(h[:, :1])], 1)\nreturn out",
            "torch.cat(",
        ),
    ],
)
def test_what_a_network_makes_as_long_as_its_longest_sample(forward: str, maker: str) -> None:
    assert f"`{maker}" in whole(evaluating("pred = model(x, n).argmax(-1)\nkept.append(pred)", forward))
    assert f"`{maker}" in whole(evaluating("kept.append(model(x, n))", forward))


@pytest.mark.parametrize(
    ("body", "forward"),
    [
        ("x = x[:, :9]\nkept.append(model(x, n))", "return self.layer(h)"),
        ("pred = model(x, n)\nkept.append(pred)", PACKED.format(", total_length=12") + "return self.layer(h)"),
        (
            "pred = model(x, n)\nkept.append(pred)",
            STEPS.format("x.size(1)"),
        ),
        ("out = model(x, n)\nmask = torch.arange(n.max()) < n[:, None]\nkept.append(mask)", "return self.layer(h)"),
        # What is compared with one label for each sample has no other length.
        (
            "pred = model(x, n).argmax(1)\ntotal += (pred == y).sum().item()",
            PACKED.format("") + "return self.layer(h[:, 0])",
        ),
        ("total += (model(x, n).argmax(1) == y).sum().item()", PACKED.format("") + "return self.layer(h[:, 0])"),
        (
            "x = x[:, :int(n.max())]\nout = model(x, n)\ntotal += F.cross_entropy(out, y, reduction='sum').item()",
            "return self.layer(h[:, 0])",
        ),
    ],
)
def test_rows_of_one_length(body: str, forward: str) -> None:
    assert not whole(evaluating(body, forward))


@pytest.mark.parametrize(
    ("pooled", "told"),
    [
        ("h.mean(1)", True),
        ("h.max(dim=1)[0]", True),
        ("torch.max(h, 1).values", True),
        ("h[:, -1]", True),
        ("F.max_pool1d(h.transpose(1, 2), h.size(1)).squeeze(2)", True),
        ("h.transpose(1, 2).mean(-1)", True),
        ("h.masked_fill((h == 0), -1e9).max(1)[0]", False),
        ("h.sum(1) / n[:, None]", False),
        ("h[torch.arange(len(h)), n - 1]", False),
        ("h[:, 0] + h.mean(-1, keepdim=True)[:, 0]", False),
    ],
)
def test_what_goes_by_places_that_are_padded_has_other_values(pooled: str, told: bool) -> None:
    body = "total += (model(x, n).argmax(1) == y).sum().item()"
    for cut, forward in (("", PACKED.format("")), ("x = x[:, :int(n.max())]\n", "")):
        source = evaluating(cut + body, f"{forward}return self.layer({pooled})")
        assert ("goes by places" in whole(source)) is told
        plan = convert(source).plan
        padded = [f.severity for f in plan.findings if f.code == "BATCH-PADDED"] if plan is not None else []
        assert padded == ([Severity.WARNING if told else Severity.NOTE] if forward else [])


def test_one_label_for_all_places_of_a_sample_says_nothing_of_their_number() -> None:
    forward = PACKED.format("") + "return self.layer(h)"
    body = "pred = model(x, n).argmax(-1)\ntotal += (pred == {}).sum().item()"
    assert whole(evaluating(body.format("y[:, None]"), forward))
    assert not whole(evaluating(body.format("y"), forward))


@pytest.mark.parametrize(
    ("forward", "body", "shared"),
    [
        ("self.layer(h[:, 0])", "total += (model(x, n).argmax(1) == y).sum().item()", True),
        ("self.layer(h[:, 0])", "out = model(x, n)\nt = y.to(device)\ntotal += F.cross_entropy(out, t).item()", True),
        (BINARY, "out = model(x, n)\nloss = bce(out, y.float().unsqueeze(1))\ntotal += loss.item()", True),
        (BINARY, "out = model(x, n)\nloss = F.mse_loss(out, y.float().unsqueeze(1))\ntotal += loss.item()", False),
        ("self.layer(h)", "x = x[:, :n.max()]\nout = model(x, n)\n{FLAT}", False),
        ("self.layer(h)", "x = x[:, :n.max()]\nout = model(x, n)\nx = x.view(-1)\n{FLAT}", False),
    ],
)
def test_labels_that_are_taken_out_of_the_batch(forward: str, body: str, shared: bool) -> None:
    flat = "total += F.cross_entropy(out.reshape(-1, 3), x.reshape(-1) % 3, reduction='sum').item()"
    text = evaluating(body.replace("{FLAT}", flat), PACKED.format("") + f"return {forward}")
    for batch in ("x, n, y = batch", "x, n, y = (part.to(device) for part in batch)"):
        loop = f"for batch in held_out:\n{' ' * 12}{batch}\n"
        source = text.replace("for x, n, y in held_out:\n", loop).replace("for epoch", f"{BCE}\nfor epoch", 1)
        assert whole(source) is not shared


@pytest.mark.parametrize(
    ("given", "told"),
    [("scaled(x)", True), ("x / x.max()", True), ("x / 255", False), ("x - x.amax(1)[:, None]", False)],
)
def test_what_a_network_is_given_goes_by_the_other_samples(given: str, told: bool) -> None:
    right = "total += (model({}).argmax(1) == y).sum().item()"
    loop = "with torch.no_grad():\n    for x, y in held_out:\n        " + right.format(given)
    text = script(
        definitions="def scaled(x):\n    return (x - x.mean()) / x.std()",
        loader="loader = DataLoader(data, batch_size=16)\nheld_out = DataLoader(data, batch_size=16)",
        epoch_end=f"total = 0\n{loop}\nprint(total)",
    )
    assert ("goes by the others of the batch" in whole(text)) is told


def test_a_mean_over_the_places_of_a_share_is_not_averaged() -> None:
    body = "x = x[:, :int(n.max())]\nloss = F.cross_entropy(model(x, n).transpose(1, 2), x % 3)\ntotal += loss.item()"
    assert "batch_mean" not in converted(evaluating(body)) and whole(evaluating(body))
    assert "accelerator.batch_mean(loss)" in converted(evaluating(body.replace("int(n.max())", "9")))
