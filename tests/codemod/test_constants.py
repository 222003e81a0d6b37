"""What is drawn once and used on all of the data: every process has to draw the same."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import convert, converted, findings, lifted, script

NUMPY = "import random\nimport numpy as np"
ZERO = "optimizer.zero_grad()\n"
LOSS = "loss = F.cross_entropy(model(x), y)"
DATASET = """\
class Pixels(torch.utils.data.Dataset):
    def __init__(self, data):
        self.data = data
        self.order = {draw}

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        x, y = self.data[i]
        return x[self.order], y
"""
TRANSFORM = """\
class Permute:
    def __init__(self, order):
        self.order = order

    def __call__(self, x):
        return x[self.order]
"""
RANDOM = """\
class Random(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        {}

    def forward(self, x):
        return self.layer(x * self.scale)
"""
USES = [
    {"setup": "perm = torch.randperm(8)", "forward": f"{ZERO}x = x[:, perm]\n{LOSS}"},
    {"setup": "perm = np.random.permutation(8)", "forward": f"{ZERO}x = x[:, perm]\n{LOSS}"},
    {"setup": "perm = list(range(8))\nrandom.shuffle(perm)", "forward": f"{ZERO}x = x[:, perm]\n{LOSS}"},
    {"setup": "mask = (torch.rand(8) > 0.5).float()", "forward": f"{ZERO}x = x * mask\n{LOSS}"},
    {"setup": "proj = F.normalize(torch.randn(8, 8), dim=0)", "forward": f"{ZERO}x = x @ proj\n{LOSS}"},
    {"setup": "proj = torch.randn(8, 8)", "forward": f"{ZERO}x = torch.matmul(x, proj)\n{LOSS}"},
    {
        "setup": "def draws():\n    return torch.randn(8, 8)\n\nproj = draws() / 8",
        "forward": f"{ZERO}x = x @ proj\n{LOSS}",
    },
    {"setup": "scale = random.uniform(0.5, 2)", "forward": f"{ZERO}loss = F.cross_entropy(model(x * scale), y)"},
    {"setup": "table = torch.rand(3, 3)", "forward": f"{ZERO}loss = F.mse_loss(model(x), table[y])"},
    {"epoch": "perm = torch.randperm(8)", "forward": f"{ZERO}loss = F.cross_entropy(model(x[:, perm]), y)"},
    {
        "definitions": DATASET.format(draw="torch.randperm(8)"),
        "data": "data = Pixels(TensorDataset(torch.ones(64, 8), torch.arange(64) % 3))",
    },
    {
        "definitions": TRANSFORM,
        "setup": "permute = Permute(torch.randperm(8))",
        "data": "data = other.Images(transform=permute)",
        "imports": "import other\n" + NUMPY,
    },
    {
        "setup": "perm = torch.randperm(8)",
        "data": "data = datasets.MNIST('.', transform=transforms.Compose([transforms.Lambda(lambda x: x[perm])]))",
        "from_imports": "from torchvision import datasets, transforms",
    },
]


@pytest.mark.parametrize("slots", USES)
def test_what_is_drawn_once_without_a_seed_is_reported(slots: dict[str, str]) -> None:
    slots = {"imports": NUMPY, **slots}
    assert findings(script(**slots)).count("DATA-UNSEEDED") == 1


@pytest.mark.parametrize("slots", USES)
def test_what_is_drawn_with_a_seed_is_not(slots: dict[str, str]) -> None:
    seeded = "torch.manual_seed(0)\nnp.random.seed(0)\nrandom.seed(0)\n"
    slots = {"imports": NUMPY, **slots, "setup": seeded + slots.get("setup", "")}
    assert "DATA-UNSEEDED" not in findings(script(**slots))


@pytest.mark.parametrize(
    "slots",
    [
        {
            "setup": "perm = torch.randperm(8, generator=torch.Generator().manual_seed(0))",
            "forward": f"{ZERO}x = x[:, perm]\n{LOSS}",
        },
        {"setup": "perm = torch.arange(8)", "forward": f"{ZERO}x = x[:, perm]\n{LOSS}"},
        {"forward": f"{ZERO}perm = torch.randperm(8)\nx = x[:, perm]\n{LOSS}"},
        {"forward": f"{ZERO}x = x + torch.randn(8)\n{LOSS}"},
        {
            "definitions": "def augment(x):\n    noise = torch.rand(8)\n    return x * noise",
            "forward": f"{ZERO}loss = F.cross_entropy(model(augment(x)), y)",
        },
        {"setup": "run = random.randint(0, 9999)", "batch_end": 'print(f"{run}: {loss.item()}")'},
        {"setup": "run = random.randint(0, 9999)", "batch_end": "print(run, loss.item())"},
        {"setup": "shown = torch.randn(4, 8)", "epoch_end": "with torch.no_grad():\n    print(model(shown).mean())"},
        {
            "setup": "shown = torch.randn(16, 8)",
            "batch_end": "with torch.no_grad():\n    print((model(shown) - x).mean())",
        },
        {
            "setup": "fixed = torch.randn(16, 8)",
            "forward": f"{ZERO}out = model(x)\nloss = F.cross_entropy(out, y)",
            "batch_end": "out = model(fixed)\nprint(out.mean())",
        },
        {
            "definitions": "def noisy(x):\n    noise = torch.rand(8)\n    return x * noise\n\n\n"
            "class Noisy(Net):\n    def forward(self, x):\n        return self.layer(noisy(x))",
            "model": "model = Noisy().to(device)",
        },
        {
            "definitions": "class Decoding(Net):\n    def decode(self, z):\n        return z @ self.layer.weight",
            "model": "model = Decoding().to(device)",
            "epoch_end": "z = torch.randn(4, 3)\nwith torch.no_grad():\n    print(model.decode(z).mean())",
        },
        {
            "definitions": "class Coding(Net):\n    def decode(self, z):\n        return self.layer(z)\n\n"
            "    def forward(self, x):\n        z = self.decode(x)\n        return z * 2",
            "model": "model = Coding().to(device)",
            "epoch_end": "z = torch.randn(4, 8)\nwith torch.no_grad():\n    print(model.decode(z).mean())",
        },
        {
            "forward": f"{ZERO}if epoch < 3:\n    noise = torch.randn_like(x)\n"
            "loss = F.cross_entropy(model(x + noise), y)",
            "epoch_end": "noise = torch.randn(4, 8)\nprint(noise.mean())",
        },
        {"setup": "x = torch.randn(8)\nprint(x)", "forward": f"{ZERO}loss = F.cross_entropy(model(x * 2), y)"},
        {"setup": "shown = torch.randn(4, 8)", "forward": f"{ZERO}x = x.view(shown.shape[0] * 4, 8)\n{LOSS}"},
        {"epoch_end": "one = torch.zeros(4, 3).scatter_(1, torch.randint(0, 2, (4, 1)), 1)\nprint(one)"},
        {
            "before": "model.extra = nn.Parameter(torch.randn(3))",
            "forward": f"{ZERO}loss = (model(x) * model.extra).mean()",
        },
    ],
)
def test_what_is_drawn_for_each_batch_or_only_shown_is_not(slots: dict[str, str]) -> None:
    assert "DATA-UNSEEDED" not in findings(script(**{"imports": NUMPY, **slots}))


def test_nothing_else_changes() -> None:
    slots = {"setup": "perm = torch.randperm(8)", "forward": f"{ZERO}loss = F.cross_entropy(model(x[:, perm]), y)"}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == ["DATA-UNSEEDED"]


def test_what_a_data_set_draws_for_each_sample_is_its_own() -> None:
    text = DATASET.format(draw="None").replace("x[self.order]", "x[torch.randperm(8)]")
    data = "data = Pixels(TensorDataset(torch.ones(64, 8), torch.arange(64) % 3))"
    assert "DATA-UNSEEDED" not in findings(script(definitions=text, data=data))


def test_buffers_of_a_prepared_network_are_those_of_the_first_process() -> None:
    slots = {"model": "model = Random().to(device)"}
    buffer = RANDOM.format('self.register_buffer("scale", torch.rand(8))')
    assert findings(script(definitions=buffer, **slots)) == []
    assert findings(script(definitions=RANDOM.format("self.scale = nn.Parameter(torch.rand(8))"), **slots)) == []
    assert findings(script(definitions=RANDOM.format("self.scale = torch.rand(8)"), **slots)) == ["DATA-UNSEEDED"]


ORDERED = """\
class Ordered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.order = list(range(8))
        {draw}

    def forward(self, x):
        return self.layer({used})
"""
OWN = [
    {
        "setup": "rng = {}\nproj = torch.from_numpy(rng.normal(size=(8, 8))).float()",
        "forward": f"{ZERO}x = x @ proj\n{LOSS}",
    },
    {"setup": "rng = {}\nperm = rng.permutation(8)", "forward": f"{ZERO}x = x[:, perm]\n{LOSS}"},
    {"setup": "rng = {}\nperm = list(range(8))\nrng.shuffle(perm)", "forward": f"{ZERO}x = x[:, perm]\n{LOSS}"},
    {"setup": "perm = {}.permutation(8)", "forward": f"{ZERO}x = x[:, perm]\n{LOSS}"},
]
DRAWN = "Subset(data, rng.permutation(64)[:48].tolist())"


@pytest.mark.parametrize("slots", OWN)
@pytest.mark.parametrize("made", ["np.random.default_rng({})", "np.random.RandomState({})"])
def test_a_generator_of_its_own_without_a_seed(slots: dict[str, str], made: str) -> None:
    def found(seed: str) -> list[str]:
        return findings(
            script(imports=NUMPY + "\nimport time", **{k: v.replace("{}", made.format(seed)) for k, v in slots.items()})
        )

    assert [found(seed).count("DATA-UNSEEDED") for seed in ("", "None", "int(time.time())")] == [1, 1, 1]
    assert [found(seed).count("DATA-UNSEEDED") for seed in ("0", "seed=7")] == [0, 0]


@pytest.mark.parametrize(
    ("seed", "more", "codes"),
    [("", "", ["DATA-SAMPLER-RNG"]), ("0", "", []), ("", "rng.seed(0)\n", [])],
)
def test_indices_drawn_by_a_generator_of_its_own(seed: str, more: str, codes: list[str]) -> None:
    data = f"rng = np.random.RandomState({seed})\n{more}data = TensorDataset(torch.ones(64, 8), torch.arange(64) % 3)"
    subset = f"{data}\ndata = torch.utils.data.{DRAWN}"
    assert findings(script(imports=NUMPY, data=subset)) == codes


@pytest.mark.parametrize(
    ("draw", "used", "count"),
    [
        ("random.shuffle(self.order)", "x[:, self.order]", 1),
        ("np.random.shuffle(self.order)", "x[:, self.order]", 1),
        ("random.shuffle(self.order)", "x", 0),
        ("random.Random(0).shuffle(self.order)", "x[:, self.order]", 0),
        ("pass", "x[:, self.order]", 0),
        ("print(random.random())", "x[:, self.order]", 0),
    ],
)
@pytest.mark.parametrize("seed", ["", "random.seed(0)\nnp.random.seed(0)\n"])
def test_what_a_constructor_shuffles(draw: str, used: str, count: int, seed: str) -> None:
    slots = {"definitions": ORDERED.format(draw=draw, used=used), "model": "model = Ordered().to(device)"}
    found = findings(script(imports=NUMPY, setup=seed, **slots)).count("DATA-UNSEEDED")
    assert found == (0 if seed else count)


LISTED = """\
class Listed(torch.utils.data.Dataset):
    def __init__(self, rows):
        {draw}
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]
"""


@pytest.mark.parametrize(
    ("draw", "messages"),
    [
        ("random.shuffle(rows)", ["`rows` is shuffled without a seed: every process would have other samples"]),
        (
            "rows = [random.choice(rows) for _ in rows]\n        rows = [rows[random.randrange(9)] for _ in rows]",
            [
                "`random.choice(rows)` is drawn once without a seed, and `self.rows` is used on the data: every "
                "process would use another one"
            ],
        ),
        ("pass", []),
    ],
)
def test_the_order_in_which_a_data_set_keeps_its_samples(draw: str, messages: list[str]) -> None:
    slots = {"definitions": LISTED.format(draw=draw), "data": "data = Listed(list(TensorDataset(torch.ones(64, 8))))"}
    plan = convert(script(imports=NUMPY, **slots)).plan
    found = [f for f in plan.findings if f.code == "DATA-UNSEEDED"] if plan is not None else []
    assert [f.message for f in found] == messages
    assert all((f.severity.name == "ERROR") is ("shuffled" in f.message) for f in found)
    seeded = script(imports=NUMPY, setup="random.seed(0)", **slots)
    assert "DATA-UNSEEDED" not in findings(seeded)


def test_a_layer_of_a_trained_network_keeps_nothing_of_what_it_is_given() -> None:
    shown = "def show():\n    z = torch.randn(4, 8).to(device)\n    torch.save(model.layer(z), 'shown.pt')"
    assert "DATA-UNSEEDED" not in findings(script(definitions=shown, epoch="show()"))


@pytest.mark.parametrize(
    "slots",
    [
        {"setup": "rng = np.random.default_rng()", "batch_end": "print(rng.normal(), loss.item())"},
        {"setup": "rng = np.random.default_rng()", "forward": f"{ZERO}x = x * rng.normal()\n{LOSS}"},
        {"setup": "rng = other.default_rng()\np = rng.permutation(8)", "forward": f"{ZERO}x = x[:, p]\n{LOSS}"},
    ],
)
def test_a_generator_of_its_own_that_no_constant_is_drawn_from(slots: dict[str, str]) -> None:
    assert "DATA-UNSEEDED" not in findings(script(imports=f"{NUMPY}\nimport other", **slots))


LAYER = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        net = x
        net = self.layer(net)
        return net

    def again(self, x):
        return self.layer(x)
"""


