"""Objects held in attributes of self: classes whose attributes are followed as variables, and those that are not."""

from __future__ import annotations

import pytest
from accelift_codemod.facts import instances
from accelift_codemod.facts.index import Index
from accelift_codemod.source import Source
from scripts import added, convert, converted, findings, removed, script, unchanged

DEVICE = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
DATA = "TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)"
NO_BODY = dict.fromkeys(
    ("device", "data", "loader", "model", "optimizer", "epochs", "loop", "move", "forward", "backward", "step"), ""
)
# The parts of a class that trains, each to be replaced by a test.
PARTS = {
    "head": "class Trainer:",
    "signature": "def __init__(self):",
    "device": f"self.device = {DEVICE}",
    "loader": f"self.loader = DataLoader({DATA}, batch_size=16, shuffle=True)",
    "model": "self.model = Net().to(self.device)",
    "optimizer": "self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)",
    "last": "",
    "fit": "def fit(self):",
    "loop": "for x, y in self.loader:",
    "move": "x, y = x.to(self.device), y.to(self.device)",
    "forward": "self.optimizer.zero_grad()\nloss = F.cross_entropy(self.model(x), y)",
    "backward": "loss.backward()",
    "step": "self.optimizer.step()",
    "end": "",
    "methods": "",
}
MADE = "trainer = Trainer()\ntrainer.fit()"
TOLD = "def told(self):\n    return self.__one__()"


def trainer(body: str = MADE, **parts: str) -> str:
    """A script whose training is a class, with other code in some of its parts."""
    assert parts.keys() <= PARTS.keys()
    p = {**PARTS, **parts}

    def block(depth: int, *names: str) -> str:
        lines = [line for name in names for line in p[name].splitlines()]
        return "".join(f"{'    ' * depth}{line}\n" if line else "\n" for line in lines)

    text = block(0, "head") + block(1, "signature") + block(2, "device", "loader", "model", "optimizer", "last") + "\n"
    text += block(1, "fit") + block(2, "loop") + block(3, "move", "forward", "backward", "step") + block(2, "end")
    return script(definitions=f"{text}\n{block(1, 'methods')}", after=body, **NO_BODY)


def lines(text: str, **options: object) -> str:
    """The conversion as one string, without indentation: what is looked for may stand in any method."""
    return "\n".join(line.strip() for line in converted(text, **options).splitlines())


# ---- converted


def test_everything_is_made_in_the_constructor() -> None:
    assert converted(trainer()) == trainer(
        device="self.accelerator = Accelerator(\n    dataloader_config=DataLoaderConfiguration(split_batches=True)\n)",
        model="self.model = Net()",
        last="self.model, self.optimizer, self.loader = self.accelerator.prepare(\n"
        "    self.model, self.optimizer, self.loader\n)",
        move="",
        backward="self.accelerator.backward(loss)",
    ).replace(
        "import torch.nn.functional as F\n",
        "import torch.nn.functional as F\nfrom accelift import Accelerator, DataLoaderConfiguration\n",
    )


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ("def make():\n    return Trainer()\n\n\nmake().fit()", {}),
        ("def make():\n    return Trainer()\n\n\ntrainer = make()\ntrainer.fit()", {}),
        (
            "def make(n):\n    if n:\n        return None\n    return Trainer()\n\n\ntrainer = make(0)\ntrainer.fit()",
            {},
        ),
        (MADE, {"head": "from abc import ABC\n\n\nclass Trainer(ABC):"}),
        (MADE, {"head": "import abc\n\n\nclass Trainer(metaclass=abc.ABCMeta):"}),
        (MADE, {"head": "from abc import *\n\n\nclass Trainer(metaclass=ABCMeta):"}),
        (MADE, {"head": "from abc import *\n\n\nclass Trainer(ABC, object):"}),
        (MADE, {"methods": "def __len__(self):\n    return len(self.loader)"}),
        (MADE, {"methods": "def __del__(self):\n    print('gone')"}),
        (MADE, {"methods": "def __getitem__(self, n):\n    return self.model.layer.weight[n]"}),
        (
            f"{MADE}\nprint(trainer.told())",
            {"methods": f"def __one__(self):\n    return 1\n\n{TOLD}"},
        ),
        (MADE, {"methods": "@classmethod\ndef code(cls):\n    return 'plain'"}),
        (f"{MADE}\nprint(Trainer.code())", {"methods": "@staticmethod\ndef code():\n    return 'plain'"}),
    ],
)
def test_what_does_not_change_what_an_object_is(body: str, parts: dict[str, str]) -> None:
    text = lines(trainer(body, **parts))
    assert text.count("accelerator.prepare(\nself.model, self.optimizer, self.loader\n)") == 1
    assert text.count("accelerator.backward(loss)") == 1


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (MADE, {}),
        (MADE, {"methods": "def forward(self, x):\n    return self.model(x)"}),  # which nobody calls
        (MADE, {"end": "self.eval()\nself.train()"}),
        (f"{MADE}\ntrainer.eval()", {"methods": "def score(self):\n    return self.model.training"}),
    ],
)
def test_a_module_that_only_holds_networks(body: str, parts: dict[str, str]) -> None:
    held = {"head": "class Trainer(nn.Module):", "signature": "def __init__(self):\n    super().__init__()"}
    plain = lines(trainer(body, **{**parts, "signature": held["signature"]}))
    assert plain.count("self.model, self.optimizer, self.loader\n)") == plain.count("accelerator.backward(loss)") == 1
    assert lines(trainer(body, **parts, **held)) == plain.replace("class Trainer:", held["head"])


