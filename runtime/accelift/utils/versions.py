"""Versions of packages."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import torch
from torch.torch_version import TorchVersion

_OPERATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}

__all__ = ["compare_versions", "is_torch_version"]


def compare_versions(library_or_version: Any, operation: str, requirement_version: str) -> bool:
    """Compare the version of a package with another one, as PEP 440 orders them.

    Args:
        library_or_version: the name of a package, or a version of the library ``packaging``.
        operation: one of ``<``, ``<=``, ``==``, ``!=``, ``>=``, ``>``.
        requirement_version: what to compare with.

    Raises:
        ValueError: for another operation.
        importlib.metadata.PackageNotFoundError: if the package is not installed.
    """
    compare = _OPERATIONS.get(operation)
    if compare is None:
        raise ValueError(f"compare_versions knows no {operation!r}; choose one of {', '.join(_OPERATIONS)}.")
    named = isinstance(library_or_version, str) and not isinstance(library_or_version, TorchVersion)
    version = metadata.version(library_or_version) if named else str(library_or_version)
    return compare(TorchVersion(version), requirement_version)


def is_torch_version(operation: str, version: str) -> bool:
    """Compare torch's version with another one.

    Raises:
        ValueError: for an unknown operation.
    """
    return compare_versions(torch.__version__, operation, version)
