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
_CONTEXTS = frozenset(f"{home}.get_context" for home in _MODULES)
_PROCESSES = frozenset({"Process", "Pool", "Manager", "ProcessPoolExecutor"})
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
    calls = (call for call in draft.calls if _starts_anew(draft, call) and _starts_any(draft, call))
    for call in sorted(calls, key=lambda call: call.lineno)[:1]:
        yield draft.finding(
            "SPAWN-IMPORT",
            Severity.ERROR,
            call,
            f"`{draft.facts.short(call)}` is for processes that import this script again, and the accelerator is made "
            "there: on several processes each of them wants to join the job, and waits for ever",
            'choose the device in a function, or under `if __name__ == "__main__":`, or let the processes be forked',
        )


def _starts_any(draft: Draft, told: ast.Call) -> bool:
    """Whether there are processes that a call tells how they are started: no locks, and no loader that has no workers.
    A context is for those that it starts itself, and for loaders that it is handed to."""
    resolver = draft.facts.resolver
    context = resolver.qualified(told.func) in _CONTEXTS
    for call in draft.calls:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else resolver.qualified(call.func) or ""
        if name.rpartition(".")[2] in _PROCESSES:
            return True
        if Role.LOADER in resolver.roles(call):
            workers = resolver.argument(call, 5, "num_workers")
            some = any(k.arg is None for k in call.keywords) if workers is None else not _is_none(workers)
            if some and (not context or resolver.argument(call, None, "multiprocessing_context") is not None):
                return True
    return False


def _is_none(workers: ast.expr) -> bool:
    return isinstance(workers, ast.Constant) and not workers.value


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
