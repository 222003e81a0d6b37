"""Networks, optimizers and learning rate schedules."""

from __future__ import annotations

from dataclasses import dataclass

from tests.generated.chance import Chance, Stage, block
from tests.generated.pieces.devices import Device, placed


@dataclass(frozen=True)
class Model:
    """A network.

    Attributes:
        definitions: its classes.
        stage: the statements that make `$model`.
        forward: the expression of its output for `$x`.
        penalty: an expression added to the loss, if there is one.
        parts: it has a `body` and a `head`.
    """

    definitions: str
    stage: Stage
    forward: str = "$model($x)"
    penalty: str = ""
    parts: bool = True


_CLASS = """
class {name}(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.body = nn.Sequential({body})
        self.head = nn.Linear(hidden, {outputs})
{init}
    def forward(self, x):
        {forward}
{methods}
"""
_BODIES = {
    "plain": "nn.Linear(6, hidden), nn.ReLU()",
    "deep": "nn.Linear(6, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.ReLU()",
    "dropout": "nn.Linear(6, hidden), nn.ReLU(), nn.Dropout(0.2)",
    "norm": "nn.Linear(6, hidden), nn.BatchNorm1d(hidden), nn.ReLU()",
    "layer-norm": "nn.Linear(6, hidden), nn.LayerNorm(hidden)",
}
_METHODS = {
    "none": ("", ""),
    "penalty": ("    def penalty(self):\n        return self.head.weight.pow(2).sum()", "0.01 * $model.penalty()"),
    "features": ("    def features(self, x):\n        return self.body(x)", ""),
    "weights": ("", "0.001 * sum(p.pow(2).sum() for p in $model.parameters())"),
    "l1": ("", "1e-4 * $model.head.weight.abs().sum()"),
}
_IDS = """
class {name}(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.body = nn.Embedding(7, hidden)
        self.head = nn.Linear(hidden, 7{bias})
{init}
    def forward(self, x):
        return self.head(self.body(x))
"""
_RECURRENT = """
class {name}(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.hidden = hidden
        self.body = nn.GRU(6, hidden, batch_first=True)
        self.head = nn.Linear(hidden, {outputs})

    def init_hidden(self, size):
        {hidden}

    def forward(self, x, state):
        out, state = self.body(x.unsqueeze(1), state)
        return self.head(out[:, -1]){state}
"""


def model(chance: Chance, device: Device, labels: str, outputs: int) -> Model:
    """A network for some kind of labels."""
    name = chance.of("Net", "Model", "Classifier", "MLP")
    if labels == "ids":
        tied = chance.maybe(0.4)
        init = "        self.head.weight = self.body.weight\n" if tied else ""
        code = _IDS.format(name=name, bias=", bias=False" if tied else "", init=init)
        return Model(code, _made(chance, device, f"{name}()"), parts=not tied)
    kind = chance.named("model", {k: k for k in ("class", "sequential", "linear", "recurrent", "frozen")}, {"class": 5})
    if kind == "sequential":
        made = f"nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, {outputs}))"
        return Model("", _made(chance, device, made), parts=False)
    if kind == "linear":
        return Model("", _made(chance, device, f"nn.Linear(6, {outputs})"), parts=False)
    if kind == "recurrent":
        return _recurrent(chance, device, name, outputs)
    methods, penalty = chance.named("methods", _METHODS, {"none": 5})
    body = chance.named("body", _BODIES, {"plain": 3})
    forward = chance.of("return self.head(self.body(x))", "x = self.body(x)\n        return self.head(x)")
    code = _CLASS.format(name=name, body=body, outputs=outputs, init="", forward=forward, methods=methods)
    made = chance.of(f"{name}()", f"{name}(8)", f"{name}(hidden=10)", f"{name}($args.hidden)")
    stage = _made(chance, device, made)
    if kind == "frozen":
        freeze = "for p in $model.body.parameters():\n    p.requires_grad = False"
        stage = Stage(stage.name, block(stage.code, freeze), stage.binds)
    return Model(code, stage, penalty=penalty)


