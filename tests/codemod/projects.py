"""Scripts of several files, and what becomes of them."""

from __future__ import annotations

import os
from pathlib import Path

from accelift_codemod.api import convert_files
from accelift_codemod.options import Options
from accelift_codemod.project import groups
from accelift_codemod.results import FileResult

MODEL = """\
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)
"""
ENGINE = """\
import torch.nn.functional as F


def train(model, loader, optimizer):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
LIFTED_ENGINE = ENGINE.replace("optimizer):", "optimizer, accelerator):").replace(
    "loss.backward()", "accelerator.backward(loss)"
)
HEAD = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
"""
LIFTED_HEAD = """\
import torch
from accelift import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader, TensorDataset
"""
SCRIPT = """\
{head}
{imports}

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)
{made}model = {net}()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{prepared}{train}(model, loader, optimizer{accelerator})
"""
MADE = """\
accelerator = Accelerator(
    cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True)
)
"""
PREPARED = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n"


def script(imports: str, net: str = "Net", train: str = "train") -> str:
    return SCRIPT.format(head=HEAD, imports=imports, net=net, made="", prepared="", train=train, accelerator="")


def lifted(imports: str, net: str = "Net", train: str = "train") -> str:
    """The script after its conversion. It chooses no device, so it stays on the CPU."""
    return SCRIPT.format(
        head=LIFTED_HEAD,
        imports=imports,
        net=net,
        made=MADE,
        prepared=PREPARED,
        train=train,
        accelerator=", accelerator",
    )


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def outputs(*names: str, options: Options | None = None) -> dict[str, str]:
    """What scripts, and the files that change with them, become."""
    results = convert_files([(Path(name), True) for name in names], options or Options())
    found = {}
    for result in groups.flattened(results):
        assert not result.error, result.error
        if result.output is not None:
            found[os.path.normpath(result.path)] = result.output.decode()
    return found


def only(name: str = "train.py") -> FileResult:
    (result,) = convert_files([(Path(name), True)], Options())
    return result


def reason(name: str = "train.py") -> tuple[str, str]:
    """Why a script is left alone."""
    result = only(name)
    assert result.output is None and result.plan is not None and not result.members
    return result.plan.findings[0].code, result.plan.findings[0].message
