"""What reading the conversions of real scripts has shown to be wrong once."""

from __future__ import annotations

import json

import pytest
from accelift_codemod.api import convert_bytes
from accelift_codemod.options import Options
from scripts import CREATED, added, converted, findings, lifted, script, unchanged

PARAMETER = """\
def train(net, loader):
    {move}
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
"""


def in_a_function(move: str) -> str:
    """A script that trains in a function, which moves its parameter."""
    body = dict.fromkeys(("loop", "move", "forward", "backward", "step"), "")
    definitions = PARAMETER.format(move=move)
    return script(definitions=definitions, model="model = Net()", epochs="train(model, loader)", **body)


def test_the_import_stands_before_code_above_that_of_torch() -> None:
    lines = converted('print("first")\n' + script()).splitlines()
    assert lines[:3] == [
        "from accelift import Accelerator, DataLoaderConfiguration",
        CREATED,
        'accelerator.print("first")',
    ]
    compile("\n".join(lines), "train.py", "exec")


@pytest.mark.parametrize("move", ["net = net.to(device)", "net = net.cuda()", "net = net.to(device).train()"])
def test_a_parameter_that_is_moved_is_prepared_where_it_was_made(move: str) -> None:
    text = in_a_function(move)
    lines = added(text)
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in lines
    assert not any(line.startswith("net = accelerator") for line in lines)


def test_a_parameter_that_is_used_before_it_is_bound_again_is_left_alone() -> None:
    text = in_a_function("print(net)\n    net = net.to(device)")
    assert unchanged(text).code == "PREP-NO-POINT"


HAND = """\
other = Net().to(device)
for x, y in loader:
    F.cross_entropy(other(x), y).backward()
    for p in other.parameters():
        p.data -= p.grad
"""


def test_a_loop_whose_network_no_optimizer_updates_is_refused() -> None:
    assert unchanged(script(before=HAND)).code == "OPT-UNKNOWN"


def test_a_frozen_network_beside_the_trained_one_is_not() -> None:
    teacher = "teacher = Net().to(device).eval()"
    forward = "optimizer.zero_grad()\nloss = F.mse_loss(model(x), teacher(x).detach())"
    assert "accelerator.backward(loss)" in converted(script(before=teacher, forward=forward))


CSV = {"imports": "import pandas as pd", "before": 'pd.DataFrame([1]).to_csv("a.csv")\n{}'}
WRITTEN = 'if accelerator.is_main_process:\n    pd.DataFrame([1]).to_csv("a.csv")\n{}'


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ('frame = pd.read_csv("a.csv")', True),
        ('frame = pd.read_csv("b.csv")', False),
        ('frame = "a.csv"', False),
    ],
)
def test_a_file_that_the_main_process_writes_is_waited_for(line: str, waits: bool) -> None:
    slots = {**CSV, "before": CSV["before"].format(line)}
    after = WRITTEN.format(("accelerator.wait_for_everyone()\n" if waits else "") + line)
    assert converted(script(**slots)) == lifted(**{**slots, "before": after})


@pytest.mark.parametrize(
    ("loader", "codes"),
    [
        ("loader = DataLoader(data, batch_size=1)", ["BATCH-ONE"]),
        ("size = 1\nloader = DataLoader(data, size)", ["BATCH-ONE"]),
        ("loader = DataLoader(data, batch_size=2)", []),
        ("size = 1 + len(data)\nloader = DataLoader(data, size)", []),
    ],
)
def test_batches_of_one(loader: str, codes: list[str]) -> None:
    assert findings(script(loader=loader)) == codes
    assert findings(script(loader=loader), batch="per-process") == ["BATCH-SCALE"]


@pytest.mark.parametrize("call", ["torch.cuda.empty_cache()", "print(torch.cuda.max_memory_allocated())"])
def test_a_device_that_something_else_chooses(call: str) -> None:
    slots = {"device": "", "model": "model = Net()", "move": ""}
    assert unchanged(script(**slots, after=call)).code == "DEV-UNKNOWN"
    assert findings(script(**slots, after=f"if torch.cuda.is_available():\n    {call}")) == ["DEV-CPU"]
    assert findings(script(after=call)) == []


@pytest.mark.parametrize("dataset", ["ZINC('z')", "PPI('p', split='train')"])
def test_data_sets_that_fetch_when_they_are_made(dataset: str) -> None:
    name = dataset.partition("(")[0]
    text = script(from_imports=f"from torch_geometric.datasets import {name}", data=f"data = {dataset}")
    assert added(text)[2:4] == ["with accelerator.main_process_first():", f"data = {dataset}"]


def test_what_is_made_before_a_cell_is_in_that_cell() -> None:
    """The value of a cell's last expression is shown only if it stays the last."""
    cells = [
        "import torch\nfrom torch import nn\nlen('a')",
        "print(1)",
        script(device="", model="model = Net()", move=""),
    ]
    book = {
        "cells": [
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": c} for c in cells
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    output = convert_bytes(json.dumps(book).encode(), "/a.ipynb", Options()).output
    assert output is not None
    texts = ["".join(c["source"]) for c in json.loads(output)["cells"]]
    assert texts[0].endswith("\nlen('a')")
    assert texts[1].startswith("accelerator = Accelerator(") and texts[1].endswith("accelerator.print(1)")
