"""Processes that import a script again, and would make its accelerator once more."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script, severities

WORK = "import torch.multiprocessing as mp\n\n\ndef work(i):\n    return 2 * i"
POOL = 'if __name__ == "__main__":\n    with mp.get_context("{}").Pool(2) as pool:\n        pool.map(work, range(4))'
SPAWN = 'mp.set_start_method("spawn", force=True)'
LOADER = 'loader = DataLoader(data, batch_size=16, num_workers=2, multiprocessing_context="{}")'


@pytest.mark.parametrize(
    "slots",
    [
        {"after": POOL.format("spawn")},
        {"after": POOL.format("forkserver")},
        {"setup": SPAWN, "loader": "loader = DataLoader(data, batch_size=16, num_workers=2)"},
        {"setup": SPAWN, "loader": "loader = DataLoader(data, **{'batch_size': 16, 'num_workers': 2})"},
        {"setup": SPAWN, "after": "pool = mp.Pool(2)"},
        {"loader": LOADER.format("spawn")},
    ],
)
def test_told_of(slots: dict[str, str]) -> None:
    assert severities(script(definitions=WORK, **slots), "SPAWN-IMPORT") == ["error"]


@pytest.mark.parametrize(
    "slots",
    [
        {"after": POOL.format("fork")},
        {"setup": 'mp.set_start_method("fork", force=True)'},
        {"loader": LOADER.format("fork")},
        {"after": POOL.replace('mp.get_context("{}")', "mp")},
    ],
)
def test_forks_have_it(slots: dict[str, str]) -> None:
    assert "SPAWN-IMPORT" not in findings(script(definitions=WORK, **slots))


@pytest.mark.parametrize(
    "slots",
    [
        {"setup": SPAWN},
        {"setup": SPAWN, "loader": "loader = DataLoader(data, batch_size=16, num_workers=0)"},
        {"setup": 'lock = mp.get_context("spawn").Lock()', "loader": "loader = DataLoader(data, 16, num_workers=2)"},
    ],
)
def test_nothing_is_started(slots: dict[str, str]) -> None:
    assert "SPAWN-IMPORT" not in findings(script(definitions=WORK, **slots))


def test_made_in_a_function() -> None:
    after = 'with mp.get_context("spawn").Pool(2) as pool:\n    pool.map(work, range(4))'
    assert "SPAWN-IMPORT" not in findings(script(main=True, definitions=WORK, after=after))
