"""Objects that reach the training in roundabout ways: prepared where they are made, all the same."""

from __future__ import annotations

import ast

import pytest
from accelift_codemod.facts import Facts
from accelift_codemod.source import Source
from scripts import convert, converted, creation, findings, lifted, script, unchanged


@pytest.mark.parametrize(
    ("setup", "made"),
    [
        ("from functools import partial\nmake = partial(torch.optim.SGD, lr=0.1)", "make(model.parameters())"),
        ("from functools import partial", "partial(torch.optim.SGD, lr=0.1)(model.parameters())"),
        ("", "getattr(torch.optim, 'SGD')(model.parameters(), lr=0.1)"),
        ("name = 'SGD'", "getattr(torch.optim, name)(model.parameters(), lr=0.1)"),
        ("name = 'SGD'", "torch.optim.__dict__[name](model.parameters(), lr=0.1)"),
        ("", "vars(torch.optim)['SGD'](model.parameters(), lr=0.1)"),
        ("kind = torch.optim.SGD", "kind(model.parameters(), lr=0.1)"),
    ],
)
def test_an_optimizer_of_a_class_that_is_a_value(setup: str, made: str) -> None:
    slots = {"setup": setup, "optimizer": f"optimizer = {made}"}
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize(
    ("setup", "made"),
    [
        ("from functools import partial", "partial(torch.optim.SGD, model.parameters())(lr=0.1)"),
        ("name = 'SGD'", "getattr(torch, name)(model.parameters(), lr=0.1)"),
        ("name = 'SGD'", "getattr(torch.optim, name, torch.optim.SGD)(model.parameters(), lr=0.1)"),
        ("", "getattr(torch.optim, 'LBFGS')(model.parameters(), lr=0.1)"),
        ("from functools import partial", "partial(torch.optim.LBFGS, lr=0.1)(model.parameters())"),
    ],
)
def test_an_optimizer_that_cannot_be_told(setup: str, made: str) -> None:
    finding = unchanged(script(setup=setup, optimizer=f"optimizer = {made}"))
    assert finding.code in ("OPT-UNKNOWN", "BWD-CLOSURE")


MAKES = """\
def make(parameters, kind, lr=0.1, **more):
    if kind == "s":
        optimizer = torch.optim.SGD(parameters, lr)
    else:
        optimizer = torch.optim.Adam(parameters, lr)
    return optimizer, None
"""


@pytest.mark.parametrize(
    "given",
    [
        "model.parameters(), 's', **settings",
        "model.parameters(), *['s']",
        "kind='s', parameters=model.parameters(), **settings",
    ],
)
def test_arguments_beside_those_that_a_star_hides(given: str) -> None:
    slots = {"definitions": MAKES, "setup": "settings = {'lr': 0.1}", "optimizer": f"optimizer, _ = make({given})"}
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize("given", ["*[model.parameters(), 's']", "**settings", "*settings, model.parameters()"])
def test_arguments_that_a_star_hides(given: str) -> None:
    setup = "settings = {'parameters': [], 'kind': 's'}"
    text = script(definitions=MAKES, setup=setup, optimizer=f"optimizer, _ = make({given})")
    assert unchanged(text).code == "OPT-UNKNOWN"


