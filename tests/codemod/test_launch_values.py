"""The launch config that a script gets: its values, and where each one comes from."""

from __future__ import annotations

import pytest
from accelift.config import LaunchConfig
from scripts import convert, script

NAMES_NONE = "train.py names no GPUs: set it, or launch with --num_processes"
PARSER = 'import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument("--no-cuda", action="store_true")'
FLAG = 'device = torch.device("cuda" if not args.no_cuda and torch.cuda.is_available() else "cpu")'
AUTOCAST = 'optimizer.zero_grad()\nwith torch.autocast("cuda"):\n    loss = F.cross_entropy(model(x), y)'
COUNTED = "if (i + 1) % 4 == 0 or i + 1 == len(loader):\n    optimizer.step()\n    optimizer.zero_grad()"


def config(text: str, **options: object) -> str:
    """The launch config of a script that is converted; the launcher takes it."""
    result = convert(text, **options)
    assert result.output is not None, result.error or result.plan
    LaunchConfig.from_yaml(result.config)
    return result.config


def line(text: str, key: str, **options: object) -> str:
    """The line of a key in the launch config of a script, without the columns; empty if there is none."""
    found = [line for line in config(text, **options).splitlines() if line.startswith(f"{key}:")]
    return "  # ".join(part.strip() for part in found[0].split("  #")) if found else ""


def at(text: str, part: str) -> int:
    """The number of the only line with a text."""
    (number,) = [i for i, line in enumerate(text.splitlines(), 1) if part in line]
    return number


# ---- whole configs


def test_a_plain_script() -> None:
    assert config(script()) == (
        "compute_environment: LOCAL_MACHINE\n"
        "distributed_type: 'NO'\n"
        "mixed_precision: 'no'  # train.py: no autocast or GradScaler\n"
        "num_machines: 1\n"
        "num_processes: 1       # train.py names no GPUs: set it, or launch with --num_processes\n"
        "use_cpu: false\n"
    )


def test_everything_at_once() -> None:
    text = script(
        main=True,
        device='device = torch.device("cuda")',
        model="model = nn.DataParallel(Net(), device_ids=[1, 3]).cuda()",
        loop="for i, (x, y) in enumerate(loader):",
        forward='with torch.autocast("cuda"):\n    loss = F.cross_entropy(model(x), y)',
        backward="(loss / 4).backward()",
        step=COUNTED,
    )
    parallel, gate, autocast = (at(text, part) for part in ("nn.DataParallel", "if (i + 1)", "torch.autocast"))
    assert config(text) == (
        "compute_environment: LOCAL_MACHINE\n"
        "distributed_type: MULTI_GPU\n"
        f"mixed_precision: 'no'         # train.py:{autocast} autocast stays in the script\n"
        "num_machines: 1\n"
        f"num_processes: 2              # train.py:{parallel} DataParallel device_ids\n"
        "use_cpu: false\n"
        f"gpu_ids: 1,3                  # train.py:{parallel} DataParallel device_ids\n"
        f"main_training_function: main  # train.py:{at(text, 'def main')} main() makes the accelerator\n"
        f"# gradient_accumulation_steps: 4 (train.py:{gate}; the script's Accelerator sets it)\n"
    )


def test_scripts_that_are_left_alone_have_none() -> None:
    assert convert(script(backward="")).config == ""
    assert convert(script(loop="for x, y in [(data, data)]:")).config == ""


# ---- processes and GPUs


@pytest.mark.parametrize(("processes", "kind"), [(1, "'NO'"), (2, "MULTI_GPU"), (16, "MULTI_GPU")])
def test_num_processes_given(processes: int, kind: str) -> None:
    text = config(script(), num_processes=processes)
    assert f"\nnum_processes: {processes}".ljust(24) + f"# --num-processes {processes}\n" in text
    assert f"distributed_type: {kind}\n" in text and "gpu_ids" not in text


