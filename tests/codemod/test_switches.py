"""Scripts that distribute themselves only if they are told to: the one for one process is converted."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelift_codemod.api import convert_file
from accelift_codemod.options import Options
from accelift_codemod.plan import Operation
from scripts import added, convert, converted, filled, findings, removed, unchanged

HEAD = """\
import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.data.distributed
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("--nodes", default=-1, type=int, help="number of machines")
parser.add_argument("--several", action="store_true", help="use all GPUs")
"""
TRAIN = """\


def main():
    args = parser.parse_args()
    {flag}
    if {test}:
        # one process for each GPU
        mp.spawn(worker, nprocs=2, args=(2, args))
    else:
        # the script itself
        worker(0, 1, args)


def worker(gpu, gpus, args):
    if {test}:
        dist.init_process_group("gloo", world_size=gpus, rank=gpu)
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    model = nn.Linear(4, 2)
    if {test}:
        # wrapped here
        model = nn.parallel.DistributedDataParallel(model)
        sampler = torch.utils.data.distributed.DistributedSampler(data)
    elif gpus > 8:
        sampler = torch.utils.data.RandomSampler(data)
    else:
        sampler = None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=8, shuffle=sampler is None, sampler=sampler)
    for epoch in range(args.epochs):
        {begin}
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        {end}


{functions}
main()
"""
FLAG = "args.distributed = args.nodes > 1 or args.several"


def hybrid(head: str = HEAD, **slots: str) -> str:
    """A script that distributes itself by a flag, with statements in its slots."""
    given = {"flag": FLAG, "test": "args.distributed", "begin": "pass", "end": "pass", "functions": "", **slots}
    return head + filled(TRAIN.replace("if {test}:", f"if {given['test']}:"), given)


def test_the_script_for_one_process_is_left() -> None:
    text = hybrid()
    output = converted(text)
    for word in ("distributed", "spawn", "nodes", "several", "DistributedSampler", "torch.multiprocessing"):
        assert word not in output
    assert "    # the script itself\n    worker(0, 1, args)\n" in output
    assert "    if gpus > 8:\n        sampler = torch.utils.data.RandomSampler(data)\n    else:\n" in output
    assert "accelerator.prepare(model, optimizer, loader)" in output
    assert "--epochs" in output
    assert findings(text).count("DIST-SINGLE") == 1
    assert "accelerator = Accelerator(" in output and "DistributedDataParallel" not in output


def test_places_are_those_of_the_script_that_was_written() -> None:
    text = hybrid(end="if not args.distributed:\n    print(loss.item())")
    plan = convert(text).plan
    assert plan is not None
    lines = text.splitlines()
    printed = next(e.span for e in plan.edits if e.rule == "PRINT")
    assert lines[printed.line - 1][printed.column : printed.end_column].startswith("print")
    told = {f.code: lines[f.line - 1].strip() for f in plan.findings}
    assert told["DIST-SINGLE"] == "if args.distributed:"
    backward = next(e for e in plan.edits if "backward" in e.code)
    assert lines[backward.span.line - 1][backward.span.column : backward.span.end_column] == "loss.backward()"
    out = [e for e in plan.edits if e.rule == "DISTRIBUTED"]
    assert {lines[e.span.line - 1].strip() for e in out} >= {"if args.distributed:", FLAG}
    assert all(e.safety.value == "review" for e in out)
    dropped = [e.span for e in out if e.operation is Operation.DROP]
    assert dropped and not any(d.contains(e.span) for e in plan.edits for d in dropped if d != e.span)


@pytest.mark.parametrize(
    ("slots", "new"),
    [
        (
            {"end": "if not args.several or (args.several and gpu == 0):\n    print(epoch)"},
            "        accelerator.print(epoch)",
        ),
        ({"end": "if epoch % 2 and (not args.distributed or gpu == 0):\n    print(epoch)"}, "        if epoch % 2:"),
        ({"begin": "if args.distributed and gpus > 1:\n    sampler.set_epoch(epoch)\nepoch += 0"}, None),
        ({"begin": "if not args.distributed: print(epoch)"}, "        accelerator.print(epoch)"),
        ({"end": "size = len(loader) + (args.distributed and gpus)\nprint(size)"}, "        size = len(loader)"),
        ({"end": "print(len(x) if args.distributed else len(y))"}, "        accelerator.print(len(y))"),
        ({"functions": "if dist.is_initialized():\n    dist.barrier()"}, None),
        ({"end": "print(epoch and not args.distributed)"}, "        accelerator.print(epoch and True)"),
        ({"end": "print(args.distributed or epoch)"}, "        accelerator.print(epoch)"),
        ({"end": "print(1 if epoch and not args.distributed else 2)"}, "        accelerator.print(1 if epoch else 2)"),
        ({"end": "print('several', args.distributed)"}, "        accelerator.print('several', False)"),
        (
            {"end": "if alone():\n    print(epoch)", "functions": "def alone():\n    if dist.is_initialized():\n"
             "        return False\n    return True\n"},
            "        accelerator.print(epoch)",
        ),
        (
            {"end": "if args.distributed:\n    mean(loss)", "functions": "def mean(x):\n    dist.all_gather([x], x)\n"},
            None,
        ),
        (
            {"end": "if args.distributed:\n    print(1)\nelif epoch:\n    # odd\n    print(2)"},
            "        if epoch:",
        ),
        ({"end": "if epoch:\n    print(1)\nelif not args.distributed:\n    print(2)"}, "        else:"),
        ({"flag": "args.distributed = args.nodes > 1"}, None),
        ({"flag": "several = int(os.environ.get('WORLD_SIZE', 1)) > 1\nargs.distributed = several"}, None),
        ({"flag": "args.distributed = False\nif 'RANK' in os.environ:\n    args.distributed = True"}, None),
        ({"flag": "args.distributed = torch.cuda.device_count() > 1"}, None),
        ({"flag": "if args.nodes > 1:\n    os.environ['MASTER_PORT'] = '1'\nargs.distributed = args.nodes > 1"}, None),
    ],
)  # fmt: skip
def test_what_only_several_processes_use_goes(slots: dict[str, str], new: str | None) -> None:
    text = hybrid(**slots)
    output = converted(text)
    assert "dist." not in output and "args.distributed" not in output
    assert "environ" not in output
    if new is not None:
        assert new in output.splitlines()
        assert new.strip() in added(text)


@pytest.mark.parametrize(
    "end", ["if dist.is_initialized():\n    dist.destroy_process_group()\n", "if dist.is_initialized(): pass"]
)
def test_what_stands_at_the_end_of_the_file(end: str) -> None:
    assert converted(hybrid() + end).rstrip().endswith("\nmain()")


def test_comments_and_texts_keep_their_place() -> None:
    end = 'if not args.distributed:\n    # said of it\n    text = """\n  as it is\n"""\n    print(text)  # here'
    output = converted(hybrid(end=end))
    assert '        # said of it\n        text = """\n' in output
    assert '"""\n          as it is\n        """\n        accelerator.print(text)  # here\n' in output
    assert "# wrapped here" in "\n".join(removed(hybrid()))


