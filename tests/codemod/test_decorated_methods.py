"""Methods of trainers that decorators of the script run as they stand, or in another way."""

from __future__ import annotations

import pytest
from scripts import FIT, NO_BODY, converted, script, unchanged

TRAINER = f"""\
class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model.to(device), loader
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    @timed
{FIT}"""
TIMED = """\
def timed(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        start = time.time()
        result = function(*args, **kwargs)
        if start:
            print(function.__name__, time.time() - start, torch.cuda.max_memory_allocated())
        return result

    return run
"""
RESULT = "        result = function(*args, **kwargs)\n"
RETURN = "        return result\n"


def trainer(old: str = "", new: str = "") -> str:
    assert old in TIMED
    body = "trainer = Trainer(Net(), DataLoader(data, batch_size=16))\nfor epoch in range(2):\n    trainer.fit()\n"
    definitions = f"{TIMED.replace(old, new)}\n\n{TRAINER}"
    return script(**NO_BODY, loader="", imports="import functools\nimport time", definitions=definitions, after=body)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("    @functools.wraps(function)\n", ""),
        ("def timed(function):\n", 'def timed(function):\n    """Tells how long it takes."""\n'),
        ("(*args", "(self, *args"),
        (TIMED[TIMED.index(RESULT) :], "        return function(*args, **kwargs)\n\n    return run\n"),
    ],
)
def test_a_method_that_runs_as_it_stands(old: str, new: str) -> None:
    output = converted(trainer(old, new))
    assert "self.model, self.optimizer, self.loader = accelerator.prepare(" in output
    assert "accelerator.backward(" in output


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (RESULT, "        for again in range(2):\n            result = function(*args, **kwargs)\n"),
        (RESULT, "        if start > 9:\n            return None\n" + RESULT),
        (RESULT, "        with torch.no_grad():\n            result = function(*args, **kwargs)\n"),
        (RESULT, "        torch.set_grad_enabled(False)\n" + RESULT),
        (RESULT, RESULT + "        args[0].model = None\n"),
        (RESULT, RESULT + "        result = result or 3\n"),
        (RESULT, RESULT + RESULT),
        (RESULT, "        result = function(*args[:1])\n"),
        (RETURN, ""),
        ("(*args, **kwargs):", "(self):"),
        ("    @functools.wraps", "    @functools.lru_cache"),
        ("    return run", "    return function if print else run"),
    ],
)
def test_a_method_that_may_run_in_another_way(old: str, new: str) -> None:
    assert unchanged(trainer(old, new)).code == "LOOP-IN-CLASS"
