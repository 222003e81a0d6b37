"""Objects that keep samples of earlier batches, and give them back: pools of images, memories to replay."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, How
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.keeping import PUTS
from accelift_codemod.facts.tree import own_nodes, targets, walk
from accelift_codemod.following.onward import is_within, reached, reads_of
from accelift_codemod.networks.methods import attribute

_PUTS = PUTS | {"push", "put"}
_ROUNDS = 3  # the nodes of a method do not come in the order in which they run
_Call = tuple[ast.Call, ast.Name, Function]


def pooled(draft: Draft, loop: BatchLoop) -> Iterator[tuple[ast.Call, ast.Name, bool]]:
    """The calls that put samples of a loop's batches into an object, of which later losses are computed with what it
    gives back; the object, and whether that are no samples, but numbers which go on with each batch: a running mean."""
    calls = list(_calls(draft, loop))
    for call, owner, method in calls:
        given = draft.facts.resolver.bind(call, method) or {}
        kept = _kept(draft, method, {n for n, a in given.items() if draft.facts.by_hand.of_batch(a)})
        for other, same, asked in calls if kept else ():
            if same.id == owner.id and kept & _gives(draft, asked) and _has_part(draft, loop, other):
                yield call, owner, _mixes(draft, method, kept & _gives(draft, asked))
                break


def _calls(draft: Draft, loop: BatchLoop) -> Iterator[_Call]:
    """The calls of a loop that run a method of an object of the script, and of no network."""
    resolver = draft.facts.resolver
    for call in (n for s in loop.body for n in walk(s) if isinstance(n, ast.Call)):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        if not isinstance(owner, ast.Name) or draft.facts.objects.models(owner):
            continue
        classes = list({v.declaration for v in resolver.values(owner) if isinstance(v.declaration, ast.ClassDef)})
        name = call.func.attr if isinstance(call.func, ast.Attribute) else "__call__"
        method = resolver.method(classes[0], name) if len(classes) == 1 else None
        if isinstance(method, FUNCTIONS) and classes[0] not in resolver.followed and method.name != "__init__":
            yield call, owner, method


def _kept(draft: Draft, method: Function, given: set[str]) -> set[str]:
    """The attributes of its object that a method puts what it is given into, beside what is there, and that nothing
    empties."""
    nodes = list(own_nodes(*method.body))
    tainted = _computed(draft, nodes, given)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PUTS:
            if any(_reads(a, tainted) for a in node.args):
                found.add(attribute(node.func.value))
        elif isinstance(node, (ast.Assign, ast.AugAssign)) and _reads(node.value, tainted):
            own = _attributes(node.value)
            for target in targets(node):
                grows = isinstance(target, ast.Subscript) or isinstance(node, ast.AugAssign) or attribute(target) in own
                found |= {attribute(target)} if grows else set()
    cls = draft.facts.index.enclosing_class(method)
    return {name for name in found - {""} if not _empties(draft, cls, name)}


def _mixes(draft: Draft, method: Function, names: set[str]) -> bool:
    """Whether a method computes attributes of its object from what they were: `self.mean += rate * (x - self.mean)`."""
    lists = {b.name for name in names for b in draft.facts.index.attribute_bindings.get(name, []) if _is_list(b.value)}
    for node in own_nodes(*method.body):
        if not isinstance(node, (ast.Assign, ast.AugAssign)):
            continue
        own = _attributes(node.value) if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) else set()
        places = {attribute(target) for target in targets(node) if isinstance(target, ast.Attribute)} & names - lists
        if places if isinstance(node, ast.AugAssign) else places & own:
            return True
    return False


def _is_list(node: ast.expr | None) -> bool:
    return isinstance(node, (ast.List, ast.ListComp)) or (isinstance(node, ast.Call) and not node.args)


def _empties(draft: Draft, cls: ast.ClassDef | None, name: str) -> bool:
    """Whether a method of a class, but its constructor, may empty an attribute."""
    cleared = any(attribute(c.func) == name for c in draft.facts.index.methods.get("clear", []))
    bound = [b for b in draft.facts.index.attribute_bindings.get(name, []) if b.value and b.how is not How.AUGMENT]
    values = [b.value for b in bound if draft.facts.index.enclosing_class(b.node) is cls and _is_later(draft, b.node)]
    return cleared or any(value is not None and name not in _attributes(value) for value in values)


def _is_later(draft: Draft, node: ast.AST) -> bool:
    """Whether a node is in another method than the constructor."""
    return getattr(draft.facts.index.function(node), "name", "") != "__init__"


def _attributes(node: ast.AST) -> set[str]:
    """The attributes of its object that a method's expression reads."""
    return {attribute(n) for n in walk(node) if isinstance(n, ast.Attribute)}


def _gives(draft: Draft, method: Function) -> set[str]:
    """The attributes of its object of which a method returns something."""
    nodes = list(own_nodes(*method.body))
    names = {attribute(n) for n in nodes if isinstance(n, ast.Attribute)} - {""}
    returned = [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]
    computed = {name: _computed(draft, nodes, set(), name) for name in names}
    return {name for name in names if any(_of(draft, value, name, computed[name]) for value in returned)}


def _of(draft: Draft, node: ast.AST, name: str, tainted: set[str]) -> bool:
    """Whether an expression is computed from the entries of an attribute, or from variables that are."""
    if isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "len":
        return False
    if isinstance(node, ast.Attribute) and attribute(node) == name:
        return True
    if isinstance(node, ast.Name):
        return node.id in tainted
    return any(_of(draft, child, name, tainted) for child in ast.iter_child_nodes(node))


def _computed(draft: Draft, nodes: list[ast.AST], names: set[str], name: str = "") -> set[str]:
    """Variables, and those that are computed from them, or from an attribute."""
    tainted = set(names)
    for _ in range(_ROUNDS):
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AugAssign)) and _of(draft, node.value, name, tainted):
                tainted |= stores(node)
            elif isinstance(node, (ast.For, ast.comprehension)) and _of(draft, node.iter, name, tainted):
                tainted |= stores(node.target)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PUTS:
                if isinstance(node.func.value, ast.Name) and any(_of(draft, a, name, tainted) for a in node.args):
                    tainted.add(node.func.value.id)
    return tainted


def _reads(node: ast.AST, names: set[str]) -> bool:
    return any(n.id in names for n in loads(node))


def _has_part(draft: Draft, loop: BatchLoop, call: ast.Call) -> bool:
    """Whether a loss of a loop is computed with what a call returns."""
    backwards = [c.func.value for c in draft.facts.loops.backwards_in(loop.node) if isinstance(c.func, ast.Attribute)]
    reads = reads_of(draft, draft.facts.index.statement(call))
    return any(is_within(draft, use, loss) for use in reached(draft, reads) for loss in backwards)
