"""Averages, across processes, what the training loop measures and the script decides by."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import accumulate

from accelift_codemod.chance.noise import alike
from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Role, position
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.parts import BATCH_LIKE
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.following.held_outside import reads_elsewhere
from accelift_codemod.following.keys import same_entries
from accelift_codemod.following.onward import Read, header, is_within, object_reads, reads_of, returned, with_callers
from accelift_codemod.following.other_names import reads_by_others
from accelift_codemod.measured import chance_around, texts
from accelift_codemod.measured.added import sums_something
from accelift_codemod.measured.averaging import averaging
from accelift_codemod.measured.by_clock import timed_around
from accelift_codemod.measured.called_back import measured
from accelift_codemod.measured.carried import carried
from accelift_codemod.measured.carrying_objects import carrying
from accelift_codemod.measured.counting import RULE
from accelift_codemod.measured.counting_networks import counted
from accelift_codemod.measured.deciding import decides, deciding, filled_whole, made_whole, pacing, reads_of_place
from accelift_codemod.measured.decisions import decisions, decisions_called, layers_by_chance
from accelift_codemod.measured.divided import by_batch_size, is_weighed
from accelift_codemod.measured.divisors import as_number, is_alike, is_whole
from accelift_codemod.measured.drawn_settings import drawn_settings
from accelift_codemod.measured.estimates import estimates
from accelift_codemod.measured.hooked import hooked
from accelift_codemod.measured.said import is_only_set, remedy, said_inside
from accelift_codemod.measured.shares import local_names
from accelift_codemod.measured.sums import (
    GRAPHS,
    Loop,
    adds_up,
    entries_of,
    is_read,
    reads_after,
    reduced,
    sums_of,
)
from accelift_codemod.measured.taken import EVEN, ROWS
from accelift_codemod.measured.yielded import parts_yielded, yielded
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule


class TrainMetrics(Rule):
    """Reduces, across processes, a value of the training loop by which the script later takes a decision.

    Each process measures its own share, so a learning-rate schedule, an early stop or a "best so far" that follows
    such a value would differ from process to process: the models drift apart, or one process waits for the others for
    ever. A sum over samples that is divided by the size of the whole data set, or by another number that all
    processes have, is reduced, too. Any other running loss that is only printed is left alone, and reported.
    """

    code = RULE
    name = "decisions on training values"
    before = """\
running += loss.item()
...
scheduler.step(running / len(loader))
"""
    after = """\
