"""Devices in an object that a function gives back, and devices that a function is handed and may set again."""

from __future__ import annotations

import pytest
from scripts import TRAINS, converted, script, unchanged

PARSED = """\
def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
{chosen}
    return args
"""
MISSING = '    if not torch.cuda.is_available():\n        args.device = "cpu"'
MADE = '    args.device = torch.device(args.device if torch.cuda.is_available() else "cpu")'
NO_LOOP = dict.fromkeys(("device", "epochs", "loop", "move", "forward", "backward", "step"), "")
SPLIT = "dataloader_config=DataLoaderConfiguration(split_batches=True)"


def whole(chosen: str, definitions: str = PARSED, **slots: str) -> str:
    text = script(
        imports="import argparse",
        definitions=definitions.format(chosen=chosen),
        **{"setup": "args = get_args()", "device": "", "model": "model = Net().to(args.device)", **slots},
    )
    return text.replace("to(device)", "to(args.device)")


def creation(text: str) -> str:
    """How the accelerator is made, on one line."""
    text = converted(text)
    made = " ".join(text[text.index("accelerator = ") :].split("\n\n")[0].split())
    return made[: made.index(SPLIT)].replace("Accelerator( ", "Accelerator(").removeprefix("accelerator = ")


def test_a_device_that_is_set_where_there_is_no_gpu() -> None:
    after = converted(whole(MISSING))
    assert creation(whole(MISSING)) == 'Accelerator(cpu=torch.device(args.device).type == "cpu", '
    assert after.index("args = get_args()") < after.index("accelerator = Accelerator(") < after.index("model = Net()\n")
    assert "x.to(args.device)" not in after and MISSING in after


def test_a_device_that_is_made_of_what_the_command_line_says() -> None:
    assert creation(whole(MADE)) == 'Accelerator(cpu=args.device.type == "cpu", '
    assert MADE in converted(whole(MADE))


LATER = f"""\
def run(args):
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = Net().to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{TRAINS}"""


def test_a_function_that_is_handed_the_object() -> None:
    slots = {**NO_LOOP, "setup": "", "loader": "", "model": "", "optimizer": ""}
    text = whole(MADE, f"{PARSED}\n\n{LATER}", after="run(get_args())", **slots)
    assert creation(text) == 'Accelerator(cpu=args.device.type == "cpu", '


@pytest.mark.parametrize(
    ("chosen", "slots"),
    [
        (MISSING, {"setup": "args = get_args()\nargs.device = input()"}),  # it is another one then
        (MISSING, {"setup": "args = get_args()\nargs = get_args()"}),
        (MISSING, {"setup": "args = get_args()\nsetattr(args, 'device', input())"}),
        (f"{MISSING}\n    args = parser.parse_args()", {}),
        (f"{MISSING}\n    if args.lr > 1:\n        return None", {}),
    ],
)
def test_what_the_function_gives_back_is_not_known(chosen: str, slots: dict[str, str]) -> None:
    assert unchanged(whole(chosen, **slots)).code == "DEV-UNKNOWN"


def test_one_gpu_of_several_would_stay_in_it() -> None:
    assert unchanged(whole(MISSING).replace('default="cuda"', 'default="cuda:0"')).code == "DEV-UNKNOWN"


RUN = """\
def run(device):
{again}
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
PARSER = """\
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--cpu", action="store_true")
args = parser.parse_args()
"""


def handed(again: str, argument: str = "args.device") -> str:
    return script(
        imports="import argparse",
        definitions=f"{RUN.format(again=again)}{TRAINS}",
        **{**NO_LOOP, "model": "", "optimizer": "", "setup": PARSER, "after": f"run({argument})"},
    )


@pytest.mark.parametrize(
    ("again", "argument", "cpu"),
    [
        ('    if not torch.cuda.is_available():\n        device = "cpu"', "args.device", 'args.device == "cpu"'),
        (
            '    if args.cpu:\n        device = "cpu"',
            "args.device",
            'args.cpu or (not args.cpu and args.device == "cpu")',
        ),
        ('    if args.cpu:\n        device = "cpu"', '"cuda"', "args.cpu"),
    ],
)
def test_a_device_that_is_handed_in_and_set_again(again: str, argument: str, cpu: str) -> None:
    assert creation(handed(again, argument)) == f"Accelerator(cpu={cpu}, "


@pytest.mark.parametrize(
    ("again", "argument"),
    [
        ("    if args.cpu:\n        device = input()", "args.device"),
        ('    if len(input()) > 3:\n        device = "cpu"', "args.device"),
        ('    if args.cpu:\n        device = "cpu"', "input()"),
        ('    while input():\n        device = "cpu"', "args.device"),
    ],
)
def test_a_device_that_cannot_be_told(again: str, argument: str) -> None:
    assert unchanged(handed(again, argument)).code == "DEV-UNKNOWN"
