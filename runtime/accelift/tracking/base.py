"""What every tracker does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from accelift.state import PartialState

P = ParamSpec("P")
R = TypeVar("R")


def on_main_process(method: Callable[P, R]) -> Callable[P, R | None]:
    """Decorator for methods of a tracker that run on the main process only.

    Elsewhere they return ``None``, unless the tracker's ``main_process_only`` is ``False``.  Which
    process this is gets asked when the method is called.
    """

    @wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        if getattr(args[0], "main_process_only", False) and not PartialState().is_main_process:
            return None
        return method(*args, **kwargs)

    return guarded


class GeneralTracker:
    """The base of all trackers; derive your own from it and give an instance to ``log_with``.

    A tracker has a :attr:`name`, a :attr:`requires_logging_directory` and a property
    :attr:`tracker`, and calls ``super().__init__()``.  What an Accelerator logs reaches it on the
    main process only.

    Attributes:
        name: what ``log_with``, ``init_kwargs``, ``log_kwargs`` and ``get_tracker`` call it.
        requires_logging_directory: whether it writes to the Accelerator's ``logging_dir``.
        tracker: the object that is behind it, for what only that can do.
        main_process_only: whether methods under :func:`on_main_process` are for the main process
            only, when the tracker is used without an Accelerator.
        packages: the packages one of which is needed; none is if it is empty.

    Raises:
        NotImplementedError: for a tracker that lacks one of the first three.
    """

    name: str
    requires_logging_directory: bool
    main_process_only = True
    packages: tuple[str, ...] = ()

    if TYPE_CHECKING:

        @property
        def tracker(self) -> Any: ...

    def __init__(self, _blank: bool = False) -> None:
        missing = [name for name in ("name", "requires_logging_directory", "tracker") if name not in dir(self)]
        if missing and not _blank:
            raise NotImplementedError(f"{type(self).__name__} is a tracker and must define {', '.join(missing)}.")

    def start(self) -> None:
        """Begin a run; called by :meth:`Accelerator.init_trackers`."""

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Keep the configuration of the run, such as its hyperparameters."""

    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Log values by name.

        Args:
            values: numbers, texts, or what else the tracker knows.
            step: the step of the run that they belong to.
            kwargs: passed on to what is behind the tracker.
        """

    def finish(self) -> None:
        """End the run; called by :meth:`Accelerator.end_training`."""


class ElsewhereTracker(GeneralTracker):
    """Stands for a tracker where nothing is logged, as on all processes but the main one.

    It takes any call and has any attribute, and does nothing.
    """

    def __init__(self) -> None:
        super().__init__(_blank=True)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return self

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self
