"""Loaders and optimizers that objects keep whose classes do not train: `data.train`, an optimizer that warms up."""

from __future__ import annotations

import pytest
from accelift_codemod.facts.index import Index
from accelift_codemod.facts.keepers import keepers
from accelift_codemod.source import Source
from scripts import convert, converted, findings, script, unchanged

DATA = """\
class Data:
    def __init__(self, size):
        data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
        self.train = DataLoader(data, batch_size=size, shuffle=True)
        self.test = DataLoader(data, batch_size=size)
        self.classes = 3
"""
TEST = """\
right = 0
with torch.no_grad():
    for x, y in data.test:
        x, y = x.to(device), y.to(device)
        right += (model(x).argmax(1) == y).sum().item()
print(right / len(data.test.dataset))
"""
WARM = """\
class Warm:
    def __init__(self, optimizer, steps):
        self.optimizer = optimizer
        self.steps = steps
        self.n = 0

    def step(self):
        self.n += 1
        for group in self.optimizer.param_groups:
            group["lr"] = min(self.n / self.steps, 1.0)
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()
"""
MADE = f"{DATA}\n\ndef make():\n    return Data(16)\n"
SWAPPED = f"{DATA}\n    def swap(self):\n        self.__dict__['train'] = None\n"
SGD = "torch.optim.SGD(model.parameters(), lr=0.1)"


def data(definitions: str = DATA, *, main: bool = False, **slots: str) -> str:
    """A script whose loaders are attributes of an object."""
    own = {"definitions": definitions, "loader": "", "data": "data = Data(16)", "loop": "for x, y in data.train:"}
    return script(main=main, **{**own, **slots})


def flat(text: str) -> str:
    """The conversion without indentation."""
    return "\n".join(line.strip() for line in converted(text).splitlines())


def test_an_object_has_its_loaders_made_by_a_method() -> None:
    made = "DataLoader(data, batch_size=size, shuffle=True)"
    own = DATA.replace(f"self.train = {made}", "self.train = self.deal(data, size)")
    definitions = f"{own}\n    def deal(self, data, size):\n        return {made}\n"
    assert "\nself.train = accelerator.prepare(self.train)\n" in flat(data(definitions))


STATISTICS = """
    def mean(self, data):
        return torch.cat([x for x, _ in DataLoader(data)]).mean()
"""


@pytest.mark.parametrize("before", ["mean = self.mean(data)", "for x, _ in DataLoader(data):\n            print(x)"])
def test_an_object_goes_over_another_loader_before_it_makes_those_that_it_keeps(before: str) -> None:
    first = "self.train = DataLoader(data, batch_size=size, shuffle=True)"
    definitions = f"{DATA.replace(first, f'{before}{chr(10)}        {first}')}{STATISTICS}"
    assert "\nself.train = accelerator.prepare(self.train)\n" in flat(data(definitions))


@pytest.mark.parametrize("again", ["DataLoader(data, batch_size=4)", "self.train"])
def test_an_object_goes_over_the_loader_that_it_makes_anew(again: str) -> None:
    first = "self.train = DataLoader(data, batch_size=size, shuffle=True)"
    before = f"self.train = DataLoader(data)\n        mean = self.mean()\n        self.train = {again}"
    statistics = STATISTICS.replace("self, data", "self").replace("DataLoader(data)", "self.train")
    assert unchanged(data(f"{DATA.replace(first, before)}{statistics}")).code == "PREP-NO-POINT"


BOTH = "self.train, self.test = accelerator.prepare(self.train, self.test)\n"


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"data": "data = Data(size=16)\nmore = Data(8)", "epoch_end": TEST.replace("data.", "more.")},
        {"loader": "loader = data.train", "loop": "for x, y in loader:"},
        {"definitions": f"{DATA}\n\ndef size(d):\n    return len(d.train.dataset)\n", "after": "assert size(data)"},
    ],
)
def test_loaders_in_an_object_are_prepared_where_it_keeps_them(slots: dict[str, str]) -> None:
    after = flat(data(**{"epoch_end": TEST} | slots))
    assert after.count(".prepare(") == 2 and BOTH in after
    assert "model, optimizer = accelerator.prepare(model, optimizer)\n" in after
    assert after.index("accelerator = Accelerator(") < after.index("data = Data(")


