"""Lines that are parsed and rewritten together, because edits lie inside their statements."""

from __future__ import annotations

import ast
import bisect
import re
from collections import Counter
from dataclasses import dataclass, field

from accelift_codemod.facts.index import Index
from accelift_codemod.plan import Edit, Operation
from accelift_codemod.rewrite.layout import comments, form_feeds, indentation, restyled, split_lines
from accelift_codemod.rewrite.places import Places
from accelift_codemod.rewrite.result import CannotRewrite
from accelift_codemod.rewrite.splicing import spliced
from accelift_codemod.source import Source

_FREE_PARENTS = (
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Return,
    ast.Expr,
    ast.keyword,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.For,
    ast.If,
    ast.While,
    ast.FormattedValue,
    ast.withitem,
)
_PRODUCT = re.compile(r"\{\} \* [\w.]+")  # what binds as closely as what stood there, or closer


@dataclass
class Unit:
    """Whole lines that are parsed and rewritten together: statements, or the header of one."""

    first: int
    last: int
    nodes: list[ast.stmt]
    header_only: bool
    edits: list[tuple[ast.AST, Edit]] = field(default_factory=list)


class Units:
    """Finds the lines around an edit, and rewrites them."""

    def __init__(self, source: Source, index: Index, unit: str, line_length: int) -> None:
        self.source = source
        self.lines = source.lines
        self.index = index
        self.unit = unit  # of the author's indentation
        self.line_length = line_length
        self.places = Places(source, index)

    def around(self, node: ast.AST, edit: Edit) -> Unit:
        """The lines to be parsed for an edit inside a statement."""
        statement = self.index.statement(node)
        body = getattr(statement, "body", None)
        if body and isinstance(body, list) and self.places.starts(body[0]):
            last = self.places.with_comments(self.places.head(body[0])[0]) - 1  # above them something may be put
            return Unit(statement.lineno, last, [statement], True, [(node, edit)])
        nodes = [statement]
        while not (self.places.starts(nodes[0]) and self.places.ends(nodes[-1])):
            parent = self.index.parents[nodes[0]]
            while isinstance(parent, (ast.ExceptHandler, ast.match_case)):
                parent = self.index.parents[parent]
            company = self.places.company(nodes[0])
            if len(company) > len(nodes):
                nodes = company
            elif isinstance(parent, ast.stmt):
                nodes = [parent]
            else:
                raise CannotRewrite(f"line {statement.lineno}: the statement's lines cannot be told apart from others'")
        first = self.places.head(nodes[0])[0]
        return Unit(first, self.places.last(nodes[-1]), nodes, False, [(node, edit)])

    def rewritten(self, unit: Unit) -> list[str]:
        """The new lines of a unit."""
        text = "".join(self.lines[unit.first - 1 : unit.last])
        newline = self.source.newline
        if not text.endswith(("\n", "\r")):
            text += newline
        feeds = form_feeds(text)
        text = text[len(feeds) :]
        indent = indentation(text)
        edits = [(node, edit, self._needs_parentheses(node, edit)) for node, edit in unit.edits]
        result = spliced(self.source, self.index, unit.first, unit.last, edits)
        if result is None:
            result = self._transformed(unit, text, indent, edits)
        else:
            result = result[len(feeds) :] + ("" if result.endswith(("\n", "\r")) else newline)
        if not unit.header_only and all(not hasattr(n, "body") for n in unit.nodes):
            result = restyled(text, result, indent, self.unit, self.line_length)
        lost = Counter(comments(text)) - Counter(comments(result))
        return split_lines(feeds + "".join(f"{indent}{comment}{newline}" for comment in lost.elements()) + result)

    def _transformed(self, unit: Unit, text: str, indent: str, changes: list[tuple[ast.AST, Edit, bool]]) -> str:
        """The text of a unit as LibCST changes it."""
        from accelift_codemod.rewrite.tags import ast_tag, tagged  # late: libcst, which most files do not need
        from accelift_codemod.rewrite.transform import transform

        newline = self.source.newline
        prefix, tags = "", []
        if text.lstrip(" \t").startswith("elif"):
            prefix = f"if True:{newline}{indent or ' '}pass{newline}" if not indent else ""
            prefix = prefix or f"if True:{newline}{indent}if True:{newline}{indent} pass{newline}"
            tags = ["statement"] * prefix.count(newline)
        elif indent:
            prefix, tags = f"if True:{newline}", ["statement"]
        nodes = [n for statement in unit.nodes for n in tagged(statement, unit.header_only)]
        addresses = {node: len(tags) + i for i, node in enumerate(nodes)}
        tags += [str(ast_tag(n)) for n in nodes]
        suffix = f"#{newline}"  # LibCST does not print every line end at the end of a module
        if unit.header_only:
            suffix = f"{indent} pass{newline}{suffix}"
            tags.append("statement")
        edits: dict[int, list[tuple[Edit, bool]]] = {}
        for node, edit, parenthesize in changes:
            if node not in addresses:
                raise CannotRewrite(f"line {edit.span.line}: the place of the edit has no address")
            edits.setdefault(addresses[node], []).append((edit, parenthesize))
        result = transform(prefix + text + suffix, tags, edits)
        if not result.startswith(prefix) or not result.endswith(suffix):
            raise CannotRewrite(f"line {unit.first}: the statement changed beyond its lines")
        return result[len(prefix) : len(result) - len(suffix)]

    def _needs_parentheses(self, node: ast.AST, edit: Edit) -> bool:
        parent = self.index.parents.get(node)
        if isinstance(parent, ast.BinOp) and edit.operation is Operation.SURROUND and _PRODUCT.fullmatch(edit.code):
            first = parent.left is node and isinstance(parent.op, (ast.Mult, ast.Div))
            return not (first or isinstance(parent.op, (ast.Add, ast.Sub)))
        if isinstance(parent, ast.Call):
            return parent.func is node
        if isinstance(parent, ast.Subscript):
            return parent.value is node
        return not isinstance(parent, _FREE_PARENTS)


def merged(units: list[Unit]) -> list[Unit]:
    """Units whose lines overlap become one."""
    merged: list[Unit] = []
    starts: list[int] = []
    for unit in sorted(units, key=lambda u: (u.first, -u.last, u.header_only)):
        at = bisect.bisect_right(starts, unit.first) - 1
        if at >= 0 and merged[at].last >= unit.first:
            host = merged[at]
            if host.header_only and not unit.header_only and unit.last > host.last:
                host.header_only, host.nodes, host.last = False, unit.nodes, unit.last
            host.edits += unit.edits
        else:
            merged.append(unit)
            starts.append(unit.first)
    return merged
