"""What a proof makes of checkpoints: keys that lose the prefix of a wrapper are told, and compared without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from accelift_codemod.plan import Finding, Severity
from accelift_codemod.render.proof import conclusion
from accelift_codemod.verify.announced import announcements
from accelift_codemod.verify.answers import Answer, Suspicion, Verdict
from accelift_codemod.verify.outputs import SAVED, compare_saves, volatile_values
from accelift_codemod.verify.proved import Comparison, Proof
from accelift_codemod.verify.recording import Rank, Recording, Save, Values


def saved(**values: float) -> Recording:
    """A run that saved these values."""
    return Recording([Rank(saves=[Save(1, "m.pt", "train.py:9", {k.replace("_", "."): v for k, v in values.items()})])])


@pytest.mark.parametrize(
    ("original", "converted", "verdict", "cause"),
    [
        (saved(net_fc=1.5), saved(net_fc=1.5), Verdict.IDENTICAL, []),
        (saved(net_module_fc=1.5, module_fc=2), saved(net_fc=1.5, fc=2), Verdict.DIFFERS, ["SAVE-PREFIX"]),
        (saved(net_module_fc=1.5), saved(net_fc=1.25), Verdict.DIFFERS, ["SAVE-VALUES"]),
        (saved(net_module_fc=1.5), saved(net_fc2=1.5), Verdict.DIFFERS, ["SAVE-KEYS"]),
        (saved(net_fc=1.5), saved(net_module_fc=1.5), Verdict.DIFFERS, ["SAVE-KEYS"]),
        (saved(net_submodule_fc=1.5), saved(net_subfc=1.5), Verdict.DIFFERS, ["SAVE-KEYS"]),
    ],
)
def test_keys(original: Recording, converted: Recording, verdict: Verdict, cause: list[str]) -> None:
    answer = compare_saves(original, converted, (), None, exact=True)
    assert (answer.verdict, [one.code for one in answer.suspicions]) == (verdict, cause)


SHAPE: tuple[int, ...] = (2,)
WEIGHTS = {"w": (SHAPE, Values(2, 1, 1.0, (1.0,)))}
OTHERS = {"w": (SHAPE, Values(2, 2, 2.0, (2.0,)))}


@pytest.mark.parametrize(
    ("original", "converted", "exact", "causes"),
    [
        ({"loss": "0.5", "n": "3"}, {"loss": "0.75", "n": "3"}, False, ["METRIC-LOCAL", "SAVE-VALUES"]),
        ({"loss": "0.5", "n": "3"}, {"loss": "0.75", "n": "3"}, True, ["SAVE-VALUES"]),
        ({"loss": "0.5", "n": "3"}, {"loss": "0.75", "n": "4"}, False, ["SAVE-VALUES"]),
        ({"loss": "0.5", "best": "True"}, {"loss": "0.5", "best": "False"}, False, ["SAVE-VALUES"]),
        ({"name": "'0.5'"}, {"name": "'0.75'"}, False, ["SAVE-VALUES"]),
        ({"loss": "-1e-05", **WEIGHTS}, {"loss": "0.75", **OTHERS}, False, ["SAVE-VALUES"]),
        ({"loss": "-1e-05", **WEIGHTS}, {"loss": "0.75", **WEIGHTS}, False, ["METRIC-LOCAL", "SAVE-VALUES"]),
        ({"loss": "0.5", **WEIGHTS}, {"loss": "0.5", **WEIGHTS}, False, []),
    ],
)
def test_numbers_that_are_saved_may_be_of_one_process_as_those_that_are_printed(
    original: dict[str, Any], converted: dict[str, Any], exact: bool, causes: list[str]
) -> None:
    runs = [Recording([Rank(saves=[Save(1, "m.pt", "train.py:9", values)])]) for values in (original, converted)]
    answer = compare_saves(*runs, (), None, exact=exact)
    assert [one.code for one in answer.suspicions] == causes
    assert (answer.verdict is Verdict.DIFFERS) is bool(causes)


SAVES = """\
import torch
for x, y in loader:
    loss = criterion(model(x), y)
    print("loss", loss)
