"""Single files: saved so that each is either the old one or the new one, and loaded without running foreign code."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

import torch

from accelift.checkpoint import safetensors
from accelift.state import PartialState

_Writer = Callable[[Any, Path], None]


class CheckpointError(ValueError):
    """A checkpoint cannot be loaded: it is not complete, damaged, foreign, or of something else."""


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    save_on_each_node: bool = False,
    safe_serialization: bool = False,
) -> None:
    """``torch.save`` on the main process of the job; the other processes do nothing.

    A file is written beside its place and moved there when it is complete, so that a process that
    is killed leaves the old file.  Its bytes and permissions are those of ``torch.save(obj, f)``.

    Args:
        obj: what to save.
        f: a path, or an open binary file, which is written to directly.
        save_on_each_node: save on the first process of each machine.
        safe_serialization: write the safetensors layout; ``obj`` is a dict of tensors then.

    Raises:
        OSError: naming the path, if it cannot be written.
        ValueError: if ``safe_serialization=True`` and ``obj`` is something else than that.
    """
    state = PartialState()
    if not (state.is_local_main_process if save_on_each_node else state.is_main_process):
        return
    if safe_serialization and not (isinstance(obj, Mapping) and safetensors.fits(obj.values())):
        raise ValueError(
            "save(safe_serialization=True) takes a dict of dense tensors, as model.state_dict() returns; leave the "
            "argument out for anything else."
        )
    if not isinstance(f, (str, os.PathLike)):
        if safe_serialization:
            safetensors.write(obj, f)
        else:
            torch.save(obj, f)
        return
    with naming(f):
        _save_atomically(obj, Path(f), write_tensors if safe_serialization else _write)


@contextmanager
def naming(target: str | os.PathLike[str]) -> Iterator[None]:
    """A context in which errors of the file system say what could not be saved."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, f"cannot save to {os.fspath(target)}: {reason}") from None


def write_tensors(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write a file in the safetensors layout."""
    with path.open("wb") as file:
        safetensors.write(tensors, file)


def write_state(state: Any, path: Path, whose: str) -> None:
    """``torch.save``, after which it is certain that :func:`read_state` can read the file.

    Checksums, which cost more than the writing, are left to the manifest of the checkpoint.

    Raises:
        OSError: if it cannot be written.
        ValueError: naming whose state it is, if it has objects that only their own code can restore.
    """
    with _without_checksums(), _disk_errors(), path.open("wb") as file:
        torch.save(state, file)
    foreign = _foreign_globals(path)
    if foreign:
        raise ValueError(
            f"the state of {whose} holds {', '.join(foreign)}, which cannot be loaded without running foreign "
            "code; let its state_dict() return tensors, numbers, texts, and lists and dicts of these, or allow it with "
            "torch.serialization.add_safe_globals."
        )


def read_state(path: Path) -> Any:
    """What :func:`write_state` has written; its tensors are the file's pages, so they are to be copied.

    Raises:
        CheckpointError: naming the file, if it is something else.
    """
    try:
        return _load(path)
    except OSError:
        raise
    except Exception as error:  # torch raises all kinds
        reason = "it holds objects of foreign code" if isinstance(error, pickle.UnpicklingError) else "it is damaged"
        raise CheckpointError(f"{path} cannot be loaded: {reason}.") from error


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file in the safetensors layout; they are the file's pages.

    Raises:
        CheckpointError: naming the file, if it is something else.
    """
    try:
        return safetensors.read(path)
    except safetensors.NotSafetensors as error:
        raise CheckpointError(str(error)) from None


def _foreign_globals(path: Path) -> list[str]:
    """What a file names that is not loaded without further ado."""
    find = getattr(torch.serialization, "get_unsafe_globals_in_checkpoint", None)
    if find is None or not find(path):  # the former before torch 2.5
        return []
    with _numpy_allowed():
        return sorted(find(path))


def _load(path: Path) -> Any:
    def load() -> Any:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)

    try:
        return load()
    except pickle.UnpicklingError:
        with _numpy_allowed():
            return load()


def _numpy_allowed() -> AbstractContextManager[Any]:
    """A context in which arrays and numbers of numpy can be loaded: they run no code either."""
    safe_globals = getattr(torch.serialization, "safe_globals", None)
    try:
        import numpy
    except ImportError:
        return nullcontext()
    if safe_globals is None:  # before torch 2.5
        return nullcontext()
    core = getattr(numpy, "_core", None) or numpy.core
    kinds = {type(numpy.dtype(code)) for code in numpy.typecodes["AllInteger"] + numpy.typecodes["AllFloat"] + "?SU"}
    allowed: AbstractContextManager[Any] = safe_globals(
        [core.multiarray._reconstruct, core.multiarray.scalar, numpy.ndarray, numpy.dtype, *kinds]
    )
    return allowed


@contextmanager
def _without_checksums() -> Iterator[None]:
    set_option = getattr(torch.serialization, "set_crc32_options", None)
    if set_option is None:  # before torch 2.6
        yield
        return
    before = torch.serialization.get_crc32_options()
    set_option(False)
    try:
        yield
    finally:
        set_option(before)


def _save_atomically(obj: Any, path: Path, write: _Writer) -> None:
    target = path.resolve()  # a link stays one, and what it points to is replaced
    if not target.parent.is_dir():
        raise OSError(errno.ENOENT, f"there is no folder {target.parent}")
    mode = target.stat().st_mode if target.exists() else None
    if mode is not None:
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, "it is a folder")
        if not os.access(target, os.W_OK):
            raise OSError(errno.EACCES, "it is read-only")
        if not stat.S_ISREG(mode):
            write(obj, path)  # a device or a pipe must not be replaced
            return
    # In a folder of its own the file can have its final name, which torch writes into it.
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=target.parent))
    try:
        unfinished = folder / path.name
        write(obj, unfinished)
        if mode is not None:
            unfinished.chmod(stat.S_IMODE(mode))
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())  # the move must not reach the disk before the content
        unfinished.replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(obj: Any, path: Path) -> None:
    with _disk_errors():
        torch.save(obj, path)


@contextmanager
def _disk_errors() -> Iterator[None]:
    """A context in which torch's errors while it writes are what the file system said."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        if not any(part in str(error) for part in ("PytorchStreamWriter", "unexpected pos")):
            raise
        # What torch says of a failing disk, where it has lost the reason.
        raise OSError(errno.EIO, "writing failed; is the disk full?") from error
