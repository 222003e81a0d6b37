"""Methods that no accelerator reaches are handed the model itself where the wrapper would hide what they ask it for."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from scripts import converted, findings, script, unchanged

SCRIPT = """\
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader


{cls}

def look(model, helper, device):
    {look}
    return model(torch.zeros(1, 4, device=device))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 2).to(device)
    helper = {made}
    print(helper.kept)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(torch.load("data.pt"), batch_size=8, shuffle=True)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {used}
    look(model, helper, device)


main()
"""
AVERAGE = """\
class Average:
    def __init__(self, model):
        self.kept = {n: p.detach().clone() for n, p in model.named_parameters()}

    def update(self, model):
        model.eval()
        for n, p in model.named_parameters():
            self.kept[n].lerp_(p.detach(), 0.1)
        model.train()

    def follow(self, network):
        self.update(network)

    def __call__(self, network):
        self.update(model=network)
"""


def text(**parts: str) -> str:
    slots = {"cls": AVERAGE, "look": "helper.update(model)", "made": "Average(model)", "used": "helper.update(model)"}
    return SCRIPT.format(**(slots | parts))


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({}, "helper.update(accelerator.unwrap_model(model))"),
        ({"used": "helper.update(model=model)"}, "helper.update(model=accelerator.unwrap_model(model))"),
        ({"used": "helper.follow(model)"}, "helper.follow(accelerator.unwrap_model(model))"),
        ({"used": "helper(model)"}, "helper(accelerator.unwrap_model(model))"),
        ({"used": "bar.update(x)"}, "bar.update(x)"),  # of an object that nobody knows, without the model
    ],
)
def test_the_caller_unwraps_it(parts: dict[str, str], line: str) -> None:
    after = converted(text(**parts))
    assert line in after
    assert "    helper.update(accelerator.unwrap_model(model))\n    return" in after  # in look()
    assert AVERAGE in after


def test_what_is_made_before_prepare_is_handed_the_model_as_it_is() -> None:
    assert "helper = Average(model)" in converted(text())


@pytest.mark.parametrize(
    "body",
    [
        "return model(x)",  # with gradients: they would not be averaged
        "self.model = model",
        "same = model.eval()\n        return same(x)",
        "model.forward(x)",
    ],
)
def test_what_has_to_be_the_wrapper_is_not_unwrapped_by_the_caller(body: str) -> None:
    more = f"{AVERAGE}\n    def use(self, model, x):\n        len(list(model.named_modules()))\n        {body}\n"
    assert unchanged(text(cls=more, used="helper.use(model, x)")).code == "ACC-REACH"


@pytest.mark.parametrize(
    "parts",
    [
        {"used": "other.update(model)"},  # nobody knows whose method that is
        {"used": "step = helper.update if x.sum() else print\n        step(model)"},
        {"used": "helper.update(*[model])"},
        {"cls": f"{AVERAGE}\n\nclass Other(Average):\n    def update(self, model):\n        model(torch.zeros(4))\n"},
    ],
)
def test_where_not_all_calls_are_known(parts: dict[str, str]) -> None:
    assert unchanged(text(**parts)).code == "ACC-REACH"


def test_a_method_that_a_variable_holds_is_handed_the_unwrapped_model() -> None:
    after = converted(text(used="step = helper.update\n        step(model)"))
    assert "step = helper.update\n        step(accelerator.unwrap_model(model))\n" in after


def test_a_run_without_gradients_may_be_that_of_the_model_itself() -> None:
    shown = f"{AVERAGE}\n    @torch.no_grad()\n    def show(self, model, x):\n        print(model.weight, model(x))\n"
    after = converted(text(cls=shown, used="helper.show(model, x)"))
    assert "helper.show(accelerator.unwrap_model(model), x)" in after


def test_a_method_that_code_which_does_not_run_calls_with_another_model() -> None:
    unused = f"{AVERAGE}\n\ndef unused():\n    other = nn.Linear(1, 1)\n    Average(other).update(other)\n"
    assert "        helper.update(accelerator.unwrap_model(model))\n" in converted(text(cls=unused))


def test_a_method_that_is_handed_another_model_too() -> None:
    after = converted(text(used="helper.update(model)\n        helper.update(copy.deepcopy(model))"))
    assert "        helper.update(accelerator.unwrap_model(model))\n" in after


BARE = """\
class Net(nn.Linear):
    @staticmethod
    def pack(net, epoch):
        return {"width": net.in_features, "state": net.state_dict(), "epoch": epoch}


