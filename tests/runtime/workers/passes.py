"""Passes over loaders go on in their middle, on several processes."""

from __future__ import annotations

from functools import partial
from typing import Any

from accelift import DataLoaderConfiguration
from resume_checks import LOADERS, check_resumed
from runtime_checks import Checks, accelerator

check = Checks()
FEW = ["sequential", "replacement", "eager sampler", "subclass", "stream", "shuffled stream", "workers"]


def resumed(save_at: tuple[int, int], names: list[str], stateful: bool, **config: Any) -> None:
    settings = DataLoaderConfiguration(use_stateful_dataloader=stateful, **config)
    for name in names:
        try:
            check_resumed(partial(accelerator, dataloader_config=settings), LOADERS[name], save_at, stateful)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


@check
def shared_out() -> None:
    resumed((1, 3), [name for name in LOADERS if name != "workers"], stateful=False, split_batches=True)


@check
def dealt_in_turn() -> None:
    resumed((0, 1), FEW, stateful=True)


@check
def dealt_in_turn_exactly() -> None:
    resumed((1, 1), ["shuffled", "weighted"], stateful=False, even_batches="exact")


@check
def read_by_the_main_process() -> None:
    resumed((0, 3), FEW, stateful=True, split_batches=True, dispatch_batches=True)
    resumed((0, 1), FEW, stateful=False, dispatch_batches=True)


if __name__ == "__main__":
    check.main()
