"""Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from accelift.tracking.base import GeneralTracker, on_main_process
from accelift.tracking.values import number


class WandBTracker(GeneralTracker):
    """Logs to a run of Weights & Biases, which ends, and knows how, also where a script fails.

    Args:
        run_name: the project that the run is in.
        kwargs: passed on to ``wandb.init``.

    Attributes:
        run: the run, also called ``tracker``.
    """

    name = "wandb"
    requires_logging_directory = False
    main_process_only = False
    packages = ("wandb",)

    run: Any

    def __init__(self, run_name: str, **kwargs: Any) -> None:
        super().__init__()
        self.run_name = run_name
        self.init_kwargs = kwargs

    @property
    def tracker(self) -> Any:
        """The run."""
        return self.run

    @on_main_process
    def start(self) -> None:
        """Begin the run."""
        # By its name, as this module is called the same.
        self._wandb = import_module("wandb")
        self.run = self._wandb.init(project=self.run_name, **self.init_kwargs)

    @on_main_process
    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Update the configuration of the run."""
        self.run.config.update(values, allow_val_change=True)

    @on_main_process
    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Log values, which may be whatever wandb knows; ``kwargs`` go to ``Run.log``."""
        self.run.log({name: number(value) for name, value in values.items()}, step=number(step), **kwargs)

    @on_main_process
    def log_images(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Log lists of images by name."""
        shown = {name: [self._wandb.Image(image) for image in images] for name, images in values.items()}
        self.log(shown, step, **kwargs)

    @on_main_process
    def log_table(
        self,
        table_name: str,
        columns: list[str] | None = None,
        data: list[list[Any]] | None = None,
        dataframe: Any = None,
        step: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Log a table, given as ``columns`` and ``data`` or as a ``dataframe``."""
        table = self._wandb.Table(columns=columns, data=data, dataframe=dataframe)
        self.log({table_name: table}, step, **kwargs)

    @on_main_process
    def finish(self) -> None:
        """End the run."""
        self.run.finish()
