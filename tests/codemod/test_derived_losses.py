"""Losses that are derived from one of torch's: their own forward pass counts, and what they tell their base."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script

LOSS = """\
class Loss(nn.CrossEntropyLoss):
    {}
    def forward(self, scores, labels):
        {}
"""
SUPER = "super().forward(scores, labels)"


def made(init: str, forward: str, given: str = "") -> str:
    constructor = f"def __init__(self, rate=1.0, weight=None, kind='mean'):\n        {init}\n" if init else ""
    slots = {"before": f"criterion = Loss({given})", "definitions": LOSS.format(constructor, f"return {forward}")}
    if not forward:
        slots["definitions"] = f"class Loss(nn.CrossEntropyLoss):\n    {constructor}    kept = 1\n"
    return script(**slots, forward="optimizer.zero_grad()\nloss = criterion(model(x), y)")


@pytest.mark.parametrize(
    ("init", "forward", "given", "codes"),
    [
        ("", SUPER, "", ["LOSS-UNKNOWN"]),  # who makes it is not asked
        ("", "", "", []),
        ("", "", "ignore_index=1", ["LOSS-MASKMEAN"]),
        ("super().__init__()", SUPER, "", []),
        ("super().__init__()", f"{SUPER} + (scores ** 2).mean()", "2.0", []),
        ("super(Loss, self).__init__()", "super(Loss, self).__call__(scores, labels)", "", []),
        ("super().__init__(weight=weight, reduction=kind)", SUPER, "", []),
        ("super().__init__(weight, reduction=kind)", SUPER, "weight=torch.ones(3)", ["LOSS-MASKMEAN"]),
        ("super().__init__(weight)", "", "weight=torch.ones(3)", ["LOSS-MASKMEAN"]),
        ("super().__init__(ignore_index=0)", SUPER, "", ["LOSS-MASKMEAN"]),
        ("super().__init__(reduction=kind)", SUPER, "kind=str(torch.__version__)", ["LOSS-UNKNOWN"]),
        ("super().__init__(reduction='sum')", f"{SUPER} + (scores ** 2).mean()", "", ["LOSS-SUM"]),
        ("super().__init__()", "F.cross_entropy(scores, labels, weight=self.weight)", "", ["LOSS-MASKMEAN"]),
        ("super().__init__()", "F.cross_entropy(scores, labels)", "", []),
        ("super().__init__()", "((scores - scores.mean(0)) ** 2).mean()", "", ["LOSS-INBATCH"]),
    ],
)
def test_what_a_derived_loss_computes(init: str, forward: str, given: str, codes: list[str]) -> None:
    assert findings(made(init, forward, given)) == codes


@pytest.mark.parametrize(
    ("init", "forward", "given", "summed"),
    [
        ("super().__init__(reduction='sum')", SUPER, "", True),
        ("super().__init__(reduction='sum')", "", "", True),
        ("super().__init__(reduction=kind)", SUPER, "kind='sum'", True),
        ("super().__init__()", "F.cross_entropy(scores, labels, reduction='sum')", "", True),
        ("super().__init__(reduction=kind)", SUPER, "", False),
        ("super().__init__(reduction='sum')", f"{SUPER} / len(labels)", "", False),
    ],
)
def test_a_derived_loss_that_is_a_sum(init: str, forward: str, given: str, summed: bool) -> None:
    assert ('backward(loss, reduction="sum")' in converted(made(init, forward, given))) is summed


@pytest.mark.parametrize(("outer", "codes"), [("return super().forward(scores, labels) * 2", []), ("pass", [])])
def test_a_loss_that_is_derived_from_one_of_the_script(outer: str, codes: list[str]) -> None:
    """The forward pass that `super()` means is the script's own, or torch's."""
    inner = LOSS.format("def __init__(self):\n        super().__init__()\n", f"return {SUPER}")
    body = f"def forward(self, scores, labels):\n        {outer}" if "super" in outer else "kept = 1"
    text = script(
        before="criterion = Outer()",
        definitions=f"{inner}\n\nclass Outer(Loss):\n    {body}",
        forward="optimizer.zero_grad()\nloss = criterion(model(x), y)",
    )
    assert findings(text) == codes


def test_a_network_that_is_derived_from_one_of_the_script() -> None:
    deep = "class Deep(Net):\n    def forward(self, x):\n        return super().forward(x).relu()"
    assert findings(script(definitions=deep, model="model = Deep().to(device)")) == []
