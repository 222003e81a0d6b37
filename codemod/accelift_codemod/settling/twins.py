"""Methods that several classes of one script inherit: each class has its own copy, and what is written is one.

So a statement is converted as all classes ask for whose copies may run; where they ask for different things, the script
is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Facts, How
from accelift_codemod.facts.index import FUNCTIONS, MARK
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Operation
from accelift_codemod.reasons import Refused, refuse
from accelift_codemod.rules.create import Create

_Key = tuple[object, ...]


def joined(work: Draft, edits: Sequence[Edit]) -> list[Edit]:
    """The edits of a plan with one for each node of the source, where several nodes stand for it."""
    twins = _twins(work.facts)
    if not twins:
        return list(edits)
    left = list[Edit]()
    asked: dict[ast.AST, dict[ast.AST, dict[_Key, Edit]]] = {}
    for edit in edits:
        written = work.facts.original(edit.node) if edit.node is not None else None
        if written not in twins or edit.node is None:
            left.append(edit)
            continue
        one = asked.setdefault(written, {})
        if all(_key(work, edit) not in other for node, other in one.items() if node is not edit.node):
            left.append(edit)
        one.setdefault(edit.node, {})[_key(work, edit)] = edit
    for written, found in asked.items():
        if not _agree(work, twins[written], found):
            left = [e for e in left if e.node not in found or not _is_needless(work, e)]
            apart = {n: {k: e for k, e in one.items() if not _is_needless(work, e)} for n, one in found.items()}
            if not _agree(work, twins[written], apart):
                raise _apart(work, written, twins[written])
    return left


def _twins(facts: Facts) -> dict[ast.AST, list[ast.AST]]:
    """By nodes of the source: those that stand for them, where several classes inherit what they are in."""
    found: dict[ast.AST, list[ast.AST]] = {}
    for node in walk(facts.tree) if facts.flat.twins else ():
        if facts.is_twin(node) and not isinstance(node, ast.Pass):  # which may stand for what was taken out
            found.setdefault(facts.original(node), []).append(node)
    return found


def _agree(work: Draft, twins: Sequence[ast.AST], found: dict[ast.AST, dict[_Key, Edit]]) -> bool:
    """Whether all twins that may run are to be converted in the same way."""
    wanted = {key for asked in found.values() for key in asked}
    return all(found.get(twin, {}).keys() == wanted for twin in twins if _runs(work.facts, twin))


def _is_needless(work: Draft, edit: Edit) -> bool:
    """Whether an edit only replaces or drops `self.device = device`, which may stay: the parameter does."""
    statement = edit.node
    if edit.rule != Create.code or edit.operation not in (Operation.SWAP, Operation.DROP):
        return False
    value = statement.value if isinstance(statement, ast.Assign) else None
    bindings = work.facts.resolver.bindings(value) if isinstance(value, ast.Name) else []
    return len(bindings) == 1 and bindings[0].how is How.PARAMETER


def _apart(work: Draft, written: ast.AST, twins: Sequence[ast.AST]) -> Refused:
    """Why a script is left alone in which a statement would have to be another in each class."""
    return refuse(
        "LOOP-IN-CLASS",
        written.lineno,  # type: ignore[attr-defined]
        f"`{work.facts.short(written)}` would have to be converted differently for each class that inherits it "
        f"({', '.join(_names(work, twins))})",
        "make model, optimizer and loaders in the same places for all of them, or keep a script for each class",
    )


def _runs(facts: Facts, node: ast.AST) -> bool:
    """Whether a node may run: of a class whose objects are known, it is known which methods anybody calls."""
    method = node if isinstance(node, FUNCTIONS) else facts.index.function(node)
    while method is not None and not isinstance(facts.index.parents.get(method), ast.ClassDef):
        method = facts.index.function(method)
    if method is None or not facts.runs(method.body[0]):
        return method is None
    cls = facts.index.parents[method]
    implied = method.decorator_list or method.name.startswith("__")
    return cls not in facts.instances.followed or bool(implied) or bool(facts.resolver.sites(method))


def _key(work: Draft, edit: Edit) -> _Key:
    """What an edit does to its node."""
    assert edit.node is not None
    return edit.operation, edit.span, edit.named(work.reach.spelled(edit.node)).code, edit.place


def _names(work: Draft, nodes: Iterable[ast.AST]) -> list[str]:
    classes = (work.facts.index.enclosing_class(node) for node in nodes)
    return [cls.name.rpartition(MARK)[2] for cls in classes if cls is not None]
