"""Samplers of a script's own that draw while they deal: all processes draw alike only what comes before the first."""

from __future__ import annotations

import pytest
from scripts import findings, script

IMPORTS = "import random\nimport numpy as np"
SAMPLER = """\
class Order(torch.utils.data.Sampler):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return self.rows

    def __iter__(self):
        {}
"""
LOADER = "loader = DataLoader(data, batch_size=16, sampler=Order(64))"
AGAIN = "while True:\n            yield from {}"


def told(inside: str, seed: str = "", loader: str = LOADER) -> list[str]:
    text = script(imports=IMPORTS, definitions=SAMPLER.format(inside), setup=seed, loader=loader)
    return [code for code in findings(text) if code.startswith("DATA")]


@pytest.mark.parametrize(
    ("draw", "seed"),
    [
        ("torch.randperm(self.rows).tolist()", "torch.manual_seed(0)"),
        ("np.random.permutation(self.rows)", "np.random.seed(0)"),
        ("random.sample(range(self.rows), self.rows)", "random.seed(0)"),
        ("[random.randrange(self.rows)]", "random.seed(0)"),
    ],
)
def test_what_is_drawn_after_something_was_dealt_needs_a_seed(draw: str, seed: str) -> None:
    assert told(AGAIN.format(draw)) == ["DATA-SAMPLER-RNG"]
    assert told(AGAIN.format(draw), seed) == []
    assert told(f"yield 0\n        yield from {draw}") == ["DATA-SAMPLER-RNG"]


def test_what_seeds_itself_by_what_the_system_gives() -> None:
    inside = "while True:\n            np.random.seed()\n            yield from np.random.permutation(self.rows)"
    assert told(inside) == ["DATA-SAMPLER-RNG"]


def test_batches_that_a_sampler_draws() -> None:
    inside = "for _ in range(4):\n            yield torch.randperm(self.rows)[:16].tolist()"
    assert "DATA-SAMPLER-RNG" in told(inside, loader="loader = DataLoader(data, batch_sampler=Order(64))")


def test_a_generator_that_another_function_is() -> None:
    inside = (
        "return iter(self.deal())\n\n    def deal(self):\n        while True:\n            yield random.randrange(64)"
    )
    assert told(inside) == ["DATA-SAMPLER-RNG"]


@pytest.mark.parametrize(
    "inside",
    [
        "return iter(torch.randperm(self.rows).tolist())",
        "yield from torch.randperm(self.rows).tolist()",
        "order = list(range(self.rows))\n        random.shuffle(order)\n        for i in order:\n            yield i",
        "for i in torch.randperm(self.rows).tolist():\n            yield i",
        "while True:\n            yield from range(self.rows)",
    ],
)
def test_what_is_drawn_first_all_draw_alike(inside: str) -> None:
    assert told(inside) == []


def test_a_sampler_of_data_that_is_not_shared_out() -> None:
    deals = "other = DataLoader(data, batch_size=16, sampler=Order(64))"
    text = script(imports=IMPORTS, definitions=SAMPLER.format(AGAIN.format("[random.randrange(64)]")), before=deals)
    assert "DATA-SAMPLER-RNG" not in findings(text)


GIVEN = """\
class Order(torch.utils.data.Sampler):
    def __init__(self, order):
        self.order = order

    def __len__(self):
        return 64

    def __iter__(self):
        return iter(self.order)
"""
MADE = SAMPLER.format("yield from self.order").replace("self.rows = rows", "self.rows, self.order = rows, {}")


@pytest.mark.parametrize(
    ("order", "seed"),
    [
        ("np.random.permutation(64)", "np.random.seed(0)"),
        ("torch.randperm(64).tolist()", "torch.manual_seed(0)"),
        ("random.sample(range(64), 64)", "random.seed(0)"),
    ],
)
def test_an_order_that_a_sampler_keeps_needs_a_seed(order: str, seed: str) -> None:
    for name in ("sampler", "batch_sampler"):
        slots = {
            "imports": IMPORTS,
            "definitions": GIVEN,
            "loader": f"loader = DataLoader(data, {name}=Order({order}))",
        }
        assert "DATA-SAMPLER-RNG" in findings(script(**slots))
        assert "DATA-SAMPLER-RNG" not in findings(script(**slots, setup=seed))
    made = MADE.replace("rows, {}", f"rows, {order}")
    assert "DATA-SAMPLER-RNG" in findings(script(imports=IMPORTS, definitions=made, loader=LOADER))
    assert "DATA-SAMPLER-RNG" not in findings(script(imports=IMPORTS, definitions=made, loader=LOADER, setup=seed))


def test_an_order_that_is_the_same_or_no_samplers() -> None:
    slots = {"imports": IMPORTS, "definitions": GIVEN}
    assert told_by(slots, loader="loader = DataLoader(data, sampler=Order(range(64)))") == []
    assert told_by(slots, before="shown = Order(np.random.permutation(64))\nprint(len(shown))") == []


def told_by(slots: dict[str, str], **more: str) -> list[str]:
    return [code for code in findings(script(**slots, **more)) if code == "DATA-SAMPLER-RNG"]


@pytest.mark.parametrize(
    ("made", "deals", "expected"),
    [
        ("self.jitter = np.random.rand(64)", "iter(range(64))", []),
        ("self.order = np.random.permutation(64)", "iter(self.order)", ["DATA-SAMPLER-RNG"]),
        (
            "order = list(range(64)); random.shuffle(order); self.order = order",
            "iter(self.order)",
            ["DATA-SAMPLER-RNG"],
        ),
        ("self.order = list(range(64)); random.shuffle(self.order)", "iter(self.order)", ["DATA-SAMPLER-RNG"]),
        ("self.indices = np.random.permutation(64)", "super().__iter__()", ["DATA-SAMPLER-RNG"]),
        ("setattr(self, 'order', np.random.permutation(64))", "iter(self.order)", ["DATA-SAMPLER-RNG"]),
        ("self.first = np.random.permutation(64); self.order = self.first[::-1]", "self.deal()", ["DATA-SAMPLER-RNG"]),
    ],
)
def test_what_a_sampler_draws_when_it_is_made_matters_if_it_is_dealt(
    made: str, deals: str, expected: list[str]
) -> None:
    definitions = SAMPLER.format(f"return {deals}\n\n    def deal(self):\n        return iter(self.order)")
    definitions = definitions.replace("self.rows = rows", f"self.rows = rows; {made}")
    assert told_by({"imports": IMPORTS, "definitions": definitions}, loader=LOADER) == expected
