"""DEV-LEFT: what goes to a GPU before there is an accelerator, and each process has one."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelift_codemod.api import convert_file
from accelift_codemod.options import Options
from scripts import converted, findings, script

WEIGHTS = "weights = torch.ones(3){}"
USED = "loss = F.cross_entropy(model(x), y) * weights.sum()"
LATE = "class Late(nn.Module):\n    def forward(self, x):\n        return x + torch.ones(3).cuda()"
MAKES = "def make():\n    return torch.ones(3).cuda()\n\n\n"


def text(definitions: str, main: bool = True, **slots: str) -> str:
    """A script that asks for the GPU by .cuda() alone."""
    slots = {"device": "pass", "model": "model = Net().cuda()", "move": "x, y = x.cuda(), y.cuda()", **slots}
    return script(main=main, definitions=definitions, forward=f"optimizer.zero_grad()\n{USED}", **slots)


@pytest.mark.parametrize(
    "definitions",
    [
        WEIGHTS.format(".cuda()"),
        WEIGHTS.format('.to("cuda")'),
        'weights = torch.ones(3, device="cuda")',
        f"{MAKES}weights = make()",
        "class Settings:\n    weights = torch.ones(3).cuda()\n\n\nweights = Settings.weights",
    ],
)
def test_what_is_moved_outside_of_the_function_that_trains_is_told_of(definitions: str) -> None:
    assert findings(text(definitions)) == ["DEV-LEFT"]


@pytest.mark.parametrize(
    ("definitions", "slots"),
    [
        (WEIGHTS.format(""), {}),
        (WEIGHTS.format('.to("cpu")'), {}),
        ("weights = torch.ones(3)", {"before": "weights = torch.ones(3).cuda()"}),
        (MAKES, {"before": "weights = make()"}),
        (LATE, {"before": "weights = Late()(torch.ones(3))"}),
    ],
)
def test_what_is_moved_later_is_not(definitions: str, slots: dict[str, str]) -> None:
    assert "DEV-LEFT" not in findings(text(definitions, **slots))


def test_outside_functions_the_accelerator_comes_first() -> None:
    before = text("", main=False, setup=WEIGHTS.format(".cuda()"))
    assert findings(before) == []
    assert "weights = torch.ones(3).to(accelerator.device)" in converted(before)


@pytest.mark.parametrize(("moves", "told"), [(".cuda()", True), ("", False)])
def test_what_a_file_moves_when_it_is_imported(tmp_path: Path, moves: str, told: bool) -> None:
    (tmp_path / "losses.py").write_text(f"import torch\n\n{WEIGHTS.format(moves)}\n")
    path = tmp_path / "train.py"
    path.write_text(text("", from_imports="from losses import weights"))
    result = convert_file(path, Options())
    assert result.output is not None
    found = [f.code for one in (result, *result.members) for f in (one.plan.findings if one.plan else ())]
    assert ("DEV-LEFT" in found) is told
