"""Reports errors that one process would deal with by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.library import RAISED_BY_ALL
from accelift_codemod.facts.tree import leaves, walk
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule


class Errors(Rule):
    """Reports handlers that let a script go on after an error that came while it was training.

    Only one process may meet the error: a bad file, a batch that needs too much memory. It would go on elsewhere, while
    the others wait for it in the step that it has left.
    """

    code = "ERRORS"
    name = "errors that are caught"
    findings = (
        Explained(
            "COLL-EXCEPT",
            Severity.WARNING,
            "goes on after an error in training",
            "An error that comes while all processes train together is caught, and the script goes on. Only one "
            "process may have met it: the others wait for that one in the step that it has left, until they time out.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for block in draft.facts.index.tries:
            if not draft.facts.runs(block) or not any(draft.collective(s) is not None for s in block.body):
                continue
            for handler in block.handlers:
                goes_on = leaves(handler.body) or any(isinstance(n, ast.Return) for s in handler.body for n in walk(s))
                if draft.caught(handler) - RAISED_BY_ALL and (goes_on or not draft.ends(handler.body[-1])):
                    yield draft.finding(
                        "COLL-EXCEPT",
                        Severity.WARNING,
                        handler,
                        "a process that meets an error here goes on by itself, and the others wait for it",
                        "raise it again at the end of the handler, so that the launcher ends all processes",
                    )
