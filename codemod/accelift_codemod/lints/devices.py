"""Devices that the accelerator has not chosen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.accelerate import is_state
from accelift_codemod.facts.gpu_numbers import is_integer
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role, Value
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Finding, Severity


class OwnDevice(Lint):
    """A prepared loader puts its batches on the accelerator's device, and `prepare` the model. Moving them to a device
    that the script has chosen itself does nothing where that is the same, and breaks the job where it is not: with
    `Accelerator(cpu=True)`, on other accelerators, or with a launch config for CPUs.
    """

    code = "DEV-LEFT"
    severity = Severity.WARNING
    title = "prepared objects are moved to another device"
    wrong = """\
for inputs, targets in loader:  # which is prepared
    inputs = inputs.cuda()
"""
    right = """\
for inputs, targets in loader:
    ...
"""

    def check(self, world: World) -> Iterator[Finding]:
        if not world.places:
            return
        for name in ("cuda", "to"):
            for call in world.index.methods.get(name, []):
                assert isinstance(call.func, ast.Attribute)
                if not self._is_prepared(world, call.func.value) or not self._elsewhere(world, call):
                    continue
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` moves what is on the accelerator's device already, to a device that the "
                    "script has chosen",
                    "leave the move out, or move to accelerator.device",
                )

    def _is_prepared(self, world: World, node: ast.expr) -> bool:
        values = world.resolver.values(node)
        if world.prepared(node, Role.MODEL):
            return True
        return (
            bool(values)
            and all(v.role is Role.BATCH for v in values)
            and all(
                loader.role is Role.LOADER and world.resolver.is_prepared(loader)
                for v in values
                for inner in v.inner
                for loader in inner
            )
        )

    def _elsewhere(self, world: World, call: ast.Call) -> bool:
        """Whether a move certainly is to a device that the script names or makes itself."""
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr == "cuda":
            return True
        target = world.resolver.argument(call, 0, "device")
        values = world.resolver.values(target)
        names = [v.keys[0] for v in values if v.role is Role.CONSTANT and isinstance(v.keys[0], str)]
        devices = [v for v in values if v.role is Role.DEVICE]
        if not values or len(names) + len(devices) != len(values):
            return False
        if devices:
            return all(_makes_cuda(v) for v in devices)
        return any(str(n).startswith(("cuda", "mps", "xpu")) for n in names)


def _makes_cuda(value: Value) -> bool:
    return any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.startswith(("cuda", "mps", "xpu"))
        for n in walk(value.origin)
    )


class DeviceIndex(Lint):
    """A device with a number is the same one for every process: all of them work on one GPU. So they do where the
    script leaves itself only one by `CUDA_VISIBLE_DEVICES`.
    """

    code = "DEV-INDEX"
    severity = Severity.WARNING
    title = "all processes use one GPU"
    wrong = """\
mask = mask.to("cuda:0")
state = torch.load("state.pt", map_location="cuda:0")
"""
    right = """\
