"""Decisions by a share that are spelled otherwise: groups of an optimizer, errors that are caught, texts of numbers."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script

_LOSS = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\n"


def _said(lines: str) -> list[str]:
    found = findings(script(forward=_LOSS + lines))
    return [code for code in found if code == "COLL-RANKFLOW" or code.startswith("LOSS-")]


@pytest.mark.parametrize(
    "lines",
    [
        "group = optimizer.param_groups[0]\ngroup['lr'] = 0.1 * min(1, loss.item())",
        "group = optimizer.param_groups[0]\ngroup.update(lr=0.1 * min(1, loss.item()))",
        "optimizer.param_groups[0].update(lr=loss.item())",
        "for group in optimizer.param_groups:\n    group.update(lr=loss.item())",
        "try:\n    if loss.item() > 1.1:\n        raise ValueError\nexcept ValueError:\n    continue",
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * min(1, loss.item()))",
    ],
)
def test_processes_that_train_otherwise_are_told_of(lines: str) -> None:
    assert _said(lines) == ["COLL-RANKFLOW"]


@pytest.mark.parametrize(
    "lines",
    [
        "group = optimizer.param_groups[0]\ngroup['lr'] = 0.1 / (1 + epoch)",
        "optimizer.param_groups[0].update(lr=0.1 / (1 + epoch))",
        "seen = {}\nseen.update(loss=loss.item())",
        "if loss.item() > 1e9:\n    raise ValueError(f'{loss.item()}')",
        "try:\n    if epoch > 3:\n        raise ValueError\nexcept ValueError:\n    continue",
        "name = f'{epoch}'\nloss = loss * len(name)",
    ],
)
def test_what_is_the_same_everywhere_is_not(lines: str) -> None:
    assert _said(lines) == []


def test_a_text_of_a_mean_is_no_mean() -> None:
    assert _said("loss = loss * float(f'{loss.item():.1f}')") == ["LOSS-INBATCH"]


CHECK = "def check(value):\n    if value > 1.1:\n        raise ValueError\n\ndef ask(value):\n    check(value)\n"
CAUGHT = "try:\n    {}\nexcept ValueError:\n    continue"


@pytest.mark.parametrize(
    ("called", "codes"),
    [
        (CAUGHT.format("check(loss.item())"), ["COLL-RANKFLOW"]),
        (CAUGHT.format("ask(loss.item())"), ["COLL-RANKFLOW"]),
        (CAUGHT.format("check(epoch)"), []),
        ("check(loss.item())", []),  # the job ends
    ],
)
def test_what_a_function_raises_and_its_callers_catch(called: str, codes: list[str]) -> None:
    assert findings(script(definitions=CHECK, forward=_LOSS, batch_end=called)) == codes


@pytest.mark.parametrize(
    ("before", "sets", "asked", "codes"),
    [
        ("best = None", "if loss.item() < 1:\n    best = epoch", "best is not None", ["COLL-RANKFLOW"]),
        ("stop = False", "if loss.item() < 1:\n    stop = True", "stop is True", ["COLL-RANKFLOW"]),
        ("best = None", "if best is None:\n    best = loss.item()", "best is not None", []),
        ("best = None", "if epoch > 1:\n    best = loss.item()", "best is not None", []),
    ],
)
def test_whether_something_has_been_set(before: str, sets: str, asked: str, codes: list[str]) -> None:
    text = script(before=before, forward=_LOSS, batch_end=sets, epoch_end=f"if {asked}:\n    break")
    assert findings(text) == codes


RESET = "def reset(layer):\n    if isinstance(layer, nn.Linear):\n        nn.init.normal_(layer.weight)\n"


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ("model.apply(reset)", True),
        ("model.apply(lambda layer: layer.float())", True),
        ("model.layer.reset_parameters()", True),
        ("with torch.no_grad():\n        model.layer.weight *= 0.5", True),
        ("reset(model.layer)", True),
        ("print(model.layer.weight * 0.5)", False),
        ("table.apply(print)", False),
    ],
)
@pytest.mark.parametrize("place", ["batch_end", "epoch_end"])
def test_weights_that_are_set_anew(does: str, told: bool, place: str) -> None:
    slots = {"definitions": RESET, "setup": "table = print", place: f"if loss.item() > 2:\n    {does}"}
    assert ("COLL-RANKFLOW" in findings(script(forward=_LOSS, **slots))) == told


NOISY = """\
class Noisy(torch.utils.data.Dataset):
    def __init__(self):
        self.noise, self.last = 0.1, 0.0

    def set(self, noise):
        self.noise = noise

    def note(self, loss):
        self.last = loss

    def __len__(self):
        return 64

    def __getitem__(self, place):
        return torch.ones(8) + self.noise, place % 3
"""


@pytest.mark.parametrize(
    ("does", "codes"),
    [
        ("data.noise = 0.1 * loss.item()", ["COLL-RANKFLOW"]),
        ("loader.dataset.noise *= loss.item()", ["COLL-RANKFLOW"]),
        ("data.set(loss.item())", ["COLL-RANKFLOW"]),
        ("data.noise = 0.1 / (1 + epoch)", []),
        ("data.set(epoch)", []),
        ("data.last = loss.item()", []),  # which it never asks for
        ("data.note(loss.item())", []),
    ],
)
def test_what_a_data_set_makes_its_samples_by(does: str, codes: list[str]) -> None:
    text = script(definitions=NOISY, data="data = Noisy()", forward=_LOSS, batch_end=does)
    assert [code for code in findings(text) if code == "COLL-RANKFLOW"] == codes


@pytest.mark.parametrize(
    ("changes", "not_this"),
    [
        ("random.shuffle(order)", "random.shuffle(names)"),
        ("samples[:8] = 0", "others[:8] = 0"),
        ("data.tensors[0].mul_(2)", "x.mul_(2)"),
        ("data.tensors[0][:8] = 0", "seen[0] = 0"),
        ("optimizer.state.clear()", "seen.clear()"),
        ("optimizer.add_param_group({'params': [scale]})", "seen.append(scale)"),
        ('prune.l1_unstructured(model.layer, "weight", 0.2)', "prune.is_pruned(model)"),
    ],
)
def test_what_training_goes_by_is_changed_in_place_by_a_share(changes: str, not_this: str) -> None:
    def told(line: str, test: str) -> list[str]:
        text = script(
            imports="import random\nimport torch.nn.utils.prune as prune",
            data="samples, others = torch.rand(64, 8), torch.rand(64, 8)\n"
            "data = TensorDataset(samples, torch.arange(64) % 3)",
            loader="order = list(range(64))\nloader = DataLoader(data, batch_size=16, sampler=order)",
            before='names, seen, scale = ["a", "b"], [], torch.ones(1)',
            batch_end=f"if {test}:\n    {line}",
        )
        return [code for code in findings(text) if code == "COLL-RANKFLOW"]

    assert told(changes, "loss > 2") == ["COLL-RANKFLOW"]
    assert told(changes, "epoch > 0") == []
    assert told(not_this, "loss > 2") == []
