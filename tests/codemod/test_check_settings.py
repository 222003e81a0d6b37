"""`accelift check` of what a script makes for another setting, or each process for itself: that is no fault."""

from __future__ import annotations

import pytest

from tests.codemod.checks import evaluating, findings, marked, script
from tests.codemod.test_check_results import METHODS

SAMPLER = "from torch.utils.data import DistributedSampler"
MAKE = """\
def make(distributed):
    if distributed:
        return DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
    return DataLoader(data, batch_size=16, shuffle=True)
"""
MAKE_TWO = MAKE.replace("shuffle=True", "sampler=DistributedSampler(data), num_workers=2")
PREPARED = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader){}"
FP32 = "accelerator.unwrap_model(model, keep_fp32_wrapper=False)"
CODER = {"definitions": METHODS, "model": "model = Coder()", "imports": "import sys"}
ARMS = "if len(sys.argv) > 1:\n    net = model.module.encode\nelse:\n    net = model.encode{}"
LEFT = """\
def coder(model):
    if len(sys.argv) > 1:
        return model.module.encode(x)
    return model.encode(x)
coder(model)
"""
BRANCHES = """\
guesses = model(x).argmax(1)
if {test}:
    losses.append((guesses == y).sum())
else:
    losses.append(accelerator.gather_for_metrics(guesses == y).sum())
"""
AFTER = """\
losses = []
for x, y in test_loader:
    {body}
accelerator.print(sum(losses))
"""
CYCLE = "def cycle(loader):\n    while True:\n        yield from loader\n"
DRAWN = "for _ in range(4):"
ONLY_MODEL = "model, optimizer = accelerator.prepare(model, optimizer)"
MEMORY = "data = []\nfor i in range(64):\n    data.append((torch.{drawn}, i % 3))"


def branches(test: str) -> str:
    lines = BRANCHES.format(test=test).strip("\n").replace("\n", "\n    ")
    return evaluating("", after=AFTER.format(body=lines), from_imports="from accelerate.utils import DistributedType")


REPORTED = [
    (
        "DATA-DOUBLESHARD",
        script(
            imports="import sys",
            from_imports=SAMPLER,
            loader=f"{MAKE_TWO}\nloader = make(len(sys.argv) > 1)",
            prepare=PREPARED.format("  # HERE"),
        ),
    ),
    ("UNWRAP-FP32", script(device="accelerator = Accelerator(mixed_precision='bf16')", epoch_end=f"{FP32}  # HERE")),
    ("DEV-LEFT", script(device="accelerator = Accelerator(device_placement=True)", move="x = x.cuda()  # HERE")),
    (
        "DDP-METHOD",
        script(**CODER, after="if len(sys.argv) > 1:\n    net = Net()\nelse:\n    net = model.encode  # HERE"),
    ),
    (
        "METRIC-LOCAL",
        branches("epoch > 0").replace("(guesses == y).sum())\n    else", "(guesses == y).sum())  # HERE\n    else"),
    ),
    (
        "DATA-UNSHARDED",
        script(
            definitions=CYCLE,
            prepare="loader = cycle(loader)\nmodel, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
            loop=DRAWN,
            move="x, y = next(loader)  # HERE",
        ),
    ),
    (
        "DATA-UNSHARDED",
        script(
            definitions=CYCLE,
            prepare=f"train, test = cycle(loader), cycle(DataLoader(data, batch_size=8))\n{ONLY_MODEL}",
            epochs="for epoch in range(2):\n    model(next(test)[0])",
            loop=DRAWN,
            move="x, y = next(train)  # HERE",
        ),
    ),
    (
        "DATA-UNSHARDED",
        script(data=MEMORY.format(drawn="arange(8.0)"), prepare=ONLY_MODEL, loop="for x, y in loader:  # HERE"),
    ),
]
SILENT = [
    (
        "DATA-DOUBLESHARD",
        script(imports="import sys", from_imports=SAMPLER, loader=f"{MAKE}\nloader = make(len(sys.argv) > 1)"),
    ),
    ("UNWRAP-FP32", script(device="accelerator = Accelerator(mixed_precision='no')", epoch_end=FP32)),
    ("DEV-LEFT", script(device="accelerator = Accelerator(device_placement=False)", move="x = x.cuda()")),
    ("DEV-LEFT", script(device="accelerator = Accelerator(False)", move="x = x.cuda()")),
    (
        "DEV-LEFT",
        script(
            prepare="model, optimizer, loader = accelerator.prepare(\n"
            "    model, optimizer, loader, device_placement=[True, True, False]\n)",
            move="x = x.cuda()",
        ),
    ),
    ("DDP-METHOD", script(**CODER, after=ARMS.format(""))),
    ("DDP-METHOD", script(**CODER, after=LEFT)),
    ("METRIC-LOCAL", branches("accelerator.distributed_type == DistributedType.MEGATRON_LM")),
    ("METRIC-LOCAL", branches("accelerator.num_processes == 1")),
    ("DATA-UNSHARDED", script(data=MEMORY.format(drawn="randn(8)"), prepare=ONLY_MODEL)),
    (
        "DATA-UNSHARDED",
        script(from_imports="from games import play", data="data = []\ndata.append(play())", prepare=ONLY_MODEL),
    ),
    (
        "DATA-UNSHARDED",  # what is drawn of another loader, to evaluate, is no data that is trained on
        script(
            definitions=CYCLE,
            prepare="model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n"
            "test = cycle(DataLoader(data, batch_size=8))",
            batch_end="with torch.no_grad():\n    loss = model(next(test)[0]).mean()",
        ),
    ),
    (
        "DATA-UNSHARDED",
        script(
            definitions=CYCLE,
            prepare="model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\nloader = cycle(loader)",
            loop=DRAWN,
            move="x, y = next(loader)",
        ),
    ),
]


@pytest.mark.parametrize(("code", "text"), REPORTED)
def test_what_holds_in_every_setting_is_reported(code: str, text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, code)] == marked(text)


@pytest.mark.parametrize(("code", "text"), SILENT)
def test_what_is_made_for_another_is_not(code: str, text: str) -> None:
    assert findings(text, code) == []


def test_a_generator_is_no_loader() -> None:
    (finding,) = findings(REPORTED[5][1], "DATA-UNSHARDED")
    assert finding.message == (
        "`next(loader)` deals of a DataLoader that was not prepared (`prepare` returns what is none as it is): every "
        "process trains on all of the data"
    )
