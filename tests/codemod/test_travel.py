"""TRAVEL: functions get the accelerator the way they got the device."""

from __future__ import annotations

import pytest
from scripts import FIT, TRAINS, added, converted, findings, removed, script, unchanged

NO_LOOP = {"move": "", "forward": "", "backward": "", "step": ""}


def trains(signature: str, call: str, body: str = TRAINS, **slots: str) -> str:
    """A script whose `main()` trains through a function."""
    return script(main=True, definitions=f"def {signature}:\n{body}", loop=call, **NO_LOOP, **slots)


def changes(text: str, *wanted: str) -> list[tuple[str, str]]:
    """The changed lines, old and new, that contain one of some words."""
    old, new = ([line for line in lines if any(w in line for w in wanted)] for lines in (removed(text), added(text)))
    assert len(old) == len(new), (old, new)
    return list(zip(old, new, strict=True))


@pytest.mark.parametrize(
    ("signature", "call", "new_signature", "new_call"),
    [
        (
            "train(model, device, loader, optimizer)",
            "train(model, device, loader, optimizer)",
            "train(model, accelerator, loader, optimizer)",
            "train(model, accelerator, loader, optimizer)",
        ),
        (
            "train(model, device, loader, optimizer)",
            "train(model=model, device=device, loader=loader, optimizer=optimizer)",
            "train(model, accelerator, loader, optimizer)",
            "train(model=model, accelerator=accelerator, loader=loader, optimizer=optimizer)",
        ),
        (
            "train(model, loader, optimizer, *, device)",
            "train(model, loader, optimizer, device=device)",
            "train(model, loader, optimizer, *, accelerator)",
            "train(model, loader, optimizer, accelerator=accelerator)",
        ),
        (
            "train(model, device, loader, optimizer, log=None)",
            "train(model, device, loader, optimizer)",
            "train(model, accelerator, loader, optimizer, log=None)",
            "train(model, accelerator, loader, optimizer)",
        ),
        (
            "train(model, loader, optimizer, n=1, device=torch.device('cpu'))",
            "train(model, loader, optimizer, device=device)",
            "train(model, loader, optimizer, n=1, accelerator=None)",
            "train(model, loader, optimizer, accelerator=accelerator)",
        ),
        (
            "train(model, loader, optimizer, *, device: str = 'cpu', n=1)",
            "train(model, loader, optimizer, device=device)",
            "train(model, loader, optimizer, *, accelerator: Accelerator, n=1)",
            "train(model, loader, optimizer, accelerator=accelerator)",
        ),
        (
            "train(model, loader, optimizer, *, device: object = torch.device('cpu'), n=1)",
            "train(model, loader, optimizer, device=device)",
            "train(model, loader, optimizer, *, accelerator: Accelerator, n=1)",
            "train(model, loader, optimizer, accelerator=accelerator)",
        ),
        (
            "train(model, loader, optimizer, device=None)",
            "train(model, loader, optimizer, device)",
            "train(model, loader, optimizer, accelerator)",
            "train(model, loader, optimizer, accelerator)",
        ),
    ],
)
def test_the_device_parameter_becomes_the_accelerator(
    signature: str, call: str, new_signature: str, new_call: str
) -> None:
    text = trains(signature, call)
    assert changes(text, "train(") == [(f"def {signature}:", f"def {new_signature}:"), (call, new_call)]
    assert "device" not in converted(text).replace("device_placement", "")


