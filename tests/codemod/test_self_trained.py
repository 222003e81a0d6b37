"""Networks that train themselves: what becomes of them, and which are left alone."""

from __future__ import annotations

import textwrap

import pytest
from scripts import convert, converted, findings, script, unchanged

NO_BODY = dict.fromkeys(
    ("device", "model", "optimizer", "epochs", "loop", "move", "forward", "backward", "step"),
    "",
)
# The parts of a network that trains itself, each to be replaced by a test.
PARTS = {
    "head": "class Own(nn.Module):",
    "init": "",
    "run": "return self.layer(x)",
    "signature": "def fit(self, loader):",
    "optimizer": "optimizer = torch.optim.SGD(self.parameters(), lr=0.1)",
    "begin": "",
    "loop": "for x, y in loader:",
    "zero": "optimizer.zero_grad()",
    "forward": "loss = F.cross_entropy(self(x), y)",
    "backward": "loss.backward()",
    "step": "optimizer.step()",
    "end": "",
    "methods": "",
    "after": "net = Own()\nnet.fit(loader)",
}
KEPT = {
    "init": "self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)",
    "optimizer": "",
    "zero": "self.optimizer.zero_grad()",
    "step": "self.optimizer.step()",
}
STEPS = "def fit_epochs(self, loader):\n    for epoch in range(2):\n        self.fit(loader)"
OUTER = (
    "class Outer(nn.Module):\n    def __init__(self, inner):\n        super().__init__()\n        self.inner = inner"
)


def own(definitions: str = "", **parts: str) -> str:
    """A script whose network trains itself, with other code in some of its parts."""
    assert parts.keys() <= PARTS.keys()
    p = {**PARTS, **parts}
    init = "def __init__(self):\n    super().__init__()\n    self.layer = nn.Linear(8, 3)\n" + _in(p["init"])
    loop = p["loop"] + "\n" + _in("\n".join(p[n] for n in ("zero", "forward", "backward", "step") if p[n]))
    fit = p["signature"] + "\n" + _in("\n".join(t for t in (p["optimizer"], p["begin"], loop, p["end"]) if t))
    body = "\n\n".join((init, f"def forward(self, x):\n{_in(p['run'])}", fit, p["methods"]))
    return script(definitions=f"{p['head']}\n{_in(body)}\n\n{definitions}", after=p["after"], **NO_BODY)


def _in(text: str) -> str:
    return textwrap.indent(text, "    ")


def lines(text: str, **options: object) -> list[str]:
    return [line.strip() for line in converted(text, **options).splitlines()]


def gone_and_new(text: str, **options: object) -> tuple[list[str], list[str]]:
    """What the conversion takes out of a script, and what it puts in, without the import and the accelerator."""
    before, after = [line.strip() for line in text.splitlines()], lines(text, **options)
    made = ("from accelift", "accelerator = Accelerator(", "cpu=True, dataloader_config=", ")")
    new = [line for line in after if line not in before and not line.startswith(made)]
    return [line for line in before if line not in after], new


PREPARED = "net, optimizer = accelerator.prepare(self, optimizer)"


# ---- converted


@pytest.mark.parametrize(
    ("parts", "gone", "new"),
    [
        ({}, ["loss = F.cross_entropy(self(x), y)"], [PREPARED, "loss = F.cross_entropy(net(x), y)"]),
        (
            {"forward": "loss = F.cross_entropy(self.forward(x), y)"},
            ["loss = F.cross_entropy(self.forward(x), y)"],
            [PREPARED, "loss = F.cross_entropy(net.forward(x), y)"],
        ),
        (
            KEPT,
            ["loss = F.cross_entropy(self(x), y)"],
            [PREPARED.replace("optimizer", "self.optimizer"), "loss = F.cross_entropy(net(x), y)"],
        ),
        (
            {
                "forward": "loss = self.loss(x, y)",
                "methods": "def loss(self, x, y):\n    return F.cross_entropy(self(x), y)",
            },
            ["loss = self.loss(x, y)"],
            [PREPARED, "loss = net.loss(x, y)"],
        ),
        (
            {
                "forward": "loss = self.loss(self(x), y)",
                "methods": "def loss(self, o, y):\n    return F.cross_entropy(o, y)",
            },
            ["loss = self.loss(self(x), y)"],
            [PREPARED, "loss = self.loss(net(x), y)"],
        ),
        (
            {"begin": "net = model = 1"},
            ["loss = F.cross_entropy(self(x), y)"],
            [PREPARED.replace("net", "network"), "loss = F.cross_entropy(network(x), y)"],
        ),
        (
            {
                "begin": "total = 0",
                "forward": "loss = F.cross_entropy(self(x), y) / 2",
                "zero": "",
                "step": "total += 1\nif total % 2 == 0:\n    optimizer.step()\n    optimizer.zero_grad()",
            },
            ["loss = F.cross_entropy(self(x), y) / 2", "if total % 2 == 0:"],
            [PREPARED, "with accelerator.accumulate(net):", "loss = F.cross_entropy(net(x), y)"],
        ),
    ],
)
def test_the_method_gets_a_variable_for_the_wrapped_network(
    parts: dict[str, str], gone: list[str], new: list[str]
) -> None:
    taken, put = gone_and_new(own(**parts))
    assert set(gone) <= set(taken) and "loss.backward()" in taken
    assert [line for line in put if line in new] == new and "accelerator.backward(loss)" in put


