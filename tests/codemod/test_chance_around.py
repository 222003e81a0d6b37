"""Evaluations that only some processes come to, as each draws for itself whether it does."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script

_IMPORTS = "import os\nimport random\nimport secrets\nimport numpy as np"
_SETUP = "test = DataLoader(data, batch_size=16)\nrng = np.random.default_rng()\nsure = np.random.default_rng(0)\n"
_EVALUATE = (
    "def coin():\n    return random.random() < 0.5\n\n\ndef evaluate():\n    hits = 0\n    with torch.no_grad():\n"
    "        for x, y in test:\n            x, y = x.to(device), y.to(device)\n"
    "            hits += (model(x).argmax(1) == y).sum().item()\n    print(hits / len(data))\n"
)


def _codes(**slots: str) -> list[str]:
    text = script(definitions=_EVALUATE, **{"imports": _IMPORTS, "before": _SETUP, **slots})
    return [code for code in findings(text) if code == "COLL-RANKFLOW"]


_DRAWS = [
    "random.random() < 0.5",
    "random.choice([True, False])",
    "np.random.rand() < 0.5",
    "torch.rand(1).item() < 0.5",
    "rng.random() < 0.5",
    "secrets.randbelow(2)",
    "os.urandom(1)[0] < 9",
    "coin()",
]


@pytest.mark.parametrize("test", _DRAWS)
def test_a_draw_of_each_process_decides(test: str) -> None:
    assert _codes(epoch_end=f"if {test}:\n    evaluate()") == ["COLL-RANKFLOW"]


@pytest.mark.parametrize(
    "lines",
    [
        "often = random.randint(1, 3)\nfor _ in range(often):\n    evaluate()",
        "while random.random() < 0.5:\n    evaluate()",
        "evaluate() if random.random() < 0.5 else None",
        "match random.randint(0, 1):\n    case 0:\n        evaluate()",
    ],
)
def test_whatever_is_decided_with_it(lines: str) -> None:
    assert _codes(epoch_end=lines) == ["COLL-RANKFLOW"]
    assert _codes(after=lines) == ["COLL-RANKFLOW"]


def test_in_an_iteration_too() -> None:
    assert _codes(batch_end="if random.random() < 0.1:\n    evaluate()") == ["COLL-RANKFLOW"]


@pytest.mark.parametrize("test", ["sure.random() < 0.5", "epoch % 2", "random.random() < 0.5"])
def test_a_draw_that_is_seeded_decides_alike(test: str) -> None:
    assert _codes(epoch_end=f"if {test}:\n    evaluate()", setup="random.seed(0)") == []


@pytest.mark.parametrize("lines", ["print('lucky')", "rate = 0.1"])
def test_what_each_process_does_for_itself_may_be_decided(lines: str) -> None:
    assert _codes(epoch_end=f"if random.random() < 0.5:\n    {lines}\nevaluate()") == []


_SETTINGS = "import argparse\nimport uuid\n" + _IMPORTS


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        ("args = argparse.Namespace(test=True, run=uuid.uuid4().hex)", "if args.test:\n    evaluate()"),
        ("config = {'test': True, 'process': os.getpid()}", "if config['test']:\n    evaluate()"),
        ("config = dict(test=True, run=secrets.token_hex(4))", "if config['test']:\n    evaluate()"),
        ("folder = f'runs/{uuid.uuid4()}'", "if folder is not None:\n    evaluate()"),
        ("folder = os.path.join('runs', uuid.uuid4().hex)", "if folder:\n    evaluate()"),
        ("seed = random.randint(0, 9)\nrandom.seed(seed)", "if seed is None:\n    evaluate()"),
        ("names = [secrets.token_hex(4) for _ in range(3)]", "for name in names:\n    evaluate()"),
        ("names = [secrets.token_hex(4) for _ in range(3)]", "if len(names) > 2:\n    evaluate()"),
        ("draws = torch.rand(3)", "for i in range(draws.size(0)):\n    evaluate()"),
        ("draws = torch.rand(3)", "if draws.shape[0] > 2 and isinstance(draws, torch.Tensor):\n    evaluate()"),
    ],
)
def test_that_there_is_something_drawn_decides_alike(before: str, lines: str) -> None:
    assert _codes(imports=_SETTINGS, before=_SETUP + before, epoch_end=lines) == []


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        ("args = argparse.Namespace(test=random.random() < 0.5)", "if args.test:\n    evaluate()"),
        ("config = {'test': secrets.randbelow(2)}", "if config['test']:\n    evaluate()"),
        ("draws = [random.random() for _ in range(3)]", "if draws[0] < 0.5:\n    evaluate()"),
        ("often = secrets.randbelow(3)", "for batch in list(range(9))[:often]:\n    evaluate()"),
        ("draws = torch.rand(3)", "if draws.mean().item() > 0.5:\n    evaluate()"),
    ],
)
def test_how_it_comes_out_does_not(before: str, lines: str) -> None:
    assert _codes(imports=_SETTINGS, before=_SETUP + before, epoch_end=lines) == ["COLL-RANKFLOW"]
