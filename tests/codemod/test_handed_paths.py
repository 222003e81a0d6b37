"""READBACK: functions of the script read the files whose names they are handed."""

from __future__ import annotations

import itertools

import pytest
from scripts import converted, findings, script

WAIT = "accelerator.wait_for_everyone()"
WRITE = """\
def write(rows, path):
    with open(path, "w") as file:
        file.write(str(rows))
"""
READ = """\
def read(path):
    with open(path) as file:
        return file.read()
"""


def waits(calls: str, *functions: str) -> list[str]:
    """The lines after which every process waits."""
    text = converted(script(imports="import json", definitions="\n\n".join((WRITE, *functions)), setup=calls))
    rows = [line.strip() for line in text.splitlines()]
    return [after for line, after in itertools.pairwise(rows) if line == WAIT]


@pytest.mark.parametrize(
    ("functions", "calls", "expected"),
    [
        ([READ], 'write([1], "a.txt")\nrows = read("a.txt")', ['rows = read("a.txt")']),
        ([READ], 'name = "a.txt"\nwrite([1], name)\nn = 1\nrows = read(path=name)', ["rows = read(path=name)"]),
        ([READ, "def load(name):\n    return read(name)"], 'write([1], "a")\nrows = load("a")', ['rows = load("a")']),
        (
            ["def read(path):\n    return json.load(open(path))"],
            'write(1, "a")\nrows = read("a")',
            ['rows = read("a")'],
        ),
    ],
)
def test_a_function_that_is_handed_the_name_reads_it(functions: list[str], calls: str, expected: list[str]) -> None:
    assert waits(calls, *functions) == expected
    assert findings(script(imports="import json", definitions="\n\n".join((WRITE, *functions)), setup=calls)) == []


@pytest.mark.parametrize(
    ("functions", "calls"),
    [
        ([READ], 'write([1], "a.txt")\nrows = read("b.txt")'),  # another file
        ([READ], 'rows = read("a.txt")'),  # which nothing here has written
        (["def read(path):\n    return path.upper()"], 'write([1], "a")\nrows = read("a")'),  # the name alone
        (["def read(path):\n    path = 'b'\n    return open(path).read()"], 'write([1], "a")\nrows = read("a")'),
        (["def read(path):\n    return read(path)"], 'write([1], "a")\nrows = read("a")'),
        ([READ], 'write([1], "a")\nif torch.rand(1) < 0.5:\n    rows = read("a")'),  # not all may come to it
    ],
)
def test_nobody_waits_for_what_is_not_read_for_certain(functions: list[str], calls: str) -> None:
    assert waits(calls, *functions) == []


def test_what_every_process_writes_in_turn_has_been_written_by_all() -> None:
    fetch = "def fetch(path):\n    rows = load_dataset('x')\n    write(rows, path)"
    text = converted(
        script(
            imports="from datasets import load_dataset",
            definitions="\n\n".join((WRITE, READ, fetch)),
            setup='fetch("a")\nrows = read("a")',
        )
    )
    assert f'with accelerator.main_process_first():\n    fetch("a")\n{WAIT}\nrows = read("a")' in text
