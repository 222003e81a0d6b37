"""The order of sets of texts, which every process has its own of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance.entries import Entry
from accelift_codemod.chance.hash_order import HashOrder
from accelift_codemod.draft import Draft
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule


class HashOrders(Rule):
    """Reports the order of a set, if the data are numbered, picked or dealt in it, and `hash` of a text.

    Python hashes texts otherwise in every process, unless `PYTHONHASHSEED` is set: a vocabulary made of
    `enumerate(set(words))` gives the same word another number on every process. `accelift launch` sets one for all
    processes, other launchers do not. The hashes of numbers are alike everywhere.
    """

    code = "HASH"
    name = "the order of sets"
    findings = (
        Explained(
            "HASH-ORDER",
            Severity.WARNING,
            "the order of a set reaches the data",
            "Words, labels or files are numbered, picked or dealt in the order of a set, or by `hash`. That of texts "
            "is another one in every process, unless all of them have one PYTHONHASHSEED, as `accelift launch` sees "
            "to. Sort it: `sorted(set(words))`. A note, if it is not known whether the set holds numbers, whose order "
            "is the same everywhere.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for origin, entry in HashOrder(draft).found():
            sure, hashed = entry is Entry.TEXT, _is_hash(origin)
            what = "is another number" if hashed else "has another order"
            remedy = "use a hash of hashlib or zlib" if hashed else "sort it"
            unless = "" if sure else ", unless it is of numbers"
            yield draft.finding(
                "HASH-ORDER",
                Severity.WARNING if sure else Severity.NOTE,
                origin,
                f"`{draft.facts.short(origin)}` {what} in every process{unless}, and the data follow from it",
                f"{remedy}, or launch with one PYTHONHASHSEED, as accelift launch does",
            )


def _is_hash(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hash"
