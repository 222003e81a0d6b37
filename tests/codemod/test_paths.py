"""GUARD: folders that are made, and paths of pathlib that are written to."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script

OS = "import os"
GUARD = "if accelerator.is_main_process:"


@pytest.mark.parametrize("line", ['os.makedirs("out", exist_ok=True)', 'Path("out").mkdir(exist_ok=True)'])
def test_folders_that_may_be_there_are_made_by_all(line: str) -> None:
    slots = {"imports": "import os\nfrom pathlib import Path", "before": line}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == []


@pytest.mark.parametrize(
    ("line", "made"),
    [
        (
            'if not os.path.exists("a"):\n    os.makedirs("a")',
            'if not os.path.exists("a"):\n    os.makedirs("a", exist_ok=True)',
        ),
        (
            'if not os.path.isdir("a"):\n    os.mkdir("a")',
            'if not os.path.isdir("a"):\n    os.makedirs("a", exist_ok=True)',
        ),
        ("if not out.exists():\n    out.mkdir()", "if not out.exists():\n    out.mkdir(exist_ok=True)"),
        (
            'if "a" in os.listdir():\n    n = 1\nelse:\n    os.makedirs("a")',
            'if "a" in os.listdir():\n    n = 1\nelse:\n    os.makedirs("a", exist_ok=True)',
        ),
        (
            'try:\n    os.makedirs("a")\nexcept OSError:\n    pass',
            'try:\n    os.makedirs("a")\nexcept OSError:\n    pass',
        ),
        (
            'try:\n    os.makedirs("a")\nexcept data.error:\n    pass',
            f'try:\n    {GUARD}\n        os.makedirs("a")\nexcept data.error:\n    pass',
        ),
        ('if len(data) > 3:\n    os.makedirs("a")', f'if len(data) > 3:\n    {GUARD}\n        os.makedirs("a")'),
        (
            'try:\n    os.makedirs("a")\nexcept ValueError:\n    pass',
            f'try:\n    {GUARD}\n        os.makedirs("a")\nexcept ValueError:\n    pass',
        ),
    ],
)
def test_folders_that_are_missing_are_made_by_all(line: str, made: str) -> None:
    """Otherwise a process that comes to the next line before the main process has made it would not find it."""
    slots = {"imports": "import os\nfrom pathlib import Path", "setup": 'out = Path("a")'}
    assert converted(script(**slots, before=line)) == lifted(**slots, before=made)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'if os.path.exists("a"):\n    raise SystemExit("is there")\nos.makedirs("a")',
            f'{GUARD}\n    if os.path.exists("a"):\n        raise SystemExit("is there")\n    os.makedirs("a")',
        ),
        (
            'if os.path.exists("a"):\n    n = 2\nos.makedirs("b")',
            f'if os.path.exists("a"):\n    n = 2\n{GUARD}\n    os.makedirs("b")',
        ),
    ],
)
def test_whoever_makes_a_folder_asks_whether_it_is_there(before: str, after: str) -> None:
    assert converted(script(imports=OS, before=before)) == lifted(imports=OS, before=after)


OUT = {"imports": "from pathlib import Path\nimport argparse\nimport io", "setup": 'out = Path("out") / "a"'}


@pytest.mark.parametrize(
    "line",
    [
        'Path("out").mkdir()',
        "out.parent.mkdir(parents=True)",
        '(out / "a.txt").write_text("x")',
        'out.joinpath("a").with_suffix(".txt").unlink()',
        "anything(out).write_bytes(b'')",
        'with (out / "a.txt").open("w") as f:\n    f.write("x")',
        'out.open("a").write("x")',
        'torch.save(1, out.open("wb"), pickle_protocol=4)',
    ],
)
def test_paths_that_are_written_to(line: str) -> None:
    definitions = "def anything(path):\n    return path.parts[0]"
    guarded = f"{GUARD}\n    " + line.replace("\n", "\n    ")
    slots = {**OUT, "definitions": definitions}
    assert converted(script(**slots, after=line)) == lifted(**slots, after=guarded)


@pytest.mark.parametrize("opened", ['out.open("wb")', 'io.open("m.pt", "wb")', 'anything.open("wb")'])
def test_a_checkpoint_is_saved_into_a_file_that_one_process_opens(opened: str) -> None:
    """Opened for writing by all, the file would be emptied by the last to come."""
    saved = f"accelerator.save(accelerator.unwrap_model(model).state_dict(), {opened})"
    before, after = OUT["setup"] + "\nanything = [out][0]", f"torch.save(model.state_dict(), {opened})"
    text = converted(script(imports=OUT["imports"], setup=before, after=after))
    assert text.endswith(f"{GUARD}\n    {saved}\n")


def test_a_path_that_is_kept_open_is_reported() -> None:
    line = 'log = out.open("w")\nlog.write("x")'
    assert converted(script(**OUT, after=line)) == lifted(**OUT, after=line)
    assert findings(script(**OUT, after=line)) == ["SAVE-RACE"]


@pytest.mark.parametrize(
    "line",
    [
        "out.mkdir(exist_ok=True)",
        'with out.open("r") as f:\n    text = f.read()',
        "text = out.open().read()",
        'out.joinpath("w")',
        'anything.open("data")',
        'x.replace("a", "b")',
    ],
)
def test_paths_that_are_not_written_to(line: str) -> None:
    setup = OUT["setup"] + '\nanything = [out][0]\nx = "a"'
    slots = {"imports": OUT["imports"], "setup": setup, "after": line}
    assert converted(script(**slots)) == lifted(**slots)
