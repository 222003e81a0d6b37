"""What each operation does to the LibCST node of its place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

import libcst as cst

from accelift_codemod.plan import Edit, Operation
from accelift_codemod.rewrite.result import CannotRewrite

Node = cst.CSTNode | cst.RemovalSentinel


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
    cst.Tuple,
    cst.Yield,
    cst.GeneratorExp,
)
_ENCLOSED = (cst.Tuple, cst.Yield, cst.GeneratorExp)  # as arguments, they need their parentheses


def _bare(node: Any) -> Any:
    """An expression without the parentheses around it, if they are not needed and hold no comment."""
    if not node.lpar or isinstance(node, _ENCLOSED) or any(map(_commented, (*node.lpar, *node.rpar))):
        return node
    return node.with_changes(lpar=[], rpar=[])


def _commented(node: cst.CSTNode) -> bool:
    """Whether a part of the layout has a comment in it."""
    return isinstance(node, cst.Comment) or any(map(_commented, node.children))


def _parenthesized(new: Any) -> Node:
    """An expression with parentheses around it, if it is an operator without any."""
    if not isinstance(new, _OPERATORS) or new.lpar:
        return cast(Node, new)
    return _in_parentheses(new)


def _in_parentheses(node: Any) -> Node:
    return cast(Node, node.with_changes(lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()]))


def _with_arguments(call: cst.Call, arguments: Sequence[cst.Arg]) -> cst.Call:
    """A call with other arguments: not in all places can `x for x in y` and `x := y` go without parentheses."""
    found = []
    for argument in arguments:
        generator = isinstance(argument.value, cst.GeneratorExp) and (len(arguments) > 1 or argument.keyword)
        named = isinstance(argument.value, cst.NamedExpr) and argument.keyword
        found.append(argument.with_changes(value=_parenthesized(argument.value)) if generator or named else argument)
    return call.with_changes(args=found)


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
    if isinstance(node, cst.IfExp) and not isinstance(new, _OPERATORS):
        node = _bare(node)
    lpar, rpar = list(node.lpar), list(node.rpar)
    if isinstance(node, cst.GeneratorExp) and lpar and not any(map(_commented, (lpar[-1], rpar[0]))):
        lpar, rpar = lpar[:-1], rpar[1:]  # its own
    if parenthesize and not lpar and isinstance(new, _OPERATORS):
        lpar, rpar = [cst.LeftParen()], [cst.RightParen()]
    return cast(Node, new.with_changes(lpar=[*lpar, *new.lpar], rpar=[*new.rpar, *rpar]))


def _keep_receiver(node: Any, edit: Edit, parenthesize: bool) -> Node:
    receiver = cast(Any, node.value if isinstance(node, cst.Attribute) else _receiver_of(node))
    return cast(Node, receiver.with_changes(lpar=[*node.lpar, *receiver.lpar], rpar=[*receiver.rpar, *node.rpar]))


def _call_on(node: Any, edit: Edit, parenthesize: bool) -> Node:
    value = cast(Any, _receiver_of(node))
    call = _call_of(node).with_changes(func=_expression(edit.code))
    receiver = cst.Arg(_bare(value))
    if receiver.value.lpar and not isinstance(value, _ENCLOSED):  # comments are in them: they become those of the call
        before, behind = value.lpar[0].whitespace_after, value.rpar[-1].whitespace_before
        call = call.with_changes(whitespace_before_args=before)
        receiver = cst.Arg(value.with_changes(lpar=value.lpar[1:], rpar=value.rpar[:-1]), whitespace_after_arg=behind)
        if call.args:
            white = before.last_line if isinstance(before, cst.ParenthesizedWhitespace) else cst.SimpleWhitespace(" ")
            gap = behind.with_changes(last_line=white) if _commented(behind) else white
            receiver = cst.Arg(receiver.value, comma=cst.Comma(whitespace_after=gap))
    return _with_arguments(call, [receiver, *call.args])


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


def _left(node: Any, edit: Edit, parenthesize: bool) -> Node:
    single = isinstance(node, cst.Comparison) and len(node.comparisons) == 1
    if not isinstance(node, (cst.BinaryOperation, cst.IfExp)) and not single:
        raise CannotRewrite("the place of the edit is not an operation")
    left = cast(Any, node.body if isinstance(node, cst.IfExp) else node.left)
    if isinstance(node, cst.IfExp) and not isinstance(left, _OPERATORS) and _stands_alone(left):
        node = _bare(node)
    return cast(Node, left.with_changes(lpar=[*node.lpar, *left.lpar], rpar=[*left.rpar, *node.rpar]))


def _inner(node: Any, edit: Edit, parenthesize: bool) -> Node:
    arguments = _call_of(node).args
    found = [a for a in arguments if a.keyword is not None and a.keyword.value == edit.code]
    if not found and edit.place is not None:
        found = [a for a in _positional(arguments)[edit.place :][:1] if not a.star]
    if not found:
        raise CannotRewrite("the call has no such argument")
    value = cast(Any, found[0].value)
    if node.lpar:
        return cast(Node, value.with_changes(lpar=[*node.lpar, *value.lpar], rpar=[*value.rpar, *node.rpar]))
    if parenthesize or isinstance(value, (cst.GeneratorExp, cst.NamedExpr)):
        value = _parenthesized(value)
    return cast(Node, value if value.lpar or _stands_alone(value) else _in_parentheses(value))


def _positional(arguments: Sequence[cst.Arg]) -> list[cst.Arg]:
    """The positional arguments, in the order of `ast`."""
    return [a for a in arguments if a.keyword is None and a.star != "**"]


def _stands_alone(node: cst.BaseExpression) -> bool:
    """Whether an expression is one statement if no parentheses around it join its lines."""
    code = cst.Module([]).code_for_node(node)
    if "\n" not in code and "\r" not in code:
        return True
    try:
        return len(ast.parse(code).body) == 1
    except SyntaxError:
        return False


def _direct(node: Any, edit: Edit, parenthesize: bool) -> Node:
    call = _call_of(node)
    named = {a.keyword.value: a.value for a in call.args if a.keyword is not None}
    given = dict(zip(("fn", "args"), (a.value for a in _positional(call.args)), strict=False)) | named
    function, elements = given.get("fn"), given.get("args")
    if function is None or not (elements is None or isinstance(elements, cst.Tuple)):
        raise CannotRewrite("what the processes are started with is not written in the call")
    plain = [cst.Arg(_bare(e.value)) for e in elements.elements] if isinstance(elements, cst.Tuple) else []
    return cst.Call(function, [cst.Arg(_expression(edit.code)), *plain], lpar=call.lpar, rpar=call.rpar)


def _name_arguments(node: Any, edit: Edit, parenthesize: bool) -> Node:
    call = _call_of(node)
    names = edit.code.split(",")
    positional = _positional(call.args)
    if len(positional) > len(names) or any(a.star for a in positional):
        raise CannotRewrite("the positional arguments of a call cannot be named")
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    keywords = {id(a): cst.Name(name) for a, name in zip(positional, names, strict=False)}
    arguments = [a.with_changes(keyword=keywords[id(a)], equal=tight) if id(a) in keywords else a for a in call.args]
    return _with_arguments(call, arguments)


def _method(node: Any, edit: Edit, parenthesize: bool) -> Node:
    call = _call_of(node)
    new = cast(cst.Call, _expression(f"x.{edit.code}"))
    func = cast(cst.Attribute, call.func).with_changes(attr=cast(cst.Attribute, new.func).attr)
    return call.with_changes(func=func, args=new.args)


def _add_argument(node: Any, edit: Edit, parenthesize: bool) -> Node:
    call = _call_of(node)
    new = cast(cst.Call, _expression(f"f({edit.code})")).args[0]
    return _with_arguments(call, _inserted(call.args, new, edit.place, "whitespace_after_arg"))


def _argument(node: Any, edit: Edit, parenthesize: bool) -> Node:
    return _argument_as(_call_of(node), edit.place or 0, lambda value: _expression(edit.code))


def _argument_as(call: cst.Call, place: int, change: Callable[[Any], Any]) -> cst.Call:
    """The call with one of its positional arguments changed."""
    chosen = _positional(call.args)[place:][:1]
    if not chosen or chosen[0].star:
        raise CannotRewrite("the call has no such argument")
    new = chosen[0].with_changes(value=change(chosen[0].value))
    return call.with_changes(args=[new if a is chosen[0] else a for a in call.args])


def _test(node: Any, edit: Edit, parenthesize: bool) -> Node:
    if not isinstance(node, (cst.If, cst.While)):
        raise CannotRewrite("the place of the edit is not an if or while")
    gap = "whitespace_before_test" if isinstance(node, cst.If) else "whitespace_after_while"
    white = getattr(node, gap) if getattr(node, gap).value else cst.SimpleWhitespace(" ")
    return node.with_changes(test=_expression(edit.code), **{gap: white})


def _keyword(node: Any, edit: Edit, parenthesize: bool) -> Node:
    new = cast(cst.Call, _expression(f"f({edit.code})")).args[0]
    return cast(Node, node.with_changes(keyword=new.keyword, value=new.value))


def _parsed_parameter(code: str) -> cst.Param:
    """A parameter, perhaps with an annotation or a default: `accelerator: Accelerator`, `accelerator=None`."""
    function = cast(cst.Lambda, _expression(f"lambda {code}: 0")) if ":" not in code else None
    if function is not None:
        return function.params.params[0]
    name, _, annotation = code.partition(": ")
    return cst.Param(cst.Name(name), cst.Annotation(_expression(annotation)))


def _parameter(node: Any, edit: Edit, parenthesize: bool) -> Node:
    new = _parsed_parameter(edit.code)
    return cast(Node, new.with_changes(comma=node.comma, whitespace_after_param=node.whitespace_after_param))


def _add_parameter(node: Any, edit: Edit, parenthesize: bool) -> Node:
    if not isinstance(node, cst.FunctionDef):
        raise CannotRewrite("the place of the edit is not a function")
    new = _parsed_parameter(edit.code)
    params = _inserted(node.params.params, new, edit.place, "whitespace_after_param")
    return node.with_changes(params=node.params.with_changes(params=params))


def _inserted(items: Sequence[Any], new: Any, place: int | None, end: str) -> list[Any]:
    """Items of a comma-separated list with one more, laid out like its neighbours.

    Args:
        items: arguments or parameters.
        new: the new one.
        place: where it goes; None for the end.
        end: the name of the white space behind an item.
    """
    found = list(items)
    at = len(found) if place is None else min(place, len(found))
    if not found:
        return [new]
    if at < len(found):
        return [*found[:at], new.with_changes(comma=_plain(found[max(at - 1, 0)].comma)), *found[at:]]
    last = found[-1]
    ended = isinstance(last.comma, cst.Comma)
    between = _plain(found[-2].comma if len(found) > 1 else last.comma)
    behind = last.comma.whitespace_after if ended else getattr(last, end)
    if _commented(behind):  # the comment stays on the line of its item
        gap = between.whitespace_after
        white = gap.last_line if isinstance(gap, cst.ParenthesizedWhitespace) else cst.SimpleWhitespace("    ")
        between = between.with_changes(whitespace_after=behind.with_changes(indent=True, last_line=white))
    comma = last.comma.with_changes(whitespace_after=_uncommented(behind)) if ended else cst.MaybeSentinel.DEFAULT
    if ended:
        return [*found[:-1], last.with_changes(comma=between), new.with_changes(comma=comma)]
    last = last.with_changes(comma=between, **{end: cst.SimpleWhitespace("")})
    return [*found[:-1], last, new.with_changes(comma=comma, **{end: _uncommented(behind)})]


def remaining(items: Sequence[Any], kept: Sequence[Any], end: str) -> Sequence[Any]:
    """Items of a comma-separated list without some of them, the last one laid out like the one that was last.

    Args:
        items: arguments or parameters.
        kept: those that stay.
        end: the name of the white space behind an item.

    Raises:
        CannotRewrite: a comment would be lost.
    """
    if len(kept) == len(items):
        return items
    if any(_commented(item) for item in items if item not in kept):
        raise CannotRewrite("a comment stands beside an argument or parameter that goes")
    found, last = list[Any](), items[-1]
    for item in items:
        if item in kept:
            found.append(item)
        elif found and _ends_line(item.comma) and not _ends_line(found[-1].comma):
            found[-1] = found[-1].with_changes(comma=item.comma)
    if found and kept[-1] is not last:
        found[-1] = found[-1].with_changes(comma=last.comma, **{end: getattr(last, end)})
    return found


def _ends_line(comma: Any) -> bool:
    return isinstance(comma, cst.Comma) and isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace)


def _plain(comma: Any) -> cst.Comma:
    """A comma with the layout of another, or of an ordinary one, and without comments."""
    if not isinstance(comma, cst.Comma):
        return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return comma.with_changes(whitespace_after=_uncommented(comma.whitespace_after))


def _uncommented(gap: Any) -> Any:
    if not _commented(gap):
        return gap
    first = gap.first_line.with_changes(whitespace=cst.SimpleWhitespace(""), comment=None)
    return gap.with_changes(first_line=first, empty_lines=[])


def _unpair(node: Any, edit: Edit, parenthesize: bool) -> Node:
    target, value = node.targets[0].target, node.value
    if not isinstance(target, cst.Tuple) or not isinstance(value, cst.Tuple):
        raise CannotRewrite("the place of the edit does not set several variables")
    pairs = zip(target.elements, value.elements, strict=True)
    kept = [(left, right) for left, right in pairs if not left.value.deep_equals(right.value)]
    if not kept or _commented(node):
        return cast(Node, node)
    if len(kept) == 1:
        whole = node.targets[0].with_changes(target=kept[0][0].value)
        return cast(Node, node.with_changes(targets=[whole], value=kept[0][1].value))
    sides = [[one.with_changes(comma=cst.MaybeSentinel.DEFAULT) for one in side] for side in zip(*kept, strict=True)]
    target, value = (side.with_changes(elements=kept) for side, kept in zip((target, value), sides, strict=True))
    return cast(Node, node.with_changes(targets=[node.targets[0].with_changes(target=target)], value=value))


def _drop(node: Any, edit: Edit, parenthesize: bool) -> Node:
    return cst.RemoveFromParent()


def _same(node: Any, edit: Edit, parenthesize: bool) -> Node:
    return cast(Node, node)


OPERATIONS: dict[Operation, Callable[[Any, Edit, bool], Node]] = {
    Operation.BECOME: _become,
    Operation.RECEIVER: _keep_receiver,
    Operation.CALL_ON: _call_on,
    Operation.DIRECT: _direct,
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
    Operation.DROP_ARGUMENT: _same,
    Operation.DROP_PARAMETER: _same,
    Operation.UNPAIR: _unpair,
    Operation.DROP: _drop,
}
