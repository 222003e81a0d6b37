"""Levels of safety: what is taken for granted is said, and what needs somebody's word is only done when asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from accelift_codemod.api import convert_bytes
from accelift_codemod.options import Options
from accelift_codemod.plan import Edit, Safety
from accelift_codemod.rules import all_rules
from cli_runs import convert as run
from scripts import PATH, converted, findings, lifted, script

SPLIT = {
    "from_imports": "from torch.utils.data import random_split",
    "data": "data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)\n{}",
}


def edits(text: str, **options: object) -> list[Edit]:
    """The edits that are not safe."""
    plan = convert_bytes(text.encode(), PATH, Options(**options)).plan  # type: ignore[arg-type]
    assert plan is not None
    return [e for e in plan.edits if e.safety is not Safety.SAFE]


def slot(slots: dict[str, str], line: str) -> dict[str, str]:
    return {name: text.replace("{}", line) for name, text in slots.items()}


def test_what_edits_take_for_granted_is_declared_by_their_rules() -> None:
    declared = {rule.code: {a.safety for a in rule.assumptions} for rule in all_rules()}
    texts = [
        script(
            forward="optimizer.zero_grad()\nloss = elsewhere(model, x, y)", from_imports="from far import elsewhere"
        ),
        script(before="frame = made()\nframe.to_csv('a.csv')", from_imports="from far import made"),
        script(**slot(SPLIT, "data, rest = random_split(data, [48, 16])")),
        script(batch_end="real = torch.ones(16, 1)"),
    ]
    found = [e for text in texts for e in edits(text, unsafe=True)]
    assert {e.rule for e in found} == {"BACKWARD", "GUARD", "SPLIT", "BATCHSIZE"}
    assert all(e.safety in declared[e.rule] and e.why == f"{e.reason}, if {e.assumes.text}" for e in found if e.assumes)


@pytest.mark.parametrize(
    ("forward", "rules"),
    [
        ("loss = F.cross_entropy(model(x), y)", []),
        ("loss = F.cross_entropy(model(x), y, reduction='sum')", []),
        ("loss = elsewhere(model(x), y)", ["BACKWARD"]),
    ],
)
def test_a_loss_that_is_taken_for_a_mean(forward: str, rules: list[str]) -> None:
    text = script(from_imports="from far import elsewhere", forward=f"optimizer.zero_grad()\n{forward}")
    assert [e.rule for e in edits(text)] == rules


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "data, rest = random_split(data, [48, 16])",
            "data, rest = random_split(data, [48, 16], generator=torch.Generator().manual_seed(0))",
        ),
        (
            "data, rest = torch.utils.data.random_split(data, lengths=[48, 16])",
            "data, rest = torch.utils.data.random_split(\n"
            "    data, lengths=[48, 16], generator=torch.Generator().manual_seed(0)\n)",
        ),
    ],
)
def test_a_split_is_seeded_when_asked_for(before: str, after: str) -> None:
    old, new = slot(SPLIT, before), slot(SPLIT, after)
    assert converted(script(**old)) == lifted(**old)
    assert findings(script(**old)) == ["DATA-SPLIT-UNSEEDED"]
    assert converted(script(**old), unsafe=True) == lifted(**new)
    assert findings(script(**old), unsafe=True) == []


@pytest.mark.parametrize(("name", "seeded"), [("torch", False), ("dataset", True)])
def test_a_split_where_torch_means_something_else_stays(name: str, seeded: bool) -> None:
    cut = f"def cut({name}):\n    return random_split({name}, [48, 16])\n\n\ndata, rest = cut(data)"
    text = script(**slot(SPLIT, cut))
    assert ("torch.Generator()" in converted(text, unsafe=True)) == seeded
    assert findings(text, unsafe=True) == ([] if seeded else ["DATA-SPLIT-UNSEEDED"])


@pytest.mark.parametrize("line", ["data, rest = random_split(data, [48, 16], None)", "torch.manual_seed(0)"])
def test_other_splits_stay(line: str) -> None:
    slots = slot(SPLIT, line)
    assert converted(script(**slots), unsafe=True) == lifted(**slots)


def test_numbers_that_count_samples_are_divided_when_asked_for() -> None:
    end = "real = torch.ones(16, 1)\nfake = torch.zeros((16, 1))\nother = torch.ones(8, 1)"
    divided = end.replace("16", "16 // accelerator.num_processes")
    assert converted(script(batch_end=end)) == lifted(batch_end=end)
    assert findings(script(batch_end=end)) == ["BATCH-LITERAL"]
    assert converted(script(batch_end=end), unsafe=True) == lifted(batch_end=divided)
    assert findings(script(batch_end=end), unsafe=True) == []


def test_one_visible_gpu_goes_when_asked_for() -> None:
    setup = 'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "1"\nprint(os.getcwd())'
    after = "import os\nprint(os.getcwd())".replace("print", "accelerator.print")
    text = script(setup=setup)
    assert findings(text) == ["DEV-INDEX"]
    assert findings(text, unsafe=True) == []
    assert "CUDA_VISIBLE_DEVICES" not in converted(text, unsafe=True)
    assert after.splitlines()[-1] in converted(text, unsafe=True)


LOADER = {"loader": "loader = make(data, 16)", "from_imports": "from inhouse.data import make"}


def test_what_is_made_by_an_unknown_library_is_taken_for_a_loader_when_asked_for() -> None:
    text = script(**LOADER)
    assert findings(text) == ["LOADER-UNKNOWN"]
    assert converted(text, unsafe=True) == lifted(**LOADER)
    (edit,) = edits(text, unsafe=True)
    assert (edit.rule, edit.safety) == ("PREPARE", Safety.UNSAFE)


@pytest.mark.parametrize(
    "definitions",
    [
        "class make:\n    def __init__(self, data, size):\n        self.data = data\n\n"
        "    def __iter__(self):\n        return iter(self.data)",
        "def make(data, size):\n    return [data[i : i + size] for i in range(0, len(data), size)]",
    ],
)
def test_what_is_no_loader_is_not_taken_for_one(definitions: str) -> None:
    text = script(loader=LOADER["loader"], definitions=definitions)
    assert findings(text, unsafe=True) == findings(text)
    assert len(findings(text)) == 1


def test_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    forward = "optimizer.zero_grad()\nloss = elsewhere(model(x), y)"
    text = script(
        **slot(
            {**SPLIT, "from_imports": SPLIT["from_imports"] + "\nfrom far import elsewhere"},
            "_ = random_split(data, [60, 4])",
        ),
        forward=forward,
    )
    Path("train.py").write_text(text)
    quiet = run("train.py")
    assert "if the same split in every run is what you want" in quiet.stderr and "or use --unsafe if" in quiet.stderr
    assert quiet.lines[-1] == "train.py: 1 edit to review and 1 note (-v shows them)"
    loud = run("train.py", "-v", "--unsafe")
    assert "BACKWARD call-on, review: gradients are scaled" in loud.stderr
    assert "SPLIT add-argument, unsafe: every process has to split the data alike, if the same split" in loud.stderr
    assert "SPLIT add-argument, unsafe" in run("train.py", "--unsafe").stderr
    summary = json.loads(run("train.py", "--unsafe", "--format", "json").text)["summary"]
    assert summary["left to do by hand"]["edits"] == {"review": 1, "unsafe": 1}
