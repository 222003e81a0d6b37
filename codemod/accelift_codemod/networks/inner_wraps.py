"""DataParallel around a part of a network: its state dicts have the wrapper in their keys."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import key
from accelift_codemod.reasons import Refused, refuse

_OTHERS = frozenset({Role.OPTIMIZER, Role.SCHEDULER, Role.SCALER})
_STATES = ("state_dict", "load_state_dict")
_STEPS = 6  # from an attribute back to the wrapper that it holds
# What goes by the names of the parts of a network.
_NAMED = frozenset(
    """
    state_dict load_state_dict named_parameters named_modules named_children named_buffers get_submodule get_parameter
    """.split()
)
_GETS = frozenset({"getattr", "setattr", "delattr"})
_STRIPS = frozenset({"replace", "removeprefix"})
_LIBRARYS = re.compile(r"(?!torch\.nn\.)\w+(\.\w+)+")  # objects of libraries that are no parts of torch's networks
_PART = re.compile(r"(\w+\.)+module(\.\S*)?|\.?module\.\S*|\.module")


def is_inner(draft: Draft, call: ast.Call) -> bool:
    """Whether a wrapper becomes a part of a network: in a class of networks, as an attribute, or in a call that makes
    a network of it."""
    resolver, index = draft.facts.resolver, draft.facts.index
    owner = index.enclosing_class(call)
    if owner is not None and resolver.class_role(owner) is Role.MODEL:
        return True
    for parent in index.ancestors(call):
        if isinstance(parent, ast.stmt):
            break
        if isinstance(parent, ast.Call) and draft.facts.objects.models(parent):
            if any(call in {*walk(a)} for a in (*parent.args, *parent.keywords)):
                return True
    return bool(attributes(draft, call))


def attributes(draft: Draft, call: ast.Call) -> list[ast.Attribute]:
    """The attributes of networks that a wrapper is put into, as they are set: by itself, or from a variable."""
    return [
        binding.node
        for bindings in draft.facts.index.attribute_bindings.values()
        for binding in bindings
        if isinstance(binding.node, ast.Attribute)
        and not binding.path
        and _is_network(draft, binding.node.value)
        and binding.value is not None
        and _holds(draft, binding.value, call)
    ]


def _is_network(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression is a network, or `self` in a class of networks."""
    owner = draft.facts.index.enclosing_class(node)
    own = isinstance(node, ast.Name) and node.id == "self" and owner is not None
    return (own and draft.facts.resolver.class_role(owner) is Role.MODEL) or bool(draft.facts.objects.models(node))


def _holds(draft: Draft, node: ast.expr, wrapper: ast.Call, steps: int = _STEPS) -> bool:
    """Whether an expression may be what a call returns: itself, through variables, arguments, returns and methods that
    return their object."""
    resolver = draft.facts.resolver
    if node is wrapper:
        return True
    if not steps or key_of(draft, wrapper).isdisjoint(key_of(draft, node)):
        return False
    if isinstance(node, ast.IfExp):
        return any(_holds(draft, arm, wrapper, steps - 1) for arm in (node.body, node.orelse))
    if isinstance(node, ast.Call):
        target = resolver.callee(node)
        if isinstance(target, (ast.FunctionDef, ast.AsyncFunctionDef)):
            returned = (r.value for r in resolver.returns(target) if r.value is not None)
            return any(_holds(draft, value, wrapper, steps - 1) for value in returned)
        return isinstance(node.func, ast.Attribute) and _holds(draft, node.func.value, wrapper, steps - 1)
    for binding in resolver.bindings(node) if isinstance(node, ast.Name) else ():
        if binding.how is How.ASSIGN and not binding.path:
            given = [binding.value]
        elif binding.how is How.PARAMETER:
            function = binding.scope.node
            sites = resolver.sites(function) if isinstance(function, FUNCTIONS) else []
            given = [(resolver.bind(site, function) or {}).get(binding.name) for site in sites]  # type: ignore[arg-type]
        else:
            continue
        if any(value is not None and _holds(draft, value, wrapper, steps - 1) for value in given):
            return True
    return False


def key_of(draft: Draft, node: ast.expr) -> set[object]:
    """What an expression may be, wrapped or not."""
    return {key(value) for value in draft.facts.resolver.values(node)}


def checkpointed(draft: Draft) -> bool:
    """Whether the script takes or loads state dicts of networks, or saves a network whole."""
    for call in draft.calls:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in _STATES:
            if not draft.facts.resolver.roles(func.value) & _OTHERS:
                return True
        elif draft.facts.resolver.qualified(func) == "torch.save":
            if draft.facts.objects.models(draft.facts.resolver.argument(call, 0, "obj")):
                return True
    return False


