"""Processes of -j: none is left when the tool ends, and none complains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LOOP = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,))), batch_size=8)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


def in_session(session: int) -> list[int]:
    """The processes of a session that run."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(place.parent.name))
    return found


def wait(done: object, seconds: float = 60) -> bool:
    """Whether something becomes true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if done():  # type: ignore[operator]
            return True
        time.sleep(0.2)
    return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux which processes there are")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_and_none_complains(number: signal.Signals, tmp_path: Path) -> None:
    for i in range(4):  # one takes long, and the others wait for work
        lines = 9000 if i == 0 else 1
        (tmp_path / f"script{i}.py").write_text(LOOP + "".join(f"print({k})\n" for k in range(lines)))
    command = [sys.executable, "-m", "accelift_codemod", "convert", str(tmp_path), "-j", "4", "-q"]
    job = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert wait(lambda: len(in_session(job.pid)) > 2), "no workers were started"
        time.sleep(0.5)
        if number is signal.SIGINT:
            os.killpg(job.pid, number)  # as Ctrl-C does: all of them
        else:
            os.kill(job.pid, number)
        assert wait(lambda: job.poll() is not None)
        assert wait(lambda: not in_session(job.pid)), "workers are left"
        assert job.stderr is not None and "Traceback" not in job.stderr.read()
    finally:
        if in_session(job.pid):
            os.killpg(job.pid, signal.SIGKILL)


BUSY = """\
import os
import signal
import sys
from accelift_codemod import workers

signal.signal(signal.SIGINT, signal.default_int_handler)  # which is ignored in what a shell runs in the background

def spin(number):
    print("working", flush=True)
    while True:
        pass

if __name__ == "__main__":
    for _ in workers.each(spin, range(int(sys.argv[1])), jobs=2):
        pass
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize("pieces", [2, 3, 200])  # taken, waiting in line, and not yet in line
def test_an_interruption_ends_what_waits_to_be_done(pieces: int, tmp_path: Path) -> None:
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    job = subprocess.Popen(
        [sys.executable, str(script), str(pieces)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        assert job.stdout is not None and "working" in job.stdout.readline()
        os.killpg(job.pid, signal.SIGINT)
        complaint = job.communicate(timeout=60)[1]
        assert "KeyboardInterrupt" in complaint and "InvalidStateError" not in complaint
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
