"""What nothing uses any more once a script does not distribute itself: options, variables and imports."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator

from accelift_codemod.facts import Facts, Role
from accelift_codemod.facts.idle import Idle
from accelift_codemod.facts.index import Index
from accelift_codemod.facts.numbers import AVAILABLE
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk
from accelift_codemod.gates import unused_imports

_LISTS = frozenset({"vars", "locals", "globals"})  # what reads every option, or variable
_WHOLE = frozenset({"__dict__", "_get_kwargs"})
_MODULES = frozenset({"torch.distributed", "torch.multiprocessing", "torch.utils.data.distributed"})
_PURE = frozenset("int bool str float len max min".split())
_ASKED = frozenset({"os.environ.get", "os.getenv", "torch.cuda.device_count", "torch.accelerator.device_count"})


def read(tree: ast.AST) -> Counter[str]:
    """How often code reads each name and attribute, or spells it in a text."""
    found = Counter[str]()
    for node in walk(tree):
        kept = node.target if isinstance(node, ast.AugAssign) else node  # `x += 1` reads it, too
        if isinstance(kept, (ast.Name, ast.Attribute)) and (kept is not node or not isinstance(kept.ctx, ast.Store)):
            found[kept.id if isinstance(kept, ast.Name) else kept.attr] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found[node.value] += 1
    return found


def unused(before: Facts, facts: Facts) -> Iterator[ast.stmt]:
    """The statements of a folded script that only what was folded has used.

    Of the globals of files that it imports, none: others may take them from there.
    """
    now = read(facts.written.tree)
    lost = {name for name in read(before.written.tree) if not now[name]}
    whole = _is_read_whole(facts)
    found = [
        *(() if whole else _options(facts, lost)),
        *_variables(facts, before, lost, whole),
        *_functions(facts, lost),
        *_empty(facts, before),
    ]
    own = facts.tree.body[-1]
    yield from (s for s in found if facts.same_file(s, own) or _is_inside(facts, s))
    yield from _twice(facts)


def _is_inside(facts: Facts, statement: ast.stmt) -> bool:
    """Whether a statement stands in a function that the script runs."""
    holder = facts.index.function(statement)
    return holder is not None and holder is not statement and not facts.idle(statement)


def _is_read_whole(facts: Facts) -> bool:
    """Whether a script reads all of its options at once: `print(args)`, `vars(args)`."""
    resolver, parents = facts.resolver, facts.index.parents
    if any(resolver.builtin(call.func) in _LISTS for call in facts.index.calls):
        return True
    for scope in facts.index.scopes.values():
        for node in (n for found in scope.loads.values() for n in found):
            around = parents.get(node)
            outer = parents.get(around) if isinstance(around, (ast.keyword, ast.Tuple)) else around
            handed = isinstance(outer, ast.Call) and resolver.callee(outer) is not None and node is not outer.func
            named = isinstance(around, ast.Assign) and all(isinstance(t, ast.Name) for t in around.targets)
            asked = isinstance(around, ast.Attribute) and around.attr not in _WHOLE
            kept = asked or isinstance(around, ast.Return) or named or handed
            if not kept and Role.ARGUMENTS in resolver.roles(node):
                return True
    return False


def _options(facts: Facts, lost: set[str]) -> Iterator[ast.stmt]:
    for name, call in facts.command_line.options.items():
        statement = facts.index.parents.get(call)
        if name in lost and isinstance(statement, ast.Expr):
            yield statement


def _variables(facts: Facts, before: Facts, lost: set[str], whole: bool) -> Iterator[ast.stmt]:
    """What sets variables, and attributes of the options."""
    for node in walk(facts.tree):
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        option = isinstance(target, ast.Attribute) and Role.ARGUMENTS in facts.resolver.roles(target.value)
        name = target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
        if not isinstance(node, ast.Assign) or not name or not _is_pure(facts.resolver, node.value):
            continue
        lost_there = isinstance(target, ast.Name) and not whole and _is_lost_there(facts, before, target)
        if lost_there or (name in lost and (isinstance(target, ast.Name) or (option and not whole))):
            yield node


def _is_lost_there(facts: Facts, before: Facts, target: ast.Name) -> bool:
    """Whether a variable of a function, where others have the name, too, is not read there any more."""
    owner = facts.index.scope(target).owner(target.id)
    if owner is None or not isinstance(owner.node, ast.FunctionDef) or facts.loads(owner, target.id):
        return False
    named, spelled = owner.node.name, [n for n in walk(owner.node) if isinstance(n, ast.Name) and n.id == target.id]
    if any(isinstance(n.ctx, ast.Del) or isinstance(facts.index.parents[n], ast.AugAssign) for n in spelled):
        return False
    was = (s for s in before.index.scopes.values() if isinstance(s.node, ast.FunctionDef) and s.node.name == named)
    return any(before.loads(scope, target.id) for scope in was)


def _functions(facts: Facts, lost: set[str]) -> Iterator[ast.stmt]:
    """Functions and methods that nothing calls any more."""
    idle = Idle(facts.resolver)
    for function in facts.index.functions:
        if isinstance(function, ast.FunctionDef) and not function.decorator_list and function.name in lost:
            if not isinstance(facts.index.parents.get(function), ast.ClassDef) or idle.is_idle(function):
                yield function


def _empty(facts: Facts, before: Facts) -> Iterator[ast.stmt]:
    """Functions of which nothing is left, with the statements that call them."""
    was = {f.name for f in before.index.functions if isinstance(f, ast.FunctionDef) and _is_empty(f)}
    for function in facts.index.functions:
        if not isinstance(function, ast.FunctionDef) or not _is_empty(function) or function.name in was:
            continue
        sites = facts.resolver.sites(function)
        calls = [facts.index.parents.get(c) for c in sites]
        given = [a for c in sites for a in (*c.args, *(k.value for k in c.keywords))]
        plain = isinstance(facts.index.parents.get(function), ast.Module) and not facts.references(function)
        plain = plain and all(_is_pure(facts.resolver, a) for a in given)
        if plain and all(isinstance(s, ast.Expr) for s in calls):
            yield from (function, *(s for s in calls if isinstance(s, ast.Expr)))


def _twice(facts: Facts) -> Iterator[ast.stmt]:
    """Tests of whether torch can distribute at all, if the function returns the same either way."""
    for call in facts.index.calls:
        around = facts.index.parents.get(call)
        test = around if isinstance(around, ast.UnaryOp) else call
        statement = facts.index.parents.get(test)
        if not isinstance(statement, ast.If) or statement.test is not test or statement.orelse:
            continue
        if facts.resolver.qualified(call.func) in AVAILABLE and isinstance(statement.body[0], ast.Return):
            block, place = facts.index.block(statement)
            if [*map(ast.dump, statement.body)] == [*map(ast.dump, block[place + 1 : place + 2])]:
                yield statement


def _is_empty(function: ast.FunctionDef) -> bool:
    return all(isinstance(s, ast.Pass) for s in function.body)


def _is_pure(resolver: Resolver, node: ast.expr) -> bool:
    """Whether an expression only computes something of variables, constants and the environment."""
    for part in walk(node):
        if isinstance(part, ast.Call):
            known = resolver.builtin(part.func) in _PURE or resolver.qualified(part.func) in _ASKED
            if not known and not _gives_constant(resolver, part):
                return False
        elif isinstance(part, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
    return True


def _gives_constant(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call does nothing but give a constant: `get_world_size()`, of which `return 1` is left."""
    function = resolver.callee(call)
    match function.body if isinstance(function, ast.FunctionDef) and not function.decorator_list else []:
        case [ast.Return(value=ast.Constant())] | [ast.Expr(value=ast.Constant()), ast.Return(value=ast.Constant())]:
            return True
    return False


def imports(
    index: Index, before: Index, acts: Callable[[ast.Import | ast.ImportFrom], bool]
) -> Iterator[ast.stmt | ast.alias]:
    """Imports outside functions that were used, if a file does not act where it is imported."""
    lost = unused_imports(index) - unused_imports(before)
    roots = Counter(a.asname or a.name.partition(".")[0] for s in index.tree.body for a in getattr(s, "names", ()))
    for statement in index.tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            gone = [a for a in statement.names if (a.asname or a.name.partition(".")[0]) in lost]
            if isinstance(statement, ast.Import) and roots["torch"] > 1:  # others import torch, too
                gone += [a for a in statement.names if a.name in _MODULES and not a.asname]
            if len(gone) < len(statement.names):
                yield from gone
            elif not acts(statement):
                yield statement
