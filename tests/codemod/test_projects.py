"""Scripts and the project files that they import: converted as one program, or left alone with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from accelift_codemod.api import convert_file, convert_files
from accelift_codemod.discover import Files
from accelift_codemod.options import Options
from accelift_codemod.plan import Outcome, Severity
from accelift_codemod.project.groups import flattened
from cli_runs import convert, tree
from projects import ENGINE, HEAD, LIFTED_ENGINE, MODEL, lifted, only, outputs, reason, script, write

# ---- ways to import

IMPORTS = {
    "names": ("from engine import train\nfrom model import Net", "Net", "train"),
    "renamed": ("from engine import train as fit\nfrom model import Net as Classifier", "Classifier", "fit"),
    "modules": ("import engine\nimport model as models", "models.Net", "engine.train"),
    "rebound": ("import engine\nimport model", "model.Net", "engine.train"),
    "star": ("from engine import *\nfrom model import *", "Net", "train"),
    "either": (
        "try:\n    from engine import train\nexcept ImportError:\n    from engine import train\nimport model as m",
        "m.Net",
        "train",
    ),
}


@pytest.mark.parametrize("style", IMPORTS)
def test_ways_to_import(folder: Path, style: str) -> None:
    imports, net, train = IMPORTS[style]
    write({"train.py": script(imports, net, train), "engine.py": ENGINE, "model.py": MODEL})
    assert outputs("train.py") == {"train.py": lifted(imports, net, train), "engine.py": LIFTED_ENGINE}


@pytest.mark.parametrize(
    ("made", "seen"),
    [
        ("model = model.Net()", True),
        ("other = 1\nmodel = model.Net()", True),
        ("for _ in range(1):\n    model = model.Net()", False),  # another time, it is no module any more
        ("model = something(model)\nmodel = model.Net()", False),
    ],
)
def test_a_module_whose_name_the_script_binds_anew(folder: Path, made: str, seen: bool) -> None:
    text = script("from engine import train\nimport model").replace("model = Net()", made)
    layers = MODEL.replace("nn.Linear(4, 2)", "nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))")
    write({"train.py": text, "engine.py": ENGINE, "model.py": layers})
    results = flattened(convert_files([(Path("train.py"), True)], Options()))
    codes = [finding.code for r in results if r.plan is not None for finding in r.plan.findings]
    assert ("NOTE-BN" in codes) == seen


WRITER = "import numpy as np\n\n\ndef write(out):\n    path = f'{out}/a.npy'\n    np.save(path, np.zeros(3))\n"


@pytest.mark.parametrize("listed", ["folder", "other"])
def test_the_accelerator_is_made_before_all_wait_for_files_of_another_module(folder: Path, listed: str) -> None:
    text = script("import os\nfrom data import write\nfrom engine import train\nfrom model import Net")
    begin = f'folder, other = "x", "y"\nwrite(folder)\nnames = os.listdir({listed})\nloader = '
    text = text.replace("loader = ", begin, 1).replace(
        "Net()", 'Net().to("cuda" if torch.cuda.is_available() else "cpu")'
    )
    write({"train.py": text, "engine.py": ENGINE, "model.py": MODEL, "data.py": WRITER})
    made = outputs("train.py")
    assert "PartialState().is_main_process" in made["data.py"]
    places = [made["train.py"].find(part) for part in ("= Accelerator(", "wait_for_everyone()", "names =")]
    assert (places == sorted(places) and -1 not in places) == (listed == "folder")
    assert ("wait_for_everyone" in made["train.py"]) == (listed == "folder")


PACKAGES = {
    "submodule": ("from lib.engine import train", "train", {"lib/__init__.py": ""}),
    "no init": ("from lib.engine import train", "train", {}),
    "whole path": ("import lib.engine", "lib.engine.train", {"lib/__init__.py": ""}),
    "module of a package": ("from lib import engine", "engine.train", {"lib/__init__.py": ""}),
    "handed on": ("from lib import train", "train", {"lib/__init__.py": "from .engine import train\n"}),
    "handed on renamed": ("from lib import fit", "fit", {"lib/__init__.py": "from .engine import train as fit\n"}),
    "star in a package": ("from lib import *", "train", {"lib/__init__.py": "from .engine import *\n"}),
    "through a package": ("import lib", "lib.engine.train", {"lib/__init__.py": "from . import engine\n"}),
    "path": ("import sys\nsys.path.append('lib')\nfrom engine import train", "train", {}),
    "path of the file": (
        "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'lib'))\nimport engine",
        "engine.train",
        {},
    ),
    "path by pathlib": (
        "import sys\nfrom pathlib import Path\nROOT = Path(__file__).resolve().parent\n"
        "sys.path.insert(0, str(ROOT / 'lib'))\nfrom engine import train",
        "train",
        {},
    ),
    "path through others": (
        "import os.path as osp\nimport sys\nfrom pathlib import Path\n"
        "sys.path += []\nsys.path.append(osp.join(str(Path(__file__).absolute().parents[0]), 'lib'))\nimport engine",
        "engine.train",
        {},
    ),
}


@pytest.mark.parametrize("style", PACKAGES)
def test_packages(folder: Path, style: str) -> None:
    imports, train, files = PACKAGES[style]
    imports += "\nfrom model import Net"
    write({"train.py": script(imports, train=train), "lib/engine.py": ENGINE, "model.py": MODEL, **files})
    assert outputs("train.py") == {"train.py": lifted(imports, train=train), "lib/engine.py": LIFTED_ENGINE}


def test_package_around_a_script(folder: Path) -> None:
    imports = "from lib.engine import train\nfrom lib.model import Net"
    write({"examples/digits/train.py": script(imports), "lib/engine.py": ENGINE, "lib/model.py": MODEL})
    found = outputs("examples/digits/train.py")
    assert found == {"examples/digits/train.py": lifted(imports), "lib/engine.py": LIFTED_ENGINE}


def test_relative_imports_between_files(folder: Path) -> None:
    imports = "from lib.trainer import run as train\nfrom lib.model import Net"
    trainer = "from .engine import train\n\n\ndef run(model, loader, optimizer):\n    train(model, loader, optimizer)\n"
    write({"train.py": script(imports), "lib/engine.py": ENGINE, "lib/model.py": MODEL, "lib/trainer.py": trainer})
    assert outputs("train.py") == {
        "train.py": lifted(imports),
        "lib/engine.py": LIFTED_ENGINE,
        "lib/trainer.py": trainer.replace("optimizer)", "optimizer, accelerator)"),
    }


def test_import_in_a_function(folder: Path) -> None:
    body = script("from model import Net").replace("train(model", "fit(model")
    body = body.replace("\ntorch.manual_seed(0)\n", "\ndef fit(*given):\n    pass\n\n\ntorch.manual_seed(0)\n", 1)
    fit = "def fit(model, loader, optimizer):\n    from engine import train\n\n    train(model, loader, optimizer)\n"
    body = body.replace("def fit(*given):\n    pass\n", fit)
    write({"train.py": body, "engine.py": ENGINE, "model.py": MODEL})
    found = outputs("train.py")
    assert found["engine.py"] == LIFTED_ENGINE
    assert "    train(model, loader, optimizer, accelerator)\n" in found["train.py"]


# ---- what travels

CONFIG = 'import torch\n\ndevice = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nRATE = 0.1\n'


def on_device(text: str) -> str:
    return text.replace(
        "    for x, y in loader:\n", "    for x, y in loader:\n        x, y = x.to(device), y.to(device)\n"
    )


def test_device_of_another_file(folder: Path) -> None:
    imports = "from config import device\nfrom engine import train\nfrom model import Net"
    engine = "from config import device\n" + on_device(ENGINE)
    write(
        {
            "train.py": script(imports).replace("Net()", "Net().to(device)"),
            "engine.py": engine,
            "model.py": MODEL,
            "config.py": CONFIG,
        }
    )
    found = outputs("train.py")
    assert sorted(found) == ["config.py", "engine.py", "train.py"]
    assert found["engine.py"] == LIFTED_ENGINE
    assert found["config.py"] == "RATE = 0.1\n"  # nothing reads the device any more
    assert "from config import device" not in found["train.py"]
    assert "accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))\n" in (
        found["train.py"].replace("(\n    ", "(").replace("\n)\n", ")\n")
    )


def test_device_of_another_file_that_others_read(folder: Path) -> None:
    imports = "from config import device\nfrom engine import train\nfrom model import Net"
    body = script(imports).replace("Net()", "Net().to(device)")
    write({"train.py": body, "engine.py": ENGINE, "model.py": MODEL, "config.py": CONFIG})
    write({"predict.py": "from config import device\nprint(device)\n"})
    assert outputs("train.py")["config.py"] == (
        "from accelift import PartialState\n\ndevice = PartialState().device\nRATE = 0.1\n"
    )


@pytest.mark.parametrize(
    "line", ['__all__ = ["device", "RATE"]', 'import sys\n\nDEVICE = getattr(sys.modules[__name__], "device")']
)
def test_device_of_another_file_that_a_text_names(folder: Path, line: str) -> None:
    """`from config import *` fails where `__all__` lists what is not there."""
    imports = "from config import device\nfrom engine import train\nfrom model import Net"
    body = script(imports).replace("Net()", "Net().to(device)")
    write({"train.py": body, "engine.py": ENGINE, "model.py": MODEL, "config.py": f"{CONFIG}\n\n{line}\n"})
    assert "\ndevice = PartialState().device\nRATE = 0.1\n" in outputs("train.py")["config.py"]


@pytest.mark.parametrize(("line", "left"), [("", True), ("\nprint(config.device)\n", False)])
def test_device_of_a_class_that_only_others_read(folder: Path, line: str, left: bool) -> None:
    imports = "from config import Config\nfrom engine import train\nfrom model import Net"
    body = script(imports).replace("Net()", "Net().to(config.device)")
    settings = (
        "from dataclasses import dataclass\n\nimport torch\n\n\n@dataclass\nclass Config:\n"
        '    device: str = "cuda" if torch.cuda.is_available() else "cpu"\n'
    )
    write(
        {
            "train.py": body.replace("\ntorch.manual_seed(0)\n", "\nconfig = Config()\ntorch.manual_seed(0)\n", 1)
            + line,
            "engine.py": ENGINE,
            "model.py": MODEL,
            "config.py": settings,
        }
    )
    assert ("config.py" not in outputs("train.py")) == left


def test_device_of_another_file_before_the_arguments(folder: Path) -> None:
    imports = "import argparse\nfrom config import device\nfrom engine import train\nfrom model import Net"
    body = script(imports).replace(
        "\ntorch.manual_seed(0)\n",
        "\nparser = argparse.ArgumentParser()\nparser.add_argument('--cpu', action='store_true')\n"
        "args = parser.parse_args()\nown = torch.device('cpu' if args.cpu else 'cuda')\ntorch.manual_seed(0)\n",
        1,
    )
    write(
        {
            "train.py": body.replace("Net()", "Net().to(own)"),
            "engine.py": "from config import device\n" + on_device(ENGINE),
            "model.py": MODEL,
            "config.py": CONFIG,
        }
    )
    code, message = reason()
    assert code == "DEV-IMPORT-ORDER" and message.startswith(
        "config.py:3: `device` is chosen when this file is imported"
    )


@pytest.mark.parametrize("annotated", [False, True])
def test_device_as_a_parameter_becomes_the_accelerator(folder: Path, annotated: bool) -> None:
    imports = "from engine import train\nfrom model import Net"
    engine = on_device(ENGINE).replace("optimizer):", "optimizer, device):")
    if annotated:
        engine = f"import torch\n{engine}".replace("device):", "device: torch.device):")
    body = script(imports).replace("optimizer)\n", "optimizer, device)\n")
    body = body.replace(
        "\ntorch.manual_seed(0)\n",
        '\ndevice = torch.device("cuda" if torch.cuda.is_available() else "cpu")\ntorch.manual_seed(0)\n',
        1,
    )
    body = body.replace("optimizer, device)\n", "optimizer, device)\n").replace("Net()", "Net().to(device)")
    write({"train.py": body, "engine.py": engine, "model.py": MODEL})
    found = outputs("train.py")
    head, definition = LIFTED_ENGINE.split("\n\n\n")
    definition = definition.replace("accelerator):", "accelerator: Accelerator):")
    typed = f"{head}\nfrom accelift import Accelerator\n\n\n{definition}"
    assert found["engine.py"] == (typed if annotated else LIFTED_ENGINE)
    assert found["train.py"].endswith("train(model, loader, optimizer, accelerator)\n")


def test_the_type_of_the_accelerator_is_imported_where_parameters_have_one(folder: Path) -> None:
    typed = ENGINE.replace("model, loader, optimizer):", "model: object, loader: list, optimizer: object{}):")
    write(
        {
            "train.py": script("from engine import train\nfrom model import Net"),
            "engine.py": typed.format(""),
            "model.py": MODEL,
        }
    )
    after = typed.format(", accelerator: Accelerator").replace("loss.backward()", "accelerator.backward(loss)")
    after = after.replace("functional as F\n", "functional as F\nfrom accelift import Accelerator\n")
    assert outputs("train.py")["engine.py"] == after


TRAINER = """\
class {name}:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            {loss}.backward()
            self.optimizer.step()
