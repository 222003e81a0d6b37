"""Where what is drawn at random picks samples, or puts them in order: in subsets, samplers, data sets and loaders."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accelift_codemod.chance import splitting
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, position
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.tree import targets, walk

_PICKERS = ("torch.utils.data.Subset", "torch.utils.data.SubsetRandomSampler")
SAMPLERS = ("sampler", "batch_sampler")
_FILLS = frozenset({"append", "extend", "insert"})  # of lists
Place = ast.Call | ast.Subscript | ast.Attribute


def is_graphs(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is a data set of torch_geometric, which can be indexed and shuffled as a whole."""
    values = draft.facts.resolver.values(node)
    return any(v.role is Role.DATASET and v.name.startswith("torch_geometric.") for v in values)


def by(draft: Draft, start: ast.Call) -> Place | None:
    """The subset, sampler or data set that is made from what a call draws or shuffles, or what is computed from it.

    That is followed through variables, into the functions that get it, and out of those that return it.
    """
    home = draft.function(start)
    queue: list[ast.AST] = [start]
    in_place = isinstance(start.func, ast.Attribute) and start.func.attr == "shuffle"
    if in_place and draft.facts.resolver.qualified(start.func) in splitting.SHUFFLES:
        in_place = False  # these give a copy
    if in_place and start.args and isinstance(start.args[0], ast.Name):
        reads = draft.facts.loads_of(start.args[0])
        queue = [n for n in reads if draft.function(n) is not home or position(n) > position(start)]
    return arrival(draft, queue, home)


def arrival(draft: Draft, starts: Iterable[ast.AST], home: Function | None, kept: bool = False) -> Place | None:
    """The first subset, sampler or data set that one of some expressions is given to.

    If `kept`, that is also an attribute of a data set of the script's own.
    """
    queue = list(starts)
    seen = set(queue)
    around: list[ast.Call] = []  # functions that make loaders: it may be lost in them
    while queue:
        node = queue.pop()
        call = draft.facts.index.parents.get(node)
        if isinstance(call, ast.Call) and node is not call.func and _is_dealt(draft, call, node):
            around.append(call)
        found = list(_next(draft, node, home))
        if found and isinstance(found[0], ast.Call):
            target = draft.facts.resolver.callee(found[0])
            if _is_picker(draft, found[0]) or makes_loader(draft, found[0]) or isinstance(target, ast.ClassDef):
                return found[0]
        if found and isinstance(found[0], ast.Subscript):
            return found[0]
        owned = [n for n in found if isinstance(n, ast.Attribute)]
        if kept and owned:
            return owned[0]
        queue += [n for n in found if n not in seen]
        seen.update(found)
    return around[0] if around else None


def _next(draft: Draft, node: ast.AST, home: Function | None) -> Iterator[ast.AST]:
    """Where the value of an expression goes: the call that picks samples by it alone, or all that reads it.

    What was drawn in the `home` of another function is also where that function is handed to: `Lambda(permuted)`.
    """
    resolver = draft.facts.resolver
    if isinstance(node, ast.Attribute) and _keeps(draft, node):
        yield node
        return
    part = child = node
    for parent in draft.facts.index.ancestors(node):
        if isinstance(parent, ast.Attribute) and parent.attr in ("shape", "size"):
            return
        if isinstance(parent, ast.Subscript) and child is parent.slice and is_graphs(draft, parent.value):
            yield parent
            return
        if isinstance(parent, ast.Call) and child is not parent.func:
            if _is_picker(draft, parent) or (_is_dealt(draft, parent, child) and not _is_followed(draft, parent)):
                yield parent
                return
            if resolver.builtin(parent.func) == "len":
                return
            if isinstance(parent.func, ast.Attribute) and parent.func.attr in _FILLS:
                yield from draft.facts.loads_of(parent.func.value) if isinstance(parent.func.value, ast.Name) else ()
            target = resolver.callee(parent)
            if isinstance(target, ast.ClassDef):
                if deals(draft, target):
                    yield parent
                return  # another object that keeps it, a transform of each sample, is no order of them
            given = resolver.bind(parent, target) if isinstance(target, FUNCTIONS) else None
            for parameter, argument in (given or {}).items():
                if argument is child or argument is getattr(child, "value", None):
                    yield from draft.facts.loads(draft.facts.index.scopes[target], parameter)  # type: ignore[index]
        if isinstance(parent, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            for name in (n for n in walk(parent) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)):
                yield from draft.facts.loads_of(name)
            yield from (t for t in targets(parent) if isinstance(t, ast.Attribute) and _keeps(draft, t))
            for entry in (t for t in targets(parent) if isinstance(t, ast.Subscript) and child is not t):
                if isinstance(entry.value, ast.Name):  # of a dict of splits, say
                    yield from (n for n in draft.facts.loads_of(entry.value) if n is not entry.value)
        elif isinstance(parent, ast.Return) and (function := draft.function(parent)) is not None:
            place = child.elts.index(part) if isinstance(child, ast.Tuple) and part in child.elts else None
            for site in resolver.sites(function):
                yield from _taken(draft, site, child, place)
            if draft.facts.index.function(function) is home and isinstance(function, ast.FunctionDef):
                yield from draft.facts.loads(draft.facts.index.scope(function), function.name)
        if isinstance(parent, ast.stmt):
            return
        part, child = child, parent


