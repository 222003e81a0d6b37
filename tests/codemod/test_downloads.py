"""Downloads: the main process first, the others find the files there."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, TRAINS, convert, converted, findings, lifted, script

DATASETS = "from torchvision import datasets"
MNIST = 'data = datasets.MNIST("d", download=True)'
FIRST = "with accelerator.main_process_first():"


def first(code: str) -> str:
    """Code under the download guard."""
    return f"{FIRST}\n    " + code.replace("\n", "\n    ")


@pytest.mark.parametrize(
    ("imports", "line"),
    [
        (DATASETS, MNIST),
        (DATASETS, 'data = datasets.MNIST("d", download=wanted)'),
        (DATASETS, 'data = datasets.MNIST("d", download=len(str(wanted)) > 1)'),
        (DATASETS, f'{MNIST}\ntest = datasets.MNIST("d", train=False, download=True)'),
        (DATASETS, 'data = datasets.MNIST(\n    "d",  # the folder\n    download=True,\n)'),
        ("from datasets import load_dataset", 'data = TensorDataset(load_dataset("x"))'),
        (DATASETS, "data = datasets.MNIST(**options)"),
    ],
)
def test_downloads(imports: str, line: str) -> None:
    slots = {"from_imports": imports, "setup": 'wanted = True\noptions = dict(root="d", download=True)'}
    assert converted(script(data=line, **slots)) == lifted(data=first(line), **slots)
    assert findings(script(data=line, **slots)) == []


@pytest.mark.parametrize("error", ["RuntimeError", "Exception", "(OSError, ValueError)"])
def test_what_is_downloaded_where_it_was_missing(error: str) -> None:
    """A process that comes later finds it, and would not come to where the first one waits."""
    line = f'try:\n    data = datasets.MNIST("d")\nexcept {error}:\n    {MNIST}'
    assert converted(script(data=line, from_imports=DATASETS)) == lifted(data=first(line), from_imports=DATASETS)


@pytest.mark.parametrize(
    ("between", "guards"), [("", 1), ("# the test set\n", 1), ("#%%\n", 2), ("# %% [markdown]\n", 2), ("# In[3]:\n", 2)]
)
def test_cells_of_a_script_stay_apart(between: str, guards: int) -> None:
    data = f'{MNIST}\n{between}test = datasets.MNIST("d", train=False, download=True)'
    assert converted(script(from_imports=DATASETS, data=data)).count(FIRST) == guards


@pytest.mark.parametrize(
    ("imports", "line"),
    [
        ("import urllib.request", 'name, _ = urllib.request.urlretrieve("u", "f")'),
        ("import gdown", 'path = gdown.download("u", "f")'),
        ("from huggingface_hub import snapshot_download", 'path = snapshot_download("x")'),
    ],
)
def test_files_that_are_fetched(imports: str, line: str) -> None:
    """The accelerator is made earlier if need be."""
    output = converted(script(imports=imports, before=line))
    assert output == lifted(imports=imports, before=first(line))


@pytest.mark.parametrize(
    ("imports", "line"),
    [
        (DATASETS, 'data = datasets.MNIST("d", download=False)'),
        (DATASETS, 'data = datasets.MNIST("d")'),
        (DATASETS, 'data = datasets.MNIST(**{"root": "d", "download": False})'),
        (DATASETS, 'no = False\ndata = datasets.MNIST("d", download=no)'),
        ("import urllib.request", "page = urllib.request.urlopen('u')\ndata = TensorDataset(page)"),
        ("", "def urlretrieve(u, f):\n    pass\n\nurlretrieve('u', 'f')\ndata = TensorDataset(torch.zeros(3))"),
    ],
)
def test_what_fetches_nothing_stays(imports: str, line: str) -> None:
    slots = {"from_imports" if imports.startswith("from") else "imports": imports, "data": line}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == []


def test_a_loader_made_on_the_way() -> None:
    loader = 'loader = DataLoader(datasets.MNIST("d", download=True), batch_size=16)'
    slots = {"from_imports": DATASETS, "data": ""}
    assert converted(script(loader=loader, **slots)) == lifted(loader=first(loader), **slots)


@pytest.mark.parametrize("write", ["f.write(page.read())", "shutil.copyfileobj(page, f)"])
def test_pages_that_are_written_into_files(write: str) -> None:
    fetch = f'def fetch():\n    page = urllib.request.urlopen("u")\n    with open("f", "wb") as f:\n        {write}'
    slots = {"imports": "import shutil\nimport urllib.request", "definitions": fetch, "before": "fetch()"}
    assert "with accelerator.main_process_first():\n    fetch()\n" in converted(script(**slots))


@pytest.mark.parametrize("main", [False, True])
def test_functions_that_download_are_guarded_where_they_are_called(main: bool) -> None:
    definitions = 'def raw():\n    return datasets.MNIST("d", download=True)\n\n\ndef get():\n    return raw()'
    slots = {"from_imports": DATASETS, "definitions": definitions}
    assert converted(script(main=main, data="data = get()", **slots)) == lifted(
        main=main, data=first("data = get()"), **slots
    )


def test_downloads_out_of_reach_are_reported() -> None:
    slots = {"from_imports": DATASETS, "definitions": MNIST, "data": ""}
    assert converted(script(main=True, **slots)) == lifted(main=True, **slots)
    result = convert(script(main=True, **slots))
    assert result.plan is not None
    assert [str(f) for f in result.plan.findings] == [
        "DL-RACE every process downloads into the same folder at the same time; "
        "download before launching, or under `with accelerator.main_process_first():`"
    ]


def test_left_out() -> None:
    slots = {"from_imports": DATASETS, "data": MNIST}
    assert converted(script(**slots), ignore=("DOWNLOAD",)) == lifted(**slots)


# ---- what does not work yet


def test_downloads_of_what_is_missing() -> None:
    """A process that finds the file already would never come to where the others wait."""
    fetch = 'if not os.path.exists("f"):\n    urllib.request.urlretrieve("u", "f")'
    imports = "import os\nimport urllib.request"
    assert converted(script(imports=imports, before=fetch)) == lifted(imports=imports, before=first(fetch))


def test_downloads_on_a_shared_line() -> None:
    imports = "import os\nimport urllib.request"
    text = script(imports=imports, before='if not os.path.exists("f"): urllib.request.urlretrieve("u", "f")')
    assert "accelerator.backward(loss)" in converted(text)


def test_downloads_by_position() -> None:
    text = script(from_imports=DATASETS, data='data = datasets.MNIST("d", True, None, None, True)')
    assert FIRST in converted(text) or "DL-RACE" in findings(text)


# ---- what fetches a file again though it is there

FETCH = "urllib.request.urlretrieve('http://a', 'raw.zip')"
ONCE = f"if accelerator.is_main_process:\n    {FETCH}\naccelerator.wait_for_everyone()"
OF_URLS = {"imports": "import os\nimport urllib.request"}


def test_a_file_that_is_fetched_again_is_left_to_the_main_process() -> None:
    assert converted(script(**OF_URLS, before=FETCH)) == lifted(**OF_URLS, before=ONCE)
    asked = f"if input():\n    {FETCH}"
    waits = "if input():\n    " + ONCE.replace("\n", "\n    ")
    assert converted(script(**OF_URLS, before=asked)) == lifted(**OF_URLS, before=waits)


@pytest.mark.parametrize(
    "fetch",
    [
        f"if not os.path.exists('raw.zip'):\n    {FETCH}",
        f"name, _ = {FETCH}",
        f"try:\n    {FETCH}\nexcept OSError:\n    pass",
        "torch.hub.download_url_to_file('http://a', 'raw.zip')",
    ],
)
def test_what_every_process_asks_for(fetch: str) -> None:
    output = converted(script(**OF_URLS, before=fetch))
    assert FIRST in output and "wait_for_everyone" not in output and "is_main_process:" not in output


def test_what_is_fetched_in_a_function() -> None:
    """The others wait where it is called: to wait in it, too, would be to wait for ever."""
    function = f"def fetch():\n    {FETCH}\n    return 3"
    slots = {**OF_URLS, "definitions": function, "before": "number = fetch()"}
    output = converted(script(**slots))
    assert f"    if accelerator.is_main_process:\n        {FETCH}\n    return 3" in output
    assert first("number = fetch()") in output and "wait_for_everyone" not in output
    twice = converted(script(**slots | {"before": "number = fetch()\nother = fetch()"}))
    assert first("number = fetch()\nother = fetch()") in twice


@pytest.mark.parametrize("test", ["not there", "there is False", "not there and len('raw') > 2"])
@pytest.mark.parametrize("fetch", [FETCH, "torch.hub.download_url_to_file('http://a', 'raw.zip')"])
def test_what_is_fetched_if_it_was_missing_before(test: str, fetch: str) -> None:
    """A slower process would find the file, and not come to where the others wait for it."""
    there = "there = os.path.exists('raw.zip')"
    text = script(**OF_URLS, before=f"{there}\nif {test}:\n    {fetch}")
    assert FIRST not in converted(text) and "wait_for_everyone" not in converted(text)
    assert findings(text) == ["DL-RACE"]


@pytest.mark.parametrize(
    "fetch",
    [
        f"missing = [n for n in ('a', 'raw.zip') if not os.path.exists(n)]\nfor name in missing:\n    {FETCH}",
        f"while not os.path.isfile('raw.zip'):\n    {FETCH}",
        f"size = os.path.getsize('raw.zip')\nif size < 3:\n    {FETCH}",
    ],
)
def test_what_is_fetched_as_often_as_something_was_missing(fetch: str) -> None:
    text = script(**OF_URLS, before=fetch)
    assert "wait_for_everyone" not in converted(text) and "DL-RACE" in findings(text)


def test_what_is_fetched_for_a_batch() -> None:
    text = script(**OF_URLS, batch_end=f"if y.sum() > 4:\n    {FETCH}")
    assert "wait_for_everyone" not in converted(text) and "DL-RACE" in findings(text)


def test_what_is_fetched_if_a_setting_says_so() -> None:
    text = script(**OF_URLS, before=f"there = len('raw.zip') > 3\nif not there:\n    {FETCH}")
    assert "wait_for_everyone" in converted(text) and findings(text) == []


_TRAINER = """
class Trainer:
    def __init__(self, model):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.prepare_data()
        self.build(model)

    def prepare_data(self):
        self.data = datasets.MNIST("./data", download=True)
        self.loader = DataLoader(self.data, batch_size=64, shuffle=True)

    def build(self, model):
        self.net = model().to(self.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = self.net(x.to(self.device)).sum()
            loss.backward()
            self.optimizer.step()


trainer = Trainer(Net)
trainer.train()
"""


@pytest.mark.parametrize("apart", [True, False])
def test_a_constructor_that_prepares_is_not_run_by_one_process_first(apart: bool) -> None:
    """To prepare is something that all processes do together: they would wait for each other for ever."""
    head = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
    net = f"{DATASETS}\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n\n"
    fetched = 'self.data = datasets.MNIST("./data", download=True)'
    trainer = (
        _TRAINER
        if apart
        else _TRAINER.replace("self.prepare_data()", fetched + "\n        self.loader = DataLoader(self.data)")
    )
    text = converted(head + net + trainer)
    guarded = "self.prepare_data()" if apart else fetched
    assert f"        with self.accelerator.main_process_first():\n            {guarded}\n" in text
    assert "\ntrainer = Trainer(Net)\n" in text


_BESIDE = """\
import os
import urllib.request


def fetch():
    if not os.path.exists("data.pt"):
        urllib.request.urlretrieve("http://host/data.pt", "data.pt")


def setup():
    fetch()


def train():
{0}

def run():
    setup()
    train()
"""


@pytest.mark.parametrize("trainer", [False, True])
def test_what_is_called_beside_the_training_is_run_by_one_process_first(trainer: bool) -> None:
    """Not what trains, too; nor inside the test, where a process that finds the file would not come."""
    trains = TRAINS
    if trainer:  # what prepares is beside it, and what trains elsewhere
        trains = "    net = Net().to(device)\n    fit(net, torch.optim.SGD(net.parameters(), lr=0.1))\n"
    definitions = _BESIDE.format(trains)
    if trainer:
        definitions += f"\n\ndef fit(model, optimizer):\n{TRAINS}"
    model = {"model": "", "optimizer": ""} if trainer else {}
    text = converted(script(definitions=definitions, after="run()", **{**NO_LOOP, **model}))
    assert f"def run():\n    {FIRST}\n        setup()\n    train()\n" in text
    assert text.count("main_process_first") == 1
