"""Saving and loading the state of a training run, on one process."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from accelift import Accelerator, ProjectConfiguration
from accelift.checkpoint import CheckpointError
from accelift.checkpoint.weights import state_dict_of
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import ExponentialLR, StepLR
from torch.utils.data import DataLoader

MANIFEST = "accelift_checkpoint.json"


class Counter:
    """Something to register."""

    def __init__(self, value: Any = 0) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


class Tied(nn.Module):
    """Two layers that share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
        self.two.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.two(self.one(x))
        return out


class Job:
    """Everything that is prepared for a training run, and one step of it."""

    def __init__(
        self, seed: int = 0, size: int = 3, kind: Any = Adam, schedule: Any = StepLR, **arguments: Any
    ) -> None:
        torch.manual_seed(seed)
        self.acc = Accelerator(**arguments)
        self.model = nn.Sequential(nn.Linear(3, size), nn.BatchNorm1d(size), nn.Linear(size, 3))
        self.optimizer = kind(self.model.parameters(), lr=0.1)
        self.scheduler = schedule(self.optimizer, 1)
        self.loader = DataLoader(torch.arange(4.0), batch_size=2)
        self.counter = Counter(seed)
        self.acc.register_for_checkpointing(self.counter)
        self.acc.prepare(self.model, self.optimizer, self.scheduler)

    def step(self) -> None:
        self.acc.backward(self.model(torch.randn(4, 3)).square().sum())
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()

    def values(self) -> list[Any]:
        states = [*self.optimizer.state_dict()["state"].values(), *self.model.state_dict().values()]
        found = [value for state in states for value in (state.values() if isinstance(state, dict) else [state])]
        return [value.tolist() for value in found] + [self.scheduler.state_dict(), self.counter.value]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint."""
    job = Job()
    job.step()
    job.acc.save_state(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


@pytest.mark.parametrize("safe", [True, False])
def test_everything_comes_back(safe: bool, tmp_path: Path) -> None:
    job, other = Job(0), Job(1)
    job.step()
    assert job.acc.save_state(str(tmp_path / "a" / "b"), safe_serialization=safe) == tmp_path / "a" / "b"
    drawn = torch.rand(3)
    assert other.values() != job.values()
    other.acc.load_state(str(tmp_path / "a" / "b"))
    assert other.values() == job.values() and torch.equal(torch.rand(3), drawn)
    assert (tmp_path / "a" / "b" / "pytorch_model.bin").exists() == (not safe)
    names = {path.name for path in (tmp_path / "a" / "b").iterdir()}
    assert names >= {MANIFEST, "optimizer.bin", "scheduler.bin", "random_states_0.pkl", "custom_checkpoint_0.pkl"}


def test_files_are_loaded_by_others(folder: Path) -> None:
    package = pytest.importorskip("safetensors.torch")
    job = Job(1)
    job.model.load_state_dict(package.load_file(folder / "model.safetensors"))
    for path in folder.iterdir():
        if path.suffix not in (".json", ".safetensors"):
            torch.load(path, weights_only=True)
    job.optimizer.load_state_dict(torch.load(folder / "optimizer.bin", weights_only=True))
    job.scheduler.load_state_dict(torch.load(folder / "scheduler.bin", weights_only=True))
    again = Job(2)
    again.acc.load_state(folder)
    assert again.values()[:-1] == job.values()[:-1]


def test_loading_into_what_has_been_trained_keeps_its_tensors(folder: Path) -> None:
    job = Job(1)
    job.step()
    tensors = [*job.model.state_dict(keep_vars=True).values(), *job.optimizer.state[job.model[0].weight].values()]
    job.acc.load_state(folder)
    kept = [*job.model.state_dict(keep_vars=True).values(), *job.optimizer.state[job.model[0].weight].values()]
    assert all(one is other for one, other in zip(tensors, kept, strict=True))


def test_what_is_loaded_outlives_the_files(folder: Path) -> None:
    job, twin = Job(1), Job(2)
    for one in (job, twin):
        one.acc.load_state(folder)
    for path in folder.iterdir():
        with path.open("r+b") as file:
            file.truncate(0)
    for one in (job, twin):
        torch.manual_seed(3)
        one.step()
    assert job.values() == twin.values()


def test_a_checkpoint_is_replaced_and_other_files_stay(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / "logs").mkdir()
    (folder / "logs" / "a").write_text("mine, too")
    job = Job(4)
    job.acc._registered.objects.clear()
    job.acc.save_state(folder, safe_serialization=False)
    names = sorted(path.name for path in folder.iterdir())
    ours = [MANIFEST, "optimizer.bin", "pytorch_model.bin", "random_states_0.pkl", "scheduler.bin"]
    assert names == sorted([*ours, "logs", "notes.txt"])
    assert (folder / "logs" / "a").read_text() == "mine, too"


def test_links_stay(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    job = Job()
    job.acc.save_state(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real" / MANIFEST).exists()


def test_durable(tmp_path: Path) -> None:
    job = Job()
    for _ in range(2):
        job.step()
        job.acc.save_state(tmp_path / "x", durable=True)
    other = Job(1)
    other.acc.load_state(tmp_path / "x")
    assert other.values() == job.values()


def test_user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    job = Job()
    job.acc.save_state("~/x")
    job.acc.load_state("~/x")
    assert (tmp_path / "x" / MANIFEST).exists()


def _truncate(name: str) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        path = folder / name
        path.write_bytes(path.read_bytes()[:-1])

    return act


def _flip(name: str, at: int) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[at] ^= 1
        (folder / name).write_bytes(content)

    return act


def _manifest(**change: Any) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        facts = json.loads((folder / MANIFEST).read_text())
        (folder / MANIFEST).write_text(json.dumps({**facts, **change}))

    return act


DAMAGES: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    "no folder": ("", "there is no checkpoint", shutil.rmtree),
    "no manifest": ("", "is not a complete checkpoint", lambda folder: (folder / MANIFEST).unlink()),
    "cut model": ("model.safetensors", "is damaged: it has", _truncate("model.safetensors")),
    "cut optimizer": ("optimizer.bin", "is damaged: it has", _truncate("optimizer.bin")),
    "cut generators": ("random_states_0.pkl", "is damaged: it has", _truncate("random_states_0.pkl")),
    "cut manifest": (MANIFEST, "is damaged: it is not the manifest", _truncate(MANIFEST)),
    "other manifest": (MANIFEST, "is damaged: it is not the manifest", lambda f: (f / MANIFEST).write_text("[1]")),
    "deep manifest": (MANIFEST, "is damaged", lambda folder: (folder / MANIFEST).write_text("[" * 100_000)),
    "no facts": (MANIFEST, "is damaged", _manifest(optimizers=3)),
    "outside": (MANIFEST, "is damaged", _manifest(files={"../x": {"size": 0, "crc32": 0}})),
    "absolute": (MANIFEST, "is damaged", _manifest(files={"/x": {"size": 0, "crc32": 0}})),
    "newer": (MANIFEST, "is of a newer accelift", _manifest(format=2)),
    "missing": ("optimizer.bin", "is missing", lambda folder: (folder / "optimizer.bin").unlink()),
    "flipped": ("model.safetensors", "is not what was saved", _flip("model.safetensors", -5)),
    "flipped optimizer": ("optimizer.bin", "is not what was saved", _flip("optimizer.bin", 900)),
    "foreign": (
        "optimizer.bin",
        "is damaged: it has",
        lambda folder: shutil.copy(folder / "scheduler.bin", folder / "optimizer.bin"),
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_checkpoints_are_refused_and_change_nothing(name: str, folder: Path) -> None:
    file, part, damage = DAMAGES[name]
    damage(folder)
    _refused(folder, file, part, Job(1))


def _refused(folder: Path, file: str, part: str, job: Job) -> None:
    before, generator = job.values(), torch.get_rng_state()
    with pytest.raises(CheckpointError, match=re.escape(part)) as error:
        job.acc.load_state(folder)
    message = str(error.value)
    assert str(folder / file) in message and message.endswith(".") and "\n" not in message
    assert job.values() == before and torch.equal(torch.get_rng_state(), generator)


def _with_one_more(job: Job, item: Any) -> Job:
    job.acc.prepare(item) if isinstance(item, nn.Module) else job.acc.register_for_checkpointing(item)
    job.extra = item  # type: ignore[attr-defined]
    return job


OTHERS: dict[str, tuple[str, str, Callable[[], Job]]] = {
    "shape": ("model.safetensors", "0.weight is (3, 3) there and (4, 3) here", lambda: Job(size=4)),
    "model": ("", "was saved with 1 model, and here are 2 models", lambda: _with_one_more(Job(), nn.Linear(1, 1))),
    "object": ("", "was saved with 1 object, and here are 2 objects", lambda: _with_one_more(Job(), Counter())),
    "optimizer": ("", "was saved with the optimizers Adam, and here are the optimizers SGD", lambda: Job(kind=SGD)),
    "scheduler": ("", "the schedulers StepLR, and here are the schedulers Exp", lambda: Job(schedule=ExponentialLR)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_checkpoints_of_other_runs_are_refused(name: str, folder: Path) -> None:
    file, part, make = OTHERS[name]
    _refused(folder, file, part, make())


def test_parameters_in_another_order_are_refused(folder: Path) -> None:
    job = Job()
    job.acc.free_memory()
    optimizer = Adam(reversed(list(job.model.parameters())), lr=0.1)
    job.acc.prepare(job.model, optimizer, job.scheduler)
    with pytest.raises(CheckpointError, match=r"optimizer.bin is of other parameters, or has them in another order"):
        job.acc.load_state(folder)


def test_other_names_are_refused_unless_that_is_wanted(tmp_path: Path) -> None:
    acc, other = Accelerator(), Accelerator()
    model, wider = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    acc.prepare(model)
    acc.save_state(tmp_path / "x")
    other.prepare(wider)
    with pytest.raises(CheckpointError, match=r"of another model: it lacks 1.weight and 1 more"):
        other.load_state(tmp_path / "x")
    other.load_state(tmp_path / "x", strict=False)
    assert torch.equal(wider[0].weight, model[0].weight)
    other.save_state(tmp_path / "y")
    with pytest.raises(CheckpointError, match=r"of another model: the model lacks 1.bias and 1 more"):
        acc.load_state(tmp_path / "y", map_location="cpu")


def test_states_that_need_foreign_code_are_refused_when_they_are_saved(folder: Path) -> None:
    job = Job()
    job.counter.value = Path("x")
    with pytest.raises(ValueError, match=r"the state of Counter holds .*Path.*foreign code.*add_safe_globals"):
        job.acc.save_state(folder)
    job.acc.load_state(folder)


def test_arrays_of_numpy_are_no_foreign_code(tmp_path: Path) -> None:
    job, other = Job(), Job()
    job.counter.value = [numpy.arange(3), numpy.float32(2.5), numpy.array(["a"])]
    job.acc.save_state(tmp_path / "x")
    other.acc.load_state(tmp_path / "x")
    assert [part.tolist() for part in other.counter.value] == [[0, 1, 2], 2.5, ["a"]]


def test_code_in_files_does_not_run(folder: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (folder / "ran",)

    torch.save(Evil(), folder / "optimizer.bin")
    from accelift.checkpoint.files import read_state

    with pytest.raises(CheckpointError, match=r"optimizer.bin cannot be loaded: it holds objects of foreign code"):
        read_state(folder / "optimizer.bin")
    assert not (folder / "ran").exists()


def test_tied_weights_are_saved_once(tmp_path: Path) -> None:
    acc, other = Accelerator(), Accelerator()
    model, again = Tied(), Tied()
    acc.prepare(model)
    acc.save_state(tmp_path / "x")
    other.prepare(again)
    other.load_state(tmp_path / "x")
    assert torch.equal(again.two.weight, model.one.weight) and again.two.weight is again.one.weight
    package = pytest.importorskip("safetensors.torch")
    assert set(package.load_file(tmp_path / "x" / "model.safetensors")) == {"one.weight", "one.bias"}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: torch.compile(model, backend="eager"),
        nn.DataParallel,
        lambda model: nn.Sequential(model[0], torch.compile(model[1], backend="eager")),
        lambda model: torch.compile(nn.Sequential(model[0], torch.compile(model[1], backend="eager")), backend="eager"),
    ],
)
def test_names_are_the_authors(wrap: Any, tmp_path: Path) -> None:
    plain = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
    wrapped = wrap(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))))
    assert list(state_dict_of(wrapped)) == list(plain.state_dict())
    one, other = Accelerator(), Accelerator()
    one.prepare(wrapped)
    one.save_state(tmp_path / "x")
    other.prepare(plain)
    other.load_state(tmp_path / "x")
    expected = [value.tolist() for value in wrapped.state_dict().values()]
    assert [value.tolist() for value in plain.state_dict().values()] == expected
    nn.init.zeros_(plain[0].weight)
    other.save_state(tmp_path / "y")
    one.load_state(tmp_path / "y")
    assert not next(iter(wrapped.state_dict().values())).any()


def test_models_whose_parts_are_called_module_keep_their_names() -> None:
    model = nn.ModuleDict({"module": nn.ModuleDict({"module": nn.Linear(1, 1)})})
    assert list(state_dict_of(model)) == list(model.state_dict())


def test_state_dicts_with_more_than_tensors(tmp_path: Path) -> None:
    class Extra(nn.Linear):
        extra: Any = "?"

        def get_extra_state(self) -> Any:
            return self.extra

        def set_extra_state(self, state: Any) -> None:
            self.extra = state

    acc, other = Accelerator(), Accelerator()
    model, again = Extra(1, 1), Extra(1, 1)
    model.extra = {"calls": 3}
    acc.prepare(model)
    acc.save_state(tmp_path / "x")
    other.prepare(again)
    other.load_state(tmp_path / "x")
    assert again.extra == {"calls": 3} and torch.equal(again.weight, model.weight)


def test_hooks(tmp_path: Path) -> None:
    job = Job()
    calls: list[Any] = []

    def saving(models: list[nn.Module], weights: list[dict[str, Any]], output_dir: str) -> None:
        calls.append(list(weights[0]))
        torch.save(weights.pop(), f"{output_dir}/mine.pt")
        assert models == [job.model] and not (tmp_path / "x").exists()

    def loading(models: list[nn.Module], input_dir: str) -> None:
        models.pop().load_state_dict(torch.load(f"{input_dir}/mine.pt", weights_only=True))

    handles = [job.acc.register_save_state_pre_hook(saving), job.acc.register_load_state_pre_hook(loading)]
    job.acc.save_state(tmp_path / "x")
    expected = job.values()
    nn.init.zeros_(job.model[0].weight)
    job.acc.load_state(tmp_path / "x")
    assert job.values() == expected and calls == [list(job.model.state_dict())]
    assert not (tmp_path / "x" / "model.safetensors").exists() and (tmp_path / "x" / "mine.pt").exists()
    for handle in handles:
        handle.remove()
    with pytest.raises(CheckpointError, match="was saved with 0 models"):
        job.acc.load_state(tmp_path / "x")
    job.acc.save_state(tmp_path / "y")
    job.acc.load_state(tmp_path / "y")
    assert len(calls) == 1


def test_evaluation_needs_the_model_only(folder: Path) -> None:
    job, acc = Job(), Accelerator()
    job.step()
    model = acc.prepare(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3)))
    acc.register_for_checkpointing(Counter())
    acc.load_state(folder)
    assert state_dict_of(model)["1.num_batches_tracked"] == 1


def test_numbering(tmp_path: Path) -> None:
    def project(**more: Any) -> ProjectConfiguration:
        return ProjectConfiguration(str(tmp_path), automatic_checkpoint_naming=True, **more)

    job = Job(project_config=project(total_limit=2))
    for number in range(4):
        job.counter.value = number
        assert job.acc.save_state("not used") == tmp_path / "checkpoints" / f"checkpoint_{number}"
    (tmp_path / "checkpoints" / "checkpoint_10").mkdir()  # not ours, or not complete
    other = Job(project_config=project(iteration=2))
    with pytest.raises(ValueError, match=r"checkpoint_2 exists already; .* ProjectConfiguration\(iteration=...\)"):
        other.acc.save_state()
    with pytest.warns(UserWarning, match=r"an older checkpoint is taken, as .*checkpoint_10 is not a complete"):
        other.acc.load_state()
    assert other.counter.value == 3 and other.acc.save_iteration == 11
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["checkpoint_10", "checkpoint_2", "checkpoint_3"]
    job.acc.load_state(tmp_path / "checkpoints" / "checkpoint_2")
    assert job.counter.value == 2 and job.acc.save_state().name == "checkpoint_11"


def test_folders_of_a_project(tmp_path: Path) -> None:
    acc = Accelerator(project_dir=tmp_path)
    assert (acc.project_dir, acc.logging_dir, acc.save_iteration) == (str(tmp_path), str(tmp_path), 0)
    acc = Accelerator(project_dir="a", project_config=ProjectConfiguration(logging_dir="b"))
    assert (acc.project_dir, acc.logging_dir) == ("a", "b")
    acc = Accelerator(project_dir="a", project_config=ProjectConfiguration("c"))
    assert (acc.project_dir, acc.logging_dir) == ("c", "c")
    assert Accelerator().project_dir is None


@pytest.mark.parametrize(
    ("part", "act"),
    [
        ("save_state needs a folder", lambda: Accelerator().save_state()),
        ("load_state needs a folder", lambda: Accelerator().load_state()),
        ("which has no state_dict()", lambda: Accelerator().register_for_checkpointing(Counter(), 3)),
        ("total_limit=0", lambda: ProjectConfiguration(total_limit=0)),
        (
            "give Accelerator a project_dir",
            lambda: Accelerator(project_config=ProjectConfiguration(automatic_checkpoint_naming=True)).save_state(),
        ),
        (
            "there is no complete checkpoint in nowhere/checkpoints",
            lambda: Accelerator(
                project_config=ProjectConfiguration("nowhere", automatic_checkpoint_naming=True)
            ).load_state(),
        ),
    ],
)
def test_refused(part: str, act: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=re.escape(part)):
        act()


def test_saving_changes_nothing(tmp_path: Path) -> None:
    results = []
    for saves in (False, True):
        job = Job(mixed_precision="fp16")
        for _ in range(4):
            job.step()
            if saves:
                job.acc.save_state(tmp_path / "x")
        results.append([job.values(), torch.rand(2).tolist(), job.acc.scaler.state_dict()])  # type: ignore[union-attr]
    assert results[0] == results[1]


def test_gradients_that_are_used_are_not_saved(tmp_path: Path) -> None:
    job = Job()
    for used in (False, True):
        job.acc.backward(job.model(torch.randn(4, 3)).square().sum())
        if used:
            job.optimizer.step()
        job.acc.save_state(tmp_path / str(used))
        assert (tmp_path / str(used) / "gradients_0.bin").exists() != used
    other = Job(1)
    other.step()
    other.acc.load_state(tmp_path / "False")
    other.acc.save_state(tmp_path / "again")
    assert (tmp_path / "again" / "gradients_0.bin").exists()
    assert other.model[0].weight.grad is not None
    other.acc.load_state(tmp_path / "True")
    assert other.model[0].weight.grad is None


def test_random_generators_that_cannot_be_restored_are_errors() -> None:
    from accelift.checkpoint import process

    states = process.generators_of(torch.device("cpu"), True)
    states["host"]["torch"] = states["host"]["torch"][:-1]
    with pytest.raises((RuntimeError, TypeError)):
        process.set_generators(states, torch.device("cpu"))


def test_nothing_is_said_where_all_is_well(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        job = Job()
        job.acc.load_state(folder)
        job.acc.save_state(folder)
