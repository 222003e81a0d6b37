"""Chooses where the objects that train are prepared."""

from __future__ import annotations

import ast
from collections.abc import Container
from dataclasses import replace
from functools import cached_property

from accelift_codemod.blueprint import Blueprint, Group, Item, containers, naming, replacements, self_trained, unpacked
from accelift_codemod.blueprint.anchors import Anchors
from accelift_codemod.blueprint.choice import choose
from accelift_codemod.blueprint.containers import filled, holds, keeps, may_be
from accelift_codemod.blueprint.later_names import LaterNames
from accelift_codemod.blueprint.on_the_spot import made_on_the_spot
from accelift_codemod.blueprint.peeks import Peeks
from accelift_codemod.blueprint.rebinding import gives_itself, holds_already, taken_on
from accelift_codemod.blueprint.roots import Roots
from accelift_codemod.facts import BatchLoop, Facts, Function, How, Role, Scope, Value, position
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.parts import PASSES
from accelift_codemod.facts.scopes import end_position
from accelift_codemod.facts.values import Key, Values, key, views
from accelift_codemod.options import Options
from accelift_codemod.reasons import Refused, refuse


def draft(facts: Facts, options: Options) -> Blueprint:
    """Decide how a script is to be converted.

    Raises:
        Refused: it is left alone.
    """
    blueprint = Blueprint(facts, options)
    blueprint.accelerator = naming.accelerator(facts)
    blueprint.peeks |= Peeks(blueprint).of_makers()
    Placement(blueprint).plan()
    return blueprint


def _named(scope: Scope, name: str, among: set[tuple[Scope, str]]) -> str:
    """A variable as a message calls it: with its function, if others go by the same name."""
    alone = [other for _, other in among].count(name) == 1
    return f"`{name}`" if alone else f"`{name}` of {getattr(scope.node, 'name', 'the script')}"


_DISPLAYS = (ast.Tuple, ast.List, ast.Dict, ast.Set)
_TWICE = "used for training here and bound again later"


