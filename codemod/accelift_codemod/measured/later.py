"""Losses that are gone back from after the loop over batches that has computed them: what they are over the samples."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.layout.algebra import Environment, Layout, Shape, dealt


def layout(draft: Draft, call: ast.Call, loss: ast.expr) -> Shape:
    """How a loss depends on the samples of all batches of the one loop before its backward pass, in the same block."""
    known = draft.blueprint.loops
    loops = [known[node] for node in draft.facts.loops.gradients.before(call)[0] if node in known]
    env = _after(draft, loops[0], call) if len(loops) == 1 else None
    return draft.facts.layouts.read(loss, env) if env is not None else Layout.UNKNOWN


def _after(draft: Draft, loop: BatchLoop, call: ast.Call) -> Environment | None:
    """What variables hold at a call after a loop: what every further iteration leaves there, too."""
    if not isinstance(loop.node, (ast.For, ast.AsyncFor)):
        return None
    block, place = draft.facts.index.block(loop.node)
    later = block[place + 1 :]
    if not {*draft.facts.index.ancestors(call)}.intersection(later):
        return None
    layouts, env = draft.facts.layouts, dict[str, Shape]()
    layouts.run(block[:place], env)
    begun = dict(env)
    batch = dealt(draft.facts.resolver.values(loop.node.iter), draft.facts.collated.batch(loop.loaders))
    for _ in range(2):
        layouts.assign(loop.node.target, batch, env)
        layouts.run(loop.node.body, env)
    layouts.run(loop.node.body, again := dict(env))
    counts = _counts(draft, loop.node, env) | _lists(draft, loop.node, env, begun)
    env = {name: value if again.get(name) == value else Layout.UNKNOWN for name, value in env.items()}
    return layouts.before(call, later, env | counts)


def _counts(draft: Draft, node: ast.For | ast.AsyncFor, env: Environment) -> Environment:
    """What counts the samples of all batches: `n += len(x)`, from 0 on."""
    found: Environment = {}
    for statement in (s for s in node.body if isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add)):
        counted = draft.facts.layouts.read(statement.value, env) is Layout.COUNT
        name = statement.target if isinstance(statement.target, ast.Name) else None
        owner = draft.facts.index.scope(node).owner(name.id) if name is not None and counted else None
        if name is None or owner is None:
            continue
        starts = [b.value for b in owner.bindings[name.id] if b.node is not name]
        if all(isinstance(value, ast.Constant) and value.value == 0 for value in starts):
            found[name.id] = Layout.COUNT
    return found


def _lists(draft: Draft, node: ast.For | ast.AsyncFor, env: Environment, begun: Environment) -> Environment:
    """The lists that every iteration appends one thing to, of the same kind: outputs, labels, losses."""
    found: dict[str, list[Shape]] = {}
    for statement in node.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        func = call.func if isinstance(call, ast.Call) else None
        if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name) or func.attr != "append":
            continue
        if begun.get(func.value.id) == () and isinstance(call, ast.Call) and len(call.args) == 1:
            found.setdefault(func.value.id, []).append(draft.facts.layouts.read(call.args[0], env))
    return {name: tuple(layouts) for name, layouts in found.items() if layouts in ([Layout.ROWS], [Layout.MEAN])}
