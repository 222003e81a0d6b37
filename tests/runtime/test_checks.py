"""What prepare warns of, and what is made of what processes know of a parameter that differs."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch
from accelift import Accelerator
from accelift.collective import describe
from accelift.diagnosis.agreement import groups
from accelift.diagnosis.causes import AVERAGED, LOCAL, OUTSIDE, Evidence, likely_cause
from accelift.diagnosis.checks import first_difference, parts_of
from torch import nn

EVIDENCE = Evidence(
    in_model=True,
    was_frozen=False,
    optimizer="Adam",
    prepared=True,
    source=AVERAGED,
    gradient=1,
    settings={"lr": 0.1, "fused": False},
    state=5,
)


@pytest.mark.parametrize(
    ("changes", "other", "part"),
    [
        ({}, {"settings": {"lr": 0.2, "fused": False}}, "the lr of Adam is 0.1 on rank 0 and 0.2 on rank 1"),
        ({}, {"state": 6}, "the state that Adam keeps for it"),
        ({}, {}, "the script itself gave it another value"),
        ({}, {"gradient": 2}, "averaged but changed after that"),
        ({"source": None}, {"gradient": 2}, "torch.autograd.grad"),
        ({"source": None, "gradient": None}, {}, "torch.autograd.grad"),
        ({"source": OUTSIDE}, {"gradient": 2}, "did not come from a call of the prepared model"),
        ({"source": OUTSIDE, "in_model": False}, {"gradient": 2}, "it is in no prepared model"),
        ({"source": OUTSIDE, "was_frozen": True}, {"gradient": 2}, "frozen when its model was prepared"),
        ({"source": None, "was_frozen": True}, {"gradient": 2}, "frozen when its model was prepared"),
        ({"source": LOCAL}, {"gradient": 2}, "averages nothing"),
        ({"source": LOCAL, "prepared": False}, {"gradient": 2}, "Adam was not prepared, so"),
        ({"source": OUTSIDE, "prepared": False, "in_model": False}, {"gradient": 2}, "and the parameter is in no"),
    ],
)
def test_likely_cause(changes: dict[str, object], other: dict[str, object], part: str) -> None:
    one = replace(EVIDENCE, **changes)  # type: ignore[arg-type]
    cause = likely_cause([one, replace(one, **other)])  # type: ignore[arg-type]
    assert part in cause and not cause.endswith(".") and "\n" not in cause


def test_groups_of_ranks() -> None:
    said = {0: "a", 1: "b", 2: "a", 3: "a", 4: "a", 6: "a", 7: "a", 8: "c"}
    assert groups(said) == [("ranks 0, 2-4, 6, 7", "a"), ("rank 1", "b"), ("rank 8", "c")]


def test_descriptions() -> None:
    assert describe(torch.ones(2, 3)) == "float32 (2, 3)"
    assert describe({"x": [torch.ones(2, dtype=torch.int64), torch.tensor(True)]}) == "{'x': [int64 (2,), bool ()]}"
    assert describe((torch.ones(2, 3), "text"), skip_dim=-1) == "[float32 (2, *), str]"
    assert describe(torch.ones(2), skip_dim=1) == "float32 (2,)"


def test_first_difference() -> None:
    one, other = parts_of(nn.Linear(2, 3)), parts_of(nn.Linear(2, 4))
    found = first_difference(["Linear"] * 3, [one, other, one])
    assert found == "Linear: ranks 0, 2: 'weight', float32 (3, 2); rank 1: 'weight', float32 (4, 2)"
    assert first_difference(["Linear"] * 2, [one, one[:1]]).endswith("rank 1: nothing more")
    assert first_difference(["Linear", "Net"], [one, other]) == "rank 0: a Linear; rank 1: a Net"
    assert parts_of(nn.LazyLinear(2)) == []


# Prepare, on one process


def test_float16_parameters_with_a_scaler() -> None:
    half = nn.Linear(2, 2).half()
    with pytest.raises(ValueError, match=r"SGD trains float16 parameters \(first: 'weight' of Linear\)"):
        Accelerator(cpu=True, mixed_precision="fp16").prepare(half, torch.optim.SGD(half.parameters()))
    with pytest.raises(ValueError, match=r"first: of shape \(2, 2\)"):
        Accelerator(cpu=True, mixed_precision="fp16").prepare(torch.optim.SGD(half.parameters()))
    Accelerator(cpu=True, mixed_precision="bf16").prepare(half, torch.optim.SGD(half.parameters()))
    adapted = nn.Sequential(nn.Linear(2, 2).half().requires_grad_(False), nn.Linear(2, 2))
    Accelerator(cpu=True, mixed_precision="fp16").prepare(adapted, torch.optim.SGD(adapted.parameters()))


def test_optimizer_of_frozen_parameters() -> None:
    model = nn.Linear(2, 2).requires_grad_(False)
    with pytest.warns(UserWarning, match="SGD has nothing to train: all of its 2 parameters are frozen") as caught:
        Accelerator(cpu=True).prepare(model, torch.optim.SGD(model.parameters()))
    assert [one.filename for one in caught] == [__file__], "it should be about the script's line"


def test_optimizer_of_another_copy_of_the_model() -> None:
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters())
    model = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="SGD trains no parameter of the prepared Linear"):
        Accelerator(cpu=True).prepare(model, optimizer)
    acc = Accelerator(cpu=True)
    acc.prepare(model)
    with pytest.warns(UserWarning, match="make the optimizer from the parameters of the model that is prepared"):
        acc.prepare(optimizer)


def test_ordinary_optimizers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for names in (["weight"], ["weight", "bias"], []):
            model = nn.Linear(2, 2)
            chosen = [parameter for name, parameter in model.named_parameters() if name in names]
            acc = Accelerator(cpu=True, mixed_precision="fp16")
            acc.prepare(model, torch.optim.SGD([*chosen, nn.Parameter(torch.ones(1))]))
        other = nn.Linear(3, 3)
        acc.prepare(torch.optim.SGD(other.parameters()))  # it is prepared later
        acc.prepare(other)
        Accelerator(cpu=True).prepare(torch.optim.SGD(nn.Linear(2, 2).parameters()))


def test_nothing_is_compared_on_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELIFT_CHECK_DIVERGENCE", "1")
    acc = Accelerator(cpu=True, debug=True)
    assert acc.state.debug and acc._divergence is None
    model = nn.Linear(2, 2)
    prepared, optimizer = acc.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert prepared is model
    acc.backward(prepared(torch.ones(1, 2)).sum())
    optimizer.step()
    assert acc.gather(torch.ones(1)).shape == (1,) and acc.check_trigger() is False
