"""ACCELERATOR: when a script means the CPU that chooses its device in several places, or keeps it in one of its own."""

from __future__ import annotations

import ast

import pytest
from scripts import CREATED, converted, creation, findings, lifted, script, unchanged
from test_create import SPLIT, with_options

GET = """\
def get_device(prefer=True):
    {}
"""


@pytest.mark.parametrize(
    "body",
    [
        "if torch.cuda.is_available():\n        return torch.device('cuda')\n    return torch.device('cpu')",
        "if torch.cuda.is_available():\n        return 'cuda'\n    elif torch.backends.mps.is_available():\n"
        "        return 'mps'\n    else:\n        return 'cpu'",
        "if hasattr(torch.backends, 'mps') and torch.backends.mps.is_available():\n        return torch.device('mps')\n"
        "    name = 'cuda' if torch.cuda.is_available() else 'cpu'\n    return torch.device(name)",
        "if not torch.cuda.is_available():\n        raise RuntimeError('no GPU')\n    return 'cuda'",
    ],
)
def test_a_function_that_returns_one_of_several_devices(body: str) -> None:
    text = script(definitions=GET.format(body), device="device = get_device()")
    assert creation(text) == f"Accelerator({SPLIT})"
    assert findings(text) == []


def test_a_function_that_returns_the_cpu_by_a_flag() -> None:
    body = "if not args.cuda:\n        return 'cpu'\n    return 'cuda' if torch.cuda.is_available() else 'cpu'"
    text = with_options("device = get_device()", '"--cuda", action="store_true"', definitions=GET.format(body))
    assert creation(text) == f"Accelerator(cpu=not args.cuda, {SPLIT})"


@pytest.mark.parametrize(
    "body",
    [
        "for name in ('cuda', 'cpu'):\n        if len(name) > 3:\n            return 'cuda'\n    return 'cpu'",
        "try:\n        return 'cuda'\n    except RuntimeError:\n        return 'cpu'",
    ],
)
def test_a_function_of_which_it_cannot_be_told_what_it_returns(body: str) -> None:
    text = script(definitions=GET.format(body), device="device = get_device()")
    assert creation(text) == f"Accelerator(cpu=torch.device(device).type == 'cpu', {SPLIT})"


GPU_OR_CPU = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
BY_FLAG = 'device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")'
MASK = "def mask():\n    device = torch.device({})\n    return torch.ones(3, device=device)"


def test_a_gpu_beside_a_device_that_is_chosen_by_a_flag() -> None:
    """A network is where its batches are; what was always on a GPU stays there, as the author has it."""
    slots = {"definitions": MASK.format("'cuda'"), "before": "weight = mask()"}
    text = with_options(BY_FLAG, '"--cuda", action="store_true"', **slots)
    assert creation(text) == f"Accelerator(cpu=not args.cuda, {SPLIT})"
    assert slots["definitions"] in converted(text) and findings(text) == []
    numbered = with_options(
        BY_FLAG, '"--cuda", action="store_true"', **slots | {"definitions": MASK.format("'cuda:0'")}
    )
    assert findings(numbered) == ["DEV-LEFT"]


def test_batches_on_devices_of_two_kinds() -> None:
    chosen = GET.format("return 'cuda' if args.cuda and torch.cuda.is_available() else 'cpu'")
    slots = {"model": "model = Net().to(get_device())", "move": "x, y = x.to(get_device()), y.to(get_device())"}
    text = with_options(
        "", '"--cuda", action="store_true"', definitions=chosen + "\n\n" + MASK.format("'cuda'"), **slots
    )
    assert creation(text) == f"Accelerator(cpu=not args.cuda, {SPLIT})"
    chosen = GET.format("device = 'cuda' if args.cuda else 'cpu'\n    return torch.device(device)")
    other = "def evaluate():\n    device = torch.device('cuda')\n    for x, y in loader:\n        model(x.to(device))"
    text = with_options(
        "", '"--cuda", action="store_true"', definitions=f"{chosen}\n\n{other}", after="evaluate()", **slots
    )
    assert findings(text) == ["DEV-UNKNOWN"]


