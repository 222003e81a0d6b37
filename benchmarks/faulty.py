"""A training script that goes wrong at its tenth step, in the way that its first argument names.

    accelift launch --cpu --num_processes 2 benchmarks/faulty.py FAULT FOLDER

It saves its state into FOLDER every four steps.  ``resume`` instead of a fault continues from the
newest checkpoint there and prints the step that it was saved at.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

import torch
from accelift import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FAULT_AT, SAVE_EVERY = 10, 4
WIDTH = 1024  # the checkpoint is about 12 MB


def together(folder: Path, rank: int, ranks: int) -> None:
    """Wait until all processes have loaded their libraries, which may take longer than the timeout."""
    (folder / f"ready.{rank}").touch()
    while not all((folder / f"ready.{other}").exists() for other in range(ranks)):
        time.sleep(0.02)


def evaluate() -> None:
    """What only some processes do, for long."""
    time.sleep(600)


def kill_when_saving(folder: Path) -> None:
    """End this process with SIGKILL as soon as it has written a part of a checkpoint."""
    known = set(folder.rglob("*"))

    def watch() -> None:
        while not any(path.is_file() and path.stat().st_size for path in set(folder.rglob("*")) - known):
            time.sleep(0.0005)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def go_wrong(fault: str, accelerator: Accelerator, folder: Path) -> bool:
    """Do what the fault is; whether the loop is left."""
    rank = accelerator.process_index
    if rank == 0:
        (folder / "fault").touch()
    if fault == "kill" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "exception" and rank == 1:
        raise ValueError("a bad sample")
    elif fault == "early" and rank == 1:
        return True
    elif fault in ("shapes", "shapes-debug"):
        accelerator.gather(torch.ones(2 + rank))
    elif fault == "guard" and accelerator.is_main_process:
        accelerator.gather(torch.ones(2))
    elif fault == "elsewhere" and rank == 1:
        evaluate()
    elif fault == "kill-saving" and rank == 0:
        kill_when_saving(folder)
        accelerator.save_state(str(folder / "step-10"))
    elif fault == "kill-saving":
        accelerator.save_state(str(folder / "step-10"))
    elif fault == "full":
        if os.environ.get("FAULTY_FILE_LIMIT"):  # where no small disk can be had
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        accelerator.save_state(str(folder / "step-10"))
    return False


def main() -> None:
    fault, folder = sys.argv[1], Path(sys.argv[2])
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    together(folder, int(os.environ.get("RANK", "0")), ranks)
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, split_batches=True, debug=fault == "shapes-debug")
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1))
    optimizer = torch.optim.Adam(model.parameters())
    data = TensorDataset(torch.randn(32, 8), torch.randn(32, 1))
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=8, shuffle=True))
    if fault == "resume":
        saved = sorted(folder.glob("step-*"), key=lambda path: int(path.name.split("-")[1]))
        accelerator.load_state(str(saved[-1]))
        accelerator.print(f"resumed at {saved[-1].name}", flush=True)
        return
    step = 0
    while True:
        for x, y in loader:
            if step == FAULT_AT and go_wrong(fault, accelerator, folder):
                return
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            if step % SAVE_EVERY == 0 and step < FAULT_AT:
                accelerator.save_state(str(folder / f"step-{step}"))


if __name__ == "__main__":
    main()
