"""Names of devices that scripts cut, or use for texts: the kind of a device has no number, and a device is no text."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import added, converted, script

_NUMBER = "def number(name):\n    return int(name.split(':')[1])"
_DEVICE = 'device = "cuda:0"'


@pytest.mark.parametrize(
    "use",
    [
        "print(device.split(':')[1])",
        "number = int(device[-1])",
        "print(number(device))",
        "name = 'net_' + device.replace(':', '_')",
        "kind, _, rest = device.partition(':')",
        "again = device\nprint(again[5:])",
    ],
)
def test_what_is_cut_keeps_its_number(use: str) -> None:
    text = converted(script(definitions=_NUMBER, device=_DEVICE, before=use))
    assert "device = str(accelerator.device)\n" in text
    assert ".device.type" not in text


_CHOICE = 'device = "cuda" if torch.cuda.is_available() else "cpu"'
_FUNCTIONS = f"""\
{_NUMBER}


def make(n, place=None):
    place = place or None
    return torch.randn(n, device=place)


def named(n, place: str = "cpu"):
    return torch.randn(n, device=place)


def same(place):
    return place


class Noise(nn.Module):
    def __init__(self, place):
        super().__init__()
        self.place = place

    def forward(self, x):
        return x + torch.randn(3).to(self.place)


