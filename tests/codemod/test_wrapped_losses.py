"""Losses in functions that are wrapped or made by others, and samples that meet in `map`, `itertools` and `expand`."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import convert, script

ZERO = "optimizer.zero_grad()\n"
WRAPS = """\
def wraps(f):
    @functools.wraps(f)
    def run(*given):
        {}
        return {}

    return run


@wraps
def criterion(o, y):
    return F.cross_entropy(o, y)
"""
ARGUED = """\
def times(number):
    def wraps(f):
        def run(*given):
            return {}
        return run
    return wraps


@times(2)
def criterion(o, y):
    return F.cross_entropy(o, y)
"""
CALLED = """\
class Wraps:
    def __init__(self, f=None):
        self.f = f

    def __call__(self, {}):
        {}


@Wraps{}
def criterion(o, y):
    return F.cross_entropy(o, y)
"""
# As code for the maximum mean discrepancy has it.
KERNEL = """\
def kernel(one, other):
    both = torch.cat([one, other], dim=0)
    n = int(one.size()[0]) + int(other.size()[0])
    left = both.unsqueeze(0).expand(n, int(both.size(0)), int(both.size(1)))
    right = both.unsqueeze(1).expand(n, int(both.size(0)), int(both.size(1)))
    return torch.exp(-((left - right) ** 2).sum(2))
"""


def told(lines: str, definitions: str = "") -> list[str]:
    """What is said of a loss."""
    text = script(imports="import functools\nimport itertools", definitions=definitions, forward=ZERO + lines)
    plan = convert(text).plan
    assert plan is not None
    return [f.code for f in plan.findings if f.code.startswith("LOSS-")]


@pytest.mark.parametrize(
    "definitions",
    [
        WRAPS.format("result = f(*given)", "result * result"),
        WRAPS.format("", "f(*given).sum()"),
        WRAPS.format("", "f(*given) * len(given[0])"),
        ARGUED.format("f(*given) ** number"),
        CALLED.format("*given", "return self.f(*given) ** 2", ""),
        CALLED.format("f", "def run(*given):\n            return f(*given) ** 2\n        return run", "()"),
    ],
)
def test_a_decorator_that_makes_something_else_of_a_loss_is_not_passed_over(definitions: str) -> None:
    assert told("loss = criterion(model(x), y)", definitions) == ["LOSS-UNKNOWN"]


@pytest.mark.parametrize(
    "definitions",
    [
        WRAPS.format("", "f(*given)"),
        WRAPS.format("result = f(*given)", "result"),
        WRAPS.format(
            "result = f(*given)\n        for _ in given:\n            kept = result\n            result = kept",
            "result",
        ),
        ARGUED.format("f(*given)"),
        CALLED.format("f", "return f", '("name")'),
        CALLED.format("f", "def run(*given):\n            return f(*given)\n        return run", "()"),
        "def noted(f):\n    return f\n\n\n@noted\ndef criterion(o, y):\n    return F.cross_entropy(o, y)",
        "@functools.lru_cache\ndef criterion(o, y):\n    return F.cross_entropy(o, y)",
        "@torch.jit.script\ndef criterion(o, y):\n    return F.cross_entropy(o, y)",
    ],
)
def test_a_decorator_that_hands_a_loss_on_is_none_to_care_for(definitions: str) -> None:
    assert told("loss = criterion(model(x), y)", definitions) == []


@pytest.mark.parametrize(
    ("body", "codes"), [("(o - o.mean(0)).pow(2).mean()", ["LOSS-INBATCH"]), ("o.pow(2).mean()", [])]
)
def test_a_function_sees_the_arguments_of_the_one_that_made_it(body: str, codes: list[str]) -> None:
    make = f"def make(o):\n    def loss():\n        return {body}\n    return loss"
    assert told("loss = make(model(x))\nloss = loss()", make) == codes
    assert told("made = make(model(x))\nloss = made()", make) == codes


@pytest.mark.parametrize(
    "lines",
    [
        "m = x.mean(0)\nloss = F.cross_entropy(model(torch.stack(list(map(lambda v: v - m, x)))), y)",
        "o = model(x)\nloss = torch.stack([(a - b).abs().mean() for a, b in itertools.combinations(o, 2)]).mean()",
        "each = F.cross_entropy(model(x), y, reduction='none')\n"
        "loss = torch.stack(list(itertools.accumulate(each))).mean()",
        "o = model(x)\nloss = kernel(o, x[:, :3]).mean()",
        "o = model(x)\nloss = F.cross_entropy(o, y) + kernel(o, x[:, :3]).mean()",
        "o = model(x)\nloss = F.linear(o, o).mean()",
        "o = model(x)\nloss = F.mse_loss(o.unsqueeze(1), o.unsqueeze(0))",
        "o = model(x)\nloss = nn.L1Loss()(o.unsqueeze(1), o.unsqueeze(0))",
        "o = model(x)\na = o.unsqueeze(1).expand(-1, len(o), -1)\nloss = F.l1_loss(a, o.unsqueeze(0).expand_as(a))",
        "o = model(x)\nloss = F.cross_entropy(F.layer_norm(o, o.shape), y)",
    ],
)
def test_samples_that_meet_are_reported(lines: str) -> None:
    assert told(lines, KERNEL) == ["LOSS-INBATCH"]


@pytest.mark.parametrize(
    "lines",
    [
        "loss = F.cross_entropy(model(torch.stack(list(map(lambda v: v / 2, x)))), y)",
        "o = model(x)\nn = o.size(0)\nt = torch.ones(4, 3, device=device)\n"
        "loss = (o.unsqueeze(1).expand(n, 4, 3) - t.unsqueeze(0).expand(n, 4, 3)).pow(2).mean()",
        "o = model(x)\nw = torch.ones(3, 3, device=device)\nloss = F.cross_entropy(F.linear(o, w), y)",
        "o = model(x)\nloss = F.cross_entropy(F.layer_norm(o, o.shape[1:]), y)",
        "o = model(x)\nloss = F.mse_loss(o.t(), x.t()[:3])",
        "o = model(x)\nloss = F.mse_loss(o.unsqueeze(1), x[:, :3].unsqueeze(1))",
        "loss = F.cross_entropy(model(x), y)\nfor a, b in itertools.product([1, 2], [3, 4]):\n    loss = loss + a * b",
    ],
)
def test_what_is_done_with_each_sample_is_not(lines: str) -> None:
    assert told(lines, KERNEL) == []
