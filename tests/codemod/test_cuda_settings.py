"""DEVSET and DATAPARALLEL: what ties a process to one GPU, or drives several from one process."""

from __future__ import annotations

import textwrap

import pytest
from scripts import converted, findings, lifted, script, severities

ARGUMENTS = """\
parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=0)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    "setup",
    ["torch.cuda.set_device(1)", "if torch.cuda.is_available():\n    torch.cuda.set_device(1)"],
)
def test_setting_the_device_goes_and_is_reported(setup: str) -> None:
    assert converted(script(setup=setup)) == lifted()
    assert findings(script(setup=setup)) == ["DEV-INDEX"]


@pytest.mark.parametrize(("number", "codes"), [("cuda:1", ["DEV-INDEX"]), ("cuda", [])])
def test_setting_the_device_that_is_in_a_variable_says_nothing_more(number: str, codes: list[str]) -> None:
    device = f'device = torch.device("{number}" if torch.cuda.is_available() else "cpu")'
    text = script(device=f"{device}\ntorch.cuda.set_device(device)")
    assert converted(text) == lifted()
    assert findings(text) == codes


def test_setting_the_device_by_a_flag_goes_and_the_flag_stays() -> None:
    before = script(imports="import argparse", setup=f"{ARGUMENTS}torch.cuda.set_device(args.gpu)")
    assert converted(before) == lifted(imports="import argparse", setup=ARGUMENTS)
    assert findings(before) == ["DEV-INDEX"]


@pytest.mark.parametrize(
    "slots",
    [
        {"setup": "current = torch.cuda.current_device() if torch.cuda.is_available() else 0"},
        {"setup": "torch.set_num_threads(1)"},
        {
            "definitions": "class Stage:\n    def set_device(self, i):\n        self.i = i",
            "setup": "Stage().set_device(0)",
        },
    ],
)
def test_other_settings_stay(slots: dict[str, str]) -> None:
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == []


def test_without_the_rule_the_setting_stays() -> None:
    setup = "torch.cuda.set_device(1)"
    assert converted(script(setup=setup), ignore=("DEVSET",)) == lifted(setup=setup)


@pytest.mark.parametrize(
    ("device", "codes"),
    [
        ('torch.device("cuda:1" if torch.cuda.is_available() else "cpu")', ["DEV-INDEX"]),
        ('torch.device(f"cuda:{args.gpu}" if torch.cuda.is_available() else "cpu")', ["DEV-INDEX"]),
        ('torch.device("cuda:{}".format(args.gpu) if torch.cuda.is_available() else "cpu")', ["DEV-INDEX"]),
        ('torch.device("cuda:" + str(args.gpu))', ["DEV-INDEX"]),
        ("torch.device(args.gpu)", ["DEV-INDEX"]),
        ('torch.device("cuda:0" if torch.cuda.is_available() else "cpu")', []),  # the first one is no choice
        ('torch.device("cuda" if torch.cuda.is_available() else "cpu")', []),
    ],
)
def test_a_device_chosen_by_number_is_reported(device: str, codes: list[str]) -> None:
    before = script(imports="import argparse", setup=ARGUMENTS, device=f"device = {device}")
    assert converted(before) == lifted(imports="import argparse", setup=ARGUMENTS)
    assert findings(before) == codes


@pytest.mark.parametrize(
    ("setup", "codes"),
    [
        ('torch.set_default_device("cuda")', ["DEV-DEFAULT"]),
        ('torch.set_default_tensor_type("torch.cuda.FloatTensor")', ["DEV-DEFAULT"]),
        ("torch.set_default_tensor_type(torch.cuda.FloatTensor)", ["DEV-DEFAULT"]),
        ('torch.set_default_device("cpu")', []),
        ("torch.set_default_tensor_type(torch.DoubleTensor)", []),
        ("torch.set_default_dtype(torch.float64)", []),
    ],
)
def test_a_gpu_as_the_default_device_is_reported_and_left(setup: str, codes: list[str]) -> None:
    assert converted(script(setup=setup)) == lifted(setup=setup)
    assert findings(script(setup=setup)) == codes


@pytest.mark.parametrize(
    ("setup", "codes"),
    [
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0"', ["DEV-INDEX"]),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"', []),
        ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"', []),
        ('settings = {}\nsettings["CUDA_VISIBLE_DEVICES"] = "0"', []),
    ],
)
def test_one_visible_gpu_is_reported(setup: str, codes: list[str]) -> None:
    slots = {"imports": "import os", "setup": setup}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == codes


NUMBERED = [
    "0",
    "1",
    '"cuda:1"',
    "args.gpu",
    "gpu",
    'torch.device("cuda", 1)',
]


@pytest.mark.parametrize("number", NUMBERED)
def test_a_block_that_makes_a_gpu_the_current_one_is_left_bare(number: str) -> None:
    setup = f"{ARGUMENTS}gpu = 1"
    header = f"with torch.cuda.device({number}):"
    body = '# the mean\nprint(data.tensors[0].mean())\nprint("""of\n        all""")\n# said'
    before = script(imports="import argparse", setup=setup, before=f"{header}\n{textwrap.indent(body, '    ')}")
    bare = body.replace("print(", "accelerator.print(").replace("of\n", "of\n    ")
    assert converted(before) == lifted(imports="import argparse", setup=setup, before=bare)
    assert findings(before) == ([] if number == "0" else ["DEV-INDEX"])


def test_edits_around_and_inside_a_bare_block_fit() -> None:
    loop = "with torch.cuda.device(0):\n    for x, y in loader:"
    model = "model = Net()\nwith torch.cuda.device(0):  # ours\n    model.cuda()"
    assert converted(script(model=model)) == lifted(model="model = Net()\n# ours")
    deep = script(loop=loop).replace("\n        x, y =", "\n            x, y =")
    for line in ("optimizer.zero_grad()", "loss = F.cross_entropy(model(x), y)", "loss.backward()", "optimizer.step()"):
        deep = deep.replace(f"\n        {line}", f"\n            {line}")
    assert converted(deep) == lifted()
    assert "\naccelerator.print(1)\n" in converted(script(after="with torch.cuda.device(0): print(1)"))


def test_a_function_that_is_handed_the_number_has_its_block_left_bare() -> None:
    body = "def show(gpu):\n    with torch.cuda.device(gpu):\n        print(len(data))"
    bare = "def show():\n    accelerator.print(len(data))"
    before = script(definitions=body, after="show(1)\nshow(2)")
    assert converted(before) == lifted(definitions=bare, after="show()\nshow()")
    assert findings(before) == ["DEV-INDEX"]


@pytest.mark.parametrize(
    "before",
    [
        "with torch.cuda.device(data.tensors[0].device):\n    total = data.tensors[0].sum()",
        "with torch.cuda.device(torch.cuda.current_device()):\n    total = data.tensors[0].sum()",
        "with torch.cuda.device(-1):\n    total = data.tensors[0].sum()",
        "with torch.cuda.device(None):\n    total = data.tensors[0].sum()",
        "with torch.cuda.stream(torch.cuda.Stream()):\n    total = data.tensors[0].sum()",
    ],
)
def test_a_block_that_picks_no_gpu_stays(before: str) -> None:
    assert converted(script(before=before)) == lifted(before=before)
    assert findings(script(before=before)) == []


@pytest.mark.parametrize(
    "before",
    [
        "with torch.cuda.device(0), torch.no_grad():\n    total = data.tensors[0].sum()",
        "place = torch.cuda.device(0)\nwith place:\n    total = data.tensors[0].sum()",
        "with torch.cuda.device(len(data) % 2):\n    total = data.tensors[0].sum()",
        "setting = torch.cuda.set_device(0)",
    ],
)
def test_a_gpu_that_stays_the_current_one_of_every_process_is_reported(before: str) -> None:
    assert converted(script(before=before)) == lifted(before=before)
    assert findings(script(before=before)) == ["DEV-LEFT"]


# ---- DataParallel


@pytest.mark.parametrize(
    "model",
    [
        "model = Net()\nmodel = nn.DataParallel(model)\nmodel = model.to(device)",
        "model = Net()\nif torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\nmodel.to(device)",
        "model = nn.DataParallel(Net()).to(device)",
        "model = torch.nn.DataParallel(Net(), device_ids=[0, 1]).cuda()",
        "net = Net()\nmodel = nn.DataParallel(net)\nmodel.to(device)",
    ],
)
def test_data_parallel_goes(model: str) -> None:
    left = "net = Net()\nmodel = net" if model.startswith("net") else "model = Net()"
    assert converted(script(model=model)) == lifted(model=left)
    assert findings(script(model=model)) == []
    assert findings(script(model=model, after="torch.save(model.state_dict(), 'a.pt')")) == ["CKPT-KEYS"]


def test_the_attribute_of_the_wrapper_goes_with_it() -> None:
    before = script(model="model = nn.DataParallel(Net()).to(device)", after='path = "m.pt"\nprint(model.module.layer)')
    after = 'path = "m.pt"\naccelerator.print(accelerator.unwrap_model(model).layer)'
    assert converted(before) == lifted(after=after)


def test_an_import_of_data_parallel_goes_when_nothing_else_uses_it() -> None:
    before = script(from_imports="from torch.nn import DataParallel", model="model = DataParallel(Net()).to(device)")
    assert converted(before) == lifted()


def test_what_else_stands_under_the_question_for_gpus_stays() -> None:
    slots = {"optimizer": "batch = 16\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"}
    question = "model = Net()\nif torch.cuda.device_count() > 1:\n    torch.backends.cudnn.benchmark = True"
    before = script(model=f"{question}\n    model = nn.DataParallel(model)\nmodel.to(device)", **slots)
    assert converted(before) == lifted(model=question, **slots)


def test_a_class_of_that_name_of_the_scripts_own_stays() -> None:
    slots = {
        "definitions": "class DataParallel(nn.Module):\n    def __init__(self, module):\n        super().__init__()\n"
        "        self.inner = module\n\n    def forward(self, x):\n        return self.inner(x)",
    }
    before = script(model="model = DataParallel(Net()).to(device)", **slots)
    assert converted(before) == lifted(model="model = DataParallel(Net())", **slots)
    assert findings(before) == []


@pytest.mark.parametrize(
    ("chosen", "instead"),
    [
        ("'cuda:1'", "PartialState().device"),
        ("f'cuda:{number}'", "PartialState().device"),
        ("torch.device(f'cuda:{number}')", "PartialState().device"),
        ("'cuda'", ""),
    ],
)
def test_a_numbered_gpu_of_a_class_of_settings_is_that_of_the_process(chosen: str, instead: str) -> None:
    """Else the model would be on the process's GPU, and the batches on another one."""
    definitions = f"class Config:\n    number = 1\n    device = {chosen}\n"
    slots = {"definitions": definitions, "device": "", "move": "x, y = x.to(Config.device), y.to(Config.device)"}
    text = script(main=True, model="model = Net().to(Config.device)", **slots)
    assert (f"    device = {instead}\n" if instead else definitions) in converted(text)
    assert findings(text) == (["DEV-INDEX"] if instead else [])