def test_an_object_that_a_function_makes() -> None:
    after = flat(data(MADE, data="data = make()"))
    assert after.count(".prepare(") == 2 and "self.train = accelerator.prepare(self.train)\n" in after
    assert after.index("accelerator = Accelerator(") < after.index("data = make()")


def test_the_object_is_handed_the_accelerator() -> None:
    after = flat(data(main=True))
    assert "def __init__(self, size, accelerator):\nself.accelerator = accelerator\n" in after
    assert "data = Data(16, accelerator)\n" in after and "self.train = accelerator.prepare(self.train)\n" in after


def test_loaders_that_a_function_takes_out_of_a_new_object_are_prepared_there() -> None:
    load = f"{DATA}\n\ndef load():\n    data = Data(16)\n    return data.train, data.test\n"
    after = flat(data(load, data="train, test = load()", loop="for x, y in train:"))
    assert "model, optimizer, train = accelerator.prepare(model, optimizer, train)\n" in after


@pytest.mark.parametrize(
    ("slots", "code", "said"),
    [
        ({"loader": "data.train = DataLoader(data.train.dataset)"}, "PREP-NO-POINT", "`data.train`"),
        (
            {"data": "data = make()", "definitions": MADE.replace("return Data(16)", "return [Data(16)][0]")},
            "LOADER-UNKNOWN",
            "of Data cannot be followed: the Data made here is not kept in one variable",
        ),
        ({"data": "data = [Data(16)][0]"}, "LOADER-UNKNOWN", "the attributes of Data cannot be followed"),
        ({"data": "data = Data(16)\nvars(data)['train'] = None"}, "LOADER-UNKNOWN", "is handed on"),
        ({"definitions": DATA.replace("Data:", "Data(dict):")}, "LOADER-UNKNOWN", "has a base class"),
        ({"definitions": SWAPPED}, "LOADER-UNKNOWN", "in another way"),
    ],
)
def test_objects_whose_attributes_may_be_anything(slots: dict[str, str], code: str, said: str) -> None:
    finding = unchanged(data(**slots))
    assert finding.code == code and said in finding.message


# ---- optimizers


@pytest.mark.parametrize(
    ("made", "prepared"),
    [
        (
            f"optimizer = Warm({SGD}, 10)",
            [
                "self.optimizer = accelerator.prepare(optimizer)\nself.steps",
                f"Warm({SGD}, 10)\nmodel, loader = accelerator.prepare(model, loader)",
            ],
        ),
        (
            f"sgd = {SGD}\noptimizer = Warm(sgd, 10)",
            ["model, sgd, loader = accelerator.prepare(model, sgd, loader)\noptimizer = Warm(sgd, 10)\n"],
        ),
    ],
)
def test_an_optimizer_in_an_object_of_the_script_is_prepared(made: str, prepared: list[str]) -> None:
    text = script(definitions=WARM, optimizer=made)
    after = flat(text)
    assert all(lines in after for lines in prepared), after
    assert findings(text) == []


@pytest.mark.parametrize(
    "made",
    [f"optimizer = Warm({SGD}, 10)\noptimizer.optimizer = {SGD}", f"optimizer = [Warm({SGD}, 10)][0]"],
)
def test_an_optimizer_in_an_object_that_cannot_be_followed(made: str) -> None:
    assert unchanged(script(definitions=WARM, optimizer=made)).code == "PREP-NO-POINT"


# ---- facts


