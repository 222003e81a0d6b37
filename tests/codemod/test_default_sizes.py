"""BATCH-ONE where the batch size is an option of the command line that is one by default."""

from __future__ import annotations

import pytest
from scripts import convert, findings, script

LOADER = "loader = DataLoader(data, batch_size=args.batch, shuffle=True)"
MADE = """
def make(data, size):
    return DataLoader(data, batch_size=size, shuffle=True)
"""


def parsed(option: str, more: str = "", loader: str = LOADER, definitions: str = "") -> str:
    setup = f"parser = argparse.ArgumentParser()\nparser.add_argument({option})\nargs = parser.parse_args()\n{more}"
    return script(imports="import argparse", setup=setup, loader=loader, definitions=definitions)


ONE = '"--batch", type=int, default=1'


@pytest.mark.parametrize(
    ("option", "loader"),
    [
        (ONE, LOADER),
        ('"-b", "--batch", type=int, default=1, help="samples"', "loader = DataLoader(data, args.batch)"),
        ('"--size", dest="batch", type=int, default=1', LOADER),
        (ONE, "size = args.batch\nloader = DataLoader(data, size)"),
        (ONE, "loader = make(data, args.batch)"),
        (ONE, "print(vars(args))\nloader = make(data, size=args.batch)"),
    ],
)
def test_an_option_that_is_one_by_default(option: str, loader: str) -> None:
    text = parsed(option, loader=loader, definitions=MADE)
    assert findings(text) == ["BATCH-ONE"]
    plan = convert(text).plan
    assert plan is not None
    assert [f.severity.name for f in plan.findings] == ["NOTE"]


@pytest.mark.parametrize(
    ("option", "more", "loader"),
    [
        ('"--batch", type=int, default=16', "", LOADER),
        ('"--batch", type=int', "", LOADER),
        ('"--batch", type=int, required=True', "", LOADER),
        ('"--batch", type=float, default=1', "", LOADER),
        ('"--batch", type=int, nargs="+", default=1', "", LOADER),
        ('"--batch", type=int, default=True', "", LOADER),
        (ONE, "args.batch = 16", LOADER),
        (ONE, "args.batch *= 8", LOADER),
        (ONE, "setattr(args, 'batch', 16)", LOADER),
        (ONE, "vars(args).update(batch=16)", LOADER),
        (ONE, "args.__dict__['batch'] = 16", LOADER),
        ('"--batch", type=int, default=1)\nparser.set_defaults(batch=16', "", LOADER),
        (ONE, "", "loader = DataLoader(data, batch_size=8 * args.batch)"),
        (ONE, "", "size = args.batch\nif size < 2:\n    size = 16\nloader = DataLoader(data, size)"),
    ],
)
def test_options_that_may_be_other_numbers(option: str, more: str, loader: str) -> None:
    assert "BATCH-ONE" not in findings(parsed(option, more, loader))
