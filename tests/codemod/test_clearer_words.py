"""Findings that would say too much, too little, or the same too often."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import convert, findings, script, severities

_OUT = "optimizer.zero_grad()\no = model(x)\nn = o.size(0)\n"


def _messages(text: str, code: str) -> list[str]:
    plan = convert(text).plan
    assert plan is not None
    return [f"{finding.message}; {finding.remedy}" for finding in plan.findings if finding.code == code]


@pytest.mark.parametrize(("size", "codes"), [("1", ["BATCH-ONE"]), ("16", ["NOTE-BN"])])
def test_batches_of_one_have_no_shares_of_statistics(size: str, codes: list[str]) -> None:
    text = script(
        definitions="norm = nn.BatchNorm1d(3)", loader=f"loader = DataLoader(data, batch_size={size}, shuffle=True)"
    )
    assert [code for code in findings(text) if code in ("BATCH-ONE", "NOTE-BN")] == codes


_TAKES = "loss = torch.stack({}).mean()"


@pytest.mark.parametrize(
    "each",
    [
        "[F.cross_entropy(o[i:i + 1], y[i:i + 1]) for i in range(n)]",
        "list(map(lambda i: F.cross_entropy(o[i:i + 1], y[i:i + 1]), range(n)))",
        "list(map(lambda i: F.cross_entropy(o[i], y[i]), range(n)))",
    ],
)
def test_losses_of_each_sample_by_its_place_compare_none(each: str) -> None:
    assert findings(script(forward=_OUT + _TAKES.format(each))) == []


def test_a_place_that_is_no_sample_of_the_loop_is_one_of_the_batch() -> None:
    lines = "k = 3\nloss = F.cross_entropy(o[k:k + 1], y[k:k + 1])"
    assert "BATCH-PLACES" in findings(script(forward=_OUT + lines))


@pytest.mark.parametrize(
    "lines",
    [
        "for i in range(2):\n    if i > 0:\n        loss = loss + part\n    else:\n        loss = part",
        "for i in range(2):\n    if i == 0:\n        loss = part\n    else:\n        loss = loss + part",
        "for i, w in enumerate([1, 2]):\n    if not i:\n        loss = part\n    else:\n        loss = loss + w * part",
        "for i in range(2):\n    loss = loss + part if i else part",
        "for i in range(1, 3):\n    loss = part if i == 1 else loss + part",
        "for i in range(1, 5, 2):\n    if i > 1:\n        loss = loss + part\n    else:\n        loss = part",
        "for i, k in enumerate('a', 1):\n    if i != 1:\n        loss = loss + part\n    else:\n        loss = part",
    ],
)
def test_what_the_first_pass_sets_is_not_carried_on(lines: str) -> None:
    assert "COLL-RANKFLOW" not in findings(script(forward=f"{_OUT}part = F.cross_entropy(o, y)\n{lines}"))


@pytest.mark.parametrize(
    "lines",
    [
        "for i in range(1, 3):\n    if i > 0:\n        loss = loss + part\n    else:\n        loss = part",
        "for i in range(2):\n    if i > 0:\n        loss = loss + part",
        "for i in range(0, 3):\n    loss = part if i == 1 else loss + part",
        "for i in range(epoch, 3):\n    loss = part if i == 0 else loss + part",
        "for i in range(1, 3):\n    loss = loss + part if i else part",
        "for i in range(2):\n    if epoch > 0:\n        loss = loss + part\n    else:\n        loss = part",
    ],
)
def test_what_no_first_pass_sets_is(lines: str) -> None:
    text = script(before="loss = 0", forward=f"{_OUT}part = F.cross_entropy(o, y)\n{lines}")
    assert "COLL-RANKFLOW" in findings(text)


_SAVES = "def save(model, where):\n    torch.save(model.state_dict(), f'net_{where}.pt')"
_MOVES = "def save(model, where):\n    model.to(where)"


def test_a_name_that_is_a_text_may_stay() -> None:
    (said,) = _messages(script(definitions=_SAVES, after='save(model, "cuda:0")'), "DEV-LEFT")
    assert "is taken for a text there, which may stay" in said
    assert _messages(script(definitions=_MOVES, after='save(model, "cuda:0")'), "DEV-LEFT") == []


def _printing(number: int) -> str:
    lines = "\n".join(f'print("{i}")' for i in range(number))
    text = script(setup="import sys", main=False)
    begin, _, end = text.partition("device = torch.device")
    rest = "device = torch.device" + end
    body = "".join(f"    {line}" for line in rest.splitlines(keepends=True))
    return f"{begin}{lines}\nif len(sys.argv) > 1:\n{body}"


def test_many_prints_are_told_once() -> None:
    text = _printing(6)
    (said,) = _messages(text, "PRINT-ALL")
    assert "and so it is in lines" in said and said.count(", ") >= 5
    assert severities(text, "PRINT-ALL") == ["note"]


def test_few_are_told_each() -> None:
    assert severities(_printing(3), "PRINT-ALL") == ["note"] * 3
