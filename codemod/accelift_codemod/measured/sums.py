"""What a loop adds up over its batches, and how each process's part becomes that of all."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, How, Kind, Role, Scope, position
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import Binding
from accelift_codemod.facts.layout import Environment, Layout
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.following.held_outside import reads_elsewhere
from accelift_codemod.measured import coins, texts
from accelift_codemod.measured.anew import bound_anew
from accelift_codemod.measured.averaging import means_in
from accelift_codemod.measured.counting import RULE, WHY, count_of_all, numbered, of_all, sum_of_all, total
from accelift_codemod.measured.emptied import emptied
from accelift_codemod.measured.filling import FILLING, filled, given_to, keeping, places
from accelift_codemod.measured.function_memory import kept_by_functions
from accelift_codemod.measured.joined_rows import from_all_rows
from accelift_codemod.measured.numbers import is_number, number_of
from accelift_codemod.measured.one_by_one import over_samples
from accelift_codemod.measured.pieces import as_many
from accelift_codemod.measured.taken import counts_beside, numbers_in, taken_of_all, written
from accelift_codemod.plan import Assumption, Edit, Need, Operation

_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise)
_CLOCKS = ("time.", "datetime.")
_MEANS = "{accelerator}.batch_mean({})"
Loop = ast.For | ast.AsyncFor | ast.While
Sets = ast.Assign | ast.AugAssign | ast.Expr
GRAPHS = Assumption("it is a mean over the graphs of the batch; one over their nodes is only nearly that of all")


def sums_of(node: Loop, local: set[str]) -> dict[str, list[ast.AugAssign]]:
    """Sums over the iterations: variables made before the loop, and where it adds local values to them."""
    fresh = {n for s in node.body for inner in walk(s) if isinstance(inner, ast.Assign) for n in stores(inner)}
    found: dict[str, list[ast.AugAssign]] = {}
    for statement in (s for outer in node.body for s in walk(outer)):
        if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Name):
            continue
        if local & {n.id for n in loads(statement.value)} and statement.target.id not in fresh:
            found.setdefault(statement.target.id, []).append(statement)
    return found


def entries_of(node: Loop, local: set[str]) -> dict[str, list[ast.AugAssign]]:
    """Sums over the iterations that a list or dict keeps, `sums[epoch] += loss.item()`, by the text of the entry."""
    bound = {n for s in node.body for n in stores(s)} | (
        stores(node.target) if not isinstance(node, ast.While) else set()
    )
    found: dict[str, list[ast.AugAssign]] = {}
    for statement in (s for outer in node.body for s in walk(outer)):
        target = statement.target if isinstance(statement, ast.AugAssign) else None
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
            continue
        assert isinstance(statement, ast.AugAssign)
        if local & {n.id for n in loads(statement.value)} and not bound & {n.id for n in loads(target)}:
            found.setdefault(ast.unparse(target), []).append(statement)
    return found


def reads_after(draft: Draft, node: Loop, name: str) -> list[ast.Name]:
    """Reads after the loop of what it left in a variable, or in an object that a variable held before."""
    owner = draft.facts.index.scope(node).owner(name)
    step = draft.facts.handmade.steps.get(node)
    if owner is None or (step is not None and name in step.gathered):  # it is that of all rows after the loop
        return []
    last = node.end_lineno or 0
    if owner.is_class:
        return reads_outside(draft, node, owner, name)
    bound = [b for b in owner.bindings.get(name, []) if b.how is not How.AUGMENT]
    inside = [b.node for b in bound if node.lineno <= position(b.node)[0] <= last]
    if not inside:
        inside = [b.node for b in bound if position(b.node) < position(node)]
    readers, home = draft.facts.readers_of((owner, name)), draft.function(node)
    reads = dict.fromkeys(n for one in inside for n in readers.get(one, ()) if n.lineno > last)
    later = sorted((n for n in reads if draft.function(n) is home), key=position)
    return [n for n in later if not (_measured_anew(draft, node, n) or emptied(draft, node, n))]


def _measured_anew(draft: Draft, node: Loop, load: ast.Name) -> bool:
    """Whether a later loop over batches, of which there are some, has bound a variable again before it is read."""
    chain = draft.facts.index.chain(load)
    for loop in draft.facts.loops.batch_loops:
        later = loop.node
        if not isinstance(later, (ast.For, ast.AsyncFor)) or position(later) <= position(node) or later in chain:
            continue
        if (later.end_lineno or 0) < load.lineno and draft.facts.resolver.runs_before(later, chain):
            if load.id in _bound(later.body):
                return True
    return False


def _bound(body: list[ast.stmt]) -> set[str]:
    """The variables that the statements of a loop bind in every iteration."""
    found: set[str] = set()
    for statement in body:
        if any(isinstance(n, (ast.Break, ast.Continue, ast.Try)) for n in walk(statement)):
            break
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            names = (n for t in targets(statement) for n in (t.elts if isinstance(t, ast.Tuple) else [t]))
            found |= {n.id for n in names if isinstance(n, ast.Name)}
        elif isinstance(statement, ast.With):
            found |= _bound(statement.body)
    return found


def reads_again(draft: Draft, node: Loop, name: str) -> list[ast.Name]:
    """Reads before the loop, in a later iteration of one around it, of the object that a variable holds all along."""
    owner = draft.facts.index.scope(node).owner(name)
    around = draft.facts.index.enclosing_loops(node)
    if owner is None or owner.is_class or not around:
        return []
    found = []
    for load in draft.facts.loads(owner, name):
        shared = [loop for loop in draft.facts.index.enclosing_loops(load) if loop in around]
        if not shared or load.lineno >= node.lineno:
            continue
        inside = set(walk(shared[-1]))
        made = draft.facts.resolver.reaching(load, owner)
        if any(b.node not in inside or position(b.node) > position(load) for b in made):
            if not any(bound_anew(draft, loop, load) for loop in shared):
                found.append(load)
    return found


def is_read(draft: Draft, node: Loop, name: str) -> bool:
    """Whether anybody reads what a loop leaves in a variable: not if it is set again before that."""
    owner = draft.facts.index.scope(node).owner(name)
    reads = draft.facts.loads(owner, name) if owner is not None else []
    inside = (n for n in reads if node in draft.facts.index.ancestors(n))
    if any(not _adds(draft.facts.index.statement(n), name) for n in inside):
        return True  # also what stands under the loop's `else`
    return any((reads_after(draft, node, name), reads_again(draft, node, name), reads_elsewhere(draft, node, name)))


def _adds(statement: ast.AST, name: str) -> bool:
    """Whether a statement does nothing but go on with a variable: `total += 1`, `total = total + 1`."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return [t.id for t in targets if isinstance(t, ast.Name)] == [name]


