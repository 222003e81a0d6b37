"""ACCELERATOR: made where the script chose its device, for the CPU when the script meant the CPU."""

from __future__ import annotations

import ast

import pytest
from scripts import CREATED, REBOUND, added, converted, creation, findings, lifted, removed, script, unchanged

SPLIT = "dataloader_config=DataLoaderConfiguration(split_batches=True)"


def parsed(*options: str) -> str:
    """The statements that read command-line options."""
    lines = ["parser = argparse.ArgumentParser()", *(f"parser.add_argument({o})" for o in options)]
    return "\n".join([*lines, "args = parser.parse_args()"])


def with_options(device: str, *options: str, **slots: str) -> str:
    """A script with command-line options."""
    return script(imports="import argparse", setup=parsed(*options), device=device, **slots)


# ---- in place of the device


@pytest.mark.parametrize(
    "device",
    [
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
        'device = "cuda" if torch.cuda.is_available() else "cpu"',
        'device = "cuda:0" if torch.cuda.device_count() > 0 else "cpu"',
        'device = torch.device("cuda")',
        'use_cuda = torch.cuda.is_available()\ndevice = torch.device("cuda" if use_cuda else "cpu")',
        'if torch.cuda.is_available():\n    device = torch.device("cuda")\nelse:\n    device = torch.device("cpu")',
        'if torch.cuda.is_available():\n    device = "cuda"\nelif torch.backends.mps.is_available():\n'
        '    device = "mps"\nelse:\n    device = "cpu"',
        'device = "cpu"\nif torch.cuda.is_available():\n    device = "cuda"',
        'device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")',
        'device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"',
        "import peft.utils\ndevice = peft.utils.infer_device()",
    ],
)
def test_the_device_becomes_the_accelerator(device: str) -> None:
    assert converted(script(device=device)) == lifted()
    assert findings(script(device=device)) == []


def test_in_main_it_is_laid_out_as_black_does() -> None:
    assert converted(script(main=True)) == lifted(main=True)


def test_without_a_device_variable_it_stands_before_what_trains() -> None:
    before = script(device="", model="model = Net().cuda()", move="x, y = x.cuda(), y.cuda()")
    assert converted(before) == lifted(device="", model=f"{CREATED}\nmodel = Net()")


def test_something_that_needs_it_earlier_brings_it_forward() -> None:
    before = script(setup='print("start")', device="n = 3", model="model = Net().cuda()", move="")
    assert converted(before) == lifted(setup=CREATED, device='accelerator.print("start")\nn = 3', model="model = Net()")


READ_LATER = parsed('"--rate", type=float, default=0.1') + "\nrate = args.rate"


@pytest.mark.parametrize("use", ["noise = torch.zeros(3, device=device)", "print(device)"])
def test_a_device_that_is_used_before_the_command_line_is_read_is_not_waited_for(use: str) -> None:
    device = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    text = script(imports="import argparse", device=f"{device}\n{use}\n{READ_LATER}")
    before = f"{REBOUND}\n{use.replace('print', 'accelerator.print')}\n{READ_LATER}"
    assert converted(text) == lifted(imports="import argparse", device=before)


@pytest.mark.parametrize(("use", "waits"), [("", True), ("noise = torch.zeros(3, device=device)", False)])
def test_a_device_that_nobody_uses_before_the_command_line_is_read_waits(use: str, waits: bool) -> None:
    """Who asks for help starts nothing."""
    device = f'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n{use}\n{READ_LATER}'
    output = converted(script(imports="import argparse", device=device, after="more = torch.zeros(3, device=device)"))
    assert (output.index("parse_args()") < output.index("accelerator = ")) is waits


def test_a_flag_for_the_cpu_that_is_read_after_the_device_is_used_is_not_guessed() -> None:
    options = parsed('"--cpu", action="store_true"')
    device = f'device = torch.device("cuda")\nnoise = torch.zeros(3, device=device)\n{options}\nif args.cpu:\n'
    text = script(imports="import argparse", device=f'{device}    device = torch.device("cpu")')
    assert unchanged(text).code == "DEV-UNKNOWN"


def test_a_name_that_the_script_uses_is_not_taken() -> None:
    after = converted(script(setup="accelerator = 9.81"))
    assert "accelerator = 9.81\naccel = Accelerator(" in after
    assert "accel.backward(loss)" in after and "model, optimizer, loader = accel.prepare(" in after


def test_a_function_of_that_name_is_not_shadowed() -> None:
    after = converted(script(definitions="def accelerator():\n    return 9.81"))
    assert "accel = Accelerator(" in after and "def accelerator():" in after


@pytest.mark.parametrize("variable", ["dev", "DEVICE", "where"])
def test_the_device_may_have_any_name(variable: str) -> None:
    before = script(
        device=f'{variable} = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
        model=f"model = Net().to({variable})",
        move=f"x, y = x.to({variable}), y.to({variable})",
    )
    assert converted(before) == lifted()


