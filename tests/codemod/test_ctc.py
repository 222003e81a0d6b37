"""The loss of CTC is a mean over the samples, each by its own length, also if the targets of all are one vector."""

from __future__ import annotations

import pytest
from scripts import added, findings, script

COLLATE = """\
def collate(samples):
    return (
        torch.stack([s[0] for s in samples]),
        torch.cat([s[1] for s in samples]),
        torch.tensor([len(s[1]) for s in samples]),
    )
"""
SLOTS = {
    "definitions": COLLATE,
    "data": "data = [(torch.ones(12, 8) * k, torch.arange(1 + k % 2) + 1) for k in range(64)]",
    "loader": "loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=collate)",
    "loop": "for x, y, lengths in loader:",
}
OUT = "optimizer.zero_grad()\nout = model(x).log_softmax(2).transpose(0, 1)\n"
SIZES = "torch.full((x.size(0),), 12)"


def ctc(loss: str, criterion: str = "") -> str:
    return script(**SLOTS, before=criterion, forward=f"{OUT}loss = {loss}")


@pytest.mark.parametrize(
    ("criterion", "loss"),
    [
        ("criterion = nn.CTCLoss()", f"criterion(out, y, {SIZES}, lengths)"),
        ("criterion = nn.CTCLoss(blank=0, zero_infinity=True)", f"criterion(out, y, {SIZES}, lengths)"),
        ("", f"F.ctc_loss(out, y, {SIZES}, lengths)"),
        ("", f"F.ctc_loss(out, y.to(device), {SIZES}, lengths, blank=0)"),
    ],
)
def test_joined_targets_are_those_of_their_samples(criterion: str, loss: str) -> None:
    text = ctc(loss, criterion)
    assert [code for code in findings(text) if code.startswith("LOSS")] == []
    assert "accelerator.backward(loss)" in [line.strip() for line in added(text)]


def test_a_sum_over_the_samples_is_one() -> None:
    text = ctc(f"F.ctc_loss(out, y, {SIZES}, lengths, reduction='sum')")
    assert [code for code in findings(text) if code.startswith("LOSS")] == []
    assert 'accelerator.backward(loss, reduction="sum")' in [line.strip() for line in added(text)]


@pytest.mark.parametrize(
    "loss",
    [
        "F.cross_entropy(model(y.float()), y)",  # a mean over all targets, of which a share has others
        "F.ctc_loss(model(x)[lengths > 1].log_softmax(2), y, lengths, lengths)",  # samples are left out
        f"F.ctc_loss(out, y, {SIZES}, lengths, reduction='none')[lengths > 1].mean()",
        f"F.ctc_loss(out, y, {SIZES}, lengths, reduction='none').sum() / lengths.sum()",
    ],
)
def test_other_means_over_what_was_joined_are_not(loss: str) -> None:
    assert [code for code in findings(ctc(loss)) if code.startswith("LOSS")]
