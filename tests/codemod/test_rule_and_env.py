"""`accelift rule` and `accelift env`, and the pages that the rules' own texts make."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from accelift import __version__
from accelift_codemod import handbook_lints
from accelift_codemod.handbook import Entry, causes, entries, pages
from accelift_codemod.lints import all_lints
from accelift_codemod.reasons import REASONS
from accelift_codemod.rules import all_rules
from cli_runs import ROOT, SCRIPT, accelift, convert, process

ENTRIES = entries()


def test_the_list() -> None:
    ran = accelift("rule")
    assert (ran.code, ran.stderr) == (0, "")
    sections = ran.text.split(":\n")
    assert [s.rpartition("\n")[2] for s in sections[:-1]] == [
        "Rules",
        "Findings",
        "Reasons for leaving a script alone",
        "What `accelift check` finds",
    ]
    listed = [line.split(maxsplit=1) for line in ran.text.splitlines() if line.startswith("  ")]
    lints = [[lint.code, lint.title] for lint in all_lints()]
    assert listed == [*([code, entry.title] for code, entry in ENTRIES.items()), *lints]
    assert "  BACKWARD             backward passes\n" in ran.text
    assert all(len(line) <= 80 for line in ran.text.splitlines())


@pytest.mark.parametrize("code", ENTRIES)
def test_every_code_is_explained(code: str) -> None:
    ran = accelift("rule", code)
    entry = ENTRIES[code]
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.text.startswith(f"{code}: {entry.title}\n\n")
    assert " ".join(entry.body.split()) in " ".join(ran.text.split())
    assert accelift("rule", code.lower()) == ran
    assert json.loads(accelift("rule", code, "--format", "json").text) == entry.to_json()


def test_a_rule() -> None:
    assert accelift("rule", "CLIP").text.endswith(
        "Edits are safe; --ignore CLIP leaves it out.\n"
        "\n"
        "Before:\n"
        "\n"
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "\n"
        "After:\n"
        "\n"
        "    accelerator.clip_grad_norm_(model.parameters(), 1.0)\n"
    )
    assert "Edits are safe; part of every conversion.\n" in accelift("rule", "PREPARE").text
    assert accelift("rule", "DEVSET").text.endswith("After:\n\n    (removed)\n")


def test_a_finding_and_a_refusal() -> None:
    assert accelift("rule", "NOTE-BN").text == (
        "NOTE-BN: BatchNorm sees one process's share\n"
        "\n"
        "BatchNorm computes its statistics from the process's share of the batch.\n"
        "torch.nn.SyncBatchNorm computes them from the whole batch, at the price of\n"
        "communication.\n"
        "\n"
        "Severity: note. Reported by NOTE.\n"
        "\n"
        "In scripts that use Accelerate:\n"
        "\n" + handbook_lints.text(next(lint for lint in all_lints() if lint.code == "NOTE-BN"))
    )
    assert accelift("rule", "PYTHON2").text == (
        "PYTHON2: is Python 2\n\nThe file is written in Python 2 syntax. Port it first (2to3, python-modernize).\n"
    )


@pytest.mark.parametrize(("code", "entry"), causes().items())
def test_every_cause_of_a_difference_is_explained(code: str, entry: Entry) -> None:
    ran = accelift("rule", code)
    assert (ran.code, ran.stderr) == (0, "")
    if code not in ENTRIES and code not in [lint.code for lint in all_lints()]:
        assert ran.text.startswith(f"{code}: a cause that `accelift verify` names\n\n")
        assert " ".join(ran.text.split()).endswith(" ".join(entry.body.split()))
        assert json.loads(accelift("rule", code.lower(), "--format", "json").text) == entry.to_json()
    assert f"| {code} | {entry.body} |" in pages()["README.md"]


def test_what_is_not_proved_is_explained() -> None:
    ran = accelift("rule", "not-proved")
    assert ran.code == 0 and ran.text.startswith("NOT-PROVED: was run, and is not proved to compute the same\n\n")


@pytest.mark.parametrize("code", ["NOPE", "nope", "PREPARES", "-", ""])
def test_unknown_codes(code: str) -> None:
    ran = accelift("rule", code)
    assert (ran.code, ran.stdout) == (2, b"")
    assert ran.lines == [f"accelift: there is no rule {code.upper()}; `accelift rule` lists them"]


def test_rule_in_a_process_of_its_own(tmp_path: Path) -> None:
    assert process("rule", "NOPE", cwd=tmp_path).lines == [
        "accelift: there is no rule NOPE; `accelift rule` lists them"
    ]
    assert process("rule", "clip", cwd=tmp_path) == accelift("rule", "CLIP")


def test_json_list() -> None:
    found = json.loads(accelift("rule", "--format", "json").text)
    lints = [handbook_lints.to_json(lint) for lint in all_lints()]
    assert found == [*(entry.to_json() for entry in ENTRIES.values()), *lints]
    assert {entry["kind"] for entry in found} == {"rule", "finding", "refusal", "lint"}


def test_codes_are_told_apart() -> None:
    rules = [rule.code for rule in all_rules()]
    findings = [finding.code for rule in all_rules() for finding in rule.findings]
    refusals = [reason.code for reason in REASONS]
    codes = [*rules, *findings, *refusals]
    assert len(set(codes)) == len(codes) == len(ENTRIES)
    assert all(code == code.upper() and code.isascii() for code in codes)


def test_what_is_said_of_ignoring_holds() -> None:
    for entry in ENTRIES.values():
        if entry.kind == "rule":
            ran = convert("-", "--check", "-q", "--ignore", entry.code, stdin=SCRIPT.encode())
            assert ran.code == (2 if entry.required else 1), entry.code


# ---- docs/rules


def test_pages_are_current() -> None:
    """`make docs` writes them."""
    folder = ROOT / "docs" / "rules"
    committed = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert committed == pages()


def test_pages_link_to_each_other() -> None:
    found = pages()
    for code, entry in ENTRIES.items():
        if entry.kind == "rule":
            assert f"[{code}]({code.lower()}.md)" in found["README.md"] and f"{code.lower()}.md" in found
        elif entry.kind == "finding":
            assert f"## {code}: {entry.title} ({entry.severity})\n" in found[f"{entry.rule.lower()}.md"]
            assert f"[{code}]({entry.rule.lower()}.md)" in found["README.md"]
        else:
            assert f"| {code} | {entry.title} | {entry.body} |" in found["README.md"]


# ---- accelift env


def test_env(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith(("ACCELERATE_", "ACCELIFT_", "MASTER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.setenv("ACCELIFT_DEBUG", "1")
    monkeypatch.setenv("SECRET_TOKEN", "do not show")
    ran = accelift("env")
    assert (ran.code, ran.stderr) == (0, "")
    lines = ran.text.splitlines()
    assert lines[0] == f"accelift: {__version__}"
    names = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    assert names == ["accelift", "python", "platform", "processors", "packages", "devices", "variables"]
    assert "  ACCELERATE_USE_CPU: true" in lines and "  ACCELIFT_DEBUG: 1" in lines
    assert "do not show" not in ran.text


def test_env_as_json() -> None:
    found = json.loads(accelift("env", "--format", "json").text)
    assert list(found) == ["accelift", "python", "platform", "processors", "packages", "devices", "variables"]
    assert found["accelift"] == __version__
    assert set(found["packages"]) == {
        "torch",
        "libcst",
        "click",
        "rich",
        "pyyaml",
        "black",
        "pathspec",
        "accelerate",
    }
