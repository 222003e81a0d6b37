"""Variables that are bound again to the object that they have, what is done to it before, and what loops go through."""

from __future__ import annotations

import ast
from collections.abc import Callable

from accelift_codemod.facts import Facts, Role, library
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How, Index, Scope
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk

RETURNS_SELF = frozenset("to cuda cpu train eval".split())
# Methods that leave an object as it was.
_KEEPS = frozenset("parameters named_parameters to cuda cpu train eval state_dict items keys get".split())
_CALLS = 4  # through which an object is handed on, and given back
_CALLERS = 8  # that lead to a function
_LOOKS = frozenset({"len", "print", "isinstance", "iter", "enumerate", "zip"})
WRAPPERS = frozenset({*library.DATA_PARALLEL, "torch.nn.parallel.DistributedDataParallel"})
_KINDS = frozenset({"type", "isinstance", "id"})  # what shows nothing of an object but what it is


def itself(node: ast.expr | None) -> ast.expr | None:
    """What a method that returns its object is asked of: `model` of `model.to(device).train()`, and of
    `model.train() if training else model.eval()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in RETURNS_SELF:
        node = node.func.value
    if isinstance(node, ast.IfExp):
        arms = itself(node.body), itself(node.orelse)
        if None not in arms and ast.dump(arms[0]) == ast.dump(arms[1]):  # type: ignore[arg-type]
            return arms[0]
    return node


def unwrapped(resolver: Resolver, node: ast.expr | None) -> ast.expr | None:
    """The same, also within DataParallel, which is taken out: `model` of `DataParallel(model).to(device)`."""
    while True:
        inner = itself(node)
        if isinstance(inner, ast.Call) and resolver.qualified(inner.func) in library.DATA_PARALLEL:
            inner = resolver.argument(inner, 0, "module")
        if inner is node or inner is None:
            return inner
        node = inner


def stays(facts: Facts, node: ast.expr | None) -> ast.expr | None:
    """What an object is asked to move to the device that it is prepared on, or to train or evaluate, and no more: for a
    network that is wrapped by then, that is nothing. `model` of `model.to(device)`; the expression itself, if it is no
    such thing."""
    made = node
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in RETURNS_SELF:
        move = facts.moves.of.get(made)
        if move is None and (made.func.attr not in ("train", "eval") or made.keywords):
            return node
        if move is not None and (facts.devices.may_be_elsewhere(move.target) or not all(map(_waits, move.rest))):
            return node
        made = made.func.value
    return made


def stays_there(facts: Facts, binding: Binding) -> bool:
    """Whether a variable is bound to what it is, only moved to where it is prepared, or within DataParallel."""
    node = binding.value
    while (inner := stays(facts, node)) is not None:
        wraps = isinstance(inner, ast.Call) and facts.resolver.qualified(inner.func) in library.DATA_PARALLEL
        if not wraps:
            break
        node = facts.resolver.argument(inner, 0, "module")  # type: ignore[arg-type]
    return _is_itself(binding, inner) and binding.how is How.ASSIGN and not binding.path


def _waits(argument: ast.AST) -> bool:
    """Whether an argument of a move only says whether to wait for it."""
    return isinstance(argument, ast.keyword) and argument.arg == "non_blocking"


def handed_inside(resolver: Resolver, scope: Scope, name: str) -> bool:
    """Whether a variable is taken out of what a function is handed, or of a container that others have, too: a function
    that is called again would prepare it again."""
    for binding in scope.bindings.get(name, ()):
        base, taken = itself(binding.value), bool(binding.path)
        while isinstance(base, ast.Subscript):
            base, taken = base.value, True
        if taken and isinstance(base, ast.Name):
            owner = resolver.index.scope(base).owner(base.id)
            if owner is not scope or all(b.how is How.PARAMETER for b in resolver.bindings(base)):
                return True
    return False


def given_back(
    resolver: Resolver, binding: Binding, depth: int = 0, same: Callable[[Binding], bool] | None = None
) -> ast.Name | None:
    """The variable that a call is handed, and that is bound to what the call gives back: `net, loss = run(net, x)`.

    `same` tells of bindings in between that they change nothing: `net = net.to(device)`.
    """
    given = handed_through(resolver, binding, depth, same=same)
    return given if isinstance(given, ast.Name) and given.id == binding.name else None


def handed_through(
    resolver: Resolver,
    binding: Binding,
    depth: int = 0,
    moved: bool = False,
    same: Callable[[Binding], bool] | None = None,
) -> ast.expr | None:
    """What a call is handed and gives back, to a variable that it is bound to; also if it is `moved` in between, or
    bound again to what is the `same`."""
    call = binding.value
    function = resolver.callee(call) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or not isinstance(function, FUNCTIONS) or depth > _CALLS:
        return None
    names = {_returned(statement.value, binding.path) for statement in resolver.returns(function)}
    name = names.pop() if len(names) == 1 and not resolver.yields(function) else None
    again = resolver.index.scopes[function].bindings.get(name or "", [])
    others = [b for b in again if b.how is not How.PARAMETER and not (moved and is_again(resolver, b))]
    others = [b for b in others if same is None or not same(b)]
    if not again or any(given_back(resolver, b, depth + 1, same) is None for b in others):
        return None
    return (resolver.bind(call, function) or {}).get(name or "")


def gives_itself(resolver: Resolver, binding: Binding) -> bool:
    """Whether a global is bound to what a function returns that is this global: `net = train(data)`, `return net`."""
    call = binding.value if binding.how is How.ASSIGN else None
    function = resolver.callee(call) if isinstance(call, ast.Call) else None
    if not isinstance(function, FUNCTIONS) or resolver.yields(function):
        return False
    names = {_returned(statement.value, binding.path) for statement in resolver.returns(function)}
    return names == {binding.name} and resolver.index.scopes[function].owner(binding.name) is binding.scope


def _returned(value: ast.expr | None, path: tuple[int | None, ...]) -> str | None:
    """The variable that is returned, or is one of several things that are."""
    for place in path:
        if not isinstance(value, ast.Tuple) or place is None or place >= len(value.elts):
            return None
        value = value.elts[place]
    return value.id if isinstance(value, ast.Name) else None


def kept_once(index: Index, binding: Binding) -> bool:
    """Whether an attribute is one entry of what a method is given, and nothing else ever."""
    entry = isinstance(binding.value, ast.Subscript) and isinstance(binding.value.slice, ast.Constant)
    only = binding.scope.is_class and len(binding.scope.bindings[binding.name]) == 1
    return entry and only and not index.enclosing_loops(binding.node)


def is_again(resolver: Resolver, binding: Binding) -> bool:
    """Whether a variable is bound to what it is already: `net = net.train()`."""
    return _is_itself(binding, unwrapped(resolver, binding.value))


def holds_already(facts: Facts, binding: Binding, depth: int = 0) -> bool:
    """Whether an attribute is bound to what it holds, also once that is prepared: `self.net = self.net.train()`, or by
    what gives it back, `self.net, n = load(self.net, path)`."""
    if binding.how is not How.ASSIGN or binding.value is None:
        return False
    again = _is_itself(binding, stays(facts, binding.value)) and not binding.path
    return again or given_back(facts.resolver, binding, depth, lambda b: holds_already(facts, b, depth + 1)) is not None


def _is_itself(binding: Binding, inner: ast.expr | None) -> bool:
    """Whether the inner one of what a variable is bound to is that variable."""
    return inner is not binding.value and isinstance(inner, ast.Name) and inner.id == binding.name


def taken_on(resolver: Resolver, scope: Scope, name: str, kind: str) -> bool:
    """Whether a function binds a parameter to what it makes of it, its own from there on: `net = torch.compile(net)`.

    Not if it only moves it, or may be handed what it has made of it before; loaders are another matter.
    """
    function, bindings = scope.node, scope.bindings[name]
    again = [b for b in bindings if b.how is not How.PARAMETER]
    if kind == Role.LOADER.value or len(again) == len(bindings) or not isinstance(function, FUNCTIONS):
        return False
    if all(is_again(resolver, b) for b in again):
        return False
    for value in (b.value if b.how is How.ASSIGN else None for b in again):
        if value is None or resolver.index.enclosing_loops(value) or name not in {n.id for n in loads(value)}:
            return False
    given_back = any(name in {n.id for n in loads(statement)} for statement in resolver.returns(function))
    return not given_back or _runs_once(resolver, function)


def _runs_once(resolver: Resolver, function: Function, depth: int = 0) -> bool:
    """Whether a function is called at one place, outside loops, in a function of which that is so, too."""
    sites = resolver.sites(function)
    if len(sites) > 1 or depth > _CALLERS or any(map(resolver.index.enclosing_loops, sites)):
        return False
    around = [resolver.index.function(call) for call in sites]
    return all(caller is None or _runs_once(resolver, caller, depth + 1) for caller in around)


def taken_out(resolver: Resolver, node: ast.expr | None) -> ast.expr | None:
    """The network that an expression takes out of its wrapper if it is in one: `net` of
    `net.module if hasattr(net, "module") else net`."""
    if not isinstance(node, ast.IfExp):
        return None
    test, inner, other = node.test, node.body, node.orelse
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, inner, other = test.operand, other, inner
    net = inner.value if isinstance(inner, ast.Attribute) and is_inner(resolver, inner) else None
    if net is None or not isinstance(test, ast.Call) or len(test.args) != 2 or not _asks_wrapper(resolver, test):
        return None
    return net if ast.dump(net) == ast.dump(other) == ast.dump(test.args[0]) else None


def _asks_wrapper(resolver: Resolver, test: ast.Call) -> bool:
    """Whether a call asks whether a network is in a wrapper: `hasattr(net, "module")`."""
    builtin, about = resolver.builtin(test.func), test.args[1]
    if builtin == "hasattr":
        return isinstance(about, ast.Constant) and about.value == "module"
    kinds = about.elts if isinstance(about, ast.Tuple) else [about]
    return builtin == "isinstance" and all((resolver.qualified(k) or "") in WRAPPERS for k in kinds)


def is_bare(resolver: Resolver, node: ast.expr) -> bool:
    """Whether a network is taken out of its wrapper: `model.module`, what is bound to that once and for all, or a
    parameter that every caller hands that."""
    if isinstance(node, ast.Attribute):
        return node.attr == "module"
    bindings = resolver.bindings(node) if isinstance(node, ast.Name) else []
    if len(bindings) != 1:
        return False
    if bindings[0].how is How.ASSIGN and not bindings[0].path:
        return _is_taken_out(resolver, bindings[0].value)
    if bindings[0].how is not How.PARAMETER or not isinstance(bindings[0].node, ast.arg):
        return False
    function = resolver.index.parents[resolver.index.parents[bindings[0].node]]
    if not isinstance(function, FUNCTIONS):
        return False
    given = [(resolver.bind(call, function) or {}).get(bindings[0].name) for call in resolver.sites(function)]
    return bool(given) and all(_is_taken_out(resolver, one) for one in given)


def _is_taken_out(resolver: Resolver, node: ast.expr | None) -> bool:
    return taken_out(resolver, node) is not None or (isinstance(node, ast.Attribute) and is_inner(resolver, node))


def is_inner(resolver: Resolver, node: ast.Attribute) -> bool:
    """Whether an attribute is a network without its wrapper, and none that some object has by the name `module`."""
    values = resolver.values(node.value)
    same = node.attr == "module" and resolver.values(node) == values
    return same and not any(has_module(resolver, v.declaration) for v in values)


def has_module(resolver: Resolver, declaration: ast.AST | None) -> bool:
    """Whether a class of the script has a `module` of its own."""
    classes = resolver.ancestry(declaration)
    own = resolver.index.attribute_bindings.get("module", [])
    return any(resolver.index.enclosing_class(b.node) in classes for b in own)


def is_asked(resolver: Resolver, name: ast.Name) -> bool:
    """Whether an object is asked for an attribute, or called, or asked what it is: `type(net).__name__`."""
    parent = resolver.index.parents.get(name)
    if isinstance(parent, ast.Call):
        return parent.func is name or resolver.builtin(parent.func) in _KINDS
    return isinstance(parent, ast.Attribute)


def is_changed(index: Index, name: ast.Name) -> bool:
    """Whether something is put into the object that a name denotes: `net.fc = Linear(8, 3)`."""
    part: ast.AST = name
    while isinstance(outer := index.parents.get(part), (ast.Attribute, ast.Subscript)) and outer.value is part:
        part = outer
    return isinstance(part, (ast.Attribute, ast.Subscript)) and not isinstance(part.ctx, ast.Load)


def keeps_as_it_is(index: Index, name: ast.Name) -> bool:
    """Whether an object is only asked for what leaves it as it was: `net.parameters()`."""
    method = index.parents.get(name)
    call = index.parents.get(method) if isinstance(method, ast.Attribute) and method.attr in _KEEPS else None
    return isinstance(call, ast.Call) and call.func is method


def carriers(node: ast.expr) -> list[ast.expr]:
    """The expressions inside a loop's iterable that may be loaders."""
    if isinstance(node, ast.NamedExpr):
        return carriers(node.value)
    if isinstance(node, ast.Call):
        found: list[ast.expr] = []
        for argument in (*node.args, *(k.value for k in node.keywords)):
            found += carriers(argument)
        return found
    if isinstance(node, (ast.Tuple, ast.List)):
        return [c for e in node.elts for c in carriers(e)]
    if isinstance(node, ast.Dict):
        return [c for e in node.values for c in carriers(e)]
    if isinstance(node, (ast.ListComp, ast.DictComp)):
        return carriers(node.elt if isinstance(node, ast.ListComp) else node.value)
    if isinstance(node, ast.IfExp) and isinstance(node.body, ast.Call) and isinstance(node.orelse, ast.Call):
        return [*carriers(node.body), *carriers(node.orelse)]
    return [node]


