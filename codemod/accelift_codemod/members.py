"""What the modules of a package define: rules and lints are found by being there."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


def members(package: str, kind: type[T]) -> Iterator[T]:
    """One of each class derived from `kind`, abstract ones aside, that a module of the package defines."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        loaded = importlib.import_module(f"{package}.{module.name}")
        for member in vars(loaded).values():
            if isinstance(member, type) and issubclass(member, kind) and member.__module__ == loaded.__name__:
                if not inspect.isabstract(member):
                    yield member()
