"""Writing the state of a training run into a folder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from accelift.checkpoint import process, safetensors
from accelift.checkpoint.files import naming, write_state, write_tensors
from accelift.checkpoint.folder import Staging
from accelift.checkpoint.meeting import Meeting
from accelift.checkpoint.run import BUFFERS, GRADIENTS, OBJECT, OPTIMIZER, OWN, SCALER, SCHEDULER, Run
from accelift.checkpoint.weights import NAME, SAFE_NAME, numbered, state_dict_of

Weights = list[dict[str, Any]]


_ALONE = (
    "save_state was called on the main process alone, so the random generators and places in loops of the others are "
    "not in {}; call it on every process, not under `if accelerator.is_main_process:`."
)


class Saving:
    """One save of a run, on this process.

    Args:
        run: what to save.
        target: the folder of the checkpoint.
        is_new: whether nothing must be there.
        each_node: whether every machine gets a checkpoint of its own.
        safe: write weights as safetensors.
        durable: wait for the disk.
        hook: is called with the weights and the folder that they are about to be written into.

    Attributes:
        writes: whether this process writes what all of them have.
    """

    def __init__(
        self,
        run: Run,
        target: Path,
        is_new: bool,
        each_node: bool,
        safe: bool,
        durable: bool,
        hook: Callable[[Weights, Path], None],
    ) -> None:
        self._run = run
        self._target = target
        self._is_new = is_new
        self._each_node = each_node
        self._safe = safe
        self._durable = durable
        self._hook = hook
        state = run.state
        self.writes = state.is_local_main_process if each_node else state.is_main_process

    def save(self, facts: Mapping[str, Any]) -> bool:
        """Save; on all processes, or on the main one alone if the others do not come.

        Args:
            facts: what the manifest tells besides those of the run.

        Returns:
            Whether this process took part.

        Raises:
            OSError: on every process, if the checkpoint cannot be written anywhere.
            ValueError: on every process, if something is there already, or a state cannot be saved.
            RuntimeError: if another process failed with another error.
        """
        self._meeting = Meeting(self._run.state, "save_state")
        replaces = self._target.exists()
        note = {"replaces": replaces, "buffers": self._digests(), "target": str(self._target)}
        opened = self._meeting.open(note)
        if opened is None:
            return False
        # Processes may each have a folder of their own, made by tempfile for instance.
        elsewhere = opened["target"] != note["target"]
        self.writes = self.writes or elsewhere
        together = [
            rank for rank, other in enumerate([note, *self._meeting.others]) if other["target"] == note["target"]
        ]
        self._here = [self._run.state.process_index] if elsewhere or self._each_node else together
        staging = Staging(self._target, replaces if self._each_node or elsewhere else opened["replaces"])
        try:
            self._together(lambda: self._begin(staging) if self.writes else None)
            self._together(lambda: self._write(staging, opened["buffers"]))
            self._together(lambda: self._finish(staging, facts) if self.writes else None)
        except BaseException:
            if self.writes:
                staging.discard()
            raise
        if self._meeting.alone and self._run.state.use_distributed:
            warnings.warn(_ALONE.format(self._target), stacklevel=3)
        return True

    def _together(self, act: Callable[[], None]) -> None:
        """Do something, after which all processes know whether all of them could."""
        failure: Exception | None = None
        try:
            with naming(self._target):
                act()
        except Exception as error:
            failure = error
        failure = self._meeting.agree(failure)
        if failure is not None:
            raise failure

    def _begin(self, staging: Staging) -> None:
        if self._is_new and self._target.exists():
            raise ValueError(
                f"{self._target} exists already; load the newest checkpoint with load_state() first, or say with "
                "ProjectConfiguration(iteration=...) where to go on."
            )
        staging.begin()

    def _write(self, staging: Staging, main_digests: Sequence[int]) -> None:
        staging.join()
        run, folder = self._run, staging.path
        weights = [state_dict_of(model) for model in run.models]
        self._hook(weights, folder)
        self._weights = len(weights)
        self._write_own(folder, main_digests)
        if not self.writes:
            return
        with ThreadPoolExecutor(1) as beside:  # writing is copying into the system's memory: two cores are faster
            tensors = beside.submit(self._write_weights, weights, folder, safe=True)
            self._write_weights(weights, folder, safe=False)
            self._write_states(folder)
            tensors.result()

    def _write_weights(self, weights: Weights, folder: Path, safe: bool) -> None:
        """Write those state dicts that are to be safetensors, or those that are not."""
        for number, state in enumerate(weights):
            if safe != (self._safe and safetensors.fits(state.values())):
                continue
            if safe:
                write_tensors(state, folder / numbered(SAFE_NAME, number))
            else:
                write_state(dict(state), folder / numbered(NAME, number), f"model {number}")

    def _write_states(self, folder: Path) -> None:
        run = self._run
        for number, optimizer in enumerate(run.optimizers):
            write_state(optimizer.state_dict(), folder / numbered(OPTIMIZER, number), type(optimizer).__name__)
        for number, scheduler in enumerate(run.schedulers):
            write_state(scheduler.state_dict(), folder / numbered(SCHEDULER, number), type(scheduler).__name__)
        for number, item in enumerate(run.objects):
            write_state(item.state_dict(), folder / OBJECT.format(number), type(item).__name__)
        if run.scaler is not None:
            write_state(run.scaler.state_dict(), folder / SCALER, "the loss scaler")

    def _write_own(self, folder: Path, main_digests: Sequence[int]) -> None:
        """Write what this process alone has."""
        run, rank = self._run, self._run.state.process_index
        own = {
            "generators": process.generators_of(run.state.device, not run.state.use_distributed),
            "progress": process.progress_of(run.gradient_state, run.models, run.optimizers),
            "loaders": [loader.state_dict() for loader in run.loaders],
        }
        write_state(own, folder / OWN.format(rank), "a loader")
        gradients = process.gradients_of(run.optimizers, run.gradient_state)
        if any(gradients):
            write_state(gradients, folder / GRADIENTS.format(rank), "a gradient")
        if rank == 0:
            return
        pairs = enumerate(zip(self._digests(), main_digests, strict=True))
        buffers = {number: process.buffers_of(run.models[number]) for number, (ours, main) in pairs if ours != main}
        if buffers:
            write_state(buffers, folder / BUFFERS.format(rank), "a buffer")

    def _digests(self) -> list[int]:
        """Checksums of what may differ from process to process."""
        several = self._run.state.use_distributed
        return [process.digest(process.buffers_of(model)) for model in self._run.models] if several else []

    def _finish(self, staging: Staging, facts: Mapping[str, Any]) -> None:
        for one in self._here:
            if not (staging.path / OWN.format(one)).exists():
                raise OSError(
                    None,
                    f"what process {one} has written is not there; save to a folder that all machines share, or let "
                    "each have its own with ProjectConfiguration(save_on_each_node=True)",
                )
        staging.finish({**self._run.facts(), "models": self._weights, **facts}, self._durable)
