"""`accelift check` is silent of what is not meant for all processes: scripts that work with an accelerator and without,
functions that fetch samples, and a `print` that the script has replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelift_codemod.checker import Choice, check_files

from tests.codemod.checks import findings, script

SAVE = "torch.save(1, 'a.pt')"
TELLER = """\
class Teller:
    def __init__(self, accelerator=None):
        self.accelerator = accelerator

    def __call__(self, x):
        {body}
"""
WITH = "self.accelerator.print(x)"
WITHOUT = "print(x)\n            torch.save(x, 'x.pt')"


def telling(test: str, yes: str, no: str = "pass") -> str:
    """A script with a class that tells something in one of two ways."""
    body = f"if {test}:\n            {yes}\n        else:\n            {no}"
    return script(
        definitions=TELLER.format(body=body),
        before="tell = Teller(accelerator=accelerator)",
        epoch_end="tell(epoch)",
    )


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (telling("self.accelerator is None", WITHOUT, WITH), False),
        (telling("self.accelerator is not None", WITH, WITHOUT), False),
        (telling("self.accelerator", WITH, WITHOUT), False),
        (telling("not self.accelerator", WITHOUT, WITH), False),
        (telling("self.accelerator is None and x", WITHOUT), False),
        (telling("self.accelerator is not None or x", WITH, WITHOUT), False),
        # these run with an accelerator
        (telling("self.accelerator is not None", WITHOUT), True),
        (telling("self.accelerator is None or x", WITHOUT), True),
        (telling("self.accelerator is not None and x", WITH, WITHOUT), True),
        (telling("x is None", WITHOUT, WITH), True),
    ],
)
def test_what_runs_without_an_accelerator_is_not_every_processs(text: str, reported: bool) -> None:
    assert bool(findings(text, "SAVE-RACE")) is reported
    assert bool(findings(text, "PRINT-ALL")) is reported


@pytest.mark.parametrize(
    ("before", "reported"),
    [
        ("if accelerator is not None:\n        return\n    ", False),
        ("if accelerator is None:\n        return\n    ", True),
        ("", True),
    ],
)
def test_what_comes_after_those_with_an_accelerator_have_left(before: str, reported: bool) -> None:
    definitions = f"def tell(accelerator, x):\n    {before}{SAVE}\n"
    text = script(definitions=definitions, epoch_end="tell(accelerator, 1)")
    assert bool(findings(text, "SAVE-RACE")) is reported


@pytest.mark.parametrize(
    ("test", "reported"),
    [
        ("accelerator.is_main_process and epoch or (full and done())", True),  # whichever process is the main one
        ("full or accelerator.is_main_process", True),
        ("done() and (accelerator.is_main_process or full)", True),
        ("accelerator.is_main_process and (epoch or full)", False),
        ("accelerator.is_main_process or full and accelerator.is_local_main_process", False),
        ("accelerator.is_main_process or not distributed", False),
        ("accelerator.is_main_process or accelerator.num_processes == 1", False),
        ("accelerator.is_main_process or save_all", False),
    ],
)
def test_an_arm_of_an_or_that_all_processes_pass(test: str, reported: bool) -> None:
    before = "full, distributed, save_all = len(data) > 3, False, False\ndone = lambda: len(data) > 5"
    text = script(before=before, epoch_end=f"if {test}:\n    {SAVE}")
    assert bool(findings(text, "SAVE-RACE")) is reported


@pytest.mark.parametrize(("test", "codes"), [("accelerator is None", []), ("len(x) < 16", ["BWD-RAW"])])
def test_a_backward_pass_without_an_accelerator(test: str, codes: list[str]) -> None:
    arms = f"if {test}:\n    loss.backward()\nelse:\n    accelerator.backward(loss)"
    assert [f.code for f in findings(script(backward=arms), "BWD-RAW")] == codes


DATA = """\
class Own({base}):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.load(index)

    def load(self, index):
        {body}
        return torch.zeros(8), index % 3


class Joins:
    def __call__(self, samples):
        {joins}
        return torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples])


def join(samples, folder):
    {joins}
    return Joins()(samples)