@pytest.mark.parametrize(
    ("setup", "model", "ids"),
    [
        ("", "nn.DataParallel(Net(), device_ids=[0, 1, 2])", "0,1,2"),
        ("", "nn.DataParallel(Net(), device_ids=(2, 0))", "2,0"),
        ("", "torch.nn.DataParallel(Net(), [3, 4])", "3,4"),
        ("", "nn.DataParallel(Net(), device_ids=range(4))", "0,1,2,3"),
        ("gpus = [0, 2]", "nn.DataParallel(Net(), device_ids=gpus)", "0,2"),
        ("gpus = [0]\ngpus = [0, 2]", "nn.DataParallel(Net(), device_ids=gpus)", "0,2"),
    ],
)
def test_device_ids(setup: str, model: str, ids: str) -> None:
    text = script(setup=setup, model=f"model = {model}.to(device)")
    number = at(text, "DataParallel")
    count = len(ids.split(","))
    assert line(text, "gpu_ids") == f"gpu_ids: {ids}  # train.py:{number} DataParallel device_ids"
    assert line(text, "num_processes") == f"num_processes: {count}  # train.py:{number} DataParallel device_ids"
    assert line(text, "distributed_type") == "distributed_type: MULTI_GPU"


@pytest.mark.parametrize(
    ("setup", "model"),
    [
        ("", "Net()"),
        ("", "nn.DataParallel(Net())"),
        ("", "nn.DataParallel(Net(), device_ids=None)"),
        ("", "nn.DataParallel(Net(), device_ids=range(torch.cuda.device_count()))"),
        ("n = 2", "nn.DataParallel(Net(), device_ids=[0, n])"),
        ("gpus = [0]\nif len(sys.argv) > 1:\n    gpus = [0, 1]", "nn.DataParallel(Net(), device_ids=gpus)"),
        ("device_ids = [0, 1]", "Net()"),
    ],
)
def test_no_device_ids(setup: str, model: str) -> None:
    text = script(imports="import sys", setup=setup, model=f"model = {model}.to(device)")
    assert line(text, "gpu_ids") == ""
    assert line(text, "num_processes") == f"num_processes: 1  # {NAMES_NONE}"
    assert line(text, "distributed_type") == "distributed_type: 'NO'"


@pytest.mark.parametrize(
    ("value", "ids"), [('"2,5"', "gpu_ids: 2,5"), ('"2, 5"', "gpu_ids: 2,5"), ('"3"', "gpu_ids: '3'")]
)
def test_visible_devices(value: str, ids: str) -> None:
    text = script(imports="import os", setup=f'os.environ["CUDA_VISIBLE_DEVICES"] = {value}')
    origin = f"train.py:{at(text, 'environ')} CUDA_VISIBLE_DEVICES"
    assert line(text, "gpu_ids") == f"{ids}  # {origin}"
    assert line(text, "num_processes") == f"num_processes: {ids.count(',') + 1}  # {origin}"


@pytest.mark.parametrize(
    "setup",
    [
        'os.environ["CUDA_VISIBLE_DEVICES"] = ""',
        'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"',
        'os.environ["CUDA_VISIBLE_DEVICES"] = "GPU-8f2a,GPU-77aa"',
        'os.environ["CUDA_DEVICE_ORDER"] = "0,1"',
        'environ = {}\nenviron["CUDA_VISIBLE_DEVICES"] = "0,1"',
        'print(os.environ["CUDA_VISIBLE_DEVICES"], "0,1")',
    ],
)
def test_no_visible_devices(setup: str) -> None:
    text = script(imports="import os", setup=setup)
    assert line(text, "gpu_ids") == ""
    assert line(text, "num_processes") == f"num_processes: 1  # {NAMES_NONE}"


def test_the_user_s_number_comes_before_the_script_s() -> None:
    text = script(model="model = nn.DataParallel(Net(), device_ids=[0, 1, 2]).to(device)")
    assert line(text, "num_processes", num_processes=2) == "num_processes: 2  # --num-processes 2"


