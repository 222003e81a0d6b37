"""Parameters that get other numbers, which a later move brings to the device."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, removed, script


def _script(change: str) -> str:
    return script(model="model = Net()\nmodel.to(device)", epoch=f"{change}\nmodel.to(device)")


@pytest.mark.parametrize(
    "change",
    [
        "model.layer.weight.data = torch.randn(3, 8)",
        "for p in model.parameters():\n    p.data = torch.randn(p.shape)",
        "for name, p in model.named_parameters():\n    p.data = torch.zeros(p.size())",
    ],
)
def test_a_move_of_other_numbers_stays(change: str) -> None:
    assert "    model.to(device)\n" in converted(_script(change))


@pytest.mark.parametrize(
    "change",
    [
        "model.layer.weight.data = model.layer.weight.data.clamp(-1, 1)",
        "for p in model.parameters():\n    p.data = p.data.clamp(-1, 1)",
        "for p in model.parameters():\n    p.data.clamp_(-1, 1)",
        "print(model.layer.weight.data)",
    ],
)
def test_a_move_of_numbers_that_are_there_goes(change: str) -> None:
    assert removed(_script(change)).count("model.to(device)") == 2
