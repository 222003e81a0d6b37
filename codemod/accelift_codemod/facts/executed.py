"""Which functions running a script may run: those that its module-level code leads to, and commands that train.

An object of a library, or a function that one has decorated, may keep functions to run them by the command line:
`@app.command()`, and `app()`; `fire.Fire()` runs whichever of the file it names. Of these, the ones that train count;
those that only evaluate are scripts of their own.
What a server runs when it is asked to, or a queue of tasks, is no command: only one process would be asked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from accelift_codemod.facts.index import FUNCTIONS, Function, How, Scope
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.uses import reads

_Home = ast.AST | None  # a function; None for the module
_Graph = dict[_Home, list[_Home]]
_NAMED = frozenset({"fire.Fire", "fire.core.Fire"})
# Libraries whose objects keep functions for whoever asks for them, over a network or by the clock.
_SERVERS = frozenset(
    "aiogram aiohttp airflow apscheduler arq bentoml bottle celery dagster dash discord django dramatiq falcon fastapi "
    "faust flask flask_restful flask_restx flask_socketio gradio grpc huey litestar litserve modal nicegui panel "
    "prefect pywebio quart ray rq sanic schedule slack_bolt socketio starlette streamlit telebot telegram tornado "
    "xmlrpc".split()
)


def functions(resolver: Resolver, started: Iterable[Function] = ()) -> frozenset[ast.AST]:
    """The functions that running the script may run, those that others start included: with all methods of its class
    where that is a method."""
    index = resolver.index
    named: _Graph = {}
    naming: _Graph = {}
    keeping: list[tuple[_Home, ast.AST]] = []
    kept = _commands(resolver)
    defined = {d.name for d in (*index.functions, *index.classes)} | {name for _, name in kept}
    for scope in index.scopes.values():
        home = index.holder(scope)
        for name in scope.loads.keys() & defined:
            owner = scope.owner(name)
            if owner is None:
                continue
            keeping += ((home, function) for function in kept.get((owner, name), ()))
            for target in _run_by(resolver, owner, name):
                named.setdefault(home, []).append(target)
                naming.setdefault(target, []).append(home)
    for function in index.functions:
        if isinstance(function, FUNCTIONS) and is_handed_over(resolver, function):
            named.setdefault(index.function(function), []).append(function)
    for call in index.calls:
        if names_what_it_runs(resolver, call):
            named_by = (target for name in index.module.bindings for target in _run_by(resolver, index.module, name))
            keeping += ((index.function(call), target) for target in named_by)
    if keeping:
        trains = _reached((index.function(call) for call in index.methods.get("backward", ())), naming)
        for user, command in keeping:
            if command in trains:
                named.setdefault(user, []).append(command)
    first: list[_Home] = [None]
    for function in started:
        cls = index.parents.get(function)
        first += [s for s in cls.body if isinstance(s, FUNCTIONS)] if isinstance(cls, ast.ClassDef) else [function]
    return frozenset(one for one in _reached(first, named) if one is not None)


def names_what_it_runs(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call runs the function of the file that the command line names: `fire.Fire()`."""
    return resolver.qualified(call.func) in _NAMED and not call.args and all(k.arg == "name" for k in call.keywords)


def _run_by(resolver: Resolver, owner: Scope, name: str) -> Iterator[ast.AST]:
    """The functions that whoever reads a variable may run: the one that it is, or all methods of a class."""
    for binding in owner.bindings[name]:
        if binding.how is How.FUNCTION:
            yield binding.node
        elif binding.how is How.CLASS and isinstance(binding.node, ast.ClassDef):
            for cls in resolver.ancestry(binding.node):
                yield from (s for s in cls.body if isinstance(s, FUNCTIONS))


def _reached(start: Iterable[_Home], onwards: Mapping[_Home, Sequence[_Home]]) -> set[_Home]:
    """What one gets to from some functions."""
    found = set(start)
    queue = [*found]
    while queue:
        for one in onwards.get(queue.pop(), ()):
            if one not in found:
                found.add(one)
                queue.append(one)
    return found


def is_handed_over(resolver: Resolver, function: Function) -> bool:
    """Whether code of the script keeps a function that it decorates, and may run it: `@engine.on("epoch")`."""
    return any(_keeps(resolver, taker) for d in function.decorator_list for taker in _takers(resolver, d))


def _takers(resolver: Resolver, decorator: ast.expr) -> Iterator[Function]:
    """The functions of the script that a decorator hands what it decorates."""
    if isinstance(decorator, ast.Call):
        made = resolver.callee(decorator)
        yield from (n for n in walk(made) if isinstance(n, FUNCTIONS) and n is not made) if made is not None else ()
    else:
        yield from (d for v in resolver.values(decorator) if isinstance(d := v.declaration, FUNCTIONS))


def _keeps(resolver: Resolver, taker: Function) -> bool:
    """Whether a function puts what it is given somewhere: `kept[name] = function`, `self.kept.append(function)`."""
    for name in taker.args.args[-1:]:
        for read in resolver.index.scopes[taker].loads.get(name.arg, ()):
            around = resolver.index.parents[read]
            if isinstance(around, ast.Call) and read in around.args and resolver.qualified(around.func) is None:
                return True
            if isinstance(around, ast.Assign) and not all(isinstance(t, ast.Name) for t in around.targets):
                return True
    return False


def _commands(resolver: Resolver) -> dict[tuple[Scope, str], list[Function]]:
    """The functions that an object of a library keeps to run them, by the variable that it is in, if that is used for
    more than to keep them."""
    index = resolver.index
    found: dict[tuple[Scope, str], list[Function]] = {}
    for function in (f for f in index.functions if f.decorator_list and index.scope(f).is_module):
        for decorator in function.decorator_list:
            func = decorator.func if isinstance(decorator, ast.Call) else decorator
            root = func.value if isinstance(func, ast.Attribute) else None
            if isinstance(root, ast.Name) and _keeps_functions(resolver, root):
                found.setdefault((index.module, root.id), []).append(function)
    if not found:
        return found
    decorating = {n for f in index.functions for d in f.decorator_list for n in walk(d)}
    return {one: commands for one, commands in found.items() if not decorating.issuperset(reads(index, *one))}


def _keeps_functions(resolver: Resolver, root: ast.Name) -> bool:
    """Whether a variable of the module has an object that a library makes, or a function that one has decorated."""
    bindings = resolver.bindings(root)
    if len(bindings) != 1 or bindings[0].scope is not resolver.index.module:
        return False
    made = bindings[0].value if bindings[0].how is How.ASSIGN and not bindings[0].path else None
    node = bindings[0].node
    decorators = node.decorator_list if bindings[0].how is How.FUNCTION and isinstance(node, FUNCTIONS) else []
    calls = [one.func if isinstance(one, ast.Call) else one for one in (made, *decorators) if one is not None]
    roots = {(resolver.qualified(call) or "").partition(".")[0] for call in calls}
    return bool(roots - {"", "torch"}) and not roots & _SERVERS
