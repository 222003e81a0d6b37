"""The LibCST transformer: applies node operations to the few statements that a plan touches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

import libcst as cst

from accelift_codemod.plan import Edit, Operation
from accelift_codemod.rewrite.tags import cst_tag

Node = cst.CSTNode | cst.RemovalSentinel


class CannotRewrite(Exception):
    """An edit that cannot be applied: a fault of the tool, or code laid out in an unforeseen way."""


def transform(code: str, tags: Sequence[str], edits: dict[int, list[tuple[Edit, bool]]]) -> str:
    """Apply edits to a piece of code.

    Args:
        code: complete statements.
        tags: the tags of its nodes, in order (`accelift_codemod.rewrite.tags`).
        edits: by address (the place in `tags`); the flag says whether an operator expression put at this
            place needs parentheses.

    Raises:
        CannotRewrite: LibCST sees other nodes than `ast` did, or an operation does not fit its node.
    """
    try:
        module = cst.parse_module(code)
    except cst.ParserSyntaxError as error:
        raise CannotRewrite(f"LibCST cannot parse the statement: {error.message}") from None
    transformer = _Transformer(tags, edits)
    changed = module.visit(transformer)
    if transformer.count != len(tags):
        raise CannotRewrite(f"LibCST sees {transformer.count} nodes where ast sees {len(tags)}")
    return changed.code


class _Transformer(cst.CSTTransformer):
    def __init__(self, tags: Sequence[str], edits: dict[int, list[tuple[Edit, bool]]]) -> None:
        super().__init__()
        self.tags = tags
        self.edits = edits
        self.count = 0
        self.hits: dict[int, list[tuple[Edit, bool]]] = {}
        self.skipped: set[int] = set()
        self.dropped: set[int] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Attribute):
            self.skipped.add(id(node.attr))
        elif isinstance(node, cst.Arg):
            self.skipped.add(id(node.keyword))
        elif isinstance(node, (cst.Param, cst.FunctionDef, cst.ClassDef, cst.NameItem)):
            self.skipped.add(id(node.name))
        elif isinstance(node, cst.ExceptHandler) and node.name is not None:
            self.skipped.add(id(node.name.name))
        tag = None if id(node) in self.skipped else cst_tag(node)
        if tag is not None:
            if self.count >= len(self.tags) or self.tags[self.count] != tag:
                raise CannotRewrite(f"LibCST sees a {tag} where ast sees another node")
            if self.count in self.edits:
                self.hits[id(node)] = self.edits[self.count]
            self.count += 1
        return not isinstance(node, cst.ImportAlias) and not self._import_parts(node)

    def _import_parts(self, node: cst.CSTNode) -> bool:
        """Names inside import statements are not expressions: only their aliases count."""
        if isinstance(node, cst.ImportFrom):
            self.skipped.add(id(node.module))
            if node.module is not None:
                stack: list[cst.CSTNode] = [node.module]
                while stack:
                    part = stack.pop()
                    self.skipped.add(id(part))
                    stack.extend(part.children)
        return False

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        updated: Any = updated_node
        for edit, parenthesize in self.hits.get(id(original_node), ()):
            updated = _OPERATIONS[edit.operation](updated, edit, parenthesize)
            if edit.operation is Operation.DROP_NAME:
                self.dropped.add(id(updated))
        if isinstance(updated, (cst.Import, cst.ImportFrom)) and self.dropped:
            return self._without_dropped(updated)
        if isinstance(updated, cst.SimpleStatementSuite) and not updated.body:
            return updated.with_changes(body=[cst.Pass()])
        return updated

    def _without_dropped(self, statement: cst.Import | cst.ImportFrom) -> Any:
        if isinstance(statement.names, cst.ImportStar):
            return statement
        kept = [a for a in statement.names if id(a) not in self.dropped]
        if not kept:
            raise CannotRewrite("every name of an import would go")
        if not (isinstance(statement, cst.ImportFrom) and statement.lpar is not None):
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return statement.with_changes(names=kept)


# ---- operations


@lru_cache(maxsize=256)
def _parsed(code: str) -> cst.BaseExpression:
    return cst.parse_expression(code)


def _expression(code: str) -> cst.BaseExpression:
    return _parsed(code).deep_clone()


_PLACEHOLDER = "__expression__"
_OPERATORS = (
    cst.BinaryOperation,
    cst.BooleanOperation,
    cst.Comparison,
    cst.UnaryOperation,
    cst.IfExp,
    cst.Lambda,
    cst.NamedExpr,
    cst.Await,
)


def _bare(node: Any) -> Any:
    """An expression without the parentheses around it."""
    return node.with_changes(lpar=[], rpar=[]) if node.lpar and not isinstance(node, cst.Tuple) else node


def _call_of(node: Any) -> cst.Call:
    if not isinstance(node, cst.Call):
        raise CannotRewrite("the place of the edit is not a call")
    return node


def _receiver_of(node: Any) -> cst.BaseExpression:
    func = _call_of(node).func
    if not isinstance(func, cst.Attribute):
        raise CannotRewrite("the call has no receiver")
    return func.value


def _become(node: Any, edit: Edit, parenthesize: bool) -> Node:
    new = cast(Any, _expression(edit.code))
    lpar, rpar = list(node.lpar), list(node.rpar)
    if parenthesize and not lpar and isinstance(new, _OPERATORS):
        lpar, rpar = [cst.LeftParen()], [cst.RightParen()]
    return cast(Node, new.with_changes(lpar=[*lpar, *new.lpar], rpar=[*new.rpar, *rpar]))


def _keep_receiver(node: Any, edit: Edit, parenthesize: bool) -> Node:
    receiver = cast(Any, _receiver_of(node))
    return cast(Node, receiver.with_changes(lpar=[*node.lpar, *receiver.lpar], rpar=[*receiver.rpar, *node.rpar]))


def _call_on(node: Any, edit: Edit, parenthesize: bool) -> Node:
    call = _call_of(node)
    receiver = cst.Arg(_bare(_receiver_of(node)))
    return call.with_changes(func=_expression(edit.code), args=[receiver, *call.args])


class _Filler(cst.CSTTransformer):
    """Puts an expression in place of a name."""

    def __init__(self, name: str, expression: cst.BaseExpression) -> None:
        super().__init__()
        self.name = name
        self.expression = expression

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self.expression if updated_node.value == self.name else updated_node


def _surround(node: Any, edit: Edit, parenthesize: bool) -> Node:
    if isinstance(node, cst.Arg):
        return cast(Node, node.with_changes(value=_surrounded(node.value, edit, False)))
    if edit.place is not None:
        return _argument_as(_call_of(node), edit.place, lambda value: _surrounded(value, edit, False))
    return cast(Node, _surrounded(node, edit, parenthesize))


def _surrounded(node: Any, edit: Edit, parenthesize: bool) -> Any:
    """An expression inside the edit's code, in place of its `{}`."""
    before, after = edit.code.split("{}")
    if before.endswith("(") and after.startswith((")", ",")):
        inner = _bare(node)
    elif isinstance(node, _OPERATORS) and not node.lpar and not _stands(node, before, after):
        inner = node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    else:
        inner = node
    new = _parsed(f"{before}{_PLACEHOLDER}{after}").deep_clone().visit(_Filler(_PLACEHOLDER, inner))
    return _parenthesized(cast(Any, new)) if parenthesize else new


