"""What averages a number of one process's share across processes: of means over samples, exactly."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import walk

_PARTS = (ast.Name, ast.Attribute, ast.Call, ast.BinOp)


def averaging(draft: Draft, place: ast.AST, measured: ast.expr) -> str:
    """By what a number that an iteration computes is to be averaged: batch_mean weighs shares of different sizes."""
    parts = [n for n in walk(measured) if isinstance(n, _PARTS)]
    for loop in draft.training_around(place) if draft.runtime else ():
        env = draft.environment(loop, place)
        if env is not None and any(draft.facts.layouts.read(part, env) is Layout.MEAN for part in parts):
            return "accelerator.batch_mean"
    return 'accelerator.reduce(..., "mean")'