def test_a_variable_named_device_that_is_none_stays() -> None:
    slots = {"before": 'devices = ["phone", "watch"]\nfor device_name in devices:\n    size = len(device_name)'}
    assert converted(script(**slots)) == lifted(**slots)


# ---- flags


@pytest.mark.parametrize(
    ("option", "test", "cpu"),
    [
        ('"--no-cuda", action="store_true"', "not args.no_cuda and torch.cuda.is_available()", "args.no_cuda"),
        ('"--cpu", action="store_true"', "torch.cuda.is_available() and not args.cpu", "args.cpu"),
        ('"--cuda", action="store_true"', "args.cuda and torch.cuda.is_available()", "not args.cuda"),
        # switched off by being given: only what the flag does to the device counts
        ('"--cuda", action="store_false"', "args.cuda and torch.cuda.is_available()", "not args.cuda"),
        ('"--no-cuda", dest="cuda", action="store_false"', "args.cuda is True", "not args.cuda"),
        ('"--no-cuda", action="store_false"', "args.no_cuda and torch.cuda.is_available()", "not args.no_cuda"),
        ('"--device-kind", default="x"', 'args.device_kind == "x"', "args.device_kind != 'x'"),
    ],
)
def test_a_flag_that_kept_the_script_on_the_cpu_still_does(option: str, test: str, cpu: str) -> None:
    before = with_options(f'use_cuda = {test}\ndevice = torch.device("cuda" if use_cuda else "cpu")', option)
    assert creation(before) == f"Accelerator(cpu={cpu}, {SPLIT})"


@pytest.mark.parametrize(
    ("device", "cpu"),
    [
        ('device = torch.device(args.gpu if args.gpu >= 0 else "cpu")', "args.gpu < 0"),
        ('if args.gpu == -1:\n    device = "cpu"\nelse:\n    device = torch.device(args.gpu)', "args.gpu == -1"),
    ],
)
def test_the_number_of_a_gpu_or_none(device: str, cpu: str) -> None:
    text = with_options(device, '"--gpu", type=int, default=-1')
    assert creation(text) == ast.unparse(ast.parse(f"Accelerator(cpu={cpu}, {SPLIT})").body[0])
    asked = creation(with_options(device, '"--gpu", default="x"'))  # of a word, this is no question
    assert "device" in asked and asked.endswith(f".type == 'cpu', {SPLIT})")


def test_a_device_kept_by_an_object_is_that_which_it_is_handed() -> None:
    trainer = "class Box:\n    def __init__(self, device):\n        self.device = device"
    definitions = f"{trainer}\n\n    def fit(self, x, y):\n        F.cross_entropy(model(x), y).backward()"
    slots = {"definitions": definitions, "forward": "", "backward": "optimizer.zero_grad()\nbox.fit(x, y)"}
    for device, cpu in (("cpu", "cpu=True, "), ("cuda", "")):
        text = script(**slots, device=f"device = '{device}'", model="model = Net().to(device)\nbox = Box(device)")
        assert creation(text) == f"Accelerator({cpu}{SPLIT})"
    apart = "model = Net().to(device)\nbox = Box('cuda')\nbox = Box('cpu')"
    text = script(**slots, device="device = 'cuda'", model=apart)
    assert creation(text) == f"Accelerator({SPLIT})"
    assert apart.removeprefix("model = Net().to(device)") in converted(text)  # one device, then another: they stay


def test_an_option_that_is_one_gpu_by_default() -> None:
    """What it says besides the CPU is not asked any more: every process has its own."""
    text = with_options(
        "",
        '"--device", default="cuda:0"',
        model="model = Net().to(args.device)",
        move="x, y = x.to(args.device), y.to(args.device)",
        before="start = torch.zeros(3).to(args.device)\nother = torch.zeros(3, device=args.device)",
    )
    output = converted(text)
    assert "start = torch.zeros(3).to(accelerator.device)\n" in output
    assert "other = torch.zeros(3, device=accelerator.device)\n" in output
    assert creation(text) == f"Accelerator(cpu=args.device == 'cpu', {SPLIT})"


@pytest.mark.parametrize("again", ["", "args.cuda = args.cuda and len(data) > 3"])
def test_an_option_under_another_name(again: str) -> None:
    guarded = "cuda = args.cuda\nif cuda:\n    model.cuda()"
    slots = {"imports": "import argparse", "setup": parsed('"--cuda", action="store_true"'), "device": again}
    text = script(**slots, model="model = Net()", before=guarded, move="if args.cuda:\n    x, y = x.cuda(), y.cuda()")
    if again:
        assert unchanged(text).code == "DEV-UNKNOWN"
    else:
        assert creation(text) == f"Accelerator(cpu=not args.cuda, {SPLIT})"


def test_the_whole_script_with_a_flag() -> None:
    flag = '"--no-cuda", action="store_true"'
    device = 'use_cuda = not args.no_cuda and torch.cuda.is_available()\ndevice = "cuda" if use_cuda else "cpu"'
    made = f"accelerator = Accelerator(\n    cpu=args.no_cuda, {SPLIT}\n)"
    assert converted(with_options(device, flag)) == lifted(imports="import argparse", setup=parsed(flag), device=made)


