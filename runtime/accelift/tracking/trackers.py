"""The trackers of an Accelerator, from the first to the last line that is logged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from accelift.tracking.base import ElsewhereTracker, GeneralTracker
from accelift.tracking.choice import filter_trackers, tracker_class


class Trackers:
    """What ``log_with`` asks for, and what runs of it: only ever on the main process.

    A copy, for instance in a worker of a DataLoader whose dataset knows the Accelerator, logs
    nothing.

    Attributes:
        wanted: names, and trackers that the script made.
        running: the trackers between ``init_trackers`` and ``end_training``.
    """

    def __init__(self, log_with: Any, logging_dir: str | None, is_main_process: bool) -> None:
        self.wanted = filter_trackers(log_with, logging_dir)
        self.running: list[GeneralTracker] = []
        self._logging_dir = logging_dir
        self._here = is_main_process

    def __reduce__(self) -> Any:
        return Trackers, (None, None, False)

    def start(
        self, project_name: str, config: Mapping[str, Any] | None, init_kwargs: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Begin a run with every tracker, after ending the run before."""
        self.finish()
        if not self._here:
            return
        for one in self.wanted:
            if isinstance(one, GeneralTracker):
                tracker = one
            else:
                kind = tracker_class(one)
                make: Callable[..., GeneralTracker] = kind
                folder = [self._logging_dir] if kind.requires_logging_directory else []
                tracker = make(project_name, *folder, **init_kwargs.get(one, {}))
            tracker.start()
            self.running.append(tracker)
        if config is not None:
            for tracker in self.running:
                tracker.store_init_configuration(config)

    def log(self, values: Mapping[str, Any], step: int | None, log_kwargs: Mapping[str, Mapping[str, Any]]) -> None:
        """Log to every tracker that runs.

        Raises:
            RuntimeError: if none runs that should.
            TypeError: if the values have no names.
        """
        if not self._here or not self.wanted:
            return
        self._check_running("log")
        if not isinstance(values, Mapping):
            raise TypeError(f"log takes a dict of values by name, not a {type(values).__name__}.")
        for tracker in self.running:
            tracker.log(values, step=step, **log_kwargs.get(tracker.name, {}))

    def get(self, name: str) -> GeneralTracker:
        """The tracker of this name, or one that does nothing where nothing is logged.

        Raises:
            RuntimeError: if none runs.
            ValueError: if there is none of this name.
        """
        if not self.wanted:
            return ElsewhereTracker()
        names = [one.name if isinstance(one, GeneralTracker) else one for one in self.wanted]
        if name not in names:
            raise ValueError(f"get_tracker knows no {name!r}; log_with has {', '.join(names)}.")
        if not self._here:
            return ElsewhereTracker()
        self._check_running("get_tracker")
        return self.running[names.index(name)]

    def finish(self) -> None:
        """End the run of every tracker, also where one fails to."""
        running, self.running = self.running, []
        with ExitStack() as stack:
            for tracker in reversed(running):
                stack.callback(tracker.finish)

    def _check_running(self, verb: str) -> None:
        if not self.running:
            raise RuntimeError(
                f"{verb} was called while no tracker runs: call accelerator.init_trackers(...) first, and "
                "accelerator.end_training() last."
            )
