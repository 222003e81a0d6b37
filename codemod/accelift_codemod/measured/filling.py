"""What statements put into objects: lists, dicts, and other objects that keep it."""

from __future__ import annotations

import ast
from collections.abc import Collection

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, library, signatures
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.keeping import PUTS, keeps, only_works
from accelift_codemod.facts.showing import may_log
from accelift_codemod.facts.tree import own_nodes, targets
from accelift_codemod.following.held_outside import puts_elsewhere
from accelift_codemod.following.onward import function_of
from accelift_codemod.networks.methods import is_self

# What puts something into its first argument.
_ADDS = frozenset(
    """
    numpy.add.at numpy.put numpy.copyto heapq.heappush heapq.heappushpop heapq.heapreplace
    bisect.insort bisect.insort_left bisect.insort_right
    """.split()
)
_SETS = frozenset({"setattr", "delattr"})
# What takes something out of a list or the like, or changes what an object says.
_TAKES = frozenset("pop popleft popitem remove discard clear put put_nowait get set".split())
FILLING = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete)


def filled(draft: Draft, statement: ast.stmt, names: set[str], chosen: bool = False) -> set[str]:
    """The objects that a statement puts local values into: `losses.append(loss.item())`, `history["loss"] = ...`.

    A model that counts what it has seen is none: its weights are the same everywhere. What runs only if local values
    say so (`chosen`) may put anything there. Of a module, or of options, that is only the place which is set, as it is
    spelled: `args.last`, `os.environ['LAST']`.
    """
    reads = {n.id for part in (*given_to(statement), *places(statement)) for n in loads(part)}
    if not (_puts(statement) if chosen else names & reads):
        return set()
    return {name for root, place in _kept_in(draft, statement) for name in _filled(draft, statement, root, place)}


def _puts(statement: ast.stmt) -> bool:
    """Whether a statement sets something in an object, or puts it into a list or the like, or takes it out."""
    if not isinstance(statement, ast.Expr):
        return True
    func = statement.value.func if isinstance(statement.value, ast.Call) else None
    if isinstance(func, ast.Attribute):
        return func.attr in PUTS | _TAKES
    return isinstance(func, ast.Name) and func.id in _SETS | {"next"}


def _filled(draft: Draft, statement: ast.stmt, root: ast.Name, place: ast.expr) -> set[str]:
    """A variable whose object a statement puts something into, if it keeps that."""
    if draft.facts.resolver.qualified(root) is not None or Role.ARGUMENTS in draft.facts.resolver.roles(root):
        return {ast.unparse(place)} if place is not root and _puts(statement) else set()
    if only_works(draft.facts.resolver, statement):
        return set()
    if _shows(draft, root) or _only_shows(draft, statement):
        return set()  # it shows what it is given, and measures nothing
    if draft.facts.objects.models(root):
        sets = isinstance(place, ast.Attribute) and place.value is root and not isinstance(statement, ast.Expr)
        return {ast.unparse(place)} if sets else set()
    return {root.id}


def _shows(draft: Draft, node: ast.expr) -> bool:
    return any(v.role is Role.WRITER or v.name in library.SHOWS for v in draft.facts.resolver.values(node))