def _stands(node: Any, before: str, after: str) -> bool:
    """Whether an operator needs no parentheses at the start of an expression that goes on with `after`."""
    if before:
        return False
    if after.startswith(" if "):
        return not isinstance(node, (cst.IfExp, cst.Lambda, cst.NamedExpr))
    product = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply)
    return product and after.startswith(" * ")


def _parenthesized(new: Any) -> Node:
    """An expression with parentheses around it, if it is an operator without any."""
    if not isinstance(new, _OPERATORS) or new.lpar:
        return cast(Node, new)
    return cast(Node, new.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]))


def _left(node: Any, edit: Edit, parenthesize: bool) -> Node:
    if not isinstance(node, cst.BinaryOperation):
        raise CannotRewrite("the place of the edit is not an operation")
    left = cast(Any, node.left)
    return cast(Node, left.with_changes(lpar=[*node.lpar, *left.lpar], rpar=[*left.rpar, *node.rpar]))


def _inner(node: Any, edit: Edit, parenthesize: bool) -> Node:
    arguments = _call_of(node).args
    for place, argument in enumerate(arguments):
        named = argument.keyword is not None and argument.keyword.value == edit.code
        if named or (place == edit.place and argument.keyword is None and not argument.star):
            return _parenthesized(argument.value) if parenthesize else argument.value
    raise CannotRewrite("the call has no such argument")


