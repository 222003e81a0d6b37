"""Numbers that an iteration measures and the loss of a later one depends on: BEGAN's balance, a moving average."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Binding, How, Scope, position
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.keeping import PUTS
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.layout.plain import is_plain_number
from accelift_codemod.facts.scopes import COMPREHENSIONS
from accelift_codemod.facts.tree import targets, walk, whole
from accelift_codemod.following.keys import Path, apart, parts_asked, read, stored
from accelift_codemod.measured.anew import bound_anew
from accelift_codemod.measured.decisions import is_content
from accelift_codemod.measured.numbers import contents, number_of
from accelift_codemod.measured.sums import Loop, Sets

_SETS = (ast.Assign, ast.AugAssign, ast.Expr)
_MEASURED = (Layout.MEAN, Layout.WEIGHTED, Layout.SUM, Layout.QUOTIENT)
# Functions of NumPy that give one number of an array.
_STATISTICS = frozenset("quantile percentile median mean average sum std var max min amax amin".split())
_DIVIDING = ("div", "div_", "divide", "true_divide")
_WEIGHED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_TENSORS = (Layout.ROWS, Layout.BATCH, Layout.COLUMNS, Layout.STACKED)


def carried(draft: Draft, loop: BatchLoop, node: Loop, local: set[str]) -> dict[str, list[Sets]]:
    """The statements that set such numbers, by the variables that hold them."""
    backwards = draft.facts.loops.backwards_in(node)
    # Each read that a loss is computed from, and whether on the way to it an iteration ended.
    queue = [(n, False) for c in backwards if isinstance(c.func, ast.Attribute) for n in loads(c.func.value)]
    seen = set(queue)
    done: set[tuple[str, ast.AST, bool]] = set()  # what is known of a place, whichever read it is set for
    set_in = _Parts(draft, node)
    found: dict[str, dict[Sets, None]] = {}
    for load, later in queue:
        owner = draft.facts.index.scope(load).owner(load.id) if load.id in local else None
        if owner is not None and isinstance(owner.node, COMPREHENSIONS):
            continue  # gone with its expression; what that goes through is read in it, too
        if draft.facts.loops.is_pass(draft.facts.resolver.values(load)):
            continue  # it comes to its end in the same step everywhere
        here, anew = position(load), None
        reader = draft.facts.index.statement(load)
        begin = position(reader)
        for place, name in _places(draft, load, owner, set_in) if owner is not None else ():
            late, there = later, position(place)
            statement = draft.facts.index.statement(place)
            # What is added up has what earlier iterations added, too.
            counts = _counts(draft, loop, statement) and not _divides(draft, load)
            after = there > here or (there >= begin and statement is reader) or counts
            if after and not late:
                anew = bound_anew(draft, node, load) if anew is None else anew
                late = not anew  # `mean = 0.9 * mean + 0.1 * x.mean(0)`
            if (name, place, late) in done:
                continue
            done.add((name, place, late))
            if not isinstance(statement, _SETS) or not node.lineno <= statement.lineno:
                continue
            if late and (
                counts or _measures(draft, loop, statement, local) or _is_chosen(draft, node, statement, local)
            ):
                found.setdefault(name, {})[statement] = None
                continue
            asked = (*loads(statement.value), *_tested(draft, node, statement))
            more = [(n, late) for n in asked if (n, late) not in seen]
            queue += more
            seen.update(more)
    return {name: list(statements) for name, statements in found.items()}


class _Parts:
    """The parts of objects that a loop sets, `state.weight = w`, as they are written."""

    def __init__(self, draft: Draft, node: Loop) -> None:
        self.draft = draft
        self.node = node

    def of(self, load: ast.Name) -> Iterator[tuple[ast.AST, str]]:
        """Where what is asked for of the object in a variable is set."""
        asked = parts_asked(self.draft, load)
        found = (place for text in asked for place in self._set.get(text, ()))
        yield from ((place, text) for _, place, text in sorted(found, key=lambda found: found[0]))

    @cached_property
    def _set(self) -> dict[str, list[tuple[int, ast.AST, str]]]:
        """By how they are written, the places, each with its number among all."""
        found: dict[str, list[tuple[int, ast.AST, str]]] = {}
        for number, (place, part) in enumerate(self._places()):
            text = ast.unparse(part)
            found.setdefault(text, []).append((number, place, text))
        return found

    def changed(self, load: ast.Name, owner: Scope) -> Iterator[ast.Name]:
        """Where the numbers of the tensor in a variable are changed: `R.data = r`, `R[0] = r`, `R.fill_(r)`."""
        for base, entry in self._changed.get(load.id, ()):
            if self.draft.facts.index.scope(base).owner(base.id) is owner and not apart(entry, read(self.draft, load)):
                yield base

    @cached_property
    def _changed(self) -> dict[str, list[tuple[ast.Name, Path]]]:
        found: dict[str, list[tuple[ast.Name, Path]]] = {}
        for statement in (s for outer in self.node.body for s in walk(outer) if isinstance(s, _SETS)):
            for part in _changed(statement):
                base = whole(part)
                if isinstance(base, ast.Name):
                    found.setdefault(base.id, []).append((base, stored(part)))
        return found

    def _places(self) -> Iterator[tuple[ast.AST, ast.expr]]:
        for statement in (s for outer in self.node.body for s in walk(outer)):
            if isinstance(statement, (ast.Assign, ast.AugAssign)):
                yield from ((t, t) for t in targets(statement) if isinstance(t, (ast.Attribute, ast.Subscript)))
            call = statement.value if isinstance(statement, ast.Expr) else None
            func = call.func if isinstance(call, ast.Call) else None
            if isinstance(func, ast.Attribute) and func.attr in PUTS:  # `state.losses.append(loss.item())`
                yield func, func.value


def _places(draft: Draft, load: ast.Name, owner: Scope, set_in: _Parts) -> Iterator[tuple[ast.AST, str]]:
    """Where what is read is set: the variable, the numbers of the tensor in it, or what is asked for of the object in
    it, `state.weight`."""
    yield from ((binding.node, load.id) for binding in _bindings(draft, load, owner))
    yield from ((base, load.id) for base in set_in.changed(load, owner))
    yield from set_in.of(load)


def _changed(statement: Sets) -> Iterator[ast.expr]:
    """The parts of tensors that a statement changes in place: `r.mul_(0.9).add_(x)`."""
    if not isinstance(statement, ast.Expr):
        yield from (target for target in targets(statement) if not isinstance(target, ast.Name))
        return
    call: ast.expr = statement.value
    while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        inplace = call.func.attr.endswith("_") and not call.func.attr.endswith("__")
        call = call.func.value
        if inplace and not isinstance(call, ast.Call):
            yield call


def _bindings(draft: Draft, load: ast.Name, owner: Scope) -> list[Binding]:
    """What a variable may hold where it is read."""
    added = [b for b in owner.bindings.get(load.id, []) if b.how is How.AUGMENT]
    return [*draft.facts.resolver.reaching(load, owner), *added]


def _tested(draft: Draft, node: Loop, statement: ast.stmt) -> Iterator[ast.Name]:
    """What tests around a statement of a loop go by: not whether there is something."""
    for test in draft.facts.index.tests_around(statement, node):
        compared = (n for n in walk(test) if isinstance(n, ast.Compare))
        there = {n for c in compared if isinstance(c.ops[0], (ast.Is, ast.IsNot)) for n in walk(c)}
        yield from (n for n in contents(draft, test) if n not in there)


def _is_chosen(draft: Draft, node: Loop, statement: ast.stmt, local: set[str]) -> bool:
    """Whether a statement of a loop runs only if what an iteration has measured says so: `if accuracy > 0.9: k = 2`."""
    for test in draft.facts.index.tests_around(statement, node):
        if any(is_content(draft, n, local) for n in walk(test)):
            return any(isinstance(n, ast.Compare) and isinstance(n.ops[0], _WEIGHED) for n in walk(test))
    return False


def _measures(draft: Draft, loop: BatchLoop, statement: Sets, local: set[str]) -> bool:
    """Whether a statement sets a number that it takes from what is computed from the share of a batch.

    Numbers that others have taken are followed to where those did.
    """
    env = draft.environment(loop, statement)
    if env is None or draft.facts.layouts.read(statement.value, env) in _TENSORS:
        return False
    numbers = (n for n in walk(statement.value) if _is_statistic(draft, n) or number_of(draft, n) is not None)
    if any(local & {i.id for i in loads(n)} for n in numbers):
        return True
    parts = [n for n in walk(statement.value) if isinstance(n, (ast.Name, ast.Attribute, ast.Call))]
    taken = [n for n in parts if not isinstance(n, ast.Name) or not is_plain_number(draft.facts.resolver, n)]
    return any(draft.facts.layouts.read(part, env) in _MEASURED for part in taken)


def _counts(draft: Draft, loop: BatchLoop, statement: ast.stmt) -> bool:
    """Whether a statement adds up how many samples there were, or a part for each: `alpha += len(x) / many`."""
    if not isinstance(statement, ast.AugAssign):
        return False
    env, value = draft.environment(loop, statement), statement.value
    parts = [value, value.left] if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div) else [value]
    return env is not None and any(draft.facts.layouts.read(part, env) is Layout.COUNT for part in parts)


def _divides(draft: Draft, load: ast.Name) -> bool:
    """Whether something is divided by what is read: by as many samples as its sum is over, those of the share."""
    child: ast.AST = load
    for parent in draft.facts.index.ancestors(load):
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Div, ast.Pow)) and child is parent.right:
            return True
        if isinstance(parent, ast.Call) and child is not parent.func and ast.unparse(parent.func).endswith(_DIVIDING):
            return True
        if isinstance(parent, ast.stmt):
            return isinstance(parent, ast.AugAssign) and isinstance(parent.op, ast.Div)
        child = parent
    return False


def _is_statistic(draft: Draft, node: ast.AST) -> bool:
    """Whether an expression is one number of a whole tensor or array: `x.median()`, `np.quantile(x, 0.9)`."""
    if not isinstance(node, ast.Call):
        return False
    module, _, name = (draft.facts.resolver.qualified(node.func) or "").rpartition(".")
    if module == "numpy":
        return name in _STATISTICS and not any(k.arg == "axis" for k in node.keywords)
    return draft.facts.layouts.choosing.is_statistic(node)
