"""Saving is atomic, and otherwise what torch.save does."""

from __future__ import annotations

import io
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from accelift import Accelerator
from accelift.utils import save
from runtime_jobs import HERE, plain_environment

VALUE = {"x": torch.arange(5), "y": ["text", 1.5]}


@pytest.mark.parametrize("name", ["model.pt", "a.b.c", "no suffix"])
def test_bytes_are_those_of_torch(name: str, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    Accelerator().save(VALUE, tmp_path / "ours" / name)
    torch.save(VALUE, tmp_path / "theirs" / name)
    assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()
    assert [path.name for path in (tmp_path / "ours").iterdir()] == [name]


def test_paths_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(VALUE, "relative.pt")
    assert torch.load("relative.pt", weights_only=True)["y"] == VALUE["y"]
    file, plain = io.BytesIO(), io.BytesIO()
    save(VALUE, file)
    torch.save(VALUE, plain)
    assert file.getvalue() == plain.getvalue()


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_a_new_file(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        save(VALUE, tmp_path / "ours.pt")
        (tmp_path / "theirs").write_bytes(b"")
    finally:
        os.umask(before)
    assert (tmp_path / "ours.pt").stat().st_mode == (tmp_path / "theirs").stat().st_mode


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "target.pt", tmp_path / "link.pt"
    save(1, target)
    target.chmod(0o640)
    link.symlink_to(target)
    save(VALUE, link)
    assert link.is_symlink() and stat.S_IMODE(target.stat().st_mode) == 0o640
    assert torch.load(target, weights_only=True)["y"] == VALUE["y"]
    (tmp_path / "plain").mkdir()
    torch.save(VALUE, tmp_path / "plain" / "link.pt")
    assert target.read_bytes() == (tmp_path / "plain" / "link.pt").read_bytes()


def test_devices_are_written_to() -> None:
    save(VALUE, "/dev/null")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("missing/model.pt", "there is no folder"),
        ("folder", "it is a folder"),
        ("file.pt/model.pt", "there is no folder"),
    ],
)
def test_errors_name_the_path(name: str, part: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.pt").touch()
    with pytest.raises(OSError, match=part) as error:
        save(VALUE, tmp_path / name)
    assert f"cannot save to {tmp_path / name}" in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.pt", "folder"]


def test_full_disks_are_told() -> None:
    with pytest.raises(OSError, match="cannot save to /dev/full: writing failed; is the disk full"):
        save({"x": torch.zeros(100_000)}, "/dev/full")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_read_only_files(tmp_path: Path) -> None:
    (tmp_path / "model.pt").touch(mode=0o444)
    with pytest.raises(PermissionError, match="it is read-only"):
        save(VALUE, tmp_path / "model.pt")


def test_objects_that_cannot_be_pickled_leave_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save(VALUE, path)
    before = path.read_bytes()
    with pytest.raises(AttributeError, match=r"local object|<lambda>"):
        save([torch.zeros(10_000), lambda: 0], path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["model.pt"]


def test_killed_while_saving(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    draw = random.Random(0)
    command = [sys.executable, str(HERE / "workers" / "save_forever.py"), str(path)]
    for _ in range(4):
        process = subprocess.Popen(command, env=plain_environment(), stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        while not path.exists():
            assert process.poll() is None, "saving failed"
            time.sleep(0.01)
        time.sleep(draw.uniform(0.0, 0.6))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        found = torch.load(path, weights_only=True)
        expected = torch.full((found["count"] % 50 * 20_000,), float(found["count"]))
        assert torch.equal(found["values"], expected)
