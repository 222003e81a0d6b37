"""Loaders in dicts whose keys are those of another dict, or of a list, that is written out."""

from __future__ import annotations

import pytest
from scripts import added, converted, removed, script, unchanged

SETS = 'sets = {"train": data, "test": data}\n'
FILLED = "{}loaders = {{}}\nfor {}:\n    loaders[name] = DataLoader({}, batch_size=16)"
NAMES = 'names = ["train", "test"]\n'
LOOP = 'for x, y in loaders["train"]:'
EVALUATES = """\
right = 0
with torch.no_grad():
    for x, y in loaders["test"]:
        right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
print(right)
"""


@pytest.mark.parametrize(
    "loader",
    [
        FILLED.format(SETS, "name, part in sets.items()", "part"),
        FILLED.format(SETS, "name in sets", "sets[name]"),
        FILLED.format(SETS, "name in sets.keys()", "sets[name]"),
        f"{NAMES}loaders = dict(zip(names, [DataLoader(data, batch_size=16), DataLoader(data, batch_size=16)]))",
        'loaders = dict(zip(("train", "test"), (DataLoader(data, batch_size=16), DataLoader(data, batch_size=16))))',
    ],
)
def test_the_entries_are_told_apart(loader: str) -> None:
    text = script(loader=loader, loop=LOOP, after=EVALUATES)
    output = converted(text).replace("'", '"')
    assert 'accelerator.prepare(\n    model, optimizer, loaders["train"], loaders["test"]\n)' in output
    assert "accelerator.gather_for_metrics(" in output
    assert "x, y = x.to(device), y.to(device)" in removed(text)


@pytest.mark.parametrize(
    "loader",
    [
        FILLED.format(f'{SETS}sets["more"] = data\n', "name, part in sets.items()", "part"),
        FILLED.format("sets = dict(enumerate([data]))\n", "name, part in sets.items()", "part"),
        FILLED.format(SETS, "name, part in sets.items()", "part").replace("    loaders", "    if len(part): loaders"),
    ],
)
def test_keys_that_are_not_known(loader: str) -> None:
    assert unchanged(script(loader=loader, loop=LOOP)).code == "PREP-NO-POINT"


@pytest.mark.parametrize(
    "loader",
    [
        f"{NAMES}loaders = dict(zip(names, map(DataLoader, [data, data])))",
        f'{NAMES}names.append("more")\nloaders = dict(zip(names, [DataLoader(data), DataLoader(data)]))',
        f"{NAMES}loaders = dict(zip(names, [DataLoader(data)]))",
        'loaders = dict(zip(["train", "train"], [DataLoader(data), DataLoader(data)]))',
        'def dict(pairs):\n    return {"train": data}\nloaders = dict(zip(["train"], [DataLoader(data)]))',
    ],
)
def test_names_and_things_that_are_no_pairs(loader: str) -> None:
    assert not any("prepare" in line for line in added(script(loader=loader, loop=LOOP)))


FETCHED = """\
def fetch(wanted):
    loaders = {{}}
    for split in ["train", "test", "rest"]:
        if split in wanted:
{}
    return loaders
loaders = fetch(["train", "test"])
"""
LOADS = "DataLoader(data, batch_size=16, shuffle={})"
IN_ARMS = f"""\
            if split == "train":
                loader = {LOADS.format(True)}
            else:
                loader = {LOADS.format(False)}
            loaders[split] = loader"""
CHOSEN = f'loaders = {{s: {LOADS.format(True)} if s == "train" else {LOADS.format(False)} for s in ["train", "test"]}}'


@pytest.mark.parametrize(
    "loader",
    [
        FETCHED.format(IN_ARMS),
        FETCHED.format(IN_ARMS.replace('split == "train"', 'split.startswith("tr")')),
        FETCHED.format(IN_ARMS.replace("loader = ", "loaders[split] = ").rpartition("\n")[0]),
        FETCHED.format(IN_ARMS.replace('split == "train"', 'split not in ("test", "rest")')),
        CHOSEN,
        CHOSEN.replace('s == "train"', 'not s == "test"'),
    ],
)
def test_each_entry_is_made_in_an_arm_for_its_key(loader: str) -> None:
    text = script(loader=loader, loop=LOOP, after=EVALUATES)
    output = converted(text).replace("'", '"')
    assert 'accelerator.prepare(\n    model, optimizer, loaders["train"], loaders["test"]\n)' in output
    assert "accelerator.gather_for_metrics(" in output


@pytest.mark.parametrize(
    "loader",
    [
        FETCHED.format(IN_ARMS.replace('split == "train"', "len(split) > 4")),  # nothing is known of that
        FETCHED.format(IN_ARMS.replace("            loaders[", '            split = "test"\n            loaders[')),
        FETCHED.format(
            IN_ARMS.replace("            else:\n                loader", "            if True:\n                loader")
        ),
        CHOSEN.replace('s == "train"', "random.random() < 0.5"),
    ],
)
def test_an_entry_may_be_made_in_several_arms(loader: str) -> None:
    assert unchanged(script(before="import random", loader=loader, loop=LOOP)).code in (
        "PREP-NO-POINT",
        "LOADER-UNKNOWN",
    )
