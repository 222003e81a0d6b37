"""Functions that a script looks up among its own globals: by a name that is written out, they are run as any other."""

from __future__ import annotations

import pytest
from scripts import NO_LOOP, TRAINS, converted, findings, script, unchanged

LOOKUPS = [
    'globals()["{}"]',
    'globals().get("{}")',
    'vars()["{}"]',
    'getattr(sys.modules[__name__], "{}")',
    'eval("{}")',
]
SLOTS = {**NO_LOOP, "imports": "import sys", "definitions": f"def fit(model, optimizer, loader):\n{TRAINS}"}


def running(called: str, **slots: str) -> str:
    return script(**{**SLOTS, "after": f"{called}(model, optimizer, loader)", **slots})


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_name_that_is_written_out(lookup: str) -> None:
    called = lookup.format("fit")
    assert converted(running(called)) == converted(running("fit")).replace("\nfit(", f"\n{called}(")


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_name_that_only_shows_when_the_script_runs(lookup: str) -> None:
    called = lookup.replace('"{}"', "sys.argv[1]")
    assert unchanged(running(called)).code == "ENTRY-BY-NAME"


@pytest.mark.parametrize(
    "called",
    [
        'globals()["other"]',  # there is none
        "print",
        "getattr(sys, sys.argv[1])",  # of another module
    ],
)
def test_what_runs_something_else(called: str) -> None:
    assert unchanged(running(called)).code == "NO-ENTRY"


def test_what_is_looked_up_beside_the_training_does_not_matter() -> None:
    text = running("fit", before="shown = globals().get(sys.argv[0])\nprint(shown)")
    assert findings(text) == findings(running("fit", before="shown = None\nprint(shown)"))
