"""The folder of a checkpoint: complete, or not there.

It is written under another name, with a manifest of all its files last, and is given its name when it is complete.
Where there is a folder of that name already, the new one is moved into it under a name of its own, which is the
moment from which it counts, and then its files take the places of the old ones, one by one.  Whoever comes next
finishes that if it was interrupted.  Files that are not of the checkpoint stay as they are.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from accelift.checkpoint.files import CheckpointError

MANIFEST = "accelift_checkpoint.json"
_FORMAT = 1
_UNFINISHED = ".accelift-unfinished"
_COMMITTED = ".accelift-committed"
_PROBE = 1 << 20  # bytes at either end of a file that its checksum is of


class Staging:
    """A checkpoint that is being written.

    Several processes may write into it; one of them begins and finishes it.

    Args:
        target: the folder that it is to become.
        replaces: whether there is something of that name.
    """

    def __init__(self, target: Path, replaces: bool) -> None:
        self._target = target.resolve()  # a link stays one
        self._replaces = replaces
        beside = self._target.with_name(f".{self._target.name}{_UNFINISHED}")
        self.path = self._target / _UNFINISHED if replaces else beside

    def begin(self) -> None:
        """Remove what an interrupted save has left here, and begin anew."""
        _settle(self._target)
        self.discard()
        self.path.mkdir(parents=True)

    def join(self) -> None:
        """See the folder that another process has begun, also where the file system is slow to show it."""
        self.path.mkdir(parents=True, exist_ok=True)

    def discard(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def finish(self, facts: dict[str, Any], durable: bool) -> None:
        """Write the manifest, and let it become the checkpoint.

        Args:
            facts: what the manifest tells besides the files.
            durable: wait until all of it is on the disk, so that it also survives a power failure.
        """
        files = {name: {"size": path.stat().st_size, "crc32": _checksum(path)} for name, path in _files(self.path)}
        manifest = {"format": _FORMAT, **facts, "files": files}
        (self.path / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        if durable:
            for path in [*self.path.rglob("*"), self.path]:
                _sync(path)
        if self._replaces:
            self.path.rename(self._target / _COMMITTED)
            if durable:
                _sync(self._target)
            _settle(self._target)
        else:
            self.path.rename(self._target)
        if durable:
            _sync(self._target)
            _sync(self._target.parent)


class Folder:
    """A complete checkpoint.

    Args:
        path: the folder.

    Attributes:
        path: the folder.
        facts: what the manifest tells.

    Raises:
        CheckpointError: naming the file, if it is not a complete checkpoint.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            raise CheckpointError(f"there is no checkpoint {path}.")
        _settle(path)
        self.facts = _manifest(path)
        self._files: dict[str, Any] = self.facts["files"]
        for name, entry in self._files.items():
            self._check_size(path / name, entry["size"])

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def file(self, name: str) -> Path:
        """The path of a file, which is what was written.

        Raises:
            CheckpointError: naming the file, if there is none, or it is another one.
        """
        path = self.path / name
        if name not in self._files:
            raise CheckpointError(f"{path} is not part of the checkpoint; it was saved without.")
        if _checksum(path) != self._files[name]["crc32"]:
            raise CheckpointError(f"{path} is damaged: it is not what was saved.")
        return path

    def _check_size(self, path: Path, size: int) -> None:
        try:
            found = path.stat().st_size
        except FileNotFoundError:
            raise CheckpointError(f"{path} is missing, without which the checkpoint is not complete.") from None
        if found != size:
            raise CheckpointError(f"{path} is damaged: it has {found} bytes instead of {size}.")


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{folder} is not a complete checkpoint that accelift has saved: it has no {MANIFEST}."
        ) from None
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or not _is_listing(manifest.get("files")):
        raise CheckpointError(f"{path} is damaged: it is not the manifest of a checkpoint.")
    if manifest.get("format") != _FORMAT:
        raise CheckpointError(f"{path} is of a newer accelift; load it with that.")
    return manifest


def _is_listing(files: Any) -> bool:
    """Whether it lists files that are in the folder, and nowhere else."""
    return isinstance(files, dict) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("size"), int)
        and isinstance(entry.get("crc32"), int)
        and not PurePosixPath(name).is_absolute()
        and ".." not in PurePosixPath(name).parts
        for name, entry in files.items()
    )


def _settle(folder: Path) -> None:
    """Let a committed checkpoint take the place of the old one, as far as that was not done.

    Any number of processes may do so at once.
    """
    committed = folder / _COMMITTED
    if not committed.is_dir():
        return
    with _locked(folder) as locked:
        try:
            new = _manifest(committed)["files"]
        except CheckpointError:
            if (committed / MANIFEST).exists():
                raise
            shutil.rmtree(committed, ignore_errors=True)  # its manifest was moved, which is done last
            return
        with suppress(CheckpointError):
            for name in _manifest(folder)["files"].keys() - new:
                (folder / name).unlink(missing_ok=True)
        for name in [*new, MANIFEST]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if locked and (committed / name).exists():
                # Some file systems write a file to the disk, and wait, when it takes the place of another.
                (folder / name).unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                (committed / name).replace(folder / name)
        shutil.rmtree(committed, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """A context that one process is in at a time; gives whether that can be had here."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except (ImportError, OSError):
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)  # which unlocks it


def _files(folder: Path) -> list[tuple[str, Path]]:
    """All files under a folder, by their names in it."""
    return [(path.relative_to(folder).as_posix(), path) for path in sorted(folder.rglob("*")) if path.is_file()]


def _checksum(path: Path) -> int:
    """The CRC-32 of the first and the last megabyte of a file: all of it, if it is small."""
    with path.open("rb", buffering=0) as file:
        checksum = zlib.crc32(file.read(_PROBE))
        file.seek(max(os.fstat(file.fileno()).st_size - _PROBE, file.tell()))
        return zlib.crc32(file.read(_PROBE), checksum)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
