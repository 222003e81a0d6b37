"""`accelift check` of what goes past wrappers: forward passes, gradients, schedulers, parameters, what is saved."""

from __future__ import annotations

import pytest
from accelift_codemod.plan import Severity

from tests.codemod.checks import evaluating, findings, marked, script

METHODS = """\
class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def loss(self, x, y):
        return F.cross_entropy(self.layer(x), y)

    @torch.no_grad()
    def target(self, x):
        return self.layer(x)

    def size(self):
        return sum(p.pow(2).sum() for p in self.parameters())

    def forward(self, x):
        return self.layer(x)
"""
CODER = {"definitions": METHODS, "model": "model = Coder()"}
ZERO = "optimizer.zero_grad()\n"
TRAIN = """\
def train(accelerator, model, optimizer, loader):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y){}
        accelerator.backward(loss)
        optimizer.step()
"""
IN_MAIN = {"main": True, "loop": "pass", "move": "", "forward": "", "backward": "", "step": ""}
OTHER = "wrapped, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
CALLED = "train(accelerator, {}, optimizer, loader)"
LATER = "scale = nn.Parameter(torch.ones(1))\noptimizer.add_param_group({{'params': [{}], 'lr': 0.1}})"
LEAF = "scale = torch.ones(1, requires_grad={})\noptimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.1)"
SHARED = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
SCHEDULER = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
ACCUMULATES = "accelerator = Accelerator(gradient_accumulation_steps=4)"
BESIDE = {
    "device": ACCUMULATES,
    "before": SCHEDULER,
    "forward": "with accelerator.accumulate(model):\n    accelerator.backward(F.cross_entropy(model(x), y))\n"
    "    optimizer.step()\n    optimizer.zero_grad()",
    "backward": "",
}
NO_SYNC = "with {}.no_sync():\n    accelerator.backward(F.cross_entropy(model(x), y))"
NAMED = (
    "config = ProjectConfiguration(project_dir='out', automatic_checkpoint_naming={})\n"
    "accelerator = Accelerator(project_config=config)"
)
SAVES = "if accelerator.is_main_process:\n    accelerator.save_state()"

UNWRAPPED = (
    "if {test}:\n    {name} = accelerator.unwrap_model(model){mark}\n    accelerator.save({name}.state_dict(), 'm.pt')"
)
MEASURED = "correct += accelerator.unwrap_model(model).loss(x, y).item(){}"