"""


def test_trainer_class(folder: Path) -> None:
    loss = "F.cross_entropy(self.model(x), y)"
    trainer = "import torch\nimport torch.nn.functional as F\n\n\n" + TRAINER.format(name="Trainer", loss=loss)
    main = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from model import Net
from trainer import Trainer

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)
trainer = Trainer(Net(), loader)
trainer.fit()
"""
    write({"train.py": main, "trainer.py": trainer, "model.py": MODEL})
    found = outputs("train.py")
    assert "loader = accelerator.prepare(loader)\ntrainer = Trainer(Net(), loader, accelerator)\n" in found["train.py"]
    assert (
        "    def __init__(self, model, loader, accelerator):\n        self.accelerator = accelerator\n"
        in (found["trainer.py"])
    )
    assert "self.accelerator.backward(F.cross_entropy(self.model(x), y))\n" in found["trainer.py"]


def test_evidence_names_the_other_file(folder: Path) -> None:
    write(
        {
            "train.py": script("import engine\nfrom model import Net", train="engine.train"),
            "engine.py": ENGINE,
            "model.py": MODEL,
        }
    )
    data = json.loads(convert("train.py", "--format", "json").stdout)
    assert [f["path"] for f in data["files"]] == ["train.py", "engine.py"]
    edits = [e for f in data["files"] for e in f["edits"]]
    assert all("»" not in json.dumps(e, ensure_ascii=False) for e in edits)
    assert {e["rule"] for e in data["files"][1]["edits"]} == {"TRAVEL", "BACKWARD"}


