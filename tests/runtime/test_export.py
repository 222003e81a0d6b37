"""Models are written in the layout that other programs read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from accelift import Accelerator, load_checkpoint_in_model
from accelift.checkpoint import CheckpointError
from torch import nn


class Model(nn.Module):
    """Four layers of 400 bytes each, the last of which shares its weight with the first."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(10, 10, bias=False) for _ in range(4))
        self.layers[3].weight = self.layers[0].weight


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize(("size", "files"), [("10GB", 1), (1200, 1), (900, 2), ("0.4KB", 3), ("1KB", 2), (100, 3)])
def test_models_come_back(size: int | str, files: int, safe: bool, tmp_path: Path) -> None:
    model, other = Model(), Model()
    Accelerator().save_model(model, tmp_path / "a" / "b", size, safe_serialization=safe)
    found = [path for path in (tmp_path / "a" / "b").iterdir() if path.suffix != ".json"]
    assert len(found) == files
    load_checkpoint_in_model(other, tmp_path / "a" / "b", strict=True)
    assert same(model, other) and other.layers[3].weight is other.layers[0].weight


@pytest.mark.parametrize("size", [900, 400, 100, "10GB"])
def test_files_are_those_of_the_hub(size: int | str, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    package = pytest.importorskip("safetensors.torch")
    model = Model()
    Accelerator().save_model(model, tmp_path, size)
    distinct = {f"layers.{index}.weight": model.layers[index].weight for index in range(3)}
    split = hub.split_torch_state_dict_into_shards(
        distinct, filename_pattern="model{suffix}.safetensors", max_shard_size=size
    )
    assert {path.name for path in tmp_path.glob("*.safetensors")} == set(split.filename_to_tensors)
    for name, keys in split.filename_to_tensors.items():
        assert set(package.load_file(tmp_path / name)) == set(keys)
    index = tmp_path / "model.safetensors.index.json"
    assert index.exists() == split.is_sharded
    if split.is_sharded:
        assert json.loads(index.read_text()) == {"metadata": split.metadata, "weight_map": split.tensor_to_filename}


def test_the_peer_reads_it(tmp_path: Path) -> None:
    peer = pytest.importorskip("accelerate")
    model, other = Model(), Model()
    Accelerator().save_model(model, tmp_path, 900)
    peer.load_checkpoint_in_model(other, tmp_path)
    assert same(model, other)


def test_old_files_go_and_others_stay(tmp_path: Path) -> None:
    acc, model = Accelerator(), Model()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model-card.safetensors").touch()
    for size in (100, "1GB", 900):
        acc.save_model(model, tmp_path, size)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "model-card.safetensors",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    }


def test_prepared_models_have_the_names_of_the_author(tmp_path: Path) -> None:
    acc, other = Accelerator(mixed_precision="bf16"), Model()
    model = acc.prepare(torch.compile(Model(), backend="eager"))
    acc.save_model(model, tmp_path)
    load_checkpoint_in_model(other, tmp_path / "model.safetensors", strict=True)
    assert torch.equal(other.layers[1].weight, model.layers[1].weight)


class Extra(nn.Linear):
    """Has more than tensors in its state dict."""

    def get_extra_state(self) -> Any:
        return {"calls": 3}

    def set_extra_state(self, state: Any) -> None:
        assert state == {"calls": 3}


def test_more_than_tensors(tmp_path: Path) -> None:
    model, other = Extra(1, 1), Extra(1, 1)
    with pytest.raises(ValueError, match=r"cannot save Extra as safetensors.*safe_serialization=False"):
        Accelerator().save_model(model, tmp_path)
    Accelerator().save_model(model, tmp_path, safe_serialization=False)
    load_checkpoint_in_model(other, tmp_path, strict=True)
    assert torch.equal(model.weight, other.weight)


@pytest.mark.parametrize(
    ("part", "act"),
    [
        ("save_model takes a Module", lambda folder: Accelerator().save_model(3, folder)),
        ("on the meta device", lambda folder: Accelerator().save_model(nn.Linear(1, 1, device="meta"), folder)),
        ("max_shard_size='much'", lambda folder: Accelerator().save_model(nn.Linear(1, 1), folder, "much")),
        ("cannot save to", lambda folder: Accelerator().save_model(nn.Linear(1, 1), folder / "file" / "x")),
        ("has no weights of a model", lambda folder: load_checkpoint_in_model(nn.Linear(1, 1), folder)),
        ("there is no", lambda folder: load_checkpoint_in_model(nn.Linear(1, 1), folder / "nowhere")),
        ("device_map=...) is not", lambda folder: load_checkpoint_in_model(nn.Linear(1, 1), folder, device_map="x")),
        ("is not a safetensors file", lambda folder: _load(folder, "model.safetensors", "x")),
        ("is not the index", lambda folder: _load(folder, "model.safetensors.index.json", "[]")),
        ("x is missing", lambda folder: _load(folder, "model.safetensors.index.json", '{"weight_map": {"a": "../x"}}')),
        ("is damaged", lambda folder: _load(folder, "pytorch_model.bin", "x")),
    ],
)
def test_refused(part: str, act: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises((ValueError, TypeError, OSError), match=re.escape(part)) as error:
        act(tmp_path)
    assert str(error.value).count("\n") == 0


def _load(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    load_checkpoint_in_model(nn.Linear(1, 1), folder)


def test_other_models_are_refused(tmp_path: Path) -> None:
    Accelerator().save_model(nn.Linear(2, 2), tmp_path)
    with pytest.raises(CheckpointError, match=r"weight is \(2, 2\) there and \(3, 2\) here"):
        load_checkpoint_in_model(nn.Linear(2, 3), tmp_path)


def test_a_failure_leaves_the_old_model(tmp_path: Path) -> None:
    acc, model = Accelerator(), Model()
    acc.save_model(model, tmp_path, 400)
    broken = Extra(1, 1)
    broken.get_extra_state = lambda: {"path": Path("x")}  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="foreign code"):
        acc.save_model(broken, tmp_path, safe_serialization=False)
    other = Model()
    load_checkpoint_in_model(other, tmp_path, strict=True)
    assert same(model, other) and len(list(tmp_path.iterdir())) == 4
