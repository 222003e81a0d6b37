"""Prepared loaders: what each process is dealt, and how."""

from __future__ import annotations

from accelift.data.loader import PreparedLoader
from accelift.data.prepare import prepare_data_loader

__all__ = ["PreparedLoader", "prepare_data_loader"]
