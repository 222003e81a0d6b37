"""The LibCST transformer: applies node operations to the few statements that a plan touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import libcst as cst

from accelift_codemod.plan import Edit, Operation
from accelift_codemod.rewrite.operations import OPERATIONS, remaining
from accelift_codemod.rewrite.result import CannotRewrite
from accelift_codemod.rewrite.tags import cst_tag

_PARTS_DROPPED = frozenset({Operation.DROP_NAME, Operation.DROP_ARGUMENT, Operation.DROP_PARAMETER})
# Operations that leave another kind of node come later; one that goes by the place of an argument comes first.
_LATE = {Operation.DROP_ARGUMENT: -1, Operation.SURROUND: 1, Operation.UNPAIR: 1, Operation.DROP: 2}


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
    try:
        changed = module.visit(transformer)
    except cst.CSTValidationError as error:
        raise CannotRewrite(f"an edit does not fit the code around it: {error}") from None
    if transformer.count != len(tags):
        raise CannotRewrite(f"LibCST sees {transformer.count} nodes where ast sees {len(tags)}")
    return changed.code


# Nodes in which no other has an address: spaces, comments and parentheses are all that is in most of them.
_CLOSED = frozenset(
    {
        cst.ImportAlias,
        cst.Name,
        cst.Integer,
        cst.Float,
        cst.Imaginary,
        cst.SimpleString,
        cst.Comma,
        cst.Dot,
        cst.AssignEqual,
        cst.Colon,
        cst.Semicolon,
        cst.SimpleWhitespace,
        cst.ParenthesizedWhitespace,
        cst.TrailingWhitespace,
        cst.EmptyLine,
    }
)
# The part of a node that is a name, but no expression.
_PARTS: dict[type[cst.CSTNode], str] = {
    cst.Attribute: "attr",
    cst.Arg: "keyword",
    cst.Param: "name",
    cst.FunctionDef: "name",
    cst.ClassDef: "name",
    cst.NameItem: "name",
}


class _Transformer(cst.CSTTransformer):
    def __init__(self, tags: Sequence[str], edits: dict[int, list[tuple[Edit, bool]]]) -> None:
        super().__init__()
        self.tags = tags
        self.edits = edits
        self.count = 0
        self.hits: dict[int, list[tuple[Edit, bool]]] = {}
        self.skipped: set[int] = set()
        self.dropped: dict[int, cst.CSTNode] = {}  # by id, which is theirs as long as they are kept here
        self.strings: list[cst.FormattedString] = []  # the f-strings around

    def on_visit(self, node: cst.CSTNode) -> bool:
        kind = node.__class__  # asked a class of LibCST, isinstance is slow
        if kind in _PARTS:
            self.skipped.add(id(getattr(node, _PARTS[kind])))
        elif kind is cst.ExceptHandler and node.name is not None:  # type: ignore[attr-defined]
            self.skipped.add(id(node.name.name))  # type: ignore[attr-defined]
        tag = None if id(node) in self.skipped else cst_tag(node)
        if tag is not None:
            if self.count >= len(self.tags) or self.tags[self.count] != tag:
                raise CannotRewrite(f"LibCST sees a {tag} where ast sees another node")
            if self.count in self.edits:
                self.hits[id(node)] = sorted(self.edits[self.count], key=lambda e: _LATE.get(e[0].operation, 0))
            self.count += 1
        if kind is cst.FormattedString:
            self.strings.append(node)  # type: ignore[arg-type]
        elif kind is cst.ImportFrom:
            self._skip_module(node.module)  # type: ignore[attr-defined]
        return kind not in _CLOSED

    def on_visit_attribute(self, node: cst.CSTNode, attribute: str) -> None:
        """Nothing: LibCST would look for a method of a name that it puts together, for every part of a node."""

    def on_leave_attribute(self, original_node: cst.CSTNode, attribute: str) -> None:
        """Nothing, too."""

    def _skip_module(self, module: cst.CSTNode | None) -> None:
        """Names inside import statements are not expressions: only their aliases count."""
        stack = [module] if module is not None else []
        while stack:
            part = stack.pop()
            self.skipped.add(id(part))
            stack.extend(part.children)

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        updated: Any = updated_node
        if original_node.__class__ is cst.FormattedString:
            self.strings.pop()
        for edit, parenthesize in self.hits.get(id(original_node), ()):
            updated = OPERATIONS[edit.operation](updated, self._quoted(edit), parenthesize)
            if edit.operation in _PARTS_DROPPED:
                part = _dropped(updated, edit)
                self.dropped[id(part)] = part
        kind = updated.__class__
        if self.dropped and kind in (cst.Import, cst.ImportFrom):
            return self._without_dropped(updated)
        if self.dropped and kind is cst.Call:
            kept = [a for a in updated.args if id(a.value) not in self.dropped]
            return updated.with_changes(args=remaining(updated.args, kept, "whitespace_after_arg"))
        if self.dropped and kind is cst.FunctionDef:  # what is put among them goes by their places before
            return updated.with_changes(params=self._without_parameters(updated.params))
        if kind in (cst.SimpleStatementLine, cst.SimpleStatementSuite):
            return _statement_list(updated, original_node)
        return updated

    def _quoted(self, edit: Edit) -> Edit:
        """An edit whose code does not use the quotes of the f-string around."""
        if any(s.quote == '"' for s in self.strings) and '"' in edit.code and "'" not in edit.code:
            return replace(edit, code=edit.code.replace('"', "'"))
        return edit

    def _without_parameters(self, parameters: cst.Parameters) -> cst.Parameters:
        changes: dict[str, Any] = {}
        for name in ("params", "kwonly_params"):
            items = getattr(parameters, name)
            kept = [p for p in items if id(p.name) not in self.dropped]
            changes[name] = remaining(items, kept, "whitespace_after_param")
        if not changes["kwonly_params"] and isinstance(parameters.star_arg, cst.ParamStar):
            changes["star_arg"] = cst.MaybeSentinel.DEFAULT
            if changes["params"] and parameters.star_kwarg is None:
                *others, last = changes["params"]
                changes["params"] = [*others, last.with_changes(comma=cst.MaybeSentinel.DEFAULT)]
        return parameters.with_changes(**changes)

    def _without_dropped(self, statement: cst.Import | cst.ImportFrom) -> Any:
        if isinstance(statement.names, cst.ImportStar):
            return statement
        kept = [a for a in statement.names if id(a) not in self.dropped]
        if not kept:
            raise CannotRewrite("every name of an import would go")
        if not (isinstance(statement, cst.ImportFrom) and statement.lpar is not None):
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return statement.with_changes(names=kept)


def _dropped(node: Any, edit: Edit) -> cst.CSTNode:
    """What an edit takes out of what is around it, and what other edits leave as it is."""
    if edit.operation is Operation.DROP_PARAMETER:
        return cast(cst.CSTNode, node.name)
    return cast(cst.CSTNode, node if edit.place is None else node.args[edit.place].value)


def _statement_list(updated: Any, original: Any) -> Any:
    """The statements that are left on a line."""
    if len(updated.body) == len(original.body):
        return updated
    if not updated.body:
        return updated.with_changes(body=[cst.Pass()])
    last = updated.body[-1].with_changes(semicolon=original.body[-1].semicolon)
    return updated.with_changes(body=[*updated.body[:-1], last])
