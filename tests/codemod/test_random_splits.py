"""What picks, splits or orders the samples by chance: every process has to do it alike."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script

IMPORTS = "import random\nimport numpy as np\nimport pandas as pd\nimport sklearn\nimport sklearn.model_selection as ms"
ROWS = """\
class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return torch.ones(8), 0
"""


def told(data: str, **slots: str) -> list[str]:
    return [c for c in findings(script(imports=IMPORTS, data=data, **slots)) if c.startswith("DATA")]


DATA = "data = TensorDataset(torch.ones(64, 8), torch.arange(64) % 3)\n"
FOLDS = DATA + "folds = ms.{}\nfirst, rest = next(folds.split(range(64)))"


@pytest.mark.parametrize(
    "folds",
    [
        "KFold(5, shuffle=True)",
        "StratifiedKFold(n_splits=5, shuffle=True, random_state=None)",
        "ShuffleSplit(1)",
        "RepeatedKFold(n_splits=5)",
    ],
)
def test_folds_without_a_seed(folds: str) -> None:
    assert told(FOLDS.format(folds)) == ["DATA-SPLIT-UNSEEDED"]
    assert told(f"np.random.seed(1)\n{FOLDS.format(folds)}") == []
    assert told(f"torch.manual_seed(1)\n{FOLDS.format(folds)}") == ["DATA-SPLIT-UNSEEDED"]  # another generator


@pytest.mark.parametrize(
    "line",
    [
        "from pytorch_lightning import seed_everything",
        "from lightning import seed_everything",
        "from transformers import set_seed as seed_everything",
    ],
)
def test_a_library_s_function_that_seeds_all_generators(line: str) -> None:
    assert told(f"{line}\nseed_everything(1)\n{FOLDS.format('ShuffleSplit(1)')}") == []
    assert told(f"{line}\n{FOLDS.format('ShuffleSplit(1)')}") == ["DATA-SPLIT-UNSEEDED"]


@pytest.mark.parametrize(
    "folds",
    [
        "KFold(5)",
        "KFold(5, shuffle=False)",
        "KFold(5, shuffle=True, random_state=1)",
        "KFold(5, shuffle=True, **settings)",
        "ShuffleSplit(1, random_state=3)",
        "GroupKFold(4)",
        "LeaveOneOut()",
    ],
)
def test_folds_that_every_process_makes_alike(folds: str) -> None:
    assert told(f"settings = {{}}\n{FOLDS.format(folds)}") == []


def test_folds_that_the_script_does_not_ask_for() -> None:
    search = "from sklearn.svm import SVC\nfolds = ms.KFold(5, shuffle=True)\nms.cross_val_score(SVC(), x, y, cv=folds)"
    assert told(f"{DATA}x, y = np.ones((64, 8)), np.ones(64)\n{search}\nms.ShuffleSplit()") == []
    held = "class Held:\n    def __init__(self):\n        self.folds = ms.KFold(5, shuffle=True)\n"
    assert told(f"{DATA}held = Held()\nfor a, b in held.folds.split(data):\n    pass", definitions=held) == [
        "DATA-SPLIT-UNSEEDED"
    ]


def test_folds_are_seeded_when_asked_for() -> None:
    old = FOLDS.format("KFold(5, shuffle=True)")
    new = FOLDS.format("KFold(5, shuffle=True, random_state=0)")
    assert converted(script(imports=IMPORTS, data=old), unsafe=True) == lifted(imports=IMPORTS, data=new)
    given = FOLDS.format("KFold(5, shuffle=True, random_state=None)")
    assert converted(script(imports=IMPORTS, data=given), unsafe=True) == lifted(imports=IMPORTS, data=given)


TABLE = "frame = pd.read_csv('a.csv')\nframe = {}\ndata = Rows(frame)"


@pytest.mark.parametrize(
    ("rows", "codes"),
    [
        ("frame.sample(frac=1).reset_index(drop=True)", ["DATA-SAMPLER-RNG"]),
        ("frame.sample(100)", ["DATA-SAMPLER-RNG"]),
        ("sklearn.utils.shuffle(frame)", ["DATA-SAMPLER-RNG"]),
        ("frame.sample(frac=1, random_state=1)", []),
        ("sklearn.utils.shuffle(frame, random_state=1)", []),
        ("frame.head(100)", []),
    ],
)
def test_rows_of_a_table(rows: str, codes: list[str]) -> None:
    assert told(TABLE.format(rows), definitions=ROWS) == codes
    assert told("np.random.seed(0)\n" + TABLE.format(rows), definitions=ROWS) == []


def test_rows_that_are_only_shown_need_no_seed() -> None:
    assert told("frame = pd.read_csv('a.csv')\nprint(frame.sample(5))\ndata = Rows(frame)", definitions=ROWS) == []
    own = "class Memory:\n    def sample(self, frac):\n        return [1, 2]\n\n\n"
    assert told("data = Rows(Memory().sample(frac=1))", definitions=own + ROWS) == []


# ---- estimators that begin somewhere at random

FOUND = """\
from sklearn import cluster, mixture
losses = torch.arange(64.0).view(-1, 1).numpy()
{}
data = torch.utils.data.Subset(Rows(range(64)), clean.nonzero()[0])
"""


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        ("gmm = mixture.GaussianMixture(2)\ngmm.fit(losses)\nclean = gmm.predict_proba(losses)[:, 0] > 0.5", True),
        ("clean = cluster.KMeans(n_clusters=2).fit(losses).labels_ == 1", True),
        ("clean = cluster.KMeans(2).fit_predict(losses)", True),
        ("clean = cluster.KMeans(2, random_state=None).fit_predict(losses)", True),
        ("clean = cluster.KMeans(2, random_state=0).fit_predict(losses)", False),
        ("clean = cluster.DBSCAN().fit_predict(losses) == 0", False),
        ("print(cluster.KMeans(2).fit(losses).inertia_)\nclean = losses[:, 0] < 32", False),
    ],
)
def test_samples_that_an_estimator_finds(lines: str, codes: bool) -> None:
    text = FOUND.format(lines)
    assert told(text, definitions=ROWS) == (["DATA-SAMPLER-RNG"] if codes else [])
    assert told("np.random.seed(0)\n" + text, definitions=ROWS) == []


def test_what_seeds_another_library_is_no_seed() -> None:
    order = "data = torch.utils.data.Subset(Rows(range(64)), np.random.permutation(64)[:32])"
    others = "random.seed(0)\ntorch.manual_seed(0)\ntorch.cuda.manual_seed_all(0)\n"
    assert told(f"import random\n{others}{order}", definitions=ROWS) == ["DATA-SAMPLER-RNG"]
    assert told(f"import random\n{others}np.random.seed(0)\n{order}", definitions=ROWS) == []
    assert told(f"from elsewhere import seed_all\nseed_all(0)\n{order}", definitions=ROWS) == []


# ---- settings that are None unless somebody says otherwise

OPTIONS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument({})
args = parser.parse_args()
"""
HALVES = "data, rest = torch.utils.data.random_split(Rows(range(64)), [48, 16])"


