"""Loops inside of an iteration that run backward for each of several losses, or for each piece of a batch."""

from __future__ import annotations

import pytest
from scripts import script, severities

ENDS = "    part.backward(retain_graph=True)"
OUT = "optimizer.zero_grad()\nout = model(x)\n"
FIRST, SECOND = "F.cross_entropy(out, y)", "0.1 * out.pow(2).mean()"
LOSSES = f"losses = [{FIRST}, {SECOND}]"
FILLED = f"losses = []\nlosses.append({FIRST})\nlosses.append({SECOND})"
KEYED = f"losses = {{}}\nlosses['class'] = {FIRST}\nlosses['size'] = {SECOND}"


def pieces(made: str, loop: str, definitions: str = "") -> list[str]:
    body = f"{OUT}{made}\n{loop}\n{ENDS}"
    return severities(script(definitions=definitions, forward=body, backward=""), "COLL-RANKFLOW")


@pytest.mark.parametrize(
    ("made", "loop"),
    [
        (LOSSES, "for part in losses:"),
        (LOSSES, "for part in losses[1:]:"),
        (LOSSES, "for number, part in enumerate(losses):"),
        (LOSSES, "for part in [2 * loss for loss in losses]:"),
        (LOSSES, "for part in [w * loss for loss in losses for w in (1, 2)]:"),
        (LOSSES, "for part, weight in zip(losses, [1.0, 0.5]):"),
        (f"{LOSSES}\nmore = losses + [out.abs().mean()]", "for part in more:"),
        (f"first, second = {FIRST}, {SECOND}", "for part in (first, second):"),
        (FILLED, "for part in losses:"),
        (f"losses = []\nfor weight in (1, 2):\n    losses.append(weight * {FIRST})", "for part in losses:"),
        (f"{FILLED}\nif epoch:\n    losses.append(out.abs().mean())", "for part in losses:"),
        (f"{LOSSES}\nlosses += [out.abs().mean()]", "for part in losses:"),
        (KEYED, "for part in losses.values():"),
        (KEYED, "for name, part in losses.items():"),
        (f"losses = {{'class': {FIRST}, 'size': {SECOND}}}", "for part in losses.values():"),
        (LOSSES, "for number in range(len(losses)):\n    part = losses[number]"),
    ],
)
def test_as_many_losses_on_every_process_are_no_matter(made: str, loop: str) -> None:
    assert pieces(made, loop) == []


@pytest.mark.parametrize(
    ("made", "loop"),
    [
        ("", "for part in (row.sum() for row in out):"),
        ("", "for part in out.sum(1):"),
        ("losses = [row.sum() for row in out]", "for part in losses:"),
        ("losses = [out.mean(), *(row.sum() for row in out)]", "for part in losses:"),
        ("losses = [row.sum() for both in [out, out * 2] for row in both]", "for part in losses:"),
        (f"{LOSSES}\nfor row in out:\n    losses.append(row.sum())", "for part in losses:"),
        (f"{LOSSES}\nif y[0] > 1:\n    losses.append(out.abs().mean())", "for part in losses:"),
        (f"{LOSSES}\nlosses.extend(row.sum() for row in out)", "for part in losses:"),
        (f"{LOSSES}\nlosses += list(out.sum(1))", "for part in losses:"),
        (f"{LOSSES}\nlosses = losses[: y[0]]", "for part in losses:"),
        ("losses = {}\nfor row in out:\n    losses[row] = row.sum()", "for part in losses.values():"),
        ("losses = {}\nlosses[y[0].item()] = out.mean()", "for part in losses.values():"),
        ("losses = [out.mean() for label in y if label > 1]", "for part in losses:"),
        ("", "for number in range(len(out)):\n    part = out[number].sum()"),
        (f"{LOSSES}\nlosses = other(out)", "for part in losses:"),
    ],
)
def test_pieces_of_what_a_process_has_are(made: str, loop: str) -> None:
    assert pieces(made, loop, "def other(out):\n    return list(out.sum(1))") == ["error"]


DEFINED = "def parts(out, y):\n    {}\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return F.cross_entropy(out, y), out.abs().mean()", []),
        ("return {'a': F.cross_entropy(out, y), 'b': out.abs().mean()}", []),
        ("losses = []\n    losses.append(F.cross_entropy(out, y))\n    return losses", []),
        ("losses = [out.mean()]\n    if y[0] > 1:\n        losses.append(out.sum())\n    return losses", ["error"]),
        ("if y[0] > 1:\n        return [out.mean()]\n    return [out.mean(), out.sum()]", ["error"]),
        ("return [row.sum() for row in out]", ["error"]),
        ("yield out.mean()\n    if y[0] > 1:\n        yield out.sum()", ["error"]),
    ],
)
def test_a_function_makes_as_many_or_not(body: str, expected: list[str]) -> None:
    assert pieces("losses = parts(out, y)", "for part in losses:", DEFINED.format(body)) == expected
