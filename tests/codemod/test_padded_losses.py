"""BATCH-PADDED: a loss that is a mean over the positions of sequences padded to the longest of a share."""

from __future__ import annotations

import pytest
from scripts import convert, findings, script

COLLATE = """\
from torch.nn.utils.rnn import pad_sequence


def collate(samples):
    x, y, z = zip(*samples)
    rows = pad_sequence(x, batch_first=True)
    return rows, pad_sequence(y, batch_first=True, padding_value=-100), torch.stack(z)
"""
LOADER = "loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=collate)"


def severities(loss: str, collate: str = COLLATE, **slots: str) -> list[str]:
    text = script(
        definitions=collate,
        loader=LOADER,
        loop="for x, y, z in loader:",
        move="",
        forward=f"optimizer.zero_grad()\n{loss}",
        **slots,
    )
    result = convert(text)
    assert "accelerator.backward" in result.diff and result.plan is not None
    return [f.severity.value for f in result.plan.findings if f.code == "BATCH-PADDED"]


@pytest.mark.parametrize(
    "loss",
    [
        "loss = F.cross_entropy(model(x).view(-1, 3), y.view(-1))",
        "y = y[:, 1:].reshape(-1)\nloss = F.cross_entropy(model(x).view(-1, 3), y)",
        "loss = F.mse_loss(model(x), x)",
        "loss = nn.CrossEntropyLoss()(model(x).transpose(1, 2), y)",
        "loss = criterion(model(x).view(-1, 3), y.contiguous().view(-1))",
    ],
)
def test_a_mean_over_padded_positions_is_warned_of(loss: str) -> None:
    assert severities(loss, before="criterion = nn.CrossEntropyLoss()") == ["warning"]


@pytest.mark.parametrize(
    "loss",
    [
        "loss = F.cross_entropy(model(x).sum(1), z)",  # one label for each sample
        "loss = F.cross_entropy(model(x)[:, 0], y[:, 0])",  # one position
        "loss = F.cross_entropy(model(x).view(-1, 3), y.view(-1), reduction='none').view(len(x), -1)[:, 0].mean()",
        "loss = criterion(model(x).view(-1, 3), y.view(-1))",  # told by LOSS-MASKMEAN
        "loss = summed(model(x).view(-1, 3), y.view(-1))",
    ],
)
def test_other_losses_of_padded_batches_are_noted(loss: str) -> None:
    before = "criterion = nn.CrossEntropyLoss(ignore_index=-100)\nsummed = nn.CrossEntropyLoss(reduction='sum')"
    assert severities(loss, before=before) == ["note"]


@pytest.mark.parametrize("padded", ["torch.stack(y)", "fixed(y)", "F.pad(torch.stack(y), (0, 3))"])
def test_what_is_not_padded_to_the_longest_is_only_noted(padded: str) -> None:
    collate = COLLATE.replace("pad_sequence(y, batch_first=True, padding_value=-100)", padded)
    assert padded in collate
    assert severities("loss = F.cross_entropy(model(x).view(-1, 3), y.view(-1))", collate) == ["note"]


# ---- masks that are as long as the longest sample

MASKED = """\
def mask_of(words, lengths):
    longest = torch.max(lengths)
    mask = torch.ones(words.size(0), longest, device=words.device)
    mask[words[:, :longest] == 0] = 0.0
    return mask


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 3)

    def forward(self, words, lengths):
        hidden = self.layer(words.unsqueeze(2))
        mask = {mask}
        return (hidden * mask.unsqueeze(2)).sum(1) / lengths.unsqueeze(1)
"""


def masked(mask: str) -> list[str]:
    """The codes of what is said of a network that leaves out padding by a mask."""
    text = script(
        definitions=MASKED.format(mask=mask),
        model="model = Masked().to(device)",
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x, y), y)",
    )
    return findings(text)


@pytest.mark.parametrize(
    "mask",
    [
        "(torch.arange(lengths.max(), device=words.device)[None, :] < lengths[:, None]).float()",
        "(torch.arange(int(lengths.max()), device=words.device).expand(len(words), -1) < lengths.unsqueeze(1)).float()",
        "torch.ones(len(words), lengths.max(), device=words.device)",
        "torch.zeros((len(words), max(lengths)), device=words.device) + 1",
        "mask_of(words, lengths)",
    ],
)
def test_a_mask_as_long_as_the_longest_sample_compares_none(mask: str) -> None:
    assert masked(mask) == ["BATCH-PADDED"]


@pytest.mark.parametrize(
    "mask",
    [
        "words / words.max()",
        "torch.full((len(words), 8), words.max().item(), device=words.device)",
        "(torch.arange(0, words.max(), 0.1, device=words.device)[None, :8] < lengths[:, None]).float()",
    ],
)
def test_what_is_computed_with_the_greatest_value_compares_them(mask: str) -> None:
    assert "LOSS-INBATCH" in masked(mask)


def test_a_mask_of_a_length_of_its_own_is_no_matter() -> None:
    assert masked("(torch.arange(8, device=words.device)[None, :] < lengths[:, None]).float()") == []
