"""`accelift convert`: where results go, what is said of them, and the exit codes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import CONVERTED, FIXTURES, SCRIPT, accelift, convert, process, tree

OLD, NEW = SCRIPT.encode(), CONVERTED.encode()
NOTHING = b"import torch\n\nprint(torch.__version__)\n"
DISTRIBUTED = SCRIPT.replace("import torch\n", "import torch\nimport torch.distributed as dist\n", 1)
ALREADY = DISTRIBUTED.replace("print(len(loader)", "dist.barrier(len(loader)").encode()
FULL_BATCH = FIXTURES / "untouched" / "full_batch.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- where results go


def test_a_preview_writes_nothing(folder: Path) -> None:
    Path("train.py").write_bytes(OLD)
    ran = convert("train.py")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.text.startswith("--- a/train.py\n+++ b/train.py\n@@ -1,16 +1,17 @@\n import torch\n")
    assert "-    loss.backward()\n+    accelerator.backward(loss)\n" in ran.text
    assert tree(folder) == {"train.py": OLD}


def test_write(folder: Path) -> None:
    Path("train.py").write_bytes(OLD)
    ran = convert("train.py", "--write")
    assert (ran.code, ran.stdout, ran.lines) == (0, b"", ["train.py: converted"])
    assert tree(folder) == {"train.py": NEW}


def test_check(folder: Path) -> None:
    Path("train.py").write_bytes(OLD)
    Path("other.py").write_bytes(NOTHING)
    ran = convert("train.py", "--check")
    assert (ran.code, ran.text, ran.stderr) == (1, "train.py: would be converted\n", "")
    ran = convert("other.py", "--check")
    assert (ran.code, ran.text) == (0, "")
    assert ran.lines == [
        "other.py: left alone: NO-TRAINING runs no backward pass; convert the script that trains",
        "1 with nothing to do",
    ]
    ran = convert(".", "--check", "-q")
    assert (ran.code, ran.text, ran.stderr) == (1, "", "")
    assert tree(folder) == {"other.py": NOTHING, "train.py": OLD}


def test_output_keeps_the_tree(folder: Path) -> None:
    for name in ("train.py", "a/train.py", "a/b/deep.py"):
        Path("project", name).parent.mkdir(parents=True, exist_ok=True)
        Path("project", name).write_bytes(OLD)
    Path("project/other.py").write_bytes(NOTHING)
    ran = convert("project", "--output", "out/new")
    assert ran.code == 0
    assert ran.lines == [
        "project/a/b/deep.py: converted",
        "project/a/train.py: converted",
        "project/train.py: converted",
        "3 converted, 1 with nothing to do",
    ]
    assert tree(folder / "out") == dict.fromkeys(["new/a/b/deep.py", "new/a/train.py", "new/train.py"], NEW)
    assert set(tree(folder / "project").values()) == {OLD, NOTHING}
    assert convert("project/a/train.py", "--output", "one").code == 0
    assert tree(folder / "one") == {"train.py": NEW}  # a file that is named goes directly into it


@pytest.mark.parametrize(
    ("paths", "places"),
    [
        (["a", "b"], ["a/train.py", "b/train.py"]),
        (["a/train.py", "b/train.py"], ["a/train.py", "b/train.py"]),
        (["{folder}/a/train.py", "b"], ["a/train.py", "b/train.py"]),
        (["b/train.py", "a/../b"], ["train.py"]),
        (["c", "c/deep/er"], ["deep/er/train.py", "train.py"]),
        (["c/train.py", "c/deep/er"], ["deep/er/train.py", "train.py"]),
        (["c/deep/er/train.py"], ["train.py"]),
        (["a", "missing.py"], ["a/train.py"]),
    ],
)
def test_output_keeps_places_below_what_the_paths_have_in_common(
    paths: list[str], places: list[str], folder: Path
) -> None:
    for name in ("a", "b", "c", "c/deep/er"):
        Path(name).mkdir(parents=True)
        Path(name, "train.py").write_bytes(OLD)
    ran = convert(*(path.format(folder=folder) for path in paths), "--output", "out")
    assert ran.code == (2 if "missing.py" in paths else 0)
    assert tree(folder / "out") == dict.fromkeys(places, NEW)


def test_write_keeps_permissions_and_leaves_nothing_else(folder: Path) -> None:
    for mode in (0o755, 0o640, 0o600, 0o664):
        Path("train.py").write_bytes(OLD)
        Path("train.py").chmod(mode)
        assert convert("train.py", "--write").code == 0
        assert stat.S_IMODE(Path("train.py").stat().st_mode) == mode
        assert tree(folder) == {"train.py": NEW}


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_output_files_have_the_permissions_of_new_files(umask: int, folder: Path) -> None:
    Path("train.py").write_bytes(OLD)
    before = os.umask(umask)
    try:
        assert convert("train.py", "--output", "out").code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("out/train.py").stat().st_mode) == 0o666 & ~umask


def test_lines_are_as_long_as_in_the_script_s_own_project(folder: Path) -> None:
    Path("here").mkdir()
    Path("here/pyproject.toml").write_text("[tool.black]\nline-length = 60\n")
    Path("train.py").write_bytes(OLD)
    Path("here/train.py").write_bytes(OLD)
    os.chdir("here")
    assert convert("../train.py", "train.py", "--write").code == 0
    assert Path("../train.py").read_bytes() == NEW
    assert b"Accelerator(\n" in Path("train.py").read_bytes()


def test_write_through_a_link(folder: Path) -> None:
    Path("real").mkdir()
    Path("real/train.py").write_bytes(OLD)
    Path("real/train.py").chmod(0o750)
    Path("link.py").symlink_to("real/train.py")
    assert convert("link.py", "--write").lines == ["link.py: converted"]
    assert Path("link.py").readlink() == Path("real/train.py")
    assert tree(folder) == {"link.py": NEW, "real/train.py": NEW}
    assert stat.S_IMODE(Path("real/train.py").stat().st_mode) == 0o750


def test_a_file_named_twice_is_converted_once(folder: Path) -> None:
    Path("train.py").write_bytes(OLD)
    ran = convert("train.py", "./train.py", ".", "--write")
    assert (ran.code, ran.lines) == (0, ["train.py: converted"])


def test_what_is_left_alone_is_not_written(folder: Path) -> None:
    Path("other.py").write_bytes(NOTHING)
    Path("dist.py").write_bytes(ALREADY)
    before = {name: Path(name).stat().st_mtime_ns for name in ("other.py", "dist.py")}
    assert convert(".", "--write").code == 0
    assert convert(".", "--output", "out").code == 0
    assert before == {name: Path(name).stat().st_mtime_ns for name in before}
    assert tree(folder) == {"other.py": NOTHING, "dist.py": ALREADY}


# ---- again


@pytest.mark.parametrize("script", sorted(FIXTURES.glob("converted/*.py")), ids=lambda p: p.stem)
def test_converting_a_result_again_changes_nothing(script: Path) -> None:
    ran = convert(script, "--check")
    assert (ran.code, ran.text, ran.lines[-1]) == (0, "", "1 with nothing to do")


def test_write_twice(folder: Path) -> None:
    Path("train.py").write_bytes(OLD)
    convert("train.py", "--write")
    before = Path("train.py").stat().st_mtime_ns
    ran = convert("train.py", "--write", "-v")
    assert (ran.code, ran.stdout) == (0, b"")
    assert ran.lines == [
        "train.py:3: left alone: ALREADY-ACCELERATE imports accelift already; nothing is left to convert",
        "1 with nothing to do",
    ]
    assert (Path("train.py").read_bytes(), Path("train.py").stat().st_mtime_ns) == (NEW, before)


# ---- stdin


def test_stdin(folder: Path) -> None:
    preview = convert("-", stdin=OLD)
    assert (preview.code, preview.stderr) == (0, "")
    Path("train.py").write_bytes(OLD)
    named = convert("-", "--stdin-filename", "train.py", stdin=OLD)
    assert named == convert("train.py")
    assert named.text == preview.text.replace("<stdin>", "train.py")
    ran = convert("-", "--write", stdin=OLD)
    assert (ran.code, ran.stdout, ran.lines) == (0, NEW, ["<stdin>: converted"])
    ran = convert("-", "--check", stdin=OLD)
    assert (ran.code, ran.text) == (1, "<stdin>: would be converted\n")
    assert tree(folder) == {"train.py": OLD}


@pytest.mark.parametrize("script", sorted(FIXTURES.glob("encodings/*.py")), ids=lambda p: p.stem)
def test_stdin_is_bytes(script: Path) -> None:
    ran = convert("-", "--write", stdin=script.read_bytes())
    assert ran.code < 2 and ran.stdout == (FIXTURES / "converted" / script.name).read_bytes()


@pytest.mark.parametrize(
    ("data", "code", "line"),
    [
        (NOTHING.replace(b"\n", b"\r\n"), 0, "<stdin>: left alone: NO-TRAINING runs no backward pass; "),
        (b"\xef\xbb\xbfx = 1\r\n", 0, "<stdin>: left alone: NO-TRAINING runs no backward pass; "),
        (ALREADY, 0, "<stdin>:17: left alone: ALREADY-DISTRIBUTED "),
        (b"import torch\nx = (", 2, "<stdin>:2: does not parse ('(' was never closed); correct the syntax"),
        (b"import torch # \xe9", 2, "<stdin>:1: is not UTF-8 (byte 0xe9) and declares no other encoding; "),
        (b"\x7fELF\0\0", 2, "<stdin>:1: contains a NUL byte; this looks like a binary file"),
        (b"", 2, "<stdin>: is empty; nothing to convert; check the path"),
    ],
)
def test_stdin_that_is_left_alone_is_handed_through(data: bytes, code: int, line: str) -> None:
    ran = convert("-", "--write", stdin=data)
    assert (ran.code, ran.stdout) == (code, data)
    assert ran.lines[0].startswith(line)
    assert convert("-", stdin=data).stdout == b""


def test_stdin_with_files(folder: Path) -> None:
    Path("train.py").write_bytes(OLD)
    ran = convert("-", "train.py", "--write", "--stdin-filename", "piped.py", stdin=OLD)
    assert (ran.code, ran.stdout) == (0, NEW)
    assert ran.lines == ["piped.py: converted", "train.py: converted", "2 converted"]
    assert tree(folder) == {"train.py": NEW}


def test_stdin_with_output(folder: Path) -> None:
    ran = convert("-", "--output", "out", stdin=OLD)
    line = "accelift: -: a script from stdin needs a name to be placed in a folder; give --stdin-filename NAME"
    assert (ran.code, ran.stdout, ran.lines) == (2, b"", [line])
    assert convert("-", "--check", "--config-out", "out/", stdin=OLD) == ran
    named = ("-", "--stdin-filename", "src/piped.py")
    ran = convert(*named, "--output", "out", "--config-out", "out/", stdin=OLD)
    assert (ran.code, ran.stdout, ran.lines) == (0, b"", ["src/piped.py: converted"])
    assert sorted(tree(folder)) == ["out/piped.py", "out/piped.yaml"]
    assert Path("out/piped.py").read_bytes() == NEW
    Path("src").mkdir()
    Path("src/piped.py").write_bytes(OLD)
    ran = convert(*named, "src/piped.py", "--output", "new", stdin=OLD)
    assert (ran.code, ran.lines) == (
        2,
        [
            "src/piped.py: converted",
            "src/piped.py: would overwrite new/piped.py, which was written for src/piped.py; give them different names",
            "1 converted, 1 not processed",
        ],
    )


def test_stdin_as_json_goes_nowhere_else() -> None:
    ran = convert("-", "--write", "--format", "json", stdin=OLD)
    line = "accelift: -: --write and --format json both write to stdout; leave one out, or use --output"
    assert (ran.code, ran.stdout, ran.lines) == (2, b"", [line])


def test_stdin_in_a_process_of_its_own(folder: Path) -> None:
    ran = process("convert", "-", "--write", cwd=folder, stdin=OLD.replace(b"\n", b"\r\n"))
    assert (ran.code, ran.stdout, ran.lines) == (0, NEW.replace(b"\n", b"\r\n"), ["<stdin>: converted"])


# ---- exit codes


@pytest.mark.parametrize(
    ("names", "options", "code"),
    [
        (["nothing"], (), 0),
        (["nothing"], ("--check",), 0),
        (["good"], (), 0),
        (["good"], ("--write",), 0),
        (["good"], ("--check",), 1),
        (["refused"], (), 1),
        (["refused"], ("--write",), 1),
        (["refused"], ("--check",), 1),
        (["warned"], (), 1),
        (["warned"], ("--write",), 1),
        (["warned"], ("--check",), 1),
        (["good", "refused", "nothing"], ("--write",), 1),
        (["good", "refused", "broken"], ("--write",), 2),
        (["broken"], ("--check",), 2),
    ],
)
def test_exit_codes(names: list[str], options: tuple[str, ...], code: int, folder: Path) -> None:
    warned = SCRIPT.replace('"cuda" if', '"cuda:1" if')
    texts = {"nothing": NOTHING, "good": OLD, "refused": FULL_BATCH.read_bytes(), "warned": warned.encode()}
    texts["broken"] = b"x = ("
    for name in names:
        Path(f"{name}.py").write_bytes(texts[name])
    assert convert(*(f"{name}.py" for name in names), *options).code == code


def test_findings_and_refusals_are_told_with_place_and_remedy(folder: Path) -> None:
    Path("warned.py").write_text(SCRIPT.replace('"cuda" if', '"cuda:1" if'))
    ran = convert("warned.py", FULL_BATCH, "--check")
    assert ran.lines == [
        'warned.py:6: warning: DEV-INDEX `"cuda:1"` picks a GPU by its number, which has no effect any more; '
        "choose GPUs with CUDA_VISIBLE_DEVICES, or gpu_ids in the launch config",
        f"{FULL_BATCH}:22: refused: DATA-UNSHARDED every step trains on the whole data (`net(x[mask])` computes on the "
        "same in each), and it cannot be proved that `loss` is a mean or a sum over them, as `x[mask]` cannot be "
        "followed (line 23): several processes would only repeat what one does; keep it on one process",
        "1 convertible with findings, 1 refused",
        "left to do by hand: 1 script (DATA-UNSHARDED 1), 1 finding in converted files",
    ]


TRAINER = """
from torch.optim import SGD


