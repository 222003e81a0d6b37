"""The launch configuration: what the launcher needs to know, as a dataclass and as YAML.

Files are understood by Hugging Face's ``accelerate launch`` too, and the other way round as far
as they ask for nothing that is not offered here.  This module does not need torch.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "compute_environment": ("LOCAL_MACHINE",),
    "distributed_type": (
        "NO",
        "MULTI_CPU",
        "MULTI_GPU",
        "MULTI_XPU",
        "MULTI_NPU",
        "MULTI_MLU",
        "MULTI_SDAA",
        "MULTI_MUSA",
        "MULTI_HPU",
        "MULTI_NEURON",
    ),
    "mixed_precision": ("no", "fp16", "bf16"),
    "rdzv_backend": ("static", "c10d"),
}
_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "compute_environment": ("AMAZON_SAGEMAKER",),
    "distributed_type": ("FSDP", "DEEPSPEED", "MEGATRON_LM", "XLA"),
    "mixed_precision": ("fp8",),
}
# Keys of Hugging Face's files which may be there as long as they ask for nothing.
_EMPTY_ONLY = frozenset(
    {
        "command_file",
        "commands",
        "deepspeed_config",
        "dynamo_backend",
        "dynamo_config",
        "fp8_config",
        "fsdp_config",
        "megatron_lm_config",
        "mpirun_config",
        "parallelism_config",
        "tpu_env",
        "tpu_name",
        "tpu_use_cluster",
        "tpu_use_sudo",
        "tpu_vm",
        "tpu_zone",
    }
)
_WORDS = "yes no on off true false null".split()
_NO_TEXTS = frozenset([*_WORDS, *map(str.upper, _WORDS), *map(str.title, _WORDS)])  # to YAML, unless they are in quotes
_ALWAYS_SHOWN = frozenset(
    {
        "compute_environment",
        "distributed_type",
        "mixed_precision",
        "num_machines",
        "num_processes",
        "use_cpu",
    }
)
_NO_ORIGINS: Mapping[str, str] = MappingProxyType({})


class ConfigError(ValueError):
    """A launch configuration that cannot be used, and why."""


@dataclass(frozen=True)
class LaunchConfig:
    """How a job is launched.

    Attributes:
        compute_environment: ``LOCAL_MACHINE``; machines that the launcher is started on.
        distributed_type: ``NO`` for one process, ``MULTI_GPU`` and the like for several.
        mixed_precision: ``no``, ``fp16`` or ``bf16``.
        num_machines: machines of the job.
        num_processes: processes of the job, on all machines together.
        machine_rank: which of the machines this is.
        main_process_ip: the address of machine 0, for jobs of several machines.
        main_process_port: a port of machine 0; a free one if there is one machine.
        rdzv_backend: how machines find each other: ``static`` or ``c10d``.
        same_network: not acted on, the address must be reachable in any case.
        use_cpu: compute on the CPU.
        gpu_ids: ``all``, or the ids of the GPUs to use, as in ``0,2``.
        main_training_function: not acted on, the script is run as a whole.
        downcast_bf16: must be off; it is about TPUs.
        enable_cpu_affinity: must be off.
        debug: check the shapes of what the processes tell each other.

    Raises:
        ConfigError: naming the key and what it accepts.
    """

    compute_environment: str = "LOCAL_MACHINE"
    distributed_type: str = "NO"
    mixed_precision: str = "no"
    num_machines: int = 1
    num_processes: int = 1
    machine_rank: int = 0
    main_process_ip: str | None = None
    main_process_port: int | None = None
    rdzv_backend: str = "static"
    same_network: bool = True
    use_cpu: bool = False
    gpu_ids: str = "all"
    main_training_function: str = "main"
    downcast_bf16: bool = False
    enable_cpu_affinity: bool = False
    debug: bool = False

    def __post_init__(self) -> None:
        for name, expected in _kinds().items():
            _check_kind(name, getattr(self, name), expected)
        for name, accepted in _CHOICES.items():
            _check_choice(name, getattr(self, name), accepted)
        for name, lowest in (("num_machines", 1), ("num_processes", 1), ("machine_rank", 0)):
            if getattr(self, name) < lowest:
                raise ConfigError(f"{name}: {getattr(self, name)} is less than {lowest}.")
        for name in ("downcast_bf16", "enable_cpu_affinity"):
            if getattr(self, name):
                raise ConfigError(f"{name}: true is not offered; leave it out or set it to false.")
        if self.machine_rank >= self.num_machines:
            raise ConfigError(
                f"machine_rank: {self.machine_rank} is not one of {self.num_machines} machines, "
                "which are counted from 0."
            )
        if self.num_processes % self.num_machines:
            raise ConfigError(
                f"num_processes: {self.num_processes} is the number on all machines together, and "
                f"cannot be spread evenly over num_machines: {self.num_machines}."
            )
        if self.main_process_port is not None and not 0 <= self.main_process_port < 65536:
            raise ConfigError(f"main_process_port: {self.main_process_port} is not a port.")
        if self.distributed_type == "NO" and self.num_processes > 1:
            raise ConfigError(
                f"num_processes: {self.num_processes} contradicts distributed_type: NO, which is "
                "one process; set distributed_type to MULTI_GPU or MULTI_CPU."
            )
        if self.use_cpu and self.distributed_type not in ("NO", "MULTI_CPU"):
            raise ConfigError(
                f"use_cpu: true contradicts distributed_type: {self.distributed_type}; set that to MULTI_CPU."
            )
        if self.gpu_ids != "all" and not all(i.isdigit() for i in self.gpu_ids.split(",")):
            raise ConfigError(f"gpu_ids: {self.gpu_ids!r} is neither all nor numbers between commas.")

    @classmethod
    def from_yaml(cls, text: str, origin: str = "the configuration") -> LaunchConfig:
        """The configuration written in a YAML text.

        Args:
            text: the text.
            origin: what to call it in errors.

        Raises:
            ConfigError: naming the origin, the key and what it accepts.
        """
        import yaml  # late, as below

        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"{origin}: it is not YAML: {reason}.") from None
        if not isinstance(found, dict):
            raise ConfigError(f"{origin}: it must consist of lines `key: value`.")
        try:
            return cls(**_known(found))
        except ConfigError as error:
            raise ConfigError(f"{origin}: {error}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LaunchConfig:
        """The configuration in a file.

        Raises:
            ConfigError: naming the file, and the key if it is about one.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ConfigError(f"{os.fspath(path)}: cannot be read: {reason}.") from None
        return cls.from_yaml(text, os.fspath(path))

    def to_yaml(self, origins: Mapping[str, str] = _NO_ORIGINS, notes: Sequence[str] = ()) -> str:
        """The configuration as a YAML text.

        Keys come in a fixed order; those that have their default value are left out, unless they
        always matter or have an origin.

        Args:
            origins: for keys, where the value comes from; written as a comment behind it.
            notes: remarks, written as comments at the end.

        Raises:
            ConfigError: if ``origins`` has a key that does not exist.
        """
        for name in origins:
            if name not in _kinds():
                raise ConfigError(f"origins: {_unknown(name)}")
        lines = [
            (line, origins.get(field.name))
            for field in fields(self)
            if field.name in _ALWAYS_SHOWN or field.name in origins or getattr(self, field.name) != field.default
            for line in [_line(field.name, getattr(self, field.name))]
        ]
        width = max((len(line) for line, origin in lines if origin), default=0)
        text = [f"{line:<{width}}  # {' '.join(origin.split())}" if origin else line for line, origin in lines]
        text += [f"# {line}" for note in notes for line in note.splitlines()]
        return "\n".join(text) + "\n"


