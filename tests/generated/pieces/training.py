"""Loops over batches that train."""

from __future__ import annotations

from dataclasses import dataclass

from tests.generated.chance import Chance, Stage, block
from tests.generated.pieces.data import Data
from tests.generated.pieces.devices import FOUND, Device, moved
from tests.generated.pieces.extras import Extra
from tests.generated.pieces.models import Model, Schedule


@dataclass(frozen=True)
class Loss:
    """A loss: how `$criterion` is made, and its expression for `$out` and `$y`."""

    made: str
    value: str


LOSSES = {
    "classes": {
        "criterion": Loss("$criterion = nn.CrossEntropyLoss()", "$criterion($out, $y)"),
        "functional": Loss("", "F.cross_entropy($out, $y)"),
        "nll": Loss("", "F.nll_loss(F.log_softmax($out, dim=1), $y)"),
        "weights": Loss(
            "$weight = torch.tensor([1.0, 2.0, 0.5, 1.0])\n$criterion = nn.CrossEntropyLoss(weight=$weight)",
            "$criterion($out, $y)",
        ),
        "none": Loss('$criterion = nn.CrossEntropyLoss(reduction="none")', "$criterion($out, $y).mean()"),
        "sum": Loss('$criterion = nn.CrossEntropyLoss(reduction="sum")', "$criterion($out, $y)"),
        "sum-divided": Loss("", 'F.cross_entropy($out, $y, reduction="sum") / $x.size(0)'),
        "smooth": Loss("$criterion = nn.CrossEntropyLoss(label_smoothing=0.1)", "$criterion($out, $y)"),
    },
    "numbers": {
        "mse": Loss("$criterion = nn.MSELoss()", "$criterion($out, $y)"),
        "function": Loss("", "F.mse_loss($out, $y)"),
        "l1": Loss("$criterion = nn.L1Loss()", "$criterion($out, $y)"),
        "by-hand": Loss("", "(($out - $y) ** 2).mean()"),
        "root": Loss("", "torch.sqrt(F.mse_loss($out, $y) + 1e-6)"),
        "huber": Loss("$criterion = nn.SmoothL1Loss()", "$criterion($out, $y)"),
        "sum": Loss('$criterion = nn.MSELoss(reduction="sum")', "$criterion($out, $y)"),
    },
    "binary": {
        "logits": Loss("$criterion = nn.BCEWithLogitsLoss()", "$criterion($out, $y)"),
        "function": Loss("", "F.binary_cross_entropy(torch.sigmoid($out), $y)"),
        "weighted": Loss("$criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0]))", "$criterion($out, $y)"),
    },
    "ids": {
        "ignored": Loss(
            "$criterion = nn.CrossEntropyLoss(ignore_index=0)", "$criterion($out.view(-1, 7), $y.view(-1))"
        ),
        "transposed": Loss("", "F.cross_entropy($out.transpose(1, 2), $y)"),
        "masked": Loss(
            "",
            '(F.cross_entropy($out.flatten(0, 1), $y.flatten(), reduction="none")'
            " * ($y != 0).flatten()).sum() / ($y != 0).sum()",
        ),
    },
}

_HEADERS = {
    "for": "for {batch} in $train_loader:",
    "enumerate": "for i, {tuple} in enumerate($train_loader):",
    "enumerate0": "for i, {tuple} in enumerate($train_loader, 0):",
    "enumerate1": "for i, {tuple} in enumerate($train_loader, 1):",
    "tqdm": "for {batch} in tqdm($train_loader, disable=True):",
    "enumerate-tqdm": "for i, {tuple} in enumerate(tqdm($train_loader, disable=True)):",
    "islice": "for {batch} in islice($train_loader, 3):",
    "zip": "for i, {tuple} in zip(range(len($train_loader)), $train_loader):",
    "next": "batches = iter($train_loader)\nfor i in range(len($train_loader)):\n    {batch} = next(batches)",
    "walrus": "batches = iter($train_loader)\nwhile (batch := next(batches, None)) is not None:",
    "bar": "bar = tqdm($train_loader, disable=True)\nfor {batch} in bar:",
}

