"""``python -m accelift launch ...``: the launcher, where its command is not installed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m accelift", description=__doc__)
    parser.add_argument("command", choices=["launch"], help="launch: run a script on processes")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    given = parser.parse_args(argv)

    from accelift.launch import main as launch

    return launch(given.arguments)


if __name__ == "__main__":
    sys.exit(main())
