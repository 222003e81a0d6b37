"""Profiling with torch, one trace for each process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from accelift.dataclasses import KwargsHandler
from accelift.state import PartialState

TRACE_NAME = "profile_{suffix}.json"


@dataclass(eq=False, repr=False)
class ProfileKwargs(KwargsHandler):
    """Arguments of ``torch.profiler.profile``, used by :meth:`Accelerator.profile`; see there.

    Args:
        activities: what to record: ``"cpu"``, ``"cuda"`` or another kind of device; by default all
            that there is.
        schedule_option: arguments of ``torch.profiler.schedule``.
        on_trace_ready: called with the profiler when a cycle of the schedule is done.
        record_shapes: record the shapes of the inputs of operators.
        profile_memory: record how much memory operators take and free.
        with_stack: record which line called an operator.
        with_flops: estimate the floating point operations.
        with_modules: record which module called an operator.
        output_trace_dir: a folder for the traces, in the format of Chrome: ``profile_<rank>.json``.
    """

    activities: Sequence[str] | None = None
    schedule_option: dict[str, int] | None = None
    on_trace_ready: Callable[..., Any] | None = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    output_trace_dir: str | None = None

    def build(self) -> torch.profiler.profile:
        """The profiler, not yet started.

        Raises:
            ValueError: for an activity that cannot be recorded here.
        """
        kwargs = self.to_kwargs()
        kwargs.pop("output_trace_dir", None)
        schedule = kwargs.pop("schedule_option", None)
        if schedule is not None:
            kwargs["schedule"] = torch.profiler.schedule(**schedule)
        if self.activities is not None:
            kwargs["activities"] = [_activity(name) for name in self.activities]
        return torch.profiler.profile(**kwargs)


def _activity(name: str) -> torch.profiler.ProfilerActivity:
    here = torch.profiler.supported_activities()  # type: ignore[no-untyped-call]
    possible: dict[str, torch.profiler.ProfilerActivity] = {activity.name.lower(): activity for activity in here}
    if name.lower() not in possible:
        raise ValueError(
            f"ProfileKwargs(activities=[{name!r}]) is not possible: {', '.join(sorted(possible))} can be recorded here."
        )
    return possible[name.lower()]


@contextmanager
def profile(handler: ProfileKwargs, state: PartialState) -> Iterator[torch.profiler.profile]:
    """Profile the block; write this process's trace at its end if there is a folder for it."""
    folder = None if handler.output_trace_dir is None else Path(handler.output_trace_dir)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with handler.build() as profiler:
        yield profiler
    if folder is not None:
        profiler.export_chrome_trace(str(folder / TRACE_NAME.format(suffix=state.process_index)))
        state.wait_for_everyone()