def only_kept(resolver: Resolver, binding: Binding, parameter: str) -> bool:
    """Whether a constructor changes nothing of an object that it is handed and keeps."""
    constructor = resolver.index.function(binding.node)
    return constructor is None or _leaves(resolver, constructor, {parameter, binding.name}, {constructor})


def _leaves(resolver: Resolver, constructor: Function, names: set[str], seen: set[Function]) -> bool:
    """Whether a constructor changes nothing of an object that has some names there."""
    parents = resolver.index.parents
    for node in walk(constructor):
        if not isinstance(node, ast.Name) or node.id not in names or _is_stored(node):
            continue
        parent = parents.get(node)
        if isinstance(parent, ast.keyword):
            parent = parents.get(parent)
        if isinstance(parent, ast.Attribute):
            outer = parents.get(parent)
            called = isinstance(outer, ast.Call) and outer.func is parent
            if _is_stored(parent) or (called and parent.attr not in _KEEPS):
                return False
        elif isinstance(parent, ast.Call) and resolver.builtin(parent.func) not in _LOOKS:
            if not _passes_on(resolver, parent, node, seen):
                return False
    return True


def _passes_on(resolver: Resolver, call: ast.Call, node: ast.Name, seen: set[Function]) -> bool:
    """Whether an object is handed to the constructor of another class that is followed, which leaves it as it is."""
    cls = resolver.callee(call)
    constructor = resolver.constructor(cls) if isinstance(cls, ast.ClassDef) and cls in resolver.followed else None
    if constructor is None or constructor in seen:
        return False
    given = resolver.bind(call, constructor) or {}
    names = {parameter for parameter, argument in given.items() if argument is node}
    kept = (s for s in walk(constructor) if isinstance(s, ast.Assign) and isinstance(s.value, ast.Name))
    names |= {t.id for s in kept if s.value.id in names for t in s.targets if isinstance(t, ast.Name)}  # type: ignore[attr-defined]
    return bool(names) and _leaves(resolver, constructor, names, seen | {constructor})


def _is_stored(node: ast.Name | ast.Attribute) -> bool:
    """Whether an expression is assigned to."""
    return not isinstance(node.ctx, ast.Load)
