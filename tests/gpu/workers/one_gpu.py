"""Runs a script or `-m` module as a process of a job whose processes share one GPU.

NCCL refuses to serve two processes of one GPU, so they talk through gloo.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

import torch.distributed as dist

_join = dist.init_process_group


def join(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
    _join("gloo", *args, **kwargs)


dist.init_process_group = join
del sys.argv[0]
if sys.argv[0] == "-m":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
