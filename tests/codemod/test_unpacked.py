"""Loaders and optimizers that one comprehension makes, and that are unpacked into variables."""

from __future__ import annotations

import pytest
from scripts import added, converted, findings, lifted, script, unchanged

SETS = "torch.manual_seed(0)\nsets = torch.utils.data.random_split(data, [40, 24])\n"
MADE = "loader, test_loader = {}"
EACH = "[DataLoader(part, batch_size=8, shuffle=i == 0) for i, part in enumerate(sets)]"
TEST = """\
right = 0
with torch.no_grad():
    for x, y in test_loader:
        {}
"""
COUNT = "right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()"
GATHERED = """\
        y = accelerator.gather_for_metrics(y)
        right += (accelerator.gather_for_metrics(model(x)).argmax(1) == y).sum().item()
"""


@pytest.mark.parametrize("each", [EACH, f"({EACH[1:-1]})"])
def test_each_is_prepared(each: str) -> None:
    slots = {"loader": SETS + MADE.format(each)}
    after = TEST.format(COUNT)
    lines = "model, optimizer, loader, test_loader = accelerator.prepare(\n    model, optimizer, loader, test_loader\n)"
    expected = TEST.replace("        {}\n", GATHERED)
    assert converted(script(**slots, after=after)) == lifted(**slots, prepare=lines, after=expected)
    assert findings(script(**slots, after=after)) == []


def test_three_in_the_order_of_the_statement() -> None:
    made = f"test_loader, loader, other = {EACH}"
    sets = "torch.manual_seed(0)\nsets = torch.utils.data.random_split(data, [24, 24, 16])\n"
    after = TEST.format(COUNT) + TEST.format(COUNT).replace("test_loader", "other")
    output = converted(script(loader=sets + made, after=after))
    assert "model, optimizer, test_loader, loader, other = accelerator.prepare(" in output


def test_one_that_nothing_reads_is_left_alone() -> None:
    slots = {"loader": SETS + MADE.format(EACH)}
    assert converted(script(**slots)) == lifted(**slots)


def test_a_function_that_makes_them() -> None:
    definitions = f"def build(sets):\n    return {EACH}"
    output = converted(
        script(definitions=definitions, loader=SETS + MADE.format("build(sets)"), after=TEST.format(COUNT))
    )
    assert "accelerator.prepare(\n    model, optimizer, loader, test_loader\n)" in output


@pytest.mark.parametrize(
    "made",
    [
        f"loaders = {EACH}\nloaders[1] = loaders[0]\nloader, test_loader = loaders",
        f"{MADE.format(EACH)}\nif len(sets) > 2:\n    test_loader, loader = loader, test_loader",
        f"if len(sets) > 1:\n    {MADE.format(EACH)}\nelse:\n    {MADE.format(EACH)}",
    ],
)
def test_what_is_not_one_statement_of_loaders_of_their_own(made: str) -> None:
    finding = unchanged(script(loader=f"{SETS}{made}", after=TEST.format(COUNT)))
    assert finding.code == "PREP-NO-POINT"


def test_an_evaluation_that_cannot_gather() -> None:
    """All are prepared, or none: the other would be measured on a share."""
    after = "print(sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in test_loader))"
    assert unchanged(script(loader=SETS + MADE.format(EACH), after=after)).code == "PREP-NO-POINT"


TWO_SETS = "torch.manual_seed(0)\nfirst, rest = torch.utils.data.random_split(data, [40, 24])\n"


@pytest.mark.parametrize("each", ["[{}]", "({})"])
def test_each_is_told_apart_by_what_is_written_out(each: str) -> None:
    """Only the one that is trained on is dealt out, if an evaluation cannot gather."""
    made = MADE.format(each.format("DataLoader(part, batch_size=8) for part in (first, rest)"))
    after = "print(sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in test_loader))"
    lines = added(script(loader=TWO_SETS + made, after=after))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in lines
    lines = added(script(loader=TWO_SETS + made, after=TEST.format(COUNT)))
    assert "model, optimizer, loader, test_loader = accelerator.prepare(" in lines


OPTIMIZERS = "first, second = {}"
TWO_NETS = {
    "model": "encoder, head = nn.Linear(8, 8).to(device), Net().to(device)",
    "forward": "loss = F.cross_entropy(head(encoder(x)), y)",
    "step": "first.step()\nsecond.step()\nfirst.zero_grad()\nsecond.zero_grad()",
}


@pytest.mark.parametrize(
    "each",
    [
        "(torch.optim.Adam(net.parameters()) for net in (encoder, head))",
        "[torch.optim.Adam(net.parameters()) for net in [encoder, head]]",
        "[torch.optim.SGD(net.parameters(), lr) for net, lr in zip((encoder, head), (0.1, 0.2))]",
    ],
)
def test_optimizers(each: str) -> None:
    lines = added(script(**TWO_NETS, optimizer=OPTIMIZERS.format(each)))
    assert "encoder, head, first, second, loader = accelerator.prepare(" in lines


def test_optimizers_that_change_places() -> None:
    made = OPTIMIZERS.format("(torch.optim.Adam(net.parameters()) for net in (encoder, head))")
    swapped = f"{made}\nif len(data) > 9:\n    first, second = second, first"
    assert unchanged(script(**TWO_NETS, optimizer=swapped)).code == "PREP-NO-POINT"
