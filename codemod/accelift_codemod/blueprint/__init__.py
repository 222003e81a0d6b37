"""What the converted script will look like: decisions that several rules share, drawn from Facts alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property

from accelift_codemod.blueprint.leaving import comes_back, later_call
from accelift_codemod.facts import BatchLoop, Binding, Facts, How, Role, Scope, Value, position
from accelift_codemod.facts.handmade.steps import Step
from accelift_codemod.facts.index import Function
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.parts import BATCH_LIKE
from accelift_codemod.facts.scopes import end_position
from accelift_codemod.facts.timeline import Timeline
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Key, Values, key, views
from accelift_codemod.measured.cuts import Cut
from accelift_codemod.options import Options


@dataclass(frozen=True)
class Item:
    """An object to prepare, and the variable that carries it."""

    value: Value
    kind: Role
    scope: Scope
    name: str
    statements: tuple[ast.stmt, ...]  # those that bind the variable to the object
    places: tuple[str, ...]  # the variable, or the entries of the container in it that are the object
    target: str = ""  # the variable that gets the prepared one, if the object stays in its own: `net` for `self`


@dataclass(frozen=True)
class Group:
    """Objects prepared by one call, after one statement; or a loader that is in no variable, where it is made."""

    scope: Scope
    anchor: ast.stmt | ast.Call
    items: tuple[Item, ...]
    before: bool = False  # before that statement, with which its function begins, or the code after a script's imports

    @property
    def done(self) -> tuple[int, int]:
        """The position after which the objects are prepared."""
        anchor = self.anchor
        return (anchor.lineno, -1) if self.before else end_position(anchor)


@dataclass(frozen=True)
class Local:
    """Why the results of a loop stay those of one process's share of the data, and what to do."""

    reason: str
    remedy: str = "gather what they are computed from by accelerator.gather_for_metrics"