# ---- names stay apart


def test_same_names_in_several_files(folder: Path) -> None:
    engine = "total = 0\n\n\ndef helper(loss):\n    return loss\n\n\n" + ENGINE.replace(
        "loss.backward()", "helper(loss).backward()"
    )
    body = script("import engine\nfrom model import Net", train="engine.train")
    body = body.replace(
        "\ntorch.manual_seed(0)\n",
        "\ntotal = None\n\n\ndef helper(loss):\n    return None\n\n\ntorch.manual_seed(0)\n",
        1,
    )
    write({"train.py": body, "engine.py": engine, "model.py": MODEL})
    found = outputs("train.py")
    assert "        accelerator.backward(helper(loss))\n" in found["engine.py"]


def test_builtin_that_the_script_hides(folder: Path) -> None:
    """`print` of the script is its own function; the one of the other file is Python's."""
    engine = ENGINE + "    print('done')\n"
    body = script("from engine import train\nfrom model import Net")
    body = (
        body.replace(
            "\ntorch.manual_seed(0)\n", "\n\ndef print(*words):\n    return words\n\n\ntorch.manual_seed(0)\n", 1
        )
        + "print('end')\n"
    )
    write({"train.py": body, "engine.py": engine, "model.py": MODEL})
    found = outputs("train.py")
    assert found["engine.py"] == LIFTED_ENGINE + "    accelerator.print('done')\n"
    assert found["train.py"].endswith("\nprint('end')\n")