@pytest.mark.parametrize(
    ("option", "between", "codes"),
    [
        ('"--seed", type=int', "", ["DATA-SPLIT-UNSEEDED"]),
        ('"--seed", type=int, default=None', "", ["DATA-SPLIT-UNSEEDED"]),
        ('"--seed", type=int, default=1', "", []),
        ('"--seed", type=int, required=True', "", []),
        ('"seed", type=int', "", []),
        ('"--seed", type=int', "args.seed = args.seed or 7\n", []),
    ],
)
def test_a_seed_that_is_given_only_if_somebody_does(option: str, between: str, codes: list[str]) -> None:
    setup = OPTIONS.format(option) + between
    whole = "if args.seed is not None:\n    torch.manual_seed(args.seed)\n"
    assert told(whole + HALVES, setup=setup, definitions=ROWS) == codes
    helper = "def seed_all(seed):\n    torch.manual_seed(seed)\n\n\n"
    assert told("seed_all(args.seed)\n" + HALVES, setup=setup, definitions=helper + ROWS) == codes
    table = TABLE.format("frame.sample(frac=1, random_state=args.seed)")
    assert len(told(table, setup=setup, definitions=ROWS)) == len(codes)


def test_a_helper_that_always_has_a_seed() -> None:
    helper = "def seed_all(seed=None):\n    if seed is None:\n        seed = 3\n    torch.manual_seed(seed)\n\n\n"
    setup = OPTIONS.format('"--seed", type=int')
    assert told("seed_all(args.seed)\n" + HALVES, setup=setup, definitions=helper + ROWS) == []