@pytest.mark.parametrize(
    ("signature", "call", "new_signature", "new_call"),
    [
        (
            "train(model, loader, optimizer)",
            "train(model, loader, optimizer)",
            "train(model, loader, optimizer, accelerator)",
            "train(model, loader, optimizer, accelerator)",
        ),
        (
            "train(model, loader, optimizer)",
            "train(model=model, loader=loader, optimizer=optimizer)",
            "train(model, loader, optimizer, accelerator)",
            "train(model=model, loader=loader, optimizer=optimizer, accelerator=accelerator)",
        ),
        (
            "train(model, loader, optimizer, clip=None)",
            "train(model, loader, optimizer, 1.0)",
            "train(model, loader, optimizer, accelerator, clip=None)",
            "train(model, loader, optimizer, accelerator, 1.0)",
        ),
        (
            "train(model, loader, optimizer, *, clip)",
            "train(model, loader, optimizer, clip=1.0)",
            "train(model, loader, optimizer, accelerator, *, clip)",
            "train(model, loader, optimizer, accelerator, clip=1.0)",
        ),
    ],
)
def test_without_a_device_parameter_there_is_one_more(
    signature: str, call: str, new_signature: str, new_call: str
) -> None:
    body = TRAINS.replace("x.to(device), y.to(device)", "x.cuda(), y.cuda()")
    text = trains(signature, call, body, device="", model="model = Net().cuda()")
    assert changes(text, "train(") == [(f"def {signature}:", f"def {new_signature}:"), (call, new_call)]


@pytest.mark.parametrize(
    ("signature", "after"),
    [
        (
            "train(model: Net, loader: DataLoader, optimizer, device: torch.device) -> None",
            "train(model: Net, loader: DataLoader, optimizer, accelerator: Accelerator) -> None",
        ),
        (
            "train(model: Net, loader: DataLoader, optimizer, device) -> None",
            "train(model: Net, loader: DataLoader, optimizer, accelerator) -> None",
        ),
        (
            "train(model: Net, loader: DataLoader, optimizer: object, device) -> None",
            "train(model: Net, loader: DataLoader, optimizer: object, accelerator: Accelerator) -> None",
        ),
        (
            "train(model: Net, loader: DataLoader, optimizer: object, device: object = None)",
            "train(model: Net, loader: DataLoader, optimizer: object, accelerator: Accelerator)",
        ),
    ],
)
def test_it_has_a_type_where_the_device_or_all_other_parameters_have_one(signature: str, after: str) -> None:
    text = trains(signature, "train(model, loader, optimizer, device)")
    assert changes(text, "def train(") == [(f"def {signature}:", f"def {after}:")]


@pytest.mark.parametrize("taken", ["", "Accelerator = dict"])
def test_a_parameter_that_is_added_has_a_type_unless_its_name_means_something_else(taken: str) -> None:
    save = "def save(model: Net, path: str{}, name: str = 'a') -> None:\n    {}"
    text = script(main=True, definitions=save.format("", "torch.save(model, path)"), after="save(model, 'm')")
    if taken:
        text = text.replace("class Net", f"{taken}\n\n\nclass Net")
        assert "def save(model: Net, path: str, accelerator, name: str = 'a') -> None:" in converted(text)
    else:
        saved = "accelerator.save(accelerator.unwrap_model(model), path)"
        assert save.format(", accelerator: Accelerator", saved) in converted(text)


def test_what_is_left_of_the_device_is_the_accelerators() -> None:
    body = f"    noise = torch.randn(8).to(device)\n    where = device.type\n{TRAINS}"
    text = trains("train(model, device, loader, optimizer)", "train(model, device, loader, optimizer)", body)
    assert changes(text, "noise", "where") == [
        ("noise = torch.randn(8).to(device)", "noise = torch.randn(8).to(accelerator.device)"),
        ("where = device.type", "where = accelerator.device.type"),
    ]


def test_a_device_given_as_a_string_stays_a_string() -> None:
    body = f'    fast = device == "cuda"\n{TRAINS}'
    text = trains(
        "train(model, device, loader, optimizer)",
        "train(model, device, loader, optimizer)",
        body,
        device='device = "cuda" if torch.cuda.is_available() else "cpu"',
    )
    assert changes(text, "fast") == [('fast = device == "cuda"', 'fast = accelerator.device.type == "cuda"')]


