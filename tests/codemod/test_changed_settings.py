"""Settings that are changed: where they tell whether the script means the CPU, that is asked when the script did."""

from __future__ import annotations

import pytest
from scripts import converted, creation, findings, script, unchanged
from test_create import SPLIT, with_options

OPTIONS = (
    '"--cuda", action="store_true"',
    '"--debug", action="store_true"',
    '"--gpus", type=int, default=1',
    '"--place", default="cuda"',
)
BY_FLAG = 'device = torch.device("cuda" if args.cuda else "cpu")'
BY_NUMBER = 'device = torch.device("cuda" if args.gpus > 0 else "cpu")'
BY_NAME = "device = torch.device(args.place)"
GUARDED = {
    "model": "model = Net()\nif args.cuda:\n    model.cuda()",
    "move": "if args.cuda:\n    x, y = x.cuda(), y.cuda()",
}
HELPERS = """\
def tune(options):
    options.cuda = False


class Tuner:
    def __init__(self, options):
        self.options = options
        {}

    def tune(self):
        self.options.cuda = False
"""
TUNER = HELPERS.format("pass")
SETTING = [
    "args.cuda = False",
    "if args.debug:\n    args.cuda = False",
    "setattr(args, 'cuda', False)",
    "for name, value in {'cuda': False}.items():\n    setattr(args, name, value)",
    "vars(args)['cuda'] = False",
    "args.__dict__['cuda'] = False",
    "args.__dict__.update(cuda=False)",
    "vars(args).update({'cuda': False})",
    "vars(args).update(**read())",
    "options = args\noptions.__dict__.update(read())",
    "tune(args)",
    "Tuner(args).tune()",
]
OTHER = [
    "args.rate = 0.1",
    "setattr(args, 'rate', 0.1)",
    "vars(args)['rate'] = 0.1",
    "vars(args).update(rate=0.1)",
    "other = {}\nother.update(read())",
    "for name, value in read().items():\n    setattr(model, name, value)",
    "Tuner(args)",
]


def options(device: str, **slots: str) -> str:
    return with_options(device, *OPTIONS, definitions=f"{TUNER}\n\ndef read():\n    return {{}}", **slots)


# ---- an option is what the command line says unless something surely sets it


@pytest.mark.parametrize(
    ("setting", "device", "cpu"),
    [
        ("if args.debug:\n    args.cuda = False\n", BY_FLAG, "not args.cuda"),
        ("for _ in range(args.gpus):\n    args.cuda = False\n", BY_FLAG, "not args.cuda"),
        ("try:\n    input()\n    args.cuda = False\nexcept OSError:\n    pass\n", BY_FLAG, "not args.cuda"),
        ("if not torch.cuda.is_available():\n    args.cuda = False\n", BY_FLAG, "not args.cuda"),
        ("tune(args)\n", BY_FLAG, "not args.cuda"),
        ("Tuner(args).tune()\n", BY_FLAG, "not args.cuda"),
        ("if args.debug:\n    args.gpus = 0\n", BY_NUMBER, "args.gpus <= 0"),
        ("args.cuda = False\n", BY_FLAG, "True"),
        ("with torch.no_grad():\n    args.cuda = False\n", BY_FLAG, "True"),
    ],
)
def test_what_may_set_an_option(setting: str, device: str, cpu: str) -> None:
    assert creation(options(f"{setting}{device}")) == f"Accelerator(cpu={cpu}, {SPLIT})"


@pytest.mark.parametrize(("device", "cpu"), [(BY_FLAG, "not args.cuda"), (BY_NAME, "args.place == 'cpu'")])
@pytest.mark.parametrize("setting", ["args.cuda = False", "args.cuda = False\nargs.place = 'cpu'"])
def test_what_sets_an_option_later_tells_nothing(device: str, cpu: str, setting: str) -> None:
    text = options(device, before=setting)
    assert creation(text) == f"Accelerator(cpu={cpu}, {SPLIT})"
    assert setting in converted(text)