# ---- samples that are taken, or left out, by chance

TAKEN = "rows, rest = [], []\nfor row in range(64):\n    {}\ndata = Rows(rows)"


@pytest.mark.parametrize(
    ("round", "count"),
    [
        ("if random.random() < 0.5:\n        rows.append(row)", 1),
        ("if random.random() < 0.5:\n        rest.append(row)\n    else:\n        rows.append(row)", 1),
        ("if random.random() < 0.5:\n        continue\n    rows.append(row)", 1),
        ("rows.append(row)\n    if np.random.rand() < 0.1:\n        break", 1),
        ("coin = random.random()\n    if coin < 0.5:\n        rows.append(row)", 1),
        ("if random.random() < 0.5:\n        rest.append(row)\n    rows.append(row)", 0),
        ("if random.random() < 0.5:\n        print(row)\n    rows.append(row)", 0),
        ("if row % 3:\n        rows.append(row)", 0),
    ],
)
def test_rows_that_a_number_decides_on(round: str, count: int) -> None:
    data = TAKEN.format(round)
    assert told(data, definitions=ROWS).count("DATA-SAMPLER-RNG") == count
    assert told(f"random.seed(0)\nnp.random.seed(0)\n{data}", definitions=ROWS) == []


def test_a_comprehension_that_a_number_decides_on() -> None:
    data = "data = torch.utils.data.Subset(Rows(range(64)), [i for i in range(64) if random.random() < {}])"
    assert told(data.format(0.5), definitions=ROWS) == ["DATA-SAMPLER-RNG"]
    assert told("random.seed(0)\n" + data.format(0.5), definitions=ROWS) == []


OWN = """\
class Own(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = self.load()

    def load(self):
        rows = []
        for row in range(64):
            if {load} > 0.1:
                continue
            rows.append(row)
        return rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        seen = []
        if {each} > 0.5:
            seen.append(i)
        return torch.ones(8), len(seen)
"""


def test_a_data_set_that_leaves_out_samples_when_it_is_made() -> None:
    once = OWN.format(load="random.random()", each="0")
    anew = OWN.format(load="1", each="random.random()")  # an augmentation
    assert told("data = Own()", definitions=once) == ["DATA-SAMPLER-RNG"]
    assert told("random.seed(0)\ndata = Own()", definitions=once) == []
    assert told("data = Own()", definitions=anew) == []
    seeded = {"imports": IMPORTS, "data": "random.seed(0)\ndata = Own()"}
    notes = [findings(script(**seeded, definitions=d)) for d in (once, anew)]
    assert ["RNG-SAMENOISE" in codes for codes in notes] == [False, True]


PROBE = "first, rest = ms.train_test_split(np.ones((8, 3)))\nprint(first.sum())"


@pytest.mark.parametrize(
    ("slots", "codes"),
    [
        ({"after": PROBE}, []),
        ({"before": PROBE}, ["DATA-SPLIT-UNSEEDED"]),
        ({"epoch_end": PROBE}, ["DATA-SPLIT-UNSEEDED"]),  # the training goes on
        ({"after": f"{PROBE}\nmore = DataLoader(Rows(first))", "definitions": ROWS}, ["DATA-SPLIT-UNSEEDED"]),
    ],
)
@pytest.mark.parametrize("main", [False, True])
def test_a_split_when_all_training_is_over(slots: dict[str, str], codes: list[str], main: bool) -> None:
    found = findings(script(imports=IMPORTS, main=main, **slots))
    assert [code for code in found if code.startswith("DATA-SPLIT")] == codes