def test_the_methods_leave_the_training_to_functions() -> None:
    body = """\
def step(model, optimizer, x, y):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def epoch(model, loader, optimizer, device):
    for x, y in loader:
        step(model, optimizer, x.to(device), y.to(device))
"""
    parts = {"loop": "for n in range(2):", "move": "", "forward": "", "backward": "", "step": ""}
    call = "    epoch(self.model, self.loader, self.optimizer, self.device)"
    text = f"import torch.nn.functional as F\n\n\n{body}"
    found = lines(trainer(**parts, end=call).replace("import torch.nn.functional as F\n", text, 1))
    assert "self.accelerator.prepare(\nself.model, self.optimizer, self.loader\n)" in found
    assert "def epoch(model, loader, optimizer, accelerator):" in found
    assert "step(model, optimizer, x, y, accelerator)" in found
    assert "epoch(self.model, self.loader, self.optimizer, self.accelerator)" in found


def test_objects_are_handed_in() -> None:
    text = trainer(
        f"device = {DEVICE}\nmodel = Net().to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"loader = DataLoader({DATA}, batch_size=16)\ntrainer = Trainer(model, optimizer, loader, device)\n"
        "trainer.fit()",
        signature="def __init__(self, model, optimizer, loader, device):",
        device="self.device = device",
        loader="self.loader = loader",
        model="self.model = model",
        optimizer="self.optimizer = optimizer",
    )
    # the script's device is a global there, and so is the accelerator
    after = lines(text)
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\ntrainer = Trainer(" in after
    assert "accelerator.backward(loss)" in after and "self.model = model\n" in after
    assert "x.to(self.device)" not in after


@pytest.mark.parametrize(
    ("optimizer", "kept", "prepared", "inside"),
    [
        (
            "torch.optim.SGD(net.parameters(), lr=0.1)",
            "optimizer",
            "net, optimizer, loader = accelerator.prepare(net, optimizer, loader)\ntrainer = Trainer(",
            "self.model = model\nself.optimizer = optimizer\n",
        ),
        (
            "None",
            "torch.optim.SGD(self.model.parameters(), lr=0.1)",
            "loader = accelerator.prepare(loader)\n",
            "self.model, self.optimizer = accelerator.prepare(self.model, self.optimizer)\n",
        ),
    ],
)
def test_a_model_is_prepared_where_its_optimizer_is(optimizer: str, kept: str, prepared: str, inside: str) -> None:
    text = trainer(
        f"{LOADER}optimizer = {optimizer}\ntrainer = Trainer(net, optimizer, loader)\ntrainer.fit()",
        **{
            **HANDED_IN,
            "signature": "def __init__(self, model, optimizer, loader):",
            "optimizer": f"self.optimizer = {kept}",
        },
    )
    after = lines(text)
    assert prepared in after and inside in after
    assert after.count(".prepare(") == 1 + (kept != "optimizer")


@pytest.mark.parametrize("signature", ["model, optimizer, loader, device", "**kwargs"])
def test_objects_are_handed_in_by_name(signature: str) -> None:
    held = "kwargs[{!r}]" if signature == "**kwargs" else "{}"
    text = trainer(
        f"device = {DEVICE}\nmodel = Net().to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"loader = DataLoader({DATA}, batch_size=16)\n"
        "trainer = Trainer(model=model, optimizer=optimizer, loader=loader, device=device)\ntrainer.fit()",
        signature=f"def __init__(self, {signature}):",
        device=f"self.device = {held.format('device')}",
        loader=f"self.loader = {held.format('loader')}",
        model=f"self.model = {held.format('model')}",
        optimizer=f"self.optimizer = {held.format('optimizer')}",
        end='torch.save(self.model.state_dict(), "a.pt")',
    )
    after = lines(text)
    assert "accelerator.prepare(" in after and "accelerator.backward(loss)" in after
    assert 'accelerator.save(accelerator.unwrap_model(self.model).state_dict(), "a.pt")' in after
    assert findings(text) == []


def test_what_keywords_hold_is_unknown_if_a_call_hides_them() -> None:
    text = trainer(
        "options = dict(loader=DataLoader([1]), model=Net())\ntrainer = Trainer(**options)\ntrainer.fit()",
        signature="def __init__(self, **kwargs):",
        loader="self.loader = kwargs['loader']",
        model="self.model = kwargs['model'].to(self.device)",
    )
    assert unchanged(text)


def test_the_accelerator_is_handed_in_and_kept() -> None:
    text = trainer(
        f"def main():\n    device = {DEVICE}\n    model = Net().to(device)\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"    loader = DataLoader({DATA}, batch_size=16)\n"
        "    Trainer(model, optimizer, loader, device=device).fit()\n\nmain()",
        signature='def __init__(self, model, optimizer, loader, device):\n    """Keeps them."""',
        device="self.device = device",
        loader="self.loader = loader",
        model="self.model = model",
        optimizer="self.optimizer = optimizer",
    )
    after = lines(text)
    assert 'def __init__(self, model, optimizer, loader, accelerator):\n"""Keeps them."""\n' in after
    assert '"""Keeps them."""\nself.accelerator = accelerator\n' in after
    assert "Trainer(model, optimizer, loader, accelerator=accelerator).fit()" in after
    assert "self.accelerator.backward(loss)" in after


@pytest.mark.parametrize(
    ("code", "where"),
    [
        ("self.size = sum(p.numel() for p in self.model.parameters())", "outside"),
        ("self.model.train()\nself.steps = 3 * len(loader)", "outside"),
        ("self.model.apply(print)", "inside"),
        ("model.load_state_dict(torch.load('m.pt'))", "inside"),
        ("start(self.model)", "inside"),
        ("start(net=self.model)", "inside"),
    ],
)
def test_a_model_is_prepared_after_its_last_change(code: str, where: str) -> None:
    text = trainer(
        f"model = Net()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nloader = DataLoader({DATA})\n"
        "trainer = Trainer(model, optimizer, loader)\ntrainer.fit()",
        signature="def __init__(self, model, optimizer, loader):",
        device="",
        loader="self.loader = loader",
        model="self.model = model",
        optimizer="self.optimizer = optimizer",
        last=code,
        move="",
    )
    after = lines(text)
    assert ("self.model = accelerator.prepare(self.model)" in after) is (where == "inside")
    assert ("model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after) is (where == "outside")
    assert after.index(code.partition("\n")[0]) < after.index("accelerator.prepare(") or where == "outside"


def test_a_constructor_without_a_device_gets_one_more_parameter() -> None:
    text = trainer(
        f"def main():\n    device = {DEVICE}\n    trainer = Trainer(Net().to(device), 3)\n    trainer.fit()\n"
        "    torch.save(trainer.model.state_dict(), 'm.pt')\n\nmain()",
        signature="def __init__(self, model, epochs, verbose=False):",
        device="self.epochs = epochs",
        model="self.model = model",
        move="",
    )
    after = lines(text)
    assert "def __init__(self, model, epochs, accelerator, verbose=False):\nself.accelerator = accelerator\n" in after
    assert "trainer = Trainer(Net().to(accelerator.device), 3, accelerator)" in after or "3, accelerator)" in after
    assert "accelerator.save(accelerator.unwrap_model(trainer.model).state_dict(), 'm.pt')" in after


def test_objects_made_in_several_methods_are_prepared_where_those_are_called() -> None:
    after = lines(
        trainer(
            "Trainer().run()",
            model="",
            optimizer="self.best = None",
            loader="self.loader = None",
            methods="def build(self):\n    self.model = Net().to(self.device)\n"
            "    self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)\n\n"
            f"def load(self):\n    self.loader = DataLoader({DATA}, batch_size=16)\n\n"
            "def run(self):\n    self.build()\n    self.load()\n    for _ in range(2):\n        self.fit()",
        )
    )
    assert (
        "self.load()\nself.model, self.optimizer, self.loader = self.accelerator.prepare(\n"
        "self.model, self.optimizer, self.loader\n)\nfor _ in range(2):" in after
    )


def test_the_accelerator_follows_the_arguments_it_needs() -> None:
    after = lines(
        trainer(
            "import argparse\nparser = argparse.ArgumentParser()\n"
            "parser.add_argument('--no-cuda', action='store_true')\n"
            "Trainer(parser.parse_args()).fit()",
            signature="def __init__(self, args):",
            device="self.args = args\nself.cuda = not self.args.no_cuda and torch.cuda.is_available()\n"
            "self.device = torch.device('cuda' if self.cuda else 'cpu')",
        )
    )
    assert "self.args = args\n" in after and "cpu=self.args.no_cuda" in after
    assert after.index("self.args = args") < after.index("Accelerator(\n")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print(loss)", "self.accelerator.print(loss)"),
        ("torch.save(self.model, 'm.pt')", "self.accelerator.save(self.accelerator.unwrap_model(self.model), 'm.pt')"),
        ("self.epoch(1)", "self.epoch(1)"),
        (
            "torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)",
            "self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)",
        ),
    ],
)
def test_other_rules_see_the_objects(code: str, expected: str) -> None:
    text = trainer(step=f"{code}\nself.optimizer.step()" if "clip" in code else "self.optimizer.step()", end=code)
    text = text.replace("    def fit", "    def epoch(self, n):\n        return n\n\n    def fit")
    assert expected in lines(text)