# Before the backward pass, the backward pass, and after it.
_ZERO = (
    "$optimizer.zero_grad()",
    "$optimizer.zero_grad()",
    "$optimizer.zero_grad(set_to_none=True)",
    "$model.zero_grad()",
)
_COUNTED = "if {} % 2 == 0:\n    $optimizer.step()\n    $optimizer.zero_grad()"
_STEPS = {
    "plain": ("{zero}", "$loss.backward()", "{clip}\n$optimizer.step()"),
    "late": ("", "$loss.backward()", "{clip}\n$optimizer.step()\n{zero}"),
    "adjacent": ("", "{zero}\n$loss.backward()", "{clip}\n$optimizer.step()"),
    "modulo": ("", "($loss / 2).backward()", "if (i + 1) % 2 == 0:\n    {clip}\n    $optimizer.step()\n    {zero}"),
    "modulo-rebound": (
        "",
        "$loss = $loss / 2\n$loss.backward()",
        "if (i + 1) % 2 == 0:\n    $optimizer.step()\n    {zero}",
    ),
    "modulo-last": (
        "",
        "$loss = $loss / 2\n$loss.backward()",
        "if (i + 1) % 2 == 0 or (i + 1) == len($train_loader):\n    {clip}\n    $optimizer.step()\n    {zero}",
    ),
    "counter": ("", "$loss.backward()", "$count[0] += 1\n" + _COUNTED.format("$count[0]")),
    "scaler": (
        "{zero}",
        "$scaler.scale($loss).backward()",
        "$scaler.step($optimizer)\n$scaler.update()",
    ),
    "scaler-clip": (
        "{zero}",
        "$scaler.scale($loss).backward()",
        "$scaler.unscale_($optimizer)\n{norm}\n$scaler.step($optimizer)\n$scaler.update()",
    ),
    "sum": ("{zero}", "($loss + 0.1 * $out.pow(2).mean()).backward()", "$optimizer.step()"),
    "skip": ("{zero}", "if not torch.isfinite($loss):\n    continue\n$loss.backward()", "$optimizer.step()"),
    "balance": (
        "{zero}",
        "($loss + balance * $out.pow(2).mean()).backward()",
        "$optimizer.step()\nbalance = min(0.9 * balance + 0.1 * $loss.item(), 1.0)",
    ),
    "twice": ("{zero}", "$loss.backward(retain_graph=True)", "$optimizer.step()"),
}
# The batch in pieces: the header of the loop over them, what they are called, and what the loss of one is scaled by.
_PIECES = {
    "chunks": ("for part, target in zip($x.chunk(2), $y.chunk(2)):", "/ 2"),
    "split": ("for part, target in zip(torch.split($x, 2), torch.split($y, 2)):", "* (part.size(0) / $x.size(0))"),
    "slices": (
        "for begin in range(0, len($x), 3):\n    part, target = $x[begin : begin + 3], $y[begin : begin + 3]",
        "* len(part) / len($x)",
    ),
    "numbered": (
        "for k in range(2):\n    part, target = $x[k::2].contiguous(), $y[k::2].contiguous()\n"
        "    if len(part) == 0:\n        continue",
        "/ 2",
    ),
}
_NORM = "torch.nn.utils.clip_grad_norm_($model.parameters(), 1.0)"
_CLIPS = ("", "", "", _NORM, "nn.utils.clip_grad_value_($model.parameters(), 0.5)", f"norm = {_NORM}")

