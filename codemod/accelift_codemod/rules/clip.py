"""Clips gradients through the accelerator."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.plan import Edit, Finding, Need, Operation
from accelift_codemod.rules import Rule

_RULE = "CLIP"
_FUNCTIONS = {
    "torch.nn.utils.clip_grad_norm_": ("clip_grad_norm_", {"parameters", "max_norm", "norm_type"}),
    "torch.nn.utils.clip_grad_norm": ("clip_grad_norm_", {"parameters", "max_norm", "norm_type"}),
    "torch.nn.utils.clip_grad.clip_grad_norm_": ("clip_grad_norm_", {"parameters", "max_norm", "norm_type"}),
    "torch.nn.utils.clip_grad_value_": ("clip_grad_value_", {"parameters", "clip_value"}),
    "torch.nn.utils.clip_grad.clip_grad_value_": ("clip_grad_value_", {"parameters", "clip_value"}),
}


class Clip(Rule):
    """Writes `accelerator.clip_grad_norm_` and `accelerator.clip_grad_value_` for torch's functions.

    They unscale first under managed mixed precision and do the right thing for sharded models. Where the script has
    a GradScaler of its own, which it unscales itself, torch's function stays.
    """

    code = _RULE
    name = "gradient clipping"
    always = True
    before = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    after = "accelerator.clip_grad_norm_(model.parameters(), 1.0)\n"

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        if any(True for _ in draft.facts.objects_of(Role.SCALER)) and not draft.own_precision.is_managed:
            return
        for call in draft.calls:
            name = clips(draft, call)
            if name:
                yield draft.edit(
                    _RULE,
                    call.func,
                    Operation.BECOME,
                    "clipping has to see the unscaled, averaged gradients",
                    f"{{accelerator}}.{name}",
                    need=Need.STRONG if draft.own_precision.is_managed else Need.WEAK,
                )


def clips(draft: Draft, call: ast.Call) -> str:
    """The accelerator's method that clips gradients as a call does; empty if there is none."""
    name, accepted = _FUNCTIONS.get(draft.facts.resolver.qualified(call.func) or "", ("", set[str]()))
    known = len(call.args) <= len(accepted) and all(k.arg in accepted for k in call.keywords)
    return name if known and not any(isinstance(a, ast.Starred) for a in call.args) else ""
