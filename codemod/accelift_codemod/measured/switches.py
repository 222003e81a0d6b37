"""What networks, their layers and losses are switched by, so that they compute otherwise from then on."""

from __future__ import annotations

import ast

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Kind, Role
from accelift_codemod.facts.classes import own_class
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.tree import targets, walk
from accelift_codemod.facts.uses import often
from accelift_codemod.following.attributes import declared_by
from accelift_codemod.networks.ready_networks import has_one_mode

_COMPUTING = frozenset({"forward", "__call__"})
_GRADIENTS = frozenset({"torch.set_grad_enabled", "torch.autograd.set_grad_enabled"})
_METHODS = frozenset({"train", "requires_grad_"})
_MODES = frozenset({"train", "eval"})
_DEALING = frozenset("parameters named_parameters modules named_modules children named_children".split())
# What layers and losses of torch.nn are told once and ask themselves for in each pass.
_SETTINGS = frozenset(
    "p momentum eps training inplace dropout negative_slope alpha beta delta lambd threshold margin label_smoothing "
    "reduction ignore_index track_running_stats affine scale_factor max_norm".split()
)

_OF_LOSSES = frozenset({"weight", "pos_weight"})  # of a layer, these are its weights


def switched_by(draft: Draft, node: ast.AST) -> list[ast.expr]:
    """What a node tells a network, a layer or a loss that computes by it: `net.train(flag)`, `net.drop.p = rate`."""
    if isinstance(node, ast.Call):
        func = node.func
        told = [v for v in (*node.args, *(k.value for k in node.keywords)) if not _is_as_it_was(draft, v)]
        if draft.facts.resolver.qualified(func) in _GRADIENTS:
            return told
        if isinstance(func, ast.Attribute) and func.attr in _METHODS and _computes(draft, func.value):
            return told
        if draft.facts.resolver.builtin(func) == "setattr" and len(node.args) == 3:
            name = node.args[1]
            if isinstance(name, ast.Constant) and _asks(draft, node.args[0], str(name.value), node.args[2]):
                return node.args[2:]
        return []
    if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or node.value is None:
        return []
    attributes = [target for target in targets(node) if isinstance(target, ast.Attribute)]
    return [node.value] if any(_asks(draft, t.value, t.attr, node.value) for t in attributes) else []


def stays(draft: Draft, node: ast.AST) -> bool:
    """Whether a node puts a network into a mode that it stays in, `net.eval()`: nothing else says again and again which
    one it has, whatever decides that the node is run."""
    call = node if isinstance(node, ast.Call) and not node.args and not node.keywords else None
    if call is None or not isinstance(call.func, ast.Attribute) or call.func.attr not in _MODES:
        return False
    if not _computes(draft, call.func.value) or is_set_back(draft, call) or has_one_mode(draft):
        return False
    choices = [n for n in draft.facts.index.ancestors(call) if isinstance(n, ast.If)]
    others = [c for mode in _MODES for c in draft.facts.index.methods.get(mode, ()) if c is not call]
    others = [c for c in others if not any(n in choices for n in draft.facts.index.ancestors(c))]
    return not any(often(draft.facts.index, c) and _computes(draft, c.func.value) for c in others)  # type: ignore[attr-defined]


def is_set_back(draft: Draft, node: ast.AST) -> bool:
    """Whether what a node switches is switched again in the same block, so that it is as it was when that is done, or
    lasts no longer than that: `with torch.set_grad_enabled(False):`."""
    parents, switched = draft.facts.index.parents, _switched(node)
    if isinstance(parents[node], ast.withitem):
        return True
    statement = draft.facts.index.statement(node)
    while switched:
        block, _ = draft.facts.index.block(statement)
        others = (n for s in block for n in walk(s) if n is not node)
        if any(_switched(other) == switched for other in others):
            return True
        around = parents[statement]
        if not isinstance(around, (ast.Try, ast.With)):
            break
        statement = around
    return False


def _is_as_it_was(draft: Draft, value: ast.expr) -> bool:
    """Whether a mode is one that was asked for: `was = net.training`, `was = torch.is_grad_enabled()`."""
    asked = draft.facts.resolver.set_once(value) or value
    if isinstance(asked, ast.Call):
        return draft.facts.resolver.qualified(asked.func) == "torch.is_grad_enabled"
    return isinstance(asked, ast.Attribute) and asked.attr == "training"


