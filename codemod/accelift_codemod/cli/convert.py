"""`accelift convert`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelift_codemod.api import convert_bytes, convert_files, cpu_count
from accelift_codemod.cli import scripts
from accelift_codemod.cli.places import Places
from accelift_codemod.cli.progress import progress
from accelift_codemod.discover import is_folder
from accelift_codemod.options import Options
from accelift_codemod.outcomes import Outcome
from accelift_codemod.render import text
from accelift_codemod.report import Report
from accelift_codemod.results import FileResult
from accelift_codemod.source import BadSource, read_bytes
from accelift_codemod.writing import check_unchanged, write_together

if TYPE_CHECKING:
    from accelift_codemod.project.beside import Beside


@click.command("convert", short_help="Convert single-GPU PyTorch scripts: preview the diff, or write the result.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--write", is_flag=True, help="Write the result in place of the scripts.")
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write converted scripts into this folder, with the project files that they import, placed as below the "
    "folder that all PATHs, and what they import, have in common.",
)
@click.option("--check", is_flag=True, help="Convert nothing, print no diff; exit with 1 if something would change.")
@click.option(
    "--target",
    type=click.Choice(["runtime", "accelerate"]),
    default="runtime",
    show_default=True,
    help="The library that converted scripts import.",
)
@click.option(
    "--config-out",
    metavar="FILE",
    help="Write the launch config here. Several scripts need a folder (a name that ends with /), in which each config "
    "is placed as its script is by --output.",
)
@click.option("--num-processes", type=click.IntRange(1), help="Processes to put into the launch config.")
@click.option(
    "--batch",
    type=click.Choice(["global", "per-process"]),
    default="global",
    show_default=True,
    help="Keep the script's batch size for all processes together, or give it to each.",
)
@click.option(
    "--shard-manual",
    is_flag=True,
    help="Also share out batches that a script makes without a DataLoader, where that is proved right.",
)
@click.option(
    "--precision",
    type=click.Choice(["keep", "managed"]),
    default="keep",
    show_default=True,
    help="Keep the script's own autocast and GradScaler, which computes the same bit for bit, or hand them to the "
    "accelerator (mixed_precision=), where all of it can be.",
)
@click.option("--unsafe", is_flag=True, help="Also make the edits that need your word; without it findings offer them.")
@click.option(
    "--verify",
    is_flag=True,
    help="Run each script before and after its conversion; refuse what computes something else.",
)
@click.option("--verify-args", metavar="ARGUMENTS", help="Arguments for the scripts that --verify runs, in one string.")
@click.option("--select", metavar="CODES", help="Apply only these optional rules (see `accelift rule`).")
@click.option("--ignore", metavar="CODES", help="Leave these optional rules or findings out.")
@scripts.options
@click.option("-q", "--quiet", is_flag=True, help="Only say what could not be processed.")
@click.option(
    "-v", "--verbose", count=True, help="Also show notes, every edit with its reason and evidence; twice: every file."
)
def command(
    paths: tuple[str, ...],
    write: bool,
    output: Path | None,
    check: bool,
    target: str,
    config_out: str | None,
    num_processes: int | None,
    batch: str,
    shard_manual: bool,
    precision: str,
    unsafe: bool,
    verify: bool,
    verify_args: str | None,
    select: str | None,
    ignore: str | None,
    format_: str,
    stdin_filename: str,
    jobs: int,
    time_limit: float,
    quiet: bool,
    verbose: int,
) -> None:
    """Convert scripts, or every script of a folder. Without --write or --output the diff is shown and nothing is
    written.

    The diff goes to stdout, so that it can be piped into `git apply` or `patch -p1`; remarks go to stderr. Files below
    the current folder are named relative to it, others absolutely: their diff is to be applied from `/`.

    `-` reads a script from stdin. With --write its conversion goes to stdout; --output needs a --stdin-filename.

    Exit codes: 0 nothing to do, or done; 1 findings or refusals remain, or --check found changes; 2 something could
    not be processed.
    """
    if sum((write, output is not None, check)) > 1:
        raise click.UsageError("--write, --output and --check exclude each other")
    if verify_args is not None and not verify:
        raise click.UsageError("--verify-args goes with --verify")
    scripts.check_name(stdin_filename, paths)
    if "-" in paths:
        if verify:
            raise click.UsageError("-: --verify runs a script where it lies; save it, and give its path")
        _check_stdin(stdin_filename, write and format_ == "json", output is not None or _is_folder(config_out))
    gc.disable()  # while a file is converted, nearly all objects are alive: what it leaves goes between files
    if shard_manual and (target != "runtime" or batch != "global"):
        raise click.UsageError("--shard-manual needs --target runtime and --batch global")
    chosen, ignored = _codes(select, "--select"), _codes(ignore, "--ignore")
    options = Options(target, batch, num_processes, chosen, ignored, time_limit, shard_manual, unsafe, precision)
    run = _Run(
        options,
        write,
        output,
        check,
        config_out,
        format_,
        scripts.verbosity(quiet, verbose),
        _words(verify_args) if verify else None,
    )
    results = run.convert(paths, stdin_filename, jobs or cpu_count())
    sys.exit(run.finish(results))


def _words(arguments: str | None) -> list[str]:
    """The arguments for scripts that are to be run.

    Raises:
        click.UsageError: a quote is not closed.
    """
    import shlex  # late: few ask for a proof

    try:
        return shlex.split(arguments or "")
    except ValueError as error:
        raise click.UsageError(f"--verify-args {arguments!r}: {error}") from None


def _check_stdin(name: str, written_as_json: bool, into_folder: bool) -> None:
    """Refuse to read a script from stdin whose conversion would go nowhere.

    Raises:
        click.UsageError: saying what to do instead.
    """
    if written_as_json:
        raise click.UsageError("-: --write and --format json both write to stdout; leave one out, or use --output")
    if into_folder and name == scripts.STDIN:
        raise click.UsageError(
            "-: a script from stdin needs a name to be placed in a folder; give --stdin-filename NAME"
        )


def _is_folder(given: str | None) -> bool:
    """Whether a place to write to is a folder, or is to become one."""
    return given is not None and (is_folder(Path(given)) or given.endswith(("/", os.sep)))


def _codes(given: str | None, option: str) -> tuple[str, ...]:
    """Codes between commas.

    Raises:
        click.UsageError: one is unknown, or belongs to a rule that every conversion needs.
    """
    if given is None:
        return ()
    from accelift_codemod.rules import all_rules

    rules = {r.code: r for r in all_rules()}
    findings = {f.code: r.code for r in rules.values() for f in r.findings}
    codes = scripts.codes(given)
    for code in codes:
        if code not in rules and code not in findings:
            raise click.UsageError(f"{option}: there is no rule {code}; `accelift rule` lists them")
        if option == "--select" and code not in rules:
            raise click.UsageError(f"--select: {code} is not a rule, but a finding of the rule {findings[code]}")
        if option == "--ignore" and code in rules and rules[code].required:
            raise click.UsageError(f"--ignore: {code} is a part of every conversion")
    return codes


class _Run:
    """One run: where its results go."""

    def __init__(
        self,
        options: Options,
        write: bool,
        output: Path | None,
        check: bool,
        config_out: str | None,
        format_: str,
        verbosity: int,
        verify: list[str] | None = None,
    ) -> None:
        self.options = options
        self.write = write
        self.output = output
        self.check = check
        self.config_out = config_out
        self.json = format_ == "json"
        self.verbosity = verbosity
        self.verify = verify
        self.report = Report()
        self.stdin = b""
        self.members: set[str] = set()  # files that were written along with a script
        self.places = Places(())
        self.color = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    # ---- converting

    def convert(self, paths: Sequence[str], stdin_filename: str, jobs: int) -> list[FileResult]:
        """Convert everything, write it and show it."""
        files, problems, left = scripts.find(paths)
        for link in left if self.verbosity >= 0 else ():
            click.echo(link, err=True)
        self.places = Places(stdin_filename if p == "-" else p for p in paths)
        found = [self._settle(problem) for problem in problems]
        if "-" in paths:
            self.stdin = sys.stdin.buffer.read()
            found.append(self._settle(self._handed_through(convert_bytes(self.stdin, stdin_filename, self.options))))
        with progress("converting", len(files), quiet=self.verbosity < 0) as advance:
            results = convert_files(files, self.options, jobs, advance)
        beside = self._beside(results)
        self.places.reach(beside.folders if beside is not None else ())
        done = [self._written(self._proved(result)) for result in results]
        self._copy(self._beside(done), done)
        if any(result.members for result in done):
            from accelift_codemod.project import groups  # late: few scripts change other files

            done = groups.flattened(done)
        found += [self._settle(result) for result in done]
        return found

    def _beside(self, results: Sequence[FileResult]) -> Beside | None:
        """The project files that converted scripts import, if results go to a folder of their own: they are needed
        there, too, and where they lie follows from where Python looks for them."""
        if self.output is None and not _is_folder(self.config_out):
            return None
        from accelift_codemod.project.beside import Beside  # late: only where results go elsewhere

        return Beside.of(r.path for r in results if r.output is not None and not r.error)

    def _copy(self, beside: Beside | None, results: Sequence[FileResult]) -> None:
        """Copy those of them that stay as they are."""
        if self.output is None or beside is None:
            return
        changed = {r.path for result in results for r in (result, *result.members) if r.output is not None}
        for path in (path for path in beside.files if path not in changed):
            try:
                self.places.write(self.places.below(self.output, path), read_bytes(path), path, "--output")
            except BadSource as error:
                self._settle(FileResult(path, error=str(error)))

    # ---- one result

    def _proved(self, result: FileResult) -> FileResult:
        """The result of a script, refused if --verify asks for a proof and there is none."""
        if self.verify is None:
            return result
        from accelift_codemod.verify.gate import gate

        def say(text: str) -> None:
            if self.verbosity >= 0:
                click.echo(f"{result.path}: running {text}", err=True)

        return gate(result, self.verify, self.options.num_processes or 2, say)

    def _written(self, result: FileResult) -> FileResult:
        """Write a script and the files that change with it: all of them or none."""
        if result.skipped:
            return result
        outputs = {r.path: r.output for r in (result, *result.members) if r.output is not None}
        try:
            if self.output is not None:
                for path, output in outputs.items():
                    if path == result.path or path not in self.members:
                        self.places.write(self.places.below(self.output, path), output, path, "--output")
                self.members |= outputs.keys() - {result.path}
            elif self.write:
                for r in (result, *result.members):
                    if r.output is not None and r.plan is not None and r.path not in self.members:
                        check_unchanged(Path(r.path), r.plan.digest)
                write_together({Path(path): output for path, output in outputs.items()})
                self.members |= outputs.keys()
        except BadSource as error:
            return replace(result, error=str(error), members=())
        return result

    def _handed_through(self, result: FileResult) -> FileResult:
        """Write what came from stdin, converted or not."""
        if self.output is not None:
            return self._written(result)
        if self.write:
            self._print(self.stdin if result.output is None else result.output)
        return result

    def _settle(self, result: FileResult) -> FileResult:
        """Count and show one file's result."""
        self.report.add(result)
        if not self.json:
            self._show(result)
        return result

    def _print(self, data: bytes) -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def _show(self, result: FileResult) -> None:
        preview = not (self.write or self.output or self.check)
        if preview and result.diff:
            self._print(text.diff(result, self.color))
        elif result.output is not None and not result.error and self.verbosity >= 0:
            verb = "would be converted" if self.check else "converted"
            where = "" if result.diff else ", by changes in files that it imports"
            click.echo(f"{result.path}: {verb}{where}", err=not self.check)
        for line in text.remarks(result, self.verbosity):
            click.echo(line, err=True)

    # ---- the end

    def finish(self, results: list[FileResult]) -> int:
        """Write the launch config, the summary or the JSON document; returns the exit code."""
        code = self.report.exit_code(self.check)
        if self.config_out is not None and not self._write_configs(results):
            code = 2
        if self.json:
            from accelift_codemod.render.data import as_json

            click.echo(as_json(results, self.report, code), nl=False)
        elif self.verbosity >= 0 and (len(results) > 1 or self.verbosity > 0 or not self.report.converted):
            for line in self._closing(results):
                click.echo(line, err=True)
        return code

    def _closing(self, results: list[FileResult]) -> Iterator[str]:
        """The last lines: of many files, what became of them; of one that is left alone, why."""
        alone = len(results) == 1
        if alone and results[0].outcome is Outcome.NOTHING and not results[0].error and not self.verbosity:
            yield from text.remarks(results[0], verbosity=2)
        yield self.report.summary("converted" if self.write or self.output else "convertible")
        if not alone:
            yield from filter(None, (self.report.work_left(), self.report.not_reached()))

    def _write_configs(self, results: list[FileResult]) -> bool:
        """Write each script's launch config; returns whether that went well."""
        assert self.config_out is not None
        found = [r for r in results if r.config and not r.error]
        target = Path(self.config_out)
        folder = _is_folder(self.config_out)
        if not found:
            reason = (
                "no script was converted"
                if any(r.outcome is not Outcome.NOTHING for r in results)
                else "nothing to convert"
            )
            click.echo(f"{self.config_out}: not written: {reason}", err=True)
            return True
        if len(found) > 1 and not folder:
            click.echo(
                f"accelift: --config-out {self.config_out}: names one file, but {len(found)} scripts have a launch "
                "config; give a folder (a name that ends with /)",
                err=True,
            )
            return False
        written = True
        for result in found:
            place = self.places.below(target, result.path).with_suffix(".yaml") if folder else target
            try:
                self.places.write(place, result.config.encode(), result.path, "--config-out")
            except BadSource as error:
                click.echo(f"accelift: {error}", err=True)
                written = False
        return written
