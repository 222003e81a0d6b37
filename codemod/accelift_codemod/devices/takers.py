"""What is given the name of a device, and would take the device as well: `x.to(name)`, but not `name == "cuda"`."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable

from accelift_codemod.devices.surviving import is_imported
from accelift_codemod.draft import Draft
from accelift_codemod.facts import How, Role
from accelift_codemod.facts.classes import own_class
from accelift_codemod.facts.device_variables import DeviceVariable
from accelift_codemod.facts.index import FUNCTIONS, Function
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.showing import is_logging, may_log, prints
from accelift_codemod.facts.signatures import default
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.onward import function_of

_MOST = 400  # reads that are followed
_MOVES = frozenset({"to", "cuda", "to_empty"})
_LOADS = frozenset({"torch.device", "torch.Generator", "torch.load", "torch.jit.load", "torch.set_default_device"})
_LIBRARIES = ("torch.", "torchinfo.", "clip.", "open_clip.")  # whose parameters `device` are for both
_NAMES = re.compile(r"torch\.(.*\.)?(GradScaler|autocast)|torch\.(hub|distributed)\..*")  # but of these
_KEYWORDS = frozenset({"device", "map_location"})
# By these a script may read variables without their names; by others those of an object that they are given, if any.
_READ_ALL = frozenset({"globals", "locals", "exec", "eval"})
_READ_OBJECT = frozenset({"vars", "dir"})
_PLAIN = frozenset({"torch.nn.Module", "torch.utils.data.Dataset", "object"})  # classes that read no device of theirs


def take_devices(draft: Draft, reads: Iterable[ast.expr]) -> bool:
    """Whether all that reads the name of a device may be given a torch.device in its place, wherever it gets."""
    if _reads_all(draft, False):
        return False
    queue: list[ast.expr] = [*reads]
    seen = {*queue}
    while queue:
        read = queue.pop()
        onward = () if draft.gone(read) else _onward(draft, read)
        if onward is None or len(seen) > _MOST:
            return False
        new = [n for n in dict.fromkeys(onward) if n not in seen]
        queue += new
        seen.update(new)
    return True


def takes_device(draft: Draft, variable: DeviceVariable, apart: Collection[ast.expr] = ()) -> bool:
    """The same of a variable, but for some reads: not of one that other files or the fields of a class may hand to
    more."""
    wanted = variable.scope is not None and variable.scope.is_module and variable.name in draft.facts.wanted
    found: list[ast.expr] = []
    for binding in variable.bindings:
        statement, reads = draft.facts.index.statement(binding.node), _target(draft, binding.node)
        named = isinstance(statement, ast.AnnAssign) and _is_text(statement.annotation)
        if reads is None or named or wanted or is_imported(draft, variable):
            return False
        found += reads
    inside = {n for s in variable.statements for n in walk(s)} if variable.whole else ()
    return take_devices(draft, [read for read in found if read not in inside and read not in apart])


@kept
def _reads_all(draft: Draft, attributes: bool) -> bool:
    """Whether a script may read any variable, or any attribute, without its name."""
    index = draft.facts.index
    told = [(draft.facts.resolver.builtin(call.func), bool(call.args)) for call in index.calls]
    of_objects = any(name in _READ_OBJECT and given for name, given in told) or "__dict__" in index.attributes
    if attributes and of_objects:
        return True
    return any(name in _READ_ALL or (name in _READ_OBJECT and not given) for name, given in told)


@kept
def _own_moves(draft: Draft, _: None) -> frozenset[str]:
    """The methods of the script that have the name of one that moves."""
    return frozenset(getattr(f, "name", "") for f in draft.facts.index.functions) & _MOVES


def _onward(draft: Draft, read: ast.expr) -> Iterable[ast.expr] | None:
    """The reads that get what one has; None if something takes it for a text, or is not known to take a device."""
    parent = draft.facts.index.parents.get(read)
    if isinstance(parent, ast.keyword):
        call = draft.facts.index.parents[parent]
        return _given(draft, call, read, parent.arg) if isinstance(call, ast.Call) and parent.arg else None
    if isinstance(parent, ast.Call):
        return _given(draft, parent, read) if read is not parent.func else None
    if isinstance(parent, ast.FormattedValue):
        plain = parent.format_spec is None and parent.conversion in (-1, ord("s"))
        return () if plain and _is_shown(draft, parent) else None
    if isinstance(parent, (ast.If, ast.While)):
        return ()
    if isinstance(parent, (ast.IfExp, ast.BoolOp)):
        return () if isinstance(parent, ast.IfExp) and read is parent.test else _onward(draft, parent)
    if isinstance(parent, ast.Compare):
        return () if all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops) else None
    if isinstance(parent, ast.Assign):
        bound = [_target(draft, target) for target in parent.targets]
        return None if None in bound else [n for reads in bound if reads for n in reads]
    if isinstance(parent, ast.arguments):
        return _default(draft, parent, read)
    if isinstance(parent, ast.Return):
        function = draft.facts.index.function(parent)
        plain = isinstance(function, FUNCTIONS) and not function.decorator_list and not _is_text(function.returns)
        return draft.facts.resolver.sites(function) if plain else None  # type: ignore[arg-type]
    return None


def _given(draft: Draft, call: ast.Call, read: ast.expr, keyword: str = "") -> Iterable[ast.expr] | None:
    """The same of an argument of a call."""
    function, resolver = function_of(draft, call), draft.facts.resolver
    if function is not None:
        given = resolver.bind(call, function) or {}
        return _parameters(draft, function, [name for name, value in given.items() if value is read])
    if resolver.callee(call) is not None:
        return None
    name = resolver.qualified(call.func) or ""
    method = call.func.attr if isinstance(call.func, ast.Attribute) and not name else ""
    if not keyword:
        takes = name in _LOADS if name != "torch.device" else len(call.args) == 1
        takes |= name.startswith("torch.cuda.") and not name.startswith("torch.cuda.amp.")
        takes |= prints(resolver, call.func) is not None or is_logging(resolver, call)
    else:
        takes = keyword in _KEYWORDS and name.startswith(_LIBRARIES) and not _NAMES.fullmatch(name)
        takes |= keyword == "device" and method.startswith("new_")
    takes |= method in _MOVES - _own_moves(draft, None)
    return () if takes else None


def _parameters(draft: Draft, function: Function, names: list[str]) -> Iterable[ast.expr] | None:
    """The reads of parameters of a function; None if it may be told that they are texts."""
    arguments = function.args
    known = {a.arg: a for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    if not names or any(name not in known or _is_text(known[name].annotation) for name in names):
        return None
    scope, reaching = draft.facts.index.scopes[function], draft.facts.resolver.reaching
    loads = (load for name in names for load in draft.facts.loads(scope, name))
    return [load for load in loads if any(b.how is How.PARAMETER for b in reaching(load, scope))]


def _default(draft: Draft, arguments: ast.arguments, read: ast.expr) -> Iterable[ast.expr] | None:
    """The reads of a parameter that has it by default."""
    function = draft.facts.index.parents[arguments]
    if not isinstance(function, FUNCTIONS):
        return None
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return _parameters(draft, function, [a.arg for a in every if default(function, a) is read])


def _target(draft: Draft, target: ast.AST) -> list[ast.expr] | None:
    """The reads of what is bound: of an attribute, or of what a class has, those of all attributes of its name."""
    facts = draft.facts
    if isinstance(target, ast.Name):
        owner = facts.index.scope(target).owner(target.id)
        if owner is None:
            return None
        reads: list[ast.expr] = [*facts.loads(owner, target.id), *facts.asked(owner, target.id)]
        if not isinstance(owner.node, ast.ClassDef) or "." in target.id:
            return reads
        plain = not (owner.node.bases or owner.node.decorator_list or owner.node in _given_away(draft, None))
        found = _attributes(draft, target.id) if plain else None
        return [*reads, *found] if found is not None else None
    if not isinstance(target, ast.Attribute):
        return None
    cls = own_class(facts.index, target.value)
    if cls is None:
        plain = facts.resolver.roles(target.value) == {Role.ARGUMENTS} and Role.ARGUMENTS not in _given_away(
            draft, None
        )
    else:
        plain = all(facts.resolver.qualified(base) in _PLAIN for base in cls.bases)
    return _attributes(draft, target.attr) if plain else None


def _attributes(draft: Draft, name: str) -> list[ast.expr] | None:
    if _reads_all(draft, True):
        return None
    return [n for n in draft.facts.index.attributes.get(name, []) if isinstance(n.ctx, ast.Load)]


@kept
def _given_away(draft: Draft, _: None) -> set[object]:
    """The classes that are given to what may read all that they, or their objects, have, and whether the arguments of
    the command line are: `wandb.init(config=args)`."""
    resolver, found = draft.facts.resolver, set[object]()
    for call in draft.facts.index.calls:
        if function_of(draft, call) is None and prints(resolver, call.func) is None and not is_logging(resolver, call):
            for given in (*call.args, *(k.value for k in call.keywords)):
                if isinstance(given, (ast.Name, ast.Attribute, ast.Call)):
                    found |= {x for v in resolver.values(given) for x in (v.role, v.declaration)}
                if isinstance(given, ast.Name):
                    found |= {b.node for b in resolver.bindings(given)}
    return found


def _is_text(annotation: ast.expr | None) -> bool:
    """Whether an annotation is that of a text and of no device."""
    text = ast.unparse(annotation) if annotation is not None else ""
    return re.search(r"\bstr\b", text) is not None and "device" not in text


def _is_shown(draft: Draft, part: ast.expr) -> bool:
    """Whether the text that a part belongs to is only printed or logged."""
    parents, resolver = draft.facts.index.parents, draft.facts.resolver
    node: ast.AST = part
    while isinstance(parent := parents[node], (ast.JoinedStr, ast.FormattedValue, ast.BinOp)):
        node = parent
    if not isinstance(parent, ast.Call) or node not in parent.args:
        return False
    return prints(resolver, parent.func) is not None or is_logging(resolver, parent) or may_log(resolver, parent)