@pytest.mark.parametrize(
    ("line", "slot", "codes"),
    [
        ("random.shuffle(data.rows)", "before", ["DATA-UNSEEDED"]),
        ("np.random.shuffle(loader.dataset.rows)", "epoch", ["DATA-UNSEEDED"]),
        ("np.random.seed(1)\nnp.random.shuffle(loader.dataset.rows)", "before", []),
        ("random.seed(1)\nrandom.shuffle(data.rows)", "before", []),
        ("random.shuffle(data.rows)", "after", []),  # nothing is drawn from it any more
        ("random.shuffle(other.rows)", "before", []),
        ("random.choice(data.rows)", "before", []),
    ],
)
def test_what_a_data_set_keeps_is_shuffled_in_place(line: str, slot: str, codes: list[str]) -> None:
    setup = "class Other:\n    rows = [1, 2]\n\nother = Other()"
    assert told("data = Rows(list(range(64)))", definitions=ROWS, setup=setup, **{slot: line}) == codes


STREAM = """\
class Rows(torch.utils.data.IterableDataset):
    def __init__(self, x):
        self.x = x
        self.order = list(range(len(x)))

    def mix(self):
        {mix}

    def lazily(self):
        {lazy}

    def __iter__(self):
        {body}
"""
DEALS = "for i in self.order:\n            yield self.x[i], i % 3"


def stream(body: str, mix: str = "pass", lazy: str = "pass", loader: str = "", **slots: str) -> str:
    return script(
        imports="import random\n\nimport numpy as np",
        definitions=STREAM.format(body=body, mix=mix, lazy=lazy),
        data="data = Rows(torch.ones(64, 8))",
        loader=f"loader = DataLoader(data, batch_size=16{loader})",
        **slots,
    )


POPS = "rows = [*self.order]\n        while rows:\n            yield self.x[rows.pop(random.randrange(len(rows)))], 1"
BUFFER = (
    "rows = [*self.order]\n        for n in range(64):\n            i = random.randrange(64)\n"
    "            yield self.x[rows[i]], 1\n            rows[i] = n"
)
PICKS = "for _ in self.order:\n            i = random.randint(0, 63)\n            yield self.x[i], i % 3"


@pytest.mark.parametrize(
    ("body", "mix", "lazy"),
    [
        (f"random.shuffle(self.order)\n        {DEALS}", "pass", "pass"),
        (f"self.mix()\n        {DEALS}", "np.random.shuffle(self.order)", "pass"),
        ("for i in torch.randperm(64).tolist():\n            yield self.x[i], i % 3", "pass", "pass"),
        (POPS, "pass", "pass"),
        (BUFFER, "pass", "pass"),
        ("return self.lazily()", "pass", f"random.shuffle(self.order)\n        {DEALS}"),
    ],
)
def test_streams_whose_order_is_drawn(body: str, mix: str, lazy: str) -> None:
    assert "DATA-SAMPLER-RNG" in findings(stream(body, mix, lazy))
    seeds = "random.seed(0)\nnp.random.seed(0)\ntorch.manual_seed(0)"
    assert "DATA-SAMPLER-RNG" not in findings(stream(body, mix, lazy, setup=seeds))
    assert "DATA-SAMPLER-RNG" not in findings(stream(body, mix, lazy, loader=", num_workers=2"))  # seeded alike
    assert "DATA-SAMPLER-RNG" not in findings(stream(body, mix, lazy), target="accelerate")  # one process reads


@pytest.mark.parametrize(
    "body",
    [
        DEALS,
        PICKS,  # which puts back what it draws
        "for i in self.order:\n            yield self.x[i] + random.random(), i % 3",  # noise
        "for i in self.order:\n            yield self.x[i] * random.choice([1, 2]), i % 3",
        f"random.Random(0).shuffle(self.order)\n        {DEALS}",
        "random.shuffle(self.order)\n        return iter(self.order)",  # in step with the main process
        "return self.lazily()",
    ],
)
def test_streams_whose_order_is_not(body: str) -> None:
    assert "DATA-SAMPLER-RNG" not in findings(stream(body, lazy=DEALS))


def test_what_a_data_set_that_is_indexed_draws_is_no_order() -> None:
    text = stream(f"random.shuffle(self.order)\n        {DEALS}").replace("IterableDataset", "Dataset")
    text = text.replace("    def mix", "    def __len__(self):\n        return 64\n\n    def mix")
    assert "DATA-SAMPLER-RNG" not in findings(text)


def test_a_stream_is_told_of_once() -> None:
    twice = stream(f"random.shuffle(self.order)\n        random.shuffle(self.order)\n        {DEALS}")
    loaders = f"{twice}\nother = DataLoader(data, batch_size=4)\n"
    assert findings(loaders).count("DATA-SAMPLER-RNG") == 1


