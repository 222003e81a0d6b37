"""Names of devices that scripts cut: the kind of a device has no number."""

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


@pytest.mark.parametrize(
    ("device", "use"),
    [
        (_DEVICE, "print(device)"),
        (_DEVICE, "z = torch.zeros(3).to(device)"),
        (_DEVICE, "print(number('gpu:1'), device)"),
        ('device = "cuda" if torch.cuda.is_available() else "cpu"', "kind = device.split(':')[0]"),
    ],
)
def test_what_is_not_cut_is_the_kind(device: str, use: str) -> None:
    text = converted(script(definitions=_NUMBER, device=device, before=use))
    assert "device = accelerator.device.type\n" in text


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
