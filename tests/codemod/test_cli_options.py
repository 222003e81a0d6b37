"""`accelift convert`: formats, verbosity, chosen rules, launch configs, and which files of a folder are looked at."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from accelift.config import LaunchConfig
from cli_runs import CONVERTED, FIXTURES, SCRIPT, convert, tree

UNTOUCHED = FIXTURES / "untouched"
EPOCHS = SCRIPT.replace("for x, y", "total = 0.0\nfor x, y").replace("print(len(loader))", "total += loss.item()")
EPOCHS += "print(total)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- JSON


def document(*arguments: str | Path, stdin: bytes = b"") -> dict[str, Any]:
    """The JSON document of a run that says nothing else."""
    ran = convert(*arguments, "--format", "json", stdin=stdin)
    assert ran.stderr == "" and ran.text.endswith("}\n")
    found: dict[str, Any] = json.loads(ran.text)
    assert found["exit_code"] == ran.code
    return found


def test_json_of_a_conversion() -> None:
    found = document("-", "--stdin-filename", "train.py", stdin=SCRIPT.encode())
    assert list(found) == ["version", "files", "summary", "exit_code"]
    assert found["version"] == 1
    assert found["summary"] == {
        "converted": 1,
        "converted with findings": 0,
        "refused": 0,
        "nothing to do": 0,
        "without torch": 0,
        "not processed": 0,
        "left to do by hand": {
            "reasons": {},
            "findings": 0,
            "edits": {"review": 0, "unsafe": 0},
            "training not reached": [],
        },
    }
    (file,) = found["files"]
    assert list(file) == [
        "path",
        "digest",
        "outcome",
        "reason",
        "edits",
        "findings",
        "error",
        "diff",
        "launch_config",
    ]
    assert (file["path"], file["outcome"], file["reason"], file["findings"]) == ("train.py", "converted", "", [])
    assert len(file["digest"]) == 64
    assert file["launch_config"].startswith("compute_environment: LOCAL_MACHINE\n")
    backward = next(e for e in file["edits"] if e["rule"] == "BACKWARD")
    assert {key: value for key, value in backward.items() if key != "evidence"} == {
        "rule": "BACKWARD",
        "span": [14, 4, 14, 19],
        "operation": "call-on",
        "code": "accelerator.backward",
        "place": None,
        "safety": "safe",
        "reason": "gradients are scaled and averaged by the accelerator",
        "assumes": "",
    }
    for edit in file["edits"]:
        first, column, last, end = edit["span"]
        assert 1 <= first <= last <= 17 and min(column, end) >= 0
        assert edit["safety"] == "safe" and edit["reason"] and isinstance(edit["evidence"], list)
        assert all(set(step) == {"line", "text", "path"} and not step["path"] for step in edit["evidence"])


def test_json_of_findings_refusals_and_errors(folder: Path) -> None:
    Path("broken.py").write_text("x = (\n")
    found = document("broken.py", "missing.py", UNTOUCHED / "full_batch.py", UNTOUCHED / "sklearn_only.py")
    assert found["exit_code"] == 2
    files = {Path(f["path"]).stem: f for f in found["files"]}
    assert files["broken"]["outcome"] == files["missing"]["outcome"] == "error"
    assert files["broken"]["error"] == "broken.py:1: does not parse ('(' was never closed); correct the syntax"
    assert files["missing"]["error"] == "missing.py: does not exist; check the path"
    refused = files["full_batch"]
    assert (refused["outcome"], refused["edits"], refused["diff"], refused["launch_config"]) == ("refused", [], "", "")
    assert refused["findings"] == [
        {
            "code": "DATA-UNSHARDED",
            "severity": "error",
            "line": 22,
            "message": "every step trains on the whole data (`net(x[mask])` computes on the same in each), and it "
            "cannot be proved that `loss` is a mean or a sum over them, as `x[mask]` cannot be followed (line 23): "
            "several processes would only repeat what one does",
            "remedy": "keep it on one process",
            "evidence": [],
        }
    ]
    assert refused["reason"] == refused["findings"][0]["message"]
    assert all(list(file) == list(refused) for file in files.values())
    assert files["broken"]["edits"] == files["missing"]["findings"] == []
    other = files["sklearn_only"]
    assert (other["outcome"], other["reason"]) == ("nothing to do", "does not mention torch")
    assert found["summary"] == {
        "converted": 0,
        "converted with findings": 0,
        "refused": 1,
        "nothing to do": 0,
        "without torch": 1,
        "not processed": 2,
        "left to do by hand": {
            "reasons": {"DATA-UNSHARDED": 1},
            "findings": 0,
            "edits": {"review": 0, "unsafe": 0},
            "training not reached": [],
        },
    }


def test_json_and_text_say_the_same() -> None:
    folders = (FIXTURES / "encodings", UNTOUCHED, FIXTURES / "legacy" / "digits_dataparallel.py")
    text = convert(*folders, "-v")
    found = document(*folders)
    assert found["exit_code"] == text.code
    assert b"".join(_patch(f) for f in found["files"]) == text.stdout
    expected = []
    for file in found["files"]:
        for finding in file["findings"]:
            where = f"{file['path']}:{finding['line']}" if finding["line"] else file["path"]
            kind = {"refused": "refused", "nothing to do": "left alone"}.get(file["outcome"], finding["severity"])
            expected.append(f"{where}: {kind}: {finding['code']} {finding['message']}; {finding['remedy']}")
            expected += _steps(finding["evidence"])
        for edit in file["edits"]:
            expected.append(f"{file['path']}:{edit['span'][0]}: {edit['rule']} {edit['operation']}: {edit['reason']}")
            expected += _steps(edit["evidence"])
    assert text.lines[:-3] == expected
    left = found["summary"]["left to do by hand"]
    assert sum(left["reasons"].values()) == found["summary"]["refused"]
    assert text.lines[-2].startswith(f"left to do by hand: {found['summary']['refused']} scripts (")
    assert text.lines[-1].endswith(f": {', '.join(left['training not reached'])}")


def _patch(file: dict[str, Any]) -> bytes:
    """A file's diff as text mode shows it: in the encoding of the file."""
    diff: str = file["diff"]
    return diff.encode("latin-1" if "latin1_cookie" in file["path"] else "utf-8")