def test_what_code_chooses_that_never_runs_does_not_count() -> None:
    flag = '"--cuda", action="store_true"'
    moved = {"model": "model = Net()\nif args.cuda:\n    model.cuda()"}
    unused = "def unused(net, gpu):\n    if gpu:\n        net = net.cuda()\n    return net"
    text = with_options("", flag, definitions=unused, **moved, move="if args.cuda:\n    x, y = x.cuda(), y.cuda()")
    assert creation(text) == f"Accelerator(cpu=not args.cuda, {SPLIT})"
    used = with_options(
        "",
        flag,
        definitions=unused,
        **moved,
        after="unused(model, len(data) > 3)",
        move="if args.cuda:\n    x = x.cuda()",
    )
    assert findings(used) == ["DEV-UNKNOWN"]
    place = "def place(net, cuda):\n    if cuda:\n        net = net.cuda()\n    return net"
    given = f"{place}\n\n\ndef unused(net):\n    place(net, 1)"
    text = with_options(
        "", flag, definitions=given, model="model = place(Net(), args.cuda)", move="if args.cuda:\n    x = x.cuda()"
    )
    assert creation(text) == f"Accelerator(cpu=not args.cuda, {SPLIT})"


def test_a_flag_that_asks_for_a_network_s_own_move() -> None:
    own = "def cuda(self):\n        super().cuda()\n        self.mask = torch.ones(8).cuda()\n        return self"
    network = f"class Masked(nn.Linear):\n    {own}\n"
    move = "if not args.cpu:\n    x, y = x.cuda(), y.cuda()"
    model = "model = Masked(8, 3)\nif not args.cpu:\n    model.cuda()"
    text = with_options("", '"--cpu", action="store_true"', definitions=network, model=model, move=move)
    assert creation(text) == f"Accelerator(cpu=args.cpu, {SPLIT})"
    text = with_options(
        "", '"--cpu", action="store_true"', definitions=network, model="model = Masked(8, 3)\nmodel.cuda()"
    )
    assert "cpu=" not in creation(text)


@pytest.mark.parametrize(("move", "known"), [("if args.cuda:\n    x, y = x.cuda(), y.cuda()", True), ("", False)])
def test_a_flag_for_more_than_the_device(move: str, known: bool) -> None:
    options = ('"--cuda", action="store_true"', '"--resume", default=""')
    loaded = "if args.resume:\n    model.cuda()\n    model.load_state_dict(torch.load(args.resume))"
    text = with_options("", *options, model="model = Net()\nif args.cuda:\n    model.cuda()", before=loaded, move=move)
    assert findings(text) == ["DEV-UNKNOWN"] or known
    assert not known or creation(text) == f"Accelerator(cpu=not args.cuda, {SPLIT})"


BY_CUDA = "if args.cuda:\n    "


@pytest.mark.parametrize(
    ("network", "batch", "loss", "cpu"),
    [
        (BY_CUDA, BY_CUDA, "", "cpu=not args.cuda, "),
        (BY_CUDA, BY_CUDA, ".cuda()", "cpu=not args.cuda, "),
        ("", BY_CUDA, ".cuda()", ""),
        (BY_CUDA, "", ".cuda()", ""),
        (BY_CUDA, "if args.move:\n    ", ".cuda()", ""),
    ],
)
def test_what_is_always_moved_beside_what_a_flag_moves(network: str, batch: str, loss: str, cpu: str) -> None:
    """A constant or a loss may be on the GPU where network and batches are not; these are where the flag says."""
    slots = {
        "model": f"model = Net()\n{network}model.cuda()",
        "before": f"criterion = nn.CrossEntropyLoss(){loss}",
        "move": f"{batch}x, y = x.cuda(), y.cuda()",
        "forward": "optimizer.zero_grad()\nloss = criterion(model(x), y)",
    }
    options = ('"--cuda", action="store_true"', '"--move", action="store_true"')
    assert creation(with_options("", *options, **slots)) == f"Accelerator({cpu}{SPLIT})"


KEPT = "class Config:\n    device = {}\n    rate = 0.1"
BY_FIELD = {
    "device": "config = Config()",
    "model": "model = Net().to(config.device)",
    "move": "x = x.to(config.device)",
}


