"""Checkpoints of several processes."""

from __future__ import annotations

import errno
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from accelift import ProjectConfiguration
from accelift.checkpoint import meeting
from runtime_checks import Checks, accelerator, raises, warned
from torch import nn
from torch.nn.parallel import DistributedDataParallel

check = Checks()
FOLDER = Path(sys.argv[1]).parent


def prepared(**arguments: Any) -> Any:
    """An Accelerator, a model with buffers, and its optimizer."""
    acc = accelerator(**arguments)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    return acc, *acc.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


def trained(acc: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """One step, on other data on each process."""
    torch.manual_seed(acc.process_index)
    acc.backward(model(torch.randn(4, 3)).square().sum())
    optimizer.step()
    optimizer.zero_grad()


def left_alone(acc: Any, folder: Path, model: nn.Module, weight: torch.Tensor) -> None:
    """Assert that a checkpoint with this weight is still there, and nothing else beside it."""
    acc.wait_for_everyone()
    assert not [path for path in [*folder.parent.iterdir(), *folder.iterdir()] if "unfinished" in path.name]
    with torch.no_grad():
        model[0].weight.zero_()  # type: ignore[index, union-attr, operator]
    acc.load_state(folder)
    assert torch.equal(model[0].weight, weight)  # type: ignore[index]


class Broken:
    """An object whose state cannot be loaded without its class."""

    def state_dict(self) -> dict[str, Any]:
        return {"path": Path("x")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise AssertionError


@check
def one_checkpoint_of_all_processes() -> None:
    acc, model, optimizer = prepared()
    trained(acc, model, optimizer)
    assert acc.save_state(FOLDER / "all") == FOLDER / "all"
    weight, drawn = model[0].weight.detach().clone(), torch.rand(3)
    acc.wait_for_everyone()
    names = {path.name for path in (FOLDER / "all").iterdir()}
    own = {f"random_states_{rank}.pkl" for rank in range(acc.num_processes)}
    buffers = {f"buffers_{rank}.bin" for rank in range(1, acc.num_processes)}
    assert names == own | buffers | {"accelift_checkpoint.json", "model.safetensors", "optimizer.bin"}, names
    with torch.no_grad():
        model[0].weight.zero_()
    acc.load_state(FOLDER / "all")
    assert torch.equal(model[0].weight, weight)
    assert torch.equal(torch.rand(3), drawn), "the generator of each process is its own"


@check
def buffers_may_differ() -> None:
    acc, model, optimizer = prepared()
    trained(acc, model, optimizer)
    with acc.no_sync(model):
        model(torch.randn(4, 3))
    mean = model[1].running_mean.clone()
    acc.save_state(FOLDER / "buffers")
    other, again, step = prepared()
    other.load_state(FOLDER / "buffers")
    assert torch.equal(again[1].running_mean, mean)
    assert isinstance(again, DistributedDataParallel) and not again.require_forward_param_sync
    again(torch.zeros(4, 3))
    assert not torch.equal(again[1].running_mean, mean)
    everyones = other.gather(again[1].running_mean[None])
    assert not torch.equal(everyones[0], everyones[-1]), "the first forward took the main process's buffers"
    del step


@check
def failures_reach_everybody() -> None:
    acc, model, optimizer = prepared()
    folder = FOLDER / "failing"
    acc.save_state(folder)
    weight = model[0].weight.detach().clone()

    def fill_the_disk(*_: Any) -> None:
        if acc.is_last_process:
            raise OSError(errno.ENOSPC, "No space left on device")

    trained(acc, model, optimizer)
    handle = acc.register_save_state_pre_hook(fill_the_disk)
    with raises(OSError, f"cannot save to {folder}: No space left on device"):
        acc.save_state(folder)
    left_alone(acc, folder, model, weight)
    handle.remove()
    acc.register_for_checkpointing(Broken())
    with raises(ValueError, "the state of Broken"):
        acc.save_state(folder)
    acc._registered.objects.clear()
    handle = acc.register_save_state_pre_hook(lambda *_: {}["x"] if acc.is_last_process else None)
    kind, part = (KeyError, "x") if acc.is_last_process else (RuntimeError, "failed with KeyError: 'x'")
    with raises(kind, part):
        acc.save_state(folder)
    handle.remove()
    left_alone(acc, folder, model, weight)


@check
def a_file_that_cannot_grow() -> None:
    acc, model, optimizer = prepared()
    folder = FOLDER / "full"
    acc.save_state(folder)
    weight = model[0].weight.detach().clone()
    trained(acc, model, optimizer)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if acc.is_main_process:
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, limit[1]))
    with raises(OSError, f"cannot save to {folder}: File too large"):
        acc.save_state(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    signal.signal(signal.SIGXFSZ, before)
    left_alone(acc, folder, model, weight)


@check
def the_main_process_alone() -> None:
    acc, model, optimizer = prepared()
    trained(acc, model, optimizer)
    meeting.COMING, before = 0.3, meeting.COMING
    if acc.is_main_process:
        with warned("not under `if accelerator.is_main_process:`"):
            acc.save_state(FOLDER / "guarded")
    acc.wait_for_everyone()
    meeting.COMING = meeting.COMING_AGAIN = before  # processes may be a second late here, in what follows, too
    if not acc.is_main_process:  # as if they were late
        with warned("which came too late"):
            acc.save_state(FOLDER / "guarded")
    torch.manual_seed(5)
    with warned("it has no random generators of process", times=int(not acc.is_main_process)):
        acc.load_state(FOLDER / "guarded")
    own = torch.Generator().manual_seed(5).get_state()
    assert torch.equal(torch.get_rng_state(), own) != acc.is_main_process
    acc.save_state(FOLDER / "guarded")  # and now all of them again
    with warned("it has no random generators of process", times=0):
        acc.load_state(FOLDER / "guarded")


@check
def folders_of_their_own() -> None:
    acc, model, optimizer = prepared()
    trained(acc, model, optimizer)
    folder = FOLDER / f"own-{acc.process_index}"
    for _ in range(2):
        acc.save_state(folder)
        drawn, weight = torch.rand(3), model[0].weight.detach().clone()
        with torch.no_grad():
            model[0].weight.zero_()
        with warned("", times=0):
            acc.load_state(folder)
        assert torch.equal(model[0].weight, weight) and torch.equal(torch.rand(3), drawn)
        assert not [path for path in folder.parent.iterdir() if "unfinished" in path.name and "own" in path.name]


@check
def numbered_checkpoints() -> None:
    config = ProjectConfiguration(str(FOLDER / "project"), automatic_checkpoint_naming=True, total_limit=2)
    acc, model, optimizer = prepared(project_config=config)
    for number in range(4):
        with torch.no_grad():
            model[0].weight.fill_(number)
        assert acc.save_iteration == number
        assert acc.save_state().name == f"checkpoint_{number}"
    acc.wait_for_everyone()
    acc.project_configuration.iteration = 3
    with raises(ValueError, "checkpoint_3 exists already"):
        acc.save_state()
    acc.wait_for_everyone()
    left = sorted(path.name for path in (FOLDER / "project" / "checkpoints").iterdir())
    assert left == ["checkpoint_2", "checkpoint_3"], left
    config = ProjectConfiguration(str(FOLDER / "project"), automatic_checkpoint_naming=True)
    later, again, _step = prepared(project_config=config)
    later.load_state()
    assert later.save_iteration == 4 and torch.equal(again[0].weight, torch.full((3, 3), 3.0))
    acc.wait_for_everyone()
    del optimizer


@check
def models_alone_are_evaluated() -> None:
    acc, model, optimizer = prepared()
    trained(acc, model, optimizer)
    acc.save_state(FOLDER / "evaluated")
    other = accelerator()
    again = other.prepare(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    other.load_state(FOLDER / "evaluated")
    assert torch.equal(again[0].weight, model[0].weight)


@check
def models_are_written_once() -> None:
    acc, model, _optimizer = prepared()
    acc.save_model(model, FOLDER / "exported")
    acc.save(model.state_dict(), FOLDER / "saved.safetensors", safe_serialization=True)
    acc.wait_for_everyone()
    assert [path.name for path in (FOLDER / "exported").iterdir()] == ["model.safetensors"]
    assert (FOLDER / "saved.safetensors").stat().st_size == (FOLDER / "exported" / "model.safetensors").stat().st_size


if __name__ == "__main__":
    check.main()