def test_it_travels_through_functions_that_only_hand_it_on() -> None:
    definitions = (
        f"def train(model, device, loader, optimizer):\n{TRAINS}\n\n"
        "def run(model, loader, optimizer, device):\n    train(model, device, loader, optimizer)"
    )
    text = script(main=True, definitions=definitions, loop="run(model, loader, optimizer, device)", **NO_LOOP)
    assert changes(text, "run(", "train(") == [
        ("def train(model, device, loader, optimizer):", "def train(model, accelerator, loader, optimizer):"),
        ("def run(model, loader, optimizer, device):", "def run(model, loader, optimizer, accelerator):"),
        ("train(model, device, loader, optimizer)", "train(model, accelerator, loader, optimizer)"),
        ("run(model, loader, optimizer, device)", "run(model, loader, optimizer, accelerator)"),
    ]


def test_a_function_that_only_needs_the_device_keeps_it() -> None:
    definitions = "def noise(n, device):\n    return torch.randn(n).to(device)"
    text = script(main=True, definitions=definitions, before="z = noise(3, device)")
    assert changes(text, "noise") == []
    assert "    device = accelerator.device\n" in converted(text)


def test_a_parameter_that_is_also_given_another_device_stays() -> None:
    definitions = "def report(loss, device):\n    print(loss, device)"
    text = script(main=True, definitions=definitions, batch_end="report(loss, device)", after='report(0, "cpu")')
    assert changes(text, "report", "print") == [("print(loss, device)", "PartialState().print(loss, device)")]
    assert findings(text) == ["METRIC-TRAIN"]  # it prints the loss of a share


EVALUATE = """\
def evaluate(model, loader, device):
    hits = 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            hits += (model(x).argmax(1) == y).sum().item()
    print(hits)


def test(model, loader, device):
    evaluate(model, loader, device)
"""


@pytest.mark.parametrize(
    ("place", "after", "kept"),
    [
        ('cpu = torch.device("cpu")', "test(model, test_loader, cpu)", True),
        ('cpu = torch.device("cpu:0")', "test(model, test_loader, cpu)", True),
        ('cpu = "cpu"', "test(model, test_loader, device)\n    evaluate(model, test_loader, cpu)", True),
        ("", "test(model, test_loader, device)", False),
        ("place = device", "test(model, test_loader, place)", False),
    ],
)
def test_a_function_that_is_given_the_cpu_by_one_call_keeps_its_device(place: str, after: str, kept: bool) -> None:
    text = script(
        main=True,
        definitions=EVALUATE,
        setup=place if "cpu" in place else "",
        loader="loader = DataLoader(data, batch_size=16)\ntest_loader = DataLoader(data, batch_size=16)",
        before=place if "cpu" not in place else "",
        epoch_end="evaluate(model, test_loader, device)",
        after=f"    {after}",
    )
    output = converted(text)
    assert ("x, y = x.to(device), y.to(device)" in output) is kept
    assert ("evaluate(model, loader, device, accelerator)" in output) is kept


def test_a_parameter_named_device_that_is_none_stays() -> None:
    body = TRAINS.replace("x.to(device), y.to(device)", "x.cuda(), y.cuda()")
    text = trains(
        "train(model, device, loader, optimizer)",
        'train(model, "phone", loader, optimizer)',
        body,
        device="",
        model="model = Net().cuda()",
    )
    assert changes(text, "train(") == [
        ("def train(model, device, loader, optimizer):", "def train(model, device, loader, optimizer, accelerator):"),
        ('train(model, "phone", loader, optimizer)', 'train(model, "phone", loader, optimizer, accelerator)'),
    ]


@pytest.mark.parametrize("main", [False, True])
def test_functions_that_see_the_variable_need_no_parameter(main: bool) -> None:
    step = "def step(x, y):\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()"
    slot = {"before": step} if main else {"definitions": step}
    text = script(main=main, forward="optimizer.zero_grad()", backward="step(x, y)", **slot)
    assert changes(text, "step(", "backward") == [("loss.backward()", "accelerator.backward(loss)")]