@pytest.mark.parametrize("device", ["'cuda'", "'cuda' if torch.cuda.is_available() else 'cpu'", "'cuda:0'"])
def test_a_device_that_a_class_keeps(device: str) -> None:
    text = script(definitions=KEPT.format(device), **BY_FIELD)
    assert creation(text) == f"Accelerator({SPLIT})"
    assert findings(text) == [] and "'cuda:0'" not in converted(text)


@pytest.mark.parametrize(
    "slots",
    [
        {"setup": "Config.device = input()"},
        {"device": "config = Config()\nconfig.device = input()"},
        {"device": "config = Config(device='cpu')"},
        {"device": "config = Config('cpu')"},
    ],
)
def test_a_device_that_an_object_may_have_in_place_of_that_of_its_class(slots: dict[str, str]) -> None:
    assert unchanged(script(definitions=KEPT.format("'cuda'"), **BY_FIELD | slots)).code == "DEV-UNKNOWN"


INFO = """\
def get_info():
    name = 'cuda' if torch.cuda.is_available() else 'cpu'
    info = {{'device': name, 'n': 3}}
    {}
    return info
"""


def test_a_device_in_a_dict() -> None:
    device = "device = torch.device(get_info()['device'])"
    text = script(definitions=INFO.format("info['gpu'] = 'x'"), device=device)
    assert creation(text) == f"Accelerator({SPLIT})"
    for change in ("info['device'] = input()", "info.update(other())", "info[input()] = 'cpu'"):
        asked = creation(script(definitions=INFO.format(change), device=device))
        assert asked == f"Accelerator(cpu=device.type == 'cpu', {SPLIT})"


def test_the_number_of_a_gpu_that_is_handed_on() -> None:
    definitions = "def place(net, gpu_id: int):\n    return net.to(gpu_id)"
    text = script(definitions=definitions, device="device = 0", model="model = place(Net(), device)")
    assert creation(text) == f"Accelerator({SPLIT})"
    assert "return net\n" in converted(text) and ".to(" not in converted(text)
    other = script(definitions=definitions, device="device = int(input())", model="model = place(Net(), device)")
    assert unchanged(other).code == "DEV-UNKNOWN"


def test_it_is_not_made_before_an_elif() -> None:
    trains = (
        "def {}():\n    model = Net()\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    for x, y in DataLoader(data):\n        F.cross_entropy(model(x), y).backward()\n        optimizer.step()\n"
    )
    branches = "if len(data) > 99:\n    print('a')\nelif len(data) > 9:\n    fit()\nelif len(data) > 3:\n    tune()"
    names = ("device", "loader", "model", "optimizer", "epochs", "loop", "move", "forward", "backward", "step")
    definitions = trains.format("fit") + trains.format("tune")
    output = converted(script(**dict.fromkeys(names, ""), definitions=definitions, after=branches))
    before, _, after = output.partition("\nif len(data) > 99:")
    assert "\naccelerator = Accelerator(" in before and "Accelerator(" not in after


# ---- the environment is set after the device is chosen

SEED = "def seed(number):\n    os.environ[{}] = str(number)\n    torch.manual_seed(number)"
DATA = "data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)"
IN_CLASS = f"class CFG:\n    lr = 0.1\n    {GPU_OR_CPU}"
LATER = {"imports": "import os", "model": "seed(3)\nmodel = Net().to(CFG.device)", "move": ""}


def test_the_body_of_a_class_does_not_wait_for_the_accelerator() -> None:
    text = script(**LATER, definitions=SEED.format("'CUDA_LAUNCH_BLOCKING'"), device=IN_CLASS)
    assert unchanged(text).code == "DEV-UNKNOWN"


def test_python_s_own_settings_are_not_those_of_devices() -> None:
    text = converted(script(**LATER, definitions=SEED.format("'PYTHONHASHSEED'"), device=IN_CLASS))
    assert text.index("accelerator = Accelerator(") < text.index("class CFG:") < text.index("seed(3)")


@pytest.mark.parametrize("key", ["'CUDA_VISIBLE_DEVICES'", "'CUBLAS_WORKSPACE_CONFIG'", "str(number)"])
def test_a_device_waits_that_nothing_reads_before_the_environment_is_set(key: str) -> None:
    text = converted(script(imports="import os", definitions=SEED.format(key), data=f"seed(3)\n{DATA}"))
    assert text.index("seed(3)") < text.index("accelerator = Accelerator(")