REPORTED = [
    ("METRIC-LOCAL", evaluating(MEASURED.format("  # HERE"), **CODER)),
    *(
        ("DDP-METHOD", script(epoch_end=UNWRAPPED.format(test=test, name="model", mark="  # HERE")))
        for test in ("accelerator.is_main_process", "epoch % 2 == 0", "args.folder")
    ),
    ("DDP-METHOD", script(**CODER, forward=f"{ZERO}loss = accelerator.unwrap_model(model).loss(x, y)  # HERE")),
    ("DDP-METHOD", script(**CODER, forward=f"{ZERO}loss = model.module.loss(x, y)  # HERE")),
    (
        "DDP-METHOD",
        script(**CODER, before="net = accelerator.unwrap_model(model)", forward="loss = net.loss(x, y)  # HERE"),
    ),
    ("DDP-METHOD", script(forward=f"{ZERO}loss = F.cross_entropy(model.module(x), y)  # HERE")),
    (
        "DDP-METHOD",
        script(**{**IN_MAIN, "prepare": OTHER, "loop": CALLED.format("model")}, definitions=TRAIN.format("  # HERE")),
    ),
    ("DDP-NOSYNC", script(forward=NO_SYNC.format("model").replace("():", "():  # HERE"), backward="")),
    (
        "DDP-FREEPARAM",
        script(before="", optimizer=SHARED + LATER.format("scale").replace("lr': 0.1})", "lr': 0.1})  # HERE")),
    ),
    ("DDP-FREEPARAM", script(optimizer=f"{LEAF.format(True)}  # HERE")),
    ("SCHED-UNPREPARED", script(**BESIDE, step="scheduler.step()  # HERE")),
    ("DATA-TAIL", script(before="accelerator.even_batches = False", loop="for x, y in loader:  # HERE")),
    ("SAVE-WRAPPED", script(after="if accelerator.is_main_process:\n    torch.save(model, 'm.pt')  # HERE")),
    ("SAVE-WRAPPED", script(after="accelerator.save({'model': model, 'epoch': 3}, 'm.pt')  # HERE")),
]
SILENT = [
    ("METRIC-LOCAL", evaluating(f"x, y = accelerator.gather_for_metrics((x, y))\n{MEASURED.format('')}", **CODER)),
    ("DDP-METHOD", script(epoch_end=UNWRAPPED.format(test="epoch % 2 == 0", name="net", mark=""))),
    ("DDP-METHOD", script(epoch_end=UNWRAPPED.format(test="epoch == 2", name="model", mark=""))),
    ("DDP-METHOD", script(epoch_end=f"{UNWRAPPED.format(test='epoch % 7 == 6', name='model', mark='')}\n    break")),
    ("DDP-METHOD", script(after=UNWRAPPED.format(test="args.folder", name="model", mark=""))),
    (
        "DDP-METHOD",
        script(**CODER, forward=f"{ZERO}loss = model(x).mean() + accelerator.unwrap_model(model).loss(x, y)"),
    ),
    (
        "DDP-METHOD",
        script(**CODER, forward=f"{ZERO}loss = F.cross_entropy(accelerator.unwrap_model(model).target(x), y)"),
    ),
    ("DDP-METHOD", script(**CODER, forward=f"{ZERO}loss = accelerator.unwrap_model(model).size()")),
    ("DDP-METHOD", script("accelift", **CODER, forward=f"{ZERO}loss = accelerator.unwrap_model(model).loss(x, y)")),
    ("DDP-METHOD", script(**CODER, after="model.module.loss(x, y)\nmodel.module(x)")),
    (
        "DDP-METHOD",
        script(**{**IN_MAIN, "prepare": OTHER, "loop": CALLED.format("wrapped")}, definitions=TRAIN.format("")),
    ),
    (
        "DDP-METHOD",  # trained before, on one process
        script(**{**IN_MAIN, "prepare": f"{CALLED.format('model')}\n{OTHER}"}, definitions=TRAIN.format("")),
    ),
    (
        "DDP-NOSYNC",
        script(
            forward=f"if epoch:\n    {NO_SYNC.format('model').replace(chr(10), chr(10) + '    ')}",
            backward="accelerator.backward(model(x).mean())",
        ),
    ),
    ("DDP-FREEPARAM", script(optimizer=SHARED + LATER.format("*nn.Linear(3, 3).parameters()"))),
    ("DDP-FREEPARAM", script(optimizer=LEAF.format(False))),
    ("SCHED-UNPREPARED", script(**BESIDE, step="if accelerator.sync_gradients:\n    scheduler.step()")),
    ("SCHED-UNPREPARED", script(**BESIDE, step="", epoch_end="scheduler.step()")),
    ("DATA-TAIL", script(before="accelerator.even_batches = True", loader="loader = DataLoader(data, drop_last=True)")),
    ("SAVE-WRAPPED", script(after="torch.save(accelerator.unwrap_model(model), 'm.pt')")),
    ("SAVE-WRAPPED", script("accelift", after="torch.save(model, 'm.pt')")),
    ("SAVE-WRAPPED", script(before="plain = Net()", after="torch.save({'plain': plain}, 'm.pt')")),
]


@pytest.mark.parametrize(("code", "text"), REPORTED)
def test_what_goes_past_is_reported(code: str, text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, code) if f.severity is not Severity.NOTE] == marked(text)


@pytest.mark.parametrize(("code", "text"), SILENT)
def test_what_does_not_is_not(code: str, text: str) -> None:
    assert [f for f in findings(text, code) if f.severity is not Severity.NOTE] == []


@pytest.mark.parametrize(("named", "severity"), [(True, Severity.ERROR), (False, Severity.WARNING)])
def test_folders_with_numbers_are_made_together(named: bool, severity: Severity) -> None:
    text = script(
        from_imports="from accelerate.utils import ProjectConfiguration", device=NAMED.format(named), after=SAVES
    )
    (found,) = findings(text, "COLL-MAIN")
    assert found.severity is severity
    assert ("until the job times out" in found.message) is named
