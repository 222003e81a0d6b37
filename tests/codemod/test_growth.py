"""Ten times the script takes ten times the work: of every function that converts, counted in calls, not in seconds."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType

import pytest
from scripts import convert, script

from benchmarks.codemod import make_reports, make_script

_TIMES = 8
_OFTEN = 500  # calls of a function in the large script that are worth a look


def calls(text: str) -> Counter[str]:
    """How often each function of the tool is called to convert a script."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if "accelift_codemod" in frame.f_code.co_filename:
            place = f"{frame.f_code.co_filename}:{frame.f_code.co_name}"
            if event == "call":
                found[place] += 1
            elif event == "c_call":  # what is written in C tells of loops that call nothing else
                found[f"{place} calls {getattr(argument, '__name__', argument)}"] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        result = convert(text)
    finally:
        sys.setprofile(before)
    assert result.output is not None
    return found


def make_loop(lines: int) -> str:
    """A script of about so many lines, nearly all of them in one training loop."""
    numbers = range(lines // 4)
    sums = "\n".join(f"total{n} = 0.0" for n in numbers)
    inside = "\n".join(f"x = x + {n}\ntotal{n} += loss.item()" for n in numbers)
    after = "\n".join(f'print("{n}", total{n} / len(loader))' for n in numbers)
    return script(before=sums, batch_end=inside, epoch_end=after)


@pytest.mark.parametrize(("make", "lines"), [(make_script, 300), (make_reports, 300), (make_loop, 100)])
def test_no_function_is_called_out_of_proportion(make: Callable[[int], str], lines: int) -> None:
    small, large = make(lines), make(lines * _TIMES)
    convert(small)  # what is loaded and worked out once
    grown = large.count("\n") / small.count("\n")
    few, many = calls(small), calls(large)
    out_of_proportion = {
        name: (few[name], number) for name, number in many.items() if number > _OFTEN + 1.25 * grown * few[name]
    }
    assert not out_of_proportion