def _name_arguments(node: Any, edit: Edit, parenthesize: bool) -> Node:
    call = _call_of(node)
    names = iter(edit.code.split(","))
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    arguments = [
        a if a.keyword is not None else a.with_changes(keyword=cst.Name(next(names)), equal=tight) for a in call.args
    ]
    return call.with_changes(args=arguments)


def _method(node: Any, edit: Edit, parenthesize: bool) -> Node:
    call = _call_of(node)
    new = cast(cst.Call, _expression(f"x.{edit.code}"))
    func = cast(cst.Attribute, call.func).with_changes(attr=cast(cst.Attribute, new.func).attr)
    return call.with_changes(func=func, args=new.args)


def _add_argument(node: Any, edit: Edit, parenthesize: bool) -> Node:
    call = _call_of(node)
    new = cast(cst.Call, _expression(f"f({edit.code})")).args[0]
    return call.with_changes(args=_inserted(call.args, new, edit.place))


def _argument(node: Any, edit: Edit, parenthesize: bool) -> Node:
    return _argument_as(_call_of(node), edit.place or 0, lambda value: _expression(edit.code))


def _argument_as(call: cst.Call, place: int, change: Callable[[Any], Any]) -> cst.Call:
    """The call with one of its positional arguments changed."""
    arguments = list(call.args)
    if place >= len(arguments) or arguments[place].keyword is not None or arguments[place].star:
        raise CannotRewrite("the call has no such argument")
    arguments[place] = arguments[place].with_changes(value=change(arguments[place].value))
    return call.with_changes(args=arguments)


def _test(node: Any, edit: Edit, parenthesize: bool) -> Node:
    if not isinstance(node, (cst.If, cst.While)):
        raise CannotRewrite("the place of the edit is not an if or while")
    return node.with_changes(test=_expression(edit.code))


def _keyword(node: Any, edit: Edit, parenthesize: bool) -> Node:
    new = cast(cst.Call, _expression(f"f({edit.code})")).args[0]
    return cast(Node, node.with_changes(keyword=new.keyword, value=new.value))


def _parameter(node: Any, edit: Edit, parenthesize: bool) -> Node:
    return cast(Node, node.with_changes(name=cst.Name(edit.code), annotation=None))


def _add_parameter(node: Any, edit: Edit, parenthesize: bool) -> Node:
    if not isinstance(node, cst.FunctionDef):
        raise CannotRewrite("the place of the edit is not a function")
    new = cst.Param(cst.Name(edit.code))
    params = _inserted(node.params.params, new, edit.place)
    return node.with_changes(params=node.params.with_changes(params=params))


def _inserted(items: Sequence[Any], new: Any, place: int | None) -> list[Any]:
    """Items of a comma-separated list with one more, laid out like its neighbours."""
    found = list(items)
    at = len(found) if place is None else min(place, len(found))
    if not found:
        return [new]
    if at < len(found):
        comma = found[0].comma if len(found) > 1 and at == 0 else cst.MaybeSentinel.DEFAULT
        if at > 0:
            comma = found[at - 1].comma
        if not isinstance(comma, cst.Comma):
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        return [*found[:at], new.with_changes(comma=comma), *found[at:]]
    last = found[-1]
    trailing = last.comma if isinstance(last.comma, cst.Comma) else cst.MaybeSentinel.DEFAULT
    between = found[-2].comma if len(found) > 1 else trailing
    if not isinstance(between, cst.Comma):
        between = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [*found[:-1], last.with_changes(comma=between), new.with_changes(comma=trailing)]


def _drop(node: Any, edit: Edit, parenthesize: bool) -> Node:
    return cst.RemoveFromParent()


def _same(node: Any, edit: Edit, parenthesize: bool) -> Node:
    return cast(Node, node)


_OPERATIONS: dict[Operation, Callable[[Any, Edit, bool], Node]] = {
    Operation.BECOME: _become,
    Operation.RECEIVER: _keep_receiver,
    Operation.CALL_ON: _call_on,
    Operation.SURROUND: _surround,
    Operation.LEFT: _left,
    Operation.INNER: _inner,
    Operation.NAME_ARGUMENTS: _name_arguments,
    Operation.METHOD: _method,
    Operation.ADD_ARGUMENT: _add_argument,
    Operation.ARGUMENT: _argument,
    Operation.TEST: _test,
    Operation.KEYWORD: _keyword,
    Operation.PARAMETER: _parameter,
    Operation.ADD_PARAMETER: _add_parameter,
    Operation.DROP_NAME: _same,
    Operation.DROP: _drop,
}
