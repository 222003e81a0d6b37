"""CACHE: a file that is made because it is missing is made by the main process, and found by the others."""

from __future__ import annotations

import textwrap

import pytest
from scripts import converted, findings, lifted, script

FIRST = "with accelerator.main_process_first():"
IMPORTS = "import os\nimport pathlib\nimport pickle\nimport zipfile\nimport urllib.request\nimport numpy as np"
MADE = "data = TensorDataset(made, torch.arange(64) % 3)"
HELPERS = """\
def build():
    return torch.arange(512.0).view(64, 8)


class Cached(torch.utils.data.Dataset):
    def __init__(self, path="cache.pt"):
        if not os.path.exists(path):
            torch.save(build(), path)
        self.x = torch.load(path)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], i % 3


def get(path):
    if os.path.exists(path):
        return torch.load(path)
    made = build()
    torch.save(made, path)
    return made
"""
SCRIPT = {"imports": IMPORTS, "definitions": HELPERS}
LOAD = "torch.load('cache.pt')"
SAVE = "torch.save(made, 'cache.pt')"


def first(statement: str) -> str:
    return f"{FIRST}\n{textwrap.indent(statement, '    ')}"


@pytest.mark.parametrize(
    ("making", "rest"),
    [
        ("if not os.path.exists('cache.pt'):\n    torch.save(build(), 'cache.pt')", f"made = {LOAD}\n"),
        (f"if os.path.exists('cache.pt'):\n    made = {LOAD}\nelse:\n    made = build()\n    {SAVE}", ""),
        (f"if not pathlib.Path('cache.pt').exists():\n    made = build()\n    {SAVE}", f"made = {LOAD}\n"),
        (f"try:\n    made = {LOAD}\nexcept FileNotFoundError:\n    made = build()\n    {SAVE}", ""),
        (
            "if os.path.isfile('cache.pkl'):\n    with open('cache.pkl', 'rb') as file:\n"
            "        made = pickle.load(file)\nelse:\n    made = build()\n"
            "    with open('cache.pkl', 'wb') as file:\n        pickle.dump(made, file)",
            "",
        ),
        (
            "if not os.path.isfile('cache.npy'):\n    np.save('cache.npy', build().numpy())",
            "made = torch.from_numpy(np.load('cache.npy'))\n",
        ),
        ("if not os.path.exists('raw'):\n    zipfile.ZipFile('raw.zip').extractall('raw')", "made = build()\n"),
        ("made = get('cache.pt')", ""),
    ],
)
def test_what_makes_a_missing_file(making: str, rest: str) -> None:
    before = script(**SCRIPT, data=f"{making}\n{rest}{MADE}")
    after = lifted(**SCRIPT, data=f"{first(making)}\n{rest}{MADE}")
    assert converted(before) == after
    assert findings(before) == []


def test_a_data_set_that_makes_its_file() -> None:
    assert converted(script(**SCRIPT, data="data = Cached()")) == lifted(**SCRIPT, data=first("data = Cached()"))


@pytest.mark.parametrize(
    "kept",
    [
        f"made = {LOAD} if os.path.exists('cache.pt') else build()",
        f"if os.path.exists('cache.pt'):\n    made = {LOAD}\nelse:\n    made = build()",
        f"try:\n    made = {LOAD}\nexcept FileNotFoundError:\n    made = build()",
        "made = build()\nif len(made) > 99:\n    made = made[:99]",
    ],
)
def test_what_makes_no_file_stays(kept: str) -> None:
    slots = {**SCRIPT, "data": f"{kept}\n{MADE}"}
    assert converted(script(**slots)) == lifted(**slots)


def test_a_folder_is_made_by_each_process() -> None:
    output = converted(script(**SCRIPT, setup="if not os.path.exists('out'):\n    os.makedirs('out')"))
    assert "os.makedirs('out', exist_ok=True)" in output
    assert FIRST not in output


def test_a_checkpoint_that_training_saves_once_is_saved_as_ever() -> None:
    once = "if not os.path.exists('{0}.pt'):\n    torch.save(model.state_dict(), '{0}.pt')"
    output = converted(script(**SCRIPT, epoch_end=once.format("first"), after=once.format("last")))
    assert FIRST not in output
    assert output.count("accelerator.save(") == 2


def test_what_trains_if_a_file_is_missing_is_run_by_all() -> None:
    train = "if not os.path.exists('m.pt'):\n    for x, y in loader:\n        F.cross_entropy(model(x), y).backward()\n"
    output = converted(script(**SCRIPT, before=f"{train}    torch.save(model.state_dict(), 'm.pt')"))
    assert FIRST not in output


def test_one_wait_for_what_is_fetched_and_made() -> None:
    """Inside each other they would wait for ever."""
    fetch = "urllib.request.urlretrieve('http://a', 'raw.zip')"
    making = f"if not os.path.exists('cache.pt'):\n    {fetch}\n    torch.save(build(), 'cache.pt')"
    output = converted(script(**SCRIPT, data=f"{making}\nmade = {LOAD}\n{MADE}"))
    assert output.count(FIRST) == 1
    assert first(making) in output
    both = f"if not os.path.exists('raw.zip'):\n    {fetch}\n    made = get('cache.pt')"
    assert converted(script(**SCRIPT, data=f"{both}\nmade = {LOAD}\n{MADE}")).count(FIRST) == 1


def test_a_buffer_in_memory_is_no_file() -> None:
    save = (
        "if not os.path.exists('cache.pt'):\n    buffer = io.BytesIO()\n    torch.save(build(), buffer)\nmade = build()"
    )
    slots = {**SCRIPT, "imports": f"{IMPORTS}\nimport io", "data": f"{save}\n{MADE}"}
    assert converted(script(**slots)) == lifted(**slots)


def test_without_the_rule_it_is_reported() -> None:
    text = script(**SCRIPT, data="made = get('cache.pt')\n" + MADE)
    assert findings(text, ignore=("CACHE",)) == ["SAVE-RACE"]


def test_a_log_that_nothing_reads_is_the_main_process_s_alone() -> None:
    log = "if not os.path.exists('log.csv'):\n    with open('log.csv', 'w') as file:\n        file.write('loss')"
    output = converted(script(**SCRIPT, before=log))
    assert FIRST not in output and "is_main_process" in output
    read = f"{log}\nwith open('log.csv') as file:\n    made = file.read()"
    assert FIRST in converted(script(**SCRIPT, before=read))
