"""What a value that a process has measured flows into, and whether training is steered by it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role
from accelift_codemod.facts.index import FUNCTIONS, LOOPS, Function
from accelift_codemod.facts.tree import walk

_READS = 400  # that are followed; what flows further is taken to steer nothing
_DEPTH = 3  # of functions that are looked into for what they do
# What says nothing of the numbers in a value.
_SIZES = frozenset({"shape", "size", "ndim", "dtype", "device", "numel", "dim"})
_ASKS = frozenset({"len", "isinstance", "type", "hasattr", "id", "print", "callable"})
# What a script hands numbers to without being steered by them, and what keeps none of them.
_KEEPS_NOTHING = frozenset(
    {Role.MODEL, Role.LOSS, Role.OPTIMIZER, Role.SCHEDULER, Role.SCALER, Role.WRITER, Role.LOADER}
)
# What trains otherwise once it is told a number.
_STEERED = frozenset({Role.OPTIMIZER, Role.SCHEDULER, Role.LOADER, Role.DATASET})
_Read = ast.Name | ast.Attribute | ast.Call


def steers(draft: Draft, starts: list[ast.Name], *, saves: bool = True) -> bool:
    """Whether training goes another way, or saves a checkpoint, by what variables hold where they are read.

    That is so where it flows into a learning rate, a loss, a schedule's step, what a loader draws by, or a test on
    which a loop is left, weights are put back, parameters are frozen, or (if `saves`) a checkpoint is written.
    """
    return any(
        _is_steered(draft, read, node, saves) for read in reached(draft, starts) for node in _around(draft, read)
    )


def reached(draft: Draft, starts: list[ast.Name]) -> Iterator[_Read]:
    """The expressions that what variables hold flows into: reads of it, and calls that return it, the given ones first.

    It is followed through variables, attributes, lists and dicts, arguments and returns, and through tests into what is
    set under them.
    """
    queue: list[_Read] = list(starts)
    seen: set[ast.AST] = set(starts)
    while queue and len(seen) < _READS:
        read = queue.pop(0)
        yield read
        for following in _next(draft, read):
            if following not in seen:
                seen.add(following)
                queue.append(following)


def reads_of(draft: Draft, statement: ast.stmt) -> list[ast.Name]:
    """The loads that read what an assignment binds."""
    found: list[ast.Name] = []
    for target in walk(statement):
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
            owner = draft.facts.index.scope(target).owner(target.id)
            loads = draft.facts.loads(owner, target.id) if owner is not None else []
            if owner is not None and isinstance(statement, ast.AugAssign):
                found += (load for load in loads if load is not target)
            elif owner is not None:
                reaching = draft.facts.resolver.reaching
                found += (load for load in loads if any(b.node is target for b in reaching(load, owner)))
    return found


def targets(statement: ast.stmt) -> list[ast.expr]:
    """What an assignment sets; nothing of other statements."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else []


# ---- the way of a value


def _around(draft: Draft, read: ast.AST) -> Iterator[ast.AST]:
    """The expressions around a read that its value is a part of, itself first, and the statement."""
    yield read
    child = read
    for parent in draft.facts.index.ancestors(read):
        if isinstance(parent, ast.stmt):
            yield parent
            return
        if isinstance(parent, ast.Attribute) and parent.attr in _SIZES:
            return
        if isinstance(parent, ast.Compare) and all(isinstance(o, (ast.Is, ast.IsNot)) for o in parent.ops):
            return
        if isinstance(parent, ast.Call):
            if draft.facts.resolver.builtin(parent.func) in _ASKS:
                return
            yield parent
            if child is not parent.func and _function(draft, parent) is not None:
                return  # what it returns is followed inside
        else:
            yield parent
        child = parent