def test_a_setting_of_an_object_that_is_read() -> None:
    chosen = "if settings.debug:\n    settings.place = 'cpu'\ndevice = torch.device(settings.place)"
    text = script(from_imports="from elsewhere import settings", device=chosen)
    assert creation(text) == f"Accelerator(cpu=device.type == 'cpu', {SPLIT})"
    by_flag = "if settings.debug:\n    settings.cuda = False\ndevice = torch.device('cuda' if settings.cuda else 'cpu')"
    text = script(from_imports="from elsewhere import settings", device=by_flag)
    assert creation(text) == f"Accelerator(cpu=not settings.cuda, {SPLIT})"


# ---- where the accelerator is made, what tells is what it was where the script asked


@pytest.mark.parametrize("setting", SETTING[1:])
def test_it_is_made_after_what_sets_an_option(setting: str) -> None:
    text = options("", **GUARDED | {"model": f"{setting}\n{GUARDED['model']}"})
    output = converted(text)
    assert output.index(setting.split("\n")[-1]) < output.index("accelerator = Accelerator(")


@pytest.mark.parametrize("setting", OTHER)
def test_it_is_made_before_what_sets_something_else(setting: str) -> None:
    model = GUARDED["model"].replace("\n", f"\n{setting}\n", 1)
    output = converted(options("", **GUARDED | {"model": model}))
    assert output.index("accelerator = Accelerator(") < output.index(setting.split("\n")[-1])


@pytest.mark.parametrize("setting", SETTING[1:])
def test_an_option_that_is_set_between_two_questions(setting: str) -> None:
    text = options("", **GUARDED, before=setting)
    finding = unchanged(text)
    assert finding.code == "DEV-UNKNOWN"
    assert "whether the script means the CPU" in finding.message


@pytest.mark.parametrize("setting", OTHER)
def test_something_else_that_is_set_between_two_questions(setting: str) -> None:
    assert creation(options("", **GUARDED, before=setting)) == f"Accelerator(cpu=not args.cuda, {SPLIT})"


@pytest.mark.parametrize("setting", SETTING)
def test_an_option_that_is_set_after_the_device_is_chosen(setting: str) -> None:
    text = options(BY_FLAG, before=setting)
    assert creation(text) == f"Accelerator(cpu=not args.cuda, {SPLIT})"
    assert converted(text).index("accelerator = Accelerator(") < converted(text).index(setting)


TRAINER = """\
class Trainer:
    def __init__(self, config, model, data):
        self.config = config
        {}
        self.device = torch.device("cuda" if self.config.cuda else "cpu")
        {}
        self.model = model.to(self.device)
        self.loader = DataLoader(data, batch_size=16, shuffle=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
"""
SET = [
    "self.config.cuda = False if self.config.debug else True",
    "if config.debug:\n            self.config.cuda = False",
    "setattr(config, 'cuda', False)",
    "vars(config)['cuda'] = False",
]


def trainer(first: str = "pass", later: str = "pass", after: str = "") -> str:
    slots = dict.fromkeys(("epochs", "loop", "move", "forward", "backward", "step", "loader", "optimizer"), "")
    made = f"trainer = Trainer(args, model, data)\ntrainer.fit()\n{after}"
    definitions = TRAINER.format(first, later)
    return with_options("", *OPTIONS, definitions=definitions, **slots | {"model": "model = Net()", "before": made})


@pytest.mark.parametrize("setting", SET)
def test_a_constructor_that_sets_an_option_before_it_chooses(setting: str) -> None:
    output = converted(trainer(setting))
    assert output.index(setting) < output.index("self.accelerator = Accelerator(")


SAVED = "torch.save(trainer.model.state_dict(), 'm.pt')"  # with the accelerator, which is made before the trainer


@pytest.mark.parametrize("setting", SET[1:])
def test_a_constructor_that_is_given_the_accelerator(setting: str) -> None:
    finding = unchanged(trainer(setting, after=SAVED))
    assert finding.code == "DEV-UNKNOWN" and "may be set after that" in finding.message
    assert creation(trainer("config.rate = 1", after=SAVED)) == f"Accelerator(cpu=not args.cuda, {SPLIT})"
    assert creation(trainer(later=setting, after=SAVED)) == f"Accelerator(cpu=not args.cuda, {SPLIT})"


