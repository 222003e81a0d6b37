"""`accelift check` of names that processes make up, of DataParallel beside the accelerator, and of scaled gradients."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script

CLOCK = {"imports": "import os\nimport time\nimport uuid\nfrom datetime import datetime\nfrom pathlib import Path"}
NOW = "folder = f'runs/{datetime.now():%d-%H%M%S}'"
HERE = "  # HERE"
SHARED = "from accelerate.utils import broadcast_object_list"
CONFIG = "from accelerate.utils import ProjectConfiguration"


def named(*lines: str, **slots: str) -> str:
    return script(**{**CLOCK, "after": "\n".join(lines), **slots})


NAMES = {
    "where the state is saved": named(NOW + HERE, "accelerator.save_state(folder)"),
    "a folder that all make": named("os.makedirs('runs/' + time.strftime('%H%M%S'))  # HERE"),
    "the second, too": named(
        "now = datetime.now()  # HERE", "print(now.year)", "accelerator.save_state(now.strftime('%Y%S'))"
    ),
    "more than the day": named("accelerator.save_state('runs/' + str(datetime.now())[:16])  # HERE"),
    "a path": named("folder = Path('runs') / str(uuid.uuid4())  # HERE", "folder.mkdir()"),
    "through a function": named(
        "accelerator.save_state(name())",
        definitions="def name():\n    return os.path.join('runs', str(int(time.time())))  # HERE\n",
    ),
    "where the project lies": named(
        imports=f"{CLOCK['imports']}\n{CONFIG}",
        setup=NOW + HERE,
        device="accelerator = Accelerator(project_config=ProjectConfiguration(folder))",
    ),
}
FINE = {
    "the main process alone": named("if accelerator.is_main_process:", f"    {NOW}", "    os.makedirs(folder)"),
    "only the day": named("folder = datetime.now().strftime('%Y-%m-%d')", "accelerator.save_state(folder)"),
    "the day in a text": named("folder = f'runs/{datetime.now():%Y-%m-%d}'", "accelerator.save_state(folder)"),
    "the day by its parts": named("now = datetime.now()", "accelerator.save_state(f'{now.year}-{now.month}')"),
    "the day cut off": named("accelerator.save_state('runs/' + str(datetime.now())[:10])"),
    "the day by a variable": named(
        "now = datetime.now()\nform = 'runs/%Y'", "accelerator.save_state(now.strftime(form))", "print(now - now)"
    ),
    "a folder of each process": named("os.makedirs(f'tmp/{accelerator.process_index}-{time.time()}')"),
    "a file of the main process": named(NOW, "accelerator.save(3, folder)"),
    "handed on": named(
        "folder = broadcast_object_list([time.strftime('%H%M%S')])[0]",
        "accelerator.save_state(folder)",
        from_imports=SHARED,
    ),
    "handed on in place": named(
        f"{NOW}\nfolders = [folder]\nbroadcast_object_list(folders)",
        "accelerator.save_state(folders[0])",
        from_imports=SHARED,
    ),
    "how long it took": named("began = time.time()", "accelerator.save_state('runs')", "print(time.time() - began)"),
}
GPUS = "if torch.cuda.device_count() > 1:\n    {}"
WRAP = "model = nn.DataParallel(model)"
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
PREPARE = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
DOUBLE = {
    "before": script(optimizer=f"{WRAP}{HERE}\n{SGD}"),
    "where there are several": script(optimizer=f"{GPUS.format(WRAP)}{HERE}\n{SGD}"),
    "after": script(prepare=f"{PREPARE}\n{WRAP}{HERE}"),
}
SINGLE = {
    "of another network": script(before="teacher = nn.DataParallel(nn.Linear(3, 3))"),
    "on one process": script(optimizer=f"if accelerator.num_processes == 1:\n    {WRAP}\n{SGD}"),
    "on one process, by a variable": script(
        optimizer="single = accelerator.num_processes == 1\n"
        f"if torch.cuda.device_count() > 1 and single:\n    {WRAP}\n{SGD}"
    ),
    "if an option asks for it": script(
        imports="import sys",
        optimizer=f"if torch.cuda.device_count() > 1 and len(sys.argv) > 1:\n    {WRAP}\n{SGD}",
    ),
    "where nothing is prepared": script(imports="import sys", optimizer=f"if len(sys.argv) > 1:\n    {WRAP}\n{SGD}"),
    "taken off again": script(optimizer=f"{WRAP}\nmodel = Net()\n{SGD}"),
}
HALF = "accelerator = Accelerator(mixed_precision={})"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
OPTION = """\
parser = argparse.ArgumentParser()
parser.add_argument("--precision", choices=["no", "fp16", "bf16"])
args = parser.parse_args()
"""


def clipped(precision: str, clip: str = CLIP, **slots: str) -> str:
    return script(device=HALF.format(precision), step=f"{clip}\noptimizer.step()", **slots)


SCALED = {
    "fp16": clipped("'fp16'", CLIP + HERE),
    "perhaps": clipped("'fp16' if half else 'no'", CLIP + HERE, setup="half = True"),
    "by the same word": clipped("'fp16' if half == 'fp16' else 'no'", CLIP + HERE, setup="half = 'fp16'"),
    "where a test asks for something else": clipped("'fp16'", f"if epoch > 0:\n    {CLIP}{HERE}"),
    "by an option": clipped("args.precision", CLIP + HERE, imports="import argparse", setup=OPTION),
    "by value": clipped("'fp16'", "nn.utils.clip_grad_value_(list(model.parameters()), 1.0)  # HERE"),
}
UNSCALED = {
    "bf16": clipped("'bf16'"),
    "the accelerator's own": clipped("'fp16'", f"accelerator.{CLIP.removeprefix('nn.utils.')}"),
    "divided before": clipped("'fp16'", f"accelerator.unscale_gradients()\n{CLIP}"),
    "of something else": clipped(
        "'fp16'", "nn.utils.clip_grad_norm_(other.parameters(), 1.0)", setup="other = nn.Linear(1, 1)"
    ),
    "where the precision is another": clipped(
        "args.precision",
        f"if args.precision == 'fp16':\n    accelerator.{CLIP.removeprefix('nn.utils.')}\nelse:\n    {CLIP}",
        imports="import argparse",
        setup=OPTION,
    ),
    "where the accelerator's is another": clipped(
        "args.precision",
        f"if accelerator.mixed_precision != 'fp16':\n    {CLIP}",
        imports="import argparse",
        setup=OPTION,
    ),
    "another instead": clipped("'bf16' if args.precision == 'fp16' else 'no'", imports="import argparse", setup=OPTION),
    "an option without it": clipped("args.precision", imports="import argparse", setup=OPTION.replace('"fp16", ', "")),
}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        *(("NAME-OWN", text) for text in NAMES.values()),
        *(("DDP-REPLICAS", text) for text in DOUBLE.values()),
        *(("AMP-CLIP", text) for text in SCALED.values()),
    ],
)
def test_what_is_wrong(code: str, text: str) -> None:
    assert [f.line for f in findings(text, code)] == marked(text) != []


@pytest.mark.parametrize(
    ("code", "text"),
    [
        *(("NAME-OWN", text) for text in FINE.values()),
        *(("DDP-REPLICAS", text) for text in SINGLE.values()),
        *(("AMP-CLIP", text) for text in UNSCALED.values()),
    ],
)
def test_what_is_right(code: str, text: str) -> None:
    assert findings(text, code) == []
