"""Where objects are prepared that reach the training by detours: under conditions, by other names, out of tuples."""

from __future__ import annotations

import pytest
from scripts import (
    NO_BODY,
    NO_LOOP,
    REBOUND,
    TRAINS,
    convert,
    converted,
    findings,
    lifted,
    script,
    severities,
    unchanged,
)
from test_trainers import DATA, lines, trainer

LOADER = f"DataLoader({DATA}, batch_size=16)"
FIT = "t = Trainer()\nt.fit()"
SWITCH = "import sys\nt = Trainer(len(sys.argv) > 1)\nt.fit()"
TEST = """\
def test(self):
    for x, y in {}:
        print(self.model(x.to(self.device)).sum().item())"""


# ---- loaders that are copied


@pytest.mark.parametrize(
    "parts",
    [
        {"fit": "def fit(self):\n    loader = self.loader", "loop": "for x, y in loader:"},
        {"fit": "def fit(self):\n    a = self.loader\n    b = a", "loop": "for x, y in b:"},
        {"methods": TEST.format("self.again"), "last": "self.again = self.loader"},
        {
            "fit": "def fit(self):\n    batches = iter(self.loader)",
            "loop": "for n in range(9):",
            "move": "if n == 4:\n    batches = iter(self.loader)\nx, y = next(batches)",
        },
    ],
)
def test_a_loader_is_prepared_before_another_variable_gets_it(parts: dict[str, str]) -> None:
    after = lines(trainer(FIT, **parts))
    prepared = "self.accelerator.prepare(\nself.model, self.optimizer, self.loader\n)"
    assert after.count("prepare(") == 1 and prepared in after
    assert "= self.loader" not in after[: after.index(prepared)]


HANDED_IN = {"signature": "def __init__(self, a, b):", "loader": "self.a = a\nself.b = b"}
CHOSEN = {
    "fit": "def fit(self, first):\n    if first:\n        loader = self.a\n    else:\n        loader = self.b",
    "loop": "for x, y in loader:",
}


def test_loaders_that_a_method_chooses_from_are_prepared_where_they_are_made() -> None:
    body = f"a = {LOADER}\nb = {LOADER}\nt = Trainer(a, b)\nt.fit(True)\nt.fit(False)"
    after = lines(trainer(body, **HANDED_IN, **CHOSEN))
    assert "b, a = accelerator.prepare(b, a)\nt = Trainer(a, b)" in after
    assert "self.model, self.optimizer = accelerator.prepare(self.model, self.optimizer)" in after


def test_a_loader_that_is_drawn_from_anew_is_prepared_where_it_is_made() -> None:
    drawn = {
        "fit": "def fit(self):\n    batches = iter(self.b)",
        "loop": "for n in range(9):",
        "move": "if n % 4 == 3:\n    batches = iter(self.b)\nx, y = next(batches)",
    }
    after = lines(trainer(f"a = 1\nb = {LOADER}\nt = Trainer(a, b)\nt.fit()", **HANDED_IN, **drawn))
    assert "b = accelerator.prepare(b)\nt = Trainer(a, b)" in after


@pytest.mark.parametrize(
    "parts",
    [
        # one of the two variables is another loader later
        {"last": f"self.again = self.loader\nself.again = {LOADER}", "methods": TEST.format("self.again")},
        # a network under two names
        {"last": "self.net = self.model", "forward": "loss = (self.net(x) + self.model(x)).sum()"},
    ],
)
def test_what_is_under_two_names_has_no_place(parts: dict[str, str]) -> None:
    assert unchanged(trainer(f"{FIT}\nt.test()" if "methods" in parts else FIT, **parts)).code == "PREP-NO-POINT"


# ---- attributes that are made under conditions


