"""What importing costs, and that one file does not need torch."""

from __future__ import annotations

import subprocess
import sys

import accelift
import pytest
from runtime_jobs import plain_environment

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import accelift, accelift.config, accelift.launch, accelift.dataclasses, accelift.__main__
from accelift import DataLoaderConfiguration, DistributedType
assert accelift.config.LaunchConfig().num_processes == 1
assert accelift.__version__ and "Accelerator" in dir(accelift)
try:
    accelift.Accelerator
except ImportError:
    print("fine")
"""


def test_parts_that_do_not_need_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "fine\n", done.stderr


@pytest.mark.parametrize("name", accelift.__all__)
def test_names(name: str) -> None:
    assert getattr(accelift, name) is not None


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = accelift.nothing


def test_names_of_utils() -> None:
    from accelift import utils

    for name in utils.__all__:
        assert hasattr(utils, name)
    assert utils.set_seed is accelift.set_seed
