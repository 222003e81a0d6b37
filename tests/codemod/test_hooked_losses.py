"""Losses of what hooks of networks have kept: features that are compared, distilled, penalised."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import convert, script

DICT = """\
kept = {}


def hook(module, inputs, output):
    kept["h"] = output


model.layer.register_forward_hook(hook)
"""
NAMED = """\
kept = {}


def named(name):
    def hook(module, inputs, output):
        kept[name] = output

    return hook


model.layer.register_forward_hook(named("h"))
"""
LIST = "kept = []\nmodel.layer.register_forward_hook(lambda module, inputs, output: kept.append(output))"
UPDATED = "kept = {}\nmodel.layer.register_forward_pre_hook(lambda module, inputs: kept.update(h=inputs[0]))"
OBJECT = """\
class Keeper:
    def __init__(self, module):
        self.handle = module.register_forward_hook(self.keep)

    def keep(self, module, inputs, output):
        self.output = output


keeper = Keeper(model.layer)
"""
STATISTIC = """\
class Keeper:
    def __init__(self, module):
        self.handle = module.register_forward_hook(self.keep)

    def keep(self, module, inputs, output):
        mean = output.mean(0)
        self.output = torch.norm(mean) + output.var(0).sum()


keeper = Keeper(model.layer)
"""
KEPT = [
    (DICT, 'kept["h"]'),
    (NAMED, 'kept["h"]'),
    (LIST, "kept[-1]"),
    (LIST, "kept.pop()"),
    (UPDATED, 'kept["h"]'),
    (OBJECT, "keeper.output"),
]


def told(hooks: str, lines: str) -> list[tuple[str, str]]:
    """What is said of a loss, and how severe it is."""
    forward = f"optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\n{lines}"
    plan = convert(script(before=hooks, forward=forward)).plan
    assert plan is not None
    return [(f.code, f.severity.value) for f in plan.findings if f.code.startswith("LOSS-")]


@pytest.mark.parametrize(("hooks", "kept"), KEPT)
@pytest.mark.parametrize(
    "lines",
    [
        "loss = loss + f.std(0).mean()",
        "loss = loss + 0.01 * f.norm()",
        "loss = loss + (f @ f.t()).pow(2).mean()",
        "loss = loss + (f.t() @ f / len(f)).pow(2).mean()",
        "loss = loss + F.mse_loss(f.mean(0), torch.zeros(3))",
        "loss = loss + (f - f.mean(0)).abs().mean()",
    ],
)
def test_samples_that_meet_in_what_hooks_keep_are_reported(hooks: str, kept: str, lines: str) -> None:
    found = told(hooks, f"f = {kept}\n{lines}")
    assert found in ([("LOSS-INBATCH", "warning")], [("LOSS-INBATCH", "error")])


@pytest.mark.parametrize(("hooks", "kept"), KEPT)
def test_a_sum_of_what_hooks_keep_is_reported(hooks: str, kept: str) -> None:
    assert told(hooks, f"f = {kept}\nloss = loss + F.mse_loss(f, torch.zeros_like(f), reduction='sum')") == [
        ("LOSS-SUM", "error")
    ]
    assert told(hooks, f"loss = loss + {kept}.pow(2).sum()") == [("LOSS-UNKNOWN", "warning")]


@pytest.mark.parametrize(("hooks", "kept"), KEPT)
@pytest.mark.parametrize(
    "lines",
    ["loss = loss + f.pow(2).mean()", "loss = loss + F.mse_loss(f, torch.zeros_like(f))", "loss = loss + f.mean()"],
)
def test_a_mean_of_what_hooks_keep_is_one(hooks: str, kept: str, lines: str) -> None:
    assert told(hooks, f"f = {kept}\n{lines}") == []


def test_a_statistic_that_a_hook_makes_is_reported() -> None:
    assert told(STATISTIC, "loss = loss + keeper.output") == [("LOSS-INBATCH", "warning")]


def test_what_a_hook_keeps_and_is_only_shown_does_not_matter() -> None:
    assert told(DICT, 'shown = kept["h"].std(0).mean()') == []
