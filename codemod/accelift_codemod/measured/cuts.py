"""Where an evaluation loop gathers: the narrowest cut of its data flow that every result passes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accelift_codemod.batches.compared import compared
from accelift_codemod.batches.share_lengths import counts_rows
from accelift_codemod.facts import BatchLoop, Facts, Kind
from accelift_codemod.facts.effects import Effects, flatten, loads, stores
from accelift_codemod.facts.index import COMPREHENSIONS, FUNCTIONS
from accelift_codemod.facts.layout import Environment, Layout, Layouts, Shape
from accelift_codemod.facts.layout.algebra import handed_on
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role, Values
from accelift_codemod.measured.still_read import Piece, StillRead

if TYPE_CHECKING:
    from accelift_codemod.batches.share_lengths import ShareLengths

_RUNS_NOTHING = frozenset("train eval parameters state_dict zero_grad".split())  # methods of networks
_AT_ONCE = "the model runs in the statement that keeps a result"
_LAST = "what it has of its last batch is read after it"
_MIXES = "what its network is given, or gives, of a sample goes by the others of the batch"


@dataclass(frozen=True)
class Cut:
    """Gather `given` after (or before) a statement of the loop body, and call it `names`; the rest of the body stays as
    it is, but for what has another name then (`renamed`).

    `means` are means over the samples that are averaged there, too, and what they are called then.
    `wrapped` are expressions to gather in place (a model called inside the statement that collects its result).
    `recounts` are expressions such as `x.size(0)` after the cut whose tensor need not be gathered for its length
    alone; they are to be asked of `counter`. `trusts` says that a model's output is taken to have one row for each
    sample because the loop compares it with a part of the batch, which is no proof.
    """

    anchor: ast.stmt
    after: bool
    names: tuple[str, ...]
    given: tuple[str, ...]
    recounts: tuple[ast.expr, ...] = ()
    counter: str = ""
    wrapped: tuple[ast.expr, ...] = ()
    renamed: tuple[tuple[ast.expr, str], ...] = ()
    trusts: bool = False
    means: tuple[tuple[str, str], ...] = ()

    @property
    def passing(self) -> set[str]:
        """What is that of all processes from there on."""
        return {*self.given, *(given for _, given in self.means)}


@dataclass(frozen=True)
class NoCut:
    """Why a loop cannot gather."""

    reason: str
    needless: bool = False  # nothing of the loop outlives an iteration
    uneven: bool = False  # its rows have another length on each process


def find_cut(
    facts: Facts, loop: BatchLoop, lengths: ShareLengths, dealt: bool = False, means: bool = False
) -> Cut | NoCut:
    """The cut of an evaluation loop, or why there is none.

    The cut may go down the body as long as nothing that depends on the batch has left the iteration and
    every value that passes it is a sample-first tensor. Of the possible ones the one with the fewest values is
    taken, and of these the lowest (a prediction rather than logits). Only where there is none, means over the samples
    may pass, too, such as the loss that a model returns.

    Args:
        facts: the script's.
        loop: the evaluation loop.
        lengths: which of its tensors have rows as long as the longest sample of a share.
        dealt: its loader deals out shares in any case, as a training loop goes over it, too.
        means: the runtime can average means over shares of different sizes.
    """
    by_rows = _Cutter(facts, loop, lengths, dealt, facts.layouts).find()
    if not means or isinstance(by_rows, Cut) or by_rows.needless or by_rows.uneven:
        return by_rows
    for layouts in (facts.doubted, facts.compared):
        found = _Cutter(facts, loop, lengths, dealt, layouts, means).find()
        if isinstance(found, Cut):
            return replace(found, trusts=found.trusts or layouts is facts.compared)
    return by_rows


class _Cutter:
    def __init__(
        self, facts: Facts, loop: BatchLoop, lengths: ShareLengths, dealt: bool, layouts: Layouts, means: bool = False
    ) -> None:
        self.facts = facts
        self.loop = loop
        self.lengths = lengths
        self.dealt = dealt
        self.means = means
        self.layouts = layouts
        self.read = StillRead(facts, loop, layouts)
        self.trusts = False
        self.uneven = False
        self.mixes = False

    def find(self) -> Cut | NoCut:
        node = self.loop.node
        if not self.loop.direct or isinstance(node, ast.While):
            return NoCut("it draws its batches one by one from an iterator")
        if not all(map(self.facts.collated.stacks, self.loop.loaders)):
            return NoCut(
                "its batches are collated in a way that cannot be followed, or that does more than stack samples"
            )
        if isinstance(node, ast.comprehension):
            return self._comprehended(node)
        body = flatten(node.body)
        shape = self._element(self.facts.resolver.values(node.iter))
        env: Environment = {}
        self.layouts.assign(node.target, shape, env)
        batch = {name for name, layout in env.items() if not _fixed(layout)}
        if not batch:
            return NoCut("its loop variables cannot be told apart")
        first, tainted = self._first_escape(node, body, batch)
        if first is None:
            return NoCut("nothing it computes outlives an iteration", needless=True)
        if self.lengths.pooled is not None:
            return self._no_form()
        environments = self._environments(body[:first], env)
        reason = "what its results are computed from cannot be proved to be one row per sample"
        later = self.read.later(batch)
        inline = self._inline(body, first, tainted[first], environments[first], batch)
        if inline is not None:
            return replace(inline, trusts=self.trusts) if later <= inline.passing else NoCut(_LAST)
        best: Cut | None = None
        nets = [self._runs_model(s, trained=False) for s in body]
        for k in range(first, -1, -1):
            if any(self._runs_model(s) for s in body[k:]):
                if k == first:
                    again = any(self._runs_model(s) for s in body[k + 1 :])
                    reason = "it keeps a result before the model has run for the last time" if again else _AT_ONCE
                elif best is None and self.dealt:
                    inline = self._inline(body, k, tainted[k], environments[k], batch)
                    best = inline if inline is not None and later <= inline.passing else None
                break
            if any(nets[k:]) and not any(nets[:k]) and not self.dealt:
                break  # every process would compute all of it, for which nothing has to be gathered
            live = self.read.live(body[k:], tainted[k])
            found = self._try(body, k, live, environments[k], batch)
            if found is not None and not later <= found.passing:
                reason = _LAST
            elif found is not None and (best is None or len(found.passing) < len(best.passing)):
                best = found
        if best is None and self.uneven:
            return self._no_form()
        return replace(best, trusts=self.trusts) if best else NoCut(_MIXES if self.mixes else reason)

    def _comprehended(self, node: ast.comprehension) -> Cut | NoCut:
        """The cut of a list that is written as one: of what it has for each batch, if that is one row per sample."""
        whole = self.facts.index.parents.get(node)
        env: Environment = {}
        self.layouts.assign(node.target, self._element(self.facts.resolver.values(node.iter)), env)
        alone = isinstance(whole, ast.ListComp) and len(whole.generators) == 1 and not node.ifs and not node.is_async
        if isinstance(whole, ast.ListComp) and self._may_be_left_out(whole):
            return NoCut("it stands in an expression that may leave it out")
        if isinstance(whole, ast.ListComp) and alone and isinstance(whole.elt, ast.Call):
            tensor = self.facts.kinds.of(whole.elt) is Kind.TENSOR or self.facts.objects.models(whole.elt.func)
            if tensor and self.layouts.read(whole.elt, env) is Layout.ROWS:
                if self.lengths.has(whole.elt) or self.lengths.pooled is not None:
                    return self._no_form()
                return Cut(self.facts.index.statement(whole), False, (), (), wrapped=(whole.elt,))
        return NoCut("what a comprehension makes of each batch cannot be proved to be a tensor with a row per sample")

    def _no_form(self) -> NoCut:
        maker = self.lengths.maker
        assert maker is not None
        made = f"`{self.facts.short(maker)}` (line {maker.lineno})"
        pool = self.lengths.pooled
        if pool is not None:
            of = f"`{self.facts.short(pool)}` (line {pool.lineno})"
            return NoCut(f"{of} goes by places, and {made} makes as many as the longest sample has, of a share then")
        return NoCut(f"{made} makes its rows as long as the longest sample, of a share then", uneven=True)

    def _may_be_left_out(self, node: ast.expr) -> bool:
        """Whether a statement may run without an expression of it, or another number of times: on some processes then,
        as it may go by what these have."""
        child: ast.AST = node
        for parent in self.facts.index.ancestors(node):
            if isinstance(parent, ast.stmt):
                return isinstance(parent, (ast.While, ast.Assert))
            if isinstance(parent, (ast.Lambda, ast.comprehension, *COMPREHENSIONS)):
                return True
            if (isinstance(parent, ast.IfExp) and child is not parent.test) or (
                isinstance(parent, ast.BoolOp) and child is not parent.values[0]
            ):
                return True
            child = parent
        return False

    def _element(self, values: Values) -> Shape:
        shapes: list[Shape] = []
        for value in values:
            if value.role is Role.LOADER:
                shapes.append(self.facts.collated.batch((value,)))
            elif value.role is Role.ENUMERATE:
                shapes.append((Layout.CONST, self._element(value.inner[0])))
            elif value.role is Role.ITERATOR:
                batch = self._element(value.inner[0])
                shapes.append(handed_on(value.inner[1], batch) if len(value.inner) > 1 else batch)
        return shapes[0] if shapes and all(s == shapes[0] for s in shapes) else Layout.UNKNOWN

    def _first_escape(
        self, node: ast.For | ast.AsyncFor, body: Sequence[ast.stmt], batch: set[str]
    ) -> tuple[int | None, list[set[str]]]:
        """The first statement whose effect outlives the iteration, and the batch-dependent names before each one."""
        effects = Effects(self.facts.resolver, node)
        names = set(batch)
        fresh = stores(node.target)
        before: list[set[str]] = []
        for i, statement in enumerate(body):
            before.append(set(names))
            if effects.escapes(statement, names, fresh):
                return i, before
            names |= effects.tainted(statement, names)
            if isinstance(statement, ast.Assign):
                fresh |= stores(statement)
        return None, before

    def _environments(self, body: Sequence[ast.stmt], env: Environment) -> list[Environment]:
        found = [dict(env)]
        current = dict(env)
        for statement in body:
            self.layouts.step(statement, current)
            self._trust(statement, current)
            found.append(dict(current))
        return found

    def _trust(self, statement: ast.stmt, env: Environment) -> None:
        """Take a model's output for sample-first if the loop itself compares it with a part of the batch."""
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return
        if not self._is_forward(statement.value, env):
            return
        target = statement.targets[0]
        for part in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(part, ast.Name) and env.get(part.id) in (Layout.UNKNOWN, Layout.UNSURE):
                if any(self._witnesses(part.id, statement, {**env, part.id: Layout.ROWS})):
                    env[part.id] = Layout.ROWS
                    self.trusts = True

    def _is_forward(self, node: ast.expr, env: Environment) -> bool:
        """Whether an expression is the output of a model, perhaps squeezed or reshaped row by row."""
        while isinstance(node, ast.Call):
            if self.facts.objects.models(node.func):
                return not self._misled(node, env)
            if not isinstance(node.func, ast.Attribute):
                return False
            node = node.func.value
        return False

    def _misled(self, call: ast.Call, env: Environment) -> bool:
        """Whether a model is given samples in another dimension than the first, where it may leave them, or what goes
        by the others of the batch; or makes that of them."""
        given = [self.layouts.read(a, env) for a in (call, *call.args, *(k.value for k in call.keywords))]
        self.mixes = self.mixes or Layout.MIXED in given
        return self.mixes or Layout.COLUMNS in given

    def _witnesses(self, name: str, statement: ast.stmt, trial: Environment) -> list[bool]:
        """Comparisons and losses that only make sense if the named value runs over the samples of the batch."""
        node = self.loop.node
        assert isinstance(node, (ast.For, ast.AsyncFor))
        env = dict(trial)
        found: list[bool] = []
        started = False
        for later in flatten(node.body):
            if later is statement:
                started = True
                continue
            if not started:
                continue
            for part in walk(later):
                pair = compared(self.facts, part)
                if pair is None:
                    continue
                sides = [self.layouts.read(p, env) for p in pair]
                mentions = [name in {n.id for n in loads(p)} or self._derived(p, name) for p in pair]
                if all(s is Layout.ROWS for s in sides) and mentions[0] != mentions[1]:
                    found.append(True)
            if not isinstance(later, (ast.For, ast.While, ast.AsyncFor)):
                self.layouts.step(later, env)
        return found

    def _derived(self, node: ast.expr, name: str) -> bool:
        """Whether an expression reads a variable that the loop computes from the named one."""
        for load in loads(node):
            for binding in self.facts.resolver.bindings(load):
                if binding.value is not None and name in {n.id for n in loads(binding.value)}:
                    return True
        return False

    def _try(self, body: Sequence[ast.stmt], k: int, live: list[str], env: Environment, batch: set[str]) -> Cut | None:
        rest = body[k:]
        pieces = self.read.pieces(rest, live, env, self.means) if live else None
        if not pieces or any(self.read.is_plain(piece, body[:k]) for piece in pieces):
            return None
        if not all(map(self.read.is_tensor, pieces)):
            return None
        dealt = [p for p in pieces if self.read.dealt(p.variable, body[:k]) in batch]
        counted = [p for p in dealt if self._counts(p)]
        counter = next((p.name for p in dealt if p not in counted), "")
        counted = counted if counter else []
        kept = [piece for piece in pieces if piece not in counted]
        if not kept:
            return None
        recounts = tuple(read for piece in counted for read in piece.reads)
        return self._cut(body[k - 1] if k else body[0], bool(k), kept, recounts, counter)

    def _inline(
        self, body: Sequence[ast.stmt], k: int, names: set[str], env: Environment, batch: set[str]
    ) -> Cut | None:
        """A cut inside the first statement that keeps a result, when the model is called right there."""
        statement = body[k]
        if any(self._runs_model(s) for s in body[k + 1 :]) or isinstance(statement, (ast.If, ast.For, ast.While)):
            return None
        calls = [c for c in self.facts.loops.own_calls(statement) if self._is_run(c, self.facts.objects.trained_models)]
        if len(calls) != 1 or not self._is_alone(statement, calls[0]):
            return None
        call = calls[0]
        inside = {n for n in walk(call) if isinstance(n, ast.Name)}
        live = self.read.live(body[k:], names)
        fed = {n.id for n in inside} & names
        outside = [n for s in body[k:] for n in loads(s) if n not in inside and n.id in names]
        pieces = self.read.pieces(body[k:], [name for name in live if name not in fed], env)
        again = [self.read.of(n, env) for n in outside if n.id in fed]
        if pieces is None or any(self.layouts.read(piece.reads[0], env) is not Layout.ROWS for piece in again):
            return None
        if not all(map(self.read.is_tensor, [*pieces, *again])) or not self._forward_is_rows(statement, call, env):
            return None
        dealt = {name for name in names if self.read.dealt(name, body[:k]) in batch}
        counter = next((piece.name for piece in pieces if piece.variable in dealt), "")
        counted = [p for p in again if counter and p.variable in dealt and self._counts(p)]
        recounts = tuple(read for piece in counted for read in piece.reads)
        wrapped = (call, *(read for piece in again if piece not in counted for read in piece.reads))
        return self._cut(statement, False, pieces, recounts, counter, wrapped)

    def _cut(
        self,
        anchor: ast.stmt,
        after: bool,
        pieces: Sequence[Piece],
        recounts: tuple[ast.expr, ...],
        counter: str,
        wrapped: tuple[ast.expr, ...] = (),
    ) -> Cut | None:
        rows = [piece for piece in pieces if not piece.mean]
        if any(map(self.lengths.has, (*wrapped, *(read for piece in pieces for read in piece.reads)))):
            self.uneven = True
            return None
        names, given = (tuple(piece.name for piece in rows), tuple(piece.text for piece in rows))
        renamed = tuple((read, p.name) for p in pieces if p.text != p.variable for read in p.reads)
        means = tuple((piece.name, piece.text) for piece in pieces if piece.mean)
        return Cut(anchor, after, names, given, recounts, counter, wrapped, renamed, means=means)

    def _counts(self, piece: Piece) -> bool:
        return all(counts_rows(self.facts, read) for read in piece.reads)

    def _is_alone(self, statement: ast.stmt, call: ast.Call) -> bool:
        """Whether the statement runs the model by this call only."""
        for other in self.facts.loops.own_calls(statement):
            target = self.facts.resolver.callee(other) if other is not call else None
            if isinstance(target, FUNCTIONS) and any(self._runs_model(s) for s in target.body):
                return False
        return True

    def _forward_is_rows(self, statement: ast.stmt, call: ast.Call, env: Environment) -> bool:
        layout = self.layouts.read(call, env)
        if self._misled(call, env):
            return False
        if layout not in (Layout.UNKNOWN, Layout.UNSURE):
            return layout is Layout.ROWS
        for part in walk(statement):
            pair = compared(self.facts, part)
            if pair is None:
                continue
            mine = [p for p in pair if call in set(walk(p))]
            other = [p for p in pair if p not in mine]
            if (
                len(mine) == 1
                and self.layouts.read(other[0], env) is Layout.ROWS
                and self._row_wise(mine[0], call, env)
                and not self._misled(call, env)
            ):
                self.trusts = True
                return True
        return False

    def _row_wise(self, node: ast.expr, call: ast.Call, env: Environment) -> bool:
        """Whether an expression keeps rows if the call inside it yields them."""
        return self.layouts.read(node, env, trusted=call) is Layout.ROWS

    def _is_run(self, call: ast.Call, models: Callable[[ast.expr], Collection[object]]) -> bool:
        """Whether a call runs one of some networks, or a method of it that may."""
        func = call.func
        if models(func) or not isinstance(func, ast.Attribute) or not models(func.value):
            return bool(models(func))
        return func.attr not in _RUNS_NOTHING and not self.facts.objects.only_computes(func)

    def _runs_model(self, statement: ast.stmt, seen: frozenset[ast.AST] = frozenset(), trained: bool = True) -> bool:
        """Whether a statement calls a trained model, or any network, in functions it calls too."""
        objects = self.facts.objects
        models = objects.trained_models if trained else objects.models
        for call in self.facts.loops.own_calls(statement):
            if self._is_run(call, models):
                return True
            target = self.facts.resolver.callee(call)
            if isinstance(target, FUNCTIONS) and target not in seen:
                if any(self._runs_model(s, seen | {target}, trained) for s in target.body):
                    return True
        return False


def _fixed(shape: Shape) -> bool:
    return shape in (Layout.CONST, Layout.ZERO)
