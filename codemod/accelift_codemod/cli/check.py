"""`accelift check`."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from accelift_codemod.api import cpu_count
from accelift_codemod.checker import Choice, check_bytes, check_files
from accelift_codemod.cli import scripts
from accelift_codemod.cli.progress import progress
from accelift_codemod.render import lints as render
from accelift_codemod.render import text
from accelift_codemod.report import Findings
from accelift_codemod.results import FileResult
from accelift_codemod.source import BadSource
from accelift_codemod.writing import check_unchanged, write_atomically


@click.command("check", short_help="Find what goes wrong on several processes in scripts that use Accelerate.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--select", metavar="CODES", help="Look for these only (see `accelift rule`).")
@click.option("--ignore", metavar="CODES", help="Do not look for these.")
@click.option("--fix", is_flag=True, help="Show the diff that sets right what certainly can be, and what is left.")
@click.option("--write", is_flag=True, help="With --fix: write the result in place of the scripts.")
@scripts.options
@click.option("-q", "--quiet", is_flag=True, help="Only show errors, and say what could not be processed.")
@click.option(
    "-v", "--verbose", count=True, help="Also show notes, and the evidence of every finding; twice: every file."
)
def command(
    paths: tuple[str, ...],
    select: str | None,
    ignore: str | None,
    fix: bool,
    write: bool,
    format_: str,
    stdin_filename: str,
    jobs: int,
    time_limit: float,
    quiet: bool,
    verbose: int,
) -> None:
    """Check scripts that use Accelerate (accelift's, or Hugging Face's), or every one of a folder, for what goes wrong
    on several processes: deadlocks, gradients that are not averaged, wrong metrics, damaged files. Scripts are read,
    not run, and changed by --fix --write only.

    `-` reads a script from stdin. With --fix the diff goes to stdout and what is left to stderr.

    Exit codes: 0 nothing found, or notes only; 1 errors or warnings, or --fix would change something; 2 something could
    not be processed.
    """
    if write and not fix:
        raise click.UsageError("--write goes with --fix")
    if write and "-" in paths:
        raise click.UsageError("--write has no file to write for `-`; leave it out, and apply the diff")
    scripts.check_name(stdin_filename, paths)
    choice = Choice(_codes(select, "--select"), _codes(ignore, "--ignore"), fix, time_limit)
    gc.set_threshold(1_000_000)  # syntax trees are many objects, nearly all of them alive
    verbosity = scripts.verbosity(quiet, verbose)
    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    counts = Findings()
    results: list[FileResult] = []

    def settle(result: FileResult) -> None:
        if write and result.output is not None:
            result = _written(result, result.output)
        results.append(result)
        counts.add(result)
        if format_ == "text":
            if result.diff and not write:
                sys.stdout.flush()
                sys.stdout.buffer.write(text.diff(result, color))
                sys.stdout.buffer.flush()
            elif result.diff and not result.error and not quiet:
                click.echo(f"{result.path}: fixed", err=True)
            for line in render.lines(result, verbosity, color):
                click.echo(line, err=fix or bool(result.error))

    files, problems, left = scripts.find(paths)
    for link in left if not quiet else ():
        click.echo(link, err=True)
    for problem in problems:
        settle(problem)
    if "-" in paths:
        settle(check_bytes(sys.stdin.buffer.read(), stdin_filename, choice))
    with progress("checking", len(files), quiet) as advance:
        checked = list(check_files(files, choice, jobs or cpu_count(), advance))
    for result in checked:
        settle(result)
    if format_ == "json":
        click.echo(render.as_json(results, counts), nl=False)
    elif verbosity >= 0:
        click.echo(counts.summary(verbosity), err=True)
    pending = fix and not write and any(r.diff for r in results)
    sys.exit(counts.exit_code or int(pending))


def _written(result: FileResult, output: bytes) -> FileResult:
    """A file that was written, or why it could not be."""
    try:
        if result.plan is not None:
            check_unchanged(Path(result.path), result.plan.digest)
        write_atomically(Path(result.path), output)
    except BadSource as error:
        return replace(result, error=str(error))
    return result


def _codes(given: str | None, option: str) -> tuple[str, ...]:
    """Codes between commas.

    Raises:
        click.UsageError: one is unknown.
    """
    if given is None:
        return ()
    from accelift_codemod.lints import all_lints

    known = {lint.code for lint in all_lints()}
    codes = scripts.codes(given)
    for code in codes:
        if code not in known:
            raise click.UsageError(f"{option}: check knows no {code}; `accelift rule` lists what it looks for")
    if option == "--select" and not codes:
        raise click.UsageError("--select: names no code")
    return codes