best = max(scores)
torch.save({"loss": loss}, "m.pt")
torch.save({"best": best}, "b.pt")
"""


@pytest.mark.parametrize(
    ("place", "severity", "verdict"),
    [
        (6, Severity.NOTE, Verdict.NOT_COMPARABLE),
        (7, Severity.NOTE, Verdict.DIFFERS),  # no finding is about the scores
        (7, Severity.WARNING, Verdict.NOT_COMPARABLE),
    ],
)
def test_a_finding_excuses_the_numbers_that_it_is_about(
    tmp_path: Path, place: int, severity: Severity, verdict: Verdict
) -> None:
    file = tmp_path / "train.py"
    file.write_text(SAVES)
    finding = Finding("METRIC-TRAIN", severity, 4, "`loss` covers only the share of the process that prints it", "")
    said = announcements([(str(file), finding)], tmp_path.resolve())

    def ran(value: str) -> Recording:
        return Recording([Rank(saves=[Save(1, "m.pt", f"train.py:{place}", {"a": value})])])

    answer = compare_saves(ran("0.5"), ran("0.75"), (), None, exact=False, said=said)
    assert answer.verdict is verdict


def test_what_a_finding_has_said_of_keys_does_not_hide_what_is_proved() -> None:
    told = Answer(SAVED, Verdict.NOT_COMPARABLE, "", (Suspicion("SAVE-PREFIX", 3, ""),))
    moved = Answer(SAVED, Verdict.NOT_COMPARABLE, "each step begins with the original's parameters")
    for answer, said in ((told, "identical, but for checkpoints that a finding speaks of"), (moved, "not comparable")):
        answers = [Answer("the same losses", Verdict.IDENTICAL), answer]
        assert conclusion(Proof("train.py", comparisons=[Comparison("1 process", answers)])) == (
            f"PROVED: 1 process: {said}."
        )


def run_of(*names: str, run: float = 0.0) -> Recording:
    """A run that saved files of these names, each with a value of its own, and with one of the run's."""
    saves = [Save(1, name, "train.py:9", {"w": float(place), "run": run}) for place, name in enumerate(names)]
    return Recording([Rank(saves=saves)])


@pytest.mark.parametrize(
    ("original", "again", "converted", "verdict"),
    [
        (["net-11ca/best.pt"], ["net-9b0f/best.pt"], ["net-140b/best.pt"], Verdict.IDENTICAL),
        (["fox/a.pt", "fox/b.pt"], ["elk/a.pt", "elk/b.pt"], ["owl/a.pt", "owl/b.pt"], Verdict.IDENTICAL),
        (["fox/a.pt", "last.pt"], ["elk/a.pt", "last.pt"], ["owl/a.pt", "last.pt"], Verdict.IDENTICAL),
        # What the original names alike each time, or the converted script does not save.
        (["net-11ca/best.pt"], ["net-11ca/best.pt"], ["net-140b/best.pt"], Verdict.DIFFERS),
        (["fox/a.pt", "fox/b.pt"], ["elk/a.pt", "elk/b.pt"], ["owl/a.pt"], Verdict.DIFFERS),
        (["fox/a.pt", "last.pt"], ["elk/a.pt", "last.pt"], ["owl/a.pt"], Verdict.DIFFERS),
    ],
)
def test_files_that_every_run_names_anew_are_compared_in_their_order(
    original: list[str], again: list[str], converted: list[str], verdict: Verdict
) -> None:
    volatile = volatile_values(run_of(*original), run_of(*again, run=1.0))
    answer = compare_saves(run_of(*original), run_of(*converted, run=2.0), volatile, None, exact=True)
    assert answer.verdict is verdict