def _steps(evidence: list[dict[str, Any]]) -> list[str]:
    return [f"    line {step['line']}: {step['text']}" for step in evidence]


@pytest.mark.parametrize("options", [("--write",), ("--check",), ("--output", "out")], ids=" ".join)
def test_json_says_nothing_else(options: tuple[str, ...], folder: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    found = document("train.py", *options)
    assert [f["outcome"] for f in found["files"]] == ["converted"]
    written = CONVERTED.encode() in tree(folder).values()
    assert written == (options != ("--check",))


def test_json_of_a_conversion_that_could_not_be_written(folder: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    Path("train.py").chmod(0o444)
    (file,) = document("train.py", "--write")["files"]
    assert file["error"] == "train.py: is read-only; make it writable, or use --output DIR"
    assert file["outcome"] == "error"
    Path("train.py").chmod(0o644)
    (other,) = document("train.py", "--check")["files"]
    assert {**file, "outcome": "converted", "error": ""} == other


# ---- verbosity


def test_verbosity(folder: Path) -> None:
    Path("train.py").write_text(EPOCHS)
    Path("plain.py").write_text("print(1)\n")
    assert convert("train.py", "--check", "-q").lines == []
    assert convert("train.py", "--check").lines == ["train.py: 1 note (-v shows them)"]
    lines = convert(".", "--check", "-v").lines
    assert lines[0] == (
        "train.py:17: note: METRIC-TRAIN `total` covers only the share of the process that prints it; "
        "gather the values if the exact figure matters"
    )
    assert "train.py:15: BACKWARD call-on: gradients are scaled and averaged by the accelerator" in lines
    assert "    line 13: `loss` is `((model(x) - y) ** 2).mean()`" in lines
    assert lines[-1] == "1 convertible, 1 without torch"
    ran = convert("train.py", "--check", "-q", "-v")
    assert (ran.code, ran.lines) == (2, ["accelift: --quiet and --verbose exclude each other"])
    assert convert(".", "--check", "-vv").lines == ["plain.py: left alone: does not mention torch", *lines]


def test_quiet_writes_all_the_same(folder: Path) -> None:
    Path("train.py").write_text(EPOCHS)
    ran = convert("train.py", UNTOUCHED / "full_batch.py", "--write", "-q")
    assert (ran.code, ran.stdout, ran.stderr) == (1, b"", "")
    assert "accelerator.backward(loss)" in Path("train.py").read_text()


# ---- chosen rules


def test_select(folder: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    ran = convert("train.py", "--select", "PRINT", "--check")
    assert (ran.code, ran.lines) == (1, ["train.py: 1 note (-v shows them)"])
    ran = convert("train.py", "--select", " note , batchsize ", "--check")
    assert ran.lines == [
        "train.py:16: warning: PRINT left out as asked (line 16); it is there for a reason: "
        "one line per job, not per process; "
        "`accelift rule PRINT` tells what it does",
        "train.py: 1 note (-v shows them)",
    ]
    convert("train.py", "--select", "NOTE", "--write")
    text = Path("train.py").read_text()
    assert "    print(len(loader))\n" in text and "model = nn.Linear(4, 1).to(device)\n" in text
    assert "accelerator.backward(loss)\n" in text and "accelerator.prepare(" in text


def test_ignore(folder: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    assert convert("train.py", "--ignore", "print", "--write").lines == ["train.py: converted"]
    assert Path("train.py").read_text() == CONVERTED.replace("accelerator.print(", "print(")


def test_ignore_findings() -> None:
    ran = convert("-", "--check", stdin=EPOCHS.encode())
    assert ran.lines == ["<stdin>: 1 note (-v shows them)"]
    assert convert("-", "--check", "--ignore", "METRIC-TRAIN", stdin=EPOCHS.encode()).lines == []
    indexed = SCRIPT.replace('"cuda" if', '"cuda:1" if').encode()
    assert convert("-", stdin=indexed).code == 1
    ran = convert("-", "--write", "--ignore", "dev-index", stdin=indexed)
    assert (ran.code, ran.text, ran.lines) == (0, CONVERTED, ["<stdin>: converted"])


def test_nothing_selected_is_everything() -> None:
    assert convert("-", "--write", "--select", "", "--ignore", "", stdin=SCRIPT.encode()).text == CONVERTED


# ---- launch configs


def test_config_into_a_file(folder: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    assert convert("train.py", "--write", "--config-out", "launch.yaml", "--num-processes", "2").code == 0
    config = LaunchConfig.load("launch.yaml")
    assert (config.num_processes, config.distributed_type) == (2, "MULTI_GPU")
    assert sorted(tree(folder)) == ["launch.yaml", "train.py"]


@pytest.mark.parametrize("made_before", [False, True])
def test_configs_into_a_folder(made_before: bool, folder: Path) -> None:
    Path("a").mkdir()
    Path("a/train.py").write_text(SCRIPT)
    Path("a/tune.py").write_text(SCRIPT)
    if made_before:
        Path("configs").mkdir()
    name = "configs" if made_before else "configs/"
    assert convert("a/train.py", "--check", "--config-out", name).code == 1
    assert sorted(tree(folder / "configs")) == ["train.yaml"]
    assert convert("a", "--check", "--config-out", name).code == 1
    assert sorted(tree(folder / "configs")) == ["train.yaml", "tune.yaml"]
    assert convert(".", "--check", "--config-out", name).code == 1
    assert sorted(tree(folder / "configs")) == ["a/train.yaml", "a/tune.yaml", "train.yaml", "tune.yaml"]


def test_config_that_cannot_be_written(folder: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    Path("tune.py").write_text(SCRIPT)
    ran = convert("train.py", "tune.py", "--check", "--config-out", "launch.yaml")
    assert (ran.code, ran.lines[0]) == (
        2,
        "accelift: --config-out launch.yaml: names one file, but 2 scripts have a launch config; "
        "give a folder (a name that ends with /)",
    )
    ran = convert("train.py", "--check", "--config-out", "tune.py/launch.yaml")
    line = "accelift: tune.py/launch.yaml: cannot be written (File exists); choose another folder"
    assert (ran.code, ran.lines) == (2, [line])
    ran = convert("train.py", "--check", "--config-out", "train.py")
    line = "accelift: train.py: would be overwritten by --config-out; choose another place"
    assert (ran.code, ran.lines) == (2, [line])
    assert tree(folder) == dict.fromkeys(["train.py", "tune.py"], SCRIPT.encode())


def test_no_config_of_a_script_that_is_left_alone(folder: Path) -> None:
    ran = convert(UNTOUCHED / "full_batch.py", "-q", "--config-out", "launch.yaml")
    assert (ran.code, ran.lines) == (1, ["launch.yaml: not written: no script was converted"])
    ran = convert(UNTOUCHED / "sklearn_only.py", "-q", "--config-out", "launch.yaml")
    assert (ran.code, ran.lines) == (0, ["launch.yaml: not written: nothing to convert"])
    assert tree(folder) == {}


def test_configs_do_not_overwrite_each_other(folder: Path) -> None:
    for name in ("a/x/train.py", "b/x/train.py"):
        Path(name).parent.mkdir(parents=True)
        Path(name).write_text(SCRIPT)
    assert convert("a", "b", "--check", "--config-out", "configs/").code == 1
    assert sorted(tree(folder / "configs")) == ["a/x/train.yaml", "b/x/train.yaml"]
    Path("a/x/train.pyw").write_text(SCRIPT)
    ran = convert("a/x/train.py", "a/x/train.pyw", "--check", "--config-out", "one/")
    line = "accelift: a/x/train.pyw: would overwrite one/train.yaml, which was written for a/x/train.py; "
    assert (ran.code, ran.lines[0]) == (2, f"{line}give them different names")
    assert sorted(tree(folder / "one")) == ["train.yaml"]


# ---- which files of a folder


def test_files_of_a_folder(folder: Path) -> None:
    scripts = ("train.py", "sub/train.py", "sub/deeper/train.py", "data/kept.py", "sub/data.py")
    others = (
        ".hidden/train.py",
        ".venv/train.py",
        "build/train.py",
        "data/left.py",
        "node_modules/train.py",
        "sub/__pycache__/train.py",
        "sub/generated_a.py",
        "sub/only_here.py",
        "train.pyc",
        "train.txt",
    )
    for name in (*scripts, *others):
        Path("project", name).parent.mkdir(parents=True, exist_ok=True)
        Path("project", name).write_text(SCRIPT)
    Path("project/.gitignore").write_text("# made by tools\ngenerated_*.py\ndata/*\n!data/kept.py\n/data.py\n")
    Path("project/sub/.gitignore").write_text("/only_here.py\n")
    os.mkfifo("project/data/.gitignore")
    ran = convert("project", "--check")
    assert sorted(ran.text.splitlines()) == sorted(f"project/{name}: would be converted" for name in scripts)
    assert convert("project/sub/only_here.py", "project/train.txt", "--check").text.count("would be") == 2
    order = [line.partition(":")[0] for line in ran.text.splitlines()]
    assert order == [line.partition(":")[0] for line in convert("project", "--check").text.splitlines()]


def test_links_in_a_folder(folder: Path) -> None:
    for name in ("project/sub/train.py", "other/far.py"):
        Path(name).parent.mkdir(parents=True)
        Path(name).write_text(SCRIPT)
    Path("project/a.py").symlink_to("sub/train.py")
    Path("project/again").symlink_to("sub", target_is_directory=True)
    Path("link.py").symlink_to("project/sub/train.py")
    assert convert("project", "--check").text.splitlines() == ["project/sub/train.py: would be converted"]
    found = ["project/sub/train.py", "other/far.py"]  # as they are named
    ran = convert("project", "link.py", "other", "--check")
    assert ran.text.splitlines() == [f"{name}: would be converted" for name in found]
    assert convert("link.py", "project/sub/train.py", "--check").text == "link.py: would be converted\n"


def test_links_that_lead_out_of_a_folder(folder: Path) -> None:
    for name in ("project/train.py", "other/far.py", "other/text.txt"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(SCRIPT)
    Path("project/far").symlink_to("../other", target_is_directory=True)
    Path("project/one.py").symlink_to("../other/far.py")
    Path("project/notes.txt").symlink_to("../other/text.txt")
    Path("project/build").symlink_to("../other", target_is_directory=True)  # not entered in any case
    Path("project/up").symlink_to("..", target_is_directory=True)
    ran = convert("project", "--write")
    left = "left alone: a link that leads out of the folder; name it to take it along"
    assert ran.lines == [
        *(f"project/{name}: {left}" for name in ("far", "one.py", "up")),
        "project/train.py: converted",
    ]
    assert ran.code == 0 and Path("other/far.py").read_text() == SCRIPT
    assert convert("project", "--check", "-q").lines == []
    ran = convert("project/far", "project/one.py", "--check")
    assert ran.text == "project/far/far.py: would be converted\n"


def test_folders_that_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("project/train.py", "project/secret/far.py", "secret/train.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(SCRIPT)
    scan = os.scandir

    def refused(path: str) -> Any:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)
    ran = convert("secret", "--check")
    denied = "cannot be read (Permission denied); check its permissions"
    assert (ran.code, ran.lines[0]) == (2, f"secret: {denied}")
    ran = convert("project", "--check")
    assert ran.code == 2 and ran.text == "project/train.py: would be converted\n"
    assert f"project/secret: {denied}" in ran.lines


def test_an_empty_path(folder: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    ran = convert("", "--write")
    assert (ran.code, ran.lines[0]) == (2, "'': does not exist; check the path")
    assert Path("train.py").read_text() == SCRIPT
    assert convert(".", "--check").text == "train.py: would be converted\n"


def test_what_goes_with_verify(folder: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    for arguments, said in (
        (("-", "--verify"), "-: --verify runs a script where it lies; save it, and give its path"),
        (("train.py", "-", "--verify", "--write"), "-: --verify runs a script where it lies"),
        (("train.py", "--verify-args", "--epochs 1"), "--verify-args goes with --verify"),
        (("-", "--verify-args", ""), "--verify-args goes with --verify"),
    ):
        ran = convert(*arguments)
        assert ran.code == 2 and said in " ".join(ran.lines[-1].split()), arguments
    assert Path("train.py").read_text() == SCRIPT


def test_foreign_files_of_a_folder_are_no_errors(folder: Path) -> None:
    Path("project").mkdir()
    Path("project/__init__.py").touch()
    Path("project/old.py").write_text("print 'hello'\n")
    Path("project/train.py").write_text(SCRIPT)
    ran = convert("project", "--write")
    assert (ran.code, ran.lines) == (0, ["project/train.py: converted", "1 converted, 2 without torch"])