@pytest.mark.parametrize(
    ("signature", "before", "call", "why"),
    [
        ("update(loss)", "step = update", "step(loss)", "handed on as a value"),
        ("update(loss, /)", "", "update(loss)", "positional-only"),
        ("update(loss, *rest)", "more = [1]", "update(loss, *more)", "* or ** arguments"),
        ("update(loss, **rest)", "more = dict(a=1)", "update(loss, **more)", "* or ** arguments"),
    ],
)
def test_where_it_cannot_be_passed_the_script_is_left_alone(signature: str, before: str, call: str, why: str) -> None:
    definitions = f"def {signature}:\n    loss.backward()"
    text = script(main=True, definitions=definitions, before=before, backward=call)
    finding = unchanged(text)
    assert finding.code == "ACC-REACH" and why in finding.message
    assert text.splitlines()[finding.line - 1] == f"def {signature}:"


@pytest.mark.parametrize(
    ("before", "call"),
    [("", "update(loss, accelerator=3)"), ("more = {'accelerator': 3}", "update(loss, **more)")],
)
def test_it_has_another_name_where_a_function_is_given_that_one(before: str, call: str) -> None:
    definitions = "def update(loss, **rest):\n    loss.backward()"
    after = converted(script(main=True, definitions=definitions, before=before, backward=call))
    assert "def update(loss, accel, **rest):\n    accel.backward(loss)\n" in after
    assert call.replace("(loss,", "(loss, accel,") in after


def test_a_method_that_needs_it_is_refused() -> None:
    definitions = "class Steps:\n    def step(self, model, x, y):\n        F.cross_entropy(model(x), y).backward()\n"
    text = script(main=True, definitions=definitions, before="steps = Steps()", backward="steps.step(model, x, y)")
    assert unchanged(text).code == "ACC-REACH"


def test_a_function_that_nothing_runs_is_given_the_accelerator_to_hand_on() -> None:
    """Else its call of a function that needs it would fail, should somebody call it after all."""
    call = "train(model, device, loader, optimizer)"
    unused = f"\ndef again(model, device, loader, optimizer):\n    {call}\n"
    after = converted(trains(call, call, TRAINS + unused))
    assert (
        "def again(model, device, loader, optimizer, accelerator):\n"
        "    train(model, loader, optimizer, accelerator)\n" in after
    )


@pytest.mark.parametrize(
    ("entry", "after"),
    [
        ("device: where to go to", "accelerator: the accelerator, which has the device"),
        (f"device: {'at the far left ' * 9}", "accelerator: the accelerator, which has the device"),
        ("device: Where to\n            go to {x}.", "accelerator: The accelerator, which has the device."),
        ("device (str, optional): where", "accelerator (Accelerator): the accelerator, which has the device"),
        (":param device: where", ":param accelerator: the accelerator, which has the device"),
        (":type device: torch.device", None),  # of what is not described
        (
            ":param torch.device device: where\n        :type device: str",
            ":param accelerator: the accelerator, which has the device\n        :type accelerator: Accelerator",
        ),
        (
            "device : torch.device\n            Where to go to.",
            "accelerator : Accelerator\n            The accelerator, which has the device.",
        ),
        ("model: a network on a device", None),
        ("on any device: it trains", None),
        ("device: this\n        or\n        device: that", None),
        ("device: where\n        accelerator: what", None),
        ("device: where\n    at the left\nof it", None),
    ],
)
@pytest.mark.parametrize("indent", ["    ", "  "])
def test_what_describes_the_device_describes_the_accelerator(entry: str, after: str | None, indent: str) -> None:
    loader = f"loader: batches{', and more of them' * 5}"
    doc = f'    """Trains.\n\n    Args:\n        model: a network\n        {{}}\n        {loader}\n    """\n'
    call = "train(model, device, loader, optimizer)"
    text, new = (trains(call, call, f"{doc.format(one)}{TRAINS}") for one in (entry, after or entry))
    text, new = (one.replace("    ", indent) for one in (text, new))
    start, end = new.index('"""'), new.rindex('"""')
    assert new[start:end] in converted(text)