def test_evaluation_is_gathered() -> None:
    after = lines(
        trainer(
            "t = Trainer()\nt.fit()\nprint(t.test())",
            methods="def test(self):\n    right = 0\n    with torch.no_grad():\n        for x, y in self.loader:\n"
            "            x, y = x.to(self.device), y.to(self.device)\n"
            "            right += (self.model(x).argmax(1) == y).sum().item()\n    return right",
        )
    )
    assert "y = self.accelerator.gather_for_metrics(y)" in after


def test_who_makes_the_object_finds_the_accelerator_in_it() -> None:
    after = lines(
        trainer(
            "def main():\n    print('start')\n    t = Trainer()\n    for _ in range(2):\n        print('epoch')\n"
            "        t.fit()\n    other()\n\ndef other():\n    print('end')\n\nmain()"
        )
    )
    assert "print('start')\nt = Trainer()\nfor _ in range(2):\nt.accelerator.print('epoch')\nt.fit()" in after
    assert "def other():\nPartialState().print('end')" in after


@pytest.mark.parametrize(
    ("body", "asks"),
    [
        ("def main():\n    t = Trainer(1)\n    note()\n    t.fit()\n\nmain()", True),
        ("def main():\n    t = Trainer(1)\n    for _ in range(2):\n        note()\n    t.fit()\n\nmain()", True),
        ("def main():\n    note()\n    t = Trainer(1)\n    t.fit()\n\nmain()", False),
        ("def main():\n    if note:\n        t = Trainer(1)\n        t.fit()\n    note()\n\nmain()", False),
        ("def main():\n    t = Trainer(1)\n    note()\n    t.fit()\n\nnote()\nmain()", False),
    ],
)
def test_what_runs_behind_the_making_of_the_object_may_ask_for_the_state(body: str, asks: bool) -> None:
    """Where the script may be told to stay on the CPU, the accelerator has to be there before."""
    device = 'self.device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")'
    note = "def note():\n    with open('a.txt', 'w') as f:\n        f.write('a')\n\n"
    text = trainer(note + body, signature="def __init__(self, gpu):", device=device).replace(
        "Trainer(1)", "Trainer(GPU)"
    )
    options = "import sys\nGPU = '--gpu' in sys.argv\n\n"
    after = converted(text.replace("class Trainer", f"{options}class Trainer", 1))
    assert ("    if PartialState().is_main_process:\n        with open(" in after) is asks


