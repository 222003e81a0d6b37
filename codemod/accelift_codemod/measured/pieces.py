"""Whether a loop takes as many pieces on every process, whatever the samples are: `for part in [first, second]:`."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, torch_ops, uses
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.narrowing import is_collection
from accelift_codemod.facts.tree import walk

_VIEWS = frozenset({"items", "values", "keys", "copy"})  # of a dict
_SAME = frozenset({"enumerate", "reversed", "list", "tuple", "sorted", "iter"})
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.DictComp)
_TESTS = (ast.If, ast.While, ast.IfExp, ast.BoolOp, ast.UnaryOp)
_SOMETIMES = (ast.If, ast.While, ast.For, ast.Try)
_KEEPS_ON = frozenset("detach clone cpu to item tolist numpy copy".split())  # methods that give something
_MANY = frozenset({"extend", "update"})  # methods that put several things into something
_STEPS = 6
# Variables, and whether it is about what they are filled with: as all that is asked has to be so, each is asked once.
_Taken = set[tuple[str, bool]]


def as_many(draft: Draft, node: ast.expr, local: set[str], steps: int = _STEPS, taken: _Taken | None = None) -> bool:
    """Whether there are as many pieces in what a process has as in what any other one has; `local` are the variables
    of a loop that differ from process to process, `taken` those of which that is taken for granted, as it is asked."""
    if steps == 0:
        return False
    if isinstance(node, (ast.List, ast.Tuple)):
        return not any(isinstance(e, ast.Starred) and not as_many(draft, e.value, local, steps - 1) for e in node.elts)
    if isinstance(node, ast.Dict):
        return all(isinstance(entry, ast.Constant) for entry in node.keys)
    if isinstance(node, _COMPREHENSIONS):
        inner = local
        for generator in node.generators:
            if generator.ifs or not as_many(draft, generator.iter, inner, steps - 1):
                return False
            if _differs(generator.iter, inner):
                inner = inner | {n.id for n in walk(generator.target) if isinstance(n, ast.Name)}
        return not (isinstance(node, ast.DictComp) and _differs(node.key, inner))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return as_many(draft, node.left, local, steps - 1) and as_many(draft, node.right, local, steps - 1)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return not _differs(node.slice, local) and as_many(draft, node.value, local, steps - 1)
    if isinstance(node, ast.Call):
        return _of_call(draft, node, local, steps - 1)
    if isinstance(node, ast.Name):
        return node.id not in local or _is_filled_alike(
            draft, node, local, steps - 1, set() if taken is None else taken
        )
    return not _differs(node, local)


def alike(draft: Draft, read: ast.Name, local: set[str], steps: int = _STEPS, taken: _Taken | None = None) -> bool:
    """Whether a read of a variable only asks of which kind it is, how much is in it, or whether there is something, and
    every process sets, fills and empties it in the same iterations."""
    if steps <= 0:
        return False
    taken = set() if taken is None else taken
    parent = draft.facts.index.parents[read]
    if isinstance(parent, ast.Attribute) and parent.attr in torch_ops.OF_KIND:
        return True
    if asks_which(parent):
        return _is_set_alike(draft, read, local, steps, taken)
    asks = isinstance(parent, ast.Call) and draft.facts.resolver.builtin(parent.func) == "len"
    if asks and _is_batch_of_parts(draft, read):
        return True
    if asks or (isinstance(parent, _TESTS) and getattr(parent, "test", read) is read):
        return _is_filled_alike(draft, read, local, steps, taken)
    return False


def asks_which(node: ast.AST) -> bool:
    """Whether a node asks only if something is something else: `best is not None`."""
    return isinstance(node, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)


def filled_apart(draft: Draft, read: ast.Name, local: set[str]) -> bool:
    """Whether some processes surely may put something into the list in a variable, or take it out, that others do not:
    `if loss > 1: hard.append(x)`, or as much as a share has: `seen.extend(y.tolist())`. Into a set it may be anything.
    """
    owner = draft.facts.index.scope(read).owner(read.id)
    fills = draft.facts.resolver.fills(owner, read.id) if owner is not None else None
    changes = [*(fill.node for fill in fills.entries), *fills.others] if fills is not None else []
    taken = {(read.id, True)}
    whole = [c for c in changes if isinstance(c, ast.Call) and isinstance(c.func, ast.Attribute)]
    whole = [c for c in whole if c.func.attr in _MANY or _is_set(draft, read)]  # type: ignore[attr-defined]
    if any(_differs(a, local) and not as_many(draft, a, local - {read.id}) for c in whole for a in c.args):
        return True
    return any(_is_chosen(draft, change, local, _STEPS, taken) for change in changes)


def set_apart(draft: Draft, read: ast.Name, local: set[str]) -> bool:
    """Whether some processes surely may set a variable that others leave as it is: `if loss < 1: best = epoch`."""
    owner = draft.facts.index.scope(read).owner(read.id)
    bindings = owner.bindings.get(read.id, []) if owner is not None else []
    return any(_is_chosen(draft, b.node, local - {read.id}, _STEPS, {(read.id, False)}) for b in bindings)


def _is_set(draft: Draft, read: ast.Name) -> bool:
    """Whether a variable holds a set, whose size says what is in it."""
    values = [b.value for b in draft.facts.resolver.bindings(read)]
    made = {draft.facts.resolver.builtin(v.func) for v in values if isinstance(v, ast.Call)}
    return "set" in made or any(isinstance(v, (ast.Set, ast.SetComp)) for v in values)


def numbers(draft: Draft, name: ast.Name, local: set[str]) -> bool:
    """Whether a variable is, in a loop, only the number of the iteration: of however many there are, the third is the
    third on every process."""
    bindings = draft.facts.resolver.bindings(name)
    return bool(bindings) and all(_is_number(draft, binding, name, local) for binding in bindings)


def numbered(draft: Draft, name: ast.Name) -> list[ast.expr]:
    """What the loops go through whose iterations a variable is the number of."""
    return [b.value for b in draft.facts.resolver.bindings(name) if b.how is How.LOOP and b.value is not None]


def _is_number(draft: Draft, binding: Binding, name: ast.Name, local: set[str]) -> bool:
    """Whether a variable is bound to the numbers of a loop around a read of it."""
    call = binding.value
    if binding.how is not How.LOOP or not isinstance(call, ast.Call):
        return False
    around = (n.target for n in draft.facts.index.enclosing_loops(name) if isinstance(n, ast.For) and n.iter is call)
    called = draft.facts.resolver.builtin(call.func)
    if called == "range":
        others = [call.args[0], *call.args[2:]] if len(call.args) > 1 else []
    elif called == "enumerate" and binding.path == (0,):
        others = [*call.args[1:], *(k.value for k in call.keywords)]
    else:
        return False
    return any(True for _ in around) and not any(_differs(other, local) for other in others)


def _of_call(draft: Draft, call: ast.Call, local: set[str], steps: int) -> bool:
    """The same of what a call gives: of a function that goes through something, or of the script's own."""
    func, resolver = call.func, draft.facts.resolver
    name = resolver.builtin(func)
    if name == "range":
        return all(_number(draft, bound, local, steps) for bound in call.args)
    if name in _SAME or name == "zip":
        through = call.args if name == "zip" else call.args[:1]
        return bool(through) and all(as_many(draft, one, local, steps) for one in through)
    if isinstance(func, ast.Attribute) and func.attr in _VIEWS and not call.args:
        return as_many(draft, func.value, local, steps)
    target = resolver.callee(call)
    if not isinstance(target, FUNCTIONS) or resolver.yields(target):
        return not _differs(call, local)
    inside = set(draft.facts.index.scopes[target].bindings)  # any of them may come from what the process has
    given = [end.value for end in resolver.returns(target)]
    same = (value is not None and as_many(draft, value, inside, steps) for value in given)
    return len(given) == 1 and isinstance(target.body[-1], ast.Return) and all(same)


