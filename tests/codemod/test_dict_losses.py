"""Losses, and what networks are given, in dicts that are written out."""

from __future__ import annotations

import pytest
from scripts import convert, script

TERMS = "terms = {'first': F.cross_entropy(model(x), y), 'second': model(x).abs().mean()}"


def said(forward: str) -> list[str]:
    """The codes of the findings about the loss of a script; `sum` if the loss is marked as one."""
    result = convert(script(forward=f"optimizer.zero_grad()\n{forward}"))
    assert result.plan is not None and "accelerator.backward(loss" in result.diff
    found = [f.code for f in result.plan.findings if f.code.startswith("LOSS-")]
    return [*found, *(["sum"] if 'reduction="sum"' in result.diff else [])]


@pytest.mark.parametrize(
    "loss",
    [
        "loss = sum(terms.values())",
        "loss = terms['first'] + 0.1 * terms['second']",
        "loss = terms.get('first') + terms.pop('second')",
        "loss = sum(v for k, v in terms.items())",
        "terms['third'] = model(x).pow(2).mean()\nloss = sum(terms.values())",
        "loss = sum({k: 2 * v for k, v in terms.items()}.values())",
    ],
)
def test_terms_of_a_loss_in_a_dict(loss: str) -> None:
    assert said(f"{TERMS}\n{loss}") == []
    sums = TERMS.replace("F.cross_entropy(model(x), y)", "model(x).sum()").replace("mean()", "sum()")
    loss = loss.replace("mean()", "sum()")
    assert said(f"{sums}\n{loss}") == ["sum"]


@pytest.mark.parametrize(
    "changed",
    [
        "terms.update(others)",
        "terms.setdefault('second', other())",
        "change(terms)",
        "terms[name] = other()",
        "del terms['second']",
    ],
)
def test_a_dict_that_is_changed_is_not_known(changed: str) -> None:
    assert said(f"{TERMS}\n{changed}\nloss = sum(terms.values())") == ["LOSS-UNKNOWN"]