def test_two_classes_each_made_once() -> None:
    other = trainer().split("class Trainer:")[1].split("trainer = ")[0]
    text = trainer("def main():\n    Trainer().fit()\n    Second().fit()\n\nmain()")
    text = text.replace("def main", f"class Second:{other}def main")
    after = lines(text)
    assert after.count("self.accelerator = accelerator\n") == 2
    assert "Trainer(accelerator).fit()\nSecond(accelerator).fit()" in after


@pytest.mark.parametrize(
    "parts",
    [
        {"methods": "@staticmethod\ndef name():\n    return 'x'"},
        {"methods": "def __repr__(self):\n    return 'x'"},
        {"methods": "def show(self):\n    print(type(self))"},
        {"head": "class Trainer(object):", "device": f"super(Trainer, self).__init__()\nself.device = {DEVICE}"},
        {"head": 'class Trainer:\n    """Trains."""\n\n    size: int\n    LIMIT = 3\n'},
        {"fit": "@torch.enable_grad()\ndef fit(self):"},
        {
            "loader": f"self.loader = DataLoader({DATA}, batch_size=16, collate_fn=self.collate)",
            "methods": "def collate(self, rows):\n    return torch.utils.data.default_collate(rows)",
        },
        {"model": "self.model = None\nself.model = Net().to(self.device)"},
    ],
)
def test_what_only_looks_like_a_reason_is_none(parts: dict[str, str]) -> None:
    assert "self.accelerator.backward(loss)" in lines(trainer(**parts))


# ---- several objects of one class

PREPARED = "self.model, self.optimizer, self.loader = accelerator.prepare(\nself.model, self.optimizer, self.loader\n)"


@pytest.mark.parametrize(
    ("body", "after"),
    [
        (f"{MADE}\nother = Trainer()\nother.fit()", "trainer = Trainer()\ntrainer.fit()\nother = Trainer()"),
        ("a, b = Trainer(), Trainer()\na.fit()\nb.fit()", "a, b = Trainer(), Trainer()"),
        ("for _ in range(3):\n    Trainer().fit()", "for _ in range(3):\nTrainer().fit()"),
    ],
)
def test_each_of_several_objects_prepares_its_own(body: str, after: str) -> None:
    text = lines(trainer(body))
    assert PREPARED in text
    assert f"split_batches=True))\n{after}" in text  # one accelerator, before the first of them


@pytest.mark.parametrize(
    "body",
    [
        f"def run(t):\n    t.fit()\n    print(t.model.layer)\n\n{MADE}\nrun(trainer)\nrun(t=trainer)",
        "def run(t):\n    t.fit()\n    print(t.model.layer)\n\nrun(Trainer())",
        "def run(t, n):\n    t.fit()\n    print(t.model.layer)\n    if n:\n        run(t, n - 1)\n\nrun(Trainer(), 3)",
    ],
)
def test_functions_that_get_an_object_only_to_ask_it(body: str) -> None:
    text = lines(trainer(body))
    assert "accelerator.unwrap_model(t.model).layer)" in text
    assert "accelerator.backward(loss)" in text


@pytest.mark.parametrize("read", ["self.args.__dict__.copy()", "[*args.__dict__]", "vars(args)"])
def test_the_attributes_of_something_else_are_read_by_name(read: str) -> None:
    method = f"def said(self, args):\n    return {read}"
    assert lines(trainer(methods=method, last="self.args = 3")).count("self.accelerator.prepare(") == 1


