"""Random numbers."""

from __future__ import annotations

from accelift.random import set_seed, synchronize_rng_state, synchronize_rng_states

__all__ = ["set_seed", "synchronize_rng_state", "synchronize_rng_states"]
