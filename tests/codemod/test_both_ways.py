"""Scripts on one process whose files can also work with others: what only a process group would run is taken out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from accelift_codemod.plan import Operation, Outcome
from projects import LIFTED_ENGINE, MODEL, lifted, only, outputs, reason, write
from projects import script as project
from scripts import converted, script, unchanged

ASKS = """\
def several():
    if not dist.is_available():
        return False
    if not dist.is_initialized():
        return False
    return True
"""
NEVER = "def several():\n    return False\n"
UTILS = f"""\
import torch
import torch.distributed as dist


{ASKS}

def world_size():
    if not several():
        return 1
    return dist.get_world_size()


def rank():
    if not several():
        return 0
    return dist.get_rank()


def is_main():
    return rank() == 0


def reduced(loss):
    size = world_size()
    if size < 2:
        return loss
    with torch.no_grad():
        loss = loss.clone()
        dist.all_reduce(loss)
        return loss / size


def save_on_main(what, path):
    if is_main():
        torch.save(what, path)


def start(args):
    dist.init_process_group("gloo", rank=args.rank, world_size=args.world_size)
    save_on_main(1, "started")
"""
FOLDED_UTILS = f"""\
import torch
import torch.distributed as dist


{NEVER}

def world_size():
    return 1


def rank():
    if not several():
        return 0
    return dist.get_rank()


def is_main():
    return rank() == 0


def reduced(loss):
    return loss


def save_on_main(what, path):
    if is_main():
        torch.save(what, path)


def start(args):
    dist.init_process_group("gloo", rank=args.rank, world_size=args.world_size)
    save_on_main(1, "started")
"""
ENGINE = """\
import torch.nn.functional as F
from utils import reduced


def train(model, loader, optimizer):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        reduced(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
IMPORTS = "from engine import train\nfrom model import Net"
FILES = {"model.py": MODEL, "engine.py": ENGINE, "utils.py": UTILS, "train.py": project(IMPORTS)}
LIFTED = LIFTED_ENGINE.replace(
    "import torch.nn.functional as F\n", "import torch.nn.functional as F\nfrom utils import reduced\n"
).replace("        optimizer.zero_grad()\n", "        reduced(loss)\n        optimizer.zero_grad()\n")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)


def after(**files: str) -> dict[str, str]:
    """What the files become, some of them others: `utils=...`."""
    write({**FILES, **{f"{name}.py": text for name, text in files.items()}})
    return outputs("train.py")


def measured(with_what: str) -> str:
    """The loops with another use of the utilities."""
    return ENGINE.replace("from utils import reduced\n", "import utils\n").replace("reduced(loss)", with_what)


def test_what_needs_a_process_group_goes() -> None:
    """Nothing but what the script runs: others may start several processes by the rest."""
    found = after()
    assert found == {"train.py": lifted(IMPORTS), "engine.py": LIFTED, "utils.py": FOLDED_UTILS}


def test_it_is_told_and_the_edits_have_their_places() -> None:
    write(FILES)
    result = only()
    assert result.plan is not None and {f.code for f in result.plan.findings} == {"DIST-SINGLE", "DEV-CPU"}
    assert any("what utils.py would do" in f.message for f in result.plan.findings)
    utils = next(m.plan for m in result.members if m.path == "utils.py")
    lines = UTILS.splitlines()
    assert utils is not None and utils.outcome is Outcome.CONVERTED
    taken = {lines[e.span.line - 1].strip(): e for e in utils.edits}
    assert {"if not dist.is_initialized():", "if size < 2:", "with torch.no_grad():"} <= taken.keys()
    assert all(e.rule == "DISTRIBUTED" and e.safety.value == "safe" for e in utils.edits)
    assert taken["with torch.no_grad():"].operation is Operation.DROP


@pytest.mark.parametrize(
    ("asks", "left"),
    [
        ("return dist.is_available() and dist.is_initialized()", "return False"),
        ("return dist.is_initialized()", "return False"),
        ("return False if not dist.is_initialized() else True", "return False"),
        ("if dist.is_available() and dist.is_initialized():\n        return True\n    return False", "return False"),
        ("if dist.is_available():\n        return dist.is_initialized()\n    return False", None),
    ],
)
def test_however_it_is_asked(asks: str, left: str | None) -> None:
    found = after(utils=UTILS.replace(ASKS, f"def several():\n    {asks}\n"))
    assert found["engine.py"] == LIFTED and "all_reduce" not in found["utils.py"]
    assert left is None or f"def several():\n    {left}\n" in found["utils.py"]