OPTIONS = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument('--kind', default='sgd')
args = parser.parse_args()
"""
KINDS = "kinds = {'sgd': torch.optim.SGD, 'adam': torch.optim.Adam}"


@pytest.mark.parametrize(
    ("kept", "made"),
    [
        ("args.kind = kinds[args.kind]", "args.kind(model.parameters(), lr=0.1)"),
        ("args.make = kinds[args.kind]", "args.make(model.parameters(), lr=0.1)"),
        ("args.make = torch.optim.SGD", "args.make(model.parameters(), lr=0.1)"),
        ("args.make = kinds.get(args.kind)\nsame = args", "same.make(model.parameters(), lr=0.1)"),
    ],
)
def test_an_optimizer_of_a_class_that_is_kept_beside_options(kept: str, made: str) -> None:
    slots = {"setup": f"{OPTIONS}{KINDS}\n{kept}", "optimizer": f"optimizer = {made}"}
    assert converted(script(**slots)).replace("    ", "") == lifted(**slots).replace("    ", "")


@pytest.mark.parametrize(
    ("kept", "made"),
    [
        ("", "args.kind(model.parameters(), lr=0.1)"),
        ("args.make = torch.sum", "args.make(model.parameters(), lr=0.1)"),
        ("other = Net()\nother.make = torch.optim.SGD", "args.make(model.parameters(), lr=0.1)"),
        ("args.make = torch.optim.LBFGS", "args.make(model.parameters(), lr=0.1)"),
    ],
)
def test_what_is_kept_beside_options_and_is_no_optimizer(kept: str, made: str) -> None:
    text = script(setup=f"{OPTIONS}{KINDS}\n{kept}", optimizer=f"optimizer = {made}")
    assert unchanged(text).code in ("OPT-UNKNOWN", "BWD-CLOSURE")


def test_a_scheduler_of_a_class_that_is_looked_up() -> None:
    known, looked_up = "torch.optim.lr_scheduler.StepLR", "getattr(torch.optim.lr_scheduler, name)"
    text = script(setup="name = 'StepLR'", before=f"scheduler = {known}(optimizer, 1)", epoch_end="scheduler.step()")
    assert converted(text.replace(known, looked_up)) == converted(text).replace(known, looked_up)


PARTIAL = "from functools import partial"


EVALUATION = """\
correct = 0
for x, y in loader:
    x, y = x.to(device), y.to(device)
    correct += (model(x).argmax(1) == y).sum().item()
print(correct)
"""


@pytest.mark.parametrize(
    ("kept", "given", "whole"),
    [
        ("batch_size=16, drop_last=True", "data", "data, batch_size=16, drop_last=True"),
        ("batch_size=16, shuffle=True", "data, shuffle=False", "data, batch_size=16, shuffle=False"),
        ("batch_size=16, collate_fn=join", "data", "data, batch_size=16, collate_fn=join"),
        ("batch_size=16, collate_fn=join", "data, collate_fn=None", "data, batch_size=16, collate_fn=None"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_a_loader_of_a_partial_has_its_arguments(kept: str, given: str, whole: str, named: bool) -> None:
    setup, made = f"make = partial(DataLoader, {kept})", f"loader = make({given})"
    if not named:
        setup, made = "", f"loader = partial(DataLoader, {kept})({given})"
    slots = {"from_imports": "from joining import join", "setup": f"{PARTIAL}\n{setup}", "epoch_end": EVALUATION}
    plain = script(**slots, loader=f"loader = DataLoader({whole})")
    assert converted(script(**slots, loader=made)) == converted(plain).replace(f"loader = DataLoader({whole})", made)
    assert findings(script(**slots, loader=made)) == findings(plain)


@pytest.mark.parametrize(
    "loader",
    [
        "loader = partial(DataLoader, data)(batch_size=16)",
        "loader = partial(DataLoader, data, 16)()",
        "kinds = [partial(DataLoader, batch_size=16), partial(list)]\nloader = kinds[len(data) % 2](data)",
    ],
)
def test_a_loader_of_a_partial_that_is_not_followed(loader: str) -> None:
    assert unchanged(script(setup=PARTIAL, loader=loader)).code in ("LOADER-UNKNOWN", "DATA-UNSHARDED")


@pytest.mark.parametrize(
    ("kept", "given", "whole"),
    [("", "", ""), ("3", "", "3"), ("width=3", "", "width=3"), ("width=2", "width=3", "width=3")],
)
def test_a_network_of_a_partial(kept: str, given: str, whole: str) -> None:
    wide = (
        "class Wide(nn.Module):\n    def __init__(self, width=3):\n        super().__init__()\n"
        "        self.layer = nn.Linear(8, width)\n\n    def forward(self, x):\n        return self.layer(x)"
    )
    setup = f"{PARTIAL}\nmake = partial({', '.join(filter(None, ['Wide', kept]))})"
    slots = {"definitions": wide, "setup": setup, "epoch_end": EVALUATION}
    plain = converted(script(**slots, model=f"model = Wide({whole}).to(device)"))
    assert converted(script(**slots, model=f"model = make({given}).to(device)")) == plain.replace(
        f"model = Wide({whole})", f"model = make({given})"
    )


STEP = """\
def train_step(model, optimizer, x, y, scale=1.0):
    optimizer.zero_grad()
    loss = scale * F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "called"),
    [
        ("step = partial(train_step, model, optimizer, scale=2.0)", "step(x, y)"),
        ("step = partial(train_step, model)", "step(optimizer, x, y=y)"),
        ("step = partial(train_step, optimizer=optimizer, model=model)", "step(x=x, y=y)"),
    ],
)
def test_a_step_of_a_partial(made: str, called: str) -> None:
    """The network is prepared before the partial keeps it."""
    slots = {"setup": PARTIAL, "definitions": STEP, "backward": "", "step": "", "forward": called}
    output = converted(script(**slots, before=made))
    assert "    accelerator.backward(loss)\n" in output and "x.to(" not in output
    assert 0 < output.index("accelerator.prepare(model, optimizer, loader)") < output.index(made)


