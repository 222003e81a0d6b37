"""Which project files have to lie beside a script, and how Python finds them."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelift_codemod.project.beside import Beside, Started

FILES = ("src/__init__.py", "src/train.py", "src/nets/__init__.py", "src/nets/small.py", "src/data.py", "lib/more.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("imports", "files", "folders"),
    [
        ("import torch, os", [], []),
        ("import data", ["src/data.py"], ["src"]),
        ("from src.nets import small", ["src/nets/__init__.py", "src/nets/small.py"], ["."]),
        ("from src.nets.small import Net", ["src/nets/__init__.py", "src/nets/small.py"], ["."]),
        ("from .nets.small import Net", ["src/nets/__init__.py", "src/nets/small.py"], ["src"]),
        ("import sys\nsys.path.append('../lib')\nimport more", ["lib/more.py"], ["lib"]),
        ("import missing\nfrom src import nothing", [], ["."]),
        ("def f():\n    import data", ["src/data.py"], ["src"]),
    ],
)
def test_what_a_script_imports(imports: str, files: list[str], folders: list[str], project: Path) -> None:
    script = project / "src" / "train.py"
    script.write_text(imports)
    found = Beside.of([str(script)])
    always = ["src/__init__.py", "src/train.py"]
    assert sorted(found.files) == sorted(str(project / name) for name in (*always, *files))
    assert sorted(found.folders) == [str((project / name).resolve()) for name in folders]


@pytest.mark.parametrize(
    ("marks", "found"),
    [
        (["README.md"], True),
        (["requirements.txt", "src/README.md"], True),
        (["LICENSE"], True),
        (["README.md", "src/setup.py"], False),
        (["src/requirements.txt", "README.md"], False),
        ([], False),
    ],
)
def test_where_a_project_begins_that_is_no_repository(marks: list[str], found: bool, project: Path) -> None:
    """An archive of a repository has no `.git`."""
    (project / ".git").rmdir()
    for mark in marks:
        (project / mark).write_text("")
    (project / "src/train.py").write_text("from src.nets import small")
    files = Beside.of([str(project / "src/train.py")]).files
    assert (str(project / "src/nets/small.py") in files) is found


@pytest.mark.parametrize("mark", ["README.md", "requirements.txt"])
def test_no_project_begins_at_home(mark: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".git").rmdir()
    (project / mark).write_text("")
    monkeypatch.setenv("HOME", str(project))
    (project / "src/train.py").write_text("from src.nets import small")
    assert str(project / "src/nets/small.py") not in Beside.of([str(project / "src/train.py")]).files


def test_what_is_imported_imports_too(project: Path) -> None:
    (project / "src/train.py").write_text("import data")
    (project / "src/data.py").write_text("from src.nets.small import Net")
    (project / "src/nets/small.py").write_text("import broken.\n")  # nor will it run
    assert str(project / "src/nets/small.py") in Beside.of([str(project / "src/train.py")]).files


def test_what_lies_outside_of_the_project_is_somebody_else_s(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "theirs.py").write_text("")
    (project / "src/train.py").write_text(f"import sys\nsys.path.append({str(other)!r})\nimport theirs")
    assert Beside.of([str(project / "src/train.py")]).folders == {}


@pytest.mark.parametrize(
    ("imports", "paths", "module"),
    [
        ("import torch", [], ""),
        ("import data", [], ""),
        ("import src.data", ["."], ""),
        ("from .data import x", ["."], "src.train"),
        ("from src.nets import small\nfrom . import data", ["."], "src.train"),
        ("import sys\nsys.path.append('../lib')\nimport more", [], ""),  # it sees to that itself
        ("try:\n    from .data import x\nexcept ImportError:\n    from data import x", [], ""),  # works either way
    ],
)
def test_how_a_script_is_started(imports: str, paths: list[str], module: str, project: Path) -> None:
    script = project / "src" / "train.py"
    script.write_text(imports)
    assert Started.of(script) == Started(tuple((project / path).resolve() for path in paths), module)


def test_a_package_that_is_the_whole_project(tmp_path: Path) -> None:
    """What lies above it is not known to belong to it."""
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "train.py").write_text("from . import data")
    (tmp_path / "data.py").write_text("")
    assert Started.of(tmp_path / "train.py") == Started()
