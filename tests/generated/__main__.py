"""`python -m tests.generated SEED` prints the script of a seed."""

from __future__ import annotations

import sys

from tests.generated.script import generate

for name, text in generate(int(sys.argv[1])).files.items():
    print(f"# ---- {name}\n{text}", end="")
