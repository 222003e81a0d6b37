"""Parameters that get their values from the command line, by a library that runs the function: click, typer, fire."""

from __future__ import annotations

import ast

from accelift_codemod.facts import signatures
from accelift_codemod.facts.executed import names_what_it_runs
from accelift_codemod.facts.index import FUNCTIONS, Binding, Function, How
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.resolve import Resolver

# What is handed a function, and calls it with what the command line says.
_RUNS = frozenset(
    "argh.dispatch_command defopt.run fire.Fire fire.core.Fire jsonargparse.CLI jsonargparse.auto_cli plac.call "
    "typer.run tyro.cli".split()
)
_DECORATE = frozenset({"asyncclick", "click", "rich_click", "typer"})
# What a parameter is set to, or a decorator that describes it, in place of a plain default.
_DESCRIBES = frozenset({"Argument", "Option", "argument", "option"})


def default(resolver: Resolver, binding: Binding) -> ast.expr | None:
    """The default of a parameter that only the command line gives a word, which is the constant None if it has none;
    None if it is no such parameter."""
    function, name = binding.scope.node, binding.name
    if binding.how is not How.PARAMETER or not isinstance(function, FUNCTIONS):
        return None
    describing = _decorators(resolver, function)
    if not describing and not _is_run(resolver, function):
        return None
    for call in resolver.sites(function):
        given = resolver.bind(call, function)
        if given is None or name in given:
            return None
    plain = signatures.defaults(function).get(name)
    described = plain if isinstance(plain, ast.Call) else next((c for c in describing if _names(c) == name), None)
    if described is None:
        return plain or ast.Constant(None)
    if not _describes(resolver, described) or not _takes_a_word(resolver, described):
        return None
    if described is not plain:
        return signatures.argument(described, None, "default") or ast.Constant(None)
    first = signatures.argument(described, 0, "default")
    return ast.Constant(None) if first is None or _is_ellipsis(first) else first


def _decorators(resolver: Resolver, function: Function) -> list[ast.Call]:
    """The calls that decorate a command of click or typer; of the parameters of which they tell, and of the command."""
    calls = [d for d in function.decorator_list if isinstance(d, ast.Call)]
    return calls if any(_roots(resolver, call.func) & _DECORATE for call in calls) else []


def _roots(resolver: Resolver, func: ast.expr) -> set[str]:
    """The libraries that a decorator is of, perhaps as a method of what one of them has made: `@app.command()`."""
    found = {(resolver.qualified(func) or "").partition(".")[0]}
    root = func.value if isinstance(func, ast.Attribute) else None
    for binding in resolver.bindings(root) if isinstance(root, ast.Name) else ():
        node = binding.node
        made = [binding.value] if binding.how is How.ASSIGN else []
        made += node.decorator_list if isinstance(node, FUNCTIONS) else []
        makers = (m.func if isinstance(m, ast.Call) else m for m in made if m is not None)
        found |= {(resolver.qualified(maker) or "").partition(".")[0] for maker in makers}
    return found


def _is_run(resolver: Resolver, function: Function) -> bool:
    """Whether a function is handed to what runs it by the command line: `fire.Fire(main)`."""
    return function in _run(resolver, resolver.index.tree)


@kept
def _run(resolver: Resolver, _: ast.AST) -> set[ast.AST]:
    """All functions that are handed to what runs them by the command line, perhaps several by their names; all of the
    file where it may name any."""
    handed = (c.args[0] for c in resolver.index.calls if c.args and resolver.qualified(c.func) in _RUNS)
    names = (n for one in handed for n in (one.values if isinstance(one, ast.Dict) else [one]))
    found = {binding.node for n in names if isinstance(n, ast.Name) for binding in resolver.bindings(n)}
    if any(names_what_it_runs(resolver, call) for call in resolver.index.calls):
        found |= {b.node for bindings in resolver.index.module.bindings.values() for b in bindings}
    return found


def _names(call: ast.Call) -> str:
    """The parameter that `@click.option("-d", "--device")` tells of, as click works it out."""
    flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    plain = next((f for f in flags if f.isidentifier()), None)
    longest = max(flags, key=lambda f: len(f) - len(f.lstrip("-")), default="")
    return plain or longest.lstrip("-").replace("-", "_").lower()


def _describes(resolver: Resolver, call: ast.Call) -> bool:
    library, _, name = (resolver.qualified(call.func) or "").rpartition(".")
    return library.partition(".")[0] in _DECORATE and name in _DESCRIBES


def _takes_a_word(resolver: Resolver, call: ast.Call) -> bool:
    """Whether an option is one word, and no flag, number or list."""
    told = {k.arg for k in call.keywords}
    kind = signatures.argument(call, None, "type")
    choice = isinstance(kind, ast.Call) and resolver.qualified(kind.func) == "click.Choice"
    word = kind is None or choice or resolver.builtin(kind) == "str" or resolver.qualified(kind) == "click.STRING"
    return word and not {None, "is_flag", "flag_value", "count", "multiple", "nargs", "callback"} & told


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
