"""What a value flows into: the search forward from where it is read."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role, torch_ops
from accelift_codemod.facts.classes import own_class
from accelift_codemod.facts.effects import assignments
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.parts import PASSES
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.following import keys
from accelift_codemod.following.attributes import attribute_reads, declared_by, is_layer, library_made
from accelift_codemod.following.held_outside import reads_by_callers

_READS = 400  # that are followed; what flows further is taken to go nowhere
_WAYS = 4  # by which a read is come to, on average
_DEPTH = 4  # of calls in calls that are told apart
# What says nothing of the numbers in a value.
_ASKS = frozenset({"len", "isinstance", "type", "hasattr", "id", "print", "callable"})
# What keeps none of the numbers that it is given; a pass over a loader may be a progress bar that shows them.
_KEEPS_NOTHING = frozenset({Role.MODEL, Role.LOSS, Role.OPTIMIZER, Role.SCHEDULER, Role.SCALER, Role.WRITER}) | {
    Role.LOADER,
    Role.LIBRARY,  # of `torch.zeros(3).scatter_(...)`
    *PASSES,
}
# Types whose calls make tensors of sizes.
_TYPES = frozenset("Tensor FloatTensor DoubleTensor LongTensor IntTensor ByteTensor HalfTensor BoolTensor".split())
Read = ast.Name | ast.Attribute | ast.Call
Bound = ast.Assign | ast.AnnAssign | ast.AugAssign
Stop = Callable[[ast.AST], bool]
_Calls = tuple[ast.Call, ...]  # that a value has gone into, and not come out of; nothing where that is not known


def reached(draft: Draft, starts: Sequence[Read], tests: bool = False, stop: Stop | None = None) -> Iterator[Read]:
    """The expressions that what others hold flows into: reads of it, and calls that return it, the given ones first.

    It is followed through variables, attributes, lists and dicts, arguments and returns, and, if `tests`, through
    conditions into what is set under them. It goes no further than what `stop` accepts. What one call of a function
    hands to it comes out at that call, not at others.
    """
    queue: deque[tuple[Read, _Calls]] = deque((read, ()) for read in starts)
    seen = set(queue)
    told: set[ast.AST] = set()
    gone: set[int] = set()  # all that one read flows into may be what another one does
    while queue and len(told) < _READS and len(seen) < _READS * _WAYS:
        read, calls = queue.popleft()
        if read not in told:
            told.add(read)
            yield read
        onward = _onward(draft, (read, calls, tests, stop))
        if id(onward) in gone:
            continue
        gone.add(id(onward))
        for following in onward:
            if following not in seen:
                seen.add(following)
                queue.append(following)


@kept
def _onward(draft: Draft, asked: tuple[Read, _Calls, bool, Stop | None]) -> tuple[tuple[Read, _Calls], ...]:
    """What a read flows into; for all reads that flow into the same, one object."""
    return _one(draft, tuple(_next(draft, *asked)))


@kept
def _one(_: Draft, alike: tuple[tuple[Read, _Calls], ...]) -> tuple[tuple[Read, _Calls], ...]:
    return alike


def reads_of(draft: Draft, statement: ast.stmt) -> list[ast.Name]:
    """The loads that read what an assignment binds."""
    found: list[ast.Name] = []
    for target in (n for t in targets(statement) for n in walk(t)):  # those of a comprehension are its own
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
            owner = draft.facts.index.scope(target).owner(target.id)
            if owner is not None and isinstance(statement, ast.AugAssign):
                found += (load for load in draft.facts.loads(owner, target.id) if load is not target)
            else:
                found += draft.facts.readers(target)
    return found


def returned(draft: Draft, read: Read, end: ast.Return | ast.Yield) -> list[Read]:
    """What a read that a function returns or yields is in its callers: calls, or one of several things by its place."""
    function = draft.facts.index.function(end)
    sites = draft.facts.resolver.sites(function) if isinstance(function, FUNCTIONS) else []
    if not isinstance(end.value, ast.Tuple):
        return list(sites)
    place = next(n for n, part in enumerate(end.value.elts) if is_within(draft, read, part))
    found: list[Read] = []
    for site in sites:
        around = draft.facts.index.parents.get(site)
        target = around.targets[0] if isinstance(around, ast.Assign) and len(around.targets) == 1 else None
        whole: list[Read] = [site]
        if isinstance(around, ast.Assign) and isinstance(target, ast.Name):
            whole += reads_of(draft, around)
        for one in whole:
            found += _unpacked(draft, one, place, len(end.value.elts))
            user = draft.facts.index.parents.get(one)
            used = not isinstance(user, (ast.Subscript, ast.Assign, ast.Expr, ast.For))  # with all that it is one of
            found += [one] if used or _is_entry(user, place) else []
    return found


def with_callers(draft: Draft, reads: Iterable[Read]) -> Iterator[ast.expr]:
    """Reads, and where a function returns what they read, by itself or as one of several, those of its callers."""
    for read in reads:
        yield read
        statement = draft.facts.index.statement(read)
        value = statement.value if isinstance(statement, ast.Return) else None
        if isinstance(statement, ast.Return) and read in (value, *(value.elts if isinstance(value, ast.Tuple) else ())):
            for given in returned(draft, read, statement):
                around = draft.facts.index.parents.get(given)
                yield around if isinstance(value, ast.Tuple) and isinstance(around, ast.Subscript) else given
                if isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Name):
                    yield from reads_of(draft, around)
        elif isinstance(statement, ast.Return) and isinstance(value, ast.Dict) and read in value.values:
            yield from _entries_of(draft, statement, value.keys[value.values.index(read)])


def _entries_of(draft: Draft, statement: ast.Return, key: ast.expr | None) -> Iterator[ast.Subscript]:
    """Where callers read one entry of a dict that a function returns: `run()["loss"]`, `m = run(); m["loss"]`."""
    function = draft.facts.index.function(statement)
    for site in draft.facts.resolver.sites(function) if isinstance(function, FUNCTIONS) else ():
        around = draft.facts.index.parents.get(site)
        kept = reads_of(draft, around) if isinstance(around, ast.Assign) else []
        for entry in map(draft.facts.index.parents.get, (site, *kept)):
            if isinstance(entry, ast.Subscript) and key is not None and ast.dump(entry.slice) == ast.dump(key):
                yield entry


def _unpacked(draft: Draft, read: Read, place: int, many: int) -> list[ast.Name]:
    """The reads of the variable that gets one place of several things where they are unpacked."""
    around = draft.facts.index.parents.get(read)
    around = header(around) if isinstance(around, ast.For) else around
    target = around.targets[0] if isinstance(around, ast.Assign) and len(around.targets) == 1 else None
    if not isinstance(target, ast.Tuple) or len(target.elts) != many:
        return []
    return reads_of(draft, ast.Assign(targets=[target.elts[place]], value=read))


def _is_entry(node: ast.AST | None, place: int) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == place


def around(draft: Draft, read: Read, stop: Stop | None = None) -> Iterator[ast.AST]:
    """The expressions around a read that its value is a part of, itself first, and the statement."""
    if stop is not None and stop(read):
        return
    yield read
    child: ast.AST = read
    for parent in draft.facts.index.ancestors(read):
        if stop is not None and stop(parent):
            return
        if isinstance(parent, ast.stmt):
            yield parent
            return
        if isinstance(parent, ast.Attribute) and parent.attr in torch_ops.ABOUT:
            return
        if isinstance(parent, ast.Compare) and all(isinstance(o, (ast.Is, ast.IsNot)) for o in parent.ops):
            return
        if isinstance(parent, ast.Call):
            if draft.facts.resolver.builtin(parent.func) in _ASKS or _is_size(draft, parent, child):
                return
            yield parent
            if child is not parent.func and functions_of(draft, parent):
                return  # what it returns is followed inside
        else:
            yield parent
        child = parent


def _is_size(draft: Draft, call: ast.Call, argument: ast.AST) -> bool:
    """Whether an argument says how large a tensor is that is made: `torch.zeros(rows, 3)`, `x.new_zeros(rows)`."""
    if argument not in call.args:
        return False
    home, _, name = (draft.facts.resolver.qualified(call.func) or "").rpartition(".")
    if home == "torch" and name in torch_ops.SIZED - {"randint"}:
        return argument is call.args[0] if name == "full" else True
    if home in ("torch", "torch.cuda") and name in _TYPES:  # `torch.FloatTensor(rows, 2)`
        return len(call.args) > 1
    return not home and isinstance(call.func, ast.Attribute) and call.func.attr in torch_ops.NEW


def _next(draft: Draft, read: Read, calls: _Calls, tests: bool, stop: Stop | None) -> Iterator[tuple[Read, _Calls]]:
    """The reads that a value flows into from one of it, with the calls that it is in there."""
    home = draft.facts.index.function(read)

    def within(reads: Iterable[Read]) -> Iterator[tuple[Read, _Calls]]:
        return ((n, calls if draft.facts.index.function(n) is home else ()) for n in reads)

    for node in around(draft, read, stop):
        if isinstance(node, ast.Call) and node is not read and not is_within(draft, read, node.func):
            handed = _handed(draft, node, read)
            entered = functions_of(draft, node)
            yield from ((n, (*calls, node)[-_DEPTH:]) for n in handed) if entered else within(handed)
        elif isinstance(node, ast.NamedExpr):
            yield from within(_reads_of_target(draft, node.target))
        elif isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)):
            yield from _back(draft, node, calls, read)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            for piece in _parts(draft, node, read):
                yield from within(_bound(draft, piece, read))
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) and is_within(draft, read, node.iter):
            yield from within(reads_of(draft, header(node)))
        elif tests and isinstance(node, (ast.If, ast.While)):
            for part in (n for s in (*node.body, *node.orelse) for n in walk(s)):
                if isinstance(part, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                    yield from within(_bound(draft, part))
                elif isinstance(part, ast.Return):
                    yield from _back(draft, part, calls)


def _parts(draft: Draft, statement: Bound, read: Read) -> Sequence[Bound]:
    """Of an assignment of several things at once those that a read is in: `begun, rate = time.time(), 0.1`."""
    pairs = assignments(statement)
    if len(pairs) < 2 or any(value is None or isinstance(target, ast.Starred) for target, value in pairs):
        return [statement]
    parts = [ast.Assign(targets=[t], value=v) for t, v in pairs if v is not None and is_within(draft, read, v)]
    return parts or [statement]


def _back(
    draft: Draft, end: ast.Return | ast.Yield | ast.YieldFrom, calls: _Calls, read: Read | None = None
) -> Iterator[tuple[Read, _Calls]]:
    """Where what a function returns or yields comes out: at the call by which it came in, if that is known, or at all.

    Of several things it is the one that is read, if any is.
    """
    function = draft.facts.index.function(end)
    sites: list[tuple[Read, _Calls]] = []
    if calls and function in functions_of(draft, calls[-1]):
        sites = [(calls[-1], calls[:-1])]
    elif function is not None:
        sites = [(site, ()) for site in _calls_of(draft, function)]
    place, many = _place(draft, end.value, read) if read is not None else (None, 0)
    for site, outer in sites:
        home = draft.facts.index.function(site)
        for one in [site] if place is None else _taken(draft, site, place, many):
            yield one, outer if draft.facts.index.function(one) is home else ()


def _place(draft: Draft, value: ast.expr | None, read: Read) -> tuple[int | str | None, int]:
    """Which of several things that are returned a read is in, by its place or key, and of how many."""
    if isinstance(value, ast.Tuple) and not any(isinstance(part, ast.Starred) for part in value.elts):
        return next((n for n, part in enumerate(value.elts) if is_within(draft, read, part)), None), len(value.elts)
    if isinstance(value, ast.Dict):
        for key, part in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and is_within(draft, read, part):
                return key.value, 0
    return None, 0


def _taken(draft: Draft, whole: Read, place: int | str, many: int, depth: int = 0) -> Iterator[Read]:
    """Where one of several things is taken out of all of them, or all are used together."""
    user = draft.facts.index.parents.get(whole)
    user = header(user) if isinstance(user, ast.For) and user.iter is whole else user
    target = user.targets[0] if isinstance(user, ast.Assign) and len(user.targets) == 1 else None
    if isinstance(user, ast.Subscript) and user.value is whole:
        other = isinstance(user.slice, ast.Constant) and user.slice.value != place
        yield from () if other else (whole,)
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(place, int) and len(target.elts) == many:
        if any(isinstance(part, ast.Starred) for part in target.elts):
            yield whole
        else:
            yield from _bound(draft, ast.Assign(targets=[target.elts[place]], value=whole))
    elif isinstance(target, ast.Name) and depth < _DEPTH:
        for read in reads_of(draft, user):  # type: ignore[arg-type]
            yield from _taken(draft, read, place, many, depth + 1)
        yield from _asked(draft, target)
    else:
        yield whole


def header(loop: ast.For | ast.AsyncFor | ast.comprehension) -> ast.stmt:
    """What binds the variables of a loop, as a statement of its own."""
    return ast.Assign(targets=[loop.target], value=loop.iter)


def _bound(draft: Draft, statement: Bound, known: Read | None = None) -> Iterator[Read]:
    """The reads of what a statement sets: variables, attributes, and what entries belong to; the one that is known may
    be one of them."""
    yield from reads_of(draft, statement)
    for target in targets(statement):
        for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            if isinstance(part, ast.Name):
                yield from _asked(draft, part)
            elif isinstance(part, ast.Attribute):
                yield from attribute_reads(draft, part)
            elif isinstance(part, ast.Subscript):
                yield from object_reads(draft, part, known)


def _reads_of_target(draft: Draft, target: ast.Name) -> list[Read]:
    owner = draft.facts.index.scope(target).owner(target.id)
    return [*draft.facts.loads(owner, target.id), *_asked(draft, target)] if owner is not None else []


def _asked(draft: Draft, target: ast.Name) -> list[ast.Attribute]:
    """The reads of an attribute of self where others ask the object for it: `stopper.stop`."""
    owner = draft.facts.index.scope(target).owner(target.id)
    return draft.facts.asked(owner, target.id) if owner is not None else []


def object_reads(draft: Draft, node: ast.expr, known: Read | None = None) -> Iterator[Read]:
    """The reads of an object that keeps what it is given: of the variable or attribute that it is in.

    Not the one by which it is given, unless that is known, nor those of its other entries: what `history["loss"]` is
    given, `history["best"]` has not.
    """
    path = keys.stored(node)
    while isinstance(node, (ast.Subscript, ast.Call)):
        if isinstance(node, ast.Subscript):
            node = node.value
        else:  # `history.setdefault("loss", []).append(x)`
            node = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    found: Iterable[Read] = ()
    if isinstance(node, ast.Attribute):
        found = attribute_reads(draft, node)
    elif isinstance(node, ast.Name) and own_class(draft.facts.index, node) is None:
        # `self` would be all of its attributes
        if not draft.facts.resolver.roles(node) & _KEEPS_NOTHING:
            found = (read for read in _reads_of_target(draft, node) if read is not node or read is known)
            owner = draft.facts.index.scope(node).owner(node.id)
            found = [*found, *(reads_by_callers(draft, owner, node.id) if owner is not None else ())]
    yield from (read for read in found if not any(path) or not keys.apart(path, keys.read(draft, read)))


def _handed(draft: Draft, call: ast.Call, read: Read) -> Iterator[Read]:
    """Where what a call is given goes: into a parameter of the script's function, or into an object that keeps it."""
    functions = functions_of(draft, call)
    if not functions:
        if isinstance(call.func, ast.Attribute) and draft.facts.resolver.qualified(call.func) is None:
            if not library_made(draft, call.func):
                yield from object_reads(draft, call.func.value)
            elif not (draft.facts.resolver.roles(call.func) & _KEEPS_NOTHING or is_layer(draft, call.func)):
                yield from object_reads(draft, call.func)
        elif isinstance(call.func, ast.Name) and draft.facts.resolver.roles(call.func) == {Role.OBJECT}:
            if not draft.blueprint.prepared_models(call.func):  # of a class in a file that is not found
                yield from object_reads(draft, call.func)
    for function in functions:
        given = draft.facts.resolver.bind(call, function) or {}
        scope = draft.facts.index.scopes[function]
        for name, argument in given.items():
            if is_within(draft, read, argument):
                reaching = draft.facts.resolver.reaching
                loads = draft.facts.loads(scope, name)
                yield from (n for n in loads if any(b.how is How.PARAMETER for b in reaching(n, scope)))


def function_of(draft: Draft, call: ast.Call) -> Function | None:
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


def functions_of(draft: Draft, call: ast.Call) -> Sequence[Function]:
    """The function of the script that a call runs, or those of which it runs one, or one after the other."""
    function = function_of(draft, call)
    return [function] if function is not None else draft.facts.resolver.functions_run(call)


def _calls_of(draft: Draft, function: Function) -> Iterator[Read]:
    """The expressions that are what a function returns: its calls, and reads of the property that it is."""
    yield from draft.facts.resolver.sites(function)
    cls = draft.facts.index.parents.get(function)
    if not isinstance(cls, ast.ClassDef):
        return
    if function in draft.facts.resolver.properties:
        for read in draft.facts.index.attributes.get(function.name, []):
            if cls in (own_class(draft.facts.index, read.value), *declared_by(draft, read.value)):
                yield read
    elif function.name == "__call__":
        for call in draft.facts.index.calls:
            if isinstance(call.func, ast.Name) and cls in declared_by(draft, call.func):
                yield call


def is_within(draft: Draft, node: ast.AST, tree: ast.AST) -> bool:
    return node is tree or any(parent is tree for parent in draft.facts.index.ancestors(node))
