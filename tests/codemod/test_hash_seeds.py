"""What the tool says and writes does not depend on the order in which a process happens to go through sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scripts import script

FIXTURES = Path(__file__).parents[2] / "fixtures" / "legacy"
GROUPS = """\
fast, slow = [], []
fast.extend(model.parameters())
slow.append(tail.weight)
fast.append(tail.bias)
slow.extend(head.parameters())
optimizer = torch.optim.SGD([{"params": fast}, {"params": slow, "lr": 0.01}], lr=0.1)
"""
MODELS = "model = Net().to(device)\nhead = nn.Linear(3, 3).to(device)\ntail = nn.Linear(3, 3).to(device)"


def test_hash_seeds_change_nothing(tmp_path: Path) -> None:
    for fixture in FIXTURES.glob("*.py"):
        (tmp_path / fixture.name).write_bytes(fixture.read_bytes())
    (tmp_path / "groups.py").write_text(script(model=MODELS, optimizer=GROUPS))
    outputs = set()
    for seed in (0, 1):
        done = subprocess.run(
            [sys.executable, "-m", "accelift_codemod", "convert", "--format", "json", "."],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        )
        assert done.returncode in (0, 1), done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1