def bare_reads(draft: Draft, inner: list[ast.Call]) -> Iterator[ast.Attribute]:
    """The reads such as `network.features.module`, which is `network.features` itself."""
    index = draft.facts.index
    for name in dict.fromkeys(target.attr for call in inner for target in attributes(draft, call)):
        reads = [
            r
            for r in index.attributes.get("module", [])
            if isinstance(r.value, ast.Attribute) and r.value.attr == name and isinstance(r.ctx, ast.Load)
        ]
        owners = {_owner(draft, b.node) for b in index.attribute_bindings.get(name, [])}
        for read in reads:
            if len(owners) > 1 or _owner(draft, read.value) not in owners:
                raise _unclear(draft, read)
            yield read


def check_others(draft: Draft, inner: list[ast.Call], taken: set[ast.Attribute], wrapped: set[object]) -> None:
    """Refuse what may look for a wrapper inside a network, and finds none any more.

    `taken` are the reads of `.module` that the conversion takes out, `wrapped` what all the wrappers are around.
    """
    for read in draft.facts.index.attributes.get("module", []) if inner else ():
        if read in taken or not isinstance(read.ctx, ast.Load) or not draft.facts.runs(read):
            continue
        values = key_of(draft, read.value)
        whole = bool(values) and values <= wrapped
        if not whole and not _is_others(draft, read) and not _is_asked(draft, read):
            raise _unclear(draft, read)
    for node in walk(draft.facts.tree) if inner else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _names_wrapper(draft, node, node.value):
            raise refuse(
                "CLASH",
                node.lineno,
                f"`{draft.facts.segment(node)}` may name a wrapper inside the network, which is taken out",
                "take the wrapper out of the network first, and `module` out of the names",
            )


def _unclear(draft: Draft, read: ast.Attribute) -> Refused:
    return refuse(
        "CLASH",
        read.lineno,
        f"`{draft.facts.segment(read)}` may be of a wrapper that is taken out, or of something else",
        "take the wrapper out of the network first",
    )


def _is_others(draft: Draft, read: ast.Attribute) -> bool:
    """Whether `module` certainly is an attribute of something else: of a class that sets it, of a library's object, or
    a Python module."""
    resolver, index = draft.facts.resolver, draft.facts.index
    owners = {index.enclosing_class(b.node) for b in index.attribute_bindings.get("module", [])} - {None}
    if isinstance(read.value, ast.Name) and read.value.id == "self":
        return index.enclosing_class(read) in owners
    values = resolver.values(read.value)
    return bool(resolver.qualified(read)) or (
        bool(values)
        and all(
            not owners.isdisjoint(resolver.ancestry(v.declaration))
            if v.declaration is not None
            else _LIBRARYS.fullmatch(v.name) is not None
            for v in values
        )
    )


def _is_asked(draft: Draft, read: ast.Attribute) -> bool:
    """Whether an attribute is only read where it was asked whether there is a wrapper: there is none any more."""
    of = ast.dump(read.value)
    node: ast.AST = read
    for parent in draft.facts.index.ancestors(read):
        if isinstance(parent, FUNCTIONS):
            return False
        if isinstance(parent, (ast.If, ast.IfExp)):
            test = parent.test
            first = parent.body[:] if isinstance(parent, ast.If) else [parent.body]
            if isinstance(test, ast.Call) and draft.facts.resolver.builtin(test.func) in ("isinstance", "hasattr"):
                if test.args and ast.dump(test.args[0]) == of and node in first:
                    return True
        node = parent
    return False


def _names_wrapper(draft: Draft, node: ast.Constant, text: str) -> bool:
    """Whether a string may stand for a wrapper among the names of parts: what only strips `module.` does no harm."""
    index = draft.facts.index
    parent = index.parents.get(node)
    if isinstance(parent, ast.Expr):
        return False
    call = parent if isinstance(parent, ast.Call) else None
    if call is not None and draft.facts.resolver.builtin(call.func) in _GETS:
        return text == "module"
    if _NAMED.isdisjoint(index.attributes):
        return False
    method = call.func.attr if call is not None and isinstance(call.func, ast.Attribute) else ""
    if text == "module.":  # at the start of a name it is that of a wrapper around the whole
        return method not in _STRIPS | {"startswith"}
    return isinstance(parent, ast.Compare) if text == "module" else bool(_PART.fullmatch(text))


def _owner(draft: Draft, node: ast.AST) -> ast.AST | None:
    """The class of the object whose attribute is read or set, if it is one of the script."""
    if not isinstance(node, ast.Attribute):
        return None
    values = draft.facts.resolver.values(node.value)
    declarations = {v.declaration for v in values if v.declaration is not None}
    if len(declarations) == 1:
        return declarations.pop()
    around = draft.facts.index.enclosing_class(node)
    itself = isinstance(node.value, ast.Name) and node.value.id == "self"
    return around if itself else None
