"""Classes and functions that a script looks up in modules of its project, by names that it reads from a file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from accelift_codemod.api import convert_files
from accelift_codemod.facts import looked_up
from accelift_codemod.facts.index import Index
from accelift_codemod.options import Options
from accelift_codemod.project.groups import flattened
from projects import ENGINE, LIFTED_ENGINE, MODEL, lifted, outputs, reason, script, write

SETTINGS = "import json\nfrom engine import train\nimport model as arch\nsettings = json.load(open('c.json'))"
DEEP = """

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))

    def forward(self, x):
        return self.fc(x)
"""
MAKER = """\
def make(settings, name, module, *args, **kwargs):
    given = dict(settings[name]['args'])
    given.update(kwargs)
    return getattr(module, settings[name]['type'])(*args, **given)
"""
HELD = MAKER.replace("    return getattr", "    made = getattr").replace(
    "(*args, **given)", "\n    return made(*args, **given)"
)
CONFIG = """\
class Config:
    def __init__(self, settings):
        self.settings = settings

    def make(self, name, module, *args, **kwargs):
        given = dict(self.settings[name]['args'])
        given.update(kwargs)
        return getattr(module, self.settings[name]['type'])(*args, **given)
"""


@pytest.mark.parametrize(
    ("imports", "net", "files"),
    [
        (SETTINGS, "getattr(arch, settings['arch'])", {}),
        (
            SETTINGS.replace("import model as arch", "import model as arch\nimport os"),
            "getattr(arch, os.environ['N'])",
            {},
        ),
        (f"{SETTINGS}\nchosen = getattr(arch, settings['arch'])", "chosen", {}),
    ],
)
def test_one_of_the_classes_of_a_module(folder: Path, imports: str, net: str, files: dict[str, str]) -> None:
    write({"train.py": script(imports, net), "engine.py": ENGINE, "model.py": MODEL, **files})
    assert outputs("train.py") == {"train.py": lifted(imports, net), "engine.py": LIFTED_ENGINE}


@pytest.mark.parametrize("models", [MODEL, MODEL + DEEP])
@pytest.mark.parametrize(
    ("made", "maker"),
    [
        ("make(settings, 'arch', arch)", MAKER),
        ("make(settings, 'arch', arch)", HELD),
        ("make(settings, module=arch, name='arch')", MAKER),
        ("Config(settings).make('arch', arch)", CONFIG),
    ],
)
def test_functions_that_look_up_what_they_make(folder: Path, made: str, maker: str, models: str) -> None:
    imports = f"{SETTINGS}\nfrom config import *"
    write(
        {
            "train.py": script(imports).replace("Net()", made),
            "engine.py": ENGINE,
            "model.py": models,
            "config.py": maker,
        }
    )
    changed = outputs("train.py")
    assert changed == {"train.py": lifted(imports).replace("Net()", made), "engine.py": LIFTED_ENGINE}


LOADERS = """\
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Toy(DataLoader):
    def __init__(self, batch_size):
        super().__init__(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=batch_size)

    def split(self):
        return DataLoader(self.dataset, batch_size=2)
