"""`python -m tests.generated SEED` prints the script of a seed."""

from __future__ import annotations

import sys

from tests.generated.script import generate

print(generate(int(sys.argv[1])).text, end="")
