"""What needs a GPU of NVIDIA's; `make test-gpu` runs it, on a machine with one.

The other tests hide the GPUs, so these run by themselves.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "runtime"), str(HERE.parents[1] / "runtime")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="no GPU in sight; `make test-gpu`, on a machine with one"))
