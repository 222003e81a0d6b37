"""Objects that are kept by objects: several classes that train together, each with a part of what training needs."""

from __future__ import annotations

import pytest
from scripts import converted, findings, script, unchanged

STEP = """\
class Agent:
    def __init__(self, device):
        self.net = Net().to(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
"""
RUN = """\
class Trainer:
    def __init__(self, agent, loader, device):
        self.agent = agent
        self.loader = loader
        self.device = device

    def fit(self):
        for x, y in self.loader:
            self.agent.step(x.to(self.device), y.to(self.device))
"""
LOADER = """\
data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
loader = DataLoader(data, batch_size=16, shuffle=True)
"""
MADE = f"{LOADER}trainer = Trainer(Agent(device), loader, device)\ntrainer.fit()\n"
CHECKS = """\
class Checks:
    def __init__(self, net, loader, device):
        self.net = net
        self.loader = loader
        self.device = device

    def score(self):
        right = 0
        with torch.no_grad():
            for x, y in self.loader:
                out = self.net(x.to(self.device))
                right += (out.argmax(1) == y.to(self.device)).sum().item()
        return right / len(self.loader.dataset)
"""
FIT = """\
class Trainer:
    def __init__(self, net, loader, device):
        self.net = net
        self.loader = loader
        self.device = device
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        self.checks = Checks(net, loader, device)

    def fit(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            F.cross_entropy(self.net(x.to(self.device)), y.to(self.device)).backward()
            self.optimizer.step()
        print(self.checks.score())
"""
CHECKED = f"{LOADER}trainer = Trainer(Net().to(device), loader, device)\ntrainer.fit()\n"
EMPTY = dict.fromkeys(("data", "loader", "model", "optimizer", "epochs", "loop", "move", "forward", "backward"), "")


def text(*classes: str, after: str = MADE) -> str:
    """A script whose training is in classes."""
    return script(definitions="\n\n".join(classes), after=after, step="", **EMPTY)


def flat(source: str) -> str:
    """The conversion without indentation."""
    return "\n".join(line.strip() for line in converted(source).splitlines())


# ---- what trains is kept by what has the loop

PREPARED = "self.net, self.optimizer = accelerator.prepare(self.net, self.optimizer)\n"
KEPT = "self.agent = agent"
HANDED = f"{LOADER}agent = Agent(device)\ntrainer = Trainer(agent, loader, device)\n"
OWN = RUN.replace("agent, loader, device", "loader, device").replace("= agent", "= Agent(device)")
LATER = RUN.replace("agent, loader, device", "loader, device").replace(KEPT, "self.n = 0")
LATER = f"{LATER}\n    def take(self, agent):\n        self.agent = agent\n"


@pytest.mark.parametrize(
    ("trainer", "after"),
    [
        (RUN, MADE),
        (RUN, f"{HANDED}trainer.fit()\nprint(trainer.agent.net.training)\n"),
        (RUN, MADE.replace("Agent(device), loader, device", "loader=loader, agent=Agent(device), device=device")),
        (RUN.replace(KEPT, f"{KEPT}\n        assert agent is not None"), MADE),
        (RUN.replace(KEPT, "same = agent\n        self.agent = same"), MADE),
        (OWN, MADE.replace("Agent(device), l", "l")),
        (LATER, f"{LOADER}trainer = Trainer(loader, device)\ntrainer.take(Agent(device))\ntrainer.fit()\n"),
    ],
)
def test_the_object_that_trains_is_kept_by_another(trainer: str, after: str) -> None:
    source = text(STEP, trainer, after=after)
    found = flat(source)
    assert found.count(".prepare(") == 2 and PREPARED in found and "accelerator.backward(loss)" in found
    assert "self.agent.step(x, y)" in found and "loader = accelerator.prepare(loader)\n" in found
    assert findings(source) == []


RETURNED = """\
def run(device):
    data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
    loader = DataLoader(data, batch_size=16, shuffle=True)
    trainer = Trainer(Agent(device), loader, device)
    if not len(loader):
        return None
    trainer.fit()
    return trainer
"""


@pytest.mark.parametrize("use", ["", "trainer = run(device)\nprint(trainer.agent.net.training)", "run(device)"])
def test_an_object_that_a_function_returns_from_a_variable(use: str) -> None:
    found = flat(text(STEP, RUN, RETURNED, after=use or "done = run(device)"))
    assert PREPARED in found and "loader = accelerator.prepare(loader)\ntrainer = Trainer(" in found


@pytest.mark.parametrize(
    ("use", "returned"),
    [
        ("trainer = run(device)\ntrainer.agent.net = None", "return trainer"),
        ("kept = [run(device)]", "return trainer"),
        ("run(device)", "return [trainer]"),
        ("run(device)", "return trainer if device else 3"),
    ],
)
def test_what_becomes_of_a_returned_object_is_not_known(use: str, returned: str) -> None:
    source = text(STEP, RUN, RETURNED.replace("return trainer", returned), after=use)
    assert unchanged(source).code == "LOOP-IN-CLASS"


def test_an_object_that_keeps_nothing_of_a_batch_measures_nothing() -> None:
    agent = STEP.replace("def __init__(self, device)", "def take(self, net)").replace("Net().to(device)", "net")
    run = RUN.replace("agent, loader, device", "loader, device").replace(KEPT, "self.net = Net().to(device)")
    run = run.replace("= loader\n", "= loader\n        self.agent = Agent()\n        self.agent.take(self.net)\n")
    after = MADE.replace("Agent(device), l", "l")
    assert findings(text(agent, run, after=after)) == []
    keeps = agent.replace("loss.backward()", "self.last = loss.item()\n        loss.backward()")
    assert findings(text(keeps, run, after=f"{after}print(trainer.agent.last)\n")) == ["METRIC-TRAIN"]


