"""Ten times the script takes ten times the work: of every function that converts, counted in calls, not in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from cProfile import Profile

import pytest
from accelift_codemod.api import convert_bytes
from accelift_codemod.options import Options
from scripts import PATH, script

from benchmarks.codemod import make_reports, make_script

_TIMES = 8
_OFTEN = 500  # calls of a function in the large script that are worth a look


def calls(text: str) -> Counter[str]:
    """How often each function of the tool is called to convert a script, and calls what is written in C."""
    profile = Profile()
    result = profile.runcall(convert_bytes, text.encode(), PATH, Options())
    assert result.output is not None
    found: Counter[str] = Counter()
    for entry in profile.getstats():
        if isinstance(entry.code, str) or "accelift_codemod" not in entry.code.co_filename:
            continue
        place = f"{entry.code.co_filename}:{entry.code.co_name}"
        found[place] += entry.callcount
        for called in entry.calls or ():
            if isinstance(called.code, str):  # it tells of loops that call nothing else
                found[f"{place} calls {called.code}"] += called.callcount
    return found


def make_loop(lines: int) -> str:
    """A script of about so many lines, nearly all of them in one training loop."""
    numbers = range(lines // 4)
    sums = "\n".join(f"total{n} = 0.0" for n in numbers)
    inside = "\n".join(f"x = x + {n}\ntotal{n} += loss.item()" for n in numbers)
    after = "\n".join(f'print("{n}", total{n} / len(loader))' for n in numbers)
    return script(before=sums, batch_end=inside, epoch_end=after)


_NETWORK = """\
class Part{0}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)
"""
_TRAINER = """\
class Trainer{0}:
    def __init__(self):
        self.model = nn.Linear(8, 3).to(device)
        self.loader = DataLoader(data, batch_size=16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x.to(device)), y.to(device)).backward()
            self.optimizer.step()
"""
_METHOD = """\
    def show_{0}(self, value):
        self.shown = value
        return value + {0}
"""
_EVALUATION = """\
correct{0} = 0
with torch.no_grad():
    for x, y in loader:
        correct{0} += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
print(correct{0} / len(data))
"""


def each(number: int, text: str) -> str:
    """A text for each number."""
    return "\n".join(text.format(n) for n in range(number))


def make_networks(number: int) -> str:
    """Networks whose layers go by one name, all parts of one."""
    parts = ", ".join(f"Part{n}()" for n in range(number))
    return script(
        definitions=each(number, _NETWORK), model=f"model = nn.Sequential({parts}, nn.Linear(8, 3)).to(device)"
    )


def make_trainers(number: int) -> str:
    """Classes that train, and are used in turn."""
    trainers = each(number, _TRAINER)
    return script(before=f"{trainers}\n{each(number, 'Trainer{0}().fit()')}")


def make_methods(number: int) -> str:
    """A class of many methods."""
    methods, calls = each(number, _METHOD), each(number, "            self.show_{0}({0})")
    return script(before=f"{_TRAINER.format(0)}{calls}\n\n{methods}\nTrainer0().fit()")


def make_evaluations(number: int) -> str:
    """Evaluations one after the other."""
    return script(epoch_end=each(number, _EVALUATION))


SHAPES: dict[str, Callable[[int], str]] = {
    "moves of a model": lambda n: script(before="model = model.to(device)\n" * n),
    "settings": lambda n: script(before="s = {}\n" + each(n, "s['{0}'] = {0}"), batch_end=each(n, "k{0} = s['{0}']")),
    "layers": lambda n: script(definitions=_deep(n), model="model = Deep().to(device)"),
    "contexts": lambda n: script(batch_end=each(n, "with torch.no_grad():\n    v{0} = loss * {0}")),
    "files": lambda n: script(after=each(n, "with open('{0}.txt', 'w') as f:\n    f.write('{0}')")),
    "skips": lambda n: script(
        data="data = TensorDataset(torch.randn(64, 8), torch.randint(3, (64,)))",
        loop="for step, (x, y) in enumerate(loader):",
        batch_end=each(n, "if step == {0}:\n    continue"),
    ),
    # each calls the next one twice: there are two to the power of n ways through
    "ladders": lambda n: script(
        definitions=f"def rung{n}(x):\n    return x\n\n\n"
        + "\n\n".join(f"def rung{i}(x):\n    return rung{i + 1}(x) + rung{i + 1}(x)\n" for i in range(n)),
        batch_end="print(rung0(1))",
    ),
    "tests on shares": lambda n: script(batch_end=each(n, "if loss.item() > {0}:\n    break")),
    "deletions": lambda n: script(batch_end=each(n, "q{0} = loss.detach()\ndel q{0}")),
}


def _deep(number: int) -> str:
    layers, calls = each(number, "        self.l{0} = nn.Linear(8, 8)"), each(number, "        x = self.l{0}(x)")
    made = "def __init__(self):\n        super().__init__()\n        self.last = nn.Linear(8, 3)"
    forward = f"def forward(self, x):\n{calls}\n        return self.last(x)"
    return f"class Deep(nn.Module):\n    {made}\n{layers}\n\n    {forward}\n"


@pytest.mark.parametrize("make", SHAPES.values(), ids=SHAPES)
def test_nor_is_one_for_what_a_script_has_many_of(make: Callable[[int], str]) -> None:
    assert not out_of_proportion(make, 30, _TIMES)


@pytest.mark.parametrize(
    ("make", "number"), [(make_networks, 12), (make_trainers, 6), (make_methods, 25), (make_evaluations, 12)]
)
def test_nor_is_one_for_what_stands_on_several_lines(make: Callable[[int], str], number: int) -> None:
    assert not out_of_proportion(make, number, _TIMES)


@pytest.mark.parametrize(("make", "lines"), [(make_script, 150), (make_reports, 300), (make_loop, 100)])
def test_no_function_is_called_out_of_proportion(make: Callable[[int], str], lines: int) -> None:
    grown = make(lines * _TIMES).count("\n") / make(lines).count("\n")
    assert not out_of_proportion(make, lines, grown)


def out_of_proportion(make: Callable[[int], str], size: int, grown: float) -> dict[str, tuple[int, int]]:
    """The functions that a script of several times the size has called more often than so many times."""
    small, large = make(size), make(size * _TIMES)
    calls(small)  # what is loaded and worked out once
    few, many = calls(small), calls(large)
    return {name: (few[name], number) for name, number in many.items() if number > _OFTEN + 1.25 * grown * few[name]}
