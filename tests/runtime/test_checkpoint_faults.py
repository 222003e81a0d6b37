"""Checkpoints survive kills and full disks."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from runtime_jobs import HERE, plain_environment

WORKER = str(HERE / "workers" / "killed_saving.py")

FULL = """
import sys
from pathlib import Path
import torch
from accelift import Accelerator
acc = Accelerator(cpu=True)
model = acc.prepare(torch.nn.Linear(300, 300))
folder = Path(sys.argv[1]) / "x"
acc.save_state(folder)
before = model.weight.detach().clone()
filling = (folder.parent / "filling").open("wb")
filling.write(bytes(300_000))
filling.flush()
with torch.no_grad():
    model.weight.add_(1)
try:
    acc.save_state(folder)
except OSError as error:
    print(error)
acc.load_state(folder)
assert torch.equal(model.weight, before)
(folder.parent / "filling").unlink()
filling.close()
acc.save_state(folder)
print(sorted(path.name for path in folder.iterdir()))
"""


@pytest.mark.slow
def test_a_process_that_is_killed_at_any_point_leaves_a_complete_checkpoint(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, WORKER, str(tmp_path)], env=plain_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    kills = ast.literal_eval(done.stdout)
    assert kills["replaced"] > 20 and kills["new"] > 10 and kills["numbered"] > 15 and kills["at_any_time"] > 20


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    """On a disk of a megabyte, in a name space of its own that goes away with the process."""
    unshare = shutil.which("unshare")
    if os.geteuid() != 0 or unshare is None:
        pytest.skip("mounting takes root")
    (tmp_path / "script.py").write_text(FULL)
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o size=1m none {tmp_path / 'disk'}"
    run = f"{sys.executable} {tmp_path / 'script.py'} {tmp_path / 'disk'}"
    command = [unshare, "--mount", "sh", "-c", f"{mount} || exit 77; {run}"]
    done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("mounting is not allowed")
    assert done.returncode == 0, done.stderr
    said, names = done.stdout.splitlines()
    assert said == f"[Errno 28] cannot save to {tmp_path / 'disk' / 'x'}: No space left on device"
    assert names == "['accelift_checkpoint.json', 'model.safetensors', 'random_states_0.pkl']"
