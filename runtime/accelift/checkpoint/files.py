"""Saving so that a file is either the old one, the new one, or not there: never half written."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import IO, Any

import torch

from accelift.state import PartialState


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes], safe_serialization: bool = False) -> None:
    """``torch.save`` on the main process of the job; the other processes do nothing.

    A file is written beside its place and moved there when it is complete, so that a process that
    is killed leaves the old file.  Its bytes and permissions are those of ``torch.save(obj, f)``.

    Args:
        obj: what to save.
        f: a path, or an open binary file, which is written to directly.
        safe_serialization: must be ``False``.

    Raises:
        OSError: naming the path, if it cannot be written.
        ValueError: for ``safe_serialization=True``.
    """
    if safe_serialization:
        raise ValueError(
            "save(safe_serialization=True) is not offered: call safetensors.torch.save_file on the "
            "main process, or leave the argument out."
        )
    if not PartialState().is_main_process:
        return
    if not isinstance(f, (str, os.PathLike)):
        torch.save(obj, f)
        return
    path = Path(f)
    try:
        _save_atomically(obj, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"cannot save to {path}: {reason}") from error


def _save_atomically(obj: Any, path: Path) -> None:
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
            _write(obj, path)  # a device or a pipe must not be replaced
            return
    # In a folder of its own the file can have its final name, which torch writes into it.
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=target.parent))
    try:
        unfinished = folder / path.name
        _write(obj, unfinished)
        if mode is not None:
            unfinished.chmod(stat.S_IMODE(mode))
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())  # the move must not reach the disk before the content
        unfinished.replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(obj: Any, path: Path) -> None:
    try:
        torch.save(obj, path)
    except RuntimeError as error:
        if not any(part in str(error) for part in ("PytorchStreamWriter", "unexpected pos")):
            raise
        # What torch says of a failing disk, where it has lost the reason.
        raise OSError(errno.EIO, "writing failed; is the disk full?") from error
