"""Applies edits to a source: every line that no edit touches is the author's own."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from accelift_codemod.facts.index import FUNCTIONS, Index
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import STATEMENT_OPERATIONS, Edit, Operation, Span
from accelift_codemod.rewrite.apart import Apart
from accelift_codemod.rewrite.compose import Composer
from accelift_codemod.rewrite.headings import heading, is_about_devices, only_moves, tells_shape
from accelift_codemod.rewrite.layout import (
    DEFAULT_LINE_LENGTH,
    comments,
    indent_unit,
    indentation,
    statements,
    trailing_comment,
)
from accelift_codemod.rewrite.places import Places
from accelift_codemod.rewrite.result import CannotRewrite, Change, Rewritten
from accelift_codemod.rewrite.units import Unit, Units, merged
from accelift_codemod.source import Source

__all__ = ["CannotRewrite", "Change", "Rewritten", "rewrite"]

Located = list[tuple[Edit, ast.AST]]


def rewrite(source: Source, index: Index, edits: Sequence[Edit], line_length: int = DEFAULT_LINE_LENGTH) -> Rewritten:
    """Apply a plan's edits to its source.

    Raises:
        CannotRewrite: an edit does not fit the code; nothing is changed then.
    """
    located = _located(index, list(dict.fromkeys(edits)))
    rewriter = _Rewriter(source, index, located, line_length)
    crowded = rewriter.crowded()
    if crowded:
        apart = Apart.of(source, rewriter.places, crowded, rewriter.unit)
        moved = [apart.moved(edit, node) for edit, node in located]
        rewriter = _Rewriter(apart.source, apart.index, moved, line_length)
        rewritten = apart.rebased(rewriter.run())
    else:
        rewritten = rewriter.run()
    without = tuple(rewriter.without)
    edited, headers = _touched(Places(source, index), located)
    bared = frozenset(node for edit, node in located if edit.operation is Operation.BARE)
    return replace(rewritten, edited=edited, headers=headers, bared=bared, without=without)


def _touched(places: Places, located: Located) -> tuple[frozenset[ast.AST], Counter[ast.AST]]:
    """The statements that edits change or remove, and the number of headers that each is put under."""
    edited: set[ast.AST] = set()
    headers: Counter[ast.AST] = Counter()
    for edit, node in located:
        if edit.operation not in STATEMENT_OPERATIONS or edit.operation is Operation.BARE:
            edited.add(places.index.statement(node))
        elif edit.operation is Operation.ENCLOSE:
            headers.update(places.covered(cast(ast.stmt, node), edit.span))
        elif edit.operation in (Operation.DROP, Operation.SWAP):
            for gone in places.covered(cast(ast.stmt, node), edit.span):
                edited.update(n for n in walk(gone) if isinstance(n, ast.stmt))
    return frozenset(edited), headers


class _Rewriter:
    def __init__(self, source: Source, index: Index, located: Located, line_length: int) -> None:
        self.source = source
        self.line_length = line_length
        self.lines = source.lines
        self.index = index
        self.located = located
        self.unit = indent_unit(source)
        self.units = Units(source, index, self.unit, line_length)
        self.places = self.units.places
        self.composer = Composer(source, index, self.unit, line_length)
        self.kept: set[ast.stmt] = set()  # statements that others come in place of
        self.emptied: set[int] = set()  # lines of which nothing is left
        self.without: list[str] = []  # comments that go with what they are about

    def run(self) -> Rewritten:
        units: list[Unit] = []
        removed: list[tuple[ast.stmt, Edit]] = []
        for edit, node in self.located:
            if edit.operation not in STATEMENT_OPERATIONS:
                units.append(self.units.around(node, edit))
            elif edit.operation in (Operation.DROP, Operation.SWAP):
                removed.append((cast(ast.stmt, node), edit))
            elif edit.operation is not Operation.BARE:
                self._place(cast(ast.stmt, node), edit)
        gone = {s for s, _ in removed}
        bared = {cast(ast.With, node): edit for edit, node in self.located if edit.operation is Operation.BARE}
        for block, edit in bared.items():
            if not any(p in gone for p in (block, *self.index.ancestors(block))):
                self._bare(block, edit)
        self.kept = {s for s, edit in removed if edit.operation is Operation.SWAP and edit.code}
        for statement, edit in sorted(removed, key=lambda pair: pair[0].lineno):
            if any(p in gone for p in self.index.ancestors(statement)):
                continue
            self._remove(statement, edit, units, gone)
        self._drop_headings(gone)
        for unit in merged(units):
            lost = unit.header_only and unit.nodes[0] in bared
            if not lost and not any(p in gone for n in unit.nodes for p in (n, *self.index.ancestors(n))):
                self.composer.replaced[unit.first] = (unit.last, self.units.rewritten(unit))
        return self.composer.compose()

    def crowded(self) -> set[ast.stmt]:
        """The statements that have to be on lines of their own for the edits to be applied."""
        found: set[ast.stmt] = set()
        around: set[ast.AST] = set()  # what stands around edits of whole statements
        holding: list[tuple[ast.stmt, ast.stmt]] = []  # statements that are parsed with all that is in them
        for edit, node in self.located:
            statement = self.index.statement(node)
            drops = edit.operation is Operation.DROP
            if edit.operation not in STATEMENT_OPERATIONS or (drops and not self.places.alone(statement)):
                unit = self.units.around(node, edit)
                if not unit.header_only:
                    holding.append((unit.nodes[0], statement))
                continue
            around.update(self.index.ancestors(statement))
            last = self.places.covered(statement, edit.span)[-1]
            if edit.operation is Operation.BARE:
                found.update(s for s in (cast(ast.With, statement).body[0],) if not self.places.starts(s))
            if edit.operation is not Operation.AFTER and not self.places.starts(statement):
                found.add(statement)
            under_header = edit.operation is Operation.AFTER and not self.places.starts(self.places.company(last)[0])
            if under_header or (edit.operation is not Operation.BEFORE and not self.places.ends(last)):
                found.add(last)
        for holder, statement in holding:
            if holder in around:
                found.add(statement if statement is not holder else getattr(holder, "body", [holder])[0])
        return found

    # ---- statements

    def _place(self, statement: ast.stmt, edit: Edit) -> None:
        """Note what is put before, after or around a statement."""
        first = self.places.head(statement)[0]
        indent = indentation(self.lines[first - 1])
        if edit.operation is Operation.ENCLOSE:
            covered = self.places.covered(statement, edit.span)
            if covered == self.index.block(statement)[0] and len(covered) > 1:
                first = self.places.with_comments(first)
            self.composer.encloses.append((first, self.places.last(covered[-1]), edit))
            return
        new = statements(edit.code, indent, self.unit, self.source.newline, self.line_length)
        if edit.operation is Operation.BEFORE:
            above = self.places.with_comments(first)
            self.composer.before.setdefault(above, []).append((edit, new))
            if above < first or isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                self.composer.apart[above] = self._blank_above(above)
            return
        last = self._with_alternatives(statement, self._with_inner_comments(statement, indent))
        behind = self.composer.after.setdefault(last, [])
        # What ends a block comes before what follows the block.
        inner = sum(len(indentation(lines[0])) >= len(indent) for _, lines in behind)
        behind.insert(inner, (edit, new))

    def _blank_above(self, line: int) -> int:
        """How many blank lines there are above a line: as many keep a definition, or what stands below a comment, apart
        from what is put before it."""
        first = line
        while first > 1 and not self.lines[first - 2].strip():
            first -= 1
        return min(line - first, 2) if line > 1 else 2

    def _with_inner_comments(self, statement: ast.stmt, indent: str) -> int:
        """The last of the comment lines directly below a statement that are indented more than this."""
        last = self.places.last(statement)
        while last < len(self.lines) and self._inner_comment(self.lines[last], indent):
            last += 1
        return last

    def _with_alternatives(self, statement: ast.stmt, last: int) -> int:
        """The last of the lines directly below an assignment that set the same to something else, commented out."""
        targets = [ast.dump(t) for t in statement.targets] if isinstance(statement, ast.Assign) else []
        while targets and last < len(self.lines) and targets == _commented_targets(self.lines[last]):
            last += 1
        return last

    def _bare(self, statement: ast.With, edit: Edit) -> None:
        """Note that the header of a statement goes, and what is under it moves to where it stood."""
        first, body = self.places.head(statement)[0], self.places.head(statement.body[0])[0]
        while not self.lines[body - 2].strip() or self.lines[body - 2].lstrip(" \t").startswith("#"):
            body -= 1  # what stands above the first statement belongs to it
        outer = indentation(self.lines[first - 1])
        header = comments("".join([*self.lines[first - 1 : body - 1], f"{outer} pass{self.source.newline}"]))
        self.composer.replaced[first] = (body - 1, [f"{outer}{c}{self.source.newline}" for c in header])
        inner = indentation(self.lines[self.places.head(statement.body[0])[0] - 1])
        if not inner.startswith(outer):
            raise CannotRewrite(f"line {statement.lineno}: what is under the header is not indented as the header is")
        behind = self.places.last(statement) + 1  # of another arm, which goes, if there is one
        for lines in (
            (body, self.places.last(statement.body[-1])),
            (behind, self._with_inner_comments(statement, outer)),
        ):
            self.composer.bares.append((*lines, edit, (len(outer), len(inner))))

    def _inner_comment(self, line: str, indent: str) -> bool:
        return line.lstrip(" \t").startswith("#") and len(indentation(line)) > len(indent)

    def _remove(self, statement: ast.stmt, edit: Edit, units: list[Unit], gone: set[ast.stmt]) -> None:
        company = self.places.company(statement)
        first, last = self.places.head(statement)[0], self.places.last(company[-1])
        whole = self.places.starts(company[0]) and self.places.ends(company[-1])
        if not whole or any(s not in gone for s in company):
            units.append(self.units.around(statement, edit))
            gone.discard(statement)
            return
        if statement is not company[0]:
            return  # goes with the first on its line
        indent = indentation(self.lines[first - 1])
        new: list[str] = []
        if edit.operation is Operation.SWAP:
            last = max(last, self.places.last(self.places.covered(statement, edit.span)[-1]))
            new = statements(edit.code, indent, self.unit, self.source.newline, self.line_length) if edit.code else []
        block, _ = self.index.block(statement)
        if edit.operation is Operation.DROP:
            above = heading(self.places, statement, gone - self.kept)
            first = first if above in self.composer.before else above
        kept = self._named(self._kept_comments(first, last, edit), statement, edit)
        if not new and block[0] is statement and all(s in gone and s not in self.kept for s in block):
            if not kept and self._is_else(statement, block, first):
                first -= 1
            else:
                new = [f"{indent}pass{self.source.newline}"]
        if len(kept) == 1 and new and self._fits(new[-1], kept[0], self.lines[last - 1]):
            new[-1] = f"{new[-1].rstrip()}  {kept.pop()}{self.source.newline}"
        new = [*(f"{indent}{comment}{self.source.newline}" for comment in kept), *new]
        if not new and not self.composer.after.get(last):
            first, last = self._blank_with(first, last)
        if not new:
            self.emptied.update(range(first, last + 1))
        self.composer.replaced[first] = (last, new)

    def _drop_headings(self, gone: set[ast.stmt]) -> None:
        """Note that comments go which only say that what is below is moved to a device, where nothing is any more."""
        moved = [n for e, n in self.located if e.operation is Operation.RECEIVER and _is_move(n)]
        copied = [n for e, n in self.located if e.operation is Operation.BECOME and any(map(_is_move, walk(n)))]
        off = {*moved, *(n for root in (*copied, *gone) for n in walk(root))}
        for statement in dict.fromkeys(map(self.index.statement, (*moved, *copied))):
            first = self.places.head(statement)[0]
            above = self.places.with_comments(first)
            said = [line.strip() for line in self.lines[above - 1 : first - 1]]
            touched = self.composer.before.keys() | self.composer.after.keys() | self.composer.replaced.keys()
            if not said or not all(map(only_moves, said)) or not touched.isdisjoint(range(above - 1, first)):
                continue
            if not any(_is_move(n) and n not in off for s in self._paragraph(statement) for n in walk(s)):
                self.composer.replaced[above] = (first - 1, [])
                self.without += said

    def _paragraph(self, statement: ast.stmt) -> list[ast.stmt]:
        """A statement and those directly below, up to an empty line or a comment."""
        block, place = self.index.block(statement)
        found = [statement]
        for above, below in zip(block[place:], block[place + 1 :], strict=False):
            if self.places.head(below)[0] != self.places.last(above) + 1:
                break
            found.append(below)
        return found

    def _kept_comments(self, first: int, last: int, edit: Edit) -> list[str]:
        """The comments on the lines of a statement that goes, without those that go with it."""
        found = comments("".join(self.lines[first - 1 : last]))
        if edit.operation is Operation.DROP:
            self.without += filter(is_about_devices, found)
            found = [comment for comment in found if not is_about_devices(comment)]
        return found

    def _named(self, said: list[str], statement: ast.stmt, edit: Edit) -> list[str]:
        """Comments on a statement that goes; one that only tells a shape says of what, as it stands alone then."""
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [t.id for t in targets if isinstance(t, ast.Name)]
        if edit.operation is not Operation.DROP or len(said) != 1 or len(names) < len(targets):
            return said
        if not tells_shape(said[0]):
            return said
        self.without += said
        return [f"# {', '.join(names)}: {said[0].lstrip('# ')}"]

    def _is_else(self, statement: ast.stmt, block: list[ast.stmt], first: int) -> bool:
        """Whether a block is what stands below an `else:` that can go with it."""
        owner, inserted = self.index.parents[statement], self.composer.after.keys() | self.composer.before.keys()
        alone = isinstance(owner, ast.If) and owner.orelse is block and self.lines[first - 2].split() == ["else:"]
        return alone and not any(first <= line <= self.places.last(block[-1]) for line in inserted)

    def _fits(self, line: str, comment: str, before: str) -> bool:
        """Whether the comment at the end of a line can stand at the end of the statement that comes in its place."""
        ended = trailing_comment(before) == comment and not line.lstrip().startswith((")", "#", "pass"))
        return ended and len(line.rstrip()) + len(comment) + 2 <= max(self.line_length, len(before))

    def _blank_with(self, first: int, last: int) -> tuple[int, int]:
        """When a paragraph goes, as many of the blank lines below it go as there are above it."""
        start = first
        while start - 1 in self.emptied:
            start -= 1
        above = start - 1
        while above and not self.lines[above - 1].strip():
            above -= 1
        opens = start == 1 or self.lines[start - 2].rstrip().endswith(":")
        for _ in range(len(self.lines) if start == 1 else max(start - 1 - above, int(opens))):
            if last < len(self.lines) and not self.lines[last].strip():
                last += 1
        return first, last


def _is_move(node: ast.AST) -> bool:
    """Whether a node is a call of a method by which tensors and networks are moved."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda")


