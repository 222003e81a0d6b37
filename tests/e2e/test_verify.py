"""`accelift verify` as a user runs it: exit codes, what it leaves alone, and scripts that misbehave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from accelift_codemod.verify.proof import prove

from tests.codemod import cli_runs
from tests.codemod.cli_runs import Ran, process, tree
from tests.forks import Forks
from tests.verify.runs import Runs

pytestmark = pytest.mark.slow

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

"""
TRAIN = (
    HEAD
    + """\
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(42, 6), torch.randint(0, 3, (42,)))
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(data, batch_size=8, shuffle=True)
with open("log.bin", "ab") as log:
    log.write(b"begun")
for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
print("done")
"""
)


def project(folder: Path, script: str) -> Path:
    """A project of a script, a large file that it appends to, and a model from earlier."""
    folder.mkdir()
    (folder / "train.py").write_text(script)
    (folder / "log.bin").write_bytes(bytes(2 << 20))
    (folder / "model.pt").write_bytes(b"from earlier")
    return folder / "train.py"


def accelift(*arguments: str | Path, cwd: Path) -> Ran:
    return process(*arguments, cwd=cwd, timeout=300)


Verify = Callable[..., Ran]


@pytest.fixture
def verify(forks: Forks, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Verify:
    """`accelift verify` in this process; the runs that it makes are forked."""
    runs = Runs(forks, tmp_path_factory.mktemp("kept"))
    monkeypatch.setattr("accelift_codemod.cli.verify.prove", partial(prove, execute=runs.execute))
    return partial(cli_runs.accelift, "verify")


def test_a_conversion_is_proved_and_nothing_is_touched(tmp_path: Path) -> None:
    script = project(tmp_path / "project", TRAIN)
    before = tree(script.parent)
    done = accelift("verify", "train.py", "--format", "json", cwd=script.parent)
    assert done.code == 0, done.stderr
    proof = json.loads(done.stdout)
    assert proof["proved"]
    assert [one["verdict"] for one in proof["comparisons"]] == ["identical", "equivalent"]
    assert all(run["steps"] == 12 for run in proof["runs"].values())
    answers = {one["question"]: one for one in proof["comparisons"][1]["answers"]}
    assert answers["the same checkpoints"]["detail"] == "model.pt"
    assert tree(script.parent) == before


def test_nothing_is_proved_of_a_script_that_does_not_repeat_itself(verify: Verify, tmp_path: Path) -> None:
    script = project(tmp_path / "project", TRAIN.replace("torch.manual_seed(0)", "torch.seed()"))
    done = verify(script, "--steps", "3", "--format", "json")
    assert done.code == 1, done.stderr
    proof = json.loads(done.stdout)
    assert not proof["proved"] and [one["verdict"] for one in proof["comparisons"]] == ["undecided"]
    assert set(proof["runs"]) == {"original", "original, again", "converted, 1 process"}
    assert proof["notes"][0] == "the original does not repeat itself: two runs with one seed differ"


def test_a_wrong_conversion_is_not_proved(verify: Verify, tmp_path: Path) -> None:
    script = project(tmp_path / "project", TRAIN)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(TRAIN.replace("lr=0.1", "lr=0.2"))
    page = tmp_path / "proof.html"
    given = ("--against", str(wrong), "--num-processes", "1", "--format", "html", "--output-file", str(page))
    done = verify(script, *given)
    assert done.code == 1, done.stderr
    text = page.read_text()
    assert "NOT PROVED" in text and "SCHEDULER" in text and text.count("<polyline") == 2


def test_parameters_that_are_no_numbers_are_told_of(verify: Verify, tmp_path: Path) -> None:
    """They are the same by name only: the rest of the training is not proved."""
    script = project(tmp_path / "project", TRAIN.replace("lr=0.1", "lr=1e38"))
    done = verify(script, "--num-processes", "1", "--format", "json")
    notes = json.loads(done.stdout)["notes"]
    assert any(note.startswith("parameters of the original are nan or infinite from step ") for note in notes), notes
    script = project(tmp_path / "other", TRAIN)
    done = verify(script, "--num-processes", "1", "--format", "json")
    assert not any("nan" in note for note in json.loads(done.stdout)["notes"])


def test_an_optimizer_that_takes_the_place_of_another(verify: Verify, tmp_path: Path) -> None:
    """The first one of the original is gone by then; that of the conversion is still known to its accelerator."""
    make = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)"
    anew = f"    if epoch == 1:\n        {make.replace('model.', 'model[2].')}\n    for x, y"
    script = project(tmp_path / "project", TRAIN.replace("    for x, y", anew))
    done = verify(script, "--num-processes", "1", "--format", "json")
    assert done.code == 0, done.stderr
    answers = {one["question"]: one for one in json.loads(done.stdout)["comparisons"][0]["answers"]}
    assert answers["the same optimizers and parameters"]["detail"] == "SGD, SGD"