_SLOWER = "if {}:\n    for group in $optimizer.param_groups:\n        group['lr'] *= 0.5"
# What is measured while training: before the loop, in it, after it.
_MEASURES = {
    "nothing": ("", "", ""),
    "running": (
        "running = 0.0",
        "running += $loss.item()",
        'print("train", $epoch, running / len($train_loader))',
    ),
    "samples": (
        "running = 0.0",
        "running += $loss.item() * $x.size(0)",
        'print("train %.6f" % (running / len($train_loader.dataset)))',
    ),
    "counted": (
        "running, seen = 0.0, 0",
        "running += $loss.item() * len($y)\nseen += len($y)",
        'print(f"train {running / seen:.6f}")',
    ),
    "weighted": (
        "running, seen = 0.0, 0",
        "n = $x.shape[0]\nrunning, seen = running + $loss.item() * n, seen + n",
        'print("train {:.5f} of {}".format(running / seen, seen))',
    ),
    "average": (
        "smooth = 0.0",
        "smooth = 0.9 * smooth + 0.1 * $loss.item()",
        'print("smooth", smooth)',
    ),
    "dict": (
        "sums = defaultdict(float)",
        "sums['loss'] += float($loss.detach())\nsums['batches'] += 1",
        'print("train", sums["loss"] / sums["batches"])',
    ),
    "list": (
        "losses = []",
        "losses.append($loss.item())",
        'print("train", sum(losses) / len(losses))',
    ),
    "meter": ("meter = AverageMeter()", "meter.update($loss.item(), $x.size(0))", 'print("train", meter.avg)'),
    "last": ("", "", 'print("last loss", $loss.item())'),
    "every": ("", 'if i % 2 == 0:\n    print("step", i, $loss.item())', ""),
    "interval": (
        "running = 0.0",
        'running += $loss.item()\nif i % 2 == 1:\n    print("[%d, %d] %.4f" % ($epoch, i, running / 2))\n'
        "    running = 0.0",
        "",
    ),
    "tensor": ("running = 0", "running += $loss.detach()", 'print("train", float(running / len($train_loader)))'),
    "accuracy": (
        "correct = total = 0",
        "correct += ($out.argmax(1) == $y).sum().item()\ntotal += $y.size(0)",
        'print("train accuracy", correct / total)',
    ),
    "maximum": (
        "correct = 0",
        "_, predicted = torch.max($out.data, 1)\ncorrect += predicted.eq($y.data).sum()",
        'print("train accuracy {:.2f}".format(100.0 * correct.item() / len($train_loader.dataset)))',
    ),
    "postfix": ("", "bar.set_postfix(loss=$loss.item())", ""),
    "rate": ("running = 0.0", "running += $loss.item()", _SLOWER.format("running / len($train_loader) > 0.5")),
    "rate-list": ("losses = []", "losses.append($loss.item())", _SLOWER.format("sum(losses) / len(losses) > 0.5")),
    "rate-meter": ("meter = AverageMeter()", "meter.update($loss.item())", _SLOWER.format("meter.avg > 0.5")),
    "deque": ("recent = deque(maxlen=3)", "recent.append(float($loss))", 'print("recent", sum(recent) / len(recent))'),
}
METER = """
class AverageMeter:
    def __init__(self):
        self.sum, self.count, self.avg = 0.0, 0, 0.0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count
"""


@dataclass(frozen=True)
class Training:
    """The training of a script: what it makes first, one pass over the data, its loss, and definitions."""

    definitions: str
    made: Stage
    loop: Stage
    loss: str


def training(
    chance: Chance, device: Device, data: Data, model: Model, schedule: Schedule, labels: str, extra: Extra
) -> Training:
    """One pass over the data that trains, with all that it needs."""
    loss = chance.named("loss", LOSSES[labels])
    steps = {k: v for k, v in _STEPS.items() if _sized(v[2], data)}
    before, backward, after = chance.named("step", steps, {"plain": 8, "modulo": 2, "modulo-last": 2})
    measure = chance.named("measure", {k: v for k, v in _MEASURES.items() if _fits(k, labels, data)}, {"nothing": 3})
    counted = any("i " in part or "(i" in part for part in (backward, after, *measure, schedule.batch))
    headers = {k: v for k, v in _HEADERS.items() if (not counted or "for i" in v) and _sized(v, data)}
    if "bar." in measure[1]:
        headers = {
            "bar": _HEADERS["bar"].replace(
                "for {batch} in bar", "for i, {tuple} in enumerate(bar)" if counted else "for {batch} in bar"
            )
        }
    header = chance.named("header", headers, {"for": 8, "enumerate": 8})
    zero, clip = chance.of(*_ZERO), chance.of(*_CLIPS)
    header, opened = _opened(chance, header, data.batch)
    names = ("$x", "$y") if data.batch == "pair" or "[" in opened else ()
    move = moved(chance, device, *names)
    if names and device.place and "batch" in header and "next(" not in header and chance.maybe():
        opened, move = block(_whole(chance, data.batch).format(device.place), opened), ""
    forward, made = _forward(chance, loss, [model.penalty, extra.loss], device, "$scaler" in backward, model.forward)
    step = [part.format(zero=zero, clip=clip, norm=_NORM) for part in (before, backward, after)]
    core = [forward, step[1]]
    if _divisible(step[1], forward, model, extra) and "$out" not in "".join(measure) and chance.maybe(0.2):
        core = [_in_pieces(chance, loss, model)]
    parts = (move, extra.batch, step[0], *core, _tidy(step[2]), extra.stepped, schedule.batch, measure[1])
    body = block(opened, *parts, depth=1)
    first = "balance = 0.0" if "balance" in step[1] else ""
    loop = block("$model.train()" if chance.maybe(0.7) else "", first, measure[0], header, body, measure[2])
    if "$count" in loop:
        made = block(made, "$count = [0]")
    binds = tuple(name for name in ("criterion", "scaler", "count") if f"${name} = " in block(loss.made, made))
    criterion = on_device(chance, device, loss.made)
    definitions = METER if "AverageMeter" in loop else ""
    return Training(definitions, Stage("make_loss", block(criterion, made), binds), Stage("train", loop), loss.value)


