"""Collate functions of the script: what has a row for each sample, and what joins samples of different lengths."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, findings, script

FORWARD = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"
IMPORTS = "import functools\nfrom torch.utils.data import default_collate\nfrom torch.nn.utils.rnn import pad_sequence"
LOADER = "loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn={})"
JOINED = """\
def collate(batch):
    x = torch.cat([x for x, _ in batch])
    y = torch.cat([y for _, y in batch], dim=0)
    return x, y
"""


def collating(function: str, *, given: str = "collate", **slots: str) -> str:
    filled = {"from_imports": IMPORTS, "loader": LOADER.format(given), "forward": FORWARD, **slots}
    return script(definitions=function, **filled)


@pytest.mark.parametrize(
    "function",
    [
        JOINED,
        "def collate(batch):\n    xs, ys = zip(*batch)\n    return torch.cat(xs), torch.cat(list(ys))",
        "def collate(batch):\n    xs, ys = map(list, zip(*batch))\n    return torch.cat(xs, 0).float(), torch.cat(ys)",
        "def collate(batch):\n    return torch.cat([b[0] for b in batch]), torch.cat([b[1] for b in batch])",
        """\
def collate(batch):
    xs, ys = [], []
    for x, y in batch:
        xs.append(x)
        ys.extend(y)
    return torch.cat(xs), torch.tensor(ys)
""",
        """\
def collate(batch):
    xs, ys = [], []
    for x, y in batch:
        for row, label in zip(x, y):
            xs.append(row)
            ys.append(label)
    return torch.stack(xs), torch.stack(ys)
""",
        """\
def collate(batch):
    xs, ys = [], []
    for i, (x, y) in enumerate(batch):
        if x is not None:
            xs.append(x)
            ys.append(y)
    return torch.stack(xs), torch.tensor(ys)
""",
        "def join(parts):\n    return torch.cat(parts)\n\n\n"
        "def collate(batch):\n    return join([x for x, _ in batch]), join([y for _, y in batch])",
    ],
)
def test_a_mean_over_joined_samples_is_reported(function: str) -> None:
    assert findings(collating(function)) == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize(
    "function",
    [
        "def collate(batch):\n    xs, ys = zip(*batch)\n    return torch.stack(xs), torch.tensor(ys)",
        "def collate(batch):\n    return default_collate(batch)",
        "def collate(batch):\n    xs = torch.cat([x.unsqueeze(0) for x, _ in batch])\n"
        "    return xs, torch.cat([torch.tensor([y]) for _, y in batch])",
        "def collate(batch):\n    xs = torch.cat([b[0][None] for b in batch], dim=0)\n"
        "    return xs, torch.LongTensor([b[1] for b in batch])",
        """\
def collate(batch):
    batch = sorted(batch, key=lambda pair: -len(pair[0]))
    xs = torch.zeros(len(batch), 8)
    ys = []
    for i, (x, y) in enumerate(batch):
        xs[i, : len(x)] = x
        ys.append(y)
    return xs, torch.stack(ys)
""",
    ],
)
def test_a_mean_over_rows_of_samples_is_not(function: str) -> None:
    assert findings(collating(function)) == []
    summed = 'optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, reduction="sum")'
    assert 'accelerator.backward(loss, reduction="sum")' in converted(collating(function, forward=summed))
    assert findings(collating(function, forward=summed)) == []


def test_each_part_is_what_it_is() -> None:
    """The joined points are no samples, the labels are; a dict has its parts by name."""
    function = """\
def collate(batch):
    points = torch.cat([x for x, _ in batch])
    labels = torch.tensor([y for _, y in batch])
    return {"points": points, "labels": labels}
