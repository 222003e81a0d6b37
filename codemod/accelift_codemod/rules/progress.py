"""Shows one progress bar, not one per process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import library
from accelift_codemod.plan import Edit, Finding, Need, Operation
from accelift_codemod.rules import Rule

_RULE = "TQDM"


class Progress(Rule):
    """Gives tqdm bars `disable=not accelerator.is_local_main_process`: one bar per machine.

    A bar with a `disable` of its own keeps it as a further reason. `tqdm.write` is put under a main-process guard.
    """

    code = _RULE
    name = "progress bars"
    before = "for x, y in tqdm(loader):\n"
    after = "for x, y in tqdm(loader, disable=not accelerator.is_local_main_process):\n"

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for call in draft.calls:
            qualified = draft.facts.resolver.qualified(call.func) or ""
            if qualified in library.TQDM:
                yield self._bar(draft, call)
            elif qualified.rpartition(".")[0] in library.TQDM and qualified.endswith(".write"):
                statement = draft.facts.index.statement(call)
                if isinstance(statement, ast.Expr) and draft.collective(statement) is None:
                    yield draft.edit(
                        _RULE,
                        statement,
                        Operation.ENCLOSE,
                        "one line per job, not per process",
                        "if {accelerator}.is_main_process:",
                        need=Need.WEAK,
                    )

    def _bar(self, draft: Draft, call: ast.Call) -> Edit:
        reason = "one bar per machine, not per process"
        for keyword in call.keywords:
            if keyword.arg == "disable":
                text = draft.facts.segment(keyword.value)
                if not isinstance(keyword.value, (ast.Name, ast.Attribute, ast.Constant, ast.Call)):
                    text = f"({text})"
                code = f"disable={text} or not {{accelerator}}.is_local_main_process"
                if isinstance(keyword.value, ast.Constant) and not keyword.value.value:
                    code = "disable=not {accelerator}.is_local_main_process"
                return draft.edit(_RULE, keyword, Operation.KEYWORD, reason, code, need=Need.WEAK)
        code = "disable=not {accelerator}.is_local_main_process"
        return draft.edit(_RULE, call, Operation.ADD_ARGUMENT, reason, code, need=Need.WEAK)
