"""A device that is one particular GPU, made where it is handed to a function, or where it is used."""

from __future__ import annotations

import pytest
from scripts import TRAINS, converted, findings, script, unchanged

PICK = """\
def try_gpu(i=0):
    if torch.cuda.device_count() >= i + 1:
        return torch.device(f"cuda:{i}")
    return torch.device("cpu")


"""
FIT = f"{PICK}def fit(model, loader, optimizer, device):\n    weight = torch.ones(3).to(device)\n{TRAINS}        pass"


def _script(given: str, **slots: str) -> str:
    empty = dict.fromkeys(("device", "loop", "move", "forward", "backward", "step"), "")
    call = f"fit(model, loader, optimizer, {given})"
    return script(**(empty | {"definitions": FIT, "model": "model = Net()", "epoch": call} | slots))


@pytest.mark.parametrize(
    ("given", "now"),
    [
        ("try_gpu()", "accelerator.device"),
        ("device=try_gpu()", "device=accelerator.device"),
        ('torch.device("cuda:0")', "accelerator.device"),
        ('torch.device("cuda", 0)', "accelerator.device"),
        ('"cuda:0"', "accelerator.device"),
        ('"cuda:0" if torch.cuda.is_available() else "cpu"', "accelerator.device"),
    ],
)
def test_a_gpu_that_a_function_is_given_is_that_of_the_process(given: str, now: str) -> None:
    output = converted(_script(given))
    assert f"fit(model, loader, optimizer, {now})" in output and "torch.ones(3).to(device)" in output
    assert not {"DEV-LEFT", "DEV-INDEX"} & set(findings(_script(given)))


def test_an_object_is_given_it() -> None:
    definitions = "class Fit:\n    def __init__(self, device):\n        self.weight = torch.ones(3).to(device)"
    output = converted(script(definitions=definitions, before='fit = Fit("cuda:0")'))
    assert "fit = Fit(accelerator.device)\n" in output


def test_that_the_number_has_no_effect_is_told() -> None:
    assert findings(_script('"cuda:1"')).count("DEV-INDEX") == 1
    assert "optimizer, accelerator.device)" in converted(_script('"cuda:1"'))


@pytest.mark.parametrize("given", ["try_gpu()", '"cuda:0"'])
def test_the_cpu_is_chosen_as_before(given: str) -> None:
    setup = "import sys\ncpu = len(sys.argv) > 1"
    output = converted(_script(f'"cpu" if cpu else {given}', setup=setup))
    assert "Accelerator(\n    cpu=len(sys.argv) > 1, " in output and "optimizer, accelerator.device" in output


@pytest.mark.parametrize(
    "given",
    ['torch.device("cuda" if torch.cuda.is_available() else "cpu")', '"cuda"'],
)
def test_what_picks_no_gpu_stays(given: str) -> None:
    assert f"fit(model, loader, optimizer, {given})" in converted(_script(given))


def test_a_gpu_where_the_script_may_mean_the_cpu_is_reported() -> None:
    """It is the GPU of the argument whatever the option says."""
    slots = {
        "imports": "import sys",
        "definitions": f"{PICK}def show(device):\n    print(torch.ones(3).to(device))",
        "device": 'device = torch.device("cpu" if len(sys.argv) > 1 else "cuda")',
        "after": "show(try_gpu())",
    }
    assert "show(try_gpu())" in converted(script(**slots))
    assert "DEV-LEFT" in findings(script(**slots))


@pytest.mark.parametrize(
    ("use", "now"),
    [
        ("print(torch.ones(3).to(try_gpu()))", "accelerator.print(torch.ones(3).to(accelerator.device))"),
        ("ones = torch.ones(3, device=try_gpu())", "ones = torch.ones(3, device=accelerator.device)"),
    ],
)
def test_where_a_function_that_picks_a_gpu_is_called(use: str, now: str) -> None:
    assert now in converted(script(definitions=PICK, after=use))


def test_other_functions_are_given_what_they_were() -> None:
    definitions = 'def show(text):\n    print(text)\n\n\ndef kind():\n    return "cuda"'
    lines = 'show("cuda")\nshow("cuda:")\nprint(kind())'
    output = converted(script(definitions=definitions, after=lines))
    assert 'show("cuda")\nshow("cuda:")\naccelerator.print(kind())' in output


def test_a_gpu_that_is_chosen_out_of_the_accelerators_reach() -> None:
    """Once there is an accelerator, the state of the processes has its device."""
    chosen = 'device = "cpu" if cpu else "cuda:0"'
    used = f"def show(cpu):\n    {chosen}\n    return torch.ones(3).to(device)"
    slots = {"imports": "import sys", "setup": "cpu = len(sys.argv) > 1", "definitions": used, "device": chosen}
    late = script(main=True, **slots, after="show(cpu)")
    assert "device = PartialState().device\n    return torch.ones(3)" in converted(late)
    assert "DEV-LEFT" not in findings(late)
    early = script(main=True, **slots).replace("    main()\n", "    show(len(sys.argv) > 1)\n    main()\n")
    assert "PartialState" not in converted(early) and "DEV-LEFT" in findings(early)


def test_what_is_moved_to_nobody_knows_where_in_a_function_that_never_runs() -> None:
    """It says nothing of where the script runs."""
    slots = {"device": "", "model": "model = Net()", "move": ""}
    other = "def other(net, device):\n    return net.to(device)"
    assert "cpu=True" in converted(script(**slots, definitions=other))
    assert unchanged(script(**slots, definitions=other, before="other(model, input())")).code == "DEV-UNKNOWN"


USED = "def use(device):\n    {does}\n    return torch.ones(3).to(device)"


@pytest.mark.parametrize(
    "does",
    [
        'open(f"ones_{device}.txt")',
        'open("ones_" + device)',
        'number = int(device.split(":")[1])',
        "number = device[-1]",
        'first = device == "cuda:0"',
        'some = device == "cuda"',
        "name = device\n    open(name)",
        "other(device)",
    ],
)
def test_a_name_that_is_taken_for_a_text_stays(does: str) -> None:
    """The files, and what is done, are those of one process."""
    definitions = f'def other(name):\n    open("a" + name)\n\n\n{USED.format(does=does)}'
    text = script(definitions=definitions, after='ones = use("cuda:1")')
    assert 'ones = use("cuda:1")\n' in converted(text)
    assert [c for c in findings(text) if c.startswith("DEV-")] == ["DEV-LEFT"]


@pytest.mark.parametrize(
    ("does", "given"),
    [
        ('print(f"on {device}")', "accelerator.device"),
        ('slow = device == "cpu"', "accelerator.device.type"),
        ('fast = device.startswith("cuda")', "accelerator.device.type"),
        ('fast = "cuda" in device', "accelerator.device.type"),
        ("default = device is None", "accelerator.device"),
        ("kept = torch.device(device)", "accelerator.device"),
        ("name = device\n    zeros = torch.zeros(3, device=name)", "accelerator.device"),
    ],
)
def test_a_name_that_is_used_for_a_device_or_shown_is_that_of_the_process(does: str, given: str) -> None:
    text = script(definitions=USED.format(does=does), after='ones = use("cuda:0")')
    assert f"ones = use({given})\n" in converted(text)
    assert not {"DEV-LEFT", "DEV-INDEX"} & set(findings(text))
