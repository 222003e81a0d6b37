"""Decisions on a share of the batch that are not written as an `if`, and what networks are switched by."""

from __future__ import annotations

import textwrap

import pytest

from tests.codemod.scripts import added, converted, findings, script, severities

SCHEDULE = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
OTHER = "other = torch.optim.SGD(model.parameters(), lr=0.5)"
DROPS = "model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 3)).to(device)"
ASKS = """\
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.scale = 1.0

    def change(self, scale):
        self.scale = scale

    def forward(self, x):
        return self.layer(x) * self.scale
"""
SCALED = {"definitions": ASKS, "model": "model = Scaled().to(device)"}


@pytest.mark.parametrize(
    ("slots", "end"),
    [
        pytest.param({"before": SCHEDULE}, "scheduler.step() if loss.item() < 1.1 else None", id="conditional"),
        pytest.param({"step": ""}, "loss.item() < 5 and optimizer.step()", id="short circuit"),
        pytest.param({"step": ""}, "optimizer.step() if torch.isfinite(loss) else None", id="not a number"),
        pytest.param({"step": ""}, "if torch.isfinite(loss):\n    optimizer.step()", id="not a number, if"),
        pytest.param({"before": OTHER, "step": ""}, "(optimizer if loss.item() < 1 else other).step()", id="picked"),
        pytest.param({}, "model.train(loss.item() < 1.1)", id="mode"),
        pytest.param({}, "low = loss.item() < 1.1\nmodel.train(low)", id="mode, by a variable"),
        pytest.param({}, "for p in model.layer.parameters():\n    p.requires_grad = loss.item() > 0.5", id="frozen"),
        pytest.param({"model": DROPS}, "model[1].p = 0.5 if loss.item() < 1 else 0.1", id="rate of a layer"),
        pytest.param(SCALED, "model.scale = loss.item()", id="attribute of a network"),
        pytest.param(SCALED, "setattr(model, 'scale', loss.item())", id="attribute by its name"),
        pytest.param(SCALED, "model.change(loss.item())", id="attribute that a method sets"),
        pytest.param(
            {"before": "criterion = nn.CrossEntropyLoss()", "forward": "loss = criterion(model(x), y)"},
            "criterion.label_smoothing = 0.1 if loss.item() < 1 else 0.0",
            id="a loss",
        ),
    ],
)
def test_told_of(slots: dict[str, str], end: str) -> None:
    assert severities(script(**slots, batch_end=end), "COLL-RANKFLOW") == ["error"]


@pytest.mark.parametrize(
    "backward",
    [
        "match loss.item() < 1.1:\n    case True:\n        loss.backward()",
        "match 0:\n    case _ if loss.item() < 1.1:\n        loss.backward()",
        "loss.item() < 1.1 and loss.backward()",
        "try:\n    assert loss.item() < 1.1\nexcept AssertionError:\n    continue\nloss.backward()",
    ],
)
def test_some_would_wait(backward: str) -> None:
    assert severities(script(backward=backward), "COLL-RANKFLOW") == ["error"]


@pytest.mark.parametrize(
    "end",
    [
        "print('low' if loss.item() < 1 else 'high')",
        "low = loss.item() < 1 and epoch > 1",
        "match x:\n    case torch.Tensor():\n        pass\n    case _:\n        continue",
        "try:\n    assert loss.item() < 100\nexcept AssertionError as error:\n    print(error)",
        "try:\n    assert torch.isfinite(loss)\n    print('fine')\nexcept AssertionError:\n    print('not')",
        "if loss.item() < 1:\n    with torch.set_grad_enabled(False):\n        print(model(x))",
        "if loss.item() < 1:\n    model.train(False)\n    print(model(x).shape)\n    model.train(True)",
        "if loss.item() < 1:\n    was = model.training\n    model.eval()\n    print(x)\n    model.train(was)",
        "if loss.item() < 1:\n    model.eval()\n    try:\n        print(x)\n    finally:\n        model.train(True)",
        "try:\n    assert loss.item() < 100\nexcept KeyboardInterrupt:\n    pass",
        "assert loss.item() < 100",
        "model.train(epoch < 1)",
        "optimizer.step() if epoch > 1 else None",
        "for p in model.layer.parameters():\n    p.requires_grad = epoch > 0",
        "for p in model.layer.parameters():\n    p.requires_grad = len(x) > 4",
        "model.last = loss.item()",
    ],
)
def test_nothing_is_decided(end: str) -> None:
    assert "COLL-RANKFLOW" not in findings(script(batch_end=end))


@pytest.mark.parametrize("given", ["x.size(0)", "len(x)", "y", "epoch"])
def test_what_a_network_is_handed(given: str) -> None:
    """Rows of the share, or how many: what every process has for its own."""
    assert "COLL-RANKFLOW" not in findings(script(**SCALED, move=f"model.scale = {given}"))


@pytest.mark.parametrize(
    ("before", "end"),
    [
        (SCHEDULE, "scheduler.step() if total < 4 else None"),
        ("", "total < 4 and torch.save(model.state_dict(), 'best.pt')"),
        ("", "match total > 4:\n    case True:\n        break"),
        ("", "model.train(total > 4)"),
        ("", "try:\n    assert total < 4\nexcept AssertionError:\n    break"),
    ],
)
def test_an_epoch_decides(before: str, end: str) -> None:
    """By what an epoch has measured: that of all processes."""
    text = script(before=before, epoch="total = 0", batch_end="total += loss.item()", epoch_end=end)
    assert "total += accelerator.batch_mean(loss.detach()).item()" in added(text)


