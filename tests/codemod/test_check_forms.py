"""`accelift check` of metrics and schedules in other forms: sums that are written out, evaluate, numbers of steps."""

from __future__ import annotations

import pytest

from tests.codemod.checks import evaluating, findings, marked, script
from tests.codemod.test_check_training import ALL

AGAIN = "correct = correct + (model(x).argmax(1) == y).sum().item()"
JOINED = """\
kept = torch.empty(0)
for x, y in test_loader:
    kept = {}
accelerator.print(kept.mean())
"""
METRIC = """\
metric = evaluate.load('accuracy'{})
for x, y in test_loader:
    {}
accelerator.print(metric.compute())
"""
ADD = "metric.add_batch(predictions=model(x).argmax(1), references=y)"
BOTH = "out, y = accelerator.gather_for_metrics((model(x), y))"
GATHERED = f"{BOTH}\n    metric.add_batch(predictions=out, references=y)"
LINEAR = "scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters={})"
NAMED = "scheduler = get_scheduler({}, optimizer=optimizer, num_warmup_steps=3, num_training_steps=most)"
STEPS = {"setup": "most, step = 20, 0", "step": "optimizer.step()\nscheduler.step()"}
END = "step += 1\nif step >= most:\n    break"


def metric(body: str, told: str = "") -> str:
    return evaluating("", imports="import evaluate", after=METRIC.format(told, body))


def ending(scheduler: str, end: str = END, **slots: str) -> str:
    return script(**{**STEPS, "prepare": f"{scheduler}\n{ALL}", "batch_end": end, **slots})


TRANSFORMERS = {"from_imports": "from transformers import get_scheduler"}
REPORTED = [
    ("METRIC-LOCAL", evaluating(f"{AGAIN}  # HERE")),
    ("METRIC-LOCAL", evaluating("correct = (model(x).argmax(1) == y).sum().item() + correct  # HERE")),
    ("METRIC-LOCAL", evaluating("", after=JOINED.format("torch.cat([kept, model(x).argmax(1)])  # HERE"))),
    ("METRIC-LOCAL", metric(f"{ADD}  # HERE")),
    ("SCHED-LEN", ending(f"{LINEAR.format('most')}  # HERE")),
    ("SCHED-LEN", ending(f"{LINEAR.format('most')}  # HERE", "step += 1", epochs="while step < most:\n    epoch = 1")),
    ("SCHED-LEN", ending(f"{NAMED.format(repr('linear'))}  # HERE", **TRANSFORMERS)),
]
SILENT = [
    ("METRIC-LOCAL", evaluating("correct = 0\n" + AGAIN)),
    (
        "METRIC-LOCAL",
        evaluating(f"{BOTH}\ncorrect = correct + (out == y).sum()"),
    ),
    ("METRIC-LOCAL", evaluating("", after=JOINED.format("torch.cat([model(x), model(x)])"))),
    ("METRIC-LOCAL", metric(GATHERED)),
    ("METRIC-LOCAL", metric(ADD, ", num_process=accelerator.num_processes, process_id=accelerator.process_index")),
    ("SCHED-LEN", ending(LINEAR.format("most * accelerator.num_processes"))),
    ("SCHED-LEN", ending(LINEAR.format("most"), "step += accelerator.num_processes\nif step >= most:\n    break")),
    ("SCHED-LEN", ending(LINEAR.format("3"))),
    ("SCHED-LEN", ending(LINEAR.format("most"), "", epoch_end="step += 1")),
    ("SCHED-LEN", ending(NAMED.format("repr(3)"), **TRANSFORMERS)),
    ("SCHED-LEN", ending(NAMED.format("'constant'"), **TRANSFORMERS)),
    ("SCHED-LEN", script(**STEPS, before=LINEAR.format("most"), batch_end=END)),
]


@pytest.mark.parametrize(("code", "text"), REPORTED)
def test_other_forms_are_reported(code: str, text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, code)] == marked(text)


@pytest.mark.parametrize(("code", "text"), SILENT)
def test_right_ones_are_not(code: str, text: str) -> None:
    assert findings(text, code) == []