"""
SAYS = "print('sample')"
LOADER = "loader = DataLoader(data, batch_size=16, shuffle=True, drop_last=True{})"


def fetching(base: str = "torch.utils.data.Dataset", body: str = "pass", joins: str = "pass", given: str = "") -> str:
    return script(
        from_imports="from functools import partial",
        definitions=DATA.format(base=base, body=body, joins=joins),
        data="data = Own()",
        loader=LOADER.format(given),
    )


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (fetching(body=SAYS), False),
        (fetching("object", body=SAYS), False),
        (fetching(joins=SAYS, given=", collate_fn=Joins()"), False),
        (fetching(joins=SAYS, given=", collate_fn=partial(join, folder='a')"), False),
        (fetching(joins=SAYS, given="").replace("model = Net", "loader.collate_fn = join\nmodel = Net"), False),
        # these also run elsewhere
        (fetching(joins=SAYS).replace("model = Net", "join([data[0]], 'a')\nmodel = Net"), True),
        (fetching(body=SAYS).replace("model = Net", "data.load(1)\nmodel = Net"), True),
    ],
)
def test_what_is_said_of_samples_is_not_said_by_every_process(text: str, reported: bool) -> None:
    assert bool(findings(text, "PRINT-ALL")) is reported
    saves = text.replace(SAYS, "torch.save(1, 'a.pt')")
    assert bool(findings(saves, "SAVE-RACE")) is reported


@pytest.mark.parametrize(
    ("replaced", "reported"),
    [
        ("if not accelerator.is_main_process:\n    builtins.print = lambda *args: None", False),
        ("if not accelerator.is_main_process:\n    builtins.input = lambda *args: None", True),
        ("if not accelerator.is_main_process:\n    model.print = lambda *args: None", True),
    ],
)
def test_a_print_that_the_script_has_replaced(replaced: str, reported: bool) -> None:
    text = script(imports="import builtins", before=replaced, epoch_end="print(epoch)")
    assert bool(findings(text, "PRINT-ALL")) is reported


TOOLS = """\
import torch


class Stopper:
    def __init__(self, accelerator=None):
        self.accelerator = accelerator

    def __call__(self, value):
        print(value)


def show(accelerator, value):
    print(torch.tensor(value))
"""
USES = """\
import torch
from accelerate import Accelerator
from tools import Stopper, show

accelerator = Accelerator()
model = accelerator.prepare(torch.nn.Linear(4, 2))
accelerator.backward(model(torch.zeros(1, 4)).sum())
stopper = Stopper(accelerator)
stopper(1)
show(accelerator, 1)
print(model)
"""


def test_fixes_of_a_file_do_not_use_the_scripts_accelerator(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "train.py").write_text(USES)
    results = {Path(r.path).name: r for r in check_files([(str(tmp_path / "train.py"), True)], Choice(fix=True))}
    assert not any(result.error for result in results.values())
    outputs = {name: result.output.decode() for name, result in results.items() if result.output is not None}
    assert outputs == {
        "tools.py": TOOLS.replace("    print(torch", "    accelerator.print(torch"),
        "train.py": USES.replace("print(model)", "accelerator.print(model)"),
    }


def test_fixes_of_a_file_use_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "begin.py").write_text("from accelerate import Accelerator\n\naccelerator = Accelerator()\n")
    own = "import torch\nfrom begin import accelerator\n\n\ndef show(value):\n    print(torch.tensor(value))\n"
    uses = "import torch\nfrom begin import accelerator\nfrom tools import show\n\n"
    (tmp_path / "tools.py").write_text(own)
    body = "model = accelerator.prepare(torch.nn.Linear(4, 2))\naccelerator.backward(model(torch.zeros(1, 4)).sum())\n"
    (tmp_path / "train.py").write_text(f"{uses}{body}show(3)\n")
    results = list(check_files([(str(tmp_path / "train.py"), True)], Choice(fix=True)))
    assert not any(result.error for result in results)
    outputs = [result.output.decode() for result in results if result.output is not None]
    assert outputs == [own.replace("    print", "    accelerator.print")]