def test_what_is_made_under_a_condition_is_prepared_under_it() -> None:
    after = lines(
        trainer(SWITCH, signature="def __init__(self, train):", loader=f"if train:\n    self.loader = {LOADER}")
    )
    assert f"if train:\nself.loader = {LOADER}\nself.loader = self.accelerator.prepare(self.loader)\n" in after
    assert "self.model, self.optimizer = self.accelerator.prepare(\nself.model, self.optimizer\n)" in after


def test_what_is_made_under_several_conditions_is_prepared_under_each() -> None:
    made = f"if train:\n    self.loader = {LOADER}\nif not train:\n    self.loader = {LOADER}"
    after = lines(trainer(SWITCH, signature="def __init__(self, train):", loader=made))
    assert after.count(f"self.loader = {LOADER}\nself.loader = self.accelerator.prepare(self.loader)\n") == 2


@pytest.mark.parametrize(
    "made",
    [
        "self.loader = None\nif train:\n    self.loader = {}",
        "if train:\n    self.loader = {}\nelse:\n    self.loader = None",
        "if train:\n    self.loader = {}\nelse:\n    raise ValueError(train)",
        "if train:\n    self.loader = {}\nprint(len(self.loader))",
        "self.build(train)",
    ],
)
def test_what_is_there_in_any_case_is_prepared_with_the_rest(made: str) -> None:
    build = f"def build(self, train):\n    if train:\n        self.loader = {LOADER}\n    print(len(self.loader))"
    text = trainer(SWITCH, signature="def __init__(self, train):", loader=made.format(LOADER), methods=build)
    after = lines(text)
    assert "self.model, self.optimizer, self.loader = self.accelerator.prepare(" in after and findings(text) == []


@pytest.mark.parametrize(
    ("made", "build"),
    [
        ("self.build(train)", "if train:\n        self.loader = {}"),
        ("self.build(train)", "if not train:\n        return\n    self.loader = {}"),
        ("self.build(train)", "if train:\n        self.loader = {}\n    print(train and self.loader)"),
        ("if train:\n    self.build(train)", "if train:\n        self.loader = {}"),
    ],
)
def test_what_may_not_be_there_is_not_prepared(made: str, build: str) -> None:
    text = trainer(
        SWITCH,
        signature="def __init__(self, train):",
        loader=made.replace("{}", LOADER),
        methods=f"def build(self, train):\n    {build}".replace("{}", LOADER),
    )
    finding = unchanged(text)
    assert finding.code == "PREP-NO-POINT" and "may not be there" in finding.message


def _chosen(between: str) -> str:
    made = "if deep:\n    model = Net()\nelif wide:\n    model = Net()"
    return script(setup="deep, wide = True, False", model=f"{made}\n{between}", optimizer=_OPTIMIZER, **_NO_LOOP)


_OPTIMIZER = "optimizer = torch.optim.SGD([p for m in nets for p in m.parameters()], lr=0.1)"
_NO_LOOP = {"before": "if wide:\n    exit()"}  # what comes later may not be read any more


@pytest.mark.parametrize("between", ["nets = [model]", "print(model)\nnets = [model] if deep else [model]"])
def test_a_variable_that_was_read_before_is_there(between: str) -> None:
    assert "accelerator.prepare(" in converted(_chosen(between))


@pytest.mark.parametrize("between", ["nets = [model] if deep else []", "nets = [model for _ in range(1)]"])
def test_a_variable_that_was_perhaps_read_before_may_not_be_there(between: str) -> None:
    assert unchanged(_chosen(between)).code == "PREP-NO-POINT"


# ---- entries of tuples that are handed in

SPLIT = {"signature": "def __init__(self, data, train):"}
GIVEN = f"""\
import sys
train = len(sys.argv) > 1
if train:
    data = ({LOADER}, {LOADER})
else:
    data = {LOADER}
t = Trainer(data, train)
t.fit()
"""


