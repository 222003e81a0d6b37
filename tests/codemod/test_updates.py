"""Weights and gradients that are changed by hand, by what is the same on every process or is not."""

from __future__ import annotations

import pytest
from scripts import findings, script, severities

SUM = 'optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, reduction="sum")'
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), {})"


def changing(change: str) -> str:
    best = "best = Net().to(device)"
    return script(forward=SUM, backward=f"loss.backward()\n{change}", epoch="seen = 0", before=best)


@pytest.mark.parametrize(
    "change",
    [
        "for p in model.parameters():\n    p.grad /= len(x)",
        "for p in model.parameters():\n    p.grad = p.grad / x.size(0)",
        "for p in model.parameters():\n    p.grad.div_(x.shape[0])",
        "for name, p in model.named_parameters():\n    p.grad.data.mul_(1 / len(y))",
        "for p in model.parameters():\n    p.grad += torch.ones_like(p.grad) / len(x)",
        "rows = len(x)\nfor p in model.parameters():\n    p.grad /= rows",
        "model.layer.weight.grad /= len(x)",
        "for p in model.parameters():\n    p.data.mul_(1 - 1e-3 * loss.item())",
        "for p, q in zip(model.parameters(), best.parameters()):\n    p.data.mul_(len(x) / 16)",
        "for p, q in zip(best.parameters(), model.parameters()):\n    p.data.copy_(q.lerp(p, 0.5 ** (len(x) / 100)))",
        "for (n, p), q in zip(best.named_parameters(), model.parameters()):\n    p.data.mul_(loss.item())",
        "for i, p in enumerate(best.parameters()):\n    p.data = p.data * loss.item()",
        CLIP.format("0.5 * loss.item()"),
        CLIP.format("max_norm=len(x)"),
        "norm = " + CLIP.format("loss.item()"),
        "nn.utils.clip_grad_value_(model.parameters(), len(x))",
    ],
)
def test_what_a_share_changes_differs(change: str) -> None:
    assert findings(changing(change)) == ["COLL-RANKFLOW"]


@pytest.mark.parametrize(
    ("change", "severity"),
    [
        ("p.grad /= len(x)", "warning"),  # right where the shares are as large: see test_backward.py
        ("p.grad.div_(x.size(0))", "warning"),
        ("p.grad = p.grad / len(x)", "warning"),
        ("p.grad *= 1 / len(x)", "warning"),
        ("p.grad.mul_(1.0 / x.size(0))", "warning"),
        ("p.data -= 0.1 / len(x) * p.grad", "warning"),
        ("with torch.no_grad():\n        p -= 0.1 / x.size(0) * p.grad", "warning"),
        ("p.grad *= len(x)", "error"),
        ("p.grad += 1 / len(x)", "error"),
        ("p.grad /= loss.numel() + len(x) * 2", "error"),
    ],
)
def test_gradients_of_a_sum_that_the_rows_of_a_share_divide(change: str, severity: str) -> None:
    loop = f"for p in model.parameters():\n    {change}"
    assert told(script(forward=SUM, backward=f"loss.backward()\n{loop}")) == [severity]
    assert told(script(backward=f"loss.backward()\n{loop}")) == ["error"]  # of a mean it is another gradient
    drops = "loader = DataLoader(data, batch_size=16, drop_last=True)"
    whole = told(script(forward=SUM, backward=f"loss.backward()\n{loop}", loader=drops))
    assert whole == ([] if severity == "warning" else [severity])


def told(text: str) -> list[str]:
    return severities(text, "COLL-RANKFLOW")


@pytest.mark.parametrize(
    "change",
    [
        "for p in model.parameters():\n    p.grad /= 16",
        "for p in model.parameters():\n    p.grad.clamp_(-1, 1)",
        "for p in model.parameters():\n    p.grad.add_(p.data, alpha=0.01)",
        "for p in model.parameters():\n    p.grad = p.grad.to(x.dtype)",
        "for p in model.parameters():\n    p.data.clamp_(-1, 1)",
        "for p in model.parameters():\n    p = torch.ones(3) / len(x)",
        "for p in model.parameters():\n    p.grad /= len(loader)",
        "for p in model.parameters():\n    p.grad /= epoch + 1",
        "for p, q in zip(best.parameters(), model.parameters()):\n    p.data.copy_(q.lerp(p, 0.5 ** (16 / 100)))",
        "for p, n in zip(model.parameters(), range(9)):\n    n = n * loss.item()",
        "for i, p in enumerate(best.parameters()):\n    i *= len(x)",
        CLIP.format("1.0"),
        CLIP.format("max_norm=1.0 / (epoch + 1)"),
        "norm = " + CLIP.format("1.0") + "\nfor p in model.parameters():\n    p.grad /= norm",
        "weights = torch.ones(3)\nweights.div_(len(x))",
        "seen += 1\nfor p in model.parameters():\n    p.grad /= seen",
    ],
)
def test_what_every_process_has_changes_alike(change: str) -> None:
    assert findings(changing(change)) == []


@pytest.mark.parametrize(("by", "told"), [("len(x)", True), ("x.size(0)", True), ("16", False), ("1 + 1", False)])
def test_in_a_function(by: str, told: bool) -> None:
    step = (
        "def step(model, x, loss):\n    loss.backward()\n    for p in model.parameters():\n"
        f"        p.grad /= {by}\n    {CLIP.format(by)}\n"
    )
    assert ("COLL-RANKFLOW" in findings(script(definitions=step, backward="step(model, x, loss)"))) is told
