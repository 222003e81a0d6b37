"""Runs for `accelift verify` that are forked from one process that has imported torch."""

from __future__ import annotations

import signal
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests import forks
from tests.ports import free_port

_GRACE = 5.0  # seconds for the others after one has failed


def files(folder: Path) -> frozenset[tuple[str, str]]:
    """The files below a folder, and a digest of each."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return frozenset((str(path.relative_to(folder)), sha256(path.read_bytes()).hexdigest()) for path in found)


class Runs:
    """Makes runs as `accelift_codemod.verify.runs.execute` does, and remembers those on one process.

    Args:
        server: what makes them.
        folder: for what such runs keep.
    """

    def __init__(self, server: forks.Forks, folder: Path) -> None:
        self._server = server
        self._known: dict[tuple[Any, ...], Any] = {}
        self._folder = folder
        self._kept: dict[tuple[Any, ...], Path] = {}

    def execute(self, order: Any, limits: Any) -> Any:
        """Run a script under the recorder, and wait for it; a run is known by all that it may import or read."""
        if order.processes is not None:
            return self._run(order, limits)
        scratch = str(order.out.parent)
        options = tuple(option.replace(scratch, "") for option in order.options)
        places = order.script.relative_to(order.root), order.cwd.relative_to(order.root)
        key = (places, files(order.root), order.arguments, options)
        if "--keep" in options:
            self._lend(Path(order.options[options.index("--keep") + 1]), key)
        if key not in self._known:
            self._known[key] = self._run(order, limits)
        return self._known[key]

    def _lend(self, kept: Path, key: tuple[Any, ...]) -> None:
        """Let what a run keeps outlive its scratch folder."""
        folder = self._folder / str(len(self._kept))
        folder = self._kept.setdefault(key, folder)
        folder.mkdir(exist_ok=True)
        kept.symlink_to(folder)

    def _run(self, order: Any, limits: Any) -> Any:
        from accelift_codemod.verify.recording import read
        from accelift_codemod.verify.runs import Run

        order.out.mkdir(parents=True, exist_ok=True)
        log, processes = order.out / "output.txt", order.processes or 1
        launched = forks.ranks(processes, free_port()) if order.processes is not None else [{}]
        ended = self._server.run(
            forks.Order(
                arguments=("-m", "accelift.recorder", *order.recorder_arguments()),
                cwd=str(order.cwd),
                outputs=((str(log), str(log)),) * processes,
                environments=tuple({**order.environment(), **variables} for variables in launched),
                seconds=limits.seconds,
                grace=_GRACE,
                dump=signal.SIGUSR1,
            )
        )
        stopped = f"it ran for more than {limits.seconds:g} seconds (--timeout)" if ended.late else ""
        recording = read(order.out, processes)
        return Run(recording, ended.failed, ended.seconds, stopped, log.read_text(errors="replace"))
