"""What draws a picture goes under the header of what saves or shows it."""

from __future__ import annotations

import ast
from dataclasses import replace

from accelift_codemod.draft import Draft
from accelift_codemod.facts import changing, library, torch_ops
from accelift_codemod.facts.tree import walk
from accelift_codemod.main_process import alone
from accelift_codemod.plan import Edit, Operation, Span
from accelift_codemod.settling import headers

_LIBRARIES = ("matplotlib.pyplot.", "seaborn.")
_MAIN = "is_main_process"
# Methods of tensors, arrays and texts that only compute.
_COMPUTE = torch_ops.ROW_WISE | torch_ops.REORDERS | torch_ops.NO_GRADIENT
_COMPUTING = _COMPUTE | frozenset("permute transpose mean sum std min max cumsum format join keys values items".split())


def take_along(work: Draft) -> None:
    """Put statements that only draw under the header of those beside them that save or show what they draw."""
    index, done = work.facts.index, set[ast.stmt]()
    guards = [e for e in work.edits if e.operation is Operation.ENCLOSE and _MAIN in e.code]
    shown = [e for e in guards if isinstance(e.node, ast.Expr) and _shows(work, e.node)]
    drawing = [c for c in work.calls if _is_drawing(work, c)] if shown else []
    for edit in shown:
        if not isinstance(edit.node, ast.Expr) or edit.node in done:
            continue
        block, place = index.block(edit.node)
        first, end = place, place + 1
        while first and _belongs(work, block[first - 1], edit):
            first -= 1
        while end < len(block) and _belongs(work, block[end], edit):
            end += 1
        run = block[first:end]
        done.update(run)
        if len(run) > 1 and alone.self_contained(work, *run) and not _drawn_elsewhere(work, drawing, run):
            for statement in run:
                if not work.edits_at(statement):
                    reason = "what one process shows is drawn by it alone"
                    work.add(replace(edit, node=statement, span=Span.of(statement), reason=reason))


def _shows(work: Draft, statement: ast.Expr) -> bool:
    return isinstance(statement.value, ast.Call) and _is_of(work, statement.value)


def _belongs(work: Draft, statement: ast.stmt, edit: Edit) -> bool:
    """Whether a statement goes under the same header already, or may: it does nothing but draw."""
    if any(headers.alike(e, edit) for e in work.edits_at(statement)):
        return True
    return not any(work.edits_at(n) for n in walk(statement)) and _draws(work, statement)


def _draws(work: Draft, statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.For, ast.If)):
        head = [statement.iter] if isinstance(statement, ast.For) else [statement.test]
        within = (*statement.body, *statement.orelse)
        return all(headers.only_computes(work, n) for n in head) and all(_draws(work, s) for s in within)
    call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    return (
        isinstance(call, ast.Call)
        and _is_of(work, call)
        and not _is_read(work, call)
        and all(_computes(work, c) for c in walk(call) if isinstance(c, ast.Call))
        and next(changing.inside(work.facts.resolver, call), None) is None
    )


def _computes(work: Draft, call: ast.Call) -> bool:
    """Whether a call, where something is drawn, is not one of the script's own, or of an object nothing is known of."""
    if work.facts.resolver.callee(call) is not None:
        return False
    named = isinstance(call.func, ast.Attribute) and call.func.attr in _COMPUTING
    library_function = work.facts.resolver.qualified(call.func) or work.facts.resolver.builtin(call.func)
    return named or library_function is not None or _is_of(work, call)


def _is_read(work: Draft, call: ast.Call) -> bool:
    """Whether all processes get what has been drawn: `plt.savefig(buffer)`."""
    return (work.facts.resolver.qualified(call.func) or "") in library.SIDE_EFFECTS and not work.guarded(call)


def _is_of(work: Draft, node: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether something is a figure, or a part of one, or a call that draws: `plt.plot(x)`, `axes[0].plot(x)`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and _is_drawing(work, node):
            return True
        node = func if func is not None else node.value  # type: ignore[union-attr]
    if not isinstance(node, ast.Name) or node in seen:
        return False
    bindings = work.facts.resolver.bindings(node)
    made = [work.facts.resolver.gone_through(b) for b in bindings if b.value is not None]
    return 0 < len(made) == len(bindings) and all(_is_of(work, m, seen | {node}) for m in made)


def _is_drawing(work: Draft, call: ast.Call) -> bool:
    return (work.facts.resolver.qualified(call.func) or "").startswith(_LIBRARIES)


def _drawn_elsewhere(work: Draft, drawing: list[ast.Call], run: list[ast.stmt]) -> bool:
    """Whether something else that a function does has to do with pictures, and may need what is drawn here, or
    whether one that calls it draws: what every process draws there it would find unfinished, and left open."""
    inside = {n for s in run for n in walk(s)}
    function = work.facts.index.function(run[0])
    sites = work.facts.resolver.sites(function) if function is not None else []
    callers = {work.function(call) for call in sites} - {function}
    others = [c for c in drawing if c not in inside]
    if any(work.function(c) in callers for c in others):
        return True
    others = [c for c in others if work.function(c) is function]
    return any(_is_read(work, c) or not isinstance(work.facts.index.parents[c], ast.Expr) for c in others)
