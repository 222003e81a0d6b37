"""Environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from accelift.environment import clear_environment, patch_environment, str_to_bool

__all__ = [
    "are_libraries_initialized",
    "clear_environment",
    "get_int_from_env",
    "parse_choice_from_env",
    "parse_flag_from_env",
    "patch_environment",
    "str_to_bool",
]


def parse_flag_from_env(key: str, default: bool = False) -> bool:
    """Whether an environment variable says yes, or the default where it is not set.

    Raises:
        ValueError: if it says neither yes nor no.
    """
    return str_to_bool(os.environ.get(key, str(default))) == 1


def parse_choice_from_env(key: str, default: str = "no") -> str:
    """What an environment variable says, or the default where it is not set."""
    return os.environ.get(key, default)


def get_int_from_env(env_keys: Sequence[str], default: int) -> int:
    """The number in the first of these environment variables that has one of at least 0.

    Raises:
        ValueError: if one of them is not a whole number.
    """
    return next((number for key in env_keys if (number := int(os.environ.get(key, -1))) >= 0), default)


def are_libraries_initialized(*library_names: str) -> list[str]:
    """Those of the libraries that were imported already."""
    return [name for name in library_names if name in sys.modules]