@pytest.mark.parametrize(
    ("visible", "chosen", "ids", "count"),
    [
        ("4,5", "[0, 1]", "4,5", 2),
        ("4,5,6", "[2, 0]", "6,4", 2),
        ("7,3", "range(2)", "7,3", 2),
        ("4,5", "[0, 2]", "", 2),  # there is no such GPU
        ("GPU-8f2a,GPU-77aa", "[0, 1]", "", 2),
    ],
)
def test_device_ids_among_visible_devices(visible: str, chosen: str, ids: str, count: int) -> None:
    text = script(
        imports="import os",
        setup=f'os.environ["CUDA_VISIBLE_DEVICES"] = "{visible}"',
        model=f"model = nn.DataParallel(Net(), device_ids={chosen}).to(device)",
    )
    origin = f"train.py:{at(text, 'DataParallel')} DataParallel device_ids"
    if ids:
        origin += ", of those in CUDA_VISIBLE_DEVICES"
    assert line(text, "gpu_ids") == (f"gpu_ids: {ids}  # {origin}" if ids else "")
    assert line(text, "num_processes") == f"num_processes: {count}  # {origin}"


@pytest.mark.parametrize("value", ["", "-1", " ", "-1,0"])
def test_no_device_is_visible(value: str) -> None:
    text = script(imports="import os", setup=f'os.environ["CUDA_VISIBLE_DEVICES"] = "{value}"')
    origin = f"train.py:{at(text, 'environ')} CUDA_VISIBLE_DEVICES hides every GPU"
    assert line(text, "use_cpu") == f"use_cpu: true  # {origin}"
    assert line(text, "distributed_type", num_processes=2) == "distributed_type: MULTI_CPU"


@pytest.mark.parametrize(
    "setup",
    [
        'if len(sys.argv) > 1:\n    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"',
        'os.environ["CUDA_VISIBLE_DEVICES"] = "-1"\nos.environ["CUDA_VISIBLE_DEVICES"] = "0,1"',
        'for gpu in "01":\n    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"',
    ],
)
def test_visible_devices_that_depend(setup: str) -> None:
    text = script(imports="import os, sys", setup=setup)
    assert (line(text, "gpu_ids"), line(text, "use_cpu")) == ("", "use_cpu: false")
    assert line(text, "num_processes") == f"num_processes: 1  # {NAMES_NONE}"


def test_visible_devices_of_the_main_program() -> None:
    text = script(main=True, imports="import os")
    text = text.replace("    main()", '    os.environ["CUDA_VISIBLE_DEVICES"] = "2,5"\n    main()')
    assert line(text, "gpu_ids").startswith("gpu_ids: 2,5  #")


def test_gpus_of_a_script_that_stays_on_the_cpu() -> None:
    text = script(
        imports="import os", setup='os.environ["CUDA_VISIBLE_DEVICES"] = "2,5"', device='device = torch.device("cpu")'
    )
    assert (line(text, "gpu_ids"), line(text, "use_cpu").partition("  ")[0]) == ("", "use_cpu: true")


def test_more_processes_than_gpus() -> None:
    text = script(model="model = nn.DataParallel(Net(), device_ids=[0, 1]).to(device)")
    origin = f"train.py:{at(text, 'DataParallel')} DataParallel device_ids"
    assert line(text, "gpu_ids", num_processes=4) == f"gpu_ids: all  # 4 processes need more than 0,1 ({origin})"
    assert line(text, "gpu_ids", num_processes=2) == f"gpu_ids: 0,1  # {origin}"


# ---- the CPU


@pytest.mark.parametrize("device", ['device = torch.device("cpu")', 'device = "cpu"'])
def test_scripts_that_stay_on_the_cpu(device: str) -> None:
    use = "use_cpu: true  # train.py never moves anything to a GPU"
    assert line(script(device=device), "use_cpu") == use
    assert line(script(device=device), "distributed_type") == "distributed_type: 'NO'"
    assert line(script(device=device), "use_cpu", num_processes=2) == use
    assert line(script(device=device), "distributed_type", num_processes=2) == "distributed_type: MULTI_CPU"


def test_a_flag_that_keeps_the_script_on_the_cpu() -> None:
    text = script(setup=f"{PARSER}\nargs = parser.parse_args()", device=FLAG)
    number = at(text, "add_argument")
    assert line(text, "use_cpu") == f"use_cpu: false  # train.py:{number} --no-cuda stays a flag of the script"


def test_a_flag_that_keeps_nothing_on_the_cpu() -> None:
    text = script(setup=f"{PARSER}\nargs = parser.parse_args()")
    assert line(text, "use_cpu") == "use_cpu: false"


# ---- precision


