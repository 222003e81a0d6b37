"""`accelift launch`: hands its arguments to the runtime's launcher."""

from __future__ import annotations

import sys

import click


@click.command(
    "launch",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []},
    add_help_option=False,
    short_help="Run a converted script on one or several processes.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run a converted script on one or several processes (`accelift launch --help` lists the flags)."""
    from accelift.launch import main

    sys.exit(main(list(arguments)))
