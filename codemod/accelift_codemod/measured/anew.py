"""What every iteration of a loop binds anew before it is read, so that it is not what an earlier one has left."""

from __future__ import annotations

import ast
from collections.abc import Set

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Scope, position
from accelift_codemod.facts.certainty import Certainty
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import walk


def bound_anew(draft: Draft, node: ast.AST, load: ast.Name) -> bool:
    """Whether every iteration has surely bound a variable before it is read: by the loop itself, or in both arms of an
    `if`, say.

    Or in those that settings choose: had the first iteration not bound it, it would have failed.
    """
    index, certainty = draft.facts.index, Certainty(draft.facts.resolver)
    read = index.statement(load)
    owner = index.scope(load).owner(load.id)
    if owner is None:
        return False
    dealt = (b.node for b in owner.bindings[load.id] if b.how is How.LOOP)
    if read is not node and any(index.statement(target) is node for target in dealt):
        return True
    assigned, alone = _assigned(draft, (node, owner, load.id))
    inside = assigned - {read}
    if inside and (certainty.passed(inside, read) or _by_the_step_before(draft, node, load, inside)):
        return True
    if not alone:
        return False
    bindings = owner.bindings[load.id]
    early = [index.statement(b.node) for b in bindings if position(b.node) < position(load)]
    early = [statement for statement in early if statement is not read]  # which has not been run yet
    return bool(early) and all(certainty.alike(node, one) for one in (*early, read))


def _by_the_step_before(draft: Draft, node: ast.AST, load: ast.Name, assigned: Set[ast.stmt]) -> bool:
    """Whether a loop in the iteration reads a variable in all steps but its first, `if t > 0:`, and sets it in each."""
    index = draft.facts.index
    child: ast.AST = load
    for parent in index.ancestors(load):
        if parent is node:
            return False
        tests = _tests(parent, child)
        steps = (loop for loop in index.enclosing_loops(load) if loop is not node and node in index.ancestors(loop))
        for loop in steps:
            if isinstance(loop, ast.For) and any(s in assigned for s in loop.body):
                skips = any(isinstance(n, ast.Continue) for n in walk(loop))
                if not skips and any(_is_later(draft, test, loop) for test in tests):
                    return True
        child = parent
    return False


def _tests(parent: ast.AST, child: ast.AST) -> list[ast.expr]:
    """What has to be true where a part of a condition is evaluated: its body, or what follows an `and`."""
    if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
        return [value for value in parent.values if position(value) < position(child)]
    if isinstance(parent, ast.If):
        known = [parent.test] if child in parent.body else []
    else:
        known = [parent.test] if isinstance(parent, ast.IfExp) and child is parent.body else []
    return [t for k in known for t in (k.values if isinstance(k, ast.BoolOp) and isinstance(k.op, ast.And) else [k])]


def _is_later(draft: Draft, test: ast.expr, loop: ast.For) -> bool:
    """Whether a test says that a step of a loop over `range(n)` or `enumerate(...)` is not its first: `t > 0`."""
    call = loop.iter if isinstance(loop.iter, ast.Call) else None
    if call is None or call.keywords or len(call.args) != 1:
        return False
    name = draft.facts.resolver.builtin(call.func)
    target = loop.target
    if name == "enumerate":
        target = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
    if name not in ("range", "enumerate") or not isinstance(target, ast.Name):
        return False
    if isinstance(test, ast.Name):
        return test.id == target.id
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or test.left.id != target.id:
        return False
    bound = test.comparators[0]
    number = bound.value if len(test.ops) == 1 and isinstance(bound, ast.Constant) else None
    if number == 0:
        return isinstance(test.ops[0], (ast.Gt, ast.NotEq))
    return isinstance(number, int) and number > 0 and isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Eq))


@kept
def _assigned(draft: Draft, variable: tuple[ast.AST, Scope, str]) -> tuple[frozenset[ast.stmt], bool]:
    """The assignments of a variable in a loop, and whether nothing else binds it."""
    node, owner, name = variable
    index = draft.facts.index
    inside = {b: node in index.ancestors(b.node) for b in owner.bindings[name]}
    assigned = (index.statement(b.node) for b, within in inside.items() if within and b.how is How.ASSIGN)
    return frozenset(s for s in assigned if s is not node), all(inside.values())
