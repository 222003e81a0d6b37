"""Which statements may change the settings that tell when the script means the CPU."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts.conditions import Condition
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk

if TYPE_CHECKING:
    from accelift_codemod.reach.home import Home

_DEPTH = 3  # of functions that hand on what they are given
_ONLY_ASK = frozenset("print str repr format vars len type isinstance hasattr getattr id dict sorted list".split())


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
    match container:
        case ast.Attribute(value=inner, attr="__dict__"):
            container = inner
        case ast.Call(args=[inner]) if home.resolver.builtin(container.func) == "vars":
            container = inner
    asked = [n for leaf in home.cpu.leaves() if leaf.node is not None for n in walk(leaf.node)]
    asked = [n for n in asked if isinstance(n, (ast.Name, ast.Attribute))]
    made = {v.origin for v in home.resolver.values(container)}
    same = any(v.origin in made for n in asked if isinstance(n, ast.expr) for v in home.resolver.values(n))
    return same or ast.unparse(container) in {ast.unparse(n) for n in asked}


def attributes(condition: Condition) -> set[str]:
    """The attributes that a condition asks, as it is written."""
    texts = (ast.parse(f"({leaf.text})", mode="eval") for leaf in condition.leaves())
    return {n.attr for text in texts for n in walk(text) if isinstance(n, ast.Attribute)}


def _changes(home: Home, leaf: Condition, statement: ast.stmt) -> bool:
    asked = ast.parse(f"({leaf.text})", mode="eval").body
    assert isinstance(asked, ast.Compare) and isinstance(asked.left, ast.Attribute)
    holders = {ast.dump(n) for n in walk(asked.left.value) if isinstance(n, (ast.Name, ast.Attribute))}
    if any(_hands_on(home, call, holders) for call in walk(statement) if isinstance(call, ast.Call)):
        return True
    called = (n for function in home.timeline.calls_into(statement) for n in walk(function))
    return any(_sets(n, asked.left.attr) for n in (*called, *walk(statement)))


def _hands_on(home: Home, call: ast.Call, holders: set[str], depth: int = _DEPTH) -> bool:
    """Whether a call may have what one of some variables holds changed: not if it only shows it or asks it, as its
    function does, too. What that sets itself is seen elsewhere."""
    given = [part for part in _touched(call) if ast.dump(part) in holders]
    if not given or home.resolver.builtin(call.func) in _ONLY_ASK:
        return False
    function = home.resolver.callee(call)
    bound = home.resolver.bind(call, function) if isinstance(function, FUNCTIONS) and depth else None
    if not isinstance(function, FUNCTIONS) or bound is None:
        return True
    names = {name for name, argument in bound.items() if argument in given}
    reads = [n for n in walk(function) if isinstance(n, ast.Name) and n.id in names]
    if len(names) != len(given) or any(isinstance(n.ctx, ast.Store) for n in reads):
        return True
    inner = {ast.dump(ast.Name(name, ast.Load())) for name in names}
    asked = all(isinstance(home.index.parents[n], (ast.Attribute, ast.Call, ast.FormattedValue)) for n in reads)
    calls = (n for n in walk(function) if isinstance(n, ast.Call))
    return not asked or any(_hands_on(home, inside, inner, depth - 1) for inside in calls)


def _touched(call: ast.Call) -> list[ast.expr]:
    """What a call may change: the object of a method, and what it is handed."""
    given = [a.value if isinstance(a, ast.Starred) else a for a in (*call.args, *(k.value for k in call.keywords))]
    return [*given, call.func.value] if isinstance(call.func, ast.Attribute) else given


def _sets(node: ast.AST, name: str) -> bool:
    """Whether a node sets an attribute of that name, of whatever object but that of the method."""
    if not isinstance(node, ast.Attribute) or node.attr != name or isinstance(node.ctx, ast.Load):
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id == "self")