@pytest.mark.parametrize(
    "slots",
    [
        {"flag": "args.distributed = True"},  # by default
        {"flag": "args.distributed = load('config')"},  # who knows
        {"flag": "args.distributed = args.epochs > 1"},
        {"begin": "rank = int(os.environ.get('RANK', 0))\nprint(rank)"},  # asks the launcher all the same
        {"end": "dist.barrier()"},
        {"end": "mean(loss)", "functions": "def mean(x):\n    dist.all_gather([x], x)\n"},
        {"end": "hook = mean", "functions": "def mean(x):\n    dist.all_gather([x], x)\n"},
        {"begin": "if args.distributed: pass\nelse: print(epoch)"},  # on one line
        {"end": "if args.epochs > 5:\n    dist.barrier()"},
        {"flag": f"{FLAG}\nsetattr(args, 'several', True)"},
        {"flag": f"vars(args).update(load('config'))\n{FLAG}"},
        {"flag": FLAG, "functions": "parser.set_defaults(several=True)"},
        {"functions": "def some():\n    if dist.is_initialized():\n        yield 1\n    print(2)\n"},
        {
            "flag": "several = args.nodes > 1\nif several:\n    dist.init_process_group('gloo')\nseveral = load()",
            "test": "several",
        },
    ],
)
def test_what_distributes_itself_whatever_it_is_told_stays(slots: dict[str, str]) -> None:
    assert unchanged(hybrid(**slots)).code == "ALREADY-DISTRIBUTED"


def test_a_default_that_is_no_switch_decides_nothing() -> None:
    """Without `--train` it does nothing, but that is not why it has one process."""
    flag = 'args.distributed = args.nodes > 1\nif args.train:\n    print("training")'
    text = hybrid(HEAD + 'parser.add_argument("--train", action="store_true")\n', flag=flag)
    assert "    if args.train:\n" in converted(text)
    inner = text.replace("        mp.spawn(", "        if args.train:\n            mp.spawn(")
    assert "if args.train:" in converted(text)
    assert "mp.spawn" not in converted(inner)


