"""What is told, after a training loop, of what its last iteration has left behind."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, position
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.following.held_outside import reads_elsewhere
from accelift_codemod.following.keys import same_entries
from accelift_codemod.following.onward import Read, header, is_within, object_reads, reads_of, returned
from accelift_codemod.following.other_names import reads_by_others
from accelift_codemod.measured.called_back import measured
from accelift_codemod.measured.deciding import reads_of_place
from accelift_codemod.measured.said import how, is_only_set
from accelift_codemod.measured.sums import Loop, reads_after


def said_after(draft: Draft, node: Loop, name: str, given: list[ast.Name]) -> tuple[Read, str] | None:
    """Where what the last iteration left in a variable goes into a call for its effect, and whether that `prints` it,
    `writes` it to a file, or `uses` it otherwise.

    What is returned, or `given` to those who go through the generator, goes there from where it is called.
    """
    shown = {read for read, _ in measured(draft.facts)}  # which is said there
    held = (
        *reads_after(draft, node, name),
        *reads_elsewhere(draft, node, name),
        *reads_by_others(draft, node, name),
    )
    held += (*given,)
    reads = [r for r in (*held, *reads_of_place(draft, node, name)) if r not in shown]
    queue: list[tuple[Read, Read]] = [(load, load) for load in same_entries(draft, node, name, reads)]
    seen = {read for _, read in queue}
    while queue:
        place, read = queue.pop(0)
        if Role.WRITER in draft.facts.resolver.roles(read):
            continue  # it shows what it is given, and measures nothing
        statement = draft.facts.index.statement(read)
        leads = read in draft.facts.loops.gradients.reads  # to a loss, which may be told of, too
        if leads and not isinstance(statement, (ast.Assign, ast.AugAssign)):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if statement.value is read or draft.facts.loops.is_backward(statement.value):
                continue  # nobody asks what the function returns; a loss is gone back from
            if is_only_set(draft, statement.value, read):
                continue
            return place, how(draft, statement.value) or "uses"
        more: list[Read] = []
        if isinstance(statement, (ast.Assign, ast.AugAssign)):  # `mean = sum(losses) / n`
            more += reads_of(draft, statement)
            more += _entries_after(draft, statement)  # `result["loss"] = mean`
        elif isinstance(statement, ast.Return):
            more += returned(draft, read, statement)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield):
            more += returned(draft, read, statement.value)
        elif isinstance(statement, (ast.For, ast.AsyncFor)) and is_within(draft, read, statement.iter):
            more += reads_of(draft, header(statement))  # `for name, meter in meters.items()`
        here = draft.function(read) is draft.function(node) and not isinstance(statement, ast.Return)
        queue += [(n if here else place, n) for n in more if n not in seen]
        seen.update(more)
    return None


def _entries_after(draft: Draft, statement: ast.Assign | ast.AugAssign) -> Iterator[Read]:
    """Later reads of the entries that a statement sets, in the object that its variable holds there."""
    bindings = draft.facts.resolver.bindings
    for target in (t for t in targets(statement) if isinstance(t, ast.Subscript)):
        held = {b for n in walk(target.value) if isinstance(n, ast.Name) for b in bindings(n)}
        for read in object_reads(draft, target):
            if position(read) > position(statement):
                if not isinstance(read, ast.Name) or held.intersection(bindings(read)):
                    yield read
