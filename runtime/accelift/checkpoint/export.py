"""Models as folders of files that other programs read, too."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from accelift.checkpoint import safetensors
from accelift.checkpoint.files import CheckpointError, naming, write_state, write_tensors
from accelift.checkpoint.weights import NAME, SAFE_NAME, Loading, read_weights, state_dict_of

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?B)\s*", re.IGNORECASE)
_SHARD = re.compile(r"(model|pytorch_model)-\d{5}-of-\d{5}\.(safetensors|bin)")
_INDEX = ".index.json"


def save_model(
    model: nn.Module, save_directory: str | os.PathLike[str], max_shard_size: int | str, safe_serialization: bool
) -> None:
    """Write the weights of a model into a folder, in as many files as it takes.

    A file is complete when it gets its name.  Where there are several, their index comes last.

    Raises:
        OSError: naming the folder, if it cannot be written.
        ValueError: if the model is not loaded, its state dict does not fit the layout, or for another size.
    """
    state = state_dict_of(model)
    if any(isinstance(value, Tensor) and value.is_meta for value in state.values()):
        raise ValueError("save_model cannot save a model on the meta device; load its weights first.")
    if safe_serialization and not safetensors.fits(state.values()):
        raise ValueError(
            f"save_model cannot save {type(model).__name__} as safetensors: its state dict does not only have dense "
            "tensors; use safe_serialization=False."
        )
    name = SAFE_NAME if safe_serialization else NAME
    shards = _shards(state, _bytes(max_shard_size), name)
    folder = Path(save_directory)
    with naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / ".accelift-unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            unfinished.mkdir()
            for file, shard in shards.items():
                if safe_serialization:
                    write_tensors(shard, unfinished / file)
                else:
                    write_state(shard, unfinished / file, "the model")
            _put_in_place(unfinished, shards, folder, name)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _put_in_place(unfinished: Path, shards: Mapping[str, Mapping[str, Any]], folder: Path, name: str) -> None:
    index = folder / f"{name}{_INDEX}"
    index.unlink(missing_ok=True)  # which tells of the old files
    for file in shards:
        (unfinished / file).replace(folder / file)
    for path in folder.iterdir():
        stale = _SHARD.fullmatch(path.name) and path.suffix == Path(name).suffix
        if (stale or path.name == name) and path.name not in shards:
            path.unlink()
    if len(shards) == 1:
        return
    distinct = {file: safetensors.distinct(shard)[0] for file, shard in shards.items()}
    total = sum(_size(tensor) for kept in distinct.values() for tensor in kept.values())
    listed = distinct if name == SAFE_NAME else shards
    listing = {key: file for file, shard in listed.items() for key in shard}
    new = unfinished / index.name
    new.write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": listing}, indent=2, sort_keys=True) + "\n",
        encoding="utf-8",
    )
    new.replace(index)


def _shards(state: Mapping[str, Any], limit: int, name: str) -> dict[str, dict[str, Any]]:
    """The parts of a state dict, by the names of their files: filled in turn, a larger tensor alone in its own.

    All names of a tensor come into one file.
    """
    tensors = {key: value for key, value in state.items() if isinstance(value, Tensor)}
    _, aliases = safetensors.distinct(tensors)
    shards: list[dict[str, Any]] = [{}]
    room = limit
    places: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        if key in aliases:
            places[aliases[key]][key] = value
            continue
        size = _size(value)
        if size > room and shards[-1]:
            shards.append({})
            room = limit
        places[key] = shards[-1]
        shards[-1][key] = value
        room -= size
    stem, suffix = Path(name).stem, Path(name).suffix
    if len(shards) == 1:
        return {name: shards[0]}
    return {f"{stem}-{number:05d}-of-{len(shards):05d}{suffix}": shard for number, shard in enumerate(shards, 1)}


def _size(value: Any) -> int:
    return value.numel() * value.element_size() if isinstance(value, Tensor) else 0


def _bytes(size: int | str) -> int:
    if isinstance(size, str):
        found = _SIZE.fullmatch(size)
        if found is None:
            raise ValueError(f"max_shard_size={size!r} is not a size; give a number of bytes, or a text like '5GB'.")
        size = int(float(found[1]) * _UNITS[found[2].upper()])
    return size


def load_checkpoint_in_model(
    model: nn.Module, checkpoint: str | os.PathLike[str], strict: bool = False, **not_offered: Any
) -> None:
    """Load what :meth:`Accelerator.save_model` has written, or a checkpoint of the Hub in that layout.

    Args:
        model: the model, prepared or not.
        checkpoint: the folder, or one file of weights, or the index of several.
        strict: whether all names must be the same.
        not_offered: must be left out.

    Raises:
        CheckpointError: naming the file, if it is damaged or of another model.
        ValueError: for arguments about devices and types, which stay those of the model.
    """
    unknown = [name for name, value in not_offered.items() if value]
    if unknown:
        raise ValueError(
            f"load_checkpoint_in_model({unknown[0]}=...) is not offered: weights are loaded into the model as it is."
        )
    path = _found(Path(checkpoint))
    files = [path]
    if path.name.endswith(_INDEX):
        try:
            listed = json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()
            files = [path.with_name(Path(name).name) for name in dict.fromkeys(listed)]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CheckpointError(f"{path} is damaged: it is not the index of a model's files.") from None
    weights: dict[str, Any] = {}
    for file in files:
        if not file.is_file():
            raise CheckpointError(f"{file} is missing, without which the model is not complete.")
        weights.update(read_weights(file))
    Loading(model, weights, path, strict=strict)()


def _found(path: Path) -> Path:
    if not path.is_dir():
        if path.is_file():
            return path
        raise CheckpointError(f"there is no {path} to load a model from.")
    for name in (SAFE_NAME, f"{SAFE_NAME}{_INDEX}", NAME, f"{NAME}{_INDEX}"):
        if (path / name).is_file():
            return path / name
    raise CheckpointError(f"{path} has no weights of a model: neither {SAFE_NAME} nor {NAME}, nor an index of them.")