class Marked(Noise):
    def forward(self, x):
        return x if self.mark == "cpu" else -x

    def place_it(self, mark):
        self.mark = mark"""


@pytest.mark.parametrize(
    "use",
    [
        "print(device)",
        'print(f"on {device!s}", str(3))',
        "z = torch.zeros(3).to(device, non_blocking=True)",
        "z = torch.zeros(3, device=device).new_ones(3, device=device)",
        "again = device\nz = make(3, again)\nmake(2, place=device)",
        "print(number('gpu:1'), device)",
        'weights = torch.load("w.pt", map_location=device)',
        "generator = torch.Generator(device)",
        "noise = Noise(device)",
        "where = torch.device(device) if device is not None else None\nprint(where.type)",
        "def later(n, place=device):\n    return make(n, place)",
        "there = same(device)\nz = make(3, there)",
        'import logging\nlogging.info("on %s", device)',
        "print(vars(Net()))\nz = torch.zeros(3, device=device)",
    ],
)
@pytest.mark.parametrize("device", [_DEVICE, _CHOICE])
def test_a_name_that_is_only_used_for_a_device_or_shown_is_the_device(device: str, use: str) -> None:
    text = converted(script(definitions=_FUNCTIONS, device=device, before=use))
    assert "device = accelerator.device\n" in text


@pytest.mark.parametrize(
    "use",
    [
        "kind = device.split(':')[0]",
        'name = "on " + device',
        'name = f"{device}.pt"',
        'print(f"{device:>8}")',
        'print(f"{device!r}")',
        'fast = device == "cuda"',
        'fast = "cuda" in device',
        "amp = torch.autocast(device_type=device)",
        "scaler = torch.amp.GradScaler(device=device)",
        "from torchsummary import summary\nsummary(Net(), (8,), device=device)",
        'import json\njson.dump({"device": device}, open("run.json", "w"))',
        "z = named(3, device)",
        'if same(device) == "cuda":\n    print(3)',
        "noise = Noise(device)\nprint(vars(noise))",
        "marked = Marked(device)\nmarked.place_it(device)",
        "def later(n, place=device):\n    return n if place == 'cpu' else 2 * n",
        "z = torch.zeros(3).to(device)\nprint(globals())",
    ],
)
def test_a_name_that_something_needs_is_the_kind(use: str) -> None:
    text = converted(script(definitions=_FUNCTIONS, device=_CHOICE, before=use))
    assert "device = accelerator.device.type\n" in text


@pytest.mark.parametrize(
    ("use", "asked"),
    [
        ('fast = device == "cuda"', 'fast = device.type == "cuda"'),
        ('if device != "cpu":\n    print(3)', 'if device.type != "cpu":\n    accelerator.print(3)'),
        ('fast = device == "cuda"\nname = f"{device}.pt"', None),
        ("fast = device == where", None),
        ('fast = device == "cuda:0"', None),
    ],
)
def test_a_name_that_is_a_device_but_where_its_kind_is_asked_for(use: str, asked: str | None) -> None:
    text = converted(script(device=_CHOICE, setup='where = "cuda"', before=f"z = torch.zeros(3, device=device)\n{use}"))
    assert ("device = accelerator.device\n" in text) == (asked is not None)
    assert (asked or use) in text and ("device = accelerator.device.type\n" in text) == (asked is None)


def test_the_name_of_a_gpu_with_a_number_is_no_kind() -> None:
    use = 'z = torch.zeros(3, device=device)\nfast = device == "cuda"'
    assert 'fast = device == "cuda"' in converted(script(device=_CHOICE.replace('"cuda"', '"cuda:0"'), before=use))


_NAMED = '"cuda" if torch.cuda.is_available() else "cpu"'
_SETTINGS = f"class Settings:\n    rate = 0.1\n    device = {_NAMED}"


@pytest.mark.parametrize(
    ("device", "use", "after"),
    [
        (f"device: str = {_NAMED}", "torch.ones(3, device=device)", "device = accelerator.device.type\n"),
        (f"device: Device = {_NAMED}", "torch.ones(3, device=device)", "device = accelerator.device\n"),
        (f"args.device = {_NAMED}", "print(args, args.device)", "args.device = accelerator.device\n"),
        (f"args.device = {_NAMED}", "run.init(config=args)", "args.device = accelerator.device.type\n"),
        (f"args.device = {_NAMED}", "print(vars(args))", "args.device = accelerator.device.type\n"),
        (f"args.device = {_NAMED}", 'print(args.device == "cpu")', "args.device = accelerator.device.type\n"),
        (_SETTINGS, "print(Settings.rate, Settings().device)", "    device = accelerator.device\n"),
        (_SETTINGS, "run.init(config=Settings)", "    device = accelerator.device.type\n"),
        (_SETTINGS, "run.init(config=Settings())", "    device = accelerator.device.type\n"),
        (_SETTINGS, "settings = Settings()\nrun.init(settings)", "    device = accelerator.device.type\n"),
        (_SETTINGS, 'print(Settings.device + "!")', "    device = accelerator.device.type\n"),
        (f"@keep\n{_SETTINGS}", "print(Settings.rate)", "    device = accelerator.device.type\n"),
    ],
)
def test_what_is_said_to_be_a_name_and_what_others_may_read_stays_one(device: str, use: str, after: str) -> None:
    imports = (
        "import argparse, run\nfrom run import keep\nDevice = object\nargs = argparse.ArgumentParser().parse_args()"
    )
    name = device.partition(" ")[0] if device.startswith("args") else "Settings.device"
    move = {} if device.startswith("device") else {"model": f"model = Net().to({name})"}
    assert after in converted(script(imports=imports, device=device, before=use, **move))


def test_a_parameter_that_is_cut_keeps_the_number() -> None:
    definitions = (
        "def train(device):\n    model = Net().to(device)\n    print(device.split(':')[1])\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    for x, y in loader:\n"
        "        x, y = x.to(device), y.to(device)\n        optimizer.zero_grad()\n"
        "        loss = F.cross_entropy(model(x), y)\n        loss.backward()\n        optimizer.step()"
    )
    slots = dict.fromkeys(("model", "optimizer", "epochs", "loop", "move", "forward", "backward", "step"), "")
    text = script(definitions=definitions, device=_DEVICE, before="train(device)", **slots)
    assert "accelerator.print(str(accelerator.device).split(':')[1])" in added(text)


_CHOSEN = 'device = "cuda" if torch.cuda.is_available() else "cpu"\n'
_MADE = "device = torch.device(device)"


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (f"{_CHOSEN}print(device.upper())\n{_MADE}", True),
        (f'{_CHOSEN}if device == "cuda":\n    torch.backends.cudnn.benchmark = True\n{_MADE}', True),
        (f'{_CHOSEN}options = {{}} if device == "cpu" else {{"pin_memory": True}}\n{_MADE}', True),
        (f"{_CHOSEN}{_MADE}\nprint(device.type)", False),
        (f"{_CHOSEN}print(1)\n{_MADE}\nprint(device.type)", False),
    ],
)
def test_a_name_that_is_read_before_it_is_made_a_device(device: str, name: bool) -> None:
    text = converted(script(device=device))
    assert ("device = accelerator.device.type\n" in text) is name
    assert "device = accelerator.device\n" in text
