"""Numbers that are taken of tensors: `loss.item()`, `float(loss)`, also where a variable holds them or a function
returns them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.batches.compared import is_loss
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, How, Kind, Role, position, torch_ops
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import walk

_STEPS = 4  # through names, and functions of the script
_DIVERGENCE = "torch.nn.functional.kl_div"
_SAME = frozenset("detach clone cpu cuda to float double long int".split())  # methods that leave as many entries
_COMPARES = frozenset("eq ne gt ge lt le equal".split())


def number_of(draft: Draft, node: ast.AST) -> ast.expr | None:
    """The tensor of which an expression is the number: `x.item()`, `float(x)`, a variable that holds one of these."""
    if isinstance(node, ast.Name):
        return _held(draft, node)
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        return node.func.value
    if draft.facts.resolver.builtin(node.func) in ("float", "int") and len(node.args) == 1 and not node.keywords:
        return node.args[0] if draft.facts.kinds.of(node.args[0]) is Kind.TENSOR else None
    return None


def _held(draft: Draft, name: ast.Name) -> ast.expr | None:
    """The tensor whose number a variable holds, if what is read of that in the same iteration is still the same."""
    bindings = draft.facts.resolver.bindings(name) if isinstance(name.ctx, ast.Load) else []
    made = bindings[0].value if len(bindings) == 1 else None
    if not isinstance(made, ast.Call) or bindings[0].how is not How.ASSIGN or bindings[0].path:
        return None
    tensor = number_of(draft, made)
    index = draft.facts.index
    if tensor is None or not index.enclosing_loops(name) or index.enclosing_loops(made) != index.enclosing_loops(name):
        return None
    body = index.enclosing_loops(name)[0].body  # type: ignore[attr-defined]
    between = [
        n for s in body for n in walk(s) if isinstance(n, ast.stmt) and position(made) < position(n) < position(name)
    ]
    changed = {n for s in between for n in stores(s)}
    return tensor if not changed & {n.id for n in loads(tensor)} else None


def is_one(draft: Draft, tensor: ast.expr) -> bool:
    """Whether a tensor surely is one number: its number is taken, or it is a loss, or a sum over all of something."""
    index, resolver = draft.facts.index, draft.facts.resolver
    taken = index.parents.get(tensor)
    if isinstance(taken, ast.Attribute) and taken.attr == "item":
        return True
    if isinstance(taken, ast.Call) and resolver.builtin(taken.func) in ("float", "int"):
        return True
    made = resolver.set_once(tensor) if isinstance(tensor, ast.Name) else tensor
    if isinstance(made, ast.BinOp):
        return all(isinstance(side, ast.Constant) or is_one(draft, side) for side in (made.left, made.right))
    if not isinstance(made, ast.Call):
        return isinstance(made, ast.Attribute) and made.attr == "data" and is_one(draft, made.value)
    if isinstance(made.func, ast.Attribute) and made.func.attr in _SAME:
        return is_one(draft, made.func.value)
    own = any(isinstance(value.declaration, ast.ClassDef) for value in resolver.values(made.func))
    if resolver.only(made.func, Role.LOSS) and not own:
        return True
    if (resolver.qualified(made.func) or "").startswith("torch.nn.functional."):
        return True
    return _summed(draft, made) is not None


def is_number(draft: Draft, node: ast.expr, steps: int = _STEPS) -> bool:
    """Whether an expression surely is one number of Python's, also as a function returns it: no tensor, no array."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        return True
    if isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "float":
        return True
    if isinstance(node, ast.BinOp):
        return all(is_number(draft, side, steps) for side in (node.left, node.right))
    if is_integer(draft, node, steps):
        return True
    made = _made_of(draft, node) if steps else []
    return bool(made) and all(is_number(draft, one, steps - 1) for one in made)