def _taken(draft: Draft, site: ast.Call, given: ast.AST, place: int | None) -> Iterator[ast.AST]:
    """Where a call's result goes, or the one of several that has this place: `train, test, _ = split(data)`."""
    statement = draft.facts.index.parents.get(site)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is site else None
    known = place is not None and isinstance(given, ast.Tuple) and isinstance(target, ast.Tuple)
    parts = (*given.elts, *target.elts) if known else ()  # type: ignore[attr-defined,union-attr]
    if not known or any(isinstance(e, ast.Starred) for e in parts) or len(parts) != 2 * len(target.elts):  # type: ignore[union-attr]
        yield site
        return
    one = target.elts[place]  # type: ignore[union-attr]
    if isinstance(one, ast.Name):
        yield from draft.facts.loads_of(one)
    elif not isinstance(one, ast.Attribute) or _keeps(draft, one):
        yield one if isinstance(one, ast.Attribute) else site


def _keeps(draft: Draft, place: ast.Attribute) -> bool:
    """Whether an attribute belongs to the object of a data set, or a sampler, in one of its own methods."""
    cls = draft.facts.index.enclosing_class(place)
    own = isinstance(place.value, ast.Name) and place.value.id == "self"
    if not own or cls is None:
        return False
    return draft.facts.resolver.class_role(cls) is Role.DATASET or deals(draft, cls)


def _class_of_method(draft: Draft, call: ast.Call) -> ast.AST | None:
    """The class that a class method makes an object of: `cls(samples)`."""
    function = draft.facts.index.function(call)
    if function is None or not isinstance(call.func, ast.Name):
        return None
    marks = {d.id for d in function.decorator_list if isinstance(d, ast.Name)}
    first = function.args.args[0].arg if function.args.args else ""
    return draft.facts.index.enclosing_class(call) if "classmethod" in marks and call.func.id == first else None


def _is_picker(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes a subset, a sampler or a data set, one of the script's own classes, too."""
    picks = (draft.facts.resolver.qualified(call.func) or "") in _PICKERS
    return picks or is_own(draft, call) or makes_data(draft, call)


def makes_loader(draft: Draft, call: ast.Call) -> bool:
    return Role.LOADER in draft.facts.resolver.roles(call)


def deals_as_given(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes a loader of what it is given, and no sampler chooses of that."""
    others = (draft.facts.resolver.argument(call, None, name) for name in SAMPLERS)
    return makes_loader(draft, call) and not any(other is not None for other in others)


def _is_dealt(draft: Draft, call: ast.Call, part: ast.AST) -> bool:
    """Whether a part of a call is what a loader deals, or by which it does: `DataLoader(data[order])`."""
    given = (
        draft.facts.resolver.argument(call, 0, "dataset"),
        *(draft.facts.resolver.argument(call, None, name) for name in SAMPLERS),
    )
    part = part.value if isinstance(part, ast.keyword) else part
    return part in given and makes_loader(draft, call)


def deals(draft: Draft, cls: ast.ClassDef) -> bool:
    """Whether a class of the script is one of samplers: an object of it tells a loader what to deal."""
    resolver = draft.facts.resolver
    for _, value in draft.facts.objects_of(Role.LOADER):
        given = draft.facts.objects.loader(value).arguments
        if any(v.declaration is cls for name in SAMPLERS for v in resolver.values(given.get(name))):
            return True
    return False


def _is_followed(draft: Draft, call: ast.Call) -> bool:
    """Whether what a call makes of its arguments is seen in a function of the script."""
    return isinstance(draft.facts.resolver.callee(call), FUNCTIONS)


def is_own(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes a data set of the script's own."""
    target = draft.facts.resolver.callee(call) or _class_of_method(draft, call)
    return isinstance(target, ast.ClassDef) and draft.facts.resolver.class_role(target) is Role.DATASET


def makes_data(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes a data set of what it is given: not a part of another one."""
    qualified = draft.facts.resolver.qualified(call.func) or ""
    known = draft.facts.resolver.library_role(qualified) is Role.DATASET
    return is_own(draft, call) or (known and qualified not in _PICKERS)
