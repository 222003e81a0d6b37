"""Attributes and parameters that are bound again to what they hold: no other object, and no other place for prepare."""

from __future__ import annotations

from textwrap import indent

import pytest
from scripts import NO_BODY, NO_LOOP, convert, converted, script, unchanged

TRAINER = """\
class Trainer:
    def __init__(self, loader):
        self.loader = loader
        self.model = Net().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        {first}
        for x, y in self.loader:
            x, y = x.to(device), y.to(device)
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
        {last}
"""
LOAD = """\
def load(model, optimizer, strict=True):
    model.load_state_dict(torch.load("m.pt"), strict=strict)
    return model, optimizer


"""
INLINE = ("move", "forward", "backward", "step")
PREPARED = "self.model, self.optimizer = accelerator.prepare("


def trainer(first: str = "pass", last: str = "pass", before: str = "") -> str:
    definitions = before + TRAINER.format(first=first, last=last)
    return script(definitions=definitions, after="Trainer(loader).fit()", **NO_BODY)


@pytest.mark.parametrize(
    "parts",
    [
        {"first": "self.model = self.model.train()"},
        {"first": "self.model = self.model.train(True)", "last": "self.model = self.model.eval()"},
        {"first": "self.model = self.model.to(device)"},
        {"first": "self.model = self.model.to(device, non_blocking=True).train()"},
        {"last": "self.model, self.optimizer = load(self.model, self.optimizer)", "before": LOAD},
        {"first": "self.model, _ = load(self.model, self.optimizer)", "before": LOAD},
    ],
)
def test_a_method_binds_an_attribute_to_what_it_holds(parts: dict[str, str]) -> None:
    before, _, after = converted(trainer(**parts)).partition("    def fit(self")
    assert PREPARED in before and ".prepare(" not in after.partition("\nloader = ")[0]
    kept = parts.get("first", parts.get("last", "")).partition(" = ")[0]
    assert kept.partition(",")[0] in after


@pytest.mark.parametrize(
    "parts",
    [
        {"first": "self.model = self.model.half()"},
        {"first": "self.model = self.model.to(torch.float64)"},
        {"first": "self.model = torch.compile(self.model)"},
        {
            "last": "self.model, self.optimizer = load(self.model, self.optimizer)",
            "before": LOAD.replace(
                "    return", "    optimizer = torch.optim.SGD(model.parameters(), lr=1)\n    return"
            ),
        },
        {
            "last": "self.model, self.optimizer = load(self.model, self.optimizer)",
            "before": LOAD.replace("    return", "    if strict:\n        return Net(), optimizer\n    return"),
        },
    ],
)
def test_a_method_binds_an_attribute_to_something_else(parts: dict[str, str]) -> None:
    output = convert(trainer(**parts)).output
    assert output is None or PREPARED.encode() not in output.partition(b"    def fit(self")[0]


FIT = """\
def fit(net, data):
    {looks}
    net = net.to(device)
    for x, y in data:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
"""


def fit(looks: str, **slots: str) -> str:
    body = NO_LOOP
    return script(definitions=FIT.format(looks=looks), after="fit(model, loader)", **{**body, **slots})


@pytest.mark.parametrize("looks", ["name = type(net).__name__", "assert isinstance(net, nn.Module)", "net.eval()"])
def test_a_parameter_is_only_looked_at_before_it_is_moved(looks: str) -> None:
    text = converted(fit(looks))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in text


@pytest.mark.parametrize(
    "looks", ["kept = [net]", "other = net", "summary(net)", "vars(net)", "print(net)", "n = len(str(net))"]
)
def test_a_parameter_may_have_gone_elsewhere_before_it_is_moved(looks: str) -> None:
    assert unchanged(fit(looks, imports="from torchinfo import summary")).code == "PREP-NO-POINT"


MAKES = """\
def fit(net, data, fast=True):
    {first}
    for x, y in data:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()


def freeze(net):
    net.layer.bias.requires_grad_(False)
    return net
"""


def makes(first: str, **slots: str) -> str:
    return script(definitions=MAKES.format(first=indent(first, "    ").lstrip()), **{**NO_LOOP, **slots})


@pytest.mark.parametrize(
    "first",
    [
        "net = torch.compile(net)",
        "if fast:\n    net = torch.compile(net)",
        "net = torch.compile(net) if fast else net",
        "try:\n    net = torch.compile(net)\nexcept RuntimeError:\n    pass",
        "net = torch.jit.script(net)",
        "net = net.double()",
        "net = freeze(net)",
    ],
)
def test_a_function_prepares_what_it_makes_of_a_parameter(first: str) -> None:
    """Once it is made: whoever called has the bare one, whose parameters are the same."""
    text = converted(makes(first, after="fit(model, loader)"))
    assert indent(first, "    ") in text
    assert "\n    net = accelerator.prepare(net)\n    for x, y in data:" in text
    assert "optimizer, loader = accelerator.prepare(optimizer, loader)" in text


@pytest.mark.parametrize(
    ("first", "slots"),
    [
        ("for n in range(2):\n    net = torch.compile(net)", {}),  # it compiles what it has compiled
        (
            "for x, y in data:\n    optimizer.zero_grad()\n    F.cross_entropy(net(x), y).backward()\n"
            "    optimizer.step()\nnet = torch.compile(net)",
            {},
        ),
        (
            "net = torch.compile(net)",
            {"after": "with torch.no_grad():\n    for x, y in loader:\n        print(model(x))"},
        ),
    ],
)
def test_a_parameter_that_is_used_as_it_was_too(first: str, slots: dict[str, str]) -> None:
    after = f"fit(model, loader)\n{slots.get('after', '')}"
    assert unchanged(makes(first, after=after)).code == "PREP-NO-POINT"