def _recurrent(chance: Chance, device: Device, name: str, outputs: int) -> Model:
    hidden = chance.of(
        "return torch.zeros(1, size, self.hidden, device=next(self.parameters()).device)",
        "weight = next(self.parameters())\n        return weight.new_zeros(1, size, self.hidden)",
    )
    code = _RECURRENT.format(name=name, outputs=outputs, hidden=hidden, state="")
    return Model(code, _made(chance, device, f"{name}()"), "$model($x, $model.init_hidden($x.size(0)))")


def _made(chance: Chance, device: Device, made: str) -> Stage:
    code = placed(chance, device, "$model", made)
    if chance.maybe(0.1):
        init = (
            "for module in $model.modules():\n    if isinstance(module, nn.Linear):\n"
            "        nn.init.normal_(module.weight, std=0.3)"
        )
        code = block(code, init)
    return Stage("make_model", code, binds=("model",))


_OPTIMIZERS = {
    "sgd": "torch.optim.SGD({}, lr=$args.lr)",
    "momentum": "torch.optim.SGD({}, lr=$args.lr, momentum=0.9, weight_decay=1e-4)",
    "adam": "torch.optim.Adam({}, lr=0.01)",
    "adamw": "optim.AdamW({}, lr=0.01)",
    "keyword": "optim.SGD(params={}, lr=0.1)",
    "partial": "partial(torch.optim.SGD, lr=0.1)({})",
    "named": "getattr(torch.optim, 'SGD')({}, lr=0.1)",
}
_PARAMETERS = {
    "all": "$model.parameters()",
    "filter": "filter(lambda p: p.requires_grad, $model.parameters())",
    "list": "[p for p in $model.parameters() if p.requires_grad]",
    "groups": '[{"params": $model.body.parameters()}, {"params": $model.head.parameters(), "lr": 0.05}]',
    "head": "$model.head.parameters()",
    "names": '[p for name, p in $model.named_parameters() if "bias" not in name]',
}


def optimizer(chance: Chance, made: Model) -> Stage:
    """An optimizer of the network."""
    choices = {k: v for k, v in _PARAMETERS.items() if made.parts or k not in ("groups", "head")}
    parameters = chance.named("parameters", choices, {"all": 8})
    if chance.maybe(0.08):
        chance.traits.append("optimizer=branches")
        code = (
            'if $args.optimizer == "adam":\n    $optimizer = torch.optim.Adam({0}, lr=0.01)\n'
            "else:\n    $optimizer = torch.optim.SGD({0}, lr=0.1)"
        )
    else:
        code = "$optimizer = " + chance.named("optimizer", _OPTIMIZERS, {"sgd": 6, "adam": 6})
    return Stage("make_optimizer", code.replace("{0}", parameters).replace("{}", parameters), binds=("optimizer",))


@dataclass(frozen=True)
class Schedule:
    """A learning rate schedule: how it is made, and what is done for each batch and each epoch."""

    made: str = ""
    batch: str = ""
    epoch: str = ""


