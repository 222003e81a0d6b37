"""Whether labels are marked that cross entropies leave out: by -100, which torch ignores without being told to."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.signatures import default
from accelift_codemod.facts.tree import targets, walk

_IGNORED = 100  # below zero
_PUTS = frozenset("where masked_fill masked_fill_ fill_ full full_like append pad pad_sequence".split())
_MAKES = frozenset("tensor as_tensor type_as to item long".split())
# What pads labels, or hides those that are not to be told, with that number.
_COLLATORS = frozenset(
    f"DataCollatorFor{name}"
    for name in "TokenClassification Seq2Seq LanguageModeling WholeWordMask PermutationLanguageModeling SOP".split()
)


def marks(resolver: Resolver) -> bool:
    """Whether a program puts the number that is ignored into labels, or into a variable, from which it gets there."""
    return _marks(resolver, resolver.index.tree)


@kept
def _marks(resolver: Resolver, tree: ast.Module) -> bool:
    nodes = (n for n in walk(tree) if isinstance(n, (ast.Call, ast.Attribute, ast.UnaryOp)))
    return any(_collates(resolver, n) if isinstance(n, ast.Call) else _gets_in(resolver, n) for n in nodes)


def _gets_in(resolver: Resolver, node: ast.expr) -> bool:
    """Whether an expression is put into something, or is what a parameter is that is."""
    return _is_put(resolver, node) or any(_is_put(resolver, read) for read in _handed(resolver, node))


def _handed(resolver: Resolver, node: ast.expr) -> Iterator[ast.Name]:
    """The reads of a parameter that is the number by default, or as some call gives it."""
    outer = resolver.index.parents.get(node)
    if not _is_number(node):
        return
    if isinstance(outer, ast.arguments):
        function: ast.AST | None = resolver.index.parents[outer]
        call = None
    else:
        call = resolver.index.parents.get(outer) if isinstance(outer, ast.keyword) else outer
        function = resolver.callee(call) if isinstance(call, ast.Call) else None
    if not isinstance(function, FUNCTIONS):
        return
    bound = resolver.bind(call, function) or {} if isinstance(call, ast.Call) else {}
    for parameter in _parameters(function.args):
        if node is (bound.get(parameter.arg) if bound else default(function, parameter)):
            reads = (n for n in walk(function) if isinstance(n, ast.Name) and n.id == parameter.arg)
            yield from (n for n in reads if isinstance(n.ctx, ast.Load))


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _collates(resolver: Resolver, call: ast.Call) -> bool:
    package, _, name = (resolver.qualified(call.func) or "").partition(".")
    return package == "transformers" and name.rpartition(".")[2] in _COLLATORS


def _is_put(resolver: Resolver, node: ast.expr) -> bool:
    """Whether an expression is the number, or a loss is asked for it, and it gets into something."""
    asked = isinstance(node, ast.Attribute) and node.attr == "ignore_index" and isinstance(node.ctx, ast.Load)
    given = isinstance(node, ast.Name)  # which is the number
    if not asked and not given and not _is_number(node):
        return False
    inner: ast.AST = node
    for outer in resolver.index.ancestors(node):
        if isinstance(outer, ast.Call) and inner is not outer.func and not _makes(outer):
            return _named(outer.func) in _PUTS
        if isinstance(outer, ast.List):
            return outer.elts == [inner]  # `[-100] * n`
        if isinstance(outer, (ast.ListComp, ast.GeneratorExp)):
            return inner is outer.elt
        if isinstance(outer, (ast.Assign, ast.AnnAssign)):
            return not asked and (not given or any(isinstance(target, ast.Subscript) for target in targets(outer)))
        if not isinstance(outer, (ast.Call, ast.Attribute, ast.IfExp, ast.keyword)):
            return False
        if isinstance(outer, ast.IfExp) and inner is outer.test:
            return False
        inner = outer
    return False


def _is_number(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
        and node.operand.value == _IGNORED
    )


def _makes(call: ast.Call) -> bool:
    """Whether a call makes a tensor of what it is given."""
    return _named(call.func) in _MAKES


def _named(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
