"""Whether training is steered by what a process has measured."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from accelift_codemod.chance.redrawn import redrawn
from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role, position
from accelift_codemod.facts.chance import seeds
from accelift_codemod.facts.index import FUNCTIONS, LOOPS, Function
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import container, targets, walk
from accelift_codemod.facts.tree import whole as bare
from accelift_codemod.following.attributes import library_made
from accelift_codemod.following.onward import Read, around, function_of, is_within, reached
from accelift_codemod.measured import later
from accelift_codemod.measured.choices import SPELLED, caught, choices
from accelift_codemod.measured.feeding import IN_PLACE, changes_source, feeds, sets_asked
from accelift_codemod.measured.filling import filled
from accelift_codemod.measured.switches import is_set_back, stays, switched_by

_DEPTH = 3  # of functions that are looked into for what they do
_EXITS = frozenset({"sys.exit", "os._exit", "exit", "quit"})
_SAVES = frozenset({"torch.save", "shutil.copy", "shutil.copyfile", "shutil.copy2", "shutil.move"})


def steers(draft: Draft, starts: Sequence[Read], *, saves: bool = True, losses: bool = True) -> bool:
    """Whether training goes another way, or saves a checkpoint, by what variables hold where they are read.

    That is so where it flows into a learning rate, a loss (if `losses`), a schedule's step, what a loader draws by, or
    a test on which a loop is left, weights are put back, parameters are frozen, or (if `saves`) a checkpoint is
    written. What gradients flow back through is no number that was measured, but a part of the loss.
    """
    of_loss = not draft.facts.loops.gradients.reads.isdisjoint(starts)
    for read in reached(draft, starts, tests=True):
        for node in around(draft, read):
            if draft.facts.loops.is_backward(node):
                if (
                    losses
                    and not of_loss
                    and not (read in starts and _runs_from(node, read))
                    and not _is_own(draft, node)
                ):
                    return True
            elif _is_steered(draft, read, node, saves):
                return True
    return False


def _runs_from(call: ast.AST, read: Read) -> bool:
    """Whether a backward pass runs from what is read, or an entry of it: a loss, and not a number that is in one."""
    start = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    return start is not None and container(start) is read


def _is_own(draft: Draft, call: ast.AST) -> bool:
    """Whether a loss is known for a mean or a sum over what one process computes, with all that goes into it."""
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return False
    return later.layout(draft, call, call.func.value) in (Layout.MEAN, Layout.SUM)


def tested_in(draft: Draft, starts: Sequence[Read], functions: Collection[ast.AST]) -> Read | None:
    """Where one of some functions tests what variables hold, to leave a loop or to save a checkpoint by it."""
    for read in reached(draft, starts, tests=True):
        test = draft.facts.index.statement(read)
        if isinstance(test, ast.If) and draft.facts.index.function(read) in functions:
            if test in around(draft, read) and _is_steered(draft, read, test, saves=True):
                return read
    return None


def _is_steered(draft: Draft, read: Read, node: ast.AST, saves: bool) -> bool:
    """Whether training is steered by a value, at an expression around a read of it, or at its statement."""
    if any(is_within(draft, read, told) for told in switched_by(draft, node)):
        return True
    if isinstance(node, SPELLED):
        for test, parts in choices(draft, node):
            leaves = node in parts  # an assertion
            if is_within(draft, read, test) and (leaves or any(_goes_another_way(draft, p, saves) for p in parts)):
                return True
        return False
    if isinstance(node, ast.Call):
        if node is read or is_within(draft, read, node.func):
            return False
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "step":
            return Role.SCHEDULER in draft.facts.resolver.roles(func.value)
        if updates(draft, node) or _weighs(draft, node) or _puts_back(draft, node):
            return True
        if isinstance(func, ast.Attribute) and function_of(draft, node) is None and feeds(draft, func.value):
            return not library_made(draft, func)  # `data.restore(x)`, a transform that the data set has
        return bool(draft.facts.resolver.roles(node) & {Role.OPTIMIZER, Role.SCHEDULER})
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        return (
            sets_group(draft, node)
            or _weighs(draft, node)
            or any(isinstance(target, ast.Attribute) and sets_asked(draft, target) for target in targets(node))
        )
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return draft.facts.loops.reaches_backward(node.body) and is_within(draft, read, node.iter)
    if isinstance(node, (ast.If, ast.While)) and is_within(draft, read, node.test):
        if isinstance(node, ast.While) and draft.facts.loops.reaches_backward(node.body):
            return True
        return any(_goes_another_way(draft, part, saves) for part in (*node.body, *node.orelse))
    return False


def _goes_another_way(draft: Draft, statement: ast.stmt | ast.expr, saves: bool) -> bool:
    """Whether processes that do not run a statement would train otherwise than those that do."""
    inside = [*walk(statement)]
    for node in inside:
        if isinstance(node, (ast.Break, ast.Continue)) and draft.facts.index.enclosing_loops(node)[0] not in inside:
            if leaving_matters(draft, node, saves):
                return True
        if _ends(draft, node):
            return True
        if isinstance(node, ast.Assert):
            behind = caught(draft, node)
            if node in behind or any(_goes_another_way(draft, part, saves) for part in behind):
                return True
        if isinstance(node, ast.Return) and _in_training(draft, node):
            return True
    return acts(draft, [statement], saves, _DEPTH) or meets(draft, [statement])


def leaving_matters(draft: Draft, leave: ast.Break | ast.Continue, saves: bool) -> bool:
    """Whether it matters beyond a loop that some processes leave it, or an iteration: not if it only shows something,
    neither trains nor meets other processes, and works out nothing that is read after it."""
    loop = next((n for n in draft.facts.index.enclosing_loops(leave) if isinstance(n, LOOPS)), None)
    return loop is None or _rounds_matter(draft, (loop, saves))


@kept
def _rounds_matter(draft: Draft, asked: tuple[ast.For | ast.AsyncFor | ast.While, bool]) -> bool:
    """The same of a loop that is left somewhere."""
    loop, saves = asked
    if loop.orelse or acts(draft, [loop], saves) or meets(draft, [loop]):
        return True
    inside = {*walk(loop)}
    for node in inside:
        if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom, ast.Raise)):
            return True
        if isinstance(node, ast.Call) and isinstance(draft.facts.resolver.callee(node), FUNCTIONS):
            return True
        if isinstance(node, ast.stmt) and filled(draft, node, set(), chosen=True):
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            owner = draft.facts.index.scope(node).owner(node.id)
            goes_on = isinstance(draft.facts.index.parents[node], ast.AugAssign)
            reads = draft.facts.loads(owner, node.id) if goes_on and owner else draft.facts.readers(node)
            if not inside.issuperset(reads):
                return True
    return False


def _ends(draft: Draft, node: ast.AST) -> bool:
    """Whether a node ends the process, or raises what is caught, to go on elsewhere."""
    if isinstance(node, ast.Raise):
        return is_caught(draft, node)
    if not isinstance(node, ast.Call):
        return False
    return draft.facts.resolver.qualified(node.func) in _EXITS or draft.facts.resolver.builtin(node.func) in _EXITS


def is_caught(draft: Draft, node: ast.AST, calls: int = _DEPTH) -> bool:
    """Whether what is raised at a node is caught, by its function or by those that call it."""
    function = draft.facts.index.function(node)
    around = (p for p in draft.facts.index.ancestors(node) if draft.facts.index.function(p) is function)
    if any(isinstance(p, ast.Try) and p.handlers for p in around):
        return True
    sites = draft.facts.resolver.sites(function) if calls and isinstance(function, FUNCTIONS) else ()
    return any(is_caught(draft, site, calls - 1) for site in sites)


def _in_training(draft: Draft, node: ast.Return) -> bool:
    """Whether a function is left before it has trained to the end."""
    loops = [loop for loop in draft.facts.index.enclosing_loops(node) if isinstance(loop, LOOPS)]
    return any(draft.facts.loops.reaches_backward(loop.body) for loop in loops)


def acts(draft: Draft, statements: Sequence[ast.stmt | ast.expr], saves: bool, depth: int = _DEPTH) -> bool:
    """Whether statements change what is trained, or save it, in functions that they call, too."""
    for node in (n for s in statements for n in walk(s)):
        if _changes(draft, node) or (saves and _saves(draft, node)):
            return True
        called = _called(draft, node) if isinstance(node, ast.Call) and depth else ()
        if any(acts(draft, function.body, saves, depth - 1) for function in called):
            return True
    return False


def _called(draft: Draft, call: ast.Call) -> list[Function]:
    """The functions of the script of which a call runs one: `for hook in hooks: hook()`, or a part of one:
    `next(steps)`."""
    if known := draft.facts.resolver.functions_run(call):
        return known
    if draft.facts.resolver.builtin(call.func) == "next" and call.args and isinstance(call.args[0], ast.Name):
        made = (b.value for b in draft.facts.resolver.bindings(call.args[0]))
        run = [draft.facts.resolver.callee(value) for value in made if isinstance(value, ast.Call)]
        return [function for function in run if isinstance(function, FUNCTIONS)]
    return []


def meets(draft: Draft, statements: Sequence[ast.stmt | ast.expr]) -> bool:
    """Whether statements go through a loader that is shared out, or take a batch of it, in functions that they call,
    too: all processes have to do that together."""
    for statement in statements:
        for part in (statement, *draft.blueprint.timeline.calls_into(statement)):
            loops = (draft.blueprint.loops[n] for n in walk(part) if n in draft.blueprint.loops)
            if any(map(draft.blueprint.shares_batches, loops)):
                return True
    return takes_batch(draft, statements)


def takes_batch(draft: Draft, statements: Sequence[ast.stmt | ast.expr]) -> bool:
    """Whether statements take a batch of a loader that is shared out, in functions that they call, too: `next(it)`."""
    resolver = draft.facts.resolver
    for part in (p for s in statements for p in (s, *draft.blueprint.timeline.calls_into(s))):
        calls = (n for n in walk(part) if isinstance(n, ast.Call) and resolver.builtin(n.func) == "next")
        batches = (v for call in calls for v in resolver.values(call) if v.role is Role.BATCH)
        loaders = (loader for v in batches for inner in v.inner for loader in inner if loader.role is Role.LOADER)
        if any(map(draft.blueprint.is_prepared, loaders)):
            return True
    return False


def keeps_checkpoint(draft: Draft, statements: Sequence[ast.stmt | ast.expr], depth: int = _DEPTH) -> bool:
    """Whether statements save a checkpoint, or keep a copy of one, in functions that they call, too."""
    for node in (n for s in statements for n in walk(s)):
        callee = draft.facts.resolver.callee(node) if isinstance(node, ast.Call) and depth else None
        if (
            _saves(draft, node)
            or _keeps_copy(draft, node)
            or (isinstance(callee, FUNCTIONS) and keeps_checkpoint(draft, callee.body, depth - 1))
        ):
            return True
    return False


def _keeps_copy(draft: Draft, node: ast.AST) -> bool:
    """Whether a statement copies a network, or its weights, as they are then: `best = deepcopy(net.state_dict())`."""
    made = node.value if isinstance(node, ast.Assign) else None
    if not isinstance(made, ast.Call) or draft.facts.resolver.qualified(made.func) != "copy.deepcopy" or not made.args:
        return False
    state = made.args[0]
    func = state.func if isinstance(state, ast.Call) else None
    copied = func.value if isinstance(func, ast.Attribute) and func.attr == "state_dict" else state
    return bool(draft.facts.objects.trained_models(copied))


def _changes(draft: Draft, node: ast.AST) -> bool:
    """Whether a node changes what is trained, or how: an optimizer, a schedule, weights, what has gradients."""
    if updates(draft, node) or (switched_by(draft, node) and not is_set_back(draft, node)) or stays(draft, node):
        return True
    if changes_source(draft, node):
        return True
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        set_here = targets(node)
        if any(isinstance(target, ast.Attribute) and sets_asked(draft, target) for target in set_here):
            return True
        adds = isinstance(node, ast.AugAssign)  # `model.fc.weight *= 0.5`
        if any(_is_weights(draft, target, whole=adds) for target in set_here) and _weighs(draft, node):
            return True
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Attribute) and t.attr == "requires_grad" for t in node.targets)
    if not isinstance(node, ast.Call):
        return False
    if draft.facts.loops.is_backward(node) or draft.facts.resolver.only(node, Role.OPTIMIZER):
        return True
    func = node.func
    if seeds(draft.facts.resolver, node) or _weighs(draft, node) or _drops(draft, node) or redrawn(draft, node):
        return True
    if not isinstance(func, ast.Attribute):
        return False
    if func.attr == "apply" and draft.facts.objects.models(func.value):
        return True  # of something to all layers
    if func.attr == "update_parameters" and draft.facts.resolver.callee(node) is None:  # of an average of weights
        return any(draft.facts.objects.models(argument) for argument in node.args)
    return _puts_back(draft, node) or func.attr == "requires_grad_"


def _puts_back(draft: Draft, call: ast.Call) -> bool:
    """Whether a call puts weights, or a state of what updates them, back."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "load_state_dict":
        return False
    return bool(draft.facts.resolver.roles(func.value) & {Role.MODEL, Role.OPTIMIZER, Role.SCHEDULER})


