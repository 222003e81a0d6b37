"""What may set the samples of a batch against each other, in functions of a loss that cannot be followed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.facts import Facts, Function, Role
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.layout.products import factors, integer, untransposed
from accelift_codemod.facts.tree import is_constant, own_nodes, walk

_MOST = 40  # functions that are looked into
_REPEATS = frozenset({"expand", "expand_as", "repeat", "contiguous"})
_SIZES = frozenset({"shape", "size", "dim", "ndim", "device", "dtype"})


def meeting(facts: Facts, loss: ast.expr) -> ast.expr | None:
    """An operation by which rows of tensors meet all rows of others, if a loss may be computed with it."""
    for function in _led(facts, loss):
        given = _given(function)
        for node in own_nodes(*function.body):
            pair = _paired(facts, node) if isinstance(node, ast.expr) else ()
            if pair and all(_follows(side, given) for side in pair):
                return node  # type: ignore[return-value]
    return None


def _led(facts: Facts, loss: ast.expr) -> Iterator[Function]:
    """The functions by which a loss is computed: those of the script, and the forward of its networks and losses."""
    resolver = facts.resolver
    queue: list[ast.AST] = [loss]
    seen, found = set[ast.AST]({loss}), set[Function]()
    for root in queue:
        for node in walk(root):
            more: Sequence[ast.AST | None] = ()
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and root not in found:
                owner = facts.index.scope(node).owner(node.id)
                bound = resolver.reaching(node, owner) if owner is not None else []
                more = [b.value for b in bound if b.how in (How.ASSIGN, How.AUGMENT)]
            elif isinstance(node, ast.Call):
                more = [f for f in _called(facts, node) if len(found) < _MOST]
            for one in more:
                if one is not None and one not in seen:
                    seen.add(one)
                    queue.append(one)
                    if isinstance(one, FUNCTIONS):
                        found.add(one)
                        yield one


def _called(facts: Facts, call: ast.Call) -> Iterator[Function]:
    resolver = facts.resolver
    target = resolver.callee(call)
    if isinstance(target, FUNCTIONS):
        yield target
    for value in resolver.values(call.func):
        method = resolver.method(value.declaration, "forward") if value.role in (Role.LOSS, Role.MODEL) else None
        if isinstance(method, FUNCTIONS):
            yield method


def _paired(facts: Facts, node: ast.expr) -> Sequence[ast.expr]:
    """The two sides of an operation that sets all rows of one against all rows of the other."""
    if isinstance(node, ast.Call):
        qualified = facts.resolver.qualified(node.func)
        product = factors(node, qualified)
        if product is not None and (qualified or "torch.mm") != "torch.bmm":
            return product if _is_turned(product) else ()
        if qualified == "torch.cdist" and len(node.args) > 1:
            return node.args[:2]
        return node.args[:2] if len(node.args) > 1 and _are_spread(facts, *node.args[:2]) else ()
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        spread = _is_turned(sides) if isinstance(node.op, ast.MatMult) else _are_spread(facts, *sides)
        return sides if spread else ()
    return ()


def _is_turned(sides: Sequence[ast.expr]) -> bool:
    """Whether one of two matrices is transposed: their rows meet."""
    return untransposed(sides[0])[1] != untransposed(sides[1])[1] and untransposed(sides[1])[1]


def _are_spread(facts: Facts, left: ast.expr, right: ast.expr) -> bool:
    """Whether one side has a new dimension 0, and the other a new dimension 1."""
    return {_new_dimension(_spelled(facts, left)), _new_dimension(_spelled(facts, right))} == {0, 1}


def _spelled(facts: Facts, node: ast.expr) -> ast.expr:
    """What a variable is set to just before, without being repeated: `x.unsqueeze(1)` of `x.unsqueeze(1).expand(n)`."""
    owner = facts.index.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
    bound = facts.resolver.reaching(node, owner) if isinstance(node, ast.Name) and owner is not None else []
    if len(bound) == 1 and bound[0].how is How.ASSIGN and not bound[0].path and bound[0].value is not None:
        node = bound[0].value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _REPEATS:
        node = node.func.value
    return node


def _new_dimension(node: ast.expr) -> int | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "unsqueeze":
        return integer(node.args[-1]) if node.args else None
    if isinstance(node, ast.Subscript):
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        new = [i for i, p in enumerate(places) if is_constant(p, None)]
        rest = (p for i, p in enumerate(places) if i not in new)
        return new[0] if len(new) == 1 and all(isinstance(p, ast.Slice) for p in rest) else None
    return None


def _given(function: Function) -> set[str]:
    """The variables of a function that hold something computed from what it is given, and not only its size."""
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    found = set(names) - {"self"}
    sets = [n for n in own_nodes(*function.body) if isinstance(n, (ast.Assign, ast.AugAssign, ast.For))]
    while True:
        before = len(found)
        for statement in sets:
            value = statement.iter if isinstance(statement, ast.For) else statement.value
            if _follows(value, found):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                found |= {name.id for target in targets for name in _bases(target)}
        if len(found) == before:
            return found


def _bases(target: ast.expr) -> Iterator[ast.Name]:
    """The variables that an assignment sets, or an entry of."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _bases(part)
    elif isinstance(target, (ast.Subscript, ast.Starred)):
        yield from _bases(target.value)
    elif isinstance(target, ast.Name):
        yield target


def _follows(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression has something of variables that is no size of theirs."""
    sized = {n for outer in walk(node) if _asks_size(outer) for n in walk(outer)}
    return any(n.id in names and n not in sized for n in loads(node))


def _asks_size(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _SIZES
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
