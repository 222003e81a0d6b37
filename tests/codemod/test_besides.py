"""ACCELERATOR: functions that choose the device and do more than that are called still."""

from __future__ import annotations

import pytest
from scripts import CREATED, REBOUND, added, converted, creation, findings, lifted, script, unchanged
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


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("CUBLAS_WORKSPACE_CONFIG", False),  # read when cuBLAS first multiplies
        ("PL_GLOBAL_SEED", False),
        ("PYTHONHASHSEED", False),
        ("CUDA_VISIBLE_DEVICES", True),
        ("NCCL_DEBUG", True),
        ("SETTING", True),
    ],
)
def test_a_variable_of_the_environment_that_is_set_after_the_device_is_used(name: str, waits: bool) -> None:
    device = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    seeds = f"def seed_all():\n    os.environ['{name}'] = '1'\n    torch.manual_seed(1)"
    text = script(imports="import os", definitions=seeds, device=f"{device}\nprint(device)\nseed_all()")
    if waits:
        assert unchanged(text).code == "DEV-UNKNOWN"
    else:
        device = f"{REBOUND}\naccelerator.print(device)\nseed_all()"
        assert converted(text) == lifted(imports="import os", definitions=seeds, device=device)


@pytest.mark.parametrize("more", ["torch.manual_seed(3)", 'print("choosing")'])
def test_what_may_be_done_or_not_is_asked_as_before(more: str) -> None:
    choice = 'choose() if args.gpu else torch.device("cpu")'
    option = '"--gpu", action="store_true"'
    broken = "(\n    " + choice.replace(" else", "\n    else") + "\n)"
    for device in (choice, broken):
        text = with_options(f"device = {device}", option, definitions=GET.format(more))
        assert creation(text) == f"Accelerator(cpu=not args.gpu, {SPLIT})"
        assert choice in " ".join(line.strip() for line in added(text))
    quiet = with_options(f"device = {choice}", option, definitions=GET.format("pass"))
    assert choice not in " ".join(added(quiet))


@pytest.mark.parametrize(("more", "kept"), [("torch.manual_seed(3)", True), ('print("choosing")', False)])
def test_what_one_of_two_statements_does_can_only_be_left_out_if_it_shows_something(more: str, kept: bool) -> None:
    device = 'if args.gpu:\n    device = choose()\nelse:\n    device = torch.device("cpu")'
    text = with_options(device, '"--gpu", action="store_true"', definitions=GET.format(more))
    if kept:
        assert unchanged(text).code == "DEV-UNKNOWN"
    else:
        assert creation(text) == f"Accelerator(cpu=not args.gpu, {SPLIT})"


def test_two_names_of_one_choice() -> None:
    text = script(definitions=GET.format("torch.manual_seed(3)"), device="device = place = choose()")
    assert added(text).count("choose()") == 1 and "device = place = accelerator.device" in added(text)
    text = script(definitions=GET.format("pass"), device="device = place = choose()")
    assert "choose()" not in added(text)


PICK = """\
def pick(name="cuda"):
{}
    return torch.device(name if torch.cuda.is_available() else "cpu")
"""


def test_what_functions_do_that_it_calls() -> None:
    said = "def say():\n    print('x')\n\n\n" + PICK.format("    say()")
    quiet = "def say():\n    return 'x'\n\n\n" + PICK.format("    name = name or say()\n    name = 'cuda'")
    assert "pick()" in added(script(definitions=said, device="device = pick()"))
    assert "pick()" not in "".join(added(script(definitions=quiet, device="device = pick()")))


def test_moves_to_what_it_answers_stay() -> None:
    slots = {"device": "", "model": "model = Net().to(pick())", "move": "x, y = x.to(pick()), y.to(pick())"}
    text = converted(script(definitions=PICK.format("    print('device')"), **slots))
    assert "model = Net().to(pick())" in text and "x, y = x.to(pick()), y.to(pick())" in text
    text = converted(script(definitions=PICK.format("    pass"), **slots))
    assert ".to(pick())" not in text


def test_a_seed_is_no_number_of_a_gpu() -> None:
    def told(body: str) -> list[str]:
        options = (
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int)\nargs = p.parse_args()"
        )
        made = f"def pick(n):\n    {body}\n    return torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
        return findings(script(definitions=f"{options}\n\n\n{made}", device="device = pick(args.n)"))

    assert told("torch.manual_seed(n)") == []
    assert told("if n:\n        return torch.device(f'cuda:{n}')") == ["DEV-INDEX"]


TRAINER = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, loader):
        {chosen}
        self.model = model.to(self.device)
        self.loader = loader
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def choose(self):
        torch.backends.cudnn.benchmark = True
        {choice}

    def train(self):
        for x, y in self.loader:
            loss = nn.functional.mse_loss(self.model(x.to(self.device)), y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


loader = DataLoader(TensorDataset(torch.zeros(64, 8), torch.zeros(64, 2)), batch_size=8)
print(len(loader))
trainer = Trainer(nn.Linear(8, 2), loader)
print(trainer.device)
trainer.train()
"""
DEVICE = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'


@pytest.mark.parametrize(
    ("chosen", "given"),
    [
        ("self.device = self.choose()", "device"),
        ("self.device, self.gpus = self.choose()", "device, [0]"),
    ],
)
def test_a_device_stays_that_a_method_returns_which_has_the_accelerators(chosen: str, given: str) -> None:
    output = converted(TRAINER.format(chosen=chosen, choice=f"device = {DEVICE}\n        return {given}"))
    assert f"        {chosen}\n        self.model = model\n" in output
    assert f"        device = accelerator.device\n        return {given}\n" in output


def test_a_device_that_a_method_makes_where_it_returns_it_is_bound_anew() -> None:
    output = converted(TRAINER.format(chosen="self.device = self.choose()", choice=f"return {DEVICE}"))
    assert "        self.choose()\n        self.device = accelerator.device\n" in output
