"""``accelift launch``: run a script on one process or several.

Nothing here loads torch, unless several processes are started.
"""

from __future__ import annotations

from accelift.launch.command import main

__all__ = ["main"]
