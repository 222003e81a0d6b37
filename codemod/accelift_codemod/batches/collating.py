"""Batches that are collated by something of which nothing is known: what it gives may have any number of rows."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.layout.algebra import Layout
from accelift_codemod.plan import Finding, Severity

_ROW_BY_ROW = ("transformers.", "torch.")  # collators that give one row for each sample


def unknown(draft: Draft, call: ast.Call) -> ast.expr | None:
    """What collates the batches that a loss is computed from, if it is a function, or an object, of a library or of a
    file that is not followed."""
    for loader in (loader for loop in draft.training_around(call) for loader in loop.loaders):
        collate = draft.facts.objects.loader(loader).arguments.get("collate_fn")
        if collate is None or draft.facts.collated.batch([loader]) is not Layout.UNKNOWN:
            continue
        made = [v for v in draft.facts.resolver.values(collate) if v.role is Role.OBJECT and v.declaration is None]
        name = draft.facts.resolver.qualified(collate) or next((v.name for v in made), "")
        if name and not name.startswith(_ROW_BY_ROW):
            return collate
    return None


def doubt(draft: Draft, call: ast.Call, name: str, collate: ast.expr) -> Finding:
    """What is said of a loss that is a mean over what such batches hold."""
    return draft.finding(
        "LOSS-UNKNOWN",
        Severity.NOTE,
        call,
        f"nothing is known of `{draft.facts.short(collate)}`, which collates the batches: if `{name}` is a mean over "
        "something of which samples have different numbers (nodes, words), every process divides by its own number",
        "give accelerator.backward how many the process has, weight=len(...), if that is so"
        if draft.runtime
        else "accept the small difference, or sum the loss and divide by the total of all processes, if that is so",
    )
