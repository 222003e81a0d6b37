"""What of a loop differs from process to process, as it comes from a share of the data."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import partial

from accelift_codemod.batches import padding
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Role, Value, paths
from accelift_codemod.facts.effects import Effects, flatten, loads, stores
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.keeping import keeps
from accelift_codemod.facts.layout.algebra import FIXED, written_out
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import root, walk
from accelift_codemod.facts.values import key
from accelift_codemod.measured import labels
from accelift_codemod.measured.filling import FILLING, filled, keeping
from accelift_codemod.measured.function_memory import holders, kept_by_functions, sets_by_a_test
from accelift_codemod.measured.numbers import contents, is_of_rows
from accelift_codemod.measured.sums import Loop, bindings_of

_TRAINED = frozenset({Role.MODEL, Role.OPTIMIZER, Role.SCHEDULER})
# What returns how large the gradients are, which are averaged by then.
_NORMS = frozenset(f"torch.nn.utils.{name}" for name in ("clip_grad_norm_", "clip_grad_norm", "get_total_norm"))
_RETURNS = 3  # of functions that return what another one returns


_LEAVES = (ast.Break, ast.Continue, ast.Return)


def local_names(draft: Draft, loop: BatchLoop, node: Loop, summed: Collection[str] = ()) -> set[str]:
    """Variables of the loop body whose value differs from process to process; `summed` are made those of all."""
    return set(_local_names(draft, (loop, node, frozenset(summed))))


@kept
def _local_names(draft: Draft, asked: tuple[BatchLoop, Loop, frozenset[str]]) -> set[str]:
    loop, node, summed = asked
    effects = Effects(draft.facts.resolver, node)
    roles = draft.facts.resolver
    step = draft.blueprint.handmade.get(loop)
    whole = _evaluations(draft, node) | (step.apart if step is not None else frozenset())
    evaluating = {n for inner in whole for n in walk(inner)}
    names = {
        n.id
        for n in walk(node)
        if isinstance(n, ast.Name)
        and n not in evaluating
        and isinstance(n.ctx, ast.Store)
        and any(
            is_share(draft, v) and not _is_of_all(draft, v, n) for b in bindings_of(draft, n) for v in roles.bound(b)
        )
    }
    if not names and not isinstance(node, ast.While):
        numbered = isinstance(node.iter, ast.Call) and roles.builtin(node.iter.func) == "enumerate"
        pair = node.target.elts if numbered and isinstance(node.target, ast.Tuple) else []
        names = stores(pair[1] if len(pair) == 2 else node.target)
    if step is not None:
        names = step.local
    if summed:
        names = names - _from(effects, node, set(summed), whole)
    same = trained(draft, node) | _sizes(draft, loop, node)
    names = names - same
    for _ in range(2):  # what one iteration leaves behind, the next one reads
        for statement in flatten(node.body):
            names = names | (_tainted(effects, statement, names, whole, summed) - same)
            for inner in walk(statement) if statement not in whole else ():
                names |= filled(draft, inner, names) if isinstance(inner, FILLING) else set()
                names |= _in_turn(draft, inner, names) - same if isinstance(inner, ast.For) else set()
                names |= kept_by_functions(draft, inner, names) if isinstance(inner, ast.Call) else set()
                names |= keeping(draft, inner, names) if isinstance(inner, ast.Call) else set()
                names |= _chosen(draft, inner, names) - same if isinstance(inner, ast.If) else set()
            for function in draft.blueprint.timeline.calls_into(statement):
                names |= roles.kept(function, data=True)
    return names - set(step.whole) if step is not None else names  # a share of whole data goes by another name


def _in_turn(draft: Draft, loop: ast.For, names: set[str]) -> set[str]:
    """The variables that hold the objects of the script, or else the list of them, that a loop gives local values one
    after the other: `for callback in callbacks: callback.after(loss.item())`."""
    resolver = draft.facts.resolver
    given = loop.target.id if isinstance(loop.target, ast.Name) else ""
    calls = [n for s in loop.body for n in walk(s) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    calls = [c for c in calls if getattr(c.func.value, "id", "") == given]  # type: ignore[attr-defined]
    told = [c for c in calls if any(names & {n.id for n in loads(a)} for a in (*c.args, *c.keywords))]
    values = [v for v in resolver.values(loop.target) if isinstance(v.declaration, ast.ClassDef)] if told else []
    objects = {v.origin for v in values if any(_keeps(draft, v, call, names) for call in told)}
    if not objects:
        return set()
    found = holders(draft, objects, loop) - {given}
    base = root(loop.iter)
    return found or ({base.id} if base is not None else set())


def _keeps(draft: Draft, value: Value, call: ast.Call, names: set[str]) -> bool:
    """Whether a method of an object keeps what a call gives it of some variables, or what these decide."""
    resolver = draft.facts.resolver
    method = resolver.method(value.declaration, call.func.attr)  # type: ignore[attr-defined]
    given = resolver.bind(call, method) if method is not None else None
    if method is None or given is None:
        return False
    told = {name for name, argument in given.items() if names & {n.id for n in loads(argument)}}
    return any(keeps(resolver, method, name) for name in told) or sets_by_a_test(draft, method, told)


def _chosen(draft: Draft, test: ast.If, names: set[str]) -> set[str]:
    """The objects that are filled only if local values say so: `if loss.item() > state.best: state.bad += 1`."""
    if not any(n.id in names for n in contents(draft, test.test)):
        return set()
    found: set[str] = set()
    for inner in (n for outer in (*test.body, *test.orelse) for n in walk(outer)):
        found |= filled(draft, inner, names, chosen=True) if isinstance(inner, FILLING) else set()
        found |= kept_by_functions(draft, inner, names, chosen=True) if isinstance(inner, ast.Call) else set()
    return found


def _from(effects: Effects, node: Loop, names: set[str], whole: set[ast.AST]) -> set[str]:
    """Names, and those that are bound from them in a loop."""
    for _ in range(2):
        for statement in flatten(node.body):
            names = names | _tainted(effects, statement, names, whole)
    return names


def trained(draft: Draft, node: ast.AST) -> set[str]:
    """Variables of a loop, or a function, that hold networks, optimizers or schedules alone, learning rates, norms of
    gradients, or the losses of closures, though a function that trains on a batch returns them: they are the same
    everywhere."""
    found: dict[str, set[Role]] = {}
    set_to: dict[str, list[bool]] = {}
    for name in (n for n in walk(node) if isinstance(n, ast.Name)):
        found.setdefault(name.id, set()).update(draft.facts.resolver.roles(name) or {Role.OBJECT})
        if isinstance(name.ctx, ast.Store) and not _is_closures(draft, name, node):
            same = (_is_norm(draft, b) or _is_rate(draft, b) or _is_stepped(draft, b) for b in bindings_of(draft, name))
            set_to.setdefault(name.id, []).extend(same)
    norms = {name for name, norm in set_to.items() if norm and all(norm)}
    return norms | {name for name, roles in found.items() if roles <= _TRAINED}


def _sizes(draft: Draft, loop: BatchLoop, node: Loop) -> set[str]:
    """Variables of a loop that hold how large something is in other dimensions than that of the samples, which is the
    same everywhere: `shape = tuple(encoded.shape[1:])`."""
    set_to: dict[str, list[bool]] = {}
    for name in (n for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)):
        same = (_is_size(draft, loop, binding) for binding in bindings_of(draft, name))
        set_to.setdefault(name.id, []).extend(same)
    found = {name for name, sizes in set_to.items() if sizes == [True]}
    return found if found and padding.alike(draft, loop) else set()


def _is_size(draft: Draft, loop: BatchLoop, binding: Binding) -> bool:
    """Whether a variable is bound to what only asks how large such dimensions are."""
    value = binding.value
    if binding.how is not How.ASSIGN or binding.path or value is None:
        return False
    if any(draft.facts.index.tests_around(binding.node, loop.node)):
        return False  # which of several it is, something else may decide
    read = [n for n in loads(value) if draft.facts.resolver.builtin(n) is None]
    if not read or any(map(partial(is_of_rows, draft), read)):
        return False
    env = draft.environment(loop, draft.facts.index.statement(binding.node))
    return env is not None and written_out(draft.facts.layouts.read(value, env)) in FIXED


def _is_closures(draft: Draft, name: ast.Name, node: ast.AST) -> bool:
    """Whether a name is a variable of a function inside of a loop, which decides nothing itself."""
    function = draft.facts.index.function(name)
    if function is None or node not in draft.facts.index.ancestors(function):
        return False
    return draft.facts.index.scope(name).owner(name.id) is draft.facts.index.scopes[function] and not any(
        isinstance(inner, (ast.If, ast.While, ast.IfExp)) for inner in walk(function)
    )


def _is_stepped(draft: Draft, binding: Binding) -> bool:
    """Whether a variable is bound to the loss that `optimizer.step(closure)` returns: that of the whole batch."""
    call, resolver = binding.value, draft.facts.resolver
    func = call.func if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or binding.how is not How.ASSIGN or binding.path:
        return False
    if not (isinstance(func, ast.Attribute) and func.attr == "step" and resolver.only(func.value, Role.OPTIMIZER)):
        return False
    if any(value.declaration is not None for value in resolver.values(func.value)):
        return False  # a class of the script returns what it likes
    closures = [value.declaration for value in resolver.values(resolver.argument(call, 0, "closure"))]
    ends = [end.value for f in closures if isinstance(f, FUNCTIONS) for end in resolver.returns(f)]
    return bool(ends) and all(isinstance(end, (ast.Name, ast.Call)) for end in ends)


def _is_norm(draft: Draft, binding: Binding, depth: int = 0) -> bool:
    """Whether a variable is bound to the norm of gradients, perhaps as one of several things that a call returns."""
    call, resolver = binding.value, draft.facts.resolver
    if not isinstance(call, ast.Call) or binding.how is not How.ASSIGN or depth > _RETURNS:
        return False
    if resolver.qualified(call.func) in _NORMS:
        return not binding.path
    fitting = _returned(draft, call, binding)
    made = [b for node in fitting if isinstance(node, ast.Name) for b in resolver.bindings(node)]
    names = all(isinstance(node, ast.Name) for node in fitting)
    return bool(made) and names and all(_is_norm(draft, b, depth + 1) for b in made)


def _is_rate(draft: Draft, binding: Binding, depth: int = 0) -> bool:
    """Whether a variable is bound to what an optimizer or a schedule says, perhaps as one of several things that a call
    returns: `return loss, scheduler.get_last_lr()[0]`."""
    if binding.value is None or binding.how is not How.ASSIGN or depth > _RETURNS:
        return False
    if not binding.path and _is_told(draft, binding.value):
        return True
    if not isinstance(binding.value, ast.Call):
        return False
    fitting = _returned(draft, binding.value, binding)
    made = [b for node in fitting if isinstance(node, ast.Name) for b in draft.facts.resolver.bindings(node)]
    told = (isinstance(node, ast.Name) or (node is not None and _is_told(draft, node)) for node in fitting)
    return bool(fitting) and all(told) and all(_is_rate(draft, b, depth + 1) for b in made)


def _is_told(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is something of an optimizer, or of a schedule: `optimizer.param_groups[0]["lr"]`."""
    inner = node
    while isinstance(inner, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(inner, ast.Call) and (inner.args or inner.keywords):
            return False
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    roles = draft.facts.resolver.roles(inner)
    return inner is not node and bool(roles) and roles <= {Role.OPTIMIZER, Role.SCHEDULER}


def _returned(draft: Draft, call: ast.Call, binding: Binding) -> list[ast.expr | None]:
    """What the function of a call returns for one variable, of as many things as it is unpacked to."""
    resolver = draft.facts.resolver
    function = resolver.callee(call)
    if not isinstance(function, FUNCTIONS) or resolver.yields(function):
        return []
    returned = [_place(statement.value, binding.path) for statement in resolver.returns(function)]
    many = len(resolver.index.parents[binding.node].elts) if binding.path else 0  # type: ignore[attr-defined]
    return [node for node, of in returned if of == many]


def _place(value: ast.expr | None, path: tuple[int | None, ...]) -> tuple[ast.expr | None, int]:
    """What is returned, or one of several things that are, and of how many."""
    if not path:
        return value, 0
    if len(path) > 1 or path[0] is None or not isinstance(value, ast.Tuple) or path[0] >= len(value.elts):
        return None, 0
    return value.elts[path[0]], len(value.elts)


def is_share(draft: Draft, value: Value) -> bool:
    """Whether a value comes from a batch, and not from one of a loader that every process has whole: or is a tuple with
    such a one, a batch of each of several loaders."""
    if value.role is Role.TUPLE:
        return any(is_share(draft, part) for parts in value.inner for part in parts)
    if value.role not in (Role.BATCH, Role.DATA):
        return False
    loaders = [part for inner in value.inner for part in inner if part.role is Role.LOADER]
    return draft.facts.processes.managed or not loaders or any(map(draft.blueprint.is_prepared, loaders))


def _is_of_all(draft: Draft, value: Value, name: ast.Name) -> bool:
    """Whether a value is what a function has measured that evaluates on all samples: `score = evaluate(model)`."""
    index, resolver = draft.facts.index, draft.facts.resolver
    function = index.function(value.origin)
    if value.role is not Role.DATA or function is None or function is index.function(name):
        return False
    loaders = {key(part) for inner in value.inner for part in inner if part.role is Role.LOADER}
    passed = [loop for node, loop in draft.blueprint.loops.items() if index.function(node) is function]
    whole = [loop for loop in passed if not loop.trains and loop not in draft.blueprint.local_loops]
    covered = {key(loader) for loop in whole for loader in loop.loaders}
    singly = any(resolver.builtin(c.func) in ("iter", "next") for c in walk(function) if isinstance(c, ast.Call))
    return bool(loaders) and len(whole) == len(passed) and loaders <= covered and not singly


def named_after_samples(draft: Draft, call: ast.Call) -> bool:
    """Whether a call writes to a file with a name from a share of the data: every process has files of its own."""
    resolver = draft.facts.resolver
    names = (name for text in paths.texts(resolver, call) for name in paths.origins(resolver, text))
    return any(is_share(draft, value) for name in names for value in resolver.values(name))


def named_after_labels(draft: Draft, call: ast.Call) -> ast.Name | None:
    """What names a file that a call writes, if that is no sample but what several may have: what a loss compares with.

    A name that says a sample, too, is one of its own.
    """
    resolver = draft.facts.resolver
    names = [name for text in paths.texts(resolver, call) for name in paths.origins(resolver, text)]
    shares = {name: [v for v in resolver.values(name) if is_share(draft, v)] for name in names}
    named = {name: values for name, values in shares.items() if values}
    compared = labels.compared(draft) if named else set()
    all_labels = all(labels.parts(draft, one) & compared for values in named.values() for one in values)
    return next(iter(named), None) if all_labels else None


def _evaluations(draft: Draft, node: Loop) -> set[ast.AST]:
    """The loops inside a training loop that evaluate on all samples: what they leave is the same everywhere."""
    loops = draft.blueprint.loops
    found = (loops[inner] for inner in walk(node) if inner in loops and inner is not node)
    return {loop.node for loop in found if not loop.trains and loop not in draft.blueprint.local_loops}


def _in_loop(
    effects: Effects, loop: ast.For, names: set[str], whole: set[ast.AST], summed: Collection[str]
) -> set[str]:
    """The same of a loop. Its variables are of a share if what it goes through is, but for what entries are called."""
    if names & {n.id for n in loads(loop.iter)}:
        return (stores(loop) - _keys(loop)).difference(summed)  # how often it goes around, too
    found = set(names)
    for _ in range(2):
        for part in (*loop.body, *loop.orelse):
            found |= _tainted(effects, part, found, whole, summed)
    return found - names


def _keys(loop: ast.For) -> set[str]:
    """The variable for the keys of a dict that a loop goes through: `for name, loss in losses.items()`."""
    call = loop.iter if isinstance(loop.iter, ast.Call) and not loop.iter.args else None
    named = call.func.attr if call is not None and isinstance(call.func, ast.Attribute) else ""
    if named == "items" and isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2:
        return stores(loop.target.elts[0])
    return stores(loop.target) if named == "keys" else set()


def _tainted(
    effects: Effects, statement: ast.stmt, names: set[str], whole: set[ast.AST], summed: Collection[str] = ()
) -> set[str]:
    """The names that a statement binds from any of the given ones, but for what evaluation loops in it do, and for sums
    that are made those of all."""
    if statement in whole:
        return set()
    if isinstance(statement, ast.For) and not any(isinstance(n, _LEAVES) for s in statement.body for n in walk(s)):
        return _in_loop(effects, statement, names, whole, summed)
    if not isinstance(statement, (ast.If, ast.With)):
        return effects.tainted(statement, names).difference(summed)
    heads = [statement.test] if isinstance(statement, ast.If) else [item.context_expr for item in statement.items]
    if names & {n.id for head in heads for n in loads(head)}:
        return stores(statement)
    found = set(names)
    for part in (*statement.body, *getattr(statement, "orelse", ())):
        found |= _tainted(effects, part, found, whole, summed)
    return found - names