def train(net, x, y):
    optimizer = SGD(net.parameters(), 0.1)
    (net(x) - y).pow(2).mean().backward()
    optimizer.step()
"""


def test_training_that_no_script_runs_is_told(folder: Path) -> None:
    for name in "abcd":
        Path(f"{name}.py").write_text(TRAINER)
    Path("main.py").write_text("import importlib, sys, torch\n\nimportlib.import_module(sys.argv[1]).train()\n")
    ran = convert(".")
    assert (ran.code, ran.lines) == (
        0,
        [
            "5 with nothing to do",
            "training that no script here is known to run, left as it is: a.py:7, b.py:7, c.py:7 and 1 more",
        ],
    )
    why, summary = convert("a.py").lines
    assert why.startswith("a.py:7: left alone: NO-ENTRY nothing in this file runs train(), which trains; ")
    assert summary == "1 with nothing to do"


STEPS = """
import torch


def train(net, loader, optimizer, device):
    for x, y in loader:
        optimizer.zero_grad()
        (net(x.to(device)) - y.to(device)).pow(2).mean().backward()
        optimizer.step()
"""
MAIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from a import train

device = "cuda" if torch.cuda.is_available() else "cpu"
loader = DataLoader(TensorDataset(torch.ones(8, 4), torch.ones(8, 1)), batch_size=4)
net = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
train(net, loader, optimizer, device)
"""
EVALUATES = """
import torch
from a import train

print(torch.nn.Linear(4, 1)(torch.ones(2, 4)).sum())
"""


