"""Where scripts keep their settings."""

from __future__ import annotations

from tests.generated.chance import Chance, Stage, block
from tests.generated.pieces.devices import Device

_PARSER = """
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default={epochs})
parser.add_argument("--batch-size", type=int, default={size})
parser.add_argument("--lr", type=float, default={lr})
parser.add_argument("--hidden", type=int, default=8)
parser.add_argument("--optimizer", default="sgd")
{options}
$args = parser.parse_args()
"""
_VALUES = 'epochs={epochs}, batch_size={size}, lr={lr}, hidden=8, optimizer="sgd"'
_DATACLASS = """
@dataclass
class Config:
    epochs: int = {epochs}
    batch_size: int = {size}
    lr: float = {lr}
    hidden: int = 8
    optimizer: str = "adam"
"""
_CLASS = _DATACLASS.replace("@dataclass\n", "").replace(": int", "").replace(": float", "").replace(": str", "")
_SEEDS = (
    "torch.manual_seed(1)",
    "torch.manual_seed(1)",
    "np.random.seed(0)\nrandom.seed(0)\ntorch.manual_seed(0)",
    "seed_everything(7)",
    "",
)
SEED = """
def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
"""


def settings(chance: Chance, device: Device) -> tuple[str, Stage, str]:
    """Definitions, the statements that bind `$args`, and the expression of the batch size."""
    values = {"epochs": chance.of("2", "3"), "size": chance.of("4", "5", "8"), "lr": chance.of("0.1", "0.05")}
    kinds = {"parser": "", "namespace": "", "dataclass": "", "class": "", "plain": ""}
    chance.named("settings", {"parser": ""} if device.options else kinds)
    kind = chance.traits[-1].partition("=")[2]
    seed = chance.of(*_SEEDS)
    definitions = SEED if "seed_everything" in seed else ""
    if kind == "parser":
        code = _PARSER.format(**values, options=device.options if device.options[:1] != "#" else "")
    elif kind == "namespace":
        code = f"$args = argparse.Namespace({_VALUES.format(**values)})"
    elif kind == "plain":
        code = f"$args = SimpleNamespace({_VALUES.format(**values)})"
    else:
        definitions += (_DATACLASS if kind == "dataclass" else _CLASS).format(**values)
        code = "$args = Config()"
    return definitions, Stage("configure", block(code, seed), binds=("args",)), "$args.batch_size"
