"""`accelift rule`: explains rules and findings."""

from __future__ import annotations

import json
import sys

import click

from accelift_codemod import handbook


@click.command("rule", short_help="Explain the rules and findings.")
@click.argument("code", required=False)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(code: str | None, format_: str) -> None:
    """Explain the rule or finding CODE; without CODE list them all."""
    entries = handbook.entries()
    if code is None:
        if format_ == "json":
            click.echo(json.dumps([e.to_json() for e in entries.values()], indent=2))
            return
        width = max(len(c) for c in entries)
        for kind, title in (
            ("rule", "Rules"),
            ("finding", "Findings"),
            ("refusal", "Reasons for leaving a script alone"),
        ):
            click.echo(f"{title}:")
            for entry in entries.values():
                if entry.kind == kind:
                    click.echo(f"  {entry.code:{width}}  {entry.title}")
        return
    found = entries.get(code.upper())
    if found is None:
        click.echo(f"accelift: there is no rule {code.upper()}; `accelift rule` lists them", err=True)
        sys.exit(2)
    click.echo(json.dumps(found.to_json(), indent=2) if format_ == "json" else found.text(), nl=format_ == "json")
