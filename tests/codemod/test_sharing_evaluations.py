"""Evaluations that files use which are not converted: they stay as they are, and every process makes all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelift_codemod.api import convert_files
from accelift_codemod.options import Options
from accelift_codemod.project import groups
from accelift_codemod.results import FileResult
from projects import ENGINE, MODEL, outputs, reason, script, write

EVALUATE = """\


def evaluate(model, loader, device):
    right = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        right += (model(x).argmax(1) == y).sum().item()
    return right
"""
CALL = "print(evaluate(model, test_loader, device))\n"
IMPORTS = "from engine import evaluate, train\nfrom model import Net"
DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
DATA = "test_loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)\n"
TEST = f"""\
import torch
from torch.utils.data import DataLoader, TensorDataset

from engine import evaluate
from model import Net

{DEVICE}{DATA}model = Net()
print(evaluate(model, test_loader, device))
"""


def trains(imports: str = IMPORTS, call: str = CALL) -> str:
    body = script(imports).replace("model = Net()\n", f"{DEVICE}{DATA}model = Net().to(device)\n")
    return f"{body}{call}"


def project(engine: str = ENGINE + EVALUATE, train: str = "", test: str = TEST) -> None:
    write({"train.py": train or trains(), "engine.py": engine, "model.py": MODEL, "test.py": test})


def told(*names: str) -> dict[str, list[str]]:
    """The findings for scripts and the files that change with them."""
    results: list[FileResult] = groups.flattened(convert_files([(Path(name), True) for name in names], Options()))
    return {Path(r.path).name: [f"{f.code} {f.message}" for f in r.plan.findings] for r in results if r.plan}


@pytest.mark.parametrize("names", [("train.py",), ("engine.py", "model.py", "test.py", "train.py")])
def test_an_evaluation_that_a_script_uses_which_trains_nothing(folder: Path, names: tuple[str, ...]) -> None:
    project()
    found = outputs(*names)
    assert EVALUATE in found["engine.py"] and "accelerator.backward(loss)" in found["engine.py"]
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in found["train.py"]
    assert "device = accelerator.device\n" in found["train.py"]
    assert "accelerator.print(evaluate(model, test_loader, device))" in found["train.py"]
    (note,) = told(*names)["engine.py"]
    assert (
        note.startswith("EVAL-REPLICATED")
        and "evaluate() is used by code that is not converted in this way, too" in note
    )


def test_it_is_shared_out_if_nobody_else_uses_it(folder: Path) -> None:
    project(test="import torch\nfrom engine import train\nfrom model import Net\n\nprint(Net)\n")
    assert "accelerator.gather_for_metrics" in outputs("train.py")["engine.py"]


def test_it_says_once_what_it_says(folder: Path) -> None:
    project(engine=ENGINE + EVALUATE.replace("    return", '    print("right", right)\n    return'))
    found = outputs("train.py")["engine.py"]
    assert 'PartialState().print("right", right)' in found and "def evaluate(model, loader, device):" in found


def test_two_scripts_that_train_and_one_that_does_not(folder: Path) -> None:
    project()
    write({"again.py": trains()})
    found = outputs("again.py", "train.py", "test.py")
    assert sorted(found) == ["again.py", "engine.py", "train.py"] and EVALUATE in found["engine.py"]


def test_an_evaluation_of_the_script_itself(folder: Path) -> None:
    body = trains("from engine import train\nfrom model import Net", call="").partition("torch.manual_seed")
    main = "".join(f"    {line}\n" for line in f"{body[1]}{body[2]}{CALL}".splitlines())
    text = f'{body[0]}{EVALUATE}\n\nif __name__ == "__main__":\n{main}'
    project(ENGINE, text, TEST.replace("from engine", "from train"))
    found = outputs("train.py")
    assert EVALUATE in found["train.py"] and "accelerator.prepare(model, optimizer, loader)" in found["train.py"]


@pytest.mark.parametrize(
    ("evaluate", "call"),
    [
        (EVALUATE, CALL.replace("test_loader", "loader")),  # a share of it, for the loader is prepared
        (EVALUATE, CALL + CALL.replace("test_loader", "loader")),
        (EVALUATE.replace("    return", "    model[0].training = False\n    return"), CALL),  # the wrapper hides it
    ],
)
def test_what_has_to_change(folder: Path, evaluate: str, call: str) -> None:
    project(engine=f"import torch\n{ENGINE}{evaluate}", train=trains(call=call))
    code, message = reason()
    assert code == "SHARED-FILE"
    told = "the conversion changes evaluate in engine.py, which test.py uses, too"
    assert message == f"{told}: evaluate() would take other arguments"


@pytest.mark.parametrize("saves", ['torch.save(model.state_dict(), "model.pt")', 'torch.save(right, "right.pt")'])
def test_an_evaluation_that_saves_asks_for_the_state(folder: Path, saves: str) -> None:
    evaluate = EVALUATE.replace("    return", f"    {saves}\n    return")
    project(engine=f"import torch\n{ENGINE}{evaluate}")
    kept = evaluate.replace(f"    {saves}", f"    if PartialState().is_main_process:\n        {saves}")
    assert kept in outputs("train.py")["engine.py"]
    other = outputs("train.py", options=Options(target="accelerate"))  # its wrapper has other names for the parameters
    assert ("engine.py" in other) is ("model" not in saves)


def test_a_function_that_trains_or_evaluates(folder: Path) -> None:
    engine = """\
        import torch.nn.functional as F


        def run(model, loader, device, optimizer=None):
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                loss = F.cross_entropy(model(x), y)
                if optimizer is not None:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
    """
    engine = "".join(f"{line[8:]}\n" for line in engine.splitlines())
    call = "run(model, test_loader, device)\n"
    imports = "from engine import run\nfrom model import Net"
    train = trains(imports, call).replace("train(model, loader,", "run(model, loader, device,")
    project(engine, train, TEST.replace("import evaluate", "import run").replace("print(evaluate", "(run"))
    message = "the conversion changes run in engine.py, which test.py uses, too: run() would take other arguments"
    assert reason() == ("SHARED-FILE", message)


VALIDATE = """\


