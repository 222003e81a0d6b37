"""Whether a loop takes as many pieces on every process, whatever the samples are: `for part in [first, second]:`."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.tree import walk

_VIEWS = frozenset({"items", "values", "keys", "copy"})  # of a dict
_SAME = frozenset({"enumerate", "reversed", "list", "tuple", "sorted", "iter"})
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.DictComp)
_STEPS = 6


def as_many(draft: Draft, node: ast.expr, local: set[str], steps: int = _STEPS) -> bool:
    """Whether there are as many pieces in what a process has as in what any other one has; `local` are the variables
    of a loop that differ from process to process."""
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
        if node.id not in local:
            return True
        bindings = draft.facts.resolver.bindings(node)
        owner = draft.facts.index.scope(node).owner(node.id)
        added = [b for b in owner.bindings.get(node.id, []) if b.how is How.AUGMENT] if owner is not None else []
        return (
            bool(bindings)
            and all(_of_binding(draft, b, local, steps - 1) for b in bindings)
            and all(_adds(draft, b, local, steps - 1) for b in added)
        )
    return not _differs(node, local)


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


def _number(draft: Draft, node: ast.expr, local: set[str], steps: int) -> bool:
    """Whether a number is the same everywhere, or how many pieces there are of what has as many."""
    if isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) == "len" and node.args:
        return as_many(draft, node.args[0], local, steps)
    return not _differs(node, local)


def _of_binding(draft: Draft, binding: Binding, local: set[str], steps: int) -> bool:
    """The same of what a variable is set to, with all that is put into it later."""
    if binding.how is not How.ASSIGN or binding.path or binding.value is None:
        return False
    if not as_many(draft, binding.value, local, steps):
        return False
    fills = draft.facts.resolver.fills(binding.scope, binding.name)
    keyed = all(fill.key is None or not _differs(fill.key, local) for fill in fills.entries)
    return not fills.otherwise and keyed and all(_always(draft, fill.node, local, steps) for fill in fills.entries)


def _adds(draft: Draft, binding: Binding, local: set[str], steps: int) -> bool:
    """The same of what is added to a variable: `losses += [third]`."""
    value = binding.value
    return value is not None and as_many(draft, value, local, steps) and _always(draft, binding.node, local, steps)


def _always(draft: Draft, node: ast.AST, local: set[str], steps: int) -> bool:
    """Whether an entry is put in as often on every process: no test around it is on what differs, and no loop."""
    for statement in draft.facts.index.chain(node):
        if isinstance(statement, (ast.If, ast.While)) and _differs(statement.test, local):
            return False
        if isinstance(statement, ast.For) and statement not in draft.blueprint.loops:
            if not as_many(draft, statement.iter, local, steps):
                return False
        if isinstance(statement, ast.Try):
            return False
    return True


def _differs(node: ast.AST, local: set[str]) -> bool:
    return bool(local & {name.id for name in loads(node)})
