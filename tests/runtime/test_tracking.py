"""What is logged reaches its tracker, whatever happens to the script."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from accelift import Accelerator
from accelift.dataclasses import LoggerType
from accelift.tracking import (
    GeneralTracker,
    JSONLTracker,
    TensorBoardTracker,
    WandBTracker,
    choice,
    filter_trackers,
    get_available_trackers,
    register_tracker_class,
)
from runtime_jobs import plain_environment


def strict(text: str) -> list[dict[str, Any]]:
    """The lines of a file, which must be JSON without the words that only Python knows."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts packages where they are found; they are forgotten after the test."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def make(name: str, source: str) -> Path:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(source)
        monkeypatch.delitem(sys.modules, name, raising=False)
        # What is imported in the test is put back to this afterwards.
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
        del sys.modules[name]
        return folder

    return make


WANDB = """
class Config(dict):
    def update(self, values, allow_val_change=None):
        assert allow_val_change
        super().update(values)

class Run:
    def __init__(self, **arguments):
        self.arguments, self.config, self.logged, self.finished = arguments, Config(), [], 0

    def log(self, data, step=None, commit=None):
        self.logged.append((data, step, commit))

    def finish(self, exit_code=None, quiet=None):
        self.finished += 1

class Image:
    def __init__(self, data):
        self.data = data

class Table:
    def __init__(self, columns=None, data=None, rows=None, dataframe=None):
        self.columns, self.data, self.dataframe = columns, data, dataframe

def init(entity=None, project=None, dir=None, id=None, name=None, notes=None, tags=None):
    return Run(project=project, name=name, tags=tags)
"""

# Keeps what it is told until it is flushed or closed, as the real one may.
WRITER = """
import json

class SummaryWriter:
    def __init__(self, logdir=None, comment="", flush_secs=120):
        self.logdir, self.flush_secs, self.calls, self.closed = logdir, flush_secs, [], 0

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None):
        self.calls.append(("scalar", tag, scalar_value, global_step))

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        self.calls.append(("scalars", main_tag, tag_scalar_dict, global_step))

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        self.calls.append(("text", tag, text_string, global_step))

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        self.calls.append(("images", tag, dataformats, global_step))

    def add_hparams(self, hparam_dict, metric_dict):
        for value in hparam_dict.values():
            if not isinstance(value, (int, float, str)):
                raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        self.calls.append(("hparams", hparam_dict))

    def flush(self):
        with open("flushed.json", "w") as file:
            json.dump(self.calls, file)

    def close(self):
        self.flush()
        self.closed += 1
"""


class Recording(GeneralTracker):
    """Keeps what is done with it."""

    name = "recording"
    requires_logging_directory = False

    def __init__(self, run_name: str = "", **kwargs: Any) -> None:
        super().__init__()
        self.done: list[Any] = [(run_name, kwargs)]

    @property
    def tracker(self) -> list[Any]:
        return self.done

    def start(self) -> None:
        self.done.append("start")

    def store_init_configuration(self, values: Any) -> None:
        self.done.append(values)

    def log(self, values: Any, step: int | None = None, **kwargs: Any) -> None:
        self.done.append((values, step, kwargs))

    def finish(self) -> None:
        self.done.append("finish")


# JSON lines


