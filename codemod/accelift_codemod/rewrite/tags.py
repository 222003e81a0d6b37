"""Addresses: the n-th tagged node of a piece of code is the same node in `ast` and in LibCST.

`ast` and LibCST disagree on the shape of some constructs, but the node types below exist one to one in both and are
met in the same order when children are visited as they stand in the source. So a node needs no position to be found,
and a disagreement between the two lists shows at once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from accelift_codemod.facts.signatures import given

_AST_TAGS: dict[type[ast.AST], str] = {
    ast.Name: "name",
    ast.Attribute: "attribute",
    ast.Call: "call",
    ast.Subscript: "subscript",
    ast.BinOp: "binary",
    ast.IfExp: "conditional",
    ast.Lambda: "lambda",
    ast.Compare: "comparison",
    ast.UnaryOp: "unary",
    ast.NamedExpr: "named",
    ast.GeneratorExp: "generator",
    ast.ListComp: "list",
    ast.DictComp: "dict",
    ast.arg: "parameter",
    ast.alias: "alias",
}
_CST_TAGS: dict[type[cst.CSTNode], str | None] = {  # statements are added as they are met
    cst.Name: "name",
    cst.Attribute: "attribute",
    cst.Call: "call",
    cst.Subscript: "subscript",
    cst.BinaryOperation: "binary",
    cst.IfExp: "conditional",
    cst.Lambda: "lambda",
    cst.Comparison: "comparison",
    cst.UnaryOperation: "unary",
    cst.NamedExpr: "named",
    cst.GeneratorExp: "generator",
    cst.ListComp: "list",
    cst.DictComp: "dict",
    cst.Integer: "number",
    cst.Float: "number",
    cst.Imaginary: "number",
    cst.Param: "parameter",
    cst.ImportAlias: "alias",
    cst.Arg: "keyword",
}
_KEYWORDS = frozenset({"True", "False", "None"})


def ast_tag(node: ast.AST) -> str | None:
    """The tag of a node; None if it has none."""
    tag = _AST_TAGS.get(type(node))
    if tag is not None:
        return tag
    if isinstance(node, ast.stmt):
        return "statement"
    if isinstance(node, ast.keyword) and node.arg is not None:
        return "keyword"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, complex):
        return "number"
    return None


def cst_tag(node: cst.CSTNode) -> str | None:
    """The tag of a LibCST node; None if it has none."""
    kind = type(node)
    if kind not in _CST_TAGS:
        statement = issubclass(kind, (cst.BaseSmallStatement, cst.BaseCompoundStatement))
        _CST_TAGS[kind] = "statement" if statement else None
    tag = _CST_TAGS[kind]
    if tag == "name":
        return None if node.value in _KEYWORDS else tag  # type: ignore[attr-defined]
    if tag == "keyword":
        return None if node.keyword is None else tag  # type: ignore[attr-defined]
    return tag


def tagged(node: ast.AST, header_only: bool = False) -> Iterator[ast.AST]:
    """The tagged nodes of a statement in source order; of its header only, if asked so."""
    stack = [node]
    root = node
    while stack:
        current = stack.pop()
        if ast_tag(current) is not None:
            yield current
        children = list(_children(current))
        if header_only and current is root:
            children = [c for c in children if not isinstance(c, (ast.stmt, ast.ExceptHandler, ast.match_case))]
            above = getattr(root, "decorator_list", ())  # on lines of their own, before the header
            children = [c for c in children if c not in above]
        stack.extend(reversed(children))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Child nodes as they stand in the source."""
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.test, node.orelse)
    elif isinstance(node, ast.Call):
        yield node.func
        yield from given(node)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                yield key
            yield value
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield from node.decorator_list
        yield node.args
        if node.returns is not None:
            yield node.returns
        yield from node.body
    elif isinstance(node, ast.ClassDef):
        yield from node.decorator_list
        yield from (*node.bases, *node.keywords)
        yield from node.body
    elif isinstance(node, ast.arguments):
        yield from _arguments(node)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        if not (isinstance(node, ast.ImportFrom) and node.names[0].name == "*"):
            yield from node.names
    else:
        yield from ast.iter_child_nodes(node)


def _arguments(node: ast.arguments) -> Iterator[ast.AST]:
    positional = [*node.posonlyargs, *node.args]
    missing = len(positional) - len(node.defaults)
    for i, parameter in enumerate(positional):
        yield parameter
        if i >= missing:
            yield node.defaults[i - missing]
    if node.vararg is not None:
        yield node.vararg
    for parameter, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
        yield parameter
        if default is not None:
            yield default
    if node.kwarg is not None:
        yield node.kwarg
