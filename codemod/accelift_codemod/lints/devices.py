"""Devices that the accelerator has not chosen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts.accelerate import is_state
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
            return all(self._makes_cuda(world, v) for v in devices)
        return any(str(n).startswith(("cuda", "mps", "xpu")) for n in names)

    def _makes_cuda(self, world: World, value: Value) -> bool:
        return any(
            isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.startswith(("cuda", "mps", "xpu"))
            for n in ast.walk(value.origin)
        )


class DeviceIndex(Lint):
    """A device with a number is the same one for every process: all of them work on one GPU."""

    code = "DEV-INDEX"
    severity = Severity.WARNING
    title = "all processes use one GPU"
    wrong = """\
mask = mask.to("cuda:0")
"""
    right = """\
mask = mask.to(accelerator.device)
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            if not self._numbered(world, call) or not world.facts.runs(call) or world.ranks.perhaps_alone(call):
                continue
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` is the same GPU for every process",
                "use accelerator.device",
            )

    def _numbered(self, world: World, call: ast.Call) -> bool:
        qualified = world.qualified(call)
        method = call.func.attr if isinstance(call.func, ast.Attribute) and not qualified else ""
        first = call.args[0] if call.args else None
        if not isinstance(first, ast.Constant):
            return False
        if qualified == "torch.cuda.set_device" or (method == "cuda" and len(call.args) == 1):
            return isinstance(first.value, int) and not isinstance(first.value, bool)
        if qualified == "torch.device" or method == "to":
            return isinstance(first.value, str) and first.value.startswith("cuda:")
        return False


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
