"""Mixed precision by the script's own autocast and GradScaler, and whether the accelerator can take it over.

It can where all that is done with them is known, and where the networks only compute under autocast: prepared with
`mixed_precision`, they compute under it wherever they are called.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Function, Role, library, position
from accelift_codemod.facts.conditions import FALSE, TRUE, Condition, both, either, negate
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import key

_DTYPES = {"torch.float16": "fp16", "torch.half": "fp16", "torch.bfloat16": "bf16"}
_DEFAULTS = {"cuda": "fp16", "cpu": "bf16"}  # what autocast computes in where it is told no dtype
_STEPS = frozenset({"step", "update", "unscale_"})  # statements of their own


class Kept(Exception):
    """The script keeps its autocast and GradScaler: where, and why."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(why)
        self.node = node


@dataclass(frozen=True)
class Region:
    """A call of autocast: what it computes in, for which devices ("cuda", "cpu", or "" for any), and when."""

    call: ast.Call
    dtype: str
    device: str
    enabled: Condition


def _place(node: ast.expr) -> ast.expr:
    """The device whose kind an expression is: `device` in `device.type`."""
    return node.value if isinstance(node, ast.Attribute) and node.attr == "type" else node


class OwnPrecision:
    """What a script does with autocast and a GradScaler. Everything is in the order of the source."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.facts = draft.facts
        self.resolver = draft.facts.resolver
        self.index = draft.facts.index
        self.autocasts = [c for c in draft.calls if (self.resolver.qualified(c.func) or "") in library.AUTOCAST]
        runs = {call for call, _ in self.facts.objects_of(Role.SCALER)} & set(draft.calls)
        self.scalers = sorted(runs, key=position)

    @property
    def first(self) -> ast.Call | None:
        """The first sign of it in the script."""
        return min((*self.autocasts, *self.scalers), key=position, default=None)

    @cached_property
    def kept(self) -> Kept | None:
        """Why it stays the script's own; None if the accelerator can take it over."""
        try:
            self._check()
        except Kept as reason:
            return reason
        return None

    @property
    def is_managed(self) -> bool:
        """Whether the accelerator takes it over, as the user wants it to."""
        return self.draft.options.precision == "managed" and self.first is not None and self.kept is None

    # ---- what the accelerator is told

    @property
    def dtype(self) -> str:
        """The name of the precision."""
        return self.regions[0].dtype

    def condition(self, cpu: Condition) -> Condition:
        """When the script computes in that precision.

        Args:
            cpu: when it is on the CPU though there is an accelerator.
        """
        region, there = self.regions[0], self._there
        gpu = both(there, negate(cpu))
        return both(region.enabled, {"cuda": gpu, "cpu": either(negate(there), cpu), "": TRUE}[region.device])

    @cached_property
    def _there(self) -> Condition:
        """Whether there is a GPU, where the script asks for one.

        Raises:
            Kept: it asks for something else.
        """
        asked = [c for c in self.draft.calls if self.facts.devices.conditions.is_availability(c)]
        cuda = [c for c in asked if self.resolver.qualified(c.func) == "torch.cuda.is_available"]
        if asked and not cuda:
            raise Kept(asked[0], "autocast is for CUDA, and the script asks for other devices")
        return self.facts.devices.conditions.atom(cuda[0]) if cuda else TRUE

    # ---- autocast

    @cached_property
    def regions(self) -> list[Region]:
        """The calls of autocast that switch it on.

        Raises:
            Kept: one cannot be read.
        """
        found = [region for call in self.autocasts if (region := self._region(call)).enabled != FALSE]
        for region in found[1:]:
            if (region.dtype, region.device, region.enabled) != (found[0].dtype, found[0].device, found[0].enabled):
                first = found[0].call.lineno
                raise Kept(region.call, f"autocast is not the same here as in line {first}")
        return found

    def _region(self, call: ast.Call) -> Region:
        names = library.AUTOCAST[self.resolver.qualified(call.func) or ""]
        given = self._arguments(call, names)
        where = self._device(call, given.get("device_type")) if "device_type" in names else self._module(call)
        on, where = self._enabled(given.get("enabled"), where)
        dtype = given.get("dtype")
        named = _DTYPES.get(self.resolver.qualified(dtype) or "") if dtype is not None else _DEFAULTS.get(where)
        if on != FALSE and named is None:
            raise Kept(call, "it cannot be told which precision autocast computes in")
        return Region(call, named or "", where, on)

    def _enabled(self, given: ast.expr | None, device: str) -> tuple[Condition, str]:
        """When autocast or a scaler for a kind of device is switched on, and for which kind that is, then: what is only
        on on a GPU is for CUDA."""
        on = self.facts.devices.conditions.read(given) if given is not None else TRUE
        parts = on.parts if on.operator == "and" else (on,)
        asks = [p for p in parts if p.node is not None and self._is_for_cuda(p.node)]
        rest = both(*(p for p in parts if p not in asks))
        if asks and device == "cpu":
            return FALSE, device
        for atom in rest.atoms():
            if any(isinstance(n, ast.expr) and self.facts.devices.is_device(n) for n in walk(atom)):
                raise Kept(atom, "it hangs on the device whether autocast is switched on")
        return rest, "cuda" if asks else device

    def _is_for_cuda(self, node: ast.expr) -> bool:
        """Whether a test asks whether the device is a GPU: `device.type == "cuda"`."""
        match node:
            case ast.Compare(left=device, ops=[ast.Eq()], comparators=[ast.Constant(value="cuda")]):
                pass
            case ast.Compare(left=device, ops=[ast.NotEq()], comparators=[ast.Constant(value="cpu")]):
                pass
            case _:
                return False
        return self.facts.devices.is_device(_place(device))

    def _arguments(self, call: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr]:
        given = dict(zip(names, call.args, strict=False))
        given |= {k.arg: k.value for k in call.keywords if k.arg is not None}
        hidden = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
        if hidden or len(call.args) > len(names):
            raise Kept(call, "its arguments cannot be told")
        return given

    def _module(self, call: ast.Call) -> str:
        """The kind of device that the name of a function says: `torch.cuda.amp.autocast`."""
        return "cpu" if (self.resolver.qualified(call.func) or "").startswith("torch.cpu.") else "cuda"

    def _device(self, call: ast.Call, given: ast.expr | None) -> str:
        if given is None:
            return "cuda"  # of torch.amp.GradScaler
        if isinstance(given, ast.Constant) and given.value in _DEFAULTS:
            return str(given.value)
        if self.facts.devices.is_device(_place(given)):
            return ""
        raise Kept(call, "it cannot be told for which kind of device it is")

    # ---- whether all is known

    def _check(self) -> None:
        if not self.regions:
            raise Kept(self.scalers[0] if self.scalers else self.autocasts[0], "nothing is under autocast")
        for region in self.regions:
            item = self.index.parents[region.call]
            if not isinstance(item, ast.withitem) or item.optional_vars is not None:
                raise Kept(region.call, "autocast is not entered by a `with` here")
            if self.draft.facts.unfollowed(region.call) is not None:
                raise Kept(region.call, "autocast stands in a method that the accelerator does not reach")
        self._there  # noqa: B018  (raises)
        self._check_scaler()
        for call in self.draft.calls:
            if self.draft.blueprint.prepared_models(call.func) and not self._is_under(call, ()):
                name = self.facts.segment(call.func)
                raise Kept(call, f"`{name}` is called outside of autocast here, where it computes in full precision")

    def _is_under(self, node: ast.AST, through: tuple[Function, ...]) -> bool:
        """Whether a node only runs under autocast: that of a `with` around it, or around all calls of its function."""
        calls = {region.call for region in self.regions}
        function, inner = self.index.function(node), node
        for parent in self.index.ancestors(node):
            if parent is function:
                break
            if isinstance(parent, ast.With) and inner in parent.body:
                contexts = [item.context_expr for item in parent.items]
                if any(c in calls for c in contexts):
                    return True
                if any(c in self.autocasts for c in contexts):
                    return False  # it is switched off there
            inner = parent
        if function is None or function in through or self.facts.references(function):
            return False
        sites = self.resolver.sites(function)
        return bool(sites) and all(self._is_under(site, (*through, function)) for site in sites)

    # ---- the scaler

    def _check_scaler(self) -> None:
        region = self.regions[0]
        if region.dtype == "fp16" and not self.scalers:
            raise Kept(region.call, "no GradScaler scales the losses, and the accelerator would")
        if region.dtype == "bf16" and self.scalers:
            raise Kept(self.scalers[0], "losses are scaled beside bfloat16, which the accelerator does not do")
        if len(self.scalers) > 1:
            raise Kept(self.scalers[1], "there is more than one GradScaler")
        for call in self.scalers:
            self._check_made(call, region)
            if all(name != "step" for name, _ in self.uses):
                raise Kept(self.scalers[0], "the GradScaler makes no step")
        for function, name in self.parameters:
            self._check_parameter(function, name)

    def _check_made(self, call: ast.Call, region: Region) -> None:
        statement = self.index.parents[call]
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            raise Kept(call, "the GradScaler is not simply kept in a variable")
        old = (self.resolver.qualified(call.func) or "").startswith("torch.cuda.")
        given = self._arguments(call, () if old else ("device",))
        if given.keys() - {"device", "enabled"}:
            raise Kept(call, "the GradScaler has settings of its own")
        where = "cuda" if old else self._device(call, given.get("device"))
        on, where = self._enabled(given.get("enabled"), where)
        if on != region.enabled or where != region.device:
            raise Kept(call, f"the GradScaler is not switched on where autocast is, in line {region.call.lineno}")

    @cached_property
    def uses(self) -> list[tuple[str, ast.Call]]:
        """What is called of the scaler: "scale", "step", "update" or "unscale_", and the call.

        Raises:
            Kept: something else is done with it.
        """
        found = []
        for read in self._reads():
            if self._call(read) is None:
                found.append(self._use(read, self.index.parents[read]))
        return sorted(found, key=lambda use: position(use[1]))

    def _use(self, read: ast.expr, attribute: ast.AST) -> tuple[str, ast.Call]:
        name = attribute.attr if isinstance(attribute, ast.Attribute) else ""
        call = self.index.parents[attribute]
        if not isinstance(call, ast.Call) or call.func is not attribute or call.keywords:
            raise Kept(read, f"`{self.facts.short(attribute)}` is more than scaling losses and steps")
        alone = isinstance(self.index.parents[call], ast.Expr)
        if name == "scale" and len(call.args) == 1 and self._goes_back(call):
            return name, call
        if name in _STEPS and alone and len(call.args) == (name != "update") and self._is_known(call):
            return name, call
        raise Kept(call, f"`{self.facts.short(call)}` is more than scaling losses and steps")

    def _goes_back(self, call: ast.Call) -> bool:
        """Whether the backward pass is all that is done with a scaled loss."""
        attribute = self.index.parents[call]
        return any(backward.func is attribute for backward in self.facts.loops.backwards)

    def _is_known(self, call: ast.Call) -> bool:
        """Whether a call is given no optimizer, or one that is prepared, by its name."""
        if not call.args:
            return True
        values = self.resolver.values(call.args[0])
        plain = isinstance(call.args[0], (ast.Name, ast.Attribute, ast.Subscript))
        return plain and bool(values) and all(key(v) in self.draft.blueprint.items for v in values)

    def _reads(self) -> list[ast.expr]:
        found: dict[ast.AST, ast.expr] = {}
        for read in self.facts.reads():
            if self.facts.runs(read) and Role.SCALER in self.resolver.roles(read):
                if not self.resolver.only(read, Role.SCALER):
                    raise Kept(read, f"`{self.facts.segment(read)}` may be something else than a GradScaler")
                found[read] = read
        return sorted(found.values(), key=position)

    # ---- functions that it is handed to

    @cached_property
    def handed(self) -> list[ast.expr]:
        """The arguments that hand it on."""
        return [read for read in self._reads() if self._call(read) is not None]

    @cached_property
    def parameters(self) -> list[tuple[Function, str]]:
        """The parameters that take it."""
        found: dict[tuple[Function, str], None] = {}
        for read in self.handed:
            call = self._call(read)
            function = self.resolver.callee(call) if call is not None else None
            if call is None or not isinstance(function, FUNCTIONS):
                raise Kept(read, f"it cannot be told what becomes of `{self.facts.segment(read)}` here")
            bound = self.resolver.bind(call, function) or {}
            found.update({(function, name): None for name, given in bound.items() if given is read})
        return list(found)

    def _call(self, read: ast.expr) -> ast.Call | None:
        """The call that a read is an argument of."""
        parent = self.index.parents[read]
        call = self.index.parents[parent] if isinstance(parent, ast.keyword) else parent
        return call if isinstance(call, ast.Call) and call.func is not read else None

    def _check_parameter(self, function: Function, name: str) -> None:
        """Raises Kept unless every call of a function gives it the scaler, and its parameter stays that."""
        sites = self.resolver.sites(function)
        bound = [(self.resolver.bind(site, function) or {}).get(name) for site in sites]
        given = set(self.handed)
        positional = [p for p in (*function.args.args, *function.args.kwonlyargs) if p.arg == name]
        method = isinstance(self.index.parents.get(function), ast.ClassDef)
        again = len(self.index.scopes[function].bindings.get(name, ())) != 1
        if method or again or not positional or self.facts.references(function) or any(b not in given for b in bound):
            raise Kept(
                function, f"{function.name}() may be called without the GradScaler, or in ways that are not seen"
            )

    def parameter(self, function: Function, name: str) -> ast.arg:
        """The node of a parameter."""
        bindings = self.index.scopes[function].bindings[name]
        node = next(b.node for b in bindings if b.how is How.PARAMETER)
        assert isinstance(node, ast.arg)
        return node
