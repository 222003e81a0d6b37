"""`accelift verify`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from accelift.launch.devices import visible_gpus

from accelift_codemod.api import convert_files
from accelift_codemod.cli.numbers import GIGABYTES, SECONDS
from accelift_codemod.discover import Files
from accelift_codemod.options import Options
from accelift_codemod.project.finder import project_folder
from accelift_codemod.results import FileResult
from accelift_codemod.verify.gate import changed_members, known, warned
from accelift_codemod.verify.proof import CannotRun, Request, prove
from accelift_codemod.verify.proved import Proof
from accelift_codemod.verify.runs import Limits
from accelift_codemod.writing import write_atomically

_MOST_FILES = 500  # of a project that is converted as a whole
_SCRIPT = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "verify",
    context_settings={"help_option_names": ["-h", "--help"]},
    short_help="Prove that a conversion computes what the script did, by running both.",
)
@click.argument("script", type=_SCRIPT)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS]")
@click.option("--against", type=_SCRIPT, metavar="FILE", help="A converted script, instead of converting SCRIPT now.")
@click.option(
    "--num-processes", type=click.IntRange(1), default=2, show_default=True, help="Processes to compare with."
)
@click.option("--steps", type=click.IntRange(1), default=300, show_default=True, help="End runs after so many steps.")
@click.option(
    "--target",
    type=click.Choice(["runtime", "accelerate"]),
    default="runtime",
    show_default=True,
    help="The library that the converted script imports.",
)
@click.option("--shard-manual", is_flag=True, help="Convert as `accelift convert --shard-manual` does.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seeds python, numpy and torch before each run.")
@click.option("--env-from", type=_SCRIPT, metavar="YAML", help="A launch config for the run on several processes.")
@click.option("--gpu", is_flag=True, help="Run on the GPUs of this machine, not on its CPU.")
@click.option("--timeout", type=SECONDS, default=600.0, show_default=True, help="Seconds that each run may take.")
@click.option(
    "--idle",
    type=SECONDS,
    default=120.0,
    show_default=True,
    help="Seconds for which a run's processes may do nothing.",
)
@click.option("--memory", type=GIGABYTES, metavar="GB", help="Memory that each run may take.")
@click.option("--format", "format_", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
@click.option("--output-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write it here.")
@click.option("--keep", is_flag=True, help="Keep the scratch folder with all runs, and say where it is.")
@click.option("-q", "--quiet", is_flag=True, help="Do not say what is being done.")
def command(
    script: Path,
    arguments: tuple[str, ...],
    against: Path | None,
    num_processes: int,
    steps: int,
    target: str,
    shard_manual: bool,
    seed: int,
    env_from: Path | None,
    gpu: bool,
    timeout: float,
    idle: float,
    memory: float | None,
    format_: str,
    output_file: Path | None,
    keep: bool,
    quiet: bool,
) -> None:
    """Run SCRIPT as it is, and converted, on one process and on several, and compare what they compute.

    This executes the script, with the ARGUMENTS after `--`, in scratch copies of its project. Losses, gradients,
    parameters, learning rates, samples, printed values and checkpoints are compared step by step: bit for bit on one
    process, up to rounding on several.

    Exit codes: 0 proved; 1 something differs, or cannot be decided; 2 it could not be run.
    """
    if output_file is not None and not output_file.absolute().parent.is_dir():
        raise click.UsageError(f"--output-file: there is no folder {output_file.parent}; make it first.")
    if gpu and env_from is None and not visible_gpus():
        raise click.UsageError("--gpu: no GPU is visible here; leave it out to run on the CPU")
    result = _converted(script, against, Options(target, shard_manual=shard_manual), quiet)
    assert result.output is not None
    request = Request(
        script=script,
        converted=result.output,
        known=known(result),
        warned=warned(result),
        members=changed_members(result),
        arguments=arguments,
        processes=num_processes,
        steps=steps,
        seed=seed,
        cpu=not gpu,
        config=None if env_from is None else env_from.resolve(),
        limits=Limits(timeout, None if memory is None else int(memory * 1e9), idle),
        keep=keep,
        distributes=result.distributes,
    )
    proof = run(request, quiet)
    _show(proof, format_, output_file)
    sys.exit(proof.exit_code)


def run(request: Request, quiet: bool) -> Proof:
    """Prove, saying on stderr what is being run.

    Raises:
        click.ClickException: it cannot be run.
    """
    try:
        return prove(request, lambda text: None if quiet else click.echo(f"running: {text}", err=True))
    except (CannotRun, OSError) as error:
        raise click.ClickException(f"{request.script}: {error}") from None


def _converted(script: Path, against: Path | None, options: Options, quiet: bool) -> FileResult:
    """The conversion of a script, or the one it is given in its place."""
    (result,) = convert_files([(script, True)], options)
    if against is not None:
        given = against.read_bytes()
        if given == result.output:
            return result  # with the files that change with it, and what is said of it
        return FileResult(result.path, output=given, distributes=result.distributes)
    if result.error:
        raise click.ClickException(result.error)
    if result.output is None:
        shared = result.plan is not None and any(f.code == "SHARED-FILE" for f in result.plan.findings)
        result = (_with_its_project(script, options, quiet) if shared else None) or result
    if result.output is None:
        reason = result.plan.reason if result.plan is not None else "nothing to convert"
        remedy = (
            next((f"; {f.remedy}" for f in result.plan.findings if f.remedy), "") if result.plan is not None else ""
        )
        raise click.ClickException(f"{script}: not converted, so there is nothing to compare: {reason}{remedy}")
    return result


def _with_its_project(script: Path, options: Options, quiet: bool) -> FileResult | None:
    """What becomes of a script together with the others of its project, which may share files with it."""
    folder = project_folder(script.resolve().parent)
    files = Files()
    files.add(folder)
    if len(files.named) > _MOST_FILES:
        return None
    if not quiet:
        click.echo(f"converting {folder}, as scripts in it share files with {script}", err=True)
    results = convert_files(list(files.named.items()), options)
    return next((r for r in results if Path(r.path).resolve() == script.resolve()), None)


def _show(proof: Proof, format_: str, output_file: Path | None) -> None:
    from accelift_codemod.render import proof as render

    color = output_file is None and sys.stdout.isatty()
    if format_ == "html":
        from accelift_codemod.render.proof_html import as_html

        text = as_html(proof)
    else:
        text = render.as_json(proof) if format_ == "json" else render.as_text(proof, color)
    if output_file is None:
        click.echo(text, nl=False)
    else:
        write_atomically(output_file, text.encode())