HANDED_IN = {
    "signature": "def __init__(self, model, loader, lr=0.1):",
    "model": "self.model = model.to(self.device)",
    "loader": "self.loader = loader",
    "optimizer": "self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)",
}
LOADER = f"loader = DataLoader({DATA}, batch_size=16)\nnet = Net()\n"


@pytest.mark.parametrize(
    "body",
    [
        "a = Trainer(net, loader)\nb = Trainer(Net(), loader)\na.fit()\nb.fit()",
        "other = Net()\na = Trainer(net, loader)\nb = Trainer(other, loader)\na.fit()\nb.fit()",
        "for lr in [0.1, 0.2]:\n    other = Net()\n    a = Trainer(other, loader, lr)\n    a.fit()",
    ],
)
def test_a_loader_that_several_objects_share_is_prepared_once_and_models_in_each(body: str) -> None:
    text = lines(trainer(LOADER + body, **HANDED_IN))
    assert "self.model, self.optimizer = accelerator.prepare(self.model, self.optimizer)" in text
    assert "loader = accelerator.prepare(loader)\nnet = Net()" in text


@pytest.mark.parametrize(
    "body",
    [
        "a = Trainer(net, loader)\nb = Trainer(net, loader)\na.fit()\nb.fit()",
        "for lr in [0.1, 0.2]:\n    a = Trainer(net, loader, lr)\n    a.fit()",
    ],
)
def test_a_model_that_several_objects_share_would_be_prepared_twice(body: str) -> None:
    assert unchanged(trainer(LOADER + body, **HANDED_IN)).code == "PREP-NO-POINT"


# ---- left alone

