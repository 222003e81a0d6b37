"""Running a job: one process takes the launcher's place, several are torch's to run."""

from __future__ import annotations

import logging
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

    from accelift.launch.command import Job

_DEFAULT_PORT = 29500
# Left by a launcher that started this one; with them, one process would look for others.
_OF_SEVERAL = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")


def run_one(job: Job) -> int:
    """Become the script.  Returns only if that fails, with the exit code."""
    environment = {**os.environ, **job.environment}
    for name in _OF_SEVERAL:
        environment.pop(name, None)
    command = list(job.command)
    if not job.no_python:
        command = [sys.executable, *(["-m"] if job.module else []), *command]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        print(f"accelift launch: cannot run {command[0]}: {error.strerror}.", file=sys.stderr)
        return 2


def run_several(job: Job) -> int:
    """Run the processes of this machine with ``torch.distributed.run``; returns the exit code."""
    os.environ.update(job.environment)
    import torch.distributed.run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    if job.max_restarts:
        # Or else those that begin anew meet in the store of those before, and take their addresses for true.
        os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    if not job.config.debug:
        logging.disable(logging.ERROR)  # what it says of failures is said below, in a line
    if sys.platform == "linux":
        job = _tied(job)
    try:
        arguments = torchrun.get_args_parser().parse_args([*_arguments(job), job.command[0]])
        arguments.training_script_args = list(job.command[1:])  # --n is the script's, no short form of --nnodes
        torchrun.run(arguments)  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        return _report(error.failures, job)
    except SignalException as error:
        return 128 + int(error.sigval)
    except (ConnectionError, TimeoutError, RuntimeError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        print(f"accelift launch: processes cannot be started: {reason[0]}", file=sys.stderr)
        return 1
    return 0


def _tied(job: Job) -> Job:
    """The job with processes that do not outlive this one, even if it is killed."""
    command = list(job.command)
    if not job.no_python:
        python = os.environ.get("PYTHON_EXEC", sys.executable)  # as torchrun has it
        command = [python, "-u", *(["-m"] if job.module else []), *command]
    first = Path(__file__).with_name("tied.py")
    tied = (sys.executable, "-I", "-S", str(first), str(os.getpid()), *command)
    return replace(job, command=tied, module=False, no_python=True)


def _arguments(job: Job) -> list[str]:
    """The job in the words of torchrun, up to the script."""
    config = job.config
    port = config.main_process_port
    words = [f"--nproc-per-node={config.num_processes // config.num_machines}"]
    words.append(f"--max-restarts={job.max_restarts}")
    if config.num_machines == 1 and not port:
        words.append("--standalone")  # on a free port, so that jobs do not get in their way
    else:
        address = config.main_process_ip or "127.0.0.1"
        port = port or _DEFAULT_PORT
        words += [f"--nnodes={config.num_machines}", f"--rdzv-backend={config.rdzv_backend}"]
        if config.rdzv_backend == "static":
            words += [f"--node-rank={config.machine_rank}"]
            words += [f"--master-addr={address}", f"--master-port={port}"]
        else:
            words += [f"--rdzv-endpoint={address}:{port}", f"--rdzv-id=accelift-{port}"]
    if job.module:
        words.append("--module")
    if job.no_python:
        words.append("--no-python")
    return words


def _report(failures: dict[int, ProcessFailure], job: Job) -> int:
    """Say which process failed; returns the exit code."""
    # Torch ends the others with SIGTERM when one fails.  Some may have failed before that because
    # they lost the one that failed first; those exit with 1, so another code tells more.
    own = {rank: f for rank, f in failures.items() if f.exitcode != -signal.SIGTERM} or failures
    rank, first = min(own.items(), key=lambda item: (item[1].exitcode == 1, item[1].timestamp))
    code = first.exitcode
    if code < 0:
        signals = {int(one): one.name for one in signal.Signals}
        how = f"was killed by {signals.get(-code, f'signal {-code}')}"
        if -code == signal.SIGABRT:  # gloo's way to end, where what it was sent is not what it waits for
            how += "; if the processes do not call the same operations on the same shapes, --debug says where"
        code = 128 - code
    else:
        how = f"failed with exit code {code}; what it said is above"
    if not job.quiet:
        total = job.config.num_processes
        print(f"accelift launch: rank {rank} of {total} {how}.", file=sys.stderr)
    return code if 0 < code < 256 else 1
