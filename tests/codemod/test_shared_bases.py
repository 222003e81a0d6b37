"""Classes of one script that share a base: trainers, and what evaluates."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script, unchanged

LOADER = """\
torch.manual_seed(0)
data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
loader = DataLoader(data, batch_size=16, shuffle=True)
"""
BASE = """\
class Base:
    def __init__(self, loader, device):
        self.device = device
        self.loader = loader
        self.net = Net().to(self.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self):
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            loss = self.loss(x, y)
            loss.backward()
            self.optimizer.step()
        self.say("done")

    def say(self, text):
        print(text)


class Plain(Base):
    def loss(self, x, y):
        return F.cross_entropy(self.net(x), y)


class Smooth(Base):
    def __init__(self, loader, device, smoothing):
        super().__init__(loader, device)
        self.smoothing = smoothing

    def loss(self, x, y):
        return F.cross_entropy(self.net(x), y, label_smoothing=self.smoothing)
"""
BOTH = "Plain(loader, device).train()\nSmooth(loader, device, 0.1).train()\n"
HELD = """\
class Base:
    def __init__(self, net, loader, device):
        self.device = device
        self.net = net.to(self.device)
        self.loader = loader

    def loss(self, x, y):
        return F.cross_entropy(self.net(x.to(self.device)), y.to(self.device))

    def say(self, text):
        print(text)


