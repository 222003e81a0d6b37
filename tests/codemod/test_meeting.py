"""Nothing waits where only some of the processes would come."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import converted, script, severities

_IMPORTS = "import imageio\nimport matplotlib.pyplot as plt"
_WAIT = "accelerator.wait_for_everyone()"
_PLOTS = 'plt.savefig("a.png")\n{}picture = imageio.imread("a.png")'
_INDENTED = _PLOTS.format("    ")
_LOADS = 'torch.save(model.state_dict(), "a.pt")\n    state = torch.load("a.pt")'
_FRAMES = 'plt.savefig(f"frame_{epoch}.png")\n    frames = [imageio.imread(f"frame_{k}.png") for k in range(epoch)]'
_MAYBE = f"def maybe(value, best):\n    if value < best:\n        {_PLOTS.format(' ' * 8)}"


@pytest.mark.parametrize("reads", [_INDENTED, _LOADS, _FRAMES])
@pytest.mark.parametrize("test", ["loss.item() < best", "(x > 0).all()", "y.max() > 1"])
def test_an_iteration_that_goes_by_its_share_waits_for_nobody(test: str, reads: str) -> None:
    text = script(imports=_IMPORTS, before="best = 9.0", batch_end=f"if {test}:\n    {reads}")
    assert _WAIT not in converted(text)
    assert severities(text, "READ-EARLY") == ["warning"]


@pytest.mark.parametrize("reads", [_INDENTED, _LOADS, _FRAMES])
@pytest.mark.parametrize("test", ["epoch == 1", "len(loader) > 3", "best > 3"])
def test_all_processes_wait_where_all_come(test: str, reads: str) -> None:
    text = script(imports=_IMPORTS, before="best = 9.0", batch_end=f"if {test}:\n    {reads}")
    assert _WAIT in converted(text)
    assert severities(text, "READ-EARLY") == []


def test_a_function_may_be_told_what_differs() -> None:
    text = script(imports=_IMPORTS, definitions=_MAYBE, before="best = 9.0", batch_end="maybe(loss.item(), best)")
    assert _WAIT not in converted(text)
    assert severities(text, "READ-EARLY") == ["warning"]


def test_a_function_may_be_told_what_all_have() -> None:
    text = script(imports=_IMPORTS, definitions=_MAYBE, before="best = 9.0", batch_end="maybe(epoch, best)")
    assert _WAIT in converted(text)


def test_what_is_averaged_is_the_same_for_all() -> None:
    text = script(
        imports=_IMPORTS,
        before="best = 9.0",
        epoch="total = 0.0",
        batch_end="total += loss.item()",
        epoch_end=f"if total < best:\n    best = total\n    {_INDENTED}",
    )
    assert _WAIT in converted(text)
    assert severities(text, "READ-EARLY") == []
