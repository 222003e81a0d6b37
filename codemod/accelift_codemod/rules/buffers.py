"""Reports buffers of networks that every process fills with its own share of the data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, torch_ops
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.layout import Layout
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Value
from accelift_codemod.overwritten import overwritten
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_STEPS = 6
_CONTAINERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"})
_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_ALIKE = frozenset({"clone", "detach", "float", "to", "cuda", "normal_", "uniform_", "zero_", "fill_"})
_FILLS = frozenset({"append", "appendleft", "extend", "insert"})


@dataclass(frozen=True)
class Write:
    """Where a method puts something of a batch into what its object keeps."""

    node: ast.AST
    name: str


class Buffers(Rule):
    """Reports a memory, prototypes or running statistics that a network keeps from batch to batch.

    Each process writes what its own share of the batch gives. Of registered buffers, DistributedDataParallel hands out
    those of the first process before every forward pass: what the others have written is lost.
    """

    code = "BUFFER"
    name = "buffers that a forward pass fills"
    findings = (
        Explained(
            "BUFFER-OWN",
            Severity.WARNING,
            "every process fills a buffer with its own share",
            "A network writes what it computes from a batch into a buffer, or a tensor that it keeps: a queue of keys, "
            "prototypes, running means. Each process sees only its share of a batch, and registered buffers are those "
            "of the first process again before the next forward pass. Gather what is written, so that every process "
            "writes the same. The statistics of torch's BatchNorm are another matter: NOTE-BN.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        if draft.facts.processes.managed or not any(_kept(draft, cls) for cls in draft.facts.index.classes):
            return
        reported: set[str] = set()
        for loop in draft.blueprint.train_loops:
            for call, model, method in self._runs(draft, loop):
                for write in _writes(draft, model, method, self._changing(draft, loop, call, method), 0, set()):
                    if write.name in reported:
                        continue
                    reported.add(write.name)
                    yield draft.finding(
                        "BUFFER-OWN",
                        Severity.WARNING,
                        write.node,
                        f"`self.{write.name}` is filled with what a process computes from its own share of the batch: "
                        "every process would keep something else, or what the first one keeps",
                        "write what all processes have, gathered by accelerator.gather",
                    )

    def _runs(self, draft: Draft, loop: BatchLoop) -> Iterator[tuple[ast.Call, ast.ClassDef, Function]]:
        """The calls of networks and losses of the script in a loop, and of what it calls."""
        functions = dict.fromkeys(f for s in loop.body for f in draft.blueprint.timeline.calls_into(s))
        resolver = draft.facts.resolver
        for call in (n for part in (*loop.body, *functions) for n in walk(part) if isinstance(n, ast.Call)):
            found: list[tuple[Value, str]] = [(v, "forward") for v in draft.facts.objects.models(call.func)]
            if isinstance(call.func, ast.Attribute):
                found += [(v, call.func.attr) for v in draft.facts.objects.models(call.func.value)]
            for value, name in found:
                for cls in _classes(draft, value):
                    method = resolver.method(cls, name)
                    if method is not None and (cls is value.declaration or name == "forward"):
                        yield call, cls, method

    def _changing(self, draft: Draft, loop: BatchLoop, call: ast.Call, method: Function) -> set[str]:
        """The parameters that depend on the batch, as far as can be told."""
        given = draft.facts.resolver.bind(call, method)
        if given is None:
            return {p.arg for p in method.args.args[1:]}
        env = draft.environment(loop, call)
        fixed = (Layout.CONST, Layout.ZERO, Layout.COUNT)
        return {n for n, a in given.items() if env is None or draft.facts.layouts.read(a, env) not in fixed}


def _writes(
    draft: Draft, cls: ast.ClassDef, method: Function, changing: set[str], steps: int, seen: set[ast.AST]
) -> Iterator[Write]:
    """What a method writes into tensors that its object keeps, of what depends on some of its parameters."""
    if method in seen or steps > _STEPS or not changing:
        return
    seen.add(method)
    kept, tainted = _kept(draft, cls), set(changing)
    nodes = [n for statement in method.body for n in walk(statement)]
    for _ in range(2):  # what stands before may depend on what stands after, in loops
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AugAssign)) and _depends(node.value, tainted):
                tainted |= stores(node)
            elif isinstance(node, ast.For) and _depends(node.iter, tainted):
                tainted |= stores(node.target)
            elif isinstance(node, ast.Call):
                tainted |= _filled(node, tainted)
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AugAssign)) and _depends(node.value, tainted):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                name = _attribute(target)
                whole = isinstance(target, ast.Attribute) and isinstance(node, ast.Assign) and target.attr != "data"
                if name in kept and not (whole and name not in _reads(node.value)):
                    yield Write(node, name)
        elif isinstance(node, ast.Call):
            given = [*node.args, *(k.value for k in node.keywords)]
            if any(_depends(a, tainted) for a in given):
                names = {_attribute(a) for a in overwritten(draft, node)}
                yield from (Write(node, name) for name in sorted(names & kept))
            if not isinstance(node.func, ast.Attribute):
                continue
            name = _attribute(node.func.value)
            fills = node.func.attr in _FILLS and _computed_with(draft, cls, name, nodes)
            if name in kept and (node.func.attr.endswith("_") or fills) and any(_depends(a, tainted) for a in given):
                yield Write(node, name)
            yield from _inside(draft, cls, node, tainted, steps, seen)


def _filled(call: ast.Call, tainted: set[str]) -> set[str]:
    """The variable of a tensor that a method of its own fills: `counts.index_add_(0, index, ones)`."""
    place = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_") else None
    while isinstance(place, ast.Subscript):
        place = place.value
    given = [*call.args, *(k.value for k in call.keywords)]
    return {place.id} if isinstance(place, ast.Name) and any(_depends(a, tainted) for a in given) else set()


def _inside(
    draft: Draft, cls: ast.ClassDef, call: ast.Call, tainted: set[str], steps: int, seen: set[ast.AST]
) -> Iterator[Write]:
    """What a method writes that another one calls: of the object itself, or of a network that is a part of it."""
    func = call.func
    if not (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"):
        return
    resolver = draft.facts.resolver
    targets: list[tuple[ast.ClassDef, Function | None]] = [(cls, resolver.method(cls, func.attr))]
    if targets[0][1] is None:
        for binding in draft.facts.index.attribute_bindings.get(func.attr, []):
            if draft.facts.index.enclosing_class(binding.node) is cls:
                parts = [part for value in resolver.values(binding.value) for part in _classes(draft, value)]
                targets += ((part, resolver.method(part, "forward")) for part in parts)
    for owner, function in targets:
        if isinstance(function, FUNCTIONS):
            given = resolver.bind(call, function) or {}
            changing = {name for name, argument in given.items() if _depends(argument, tainted)}
            yield from _writes(draft, owner, function, changing, steps + 1, seen)


def _classes(draft: Draft, value: Value) -> Iterator[ast.ClassDef]:
    """The class of a network of the script, or those of the items of a container of torch's that calls them in turn."""
    if isinstance(value.declaration, ast.ClassDef):
        yield value.declaration
    elif value.name in _CONTAINERS and isinstance(value.origin, ast.Call):
        for item in (n for n in walk(value.origin) if isinstance(n, (ast.Name, ast.Call)) and n is not value.origin):
            for inner in draft.facts.resolver.values(item):
                if isinstance(inner.declaration, ast.ClassDef):
                    yield inner.declaration


