"""`accelift check` finds numbers of one process that are divided by the number of processes without being added up."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script

SHOWN = "accelerator.print(mean)"


@pytest.mark.parametrize("library", ["accelerate", "accelift"])
@pytest.mark.parametrize(
    "end",
    [
        f"mean = loss.item() / accelerator.num_processes  # HERE\n{SHOWN}",
        f"mean = torch.tensor(loss.item())\nmean = mean.item() / accelerator.num_processes  # HERE\n{SHOWN}",
        "accelerator.print((x.sum() / accelerator.num_processes).item())  # HERE",
        "if accelerator.is_main_process:\n    print(loss.item() / accelerator.num_processes)  # HERE",
    ],
)
def test_what_nothing_has_added_up(library: str, end: str) -> None:
    text = script(library, batch_end=end)
    assert [f.line for f in findings(text, "METRIC-LOCAL")] == marked(text)


@pytest.mark.parametrize(
    "end",
    [
        f"mean = accelerator.reduce(loss.detach(), 'sum') / accelerator.num_processes\n{SHOWN}",
        f"mean = accelerator.gather(loss.detach()).sum().item() / accelerator.num_processes\n{SHOWN}",
        f"mean = loss.detach() / accelerator.num_processes\nmean = accelerator.reduce(mean, 'sum')\n{SHOWN}",
        f"mean = accelerator.reduce(loss.detach() / accelerator.num_processes, 'sum')\n{SHOWN}",
        "total = loss.detach()\ntorch.distributed.all_reduce(total)\nprint(total / accelerator.num_processes)",
        "mean = loss.detach() / accelerator.num_processes\ntools.add_up(mean)",
        "mean = loss.detach() / accelerator.num_processes\nmeter.update(mean)",
        "meter.update(loss=loss.item() / accelerator.num_processes)",
        "if accelerator.num_processes > 1:\n    mean = loss.detach() / accelerator.num_processes",
        "print(epoch / accelerator.num_processes, len(x) / accelerator.num_processes)",
        "print(loss.item() / 4, loss.item() / args.num_processes)",
        "print(loss.item() * accelerator.num_processes)",
    ],
)
def test_what_is_added_up_or_the_same_everywhere(end: str) -> None:
    text = script(imports="import tools", setup="args = asked()\nmeter = tools.Meter()", batch_end=end)
    assert findings(text, "METRIC-LOCAL") == []


def test_what_is_backpropagated_may_be_divided() -> None:
    text = script(backward="loss = loss / accelerator.num_processes\naccelerator.backward(loss)")
    assert findings(text, "METRIC-LOCAL") == []
