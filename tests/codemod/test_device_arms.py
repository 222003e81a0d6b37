"""ACCELERATOR: when a script means the CPU that chooses its device under conditions, and not in any case."""

from __future__ import annotations

import pytest
from scripts import creation, unchanged
from test_create import SPLIT, with_options

ARMS = """\
{}if args.train:
    device = {}
elif args.test:
    device = {}"""
EITHER = "torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
OPTIONS = '"--train", action="store_true")\nparser.add_argument("--test", action="store_true"'


@pytest.mark.parametrize(
    ("first", "second", "cpu"),
    [
        (EITHER, EITHER, ""),
        (EITHER, '"cpu"', "cpu=not args.train, "),
        ('"cpu"', EITHER, "cpu=args.train, "),
    ],
)
def test_a_device_that_is_not_chosen_where_nothing_reads_it(first: str, second: str, cpu: str) -> None:
    assert creation(with_options(ARMS.format("", first, second), OPTIONS)) == f"Accelerator({cpu}{SPLIT})"


def test_a_device_that_may_be_none() -> None:
    text = with_options(ARMS.format("device = None\n", EITHER, EITHER), OPTIONS)
    assert creation(text) == f"Accelerator(cpu=device.type == 'cpu', {SPLIT})"


def test_a_device_that_may_be_another_in_neither_arm() -> None:
    before = "for device in (None, 'cpu'):\n    print(device)\n"
    assert unchanged(with_options(ARMS.format(before, EITHER, EITHER), OPTIONS)).code == "DEV-UNKNOWN"
