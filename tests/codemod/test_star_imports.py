"""What `from tqdm import *` gives is known; what other modules give is not."""

from __future__ import annotations

import pytest
from scripts import converted, lifted, script, unchanged


@pytest.mark.parametrize("module", ["tqdm", "tqdm.auto", "tqdm.notebook"])
def test_a_bar_that_a_star_import_gives(module: str) -> None:
    slots = {"from_imports": f"from {module} import *", "loop": "for x, y in bar:"}
    shown = "bar = tqdm(loader{})"
    assert converted(script(**slots, epoch=shown.format(""))) == lifted(
        **slots, epoch=shown.format(", disable=not accelerator.is_local_main_process")
    )


@pytest.mark.parametrize(
    ("line", "bar"),
    [
        ("from elsewhere import *", "tqdm(loader)"),
        ("from tqdm import *", "progress(loader)"),
        ("from tqdm import *\n\ndef tqdm(rows):\n    return mixed(rows)", "tqdm(loader)"),
    ],
)
def test_what_is_not_known_to_be_a_bar(line: str, bar: str) -> None:
    text = script(from_imports=line, epoch=f"bar = {bar}", loop="for x, y in bar:")
    assert unchanged(text).code == "LOADER-UNKNOWN"
