"""Devices whose choice cannot be read: where the script's own answer is asked for right after it, where not."""

from __future__ import annotations

import pytest
from scripts import converted, creation, findings, lifted, script, unchanged

SPLIT = "dataloader_config=DataLoaderConfiguration(split_batches=True)"
SETTINGS = "with open('settings.json') as file:\n    config = json.load(file)"
MADE = """\
accelerator = Accelerator(
    cpu={},
    dataloader_config=DataLoaderConfiguration(split_batches=True),
)
"""
BY_TYPE = MADE.format('device.type == "cpu"')


@pytest.mark.parametrize(
    "chosen",
    [
        "device = torch.device(config['device'])",
        "device = torch.device(('cuda', 'cpu')[0])",
        "device, rate = torch.device('cuda' if torch.cuda.is_available() else 'cpu'), 0.1",
        "try:\n    device = torch.device(config['device'])\nexcept RuntimeError:\n    device = torch.device('cpu')",
        "device = None\ndevice = torch.device(config['train']['device'])",
        "if config['fast']:\n    device = torch.device(config['device'])\nelse:\n    device = torch.device('cpu')",
    ],
)
def test_what_a_file_of_settings_says_is_asked_for(chosen: str) -> None:
    slots = {"imports": "import json", "setup": SETTINGS}
    assert converted(script(**slots, device=chosen)) == lifted(**slots, device=f"{chosen}\n{BY_TYPE}")


def test_a_device_that_is_still_read_becomes_that_of_the_process() -> None:
    chosen = "device = torch.device(config['device'])"
    slots = {"imports": "import json", "setup": SETTINGS, "after": "start = torch.zeros(3, device=device)"}
    made = f"{chosen}\n{BY_TYPE}device = accelerator.device"
    assert converted(script(**slots, device=chosen)) == lifted(**slots, device=made)


def test_a_name_that_may_be_of_several_kinds_is_made_a_device() -> None:
    first = "device = 'cuda' if config['gpus'] else 'cpu'"
    chosen = f"{first}\nif config['slow']:\n    device = torch.device(config['slow'])"
    text = script(imports="import json", setup=SETTINGS, device=chosen)
    assert creation(text) == f"Accelerator(cpu=torch.device(device).type == 'cpu', {SPLIT})"


PICK = """\
def pick(name):
    chosen = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if name is not None:
        try:
            chosen = torch.device(name)
        except RuntimeError:
            pass
    return chosen
"""


def test_variables_of_the_function_that_chooses_are_a_part_of_that() -> None:
    slots = {"imports": "import json", "setup": SETTINGS, "definitions": PICK}
    chosen = "device = pick(config['device'])"
    assert converted(script(**slots, device=chosen)) == lifted(**slots, device=f"{chosen}\n{BY_TYPE}")
    # it is another device each time
    again = script(**slots, device=chosen, after="other = pick('cpu')\nstart = torch.zeros(3).to(other)")
    assert unchanged(again).code == "DEV-UNKNOWN"


COUNT = """\
def count(number):
    there = torch.cuda.device_count()
    number = min(number, there)
    chosen = torch.device("cuda:0" if number > 0 else "cpu")
    return {}
"""


@pytest.mark.parametrize(
    ("returned", "target"),
    [
        ("chosen", "device"),
        ("chosen, list(range(number))", "device, ids"),
        ("number, (chosen, there)", "ids, (device, _)"),
    ],
)
def test_a_device_that_a_function_chooses_by_what_it_changes(returned: str, target: str) -> None:
    slots = {"imports": "import json", "setup": SETTINGS, "definitions": COUNT.format(returned)}
    chosen = f"{target} = count(config['gpus'])"
    assert converted(script(**slots, device=chosen)) == lifted(**slots, device=f"{chosen}\n{BY_TYPE}")
    read = "start = torch.zeros(3, device=device)"
    made = f"{chosen}\n{BY_TYPE}device = accelerator.device"
    assert converted(script(**slots, device=chosen, after=read)) == lifted(**slots, device=made, after=read)


@pytest.mark.parametrize(
    ("returned", "target"),
    [
        ("[*range(number), chosen]", "*ids, device"),  # which place it has depends on the others
        ("(*[number], chosen)", "ids, device"),
        ("(chosen, there) if number else (there, chosen)", "device, ids"),
        ("number, chosen.type", "ids, device"),
        ("torch.tensor(number), there", "device, ids"),
    ],
)
def test_what_a_function_returns_in_the_place_of_a_device(returned: str, target: str) -> None:
    slots = {"imports": "import json", "setup": SETTINGS, "definitions": COUNT.format(returned)}
    text = script(**slots, device=f"{target} = count(config['gpus'])")
    assert unchanged(text).code == "DEV-UNKNOWN"


CHOICE = "device = torch.device(config['device'])"
USED = (
    f"if config['fast']:\n    {CHOICE}\n    start = torch.zeros(3).to(device)\nelse:\n    device = torch.device('cpu')"
)