def _whole(chance: Chance, batch: str) -> str:
    """A statement that moves all of a batch."""
    if batch == "dict":
        return "batch = {{k: v.to({0}) for k, v in batch.items()}}"
    return chance.of(
        "batch = [t.to({0}) for t in batch]",
        "batch = tuple(t.to({0}) for t in batch)",
        "batch = list(map(lambda t: t.to({0}), batch))",
        "batch = batch[0].to({0}), batch[1].to({0})",
    )


def _fits(measure: str, labels: str, data: Data) -> bool:
    code = "".join(_MEASURES[measure])
    return (labels == "classes" or ("argmax" not in code and "torch.max" not in code)) and _sized(code, data)


def _sized(code: str, data: Data) -> bool:
    return data.sized or "len($train_loader" not in code


def _opened(chance: Chance, header: str, batch: str) -> tuple[str, str]:
    """The header of a loop, and the statements that take a batch apart."""
    if batch == "dict":
        opened = '$x, $y = batch["x"], batch["y"]'
        return header.format(batch="batch", tuple="batch"), opened
    if ("{batch}" not in header and "{tuple}" not in header) or chance.maybe(0.25):
        opened = chance.of(
            "$x, $y = batch", "$x, $y = batch[0], batch[1]", "($x, $y) = batch", "$x = batch[0]\n$y = batch[1]"
        )
        return header.format(batch="batch", tuple="batch"), opened
    return header.format(batch="$x, $y", tuple="($x, $y)"), ""


def _forward(
    chance: Chance, loss: Loss, terms: list[str], device: Device, scaled: bool, output: str
) -> tuple[str, str]:
    """The forward pass and the loss, and what has to be made for them."""
    value = " + ".join([loss.value, *filter(None, terms)])
    code = f"$out = {output}\n$loss = {value}"
    if not scaled and chance.maybe(0.04):
        chance.traits.append("precision=bfloat16")
        cast = chance.of(
            'torch.autocast("cpu", dtype=torch.bfloat16)',
            'torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=True)',
            "torch.amp.autocast('cpu', dtype=torch.bfloat16)",
        )
        return f"with {cast}:\n" + block(code, depth=1), ""
    if not scaled:
        return code, ""
    enabled = device.flag or FOUND
    made = chance.of(
        f'$scaler = torch.amp.GradScaler("cuda", enabled={enabled})',
        f"$scaler = torch.cuda.amp.GradScaler(enabled={enabled})",
    )
    cast = chance.of(f'torch.autocast("cuda", enabled={enabled})', f"torch.cuda.amp.autocast(enabled={enabled})")
    return f"with {cast}:\n" + block(code, depth=1), made


def _divisible(backward: str, forward: str, model: Model, extra: Extra) -> bool:
    """Whether the batch may be trained on in pieces: a plain step, of a loss for which nothing else is needed."""
    plain = backward == "$loss.backward()" and model.forward == "$model($x)" and "with" not in forward
    return plain and not (model.penalty or extra.loss or extra.stepped or "BatchNorm" in model.definitions)


def _in_pieces(chance: Chance, loss: Loss, model: Model) -> str:
    """Forward and backward passes of the pieces of a batch."""
    header, scale = chance.named("pieces", _PIECES)
    value = loss.value.replace("$y", "target").replace("$x", "part")
    code = f"$out = {model.forward.replace('$x', 'part')}\n$loss = ({value}) {scale}\n$loss.backward()"
    return block(header, block(code, depth=1))


def on_device(chance: Chance, device: Device, made: str) -> str:
    """The statement that makes a loss, where its tensors are to be on the device."""
    if not made or not (device.place or device.flag):
        return made
    if "weight" in made and device.place:
        return made.replace("]))", f"], device={device.place}))").replace("])\n", f"]).to({device.place})\n")
    if "weight" in made:
        return block(made, f"if {device.flag}:\n    $criterion = $criterion.cuda()")
    if device.place and chance.maybe(0.2):
        return made + f".to({device.place})"
    return made


def _tidy(code: str) -> str:
    return "\n".join(line for line in code.splitlines() if line.strip())
