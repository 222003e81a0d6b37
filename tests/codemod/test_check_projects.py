"""`accelift check` of scripts that use project files: what is found in these, and what only both together show."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from accelift_codemod import checker
from accelift_codemod.checker import Choice, check_files
from accelift_codemod.plan import Severity

ENGINE = """\
import torch.nn.functional as F


def train(model, loader, optimizer, accelerator):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
"""
SCRIPT = """\
import torch
from accelerate import Accelerator
from engine import train
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator()
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, loader, optimizer = accelerator.prepare(model, loader, optimizer)
    train(model, loader, optimizer, accelerator)


main()
"""
RAW = ENGINE.replace("accelerator.backward(loss)", "loss.backward()")


def check(folder: Path, *named: str, fix: bool = False, **files: str) -> dict[str, list[tuple[str, int]]]:
    """The errors and warnings of named files of a project, or of all of them, by file; with `fix` what is left."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    paths = [folder / f"{name}.py" for name in named or sorted(files)]
    results = check_files([(str(path), True) for path in paths], Choice(fix=fix))
    found = {}
    for result in results:
        assert not result.error
        if result.output is not None:
            Path(result.path).write_bytes(result.output)
        told = [f for f in result.plan.findings if f.severity is not Severity.NOTE] if result.plan is not None else []
        if told:
            found[Path(result.path).stem] = [(f.code, f.line) for f in told]
    return found


def test_what_is_wrong_in_a_file_that_a_script_uses_is_found_there(tmp_path: Path) -> None:
    assert check(tmp_path, "train", train=SCRIPT, engine=RAW) == {"engine": [("BWD-RAW", 8)]}


def test_it_is_told_once(tmp_path: Path) -> None:
    other = SCRIPT.replace("lr=0.1", "lr=0.2")
    assert check(tmp_path, train=SCRIPT, other=other, engine=RAW) == {"engine": [("BWD-RAW", 8)]}
    by_itself = RAW.replace("import torch", "from accelerate import Accelerator\nimport torch").replace(
        "accelerator):", "accelerator: Accelerator):"
    )
    assert check(tmp_path, train=SCRIPT, engine=by_itself) == {"engine": [("BWD-RAW", 9)]}


@pytest.mark.parametrize(
    ("guard", "codes"),
    [("if accelerator.is_main_process:", ["COLL-MAIN"]), ("if epochs > 1:", [])],
)
def test_what_calls_in_another_file_make_wrong(guard: str, codes: list[str], tmp_path: Path) -> None:
    helper = "def average(accelerator, loss):\n    return accelerator.gather(loss).mean()\n"
    script = SCRIPT.replace("from engine", "from helper import average\nfrom engine").replace(
        "def main():\n", "def main(epochs=3):\n"
    )
    script = script.replace(
        "    train(",
        f"    loss = model(torch.zeros(1, 4)).sum()\n    {guard}\n        average(accelerator, loss)\n    train(",
    )
    found = check(tmp_path, "train", train=script, helper=helper, engine=ENGINE)
    assert [code for one in found.values() for code, _ in one] == codes


@pytest.mark.parametrize(
    "engine",
    [
        ENGINE,
        RAW.replace("accelerator):", "accelerator=None):"),  # for scripts without one, too
    ],
)
def test_projects_in_which_nothing_is_wrong(engine: str, tmp_path: Path) -> None:
    script = SCRIPT if engine == ENGINE else SCRIPT.replace(", accelerator)\n\n", ")\n\n").replace("Accelerator()", "1")
    assert check(tmp_path, train=script, engine=engine) == {}


def test_files_by_themselves_are_as_before(tmp_path: Path) -> None:
    assert check(tmp_path, "engine", train=SCRIPT, engine=RAW) == {}
    broken = SCRIPT + "torch.save(1, 'a.pt')\n"
    assert check(tmp_path, "train", train=broken, engine="def train(:\n") == {"train": [("SAVE-RACE", 17)]}


def test_what_is_certain_is_set_right_in_each_file(tmp_path: Path) -> None:
    script = SCRIPT.replace("    train(model", '    torch.save(model.state_dict(), "m.pt")\n    train(model')
    assert check(tmp_path, "train", train=script, engine=RAW, fix=True) == {"train": [("SAVE-RACE", 13)]}
    assert (tmp_path / "engine.py").read_text() == ENGINE
    assert "accelerator.unwrap_model(model).state_dict()" in (tmp_path / "train.py").read_text()


