"""Several networks and optimizers that do not play against each other in the usual way."""

from __future__ import annotations

from dataclasses import dataclass

from tests.generated.chance import Chance, Stage, block
from tests.generated.pieces.data import Data
from tests.generated.pieces.devices import Device, moved, placed

_OPTIMIZER = "torch.optim.Adam({}, lr=0.01)"


@dataclass(frozen=True)
class Several:
    """Some networks, and a pass over the data that trains them."""

    definitions: str
    made: list[Stage]
    loop: Stage
    forward: str = ""  # of $x, where what they compute can be evaluated
    mode: str = ""  # statements that put them into evaluation mode
    end: str = ""


_ENCODER = """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.{activation}())

    def forward(self, x):
        return self.layers(x)
"""
# What the optimizers are, what is zeroed and stepped, and whether a loss for each is computed.
_OPTIMIZERS = {
    "each": (
        "$opt_enc = {enc}\n$opt_dec = {dec}",
        "$opt_enc.zero_grad()\n$opt_dec.zero_grad()",
        "$opt_enc.step()\n$opt_dec.step()",
    ),
    "chained": ("$optimizer = {both}", "$optimizer.zero_grad()", "$optimizer.step()"),
    "listed": (
        "$optimizers = [{enc}, {dec}]",
        "for one in $optimizers:\n    one.zero_grad()",
        "for one in $optimizers:\n    one.step()",
    ),
    "groups": ("$optimizer = {groups}", "$optimizer.zero_grad()", "$optimizer.step()"),
    "alternating": (
        "$opt_enc = {enc}\n$opt_dec = {dec}",
        "$opt_enc.zero_grad()\n$opt_dec.zero_grad()",
        "if i % 2 == 0:\n    $opt_dec.step()\nelse:\n    $opt_enc.step()",
    ),
}
_BINDS = {"each": ("opt_enc", "opt_dec"), "alternating": ("opt_enc", "opt_dec"), "listed": ("optimizers",)}


def encoder(chance: Chance, device: Device, data: Data, outputs: int, loss: str) -> Several:
    """An encoder and a decoder, with an optimizer each, or one for both."""
    definitions = _ENCODER.format(activation=chance.of("ReLU", "Tanh"))
    networks = block(
        placed(chance, device, "$enc", "Encoder()"), placed(chance, device, "$dec", f"nn.Linear(8, {outputs})")
    )
    made, zero, step = chance.named("optimizers", _OPTIMIZERS, {"each": 3})
    kind = chance.traits[-1].partition("=")[2]
    both = chance.of("list($enc.parameters()) + list($dec.parameters())", "chain($enc.parameters(), $dec.parameters())")
    made = made.format(
        enc=_OPTIMIZER.format("$enc.parameters()"),
        dec=chance.of(_OPTIMIZER, "optim.SGD({}, lr=0.1)").format("$dec.parameters()"),
        both=_OPTIMIZER.format(both),
        groups=_OPTIMIZER.format('[{"params": $enc.parameters()}, {"params": $dec.parameters(), "lr": 0.005}]'),
    )
    stages = [
        Stage("make_networks", networks, ("enc", "dec")),
        Stage("make_optimizers", made, _BINDS.get(kind, ("optimizer",))),
    ]
    forward, extra = chance.of(
        ("$dec($enc($x))", ""),
        ("$dec($enc($x))", ""),
        ("$dec(code)", "code = $enc($x)"),
        ("$dec(code)", "code = $enc($x)\ncode = code + 0.0"),
    )
    log = chance.of("", 'if i % 2 == 0:\n    print("%.5f" % $loss.item())')
    opened = '$x, $y = batch["x"], batch["y"]' if data.batch == "dict" else ""
    header = f"for i, {'batch' if opened else '($x, $y)'} in enumerate($train_loader):"
    body = block(
        opened,
        moved(chance, device, "$x", "$y"),
        zero,
        extra,
        f"$out = {forward}",
        f"$loss = {loss}",
        "$loss.backward()",
        step,
        log,
        depth=1,
    )
    mode = chance.of("", "$enc.train()\n$dec.train()", "for net in ($enc, $dec):\n    net.train()")
    save = 'torch.save({"enc": $enc.state_dict(), "dec": $dec.state_dict()}, "both.pt")'
    return Several(
        definitions,
        stages,
        Stage("train", block(mode, header, body)),
        "$dec($enc($x))",
        "$enc.eval()\n$dec.eval()",
        chance.of("", save),
    )


_CRITIC = """
class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6))

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))

    def forward(self, x):
        return self.net(x)
"""
_PENALTY = """
def gradient_penalty(critic, real, fake):
    alpha = torch.full((real.size(0), 1), 0.3, device=real.device)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(mixed)
    (gradient,) = torch.autograd.grad(
        outputs=scores, inputs=mixed, grad_outputs=torch.ones_like(scores), create_graph=True, retain_graph=True
    )
    return ((gradient.norm(2, dim=1) - 1) ** 2).mean()
"""


def wasserstein(chance: Chance, device: Device) -> Several:
    """A generator and a critic: weights clipped, or a penalty on gradients; the generator trains every few batches."""
    networks = block(placed(chance, device, "$gen", "Generator()"), placed(chance, device, "$critic", "Critic()"))
    kind = chance.of("optim.RMSprop({}, lr=0.01)", _OPTIMIZER)
    optimizers = [
        f"$opt_gen = {kind.format('$gen.parameters()')}",
        f"$opt_critic = {kind.format('$critic.parameters()')}",
    ]
    stages = [
        Stage("make_networks", networks, ("gen", "critic")),
        Stage("make_optimizers", block(*chance.shuffled(optimizers)), ("opt_gen", "opt_critic")),
    ]
    penalty = chance.named("critic", {"clipped": False, "penalty": True})
    loss = "-torch.mean($critic(real)) + torch.mean($critic(fake))"
    if penalty:
        loss += " + 10 * gradient_penalty($critic, real, fake)"
    clip = "" if penalty else "for p in $critic.parameters():\n    p.data.clamp_(-0.05, 0.05)"
    generate = (
        "for p in $critic.parameters():\n    p.requires_grad_(False)\n" if (frozen := chance.maybe(0.3)) else ""
    ) + "$opt_gen.zero_grad()\nloss_gen = -$critic($gen(z)).mean()\nloss_gen.backward()\n$opt_gen.step()"
    if frozen:
        generate += "\nfor p in $critic.parameters():\n    p.requires_grad_(True)"
    header, opened = chance.of(
        ("for i, (real,) in enumerate($train_loader):", ""),
        ("for i, batch in enumerate($train_loader):", "real = batch[0]"),
    )
    body = block(
        opened,
        moved(chance, device, "real"),
        f"z = torch.{chance.of('randn', 'ones')}(real.size(0), 4, device=real.device)",
        f"$opt_critic.zero_grad()\nfake = $gen(z){chance.of('.detach()', '.data')}\nloss_critic = {loss}",
        f"loss_critic.backward()\n$opt_critic.step()\n{clip}",
        "if i % 2 == 0:",
        block(generate, chance.of("", 'print("%.4f %.4f" % (loss_critic.item(), loss_gen.item()))'), depth=1),
        depth=1,
    )
    end = chance.of("", 'torch.save($gen.state_dict(), "gen.pt")')
    definitions = _CRITIC + ("\n" + _PENALTY if penalty else "")
    return Several(definitions, stages, Stage("train", block(header, body)), end=end)
