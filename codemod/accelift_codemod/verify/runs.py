"""Running scripts under the recorder: bounded in time and memory, and never leaving a process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from accelift_codemod.verify.recording import Recording, read

_POLL = 0.1  # seconds
_DUMP = 2.0  # seconds for processes that hang to say where they are
_TAIL = 12  # lines
_BUSY = 0.05  # of a processor: launchers and watchdogs that only look take less
_LATELY = 5.0  # seconds in which a process that is at work does something
_BYTES = 1e7  # read or written, as good as a second of a processor

Family = dict[int, str]
"""The processes of a run, with the times at which they began."""


@dataclass(frozen=True)
class Limits:
    """What a run may use: seconds, and bytes of memory of all its processes together.

    A run whose processes do nothing for `idle` seconds is ended, too: they wait for each other, or for nothing.
    """

    seconds: float = 600.0
    memory: int | None = None
    idle: float = 120.0


class Idle:
    """Notices that processes do next to nothing.

    Args:
        seconds: for how long they may.
        now: the time.
    """

    def __init__(self, seconds: float, now: float) -> None:
        self._seconds = seconds
        self._since, self._done = now, 0.0

    def over(self, done: float, now: float) -> bool:
        """Whether it is too long that they did something, who have done so much until now (see `done_by`)."""
        if abs(done - self._done) > _BUSY * self._seconds:  # less than before: one has ended
            self._since, self._done = now, done
        return now - self._since > self._seconds


@dataclass(frozen=True)
class Run:
    """A run that is over.

    `stopped` says why it was ended, if it did not end by itself, and so does `limit` if it was at work then; `output`
    is what it wrote to stdout and stderr.
    """

    recording: Recording
    code: int
    seconds: float
    stopped: str
    output: str
    limit: str = ""

    @property
    def failed(self) -> str:
        """What went wrong, in a sentence; empty if nothing did."""
        rank = next((rank for rank in self.recording.ranks if rank.end == "failed"), None)
        if self.stopped:
            return self.stopped
        if rank is not None:
            return rank.error + (f" at {rank.error_place}" if rank.error_place else "")
        return f"exit code {self.code}" if self.code else ""

    @property
    def last_words(self) -> str:
        """The end of its output."""
        return "\n".join(self.output.strip().splitlines()[-_TAIL:])


@dataclass(frozen=True)
class Order:
    """What to run.

    `script` is in `root`, a scratch folder; `cwd` is where it is started. `options` are those of the recorder.
    """

    script: Path
    arguments: tuple[str, ...]
    root: Path
    cwd: Path
    out: Path
    processes: int | None = None
    options: tuple[str, ...] = ()
    cpu: bool = True
    config: Path | None = None
    torchrun: bool = False  # by torch's own launcher, as its author would
    paths: tuple[Path, ...] = ()  # folders above the script that its imports are found in
    module: str = ""  # the script's name, if it has to be run as python -m in the first of these

    def command(self) -> list[str]:
        """The command line, which no shell sees."""
        recorder = ["-m", "accelift.recorder", *self.recorder_arguments()]
        if self.processes is None:
            return [sys.executable, *recorder]
        if self.torchrun:
            launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(self.processes)]
            return [sys.executable, *launcher, *recorder]
        launcher = ["-m", "accelift", "launch", *(["--cpu"] if self.cpu else [])]
        if self.config is not None:
            launcher += ["--config_file", str(self.config)]
        return [sys.executable, *launcher, "--num_processes", str(self.processes), *recorder]

    def recorder_arguments(self) -> list[str]:
        """What `accelift.recorder` is called with."""
        found = [word for path in self.paths for word in ("--path", str(path))]
        found += ["--module", self.module] if self.module else []
        return ["--root", str(self.root), *found, *self.options, str(self.out), str(self.script), *self.arguments]

    def environment(self) -> dict[str, str]:
        """One thread for each process, no GPU unless it is asked for, and hashes that do not change."""
        ours = {name: value for name, value in os.environ.items() if name not in _RANKS}
        ours |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
        ours |= {"MPLBACKEND": "Agg", "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TQDM_DISABLE": "1"}
        paths = [str(_runtime()), os.environ.get("PYTHONPATH", "")]
        ours["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        if self.cpu:
            ours |= {"CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true", "ACCELIFT_USE_CPU": "true"}
        return ours


_RANKS = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


def _runtime() -> Path:
    """The folder from which `accelift` is imported, wherever the script is started."""
    import accelift

    return Path(accelift.__file__).resolve().parent.parent


def execute(order: Order, limits: Limits) -> Run:
    """Run a script under the recorder, and wait for it."""
    order.out.mkdir(parents=True, exist_ok=True)
    log = order.out / "output.txt"
    start = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            order.command(),
            cwd=order.cwd,
            env=order.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        stopped = limit = ""
        family: Family = {}
        idle, resting = Idle(limits.idle, start), Idle(_LATELY, start)
        try:
            while process.poll() is None and not stopped:
                time.sleep(_POLL)
                family.update(_descendants(process.pid))
                done, now = sum(map(done_by, family)), time.monotonic()
                stopped = _too_much(start, limits, family)
                limit = "" if resting.over(done, now) else stopped
                if idle.over(done, now) and not stopped:
                    stopped = f"its processes did nothing for {limits.idle:g} seconds (--idle)"
            if stopped:
                _ask_where(family)
        finally:
            _end(process, family)
    seconds = time.monotonic() - start
    recording = read(order.out, order.processes or 1)
    return Run(recording, process.returncode, seconds, stopped, log.read_text(errors="replace"), limit)


def _too_much(start: float, limits: Limits, family: Family) -> str:
    if time.monotonic() - start > limits.seconds:
        return f"it ran for more than {limits.seconds:g} seconds (--timeout)"
    if limits.memory is not None and sum(map(_memory, family)) > limits.memory:
        return f"it used more than {limits.memory / 1e9:.3g} GB of memory (--memory)"
    return ""


def _descendants(pid: int) -> Iterator[tuple[int, str]]:
    """A process and all that it started, as Linux tells; itself alone elsewhere."""
    yield pid, _born(pid)
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _descendants(int(child))


def _born(pid: int) -> str:
    """When a process began; with its number this tells it from one that got the number since."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _memory(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def done_by(pid: int) -> float:
    """What a process has done, in seconds of a processor; where that cannot be told, the time: as if it were busy."""
    if not Path("/proc/self/stat").exists():
        return time.monotonic()
    done = 0.0
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        done += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        counts = Path(f"/proc/{pid}/io").read_text().splitlines()
        done += sum(int(count.split()[1]) for count in counts[:2]) / _BYTES
    return done


def _ask_where(family: Family) -> None:
    """Have processes under the recorder write down where they are."""
    for pid in family:
        with suppress(OSError):
            catches = next(
                line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")
            )
            # Others would die of the signal: the launcher still has to end its processes.
            if int(catches.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1:
                os.kill(pid, signal.SIGUSR1)
    time.sleep(_DUMP)


def _end(process: subprocess.Popen[bytes], family: Family) -> None:
    """Leave nothing behind."""
    family.update(_descendants(process.pid))
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid, born in family.items():
        with suppress(OSError):
            if born and _born(pid) == born:
                os.kill(pid, signal.SIGKILL)
    process.wait()
