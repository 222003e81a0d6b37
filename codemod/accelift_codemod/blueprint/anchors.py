"""Finds the statement after which objects are prepared: they are all made there, and nothing has trained."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accelift_codemod.blueprint import Blueprint, Group, Item
from accelift_codemod.blueprint.rebinding import given_back, stays_there
from accelift_codemod.facts import Function, Role, Scope, position
from accelift_codemod.facts.certainty import Certainty
from accelift_codemod.facts.effects import assignments, loads, stores
from accelift_codemod.facts.index import COMPREHENSIONS, FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import key
from accelift_codemod.reasons import Refused, refuse

_IMPORTS = (ast.Import, ast.ImportFrom)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)


class Anchors:
    """Finds it for objects of one scope, which are first used at one place."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.facts = blueprint.facts
        self.index = blueprint.facts.index
        self.resolver = blueprint.facts.resolver
        self.certainty = Certainty(blueprint.facts.resolver)

    def groups(self, scope: Scope, use: ast.AST | None, items: list[Item], looked: list[ast.AST]) -> list[Group]:
        """One place for objects, and one before it for those that are used where that may not have been passed.

        `looked` are the places where batches are only looked at: they come first, if they can.
        """
        block = self._block(use, [s for item in items for s in item.statements])
        arms = list(self._arms(block[0]))
        apart = [item for item in items if any(self._read_beyond(arm, item) for arm in arms)]
        if not apart:
            return self._placed(scope, use, items, looked)
        rest = [item for item in items if item not in apart]
        if not rest:
            made = [self._unmoved(item) for item in apart]
            if made != apart:
                return self.groups(scope, use, made, looked)
            raise refuse(
                "PREP-NO-POINT",
                block[0].lineno,
                f"`{apart[0].name}` is used for training under a condition here, and elsewhere, too",
                "make it once, before the condition",
            )
        return [*self.groups(scope, use, apart, looked), *self._placed(scope, use, rest, looked)]

    def _unmoved(self, item: Item) -> Item:
        """An object as it is made, without the statements that only move it, or wrap it, and go when it is prepared."""
        again = {self.index.statement(b.node) for b in item.scope.bindings[item.name] if stays_there(self.facts, b)}
        return replace(item, statements=tuple(s for s in item.statements if s not in again) or item.statements)

    def _placed(self, scope: Scope, use: ast.AST | None, items: list[Item], looked: list[ast.AST]) -> list[Group]:
        """One place for objects; what may not be there by then gets one where it is made."""
        chain = self.index.chain(self._block(use, [s for item in items for s in item.statements])[0])
        loaders = [i for i in items if i.kind is Role.LOADER] if not looked else []
        own = [i for i in loaders if self._only_there(i, chain)]
        stepping = [i for i in items if i.kind is Role.OPTIMIZER and self._only_there(i, chain)]
        models = [i for i in items if i.kind is Role.MODEL]
        if stepping and models:  # they are on their device before the optimizers load what they had saved
            apart = (*own, *stepping)
            rest = [i for i in items if i not in apart and i not in models]
            first = min((i.statements[0] for i in stepping), key=position)
            groups = [Group(scope, i.statements[0], (i,)) for i in apart] + self._placed(scope, first, models, [])
            return [*groups, *(self._placed(scope, use, rest, looked) if rest else ())]
        anchor = self._place(scope, use, items, looked) if not own else None
        if anchor is not None:
            around = self.index.chain(anchor)
            own = [i for i in loaders if self._made_under_tests(i, around) and self._lacks(i, anchor)]
        if anchor is None or own:
            rest = [item for item in items if item not in own]
            groups = [Group(scope, item.statements[0], (item,)) for item in own]
            return [*groups, *(self._placed(scope, use, rest, looked) if rest else ())]
        group = self._group(scope, anchor, items)
        missing = [i for i in items if scope.is_class and not self._set(i, anchor)]
        if not missing:
            return [group]
        blocks: dict[ast.stmt, list[Item]] = {}
        for item in missing:
            blocks.setdefault(self._block(use, list(item.statements))[0], []).append(item)
        rest = [item for item in items if item not in missing]
        if not rest and len(blocks) == 1:
            raise self._not_there(missing[0])
        parts = [*blocks.values(), rest] if rest else [*blocks.values()]
        return [g for part in parts for g in self._placed(scope, use, part, looked)]

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

    def _group(self, scope: Scope, anchor: ast.stmt, items: list[Item]) -> Group:
        for item in items:
            self._require_in_view(item, anchor)
            self._require_there(item, anchor)
        if isinstance(anchor, _IMPORTS):
            block, at = self.index.block(anchor)
            return Group(scope, block[at + 1], tuple(items), before=True)
        return Group(scope, anchor, tuple(items))

    def _place(self, scope: Scope, use: ast.AST | None, items: list[Item], looked: list[ast.AST]) -> ast.stmt:
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
        names = {i.name for i in items if i.kind is not Role.LOADER} | self._parts(scope, items)
        aliases = self._aliases(items) if scope.is_class else set()
        early = {self._at(block, self.index.statement(place)) for place in looked}
        for i in range(last + 1, len(block) if end is None else end):
            statement = block[i]
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Return)) or _is_shown(statement):
                continue  # what is returned is prepared before
            touched = ({n.id for n in loads(statement)} | stores(statement)) & names
            called = scope.is_class and self._changed_by_calls(statement, names)
            if (
                called
                or i in early
                or {n.id for n in loads(statement)} & aliases
                or (touched and self._same_variables(statement, scope, touched))
            ):
                last = i
        return self._in_script(block[last:end], items)

    def _in_script(self, statements: list[ast.stmt], items: list[Item]) -> ast.stmt:
        """The first of some statements; for loaders that another file makes outside functions, and the script uses in a
        function, the last import of the script among them, or where it chooses its device: the accelerator is made in
        the script, too."""
        anchor, script = statements[0], self.facts.tree.body[-1]
        chosen = {s for v in self.facts.devices.variables for s in v.statements}
        own = [s for s in statements if self.facts.same_file(s, script) and (isinstance(s, _IMPORTS) or s in chosen)]
        if not own or self.facts.same_file(anchor, script) or any(i.kind is not Role.LOADER for i in items):
            return anchor
        try:
            for item in items:
                self._require_in_view(item, own[-1])
        except Refused:
            return anchor
        return own[-1]

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
        if not item.scope.is_class and self._is_apart(item, chain) and self._only_under(item, chain):
            raise refuse(
                "PREP-NO-POINT",
                item.statements[0].lineno,
                f"`{item.name}` is only made under a condition, under which all uses of it are, too",
                "make it in any case, or prepare it where it is made",
            )
        if self._lacks(item, anchor):
            raise self._not_there(item)

    def _lacks(self, item: Item, anchor: ast.stmt) -> bool:
        """Whether a variable may have no object after a statement, and the original may do without one there."""
        if item.scope.is_class or not self._is_apart(item, self.index.chain(anchor)):
            return False
        return not self._bound(item, anchor) and not self._read_anyway(item, anchor)

    def _is_apart(self, item: Item, chain: list[ast.stmt]) -> bool:
        """Whether an object is only made in inner blocks of those that some statements are in."""
        return all(self.index.parents[s] not in self._around(chain) for s in item.statements)

    def _only_under(self, item: Item, chain: list[ast.stmt]) -> bool:
        """Whether an object is only made, and used, under a condition that does not hold for some statements."""
        outside = (n for s in item.statements for n in self.index.ancestors(s) if n not in chain)
        tests = {ast.dump(n.test) for n in outside if isinstance(n, ast.If)}
        reads = [n for n in self.facts.loads(item.scope, item.name) if self.index.statement(n) not in item.statements]
        return bool(tests) and all(self._conditional(read, chain, tests) for read in reads)

    def _only_there(self, item: Item, chain: list[ast.stmt]) -> bool:
        """Whether an object is made by one statement under conditions, and only used under these, too."""
        return self._made_under_tests(item, chain) and self._only_under(item, chain)

    def _made_under_tests(self, item: Item, chain: list[ast.stmt]) -> bool:
        """Whether an object is made by one statement, under conditions and in nothing else that is not around.

        Others may hand it to a function that gives it back: `optimizer = resume(path, optimizer)`.
        """
        if item.scope.is_class or not self._is_apart(item, chain):
            return False
        if not all(self._gives_back(item, statement) for statement in item.statements[1:]):
            return False
        around = self._around(chain)
        outside = [n for n in self.index.ancestors(item.statements[0]) if isinstance(n, ast.stmt) and n not in around]
        return all(isinstance(n, (ast.If, *FUNCTIONS, ast.ClassDef)) for n in outside)

    def _gives_back(self, item: Item, statement: ast.stmt) -> bool:
        """Whether a statement binds a variable to nothing but what it hands a function that gives it back."""
        bound = [b for b in item.scope.bindings[item.name] if self.index.statement(b.node) is statement]
        return all(given_back(self.resolver, binding) is not None for binding in bound)

    def _not_there(self, item: Item) -> Refused:
        return refuse(
            "PREP-NO-POINT",
            item.statements[0].lineno,
            f"`{item.name}` is only made under a condition here, and may not be there where it is prepared",
            "make it in any case, or only run what uses it under that condition, where it is made",
        )

    def _set(self, item: Item, anchor: ast.stmt) -> bool:
        """Whether an attribute is surely there after a statement: what binds it has run, or what reads it."""
        nodes = [*(b.node for b in item.scope.bindings[item.name]), *self.facts.loads(item.scope, item.name)]
        touching = set[ast.stmt]()
        for node in nodes:
            statement = self.index.statement(node)
            if isinstance(statement, _SIMPLE) and node not in self._maybe(statement):
                touching.add(statement)
        return self.certainty.passed(self._surely(touching), anchor)

    def _surely(self, statements: set[ast.stmt]) -> set[ast.stmt]:
        """Statements, and those that call a function which surely runs one of them."""
        found, queue = set(statements), [*statements]
        done: set[Function | None] = {None}
        while queue:
            function = self.index.function(queue.pop())
            if function is None or function in done or not self.certainty.runs_through(function):
                continue
            own = {s for s in found if self.index.function(s) is function}
            if self.certainty.passed(own, function.body[-1]):
                done.add(function)
                calls = {call: self.index.statement(call) for call in self.resolver.sites(function)}
                new = {s for call, s in calls.items() if call not in self._maybe(s)} - found
                found |= new
                queue += new
        return found

    def _maybe(self, statement: ast.stmt) -> set[ast.AST]:
        """The nodes of a simple statement that it may not evaluate."""
        parts = (n for n in walk(statement) if isinstance(n, (ast.IfExp, ast.BoolOp, ast.Lambda, *COMPREHENSIONS)))
        return {n for part in parts for n in walk(part)}

    def _bound(self, item: Item, anchor: ast.stmt) -> bool:
        """Whether a variable is surely bound after a statement, as far as its function tells: set, or read, before."""
        home = self.index.function(anchor)
        made = {self.index.statement(b.node) for b in item.scope.bindings[item.name]}
        if any(self.index.function(s) is not home for s in (*made, *item.statements)):
            return True
        reads = {n: self.index.statement(n) for n in self.facts.loads(item.scope, item.name)}
        own = {n: s for n, s in reads.items() if self.index.function(n) is home and isinstance(s, _SIMPLE)}
        return self.certainty.passed({*made, *(s for n, s in own.items() if n not in self._maybe(s))}, anchor)

    def _read_anyway(self, item: Item, anchor: ast.stmt) -> bool:
        """Whether a variable is surely read after a statement, which fails without it in the original, too."""
        home = self.index.function(anchor)
        block, i = self.index.block(anchor)
        for read in self.facts.loads(item.scope, item.name):
            if self.index.function(read) is not home and self._under_condition(read, None):
                continue
            for place in self.blueprint.timeline.places(read, home):
                at = self._at(block, self.index.statement(place))
                if at is None or at <= i or self._under_condition(place, block[at]):
                    continue
                if not any(map(self.certainty.may_leave, block[i + 1 : at])) and not self._bound_between(
                    item, block[i + 1 : at + 1], place
                ):
                    return True
        return False

    def _bound_between(self, item: Item, statements: list[ast.stmt], place: ast.AST) -> bool:
        """Whether statements may give a variable another object before it is read at a place."""
        bound = {self.index.statement(b.node) for b in item.scope.bindings[item.name]} - {self.index.statement(place)}
        before = [s for s in bound if position(s) < position(place)]
        return any(self._at(statements, s) is not None for s in before)

    def _under_condition(self, node: ast.AST, outer: ast.stmt | None) -> bool:
        """Whether a node in a statement (or in its function) is only evaluated under a condition, which is no matter of
        the pass of a loop: `if i % 2 == 0:`."""
        child = node
        for parent in self.index.ancestors(node):
            if child is outer or isinstance(parent, FUNCTIONS):
                return False
            if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
                asked = {n.id for n in loads(parent.test)}
                if not any(asked & stores(loop) for loop in self.index.enclosing_loops(parent)):
                    return True
            if isinstance(parent, (ast.ExceptHandler, ast.BoolOp)):
                return True
            child = parent
        return False

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

    def _aliases(self, items: list[Item]) -> set[str]:
        """The variables from which attributes got their objects (`self.model = model`)."""
        return {
            value.id
            for item in items
            for statement in item.statements
            for target, value in assignments(statement)
            if item.kind is not Role.LOADER and isinstance(value, ast.Name) and _is_named(target, item.name)
        }

    def _parts(self, scope: Scope, items: list[Item]) -> set[str]:
        """The variables of networks that are trained as parts of those that are prepared."""
        whole = {key(i.value) for i in items if i.kind is Role.MODEL}
        parts = {part for part, around in self.facts.objects.wholes.items() if key(around) in whole}
        bound = ((name, v) for name in scope.bindings for b in scope.bindings[name] for v in self.resolver.bound(b))
        return {name for name, value in bound if key(value) in parts} if parts else set()

    def _changed_by_calls(self, statement: ast.stmt, names: set[str]) -> bool:
        """Whether a statement runs a method that reads or binds one of the attributes."""
        called = self.blueprint.timeline.calls_into(statement)
        return any(n.id in names for f in called for n in walk(f) if isinstance(n, ast.Name))

    def _same_variables(self, statement: ast.stmt, scope: Scope, names: set[str]) -> bool:
        own = self.index.scopes.get(statement) or self.index.scope(statement)
        return any(own.owner(name) is scope for name in names)


def _is_shown(statement: ast.stmt) -> bool:
    """Whether a statement is a variable alone, which a notebook shows if it is the last one of a cell."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Name)


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