def reads_outside(draft: Draft, node: ast.AST, owner: Scope, name: str) -> list[ast.Name]:
    """Reads outside a loop of an attribute of self: of any method, for those may run after it."""
    inside = {node, *walk(node)}
    reads = draft.facts.loads(owner, name)
    return [n for n in reads if n not in inside]


def reduced(
    draft: Draft, loop: BatchLoop, statements: Sequence[Sets], local: set[str], rows: bool = False
) -> list[Edit]:
    """The edits that make a sum, or another number, that of all processes; also, if `rows`, by computing it from those.

    Empty if it is not known of all the statements that set it or add to it how they depend on the batch, or if some
    processes may run one that others do not.
    """
    whole = {s: _over_samples(draft, loop, s, local) if rows else [] for s in statements}
    if any(_apart(draft, loop, statement, local) for statement in statements if not whole[statement]):
        return []
    edits = [whole[s] or _reduced(draft, loop, s, s.value, local, rows) for s in statements]
    return [edit for some in edits for edit in some] if all(edits) else []


def _over_samples(draft: Draft, loop: BatchLoop, statement: ast.stmt, local: set[str]) -> list[Edit]:
    """The edits that have the loop over single samples around a statement go over those of all processes."""
    around = over_samples(draft, loop, statement, local)
    if around is None or _apart(draft, loop, around, local - stores(around)):
        return []
    return from_all_rows(draft, loop, around, around.iter, local)


