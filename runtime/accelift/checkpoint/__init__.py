"""Saving and loading: single files, and the whole state of a training run."""

from __future__ import annotations

from accelift.checkpoint.files import CheckpointError, save

__all__ = ["CheckpointError", "save"]