@pytest.mark.parametrize(
    "parts",
    [
        {"begin": "self.train()"},
        {"step": "torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)\noptimizer.step()"},
        {"end": "torch.save(self.state_dict(), 'net.pt')\nself.load_state_dict(torch.load('net.pt'))"},
        {"end": "torch.save(self, 'net.pt')"},
        {"end": "return self"},
        {"forward": "loss = F.cross_entropy(self(x), y) + self.layer.weight.norm()"},
        {"after": "net = Own()\nnet = net.to('cpu')\nnet.fit(loader)\nnet.eval()\nprint(net(torch.ones(2, 8)))"},
        {"after": "Own().fit(loader)"},
        {"after": "for fold in range(2):\n    net = Own()\n    net.fit(loader)"},
        {"methods": "def run(self, loader):\n    self.fit(loader)", "after": "net = Own()\nnet.run(loader)"},
        {"signature": "def train(self, loader):", "after": "net = Own()\nnet.train(loader)"},
        {"after": "a, b = Own(), Own()\na.fit(loader)\nb.fit(loader)"},
        {"methods": "@property\ndef device(self):\n    return next(self.parameters()).device"},
        {
            "after": "class Run:\n    def __init__(self):\n        self.net = Own()\n\n    def go(self):\n"
            "        self.net.fit(loader)\n\n\nrun = Run()\nrun.go()"
        },
        {"init": "self.losses = []", "end": "self.losses.append(loss.item())"},
    ],
)
def test_all_else_is_asked_of_the_network_inside(parts: dict[str, str]) -> None:
    text = own(**parts)
    taken, put = gone_and_new(text)
    assert not any("unwrap_model" in line for line in put)
    assert PREPARED in put and [line for line in put if "net(" in line] and not findings_of_worth(text)
    asked = [line for line in taken if "self." in line and "self(x)" not in line]
    assert all(line.startswith(("torch.save", "torch.nn.utils.clip")) for line in asked)


def findings_of_worth(text: str) -> list[str]:
    return [code for code in findings(text) if code not in ("DEV-CPU", "PRINT-ALL", "METRIC-TRAIN", "METRIC-LOCAL")]


def test_an_evaluation_of_its_own_runs_the_network_inside() -> None:
    score = (
        "def score(self, loader):\n    self.eval()\n    n = 0\n    with torch.no_grad():\n        for x, y in loader:\n"
    )
    score += "            n += (self(x).argmax(1) == y).sum().item()\n    return n / len(loader.dataset)"
    put = "\n".join(gone_and_new(own(methods=score, end="acc = self.score(loader)"))[1])
    assert "accelerator.gather_for_metrics(self(x)).argmax(1)" in put and "net.score" not in put


def test_the_accelerator_is_handed_to_its_methods() -> None:
    text = own(
        definitions="def main():\n    data = TensorDataset(torch.ones(64, 8), torch.arange(64) % 3)\n"
        "    loader = DataLoader(data, batch_size=16)\n    net = Own()\n    net.fit(loader)",
        after="main()",
    )
    put = gone_and_new(text)[1]
    assert "def fit(self, loader, accelerator):" in put and "net.fit(loader, accelerator)" in put
    assert not any("self.accelerator" in line for line in put)


def test_a_base_that_trains_is_converted_where_it_stands() -> None:
    base = "class Sub(Own):\n    def fit(self, loader):\n        super().fit(loader)"
    assert PREPARED in lines(own(definitions=base, after="net = Sub()\nnet.fit(loader)"))


def test_an_optimizer_that_it_is_handed_is_prepared_where_it_is_made() -> None:
    parts = {"signature": "def fit(self, loader, optimizer):", "optimizer": "", "begin": "self.train()"}
    after = "net = Own()\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nnet.fit(loader, optimizer)"
    put = gone_and_new(own(**parts, after=after))[1]
    assert (
        "net = accelerator.prepare(self)" in put and "optimizer, loader = accelerator.prepare(optimizer, loader)" in put
    )


