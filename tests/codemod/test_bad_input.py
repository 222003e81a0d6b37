"""Files that cannot be processed: one clear line each, exit code 2, and the other files are converted all the same."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from accelift_codemod import checker, source
from accelift_codemod.api import convert_bytes
from accelift_codemod.cli import convert as cli_convert
from accelift_codemod.cli import scripts
from accelift_codemod.facts import Facts
from accelift_codemod.options import Options
from accelift_codemod.results import FileResult
from accelift_codemod.source import BadSource, Source, read_bytes
from accelift_codemod.writing import write_together
from cli_runs import CONVERTED, SCRIPT, accelift, convert, process, tree

CANNOT_READ = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write anything")

BAD = {
    "not_closed.py": (
        b"import torch\nx = (\n",
        ":2: does not parse ('(' was never closed); correct the syntax",
    ),
    "old_torch.py": (
        b"import torch\nx = x.cuda(async=True)\n",
        ":2: `async` is a keyword since Python 3.7; write non_blocking= for it, as torch does",
    ),
    "bad_indent.py": (
        b"import torch\nif torch:\npass\n",
        ":3: does not parse (expected an indented block after 'if' statement on line 2); correct the syntax",
    ),
    "latin1.py": (
        b"import torch\n# caf\xe9\n",
        ":2: is not UTF-8 (byte 0xe9) and declares no other encoding; "
        "save it as UTF-8, or name its encoding on the first line: # -*- coding: latin-1 -*-",
    ),
    "latin1_first_line.py": (
        b"# caf\xe9\nimport torch\n",
        ":1: is not UTF-8 (byte 0xe9) and declares no other encoding; "
        "save it as UTF-8, or name its encoding on the first line: # -*- coding: latin-1 -*-",
    ),
    "unknown_cookie.py": (
        b"#!/usr/bin/python\n# -*- coding: klingon -*-\nimport torch\n",
        ":1: declares an encoding that Python does not know (unknown encoding: klingon); correct the coding cookie",
    ),
    "wrong_cookie.py": (
        b"# -*- coding: ascii -*-\nimport torch\nname = '\xfc'\n",
        ":3: is not in its declared encoding ascii (byte 0xfc); correct the coding cookie",
    ),
    "empty.py": (b"", ": is empty; nothing to convert; check the path"),
    "blank.py": (b" \n\t\n\r\n", ": is empty; nothing to convert; check the path"),
    "nul.py": (b"import torch\n\0", ":2: contains a NUL byte; this looks like a binary file"),
    "notebook.py": (
        b'{"cells": [], "nbformat": 4}',
        ": is a notebook; give it a name that ends with .ipynb (by --stdin-filename, if it comes from stdin)",
    ),
    "hex.py": (
        b"# -*- coding: hex -*-\nimport torch\n",
        ":1: declares the encoding hex, in which its text cannot be written back as it was; save it as UTF-8",
    ),
    "escapes.py": (
        b"# -*- coding: unicode_escape -*-\nimport torch\n",
        ":1: declares the encoding unicode_escape, in which its text cannot be written back as it was; "
        "save it as UTF-8",
    ),
    "deep.ipynb": (b"[" * 100_000, ": is not a notebook (it nests too deeply); check the file"),
    "nested.ipynb": (
        b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": [["import torch"]]}]}',
        ": is not a notebook (cell 1 has no text); check the file",
    ),
    "halves.ipynb": (
        b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "name = \'\\ud800\'"}]}',
        ": has halves of characters in its code; check the file",
    ),
    "wider.py": ("import torch\n".encode("utf-32"), ": is UTF-32, which Python does not read; save it as UTF-8"),
    "wide.py": ("import torch\n".encode("utf-16"), ": is UTF-16, which Python does not read; save it as UTF-8"),
    "binary.py": (b"\x7fELF\x02\x01\0\0torch", ":1: contains a NUL byte; this looks like a binary file"),
    "deep.py": (
        b"import torch\nloss.backward()\nx = " + b"(" * 400 + b")" * 400 + b"\n",
        ":3: does not parse (too many nested parentheses); correct the syntax",
    ),
    "no_torch.py": (b"def f(:\n", ":1: does not parse (invalid syntax); correct the syntax"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("options", [(), ("--write",), ("--check",), ("--output", "out")], ids=" ".join)
def test_one_clear_line(name: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, message = BAD[name]
    (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    ran = convert(name, *options)
    assert (ran.code, ran.stdout) == (2, b"")
    assert ran.lines == [name + message, "1 not processed"]
    assert tree(tmp_path) == {name: data}


@pytest.mark.parametrize("name", BAD)
def test_the_error_survives_quiet(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, message = BAD[name]
    (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    ran = convert(name, "-q")
    assert (ran.code, ran.lines) == (2, [name + message])


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_other_files_are_converted(jobs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, (data, _) in BAD.items():
        Path(name).write_bytes(data)
    Path("a_good.py").write_text(SCRIPT)
    Path("z_good.py").write_text(SCRIPT)
    ran = convert("a_good.py", *BAD, "z_good.py", "--write", "-j", jobs)
    assert ran.code == 2
    assert ran.lines == [
        "a_good.py: converted",
        *(name + message for name, (_, message) in BAD.items()),
        "z_good.py: converted",
        f"2 converted, {len(BAD)} not processed",
    ]
    expected = {name: data for name, (data, _) in BAD.items()}
    expected |= dict.fromkeys(("a_good.py", "z_good.py"), CONVERTED.encode())
    assert tree(tmp_path) == expected


def test_every_bad_file_in_one_process_of_its_own(tmp_path: Path) -> None:
    for name, (data, _) in BAD.items():
        (tmp_path / name).write_bytes(data)
    ran = process("convert", *BAD, cwd=tmp_path)
    assert ran.code == 2
    assert ran.lines == [*(name + message for name, (_, message) in BAD.items()), f"{len(BAD)} not processed"]


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that cannot understand files which say so."""
    made = Facts.__init__

    def init(self: Facts, source: Source, *more: Any) -> None:
        if b"cannot be understood" in source.data:
            raise KeyError("x", "y")
        made(self, source, *more)

    monkeypatch.setattr(Facts, "__init__", init)


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("options", [("--write",), ("--write", "-q")])
def test_a_fault_of_the_tool_costs_one_file(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py"):
        Path(name).write_text(SCRIPT)
    Path("bad.py").write_text(f"{SCRIPT}# cannot be understood\n")
    ran = convert("a.py", "bad.py", "b.py", "-j", "1", *options)
    (told,) = [line for line in ran.lines if line.startswith("bad.py: ")]
    assert ran.code == 2 and "Traceback" not in ran.stderr
    assert told.startswith(
        "bad.py: was given up because of a fault in accelift itself (KeyError: ('x', 'y'), in conversion.py, line "
    )
    assert told.endswith("); please report it")
    assert ("2 converted, 1 not processed" in ran.lines) == ("-q" not in options)
    assert tree(tmp_path) == {
        **dict.fromkeys(("a.py", "b.py"), CONVERTED.encode()),
        "bad.py": f"{SCRIPT}# cannot be understood\n".encode(),
    }


@pytest.mark.usefixtures("faulty")
def test_a_fault_of_the_tool_is_told_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(f"{SCRIPT}# cannot be understood\n")
    ran = convert("bad.py", "--format", "json")
    (file,) = json.loads(ran.stdout)["files"]
    assert ran.code == 2 and file["outcome"] == "error" and "please report it" in file["error"]


def test_a_fault_while_a_file_is_checked_costs_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def check(source: Source, choice: object, place: object) -> FileResult:
        if "bad" in source.path:
            raise ValueError
        return FileResult(source.path)

    monkeypatch.setattr(checker, "check_source", check)
    for name in ("a.py", "bad.py"):
        Path(name).write_text(CONVERTED)
    ran = accelift("check", "a.py", "bad.py", "-j", "1")
    (told,) = [line for line in ran.lines if line.startswith("bad.py")]
    assert ran.code == 2 and "fault in accelift itself (ValueError, in checker.py, line " in told


def test_a_fault_outside_files_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def find(paths: object) -> None:
        raise RuntimeError("no way\nout")

    monkeypatch.setattr(scripts, "find", find)
    ran = convert(str(tmp_path))
    assert (ran.code, ran.stdout, len(ran.lines)) == (2, b"", 1)
    assert ran.lines[0].startswith(
        "accelift: was given up because of a fault in accelift itself (RuntimeError: no way out"
    )


def test_python_2_is_refused_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.py").write_text("import torch\nprint 'loss', loss\n")
    ran = convert("old.py", "--write")
    assert ran.code == 1
    assert ran.lines == [
        "old.py:2: refused: PYTHON2 is written in Python 2; port it first (2to3, python-modernize)",
        "1 refused",
    ]


# ---- paths


def test_paths_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.py").write_text(SCRIPT)
    Path("empty").mkdir()
    Path("data").mkdir()
    Path("data/readme.txt").write_text("torch")
    ran = convert("missing.py", "empty", "good.py", "data", "--check")
    assert (ran.code, ran.text) == (2, "good.py: would be converted\n")
    assert ran.lines == [
        "missing.py: does not exist; check the path",
        "empty: contains no Python files; check the path",
        "data: contains no Python files; check the path",
        "1 convertible, 3 not processed",
    ]


def test_a_folder_named_like_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").mkdir()
    ran = convert("train.py")
    assert (ran.code, ran.lines) == (2, ["train.py: contains no Python files; check the path", "1 not processed"])
    Path("train.py/inner.py").write_text(SCRIPT)
    assert convert("train.py", "--write").code == 0
    assert Path("train.py/inner.py").read_text() == CONVERTED


def test_a_folder_named_like_a_script_inside_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("project/train.py").mkdir(parents=True)
    Path("project/train.py/inner.py").write_text(SCRIPT)
    assert convert("project", "--check").text == "project/train.py/inner.py: would be converted\n"


def test_broken_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("project").mkdir()
    Path("project/good.py").write_text(SCRIPT)
    Path("project/link.py").symlink_to("nowhere.py")
    ran = convert("project/link.py")
    line = "project/link.py: is a broken link, to nowhere.py; correct the link"
    assert (ran.code, ran.lines) == (2, [line, "1 not processed"])
    ran = convert("project", "--write")
    assert (ran.code, ran.lines) == (0, ["project/good.py: converted"])
    assert Path("project/link.py").readlink() == Path("nowhere.py") and not Path("project/nowhere.py").exists()


def test_links_that_go_round_in_circles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("project").mkdir()
    Path("project/good.py").write_text(SCRIPT)
    Path("project/again").symlink_to(".", target_is_directory=True)
    ran = convert("project", "--check")
    assert (ran.code, ran.text) == (1, "project/good.py: would be converted\n")


def test_a_link_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("project").mkdir()
    Path("project/good.py").write_text(SCRIPT)
    Path("project/self.py").symlink_to("self.py")
    ran = convert("project", "--check")
    assert (ran.code, ran.text) == (1, "project/good.py: would be converted\n")


def test_a_link_to_itself_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("self.py").symlink_to("self.py")
    ran = convert("self.py")
    line = "self.py: cannot be read (Too many levels of symbolic links); check the path"
    assert (ran.code, ran.lines) == (2, [line, "1 not processed"])
    Path("train.py").write_text(SCRIPT)
    Path("out").mkdir()
    Path("out/train.py").symlink_to("train.py")
    ran = convert("train.py", "--output", "out")
    assert (ran.code, ran.lines[0]) == (
        2,
        "out/train.py: cannot be written (Too many levels of symbolic links); check the folder's permissions and space",
    )


def test_names_that_are_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "x" * 300 + ".py"
    ran = convert(name)
    assert (ran.code, ran.lines) == (
        2,
        [f"{name}: cannot be read (File name too long); check the path", "1 not processed"],
    )
    Path("train.py").write_text(SCRIPT)
    line = "cannot be written (File name too long); check the folder's permissions and space"
    ran = convert("-", "--stdin-filename", name, "--output", "out", stdin=SCRIPT.encode())
    assert (ran.code, ran.lines[0]) == (2, f"out/{name}: {line}")
    ran = convert("train.py", "--check", "--config-out", name)
    assert (ran.code, ran.lines) == (2, [f"accelift: {name}: {line}"])


@pytest.mark.parametrize("letter", ["x", "ß"])
def test_names_as_long_as_may_be(letter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = letter * (252 // len(letter.encode())) + ".py"
    Path(name).write_text(SCRIPT)
    assert convert(name, "--write").lines == [f"{name}: converted"]
    assert tree(tmp_path) == {name: CONVERTED.encode()}


# ---- what cannot be written


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (lambda: Path("b.py").write_text("import torch\n"), "has been changed since it was read, and is not written"),
        (lambda: Path("b.py").unlink(), "has been removed since it was read"),
        (lambda: Path("b.py").write_text(SCRIPT), ""),  # saved as it was
    ],
)
def test_files_that_change_while_others_are_converted(
    changes: Callable[[], object], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py"):
        Path(name).write_text(SCRIPT)
    converting = cli_convert.convert_files

    def meanwhile(*given: Any) -> list[FileResult]:
        results = converting(*given)
        changes()
        return results

    monkeypatch.setattr(cli_convert, "convert_files", meanwhile)
    ran = convert("a.py", "b.py", "--write")
    assert Path("a.py").read_text() == CONVERTED
    if what:
        assert ran.code == 2 and any(line.startswith(f"b.py: {what}; ") for line in ran.lines)
        assert not Path("b.py").exists() or Path("b.py").read_text() == "import torch\n"
    else:
        assert ran.code == 0 and Path("b.py").read_text() == CONVERTED


def test_read_only_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py", "c.py"):
        Path(name).write_text(SCRIPT)
    Path("b.py").chmod(0o444)
    ran = convert(".", "--write")
    assert ran.code == 2
    assert ran.lines == [
        "a.py: converted",
        "b.py: is read-only; make it writable, or use --output DIR",
        "c.py: converted",
        "2 converted, 1 not processed",
    ]
    converted = CONVERTED.encode()
    assert tree(tmp_path) == {"a.py": converted, "b.py": SCRIPT.encode(), "c.py": converted}
    assert stat.S_IMODE(Path("b.py").stat().st_mode) == 0o444
    ran = convert("b.py", "--output", "out")  # the remedy
    assert ran.code == 0 and Path("out/b.py").read_text() == CONVERTED


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        with (tmp_path / "pipe").open("wb", buffering=0) as file:
            for part in (SCRIPT[:9], SCRIPT[9:]):
                file.write(part.encode())
                time.sleep(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_bytes(tmp_path / "pipe") == SCRIPT.encode()
    writer.join()


def test_a_pipe_may_begin_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_WAIT", 0.05)
    os.mkfifo(tmp_path / "pipe")
    holds = os.open(tmp_path / "pipe", os.O_RDWR)  # what writes has opened it
    os.set_blocking(holds, False)

    def write() -> None:
        time.sleep(0.5)  # the reader is there by then: what is written into a pipe goes with its last end
        os.write(holds, SCRIPT.encode())
        os.close(holds)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_bytes(tmp_path / "pipe") == SCRIPT.encode()
    writer.join()


def test_a_pipe_that_nothing_writes_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(source, "_WAIT", 0.05)
    os.mkfifo("pipe.py")
    Path("train.py").write_text(f"import pipe\n{SCRIPT}")
    ran = convert("pipe.py", "train.py", "--write")
    assert ran.code == 2
    assert "pipe.py: is a pipe that nothing writes into; start what writes into it first" in ran.lines
    assert Path("train.py").read_text() == f"import pipe\n{CONVERTED}"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="has no such device")
def test_a_device_that_goes_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_MOST", 3 << 20)
    with pytest.raises(BadSource, match="/dev/zero: has more than 3 MB; no script has; check the path"):
        read_bytes("/dev/zero")


def test_bad_files_beside_a_script_cost_it_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, (data, _) in BAD.items():
        Path(name).write_bytes(data)
    Path("train.py").write_text(SCRIPT)
    assert convert("train.py", "--write").code == 0
    assert Path("train.py").read_text() == CONVERTED


def test_a_pipe_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True)
    try:
        assert convert("train.py", "--write", "--config-out", "pipe").code == 0
        assert stat.S_ISFIFO(Path("pipe").stat().st_mode)
        assert "num_processes: 1" in reader.communicate(timeout=60)[0]
    finally:
        reader.kill()
        reader.wait()
    assert Path("train.py").read_text() == CONVERTED


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="has signals that can wait")
@pytest.mark.parametrize("interrupted", [True, False])
def test_an_interruption_waits_until_all_files_of_a_script_are_written(
    interrupted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def replacing(self: Path, target: Path) -> Path:
        if interrupted:
            signal.raise_signal(signal.SIGINT)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replacing)
    with pytest.raises(KeyboardInterrupt) if interrupted else nullcontext():
        write_together({tmp_path / "engine.py": b"1", tmp_path / "train.py": b"2"})
    assert tree(tmp_path) == {"engine.py": b"1", "train.py": b"2"}