@pytest.mark.parametrize(
    ("use", "left"),
    [
        ("if utils.is_main():\n            print(loss.item())", "        accelerator.print(loss.item())"),
        ("print(loss.item() / utils.world_size())", "        accelerator.print(loss.item() / utils.world_size())"),
        ("print(1 if utils.rank() else 2)", "        accelerator.print(2)"),
        ("print('others' if utils.world_size() > 1 else 'none')", "        accelerator.print('none')"),
        (
            "size = utils.world_size()\n        if size == 1:\n            print(size)",
            "        accelerator.print(size)",
        ),
    ],
)
def test_numbers_of_processes_decide(use: str, left: str) -> None:
    found = after(engine=measured(use))
    assert left in found["engine.py"].splitlines()
    assert "dist.get_rank()" not in found.get("utils.py", "") or "rank" not in use


def test_sums_are_not_taken_twice() -> None:
    """The accelerator gathers for the counts; the script's own sum over the processes would count all N times."""
    meter = """\

class Count:
    def __init__(self):
        self.right = 0
        self.seen = 0

    def update(self, right, seen):
        self.right += right
        self.seen += seen

    def synchronize(self):
        if not several():
            return
        both = torch.tensor([self.right, self.seen])
        dist.barrier()
        dist.all_reduce(both)
        self.right, self.seen = both.tolist()
"""
    evaluates = """

def evaluate(model, loader):
    count = Count()
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            count.update((model(x).argmax(1) == y).sum().item(), len(y))
    count.synchronize()
    print(count.right / count.seen)
"""
    engine = ENGINE.replace("from utils import reduced", "import torch\nfrom utils import Count, reduced") + evaluates
    train = (
        project("from engine import evaluate, train\nfrom model import Net").replace(
            "train(model,", "test = DataLoader(TensorDataset(torch.randn(6, 4), torch.zeros(6).long()))\ntrain(model,"
        )
        + "evaluate(model, test)\n"
    )
    found = after(engine=engine, utils=UTILS + meter, train=train)
    assert "gather_for_metrics" in found["engine.py"] and "    count.synchronize()\n" in found["engine.py"]
    assert "    def synchronize(self):\n        return\n" in found["utils.py"]


BARE = """\
import torch
import torch.nn as nn


def bare(model):
    if isinstance(model, {}):
        return model.module
    return model
"""


@pytest.mark.parametrize("kind", ["nn.parallel.DistributedDataParallel", "torch.nn.parallel.DistributedDataParallel"])
def test_wrappers_that_are_asked_for(kind: str) -> None:
    engine = ENGINE.replace("def train(", "from bare import bare\n\n\ndef train(")
    engine = engine.replace("    for x", "    bare(model).train()\n    for x")
    found = after(engine=engine, bare=BARE.format(kind))
    assert "isinstance" not in found["bare.py"] and "accelerator.backward(loss)" in found["engine.py"]


OWN = "def several():\n    return dist.is_available() and dist.is_initialized()\n"


def test_what_the_script_imports_for_it_goes() -> None:
    train = project(f"{IMPORTS}\nfrom utils import is_main, several") + "if several():\n    print('others')\n"
    assert after(train=train)["train.py"] == lifted(f"{IMPORTS}\nfrom utils import is_main")


def test_a_script_of_one_file() -> None:
    slots = {"imports": "import torch.distributed as dist", "definitions": OWN}
    text = converted(
        script(**slots, epoch_end="if several():\n    dist.barrier()\nif not several():\n    print(epoch)")
    )
    assert "dist" not in text.replace("distributed", "") and "    accelerator.print(epoch)\n" in text


