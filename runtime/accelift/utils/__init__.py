"""The names that scripts import from ``accelerate.utils``.  They are loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelift.utils.constants import *  # noqa: F403
    from accelift.utils.dataclasses import *  # noqa: F403
    from accelift.utils.environment import *  # noqa: F403
    from accelift.utils.imports import *  # noqa: F403
    from accelift.utils.memory import *  # noqa: F403
    from accelift.utils.operations import *  # noqa: F403
    from accelift.utils.other import *  # noqa: F403
    from accelift.utils.random import *  # noqa: F403
    from accelift.utils.versions import *  # noqa: F403

# Where names are looked for: first where most of them are.
_HOMES = ("dataclasses", "random", "operations", "memory", "other", "imports", "environment", "versions", "constants")


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [known for home in _HOMES for known in import_module(f"{__name__}.{home}").__all__]
    if not name.startswith("_"):
        for home in _HOMES:
            module = import_module(f"{__name__}.{home}")
            if name in module.__all__:
                globals()[name] = value = getattr(module, name)
                return value
    from accelift.notoffered import stand_in

    return stand_in(name, __name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
