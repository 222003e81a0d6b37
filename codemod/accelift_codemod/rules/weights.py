"""Weights that are drawn again once the model is prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance import seeds
from accelift_codemod.chance.networks import own_networks
from accelift_codemod.chance.redrawn import redrawn
from accelift_codemod.draft import Draft
from accelift_codemod.facts.chance import drawn_from
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule


class Weights(Rule):
    """Reports weights that are drawn without a seed, and not those of the first process everywhere.

    All processes begin with the weights of the first one: prepare sees to that, once. What each of them draws later
    stays its own, and the models never meet again. A seed from before a training that draws, too, as dropout does, is
    none any more: shares of different sizes draw other numbers. A network that is not prepared, such as a teacher that
    learns by moving averages, has other weights on every process from the beginning.
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
        # Calls that draw prepared weights, if they may run once these are.
        late = [c for c in draft.calls if any(draft.blueprint.may_follow_prepare(c, m) for m in redrawn(draft, c))]
        for call in _innermost(draft, [call for call in late if not seeds.seeded(draft, call, seeds.TORCH)]):
            yield draft.finding(
                "INIT-UNSEEDED",
                Severity.ERROR,
                call,
                "prepared weights are drawn again without a seed: every process would train a model of its own",
                "call torch.manual_seed before it, or make the model anew and prepare it",
            )
        for call, drawn in self._parted(draft, late):
            yield draft.finding(
                "INIT-UNSEEDED",
                Severity.WARNING,
                call,
                f"prepared weights are drawn again after training has drawn random numbers (line {drawn.lineno}: "
                f"`{draft.facts.segment(drawn)}`): processes that have had shares of different sizes draw other ones",
                "call torch.manual_seed before it",
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

    def _parted(self, draft: Draft, late: list[ast.Call]) -> Iterator[tuple[ast.Call, ast.Call]]:
        """Calls that draw prepared weights by a seed from before a training that draws, too, and what that draws."""
        seeded = _innermost(draft, [call for call in late if seeds.seeded(draft, call, seeds.TORCH)])
        drawn = _drawn(draft) if seeded else {}
        told = set()
        for call in seeded:
            found = next((one for loop, one in drawn.items() if _comes_after(draft, call, loop)), None)
            if found is not None and draft.function(call) not in told:
                told.add(draft.function(call))
                yield call, found


def _innermost(draft: Draft, calls: list[ast.Call]) -> list[ast.Call]:
    inside = {draft.function(call) for call in calls} - {None}
    return [call for call in calls if draft.facts.resolver.callee(call) not in inside]


def _drawn(draft: Draft) -> dict[ast.AST, ast.Call]:
    """For each training loop a call that draws for its batches, as many numbers as there are samples, if there is one:
    dropout, or noise."""
    loops = dict.fromkeys(loop.node for loop in draft.blueprint.train_loops)
    found: dict[ast.AST, ast.Call] = {}
    for call in draft.calls:
        module, _, name = (draft.facts.resolver.qualified(call.func) or "").rpartition(".")
        drops = module in ("torch.nn", "torch.nn.functional") and "dropout" in name.lower()
        if not drops and (drawn_from(draft.facts.resolver, call) != "torch" or redrawn(draft, call)):
            continue
        if drops or getattr(draft.function(call), "name", "") == "forward":
            return {**dict.fromkeys(loops, call), **found}
        for loop in draft.facts.index.enclosing_loops(call):
            if loop in loops:
                found.setdefault(loop, call)
    return found


def _comes_after(draft: Draft, call: ast.Call, loop: ast.AST) -> bool:
    """Whether a call runs again and again in turns with a loop, and nothing is seeded in these turns."""
    timeline, index = draft.blueprint.timeline, draft.facts.index
    inner, outer = index.function(call), index.function(loop)
    for home in dict.fromkeys((inner, outer, *(timeline.callers(inner) & timeline.callers(outer)), None)):
        for place in timeline.places(call, home):
            for other in timeline.places(loop, home):
                shared = set(index.enclosing_loops(place)) & set(index.enclosing_loops(other))
                if shared - {loop}:
                    seeding = (one for known, _ in draft.seeding for one in timeline.places(known, home))
                    return not any(shared & set(index.enclosing_loops(one)) for one in seeding)
    return False
