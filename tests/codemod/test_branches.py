"""Where the accelerator is made if a script trains in one branch, and does other things in others."""

from __future__ import annotations

import textwrap

import pytest
from scripts import converted

HEAD = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--train", action="store_true")
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()
data = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
"""
TRAIN = """\
net = nn.Linear(3, 1)
loader = DataLoader(data, batch_size=8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()
"""
MADE = "Accelerator("


def branches(train: str = TRAIN, after: str = "", header: str = "if args.train:") -> str:
    return f"{HEAD}{header}\n{textwrap.indent(train, '    ')}{after}"


def lines(text: str, word: str) -> list[str]:
    return [line for line in text.splitlines() if word in line]


@pytest.mark.parametrize(
    "after",
    [
        'print("done")',
        'else:\n    print("done")',
        'if not args.train:\n    print("done")',
        'with open("log.txt", "w") as log:\n    log.write("done")',
    ],
)
def test_it_is_made_before_the_branch_for_who_comes_after_it(after: str) -> None:
    text = converted(branches(after=after))
    assert lines(text, MADE)[0].startswith("accelerator = ")
    assert "accelerator.print" in text or "accelerator.is_main_process" in text


@pytest.mark.parametrize("after", ["", "x = 1"])
def test_it_is_made_in_the_branch_if_nobody_else_wants_it(after: str) -> None:
    assert lines(converted(branches(after=after)), MADE)[0].startswith("    accelerator = ")


def test_what_comes_before_the_branch_does_without_it() -> None:
    text = converted(branches(TRAIN, header='print("before")\nif args.train:'))
    assert 'print("before")' in text.splitlines()
    assert lines(text, MADE)[0].startswith("    accelerator = ")


def test_who_comes_after_does_without_it_if_the_device_is_chosen_in_the_branch() -> None:
    chosen = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
    text = converted(branches(chosen + TRAIN.replace("Linear(3, 1)", "Linear(3, 1).to(device)"), after='print("done")'))
    assert lines(text, MADE)[0].startswith("    accelerator = ")
    assert 'print("done")' in text.splitlines()


def test_after_a_with_statement_it_is_there() -> None:
    text = converted(branches(header="with torch.autograd.set_detect_anomaly(True):", after='print("done")'))
    assert 'accelerator.print("done")' in text
