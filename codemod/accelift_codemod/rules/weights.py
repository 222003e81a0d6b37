"""Weights that are drawn again once the model is prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod import seeds
from accelift_codemod.draft import Draft
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_REDRAWS = frozenset({"reset_parameters", "apply"})  # methods of torch's modules


class Weights(Rule):
    """Reports weights that are drawn again, without a seed, after the model was prepared.

    All processes begin with the weights of the first one: prepare sees to that, once. What each of them draws later
    stays its own, and the models never meet again.
    """

    code = "REDRAW"
    name = "weights drawn again"
    findings = (
        Explained(
            "INIT-UNSEEDED",
            Severity.ERROR,
            "weights drawn again without a seed",
            "The weights of a prepared model are drawn again, without a seed: every process then trains a model of its "
            "own. Seed torch before it, or make and prepare a new model.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for call in draft.calls:
            func = call.func
            if not (isinstance(func, ast.Attribute) and func.attr in _REDRAWS):
                continue
            models = draft.blueprint.prepared_models(func.value)
            late = any(draft.blueprint.may_follow_prepare(call, model) for model in models)
            if late and not seeds.seeded(draft, call, seeds.TORCH):
                yield draft.finding(
                    "INIT-UNSEEDED",
                    Severity.ERROR,
                    call,
                    "prepared weights are drawn again without a seed: every process would train a model of its own",
                    "call torch.manual_seed before it, or make the model anew and prepare it",
                )