@pytest.mark.parametrize(
    ("device", "cpu"),
    [
        ('device = torch.device("cpu" if args.cpu else "cuda")', "args.cpu"),
        ('device = torch.device("cuda" if not args.cpu else "cpu")', "args.cpu"),
        ('device = torch.device("cpu" if args.cpu or args.debug else "cuda")', "args.cpu or args.debug"),
        ('if args.cpu:\n    device = "cpu"\nelse:\n    device = "cuda"', "args.cpu"),
        ('device = "cpu"\nif not args.cpu and torch.cuda.is_available():\n    device = "cuda"', "args.cpu"),
    ],
)
def test_flags_are_read_from_any_kind_of_choice(device: str, cpu: str) -> None:
    flags = ('"--cpu", action="store_true"', '"--debug", action="store_true"')
    assert creation(with_options(device, *flags)) == f"Accelerator(cpu={cpu}, {SPLIT})"


def test_a_device_given_by_name_is_asked_for_the_cpu() -> None:
    before = with_options("device = torch.device(args.device)", '"--device", default="cuda"')
    assert creation(before) == f"Accelerator(cpu=args.device == 'cpu', {SPLIT})"


BY_OPTION = {"model": "model = Net().to(args.device)", "move": "x, y = x.to(args.device), y.to(args.device)"}


@pytest.mark.parametrize("chosen", ["args.device", 'args.device if torch.cuda.is_available() else "cpu"'])
@pytest.mark.parametrize("default", ["cpu", "cuda"])
def test_an_option_that_is_set_to_the_device_that_it_names(chosen: str, default: str) -> None:
    option = f'"--device", default="{default}"'
    before = with_options(f"args.device = torch.device({chosen})", option, **BY_OPTION)
    created = f"accelerator = Accelerator(\n    cpu=args.device == 'cpu',\n    {SPLIT},\n)".replace("'", '"')
    device = f"{created}\nargs.device = accelerator.device"
    assert converted(before) == lifted(imports="import argparse", setup=parsed(option), device=device)


def test_an_option_that_is_set_several_times_is_asked_for_after_that() -> None:
    device = (
        "args.device = torch.device(args.device)\nif len(args.device.type) > 4:\n    args.device = other(args.device)"
    )
    definitions = "def other(device):\n    return device"
    before = with_options(device, '"--device", default="cpu"', definitions=definitions, **BY_OPTION)
    assert creation(before) == f"Accelerator(cpu=args.device.type == 'cpu', {SPLIT})"


def test_an_attribute_that_holds_the_answer_is_followed_to_the_flag() -> None:
    answer = "args.cuda = not args.no_cuda and torch.cuda.is_available()"
    before = with_options(
        answer,
        '"--no-cuda", action="store_true"',
        model="model = Net()\nif args.cuda:\n    model.cuda()",
        move="if args.cuda:\n    x, y = x.cuda(), y.cuda()",
    )
    assert creation(before) == f"Accelerator(cpu=args.no_cuda, {SPLIT})"
    assert "if args.cuda:" not in converted(before)


@pytest.mark.parametrize("held", ["args.cuda", "not args.cuda"])
def test_a_flag_that_an_object_was_given_is_followed(held: str) -> None:
    criterion = (
        "class Criterion(nn.Module):\n    def __init__(self, weight, use_gpu=True):\n        super().__init__()\n"
        "        self.use_gpu = use_gpu\n\n    def forward(self, x, y):\n        if self.use_gpu:\n"
        "            y = y.cuda()\n        return F.cross_entropy(x, y)"
    )
    before = with_options(
        "",
        '"--cuda", action="store_true"',
        definitions=criterion,
        before=f"criterion = Criterion(1, {held})",
        model="model = Net()\nif args.cuda:\n    model.cuda()",
        move="if args.cuda:\n    x, y = x.cuda(), y.cuda()",
        forward="optimizer.zero_grad()\nloss = criterion(model(x), y)",
    )
    if held == "args.cuda":
        assert creation(before) == f"Accelerator(cpu=not args.cuda, {SPLIT})"
    else:  # two conditions that exclude each other
        assert findings(before) == ["DEV-UNKNOWN"]


@pytest.mark.parametrize(
    ("option", "test", "cpu"),
    [
        ('"--gpu", type=int, default=-1', "args.gpu >= 0", "args.gpu < 0"),
        ('"--gpu", default=None', "args.gpu is not None", "args.gpu is None"),
        ('"--gpu", type=int, default=None', "(args.gpu or -1) >= 0", "not (args.gpu or -1) >= 0"),
        ('"--use-gpu", type=int, default=0', "args.use_gpu == 1", "args.use_gpu != 1"),
        ('"--mode", default="cpu"', 'args.mode == "gpu"', "args.mode != 'gpu'"),
        ('"--rate", default="x"', 'settings["use_gpu"]', "not settings['use_gpu']"),
        ('"--rate", default="x"', 'not settings["no_gpu"]', "settings['no_gpu']"),
    ],
)
def test_whatever_decides_that_everything_moves_is_a_flag(option: str, test: str, cpu: str) -> None:
    text = with_options(
        'settings = {"use_gpu": len(vars(args)) > 1, "no_gpu": len(vars(args)) < 2}',
        option,
        model=f"model = Net()\nif {test}:\n    model.cuda()",
        move=f"if {test}:\n    x, y = x.cuda(), y.cuda()",
    )
    assert creation(text) == f"Accelerator(cpu={cpu}, {SPLIT})"


