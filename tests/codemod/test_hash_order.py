"""HASH-ORDER: what is numbered, picked or dealt in the order of a set that every process has its own of."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from accelift_codemod.plan import Severity
from scripts import convert, script

DATA = "data = TensorDataset(torch.rand(len(ids), 8), torch.tensor(ids))"
WORDS = "words = open('words.txt').read().split()"


def orders(text: str) -> list[tuple[str, Severity]]:
    """What is said of the order of sets: the set, and how bad that is."""
    plan = convert(text).plan
    assert plan is not None
    found = [f for f in plan.findings if f.code == "HASH-ORDER"]
    return [(f.message.split("`")[1], f.severity) for f in found]


def made(setup: str, data: str = DATA, definitions: str = "") -> str:
    return script(setup=f"torch.manual_seed(0)\n{setup}", data=data, definitions=definitions)


@pytest.mark.parametrize(
    ("setup", "what"),
    [
        (f"{WORDS}\nvocab = {{w: i for i, w in enumerate(set(words))}}\nids = [vocab[w] for w in words]", "set(words)"),
        (
            f"{WORDS}\nknown = list(set(words))\nvocab = dict(zip(known, range(len(known))))\n"
            "ids = [vocab[w] for w in words]",
            "set(words)",
        ),
        (f"{WORDS}\nknown = list(set(words))\nids = [known.index(w) for w in words]", "set(words)"),
        (
            f"{WORDS}\nvocab = {{}}\nfor w in set(words):\n    vocab[w] = len(vocab)\nids = [vocab[w] for w in words]",
            "set(words)",
        ),
        (
            f"{WORDS}\nvocab, n = {{}}, 0\nfor w in set(words):\n    vocab[w] = n\n    n += 1\n"
            "ids = [vocab[w] for w in words]",
            "set(words)",
        ),
        (
            "text = open('words.txt').read()\nstoi = {c: i for i, c in enumerate({c for c in text})}\n"
            "def encode(s):\n    return [stoi[c] for c in s]\nids = encode(text)",
            "{c for c in text}",
        ),
        (
            f"{WORDS}\nseen = set()\nfor w in words:\n    seen.add(w.lower())\n"
            "vocab = {w: i for i, w in enumerate(seen)}\nids = [vocab[w.lower()] for w in words]",
            "seen",
        ),
        (
            f"{WORDS}\ncommon = set(words) - {{'the', 'a'}}\nnumbers = {{}}\nfor i, w in enumerate(common):\n"
            "    numbers[w] = i\nids = [numbers.get(w, 0) for w in words]",
            "set(words)",
        ),
        (f"{WORDS}\nids = [hash(w) % 100 for w in words]", "hash(w)"),
        (
            f"{WORDS}\nchosen = list(set(words))[:100]\nids = [len(w) for w in chosen]",
            "set(words)",
        ),
    ],
)
def test_words_that_are_numbered_in_the_order_of_a_set(setup: str, what: str) -> None:
    assert orders(made(setup)) == [(what, Severity.WARNING)]


def test_several_things_at_once() -> None:
    tail = "vocab = {w: i for i, w in enumerate(known)}\nids = [vocab[w] for w in words]"
    assert orders(made(f"{WORDS}\nknown, many = list(set(words)), 3\n{tail}")) == [("set(words)", Severity.WARNING)]
    assert orders(made(f"{WORDS}\nmany, known = list(set(words)), words\n{tail}")) == []


def test_the_labels_of_a_data_set_class() -> None:
    definitions = """
        class Files(torch.utils.data.Dataset):
            def __init__(self, paths):
                self.paths = paths
                self.classes = list(set(p.split("_")[0] for p in paths))
                self.numbers = {c: i for i, c in enumerate(self.classes)}

            def __getitem__(self, i):
                return torch.rand(8), self.numbers[self.paths[i].split("_")[0]]

            def __len__(self):
                return len(self.paths)
    """
    text = made("import os", data='data = Files(os.listdir("images"))', definitions=definitions)
    assert orders(text) == [('set(p.split("_")[0] for p in paths)', Severity.WARNING)]
    sorts = text.replace("list(set(", "sorted(set(")
    assert orders(sorts) == []


def test_what_is_in_a_set_may_be_unknown() -> None:
    setup = (
        "import pandas\ntable = pandas.read_csv('a.csv')\n"
        "numbers = {{n: i for i, n in enumerate(set({column}))}}\nids = [numbers[n] for n in table.name]"
    )
    assert orders(made(setup.format(column="table.name"))) == [("set(table.name)", Severity.NOTE)]
    assert orders(made(setup.format(column="table.name.astype(str).str.lower()")))[0][1] is Severity.WARNING


@pytest.mark.parametrize(
    "setup",
    [
        f"{WORDS}\nvocab = {{w: i for i, w in enumerate(sorted(set(words)))}}\nids = [vocab[w] for w in words]",
        f"{WORDS}\nknown = list(set(words))\nknown.sort()\nids = [known.index(w) for w in words]",
        f"{WORDS}\nknown = sorted(list(set(words)), key=len)\nids = [known.index(w) for w in words]",
        f"{WORDS}\nvocab = {{w: i for i, w in enumerate(dict.fromkeys(words))}}\nids = [vocab[w] for w in words]",
        f"{WORDS}\nids = [len(set(w)) for w in words]",
        f"{WORDS}\nstop = set(words[:10])\nids = [1 if w in stop else 0 for w in words]",
        f"{WORDS}\ncounts = {{w: words.count(w) for w in set(words)}}\nids = [counts[w] for w in words]",
        f"{WORDS}\nseen = {{}}\nfor w in set(words):\n    seen[w] = words.count(w)\nids = [seen[w] for w in words]",
        f"{WORDS}\nfor i, w in enumerate(set(words)):\n    print(i, w)\nids = [len(w) for w in words]",
        "marks = [3, 1, 2] * 20\nnumbers = {m: i for i, m in enumerate(set(marks))}\nids = [numbers[m] for m in marks]",
        "left = list(set(range(60)) - {3, 4})\nids = [i for i in left[:40]]",
        "marks = torch.arange(60) % 3\nknown = list(set(marks.numpy()))\nids = [known.index(m) for m in (0, 1, 2, 0)]",
        "marks = [len(w) for w in open('words.txt')]\nknown = list(set(marks))\nids = [known.index(m) for m in marks]",
        "ids = [hash(i) % 7 for i in range(60)]",
        "ids = list(range(60))\nnames = set(['a', 'b'])\nprint('used', ', '.join(names))",
    ],
)
def test_what_is_in_order_or_of_numbers_is_not_told(setup: str) -> None:
    assert orders(made(setup)) == []


READ = "def read(words):\n    found = list(set(words))\n    return {}"


@pytest.mark.parametrize(
    ("returned", "taken", "told"),
    [
        ("found, len(found)", "known, size = read(words)", True),
        ("found + ['other'], words", "known, rest = read(words)", True),
        ("len(found), (words, found)", "size, (kept, known) = read(words)", True),
        ("[found, 1]", "pair = read(words)\nknown, size = pair", True),
        ("(found, 1) if words else (words, 2)", "known, size = read(words)", True),
        ("sorted(found), found", "known, rest = read(words)", False),
        ("words, len(found)", "known, size = read(words)", False),
        ("[len(w) for w in found], words", "sizes, known = read(words)", False),
    ],
)
def test_what_a_function_gives_among_other_things(returned: str, taken: str, told: bool) -> None:
    setup = f"{WORDS}\n{taken}\nids = [known.index(w) for w in words]"
    expected = [("set(words)", Severity.WARNING)] if told else []
    assert orders(made(setup, definitions=READ.format(returned))) == expected


def test_words_are_numbered_otherwise_in_another_process() -> None:
    code = "print({w: i for i, w in enumerate(set('a rose is a rose by any other name'.split()))})"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(runs) > 1
