"""Scripts that take something from another script, or can only agree about a file in another way than each wants."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import ENGINE, HEAD, MODEL, outputs, reason, write

SAVES = """\
import torch


def save(model, path):
    print("saving", path)
    torch.save(model.state_dict(), path)
"""
BY_PARAMETER = """\
def save(model, path, accelerator):
    accelerator.print("saving", path)
    accelerator.save(accelerator.unwrap_model(model).state_dict(), path)
"""
BY_STATE = """\
import torch
from accelift import PartialState


def save(model, path):
    PartialState().print("saving", path)
    if PartialState().is_main_process:
        torch.save(model.state_dict(), path)
"""
NN = "import torch.nn as nn\n"
MAKES = """\
def make():
    return DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)


"""
FINISHES = 'def finish(model):\n    save(model, "model.pt")\n\n\n'
IN_MAIN = f"""\
{HEAD}from engine import train
from model import Net
from utils import save


{MAKES}{FINISHES}def main():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = make()
    train(model, loader, optimizer)
    finish(model)


if __name__ == "__main__":
    main()
"""
THIRD = IN_MAIN.replace("from utils import save", "from one import make").replace(MAKES, "").replace(FINISHES, "")
FINISHING = THIRD.replace("import make", "import finish, make").replace("import torch\n", f"import torch\n{NN}")
THIRD = THIRD.replace("    finish(model)\n", "")


@pytest.mark.parametrize(
    ("third", "extra", "kept"),
    [
        (THIRD, "", True),  # what it takes from the first script saves nothing
        (THIRD, 'save(Net(), "empty.pt")\n', False),  # which runs where it is imported
        (FINISHING.replace("finish(model)", "finish(nn.Linear(2, 2))"), "", False),
    ],
)
def test_a_script_takes_from_another_what_does_not_use_the_shared_file(
    folder: Path, third: str, extra: str, kept: bool
) -> None:
    head, _, loop = ENGINE.partition("\n\n\n")
    one = IN_MAIN.replace("from engine import train", head).replace(MAKES, f"{loop}\n\n{MAKES}")
    two = one.replace("from model", "from gen import show\nfrom model")
    two = two.replace("    finish", "    show(model)\n    finish")
    show = "def show(model):\n    torch.save(model.fc.weight.sum(), 'a.pt')\n    model.fc.reset_parameters()\n\n\n"
    gen = f'import torch\n\nfrom model import Net\n\n\n{show}if __name__ == "__main__":\n    show(Net())\n'
    write({"one.py": one, "two.py": two, "utils.py": SAVES, "model.py": MODEL, "gen.py": gen})
    found = outputs("one.py", "two.py")
    assert sorted(found) == ["gen.py", "one.py", "two.py", "utils.py"] and found["utils.py"] == BY_STATE
    assert "show(accelerator.unwrap_model(model))" in found["two.py"]
    write({"two.py": one})
    assert outputs("one.py", "two.py")["utils.py"] == BY_PARAMETER


EVALUATION = """\
{}

from model import Net


def evaluate(model):
    return model.fc.weight.sum()


if __name__ == "__main__":
    print({}(Net(), "model.pt"))
"""


@pytest.mark.parametrize(
    ("imports", "call", "kept"),
    [
        ("import utils", "utils.save", True),  # by an attribute of the module
        ("from utils import save", "save", True),
        ("import utils as u", "u.save", True),
        ("import utils", "print", False),
    ],
)
def test_a_file_of_the_script_uses_a_shared_one_where_it_is_run_itself(
    folder: Path, imports: str, call: str, kept: bool
) -> None:
    train = IN_MAIN.replace("from model", "from evaluation import evaluate\nfrom model")
    train = train.replace("    finish", "    print(evaluate(model))\n    finish")
    write({"train.py": train, "evaluation.py": EVALUATION.format(imports, call), "utils.py": SAVES})
    write({"engine.py": ENGINE, "model.py": MODEL})
    found = outputs("train.py")
    assert "accelerator" not in found.get("utils.py", "") if kept else found["utils.py"] == BY_PARAMETER


CHOICE = 'import torch\n\ndevice = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nRATE = 0.1\n'
ON_DEVICE = f"""\
{HEAD}from config import device
from engine import train
from model import Net

