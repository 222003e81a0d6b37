"""Runs fixtures, and scripts like them, in forks."""

from __future__ import annotations

import os
from pathlib import Path

from fixtures.runs import FIXTURES, Failed, Run
from tests.forks import Forks, Order, ranks
from tests.ports import free_port

SECONDS = 300.0


class Runner:
    """Runs scripts as `fixtures.runs.run` does; what they compute is the same."""

    def __init__(self, forks: Forks) -> None:
        self._forks = forks

    def __call__(self, script: Path, trace: Path, cwd: Path, processes: int | None = None) -> Run:
        """Run a script under the recorder; `processes` are as the launcher would start them.

        Raises:
            Failed: it did not end with exit code 0.
        """
        said, errors = (trace.with_name(f"{trace.name}.{kind}") for kind in ("stdout", "stderr"))
        launched = (
            [{}]
            if processes is None
            else [{**variables, "ACCELERATE_USE_CPU": "true"} for variables in ranks(processes, free_port())]
        )
        order = Order(
            arguments=("-m", "accelift.trace", "--tensors", str(trace), str(script.resolve())),
            cwd=str(cwd),
            outputs=((str(said), str(errors)),) * len(launched),
            environments=tuple({**_environment(), **variables} for variables in launched),
            seconds=SECONDS,
            grace=5.0,
        )
        ended = self._forks.run(order)
        out, err = (path.read_text(errors="replace") for path in (said, errors))
        if ended.failed or ended.late:
            how = "did not end" if ended.late else f"ended with exit code {ended.failed}"
            raise Failed(f"{script.name} {how}:\n{(out + err)[-3000:]}")
        return Run(trace.resolve(), out)


def _environment() -> dict[str, str]:
    paths = [str(FIXTURES.parent / "runtime"), os.environ.get("PYTHONPATH")]
    ours = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return {**os.environ, **ours}