def test_checkpoints_of_steps_that_differ_are_not_said_to_agree(verify: Verify, tmp_path: Path) -> None:
    """Step by step, each step begins with the original's parameters, and these are what is saved in the end."""
    script = project(tmp_path / "project", TRAIN.replace("model(x), y)", "model(x).roll(1, 0), y)"))
    done = verify(script, "--format", "json")
    assert done.code == 1, done.stderr
    last = json.loads(done.stdout)["comparisons"][-1]["answers"]
    answers = {one["question"]: one["verdict"] for one in last}
    assert answers["the same parameters"] == "differs"
    assert answers["the same checkpoints"] == "not comparable"


def test_models_that_part_are_not_excused_by_chance(verify: Verify, tmp_path: Path) -> None:
    """Shares of 3, 3 and 2 draw other numbers of dropout masks; weights that are drawn after that differ."""
    again = "for epoch in range(2):\n    for part in model.children():\n        for p in part.parameters():\n"
    again += "            nn.init.uniform_(p, -0.1, 0.1)"
    text = TRAIN.replace("nn.Tanh()", "nn.Dropout(0.5)").replace("for epoch in range(2):", again)
    done = verify(project(tmp_path / "project", text), "--num-processes", "3", "--format", "json")
    assert done.code == 1, done.stderr
    answers = [{a["question"]: a["verdict"] for a in one["answers"]} for one in json.loads(done.stdout)["comparisons"]]
    assert [one.get("every process has the same parameters") for one in answers] == [None, "differs", "identical"]
    assert answers[1]["the same gradients"] == "not comparable"


def test_sums_over_shares_are_compared_by_their_total(tmp_path: Path) -> None:
    """Each process divides the gradients of its sum by its own samples: its loss is that of its share."""
    summed = TRAIN.replace(
        "cross_entropy(model(x), y).backward()", 'cross_entropy(model(x), y, reduction="sum").backward()'
    )
    summed = summed.replace("shuffle=True)", "drop_last=True)")
    divided = summed.replace(
        ".backward()\n", ".backward()\n        for p in model.parameters():\n            p.grad /= len(x)\n"
    )
    done = accelift("verify", project(tmp_path / "project", divided), "--format", "json", cwd=tmp_path)
    assert done.code == 0, done.stderr
    answers = {one["question"]: one for one in json.loads(done.stdout)["comparisons"][1]["answers"]}
    assert "that of a process is of its share" in answers["the same losses"]["detail"]