def _kept(draft: Draft, cls: ast.ClassDef) -> set[str]:
    """The buffers of a class, and the tensors and lists that its constructor makes."""
    found: set[str] = set()
    for owner in draft.facts.resolver.ancestry(cls):
        for node in walk(owner):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                first = node.args[0] if node.args else None
                if node.func.attr == "register_buffer" and isinstance(first, ast.Constant):
                    found.add(str(first.value))
            function = draft.function(node) if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.Assign) and function is not None and function.name == "__init__":
                if _makes_tensor(draft, node.value, found) or _makes_list(draft, node.value):
                    found |= {_attribute(target) for target in node.targets}
    return found - {""}


def _makes_tensor(draft: Draft, node: ast.expr, kept: set[str]) -> bool:
    """Whether an expression is a tensor of torch's, or made of one or of what is `kept`, or None, in whose place there
    will be one."""
    if isinstance(node, ast.BinOp):
        return any(isinstance(n, ast.Call) and _makes_tensor(draft, n, kept) for n in (node.left, node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ALIKE:
        of = node.func.value
        return _attribute(of) in kept or (isinstance(of, ast.Call) and _makes_tensor(draft, of, kept))
    made = draft.facts.resolver.qualified(node.func) if isinstance(node, ast.Call) else None
    module, _, name = (made or "").rpartition(".")
    empty = isinstance(node, ast.Constant) and node.value is None
    return empty or made in _PARAMETERS or (module == "torch" and name.islower())


def _makes_list(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is an empty list, or a queue."""
    if isinstance(node, ast.Call):
        name = draft.facts.resolver.builtin(node.func) or draft.facts.resolver.qualified(node.func)
        return name == "collections.deque" or (name == "list" and not node.args)
    return isinstance(node, ast.List) and not node.elts


def _computed_with(draft: Draft, cls: ast.ClassDef, name: str, nodes: list[ast.AST]) -> bool:
    """Whether a method computes with a list that its object keeps from batch to batch: not if it is emptied."""
    parents = draft.facts.index.parents
    for node in (n for owner in draft.facts.resolver.ancestry(cls) for n in walk(owner)):
        if not (isinstance(node, ast.Attribute) and _attribute(node) == name == node.attr):
            continue
        parent, function = parents[node], draft.function(node)
        made_anew = isinstance(node.ctx, ast.Store) and function is not None and function.name != "__init__"
        if made_anew or (isinstance(parent, ast.Attribute) and parent.attr == "clear"):
            return False
    for node in nodes:
        if isinstance(node, ast.Attribute) and _attribute(node) == name == node.attr:
            call = parents[node]
            if isinstance(call, ast.Call) and (draft.facts.resolver.qualified(call.func) or "").startswith("torch."):
                return True
    return False


def _attribute(node: ast.expr) -> str:
    """The attribute of self that an expression is, or is a part of: `self.queue[:, 0]`, `self.queue.data`."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return node.attr
        node = node.func if isinstance(node, ast.Call) else node.value
    return ""


def _reads(node: ast.AST) -> set[str]:
    """The attributes of self that an expression computes with itself: a layer carries on the state of each sample."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_self(node.func.value):
        return set()
    own = {_attribute(node)} if isinstance(node, ast.Attribute) else set()
    return own.union(*map(_reads, ast.iter_child_nodes(node)))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _depends(node: ast.AST, tainted: set[str]) -> bool:
    """Whether an expression reads one of some variables, and not only its size."""
    if isinstance(node, ast.Name):
        return node.id in tainted
    if isinstance(node, ast.Attribute) and node.attr in torch_ops.ABOUT:
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return False
    return any(_depends(child, tainted) for child in ast.iter_child_nodes(node))
