"""What `accelift verify` does with its command line, and when it is ended."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

import pytest
from accelift_codemod.cli import verify
from accelift_codemod.options import Options
from accelift_codemod.plan import Finding, Outcome, Plan, Severity
from accelift_codemod.report import Report
from accelift_codemod.results import FileResult
from accelift_codemod.verify import gate
from accelift_codemod.verify.answers import Answer, Verdict
from accelift_codemod.verify.proof import Request, prove
from accelift_codemod.verify.proved import Comparison, Proof
from accelift_codemod.verify.runs import Limits, Order, Run
from cli_runs import CONVERTED, SCRIPT, accelift


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_no_scratch_folder(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "train.py").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    before = signal.getsignal(signal.SIGTERM)

    def sent(order: Order, limits: Limits) -> Run:
        assert any((tmp_path / "scratch").iterdir())
        signal.raise_signal(number)
        raise AssertionError

    with pytest.raises(SystemExit if number is signal.SIGTERM else KeyboardInterrupt) as ended:
        prove(Request(tmp_path / "train.py", b""), execute=sent)
    assert number is signal.SIGINT or ended.value.code == 143  # type: ignore[attr-defined]
    assert not any((tmp_path / "scratch").iterdir()) and signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("gpus", "processes", "told"), [(0, "2", True), (0, "1", True), (2, "2", False), (1, "1", False)]
)
def test_without_a_gpu_none_can_be_asked_for(
    gpus: int, processes: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelift_codemod.cli.verify.visible_gpus", lambda: gpus)
    (tmp_path / "train.py").write_text("import torch\n")  # which is not converted, and so not run
    ran = accelift("verify", tmp_path / "train.py", "--gpu", "--num-processes", processes)
    assert ran.code == 2 and ("--gpu: no GPU is visible here" in ran.stderr) is told


def test_options_of_the_script_go_behind_two_dashes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    said = " Options of the script go behind `--`."
    assert accelift("verify", tmp_path / "train.py", "--epochs", "1").lines[0].endswith(said)
    assert said not in accelift("convert", tmp_path / "train.py", "--epochs", "1").stderr


@pytest.mark.parametrize("changed", [False, True])
def test_a_conversion_made_before_is_known_for_what_was_said_of_it(changed: bool, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "by_hand.py").write_text(CONVERTED + "# by hand\n" * changed)
    result = verify._converted(tmp_path / "train.py", tmp_path / "by_hand.py", Options(), quiet=True)
    assert result.output == (tmp_path / "by_hand.py").read_bytes() and (result.plan is None) is changed


def test_what_is_not_proved_is_counted_as_that() -> None:
    warning = Finding("LOSS-MASKMEAN", Severity.WARNING, 3, "a mean by weights", "see")
    answer = Answer("the same losses", Verdict.DIFFERS)
    proof = Proof("train.py", comparisons=[Comparison("converted, 2 processes", [answer])])
    plan = Plan("train.py", "", findings=(warning,), outcome=Outcome.CONVERTED_WITH_FINDINGS)
    report = Report()
    report.add(gate._refused(FileResult("train.py", plan), proof))
    assert report.reasons == {"NOT-PROVED": 1} and report.findings == 0
