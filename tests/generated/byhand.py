"""Training scripts that make their batches without a loader, from a seed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tests.generated.chance import Chance, Stage, block
from tests.generated.files import ENTRY
from tests.generated.pieces import devices, models, settings
from tests.generated.pieces.picking import Pick, pick
from tests.generated.pieces.training import LOSSES, Loss
from tests.generated.script import Script, with_imports
from tests.generated.shapes import Arrangement, Parts

_LABELS = {
    "classes": "$data_y = ($data_x[:, 0] > 0).long() + ($data_x[:, 1] > 0.5).long()",
    "numbers": "$data_y = $data_x[:, :2].sum(1, keepdim=True) + 0.1 * torch.randn(len($data_x), 1)",
    "binary": "$data_y = ($data_x[:, 0] > $data_x[:, 1]).float().unsqueeze(1)",
    "ids": "$data_y = torch.where(torch.rand(len($data_x), 5) < 0.3, 0, torch.randint(1, 7, (len($data_x), 5)))",
}
_OUTPUTS = {"classes": 4, "numbers": 1, "binary": 1, "ids": 7}
# Losses that depend on how many rows there are, or bring these together; for any labels but ids.
_RISKY = {
    "over-size": "({loss}) * $x.size(0) / {size}",
    "over-data": "({loss}) / len($data_x)",
    "outputs": "({loss}) + 0.1 * $out.pow(2).mean()",
    "outputs-sum": "({loss}) + 0.01 * $out.pow(2).sum()",
    "centred": "({loss}) + 0.1 * ($out - $out.mean(0)).pow(2).mean()",
    "spread": "({loss}) + 0.1 * $out.std()",
    "product": "({loss}) * $out.pow(2).mean()",
    "neighbours": "({loss}) + 0.1 * ($out[1:] - $out[:-1]).pow(2).mean()",
    "similar": "({loss}) + 0.01 * ($out @ $out.t()).mean()",
    "root": "torch.sqrt({loss} + 1e-6)",
    "target": "({loss}) + 0.1 * F.mse_loss($out, real)",
    "chosen": "({loss}) + 0.1 * $out[$x[:, 0] > 0].pow(2).sum()",
}
# What is done with a batch before the network runs.
_CHANGES = {
    "nothing": "",
    "noise-like": "$x = $x + 0.01 * torch.randn_like($x)",
    "noise": "$x = $x + 0.01 * torch.randn($x.size(0), 6)",
    "noise-shape": "noise = torch.rand($x.shape[0], 1)\n$x = $x * noise",
    "counted": "n = len($x)\nnoise = torch.randn(n, 6)\n$x = $x + 0.01 * noise",
    "sized": "noise = torch.randn({size}, 6)\n$x = $x + 0.01 * noise[: len($x)]",
    "one-noise": "$x = $x + 0.01 * torch.randn(1, 6)",
    "scaled": "$x = ($x - 0.1) / 2.0",
    "centred": "$x = $x - $x.mean(0)",
    "centred-rows": "$x = $x - $x.mean(1, keepdim=True)",
    "greatest": "$x = $x / $x.abs().max()",
    "flipped": "$x = $x.flip(0)",
    "flipped-columns": "$x = $x.flip(1)",
    "mixed": "other = torch.randperm($x.size(0))\n$x = 0.9 * $x + 0.1 * $x[other]",
    "kept": "keep = $x[:, 0] > -0.5\n$x, $y = $x[keep], $y[keep]",
    "every-other": "$x, $y = $x[::2], $y[::2]",
    "first": "$x, $y = $x[:3], $y[:3]",
    "doubled": "$x, $y = torch.cat([$x, -$x]), torch.cat([$y, $y])",
    "repeated": "$x, $y = $x.repeat(2, 1), torch.cat([$y, $y], dim=0)",
    "chance": "if random.random() < 0.5:\n    $x = -$x",
    "decided": "if $x.mean() > 0:\n    $x = -$x",
    "copied": "$x = $x.clone().detach()",
    "float": "$x = $x.float()",
}
# What is measured: before the loop, in it, after it.
_MEASURES = {
    "nothing": ("", "", ""),
    "running": ("running = 0.0", "running += $loss.item()", 'print("train", $epoch, running)'),
    "samples": ("running = 0.0", "running += $loss.item() * len($x)", 'print("train", running / len($data_x))'),
    "list": ("losses = []", "losses.append($loss.item())", 'print("train", sum(losses) / len(losses))'),
    "last": ("", "", 'print("last", $loss.item())'),
    "each": ("", "print($loss.item())", ""),
    "rows": ("seen = 0", "seen += $x.size(0)", 'print("seen", seen)'),
    "kept": ("outs = []", "outs.append($out.detach())", 'print("outputs", torch.cat(outs).mean().item())'),
    "correct": (
        "right = 0",
        "right += ($out.argmax(-1) == $y).sum().item()",
        'print("right", right / len($data_x))',
    ),
    "stops": ("", "if $loss.item() < 0.05:\n    break", ""),
    "slower": (
        "running = 0.0",
        "running += $loss.item()",
        "if running > 1.0:\n    for group in $optimizer.param_groups:\n        group['lr'] *= 0.7",
    ),
}
_BACKWARD = {
    "plain": "$optimizer.zero_grad()\n{forward}\n$loss.backward()\n$optimizer.step()",
    "late": "{forward}\n$optimizer.zero_grad()\n$loss.backward()\n$optimizer.step()",
    "clipped": "{forward}\n$optimizer.zero_grad()\n$loss.backward()\n"
    "torch.nn.utils.clip_grad_norm_($model.parameters(), 0.5)\n$optimizer.step()",
    "twice": "$optimizer.zero_grad()\n{forward}\n$loss.backward(retain_graph=True)\n"
    "(0.1 * $out.pow(2).mean()).backward()\n$optimizer.step()",
    "now-and-then": "{forward}\n(0.1 * $loss).backward()\ndone += 1\nif done % 2 == 0:\n"
    "    $optimizer.step()\n    $optimizer.zero_grad()",
    "closure": "def closure():\n    $optimizer.zero_grad()\n{indented}\n    $loss.backward()\n    return $loss\n\n\n"
    "$optimizer.step(closure)",
    "closure-returned": "def closure():\n    $optimizer.zero_grad()\n{indented}\n    $loss.backward()\n"
    "    return $loss\n\n\n$loss = $optimizer.step(closure)",
}
_HANDED = """
def train_step(model, optimizer, {more}x, y):
    optimizer.zero_grad()
    out = {forward}
    loss = {loss}
    loss.backward()
    optimizer.step()
    return loss.item()
