"""`accelift check` as a command: what it prints, its exit codes, and which files it looks at."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from accelift_codemod import handbook_lints
from accelift_codemod.checker import Choice, check_bytes
from accelift_codemod.cli import progress
from accelift_codemod.lints import all_lints
from cli_runs import FIXTURES, ROOT, SCRIPT, accelift, tree

from tests.codemod.checks import script
from tests.verify.cases import cases

WRONG = script(
    "accelift",
    batch_end="if accelerator.is_main_process:\n    accelerator.wait_for_everyone()",
    epoch_end="print(epoch)",
    after="torch.save(1, 'x.pt')",
)
RIGHT = script("accelift")
LINE = WRONG.splitlines().index("            accelerator.wait_for_everyone()") + 1
# Conversions that are wrong on purpose, and whose mistakes can be seen without running them.
SEEN = 19


def check(*arguments: str | Path, stdin: bytes = b"") -> tuple[int, str, list[str]]:
    ran = accelift("check", *arguments, stdin=stdin)
    return ran.code, ran.text, ran.lines


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    return path


def test_findings_are_lines_on_stdout(wrong: Path) -> None:
    code, text, lines = check(wrong)
    first, second = text.splitlines()
    assert code == 1
    assert first == (
        f"COLL-MAIN {wrong}:{LINE}: `wait_for_everyone()` runs only where `accelerator.is_main_process`: it waits for "
        "the other processes until the job times out; do it on every process, outside the guard"
    )
    assert second.startswith(f"SAVE-RACE {wrong}:")
    assert lines == ["1 error, 1 warning, 1 note (-v shows them) in 1 script that uses Accelerate"]


def test_verbose_shows_notes_and_evidence(wrong: Path) -> None:
    code, text, _ = check("-v", wrong)
    assert code == 1
    assert f"    line {LINE - 1}: `accelerator.is_main_process`\n" in text
    assert "PRINT-ALL" in text


def test_quiet_shows_errors(wrong: Path) -> None:
    code, text, lines = check("-q", wrong)
    assert (code, len(text.splitlines()), lines) == (1, 1, [])


def test_nothing_found_and_notes_only(tmp_path: Path) -> None:
    path = tmp_path / "right.py"
    path.write_text(RIGHT)
    assert check(path) == (0, "", ["nothing found in 1 script that uses Accelerate"])
    path.write_text(script("accelift", after="print(1)"))
    assert check(path) == (0, "", ["1 note (-v shows them) in 1 script that uses Accelerate"])


def test_select_and_ignore(wrong: Path) -> None:
    assert check("--select", "save-race", wrong)[1].startswith("SAVE-RACE")
    assert check("--ignore", "COLL-MAIN,SAVE-RACE", wrong)[:2] == (0, "")
    assert check("--select", "NOPE", wrong) == (
        2,
        "",
        ["accelift: --select: check knows no NOPE; `accelift rule` lists what it looks for"],
    )
    assert check("--select", ",", wrong)[0] == 2


def test_json(wrong: Path) -> None:
    code, text, lines = check("--format", "json", wrong, wrong.parent / "gone.py")
    found = json.loads(text)
    assert (code, found["exit_code"], lines) == (2, 2, [])
    gone, checked = found["files"]
    assert gone["error"] == f"{wrong.parent / 'gone.py'}: does not exist; check the path"
    assert [f["code"] for f in checked["findings"]] == ["COLL-MAIN", "PRINT-ALL", "SAVE-RACE"]
    assert found["summary"] == {
        "errors": 1,
        "warnings": 1,
        "notes": 1,
        "checked": 1,
        "without Accelerate": 0,
        "not processed": 1,
    }


def test_stdin_and_several_processes(wrong: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, text, _ = check("-", "--stdin-filename", "given.py", stdin=WRONG.encode())
    assert (code, text.startswith("COLL-MAIN given.py:")) == (1, True)
    (wrong.parent / "more.py").write_text(WRONG)
    monkeypatch.chdir(wrong.parent)
    alone = check(".")
    assert check(".", "-j", "2") == alone
    assert (alone[0], len(alone[1].splitlines())) == (1, 4)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"import accelerate\ndef f(:\n", "2"),
        (b"import accelerate\nprint 'python 2'\n", "2"),
        (b"import accelerate\n\xff\xfe = 1\n", "2"),
    ],
)
def test_files_that_cannot_be_processed(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "bad.py"
    path.write_bytes(data)
    code, text, lines = check(path)
    assert (code, text) == (int(problem), "")
    assert lines[0].startswith(f"{path}:") and len(lines) == 2


def test_scripts_without_accelerate(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(SCRIPT)
    (tmp_path / "words.py").write_text("print('accelerate')\n")
    code, text, lines = check("-vv", tmp_path)
    assert (code, len(text.splitlines())) == (0, 2)
    assert lines == ["nothing found in 0 scripts that use Accelerate, 2 without it"]


def test_nothing_is_changed_and_nothing_is_run(wrong: Path) -> None:
    wrong.write_text(f"{WRONG}\nopen('ran', 'w').write('x')\n")
    before = tree(wrong.parent)
    assert check(wrong)[0] == 1
    assert tree(wrong.parent) == before


class Terminal(io.StringIO):
    """A stderr that somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("count, quiet, shown", [(50, (), True), (49, (), False), (50, ("-q",), False)])