def test_entries_of_a_tuple_that_may_be_something_else_are_prepared_in_their_attributes() -> None:
    given = "if train:\n    self.loader = data[0]\n    self.other = data[1]\nelse:\n    self.other = data"
    after = lines(trainer(GIVEN, **SPLIT, loader=given))
    assert "self.loader = data[0]\nself.loader = self.accelerator.prepare(self.loader)\nself.other = data[1]" in after


@pytest.mark.parametrize(
    "given",
    ["for n in range(2):\n    self.loader = data[0]", "self.loader = data[0]\nself.loader = data[1]"],
)
def test_entries_that_are_taken_out_several_times_are_not(given: str) -> None:
    assert unchanged(trainer(GIVEN, **SPLIT, loader=given)).code == "PREP-NO-POINT"


# ---- arguments that a method hands back


def test_a_model_that_is_handed_on_by_its_own_method_is_prepared_before() -> None:
    text = """\
def test(model, loader):
    net = model.eval()
    for x, y in loader:
        print(net(x.to(device)).sum().item())
"""
    after = converted(script(definitions=text, epoch="test(model.eval(), loader)"))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after
    assert "test(model.eval(), loader" in after


# ---- loaders that may not be there


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("loader = None\nif torch.rand(1) < 2:\n    loader = {}", "prepare(loader, device_placement=[False])"),
        ("loader = {}", "prepare_data_loader(loader, device_placement=False)"),
    ],
)
def test_prepare_takes_what_may_be_none(before: str, call: str) -> None:
    text = script(loader=before.format(LOADER), move="print(x.numpy().sum())\nx, y = x.to(device), y.to(device)")
    assert f"loader = accelerator.{call}\n" in converted(text)


STRATEGY = "import sys\nmode = sys.argv[1] if len(sys.argv) > 1 else 'a'"
FIRST = f"{STRATEGY}\nif mode == 'a':\n    loader = {LOADER}\nelif mode == 'b':\n    loader = {LOADER}"


def test_one_that_may_only_be_made_later_is_prepared_where_it_is_made() -> None:
    after = converted(script(loader=FIRST, epoch=f"if mode == 'c':\n    loader = {LOADER}"))
    made = f"    loader = {LOADER}\n    loader = accelerator.prepare(loader)\n"
    assert f"if mode == 'a':\n{made}elif mode == 'b':\n{made}model" in after
    assert "model, optimizer = accelerator.prepare(model, optimizer)\n" in after


@pytest.mark.parametrize("epoch", ["", "loader = loader"])
def test_one_without_which_the_script_fails_is_prepared_with_the_others(epoch: str) -> None:
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in converted(
        script(loader=FIRST, epoch=epoch)
    )


# ---- a network that a function is handed and moves


TRAIN = """\
def train(net):
    {first}
    net = net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""
HANDED = {"optimizer": "", "after": "train(model)\nprint(model(torch.ones(1, 8).to(device)))"} | dict.fromkeys(
    ("epochs", "loop", "move", "forward", "backward", "step"), ""
)


@pytest.mark.parametrize(
    "first",
    [
        "count = sum(p.numel() for p in net.parameters())",
        "net.train()",
        "w = net.layer.weight.norm()",
    ],
)
def test_it_is_prepared_before_it_is_handed_in_whatever_is_read_first(first: str) -> None:
    after = converted(script(definitions=TRAIN.format(first=first), **HANDED))
    assert "model, loader = accelerator.prepare(model, loader)\ntrain(model)\n" in after
    assert "net = accelerator.prepare" not in after and "optimizer = accelerator.prepare(optimizer)\n" in after


@pytest.mark.parametrize("first", ["net.layer = nn.Linear(8, 3)", "net.layer.bias = None", "net = nn.Sequential(net)"])
def test_it_is_not_if_the_function_changes_what_it_is_made_of(first: str) -> None:
    text = script(definitions=TRAIN.format(first=first), **HANDED)
    assert (
        "model, loader = accelerator.prepare(model, loader)\ntrain(model)\n"
        not in (convert(text).output or b"").decode()
    )


AGAIN = """\
def train(net):
    net = net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(2):
        {first}
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x.to(device)), y.to(device)).backward()
            optimizer.step()
        {last}
