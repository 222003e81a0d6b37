"""Files that are made because they are missing: by one process first."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance.uneven_draws import uneven_draw
from accelift_codemod.draft import Draft
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "CACHE"


class MadeFiles(Rule):
    """Puts what makes a file before training, if it is missing, under `with accelerator.main_process_first():`.

    The main process asks for the file first, and makes it; the others wait, and find it whole. If a function or a class
    makes it, such as a data set with a cache, the statement that calls it is put under it.
    """

    code = _RULE
    name = "files made if they are missing"
    before = """\
if not os.path.exists("cache.pt"):
    torch.save(encode(texts), "cache.pt")
cached = torch.load("cache.pt")
"""
    after = """\
with accelerator.main_process_first():
    if not os.path.exists("cache.pt"):
        torch.save(encode(texts), "cache.pt")
cached = torch.load("cache.pt")
"""
    findings = (
        Explained(
            "CACHE-RACE",
            Severity.WARNING,
            "every process makes the same missing file",
            "Every process asks whether a file is there, and makes it if it is missing, at the same time. One may read "
            "what another is half way through writing.",
        ),
        Explained(
            "CACHE-RNG",
            Severity.WARNING,
            "only the process that makes a missing file draws for it",
            "What makes the file draws random numbers. The process that makes it is further in its stream of random "
            "numbers than the others, which find the file, so that all they draw afterwards differs, although they "
            "are seeded alike: a split, a permutation.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        yield from self._uneven(draft)
        enclosed: set[ast.stmt] = set()
        for call, statements in draft.caches.made.items():
            for statement in statements:
                if any(s in enclosed for s in (statement, *draft.facts.index.ancestors(statement))):
                    continue
                enclosed.add(statement)
                yield draft.edit(
                    _RULE,
                    statement,
                    Operation.ENCLOSE,
                    "the others find what the main process has made",
                    "with {accelerator}.main_process_first():",
                    need=Need.WEAK,
                    otherwise=self._race(draft, call),
                )
        for call in draft.caches.left:
            yield self._race(draft, call)

    def _race(self, draft: Draft, call: ast.Call) -> Finding:
        return draft.finding(
            "CACHE-RACE",
            Severity.WARNING,
            call,
            "every process makes this file if it is missing, at the same time",
            "make it before launching, or under `with accelerator.main_process_first():`",
        )

    def _uneven(self, draft: Draft) -> Iterator[Finding]:
        """One warning, at the first file whose making leaves the processes' random numbers apart."""
        for call in draft.caches.made:
            found = uneven_draw(draft, call, draft.caches.making(call))
            if found is not None:
                drawn, later = found
                by_call = isinstance(drawn, ast.Call)
                what = f"`{draft.facts.segment(drawn.func)}`" if by_call else "the loop"  # type: ignore[attr-defined]
                yield draft.finding(
                    "CACHE-RNG",
                    Severity.WARNING,
                    drawn,
                    f"{what} takes random numbers only on the process that makes a missing file, so that "
                    f"`{draft.facts.segment(later.func)}` afterwards draws others there than on the other processes",
                    "seed the generator again after it, or make the file before launching",
                )
                return