def is_integer(draft: Draft, node: ast.expr, steps: int = _STEPS) -> bool:
    """Whether an expression surely is one whole number: a length, a size, or how often something is true."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return all(is_integer(draft, side, steps) for side in (node.left, node.right))
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and _is_place(node.slice)
    if isinstance(node, ast.Call):
        if draft.facts.resolver.builtin(node.func) in ("len", "int"):
            return True
        if isinstance(node.func, ast.Attribute) and node.func.attr == "size":
            return len(node.args) == 1 and _is_place(node.args[0])
        tensor = number_of(draft, node)
        if tensor is not None:
            return _counts_what_is_true(draft, tensor)
    made = _made_of(draft, node) if steps else []
    return bool(made) and all(is_integer(draft, one, steps - 1) for one in made)


def is_float(draft: Draft, loop: BatchLoop, node: ast.expr, steps: int = _STEPS) -> bool:
    """Whether a number that a loop measures surely is none of the whole ones: a mean, or computed with one."""
    env = draft.environment(loop, node)
    if env is not None and draft.facts.layouts.read(node, env) is Layout.MEAN:
        return True
    if isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "float":
        return True
    if isinstance(node, ast.BinOp):
        sides = (is_float(draft, loop, side, steps) for side in (node.left, node.right))
        return isinstance(node.op, ast.Div) or any(sides)
    tensor = number_of(draft, node)
    if tensor is not None and _is_a_loss(draft, tensor):
        return True
    made = _made_of(draft, node) if steps else []
    return bool(made) and all(is_float(draft, loop, one, steps - 1) for one in made)


def _is_a_loss(draft: Draft, tensor: ast.expr, steps: int = _STEPS) -> bool:
    """Whether a tensor surely is a loss of torch, or computed with one."""
    if isinstance(tensor, ast.BinOp):
        return any(_is_a_loss(draft, side, steps) for side in (tensor.left, tensor.right))
    if isinstance(tensor, ast.Call):
        if is_loss(draft.facts, tensor.func) or draft.facts.resolver.qualified(tensor.func) == _DIVERGENCE:
            return True
    made = _made_of(draft, tensor) if steps else []
    return bool(made) and all(_is_a_loss(draft, one, steps - 1) for one in made)


def _is_place(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _counts_what_is_true(draft: Draft, tensor: ast.expr) -> bool:
    """Whether a tensor is a sum over a comparison: `(pred == y).sum()`, `torch.sum(pred == y)`, `pred.eq(y).sum()`."""
    over = _summed(draft, tensor)
    compared = isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr in _COMPARES
    return compared or isinstance(over, ast.Compare)


def _summed(draft: Draft, node: ast.expr) -> ast.expr | None:
    """What all of is summed: the `x` of `x.sum()` and `torch.sum(x)`."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if draft.facts.resolver.qualified(node.func) == "torch.sum":
        return node.args[0] if len(node.args) == 1 else None
    method = isinstance(node.func, ast.Attribute) and node.func.attr == "sum" and not node.args
    return node.func.value if method and isinstance(node.func, ast.Attribute) else None


def _made_of(draft: Draft, node: ast.expr) -> list[ast.expr]:
    """What a variable is set to, or a function of the script returns; nothing if some of it is not known."""
    if isinstance(node, ast.Name):
        bindings = draft.facts.resolver.bindings(node)
        made = bindings[0] if len(bindings) == 1 and bindings[0].how is How.ASSIGN else None
        return _parts(draft, made.value, made.path) if made is not None and made.value is not None else []
    return _parts(draft, node, ()) if isinstance(node, ast.Call) else []


def _parts(draft: Draft, value: ast.expr, path: tuple[int | None, ...]) -> list[ast.expr]:
    """What stands at a place of an expression, or of each that a function returns."""
    function = draft.facts.resolver.callee(value) if isinstance(value, ast.Call) else None
    if isinstance(function, FUNCTIONS) and not draft.facts.resolver.yields(function):
        returned = [end.value for end in draft.facts.resolver.returns(function)]
        parts = [_parts(draft, one, path) if one is not None else [] for one in returned]
        return [part for found in parts for part in found] if all(parts) else []
    if not path:
        return [value]
    if isinstance(value, (ast.Tuple, ast.List)) and path[0] is not None and path[0] < len(value.elts):
        return _parts(draft, value.elts[path[0]], path[1:])
    return []


def contents(draft: Draft, node: ast.AST) -> Iterator[ast.Name]:
    """The variables that an expression reads, other than those of which it asks how large something of them is."""
    if isinstance(node, ast.Name):
        yield node
    elif isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "len":
        return
    elif not (isinstance(node, ast.Attribute) and node.attr in torch_ops.ABOUT):
        for child in ast.iter_child_nodes(node):
            yield from contents(draft, child)


def is_of_rows(draft: Draft, read: ast.Name) -> bool:
    """Whether a read is of rows, or of how many there are: not of what batches have alike, `x.dtype`, `x.shape[1:]`."""
    parents = draft.facts.index.parents
    part = parents[read]
    if not isinstance(part, ast.Attribute) or part.attr not in torch_ops.ABOUT:
        return True
    outer = parents[part]
    asked: ast.expr | None = None
    if isinstance(outer, ast.Subscript) and outer.value is part:
        asked = outer.slice.lower if isinstance(outer.slice, ast.Slice) else outer.slice
    elif isinstance(outer, ast.Call) and outer.func is part and outer.args:
        asked = outer.args[0]
    return part.attr not in ("dtype", "device", "dim", "ndim") and integer(asked) in (0, None)
