"""Kills processes while they save, and looks at what they leave.

Each is a fork of this one, begins with a complete checkpoint or with none, and is killed at one point: before the n-th
operation on the file system, for every n, or after some time.  ``killed_saving.py FOLDER`` prints how many were killed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from accelift import Accelerator, ProjectConfiguration
from torch import nn

OPERATIONS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")


class Run:
    """A run whose models and optimizer have the same number everywhere.

    Args:
        folder: where the project is.
        limit: how many checkpoints are kept, if they are numbered.
    """

    def __init__(self, folder: Path, limit: int | None = None, size: int = 4) -> None:
        self.folder = folder
        config = ProjectConfiguration(str(folder), automatic_checkpoint_naming=limit is not None, total_limit=limit)
        self.acc = Accelerator(cpu=True, project_config=config)
        self.models = [nn.Linear(size, size), nn.Linear(size, size)]
        parameters = [parameter for model in self.models for parameter in model.parameters()]
        self.optimizer = torch.optim.SGD(parameters, lr=1.0, momentum=1.0)
        prepared = self.acc.prepare(*self.models, self.optimizer)
        self.to = None if limit is not None else folder / "checkpoint"
        del prepared

    def values(self) -> list[torch.Tensor]:
        momenta = [state["momentum_buffer"] for state in self.optimizer.state.values()]
        return [*(parameter.data for group in self.optimizer.param_groups for parameter in group["params"]), *momenta]

    def save(self, number: float) -> None:
        """Save a state in which all is this number."""
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                self.optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        for value in self.values():
            value.fill_(number)
        self.acc.save_state(self.to)

    def load(self) -> float:
        """The number of the state that is there; all of it must be the same."""
        self.acc.load_state(self.to)
        numbers = {number for value in self.values() for number in value.flatten().tolist()}
        assert len(numbers) == 1, f"a mixture of {numbers}"
        return float(numbers.pop())


def killed(act: Callable[[], None], at: int | None = None, after: float = 0.0) -> bool:
    """Do something in a fork that is killed, at an operation or after some seconds; whether it was."""
    pid = os.fork()
    if pid == 0:
        count = 0

        def hook(event: str, _: object) -> None:
            nonlocal count
            if event in OPERATIONS:
                count += 1
                if count == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        if at is not None:
            sys.addaudithook(hook)
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    if at is None:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "saving failed"
    return False


def everywhere(check: Callable[[int], bool]) -> int:
    """Run a check for each operation at which a process can be killed; how many there are."""
    at = 1
    while check(at):
        at += 1
    return at - 1


def replaced(folder: Path, at: int) -> bool:
    """A checkpoint is replaced by another, which is never lost, nor are other files in the folder."""
    run = Run(folder)
    run.save(1.0)
    other = folder / "checkpoint" / "notes.txt"
    other.write_text("keep me")
    was_killed = killed(lambda: run.save(2.0), at)
    assert run.load() in ((1.0, 2.0) if was_killed else (2.0,))
    run.save(3.0)  # also where that one was not cleaned up
    assert run.load() == 3.0 and other.read_text() == "keep me"
    names = {path.name for path in (folder / "checkpoint").iterdir()}
    assert not [name for name in names if "accelift-" in name], names
    return was_killed


def saved_again(folder: Path, at: int) -> bool:
    """Saving goes on after a kill, also where nobody has loaded in between."""
    run = Run(folder)
    run.save(1.0)
    was_killed = killed(lambda: run.save(2.0), at)
    run.save(3.0)
    assert run.load() == 3.0
    return was_killed


def new(folder: Path, at: int) -> bool:
    """A checkpoint is either not there or complete."""
    folder = folder / str(at)
    folder.mkdir()
    run = Run(folder)
    was_killed = killed(lambda: run.save(1.0), at)
    if (folder / "checkpoint").exists() or not was_killed:
        assert run.load() == 1.0
    run.save(2.0)
    assert run.load() == 2.0 and [path.name for path in folder.iterdir()] == ["checkpoint"]
    return was_killed


def numbered(folder: Path, at: int) -> bool:
    """The newest complete checkpoint is loaded, and old ones go only when there is a new one."""
    folder = folder / str(at)
    run = Run(folder, limit=2)
    run.save(0.0)
    run.save(1.0)
    was_killed = killed(lambda: run.save(2.0), at)
    assert run.load() in ((1.0, 2.0) if was_killed else (2.0,))
    run.save(3.0)
    left = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert len(left) == 2 and run.load() == 3.0, left
    return was_killed


def at_any_time(folder: Path, times: int) -> int:
    """Large checkpoints, killed after random times."""
    run = Run(folder, size=500)
    run.save(0.0)
    draw = random.Random(0)

    def save_on() -> None:
        number = 0.0
        while True:
            number += 1
            run.save(number)

    for _ in range(times):
        assert killed(save_on, after=draw.uniform(0.0, 0.06))
        run.load()
    return times


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = Path(sys.argv[1])
    counts = {}
    for check in (replaced, saved_again, new, numbered):
        place = root / check.__name__
        place.mkdir()
        counts[check.__name__] = everywhere(lambda at, check=check, place=place: check(place, at))  # type: ignore[misc]
    place = root / "at_any_time"
    place.mkdir()
    counts["at_any_time"] = at_any_time(place, 30)
    print(counts)
