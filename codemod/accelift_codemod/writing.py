"""Writes files: completely or not at all."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from accelift_codemod.source import BadSource, read_bytes


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
    with _uninterrupted():
        try:
            for path, data in files.items():
                target = Path(os.path.realpath(path))
                with _writing(path):
                    if target.is_file() or not target.exists():
                        staged[path] = (_stage(path, target, data), target)
            for path, (temporary, target) in staged.items():
                with _writing(path):
                    temporary.replace(target)
        finally:
            for temporary, _ in staged.values():
                temporary.unlink(missing_ok=True)
    for path, data in files.items():
        if path not in staged:  # a pipe or a device: nothing takes its place, and it may keep one waiting
            with _writing(path):
                path.write_bytes(data)


def check_unchanged(path: Path, digest: str) -> None:
    """See to it that a file is still what was read of it.

    Raises:
        BadSource: somebody has changed or removed it meanwhile.
    """
    if path.exists() and not path.is_file():  # a pipe, which is read once
        return
    if not path.exists():
        raise BadSource(str(path), 0, "has been removed since it was read", "check the path")
    import hashlib  # late: a preview writes nothing

    if hashlib.sha256(read_bytes(path)).hexdigest() != digest:
        raise BadSource(str(path), 0, "has been changed since it was read, and is not written", "run this again")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait: of several files one would be the new one already, or a temporary one be left."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
