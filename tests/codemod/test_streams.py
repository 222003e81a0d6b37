"""Decisions by chance, seeded, while the samples draw from the same generator in the same process."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script

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