def _next(draft: Draft, read: _Read) -> Iterator[_Read]:
    """The reads that a value flows into from one of it."""
    for node in _around(draft, read):
        if isinstance(node, ast.Call) and node is not read and not _is_within(draft, read, node.func):
            yield from _handed(draft, node, read)
        elif isinstance(node, ast.NamedExpr):
            yield from _reads_of_target(draft, node.target)
        elif isinstance(node, ast.Return):
            function = draft.facts.index.function(node)
            yield from _calls_of(draft, function) if function is not None else ()
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            yield from _bound(draft, node)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            yield from reads_of(draft, _header(node))
        elif isinstance(node, (ast.If, ast.While)):
            for part in (n for s in (*node.body, *node.orelse) for n in walk(s)):
                if isinstance(part, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                    yield from _bound(draft, part)
                elif isinstance(part, ast.Return):
                    function = draft.facts.index.function(part)
                    yield from _calls_of(draft, function) if function is not None else ()


def _header(loop: ast.For | ast.AsyncFor) -> ast.stmt:
    """What binds the variables of a loop, as a statement of its own."""
    return ast.Assign(targets=[loop.target], value=loop.iter)


def _bound(draft: Draft, statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[_Read]:
    """The reads of what a statement sets: variables, attributes, and what entries belong to."""
    yield from reads_of(draft, statement)
    for target in targets(statement):
        for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            if isinstance(part, ast.Attribute):
                yield from _attribute_reads(draft, part)
            elif isinstance(part, ast.Subscript):
                yield from _object_reads(draft, part.value)


def _reads_of_target(draft: Draft, target: ast.Name) -> list[ast.Name]:
    owner = draft.facts.index.scope(target).owner(target.id)
    return draft.facts.loads(owner, target.id) if owner is not None else []


def _attribute_reads(draft: Draft, stored: ast.Attribute) -> Iterator[_Read]:
    """The reads of an attribute that is set: of the same object by name, of an object of the same class."""
    declared = {_own_class(draft, stored.value), *_declared(draft, stored.value)} - {None}
    name = ast.unparse(stored.value)
    for read in draft.facts.index.attributes.get(stored.attr, []):
        if isinstance(read.ctx, ast.Load) and read is not stored:
            same = not declared and ast.unparse(read.value) == name
            if same or declared & {_own_class(draft, read.value), *_declared(draft, read.value)}:
                yield read


def _own_class(draft: Draft, node: ast.expr) -> ast.ClassDef | None:
    """The class whose `self` an expression is."""
    function = draft.facts.index.function(node)
    cls = draft.facts.index.parents.get(function) if function is not None else None
    if not isinstance(node, ast.Name) or function is None or not isinstance(cls, ast.ClassDef):
        return None
    first = [*function.args.posonlyargs, *function.args.args][:1]
    return cls if first and first[0].arg == node.id else None


def _object_reads(draft: Draft, node: ast.expr) -> Iterator[_Read]:
    """The reads of an object that keeps what it is given: of the variable or attribute that it is in."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        if isinstance(node, ast.Subscript):
            node = node.value
        else:  # `history.setdefault("loss", []).append(x)`
            node = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    if isinstance(node, ast.Attribute):
        yield from _attribute_reads(draft, node)
    elif isinstance(node, ast.Name) and not draft.facts.resolver.roles(node) & _KEEPS_NOTHING:
        yield from (read for read in _reads_of_target(draft, node) if read is not node)


def _handed(draft: Draft, call: ast.Call, read: _Read) -> Iterator[_Read]:
    """Where what a call is given goes: into a parameter of the script's function, or into an object that keeps it."""
    function = _function(draft, call)
    if function is None:
        if isinstance(call.func, ast.Attribute) and draft.facts.resolver.qualified(call.func) is None:
            yield from _object_reads(draft, call.func.value)
        elif isinstance(call.func, ast.Name) and draft.facts.resolver.roles(call.func) == {Role.OBJECT}:
            yield from _object_reads(draft, call.func)
        return
    given = draft.facts.resolver.bind(call, function) or {}
    scope = draft.facts.index.scopes[function]
    for name, argument in given.items():
        if _is_within(draft, read, argument):
            reaching = draft.facts.resolver.reaching
            loads = draft.facts.loads(scope, name)
            yield from (n for n in loads if any(b.how is How.PARAMETER for b in reaching(n, scope)))


def _function(draft: Draft, call: ast.Call) -> Function | None:
    """The function of the script that a call runs: by name, as a method, a constructor, or that an object is."""
    callee = draft.facts.resolver.callee(call)
    if isinstance(callee, ast.ClassDef):
        return draft.facts.resolver.method(callee, "__init__")
    if isinstance(callee, FUNCTIONS):
        return callee
    values = draft.facts.resolver.values(call.func)
    declared = {v.declaration for v in values if v.role is Role.OBJECT}
    if len(declared) == len(values) == 1:
        return draft.facts.resolver.method(declared.pop(), "__call__")
    return None


def _calls_of(draft: Draft, function: Function) -> Iterator[_Read]:
    """The expressions that are what a function returns: its calls, and reads of the property that it is."""
    yield from draft.facts.resolver.sites(function)
    cls = draft.facts.index.parents.get(function)
    if not isinstance(cls, ast.ClassDef):
        return
    if function in draft.facts.resolver.properties:
        for read in draft.facts.index.attributes.get(function.name, []):
            if cls in (_own_class(draft, read.value), *_declared(draft, read.value)):
                yield read
    elif function.name == "__call__":
        for call in draft.facts.index.calls:
            if isinstance(call.func, ast.Name) and cls in _declared(draft, call.func):
                yield call


def _declared(draft: Draft, node: ast.expr) -> list[ast.AST | None]:
    return [v.declaration for v in draft.facts.resolver.values(node)]


def _is_within(draft: Draft, node: ast.AST, tree: ast.AST) -> bool:
    return node is tree or any(parent is tree for parent in draft.facts.index.ancestors(node))


# ---- what is steered


def _is_steered(draft: Draft, read: _Read, node: ast.AST, saves: bool) -> bool:
    """Whether training is steered by a value, at an expression around a read of it, or at its statement."""
    if isinstance(node, ast.Call):
        if draft.facts.loops.is_backward(node):
            return True
        if node is read or _is_within(draft, read, node.func):
            return False
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "step":
            return Role.SCHEDULER in draft.facts.resolver.roles(func.value)
        if isinstance(func, ast.Attribute) and _function(draft, node) is None and _feeds(draft, func.value):
            return True
        return draft.facts.resolver.only(node, Role.OPTIMIZER)
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        return sets_group(draft, node) or any(
            isinstance(target, ast.Attribute) and _feeds(draft, target.value) for target in targets(node)
        )
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return draft.facts.loops.reaches_backward(node.body) and _is_within(draft, read, node.iter)
    if isinstance(node, (ast.If, ast.While)) and _is_within(draft, read, node.test):
        if isinstance(node, ast.While) and draft.facts.loops.reaches_backward(node.body):
            return True
        return any(_goes_another_way(draft, part, saves) for part in (*node.body, *node.orelse))
    return False


def _feeds(draft: Draft, node: ast.expr) -> bool:
    """Whether an object is an optimizer, a schedule, a loader, or what a loader draws from or by."""
    values = draft.facts.resolver.values(node)
    if any(value.role in _STEERED for value in values):
        return True
    loaders = {loader for loop in draft.facts.loops.batch_loops for loader in loop.loaders}
    given = (a for loader in loaders for a in draft.facts.objects.loader(loader).arguments.values())
    origins = {v.origin for v in values if v.role is Role.OBJECT}
    return bool(origins) and any(v.origin in origins for a in given for v in draft.facts.resolver.values(a))


def _goes_another_way(draft: Draft, statement: ast.stmt, saves: bool) -> bool:
    """Whether processes that do not run a statement would train otherwise than those that do."""
    for node in walk(statement):
        if isinstance(node, (ast.Break, ast.Continue)):
            return True
        if isinstance(node, ast.Return) and _in_training(draft, node):
            return True
    return _acts(draft, [statement], saves, _DEPTH)


def _in_training(draft: Draft, node: ast.Return) -> bool:
    """Whether a function is left before it has trained to the end."""
    loops = [loop for loop in draft.facts.index.enclosing_loops(node) if isinstance(loop, LOOPS)]
    return any(draft.facts.loops.reaches_backward(loop.body) for loop in loops)


def _acts(draft: Draft, statements: list[ast.stmt], saves: bool, depth: int) -> bool:
    """Whether statements change what is trained, or save it, in functions that they call, too."""
    for node in (n for s in statements for n in walk(s)):
        if _changes(draft, node) or (saves and _saves(draft, node)):
            return True
        callee = draft.facts.resolver.callee(node) if isinstance(node, ast.Call) and depth else None
        if isinstance(callee, FUNCTIONS) and _acts(draft, callee.body, saves, depth - 1):
            return True
    return False


def _changes(draft: Draft, node: ast.AST) -> bool:
    """Whether a node changes what is trained, or how: an optimizer, a schedule, weights, what has gradients."""
    if updates(draft, node):
        return True
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Attribute) and t.attr == "requires_grad" for t in node.targets)
    if not isinstance(node, ast.Call):
        return False
    if draft.facts.loops.is_backward(node) or draft.facts.resolver.only(node, Role.OPTIMIZER):
        return True
    func = node.func
    if not isinstance(func, ast.Attribute):
        return False
    if func.attr == "load_state_dict":
        return bool(draft.facts.resolver.roles(func.value) & {Role.MODEL, Role.OPTIMIZER, Role.SCHEDULER})
    return func.attr == "requires_grad_"


def updates(draft: Draft, node: ast.AST) -> bool:
    """Whether a node steps an optimizer or a schedule, or sets what an optimizer steps with."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step":
        return bool(draft.facts.resolver.roles(node.func.value) & {Role.OPTIMIZER, Role.SCHEDULER})
    return sets_group(draft, node)


def sets_group(draft: Draft, node: ast.AST) -> bool:
    """Whether a statement sets an entry of an optimizer's param_groups."""
    if not isinstance(node, (ast.Assign, ast.AugAssign)):
        return False
    for target in targets(node):
        if isinstance(target, ast.Subscript):
            base = target.value
            bindings = draft.facts.resolver.bindings(base) if isinstance(base, ast.Name) else []
            sources = [base, *(b.value for b in bindings if b.how is How.LOOP and b.value is not None)]
            if any(isinstance(n, ast.Attribute) and n.attr == "param_groups" for s in sources for n in walk(s)):
                return True
    return False


def _saves(draft: Draft, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and draft.facts.resolver.qualified(node.func) == "torch.save"
