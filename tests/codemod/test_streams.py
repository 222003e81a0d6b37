"""Decisions by chance, seeded, while the samples draw from the same generator in the same process."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import convert, findings, script

SEEDS = "torch.manual_seed(0)\nrandom.seed(0)"
PYTHON = "random.random()"
TORCH = "torch.rand(1).item()"
DATASET = """\
def jitter(x):
    return x * {drawn}


class Noisy(torch.utils.data.Dataset):
    def __init__(self, x):
        self.x = x
        self.shift = {once}

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return jitter(self.x[i]), i % 3
"""
NOISY = {"imports": "import random", "setup": SEEDS, "data": "data = Noisy(torch.ones(64, 8))"}
STEP = "if {coin} < 0.5:\n    optimizer.step()"
CROPS = {
    "from_imports": "from torchvision import datasets, transforms",
    "data": "data = datasets.CIFAR10('.', transform=transforms.Compose([{crop}, transforms.ToTensor()]))",
    "setup": SEEDS,
    "imports": "import random",
}


def noisy(drawn: str, once: str = "0") -> dict[str, str]:
    return {**NOISY, "definitions": DATASET.format(drawn=drawn, once=once)}


@pytest.mark.parametrize(
    "slots",
    [
        {**noisy(PYTHON), "step": STEP.format(coin=PYTHON)},
        {**noisy(PYTHON), "step": f"lucky = {PYTHON}\n{STEP.format(coin='lucky')}"},
        {**noisy(TORCH), "step": STEP.format(coin=TORCH)},
        {**noisy(PYTHON), "batch_end": f"if {PYTHON} < 0.1:\n    break"},
        {
            **noisy(PYTHON),
            "step": STEP.format(coin=PYTHON),
            "loader": "loader = DataLoader(data, batch_size=16, num_workers=0)",
        },
        {
            **NOISY,
            "data": "data = TensorDataset(torch.ones(64, 8), torch.arange(64) % 3)",
            "definitions": "def collate(batch):\n    random.shuffle(batch)\n    return torch.stack(batch)",
            "loader": "loader = DataLoader(data, batch_size=16, collate_fn=collate)",
            "step": STEP.format(coin=PYTHON),
        },
        {**{k: v.format(crop="transforms.RandomCrop(32)") for k, v in CROPS.items()}, "step": STEP.format(coin=TORCH)},
    ],
)
def test_samples_that_draw_from_the_stream_of_decisions(slots: dict[str, str]) -> None:
    assert "COLL-RANKFLOW" in findings(script(**slots))


@pytest.mark.parametrize(
    "slots",
    [
        {**noisy(TORCH), "step": STEP.format(coin=PYTHON)},
        {**noisy("2", once=PYTHON), "step": STEP.format(coin=PYTHON)},
        {**noisy(PYTHON), "step": STEP.format(coin="coins.random()"), "before": "coins = random.Random(0)"},
        {
            **noisy(PYTHON),
            "forward": f"optimizer.zero_grad()\nif {PYTHON} < 0.5:\n    x = x.flip(1)\nloss = model(x).mean()",
        },
        {
            **noisy(PYTHON),
            "step": STEP.format(coin=PYTHON),
            "loader": "loader = DataLoader(data, batch_size=16, num_workers=2)",
        },
        {**{k: v.format(crop="transforms.CenterCrop(32)") for k, v in CROPS.items()}, "step": STEP.format(coin=TORCH)},
        {**{k: v.format(crop="transforms.RandomCrop(32)") for k, v in CROPS.items()}, "step": STEP.format(coin=PYTHON)},
    ],
)
def test_streams_that_all_processes_draw_alike(slots: dict[str, str]) -> None:
    assert "COLL-RANKFLOW" not in findings(script(**slots))


PAIRS = """\
class Pairs(torch.utils.data.Dataset):
    def __init__(self, train):
        self.x = torch.ones(64, 8)
        self.train = train
        self.shift = {once}

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        {sample}
        return x, i % 3
"""
DECIDED = """\
model.eval()
total = 0.0
with torch.no_grad():
    for x, y in DataLoader(Pairs(False), batch_size=8):
        order = x[:, 0].sort()[1]
        total += F.cross_entropy(model(x.to(device)[order]), y.to(device)[order]).item()