@pytest.mark.parametrize(
    ("before", "move"),
    [
        ("noise = torch.ones(8)", "x, y = x.cuda(), y.cuda()\nif x.is_cuda:\n    noise = noise.cuda()"),
        ("noise = torch.ones(8)", "x, y = x.cuda(), y.cuda()\nif x.device.type == 'cuda':\n    noise = noise.cuda()"),
        ("", "if epoch >= 0:\n    x, y = x.cuda(), y.cuda()\n    print(len(x))"),  # does something else, too
        (
            "other = Net() if len(data) > 9 else None\nif other is not None:\n    other.cuda()",
            "x, y = x.cuda(), y.cuda()",
        ),
    ],
)
def test_a_test_about_something_else_is_no_flag(before: str, move: str) -> None:
    text = script(device="", model="model = Net().cuda()", before=before, move=move)
    assert creation(text) == f"Accelerator({SPLIT})"


ONE_OR_MORE = "if args.n == 1:\n    model.cuda()\nelif args.n > 1:\n    model = nn.DataParallel(model.cuda())"
MOVED = "    model.cuda()\n"
WRAPPED = "    model = nn.DataParallel(model.cuda())"


@pytest.mark.parametrize(
    ("placed", "test", "cpu"),
    [
        (ONE_OR_MORE, "args.n > 0", "cpu=args.n <= 0, "),
        (ONE_OR_MORE, "args.n >= 1", "cpu=args.n < 1, "),
        (f"if args.n > 0:\n{MOVED}if args.n > 1:\n{WRAPPED}", "args.n > 0", "cpu=args.n <= 0, "),
        (f"if args.n != 0:\n{MOVED}if args.n > 1:\n{WRAPPED}", "args.n != 0", "cpu=args.n == 0, "),
        (ONE_OR_MORE, "args.n", "cpu=not args.n, "),
        (ONE_OR_MORE.replace("(model.cuda())", "(model, [0, 1]).cuda()"), "args.n > 0", "cpu=args.n <= 0, "),
        (ONE_OR_MORE.replace("nn.DataParallel(model.cuda())", "print(model.cuda())"), "args.n > 0", ""),
        (ONE_OR_MORE, "args.m", ""),
        # something is moved whatever the number is, or the numbers are those of something else
        (ONE_OR_MORE, "True", ""),
        (ONE_OR_MORE, "args.m > 0", ""),
        (f"if args.n == 1:\n{MOVED}    print(1)\nelif args.n > 1:\n{WRAPPED}", "args.n > 0", ""),
        (f"if args.n == 2:\n{MOVED}if args.n > 2:\n{WRAPPED}", "args.n == 3", ""),
    ],
)
def test_how_many_gpus_there_are_to_be(placed: str, test: str, cpu: str) -> None:
    """None of them is the CPU."""
    option = '"--n", type=int, default=1)\nparser.add_argument("--m", type=int, default=1'
    text = with_options("", option, model=f"model = Net()\n{placed}", move=f"if {test}:\n    x, y = x.cuda(), y.cuda()")
    assert creation(text) == f"Accelerator({cpu}{SPLIT})"


KEEPS_NUMBER = """\
class Trainer:
    def __init__(self, config, loader):
        self.n = {number}
        self.loader = loader
        self.net = Net()
        if self.n == 1:
            self.net.cuda()
        elif self.n > 1:
            self.net = nn.DataParallel(self.net.cuda())
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def fit(self):
        for x, y in self.loader:
            x, y = self.placed(x), self.placed(y)
            self.optimizer.zero_grad()
            F.cross_entropy(self.net(x), y).backward()
            self.optimizer.step()

    def placed(self, x):
        if self.n > 0:
            out = {moved}
        else:
            out = {kept}
        return out


class Other:
    def __init__(self, n):
        self.n = n


def main(args):
    loader = DataLoader(data, batch_size=16)
    Trainer(args, loader).fit()
"""


@pytest.mark.parametrize(
    ("number", "moved", "before", "told"),
    [
        ("config.n", "x.cuda()", "", True),
        ("config.n", "torch.autograd.Variable(x.cuda())", "", True),
        ("config.n", "x.cuda()", "args.n = 2", False),  # what it is where the accelerator is made is not known
        ("config.n * 2", "x.cuda()", "", False),
    ],
)
def test_how_many_gpus_there_are_to_be_is_kept_by_an_object(number: str, moved: str, before: str, told: bool) -> None:
    slots = dict.fromkeys(("model", "loader", "optimizer", "epochs", "loop", "move", "forward", "backward", "step"), "")
    definitions = KEEPS_NUMBER.format(number=number, moved=moved, kept=moved.replace(".cuda()", ""))
    option = '"--n", type=int, default=1'
    text = converted(with_options("", option, definitions=definitions, before=before, after="main(args)", **slots))
    assert ("cpu=args.n <= 0," in text) == told