ARRAYS = """\
def numbers(n):
    rows = torch.normal(0, 1, (n, 8))
    return rows, torch.arange(n) % 3


def load_array(arrays, batch_size):
    dataset = TensorDataset({arrays})
    return DataLoader(dataset, batch_size, shuffle=True)
"""


@pytest.mark.parametrize("arrays", ["*arrays", "arrays[0], arrays[1]"])
@pytest.mark.parametrize("given", ["(first, labels)", "[first, labels]", "numbers(64)"])
@pytest.mark.parametrize(("seed", "codes"), [("", ["DATA-UNSEEDED"]), ("torch.manual_seed(0)\n", [])])
def test_random_numbers_of_which_a_function_makes_the_loader(
    arrays: str, given: str, seed: str, codes: list[str]
) -> None:
    slots = {"definitions": ARRAYS.format(arrays=arrays), "loader": f"loader = load_array({given}, 16)"}
    assert told(f"{seed}first, labels = numbers(64)", **slots) == codes


@pytest.mark.parametrize(
    ("loader", "codes"),
    [
        ("DataLoader(torch.randn(64, 8), batch_size=16)", ["DATA-UNSEEDED"]),
        ("DataLoader(torch.ones(64, 8), batch_size=16)", []),
        ("DataLoader(torch.ones(64, 8), sampler=Own(torch.rand(64)))", []),
    ],
)
def test_random_numbers_that_a_loader_deals_as_they_are(loader: str, codes: list[str]) -> None:
    slots = {"from_imports": "from samplers import Own", "loader": f"loader = {loader}", "loop": "for x in loader:"}
    slots |= {"move": "x = x.to(device)\ny = x.argmax(1) % 3"}
    assert [code for code in told("", **slots) if code == "DATA-UNSEEDED"] == codes


GROUPS = """\
def get_data():
    data = TensorDataset(torch.ones(64, 8), torch.arange(64) % 3)
    order = np.random.permutation(64)
    return data, order, None


{}
"""


@pytest.mark.parametrize(
    ("taken", "codes"),
    [
        ("data, order, _ = get_data()\ndata = torch.utils.data.Subset(data, order)", ["DATA-SAMPLER-RNG"]),
        ("data, picks, _ = get_data()\ndata = torch.utils.data.Subset(data, picks[:32])", ["DATA-SAMPLER-RNG"]),
        ("everything = get_data()\ndata = torch.utils.data.Subset(everything[0], everything[1])", ["DATA-SAMPLER-RNG"]),
        ("data, _, _ = get_data()\ndata = torch.utils.data.Subset(data, range(32))", []),
        ("data, order, _ = get_data()", []),
    ],
)
def test_one_of_several_that_a_function_returns(taken: str, codes: list[str]) -> None:
    assert told(GROUPS.format(taken)) == codes


# ---- samples that are looked at

PICTURE = "plt.imshow(model(shown[0][0].to(device)[None]).detach().cpu())\nplt.savefig('a.png')"
LOOKED_AT = {"imports": "import numpy as np\nimport matplotlib.pyplot as plt"}


@pytest.mark.parametrize(
    ("made", "code"),
    [
        ("shown = TensorDataset(torch.randn(8, 8))", "DATA-UNSEEDED"),
        ("shown = torch.utils.data.Subset(data, np.random.choice(64, 4))", "DATA-SAMPLER-RNG"),
    ],
)
def test_samples_that_are_only_looked_at_need_no_seed(made: str, code: str) -> None:
    assert findings(script(**LOOKED_AT, after=f"{made}\n{PICTURE}")) == []
    seen = f"{made}\n{PICTURE}\n"
    measured = "total = 0\nfor x, *_ in DataLoader(shown):\n    total += model(x.to(device)).sum().item()\nprint(total)"
    assert findings(script(**LOOKED_AT, after=seen + measured)) == [code]
    trained = script(**LOOKED_AT, data=f"data = TensorDataset(torch.ones(64, 8), torch.ones(64).long())\n{made}")
    assert findings(trained.replace("(data, batch", "(shown, batch")) == [code]
