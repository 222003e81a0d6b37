"""Statements that go under the same header: together, where they stand together."""

from __future__ import annotations

import ast
from dataclasses import replace

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role, files
from accelift_codemod.facts.cells import CELL
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Need, Operation, Span

# Builtin functions that only compute.
_COMPUTING = frozenset("range len int float str min max round abs enumerate zip reversed sorted isinstance".split())

_MOVING = frozenset("iter enumerate zip map filter reversed open".split())
_MOVING_ON = ("csv.", "itertools.")


def drop_inner(work: Draft) -> None:
    """Take out edits that put a statement under a header under which it stands already, or is put twice."""
    for edit in [e for e in work.edits if e.operation is Operation.ENCLOSE]:
        if _enclosed(work, edit):  # as it is now: of two alike one stays
            work.remove(edit)


def _enclosed(work: Draft, edit: Edit) -> bool:
    assert edit.node is not None
    twins = [other for other in work.edits_at(edit.node) if other is not edit and alike(other, edit)]
    if any(edit.need is not Need.STRONG or twin.need is Need.STRONG for twin in twins):
        return True
    return any(
        other.operation is Operation.ENCLOSE and other.code == edit.code
        for outer in work.facts.index.ancestors(edit.node)
        for other in work.edits_at(outer)
    )


def lift(work: Draft) -> None:
    """Put a loop or an `if` under a header, where all that it does is under that header."""
    parents = work.facts.index.parents
    found = [e.node for e in work.edits if e.operation is Operation.ENCLOSE and e.node is not None]
    while found:
        around = dict.fromkeys(parents.get(node) for node in found)
        found = [outer for outer in around if isinstance(outer, (ast.For, ast.If)) and _lifted(work, outer)]


def _lifted(work: Draft, outer: ast.For | ast.If) -> bool:
    """Whether a loop or an `if` now is under the header that all its statements were under."""
    if work.edits_at(outer):
        return False
    for edit in filter(_encloses, work.edits_at(outer.body[0])):
        inner = [next((e for e in work.edits_at(s) if alike(e, edit)), None) for s in (*outer.body, *outer.orelse)]
        if any(e is None or _other_edits(work, e) for e in inner) or not (
            _pays(work, outer, edit) and _computes(work, outer)
        ):
            continue
        for one in inner:
            assert one is not None
            work.remove(one)
        work.add(replace(edit, node=outer, span=Span.of(outer)))
        return True
    return False


def _encloses(edit: Edit) -> bool:
    return edit.operation is Operation.ENCLOSE


def _pays(work: Draft, outer: ast.For | ast.If, edit: Edit) -> bool:
    """Whether there are fewer headers, or fewer tests of one, if a statement goes under it as a whole."""
    if isinstance(outer, ast.For) or outer.orelse:
        return True
    block, place = work.facts.index.block(outer)
    return any(
        alike(e, edit)
        for s in (*block[max(place - 1, 0) : place], *block[place + 1 : place + 2])
        for e in work.edits_at(s)
    )


def alike(edit: Edit, other: Edit) -> bool:
    """Whether the first of two edits puts its statement under the header that the other has."""
    return edit.operation is Operation.ENCLOSE and edit.code == other.code


def _other_edits(work: Draft, edit: Edit) -> bool:
    """Whether a statement is more than put under the header."""
    assert edit.node is not None
    return any(e is not edit for node in walk(edit.node) for e in work.edits_at(node))


def _computes(work: Draft, outer: ast.For | ast.If) -> bool:
    """Whether skipping a loop or an `if` as a whole skips nothing but its body: it binds nothing that is read later."""
    head = [outer.iter, outer.target] if isinstance(outer, ast.For) else [outer.test]
    if not all(only_computes(work, part) for part in head):
        return False
    if isinstance(outer, ast.If):
        return True
    if any(_moves_on(work, n) for n in walk(outer.iter) if isinstance(n, (ast.Name, ast.Attribute))):
        return False
    bound = [n for n in walk(outer.target) if isinstance(n, ast.expr)]
    return all(isinstance(n, (ast.Tuple, ast.List)) or _ends_inside(work, n, outer) for n in bound)


def _moves_on(work: Draft, node: ast.expr | None, seen: frozenset[ast.expr] = frozenset()) -> bool:
    """Whether something gives each element once, or draws it: a loader, an iterator, `(noise() for _ in losses)`."""
    resolver = work.facts.resolver
    if node is None or node in seen:
        return False
    if isinstance(node, ast.GeneratorExp) or resolver.roles(node) & {Role.LOADER, Role.ITERATOR}:
        return True
    if isinstance(node, ast.Call):
        function = resolver.callee(node)
        if isinstance(function, FUNCTIONS):
            return bool(resolver.yields(function))
        return resolver.builtin(node.func) in _MOVING or (resolver.qualified(node.func) or "").startswith(_MOVING_ON)
    bound = resolver.bindings(node) if isinstance(node, ast.Name) else []
    held = [(b, b.value) for b in bound if b.how is not How.LOOP]  # an element of it is another matter
    given = [v for b, value in held for v in (resolver.handed(b) if b.how is How.PARAMETER else [value])]
    return any(_moves_on(work, value, seen | {node}) for value in given)