def averaged(draft: Draft, loop: BatchLoop, node: Loop, name: str, local: set[str], rows: bool = True) -> list[Edit]:
    """The edits that make what a loop puts into a variable, or into the object that it holds, that of all processes.

    Empty unless all of it are numbers that it takes of tensors, `losses.append(loss.item())`, or numbers of samples,
    `meter.update(loss.item(), x.size(0))`, or, if `rows`, can be computed from those of all,
    `found.extend(out.argmax(1).tolist())`.
    """
    puts: list[tuple[ast.stmt, list[ast.expr]]] = []
    for statement in (s for outer in node.body for s in walk(outer)):
        if isinstance(statement, (ast.Assign, ast.AugAssign)) and name in stores(statement):
            puts.append((statement, [statement.value]))
        elif isinstance(statement, FILLING) and name in filled(draft, statement, local):
            puts.append((statement, given_to(statement)))
        elif isinstance(statement, FILLING) and name in filled(draft, statement, local, chosen=True):
            if rows and _over_samples(draft, loop, statement, local):
                puts.append((statement, []))
            elif _apart(draft, loop, statement, local - {name}):
                return []  # what it puts there is the same everywhere, but not that it does
    calls = [n for outer in node.body for n in walk(outer) if isinstance(n, ast.Call)]
    if any(name in keeping(draft, call, local) and not _stands_alone(draft, call) for call in calls):
        return []
    known = {statement for statement, _ in puts}
    told = [c for c in calls if draft.facts.index.statement(c) not in known]
    told = [call for call in told if name in kept_by_functions(draft, call, local)]
    if not all(_stands_alone(draft, call) for call in told):
        return []
    whole = {s: _over_samples(draft, loop, s, local) if rows else [] for s, _ in puts}
    edits = [edit for made in whole.values() for edit in made]
    puts = [(statement, given) for statement, given in puts if not whole[statement]]
    if any(local & {n.id for n in loads(place)} for statement, _ in puts for place in places(statement)):
        return []  # processes put it into different entries
    within = (n for _, given in puts for part in given for n in walk(part))
    if any(local & {m.id for m in loads(n)} and texts.is_text(draft, n) for n in within):
        return []  # it may name a file, which is written by that name elsewhere
    for statement, given in puts:
        for part in (part for part in given if local & {n.id for n in loads(part)}):
            made = handed_on(draft, loop, statement, part, local - {name}, rows)
            if not made:
                return []
            edits += made
    for call in told:
        statement = draft.facts.index.statement(call)
        for part in (part for part in given_to(statement) if local & {n.id for n in loads(part)}):
            made = handed_on(draft, loop, statement, part, local - {name}, rows and is_of_number(draft, part))
            if not made:
                return []
            edits += made
    return edits


def handed_on(
    draft: Draft, loop: BatchLoop, statement: ast.stmt, part: ast.expr, local: set[str], rows: bool = True
) -> list[Edit]:
    """The edits that make what a statement hands on that of all processes; empty as those of `averaged()` are."""
    if _apart(draft, loop, statement, local):
        return []
    if is_of_number(draft, part):
        return _reduced(draft, loop, statement, part, local, rows)
    made = numbered(draft, loop, statement, part)
    return made or (from_all_rows(draft, loop, statement, part, local) if rows else [])


def is_of_number(draft: Draft, part: ast.expr) -> bool:
    """Whether an expression takes a number of a tensor: `loss.item()`."""
    return any(number_of(draft, n) is not None for n in walk(part))


def _stands_alone(draft: Draft, call: ast.Call) -> bool:
    """Whether a call is a statement, and what it gives is not taken."""
    return isinstance(draft.facts.index.parents.get(call), ast.Expr)


def _apart(draft: Draft, loop: BatchLoop, statement: ast.stmt, local: set[str]) -> bool:
    """Whether a statement of a loop runs on some processes only, or more often on some than on others."""
    child: ast.AST = statement
    for parent in draft.facts.index.ancestors(statement):
        if isinstance(child, ast.stmt) and _may_be_left_before(draft, child, local):
            return True
        if parent is loop.node:
            return False
        if isinstance(parent, (ast.For, ast.AsyncFor)):  # as often, whatever is in it, or not
            if _differs(draft, parent.iter, set() if as_many(draft, parent.iter, local) else local):
                return True
        elif _differs(draft, getattr(parent, "test", None), local):
            return True
        if isinstance(parent, ast.Try) and parent.handlers and child in parent.body:
            return True  # an error on one process leads past it
        child = parent
    return True