class Trainer(Base):
    def __init__(self, net, loader, device):
        super().__init__(net, loader, device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            self.loss(x, y).backward()
            self.optimizer.step()


class Evaluator(Base):
    def run(self):
        total = 0
        with torch.no_grad():
            for x, y in self.loader:
                total += self.loss(x, y).item() * len(x)
        self.say(total / 64)
"""
LOOKED = (
    "net = Net()\nTrainer(net, loader, device).train()\nEvaluator(net, DataLoader(data, batch_size=16), device).run()\n"
)
EMPTY = dict.fromkeys(
    ("loader", "data", "model", "optimizer", "epochs", "loop", "move", "forward", "backward", "step"), ""
)


def whole(definitions: str, body: str, main: bool = False) -> str:
    """A script with some classes, which are used at module level or in a function."""
    if not main:
        return script(definitions=definitions, after=f"{LOADER}{body}", **EMPTY)
    device = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
    lines = "".join(f"    {line}\n" for line in f"{device}{LOADER}{body}".splitlines())
    return script(definitions=f"{definitions}\n\ndef main():\n{lines}", after="main()", **{**EMPTY, "device": ""})


def test_what_both_inherit_is_converted_once() -> None:
    after = converted(whole(BASE, BOTH))
    assert after.count("accelerator.backward(loss)") == 1 and "loss.backward()" not in after
    assert after.count("self.net, self.optimizer = accelerator.prepare(self.net, self.optimizer)\n") == 1
    assert after.count("accelerator.print(text)") == 1
    assert "x.to(self.device)" not in after
    assert "Plain(loader, device).train()\nSmooth(loader, device, 0.1).train()" in after


def test_constructors_of_bases_hand_the_accelerator_on() -> None:
    after = converted(whole(BASE, BOTH, main=True))
    assert "    def __init__(self, loader, device, accelerator):\n        self.accelerator = accelerator\n" in after
    assert (
        "    def __init__(self, loader, device, smoothing, accelerator):\n"
        "        super().__init__(loader, device, accelerator)\n"
        "        self.smoothing = smoothing\n"
    ) in after
    assert after.count("self.accelerator = accelerator\n") == 1
    assert "Plain(loader, device, accelerator).train()" in after
    assert "Smooth(loader, device, 0.1, accelerator).train()" in after


def test_each_constructor_that_does_something_before_keeps_it() -> None:
    definitions = BASE.replace(
        "        super().__init__(loader, device)\n",
        "        self.smoothing = 0\n        super().__init__(loader, device)\n",
    )
    after = converted(whole(definitions, BOTH, main=True))
    assert after.count("self.accelerator = accelerator\n") == 2


@pytest.mark.parametrize("main", [False, True])
def test_a_trainer_and_what_evaluates(main: bool) -> None:
    after = converted(whole(HELD, LOOKED, main))
    backward = "self.accelerator.backward(self.loss(x, y))" if main else "accelerator.backward(self.loss(x, y))"
    assert backward in after
    assert "net = accelerator.prepare(net)" in after and "self.net = net\n" in after
    assert "self.net(x.to(self.device)), y.to(self.device)" in after  # the evaluator's loader is the author's own
    assert ("PartialState().print(text)" if main else "accelerator.print(text)") in after


@pytest.mark.parametrize(
    ("definitions", "body"),
    [
        (BASE.replace("class Base:", "from abc import ABC, abstractmethod\n\n\nclass Base(ABC):"), BOTH),
        (BASE, f"{BOTH}Plain(loader, device).train()"),
        (
            BASE,
            "import sys\nif len(sys.argv) > 1:\n    Plain(loader, device).train()\nelse:\n"
            "    Smooth(loader, device, 0.1).train()",
        ),
        (
            BASE.replace(
                "class Base:",
                "class Root:\n    TIMES = 3\n\n    def stop(self):\n        print(self.TIMES)\n\n\nclass Base(Root):",
            ),
            BOTH,
        ),
        (f"{BASE}\n\nclass Third(Base):\n    pass", BOTH),  # which is never made
        (BASE.replace("super().__init__(", "Base.__init__(self, "), BOTH),
        (BASE, f"{BOTH}print(isinstance(3, Base))"),
    ],
)
def test_other_families(definitions: str, body: str) -> None:
    assert "accelerator.backward(loss)" in converted(whole(definitions, body))


@pytest.mark.parametrize(
    ("definitions", "body"),
    [
        # whose batches are not those of a prepared loader
        (
            BASE,
            "Plain(loader, device).train()\nSmooth([(torch.ones(4, 8), torch.zeros(4).long())], device, 0.1).train()",
        ),
        (BASE, f"{BOTH}print(Smooth)"),
        (BASE, f"{BOTH}Base.train(3)"),
        (BASE, f"{BOTH}Base(loader, device).train()"),
        (f"{BASE}\n\nclass Third(Base):\n    pass", f"{BOTH}print(Third)"),
        (f"{BASE}\n\nclass Third(Plain):\n    pass", f"{BOTH}Third(loader, device).train()"),
        (BASE.replace("super().__init__(", "make = super().__init__\n        make("), BOTH),
    ],
)
def test_families_that_are_left_alone(definitions: str, body: str) -> None:
    assert unchanged(whole(definitions, body)).code == "LOOP-IN-CLASS"


def test_a_base_that_is_called_by_its_name_hands_nothing_on() -> None:
    definitions = BASE.replace("super().__init__(", "Base.__init__(self, ")
    assert unchanged(whole(definitions, BOTH, main=True)).code == "LOOP-IN-CLASS"


CHOSEN = """\
class Data:
    def __init__(self):
        self.train = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)

    def loaders(self, size):
        loader = DataLoader(self.train, batch_size=size, shuffle=True)
        return loader, loader


class Other(Data):
    def loaders(self, size):
        loader = {other}
        return loader, loader


def load(name):
    data = None
    if name == "data":
        data = Data()
    if name == "other":
        data = Other()
    return data