def _ends_inside(work: Draft, target: ast.expr, outer: ast.For) -> bool:
    """Whether nothing reads a variable of a loop after it."""
    owner = work.facts.index.scope(target).owner(target.id) if isinstance(target, ast.Name) else None
    if not isinstance(target, ast.Name) or owner is None or owner.is_class:
        return False
    if owner.is_module and target.id in work.facts.wanted:
        return False
    inside = set(walk(outer))
    return all(
        load in inside or load.id != target.id or all(b.node is not target for b in work.facts.resolver.bindings(load))
        for load in work.facts.loads(owner, target.id)
    )


def only_computes(work: Draft, expression: ast.expr) -> bool:
    """Whether nothing happens where an expression is evaluated, and where it is not."""
    for node in walk(expression):
        if isinstance(node, ast.Call):
            if work.facts.resolver.builtin(node.func) not in _COMPUTING and not _looks(work, node):
                return False
        elif isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
    return True


def _looks(work: Draft, call: ast.Call) -> bool:
    """Whether a call does nothing but look at files: `os.path.isdir(path)`, `path.exists()`."""
    qualified = work.facts.resolver.qualified(call.func) or ""
    return qualified.startswith("os.path.") or files.looks(work.facts.resolver, call)


def joined(work: Draft, edits: list[Edit]) -> list[Edit]:
    """Neighbouring statements that go under the same header go under one."""
    found: list[Edit] = []
    last: int | None = None  # the place of the last header in those found
    for edit in edits:
        before = found[last] if last is not None else None
        if (
            last is not None
            and before is not None
            and edit.operation is Operation.ENCLOSE
            and edit.code == before.code
            and isinstance(edit.node, ast.stmt)
            and isinstance(before.node, ast.stmt)
            and _follows(work, before, edit)
        ):
            span = Span(before.span.line, before.span.column, edit.span.end_line, edit.span.end_column)
            found[last] = replace(before, span=span)
        else:
            last = len(found) if edit.operation is Operation.ENCLOSE else last
            found.append(edit)
    return found


def _follows(work: Draft, before: Edit, edit: Edit) -> bool:
    """Whether a statement follows those that another edit puts under the same header; what only it needs may stand
    between them."""
    block, place = work.facts.index.block(edit.node)  # type: ignore[arg-type]
    other, _ = work.facts.index.block(before.node)  # type: ignore[arg-type]
    while block is other and place > 0 and not _between(work, block[place - 1], block[place]):
        place -= 1
        end = (block[place].end_lineno, block[place].end_col_offset)
        if end == (before.span.end_line, before.span.end_column):
            return True
        if not _serves(work, block[place], edit):
            return False
    return False


def _serves(work: Draft, statement: ast.stmt, edit: Edit) -> bool:
    """Whether a statement only computes what nothing reads but the statements below that go under the edit's header."""
    if not isinstance(statement, ast.Assign) or any(work.edits_at(n) for n in walk(statement)):
        return False
    names = [t for t in statement.targets if isinstance(t, ast.Name)]
    owners = [work.facts.index.scope(n).owner(n.id) for n in names]
    if len(names) < len(statement.targets) or not only_computes(work, statement.value):
        return False
    block, place = work.facts.index.block(edit.node)  # type: ignore[arg-type]
    under: set[ast.AST] = set()
    while place < len(block) and any(alike(e, edit) for e in work.edits_at(block[place])):
        under.update(walk(block[place]))
        place += 1
    return all(
        owner is not None
        and not owner.is_module
        and len(owner.bindings[name.id]) == 1
        and all(load in under for load in work.facts.loads(owner, name.id))
        for name, owner in zip(names, owners, strict=True)
    )


def _between(work: Draft, first: ast.stmt, second: ast.stmt) -> bool:
    """Whether something stands between two statements that does not belong under their header: an edit, a new cell."""
    original = work.facts.original
    if any(map(CELL.match, work.facts.source.between(original(first), original(second)))):  # type: ignore[arg-type]
        return True
    return any(e.operation is Operation.AFTER for e in work.edits_at(first)) or any(
        e.operation is Operation.BEFORE for e in work.edits_at(second)
    )
