"""Sums by which each iteration sets the learning rate, and lists by which a loop that evaluates, too, is decided."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, converted, findings, script

_RATE = "rate = 0.1 * min(1.0, float(seen) / 100)\nfor group in optimizer.param_groups:\n    group['lr'] = rate"


def _text(add: str, rate: str = _RATE) -> str:
    return script(epoch="seen = 0", step=f"optimizer.step()\n{add}\n{rate}")


@pytest.mark.parametrize(
    ("add", "after"),
    [
        ("seen += (y >= 0).sum()", "seen += accelerator.gather_for_metrics((y >= 0).sum().detach()).sum()"),
        ("seen += len(y)", "seen += len(accelerator.gather_for_metrics(y))"),
        (
            "if epoch < 1:\n    seen += (y >= 0).sum()",
            "    seen += accelerator.gather_for_metrics((y >= 0).sum().detach()).sum()",
        ),
    ],
)
def test_what_has_been_seen_paces_the_rate(add: str, after: str) -> None:
    text = _text(add)
    assert after in converted(text)
    assert "COLL-RANKFLOW" not in findings(text)


@pytest.mark.parametrize(
    ("add", "rate"),
    [
        ("seen += (y >= 0).sum()", _RATE.replace("float(seen)", "float(seen) * loss.item()")),
        ("seen += (y >= 0).sum() * y.max()", _RATE),
        ("if loss.item() > 1:\n    seen += (y >= 0).sum()", _RATE),
    ],
)
def test_other_rates_differ_from_process_to_process(add: str, rate: str) -> None:
    text = _text(add, rate)
    assert "COLL-RANKFLOW" in findings(text)
    assert add in converted(text).replace("\n        ", "\n")


@pytest.mark.parametrize("add", ["seen += 1", "seen += 16", "count = (y >= 0).sum()"])
def test_what_is_counted_alike_everywhere_stays(add: str) -> None:
    text = _text(add)
    assert add in converted(text)
    assert "COLL-RANKFLOW" not in findings(text)


_RUN = """\
def run(train):
    losses = []
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        losses.append(loss.item())
        if train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return sum(losses) / len(losses)
"""


@pytest.mark.parametrize("end", ["if best > mean:\n    torch.save(model.state_dict(), 'best.pt')", "print(mean)"])
def test_a_list_of_both_kinds_of_pass_is_averaged(end: str) -> None:
    body = f"best = 3.0\nrun(True)\nmean = run(False)\n{end}"
    text = script(definitions=_RUN, before=body, **NO_LOOP)
    assert "METRIC-LOCAL" not in findings(text)
    assert "batch_mean(loss.detach()" in converted(text)
