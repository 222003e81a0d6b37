"""`accelift check` of runs, curves and logs: one for a training, not one for each process."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script

WANDB = {"imports": "import wandb"}
BOARD = {"from_imports": "from torch.utils.tensorboard import SummaryWriter"}
LOGS = {"imports": "import logging"}

REPORTED = [
    script(**WANDB, before="wandb.init(project='p')  # HERE"),
    script("accelift", **WANDB, before="run = wandb.init(project='p', name='a', config={'a': 1})  # HERE"),
    script(**WANDB, definitions="def track():\n    wandb.init(project='p')  # HERE\n", before="track()"),
    script(**BOARD, before="writer = SummaryWriter('runs')  # HERE", after="writer.add_scalar('loss', 1.0, 0)"),
    script(**LOGS, setup="logging.basicConfig(filename='train.log')  # HERE"),
    script(**LOGS, setup="logging.getLogger('a').addHandler(logging.FileHandler('a.log'))  # HERE"),
    script(imports="import mlflow", before="mlflow.start_run()  # HERE"),
]
SILENT = [
    script(**WANDB, before="if accelerator.is_main_process:\n    wandb.init(project='p')"),
    script(**WANDB, before="wandb.init(mode='online' if accelerator.is_main_process else 'disabled')"),
    script(**WANDB, before="wandb.init(project='p', group='training')"),
    script(**WANDB, before="wandb.init(project='p', name=f'part{accelerator.process_index}')"),
    script(**WANDB, before="settings = {'mode': 'disabled'}\nwandb.init(**settings)"),
    script(**WANDB, definitions="def track():\n    wandb.init(project='p')\n"),
    script(**BOARD, before="writer = SummaryWriter('runs') if accelerator.is_main_process else None"),
    script(**BOARD, before="writer = SummaryWriter(f'runs/{accelerator.process_index}')"),
    script(**LOGS, setup="logging.basicConfig(level=logging.INFO)"),
    script(**LOGS, before="logging.FileHandler(f'{accelerator.process_index}.log')"),
    script(device="accelerator = Accelerator(log_with='wandb')", before="accelerator.init_trackers('p')"),
]


@pytest.mark.parametrize("text", REPORTED)
def test_what_every_process_keeps_is_reported(text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, "TRACK-ALL")] == marked(text)


@pytest.mark.parametrize("text", SILENT)
def test_what_one_process_keeps_is_not(text: str) -> None:
    assert findings(text, "TRACK-ALL") == []
