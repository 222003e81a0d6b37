"""Writes files: completely or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from accelift_codemod.source import BadSource


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file's content, or create it: completely or not at all, with its mode kept.

    Raises:
        BadSource: the file is read-only, or its folder cannot be written.
    """
    write_together({path: data})


def write_together(files: Mapping[Path, bytes]) -> None:
    """Replace the contents of several files: all of them, or none if one cannot be written.

    Raises:
        BadSource: as in `write_atomically`.
    """
    staged: dict[Path, tuple[Path, Path]] = {}  # file -> what is written, what it takes the place of
    try:
        for path, data in files.items():
            target = Path(os.path.realpath(path))
            with _writing(path):
                if target.is_file() or not target.exists():
                    staged[path] = (_stage(path, target, data), target)
        for path, data in files.items():
            with _writing(path):
                if path in staged:
                    temporary, target = staged[path]
                    temporary.replace(target)
                else:
                    path.write_bytes(data)  # a pipe or a device: nothing takes its place
    finally:
        for temporary, _ in staged.values():
            temporary.unlink(missing_ok=True)


def _stage(path: Path, target: Path, data: bytes) -> Path:
    """Write a file's new content beside it."""
    mode = _permissions(target)
    if mode is not None and not (mode & 0o222 and os.access(target, os.W_OK)):
        raise BadSource(str(path), 0, "is read-only", "make it writable, or use --output DIR")
    import tempfile  # late: a preview writes nothing

    handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if mode is None:
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        temporary.chmod(mode)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadSource(
            str(path), 0, f"cannot be written ({error.strerror})", "check the folder's permissions and space"
        ) from None


def _permissions(path: Path) -> int | None:
    """A file's permissions; None if there is no such file."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
