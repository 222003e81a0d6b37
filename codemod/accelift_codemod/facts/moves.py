"""Calls that move things to the device, and the conditions under which they do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from accelift_codemod.facts import library, whereabouts
from accelift_codemod.facts.conditions import FALSE, TRUE, Condition, asked, both, negate, weakest
from accelift_codemod.facts.devices import Devices
from accelift_codemod.facts.index import FUNCTIONS, Binding, How, position
from accelift_codemod.facts.numbered_targets import NumberedTargets
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.starters import Part
from accelift_codemod.facts.tensor_types import type_names
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role, Value

_VARIABLE = "torch.autograd.Variable"
# Methods after which a tensor is where it was.
_OF_TENSORS = frozenset("to cuda cpu train eval parameters state_dict size dim detach float half".split())
STAYS = frozenset(
    "view reshape float long int double half squeeze unsqueeze permute transpose flatten contiguous type t clone "
    "detach repeat expand bool type_as requires_grad_".split()
)
_DTYPES = {
    "FloatTensor": "torch.float32",
    "DoubleTensor": "torch.float64",
    "HalfTensor": "torch.float16",
    "BFloat16Tensor": "torch.bfloat16",
    "LongTensor": "torch.int64",
    "IntTensor": "torch.int32",
    "ShortTensor": "torch.int16",
    "ByteTensor": "torch.uint8",
    "CharTensor": "torch.int8",
    "BoolTensor": "torch.bool",
}


@dataclass(frozen=True)
class Move:
    """A call that moves something to the device."""

    call: ast.Call
    receiver: ast.expr
    kind: str  # "to", "cuda" or "type"
    target: ast.expr | None
    rest: tuple[ast.AST, ...]  # further arguments (dtype, non_blocking)

    @property
    def only_moves(self) -> bool:
        """Whether it does nothing to what is on the device already: `x.to(device, torch.half)` does."""
        return self.kind != "type" and all(isinstance(r, ast.keyword) and r.arg == "non_blocking" for r in self.rest)


class Moves:
    """Finds what a script moves to its device."""

    def __init__(self, devices: Devices) -> None:
        self.devices = devices
        self.resolver = devices.resolver
        self.index = devices.index
        self.conditions = devices.conditions

    @cached_property
    def all(self) -> list[Move]:
        """Calls that move an object to the device, in source order."""
        found = []
        for call in self._calls("to"):
            receiver = call.func.value  # type: ignore[attr-defined]
            target = self.resolver.argument(call, 0, "device")
            if target is None:
                continue
            device = self.devices.is_device(target) and not self.devices.is_elsewhere(target)
            if device or self.is_number(target) or self.numbered.holds(target):
                rest = [*call.args[1:], *(k for k in call.keywords if k.value is not target)]
                found.append(Move(call, receiver, "to", target, tuple(rest)))
        for call in self._calls("cuda"):
            receiver = call.func.value  # type: ignore[attr-defined]
            if self.resolver.qualified(receiver) == "torch":
                continue
            target = self.resolver.argument(call, 0, "device")
            rest = [*call.args[1:], *(k for k in call.keywords if k.value is not target)]
            found.append(Move(call, receiver, "cuda", target, tuple(rest)))
        for call in self._calls("type"):
            receiver = call.func.value  # type: ignore[attr-defined]
            if len(call.args) == 1 and self.tensor_type(call.args[0]) is not None:
                found.append(Move(call, receiver, "type", call.args[0], ()))
        return sorted(found, key=lambda m: position(m.call))

    @cached_property
    def away(self) -> list[ast.Call]:
        """Calls that may move an object to another device."""
        calls = {move.call for move in self.all}
        other = [c for c in self._calls("to") if c not in calls and _names_device(self.resolver, c)]
        doubtful = [m.call for m in self.all if m.kind == "to" and self.devices.may_be_elsewhere(m.target)]
        return [*self._calls("cpu"), *self._calls("to_empty"), *other, *doubtful]

    @cached_property
    def handed_on(self) -> bool:
        """Whether methods that move something away are handed on as values, or looked up by their names."""
        called = {call.func for call in self.index.methods.get("cpu", ())}
        texts = (c.args[1] for c in self.index.calls if len(c.args) > 1 and self.resolver.builtin(c.func) == "getattr")
        named = (t for t in texts if not isinstance(t, ast.Constant) or t.value in ("cpu", "to", "to_empty"))
        return next(named, None) is not None or any(n not in called for n in self.index.attributes.get("cpu", ()))

    def is_number(self, target: ast.expr) -> bool:
        """Whether a target is the GPU of this process by its number (`.to(local_rank)`)."""
        return self.devices.processes.part(target) in (Part.RANK, Part.LOCAL_RANK)

    @cached_property
    def numbered(self) -> NumberedTargets:
        """What is a GPU by its number."""
        return NumberedTargets(self.devices, self._calls("cuda"))

    def _calls(self, method: str) -> Iterator[ast.Call]:
        """Calls of a method of tensors and modules, without those that a class of the script defines itself."""
        for call in self.index.methods.get(method, []):
            values = self.resolver.values(call.func.value)  # type: ignore[attr-defined]
            if not any(_defines(v.declaration, method) for v in values):
                yield call

    @cached_property
    def unreadable(self) -> list[ast.expr]:
        """What `.to(...)` is given that may be a device, but cannot be read as one, a type or another tensor."""
        found: list[ast.expr] = []
        for call in filter(self.devices.runs, self._calls("to")):
            target = self.resolver.argument(call, 0, "device")
            if target is None or self.devices.is_device(target) or self.is_number(target):
                continue
            if self.numbered.holds(target):
                continue
            places = self._places(target)
            if places and all(place.attr in ("device", "dtype") for place in places):
                if any(place.attr == "device" and self._is_setting(place) for place in places):
                    found.append(target)
                continue
            if (self.resolver.qualified(target) or "").startswith("torch."):
                continue
            roles = self.resolver.roles(target)
            if not roles & {Role.BATCH, Role.DATA}:
                found.append(target)
        return found

    @cached_property
    def typed(self) -> list[ast.Call]:
        """The calls by which tensors or networks become those of a GPU, though none is moved to a device: by a legacy
        type, or since new ones are made there."""
        found = [move.call for move in self.running if move.kind == "type"]
        for call in filter(self.devices.runs, self.index.calls):
            given, name = call.args[0] if len(call.args) == 1 else None, self.resolver.qualified(call.func)
            if given is None:
                continue
            if name == "torch.set_default_device":
                found += [call] if self.devices.cpu(given) != TRUE else []
            elif name == "torch.set_default_tensor_type":
                found += [call] if self.tensor_type(given) is not None else []
        return found

    def _places(self, target: ast.expr) -> list[ast.Attribute]:
        """The attribute that something is moved by, or those that a variable holds: `device = x.device`, where `x` is a
        parameter that is surely a tensor, as it is asked for its shape."""
        if not isinstance(target, ast.Name):
            return [target] if isinstance(target, ast.Attribute) else []
        bindings = self.resolver.bindings(target)
        values = [b.value if b.how is How.ASSIGN and not b.path else None for b in bindings]
        found = [value for value in values if isinstance(value, ast.Attribute) and self._has_shape(value.value)]
        return found if len(found) == len(values) else []

    def _has_shape(self, node: ast.expr) -> bool:
        """Whether a parameter is asked for what settings do not have: `x.size(0)`, `x.shape`."""
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        if not isinstance(node, ast.Name) or [b.how for b in bindings] != [How.PARAMETER]:
            return False
        parents = self.index.parents
        reads = [parents[n] for n in bindings[0].scope.loads.get(node.id, ())]
        asked = [n for n in reads if isinstance(n, ast.Attribute)]
        calls = {n.attr for n in asked if isinstance(call := parents[n], ast.Call) and call.func is n}
        return bool(calls & {"size", "dim"}) or any(n.attr == "shape" for n in asked)

    def _is_setting(self, node: ast.Attribute) -> bool:
        """Whether an attribute is one of settings, and not where a tensor is: of a class that declares it, of an object
        that is made with a device or of such a class, of options, or of what a decorator hands a function."""
        if self.devices.follows(node):
            return False
        for value in self.resolver.values(node.value):
            call = value.origin if isinstance(value.origin, ast.Call) else None
            given = [*call.args, *(k.value for k in call.keywords)] if call is not None else []
            classes = {value.declaration, *(v.declaration for a in given for v in self.resolver.values(a))}
            own = value.role is Role.OBJECT and value.declaration is not None
            if own or value.role is Role.ARGUMENTS or any(map(self.devices.is_device, given)):
                return True
            if any(isinstance(c, ast.ClassDef) and node.attr in self.index.scopes[c].bindings for c in classes):
                return True
        holder = node.value
        while isinstance(holder, ast.Attribute) and self.resolver.roles(holder) <= {Role.LIBRARY}:
            holder = holder.value
        if any(self._is_made_elsewhere(holder, value) for value in self.resolver.values(holder)):
            return True
        bindings = self.resolver.bindings(node.value) if isinstance(node.value, ast.Name) else []
        return any(b.how is How.PARAMETER and self._is_injected(b) for b in bindings)

    def _is_made_elsewhere(self, node: ast.expr, value: Value) -> bool:
        """Whether a library other than torch, or a class made on the spot, has made an object that does nothing which
        tensors and networks are there for: `cfg = OmegaConf.load(path)`, `from settings import cfg`."""
        call = value.origin if value.role is Role.OBJECT and isinstance(value.origin, ast.Call) else None
        name = self.resolver.qualified(call.func) if call is not None else value.name
        made = not name.startswith("torch") if name else call is not None and isinstance(call.func, ast.Call)
        made = made and (call is not None or value.role is Role.LIBRARY)
        owner = self.index.scope(node).owner(node.id) if made and isinstance(node, ast.Name) else None
        reads = owner.loads.get(node.id, ()) if owner is not None and isinstance(node, ast.Name) else ()
        return bool(reads) and not any(map(self._is_run, reads))

    def _is_run(self, read: ast.expr) -> bool:
        """Whether an object is called, or a method of tensors and networks is."""
        parent = self.index.parents[read]
        if isinstance(parent, ast.Attribute) and parent.value is read:
            outer = self.index.parents[parent]
            return parent.attr in _OF_TENSORS and isinstance(outer, ast.Call) and outer.func is parent
        return isinstance(parent, ast.Call) and parent.func is read

    def _is_injected(self, parameter: Binding) -> bool:
        """Whether a function with a decorator is called without what it has to be given."""
        function = self.index.parents[self.index.parents[parameter.node]]
        handed = self.resolver.handed(parameter)
        decorated = isinstance(function, FUNCTIONS) and bool(function.decorator_list)
        return decorated and bool(handed) and all(given is None for given in handed)

    def root(self, node: ast.expr | None) -> ast.expr | None:
        """What an expression is made of that stays on the same device: views, casts, moves and Variables taken off."""
        while isinstance(node, ast.Call):
            if node in self.of:
                node = self.of[node].receiver
            elif isinstance(node.func, ast.Attribute) and node.func.attr in STAYS:
                if node.func.attr == "type" and any(type_names(self.resolver, a) for a in node.args):
                    break  # of a tensor of the CPU: `x.type(torch.FloatTensor)`
                node = node.func.value
            elif self.resolver.qualified(node.func) == _VARIABLE and node.args:
                node = node.args[0]
            else:
                break
        return node

    @cached_property
    def of(self) -> dict[ast.Call, Move]:
        """The moves by their call."""
        return {move.call: move for move in self.all}

    def tensor_type(self, node: ast.expr) -> str | None:
        """The dtype that a legacy tensor type selects, where it may also select the GPU."""
        names = type_names(self.resolver, node)
        if not names or not any(n.startswith("torch.cuda.") for n in names):
            return None
        dtypes = {_DTYPES.get(n.rpartition(".")[2], "") for n in names if n.startswith("torch.cuda.")}
        return dtypes.pop() if len(dtypes) == 1 else None

    def guard(self, node: ast.AST) -> tuple[ast.If, bool] | None:
        """The innermost `if` around a node, and whether the node is in its body (not in its else)."""
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, FUNCTIONS):
                return None
            if isinstance(parent, ast.If) and child is not parent.test:
                return parent, child in parent.body
            child = parent
        return None

    @cached_property
    def guards_cpu(self) -> Condition | None:
        """For scripts that only call `.cuda()`: when they do not; None if their conditions disagree.

        A flag that decides about more than moves is no matter of the device, if batches are moved by another: a
        network cannot be given what is on the CPU, if it is on a GPU itself. So what is moved always, a constant or
        a loss, says nothing where networks and batches are moved by one flag.
        """
        found: list[Condition] = []
        sure, batches, networks = list[Condition](), list[Condition](), list[Condition]()
        for move, call in ((m, c) for m in self.running or self.all for c in self._asked_for(m)):
            if move.kind == "type" or self.follows(move):
                continue
            number = move.target is not None and (self.is_number(move.target) or self.numbered.holds(move.target))
            by_name = move.kind == "to" and not number
            elsewhere = self.devices.cpu(move.target) if by_name else FALSE
            if elsewhere is None:
                return None
            guard = self.guard(call)
            condition, only = TRUE, guard is None or self._only_moves(*guard)
            if guard is not None:
                test = self.conditions.read(guard[0].test)
                condition = test if guard[1] else negate(test)
                if not self._about_devices(guard[0].test) and not only:
                    condition = TRUE
            expression = self._conditional(call)
            if expression is not None:
                condition = self.conditions.read(expression.test)
            found.append(both(condition, negate(elsewhere)))
            if only or expression is not None:
                sure.append(found[-1])
            if self._is_batch(move):
                batches.append(found[-1])
            if Role.MODEL in self.resolver.roles(self.root(move.receiver)):
                networks.append(found[-1])
        if not found:
            # Nothing is ever moved: the script runs on the CPU. What follows others there is for a GPU.
            return FALSE if any(map(self.follows, self.all)) else None if self.unreadable or self.typed else TRUE
        distinct = set(found)
        if TRUE not in distinct and sure and set(batches) == set(sure):
            distinct = set(sure)
        if TRUE in distinct and len(set(networks)) == 1 and set(networks) == set(batches):
            distinct = set(networks)
        if len(distinct) == 1:
            return negate(distinct.pop())
        return FALSE if TRUE in distinct else None

    def _asked_for(self, move: Move) -> list[ast.Call]:
        """Where a move is asked for: itself, or the calls of the `cuda()` of a class of the script that it is in."""
        if not self._is_own(move.call):
            return [move.call]
        calls = [c for c in self.index.methods.get("cuda", []) if c not in self.of and not self._is_own(c)]
        return calls or [move.call]

    def _is_own(self, call: ast.Call) -> bool:
        """Whether a call stands in a method `cuda()` of a class of the script."""
        function = self.index.function(call)
        return getattr(function, "name", "") == "cuda" and isinstance(self.index.parents[function], ast.ClassDef)  # type: ignore[index]

    @cached_property
    def numbered_cpu(self) -> Condition | None:
        """When no GPU is asked for, by how many there are to be: `if n == 1: net.cuda()`, `elif n > 1:` it is wrapped.

        That is told where every move stands under such a test, and does nothing else there, or wraps a network.
        """
        found: list[Condition] = []
        for move in self.running:
            guard = self.guard(move.call)
            if guard is None or not guard[1] or not (self._only_moves(*guard) or self._wraps(guard[0], move)):
                return None
            found.append(self.conditions.read(guard[0].test))
        least = weakest(found) if len(set(found)) > 1 else None
        return negate(least) if least is not None else None

    def _wraps(self, choice: ast.If, move: Move) -> bool:
        """Whether an arm moves something only to wrap it, or when it is wrapped: `net = DataParallel(net.cuda())`."""
        around = (self.index.parents[move.call], move.receiver)
        wraps = any(
            isinstance(n, ast.Call) and self.resolver.qualified(n.func) in library.DATA_PARALLEL for n in around
        )
        return wraps and self.index.parents[self.index.statement(move.call)] is choice

    @cached_property
    def running(self) -> list[Move]:
        """The moves that running the script may come to."""
        return [move for move in self.all if self.devices.runs(move.call)]

    @property
    def choices(self) -> list[ast.AST]:
        """What chooses whether these are made."""
        found: list[ast.AST | None] = []
        for move in self.running:
            guard = self.guard(move.call)
            found += [guard[0] if guard is not None else None, self._conditional(move.call)]
        return list(dict.fromkeys(node for node in found if node is not None))

    def _is_batch(self, move: Move) -> bool:
        """Whether a move is that of a part of a batch, perhaps reshaped or cast."""
        return Role.BATCH in self.resolver.roles(self.root(move.receiver))

    @cached_property
    def batches_cpu(self) -> Condition | None:
        """When the device that batches are moved to by its name is the CPU; None if that cannot be told."""
        found = {self.devices.cpu(m.target) for m in self.running if m.kind == "to" and self._is_batch(m)}
        return found.pop() if len(found) == 1 else None

    def follows(self, move: Move) -> bool:
        """Whether something is moved to where another tensor is, or only if that one is on the GPU."""
        if whereabouts.follows(self.resolver, move.target):
            return True
        child: ast.AST = move.call
        for parent in self.index.ancestors(move.call):
            if isinstance(parent, FUNCTIONS):
                return False
            if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
                if whereabouts.asks(self.resolver, parent.test):
                    return True
            child = parent
        return False

    def _conditional(self, call: ast.Call) -> ast.IfExp | None:
        """`x.cuda() if use_cuda else x`."""
        for parent in self.index.ancestors(call):
            if isinstance(parent, ast.stmt):
                return None
            if isinstance(parent, ast.IfExp) and (self._about_devices(parent.test) or self._moves_or_not(parent)):
                return parent
        return None

    def _moves_or_not(self, choice: ast.IfExp) -> bool:
        """Whether both arms are the same but for a move, and the test asks a setting for something else."""
        moved, other = self._unmoved(choice.body), self._unmoved(choice.orelse)
        asks, same = ({n.id for n in walk(e) if isinstance(n, ast.Name)} for e in (choice.test, moved))
        calls = [n.func for n in walk(choice.test) if isinstance(n, ast.Call)]
        settings = all(isinstance(f, ast.Attribute) and f.attr == "get" for f in calls)
        return ast.dump(moved) == ast.dump(other) and bool(asks) and not asks & same and settings

    def _unmoved(self, node: ast.expr) -> ast.expr:
        """What is moved to the device, or stays where it is."""
        move = self.of.get(node) if isinstance(node, ast.Call) else None
        return move.receiver if move is not None else node

    def _only_moves(self, choice: ast.If, yes: bool) -> bool:
        """Whether an arm of an `if` does nothing but move things, and the test does not ask for those things.

        Whatever the test asks for then is whether the script is to use the GPU: `if args.gpu >= 0:`.
        """
        moved: set[str] = set()
        for statement in choice.body if yes else choice.orelse:
            value = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
            parts = value.elts if isinstance(value, ast.Tuple) else [value]
            moves = [self._moved(part) for part in parts if part is not None]
            if len(moves) != len(parts) or any(move is None for move in moves):
                return False
            moved |= {
                n.id for move in moves if move is not None for n in walk(move.receiver) if isinstance(n, ast.Name)
            }
        asks = {n.id for n in walk(choice.test) if isinstance(n, ast.Name)}
        return not asks & moved and bool(asks)

    def _moved(self, node: ast.expr) -> Move | None:
        """The move that an expression is, perhaps in a Variable."""
        if isinstance(node, ast.Call) and self.resolver.qualified(node.func) == _VARIABLE and node.args:
            node = node.args[0]
        return self.of.get(node) if isinstance(node, ast.Call) else None

    def _about_devices(self, test: ast.expr) -> bool:
        """Whether a test asks for an accelerator, directly or through variables, or tests a plain flag."""
        for part in walk(test):
            if isinstance(part, ast.expr) and self.conditions.is_availability(part):
                return True
            if isinstance(part, (ast.Name, ast.Attribute)):
                if self.conditions.read(part).constant is not None:
                    return True
        test, _ = asked(test)
        if isinstance(test, ast.Attribute):
            held = self.conditions.read(test) != self.conditions.atom(test)  # a flag that an object was given
            return held or Role.ARGUMENTS in self.resolver.roles(test.value)
        return isinstance(test, ast.Name)


def _defines(declaration: ast.AST | None, method: str) -> bool:
    """Whether a class of the script defines a method itself."""
    return isinstance(declaration, ast.ClassDef) and any(
        isinstance(s, FUNCTIONS) and s.name == method for s in declaration.body
    )


def _names_device(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call of `to` may be given a device, perhaps among arguments that are spread out."""
    spread = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
    return spread or resolver.argument(call, 0, "device") is not None
