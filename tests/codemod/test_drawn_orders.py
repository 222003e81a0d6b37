"""Evaluations by every process that go through their data in an order which each draws for itself."""

from __future__ import annotations

import pytest
from scripts import convert, findings, script

MEANS = "total += F.cross_entropy(model(x.to(device)), y.to(device)).item()"
SUMS = "total += F.cross_entropy(model(x.to(device)), y.to(device)).item() * len(x)"
RIGHT = "total += (model(x.to(device)).argmax(1).cpu() == y).sum().item()"
KEPT = "losses.append(F.cross_entropy(model(x.to(device)), y.to(device)).item())"
METER = "losses.update(F.cross_entropy(model(x.to(device)), y.to(device)).item(), len(x))"
STOP = "if total > best:\n    break\nbest = total"


def told(arguments: str, measures: str = MEANS, then: str = STOP, before: str = "") -> list[str]:
    """The codes of what is said of a script that evaluates data which every process goes through."""
    body = "\n    ".join(["kinds.append(str(x.dtype))", *measures.splitlines()])  # keeps the loader from being shared
    return findings(
        script(
            before=f"{before}\ntest_loader = DataLoader(data, batch_size=10, {arguments})\nbest = 1e9\nkinds = []",
            epoch_end=f"total, losses = 0, []\nfor x, y in test_loader:\n    {body}\n{then}",
        )
    )


@pytest.mark.parametrize(
    ("arguments", "slots"),
    [
        ("shuffle=True", {}),  # the last batch has four samples, which count as much as ten
        ("shuffle=True", {"measures": KEPT, "then": f"total = sum(losses) / len(losses)\n{STOP}"}),
        ("shuffle=True, drop_last=True", {"measures": SUMS}),
        ("shuffle=True, drop_last=True", {"measures": RIGHT}),
    ],
)
def test_an_order_that_changes_what_is_measured(arguments: str, slots: dict[str, str]) -> None:
    assert "COLL-RANKFLOW" in told(arguments, **slots)


@pytest.mark.parametrize(
    ("arguments", "slots"),
    [
        ("shuffle=False", {}),
        ("shuffle=False, drop_last=True", {}),
        ("shuffle=True", {"measures": SUMS}),
        ("shuffle=True", {"measures": RIGHT}),
        ("shuffle=True, generator=torch.Generator().manual_seed(0)", {}),
        ("shuffle=True", {"before": "torch.manual_seed(0)"}),
        ("shuffle=True", {"then": "print(total)"}),
        ("shuffle=True", {"measures": f"{KEPT}\n{RIGHT}"}),  # what is decided on has no means
        ("shuffle=True", {"measures": METER, "then": f"total = losses.avg\n{STOP}"}),  # weighed
        ("shuffle=True, drop_last=True", {"then": "if total < best:\n    torch.save(model.state_dict(), 'm.pt')"}),
    ],
)
def test_one_that_does_not(arguments: str, slots: dict[str, str]) -> None:
    assert "COLL-RANKFLOW" not in told(arguments, **slots)
    assert "EVAL-REPLICATED" in told(arguments, **slots)


@pytest.mark.parametrize(("order", "nothing"), [("shuffle=True", False), ("shuffle=False", True)])
def test_that_nothing_has_to_be_done_is_said_only_where_it_is_so(order: str, nothing: bool) -> None:
    text = script(
        before=f"test_loader = DataLoader(data, batch_size=10, {order})\nbest = 1e9\nkinds = []",
        epoch_end=f"total = 0\nfor x, y in test_loader:\n    kinds.append(str(x.dtype))\n    {MEANS}\n{STOP}",
    )
    plan = convert(text).plan
    told = [f.remedy for f in plan.findings if f.code == "EVAL-REPLICATED"] if plan is not None else []
    assert ["nothing has to be done" in remedy for remedy in told] == [nothing]
