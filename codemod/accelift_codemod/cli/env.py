"""`accelift env`: what a bug report needs."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys

import click

_PACKAGES = ("torch", "libcst", "click", "rich", "pyyaml", "black", "pathspec", "accelerate")
_VARIABLES = ("ACCELERATE_", "ACCELIFT_", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "WORLD_SIZE", "RANK", "MASTER_")


@click.command("env", short_help="Show versions and devices, for bug reports.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(format_: str) -> None:
    """Show versions, devices and the environment variables that launching reads."""
    facts = _facts()
    if format_ == "json":
        click.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            click.echo(f"{name}:")
            for key, inner in value.items():
                click.echo(f"  {key}: {inner}")
        else:
            click.echo(f"{name}: {value}")


def _facts() -> dict[str, object]:
    from accelift import __version__

    return {
        "accelift": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": {name: _package(name) for name in _PACKAGES},
        "devices": _devices(),
        "variables": {k: v for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)},
    }


def _package(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _devices() -> dict[str, str]:
    """What torch sees."""
    try:
        import torch
    except ImportError:
        return {"torch": "not installed: pip install torch"}
    found = {"torch": str(torch.__version__)}
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            found[f"cuda:{i}"] = torch.cuda.get_device_name(i)
    else:
        found["cuda"] = "none"
    backends = [b for b in ("nccl", "gloo", "mpi") if getattr(torch.distributed, f"is_{b}_available", lambda: False)()]
    found["backends"] = ", ".join(backends) or "none"
    return found