"""
RAW = "\n\nclass Raw(Dataset):\n    def __len__(self):\n        return 3\n"
MADE = "DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)"


def _with_loader(more: str, asked: str) -> None:
    imports = f"{SETTINGS}\nfrom config import Config\nimport loaders\nconfig = Config(settings)"
    text = script(imports, "arch.Net").replace(MADE, f"config.make('loader', loaders)\n{asked}")
    text = text.replace(
        "torch.optim.SGD(model.parameters(), lr=0.1)", "config.make('opt', torch.optim, model.parameters())"
    )
    write({"train.py": text, "engine.py": ENGINE, "model.py": MODEL, "config.py": CONFIG, "loaders.py": LOADERS + more})


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ("", ""),
        ("\n\nclass Again(Toy):\n    pass\n", ""),
        ("", "valid = loader.split()"),
        (RAW, "valid = loader.split()"),  # a data set has no such method
        ("\n\ndef names():\n    return ['a', 'b']\n", "valid = loader.split()"),
    ],
)
def test_loaders_and_optimizers(folder: Path, more: str, asked: str) -> None:
    _with_loader(more, asked)
    changed = outputs("train.py")
    assert changed["engine.py"] == LIFTED_ENGINE
    assert "\nmodel, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in changed["train.py"]


@pytest.mark.parametrize(
    ("more", "asked", "kind"),
    [
        (RAW, "", "Raw (dataset)"),
        (RAW, "if settings:\n    valid = loader.split()", "Raw (dataset)"),  # perhaps it is not asked for it
        (RAW, "loader = settings\nloader.split()", "Raw (dataset)"),  # that is something else
        (RAW.replace("(Dataset)", ""), "", "Raw (unknown)"),
        ("\n\ndef pick(x):\n    return x\n", "valid = loader.split()", "pick (unknown)"),
        (f"{RAW}\n    def split(self):\n        return self\n", "valid = loader.split()", "Raw (dataset)"),
    ],
)
def test_modules_whose_classes_make_different_things(folder: Path, more: str, asked: str, kind: str) -> None:
    _with_loader(more, asked.replace("loader = settings", "other = settings").replace("\nloader.s", "\nother.s"))
    code, message = reason()
    assert code == "LOADER-UNKNOWN"
    assert f"Toy (DataLoader), {kind}" in message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return getattr", "if name:\n            return name\n        return getattr"),  # perhaps something else
        ("(module, self", "(self.other or module, self"),
        ("    def make", "    @cached\n    def make"),
        ("        given = dict", "        module = given = dict"),
        ("return getattr", "return [1] or getattr"),
        ("class Config", "class Other:\n    def make(self, name, module):\n        return 1\n\n\nclass Config"),
        ("(module, self.settings[name]['type'])", "(module, 'Toy')"),  # which the script says nothing of else
    ],
)
def test_functions_that_may_make_something_else(folder: Path, before: str, after: str) -> None:
    _with_loader("", "")
    write({"config.py": CONFIG.replace(before, after)})
    assert CONFIG.count(before) == 1
    assert reason()[0] == "LOADER-UNKNOWN"


def test_a_module_without_classes(folder: Path) -> None:
    _with_loader("", "")
    write({"loaders.py": "import torch\nSIZE = 3\n"})
    assert reason()[0] == "LOADER-UNKNOWN"


def test_whatever_one_of_them_does_is_told(folder: Path) -> None:
    net = "getattr(arch, settings['arch'])"
    write({"train.py": script(SETTINGS, net), "engine.py": ENGINE, "model.py": MODEL + DEEP})
    results = flattened(convert_files([(Path("train.py"), True)], Options()))
    assert "NOTE-BN" in [f.code for r in results if r.plan is not None for f in r.plan.findings]


def test_a_package_brings_classes_together(folder: Path) -> None:
    net = "getattr(arch, settings['arch'])"
    files = {"model/__init__.py": "from .net import *\nfrom .deep import Deep\n", "model/net.py": MODEL}
    write(
        {
            "train.py": script(SETTINGS, net),
            "engine.py": ENGINE,
            **files,
            "model/deep.py": f"import torch.nn as nn\n{DEEP}",
        }
    )
    assert outputs("train.py") == {"train.py": lifted(SETTINGS, net), "engine.py": LIFTED_ENGINE}


LOSS = (
    "import torch.nn.functional as F\n{more}\n\ndef mean(output, target):\n    return F.cross_entropy(output, target)\n"
)
TOTAL = "def total(output, target):\n    return F.cross_entropy(output, target, reduction='sum')\n"


@pytest.mark.parametrize(
    ("more", "known"),
    [
        ("import os\nfrom torch import nn\nEPS = 1e-6\nNAMES = ['mean']", True),
        ("def _total(x):\n    return x.sum()\n", True),
        ("from torch.nn.functional import mse_loss", False),
        ("from torch.nn.functional import *", False),
        ("total = lambda output, target: output.sum()", False),
        ("total = F.kl_div", False),
        (f"if len(__name__) > 3:\n    {TOTAL.replace('    ', '        ')}else:\n    total = None", False),
        ("from other import total", False),
    ],
)
def test_a_loss_that_is_the_only_function_of_its_module(folder: Path, more: str, known: bool) -> None:
    imports = f"{SETTINGS}\nimport losses\nloss_of = getattr(losses, settings['loss'])"
    text = script(imports).replace("train(model,", "train(loss_of, model,")
    engine = ENGINE.replace("train(model", "train(loss_of, model").replace("F.cross_entropy(", "loss_of(")
    files = {"losses.py": LOSS.format(more=more), "other.py": f"import torch.nn.functional as F\n\n\n{TOTAL}"}
    write({"train.py": text, "engine.py": engine, "model.py": MODEL, **files})
    results = flattened(convert_files([(Path("train.py"), True)], Options()))
    codes = [f.code for r in results if r.plan is not None for f in r.plan.findings]
    assert ("LOSS-UNKNOWN" not in codes) is known


@pytest.mark.parametrize(
    ("parameters", "before", "handed", "arguments"),
    [
        ("reduction", "", "reduction=reduction", "reduction='mean'"),
        ("reduction", "reduction = 'sum'", "reduction=reduction", "reduction={}"),
        ("reduction", "if name:\n        reduction = 'sum'", "reduction", "{}"),
        ("*args, **kwargs", "", "*args, **kwargs", "reduction='mean', **{}"),
        ("*args, **kwargs", "", "*args", ""),  # what is not handed on is not what it is made with
        ("**kwargs", "", "reduction='sum'", "reduction={}"),
    ],
)
def test_what_a_maker_hands_on(parameters: str, before: str, handed: str, arguments: str) -> None:
    maker = (
        f"def make(module, name, {parameters}):\n    {before or 'pass'}\n    return getattr(module, name)({handed})\n"
    )
    tree = ast.parse(f"import torch.nn as nn\n\n\n{maker}\n\nmake(nn, input(), reduction='mean')\n")
    made = looked_up.find(Index(tree), lambda node: None).tree.body[-1]
    unknown = "make(nn, input(), reduction='mean')" if parameters == "reduction" else "make(nn, input())"
    assert ast.unparse(made) == f"getattr(nn, {unknown})({arguments.format(unknown)})"
