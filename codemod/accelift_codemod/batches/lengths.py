"""Where code asks for the greatest, or the least, length of the samples of a batch, or has a library pad them to it."""

from __future__ import annotations

import ast

from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk

_PADS = frozenset(
    {
        "torch.nn.utils.rnn.pad_sequence",
        "torch.nn.utils.rnn.pack_sequence",
        "torch.nn.functional.pad",
        "torch.nested.to_padded_tensor",
        "numpy.pad",
    }
)
COLLATORS = frozenset(
    f"transformers.DataCollator{name}" for name in ("WithPadding", "ForSeq2Seq", "ForTokenClassification")
)
_EXTREMES = frozenset({"torch.max", "torch.amax", "torch.min", "torch.amin", "numpy.max", "numpy.amax", "numpy.min"})
_METHODS = frozenset({"max", "amax", "min", "amin"})
_SAME = frozenset(
    {"torch.tensor", "torch.as_tensor", "torch.LongTensor", "torch.IntTensor", "numpy.array", "numpy.asarray"}
)
_ORDERED = frozenset({"sorted", "list", "tuple"})
_STEPS = 3  # of variables


def pads(resolver: Resolver, node: ast.AST) -> bool:
    """Whether an expression pads samples to the longest one, or is the greatest or least of their lengths."""
    if isinstance(node, ast.Call):
        if resolver.library_function(node.func) in _PADS or is_told_to_pad(node):
            return True
        return _is_extreme(resolver, node) or _of_first(resolver, node)
    if isinstance(node, ast.Subscript):
        return _of_first(resolver, node)
    return isinstance(node, ast.Attribute) and node.attr == "shape" and _of_first(resolver, node)