BUILDING = "def built(data):\n    return DataLoader(data)\n"
BUILDERS = """:
    def built(self, data):
        made = DataLoader(data)
        return made

    def both(self):
        first, second = DataLoader([1]), DataLoader([2])
        return first, second

    def further(self, n):
        if n:
            return self.other(n)
        return self.built([1])

    def other(self, n):
        return [n]

    def looping(self):
        return self.looping()
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("self.loader = DataLoader([1])", True),
        ("self.a, self.b = DataLoader([1]), DataLoader([2])", True),
        ("self.loaders['a'] = DataLoader([1])", True),
        ("loader = DataLoader([1])\n        self.loader = loader", True),
        ("a = DataLoader([1])\n        self.a, self.b = a, 3", True),
        ("loader = DataLoader([1])\n        self.loader = len(loader)", False),
        ("self.optimizer.step()", True),
        ("loader = DataLoader([1])", False),
        ("return DataLoader([1])", False),
        ("self.loader = make([1])", False),
        ("self.loader = built([1])", True),
        ("self.loader = self.built([1])", True),
        ("self.a, self.b = self.both()", True),
        ("self.loader = self.further(2)", True),
        ("self.net = self.other(3)", False),
        ("self.loader = self.looping()", False),
        ("loader = self.built([1])", False),
        ("self.loader = other.built([1])", False),
        ("mean = zip(self.a, net.state_dict().values())", False),
        ("step()", False),
        ("optimizer.step()", False),
        ("state_dict()", False),
        ("kept = net.state_dict(prefix='a')", False),
    ],
)
def test_which_classes_keep_what_trains(body: str, found: bool) -> None:
    text = f"from torch.utils.data import DataLoader\n{BUILDING}\nclass A{BUILDERS}\n    def f(self):\n        {body}\n"
    index = Index(Source.decode(text.encode(), "x.py").tree)
    assert bool(keepers(index)) is found


# ---- objects that save networks, or copy their state


STOPPER = """\
class Stopper{base}:
    def __init__(self, path):
        self.path, self.best = path, None

    def __call__(self, loss, net):
        if self.best is None or loss < self.best:
            self.best = loss
            self.save(net)

    def save(self, net):
        torch.save({saved}, self.path)
"""
STOP = {"before": "stopper = Stopper('best.pt')", "epoch_end": "stopper(epoch, model)"}
COPY = """\
class Average:
    def __init__(self, rate):
        self.rate = rate

    def update(self, mean, net):
        self.reset(mean, net)

    def reset(self, mean, net):
        mean.load_state_dict(net.state_dict())
"""


@pytest.mark.parametrize(
    ("saved", "after"),
    [
        ("net.state_dict()", "accelerator.unwrap_model(net).state_dict()"),
        ("net", "accelerator.unwrap_model(net)"),
        ("{'net': net.state_dict(), 'best': self.best}", "{'net': accelerator.unwrap_model(net).state_dict(), "),
    ],
)
def test_an_early_stopper_saves_by_the_accelerator(saved: str, after: str) -> None:
    definitions = STOPPER.replace("{base}", "").replace("{saved}", saved)
    output = converted(script(**STOP, definitions=definitions))
    assert f"        accelerator.save({after}" in output and findings(script(**STOP, definitions=definitions)) == []
    inside = converted(script(**STOP, definitions=definitions, main=True))
    assert "self.accelerator.unwrap_model(net)" in inside and "self.accelerator.save(" in inside
    assert "stopper = Stopper('best.pt', accelerator)" in inside


def test_one_whose_base_is_not_known_is_given_the_network_alone() -> None:
    definitions = STOPPER.replace("{base}", "(Base)").replace("{saved}", "net.state_dict()")
    text = script(**STOP, definitions=definitions, from_imports="from elsewhere import Base")
    output = converted(text)
    assert "    stopper(epoch, accelerator.unwrap_model(model))\n" in output
    assert "        if accelerator.is_main_process:\n            torch.save(net.state_dict(), self.path)\n" in output


MEAN = """\
class Mean:
    def __init__(self, net, rate=0.9):
        self.net, self.rate = copy.deepcopy(net), rate

    def update(self, net):
        for mine, new in zip(self.net.{state}, net.{state}):
            mine.copy_(self.rate * mine + (1 - self.rate) * new)