def test_name_of_the_accelerator(folder: Path) -> None:
    engine = "accelerator = 1\n\n\n" + ENGINE
    write(
        {"train.py": script("from engine import train\nfrom model import Net"), "engine.py": engine, "model.py": MODEL}
    )
    found = outputs("train.py")
    assert "def train(model, loader, optimizer, accel):\n" in found["engine.py"]
    assert found["train.py"].endswith("train(model, loader, optimizer, accel)\n")


# ---- what is left alone

ALONE = (
    script("from model import Net", train="fit")
    .replace(
        "\ntorch.manual_seed(0)\n",
        "\n\ndef fit(model, loader, optimizer):"
        + ENGINE.partition("def train(model, loader, optimizer):")[2]
        + "\n\ntorch.manual_seed(0)\n",
        1,
    )
    .replace("import torch\n", "import torch\nimport torch.nn.functional as F\n", 1)
)


def test_files_that_need_no_change_have_none(folder: Path) -> None:
    write({"train.py": ALONE, "model.py": MODEL})
    assert list(outputs("train.py")) == ["train.py"]
    assert only().members == ()


JOB = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    loader = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=4)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_a_script_of_which_only_other_files_change(folder: Path) -> None:
    write({"job.py": JOB, "train.py": "import torch\nfrom job import main\n\ntorch.manual_seed(0)\nmain()\n"})
    found = outputs("train.py")
    assert found["train.py"] == Path("train.py").read_text() and "accelerator.prepare(" in found["job.py"]
    write(found)
    assert only().outcome is Outcome.NOTHING


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("def train(:\n", id="does not parse"),
        pytest.param("print 'x'\n\n\ndef train(*a):\n    pass\n", id="python 2"),
        pytest.param("def train(*a):\n    pass\n", id="does not train"),
        pytest.param("", id="empty"),
        pytest.param(
            "train = 1\n\n\ndef other():\n    global train\n    train = None\n", id="bound again by a function"
        ),
    ],
)
def test_imports_that_lead_nowhere(folder: Path, engine: str) -> None:
    body = script("from engine import train\nfrom model import Net")
    write({"train.py": body, "engine.py": engine, "model.py": MODEL})
    result = only()
    assert result.output is None and result.outcome is Outcome.NOTHING and not result.error


def test_a_script_is_converted_alone_if_an_import_cannot_be_read(folder: Path) -> None:
    alone = outputs_of(ALONE)
    body = ALONE.replace("from model", "from broken import helper\nfrom model", 1)
    write({"train.py": body, "model.py": MODEL, "broken.py": "def helper(:\n"})
    assert outputs("train.py")["train.py"].replace("from broken import helper\n", "") == alone


def outputs_of(text: str) -> str:
    write({"train.py": text, "model.py": MODEL})
    return outputs("train.py")["train.py"]


def test_globals_set_from_outside(folder: Path) -> None:
    """A function that another file replaces is not known to be the one that is called."""
    body = script("import engine\nfrom model import Net", train="engine.train")
    body = body.replace("\ntorch.manual_seed(0)\n", "\nengine.train = print\ntorch.manual_seed(0)\n", 1)
    write({"train.py": body, "engine.py": ENGINE, "model.py": MODEL})
    result = only()
    assert result.output is None and not result.members


def test_own_module_before_a_library_of_its_name(folder: Path) -> None:
    """A folder called as a library that is known does not hide it."""
    write({"train.py": ALONE, "model.py": MODEL, "torch/__init__.py": "def zeros(*a):\n    pass\n"})
    assert list(outputs("train.py")) == ["train.py"]