"""
PREPARED = "model, loader = accelerator.prepare(model, loader)\ntrain(model)\n"


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("net = net.train()", "print(epoch)"),
        ("net = net.train()", "net = net.eval()\n        print(net(torch.ones(1, 8).to(device)))"),
        ("net = net.to(device).train()", "net = net.eval().cuda()"),
    ],
)
def test_a_network_that_is_bound_again_to_itself_is_what_it_was(first: str, last: str) -> None:
    after = converted(script(definitions=AGAIN.format(first=first, last=last), **HANDED))
    assert PREPARED in after and "net = accelerator.prepare" not in after


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("net = net.train()", "net = nn.Sequential(net)"),
        ("net = net.train()", "net = nn.Linear(8, 3).to(device)"),
        ("net.layer = nn.Linear(8, 3)", "net = net.eval()"),
        ("keep.append(net)", "net = net.eval()"),
    ],
)
def test_one_that_may_become_another_is_not(first: str, last: str) -> None:
    text = script(before="keep = []", definitions=AGAIN.format(first=first, last=last), **HANDED)
    assert PREPARED not in (convert(text).output or b"").decode()


# ---- loaders that only evaluate, and have no place to be prepared at

MEASURE = """\
def measure(net, rows):
    rows = rows or DataLoader(data)
    right = 0
    with torch.no_grad():
        for x, y in rows:
            right += (net(x.to(device)).argmax(1) == y.to(device)).sum().item()
    return right
