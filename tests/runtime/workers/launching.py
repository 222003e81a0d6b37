"""Starts processes from Python as a notebook would; the first argument says which."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from accelift import Accelerator, PartialState, debug_launcher, notebook_launcher
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

OUT = Path(sys.argv[2])


def tell(*words: object) -> None:
    acc = Accelerator()
    total = acc.reduce(torch.tensor(acc.process_index + 1)).item()
    product = (torch.ones(300, 300) @ torch.ones(300, 300)).sum().item()  # hangs if OpenMP's threads were lost
    found = (acc.process_index, total, product, acc.mixed_precision, acc.device.type, acc.state.fork_launched, *words)
    (OUT / f"{words[0]}.{acc.process_index}").write_text(" ".join(map(str, found)))
    acc.wait_for_everyone()


def fail(rank: int) -> None:
    """The others fail too, as they lose the one that failed first."""
    acc = Accelerator()
    acc.wait_for_everyone()
    if acc.process_index == rank:
        raise ValueError("this one failed on purpose")
    acc.wait_for_everyone()


def be_killed(rank: int) -> None:
    acc = Accelerator()
    acc.wait_for_everyone()
    if acc.process_index == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    acc.wait_for_everyone()


def message_of(function: Callable[[int], None], rank: int) -> str:
    """What the error says, which must be about this rank alone."""
    try:
        debug_launcher(function, (rank,))
    except ChildFailedError as error:
        assert list(error.failures) == [rank], error
        return str(error)
    raise AssertionError("nothing was raised")


def fail_twice() -> None:
    acc = Accelerator()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    acc.wait_for_everyone()
    if attempt < 2 and acc.process_index == 1:
        raise ValueError(attempt)
    acc.wait_for_everyone()
    (OUT / f"attempt.{acc.process_index}").write_text(str(attempt))


def main() -> None:
    (torch.ones(300, 300) @ torch.ones(300, 300)).sum()  # starts the threads of OpenMP
    PartialState()  # what is known of this process must not be believed by the others
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    before = dict(os.environ)
    debug_launcher(tell, ("debug", 3), num_processes=3)
    notebook_launcher(tell, ("notebook",), num_processes=2, mixed_precision="bf16")
    notebook_launcher(tell, ("port",), num_processes=2, rdzv_backend="c10d", use_port=sys.argv[3])
    notebook_launcher(fail_twice, num_processes=2, max_restarts=2)
    for rank in (0, 1):
        text = message_of(fail, rank)
        assert "fail FAILED" in text and "launching.py" in text and "ValueError: this one failed on purpose" in text
        assert "Signal 9 (SIGKILL)" in message_of(be_killed, rank)
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert dict(os.environ) == before, dict(os.environ).items() ^ before.items()
    assert PartialState().num_processes == 1
    left = list(Path(tempfile.gettempdir()).iterdir())
    assert not left, left
    print("fine")


if __name__ == "__main__":
    main()