def _only_shows(draft: Draft, statement: ast.stmt) -> bool:
    """Whether a statement calls a method that does nothing with its object but hand on what it is given to what shows
    it (`self.writer.add_scalar(tag, value, self.step)`), or logs something by the look of it."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and may_log(draft.facts.resolver, call):
        return True
    method = draft.facts.resolver.callee(call) if isinstance(call, ast.Call) else None
    if not isinstance(method, FUNCTIONS) or not isinstance(draft.facts.index.parents.get(method), ast.ClassDef):
        return False
    itself = next((a.arg for a in (*method.args.posonlyargs, *method.args.args)), "")
    reads = [n for n in own_nodes(*method.body) if isinstance(n, ast.Name) and n.id == itself]
    held = [draft.facts.index.parents[n] for n in reads]
    shows = [isinstance(part, ast.Attribute) and _shows(draft, part) for part in held]
    return any(shows) and all(s or _is_asked(draft, part) for s, part in zip(shows, held, strict=True))


def _is_asked(draft: Draft, part: ast.AST) -> bool:
    """Whether an attribute is only read, as an argument: `self.step`."""
    asked = isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load)
    call = draft.facts.index.parents[part]
    return asked and isinstance(call, ast.Call) and part in call.args


def places(statement: ast.stmt) -> list[ast.expr]:
    """Which entries of an object a statement sets: `counts[label] += 1`."""
    found: list[ast.expr] = []
    for target in statement.targets if isinstance(statement, ast.Delete) else targets(statement):
        while isinstance(target, ast.Subscript):  # `counts[label][0] += 1`
            found.append(target.slice)
            target = target.value
    return found


def places_kept(draft: Draft, statement: ast.stmt) -> list[ast.expr]:
    """The attributes and entries that a statement sets, or the object that its call gives something to."""
    if isinstance(statement, ast.Delete):
        return [t for t in statement.targets if not isinstance(t, ast.Name)]
    if isinstance(statement, (ast.Assign, ast.AugAssign)):
        parts = [p for t in targets(statement) for p in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
        return [part for part in parts if isinstance(part, (ast.Subscript, ast.Attribute))]
    given = _object(draft, statement)
    return [given] if given is not None else []


def keeping(draft: Draft, call: ast.Call, names: Collection[str]) -> set[str]:
    """The variable whose object, one of the script, keeps what a method of it is given of some variables, also where
    the result of the call is taken: `loss = meter(loss)`, `meter.add(loss).backward()`."""
    method = function_of(draft, call)
    place = call.func.value if isinstance(call.func, ast.Attribute) and method is not None else call.func
    place = call.func if method is not None and method.name == "__call__" else place
    own = method is not None and isinstance(draft.facts.index.parents.get(method), ast.ClassDef)
    if method is None or not own or not isinstance(place, ast.Name):
        return set()
    bound = draft.facts.resolver.bind(call, method) or {}
    given = [name for name, value in bound.items() if any(n.id in names for n in loads(value))]
    kept = any(keeps(draft.facts.resolver, method, name) for name in given)
    shown = _shows(draft, place) or draft.facts.objects.models(place)
    return {place.id} if kept and not shown and not is_self(place) else set()


def _kept_in(draft: Draft, statement: ast.stmt) -> list[tuple[ast.Name, ast.expr]]:
    """The variables whose objects a statement puts something into, with where: themselves, or entries of them."""
    roots = ((_root(place), place) for place in places_kept(draft, statement))
    return [(root, place) for root, place in roots if root is not None]


def _object(draft: Draft, statement: ast.stmt) -> ast.expr | None:
    """The object that a call gives something to."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return None
    resolver = draft.facts.resolver
    if resolver.qualified(call.func) in _ADDS or resolver.builtin(call.func) in _SETS | {"next"}:
        return call.args[0] if call.args else None
    if (into := next((k.value for k in call.keywords if k.arg == "out"), None)) is not None:
        return into  # `np.minimum(best, loss.item(), out=best)`
    method = function_of(draft, call)
    if method is not None and method.name == "__call__":
        return call.func  # `track(loss.item())`
    func = draft.facts.resolver.set_once(call.func) or call.func  # `put = losses.append`
    if isinstance(func, ast.Call) and func.args and resolver.qualified(func.func) == signatures.PARTIAL:
        func = func.args[0]
    if isinstance(func, ast.Name) and method is None and puts_elsewhere(draft, func):
        return func
    return func.value if isinstance(func, ast.Attribute) else None


def _root(node: ast.expr | None) -> ast.Name | None:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call):  # `history.setdefault("loss", []).append(...)`, `vars(state)["loss"] = ...`
            whole = node.args[0] if getattr(node.func, "id", "") == "vars" and node.args else None
            node = node.func.value if isinstance(node.func, ast.Attribute) else whole
        else:
            node = node.value
    return node if isinstance(node, ast.Name) else None


def given_to(statement: ast.stmt) -> list[ast.expr]:
    """What a statement puts into an object."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return [*statement.value.args, *(k.value for k in statement.value.keywords)]
    return [statement.value] if isinstance(statement, (ast.Assign, ast.AugAssign)) else []
