"""`accelift rule`: explains rules and findings."""

from __future__ import annotations

import json
import sys

import click

from accelift_codemod import handbook, handbook_lints
from accelift_codemod.lints import all_lints


@click.command("rule", short_help="Explain the rules and findings.")
@click.argument("code", required=False)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(code: str | None, format_: str) -> None:
    """Explain the rule or finding CODE, or a cause that `accelift verify` names; without CODE list the former."""
    entries = handbook.entries()
    lints = {lint.code: lint for lint in all_lints()}
    if code is None:
        if format_ == "json":
            found = [*(e.to_json() for e in entries.values()), *map(handbook_lints.to_json, lints.values())]
            click.echo(json.dumps(found, indent=2))
            return
        width = max(len(c) for c in (*entries, *lints))
        for kind, title in (
            ("rule", "Rules"),
            ("finding", "Findings"),
            ("refusal", "Reasons for leaving a script alone"),
        ):
            click.echo(f"{title}:")
            for entry in entries.values():
                if entry.kind == kind:
                    click.echo(f"  {entry.code:{width}}  {entry.title}")
        click.echo("What `accelift check` finds:")
        for lint in lints.values():
            click.echo(f"  {lint.code:{width}}  {lint.title}")
        return
    known, lint_ = entries.get(code.upper()), lints.get(code.upper())
    if known is None and lint_ is None:
        known = handbook.causes().get(code.upper())
    if known is None and lint_ is None:
        click.echo(f"accelift: there is no rule {code.upper()}; `accelift rule` lists them", err=True)
        sys.exit(2)
    if format_ == "json":
        explained = known.to_json() if known is not None else handbook_lints.to_json(lint_)  # type: ignore[arg-type]
        click.echo(json.dumps(explained, indent=2))
        return
    if known is not None:
        click.echo(known.text(), nl=False)
    if lint_ is not None:  # a code that means one thing may be found by the conversion and by the check
        click.echo(f"{lint_.code}: {lint_.title}\n" if known is None else "\nIn scripts that use Accelerate:\n")
        click.echo(handbook_lints.text(lint_), nl=False)