def test_only_what_is_proved_is_written(tmp_path: Path) -> None:
    script = project(tmp_path / "project", TRAIN)
    done = accelift("convert", script, "--write", "--verify", cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert "accelerator.backward" in script.read_text()

    fails = project(tmp_path / "other", TRAIN.replace('print("done")', 'raise ValueError("no such luck")'))
    before = fails.read_text()
    done = accelift("convert", fails, "--write", "--verify", cwd=tmp_path)
    assert done.code == 2
    assert "no such luck" in done.stderr
    assert fails.read_text() == before


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (TRAIN.replace("for epoch", "raise ValueError('no data here')\nfor epoch"), "no data here"),
        (TRAIN.replace("for epoch", "input('Which GPU? ')\nfor epoch"), "EOFError"),
        (TRAIN.replace("for epoch", "import sys; sys.exit(3)\nfor epoch"), "exit code 3"),
        (TRAIN.replace("range(2)", "range(0)"), "makes no optimizer step"),
        (HEAD + "print(torch.ones(3))\n", "not converted"),
    ],
)
def test_a_script_that_does_not_train(script: str, said: str, verify: Verify, tmp_path: Path) -> None:
    done = verify(project(tmp_path / "project", script))
    assert done.code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr or "no data here" in done.stderr or "EOFError" in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    "imports", ["from src.nets import head", "from .nets import head", "from src.parts import head"]
)
def test_a_script_that_is_started_as_a_module(imports: str, verify: Verify, tmp_path: Path) -> None:
    """`python -m src.train`: what it imports begins in a folder above it."""
    text = TRAIN.replace("from torch import nn", f"from torch import nn\n{imports}").replace(
        "nn.Linear(16, 3)", "head()"
    )
    script = project(tmp_path / "src", text)
    (script.parent / "nets.py").write_text("from torch import nn\n\n\ndef head():\n    return nn.Linear(16, 3)\n")
    (script.parent / "parts").mkdir()
    (script.parent / "parts" / "__init__.py").write_text("from ..nets import head\n")
    (tmp_path / ".git").mkdir()
    done = verify(script, "--steps", "3", "--num-processes", "1")
    assert done.code == 0, done.stderr


def test_what_the_conversion_has_warned_of_is_said_where_processes_part(verify: Verify, tmp_path: Path) -> None:
    weights = "torch.tensor([1.0, 5.0, 0.1])"
    text = TRAIN.replace("cross_entropy(model(x), y)", f"cross_entropy(model(x), y, weight={weights}.to(device))")
    done = verify(project(tmp_path / "project", text), "--steps", "3")
    assert done.code == 1, done.stderr
    assert "Note: the conversion itself has warned of LOSS-MASKMEAN (" in done.text


def test_what_a_library_logs_on_its_own_is_not_the_scripts(verify: Verify, tmp_path: Path) -> None:
    """As Matplotlib does of fonts: each process logs it, the conversion cannot know, and nothing is wrong with that."""
    text = TRAIN.replace(
        "torch.manual_seed(0)", "torch.manual_seed(0)\nlogging.captureWarnings(True)\nwarnings.warn('old')"
    )
    done = verify(project(tmp_path / "project", f"import logging\nimport warnings\n\n{text}"), "--steps", "3")
    assert done.code == 0, done.text + done.stderr
    assert "one process prints                     identical" in done.text


def test_a_script_that_runs_forever_is_ended(tmp_path: Path) -> None:
    marker = f"forever-{os.getpid()}"
    child = f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{marker}'])"
    forever = f"import subprocess, sys, time\n{child}\n"
    script = project(tmp_path / "project", TRAIN.replace("for epoch", f"{forever}time.sleep(600)\nfor epoch"))
    done = accelift("verify", script, "--timeout", "15", cwd=tmp_path)
    assert done.code == 2
    assert "--timeout" in done.stderr
    deadline = time.monotonic() + 30
    while _running(marker) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not _running(marker)


def _running(marker: str) -> bool:
    if sys.platform != "linux":
        return subprocess.run(["pgrep", "-f", marker], capture_output=True, check=False).returncode == 0
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found.append((entry / "cmdline").read_bytes())
        except OSError:
            continue
    return any(marker.encode() in line and b"time.sleep" in line for line in found)