"""
LOADERS = "import sys\ntorch.manual_seed(0)\nloader, _ = load(sys.argv[1]).loaders(16)"


def of_several(other: str) -> str:
    return script(definitions=CHOSEN.format(other=other), data="", loader=LOADERS)


def test_loaders_that_an_object_of_one_of_several_classes_makes() -> None:
    after = converted(of_several("DataLoader(self.train, batch_size=2 * size)"))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after
    assert "x.to(device)" not in after


TABLE = "def load(name):\n    made = {'data': Data, 'other': Other}[name]\n    return made()\n"


@pytest.mark.parametrize(
    "found", [TABLE, TABLE.replace("made = ", "made = TABLE").replace("{'data': Data, 'other': Other}", "")]
)
def test_loaders_of_a_class_that_is_looked_up(found: str) -> None:
    text = of_several("DataLoader(self.train, batch_size=2 * size)")
    table = "TABLE = {'data': Data, 'other': Other}\n\n\n" if "TABLE" in found else ""
    text = text[: text.index("def load(")] + table + found + text[text.index("device = ") :]
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in converted(text)
    for other in ("[3]", "self.deal(size)"):
        changed = text.replace("DataLoader(self.train, batch_size=2 * size)", other)
        assert "DATA-WHOLE" in findings(changed) and "x, y = x.to(device), y.to(device)" in converted(changed)


@pytest.mark.parametrize("third", ["int", "input()", "lambda: 3"])
def test_a_class_that_is_not_known_among_those_looked_up(third: str) -> None:
    text = of_several("DataLoader(self.train, batch_size=2 * size)")
    table = TABLE.replace("'other': Other", f"'other': Other, 'third': {third}")
    text = text[: text.index("def load(")] + table + text[text.index("device = ") :]
    assert unchanged(text).code == "LOADER-UNKNOWN"


@pytest.mark.parametrize("other", ["[self.train[0:4], self.train[4:8]]", "self.deal(size)"])
def test_what_is_no_loader_is_told_of(other: str) -> None:
    assert "DATA-WHOLE" in findings(of_several(other))
    assert "x, y = x.to(device), y.to(device)" in converted(of_several(other))


def test_a_split_in_one_of_them_is_told_of() -> None:
    text = of_several("DataLoader(torch.utils.data.random_split(self.train, [32, 32])[0], batch_size=size)")
    assert "DATA-SPLIT-UNSEEDED" in findings(text.replace("torch.manual_seed(0)\n", ""))
    assert "DATA-SPLIT-UNSEEDED" not in findings(text)


@pytest.mark.parametrize(
    "other", ["[data[0:4], data[4:8]]", "[data[i : i + 4] for i in range(0, 64, 4)]", "(data[0:4], data[4:8])"]
)
def test_batches_by_hand_on_another_setting_are_moved(other: str) -> None:
    loader = f"import sys\nloader = DataLoader(data, batch_size=16) if len(sys.argv) > 1 else {other}"
    assert "DATA-WHOLE" in findings(script(loader=loader))
    assert "x, y = x.to(device), y.to(device)" in converted(script(loader=loader))


@pytest.mark.parametrize("other", ["[]", "None", "()"])
def test_nothing_on_another_setting_is_no_other_source(other: str) -> None:
    loader = f"import sys\nloader = {other}\nif len(sys.argv) > 1:\n    loader = DataLoader(data, batch_size=16)"
    assert "DATA-WHOLE" not in findings(script(loader=loader))
    assert "x.to(device)" not in converted(script(loader=loader))


METHOD = """\
class Fit:
    def __init__(self, device):
        self.device = device

    def train(self, loader, net):
        {again}
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            x, y = x.to(self.device), y.to(self.device)
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        return net


class Method:
    def __init__(self):
        self.net = None

    def build(self):
        self.net = Net()

    def train(self, loader, device):
        self.net = Fit(device).train(loader, self.net)
"""
RUN = "method = Method()\nmethod.build()\nmethod.train(loader, device)"


def test_a_network_that_comes_back_once_it_was_moved() -> None:
    after = converted(whole(METHOD.format(again="net = net.to(self.device)"), RUN))
    assert "self.net = Net()\n        self.net = accelerator.prepare(self.net)\n" in after
    assert "self.net = Fit(device).train(loader, self.net)\n" in after and "net.to(" not in after


def test_a_network_that_comes_back_with_another_around_it() -> None:
    after = converted(whole(METHOD.format(again="net = nn.Sequential(net)"), RUN))
    assert "net, optimizer = accelerator.prepare(net, optimizer)\n" in after
    assert "self.net = Fit(device).train(loader, self.net)\n" in after


@pytest.mark.parametrize("again", ["net = Net()", 'net = net.to("cpu")'])
def test_another_network_that_comes_back(again: str) -> None:
    assert unchanged(whole(METHOD.format(again=again), RUN)).code == "PREP-NO-POINT"