@pytest.mark.parametrize(
    ("settings", "device", "told"),
    [
        ("settings = json.load(open('a.json'))", "torch.device(settings['device'])", True),
        ("settings = Settings(json.load(open('a.json')))", "torch.device(settings.device)", True),
        (
            "settings = Settings(json.load(open('a.json')))",
            "torch.device('cuda') if settings.device == 'auto' else torch.device(settings.device)",
            True,
        ),
        ("settings = {'device': 'cuda'}", "torch.device(settings['device'])", False),
        ("settings = Settings('cuda')", "torch.device('cuda' if settings.device == 'gpu' else 'cpu')", False),
    ],
)
def test_a_setting_that_may_name_a_gpu(settings: str, device: str, told: bool) -> None:
    definitions = "class Settings:\n    def __init__(self, device):\n        self.device = device"
    text = script(imports="import json", definitions=definitions, setup=settings, device=f"device = {device}")
    assert severities(text, "DEV-INDEX") == ["note"] * told


MOVES_ITSELF = """\
class Big(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.mask = torch.ones(3)

    def forward(self, x):
        return self.layer(x) * self.mask

    def cuda(self, device=None):
        self.mask = self.mask.cuda(device)
        return super().cuda(device)
"""


@pytest.mark.parametrize(("given", "codes"), [("", []), ("0", []), ("device=1", ["DEV-INDEX"]), ("3", ["DEV-INDEX"])])
def test_what_a_network_hands_on_that_is_moved_to_the_current_gpu(given: str, codes: list[str]) -> None:
    slots = {"definitions": MOVES_ITSELF, "device": "", "move": "x, y = x.cuda(), y.cuda()"}
    assert [c for c in findings(script(**slots, model=f"model = Big().cuda({given})")) if c == "DEV-INDEX"] == codes
