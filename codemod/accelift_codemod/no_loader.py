"""What a training loop goes through that is no loader, or cannot be proved to be one."""

from __future__ import annotations

import ast

from accelift_codemod import unsharded
from accelift_codemod.facts import Facts, library
from accelift_codemod.facts.handmade.unknown import in_no_loop
from accelift_codemod.facts.index import LOOPS, How
from accelift_codemod.facts.values import Role, Value, Values
from accelift_codemod.reasons import Refused, refuse


def no_loader(facts: Facts, backward: ast.Call) -> Refused:
    """Why the loop around a backward pass goes through no loader, as far as can be told."""
    loaders = list(facts.objects_of(Role.LOADER))
    if unsharded.bare(facts, backward) is not None:
        return Refused(unsharded.reason(facts, backward))
    for loop in _loops_around(facts, backward):
        if not isinstance(loop, (ast.For, ast.AsyncFor)):
            continue
        undefined = facts.resolver.undefined(loop.iter)
        if undefined:
            return refuse(
                "LOADER-UNKNOWN",
                loop.lineno,
                f"the training loop iterates over `{undefined}`, which this file never defines",
                "correct the name",
            )
        values = facts.resolver.values(loop.iter)
        unknown = [v for v in _flat(values) if v.role is Role.OBJECT and not v.name.startswith(library.NO_LOADERS)]
        if unknown:
            return _not_a_loader(facts, loop, unknown[0])
    if loaders and (in_no_loop(facts.handmade, backward) or facts.handmade.whole(backward)):
        return Refused(unsharded.reason(facts, backward))  # whatever the loaders are for, it is not this
    if loaders:
        made = loaders[0][0]
        cls = facts.unfollowed(made)
        why = (
            f", for the attributes of {cls.name} cannot be followed: {not_followed(facts, cls)}"
            if cls is not None
            else ""
        )
        return refuse(
            "LOADER-UNKNOWN",
            backward.lineno,
            f"the DataLoader of line {made.lineno} does not reach the training loop in a way that can be followed{why}",
            "pass it to the loop as a plain variable or parameter",
        )
    foreign = _imported_iterable(facts, backward)
    if foreign is not None:
        return refuse(
            "LOADER-UNKNOWN",
            foreign.lineno,
            f"the training loop iterates over `{facts.segment(foreign)}`, which is imported",
            "make the DataLoader in this file, or convert it by hand",
        )
    return Refused(unsharded.reason(facts, backward))


def _not_a_loader(facts: Facts, loop: ast.For | ast.AsyncFor, value: Value) -> Refused:
    """A refusal because a loop iterates over an object that is no loader, as far as is known."""
    text = " ".join(facts.segment(loop.iter).split())
    message = f"the training loop iterates over `{text}`, which cannot be proved to be a DataLoader"
    remedy = "make the DataLoader in this file, or convert it by hand"
    if isinstance(value.origin, ast.Call):
        made = " ".join(facts.segment(value.origin.func).split())
        message = f"the training loop iterates over `{text}`, made by `{made}` in line {value.origin.lineno}, which "
        if facts.resolver.undefined(value.origin.func):
            return refuse("LOADER-UNKNOWN", loop.lineno, f"{message}this file never defines", "import it")
        if module := _module(facts, value.origin.func):
            message += f"is the module {module} itself, and no function of it"
            return refuse("LOADER-UNKNOWN", loop.lineno, message, f"import what is meant: from {module} import ...")
        kinds = facts.kinds_looked_up(value.origin)
        if kinds:
            message += f"is looked up in a module by name, and there it may be one of {kinds}"
            return refuse("LOADER-UNKNOWN", loop.lineno, message, "keep only what makes DataLoaders in that module")
        source = value.name or _receiver(facts, value.origin)
        own = library.matches(source, frozenset(library.OWN_LOADERS))
        module = (facts.resolver.qualified(value.origin.func) or "").rpartition(".")[0]
        if module and not own:
            message += f"comes from `{module}`, no file that is looked at, and "
        message += "makes its batches itself" if own else "cannot be proved to be a DataLoader"
        remedy = library.OWN_LOADERS[own] if own else remedy
        if isinstance(value.declaration, ast.ClassDef):
            own_class = _own_class(facts, text, value.origin, value.declaration)
            message, remedy = own_class or (message, remedy)
        elif not own and "." in value.name and "[" not in value.name:
            return Refused(refuse("LOADER-UNKNOWN", loop.lineno, message, remedy).finding, value.name)
    return refuse("LOADER-UNKNOWN", loop.lineno, message, remedy)


def _module(facts: Facts, func: ast.expr) -> str:
    """The module that a name surely is, which `import` alone binds; else empty."""
    bindings = facts.resolver.bindings(func) if isinstance(func, ast.Name) else []
    modules = {b.qualified for b in bindings if isinstance(facts.index.parents.get(b.node), ast.Import)}
    return modules.pop() if bindings and len(modules) == len(bindings) == 1 else ""


def _receiver(facts: Facts, call: ast.Call) -> str:
    """The library name of the object whose method a call runs; empty if it is none of a library."""
    values = facts.resolver.values(call.func.value) if isinstance(call.func, ast.Attribute) else ()
    return next((v.name for v in values if v.declaration is None and v.role in (Role.MODEL, Role.OBJECT)), "")


def _own_class(facts: Facts, text: str, made: ast.Call, cls: ast.ClassDef) -> tuple[str, str] | None:
    """What is said of a loop over an object of a class of the script that hands out batches itself."""
    methods = (facts.resolver.method(cls, name) for name in ("__iter__", "__next__", "__getitem__"))
    method = next(filter(None, methods), None)
    if method is None:
        return None
    return (
        f"the training loop iterates over `{text}`, made in line {made.lineno}: an object of {cls.name}, a class of "
        f"the script that hands out batches in its own way (line {method.lineno})",
        "loop over a torch DataLoader, and do in the loop what the class does to its batches",
    )


def _imported_iterable(facts: Facts, backward: ast.AST) -> ast.expr | None:
    """What a loop around the backward pass iterates over, if it comes from another file of the project."""
    for loop in _loops_around(facts, backward):
        node = loop.iter if isinstance(loop, (ast.For, ast.AsyncFor)) else None
        while isinstance(node, ast.Call) and node.args:
            node = node.args[0]
        if isinstance(node, ast.Name) and any(b.how is How.IMPORT for b in facts.resolver.bindings(node)):
            return node
    return None


def _loops_around(facts: Facts, node: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    seen: set[ast.AST] = set()
    queue = [node]
    while queue:
        current = queue.pop()
        found += facts.index.enclosing_loops(current)
        function = facts.index.function(current)
        if function is not None and function not in seen:
            seen.add(function)
            queue += facts.resolver.sites(function)
    return [loop for loop in found if isinstance(loop, LOOPS)]


def _flat(values: Values) -> list[Value]:
    found: list[Value] = []
    for value in values:
        if value.role in (Role.ENUMERATE, Role.ITERATOR, Role.ZIP):
            for inner in value.inner:
                found += _flat(inner)
        else:
            found.append(value)
    return found


def not_followed(facts: Facts, cls: ast.ClassDef | None) -> str:
    """Why the attributes of a class cannot be followed."""
    unknown = facts.instances.unknown.get(cls.name) if cls is not None else None
    return f"{unknown.reason} (line {unknown.line})" if unknown is not None else "it is no plain class"