@pytest.mark.parametrize(("test", "off"), [("False", True), ("torch.rand(1) > 2", False), ("0", True), ("True", False)])
def test_a_switch_that_is_off(test: str, off: bool) -> None:
    slots = {
        "imports": "import torch.distributed as dist",
        "before": f"distributed = {test}\nsampler = None",
        "after": "if distributed:\n    sampler = torch.utils.data.DistributedSampler(data)\n    dist.barrier()",
    }
    if off:
        assert "DistributedSampler" not in converted(script(**slots))
    else:
        assert unchanged(script(**slots)).code == "ALREADY-DISTRIBUTED"


def test_why_what_is_left_for_one_process_is_left_alone_is_told() -> None:
    several = "if args.several:\n    dist.init_process_group('nccl')\n    dist.broadcast(torch.zeros(3), 0)"
    option = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--several', action='store_true')"
    slots = {"imports": "import torch.distributed as dist", "setup": f"{option}\nargs = p.parse_args()\n{several}"}
    assert "broadcast" not in converted(script(**slots))
    found = unchanged(script(**slots, optimizer="optimizer = lib.make(model)"))
    assert found.code == "ALREADY-DISTRIBUTED" and "uses torch.distributed.broadcast; without" in found.message
    assert "without `args.several`, it would be left alone, too: OPT-UNKNOWN, " in found.message


def test_arms_that_never_run_decide_nothing_else() -> None:
    slots = {"imports": "import torch.distributed as dist", "after": "if False:\n    dist.barrier()\nprint(False)"}
    text = converted(script(**slots))
    assert "dist." not in text and "accelerator.print(False)" in text


# ---- scripts that make a process group if a launcher starts them

LAUNCHED = UTILS.replace(
    UTILS[UTILS.index("def start") :],
    """\
def start(args):
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        args.rank = int(os.environ["RANK"])
        args.world_size = int(os.environ["WORLD_SIZE"])
    elif "SLURM_PROCID" in os.environ:
        args.rank = int(os.environ["SLURM_PROCID"])
    else:
        print("one process")
        args.distributed = False
        return
    args.distributed = True
    dist.init_process_group("nccl", world_size=args.world_size, rank=args.rank)
    dist.barrier()
""",
).replace("import torch\n", "import os\n\nimport torch\n", 1)
LAUNCHES = project(f"import argparse\n\nimport utils\n{IMPORTS}").replace(
    "torch.manual_seed(0)",
    "args = argparse.ArgumentParser().parse_args()\nutils.start(args)\ntorch.manual_seed(0)\nif args.distributed:\n"
    "    print('several')",
)


def test_a_launcher_s_variables_are_a_switch_in_another_file() -> None:
    found = after(utils=LAUNCHED, train=LAUNCHES)
    left = 'def start(args):\n    PartialState().print("one process")\n    return\n'
    assert found["utils.py"].endswith(left) and "'several'" not in found["train.py"]
    assert found["engine.py"] == LIFTED


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.replace("        args.distributed = False\n        return\n", "        args.distributed = False\n"),
        lambda t: t.replace('elif "SLURM_PROCID" in os.environ', 'elif hasattr(args, "rank")'),
        lambda t: t.replace('elif "SLURM_PROCID" in os.environ', "elif args.distributed is None"),
    ],
)
def test_arms_that_go_on_may_make_a_process_group(change: Callable[[str], str]) -> None:
    assert change(LAUNCHED) != LAUNCHED
    write({**FILES, "utils.py": change(LAUNCHED), "train.py": LAUNCHES})
    assert reason()[0] == "ALREADY-DISTRIBUTED" and "manages several processes" in reason()[1]


def test_a_script_that_may_distribute_itself_does_so_if_it_is_in_others_way() -> None:
    """It shares loops with a script that makes a process group whatever starts it."""
    always = "import torch.distributed as dist\nfrom engine import train\n\ndist.init_process_group('gloo')\n"
    write({**FILES, "utils.py": LAUNCHED, "train.py": LAUNCHES, "always.py": f"{always}train(*dist.get_rank())\n"})
    assert reason()[0] == "ALREADY-DISTRIBUTED" and "manages several processes" in reason()[1]


# ---- sums over the processes that losses are computed with

