"""Files that are written in the middle of expressions: what is returned, an entry of a list, an operand."""

from __future__ import annotations

import pytest
from scripts import CREATED, converted, findings, lifted, script

IMPORTS = """\
import cv2
import numpy as np
import shutil
import yaml
from torchvision.utils import save_image
"""
KEEP = "def keep(path, a):\n    {}\n"
GUARD = "if accelerator.is_main_process:"


@pytest.mark.parametrize(
    ("body", "guarded"),
    [
        ("return np.save(path, a)", f"{GUARD}\n        return np.save(path, a)"),
        (
            "if len(a) > 3:\n        return save_image(a, path)",
            f"if len(a) > 3:\n        {GUARD}\n            return save_image(a, path)",
        ),
    ],
)
def test_what_a_function_ends_with(body: str, guarded: str) -> None:
    slots = {"imports": IMPORTS, "after": "keep('a.npy', np.zeros(3))"}
    assert converted(script(**slots, definitions=KEEP.format(body))) == lifted(
        **slots, definitions=KEEP.format(guarded)
    )


@pytest.mark.parametrize(
    "statement",
    [
        "[np.save(f'{i}.npy', a) for i in range(3)]",
        "len(data) > 3 and np.save('a.npy', a)",
        "np.save('a.npy', a) if len(data) > 3 else None",
        "len(data) > 3 and [cv2.imwrite(f'{i}.png', a) for i in range(3)]",
    ],
)
def test_what_nothing_goes_on_with(statement: str) -> None:
    slots = {"imports": IMPORTS, "before": "a = np.zeros(3)"}
    assert converted(script(**slots, after=statement)) == lifted(**slots, after=f"{GUARD}\n    {statement}")


@pytest.mark.parametrize(
    "body",
    [
        "done = cv2.imwrite(path, a)\n    return done",
        "return cv2.imwrite(path, a)",
        "if not cv2.imwrite(path, a):\n        raise OSError(path)",
        "return shutil.copyfile('a', path)",
        "write = lambda b: np.save(path, b)\n    write(a)",
        "return np.save(path, a) or len(a)",
        "if len(a) > 3:\n        return np.save(path, a)\n    return 3",
        "for b in a:\n        return np.save(path, b)",
    ],
)
def test_what_something_goes_on_with_is_told(body: str) -> None:
    slots = {"imports": IMPORTS, "definitions": KEEP.format(body), "after": "keep('a.npy', np.zeros(3))"}
    assert findings(script(**slots)) == ["SAVE-RACE"]
    assert converted(script(**slots)) == lifted(**slots)


@pytest.mark.parametrize(
    "after",
    ["text = yaml.dump({'a': 1})", "text = [yaml.dump(n) for n in range(3)]", "f = lambda: cv2.imread('a.png')"],
)
def test_what_writes_no_file_that_it_is_told_by_name(after: str) -> None:
    slots = {"imports": IMPORTS, "after": after}
    assert findings(script(**slots)) == []
    assert converted(script(**slots)) == lifted(**slots)


def test_a_file_that_is_written_with_what_all_processes_compute_together() -> None:
    keep = "len(data) > 3 and np.save('a.npy', [model(x.to(device)).detach() for x, y in loader])"
    text = script(imports=IMPORTS, after=keep)
    assert "SAVE-RACE" in findings(text) and f"{GUARD}\n    len(data)" not in converted(text)
    assert CREATED in converted(text)


@pytest.mark.parametrize(
    "statement",
    [
        "[np.save(f'{i}.npy', next(numbers)) for i in range(3)]",
        "[np.save(f'{i}.npy', seen.append(i) or a) for i in range(3)]",
        "[np.save(f'{i}.npy', (last := i)) for i in range(3)]",
        "[np.save(f'{i}.npy', note(i)) for i in range(3)]",
        "seen.pop() and np.save('a.npy', a)",
        "np.save('a.npy', a) if next(numbers) else None",
        "keep('a.npy')",
    ],
)
def test_what_changes_something_runs_on_every_process(statement: str) -> None:
    note = "def note(i):\n    seen.append(i)\n    return a\n"
    definitions = f"{note}\ndef keep(path):\n    return np.save(path, next(numbers))\n"
    before = "a, seen, numbers = np.zeros(3), [1], iter(range(9))"
    slots = {"imports": IMPORTS, "before": before, "after": statement}
    used = definitions if statement.startswith("keep") else note
    assert converted(script(**slots, definitions=used)) == lifted(**slots, definitions=used)
    assert findings(script(**slots, definitions=used)) == ["SAVE-RACE"]


@pytest.mark.parametrize("made", ["image = {}", "_ = {} if len(data) > 3 else None", "done = [{} for i in range(3)]"])
def test_what_is_kept_in_a_variable_that_nobody_reads(made: str) -> None:
    write = made.format("save_image(torch.ones(3), 'a.png')")
    slots = {"imports": IMPORTS}
    assert converted(script(**slots, after=write)) == lifted(**slots, after=f"{GUARD}\n    {write}")
    assert converted(script(main=True, **slots, after=write)) == lifted(
        main=True, **slots, after=f"{GUARD}\n    {write}"
    )


@pytest.mark.parametrize(
    "after",
    [
        "{}\nprint(image)",
        "__all__ = ['image']\n{}",
        "def shown():\n    return image\n\n\n{}\nshown()",
        "image = other = save_image(torch.ones(3), 'a.png')",
    ],
)
def test_one_that_may_be_read(after: str) -> None:
    write = after.format("image = save_image(torch.ones(3), 'a.png')")
    assert findings(script(imports=IMPORTS, after=write)) == ["SAVE-RACE"]