@pytest.mark.parametrize(
    "sets",
    [
        'os.environ.setdefault("CUDA_VISIBLE_DEVICES", "3")',
        'os.environ.update({"CUDA_VISIBLE_DEVICES": "3"})',
        'os.environ.update(CUDA_VISIBLE_DEVICES="3")',
        "os.environ.update(settings)",
        'os.environ["CUDA_VISIBLE_DEVICES"] = "3"',
    ],
)
def test_nothing_asks_for_devices_before_the_environment_is_set(sets: str) -> None:
    """Not for the sake of a log either, which the main process writes."""
    logs = "import logging\nimport os\n\nsettings = {}\nlogging.basicConfig(filename='x.log')\n"
    text = converted(script(imports=f"{logs}{sets}"))
    assert text.index(sets) < text.index("accelerator = Accelerator(") and "PartialState" not in text
    named = "def log(path):\n    return logging.FileHandler(path)\n\n\nlog('x.log')\n"
    text = converted(script(imports=f"import logging\nimport os\n\nsettings = {{}}\n\n\n{named}{sets}"))
    assert text.index(sets) < text.index("accelerator = Accelerator(") and "PartialState" not in text


@pytest.mark.parametrize(
    ("body", "waits"), [("return torch.ones(8).to(device)", False), ("return torch.ones(8)", True)]
)
def test_a_function_that_runs_before_the_environment_is_set(body: str, waits: bool) -> None:
    definitions = SEED.format("'CUDA_LAUNCH_BLOCKING'") + f"\n\n\ndef mask():\n    {body}"
    text = script(
        imports="import os",
        definitions=definitions,
        data=f"weight = mask()\nseed(3)\n{DATA}",
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x * weight), y)",
    )
    if waits:
        assert converted(text).index("seed(3)") < converted(text).index("accelerator = Accelerator(")
    else:
        assert unchanged(text).line == text[: text.index("seed(3)")].count("\n") + 1


# ---- an option that stands for a device unless it is "auto", or none


GPU = '"cuda" if torch.cuda.is_available() else "cpu"'
CPU_BY_NAME = f"Accelerator(cpu=args.device == 'cpu', {SPLIT})"


def _optional(device: str, default: str) -> str:
    return with_options(device, ", ".join(filter(None, ('"--device"', default))), '"--fast", type=int')


@pytest.mark.parametrize("default", ['default="auto"', 'type=str, default="auto"'])
@pytest.mark.parametrize(
    "device",
    [
        f'device = torch.device({GPU}) if args.device == "auto" else torch.device(args.device)',
        f'device = torch.device(args.device if args.device != "auto" else ({GPU}))',
        f'if args.device == "auto":\n    device = torch.device({GPU})\nelse:\n    device = torch.device(args.device)',
        f'if args.device == "auto":\n    args.device = {GPU}\ndevice = torch.device(args.device)',
        f'if args.device == "auto":\n    args.device = {GPU}\n    print(args.device)\ndevice = args.device',
        f'if args.device.lower() in ("auto", ""):\n    args.device = {GPU}\ndevice = torch.device(args.device)',
        f'if args.device is None or args.device == "auto":\n    args.device = {GPU}\ndevice = args.device',
        f'if args.device == "auto":\n    args.device = {GPU}\n'
        'if args.device == "cuda" and not torch.cuda.is_available():\n    args.device = "cpu"\n'
        "device = torch.device(args.device)",
        f'device = args.device\nif device == "auto":\n    device = {GPU}',
        f'device = args.device\nif device == "auto":\n    device = {GPU}\ndevice = torch.device(device)',
    ],
)
def test_an_option_that_chooses_by_itself(device: str, default: str) -> None:
    text = _optional(device, default)
    assert creation(text) == CPU_BY_NAME
    assert "    accelerator = Accelerator(" not in converted(text)  # it is made whatever the option is
    assert findings(text) == ["DEV-INDEX"]


