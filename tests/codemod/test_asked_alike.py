"""Lists that iterations fill and empty, and variables that are None at first: all processes do that together."""

from __future__ import annotations

import textwrap

import pytest
from scripts import script, severities

PUTS = """\
def put(micro, x, y):
    micro.append((x, y))


def put_some(micro, x, y):
    if y[0] > 0:
        micro.append((x, y))
"""
STEP = "    optimizer.zero_grad()\n    loss = sum(F.cross_entropy(model(a), b) for a, b in {0})\n    loss.backward()\n"


def told(forward: str, **slots: str) -> list[str]:
    text = script(**{"forward": forward, "backward": "", "step": "", **slots})
    return severities(text, "COLL-RANKFLOW")


@pytest.mark.parametrize(
    ("body", "alike"),
    [
        (f"micro.append((x, y))\nif len(micro) == 4:\n{STEP}    optimizer.step()\n    micro.clear()", True),
        (f"micro.append((x, y))\nif len(micro) == 4:\n{STEP}    optimizer.step()\n    micro = []", True),
        (
            f"micro.append((x, y))\nif len(micro) < 4:\n    continue\nif micro:\n{STEP}optimizer.step()\nmicro = []",
            True,
        ),
        (f"if y[0] > 0:\n    micro.append((x, y))\nif len(micro) == 4:\n{STEP}    micro = []", False),
        (f"micro.append((x, y))\nif len(micro) == 4:\n{STEP}    micro = []\nif y[0] > 0:\n    micro = []", False),
        (f"micro.append((x, y))\nif micro[0][1][0] == 4:\n{STEP}    micro.clear()", False),
        (f"micro.append((x, y))\nif len(micro) == 4:\n{STEP}    micro.clear()\nif y[0]:\n    micro.pop()", False),
        (f"put(micro, x, y)\nif len(micro) == 4:\n{STEP}    micro = []", True),
        (f"put_some(micro, x, y)\nif len(micro) == 4:\n{STEP}    micro = []", False),
        (f"put_some(micro, x, y)\nif micro:\n{STEP}    micro = []", False),
        (f"micro.extend((r, y) for r in x)\nif len(micro) > 40:\n{STEP}    micro = []", False),
    ],
)
def test_lists_that_are_emptied(body: str, alike: bool) -> None:
    assert told(body.replace("{0}", "micro"), setup="micro = []", definitions=PUTS) == ([] if alike else ["error"])


EACH = "for a, b in micro:\n        loss = F.cross_entropy(model(a), b)\n        loss.backward()"


@pytest.mark.parametrize(
    ("body", "alike"),
    [
        (f"micro.append((x, y))\nif len(micro) == 4:\n    {EACH}\n    micro.clear()", True),
        (f"micro.append((x, y))\nif y[0] > 0:\n    micro.pop()\nif epoch:\n    {EACH}", False),
    ],
)
def test_backward_passes_for_each_entry_of_a_list(body: str, alike: bool) -> None:
    assert told(body, setup="micro = []") == ([] if alike else ["error"])


LOSS = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\n"


@pytest.mark.parametrize(
    ("body", "alike"),
    [
        (f"{LOSS}if last is not None:\n    loss.backward()\nlast = loss.detach()", True),
        (f"{LOSS}if last is None:\n    last = x\n    continue\nloss.backward()\nlast = x", True),
        (
            f"if last is not None:\n    x, y = last\n    {LOSS}    loss.backward()\nlast = (x, y)".replace(
                "\nl", "\n    l", 1
            ),
            True,
        ),
        (f"{LOSS}if last is None:\n    loss.backward()\nif loss > 1:\n    last = x", False),
        (f"{LOSS}if last is None:\n    loss.backward()\nlast = find(x)", False),
        (f"{LOSS}if last is None or last > 2:\n    loss.backward()\nlast = loss.detach()", False),
        (f"{LOSS}if last is None:\n    loss.backward()\nlast = x if loss > 1 else None", False),
        (f"{LOSS}if last is None:\n    loss.backward()\nkept = None\nif loss > 1:\n    kept = 1\nlast = kept", False),
    ],
)
def test_variables_that_are_none_at_first(body: str, alike: bool) -> None:
    find = "def find(x):\n    return x if x[0, 0] > 0 else None"
    assert told(body, setup="last = None", definitions=find) == ([] if alike else ["error"])


PARTS = "\n    ".join(["if len(data) > 1:", "    goal = data[1].to(device)", "data = data[0].to(device)"])
TRAIN = "optimizer.zero_grad()\n{}\nloss = F.cross_entropy(model(data), goal)"


@pytest.mark.parametrize(
    ("body", "alike"),
    [
        (f"if isinstance(data, (list, tuple)):\n    {PARTS}", True),
        (f"if isinstance(data, list):\n    data = data[0].to(device)\n    {PARTS}", False),  # the rows of a tensor
        (f"if epoch:\n    {PARTS}", False),  # a batch may be a tensor, for all that is known
    ],
)
def test_how_many_parts_a_batch_has(body: str, alike: bool) -> None:
    slots = {"loop": "for data in loader:", "move": "goal = None", "backward": "loss.backward()"}
    told = severities(script(forward=TRAIN.format(body), step="optimizer.step()", **slots), "COLL-RANKFLOW")
    assert told == ([] if alike else ["error"])


@pytest.mark.parametrize(
    ("test", "alike"),
    [
        ("loss.requires_grad", True),
        ("x.is_floating_point() and loss.dtype != torch.float16", True),
        ("loss.requires_grad and loss < 9", False),
        ("(loss - 9).sign().bool()", False),
    ],
)
def test_of_which_kind_a_tensor_is(test: str, alike: bool) -> None:
    assert told(f"{LOSS}if {test}:\n    loss.backward()\n    optimizer.step()") == ([] if alike else ["error"])
    closure = textwrap.indent(f"{LOSS}if {test}:\n    loss.backward()\nreturn loss\n", "    ")
    assert told(f"def closure():\n{closure}optimizer.step(closure)") == ([] if alike else ["error"])
