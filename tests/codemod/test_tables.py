"""TABLE: what a training loop writes entries of, of its own share, and trains by later."""

from __future__ import annotations

import pytest
from scripts import REBOUND, converted, findings, lifted, script, severities

ZERO = "optimizer.zero_grad()\nout = model(x)\n"
CENTRES = {
    "before": "centres = torch.zeros(3, 3, device=device)",
    "forward": f"{ZERO}loss = (out - centres[y]).pow(2).sum(1).mean()",
}
INDEXED = {
    "data": "data = TensorDataset(torch.ones(64, 8), torch.arange(64) % 3, torch.arange(64))",
    "loop": "for x, y, i in loader:",
    "before": "scores = torch.ones(64)",
    "forward": f'{ZERO}per = F.cross_entropy(out, y, reduction="none")\nloss = per.mean()',
}
REFINED = """\
class Refined(torch.utils.data.Dataset):
    def __init__(self):
        self.targets = torch.ones(64, 3)

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.ones(8), self.targets[i], i

    def update(self, places, out):
        {}
"""
DEALT = {
    **INDEXED,
    "definitions": REFINED.format("self.targets[places] = 0.9 * self.targets[places] + 0.1 * out"),
    "data": "data = Refined()",
    "forward": f"{ZERO}loss = F.mse_loss(out, y)",
}


@pytest.mark.parametrize(
    "write",
    [
        "for k in range(3):\n    if (y == k).any():\n"
        "        centres[k] = 0.9 * centres[k] + 0.1 * out.detach()[y == k].mean(0)",
        "centres[y] = out.detach()",
        "centres[0] += out.detach().std(0)",
        "centres[y] += 1",
        "centres.mul_(0.9).add_(0.1 * out.detach().mean(0))",
        "centres.index_add_(0, y, out.detach())",
        "centres[0].lerp_(out.detach().mean(0), 0.1)",
        "centres.index_copy_(0, y, out.detach())",
        "means = out.detach().std(0)\ncentres[0] = means",
        "means = out.detach().mean(0)\ncentres[y[0]] += means",
        "means = out.detach().mean(0)\nmeans = means * y[0]\ncentres[0] = means",
    ],
)
def test_what_a_later_loss_is_measured_from_is_reported(write: str) -> None:
    assert findings(script(**CENTRES, batch_end=write)).count("TABLE-OWN") == 1


@pytest.mark.parametrize(
    "write", ["seen = np.append(seen, y.cpu().numpy())", "np.append(seen, y.cpu().numpy())", "F.relu_(out)"]
)
def test_a_module_is_no_table(write: str) -> None:
    """Though the training loop calls its functions."""
    slots = {
        "imports": "import numpy as np",
        "before": "seen = np.array([])",
        "forward": f"{ZERO}loss = F.cross_entropy(out, y) * float(np.ones(1)[0])",
    }
    assert "TABLE-OWN" not in findings(script(**slots, batch_end=write, after="print(seen)"))


def test_what_is_averaged_over_all_processes_is_none_of_a_share() -> None:
    text = script(**CENTRES, batch_end="centres[0] += out.detach().mean(0)")
    assert "centres[0] += accelerator.batch_mean(out.detach().mean(0))" in converted(text)
    assert "TABLE-OWN" not in findings(text)
    text = script(**CENTRES, batch_end="means = out.detach().mean(0)\ncentres[0] = means")
    assert "means = accelerator.batch_mean(out.detach().mean(0))" in converted(text)
    assert "TABLE-OWN" not in findings(text)


KEYS = {
    "before": "keys = torch.randn(3, 32).to(device)",
    "forward": f"{ZERO}loss = F.cross_entropy(torch.cat([out, out @ keys], 1), y)",
}
MEANS = {
    "before": "centre = torch.zeros(3).to(device)",
    "forward": f"{ZERO}loss = F.cross_entropy(out - centre, y)",
}
KEPT = {
    "before": "kept = []",
    "forward": f"{ZERO}kept.append(out.detach())\nloss = F.cross_entropy(out - torch.cat(kept).mean(0), y)",
}


