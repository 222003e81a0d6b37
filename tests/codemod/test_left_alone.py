"""Scripts that are left alone, each with the one reason that its author can act on."""

from __future__ import annotations

import pytest
from accelift_codemod.plan import Outcome, Severity
from scripts import convert, converted, findings, lifted, script, unchanged

CLASS = """\
class Trainer:
    def __init__(self, model, loader, optimizer):
        self.model, self.loader, self.optimizer = model, loader, optimizer

    def fit(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
"""
MADE = "Trainer(model, loader, optimizer)"
BASED = CLASS.replace("class Trainer:", "class Based(dict):")
CLOSURE = """\
def closure():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss
"""
FUNCTION = (
    "def train(model, loader, optimizer):\n    for x, y in loader:\n        F.cross_entropy(model(x), y).backward()"
)
DISTRIBUTED = "model = nn.parallel.DistributedDataParallel(Net())"
NO_LOOP = {"loop": "", "move": "", "forward": "", "backward": "", "step": ""}

FABRIC = {
    "device": "fabric = Fabric()",
    "model": "model = Net()",
    "before": "model, optimizer = fabric.setup(model, optimizer)\nloader = fabric.setup_dataloaders(loader)",
    "move": "",
    "backward": "fabric.backward(loss)",
}

ENGINE = {
    **NO_LOOP,
    "epochs": "",
    "before": "def update(engine, batch):\n    loss = F.cross_entropy(model(batch[0]), batch[1])\n    loss.backward()\n"
    "    optimizer.step()\n    return loss.item()",
    "after": "Engine(update).run(loader, max_epochs=2)",
}

# What is no obstacle, but nothing to do either: the outcome of the file is good.
NOTHING = [
    ({"imports": "import torch.distributed as dist", "setup": "dist.get_rank()"}, "ALREADY-DISTRIBUTED"),
    ({"model": DISTRIBUTED}, "ALREADY-DISTRIBUTED"),
    (
        {
            "from_imports": "from torch.utils.data.distributed import DistributedSampler",
            "loader": "loader = DataLoader(data, sampler=DistributedSampler(data))",
        },
        "ALREADY-DISTRIBUTED",
    ),
    ({"imports": "import torch.multiprocessing as mp", "after": "mp.spawn(print)"}, "ALREADY-DISTRIBUTED"),
    ({"imports": "import horovod.torch as hvd", "setup": "hvd.init()"}, "ALREADY-DISTRIBUTED"),
    (
        {"from_imports": "from mpi4py import MPI", "batch_end": "MPI.COMM_WORLD.allreduce(loss.item())"},
        "ALREADY-DISTRIBUTED",
    ),
    ({"from_imports": "from ignite.engine import Engine", **ENGINE}, "FRAMEWORK"),
    ({"imports": "import deepspeed", "setup": "deepspeed.initialize()"}, "ALREADY-DISTRIBUTED"),
    ({"imports": "from accelerate import Accelerator", "setup": "a = Accelerator()"}, "ALREADY-ACCELERATE"),
    ({"imports": "import accelift", "setup": "a = accelift.Accelerator()"}, "ALREADY-ACCELERATE"),
    (
        {"imports": "import pytorch_lightning as pl", "setup": "pl.Trainer().fit(0)", **NO_LOOP, "epochs": ""},
        "FRAMEWORK",
    ),
    (
        {"imports": "from transformers import Trainer", "setup": "Trainer(0).train()", **NO_LOOP, "epochs": ""},
        "FRAMEWORK",
    ),
    ({"from_imports": "from lightning.fabric import Fabric", **FABRIC}, "FRAMEWORK"),
    (
        {
            "from_imports": "from lightning.fabric import Fabric",
            **FABRIC,
            "definitions": "def step(fabric, loss):\n    fabric.backward(loss)",
            "backward": "step(fabric, loss)",
        },
        "FRAMEWORK",
    ),
    ({"forward": "print(model(x))", "backward": "", "step": "pass"}, "NO-TRAINING"),
    ({**NO_LOOP, "epochs": ""}, "NO-TRAINING"),
    ({"definitions": FUNCTION, **NO_LOOP, "epochs": ""}, "NO-ENTRY"),
    ({"definitions": BASED, **NO_LOOP, "epochs": ""}, "NO-ENTRY"),
]

