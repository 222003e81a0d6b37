"""Seeds that the command line gives, and what a script does where it gives none."""

from __future__ import annotations

import pytest
from scripts import convert, findings, script

RANDOM = "data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))"
OPTION = "parser = argparse.ArgumentParser()\nparser.add_argument('--seed'{})\nargs = parser.parse_args()\n"
FILLED = "if args.seed is None:\n    args.seed = random.randint(1, 10000)\ntorch.manual_seed(args.seed)"


def messages(text: str) -> list[str]:
    return [found.message for found in convert(text).plan.findings]


def seeded_by(option: str, seeding: str = FILLED) -> str:
    return script(imports="import argparse\nimport random", setup=OPTION.format(option) + seeding, data=RANDOM)


@pytest.mark.parametrize("option", [", type=int, default=0", ", default=7, type=int", ", default='3'"])
def test_an_option_that_is_never_none_is_not_drawn(option: str) -> None:
    assert "DATA-UNSEEDED" not in findings(seeded_by(option))


@pytest.mark.parametrize(
    "seeding",
    [
        FILLED,
        "if args.seed == None:\n    args.seed = random.randint(1, 10000)\ntorch.manual_seed(args.seed)",
        "seed = args.seed\nif args.seed is None:\n    seed = random.randint(1, 10000)\ntorch.manual_seed(seed)",
    ],
)
def test_what_is_only_done_for_none_is_not_done(seeding: str) -> None:
    assert "DATA-UNSEEDED" not in findings(seeded_by(", type=int, default=0", seeding))


@pytest.mark.parametrize(
    "option",
    [
        ", type=int",
        ", type=int, default=None",
        ", type=int, default=0, nargs='?'",  # `--seed` alone is None
        ", type=parse, default=0",
        ", type=int, default=default",
    ],
)
def test_an_option_that_may_be_none_is_drawn_by_every_process(option: str) -> None:
    text = seeded_by(option).replace("parser = ", "from settings import default, parse\nparser = ", 1)
    assert "DATA-UNSEEDED" in findings(text)


@pytest.mark.parametrize(
    "otherwise",
    [
        "args.seed = load()\n",
        "vars(args).update(load())\n",
        "setattr(args, name, None)\n",
        "parser.set_defaults(seed=None)\n",
        "parser.add_argument('--sd', dest='seed')\n",
    ],
)
def test_options_that_are_set_otherwise_may_be_none(otherwise: str) -> None:
    text = seeded_by(", type=int, default=0", otherwise + FILLED)
    assert "DATA-UNSEEDED" in findings(text)


@pytest.mark.parametrize(
    "seeding",
    [
        "if args.seed is not None:\n    args.seed = random.randint(1, 10000)\ntorch.manual_seed(args.seed)",
        "if args.seed is None:\n    pass\nelse:\n    args.seed = random.random()\ntorch.manual_seed(args.seed)",
        # set to None where it is none
        "if args.seed is None:\n    pass\nelse:\n    args.seed = None\nseed = 0\nif args.seed is None:\n"
        "    seed = random.randint(1, 10000)\ntorch.manual_seed(seed)",
        "if args.seed == 0:\n    args.seed = random.randint(1, 10000)\ntorch.manual_seed(args.seed)",
    ],
)
def test_other_tests_than_for_none_may_hold(seeding: str) -> None:
    assert "DATA-UNSEEDED" in findings(seeded_by(", type=int, default=0", seeding))


def test_the_option_that_would_seed_is_named() -> None:
    (told,) = [m for m in messages(seeded_by(", type=int")) if m.startswith("the data set is made of")]
    assert told.startswith("the data set is made of random numbers without a seed unless `args.seed` is given: ")
    (told,) = [m for m in messages(seeded_by("", "torch.manual_seed(args.seed)")) if m.startswith("the data set is")]
    assert "without a seed unless `args.seed` is given: " in told


def test_a_seed_that_is_drawn_is_named() -> None:
    text = script(imports="import random", setup="torch.manual_seed(random.randint(1, 10000))", data=RANDOM)
    (told,) = [m for m in messages(text) if m.startswith("the data set is made of")]
    assert told.startswith("the data set is made of random numbers by a seed that each process draws for itself: ")
    remedies = {finding.remedy for finding in convert(text).plan.findings if finding.message == told}  # type: ignore[union-attr]
    assert remedies == {"seed it by a number that is the same on every process"}


@pytest.mark.parametrize(
    ("seeding", "told"),
    [
        ("torch.manual_seed(1)", True),
        ("seed = args.seed\nif seed is None:\n    seed = random.randint(1, 9)\ntorch.manual_seed(seed)", True),
        (FILLED, True),
        ("seed = random.randint(1, 9) if args.seed is None else args.seed\ntorch.manual_seed(seed)", True),
        ("args.seed = random.randint(1, 9)\ntorch.manual_seed(args.seed)", False),
        ("import time\nseed = int(time.time())\ntorch.manual_seed(seed)", False),
        ("torch.manual_seed(random.randint(1, 9))", False),
    ],
)
def test_by_a_seed_that_each_process_draws_dropout_is_not_the_same(seeding: str, told: bool) -> None:
    imports = "import argparse\nimport random"
    model = "model = nn.Sequential(nn.Linear(8, 3), nn.Dropout(0.5)).to(device)"
    text = script(imports=imports, setup=OPTION.format(", type=int") + seeding, model=model)
    assert ("RNG-SAMENOISE" in findings(text)) is told