@pytest.mark.parametrize(
    "slots",
    [
        {**KEYS, "batch_end": "keys = torch.cat([keys, out.detach().T], 1)\nkeys = keys[:, len(out):]"},
        {**KEYS, "batch_end": "more = torch.cat([keys, out.detach().T], 1)\nkeys = more[:, len(out):]"},
        {**MEANS, "batch_end": "centre.mul_(0.9).add_(out.detach().mean(0))"},
        {**MEANS, "batch_end": "centre += 0.1 * out.detach()[0]"},
        KEPT,
        {**KEPT, "batch_end": "if len(kept) > 8:\n    kept.pop(0)"},
    ],
)
def test_what_an_iteration_joins_to_what_is_there_is_reported(slots: dict[str, str]) -> None:
    assert findings(script(**slots)).count("TABLE-OWN") == 1


ACCUMULATED = "if i % 4 == 3:\n    total.backward()\n    optimizer.step()\n    total = 0"


@pytest.mark.parametrize(
    "slots",
    [
        KEYS,
        {**KEYS, "batch_end": "keys = keys * 0.9"},
        {**KEYS, "batch_end": "keys = torch.cat([keys[:, 1:], model.layer.bias.detach()[:, None]], 1)"},
        {**KEYS, "batch_end": "shown = torch.cat([keys, out.detach().T], 1)\nprint(shown.mean())"},
        {**MEANS, "batch_end": "seen = 0\nseen += out.detach().mean().item()\nprint(seen)"},
        {
            "before": "total = 0",
            "loop": "for i, (x, y) in enumerate(loader):",
            "forward": "total = total + F.cross_entropy(model(x), y)",
            "backward": ACCUMULATED,
            "step": "",
        },
        {
            "before": "total = 0",
            "loop": "for i, (x, y) in enumerate(loader):",
            "forward": "total += F.cross_entropy(model(x), y)",
            "backward": ACCUMULATED,
            "step": "",
        },
        {
            "before": "out = None",
            "forward": f"{ZERO}out = out * 2\nloss = F.cross_entropy(out, y)",
        },
        {  # of a batch before the loop
            "before": "first = next(iter(loader))[0].to(device)\nclose = model(first).argmax(1)[0]",
            "forward": "close = (close + 1) % 3\noptimizer.zero_grad()\nloss = F.cross_entropy(model(x) * close, y)",
        },
        {**KEPT, "batch_end": "kept.clear()"},
        {**KEPT, "batch_end": "kept = []"},
        {"before": "losses = []", "batch_end": "losses.append(loss.item())\nprint(sum(losses))"},
    ],
)
def test_what_begins_anew_or_trains_nothing_is_not(slots: dict[str, str]) -> None:
    assert "TABLE-OWN" not in findings(script(**slots))


@pytest.mark.parametrize(
    "slots",
    [
        {
            "epoch": "sampler = torch.utils.data.WeightedRandomSampler(scores, 64)\n"
            "loader = DataLoader(data, batch_size=16, sampler=sampler)",
            "batch_end": "scores[i] = per.detach().cpu() + 0.001",
        },
        {
            "epoch": "order = scores.argsort(descending=True)[:48]\n"
            "loader = DataLoader(torch.utils.data.Subset(data, order.tolist()), batch_size=16)",
            "batch_end": "scores[i] = per.detach().cpu()",
        },
    ],
)
def test_what_samples_are_dealt_by_is_reported(slots: dict[str, str]) -> None:
    assert "TABLE-OWN" in findings(script(**INDEXED, **slots))


STEPS = """\
class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x, state):
        state = self.cell(x, state)
        return self.out(state), state
"""