_LR = "optim.lr_scheduler"
_SCHEDULES = {
    "none": Schedule(),
    "step": Schedule(f"$scheduler = {_LR}.StepLR($optimizer, step_size=1, gamma=0.5)", epoch="$scheduler.step()"),
    "imported": Schedule("$scheduler = StepLR($optimizer, 1)", epoch="$scheduler.step()"),
    "multi": Schedule(f"$scheduler = {_LR}.MultiStepLR($optimizer, [1, 2])", epoch="$scheduler.step()"),
    "exponential": Schedule(f"$scheduler = {_LR}.ExponentialLR($optimizer, 0.9)", epoch="$scheduler.step()"),
    "cosine": Schedule(
        f"$scheduler = {_LR}.CosineAnnealingLR($optimizer, T_max=$args.epochs)", epoch="$scheduler.step()"
    ),
    "lambda": Schedule(
        f"$total_steps = $args.epochs * len($train_loader)\n"
        f"$scheduler = {_LR}.LambdaLR($optimizer, lambda step: max(0.0, 1 - step / $total_steps))",
        batch="$scheduler.step()",
    ),
    "cycle": Schedule(
        f"$scheduler = {_LR}.OneCycleLR(\n"
        "    $optimizer, max_lr=0.1, steps_per_epoch=len($train_loader), epochs=$args.epochs\n)",
        batch="$scheduler.step()",
    ),
    "plateau": Schedule(
        f"$scheduler = {_LR}.ReduceLROnPlateau($optimizer, patience=0)", epoch="$scheduler.step($metric)"
    ),
    "plateau-lr": Schedule(
        f'$scheduler = {_LR}.ReduceLROnPlateau($optimizer, mode="min", factor=0.5, patience=0)',
        epoch="$scheduler.step($metric)\nprint($optimizer.param_groups[0]['lr'])",
    ),
    "restarts": Schedule(
        f"$scheduler = {_LR}.CosineAnnealingWarmRestarts($optimizer, 2)",
        batch="$scheduler.step($epoch + i / len($train_loader))",
    ),
    "warm": Schedule(
        f"$scheduler = {_LR}.SequentialLR(\n"
        f"    $optimizer,\n    [{_LR}.LinearLR($optimizer, 0.5, total_iters=1), "
        f"{_LR}.ExponentialLR($optimizer, 0.9)],\n    milestones=[1],\n)",
        epoch="$scheduler.step()",
    ),
    "chained": Schedule(
        f"$scheduler = {_LR}.ChainedScheduler([{_LR}.ConstantLR($optimizer, 0.5, 1), {_LR}.StepLR($optimizer, 1)])",
        epoch="$scheduler.step()",
    ),
    "polynomial": Schedule(
        f"$scheduler = {_LR}.PolynomialLR($optimizer, total_iters=$args.epochs * len($train_loader), power=0.9)",
        batch="$scheduler.step()",
    ),
    "multiplied": Schedule(
        f"$scheduler = {_LR}.MultiplicativeLR($optimizer, lr_lambda=lambda epoch: 0.9)", epoch="$scheduler.step()"
    ),
    "lambda-epoch": Schedule(
        f"$scheduler = {_LR}.LambdaLR($optimizer, lr_lambda=lambda epoch: 0.8 ** epoch)", epoch="$scheduler.step()"
    ),
    "cyclic": Schedule(
        f"$scheduler = {_LR}.CyclicLR($optimizer, base_lr=0.01, max_lr=0.1, step_size_up=3, cycle_momentum=False)",
        batch="$scheduler.step()",
    ),
    "cosine-batch": Schedule(
        f"$scheduler = {_LR}.CosineAnnealingLR($optimizer, len($train_loader) * $args.epochs, eta_min=1e-4)",
        batch="$scheduler.step()",
    ),
    "plateau-keyword": Schedule(
        f"$scheduler = {_LR}.ReduceLROnPlateau($optimizer, 'min', factor=0.3, patience=0, threshold=0.1)",
        epoch="$scheduler.step(metrics=$metric)",
    ),
    "warm-by-hand": Schedule(
        batch="rate = 0.1 * min(1.0, (i + 1 + $epoch * len($train_loader)) / 9)\n"
        'for group in $optimizer.param_groups:\n    group["lr"] = rate',
    ),
    "by-hand": Schedule(
        epoch='for group in $optimizer.param_groups:\n    group["lr"] *= 0.8',
    ),
    "by-hand-batch": Schedule(
        batch='for group in $optimizer.param_groups:\n    group["lr"] = 0.1 / (1 + i + $epoch)',
    ),
    "last-lr": Schedule(
        f"$scheduler = {_LR}.StepLR($optimizer, 2)",
        epoch='$scheduler.step()\nprint("lr", $scheduler.get_last_lr()[0])',
    ),
}


def schedule(chance: Chance, sized: bool, every: str = "", metric: bool = True) -> tuple[Stage, Schedule]:
    """A schedule, or none: with every epoch only, without the metric, if that is asked for."""
    choices = {k: v for k, v in _SCHEDULES.items() if sized or "len(" not in v.made + v.batch}
    choices = {k: v for k, v in choices.items() if not (every and v.batch) and (metric or "$metric" not in v.epoch)}
    chosen = chance.named("schedule", choices, {"none": 8})
    binds = ("scheduler",) if chosen.made else ()
    return Stage("make_scheduler", chosen.made, binds), chosen
