"""Files that are opened for writing and kept: one process writes them, the others to nowhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import files, library
from accelift_codemod.inserted.modules import Known, known, precedes
from accelift_codemod.main_process import RULE, alone
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity

_READS = ("read", "readline", "readlines", "seek", "truncate")


def is_alone(draft: Draft, call: ast.Call) -> bool:
    """Whether the statement that opens a file can be left out on a process: it writes into the file, no more."""
    statement = draft.facts.index.statement(call)
    apart = draft.facts.resolver.builtin(call.func) != "open" or _prints_into(draft, statement, call)
    if isinstance(statement, ast.Expr) and apart and draft.collective(statement) is None:
        return True
    return isinstance(statement, ast.With) and alone.self_contained(draft, statement)


def kept(draft: Draft, call: ast.Call, imported: list[ast.stmt], otherwise: Finding | None) -> Iterator[Edit | Finding]:
    """A file that is opened for writing, and that what follows needs on every process."""
    mode = files.mode(draft.facts.resolver, call) or ""
    read = "r" in mode or ("+" in mode and _is_read(draft, call))
    plain = draft.facts.resolver.builtin(call.func) == "open"
    if not plain or read or known(draft, call, "os") is Known.NEVER or _counts_on_it(draft, call):
        yield draft.finding(
            "SAVE-RACE",
            Severity.WARNING,
            call,
            f"`{draft.facts.segment(call.func)}` opens a file that every process would write to",
            "open it, and write to it, under `if accelerator.is_main_process:`",
        )
        return
    yield from _nowhere(draft, call, call.args[0] if call.args else call, imported, otherwise)


def logged(draft: Draft, call: ast.Call, name: ast.expr, imported: list[ast.stmt]) -> Iterator[Edit | Finding]:
    """A file that the logging module writes every line into, on every process."""
    begins = files.begins_log(draft.facts.resolver, call)
    does = (
        "begins the same log anew on every process, which write over what the others have written"
        if begins
        else "adds the lines of every process to the same log"
    )
    finding = draft.finding(
        "SAVE-RACE",
        Severity.WARNING if begins else Severity.NOTE,
        call,
        f"`{draft.facts.segment(call.func)}` {does}",
        "let the main process alone log into a file, or give each a name of its own",
    )
    if known(draft, call, "os") is Known.NEVER:
        yield finding
    else:
        yield from _nowhere(draft, call, name, imported, finding)


def _nowhere(
    draft: Draft, call: ast.Call, name: ast.expr, imported: list[ast.stmt], otherwise: Finding | None
) -> Iterator[Edit]:
    """What opens a file by a name opens another one on the other processes, which takes all and keeps nothing."""
    statement = draft.facts.index.statement(call)
    late = known(draft, call, "os") is Known.LATER
    if late and not any(s is statement or precedes(draft, s, call) for s in imported):
        imported.append(statement)
        reason = "os is imported after this"
        yield draft.edit(RULE, statement, Operation.BEFORE, reason, "import os", need=Need.WEAK)
    keyword = next((k for k in call.keywords if k.value is name), None)
    yield draft.edit(
        RULE,
        keyword or call,
        Operation.SURROUND,
        "one process writes the file; the others write to nowhere",
        "{} if {accelerator}.is_main_process else os.devnull",
        place=None if keyword else 0,
        need=Need.WEAK,
        otherwise=otherwise,
    )


def _is_read(draft: Draft, call: ast.Call) -> bool:
    """Whether what a call opens is read, or gone back in."""
    asked = (a.value for name in _READS for a in draft.facts.index.attributes.get(name, ()))
    bound = (b for value in asked if isinstance(value, ast.Name) for b in draft.facts.resolver.bindings(value))
    return any(b.value is call for b in bound)


def _counts_on_it(draft: Draft, call: ast.Call) -> bool:
    """Whether something fails where a file that a call opens is not there: `os.path.getsize(path)`."""
    named = [ast.dump(path) for path in (draft.facts.resolver.argument(call, 0, "file"),) if path is not None]
    asking = (c for c in draft.calls if draft.facts.resolver.qualified(c.func) in library.ASKS_OF)
    return any(ast.dump(a) in named for c in asking for a in c.args[:1] if draft.facts.same_file(c, call))


def _prints_into(draft: Draft, statement: ast.stmt, file: ast.Call) -> bool:
    """Whether a statement does nothing but print into a file that is opened for it."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or draft.facts.resolver.builtin(call.func) != "print":
        return False
    return any(k.arg == "file" and k.value is file for k in call.keywords)