def _may_be_left_before(draft: Draft, statement: ast.stmt, local: set[str]) -> bool:
    """Whether some processes may leave the block of a statement before they come to it."""
    block, place = draft.facts.index.block(statement)
    return any(
        _differs(draft, s.test, local) and (isinstance(s, ast.Assert) or any(isinstance(n, _LEAVES) for n in walk(s)))
        for s in block[:place]
        if isinstance(s, (ast.Assert, ast.If))
    )


def _differs(draft: Draft, header: ast.expr | None, local: set[str]) -> bool:
    """Whether a test, or what a loop goes over, may differ between processes: by a share, by chance, by the clock."""
    if header is None:
        return False
    if local & {n.id for n in loads(header)} or coins.drawn(draft, header) is not None:
        return True
    resolver = draft.facts.resolver
    held = (b.value for name in loads(header) for b in resolver.bindings(name) if b.how is How.ASSIGN)
    calls = (n for root in (header, *held) if root is not None for n in walk(root) if isinstance(n, ast.Call))
    return any((resolver.qualified(call.func) or "").startswith(_CLOCKS) for call in calls)


def _added(draft: Draft, statement: ast.stmt, value: ast.expr) -> tuple[ast.expr, ast.stmt]:
    """What a statement adds, and the statement that works it out: perhaps for a variable that is read here alone."""
    bindings = draft.facts.resolver.bindings(value) if isinstance(value, ast.Name) else []
    if len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path and bindings[0].value is not None:
        owner, made = bindings[0].scope, draft.facts.index.statement(bindings[0].node)
        alone = len(draft.facts.loads(owner, bindings[0].name)) == 1 and len(owner.bindings[bindings[0].name]) == 1
        if alone and draft.facts.index.block(made)[0] is draft.facts.index.block(statement)[0]:
            return bindings[0].value, made
    return value, statement


def _reduced(
    draft: Draft, loop: BatchLoop, statement: ast.stmt, value: ast.expr, local: set[str], rows: bool = True
) -> list[Edit]:
    """Reduce what a statement adds or hands on, or, if `rows`, compute it from those of all processes; nothing if some
    of it cannot be."""
    found = [*_combined(draft, loop, statement, value, local)]
    if rows and (not found or _is_read_elsewhere(draft, statement, value)):
        found = from_all_rows(draft, loop, statement, value, local) or found
    return found or [*_trusted(draft, loop, statement, value, local)]


def _is_read_elsewhere(draft: Draft, statement: ast.stmt, value: ast.expr) -> bool:
    """Whether a variable holds a number that a function returns, and others read it, too: for them it is better made
    that of all processes where it is computed."""
    value, _ = _added(draft, statement, value)
    return isinstance(value, ast.Name) and number_of(draft, value) is None and is_number(draft, value)


def _trusted(draft: Draft, loop: BatchLoop, statement: ast.stmt, value: ast.expr, local: set[str]) -> Iterator[Edit]:
    """Reduce numbers taken of what networks of libraries return, which is taken for one row for each sample."""
    value, made = _added(draft, statement, value)
    env = draft.environment(loop, made, layouts=draft.facts.trusting) if draft.runtime else None
    taken = numbers_in(draft, value)
    if env is not None and taken:
        yield from taken_of_all(draft, statement, value, taken, local, draft.facts.trusting, env, trusts=True)


