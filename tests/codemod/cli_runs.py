"""Runs the command line: in this process, which is fast, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from accelift_codemod.cli import main
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"

SCRIPT = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=4)
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(len(loader))
"""
CONVERTED = """\
import torch
import torch.nn as nn
from accelift import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    accelerator.print(len(loader))
"""


@dataclass(frozen=True)
class Ran:
    """What a run of the command line left behind."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout.decode()

    @property
    def lines(self) -> list[str]:
        """What it said on stderr."""
        return self.stderr.splitlines()


def accelift(*arguments: str | Path, stdin: bytes = b"") -> Ran:
    """`accelift ...` in this process."""
    before = sys.argv
    sys.argv = ["accelift", *map(str, arguments)]
    code = 0
    try:
        with CliRunner().isolation(input=stdin) as (out, err, _):
            try:
                main()
            except SystemExit as done:
                assert isinstance(done.code, int)
                code = done.code
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        sys.argv = before
    return Ran(code, out.getvalue(), err.getvalue().decode())


def convert(*arguments: str | Path, stdin: bytes = b"") -> Ran:
    """`accelift convert ...` in this process."""
    return accelift("convert", *arguments, stdin=stdin)


def process(*arguments: str | Path, cwd: Path, stdin: bytes = b"", timeout: float = 60) -> Ran:
    """`python -m accelift_codemod ...` as a process of its own."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("ACCELERATE_", "ACCELIFT_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-m", "accelift_codemod", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=environment,
        timeout=timeout,
    )
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too, with its bytes."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
