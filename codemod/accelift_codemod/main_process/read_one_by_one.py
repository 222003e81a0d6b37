"""Files that the main process writes one by one, and that a loop or a function reads again later: frames of a film."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts import library, paths, position
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.main_process.in_expressions import WRITES_BY_NAME

_CALLS = 3  # of functions, from where a file is named to where it is read or written
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FIELD = re.compile(r"%[0-9.]*[a-z]|\{[^}]*\}")  # what is put into a name
_LETTERS = 3  # of a word that tells files apart

# A call that reads or writes a file, or one of a function that does, and the words in the name of the file.
_Place = tuple[ast.Call, frozenset[str]]


def read_later(draft: Draft, reads: Sequence[ast.Call], writes: Sequence[ast.Call]) -> list[tuple[ast.stmt, ast.Call]]:
    """The outermost statements behind those by which libraries write files that have them read files of such names, and
    what reads there; the first one of several in a row."""
    of_libraries = (call for call in writes if draft.facts.resolver.qualified(call.func) in WRITES_BY_NAME)
    written = [place for one in of_libraries for place in _places(draft, one, _given(one), frozenset(), _CALLS)]
    found: dict[ast.stmt, tuple[ast.Call, list[ast.Call]]] = {}
    for read in reads if written else ():
        if draft.facts.resolver.qualified(read.func) not in library.READS or not _is_one_of_several(draft, read):
            continue
        for place, words in _places(draft, read, draft.reading.paths(read), frozenset(), _CALLS):
            of = [write for write, named in written if _are_alike(words, named) and _follows(draft, place, write)]
            if of:
                found.setdefault(_outermost(draft, place, of[-1]), (read, of))
                break
    first: list[tuple[ast.stmt, ast.Call]] = []
    for statement in sorted(found, key=position):
        read, of = found[statement]
        block, last = draft.facts.index.block(statement)[0], max(map(position, of))
        if not any(one in block and last < position(one) < position(statement) for one, _ in first):
            first.append((statement, read))
    return first


def _is_one_of_several(draft: Draft, read: ast.Call) -> bool:
    """Whether a loop reads another file in each iteration: its name has what the loop binds."""
    of = [part for one in draft.reading.paths(read) for part in paths.parts(draft.facts.resolver, one)]
    named = {n.id for part in of for n in walk(part) if isinstance(n, ast.Name)}
    function = draft.function(read)
    for loop in draft.facts.index.ancestors(read):
        if loop is function:
            break
        targets = [g.target for g in loop.generators] if isinstance(loop, _COMPREHENSIONS) else []
        targets += [loop.target] if isinstance(loop, (ast.For, ast.AsyncFor)) else []
        if any(isinstance(n, ast.Name) and n.id in named for target in targets for n in walk(target)):
            return True
    return False


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)]


def _places(
    draft: Draft, call: ast.Call, given: Sequence[ast.expr], words: frozenset[str], depth: int
) -> Iterator[_Place]:
    """A call, and those of the functions that it is in, each with the words that name the file so far."""
    of = [part for one in given for part in paths.parts(draft.facts.resolver, one)]
    constants = (n.value for part in of for n in walk(part) if isinstance(n, ast.Constant))
    texts = (text for value in constants if isinstance(value, str) for text in _FIELD.split(value))
    words |= {text for text in texts if sum(map(str.isalpha, text)) >= _LETTERS and not text.startswith(".")}
    yield call, words
    function = draft.function(call)
    for site in draft.facts.resolver.sites(function) if isinstance(function, FUNCTIONS) and depth else ():
        bound = draft.facts.resolver.bind(site, function) or {}  # type: ignore[arg-type]
        names = dict.fromkeys(n.id for part in of for n in walk(part) if isinstance(n, ast.Name))
        yield from _places(draft, site, [bound[name] for name in names if name in bound], words, depth - 1)


def _are_alike(words: frozenset[str], others: frozenset[str]) -> bool:
    """Whether a word of one name is in another one."""
    return any(word in other or other in word for word in words for other in others)


def _follows(draft: Draft, read: ast.Call, write: ast.Call) -> bool:
    """Whether a read comes after a write, in a function that does both, in another statement than that."""
    if draft.function(read) is not draft.function(write) or position(read) < position(write):
        return False
    around = draft.facts.index.ancestors(write)
    return not draft.blueprint.timeline.exclusive(write, read) and _outermost(draft, read, write) not in around


def _outermost(draft: Draft, read: ast.Call, write: ast.Call) -> ast.stmt:
    """The statement around a read that stands beside the one which writes, or what is around that."""
    around = {*draft.facts.index.ancestors(write)}
    statement = draft.facts.index.statement(read)
    for parent in draft.facts.index.ancestors(statement):
        if parent in around:
            return statement
        if isinstance(parent, ast.stmt):
            statement = parent
    return statement