@pytest.mark.parametrize(
    "slots",
    [
        # chosen again: it is another device at other times
        {"device": CHOICE, "before": "device = torch.device('cpu')"},
        # used among the statements that choose it, for which there is no accelerator yet
        {"device": USED},
        # something is prepared before
        {"device": "", "model": "model = Net()", "epoch": CHOICE},
        # of two devices, one cannot be that of the process
        {
            "device": f"{CHOICE}\nother = torch.device(config['other'])",
            "model": "model = Net().to(other)",
        },
        # a function is handed it
        {"device": "def pick(device):\n    device = torch.device(device)\n    return config[device]\ndevice = pick(0)"},
    ],
)
def test_what_is_no_one_choice_is_left_alone(slots: dict[str, str]) -> None:
    assert unchanged(script(imports="import json", setup=SETTINGS, **slots)).code == "DEV-UNKNOWN"


def test_a_device_that_is_chosen_where_the_accelerator_is_not_made() -> None:
    definitions = "def place(net, config):\n    device = torch.device(config['device'])\n    return net.to(device)"
    slots = {"imports": "import json", "setup": SETTINGS, "device": "", "move": ""}
    text = script(**slots, definitions=definitions, model="model = place(Net(), config)")
    assert creation(text) == f"Accelerator(cpu=config['device'] == 'cpu', {SPLIT})"
    # what the script puts there itself may be no word
    setting = "\n    config['device'] = torch.device(config['device'])\n    return"
    assert unchanged(text.replace("\n    return net", f"{setting} net")).code == "DEV-UNKNOWN"


# ---- settings that are asked for the word that they are


TRAINER = """\
class Node:
    pass


class Trainer:
    def __init__(self, config, model, data):
        self.model, self.data = model, data
        if config.device == "auto":
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
        else:
            self.device = config.device
        self.model = self.model.to(self.device)

    def run(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        loader = DataLoader(self.data, batch_size=16, shuffle=True)
        for x, y in loader:
            x, y = x.to(self.device), y.to(self.device)
            optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            optimizer.step()


def settings():
    config = Node()
    config.trainer = Node()
    config.trainer.device = "auto"
    return config


def tune(config):
    config.trainer.device = input()
"""


AGAIN = "self.device = pick(self.device)\n    "


def _trainer(before: str, made: str, after: str = "", definitions: str = TRAINER) -> str:
    slots = dict.fromkeys(("epochs", "move", "forward", "backward", "step", "loop", "optimizer", "loader"), "")
    made = f"trainer = Trainer({made}, model, data)\n{after}\ntrainer.run()"
    first = f"config = settings()\n{before}"
    return script(**slots, definitions=definitions, setup=first, device="", model="model = Net()", before=made)


def test_a_setting_is_asked_where_the_accelerator_is_made() -> None:
    text = _trainer("", "config.trainer", "torch.save(model.state_dict(), 'm.pt')")
    assert creation(text) == f"Accelerator(cpu=config.trainer.device == 'cpu', {SPLIT})"
    # not before what may change it
    late = converted(_trainer("tune(config)", "config.trainer", "torch.save(model.state_dict(), 'm.pt')"))
    assert late.index("tune(config)\n") < late.index("Accelerator(\n") < late.index("Trainer(config.trainer")


def test_a_setting_is_asked_in_the_constructor_that_is_given_it() -> None:
    assert creation(_trainer("", "config.trainer")) == f"Accelerator(cpu=config.device == 'cpu', {SPLIT})"


@pytest.mark.parametrize(
    ("before", "made", "definitions"),
    [
        # nothing says that it is a word, or a device at all
        ("", "config.trainer", TRAINER.replace('config.device == "auto"', "config.fast")),
        # it is another thing after the question
        (
            "",
            "config.trainer",
            TRAINER.replace("    self.model = self.model.to", f"    {AGAIN}    self.model = self.model.to"),
        ),
        # one or the other, nobody knows which
        ("other = settings()", "config.trainer if input() else other.trainer", TRAINER),
    ],
)
def test_a_setting_that_is_not_known_where_the_accelerator_is_made(before: str, made: str, definitions: str) -> None:
    text = _trainer(before, made, "torch.save(model.state_dict(), 'm.pt')", definitions)
    assert unchanged(text).code == "DEV-UNKNOWN"


def test_a_file_that_is_written_before_does_not_ask_a_device_that_is_not_there() -> None:
    setup = "import json\ncfg = json.load(open('cfg.json'))\nwith open('log.txt', 'w') as f:\n    f.write('begin')"
    device = "device = torch.device(cfg['device'])"
    output = converted(script(setup=setup, device=device))
    assert output.index(device) < output.index('accelerator = Accelerator(\n    cpu=device.type == "cpu"')
    assert "SAVE-RACE" in findings(script(setup=setup, device=device))
