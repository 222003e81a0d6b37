"""The verbs of the Accelerator that save and load."""

from __future__ import annotations

from accelift.registry import Registry
from accelift.state import PartialState


class CheckpointVerbs:
    """What an Accelerator saves and loads."""

    state: PartialState
    registry: Registry