def test_a_step_of_a_partial_that_keeps_the_network_before_all_is_made() -> None:
    slots = {"setup": PARTIAL, "definitions": STEP, "backward": "", "step": "", "forward": "step(optimizer, x, y)"}
    made = "model = Net().to(device)\nstep = partial(train_step, model)"
    output = converted(script(**slots, model=made))
    assert output.index("accelerator.prepare(model, loader)") < output.index("step = partial(train_step, model)")


def test_a_step_of_a_partial_that_lacks_the_accelerator_is_refused() -> None:
    slots = {"setup": PARTIAL, "definitions": STEP, "backward": "", "step": "", "forward": "step(x, y)"}
    text = script(main=True, before="step = partial(train_step, model, optimizer)", **slots)
    assert unchanged(text).code == "ACC-REACH"


@pytest.mark.parametrize(("target", "refused"), [("runtime", False), ("accelerate", True)])
def test_a_network_that_a_tuple_has_kept_before(target: str, refused: bool) -> None:
    """The runtime averages its gradients all the same; Accelerate's wrapper alone would."""
    slots = {"definitions": STEP, "backward": "", "step": "", "forward": "train_step(*both, x, y)"}
    result = convert(script(**slots, before="both = (model, optimizer)"), target=target)
    assert (result.output is None) == refused


@pytest.mark.parametrize("given", ["*[model, optimizer]", "**{'model': model, 'optimizer': optimizer}"])
def test_a_step_of_a_partial_whose_arguments_are_not_known(given: str) -> None:
    slots = {"setup": PARTIAL, "definitions": STEP, "backward": "", "step": "", "forward": "step(x=x, y=y)"}
    result = convert(script(before=f"step = partial(train_step, {given})", **slots))
    assert result.output is None


@pytest.mark.parametrize(
    ("before", "loop"),
    [
        ("", "while (batch := next(batches, None)) is not None:"),
        ("", "for step in range(4):\n    batch = next(batches)"),
    ],
)
def test_a_loader_made_in_a_helper_and_drawn_from_by_next(before: str, loop: str) -> None:
    header, _, first = loop.partition("\n")
    move = f"{first.strip()}\nx, y = batch" if first else "x, y = batch"
    slots = {
        "definitions": "def load(data):\n    loader = DataLoader(data, batch_size=16, shuffle=True)\n    return loader",
        "loader": "loader = load(data)",
        "epoch": "batches = iter(loader)",
        "loop": header,
    }
    after = lifted(**slots, move=move)
    assert converted(script(**slots, move=f"{move}\nx, y = x.to(device), y.to(device)")) == after


