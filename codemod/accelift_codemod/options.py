"""What the user chooses for a conversion."""

from __future__ import annotations

from dataclasses import dataclass

from accelift_codemod import timelimit


@dataclass(frozen=True)
class Options:
    """What the user chose."""

    target: str = "runtime"  # or "accelerate"
    batch: str = "global"  # or "per-process"
    num_processes: int | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    time_limit: float = timelimit.DEFAULT  # for one file, in seconds
    shard_manual: bool = False  # share out batches that the script makes without a loader
    unsafe: bool = False  # make the edits, too, that need somebody's word
    precision: str = "keep"  # the script's own autocast and GradScaler; or "managed", by the accelerator

    def chooses(self, rule: str) -> bool:
        """Whether a rule that is not part of every conversion takes part."""
        return rule not in self.ignore and (not self.select or rule in self.select)
