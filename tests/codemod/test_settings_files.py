"""Devices that files of settings name: `config["device"]` of a JSON or YAML file, wherever it is read."""

from __future__ import annotations

import pytest
from scripts import NO_BODY, converted, creation, findings, script, unchanged

SPLIT = "dataloader_config=DataLoaderConfiguration(split_batches=True)"
USED = {"device": "", "model": "model = Net().to({0})", "move": "x, y = x.to({0}), y.to({0})"}
IMPORTS = "import argparse, json, yaml"
MERGED = "from omegaconf import OmegaConf as O\ncfg = O.merge(O.load('c.yaml'), O.from_cli())"
READS = "config = json.load(open('c.json'))"


def uses(setup: str, entry: str, **slots: str) -> str:
    """A script that reads settings, and moves everything to the device that an entry names."""
    filled = {k: v.format(entry) for k, v in USED.items()}
    return script(**{"imports": IMPORTS, "setup": setup, **filled, **slots})


@pytest.mark.parametrize(
    ("setup", "entry"),
    [
        ("config = json.load(open('c.json'))", "config['device']"),
        ("config = yaml.safe_load(open('c.yaml'))", "config['train']['device']"),
        ("config = yaml.load(open('c.yaml'), yaml.Loader)['train']", "config['device']"),
        ("args = argparse.Namespace(**json.load(open('c.json')))", "args.device"),
        ("from easydict import EasyDict\nargs = EasyDict(yaml.safe_load(open('c.yaml')))", "args.train.device"),
        ("from omegaconf import OmegaConf\ncfg = OmegaConf.load('c.yaml')", "cfg.device"),
        ("def load():\n    return json.load(open('c.json'))\nconfig = load()", "config['device']"),
    ],
)
def test_an_entry_is_asked_where_the_accelerator_is_made(setup: str, entry: str) -> None:
    text = uses(setup, entry, after=f"start = torch.zeros(3).to({entry})")
    assert creation(text) == f"Accelerator(cpu={entry} == 'cpu', {SPLIT})"
    assert "start = torch.zeros(3).to(accelerator.device)" in converted(text)
    assert findings(text) == ["DEV-INDEX"]


PARSED = """\
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
"""
LOOP = "for key, value in vars(args).items():\n    config[key] = value"


@pytest.mark.parametrize(
    "setup",
    ["config = vars(args)", f"{READS}\nconfig.update(vars(args))", f"{READS}\n{LOOP}", f"{READS}\nconfig.update(lr=3)"],
)
def test_what_the_command_line_says_may_be_put_into_settings(setup: str) -> None:
    text = uses(f"{PARSED}{setup}", "config['device']")
    assert creation(text) == f"Accelerator(cpu=config['device'] == 'cpu', {SPLIT})"
    assert unchanged(text.replace('default="cuda"', "type=torch.device")).code == "DEV-UNKNOWN" or "lr=3" in setup


TRAINER = """\
class Trainer:
    def __init__(self, config, loader):
        self.config = config
        self.device = config["device"]
        self.loader = loader
        self.model = Net().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config["lr"])

    def fit(self):
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.config["device"])
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
"""


def test_a_trainer_that_is_given_the_settings() -> None:
    slots = {**NO_BODY, "device": "", "imports": IMPORTS, "definitions": TRAINER, "setup": READS}
    text = script(main=True, **slots, before="Trainer(config, loader).fit()")
    assert creation(text) == f"Accelerator(cpu=config['device'] == 'cpu', {SPLIT})"
    assert "for x, y in self.loader:\n            self.optimizer" in converted(text)


@pytest.mark.parametrize(
    ("setup", "entry"),
    [
        (f"{READS}\nconfig['device'] = torch.device(config['device'])", "config['device']"),
        (f"{READS}\nconfig.update(device=torch.device('cpu'))", "config['device']"),
        ("import pickle\nconfig = pickle.load(open('c.pkl', 'rb'))", "config['device']"),  # of any kind
        (f"{READS}\nconfig = config['train'] if config else config['test']", "config['device']"),
        (f"{READS}\nplaces = config['device'], 3", "places[0]"),
        ("from settings import cfg", "cfg.train.device"),
        ("import settings", "settings.cfg.device"),
        (MERGED, "cfg.device"),
        (MERGED, "cfg.train.device"),
    ],
)
def test_what_may_be_no_device_is_not_asked(setup: str, entry: str) -> None:
    assert unchanged(uses(setup, entry)).code == "DEV-UNKNOWN"


def test_a_network_of_another_module_is_where_a_script_without_gpus_has_it() -> None:
    text = uses("from networks import teacher", "teacher.device", after="teacher(torch.ones(1, 8))")
    assert creation(text) == f"Accelerator(cpu=True, {SPLIT})"


def test_an_entry_that_says_something_else_is_no_device() -> None:
    text = uses(READS, "config['device']", after="print(config['lr'])\ntorch.zeros(3).to(torch.float16)")
    assert "print(config['lr'])" in converted(text) and "to(torch.float16)" in converted(text)
