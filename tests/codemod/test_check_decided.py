"""`accelift check` of what all processes do together, but each decides for itself whether it takes part."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script

WAITS = "accelerator.wait_for_everyone()"
JOIN = "def join(accelerator, value):\n    return accelerator.gather(value)\n"

REPORTED = [
    script(batch_end=f"if loss.item() < 1:\n    {WAITS}  # HERE"),
    script("accelift", batch_end="if loss.item() < 1:\n    print(accelerator.gather(loss))  # HERE"),
    script(backward="if not torch.isnan(loss):\n    accelerator.backward(loss)  # HERE"),
    script(definitions=JOIN, batch_end="if y.sum() > 3:\n    join(accelerator, loss)  # HERE"),
    script(batch_end=f"if loss.item() < 1:\n    {WAITS}  # HERE\nelse:\n    accelerator.print('high')"),
    script(batch_end=f"if epoch > 0:\n    if loss.item() < 1:\n        {WAITS}  # HERE"),
]
SILENT = [
    script(batch_end=f"if accelerator.gather(loss).mean() < 1:\n    {WAITS}"),
    script(batch_end=f"if epoch > 0:\n    {WAITS}"),
    script(batch_end=f"if len(y) > 3 and y is not None and loss.requires_grad:\n    {WAITS}"),
    script(batch_end="if loss.item() < 1:\n    accelerator.set_trigger()"),
    script(batch_end="if loss.item() < 1:\n    accelerator.gather(loss)\nelse:\n    accelerator.gather(loss * 0)"),
    script(batch_end="if loss.item() < 1:\n    accelerator.print('low')"),
    script(imports="import project", batch_end=f"if project.agrees(loss):\n    {WAITS}"),
    script(definitions=f"def later():\n    {WAITS}\n", batch_end="if loss.item() < 1:\n    done = later\nlater()"),
]


@pytest.mark.parametrize("text", REPORTED)
def test_what_some_may_not_come_to_is_reported(text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, "COLL-RANKFLOW")] == marked(text)


@pytest.mark.parametrize("text", SILENT)
def test_what_all_come_to_is_not(text: str) -> None:
    assert findings(text, "COLL-RANKFLOW") == []


PLATEAU = "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("loss.item()", True),
        ("metrics=loss.detach()", True),
        ("running / len(loader)", True),
        ("accelerator.reduce(loss.detach(), 'mean').item()", False),
        ("accelerator.gather_for_metrics(loss.detach()).mean()", False),
        ("epoch", False),
    ],
)
@pytest.mark.parametrize("library", ["accelerate", "accelift"])
def test_a_schedule_that_goes_by_a_value_of_a_process(library: str, given: str, told: bool) -> None:
    slots = {"before": PLATEAU, "epoch": "running = 0", "batch_end": "running += loss.item()"}
    text = script(library, **slots, epoch_end=f"scheduler.step({given}){'  # HERE' if told else ''}")
    assert [f.line for f in findings(text, "COLL-RANKFLOW")] == marked(text)


LOADS = "accelerator.load_state('ckpt')"
PREPARES = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"


@pytest.mark.parametrize(
    ("prepare", "found"),
    [
        (f"{LOADS}  # HERE\n{PREPARES}", True),
        (f"if optimizer.defaults:\n    {LOADS}  # HERE\n{PREPARES}", True),
        (f"{PREPARES}\n{LOADS}", False),
        (
            f"model = accelerator.prepare(model)\n{LOADS}\noptimizer, loader = accelerator.prepare(optimizer, loader)",
            False,
        ),
        (f"if optimizer.defaults:\n    {LOADS}\nelse:\n    {PREPARES}", False),
    ],
)
def test_a_state_that_is_loaded_before_prepare(prepare: str, found: bool) -> None:
    text = script(prepare=prepare)
    assert [f.line for f in findings(text, "STATE-EARLY")] == marked(text)
    assert bool(marked(text)) is found
    assert findings(script("accelift", prepare=prepare), "STATE-EARLY") == []


@pytest.mark.parametrize("joined", ["mean()", "min().item()", "float().max()"])
def test_copies_that_are_joined_have_the_mean_of_one(joined: str) -> None:
    again = "accelerator.gather(accelerator.gather(loss.detach()).mean()[None])"
    assert [f.code for f in findings(script(batch_end=f"a = {again}.{joined}"), "METRIC-TWICE")] == (
        ["METRIC-TWICE"] if joined.startswith("float") else []
    )
    assert findings(script(batch_end=f"a = {again}.sum()"), "METRIC-TWICE") != []


MADE_UP = "import random\nimport time\nimport numpy as np"


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("random.random() < 0.1", True),
        ("np.random.rand() < 0.1", True),
        ("time.time() - began > 3600", True),
        ("accelerator.gather(torch.tensor([time.time() - began])).max() > 3600", False),
        ("random.Random(0).random() < 0.1", False),
        ("len(drawn) > 3", False),
        ("epoch > 3", False),
    ],
)
@pytest.mark.parametrize("leaves", ["continue", "break"])
def test_what_a_process_makes_up_decides(test: str, told: bool, leaves: str) -> None:
    slots = {"imports": MADE_UP, "before": "began = time.time()\ndrawn = TensorDataset(torch.randn(8, 8))"}
    text = script(**slots, move=f"if {test}:\n    {leaves}{'  # HERE' if told else ''}")
    assert [f.line for f in findings(text, "COLL-RANKFLOW")] == marked(text)
    seeded = script(**slots, setup="random.seed(0)\nnp.random.seed(0)", move=f"if {test}:\n    {leaves}")
    assert bool(findings(seeded, "COLL-RANKFLOW")) is (told and "time" in test)
    shown = script(**slots, batch_end=f"if {test}:\n    accelerator.print(loss)")
    assert findings(shown, "COLL-RANKFLOW") == []


def test_whoever_runs_a_trainer_may_seed() -> None:
    text = """\
