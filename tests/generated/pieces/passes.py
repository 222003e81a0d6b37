"""Loops that train in some passes and evaluate in others: phases, and one function for both."""

from __future__ import annotations

from tests.generated.chance import Chance, Stage, block, filled
from tests.generated.pieces.data import Data
from tests.generated.pieces.devices import Device, moved
from tests.generated.pieces.models import Model, Schedule

# How the loaders of the phases are kept: what is made, and the expression of the loader of `phase`.
_HOLDERS = {
    "dict": ('$loaders = {"train": $train_loader, "val": $test_loader}', "$loaders[phase]"),
    "dict-call": ("$loaders = dict(train=$train_loader, val=$test_loader)", "$loaders[phase]"),
    "entries": ('$loaders = {}\n$loaders["train"] = $train_loader\n$loaders["val"] = $test_loader', "$loaders[phase]"),
    "either": ("", '($train_loader if phase == "train" else $test_loader)'),
    "chosen": ("", "chosen"),
}
_MODES = (
    'if phase == "train":\n    $model.train()\nelse:\n    $model.eval()',
    '$model.train(phase == "train")',
    '$model.train() if phase == "train" else $model.eval()',
)
_SUMS = {
    "samples": ("running += $loss.item() * $x.size(0)", "running / len({loader}.dataset)"),
    "batches": ("running += $loss.item()", "running / len({loader})"),
    "counted": ("running += $loss.item() * len($y)\nseen += len($y)", "running / seen"),
}
_STEPS = (
    '$optimizer.zero_grad()\nwith torch.set_grad_enabled(phase == "train"):\n    $out = {forward}\n'
    '    $loss = {loss}\n    if phase == "train":\n        $loss.backward()\n        $optimizer.step()',
    'with torch.set_grad_enabled(phase == "train"):\n    $out = {forward}\n    $loss = {loss}\n'
    'if phase == "train":\n    $optimizer.zero_grad()\n    $loss.backward()\n    $optimizer.step()',
    '$out = {forward}\n$loss = {loss}\nif phase == "train":\n    $optimizer.zero_grad()\n    $loss.backward()\n'
    "    $optimizer.step()",
)
_BEST = {
    "none": ("", ""),
    "best": (
        "$best = 1e9",
        'if phase == "val" and result < $best:\n    $best = result\n    torch.save($model.state_dict(), "best.pt")',
    ),
    "deep": (
        "$best, $kept = 1e9, copy.deepcopy($model.state_dict())",
        'if phase == "val":\n    if result < $best:\n        $best = result\n'
        "        $kept = copy.deepcopy($model.state_dict())",
    ),
    "history": (
        '$history = {"train": [], "val": []}',
        "$history[phase].append(result)\nif $epoch == 1:\n    print($history[phase])",
    ),
}


def phases(
    chance: Chance, device: Device, data: Data, model: Model, schedule: Schedule, labels: str, loss: str
) -> tuple[str, str, Stage]:
    """What is made before, what is bound before the epochs, and the phases of an epoch."""
    made, loader = chance.named("loaders", _HOLDERS, {"dict": 3})
    inside, average = chance.named("sums", _SUMS)
    before, best = chance.named("best", _BEST)
    count = labels == "classes" and chance.maybe(0.6)
    opened = '$x, $y = batch["x"], batch["y"]' if data.batch == "dict" else ""
    header = f"for {'batch' if data.batch == 'dict' else '$x, $y'} in {loader}:"
    step = chance.of(*_STEPS).format(forward=model.forward, loss=_total(loss, model))
    correct = chance.of("torch.sum($out.argmax(1) == $y.data).item()", "($out.argmax(1) == $y).sum().item()")
    body = block(
        opened,
        moved(chance, device, "$x", "$y"),
        step,
        inside,
        f"corrects += {correct}" if count else "",
        depth=1,
    )
    scheduled = 'if phase == "train":\n' + block(schedule.epoch, depth=1) if schedule.epoch else ""
    shown = "print(phase, result, corrects)" if count else 'print("{} {:.5f}".format(phase, result))'
    inner = block(
        chance.of(*_MODES),
        'chosen = $train_loader if phase == "train" else $test_loader' if loader == "chosen" else "",
        "running, corrects, seen = 0.0, 0, 0",
        header,
        body,
        scheduled,
        f"result = {average.format(loader=loader)}",
        shown,
        best,
        depth=1,
    )
    return made, before, Stage("run_phases", block('for phase in ["train", "val"]:', inner))