@pytest.mark.parametrize(
    ("end", "stay"),
    [
        ("print(args.nodes)", True),
        ("print(vars(args))", True),
        ("print(args)", True),
        ("print(f'{args}')", True),
        ("show(args)", False),
        ("kept = args", False),
    ],
)
def test_options_that_are_still_read_stay(end: str, stay: bool) -> None:
    output = converted(hybrid(end=end, functions="def show(args):\n    print(args.epochs)\n"))
    assert ('parser.add_argument("--nodes"' in output) == stay
    assert ("args.distributed = False" in output) == (stay and "nodes" not in end)


@pytest.mark.parametrize("used", [False, True])
def test_a_script_that_others_use_keeps_its_own_way(tmp_path: Path, used: bool) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(hybrid())
    (tmp_path / "other.py").write_text("from train import worker\n\nworker(0, 1, None)\n" if used else "import train\n")
    assert (convert_file(tmp_path / "train.py", Options()).output is None) == used


def test_one_of_two_conditions_is_not_taken_for_the_switch() -> None:
    """By default it is no GPU, and no launcher: the second is why there is one process."""
    flag = "args.distributed = False\nif args.kind == 'gpu' and 'RANK' in os.environ:\n    args.distributed = True"
    end = "print(1 if args.kind == 'gpu' else 2)"
    output = converted(hybrid(HEAD + 'parser.add_argument("--kind", default="cpu")\n', flag=flag, end=end))
    assert "accelerator.print(1 if args.kind == 'gpu' else 2)" in output and "environ" not in output


def test_functions_that_only_uncalled_ones_call_stay() -> None:
    functions = "def mean(x):\n    dist.all_gather([x], x)\n\n\ndef unused(x):\n    mean(x)\n"
    assert unchanged(hybrid(functions=functions)).code == "ALREADY-DISTRIBUTED"


@pytest.mark.parametrize(
    ("slots", "line"),
    [
        (
            {"begin": "args.steps = 0", "end": "args.steps += 1\nif args.distributed:\n    print(args.steps)"},
            "args.steps = 0",
        ),
        ({"begin": "seen = 0", "end": "seen += 1\nif args.distributed:\n    print(seen)"}, "seen = 0"),
        (
            {"begin": "torch.backends.cudnn.benchmark = True", "end": "if args.distributed:\n    "
             "print(torch.backends.cudnn.benchmark)"},
            "torch.backends.cudnn.benchmark = True",
        ),
        (
            {"begin": "args.kind = 1", "end": "got(args, 'kind')\nif args.distributed:\n    print(args.kind)",
             "functions": "def got(options, name):\n    return getattr(options, name)\n"},
            "args.kind = 1",
        ),
        ({"begin": "from other import show\nshow(args)"}, "args.distributed = False"),
        ({"begin": "loader.options = args"}, "args.distributed = False"),
        (
            {"end": "if args.distributed:\n    Own.item(3)",
             "functions": "class Own(DataLoader):\n    def item(self):\n        return 1\n\n\nOwn(None)"},
            "    def item(self):",
        ),
    ],
)  # fmt: skip
def test_what_may_be_read_elsewhere_stays(slots: dict[str, str], line: str) -> None:
    output = converted(hybrid(**slots))
    assert "mp.spawn" not in output and line.strip() in [one.strip() for one in output.splitlines()]


def test_methods_that_a_library_may_call_are_no_switch_s() -> None:
    own = "class Own(nn.Module):\n    def forward(self, x):\n        dist.all_gather([x], x)\n        return x\n"
    functions = f"{own}\n\nOwn()(1)"
    text = hybrid(end="if args.distributed:\n    Own().forward(x)", functions=functions)
    assert unchanged(text).code == "ALREADY-DISTRIBUTED"


def test_a_switch_that_is_no_bool_stays_where_its_value_is_read() -> None:
    text = hybrid(
        HEAD.replace('action="store_true"', "type=int, default=0"), test="args.several", end="print(args.several)"
    )
    output = converted(text)
    assert "accelerator.print(args.several)" in output and "mp.spawn" not in output


@pytest.mark.parametrize("option", ['"--nodes", type=int, required=True', '"nodes", type=int'])
def test_an_option_that_has_to_be_given_has_no_default(option: str) -> None:
    text = hybrid(HEAD.replace('"--nodes", default=-1, type=int', option))
    assert unchanged(text).code == "ALREADY-DISTRIBUTED"
