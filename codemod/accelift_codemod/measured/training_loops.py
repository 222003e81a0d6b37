"""What a training loop measures: which of it is made that of all processes, and what is said of the rest."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.measured import divided_sums, texts
from accelift_codemod.measured.averaging import averaging
from accelift_codemod.measured.carried import carried
from accelift_codemod.measured.deciding import decides, deciding, filled_whole, made_whole, pacing
from accelift_codemod.measured.decisions import decisions, decisions_called
from accelift_codemod.measured.divided import by_batch_size
from accelift_codemod.measured.said import remedy, said_inside
from accelift_codemod.measured.said_after import said_after
from accelift_codemod.measured.shares import local_names
from accelift_codemod.measured.sums import Loop, Sets, adds_up, entries_of, is_read, reads_after, reduced, sums_of
from accelift_codemod.measured.yielded import parts_yielded, yielded
from accelift_codemod.plan import Edit, Finding, Severity


class TrainingLoop:
    """What a loop measures on one process's share. Each step settles some variables, the next ones those that are left.

    Attributes:
        local: the variables that hold such numbers.
        sums: those of them that the loop adds up, with the statements that do; `kept` has the first of these.
        decided: the sums that decisions depend on, and those that they are divided by.
        made: the edits that make numbers those of all processes.
    """

    def __init__(self, draft: Draft, loop: BatchLoop, node: Loop) -> None:
        self.draft, self.loop, self.node = draft, loop, node
        self.local = local_names(draft, loop, node)
        found = sums_of(node, self.local)
        self.sums = {name: s for name, s in found.items() if not self._leads_to_loss(name)}
        self.kept = {name: statements[0] for name, statements in self.sums.items()}
        # The sums of a loop that evaluates, too, are reduced whatever becomes of them (see phases.py).
        self.own = {} if loop.evaluates else self.kept
        self.ratios = _ratios(draft, loop, self.own)
        self.decided: set[str] = set()
        self.made: list[Edit] = []

    def settle(self) -> Iterator[Edit | Finding]:
        """What becomes of the numbers, and what is to be said of them."""
        yield from self._reduce_what_decides()
        yield from self._reduce_what_steers()
        yield from self._reduce_what_paces()
        yield from self._average_what_decides()
        yield from self._hand_on()
        yield from self._decide()
        printed = [name for name in self.own if name not in self.decided and name not in self.steering]
        yield from self._divide_by_the_whole(printed)
        printed = [name for name in printed if not self.whole.get(name)]
        yield from self._divide_by_batch_sizes(printed)
        yield from self._show(printed)

    # ---- what the script goes by

    def _reduce_what_decides(self) -> Iterator[Edit | Finding]:
        """Sums that decisions depend on, and those that they are divided by: all of them, or none, as a ratio of one
        reduced and one local value would be neither."""
        asked = {name for name, statement in self.own.items() if decides(self.draft, self.node, statement)}
        self.decided = _closed(asked, self.ratios)
        edits = {name: self._reduced(self.sums[name], rows=True) for name in sorted(self.decided)}
        self.reduces = all(edits.values())
        if self.reduces:
            for reductions in edits.values():
                self.made += reductions
                yield from reductions
            return
        self.decided = asked
        for name in sorted(asked):
            yield self._goes_by(name, self.kept[name], "a decision depends on it", self._remedy(self.kept[name]))

    def _reduce_what_steers(self) -> Iterator[Edit | Finding]:
        """What the loss of later iterations depends on."""
        self.steering = carried(self.draft, self.loop, self.node, self.local - self.decided)
        for name, statements in self.steering.items():
            reductions = self._reduced(statements)
            yield from reductions
            if not reductions:
                what = "the loss of later iterations depends on it"
                yield self._goes_by(name, statements[0], what, self._remedy(statements[0]))
        self.local = self.local - set(self.steering)

    def _reduce_what_paces(self) -> Iterator[Edit]:
        """Sums by which it is told when the training goes on."""
        paced = pacing(self.draft, self.loop, self.node, self.sums, self.local)
        for name in sorted(paced - self.decided):
            yield from self._reduced(self.sums[name])
        if paced:
            self.local = local_names(self.draft, self.loop, self.node, paced) - set(self.steering)
        self.decided |= paced

    def _average_what_decides(self) -> Iterator[Edit]:
        """Other numbers that decisions depend on."""
        self.others = deciding(self.draft, self.node, self.local - set(self.kept))
        same = self.decided if self.reduces else ()
        averages = made_whole(self.draft, self.loop, self.node, self.others, self.local, same)
        self.averaged = {name for name in self.others if averages[name]}
        self.joined = {edit.node for edits in averages.values() for edit in edits if edit.node is not None}
        for name in self.others:
            self.made += averages[name]
            yield from averages[name]
        self.local = self.local - self.averaged

    def _hand_on(self) -> Iterator[Edit | Finding]:
        """What a generator gives those who go through it."""
        self.yielding = yielded(self.draft, self.loop, self.node, self._unlike)
        for made_of in self.yielding.values():
            yield from made_of

    def _decide(self) -> Iterator[Finding]:
        """Decisions that are taken by what is left."""
        unlike = self._unlike
        taken = [*decisions(self.draft, self.node, unlike, self.others)]
        taken += decisions_called(self.draft, self.node, unlike, self.joined)
        yield from taken
        lines = {found.line for found in taken}
        for name, place in self.others.items():
            if name not in self.averaged and place.lineno not in lines:  # else it is said what some processes would do
                average = f"average it across processes with {self._averaging(name)} before it is used"
                yield self._goes_by(name, place, "a decision depends on it", average)

    @property
    def _unlike(self) -> set[str]:
        """The variables that differ from process to process."""
        return self.local - self.decided if self.reduces else self.local

    def _goes_by(self, name: str, place: ast.AST, what: str, instead: str) -> Finding:
        said = f"`{name}` is measured on one process's share of the data, and {what}"
        return self.draft.finding("COLL-RANKFLOW", Severity.ERROR, place, said, instead)

    # ---- what it shows

    def _divide_by_the_whole(self, printed: list[str]) -> Iterator[Edit | Finding]:
        """Sums over samples that are divided by the size of a data set, or by another number of the whole job."""
        draft, loop, node, local = self.draft, self.loop, self.node, self.local
        halved = [name for name in printed if divided_sums.by_the_whole(draft, loop, node, self.kept[name])]
        known = [name for name in printed if adds_up(draft, loop, self.kept[name])]
        scaled = {n for n in known if n in halved or divided_sums.by_a_number(draft, node, self.kept[n], local)}
        together = sorted(_closed(scaled, self.ratios) - self.decided)
        if any(
            divided_sums.by_a_share(draft, loop, node, self.kept[n], local, _closed({n}, self.ratios)) for n in together
        ):
            together = []
        self.whole = {name: self._reduced(self.sums[name]) for name in together}
        if not all(self.whole.values()):
            self.whole = {name: [] for name in together}
        self.entries = self._entries()
        self.whole |= {name: self._reduced(statements) for name, statements in self.entries.items()}
        for reductions in self.whole.values():
            self.made += reductions
            yield from reductions
        self.scaled = [name for name in (*halved, *self.entries) if not self.whole.get(name)]
        if self.scaled:
            names = ", ".join(f"`{n}`" for n in self.scaled)
            first = self.kept.get(self.scaled[0]) or self.entries[self.scaled[0]][0]
            found = draft.finding(
                "METRIC-TRAIN",
                Severity.WARNING,
                first,
                f"what {names} adds up on one process is divided by the size of the whole data set: on N processes the "
                "result is too small by a factor of about N",
                "sum it across processes with accelerator.reduce before the division",
            )
            yield replace(found, tells=tuple(self.scaled))

    def _divide_by_batch_sizes(self, printed: list[str]) -> Iterator[Finding]:
        """The first division by the size of the whole batch."""
        sums = {n for n in printed if adds_up(self.draft, self.loop, self.kept[n])}
        summed = {edit.node for edit in self.made}
        for division in by_batch_size(self.draft, self.loop, self.node, sums):
            if summed.isdisjoint(walk(division)):
                text = self.draft.facts.segment(division)
                found = self.draft.finding(
                    "METRIC-TRAIN",
                    Severity.WARNING,
                    division,
                    f"`{text}` divides what is added up over one process's share by the size of the whole batch: on N "
                    "processes the result is too small by a factor of about N",
                    "divide by the number of rows that there are, or sum it across processes with accelerator.reduce "
                    "first",
                )
                yield replace(found, tells=(text,))
                return

    def _show(self, printed: list[str]) -> Iterator[Finding]:
        """One note of all that covers only a share where it is shown."""
        told = {n.id for statements in self.entries.values() for n in loads(statements[0].target)}
        shown, ways = self._shown(printed)
        shown = {name: place for name, place in shown.items() if name not in told}
        opened = texts.opened(self.draft, shown, self.local)
        ways |= {name: ways[told_by] for name, (_, told_by) in opened.items()}
        places = {name: place for name, (place, _) in opened.items()}
        if places:
            holders = {holder for name in places for holder in accumulate(name.split(".")[:-1], "{}.{}".format)}
            named = [name for name in places if name not in holders]
            names = ", ".join(f"`{n}`" for n in named)
            tells = " or ".join(sorted({ways[name] for name in named}))
            covers, what = ("covers", "it") if len(named) == 1 else ("cover", "them")
            yield self.draft.finding(
                "METRIC-TRAIN",
                Severity.NOTE,
                places[named[0]],
                f"{names} {covers} only the share of the process that {tells} {what}",
                "gather the values if the exact figure matters",
            )

    def _shown(self, printed: list[str]) -> tuple[dict[str, ast.AST], dict[str, str]]:
        """Where each variable is shown, or added up for that, and how."""
        draft, node = self.draft, self.node
        sums = (n for n in printed if n not in self.scaled and is_read(draft, node, n) and not self._is_loss(n))
        places: dict[str, ast.AST] = {name: self.kept[name] for name in sums}
        left = set() if self.loop.evaluates else self.local - set(self.kept) - set(self.others)
        given = [n for part in parts_yielded(draft, node) if part not in self.yielding for n in loads(part)]
        last = {name: said_after(draft, node, name, [n for n in given if n.id == name]) for name in sorted(left)}
        left_to = {name: told for name, told in last.items() if told is not None}
        places |= {name: read for name, (read, _) in left_to.items()}
        whole = self.decided | set(self.others) | (set(self.kept) - set(self.own))
        whole |= filled_whole(draft, node, self.local)
        summed = {edit.node for edit in self.made}
        said = said_inside(draft, self.loop, node, self.local - whole, summed)
        ways = {name: self._way(name) for name in places} | {name: how for name, (_, how) in (left_to | said).items()}
        seen = {name: read for name, (read, _) in said.items() if name not in self.scaled}
        return places | {name: read for name, read in seen.items() if not self.whole.get(name)}, ways

    def _way(self, name: str) -> str:
        """How it is shown what the loop adds up, as far as that can be told."""
        told = said_after(self.draft, self.node, name, [])
        return told[1] if told is not None else "keeps"

    # ---- of one variable

    def _reduced(self, statements: Sequence[Sets], rows: bool = False) -> list[Edit]:
        return reduced(self.draft, self.loop, statements, self.local, rows=rows)

    def _remedy(self, statement: Sets) -> str:
        return remedy(self.draft, self.loop, statement)

    def _averaging(self, name: str) -> str:
        """What makes what the loop leaves in a variable that of all processes."""
        sets = (s for outer in self.node.body for s in walk(outer) if isinstance(s, (ast.Assign, ast.AugAssign)))
        made = [s for s in sets if name in {n for target in targets(s) for n in stores(target)}]
        found = [averaging(self.draft, s, s.value) for s in made]
        return found[0] if len(set(found)) == 1 else 'accelerator.reduce(..., "mean")'

    def _entries(self) -> dict[str, list[ast.AugAssign]]:
        """The sums in lists and dicts that are divided by the length of a data set, and decide nothing."""
        found = {} if self.loop.evaluates else entries_of(self.node, self.local)
        return {
            name: statements
            for name, statements in found.items()
            if all(divided_sums.by_the_whole(self.draft, self.loop, self.node, one) for one in statements)
            and self.others.keys().isdisjoint(n.id for n in loads(statements[0].target))
        }

    def _leads_to_loss(self, name: str) -> bool:
        """Whether gradients flow back through what the loop leaves in a variable."""
        leading = self.draft.facts.loops.gradients.reads
        return not leading.isdisjoint(reads_after(self.draft, self.node, name))

    def _is_loss(self, name: str) -> bool:
        """Whether what the loop adds up is only read beside what leads to a loss: `total / count`."""
        reads = reads_after(self.draft, self.node, name)
        leading = self.draft.facts.loops.gradients.reads
        statements = map(self.draft.facts.index.statement, reads)
        return bool(reads) and all(any(n in leading for n in walk(statement)) for statement in statements)


def _ratios(draft: Draft, loop: BatchLoop, sums: Collection[str]) -> list[set[str]]:
    """The sums that the function of a loop divides by each other: they are to be of the same samples."""
    found: list[set[str]] = []
    for division in () if len(sums) < 2 else walk(loop.function or draft.facts.tree):
        if isinstance(division, ast.BinOp) and isinstance(division.op, ast.Div):
            sides = [{n.id for n in loads(side)} & set(sums) for side in (division.left, division.right)]
            if all(sides):
                found.append(sides[0] | sides[1])
    return found


def _closed(names: set[str], groups: list[set[str]]) -> set[str]:
    """Names, with all that are in a group with one of them."""
    found = set(names)
    while more := {name for group in groups if group & found for name in group} - found:
        found |= more
    return found