def test_what_a_script_does_not_run_of_a_file_is_not_its_own(tmp_path: Path) -> None:
    other = """\
        from torchvision.datasets import MNIST


        def load():
            return MNIST("data", download=True)


        def main():
            print(len(load()))


        if __name__ == "__main__":
            main()
    """
    loaded = "    {guard}\n        print(len(load()))\n    train(model"
    for guard, codes in (("with accelerator.main_process_first():", []), ("if True:", ["DL-RACE"])):
        script = SCRIPT.replace("from engine", "from other import load\nfrom engine")
        script = script.replace("    train(model", loaded.format(guard=guard))
        found = check(tmp_path, "train", train=script, other=dedent(other), engine=ENGINE)
        assert [code for one in found.values() for code, _ in one] == codes


def test_nothing_that_was_found_is_lost_where_a_fix_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker.gates, "failures", lambda *args: ["it does not parse"])
    for name, text in (("train", SCRIPT), ("engine", RAW)):
        (tmp_path / f"{name}.py").write_text(text)
    script, engine = check_files([(str(tmp_path / "train.py"), True)], Choice(fix=True))
    assert engine.plan is not None and "it does not parse" in engine.error and engine.output is None
    assert "BWD-RAW" in [finding.code for finding in engine.plan.findings] and not engine.plan.edits
    assert not script.error


def test_results_hold_no_syntax_trees(tmp_path: Path) -> None:
    for name, text in (("train", SCRIPT), ("engine", RAW)):
        (tmp_path / f"{name}.py").write_text(text)
    results = list(check_files([(str(tmp_path / "train.py"), True)], Choice()))
    plans = [result.plan for result in results if result.plan is not None]
    assert len(plans) == 2 and not any(finding.fix for plan in plans for finding in plan.findings)


TRAINER = """\
import torch
import torch.nn.functional as F
from accelerate import Accelerator


class Trainer:
    def __init__(self, model, loader):
        self.accelerator = Accelerator()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.model, self.loader, self.optimizer = self.accelerator.prepare(model, loader, self.optimizer)

    def train(self):
        for x, y in self.loader:
            loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            self.accelerator.backward(loss)
            self.optimizer.step()
            {end}
"""
CALLS = """\
import torch
from {module} import Trainer
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)
Trainer(torch.nn.Linear(4, 2), loader).train()
"""


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("end", "module", "codes"),
    [
        ("torch.save(self.model.module.state_dict(), 'm.pt')", "trainer", ["SAVE-RACE"]),
        ("pass", "trainer", []),
        ("torch.save(self.model.module.state_dict(), 'm.pt')", "elsewhere", []),
    ],
)
def test_scripts_that_get_their_accelerator_from_another_file(
    end: str, module: str, codes: list[str], named: bool, tmp_path: Path
) -> None:
    (tmp_path / "trainer.py").write_text(TRAINER.format(end=end))
    (tmp_path / "train.py").write_text(CALLS.format(module=module))
    results = check_files([(str(tmp_path / "train.py"), named)], Choice())
    assert [f.code for r in results if r.plan for f in r.plan.findings if f.severity is not Severity.NOTE] == codes


SPLIT = """\
from torch.utils.data import random_split


def parts(data):
    return random_split(data, [6, 2])
"""


@pytest.mark.parametrize(
    ("package", "statement", "silent"),
    [
        ("from accelerate.utils import set_seed\n\nset_seed(42)\n", "from pkg.cut import parts", True),
        ("from accelerate.utils import set_seed\n\nset_seed(42)\n", "from .cut import parts", True),
        ("", "from pkg.cut import parts", False),
        ("from accelerate.utils import set_seed\n", "from .cut import parts", False),
        ("import torch\n\nif __name__ == '__main__':\n    torch.manual_seed(42)\n", "from pkg.cut import parts", False),
        ("import torch\n\n\ndef begin():\n    torch.manual_seed(42)\n", "from pkg.cut import parts", False),
    ],
)
def test_the_package_of_a_module_may_seed(tmp_path: Path, package: str, statement: str, silent: bool) -> None:
    (tmp_path / "pkg").mkdir()
    script = "pkg/train" if statement.startswith("from .") else "train"
    text = ENGINE + SCRIPT.replace("from engine import train", statement)
    text = text.replace("DataLoader(TensorDataset(", "DataLoader(parts(TensorDataset(").replace("long())", "long()))")
    found = check(tmp_path, script, **{"pkg/__init__": package, "pkg/cut": SPLIT, script: text})
    assert [code for code, _ in found.get("cut", ())] == ([] if silent else ["DATA-SPLIT-UNSEEDED"])
