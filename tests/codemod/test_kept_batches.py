"""KEPT: training on batches whose shares are not known any more, or are those of several loaders."""

from __future__ import annotations

import pytest
from accelift_codemod.plan import Severity
from scripts import NO_LOOP, TRAINS, convert, converted, findings, script

DROPPING = "loader = DataLoader(data, batch_size=16, shuffle=True, drop_last=True)"
SECOND = "other = DataLoader(data, batch_size=16, shuffle=True)"
LARGER = "other = DataLoader(data, batch_size=32, shuffle=True)"
LARGER_DROPPING = "other = DataLoader(data, batch_size=32, shuffle=True, drop_last=True)"
PAIR = "for (x, y), (u, v) in zip(loader, other):"
BOTH = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y) + F.cross_entropy(model(u), v)"
PLAIN = "loader = DataLoader(data, batch_size=16, shuffle=True)"


def severities(text: str, code: str) -> list[Severity]:
    result = convert(text)
    assert result.plan is not None
    return [f.severity for f in result.plan.findings if f.code == code]


@pytest.mark.parametrize(
    "slots",
    [
        {"before": "batches = list(loader)", "loop": "for x, y in batches:"},
        {"before": "batches = list(loader)", "loop": "for i, (x, y) in enumerate(batches):"},
        {"loop": "for x, y in list(loader):"},
        {"imports": "import itertools", "loop": "for x, y in itertools.islice(itertools.cycle(loader), 9):"},
        {
            "imports": "import itertools",
            "before": "stream = itertools.cycle(loader)",
            "loop": "for step in range(9):",
            "move": "x, y = next(stream)",
        },
    ],
)
def test_batches_that_are_kept_are_reported(slots: dict[str, str]) -> None:
    assert findings(script(**slots)).count("DATA-KEPT") == 1
    assert severities(script(**slots), "DATA-KEPT") == [Severity.WARNING]
    assert severities(script(loader=DROPPING, **slots), "DATA-KEPT") == [Severity.NOTE]


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"loop": "for i, (x, y) in enumerate(loader):"},
        {"imports": "import itertools", "loop": "for x, y in itertools.islice(loader, 3):"},
        {"before": "stream = iter(loader)", "loop": "for step in range(4):", "move": "x, y = next(stream)"},
        {"before": "names = list(range(3))"},
        {"after": "held = list(DataLoader(data, batch_size=16))\nfor x, y in held:\n    print(x.shape)"},
    ],
)
def test_batches_that_are_trained_on_as_they_come_are_not(slots: dict[str, str]) -> None:
    assert "DATA-KEPT" not in findings(script(**slots))


@pytest.mark.parametrize(
    ("loaders", "severity"),
    [
        (f"{PLAIN}\n{LARGER}", Severity.WARNING),
        (f"{DROPPING}\n{LARGER}", Severity.WARNING),
        (f"{DROPPING}\n{LARGER_DROPPING}", Severity.NOTE),
        (
            f"more = TensorDataset(torch.ones(40, 8), torch.arange(40) % 3)\n{PLAIN}\n{SECOND}".replace(
                "other = DataLoader(data", "other = DataLoader(more"
            ),
            Severity.WARNING,
        ),
    ],
)
def test_loaders_that_may_deal_other_shares_are_reported(loaders: str, severity: Severity) -> None:
    text = script(loader=loaders, loop=PAIR, move="", forward=BOTH)
    assert severities(text, "DATA-MIXED") == [severity]
    drawn = "first, second = iter(loader), iter(other)"
    move = "x, y = next(first)\nu, v = next(second)"
    text = script(loader=loaders, epoch=drawn, loop="for step in range(2):", move=move, forward=BOTH)
    assert severities(text, "DATA-MIXED") == [severity]


@pytest.mark.parametrize(
    "slots",
    [
        {"loader": f"{PLAIN}\n{SECOND}", "loop": PAIR, "move": "", "forward": BOTH},
        {
            "loader": f"{DROPPING}\n{LARGER_DROPPING}".replace("32", "16"),
            "loop": PAIR,
            "move": "",
            "forward": BOTH,
        },
        {
            "loader": f"{PLAIN}\n{LARGER}",
            "epoch": "first, second = iter(loader), iter(other)",
            "loop": "for step in range(2):",
            "move": "x, y = next(first)",
            "step": "optimizer.step()\nu, v = next(second)\noptimizer.zero_grad()\n"
            "F.cross_entropy(model(u), v).backward()\noptimizer.step()",
        },
        {"loader": f"{PLAIN}\n{LARGER}", "loop": "for x, y in loader if epoch else other:"},
        {"loader": f"{PLAIN}\n{LARGER}", "epoch_end": "for u, v in other:\n    print(u.shape)"},
    ],
)
def test_loaders_that_deal_alike_or_one_after_the_other_are_not(slots: dict[str, str]) -> None:
    assert "DATA-MIXED" not in findings(script(**slots))