MODULE = {"head": "class Trainer(nn.Module):", "signature": "def __init__(self):\n    super().__init__()"}
GET = "from other import get\n\n\nclass Trainer:"
ELSE = "from other import get\n\n\ndef make(n):\n    if n:\n        return get()\n    return Trainer()\n\n"
REFUSED = [
    ({"body": "trainers = [Trainer() for _ in range(3)]\ntrainers[0].fit()"}, "not kept in one variable"),
    ({"body": f"def run(t):\n    t.model = Net()\n\n{MADE}\nrun(trainer)"}, "is set outside the class"),
    ({"body": f"def run(t):\n    return [t]\n\n{MADE}\nrun(trainer)"}, "is handed on"),
    ({"body": f"def run(t):\n    t = 3\n\n{MADE}\nrun(trainer)"}, "bound more than once"),
    ({"body": f"def run(*t):\n    t[0].model = Net()\n\n{MADE}\nrun(trainer)"}, "is handed on"),
    ({"body": f"def run(**t):\n    t['t'].model = Net()\n\n{MADE}\nrun(t=trainer)"}, "is handed on"),
    ({"body": f"def run(t):\n    run(t)\n    print(t)\n\n{MADE}\nrun(trainer)"}, "is handed on"),
    ({"body": f"@print\ndef run(t):\n    t.fit()\n\n{MADE}\nrun(trainer)"}, "is handed on"),
    ({"body": f"{MADE}\ntrainer.model = Net()"}, "is set outside the class"),
    ({"body": f"{MADE}\ndel trainer.model"}, "is set outside the class"),
    ({"body": f"{MADE}\nsetattr(trainer, 'model', Net())"}, "is handed on"),
    ({"body": f"{MADE}\ntrainer.__dict__.update(model=Net())"}, "in another way"),
    ({"body": f"{MADE}\nvars(trainer)['model'] = Net()"}, "is handed on"),
    ({"body": f"{MADE}\nsame = trainer\nsame.model = Net()"}, "is set outside"),
    ({"body": f"{MADE}\nsame = [trainer]"}, "is handed on"),
    ({"body": "import atexit\ntrainer = Trainer()\natexit.register(trainer.fit)"}, "handed on as a value"),
    ({"body": "trainer = Trainer()\ntrainer.fit = print\ntrainer.fit()"}, "is set outside the class"),
    ({"body": "trainers = {'a': Trainer()}\ntrainers['a'].fit()"}, "not kept in one variable"),
    ({"body": "def make():\n    return [Trainer()]\n\nmake()[0].fit()"}, "not kept in one variable"),
    ({"body": "def make():\n    return Trainer()\n\nprint(make)\nmake().fit()"}, "not kept in one variable"),
    ({"body": "@print\ndef make():\n    return Trainer()\n\nmake().fit()"}, "not kept in one variable"),
    ({"body": "def make():\n    return Trainer()\n\nmade = [make()]\nmade[0].fit()"}, "not kept in one variable"),
    ({"body": f"{ELSE}make(3).fit()"}, "something else than the Trainer"),
    ({"body": "made = Trainer\nprint(made)\nmade().fit()"}, "handed on as a value"),
    ({"body": "trainer = 3\ntrainer = Trainer()\ntrainer.fit()"}, "bound more than once"),
    ({"body": "class Special(Trainer):\n    pass\n\nTrainer().fit()\nSpecial().fit()"}, "derived from"),
    ({"body": "Trainer.model = Net()\nTrainer().fit()"}, "handed on as a value"),
    (
        {"head": "class Trainer:\n    paths = []\n", "body": "Trainer.paths.append(3)\nTrainer().fit()"},
        "handed on as a value",
    ),
    (
        {"head": "class Trainer:\n    path = 'a.pt'\n", "body": "Trainer.path = 'b.pt'\nTrainer().fit()"},
        "handed on as a value",
    ),
    ({"body": "print(Trainer.fit)\nTrainer().fit()"}, "handed on as a value"),
    ({"head": "from other import Base\n\n\nclass Trainer(Base):"}, "has a base class"),
    ({**MODULE, "optimizer": "self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)"}, "a network that trains"),
    ({**MODULE, "forward": "loss = F.cross_entropy(self(x), y)"}, "a network that trains itself"),
    ({**MODULE, "forward": "loss = F.cross_entropy(self.forward(x), y)"}, "a network that trains itself"),
    ({**MODULE, "end": "torch.save(self.state_dict(), 'm.pt')"}, "a network that trains itself"),
    ({**MODULE, "last": "self.register_buffer('n', torch.zeros(1))"}, "a network that trains itself"),
    ({**MODULE, "last": "self.zero_grad()"}, "a network that trains itself"),
    ({**MODULE, "last": "print(self)"}, "a network that trains itself"),
    ({**MODULE, "methods": "def train(self, mode=True):\n    super().train(mode)"}, "a network that trains itself"),
    ({**MODULE, "methods": "def modules(self):\n    return []", "end": "self.eval()"}, "a network that trains itself"),
    ({**MODULE, "head": "class Trainer(nn.Sequential):"}, "a network that trains itself"),
    (
        {**MODULE, "body": f"{MADE}\ntorch.save(trainer.state_dict(), 'm.pt')"},
        "`state_dict` that of all",
    ),
    ({**MODULE, "body": f"{MADE}\ntrainer(torch.zeros(8))"}, "is handed on"),
    ({**MODULE, "body": "trainer = Trainer().cuda()\ntrainer.fit()"}, "`cuda` that of all"),
    ({"head": "class Trainer(metaclass=type):"}, "metaclass"),
    ({"head": "import functools\n\n\n@functools.total_ordering\nclass Trainer:"}, "decorator"),
    ({"head": "class Trainer:\n    model = None\n"}, "is an attribute of the class"),
    ({"methods": "@property\ndef net(self):\n    return self.model.eval()"}, "has a decorator"),
    ({"methods": "@property\ndef net(self):\n    self.seen = True\n    return self.model"}, "has a decorator"),
    ({"methods": "@classmethod\ndef make(cls):\n    return cls()"}, "has a decorator"),
    ({"head": "from abc import ABCMeta\n\n\nclass Trainer(other=ABCMeta):"}, "metaclass"),
    ({"head": "from other import *\n\n\nclass Trainer(ABC):"}, "has a base class"),
    ({"methods": "def __len__(self):\n    self.fit()\n    return 3"}, "without being called by name"),
    ({"methods": "def __del__(self):\n    self.model = None"}, "without being called by name"),
    ({"methods": "def __getattr__(self, name):\n    return 3"}, "without being called by name"),
    ({"methods": "def __setattr__(self, name, value):\n    pass"}, "without being called by name"),
    ({"methods": "def __enter__(self):\n    self.fit()"}, "without being called by name"),
    ({"methods": "def fit(self):\n    pass"}, "defined twice"),
    ({"methods": "def other(this):\n    this.model = None"}, "and otherwise"),
    ({"methods": "def other(self):\n    self = None"}, "bound again"),
    ({"body": f"{MADE}\ndel trainer.model"}, "set outside"),
    ({"head": "class Trainer:\n    model = None\n", "methods": "def other(self):\n    del self.model"}, "of the class"),
    ({"methods": "def other(self):\n    self.fit = None"}, "is replaced"),
    ({"methods": "def other(self, name):\n    setattr(self, name, 3)"}, "the object itself is handed on"),
    ({"methods": "def other(self, name):\n    return getattr(self, name)"}, "the object itself is handed on"),
    ({"methods": "def other(self):\n    self.__dict__['model'] = Net()"}, "in another way"),
    ({"methods": "def other(self, args):\n    args = self\n    args.__dict__['model'] = Net()"}, "is handed on"),
    ({"methods": "def other(self):\n    return Trainer.__dict__"}, "in another way"),
    ({"body": f"{MADE}\nsame = trainer\nsame.__dict__.update(model=Net())"}, "in another way"),
    ({"methods": "def other(self):\n    super().__setattr__('model', Net())"}, "in another way"),
    ({"methods": "def other(self):\n    return [self]"}, "the object itself is handed on"),
    ({"methods": "def other(self):\n    return map(self.fit, [])"}, "handed on as a value"),
    (
        {
            "last": "self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.rate)",
            "methods": "def rate(self, step):\n    self.seen = step\n    return 1.0",
        },
        "handed on as a value",
    ),
    ({"methods": "def other(self):\n    class Inner:\n        pass"}, "is defined in a method"),
]


