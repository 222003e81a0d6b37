"""Weights that are drawn again once the model is prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod import seeds
from accelift_codemod.draft import Draft
from accelift_codemod.facts.chance import drawn_from
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_RESET = "reset_parameters"  # what torch's layers draw their weights by
_FIXED = frozenset({"constant_", "zeros_", "ones_", "eye_", "dirac_"})  # of torch.nn.init: they draw nothing


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
            if not isinstance(func, ast.Attribute) or not self._draws(draft, call):
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

    def _draws(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a method of a model draws weights: itself, or by the function that it is to apply."""
        if isinstance(call.func, ast.Attribute) and call.func.attr == "apply" and call.args:
            applied = (v.declaration for v in draft.facts.resolver.values(call.args[0]))
            return any(self._initialises(draft, f) for f in applied if isinstance(f, (*FUNCTIONS, ast.Lambda)))
        return isinstance(call.func, ast.Attribute) and call.func.attr == _RESET

    def _initialises(self, draft: Draft, function: ast.AST) -> bool:
        for call in (n for n in walk(function) if isinstance(n, ast.Call)):
            module, _, name = (draft.facts.resolver.qualified(call.func) or "").rpartition(".")
            resets = isinstance(call.func, ast.Attribute) and call.func.attr == _RESET
            if resets or (module == "torch.nn.init" and name not in _FIXED) or drawn_from(draft.facts.resolver, call):
                return True
        return False
