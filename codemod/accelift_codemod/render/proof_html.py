"""A proof as a page that needs nothing else: the losses of the runs over each other, and the tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from accelift_codemod.render.proof import conclusion
from accelift_codemod.verify.answers import Verdict
from accelift_codemod.verify.causes import CAUSES
from accelift_codemod.verify.proved import Comparison, Proof

_WIDTH, _HEIGHT, _MARGIN = 860, 300, 46
# Wide and pale below, thin and dark above: where curves coincide all of them are seen.
_STROKES = (("#f2b35a", 7.0), ("#7fb3e6", 4.0), ("#1d3557", 1.4))
_CLASSES = {
    Verdict.IDENTICAL: "good",
    Verdict.EQUIVALENT: "good",
    Verdict.NOT_SEEN: "unseen",
    Verdict.NOT_COMPARABLE: "unsure",
    Verdict.UNDECIDED: "unsure",
    Verdict.DIFFERS: "bad",
}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2733; max-width: 900px; margin: 2.5em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
.verdict { padding: .8em 1em; border-radius: 6px; font-weight: 600; }
.proved { background: #e3f4e6; color: #14532d; } .broken { background: #fde7e7; color: #7f1d1d; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .35em .6em; vertical-align: top; }
tr + tr td { border-top: 1px solid #e4e8ee; } td:nth-child(2) { white-space: nowrap; font-weight: 600; }
.good { color: #15803d; } .bad { color: #b91c1c; } .unsure { color: #a16207; } .unseen { color: #64748b; }
code { font-size: .92em; background: #f1f4f8; padding: .1em .3em; border-radius: 3px; }
svg { width: 100%; height: auto; }
"""


def as_html(proof: Proof) -> str:
    """The proof as a self-contained HTML page."""
    state = "proved" if proof.proved else "broken"
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(proof.script)}: accelift verify</title>",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>accelift verify <code>{escape(proof.script)}</code></h1>",
        f'<p class="verdict {state}">{escape(conclusion(proof))}</p>',
        "<h2>Loss before each optimizer step</h2>",
        _curves(
            {
                name: values
                for name, values in proof.losses().items()
                if not name.endswith(("again", "rounding", "step by step"))
            }
        ),
        *(_table(comparison) for comparison in proof.comparisons),
        *(f"<p>{escape(note)}</p>" for note in proof.notes),
        _runs(proof),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _table(comparison: Comparison) -> str:
    rows = [
        f'<tr><td>{escape(answer.question)}</td><td class="{_CLASSES[answer.verdict]}">{answer.verdict.value}</td>'
        f"<td>{escape(answer.detail)}</td></tr>"
        for answer in comparison.answers
    ]
    causes = ""
    if comparison.verdict is Verdict.DIFFERS:
        items = [
            f"<li><b>{one.code}</b>{f' <code>{escape(one.place)}</code>' if one.place else ''}: "
            f"{escape(CAUSES[one.code])}. <i>{escape(one.evidence)}</i></li>"
            for one in comparison.suspicions[:3]
        ]
        causes = f"<p>What may be behind it, the most likely first:</p><ol>{''.join(items)}</ol>"
    return f"<h2>{escape(comparison.title)}</h2><table>{''.join(rows)}</table>{causes}"


def _runs(proof: Proof) -> str:
    rows = [
        f"<tr><td>{escape(name)}</td><td>{len(run.recording.main.steps)} steps</td><td>{run.seconds:.1f} s</td></tr>"
        for name, run in proof.runs.items()
    ]
    return f"<h2>Runs</h2><table>{''.join(rows)}</table>"


def _curves(losses: dict[str, list[float | None]]) -> str:
    """Line charts as SVG, over each other."""
    shown = {name: values for name, values in losses.items() if any(value is not None for value in values)}
    finite = [value for values in shown.values() for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return "<p>No loss was seen.</p>"
    low, high = min(finite), max(finite)
    steps = max(map(len, shown.values()))
    lines, legend = [], []
    for index, (name, values) in enumerate(shown.items()):
        color, width = _STROKES[min(index, len(_STROKES) - 1)] if len(shown) <= 3 else _STROKES[index % 3]
        dash = ' stroke-dasharray="6 4"' if index > 2 else ""
        points = " ".join(_points(values, steps, low, high))
        lines.append(f'<polyline fill="none" stroke="{color}" stroke-width="{width}"{dash} points="{points}"/>')
        y = 16 + 17 * index
        legend.append(
            f'<line x1="{_WIDTH - 285}" x2="{_WIDTH - 255}" y1="{y}" y2="{y}" stroke="{color}" '
            f'stroke-width="{width}"{dash}/>'
            f'<text x="{_WIDTH - 247}" y="{y + 4}" font-size="12">{escape(name)}</text>'
        )
    bottom = _HEIGHT - _MARGIN
    axes = (
        f'<path d="M{_MARGIN} 8V{bottom}H{_WIDTH - 8}" fill="none" stroke="#94a3b8"/>'
        f'<text x="{_MARGIN - 6}" y="18" font-size="11" text-anchor="end">{high:.3g}</text>'
        f'<text x="{_MARGIN - 6}" y="{bottom}" font-size="11" text-anchor="end">{low:.3g}</text>'
        f'<text x="{_MARGIN}" y="{bottom + 18}" font-size="11">0</text>'
        f'<text x="{_WIDTH - 8}" y="{bottom + 18}" font-size="11" text-anchor="end">{steps} steps</text>'
    )
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{axes}{"".join(lines)}{"".join(legend)}</svg>'


def _points(values: Sequence[float | None], steps: int, low: float, high: float) -> list[str]:
    width, height = _WIDTH - _MARGIN - 8, _HEIGHT - _MARGIN - 16
    across, down = width / max(steps - 1, 1), height / ((high - low) or 1.0)
    return [
        f"{_MARGIN + across * step:.1f},{8 + down * (high - value):.1f}"
        for step, value in enumerate(values)
        if value is not None and math.isfinite(value)
    ]
