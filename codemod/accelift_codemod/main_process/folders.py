"""Folders that scripts make: by every process, or by one where the others would be told that they are there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import files
from accelift_codemod.facts.tree import is_constant
from accelift_codemod.inserted.modules import Known, known
from accelift_codemod.main_process import HEADER, RULE
from accelift_codemod.plan import FOR_EACH, Edit, Finding, Need, Operation, Severity

_MAKES = ("os.makedirs", "os.mkdir")
SLOWER = "a slower process would find what the main process has made"


def makes(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes a folder, and does not say that it may be there already."""
    return is_made_by(draft, call) and draft.facts.resolver.argument(call, 2, "exist_ok") is None


def is_made_by(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes a folder."""
    if draft.facts.resolver.qualified(call.func) in _MAKES:
        return True
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "mkdir":
        return False
    return draft.facts.resolver.is_of(call.func.value, "pathlib.")


def asked_before(draft: Draft, statement: ast.stmt) -> Iterator[Edit]:
    """A test just before a folder is made, which ends the script if it is there: a slower process would find it."""
    block, place = draft.facts.index.block(statement)
    test = block[place - 1] if place else None
    if (
        isinstance(test, ast.If)
        and not test.orelse
        and files.asks(draft.facts.resolver, test.test)
        and draft.ends(test.body[-1])
    ):
        yield draft.edit(RULE, test, Operation.ENCLOSE, SLOWER, HEADER, need=Need.WEAK)


def refused_before(draft: Draft, call: ast.Call, statement: ast.stmt) -> Iterator[Edit]:
    """A test before a folder is made by all, which ends the script if that is there: all ask before any makes it,
    so that all end, or none."""
    folder = call.args[0] if draft.facts.resolver.qualified(call.func) and call.args else None
    made = folder if folder is not None else getattr(call.func, "value", None)
    block, place = draft.facts.index.block(statement)
    tests = [s for s in block[:place] if isinstance(s, ast.If) and not s.orelse and draft.ends(s.body[-1])]
    asked = [s for s in tests if made is not None and _is_there(draft, s.test, made)]
    if asked and not draft.guarded(statement):
        code = "{accelerator}.wait_for_everyone()"
        yield draft.edit(RULE, statement, Operation.BEFORE, SLOWER, code, need=Need.WEAK)


def ends_else(draft: Draft, test: ast.If, statement: ast.stmt) -> bool:
    """Whether a test whether a folder is there makes it in one arm, and ends the script in the other."""
    arms = (test.body, test.orelse)
    return any(one and statement in other and draft.ends(one[-1]) for one, other in (arms, arms[::-1]))


def is_caught(draft: Draft, statement: ast.stmt) -> bool:
    """Whether the script goes on if a folder is there already."""
    block = draft.facts.index.parents[statement]
    handlers = block.handlers if isinstance(block, ast.Try) and statement in block.body else []
    return any(draft.caught(h) & files.IF_THERE and not draft.ends(h.body[-1]) for h in handlers)


def by_all(draft: Draft, call: ast.Call) -> Iterator[Edit | Finding]:
    """Every process makes the folder, so that it is there for each of them: another one may be the first."""
    if draft.facts.resolver.qualified(call.func) == "os.mkdir":  # which knows no exist_ok
        module = call.func.value if isinstance(call.func, ast.Attribute) else None
        if module is None and known(draft, call, "os") not in (Known.HERE, Known.TOP):
            yield draft.finding(
                "SAVE-RACE",
                Severity.WARNING,
                call,
                f"`{draft.facts.segment(call.func)}` makes the folder on every process, and fails where another "
                "one was faster",
                "use os.makedirs with exist_ok=True",
            )
            return
        spelled = draft.facts.segment(module) if module is not None else "os"
        yield draft.edit(RULE, call.func, Operation.BECOME, FOR_EACH, f"{spelled}.makedirs")
    yield draft.edit(RULE, call, Operation.ADD_ARGUMENT, FOR_EACH, "exist_ok=True")


def _is_there(draft: Draft, test: ast.expr, folder: ast.expr) -> bool:
    """Whether a test asks whether a folder is there: `os.path.exists(folder)`, `folder.exists()`."""
    if not isinstance(test, ast.Call):
        return False
    asked = test.args[:1] if draft.facts.resolver.qualified(test.func) else [getattr(test.func, "value", test)]
    return files.asks(draft.facts.resolver, test) and [ast.unparse(a) for a in asked] == [ast.unparse(folder)]


def may_exist(draft: Draft, call: ast.Call) -> bool:
    """Whether a call says that the folder it makes may be there already."""
    place = 2 if is_made_by(draft, call) else None
    given = draft.facts.resolver.argument(call, place, "exist_ok")
    return is_constant(given, True)
