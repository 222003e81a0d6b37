"""ACCUMULATE: the two idioms that compute the same become `accelerator.accumulate`, all others stay."""

from __future__ import annotations

import pytest
from scripts import converted, creation, findings, lifted, script

LOOP = "for i, (x, y) in enumerate(loader):"
LOSS = "loss = F.cross_entropy(model(x), y)"
UPDATE = "optimizer.step()\noptimizer.zero_grad()"
SPLIT = "dataloader_config=DataLoaderConfiguration(split_batches=True)"
MANAGED = f"accelerator = Accelerator(\n    gradient_accumulation_steps=4,\n    {SPLIT},\n)"
RUNNING_ON = "GradientAccumulationPlugin(num_steps=4, sync_with_dataloader=False)"


def indented(code: str) -> str:
    """Code one level deeper."""
    return "\n".join(f"    {line}" for line in code.splitlines())


def accumulating(gate: str = "(i + 1) % 4 == 0 or i + 1 == len(loader)", update: str = UPDATE, **slots: str) -> str:
    """A script that updates every four batches."""
    filled = {"loop": LOOP, "forward": f"{LOSS} / 4", "step": f"if {gate}:\n{indented(update)}", **slots}
    return script(**filled)


def managed(*inside: str, update: str = UPDATE, rest: str = "", **slots: str) -> str:
    """The script with its accumulation left to the accelerator."""
    body = "\n".join([*(inside or (LOSS, "accelerator.backward(loss)")), "if accelerator.sync_gradients:"])
    body = f"{body}\n{indented(update)}" + (f"\n{rest}" if rest else "")
    filled = {"device": MANAGED, "loop": LOOP, "backward": "", "step": "", **slots}
    return lifted(**filled, forward=f"with accelerator.accumulate(model):\n{indented(body)}")


@pytest.mark.parametrize(
    ("loop", "gate"),
    [
        (LOOP, "(i + 1) % 4 == 0 or i + 1 == len(loader)"),
        (LOOP, "(i + 1) % 4 == 0 or (i + 1) == len(loader)"),
        (LOOP, "(i + 1) % 4 == 0 or i == len(loader) - 1"),
        (LOOP, "i + 1 == len(loader) or (1 + i) % 4 == 0"),
        (LOOP, "not (i + 1) % 4 or len(loader) == i + 1"),
        ("for i, (x, y) in enumerate(loader, 1):", "i % 4 == 0 or i == len(loader)"),
        ("for i, (x, y) in enumerate(loader, start=1):", "i % 4 == 0 or i == len(loader)"),
    ],
)
def test_every_k_batches_and_at_the_end_of_the_epoch(loop: str, gate: str) -> None:
    assert converted(accumulating(gate, loop=loop)) == managed(loop=loop)
    assert findings(accumulating(gate, loop=loop)) == []


def test_the_number_of_batches_may_stand_in_a_variable() -> None:
    slots = {"before": "batches = len(loader)"}
    assert converted(accumulating("(i + 1) % 4 == 0 or i + 1 == batches", **slots)) == managed(**slots)


@pytest.mark.parametrize(
    "forward",
    [f"{LOSS} / 4", f"{LOSS}\nloss = loss / 4", f"{LOSS}\nloss /= 4"],
)
def test_the_division_is_left_to_the_accelerator(forward: str) -> None:
    assert converted(accumulating(forward=forward)) == managed()


def test_a_division_in_the_backward_pass_goes_too() -> None:
    assert converted(accumulating(forward=LOSS, backward="(loss / 4).backward()")) == managed()


@pytest.mark.parametrize(
    ("forward", "again"), [(f"{LOSS} / 4", "loss = loss / 4"), (f"{LOSS}\nloss /= 4", "loss /= 4")]
)
def test_later_readers_of_the_loss_see_it_divided(forward: str, again: str) -> None:
    slots = {"before": "seen = []"}
    before = accumulating(forward=forward, batch_end="seen.append(loss.item())", **slots)
    inside = (LOSS, "accelerator.backward(loss)", again)
    assert converted(before) == managed(*inside, rest="seen.append(loss.item())", **slots)


@pytest.mark.parametrize(
    "slots",
    [
        {"epoch_end": "print(epoch, loss.item())"},
        {"after": "print(loss.item())"},
        {"before": "loss = torch.zeros(())", "epoch": "print(epoch, loss.item())"},
    ],
)
def test_readers_of_the_loss_after_the_loop_see_it_divided(slots: dict[str, str]) -> None:
    after = converted(accumulating(**slots))
    assert "accelerator.backward(loss)\n            loss = loss / 4\n" in after


def test_a_loss_that_is_made_anew_after_the_loop_is_another_one() -> None:
    slots = {"epoch_end": "loss = 0\nshown = loss"}
    assert converted(accumulating(**slots)) == managed(**slots)


def test_the_number_of_steps_may_be_a_variable_known_in_time() -> None:
    slots = {"setup": "every = 4"}
    before = accumulating("(i + 1) % every == 0 or i + 1 == len(loader)", forward=f"{LOSS} / every", **slots)
    assert converted(before) == managed(device=MANAGED.replace("=4", "=every"), **slots)