def test_many_files_have_a_progress_bar_on_a_terminal(
    count: int, quiet: tuple[str, ...], shown: bool, jobs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(count):
        (tmp_path / f"script{i}.py").write_text("import accelift\n")
    plain = check(tmp_path, "--format", "json", "-j", jobs, *quiet)
    advanced: list[int] = []
    terminal = Terminal()

    class Bar:
        def __init__(self, doing: str, files: int) -> None:
            assert (doing, files) == ("checking", count)

        def __enter__(self) -> Any:
            return lambda: advanced.append(1)

        def __exit__(self, *_: object) -> None:
            assert len(advanced) == count

    monkeypatch.setattr(progress, "_Bar", Bar)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=terminal))
    assert check(tmp_path, "--format", "json", "-j", jobs, *quiet) == plain
    assert bool(advanced) == shown


# ---- conversions


# What is true of right conversions all the same: their findings say so, too.
KNOWN = {"wine_keywords": ["LOSS-MASKMEAN"]}


@pytest.mark.parametrize("path", sorted((FIXTURES / "converted").glob("*.py")), ids=lambda p: p.stem)
def test_right_conversions_are_found_right(path: Path) -> None:
    result = check_bytes(path.read_bytes(), str(path), Choice())
    assert result.plan is not None
    assert [f.code for f in result.plan.pending] == KNOWN.get(path.stem, [])


def test_conversions_made_wrong_on_purpose() -> None:
    found = 0
    for case in cases("sabotaged.txt"):
        result = check_bytes(case.converted.encode(), f"{case.script}.py", Choice())
        found += result.plan is not None and bool(result.plan.pending)
    assert found >= SEEN


def test_conversions_in_another_style_are_right() -> None:
    """But for one, which calls backward on the loss itself."""
    wrong = [
        case.name
        for case in cases("restyled.txt")
        if (plan := check_bytes(case.converted.encode(), f"{case.script}.py", Choice()).plan) and plan.pending
    ]
    assert wrong == ["sum scaled by hand"]


# ---- documentation


def test_page_is_current() -> None:
    """`make docs` writes it."""
    assert (ROOT / "docs" / "check.md").read_text(encoding="utf-8") == handbook_lints.page()


@pytest.mark.parametrize("lint", all_lints(), ids=lambda lint: lint.code)
def test_every_lint_is_explained(lint: handbook_lints.Lint) -> None:
    ran = accelift("rule", lint.code)
    assert ran.code == 0
    assert " ".join(lint.text().split()) in " ".join(ran.text.split())
    for code in (lint.wrong, lint.right):
        ast.parse(code)


def test_codes_of_lints_are_told_apart() -> None:
    codes = [lint.code for lint in all_lints()]
    assert len(set(codes)) == len(codes) >= 60
