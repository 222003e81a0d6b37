"""What statements put into objects: lists, dicts, and other objects that keep it."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, library
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.keeping import only_works
from accelift_codemod.measured.onward import function_of, targets

# What puts something into its first argument.
_ADDS = frozenset(
    """
    numpy.add.at numpy.put numpy.copyto heapq.heappush heapq.heappushpop heapq.heapreplace
    bisect.insort bisect.insort_left bisect.insort_right
    """.split()
)
_SHOWS = library.TQDM | {"logging.getLogger"}
FILLING = (ast.Expr, ast.Assign, ast.AugAssign)


def filled(draft: Draft, statement: ast.stmt, names: set[str]) -> set[str]:
    """The objects that a statement puts local values into: `losses.append(loss.item())`, `history["loss"] = ...`.

    A model that counts what it has seen is none: its weights are the same everywhere.
    """
    root = _kept_in(draft, statement)
    if root is None or not names & {n.id for part in (*given_to(statement), *places(statement)) for n in loads(part)}:
        return set()
    if draft.facts.resolver.qualified(root) is not None or Role.ARGUMENTS in draft.facts.resolver.roles(root):
        return set()  # a module, or options, of which one is set
    if only_works(draft.facts.resolver, statement):
        return set()
    if any(v.role is Role.WRITER or v.name in _SHOWS for v in draft.facts.resolver.values(root)):
        return set()  # it shows what it is given, and measures nothing
    return set() if draft.facts.objects.models(root) else {root.id}


def places(statement: ast.stmt) -> list[ast.expr]:
    """Which entries of an object a statement sets: `counts[label] += 1`."""
    found: list[ast.expr] = []
    for target in targets(statement):
        while isinstance(target, ast.Subscript):  # `counts[label][0] += 1`
            found.append(target.slice)
            target = target.value
    return found


def _kept_in(draft: Draft, statement: ast.stmt) -> ast.Name | None:
    """The variable whose object a statement puts something into: itself, or an entry of it."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    root: ast.expr | None = None
    if isinstance(call, ast.Call) and draft.facts.resolver.qualified(call.func) in _ADDS:
        root = call.args[0] if call.args else None
    elif isinstance(call, ast.Call) and (method := function_of(draft, call)) is not None and method.name == "__call__":
        root = call.func  # `track(loss.item())`
    elif isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        root = call.func.value
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, (ast.Subscript, ast.Attribute)):
        root = statement.target.value
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Subscript, ast.Attribute)):
        root = statement.targets[0].value
    while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(root, ast.Call):  # `history.setdefault("loss", []).append(...)`
            root = root.func.value if isinstance(root.func, ast.Attribute) else None
        else:
            root = root.value
    return root if isinstance(root, ast.Name) else None


def given_to(statement: ast.stmt) -> list[ast.expr]:
    """What a statement puts into an object."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return [*statement.value.args, *(k.value for k in statement.value.keywords)]
    return [statement.value] if isinstance(statement, (ast.Assign, ast.AugAssign)) else []
