"""What commands that read many scripts have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from accelift_codemod import timelimit
from accelift_codemod.cli.numbers import SECONDS
from accelift_codemod.discover import Files, Nowhere
from accelift_codemod.results import FileResult

Command = TypeVar("Command", bound=Callable[..., Any])

STDIN = "<stdin>"  # what a script read from `-` is called if it has no name


def options(command: Command) -> Command:
    """`--format`, `--stdin-filename`, `--time-limit` and `--jobs`."""
    for option in (
        click.option(
            "--time-limit",
            type=SECONDS,
            default=timelimit.DEFAULT,
            show_default=True,
            metavar="SECONDS",
            help="Give up on a file that takes longer, in processor time; 0: never.",
        ),
        click.option(
            "-j",
            "--jobs",
            type=click.IntRange(0),
            default=1,
            show_default=True,
            help="Processes to work on; 0: all processors.",
        ),
        click.option("--stdin-filename", metavar="NAME", default=STDIN, help="What to call the script read from `-`."),
        click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True),
    ):
        command = option(command)
    return command


def check_name(name: str, paths: Sequence[str]) -> None:
    """Refuse a name for a script from stdin where none is read.

    Raises:
        click.UsageError: saying so.
    """
    if name != STDIN and "-" not in paths:
        raise click.UsageError("--stdin-filename goes with -, which reads a script from stdin")


def verbosity(quiet: bool, verbose: int) -> int:
    """How much is said: -1 for `--quiet`, 0, or how often `--verbose` is given.

    Raises:
        click.UsageError: both are.
    """
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other")
    return -1 if quiet else verbose


def codes(given: str | None) -> tuple[str, ...]:
    """Codes between commas."""
    return tuple(code.strip().upper() for code in (given or "").split(",") if code.strip())


def find(paths: Sequence[str]) -> tuple[list[tuple[str, bool]], list[FileResult], list[str]]:
    """The files that paths lead to, with whether the user named them, the paths that lead to none, and what to say of
    links that lead out of a folder and are not followed."""
    files = Files()
    problems = []
    for given in paths:
        if given != "-":
            try:
                if not given:  # which Path takes for the current folder
                    raise Nowhere("'': does not exist; check the path")
                files.add(Path(given))
            except Nowhere as error:
                problems.append(FileResult(given, error=str(error)))
    problems += [FileResult(path, error=f"{path}: {problem}") for path, problem in files.unread.items()]
    left = "left alone: a link that leads out of the folder; name it to take it along"
    return list(files.named.items()), problems, [f"{link}: {left}" for link in files.outside]