model.train()
{end}"""


@pytest.mark.parametrize(
    ("sample", "once", "setup", "end", "severity"),
    [
        ("x = x * random.random()", "0", "pass", "if total > 9:\n    break", "error"),
        ("x = x + torch.rand(8)", "0", "pass", "if total > 9:\n    break", "error"),
        ("x = x * random.random()", "0", SEEDS, "if total > 9:\n    break", "warning"),
        ("x = x * random.random()", "0", "pass", "print(total)", ""),
        ("x = x * random.random() if self.train else x", "0", "pass", "if total > 9:\n    break", ""),
        ("if self.train:\n            x = x + torch.rand(8)", "0", "pass", "if total > 9:\n    break", ""),
        ("x = x * self.shift", "random.random()", "pass", "if total > 9:\n    break", ""),
        ("x = x * 2", "0", "pass", "if total > 9:\n    break", ""),
    ],
)
def test_a_decision_on_an_evaluation_whose_samples_draw(
    sample: str, once: str, setup: str, end: str, severity: str
) -> None:
    text = script(
        imports="import random",
        setup=setup,
        definitions=PAIRS.format(sample=sample, once=once),
        epoch_end=DECIDED.format(end=end),
    )
    plan = convert(text).plan
    assert plan is not None
    told = [f.severity.value for f in plan.findings if f.code == "COLL-RANKFLOW"]
    assert told == ([severity] if severity else [])


UNEVEN = {"setup": SEEDS, "imports": "import random", "data": "data = TensorDataset(torch.ones(70, 8), torch.ones(70))"}
EACH = "for i in range(len(x)):\n    if random.random() < 0.3:\n        x[i] = 0\n"
LOSS = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"
LIKE = "x = x + torch.randn_like(x)\n"
PERTURB = "for p in model.parameters():\n    p.data.add_(1e-3 * torch.randn_like(p))\noptimizer.step()"
RATE = "optimizer.step()\nif random.random() < 0.3:\n    optimizer.param_groups[0]['lr'] *= 0.5"


@pytest.mark.parametrize(
    ("drawn", "step", "told"),
    [
        (EACH, RATE, True),
        (EACH, STEP.format(coin=PYTHON), True),
        ("x = x + torch.randn(x.shape)\n", STEP.format(coin=TORCH), True),
        ("x = x + torch.randn(len(x), 1)\n", STEP.format(coin=TORCH), True),
        (LIKE, PERTURB, True),
        ("", PERTURB, False),  # every process draws the same
        ("", RATE, False),
        ("x = x + torch.randn(8)\n", STEP.format(coin=TORCH), False),  # as many on every process
        (LIKE, STEP.format(coin=TORCH), False),  # a GPU has a generator of its own
        (EACH, STEP.format(coin=TORCH), False),
        (EACH, PERTURB, False),
    ],
)
def test_what_is_drawn_for_a_share_moves_the_generator(drawn: str, step: str, told: bool) -> None:
    text = script(**UNEVEN, forward=drawn + LOSS, step=step)
    assert ("COLL-RANKFLOW" in findings(text)) is told


def test_shares_of_one_size_move_the_generator_alike() -> None:
    even = {**UNEVEN, "data": "data = TensorDataset(torch.ones(64, 8), torch.ones(64))"}
    assert "COLL-RANKFLOW" not in findings(script(**even, forward=LIKE + LOSS, step=PERTURB))


OWN = {**UNEVEN, "before": "rng = random.Random(0)\nother = random.Random(1)\ng = torch.Generator().manual_seed(0)"}


@pytest.mark.parametrize(
    ("drawn", "coin", "told"),
    [
        (EACH.replace("random.random", "rng.random"), "rng.random()", True),
        ("x = x + torch.randn(x.shape, generator=g)\n", "torch.rand(1, generator=g).item()", True),
        (EACH.replace("random.random", "rng.random"), "other.random()", False),
        ("x = x + torch.randn(x.shape)\n", "torch.rand(1, generator=g).item()", False),
    ],
)
def test_generators_of_the_script(drawn: str, coin: str, told: bool) -> None:
    text = script(**OWN, forward=drawn + LOSS, step=STEP.format(coin=coin))
    assert ("COLL-RANKFLOW" in findings(text)) is told