"""


@pytest.mark.parametrize("state", ["state_dict().values()", "parameters()"])
def test_a_mean_that_asks_for_the_state_of_a_network(state: str) -> None:
    slots = {"before": "mean = Mean(model)", "batch_end": "mean.update(model)", "definitions": MEAN.format(state=state)}
    output = converted(script(imports="import copy", main=True, **slots))
    asked = state.startswith("state")  # parameters are the same ones in the wrapper, in the same order
    assert ("mean.update(accelerator.unwrap_model(model))" in output) == asked
    assert "Mean(model)" in output


def test_an_average_of_a_network_takes_its_own_state() -> None:
    before = "import copy\nmean, average = copy.deepcopy(model), Average(0.9)"
    slots = {"before": before, "batch_end": "average.update(mean, model)", "definitions": COPY}
    output = converted(script(**slots, main=True))
    assert "average.update(mean, accelerator.unwrap_model(model))" in output
    assert COPY in output and "Average(0.9)" in output
    plain = COPY.replace("net.state_dict()", "net")  # a state that is handed in
    output = converted(script(**slots | {"definitions": plain, "batch_end": "average.update(mean, mean.state_dict())"}))
    assert "mean.load_state_dict(net)" in output and "Average(0.9)" in output


STATE = """\
{head}


def train(state, loader):
    for x, y in loader:
        state.opt.zero_grad()
        loss = F.cross_entropy(state.net(x.to(device)), y.to(device))
        loss.backward()
        state.opt.step()
    torch.save(state.net.state_dict(), "net.pt")
"""
CLASS = "class State:\n    def __init__(self, net, opt):\n        self.net = net\n        self.opt = opt"
FIELDS = "class State:\n    net: nn.Module\n    opt: torch.optim.Optimizer\n    step: int = 0"


@pytest.mark.parametrize(
    ("head", "seen"),
    [
        (CLASS, True),
        (f"@dataclass\n{FIELDS}", True),
        (f"@dataclasses.dataclass(frozen=True)\n{FIELDS}", True),
        (f"@dataclass(slots=True)\n{FIELDS}", False),
        (f"@dataclass\n{FIELDS}\n\n    def more(self):\n        return self.step", False),
        (f"@register\n{FIELDS}", False),
    ],
)
def test_what_an_object_keeps_of_its_arguments_is_prepared_before(head: str, seen: bool) -> None:
    """Else the object would have the network without its wrapper."""
    text = script(
        imports="import dataclasses\nfrom dataclasses import dataclass\nfrom other import register",
        definitions=STATE.format(head=head),
        before="state = State(model, optimizer)",
        epoch="train(state, loader)",
        **dict.fromkeys(("loop", "move", "forward", "backward", "step"), ""),
    )
    result = convert(text)
    output = result.output.decode() if result.output is not None else ""
    assert ("accelerator.unwrap_model(state.net).state_dict()" in output) == seen
    if seen:
        assert output.index("accelerator.prepare(model") < output.index("state = State(model")


@pytest.mark.parametrize(
    ("made", "given", "after"),
    [
        (
            "",
            "torch.optim.SGD(model.parameters(), lr=0.1)",
            "State(model, accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.1)))",
        ),
        ("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "optimizer", "State(model, optimizer)"),
    ],
)
def test_an_optimizer_that_is_made_for_a_dataclass_is_prepared_there(made: str, given: str, after: str) -> None:
    """The constructor that Python makes of the fields is nowhere in the source."""
    text = script(
        imports="from dataclasses import dataclass",
        definitions=STATE.format(head=f"@dataclass\n{FIELDS}"),
        optimizer=made,
        before=f"state = State(model, {given})",
        epoch="train(state, loader)",
        **dict.fromkeys(("loop", "move", "forward", "backward", "step"), ""),
    )
    output = converted(text)
    assert f"state = {after}" in output and output.count("torch.optim.SGD") == 1
    assert output.index("accelerator.prepare(model") < output.index("state = State(model")
