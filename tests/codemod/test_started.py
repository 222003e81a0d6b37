"""Processes that import a script again, and would make its accelerator once more."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import findings, script, severities

WORK = "import torch.multiprocessing as mp\n\n\ndef work(i):\n    return 2 * i"
POOL = 'if __name__ == "__main__":\n    with mp.get_context("{}").Pool(2) as pool:\n        pool.map(work, range(4))'
LOADER = 'loader = DataLoader(data, batch_size=16, num_workers=2, multiprocessing_context="{}")'


@pytest.mark.parametrize(
    "slots",
    [
        {"after": POOL.format("spawn")},
        {"after": POOL.format("forkserver")},
        {"setup": 'mp.set_start_method("spawn", force=True)'},
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


def test_made_in_a_function() -> None:
    after = 'with mp.get_context("spawn").Pool(2) as pool:\n    pool.map(work, range(4))'
    assert "SPAWN-IMPORT" not in findings(script(main=True, definitions=WORK, after=after))
