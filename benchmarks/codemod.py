"""What the command line tool costs, next to tools of its kind."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from benchmarks.measure import Measure, NotMeasured, Setting, least, ratio, run

_CONVERT_EXITS = (0, 1, 2)  # a corpus may have findings, and files that are not Python 3
_FIX_EXITS = (0, 1)  # 1: something was found, or rewritten
_FEW = 2  # rounds, where each takes long
_LINES, _FILES, _GROWTH = 2_000, 10, 10


def python_files(folders: Iterable[Path]) -> list[Path]:
    """All Python files in folders."""
    return [file for folder in folders for file in sorted(folder.rglob("*.py")) if file.is_file()]


def package(name: str) -> Path | None:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _copy(folders: Iterable[Path], target: Path, wanted: Callable[[Path], bool] = lambda _: True) -> Path:
    """A fresh copy of the Python files in folders."""
    shutil.rmtree(target, ignore_errors=True)
    for number, folder in enumerate(folders):
        for file in filter(wanted, python_files([folder])):
            place = target / str(number) / file.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    return target


def _convert(setting: Setting, path: Path) -> float:
    return run([setting.command("accelift"), "convert", str(path), "-q"], _CONVERT_EXITS).cpu


def _train(setting: Setting, rounds: int, fixer: Callable[[Path], list[str]]) -> float:
    """Previews of all scripts, next to a tool that rewrites a fresh copy of them each time."""
    ours = _copy(setting.corpus, setting.scratch / "ours")

    def theirs() -> float:
        return run(fixer(_copy(setting.corpus, setting.scratch / "theirs")), _FIX_EXITS).cpu

    return ratio(rounds, partial(_convert, setting, ours), theirs)


def _pyupgrade(setting: Setting) -> float:
    command = [setting.command("pyupgrade"), "--py310-plus"]
    return _train(setting, setting.rounds, lambda copy: [*command, *map(str, python_files([copy]))])


def _torchfix(setting: Setting) -> float:
    command = [setting.command("torchfix"), "--fix", "-j", "1"]
    return _train(setting, min(setting.rounds, _FEW), lambda copy: [*command, str(copy)])


def _help(setting: Setting) -> float:
    sides = ([setting.command("accelift"), "--help"], [sys.executable, "-c", "pass"])
    ours, theirs = (lambda side=side: run(side).cpu for side in sides)
    return ratio(4 * setting.rounds, ours, theirs)  # they are short


def _typical(setting: Setting) -> Path:
    """The training script of the corpus that has nearest to 300 lines."""
    trains = [(file, data) for file in python_files(setting.corpus) if b".backward(" in (data := file.read_bytes())]
    if not trains:
        raise NotMeasured("the corpus has no training script")
    return min(trains, key=lambda one: abs(one[1].count(b"\n") - 300))[0]


def _preview(setting: Setting) -> float:
    script = _typical(setting)
    peer = [setting.command("torchfix"), "-j", "1", str(script)]
    return ratio(setting.rounds, partial(_convert, setting, script), lambda: run(peer, _FIX_EXITS).cpu)


def _skip(setting: Setting) -> float:
    folder = setting.irrelevant or package("sympy")
    if folder is None:
        raise NotMeasured("sympy is not installed; name a folder with --irrelevant")
    copy = _copy([folder], setting.scratch / "irrelevant", lambda file: b"torch" not in file.read_bytes())
    peer = [setting.command("grep"), "-rlF", "torch", str(copy)]
    return ratio(2 * setting.rounds, partial(_convert, setting, copy), lambda: run(peer, (1,)).cpu)


def _jobs(setting: Setting) -> float:
    if not setting.tree:
        raise NotMeasured("torch and sympy are not installed; name folders with --tree")
    command = [setting.command("accelift"), "convert", *map(str, setting.tree), "-q", "-j"]

    def wall(jobs: str) -> float:
        return run([*command, jobs], _CONVERT_EXITS).wall

    return ratio(setting.rounds, partial(wall, "1"), partial(wall, "2"))


_HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""

_STAGE = """

def train_{0}(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()


def stage_{0}():
    model = nn.Linear({0}, 10).to(device)
    data = TensorDataset(torch.randn(640, {0}), torch.randint(10, (640,)))
    loader = DataLoader(data, batch_size=64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_{0}(model, loader, optimizer)
"""


def make_script(lines: int) -> str:
    """A training script of about so many lines: functions that train models of their own, called in turn."""
    stages = range(1, max(1, lines // (_STAGE.count("\n") + 1)) + 1)
    calls = "".join(f"    stage_{number}()\n" for number in stages)
    return f'{_HEAD}{"".join(map(_STAGE.format, stages))}\n\nif __name__ == "__main__":\n{calls}'


def _growth(setting: Setting, small: Path, large: Path) -> float:
    """How the cost grows, above that of starting up and converting the smallest script."""
    smallest = setting.scratch / "smallest.py"
    smallest.write_text(make_script(1))
    sides = [partial(_convert, setting, path) for path in (smallest, small, large)]
    start, less, more = least(min(setting.rounds, _FEW), *sides)
    return (more - start) / (less - start)


def _growth_lines(setting: Setting) -> float:
    small, large = setting.scratch / "small.py", setting.scratch / "large.py"
    small.write_text(make_script(_LINES))
    large.write_text(make_script(_LINES * _GROWTH))
    return _growth(setting, small, large)


def _growth_files(setting: Setting) -> float:
    small, large, script = setting.scratch / "few", setting.scratch / "many", _typical(setting)
    for folder, count in ((small, _FILES), (large, _FILES * _GROWTH)):
        folder.mkdir()
        for number in range(count):
            shutil.copyfile(script, folder / f"script_{number}.py")
    return _growth(setting, small, large)


MEASURES = (
    Measure("convert-pyupgrade", "convert the scripts / pyupgrade", 1.0, _pyupgrade),
    Measure("convert-torchfix", "convert the scripts / torchfix --fix", 1 / 25, _torchfix),
    Measure("help", "accelift --help / python -c pass", 8, _help),
    Measure("preview", "preview of one script of 300 lines / torchfix", 0.5, _preview),
    Measure("skip", "skip files without torch / grep -rlF torch", 2.5, _skip),
    Measure("jobs", "time with -j 1 / -j 2, on many files", 1.8, _jobs, at_least=True),
    Measure("growth-files", f"{_FILES * _GROWTH} files / {_FILES}", 11, _growth_files),
    Measure("growth-lines", f"{_LINES * _GROWTH:,} lines in one file / {_LINES:,}", 11, _growth_lines),
)
