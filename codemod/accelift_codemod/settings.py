"""What a project says of itself in its pyproject.toml, under `[tool.accelift]`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelift_codemod.facts.values import Role
from accelift_codemod.remembered import remembered
from accelift_codemod.source import BadSource

# What a project may say that calling a function or class gives.
ROLES: Mapping[str, Role] = {
    "model": Role.MODEL,
    "loss": Role.LOSS,
    "optimizer": Role.OPTIMIZER,
    "scheduler": Role.SCHEDULER,
    "loader": Role.LOADER,
    "dataset": Role.DATASET,
    "scaler": Role.SCALER,
    "writer": Role.WRITER,
}


def roles(script: Path) -> Mapping[str, Role]:
    """What calling functions and classes gives, by their whole names, as the project of a script says.

    Raises:
        BadSource: the settings cannot be read, or say something that is unknown.
    """
    return _roles(Path(script).absolute().parent)


@remembered
def _roles(folder: Path) -> Mapping[str, Role]:
    for parent in (folder, *folder.parents):
        path = parent / "pyproject.toml"
        if path.is_file():
            return _read(path)
        if (parent / ".git").exists():
            break
    return {}


@remembered
def _read(path: Path) -> Mapping[str, Role]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSource(str(path), 0, f"cannot be read ({error})", "correct it") from None
    if "tool.accelift" not in text:
        return {}
    try:
        own = _parsed(text).get("tool", {}).get("accelift", {})
    except ValueError as error:
        raise BadSource(str(path), 0, f"is no TOML ({error})", "correct it") from None
    unknown = sorted(own.keys() - {"roles"})
    if unknown:
        raise BadSource(str(path), 0, f"[tool.accelift] has no setting {unknown[0]}", "there is: roles")
    given = own.get("roles", {})
    if not isinstance(given, dict):
        raise BadSource(
            str(path), 0, "roles of [tool.accelift] is no table", 'write [tool.accelift.roles] and "name" = "role"'
        )
    for name, role in given.items():
        if not isinstance(role, str) or role not in ROLES:
            raise BadSource(
                str(path),
                0,
                f"[tool.accelift.roles] gives {name} no role that there is",
                f"write its whole name in quotes, and one of {', '.join(ROLES)}",
            )
    return {name: ROLES[role] for name, role in given.items()}


def _parsed(text: str) -> dict[str, Any]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    found: dict[str, Any] = toml.loads(text)
    return found