CRITERION = """\
import torch
import torch.distributed as dist
import torch.nn as nn
from utils import several, world_size


class Criterion(nn.Module):
    def forward(self, out, y):
        count = torch.as_tensor([float(len(y))])
        if several():
            dist.all_reduce(count)
        count = count / world_size()
        return ((out[:, 0] - y) ** 2).sum() / count.item()
"""


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("Criterion()(model(x), y)", True),
        ("F.cross_entropy(model(x), y) / total(torch.ones(1))", True),
        ("F.cross_entropy(model(x), y)\n        print(total(torch.ones(1)))", False),
        ("F.cross_entropy(model(x), y)\n        Criterion().shown(model(x), y)", False),
    ],
)
def test_sums_that_are_parts_of_losses_are_told(loss: str, told: bool) -> None:
    total = "\n\ndef total(n):\n    if not several():\n        return n\n    dist.all_reduce(n)\n    return n\n"
    engine = ENGINE.replace("F.cross_entropy(model(x), y)", loss).replace(
        "from utils import", "import torch\nfrom criterion import Criterion, total\nfrom utils import"
    )
    criterion = (
        CRITERION.replace("    def forward", "    @torch.no_grad()\n    def shown") if "shown" in loss else CRITERION
    )
    write({**FILES, "engine.py": engine, "criterion.py": criterion + total})
    result = only()
    assert result.output is not None
    errors = [f for m in result.members if m.plan for f in m.plan.findings if f.code == "DIST-SUM"]
    assert bool(errors) == told and all("over all processes" in f.message for f in errors)


# ---- what stays


@pytest.mark.parametrize(
    "other",
    [
        "import utils\n\nutils.start(None)\nprint(utils.world_size())\n",
        "from utils import reduced, start\n\n\ndef main():\n    start(None)\n    reduced(1)\n\n\nmain()\n",
        "import torch.distributed as dist\nfrom utils import rank\n\ndist.init_process_group('gloo')\nprint(rank())\n",
        "import torch.multiprocessing as mp\nfrom utils import rank\n\nmp.spawn(rank, nprocs=2)\n",
        "from setup import begin\nfrom utils import rank\n\nbegin()\nprint(rank())\n",
    ],
)
def test_what_a_script_with_several_processes_uses_stays(other: str) -> None:
    write({**FILES, "several.py": other, "setup.py": "import utils\n\n\ndef begin():\n    utils.start(None)\n"})
    result = only()
    assert result.output is None and result.plan is not None
    (finding,) = result.plan.findings
    assert (
        finding.code == "SHARED-FILE"
        and ("setup.py" if "setup" in other else "several.py") in finding.message
        and "utils.py" in finding.message
    )


@pytest.mark.parametrize("other", ["from utils import world_size\n\nprint(world_size())\n"])
def test_nothing_goes_that_others_may_import(other: str) -> None:
    """Not even if they are one process: the import would fail."""
    started = UTILS.replace(
        "def reduced(loss):", "def summed(loss):\n    dist.all_reduce(loss)\n\n\ndef reduced(loss):"
    )
    started = started.replace("        dist.all_reduce(loss)\n        return", "        summed(loss)\n        return")
    found = after(utils=started, other=other.replace("world_size\n", "summed, world_size\n"))
    assert "def summed(loss):\n    dist.all_reduce(loss)\n" in found["utils.py"] and "no_grad" not in found["utils.py"]


@pytest.mark.parametrize(
    "other",
    [
        "from utils import world_size\n\nprint(world_size())\n",
        "from utils import start, world_size\n\n\ndef unused(args):\n    start(args)\n\n\nprint(world_size())\n",
        "import utils\n\nif __name__ == '__main__':\n    print(utils.reduced(1))\n",
    ],
)
def test_others_with_one_process_do_not_mind(other: str) -> None:
    write({**FILES, "other.py": other})
    assert outputs("train.py", "other.py") == {
        "train.py": lifted(IMPORTS),
        "engine.py": LIFTED,
        "utils.py": FOLDED_UTILS,
    }


def test_two_scripts_share_what_is_left() -> None:
    write({**FILES, "again.py": FILES["train.py"]})
    found = outputs("train.py", "again.py")
    assert found["again.py"] == found["train.py"] == lifted(IMPORTS) and found["utils.py"] == FOLDED_UTILS


