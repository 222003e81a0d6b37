"""Checkpoints that are compared with the state of a network key by key: `if k in state: state[k] = v`.

The state of a network that is not wrapped any more has no `module.` in its keys: an older checkpoint has.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import Binding
from accelift_codemod.facts.tree import walk

_MOST_STEPS = 4
_KEYED = frozenset({"items", "keys"})


def compared(draft: Draft, is_wrapped: Callable[[ast.expr], bool]) -> Iterator[ast.expr]:
    """The dicts whose keys are looked for in the state of a network that was wrapped, or the other way round."""
    said: set[tuple[ast.AST | None, str]] = set()
    for name, dicts in _keyed(draft):
        own = [one for one in dicts if is_own(draft, one, is_wrapped)]
        if own and not _is_respelled(draft, name):
            filled = {ast.unparse(one) for one in dicts if _is_filled(draft, one)}
            surely = {ast.unparse(one) for one in dicts if _is_dict(draft, one)}
            for other in (one for one in dicts if one not in own):
                spelled = ast.unparse(other)
                once = (_made(draft, other), "") if read(draft, other) is not None else (draft.function(other), spelled)
                if spelled in surely - filled and once not in said:
                    said.add(once)
                    yield other


def is_updated(draft: Draft, node: ast.expr) -> bool:
    """Whether entries of another dict are put into one."""
    calls = draft.facts.index.methods.get("update", [])
    return any(ast.unparse(call.func.value) == ast.unparse(node) for call in calls)  # type: ignore[attr-defined]


def _is_filled(draft: Draft, node: ast.expr) -> bool:
    """Whether an entry is put into a dict here."""
    parent = draft.facts.index.parents.get(node)
    return isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)


def _is_dict(draft: Draft, node: ast.expr) -> bool:
    """Whether a dict is asked for an entry, or for all: what a key is only looked for in may be a list."""
    parent = draft.facts.index.parents.get(node)
    if isinstance(parent, ast.Subscript):
        return parent.value is node
    return isinstance(parent, ast.Attribute) and parent.attr in _KEYED


def is_own(draft: Draft, node: ast.expr, is_wrapped: Callable[[ast.expr], bool]) -> bool:
    """Whether a dict is the state of a network that was wrapped, as it is now."""
    made = _made(draft, node)
    func = made.func if isinstance(made, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "state_dict" and is_wrapped(func.value)


def read(draft: Draft, node: ast.expr) -> ast.expr | None:
    """The expression by which a dict is read from a file, or taken out of what is."""
    place = _made(draft, node)
    inner, steps = place, 0
    while steps < _MOST_STEPS:
        while isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant):
            inner = inner.value
        if isinstance(inner, ast.Call) and draft.facts.resolver.qualified(inner.func) == "torch.load":
            return place
        further = _made(draft, inner)
        if further is inner:
            break
        inner, steps = further, steps + 1
    return None


def _made(draft: Draft, node: ast.expr) -> ast.expr:
    """What a variable is set to, if in one place; else the expression itself."""
    return draft.facts.resolver.set_once(node) or node


def _keyed(draft: Draft) -> Iterator[tuple[ast.Name, list[ast.expr]]]:
    """The variables that are keys, with the dicts that they are keys of, or may be. What another loop binds to the
    same name is another key."""
    found: dict[frozenset[Binding], tuple[ast.Name, list[ast.expr]]] = {}
    alike: list[tuple[ast.Name, ast.Name]] = []

    def note(key: ast.expr, of: ast.expr) -> None:
        if isinstance(key, ast.Name) and isinstance(of, (ast.Name, ast.Attribute, ast.Call)):
            bound = _bound(draft, key)
            if bound:
                found.setdefault(bound, (key, []))[1].append(of)

    for node in walk(draft.facts.tree):
        if isinstance(node, (ast.For, ast.comprehension)):
            for target, dealt in _in_turn(draft, node):
                key = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
                func = dealt.func if isinstance(dealt, ast.Call) else None
                keyed = isinstance(func, ast.Attribute) and func.attr in _KEYED
                note(key, func.value if keyed and isinstance(func, ast.Attribute) else dealt)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            of = node.comparators[0]
            keys = isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute) and of.func.attr == "keys"
            note(node.left, of.func.value if keys else of)  # type: ignore[attr-defined]
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            if isinstance(node.left, ast.Name) and isinstance(node.comparators[0], ast.Name):
                alike.append((node.left, node.comparators[0]))
        elif isinstance(node, ast.Subscript):
            note(node.slice, node.value)
    for left, right in alike:  # `for (k, v), (name, w) in zip(own.items(), saved.items()): if k == name:`
        both = [found[bound] for bound in (_bound(draft, left), _bound(draft, right)) if bound in found]
        if len(both) > 1:
            key, dicts = both[0]
            if draft.facts.runs(key):
                yield key, [*dicts, *both[1][1]]
    yield from (one for one in found.values() if draft.facts.runs(one[0]))


def _bound(draft: Draft, key: ast.Name) -> frozenset[Binding]:
    """What binds a variable where it is read, or itself where it is bound."""
    scope = draft.facts.index.scope(key).owner(key.id)
    here = [b for b in scope.bindings[key.id] if b.node is key] if scope is not None else []
    return frozenset(here if isinstance(key.ctx, ast.Store) else draft.facts.resolver.bindings(key))


def _in_turn(draft: Draft, loop: ast.For | ast.comprehension) -> list[tuple[ast.expr, ast.expr]]:
    """What a loop binds and to what of: several at once, if it goes through a `zip`."""
    call, target = loop.iter, loop.target
    if (
        isinstance(call, ast.Call)
        and draft.facts.resolver.builtin(call.func) == "zip"
        and isinstance(target, ast.Tuple)
    ):
        if len(target.elts) == len(call.args):
            return list(zip(target.elts, call.args, strict=True))
    return [(target, call)]


def _is_respelled(draft: Draft, key: ast.Name) -> bool:
    """Whether a key is made another one: `k[7:]`, `k.replace("module.", "")`."""
    owner = draft.facts.index.scope(key).owner(key.id)
    reads = owner.loads.get(key.id, []) if owner is not None else []
    parents = (draft.facts.index.parents.get(read) for read in reads)
    return any(
        isinstance(parent, (ast.Attribute, ast.BinOp, ast.FormattedValue))
        or (isinstance(parent, ast.Subscript) and parent.value in reads)
        for parent in parents
    )