def _is_batch_of_parts(draft: Draft, read: ast.Name) -> bool:
    """Whether a variable surely holds a batch as it was dealt, and that a list of what samples consist of."""
    dealt = draft.facts.resolver.values(read)
    if not dealt or any(v.role is not Role.BATCH or v.keys for v in dealt):
        return False
    loaders = [draft.facts.objects.loader(part) for v in dealt for inner in v.inner for part in inner]
    stacked = bool(loaders) and all(loader.stock_batches for loader in loaders)
    return stacked and is_collection(draft.facts.resolver, read)


def _number(draft: Draft, node: ast.expr, local: set[str], steps: int) -> bool:
    """Whether a number is the same everywhere, or how many pieces there are of what has as many."""
    if isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "len" and node.args:
        return as_many(draft, node.args[0], local, steps)
    return not _differs(node, local)


def _is_filled_alike(draft: Draft, name: ast.Name, local: set[str], steps: int, taken: _Taken) -> bool:
    """The same of what a variable is set to, with all that is put into it and taken out of it later."""
    owner = draft.facts.index.scope(name).owner(name.id)
    if owner is None or (name.id, True) in taken:
        return owner is not None
    taken.add((name.id, True))
    bindings = draft.facts.resolver.bindings(name)
    for bound in bindings:
        if bound.how is not How.ASSIGN or bound.path or bound.value is None:
            return False
        if not as_many(draft, bound.value, local, steps, taken):
            return False
    if any(_is_set_by_another(draft, bound, name) for bound in owner.bindings.get(name.id, [])):
        return False
    added = [b for b in owner.bindings.get(name.id, []) if b.how is How.AUGMENT]
    fills = draft.facts.resolver.fills(owner, name.id)
    changes = [b.node for b in (*(bindings if len(bindings) > 1 else ()), *added)]
    changes += [*(fill.node for fill in fills.entries), *fills.others]
    return (
        bool(bindings)
        and all(b.value is not None and as_many(draft, b.value, local, steps, taken) for b in added)
        and all(fill.key is None or not _differs(fill.key, local) for fill in fills.entries)
        and all(_changes_alike(draft, other, local, steps, taken) for other in fills.others)
        and all(_always(draft, change, local, steps, taken) for change in changes)
        and not any(_may_change_apart(draft, read) for read in uses.reads(draft.facts.index, owner, name.id))
    )


