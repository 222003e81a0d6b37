"""Recording what an unchanged script computes: its parameters after every optimizer step.

    python -m accelift.trace [--seed S] [--steps N] [--tensors] OUT SCRIPT [ARGS...]

runs SCRIPT as ``python SCRIPT ARGS...`` would and writes ``OUT.<rank>.jsonl``, one line for each
optimizer step: ``{"step", "optimizer", "lr", "crc", "sum", "abs"}``.  ``step`` counts the steps of
all optimizers and ``optimizer`` numbers them in the order of their first step; ``lr`` lists the
learning rates of its parameter groups; ``crc`` is the CRC-32 of the bytes of its parameters,
``sum`` and ``abs`` are the sums of their values and of their magnitudes, in float64.  With
``--tensors``, ``OUT.<rank>.pt`` has the parameters themselves: a list for each step.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import runpy
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any
from weakref import WeakKeyDictionary

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from accelift.random import set_seed


class Enough(BaseException):
    """Ends a script that has made as many steps as were asked for."""


class Recorder:
    """Records the steps of all optimizers while its context is entered.

    Args:
        out: the start of the names of the files to write.
        steps: end the script with :class:`Enough` after so many steps.
        tensors: also keep the parameters of every step, and write them at the end.
    """

    def __init__(self, out: str | os.PathLike[str], steps: int | None = None, tensors: bool = False) -> None:
        stem = f"{os.fspath(out)}.{os.environ.get('RANK', '0')}"
        self._lines = Path(f"{stem}.jsonl")
        self._tensors = Path(f"{stem}.pt") if tensors else None
        self._limit = steps
        self._kept: list[list[torch.Tensor]] = []
        self._seen: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()
        self._optimizers = 0
        self._step = 0
        self._file: IO[str] | None = None
        self._hook: Any = None

    def __enter__(self) -> Recorder:
        self._file = self._lines.open("w", encoding="utf-8")
        self._hook = register_optimizer_step_post_hook(self._after_step)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._hook.remove()
        if self._file is not None:
            self._file.close()
        if self._tensors is not None:
            torch.save(self._kept, self._tensors)

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._limit is not None and self._step >= self._limit:
            raise Enough  # once more, for scripts that caught it
        parameters = [_on_cpu(parameter) for group in optimizer.param_groups for parameter in group["params"]]
        if optimizer not in self._seen:
            self._seen[optimizer] = self._optimizers
            self._optimizers += 1
        crc, total, magnitude = 0, 0.0, 0.0
        for values in parameters:
            crc = _crc(values, crc)
            total += float(values.double().sum())
            magnitude += float(values.double().abs().sum())
        line = {
            "step": self._step,
            "optimizer": self._seen[optimizer],
            "lr": [float(group.get("lr", 0.0)) for group in optimizer.param_groups],
            "crc": crc,
            "sum": total,
            "abs": magnitude,
        }
        assert self._file is not None
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        if self._tensors is not None:
            self._kept.append([values.clone() for values in parameters])
        self._step += 1
        if self._step == self._limit:
            raise Enough


def _on_cpu(parameter: torch.Tensor) -> torch.Tensor:
    whole = getattr(parameter.detach(), "full_tensor", parameter.detach)()  # DTensors have parts
    values: torch.Tensor = whole.cpu().contiguous()
    return torch.view_as_real(values) if values.is_complex() else values


def _crc(values: torch.Tensor, start: int) -> int:
    size = values.numel() * values.element_size()
    if not size:
        return start
    return zlib.crc32((ctypes.c_ubyte * size).from_address(values.data_ptr()), start)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a script under a :class:`Recorder`; its exceptions and exit code pass through."""
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m accelift.trace",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--seed", type=int, help="seed python, numpy and torch before the script")
    parser.add_argument("--steps", type=int, help="end with exit code 0 after so many steps")
    parser.add_argument("--tensors", action="store_true", help="keep the parameters of every step")
    parser.add_argument("out", metavar="OUT", help="the start of the names of the files to write")
    parser.add_argument("script", metavar="SCRIPT", help="the script to run")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER)
    given = parser.parse_args(argv)
    if not Path(given.script).is_file():
        parser.error(f"there is no script {given.script}")
    if given.steps is not None and given.steps < 1:
        parser.error("--steps must be at least 1")
    if given.seed is not None:
        set_seed(given.seed)
    sys.argv = [given.script, *given.arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(Path(given.script).resolve().parent)
    try:
        with Recorder(given.out, given.steps, given.tensors):
            runpy.run_path(given.script, run_name="__main__")
    except Enough:
        sys.exit(0)


if __name__ == "__main__":
    main()
