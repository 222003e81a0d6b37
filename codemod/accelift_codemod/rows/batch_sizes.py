"""What is the batch size of a training loop's loaders, in the code that the loop runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Binding, Role
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import children, walk
from accelift_codemod.following.onward import reads_of
from accelift_codemod.rows import row_numbers
from accelift_codemod.rows.copies import is_place, is_set_again, same


def of_loaders(draft: Draft, loop: BatchLoop) -> Iterator[ast.expr]:
    """The batch sizes that a loop's loaders are given."""
    for value in loop.loaders:
        size = draft.facts.objects.loader(value).arguments.get("batch_size")
        if size is not None:
            yield size


@kept
def nodes(draft: Draft, loop: BatchLoop) -> list[ast.AST]:
    """The code of a training loop, with that of the functions that it calls, but for evaluations."""
    evaluating = draft.blueprint.evaluating
    functions = dict.fromkeys(
        function
        for statement in loop.body
        for call in walk(statement)
        if isinstance(call, ast.Call) and not _apart(draft, draft.facts.index.statement(call), loop)
        for function in draft.blueprint.timeline.calls_into(call)
    )
    found: list[ast.AST] = []
    for root in (*loop.body, *(f for f in functions if f not in evaluating)):
        stack: list[ast.AST] = [root]
        while stack:
            node = stack.pop()
            if node in evaluating or (isinstance(node, FUNCTIONS) and node is not root):
                continue
            if isinstance(node, ast.Assign) and _for_whole(draft, node):
                continue
            found.append(node)
            stack.extend(children(node))
    return found


def _for_whole(draft: Draft, statement: ast.Assign) -> bool:
    """Whether what a statement binds is read in evaluations alone that see whole batches: a state to begin with."""
    if any(isinstance(n, (ast.Attribute, ast.Subscript)) for target in statement.targets for n in walk(target)):
        return False
    whole = {loop.node for loop in draft.blueprint.eval_loops if not draft.blueprint.shares_batches(loop)}
    reads = reads_of(draft, statement)
    return bool(reads) and all(whole & set(draft.facts.index.enclosing_loops(read)) for read in reads)


def _apart(draft: Draft, statement: ast.stmt, loop: BatchLoop) -> bool:
    """Whether a statement calls functions that neither train nor use what the loop computes: `sample(epoch)`."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    if draft.facts.loops.reaches_backward([statement]):
        return False
    calls_into, scope = draft.blueprint.timeline.calls_into, draft.facts.index.scope
    functions = calls_into(statement)
    if not functions:
        return True
    made = {n.id for s in loop.body for n in walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    kept = {
        n.attr
        for root in (*loop.body, *(f for s in loop.body for f in calls_into(s)))
        for n in walk(root)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
    }
    for node in (n for root in (statement, *functions) for n in walk(root)):
        if isinstance(node, ast.Name):
            owner = scope(node).owner(node.id)
            if node.id in made and (owner is None or owner.node not in functions):
                return False
        elif isinstance(node, ast.Attribute) and node.attr in kept:
            return False
    return True


def _of_loader(draft: Draft, node: ast.Attribute, loop: BatchLoop) -> bool:
    """`loader.batch_size`: that of the whole job."""
    return node.attr == "batch_size" and bool(set(draft.facts.resolver.values(node.value)) & set(loop.loaders))


def is_size(draft: Draft, node: ast.expr, loop: BatchLoop, sizes: list[ast.expr]) -> bool:
    """Whether an expression is the batch size of the loop's loaders."""
    if isinstance(node, ast.Attribute) and _of_loader(draft, node, loop):
        return True
    own = draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else []
    if _is_multiple(draft, own, loop, sizes):
        return True
    if any(loop.node in draft.facts.index.ancestors(b.node) for b in own):
        return False  # bound again by the loop, to the rows that there are perhaps
    return any(same(draft, node, size) for size in sizes)


def is_handed(draft: Draft, node: ast.expr, loop: BatchLoop, sizes: list[ast.expr]) -> bool:
    """Whether a parameter is the batch size in one of the calls that the loop makes."""
    bindings = draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else []
    function = draft.facts.index.function(node)
    if len(bindings) != 1 or bindings[0].how is not How.PARAMETER or not isinstance(function, FUNCTIONS):
        return False
    given = (draft.facts.resolver.bind(s, function) for s in draft.facts.resolver.sites(function))
    handed = (arguments[bindings[0].name] for arguments in given if arguments and bindings[0].name in arguments)
    return any(is_size(draft, size, loop, sizes) for one in handed for size in row_numbers.numbers(draft, one))


def _is_multiple(draft: Draft, own: list[Binding], loop: BatchLoop, sizes: list[ast.expr]) -> bool:
    """Whether a variable is set once, to the batch size or so many times it: `rows = 2 * batch_size`."""
    if len(own) != 1 or own[0].how is not How.ASSIGN or own[0].path or own[0].value is None:
        return False
    value = own[0].value
    parts = [] if isinstance(value, (ast.Tuple, ast.List)) else list(row_numbers.numbers(draft, value))
    return any(not is_set_again(draft, p, own[0]) and is_size(draft, p, loop, sizes) for p in parts)


def is_product(draft: Draft, loop: BatchLoop, node: ast.expr) -> bool:
    """Whether an expression is the batch size of a loop's loaders, or a product with it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return is_product(draft, loop, node.left) or is_product(draft, loop, node.right)
    if isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) in ("float", "int"):
        return len(node.args) == 1 and is_product(draft, loop, node.args[0])
    sizes = list(of_loaders(draft, loop))
    if isinstance(node, ast.Constant):
        literal = type(node.value) is int and node.value > 1
        return literal and any(isinstance(s, ast.Constant) and s.value == node.value for s in sizes)
    return is_size(draft, node, loop, [s for s in sizes if is_place(s)])


def number_of(draft: Draft, node: ast.expr) -> object:
    """The number that is written out, or that a variable is."""
    if isinstance(node, ast.Constant):
        return node.value
    keys = {k for v in draft.facts.resolver.values(node) for k in (v.keys if v.role is Role.CONSTANT else (None,))}
    return keys.pop() if len(keys) == 1 else None