@pytest.mark.parametrize(
    ("use", "words"),
    [
        ("utils.dist.barrier()", "engine.py:9: uses torch.distributed.barrier without asking"),
        ("utils.start(None)", "manages several processes itself"),
        ("from mmcv.runner import init_dist\n        init_dist('x')", "calls init_dist(), and whether"),
        ("import missing\n        missing.begin()", "engine.py:10: calls missing.begin(), and whether"),
        ("import os\n        print(os.environ['RANK'])", "os.environ['RANK']"),
        ("loss = [utils.dist.get_rank, loss][1]", "uses torch.distributed.get_rank without asking"),
    ],
)
def test_what_is_not_known_is_said(use: str, words: str) -> None:
    write({**FILES, "engine.py": measured(f"utils.reduced(loss)\n        {use}")})
    found, message = reason()
    assert found == "ALREADY-DISTRIBUTED" and words in message
    assert ("manages" in message) == ("start" in use)


@pytest.mark.parametrize("made", ["boxes.overlaps(x)", "len(boxes.Overlaps())"])
def test_a_library_that_computes_something_is_taken_to_make_no_process_group(made: str) -> None:
    write({**FILES, "engine.py": measured(f"import boxes\n        print(utils.reduced({made}))")})
    result = only()
    assert result.output is not None
    utils = next(m.plan for m in result.members if m.path == "utils.py")
    assert utils is not None and all("nothing of boxes makes" in e.why for e in utils.edits)


def test_a_command_line_makes_no_process_group() -> None:
    write({**FILES, "train.py": f"import fire\n{FILES['train.py']}\nfire.Fire(print)\n"})
    result = only()
    assert result.output is not None and b"accelerator.prepare" in result.output


ALONE = "    if size < 2:\n        return loss\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.replace(ALONE, "    if size > 1: pass\n    else: return loss\n"), "laid out"),
        (lambda t: t.replace(ALONE, "    if size:\n        print(size)\n"), "all_reduce"),
        (lambda t: t.replace("size = world_size()", "size = world_size() or n"), None),
        (lambda t: t.replace("size = world_size()", "size = max(world_size(), 2)"), "all_reduce"),
        (lambda t: t.replace("return False\n    return True", "pass\n    return True"), "all_reduce"),
    ],
)  # fmt: skip
def test_arms_that_are_not_decided_stay(change: Callable[[str], str], words: str | None) -> None:
    changed = change(UTILS)
    assert changed != UTILS
    write({**FILES, "utils.py": changed})
    if words is None:
        assert only().output is not None
    else:
        assert words in reason()[1]


def test_what_others_use_keeps_its_own_arms() -> None:
    slots = {"imports": "import torch.distributed as dist", "definitions": OWN}
    text = script(**slots, epoch_end="if not several():\n    print(epoch)")
    write({"train.py": text, "other.py": "import train\n\nprint(train.several())\n"})
    assert reason() == ("ALREADY-DISTRIBUTED", "asks for a process group, and others use it, too")
    write({"train.py": text.replace("loss.backward()", "pass")})
    assert reason()[0] == "BWD-UNKNOWN"


def test_the_reason_is_the_one_of_what_is_left() -> None:
    write({**FILES, "engine.py": ENGINE.replace("        loss.backward()\n", "")})
    assert reason()[0] == "NO-TRAINING"
    batches = ENGINE.replace("    for x, y in loader:", "    while True:\n        x, y = loader.more()")
    write({**FILES, "engine.py": batches, "utils.py": "\n" * 7 + UTILS})
    code, message = reason()
    assert code == "LOADER-UNKNOWN" and "manages" not in message


@pytest.mark.parametrize(
    "slots",
    [
        {"epoch_end": "if dist.is_available():\n    print(epoch)"},
        {"before": "size = 1", "epoch_end": "if size < 2:\n    print(epoch)"},
    ],
)
def test_what_no_process_group_decides_stays(slots: dict[str, str]) -> None:
    text = converted(script(imports="import torch.distributed as dist", **slots))
    assert slots["epoch_end"].split("\n")[0] in text and "DIST-SINGLE" not in text