def test_a_layer_keeps_nothing_of_what_it_is_given_once() -> None:
    once = "shown = torch.from_numpy(np.random.randn(2, 8)).float().to(device)\nprint(model.forward(shown))"
    forward = f"{ZERO}out = model.forward(x.view(-1, 8))\nloss = F.cross_entropy(out, y)"
    text = script(imports=NUMPY, definitions=LAYER, model="model = Net().to(device)", before=once, forward=forward)
    assert "DATA-UNSEEDED" not in findings(text)


MOCK = """\
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = {made}
        self.head = nn.Linear(8, 3)
        {mock}

    def forward(self, x):
        {first}
        return self.head(self.encoder(x) - self.encoder(x.flip(1)))
"""


ENCODER = {"from_imports": "from encoders import Encoder", "model": "model = Pair().to(device)"}


@pytest.mark.parametrize("made", ["Encoder()", "Encoder(8)", "nn.Linear(8, 8)"])
@pytest.mark.parametrize("mock", ["self.forward(torch.randn(2, 8))", "self(torch.randn(2, 8))", "pass"])
def test_a_mock_batch_is_gone_with_its_result(made: str, mock: str) -> None:
    definitions = MOCK.format(made=made, mock=mock, first="pass")
    text = script(
        from_imports="from encoders import Encoder", definitions=definitions, model="model = Pair().to(device)"
    )
    assert "DATA-UNSEEDED" not in findings(text)


