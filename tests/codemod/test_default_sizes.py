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
OPTION = """
scale = int(os.environ.get("SCALE", "1"))
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=16)
args = parser.parse_args()
"""


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


@pytest.mark.parametrize(
    ("sizes", "one"),
    [
        (("args.batch", "1"), False),
        (("16 * scale", "1"), False),
        (("1", "args.batch"), True),
        (("1", "1"), True),
    ],
)
def test_a_function_that_makes_loaders_of_several_sizes(sizes: tuple[str, str], one: bool) -> None:
    """A loader has the size that its own call gives, even if only that of another one is known."""
    made = "def make(data, size=4):\n    n = size\n    return DataLoader(data, batch_size=n, shuffle=True)\n"
    loader = "loader = make(data, {})\nfor sample in make(data, {}):\n    print(len(sample))".format(*sizes)
    forward = "optimizer.zero_grad()\nout = model(x)\nloss = (out - out.mean(0)).pow(2).sum()"
    slots = {
        "imports": "import argparse\nimport os",
        "setup": OPTION,
        "loader": loader,
        "definitions": made,
        "forward": forward,
    }
    codes = findings(script(**slots))
    assert ("BATCH-ONE" in codes) is one
    assert any(code.startswith("LOSS-") for code in codes) is not one