# ---- conditions on one line


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("if size < 2: return loss", "return loss"),
        ("if size < 2: return (\n        loss)", "return (\n        loss)"),
        ("if size < 2: loss = loss * 1; return loss", "loss = loss * 1; return loss"),
        ("if size < 2: return loss  # alone\n    else: size = 4", "return loss  # alone"),
        ("if size < 2: return loss\n    elif size > 9: size = 4", "return loss"),
        ("if not several(): return loss\n    elif size < 2: return loss", "return loss"),
    ],
)
def test_an_arm_on_the_line_of_its_condition(line: str, left: str) -> None:
    folded = after(utils=UTILS.replace(ALONE, f"    {line}\n"))["utils.py"]
    assert f"def reduced(loss):\n    {left}\n\n\n" in folded and "all_reduce" not in folded


@pytest.mark.parametrize("line", ["if size > 9: return loss", "if size > 9: size = 4; return loss"])
def test_an_arm_on_the_line_of_its_condition_that_is_never_run(line: str) -> None:
    folded = after(utils=UTILS.replace(ALONE, f"    {line}\n{ALONE}"))["utils.py"]
    assert "def reduced(loss):\n    return loss\n" in folded


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ("", False),
        ("\n\ndef area(size):\n    return size * size\n", False),  # of another one
        ("    # told\n    print(size)\n", True),
        ("    size += 1\n", True),
        ("    del size\n", True),
        ("    told = lambda: size\n    print(told)\n", True),
    ],
)
def test_a_number_of_processes_that_nothing_reads_goes(more: str, kept: bool) -> None:
    told = "    size = world_size()\n"
    utils = UTILS.replace(told, told + more).replace("if size < 2:", "if world_size() < 2:") if kept else UTILS + more
    assert (told in after(utils=utils)["utils.py"]) == kept


def test_what_does_more_than_to_give_a_number_is_called() -> None:
    utils = UTILS.replace("    size = world_size()\n", "    size = shown()\n    size = world_size()\n")
    shown = "def shown():\n    print('asked')\n    return 1\n"
    folded = after(utils=f"{utils}\n\n{shown}")["utils.py"]
    assert "    size = shown()\n    return loss\n" in folded


# ---- notebooks


def notebook(*cells: str) -> str:
    """A notebook, each cell a line of text or several."""
    code = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": c.splitlines(keepends=True)} for c in cells]
    return json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


BEGINS = "import torch.distributed as dist\ndist.init_process_group('gloo')"


@pytest.mark.parametrize(
    "cells",
    [
        (BEGINS, "%matplotlib inline\nfrom utils import rank\nprint(rank())"),
        ("import utils\n!ls\nutils.start(None)\nprint(utils.world_size())",),
        ("import torch.multiprocessing as mp\nimport utils", "mp.spawn(utils.rank, nprocs=2)"),
    ],
)
def test_what_a_notebook_with_several_processes_uses_stays(cells: tuple[str, ...]) -> None:
    write({**FILES, "several.ipynb": notebook(*cells)})
    result = only()
    assert result.output is None and result.plan is not None
    (finding,) = result.plan.findings
    assert finding.code == "SHARED-FILE" and "several.ipynb" in finding.message and "utils.py" in finding.message


@pytest.mark.parametrize(
    "cells",
    [
        ("from utils import rank\nprint(rank())",),
        (BEGINS,),  # it uses nothing of the files
        (BEGINS, "from elsewhere import rank\nprint(rank())"),
        ("# from utils import rank", BEGINS),
        ("from engine import train",),
    ],
)
def test_other_notebooks_do_not_mind(cells: tuple[str, ...]) -> None:
    write({**FILES, "other.ipynb": notebook(*cells)})
    assert outputs("train.py") == {"train.py": lifted(IMPORTS), "engine.py": LIFTED, "utils.py": FOLDED_UTILS}


def test_no_notebook_is_in_the_way_that_is_none() -> None:
    write({**FILES, "broken.ipynb": "{", "empty.ipynb": "", "other.ipynb": "from utils import start\nstart(None)"})
    assert outputs("train.py")["utils.py"] == FOLDED_UTILS
