"""The diff that is shown, put into `git apply` and `patch -p1`, makes exactly the bytes that --write writes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from accelift_codemod.diff import apply, unified
from accelift_codemod.rewrite import Change
from cli_runs import CONVERTED, FIXTURES, SCRIPT, convert, tree

SCRIPTS = sorted([*FIXTURES.glob("legacy/*.py"), *FIXTURES.glob("encodings/*.py")])
APPLIERS = [
    pytest.param(
        applier,
        marks=pytest.mark.skipif(shutil.which(applier[0]) is None, reason=f"{applier[0]} is not installed"),
        id=applier[0],
    )
    for applier in (["git", "apply", "-"], ["patch", "-p1", "--silent", "--fuzz=0"])
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """An empty folder to be in; for `git apply` a repository, which leaves line ends alone."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    monkeypatch.chdir(tmp_path)
    if request.node.callspec.params.get("applier", [""])[0] == "git":
        subprocess.run(["git", "init", "--quiet", "."], check=True)
    return tmp_path


def applied(applier: list[str], folder: Path, *paths: str) -> None:
    """Convert paths of the folder by the diff and by --output, which must make the same of them."""
    preview = convert(*paths)
    assert preview.code in (0, 1)
    done = subprocess.run(applier, input=preview.stdout, capture_output=True, cwd=folder)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    found = without_git(folder)
    subprocess.run([*applier, "-R"], input=preview.stdout, check=True, capture_output=True, cwd=folder)
    assert convert(*paths, "--write").code == preview.code
    assert found == without_git(folder)


def without_git(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(folder).items() if not name.startswith(".git/")}


@pytest.mark.parametrize("applier", APPLIERS)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_fixtures(script: Path, applier: list[str], folder: Path) -> None:
    shutil.copy(script, folder)
    applied(applier, folder, script.name)
    assert b"accelerator.prepare(" in (folder / script.name).read_bytes()


@pytest.mark.parametrize("applier", APPLIERS)
def test_several_files_in_folders(applier: list[str], folder: Path) -> None:
    places = []
    for i, script in enumerate(SCRIPTS[::2]):
        place = Path(("", "train", "train/deep/er")[i % 3], script.name)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(script, place)
        places.append(place)
    untouched = {f"train/{script.name}": script.read_bytes() for script in FIXTURES.glob("untouched/*.py")}
    for name, data in untouched.items():
        Path(name).write_bytes(data)
    applied(applier, folder, ".")
    assert len(places) > 8 and all(b"accelerator.prepare(" in place.read_bytes() for place in places)
    assert {name: Path(name).read_bytes() for name in untouched} == untouched


@pytest.mark.parametrize("applier", APPLIERS)
@pytest.mark.parametrize(
    "text",
    [
        SCRIPT.replace("\n", "\r\n"),
        SCRIPT.removesuffix("\n"),
        SCRIPT.replace("\n", "\r\n").removesuffix("\r\n"),
        SCRIPT + "# the end, without an edit and without a newline",
        SCRIPT + "\n" * 8 + "# far away",
        SCRIPT.replace("import torch\n", "import torch\n\n\n\n\n\n\n\n\n\n", 1),
        SCRIPT.replace("print(loss.item())\n", "print(loss.item())\n\n\n\n\n\n\n\n\n\ntorch.save(model, 'x')"),
        SCRIPT.replace("torch.manual_seed(0)", "größe = 'ä\N{SNOWMAN}'"),
        SCRIPT.replace("torch.manual_seed(0)", "'''\n--- a\n+++ b\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n'''"),
        SCRIPT.replace("torch.manual_seed(0)", "'a\x0bb\x0cc\x1cd\x85e\u2028f'"),
        SCRIPT.replace("torch.manual_seed(0)", "'a\\\n  \t\\\n b'   "),
        "\n" * 10 + SCRIPT,
    ],
    ids=range(12),
)
def test_layouts(text: str, applier: list[str], folder: Path) -> None:
    Path("train.py").write_bytes(text.encode())
    applied(applier, folder, "train.py")
    assert b"accelerator.prepare(" in Path("train.py").read_bytes()


