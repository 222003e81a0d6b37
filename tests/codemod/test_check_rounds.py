"""`accelift check` of what is done once an epoch, or later, in functions; and of split_batches where it is ignored."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script
from tests.codemod.test_check_training import ALL, PLATEAU, SCHEDULER

EPOCH = """\
def train(model, loader, optimizer, scheduler, epoch):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        optimizer.step(){each}
    {end}
"""
IN_FUNCTION = {"move": "", "forward": "", "backward": "", "step": ""}
CALL = "train(model, loader, optimizer, scheduler, epoch)"
CALLED = {**IN_FUNCTION, "prepare": f"{SCHEDULER}\n{ALL}", "loop": CALL}
ONCE = {
    **IN_FUNCTION,
    "prepare": f"{SCHEDULER}\n{ALL}",
    "epochs": f"{CALL.replace('epoch', '0')}\nfor epoch in ():",
    "loop": "pass",
}
STEPS = {"prepare": f"{SCHEDULER}\n{ALL}"}
FP32 = "accelerator.unwrap_model(model, keep_fp32_wrapper=False)"
BF16 = "accelerator = Accelerator(mixed_precision='bf16')"
FREEZE = "model.layer.requires_grad_(False)\n{prepare}"
UNFREEZE = """\
def thaw(model):
    accelerator.unwrap_model(model).layer.requires_grad_(True){mark}
"""
SPLIT = "accelerator = Accelerator(split_batches={})"
CONFIGURED = "accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))"
BOTH = "from accelerate.utils import DataLoaderConfiguration"

PREPARE = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
# One of two schedulers, and what is prepared of it.
CHOSEN = """\
if epochs > 3:
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
else:
    scheduler = torch.optim.lr_scheduler.{other}
"""
EITHER = f"{CHOSEN.format(other='CosineAnnealingLR(optimizer, T_max=20)')}{ALL}"
NEITHER = EITHER.replace(ALL, PREPARE)
OR_PLATEAU = f"{CHOSEN.format(other='ReduceLROnPlateau(optimizer)')}{ALL}"
BY_KIND = "if epochs > 3:\n        scheduler.step()  # HERE\n    else:\n        scheduler.step(0.1)"


def epochs(end: str, each: str = "", **slots: str) -> str:
    return script(**{**CALLED, **slots}, definitions=EPOCH.format(end=end, each=each))


REPORTED = [
    ("SCHED-EPOCH", epochs("scheduler.step()  # HERE")),
    ("SCHED-EPOCH", epochs("scheduler.step()  # HERE", setup="epochs = 3", prepare=EITHER)),
    ("SCHED-EPOCH", epochs(BY_KIND, setup="epochs = 3", prepare=OR_PLATEAU)),
    ("SCHED-PLATEAU", epochs("scheduler.step(0.1)  # HERE", prepare=f"{PLATEAU}\n{ALL}")),
    ("UNWRAP-FP32", epochs(f"{FP32}  # HERE", device=BF16)),
    (
        "DDP-UNFREEZE",
        script(
            definitions=UNFREEZE.format(mark="  # HERE"),
            prepare=FREEZE.format(prepare=PREPARE),
            epoch="if epoch == 1:\n    thaw(model)",
        ),
    ),
    ("SPLIT-IGNORED", script(device=f"{SPLIT.format(True)}  # HERE")),
    ("SPLIT-IGNORED", script(device="accelerator = Accelerator(True, True)  # HERE")),
    (
        "SCHED-EPOCH",
        script(device=SPLIT.format(True), **STEPS, epoch_end="scheduler.step()  # HERE"),
    ),
]
SILENT = [
    ("SCHED-EPOCH", epochs("scheduler.step(epoch)", setup="epochs = 3", prepare=EITHER)),
    ("SCHED-EPOCH", epochs("scheduler.step()", setup="epochs = 3", prepare=NEITHER)),
    ("SCHED-PLATEAU", epochs(BY_KIND, setup="epochs = 3", prepare=OR_PLATEAU)),
    ("SCHED-EPOCH", epochs("pass", each="\n        scheduler.step()")),
    ("SCHED-EPOCH", epochs("scheduler.step(epoch)")),
    ("SCHED-EPOCH", script(**ONCE, definitions=EPOCH.format(end="scheduler.step()", each=""))),
    ("SCHED-EPOCH", script(**{**CALLED, "batch_end": ""}, definitions="def train(*given):\n    scheduler.step()\n")),
    (
        "SCHED-EPOCH",
        script(from_imports=BOTH, device=CONFIGURED, **STEPS, epoch_end="scheduler.step()"),
    ),
    (
        "SCHED-EPOCH",
        script(
            imports="import project",
            device="accelerator = Accelerator(dataloader_config=project.CONFIG)",
            prepare=f"{SCHEDULER}\n{ALL}",
            epoch_end="scheduler.step()",
        ),
    ),
    ("UNWRAP-FP32", script(**ONCE, device=BF16, definitions=EPOCH.format(end=FP32, each=""))),
    (
        "DDP-UNFREEZE",
        script(definitions=UNFREEZE.format(mark=""), prepare=FREEZE.format(prepare=f"thaw(model)\n{PREPARE}")),
    ),
    (
        "DDP-UNFREEZE",  # called before, too: then it is trained when it is wrapped
        script(
            definitions=UNFREEZE.format(mark=""),
            prepare=FREEZE.format(prepare=f"thaw(model)\n{PREPARE}"),
            epoch="if epoch == 1:\n    thaw(model)",
        ),
    ),
    ("SPLIT-IGNORED", script(device=SPLIT.format(False))),
    ("SPLIT-IGNORED", script(from_imports=BOTH, device=CONFIGURED)),
    ("SPLIT-IGNORED", script("accelift", device=SPLIT.format(True))),
]


@pytest.mark.parametrize(("code", "text"), REPORTED)
def test_what_is_wrong_in_functions_is_reported(code: str, text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, code)] == marked(text)


@pytest.mark.parametrize(("code", "text"), SILENT)
def test_what_is_right_in_functions_is_not(code: str, text: str) -> None:
    assert findings(text, code) == []
