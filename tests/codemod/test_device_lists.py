"""Lists of devices, and networks that a function puts into DataParallel: there is one device for each process."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, TRAINS, converted, findings, script

GPUS = """\
def gpus():
    found = [torch.device(f"cuda:{i}") for i in range(torch.cuda.device_count())]
    return found if found else [torch.device("cpu")]
"""
TRAIN = "def train({parameters}):\n    {wraps}\n{trains}"


def trains(
    wraps: str, parameters: str = "model, loader, optimizer, device", call: str = "model, loader, optimizer, device"
) -> str:
    """A script with a function that trains the network that it is handed."""
    return script(
        **NO_LOOP,
        definitions=TRAIN.format(parameters=parameters, wraps=wraps, trains=TRAINS),
        after=f"train({call})",
    )


@pytest.mark.parametrize(
    "wraps",
    [
        "model = nn.DataParallel(model)",
        "model = nn.DataParallel(model).to(device)",
        "model = torch.nn.DataParallel(model.to(device), device_ids=[0, 1])",
        "model = nn.DataParallel(model, device_ids=[0, 1]).cuda()",
    ],
)
def test_a_network_that_a_function_is_handed_and_wraps(wraps: str) -> None:
    output = converted(trains(wraps))
    assert "DataParallel" not in output
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\ntrain(model" in output


def test_another_network_in_its_place_is_another_matter() -> None:
    text = trains("model = nn.DataParallel(nn.Sequential(model, nn.Softmax(1)))")
    assert findings(text) == ["OPT-UNKNOWN"]


DEVICES = {
    "a function": (GPUS, "devices = gpus()"),
    "a comprehension": ("", 'devices = [torch.device(f"cuda:{i}") for i in range(torch.cuda.device_count())]'),
    "written out": ("", 'devices = [torch.device("cuda:0"), torch.device("cuda:1")]'),
    "if there are any": (
        "",
        'devices = [torch.device("cuda:0")] if torch.cuda.is_available() else [torch.device("cpu")]',
    ),
}


@pytest.mark.parametrize("made", DEVICES)
def test_one_of_several_devices_is_one_particular_gpu(made: str) -> None:
    definitions, setup = DEVICES[made]
    text = script(
        definitions=definitions,
        setup=setup,
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y.to(devices[0]))",
    )
    assert findings(text) == ["DEV-LEFT"]


def test_devices_that_a_function_is_handed() -> None:
    definitions = f"{GPUS}\n\n" + TRAIN.format(
        parameters="model, loader, optimizer, devices=gpus()",
        wraps="pass",
        trains=TRAINS.replace("(device)", "(devices[0])"),
    )
    text = script(**NO_LOOP, definitions=definitions, after="train(model, loader, optimizer)")
    assert findings(text) == ["DEV-LEFT"]


@pytest.mark.parametrize("target", ["kinds[0]", "torch.float32", "others[0].device", "others[0]"])
def test_types_and_other_tensors_are_none(target: str) -> None:
    setup = "kinds = [torch.float32, torch.float64]\nothers = [torch.ones(3)]"
    forward = f"optimizer.zero_grad()\nloss = F.cross_entropy(model(x).to({target}), y)"
    assert "DEV-LEFT" not in findings(script(setup=setup, forward=forward))