@pytest.mark.parametrize("applier", APPLIERS)
@pytest.mark.parametrize("first", ["", "'''A docstring.'''\n", "import os\nos.getcwd()\n", "from torch import nn\n"])
def test_byte_order_marks(first: str, applier: list[str], folder: Path) -> None:
    Path("train.py").write_text(first + SCRIPT, encoding="utf-8-sig")
    applied(applier, folder, "train.py")
    assert Path("train.py").read_bytes().startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize(
    "change",
    [
        Change(0, 0, ("new\n",)),
        Change(0, 1, ("new\n", "newer\n")),
        Change(0, 1, ()),
        Change(0, 2, ()),
        Change(1, 2, ("new\n",)),
        Change(2, 3, ("new",)),
    ],
)
def test_a_byte_order_mark_stays_on_the_first_line(change: Change) -> None:
    lines = ["a\n", "b\n", "c\n"]
    changed = [*lines[: change.start], *change.lines, *lines[change.end :]]
    with_bom = [["\ufeff" + found[0], *found[1:]] for found in (lines, changed)]
    assert apply(unified("train.py", lines, [change], "\ufeff"), with_bom[0]) == with_bom[1]


@pytest.mark.parametrize("applier", APPLIERS)
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "shift_jis", "iso2022_jp", "koi8-r"])
def test_encodings(encoding: str, applier: list[str], folder: Path) -> None:
    word = {"koi8-r": "привет", "shift_jis": "日本語ソ", "iso2022_jp": "日本語"}.get(encoding, "größe")
    text = f"# vim: set fileencoding={encoding} :\n" + SCRIPT.replace("print(", f"print('{word}', ")
    Path("größe.py").write_bytes(text.encode(encoding))
    applied(applier, folder, "größe.py")
    assert f"accelerator.print('{word}'".encode(encoding) in Path("größe.py").read_bytes()


@pytest.mark.parametrize("applier", APPLIERS)
@pytest.mark.parametrize("name", ["a b.py", "größe.py", "-.py", "a'b$.py", "src/my train/a b.py"])
def test_names(name: str, applier: list[str], folder: Path) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(SCRIPT)
    applied(applier, folder, f"./{name}")
    assert b"accelerator.prepare(" in Path(name).read_bytes()


@pytest.mark.parametrize("applier", APPLIERS)
@pytest.mark.parametrize(
    "name", ["sub/../train.py", "../{here}/train.py", "{folder}/train.py", "link.py", "elsewhere/train.py"]
)
def test_ways_to_a_file_below_the_current_folder(name: str, applier: list[str], folder: Path) -> None:
    for made in ("sub", "real"):
        Path(made).mkdir()
    Path("train.py").write_text(SCRIPT)
    Path("real/train.py").write_text(SCRIPT)
    Path("link.py").symlink_to("real/train.py")
    Path("elsewhere").symlink_to("real", target_is_directory=True)
    applied(applier, folder, name.format(here=folder.name, folder=folder))


@pytest.mark.parametrize("applier", APPLIERS)
@pytest.mark.parametrize("absolute", [False, True])
def test_files_outside_the_current_folder(absolute: bool, applier: list[str], folder: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    Path("sub").mkdir()
    os.chdir("sub")
    preview = convert(folder / "train.py" if absolute else "../train.py")
    name = (folder / "train.py").as_posix().lstrip("/")
    assert preview.text.startswith(f"--- a/{name}\n+++ b/{name}\n")
    subprocess.run(applier, input=preview.stdout, check=True, cwd="/")
    assert (folder / "train.py").read_text() == CONVERTED


@pytest.mark.parametrize("applier", APPLIERS)
def test_stdin(applier: list[str], folder: Path) -> None:
    Path("src").mkdir()
    Path("src/train.py").write_text(SCRIPT)
    preview = convert("-", "--stdin-filename", "src/train.py", stdin=SCRIPT.encode())
    subprocess.run(applier, input=preview.stdout, check=True, cwd=folder)
    assert Path("src/train.py").read_bytes() == convert("-", "--write", stdin=SCRIPT.encode()).stdout


@pytest.mark.parametrize("name", ["inference_only", "full_batch", "averages_itself", "sklearn_only"])
def test_nothing_to_apply(name: str) -> None:
    assert convert(FIXTURES / "untouched" / f"{name}.py").stdout == b""
