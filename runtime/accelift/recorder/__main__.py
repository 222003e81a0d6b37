"""``python -m accelift.recorder``: run a script and record it."""

from __future__ import annotations

import argparse
import faulthandler
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import torch

from accelift.recorder.chance import Chance
from accelift.recorder.events import Enough, Events
from accelift.recorder.loaders import Loaders
from accelift.recorder.models import Models
from accelift.recorder.outputs import Outputs
from accelift.recorder.road import Road
from accelift.recorder.steps import Steps


def record(
    out: Path,
    script: Path,
    arguments: Sequence[str] = (),
    *,
    seed: int = 0,
    steps: int | None = None,
    frozen: bool = False,
    ordered: bool = False,
    disturbance: float = 0.0,
    root: Path | None = None,
    keep: Path | None = None,
    follow: Path | None = None,
    paths: Sequence[Path] = (),
    module: str = "",
) -> None:
    """Run a script as ``python script arguments...`` would, and write down what it does.

    For a process of its own: hooks are installed that nobody takes away.  The script's exceptions and its exit
    code pass through.

    Args:
        out: the folder for the recording.
        script: the script.
        arguments: its arguments.
        seed: seeds python, numpy and torch before the script begins.
        steps: end the script, as if it had come to its end, after so many optimizer steps.
        frozen: see :class:`~accelift.recorder.chance.Chance`.
        ordered: see there.
        disturbance: see there.
        root: see :class:`~accelift.recorder.outputs.Outputs`.
        keep: see :class:`~accelift.recorder.road.Road`.
        follow: see there.
        paths: folders in which the script's imports are looked for after its own.
        module: the name by which the script is run, as ``python -m`` in the first of ``paths`` would.
    """
    events = Events(out.absolute(), script)
    chance = Chance(events, frozen, ordered, disturbance)
    models = Models()
    faulthandler.register(signal.SIGUSR1, file=(out / f"{events.rank}.stack").open("w"), all_threads=False)
    for part in (
        Loaders(events, chance, models),
        Outputs(events, chance, models, root),
        Steps(events, chance, models, steps, Road(keep, follow)),
    ):
        part.install()
    chance.install(seed)
    events.put("start", pid=os.getpid(), rank=events.rank, torch=torch.__version__)
    events.flush()
    sys.argv = [str(script), *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[:1] = map(str, paths if module else [script.resolve().parent, *paths])
    try:
        if module:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(str(script.absolute()), run_name="__main__")
    except Enough:
        events.put("end", how="enough")
    except SystemExit as end:
        events.put("end", how="finished" if end.code in (None, 0) else "failed", error=f"exit code {end.code}")
        raise
    except BaseException as error:
        line = traceback.format_exception_only(type(error), error)[-1].strip()
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        events.put("end", how="failed", error=line, place=events.place(frames[-1]) if frames else "")
        raise
    else:
        events.put("end", how="finished")
    finally:
        events.close()


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    import accelift.recorder

    summary, _, details = (accelift.recorder.__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m accelift.recorder",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--seed", type=int, default=0, help="seeds python, numpy and torch before the script")
    parser.add_argument("--steps", type=int, help="end after so many optimizer steps")
    parser.add_argument("--frozen", action="store_true", help="without dropout, noise and statistics of the batch")
    parser.add_argument("--ordered", action="store_true", help="with --frozen: shuffle by epoch and size alone")
    parser.add_argument("--disturbance", type=float, default=0.0, help="change parameters by so many units of rounding")
    parser.add_argument("--keep", type=Path, help="a folder to keep the parameters of every step in")
    parser.add_argument("--follow", type=Path, help="take each step from the parameters that were kept in this folder")
    parser.add_argument(
        "--root", type=Path, help="a folder whose links are replaced by copies before they are written to"
    )
    parser.add_argument("--path", type=Path, action="append", default=[], help="a folder that imports are found in")
    parser.add_argument("--module", default="", help="the script's name, to run it as python -m in the first --path")
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder for the recording")
    parser.add_argument("script", metavar="SCRIPT", type=Path, help="the script to run")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER)
    given = parser.parse_args(argv)
    if not given.script.is_file():
        parser.error(f"there is no script {given.script}")
    if given.steps is not None and given.steps < 1:
        parser.error("--steps must be at least 1")
    record(
        given.out,
        given.script,
        given.arguments,
        seed=given.seed,
        steps=given.steps,
        frozen=given.frozen,
        ordered=given.ordered,
        disturbance=given.disturbance,
        root=given.root,
        keep=given.keep,
        follow=given.follow,
        paths=given.path,
        module=given.module,
    )


if __name__ == "__main__":
    main()
