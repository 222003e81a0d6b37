"""Losses in the style of real code: those that need all samples of a batch are said, and no others."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import convert, script

REWARD = "r = (out.argmax(1) == y).float()\nlogp = F.log_softmax(out, 1).gather(1, y[:, None]).squeeze(1)\n"
CLASSES = "means = []\nfor k in range(3):\n    means.append(out[y == k].mean(0))\n"
WHITEN = """\
def whiten(values, shift_mean=True):
    mean, var = torch.mean(values), torch.var(values)
    whitened = (values - mean) * torch.rsqrt(var + 1e-8)
    if not shift_mean:
        whitened += mean
    return whitened
"""


def said(lines: str) -> list[str]:
    forward = f"optimizer.zero_grad()\nout = model(x)\n{lines}"
    imports = "import numpy as np\nfrom collections import Counter"
    plan = convert(script(imports=imports, definitions=WHITEN, forward=forward)).plan
    assert plan is not None
    return [f.code for f in plan.findings if f.code.startswith(("LOSS-", "BATCH-"))]


@pytest.mark.parametrize(
    "lines",
    [
        # contrastive, triplet, prototypes, rankings
        "z = F.normalize(out, dim=1)\nloss = F.cross_entropy(torch.einsum('id,jd->ij', z, z), torch.arange(len(z)))",
        "d = torch.cdist(out, out)\nloss = F.relu((d * (y[:, None] == y)).max(1)[0] - d.min(1)[0] + 1).mean()",
        "means = torch.stack([out[y == k].mean(0) for k in range(3)])\nloss = F.cross_entropy(out @ means.t(), y)",
        f"{CLASSES}loss = F.cross_entropy(-((out[:, None] - torch.stack(means)[None]) ** 2).sum(-1), y)",
        f"{CLASSES}loss = F.cross_entropy(F.linear(out, torch.stack(means)), y)",
        "means = {}\nfor k in range(3):\n    means[k] = out[y == k].mean(0)\nloss = F.cross_entropy(out - means[0], y)",
        "s = out[:, 0]\nd = s.unsqueeze(1) - s.unsqueeze(0)\nloss = F.softplus(-d).mean()",
        "s = out[:, 0]\nloss = -(F.softmax(y.float(), 0) * F.log_softmax(s, 0)).sum()",
        # weights by how often classes are in the batch
        "w = 1 / (torch.bincount(y, minlength=3) + 1.0)\nloss = F.cross_entropy(out, y, weight=w)",
        "w = len(y) / ((y == 1).sum() + 1)\nloss = (F.cross_entropy(out, y, reduction='none') * "
        "torch.where(y == 1, w, 1.0)).mean()",
        "n = torch.unique(y, return_counts=True)[1]\nloss = (F.cross_entropy(out, y, reduction='none') / n[0]).mean()",
        "_, i, n = torch.unique(y, return_inverse=True, return_counts=True)\n"
        "loss = (F.cross_entropy(out, y, reduction='none') / n[i]).mean()",
        "n = Counter(y.tolist())\nw = torch.tensor([1.0 / n[k] for k in y.tolist()])\n"
        "loss = (F.cross_entropy(out, y, reduction='none') * w).mean()",
        "c = torch.zeros(3, 3)\nc.index_add_(0, y, out)\nloss = ((out - c[y]) ** 2).mean()",
        "c = torch.zeros(3, 3).index_add(0, y, out)\nloss = ((out - c[y]) ** 2).mean()",
        "c = torch.zeros(3, 3).scatter_add_(0, y[:, None].expand(-1, 3), out)\nloss = ((out - c[y]) ** 2).mean()",
        # statistics of the batch by hand
        "var, mean = torch.var_mean(out, dim=0)\nloss = F.cross_entropy((out - mean) / torch.sqrt(var + 1e-5), y)",
        f"{REWARD}adv = (r - r.mean()) / (r.std() + 1e-8)\nloss = -(logp * adv.detach()).mean()",
        f"{REWARD}loss = -(logp * whiten(r)).mean()",
        "h = torch.histc(out, bins=8, min=-3, max=3)\np = h / h.sum()\n"
        "loss = F.cross_entropy(out, y) * (p * (p + 1e-8).log()).sum()",
        "q = torch.quantile(out, torch.tensor([0.1, 0.9]))\nloss = F.cross_entropy(out, y) + (q[1] - q[0]).abs()",
        "x.requires_grad_(True)\ng = torch.autograd.grad(model(x).sum(), x, create_graph=True)[0]\n"
        "loss = F.cross_entropy(out, y) + (g.norm() - 1) ** 2",
        "scale = np.median(out.detach().cpu().numpy())\nloss = F.cross_entropy(out / scale, y)",
        # in place, in parts, one by one
        "out = out.clone()\nout.sub_(out.mean(0))\nloss = F.cross_entropy(out, y)",
        "out = out.clone()\nout[:, 0] = out[:, 0] - out[:, 0].mean()\nloss = F.cross_entropy(out, y)",
        "loss = F.cross_entropy(torch.stack([row - out.mean(0) for row in out]), y)",
        "c = torch.zeros(3, 3)\nfor k in range(3):\n    if (y == k).any():\n        c[k] = out[y == k].mean(0)\n"
        "loss = ((out - c[y]) ** 2).mean()",
        # stacked: the samples are in dimension 1
        "s = torch.stack([out, out * 2])\nloss = ((s.norm(2, dim=1) - 1) ** 2).mean()",
        "s = torch.stack([out, -out])\nloss = ((s + 1).std(1) - 1).mean()",
        "s = torch.stack([x, x]).requires_grad_()\ng = torch.autograd.grad(model.layer(s).sum(2).mean(), s)[0]\n"
        "loss = F.cross_entropy(out, y) + ((g.norm(2, dim=1) - 1) ** 2).mean()",
    ],
)
def test_a_loss_that_needs_all_of_the_batch_is_said(lines: str) -> None:
    assert said(lines) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "lines",
    [
        "z, w = F.normalize(out, dim=1), model.layer.weight[:, :3]\n"
        "loss = F.cross_entropy(torch.einsum('id,kd->ik', z, w), y)",
        "loss = F.triplet_margin_loss(out, model(x + 1), model(x - 1))",
        "perm = torch.randperm(len(x))\nmixed = model(0.3 * x + 0.7 * x[perm])\n"
        "loss = 0.3 * F.cross_entropy(mixed, y) + 0.7 * F.cross_entropy(mixed, y[perm])",
        "w = torch.tensor([1.0, 2.0, 3.0])\nloss = (F.cross_entropy(out, y, reduction='none') * w[y]).mean()",
        "m, v = out.mean(1, keepdim=True), out.var(1, keepdim=True)\nloss = F.cross_entropy((out - m) / v, y)",
        f"{REWARD}loss = -(logp * (r - 0.5)).mean()",
        "q = torch.quantile(out, 0.9, dim=1)\nloss = F.cross_entropy(out, y) + q.mean()",
        "x.requires_grad_(True)\ng = torch.autograd.grad(model(x).sum(), x, create_graph=True)[0]\n"
        "loss = F.cross_entropy(out, y) + ((g.norm(2, dim=1) - 1) ** 2).mean()",
        "parts = []\nfor k in range(3):\n    parts.append(out[:, k].pow(2).mean())\nloss = sum(parts)",
        "terms = {}\nfor k in range(3):\n    terms[k] = out[:, k].pow(2).mean()\nloss = sum(terms.values())",
        "scale = np.median([1.0, 2.0])\nloss = F.cross_entropy(out / scale, y)",
        "out = out.clone()\nout.sub_(out.mean(1, keepdim=True))\nloss = F.cross_entropy(out, y)",
        "out = out.clone()\nout[:, 0] = out[:, 0] - out.mean(1)\nloss = F.cross_entropy(out, y)",
        "loss = F.cross_entropy(torch.stack([row - row.mean() for row in out]), y)",
        "c = torch.zeros(3, 3)\nfor k in range(3):\n    c[k] = k\nloss = ((out - c[y]) ** 2).mean()",
        "loss = F.cross_entropy(out, y) if epoch else torch.zeros(()) * 2",
        "s = torch.stack([out, out * 2])\nloss = ((s.norm(2, dim=2) - 1) ** 2).mean()",
        "s = torch.stack([out, out * 2])\nloss = F.cross_entropy(s.mean(0), y) + (s[0] - s[1]).pow(2).mean()",
        "s = torch.stack([out, out * 2])\nloss = ((s - out) ** 2).mean() + s.std(0).mean()",
        "w = torch.softmax(torch.stack([out.mean(1), out.sum(1)]), 0)\nloss = (w[0] * out.sum(1)).mean()",
        "s = torch.stack([x, x], dim=1).requires_grad_()\ng = torch.autograd.grad(model.layer(s).mean(), s)[0]\n"
        "loss = F.cross_entropy(out, y) + ((g.norm(2, dim=1) - 1) ** 2).mean()",
        "loss = torch.stack([F.cross_entropy(out, y), out.pow(2).mean()]).mean()",
    ],
)
def test_a_loss_of_each_sample_is_not(lines: str) -> None:
    assert said(lines) == []


@pytest.mark.parametrize(
    "loss",
    [
        "F.cross_entropy(out, y, ignore_index=0)",
        "F.cross_entropy(out, y, reduction='none')[y > 0].mean()",
        "F.cross_entropy(out, y, reduction='none').sum() / (y > 0).sum()",
        "unknown(out, y)",
        "F.cross_entropy(out, y, reduction='sum') + model.layer.weight.norm()",
        "(out - out.mean(0)).pow(2).sum()",
    ],
)
def test_the_loss_of_one_sample_is_that_of_all_processes(loss: str) -> None:
    forward = f"optimizer.zero_grad()\nout = model(x)\nloss = {loss}"
    slots = {"from_imports": "from somewhere import unknown", "forward": forward}
    one = script(loader="loader = DataLoader(data, shuffle=True)", **slots)
    assert [f.code for f in convert(one).plan.findings] == ["BATCH-ONE"]  # type: ignore[union-attr]
    whole = convert(script(**slots)).plan
    assert whole is not None and any(f.code.startswith("LOSS-") for f in whole.findings)
