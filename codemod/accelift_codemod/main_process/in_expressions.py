"""Calls that write files in the middle of expressions: what is returned, each entry of a list, an operand."""

from __future__ import annotations

import ast

from accelift_codemod.devices.surviving import is_spelled
from accelift_codemod.devices.unread_parameters import reads_all
from accelift_codemod.draft import Draft
from accelift_codemod.facts import changing, library
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.plan import Finding, Severity

# What writes into an open file, or does more than to write one that it is told by its name.
_OTHERWISE = tuple(
    "json. pickle. yaml. toml. simplejson. ujson. dill. cloudpickle. mlflow. tensorboard_logger. os.makedirs "
    "os.mkdir".split()
)
_TOLD = library.SIDE_EFFECTS - library.HARMLESS_EVERYWHERE
WRITES_BY_NAME = frozenset(name for name in _TOLD if not name.startswith(_OTHERWISE))
# Of these, what gives nothing back.
_GIVES_NOTHING = ("numpy.", "matplotlib.", "torchvision.", "scipy.", "skimage.", "os.remove", "os.unlink", "os.rename")


def thrown_away(draft: Draft, statement: ast.stmt, call: ast.Call) -> bool:
    """Whether nothing goes on with what a call in a statement gives: `[np.save(p, a) for p, a in parts]`,
    `best and np.save(p, a)`, a variable that nobody reads, or a `return` at the end of a function of what is nothing.
    """
    if isinstance(statement, ast.Return):
        name = draft.facts.resolver.qualified(call.func) or ""
        return statement.value is call and name.startswith(_GIVES_NOTHING) and _is_last(draft, statement)
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if value is None or (isinstance(statement, ast.Assign) and not _is_unread(draft, statement)):
        return False
    node: ast.AST = call
    while node is not value:
        outer = draft.facts.index.parents[node]
        entry = isinstance(outer, (ast.ListComp, ast.SetComp)) and outer.elt is node
        operand = isinstance(outer, ast.BoolOp) and outer.values[-1] is node
        choice = isinstance(outer, ast.IfExp) and outer.test is not node
        if not (entry or operand or choice):
            return False
        node = outer
    return True


def _is_unread(draft: Draft, statement: ast.Assign) -> bool:
    """Whether a statement binds a variable of a function, or of the script, that nothing reads."""
    target = statement.targets[0] if len(statement.targets) == 1 else None
    if not isinstance(target, ast.Name) or draft.facts.loads_of(target):
        return False
    owner = draft.facts.index.scope(target).owner(target.id)
    if owner is None or owner.is_class:
        return False
    if not owner.is_module:
        return not reads_all(draft, owner.node)
    return target.id not in draft.facts.wanted and not is_spelled(draft, target.id)


def _is_last(draft: Draft, statement: ast.stmt) -> bool:
    """Whether a function ends where a statement does, and gives nothing where that is left out."""
    block, place = draft.facts.index.block(statement)
    around = draft.facts.index.parents[statement]
    if place != len(block) - 1:
        return False
    return isinstance(around, FUNCTIONS) or (isinstance(around, (ast.If, ast.With)) and _is_last(draft, around))


def changed(draft: Draft, statement: ast.stmt) -> ast.expr | None:
    """What changes, in a statement that writes, something that every process goes on with: `np.save(p, next(numbers))`
    in a list."""
    value = statement.value if isinstance(statement, (ast.Expr, ast.Return)) else None
    return next(changing.inside(draft.facts.resolver, value), None) if value is not None else None


def written(draft: Draft, call: ast.Call, part: ast.expr | None = None) -> Finding:
    """What tells of a file that every process writes, where something goes on with what the call gives, or with what
    a `part` of the expression changes."""
    why = f"with what `{draft.facts.short(part)}` changes" if part is not None else "with what it gives"
    return draft.finding(
        "SAVE-RACE",
        Severity.WARNING,
        call,
        f"`{draft.facts.segment(call.func)}` runs on every process, in an expression that goes on {why}",
        "call it in a statement of its own, under `if accelerator.is_main_process:`",
    )
