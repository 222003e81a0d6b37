"""The command line. Each command lives in a module of its own, loaded when it is called."""

from __future__ import annotations

import importlib
import sys

import click

_COMMANDS = {
    "convert": "Convert single-GPU PyTorch scripts: preview the diff, or write the result.",
    "launch": "Run a converted script on one or several processes.",
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from accelift import __version__

        click.echo(f"accelift {__version__}")
        ctx.exit()


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def cli() -> None:
    """Lift single-GPU PyTorch training scripts to distributed training."""


def main() -> None:
    """The `accelift` command."""
    try:
        cli.main(prog_name="accelift", standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"accelift: {error.format_message()}", err=True)
        sys.exit(2)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.Abort:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
