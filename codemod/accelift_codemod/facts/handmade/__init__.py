"""Training loops without a loader: how they make their batches, and whether these can be shared out."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from accelift_codemod.facts import hooks
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.handmade.dealing import Dealing
from accelift_codemod.facts.handmade.proof import HARMLESS, Proof, has_rows, stored
from accelift_codemod.facts.handmade.steps import NotProved, Step, UsedLater
from accelift_codemod.facts.handmade.whole import Whole
from accelift_codemod.facts.index import FUNCTIONS, Function, parameters
from accelift_codemod.facts.layout import Environment, Layout, Picked
from accelift_codemod.facts.loops import BatchLoop
from accelift_codemod.facts.timeline import Timeline

if TYPE_CHECKING:
    from accelift_codemod.facts import Facts

Region = tuple[ast.AST, list[ast.stmt], Environment]
_LOOPS = (ast.For, ast.While)
_COUNTED = (Layout.COUNT, Layout.SHAPE, Layout.COLUMNS)


class Handmade:
    """Finds the loops that train without a loader."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.index = facts.index
        self.resolver = facts.resolver
        self.layouts = Picked(facts.objects, facts.extents, lambda: hooks.registered(facts))
        self.proof = Proof(self)

    @cached_property
    def steps(self) -> dict[ast.AST, Step]:
        """By loop: those innermost around a backward pass that no loader feeds."""
        found: dict[ast.AST, Step] = {}
        for call in self.facts.loops.backwards:
            loops = self.index.enclosing_loops(call)
            if not loops or not self.facts.runs(call) or self._fed(call, set()):
                continue
            node = loops[0]
            if isinstance(node, (ast.For, ast.While)) and node not in found:
                found[node] = self._step(node)
        for call in self._apart:
            step = self._handed(call)
            if step is not None:
                found.setdefault(step.loop.node, step)
        return found

    @cached_property
    def _apart(self) -> list[ast.Call]:
        """Backward passes that no loader feeds and that are in no loop of their function."""
        return [
            call
            for call in self.facts.loops.backwards
            if self.facts.runs(call) and not self.index.enclosing_loops(call) and not self._fed(call, set())
        ]

    @cached_property
    def loose(self) -> list[ast.Call]:
        """Those of them whose function no loop hands its batches to."""
        handed = {step.function for step in self.steps.values()} - {None}
        return [call for call in self._apart if self.index.function(call) not in handed]

    @property
    def sharable(self) -> bool:
        """Whether there are such loops, and the batches of every one can be shared out."""
        steps = self.steps.values()
        return bool(steps) and not self.loose and all(step.names for step in steps) and not self._within_another

    @property
    def _within_another(self) -> bool:
        """Whether a loop runs inside another one, of which one trains on the whole data: these are dealt once, and what
        is dealt later would be taken for what its losses are over."""
        runs = {step.loop.node: self._runs(step) for step in self.steps.values()}
        whole = {step.loop.node for step in self.steps.values() if step.whole}
        return any(
            inner is not outer
            and bool(whole & {inner, outer})
            and (outer in self.index.ancestors(inner) or self.index.function(inner) in functions)
            for outer, functions in runs.items()
            for inner in runs
        )

    def _runs(self, step: Step) -> set[Function]:
        """The functions that a loop may run."""
        timeline, node = Timeline(self.resolver), step.loop.node
        body = node.body if isinstance(node, _LOOPS) else []
        return {function for statement in body for function in timeline.calls_into(statement)}

    @cached_property
    def _loaded(self) -> set[ast.AST]:
        """The loops that train on the batches of a loader."""
        return {loop.node for loop in self.facts.loops.batch_loops if loop.trains}

    def _fed(self, node: ast.AST, seen: set[ast.AST]) -> bool:
        """Whether a loop over a loader leads to a node."""
        if self._loaded.intersection(self.index.enclosing_loops(node)):
            return True
        function = self.index.function(node)
        if function is None or function in seen:
            return False
        seen.add(function)
        places = [*self.resolver.sites(function), *self.facts.references(function)]
        return any(self._fed(place, seen) for place in places)

    def whole(self, call: ast.Call) -> bool:
        """Whether a backward pass certainly runs on the same data each time: no part of them changes with the loop."""
        region = self.region(call)
        if region is None or not isinstance(call.func, ast.Attribute):
            return False
        loop, body, env = region
        self.layouts.begin(loop)
        known = self.layouts.before(call, body, env)
        return known is not None and self.layouts.read(call.func.value, known) in HARMLESS and not self.layouts.picks

    def region(self, call: ast.Call) -> Region | None:
        """The loop around a backward pass, and what it runs again for each: its body, or that of a function."""
        loops = self.index.enclosing_loops(call)
        if loops:
            return (loops[0], loops[0].body, self.start(loops[0])) if isinstance(loops[0], _LOOPS) else None
        site = self._only_site(self.index.function(call))
        if site is None:
            return None
        function, call, loop = site
        given = self.resolver.bind(call, function)
        if given is None:
            return None
        outside = self._outside(call, loop)
        env = {name: self.layouts.read(argument, outside) for name, argument in given.items()}
        return loop, function.body, env

    def _outside(self, call: ast.Call, loop: ast.For | ast.While) -> Environment:
        """What holds in a loop where it calls a function; it may be dealt what another part of the script picks."""
        start, dealing = self.start(loop), Dealing(self, self.layouts)
        if isinstance(loop, ast.For):
            layout = dealing.of(loop.iter)
            if dealing.picks:
                self.layouts.assign(loop.target, layout, start)
        self.layouts.begin(loop)
        outside = self.layouts.before(call, loop.body, start) or {}
        self.layouts.picks.update(dealing.picks)
        return outside

    def _only_site(self, function: ast.AST | None) -> tuple[Function, ast.Call, ast.For | ast.While] | None:
        """The only call of a function, if that is in a loop."""
        sites = self.resolver.sites(function) if isinstance(function, FUNCTIONS) else []
        if not isinstance(function, FUNCTIONS) or len(sites) != 1 or self.facts.references(function):
            return None
        loop = next(iter(self.index.enclosing_loops(sites[0])), None)
        return (function, sites[0], loop) if isinstance(loop, _LOOPS) else None

    def start(self, node: ast.For | ast.While) -> Environment:
        """What holds when an iteration begins: nothing is known of what changes from one to the next."""
        changing = stores(node.target) if isinstance(node, ast.For) else set()
        bound = {name for statement in node.body for name in stores(statement)}
        plain: set[str] = set()
        for statement in node.body:
            changing |= {n.id for n in loads(statement)} & bound - plain
            if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.With)):
                plain |= stores(statement)
        return dict.fromkeys(changing, Layout.UNKNOWN)

    def environment(self, step: Step, node: ast.AST) -> Environment | None:
        """How variables depend on the rows of the batch just before a node in the body of the loop."""
        inside = {node, *self.index.ancestors(node)}
        self.layouts.begin(step.loop.node)
        for statement, env in zip(step.body, step.before, strict=False):
            if statement in inside:
                return self.layouts.before(node, [statement], dict(env))
        return None

    # ---- one loop

    def _step(self, node: ast.For | ast.While) -> Step:
        """One loop; noise that it draws in every iteration is a batch, or belongs to one that has as many rows, as do
        states that it makes for them."""
        sized = self.layouts.sized
        sized.forget()
        plain = self._tried(node)
        asked = sized.asked(node)
        if not plain.names and sized.suppose():
            drawn = self._tried(node)
            if drawn.names:
                return drawn
        sized.forget()
        if not plain.names and asked:
            sized.counts = asked
            stated = self._tried(node)
            stated.sizes = frozenset(sized.states)
            sized.forget()
            if stated.names and not stated.whole:
                return stated
        return plain

    def _tried(self, node: ast.For | ast.While) -> Step:
        step = Step(BatchLoop(node, (), True, self.index.function(node), True))
        try:
            if isinstance(node, ast.For) and self._dealt(step, node):
                return step
            ends = self._interpret(step, node)
            if step.picks:
                self.proof.check(step, node, ends)
            elif isinstance(node, ast.For) and all(map(self.whole, self._backwards(node))):
                self._share_whole(step, node)
        except NotProved as obstacle:
            step.obstacle, step.names, step.whole, step.apart, step.gathered = obstacle, (), {}, frozenset(), ()
        return step

    def _dealt(self, step: Step, node: ast.For) -> bool:
        """Whether a loop deals batches that another part of the script picks: then see what is done with them."""
        dealing = Dealing(self, self.layouts)
        layout = dealing.of(node.iter)
        if not dealing.picks:
            return False
        env = self.start(node)
        self.layouts.assign(node.target, layout, env)
        step.picks = list(dealing.picks)
        step.names = tuple(n for n in stored(node.target) if env.get(n) is Layout.ROWS)
        if not step.names or any(part in _COUNTED for part in env.values()):
            raise NotProved(step.picks[0], "and it cannot be followed what else is dealt with them")
        if len(set(dealing.picks.values())) > 1:
            raise NotProved(step.picks[0], "and it cannot be proved that its parts have the same number of rows")
        for name in step.names:
            self.proof.read_later(node, node.body[0], name)
        self._follow(step, env, self._backwards(node))
        return True

    def _backwards(self, node: ast.For | ast.While) -> list[ast.Call]:
        return self.facts.loops.backwards_in(node, innermost=True)

    def _share_whole(self, step: Step, node: ast.For) -> None:
        """See whether what one iteration computes is computed row by row from the data of all of them."""
        whole = Whole(self.facts, node)
        step.whole = whole.reads()
        step.names, step.apart = tuple(step.whole), whole.apart(step.whole)
        step.whole = {name: [n for n in reads if n not in step.apart] for name, reads in step.whole.items()}
        env = self.start(node)
        env.update(dict.fromkeys(step.whole, Layout.ROWS))
        try:
            self._follow(step, env, self._backwards(node))
        except NotProved as lacking:
            recurrent = isinstance(lacking.part, ast.Call) and self.layouts.recurrent(lacking.part)
            raise (whole.sequence() if recurrent else None) or lacking from None
        for name in (n for n in sorted(whole.changing) if has_rows(env.get(n, Layout.CONST))):
            try:
                self.proof.read_later(node, node.body[-1], name)
            except UsedLater:
                if env[name] is not Layout.ROWS or not whole.can_be_gathered(name):
                    raise
                step.gathered += (name,)

    def _follow(self, step: Step, env: Environment, backwards: list[ast.Call]) -> None:
        """See what becomes of rows that are there when the statements begin."""
        step.before = []
        for statement in step.body:
            step.before.append(dict(env))
            self.layouts.begin(step.loop.node)
            self.layouts.step(statement, env)
        self.proof.state()
        for call in backwards:
            self.proof.loss(step, call)
        self.proof.flow(step, -1)

    def _handed(self, backward: ast.Call) -> Step | None:
        """The loop that picks rows and hands them to the function of a backward pass."""
        place = self._only_site(self.index.function(backward))
        region = self.region(backward)
        if place is None or region is None or not self.proof.lasts(place[2]) or self._loaded & {place[2]}:
            return None
        function, site, loop = place
        known = (*HARMLESS, Layout.ROWS)
        env: Environment = {n: part if part in known else Layout.UNKNOWN for n, part in region[2].items()}
        picks = dict(self.layouts.picks)
        rows = tuple(p.arg for p in parameters(function.args) if env.get(p.arg) is Layout.ROWS)
        if not rows or not picks:
            return None
        step = Step(BatchLoop(loop, (), True, self.index.function(loop), True), function, [site], list(picks), rows)
        try:
            if len(set(picks.values())) > 1:
                raise NotProved(step.picks[0], "and it cannot be proved that its parts have the same number of rows")
            self._taken(site)
            self._follow(step, env, [c for c in self._apart if self.index.function(c) is function])
        except NotProved as obstacle:
            step.obstacle, step.names = obstacle, ()
        return step

    def _taken(self, site: ast.Call) -> None:
        """What a function returns that trains on a share is measured on that: it has to be seen what becomes of it."""
        statement = self.index.statement(site)
        outer = statement.value if isinstance(statement, ast.Expr) else None
        shown = isinstance(outer, ast.Call) and (
            outer is site
            or self.resolver.builtin(outer.func) == "print"
            or (isinstance(outer.func, ast.Attribute) and isinstance(outer.func.value, ast.Name))
        )
        if not shown and not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            name = self.facts.short(site.func)
            raise NotProved(site, f"and it cannot be followed what becomes of what `{name}` returns for them")

    def _interpret(self, step: Step, node: ast.For | ast.While) -> list[ast.stmt]:
        """Follow one iteration; returns the statements after which the batch may be shared out, the best one first.

        That is when all of it is picked; but what is drawn for its rows is better drawn for the whole batch, too.
        """
        env = self.start(node)
        obstacle: NotProved | None = None
        rows: set[str] = set()
        computing: ast.stmt | None = None
        ends: list[ast.stmt] = []
        for statement in node.body:
            step.before.append(dict(env))
            self.layouts.begin(node)
            self.layouts.step(statement, env)
            picks = self.layouts.picks
            gained = [n for n in stores(statement) if has_rows(env.get(n, Layout.CONST))]
            if computing is not None and self._more(step, node, statement, {n: env[n] for n in gained}):
                step.picks += (p for p in picks if p not in step.picks)
                step.again[statement] = tuple(gained)
            elif picks and gained:
                step.picks += (p for p in picks if p not in step.picks)
                rows |= set(picks.values())
                ends = [statement]
                if not _assigns(statement, {n for n in gained if step.before[-1].get(n) is not Layout.ROWS}):
                    obstacle = obstacle or NotProved(statement, "not in a plain assignment of the loop")
                elif computing is not None:
                    obstacle = obstacle or NotProved(statement, "after a part of the batch was used already")
                elif any(n.id in gained for s in node.body[: node.body.index(statement)] for n in loads(s)):
                    obstacle = obstacle or NotProved(statement, "for the iteration that follows")
            elif picks:
                if self.proof.computes(statement):
                    step.picks += (p for p in picks if p not in step.picks)
                    obstacle = obstacle or NotProved(statement, "inside an expression that computes with them")
                env.update(dict.fromkeys(stores(statement), Layout.UNKNOWN))
            elif ends and gained and self.layouts.drew and computing is None and isinstance(statement, ast.Assign):
                ends = [statement, ends[-1]]
            if ends and computing is None and self.proof.computes(statement):
                computing = statement
        if obstacle is not None:
            raise obstacle
        if len(rows) > 1:
            raise NotProved(step.picks[0], "and it cannot be proved that its parts have the same number of rows")
        return ends

    def _more(self, step: Step, node: ast.For | ast.While, statement: ast.stmt, made: Environment) -> bool:
        """Whether a statement makes as many rows again, for what comes after it in the same iteration."""
        fresh = set(self.layouts.picks.values())
        if not isinstance(statement, ast.Assign) or not made or fresh != {self.layouts.sized.rows}:
            return False
        if any(part is not Layout.ROWS for part in made.values()) or made.keys() & self.start(node).keys():
            return False
        return not any(has_rows(step.before[-1].get(n.id, Layout.CONST)) for n in loads(statement.value))


def _assigns(statement: ast.stmt, names: set[str]) -> bool:
    """Whether a statement assigns, and binds all of some names, in whatever branch."""
    if not isinstance(statement, ast.If):
        return isinstance(statement, (ast.Assign, ast.AnnAssign))
    return all(
        names <= {n for s in branch for n in stores(s)} and all(_assigns(s, set()) for s in branch)
        for branch in (statement.body, statement.orelse)
    )
