"""What the rest of a loop body still reads of its batch: variables, and parts of the dicts that some of them are."""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Sequence
from dataclasses import dataclass

from accelift_codemod.facts import BatchLoop, Facts, Kind
from accelift_codemod.facts.effects import assignments, loads, stores
from accelift_codemod.facts.index import MARK
from accelift_codemod.facts.layout import Environment, Layout, Layouts
from accelift_codemod.facts.layout.algebra import Record
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

_BUILTINS = frozenset(dir(builtins))
# Methods of tensors that leave each row in its place.
_KEEPS_ROWS = frozenset("float double half long int bool byte type type_as detach clone contiguous".split())


@dataclass(frozen=True)
class Piece:
    """A variable, or a part of one (`batch["labels"]`), with the places at which it is read.

    `name` is what it is called from then on: the variable, or a new one for the part. It has one row for each sample,
    or is a mean over the samples.
    """

    text: str
    name: str
    variable: str
    reads: tuple[ast.expr, ...]
    mean: bool = False


class StillRead:
    """Answers what statements of a loop body read of what depends on its batch."""

    def __init__(self, facts: Facts, loop: BatchLoop, layouts: Layouts) -> None:
        self.facts = facts
        self.loop = loop
        self.layouts = layouts

    def live(self, rest: Sequence[ast.stmt], names: set[str]) -> list[str]:
        """Of the names, those that the rest of the body reads before it binds them again, in order."""
        found: dict[str, None] = {}
        killed: set[str] = set()
        idle = self._idle(rest)
        for statement in rest:
            for load in loads(statement) if statement not in idle else ():
                if load.id in names and load.id not in killed:
                    found.setdefault(load.id)
            if isinstance(statement, ast.Assign):
                killed |= stores(statement)
        return list(found)

    def pieces(
        self, rest: Sequence[ast.stmt], live: Sequence[str], env: Environment, means: bool = False
    ) -> list[Piece] | None:
        """What is read of the live names, each with one row for each sample, or one of the means over the samples, if
        these are asked for; None if some of it is neither."""
        found: list[Piece] = []
        for name in live:
            reads = tuple(n for statement in rest for n in loads(statement) if n.id == name)
            mean = means and self._is_mean(reads[0], env)
            if mean or env.get(name) is Layout.ROWS:
                found.append(Piece(name, name, name, reads, mean))
                continue
            taken = self._parts(rest, name, env, means)
            if taken is None:
                return None
            found += taken
        return found if len({piece.name for piece in found}) == len(found) else None

    def of(self, read: ast.Name, env: Environment) -> Piece:
        """What is read at one place."""
        part = self._part(read, env)
        text = read.id if part is read else ast.unparse(part)
        return Piece(text, text, read.id, (part,))

    def _part(self, read: ast.Name, env: Environment) -> ast.expr:
        """What is read of a variable: the entry of a dict or an object, if it is one, or all of it."""
        outer = self.facts.index.parents.get(read)
        entry = (
            isinstance(outer, ast.Subscript)
            and outer.value is read
            and isinstance(outer.slice, ast.Constant)
            and isinstance(outer.slice.value, (str, int))
        )
        if entry or (isinstance(outer, ast.Attribute) and isinstance(env.get(read.id), Record)):
            assert isinstance(outer, (ast.Subscript, ast.Attribute))
            whole = env.get(read.id) is Layout.BATCH or isinstance(env.get(read.id), (Record, tuple))
            return outer if whole and isinstance(outer.ctx, ast.Load) else read
        return read

    def _is_mean(self, read: ast.expr, env: Environment) -> bool:
        """Whether something is a tensor that is a mean over the samples of the batch."""
        return self.layouts.read(read, env) is Layout.MEAN and self.facts.kinds.of(read) is Kind.TENSOR

    def _parts(self, rest: Sequence[ast.stmt], name: str, env: Environment, means: bool) -> list[Piece] | None:
        """The parts of a variable that statements read; None if they read anything else of it, or change it."""
        inside = [n for statement in rest for n in walk(statement) if isinstance(n, ast.Name) and n.id == name]
        reads: dict[str, list[ast.expr]] = {}
        for read in inside:
            part = self._part(read, env)
            mean = means and self._is_mean(part, env)
            if part is read or not (mean or self.layouts.read(part, env) is Layout.ROWS):
                return None
            reads.setdefault(ast.unparse(part), []).append(part)
        if {*inside} != {n for statement in rest for n in loads(statement) if n.id == name} or self._is_shared(name):
            return None  # a function that is defined here, or another one, reads it
        found: list[Piece] = []
        for parts in reads.values():
            text, new = self.facts.segment(parts[0]), self._new_name(name, parts[0])
            if not new or "{" in text or "\n" in text:
                return None
            found.append(Piece(text, new, name, tuple(parts), means and self._is_mean(parts[0], env)))
        return found

    def _is_shared(self, name: str) -> bool:
        """Whether functions read a variable of the one around them."""
        node = self.loop.node
        owner = self.facts.index.scope(node).owner(name)
        here = self.facts.index.function(node)
        return owner is None or any(self.facts.index.function(n) is not here for n in self.facts.loads(owner, name))

    def _new_name(self, variable: str, part: ast.expr) -> str:
        """What a part is called: as the entry, if nothing here has that name, or the variable and the entry."""
        entry = part.attr if isinstance(part, ast.Attribute) else str(part.slice.value)  # type: ignore[attr-defined]
        home = self.facts.index.function(self.loop.node) or self.facts.tree
        taken = {n.id for n in walk(home) if isinstance(n, ast.Name)} | {*self.facts.index.scopes[home].bindings}
        taken = {name.rpartition(MARK)[2] for name in taken} | _BUILTINS
        names = (entry, f"{variable.rpartition(MARK)[2]}_{entry}")
        return next((n for n in names if n.isidentifier() and not keyword.iskeyword(n) and n not in taken), "")

    def _idle(self, rest: Sequence[ast.stmt]) -> set[ast.stmt]:
        """Statements that only move a variable to the device which nothing reads afterwards."""
        found: set[ast.stmt] = set()
        read: set[str] = set()
        for statement in reversed(rest):
            pairs = assignments(statement)
            moved = [
                isinstance(target, ast.Name) and self._is_moved(value, target.id) and not self._is_kept(target)
                for target, value in pairs
            ]
            if pairs and all(moved) and not stores(statement) & read:
                found.add(statement)
            else:
                read |= {load.id for load in loads(statement)}
        return found

    def _is_kept(self, name: ast.Name) -> bool:
        """Whether a variable of the loop is read outside it."""
        owner = self.facts.index.scope(name).owner(name.id)
        inside = set(walk(self.loop.node))
        return owner is None or any(load not in inside for load in self.facts.loads(owner, name.id))

    def later(self, names: set[str]) -> set[str]:
        """Of some variables of the loop, those that are read after it as it has left them."""
        inside = [*walk(self.loop.node)]
        bound = (n for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in names)
        within = {*inside}
        return {name.id for name in bound if any(read not in within for read in self.facts.readers(name))}

    def dealt(self, name: str, before: Sequence[ast.stmt]) -> str | None:
        """The variable of the loop that a variable still has rows of at the cut, at most moved to the device, with rows
        of another form, or taken out of the batch: `x, y = batch`."""
        found: str | None = name
        for place, statement in enumerate(before):
            if name not in stores(statement):
                continue
            if isinstance(statement, ast.If):
                arms = [self.dealt(name, arm) for arm in (statement.body, statement.orelse)]
                if any(arm != name for arm in arms):
                    return None
                continue
            values = [v for t, v in assignments(statement) if isinstance(t, ast.Name) and t.id == name]
            if values and all(self._is_moved(value, name) for value in values):
                continue
            whole = self._taken_from(statement, name)
            found = self.dealt(whole, before[:place]) if whole is not None else None
            if found is None:
                return None
        return found

    def _taken_from(self, statement: ast.stmt, name: str) -> str | None:
        """What a statement takes a variable out of, as it is or moved: `x, y = batch`, `x = batch["x"].cuda()`."""
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        target, value = statement.targets[0], statement.value
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = [t.id for t in target.elts if isinstance(t, ast.Name)]
            return value.id if isinstance(value, ast.Name) and parts.count(name) == 1 and value.id != name else None
        while isinstance(value, ast.Call) and value in self.facts.moves.of:
            value = self.facts.moves.of[value].receiver
        part = isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant)
        whole = value.value if part and isinstance(value, ast.Subscript) else None
        return whole.id if isinstance(whole, ast.Name) and whole.id != name else None

    def _is_moved(self, node: ast.expr | None, name: str) -> bool:
        """Whether an expression is a variable, or all entries of the dict in it, moved or as they are, or with rows of
        another form."""
        if isinstance(node, ast.DictComp):
            return self._moved_entry(node, name) is not None
        while isinstance(node, (ast.Call, ast.Subscript)):
            if isinstance(node, ast.Call) and node in self.facts.moves.of:
                node = self.facts.moves.of[node].receiver
            elif isinstance(node, ast.Subscript) and _takes_of_each(node):
                node = node.value
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and _keeps_rows(node, node.func.attr)
            ):
                node = node.func.value
            else:
                return False
        return isinstance(node, ast.Name) and node.id == name

    def _moved_entry(self, node: ast.DictComp, name: str) -> ast.expr | None:
        """Of `{k: v.to(device) for k, v in batch.items()}` the `v.to(device)`; None of anything else."""
        loop = node.generators[0]
        pair = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
        key, entry = (n.id if isinstance(n, ast.Name) else "" for n in pair) if len(pair) == 2 else ("", "")
        items = loop.iter.func if isinstance(loop.iter, ast.Call) and not loop.iter.args else None
        over = items.value if isinstance(items, ast.Attribute) and items.attr == "items" else None
        same = isinstance(over, ast.Name) and over.id == name and isinstance(node.key, ast.Name) and node.key.id == key
        alone = len(node.generators) == 1 and not loop.ifs
        return node.value if same and alone and entry and self._is_moved(node.value, entry) else None

    def is_plain(self, piece: Piece, before: Sequence[ast.stmt]) -> bool:
        """Whether a variable holds a number or an array of another library after some statements."""
        last = {t.id: v for s in before for t, v in assignments(s) if isinstance(t, ast.Name)}
        value = last.get(piece.text)
        return value is not None and self.facts.kinds.of(value) is Kind.PLAIN

    def is_tensor(self, piece: Piece) -> bool:
        """Whether the loop treats something as a tensor somewhere (a leaf of a batch may be a list of strings)."""
        node = self.loop.node
        if any(self._treats_as_tensor(read) for read in self._all_reads(piece)):
            return True
        bound = (pair for s in walk(node) if isinstance(s, ast.stmt) for pair in assignments(s))
        copies = [v for t, v in bound if isinstance(t, ast.Name) and t.id == piece.variable]
        entries = (self._moved_entry(v, piece.variable) for v in copies if isinstance(v, ast.DictComp))
        if piece.text != piece.variable and any(isinstance(entry, ast.Call) for entry in entries):
            return True
        # computed in the loop, so a tensor whenever its layout is known
        return piece.variable not in stores(node.target)  # type: ignore[union-attr]

    def _all_reads(self, piece: Piece) -> list[ast.expr]:
        """Where the loop reads something."""
        if piece.text == piece.variable:
            return [load for load in loads(self.loop.node) if load.id == piece.variable]
        spelled = ast.unparse(piece.reads[0])
        kind = type(piece.reads[0])
        return [n for n in walk(self.loop.node) if isinstance(n, kind) and ast.unparse(n) == spelled]

    def _treats_as_tensor(self, read: ast.expr) -> bool:
        parent = self.facts.index.parents.get(read)
        if isinstance(parent, (ast.Attribute, ast.BinOp, ast.Compare)):
            return True
        if isinstance(parent, ast.Call) and read in parent.args:
            qualified = self.facts.resolver.qualified(parent.func) or ""
            roles = self.facts.resolver.roles(parent.func)
            if qualified.startswith("torch.") or Role.LOSS in roles or self.facts.objects.models(parent.func):
                return True
        return False


def _takes_of_each(node: ast.Subscript) -> bool:
    """Whether something is taken of each row: `x[:, 0]`."""
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else None
    return isinstance(first, ast.Slice) and first.lower is first.upper is first.step is None


def _keeps_rows(call: ast.Call, name: str) -> bool:
    """Whether a method of a tensor leaves as many rows as there are, and each of them in its place."""
    places = [integer(place) for place in call.args]
    if name in ("transpose", "swapaxes"):
        return len(places) == 2 and all(place is not None and place > 0 for place in places)
    if name == "permute":
        return places[:1] == [0]
    if name == "unsqueeze":
        return len(places) == 1 and places[0] is not None and places[0] > 0
    return name in _KEEPS_ROWS