def test_lines_are_json(tmp_path: Path) -> None:
    acc = Accelerator(log_with="jsonl", project_dir=tmp_path / "runs")
    acc.init_trackers("team/first", config={"lr": 0.1, "path": Path("x"), "sizes": (1, 2), "opt": {"betas": [0.9]}})
    acc.log({"loss": torch.tensor(1.5, requires_grad=True), "half": torch.tensor([0.5], dtype=torch.bfloat16)}, step=0)
    acc.log({"nan": float("nan"), "more": [float("inf"), torch.tensor(-torch.inf)], "text": "ä\n\u2028"}, step=1)
    acc.log({"eval": {"loss": 2, "by": {1: True}}, "vector": torch.arange(2), "none": None})
    acc.log({"step": 7, "loss": 0.5}, step=torch.tensor(6))  # type: ignore[arg-type]
    acc.end_training()
    config, *lines = strict((tmp_path / "runs/team/first.jsonl").read_text())
    assert config.keys() == {"time", "config"}
    assert config["config"] == {"lr": 0.1, "path": "x", "sizes": [1, 2], "opt": {"betas": [0.9]}}
    times = [line.pop("time") for line in lines]
    assert times == sorted(times) and config["time"] <= times[0]
    assert lines == [
        {"step": 0, "loss": 1.5, "half": 0.5},
        {"step": 1, "nan": "NaN", "more": ["Infinity", "-Infinity"], "text": "ä\n\u2028"},
        {"step": None, "eval/loss": 2, "eval/by/1": True, "vector": [0, 1], "none": None},
        {"step": 7, "loss": 0.5},
    ]
    assert float(lines[1]["nan"]) != float(lines[1]["nan"]) and float(lines[1]["more"][1]) == -torch.inf


def test_numbers_of_numpy(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    tracker = JSONLTracker("x", tmp_path)
    tracker.start()
    tracker.log({"a": numpy.float32(0.5), "b": numpy.array([[3]]), "c": numpy.arange(2), "d": numpy.float64("nan")})
    (line,) = strict(tracker.tracker.read_text())
    assert (line["a"], line["b"], line["c"], line["d"]) == (0.5, 3, [0, 1], "NaN")


def test_a_run_that_continues_appends(tmp_path: Path) -> None:
    for run in range(2):
        acc = Accelerator(log_with="jsonl", project_dir=str(tmp_path))
        acc.init_trackers("x", config={"run": run})
        acc.log({"run": run}, step=run)
        acc.end_training()
    lines = strict((tmp_path / "x.jsonl").read_text())
    assert [line.get("config", line.get("step")) for line in lines] == [{"run": 0}, 0, {"run": 1}, 1]


@pytest.mark.parametrize("left", [b"", b'{"step": 1}\n', b'{"step": 1}\n{"step": 2}\n'])
@pytest.mark.parametrize("torn", [b"", b"{", b'{"step": 3, "lo'])
def test_what_was_never_finished_is_cut_off(left: bytes, torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(left + torn)
    tracker = JSONLTracker("x", tmp_path)
    tracker.start()
    assert path.read_bytes() == left
    tracker.log({"loss": 1}, step=4)
    assert path.read_bytes().startswith(left)
    assert len(strict(path.read_text())) == left.count(b"\n") + 1


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"cannot log to .*file.x\.jsonl: "):
        JSONLTracker("x", tmp_path / "file").start()
    tracker = JSONLTracker("x", tmp_path)
    (tmp_path / "x.jsonl").mkdir()
    with pytest.raises(IsADirectoryError, match="cannot log to"):
        tracker.log({"loss": 1})


FULL = """
import resource, sys
from accelift.tracking import JSONLTracker

tracker = JSONLTracker("x", sys.argv[1])
tracker.start()
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
for step in range(20):
    try:
        tracker.log({"loss": 0.5}, step=step)
    except OSError as error:
        print(step, error)
        break
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_disk_that_is_full_leaves_whole_lines(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)
    step, _, error = done.stdout.partition(" ")
    assert "cannot log to" in error, done.stderr
    lines = strict((tmp_path / "x.jsonl").read_text())
    assert [line["step"] for line in lines] == list(range(int(step))) and int(step) > 2


ENDS = """
import os, signal, sys
from accelift import Accelerator

sys.modules["torch.utils.tensorboard"] = None
acc = Accelerator(cpu=True, log_with=["jsonl", "tensorboard"], project_dir=".")
acc.init_trackers("x", config={"lr": 0.1})
for step in range(3):
    acc.log({"loss": 0.5}, step=step)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
acc.get_tracker("tensorboard", unwrap=True).add_text("late", "by the script itself")
raise RuntimeError("the script fails")
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "raise"])
def test_scripts_that_fail_lose_nothing(how: str, package: Any, tmp_path: Path) -> None:
    packages = package("tensorboardX", WRITER)
    environment = plain_environment()
    environment["PYTHONPATH"] += f"{os.pathsep}{packages}"
    command = [sys.executable, "-c", ENDS, how]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == (-9 if how == "kill" else 1), done.stderr
    lines = strict((tmp_path / "x.jsonl").read_text())
    assert [line.get("loss") for line in lines] == [None, 0.5, 0.5, 0.5]
    calls = json.loads((tmp_path / "flushed.json").read_text())
    assert [call[0] for call in calls] == ["hparams", *["scalar"] * 3, *["text"] * (how == "raise")]


