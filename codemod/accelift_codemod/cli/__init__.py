"""The command line. Each command lives in a module of its own, loaded when it is called."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

_FAILED = 2
_NO_READER = 141  # the reader, `head` for instance, has seen enough: what a shell reports of SIGPIPE

_COMMANDS = {
    "convert": "Convert single-GPU PyTorch scripts: preview the diff, or write the result.",
    "check": "Find what goes wrong on several processes in scripts that use Accelerate.",
    "launch": "Run a converted script on one or several processes.",
    "verify": "Prove that a conversion computes what the script did, by running both.",
    "rule": "Explain the rules and findings.",
    "env": "Show versions and devices, for bug reports.",
}


class _Lazy(click.Group):
    """A group whose commands are imported on demand: `--help` must not wait for them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"accelift_codemod.cli.{cmd_name}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click itself would exit with 1, which means that findings remain
            ctx.exit(_NO_READER)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from accelift import __version__

        click.echo(f"accelift {__version__}")
        ctx.exit()


@click.group(cls=_Lazy, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Lift single-GPU PyTorch training scripts to distributed training."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


def main() -> None:
    """The `accelift` command."""
    _open_streams()
    code: Any = _FAILED
    try:
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        code = _NO_READER
    except OSError as error:  # where it is about files it is dealt with: this is stdout, on a full disk for instance
        with suppress(OSError):
            click.echo(f"accelift: {error.strerror}", err=True)
    finally:
        _give_up_streams()
    gc.freeze()  # syntax trees are many objects: they go with the process, not one by one
    sys.exit(code)


def _run() -> Any:
    """Run the command that was asked for; what to give to `sys.exit`."""
    try:
        return cli.main(prog_name="accelift", standalone_mode=False) or 0
    except click.NoSuchOption as error:
        of_script = error.ctx is not None and error.ctx.info_name == "verify"
        hint = " Options of the script go behind `--`." if of_script else ""
        click.echo(f"accelift: {error.format_message()}{hint}", err=True)
        return 2
    except click.ClickException as error:
        click.echo(f"accelift: {error.format_message()}", err=True)
        return 2
    except click.Abort:
        click.echo("accelift: interrupted; no file is half written", err=True)
        return 130
    except SystemExit as done:
        return done.code
    except OSError:
        raise
    except Exception as error:
        from accelift_codemod import faults  # late: there are none

        click.echo(f"accelift: {faults.told(error)}", err=True)
        return _FAILED


def _open_streams() -> None:
    """Have streams, though the caller may have closed them, that take every name of a file."""
    sys.stdin = sys.stdin or Path(os.devnull).open()  # noqa: SIM115
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _give_up_streams() -> None:
    """Drop what cannot be written, which Python would try to write once more, and complain of, when it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
