"""Losses that set the samples of a batch against each other, or depend on a statistic of them that is no mean."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import added, findings, script

BEGIN = "optimizer.zero_grad()\nz = model(x)\nn, d = z.shape\n"
PAIRED = "loss = torch.exp(-(a - b).pow(2).sum(-1)).mean()"
QUIET = {"RNG-SAMENOISE"}


def said(forward: str, **slots: str) -> list[str]:
    return [code for code in findings(script(forward=BEGIN + forward, **slots)) if code not in QUIET]


@pytest.mark.parametrize(
    "pair",
    [
        "a, b = z.unsqueeze(-2), z.unsqueeze(-3)",
        "a = z.unsqueeze(-2).expand(n, n, d)\nb = z.unsqueeze(-3).expand(n, n, d)",
        "a = z.view(n, 1, d).repeat(1, n, 1)\nb = z.view(1, n, d).repeat(n, 1, 1)",
        "a = z.unsqueeze(1).repeat(1, n, 1)\nb = z.unsqueeze(0).repeat(n, 1, 1)",
        "a, b = z.unsqueeze(1), z.unsqueeze(0).expand(n, -1, -1)",
        "a, b = z.repeat_interleave(n, dim=0), z.repeat(n, 1)",
        "a, b = z.repeat_interleave(len(x), 0), torch.tile(z, (len(x), 1))",
        "i, j = torch.triu_indices(n, n, 1)\na, b = z[i], z[j]",
        "places = torch.tril_indices(n, n, -1)\na, b = z[places[0]], z[places[1]]",
        "places = torch.combinations(torch.arange(n))\na, b = z[places[:, 0]], z[places[:, 1]]",
    ],
)
def test_all_pairs_of_a_batch(pair: str) -> None:
    assert said(f"{pair}\n{PAIRED}") == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "pair",
    [
        "z = z.view(n, d, 1)\na, b = z.unsqueeze(-2), z.unsqueeze(-3)",  # of the numbers of each sample
        "a, b = z.unsqueeze(-1), z.unsqueeze(1)",
        "a, b = z.repeat(1, 2), torch.tile(z, (1, 2))",
        "a, b = z.unsqueeze(1).repeat(1, n, 1), z.unsqueeze(1)",
        "a, b = z.repeat_interleave(2, dim=1), z.repeat_interleave(2, dim=1)",
        "i, j = torch.triu_indices(d, d, 1)\na, b = z[:, i], z[:, j]",
        "places = torch.combinations(torch.arange(3))\na, b = z[:, places[:, 0]], z[:, places[:, 1]]",
    ],
)
def test_pairs_in_each_sample(pair: str) -> None:
    assert "LOSS-INBATCH" not in said(f"{pair}\n{PAIRED}")


@pytest.mark.parametrize(
    "loss",
    [
        "torch.addmm(torch.zeros(n, n), z, z.t()).pow(2).mean()",
        "torch.addmm(z.pow(2).sum(1, keepdim=True), z, model(x + 1).t(), alpha=-2).mean()",
        "torch.inner(z, z).pow(2).mean()",
        "torch.cdist(z, z).pow(2).mean()",
        "torch.cdist(z, torch.randn_like(z)).min(1)[0].mean()",
        "torch.cdist(z, z).masked_fill(y[:, None] != y[None], 0).amax(1).mean()",
        "(z * torch.msort(z[:, 0])[0]).mean()",
        "z[:, 0].diff().pow(2).mean()",
        "(z[:, 0].softmax(-1) * z[:, 1]).sum()",
        "F.mse_loss(z[:, :1].squeeze(1), y.float(), reduction='none').topk(2)[0].mean()",
        "nn.MSELoss(reduction='none')(z[:, :1].squeeze(1), y.float()).topk(2)[0].mean()",
        "((z[:, 0] - y) ** 2).topk(2)[0].mean()",
        "z.pow(2).mean(1).topk(4).values.mean()",
        "z[:, z.mean(0).topk(2)[1]].pow(2).mean()",
        "(z * z.mean(0).softmax(0)).mean()",
        "z.sum(0).max()",
    ],
)
def test_samples_that_meet_in_one_operation(loss: str) -> None:
    assert said(f"loss = {loss}") == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        ("torch.exp(-torch.cdist(a, b) ** 2).mean()", ["LOSS-INBATCH"]),
        ("torch.exp(-((a - b) ** 2).sum(1)).mean()", []),
    ],
)
def test_samples_that_meet_in_a_lambda(kernel: str, found: list[str]) -> None:
    assert said(f"kernel = lambda a, b: {kernel}\nloss = kernel(z, z) - 2 * kernel(z, model(x + 1))") == found


@pytest.mark.parametrize(
    "loss",
    [
        "torch.addmm(torch.zeros(3), z, torch.ones(3, 3)).pow(2).mean()",
        "torch.cdist(z, torch.ones(2, 3)).min(1)[0].mean()",
        "torch.cdist(z.view(-1, 3, 1), z.view(-1, 3, 1)).mean()",
        "z.diff().pow(2).mean()",
        "(z.softmax(-1) * z).sum(1).mean()",
        "F.mse_loss(z, F.one_hot(y, 3).float(), reduction='none').topk(2)[0].mean()",
        "nn.MSELoss(reduction='none')(z, F.one_hot(y, 3).float()).topk(2)[0].mean()",
        "z[:, :2].topk(1)[0].mean()",
        "z[:, torch.tensor([0, 1])].pow(2).mean()",
        "z.mean(0).sum()",
    ],
)
def test_samples_that_do_not(loss: str) -> None:
    assert said(f"loss = {loss}") == []


SINKHORN = """\
q = torch.exp(z / 0.05).t()
q = q / {}
for _ in range(3):
    q = q / torch.sum(q, dim={}, keepdim=True)
