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


EVALUATION = """\
with torch.no_grad():
    for x, y, lengths in tested:
        out = model(x)
        out = F.log_softmax(out, dim=2)
        total += {loss}.item()
        scores += out.amax().tolist()
"""


@pytest.mark.parametrize(
    ("criterion", "loss"),
    [
        ("criterion = nn.CTCLoss()", "criterion(out, y, lengths, lengths)"),
        ("criterion = Own()", "criterion(out, y, lengths, lengths)"),
        ("", "F.ctc_loss(out, y, lengths, lengths)"),
    ],
)
def test_its_scores_have_no_row_for_each_sample(criterion: str, loss: str) -> None:
    text = evaluating(criterion, loss)
    assert "gather_for_metrics" not in "\n".join(added(text))
    assert "EVAL-REPLICATED" in findings(text)


def test_those_of_other_losses_have() -> None:
    text = evaluating("criterion = nn.MSELoss()", "criterion(out, y)")
    assert "gather_for_metrics" in "\n".join(added(text))


def evaluating(criterion: str, loss: str) -> str:
    return script(
        from_imports="from speech import Speech, spoken",
        definitions="class Own(nn.CTCLoss):\n    pass",
        data="data = Speech()",
        loader="loader = DataLoader(data, batch_size=16, shuffle=True)\ntested = DataLoader(data, batch_size=16)",
        model="model = spoken.Net().to(device)",
        before=f"{criterion}\ntotal, scores = 0, []",
        loop="for x, y, lengths in loader:",
        epoch_end=EVALUATION.format(loss=loss),
    )