"""
    slots = {"loop": "for batch in loader:", "move": "batch = {k: v.to(device) for k, v in batch.items()}"}
    zero = "optimizer.zero_grad()\n"
    points = zero + 'loss = model(batch["points"]).pow(2).mean()'
    assert findings(collating(function, forward=points, **slots)) == ["LOSS-MASKMEAN"]
    labels = zero + 'loss = (model.layer.weight.sum() * batch["labels"]).mean()'
    assert findings(collating(function, forward=labels, **slots)) == []
    summed = zero + 'loss = model(batch["points"]).pow(2).sum()'
    assert findings(collating(function, forward=summed, **slots)) == []


def test_what_a_collate_function_does_in_one_case_only_is_not_known() -> None:
    function = """\
def collate(batch):
    xs, ys = zip(*batch)
    if joins:
        x = torch.cat(xs)
    else:
        x = torch.stack(xs)
    return x, torch.tensor(ys)
"""
    summed = "optimizer.zero_grad()\nloss = model(x).pow(2).sum()"
    assert findings(collating(function, forward=summed)) == ["LOSS-UNKNOWN"]


EITHER = "functools.partial({0}=0) if len(data) > 9 else functools.partial({0}=1)"


@pytest.mark.parametrize(
    ("definitions", "given"),
    [
        (JOINED.replace("batch)", "batch, pad)"), "lambda batch: collate(batch, 0)"),
        (
            "class Collator:\n    def __call__(self, batch):\n"
            "        return torch.cat([b[0] for b in batch]), torch.cat([b[1] for b in batch])",
            "Collator()",
        ),
        (JOINED.replace("batch)", "batch, pad)"), "functools.partial(collate, pad=0)"),
        (JOINED.replace("batch)", "batch, pad)"), EITHER.format("collate, pad")),
        ("", "lambda batch: [torch.cat(part) for part in zip(*batch)]"),
    ],
)
def test_collate_functions_of_all_kinds(definitions: str, given: str) -> None:
    assert findings(collating(definitions, given=given)) == ["LOSS-MASKMEAN"]


def test_samples_that_are_not_the_first_parameter_are_not_followed() -> None:
    given = EITHER.replace("=", "").format("collate, ")
    assert findings(collating(JOINED.replace("batch)", "batch, samples)"), given=given)) == []


def test_a_loader_of_another_library_is_not_followed() -> None:
    """What it does with a collate function is its own affair."""
    text = collating(JOINED, from_imports="from other import DataLoader")
    assert "LOSS-MASKMEAN" not in findings(text)


KEPT = "def collate(batch):\n    batch = {}\n    return default_collate(batch)"


@pytest.mark.parametrize(
    "function",
    [
        KEPT.format("list(filter(lambda b: b is not None, batch))"),
        KEPT.format("[b for b in batch if b is not None]"),
        KEPT.format("[b for b in batch if b is not None]\n    if len(batch) == 0:\n        return None"),
        KEPT.format("[b for b in batch if b is not None]\n    if not batch:\n        return"),
    ],
)
def test_a_mean_over_the_samples_that_are_left_is_reported(function: str) -> None:
    assert findings(collating(function)) == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize("kept", ["list(batch)", "[b for b in batch]", "sorted(batch, key=lambda b: b[1])"])
def test_a_mean_over_all_samples_in_a_list_is_not(kept: str) -> None:
    assert findings(collating(KEPT.format(kept))) == []


STACKED = "def collate(batch):\n    {}\n    xs, ys = zip(*batch)\n    return torch.stack(xs), torch.tensor(ys)"


@pytest.mark.parametrize(
    "line",
    [
        "batch = [b for b in batch if b[1] > 0]",
        "batch = batch[:10]",
        "batch = batch[1:]",
        "batch = batch[::2]",
        "batch.pop()",
        "del batch[0]",
    ],
)
def test_samples_that_a_share_leaves_out_are_reported(line: str) -> None:
    assert findings(collating(STACKED.format(line))) == ["LOSS-MASKMEAN"]
    listed = "return torch.stack([b[0] for b in batch]), torch.tensor([b[1] for b in batch])"
    assert findings(collating(f"def collate(batch):\n    {line}\n    {listed}")) == ["LOSS-MASKMEAN"]


@pytest.mark.parametrize("line", ["batch = batch[::-1]", "batch = batch[:]", "batch.sort(key=len)", "batch.reverse()"])
def test_samples_in_another_order_are_not(line: str) -> None:
    assert findings(collating(STACKED.format(line))) == []


STATISTIC = "def collate(batch):\n    x, y = default_collate(batch)\n    {}\n    return x, y"


@pytest.mark.parametrize(
    "statement",
    [
        "x = (x - x.mean(0)) / (x.std(0) + 1e-5)",
        "x = x - x.mean(0)",
        "x -= x.mean(dim=0)",
        "x = x / x.max()",
        "mean = x.mean(0)\n    x = x - mean",
    ],
)
def test_samples_less_the_mean_of_their_batch_are_reported(statement: str) -> None:
    assert findings(collating(STATISTIC.format(statement))) == ["LOSS-INBATCH"]
    stacked = STATISTIC.format(statement).replace("default_collate(batch)", "map(torch.stack, zip(*batch))")
    assert "LOSS-INBATCH" not in findings(collating(stacked.replace(statement, "x = x / 255")))


@pytest.mark.parametrize(
    "statement",
    ["x = (x - 0.5) / 0.5", "x = x / 255.0", "x /= 255", "x = x - x.mean(1, keepdim=True)", "x = x - MEAN"],
)
def test_samples_less_what_is_fixed_or_their_own_are_not(statement: str) -> None:
    assert findings(collating("MEAN = torch.arange(8.0)\n\n\n" + STATISTIC.format(statement))) == []


REPEATED = [
    "for x, y in batch:\n        for _ in range(2):\n            xs.append(x * 2)\n            ys.append(y)",
    "for x, y in batch:\n        for view in (x, x.flip(0)):\n            xs.append(view)\n        ys += [y, y]",
    "for x, y in batch:\n        xs.append(x)\n        xs.append(-x)\n        ys.extend([y] * 2)",
    "xs = [x * i for x, _ in batch for i in range(VIEWS)]\n    ys = [y for _, y in batch for _ in range(VIEWS)]",
    "for x, y in batch:\n        xs += [x * i for i in (1, 2)]\n        ys += [y for i in (1, 2)]",
]
DIFFERENT = [
    "for x, y in batch:\n        for _ in range(int(y) + 1):\n            xs.append(x)\n            ys.append(y)",
    "for x, y in batch:\n        times = len(xs) % 3\n        xs += [x] * times\n        ys += [y] * times",
    "for x, y in batch:\n        xs.append(x)\n        ys.append(y)\n        if y > 1:\n"
    "            xs.append(-x)\n            ys.append(y)",
    "xs = [x * i for x, y in batch for i in range(2) if y]\n    ys = [y for _, y in batch for _ in range(2) if y]",
    "for x, y in batch:\n        for _ in range(2):\n            if y == 0:\n                continue\n"
    "            xs.append(x)\n            ys.append(y)",
    "for x, y in batch:\n        if y == 0:\n            continue\n        xs.append(x)\n        ys.append(y)",
]


@pytest.mark.parametrize("filled", REPEATED)
def test_samples_that_are_repeated_equally_often_have_the_same_mean(filled: str) -> None:
    function = f"VIEWS = 3\n\n\ndef collate(batch):\n    xs, ys = [], []\n    {filled}\n"
    for made in ("torch.stack(xs), torch.tensor(ys)", "default_collate(list(zip(xs, ys)))"):
        assert "LOSS-MASKMEAN" not in findings(collating(f"{function}    return {made}"))


@pytest.mark.parametrize("filled", DIFFERENT)
def test_samples_that_are_repeated_more_often_than_others_are_reported(filled: str) -> None:
    function = f"def collate(batch):\n    xs, ys = [], []\n    {filled}\n    return torch.stack(xs), torch.tensor(ys)"
    assert findings(collating(function)) == ["LOSS-MASKMEAN"]
