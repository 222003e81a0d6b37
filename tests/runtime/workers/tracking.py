"""What several processes log: the main process's numbers, once, without waiting for each other."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelift.tracking import GeneralTracker, on_main_process
from runtime_checks import Checks, accelerator, raises

check = Checks()
FOLDER = Path(sys.argv[1]).parent
acc = accelerator(log_with="jsonl", project_dir=FOLDER)
RANK = acc.process_index


def logged(name: str) -> list[dict[str, Any]]:
    acc.wait_for_everyone()
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


@check
def one_file_is_written_once() -> None:
    acc.init_trackers("once", config={"rank": RANK})
    for step in range(3):
        acc.log({"loss": torch.tensor(float(RANK)), "rank": RANK}, step=step)
    config, *lines = logged("once")
    assert config["config"] == {"rank": 0}
    assert [(line["step"], line["loss"], line["rank"]) for line in lines] == [(step, 0.0, 0) for step in range(3)]
    assert len(acc.trackers) == (RANK == 0) and acc.log_with == ["jsonl"]


@check
def logging_waits_for_nobody() -> None:
    if RANK == 0:  # alone, as diffusers' scripts do it
        acc.init_trackers("alone")
        for step in range(3):
            acc.log({"loss": 1.0}, step=step)
    acc.wait_for_everyone()
    if RANK > 0:
        acc.log({"loss": 2.0})
    assert [line["loss"] for line in logged("alone")] == [1.0] * 3


@check
def trackers_elsewhere_do_nothing() -> None:
    acc.init_trackers("elsewhere")
    tracker = acc.get_tracker("jsonl")
    tracker.log({"rank": RANK}, step=1)
    path = acc.get_tracker("jsonl", unwrap=True)
    if RANK > 0:
        path.add_image("x", 1).anything(2)
        assert isinstance(tracker, GeneralTracker) and not isinstance(path, Path)
    else:
        assert path == FOLDER / "elsewhere.jsonl"
    assert [line["rank"] for line in logged("elsewhere")] == [0]


@check
def wrong_names_are_refused_everywhere() -> None:
    with raises(ValueError, "knows no 'wandb'"):
        acc.get_tracker("wandb")
    with raises(ValueError, '"tensorbord") is not offered'):
        accelerator(log_with="tensorbord")
    with raises(ValueError, "needs a folder"):
        accelerator(log_with="jsonl")


class Mine(GeneralTracker):
    """Keeps what it is told."""

    name = "mine"
    requires_logging_directory = False

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Any] = []

    @property
    def tracker(self) -> list[Any]:
        return self.heard

    def log(self, values: Any, step: int | None = None, **kwargs: Any) -> None:
        self.heard.append((values, step, kwargs))

    @on_main_process
    def note(self, what: str) -> str:
        self.heard.append(what)
        return what


class Everybodys(Mine):
    main_process_only = False


@check
def trackers_of_ones_own_hear_the_main_process() -> None:
    mine, everybodys = Mine(), Everybodys()
    own = accelerator(log_with=[mine, everybodys])
    own.init_trackers("own")
    own.log({"rank": RANK}, step=2, log_kwargs={"mine": {"more": 1}})
    assert mine.heard == ([({"rank": 0}, 2, {"more": 1})] if RANK == 0 else [])


@check
def on_main_process_asks_the_tracker() -> None:
    mine, everybodys = Mine(), Everybodys()
    assert mine.note("x") == ("x" if RANK == 0 else None)
    assert everybodys.note("x") == "x" and everybodys.heard == ["x"]
    assert mine.heard == ["x"] * (RANK == 0)


@check
def end_training_comes_last() -> None:
    acc.init_trackers("last")
    acc.log({"loss": 0.0})
    acc.wait_for_everyone()
    acc.end_training()
    assert not dist.is_initialized() and acc.trackers == []
    acc.end_training()
    if RANK == 0:
        with raises(RuntimeError, "log was called while no tracker runs"):
            acc.log({"loss": 1.0})
    else:
        acc.log({"loss": 1.0})
    assert len((FOLDER / "last.jsonl").read_text().splitlines()) == 1


if __name__ == "__main__":
    check.main()
