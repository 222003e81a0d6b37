"""What a loop measures and training is decided by: values that are kept, and sums that pace the learning rate."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Role
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import walk
from accelift_codemod.following import keys
from accelift_codemod.following.held_outside import reads_elsewhere
from accelift_codemod.following.onward import Read, object_reads
from accelift_codemod.following.other_names import reads_by_others
from accelift_codemod.measured import deciding_objects
from accelift_codemod.measured.counting import RULE
from accelift_codemod.measured.filling import FILLING, filled, places_kept
from accelift_codemod.measured.joined_rows import computed_with
from accelift_codemod.measured.pieces import asks_which, filled_apart, set_apart
from accelift_codemod.measured.shares import local_names
from accelift_codemod.measured.steering import sets_group, steers
from accelift_codemod.measured.sums import Loop, averaged, reads_after, reads_again, reads_outside, reduced
from accelift_codemod.plan import Edit

_BLOCKS = (ast.If, ast.With, ast.AsyncWith, ast.Try, ast.While)  # whose statements are looked at one by one


def deciding(draft: Draft, node: Loop, names: set[str]) -> dict[str, Read]:
    """What the loop measures other than by adding up, and is decided by, with where it is read: last values, lists,
    moving averages, meters."""
    found: dict[str, Read] = {}
    steps = [c for s in node.body for c in walk(s) if isinstance(c, ast.Call) and schedules(draft, c)]
    told = [a for call in steps for a in (*call.args, *(k.value for k in call.keywords))]
    for name in sorted(names):
        inside = [n for argument in told for n in walk(argument) if isinstance(n, ast.Name) and n.id == name]
        held: list[Read] = [*reads_after(draft, node, name), *reads_again(draft, node, name)]
        held += (*reads_elsewhere(draft, node, name), *reads_of_place(draft, node, name))
        held += reads_by_others(draft, node, name)
        rates = keys.same_entries(draft, node, name, tuple(_reads_of_rates(draft, node, name)))
        reads = [_as_asked(draft, n, names) for n in keys.same_entries(draft, node, name, held)]
        places: list[Read] = [*inside, *rates] or [n for n in reads if steers(draft, [n])]
        place = places[0] if places else deciding_objects.decided(draft, node, name, names)
        if place is not None:
            found[name] = place
    return found


def _as_asked(draft: Draft, read: Read, local: set[str]) -> Read:
    """A read, or the question how much is in what it reads, or whether it is something, if processes may have put there
    more than others, or some of them nothing."""
    asked = draft.facts.index.parents[read]
    if not isinstance(read, ast.Name):
        return read
    if isinstance(asked, ast.Call):
        differs = draft.facts.resolver.builtin(asked.func) == "len" and filled_apart(draft, read, local)
    else:
        differs = asks_which(asked) and set_apart(draft, read, local)
    return asked if differs else read  # type: ignore[return-value]


def reads_of_place(draft: Draft, node: Loop, name: str) -> list[Read]:
    """Reads outside of the loop of what it sets of a module, or of options, that goes by how it is spelled: also by
    functions that it calls."""
    if name.isidentifier():
        return []
    statements = (s for outer in node.body for s in walk(outer) if isinstance(s, FILLING))
    places = [p for s in statements for p in places_kept(draft, s) if ast.unparse(p) == name]
    reads = [*(object_reads(draft, places[0]) if places else _spelled(draft, node, name))]
    inside = {n for outer in node.body for n in walk(outer)} if reads else set()
    return [read for read in reads if read not in inside]


def _spelled(draft: Draft, node: Loop, name: str) -> list[Read]:
    """The reads of an attribute by the name that its object has around a loop."""
    variable, _, attribute = name.partition(".")
    index = draft.facts.index
    owner = index.scope(node).owner(variable)
    reads = (n for n in index.attributes.get(attribute, []) if isinstance(n.ctx, ast.Load) and ast.unparse(n) == name)
    return [read for read in reads if owner is not None and index.scope(read).owner(variable) is owner]


def made_whole(
    draft: Draft, loop: BatchLoop, node: Loop, names: Collection[str], local: set[str], whole: Collection[str]
) -> dict[str, list[Edit]]:
    """The edits that make what a loop puts into each of some variables that of all processes; none where gradients flow
    back through it, or some of it stays that of a share.

    Rows are joined if those beside which they are read are, too, or are `whole`: lists of predictions and of labels
    stay as long as each other.
    """
    reads = {name: reads_after(draft, node, name) for name in names}
    leading = draft.facts.loops.gradients.reads
    free = [name for name in names if leading.isdisjoint(reads[name])]  # averaged, others would have no gradient

    def edits(rows: bool) -> dict[str, list[Edit]]:
        return {name: averaged(draft, loop, node, name, local, rows) if name in free else [] for name in names}

    found = edits(rows=True)
    read_with = (n for name in names for read in reads[name] for n in loads(computed_with(draft, read)))
    scope, index = draft.facts.index.scope(node), draft.facts.index
    beside = {n.id for n in read_with if index.scope(n).owner(n.id) is scope.owner(n.id)} & local
    return found if beside <= {*whole, *(name for name in names if found[name])} else edits(rows=False)


def filled_whole(draft: Draft, node: Loop, local: set[str]) -> set[str]:
    """The objects that a loop fills with what edits have made that of all processes, and the variables that it sets to
    nothing else."""
    inside = [s for outer in node.body for s in walk(outer) if isinstance(s, ast.stmt)]
    whole = {s for s in inside if any(e.rule == RULE for n in walk(s) for e in draft.edits_at(n))}
    found = {name for s in whole if isinstance(s, FILLING) for name in filled(draft, s, local)}
    sets = {s for s in whole if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)}
    own = {name for s in inside if s not in sets and not isinstance(s, _BLOCKS) for name in stores(s)}
    return found | ({name for s in sets for name in stores(s)} - own)


def _reads_of_rates(draft: Draft, node: Loop, name: str) -> Iterator[ast.Name]:
    """The reads in functions that a schedule is given to ask for the rate: `LambdaLR(opt, lambda e: rate[0])`."""
    owner = draft.facts.index.scope(node).owner(name)
    asking = rated(draft, draft.facts.tree)
    functions = {function for _, function in asking}
    for load in draft.facts.loads(owner, name) if owner is not None and functions and not owner.is_class else ():
        part = draft.facts.index.parents[load]
        if isinstance(part, ast.Attribute) and any(call in draft.facts.index.ancestors(part) for call, _ in asking):
            yield load  # `LambdaLR(optimizer, pace.rate)`
        elif not functions.isdisjoint(draft.facts.index.ancestors(load)):
            statement = draft.facts.index.statement(load)
            if not isinstance(statement, ast.Expr) or functions.isdisjoint(draft.facts.index.ancestors(statement)):
                yield load


@kept
def rated(draft: Draft, _: ast.AST) -> list[tuple[ast.Call, ast.AST]]:
    """The functions that schedules are given to ask for the rate, each with the call that makes the schedule."""
    resolver = draft.facts.resolver
    found: dict[ast.AST, ast.Call] = {}
    for call in (c for c in draft.calls if Role.SCHEDULER in resolver.roles(c)):
        for argument in (*call.args, *(k.value for k in call.keywords)):
            for given in argument.elts if isinstance(argument, (ast.List, ast.Tuple)) else [argument]:
                declared = [given, *(value.declaration for value in resolver.values(given))]
                if isinstance(given, ast.Attribute):  # a method: `pace.rate`
                    objects = (value.declaration for value in resolver.values(given.value))
                    declared += [resolver.method(c, given.attr) for c in objects if isinstance(c, ast.ClassDef)]
                found.update((f, call) for f in declared if isinstance(f, (ast.Lambda, *FUNCTIONS)))
    return [(call, function) for function, call in found.items()]


def decides(draft: Draft, node: Loop, statement: ast.AugAssign) -> bool:
    """Whether a sum flows into a schedule's step or a test that leaves a loop or saves a checkpoint."""
    target = statement.target
    assert isinstance(target, ast.Name)
    owner = draft.facts.index.scope(node).owner(target.id)
    if owner is None:
        return False
    resolver = draft.facts.resolver
    starts = resolver.reaching(target, owner)
    if any(_reads_of_rates(draft, node, target.id)):
        return True
    if owner.is_class:
        outside = reads_outside(draft, node, owner, target.id)
        return steers(draft, [*outside, *draft.facts.asked(owner, target.id)])
    after = [n for n in draft.facts.loads(owner, target.id) if n.lineno > (node.end_lineno or 0)]
    return steers(draft, [n for n in after if any(b in starts for b in resolver.reaching(n, owner))])


def schedules(draft: Draft, call: ast.Call) -> bool:
    """Whether a call steps a schedule."""
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr == "step"
        and Role.SCHEDULER in draft.facts.resolver.roles(func.value)
    )


def pacing(
    draft: Draft, loop: BatchLoop, node: Loop, sums: dict[str, list[ast.AugAssign]], local: set[str]
) -> set[str]:
    """The sums by which each iteration sets a learning rate (`tokens += (y >= 0).sum()`), if they can be made those of
    all processes, and nothing else of a share is in what is set."""
    groups = [s for outer in node.body for s in walk(outer) if sets_group(draft, s)]
    set_to = {n.id for s in groups if isinstance(s, (ast.Assign, ast.AugAssign)) for n in loads(s.value)}
    if not set_to & local:
        return set()
    known = {name for name, statements in sums.items() if reduced(draft, loop, statements, local)}
    if set_to & local_names(draft, loop, node, known):
        return set()
    return {name for name in known if set_to & local_names(draft, loop, node, known - {name})}