@pytest.mark.parametrize(
    ("update", "reported"),
    [
        ("out, state = model(x, state.detach())", 0),  # a row for each sample, which stays in its process
        ("state = state.detach()\nout, state = model(x, state)", 0),
        ("out, new = model(x, state)\nstate = torch.cat([state, new.detach()])[-16:]", 1),
    ],
)
def test_the_state_of_a_network_is_none(update: str, reported: int) -> None:
    slots = {
        "definitions": STEPS,
        "model": "model = Steps().to(device)",
        "epoch": "state = torch.zeros(16, 8).to(device)",
        "forward": f"{ZERO}{update}\nloss = F.cross_entropy(out, y)",
    }
    assert findings(script(**slots)).count("TABLE-OWN") == reported


def test_a_data_set_that_is_refined() -> None:
    update = "data.update(i, out.detach().cpu())"
    assert "TABLE-OWN" in findings(script(**DEALT, batch_end=update))
    assert "TABLE-OWN" in findings(script(**DEALT, batch_end="data.targets[i] = out.detach().cpu()"))
    assert "TABLE-OWN" not in findings(script(**DEALT, batch_end="data.update(0, torch.ones(3))"))
    assert "TABLE-OWN" not in findings(script(**DEALT, epoch_end="data.update(0, torch.ones(3))"))
    shown = {**DEALT, "definitions": REFINED.format("seen = {}\n        seen[0] = out")}
    assert "TABLE-OWN" not in findings(script(**shown, batch_end=update))


@pytest.mark.parametrize(
    "slots",
    [
        {**CENTRES},
        {**CENTRES, "batch_end": "centres[0] = 1.0"},
        {**CENTRES, "batch_end": "centres[0] = model.layer.bias.detach()"},
        {**CENTRES, "batch_end": "centres[len(x) % 3] += 1"},
        {"before": "seen = torch.zeros(3)", "batch_end": "seen[y] += 1\nprint(seen)"},
        {"before": "history = {}", "batch_end": 'history["loss"] = loss.item()'},
        {
            "before": "given = torch.zeros(16, 8, device=device)",
            "forward": "optimizer.zero_grad()\ngiven[:] = x\nloss = F.cross_entropy(model(given), y)",
        },
        {
            "forward": "optimizer.zero_grad()\nmasked = x.clone()\nmasked[:, 0] = y\n"
            "loss = F.cross_entropy(model(masked), y)"
        },
        {**INDEXED, "batch_end": "scores[i] = per.detach().cpu()", "after": "print(scores.mean())"},
    ],
)
def test_what_is_only_kept_or_shown_is_not(slots: dict[str, str]) -> None:
    assert "TABLE-OWN" not in findings(script(**slots))


def test_nothing_is_changed() -> None:
    slots = {**CENTRES, "batch_end": "centres[y] = out.detach()"}
    assert converted(script(**slots)) == lifted(**slots, device=REBOUND)


POOL = """\
class Pool:
    def __init__(self):
        self.rows = []
        self.scale = [2.0]

    def empty(self):
        {empty}

    def query(self, rows):
        found = []
        for row in rows:
            {put}
            found.append({row} * self.scale[0])
        return torch.stack(found)

    def put(self, rows):
        self.rows.extend(rows)

    def sample(self):
        return torch.stack(self.rows[:16])"""
FILLED = {"put": "self.rows.append(row)", "row": "self.rows[0]", "empty": "pass"}
ASKED = {"before": "pool = Pool()", "forward": f"{ZERO}old = pool.query(x)\nloss = F.cross_entropy(model(old), y)"}
PUT = f"{ZERO}pool.put(x)\nold = pool.sample()\nloss = model(old).mean()"