# ---- how many GPUs there are to be is not which of them


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (BY_NUMBER, []),
        ("device = torch.device('cuda' if args.gpus else 'cpu')", []),
        ("device = torch.device(f'cuda:{args.gpus}' if args.gpus >= 0 else 'cpu')", ["DEV-INDEX"]),
        ("device = torch.device('cuda', args.gpus)", ["DEV-INDEX"]),
    ],
)
def test_a_number_of_gpus_picks_none(device: str, expected: list[str]) -> None:
    assert findings(options(device)) == expected


# ---- an attribute that is set to the CPU where there is no GPU is what it was where there is one

CONFIG = "class Config:\n    def __init__(self):\n        self.place = {}\n        self.debug = 0\n"
CHOSEN = "config = Config()\nif {}:\n    config.place = 'cpu'\ndevice = torch.device(config.place)"
NO_GPU = "not torch.cuda.is_available()"
ASKED = f"Accelerator(cpu=device.type == 'cpu', {SPLIT})"


@pytest.mark.parametrize(
    ("given", "test", "made"),
    [
        ("'cuda'", NO_GPU, f"Accelerator({SPLIT})"),
        ("'cuda:0'", f"{NO_GPU} or config.debug and {NO_GPU}", f"Accelerator({SPLIT})"),
        ("'cuda' if torch.cuda.is_available() else 'cpu'", NO_GPU, f"Accelerator({SPLIT})"),
    ],
)
def test_what_is_set_where_there_is_no_gpu(given: str, test: str, made: str) -> None:
    text = script(definitions=CONFIG.format(given), device=CHOSEN.format(test))
    assert creation(text) == made


@pytest.mark.parametrize(("given", "test"), [("input()", NO_GPU), ("None", NO_GPU)])
def test_what_it_was_before_is_not_known(given: str, test: str) -> None:
    assert creation(script(definitions=CONFIG.format(given), device=CHOSEN.format(test))) == ASKED


def test_a_function_that_sets_it_where_there_is_no_gpu() -> None:
    made = f"class Config:\n    place = 'cuda'\n\n\ndef load():\n    config = Config()\n    if {NO_GPU}:\n"
    made += "        config.place = 'cpu'\n    return config"
    assert creation(script(definitions=made, device="config = load()\ndevice = torch.device(config.place)")) == ASKED


SHOWS = """\
import json


def show(options):
    print(options)
    json.dump(vars(options), open("options.json", "w"))


def pass_on(options):
    other.settle(options)
"""


@pytest.mark.parametrize(
    ("call", "made_before"),
    [("print(args)", True), ("show(args)", True), ("other.settle(args)", False), ("pass_on(args)", False)],
)
def test_what_only_shows_the_settings_does_not_change_them(call: str, made_before: bool) -> None:
    text = with_options(f"{call}\n{BY_FLAG}", *OPTIONS, from_imports="import other", definitions=SHOWS)
    out = converted(text)
    shown = "accelerator.print(args)" if call.startswith("print") else f"\n{call}"
    assert (out.index("= Accelerator(") < out.index(shown)) is made_before
    assert "SAVE-RACE" not in findings(text)


FROM_FILE = """\
import json


def write():
    json.dump({}, open("begun.json", "w"))


def read(options):
    merge(vars(options), json.load(open("options.json")))


def merge(known, more):
    known.update(more)
"""


@pytest.mark.parametrize(
    ("change", "made_before"),
    [
        ("d = vars(args)\nd.update(json.load(open('options.json')))", False),
        ("d = args.__dict__\nfor name in json.load(open('options.json')):\n    d[name] = 1", False),
        ("read(args)", False),
        ("d = {}\nd.update(json.load(open('options.json')))", True),
    ],
)
def test_the_dict_of_the_settings_by_another_name(change: str, made_before: bool) -> None:
    """What is made of the settings is made once they are set, though something before would need it."""
    text = converted(with_options(f"write()\n{change}\n{BY_FLAG}", *OPTIONS, definitions=FROM_FILE))
    assert (text.index("= Accelerator(") < text.index(f"\n{change}")) is made_before