@pytest.mark.parametrize(("calls", "left"), [("net = again(model)", False), ("net = again(again(model))", True)])
def test_what_is_given_back_may_come_again_through_a_caller(calls: str, left: bool) -> None:
    """It would be prepared inside of what is made of it then."""
    again = "\n\ndef again(net):\n    return fit(net, loader)\n"
    definitions = MAKES.format(first="net = torch.compile(net)").replace("step()\n", "step()\n    return net\n") + again
    text = script(definitions=definitions, **{**NO_LOOP, "after": calls})
    if left:
        assert unchanged(text).code == "PREP-NO-POINT"
    else:
        assert "\n    net = accelerator.prepare(net)\n    for x, y in data:" in converted(text)


@pytest.mark.parametrize(
    ("between", "moved"),
    [("", False), ("print(model)", False), ("print(model(torch.ones(2, 8, device=device)))", True)],
)
def test_what_happens_to_a_network_before_the_function_that_prepares_it(between: str, moved: bool) -> None:
    main = f"""
def main():
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {between or "pass"}
    fit(model, optimizer, loader)


"""
    definitions = MAKES.format(first="net = torch.compile(net)").replace("fit(net, data", "fit(net, optimizer, data")
    parts = {**NO_LOOP, "model": "", "optimizer": "", "definitions": definitions + main, "after": "main()"}
    assert ("Net().to(device)" in converted(script(**parts))) == moved


@pytest.mark.parametrize(
    ("slot", "made", "remedy"),
    [
        ("loader", "loader = DataLoader(data)\nx, y = next(iter(loader))", "a batch_sampler that deals a batch for"),
        (
            "optimizer",
            "x, y = next(iter(loader))\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
            "make one optimizer",
        ),
    ],
)
def test_what_each_iteration_makes_anew_is_not_bound_again_later(slot: str, made: str, remedy: str) -> None:
    step = "optimizer.zero_grad()\nF.cross_entropy(model(x), y).backward()\noptimizer.step()"
    body = indent(f"{made}\n{step}", "    ")
    finding = unchanged(script(**{**NO_LOOP, slot: "", "before": f"for episode in range(9):\n{body}"}))
    assert finding.code == "PREP-NO-POINT" and remedy in finding.remedy
    assert "made anew in each iteration of this loop" in finding.message


@pytest.mark.parametrize("between", ["thin(model, rate - 1)", "other(model, rate)"])
def test_a_function_that_sets_what_it_hands_back_by_calling_itself(between: str) -> None:
    """It is not followed, which has an end, and what it hands back is prepared."""
    definitions = f"""
def thin(model, rate):
    if rate:
        model = {between}
    return model


def other(model, rate):
    model = thin(model, rate)
    return model
"""
    text = script(definitions=definitions, before="model = thin(model, 2)")
    prepare = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
    assert f"model = thin(model, 2)\n{prepare}" in converted(text)


SORTED = """\
class Runner:
    def load(self, net, optimizer=None, mode="train"):
        net.load_state_dict(torch.load("m.pt"))
        if mode == "train":
            return net, optimizer, 3
        return net.to(device), 3

    def train(self):
        net = Net().to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net, optimizer, first = self.load(net, optimizer)
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()

    def test(self):
        net = Net().to(device)
        net, first = self.load(net, mode="test")
        with torch.no_grad():
            for x, y in loader:
                print(net(x.to(device)))
"""


def test_what_a_call_gives_back_is_what_that_call_was_given() -> None:
    text = script(definitions=SORTED, after="runner = Runner()\nrunner.train()\nrunner.test()", **NO_BODY)
    assert "        net, optimizer = accelerator.prepare(net, optimizer)\n        for x, y" in converted(text)
    otherwise = SORTED.replace("        net.load_state_dict", "        net = {0: net}[0]\n        net.load_state_dict")
    assert unchanged(text.replace(SORTED, otherwise)).code == "PREP-NO-POINT"


STEP = """

def step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
"""
REPLICAS = "\nif torch.cuda.device_count() > 1:\n    net = nn.DataParallel(net)"


@pytest.mark.parametrize(
    ("definition", "made"),
    [
        ("def net():\n    return Net()\n", "net = net().to(device)"),
        ("class net(Net):\n    pass\n", f"net = net().to(device){REPLICAS}"),
        ("import elsewhere as net\n", f"net = Net().to(device){REPLICAS}"),
    ],
)
def test_a_network_that_is_called_as_what_made_it(definition: str, made: str) -> None:
    """A function that trains reads the variable."""
    slots = {"optimizer": "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)", **dict.fromkeys(INLINE, "")}
    text = script(definitions=definition + STEP, model=made, **slots, loop="for x, y in loader:\n    step(x, y)")
    assert "net, optimizer = accelerator.prepare(net, optimizer)" in converted(text)
    other = text.replace("loss.backward()", "loss.backward()\n    print(net.__doc__)")
    assert "net, optimizer = accelerator.prepare(net, optimizer)" in converted(other)


def test_one_of_several_that_are_listed_is_prepared_where_it_is_made() -> None:
    slots = {"optimizer": "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)", **dict.fromkeys(INLINE, "")}
    either = "for net in (Net(), nn.Linear(8, 3)):\n    net.to(device)"
    text = script(definitions=STEP, model=either, **slots, loop="for x, y in loader:\n    step(x, y)")
    assert "in (accelerator.prepare(Net()), accelerator.prepare(nn.Linear(8, 3))):" in converted(text)
