"""Evaluations that read what the training loop has left of its last batch, most by mistake: a share of it."""

from __future__ import annotations

import pytest
from scripts import convert, findings, script, severities

DATA = """\
data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
valid = DataLoader(data, batch_size=16)"""
LOOP = "total = 0.0\nwith torch.no_grad():\n    for u, v in valid:\n        "
FUNCTION = (
    "def evaluate():\n    total = 0.0\n    for u, v in valid:\n        total += F.cross_entropy(model(u), y).item()"
)


def evaluating(*lines: str) -> str:
    return script(data=DATA, epoch_end=LOOP + "\n        ".join(lines) + "\nprint(total)")


@pytest.mark.parametrize(
    "lines",
    [
        ["total += F.cross_entropy(model(u), y).item()"],
        ["total += F.cross_entropy(model(u), v).item() * x.size(0)"],
        ["out = model(u)", "total += (out.argmax(1) == y).sum().item()"],
        ["u, v = u.to(device), v.to(device)", "total += F.cross_entropy(model(x), v).item()"],
    ],
)
def test_a_batch_of_the_training_loop(lines: list[str]) -> None:
    assert "error" in severities(evaluating(*lines), "METRIC-LOCAL")


def test_one_that_a_function_reads() -> None:
    text = script(data=DATA, before=f"{FUNCTION}\n    return total", epoch_end="print(evaluate())")
    plan = convert(text).plan
    assert plan is not None
    told = [f.message for f in plan.findings if f.code == "METRIC-LOCAL"]
    assert len(told) == 1 and "`y` is what the loop of line" in told[0]


@pytest.mark.parametrize(
    "lines",
    [
        ["total += F.cross_entropy(model(u), v).item()"],
        ["total += F.cross_entropy(model(u.view(-1, x.shape[1]).to(x.dtype)), v).item()"],  # as all batches have it
        ["y = v", "total += F.cross_entropy(model(u), y).item()"],
        ["total += F.cross_entropy(model(u), v).item()", "print(loss.item())"],  # a number of a share: METRIC-TRAIN
    ],
)
def test_batches_of_its_own(lines: list[str]) -> None:
    assert severities(evaluating(*lines), "METRIC-LOCAL") == []


SHAPED = """\
def sample(model, shape):
    if len(shape) != 1:
        raise ValueError(shape)
    return torch.zeros(4, *shape)
"""
TRIES = "try:\n    sample(model, shape)\nexcept ValueError:\n    break"


@pytest.mark.parametrize(
    ("shape", "codes"),
    [
        ("tuple(out.shape[1:])", []),
        ("[out.size(1)]", []),
        ("out.shape[-2:]", ["METRIC-TRAIN"]),  # perhaps with that of the samples
        ("out.shape", ["METRIC-TRAIN"]),
        ("(len(out),)", ["METRIC-TRAIN"]),
    ],
)
def test_how_large_samples_are_is_the_same_on_every_process(shape: str, codes: list[str]) -> None:
    forward = f"optimizer.zero_grad()\nout = model(x)\nshape = {shape}\nloss = F.cross_entropy(out, y)"
    assert findings(script(definitions=SHAPED, forward=forward, epoch_end=TRIES)) == codes


@pytest.mark.parametrize("test", ["loss.item() < 1", "epoch > 0"])
def test_which_of_several_sizes_it_is_may_be_decided(test: str) -> None:
    forward = "optimizer.zero_grad()\nout = model(x)\nloss = F.cross_entropy(out, y)"
    sets = f"shape = tuple(out.shape[1:])\nif {test}:\n    shape = tuple(x.shape[1:])"
    text = script(definitions=SHAPED, forward=f"{forward}\n{sets}", epoch_end=TRIES)
    assert "METRIC-TRAIN" in findings(text) or "COLL-RANKFLOW" in findings(text)


def test_where_samples_are_padded_it_is_not() -> None:
    padded = "x = nn.utils.rnn.pad_sequence([r[0] for r in rows])"
    pads = f"def pads(rows):\n    {padded}\n    return x.t(), torch.ones(len(rows)).long()"
    text = script(
        definitions=f"{SHAPED}\n\n{pads}",
        loader="loader = DataLoader(data, batch_size=16, collate_fn=pads)",
        forward="optimizer.zero_grad()\nout = model(x)\nshape = tuple(x.shape[1:])\nloss = F.cross_entropy(out, y)",
        epoch_end=TRIES,
    )
    assert "METRIC-TRAIN" in findings(text)
