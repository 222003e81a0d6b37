"""The rules, findings and refusals explained: for `accelift rule` and the pages in docs/rules."""

from __future__ import annotations

import inspect
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelift_codemod.reasons import REASONS
from accelift_codemod.rules import Rule, all_rules
from accelift_codemod.verify.causes import CAUSES

_NAMED = "a cause that `accelift verify` names"


@dataclass(frozen=True)
class Entry:
    """One code explained. `kind` is "rule", "finding", "refusal", or "cause" of a difference that a proof names."""

    code: str
    kind: str
    title: str
    body: str
    safety: list[str] = field(default_factory=list)  # the levels of a rule's edits
    assumptions: list[str] = field(default_factory=list)  # what those that are not safe take for granted
    severity: str = ""
    required: bool = False
    rule: str = ""  # the rule that reports a finding
    before: str = ""
    after: str = ""

    def to_json(self) -> dict[str, Any]:
        """The entry as plain data."""
        return dict(vars(self))

    def text(self) -> str:
        """The entry for a terminal."""
        lines = [f"{self.code}: {self.title}", "", *textwrap.wrap(self.body, 88, break_on_hyphens=False), ""]
        if self.kind == "rule":
            ignorable = "part of every conversion" if self.required else f"--ignore {self.code} leaves it out"
            lines.append(f"Edits are safe; {ignorable}.")
            lines += (f"Some are {text}." for text in self.assumptions)
        if self.kind == "finding":
            lines.append(f"Severity: {self.severity}. Reported by {self.rule}.")
        if self.before:
            lines += ["", "Before:", "", textwrap.indent(self.before.rstrip(), "    ")]
            lines += ["", "After:", "", textwrap.indent(self.after.rstrip() or "(removed)", "    ")]
        return "\n".join(lines).rstrip() + "\n"

    def markdown(self) -> str:
        """The entry as a documentation page."""
        lines = [f"# {self.code}: {self.title}", "", textwrap.fill(self.body, 120), ""]
        ignorable = "It is a part of every conversion." if self.required else f"`--ignore {self.code}` leaves it out."
        lines += [f"Its edits are **safe**. {ignorable}", ""]
        if self.assumptions:
            lines[-2] = f"Its edits are **safe**, but for those that take something for granted. {ignorable}"
            lines += [*(f"* {text}" for text in self.assumptions), ""]
        if self.before:
            lines += ["Before:", "", "```python", self.before.rstrip(), "```", ""]
            lines += ["After:", "", "```python", self.after.rstrip() or "# (removed)", "```", ""]
        return "\n".join(lines)


def entries() -> dict[str, Entry]:
    """Every code with its explanation: rules, then findings, then refusals."""
    found: dict[str, Entry] = {}
    rules = all_rules()
    for rule in rules:
        found[rule.code] = _rule(rule)
    for rule in rules:
        for finding in rule.findings:
            found.setdefault(
                finding.code,
                Entry(
                    finding.code,
                    "finding",
                    finding.title,
                    finding.text,
                    severity=finding.severity.value,
                    rule=rule.code,
                ),
            )
    for reason in REASONS:
        found.setdefault(reason.code, Entry(reason.code, "refusal", reason.title, reason.text))
    return found


def causes() -> dict[str, Entry]:
    """The causes of differences that `accelift verify` names; rules, findings and lints have some of these codes."""
    said = {code: f"{text[0].upper()}{text[1:]}." for code, text in CAUSES.items()}
    return {code: Entry(code, "cause", _NAMED, text) for code, text in said.items()}


def _rule(rule: Rule) -> Entry:
    body = " ".join(inspect.cleandoc(rule.__doc__ or "").split())
    return Entry(
        rule.code,
        "rule",
        rule.name,
        body,
        safety=list(dict.fromkeys(("safe", *(a.safety.value for a in rule.assumptions)))),
        assumptions=[f"{a.safety.value}: right if {a.text}" for a in rule.assumptions],
        required=rule.required,
        before=rule.before,
        after=rule.after,
    )


def pages() -> dict[str, str]:
    """The documentation pages of docs/rules by file name."""
    found: dict[str, str] = {}
    everything = entries()
    for entry in everything.values():
        if entry.kind == "rule":
            page = entry.markdown()
            for finding in everything.values():
                if finding.kind == "finding" and finding.rule == entry.code:
                    text = textwrap.fill(finding.body, 120)
                    page += f"\n## {finding.code}: {finding.title} ({finding.severity})\n\n{text}\n"
            found[f"{entry.code.lower()}.md"] = page
    found["README.md"] = _index(everything)
    return found


def _index(everything: dict[str, Entry]) -> str:
    lines = ["# Rules", "", "Generated from the rules themselves by `make docs`.", ""]
    lines += ["| rule | what it does | edits |", "|---|---|---|"]
    for entry in everything.values():
        if entry.kind == "rule":
            lines.append(f"| [{entry.code}]({entry.code.lower()}.md) | {entry.title} | {', '.join(entry.safety)} |")
    lines += ["", "## Findings", "", "| code | severity | what it says |", "|---|---|---|"]
    for entry in everything.values():
        if entry.kind == "finding":
            lines.append(f"| [{entry.code}]({entry.rule.lower()}.md) | {entry.severity} | {entry.title} |")
    lines += ["", "## Why a script is left alone", "", "| code | the script | |", "|---|---|---|"]
    for entry in everything.values():
        if entry.kind == "refusal":
            lines.append(f"| {entry.code} | {entry.title} | {entry.body} |")
    lines += ["", "## What may be behind a difference", "", "`accelift verify` and `convert --verify` name these:", ""]
    lines += ["| cause | what it means |", "|---|---|"]
    lines += [f"| {entry.code} | {entry.body} |" for entry in causes().values()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the pages into a folder and remove those of rules that are gone."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m accelift_codemod.handbook DIR")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    found = pages()
    for old in folder.glob("*.md"):
        if old.name not in found:
            old.unlink()
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
