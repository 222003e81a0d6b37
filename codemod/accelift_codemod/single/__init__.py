"""Scripts that run on one process, and also distribute themselves if they are told to: the one for one process.

Research code often has both: `if args.distributed:` makes a process group, wraps the model, deals out the data. Without
the option it is a script as any other. Where nothing of the other way runs by default, it is taken out, and what is
left is converted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace

from accelift_codemod.facts import Facts
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Span
from accelift_codemod.rewrite.layout import indentation
from accelift_codemod.single.defaults import UNKNOWN, Defaults, Several
from accelift_codemod.single.expected import expected
from accelift_codemod.single.expressions import Known
from accelift_codemod.single.folding import CannotFold, Dead, Folding, Gone
from accelift_codemod.single.leftovers import unused
from accelift_codemod.single.switches import Switches
from accelift_codemod.source import BadSource, Source

_ROUNDS = 6


@dataclass(frozen=True)
class Single:
    """A script without its own distribution."""

    original: Source
    source: Source
    lines: tuple[int, ...]  # for each line of the source, that of the original (from 1)
    switch: str  # the condition by which it distributes itself
    line: int  # where that stands, in the original
    gone: tuple[Gone, ...]  # what is taken out, in the original

    def written_line(self, line: int) -> int:
        """The original's line of a line; 0 stays."""
        return self.lines[min(line, len(self.lines)) - 1] if line > 0 else line

    def written(self, span: Span) -> Span:
        """The original's place of a place: what stood under a condition that is gone was further to the right."""
        first, last = self.written_line(span.line), self.written_line(span.end_line)
        ends = self._text(self.source, span.end_line)
        whole = span.end_column == len(ends.encode())  # a line may have become shorter
        end = len(self._text(self.original, last).encode()) if whole else span.end_column + self._shift(span.end_line)
        return Span(first, span.column + self._shift(span.line), last, end)

    def _shift(self, line: int) -> int:
        before, now = self._text(self.original, self.written_line(line)), self._text(self.source, line)
        return len(indentation(before)) - len(indentation(now))

    def _text(self, source: Source, line: int) -> str:
        return source.lines[line - 1].rstrip("\r\n") if 0 < line <= len(source.lines) else ""


def single(facts: Facts, source: Source) -> Single | None:
    """The script for one process in one that also distributes itself; None if there is none to be told apart."""
    try:
        switches = Switches(facts)
        found = _folded(source, _known(facts, switches), _at(switches.gone))
        for _ in range(_ROUNDS):
            left = [*unused(facts, found.source)]
            if not left:
                break
            more = _folded(found.source, Known(), _at(left))
            lines = tuple(found.lines[line - 1] for line in more.lines)
            gone = tuple((found.written(span), operation, code) for span, operation, code in more.gone)
            found = replace(found, source=more.source, lines=lines, gone=(*found.gone, *gone))
        if _asks(Facts(found.source, facts.known)):
            return None
    except (Several, CannotFold, BadSource, RecursionError):
        return None
    assert switches.first is not None
    return replace(found, switch=facts.short(switches.first), line=switches.first.lineno)


def _asks(facts: Facts) -> bool:
    """Whether a script still does something with other processes, or asks a launcher for them."""
    if facts.processes.uses:
        return True
    defaults = Defaults(facts)
    for node in walk(facts.tree):
        of_environment = isinstance(node, ast.Compare) and facts.resolver.qualified(node.comparators[0]) == "os.environ"
        if defaults.variable(node) is not None or (of_environment and defaults.value(node) is not UNKNOWN):
            return True
    return False


def _known(facts: Facts, switches: Switches) -> Known:
    """What tests are, by their places: the tree that is asked may have several copies of one."""
    truths: dict[Span, bool | None] = {}
    plain: set[Span] = set()
    for node in walk(facts.tree):
        if isinstance(node, ast.expr) and hasattr(node, "end_lineno"):
            truth, place = switches.truth(node), Span.of(node)
            truths[place] = truth if truths.get(place, truth) is truth else None
            if truth is not None and switches.defaults.value(node) is truth:
                plain.add(place)
    return Known(truths, frozenset(plain))


def _at(nodes: Iterable[ast.AST]) -> Dead:
    """Whether a node has the place and kind of one of these."""
    places = {(type(node), Span.of(node)) for node in nodes}
    return lambda node: isinstance(node, (ast.stmt, ast.alias)) and (type(node), Span.of(node)) in places


def _folded(source: Source, known: Known, dead: Dead) -> Single:
    """A script without the statements that are dead, and with one arm of the conditions that are known.

    Raises:
        CannotFold: its layout does not allow it.
    """
    folding = Folding(source, known, dead)
    folding.fold(source.tree.body)
    lines = folding.lines()
    text = "".join(line for line, _ in lines)
    try:
        folded = Source.decode(text.encode(source.encoding), source.path)
        same = ast.dump(folded.tree) == expected(source.text, known, dead)
    except (BadSource, UnicodeError):
        raise CannotFold("the text") from None
    if not same or _yields(folded.tree) != _yields(source.tree):  # a function without its last one is no generator
        raise CannotFold("the tree")
    return Single(source, folded, tuple(n for _, n in lines), "", 0, tuple(folding.gone))


def _yields(tree: ast.AST) -> int:
    return sum(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in walk(tree))