import random
from accelerate import Accelerator


class Fit:
    def __init__(self, net, loader):
        self.accelerator = Accelerator()
        self.net, self.loader = self.accelerator.prepare(net, loader)

    def fit(self):
        for x in self.loader:
            if random.random() < 0.1:
                break
            self.accelerator.wait_for_everyone()
"""
    assert findings(text, "COLL-RANKFLOW") == []
    started = f"{text}\n\nimport project\n\nFit(project.net, project.loader).fit()\n"
    assert [f.line for f in findings(started, "COLL-RANKFLOW")] == [13]


TRIES = "try:\n    accelerator.backward(loss)\n{}"


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        ("except RuntimeError:  # HERE\n    continue", True),
        ("except RuntimeError as error:  # HERE\n    if 'memory' in str(error):\n        continue\n    raise", True),
        ("except Exception as error:  # HERE\n    print(error)", True),
        ("except Exception as error:\n    print(error)\n    raise", False),
        ("except RuntimeError:\n    exit(1)", False),
        ("except KeyboardInterrupt:\n    break", False),
        ("except Stopped:\n    break", False),
        ("except torch.cuda.OutOfMemoryError:  # HERE\n    continue", True),
        ("finally:\n    y = None", False),
    ],
)
def test_errors_that_one_process_deals_with(handler: str, told: bool) -> None:
    text = script(definitions="class Stopped(Exception):\n    pass\n", backward=TRIES.format(handler))
    assert [f.line for f in findings(text, "COLL-EXCEPT")] == marked(text)
    assert bool(marked(text)) is told
    alone = text.replace("    accelerator.backward(loss)\n", "    loss.item()\n")
    assert findings(alone, "COLL-EXCEPT") == []


def test_a_state_that_some_processes_save() -> None:
    """Nobody waits under DistributedDataParallel, but with the bundled runtime."""
    best = "if {}:\n    accelerator.save_state('best')"
    for library, severity in (("accelerate", "warning"), ("accelift", "error")):
        found = findings(script(library, batch_end=best.format("loss.item() < 1")), "COLL-RANKFLOW")
        assert [f.severity.value for f in found] == [severity]
    everywhere = best.format("accelerator.gather(loss.detach()).mean() < 1")
    assert findings(script(batch_end=everywhere), "COLL-RANKFLOW") == []