"""


@pytest.mark.parametrize(
    ("other", "reached", "told"),
    [
        ("pass", False, False),
        ("torch.save(Net.pack(model.module, 1), 'b.pt')", False, False),
        ("torch.save(Net.pack(model, 1), 'b.pt')", False, True),
        ("torch.save(Net.pack(model.module if x is None else model, 1), 'b.pt')", True, True),
    ],
)
def test_what_callers_take_out_of_its_wrapper_is_not_unwrapped_again(other: str, reached: bool, told: bool) -> None:
    used = f"torch.save(Net.pack(model.module, 0), 'a.pt')\n        {other}"
    wrapped = text(cls=BARE, used=used).replace("nn.Linear(4, 2).to(device)", "nn.DataParallel(Net(4, 2)).to(device)")
    output = converted(wrapped)
    assert "Net.pack(accelerator.unwrap_model(model), 0" in output
    assert ('"width": accelerator.unwrap_model(net).in_features' in output) == reached
    assert ("def pack(net, epoch):" in output) != reached
    assert ("CKPT-KEYS" in findings(wrapped)) == told
    assert output.count("Net.pack(accelerator.unwrap_model(model), ") == (1 if reached or other == "pass" else 2)


def test_a_network_that_an_object_calls_its_module_is_unwrapped() -> None:
    holder = """\
class Held:
    def __init__(self, device):
        self.module = nn.Linear(4, 2).to(device)


def save(net):
    torch.save({"width": net.in_features}, "a.pt")


"""
    wrapped = text(cls=holder, used="save(held.module)").replace("model = nn.Linear(4, 2)", "held = Held(device)")
    wrapped = wrapped.replace("Held(device).to(device)", "Held(device)").replace("model", "held.module")
    wrapped = wrapped.replace("def look(held.module, ", "def look(net, ").replace("return held.module(", "return net(")
    assert '"width": accelerator.unwrap_model(net).in_features' in converted(wrapped)


def handed(body: str, used: str = "ask(model)", **slots: str) -> str:
    """A script whose `main()` hands the prepared model to a function."""
    definitions = f"def ask(net, x=None):\n{indent(dedent(body), '    ')}"
    return script(main=True, definitions=definitions, epoch_end=used, **slots)


@pytest.mark.parametrize(
    ("body", "used"),
    [
        ("return net.layer", "ask(model)"),
        ("return net.layer, net.state_dict()", "ask(net=model)"),
        ("net.eval()\nprint(net.layer)", "ask(model)"),
        ("net.load_state_dict(torch.load('a.pt'))", "ask(model)"),
        ("with torch.no_grad():\n    return net(x), net.layer", "ask(model, x)"),
    ],
)
def test_the_caller_unwraps_for_a_function_without_another_use_for_the_accelerator(body: str, used: str) -> None:
    after = converted(handed(body, used))
    assert f"        {used.replace('model', 'accelerator.unwrap_model(model)')}\n" in after
    assert "def ask(net, x=None):" in after and "unwrap_model(net)" not in after


@pytest.mark.parametrize(
    "body",
    [
        "net.eval()\nreturn net.layer, net",  # which the caller may go on with
        "net.layer.note = 1\nreturn net(x).sum()",  # with gradients
        "torch.save(net.state_dict(), 'a.pt')\nreturn net.layer",
        "summary(net)\nreturn net.layer",
    ],
)
def test_a_function_gets_the_accelerator_where_it_has_another_use_for_it_or_the_wrapper(body: str) -> None:
    slots = {"from_imports": "from torchsummary import summary"}
    after = converted(handed(body, "out = ask(model, x)", **slots))
    assert "out = ask(model, accelerator, x)" in after and "accelerator.unwrap_model(net).layer" in after


def test_a_function_finds_the_accelerator_among_its_globals() -> None:
    text = script(definitions="def ask(net):\n    return net.layer", epoch_end="ask(model)")
    assert "    ask(model)\n" in converted(text) and "accelerator.unwrap_model(net).layer" in converted(text)
