"""What may be numbers of rows in the calls that make tensors or shape them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set

from accelift_codemod.draft import Draft
from accelift_codemod.facts.index import How
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.tree import walk
from accelift_codemod.rows.copies import is_place, name_of

_MAKES = frozenset(
    "zeros ones full rand randn randint randperm empty eye normal tile range arange linspace one_hot".split()
)
_TYPES = frozenset(f"{kind}Tensor" for kind in ("", "Float", "Double", "Half", "Long", "Int", "Short", "Byte", "Bool"))
_VALUES = frozenset("range arange linspace randint normal".split())  # take bounds and moments, too
_BOUNDS = frozenset("start stop end low high loc scale mean std size".split())
_SHAPES = frozenset("view reshape expand repeat fill_ new_zeros new_ones new_full unflatten resize_".split())


@kept
def takes(draft: Draft, call: ast.Call) -> bool:
    """Whether a call makes or shapes something by numbers of rows."""
    func = call.func
    qualified = draft.facts.resolver.qualified(func) or ""
    if qualified.startswith(("torch.", "numpy.")) and (
        qualified.rpartition(".")[2] in _MAKES | _TYPES or ".random." in qualified
    ):
        return True
    if draft.facts.resolver.builtin(func) == "range":
        return True
    if draft.facts.moves.tensor_type(func) is not None:
        return True  # Tensor(batch_size, 1), an alias of a tensor type
    if isinstance(func, ast.Attribute):
        return func.attr in _SHAPES or bool(draft.facts.objects.models(func.value))
    return False


def shapes(call: ast.Call) -> bool:
    """Whether a call is that of a method that shapes a tensor: `ones.view(batch_size, 1)`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in _SHAPES


def given(draft: Draft, call: ast.Call) -> Iterator[ast.expr]:
    """What may be numbers of rows in a call that takes such."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    shape = draft.facts.resolver.argument(call, 0, "size") if name in ("full", "new_full") else None
    arguments = [shape] if shape is not None else [*call.args, *(k.value for k in call.keywords)]
    if name.rpartition(".")[2] in _TYPES:  # a list is what a tensor holds, not its shape
        arguments = [a for a in arguments if not isinstance(a, (ast.List, ast.Tuple))]
    several = len(call.args) > 1 or any(k.arg in _BOUNDS for k in call.keywords)
    begun = several and not (isinstance(arguments[0], ast.Constant) and arguments[0].value == 0)
    for argument in arguments:
        bound = isinstance(argument, ast.BinOp) and name in _VALUES and begun
        if not bound:  # `range(i * batch_size, (i + 1) * batch_size)` are places in all the data
            for part in (argument, *_alternatives(argument)):
                yield from numbers(draft, part)


def numbers(draft: Draft, node: ast.expr) -> Iterator[ast.expr]:
    """What may be a number of rows in an expression: itself, entries of a shape, a factor: `2 * batch_size`."""
    if is_place(node):
        yield node
    elif isinstance(node, (ast.Tuple, ast.List)):
        for element in node.elts:
            yield from numbers(draft, element)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.FloorDiv)):
        if _is_factor(draft, node.right):
            yield from numbers(draft, node.left)
        if isinstance(node.op, ast.Mult) and _is_factor(draft, node.left):
            yield from numbers(draft, node.right)


def _alternatives(node: ast.expr) -> Iterator[ast.expr]:
    """The numbers of which an argument, or an entry of a shape, is one: `size or batch_size`, `3 if few else size`."""
    for one in node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]:
        if isinstance(one, ast.BoolOp) and isinstance(one.op, ast.Or):
            yield from one.values
        elif isinstance(one, ast.IfExp):
            yield from (one.body, one.orelse)


def _is_factor(draft: Draft, node: ast.expr) -> bool:
    """Whether a number is not one that something counts up, or the length of something: `step * batch_size`."""
    bindings = draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else []
    if isinstance(node, ast.BinOp):
        return _is_factor(draft, node.left) and _is_factor(draft, node.right)
    sized = node.func if isinstance(node, ast.Call) else node.value if isinstance(node, ast.Subscript) else None
    shaped = isinstance(sized, ast.Attribute) and sized.attr in ("size", "shape")
    counted = any(b.how in (How.LOOP, How.AUGMENT) or _is_length(draft, b.value) for b in bindings)
    return isinstance(node, ast.Constant) or shaped or (is_place(node) and not counted)


def repeated(draft: Draft, node: ast.expr) -> Iterator[ast.expr]:
    """How often a list is repeated: `[0] * batch_size`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, ast.List):
                yield from numbers(draft, other)


def _is_length(draft: Draft, node: ast.expr | None) -> bool:
    return isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "len"


def used(
    draft: Draft,
    tree: ast.AST,
    name: str,
    said: Set[ast.AST] = frozenset(),
    run: Iterable[ast.AST] | None = None,
) -> bool:
    """Whether code takes a parameter for a number of rows, perhaps from a variable that it is put in; some are `said`
    to be such numbers. Of a class it may be asked what some of its methods do that are `run`."""
    names = {name}
    for _ in range(3):
        for statement in walk(tree):
            if isinstance(statement, ast.Assign) and any(name_of(n) in names for n in numbers(draft, statement.value)):
                names |= {name_of(target) for target in statement.targets} - {""}
    if any(isinstance(n, ast.Name) and n.id in names and n in said for n in walk(tree)):
        return True
    parts = [tree] if run is None else run
    calls = (n for part in parts for n in walk(part) if isinstance(n, ast.Call) and takes(draft, n))
    return any(name_of(number) in names for call in calls for number in given(draft, call))


def only_rows(
    draft: Draft, function: ast.AST | None, name: str, said: Set[ast.AST] = frozenset(), steps: int = 0
) -> bool:
    """Whether a function takes a parameter, or what it sets to multiples of it, for numbers of rows alone; some reads
    are `said` to be such numbers."""
    uses = draft.names_in(function).get(name, []) if function is not None else []
    reads = [n for n in uses if isinstance(n.ctx, ast.Load)]
    if function is None or not reads or len(uses) - len(reads) != min(steps, 1):
        return False
    nodes = list(walk(function))
    calls = (n for n in nodes if isinstance(n, ast.Call) and takes(draft, n))
    rows = {*said, *(size for c in calls for size in given(draft, c))}
    for copy in (n for n in nodes if isinstance(n, ast.Assign)):  # twice = 2 * size
        target, parts = copy.targets[0], {*numbers(draft, copy.value)} & {*reads}
        if parts and isinstance(target, ast.Name) and len(copy.targets) == 1 and target.id != name:
            rows |= parts if steps < 3 and only_rows(draft, function, target.id, said, steps + 1) else set()
    return all(read in rows for read in reads)


def listed(draft: Draft, call: ast.Call) -> Iterator[ast.expr]:
    """The lengths of a list that a tensor is made of."""
    for argument in call.args[:1]:
        yield from repeated(draft, argument)
        for made in (n for n in walk(argument) if isinstance(n, ast.comprehension)):
            if isinstance(made.iter, ast.Call) and draft.facts.resolver.builtin(made.iter.func) == "range":
                yield from given(draft, made.iter)
