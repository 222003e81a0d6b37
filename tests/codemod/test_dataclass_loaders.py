"""Dataclasses that hand loaders on, beside other dataclasses that have the network and its optimizer."""

from __future__ import annotations

import pytest
from scripts import convert, script, unchanged

PARTS = """\
@dataclass
class Pair:
    net: nn.Module
    opt: torch.optim.Optimizer


{}
class Parts:
    loader: {}
    part: Pair
    steps: int = 0


def train(parts):
    for x, y in parts.loader:
        parts.part.opt.zero_grad()
        loss = F.cross_entropy(parts.part.net(x.to(device)), y.to(device))
        loss.backward()
        parts.part.opt.step()
"""


def parts(head: str = "@dataclass", said: str = "DataLoader") -> str:
    return script(
        imports="from dataclasses import dataclass\nfrom other import register",
        definitions=PARTS.format(head, said),
        before="parts = Parts(loader=loader, part=Pair(model, optimizer))",
        epoch="train(parts)",
        **dict.fromkeys(("loop", "move", "forward", "backward", "step"), ""),
    )


@pytest.mark.parametrize("said", ["DataLoader", "torch.utils.data.DataLoader", "DataLoader | None"])
def test_a_loader_in_a_dataclass_is_prepared_before(said: str) -> None:
    result = convert(parts(said=said))
    output = result.output.decode() if result.output is not None else ""
    prepared = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n"
    assert prepared in output and output.index(prepared) < output.index("parts = Parts(")


@pytest.mark.parametrize(("head", "said"), [("@register", "DataLoader"), ("@dataclass", "object")])
def test_a_field_that_is_not_said_to_be_one(head: str, said: str) -> None:
    assert unchanged(parts(head, said)).code == "LOADER-UNKNOWN"
