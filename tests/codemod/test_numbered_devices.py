"""GPUs by their numbers: `x.to(0)`, `x.to(args.gpu)`, or `x.to(n)` where something else goes to `.cuda(n)`."""

from __future__ import annotations

import pytest
from scripts import convert, converted, creation, findings, script, unchanged
from test_create import parsed

OPTION = parsed('"--gpu", type=int, default=0')
MADE = "noise = torch.randn(3).to({0})\n    ones = torch.ones(3, device={0})"
INDEX = "picks a GPU by its number"


def _script(number: str, setup: str = "", model: str = "model = Net().to({})", made: str = MADE, **slots: str) -> str:
    """A script that moves everything to the GPU of some number."""
    step = "optimizer.step()\n" + made.replace("    ", "").format(number)
    return script(
        **{
            "imports": "import argparse, json, os",
            "setup": f"{OPTION}\n{setup}",
            "device": "",
            "model": model.format(number),
            "move": f"x, y = x.to({number}), y.to({number})",
            "step": step,
            **slots,
        }
    )


NUMBERS = [("0", ""), ("args.gpu", ""), ("gpu", "gpu = args.gpu"), ("gpu", "gpu = 1")]


@pytest.mark.parametrize(("number", "setup"), NUMBERS)
@pytest.mark.parametrize("model", ["model = Net().to({})", "model = Net().cuda({})"])
def test_a_number_is_a_gpu(number: str, setup: str, model: str) -> None:
    text = converted(_script(number, setup, model))
    assert "model = Net()\n" in text and "x.to(" not in text
    assert "noise = torch.randn(3).to(accelerator.device)\n" in text
    assert "ones = torch.ones(3, device=accelerator.device)\n" in text


@pytest.mark.parametrize(
    ("number", "setup"),
    [
        ('cfg["gpu"]', "cfg = json.load(open('c.json'))"),
        ("cfg.gpu", "cfg = argparse.Namespace(**json.load(open('c.json')))"),
        ("gpus[0]", "gpus = [0, 1]"),
        ("gpu", "gpu = int(os.environ.get('GPU', 0))"),
    ],
)
def test_what_cuda_takes_is_a_gpu_for_to_as_well(number: str, setup: str) -> None:
    text = converted(_script(number, setup, "model = Net().cuda({})"))
    assert "model = Net()\n" in text and "x.to(" not in text
    assert "noise = torch.randn(3).to(accelerator.device)\n" in text
    alone = _script(number, setup)
    if number.startswith("cfg"):  # what a file holds is a word or a number: it can be nothing but a device
        assert "noise = torch.randn(3).to(accelerator.device)\n" in converted(alone)
    else:
        unchanged(alone)  # nothing tells what it is


def test_a_number_that_functions_are_given() -> None:
    definitions = "def steps(gpu, x):\n    return torch.zeros(3).to(gpu) + x.sum()\n\n\n"
    taken = "steps({}, x)"
    text = converted(_script("args.gpu", model="model = Net().cuda({})", made=taken, definitions=definitions))
    assert "torch.zeros(3).to(accelerator.device)" in text


def test_a_number_that_is_handed_on_through_many_calls() -> None:
    calls = "    x = put{}(x, gpu)\n" * 10
    functions = "".join(f"def put{i}(x, gpu):\n{calls.format(*[i - 1] * 10)}    return x\n\n\n" for i in range(1, 8))
    definitions = f"def put0(x, gpu):\n    return x.to(gpu)\n\n\n{functions}"
    text = converted(_script("args.gpu", made="put7(x, {})", definitions=definitions))
    assert "def put0(x):\n    return x\n" in text


def test_an_attribute_that_is_set_is_the_same_in_all_functions() -> None:
    definitions = "def steps(args, x):\n    return torch.zeros(3).to(args.where) + x.sum()\n\n\n"
    setup = "args.where = json.load(open('c.json'))['gpu']"
    text = _script("args.where", setup, "model = Net().cuda({})", "steps(args, x)", definitions=definitions)
    assert "torch.zeros(3).to(accelerator.device)" in converted(text)


def test_another_variable_stays() -> None:
    setup = "cfg = json.load(open('c.json'))\ngpu = cfg['gpu']\nkind = cfg['kind']"
    text = converted(_script("gpu", setup, "model = Net().cuda({})", "torch.ones(3).to(kind)"))
    assert "torch.ones(3).to(kind)" in text
    again = converted(
        _script("gpu", f"{setup}\ngpu = args.gpu", "model = Net().cuda({})", "torch.ones(3).to(cfg['gpu'])")
    )
    assert "torch.ones(3).to(cfg['gpu'])" in again


@pytest.mark.parametrize(("number", "told"), [("0", False), ("1", True), ("args.gpu", True)])
@pytest.mark.parametrize("model", ["model = Net().to({})", "model = Net().cuda({})"])
def test_the_number_has_no_effect_any_more(number: str, told: bool, model: str) -> None:
    found = findings(_script("gpu", f"gpu = {number}", model))
    assert found.count("DEV-INDEX") == told


@pytest.mark.parametrize(("number", "told"), [("0", False), ("1", True), ("args.gpu", True)])
def test_a_function_that_is_given_the_first_gpu(number: str, told: bool) -> None:
    definitions = "def put(model, gpu):\n    return model.to(gpu)\n\n\n"
    text = _script("0", model=f"model = put(Net(), {number})", definitions=definitions)
    assert ("DEV-INDEX" in findings(text)) == told


