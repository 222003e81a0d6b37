"""Where an Accelerator stands in its loops, and whether gradients are due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from accelift.dataclasses import GradientAccumulationPlugin

if TYPE_CHECKING:
    from accelift.data.loader import PreparedLoader
    from accelift.data.preparation import LoaderPass
    from accelift.data.share import Share


class GradientState:
    """Where an Accelerator stands: in which loader, and whether gradients are due.

    Every Accelerator has its own.  ``GradientState()`` is that of the newest one.

    Args:
        gradient_accumulation_plugin: given by the Accelerator.

    Attributes:
        plugin: when optimizer steps are due.
        sync_gradients: whether this micro-batch ends with an optimizer step, before which
            gradients are averaged over the processes.
        step: micro-batches counted so far.
        backwards: how often gradients were computed.
        factor: what the last loss was multiplied by, so that its average over the processes is that of the batch.
        passes: the loaders being iterated; the one that dealt last comes last.
        deals_batches: whether a loader was prepared that gives the processes different batches.
        by_hand: how the newest batch was shared out, if no loader dealt it but ``split_batch``.
        left: how the last batch of the loop that ended last was dealt; ``None`` once another batch is.
        warned_of_shares: whether the user knows of loaders that deal different shares.
    """

    _newest: ClassVar[dict[str, Any] | None] = None

    plugin: GradientAccumulationPlugin
    sync_gradients: bool
    step: int
    backwards: int
    factor: float
    passes: list[LoaderPass]
    deals_batches: bool
    by_hand: Share | None
    left: Share | None
    warned_of_shares: bool
    _of_accelerator: bool
    _group: int | None

    def __init__(self, gradient_accumulation_plugin: GradientAccumulationPlugin | None = None) -> None:
        newest = GradientState._newest
        # One that was made before there was an Accelerator becomes that of the first.
        if newest is not None and (gradient_accumulation_plugin is None or not newest["_of_accelerator"]):
            self.__dict__ = newest
        else:
            self.plugin = GradientAccumulationPlugin(num_steps=1)
            self.sync_gradients = True
            self.step = 0
            self.backwards = 0
            self.factor = 1.0
            self.passes = []
            self.deals_batches = False
            self.by_hand = None
            self.left = None
            self.warned_of_shares = False
            self._of_accelerator = False
            self._group = None
            GradientState._newest = self.__dict__
        if gradient_accumulation_plugin is not None:
            self.plugin = gradient_accumulation_plugin
            self._of_accelerator = True

    @classmethod
    def _reset_state(cls) -> None:
        """Forget which one is the newest; Accelerators keep theirs."""
        cls._newest = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "passes": []}  # the loops are this process's

    def __repr__(self) -> str:
        return (
            f"GradientState(sync_gradients={self.sync_gradients}, end_of_dataloader={self.end_of_dataloader}, "
            f"remainder={self.remainder}, {self.plugin})"
        )

    @property
    def num_steps(self) -> int:
        """Micro-batches per optimizer step."""
        return self.plugin.num_steps

    @property
    def divisor(self) -> int:
        """What the loss of the current micro-batch is divided by."""
        return self._group or self.plugin.num_steps

    @property
    def adjust_scheduler(self) -> bool:
        """Whether schedulers count the micro-batches that only accumulate."""
        return self.plugin.adjust_scheduler

    @property
    def sync_with_dataloader(self) -> bool:
        """Whether the last batch of a loader ends with an optimizer step in any case."""
        return self.plugin.sync_with_dataloader and not self.plugin.carry_over

    @property
    def plugin_kwargs(self) -> dict[str, Any]:
        """The plugin's settings that differ from the defaults."""
        return self.plugin.to_kwargs()

    @property
    def current(self) -> LoaderPass | None:
        """The pass that dealt the current batch, or ``None`` outside of any prepared loader."""
        return self.passes[-1] if self.passes else None

    @property
    def share(self) -> Share | None:
        """How the current batch was dealt, or ``None`` if it was not."""
        return self.by_hand or (self.passes[-1].share if self.passes else None)

    @property
    def rows(self) -> Share | None:
        """How rows at hand are shared out; ``None`` where only each process knows how many it has.

        Those after a loop may be of that loop, though another pass is still open, and have been dealt evenly.
        """
        share = self.share
        perhaps_others = self.left is not None and self.by_hand is None
        return None if share is not None and share.even and perhaps_others else share

    @property
    def active_dataloader(self) -> PreparedLoader | None:
        """The prepared loader that dealt the current batch."""
        return self.passes[-1].loader if self.passes else None

    @property
    def dataloader_references(self) -> list[PreparedLoader | None]:
        """The prepared loaders being iterated, after a ``None`` that stands for there being none."""
        return [None, *(one.loader for one in self.passes)]

    @property
    def in_dataloader(self) -> bool:
        """Whether a prepared loader is being iterated."""
        return bool(self.passes)

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the current batch is the last one of its loader."""
        return bool(self.passes) and self.passes[-1].end_of_dataloader

    @property
    def remainder(self) -> int:
        """How many samples of the current batch count, of all processes together, if it was padded with others.

        0 where none were added, -1 outside of any prepared loader.
        """
        current = self.current
        if current is None:
            return -1
        return sum(current.share.counts) if current.share is not None and current.share.padded else 0

    def count_micro_batch(self) -> None:
        """Count one more micro-batch and decide whether it ends with an optimizer step."""
        plugin, current = self.plugin, self.current
        per_pass = plugin.sync_with_dataloader or plugin.carry_over
        if per_pass and current is not None and not current.counted:
            # A new pass starts to count anew, also where the last one was left early.
            current.counted = True
            self.step = current.skipped
        if plugin.average_leftover and self.step % plugin.num_steps == 0:
            self._group = None if current is None else current.batches_left(plugin.num_steps)
        self.step += 1
        self.sync_gradients = self.step % plugin.num_steps == 0
        if not self.sync_gradients and self.sync_with_dataloader and self.end_of_dataloader:
            self.sync_gradients = True
            self.step = 0

    def _set_sync_gradients(self, sync_gradients: bool) -> None:
        """Decide by hand whether gradients are due, as training loops of other libraries do."""
        self.sync_gradients = sync_gradients
