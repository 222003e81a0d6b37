"""A proof as text for people, and as JSON."""

from __future__ import annotations

import json
import textwrap

from accelift_codemod.verify.answers import Answer, Verdict
from accelift_codemod.verify.causes import CAUSES, overall
from accelift_codemod.verify.lines import PRINTED, PRINTERS
from accelift_codemod.verify.outputs import SAVED
from accelift_codemod.verify.proved import Comparison, Proof

_COLORS = {
    Verdict.IDENTICAL: 32,
    Verdict.EQUIVALENT: 32,
    Verdict.NOT_COMPARABLE: 33,
    Verdict.UNDECIDED: 33,
    Verdict.DIFFERS: 31,
}
_LEFT = {PRINTED: "printed values", PRINTERS: "printed values", SAVED: "checkpoints"}  # what is no training
_WIDTH = 110


def as_json(proof: Proof) -> str:
    """The proof as a JSON document."""
    return json.dumps(proof.to_json(), indent=2) + "\n"


def as_text(proof: Proof, color: bool = False) -> str:
    """The proof as a short table for each comparison, what may be behind differences, and a verdict."""
    lines = []
    for comparison in proof.comparisons:
        lines += [*_table(comparison, color), ""]
    for note in proof.notes:
        lines += [*textwrap.wrap(f"Note: {note}", _WIDTH), ""]
    lines.append(_paint(conclusion(proof), Verdict.IDENTICAL if proof.proved else Verdict.DIFFERS, color))
    if proof.scratch is not None:
        lines.append(f"Runs and recordings are kept in {proof.scratch}")
    return "\n".join(lines) + "\n"


def conclusion(proof: Proof) -> str:
    """The whole in a sentence."""
    if not proof.proved:
        worst = overall(answer for one in proof.comparisons for answer in one.answers)
        bad = next(one for one in proof.comparisons if one.verdict is worst)
        if worst is Verdict.UNDECIDED:
            return f"NOT PROVED: whether {bad.title} differs from the original cannot be decided."
        return f"NOT PROVED: {bad.title} differs from the original."
    parts = [f"{one.title}: {_said(one)}" for one in proof.comparisons]
    return f"PROVED: {'; '.join(parts)}."


def _said(comparison: Comparison) -> str:
    """The verdict in a sentence; if only what is printed or saved cannot be compared, that of the training."""
    apart = [one for one in comparison.answers if one.verdict is Verdict.NOT_COMPARABLE]
    if not apart or not all(map(_is_announced, apart)):
        return str(comparison.verdict)
    rest = overall(one for one in comparison.answers if one not in apart)
    what = " and ".join(dict.fromkeys(_LEFT[one.question] for one in apart))
    return f"{rest}, but for {what} that a finding speaks of"


def _is_announced(answer: Answer) -> bool:
    """Whether a finding of the conversion has said what cannot be compared, and the training can."""
    return answer.question == PRINTED or (answer.question in _LEFT and bool(answer.suspicions))


def _table(comparison: Comparison, color: bool) -> list[str]:
    width = max(len(answer.question) for answer in comparison.answers)
    lines = [f"{comparison.title}: {_paint(comparison.verdict.value, comparison.verdict, color)}"]
    for answer in comparison.answers:
        verdict = _paint(f"{answer.verdict.value:<14}", answer.verdict, color)
        detail = textwrap.shorten(answer.detail, 160, placeholder=" …")
        lines.append(f"  {answer.question:<{width}}  {verdict}  {detail}".rstrip())
    if comparison.verdict is Verdict.DIFFERS:
        lines.append("  What may be behind it, the most likely first:")
        for number, one in enumerate(comparison.suspicions[:3], start=1):
            where = f" ({one.place})" if one.place else ""
            lines += textwrap.wrap(
                f"{number}. {one.code}{where}: {CAUSES[one.code]}. Evidence: {one.evidence}",
                _WIDTH,
                initial_indent="    ",
                subsequent_indent="       ",
            )
    return lines


def _paint(text: str, verdict: Verdict, color: bool) -> str:
    code = _COLORS.get(verdict)
    return f"\x1b[{code}m{text}\x1b[0m" if color and code else text