mask = mask.to(accelerator.device)
state = torch.load("state.pt", map_location="cpu")
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            if not self._numbered(world, call) or not world.facts.runs(call) or world.ranks.perhaps_alone(call):
                continue
            loads = any(k.arg == "map_location" for k in call.keywords)
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` is the same GPU for every process",
                'use accelerator.device, or map_location="cpu"' if loads else "use accelerator.device",
            )
        yield from self._visible(world)

    def _visible(self, world: World) -> Iterator[Finding]:
        """`os.environ["CUDA_VISIBLE_DEVICES"] = "0"`."""
        for node in (n for n in walk(world.index.tree) if isinstance(n, ast.Assign)):
            target, value = node.targets[0], node.value
            if (
                isinstance(target, ast.Subscript)
                and isinstance(target.slice, ast.Constant)
                and target.slice.value == "CUDA_VISIBLE_DEVICES"
                and world.resolver.qualified(target.value) == "os.environ"
                and isinstance(value, ast.Constant)
                and str(value.value).strip().isdigit()
                and world.facts.runs(node)
                and not any(
                    isinstance(p, ast.If) and "__name__" not in ast.unparse(p.test) for p in world.index.ancestors(node)
                )
            ):
                yield Finding(
                    self.code,
                    self.severity,
                    node.lineno,
                    f"`{world.text(node)}` leaves one GPU for all processes",
                    "leave it to whoever launches the script",
                )

    def _numbered(self, world: World, call: ast.Call) -> bool:
        qualified = world.qualified(call)
        method = call.func.attr if isinstance(call.func, ast.Attribute) and not qualified else ""
        given = {k.arg: k.value for k in call.keywords}
        first = call.args[0] if call.args else None
        if method == "get" or (qualified.startswith("torch.cuda.") and qualified != "torch.cuda.set_device"):
            return False
        named = [given.get("device"), given.get("map_location")]
        if qualified == "torch.device" or method == "to":
            named.append(first)
        if any(self._has_number(world, node) for node in named if node is not None):
            return True
        alone = len(call.args) == 1 and not call.keywords and (method == "cuda" or bool(world.prepared_arguments))
        if qualified == "torch.device" and len(call.args) == 2:
            return is_integer(call.args[1]) and self._constants(world, call.args[0]) == {"cuda"}
        if qualified == "torch.cuda.set_device" or (method in ("cuda", "to") and alone):
            return is_integer(first)
        return method == "to" and is_integer(given.get("device"))

    def _has_number(self, world: World, node: ast.expr) -> bool:
        """Whether an expression certainly is a device by a name, on GPUs one with a number: `"cuda:0"`."""
        names = self._constants(world, node)
        return any(name.startswith("cuda:") for name in names) and all(
            name.startswith("cuda:") or name in ("cpu", "mps") for name in names
        )

    def _constants(self, world: World, node: ast.expr) -> set[str]:
        """The texts that an expression may be; none if it may be anything else."""
        if isinstance(node, ast.IfExp):
            body, other = self._constants(world, node.body), self._constants(world, node.orelse)
            return body | other if body and other else set()
        values = world.resolver.values(node)
        if any(v.role is not Role.CONSTANT or not isinstance(v.keys[0], str) for v in values):
            return set()
        return {str(v.keys[0]) for v in values}


class DefaultDevice(Lint):
    """Tensors made after `torch.set_default_device("cuda")` are on a device that the accelerator has not chosen: it may
    be another GPU than the process's own, or a GPU where the accelerator runs on the CPU.
    """

    code = "DEV-DEFAULT"
    severity = Severity.WARNING
    title = "the default device is not the accelerator's"
    wrong = """\
torch.set_default_device("cuda")
"""
    right = """\
torch.set_default_device(accelerator.device)
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            first = call.args[0] if call.args else None
            qualified = world.qualified(call)
            named = isinstance(first, ast.Constant) and str(first.value).startswith(("cuda", "torch.cuda"))
            if first is not None and not named:
                named = (world.resolver.qualified(first) or "").startswith("torch.cuda.")
            if qualified in ("torch.set_default_device", "torch.set_default_tensor_type") and named:
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` makes tensors on a device that the accelerator has not chosen",
                    "set accelerator.device, or leave it out",
                )


class TooLate(Lint):
    """Accelerate's state is made once, by what comes first: a `PartialState()` has chosen the device before
    `Accelerator(cpu=True)` is asked for the CPU, and stays on the GPU; a second `Accelerator` that asks for another
    precision than the first one raises an error. (The bundled runtime's accelerators each have their own precision.)
    """

    code = "DEV-IMPORT-ORDER"
    severity = Severity.ERROR
    title = "the accelerator's arguments come too late"
    library = "accelerate"
    wrong = """\
state = PartialState()
accelerator = Accelerator(cpu=True)
"""
    right = """\
accelerator = Accelerator(cpu=True)
state = PartialState()
"""

    def check(self, world: World) -> Iterator[Finding]:
        for made in world.accelerators:
            cpu = world.resolver.argument(made, None, "cpu")
            first = self._before(world, made)
            if first is None:
                continue
            shown, before = world.text(made), f"`{world.text(first)}` (line {first.lineno})"
            if first not in world.accelerators:
                if cpu is not None and not (isinstance(cpu, ast.Constant) and not cpu.value):
                    message = f"`{shown}` comes after {before}, which has chosen the device: `cpu` changes nothing"
                    yield Finding(self.code, self.severity, made.lineno, message, "make the Accelerator first")
            elif self._differ(world, first, made):
                message = f"`{shown}` asks for another precision than {before}, which has made the state: an error"
                yield Finding(self.code, self.severity, made.lineno, message, "use one Accelerator")

    def _before(self, world: World, made: ast.Call) -> ast.Call | None:
        """The call that certainly makes the state before an accelerator is made, in the same function."""
        if world.mentions("_reset_state"):
            return None
        for call in world.calls:
            if any(k.arg in (None, "cpu") for k in call.keywords) or not any(
                is_state(v) and v.origin is call for v in world.resolver.values(call)
            ):
                continue
            if world.certainly_before(call, made):
                return call
        return None

    def _differ(self, world: World, first: ast.Call, second: ast.Call) -> bool:
        known, asked = (world.resolver.argument(c, None, "mixed_precision") for c in (first, second))
        if not (isinstance(asked, ast.Constant) and isinstance(known, ast.Constant)):
            return False
        return None not in (asked.value, known.value) and asked.value != known.value
