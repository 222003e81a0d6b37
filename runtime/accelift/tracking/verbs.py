"""The verbs of the Accelerator that log to trackers."""

from __future__ import annotations

from accelift.state import PartialState


class TrackerVerbs:
    """What an Accelerator logs, and where to."""

    state: PartialState
