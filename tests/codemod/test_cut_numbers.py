"""Devices that a trainer chooses by a number of GPUs, which it cuts down to those that are there."""

from __future__ import annotations

import pytest
from scripts import NO_BODY, converted, creation, findings, script, unchanged

SPLIT = "dataloader_config=DataLoaderConfiguration(split_batches=True)"
CUTS = """\
        there = torch.cuda.device_count()
        if number > 0 and there == 0:
            print("There is no GPU")
            number = 0
        if number > there:
            number = there
"""
TRAINER = """\
class Trainer:
    def __init__(self, model, optimizer, loader, config):
        self.device, ids = self.prepare(config["gpus"])
        self.model = model.to(self.device)
        if len(ids) > 1:
            self.model = nn.DataParallel(model, device_ids=ids)
        self.optimizer, self.loader = optimizer, loader

    def prepare(self, number):
{cuts}        device = torch.device("cuda:0" if number > 0 else "cpu")
        return device, list(range(number))

    def train(self):
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
"""
SETTINGS = "with open('settings.json') as file:\n    settings = json.load(file)"
MADE = "model = Net()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"


def _script(cuts: str = CUTS, before: str = "", changed: str = "") -> str:
    definitions = TRAINER.format(cuts=cuts)
    if changed:
        definitions = definitions.replace(*CHANGED[changed], 1)
    made = f"{MADE}\n{before}\nTrainer(model, optimizer, loader, settings).train()"
    return script(imports="import json", definitions=definitions, setup=SETTINGS, device="", before=made, **NO_BODY)


CHANGED = {
    "key": ('config["gpus"]', "config[next(iter(config))]"),
    "sum": ('config["gpus"]', 'config["gpus"] - 1'),
    "more": ("number > 0 else", "number > 1 else"),
    "again": ("    def train", "    def other(self):\n        return self.prepare(0)\n\n    def train"),
    "set": ("self.device, ids", 'config["gpus"] = 0\n        self.device, ids'),
}


@pytest.mark.parametrize(
    "cuts",
    [
        CUTS,
        CUTS.replace("number > there", "number >= there"),
        CUTS.replace("there = ", "there = torch.cuda.device_count()\n        also = ", 1),
        CUTS.replace("number > 0 and there == 0", "not torch.cuda.is_available()"),
        "",
    ],
)
def test_the_number_is_positive_if_it_was(cuts: str) -> None:
    text = _script(cuts)
    assert creation(text) == f"Accelerator(cpu=settings['gpus'] <= 0, {SPLIT})"
    output = converted(text)
    assert "        self.device, ids = self.prepare(config" in output
    assert "\n        self.model = accelerator.prepare(self.model)\n" in output
    assert "optimizer, loader = accelerator.prepare(optimizer, loader)\n" in output
    assert "DataParallel" not in output


@pytest.mark.parametrize(
    ("given", "cpu"),
    [
        ('config.get("gpus", 0)', "settings.get('gpus', 0)"),
        ('int(config["gpus"])', "int(settings['gpus'])"),
        ('config["train"]["gpus"]', "settings['train']['gpus']"),
        ('int(config["train"].get("gpus"))', "int(settings['train'].get('gpus'))"),
    ],
)
@pytest.mark.parametrize(("asked", "is_not"), [("> 0", "<= 0"), (">= 1", "< 1")])
def test_a_number_that_is_got_out_of_settings(given: str, cpu: str, asked: str, is_not: str) -> None:
    text = _script().replace('config["gpus"]', given).replace("number > 0 else", f"number {asked} else")
    assert creation(text) == f"Accelerator(cpu={cpu} {is_not}, {SPLIT})"


@pytest.mark.parametrize(
    "given",
    [
        'config.get("gpus", len(config))',
        "config.get(next(iter(config)), 0)",
        'float(config["gpus"])',
        'config.pop("gpus")',
        'config["train"][model]["gpus"]',
    ],
)
def test_a_number_that_is_got_in_another_way(given: str) -> None:
    assert unchanged(_script().replace('config["gpus"]', given)).code == "DEV-UNKNOWN"


@pytest.mark.parametrize("key", ["gpus", "train"])
def test_settings_in_settings_that_are_changed(key: str) -> None:
    text = _script().replace('config["gpus"]', 'config["train"]["gpus"]')
    assert creation(text) == f"Accelerator(cpu=settings['train']['gpus'] <= 0, {SPLIT})"
    changed = f"        config['{key}'] = 0\n        self.device, ids"
    assert unchanged(text.replace("        self.device, ids", changed)).code == "DEV-UNKNOWN"