def test_a_loader_made_in_a_helper_and_iterated_through_a_bar() -> None:
    slots = {
        "from_imports": "from tqdm import tqdm",
        "definitions": "def load(data):\n    loader = DataLoader(data, batch_size=16, shuffle=True)\n    return loader",
        "loader": "loader = load(data)",
        "loop": "for x, y in bar:",
    }
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in converted(
        script(**slots, epoch="bar = tqdm(loader)")
    )


_BAR = (
    "def bar(batches, quiet):\n    if quiet:\n        batches.say = MethodType(len, batches)\n"
    "        return {quiet}\n    return tqdm(batches)"
)
_EVALUATES = (
    "with torch.no_grad():\n    correct = 0\n    bar_of_all = bar(others, quiet)\n    for x, y in bar_of_all:\n"
    "        correct += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()\n    print(correct)"
)


@pytest.mark.parametrize(
    ("quiet", "prepared"),
    [
        ("batches", True),
        ("iter(batches)", True),
        ("DataLoader(batches.dataset, batch_size=4)", False),
        ("list(batches)", True),
    ],
)
def test_a_function_that_may_give_back_its_loader_is_one_more_bar(quiet: str, prepared: bool) -> None:
    """What it was handed is prepared, not what it gives back in each epoch."""
    text = script(
        from_imports="from types import MethodType\nfrom tqdm import tqdm",
        definitions=_BAR.format(quiet=quiet),
        loader="loader = DataLoader(data, batch_size=16, shuffle=True)\nothers = DataLoader(data, batch_size=16)",
        setup="import sys\nquiet = len(sys.argv) > 1",
        epoch="batches = bar(loader, quiet)",
        loop="for x, y in batches:",
        after=_EVALUATES,
    )
    output = convert(text).output
    after = output.decode() if output is not None else ""
    call = "model, optimizer, loader, others = accelerator.prepare(model, optimizer, loader, others)"
    assert (call in after) is prepared
    assert "accelerator.prepare(batches)" not in after
    assert "METRIC-LOCAL" not in findings(text)


def test_an_optimizer_made_in_a_helper_and_stepped_by_a_scaler() -> None:
    slots = {
        "definitions": "def make(model):\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    return optimizer",
        "optimizer": "optimizer = make(model)\nscaler = torch.cuda.amp.GradScaler()",
        "forward": "model.zero_grad()\nloss = F.cross_entropy(model(x), y)",
        "step": "scaler.step(optimizer)\nscaler.update()",
    }
    after = converted(script(**slots, backward="scaler.scale(loss).backward()"))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after


# ---- devices

