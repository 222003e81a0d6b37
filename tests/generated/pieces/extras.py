"""What some scripts have besides: a second network, noise, resuming, several GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from tests.generated.chance import Chance, Stage, block
from tests.generated.pieces.devices import Device, there
from tests.generated.pieces.models import Model


@dataclass(frozen=True)
class Extra:
    """Something besides.

    Attributes:
        definitions: functions.
        made: statements after the network is made.
        binds: what they bind.
        batch: statements on a batch, before the forward pass.
        loss: an expression added to the loss.
        stepped: statements after the optimizer's step.
        ready: statements after the optimizer and the schedule are made.
        end: statements in the end.
    """

    definitions: str = ""
    made: str = ""
    binds: tuple[str, ...] = ()
    batch: str = ""
    loss: str = ""
    stepped: str = ""
    ready: str = ""
    end: str = ""


_EMA = """
@torch.no_grad()
def average(ema, model):
    for a, b in zip(ema.parameters(), model.parameters()):
        a.mul_(0.9).add_(b, alpha=0.1)
"""
_EXTRAS = {
    "none": Extra(),
    "ema": Extra(
        made="$ema = copy.deepcopy($model)\nfor p in $ema.parameters():\n    p.requires_grad_(False)",
        binds=("ema",),
        stepped="with torch.no_grad():\n    for a, b in zip($ema.parameters(), $model.parameters()):\n"
        "        a.mul_(0.9).add_(b.data, alpha=0.1)",
        end='print("average", sum(p.sum().item() for p in $ema.parameters()))',
    ),
    "ema-function": Extra(
        _EMA,
        made="$ema = copy.deepcopy($model)",
        binds=("ema",),
        stepped="average($ema, $model)",
        end='torch.save($ema.state_dict(), "ema.pt")',
    ),
    "teacher": Extra(
        made="$teacher = copy.deepcopy($model)\n$teacher.eval()",
        binds=("teacher",),
        loss="0.1 * F.mse_loss($out, $teacher($x).detach())",
    ),
    "teacher-no-grad": Extra(
        made="$teacher = copy.deepcopy($model).eval()",
        binds=("teacher",),
        batch="with torch.no_grad():\n    soft = $teacher($x)",
        loss="F.mse_loss($out, soft)",
    ),
    "noise": Extra(batch="$x = $x + 0.01 * torch.randn_like($x)"),
    "noise-made": Extra(batch="noise = torch.randn($x.size(0), $x.size(1))\n$x = $x + 0.01 * {noise}"),
    "flip": Extra(batch="if random.random() < 0.5:\n    $x = -$x"),
    "weights": Extra(
        made="for name, p in $model.named_parameters():\n    if name.endswith('bias'):\n        nn.init.zeros_(p)"
    ),
    "resume": Extra(
        made='if os.path.exists("last.pt"):\n'
        '    $model.load_state_dict(torch.load("last.pt", weights_only=True)["model"])'
    ),
    "loaded": Extra(
        ready='torch.save({"model": $model.state_dict(), "optimizer": $optimizer.state_dict()}, "start.pt")\n'
        'kept = torch.load("start.pt", map_location={device}, weights_only=True)\n'
        '$model.load_state_dict(kept["model"])\n$optimizer.load_state_dict(kept["optimizer"])'
    ),
    "parallel": Extra(made="if torch.cuda.device_count() > 1:\n    $model = nn.DataParallel($model)"),
    "summary": Extra(made='print("parameters:", sum(p.numel() for p in $model.parameters() if p.requires_grad))'),
    "cudnn": Extra(made="torch.backends.cudnn.benchmark = True"),
    "apply": Extra(
        "def init(module):\n    if isinstance(module, nn.Linear):\n        nn.init.xavier_uniform_(module.weight)\n",
        made="$model.apply(init)",
    ),
    "center": Extra(
        made="$center = {center}",
        binds=("center",),
        loss="0.01 * ($out.mean(1) - $center).pow(2).mean()",
    ),
}


def extra(chance: Chance, device: Device, model: Model, labels: str) -> Extra:
    """Something besides, or nothing."""
    plain = model.forward == "$model($x)"
    choices = {
        name: one
        for name, one in _EXTRAS.items()
        if (plain or "$teacher" not in one.loss + one.batch) and (labels != "ids" or "$x" not in one.batch)
    }
    chosen = chance.named("extra", choices, {"none": 14})
    fills = {
        "{noise}": there(device, "noise") if device.place else ("noise" if not device.flag else "noise.to($x.device)"),
        "{center}": there(device, "torch.zeros(1)") if not device.flag or device.place else "0.5",
        "{device}": device.place or '"cpu"',
    }
    texts = {name: getattr(chosen, name) for name in ("made", "batch", "ready")}
    for mark, code in fills.items():
        texts = {name: text.replace(mark, code) for name, text in texts.items()}
    return Extra(
        chosen.definitions, binds=chosen.binds, loss=chosen.loss, stepped=chosen.stepped, end=chosen.end, **texts
    )


_GAN = """
class Generator(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(latent, 8), nn.{activation}(), nn.Linear(8, 6))

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1){last})

    def forward(self, x):
        return self.net(x){squeezed}