def test_a_function_that_hands_the_number_back_too_keeps_its_choice() -> None:
    prepare = TRAINER.format(cuts=CUTS).partition("    def prepare")[2].partition("\n    def")[0]
    function = f"def prepare{prepare}".replace("self, ", "").replace("\n    ", "\n")
    chosen = "device, ids = prepare(settings['gpus'])"
    slots = {"imports": "import json", "definitions": function, "setup": SETTINGS}
    text = script(**slots, device=chosen)
    assert f"\n{chosen}\ndata" in converted(text)
    assert creation(text) == f"Accelerator(cpu=settings['gpus'] <= 0, {SPLIT})"
    assert findings(text) == []
    read = converted(script(**slots, device=chosen, after="print(device)"))
    assert f"\n{chosen}\ndevice = accelerator.device\n" in read


@pytest.mark.parametrize(
    "cuts",
    [
        CUTS.replace("number = there", "number = 0"),
        CUTS.replace("there == 0", "there == 1"),
        CUTS.replace("number > there:", "there > number:"),
        CUTS.replace("if number > there", "if number > 4"),
        CUTS.replace("        if number > there:\n            number", "        number"),
        CUTS.replace("torch.cuda.device_count()", "len(str(self))"),
        CUTS + "        number -= 1\n",
        CUTS + "        for number in range(2):\n            pass\n",
    ],
)
def test_the_number_may_be_another(cuts: str) -> None:
    assert unchanged(_script(cuts)).code == "DEV-UNKNOWN"


@pytest.mark.parametrize("changed", ["key", "sum", "more", "set"])
def test_the_number_is_no_setting_that_is_known(changed: str) -> None:
    assert unchanged(_script(changed=changed)).code in ("DEV-UNKNOWN", "PREP-NO-POINT")


def test_two_calls_are_given_different_numbers() -> None:
    text = _script(changed="again").replace("Trainer(model", "trainer = Trainer(model")
    text = text.replace(").train()", ")\ntrainer.other()\ntrainer.train()")
    assert unchanged(text).code == "DEV-UNKNOWN"


@pytest.mark.parametrize("before", ["settings['gpus'] = 0", "settings.update(gpus=0)", "settings.clear()"])
def test_settings_that_are_changed_before(before: str) -> None:
    assert unchanged(_script(before=before)).code == "DEV-UNKNOWN"


@pytest.mark.parametrize(
    "attributes",
    [
        'self.config = config\n        self.config["gpus"] = 0',
        "change(config)",
    ],
)
def test_settings_that_are_changed_under_another_name(attributes: str) -> None:
    text = _script().replace("        self.device, ids", f"        {attributes}\n        self.device, ids")
    text = text.replace("class Trainer", 'def change(given):\n    given["gpus"] = 0\n\n\nclass Trainer')
    assert unchanged(text).code == "DEV-UNKNOWN"


ASKED = TRAINER.format(cuts="").replace('config["gpus"]', "config").replace("number > 0", "not number.cpu")
MAIN = """

def change(given):
    given.cpu = True


def main(config):
    loader = DataLoader(TensorDataset(torch.ones(8, 8), torch.zeros(8).long()), batch_size=4)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{between}
    Trainer(model, optimizer, loader, config).train()
"""


@pytest.mark.parametrize(
    ("between", "kept"),
    [
        ("    print(config)", True),
        ("    config.other = True", True),
        ("    config.cpu = True", False),
        ("    config = argparse.Namespace(cpu=True)", False),
        ("    change(config)", False),
    ],
)
def test_settings_that_are_changed_after_the_accelerator_is_needed(between: str, kept: bool) -> None:
    definitions = ASKED.replace("range(number)", "range(1)") + MAIN.format(between=between)
    made = "parser = argparse.ArgumentParser()\nparser.add_argument('--cpu', action='store_true')"
    slots = {"imports": "import argparse", "definitions": definitions, "device": "", **NO_BODY}
    text = script(**slots, before=f"{made}\nmain(parser.parse_args())")
    if kept:
        assert creation(text) == f"Accelerator(cpu=config.cpu, {SPLIT})"
    else:
        assert unchanged(text).code == "DEV-UNKNOWN"
