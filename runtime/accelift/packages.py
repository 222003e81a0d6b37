"""Which packages are installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def is_installed(package: str) -> bool:
    """Whether a package can be imported; it is not.  A mere folder of that name, as of runs, is no package."""
    if package in sys.modules:
        return sys.modules[package] is not None
    spec = find_spec(package)
    return spec is not None and spec.origin is not None
