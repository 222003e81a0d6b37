"""Chooses what is prepared, where, and which evaluation loops are shared out."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cached_property

from accelift_codemod.blueprint import Blueprint, Group, Item, Options
from accelift_codemod.cuts import Cut, NoCut, find_cut
from accelift_codemod.facts import BatchLoop, Binding, Facts, Function, How, Role, Scope, Value, position
from accelift_codemod.facts.effects import loads, stores
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.objects import Key, key
from accelift_codemod.facts.tree import walk
from accelift_codemod.refusals import check, refuse

_NAMES = ("accelerator", "accel", "hf_accelerator", "accelift_accelerator")


def draft(facts: Facts, options: Options) -> Blueprint:
    """Decide how a script is to be converted.

    Raises:
        Refused: it is left alone.
    """
    check(facts)
    blueprint = Blueprint(facts, options)
    blueprint.accelerator = _free_name(facts)
    Placement(blueprint).plan()
    return blueprint


def _free_name(facts: Facts) -> str:
    taken = {name for scope in facts.written.scopes.values() for name in (*scope.bindings, *scope.loads)}
    taken.update(facts.written.attributes if facts.instances.followed else ())
    return next((name for name in _NAMES if name not in taken), "accelift_main_accelerator")


class Placement:
    """Chooses what is prepared, where, and which evaluation loops are shared out."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.facts = blueprint.facts
        self.resolver = blueprint.facts.resolver
        self.index = blueprint.facts.index
        self._copies: dict[ast.AST, None] = {}  # where objects are put into attributes of another

    def plan(self) -> None:
        optimizers = self._optimizers()
        models = self._models(optimizers)
        loaders = self._loaders()
        found: list[tuple[Value, Role]] = [
            *((m, Role.MODEL) for m in models),
            *((o, Role.OPTIMIZER) for o in optimizers),
            *((v, Role.LOADER) for v in loaders),
        ]
        items = [self._item(value, kind) for value, kind in found]
        self.blueprint.groups = self._groups(items)

    # ---- what

    def _optimizers(self) -> list[Value]:
        found = []
        for optimizer in self.facts.objects.optimizers:
            if not self.facts.runs(optimizer.call):
                continue
            line = optimizer.call.lineno
            if optimizer.loose:
                text = self.facts.segment(optimizer.loose[0])
                raise refuse(
                    "DDP-FREEPARAM",
                    line,
                    f"the optimizer updates `{text}`, which belongs to no module: its gradient would not be averaged",
                    "make it an nn.Parameter of a module",
                )
            if not optimizer.models:
                raise refuse(
                    "OPT-UNKNOWN",
                    line,
                    f"it cannot be told whose parameters `{self.facts.segment(optimizer.call.func)}(...)` updates",
                    "pass it `model.parameters()` of a model that this file can see",
                )
            if optimizer.is_lbfgs or self._steps_by_closure(optimizer.value):
                raise refuse(
                    "BWD-CLOSURE",
                    line,
                    "the optimizer steps by a closure, whose loss would have to be averaged across processes",
                    "convert it by hand, returning the reduced loss from the closure",
                )
            found.append(optimizer.value)
        if not found:
            raise refuse(
                "OPT-UNKNOWN",
                self.facts.loops.backwards[0].lineno,
                "gradients are computed, but no torch.optim optimizer applies them",
                "use an optimizer, or convert it by hand (updates outside an optimizer are not averaged)",
            )
        return found

    def _steps_by_closure(self, value: Value) -> bool:
        return any(
            (call.args or any(k.arg == "closure" for k in call.keywords))
            and value in self.resolver.values(call.func.value)  # type: ignore[attr-defined]
            for call in self.index.methods.get("step", [])
        )

    def _models(self, optimizers: list[Value]) -> list[Value]:
        found: dict[Key, Value] = {}
        for optimizer in self.facts.objects.optimizers:
            if optimizer.value in optimizers:
                for model in optimizer.models:
                    if isinstance(model.origin, ast.ClassDef):
                        raise refuse(
                            "LOOP-IN-CLASS",
                            optimizer.call.lineno,
                            f"the class {model.name} makes its own optimizer, and what it trains cannot be followed",
                            "make the optimizer outside the class, or convert it by hand",
                        )
                    found.setdefault(key(model), model)
        return list(found.values())

    def _loaders(self) -> list[Value]:
        """Loaders to prepare: those that train, and those of evaluation loops that can gather."""
        blueprint = self.blueprint
        chosen: dict[Key, Value] = {}
        for loop in blueprint.train_loops:
            for value in loop.loaders:
                chosen.setdefault(key(value), value)
        training = set(chosen)
        gathers = blueprint.options.chooses("METRIC")
        cuts: dict[BatchLoop, Cut | NoCut] = {
            loop: find_cut(self.facts, loop) if gathers else NoCut("METRIC is left out")
            for loop in blueprint.eval_loops
        }
        wanted: dict[Key, Value] = {}
        for loop in blueprint.eval_loops:
            for value in loop.loaders:
                wanted.setdefault(key(value), value)
        spoiled: set[Key] = set()
        changed = True
        while changed:  # loops that share a loader, or loaders that share a loop, are decided together
            changed = False
            for loop, cut in cuts.items():
                keys = {key(v) for v in loop.loaders}
                bad = isinstance(cut, NoCut) or bool(keys & spoiled)
                if bad and not keys - training <= spoiled:
                    spoiled |= keys - training
                    changed = True
        for k, value in wanted.items():
            if k not in spoiled:
                chosen.setdefault(k, value)
        for loop, cut in cuts.items():
            shared = [key(v) in chosen for v in loop.loaders]
            if isinstance(cut, Cut) and all(shared):
                blueprint.cuts[loop] = cut
            elif any(shared):
                if not (isinstance(cut, NoCut) and cut.needless):
                    blueprint.local_loops[loop] = cut.reason if isinstance(cut, NoCut) else "it mixes loaders"
            else:
                reason = cut.reason if isinstance(cut, NoCut) else "another loop over its loader cannot gather"
                if not (isinstance(cut, NoCut) and cut.needless):
                    blueprint.replicated[loop] = reason
        return list(chosen.values())

    # ---- where

    def _item(self, value: Value, kind: Role) -> Item:
        roots = self._roots(value, kind)
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
        statements = tuple(
            dict.fromkeys(
                self.index.statement(b.node)
                for b in scope.bindings[name]
                if any(key(v) == key(value) for v in self.resolver.bound(b))
            )
        )
        return Item(value, kind, scope, name, statements)

    def _roots(self, value: Value, kind: Role) -> set[tuple[Scope, str]]:
        """The variables through which the training reaches an object, traced back through parameters."""
        found: set[tuple[Scope, str]] = set()
        for use in self._uses.get(key(value), ()):
            traced = self._trace(use, set())
            if traced is None:
                raise refuse(
                    "PREP-NO-POINT",
                    use.lineno,
                    f"the {kind.value} is reached through `{self.facts.segment(use)}`, which is not a plain variable",
                    "keep it in a plain variable or parameter",
                )
            found |= {(scope, name) for scope, name in traced if self._carries(scope, name, value)}
        if not found:
            for scope in self.index.scopes.values():
                found |= {(scope, name) for name in scope.bindings if self._carries(scope, name, value)}
        return found

    def _carries(self, scope: Scope, name: str, value: Value) -> bool:
        """Whether a variable is somewhere assigned the object."""
        return any(
            binding.how is How.ASSIGN and any(key(v) == key(value) for v in self.resolver.bound(binding))
            for binding in scope.bindings[name]
        )

    @cached_property
    def _uses(self) -> dict[Key, list[ast.expr]]:
        """For each object: the expressions through which it may be used for training or evaluation."""
        found: dict[Key, list[ast.expr]] = {}

        def note(node: ast.expr) -> None:
            for one in dict.fromkeys(key(v) for v in self.resolver.values(node)):
                found.setdefault(one, []).append(node)

        for loop in (*self.blueprint.train_loops, *self.blueprint.eval_loops):
            if isinstance(loop.node, (ast.For, ast.AsyncFor, ast.comprehension)):
                for carrier in _carriers(loop.node.iter):
                    note(carrier)
        for call in self.index.calls:
            func = call.func
            if isinstance(func, ast.Attribute) and func.attr in ("step", "zero_grad") and self.facts.runs(call):
                if self.resolver.values(func.value):
                    note(func.value)
                    continue
            if isinstance(func, (ast.Name, ast.Attribute, ast.Subscript)) and self.resolver.values(func):
                if self.facts.runs(call) and self._in_batch_loop(call):
                    note(func)
        return found

    @cached_property
    def _loop_nodes(self) -> set[ast.AST]:
        return {loop.node for loop in (*self.blueprint.train_loops, *self.blueprint.eval_loops)}

    @cached_property
    def _loop_functions(self) -> set[ast.AST]:
        """Functions that batch loops call."""
        found: set[ast.AST] = set()
        for loop in (*self.blueprint.train_loops, *self.blueprint.eval_loops):
            for statement in loop.body:
                found |= self.blueprint.timeline.calls_into(statement)
        return found

    def _in_batch_loop(self, node: ast.AST) -> bool:
        if any(outer in self._loop_nodes for outer in self.index.enclosing_loops(node)):
            return True
        return self.index.function(node) in self._loop_functions

    def _trace(self, node: ast.expr, seen: set[ast.AST]) -> set[tuple[Scope, str]] | None:
        """The assigned variables an expression reads, through parameters; None if it is no plain variable."""
        if isinstance(node, ast.Attribute):
            return self._of_objects(node)
        if not isinstance(node, ast.Name):
            return None
        if node in seen:
            return set()
        seen.add(node)
        owner = self.index.scope(node).owner(node.id)
        if owner is None:
            return None
        found: set[tuple[Scope, str]] = set()
        for binding in self.resolver.reaching(node, owner):
            if binding.how is How.PARAMETER:
                function = self.index.parents[self.index.parents[binding.node]]
                for call in self.resolver.sites(function):
                    if not self.facts.runs(call):
                        continue
                    given = self.resolver.bind(call, function) if isinstance(function, FUNCTIONS) else None
                    argument = (given or {}).get(binding.name)
                    if argument is None:
                        continue
                    if isinstance(argument, ast.Constant):
                        continue
                    traced = self._trace(argument, seen)
                    if traced is None:
                        return None
                    found |= traced
            elif binding.how in (How.ASSIGN, How.AUGMENT):
                given_to = self._handed_to(binding, seen)
                found |= given_to if given_to else {(owner, node.id)}
            else:
                return None
        return found

    def _of_objects(self, node: ast.Attribute) -> set[tuple[Scope, str]] | None:
        """The variable that an attribute of a followed object is (`trainer.model`)."""
        found: set[tuple[Scope, str]] = set()
        for value in self.resolver.values(node.value):
            cls = value.declaration
            if not isinstance(cls, ast.ClassDef) or cls not in self.resolver.followed:
                return None
            name = f"{self.resolver.followed[cls]}.{node.attr}"
            if name not in self.index.scopes[cls].bindings:
                return None
            found.add((self.index.scopes[cls], name))
        return found or None

    def _handed_to(self, binding: Binding, seen: set[ast.AST]) -> set[tuple[Scope, str]]:
        """The variables outside whose object a constructor keeps in an attribute (`self.model = model`), if that is all
        the attribute ever is: the object is then prepared before it is handed in."""
        value = binding.value
        if not binding.scope.is_class or binding.path or not isinstance(value, ast.Name):
            return set()
        if len(binding.scope.bindings[binding.name]) != 1 or self.index.enclosing_loops(binding.node):
            return set()
        if any(b.how is not How.PARAMETER for b in self.resolver.bindings(value)):
            return set()
        traced = self._trace(value, seen)
        if traced:
            self._copies.setdefault(binding.node)
        return traced or set()

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
        together: dict[tuple[Scope, Function | None, ast.AST | None, ast.AST | None], list[Item]] = {}
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
            made = max(s.end_lineno or 0 for s in item.statements)
            uses = self._uses_of_batches(home) if item.scope.is_class else self._uses_in(home)
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
            together.setdefault((item.scope, home, first, inside), []).append(item)
        groups = [self._place(scope, first, members) for (scope, _, first, _), members in together.items()]
        return sorted(groups, key=lambda g: position(g.anchor))

    def _uses_in(self, home: Function | None) -> list[ast.AST]:
        """The places in a function after which it is too late to prepare: a loop runs, or an object got it."""
        copied = [p for copy in self._copies for p in self.blueprint.timeline.places(copy, home)]
        return sorted({*self._uses_of_batches(home), *copied}, key=position)

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
            for start in [node] if loop.direct else [node, *self._iterators(loop)]:
                function = self.index.function(start)
                for home in {function, *self.blueprint.timeline.callers(function)}:
                    found.setdefault(home, []).append(start)
        return found

    def _iterators(self, loop: BatchLoop) -> list[ast.Call]:
        """The calls of `iter` that start passes over the loaders of a loop which calls `next`."""
        return [
            call
            for call in self.index.calls
            if self.resolver.builtin(call.func) == "iter"
            and call.args
            and set(self.resolver.values(call.args[0])) & set(loop.loaders)
        ]

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
        for i in range(last + 1, len(block) if end is None else end):
            statement = block[i]
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                continue
            touched = ({n.id for n in loads(statement)} | stores(statement)) & names
            called = scope.is_class and self._changed_by_calls(statement, names)
            if called or (touched and self._same_variables(statement, scope, touched)):
                last = i
        return Group(scope, block[last], tuple(items))

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
        return any(
            load.id == item.name and any(key(v) == key(item.value) for v in self.resolver.values(load))
            for load in loads(statement)
        )

    def _changed_by_calls(self, statement: ast.stmt, names: set[str]) -> bool:
        """Whether a statement runs a method that reads or binds one of the attributes."""
        called = self.blueprint.timeline.calls_into(statement)
        return any(n.id in names for f in called for n in walk(f) if isinstance(n, ast.Name))

    def _same_variables(self, statement: ast.stmt, scope: Scope, names: set[str]) -> bool:
        own = self.index.scopes.get(statement) or self.index.scope(statement)
        return any(own.owner(name) is scope for name in names)


def _carriers(node: ast.expr) -> list[ast.expr]:
    """The expressions inside a loop's iterable that may be loaders."""
    if isinstance(node, ast.Call):
        found: list[ast.expr] = []
        for argument in (*node.args, *(k.value for k in node.keywords)):
            found += _carriers(argument)
        return found
    if isinstance(node, (ast.Tuple, ast.List)):
        return [c for e in node.elts for c in _carriers(e)]
    return [node]