def _switched(node: ast.AST) -> str:
    """How what a node switches is spelled, if it is one thing: the network of `net.eval()`, the attribute `net.p`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return f"{ast.dump(node.func.value)}.train" if node.func.attr in _MODES else ""
    set_here = targets(node) if isinstance(node, ast.stmt) else []
    if len(set_here) == 1 and isinstance(set_here[0], ast.Attribute):
        return f"{ast.dump(set_here[0].value)}={set_here[0].attr}"
    return ""


def _computes(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is a network, a part of one, or a parameter."""
    objects = draft.facts.objects
    if objects.models(node) or objects.is_part(node) or objects.is_parameter(node):
        return True
    bindings = draft.facts.resolver.bindings(node) if isinstance(node, ast.Name) else []
    dealt = (b.value for b in bindings if b.how is How.LOOP and isinstance(b.value, ast.Call))
    called = (call.func for call in dealt if isinstance(call.func, ast.Attribute))
    return any(func.attr in _DEALING and _computes(draft, func.value) for func in called)


def _asks(draft: Draft, base: ast.expr, name: str, value: ast.expr) -> bool:
    """Whether an object is a network, a layer or a loss that asks itself for an attribute when it computes.

    What is no number is taken for the samples themselves, `net.target = y`, of which every process hands on its own.
    """
    computes = _computes(draft, base)
    if name == "requires_grad":
        return computes
    classes = {*declared_by(draft, base), own_class(draft.facts.index, base)} - {None}
    if classes:
        computing = [c for c in classes if draft.facts.resolver.class_role(c) in (Role.LOSS, Role.MODEL)]
        return any(_reads(draft, cls, name) for cls in computing) and _is_number(draft, value)
    of_loss = Role.LOSS in draft.facts.resolver.roles(base)
    return (name in _SETTINGS and (computes or of_loss)) or (name in _OF_LOSSES and of_loss)


def _reads(draft: Draft, cls: ast.AST | None, name: str) -> bool:
    """Whether a method of a class that computes reads an attribute, not only to show it."""
    methods = [m for m in getattr(cls, "body", ()) if isinstance(m, FUNCTIONS) and m.name != "__init__"]
    methods = [m for m in methods if _is_run(draft, m, methods)]
    reads = (n for m in methods for n in walk(m) if isinstance(n, ast.Attribute) and n.attr == name)
    loads = (n for n in reads if isinstance(n.ctx, ast.Load))
    parents = draft.facts.index.parents
    used = (read for read in loads if not isinstance(parents[read], ast.FormattedValue))
    return any(not isinstance(draft.facts.index.statement(read), ast.Expr) for read in used)


def _is_run(draft: Draft, method: Function, methods: list[Function]) -> bool:
    """Whether a method is run by those that Python calls, such as `forward`, or for more than what it does: nobody
    computes with the text that one returns, or with what is shown."""
    queue, seen = [method], {method}
    while queue:
        current = queue.pop()
        if current.name in _COMPUTING:
            return True
        for site in draft.facts.resolver.sites(current):
            caller = draft.facts.index.function(site)
            if caller in methods and isinstance(caller, FUNCTIONS):
                if caller not in seen:
                    seen.add(caller)
                    queue.append(caller)
            elif draft.facts.index.enclosing_loops(site) and not _is_shown(draft, site):
                return True
    return False


def _is_shown(draft: Draft, call: ast.Call) -> bool:
    """Whether what a call returns is handed to a line that is there for something else, such as one that prints."""
    statement = draft.facts.index.statement(call)
    return isinstance(statement, ast.Expr) and statement.value is not call


def _is_number(draft: Draft, value: ast.expr) -> bool:
    """Whether an expression is surely a number, or a parameter that is given one by all callers."""
    resolver = draft.facts.resolver
    bindings = resolver.bindings(value) if isinstance(value, ast.Name) else []
    if not bindings or any(b.how is not How.PARAMETER for b in bindings):
        return draft.facts.kinds.of(value) is Kind.PLAIN
    function = draft.facts.index.function(value)
    sites = resolver.sites(function) if isinstance(function, FUNCTIONS) else []
    given = [(resolver.bind(site, function) or {}).get(bindings[0].node.arg) for site in sites]  # type: ignore
    return bool(given) and all(
        argument is not None and draft.facts.kinds.of(argument) is Kind.PLAIN for argument in given
    )
