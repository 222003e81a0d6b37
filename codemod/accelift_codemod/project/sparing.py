"""What others who use the files of a script would miss, and the conversion that keeps it for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import Index
from accelift_codemod.plan import Need
from accelift_codemod.project.sharing import Changed, Sharing
from accelift_codemod.results import FileResult
from accelift_codemod.source import Source

if TYPE_CHECKING:
    from accelift_codemod.single.files import Folded

Global = tuple[Path, str]
# With the globals that are gone, or called otherwise, and that other files take: whether each is only taken out.
Attempt = tuple[FileResult, Mapping[Global, bool]]


def sparing(
    work: Callable[[frozenset[Global]], Attempt], asking: Callable[[frozenset[Global]], Attempt] | None = None
) -> FileResult:
    """A conversion that keeps the globals which other files take, if there is one; else one that does not, with what
    becomes of the script if these are in its way: they ask for the state of the processes then, and stay. What is only
    taken out, where nothing reads it any more, stays for the others in any case."""
    result, lost = work(frozenset())
    spared = work(frozenset(lost))[0] if lost else None
    if spared is not None and spared.output is not None:
        return spared
    needless = frozenset(one for one, dropped in lost.items() if dropped)
    kept = work(needless)[0] if needless and len(needless) < len(lost) else None
    if kept is not None and kept.output is not None:
        result = kept
    other = asking(frozenset(lost))[0] if asking is not None and lost and result.otherwise is None else None
    if other is None or other.output is None:
        return result
    return replace(result, otherwise=replace(other, separable=False))  # what it shares has to be as it is then


def shared(
    script: Path,
    result: FileResult,
    files: Mapping[Path, tuple[Source, FileResult | None]],
    folded: Mapping[str, Folded] | None = None,
) -> Attempt:
    """The result of a script, with what others who use its files have to know; and what these would miss."""
    changed = [
        Changed(
            path,
            source.path,
            Index.of(source.tree),
            one.plan.edits if one is not None and one.plan else (),
            (folded or {}).get(source.path),
        )
        for path, (source, one) in files.items()
    ]
    sharing = Sharing(script, changed)
    told = replace(
        result,
        program=tuple(map(str, files)),
        separable=not any(e.need is Need.STRONG for file in changed if file.path != script for e in file.edits),
        changes=sharing.changes(),
        sharers=sharing.sharers,
    )
    return told, sharing.lost()