def _combined(draft: Draft, loop: BatchLoop, statement: ast.stmt, value: ast.expr, local: set[str]) -> Iterator[Edit]:
    """Reduce it as the mean, the sum or the number that it is."""
    value, made = _added(draft, statement, value)
    env = draft.environment(loop, made)
    if env is None:
        return
    found = _weighed(draft, loop, value, env)
    if found is not None:
        weighed, assumes = found
        # In float64, as Python's own product was; on the CPU, as not every device has that.
        if isinstance(weighed, ast.Call) and isinstance(weighed.func, ast.Attribute):
            yield draft.edit(RULE, weighed.func.value, Operation.SURROUND, WHY, "{}.detach().cpu()")
            yield draft.edit(RULE, weighed, Operation.METHOD, WHY, "double()", need=Need.STRONG)
        else:
            tensor = written(draft, number_of(draft, weighed))
            yield draft.edit(RULE, weighed, Operation.BECOME, WHY, f"{tensor}.detach().cpu().double()")
        summed = total(draft, "{}") + ".item()"
        yield draft.edit(RULE, value, Operation.SURROUND, WHY, summed, need=Need.STRONG, assumes=assumes)
        return
    taken = numbers_in(draft, value)
    if taken:
        yield from taken_of_all(draft, statement, value, taken, local, draft.facts.layouts, env)
        return
    means = (
        list(means_in(draft, value, env))
        if draft.runtime and isinstance(statement, (ast.Assign, ast.AugAssign))
        else []
    )
    if means:
        own = {name for target in targets(statement) for name in stores(target)}
        within = {n for mean in means for n in walk(mean)}
        if not {n.id for n in loads(value) if n not in within} & (local - own) and not counts_beside(value, means[0]):
            for mean in means:
                yield draft.edit(RULE, mean, Operation.SURROUND, WHY, _MEANS, need=Need.STRONG)
        return
    layout = draft.facts.layouts.read(value, env)
    if layout is Layout.SUM and draft.facts.kinds.of(value) is Kind.TENSOR:
        yield draft.edit(RULE, value, Operation.SURROUND, WHY, sum_of_all(draft, value), need=Need.STRONG)
    elif layout is Layout.COUNT:
        yield from count_of_all(draft, loop, value, env)
    elif code := of_all(draft, loop, value, layout):
        yield draft.edit(RULE, value, Operation.SURROUND, WHY, code, need=Need.STRONG)


def adds_up(draft: Draft, loop: BatchLoop, statement: ast.AugAssign) -> bool:
    """Whether a statement adds up something over samples."""
    env = draft.environment(loop, statement)
    if env is None:
        return False
    value = statement.value
    return draft.facts.layouts.read(value, env) is Layout.SUM or bool(_weighed(draft, loop, value, env))


def _weighed(
    draft: Draft, loop: BatchLoop, product: ast.expr, env: Environment
) -> tuple[ast.expr, Assumption | None] | None:
    """The number taken of a mean that is weighed by the size of its batch, `loss.item() * x.size(0)`, and whether it is
    taken for one."""
    if not draft.runtime or not (isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult)):
        return None
    for mean, count in ((product.left, product.right), (product.right, product.left)):
        tensor = number_of(draft, mean)
        if tensor is not None:
            layouts = draft.facts.layouts.read(tensor, env), draft.facts.layouts.read(count, env)
            if layouts == (Layout.MEAN, Layout.COUNT):
                return mean, None
            if layouts[0] in (Layout.MEAN, Layout.UNKNOWN) and _counts_graphs(draft, loop, count):
                return mean, GRAPHS
    return None


def _counts_graphs(draft: Draft, loop: BatchLoop, node: ast.expr) -> bool:
    """Whether an expression is the number of graphs in a batch of torch_geometric: of its samples."""
    if isinstance(node, ast.Name):
        bindings = draft.facts.resolver.bindings(node)
        return len(bindings) == 1 and bindings[0].value is not None and _counts_graphs(draft, loop, bindings[0].value)
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "num_graphs"
        and all(v.name.startswith("torch_geometric.") for v in loop.loaders)
        and draft.facts.resolver.only(node.value, Role.BATCH)
    )


def containers(draft: Draft, node: Loop, local: set[str]) -> set[str]:
    """The variables of a loop that hold lists or the like which it fills, and does not set: their length is the same
    everywhere."""
    statements = [s for outer in node.body for s in walk(outer) if isinstance(s, ast.stmt)]
    names = {name for s in statements for name in filled(draft, s, local)}
    made = {name for s in statements if isinstance(s, (ast.Assign, ast.AugAssign, ast.For)) for name in stores(s)}
    return names - made


def bindings_of(draft: Draft, name: ast.Name) -> list[Binding]:
    owner = draft.facts.index.scope(name).owner(name.id)
    return [b for b in owner.bindings[name.id] if b.node is name] if owner else []
