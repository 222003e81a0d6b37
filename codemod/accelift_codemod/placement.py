"""Chooses where the objects that train are prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from accelift_codemod import containers
from accelift_codemod.blueprint import Blueprint, Group, Item
from accelift_codemod.choice import choose
from accelift_codemod.containers import holds, keeps
from accelift_codemod.facts import BatchLoop, Facts, Function, How, Role, Scope, Value, position
from accelift_codemod.facts.effects import assignments, loads, stores
from accelift_codemod.facts.index import FUNCTIONS, MARK
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.objects import key
from accelift_codemod.facts.parts import PASSES
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk
from accelift_codemod.options import Options
from accelift_codemod.refusals import check, refuse
from accelift_codemod.roots import Roots

_NAMES = ("accelerator", "accel", "hf_accelerator", "accelift_accelerator")


def draft(facts: Facts, options: Options) -> Blueprint:
    """Decide how a script is to be converted.

    Raises:
        Refused: it is left alone.
    """
    check(facts, options)
    blueprint = Blueprint(facts, options)
    blueprint.accelerator = _free_name(facts)
    Placement(blueprint).plan()
    return blueprint


def _free_name(facts: Facts) -> str:
    taken = {name for scope in facts.written.scopes.values() for name in (*scope.bindings, *scope.loads)}
    taken.update(facts.written.attributes if facts.instances.followed else ())
    taken |= {name.rpartition(MARK)[2] for name in taken}
    return next((name for name in _NAMES if name not in taken), "accelift_main_accelerator")


class Placement:
    """Chooses where the objects that train are prepared."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.facts = blueprint.facts
        self.resolver = blueprint.facts.resolver
        self.index = blueprint.facts.index
        self.roots = Roots(blueprint)

    def plan(self) -> None:
        chosen = {(key(v), kind): v for value, kind in choose(self.blueprint) for v in self.roots.instances(value)}
        items, apart = list[Item](), list[Group]()
        for (_, kind), value in chosen.items():
            roots = self.roots.of(value, kind)
            if not roots and kind is Role.LOADER and isinstance(value.origin, ast.Call) and not value.sites:
                scope = self.index.scope(value.origin)
                apart.append(Group(scope, value.origin, (Item(value, kind, scope, "", (), ()),)))
            else:
                items.append(self._item(value, kind, roots))
        self.blueprint.groups = sorted([*self._groups(items), *apart], key=lambda g: position(g.anchor))

    def _item(self, value: Value, kind: Role, roots: set[tuple[Scope, str]]) -> Item:
        if len(roots) != 1:
            line = getattr(value.origin, "lineno", 0)
            if not roots:
                message = f"the {kind.value} made here reaches no plain variable that the training reads"
            else:
                names = " and ".join(sorted(f"`{name}`" for _, name in roots))
                message = f"the {kind.value} made here is used under several names ({names})"
            raise refuse(
                "PREP-NO-POINT", line, message, "keep it in one variable from its creation to the training loop"
            )
        scope, name = next(iter(roots))
        self._require_own(value, scope, name)
        bindings = [b for b in scope.bindings[name] if keeps(self.resolver.bound(b), key(value))]
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
        if scope.node not in self.facts.instances.several:
            return
        made = value.sites[0] if value.sites else value.origin
        if self.resolver.instance(made) is scope.node:
            return
        calls = self.resolver.sites(scope.node)
        given = [
            c for c in calls for a in (*c.args, *(k.value for k in c.keywords)) if _may_be(self.resolver, a, value)
        ]
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
            for early in uses:
                if position(early) <= (made, 0) and (
                    item.scope.is_class or self._uses_item(self.index.statement(early), item)
                ):
                    raise refuse(
                        "PREP-NO-POINT",
                        position(early)[0],
                        f"`{item.name}` is used for training here and bound again later (line {made})",
                        "give the later object a name of its own",
                    )
            loops = [self.index.enclosing_loops(s) for s in item.statements]
            inside = loops[0][0] if loops[0] and all(found[:1] == loops[0][:1] for found in loops) else None
            clusters.setdefault((item.scope, home, inside), []).append((item, made, first))
        groups = []
        for (scope, _, _), members in clusters.items():
            together: dict[ast.AST | None, list[Item]] = {}
            uses = sorted((first for _, _, first in members if first is not None), key=position)
            for item, made, _ in members:  # with others that have to be prepared earlier, if it is there by then
                use = next((use for use in uses if position(use) > (made, 0)), None)
                together.setdefault(use, []).append(item)
            for use, same in together.items():
                groups += self._placed(scope, use, same)
        return groups

    def _placed(self, scope: Scope, use: ast.AST | None, items: list[Item]) -> list[Group]:
        """One place for objects, and one before it for those that are used where that may not have been passed."""
        block = self._block(use, [s for item in items for s in item.statements])
        arms = list(self._arms(block[0]))
        apart = [item for item in items if any(self._read_beyond(arm, item) for arm in arms)]
        if not apart:
            return [self._place(scope, use, items)]
        rest = [item for item in items if item not in apart]
        if not rest:
            raise refuse(
                "PREP-NO-POINT",
                block[0].lineno,
                f"`{apart[0].name}` is used for training under a condition here, and elsewhere, too",
                "make it once, before the condition",
            )
        return [*self._placed(scope, use, apart), self._place(scope, use, rest)]

    def _arms(self, statement: ast.stmt) -> Iterator[list[ast.stmt]]:
        """The arms of `if` statements in which a statement stands, within its function."""
        for inner in self.index.chain(statement):
            if isinstance(self.index.parents[inner], ast.If):
                yield self.index.block(inner)[0]

    def _read_beyond(self, arm: list[ast.stmt], item: Item) -> bool:
        """Whether an object that is made before a condition is read where an arm of it may not have run."""
        inside = {n for s in arm for n in walk(s)}
        if all(s in inside for s in item.statements):
            return False
        home = self.index.function(arm[0])
        reads = (n for n in self.facts.loads(item.scope, item.name) if self.facts.runs(n))
        places = (p for read in reads for p in self.blueprint.timeline.places(read, home))
        return any(p not in inside and position(p) > position(arm[0]) for p in places)

    def _made(self, item: Item, uses: list[ast.AST]) -> Item:
        """An item without the statements that bind its variable to what it holds already, once training has begun:
        `model = train(model)`, `model = model.eval()`, `model = model.train()` in every epoch."""
        if item.scope.is_class:
            return item
        made = [s for s in item.statements if not self._uses_item(s, item)]
        begin = min(map(_end, made), default=(0, 0))
        uses = [u for u in uses if position(u) > begin]  # what runs before the object is made does not use it
        loops = {loop for use in uses for loop in self.index.enclosing_loops(use)}
        again = [
            s
            for s in item.statements
            if s not in made
            and not loops & {*self.index.enclosing_loops(s)}
            and all(position(u) > _end(s) for u in uses)
        ]
        return replace(item, statements=tuple(s for s in item.statements if s in made or s in again)) if made else item

    def _uses_in(self, home: Function | None) -> list[ast.AST]:
        """The places in a function after which it is too late to prepare: a loop runs, or an object got it."""
        copied = [p for copy in self.roots.copies for p in self.blueprint.timeline.places(copy, home)]
        return sorted({*self._uses_of_batches(home), *copied}, key=position)

    def _uses_of_item(self, home: Function | None, item: Item) -> list[ast.AST]:
        """The same for an attribute: what else gets the object of another one does not matter."""
        copied = [c for c in self.roots.copies if self.index.function(c) is home]
        own = [c for c in copied if self._uses_item(self.index.statement(c), item)]
        return sorted({*self._uses_of_batches(home), *own}, key=position)

    @memoised
    def _uses_of_batches(self, home: Function | None) -> list[ast.AST]:
        """The places in a function at which batch loops run, in order."""
        places = self.blueprint.timeline.places
        return sorted({place for start in self._starts.get(home, ()) for place in places(start, home)}, key=position)

    @cached_property
    def _starts(self) -> dict[Function | None, list[ast.AST]]:
        """For each function: where batch loops start that it may lead to."""
        found: dict[Function | None, list[ast.AST]] = {}
        for loop in (*self.blueprint.train_loops, *self.blueprint.eval_loops):
            node = loop.node.iter if isinstance(loop.node, ast.comprehension) else loop.node
            for start in (node, *self._iterators(loop)):
                function = self.index.function(start)
                for home in {function, *self.blueprint.timeline.callers(function)}:
                    found.setdefault(home, []).append(start)
        return found

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

    def _place(self, scope: Scope, use: ast.AST | None, items: list[Item]) -> Group:
        """The place of a group: after all its objects are made and changed, before the first use."""
        statements = [s for item in items for s in item.statements]
        block = self._block(use, statements)
        inside = [i for i in (self._at(block, s) for s in statements) if i is not None]
        last = max(inside)
        end = self._at(block, self.index.statement(use)) if use is not None else None
        if end is not None and last >= end:
            raise refuse(
                "PREP-NO-POINT",
                block[end].lineno,
                "an object is made by the same statement that uses it for training",
                "make it before the training loop",
            )
        names = {i.name for i in items if i.kind is not Role.LOADER}
        aliases = self._aliases(items) if scope.is_class else set()
        for i in range(last + 1, len(block) if end is None else end):
            statement = block[i]
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                continue
            touched = ({n.id for n in loads(statement)} | stores(statement)) & names
            called = scope.is_class and self._changed_by_calls(statement, names)
            if (
                called
                or {n.id for n in loads(statement)} & aliases
                or (touched and self._same_variables(statement, scope, touched))
            ):
                last = i
        for item in items:
            self._require_in_view(item, block[last])
            self._require_there(item, block[last])
        return Group(scope, block[last], tuple(items))

    def _require_in_view(self, item: Item, anchor: ast.stmt) -> None:
        """Refuse to bind a global of another file to what prepare returns, if a third file reads it."""
        if self.facts.same_file(item.statements[0], anchor):
            return
        for load in self.facts.loads(item.scope, item.name):
            made_there = self.index.function(load) is None and self.facts.same_file(load, item.statements[0])
            if not made_there and not self.facts.same_file(load, anchor) and self.facts.runs(load):
                raise refuse(
                    "PREP-NO-POINT",
                    load.lineno,
                    f"`{item.name}` is prepared in another file than this, which would go on using the original",
                    "pass it to the function that uses it",
                )

    def _require_there(self, item: Item, anchor: ast.stmt) -> None:
        """Refuse to prepare what is only made under a condition, if the script only uses it under that one, too."""
        chain = self.index.chain(anchor)
        apart = [s for s in item.statements if self.index.parents[s] not in self._around(chain)]
        if item.scope.is_class or len(apart) < len(item.statements):
            return
        ifs = (n for s in apart for n in self.index.ancestors(s) if isinstance(n, ast.If) and n not in chain)
        tests = {ast.dump(n.test) for n in ifs}
        reads = [n for n in self.facts.loads(item.scope, item.name) if self.index.statement(n) not in item.statements]
        if tests and all(self._conditional(read, chain, tests) for read in reads):
            raise refuse(
                "PREP-NO-POINT",
                apart[0].lineno,
                f"`{item.name}` is only made under a condition, under which all uses of it are, too",
                "make it in any case, or prepare it where it is made",
            )

    def _around(self, chain: list[ast.stmt]) -> set[ast.AST]:
        """The nodes in whose blocks statements run before the last of a chain does."""
        return {self.index.parents[s] for s in chain}

    def _conditional(self, load: ast.Name, chain: list[ast.stmt], tests: set[str]) -> bool:
        """Whether one of the tests decides about a read of a variable, inside what is around the place of prepare."""
        if self.index.function(load) is not self.index.function(chain[-1]):
            return False
        child: ast.AST = load
        for parent in self.index.ancestors(load):
            if parent in chain or isinstance(parent, FUNCTIONS):
                return False
            if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
                if any(ast.dump(n) in tests for n in walk(parent.test)):
                    return True
            child = parent
        return False

    def _block(self, use: ast.AST | None, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The innermost statement list that leads to the use and holds something that makes an object."""
        if use is None:
            latest = max(statements, key=position)
            for outer in reversed(self.index.chain(latest)):
                block, _ = self.index.block(outer)
                if all(self._at(block, s) is not None for s in statements):
                    return block
            return self.index.block(latest)[0]
        for outer in reversed(self.index.chain(use)):
            block, _ = self.index.block(outer)
            if any(self._at(block, s) is not None for s in statements):
                return block
        raise refuse(
            "PREP-NO-POINT",
            statements[0].lineno,
            "model, optimizer and loaders are made where the training loop cannot be reached from",
            "make them in the function that trains, or pass them to it",
        )

    def _at(self, block: list[ast.stmt], statement: ast.stmt) -> int | None:
        """The place in a block of the statement that contains another; None if it is not inside."""
        chain = self.index.chain(statement)
        return next((i for i, s in enumerate(block) if s in chain), None)

    def _uses_item(self, statement: ast.stmt, item: Item) -> bool:
        fills = self.resolver.fills(item.scope, item.name).entries
        filled = {_filled(fill.node) for fill in fills}
        return any(
            load.id == item.name and load not in filled and holds(self.resolver.values(load), key(item.value))
            for load in loads(statement)
        )

    def _aliases(self, items: list[Item]) -> set[str]:
        """The variables from which attributes got their objects (`self.model = model`)."""
        return {
            value.id
            for item in items
            for statement in item.statements
            for target, value in assignments(statement)
            if item.kind is not Role.LOADER and isinstance(value, ast.Name) and _is_named(target, item.name)
        }

    def _changed_by_calls(self, statement: ast.stmt, names: set[str]) -> bool:
        """Whether a statement runs a method that reads or binds one of the attributes."""
        called = self.blueprint.timeline.calls_into(statement)
        return any(n.id in names for f in called for n in walk(f) if isinstance(n, ast.Name))

    def _same_variables(self, statement: ast.stmt, scope: Scope, names: set[str]) -> bool:
        own = self.index.scopes.get(statement) or self.index.scope(statement)
        return any(own.owner(name) is scope for name in names)


def _end(node: ast.stmt) -> tuple[int, int]:
    """Where a statement ends."""
    return node.end_lineno or 0, node.end_col_offset or 0


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _filled(node: ast.expr) -> ast.expr:
    """The container that an entry is put into."""
    return node.func.value if isinstance(node, ast.Call) else node.value  # type: ignore[attr-defined,no-any-return]


def _may_be(resolver: Resolver, node: ast.expr, value: Value) -> bool:
    """Whether an expression may be an object, or have it inside."""
    return holds(resolver.values(node.value if isinstance(node, ast.Starred) else node), key(value))