def test_imports_in_a_circle(folder: Path) -> None:
    engine = "import helper\n" + ENGINE.replace("loss.backward()", "helper.log(loss)\n        loss.backward()")
    helper = "import engine\n\n\ndef log(loss):\n    return engine.F\n"
    imports = "from engine import train\nfrom model import Net"
    write({"train.py": script(imports), "engine.py": engine, "helper.py": helper, "model.py": MODEL})
    assert "        accelerator.backward(loss)\n" in outputs("train.py")["engine.py"]


def test_names_handed_around_in_a_circle(folder: Path) -> None:
    write(
        {
            "train.py": script("from a import train\nfrom model import Net"),
            "a.py": "from b import train\n",
            "b.py": "from a import train\n",
            "model.py": MODEL,
        }
    )
    assert only().output is None


def test_the_script_imported_by_what_it_imports(folder: Path) -> None:
    """That is a second run of the script under another name: nothing is known of it."""
    engine = "from train import loader as other\n" + ENGINE
    write(
        {"train.py": script("from engine import train\nfrom model import Net"), "engine.py": engine, "model.py": MODEL}
    )
    assert outputs("train.py")["engine.py"] == "from train import loader as other\n" + LIFTED_ENGINE


def test_main_blocks_of_imported_files_do_not_run(folder: Path) -> None:
    block = "\n\nif __name__ == '__main__':\n    print(F)\n"
    write(
        {
            "train.py": script("from engine import train\nfrom model import Net"),
            "engine.py": ENGINE + block,
            "model.py": MODEL,
        }
    )
    assert outputs("train.py")["engine.py"] == LIFTED_ENGINE + block


def test_main_block_that_uses_what_would_change(folder: Path) -> None:
    block = "\n\nif __name__ == '__main__':\n    train(None, [], None)\n"
    write(
        {
            "train.py": script("from engine import train\nfrom model import Net"),
            "engine.py": ENGINE + block,
            "model.py": MODEL,
        }
    )
    message = "the conversion changes train in engine.py, which its own `if __name__` block uses, too"
    message += ": train() would take other arguments"
    assert reason() == ("SHARED-FILE", message)


DATA = (
    HEAD
    + "\ntorch.manual_seed(0)\n"
    + "loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)\n"
)


def without_loader(text: str) -> str:
    return "".join(line for line in text.splitlines(True) if not line.startswith("loader ="))


def test_loader_made_by_another_file(folder: Path) -> None:
    imports = "from data import loader\nfrom engine import train\nfrom model import Net"
    write({"train.py": without_loader(script(imports)), "data.py": DATA, "engine.py": ENGINE, "model.py": MODEL})
    assert outputs("train.py") == {"train.py": without_loader(lifted(imports)), "engine.py": LIFTED_ENGINE}


def test_loader_made_by_another_file_and_used_by_a_third(folder: Path) -> None:
    imports = "from data import loader\nfrom engine import train\nfrom model import Net"
    engine = "from data import loader\n\n" + ENGINE.replace("model, loader, ", "model, ")
    body = without_loader(script(imports)).replace("model, loader, ", "model, ")
    write({"train.py": body, "data.py": DATA, "engine.py": engine, "model.py": MODEL})
    code, message = reason()
    assert code == "PREP-NO-POINT"
    assert (
        message
        == "engine.py:7: `data.loader` is prepared in another file than this, which would go on using the original"
    )


# ---- the command line

FILES = {"train.py": script("from engine import train\nfrom model import Net"), "engine.py": ENGINE, "model.py": MODEL}
DONE = {"train.py": lifted("from engine import train\nfrom model import Net"), "engine.py": LIFTED_ENGINE}


def test_write(folder: Path) -> None:
    write(FILES)
    ran = convert("train.py", "--write")
    assert (ran.code, ran.lines) == (
        0,
        ["train.py: converted", "train.py: 1 note (-v shows them)", "engine.py: converted", "2 converted"],
    )
    assert {name: Path(name).read_text() for name in FILES} == {**FILES, **DONE}
    again = convert(".", "--check")
    assert again.code == 0 and {name: Path(name).read_text() for name in FILES} == {**FILES, **DONE}


@pytest.mark.parametrize("arguments", [(".",), ("train.py", "engine.py"), ("engine.py", "train.py"), (".", "-j", "2")])
def test_each_file_is_shown_once(folder: Path, arguments: tuple[str, ...]) -> None:
    write(FILES)
    data = json.loads(convert(*arguments, "--format", "json").stdout)
    files = {f["path"]: f for f in data["files"]}
    assert len(files) == len(data["files"])
    assert files["engine.py"]["outcome"] == "converted"
    assert data["summary"]["converted"] == 2
    patch = "".join(f["diff"] for f in data["files"])
    assert "--- a/engine.py\n" in patch and "--- a/train.py\n" in patch


def test_output(folder: Path) -> None:
    write({"src/" + name: text for name, text in FILES.items()})
    assert convert("src", "--output", "out").code == 0
    assert {p.name: p.read_text() for p in Path("out").iterdir()} == DONE | {"model.py": MODEL}
    assert Path("src/engine.py").read_text() == ENGINE