CHOICES = [
    ("gpu = 0 if torch.cuda.is_available() else 'cpu'", ""),
    ("gpu = args.gpu if torch.cuda.is_available() else 'cpu'", ""),
    ("gpu = 'cpu'\nif torch.cuda.is_available():\n    gpu = 0", ""),
    ("gpu = args.gpu if args.gpu >= 0 else 'cpu'", "cpu=args.gpu < 0"),
]


@pytest.mark.parametrize(("choice", "cpu"), CHOICES)
def test_a_number_or_the_cpu(choice: str, cpu: str) -> None:
    text = converted(_script("gpu", choice))
    assert "gpu = accelerator.device\n" in text
    assert "noise = torch.randn(3).to(gpu)\n" in text
    assert (cpu or "Accelerator(data") in creation(_script("gpu", choice))


@pytest.mark.parametrize(("choice", "cpu"), CHOICES)
@pytest.mark.parametrize(
    ("use", "asks"),
    [
        ("print(gpu)", "print(gpu)"),
        ("if gpu != 'cpu':\n    torch.cuda.empty_cache()", "if gpu.type != 'cpu':\n    torch.cuda.empty_cache()"),
        ("torch.cuda.get_device_name(gpu)", "torch.cuda.get_device_name(gpu)"),
    ],
)
def test_it_may_be_shown_and_asked_whether_it_is_the_cpu(choice: str, cpu: str, use: str, asks: str) -> None:
    output = converted(_script("gpu", choice, before=use))
    assert "gpu = accelerator.device\n" in output and asks in output


@pytest.mark.parametrize(("choice", "cpu"), CHOICES)
@pytest.mark.parametrize(
    "use",
    [
        "if gpu == 0:\n    print('first')",
        "name = ['a', 'b'][gpu]",
        "torch.save(model, f'net{gpu}.pt')",
        "log = open('log' + str(gpu))",
        "args.where = gpu",
        "torch.manual_seed(gpu)",
        "ones = torch.full((2,), gpu)",
        "ones = torch.full((2,), fill_value=gpu)",
        "def show(n):\n    return n + 1\nshow(gpu)",
    ],
)
def test_who_takes_the_number_for_one_keeps_it(choice: str, cpu: str, use: str) -> None:
    assert convert(_script("gpu", choice, before=use)).output is None
    unchanged(_script("gpu", choice, before=use))


@pytest.mark.parametrize(("choice", "cpu"), CHOICES)
@pytest.mark.parametrize("other", ["one = torch.ones(3).to(0)", "one = torch.ones(3, device=0)", "one = Net().cuda()"])
def test_so_it_is_where_something_else_goes_to_a_gpu(choice: str, cpu: str, other: str) -> None:
    text = _script("gpu", choice, before=f"{other}\nif gpu == 0:\n    print('first')")
    assert findings(text) == ["DEV-UNKNOWN"]
    unchanged(text)


@pytest.mark.parametrize("read", ['settings["device"]', 'settings.get("device")'])
def test_the_name_of_a_gpu_in_a_dict_of_settings(read: str) -> None:
    text = _script(read, 'settings = {"device": "cuda:3", "rate": 0.1}')
    output = converted(text)
    assert "model = Net()\n" in output and "x.to(" not in output and '"device": "cuda:3"' in output
    assert "noise = torch.randn(3).to(accelerator.device)\n" in output
    assert "ones = torch.ones(3, device=accelerator.device)\n" in output
    assert findings(text) == ["DEV-INDEX"]
    assert findings(text.replace("cuda:3", "cuda:0")) == []
    unknown = "for held in open_all([settings]):\n    made = torch.ones(3, device=held['device'])"
    assert findings(_script(read, 'settings = {"device": "cuda:0"}', before=unknown)) == ["DEV-LEFT"]
    assert findings(_script(read, 'settings = {"device": "cuda"}', before=unknown)) == []


CHOSEN = 'torch.device("cuda:0" if torch.cuda.is_available() else "cpu")'


@pytest.mark.parametrize(
    "held", [f"dict(device={CHOSEN})", f'{{"device": {CHOSEN}}}', f"{{1: dict(device={CHOSEN})}}[1]"]
)
def test_one_gpu_in_a_dict_of_settings_is_that_of_the_process_wherever_it_is_read(held: str) -> None:
    text = _script('settings["device"]', f"settings = {held}")
    output = converted(text)
    assert "model = Net()\n" in output and "x.to(" not in output and findings(text) == []
    assert "torch.randn(3).to(accelerator.device)\n" in output and "device=accelerator.device)\n" in output
    other = text.replace("cuda:0", "cuda")  # it is on every process
    assert 'torch.randn(3).to(settings["device"])\n' in converted(other)


@pytest.mark.parametrize(
    "again",
    ['settings["device"] = input()', "settings.update(json.load(open('s.json')))", 'settings = {"device": argv}'],
)
def test_a_dict_of_settings_that_may_be_given_another_device(again: str) -> None:
    setup = f'argv = os.environ["GPU"]\nsettings = {{"device": "cuda:3"}}\n{again}'
    unchanged(_script('settings["device"]', setup))