@pytest.mark.parametrize("gone", ["self.model", "self.model, self.optimizer", "self.loader"])
def test_attributes_that_are_deleted_when_training_is_done(gone: str) -> None:
    methods = f"def done(self):\n    del {gone}"
    body = f"{MADE}\ntrainer.done()"
    assert converted(trainer(body, methods=methods)) == converted(
        trainer(body, methods="def done(self):\n    pass")
    ).replace("        pass\n", f"        del {gone}\n")


@pytest.mark.parametrize("read", ["Trainer.PATH", "Trainer.__name__", "Trainer.SIZES + 1"])
def test_constants_of_a_class_are_read_by_its_name(read: str) -> None:
    head = 'class Trainer:\n    PATH = "model.pt"\n    SIZES: int = 3\n'
    for parts in ({"end": f"print({read})"}, {"body": f"{MADE}\nprint({read})"}):
        text = lines(trainer(head=head, **parts))
        assert text.count("accelerator.prepare(\nself.model, self.optimizer, self.loader\n)") == 1


@pytest.mark.parametrize(("parts", "reason"), REFUSED)
def test_what_is_not_surely_known_is_left_alone(parts: dict[str, str], reason: str) -> None:
    finding = unchanged(trainer(**parts))
    assert finding.code == "LOOP-IN-CLASS"
    assert reason in finding.message


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"body": ""}, "NO-ENTRY"),  # never made
        # used before it is made
        (
            {"last": f"self.fit()\nself.model = Net()\n{PARTS['optimizer']}", "body": "Trainer()"},
            "PREP-NO-POINT",
        ),
        # in several methods, none of which runs the others
        (
            {
                "methods": "def again(self):\n    self.model = self.model.float()",
                "body": f"{MADE}\ntrainer.again()\ntrainer.fit()",
            },
            "PREP-NO-POINT",
        ),
        # under two names
        ({"last": "self.net = self.model", "forward": "loss = (self.net(x) + self.model(x)).sum()"}, "PREP-NO-POINT"),
        ({"loader": f"self.parts = (DataLoader({DATA}), 1)", "loop": "for x, y in self.parts[0]:"}, "PREP-NO-POINT"),
        ({"methods": f"def move(self):\n    self.device = {DEVICE}"}, "DEV-UNKNOWN"),
        ({"methods": "def move(self):\n    self.device = torch.device('cpu')"}, "DEV-UNKNOWN"),
        ({"optimizer": "self.optimizer = get(self.model)", "head": GET}, "OPT-UNKNOWN"),
        ({"loader": "self.loader = get()", "head": GET}, "LOADER-UNKNOWN"),
    ],
)
def test_objects_without_a_place_to_be_prepared(parts: dict[str, str], code: str) -> None:
    assert unchanged(trainer(**parts)).code == code


def test_what_is_handed_on_may_run_at_once() -> None:
    after = lines(
        trainer(
            device="pass",
            model="self.model = Net().cuda()",
            move="x, y = x.cuda(), y.cuda()",
            optimizer=f"{PARTS['optimizer']}\n"
            "self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.rate)",
            methods="def rate(self, step):\n    print(step)\n    return 1.0",
        )
    )
    assert after.index("self.accelerator = Accelerator(") < after.index("LambdaLR(")
    assert "self.accelerator.print(step)" in after


def test_the_attributes_of_other_objects_may_be_listed() -> None:
    shown = {
        "head": "class Settings:\n    rate = 0.1\n\n\nclass Trainer:",
        "last": "self.settings = Settings()\nkept = self.settings.__dict__.copy()",
    }
    assert "self.accelerator.backward(loss)" in lines(trainer(**shown))


# ---- what outlives a call


def test_a_checkpoint_that_may_be_read_at_any_time_is_unwrapped() -> None:
    load = "def load(self):\n    self.model.load_state_dict(torch.load('m.pt'))"
    plain = "self.model.load_state_dict(torch.load('m.pt'))"
    unwrapped = "self.accelerator.unwrap_model(self.model).load_state_dict(torch.load('m.pt'))"
    assert plain in lines(trainer("Trainer().fit()", last="self.load()", methods=load))
    assert unwrapped in lines(trainer("t = Trainer()\nt.load()\nt.fit()", methods=load))
    assert unwrapped in lines(trainer("t = Trainer()\nt.load()\nt.fit()", last="self.load()", methods=load))


def test_a_decision_by_what_a_method_measures_is_told() -> None:
    text = trainer(
        "t = Trainer()\nt.run()",
        last="self.total = 0.0\nself.best = 9.0\nself.count = 0",
        loop="for batch in self.loader:",
        move="self.learn(batch)",
        forward="",
        backward="",
        step="",
        methods="def learn(self, batch):\n    x, y = batch\n    x, y = x.to(self.device), y.to(self.device)\n"
        "    self.optimizer.zero_grad()\n    loss = F.cross_entropy(self.model(x), y)\n    loss.backward()\n"
        "    self.optimizer.step()\n    self.total += loss.item()\n    self.count += 1\n\n"
        "def run(self):\n    for _ in range(3):\n        self.fit()\n        if {name} < self.best:\n            break",
    )
    assert "COLL-RANKFLOW" in findings(text.replace("{name}", "self.total"))
    assert "COLL-RANKFLOW" not in findings(text.replace("{name}", "self.count"))


