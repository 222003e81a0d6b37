"""The recorder of optimizer steps, on scripts that know nothing of it."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from accelift.trace import Recorder, main
from runtime_jobs import HERE, plain_environment
from torch import nn

SCRIPT = str(HERE / "workers" / "traced.py")


def trace(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "accelift.trace", *arguments]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_trace_of_a_plain_script(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = trace("--seed", "3", "--tensors", str(out), SCRIPT, "--tensors", "x y")
    assert done.returncode == 0 and done.stdout == "arguments ['--tensors', 'x y'] end\n"
    steps = lines(tmp_path / "run.0.jsonl")
    assert [step["step"] for step in steps] == [0, 1, 2, 3]
    assert [step["optimizer"] for step in steps] == [0, 1, 0, 1]
    assert [step["lr"] for step in steps] == [[0.5], [0.1, 0.2]] * 2
    tensors = torch.load(tmp_path / "run.0.pt", weights_only=True)
    for step, parameters in zip(steps, tensors, strict=True):
        content = b"".join(bytes(p.view(torch.uint8).flatten().tolist()) for p in parameters)
        assert step["crc"] == zlib.crc32(content)
        assert step["sum"] == pytest.approx(sum(p.double().sum().item() for p in parameters))
        assert step["abs"] == pytest.approx(sum(p.double().abs().sum().item() for p in parameters))
    assert not torch.equal(tensors[0][0], tensors[1][0])

    # Ended early, the same seed has computed the same so far, and another seed something else.
    done = trace("--seed", "3", "--steps", "2", str(out), SCRIPT, "--fail")
    assert done.returncode == 0 and done.stdout == "" and done.stderr == ""
    assert lines(tmp_path / "run.0.jsonl") == steps[:2]
    done = trace("--seed", "4", "--steps", "2", str(tmp_path / "other"), SCRIPT)
    assert lines(tmp_path / "other.0.jsonl") != steps[:2]
    assert not (tmp_path / "other.0.pt").exists()


@pytest.mark.parametrize(("flag", "code", "error"), [("--exit", 7, ""), ("--fail", 1, "on purpose")])
def test_failures_pass_through(flag: str, code: int, error: str, tmp_path: Path) -> None:
    done = trace("--tensors", str(tmp_path / "run"), SCRIPT, flag)
    assert done.returncode == code and error in done.stderr
    assert len(torch.load(tmp_path / "run.0.pt", weights_only=True)) == 4


@pytest.mark.parametrize("arguments", [["out", "missing.py"], ["--steps", "0", "out", SCRIPT], []])
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "error:" in capsys.readouterr().err


def test_recorder_as_an_object(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(torch.ones(1, 2)).sum().backward()
    with Recorder(tmp_path / "run"):
        optimizer.step()
    optimizer.step()
    assert len(lines(tmp_path / "run.0.jsonl")) == 1


def test_trace_of_several_processes(tmp_path: Path) -> None:
    script = str(HERE / "workers" / "traced_accelerator.py")
    alone, several = tmp_path / "alone", tmp_path / "several"
    assert trace("--tensors", str(alone), script).returncode == 0
    command = [sys.executable, "-m", "accelift", "launch", "--cpu", "--num-processes", "2"]
    command += ["-m", "accelift.trace", "--tensors", str(several), script]
    done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = torch.load(f"{alone}.0.pt", weights_only=True)
    found = [torch.load(f"{several}.{rank}.pt", weights_only=True) for rank in range(2)]
    assert lines(Path(f"{several}.0.jsonl")) == lines(Path(f"{several}.1.jsonl"))
    assert len(found[0]) == len(expected) == 3
    for step, plain in zip(found[0], expected, strict=True):
        for ours, theirs in zip(step, plain, strict=True):
            assert torch.allclose(ours, theirs, rtol=0, atol=1e-6)