REFUSED = [
    ({"definitions": CLASS, "epochs": f"kept = [{MADE}]", **NO_LOOP}, "LOOP-IN-CLASS"),
    ({"definitions": CLASS, "after": f"kept = [{MADE}]"}, "LOOP-IN-CLASS"),
    ({"definitions": BASED, **NO_LOOP, "epochs": f"Based{MADE[7:]}.fit()"}, "LOOP-IN-CLASS"),
    ({"loader": "", "loop": "for i in range(4):", "move": "x, y = data[i]"}, "DATA-UNSHARDED"),
    ({"loader": "loader = [(torch.randn(4, 8), torch.randint(0, 3, (4,)))]"}, "DATA-UNSHARDED"),
    ({"loop": "for _ in range(4):", "move": "x, y = torch.randn(4, 8), torch.zeros(4).long()"}, "LOADER-UNKNOWN"),
    ({"from_imports": "from other import get_loader", "loader": "loader = get_loader()"}, "LOADER-UNKNOWN"),
    ({"loop": "for x, y in laoder:"}, "LOADER-UNKNOWN"),
    ({"from_imports": "from other import make", "optimizer": "optimizer = make(model)"}, "OPT-UNKNOWN"),
    ({"from_imports": "from other import p", "optimizer": "optimizer = torch.optim.SGD(p(), lr=0.1)"}, "OPT-UNKNOWN"),
    ({"optimizer": "", "step": "for p in model.parameters():\n    p.data -= 0.1 * p.grad"}, "OPT-UNKNOWN"),
    (
        {
            "optimizer": "w = torch.zeros(3, requires_grad=True)\n"
            "optimizer = torch.optim.SGD([*model.parameters(), w], lr=0.1)"
        },
        "DDP-FREEPARAM",
    ),
    (
        {
            "optimizer": "optimizer = torch.optim.LBFGS(model.parameters())",
            "forward": CLOSURE,
            "backward": "",
            "step": "optimizer.step(lambda: closure())",
        },
        "BWD-CLOSURE",
    ),
    ({"before": "print 'hello'"}, "PYTHON2"),
    ({"before": "try:\n    n = 1\nexcept ValueError, error:\n    n = 2"}, "PYTHON2"),
]


@pytest.mark.parametrize(("slots", "code"), NOTHING)
def test_there_is_nothing_to_do(slots: dict[str, str], code: str) -> None:
    text = script(**slots)
    finding = unchanged(text)
    assert (finding.code, finding.severity) == (code, Severity.NOTE)
    assert convert(text).outcome is Outcome.NOTHING


@pytest.mark.parametrize(("slots", "code"), REFUSED)
def test_it_is_refused(slots: dict[str, str], code: str) -> None:
    text = script(**slots)
    finding = unchanged(text)
    assert (finding.code, finding.severity) == (code, Severity.ERROR)
    assert convert(text).outcome is Outcome.REFUSED
    assert finding.message and finding.remedy


AROUND = """\
class Base{}:
    pass

class Around(Base):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 3)

    def __call__(self, x):
        return self.inner(x)

    def parameters(self):
        return self.inner.parameters()
"""


@pytest.mark.parametrize(
    ("base", "refused"),
    [("", True), ("(object)", True), ("(nn.Module)", False), ("(somewhere.Net)", False), ("(Unknown)", False)],
)
def test_what_has_parameters_and_is_no_module(base: str, refused: bool) -> None:
    """It could not be prepared, nor taken out of a wrapper; what is not known may be a module."""
    imports = {"imports": "import somewhere", "from_imports": "from somewhere import Unknown"}
    plan = convert(script(definitions=AROUND.format(base), model="model = Around()", **imports)).plan
    assert plan is not None and (plan.findings[0].code == "DDP-FREEPARAM" if plan.findings else False) == refused


def test_a_module_that_an_object_keeps_is_one() -> None:
    kept = {"definitions": "class Config:\n    nets = [None]", "optimizer": ""}
    made = "config = Config()\nconfig.nets[0] = nn.Linear(8, 3)\nmodel = config.nets[0]\n"
    made += "optimizer = torch.optim.SGD(config.nets[0].parameters(), lr=0.1)"
    plan = convert(script(**kept, model=made)).plan
    assert plan is not None and "DDP-FREEPARAM" not in [finding.code for finding in plan.findings]


