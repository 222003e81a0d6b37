"""Prepared loaders: what each process is dealt, and how."""

from __future__ import annotations

from accelift.data.loader import PreparedLoader
from accelift.data.prepare import Target, prepare

__all__ = ["PreparedLoader", "Target", "prepare"]