def test_an_interruption_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("accelift_codemod.cli.convert.convert_files", interrupted)
    Path("train.py").write_text(SCRIPT)
    ran = convert("train.py", "--write")
    assert (ran.code, ran.lines[-1]) == (130, "accelift: interrupted; no file is half written")
    assert tree(tmp_path) == {"train.py": SCRIPT.encode()}


def test_a_device_is_written_to_beside_other_files(tmp_path: Path) -> None:
    writer, terminal = os.openpty()  # a device of its own: to what else could a test write?
    try:
        name = Path(os.ttyname(terminal))
        write_together({name: b"a proof", tmp_path / "file": b"a file"})
        assert os.read(writer, 99) == b"a proof" and stat.S_ISCHR(name.stat().st_mode)
    finally:
        os.close(terminal)
        os.close(writer)
    assert tree(tmp_path) == {"file": b"a file"}


@CANNOT_READ
def test_read_only_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("locked").mkdir()
    Path("locked/train.py").write_text(SCRIPT)
    Path("locked").chmod(0o555)
    try:
        ran = convert("locked", "--write")
        assert ran.code == 2
        assert ran.lines == [
            "locked/train.py: cannot be written (Permission denied); check the folder's permissions and space",
            "1 not processed",
        ]
        assert tree(tmp_path) == {"locked/train.py": SCRIPT.encode()}
    finally:
        Path("locked").chmod(0o755)