def test_a_loader_that_is_drawn_from_beside_another_is_reported() -> None:
    loaders, stream = f"{PLAIN}\n{SECOND}", "stream = iter(other)"
    assert findings(script(loader=loaders, epoch=stream, move="u, v = next(stream)", forward=BOTH)) == ["DATA-WHOLE"]
    looked = script(loader=loaders, epoch=f"{stream}\nu, v = next(stream)")
    assert "DATA-WHOLE" not in findings(looked)
    alone = script(epoch="stream = iter(loader)", loop="for step in range(3):", move="x, y = next(stream)")
    assert "DATA-WHOLE" not in findings(alone)


CHOSEN = "import sys\nloader = {made} if len(sys.argv) > 1 else DataLoader(data, batch_size=16, shuffle=True)"


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("streams.Bucket(data)", True),
        ("streams.split(data)[0]", True),
        ("DataLoader(data, batch_size=8)", False),
        ("None", False),
    ],
)
def test_what_may_take_the_place_of_a_loader_is_told(made: str, told: bool) -> None:
    text = script(imports="import streams", loader=CHOSEN.format(made=made))
    assert ("DATA-WHOLE" in findings(text)) is told
    assert "loader = accelerator.prepare" in converted(text)
    numbered = script(
        imports="import streams", loader=CHOSEN.format(made=made), loop="for i, (x, y) in enumerate(loader):"
    )
    assert ("DATA-WHOLE" in findings(numbered)) is told


def test_a_list_that_may_only_be_measured_is_not_said_to_be_trained_on() -> None:
    run = "def run(model, optimizer, batches, train):\n"
    run += TRAINS.replace("in loader", "in batches").replace("        loss.backward()\n        optimizer.step()", "{}")
    steps = "        if train:\n            loss.backward()\n            optimizer.step()"
    slots = {
        **NO_LOOP,
        "before": "fixed = [(torch.ones(4, 8), torch.zeros(4).long())]\nrun(model, optimizer, loader, True)",
    }
    for step, how in ((steps, "goes through"), ("        loss.backward()\n        optimizer.step()", "trains on")):
        plan = convert(script(**slots, definitions=run.format(step), after="run(model, optimizer, fixed, False)")).plan
        assert plan is not None
        (message,) = [f.message for f in plan.findings if f.code == "DATA-WHOLE"]
        assert message.endswith(f"every process {how} all of it")


def test_evaluations_gather_nothing_of_what_may_be_no_loader() -> None:
    loop = """\
n = 0
for x, y in loader:
    x, y = x.to(device), y.to(device)
    n += (model(x).argmax(1) == y).sum().item()
print(n)"""
    known = CHOSEN.format(made="DataLoader(data, batch_size=8)").replace("loader =", "test =")
    text = script(imports="import streams", loader=f"{PLAIN}\n{known}", after=loop.replace("in loader", "in test"))
    assert "gather_for_metrics" in converted(text)
    other = text.replace("DataLoader(data, batch_size=8)", "streams.Bucket(data)")
    assert "gather_for_metrics" not in converted(other) and "prepare(model, optimizer, loader)" in converted(other)
    assert "EVAL-REPLICATED" in findings(other)


COUNTS = """\
class Counts(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.n = torch.ones(64, 8), 0

    def __len__(self):
        return 64

    def __getitem__(self, i):
        {}
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("self.n += 1\n        return self.x[self.n % 64], self.n % 3", 1),
        ("self.n += 1\n        return self.x[i], self.n % 3", 0),
        ("self.n += 1\n        return self.x[0], 1", 0),  # a count that nothing goes by
        ("return self.x[self.n], 1", 0),
    ],
)
def test_a_data_set_that_counts_what_it_gives(body: str, told: int) -> None:
    assert findings(script(definitions=COUNTS.format(body), data="data = Counts()")).count("DATA-COUNTED") == told


EARLIER = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\nif before is not None:\n    loss = loss + {}"


@pytest.mark.parametrize(
    ("loss", "left", "found"),
    [
        ("0.1 * F.mse_loss(model(before), kept)", "before, kept = x, model(x).detach()", 1),
        ("0.1 * (model(before) - kept).pow(2).mean()", "before, kept = x, model(x).detach()", 1),
        ("F.mse_loss(model(x), before)", "before = model(x).detach()", 0),  # each row beside one of this batch
        ("0.1 * before", "before = F.mse_loss(model(x), x[:, :3]).detach()", 0),
        ("0.1 * model.layer.weight.pow(2).mean()", "before = x", 0),
    ],
)
def test_samples_that_an_earlier_iteration_has_left(loss: str, left: str, found: int) -> None:
    slots = {"before": "before = kept = None", "forward": EARLIER.format(loss), "batch_end": left}
    assert findings(script(**slots, loader=PLAIN)).count("DATA-KEPT") == found
    assert "DATA-KEPT" not in findings(script(**slots, loader=DROPPING))
