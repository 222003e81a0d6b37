"""The scratch copies in which `accelift verify` runs scripts."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelift_codemod.verify import scratch


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)")
    return folder


def fill(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"{number}.png").touch()


def test_other_copies_are_not_copied(project: Path) -> None:
    """A script may lie in the folder for temporary files, where the scratch folders are."""
    inside = project / f"{scratch.PREFIX}xyz"
    scratch.copy_project(project, inside / "original")
    scratch.copy_project(project, inside / "converted")
    assert [path.name for path in (inside / "converted").rglob("*")] == ["train.py"]


def test_folders_of_data_are_linked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_MANY", 5)
    fill(project / "images" / "cats", 3)
    fill(project / "images" / "dogs", 3)
    fill(project / "package" / "icons", 3)
    (project / "package" / "code.py").touch()
    scratch.copy_project(project, project.parent / "copy")
    copy = project.parent / "copy"
    assert (copy / "images").is_symlink() and len(list((copy / "images" / "dogs").iterdir())) == 3
    assert not (copy / "package").is_symlink() and not (copy / "package" / "icons").is_symlink()


def test_what_is_no_project_is_not_copied(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_TOO_MANY", 5)
    fill(project / "downloads", 6)
    with pytest.raises(OSError, match=r"more than 5 files to copy, 6 of them in .*/project/downloads; put data into"):
        scratch.copy_project(project, project.parent / "copy")
