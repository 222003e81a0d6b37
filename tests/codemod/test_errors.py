"""ERRORS: what is caught while all processes train together."""

from __future__ import annotations

import pytest
from scripts import added, converted, findings, script

STEP = """\
try:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
except {kind}:
    {handler}"""


def caught(kind: str, handler: str) -> str:
    """A script that catches what goes wrong in a step."""
    return script(forward=STEP.format(kind=kind, handler=handler), backward="", step="")


@pytest.mark.parametrize(
    ("kind", "handler"),
    [
        ("Exception as error", "print(error)"),
        ("RuntimeError", "continue"),
        ("(KeyboardInterrupt, ValueError)", "torch.cuda.empty_cache()"),
        ("RuntimeError as error", 'if "memory" not in str(error):\n        raise'),
        ("RuntimeError as error", 'if "memory" in str(error):\n        continue\n    raise'),
        ("RuntimeError as error", 'if "memory" in str(error):\n        break\n    raise error'),
    ],
)
def test_a_process_that_goes_on_by_itself(kind: str, handler: str) -> None:
    assert findings(caught(kind, handler)) == ["COLL-EXCEPT"]


@pytest.mark.parametrize(
    ("kind", "handler"),
    [
        ("Exception as error", "print(error)\n    raise"),
        ("RuntimeError", 'raise SystemExit("no memory")'),
        ("RuntimeError", "quit()"),
        ("RuntimeError", "while True:\n        break\n    raise"),
        ("KeyboardInterrupt", "break"),
        ("(KeyboardInterrupt, StopIteration)", "break"),
    ],
)
def test_all_processes_end(kind: str, handler: str) -> None:
    assert findings(caught(kind, handler)) == []


def test_errors_of_what_each_process_does_for_itself() -> None:
    read = "try:\n    number = int(open('a').read())\nexcept OSError:\n    number = 0"
    assert findings(script(before=read)) == []


def test_what_is_printed_of_an_error_is_printed_by_the_process_that_met_it() -> None:
    output = converted(caught("Exception as error", "print(error)\n    raise"))
    assert "            print(error)\n" in output
    read = "try:\n    number = int(open('a').read())\nexcept OSError:\n    print('none')"
    assert any("accelerator.print('none')" in line for line in added(script(before=read)))
