"""Weights that are drawn again once the model is prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance import seeds
from accelift_codemod.chance.redrawn import redrawn
from accelift_codemod.draft import Draft
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role, Value
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_LAYERS = ("Linear", "Conv", "Embedding", "LSTM", "GRU", "RNN", "Bilinear", "MultiheadAttention", "Transformer")
_FETCHED = ("torchvision.models", "torch.hub.", "timm.", "transformers.")


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
            "The weights of a prepared model are drawn again, or those of a network that training uses and that is not "
            "prepared are drawn, without a seed: every process then has weights of its own. Seed torch before it.",
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
        reported: set[ast.AST] = set()
        for model in self._beside(draft):
            if model.origin not in reported and isinstance(model.origin, ast.Call):
                reported.add(model.origin)
                if not seeds.seeded(draft, model.origin, seeds.TORCH):
                    yield draft.finding(
                        "INIT-UNSEEDED",
                        Severity.ERROR,
                        model.origin,
                        "this network is not prepared, and its weights are drawn without a seed: every process would "
                        "train with another one",
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

    def _beside(self, draft: Draft) -> Iterator[Value]:
        """The networks that training loops run beside the prepared ones, with weights that they are made with."""
        settled = {
            value.origin
            for call in draft.facts.index.methods.get("load_state_dict", [])
            if isinstance(call.func, ast.Attribute)
            for value in draft.facts.resolver.values(call.func.value)
        }
        owners = [item.value.origin for item in draft.blueprint.items.values()]
        settled |= {  # parts of what is prepared
            value.origin
            for owner in owners
            if isinstance(owner, ast.Call)
            for argument in (*owner.args, *(k.value for k in owner.keywords))
            for value in draft.facts.resolver.values(argument)
        }
        for loop in draft.blueprint.train_loops:
            functions = dict.fromkeys(f for s in loop.body for f in draft.blueprint.timeline.calls_into(s))
            for call in (n for part in (*loop.body, *functions) for n in walk(part) if isinstance(n, ast.Call)):
                if draft.blueprint.prepared_models(call.func):
                    continue
                for model in draft.facts.objects.models(call.func):
                    part = draft.facts.index.enclosing_class(model.origin)  # of a network that may be prepared
                    if part is not None and draft.facts.resolver.class_role(part) is Role.MODEL:
                        continue
                    if model.origin not in settled and self._is_random(draft, model):
                        yield model

    def _is_random(self, draft: Draft, model: Value) -> bool:
        """Whether a network certainly begins with weights that are drawn: of layers of torch, none of them fetched."""
        made = model.origin
        classes = draft.facts.resolver.ancestry(model.declaration)
        calls = [made] if not classes else [n for cls in classes for n in walk(cls) if isinstance(n, ast.Call)]
        names = [draft.facts.resolver.qualified(c.func) or "" for c in calls if isinstance(c, ast.Call)]
        fetched = any(name.startswith(_FETCHED) or name in ("torch.load", "copy.deepcopy") for name in names)
        return not fetched and any(
            name.startswith("torch.nn.") and name.rpartition(".")[2].startswith(_LAYERS) for name in names
        )