@pytest.mark.parametrize(
    ("made", "mock", "first"),
    [
        ("Encoder()", "self.first = self.encoder(torch.randn(2, 8))", "x = x + self.first[0]"),
        ("Encoder()", "self.first = torch.randn(8)", "x = x + self.first"),
        ("Encoder(torch.randn(8))", "pass", "pass"),
        ("Encoder()", "self.encoder.fit(torch.randn(8))", "pass"),
    ],
)
def test_what_a_network_keeps_of_what_is_drawn_is_reported(made: str, mock: str, first: str) -> None:
    definitions = MOCK.format(made=made, mock=mock, first=first)
    text = script(
        from_imports="from encoders import Encoder", definitions=definitions, model="model = Pair().to(device)"
    )
    assert "DATA-UNSEEDED" in findings(text)


STOPPER = """\
class Stopper:
    def __init__(self, kept):
        self.kept = kept

    def __call__(self, score, model):
        if score < 1:
            torch.save(model.state_dict(), self.kept)
"""


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ('"net_{}.pt".format(number)', False),
        ('"net_%d.pt" % number', False),
        ('"net_" + str(number)', False),
        ('f"net_{number}.pt"', False),
        ("str(number)", False),
        ("number", True),
        ("number % 3", True),
        ("[number]", True),
    ],
)
def test_a_number_that_a_name_is_made_of_is_not_used_on_the_data(kept: str, told: bool) -> None:
    text = script(
        imports=NUMPY,
        definitions=STOPPER,
        setup="number = random.randint(1, 99)",
        before=f"stopper = Stopper({kept})",
        epoch_end="stopper(epoch, model)",
    )
    assert ("DATA-UNSEEDED" in findings(text)) is told


