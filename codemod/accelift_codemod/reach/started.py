"""Processes that a script starts and that import it again: with the accelerator, if it is made where that is done."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.command_line import is_main
from accelift_codemod.plan import Finding, Severity

_MODULES = ("multiprocessing", "torch.multiprocessing")
_METHODS = frozenset(f"{home}.{name}" for home in _MODULES for name in ("get_context", "set_start_method"))
_ANEW = frozenset({"spawn", "forkserver"})  # a fork has what its parent has


def importing(draft: Draft) -> Iterator[Finding]:
    """What is said of the first call that starts such processes, of which each would join the job once more."""
    reach = draft.reach
    if reach.home is not None or draft.facts.processes.managed:
        return
    made = reach.block[min(reach.place, len(reach.block) - 1)]
    top = draft.facts.index.chain(made)[0]
    if isinstance(top, ast.If) and is_main(top):
        return
    calls = (call for call in draft.calls if draft.facts.runs(call) and _starts_anew(draft, call))
    for call in sorted(calls, key=lambda call: call.lineno)[:1]:
        yield draft.finding(
            "SPAWN-IMPORT",
            Severity.ERROR,
            call,
            f"`{draft.facts.short(call)}` is for processes that import this script again, and the accelerator is made "
            "there: on several processes each of them wants to join the job, and waits for ever",
            'choose the device in a function, or under `if __name__ == "__main__":`, or let the processes be forked',
        )


def _starts_anew(draft: Draft, call: ast.Call) -> bool:
    """Whether a call starts processes, or says that they are started, so that they import the script."""
    resolver = draft.facts.resolver
    name = resolver.qualified(call.func) or ""
    told = [k.value for k in call.keywords if k.arg == "multiprocessing_context"]
    if name in _METHODS:
        told = [a for a in (resolver.argument(call, 0, "method"),) if a is not None]
    elif Role.LOADER not in resolver.roles(call):
        return False  # `mp.spawn` is what scripts distribute themselves by
    return any(isinstance(value, ast.Constant) and value.value in _ANEW for value in told)