running += accelerator.batch_mean(loss.detach()).item()
...
scheduler.step(running / len(loader))
"""
    assumptions = (EVEN, GRAPHS, ROWS)
    findings = (
        Explained(
            "METRIC-TRAIN",
            Severity.NOTE,
            "training statistics of one process's share",
            "What the training loop adds up (a running loss, an accuracy), or leaves behind (the last loss), covers "
            "the share of the process that prints it, shows it beside its progress bar, or writes it to a file: means "
            "are estimates, sums and counts are smaller by the number of processes. It is a warning where a sum or "
            "count is divided by the size of the whole data or batch, where an iteration decides by it which "
            "checkpoint is kept, and where rows of a share are picked that it may not have.",
        ),
        Explained(
            "COLL-RANKFLOW",
            Severity.ERROR,
            "a decision that processes may take differently",
            "A decision depends on a value that differs from process to process: some leave a loop, or change the "
            "learning rate, and others do not. A loop that runs backward for every piece of a batch decides, too: "
            "processes with smaller shares have fewer pieces. Unseeded draws that decide which layers run, or that a "
            "learning rate, a layer or a size of batches is set to, do so, too.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for loop in draft.blueprint.train_loops:
            if not isinstance(loop.node, ast.comprehension) and not alike(draft, loop):
                made = list(self._loop(draft, loop, loop.node))
                yield from made
                yield from estimates(draft, loop, made)
        for loop in draft.blueprint.attacking_loops:
            if not isinstance(loop.node, ast.comprehension) and _waits(draft, loop):
                local = local_names(draft, loop, loop.node)
                yield from decisions(draft, loop.node, local)
                yield from decisions_called(draft, loop.node, local)
        yield from timed_around(draft)
        yield from layers_by_chance(draft)
        yield from chance_around.decided(draft)
        yield from drawn_settings(draft)
        yield from counted(draft)
        yield from carrying(draft)
        yield from hooked(draft)
        for node, shown in measured(draft.facts):
            if shown and draft.facts.resolver.roles(node) & BATCH_LIKE:
                yield draft.finding(
                    "METRIC-TRAIN",
                    Severity.NOTE,
                    node,
                    f"`{draft.facts.segment(node)}` covers only the share of the process that shows it",
                    "gather the values if the exact figure matters",
                )

    def _loop(self, draft: Draft, loop: BatchLoop, node: Loop) -> Iterator[Edit | Finding]:
        local = local_names(draft, loop, node)
        sums = {name: s for name, s in sums_of(node, local).items() if not self._leads_to_loss(draft, node, name)}
        kept = {name: statements[0] for name, statements in sums.items()}
        # The sums of a loop that evaluates, too, are reduced whatever becomes of them (see phases.py).
        own = {} if loop.evaluates else kept
        ratios = _ratios(draft, loop, own)
        asked = {name for name, statement in own.items() if decides(draft, node, statement)}
        decided = _closed(asked, ratios)
        edits = {name: reduced(draft, loop, sums[name], local, rows=True) for name in sorted(decided)}
        if all(edits.values()):  # a ratio of one reduced and one local value would be neither
            for reductions in edits.values():
                yield from reductions
        else:
            decided = asked
            for name in sorted(asked):
                yield draft.finding(
                    "COLL-RANKFLOW",
                    Severity.ERROR,
                    kept[name],
                    f"`{name}` is measured on one process's share of the data, and a decision depends on it",
                    remedy(draft, loop, kept[name]),
                )
        steering = carried(draft, loop, node, local - decided)
        for name, statements in steering.items():
            reductions = reduced(draft, loop, statements, local)
            yield from reductions
            if not reductions:
                yield draft.finding(
                    "COLL-RANKFLOW",
                    Severity.ERROR,
                    statements[0],
                    f"`{name}` is measured on one process's share of the data, and the loss of later iterations "
                    "depends on it",
                    remedy(draft, loop, statements[0]),
                )
        local = local - set(steering)
        paced = pacing(draft, loop, node, sums, local)
        for name in sorted(paced - decided):
            yield from reduced(draft, loop, sums[name], local)
        local = local_names(draft, loop, node, paced) - set(steering) if paced else local
        decided |= paced
        others = deciding(draft, node, local - set(kept))
        averages = made_whole(draft, loop, node, others, local, decided if all(edits.values()) else ())
        for name in others:
            yield from averages[name]
            if averages[name]:
                local = local - {name}
        unlike = local - decided if all(edits.values()) else local
        yielding = yielded(draft, loop, node, unlike)
        for made_of in yielding.values():
            yield from made_of
        taken = [*decisions(draft, node, unlike, others), *decisions_called(draft, node, unlike)]
        yield from taken
        lines = {found.line for found in taken}
        for name, place in others.items():
            if not averages[name] and place.lineno not in lines:  # else it is said what some processes would do
                yield draft.finding(
                    "COLL-RANKFLOW",
                    Severity.ERROR,
                    place,
                    f"`{name}` is measured on one process's share of the data, and a decision depends on it",
                    f"average it across processes with {self._averaging(draft, node, name)} before it is used",
                )
        printed = [name for name in own if name not in decided and name not in steering]
        halved = [name for name in printed if self._by_the_whole(draft, loop, node, kept[name])]
        known = [name for name in printed if adds_up(draft, loop, kept[name])]
        scaled = [n for n in known if n in halved or self._by_a_number(draft, node, kept[n], local)]
        together = sorted(_closed(set(scaled), ratios) - decided)
        if any(self._by_a_share(draft, loop, node, kept[n], local, _closed({n}, ratios)) for n in together):
            together = []
        whole = {name: reduced(draft, loop, sums[name], local) for name in together}
        if not all(whole.values()):
            whole = {name: [] for name in together}
        entries = {} if loop.evaluates else self._entries(draft, loop, node, local)
        entries = {name: s for name, s in entries.items() if not {n.id for n in loads(s[0].target)} & others.keys()}
        whole |= {name: reduced(draft, loop, statements, local) for name, statements in entries.items()}
        for name in whole:
            yield from whole[name]
        printed = [name for name in printed if not whole.get(name)]
        scaled = [name for name in (*halved, *entries) if not whole.get(name)]
        if scaled:
            names = ", ".join(f"`{n}`" for n in scaled)
            first = kept.get(scaled[0]) or entries[scaled[0]][0]
            found = draft.finding(
                "METRIC-TRAIN",
                Severity.WARNING,
                first,
                f"what {names} adds up on one process is divided by the size of the whole data set: on N processes the "
                "result is too small by a factor of about N",
                "sum it across processes with accelerator.reduce before the division",
            )
            yield replace(found, tells=tuple(scaled))
        shown = (n for n in printed if n not in scaled and self._is_shown(draft, node, n))
        places: dict[str, ast.AST] = {name: kept[name] for name in shown}
        left = set() if loop.evaluates else local - set(kept) - set(others)
        divided = by_batch_size(draft, loop, node, {n for n in printed if adds_up(draft, loop, kept[n])})
        made = (*(edits.values() if all(edits.values()) else ()), *averages.values(), *whole.values())
        summed = {edit.node for group in made for edit in group}  # over all processes
        for division in [d for d in divided if summed.isdisjoint(walk(d))][:1]:
            found = draft.finding(
                "METRIC-TRAIN",
                Severity.WARNING,
                division,
                f"`{draft.facts.segment(division)}` divides what is added up over one process's share by the size of "
                "the whole batch: on N processes the result is too small by a factor of about N",
                "divide by the number of rows that there are, or sum it across processes with accelerator.reduce first",
            )
            yield replace(found, tells=(draft.facts.segment(division),))
        given = [n for part in parts_yielded(draft, node) if part not in yielding for n in loads(part)]
        last = {name: self._said_after(draft, node, name, [n for n in given if n.id == name]) for name in sorted(left)}
        places |= {name: read for name, read in last.items() if read is not None}
        whole_here = decided | set(others) | (set(kept) - set(own)) | filled_whole(draft, node, local)
        said = said_inside(draft, loop, node, local - whole_here, summed)
        ways = dict.fromkeys(places, "prints") | {name: how for name, (_, how) in said.items()}
        places |= {name: read for name, (read, _) in said.items() if name not in scaled and not whole.get(name)}
        told = {n.id for statements in entries.values() for n in loads(statements[0].target)}
        places = {name: place for name, place in places.items() if name not in told}
        opened = texts.opened(draft, places, local)
        ways |= {name: ways[told_by] for name, (_, told_by) in opened.items()}
        places = {name: place for name, (place, _) in opened.items()}
        if places:
            holders = {holder for name in places for holder in accumulate(name.split(".")[:-1], "{}.{}".format)}
            printed = [name for name in places if name not in holders]
            names = ", ".join(f"`{n}`" for n in printed)
            tells = " or ".join(sorted({ways[name] for name in printed}))
            covers, what = ("covers", "it") if len(printed) == 1 else ("cover", "them")
            yield draft.finding(
                "METRIC-TRAIN",
                Severity.NOTE,
                places[printed[0]],
                f"{names} {covers} only the share of the process that {tells} {what}",
                "gather the values if the exact figure matters",
            )

    def _averaging(self, draft: Draft, node: Loop, name: str) -> str:
        """What makes what a loop leaves in a variable that of all processes."""
        sets = (s for outer in node.body for s in walk(outer) if isinstance(s, (ast.Assign, ast.AugAssign)))
        made = [s for s in sets if name in {n for target in targets(s) for n in stores(target)}]
        found = [averaging(draft, s, s.value) for s in made]
        return found[0] if len(set(found)) == 1 else 'accelerator.reduce(..., "mean")'

    def _entries(self, draft: Draft, loop: BatchLoop, node: Loop, local: set[str]) -> dict[str, list[ast.AugAssign]]:
        """The sums in lists and dicts that are divided by the length of a data set."""
        found = entries_of(node, local)
        return {n: s for n, s in found.items() if all(self._by_the_whole(draft, loop, node, one) for one in s)}

    def _by_the_whole(self, draft: Draft, loop: BatchLoop, node: Loop, statement: ast.AugAssign) -> bool:
        """Whether a sum over samples is divided by the length of a data set, which is that of the whole job."""
        if not (adds_up(draft, loop, statement) or sums_something(draft, statement.value)):
            if not is_weighed(draft, loop, statement.value):
                return False
        return any(is_whole(draft, loop, divisor) for divisor in self._divisors(draft, node, statement))

    def _by_a_number(self, draft: Draft, node: Loop, statement: ast.AugAssign, local: set[str]) -> bool:
        """Whether a sum is divided by a number that every process has: what it is to be of is the whole job's."""
        return any(is_alike(draft, node, divisor, local) for divisor in self._divisors(draft, node, statement))

    def _by_a_share(
        self, draft: Draft, loop: BatchLoop, node: Loop, statement: ast.AugAssign, local: set[str], beside: set[str]
    ) -> bool:
        """Whether a sum is divided by what may be counted on one process, and is not among the sums beside it."""
        return any(
            not (isinstance(divisor, ast.Name) and divisor.id in beside)
            and not is_whole(draft, loop, divisor)
            and not is_alike(draft, node, divisor, local)
            for divisor in self._divisors(draft, node, statement)
        )

    def _divisors(self, draft: Draft, node: Loop, statement: ast.AugAssign) -> Iterator[ast.expr]:
        """What that which a statement adds up is divided by, after the loop."""
        target = statement.target
        base = target.value if isinstance(target, ast.Subscript) else target
        assert isinstance(base, ast.Name)
        parents = draft.facts.index.parents
        later = reads_after(draft, node, base.id)
        for load in with_callers(draft, later) if base is target else later:
            number: ast.AST = load
            if isinstance(target, ast.Subscript):
                number = parents[load]
                if not isinstance(number, ast.Subscript) or ast.dump(number.slice) != ast.dump(target.slice):
                    continue
            number = as_number(draft, number)
            parent = parents.get(number)
            while isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):  # `100 * correct / len(data)`
                number = as_number(draft, parent)
                parent = parents.get(number)
            if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.left is number:
                yield parent.right
            if isinstance(parent, ast.AugAssign) and parent.target is number and isinstance(parent.op, ast.Div):
                yield parent.value
        owner = draft.facts.index.scope(node).owner(base.id)
        for binding in owner.bindings[base.id] if base is target and owner is not None else ():
            again = draft.facts.index.statement(binding.node)
            if isinstance(again, ast.AugAssign) and isinstance(again.op, ast.Div):
                if again.lineno > (node.end_lineno or 0):
                    yield again.value

    def _said_after(self, draft: Draft, node: Loop, name: str, given: list[ast.Name]) -> Read | None:
        """Where what the last iteration left in a variable goes into a call for its effect: printed, logged, kept.

        What is returned, or `given` to those who go through the generator, goes there from where it is called.
        """
        shown = {read for read, _ in measured(draft.facts)}  # which is said there
        held = (
            *reads_after(draft, node, name),
            *reads_elsewhere(draft, node, name),
            *reads_by_others(draft, node, name),
        )
        held += (*given,)
        reads = [r for r in (*held, *reads_of_place(draft, node, name)) if r not in shown]
        queue: list[tuple[Read, Read]] = [(load, load) for load in same_entries(draft, node, name, reads)]
        seen = {read for _, read in queue}
        while queue:
            place, read = queue.pop(0)
            if Role.WRITER in draft.facts.resolver.roles(read):
                continue  # it shows what it is given, and measures nothing
            statement = draft.facts.index.statement(read)
            leads = read in draft.facts.loops.gradients.reads  # to a loss, which may be told of, too
            if leads and not isinstance(statement, (ast.Assign, ast.AugAssign)):
                continue
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                if statement.value is read or draft.facts.loops.is_backward(statement.value):
                    continue  # nobody asks what the function returns; a loss is gone back from
                if is_only_set(draft, statement.value, read):
                    continue
                return place
            more: list[Read] = []
            if isinstance(statement, (ast.Assign, ast.AugAssign)):  # `mean = sum(losses) / n`
                more += reads_of(draft, statement)
                more += self._entries_after(draft, statement)  # `result["loss"] = mean`
            elif isinstance(statement, ast.Return):
                more += returned(draft, read, statement)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield):
                more += returned(draft, read, statement.value)
            elif isinstance(statement, (ast.For, ast.AsyncFor)) and is_within(draft, read, statement.iter):
                more += reads_of(draft, header(statement))  # `for name, meter in meters.items()`
            here = draft.function(read) is draft.function(node) and not isinstance(statement, ast.Return)
            queue += [(n if here else place, n) for n in more if n not in seen]
            seen.update(more)
        return None

    def _entries_after(self, draft: Draft, statement: ast.Assign | ast.AugAssign) -> Iterator[Read]:
        """Later reads of the entries that a statement sets, in the object that its variable holds there."""
        bindings = draft.facts.resolver.bindings
        for target in (t for t in targets(statement) if isinstance(t, ast.Subscript)):
            held = {b for n in walk(target.value) if isinstance(n, ast.Name) for b in bindings(n)}
            for read in object_reads(draft, target):
                if position(read) > position(statement):
                    if not isinstance(read, ast.Name) or held.intersection(bindings(read)):
                        yield read

    def _leads_to_loss(self, draft: Draft, node: Loop, name: str) -> bool:
        """Whether gradients flow back through what the loop leaves in a variable."""
        return not draft.facts.loops.gradients.reads.isdisjoint(reads_after(draft, node, name))

    def _is_shown(self, draft: Draft, node: Loop, name: str) -> bool:
        """Whether what the loop adds up is read later, and not only for a loss."""
        return is_read(draft, node, name) and not self._is_loss(draft, node, name)

    def _is_loss(self, draft: Draft, node: Loop, name: str) -> bool:
        """Whether what the loop adds up is only read beside what leads to a loss: `total / count`."""
        statements = map(draft.facts.index.statement, reads := reads_after(draft, node, name))
        leading = draft.facts.loops.gradients.reads
        return bool(reads) and all(any(n in leading for n in walk(statement)) for statement in statements)


def _waits(draft: Draft, loop: BatchLoop) -> bool:
    """Whether the processes compute something together in an iteration: a network that is prepared."""
    functions = {f for s in loop.body for f in draft.blueprint.timeline.calls_into(s)}
    calls = (n for part in (*loop.body, *functions) for n in walk(part) if isinstance(n, ast.Call))
    return any(draft.blueprint.prepared_models(call.func) for call in calls)


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
