"""From flags and configuration to a job, and the exit codes of the launcher."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accelift.config import ConfigError, LaunchConfig
from accelift.launch.devices import visible_gpus
from accelift.launch.parser import UsageError, parse

_SIGINT_EXIT = 130
# Flags that override the key of the same name as they are.
_TAKEN_OVER = (
    "num_machines",
    "machine_rank",
    "main_process_ip",
    "main_process_port",
    "rdzv_backend",
    "mixed_precision",
    "debug",
)


@dataclass(frozen=True)
class Job:
    """What is to be run.

    Attributes:
        config: on which processes.
        command: the script and its arguments.
        module: the script is the name of a module.
        no_python: the script is a program.
        environment: variables that the processes get besides those of the launcher.
        max_restarts: restarts of all processes if one fails.
        quiet: do not say which process failed.
    """

    config: LaunchConfig
    command: tuple[str, ...]
    module: bool
    no_python: bool
    environment: dict[str, str]
    max_restarts: int
    quiet: bool


def main(argv: Sequence[str] | None = None) -> int:
    """``accelift launch``: run a script on processes.

    Args:
        argv: the command line behind ``launch``; by default the one of this process.

    Returns:
        2 if the command line or the configuration cannot be run, 130 or 143 after SIGINT or
        SIGTERM, else the exit code of the script, or of the process of it that failed.
    """
    try:
        job = _job(parse(argv))
    except (UsageError, ConfigError) as error:
        print(f"accelift launch: {error}", file=sys.stderr)
        return 2
    from accelift.launch.processes import run_one, run_several

    if job.config.num_processes == 1:
        return run_one(job)
    if not _has_torch():
        print(
            "accelift launch: several processes need torch, which is not installed here; "
            "install it, for example with `pip install torch`.",
            file=sys.stderr,
        )
        return 2
    try:
        return run_several(job)
    except KeyboardInterrupt:  # before there were processes to pass it on to
        return _SIGINT_EXIT


def _has_torch() -> bool:
    try:
        return importlib.util.find_spec("torch") is not None
    except ValueError:  # barred by None in sys.modules
        return False


def _job(given: argparse.Namespace) -> Job:
    if not (given.module or given.no_python) and not Path(given.script).is_file():
        raise UsageError(f"there is no script {given.script}.")
    config = _configuration(given)
    return Job(
        config=config,
        command=(given.script, *given.arguments),
        module=bool(given.module),
        no_python=bool(given.no_python),
        environment=_environment(given, config),
        max_restarts=given.max_restarts or 0,
        quiet=bool(given.quiet),
    )


def _configuration(given: argparse.Namespace) -> LaunchConfig:
    """The configuration file, or the defaults, overridden by flags and checked against GPUs."""
    base = LaunchConfig.load(given.config_file) if given.config_file else None
    if given.cpu and given.multi_gpu:
        raise UsageError("--cpu and --multi_gpu contradict each other; give one of them.")
    gpu_ids = given.gpu_ids or (base.gpu_ids if base else "all")
    on_cpu = _on_cpu(given, base)
    if gpu_ids != "all":
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu_ids
    gpus = 0 if on_cpu else visible_gpus()
    processes = given.num_processes or (base.num_processes if base else max(gpus, 1))
    kind = "NO"
    if processes > 1:
        kind = base.distributed_type if base else "MULTI_GPU"
        if on_cpu:
            kind = "MULTI_CPU"
        elif kind in ("NO", "MULTI_CPU") or given.multi_gpu:
            kind = "MULTI_GPU"
    overrides = {name: value for name in _TAKEN_OVER if (value := getattr(given, name)) is not None}
    config = replace(
        base or LaunchConfig(),
        distributed_type=kind,
        num_processes=processes,
        use_cpu=on_cpu,
        gpu_ids=gpu_ids,
        **overrides,
    )
    _check_gpus(config, gpus, insisted=bool(given.multi_gpu))
    if config.num_machines > 1 and config.main_process_ip is None:
        raise UsageError(
            f"{config.num_machines} machines need to know where machine 0 is; give its address with --main_process_ip."
        )
    return config


def _on_cpu(given: argparse.Namespace, base: LaunchConfig | None) -> bool:
    if given.cpu or given.multi_gpu:
        return bool(given.cpu)
    return base is not None and (base.use_cpu or base.distributed_type == "MULTI_CPU")


def _check_gpus(config: LaunchConfig, gpus: int, insisted: bool) -> None:
    if config.distributed_type != "MULTI_GPU":
        if insisted:
            raise UsageError("--multi_gpu needs several processes; give --num_processes too.")
        return
    here = config.num_processes // config.num_machines
    if not gpus:
        raise UsageError(
            f"{config.num_processes} processes on GPUs were asked for but no GPU is visible; add "
            "--cpu to run them on the CPU."
        )
    if here > gpus:
        raise UsageError(
            f"{here} processes on this machine were asked for but only {gpus} "
            f"{'GPU is' if gpus == 1 else 'GPUs are'} visible; give --num_processes {gpus} or add "
            "--cpu."
        )


def _environment(given: argparse.Namespace, config: LaunchConfig) -> dict[str, str]:
    """What the Accelerator in the script reads, see :mod:`accelift.environment`."""
    found: dict[str, str] = {}
    if given.config_file or given.mixed_precision:
        found["ACCELERATE_MIXED_PRECISION"] = config.mixed_precision
    if config.use_cpu:
        found["ACCELERATE_USE_CPU"] = "true"
    if config.debug:
        found["ACCELERATE_DEBUG_MODE"] = "true"
    if given.gradient_accumulation_steps:
        steps = given.gradient_accumulation_steps
        found["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] = str(steps)
    threads = given.num_cpu_threads_per_process
    if threads is None and config.num_processes > 1 and "OMP_NUM_THREADS" not in os.environ:
        threads = 1
    if threads is not None:
        found["OMP_NUM_THREADS"] = str(threads)
    if config.num_processes > 1 and "PYTHONHASHSEED" not in os.environ:
        found["PYTHONHASHSEED"] = "0"  # a vocabulary made by list(set(words)) is the same on every process
    return found
