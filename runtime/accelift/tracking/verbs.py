"""The verbs of the Accelerator that log to trackers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from accelift.state import PartialState
from accelift.tracking.base import GeneralTracker
from accelift.tracking.trackers import Trackers


class TrackerVerbs:
    """What an Accelerator logs, and where to."""

    state: PartialState
    _trackers: Trackers

    @property
    def log_with(self) -> list[str | GeneralTracker]:
        """The trackers that were asked for: names, and trackers that the script made."""
        return self._trackers.wanted

    @property
    def trackers(self) -> list[GeneralTracker]:
        """The trackers that run; none on all processes but the main one."""
        return self._trackers.running

    def init_trackers(
        self,
        project_name: str,
        config: Mapping[str, Any] | None = None,
        init_kwargs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Begin a run with all trackers of ``log_with``, on the main process.

        Where one runs already, it is ended first.

        Args:
            project_name: what the trackers call it.
            config: the configuration of the run, such as its hyperparameters.
            init_kwargs: arguments for the trackers, by their names: ``{"wandb": {"tags": [...]}}``.
        """
        self._trackers.start(project_name, config, init_kwargs or {})

    def log(
        self,
        values: Mapping[str, Any],
        step: int | None = None,
        log_kwargs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Log values to all trackers, on the main process; without ``log_with``, nothing happens.

        The values are those of the main process: nothing is asked of the others.

        Args:
            values: numbers (also in tensors), texts, or what else the trackers know, by name.
            step: the step of the run that they belong to.
            log_kwargs: arguments for the trackers' ``log``, by their names.

        Raises:
            RuntimeError: before :meth:`init_trackers` or after :meth:`end_training`.
            TypeError: if the values have no names.
        """
        self._trackers.log(values, step, log_kwargs or {})

    def get_tracker(self, name: str, unwrap: bool = False) -> Any:
        """The tracker of this name; where nothing is logged, one that does nothing.

        Args:
            name: its name.
            unwrap: give what is behind it, for instance the run of wandb.

        Raises:
            RuntimeError: before :meth:`init_trackers` or after :meth:`end_training`.
            ValueError: if ``log_with`` has none of this name.
        """
        tracker = self._trackers.get(name)
        return tracker.tracker if unwrap else tracker

    def end_training(self) -> None:
        """End the run of all trackers, and leave the process group: the last call of a script."""
        with ExitStack() as stack:
            stack.callback(self.state.destroy_process_group)
            stack.callback(self._trackers.finish)