def test_what_describes_a_device_that_stays_stays() -> None:
    definitions = 'def noise(device):\n    """Draws.\n\n    Args:\n        device: where\n    """\n    return device'
    assert definitions in converted(script(definitions=definitions, before="print(noise(device))"))


@pytest.mark.parametrize(("section", "described"), [("Parameters", True), ("Attributes", False)])
def test_what_a_class_says_of_the_device_of_its_constructor(section: str, described: bool) -> None:
    entry = f"        {section}:\n            {{}}\n"
    fit = TRAINS.replace("\n", "\n    ").replace("to(device)", "to(self.device)").replace("loader", "self.loader")
    fit = fit.replace("model(", "self.model(").replace("optimizer", "self.optimizer")
    cls = (
        f'class Trainer:\n        """Trains.\n\n{entry.format("device: where.")}        """\n\n'
        "    def __init__(self, model, loader, optimizer, device):\n        self.device = device\n"
        "        self.model, self.loader, self.optimizer = model, loader, optimizer\n\n"
        f"    def fit(self):\n    {fit}"
    ).replace('        """Trains', '    """Trains')
    made = "trainer = Trainer(model, loader, optimizer, device)\n"
    text = converted(script(main=True, definitions=cls, before=made, loop="trainer.fit()", **NO_LOOP))
    assert "def __init__(self, model, loader, optimizer, accelerator):" in text
    now = "accelerator: the accelerator, which has the device." if described else "device: where."
    assert entry.format(now) in text


KEEPS = f"""\
class Trainer{{head}}:
    def __init__(self, model, loader, optimizer, device):
        {{first}}
        self.model, self.loader, self.optimizer, self.device = model, loader, optimizer, device

{FIT.replace("device", "self.device")}"""


@pytest.mark.parametrize(
    ("head", "first", "kept_first"),
    [
        ("", "super().__init__()", False),
        ("(object)", "super(Trainer, self).__init__()", False),
        ("(nn.Module)", "super().__init__()", False),
        ("(Base)", "super().__init__()", True),
        ("", "self.steps = 0", True),
    ],
)
def test_an_object_keeps_the_accelerator_once_its_base_is_made(head: str, first: str, kept_first: bool) -> None:
    base = "class Base:\n    def __init__(self):\n        self.steps = 0\n\n\n" if "Base" in head else ""
    made = "trainer = Trainer(model, loader, optimizer, device)"
    definitions = base + KEEPS.format(head=head, first=first)
    text = script(main=True, definitions=definitions, before=made, loop="trainer.fit()", **NO_LOOP)
    keep = "self.accelerator = accelerator"
    lines = (keep, first) if kept_first else (first, keep)
    assert f"accelerator):\n        {lines[0]}\n        {lines[1]}\n" in converted(text)


NAMED = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader


def load(net, device):
    if device == "cpu":
        print("on the CPU")
    torch.save(net, "m.pt")


def train(loader, device="cuda"):
    net = nn.Linear(4, 2).to(device)
    load(net, device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x.to(device)), y.to(device)).backward()
        optimizer.step()


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
args = parser.parse_args()
{choice}
train(DataLoader(torch.load("data.pt"), batch_size=8), args.device)
"""


@pytest.mark.parametrize(
    ("choice", "asked"),
    [
        ('if args.device == "cuda" and not torch.cuda.is_available():\n    args.device = "cpu"', "device.type"),
        ("args.device = torch.device(args.device)", "device"),  # as it was: never equal
    ],
)
def test_the_name_of_a_device_that_settings_have_is_compared_as_one(choice: str, asked: str) -> None:
    assert f'    if accelerator.{asked} == "cpu":\n' in converted(NAMED.replace("{choice}", choice))
