"""REDRAW: weights that are drawn again once the model is prepared."""

from __future__ import annotations

import pytest
from scripts import findings, script, severities

RESET = {"epoch": "model.reset_parameters()"}
DRAWN = "def init(m):\n    if isinstance(m, nn.Linear):\n        nn.init.normal_(m.weight)"
APPLY = {"definitions": DRAWN, "epoch": "model.apply(init)"}
WITH_METHOD = """\
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def init(self):
        for part in self.children():
            self.draw(part)

    def draw(self, part):
        nn.init.xavier_uniform_(part.weight)

    def clear(self):
        nn.init.zeros_(self.layer.weight)

    def noise(self):
        torch.empty(3).normal_()

    def forward(self, x):
        return self.layer(x)
"""
AGAIN = (
    "class Own(Net):\n    def again(self):\n        {}\n\n    def draw(self):\n        init.normal_(self.layer.bias)"
)
METHOD = {
    "imports": "from torch.nn import init",
    "definitions": AGAIN.format("init.xavier_uniform_(self.layer.weight)"),
    "model": "model = Own().to(device)",
    "epoch": "model.again()",
}
DATA_OF = {**METHOD, "definitions": AGAIN.format("self.layer.weight.data.normal_(0, 0.02)")}
INNER = {**METHOD, "definitions": AGAIN.format("self.draw()")}
OWN = {"definitions": WITH_METHOD, "model": "model = Own().to(device)"}
FUNCTION = (
    "def init(net):\n    for m in net.modules():\n        if hasattr(m, 'weight'):\n            m.weight.data.normal_()"
)
CLOCK = {"setup": "import time\ntorch.manual_seed(int(time.time()))", **RESET}


ONE_BY_ONE = "for m in model.modules():\n    if isinstance(m, nn.Linear):\n        nn.init.kaiming_normal_(m.weight)"


@pytest.mark.parametrize(
    "slots",
    [
        RESET,
        APPLY,
        CLOCK,
        METHOD,
        DATA_OF,
        INNER,
        {**OWN, "epoch": "model.init()"},
        {"definitions": FUNCTION, "epoch": "init(model)"},
        {"definitions": DRAWN, "epoch": "init(model.layer)"},
        {"epoch": "nn.init.normal_(model.layer.weight)"},
        {"epoch": "model.layer.reset_parameters()"},
        {"epoch": "model.layer.weight.data.uniform_(-1, 1)"},
        {"epoch": ONE_BY_ONE},
        {"epoch": "for p in model.parameters():\n    p.data.normal_(0, 0.1)"},
        {"epoch": "model.apply(lambda m: nn.init.normal_(m.weight) if isinstance(m, nn.Linear) else None)"},
        {"epoch": "for part in model.children():\n    for p in part.parameters():\n        nn.init.uniform_(p, -1, 1)"},
    ],
)
def test_weights_that_each_process_would_draw_for_itself(slots: dict[str, str]) -> None:
    assert findings(script(**slots)) == ["INIT-UNSEEDED"]


SEEDED = {"setup": "torch.manual_seed(0)"}
DROPS = "class Drops(Net):\n    def forward(self, x):\n        return self.layer({})\n\n\n{}"
NOISES = ["F.dropout(x, 0.5)", "nn.Dropout()(x)", "x + torch.randn_like(x)"]


def drops(noise: str, definitions: str = "", **slots: str) -> str:
    """A seeded script with a network that draws random numbers."""
    given = {**SEEDED, "definitions": DROPS.format(noise, definitions), "model": "model = Drops().to(device)"}
    return script(**{**given, **slots})


@pytest.mark.parametrize("noise", NOISES)
def test_weights_drawn_again_after_processes_have_drawn_other_numbers(noise: str) -> None:
    twice = "nn.init.normal_(model.layer.weight)\nnn.init.normal_(model.layer.bias)"
    for again, defined in (("model.layer.reset_parameters()", ""), ("model.apply(init)", DRAWN), (twice, "")):
        assert severities(drops(noise, defined, epoch=again), "INIT-UNSEEDED") == ["warning"]


@pytest.mark.parametrize("noise", [*NOISES, "x"])
def test_weights_that_all_processes_draw_alike(noise: str) -> None:
    reset = "model.layer.reset_parameters()"
    for slots in ({"epoch": f"torch.manual_seed(epoch)\n{reset}"}, {"before": reset}, {"model": "model = Drops()"}):
        assert "INIT-UNSEEDED" not in findings(drops(noise, **slots))
    assert "INIT-UNSEEDED" not in findings(drops("x", epoch=reset))


