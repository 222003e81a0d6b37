"""What a test of a type says of a variable: one of Python's own collections is no loader."""

from __future__ import annotations

import pytest
from scripts import converted, script

LOOP = "for x, y in value:\n            print(model(x).sum())"


@pytest.mark.parametrize(
    ("tested", "loops"),
    [
        (f"if isinstance(value, list):\n        {LOOP}", False),
        (f"if isinstance(value, (tuple, list)):\n        {LOOP}", False),
        (f"if isinstance(value, list):\n        value = loader\n        {LOOP}", True),
        (f"if isinstance(value, (list, DataLoader)):\n        {LOOP}", True),
        (f"if isinstance(model, list):\n        {LOOP}", True),
        (f"if not isinstance(value, list):\n        {LOOP}", True),
        (f"if isinstance(value, list):\n        value = []\n    else:\n        {LOOP}", True),
        (f"if value is not None:\n        {LOOP}", True),
    ],
)
def test_a_collection_of_python_is_no_loader(tested: str, loops: bool) -> None:
    """A loop over the loader that moves nothing keeps the moves of the training loop as they are."""
    text = converted(script(definitions=f"def show(value):\n    {tested}\n", after="show(loader)"))
    assert ("x, y = x.to(device), y.to(device)" in text) is loops