def is_least(node: ast.AST) -> bool:
    """Whether a call asks for the least of something."""
    func = node.func if isinstance(node, ast.Call) else None
    return (func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")) in ("min", "amin")


def keeps_longest(resolver: Resolver, node: ast.AST) -> bool:
    """Whether a loop keeps the greatest length so far: `if len(s) > longest: longest = len(s)`."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare) or len(node.test.comparators) != 1:
        return False
    sides = [node.test.left, node.test.comparators[0]]
    names = {side.id for side in sides if isinstance(side, ast.Name)}
    set_here = [s for s in node.body if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)]
    kept = [s for s in set_here if s.targets[0].id in names]  # type: ignore[attr-defined]
    return any(_is_size(resolver, side) for side in sides) and any(
        _is_size(resolver, s.value) or ast.dump(s.value) in map(ast.dump, sides) for s in kept
    )


def is_told_to_pad(call: ast.Call) -> bool:
    """Whether a tokenizer is told to pad to the longest, or a nested tensor is made an ordinary one."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to_padded_tensor":
        return True
    given = [k.value for k in call.keywords if k.arg == "padding"]
    return any(isinstance(v, ast.Constant) and (v.value is True or v.value == "longest") for v in given)


def _is_extreme(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call gives the greatest or the least of some lengths, or the sample that has it."""
    func = call.func
    if resolver.builtin(func) in ("max", "min"):
        if len(call.args) == 1:
            by = [k.value for k in call.keywords if k.arg == "key"]
            return _are_sizes(resolver, call.args[0], _STEPS) or any(_by_size(resolver, key) for key in by)
        # `longest = max(longest, len(s))`
        statement = resolver.index.parents.get(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        carried = [
            a for a in call.args if isinstance(a, ast.Name) and isinstance(target, ast.Name) and a.id == target.id
        ]
        return bool(carried) and any(_is_size(resolver, a) for a in call.args)
    if resolver.qualified(func) in _EXTREMES:
        return len(call.args) == 1 and _are_sizes(resolver, call.args[0], _STEPS)
    if isinstance(func, ast.Attribute) and func.attr in _METHODS and not call.args:
        return _are_sizes(resolver, func.value, _STEPS)
    return False


def _of_first(resolver: Resolver, node: ast.expr) -> bool:
    """Whether an expression is the length of the first or last of samples that are in the order of their lengths."""
    if isinstance(node, ast.Subscript):  # `lengths[-1]`
        return isinstance(node.value, ast.Name) and _is_end(node) and _in_order(resolver, node.value, of_sizes=True)
    part = node.value if isinstance(node, ast.Attribute) else None
    if isinstance(node, ast.Call):
        func = node.func
        if resolver.builtin(func) == "len" and len(node.args) == 1:
            part = node.args[0]
        elif isinstance(func, ast.Attribute) and func.attr == "size":
            part = func.value
    while isinstance(part, ast.Subscript):
        if isinstance(part.value, ast.Name):
            return _is_end(part) and _in_order(resolver, part.value, of_sizes=False)
        part = part.value
    return False


def is_greatest_of_sorted(resolver: Resolver, node: ast.AST) -> bool:
    """Whether an expression is the greatest of numbers that have been put in order: `lengths.sort(descending=True)`
    and then `lengths[0]`."""
    if not isinstance(node, ast.Subscript) or not _is_end(node) or not isinstance(node.value, ast.Name):
        return False
    bindings = resolver.bindings(node.value)
    first = isinstance(node.slice, ast.Constant)
    return bool(bindings) and all(_descends(resolver, b.value, b.path) is first for b in bindings)


def _descends(resolver: Resolver, node: ast.expr | None, path: tuple[int | None, ...]) -> bool | None:
    """Whether a tensor is in order, the greatest first, or the least; None if it is in none."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) and not path:  # `lengths[order]`
        orders = {_orders(resolver, b.value, b.path, node.value) for b in resolver.bindings(node.slice)}
        return orders.pop() if len(orders) == 1 else None
    return _is_sorted(resolver, node, None) if path == (0,) else None


def _orders(resolver: Resolver, node: ast.expr | None, path: tuple[int | None, ...], of: ast.expr) -> bool | None:
    """The same of what puts a tensor in order: `order = lengths.argsort()`, `_, order = lengths.sort()`."""
    if not path:
        return _is_sorted(resolver, node, of, "argsort")
    return _is_sorted(resolver, node, of) if path == (1,) else None


def _is_sorted(resolver: Resolver, node: ast.expr | None, of: ast.expr | None, how: str = "sort") -> bool | None:
    """Whether a call sorts a tensor (`of`, if that is said) along its first dimension in descending order."""
    func = node.func if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute) or func.attr != how:
        return None
    function = resolver.qualified(func) == f"torch.{how}"
    tensor = resolver.argument(node, 0, "input") if function else func.value
    along, descending = (resolver.argument(node, k + function, n) for k, n in enumerate(("dim", "descending")))
    if of is not None and (tensor is None or ast.dump(tensor) != ast.dump(of)):
        return None
    told = [along, descending]
    if any(one is not None and not isinstance(one, ast.Constant) for one in told):
        return None
    if along is not None and along.value != 0:  # type: ignore[attr-defined]
        return None
    return descending is not None and bool(descending.value)  # type: ignore[attr-defined]


def _is_end(node: ast.Subscript) -> bool:
    place = node.slice
    if isinstance(place, ast.UnaryOp) and isinstance(place.op, ast.USub):
        place = place.operand
    return isinstance(place, ast.Constant) and place.value in (0, 1) and (place.value == 0) is (place is node.slice)


def _in_order(resolver: Resolver, name: ast.Name, *, of_sizes: bool) -> bool:
    """Whether what a variable holds has been sorted by lengths, or (`of_sizes`) are lengths that have been sorted."""
    made = [b.value for b in resolver.bindings(name)]
    calls = [v for v in made if isinstance(v, ast.Call) and resolver.builtin(v.func) == "sorted"]
    function = resolver.index.function(name)
    for call in (n for n in walk(function) if isinstance(n, ast.Call)) if function is not None else ():
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "sort" and isinstance(func.value, ast.Name):
            calls += [call] if func.value.id == name.id else []
    if of_sizes:
        return bool(calls) and _are_sizes(resolver, name, _STEPS)
    return any(_by_size(resolver, k.value) for call in calls for k in call.keywords if k.arg == "key")


def _by_size(resolver: Resolver, key: ast.expr) -> bool:
    """Whether a function gives the length of its argument: `len`, `lambda s: len(s[0])`."""
    if isinstance(key, ast.Lambda):
        body = key.body.operand if isinstance(key.body, ast.UnaryOp) else key.body
        return _is_size(resolver, body)
    return resolver.builtin(key) == "len"


def _are_sizes(resolver: Resolver, node: ast.expr | None, steps: int) -> bool:
    """Whether an expression is several lengths: a list, an array or a tensor of them."""
    if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        return _is_size(resolver, node.elt)
    if isinstance(node, ast.Call) and node.args:
        name = resolver.builtin(node.func) or resolver.qualified(node.func)
        if name == "map":
            return _by_size(resolver, node.args[0])
        return name in _SAME | _ORDERED and _are_sizes(resolver, node.args[0], steps)
    if not isinstance(node, ast.Name) or not steps:
        return False
    bindings = resolver.bindings(node)
    put = (f.value for b in bindings for f in resolver.fills(b.scope, b.name).entries if f.key is None)
    if any(_is_size(resolver, value) for value in put):
        return True
    return any(_are_sizes(resolver, b.value, steps - 1) for b in bindings if not b.path)


def _is_size(resolver: Resolver, node: ast.expr) -> bool:
    """Whether an expression says how long something is: `len(s)`, `s.shape[0]`, `s.size(0)`."""
    if isinstance(node, ast.Call):
        return resolver.builtin(node.func) == "len" or (
            isinstance(node.func, ast.Attribute) and node.func.attr == "size"
        )
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    return False