# TensorBoard


@pytest.mark.parametrize("home", ["tensorboardX", "torch.utils.tensorboard"])
def test_tensorboard(home: str, package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    package("tensorboardX", WRITER if home == "tensorboardX" else "")
    inside = None
    if home != "tensorboardX":
        inside = ModuleType(home)
        exec(WRITER, vars(inside))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", inside)  # type: ignore[arg-type]
    acc = Accelerator(log_with=LoggerType.TENSORBOARD, project_dir="runs")
    acc.init_trackers(
        "x",
        config={"lr": 0.1, "none": None, "sizes": [1, 2]},
        init_kwargs={"tensorboard": {"flush_secs": 3}, "wandb": {"name": "not asked for"}},
    )
    tracker = acc.get_tracker("tensorboard")
    writer = acc.get_tracker("tensorboard", unwrap=True)
    assert isinstance(tracker, TensorBoardTracker) and acc.trackers == [tracker]
    assert tracker.writer is writer and type(writer).__module__ == home
    assert (writer.logdir, writer.flush_secs) == (str(Path("runs/x")), 3)
    with pytest.warns(UserWarning, match="'list', a list, is left out") as caught:
        for step in range(2):
            acc.log({"loss": torch.tensor(0.5), "text": "hi", "list": [1]}, step=step)
    assert len(caught) == 1
    acc.log({"both": {"a": 1, "b": torch.tensor(2.0)}, "yes": True}, step=torch.tensor(2))  # type: ignore[arg-type]
    tracker.log_images({"image": torch.zeros(1, 3, 2, 2)}, step=3, dataformats="NHWC")
    expected = [
        ["hparams", {"lr": 0.1, "none": "None", "sizes": "[1, 2]"}],
        *[call for step in range(2) for call in (["scalar", "loss", 0.5, step], ["text", "text", "hi", step])],
        ["scalars", "both", {"a": 1, "b": 2.0}, 2],
        ["scalar", "yes", True, 2],
        ["images", "image", "NHWC", 3],
    ]
    assert json.loads(Path("flushed.json").read_text()) == expected, "it is not on disk before the end"
    (kept,) = Path("runs/x").glob("*/hparams.yml")
    assert kept.read_text() == "lr: 0.1\nnone: null\nsizes:\n- 1\n- 2\n"
    acc.end_training()
    assert writer.closed == 1


def test_events_can_be_read_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    acc = Accelerator(log_with="tensorboard", project_dir=tmp_path)
    acc.init_trackers("x", config={"lr": 0.1})
    acc.log({"loss": torch.tensor(0.5)}, step=3)
    events = EventAccumulator(str(tmp_path / "x")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(3, 0.5)]
    acc.end_training()


# Weights & Biases


def test_wandb(package: Any) -> None:
    package("wandb", WANDB)
    acc = Accelerator(log_with="wandb")
    acc.init_trackers("x", config={"lr": 0.1}, init_kwargs={"wandb": {"name": "first", "tags": ["a"]}})
    tracker, run = acc.get_tracker("wandb"), acc.get_tracker("wandb", unwrap=True)
    assert isinstance(tracker, WandBTracker) and tracker.run is run
    assert run.arguments == {"project": "x", "name": "first", "tags": ["a"]} and run.config == {"lr": 0.1}
    histogram = torch.arange(3)
    acc.log({"loss": torch.tensor(0.5), "weights": histogram}, step=2, log_kwargs={"wandb": {"commit": False}})
    (values, step, commit) = run.logged.pop()
    assert type(values["loss"]) is float and values["weights"] is histogram and (step, commit) == (2, False)
    tracker.log_images({"seen": ["pixels"]}, step=3)
    tracker.log_table("words", columns=["a"], data=[[1]], step=4)
    (images, at_3, _), (tables, at_4, _) = run.logged
    assert images["seen"][0].data == "pixels" and tables["words"].data == [[1]] and (at_3, at_4) == (3, 4)
    acc.end_training()
    acc.end_training()
    assert run.finished == 1


# Trackers of one's own


def test_a_tracker_of_ones_own() -> None:
    mine = Recording("made by the script")
    acc = Accelerator(log_with=mine)
    assert acc.log_with == [mine] and acc.trackers == []
    acc.init_trackers("x", config={"lr": 0.1}, init_kwargs={"recording": {"not": "asked"}})
    value = torch.tensor(0.5)
    acc.log({"loss": value}, step=1, log_kwargs={"recording": {"more": 2}})
    assert acc.get_tracker("recording") is mine and acc.get_tracker("recording", unwrap=True) is mine.done
    acc.end_training()
    acc.end_training()
    logged = ({"loss": value}, 1, {"more": 2})
    assert mine.done == [("made by the script", {}), "start", {"lr": 0.1}, logged, "finish"]
    assert mine.done[3][0]["loss"] is value, "it is for the tracker to say what becomes of tensors"


def test_trackers_say_what_they_are() -> None:
    class Nameless(GeneralTracker):
        requires_logging_directory = False

    with pytest.raises(NotImplementedError, match=r"Nameless is a tracker and must define name, tracker\."):
        Nameless()

    class Late(Recording):
        """Its name is known once it is made."""

        @property
        def name(self) -> str:  # type: ignore[override]
            return f"late-{len(self.done)}"

    assert Late().name == "late-1"


def test_a_registered_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_REGISTERED", {})
    with pytest.raises(ValueError, match='"recording"'):
        Accelerator(log_with="recording")
    register_tracker_class(Recording)
    acc = Accelerator(log_with=["recording", "recording"])
    acc.init_trackers("x", init_kwargs={"recording": {"size": 1}})
    assert [tracker.tracker for tracker in acc.trackers] == [[("x", {"size": 1}), "start"]]
    assert "recording" in get_available_trackers()
    acc.end_training()
    for wrong in (int, Recording("x"), GeneralTracker):
        with pytest.raises(ValueError, match=r"register|registered"):
            register_tracker_class(wrong)  # type: ignore[arg-type]


def test_all_are_ended_where_one_fails() -> None:
    class Failing(Recording):
        def finish(self) -> None:
            raise RuntimeError("no network")

    first, last = Recording(), Recording()
    acc = Accelerator(log_with=[first, Failing(), last])
    acc.init_trackers("x")
    with pytest.raises(RuntimeError, match="no network"):
        acc.end_training()
    assert first.done[-1] == last.done[-1] == "finish" and acc.trackers == []


def test_a_second_run_ends_the_first() -> None:
    mine = Recording()
    acc = Accelerator(log_with=mine)
    acc.init_trackers("one")
    acc.init_trackers("two")
    acc.log({"a": 1})
    assert mine.done[1:] == ["start", "finish", "start", ({"a": 1}, None, {})]
    assert len(acc.trackers) == 1


# Which, and when


def test_without_trackers_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    acc = Accelerator(project_dir=tmp_path)
    acc.log({"loss": 1}, step=1)
    acc.init_trackers("x", config={"lr": 0.1})
    acc.log({"loss": 1})
    acc.get_tracker("wandb").log({"loss": 1})
    acc.get_tracker("tensorboard", unwrap=True).add_image("x", 1)
    acc.end_training()
    assert acc.trackers == acc.log_with == [] and list(tmp_path.iterdir()) == []


def test_what_is_asked_for(tmp_path: Path, package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Recording()
    for missing in ("tensorboard", "tensorboardX"):
        monkeypatch.setitem(sys.modules, missing, None)  # type: ignore[arg-type]
    package("wandb", WANDB)
    assert filter_trackers(None) == []
    assert filter_trackers(["jsonl", LoggerType.JSONL, mine, "jsonl", mine], tmp_path) == ["jsonl", mine]
    assert filter_trackers("all", tmp_path) == filter_trackers(LoggerType.ALL, tmp_path) == ["jsonl", "wandb"]
    assert filter_trackers([mine, "all", "wandb"]) == [mine, "wandb"], "there is no folder for jsonl"
    assert get_available_trackers() == ["jsonl", "wandb"]


@pytest.mark.parametrize(
    ("kind", "part", "log_with"),
    [
        (ImportError, 'log_with="wandb") needs the package wandb: pip install wandb.', "wandb"),
        (ImportError, "needs the package tensorboard or tensorboardX: pip install tensorboard.", ["tensorboard"]),
        (ValueError, 'log_with="mlflow") is not offered: choose from jsonl, tensorboard, wandb', LoggerType.MLFLOW),
        (ValueError, 'log_with="jsonl") needs a folder to write to: give it project_dir="...".', "jsonl"),
        (TypeError, "log_with takes names of trackers and trackers, not a int.", [3]),
        (TypeError, "not a type", [Recording]),
    ],
)
def test_refused(kind: type[Exception], part: str, log_with: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("tensorboard", "tensorboardX", "wandb"):
        monkeypatch.setitem(sys.modules, missing, None)  # type: ignore[arg-type]
    with pytest.raises(kind) as error:
        Accelerator(log_with=log_with)
    message = str(error.value)
    assert part in message and message.endswith(".") and "\n" not in message


def test_out_of_turn() -> None:
    acc = Accelerator(log_with=Recording())
    with pytest.raises(RuntimeError, match=r"^log was called while no tracker runs: .*\.$"):
        acc.log({"loss": 1})
    with pytest.raises(RuntimeError, match=r"^get_tracker was called while no tracker runs"):
        acc.get_tracker("recording")
    acc.init_trackers("x")
    with pytest.raises(ValueError, match=r"^get_tracker knows no 'wandb'; log_with has recording\.$"):
        acc.get_tracker("wandb")
    with pytest.raises(TypeError, match=r"^log takes a dict of values by name, not a float\.$"):
        acc.log(0.5)  # type: ignore[arg-type]
    acc.end_training()
    with pytest.raises(RuntimeError, match="log was called while no tracker runs"):
        acc.log({"loss": 1})


def test_a_copy_logs_nothing(tmp_path: Path) -> None:
    acc = Accelerator(log_with=["jsonl", Recording()], project_dir=tmp_path)
    acc.init_trackers("x")
    copy = pickle.loads(pickle.dumps(acc))
    copy.log({"loss": 1})
    copy.end_training()
    assert copy.trackers == [] and len(acc.trackers) == 2
    acc.log({"loss": 2})
    assert [line["loss"] for line in strict((tmp_path / "x.jsonl").read_text())] == [2]


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("init_trackers", "project_name, config=None, init_kwargs=None"),
        ("log", "values, step=None, log_kwargs=None"),
        ("get_tracker", "name, unwrap=False"),
        ("end_training", ""),
    ],
)
def test_arguments_are_those_of_hugging_face(verb: str, arguments: str) -> None:
    signature = inspect.signature(getattr(Accelerator(), verb))
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    assert ", ".join(map(str, plain)) == arguments


def test_names_are_those_of_hugging_face() -> None:
    theirs = pytest.importorskip("accelerate.tracking")
    assert {one.name for one in theirs.LoggerType} <= set(LoggerType.__members__)
    assert all(LoggerType[one.name] == one.value == str(LoggerType[one.name]) for one in theirs.LoggerType)
    for kind in (TensorBoardTracker, WandBTracker):
        other = getattr(theirs, kind.__name__)
        for name in ("name", "requires_logging_directory", "main_process_only"):
            assert getattr(kind, name) == getattr(other, name)
        assert {name for name in vars(other) if not name.startswith("_")} <= {*dir(kind), "logger"}