def evaluate(model, loader, device):
    right = seen = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y.cuda()).sum().item()
        seen += x.size(0)
    with open("right.txt", "w") as file:
        file.write(str(right / seen))
    return right
"""
GPU = 'device = torch.device("cuda")\n'


@pytest.mark.parametrize("device", [GPU, f"import sys\n{GPU[:-2]} if len(sys.argv) > 1 else 'cpu')\n"])
def test_an_evaluation_that_a_wrapper_moved_the_batches_for(folder: Path, device: str) -> None:
    wrapped = "model = torch.nn.DataParallel(Net()).to(device)\n"
    train = trains().replace("model = Net().to(device)\n", wrapped).replace(DEVICE, device)
    project(ENGINE + VALIDATE, train, TEST.replace("model = Net()\n", wrapped))
    found = outputs("train.py", "engine.py", "model.py", "test.py")
    if device is not GPU:  # where the script may mean the CPU, whoever else calls the function may, too
        assert not found
        return
    assert set(found) == {"train.py", "engine.py"}
    assert "def evaluate(model, loader, device):\n" in found["engine.py"]
    text = " ".join(found["engine.py"].split())
    assert "model(x.to(PartialState().device)).argmax(1) == y.to(PartialState().device)" in text
    assert "    if PartialState().is_main_process:\n        with open(" in found["engine.py"]


LISTED = "test_loader = [(torch.randn(4, 4), torch.zeros(4).long())]\n"


@pytest.mark.parametrize("says", ['    print("right", right)\n', ""])
def test_two_scripts_of_which_one_would_share_it_out(folder: Path, says: str) -> None:
    """Then neither does: one version of the file suits both."""
    engine = ENGINE + EVALUATE.replace("    return", f"{says}    return")
    write({"one.py": trains(), "engine.py": engine, "model.py": MODEL})
    assert "gather_for_metrics" in outputs("one.py")["engine.py"]
    write({"two.py": trains().replace(DATA, LISTED)})
    found = outputs("one.py", "two.py")
    assert sorted(found) == ["engine.py", "one.py", "two.py"] and "gather_for_metrics" not in found["engine.py"]
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in found["one.py"]
    assert ('accelerator.print("right", right)' in found["engine.py"]) is bool(says)