@pytest.mark.parametrize(
    ("pool", "slots", "told"),
    [
        ({}, ASKED, True),
        ({}, ASKED | {"forward": PUT}, True),
        ({}, ASKED | {"before": "for pool in (Pool(), Pool()):\n    print(pool)"}, True),
        ({"row": "row"}, ASKED | {"before": "for pool in (Pool(), Pool()):\n    print(pool)"}, False),
        ({"put": "self.rows = self.rows + [row]"}, ASKED, True),
        ({"row": "row"}, ASKED, False),  # what it keeps is not given back
        ({"put": "pass", "row": "torch.ones(8)"}, ASKED, False),
        ({"put": "self.rows = [row]"}, ASKED, False),  # of this batch
        ({"empty": "self.rows = []"}, ASKED, False),  # perhaps for each batch
        ({"empty": "self.rows.clear()"}, ASKED, False),
        ({}, ASKED | {"forward": f"{ZERO}old = pool.query(x)\nloss = F.cross_entropy(out, y)"}, False),
    ],
)
def test_objects_that_give_back_earlier_samples(pool: dict[str, str], slots: dict[str, str], told: bool) -> None:
    text = script(definitions=POOL.format(**FILLED | pool), **slots)
    assert ("TABLE-OWN" in findings(text)) == told


RUNS = """\
class Runs:
    def __init__(self):
        self.mean, self.rows = 0.0, []

    def update(self, rows):
        {put}

    def __call__(self, rows):
        return rows - {given}"""


@pytest.mark.parametrize(
    ("put", "given", "told"),
    [
        ("self.mean += 0.1 * (rows.mean(0) - self.mean)", "self.mean", ["warning"]),
        ("mean = rows.mean(0)\n        self.mean = 0.9 * self.mean + 0.1 * mean", "self.mean", ["warning"]),
        ("self.rows += [rows]", "self.rows[0]", ["note"]),
        ("self.rows = self.rows + [rows]", "self.rows[0]", ["note"]),
        ("self.mean += 0.1 * (rows.mean(0) - self.mean)", "1", []),
    ],
)
def test_what_runs_on_with_each_batch_is_no_draw_of_samples(put: str, given: str, told: list[str]) -> None:
    forward = f"{ZERO}runs.update(x)\nx = runs(x)\nloss = F.cross_entropy(model(x), y)"
    text = script(definitions=RUNS.format(put=put, given=given), before="runs = Runs()", forward=forward)
    assert severities(text, "TABLE-OWN") == told


@pytest.mark.parametrize(
    ("write", "told"),
    [
        ("kept['a'] = F.cross_entropy(out, y)\nkept['b'] = out.abs().mean()\nloss = kept['a'] + kept['b']", False),
        ("loss = F.cross_entropy(out, y) + kept['b'].sum()\nkept['a'] = out.detach().std(0)", False),
        ("loss = F.cross_entropy(out, y) + kept['a'].sum()\nkept['a'] = out.detach().std(0)", True),
        ("loss = F.cross_entropy(out, y) + kept[name].sum()\nkept['a'] = out.detach().std(0)", True),
    ],
)
def test_entries_that_every_iteration_writes_before_it_reads_them(write: str, told: bool) -> None:
    kept = "kept = {'a': torch.zeros(3, device=device), 'b': torch.zeros(3, device=device)}\nname = input()"
    assert ("TABLE-OWN" in findings(script(before=kept, forward=f"{ZERO}{write}"))) is told


CACHED = "if epoch == 0:\n    t = x * 2\n    {}\nelse:\n    t = torch.stack([cache[j] for j in i.tolist()])\n"
PUTS = "for j, v in zip(i.tolist(), t.cpu()):\n        cache[j] = v"


@pytest.mark.parametrize(
    ("forward", "reported"),
    [
        (CACHED.format(PUTS), 1),  # in the next epoch, other samples are in the share
        (CACHED.replace("else:\n    ", "").format(PUTS), 1),
        (CACHED.replace("epoch == 0", "len(cache) < 64").format(PUTS), 0),
        (CACHED.replace("epoch == 0", "train").format(PUTS), 0),
        (PUTS.replace("\n        ", "\n    ").replace("t.cpu()", "x") + "\nt = torch.stack([*cache.values()])\n", 0),
    ],
)
def test_a_dict_that_some_epochs_fill_is_reported(forward: str, reported: int) -> None:
    loss = "optimizer.zero_grad()\nloss = F.cross_entropy(model(t), y)"
    slots = {**INDEXED, "before": "cache, train = {}, True", "forward": forward + loss}
    assert findings(script(**slots)).count("TABLE-OWN") == reported