TEACHER = {
    "model": "model = Net().to(device)\nteacher = Net().to(device)",
    "forward": "optimizer.zero_grad()\nloss = F.mse_loss(model(x), teacher(x).detach())",
}
BEHIND = {**TEACHER, "definitions": "def target(x):\n    with torch.no_grad():\n        return teacher(x)"}
BEHIND["forward"] = BEHIND["forward"].replace("teacher(x).detach()", "target(x)")
SAME = {**TEACHER, "model": TEACHER["model"] + "\nteacher.load_state_dict(model.state_dict())"}
COPY = {**TEACHER, "imports": "import copy", "model": "model = Net().to(device)\nteacher = copy.deepcopy(model)"}
RESUMED = {**TEACHER, "before": "if resume:\n    model.load_state_dict(a)\n    teacher.load_state_dict(b)"}
EVALUATED = {
    **COPY,
    "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)",
    "epoch_end": "for x, y in loader:\n    print((teacher(x).argmax(1) == y).sum())",
}
FETCHED = "from torchvision.models import resnet18\n\n\ndef make():\n    net = resnet18(weights='DEFAULT')\n"
HEAD = {**COPY, "definitions": f"{FETCHED}    net.fc = nn.Linear(512, 3)\n    return net"}
HEAD["model"] = HEAD["model"].replace("Net()", "make()")


@pytest.mark.parametrize("slots", [TEACHER, BEHIND, SAME, COPY, RESUMED, EVALUATED, HEAD])
def test_a_network_beside_the_model_that_each_process_would_draw_for_itself(slots: dict[str, str]) -> None:
    assert "INIT-UNSEEDED" in findings(script(**slots))
    assert "INIT-UNSEEDED" not in findings(script(setup="torch.manual_seed(0)", **slots))


LOADS = """\
def load(net, mode):
    if mode == "resume":
        print("again")
    elif {test}:
        net.load_state_dict(torch.load("m.pt"))
"""
TESTED = {
    **EVALUATED,
    "setup": "mode = sys.argv[1]",
    "imports": "import sys",
    "model": "model = Net().to(device)\nteacher = Net().to(device)",
    "before": "load(teacher, 'test')\nload(model, mode)",
}


@pytest.mark.parametrize(("test", "told"), [('mode == "test"', False), ("len(sys.argv) > 2", True)])
def test_a_network_that_a_function_loads_which_is_told_when(test: str, told: bool) -> None:
    """What the other call of it is told says nothing of this one; what is the same for both does."""
    text = script(**TESTED, definitions=LOADS.format(test=test))
    assert ("INIT-UNSEEDED" in findings(text)) is told


@pytest.mark.parametrize(
    "made",
    [
        'teacher = Net().to(device)\nteacher.load_state_dict(torch.load("t.pt"))',
        'model.load_state_dict(torch.load("m.pt"))\nteacher = Net()\nteacher.load_state_dict(model.state_dict())',
        'import copy\nmodel.load_state_dict(torch.load("m.pt"))\nteacher = copy.deepcopy(model)',
        "import copy\nfrom torchvision.models import resnet18\nteacher = copy.deepcopy(resnet18(weights='DEFAULT'))",
        "import helpers\nteacher = Net()\nhelpers.fetch_weights(teacher)",
        "teacher = nn.Softmax(1)",
        "teacher = nn.Linear(8, 3).to(device)\nmodel = Both(model, teacher).to(device)",
    ],
)
def test_networks_that_are_alike_or_have_no_weights(made: str) -> None:
    both = (
        "class Both(nn.Module):\n    def __init__(self, one, other):\n        super().__init__()\n"
        "        self.one, self.other = one, other\n\n"
        "    def forward(self, x):\n        return self.one(x) + self.other(x)"
    )
    text = script(**{**TEACHER, "model": f"model = Net().to(device)\n{made}"}, definitions=both)
    assert "INIT-UNSEEDED" not in findings(text)


@pytest.mark.parametrize(
    "slots",
    [
        {"setup": "torch.manual_seed(0)", **RESET},
        {"setup": "torch.manual_seed(0)", **METHOD},
        {**METHOD, "definitions": AGAIN.format("nn.init.zeros_(self.layer.weight)")},
        {**METHOD, "definitions": AGAIN.format("return torch.zeros(3).normal_()")},
        {**METHOD, "epoch": "", "model": "model = Own()\nmodel.again()"},
        {"model": "model = Net()\nmodel.reset_parameters()"},
        {"epoch": "model.eval()"},
        {**APPLY, "definitions": DRAWN.replace("normal_", "zeros_")},
        {"definitions": "def quiet(m):\n    m.training = False", "epoch": "model.apply(quiet)"},
        {"setup": "torch.manual_seed(0)", **OWN, "epoch": "model.init()"},
        {**OWN, "model": "model = Own().to(device)\nmodel.init()"},
        {**OWN, "epoch": "model.clear()"},
        {**OWN, "epoch": "model.noise()"},
        {"definitions": FUNCTION, "epoch": "init(nn.Linear(2, 2))"},
        {"epoch": "for p in model.parameters():\n    p.data.mul_(0.1)"},
        {"epoch": "other.reset_parameters()", "model": "model = Net().to(device)\nother = Net()"},
    ],
)
def test_weights_that_are_alike(slots: dict[str, str]) -> None:
    assert findings(script(**slots)) == []
