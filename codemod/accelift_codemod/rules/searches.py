"""Searches for hyperparameters that run the training once for each trial."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import library
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_METHODS = frozenset(name.rpartition(".")[2] for name in library.SEARCHES)


class Searches(Rule):
    """Reports a search for hyperparameters, of a library, that calls the training again and again.

    Every process would run the search for itself, and be told other hyperparameters than the others.
    """

    code = "SEARCH"
    name = "searches for hyperparameters"
    findings = (
        Explained(
            "HPO-TRIALS",
            Severity.ERROR,
            "every process would search for hyperparameters",
            "A library that searches for hyperparameters (Optuna, a sweep of Weights & Biases, Ray Tune, Hyperopt, "
            "scikit-optimize) is handed the training, and calls it once for each trial. Every process would run that "
            "search for itself and be told other values: models of other sizes, other learning rates, other numbers of "
            "steps, so that the processes train different models or wait for each other. Launch one job for each trial "
            "from a script around it, or let the main process ask for the values and send them to the others "
            "(Optuna has TorchDistributedTrial for it).",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for call in draft.calls:
            given = self._handed(draft, call)
            called = (given, *(v.declaration for v in draft.facts.resolver.values(given)))
            if any(self._trains(draft, function) for function in called):
                yield draft.finding(
                    "HPO-TRIALS",
                    Severity.ERROR,
                    call,
                    f"`{draft.facts.segment(call.func)}` runs the training for each of its trials, and every process "
                    "would run a search of its own, with other hyperparameters than the others",
                    "launch one job for each trial, or let the main process ask for the values and broadcast them",
                )

    def _handed(self, draft: Draft, call: ast.Call) -> ast.expr | None:
        """What a search is to call for each trial."""
        resolver = draft.facts.resolver
        if (call.func.attr if isinstance(call.func, ast.Attribute) else "") not in ("", *_METHODS):
            return None  # as nearly all
        place = library.SEARCHES.get(resolver.qualified(call.func) or "")
        if place is None and isinstance(call.func, ast.Attribute):
            made = (f"{v.name}.{call.func.attr}" for v in resolver.values(call.func.value))
            place = next((library.SEARCHES[name] for name in made if name in library.SEARCHES), None)
        return resolver.argument(call, *place) if place is not None else None

    def _trains(self, draft: Draft, function: ast.AST | None) -> bool:
        """Whether a function runs a backward pass."""
        if isinstance(function, ast.Lambda):
            return draft.facts.loops.reaches_backward([ast.Expr(function.body)])
        return isinstance(function, FUNCTIONS) and draft.facts.loops.reaches_backward(function.body)
