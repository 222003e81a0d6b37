"""The flags of ``accelift launch``, which are those of Hugging Face's launcher."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any, NoReturn

_REPLICATED = "models are replicated, as DistributedDataParallel does"

# Flags of Hugging Face's launcher that are not offered, by the start of their names.
_NOT_OFFERED = {
    "aws_": "start the launcher on the machines themselves",
    "deepspeed_": _REPLICATED,
    "downcast_bf16": "it is about TPUs",
    "dynamo_": "call torch.compile in the script",
    "enable_cpu_affinity": "use taskset or numactl",
    "fp8_": "use --mixed_precision bf16",
    "fsdp_": _REPLICATED,
    "log_dir": "redirect the output of the launcher",
    "main_training_function": "the script is run as a whole",
    "megatron_lm_": _REPLICATED,
    "monitor_interval": "the default is ten times a second",
    "mpirun_": "start the launcher on every machine",
    "offload_": _REPLICATED,
    "parallelism_config_": _REPLICATED,
    "rdzv_conf": "use --rdzv_backend, --main_process_ip and --main_process_port",
    "role": "all processes are workers",
    "same_network": "give an address that every machine can reach as --main_process_ip",
    "tee": "redirect the output of the launcher",
    "tpu": "use GPUs or the CPU",
    "use_deepspeed": _REPLICATED,
    "use_fsdp": _REPLICATED,
    "use_megatron_lm": _REPLICATED,
    "use_parallelism_config": _REPLICATED,
    "zero_": _REPLICATED,
}


class UsageError(Exception):
    """A command line that cannot be run, and why."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`.")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags, the script and its arguments.  Flags that are not given are ``None``.

    Raises:
        UsageError: for anything before the script that is not a flag, or wrongly used.
    """
    parser = _parser()
    given, unknown = parser.parse_known_args(argv)
    if unknown:
        raise UsageError(_explain(unknown[0], parser))
    if given.module and given.no_python:
        raise UsageError("--module and --no_python contradict each other; give one of them.")
    return given


def _parser() -> _Parser:
    parser = _Parser(
        prog="accelift launch",
        description="Run a script on one process or several, on GPUs or on the CPU.",
        epilog="Flags may be spelled with - or _.  They override the configuration file.",
        allow_abbrev=False,
    )

    def flag(*names: str, **details: Any) -> None:
        """Names without dashes; the first is where the value goes, a single letter is a short one."""
        spellings = [f"--{name}" if len(name) > 1 else f"-{name}" for name in names]
        spellings += [f"--{name.replace('_', '-')}" for name in names if "_" in name]
        parser.add_argument(*spellings, dest=names[0], **details)

    def switch(*names: str, **details: Any) -> None:
        flag(*names, action="store_const", const=True, **details)

    flag("config_file", metavar="FILE", help="a launch configuration, in YAML")
    flag("num_processes", "n", type=_count, metavar="N", help="processes, on all machines together")
    flag("num_machines", type=_count, metavar="N", help="machines; default 1")
    flag("machine_rank", type=int, metavar="K", help="which machine this is, counted from 0")
    flag("main_process_ip", metavar="ADDRESS", help="the address of machine 0")
    flag("main_process_port", type=int, metavar="PORT", help="a port on machine 0")
    flag("rdzv_backend", choices=["static", "c10d"], help="how machines find each other")
    switch("cpu", "use_cpu", help="compute on the CPU")
    switch("multi_gpu", help="insist on several GPUs")
    flag("gpu_ids", metavar="IDS", help="GPUs to use, as in 0,2; default all")
    flag("mixed_precision", choices=["no", "fp16", "bf16"], help="for Accelerator()")
    flag(
        "gradient_accumulation_steps",
        type=_count,
        metavar="K",
        help="for Accelerator(), where the script does not say",
    )
    flag(
        "num_cpu_threads_per_process",
        type=_count,
        metavar="N",
        help="sets OMP_NUM_THREADS; default 1 for each of several processes",
    )
    flag("max_restarts", type=_natural, metavar="N", help="restarts of all processes if one fails")
    switch("module", "m", help="the script is a module, as in python -m")
    switch("no_python", help="the script is a program of its own")
    switch("debug", help="check the shapes of what processes tell each other; show all logs")
    switch("quiet", "q", help="do not say which process failed")
    parser.add_argument("script", help="the script to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _count(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def _natural(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _explain(flag: str, parser: argparse.ArgumentParser) -> str:
    name = flag.split("=")[0].lstrip("-").replace("-", "_")
    for start, instead in _NOT_OFFERED.items():
        if name == start or (start.endswith("_") and name.startswith(start)):
            return f"the flag {flag} is not offered: {instead}."
    known = [spelling for action in parser._actions for spelling in action.option_strings]
    close = difflib.get_close_matches(f"--{name}", known, n=1)
    guess = f" (did you mean {close[0]}?)" if close else ""
    return f"there is no flag {flag}{guess}; the flags of the script go behind it."