# ---- left alone


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"after": "net = Own()\nnet.fit(loader)\nnet.fit(loader)"}, "may run more than once"),
        ({"after": "net = Own()\nfor i in range(2):\n    net.fit(loader)"}, "may run more than once"),
        (
            {"after": "def go(net):\n    net.fit(loader)\n\n\nnet = Own()\ngo(net)\ngo(net)"},
            "may run more than once",
        ),
        ({"methods": STEPS, "after": "net = Own()\nnet.fit_epochs(loader)"}, "may run more than once"),
        ({"after": "nets = [Own(), Own()]\nnets[0].fit(loader)"}, "is not kept in one variable"),
        ({"after": "net = Own()\ngo = net.fit\ngo(loader)"}, "is handed on as a value"),
        ({"after": "net = Own()\ngetattr(net, 'fit')(loader)"}, "is handed on"),
        ({"after": "net = Own()\nOwn.fit(net, loader)"}, "is handed on as a value"),
        ({"after": "import copy\nnet = Own()\nother = copy.deepcopy(net)\nnet.fit(loader)"}, "is handed on"),
        ({"after": "net = Own()\nother = net.eval()\nnet.fit(loader)"}, "is kept by another name"),
        ({"after": "net = Own()\nnet.layer = nn.Linear(8, 3)\nnet.fit(loader)"}, "is set outside the class"),
        ({"end": "import copy\nbest = copy.deepcopy(self)"}, "the object itself is handed on"),
        ({"end": "self.self = self"}, "the object itself is handed on"),
        ({"end": "return self", "after": "net = Own().fit(loader)"}, "is the object itself, and is kept"),
        ({"forward": "loss = F.cross_entropy(self.layer(x), y)"}, "never calls it as a whole"),
        ({"forward": "loss = (lambda v: F.cross_entropy(self(v), y))(x)"}, "a function in fit() calls"),
        ({"step": "optimizer.step()\nyield loss", "after": "net = Own()\nlist(net.fit(loader))"}, "is no plain one"),
        ({"signature": "@torch.enable_grad()\ndef fit(self, loader):"}, "is no plain one"),
        ({"methods": "def __call__(self, x):\n    return super().__call__(x)"}, "has a __call__() of its own"),
        (
            {"methods": "def parameters(self, recurse=True):\n    return super().parameters()"},
            "has a parameters() of its own",
        ),
        ({"head": "class Own(nn.Linear):"}, "is a network that trains itself"),
    ],
)
def test_what_cannot_be_wrapped_in_its_own_method(parts: dict[str, str], said: str) -> None:
    finding = unchanged(own(**parts))
    assert finding.code == "LOOP-IN-CLASS" and said in finding.message, finding.message


@pytest.mark.parametrize(
    ("definitions", "after", "said"),
    [
        (OUTER, "net = Own()\nouter = Outer(net)\nnet.fit(loader)", "is handed on"),
        (OUTER, "outer = Outer(Own())\nouter.inner.fit(loader)", "is handed on"),
        (
            "",
            "net = Own()\nnet.fit(loader)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nfor x, y in loader:\n"
            "    F.cross_entropy(net(x), y).backward()\n    optimizer.step()",
            "is run and trained here, too",
        ),
    ],
)
def test_what_trains_it_elsewhere(definitions: str, after: str, said: str) -> None:
    finding = unchanged(own(definitions, after=after))
    assert finding.code == "LOOP-IN-CLASS" and said in finding.message, finding.message


def test_two_classes_that_are_derived_from_it() -> None:
    text = lines(own("class A(Own):\n    pass\n\n\nclass B(Own):\n    pass", after="A().fit(loader)\nB().fit(loader)"))
    assert text.count("net, optimizer = accelerator.prepare(self, optimizer)") == 1
    assert "loss = F.cross_entropy(net(x), y)" in text and "accelerator.backward(loss)" in text


def test_a_backward_pass_in_another_method() -> None:
    step = "def update(self, loss, optimizer):\n    loss.backward()\n    optimizer.step()"
    text = own(backward="self.update(loss, optimizer)", step="", methods=step)
    assert unchanged(text).code == "LOOP-IN-CLASS"


def test_an_optimizer_that_is_made_again_while_it_trains() -> None:
    text = own(
        **{
            **KEPT,
            "end": "",
            "step": "self.optimizer.step()\nself.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)",
        }
    )
    assert "made here, again and again" in unchanged(text).message


def test_accelerate_has_no_way_to_send_other_methods_through_the_wrapper() -> None:
    method = "def loss(self, x, y):\n    return F.cross_entropy(self(x), y)"
    text = own(forward="loss = self.loss(x, y)", methods=method)
    assert "DDP-METHOD" in findings(text, target="accelerate") and "DDP-METHOD" not in findings(text)
    assert "net.loss" not in (convert(text, target="accelerate").output or b"").decode()
    assert "DDP-METHOD" not in findings(own(), target="accelerate")
    kept = own(init="self.loss = nn.CrossEntropyLoss()", forward="loss = self.loss(self(x), y)")
    assert "DDP-METHOD" not in findings(kept, target="accelerate")
    part = own(forward="loss = F.cross_entropy(self(x), y) + self.layer(x).mean()")
    assert "DDP-METHOD" in findings(part, target="accelerate")
