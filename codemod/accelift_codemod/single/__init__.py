"""Scripts that run on one process, and also distribute themselves if they are told to: the one for one process.

Research code often has both: `if args.distributed:` makes a process group, wraps the model, deals out the data. Without
the option it is a script as any other. Or only files that it imports can do both, for another script makes the process
group: `if not dist.is_initialized(): return 1`. Where nothing of the other way runs by default, it is taken out of the
script and its files, and what is left is converted.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from accelift_codemod.facts import Facts
from accelift_codemod.facts.index import Index
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Span
from accelift_codemod.project.importing import acts
from accelift_codemod.project.program import Program
from accelift_codemod.project.surface import distributing
from accelift_codemod.single.acting import Acting
from accelift_codemod.single.defaults import UNKNOWN, Defaults, Several
from accelift_codemod.single.expressions import Known
from accelift_codemod.single.files import Dead, Folded
from accelift_codemod.single.folding import CannotFold
from accelift_codemod.single.leftovers import imports, unused
from accelift_codemod.single.sums import combined
from accelift_codemod.single.switches import Switches
from accelift_codemod.source import BadSource, Source

_ROUNDS = 6
Understood = Callable[[Mapping[str, Source]], Facts]


@dataclass(frozen=True)
class Single:
    """A script, and the project files that it imports, without their own distribution."""

    files: Mapping[str, Folded]  # those of which something is taken out, by their paths as people see them
    path: str  # the script's
    switch: str  # the condition by which it distributes itself; empty if it never does
    at: tuple[str, int]  # the file in which that stands, and where
    assumed: tuple[str, ...] = ()  # modules of which nothing must make a process group
    sums: tuple[tuple[str, int, str], ...] = ()  # what losses lose with it: the file, the line, and what it is

    @property
    def sources(self) -> dict[str, Source]:
        """The files without what is taken out."""
        return {path: folded.source for path, folded in self.files.items()}


def single(understood: Understood) -> Single:
    """The script for one process in one that also distributes itself.

    Args:
        understood: the facts of the script with its files, with other sources of some files.

    Raises:
        Several: there is none to be told apart; with a reason, if nothing that the script runs makes a process group.
    """
    taking = _Taking(understood)
    source = taking.facts.source
    distributes = bool(taking.facts.processes.starts) or (isinstance(source, Source) and bool(distributing(source)))
    try:
        return taking.found()
    except Several as several:
        raise Several() if distributes else several.placed(taking.place) from None
    except (BadSource, RecursionError):
        raise Several("it is too deep, or is no Python any more") from None


class _Taking:
    """Takes the distribution out of a script and its files, step by step."""

    def __init__(self, understood: Understood) -> None:
        self.understood = understood
        self.files: dict[str, Folded] = {}
        self.facts = self._facts()  # of what is left so far

    def found(self) -> Single:
        before = self.facts
        switches = Switches(before)
        first = switches.first
        switch, at = ("", (before.source.path, 0)) if first is None else (before.short(first), self.place(first))
        sums = tuple((*self.place(call), before.short(what)) for what, call in combined(before, switches))
        own = before.tree.body[-1]  # of what others may take from files that the script imports, nothing goes
        self._fold(_truths(before, switches), _places(f for f in switches.gone if before.same_file(f, own)))
        for _ in range(_ROUNDS):
            self.facts = self._facts()
            if not self._fold({}, [*_places(unused(before, self.facts)), *self._imports(before)]):
                break
        asked = next(_asked(self.facts), None)
        if asked is not None:
            raise Several(f"asks for `{self.facts.short(asked)}`, which a conversion would not keep", asked)
        return Single(self.files, before.source.path, switch, at, tuple(switches.assumed), tuple(dict.fromkeys(sums)))

    def _facts(self) -> Facts:
        return self.understood({path: folded.source for path, folded in self.files.items()})

    def _imports(self, before: Facts) -> list[_Place]:
        """The names that the script itself imports, and that nothing in it uses any more."""
        (was, _), (source, base) = _parts(before)[-1], _parts(self.facts)[-1]
        found = imports(Index.of(source.tree), Index.of(was.tree), lambda statement: acts(source, statement))
        return [(kind, _moved(span, -base)) for kind, span in _places(found)]

    def place(self, node: ast.AST) -> tuple[str, int]:
        """The file in which a node stands, and the line as it was written."""
        line: int = node.lineno  # type: ignore[attr-defined]
        source, base = [part for part in _parts(self.facts) if part[1] < line][-1]
        folded = self.files.get(source.path)
        return source.path, folded.written_line(line - base) if folded is not None else line - base

    def _fold(self, truths: Mapping[Span, tuple[bool | None, bool]], dead: list[_Place]) -> bool:
        """Fold all files; whether anything has changed."""
        changed = False
        for source, base in _parts(self.facts):
            here = range(base + 1, base + len(source.lines) + 1)
            own = {_moved(span, base): known for span, known in truths.items() if span.line in here}
            gone = frozenset((kind, _moved(span, base)) for kind, span in dead if span.line in here)
            plain = frozenset(span for span, (_, is_plain) in own.items() if is_plain)
            before = self.files.get(source.path) or Folded.of(source)
            try:
                after = before.without(Known({span: truth for span, (truth, _) in own.items()}, plain), Dead(gone))
            except CannotFold as error:
                raise Several(f"{source.path} is laid out in a way that is not foreseen ({error})") from None
            if after.gone != before.gone:
                self.files[source.path] = after
                changed = True
        return changed


_Place = tuple[type[ast.AST], Span]


def _parts(facts: Facts) -> list[tuple[Source, int]]:
    """The files of a script, each with the number of lines before its own; the script is the last."""
    source = facts.source
    if isinstance(source, Program):
        return [(unit.source, unit.base) for unit in source.units]
    return [(source, 0)]


def _moved(span: Span, base: int) -> Span:
    return Span(span.line - base, span.column, span.end_line - base, span.end_column)


def _asked(facts: Facts) -> Iterator[ast.expr]:
    """What a script still does with other processes, and what it asks a launcher for."""
    yield from (node for node, _ in facts.processes.uses)
    defaults = Defaults(facts)
    for node in walk(facts.tree):
        of_environment = isinstance(node, ast.Compare) and facts.resolver.qualified(node.comparators[0]) == "os.environ"
        if defaults.variable(node) is not None or (of_environment and defaults.value(node) is not UNKNOWN):
            if isinstance(node, ast.expr) and not facts.idle(node):
                yield node


def _truths(facts: Facts, switches: Switches) -> dict[Span, tuple[bool | None, bool]]:
    """What tests are, by their places, and whether that is their very value. The tree may have several copies of one.

    What others have in the files that the script imports is left alone; so is what does more than telling it.
    """
    acting = Acting(facts, switches.truth, switches.dead)
    truths: dict[Span, bool | None] = {}
    plain: set[Span] = set()
    for node in walk(facts.tree):
        if isinstance(node, ast.expr) and hasattr(node, "end_lineno") and not facts.idle(node):
            truth, place = switches.truth(node), Span.of(node)
            truth = None if truth is not None and acting.acts(node) else truth
            truths[place] = truth if truths.get(place, truth) is truth else None
            if truth is not None and switches.is_plain(node, truth):
                plain.add(place)
    return {place: (truth, place in plain) for place, truth in truths.items()}


def _places(nodes: Iterable[ast.AST]) -> list[_Place]:
    return [(type(node), Span.of(node)) for node in nodes]
