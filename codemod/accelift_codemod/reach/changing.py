"""Which statements may change the settings that tell when the script means the CPU."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.conditions import Condition
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.reach.home import Home

_DEPTH = 3  # of functions that hand on what they are given
_ONLY_ASK = frozenset("print str repr format len type isinstance hasattr getattr id dict sorted list".split())
_VIEWS = frozenset("items keys values copy".split())  # of a dict
_DUMPS = frozenset("json.dump json.dumps pickle.dump yaml.dump yaml.safe_dump torch.save pprint.pprint".split())


def may_change(home: Home, statement: ast.stmt) -> bool:
    """Whether a statement may change settings that the accelerator is made of: it runs a method of theirs or hands them
    on, or what it calls sets such an attribute of some object."""
    return any(_changes(home, leaf, statement) for leaf in home.cpu.leaves() if leaf.setting)


def setters(home: Home, condition: Condition | None = None) -> list[ast.AST]:
    """Where the script may set what tells when it means the CPU, however its object is called: `args.cpu = True`,
    `setattr(args, "cpu", True)`, `vars(args)["cpu"] = True`, `args.__dict__.update(settings)`."""
    names = asked(home.cpu if condition is None else condition)
    if not names:
        return []
    index, builtin = home.index, home.resolver.builtin
    found: list[ast.AST] = [n for name in names for n in index.attributes.get(str(name), ()) if _sets(n, str(name))]
    for statement in index.items:
        entries = (t for t in statement.targets if isinstance(t, ast.Subscript))
        found += (t for t in entries if _names(home, t.slice, t.value, names))
    setting = (c for c in index.calls if builtin(c.func) == "setattr" and len(c.args) == 3)
    found += (c for c in setting if _names(home, c.args[1], c.args[0], names))
    return found + [c for c in index.methods.get("update", ()) if _updates(home, c, names)]


def asked(condition: Condition) -> set[object]:
    """The attributes and keys that a condition asks: `args.cpu`, `config["gpus"]`, `config.get("gpus")`."""
    nodes = [n for leaf in condition.leaves() for n in walk(ast.parse(f"({leaf.text})", mode="eval"))]
    called = [n.func for n in nodes if isinstance(n, ast.Call)]
    inner = {n.value for n in nodes if isinstance(n, (ast.Attribute, ast.Subscript)) and n not in called}
    found: set[object] = set()
    for node in nodes:
        match node:
            case ast.Attribute(attr=name) if node not in inner and node not in called:
                found.add(name)
            case ast.Subscript(slice=ast.Constant(value=key)) if node not in inner:
                found.add(key)
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=key), *_]):
                found.add(key)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=key), *_]):
                found.add(key)
    return found


def _names(home: Home, key: ast.expr | None, container: ast.expr, names: set[object]) -> bool:
    """Whether a key is one of some, or may be, of the settings that are asked."""
    if isinstance(key, ast.Constant):
        return key.value in names
    return _is_asked(home, container)


def _updates(home: Home, call: ast.Call, names: set[object]) -> bool:
    """Whether a call puts entries into a dict, one of which may be asked."""
    assert isinstance(call.func, ast.Attribute)
    container = call.func.value
    for given in call.args:
        keys = given.keys if isinstance(given, ast.Dict) else [given]
        if any(_names(home, key, container, names) for key in keys):
            return True
    return any(k.arg in names if k.arg else _is_asked(home, container) for k in call.keywords)


def _is_asked(home: Home, container: ast.expr) -> bool:
    """Whether an object, or the one whose attributes a dict holds, is one of those that are asked."""
    asked = [n for leaf in home.cpu.leaves() if leaf.node is not None for n in walk(leaf.node)]
    asked = [n for n in asked if isinstance(n, (ast.Name, ast.Attribute))]
    holders = _holders(home, container)
    made = {v.origin for holder in holders for v in home.resolver.values(holder)}
    same = any(v.origin in made for n in asked if isinstance(n, ast.expr) for v in home.resolver.values(n))
    return same or not {ast.unparse(n) for n in asked}.isdisjoint(map(ast.unparse, holders))


def _holders(home: Home, container: ast.expr, steps: int = _DEPTH) -> list[ast.expr]:
    """The objects whose attributes a dict holds, also by another name of it: `d = vars(args)`; or else itself."""
    match container:
        case ast.Attribute(value=inner, attr="__dict__"):
            return [inner]
        case ast.Call(args=[inner]) if home.resolver.builtin(container.func) == "vars":
            return [inner]
        case ast.Name() if steps:
            bound = home.resolver.bindings(container)
            given = [e for b in bound for e in (home.resolver.handed(b) if b.how is How.PARAMETER else [b.value])]
            return [container, *(inner for e in given if e is not None for inner in _holders(home, e, steps - 1))]
    return [container]


def _changes(home: Home, leaf: Condition, statement: ast.stmt) -> bool:
    asked = ast.parse(f"({leaf.text})", mode="eval").body
    assert isinstance(asked, ast.Compare) and isinstance(asked.left, ast.Attribute)
    holders = {ast.dump(n) for n in walk(asked.left.value) if isinstance(n, (ast.Name, ast.Attribute))}
    touched = (part for call in walk(statement) if isinstance(call, ast.Call) for part in _touched(call))
    if any(ast.dump(part) in holders and not _is_only_asked(home, part) for part in touched):
        return True
    called = (n for function in home.timeline.calls_into(statement) for n in walk(function))
    return any(_sets(n, asked.left.attr) for n in (*called, *walk(statement)))


def _is_only_asked(home: Home, read: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether settings, or the dict of their attributes, are only shown or asked where something reads them; also in
    the function that they are handed to. What that sets itself is seen elsewhere."""
    parent = home.index.parents[read]
    call = home.index.parents[parent] if isinstance(parent, ast.keyword) else parent
    match parent:
        case ast.FormattedValue() | ast.keyword(arg=None) | ast.Subscript(ctx=ast.Load()):
            return True
        case ast.Attribute(attr="__dict__"):
            return _is_only_asked(home, parent, depth)
        case ast.Attribute():
            called = home.index.parents[parent]
            return not (isinstance(called, ast.Call) and called.func is parent) or parent.attr in _VIEWS
    if not isinstance(call, ast.Call):
        return False
    builtin = home.resolver.builtin(call.func)
    if builtin == "vars":
        return _is_only_asked(home, call, depth)
    if builtin in _ONLY_ASK or home.resolver.qualified(call.func) in _DUMPS:
        return True
    function = home.resolver.callee(call)
    bound = home.resolver.bind(call, function) if isinstance(function, FUNCTIONS) and depth else None
    if not isinstance(function, FUNCTIONS) or bound is None:
        return False
    names = {name for name, argument in bound.items() if argument is read}
    reads = [n for n in walk(function) if isinstance(n, ast.Name) and n.id in names]
    return bool(names) and all(isinstance(n.ctx, ast.Load) and _is_only_asked(home, n, depth - 1) for n in reads)


def _touched(call: ast.Call) -> list[ast.expr]:
    """What a call may change: the object of a method, and what it is handed."""
    given = [a.value if isinstance(a, ast.Starred) else a for a in (*call.args, *(k.value for k in call.keywords))]
    return [*given, call.func.value] if isinstance(call.func, ast.Attribute) else given


def _sets(node: ast.AST, name: str) -> bool:
    """Whether a node sets an attribute of that name, of whatever object but that of the method."""
    if not isinstance(node, ast.Attribute) or node.attr != name or isinstance(node.ctx, ast.Load):
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id == "self")