def _kinds() -> dict[str, tuple[type, ...]]:
    """For each key, the types of its values."""
    types: dict[str, type] = {"str": str, "int": int, "bool": bool, "None": type(None)}
    return {
        field.name: tuple(types[part.strip()] for part in str(field.type).split("|")) for field in fields(LaunchConfig)
    }


def _check_kind(name: str, value: object, expected: tuple[type, ...]) -> None:
    if type(value) in expected:  # a bool is no int here
        return
    words = {str: "a text", int: "a whole number", bool: "true or false", type(None): "null"}
    accepted = " or ".join(words[kind] for kind in expected)
    raise ConfigError(f"{name}: {value!r} is not {accepted}.")


def _check_choice(name: str, value: str, accepted: tuple[str, ...]) -> None:
    if value in accepted:
        return
    listed = ", ".join(accepted)
    if value in _ELSEWHERE.get(name, ()):
        raise ConfigError(f"{name}: {value} is not offered yet; it accepts {listed}.")
    raise ConfigError(f"{name}: {value!r} is not known{_guess(value, accepted)}; it accepts {listed}.")


def _known(found: Mapping[Any, Any]) -> dict[str, Any]:
    """The keys that LaunchConfig has, with values of its types where a file may differ."""
    kinds = _kinds()
    known: dict[str, Any] = {}
    for name, value in found.items():
        if name in _EMPTY_ONLY:
            if value and str(value).lower() not in ("no", "none"):
                raise ConfigError(f"{name}: it is not offered yet; leave it out or empty.")
        elif name not in kinds:
            raise ConfigError(_unknown(str(name)))
        elif value is not None:
            known[name] = _as_written(name, value)
    return known


def _as_written(name: str, value: Any) -> Any:
    """Undo what YAML makes of some values when they are written without quotes."""
    if value is False and name in ("mixed_precision", "distributed_type"):
        return "no" if name == "mixed_precision" else "NO"
    if name == "downcast_bf16" and value == "no":
        return False
    if name == "gpu_ids" and type(value) is int:
        return str(value)
    return value


def _unknown(name: str) -> str:
    guess = _guess(name, tuple(_kinds()))
    return f"{name}: there is no such key{guess}; known are {', '.join(_kinds())}."


def _guess(word: str, among: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(word), among, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


@lru_cache(maxsize=256, typed=True)  # most files have most values in common
def _line(name: str, value: str | int | bool | None) -> str:
    if value is None or isinstance(value, (bool, int)):
        return f"{name}: {'null' if value is None else str(value).lower()}"
    if value.isascii() and value.isidentifier():
        return f"{name}: '{value}'" if value in _NO_TEXTS else f"{name}: {value}"
    import yaml  # late: nearly all values are words or numbers

    return yaml.safe_dump({name: value}, width=float("inf")).strip()
