"""What importing costs, and that one file does not need torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_launching_several_processes_without_torch(tmp_path: Path) -> None:
    """`sys.modules[name] = None` is how a module is said not to be there."""
    script = tmp_path / "script.py"
    script.write_text("print(1)")
    code = "import sys; sys.modules['torch'] = None; from accelift.launch import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "--cpu", "--num_processes", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "`pip install torch`" in done.stderr
