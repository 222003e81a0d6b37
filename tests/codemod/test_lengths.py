"""Collate functions that work out the length of the longest or shortest sample by hand, or have a library do it."""

from __future__ import annotations

import textwrap

import pytest
from accelift_codemod.plan import Severity
from scripts import convert, script

FILL = """
out = torch.zeros(len(batch), {}, 8)
for i, (s, _) in enumerate(batch):
    out[i, : len(s)] = s
"""
TOKENS = "from transformers import AutoTokenizer, DataCollatorWithPadding\ntok = AutoTokenizer.from_pretrained('x')"


def padded(body: str, collate: str = "pad") -> list[Severity]:
    body = f"{body}\nreturn out, torch.tensor([s[1] for s in batch])"
    loader = f"loader = DataLoader(data, batch_size=16, collate_fn={collate})"
    definitions = f"import numpy as np\ndef pad(batch):\n{textwrap.indent(body, '    ')}"
    plan = convert(script(from_imports=TOKENS, definitions=definitions, loader=loader)).plan
    assert plan is not None
    return [f.severity for f in plan.findings if f.code == "BATCH-PADDED"]


@pytest.mark.parametrize(
    "body",
    [
        "n = int(torch.tensor([len(s) for s, _ in batch]).max())",
        "lengths = [len(s) for s, _ in batch]\nn = np.max(lengths)",
        "lengths = []\nfor s, _ in batch:\n    lengths.append(s.shape[0])\nn = torch.LongTensor(lengths).max().item()",
        "n = torch.max(torch.tensor([s.size(0) for s, _ in batch]))",
        "batch = sorted(batch, key=lambda s: len(s[0]), reverse=True)\nn = len(batch[0][0])",
        "batch.sort(key=lambda s: -len(s[0]))\nn = batch[0][0].shape[0]",
        "lengths = sorted(len(s) for s, _ in batch)\nn = lengths[-1]",
        "n = 0\nfor s, _ in batch:\n    n = max(n, len(s))",
        "n = 0\nfor s, _ in batch:\n    if len(s) > n:\n        n = len(s)",
        "n = len(max([s for s, _ in batch], key=len))",
    ],
)
def test_the_longest_of_a_share(body: str) -> None:
    assert padded(body + FILL.format("n")) == [Severity.NOTE]


@pytest.mark.parametrize(
    "body",
    [
        "n = 9",
        "top = torch.stack([s.max() for s, _ in batch]).max()\nn = 9",
        "batch = sorted(batch, key=lambda s: s[1])\nn = 9 + batch[0][1]",
        "batch.sort(key=lambda s: len(s[0]), reverse=True)\nn = 9",
        "n = 9\nfor s, _ in batch:\n    if s.sum() > n:\n        n = 9",
        "n = max(9, 3)",
        "batch = [(s[: min(len(s), 9)], y) for s, y in batch]\nn = 9",
        "numbers = [y for _, y in batch]\nn = 9 + np.max(numbers)",
    ],
)
def test_a_length_that_is_no_share_s(body: str) -> None:
    assert padded(body + FILL.format("n")) == []


def test_samples_that_are_cut_to_the_shortest_are_warned_of() -> None:
    body = "n = min(len(s) for s, _ in batch)\nout = torch.stack([s[:n] for s, _ in batch])"
    assert padded(body) == [Severity.WARNING]


@pytest.mark.parametrize(
    ("out", "collate", "said"),
    [
        ("tok([s for s, _ in batch], padding=True)", "pad", True),
        ("tok([s for s, _ in batch], padding='longest')", "pad", True),
        ("torch.nested.nested_tensor([s for s, _ in batch]).to_padded_tensor(0.0)", "pad", True),
        ("tok([s for s, _ in batch], padding='max_length')", "pad", False),
        ("F.conv1d(torch.stack([s for s, _ in batch]), torch.ones(3, 8, 1), padding=1)", "pad", False),
        ("None", "DataCollatorWithPadding(tok)", True),
    ],
)
def test_what_libraries_pad(out: str, collate: str, said: bool) -> None:
    assert bool(padded(f"out = {out}", collate)) is said