"""


@dataclass(frozen=True)
class Gan:
    """Two networks that train against each other."""

    definitions: str
    made: list[Stage]
    loop: Stage
    end: Stage


def gan(chance: Chance, device: Device) -> Gan:
    """Two networks that train against each other."""
    logits = chance.maybe()
    definitions = _GAN.format(
        activation=chance.of("ReLU", "Tanh"),
        last="" if logits else ", nn.Sigmoid()",
        squeezed=chance.of("", ".view(-1, 1)"),
    )
    guarded = device.flag and not device.place
    both = [("$gen", "Generator(4)"), ("$disc", "Discriminator()")]
    networks = [f"{name} = {there(device, made)}" for name, made in both]
    networks += [f"if {device.flag}:\n    {name}.cuda()" for name, _ in both if guarded]
    adam = chance.of(
        "torch.optim.Adam({}.parameters(), lr=0.01, betas=(0.5, 0.999))", "optim.RMSprop({}.parameters(), lr=0.01)"
    )
    optimizers = [f"$opt_gen = {adam.format('$gen')}", f"$opt_disc = {adam.format('$disc')}"]
    loss = "$bce = nn.BCEWithLogitsLoss()" if logits else "$bce = nn.BCELoss()"
    made = [
        Stage("make_networks", block(*networks), ("gen", "disc")),
        Stage("make_optimizers", block(*chance.shuffled(optimizers)), ("opt_gen", "opt_disc")),
        Stage("make_loss", loss, ("bce",)),
    ]
    return Gan(definitions, made, _adversarial(chance, device), _conclusion(chance, device))


def _adversarial(chance: Chance, device: Device) -> Stage:
    header, first = chance.of(
        ("for i, (real,) in enumerate($train_loader):", ""),
        ("for batch in $train_loader:", "real = batch[0]"),
        ("for i, batch in enumerate($train_loader):", "real, = batch"),
    )
    if device.place:
        opened = f"real = real.to({device.place})"
    else:
        opened = f"if {device.flag}:\n    real = real.cuda()" if device.flag else ""
    size = chance.of("real.size(0)", "real.shape[0]", "len(real)")
    where = ", device=real.device" if chance.maybe() or not device.place else f", device={device.place}"
    noise = f"z = torch.randn({size}, 4{where})"
    targets = f"ones = torch.ones({size}, 1{where})\nzeros = torch.zeros({size}, 1{where})"
    disc = chance.of(
        "$opt_disc.zero_grad()\nloss_disc = $bce($disc(real), ones) + $bce($disc(fake.detach()), zeros)\n"
        "loss_disc.backward()\n$opt_disc.step()",
        "$opt_disc.zero_grad()\nloss_real = $bce($disc(real), ones)\nloss_real.backward()\n"
        "loss_fake = $bce($disc(fake.detach()), zeros)\nloss_fake.backward()\n$opt_disc.step()\n"
        "loss_disc = loss_real + loss_fake",
        "$disc.zero_grad()\nloss_disc = ($bce($disc(real), ones) + $bce($disc(fake.detach()), zeros)) / 2\n"
        "loss_disc.backward()\n$opt_disc.step()",
    )
    gen = "$opt_gen.zero_grad()\nloss_gen = $bce($disc(fake), ones)\nloss_gen.backward()\n$opt_gen.step()"
    order = chance.of([noise, "fake = $gen(z)", targets, disc, gen], [targets, noise, "fake = $gen(z)", gen, disc])
    log = chance.of("", 'print("%.4f %.4f" % (loss_disc.item(), loss_gen.item()))', "losses.append(loss_disc.item())")
    before = "losses = []" if "losses" in log else ""
    return Stage("train", block(before, header, block(first, opened, *order, log, depth=1)))


def _conclusion(chance: Chance, device: Device) -> Stage:
    fixed = there(device, "torch.randn(3, 4)") if not device.flag or device.place else "torch.randn(3, 4)"
    sample = f"with torch.no_grad():\n    print($gen({fixed}).shape)"
    if device.flag and not device.place:
        sample = ""
    save = 'torch.save($gen.state_dict(), "gen.pt")'
    return Stage("conclude", chance.of("", sample, save, f"$gen.eval()\n{sample}"))