def _commented_targets(line: str) -> list[str]:
    """What a line assigns to that is commented out: `# optimizer = Adam(net.parameters())`."""
    code = line.strip()
    if not code.startswith("#") or "=" not in code:
        return []
    try:
        parsed = ast.parse(code.lstrip("# ")).body
    except SyntaxError:
        return []
    return [ast.dump(t) for s in parsed if isinstance(s, ast.Assign) for t in s.targets]


def _located(index: Index, edits: Sequence[Edit]) -> Located:
    """Edits with their nodes: if they come without, the outermost of its kind at its place."""
    wanted = {(e.span, _kind(e.operation)) for e in edits if e.node is None}
    starts = {span.line for span, _ in wanted}
    found: dict[tuple[Span, str], ast.AST] = {}
    for node in index.parents if wanted else ():
        if getattr(node, "lineno", 0) not in starts:
            continue
        key = (Span.of(node), _node_kind(node))
        if key in wanted:
            known = found.get(key)
            if known is None or known in index.ancestors(node):
                found.setdefault(key, node)
            else:
                found[key] = node
    for span, operation in wanted - found.keys():
        if operation == "statement":  # a run of statements: its first
            for node in index.parents:
                if isinstance(node, ast.stmt) and (node.lineno, node.col_offset) == (span.line, span.column):
                    found[span, operation] = node
        if (span, operation) not in found:
            raise CannotRewrite(f"line {span.line}: there is no such {operation}")
    return [(edit, edit.node or found[edit.span, _kind(edit.operation)]) for edit in edits]


def _kind(operation: Operation) -> str:
    if operation in STATEMENT_OPERATIONS or operation in (Operation.ADD_PARAMETER, Operation.TEST):
        return "statement"
    if operation is Operation.KEYWORD:
        return "keyword"
    if operation in (Operation.PARAMETER, Operation.DROP_PARAMETER):
        return "parameter"
    if operation is Operation.DROP_NAME:
        return "alias"
    return "expression"


def _node_kind(node: ast.AST) -> str:
    if isinstance(node, ast.stmt):
        return "statement"
    if isinstance(node, ast.expr):
        return "expression"
    return {ast.keyword: "keyword", ast.arg: "parameter", ast.alias: "alias"}.get(type(node), "")
