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
_LINES, _FILES, _PROJECTS, _GROWTH = 2_000, 10, 40, 10


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


_REPORT = """

def report_{0}(values):
    total = report_{1}(values) if len(values) > {0} else 0
    for number, value in enumerate(values):
        total += value
        print("stage {0}", number, value, total)
    return total
"""


def make_script(lines: int) -> str:
    """A training script of about so many lines: functions that train models of their own, called in turn."""
    return _script(lines, _HEAD, _STAGE, "    stage_{0}()\n")


def make_reports(lines: int) -> str:
    """A script of about so many lines that trains once: functions that print, and call each other."""
    head = f"{_HEAD}{_STAGE.format(1)}\n\ndef report_0(values):\n    stage_1()\n    return 0\n"
    return _script(lines, head, _REPORT, "    report_{0}([{0}, 1, 2])\n")


def _script(lines: int, head: str, part: str, call: str) -> str:
    numbers = range(1, max(1, lines // (part.count("\n") + 1)) + 1)
    parts = "".join(part.format(number, number - 1 if number % 10 else 0) for number in numbers)
    calls = "".join(call.format(number) for number in numbers)
    return f'{head}{parts}\n\nif __name__ == "__main__":\n{calls}'


def make_project(folder: Path, scripts: int) -> None:
    """A folder of scripts that all import one module, which trains what they make."""
    folder.mkdir(parents=True)
    common = _STAGE.format(1)
    (folder / "common.py").write_text(f"{_HEAD}{common[: common.index('def stage_')].rstrip()}\n")
    for number in range(scripts):
        own = _STAGE.format(2 + number).replace("def train_", "def alone_")
        own = own.replace(f"    train_{2 + number}(", "    common.train_1(")
        main = f'if __name__ == "__main__":\n    stage_{2 + number}()\n'
        (folder / f"script_{number}.py").write_text(f"import common\n{_HEAD}{own}\n\n{main}")


def _growth(setting: Setting, small: Path, large: Path) -> float:
    """How the cost grows, above that of starting up and converting the smallest script."""
    smallest = setting.scratch / "smallest.py"
    smallest.write_text(make_script(1))
    sides = [partial(_convert, setting, path) for path in (smallest, small, large)]
    start, less, more = least(min(setting.rounds, _FEW), *sides)
    return (more - start) / (less - start)


def _growth_lines(setting: Setting, make: Callable[[int], str]) -> float:
    small, large = setting.scratch / "small.py", setting.scratch / "large.py"
    small.write_text(make(_LINES))
    large.write_text(make(_LINES * _GROWTH))
    return _growth(setting, small, large)


_growth_training = partial(_growth_lines, make=make_script)
_growth_calls = partial(_growth_lines, make=make_reports)


def _growth_projects(setting: Setting) -> float:
    small, large = setting.scratch / "projects", setting.scratch / "more"
    for folder, count in ((small, _PROJECTS), (large, _PROJECTS * _GROWTH)):
        for number in range(count):
            make_project(folder / f"project_{number}", 9)
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
    Measure(
        "growth-projects",
        f"{_PROJECTS * _GROWTH * 10:,} files that import others / {_PROJECTS * 10}",
        11,
        _growth_projects,
    ),
    Measure("growth-lines", f"{_LINES * _GROWTH:,} lines that train in one file / {_LINES:,}", 11, _growth_training),
    Measure("growth-calls", f"{_LINES * _GROWTH:,} lines that print and call / {_LINES:,}", 11, _growth_calls),
)
