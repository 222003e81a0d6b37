"""Hands mixed precision to the accelerator, if the user wants that."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.tree import walk
from accelift_codemod.own_precision import OwnPrecision
from accelift_codemod.plan import Assumption, Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule
from accelift_codemod.rules.clip import clips

_RULE = "AMP"
_OUTPUTS = Assumption("the loss may be computed of outputs in float32, not in half precision")


class Precision(Rule):
    """Leaves autocast and the GradScaler to the accelerator where `--precision managed` asks for that:
    `Accelerator(mixed_precision="fp16")` scales losses, unscales gradients and skips steps, and what stood under
    autocast stands under `accelerator.autocast()`. Without the option the script keeps its own, which computes the same
    bit for bit.

    It is done for all of the script or not at all, and only where all that happens to the scaler is known, and no
    prepared network is called outside of autocast.
    """

    code = _RULE
    name = "mixed precision"
    always = True
    before = """\
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda"):
    loss = criterion(model(x), y)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""
    after = """\
with accelerator.autocast():
    loss = criterion(model(x), y)
accelerator.backward(loss)
optimizer.step()
"""
    assumptions = (_OUTPUTS,)
    findings = (
        Explained(
            "AMP-KEPT",
            Severity.NOTE,
            "mixed precision stays the script's own",
            "The script's autocast and GradScaler compute what they did before, on any number of processes; launch "
            'with mixed_precision "no". `--precision managed` hands them to the accelerator instead. Where that was '
            "asked for and cannot be done, this is a warning, and says why.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        own = draft.own_precision
        if own.first is None:
            return
        if draft.options.precision != "managed":
            yield draft.finding(
                "AMP-KEPT",
                Severity.NOTE,
                own.first,
                "autocast and GradScaler stay the script's own",
                "--precision managed hands them to the accelerator",
            )
        elif own.kept is not None:
            yield draft.finding(
                "AMP-KEPT",
                Severity.WARNING,
                own.kept.node,
                f"mixed precision stays the script's own: {own.kept}",
                "leave it so, which is right on any number of processes, or change that",
            )
        else:
            yield from self._autocast(draft, own)
            yield from self._scaler(draft, own)

    def _autocast(self, draft: Draft, own: OwnPrecision) -> Iterator[Edit]:
        for region in own.regions:
            yield draft.edit(
                _RULE,
                region.call,
                Operation.BECOME,
                f"the accelerator computes in {own.dtype}",
                "{accelerator}.autocast()",
                need=Need.STRONG,
                assumes=_OUTPUTS,
            )

    def _scaler(self, draft: Draft, own: OwnPrecision) -> Iterator[Edit]:
        reason = "the accelerator scales losses, unscales gradients and skips steps that overflow"
        for call in own.scalers:
            yield draft.edit(_RULE, draft.facts.index.statement(call), Operation.DROP, reason)
        for name, call in own.uses:
            statement = draft.facts.index.statement(call)
            if name == "scale":
                yield draft.edit(_RULE, call, Operation.INNER, reason, place=0)
            elif name == "step":
                yield draft.edit(_RULE, call, Operation.BECOME, reason, f"{draft.facts.segment(call.args[0])}.step()")
            elif name == "update" or self._clips_next(draft, statement):
                yield draft.edit(_RULE, statement, Operation.DROP, reason)
            else:
                code = f"{{accelerator}}.unscale_gradients({draft.facts.segment(call.args[0])})"
                yield draft.edit(_RULE, call, Operation.BECOME, reason, code, need=Need.STRONG)
        for argument in own.handed:
            yield draft.edit(_RULE, argument, Operation.DROP_ARGUMENT, reason)
        for function, parameter in own.parameters:
            yield draft.edit(_RULE, own.parameter(function, parameter), Operation.DROP_PARAMETER, reason)

    def _clips_next(self, draft: Draft, statement: ast.stmt) -> bool:
        """Whether the next statement clips gradients through the accelerator, which unscales them first."""
        block, place = draft.facts.index.block(statement)
        parts = (n for s in block[place + 1 : place + 2] for n in walk(s) if isinstance(n, ast.Call))
        return draft.options.chooses("CLIP") and any(clips(draft, call) for call in parts)