@pytest.mark.parametrize(
    ("imports", "use"),
    [
        ("", 'torch.autocast("cuda")'),
        ("", "torch.autocast(device_type='cuda', dtype=torch.bfloat16)"),
        ("", "torch.cuda.amp.autocast()"),
        ("from torch.cuda.amp import autocast", "autocast(enabled=True)"),
        ("from torch import amp", "amp.autocast('cuda')"),
    ],
)
def test_autocast(imports: str, use: str) -> None:
    forward = AUTOCAST.replace('torch.autocast("cuda")', use)
    text = script(from_imports=imports, forward=forward)
    expected = f"mixed_precision: 'no'  # train.py:{at(text, 'with ')} autocast stays in the script"
    assert line(text, "mixed_precision") == expected


def test_autocast_that_the_accelerator_takes_over() -> None:
    forward = AUTOCAST.replace('torch.autocast("cuda")', "torch.autocast(device.type, dtype=torch.bfloat16)")
    text = script(forward=forward)
    expected = f"'no'  # train.py:{at(text, 'with ')} the script's Accelerator sets it in place of this"
    assert line(text, "mixed_precision", precision="managed") == f"mixed_precision: {expected}"


def test_grad_scaler() -> None:
    text = script(
        before="scaler = torch.cuda.amp.GradScaler()",
        forward=AUTOCAST,
        backward="scaler.scale(loss).backward()",
        step="scaler.step(optimizer)\nscaler.update()",
    )
    number = at(text, "GradScaler")  # the first of the two
    assert line(text, "mixed_precision") == f"mixed_precision: 'no'  # train.py:{number} GradScaler stays in the script"


@pytest.mark.parametrize(
    ("imports", "definitions"),
    [
        ("from torch.cuda.amp import GradScaler, autocast", ""),
        ("", "def autocast():\n    return 1\n\nautocast()"),
        ("", "class GradScaler:\n    pass\n\nscaler = GradScaler()"),
        ("", "# with torch.autocast('cuda'):"),
    ],
)
def test_no_mixed_precision(imports: str, definitions: str) -> None:
    text = script(from_imports=imports, definitions=definitions)
    assert line(text, "mixed_precision") == "mixed_precision: 'no'  # train.py: no autocast or GradScaler"


# ---- the main function


def test_main_training_function() -> None:
    text = script(main=True)
    expected = f"main_training_function: main  # train.py:{at(text, 'def main')} main() makes the accelerator"
    assert line(text, "main_training_function") == expected
    text = text.replace("main()", "run_all()")
    expected = f"main_training_function: run_all  # train.py:{at(text, 'def run_all')} run_all() makes the accelerator"
    assert line(text, "main_training_function") == expected


def test_main_training_function_that_calls_the_one_that_trains() -> None:
    text = script(main=True).replace("    main()\n", "    start()\n").replace("def main():", "def train():")
    text = text.replace("if __name__", "def start():\n    train()\n\n\nif __name__")
    expected = f"main_training_function: start  # train.py:{at(text, 'def start')} start() makes the accelerator"
    assert line(text, "main_training_function") == expected


def test_no_main_training_function() -> None:
    assert line(script(), "main_training_function") == ""
    assert line(script(definitions="def main():\n    pass"), "main_training_function") == ""


# ---- accumulation


def test_accumulation() -> None:
    text = script(
        setup="steps = 8",
        loop="for i, (x, y) in enumerate(loader):",
        forward="loss = F.cross_entropy(model(x), y) / steps",
        step=COUNTED.replace("4", "steps"),
    )
    note = (
        f"# gradient_accumulation_steps: steps (train.py:{at(text, 'if (i + 1)')}; the script's Accelerator sets it)\n"
    )
    assert config(text).endswith(f"use_cpu: false\n{note}")
    assert "gradient_accumulation" not in config(text, ignore=("ACCUMULATE",))


def test_accumulation_that_the_script_keeps() -> None:
    text = script(
        loop="for i, (x, y) in enumerate(loader):",
        forward="loss = F.cross_entropy(model(x), y) / 4",
        step=COUNTED.replace(" or i + 1 == len(loader)", ""),
    )
    assert "gradient_accumulation" not in config(text)
    assert "gradient_accumulation" not in config(script(step="optimizer.step()\nif epoch % 4 == 0:\n    print(loss)"))