PACKAGE = {
    "conf.yaml": "lr: 0.1\n",
    "src/__init__.py": "",
    "src/train.py": script("from src.engine import train\nfrom src.nets.model import Net"),
    "src/engine.py": ENGINE,
    "src/nets/__init__.py": "from .sizes import SIZE\n",
    "src/nets/sizes.py": "SIZE = 4\n",
    "src/nets/model.py": MODEL,
    "src/unused.py": "import torch\n",
}
CHANGED = {
    "src/train.py": lifted("from src.engine import train\nfrom src.nets.model import Net"),
    "src/engine.py": LIFTED_ENGINE,
}


@pytest.mark.parametrize("path", ["src", "src/train.py"])
def test_output_has_what_scripts_import_where_they_look_for_it(path: str, folder: Path) -> None:
    write(PACKAGE)
    assert convert(path, "--output", "out").code == 0
    left_out = ("conf.yaml", "src/unused.py")
    assert {name: data.decode() for name, data in tree(Path("out")).items()} == {
        name: text for name, text in (PACKAGE | CHANGED).items() if name not in left_out
    }
    assert {name: Path(name).read_text() for name in PACKAGE} == PACKAGE


def test_what_was_written_elsewhere_is_in_nobodys_way(folder: Path) -> None:
    write(PACKAGE)
    assert convert("src", "--output", "out").code == 0
    assert convert("src", "--write").code == 0
    assert {name: Path(name).read_text() for name in PACKAGE} == PACKAGE | CHANGED


def test_output_has_the_folders_that_scripts_look_in(folder: Path) -> None:
    imports = "import sys\nsys.path.append('..')\nfrom lib.engine import train\nfrom lib.model import Net"
    write({"tools/train.py": script(imports), "lib/engine.py": ENGINE, "lib/model.py": MODEL})
    assert convert("tools", "--output", "out").code == 0
    assert sorted(tree(Path("out"))) == ["lib/engine.py", "lib/model.py", "tools/train.py"]


def test_packages_around_a_script_that_imports_nothing_of_them_move_nothing(folder: Path) -> None:
    write({"src/__init__.py": "", "src/train.py": ALONE, "src/model.py": MODEL, "src/engine.py": ENGINE})
    assert convert("src/train.py", "--output", "out").code == 0
    assert sorted(tree(Path("out"))) == ["__init__.py", "model.py", "train.py"]


def test_a_script_whose_conversion_changes_only_what_it_imports(folder: Path) -> None:
    main, body = "from training import run\n\nrun()\n", script("").removeprefix(HEAD).replace("\n", "\n    ")
    write({"start.py": main, "training.py": f"{HEAD}{MODEL}\n{ENGINE}\n\ndef run():{body.rstrip()}\n"})
    ran = convert("start.py", "--write")
    line = "start.py: converted, by changes in files that it imports"
    assert (ran.code, ran.lines[:2]) == (0, [line, "training.py: converted"])
    assert Path("start.py").read_text() == main
    assert "accelerator.prepare" in Path("training.py").read_text()


def test_all_files_or_none(folder: Path) -> None:
    write(FILES)
    Path("engine.py").chmod(0o444)
    ran = convert("train.py", "--write")
    assert ran.code == 2
    assert ran.lines[0] == "engine.py: is read-only; make it writable, or use --output DIR"
    assert {name: Path(name).read_text() for name in FILES} == FILES
    assert sorted(tree(folder)) == sorted([*FILES, "pyproject.toml"])


def test_from_stdin_nothing_else_is_touched(folder: Path) -> None:
    write(FILES)
    ran = convert("-", "--stdin-filename", "train.py", "--write", stdin=FILES["train.py"].encode())
    assert ran.stdout == FILES["train.py"].encode()
    assert {name: Path(name).read_text() for name in FILES} == FILES


def test_a_library_file_by_itself(folder: Path) -> None:
    write(FILES)
    result = convert_file(Path("engine.py"), Options())
    assert result.outcome is Outcome.NOTHING


def test_a_file_that_begins_with_an_import_that_goes(folder: Path) -> None:
    """It begins with what comes after it, not with blank lines."""
    body = script("from engine import train\nfrom model import Net\nfrom saving import save") + "save(model)\n"
    saving = "import torch\n\n\ndef save(model):\n    torch.save(model.state_dict(), 'model.pt')\n"
    write({"train.py": body, "engine.py": ENGINE, "model.py": MODEL, "saving.py": saving})
    assert outputs("train.py")["saving.py"].splitlines() == [
        "def save(model, accelerator):",
        "    accelerator.save(accelerator.unwrap_model(model).state_dict(), 'model.pt')",
    ]


def test_every_run_looks_at_the_files_anew(folder: Path) -> None:
    write({"train.py": script("from engine import train\nfrom model import Net"), "model.py": MODEL})
    assert only().output is None
    write({"engine.py": ENGINE})
    assert sorted(outputs("train.py")) == ["engine.py", "train.py"]
    write({"other.py": "from engine import train\n\nprint(train)\n"})
    assert reason()[0] == "SHARED-FILE"
    write({"engine.py": "train = print\n"})
    assert only().output is None