def _is_set_by_another(draft: Draft, bound: Binding, name: ast.Name) -> bool:
    """Whether another function sets a variable of the module, to what it is given perhaps: `global stop`."""
    function = draft.facts.index.function(bound.node)
    if function is None or function is draft.facts.index.function(name) or bound.how is How.PARAMETER:
        return False
    tested = any(isinstance(statement, _SOMETIMES) for statement in draft.facts.index.chain(bound.node))
    return tested or not isinstance(bound.value, ast.Constant)


def _may_change_apart(draft: Draft, read: ast.Name) -> bool:
    """Whether a function that is handed a list puts something into it, or takes it out, on a test or in a loop."""
    call = draft.facts.index.parents[read]
    function = draft.facts.resolver.callee(call) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or not isinstance(function, FUNCTIONS):
        return False
    given = draft.facts.resolver.bind(call, function) or {}
    scope = draft.facts.index.scopes[function]
    fills = [draft.facts.resolver.fills(scope, name) for name, argument in given.items() if argument is read]
    changes = [node for fill in fills for node in (*(entry.node for entry in fill.entries), *fill.others)]
    return any(isinstance(s, _SOMETIMES) for node in changes for s in draft.facts.index.chain(node))


def _changes_alike(draft: Draft, change: ast.expr, local: set[str], steps: int, taken: _Taken) -> bool:
    """Whether a call puts as much into a list, or takes as much out of it, on every process."""
    if not (isinstance(change, ast.Call) and isinstance(change.func, ast.Attribute)):
        return False
    if change.func.attr == "extend":
        return all(as_many(draft, argument, local, steps, taken) for argument in change.args)
    kept = change.func.attr in ("clear", "insert", "sort", "reverse")
    return kept or (change.func.attr == "pop" and not any(_differs(a, local) for a in change.args))


def _is_set_alike(draft: Draft, name: ast.Name, local: set[str], steps: int, taken: _Taken) -> bool:
    """Whether a variable is None on every process or on none."""
    owner = draft.facts.index.scope(name).owner(name.id)
    if owner is None or steps == 0 or (name.id, False) in taken:
        return owner is not None and steps > 0
    taken.add((name.id, False))
    bindings = owner.bindings.get(name.id, [])
    return bool(bindings) and all(
        b.how in (How.PARAMETER, How.AUGMENT)
        or (_is_known(draft, b, local, steps - 1, taken) and _always(draft, b.node, local, steps - 1, taken))
        for b in bindings
    )


def _is_known(draft: Draft, bound: Binding, local: set[str], steps: int, taken: _Taken) -> bool:
    """Whether what a variable is bound to is None wherever it is, or nowhere."""
    value, given = bound.value, draft.facts.resolver.bound(bound)
    if bound.how is How.LOOP or bound.path:
        return bool(given) and all(v.role is Role.BATCH for v in given)
    if bound.how is not How.ASSIGN or value is None:
        return False
    if isinstance(value, ast.Name) and (
        value.id in local or all(b.how is How.ASSIGN for b in draft.facts.resolver.bindings(value))
    ):
        return _is_set_alike(draft, value, local, steps, taken)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _KEEPS_ON:
        return True
    made = isinstance(value, (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.BinOp))
    return made or draft.facts.kinds.of(value) is not None or not _differs(value, local)


def _always(draft: Draft, node: ast.AST, local: set[str], steps: int, taken: _Taken) -> bool:
    """Whether something is done as often on every process: no test around it is on what differs, and no loop."""
    tried = any(isinstance(statement, ast.Try) for statement in draft.facts.index.chain(node))
    return not tried and not _is_chosen(draft, node, local, steps, taken)


def _is_chosen(draft: Draft, node: ast.AST, local: set[str], steps: int, taken: _Taken) -> bool:
    """Whether a test on what differs decides if something is done, or a loop over that how often."""
    for statement in draft.facts.index.chain(node):
        if isinstance(statement, (ast.If, ast.While)) and any(
            n.id in local and not alike(draft, n, local, steps - 1, taken) for n in loads(statement.test)
        ):
            return True
        if isinstance(statement, ast.For) and statement not in draft.blueprint.loops:
            if not as_many(draft, statement.iter, local, steps, taken):
                return True
    return False


def _differs(node: ast.AST, local: set[str]) -> bool:
    return bool(local & {name.id for name in loads(node)})