_PARSER = (
    "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--cuda', action='store_true')\n"
    "parser.add_argument('--device', default='cpu')\nargs = parser.parse_args()"
)
_TRAIN = """
def train(settings):
    for x, y in loader:
        {move}
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""


def in_a_function(move: str, model: str) -> str:
    """A script whose training is a function that is given the options."""
    empty = dict.fromkeys(("loop", "move", "forward", "backward", "step"), "")
    definitions = _TRAIN.format(move=move)
    return script(
        **empty, definitions=definitions, setup=_PARSER, device="", model=model, epoch="train(args)", main=False
    )


def test_a_flag_is_the_same_under_the_name_of_a_parameter() -> None:
    move = "if settings.cuda:\n            x, y = x.cuda(), y.cuda()"
    text = in_a_function(move, "model = Net()\nif args.cuda:\n    model.cuda()")
    assert "cpu=not args.cuda" in creation(text)


def test_an_option_is_the_same_under_the_name_of_a_parameter() -> None:
    move = "x, y = x.to(settings.device), y.to(settings.device)"
    assert "cpu=args.device == 'cpu'" in creation(in_a_function(move, "model = Net().to(args.device)"))


def test_a_flag_that_is_changed_under_another_name_is_not_known() -> None:
    move = "settings.cuda = False\n        if settings.cuda:\n            x, y = x.cuda(), y.cuda()"
    model = "args.cuda = args.cuda and torch.cuda.is_available()\nmodel = Net()\nif args.cuda:\n    model.cuda()"
    assert unchanged(in_a_function(move, model)).code == "DEV-UNKNOWN"


def test_a_device_that_a_function_chooses_in_steps() -> None:
    text = script(
        definitions="def choose():\n    place = 'cpu'\n    if torch.cuda.is_available():\n        place = 'cuda'\n"
        "    return place",
        device="device = choose()",
    )
    assert creation(text).startswith("Accelerator(dataloader_config")


@pytest.mark.parametrize(
    "parameters", ["model.layer.parameters()", "[{'params': model.layer.parameters(), 'lr': 1.0}]"]
)
def test_a_part_that_is_put_into_a_network_is_trained_with_it(parameters: str) -> None:
    slots = {"optimizer": f"optimizer = torch.optim.SGD({parameters}, lr=0.1)"}
    before = "model = Net()\nmodel.layer = nn.Linear(8, 3)\nmodel = model.to(device)"
    after = before.removesuffix("\nmodel = model.to(device)")
    assert converted(script(model=before, **slots)) == lifted(model=after, **slots)


def test_a_part_that_is_a_network_of_its_own_is_trained_by_itself() -> None:
    slots = {"optimizer": "optimizer = torch.optim.SGD(head.parameters(), lr=0.1)"}
    forward = "optimizer.zero_grad()\nloss = F.cross_entropy(head(x), y)"
    output = converted(script(model="head = nn.Linear(8, 3).to(device)", forward=forward, **slots))
    assert "head, optimizer, loader = accelerator.prepare(head, optimizer, loader)\n" in output


# ---- names of torch that lie in modules of their own


@pytest.mark.parametrize(
    ("imported", "made"),
    [
        ("from torch.optim.sgd import SGD", "SGD(model.parameters(), lr=0.1)"),
        ("from torch.optim import adam", "adam.Adam(model.parameters())"),
    ],
)
def test_an_optimizer_by_its_module_s_name(imported: str, made: str) -> None:
    slots = {"from_imports": imported, "optimizer": f"optimizer = {made}"}
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize("made", ["StepLR(model.parameters(), 3)", "Other(model.parameters())"])
def test_what_is_no_optimizer_stays_unknown(made: str) -> None:
    imported = "from torch.optim.lr_scheduler import StepLR\nfrom elsewhere.optim.sgd import Other"
    assert unchanged(script(from_imports=imported, optimizer=f"optimizer = {made}")).code == "OPT-UNKNOWN"


def test_a_network_by_its_module_s_name() -> None:
    slots = {"from_imports": "from torch.nn.modules.linear import Linear"}
    before = script(**slots, model="model = Linear(8, 3).to(device)")
    assert converted(before) == lifted(**slots, model="model = Linear(8, 3)")


def test_a_data_set_by_its_module_s_name() -> None:
    own = "class Own({}):\n    def __getitem__(self, i):\n        return torch.randn(8), 0\n"
    data = "torch.manual_seed(0)\ndata = Own()"
    for base in ("torch.utils.data.Dataset", "torch.utils.data.dataset.Dataset"):
        assert findings(script(definitions=own.format(base), data=data)) == ["RNG-SAMENOISE"]
    assert findings(script(definitions=own.format("object"), data=data)) == []


def test_what_is_called_where_objects_are_handed_on_and_on() -> None:
    """Which function a call runs is told anew once it is known what other calls hand to the function around it."""
    text = """\
class Model:
    def go(self):
        return 1

class Runner:
    def run(self, model):
        def inner(one):
            return one.go()
        return inner(model)

class Holder:
    def hold(self, runner, model):
        return runner.run(model)

Holder().hold(Runner(), Model())
"""
    facts = Facts(Source.decode(text.encode(), "train.py"))
    told = {ast.unparse(call.func): facts.resolver.callee(call) for call in facts.index.calls}
    functions = {function.name: function for function in facts.index.functions}
    assert {name: told[name] for name in ("one.go", "runner.run")} == {
        "one.go": functions["go"],
        "runner.run": functions["run"],
    }