model = Net().to(device)
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, loader, optimizer)
"""


@pytest.mark.parametrize("read", ["", "print(device)\n", "print(model(torch.ones(1, 4, device=device)))\n"])
def test_a_device_stays_that_another_script_takes(folder: Path, read: str) -> None:
    """Both change `train`, which cannot stay for the other one; the device can."""
    write({"one.py": ON_DEVICE, "two.py": ON_DEVICE + read})
    write({"engine.py": ENGINE, "model.py": MODEL, "config.py": CHOICE})
    found = outputs("one.py", "two.py")
    assert sorted(found) == ["config.py", "engine.py", "one.py", "two.py"]
    assert "\ndevice = PartialState().device\n" in found["config.py"]


def test_a_device_goes_that_no_other_script_takes(folder: Path) -> None:
    write({"one.py": ON_DEVICE, "engine.py": ENGINE, "model.py": MODEL, "config.py": CHOICE})
    write({"two.py": ON_DEVICE.replace("from config import device\n", "").replace(".to(device)", "")})
    found = outputs("one.py", "two.py")
    assert sorted(found) == ["config.py", "engine.py", "one.py", "two.py"]
    assert found["config.py"] == "RATE = 0.1\n"


ASKS = """\
def train(model, loader, optimizer, use_cuda):
    for x, y in loader:
        if use_cuda:
            x, y = x.cuda(), y.cuda()
"""


def test_scripts_call_a_function_as_before_though_one_might_do_with_less(folder: Path) -> None:
    """A comment keeps the argument of one call; the parameter stays for all."""
    call = "train(model, loader, optimizer, torch.cuda.is_available())\n"
    one = ON_DEVICE.replace("train(model, loader, optimizer)\n", call).replace(
        "device\nfrom engine", "RATE\nfrom engine"
    )
    one = one.replace(".to(device)", "")
    two = one.replace("(model, loader, optimizer, torch", "(model, loader, optimizer,  # all\n      torch")
    engine = ENGINE.replace(ENGINE[ENGINE.index("def train") : ENGINE.index("        optimizer.zero")], ASKS)
    write({"one.py": one, "two.py": two, "engine.py": engine, "model.py": MODEL, "config.py": CHOICE})
    found = outputs("one.py", "two.py")
    assert "def train(model, loader, optimizer, use_cuda, accelerator):" in found["engine.py"]
    assert "optimizer, torch.cuda.is_available(), accelerator)" in found["one.py"]


KEEPS = """\
import torch


class Keeper:
    def __init__(self, path="model.pt"):
        self.path = path
        self.seen = 0

    def __call__(self, model):
        self.seen += 1
        self.keep(model)
{more}
    def keep(self, model):
        torch.save(model.state_dict(), self.path)
"""
KEPT = """\
    def keep(self, model):
        if PartialState().is_main_process:
            torch.save(model.state_dict(), self.path)
"""
LOADS = """
    def load(self, model):
        model.load_state_dict(torch.load(self.path))
"""
LOGS = """
    def log(self):
        torch.save([self.seen], "seen.pt")
"""


def _keeping(other: str, more: str = "", call: str = "keeper(model)") -> dict[str, str]:
    lines = f"    keeper = Keeper()\n    {call}\n"
    one = IN_MAIN.replace("from utils import save", "from utils import Keeper").replace(FINISHES, "")
    one = one.replace("    finish(model)\n", lines)
    return {"one.py": one, "two.py": other, "utils.py": KEEPS.format(more=more), "engine.py": ENGINE, "model.py": MODEL}


@pytest.mark.parametrize(
    ("other", "constructor"),
    [
        ("from utils import Keeper\n\nKeeper()(print)\n", "def __init__(self, path="),
        ("from utils import torch\n\nprint(torch)\n", "def __init__(self, accelerator, path="),
    ],
)
def test_a_class_whose_objects_another_script_makes_asks_for_the_state(
    folder: Path, other: str, constructor: str
) -> None:
    write(_keeping(other))
    texts = outputs("one.py", "two.py")
    asks = "accelerator" not in constructor
    assert constructor in texts["utils.py"]
    assert (KEPT in texts["utils.py"]) is asks
    assert ("    keeper(accelerator.unwrap_model(model))\n" in texts["one.py"]) is asks


@pytest.mark.parametrize(
    ("more", "call"),
    [
        (LOADS, "keeper(model)\n    keeper.load(model)"),  # it would have to wait for the file
        (LOGS, "keeper(model)\n    keeper.log()"),  # no checkpoint: who knows when it is read
    ],
)
def test_a_class_that_another_script_uses_and_that_cannot_do_without_the_accelerator(
    folder: Path, more: str, call: str
) -> None:
    write(_keeping("from utils import Keeper\n\nKeeper()(print)\n", more, call))
    message = "the conversion changes Keeper in utils.py, which two.py uses, too: Keeper() would take other arguments"
    assert reason("one.py") == ("SHARED-FILE", message)
