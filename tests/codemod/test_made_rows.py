"""What is made with a row for each sample of a batch, and one by their number."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script

NOISE = "optimizer.zero_grad()\nn = x.shape[0]\n{}\nloss = {}"
PLAIN = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"
TYPE = "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor"


def backward(slots: dict[str, str]) -> str:
    return next(line.strip() for line in converted(script(**slots)).splitlines() if "accelerator.backward" in line)


@pytest.mark.parametrize(
    ("made", "rows"),
    [
        ("noise = torch.from_numpy(np.random.normal(0, 1, (n, 8))).float()", True),
        ("noise = torch.from_numpy(np.random.normal(size=(n, 8))).float()", True),
        ("noise = torch.FloatTensor(np.random.rand(n, 8))", True),
        ("noise = Tensor(np.random.uniform(-1, 1, (x.size(0), 8)))", True),
        ("noise = Tensor(n, 8).fill_(1.0)", True),
        ("noise = torch.as_tensor(np.zeros((len(x), 8)))", True),
        ("noise = Tensor([n, 8])", False),
        ("noise = torch.from_numpy(np.random.normal(x.numpy(), 1))", False),
        ("noise = torch.from_numpy(np.resize(x.numpy(), (n, 8)))", False),
    ],
)
def test_a_sum_over_rows_that_are_made_for_the_samples(made: str, rows: bool) -> None:
    slots = {"imports": "import numpy as np", "before": TYPE, "forward": NOISE.format(made, "model(noise).sum()")}
    told = ', reduction="sum"' if rows else ""
    assert backward(slots) == f"accelerator.backward(loss{told})"
    assert ("LOSS-UNKNOWN" in findings(script(**slots))) != rows


def test_a_type_that_a_loop_binds_to_itself() -> None:
    slots = {
        "before": TYPE,
        "forward": f"Tensor = Tensor if len(x) else torch.FloatTensor\nx = x.type(Tensor)\n{PLAIN}",
    }
    assert findings(script(**slots)) == []


@pytest.mark.parametrize(
    ("share", "loss", "reported"),
    [
        ("d = 1 / n", "d * model(x).sum()", ""),
        ("d = 1.0 / (2 * n)", "model(x).sum() * d * 3 + model(x).mean()", ""),
        ("d = 1 // n", "d * model(x).sum()", "LOSS-UNKNOWN"),  # nothing, but for one sample
        ("d = 1 / n", "model(x).sum() / d", "LOSS-UNKNOWN"),
        ("d = 1 / n", "d * model(x).mean()", "LOSS-SHRUNK"),
    ],
)
def test_one_by_the_number_of_samples(share: str, loss: str, reported: str) -> None:
    slots = {"forward": NOISE.format(share, loss)}
    assert backward(slots) == "accelerator.backward(loss)"
    told = [code for code in findings(script(**slots)) if code.startswith("LOSS-")]
    assert told == ([reported] if reported else [])


def test_a_sum_of_rows_that_no_mean_is_made_of() -> None:
    slots = {"forward": NOISE.format("d = 1 / n", "d * model(x).sum() + torch.log(model(x).exp().sum())")}
    assert "LOSS-INBATCH" in findings(script(**slots))


@pytest.mark.parametrize(
    ("repeated", "known"),
    [
        ("out.view(-1, 3, 1).repeat(1, 1, 4)", True),
        ("out.view(len(x), 3, 1).repeat(1, 2, 4).repeat(1, 1, 2)", True),
        ("out.view(-1, 3, 1).repeat(1, 1, 4, 4)", False),  # one dimension more, before the samples
        ("out.view(-1, 3, 1).repeat(2, 1, 4)", False),
        ("out.repeat(1, 2)", False),  # of how many dimensions is not told
    ],
)
def test_rows_that_are_repeated_in_themselves(repeated: str, known: bool) -> None:
    slots = {"forward": f"optimizer.zero_grad()\nout = model(x)\nloss = {repeated}.sum()"}
    assert (backward(slots) == 'accelerator.backward(loss, reduction="sum")') == known
    assert ("LOSS-UNKNOWN" in findings(script(**slots))) != known