def test_training_that_a_converted_script_runs_is_not(folder: Path) -> None:
    Path("a.py").write_text(STEPS)
    Path("main.py").write_text(MAIN)
    assert convert(".", "--write").code == 0
    assert convert(".").lines == ["2 with nothing to do"]


def test_all_who_share_a_file_are_named(folder: Path) -> None:
    Path("a.py").write_text(STEPS)
    for name in ("main", "other", "third"):
        Path(f"{name}.py").write_text(MAIN)
    refused, summary = convert("main.py").lines
    assert "changes train in a.py, which other.py and third.py use, too" in refused
    assert summary == "1 refused"
    assert convert("main.py", "other.py", "third.py").code == 0


def test_a_script_that_only_imports_training_does_not_train(folder: Path) -> None:
    Path("a.py").write_text(TRAINER)
    Path("main.py").write_text(EVALUATES)
    why, summary = convert("main.py").lines
    assert why.startswith("main.py: left alone: NO-TRAINING runs no backward pass")
    assert summary == "1 with nothing to do"


LOADER = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from a import train

loader = DataLoader(TensorDataset(torch.ones(8, 4), torch.ones(8, 1)), batch_size=4)
net = torch.nn.Linear(4, 1)
for x, y in loader:
    train(net, x, y)
"""


@pytest.mark.parametrize(
    "script", [LOADER, LOADER.replace("loader:", "[(torch.ones(8, 4), torch.ones(8, 1))]:")], ids=["loader", "none"]
)
def test_training_that_a_script_runs_is_not(script: str, folder: Path) -> None:
    Path("a.py").write_text(TRAINER)
    Path("main.py").write_text(script)
    ran = convert(".")
    assert not any("no script here" in line for line in ran.lines), ran.lines
    assert any(line.startswith(("main.py", "a.py")) for line in ran.lines), ran.lines


# ---- several processes


@pytest.mark.parametrize("options", [("-v",), ("--format", "json"), ("--check", "-vv")], ids=" ".join)
def test_jobs_change_nothing(options: tuple[str, ...]) -> None:
    folders = (FIXTURES / "encodings", FIXTURES / "untouched")
    assert convert(*folders, *options, "-j", "2") == convert(*folders, *options, "-j", "1")


def test_jobs_write_the_same(folder: Path) -> None:
    for jobs in ("1", "2"):
        assert convert(FIXTURES / "encodings", "--output", jobs, "-j", jobs).code < 2
    assert tree(folder / "1") == tree(folder / "2") != {}
    assert convert(FIXTURES / "encodings", "--check", "-j", "0").code == 1


# ---- the command itself


def test_help_and_version(folder: Path) -> None:
    ran = process("--version", cwd=folder)
    assert (ran.code, ran.stderr) == (0, "") and ran.text.startswith("accelift 0.")
    for arguments in (["--help"], ["-h"], ["convert", "--help"], ["rule", "-h"], ["env", "--help"]):
        ran = accelift(*arguments)
        assert (ran.code, ran.stderr) == (0, "") and ran.text.startswith("Usage: accelift")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("format_", ["text", "json"])
def test_a_full_disk_behind_stdout(format_: str, folder: Path) -> None:
    Path("train.py").write_bytes(OLD)
    command = [sys.executable, "-m", "accelift_codemod", "convert", "train.py", "--format", format_]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr and b"No space left on device" in done.stderr


@pytest.mark.parametrize("options", [(), ("-j", "2"), ("--check",), ("--format", "json")], ids=" ".join)
def test_a_reader_that_has_seen_enough(options: tuple[str, ...], folder: Path) -> None:
    for i in range(3):
        Path(f"train{i}.py").write_bytes(OLD)
    command = [sys.executable, "-m", "accelift_codemod", "convert", ".", *options]
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as nobody_reads:  # noqa: PTH123
        done = subprocess.run(command, stdout=nobody_reads, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (141, b"")


def test_closed_streams(folder: Path) -> None:
    Path("train.py").write_bytes(OLD)
    command = f"{sys.executable} -m accelift_codemod convert train.py - <&- >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith(b"<stdin>: is empty")
    done = subprocess.run(["sh", "-c", f"{command} 2>&-"], timeout=60)
    assert done.returncode == 2


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text")
def test_names_that_are_no_text(folder: Path) -> None:
    name = os.fsdecode(b"tr\xe4in.py")
    Path(name).write_bytes(OLD)
    shown = name.encode("ascii", "backslashreplace").decode()
    assert convert(name).stdout.startswith(b"--- a/tr\xe4in.py\n")
    assert convert(name, "--check").text == f"{shown}: would be converted\n"
    assert convert(name, "--output", "out", "--format", "json").code == 0
    assert convert(name, "--write").lines == [f"{shown}: converted"]
    assert tree(folder) == {name: NEW, f"out/{name}": NEW}


def test_without_a_command(folder: Path) -> None:
    ran = accelift()
    assert (ran.code, ran.stdout) == (2, b"")
    assert ran.stderr == accelift("--help").text


def test_of_files_without_torch_nothing_is_asked(folder: Path) -> None:
    Path("plain.py").write_text("x = 1\n")
    code = (
        "import sys; from accelift_codemod.cli import cli\n"
        "try: cli(['convert', '.'])\n"
        "except SystemExit: pass\n"
        "print(*sorted(m for m in sys.modules if m.startswith('accelift_codemod.')), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=folder, timeout=60, text=True)
    loaded = {name.split(".")[1] for name in done.stdout.split()}
    assert "api" in loaded
    assert loaded.isdisjoint({"conversion", "facts", "plan", "planner", "project", "rewrite", "rules"})


def test_tool_does_not_load_torch(folder: Path) -> None:
    Path("train.py").write_bytes(OLD)
    code = (
        "import sys; from accelift_codemod.cli import cli\n"
        "try: cli(['convert', 'train.py', '--write', '--config-out', 'train.yaml'])\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=folder, timeout=60)
    assert done.stdout == b"False\n"
    assert sorted(tree(folder)) == ["train.py", "train.yaml"]
