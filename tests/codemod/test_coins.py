"""Drawn numbers that decide what a network computes: which inputs it gets, which of its layers run."""

from __future__ import annotations

import pytest
from scripts import findings, script, severities

IMPORTS = "import random\nimport numpy as np"
NET = """\
class Told(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.more = nn.Linear(3, 3)
        self.all = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, x, y=None, hard=False):
        x = self.layer(x)
        {}
        return x


def run(net, x, y):
    return net(x, y)
"""
SEED = "random.seed(0)\nnp.random.seed(0)\ntorch.manual_seed(0)"


def told(layers: str = "x = self.more(x)", setup: str = "", **slots: str) -> bool:
    model = {"definitions": NET.format(layers.replace("\n", "\n        ")), "model": "model = Told().to(device)"}
    return "COLL-RANKFLOW" in findings(script(imports=IMPORTS, setup=setup, **model, **slots))


def step(before: str, call: str) -> dict[str, str]:
    return {"forward": f"{before}\noptimizer.zero_grad()\nloss = F.cross_entropy({call}, y)"}


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("t = y\nif np.random.random() < 0.1:\n    t = None", "model(x, t)"),
        ("t = y\nif random.random() < 0.1:\n    t = None", "run(model, x, t)"),
        ("t = y\nif torch.rand(1).item() < 0.1:\n    t = None", "model(x, y=t)"),
        ("hard = False\nif random.random() < 0.1:\n    hard = True", "model(x, hard=hard)"),
        ("t = y if random.random() > 0.1 else None", "model(x, t)"),
        ("", "model(x, y if random.random() > 0.1 else None)"),
    ],
)
def test_inputs_that_a_drawn_number_leaves_out(before: str, call: str) -> None:
    assert told(**step(before, call))
    assert not told(setup=SEED, **step(before, call))


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("t = y\nif np.random.random() < 0.1:\n    t = y.flip(0)", "model(x, t)"),  # other numbers, the same layers
        ("if random.random() < 0.5:\n    x = x + 0.1", "model(x)"),
        ("x = x * (torch.rand(len(x), 1) < 0.9)", "model(x)"),
        ("t = y\nif random.random() < 0.1:\n    t = None", "model(x)"),
        ("t = y\nif x.dim() > 2:\n    t = None", "model(x, t)"),
        ("shown = None if random.random() > 0.1 else y", "model(x)"),
    ],
)
def test_what_all_layers_get_in_one_way_or_another(before: str, call: str) -> None:
    assert not told(**step(before, call))


@pytest.mark.parametrize(
    "layers",
    [
        "if random.random() < 0.5:\n    x = self.more(x)",
        "if torch.rand(1) < 0.5:\n    return x\nx = self.more(x)",
        "for layer in self.all:\n    if self.training and random.random() < 0.5:\n        continue\n    x = layer(x)",
        "if np.random.rand() > 0.5:\n    x = self.more(x)\nelse:\n    x = self.all[0](x)",
        "for i in range(2):\n    if random.random() < 0.5:\n        x = self.all[i](x)",
    ],
)
def test_layers_that_a_drawn_number_leaves_out(layers: str) -> None:
    assert told(layers)
    assert not told(layers, setup=SEED)


@pytest.mark.parametrize(
    "layers",
    [
        "if random.random() < 0.5:\n    x = -x\nx = self.more(x)",
        "if random.random() < 0.5:\n    x = self.more(x)\nelse:\n    x = -self.more(x)",
        "if hard:\n    x = self.more(x)",
        "x = x * (torch.rand(len(x), 1) < 0.5)",
    ],
)
def test_layers_that_run_whatever_is_drawn(layers: str) -> None:
    assert not told(layers)


@pytest.mark.parametrize(
    ("test", "expected"),
    [("sum(kept) < 3", True), ("True in kept", True), ("len(kept) < 3", False), ("sum(others) < 3", False)],
)
def test_what_is_drawn_for_each_row_and_put_into_a_list(test: str, expected: bool) -> None:
    draws = "kept, others = [], [epoch]\nfor _ in range(len(x)):\n    kept.append(random.random() < 0.5)"
    skip = f"{draws}\nif {test}:\n    continue"
    slots = {"imports": "import random", "move": f"x, y = x.to(device), y.to(device)\n{skip}"}
    assert severities(script(**slots), "COLL-RANKFLOW") == (["error"] if expected else [])
    # Seeded, all processes decide alike, but by as many draws as a share has rows.
    assert severities(script(**slots, setup=SEED), "COLL-RANKFLOW") == (["warning"] if expected else [])


@pytest.mark.parametrize(
    ("draws", "test", "expected"),
    [
        ("kept = [random.random() < 0.5 for _ in x]", "sum(kept) < 3", True),
        ("kept = [random.random() < 0.5 for _ in range(len(x))]", "True not in kept", True),
        ("kept = [random.random() < 0.5 for _ in range(8)]", "sum(kept) < 3", False),
        ("kept = random.random()", "kept < 0.5", False),
        ("kept = [random.random() < 0.5 for _ in x]", "epoch > 3", False),
        ("kept = [random.random() < 0.5 for _ in x]", "len(kept) < 3", False),
    ],
)
def test_what_is_drawn_for_each_row_of_a_share(draws: str, test: str, expected: bool) -> None:
    move = f"x, y = x.to(device), y.to(device)\n{draws}\nif {test}:\n    {{}}"
    text = script(imports="import random", setup=SEED, move=move.format("continue"))
    assert severities(text, "COLL-RANKFLOW") == (["warning"] if expected else [])
    shown = script(imports="import random", setup=SEED, move=move.format("print(epoch)"))
    assert severities(shown, "COLL-RANKFLOW") == []


def test_what_is_drawn_and_decides_for_one_row() -> None:
    rows = "for row in x:\n    if random.random() < 0.5:\n        continue\n    row.add_(1)"
    assert not told(move=f"x, y = x.to(device), y.to(device)\n{rows}", setup=SEED)