def test_trainer_with_a_base_in_another_file(folder: Path) -> None:
    base = "import torch\n\n\n" + TRAINER.format(name="Base", loss="self.loss(x, y)")
    trainer = """\
import torch.nn.functional as F
from base import Base


class Trainer(Base):
    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)
"""
    main = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from model import Net
from trainer import Trainer

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)
trainer = Trainer(Net(), loader)
trainer.fit()
"""
    write({"train.py": main, "trainer.py": trainer, "base.py": base, "model.py": MODEL})
    found = outputs("train.py")
    assert sorted(found) == ["base.py", "train.py"]
    assert "            self.accelerator.backward(self.loss(x, y))\n" in found["base.py"]
    assert "trainer = Trainer(Net(), loader, accelerator)\n" in found["train.py"]


TRAINING = """\
import torch
from torch.utils.data import DataLoader, TensorDataset


def train(epochs):
    loader = DataLoader(TensorDataset(torch.ones(8, 2), torch.ones(8, 1)), batch_size=4)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
"""


CALLS = ['if __name__ == "__main__":\n    train(3)\n', "x = train(3)\n", "for n in (3,):\n    train(n)\n"]


@pytest.mark.parametrize("between", [{}, {"run/__init__.py": "import sys, trainer\ntrain = trainer.train\n"}])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("call", CALLS)
def test_a_script_that_leaves_the_training_to_another_file(
    between: dict[str, str], whole: bool, call: str, tmp_path: Path
) -> None:
    """It need not mention torch itself."""
    module = "run" if between else "trainer"
    main = f"from {module} import train\n\n{call}"
    files = {
        "main.py": main,
        "trainer.py": TRAINING,
        **between,
        "other.py": 'if __name__ == "__main__":\n    print 1\n',
        "library.py": "import trainer\n\nNAMES = dict(a=1)\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = Files()
    found.add(tmp_path if whole else tmp_path / "main.py")
    results = {Path(r.path).name: r for r in flattened(convert_files(list(found.named.items()), Options()))}
    assert results["main.py"].plan is not None and not results["main.py"].skipped
    assert b"accelerator.backward" in (results["trainer.py"].output or b"")
    assert not whole or (results["other.py"].skipped and results["library.py"].skipped)


def test_files_that_cannot_be_looked_at_together_are_told_of(folder: Path) -> None:
    text = script("from choices import choose\nfrom engine import train\nfrom model import Net")
    choices = "import config\n\n\ndef choose(lr):\n    config.lr = lr\n"
    files = {"train.py": text.replace("loader = ", "choose(0.2)\nloader = ", 1), "config.py": "lr = 0.1\n"}
    for setting, told in ((choices, True), (choices.replace("config.lr = lr", "print(config.lr, lr)"), False)):
        write({**files, "choices.py": setting, "engine.py": ENGINE, "model.py": MODEL})
        (result,) = [r for r in convert_files([(Path("train.py"), True)], Options()) if r.path == "train.py"]
        assert result.plan is not None
        found = [f.message for f in result.plan.findings if f.code == "NOT-LINKED"]
        assert bool(found) == told
        assert not told or "choices.py:5 sets a global of config.py" in found[0]


BROKEN = ", which it imports, does not parse ('(' was never closed); correct the syntax"


@pytest.mark.parametrize(
    ("imported", "text", "outcome", "told"),
    [
        ("engine.py", ENGINE + "x = (\n", "nothing to do", f"line 10 of engine.py{BROKEN}"),  # the training is in there
        ("helper.py", "import torch\nx = (\n", "converted with findings", f"line 2 of helper.py{BROKEN}"),
        ("helper.py", "print 'x'\n", "converted with findings", "line 1 of helper.py, which it imports, is written in"),
        ("helper.py", "", "converted", ""),
        ("engine.py", ENGINE, "converted", ""),
    ],
)
def test_imported_files_that_do_not_parse_are_told_of(
    folder: Path, imported: str, text: str, outcome: str, told: str
) -> None:
    files = {"engine.py": ENGINE, "model.py": MODEL, "helper.py": "x = 1\n"}
    write(
        {"train.py": script("import helper\nfrom engine import train\nfrom model import Net"), **files, imported: text}
    )
    (result,) = [r for r in convert_files([(Path("train.py"), True)], Options()) if r.path == "train.py"]
    assert result.plan is not None and result.outcome.value == outcome
    found = [str(f) for f in result.plan.findings if f.code == "NOT-LINKED"]
    assert len(found) == bool(told) and all(f.startswith(f"NOT-LINKED {told}") for f in found)
    assert outcome != "nothing to do" or f"NOT-LINKED {result.plan.reason}" in found[0]


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ("sys.path.insert(0, 'a')\nsys.path.insert(0, 'b')", "b/engine.py"),  # the later one comes first
        ("sys.path.append('a')\nsys.path.append('b')", "a/engine.py"),
        ("sys.path.append('a')\nsys.path.insert(0, 'b')", "b/engine.py"),
        ("sys.path.append('a')\nsys.path.insert(1, 'b')", "b/engine.py"),  # behind the script's own folder
        ("sys.path.append('a')\nsys.path.insert(2, 'b')", "a/engine.py"),
    ],
)
def test_the_order_of_folders_on_the_path(folder: Path, paths: str, found: str) -> None:
    imports = f"import sys\n{paths}\nfrom engine import train\nfrom model import Net"
    write({"train.py": script(imports), "a/engine.py": ENGINE, "b/engine.py": ENGINE, "model.py": MODEL})
    assert outputs("train.py") == {"train.py": lifted(imports), found: LIFTED_ENGINE}


ADDS = "import os.path as osp\nimport sys\n\n\ndef add_path(path):\n    if path not in sys.path:\n"
ADDS += "        sys.path.insert(0, path)\n\n\nhere = osp.dirname(__file__)\nadd_path(osp.join(here, '..', 'lib'))\n"


@pytest.mark.parametrize(
    ("imports", "files", "known"),
    [
        ("import _init_paths", {"_init_paths.py": "import sys\nsys.path.insert(0, 'lib')\n"}, True),
        ("from _init_paths import *", {"_init_paths.py": "import sys\nsys.path.append('lib')\n"}, True),
        ("import tools.paths", {"tools/paths.py": ADDS}, True),
        ("from tools.paths import add_path", {"tools/paths.py": ADDS}, True),
        (
            "import a",
            {"a.py": "import b, sys\nassert sys.path\n", "b.py": "import sys\nsys.path.append('lib')\n"},
            True,
        ),
        # what runs only where the module is started, or nobody calls
        (
            "import _init_paths",
            {"_init_paths.py": "import sys\nif __name__ == '__main__':\n    sys.path.append('lib')\n"},
            False,
        ),
        ("import _init_paths", {"_init_paths.py": "import sys\ndef f():\n    sys.path.append('lib')\n"}, False),
        ("import _init_paths", {"_init_paths.py": "import sys\nsys.path.append(sys.argv[1])\n"}, False),
        ("import json", {"_init_paths.py": "import sys\nsys.path.insert(0, 'lib')\n"}, False),  # which nobody imports
    ],
)
def test_folders_that_a_module_puts_on_the_path(folder: Path, imports: str, files: dict[str, str], known: bool) -> None:
    text = script(f"{imports}\nfrom engine import train\nfrom model import Net")
    write({"train.py": text, "lib/engine.py": ENGINE, "model.py": MODEL, **files})
    (result,) = convert_files([(Path("train.py"), True)], Options())
    assert any(member.path.endswith("engine.py") and member.output for member in result.members) is known


@pytest.mark.parametrize("options", [("--write",), ("--output", "out")])
def test_a_script_behind_a_link_changes_the_files_that_it_imports(folder: Path, options: tuple[str, ...]) -> None:
    """They lie beside the script, not beside the link."""
    write({"src/a.py": script("from engine import train\nfrom model import Net"), "src/engine.py": ENGINE})
    write({"src/model.py": MODEL})
    Path("train.py").symlink_to("src/a.py")
    (result,) = convert_files([(Path("train.py"), True)], Options())
    changed = {Path(member.path).resolve() for member in result.members if member.output is not None}
    assert changed == {Path("src/engine.py").resolve()}
    convert("train.py", *options)
    assert not Path("engine.py").exists() and not Path("model.py").exists()


@pytest.mark.parametrize(
    ("begin", "codes"), [("torch.manual_seed(0)", []), ("def begin():\n    torch.manual_seed(0)", ["DATA-UNSEEDED"])]
)
def test_packages_seed_where_modules_of_them_are_imported(folder: Path, begin: str, codes: list[str]) -> None:
    text = script("from pkg.model import Net\nfrom engine import train").replace("torch.manual_seed(0)\n", "")
    write({"train.py": text, "engine.py": ENGINE, "pkg/model.py": MODEL, "pkg/__init__.py": f"import torch\n{begin}\n"})
    result = only()
    assert result.plan is not None
    assert [f.code for f in result.plan.findings if f.severity is Severity.ERROR] == codes


@pytest.mark.usefixtures("folder")
def test_an_imported_file_downloads_before_there_is_an_accelerator_that_stays_on_the_cpu() -> None:
    data = """\
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data", download=True), batch_size=4)
"""
    own = script("from net import Net\nfrom engine import train").splitlines(keepends=True)
    text = "".join("from data import loader\n" if line.startswith("loader") else line for line in own)
    write({"train.py": text, "data.py": data, "net.py": MODEL, "engine.py": ENGINE})
    assert "from data import loader\naccelerator = Accelerator(" in outputs("train.py")["train.py"]
    plans = [m.plan for m in only().members if m.plan is not None]
    assert [f.code for plan in plans for f in plan.findings if f.severity is not Severity.NOTE] == ["DL-RACE"]
