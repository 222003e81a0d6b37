"""Shows one progress bar, not one per process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import library, showing
from accelift_codemod.facts.tree import is_constant
from accelift_codemod.measured import said
from accelift_codemod.plan import Edit, Finding, Need, Operation
from accelift_codemod.rules import Rule

_RULE = "TQDM"
_COUNTS = ("n", "last_print_n", "format_dict")  # of a bar, which a disabled one does not count


class Progress(Rule):
    """Gives tqdm bars `disable=not accelerator.is_local_main_process`: one bar per machine.

    A bar with a `disable` of its own keeps it as a further reason. One that is asked how far it is (`bar.n`) stays on
    every process, for a disabled bar does not count. `tqdm.write`, which prints beside a disabled bar,
    too, is put under a main-process guard.
    """

    code = _RULE
    name = "progress bars"
    before = "for x, y in tqdm(loader):\n"
    after = "for x, y in tqdm(loader, disable=not accelerator.is_local_main_process):\n"

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for call in draft.calls:
            qualified = draft.facts.resolver.qualified(call.func) or ""
            if qualified in library.TQDM and not self._is_asked(draft, call):
                yield from self._bar(draft, call)
            elif showing.is_written_beside_a_bar(draft.facts.resolver, call):
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

    def _is_asked(self, draft: Draft, call: ast.Call) -> bool:
        """Whether others ask a bar how far it is, `bar.n`, and do more with that than to show it."""
        for read in (n for name in _COUNTS for n in draft.facts.index.attributes.get(name, [])):
            bound = draft.facts.resolver.bindings(read.value) if isinstance(read.value, ast.Name) else []
            made = [*(v.origin for v in draft.facts.resolver.values(read.value)), *(b.value for b in bound)]
            if call in made and not _shows(draft, read):
                return True
        return False

    def _bar(self, draft: Draft, call: ast.Call) -> Iterator[Edit]:
        reason = "one bar per machine, not per process"
        others = "not {accelerator}.is_local_main_process"
        own = next((k for k in call.keywords if k.arg in ("disable", None)), None)
        if own is None:
            yield draft.edit(_RULE, call, Operation.ADD_ARGUMENT, reason, f"disable={others}", need=Need.WEAK)
        elif own.arg is None or is_constant(own.value, True):
            return  # `**options` may hold a `disable`; one that is always off stays off
        elif is_constant(own.value, None):  # off unless on a terminal
            code = "disable=None if {accelerator}.is_local_main_process else True"
            yield draft.edit(_RULE, own, Operation.KEYWORD, reason, code, need=Need.WEAK)
        elif isinstance(own.value, ast.Constant):
            yield draft.edit(_RULE, own, Operation.KEYWORD, reason, f"disable={others}", need=Need.WEAK)
        else:
            yield draft.edit(_RULE, own, Operation.SURROUND, reason, f"{{}} or {others}", need=Need.WEAK)


def _shows(draft: Draft, read: ast.Attribute) -> bool:
    """Whether a statement only prints or writes what is read, or tells the bar."""
    statement = draft.facts.index.statement(read)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    own = isinstance(call.func, ast.Attribute) and ast.dump(call.func.value) == ast.dump(read.value)
    return own or bool(said.how(draft, call))