OWN = """\
class Batches:
    def __init__(self, data):
        self.data = data

    def {method}
"""
WALK = {"from_imports": "from torch_geometric.nn import Node2Vec", "model": "model = Node2Vec(1, 2, 3, 4).to(device)"}


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        (
            {"definitions": OWN.format(method="__iter__(self):\n        return iter(self.data)")},
            "in its own way (line ",
        ),
        (
            {"definitions": OWN.format(method="__getitem__(self, i):\n        return self.data[i]")},
            "in its own way (line ",
        ),
        (
            {"definitions": OWN.format(method="size(self):\n        return 3")},
            "line 26, which cannot be proved to be",
        ),
        (
            {"from_imports": "from lost.sets import make", "loader": "loader, n = make(data)"},
            "which comes from `lost.sets`, no file that is looked at, and cannot be proved to be a DataLoader",
        ),
        ({**WALK, "loader": "", "before": "loader = model.loader(batch_size=16)"}, "makes its batches itself"),
        ({"imports": "import texar.torch as tx", "loader": "loader = tx.data.DataIterator(data)"}, "batches itself"),
    ],
)
def test_what_hands_out_the_batches_is_told(slots: dict[str, str], told: str) -> None:
    finding = unchanged(script(**{"loader": "loader = Batches(data)", **slots}))
    assert finding.code == "LOADER-UNKNOWN" and told in finding.message


@pytest.mark.parametrize("iterated", ["np.split(np.arange(64), 4)", "np.random.permutation(4)"])
def test_arrays_are_no_loader_that_is_unknown(iterated: str) -> None:
    slots = {"imports": "import numpy as np", "loader": f"rows = {iterated}"}
    assert unchanged(script(**slots, loop="for i in rows:", move="x, y = data[i]")).code == "DATA-UNSHARDED"


@pytest.mark.parametrize(
    ("slots", "line"),
    [
        ({"loop": "for x, y in laoder:"}, "for x, y in laoder:"),
        ({"before": "print 'hello'"}, "print 'hello'"),
        ({"optimizer": "", "step": "pass"}, "loss.backward()"),
        ({"loader": "loader = [1, 2]"}, "for x, y in loader:"),
        ({"model": DISTRIBUTED}, DISTRIBUTED),
    ],
)
def test_the_line_of_the_reason_is_given(slots: dict[str, str], line: str) -> None:
    text = script(**slots)
    assert text.splitlines()[unchanged(text).line - 1].strip() == line


def test_a_framework_still_gets_its_launch_config() -> None:
    slots = {"imports": "import pytorch_lightning as pl", "setup": "pl.Trainer().fit(0)", "epochs": "", **NO_LOOP}
    assert convert(script(**slots)).config


@pytest.mark.parametrize(
    "slots",
    [
        {"imports": "import torch.distributed as dist"},  # imported, never used
        {"from_imports": "from torch.nn.parallel import DistributedDataParallel"},
        {"imports": "import pytorch_lightning as pl", "setup": "pl.seed_everything(3)"},  # the loop is the script's own
        {"imports": "import torch.multiprocessing as mp", "setup": 'mp.set_sharing_strategy("file_system")'},
        {"from_imports": "from lightning.fabric import Fabric", "setup": "fabric = Fabric()"},  # and trains itself
        {"setup": "distributed = False"},
        {"setup": 'text = "torch.distributed and DistributedDataParallel"'},
        {"definitions": CLASS},  # never made
        {"definitions": FUNCTION},  # never called
        {"definitions": "class accelerate:\n    pass"},
        {"before": "rows = [(1, 2)]\nfor row in rows:\n    total = sum(row)"},
    ],
)
def test_what_only_looks_like_a_reason_is_none(slots: dict[str, str]) -> None:
    assert converted(script(**slots)) == lifted(**slots)


def test_a_syntax_error_is_an_error_of_the_file() -> None:
    text = script(before="x = = 3")
    result = convert(text)
    line = text.splitlines().index("x = = 3") + 1
    assert f"/train.py:{line}: does not parse" in result.error and result.output is None


def test_gradients_without_a_backward_pass_are_no_training_unless_they_are_stepped_with() -> None:
    by_hand = "for p, g in zip(model.parameters(), torch.autograd.grad(loss, model.parameters())):\n    {}"
    assert unchanged(script(backward=by_hand.format("p.grad = g"))).code == "BWD-UNKNOWN"
    assert unchanged(script(backward=by_hand.format("print(g)"), step="")).code == "NO-TRAINING"
    assert findings(script(batch_end="g = torch.autograd.grad(model(x).sum(), model.layer.weight)")) == []


TWO = {"device": "", "model": "model = Net().to('cuda:0')\nhead = nn.Linear(3, 3).to('cuda:1')"}
OF_BOTH = "optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)"
PARTS = """\
class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = {first}
        self.second = nn.Linear(8, 3).to(self.first)

    def forward(self, x):
        return self.second(x.to(self.first)).cuda(1)
"""
HANDED = """\
class Parts(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.second = second
        self.lower = nn.Linear(8, 8).to(first)
        self.upper = nn.Linear(8, 3).to(second)

    def forward(self, x):
        return self.upper(self.lower(x).to(self.second))
"""


