"""Rows that are taken by the size of the whole batch: a process has only its share of them."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script

SIZED = {"setup": "batch_size = 16", "loader": "loader = DataLoader(data, batch_size=batch_size, shuffle=True)"}
SHARE = "batch_size // accelerator.num_processes"
HALVES = """\
def halves(both, rows):
    return both[:rows], both[rows:]
"""
LOSS = "optimizer.zero_grad()\nboth = model(torch.cat((x, -x)))\n{}\nloss = F.mse_loss(one, other)"
HANDED = LOSS.format("one, other = halves(both, {})")


@pytest.mark.parametrize(
    "halves",
    [
        HALVES,
        "def halves(both, rows):\n    return torch.split(both, rows)\n",
        "def halves(both, rows):\n    twice = rows * 2\n    return both[:rows], both[rows:twice]\n",
    ],
)
def test_a_function_that_takes_rows_apart_is_handed_the_share_s_number(halves: str) -> None:
    slots = {**SIZED, "definitions": halves}
    assert converted(script(**slots, forward=HANDED.format("batch_size"))) == lifted(
        **slots, forward=HANDED.format(SHARE)
    )


def test_a_function_that_compares_rows_is_handed_the_share_s_number() -> None:
    slots = {**SIZED, "definitions": "def short(x, rows):\n    return x.size(0) < rows\n"}
    assert converted(script(**slots, batch_end="last = short(x, batch_size)")) == lifted(
        **slots, batch_end=f"last = short(x, {SHARE})"
    )


def test_a_function_that_uses_the_number_for_more() -> None:
    more = HALVES.replace("return both[:rows], both[rows:]", "return both[:rows] / rows, both[rows:]")
    text = script(**SIZED, definitions=more, forward=HANDED.format("batch_size"))
    assert findings(text) == ["BATCH-MIXED"]
    assert SHARE not in converted(text)


@pytest.mark.parametrize(
    ("given", "halves"),
    [
        ("len(x)", HALVES),
        ("x.size(0)", HALVES),
        ("batch_size", HALVES.replace("both[:rows], both[rows:]", "both[:, :rows], both[:, rows:]")),
    ],
)
def test_other_places_stay(given: str, halves: str) -> None:
    text = script(**SIZED, definitions=halves, forward=HANDED.format(given))
    assert "BATCH-MIXED" not in findings(text)
    assert SHARE not in converted(text)


ELSEWHERE = {"from_imports": "from elsewhere import mixed", **SIZED}
UNKNOWN = LOSS.format("both = mixed(both)\n{}")


@pytest.mark.parametrize(
    ("cut", "told"),
    [
        ("one, other = both[:batch_size], both[batch_size:]", True),
        ("one, other = torch.split(both, batch_size)", True),
        ("one, other = both.split(batch_size, dim=0)", True),
        ("one, other = both.split(batch_size, dim=1)", False),
        ("one, other = both[:, :batch_size], both[:, batch_size:]", False),
        ("one, other = both[:len(x)], both[len(x):]", False),
        ("one, other = both[:3], both[3:]", False),
    ],
)
def test_parts_of_what_is_not_known(cut: str, told: bool) -> None:
    assert findings(script(**ELSEWHERE, forward=UNKNOWN.format(cut))).count("BATCH-MIXED") == int(told)


def test_parts_of_what_is_not_known_in_a_function() -> None:
    forward = UNKNOWN.format("one, other = halves(both, batch_size)")
    text = script(**ELSEWHERE, definitions=HALVES, forward=forward)
    assert findings(text).count("BATCH-MIXED") == 1
    assert findings(text, batch="per-process").count("BATCH-MIXED") == 0


def test_parts_of_what_is_no_batch() -> None:
    end = "names = mixed(list('abc'))\nfirst = names[:batch_size]"
    assert "BATCH-MIXED" not in findings(script(**ELSEWHERE, batch_end=end))