@pytest.mark.parametrize(
    ("device", "default", "cpu"),
    [
        (f"device = torch.device(args.device or ({GPU}))", "default=None", 'args.device == "cpu"'),
        (f"device = torch.device(args.device or ({GPU}))", "", 'args.device == "cpu"'),
        (
            'device = torch.device(args.device or "cpu")',
            "default=None",
            'args.device and args.device == "cpu" or not args.device',
        ),
        (
            'if args.device == "cuda" and not torch.cuda.is_available():\n    args.device = "cpu"\n'
            "device = torch.device(args.device)",
            'default="cuda"',
            'args.device == "cpu"',
        ),
        (
            'if not (args.device == "cuda" and torch.cuda.is_available()):\n    args.device = "cpu"\n'
            "device = torch.device(args.device)",
            'default="cuda"',
            'args.device != "cuda"',
        ),
        (
            'if args.device == "auto":\n    args.device = "cpu"\ndevice = torch.device(args.device)',
            'default="auto"',
            'args.device == "auto" or (args.device != "auto" and args.device == "cpu")',
        ),
        (f"device = args.device\nif device is None:\n    device = {GPU}", "", 'args.device == "cpu"'),
        (f'device = args.device\nif device == "auto":\n    device = {GPU}', 'default="best"', 'args.device == "cpu"'),
    ],
)
def test_when_an_option_is_the_cpu(device: str, default: str, cpu: str) -> None:
    made = creation(_optional(device, default))
    assert made == ast.unparse(ast.parse(f"Accelerator(cpu={cpu}, {SPLIT})").body[0])


@pytest.mark.parametrize(
    ("device", "default"),
    [
        (f"if args.fast:\n    args.device = {GPU}\ndevice = torch.device(args.device)", 'default="best"'),
        ("if args.fast:\n    device = torch.device('cuda')", ""),
        # of a variable that another option may set, too
        (f"device = args.device\nif args.fast:\n    device = {GPU}", 'default="best"'),
        # of an object that is no command line, it is not known what it was before
        (f"config = Config()\nif config.device:\n    config.device = {GPU}\ndevice = torch.device(config.device)", ""),
    ],
)
def test_a_device_that_is_not_known_is_not_guessed(device: str, default: str) -> None:
    text = _optional(device, default).replace("class Net", "class Config:\n    device = None\n\n\nclass Net")
    assert unchanged(text).code == "DEV-UNKNOWN"


# ---- the GPU that is current


@pytest.mark.parametrize(
    "device",
    [
        "device = 'cpu'\nif torch.cuda.is_available():\n    device = torch.cuda.current_device()",
        "device = torch.cuda.current_device() if torch.cuda.is_available() else 'cpu'",
    ],
)
def test_the_current_gpu_where_the_other_choice_is_the_cpu(device: str) -> None:
    text = script(device=device)
    assert creation(text) == f"Accelerator({SPLIT})"
    assert "current_device" not in converted(text)
    assert findings(text) == []


@pytest.mark.parametrize("device", ["torch.cuda.current_device()", "torch.cuda.current_device() + 1"])
def test_the_number_of_the_current_gpu_is_a_number(device: str) -> None:
    text = script(device=f"number = {device}\ndevice = f'cuda:{{number}}'")
    assert f"number = {device}" in converted(text)