IF_CUDA = "model = Net()\nif args.cuda:\n    model.cuda()"
MOVED_IF_CUDA = "if args.cuda:\n    x, y = x.cuda(), y.cuda()\n"


@pytest.mark.parametrize(
    "move",
    [
        "noise = torch.ones(8).cuda(x.get_device())",
        "noise = torch.ones(8).cuda(device=x.get_device())",
        "noise = torch.ones(8).cuda(x.device)",
        "place = y.get_device()\nnoise = torch.ones(8).cuda(place)",
        "noise = torch.ones(8).cuda(next(model.parameters()).device)",
        "if x.is_cuda:\n    noise = torch.ones(8).cuda()",
        "noise = torch.ones(8)\nnoise = noise.cuda() if x.is_cuda else noise",
        "place = torch.device('cuda') if x.is_cuda else torch.device('cpu')\nnoise = torch.ones(8).to(place)",
        "if x.is_cuda:\n    place = 'cuda'\nelse:\n    place = 'cpu'\nnoise = torch.ones(8).to(place)",
        "place = torch.device('cuda', x.get_device())\nnoise = torch.ones(8).to(place)",
    ],
)
def test_to_follow_another_tensor_is_no_choice_of_a_device(move: str) -> None:
    text = with_options("", '"--cuda", action="store_true"', model=IF_CUDA, move=MOVED_IF_CUDA + move)
    assert creation(text) == f"Accelerator(cpu=not args.cuda, {SPLIT})"
    assert findings(text) == []


@pytest.mark.parametrize(
    ("move", "codes"),
    [
        ("noise = torch.ones(8).cuda()", []),
        ("noise = torch.ones(8).cuda(0)", []),
        ("noise = torch.ones(8).cuda(args.rate)", ["DEV-INDEX"]),
        ("noise = torch.ones(8).cuda(settings.device)", ["DEV-INDEX"]),
    ],
)
def test_to_move_to_the_gpu_is_one(move: str, codes: list[str]) -> None:
    own = "class Settings:\n    pass"
    setup = "settings = Settings()\nsettings.device = len(vars(args))"
    options = '"--cuda", action="store_true"'
    text = with_options(setup, options, definitions=own, model=IF_CUDA, move=move)
    assert creation(text) == f"Accelerator({SPLIT})"
    assert findings(text) == codes


ASKED = """\
def placed(t):
    {placed}


class Told(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        noise = torch.zeros(8).cuda() if {test} else torch.zeros(8)
        return self.layer(x + noise)

    def placed(self):
        return next(self.parameters()).is_cuda"""


@pytest.mark.parametrize(
    ("placed", "test", "cpu"),
    [
        ("return t.is_cuda", "self.placed()", True),
        ("return t.is_cuda", "placed(x)", True),
        ("if t is None:\n        return next(t).is_cuda\n    return t.is_cuda", "placed(x)", True),
        ("return len(t) > 3", "placed(x)", False),
        ("if len(t) > 3:\n        return True\n    return t.is_cuda", "placed(x)", False),
        ("print(t.is_cuda)", "placed(x)", False),
    ],
)
def test_a_function_may_ask_where_a_tensor_is(placed: str, test: str, cpu: bool) -> None:
    definitions = ASKED.format(placed=placed, test=test)
    model = IF_CUDA.replace("Net", "Told")
    options = '"--cuda", action="store_true"'
    text = with_options("", options, definitions=definitions, model=model, move="")
    assert creation(text) == f"Accelerator({'cpu=not args.cuda, ' if cpu else ''}{SPLIT})"


@pytest.mark.parametrize("name", ["is_cuda", "get_device"])
def test_an_option_may_have_the_name_of_a_question_for_tensors(name: str) -> None:
    text = with_options(
        "",
        f'"--{name}", action="store_true"',
        model=f"model = Net()\nif args.{name}:\n    model.cuda()",
        move=f"if args.{name}:\n    x, y = x.cuda(), y.cuda()",
    )
    assert creation(text) == f"Accelerator(cpu=not args.{name}, {SPLIT})"


def test_a_flag_about_something_else_is_none() -> None:
    before = with_options('device = torch.device("cuda")', '"--no-cuda-graphs", action="store_true"')
    assert creation(before) == f"Accelerator({SPLIT})"


CHOSEN = """\
import argparse


def options():
    args = argparse.ArgumentParser().parse_args()
    args.device = torch.device("{}" if torch.cuda.is_available() else "cpu")
    return args


class Trainer:
    def __init__(self, args):
        self.args = args
        self.model = Net().to(args.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
        self.loader = DataLoader(data, batch_size=16)

    def train(self):
        noise = torch.ones(3, device=self.args.device)
        for x, y in self.loader:
            self.optimizer.zero_grad()
            out = self.model(x.to(self.args.device)) + noise
            F.cross_entropy(out, y.to(self.args.device)).backward()
            self.optimizer.step()


Trainer(options()).train()
"""


