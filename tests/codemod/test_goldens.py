"""The fixtures: what is converted becomes the committed result, what is left alone has its reason."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
import yaml
from accelift.config import LaunchConfig
from accelift_codemod.api import convert_file
from accelift_codemod.options import Options
from accelift_codemod.plan import Outcome, Severity
from accelift_codemod.results import FileResult
from cli_runs import FIXTURES, ROOT

sys.path.insert(0, str(ROOT))

from fixtures.goldens import CONVERTED, convert, convertible, projects

UNTOUCHED = {
    "averages_itself": (Outcome.NOTHING, "ALREADY-DISTRIBUTED", 14),
    "custom_update": (Outcome.REFUSED, "OPT-UNKNOWN", 25),
    "full_batch": (Outcome.REFUSED, "DATA-UNSHARDED", 22),
    "hogwild": (Outcome.NOTHING, "ALREADY-DISTRIBUTED", 41),
    "inference_only": (Outcome.NOTHING, "NO-TRAINING", 0),
    "library_module": (Outcome.NOTHING, "NO-ENTRY", 31),
    "lightning_module": (Outcome.NOTHING, "FRAMEWORK", 1),
    "manual_batches": (Outcome.REFUSED, "DATA-UNSHARDED", 24),
    "python2_prints": (Outcome.REFUSED, "PYTHON2", 33),
    "uses_accelerate": (Outcome.NOTHING, "ALREADY-ACCELERATE", 2),
    "uses_trainer": (Outcome.NOTHING, "FRAMEWORK", 6),
}


# ---- converted


@pytest.mark.parametrize("script", convertible(), ids=lambda p: p.stem)
def test_golden(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the script's own project decides how long a line may be
    result = convert(script)
    assert result.output is not None, result.error
    golden = CONVERTED / script.name
    assert result.output == golden.read_bytes()
    assert result.config == golden.with_suffix(".yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", convertible(), ids=lambda p: p.stem)
def test_golden_is_a_conversion(script: Path) -> None:
    """A golden that somebody has broken by hand, or accepted unread, is no yardstick."""
    before, after = script.read_bytes(), (CONVERTED / script.name).read_bytes()
    assert before != after
    text = ast.unparse(ast.parse(after))
    assert len(re.findall(r"= Accelerator\(", text)) == 1
    assert "accelerator.prepare(" in text and "accelerator.backward(" in text
    assert ".backward()" not in text and ".cuda()" not in text and "DataParallel(" not in text


def test_every_golden_has_its_script() -> None:
    names = [script.stem for script in convertible()]
    assert len(set(names)) == len(names)
    files = {f"{n}{end}" for n in names for end in (".py", ".yaml")}
    assert {p.name for p in CONVERTED.iterdir()} == files | {"projects"}
    assert {p.name for p in (CONVERTED / "projects").iterdir()} == {p.parent.name for p in projects()}


# ---- launch configs


@pytest.mark.parametrize("path", sorted(CONVERTED.glob("*.yaml")), ids=lambda p: p.stem)
def test_launch_config(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = yaml.safe_load(text)
    config = LaunchConfig.load(path)
    assert {key: getattr(config, key) for key in found} == found
    assert found["compute_environment"] == "LOCAL_MACHINE"
    lines = {line.partition(":")[0]: line.partition("#")[2].strip() for line in text.splitlines() if line[0] != "#"}
    assert list(lines) == list(found)
    derived = {"mixed_precision", "num_processes"} | (set(found) & {"gpu_ids", "main_training_function"})
    if config.use_cpu:
        derived.add("use_cpu")
    script = f"{path.stem}.py"
    source = next(p for p in convertible() if p.stem == path.stem).read_bytes().splitlines()
    for key in derived:
        assert lines[key].startswith(script), key
    for comment in filter(None, [*lines.values(), *(line[2:] for line in text.splitlines() if line[0] == "#")]):
        match = re.search(rf"{re.escape(script)}:(\d+)", comment)
        if match is not None:  # the line is one of the script's, and not empty
            assert source[int(match[1]) - 1].strip()


# ---- left alone


def left_alone(name: str) -> FileResult:
    return convert_file(FIXTURES / "untouched" / f"{name}.py", Options())


@pytest.mark.parametrize("name", UNTOUCHED)
def test_untouched(name: str) -> None:
    result = left_alone(name)
    outcome, code, line = UNTOUCHED[name]
    assert (result.output, result.diff, result.error, result.fault) == (None, "", "", False)
    assert result.plan is not None and result.plan.edits == ()
    assert result.outcome is outcome and result.plan.reason
    assert [(f.code, f.line) for f in result.plan.findings] == [(code, line)]
    (finding,) = result.plan.findings
    assert finding.message == result.plan.reason and finding.remedy
    assert bool(result.plan.pending) == (outcome is Outcome.REFUSED)


def test_untouched_without_torch() -> None:
    result = convert_file(FIXTURES / "untouched" / "sklearn_only.py", Options(), named=False)
    assert result == convert_file(FIXTURES / "untouched" / "sklearn_only.py", Options(), named=True)
    assert (result.skipped, result.plan, result.output, result.error) == (True, None, None, "")
    assert result.to_json()["reason"] == "does not mention torch"


def test_every_untouched_fixture_is_listed() -> None:
    assert {p.stem for p in FIXTURES.glob("untouched/*.py")} == {*UNTOUCHED, "sklearn_only"}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_frameworks_alone_have_a_launch_config(name: str) -> None:
    config = left_alone(name).config
    assert bool(config) == (UNTOUCHED[name][1] == "FRAMEWORK")
    if config:
        assert LaunchConfig.from_yaml(config) == LaunchConfig()


# ---- projects


@pytest.mark.parametrize("script", projects(), ids=lambda script: script.parent.name)
def test_project(script: Path) -> None:
    """Every file that changes is committed as it becomes, and no other."""
    result = convert(script)
    found = {Path(r.path).relative_to(script.parent): r.output for r in (result, *result.members)}
    folder = CONVERTED / "projects" / script.parent.name
    assert found == {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.py")}
    for part in (result, *result.members):
        assert part.plan is not None and not part.error
        assert [f.code for f in part.plan.findings if f.severity is not Severity.NOTE] == []