@pytest.mark.parametrize(
    "slots",
    [
        {**TWO, "optimizer": OF_BOTH, "move": "x, y = x.to('cuda:0'), y.to('cuda:1')"},
        {
            "device": "one = torch.device('cuda:0')\nother = torch.device('cuda', 1)",
            "model": "model = Net().to(one)\nhead = nn.Linear(3, 3).to(other)",
            "optimizer": OF_BOTH,
            "move": "x, y = x.to(one), y.to(other)",
        },
        {"device": "", "model": "model = Net().cuda(0)", "move": "x, y = x.cuda(0), y.cuda(1)"},
        {
            "definitions": PARTS.format(first='torch.device("cuda:0" if torch.cuda.is_available() else "cpu")'),
            "device": "",
            "model": "model = Parts()",
            "move": "",
        },
        {"definitions": HANDED, "device": "first = 0", "model": "model = Parts(first, 1)", "move": "y = y.to(1)"},
    ],
)
def test_a_process_that_computes_on_several_gpus(slots: dict[str, str]) -> None:
    assert unchanged(script(**slots)).code == "MODEL-PARALLEL"


@pytest.mark.parametrize(
    "slots",
    [
        {"definitions": HANDED, "device": "", "model": "model = Parts(0, 0)", "move": "x, y = x.cuda(0), y.cuda(0)"},
        {"device": "", "model": "model = Net().to('cuda:1')", "move": "x, y = x.to('cuda:1'), y.cuda(1)"},
        {"device": "", "model": "model = Net().cuda()", "move": "x, y = x.cuda(), y.to('cuda:1')"},
        {"device": "", "model": "model = Net().cuda(0)", "move": "x, y = x.to('cuda:0'), y.cuda(0).to('cpu').cuda(0)"},
        {
            "definitions": "def unused(x):\n    return x.to('cuda:1')",
            "device": "",
            "model": "model = Net().to('cuda:0')",
            "move": "x, y = x.to('cuda:0'), y.to('cuda:0')",
        },
    ],
)
def test_a_process_with_one_gpu_is_converted(slots: dict[str, str]) -> None:
    assert "accelerator.prepare(" in converted(script(**slots))


def test_a_framework_that_trains_nothing() -> None:
    metrics = {"from_imports": "from ignite.metrics import Accuracy", "before": "right = Accuracy(device=device)"}
    assert "accelerator.backward(loss)" in converted(script(**metrics))


def test_a_tensor_that_trains_beside_a_loader_is_told_of() -> None:
    slots = {**NO_LOOP, "epochs": "", "optimizer": "", "model": "model = Net().to(device).eval()"}
    found = "w = torch.zeros(16, 8, device=device, requires_grad=True)\nbest = torch.optim.SGD([w], lr=0.1)\n"
    steps = "for n in range(9):\n    best.zero_grad()\n    F.cross_entropy(model(x * w), y).backward()\n"
    text = script(**slots, after=f"x, y = next(iter(loader))\n{found}{steps}    best.step()")
    assert "which is in no network" in unchanged(text).message
    assert "does not reach" in unchanged(text.replace("[w]", "model.parameters()")).message


def test_a_network_that_nothing_makes_is_told_of() -> None:
    finding = unchanged(script(model=""))
    assert finding.code == "OPT-UNKNOWN" and "given `model`, which this file never defines" in finding.message
    assert "never defines" not in unchanged(script(model="", imports="from nets import *")).message


@pytest.mark.parametrize(
    ("imports", "call", "module"),
    [
        ("import tqdm", "tqdm", "tqdm"),
        ("import tqdm.auto as bar", "bar", "tqdm.auto"),
        ("from elsewhere import bar", "bar", ""),
        ("try:\n    import tqdm\nexcept ImportError:\n    from elsewhere import tqdm", "tqdm", ""),
    ],
)
def test_a_loop_that_calls_a_module_is_told_of(imports: str, call: str, module: str) -> None:
    finding = unchanged(script(imports=imports, loop=f"for x, y in {call}(loader):"))
    assert finding.code == "LOADER-UNKNOWN"
    assert (f"which is the module {module} itself" in finding.message) == bool(module), finding.message


def test_a_function_of_a_module_of_its_name_is_no_matter() -> None:
    assert "accelerator.backward(loss)" in converted(
        script(imports="import tqdm", loop="for x, y in tqdm.tqdm(loader):")
    )
