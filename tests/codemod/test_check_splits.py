"""`accelift check` of random splits: they are one split only if every process is seeded alike before."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script

RANDOM = {"from_imports": "from torch.utils.data import random_split", "imports": "import random"}
SKLEARN = {"from_imports": "from sklearn.model_selection import train_test_split", "imports": "import random"}
SEED = "from accelerate.utils import set_seed\n"
SPLIT = "part, rest = random_split(data, [50, 14])"
CUT = """\
order = torch.randperm(64)
data = TensorDataset(torch.arange(512.0).view(64, 8)[order[:50]], order[:50] % 3){mark}
rest = order[50:]
"""
SHUFFLED = """\
names = list(range(64))
random.shuffle(names)
data = [(torch.arange(8.0) * n, n % 3) for n in names[:50]]{mark}
rest = names[50:]
"""
TABLE = {"from_imports": "from datasets import load_dataset", "setup": "table = load_dataset('csv')['train']"}


def seeded(seed: str, split: str = SPLIT, after: str = "", mark: str = "") -> str:
    return script(**{**RANDOM, "from_imports": SEED + RANDOM["from_imports"]}, before=f"{seed}\n{split}{mark}\n{after}")


REPORTED = [
    seeded("set_seed(0, device_specific=True)", mark="  # HERE"),
    seeded("set_seed(3 + accelerator.process_index)", mark="  # HERE"),
    seeded("", after="set_seed(0)", mark="  # HERE"),
    seeded("random.seed(0)", mark="  # HERE"),  # Python's generator
    seeded("if accelerator.is_main_process:\n    set_seed(0)", mark="  # HERE"),
    seeded("torch.backends.cudnn.deterministic = True", mark="  # HERE"),
    seeded("seed = 3", mark="  # HERE"),
    script(**SKLEARN, before="torch.manual_seed(3)\na, b = train_test_split(range(64))  # HERE"),
    script(data=CUT.format(mark="  # HERE").replace("order[:50] % 3", "order % 3")),
    script(imports="import random", data=SHUFFLED.format(mark="  # HERE")),
    script(**TABLE, before="parts = table.train_test_split(test_size=0.2)  # HERE"),
]
SILENT = [
    seeded("set_seed(0)"),
    seeded("set_seed(0, device_specific=False)"),
    seeded("import sys\nset_seed(0, device_specific=len(sys.argv) > 1)"),
    seeded("def prepare_chance():\n    torch.manual_seed(0)\nprepare_chance()"),
    seeded("import project\nproject.make_deterministic()"),
    seeded("import project\nproject.configure(seed=3)"),
    seeded("", split="part, rest = random_split(data, [50, 14], generator=torch.Generator().manual_seed(0))"),
    script(**SKLEARN, before="import numpy\nnumpy.random.seed(3)\na, b = train_test_split(range(64))"),
    script(setup="torch.manual_seed(0)", data=CUT.format(mark="")),
    script(data=CUT.format(mark="").replace("order[50:]", "order[60:]")),  # no parts of one whole
    script(batch_end="order = torch.randperm(16)\na, b = x[order[:8]], x[order[8:]]"),
    script(imports="import random", data="random.seed(0)\n" + SHUFFLED.format(mark="")),
    script(**TABLE, before="parts = table.train_test_split(test_size=0.2, seed=3)"),
    script(**TABLE, before="parts = table.train_test_split(test_size=0.2, shuffle=False)"),
]


@pytest.mark.parametrize("text", REPORTED)
def test_splits_that_differ_are_reported(text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, "DATA-SPLIT-UNSEEDED")] == marked(text)


@pytest.mark.parametrize("text", SILENT)
def test_splits_that_may_be_one_are_not(text: str) -> None:
    assert findings(text, "DATA-SPLIT-UNSEEDED") == []


def test_samplers_too() -> None:
    sampler = "loader = DataLoader(data, batch_size=16, sampler=SubsetRandomSampler(torch.randperm(64)[:48]))"
    slots = {"from_imports": "from torch.utils.data import SubsetRandomSampler", "loader": sampler}
    assert len(findings(script(**slots, setup="seed = 3"), "DATA-SAMPLER-RNG")) == 1
    assert findings(script(**slots, setup="torch.manual_seed(3)"), "DATA-SAMPLER-RNG") == []
