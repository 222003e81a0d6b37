"""Recording what an unchanged script does: its optimizer steps, data, output, files.

    python -m accelift.recorder [--seed S] [--steps N] OUT SCRIPT [ARGS...]

runs SCRIPT as ``python SCRIPT ARGS...`` would and writes ``OUT/<rank>.jsonl``, a line for every event.
``accelift verify`` compares such recordings.  What is recorded, and by which hook:

* :mod:`~accelift.recorder.steps`: losses, gradients and parameters of every optimizer step;
* :mod:`~accelift.recorder.loaders`: which samples every loader dealt;
* :mod:`~accelift.recorder.outputs`: what was printed, logged, saved and written;
* :mod:`~accelift.recorder.chance`: seeds, whether a training step draws random numbers or normalizes over its
  batch, and doing without both.
"""

from __future__ import annotations