def test_a_layer_is_told_after_an_epoch() -> None:
    end = "model[1].p = min(0.5, total / 100)"
    text = script(model=DROPS, epoch="total = 0", batch_end="total += loss.item()", epoch_end=end)
    assert "total += accelerator.batch_mean(loss.detach()).item()" in added(text)


def test_a_data_set_is_told() -> None:
    """How hard its samples are, by what one process has measured."""
    data = """\
    class Samples(torch.utils.data.Dataset):
        level = 0

        def __len__(self):
            return 64

        def __getitem__(self, i):
            return torch.full((8,), float(i + self.level)), i % 3

    data = Samples()
    """
    end = "if loss.item() < 1:\n    data.level += 1"
    assert "COLL-RANKFLOW" in findings(script(data=textwrap.dedent(data), batch_end=end))


KEPT = "if loss.item() < best:\n    best, state = loss.item(), None\n    state = copy.deepcopy(model.state_dict())"


def test_weights_that_are_kept_by_the_loss_of_a_share() -> None:
    text = script(imports="import copy", before="best = 9.0", batch_end=KEPT, after="torch.save(state, 'best.pt')")
    assert severities(text, "METRIC-TRAIN")[0] == "warning" and "COLL-RANKFLOW" not in findings(text)


def test_weights_that_are_put_back() -> None:
    text = script(imports="import copy", before="best = 9.0", batch_end=KEPT, after="model.load_state_dict(state)")
    assert severities(text, "COLL-RANKFLOW") == ["error"]


def test_weights_that_are_kept_anyway() -> None:
    keeps = "state = copy.deepcopy(model.state_dict())"
    text = script(imports="import copy", batch_end=keeps, after="model.load_state_dict(state)")
    assert not findings(text)


def test_an_average_of_weights() -> None:
    made = "average = torch.optim.swa_utils.AveragedModel(model)"
    text = script(before=made, batch_end="if loss.item() < 1.1:\n    average.update_parameters(model)")
    assert "COLL-RANKFLOW" in findings(text)
    assert "COLL-RANKFLOW" not in findings(script(before=made, batch_end="average.update_parameters(model)"))


@pytest.mark.parametrize("told", ["loss.item()", "epoch"])
def test_a_schedule_that_asks_for_a_rate(told: str) -> None:
    before = 'state = {"rate": 1.0}\n'
    before += 'schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: min(1.0, state["rate"]))'
    text = script(before=before, batch_end=f'state["rate"] = {told}', epoch_end="schedule.step()")
    assert ('state["rate"] = accelerator.batch_mean(loss.detach()).item()' in added(text)) == (told != "epoch")


def test_what_is_averaged_is_not_told_of() -> None:
    """The choice is made on the mean of all processes."""
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, label_smoothing=rate)"
    text = script(before="rate = 0.1", forward=forward, batch_end="rate = 0.1 if loss.item() < 1 else 0.2")
    assert "rate = 0.1 if accelerator.batch_mean(loss.detach()).item() < 1 else 0.2" in added(text)
    assert "COLL-RANKFLOW" not in findings(text)


def test_an_assertion_of_something_else_after_an_epoch() -> None:
    end = "if loss.item() < 9:\n    assert len(loader) > 1\n    print('low')"
    assert "batch_mean" not in converted(script(epoch_end=end))


@pytest.mark.parametrize(
    "method", ["def text(self):\n    return f'{self.last:.2f}'", "def mean(self):\n    return round(self.last, 2)"]
)
def test_what_a_network_only_tells(method: str) -> None:
    kept = textwrap.indent(f"last = 0\n\n{method}", "    ")
    name = method[4:].partition("(")[0]
    text = script(batch_end="model.last = loss.item()", epoch_end=f"print(model.{name}())")
    assert "COLL-RANKFLOW" not in findings(
        text.replace("        return self.layer(x)\n", f"        return self.layer(x)\n\n{kept}\n")
    )


def test_an_assertion_that_is_caught_before_a_step() -> None:
    step = "try:\n    assert loss.item() < 100\n    optimizer.step()\nexcept AssertionError:\n    pass"
    assert severities(script(step=step), "COLL-RANKFLOW") == ["error"]


def test_a_data_set_that_keeps_what_it_does_not_ask_for() -> None:
    data = "class Data(TensorDataset):\n    seen = 0"
    made = "data = Data(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)"
    text = script(definitions=data, data=made, batch_end="if loss.item() < 1:\n    data.seen = 1")
    assert "COLL-RANKFLOW" not in findings(text)


@pytest.mark.parametrize(("test", "told"), [("len(y) > 0", []), ("y.size(0) >= 1", []), ("len(y) > 8", ["error"])])
def test_a_loss_that_any_share_would_pick(test: str, told: list[str]) -> None:
    forward = f"optimizer.zero_grad()\ngoal = y if {test} else None\nloss = F.cross_entropy(model(x), goal)"
    assert severities(script(forward=forward), "COLL-RANKFLOW") == told