WEIGHTS = """
class Table(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table
        self.layer = nn.Linear(8, 3)
        if self.table is not None:
            self.layer.weight = nn.Parameter(self.table)

    def forward(self, x):
        {forward}
        return self.layer(x)
"""


@pytest.mark.parametrize(
    ("forward", "told"),
    [
        ("if self.table is not None:\n            x = x * 2", False),
        ("x = x * 2 if self.table is None else x", False),
        ("x = x[:, : self.table.shape[1]]", False),
        ("x = x + self.table[0]", True),
        ("if self.table is not None:\n            x = x @ self.table.T @ self.table", True),
    ],
)
def test_what_is_only_asked_if_it_is_there_is_not_used_on_the_data(forward: str, told: bool) -> None:
    text = script(definitions=WEIGHTS.format(forward=forward), model="model = Table(torch.randn(3, 8)).to(device)")
    assert ("DATA-UNSEEDED" in findings(text)) is told


PAIRS = """\
class Pairs(Dataset):
    def __init__(self, count):
        self.count = count

    def draw(self):
        self.items = [(k, np.random.rand()) for k in range(self.count)]
        np.random.shuffle(self.items)

    def __len__(self):
        return self.count

    def __getitem__(self, k):
        return torch.full((8,), self.items[k][1]), self.items[k][0] % 3
"""


@pytest.mark.parametrize("told", ["loader.dataset.draw()", "data.draw()"])
@pytest.mark.parametrize(
    ("seed", "codes"),
    [("", {"DATA-UNSEEDED"}), ("np.random.seed(0)\ntorch.manual_seed(0)", set())],
)
def test_what_a_data_set_is_told_to_draw_is_for_all_of_its_data(told: str, seed: str, codes: set[str]) -> None:
    slots = {"setup": seed, "data": "data = Pairs(64)", "epoch": told}
    text = script(imports=NUMPY, from_imports="from torch.utils.data import Dataset", definitions=PAIRS, **slots)
    assert set(findings(text)) == codes  # also, it is right that all processes draw alike


def test_what_a_data_set_draws_for_each_sample_is_noise() -> None:
    text = PAIRS.replace("return torch.full((8,), self.items[k][1])", "return torch.full((8,), np.random.rand())")
    slots = {"setup": "np.random.seed(0)\ntorch.manual_seed(0)", "data": "data = Pairs(64)", "epoch": "data.draw()"}
    more = "from torch.utils.data import Dataset"
    assert findings(script(imports=NUMPY, from_imports=more, definitions=text, **slots)) == ["RNG-SAMENOISE"]