loss = -(q.t().detach() * z.log_softmax(1)).sum(1).mean()"""


@pytest.mark.parametrize("norm", ["q.sum()", "torch.sum(q, dim=1, keepdim=True)", "q.amax()"])
def test_prototypes_are_shared_out_among_the_samples(norm: str) -> None:
    assert said(SINKHORN.format(norm, 1)) == ["LOSS-INBATCH"]
    assert said(SINKHORN.format(norm, 0)) == ["LOSS-INBATCH"]


def test_each_sample_has_shares_of_its_own() -> None:
    assert said(SINKHORN.format("torch.sum(q, dim=0, keepdim=True)", 0)) == []


@pytest.mark.parametrize(
    ("loss", "edit"),
    [
        ("z.t().sum()", True),
        ("z.t().exp().sum(0).sum()", True),
        ("(z.t() * 2).sum()", True),
        ("z.t().mean()", False),
        ("z.t().sum(0).mean()", False),
        ("z.t().mean(1).sum()", False),
    ],
)
def test_sums_over_turned_tensors(loss: str, edit: bool) -> None:
    text = script(forward=f"{BEGIN}loss = {loss}")
    assert findings(text) == []
    assert ('accelerator.backward(loss, reduction="sum")' in added(text)) is edit


EACH = "each = F.cross_entropy(z, y, reduction='none')\n"


@pytest.mark.parametrize(
    ("weights", "loss"),
    [
        ("w = 1.0 / torch.bincount(y, minlength=3).float()", "(w[y] * each).mean()"),
        ("w = 1 / y.bincount(minlength=3).clamp(min=1).float()", "F.cross_entropy(z, y, weight=w)"),
        ("w = torch.bincount(y, minlength=3).float()\nw = w.sum() / (w + 1)", "F.cross_entropy(z, y, weight=w)"),
        ("many = (y == 1).sum()\nw = (n - many) / many", "(each * torch.where(y == 1, w, 1.0)).mean()"),
    ],
)
def test_weights_by_how_many_of_a_class_are_in_a_batch(weights: str, loss: str) -> None:
    assert said(f"{EACH}{weights}\nloss = {loss}") == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    ("weights", "loss", "code"),
    [
        ("w = 1.0 / torch.bincount(data.tensors[1], minlength=3).float()", "(w[y] * each).mean()", ""),
        ("w = torch.ones(3)", "(w[y] * each).mean()", ""),
        ("w = y.sum()", "(y * each).sum() * (1 / w)", "LOSS-MASKMEAN"),
        ("w = y.sum().clamp(min=1)", "(1 / w) * (y * each).sum()", "LOSS-MASKMEAN"),
        ("w = 0", "torch.nanmean(each)", "LOSS-MASKMEAN"),
        ("w = 0", "each.nansum()", ""),
    ],
)
def test_other_weights(weights: str, loss: str, code: str) -> None:
    assert said(f"{EACH}{weights}\nloss = {loss}") == ([code] if code else [])


DICE = """\
t = F.one_hot(y, 3).float()
p = z.softmax(1)
inter, total = torch.sum(p * t, {0}), (p + t).sum({0})
loss = 1 - (2 * inter / (total + 1e-6)){1}.mean()"""


@pytest.mark.parametrize("part", ["", "[1:]"])
@pytest.mark.parametrize("over", ["0", "dim=0", "(0,)", "dims", "dim=dims", "(0,) + tuple(range(2, p.dim()))", "axes"])
def test_quotients_of_sums_over_a_batch(over: str, part: str) -> None:
    setup = "dims = (0,)\naxes = [0, *range(2, 2)]"
    assert said(DICE.format(over, part), setup=setup) == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize("over", ["1", "dim=-1", "dims", "list(range(1, p.dim()))", "axes"])
def test_quotients_of_sums_over_each_sample(over: str) -> None:
    setup = "dims = (1,)\naxes = tuple(range(1, 2))"
    assert said(DICE.format(over, ""), setup=setup) == []


@pytest.mark.parametrize(
    ("over", "setup"),
    [("dims", "dims = [1]\nif len(data):\n    dims.append(0)"), ("tuple(range(3, -1, -1))", "")],
)
def test_dimensions_that_cannot_be_told_are_not(over: str, setup: str) -> None:
    assert said(f"loss = z.pow(2).mean({over}).sum()", setup=setup) == ["LOSS-UNKNOWN"]


NORMALIZED = "F.mse_loss(F.batch_norm(z, None, None, training={}), z)"


@pytest.mark.parametrize(("training", "code"), [("True", "NOTE-BN"), ("model.training", "NOTE-BN"), ("False", "")])
def test_functional_batch_norm_has_statistics_of_a_share(training: str, code: str) -> None:
    assert said(f"loss = {NORMALIZED.format(training)}") == ([code] if code else [])


NETWORK = """\
class Chooses(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.head = nn.Linear(2, 3)

    def forward(self, x):
        h = self.inner(x)
        index = torch.topk({}, 2, dim=-1)[1]
        return self.head({})
"""


@pytest.mark.parametrize(
    ("scores", "chosen", "meet"),
    [
        ("torch.mean(h, dim=0)", "torch.stack([h[:, index[i]] for i in range(2)], dim=-1)", True),
        ("h.mean(0)", "h[:, index]", True),
        ("h", "h.gather(1, index)", False),
        ("torch.ones(8)", "h[:, index]", False),
    ],
)
def test_a_network_chooses_by_the_whole_batch(scores: str, chosen: str, meet: bool) -> None:
    text = script(definitions=NETWORK.format(scores, chosen), model="model = Chooses().to(device)")
    assert findings(text) == (["LOSS-INBATCH"] if meet else [])


MEANS = "means = torch.stack([out[y == c].mean(0) for c in range(3)])\n"


@pytest.mark.parametrize(
    "loss",
    [
        MEANS + "loss = torch.pdist(means).mean()",
        MEANS + "loss = torch.cdist(means, means).mean()",
        MEANS + "loss = torch.cdist(means, torch.eye(3)).mean()",
        "means = {c: out[y == c].mean(0) for c in range(3)}\nloss = (means[0] - means[1]).pow(2).mean()",
        "means = torch.cat([out[y == c].mean(0, keepdim=True) for c in y.unique()])\n"
        "loss = F.cross_entropy(out @ means.t(), y)",
        "loss = torch.outer(out.mean(0), out.mean(0)).sum()",
    ],
)
def test_means_of_classes(loss: str) -> None:
    """What is one for the batch, and no straight line in it, is another one of each share."""
    text = script(forward=f"optimizer.zero_grad()\nout = model(x)\n{loss}")
    assert "LOSS-INBATCH" in findings(text)


@pytest.mark.parametrize(
    "loss",
    [
        "parts = {k: F.cross_entropy(out / k, y) for k in range(1, 3)}\nloss = parts[1] + parts[2]",
        "parts = {k: F.cross_entropy(out / k, y) for k in range(1, 3)}\nloss = sum(parts.values())",
        "loss = torch.cdist(out, torch.eye(3)).mean()",
    ],
)
def test_means_of_samples(loss: str) -> None:
    text = script(forward=f"optimizer.zero_grad()\nout = model(x)\n{loss}")
    assert not findings(text)
