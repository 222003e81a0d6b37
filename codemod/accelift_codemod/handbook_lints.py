"""The lints of `accelift check` explained: for `accelift rule`, and docs/check.md."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

from accelift_codemod.lints import Lint, all_lints

_LIBRARIES = {"accelerate": "Hugging Face Accelerate", "accelift": "the bundled runtime"}
_HEAD = """\
# accelift check

`accelift check PATH...` looks for what goes wrong on several processes in scripts that use Accelerate, whether
`accelift convert` made them or somebody else, and whether they import `accelift` or Hugging Face's `accelerate`. It
reads the scripts, and neither runs nor changes them.

```
$ accelift check -v train.py
COLL-RANKFLOW train.py:17: `continue` under `if torch.isnan(loss)`: a process decides by a value of its own, and ...
    line 16: `torch.isnan(loss)` comes from this process's part of the data
    line 18: `accelerator.backward(loss)` is done together
```

Nothing is recognised by its name: an accelerator is what `Accelerator(...)` returned, a prepared object what
`prepare` returned, followed through variables, parameters, attributes and calls, also of the project files that a
script imports: what is wrong in these is found there, also if only they use Accelerate. Where something is not certain
nothing is said, so silence is no proof: `accelift verify` runs the script. `-v` shows notes, and for every finding the
way by which it comes about; `--select` and `--ignore` take codes; `--format json` is for programs; `-` reads stdin.
Exit codes: 0 nothing found, or notes only; 1 errors or warnings; 2 something could not be processed.

`--fix` shows a diff that sets right what one edit certainly can, so that on one process the script computes what it
did, and what is left; `--fix --write` writes it. The edits go through the rewriter and checks of `accelift convert`.
"""
_TAIL = """\
## What is not looked for

* Where `prepare` has to stand (PREP-NO-POINT of `accelift convert`): a script that uses Accelerate has its place for
  it. What goes past a prepared object is found: DDP-METHOD, DDP-SUBMODULE, MODEL-UNPREPARED, OPT-UNPREPARED,
  DATA-UNSHARDED.
* What only other ways of sharing a model out do (FSDP, DeepSpeed, Megatron): where a script sets one up, nothing is
  said of DistributedDataParallel.
* Whether a data set is a multiple of the batches, so that DATA-TAIL is a note; and whether dropout, noise or
  augmentation hurt where they differ from those of one process: no reading tells."""


def text(lint: Lint) -> str:
    """A lint for a terminal."""
    lines = textwrap.wrap(lint.text(), 88, break_on_hyphens=False)
    lines += ["", f"Severity: {lint.severity.value}. Found by `accelift check`{_only(lint)}.", *_fixed(lint)]
    for title, code in (("Wrong:", lint.wrong), ("Right:", lint.right)):
        lines += ["", title, "", textwrap.indent(code.rstrip(), "    ")]
    return "\n".join(lines) + "\n"


def to_json(lint: Lint) -> dict[str, Any]:
    """A lint as plain data."""
    return {
        "code": lint.code,
        "kind": "lint",
        "title": lint.title,
        "body": lint.text(),
        "severity": lint.severity.value,
        "library": lint.library,
        "fixed": lint.fixed,
        "wrong": lint.wrong,
        "right": lint.right,
    }


def _only(lint: Lint) -> str:
    return f" in scripts for {_LIBRARIES[lint.library]}" if lint.library else ""


def _fixed(lint: Lint) -> list[str]:
    return [f"`accelift check --fix` sets it right {lint.fixed}."] if lint.fixed else []


def page() -> str:
    """The page docs/check.md."""
    lints = all_lints()
    lines = [_HEAD, "| code | severity | what it finds |", "|---|---|---|"]
    for lint in lints:
        lines.append(f"| [{lint.code}](#{lint.code.lower()}) | {lint.severity.value} | {lint.title} |")
    for lint in lints:
        lines += ["", f"## {lint.code}", "", f"**{lint.title}** ({lint.severity.value}{_only(lint)})", ""]
        lines += [textwrap.fill(" ".join((lint.text(), *_fixed(lint))), 120), "", "```python", "# wrong"]
        lines += [lint.wrong.rstrip()]
        lines += ["", "# right", lint.right.rstrip(), "```"]
    lines += ["", _TAIL]
    lines += ["", "This page is written by `make docs` from the lints themselves."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m accelift_codemod.handbook_lints FILE")
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
