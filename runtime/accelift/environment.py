"""What launchers pass to the processes they start, through environment variables.

Every setting may be spelled ``ACCELIFT_<NAME>`` or, as Hugging Face's launcher does,
``ACCELERATE_<NAME>``; the former wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"", "0", "false", "f", "no", "n", "off"})


def setting(name: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The value of a setting, or ``None`` where it is not set."""
    return environ.get(f"ACCELIFT_{name}", environ.get(f"ACCELERATE_{name}"))


def str_to_bool(value: str, to_bool: bool = False) -> int | bool:
    """Whether a word means yes (1) or no (0).

    Args:
        value: the word, in any case: yes, true, on, 1 and their opposites.
        to_bool: return ``True`` or ``False`` instead.

    Raises:
        ValueError: if it is neither.
    """
    word = value.strip().lower()
    if not word or word not in _TRUE | _FALSE:
        raise ValueError(f"{value!r} is neither true nor false; say 1 or 0.")
    return word in _TRUE if to_bool else int(word in _TRUE)


@contextmanager
def patch_environment(**variables: Any) -> Iterator[None]:
    """Set environment variables, their names in capitals, for the time of the block."""
    patched = {name.upper(): str(value) for name, value in variables.items()}
    before = {name: os.environ.get(name) for name in patched}
    os.environ.update(patched)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def clear_environment() -> Iterator[None]:
    """Do without any environment variables for the time of the block."""
    before = dict(os.environ)
    os.environ.clear()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _spelt(name: str, environ: Mapping[str, str]) -> str:
    """The variable that a setting is in."""
    return next((variable for variable in (f"ACCELIFT_{name}", f"ACCELERATE_{name}") if variable in environ), name)


def flag(name: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a setting is switched on.

    Raises:
        ValueError: if the value is neither a yes nor a no.
    """
    value = (setting(name, environ) or "").strip().lower()
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise ValueError(
        f"the environment variable {_spelt(name, environ)}={value!r} is neither true nor false; set it to 1 or 0."
    )


def positive(name: str, default: int) -> int:
    """A setting that counts something.

    Raises:
        ValueError: if the value is not a whole number of at least 1.
    """
    value = setting(name)
    if value is None:
        return default
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        spelt = _spelt(name, os.environ)
        raise ValueError(f"the environment variable {spelt}={value!r} is not a whole number of at least 1.")
    return number


def rank_variable(name: str, environ: Mapping[str, str] = os.environ) -> int:
    """RANK, LOCAL_RANK or WORLD_SIZE as set by the launcher of a job of several processes.

    Raises:
        ValueError: if the variable is missing or not a number.
    """
    value = environ.get(name)
    if value is None or not value.isdigit():
        raise ValueError(
            f"WORLD_SIZE={environ.get('WORLD_SIZE')} asks for several processes but {name} is "
            f"{'not set' if value is None else repr(value)}; start the script with "
            "`accelift launch` or `torchrun`."
        )
    return int(value)