def test_evaluation_that_a_method_keeps_is_not_gathered_after_it() -> None:
    text = trainer(
        "t = Trainer()\nt.fit()\nt.test()\nprint(t.right)",
        last=f"self.right = 0\nself.tests = DataLoader({DATA}, batch_size=16)",
        methods="def judge(self, x, y):\n    self.right += (x.argmax(1) == y).sum().item()\n    return 0\n\n"
        "def test(self):\n    with torch.no_grad():\n        for x, y in self.tests:\n"
        "            x, y = x.to(self.device), y.to(self.device)\n            out = self.model(x)\n"
        "            done = self.judge(out, y)\n",
    )
    after = lines(text)
    assert "out, y = self.accelerator.gather_for_metrics((out, y))\ndone = self.judge(out, y)" in after


def test_what_a_hook_keeps_is_not_taken_for_a_constant() -> None:
    text = trainer(
        "t = Trainer()\nt.fit()\nprint(t.test())",
        last=f"self.scale = 1.0\nself.tests = DataLoader({DATA}, batch_size=16)",
        methods="def test(self):\n{hook}    right = 0\n    with torch.no_grad():\n        for x, y in self.tests:\n"
        "            x, y = x.to(self.device), y.to(self.device)\n            out = self.model(x) * self.scale\n"
        "            right += (out.argmax(1) == y).sum().item()\n    return right",
    )
    hook = "        def hook(module, given, out):\n            self.scale = out\n\n"
    hook += "        self.model.layer.register_forward_hook(hook)\n"
    assert "gather_for_metrics" in converted(text.replace("    {hook}", "    "))
    assert "EVAL-REPLICATED" in findings(text.replace("    {hook}", f"{hook}    "))


# ---- facts


def test_the_tree_of_a_script_without_such_a_class_is_the_script_s_own() -> None:
    source = Source.decode(script().encode(), "x.py")
    assert instances.find(Index(source.tree)).tree is source.tree


def test_nodes_know_what_they_stand_for() -> None:
    source = Source.decode(trainer().encode(), "x.py")
    found = instances.find(Index(source.tree))
    assert found.tree is not source.tree and [c.name for c in found.followed] == ["Trainer"]
    for copy, original in found.originals.items():
        if hasattr(copy, "lineno"):
            assert source.segment(copy) == source.segment(original)


def test_only_what_the_conversion_is_about_changes() -> None:
    text = trainer(methods="def describe(self):\n    return (self.model,\n        self.loader  )  # kept as it is")
    assert not [line for line in (*removed(text), *added(text)) if "kept" in line or "describe" in line]


# ---- methods that nothing calls

OUTER = {"signature": "def __init__(self, loader):", "loader": "self.loader = loader"}
HANDED = f"def main():\n    loader = DataLoader({DATA}, batch_size=16)\n    Trainer(loader).fit()\n\nmain()"
SAVE = "def save(self):\n    torch.save(self.model.state_dict(), 'a.pt')"
LOAD = "def load(self):\n    self.model.load_state_dict(torch.load('a.pt'))"


@pytest.mark.parametrize("method", [SAVE, LOAD, f"{SAVE}\n\n{LOAD}"])
def test_a_method_that_nothing_calls_has_the_accelerator_of_its_object(method: str) -> None:
    text = trainer(HANDED, methods=method, **OUTER)
    plain = converted(trainer(HANDED, methods="def other(self):\n    return 1", **OUTER))
    output = converted(text)
    assert output[: output.index("def fit")].replace("        self.device = accelerator.device\n", "") == (
        plain[: plain.index("def fit")].replace("        self.device = accelerator.device\n", "")
    )
    if "save" in method:
        assert "self.accelerator.save(" in output


def test_a_function_that_nothing_calls_stays_as_it_is() -> None:
    spare = "def spare(model):\n    torch.save(model.state_dict(), 'a.pt')\n"
    assert spare in converted(trainer(f"{spare}\n{HANDED}", **OUTER))


FLUENT = """\
class Trainer:
    def __init__(self, net, loader):
        self.net, self.loader = net, loader
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def fit(self):
        for x, y in self.loader:
            self.opt.zero_grad()
            F.cross_entropy(self.net(x.to(device)), y.to(device)).backward()
            self.opt.step()
        return self
"""


@pytest.mark.parametrize(
    ("use", "followed"),
    [
        ("trainer.fit()", True),  # nobody goes on with what it returns
        ("other = trainer.fit()", False),
        ("trainer = trainer.fit()\nprint(trainer.opt.defaults)", True),
        ("print(trainer.fit().opt.defaults)", True),
        ("trainer.fit().opt = None", False),
        ("others = [trainer.fit()]", False),
        ("fit = trainer.fit\nfit()", True),
        ("fit = trainer.fit\nother = fit()", False),
        ("fits = [trainer.fit]\nfits[0]()", False),
    ],
)
def test_a_method_that_returns_its_object(use: str, followed: bool) -> None:
    text = script(
        definitions=FLUENT,
        optimizer="",
        before="trainer = Trainer(model, loader)",
        epoch=use,
        **dict.fromkeys(("loop", "move", "forward", "backward", "step"), ""),
    )
    assert (convert(text).output is not None) == followed