AFTERWARDS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
{first}
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.zeros(16, 4), torch.zeros(16, 1)), batch_size=4)
def train():
    for x, y in loader:
        loss = ((model(x.to({place})) - y.to({place})) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train()
{last}
"""


@pytest.mark.parametrize("name", ['torch.device("cpu")', '"cpu"'])
def test_a_variable_that_is_the_cpu_when_training_is_over(name: str) -> None:
    text = AFTERWARDS.format(
        first="where = device", place="where", last=f"device = {name}\nprint(torch.ones(2).to(device))"
    )
    output = converted(text)
    assert "cpu=True" not in output
    assert f"device = {name}\n" in output


def test_a_variable_that_is_set_to_the_cpu_before_anything_moves() -> None:
    for first in ('device = "cpu"', 'print(device)\ndevice = torch.device("cpu")'):
        assert "cpu=True" in converted(AFTERWARDS.format(first=first, place="device", last=""))


def test_a_read_that_may_be_of_either_device_is_not_guessed() -> None:
    assert unchanged(AFTERWARDS.format(first="", place="device", last='device = "cpu"')).code == "DEV-UNKNOWN"


TWICE = """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
{between}

def train(model, loader, optimizer):
    for x, y in loader:
        x, y = x.to(DEVICE), y.to(DEVICE)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def main(args):
    model = nn.Linear(4, 1).to(DEVICE)
    loader = DataLoader(TensorDataset(torch.ones(8, 4), torch.ones(8, 1)), batch_size=4)
    train(model, loader, torch.optim.SGD(model.parameters(), lr=args.lr))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    {before}
    DEVICE = torch.device("cpu" if args.cpu or not torch.cuda.is_available() else "cuda")
    main(args)
"""


def test_a_device_that_is_chosen_again_before_anything_reads_it() -> None:
    output = converted(TWICE.format(between="", before="pass"))
    assert 'DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n' in output
    made = "    accelerator = Accelerator(\n        cpu=args.cpu, dataloader_config"
    assert made in output and "    main(args, accelerator)\n" in output
    assert "x.to(DEVICE)" not in output


@pytest.mark.parametrize(
    ("between", "before"),
    [
        ("WEIGHTS = torch.ones(3, device=DEVICE)", "pass"),
        ("def weights(device=DEVICE):\n    return torch.ones(3, device=device)", "pass"),
        ("class Settings:\n    device = DEVICE", "pass"),
        ("def show():\n    print(DEVICE)\n\nshow()", "pass"),
        ("def show():\n    print(DEVICE)", "show()"),
        ("def show():\n    print(DEVICE)", "parser.exit = show"),
        ("", "print(DEVICE)"),
    ],
)
def test_a_device_that_something_may_read_before_it_is_chosen_again(between: str, before: str) -> None:
    assert unchanged(TWICE.format(between=between, before=before)).code == "DEV-UNKNOWN"


@pytest.mark.parametrize(
    ("device", "codes"),
    [
        ('torch.device("cuda" if args.backend == "gpu" else "cpu")', []),
        ('torch.device("cpu" if args.backend != "gpu" or not torch.cuda.is_available() else "cuda")', []),
        ("torch.device(args.backend)", ["DEV-INDEX"]),
    ],
)
def test_an_option_that_is_asked_for_a_word_gives_no_number(device: str, codes: list[str]) -> None:
    assert findings(with_options(f"device = {device}", '"--backend", default="cpu"')) == codes


OPTION = "force = len(__import__('sys').argv) > 1"
AGAIN = """\
def build(force):
    device = torch.device("cuda" if torch.cuda.is_available() and not force else "cpu")
    return Net().to(device)
"""


@pytest.mark.parametrize(
    ("setup", "again", "codes"),
    [
        (OPTION, AGAIN, ["DEV-OPTION"]),
        (OPTION, AGAIN.replace(" and not force", ""), []),  # the same choice
        ("force = False", AGAIN.replace(" and not force", " and not False"), []),
    ],
)
def test_a_later_choice_that_asks_an_option_is_reported(setup: str, again: str, codes: list[str]) -> None:
    assert findings(script(definitions=again, setup=setup, model="model = build(force)")) == codes


def test_one_choice_that_asks_an_option_keeps_it() -> None:
    choice = 'device = torch.device("cuda" if torch.cuda.is_available() and not force else "cpu")'
    text = script(setup=OPTION, device=choice)
    assert findings(text) == []
    assert "Accelerator(\n    cpu=" in converted(text)


def test_a_blank_before_the_number_of_a_gpu() -> None:
    setting = "class Setting:\n    device = torch.device('cuda: 0' if torch.cuda.is_available() else 'cpu')\n"
    text = script(definitions=setting, device="device = Setting.device")
    assert creation(text) == f"Accelerator({SPLIT})"


@pytest.mark.parametrize(
    ("asked", "again"),
    [
        ("os.environ.get('GPU', '').lower() == 'no'", True),
        ("len(sys.argv) > 3", True),
        ("input() == 'cpu'", False),
        ("random.random() < 0.5", False),
        ("int(sys.argv.pop()) > 3", False),
        ("ask() and True", False),
        ("not bool(next(lines))", False),
    ],
)
def test_what_does_something_is_not_asked_again(asked: str, again: bool) -> None:
    """The accelerator is wanted before the variable is set; a question that changes something stays the only one."""
    asking = "def ask():\n    return not sys.stdin.readline()"
    slots = {"imports": "import os\nimport random\nimport sys", "definitions": asking}
    choice = 'device = torch.device("cpu" if no_cuda or not torch.cuda.is_available() else "cuda")'
    setup = f"lines = iter(sys.argv)\nprint('begin')\nno_cuda = {asked}"
    output = converted(script(**slots, setup=setup, device=choice))
    assert ("cpu=no_cuda" not in output) == again
    assert ("accelerator.print('begin')" in output) == again
    assert output.count(asked) == 1 + (again and asked.startswith("len"))


UNCALLED = """\
def evaluate(net, loader, device=None):
    if device is None:
        device = next(net.parameters()).device
    return sum((net(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader)
"""


@pytest.mark.parametrize(("after", "code"), [("", None), ("print(evaluate(model, loader))", "DEV-UNKNOWN")])
def test_what_nobody_calls_moves_nothing(after: str, code: str | None) -> None:
    text = script(definitions=UNCALLED, device="", move="", model="model = Net()", after=after)
    if code is None:
        assert findings(text) == ["DEV-CPU"]
        assert "Accelerator(\n    cpu=True," in converted(text)
    else:
        assert unchanged(text).code == code


@pytest.mark.parametrize(
    ("choices", "codes"),
    [
        ('["cpu", "cuda"]', []),
        ('("auto", "cuda", "cpu")', []),
        ('["cpu", "cuda:0", "cuda:1"]', ["DEV-INDEX"]),
        ("DEVICES", ["DEV-INDEX"]),
    ],
)
def test_an_option_of_words_without_a_number_tells_of_none(choices: str, codes: list[str]) -> None:
    option = f'parser.add_argument("--device", default="cuda", choices={choices})'
    setup = f"DEVICES = []\nparser = argparse.ArgumentParser()\n{option}\nargs = parser.parse_args()"
    assert (
        findings(script(imports="import argparse", setup=setup, device="device = torch.device(args.device)")) == codes
    )


def flagged(asked: str, flag: str, first: str = "") -> str:
    """A trainer that moves its batches where a flag says so, which its loss is told, too."""
    return script(
        imports="import argparse",
        definitions=f"""\
class Loss:
    def __init__(self, cuda=False):
        self.cuda = cuda

    def mean(self, out, y):
        criterion = nn.CrossEntropyLoss()
        if self.cuda:
            criterion = criterion.cuda()
        return criterion(out, y)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.loader = DataLoader(data, batch_size=16, shuffle=True)
        self.loss = Loss(args.cuda)
        self.model = Net()
        if args.cuda:
            self.model = self.model.cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for x, y in self.loader:
            if {asked}:
                x, y = x.cuda(), y.cuda()
            self.optimizer.zero_grad()
            loss = self.loss.mean(self.model(x), y)
            loss.backward()
            self.optimizer.step()
""",
        device="",
        loader="",
        model="",
        optimizer="",
        epochs="",
        before=(
            "parser = argparse.ArgumentParser()\n"
            'parser.add_argument("--no-cuda", action="store_true")\n'
            'parser.add_argument("--cuda", action="store_true")\n'
            'parser.add_argument("--slow", action="store_true")\n'
            f"args = parser.parse_args()\n{first}args.cuda = {flag}\ntrainer = Trainer(args)\ntrainer.fit()"
        ),
        **dict.fromkeys(("loop", "move", "forward", "backward", "step"), ""),
    )


@pytest.mark.parametrize("flag", ["not args.no_cuda and torch.cuda.is_available()", "args.cuda and not args.slow"])
def test_a_flag_goes_by_the_name_of_its_object_elsewhere(flag: str) -> None:
    text = converted(flagged("self.args.cuda", flag))
    assert "cpu=not args.cuda," in text
    assert "self.model = self.model.cuda()" not in text


def test_flags_that_disagree_tell_nothing() -> None:
    assert unchanged(flagged("self.args.slow", "not args.no_cuda")).code == "DEV-UNKNOWN"
    other = flagged("self.args.cuda", "not args.no_cuda").replace("Loss(args.cuda)", "Loss(args.slow)")
    assert unchanged(other).code == "DEV-UNKNOWN"


def test_a_flag_that_is_set_again_by_another_name_is_asked_for_itself() -> None:
    text = converted(flagged("self.args.cuda", "not args.no_cuda", "other = args\nother.cuda = args.slow\n"))
    assert "cpu=not args.cuda," in text


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("    device = torch.device('mps')\n    print('by mps')", "    accelerator.print('by mps')"),
        ("    device = torch.device('mps')", ""),
        (
            "    device = torch.device('mps')\n    print('by mps')\nelse:\n    print('by cuda')",
            "    accelerator.print('by mps')\nelse:\n    accelerator.print('by cuda')",
        ),
    ],
)
def test_a_device_that_is_chosen_again_for_another_kind_is_bound_once(after: str, expected: str) -> None:
    test = "if torch.backends.mps.is_available():\n"
    chosen = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    text = script(device=f"{chosen}{test}{after}", batch_end="z = torch.ones(3, device=device)")
    bound = f"{CREATED}\ndevice = accelerator.device\n"
    out = lifted(device=f"{bound}{test}{expected}" if expected else bound, batch_end="z = torch.ones(3, device=device)")
    assert converted(text) == out


def test_a_device_that_is_chosen_again_where_nothing_else_is_done_or_else() -> None:
    arms = "if torch.cuda.is_available():\n    device = 'cuda'\n    print(1)\nelse:\n    device = 'cpu'\n    print(2)"
    text = script(device=arms, batch_end="z = torch.ones(3, device=device)")
    assert converted(text).count("device = accelerator.device") == 2


TRAINER = """\
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Trainer:
    def __init__(self, lr=0.1, device=None):
        self.lr = lr
        {chosen}
        self.model = nn.Linear(4, 1).to(self.device)
        self.optimizer = optim.SGD(self.model.parameters(), lr=lr)
        self.loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=8)

    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x.to(self.device)), y.to(self.device))
            loss.backward()
            self.optimizer.step()


