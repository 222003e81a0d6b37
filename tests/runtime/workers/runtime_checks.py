"""Named checks that run on every process of a job and report, one by one, how they went."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelift import Accelerator, InitProcessGroupKwargs
from torch import Tensor, nn

Check = Callable[[], None]


class Checks(dict[str, Check]):
    """The checks of a worker script, by name."""

    def __call__(self, check: Check) -> Check:
        assert check.__name__ not in self, f"two checks are called {check.__name__}"
        self[check.__name__] = check
        return check

    def main(self) -> None:
        """Run all checks; what went wrong is written to ``<argv[1]>.<rank>.json``."""
        report = Path(f"{sys.argv[1]}.{os.environ.get('RANK', '0')}.json")
        outcomes: dict[str, str | None] = {}
        torch.set_num_threads(1)
        for name, check in self.items():
            torch.manual_seed(0)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("default")
                    check()
                outcomes[name] = None
            except BaseException:
                outcomes[name] = traceback.format_exc()
            report.write_text(json.dumps(outcomes))


def accelerator(**arguments: Any) -> Accelerator:
    """An Accelerator on the CPU whose collectives fail instead of hanging for long."""
    patience = InitProcessGroupKwargs(timeout=timedelta(seconds=40))
    handlers = [patience, *arguments.pop("kwargs_handlers", [])]
    return Accelerator(cpu=True, kwargs_handlers=handlers, **arguments)


def close(one: list[Tensor], other: list[Tensor], tolerance: float = 1e-6) -> None:
    """Assert that two histories of parameters are the same up to a tolerance."""
    assert len(one) == len(other), f"{len(one)} steps against {len(other)}"
    for step, (a, b) in enumerate(zip(one, other, strict=True)):
        gap = (a - b).abs().max().item()
        assert gap <= tolerance, f"step {step} differs by {gap}"


def same(one: list[Tensor], other: list[Tensor]) -> None:
    """Assert that two histories of parameters are the same bit for bit."""
    assert len(one) == len(other), f"{len(one)} steps against {len(other)}"
    for step, (a, b) in enumerate(zip(one, other, strict=True)):
        assert torch.equal(a, b), f"step {step} differs by {(a - b).abs().max().item()}"


def snapshot(*models: nn.Module) -> Tensor:
    """The parameters of models, in one vector."""
    return torch.cat([p.detach().flatten() for model in models for p in model.parameters()])


@contextmanager
def raises(kind: type[BaseException], part: str) -> Iterator[None]:
    """Assert that an error is raised whose text contains a part."""
    try:
        yield
    except kind as error:
        assert part in str(error), f"{part!r} is not in {error!r}"
    else:
        raise AssertionError(f"no {kind.__name__} was raised")


@contextmanager
def warned(part: str, times: int = 1) -> Iterator[None]:
    """Assert how often a warning is given that contains a part."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    found = [str(one.message) for one in caught]
    count = sum(part in one for one in found)
    assert count == times, f"{part!r} came {count} times in {found}"
