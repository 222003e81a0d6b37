"""An abstract interpreter: runs a loop body, or a module's forward, on layouts in place of tensors.

What it cannot follow is UNKNOWN, and rules treat that as not proved.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from accelift_codemod.facts.index import Function, Index
from accelift_codemod.facts.layout import decided, each, entries, ignored, products, settled, squared, views
from accelift_codemod.facts.layout.algebra import (
    CURVING,
    FIXED,
    SCALARS,
    Environment,
    Frame,
    Layout,
    Listed,
    Record,
    Shape,
    element,
    item,
    join,
    merge,
    tensor,
)
from accelift_codemod.facts.layout.arithmetic import ALTERED, combine, elementwise
from accelift_codemod.facts.layout.attributes import Attributes
from accelift_codemod.facts.layout.calls import Calls
from accelift_codemod.facts.layout.changes import Changes
from accelift_codemod.facts.layout.choosing import Choosing
from accelift_codemod.facts.layout.comprehensions import Comprehension, comprehension, pieced
from accelift_codemod.facts.layout.dimensions import Dimensions
from accelift_codemod.facts.layout.mixing_hooks import MixingHooks
from accelift_codemod.facts.layout.modules import Modules
from accelift_codemod.facts.layout.pieces import Pieces, added_to, put_into
from accelift_codemod.facts.layout.plain import is_plain_number, sizes
from accelift_codemod.facts.layout.prefixes import Prefixes
from accelift_codemod.facts.layout.ranks import Ranks
from accelift_codemod.facts.layout.subscripts import Subscripts
from accelift_codemod.facts.objects import Objects
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Role

if TYPE_CHECKING:
    from accelift_codemod.facts.extents import Extents
    from accelift_codemod.facts.hooks import Hook, Kept

_COMPARES = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


class Layouts:
    """Interprets code on layouts; what is `whole` is the same for all processes."""

    def __init__(
        self,
        objects: Objects,
        extents: Extents,
        whole: frozenset[ast.AST] = frozenset(),
        hooked: Callable[[], Mapping[ast.expr, Sequence[Kept]]] = dict,
        registered: Callable[[], Sequence[tuple[ast.Call, Hook]]] = list,
    ) -> None:
        self.whole = whole
        self._hooked = hooked
        self.registered = registered
        self.objects = objects
        self.resolver = objects.resolver
        self.index: Index = objects.index
        self.dimensions = Dimensions(objects.resolver, extents)
        self.modules = Modules(self)
        self.calls = Calls(self)
        self.changes = Changes(self)
        self.subscripts = Subscripts(self)
        self.attributes = Attributes(self)
        self.choosing = Choosing(objects.resolver)
        self.pieces = Pieces(objects.resolver)
        self.prefixes = Prefixes(self.step)
        self.ranks = Ranks(objects.resolver, self.dimensions)
        self.mixing = MixingHooks(self)
        self.single = False  # inside a loop over samples: what is computed from one of them is of that one alone
        self._trusted: ast.expr | None = None
        self._becoming: list[
            tuple[Record | Listed, Shape]
        ] = []  # dicts and lists, and what they are once a statement has run

    @cached_property
    def marked(self) -> bool:
        """Whether targets may be marked as those that a loss is to ignore."""
        return ignored.marks(self.resolver)

    @cached_property
    def hooked(self) -> Mapping[ast.expr, Sequence[Kept]]:
        """What hooks of networks have put where, by the places that read it."""
        return self._hooked()

    def by_hooks(self, node: ast.expr) -> Shape:
        """The layout of what hooks have filled."""
        return Layout.UNKNOWN

    # ---- statements

    def run(self, statements: list[ast.stmt], env: Environment, frame: Frame | None = None) -> None:
        """Interpret statements, updating the environment."""
        frame = frame or Frame(None)
        for statement in statements:
            self.step(statement, env, frame)
            ends = isinstance(statement, (ast.Return, ast.Raise))  # what comes after it never runs
            if ends or (isinstance(statement, ast.If) and settled.leaves(self.resolver, statement)):
                return

    def step(self, statement: ast.stmt, env: Environment, frame: Frame | None = None) -> None:
        """Interpret one statement."""
        frame = frame or Frame(None)
        if isinstance(statement, ast.Assign):
            value = self.changes.evaluated(statement.value, env, frame)
            for target in statement.targets:
                self.assign(target, sizes(statement.value, target) if value is Layout.UNKNOWN else value, env)
        elif isinstance(statement, ast.AnnAssign):
            if statement.value is not None:
                self.assign(statement.target, self.changes.evaluated(statement.value, env, frame), env)
        elif isinstance(statement, ast.AugAssign):
            value = self.changes.evaluated(statement.value, env, frame)
            before = self.read(statement.target, env, frame)
            if isinstance(before, Record):
                entries.replace(env, before, entries.joined(before, value))
            elif isinstance(before, Listed) and isinstance(value, Listed):
                entries.replace(env, before, Listed((*before, *value)))
            else:
                made = combine(statement.op, before, value)
                self.changes.augmented(statement.target, made, env)
                self.assign(statement.target, made, env)
        elif isinstance(statement, ast.Return):
            value = Layout.CONST if statement.value is None else self.changes.evaluated(statement.value, env, frame)
            frame.returned = value if frame.returned is None else join(frame.returned, value)
            frame.leave(env)
        elif isinstance(statement, ast.If):
            if any(isinstance(n, ast.NamedExpr) for n in walk(statement.test)):
                self.read(statement.test, env, frame)
            arm = settled.arm(self.resolver, statement)
            by = arm is None and self.modules.running and decided.goes_by(self, statement.test, env, frame)
            self._branches(env, frame, *(_taken(statement, env) if arm is None else [arm]))
            if by:
                decided.settle([statement.body, statement.orelse], env, frame)
        elif isinstance(statement, (ast.For, ast.AsyncFor)):
            sample = each.one(self, statement.iter, env, frame)
            if sample is not None:
                each.run(self, statement, sample, env, frame)
                return
            iterated = self.changes.evaluated(statement.iter, env, frame)
            for _ in range(2):
                earlier = dict(env)
                self.assign(statement.target, self.entry(iterated), env)
                self.run(statement.body, env, frame)
                merge(env, earlier)
            if iterated is Layout.PIECES:
                self._cut_up(statement, env, frame)
            self.run(statement.orelse, env, frame)
        elif isinstance(statement, ast.While):
            cut = self.read(statement.test, env, frame) is Layout.PIECES
            by = self.modules.running and decided.goes_by(self, statement.test, env, frame)
            for _ in range(2):
                self._branches(env, frame, statement.body, [])
            if cut:
                self._cut_up(statement, env, frame)
            if by:
                decided.settle([statement.body], env, frame)
            self.run(statement.orelse, env, frame)
        elif isinstance(statement, ast.Match):
            by = decided.goes_by(self, statement.subject, env, frame)
            self._branches(env, frame, *(case.body for case in statement.cases), [])
            if by:
                decided.settle([case.body for case in statement.cases], env, frame)
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            self.run(statement.body, env, frame)
        elif isinstance(statement, ast.Try):
            self._branches(env, frame, statement.body, [])
            for handler in statement.handlers:
                self._branches(env, frame, handler.body, [])
            self.run([*statement.orelse, *statement.finalbody], env, frame)
        elif isinstance(statement, ast.Expr):
            self.changes.evaluated(statement.value, env, frame)
            self.changes.forget(statement.value, env, frame)
        elif isinstance(statement, ast.Delete):
            for target in (t for t in statement.targets if isinstance(t, ast.Subscript)):
                record = self.read(target.value, env, frame)
                if isinstance(record, Record):
                    entries.replace(env, record, entries.without(record, target.slice))

    def entry(self, iterated: Shape) -> Shape:
        """What a loop over something binds its variable to."""
        return element(iterated)

    def _cut_up(self, loop: ast.For | ast.AsyncFor | ast.While, env: Environment, frame: Frame) -> None:
        """What a loop over pieces has added up, or put into lists, once for each."""
        for name in added_to(loop.body):
            if env.get(name) in (Layout.MEAN, Layout.WEIGHTED, Layout.QUOTIENT):
                env[name] = Layout.PIECED
        for name, value in put_into(loop.body):
            if isinstance(env.get(name), Listed):
                each = self.read(value, env, frame)
                env[name] = Layout.PIECES if each is Layout.PIECE else pieced(each)

    def before(
        self, node: ast.AST, statements: list[ast.stmt], env: Environment, frame: Frame | None = None
    ) -> Environment | None:
        """The environment just before a node is evaluated, from that before the statements; None if not among them.
        `frame` is that of a method of a network."""
        inside = {node, *self.index.ancestors(node)}
        place = next((i for i, statement in enumerate(statements) if statement in inside), None)
        if place is None:
            return None
        if frame is None:
            self.prefixes.run(statements, place, env)
        else:
            self.run(statements[:place], env, frame)
        statement = statements[place]
        if isinstance(statement, (ast.For, ast.AsyncFor)) and node is not statement.iter:
            self.assign(statement.target, self.entry(self.read(statement.iter, env, frame)), env)
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(statement, name, None)
            if isinstance(inner, list) and any(s in inside for s in inner):
                return self.before(node, inner, env, frame)
        return env

    def entered(self, call: ast.Call, function: Function, env: Environment) -> Environment | None:
        """The environment in which a function begins that a call runs; None if its arguments cannot be told."""
        given = self.resolver.bind(call, function)
        if given is None:
            return None
        own = self.index.enclosing_class(function)
        same = own is not None and self.index.enclosing_class(call) is own
        attributes = {name: value for name, value in env.items() if same and "." in name}
        return attributes | self.modules.parameters(function, {n: self.read(e, env) for n, e in given.items()})

    def _branches(self, env: Environment, frame: Frame, *bodies: list[ast.stmt]) -> None:
        results = []
        for body in bodies:
            branch = dict(env)
            self.run(body, branch, frame)
            if not (body and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))):
                results.append(branch)
        if results:
            merged = results[0]
            for other in results[1:]:
                merge(merged, other)
            env.clear()
            env.update(merged)

    def assign(self, target: ast.expr, value: Shape, env: Environment) -> None:
        """Bind an assignment target to a layout."""
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            holder = env.get(target.value.id)
            if isinstance(holder, Record):
                entries.replace(env, holder, entries.given(holder, ast.Constant(target.attr), value))
            elif target.value.id == "self":
                # Other methods may change a dict that the object keeps.
                env[f"self.{target.attr}"] = Layout.UNKNOWN if isinstance(value, (Record, Listed)) else value
        elif isinstance(target, ast.Subscript):
            self.changes.put(target, value, env)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for i, part in enumerate(target.elts):
                if isinstance(part, ast.Starred):
                    self.assign(part.value, Layout.UNKNOWN, env)
                else:
                    several = value is Layout.BATCH and views.several(self.resolver, part)
                    self.assign(part, Layout.BATCH if several else item(value, i), env)

    # ---- expressions

    def read(
        self, node: ast.expr | None, env: Environment, frame: Frame | None = None, trusted: ast.expr | None = None
    ) -> Shape:
        """The layout of an expression; `trusted` is a part of it to be taken for sample-first."""
        if trusted is not None:
            self._trusted = trusted
            try:
                return self.read(node, env, frame)
            finally:
                self._trusted = None
        frame = frame or Frame(None)
        if node is None:
            return Layout.CONST
        if node is self._trusted:
            return Layout.ROWS
        if node in self.whole:
            return Layout.CONST
        if isinstance(node, ast.Constant):
            return Layout.ZERO if isinstance(node.value, (int, float)) else Layout.CONST
        if isinstance(node, ast.Name):
            return self._name(node, env)
        if isinstance(node, (ast.Tuple, ast.List)):
            parts = (self.read(e, env, frame) for e in node.elts)
            return Listed(parts) if isinstance(node, ast.List) else tuple(parts)
        if isinstance(node, ast.Dict):
            return self._entries(node, env, frame)
        if isinstance(node, ast.BinOp):
            summed = squared.read(self, node, env, frame)
            if summed is not None:
                return summed
            left, right = self.read(node.left, env, frame), self.read(node.right, env, frame)
            return self.operated(node, left, right, env, frame)
        if isinstance(node, ast.UnaryOp):
            return self.read(node.operand, env, frame)
        if isinstance(node, ast.Compare):
            return self._compared(node, [self.read(e, env, frame) for e in (node.left, *node.comparators)], env, frame)
        if isinstance(node, ast.BoolOp):
            return elementwise(self.read(e, env, frame) for e in node.values)
        if isinstance(node, ast.IfExp):
            either = join(self.read(node.body, env, frame), self.read(node.orelse, env, frame))
            by = decided.goes_by(self, node.test, env, frame) and not decided.is_own(self, node)
            return Layout.MIXED if by else either
        if isinstance(node, ast.Attribute):
            return self.attributes.read(node, env, frame)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, env, frame)
        if isinstance(node, ast.Call):
            return self._call(node, env, frame)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.DictComp)):
            return self.comprehension(node, env, frame)
        if isinstance(node, ast.NamedExpr):
            value = self.read(node.value, env, frame)
            self.assign(node.target, value, env)  # which the rest of the expression may read
            return value
        if isinstance(node, ast.Starred):
            return self.read(node.value, env, frame)
        if isinstance(node, ast.JoinedStr):
            said = [self.read(part.value, env, frame) for part in node.values if isinstance(part, ast.FormattedValue)]
            return Layout.MIXED if any(part in (Layout.MIXED, *CURVING) for part in said) else Layout.CONST
        return Layout.UNKNOWN

    def _entries(self, node: ast.Dict, env: Environment, frame: Frame) -> Shape:
        """A dict whose keys are written, or are those of other ones: `{**out, "a": a}`."""
        found: dict[str, Shape] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            given = self.read(value, env, frame)
            name = entries.written(key) if key is not None else None
            if name is not None:
                found[name] = given
            elif key is None and isinstance(given, Record):
                found |= zip(given.names, given, strict=True)
            else:
                return Layout.UNKNOWN
        return Record.of(found)

    def operated(self, node: ast.BinOp, left: Shape, right: Shape, env: Environment, frame: Frame) -> Shape:
        """What an operator makes of its two sides."""
        if self.neighbours(node.left, node.right, env, frame):
            return Layout.MIXED
        if not isinstance(node.op, ast.MatMult) and left not in FIXED and right not in FIXED:
            if self.crossed(node.left, node.right, env, frame):
                return Layout.MIXED
        if isinstance(node.op, ast.MatMult) and products.squares(node.left, node.right) and left not in FIXED:
            return Layout.MIXED
        if isinstance(node.op, ast.MatMult) and self.one_for_each((left, right), (node.left, node.right)):
            return Layout.ROWS
        if isinstance(left, Record) and isinstance(right, Record) and isinstance(node.op, ast.BitOr):
            return entries.joined(left, right)
        averaged = products.averaged(node)
        if averaged is not None and (of := self.read(averaged, env, frame)) in SCALARS:
            return of  # a number, which is its own average by whatever weights
        if {left, right} == {Layout.ROWS, Layout.COLUMNS} and not isinstance(node.op, ast.MatMult):
            return self._for_each_column(node, node.left if left is Layout.ROWS else node.right)
        return combine(node.op, left, right)

    def _compared(self, node: ast.Compare, sides: list[Shape], env: Environment, frame: Frame) -> Shape:
        """What a comparison makes: whether a mean is above something is no mean."""
        if not isinstance(node.ops[0], _COMPARES):
            return elementwise(sides)
        if decided.is_order(node) and decided.compares_means(sides):
            return Layout.MIXED
        meets = len(sides) == 2 and self.crossed(node.left, node.comparators[0], env, frame)
        return Layout.MIXED if meets else elementwise(sides)

    def _for_each_column(self, node: ast.BinOp, rows: ast.expr) -> Shape:
        """What has the samples in dimension 1, and what has them in dimension 0: if that is the only one, they pair up.

        A result that is turned back (`(x.t() / n).t()`) means that, too, but it is not sure.
        """
        number = 1 if self.dimensions.is_of_rows(rows, node) else self.dimensions.of(rows)
        if number is not None:
            return Layout.COLUMNS if number == 1 else Layout.MIXED
        outer = self.index.parents.get(node)
        back = isinstance(outer, ast.Attribute) and outer.attr in ("t", "T", "mT")
        return Layout.UNKNOWN if back and not products.squares(node.left, node.right) else Layout.MIXED

    def _name(self, node: ast.Name, env: Environment) -> Shape:
        if node.id in env:
            return env[node.id]
        if node in self.hooked:
            return self.by_hooks(node)
        values = self.resolver.values(node)
        if self._set_by_hooks(node):
            return Layout.UNKNOWN
        if any(v.role in (Role.BATCH, Role.DATA) for v in values):
            # A number that an earlier iteration left does not depend on this batch.
            return Layout.CONST if is_plain_number(self.resolver, node) else Layout.UNKNOWN
        return Layout.CONST

    def _set_by_hooks(self, node: ast.Name) -> bool:
        """Whether a function inside a method, which a library may call, binds an attribute of self."""
        owner = self.index.scope(node).owner(node.id) if "." in node.id else None
        functions = [self.index.function(b.node) for b in owner.bindings[node.id]] if owner is not None else []
        return any(f is not None and not self.resolver.is_method(f) for f in functions)

    def _subscript(self, node: ast.Subscript, env: Environment, frame: Frame) -> Shape:
        return self.subscripts.read(node, env, frame)

    def neighbours(self, left: ast.expr, right: ast.expr, env: Environment, frame: Frame) -> bool:
        """Whether two expressions are samples and their neighbours, or samples and those of the other half."""
        wholes = self.pieces.wholes(left, right)
        layouts = [tensor(self.read(whole, env, frame)) for whole in wholes]
        return bool(layouts) and all(layout in (Layout.ROWS, Layout.PICKED) for layout in layouts)

    def crossed(self, left: ast.expr, right: ast.expr, env: Environment, frame: Frame) -> bool:
        """Whether the samples in dimension 0 of one tensor are set against those of another one that has fewer
        dimensions, so that every sample meets all: `z.unsqueeze(1) - z`."""
        samples = all(tensor(self.read(side, env, frame)) in (Layout.ROWS, *ALTERED) for side in (left, right))
        return samples and self.dimensions.differ(left, right)

    def one_for_each(self, layouts: Sequence[Shape], factors: tuple[ast.expr, ast.expr]) -> bool:
        """Whether a matrix product is one for each sample, as attention computes."""
        return all(layout is Layout.ROWS for layout in layouts) and self.dimensions.apart(*factors)

    def comprehension(self, node: Comprehension, env: Environment, frame: Frame) -> Shape:
        """What a comprehension makes."""
        return comprehension(self, node, env, frame)

    def _call(self, call: ast.Call, env: Environment, frame: Frame) -> Shape:
        return self.calls.read(call, env, frame)


def _taken(statement: ast.If, env: Environment) -> list[list[ast.stmt]]:
    """The branches that may be taken: a tensor is not None."""
    test = statement.test
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and len(test.ops) == 1:
        right = test.comparators[0]
        is_none = is_constant(right, None)
        if is_none and env.get(test.left.id) in (Layout.ROWS, Layout.BATCH):
            if isinstance(test.ops[0], ast.Is):
                return [statement.orelse]
            if isinstance(test.ops[0], ast.IsNot):
                return [statement.body]
    return [statement.body, statement.orelse]