def test_what_stands_under_the_gate_moves_with_it() -> None:
    slots = {"optimizer": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"}
    slots["optimizer"] += "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
    rest = "\noptimizer.step()\nscheduler.step()\nmodel.zero_grad()"
    before = accumulating(update=f"nn.utils.clip_grad_norm_(model.parameters(), 1.0){rest}", **slots)
    after = managed(update=f"accelerator.clip_grad_norm_(model.parameters(), 1.0){rest}", **slots)
    assert converted(before) == after


def test_a_grad_scaler_stays_inside() -> None:
    slots = {"before": "scaler = torch.cuda.amp.GradScaler()"}
    update = "scaler.step(optimizer)\nscaler.update()\noptimizer.zero_grad()"
    before = accumulating(update=update, backward="scaler.scale(loss).backward()", **slots)
    assert converted(before) == managed(LOSS, "accelerator.backward(scaler.scale(loss))", update=update, **slots)


@pytest.mark.parametrize(
    ("first", "gate", "last"),
    [("count += 1\n", "count % 4 == 0", ""), ("", "(count + 1) % 4 == 0", "count += 1")],
)
def test_a_counter_that_runs_on_through_the_epochs(first: str, gate: str, last: str) -> None:
    slots = {"before": "count = 0", "loop": "for x, y in loader:"}
    before = accumulating(gate, forward=f"{first}{LOSS} / 4", batch_end=last, **slots)
    assert creation(before) == f"Accelerator(gradient_accumulation_plugin={RUNNING_ON}, {SPLIT})"
    after = converted(before)
    assert "from accelift.utils import GradientAccumulationPlugin\n" in after
    assert "with accelerator.accumulate(model):" in after and "/ 4" not in after


# ---- what stays


@pytest.mark.parametrize(
    ("gate", "slots"),
    [
        ("(i + 1) % 4 == 0", {}),  # what is left over at the end of an epoch waits for the next
        ("i % 4 == 0 or i + 1 == len(loader)", {}),  # updates after the first batch
        ("(i + 1) % 4 == 0 or i + 1 == len(data)", {}),  # samples, not batches
        ("(i + 1) % 4 == 0 or i + 1 == len(items)", {"before": "items = [1, 2]"}),
        ("(i + 1) % 4 == 0 or i + 1 == len(loader)", {"forward": LOSS}),  # no division
        ("(i + 1) % 4 == 0 or i + 1 == len(loader)", {"forward": f"{LOSS} / 8"}),
        ("(i + 1) % 4 == 0 or i + 1 == len(loader)", {"forward": f"{LOSS} * 0.25"}),
        ("(i + 1) % 4 == 0 or i + 1 == len(loader)", {"forward": f"{LOSS} / 4\nseen = loss.item()"}),
        ("(i + 1) % 4 == 0 or i + 1 == len(loader)", {"forward": f"optimizer.zero_grad()\n{LOSS} / 4"}),
        ("count % 4 == 0", {"epoch": "count = 0", "forward": f"count += 1\n{LOSS} / 4"}),  # starts anew each epoch
        ("count % 4 == 0", {"before": "count = 0", "forward": f"count += 2\n{LOSS} / 4"}),
        (
            "count % 4 == 0",
            {"before": "count = 0", "forward": f"{LOSS} / 4", "batch_end": "if epoch:\n    continue\ncount += 1"},
        ),
    ],
)
def test_other_idioms_keep_their_own_arithmetic(gate: str, slots: dict[str, str]) -> None:
    step = f"if {gate}:\n{indented(UPDATE)}"
    kept = {"loop": LOOP, "forward": f"{LOSS} / 4", "step": step, **slots}
    assert converted(accumulating(gate, **slots)) == lifted(**kept)
    assert findings(accumulating(gate, **slots)) == ["ACC-KEPT"]


def test_an_else_under_the_gate_keeps_it() -> None:
    step = f"if (i + 1) % 4 == 0 or i + 1 == len(loader):\n{indented(UPDATE)}\nelse:\n    waited = True"
    slots = {"loop": LOOP, "forward": f"{LOSS} / 4", "step": step}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == ["ACC-KEPT"]


@pytest.mark.parametrize(
    "slots",
    [
        {"batch_end": "if (i + 1) % 4 == 0 or i + 1 == len(loader):\n    shown = i"},
        {"batch_end": "if (i + 1) % 4 == 0:\n    stepper.step()", "before": "stepper = Stepper()"},
        {"forward": f"optimizer.zero_grad()\n{LOSS} / 4"},
    ],
)
def test_a_modulo_that_applies_no_gradients_is_no_accumulation(slots: dict[str, str]) -> None:
    slots = {"loop": LOOP, "definitions": "class Stepper:\n    def step(self):\n        return 1", **slots}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == []


def test_without_the_rule_the_accumulation_stays() -> None:
    gate = f"if (i + 1) % 4 == 0 or i + 1 == len(loader):\n{indented(UPDATE)}"
    after = lifted(loop=LOOP, forward=f"{LOSS} / 4", step=gate)
    assert converted(accumulating(), ignore=("ACCUMULATE",)) == after
