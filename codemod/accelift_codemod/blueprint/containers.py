"""Objects in dicts and lists: which containers hold an object, and how its places there are written."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.blueprint.rebinding import itself
from accelift_codemod.facts import Binding, Facts, How, Role, Scope
from accelift_codemod.facts.contents import inside
from accelift_codemod.facts.parts import PASSES
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Key, Value, Values, key

EACH = "[:]"  # after the name of a list: every entry of it


def holds(values: Values, one: Key) -> bool:
    """Whether one of the values is an object, or may have it inside."""
    return any(key(v) == one for v in inside(values))


def keeps(values: Values, one: Key) -> bool:
    """Whether one of the values is an object, or a list or dict that may have it inside."""
    return holds(tuple(v for v in values if v.role not in PASSES), one)


def places(facts: Facts, scope: Scope, name: str, values: Values, one: Key) -> tuple[str, ...] | None:
    """The expressions that are the object, or the entries of the containers that a variable may be.

    None if they cannot be assigned to one by one.
    """
    found: dict[str, None] = {}
    for value in values:
        if key(value) == one:
            found.setdefault(name)
        elif value.role is Role.SEQUENCE and _each_anew(facts, scope, name, value, one):
            found.setdefault(f"{name}{EACH}")
        elif keeps((value,), one):
            if not _settled(facts, scope, name):
                return None  # what else is in it, or whether the object is, is not known
            written = [value.origin, *one[2], *(b.value for b in scope.bindings[name] if b.value is not None)]
            entries = list(_entries(facts, value, one, written))
            if not entries or None in entries:
                return None
            found.update(dict.fromkeys(f"{name}[{entry}]" for entry in entries))
    return tuple(found)


def _each_anew(facts: Facts, scope: Scope, name: str, value: Value, one: Key) -> bool:
    """Whether a list has nothing but objects that one expression makes, another one for each entry."""
    origin, _, sites = one
    made = sites[0] if sites else origin
    if not value.inner or any(key(v) != one for v in value.inner[0]):
        return False
    index, fills = facts.index, facts.resolver.fills(scope, name)
    bindings = [b for b in scope.bindings[name] if b.how is How.ASSIGN and not _is_again(facts, scope, b)]
    first = bindings[0].value if len(bindings) == 1 else None
    for comprehension in (value.origin, first):
        if isinstance(comprehension, ast.ListComp) and comprehension in index.ancestors(made):
            return not (fills.entries or fills.otherwise)
    if fills.otherwise or not isinstance(first, (ast.List, ast.Call)):
        return False
    begun = bindings[0].node
    for fill in fills.entries:
        loops = [loop for loop in index.enclosing_loops(fill.node) if loop not in index.enclosing_loops(begun)]
        if fill.key is not None or index.function(fill.node) is not index.function(begun):
            return False
        if not all(loop in index.ancestors(made) for loop in loops):
            return False
    return len(fills.entries) == 1


def _is_again(facts: Facts, scope: Scope, binding: Binding) -> bool:
    """Whether a list is made of the entries that it has, each as it is or moved: `nets = [n.cuda() for n in nets]`."""
    made = binding.value if not binding.path else None
    if not isinstance(made, ast.ListComp) or len(made.generators) != 1:
        return False
    [each] = made.generators
    entry = itself(made.elt)
    same = isinstance(entry, ast.Name) and isinstance(each.target, ast.Name) and entry.id == each.target.id
    of_it = isinstance(each.iter, ast.Name) and each.iter.id == binding.name
    return same and of_it and not each.ifs and facts.index.scope(each.iter).owner(binding.name) is scope


def _settled(facts: Facts, scope: Scope, name: str) -> bool:
    """Whether a container only gets entries that it certainly has from then on."""
    resolver = facts.resolver
    fills = resolver.fills(scope, name)
    made = [b for b in scope.bindings[name] if b.how is How.ASSIGN and not b.path]
    return not fills.otherwise and all(any(resolver.contents.certain(b, f) for b in made) for f in fills.entries)


def filling(facts: Facts, scope: Scope, name: str, one: Key) -> list[ast.stmt]:
    """The statements that put an object into the container in a variable."""
    contents = facts.resolver.contents
    fills = facts.resolver.fills(scope, name).entries
    return [facts.index.statement(f.node) for f in fills if holds(contents.value(f), one)]


def replaceable(facts: Facts, scope: Scope, name: str) -> bool:
    """Whether every loader that a variable is, or has inside, can be assigned to by itself."""
    values = tuple(v for b in scope.bindings[name] for v in facts.resolver.bound(b))
    loaders = {key(v) for v in inside(values) if v.role is Role.LOADER}
    return all(places(facts, scope, name, values, one) is not None for one in loaders)


def _entries(facts: Facts, container: Value, one: Key, written: list[ast.AST]) -> Iterator[str | None]:
    """How the entries of a container that are the object are called, as in what is `written` where a container is made;
    None where that is not known.

    A container of loaders has nothing else in it: a loop over one of them must not be one over something else.
    """
    for i, inner in enumerate(container.inner):
        if one[1] == Role.LOADER.value and (not inner or any(v.role is not Role.LOADER for v in inner)):
            yield None
        if not holds(inner, one):
            continue
        if any(key(v) != one for v in inner) or isinstance(container.origin, ast.Tuple):
            yield None  # it may be something else, or is in a container itself; a tuple stays as it is
        elif container.role is Role.DICT:
            yield _spelled(facts, written, container.keys[i])
        else:
            yield str(i) if container.role is Role.TUPLE else None


def _spelled(facts: Facts, written: list[ast.AST], wanted: object) -> str | None:
    """How the expressions that make a dict write one of its keys, or how Python does."""
    if not isinstance(wanted, (str, int)):
        return None
    constants = (n for node in written for n in walk(node) if isinstance(n, ast.Constant))
    return next((facts.segment(n) for n in constants if n.value == wanted), repr(wanted))


def filled(node: ast.expr) -> ast.expr:
    """The container that an entry is put into."""
    return node.func.value if isinstance(node, ast.Call) else node.value  # type: ignore[attr-defined,no-any-return]


def may_be(resolver: Resolver, node: ast.expr, value: Value) -> bool:
    """Whether an expression may be an object, or have it inside."""
    return holds(resolver.values(node.value if isinstance(node, ast.Starred) else node), key(value))
