"""What a wrapper moved to the GPU that is taken out: DataParallel deals out what its network is called with, wherever
that is, and so does DistributedDataParallel.

A loader that is prepared moves its batches. Those of one that is not, and what the script makes on the CPU, stay there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, torch_ops
from accelift_codemod.facts.conditions import TRUE, negate
from accelift_codemod.facts.index import Binding, How
from accelift_codemod.facts.moves import STAYS
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import key
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity

_MOST_STEPS = 6
_OF_TENSORS = frozenset("cuda to size shape dim float view requires_grad_ contiguous".split())
_MADE = torch_ops.SIZED | {"tensor", "from_numpy", "as_tensor", "randperm", "arange", "linspace"}


def moves(draft: Draft, rule: str, wraps: list[ast.Call]) -> Iterator[Edit | Finding]:
    """Moves what wrapped networks are called with, where it may be on the CPU."""
    resolver = draft.facts.resolver
    models = {key(v) for call in wraps for v in resolver.values(call)}
    for call in draft.calls if models else ():
        called = resolver.values(call.func)
        if not called or any(key(v) not in models for v in called) or call in wraps:
            continue
        parts = [part for given in (*call.args, *(k.value for k in call.keywords)) for part in _parts(given)]
        staying = [part for part in parts if _may_stay(draft, part)]
        for part in staying:
            sure = _is_tensor(draft, part)
            if sure is not None or len(staying) == len(parts):  # it is called with something that has to be there
                yield _move(draft, rule, part, bool(sure))


def _move(draft: Draft, rule: str, part: ast.expr, sure: bool) -> Edit | Finding:
    told = draft.finding(
        "DEV-LEFT",
        Severity.WARNING,
        part,
        f"the wrapper that is taken out moved {'' if sure else 'the tensors in '}`{draft.facts.short(part)}` to the "
        "GPU, and nothing else does",
        "move them to accelerator.device",
    )
    if not sure:
        return told
    reason, code = "the wrapper that is taken out moved it", "{}.to({accelerator}.device)"
    return draft.edit(rule, part, Operation.SURROUND, reason, code, need=Need.STRONG, subject=part, otherwise=told)


def _parts(given: ast.expr) -> Iterator[ast.expr]:
    """What a network is called with, by itself or in lists and dicts that are written there."""
    inner = given.elts if isinstance(given, (ast.List, ast.Tuple)) else []
    inner = given.values if isinstance(given, ast.Dict) else inner
    for part in inner:
        yield from _parts(part)
    if isinstance(given, (ast.Name, ast.Subscript, ast.Call)):
        yield given


def _is_tensor(draft: Draft, node: ast.expr) -> bool | None:
    """Whether an expression surely is a tensor, and no number or list of a batch; None if it seems to be none, as the
    script moves other parts of the batch."""
    values = draft.facts.resolver.values(node)
    dealt = [v for v in values if v.role is Role.BATCH]
    if not dealt:
        return isinstance(node, ast.Call) or _are_made(draft, node)
    if any(not v.name for v in dealt):
        return False  # all of a batch
    if isinstance(node, ast.Call):
        return True  # `x.float()`
    asked = draft.names_in(draft.facts.tree).get(node.id, []) if isinstance(node, ast.Name) else []
    own = (n for n in asked if draft.facts.index.function(n) is draft.facts.index.function(node))
    parents = draft.facts.index.parents
    if any(isinstance(p := parents.get(n), ast.Attribute) and p.attr in _OF_TENSORS for n in own):
        return True
    around = set(draft.facts.index.enclosing_loops(node))
    return None if any(around & {*draft.facts.index.enclosing_loops(m.call)} for m in draft.facts.moves.all) else False


def _are_made(draft: Draft, node: ast.expr) -> bool:
    """Whether all that a variable may hold are tensors that are made: none is None, or a number."""
    owner = draft.facts.index.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
    given = _given(draft, draft.facts.resolver.reaching(node, owner)) if owner is not None else []  # type: ignore[arg-type]
    return bool(given) and all(e is not None and (e in draft.facts.moves.of or _may_stay(draft, e)) for e in given)


def _given(draft: Draft, bound: Sequence[Binding]) -> list[ast.expr | None]:
    """What bindings of a variable give it, as far as they say."""
    given = [e for b in bound if b.how is How.PARAMETER for e in draft.facts.resolver.handed(b, draft.facts.runs)]
    return [*given, *(b.value for b in bound if b.how is How.ASSIGN and not b.path)]


def _may_stay(draft: Draft, node: ast.expr, steps: int = 0) -> bool:
    """Whether an expression may be on the CPU: a part of a batch that no loader has moved, or a tensor that is made of
    numbers, in whatever shape."""
    resolver = draft.facts.resolver
    if steps > _MOST_STEPS or node in draft.facts.moves.of:
        return False
    if isinstance(node, ast.Call):
        return _is_made(draft, node, steps)
    owner = draft.facts.index.scope(node).owner(node.id) if isinstance(node, ast.Name) else None
    if isinstance(node, ast.Name) and owner is not None:
        bound = resolver.reaching(node, owner)
        given = _given(draft, bound)
        if any(e is not None and _is_wherever_a_gpu_is(draft, e) for e in given):
            return False
        if any(e is not None and _may_stay(draft, e, steps + 1) for e in given):
            return True
        if all(b.how is How.PARAMETER or (b.how is How.ASSIGN and not b.path) for b in bound):
            return False
    values = resolver.values(node)
    loaders = [loader for v in values for inner in v.inner for loader in inner]
    dealt = bool(values) and all(v.role is Role.BATCH for v in values) and bool(loaders)
    return dealt and any(v.role is Role.LOADER and not draft.blueprint.places(v) for v in loaders)


def _is_wherever_a_gpu_is(draft: Draft, value: ast.expr) -> bool:
    """Whether a value is moved on the condition on which the script uses a GPU at all: `if use_cuda: x = x.cuda()`."""
    facts = draft.facts
    for move in (facts.moves.of[n] for n in walk(value) if isinstance(n, ast.Call) and n in facts.moves.of):
        guard = facts.moves.guard(move.call)
        if guard is None:
            continue
        test = facts.moves.conditions.read(guard[0].test)
        on = test if guard[1] else negate(test)
        cpu = facts.moves.guards_cpu
        if on == TRUE or (cpu is not None and on == negate(cpu)):
            return True
    return False


def _is_made(draft: Draft, call: ast.Call, steps: int) -> bool:
    resolver = draft.facts.resolver
    name = resolver.library_function(call.func) or ""
    if name == "torch.autograd.Variable" and call.args:
        return _may_stay(draft, call.args[0], steps + 1)
    if name.startswith("torch."):
        return name.rpartition(".")[2] in _MADE and not any(k.arg in ("device", None) for k in call.keywords)
    stays = isinstance(call.func, ast.Attribute) and call.func.attr in STAYS
    return stays and _may_stay(draft, call.func.value, steps + 1)  # type: ignore[attr-defined]