@CANNOT_READ
def test_unreadable_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret.py").touch(mode=0o000)
    ran = convert("secret.py")
    assert (ran.code, ran.lines[0]) == (
        2,
        "secret.py: cannot be read (Permission denied); check the path and its permissions",
    )


def test_output_onto_the_scripts_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("project").mkdir()
    Path("project/train.py").write_text(SCRIPT)
    Path("same").symlink_to("project", target_is_directory=True)
    message = "project/train.py: would be overwritten by --output; choose another place"
    for paths, output in (
        (["project"], "project"),
        (["project/train.py"], "project"),
        (["project"], "project/../project"),
        (["project"], "same"),
    ):
        ran = convert(*paths, "--output", output)
        assert (ran.code, ran.lines) == (2, [message, "1 not processed"]), output
    assert tree(tmp_path / "project") == {"train.py": SCRIPT.encode()}


def test_output_below_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    Path("taken").write_text("a file")
    ran = convert("train.py", "--output", "taken/out")
    assert ran.code == 2
    assert ran.lines == [
        "taken/out/train.py: cannot be written (Not a directory); choose another folder",
        "1 not processed",
    ]
    assert tree(tmp_path) == {"taken": b"a file", "train.py": SCRIPT.encode()}


# ---- wrong usage: nothing is read, nothing is written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train.py", "--write", "--check"], "--write, --output and --check exclude each other"),
        (["train.py", "--write", "--output", "out"], "--write, --output and --check exclude each other"),
        (["train.py", "--check", "--output", "out"], "--write, --output and --check exclude each other"),
        (["train.py", "--select", "NOPE"], "--select: there is no rule NOPE; `accelift rule` lists them"),
        (["train.py", "--select", "PRINT,NOPE"], "--select: there is no rule NOPE; `accelift rule` lists them"),
        (["train.py", "--select", "note-bn"], "--select: NOTE-BN is not a rule, but a finding of the rule NOTE"),
        (["train.py", "--ignore", "nope"], "--ignore: there is no rule NOPE; `accelift rule` lists them"),
        (["train.py", "--ignore", "PREPARE"], "--ignore: PREPARE is a part of every conversion"),
        (["train.py", "--format", "xml"], "Invalid value for '--format': 'xml' is not one of 'text', 'json'."),
        (["train.py", "--num-processes", "0"], "Invalid value for '--num-processes': 0 is not in the range x>=1."),
        (["train.py", "--time-limit", "nan"], "Invalid value for '--time-limit': nan is no number of seconds."),
        (["train.py", "--time-limit", "inf"], "Invalid value for '--time-limit': inf is no number of seconds."),
        (["train.py", "-j", "-1"], "Invalid value for '-j' / '--jobs': -1 is not in the range x>=0."),
        (["train.py", "--output", "file"], "Invalid value for '--output': Directory 'file' is a file."),
        (["--write"], "Missing argument 'PATH...'."),
        (["train.py", "--stdin-filename", "a.py"], "--stdin-filename goes with -, which reads a script from stdin"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    Path("file").write_text("a file")
    ran = convert(*arguments)
    assert (ran.code, ran.stdout, ran.lines) == (2, b"", [f"accelift: {message}"])
    assert tree(tmp_path) == {"file": b"a file", "train.py": SCRIPT.encode()}


def test_wrong_usage_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    ran = process("convert", "train.py", "--write", "--check", cwd=tmp_path)
    assert ran.code == 2
    assert (ran.stdout, ran.lines) == (b"", ["accelift: --write, --output and --check exclude each other"])
    assert process("frobnicate", cwd=tmp_path).lines == ["accelift: No such command 'frobnicate'."]


def test_a_proof_that_could_not_be_written_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    ran = accelift("verify", "train.py", "--output-file", "missing/proof.json")
    assert ran.code == 2 and "there is no folder missing; make it first" in ran.stderr
    assert tree(tmp_path) == {"train.py": SCRIPT.encode()}


RUNS_ON = f"{sys.version_info.major}.{sys.version_info.minor}"
NEWER = f"does not parse with Python {RUNS_ON}, on which accelift runs; "
NEWER += "if it is written for a newer one, run accelift with that"
TRIED = "try:\n    n = 1\nexcept {}:\n    n = 2\n"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="has some of this syntax")
@pytest.mark.parametrize(
    "text",
    [
        TRIED.format("ValueError, TypeError"),
        "import socket\n" + TRIED.format("OSError, socket.timeout, KeyError"),
        "class Full(Exception):\n    pass\n" + TRIED.format("ValueError, Full"),
        "type Table[T] = dict[str, T]\n",
        "def first[T](found: list[T]) -> T:\n    return found[0]\n",
        "class Box[T]:\n    pass\n",
        "lazy import torch\n",
        "n = t'{1}'\n",
        'names = {}\nn = f"{names.get("a")}"\n',
        'names = {}\nn = f"{names["a"]}"\n',
        "names = []\nn = f\"{'\\n'.join(names)}\"\n",
    ],
)
def test_syntax_of_a_newer_python(text: str) -> None:
    result = convert_bytes(f"import torch\n{text}".encode(), "/train.py", Options())
    assert result.error.partition(": ")[2] == NEWER


@pytest.mark.parametrize(
    "text",
    [
        TRIED.format("ValueError, error"),
        TRIED.format("ValueError, error") + TRIED.format("ValueError, TypeError"),
        TRIED.format("ValueError, TypeError") + "print 'done'\n",
        "type Table = print 'x'\nprint 'y'\n",
    ],
)
def test_syntax_of_an_older_one(text: str) -> None:
    result = convert_bytes(f"import torch\n{text}".encode(), "/train.py", Options())
    assert result.plan is not None and [found.code for found in result.plan.findings] == ["PYTHON2"]


@pytest.mark.parametrize("text", ["def f(:\n", "n = (\n", "n = 'It isn\n", TRIED.format("(ValueError), error")])
def test_syntax_of_none(text: str) -> None:
    result = convert_bytes(f"import torch\n{text}".encode(), "/train.py", Options())
    assert "correct the syntax" in result.error
