"""The verbs about loaders."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, IterableDataset

from accelift.arguments import check_type
from accelift.dataclasses import DataLoaderConfiguration
from accelift.registry import Registry
from accelift.state import GradientState, PartialState

if TYPE_CHECKING:
    from accelift.data.loader import PreparedLoader


class LoaderVerbs:
    """How an Accelerator deals batches."""

    state: PartialState
    gradient_state: GradientState
    registry: Registry
    device_placement: bool
    dataloader_config: DataLoaderConfiguration
    rng_types: Sequence[str] | None

    @property
    def split_batches(self) -> bool:
        """Whether the batches of the script are shared out, so that the global batch is kept."""
        return self.dataloader_config.split_batches

    @property
    def dispatch_batches(self) -> bool | None:
        """Whether the main process reads for all."""
        return self.dataloader_config.dispatch_batches

    @property
    def even_batches(self) -> bool | str:
        """What happens where batches cannot be dealt evenly."""
        from accelift.data.samplers import evenness

        even = evenness(self.dataloader_config.even_batches, self.split_batches)
        return "exact" if even is None else even

    @property
    def use_seedable_sampler(self) -> bool:
        """Whether loaders shuffle by a seed and the number of the epoch."""
        return self.dataloader_config.use_seedable_sampler

    @property
    def non_blocking(self) -> bool:
        """Whether batches are copied to the device without waiting."""
        return self.dataloader_config.non_blocking

    @property
    def use_stateful_dataloader(self) -> bool:
        """Whether a loop over a loader whose state was loaded goes on where that was taken."""
        return self.dataloader_config.use_stateful_dataloader

    def prepare_data_loader(
        self,
        data_loader: DataLoader[Any],
        device_placement: bool | None = None,
        slice_fn_for_dispatch: None = None,
    ) -> PreparedLoader:
        """A copy of the loader that deals this process its part of each batch, on its device.

        Args:
            data_loader: the author's loader.
            device_placement: whether to move batches; by default as the Accelerator does.
            slice_fn_for_dispatch: must be left out: batches are not cut, but made for each process.

        Raises:
            TypeError: if it is not a ``DataLoader``.
            ValueError: if it cannot be dealt as ``dataloader_config`` asks.
        """
        from accelift.data.prepare import Target, prepare

        check_type("prepare_data_loader", data_loader, DataLoader)
        if slice_fn_for_dispatch is not None:
            raise ValueError(
                "prepare_data_loader(slice_fn_for_dispatch=...) is not offered: batches are not cut, but made for "
                "each process; give the DataLoader a collate_fn instead."
            )
        places = self.device_placement if device_placement is None else device_placement
        target = Target(
            self.state.process_index,
            self.state.num_processes,
            self.state.device if places else None,
            tuple(self.rng_types or ()),
        )
        prepared = prepare(data_loader, self.dataloader_config, self.gradient_state, target)
        self.registry.loaders.add(prepared)
        self.registry.streams = self.registry.streams or isinstance(data_loader.dataset, IterableDataset)
        return prepared

    def split_batch(self, *batch: Any) -> Any:
        """This process's rows of a batch that the script makes itself, without a loader.

        The batch is the one that the main process made.  :meth:`backward` weights the shares as it
        does those of a prepared loader.

        Args:
            batch: tensors, arrays or lists, all with a row for each sample of the batch.

        Returns:
            A tuple in the order of the arguments, or the one itself if there is only one.

        Raises:
            TypeError: if something has no rows.
            ValueError: if nothing is given, or the numbers of rows differ.
        """
        if not batch:
            raise ValueError("split_batch was given nothing to share out.")
        if self.state.use_distributed:
            from accelift.data.handmade import split_batch

            batch = split_batch(batch, self.gradient_state, self.state)
        return batch[0] if len(batch) == 1 else batch

    def skip_first_batches(self, dataloader: DataLoader[Any], num_batches: int = 0) -> PreparedLoader:
        """See :func:`accelift.data_loader.skip_first_batches`."""
        from accelift.data_loader import skip_first_batches

        return skip_first_batches(dataloader, num_batches)

    def join_uneven_inputs(
        self, joinables: Sequence[Any], even_batches: bool | None = None
    ) -> AbstractContextManager[None]:
        """See :func:`accelift.join.join_uneven_inputs`."""
        from accelift.join import join_uneven_inputs

        even = self.even_batches is not False if even_batches is None else even_batches
        return join_uneven_inputs(joinables, self.registry, self.state, even, override=even_batches is not None)
