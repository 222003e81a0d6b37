"""What statements that the main process alone runs do besides writing: every process has to do that."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, changing
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Operation, Severity

_NAME = "value"
_OUTPUTS = ("output", "outputs", "generated")  # what the results of networks are called


def settle(work: Draft) -> None:
    """Work out in front of a guarded statement what it changes: `value = saved.pop(0)`, then `os.remove(value)`.

    Where that cannot be taken out of it, a finding tells.
    """
    for edit in [e for e in work.edits if e.operation is Operation.ENCLOSE and "is_main_process" in e.code]:
        statement = edit.node
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            continue
        found = list(changing.inside(work.facts.resolver, statement.value))
        only = found[0] if len(found) == 1 else None
        if isinstance(only, ast.Call) and _stands_alone(work, statement.value, only):
            _take_out(work, edit, statement, only)
        elif found:
            text = work.facts.short(found[0])
            work.findings.append(
                work.finding(
                    "COLL-MAIN",
                    Severity.ERROR,
                    statement,
                    f"the main process alone runs this, and `{text}` in it changes what the other processes go on with",
                    "work that out on a line of its own, before what is written",
                )
            )


def _stands_alone(work: Draft, call: ast.Call, part: ast.Call) -> bool:
    """Whether a part of a call is evaluated whenever the call is, once, and nothing else changes it."""
    for parent in work.facts.index.ancestors(part):
        if parent is call:
            break
        if isinstance(parent, (ast.IfExp, ast.BoolOp, ast.comprehension, ast.GeneratorExp, ast.ListComp)):
            return False
    return _NAME not in work.facts.bound and not any(work.edits_at(node) for node in walk(part))


def _take_out(work: Draft, guard: Edit, statement: ast.Expr, part: ast.Call) -> None:
    why = "every process goes on with what this changes"
    text = work.facts.segment(part)
    work.add(work.edit(guard.rule, statement, Operation.BEFORE, why, f"{_NAME} = {text}"))
    work.add(work.edit(guard.rule, part, Operation.BECOME, why, _NAME))


def worked_out(draft: Draft, rule: str, call: ast.Call) -> Iterator[Edit]:
    """The edits by which all processes run a network before the main process writes what it gives:
    `output = net(noise)`, then `save_image(output, path)`; none where it cannot be taken out of the statement."""
    given = [*call.args, *(k.value for k in call.keywords)]
    runs = [a for a in given if any(draft.blueprint.prepared_models(n.func) for n in _calls(a))]
    name = next((n for n in _OUTPUTS if n not in draft.facts.bound), None)
    if len(runs) != 1 or name is None or isinstance(runs[0], ast.Starred):
        return
    (part,) = runs
    if not all(_only_runs(draft, n) for n in walk(part)):
        return  # of which other edits may change something
    if any(_matters(draft, c) for a in given if a is not part for c in _calls(a)):
        return  # it would come after that
    why, text = "every process takes part in running the network", draft.facts.segment(part)
    code = f"{name} = ({text})" if "\n" in text else f"{name} = {text}"
    yield draft.edit(rule, draft.facts.index.statement(call), Operation.BEFORE, why, code)
    yield draft.edit(rule, part, Operation.BECOME, why, name)


def _calls(node: ast.AST) -> list[ast.Call]:
    return [n for n in walk(node) if isinstance(n, ast.Call)]


def _only_runs(draft: Draft, node: ast.AST) -> bool:
    """Whether a part of an expression runs a prepared network, or has nothing to do with networks and devices."""
    if isinstance(node, (ast.Lambda, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.comprehension)):
        return False
    if isinstance(node, ast.Call) and draft.facts.moves.of.get(node) is not None:
        return False
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) or draft.facts.index.parents.get(node) is None:
        return True
    parent = draft.facts.index.parents[node]
    runs = isinstance(parent, ast.Call) and parent.func is node
    prepared = draft.facts.resolver.roles(node) & {Role.MODEL, Role.OPTIMIZER, Role.LOADER}
    return (runs or not prepared) and not draft.facts.devices.is_device(node)


def _matters(draft: Draft, call: ast.Call) -> bool:
    """Whether a call may do more than compute, so that it matters when it is made."""
    return changing.changes(draft.facts.resolver, call) or draft.facts.resolver.callee(call) is not None


def self_contained(draft: Draft, *statements: ast.stmt) -> bool:
    """Whether statements, such as a `with` block, can be left out on a process without the others noticing."""
    if any(draft.collective(s) is not None for s in statements):
        return False
    inside = {n for s in statements for n in walk(s)}
    if any(isinstance(n, (ast.Return, ast.Break, ast.Continue, ast.Yield)) for n in inside):
        return False
    if any(draft.facts.resolver.kept(f) for s in statements for f in draft.blueprint.timeline.calls_into(s)):
        return False
    bound = set[str]().union(*map(stores, statements))
    if any(_changes_more(draft, s, bound) for s in statements):
        return False
    scope = draft.facts.index.scope(statements[0])
    for name in bound:
        owner = scope.owner(name)
        if owner is None:
            continue
        if owner.is_class:
            return False  # an attribute of self: any method may read it
        readers = draft.facts.readers_of((owner, name))
        if any(load not in inside for node in inside & readers.keys() for load in readers[node]):
            return False
    for load in (load for s in statements for load in loads(s)):  # adding to something kept outside
        parent = draft.facts.index.parents.get(load)
        if isinstance(parent, ast.Attribute) and parent.attr in ("append", "extend", "update", "add"):
            if load.id not in bound and Role.WRITER not in draft.facts.resolver.roles(load):
                return False
    return True


def _changes_more(draft: Draft, statement: ast.stmt, bound: set[str]) -> bool:
    """Whether a statement changes something that was there before it: a sum, an entry, a schedule."""
    for node in walk(statement):
        changed: ast.expr | None = None
        if isinstance(node, ast.Delete):
            return True
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            changed = node
        elif isinstance(node, ast.Call) and changing.changes(draft.facts.resolver, node):
            changed = node.func if isinstance(node.func, ast.Attribute) else node
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            changed = node.target if _is_older(draft, node) else None
        while isinstance(changed, (ast.Attribute, ast.Subscript)):
            changed = changed.value
        if changed is not None and not (isinstance(changed, ast.Name) and changed.id in bound):
            return True
        if isinstance(changed, ast.Name) and isinstance(node, ast.AugAssign):
            return True
    return False


def _is_older(draft: Draft, statement: ast.AugAssign) -> bool:
    """Whether a variable that a statement adds to has been set before."""
    assert isinstance(statement.target, ast.Name)
    bindings = draft.facts.resolver.bindings(statement.target)
    return any(draft.facts.index.statement(b.node) is not statement for b in bindings)