def _total(loss: str, model: Model) -> str:
    return " + ".join(filter(None, [loss, model.penalty]))


_FLAGS = {
    "flag": ("train=True", "train", "", ", train=False"),
    "positional": ("train", "train", ", True", ", False"),
    "optimizer": ("optimizer=None", "optimizer is not None", ", $optimizer", ""),
    "mode": ('mode="train"', 'mode == "train"', "", ', mode="test"'),
    "told": ("optimizer=None", "is_train", ", $optimizer", ", None"),
}


def run_epoch(
    chance: Chance, device: Device, data: Data, model: Model, schedule: Schedule, labels: str, loss: str
) -> tuple[str, Stage]:
    """A function that trains or evaluates, as it is told, and the calls of an epoch; they bind `$metric`."""
    parameter, trains, on, off = chance.named("flag", _FLAGS)
    tells = "optimizer" not in parameter
    own = Device("", flag="cuda") if device.flag and not device.place else Device("", place="device")
    if not (device.flag or device.place):
        own = Device("")
    names = ["model", "loader", *(["criterion"] if "$criterion" in loss else []), *(["optimizer"] if tells else [])]
    given = [
        "$model",
        "{loader}",
        *(["$criterion"] if "$criterion" in loss else []),
        *(["$optimizer"] if tells else []),
    ]
    if own.flag or own.place:
        names.append(own.flag or own.place)
        given.append(device.flag if own.flag else device.place)
    inside, average = chance.named("sums", _SUMS)
    count = labels == "classes" and chance.maybe(0.6)
    opened = '$x, $y = batch["x"], batch["y"]' if data.batch == "dict" else ""
    batch = "batch" if data.batch == "dict" else "$x, $y"
    backward = chance.of(
        "$optimizer.zero_grad()\n$loss.backward()\n$optimizer.step()",
        "$loss.backward()\n$optimizer.step()\n$optimizer.zero_grad()",
    )
    body = block(
        opened,
        moved(chance, own, "$x", "$y"),
        f"$out = {model.forward}",
        f"$loss = {_total(loss, model)}",
        f"if {trains}:",
        block(backward, depth=1),
        inside,
        "corrects += ($out.argmax(1) == $y).sum().item()" if count else "",
        depth=1,
    )
    header = chance.of(
        f"for {batch} in loader:", f"for step, {'batch' if batch == 'batch' else '($x, $y)'} in enumerate(loader):"
    )
    loop = block(header, body)
    if chance.maybe(0.7):
        loop = block(f"with torch.set_grad_enabled({trains}):", block(loop, depth=1))
    mode = chance.of(f"$model.train({trains})", f"if {trains}:\n    $model.train()\nelse:\n    $model.eval()")
    end = f"result = {average.format(loader='loader')}"
    told = "is_train = optimizer is not None" if trains == "is_train" else ""
    returned = "return result, corrects" if count else "return result"
    code = block(told, mode, "running, corrects, seen = 0.0, 0, 0", loop, end, returned, depth=1)
    definition = block(f"def run_epoch({', '.join([*names, parameter])}):", filled(code, {}))
    result = ("trained, hits", "$metric, hits") if count else ("trained", "$metric")
    calls = [
        f"{left} = run_epoch({', '.join(given).format(loader=loader)}{flag})"
        for left, loader, flag in zip(result, ("$train_loader", "$test_loader"), (on, off), strict=True)
    ]
    shown = 'print("epoch", $epoch, trained)' if chance.maybe() else ""
    return definition, Stage("run_both", block(*calls, shown), binds=("metric",))
