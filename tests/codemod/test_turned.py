"""Rows that meet others of their batch: turned around, moved by some places, or multiplied along the samples."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import added, findings, script

ZERO = "optimizer.zero_grad()\n"
COLLATED = """\
def collate(batch):
    x, y = {}
    {}
    return x, y
"""
STACKS = ["default_collate(batch)", "map(torch.stack, zip(*batch))"]


def loss(forward: str) -> str:
    return script(forward=f"{ZERO}{forward}")


def collating(stacks: str, statement: str) -> str:
    return script(
        from_imports="from torch.utils.data import default_collate",
        definitions=COLLATED.format(stacks, statement),
        loader="loader = DataLoader(data, batch_size=16, collate_fn=collate)",
        forward=f"{ZERO}loss = F.cross_entropy(model(x), y)",
    )


@pytest.mark.parametrize("stacks", STACKS)
@pytest.mark.parametrize(
    "statement",
    [
        "x = x.flip(0)",
        "y = y.flip(0)",
        "x = torch.flip(x, [0])",
        "x = torch.flip(x, dims=(0, 1))",
        "y = torch.roll(y, 1)",
        "x = x.roll(1, 0)",
        "x = 0.9 * x + 0.1 * x.flip(0)",
    ],
)
def test_batches_turned_around_in_a_part(stacks: str, statement: str) -> None:
    assert findings(collating(stacks, statement)) == ["LOSS-INBATCH"]


@pytest.mark.parametrize("stacks", STACKS)
@pytest.mark.parametrize(
    "statement",
    ["x = x.flip(1)", "x, y = x.flip(0), y.flip(0)", "x = torch.flip(x, [1])", "x = x.roll(1, 1)", "x = x / 255"],
)
def test_batches_turned_around_as_a_whole_or_sample_by_sample(stacks: str, statement: str) -> None:
    assert findings(collating(stacks, statement)) == []


@pytest.mark.parametrize(
    "forward",
    [
        "loss = F.cross_entropy(model(torch.flip(x, dims=(0, 1))), y)",
        "out = model(x)\nloss = (out[1:] - out[:-1]).pow(2).mean()",
        "out = model(x)\nloss = F.mse_loss(out[1:], out[:-1])",
        "out = model(x)\nloss = nn.L1Loss()(out[:-1, :2], out[1:, :2])",
        "out = model(x)\nloss = F.cosine_similarity(out[:-1], out[1:]).mean()",
        "out = model(x)\nlater, earlier = out[1:], out[:-1]\nloss = (later - earlier).abs().mean()",
        "out = model(x)\nlater = out[1:]\nearlier = out[:-1]\nloss = F.mse_loss(later, earlier)",
        "loss = F.cross_entropy(model(x)[1:], y[:-1])",
        "out = model(x)\nlater = y[1:]\nloss = nn.CrossEntropyLoss()(out[:-1], later)",
        "n = 3\nout = model(x)\nloss = (out[n:] - x[:-n, :3]).pow(2).mean()",
        "left, right = model(x).chunk(2)\nloss = F.mse_loss(left, right)",
        "out = model(x)\nleft, right = torch.split(out, 8, dim=0)\nloss = (left - right).pow(2).mean()",
        "halves = torch.chunk(model(x), 2)\nloss = F.l1_loss(halves[0], halves[1])",
        "out = model(x)\nloss = torch.einsum('bi,bj->ij', out, out).pow(2).mean()",
        "out = model(x)\nloss = (torch.einsum('bi,bj->ij', out, out) - torch.eye(3)).pow(2).mean()",
        "out = model(x)\nloss = (torch.tensordot(out, out, dims=([0], [0])) / len(x) - torch.eye(3)).pow(2).mean()",
        "out = model(x)\nloss = torch.tensordot(out, out, dims=([1], [1])).mean()",
        "out = model(x)\nloss = torch.tensordot(out, out, dims=0).mean()",
        "out = model(x)\nloss = (out.sum(0) ** 2).mean()",
    ],
)
def test_samples_that_meet_others(forward: str) -> None:
    assert findings(loss(forward)) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "forward",
    [
        "loss = F.cross_entropy(model(torch.flip(x, dims=(1,))), y)",
        "out = model(x)\nloss = (out[:, 1:] - out[:, :-1]).pow(2).mean()",
        "out = model(x)\nloss = F.mse_loss(out[:, 1:], out[:, :-1])",
        "out = model(x)\nloss = F.cross_entropy(out[:], y[:])",
        "out = model(x)\nloss = F.cross_entropy(out[:], y[0:])",
        "out = model(x)\nloss = F.mse_loss(out[:, 1:], x[:, :2])",
        "left, right = model(x).chunk(2, dim=1)\nloss = F.mse_loss(left, right)",
        "left, right = model(torch.cat([x, x + 1])).chunk(2)\nloss = F.mse_loss(left, right)",
        "out = model(x)\nleft, right = out.split(8)\nloss = F.mse_loss(out, out.detach())",
        "weights = torch.linspace(0, 1, 4)\nstep = weights[1:] - weights[:-1]\nloss = (model(x) * step).mean()",
        "out = model(x)\nloss = torch.einsum('bi,bi->b', out, out).mean()",
        "out = model(x)\nloss = torch.tensordot(out, torch.eye(3), dims=1).pow(2).mean()",
        "out = model(x)\nloss = torch.tensordot(out, torch.eye(3), dims=([1], [0])).pow(2).mean()",
    ],
)
def test_samples_that_meet_none(forward: str) -> None:
    assert findings(loss(forward)) == []
    assert "accelerator.backward(loss)" in added(loss(forward))


SOFT = """\
class Soft(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.centers = nn.Parameter(torch.rand(3, 4))

    def forward(self, x):
        q = 1 / (1 + (self.layer(x).unsqueeze(1) - self.centers).pow(2).sum(2))
        return {}
"""


@pytest.mark.parametrize("of_rows", ["(q.t() / q.sum(1)).t()", "(q.t() / torch.sum(q, dim=1)).t()"])
@pytest.mark.parametrize(("weighed", "codes"), [("q ** 2 / q.sum(0)", ["LOSS-INBATCH"]), ("q ** 2", [])])
def test_rows_that_are_divided_by_their_sums_stay_rows(of_rows: str, weighed: str, codes: list[str]) -> None:
    target = f"q = model(x)\nw = {weighed}\np = (w.t() / w.sum(1)).t().detach()"
    text = script(
        definitions=SOFT.format(of_rows),
        model="model = Soft().to(device)",
        forward=f"{ZERO}{target}\nloss = F.kl_div(q.log(), p, reduction='batchmean')",
    )
    assert findings(text) == codes


INNER = """\
class Centered(nn.Module):
    def forward(self, x):
        return x - x.mean({})


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Identity()

    def forward(self, x):
        return self.last(x)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.layer = Inner(), nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(self.inner(x))


def made():
    return Centered()
"""


@pytest.mark.parametrize(("along", "codes"), [("0", ["LOSS-INBATCH"]), ("1, keepdim=True", [])])
def test_layers_that_are_set_in_parts_of_a_network(along: str, codes: list[str]) -> None:
    text = script(
        definitions=INNER.format(along),
        model="model = Outer()\nmodel.inner.last = made()\nmodel = model.to(device)",
        forward=f"{ZERO}loss = F.cross_entropy(model(x), y)",
    )
    assert findings(text) == codes


def test_samples_that_meet_themselves_but_for_the_first() -> None:
    forward = "out = model(x)\nloss = (out[1:] - out[1:].detach()).pow(2).mean()"
    assert findings(loss(forward)) == ["BATCH-PLACES"]  # each process leaves out the first of its share


@pytest.mark.parametrize(
    "forward",
    [
        "loss = torch.tensordot(out, out, dims=([0], [0])).mean()",
        "loss = torch.tensordot(out, out, dims=([0, 1], [0, 1]))",
        "loss = torch.einsum('bi,bj->ij', out, out).mean()",
        "loss = torch.einsum('bi,bi->', out, out)",
        "loss = torch.dot(out[:, 0], out[:, 1])",
    ],
)
def test_products_along_the_samples_are_sums_over_them(forward: str) -> None:
    text = loss(f"out = model(x)\n{forward}")
    assert findings(text) == []
    assert 'accelerator.backward(loss, reduction="sum")' in added(text)


PACKS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 4, batch_first=True)

    def forward(self, x, n):
        x = nn.utils.rnn.pack_padded_sequence(x, n{0}, batch_first=True)
        out, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(x)[0], batch_first=True)
        return {1}
"""


@pytest.mark.parametrize("cpu", ["", ".cpu()"])
@pytest.mark.parametrize(
    ("mean", "codes"),
    [
        ("(out.sum(1).t() / n).t()", []),  # a number for each column, which is a sample
        ("(out.sum(1).T * n).T", []),
        ("(out.sum(1).t() / n.view(-1, 1)).t()", ["LOSS-INBATCH"]),  # each sample with the numbers of all
        ("out.sum(1).t() - out.sum(1)", ["LOSS-INBATCH"]),
    ],
)
def test_columns_that_are_samples_meet_a_number_for_each(cpu: str, mean: str, codes: list[str]) -> None:
    forward = f"{ZERO}loss = F.cross_entropy(model(x, n), y)"
    text = script(definitions=PACKS.format(cpu, mean), move="n = x[:, 0, 0]", forward=forward)
    assert [code for code in findings(text) if code.startswith("LOSS")] == codes


@pytest.mark.parametrize(
    ("out", "codes"),
    [
        ("(out.t() / n).t()", []),  # what is turned back has a number for each sample
        ("out.t() / n", ["LOSS-INBATCH"]),
        ("(out.t() - out).t()", ["LOSS-INBATCH"]),
    ],
)
def test_columns_that_are_turned_back(out: str, codes: list[str]) -> None:
    assert findings(loss(f"n, out = x[:, 0], model(x)\nloss = F.cross_entropy({out}, y)")) == codes


@pytest.mark.parametrize(
    ("out", "codes"),
    [
        ("out.t().reshape(-1, 3)", ["LOSS-INBATCH"]),  # rows with a number of each of three samples
        ("out.t().t().reshape(-1, 3)", []),
        ("out.reshape(-1, 3)", []),
        ("out.t().contiguous().t()", []),
    ],
)
def test_columns_that_are_cut_into_rows(out: str, codes: list[str]) -> None:
    assert findings(loss(f"out = model(x)\nloss = F.cross_entropy({out}, y)")) == codes
