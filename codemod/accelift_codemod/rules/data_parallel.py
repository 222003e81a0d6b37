"""Takes DataParallel out: the accelerator wraps the model."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import library
from accelift_codemod.plan import Edit, Finding, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "DATAPARALLEL"


class DataParallel(Rule):
    """Removes `torch.nn.DataParallel`, which drives several GPUs from one process: with one process per GPU the
    accelerator wraps the model instead. The launch config takes over the GPUs that it named.
    """

    code = _RULE
    name = "DataParallel"
    required = True
    before = """\
model = nn.DataParallel(model)
"""
    after = ""
    findings = (
        Explained(
            "CKPT-KEYS",
            Severity.NOTE,
            "checkpoints had other keys under DataParallel",
            "Checkpoints that the script saved under DataParallel name their parameters `module.…`; those it saves now "
            "do not. To load an old one, strip the prefix.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for call in draft.calls:
            if (draft.facts.resolver.qualified(call.func) or "") not in library.DATA_PARALLEL:
                continue
            argument = draft.facts.resolver.argument(call, 0, "module")
            if argument is None:
                continue
            yield from take_out(draft, _RULE, call, argument)
            yield draft.finding(
                "CKPT-KEYS",
                Severity.NOTE,
                call,
                "checkpoints saved under DataParallel have the prefix `module.` in their keys; new ones do not",
                "strip the prefix when loading an old one",
            )


def take_out(draft: Draft, rule: str, call: ast.Call, argument: ast.expr) -> Iterator[Edit]:
    """Take the wrapper off a model: `model = DataParallel(model)` goes."""
    reason = "the accelerator wraps the model, one process per GPU"
    statement = draft.facts.index.statement(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if (
        isinstance(target, ast.Name)
        and isinstance(argument, ast.Name)
        and target.id == argument.id
        and isinstance(statement, ast.Assign)
        and statement.value is call
    ):
        yield draft.edit(rule, statement, Operation.DROP, reason)
    else:
        place, keyword = (0, "") if argument in call.args else (None, "module")
        yield draft.edit(rule, call, Operation.INNER, reason, keyword, place=place)
