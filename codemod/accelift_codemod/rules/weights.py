"""Weights that are drawn again once the model is prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance import seeds
from accelift_codemod.chance.networks import own_networks
from accelift_codemod.chance.redrawn import redrawn
from accelift_codemod.draft import Draft
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule


class Weights(Rule):
    """Reports weights that are drawn without a seed, and not those of the first process everywhere.

    All processes begin with the weights of the first one: prepare sees to that, once. What each of them draws later
    stays its own, and the models never meet again. A network that is not prepared, such as a teacher that learns by
    moving averages, has other weights on every process from the beginning.
    """

    code = "REDRAW"
    name = "weights drawn again"
    findings = (
        Explained(
            "INIT-UNSEEDED",
            Severity.ERROR,
            "weights drawn without a seed",
            "The weights of a prepared model are drawn again, or those of a network that training or an evaluation "
            "uses and that is not prepared are drawn, without a seed: every process then has weights of its own. A "
            "copy that is made before the model is prepared has those that its process drew. Seed torch before it.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for call in self._again(draft):
            yield draft.finding(
                "INIT-UNSEEDED",
                Severity.ERROR,
                call,
                "prepared weights are drawn again without a seed: every process would train a model of its own",
                "call torch.manual_seed before it, or make the model anew and prepare it",
            )
        for model in own_networks(draft):
            yield draft.finding(
                "INIT-UNSEEDED",
                Severity.ERROR,
                model.sites[0] if model.sites else model.origin,
                "this network is not prepared, and its weights are drawn without a seed: every process would "
                "train or evaluate with another one",
                "call torch.manual_seed before it",
            )

    def _again(self, draft: Draft) -> list[ast.Call]:
        """The calls that draw prepared weights without a seed, the innermost of them."""
        found = []
        for call in draft.calls:
            late = any(draft.blueprint.may_follow_prepare(call, model) for model in redrawn(draft, call))
            if late and not seeds.seeded(draft, call, seeds.TORCH):
                found.append(call)
        inside = {draft.function(call) for call in found} - {None}
        return [call for call in found if draft.facts.resolver.callee(call) not in inside]