"""
HELD = "loader = DataLoader(data, batch_size=16, shuffle=True)\nheld = DataLoader(data, batch_size=16)"


def test_an_evaluation_whose_loader_has_no_place_is_made_by_every_process() -> None:
    slots = {"definitions": MEASURE, "loader": HELD, "epoch_end": "print(measure(model, held))"}
    after = {"definitions": MEASURE, "loader": HELD, "epoch_end": "accelerator.print(measure(model, held))"}
    assert converted(script(**slots)) == lifted(device=REBOUND, **after)
    assert findings(script(**slots)) == ["EVAL-REPLICATED"]
    known = MEASURE.replace("    rows = rows or DataLoader(data)\n", "")
    shared = converted(script(**{**slots, "definitions": known}))
    assert "loader, held = accelerator.prepare(model, optimizer, loader, held)" in shared


FIT_AGAIN = """\
def measure(net, rows):
    rows = rows or DataLoader(data)
    for x, y in rows:
        optimizer.zero_grad()
        F.cross_entropy(net(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""


def test_one_that_trains_has_to_have_a_place() -> None:
    text = script(definitions=FIT_AGAIN, loader=HELD, epoch_end="measure(model, held)")
    assert unchanged(text).code == "PREP-NO-POINT"


ONCE = {
    "definitions": "def train(net):\n    for x, y in loader:\n"
    "        loss = F.cross_entropy(net(x.to(device)), y.to(device))\n"
    "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n    return net",
    "loader": "loader = DataLoader(data, batch_size=16)\nother = DataLoader(data, batch_size=16)",
    **NO_LOOP,
}
TESTED = "for x, y in other:\n    print(best(x.to(device)).argmax(1))"


@pytest.mark.parametrize(
    "after",
    [
        f"best = train(model)\n{TESTED}",
        f"train(model)\nbest = model.eval()\n{TESTED}",
        "train(model)\nbest = model\ntrain(best)",
    ],
)
def test_a_variable_that_gets_the_network_when_training_has_begun(after: str) -> None:
    begun = after.partition("\n")[0]
    before, _, rest = converted(script(**ONCE, after=after)).partition(f"\n{begun}\n")
    assert before.count(" = accelerator.prepare(") == 1 and "best" not in before and "prepare" not in rest
    assert "best" in begun + rest


@pytest.mark.parametrize(
    "after",
    [
        f"best = model.eval()\n{TESTED}\ntrain(model)",  # which of them would be prepared?
        f"for fold in range(2):\n    best = train(model)\n{TESTED}",
        f"train(model)\nif len(data) > 9:\n    best = nn.Linear(8, 3)\nelse:\n    best = model\n{TESTED}\ntrain(best)",
    ],
)
def test_a_variable_that_may_have_it_before_or_have_another_one(after: str) -> None:
    assert unchanged(script(**ONCE, after=after)).code == "PREP-NO-POINT"


COPIED = """\
{}
for epoch in range(2):
    train(model)
    if test(model, other) < 1:
        best = copy.deepcopy(model)
test(best, other)"""
MEASURED = f"""{ONCE["definitions"]}


def test(net, rows):
    wrong = 0
    with torch.no_grad():
        for x, y in rows:
            wrong += (net(x.to(device)).argmax(1) != y.to(device)).sum().item()
    return wrong"""


def aliased(begin: str) -> str:
    """A script that keeps the best network, of which one has two names at first."""
    return script(**{**ONCE, "definitions": MEASURED}, imports="import copy", after=COPIED.format(begin))


@pytest.mark.parametrize("begin", ["best = model", "best = model\nmodel.train()"])
def test_a_network_is_prepared_before_it_gets_another_name_that_later_has_copies(begin: str) -> None:
    after = converted(aliased(begin))
    assert "\nmodel, optimizer, loader, other = accelerator.prepare(model, optimizer, loader, other)\n" in after
    assert after.index("accelerator.prepare(") < after.index(begin)
    assert "best = copy.deepcopy(accelerator.unwrap_model(model))" in after


@pytest.mark.parametrize(
    "begin",
    [
        "best = model\nbest.load_state_dict(torch.load('best.pt'))",
        "best = model\nmodel.apply(print)",
        "best = Net().to(device)\nsecond = torch.optim.SGD(best.parameters(), lr=0.1)\nfor x, y in other:\n"
        "    second.zero_grad()\n    F.cross_entropy(best(x.to(device)), y.to(device)).backward()\n    second.step()\n"
        "best = model",
    ],
)
def test_one_that_is_changed_before_it_trains_or_beside_another_one_has_no_place(begin: str) -> None:
    assert unchanged(aliased(begin)).code == "PREP-NO-POINT"


GETS = """\
class Loss(Net):
    def loss(self, x, y):
        return F.cross_entropy(self.layer(x), y), 0.0


def build(cuda):
    {}
    if cuda:
        net.cuda()
    return net
"""


def test_a_network_of_which_only_methods_are_run_is_in_the_variable_that_they_are_run_of() -> None:
    slots = {"device": "cuda = torch.cuda.is_available()", "model": "model = build(cuda)"}
    run = {
        "move": "if cuda:\n    x, y = x.cuda(), y.cuda()",
        "forward": "optimizer.zero_grad()\nloss, _ = model.loss(x, y)",
    }
    output = converted(script(definitions=GETS.format("net = Loss()"), **slots, **run))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in output
    # of which its methods are run under two names, there is no one variable
    other = run["forward"].replace("model.loss", "(model if len(x) > 3 else other).loss")
    text = script(
        definitions=GETS.format("net = Loss()"), **slots, **{**run, "forward": other}, before="other = model.half()"
    )
    assert unchanged(text).code == "PREP-NO-POINT"


MAIN = """\
def main(wanted):
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    held = DataLoader(data, batch_size=16)
{made}
{before}
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
{after}


main(input())
"""


def maybe(made: str, before: str = "    print(wanted)", after: str = "    print(wanted)") -> str:
    empty = dict.fromkeys(("epochs", "loop", "move", "forward", "backward", "step", "loader", "model", "optimizer"), "")
    return script(**empty, definitions="", before=MAIN.format(made=made, before=before, after=after))


ENDS = "    if wanted:\n        print(wanted)\n        return"


@pytest.mark.parametrize(
    ("made", "before", "after"),
    [
        ("    if not wanted:\n        loader = DataLoader(data, batch_size=8)", ENDS, "    print(wanted)"),
        (
            "    if wanted:\n        pass\n    else:\n        loader = DataLoader(data, batch_size=8)",
            ENDS,
            "    return 3",
        ),
        (
            "    loader = held\n    if wanted:\n        shown = True\n        extra = DataLoader(data, batch_size=8)\n"
            "    else:\n        shown = False",
            "    print(wanted)",
            "        if shown:\n            for x, y in extra:\n                print(model(x.to(device)).shape)",
        ),
    ],
)
def test_a_loader_is_prepared_where_it_is_made_if_it_may_not_be_there(made: str, before: str, after: str) -> None:
    output = converted(maybe(made, before, after))
    name = "extra" if "extra" in made else "loader"
    places = [part.split("(")[0] for part in output.split(f"        {name} = DataLoader(data, batch_size=8)\n")[1:]]
    assert len(places) == 1 and places[0].startswith(f"        {name} = accelerator.prepare")
    assert f"\n    {name} = accelerator.prepare" not in output


@pytest.mark.parametrize(
    "made",
    [
        "    for name in wanted:\n        loader = DataLoader(data, batch_size=8)",
        "    try:\n        loader = DataLoader(data, batch_size=8)\n    except ValueError:\n        print(wanted)",
        "    if not wanted:\n        loader = DataLoader(data, batch_size=8)\n        print(next(iter(loader)))",
    ],
)
def test_other_loaders_that_may_not_be_there(made: str) -> None:
    output = (convert(maybe(made, ENDS)).output or b"").decode()
    assert "batch_size=8)\n        loader = accelerator" not in output


def test_a_loader_that_is_there_anyway_is_prepared_with_the_others() -> None:
    arms = "    if wanted:\n        {}\n    else:\n        {}"
    made = arms.format("loader = DataLoader(data, batch_size=8)", "loader = DataLoader(data, batch_size=4)")
    assert "batch_size=8)\n        loader = accelerator" not in converted(maybe(made))


# ---- networks that stay on the CPU, or go back there

APART = """\
def test(loader):
    net = Net()
    MOVED
    net.load_state_dict(torch.load("net.pt"))
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += (net(x).argmax(1) == y).sum().item()
    print(right)
"""


@pytest.mark.parametrize(
    ("moved", "after", "placed"),
    [
        ("net.cuda()", "test(test_loader)", True),  # the data is on the GPU
        ("net.layer.cuda()", "test(test_loader)", True),
        ("pass", "for x, y in test_loader:\n    print(model(x).argmax(1).sum().item())", True),
        ("pass", "model.cpu()\nfor x, y in test_loader:\n    print(model(x).argmax(1).sum().item())", False),
    ],
)
def test_batches_go_where_the_network_is(moved: str, after: str, placed: bool) -> None:
    definitions = APART.replace("MOVED", moved)
    loaders = f"loader = {LOADER}\ntest_loader = DataLoader(data, batch_size=16)"
    output = converted(script(definitions=definitions, loader=loaders, after=after))
    call = "prepare_data_loader(test_loader, device_placement=False)"
    assert (f"test_loader = accelerator.{call}" in output) is not placed
    assert "model, optimizer, loader" in output


def test_the_batches_of_a_network_on_the_cpu_stay_there() -> None:
    """Every process evaluates all of them, as the network is not known to give a row for each sample."""
    loaders = f"loader = {LOADER}\ntest_loader = DataLoader(data, batch_size=16)"
    text = script(definitions=APART.replace("MOVED", "pass"), loader=loaders, after="test(test_loader)")
    assert converted(text).count("test_loader") == text.count("test_loader")


_EITHER = """\
if len(data) > 3:
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, loader, optimizer, device)
    torch.save(optimizer.state_dict(), "o.pt")
else:
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {loads}
    print(model(torch.zeros(1, 8)).argmax())
"""


def _either(loads: str) -> str:
    definitions = f"def train(model, loader, optimizer, device):\n{TRAINS}\n"
    return script(main=True, definitions=definitions, **NO_BODY, after=_EITHER.format(loads=loads))


def test_an_optimizer_that_only_gets_its_state_back_trains_nothing() -> None:
    output = converted(_either('optimizer.load_state_dict(torch.load("o.pt"))'))
    assert output.count("accelerator.prepare(") == 1
    assert output.count("model = Net().to(device)") == 1  # that which only evaluates


@pytest.mark.parametrize("loads", ["show(optimizer)", "optimizer.zero_grad()", "optimizer.step()"])
def test_one_that_more_is_done_with_may_train(loads: str) -> None:
    assert findings(_either(loads)) == ["PREP-NO-POINT"]


# ---- functions that others make, which keep what they are handed

MADE = """\
def make_step(model, optimizer):
    print(sum(p.numel() for p in model.parameters()))

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model({}), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
"""
STEPS = {**NO_LOOP, "epochs": "for epoch in range(2):", "loop": "for x, y in loader:"}


def stepping(taken: str = "x", **slots: str) -> str:
    moved = "step(x.to(device), y.to(device))"
    slots = {"before": "step = make_step(model, optimizer)", **slots}
    return script(**{**STEPS, "definitions": MADE.format(taken), "move": moved, **slots})


@pytest.mark.parametrize("target", ["runtime", "accelerate"])
@pytest.mark.parametrize("slots", [{}, {"before": "print(model)\nstep = make_step(model, optimizer)\nprint(model)"}])
def test_objects_are_prepared_before_a_function_is_made_that_keeps_them(target: str, slots: dict[str, str]) -> None:
    after = converted(stepping(**slots), target=target)
    assert after.count("prepare(") == 1 and after.index("prepare(") < after.index("step = make_step(")


def test_a_function_that_is_made_at_once_is_no_reason_to_prepare_early() -> None:
    inner = MADE.format("x").replace("return step", "for x, y in loader:\n        step(x, y)")
    text = script(
        **NO_LOOP,
        definitions=inner.replace("optimizer):", "optimizer, loader):"),
        before="print(model)",
        after="make_step(model, optimizer, loader)",
    )
    after = converted(text)
    assert after.index("print(model)") < after.index("prepare(") < after.index("\nmake_step(model, optimizer, loader")


@pytest.mark.parametrize(("taken", "told"), [("x[:4]", ["warning"]), ("x[:, :8]", [])])
def test_what_a_made_function_does_is_seen(taken: str, told: list[str]) -> None:
    text = stepping(taken).replace(", y)\n        loss.b", f", y{'[:4]' if told else ''})\n        loss.b")
    assert severities(text, "BATCH-PLACES") == told


@pytest.mark.parametrize(
    ("shown", "before"),
    [
        ("model", True),
        ("model\noptimizer", True),
        ("model.load_state_dict(state)", False),
        ("model.requires_grad_()", False),
    ],
)
def test_what_a_cell_shows_stays_behind_it(shown: str, before: bool) -> None:
    output = converted(script(setup="state = torch.load('m.pt')", before=shown))
    assert (output.index("accelerator.prepare(") < output.index(f"\n{shown}\n")) == before


def test_a_number_that_is_too_long_to_be_written() -> None:
    number = f"0x{'f' * 5000}"
    before = f"sizes = [1, {number}]\nprint(-{number} < sizes[1])"
    assert f"sizes = [1, {number}]" in converted(script(before=before))