def test_what_trains_is_kept_by_what_is_kept() -> None:
    outer = "class Run:\n    def __init__(self, trainer):\n        self.trainer = trainer\n\n"
    outer += "    def all(self):\n        for epoch in range(2):\n            self.trainer.fit()\n"
    found = flat(text(STEP, RUN, outer, after=f"{HANDED}run = Run(trainer)\nrun.all()\n"))
    assert PREPARED in found and "self.agent.step(x, y)" in found


def test_a_class_with_a_base_keeps_the_networks() -> None:
    own = "class Base:\n    def __init__(self, device):\n        self.net = Net().to(device)\n"
    agent = STEP.replace("Agent:", "Agent(Base):").replace("self.net = Net().to(device)", "super().__init__(device)")
    agent = agent.partition("    def step")[0]
    step = "            self.agent.optimizer.zero_grad()\n            loss = F.cross_entropy(self.agent.net(x), y)\n"
    step += "            loss.backward()\n            self.agent.optimizer.step()"
    run = RUN.replace("            self.agent.step(x.to(self.device), y.to(self.device))", step)
    found = flat(text(own, agent, run))
    assert PREPARED in found and "loss = F.cross_entropy(self.agent.net(x), y)\naccelerator.backward(loss)" in found


# ---- what evaluates is kept by what trains

OUTSIDE = CHECKED.replace("Net().to(device), l", "net, l").replace("trainer =", "net = Net().to(device)\ntrainer =")
NAMED = FIT.replace("(net, loader, device)\n\n", "(device=device, net=net, loader=loader)\n\n")
WITHIN = FIT.replace("net, loader, device", "loader, device", 1).replace("(net", "(self.net")
WITHIN = WITHIN.replace("self.net = net", "self.net = Net().to(device)")


@pytest.mark.parametrize(
    ("trainer", "after", "made"),
    [
        (FIT, OUTSIDE, "net, loader = accelerator.prepare(net, loader)\ntrainer ="),
        (NAMED, OUTSIDE, "net, loader = accelerator.prepare(net, loader)\ntrainer ="),
        (WITHIN, CHECKED, f"{PREPARED}self.checks = "),
        (WITHIN.replace("self.checks =", "device = self.device\n        self.checks ="), CHECKED, PREPARED),
    ],
)
def test_the_network_is_prepared_before_another_object_keeps_it(trainer: str, after: str, made: str) -> None:
    source = text(CHECKS, trainer, after=after.replace("Net().to(device), l", "l"))
    found = flat(source)
    assert made in found and found.count("prepare(") == 2 and findings(source) == []
    assert "out, y = accelerator.gather_for_metrics((out, y))" in found


def test_a_network_that_is_changed_by_what_is_handed_it_is_prepared_later() -> None:
    changing = CHECKS.replace("self.net = net", "self.net = net\n        net.load_state_dict(torch.load('m.pt'))")
    assert unchanged(text(changing, FIT, after=OUTSIDE)).code == "PREP-NO-POINT"
    assert unchanged(text(CHECKS, FIT, after=CHECKED)).code == "PREP-NO-POINT"  # it has no variable of its own


# ---- what may be anything


@pytest.mark.parametrize(
    ("trainer", "after", "said"),
    [
        (RUN.replace(KEPT, "self.agents = [agent]\n        self.agent = agent"), MADE, "`agent`"),
        (RUN.replace(KEPT, f"{KEPT}\n        setattr(agent, 'net', None)"), MADE, "`agent` is handed on"),
        (
            RUN.replace(KEPT, f"{KEPT}\n        self.agent = Agent(device)"),
            MADE,
            "`self.agent` is bound more than once",
        ),
        (RUN.replace(KEPT, f"{KEPT}\n        vars(self)['n'] = 1"), MADE, "handed on"),
        (RUN, f"{MADE}trainer.agent.net = Net()\n", "is set outside"),
        (RUN, f"{MADE}keep(trainer.agent)\n", "is handed on"),
        (RUN.replace("(self, agent, loader, device)", "(self, *agent)"), MADE, "handed on"),
        (RUN.replace("class Trainer:", "class Trainer(dict):"), MADE, "handed on"),
        (RUN, f"{HANDED}trainer.fit()\nprint([agent])\n", "`agent`"),
    ],
)
def test_what_may_be_changed_by_others_is_left_alone(trainer: str, after: str, said: str) -> None:
    finding = unchanged(text(STEP, trainer, after=after))
    assert finding.code in ("LOOP-IN-CLASS", "PREP-NO-POINT") and said in finding.message, finding.message


def test_one_attribute_that_may_be_an_object_of_either_class_is_left_alone() -> None:
    other = STEP.replace("class Agent", "class Other")
    either = "if agent:\n            self.agent = Agent(device)\n        else:\n            self.agent = Other(device)"
    either = RUN.replace(KEPT, either)
    finding = unchanged(text(STEP, other, either, after=MADE.replace("Agent(device), ", "device, ")))
    assert finding.code == "LOOP-IN-CLASS" and "may be an object of Other, too" in finding.message
