"""Settings of the training that each process would draw for itself."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script, severities

MADE = {"imports": "import random\nimport numpy as np"}
SIZED = "model = nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(hidden, 3)).to(device)"
WITH = "optimizer = torch.optim.SGD(model.parameters(), lr={})"
GROUPS = "optimizer = torch.optim.SGD([{{'params': model.parameters(), 'lr': {}}}])"
PLATEAU = "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
NOISY = {"forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(x + torch.randn_like(x)), y)"}
KEPT, STEPS = "total += loss.item()", "plateau.step(total / len(loader))"
LISTED = (
    "class Listed(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.all = {}\n\nListed()"
)
RATE = "10 ** np.random.uniform(-4, -1)"


@pytest.mark.parametrize(
    "slots",
    [
        pytest.param({"optimizer": WITH.format(RATE)}, id="rate"),
        pytest.param({"optimizer": GROUPS.format(RATE)}, id="rate of a group"),
        pytest.param({"optimizer": f"rate = {RATE}\n" + WITH.format("rate")}, id="rate in a variable"),
        pytest.param({"optimizer": f"c = {{'rate': {RATE}}}\n" + WITH.format("c['rate']")}, id="rate in a dict"),
        pytest.param({"epoch": f"for group in optimizer.param_groups:\n    group['lr'] = {RATE}"}, id="rate, set"),
        pytest.param({"setup": "hidden = random.choice([16, 32])", "model": SIZED}, id="size of a layer"),
        pytest.param({"loader": "loader = DataLoader(data, batch_size=random.choice([8, 16]))"}, id="size of batches"),
        pytest.param({"batch_end": "model.layer.requires_grad_(random.random() < 0.5)"}, id="frozen"),
        pytest.param(
            {"before": "steps = torch.optim.lr_scheduler.StepLR(optimizer, random.randint(1, 5))"}, id="schedule"
        ),
        pytest.param(
            {
                "before": "criterion = nn.CrossEntropyLoss(label_smoothing=random.uniform(0, 0.2))",
                "forward": "optimizer.zero_grad()\nloss = criterion(model(x), y)",
            },
            id="loss",
        ),
    ],
)
def test_told_of(slots: dict[str, str]) -> None:
    assert severities(script(**MADE, **slots), "COLL-RANKFLOW") == ["error"]
    seed = "torch.manual_seed(0)\nnp.random.seed(0)\nrandom.seed(0)\n"
    seeded = {**slots, "setup": seed + slots.get("setup", "")}
    assert "COLL-RANKFLOW" not in findings(script(**MADE, **seeded))


def test_in_a_function() -> None:
    text = script(**MADE, definitions="def made(rate):\n    return torch.optim.SGD(model.parameters(), lr=rate)")
    told = text.replace("torch.optim.SGD(model.parameters(), lr=0.1)", f"made({RATE})")
    assert severities(told, "COLL-RANKFLOW") == ["error"]


@pytest.mark.parametrize(
    "slots",
    [
        pytest.param({"setup": "run = random.randint(0, 99)", "after": "print(f'run {run}')"}, id="name"),
        pytest.param({"before": "nn.init.uniform_(model.layer.weight, -random.random(), 1)"}, id="weights"),
        pytest.param(
            {"before": "model.layer.weight = nn.Parameter(torch.tensor(np.random.rand(3, 8)).float())"}, id="parameter"
        ),
        pytest.param({"forward": "loss = random.random() * F.cross_entropy(model(x), y)"}, id="noise in each step"),
        pytest.param({"forward": "loss = F.cross_entropy(nn.Dropout(random.random())(model(x)), y)"}, id="noise"),
        pytest.param(
            {"before": PLATEAU, "epoch": "total = 0", **NOISY, "batch_end": KEPT, "epoch_end": STEPS},
            id="noise that a loss has",
        ),
        pytest.param(
            {
                "before": PLATEAU,
                "epoch": "total = 0",
                "forward": "weight = np.random.beta(1, 1)\nloss = weight * F.cross_entropy(model(x), y)",
                "batch_end": KEPT,
                "epoch_end": STEPS,
            },
            id="a weight that a loss has",
        ),
        pytest.param(
            {"definitions": LISTED.format("nn.ParameterList([nn.Parameter(torch.randn(3)) for _ in range(2)])")},
            id="a list of parameters",
        ),
        pytest.param(
            {"definitions": LISTED.format("nn.ParameterDict({'a': nn.Parameter(torch.randn(3))})")}, id="a dict of them"
        ),
        pytest.param(
            {"model": "model = nn.Sequential(nn.Embedding(9, 3, _weight=torch.randn(9, 3)), Net())"}, id="weight"
        ),
        pytest.param(
            {
                "setup": "labels = np.arange(64)[np.random.permutation(64)] % 3",
                "model": "model = nn.Linear(8, int(labels.max()) + 1).to(device)",
            },
            id="the order of labels",
        ),
        pytest.param(
            {
                "setup": "sizes = [part.shape[1] for part in [torch.randn(2, 8)]]",
                "model": "model = nn.ModuleList([nn.Linear(size, 3) for size in sizes])[0].to(device)",
            },
            id="how large it is",
        ),
    ],
)
def test_no_settings(slots: dict[str, str]) -> None:
    assert "COLL-RANKFLOW" not in findings(script(**MADE, **slots))
