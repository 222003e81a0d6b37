"""What is printed before a script starts processes of its own, which would be begun with the state of this one."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import TRAINS, converted, severities

_TEXT = """\
import multiprocessing as mp
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def work(i):
    return i * i


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.ones(64, 8), torch.zeros(64).long()), batch_size=16, shuffle=True)
    model = nn.Linear(8, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{train}

if __name__ == "__main__":
    print("begin")
    {lines}
    main()
"""


@pytest.mark.parametrize(
    "lines",
    [
        "with mp.Pool(2) as pool:\n        found = pool.map(work, range(4))",
        "process = mp.Process(target=work, args=(1,))\n    process.start()",
        "import os\n    os.fork()",
    ],
)
def test_no_state_is_asked_before_processes_are_started(lines: str) -> None:
    text = _TEXT.format(train=TRAINS, lines=lines)
    assert "PartialState" not in converted(text)
    assert severities(text, "PRINT-ALL") == ["note"]


@pytest.mark.parametrize("lines", ["found = list(map(work, range(4)))", "from multiprocessing.pool import ThreadPool"])
def test_it_is_asked_where_none_are(lines: str) -> None:
    assert 'PartialState().print("begin")' in converted(_TEXT.format(train=TRAINS, lines=lines))