@pytest.mark.parametrize(("gpu", "left"), [("cuda:0", False), ("cuda", True)])
def test_a_gpu_that_is_chosen_before_there_is_an_accelerator(gpu: str, left: bool) -> None:
    """`cuda` is the process's own once the accelerator is there; `cuda:0` is one and the same for all."""
    head = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    net = "\n\nclass Net(nn.Linear):\n    def __init__(self):\n        super().__init__(8, 3)\n\n\n"
    text = head + "from torch.utils.data import DataLoader, TensorDataset\n" + net + CHOSEN.format(gpu)
    output = converted(text)
    assert (f'torch.device("{gpu}" if' in output) == left
    assert ("args.device = PartialState().device\n" in output) != left


FLAG = 'import json\nflags = json.load(open("flags.json"))'


@pytest.mark.parametrize(
    ("test", "cpu"),
    [
        ('flags["gpu"]', 'not flags["gpu"]'),
        ('flags.get("gpu")', 'not flags.get("gpu")'),
        ('flags["gpus"] > 0', 'flags["gpus"] <= 0'),
        ("torch.cuda.is_available()", None),
        ("{0}.is_cuda", None),  # asks where it is
        ("len({0}) > 3", None),
    ],
)
def test_a_test_that_nothing_but_a_move_hangs_on_is_that_for_a_gpu(test: str, cpu: str | None) -> None:
    moved = "{0} = {0}.cuda() if " + test + " else {0}"
    network = "torch.cuda.is_available()" if "{0}" in test else test
    model = f"model = Net()\nmodel = model.cuda() if {network} else model"
    text = script(device=FLAG, model=model, move="\n".join((moved.format("x"), moved.format("y"))))
    assert creation(text) == f"Accelerator({SPLIT})" if cpu is None else f"Accelerator(cpu={cpu}, {SPLIT})"


# ---- devices of settings

CHOICE = '"cuda" if torch.cuda.is_available() else "cpu"'
DATACLASS = "from dataclasses import dataclass, field"


def of_settings(settings: str, device: str = "settings.device", **slots: str) -> str:
    """A script that moves everything to a device which its settings name."""
    move = f"x, y = x.to({device}), y.to({device})"
    return script(device=settings, model=f"model = Net().to({device})", move=move, **slots)


@pytest.mark.parametrize(
    ("settings", "before", "after"),
    [
        ("class Config:\n    device = {}\nsettings = Config", f"device = {CHOICE}", "device = accelerator.device"),
        ("class Config:\n    device = {}\nsettings = Config()", 'device = "cuda"', "device = accelerator.device"),
        (
            "@dataclass\nclass Config:\n    device: str = {}\n    rate: float = 0.1\nsettings = Config(rate=0.2)",
            f"device: str = {CHOICE}",
            "device: str = accelerator.device.type",
        ),
        (
            "@dataclass\nclass Config:\n    rate: float = 0.1\n    device: torch.device = {}\nsettings = Config()",
            f"device: torch.device = torch.device({CHOICE})",
            "device: torch.device = accelerator.device",
        ),
        (  # a field has the name of an optimizer that something else keeps
            "@dataclass\nclass Config:\n    device: str = {}\n    optimizer: str = 'sgd'\nsettings = Config()",
            f"device: str = {CHOICE}",
            "device: str = accelerator.device.type",
        ),
    ],
)
def test_a_device_that_a_class_holds(settings: str, before: str, after: str) -> None:
    text = of_settings(settings.format(before.partition(" = ")[2]), imports=DATACLASS)
    assert findings(text) == []
    assert before in removed(text) and after in added(text)
    assert creation(text) == f"Accelerator({SPLIT})"


@pytest.mark.parametrize(
    "settings",
    [
        "@dataclass\nclass Config:\n    device: str = field(default_factory=lambda: {})\nsettings = Config()",
        "@dataclass\nclass Config:\n    device: str = field(default={})\nsettings = Config()",
        "@dataclass\nclass Config:\n    rate: float\n    device: str\nsettings = Config(0.1, {})",
        '@dataclass\nclass Config:\n    device: str = "cpu"\nsettings = Config(device={})',
        '@dataclass\nclass Config:\n    device: str = "cpu"\nsettings = Config(*[{}])',
        "@dataclass\nclass Config:\n    device: str = {}\nimport tyro\nsettings = tyro.cli(Config)",
        "import types\nsettings = types.SimpleNamespace(rate=0.1, device={})",
        "from collections import namedtuple\nsettings = namedtuple('Config', 'rate device')(0.1, {})",
        "from collections import namedtuple\nsettings = namedtuple('Config', names)(**values)",
    ],
)
def test_a_device_of_settings_that_cannot_be_read_is_no_script_for_the_cpu(settings: str) -> None:
    finding = unchanged(of_settings(settings.format(CHOICE), imports=DATACLASS))
    assert finding.code == "DEV-UNKNOWN" and "settings.device" in finding.message


