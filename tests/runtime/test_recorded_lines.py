"""The recorder of printed lines, of which each knows where it was printed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from accelift.recorder.events import Events
from accelift.recorder.outputs import Outputs

SCRIPT = """\
write("loss 1")
write(", ")
write("accuracy 2\\n")
write("a\\nb")
write("c\\n")
write("d")
write("\\n")
"""


def recorded(tmp_path: Path, text: str = SCRIPT, by: str = "_printed") -> list[dict[str, Any]]:
    script = tmp_path / "train.py"
    script.write_text(text)
    events = Events(tmp_path / "events", script)
    outputs = Outputs(events, SimpleNamespace(trains=False), SimpleNamespace(mode=lambda: ""))  # type: ignore[arg-type]
    exec(compile(text, str(script), "exec"), {"write": getattr(outputs, by)})
    events.flush()
    return [json.loads(line) for line in (tmp_path / "events" / "0.jsonl").read_text().splitlines()]


def test_a_line_of_several_prints_has_the_places_of_all(tmp_path: Path) -> None:
    lines = [(one["text"], one["place"], one["others"]) for one in recorded(tmp_path)]
    first, second, third = (f"train.py:{n}" for n in (1, 2, 3))
    assert lines == [
        ("loss 1, accuracy 2", third, [first, second]),
        ("a", "train.py:4", []),
        ("bc", "train.py:5", ["train.py:4"]),
        ("d", "train.py:7", ["train.py:6"]),
    ]


def test_files_that_compilers_keep_are_not_the_scripts(tmp_path: Path) -> None:
    kept = ("/tmp/torchinductor_me/locks/a.lock", "/home/me/.triton/cache/k.so", "__pycache__/a.pyc")
    wrote = recorded(tmp_path, "".join(f"write({path!r})\n" for path in (*kept, "/tmp/notes.txt")), "_written")
    assert [Path(one["path"]).name for one in wrote] == ["notes.txt"]
