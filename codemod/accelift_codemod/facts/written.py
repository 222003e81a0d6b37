"""Where a setting is written that is read from a dict (`info["device"]`) or an object (`config.device`)."""

from __future__ import annotations

import ast

from accelift_codemod.facts.index import Binding, How
from accelift_codemod.facts.resolve import Resolver


def entry(resolver: Resolver, node: ast.expr | None) -> ast.expr | None:
    """What the entry of a dict that is written out holds, if nothing puts another in its place: `info["device"]`, or
    `info.get("device", "cpu")`."""
    read = asked(node)
    return spread(resolver, *read) if read is not None else None


def asked(node: ast.AST | None) -> tuple[ast.expr, object] | None:
    """The dict that an expression reads, if it is one, and the key of the entry."""
    match node:
        case ast.Subscript(value=container, slice=ast.Constant(value=key)):
            return container, key
        case ast.Call(func=ast.Attribute(value=container, attr="get"), args=[ast.Constant(value=key), *_], keywords=[]):
            return container, key
    return None


def spread(resolver: Resolver, container: ast.expr, key: object) -> ast.expr | None:
    """The same of a dict, and the key of an entry."""
    values = resolver.values(container)
    made = values[0].origin if len(values) == 1 else None
    pairs = _entries(resolver, made)
    if made is None or pairs is None:
        return None
    statement = resolver.index.parents.get(made)
    targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is made else []
    if any(_refills(resolver, one, key) for one in (container, *targets)):
        return None
    found = [value for k, value in pairs if k == key]
    return found[0] if None not in values[0].keys and len(found) == 1 else None


def _entries(resolver: Resolver, made: ast.AST | None) -> list[tuple[object, ast.expr]] | None:
    """The entries of a dict that is written out, `{"device": "cpu"}` or `dict(device="cpu")`, by keys that are, too."""
    match made:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return [(k.value, value) for k, value in pairs if isinstance(k, ast.Constant)]
        case ast.Call(args=[], keywords=keywords) if resolver.builtin(made.func) == "dict":
            return [(k.arg, k.value) for k in keywords if k.arg is not None]
    return None


def _refills(resolver: Resolver, container: ast.expr, key: object) -> bool:
    """Whether an entry may be set again where the container goes by a name."""
    owner = resolver.index.scope(container).owner(container.id) if isinstance(container, ast.Name) else None
    if owner is None or not isinstance(container, ast.Name):
        return False
    fills = resolver.fills(owner, container.id)
    return fills.otherwise or fills.anywhere or key in fills.keys


def field(resolver: Resolver, node: ast.Attribute) -> Binding | None:
    """The assignment in the body of a class of the script that alone gives its objects an attribute."""
    values = resolver.values(node.value)
    cls, made = (values[0].declaration, values[0].origin) if len(values) == 1 else (None, None)
    if not isinstance(cls, ast.ClassDef) or resolver.index.attribute_bindings.get(node.attr):
        return None
    if not isinstance(made, ast.Call) or made.args or any(k.arg in (None, node.attr) for k in made.keywords):
        return None  # the field of a dataclass may be given to its constructor
    scopes = (resolver.index.scopes[c] for c in resolver.ancestry(cls))
    found = [b for scope in scopes for b in scope.bindings.get(node.attr, [])]
    return found[0] if len(found) == 1 and found[0].how is How.ASSIGN and not found[0].path else None


def of_class(resolver: Resolver, node: ast.Attribute) -> list[ast.expr]:
    """What the body of a class of the script sets an attribute to, that is read of the class, or of an object that is
    not told another; nothing if any such attribute is set from elsewhere."""
    found: list[ast.expr] = []
    for value in () if resolver.index.attribute_bindings.get(node.attr) else resolver.values(node.value):
        cls, made = value.declaration, value.origin
        told = isinstance(made, ast.Call) and (made.args or any(k.arg in (None, node.attr) for k in made.keywords))
        if not isinstance(cls, ast.ClassDef) or told:
            continue
        scopes = (resolver.index.scopes[c] for c in resolver.ancestry(cls))
        bound = next((s.bindings[node.attr] for s in scopes if node.attr in s.bindings), [])
        found += (b.value for b in bound if b.how is How.ASSIGN and not b.path and b.value is not None)
    return found


def reads(resolver: Resolver, cls: ast.AST, name: str) -> list[ast.Attribute]:
    """The reads of an attribute that the body of a class sets, of the class or its objects; none if some of them may
    have another value: by an argument of theirs, or set."""
    attributes = resolver.index.attributes.get(name, [])
    owners = {n: resolver.values(n.value) for n in attributes if isinstance(n.ctx, ast.Load)}
    found = [n for n, values in owners.items() if any(v.declaration is cls for v in values)]
    made = {v.origin for n in found for v in owners[n] if v.declaration is cls}
    told = any(
        call.args or any(k.arg in (None, name) for k in call.keywords) for call in made if isinstance(call, ast.Call)
    )
    stored = any(isinstance(n.ctx, ast.Store) for n in attributes)
    return [] if stored or (told and resolver.method(cls, "__init__") is None) else found
