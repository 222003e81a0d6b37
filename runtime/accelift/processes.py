"""The verbs about the processes of the job, and about what they tell each other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, ParamSpec, TypeVar

import torch

from accelift import metrics, operations
from accelift.collective import Collective
from accelift.dataclasses import DistributedType
from accelift.state import GradientState, PartialState

P = ParamSpec("P")
R = TypeVar("R")


class ProcessVerbs:
    """What an Accelerator says of the processes and lets them say to each other."""

    state: PartialState
    gradient_state: GradientState
    _trigger: bool = False

    # For scripts that ask before they use what is not offered here.
    deepspeed_plugin: ClassVar[None] = None
    parallelism_config: ClassVar[None] = None
    is_fsdp2: ClassVar[bool] = False

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self.state.device

    @property
    def distributed_type(self) -> DistributedType:
        """What kind of job the processes form."""
        return self.state.distributed_type

    @property
    def use_distributed(self) -> bool:
        """Whether there are other processes."""
        return self.state.use_distributed

    @property
    def multi_device(self) -> bool:
        """Whether there are other processes; the same as :attr:`use_distributed`."""
        return self.state.use_distributed

    @property
    def num_processes(self) -> int:
        """How many processes there are."""
        return self.state.num_processes

    @property
    def process_index(self) -> int:
        """The index of this process in the job."""
        return self.state.process_index

    @property
    def local_process_index(self) -> int:
        """The index of this process on its machine."""
        return self.state.local_process_index

    @property
    def is_main_process(self) -> bool:
        """Whether this is the first process of the job."""
        return self.state.is_main_process

    @property
    def is_local_main_process(self) -> bool:
        """Whether this is the first process on its machine."""
        return self.state.is_local_main_process

    @property
    def is_last_process(self) -> bool:
        """Whether this is the last process of the job."""
        return self.state.is_last_process

    def wait_for_everyone(self) -> None:
        """Wait until every process has come here."""
        self.state.wait_for_everyone()

    def main_process_first(self) -> AbstractContextManager[None]:
        """See :meth:`PartialState.main_process_first`."""
        return self.state.main_process_first()

    def local_main_process_first(self) -> AbstractContextManager[None]:
        """See :meth:`PartialState.local_main_process_first`."""
        return self.state.local_main_process_first()

    def on_main_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorator: run on the main process only; elsewhere return ``None``."""
        return self.state.on_main_process(function)

    def on_local_main_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorator: run on the first process of each machine only; elsewhere return ``None``."""
        return self.state.on_local_main_process(function)

    def on_last_process(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Decorator: run on the last process only; elsewhere return ``None``."""
        return self.state.on_last_process(function)

    def on_process(
        self, function: Callable[..., Any] | None = None, process_index: int | None = None
    ) -> Callable[..., Any]:
        """Decorator: run on the process of this index only, or on the only one; elsewhere return ``None``."""
        return self.state.on_process(function, process_index)

    def on_local_process(
        self, function: Callable[..., Any] | None = None, local_process_index: int | None = None
    ) -> Callable[..., Any]:
        """Decorator: run on the process of this index on each machine, or the only one; elsewhere return ``None``."""
        return self.state.on_local_process(function, local_process_index)

    def split_between_processes(self, inputs: Any, apply_padding: bool = False) -> AbstractContextManager[Any]:
        """See :meth:`PartialState.split_between_processes`."""
        return self.state.split_between_processes(inputs, apply_padding)

    def print(self, *args: Any, **kwargs: Any) -> None:
        """``print`` on the main process of the whole job only."""
        self.state.print(*args, **kwargs)

    def gather(self, tensor: Any) -> Any:
        """See :func:`accelift.operations.gather`."""
        return operations.gather(tensor)

    def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False) -> Any:
        """What one process would have at this point of the loop, on every process.

        Each sample of the current batch is there once, in the order of one process, however the
        batch was dealt.

        Args:
            input_data: this process's part: tensors, lists of objects, and containers of these.
                Outside of a loop over a prepared loader the parts are joined as they are.
            use_gather_object: treat the whole of it as a list of objects, one for each sample,
                for instance tensors of different shapes.

        Raises:
            TypeError: if there is an object that is not in a list.
        """
        return metrics.gather_for_metrics(input_data, self.gradient_state.rows, self.state, use_gather_object)

    def reduce(self, tensor: Any, reduction: str = "sum", scale: float = 1.0) -> Any:
        """See :func:`accelift.operations.reduce`."""
        return operations.reduce(tensor, reduction, scale)

    def batch_mean(self, tensor: Any) -> Any:
        """The mean over the samples of the current batch, of which each process has that of its share.

        Where shares differ in size, as those of a smaller last batch do, the mean of the processes'
        means is another number; this weighs them as :meth:`backward` weighs losses.  A collective
        operation; on one process it returns the tensor itself.

        Args:
            tensor: a mean over this process's samples of the batch that a prepared loader (or
                ``split_batch``) dealt last, for instance a loss, also after its loop; or a container of such means.

        Raises:
            RuntimeError: if a process was dealt nothing of this batch, and so is not here.
            ValueError: for tensors of whole numbers.
        """
        return metrics.batch_mean(tensor, self.gradient_state, self.state)

    def broadcast(self, tensor: Any, from_process: int = 0) -> Any:
        """See :func:`accelift.operations.broadcast`."""
        return operations.broadcast(tensor, from_process)

    def pad_across_processes(self, tensor: Any, dim: int = 0, pad_index: float = 0, pad_first: bool = False) -> Any:
        """See :func:`accelift.operations.pad_across_processes`."""
        return operations.pad_across_processes(tensor, dim, pad_index, pad_first)

    def set_trigger(self) -> None:
        """Have the next :meth:`check_trigger` return ``True`` on every process."""
        self._trigger = True

    def check_trigger(self) -> bool:
        """Whether any process called :meth:`set_trigger` since the last check.

        A collective operation: every process must check.
        """
        triggered, self._trigger = self._trigger, False
        if not self.use_distributed:
            return triggered
        with Collective("check_trigger", self.state):
            return bool(operations.reduce(torch.tensor(int(triggered), device=self.device), "max").item())
