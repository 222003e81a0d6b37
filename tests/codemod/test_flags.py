"""Decisions that are kept in a flag: one process's loss sets it, and a later iteration goes by it."""

from __future__ import annotations

import pytest
from scripts import added, findings, script, severities

LOSS = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)"
HALVED = f"{LOSS}\nif late:\n    loss = 0.5 * loss"
SETS = "if loss.item() < 1:\n    late = True"
SLOWER = "if late:\n    optimizer.param_groups[0]['lr'] = 0.01"
CHOSEN = """\
def plain(out, y):
    return F.cross_entropy(out, y)


def smooth(out, y):
    return F.cross_entropy(out, y, label_smoothing=0.1)
"""
PICKS = "optimizer.zero_grad()\nf = plain\nif late:\n    f = smooth\nloss = f(model(x), y)"


def told(**slots: str) -> bool:
    return severities(script(**{"before": "late = False", **slots}), "COLL-RANKFLOW") == ["error"]


@pytest.mark.parametrize(
    "slots",
    [
        {"forward": HALVED, "batch_end": SETS},
        {"forward": HALVED.replace("if late", "if late == 'y'"), "batch_end": SETS.replace("True", "'y'")},
        {"before": "late = False\nother = torch.optim.Adam(model.parameters())", "batch_end": SETS}
        | {"step": "if late:\n    other.step()\nelse:\n    optimizer.step()"},
        {"batch_end": f"{SETS}\n{SLOWER}"},
        {"definitions": CHOSEN, "forward": PICKS, "batch_end": SETS},
        {"definitions": CHOSEN, "forward": PICKS, "batch_end": "late = loss.item() < 1"},
    ],
)
def test_a_flag_that_a_loss_has_set(slots: dict[str, str]) -> None:
    assert told(**slots)


def test_one_that_is_set_to_what_is_compared_is_that_of_all() -> None:
    text = script(before="late = False", forward=HALVED, batch_end="late = loss.item() < 1")
    assert "late = accelerator.batch_mean(loss.detach()).item() < 1" in added(text)
    assert "COLL-RANKFLOW" not in findings(text)


@pytest.mark.parametrize(
    "slots",
    [
        {"forward": HALVED, "batch_end": "if epoch > 0:\n    late = True"},
        {"forward": HALVED, "epoch_end": "late = epoch > 0"},
        {"forward": f"{LOSS}\nif late is not None:\n    loss = 0.5 * loss", "batch_end": SETS},
        {"batch_end": SETS, "epoch_end": "if late:\n    print('low')"},
        {"batch_end": f"late = y.dim() > 1\n{SETS}\nif late:\n    print('low')"},
    ],
)
def test_flags_that_all_processes_have_or_that_nothing_goes_by(slots: dict[str, str]) -> None:
    assert not told(**slots)


TRAINER = """
class Trainer:
    def __init__(self):
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(data, batch_size=16)
        self.late = False

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        {uses}
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        {sets}

    def fit(self):
        for x, y in self.loader:
            self.step(x, y)


Trainer().fit()
"""


@pytest.mark.parametrize(
    "uses", ["if self.late:\n            loss = 2 * loss", "loss = 2 * loss if self.late else loss"]
)
@pytest.mark.parametrize(("by", "found"), [("loss.item() < 1", True), ("self.loader.batch_size > 3", False)])
def test_a_flag_that_a_method_keeps(uses: str, by: str, found: bool) -> None:
    body = TRAINER.format(uses=uses, sets=f"if {by}:\n            self.late = True")
    assert (
        told(epochs="", loop="", model="", optimizer="", loader=body, move="", forward="", backward="", step="")
        is found
    )


@pytest.mark.parametrize(("by", "found"), [("loss.item() < 1", True), ("len(state) > 1", False)])
def test_a_flag_in_a_dict(by: str, found: bool) -> None:
    step = f"""
def train_step(model, optimizer, x, y, state):
    loss = F.cross_entropy(model(x), y, label_smoothing=0.1 if state["late"] else 0.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    state["late"] = {by}
"""
    call = "train_step(model, optimizer, x, y, state)"
    slots = {"before": 'state = {"late": False}', "forward": call, "backward": "", "step": ""}
    assert told(definitions=step, **slots) is found


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("model.layer.weight[0] = 0", True),
        ("model.layer.weight.data = 0.5 * model.layer.weight.data", True),
        ("model.low = True", False),
    ],
)
def test_weights_that_are_set_by_a_loss(change: str, found: bool) -> None:
    assert told(batch_end=f"if loss.item() < 1:\n    with torch.no_grad():\n        {change}") is found


@pytest.mark.parametrize("name", ['f"{:.3f}.pt"', '"%.3f.pt" % loss.item()', '"{:.3f}.pt".format(loss.item())'])
def test_a_file_that_is_named_by_a_loss_keeps_its_name(name: str) -> None:
    named = name.replace("{:", "{loss.item():") if name.startswith("f") else name
    text = script(
        batch_end=f"torch.save(model, {named})\nbest = {named}", after="model.load_state_dict(torch.load(best))"
    )
    assert not any("batch_mean" in line for line in added(text))
    assert severities(text, "COLL-RANKFLOW") == ["error"]


def test_entries_of_a_dict_are_no_names() -> None:
    text = script(
        before="seen = []",
        batch_end='seen.append({"loss": loss.item()})',
        epoch_end="if seen[-1]['loss'] < 1:\n    break",
    )
    assert any("batch_mean" in line for line in added(text))


HALVES = "def halve():\n    for group in optimizer.param_groups:\n        group['lr'] *= 0.5\ndef keep():\n    pass\n"
RUNS = "for hook in hooks:\n        hook()"


@pytest.mark.parametrize(
    ("before", "batch_end", "told"),
    [
        ("hooks = []\nhooks.append(halve)", f"if loss.item() < 1:\n    {RUNS}", 1),
        ("hooks = [keep]\nhooks.append(halve)", f"if loss.item() < 1:\n    {RUNS}", 1),
        ("hooks = []\nhooks.append(halve)\nhooks.clear()", f"if loss.item() < 1:\n    {RUNS}", 0),  # who knows
        ("hooks = []\nhooks.append(keep)", f"if loss.item() < 1:\n    {RUNS}", 0),
        ("hooks = []\nhooks.append(halve)", f"if epoch == 1:\n    {RUNS}", 0),
        ('acts = {"a": halve, "b": keep}', 'key = "a" if loss.item() < 1 else "b"\nacts[key]()', 1),
        ('acts = {"a": keep, "b": keep}', 'key = "a" if loss.item() < 1 else "b"\nacts[key]()', 0),
        ('acts = {"a": halve, "b": keep}', 'key = "a" if epoch < 1 else "b"\nacts[key]()', 0),
    ],
)
def test_functions_that_are_called_later(before: str, batch_end: str, told: int) -> None:
    assert findings(script(before=HALVES + before, batch_end=batch_end)).count("COLL-RANKFLOW") == told