TRAINER = """
class Trainer:
    def __init__(self, data):
        use_cuda = torch.cuda.is_available()
        self.device = {device}
        self.model = Net().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(data, batch_size=16)

    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x.to(self.device)), y.to(self.device)).backward()
            self.optimizer.step()


Trainer(TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)).train()
"""


@pytest.mark.parametrize("device", ['"cuda" if use_cuda else "cpu"', '"cuda"'])
def test_the_name_of_a_device_that_an_object_keeps(device: str) -> None:
    head = script(definitions="").partition("\n\n\ndevice =")[0].partition("\n\n\nloader =")[0]
    text = head.partition("device = ")[0] + TRAINER.format(device=device)
    output = converted(text)
    assert f"self.device = {device}" not in output and "self.accelerator = Accelerator(" in output
    assert "self.model = Net()\n" in output and findings(text) == []


def test_settings_that_a_decorator_hands_in() -> None:
    body = script(device="", main=True).replace("def main():", "import hydra\n@hydra.main()\ndef main(settings):")
    body = body.replace("model = Net().to(device)", "model = Net().to(settings.device)").replace(
        "x, y = x.to(device), y.to(device)", "x, y = x.to(settings.device), y.to(settings.device)"
    )
    named = body.replace("@hydra.main()", "@lib.main()").replace("import hydra", "import lib")
    assert unchanged(named).code == "DEV-UNKNOWN"
    assert creation(body) == f"Accelerator(cpu=settings.device == 'cpu', {SPLIT})"


# ---- scripts for the CPU


@pytest.mark.parametrize("where", ["x.device", "torch.zeros(3).device", "next(model.parameters()).device"])
def test_a_script_for_the_cpu_may_ask_where_a_tensor_is(where: str) -> None:
    text = script(device="", model="model = Net()", move=f"bias = torch.zeros(len(x), 3).to({where})")
    assert findings(text) == ["DEV-CPU"]


_WRITE = """\
        return self.layer(x)

    def write(self, start, other):
        place = {where}
        start = start[: start.size(0)]
        return torch.ones(3).to(place)
"""


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("start.device", "DEV-CPU"),
        ("start.dtype", "DEV-CPU"),
        ("other.device", "DEV-UNKNOWN"),
        ("start.place", "DEV-UNKNOWN"),
        ("start", "DEV-UNKNOWN"),
    ],
)
def test_a_variable_that_says_where_a_tensor_is_of_which_nothing_is_known(where: str, code: str) -> None:
    text = script(device="", model="model = Net()", move="")
    assert findings(text.replace("        return self.layer(x)\n", _WRITE.format(where=where), 1)) == [code]


_TYPES = """\
if torch.cuda.is_available():
    kind = torch.cuda.FloatTensor
else:
    kind = torch.FloatTensor"""


@pytest.mark.parametrize(
    ("slots", "line"),
    [
        ({"device": _TYPES, "model": "model = Net().type(kind)", "move": "x = x.type(kind)"}, "Net().type(kind)"),
        ({"device": _TYPES, "model": "model = Net()", "move": "x = x.type(kind)"}, "x.type(kind)"),
        ({"device": "torch.set_default_tensor_type('torch.cuda.FloatTensor')"}, "torch.set_default_tensor_type"),
        ({"device": 'torch.set_default_device("cuda")'}, "torch.set_default_device"),
    ],
)
def test_a_gpu_that_only_types_of_tensors_choose(slots: dict[str, str], line: str) -> None:
    finding = unchanged(script(**{"model": "model = Net()", "move": "", **slots}))
    assert finding.code == "DEV-UNKNOWN" and f"only `{line}" in finding.message


@pytest.mark.parametrize(
    "line",
    [
        "kind = torch.FloatTensor\nmodel = model.type(kind)",
        "model = model.type(torch.float64)",
        "torch.set_default_tensor_type(torch.DoubleTensor)",
        'torch.set_default_device("cpu")',
    ],
)
def test_types_of_the_cpu_choose_no_gpu(line: str) -> None:
    assert findings(script(device="", model="model = Net()", move="", before=line)) == ["DEV-CPU"]


def test_a_variable_that_holds_a_setting_is_not_the_place_of_a_tensor() -> None:
    settings = f"@dataclass\nclass Config:\n    rate: float\n    device: str\nsettings = Config(0.1, {CHOICE})"
    text = of_settings(settings, imports=DATACLASS).replace("settings.device)", "place)")
    text = text.replace("model = Net()", "place = settings.device\nmodel = Net()", 1)
    assert "place)" in text and unchanged(text).code == "DEV-UNKNOWN"


@pytest.mark.parametrize("use", ["bias = other(x)", "bias = sum(p.sum() for p in other.parameters())"])
def test_a_network_of_another_library_is_no_settings(use: str) -> None:
    text = script(
        imports="import nets",
        device="",
        model="model = Net()\nother = nets.net()",
        move=f"{use}\nbias = torch.zeros(len(x), 3).to(other.device)",
    )
    assert findings(text) == ["DEV-CPU"]