"""
_FINALS = (
    'torch.save($model.state_dict(), "model.pt")',
    'print("done")',
    "$model.eval()\nwith torch.no_grad():\n    $x, $y = $data_x, $data_y\n    print({forward}.mean().item())",
    "with torch.no_grad():\n    for i in range(0, len($data_x), 8):\n        $x = $data_x[i : i + 8]\n"
    "        print({forward}.mean().item())",
)


@dataclass(frozen=True)
class _Body:
    """What one batch is for: the statements of an iteration, and the definitions that it needs."""

    code: str
    definitions: str = ""


def by_hand(seed: int) -> Script:
    """The script of a seed that trains without a loader: always the same one."""
    chance = Chance(seed)
    labels = chance.named("labels", {name: name for name in _OUTPUTS}, {"classes": 5, "numbers": 4})
    device = devices.device(chance)
    config, configure, size = settings.settings(chance, device)
    model = models.model(chance, device, labels, _OUTPUTS[labels])
    optimizer = models.optimizer(chance, model)
    scheduler, schedule = models.schedule(chance, sized=False, every="epoch", metric=False)
    small = "BatchNorm" not in model.definitions  # a batch of one row has no variance
    found = _columns(chance) if labels == "ids" and chance.maybe(0.3) else pick(chance, size, small)
    loss = chance.named("loss", LOSSES[labels])
    if loss is LOSSES["numbers"]["sum"]:  # of so many rows it grows beyond all numbers
        loss = replace(loss, value=f"0.02 * {loss.value}")
    loop, body = _loop(chance, found, model, loss, labels, size)
    if "closure" in body.code:
        optimizer = replace(optimizer, code="$optimizer = torch.optim.LBFGS($model.parameters(), lr=0.1, max_iter=3)")
    elif loss.value == "$criterion($out, $y)" and labels == "numbers" and "SGD" not in optimizer.code:
        # Gradients of absolute differences cancel out, and Adam makes a step of what rounding leaves of them.
        optimizer = replace(optimizer, code="$optimizer = torch.optim.SGD($model.parameters(), lr=$args.lr)")
    final = Stage("conclude", chance.of(*_FINALS).replace("{forward}", model.forward))
    made = Stage("make_loss", loss.made, ("criterion",) if "$criterion =" in loss.made else ())
    setup = [
        configure,
        devices.stage(device),
        _data(chance, labels, device, small),
        model.stage,
        optimizer,
        scheduler,
        made,
    ]
    definitions = [config, found.definitions, model.definitions, body.definitions]
    epoch = [loop, Stage("finish", schedule.epoch)] if schedule.epoch else [loop]
    text = with_imports(Arrangement(chance, Parts(setup, "", epoch, final, definitions=definitions)).text())
    return Script(seed, {ENTRY: text}, tuple(chance.traits), by_hand=True)


def _data(chance: Chance, labels: str, device: devices.Device, small: bool) -> Stage:
    rows = chance.of(22, 24, 27, 32, *((21, 25) if small else ()))
    made = f"torch.randint(1, 7, ({rows}, 5))" if labels == "ids" else f"torch.randn({rows}, 6)"
    moved = chance.of("", "$data_x, $data_y = $data_x.to({0}), $data_y.to({0})", "$data_x = $data_x.to({0})")
    code = block(f"$data_x = {made}", _LABELS[labels], moved.format(device.place) if device.place else "")
    return Stage("make_data", code, ("data_x", "data_y"))


def _columns(chance: Chance) -> Pick:
    """A few columns of all rows after the other."""
    chance.traits.append("pick=columns")
    return Pick(
        chance.of("for t in range(0, 4, 2):", "for t in range(0, $data_x.size(1), 2):"),
        chance.of(
            "$x, $y = $data_x[:, t : t + 2], $data_y[:, t : t + 2]",
            "$x = $data_x[:, t : t + 2].contiguous()\n$y = $data_y[:, t : t + 2].contiguous()",
        ),
    )


def _loop(chance: Chance, found: Pick, model: models.Model, loss: Loss, labels: str, size: str) -> tuple[Stage, _Body]:
    """One pass over the data."""
    body = _iteration(chance, model, loss, labels, size)
    begin, each, end = "", "", ""
    if not body.definitions:
        measures = {k: v for k, v in _MEASURES.items() if k != "correct" or labels == "classes"}
        begin, each, end = chance.named("measure", measures, {"nothing": 3, "running": 2})
    if "closure():" in body.code and "$loss = $opt" not in body.code:
        begin, each, end = "", "", ""
    made, header = found.made, found.header
    if header.startswith("while"):
        made, _, last = made.rpartition("\n")
        each = block(each, last)
    inside = block(_named(found, made, body.code), body.code, each)
    if "$x" not in header:
        for name, data in (("$x", "$data_x"), ("$y", "$data_y")):
            inside = inside if _binds(inside, name) else inside.replace(name, data)
    count = "done = 0" if "done += 1" in inside else ""
    real = f"real = torch.ones({size}, {_OUTPUTS[labels]})" if "real" in inside else ""
    code = block("$model.train()", found.before, count, real, begin, header, block(inside, depth=1), end)
    return Stage("train", code), body


def _named(found: Pick, made: str, code: str) -> str:
    """What makes the batch; data that the code changes get names of their own."""
    named = "$x" in found.header or (_binds(made, "$x") and _binds(made, "$y"))
    return made if named or not (_binds(code, "$x") or _binds(code, "$y")) else "$x, $y = $data_x, $data_y"


def _binds(code: str, name: str) -> bool:
    """Whether a statement binds a variable."""
    return bool(re.search(rf"^ *(\$\w+, )?\{name}\b[^=\n(]*= ", code, re.MULTILINE))


def _iteration(chance: Chance, model: models.Model, loss: Loss, labels: str, size: str) -> _Body:
    value = loss.value
    if labels != "ids" and chance.maybe(0.35):
        value = chance.named("risk", _RISKY).replace("{loss}", value).replace("{size}", size)
    if model.penalty:
        value = f"{value} + {model.penalty}"
    if chance.maybe(0.15) and not re.search(r"\$data|\$args|real", value):
        return _handed(chance, model, value)
    changes = {k: v for k, v in _CHANGES.items() if labels != "ids" or k in ("nothing", "first")}
    if "BatchNorm" in model.definitions:
        changes = {k: v for k, v in changes.items() if k in ("nothing", "noise", "scaled", "flipped-columns")}
    change = chance.named("change", changes, {"nothing": 24}).replace("{size}", size)
    forward = f"$out = {model.forward}\n$loss = {value}"
    how = chance.named("backward", _BACKWARD, {"plain": 6, "late": 3})
    code = how.replace("{forward}", forward).replace("{indented}", block(forward, depth=1))
    return _Body(block(change, code))


def _handed(chance: Chance, model: models.Model, value: str) -> _Body:
    """The batch goes to a function that trains on it."""
    more = [name for name in ("criterion", "weight") if f"${name}" in value]
    chance.traits.append("handed")
    text = _HANDED.replace("{more}", "".join(f"{name}, " for name in more))
    text = text.replace("{forward}", model.forward).replace("{loss}", value).replace("$", "")
    given = ", ".join(("$model", "$optimizer", *(f"${name}" for name in more), "$x", "$y"))
    call = chance.of(f"print(train_step({given}))", f"value = train_step({given})")
    return _Body(call, text)