@dataclass
class Blueprint:
    """The shared decisions for one script."""

    facts: Facts
    options: Options
    accelerator: str = "accelerator"
    groups: list[Group] = field(default_factory=list)
    cuts: dict[BatchLoop, Cut] = field(default_factory=dict)
    replicated: dict[BatchLoop, str] = field(default_factory=dict)  # evaluation loops not shared out, and why
    local_loops: dict[BatchLoop, Local] = field(default_factory=dict)  # over prepared loaders, but not gathered
    unplaced: dict[Value, str] = field(default_factory=dict)  # loaders of evaluations that have no place, and why
    peeks: set[ast.AST] = field(default_factory=set)  # where batches are looked at before their loader is prepared

    # ---- loops

    @cached_property
    def train_loops(self) -> list[BatchLoop]:
        fed = [loop for loop in self.facts.loops.batch_loops if loop.trains and self.facts.runs(loop.node)]
        return sorted([*fed, *self.handmade], key=lambda loop: position(loop.node))

    @cached_property
    def in_training(self) -> set[ast.AST]:
        """What runs in iterations of training loops, also in functions that these call."""
        bodies = [s for loop in self.train_loops for s in loop.body]
        called = dict.fromkeys(f for s in bodies for f in self.timeline.calls_into(s))
        return {n for part in (*bodies, *called) for n in walk(part)}

    @cached_property
    def handmade(self) -> dict[BatchLoop, Step]:
        """Loops without a loader whose batches are shared out all the same: all that there are, or none."""
        handmade = self.facts.handmade
        if not (self.options.shard_manual and handmade.sharable) or self.facts.processes.managed:
            return {}
        return {step.loop: step for step in handmade.steps.values()}

    @cached_property
    def attacking_loops(self) -> list[BatchLoop]:
        """Evaluations that run backward passes on the shares of batches."""
        return [loop for loop in self.eval_loops if loop.attacks and self.shares_batches(loop)]

    @cached_property
    def eval_loops(self) -> list[BatchLoop]:
        """Batch loops that do not train, those nested in a training loop's body by accident of `next` left out.

        Nor do those count that a function has which only looks at a batch of a loader that it makes and returns.
        """
        loops = (loop for loop in self.facts.loops.batch_loops if loop.node not in self.peeks)
        return [loop for loop in loops if not loop.trains and self.facts.runs(loop.node)]

    @cached_property
    def loops(self) -> dict[ast.AST, BatchLoop]:
        """Every loop over batches, by its node."""
        return {loop.node: loop for loop in (*self.train_loops, *self.eval_loops)}

    @cached_property
    def run_in_loops(self) -> frozenset[Function]:
        """The functions of the script that some loop over batches may run."""
        bodies = (statement for loop in self.loops.values() for statement in loop.body)
        return frozenset(function for statement in bodies for function in self.timeline.calls_into(statement))

    @cached_property
    def evaluating(self) -> frozenset[ast.AST | None]:
        """The loops that do not train, and the functions that they stand in."""
        return frozenset(node for loop in self.eval_loops for node in (loop.node, loop.function))

    @cached_property
    def timeline(self) -> Timeline:
        return Timeline(self.facts.resolver)

    # ---- prepared objects

    @cached_property
    def items(self) -> dict[Key, Item]:
        return {key(item.value): item for group in self.groups for item in group.items}

    def item(self, value: Value) -> Item | None:
        """What is handed to prepare of an object, if it is."""
        return next((self.items[one] for one in views(value) if one in self.items), None)

    def is_prepared(self, value: Value) -> bool:
        """Whether an object is one of those handed to prepare."""
        return self.item(value) is not None

    @memoised
    def prepared_models(self, node: ast.AST | None) -> Values:
        """The prepared models that an expression may denote."""
        return tuple(v for v in self.facts.resolver.values(node) if self._kind(v) is Role.MODEL)

    def is_itself(self, node: ast.AST) -> bool:
        """Whether an expression is `self` in a network that trains itself: the network inside, not what wraps it."""
        if not self.facts.resolver.self_trained or not isinstance(node, ast.Name):
            return False
        found = self.facts.resolver.bindings(node)
        return any(b.how is How.PARAMETER and self._wraps(v) for b in found for v in self.facts.resolver.bound(b))

    @memoised
    def keeps_itself(self, node: ast.AST) -> bool:
        """Whether an attribute holds a model that it was given before that was prepared: not what prepare gave back."""
        if not isinstance(node, ast.Name) or "." not in node.id:
            return False
        owner = self.facts.index.scope(node).owner(node.id)
        items = [item for model in self.prepared_models(node) if (item := self.item(model)) is not None]
        if any((item.scope, item.name) == (owner, node.id) or item.target == node.id for item in items):
            return False  # the variable that gets the prepared one
        given = [b for b in self.facts.resolver.bindings(node) if self._gives_models(b)]
        return bool(given) and all(map(self._comes_bare, given))

    def _gives_models(self, binding: Binding) -> bool:
        return any(self._kind(v) is Role.MODEL for v in self.facts.resolver.bound(binding))

    def _comes_bare(self, binding: Binding) -> bool:
        """Whether a binding is given prepared models, and each before that is prepared."""
        models = self.prepared_models(binding.value) if binding.how is How.ASSIGN and not binding.path else ()
        value = binding.value
        return value is not None and bool(models) and not any(self.meets_prepared(value, m) for m in models)

    def _wraps(self, value: Value) -> bool:
        item = self.item(value)
        return item is not None and item.target != "" and item.value.origin is value.origin

    def prepared_part(self, node: ast.expr) -> tuple[ast.expr, Values]:
        """The prepared models that an expression is a part of, and the expression that is them; else its root."""
        while True:
            models = self.prepared_models(node)
            if models or not isinstance(node, (ast.Attribute, ast.Subscript)):
                return node, models
            node = node.value

    def _kind(self, value: Value) -> Role | None:
        item = self.item(value)
        return item.kind if item else None

    @cached_property
    def _groups(self) -> dict[Key, Group]:
        return {key(item.value): group for group in reversed(self.groups) for item in group.items}

    def group(self, value: Value) -> Group | None:
        """The group in which an object is prepared."""
        item = self.item(value)
        return self._groups[key(item.value)] if item is not None else None

    def after_prepare(self, node: ast.AST, value: Value) -> bool:
        """Whether a node is evaluated only after the object has been prepared."""
        group = self.group(value)
        if group is None:
            return False
        known = self._after(group, node)
        if known:
            return all(known)
        if self.timeline.follows(node, self.facts.index.function(group.anchor)):
            return True
        # the object has left the function in which it was prepared
        if comes_back(self.timeline, node, group.anchor):
            return True
        calls = self.timeline.moments(group.anchor, self.facts.index.function(node))
        if calls:
            return position(node) > max(calls)
        return later_call(self.timeline, node, group.anchor)

    def may_follow_prepare(self, node: ast.AST, value: Value) -> bool:
        """Whether a node may be evaluated after the object has been prepared: surely, or nothing says otherwise."""
        group = self.group(value)
        if group is None:
            return False
        if group.scope.is_class and not self.timeline.within(node, self.facts.index.function(group.anchor)):
            return not self._comes_before(node, group.anchor)  # methods run in an order of their own
        return self.after_prepare(node, value)

    def _comes_before(self, node: ast.AST, other: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether a node surely runs before another one, to which its function, or all that call it, lead by later
        calls alone."""
        function = self.facts.index.function(node)
        places = self.timeline.places(other, function)
        if places or function is None or function in seen:
            inside = set(walk(node))  # what a call is given comes before what it runs
            before = all(position(node) < position(place) and place not in inside for place in places)
            return bool(places) and before and not any(self.timeline.repeats(node, place) for place in places)
        sites = [*self.facts.resolver.sites(function), *self.timeline.handed_on(function)]
        return bool(sites) and all(self._comes_before(site, other, seen | {function}) for site in sites)

    def meets_prepared(self, node: ast.AST, value: Value) -> bool:
        """Whether a node may find an object prepared: perhaps not the first time that it is called."""
        group = self.group(value)
        return self.may_follow_prepare(node, value) or (group is not None and any(self._after(group, node)))

    def _after(self, group: Group, node: ast.AST) -> list[bool]:
        """Of each time that a node is known to be evaluated: whether that is after a group has been prepared."""
        anchor = group.anchor
        places = self.timeline.places(node, self.facts.index.function(anchor))
        if isinstance(anchor, ast.stmt):
            return [position(place) > group.done for place in places]
        begun = position(self.facts.index.statement(anchor))
        handed = isinstance(node, ast.Call) and any(anchor in walk(a) for a in (*node.args, *node.keywords))
        # What is prepared in a call is so for all that the call runs.
        return [
            handed or position(place) > group.done if place is node else position(place) >= begun for place in places
        ]

    def shares_batches(self, loop: BatchLoop) -> bool:
        """Whether a loop draws from prepared loaders: each process sees its share of every batch."""
        prepared = any(self.is_prepared(v) for v in loop.loaders)
        return loop in self.handmade or (prepared and loop.node not in self.peeks)

    def seen_before(self, node: ast.AST, steps: int = 0) -> bool:
        """Whether an expression may have something of a batch that was looked at before its loader was prepared."""
        if not self.peeks or steps > 6:
            return bool(self.peeks)
        resolver = self.facts.resolver
        for part in walk(node):
            if part in self.peeks:
                return True
            if not isinstance(part, ast.Name) or not resolver.roles(part) & BATCH_LIKE:
                continue
            for binding in resolver.bindings(part):
                if binding.node is not part and self._bound_before(binding, steps + 1):
                    return True
        return False

    def _bound_before(self, binding: Binding, steps: int) -> bool:
        """Whether a binding gives a variable something of a batch that was looked at before."""
        if binding.how is How.LOOP:
            return any(parent in self.peeks for parent in self.facts.index.ancestors(binding.node))
        if binding.how is How.PARAMETER:
            given = self.facts.resolver.handed(binding)
            return any(argument is not None and self.seen_before(argument, steps) for argument in given)
        return binding.value is not None and self.seen_before(binding.value, steps)

    @cached_property
    def placed(self) -> dict[Key, bool]:
        """For each prepared loader: whether it moves its batches to the device (else the author's moves stay)."""
        found = {one: True for one, item in self.items.items() if item.kind is Role.LOADER}
        for loop in (loop for loop in (*self.train_loops, *self.eval_loops) if loop.node not in self.peeks):
            items = [item for v in loop.loaders if (item := self.item(v)) is not None]
            if items and not self.facts.batches.placed(loop):
                found.update(dict.fromkeys((key(item.value) for item in items), False))
        for call, loader in self.facts.batches.arrays:
            item = self.item(loader)
            if item is not None and self.meets_prepared(call, loader):
                found[key(item.value)] = False
        return found

    def places(self, loader: Value) -> bool:
        """Whether a loader is prepared, and moves its batches to the device, and no loop over it may also be over what
        does not."""
        item = self.item(loader)
        return item is not None and self.placed.get(key(item.value), False) and loader not in self._mixed

    @cached_property
    def _mixed(self) -> set[Value]:
        """The loaders in whose place loops may have something that is none."""
        loops = (*self.train_loops, *self.eval_loops)
        return {loader for loop in loops if self.facts.loops.others(loop) for loader in loop.loaders}
