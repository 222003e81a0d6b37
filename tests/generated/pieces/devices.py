"""How scripts choose a device, and how they move things there."""

from __future__ import annotations

from dataclasses import dataclass

from tests.generated.chance import Chance, Stage, block

FOUND = "torch.cuda.is_available()"


@dataclass(frozen=True)
class Device:
    """A way to choose a device.

    Attributes:
        options: statements that add command line options to `parser`.
        code: the statements that choose; they bind `$device` or `$cuda`.
        flag: an expression that is true if the GPU is to be used, where the script goes by flags.
        place: the expression of the device, where the script goes by devices.
    """

    code: str
    options: str = ""
    flag: str = ""
    place: str = ""


_KINDS = {
    "ternary": Device(f'$device = torch.device("cuda" if {FOUND} else "cpu")', place="$device"),
    "ternary0": Device(f'$device = torch.device("cuda:0") if {FOUND} else torch.device("cpu")', place="$device"),
    "string": Device(f'$device = "cuda" if {FOUND} else "cpu"', place="$device"),
    "branches": Device(
        f'if {FOUND}:\n    $device = torch.device("cuda")\nelse:\n    $device = torch.device("cpu")', place="$device"
    ),
    "overridden": Device(f'$device = "cpu"\nif {FOUND}:\n    $device = "cuda"', place="$device"),
    "flag": Device(f"$cuda = {FOUND}", flag="$cuda"),
    "flag-device": Device(
        f'$cuda = {FOUND}\n$device = torch.device("cuda" if $cuda else "cpu")', place="$device", flag="$cuda"
    ),
    "asked": Device("", flag=FOUND),
    "no-cuda": Device(
        f"$cuda = not $args.no_cuda and {FOUND}",
        options='parser.add_argument("--no-cuda", action="store_true", default=False)',
        flag="$cuda",
    ),
    "no-cuda-device": Device(
        f'$device = torch.device("cpu" if $args.no_cuda or not {FOUND} else "cuda")',
        options='parser.add_argument("--no-cuda", action="store_true")',
        place="$device",
    ),
    "args.cuda": Device(
        f"$args.cuda = $args.cuda and {FOUND}",
        options='parser.add_argument("--cuda", action="store_true")',
        flag="$args.cuda",
    ),
    "disabling": Device(
        f"$cuda = $args.cuda and {FOUND}",
        options='parser.add_argument("--cuda", action="store_false")',
        flag="$cuda",
    ),
    "args.device": Device(
        f'$args.device = torch.device("cuda" if {FOUND} else "cpu")', options="# no options", place="$args.device"
    ),
    "option": Device(
        "$device = torch.device($args.device)",
        options='parser.add_argument("--device", default="cpu")',
        place="$device",
    ),
    "option-found": Device(
        "",
        options=f'parser.add_argument("--device", default="cuda" if {FOUND} else "cpu")',
        place="$args.device",
    ),
    "cpu": Device('$device = torch.device("cpu")', place="$device"),
    "none": Device(""),
}


def device(chance: Chance) -> Device:
    """A way to choose a device."""
    return chance.named("device", _KINDS, {"ternary": 4, "flag": 2})


def stage(chosen: Device) -> Stage:
    """The statements that choose."""
    binds = tuple(name for name in ("cuda", "device") if f"${name} =" in chosen.code)
    return Stage("choose_device", chosen.code, binds=binds)


def moved(chance: Chance, chosen: Device, *names: str) -> str:
    """Statements that move tensors, or modules, which `names` hold."""
    if not names or not (chosen.flag or chosen.place):
        return ""
    if chosen.flag and not (chosen.place and chance.maybe()):
        lines = [f"{name} = {name}.cuda()" for name in names]
        if chance.maybe():
            lines = [f"{', '.join(names)} = {', '.join(f'{name}.cuda()' for name in names)}"]
        return f"if {chosen.flag}:\n" + block(*lines, depth=1)
    rest = chance.of("", "", ", non_blocking=True")
    lines = [f"{name} = {name}.to({chosen.place}{rest})" for name in names]
    if chance.maybe():
        lines = [f"{', '.join(names)} = {', '.join(f'{name}.to({chosen.place}{rest})' for name in names)}"]
    return block(*lines)


def placed(chance: Chance, chosen: Device, name: str, made: str) -> str:
    """Statements that make a module, call it `name`, and move it."""
    if chosen.place and chance.maybe(0.6):
        return f"{name} = {made}.to({chosen.place})"
    if chosen.place:
        return f"{name} = {made}\n{name}.to({chosen.place})"
    if chosen.flag:
        return f"{name} = {made}\nif {chosen.flag}:\n    {chance.of('', f'{name} = ')}{name}.cuda()"
    return f"{name} = {made}"


def there(chosen: Device, expression: str) -> str:
    """An expression, moved in place where the script goes by devices."""
    return f"{expression}.to({chosen.place})" if chosen.place else expression