class Placement:
    """Chooses where the objects that train are prepared."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.facts = blueprint.facts
        self.resolver = blueprint.facts.resolver
        self.index = blueprint.facts.index
        self.roots = Roots(blueprint)
        self.anchors = Anchors(blueprint)

    def plan(self) -> None:
        while (items := self._items()) is None:  # without a loader that has no place
            self.blueprint.cuts.clear()
            self.blueprint.local_loops.clear()
            self.blueprint.replicated.clear()
            self.roots = Roots(self.blueprint)
        networks = self_trained.Networks(self.blueprint, items[0])
        early = networks.at_the_start(self._uses_in)
        groups = self._groups([i for i in networks.items if i not in early])
        groups = networks.with_kept([*groups, *(Group(i.scope, i.statements[0], (i,), True) for i in early)])
        self.blueprint.groups = sorted([*groups, *items[1]], key=lambda g: position(g.anchor))
        self._peeked()

    def _items(self) -> tuple[list[Item], list[Group]] | None:
        """What is prepared, and what is where it is made; None if a loader that only evaluates has no place for that.

        Such a loader is left as it is, and every process evaluates all of it.
        """
        found = [(v, value, kind) for value, kind in choose(self.blueprint) for v in self.roots.instances(value)]
        run = [one for one in found if self._runs(one[0])]  # what is made where nothing runs is never there
        chosen = {(key(v), kind): (v, value) for v, value, kind in run or found}
        items, apart = list[Item](), list[Group]()
        for (_, kind), (value, whole) in chosen.items():
            try:
                roots = {root for root in self.roots.of(value, kind) if self._is_written(*root)}
                there = not roots or (kind is not Role.LOADER and self.roots.among_others(roots, value))
                made = made_on_the_spot(self.facts, value) if there else None
                if made is not None:
                    scope = self.index.scope(made)
                    apart.append(Group(scope, made, (Item(value, kind, scope, "", (), ()),)))
                else:
                    items.append(self._item(value, kind, roots, {one for one, _ in chosen}))
            except Refused as problem:
                if kind is not Role.LOADER or self._trains(whole) or whole in self.blueprint.unplaced:
                    raise
                self.blueprint.unplaced[whole] = problem.finding.message
                return None
        return items, apart

    def _is_written(self, scope: Scope, name: str) -> bool:
        """Whether the source binds a variable: not only the constructor that Python makes of a dataclass's fields."""
        homes = [self.index.function(b.node) for b in scope.bindings[name]] if scope.is_class else [None]
        return any(home is None or isinstance(self.facts.original(home), FUNCTIONS) for home in homes)

    def _runs(self, value: Value) -> bool:
        """Whether an object is made when the script runs."""
        return all(self.facts.runs(node) for node in (value.origin, *value.sites))

    def _trains(self, loader: Value) -> bool:
        """Whether a training loop draws from a loader."""
        trained = {one for loop in self.blueprint.train_loops for v in loop.loaders for one in views(v)}
        return not trained.isdisjoint(views(loader))

    def _peeked(self) -> None:
        """Loops that only look at a batch of the author's own loader gather nothing."""
        for node, loaders in self._peeks.items():
            if not any(self.blueprint.may_follow_prepare(node, v) for v in loaders):
                self.blueprint.peeks.add(node)
        for loop in (loop for loop in self.blueprint.eval_loops if loop.node in self.blueprint.peeks):
            self.blueprint.cuts.pop(loop, None)
            self.blueprint.local_loops.pop(loop, None)

    def _item(self, value: Value, kind: Role, roots: set[tuple[Scope, str]], prepared: Container[Key]) -> Item:
        later = LaterNames(self.facts, value, self._uses_in)
        for root in roots if len(roots) > 1 else ():
            early = {other: later.aliases(other, root, prepared) for other in roots - {root}}
            if all(early[other] or later.has(other, root) for other in early):
                self.roots.copies.update((b.node, None) for found in early.values() for b in found)
                roots = {root}
                break
        if len(roots) > 1 and (several := unpacked.item(self.blueprint, value, roots)) is not None:
            return several
        if len(roots) != 1:
            line = getattr(value.origin, "lineno", 0)
            if not roots:
                message = f"the {kind.value} made here reaches no plain variable that the training reads"
            else:
                names = " and ".join(sorted(_named(scope, name, roots) for scope, name in roots))
                message = f"the {kind.value} made here is used under several names ({names})"
            raise refuse(
                "PREP-NO-POINT", line, message, "keep it in one variable from its creation to the training loop"
            )
        if (itself := self_trained.item(self.facts, value)) is not None:
            return itself
        scope, name = next(iter(roots))
        self._require_own(value, scope, name)
        bindings = [b for b in scope.bindings[name] if keeps(self.resolver.bound(b), key(value))]
        if scope.is_class:
            bindings = [b for b in bindings if not holds_already(self.facts, b)] or bindings
        bindings = [b for b in bindings if not gives_itself(self.resolver, b)] or bindings
        bindings = [b for b in bindings if not self.roots.gives_back(b, value)] or bindings
        if taken_on(self.resolver, scope, name, kind.value):
            bindings = [b for b in bindings if b.how is not How.PARAMETER] or bindings
        if any(b.how is How.PARAMETER for b in bindings):
            raise refuse(
                "PREP-NO-POINT",
                next(b.node for b in bindings if b.how is not How.PARAMETER).lineno,  # type: ignore[attr-defined]
                f"the {kind.value} that is handed in as `{name}` is bound again here",
                "prepare it where it is made, or give it a name of its own here",
            )
        made = (self.index.statement(b.node) for b in bindings)
        put = containers.filling(self.facts, scope, name, key(value))
        statements = tuple(dict.fromkeys((*made, *put)))
        values = tuple(v for b in bindings for v in self.resolver.bound(b))
        places = containers.places(self.facts, scope, name, values, key(value))
        if places is None:
            raise refuse(
                "PREP-NO-POINT",
                getattr(value.origin, "lineno", 0),
                f"the {kind.value} made here is in `{name}`, whose entries cannot be told apart or replaced",
                "keep it in a variable of its own, or in a dict with keys that are written out",
            )
        return Item(value, kind, scope, name, statements, places)

    def _require_own(self, value: Value, scope: Scope, name: str) -> None:
        """Refuse to prepare in an attribute what several objects of a class may have together."""
        if not self.facts.has_several(scope.node):
            return
        made = value.sites[0] if value.sites else value.origin
        if self.resolver.instance(made) is scope.node:
            return
        calls = self.resolver.sites(scope.node)
        given = [c for c in calls for a in (*c.args, *(k.value for k in c.keywords)) if may_be(self.resolver, a, value)]
        if any(call in self.index.ancestors(made) for call in calls):
            return
        if len(given) == 1 and self.index.enclosing_loops(given[0]) == self.index.enclosing_loops(made):
            if self.index.function(given[0]) is self.index.function(made):
                return
        raise refuse(
            "PREP-NO-POINT",
            getattr(made, "lineno", 0),
            f"several objects of one class keep what is made here in `{name}`, and it would be prepared for each",
            "prepare it before it is handed to them",
        )

    def _joined(self, items: list[Item]) -> list[Item]:
        """Attributes that are made in several methods, seen from the one method that runs those, if there is one."""
        own = [i for i in items if i.scope.is_class]
        roads = {s: self._road(s) for i in own for s in i.statements}
        if not roads or len({i.scope for i in own}) > 1:
            return items
        first = next(iter(roads.values()))
        for home in first:
            if all(home in road for road in roads.values()):
                seen = {s: self.index.statement(road[home]) for s, road in roads.items()}
                return [
                    replace(i, statements=tuple(dict.fromkeys(seen[s] for s in i.statements))) if i in own else i
                    for i in items
                ]
        return items

    def _road(self, statement: ast.stmt) -> dict[Function, ast.AST]:
        """The methods that lead to a statement, by calls that each run once, with the node in each that does."""
        cls = self.resolver.instance(statement)
        found: dict[Function, ast.AST] = {}
        node: ast.AST = statement
        while True:
            function = self.index.function(node)
            if function is None or self.resolver.instance(function) is not cls or function in found:
                return found
            found[function] = node
            sites = self.resolver.sites(function)
            if len(sites) != 1 or self.index.enclosing_loops(node):
                return found
            node = sites[0]

    def _groups(self, items: list[Item]) -> list[Group]:
        clusters: dict[tuple[Scope, Function | None, ast.AST | None], list[tuple[Item, int, ast.AST | None]]] = {}
        anew: list[tuple[Item, list[ast.AST], Refused]] = []
        for item in self._joined(items):
            homes = {self.index.function(s) for s in item.statements}
            home = self.index.function(item.statements[0])
            if item.scope.is_class and len(homes) > 1:
                raise refuse(
                    "PREP-NO-POINT",
                    item.statements[-1].lineno,
                    f"`{item.name}` is bound in several methods, and none of them runs the others once",
                    "make it in the constructor",
                )
            uses = self._uses_of_item(home, item) if item.scope.is_class else self._uses_in(home)
            item = self._made(item, uses)
            made = max(s.end_lineno or 0 for s in item.statements)
            first = next((u for u in uses if position(u) > (made, 0)), None)
            problem = self._used_early(item, uses, made)
            if problem is not None and not replacements.takes_over(self.facts, item):
                raise problem
            if problem is not None:
                anew.append((item, uses, problem))
                continue
            loops = [self.index.enclosing_loops(s) for s in item.statements]
            inside = loops[0][0] if loops[0] and all(found[:1] == loops[0][:1] for found in loops) else None
            if first is not None and inside not in self.index.enclosing_loops(first):
                inside = None  # it is used once the loop is over
            clusters.setdefault((item.scope, home, inside), []).append((item, made, first))
        groups = []
        for (scope, _, _), members in clusters.items():
            together: dict[ast.AST | None, list[Item]] = {}
            uses = sorted((first for _, _, first in members if first is not None), key=position)
            for item, made, _ in members:  # with others that have to be prepared earlier, if it is there by then
                use = next((use for use in uses if position(use) > (made, 0)), None)
                together.setdefault(use, []).append(item)
            for use, same in together.items():
                self._require_here(same, use)
                groups += self.anchors.groups(scope, use, same, self._looked_at(same))
                self._require_followed(same, groups[-1].anchor)
        return [*groups, *(replacements.group(self.facts, i, groups, uses, problem) for i, uses, problem in anew)]

    def _used_early(self, item: Item, uses: list[ast.AST], made: int) -> Refused | None:
        """What is wrong with an object whose variable is used for training before the last line that makes it."""
        for early in uses:
            if position(early) > (made, 0):
                continue
            if (
                self._may_use(early, item)
                if item.scope.is_class
                else self._uses_item(self.index.statement(early), item)
            ):
                anew = any(early in self.index.ancestors(statement) for statement in item.statements)
                told = "made anew in each iteration of this loop, which trains" if anew else _TWICE
                dealt = ", with a batch_sampler that deals a batch for each iteration"
                before = f"make one {item.kind.value} before the loop{dealt if item.kind is Role.LOADER else ''}"
                return refuse(
                    "PREP-NO-POINT",
                    position(early)[0],
                    f"`{item.name}` is {told} (line {made})",
                    before if anew else "give the later object a name of its own",
                )
        return None

    def _may_use(self, early: ast.AST, item: Item) -> bool:
        """Whether what runs at a place may use the object in an attribute; of loops over batches only a loader's own
        are told from others, and those before an attribute is there at all."""
        home = self.index.function(early)
        begun = any(position(s) < position(early) or self.index.function(s) is not home for s in item.statements)
        by_name = any(holds(self.resolver.values(n), key(item.value)) for n in loads(self.index.statement(early)))
        if item.kind is not Role.LOADER and (begun or by_name):
            return True
        uses = self.roots.uses
        nodes = (n for one in views(item.value) for n in (*uses.found.get(one, ()), *uses.asked.get(one, ())))
        places = (p for node in nodes for p in self.blueprint.timeline.places(node, home))
        return any(self.index.statement(p) is self.index.statement(early) for p in places)

    def _require_here(self, items: list[Item], use: ast.AST | None) -> None:
        """Refuse to prepare in a function that runs for each batch, and has no loop over batches itself, or in one that
        makes something, and neither returns it nor leads to where it trains."""
        home, item = self.index.function(items[0].statements[0]), items[0]
        if item.scope.is_class or home is None:
            return
        values = (r.value for r in self.resolver.returns(home))
        handed = {n.id for value in values if value is not None for n in loads(value)}
        if home in self.roots.uses.run_in_loops and not self._uses_of_batches(home):
            where = "it is got in a function that runs for each batch"
        elif use is None and any(key(i.value) in self.roots.untraced and i.name not in handed for i in items):
            where = "it cannot be followed from here to where it trains"
        else:
            return
        message = f"`{item.name}` is {_a(item.kind.value)} that is prepared, and {where}"
        remedy = "keep it in a plain variable from its creation to the training loop"
        raise refuse("PREP-NO-POINT", item.statements[0].lineno, message, remedy)

    def _require_followed(self, items: list[Item], anchor: ast.AST) -> None:
        """Refuse what an object has kept before, and trains by, where only a model's wrapper averages gradients."""
        lost = [i for i in items if i.kind is Role.MODEL and key(i.value) in self.roots.untraced]
        for item in lost if self.blueprint.options.target != "runtime" else ():
            for load in self.facts.loads(item.scope, item.name):
                call = self.index.parents.get(load)
                kept = isinstance(call, ast.Call) and isinstance(self.resolver.callee(call), ast.ClassDef)
                kept |= isinstance(call, _DISPLAYS) and isinstance(self.index.statement(call), ast.Assign)
                if kept and load.lineno <= (getattr(anchor, "end_lineno", 0) or 0):
                    message = f"`{item.name}` is kept by what is made here, which would train the bare model"
                    raise refuse("PREP-NO-POINT", load.lineno, message, "hand the model to the function that trains")

    def _looked_at(self, items: list[Item]) -> list[ast.AST]:
        """The places before all use at which batches of loaders are looked at."""
        homes = {self.index.function(s) for item in items for s in item.statements}
        loaders = {key(item.value) for item in items if item.kind is Role.LOADER}
        found = (at for home in homes for at, looked in self._split(home)[1].items() if loaders & {*map(key, looked)})
        return sorted(found, key=position)

    def _made(self, item: Item, uses: list[ast.AST]) -> Item:
        """An item without the statements that bind its variable to what it holds already, once training has begun:
        `model = train(model)`, `model = model.eval()`, `model = model.train()` in every epoch."""
        if item.scope.is_class:  # other loops are told from those over its loader by where it is bound
            if item.kind is Role.LOADER or len({self.index.function(s) for s in item.statements}) > 1:
                return item
        made = [s for s in item.statements if not self._uses_item(s, item)]
        begin = min(map(end_position, made), default=(0, 0))
        uses = [u for u in uses if position(u) > begin]  # what runs before the object is made does not use it
        loops = {loop for use in uses for loop in self.index.enclosing_loops(use)}
        again = [
            s
            for s in item.statements
            if s not in made
            and not loops & {*self.index.enclosing_loops(s)}
            and all(position(u) > end_position(s) for u in uses)
        ]
        return replace(item, statements=tuple(s for s in item.statements if s in made or s in again)) if made else item

    def _uses_in(self, home: Function | None) -> list[ast.AST]:
        """The places in a function after which it is too late to prepare: a loop runs, or an object got it."""
        copied = [p for copy in self.roots.copies for p in self.blueprint.timeline.places(copy, home)]
        return sorted({*self._uses_of_batches(home), *copied}, key=position)

    def _uses_of_item(self, home: Function | None, item: Item) -> list[ast.AST]:
        """The same for an attribute: what else gets the object of another one does not matter."""
        copied = [p for copy in self.roots.copies for p in self.blueprint.timeline.places(copy, home)]
        own = [p for p in copied if self._uses_item(self.index.statement(p), item)]
        uses = [u for u in self._uses_of_batches(home) if item.kind is Role.LOADER or u not in self._only_taken(home)]
        return sorted({*uses, *own}, key=position)

    @memoised
    def _only_taken(self, home: Function | None) -> set[ast.AST]:
        """The places in a function at which loaders are taken to be passed over later, and nothing else begins."""
        places = self.blueprint.timeline.places
        loops = (*self.blueprint.train_loops, *self.blueprint.eval_loops)
        taken = {p for loop in loops for call in self._iterators(loop) for p in places(call, home)}
        return taken - {p for loop in loops for p in places(_begin(loop), home)}

    @memoised
    def _uses_of_batches(self, home: Function | None) -> list[ast.AST]:
        """The places in a function at which batch loops run, in order; what is looked at before is no use."""
        return self._split(home)[0]

    @memoised
    def _split(self, home: Function | None) -> tuple[list[ast.AST], dict[ast.AST, Values]]:
        """The places in a function at which batch loops run, in order, and those at which batches are only looked at,
        all before."""
        places = self.blueprint.timeline.places
        starts = self._starts.get(home, [])
        uses = {place for start in starts if start not in self._peeks for place in places(start, home)}
        first = min(map(position, uses), default=None)
        early: dict[ast.AST, Values] = {}
        for start in (start for start in starts if start in self._peeks):
            found = places(start, home)
            if all(first is None or position(place) < first for place in found) and not uses & set(found):
                early.update(dict.fromkeys(found, self._peeks[start]))
            else:
                uses.update(found)
        return sorted(uses, key=position), early

    @cached_property
    def _peeks(self) -> dict[ast.AST, Values]:
        return Peeks(self.blueprint).find(self._passes)

    @cached_property
    def _starts(self) -> dict[Function | None, list[ast.AST]]:
        """For each function: where batch loops start that it may lead to."""
        found: dict[Function | None, list[ast.AST]] = {}
        for loop in (*self.blueprint.train_loops, *self.blueprint.eval_loops):
            node = _begin(loop)
            looked = (n for n, of in self._peeks.items() if set(of) & set(loop.loaders))
            for start in (node, *self._iterators(loop), *looked):
                function = self.index.function(start)
                for home in {function, *self.blueprint.timeline.callers(function)}:
                    found.setdefault(home, []).append(start)
        return {home: list(dict.fromkeys(starts)) for home, starts in found.items()}

    def _iterators(self, loop: BatchLoop) -> list[ast.Call]:
        """The calls that take the loaders of a loop to pass over them, there or later: `iter(loader)`."""
        return list(dict.fromkeys(call for loader in loop.loaders for call in self._passes.get(loader, ())))

    @cached_property
    def _passes(self) -> dict[Value, list[ast.Call]]:
        """For each loader: the calls that take it to pass over it."""
        found: dict[Value, list[ast.Call]] = {}
        for call in self.index.calls:
            for value in self.resolver.values(call):
                if value.origin is call and value.role in PASSES:
                    for loader in self.facts.loops.loaders((value,)):
                        found.setdefault(loader, []).append(call)
        return found

    def _uses_item(self, statement: ast.stmt, item: Item) -> bool:
        fills = self.resolver.fills(item.scope, item.name).entries
        puts = {filled(fill.node) for fill in fills}
        return any(
            load.id == item.name and load not in puts and holds(self.resolver.values(load), key(item.value))
            for load in loads(statement)
        )


def _begin(loop: BatchLoop) -> ast.AST:
    """Where a loop begins."""
    return loop.node.iter if isinstance(loop.node, ast.comprehension) else loop.node


def _a(noun: str) -> str:
    """A noun with its article."""
    return f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"
