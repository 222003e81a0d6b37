"""TensorBoard, through torch or through tensorboardX."""

from __future__ import annotations

import atexit
import os
import time
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from accelift.tracking.base import GeneralTracker, on_main_process
from accelift.tracking.values import number, plain


class TensorBoardTracker(GeneralTracker):
    """Writes event files to ``<logging_dir>/<run_name>``.

    Numbers are scalars, texts are texts, and a dict of numbers is one chart.  What TensorBoard has
    no chart for is left out, with a warning once for each name.  Events are on disk when ``log``
    returns.

    Args:
        run_name: the name of the run.
        logging_dir: the folder of the runs.
        kwargs: passed on to ``SummaryWriter``.

    Attributes:
        writer: the ``SummaryWriter``, also called ``tracker``.
        logging_dir: the folder of this run.
    """

    name = "tensorboard"
    requires_logging_directory = True
    packages = ("tensorboard", "tensorboardX")

    writer: Any
    logging_dir: str

    def __init__(self, run_name: str, logging_dir: str | os.PathLike[str], **kwargs: Any) -> None:
        super().__init__()
        self.run_name = run_name
        self.logging_dir = str(Path(logging_dir, run_name))
        self.init_kwargs = kwargs
        self._left_out: set[str] = set()

    @property
    def tracker(self) -> Any:
        """The ``SummaryWriter``."""
        return self.writer

    @on_main_process
    def start(self) -> None:
        """Open the ``SummaryWriter``."""
        try:
            module = import_module("torch.utils.tensorboard")
        except ModuleNotFoundError:
            module = import_module("tensorboardX")
        self.writer = module.SummaryWriter(self.logging_dir, **self.init_kwargs)
        # Images and the like that a script gives to the writer itself wait in its queue.
        atexit.register(self.writer.close)

    @on_main_process
    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Log the hyperparameters, and write them to a ``hparams.yml`` in a folder of their own."""
        kept = plain(values)
        shown = {
            name: value if isinstance(value, (bool, int, float, str)) else str(value) for name, value in kept.items()
        }
        self.writer.add_hparams(shown, metric_dict={})
        self.writer.flush()
        folder = Path(self.logging_dir, str(time.time()))
        folder.mkdir(parents=True)
        (folder / "hparams.yml").write_text(yaml.safe_dump(kept), encoding="utf-8")

    @on_main_process
    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Log values; ``kwargs`` go to ``add_scalar``, ``add_text`` or ``add_scalars``."""
        step = number(step)
        for name, value in values.items():
            value = number(value)
            if isinstance(value, (bool, int, float)):
                self.writer.add_scalar(name, value, global_step=step, **kwargs)
            elif isinstance(value, str):
                self.writer.add_text(name, value, global_step=step, **kwargs)
            elif isinstance(value, Mapping):
                several = {key: number(one) for key, one in value.items()}
                self.writer.add_scalars(name, several, global_step=step, **kwargs)
            elif name not in self._left_out:
                self._left_out.add(name)
                warnings.warn(
                    f"TensorBoard shows numbers and texts: {name!r}, a {type(value).__name__}, is left out of log; "
                    "use get_tracker('tensorboard').writer for others.",
                    stacklevel=5,
                )
        self.writer.flush()

    @on_main_process
    def log_images(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Log batches of images by name; ``kwargs`` go to ``SummaryWriter.add_images``."""
        for name, images in values.items():
            self.writer.add_images(name, images, global_step=step, **kwargs)
        self.writer.flush()

    @on_main_process
    def finish(self) -> None:
        """Close the ``SummaryWriter``."""
        self.writer.close()
        atexit.unregister(self.writer.close)