def updates(draft: Draft, node: ast.AST) -> bool:
    """Whether a node steps an optimizer or a schedule, or sets what an optimizer steps with."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "step":
            return bool(draft.facts.resolver.roles(node.func.value) & {Role.OPTIMIZER, Role.SCHEDULER})
        return node.func.attr in ("update", "__setitem__") and _of_group(draft, node.func.value)
    return sets_group(draft, node)


def _weighs(draft: Draft, node: ast.AST) -> bool:
    """Whether a node changes weights of a network in place: `model.weight.mul_(x)`, `p.data *= x`, `init.zeros_(w)`,
    `model.fc.weight[i] = 0`."""
    if isinstance(node, ast.AugAssign):
        changed: ast.expr | None = node.target
    elif isinstance(node, ast.Assign):
        changed = next((t for t in node.targets if _is_weights(draft, t)), None)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and IN_PLACE.fullmatch(node.func.attr):
        of_torch = (draft.facts.resolver.qualified(node.func) or "").startswith("torch.nn.init.")
        changed = draft.facts.resolver.argument(node, 0, "tensor") if of_torch else node.func.value
    else:
        return False
    while isinstance(changed, (ast.Attribute, ast.Subscript)):
        changed = changed.value
        if draft.facts.objects.models(changed) or draft.facts.objects.is_parameter(changed):
            return True
        if draft.facts.resolver.only(changed, Role.PARAMETERS):
            return True
    return False


def _is_weights(draft: Draft, target: ast.expr, whole: bool = False) -> bool:
    """Whether what is set is some of the weights of a layer (or, if `whole`, all), or the data of a parameter."""
    part = bare(target)
    named = isinstance(part, ast.Attribute) and part.attr in ("weight", "bias")
    return (whole or part is not target) and (named or draft.facts.objects.is_parameter(part))


def _drops(draft: Draft, call: ast.Call) -> bool:
    """Whether a call throws gradients away after a backward pass and before a step that would have used them."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "zero_grad":
        return False
    if not draft.facts.resolver.roles(func.value) & {Role.OPTIMIZER, Role.MODEL}:
        return False
    loops = draft.facts.index.enclosing_loops(call)
    body = loops[0] if loops else draft.facts.index.function(call)
    calls = [n for n in walk(body) if isinstance(n, ast.Call)] if body is not None else []
    before = any(draft.facts.loops.is_backward(n) and position(n) < position(call) for n in calls)
    return before and any(updates(draft, n) and position(n) > position(call) for n in calls)


def sets_group(draft: Draft, node: ast.AST) -> bool:
    """Whether a statement sets an entry of an optimizer's param_groups: `group["lr"] = r`, `group.update(lr=r)`."""
    func = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr == "update":
        return _of_group(draft, func.value)
    if not isinstance(node, (ast.Assign, ast.AugAssign)):
        return False
    return any(isinstance(target, ast.Subscript) and _of_group(draft, target.value) for target in targets(node))


def _of_group(draft: Draft, base: ast.expr) -> bool:
    """Whether an expression is one of an optimizer's param_groups."""
    bindings = draft.facts.resolver.bindings(base) if isinstance(base, ast.Name) else []
    held = (b.value for b in bindings if b.how in (How.LOOP, How.ASSIGN) and not b.path)
    sources = [base, *(value for value in held if value is not None)]
    return any(isinstance(n, ast.Attribute) and n.attr == "param_groups" for s in sources for n in walk(s))


def _saves(draft: Draft, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and draft.facts.resolver.qualified(node.func) in _SAVES
