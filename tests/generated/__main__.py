"""`python -m tests.generated SEED [by-hand]` prints the script of a seed."""

from __future__ import annotations

import sys

from tests.generated.byhand import by_hand
from tests.generated.script import generate

make = by_hand if "by-hand" in sys.argv else generate
for name, text in make(int(sys.argv[1])).files.items():
    print(f"# ---- {name}\n{text}", end="")