def test_a_class_that_holds_the_cpu() -> None:
    text = of_settings('class Config:\n    device = "cpu"\nsettings = Config()')
    assert findings(text) == ["DEV-CPU"] and "cpu=True" in creation(text)


@pytest.mark.parametrize(
    ("device", "model", "move"),
    [("", "model = Net()", ""), ('device = torch.device("cpu")', "model = Net().to(device)", "x = x.to(device)")],
)
def test_a_script_for_the_cpu_stays_on_it(device: str, model: str, move: str) -> None:
    before = script(device=device, model=model, move=move)
    assert creation(before) == f"Accelerator(cpu=True, {SPLIT})"
    assert findings(before) == ["DEV-CPU"]


# ---- what cannot be told


LOADER = "loader = DataLoader(data, batch_size=16, shuffle=True)"


def test_a_device_that_is_chosen_again_when_the_arguments_are_known_is_refused() -> None:
    """An accelerator in place of the first choice would read arguments that are not there yet."""
    again = 'device = torch.device("cuda" if args.gpu and torch.cuda.is_available() else "cpu")'
    options = parsed('"--gpu", action="store_true"')
    block = "\n".join(f"    {line}" for line in [*options.splitlines(), again])
    text = script(imports="import argparse", loader=f'{LOADER}\nif __name__ == "__main__":\n{block}')
    finding = unchanged(text)
    assert (finding.code, "`args`" in finding.message) == ("DEV-UNKNOWN", True)


# ---- options


def test_per_process_batches_need_no_configuration() -> None:
    after = lifted(accelerate="from accelift import Accelerator", device="accelerator = Accelerator()")
    assert converted(script(), batch="per-process") == after
    assert findings(script(), batch="per-process") == ["BATCH-SCALE"]


def test_the_other_target_differs_in_the_import() -> None:
    imported = "from accelerate import Accelerator, DataLoaderConfiguration"
    assert converted(script(), target="accelerate") == lifted(accelerate=imported)
    assert findings(script(), target="accelerate") == ["DATA-ORDER", "DATA-TAIL"]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("import torch\n", "import torch\nfrom accelift import Accelerator, DataLoaderConfiguration\n"),
        (
            "import os\nimport torch\nimport zlib\n",
            "import os\nimport torch\nimport zlib\nfrom accelift import Accelerator, DataLoaderConfiguration\n",
        ),
        (
            "import torch\nfrom os import path\n",
            "import torch\nfrom accelift import Accelerator, DataLoaderConfiguration\nfrom os import path\n",
        ),
        (
            "from torch import nn\nimport torch\n",
            "from torch import nn\nimport torch\nfrom accelift import Accelerator, DataLoaderConfiguration\n",
        ),
        (
            '"""A script."""\nfrom __future__ import annotations\nimport torch\n',
            '"""A script."""\nfrom __future__ import annotations\nimport torch\n'
            "from accelift import Accelerator, DataLoaderConfiguration\n",
        ),
    ],
)
def test_the_import_stands_beside_those_of_torch(head: str, expected: str) -> None:
    body = (
        "model = torch.nn.Linear(8, 3).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=16)\n"
        "for x in loader:\n    optimizer.zero_grad()\n    model(x.cuda()).mean().backward()\n    optimizer.step()\n"
    )
    assert converted(head + body).startswith(expected)


FLAGGED = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--plain", action="store_true")
args = parser.parse_args()"""


@pytest.mark.parametrize("test", ["not args.plain", "args.plain == False", "args.plain is False"])
def test_a_flag_that_says_no(test: str) -> None:
    slots = {
        "device": FLAGGED,
        "model": f"model = Net()\nif {test}:\n    model.cuda()",
        "move": f"if {test}:\n    x, y = x.cuda(), y.cuda()",
    }
    assert "cpu=args.plain" in converted(script(**slots))


def test_the_import_stands_before_a_device_that_is_chosen_on_the_line_of_torch() -> None:
    device = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    output = converted(script(device="").replace("import torch\n", f"import torch; {device}\n", 1))
    lines = output.splitlines()
    place = lines.index("import torch")
    assert lines[place : place + 3] == [
        "import torch",
        "from accelift import Accelerator, DataLoaderConfiguration",
        CREATED,
    ]


@pytest.mark.parametrize(("above", "apart"), [("", ""), ("\n", "\n"), ("\n\n", "\n\n"), ("\n\n\n\n", "\n\n")])
@pytest.mark.parametrize("head", ["class CFG:", "# Settings\nclass CFG:", "@dataclass\nclass CFG:"])
def test_what_is_put_before_a_class_is_as_far_from_it_as_what_stood_there(above: str, apart: str, head: str) -> None:
    chosen = "    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
    text = script(
        imports="import random\nfrom dataclasses import dataclass",
        setup=f"random.seed(3){above}\n{head}\n{chosen}\n",
        device="device = CFG.device",
    )
    made = "accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))"
    assert f"random.seed(3){above}\n{made}\n{apart}{head}\n    device = accelerator.device\n" in converted(text)
