"""ACCELERATOR: functions that choose the device and do more than that are called still."""

from __future__ import annotations

import pytest
from scripts import CREATED, REBOUND, converted, creation, lifted, script, unchanged
from test_create import SPLIT, with_options

GET = 'def choose():\n    {}\n    return torch.device("cuda" if torch.cuda.is_available() else "cpu")'
NOISE = "noise = torch.zeros(3, device=device)"


@pytest.mark.parametrize(
    "more",
    [
        "torch.manual_seed(3)",
        "torch.backends.cudnn.benchmark = True",
        "global chosen\n    chosen = True",
        "if torch.cuda.is_available():\n        torch.backends.cudnn.benchmark = True",
        "seeded = torch.manual_seed(3)",
    ],
)
def test_what_a_function_does_besides_choosing_is_still_done(more: str) -> None:
    text = script(definitions=GET.format(more), device="device = choose()")
    assert converted(text) == lifted(definitions=GET.format(more), device=f"{CREATED}\nchoose()")


def test_what_a_function_shows_is_still_shown() -> None:
    text = script(definitions=GET.format('print("choosing")'), device="device = choose()", after="print(device)")
    choose = GET.format('accelerator.print("choosing")')
    device = f"{CREATED}\nchoose()\ndevice = accelerator.device"
    assert converted(text) == lifted(definitions=choose, device=device, after="accelerator.print(device)")


@pytest.mark.parametrize(
    "more",
    [
        '"""The device."""',
        'if not torch.cuda.is_available():\n        raise RuntimeError("no GPU")',
        "count = torch.cuda.device_count()",
        "import os",
    ],
)
def test_a_function_that_only_chooses_is_called_no_more(more: str) -> None:
    text = script(definitions=GET.format(more), device="device = choose()", after=NOISE)
    assert converted(text) == lifted(definitions=GET.format(more), device=REBOUND, after=NOISE)


def test_what_sets_the_environment_comes_before_the_accelerator() -> None:
    choose = GET.format('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"')
    text = script(imports="import os", definitions=choose, device="device = choose()", after=NOISE)
    expected = lifted(imports="import os", definitions=choose, device=f"choose()\n{REBOUND}", after=NOISE)
    assert converted(text) == expected


@pytest.mark.parametrize(("more", "kept"), [("torch.manual_seed(3)", True), ('print("choosing")', False)])
def test_what_may_be_done_or_not_is_only_left_out_if_it_shows_something(more: str, kept: bool) -> None:
    device = 'device = choose() if args.gpu else torch.device("cpu")'
    text = with_options(device, '"--gpu", action="store_true"', definitions=GET.format(more))
    if kept:
        assert unchanged(text).code == "DEV-UNKNOWN"
    else:
        assert creation(text) == f"Accelerator(cpu=not args.gpu, {SPLIT})"