{made}.train()
"""
CHOSEN = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'


@pytest.mark.parametrize("made", ["Trainer()", "Trainer(lr=0.2)", "Trainer(0.2, None)"])
@pytest.mark.parametrize(
    "chosen",
    [
        f"if device:\n            self.device = device\n        else:\n            self.device = {CHOSEN}",
        f"if device is not None:\n            self.device = device\n        else:\n            self.device = {CHOSEN}",
        f"if device is None:\n            device = {CHOSEN}\n        self.device = device",
        f"self.device = device if device is not None else {CHOSEN}",
        f"self.device = device or {CHOSEN}",
        f"device = {CHOSEN}\n        self.device = device",
    ],
)
def test_a_device_that_no_call_gives(chosen: str, made: str) -> None:
    text = TRAINER.format(chosen=chosen, made=made)
    assert creation(text) == f"Accelerator({SPLIT})"
    assert findings(text) == []
    assert "device =" not in converted(text).replace("device=None", "")


@pytest.mark.parametrize(
    "made",
    [
        'Trainer(device="cuda").train()\nTrainer()',  # given, and not
        "Trainer(device=choose())",  # by what is not known
        "Trainer(*rest)",
    ],
)
def test_a_device_that_a_call_may_give(made: str) -> None:
    chosen = f"if device:\n            self.device = device\n        else:\n            self.device = {CHOSEN}"
    text = "from other import choose, rest\n" + TRAINER.format(chosen=chosen, made=made)
    assert unchanged(text)
    assert findings(text) == ["DEV-UNKNOWN"]


def test_a_device_that_something_else_reads_stays() -> None:
    chosen = f"device = {CHOSEN}\n        self.device = device\n        self.noise = torch.ones(3).to(device)"
    text = converted(TRAINER.format(chosen=chosen, made="Trainer()"))
    assert "        device = self.accelerator.device\n        self.noise = torch.ones(3).to(device)\n" in text


def test_a_function_that_chooses_a_device_where_it_is_given_none() -> None:
    text = script(
        definitions=f"def ones(device=None):\n    if device is None:\n        device = {CHOSEN}\n"
        "    return torch.ones(3, device=device)",
        before="weight = ones()",
    )
    assert findings(text) == []
    assert f"Accelerator({SPLIT})" in converted(text)
