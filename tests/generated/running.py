"""Runs original and converted scripts, and compares what they did."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.generated.files import ENTRY, Files

ROOT = Path(__file__).parents[2]
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?|-?\d+")


class Workshop:
    """A process that runs scripts; it has imported torch once."""

    def __enter__(self) -> Workshop:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        paths = [str(ROOT), str(ROOT / "runtime"), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        command = [sys.executable, "-W", "ignore", "-m", "tests.generated.server"]
        self._server = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    def runs(self, *scripts: str | Files, processes: int = 1) -> list[dict[str, Any]]:
        """What the runs of scripts, or of projects, left: the first on one process, the others on `processes`."""
        assert self._server.stdin is not None and self._server.stdout is not None
        projects = [{ENTRY: script} if isinstance(script, str) else script for script in scripts]
        self._server.stdin.write(json.dumps({"projects": projects, "processes": processes}) + "\n")
        self._server.stdin.flush()
        place = self._server.stdout.readline().strip()
        left: list[dict[str, Any]] = pickle.loads(Path(place).read_bytes())
        return left


def differences(old: dict[str, Any], new: dict[str, Any], tolerance: float = 0.0) -> dict[str, str]:
    """How two runs differ, by what differs: `failed`, `steps`, `stdout`, `files`; empty if they do not.

    Without a tolerance, every bit counts.
    """
    if new["failed"]:
        return {"failed": new["failed"]}
    found = {}
    if why := _steps(old["steps"], new["steps"], tolerance):
        found["steps"] = why
    if new.get("apart"):
        found["apart"] = "the processes' parameters differ"
    if why := _output(old["stdout"], new["stdout"], tolerance):
        found["stdout"] = why
    if why := _same(old["files"], new["files"], tolerance, "files"):
        found["files"] = why
    return found


def _steps(old: list[Any], new: list[Any], tolerance: float) -> str:
    if len(old) != len(new):
        return f"{len(new)} steps instead of {len(old)}"
    for index, (left, right) in enumerate(zip(old, new, strict=True)):
        if why := _same(left, right, tolerance, f"step {index}"):
            return why
    return ""


def _output(old: str, new: str, tolerance: float) -> str:
    if old == new:
        return ""
    if tolerance and _NUMBER.sub("#", old) == _NUMBER.sub("#", new):
        pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
        far = [f"{a} became {b}" for a, b in pairs if abs(float(a) - float(b)) > max(tolerance, _digit(a))]
        return far[0] if far else ""
    lines = zip(old.splitlines() + [""] * 99, new.splitlines() + [""] * 99, strict=False)
    return next((f"{a!r} became {b!r}" for a, b in lines if a != b), "line ends")


def _digit(number: str) -> float:
    """What one in the last digit of a number is worth."""
    return 1.1 * 10.0 ** -len(number.partition(".")[2].partition("e")[0]) if "e" not in number else 0.0


def _same(old: Any, new: Any, tolerance: float, where: str) -> str:
    if type(old) is not type(new):
        return f"{where}: {type(old)} became {type(new)}"
    if isinstance(old, dict):
        if list(old) != list(new):
            return f"{where}: {list(old)} became {list(new)}"
        return next((why for k in old if (why := _same(old[k], new[k], tolerance, f"{where} {k}"))), "")
    if isinstance(old, list):
        if len(old) != len(new):
            return f"{where}: {len(old)} became {len(new)}"
        return next((w for a, b in zip(old, new, strict=True) if (w := _same(a, b, tolerance, where))), "")
    if isinstance(old, np.ndarray) and old.shape == new.shape and old.dtype == new.dtype:
        if old.tobytes() == new.tobytes():
            return ""
        distance = float(np.linalg.norm((old - new).astype(float)) / max(float(np.linalg.norm(old)), 1e-3))
        return "" if distance <= tolerance else f"{where}: {distance:.1e} apart"
    if isinstance(old, bytes) and tolerance:
        return _output(old.decode(), new.decode(), tolerance)
    if isinstance(old, float) and abs(old - new) <= tolerance * max(1.0, abs(old)):
        return ""
    return "" if old is new or repr(old) == repr(new) else f"{where}: {old!r} became {new!r}"
