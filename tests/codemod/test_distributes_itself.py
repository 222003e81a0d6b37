"""Scripts that distribute themselves: what becomes of their process group, and what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelift_codemod.api import convert_file
from accelift_codemod.options import Options
from accelift_codemod.outcomes import Severity
from scripts import added, convert, converted, filled, findings, removed, unchanged

HEAD = """\
import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

"""
TRAIN = """\
data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
{sampler}
loader = DataLoader(data, batch_size=8, sampler=sampler)
{model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        {batch}
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        {step}
{after}
"""
BATCH = "x, y = x.to(device), y.to(device)"


def ddp(
    setup: str = "dist.init_process_group('nccl')\ndevice = torch.device('cuda', dist.get_rank())",
    head: str = HEAD,
    **slots: str,
) -> str:
    """A script on one level, with statements in its slots."""
    given = {
        "sampler": "sampler = DistributedSampler(data)",
        "model": "model = DDP(nn.Linear(4, 2).to(device))",
        "before": "",
        "batch": BATCH,
        "step": "",
        "after": "",
        **slots,
    }
    return head + setup + "\n" + filled(TRAIN, given)


def test_a_script_on_one_level() -> None:
    text = converted(ddp(after="if dist.get_rank() == 0:\n    torch.save(model.module.state_dict(), 'm.pt')"))
    assert (
        text[text.index("accelerator = ") :]
        == """\
accelerator = Accelerator()
device = accelerator.device
data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
sampler = DistributedSampler(
    data, num_replicas=accelerator.num_processes, rank=accelerator.process_index
)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
if accelerator.is_main_process:
    torch.save(accelerator.unwrap_model(model).state_dict(), 'm.pt')
"""
    )


# ---- each part of the canonical set

LOCAL = "dist.init_process_group('nccl')\nlocal_rank = int(os.environ['LOCAL_RANK'])\ntorch.cuda.set_device(local_rank)"


@pytest.mark.parametrize(
    ("slots", "new"),
    [
        ({"step": "dist.barrier()"}, "accelerator.wait_for_everyone()"),
        ({"after": "dist.destroy_process_group()"}, "accelerator.end_training()"),
        ({"after": "print(dist.get_world_size())"}, "print(accelerator.num_processes)"),
        ({"after": "if dist.get_rank() != 0:\n    print(1)"}, "if not accelerator.is_main_process:"),
        ({"after": "if 0 == dist.get_rank():\n    print(1)"}, "if accelerator.is_main_process:"),
        ({"after": "if dist.get_rank() > 0:\n    print(1)"}, "if not accelerator.is_main_process:"),
        ({"after": "if dist.get_rank() == 1:\n    print(1)"}, "if accelerator.process_index == 1:"),
        (
            {"before": "world = int(os.getenv('WORLD_SIZE', 1))", "after": "print(world)"},
            "world = accelerator.num_processes",
        ),
        (
            {"before": "rank = int(os.environ.get('LOCAL_RANK', -1))", "after": "if rank in [-1, 0]:\n    print(1)"},
            "if accelerator.is_local_main_process:",
        ),
        (
            {"before": "t = torch.zeros(1)", "after": "dist.all_reduce(t, op=dist.ReduceOp.MAX)\nprint(t.item())"},
            't = accelerator.reduce(t, reduction="max")',
        ),
        (
            {"before": "t = torch.zeros(1)", "after": "dist.reduce(t, 0)\nprint(t.item())"},
            't = accelerator.reduce(t, reduction="sum")',
        ),
        (  # the list has the same tensor
            {"before": "t = torch.zeros(1)\nkept = [t]", "after": "dist.all_reduce(t)\nprint(kept)"},
            't.copy_(accelerator.reduce(t, reduction="sum"))',
        ),
        (
            {"before": "t = data.tensors[0]", "after": "dist.all_reduce(t)"},
            't.copy_(accelerator.reduce(t, reduction="sum"))',
        ),
        (
            {"model": "model = DDP(nn.Linear(4, 2).to(device), static_graph=True)"},
            "kwargs_handlers=[DistributedDataParallelKwargs(static_graph=True)]",
        ),
        ({"after": "with model.no_sync():\n    pass"}, "with accelerator.no_sync(model):"),
        (
            {"before": "def count(m):\n    return len(list(m.parameters()))\ncount(model)", "after": "dist.barrier()"},
            "accelerator.wait_for_everyone()",
        ),
        (
            {"before": "os.environ['OMP_NUM_THREADS'] = '1'", "after": "dist.barrier()"},
            "accelerator.wait_for_everyone()",
        ),
        (
            {"sampler": "sampler = DistributedSampler(data, rank=dist.get_rank(), shuffle=False)"},
            "sampler = DistributedSampler(",
        ),
    ],
)
def test_part(slots: dict[str, str], new: str) -> None:
    assert new in added(ddp(**slots))


@pytest.mark.parametrize(
    ("slots", "new"),
    [
        (
            {"batch": "x, y = x.cuda(local_rank), y.cuda(local_rank)"},
            "x, y = x.to(accelerator.device), y.to(accelerator.device)",
        ),
        (
            {"batch": "x, y = x.to(local_rank), y.to(local_rank)"},
            "x, y = x.to(accelerator.device), y.to(accelerator.device)",
        ),
        (
            {"before": "c = torch.load('c', map_location=f'cuda:{local_rank}')"},
            "c = torch.load('c', map_location=accelerator.device)",
        ),
    ],
)
def test_devices_by_the_number_of_the_process(slots: dict[str, str], new: str) -> None:
    slots = {"batch": "", "model": "model = DDP(nn.Linear(4, 2).cuda(local_rank), device_ids=[local_rank])", **slots}
    text = ddp(LOCAL, **slots)
    assert new in added(text)
    assert "torch.cuda.set_device(local_rank)" in removed(text)
    assert "DEV-INDEX" not in findings(text)


@pytest.mark.parametrize(
    ("wrap", "moved"),
    [
        ("DDP(nn.Linear(4, 2).cuda(local_rank), device_ids=[local_rank])", True),  # it moved what it was called with
        ("DDP(nn.Linear(4, 2).cuda(local_rank), [local_rank])", True),
        ("DDP(nn.Linear(4, 2).cuda(local_rank))", False),
        ("DDP(nn.Linear(4, 2).cuda(local_rank), device_ids=None)", False),
    ],
)
def test_inputs_that_the_wrapper_moved(wrap: str, moved: bool) -> None:
    after = "print(model(torch.randn(3, 4)).sum())"
    text = converted(ddp(LOCAL, batch="", model=f"model = {wrap}", after=after))
    assert ("model(torch.randn(3, 4).to(accelerator.device))" in text) == moved
    assert ("model(torch.randn(3, 4))" in text) != moved


def test_local_rank_as_an_argument() -> None:
    setup = (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--local_rank', type=int, default=0)\n"
        "args = parser.parse_args()\ndist.init_process_group('nccl')\ndevice = torch.device('cuda', args.local_rank)"
    )
    text = converted(ddp(setup, after="if args.local_rank == 0:\n    print('gpu', args.local_rank)"))
    assert "parser.add_argument('--local_rank', type=int, default=0)" in text  # old commands still work
    assert "if accelerator.is_local_main_process:\n    print('gpu', accelerator.local_process_index)" in text


def test_an_argument_that_only_looks_like_it() -> None:
    setup = (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--rank', type=int, default=0)\n"
        "args = parser.parse_args()\ndist.init_process_group('nccl')\ndevice = torch.device('cuda', dist.get_rank())"
    )
    assert "print(args.rank)" in converted(ddp(setup, after="print(args.rank)"))  # of a matrix, perhaps


def test_ranks_given_by_hand_come_from_the_launcher() -> None:
    setup = (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--rank', type=int)\n"
        "parser.add_argument('--size', type=int)\nargs = parser.parse_args()\n"
        "dist.init_process_group('nccl', init_method='tcp://a:1', rank=args.rank, world_size=args.size)\n"
        "device = torch.device('cuda', dist.get_rank())"
    )
    text = ddp(setup, after="print(args.rank, args.size)")
    assert "print(accelerator.process_index, accelerator.num_processes)" in added(text)
    assert "DIST-LAUNCH" in findings(text)


SLURM = "device = torch.device('cuda', rank % torch.cuda.device_count())"


def test_processes_that_srun_starts_ask_the_accelerator() -> None:
    setup = (
        "rank = int(os.environ['SLURM_PROCID'])\n"
        "dist.init_process_group('nccl', rank=rank, world_size=int(os.environ['SLURM_NTASKS']))\n" + SLURM
    )
    after = "if rank == 0:\n    print('done')"
    assert "rank = " not in converted(ddp(setup, after=after))  # nothing reads it any more
    result = convert(ddp(setup, after=f"{after}\nprint(rank)"))
    text = result.output.decode() if result.output else ""
    assert "rank = accelerator.process_index\n" in text
    assert "if accelerator.is_main_process:\n    print('done')" in text
    (told,) = [f for f in result.plan.findings if f.code == "DIST-LAUNCH"] if result.plan else []
    assert told.severity is Severity.WARNING
    assert "not from `int(os.environ['SLURM_PROCID'])`: started as before, each process takes itself" in told.message


def test_the_number_on_a_machine_may_be_a_difference() -> None:
    setup = (
        "rank = int(os.environ['SLURM_PROCID'])\ngpus = int(os.environ['SLURM_GPUS_ON_NODE'])\n"
        "dist.init_process_group('nccl', rank=rank, world_size=int(os.environ['SLURM_NTASKS']))\n"
        "local = rank - gpus * (rank // gpus)\ndevice = torch.device('cuda', local)"
    )
    after = "if local == 0:\n    print('done')"
    assert "if accelerator.is_local_main_process:" in converted(ddp(setup, after=after))
    other = setup.replace("gpus * (rank // gpus)", "2 * (rank // gpus)")
    assert "if local == 0:" in converted(ddp(other, after=after))


def test_who_is_told_by_a_launcher_or_by_srun_is_left_alone() -> None:
    setup = (
        "if 'RANK' in os.environ:\n    rank = int(os.environ['RANK'])\nelse:\n"
        "    rank = int(os.environ['SLURM_PROCID'])\n"
        "dist.init_process_group('nccl', rank=rank, world_size=int(os.environ['WORLD_SIZE']))\n" + SLURM
    )
    unchanged(ddp(setup))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("os.environ['SLURM_PROCID']", True),
        ("str(number)", True),
        ("f'{number}'", True),
        ("str(args.rank)", True),
        ("'0'", False),
        ("os.environ.get('RANK', '0')", False),
        ("str(int(os.environ['RANK']))", False),
    ],
)
def test_what_tells_processes_which_they_are_has_no_effect_any_more(value: str, told: bool) -> None:
    setup = (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--rank', type=int)\nargs = parser.parse_args()\n"
        f"number = int(os.environ['SLURM_PROCID'])\nos.environ['RANK'] = {value}\n"
        "dist.init_process_group('nccl')\ndevice = torch.device('cuda', dist.get_rank())"
    )
    assert ("DIST-LAUNCH" in findings(ddp(setup))) == told


def test_what_is_printed_and_saved_stays_the_scripts_decision() -> None:
    after = "print('done', dist.get_rank())\ntorch.save(model.module.state_dict(), f'{dist.get_rank()}.pt')"
    text = converted(ddp(after=after))
    assert text.endswith(
        "print('done', accelerator.process_index)\n"
        "torch.save(accelerator.unwrap_model(model).state_dict(), f'{accelerator.process_index}.pt')\n"
    )


def test_functions_of_which_nothing_is_left_go() -> None:
    head = HEAD + (
        "def setup():\n    os.environ['MASTER_PORT'] = '12355'\n    dist.init_process_group('nccl')\n\n\n"
        "def check():\n    # what it is for\n    torch.cuda.set_device(0)\n\n\n"
    )
    text = converted(ddp("setup()\ncheck()\ndevice = torch.device('cuda', dist.get_rank())", head=head))
    assert "setup" not in text and "MASTER_PORT" not in text
    assert "def check():\n    # what it is for\n    pass\n" in text and "\ncheck()\n" in text


# ---- processes that the script starts


def spawned(main: str, worker: str = "rank, world_size", size: str = "world_size") -> str:
    body = ddp(
        f"dist.init_process_group('nccl', rank=rank, world_size={size})\ndevice = torch.device('cuda', rank)", head=""
    )
    lines = "".join(f"    {line}\n" if line else "\n" for line in body.splitlines())
    guarded = "".join(f"    {line}\n" for line in main.splitlines())
    return f"{HEAD}\ndef worker({worker}):\n{lines}\n\nif __name__ == '__main__':\n{guarded}"


@pytest.mark.parametrize(
    ("main", "end"),
    [
        (
            "n = torch.cuda.device_count()\nmp.spawn(worker, args=(n,), nprocs=n, join=True)",
            "    accelerator = Accelerator()\n    n = accelerator.num_processes\n"
            "    worker(accelerator.process_index, n, accelerator)\n",
        ),
        (
            "os.environ['MASTER_PORT'] = '1'\nmp.spawn(fn=worker, nprocs=(n := 2), args=(n,))",
            None,
        ),
        (
            "p = argparse.ArgumentParser()\np.add_argument('--n', type=int)\nargs = p.parse_args()\n"
            "mp.spawn(worker, (args.n,), args.n)",
            "    accelerator = Accelerator()\n"
            "    worker(accelerator.process_index, accelerator.num_processes, accelerator)\n",
        ),
    ],
)
def test_spawn(main: str, end: str | None) -> None:
    if end is None:
        assert unchanged(spawned(main)).code == "ALREADY-DISTRIBUTED"
    else:
        assert converted(spawned(main)).endswith(end)


@pytest.mark.parametrize(
    ("main", "why"),
    [
        ("torch.manual_seed(0)\nn = 2\nmp.spawn(worker, args=(n,), nprocs=n)", "that they may not see"),
        ("n = 2\nmp.spawn(worker, args=(n,), nprocs=n, join=False)", "torch.multiprocessing.spawn"),
        ("for n in (1, 2):\n    mp.spawn(worker, args=(n,), nprocs=n)", "torch.multiprocessing.spawn"),
        (
            "n = 2\nif n > 1:\n    mp.spawn(worker, args=(n,), nprocs=n)\nelse:\n    worker(0, 1)",
            "also called otherwise",
        ),
        ("n = 2\nmp.spawn(worker, args=(3,), nprocs=n)", "world_size whose origin"),
        ("rest = (2,)\nmp.spawn(worker, args=rest, nprocs=2)", "torch.multiprocessing.spawn"),
    ],
)
def test_spawn_that_cannot_be_a_call(main: str, why: str) -> None:
    found = unchanged(spawned(main))
    assert found.code == "ALREADY-DISTRIBUTED" and why in found.message


# ---- processes that the script starts on each of several machines

TOLD = "p = argparse.ArgumentParser()\n" + "".join(f"p.add_argument('--{n}', type=int)\n" for n in ("n", "here", "nr"))
STARTED = (
    TOLD + "args = p.parse_args()\nargs.world = args.here * args.n\nmp.spawn(worker, nprocs=args.here, args=(args,))"
)
GROUP = "dist.init_process_group('nccl', rank=rank, world_size=args.world)\ndevice = torch.device('cuda', local)"
ON_MAIN = "if local == 0:\n    print(1)"


def on_machines(
    rank: str = "args.nr * args.here + local", main: str = STARTED, after: str = ON_MAIN, worker: str = "local, args"
) -> str:
    body = ddp(
        f"rank = {rank}\n{GROUP}", head="", sampler="sampler = DistributedSampler(data, args.world, rank)", after=after
    )
    lines = "".join(f"    {line}\n" if line else "\n" for line in body.splitlines())
    guarded = "".join(f"    {line}\n" for line in main.splitlines())
    return f"{HEAD}\ndef worker({worker}):\n{lines}\n\nif __name__ == '__main__':\n{guarded}"


@pytest.mark.parametrize(
    ("slots", "call"),
    [
        ({}, "worker(accelerator.local_process_index, args, accelerator)"),
        ({"rank": "local + args.here * args.nr"}, "worker(accelerator.local_process_index, args, accelerator)"),
        (  # set by the script, and the same everywhere
            {"main": STARTED.replace("args.world =", "args.here = 2\nargs.world =")},
            "worker(accelerator.local_process_index, args, accelerator)",
        ),
        (
            {
                "rank": "args.nr * each + local",
                "worker": "local, each, args",
                "main": STARTED.replace("(args,)", "(args.here, args)"),
            },
            "worker(accelerator.local_process_index, args.here, args, accelerator)",
        ),
    ],
)
def test_ranks_over_several_machines(slots: dict[str, str], call: str) -> None:
    text = converted(on_machines(**slots))
    assert "rank = accelerator.process_index\n" in text and "args.world = accelerator.num_processes\n" in text
    assert "if accelerator.is_local_main_process:\n" in text and text.endswith(f"    {call}\n")


@pytest.mark.parametrize(
    "slots",
    [
        {"after": "print(args.here)"},  # it would go on saying what nobody tells it any more
        {"after": "torch.manual_seed(args.nr)"},
        {"rank": "args.nr * args.n + local"},
        {"rank": "args.nr * args.here - local"},
        {"main": STARTED.replace("args.here * args.n", "args.nr * args.n")},
        {"main": STARTED.replace("nprocs=args.here", "nprocs=4")},
    ],
)
def test_ranks_that_are_computed_otherwise(slots: dict[str, str]) -> None:
    assert "with a rank whose origin" in unchanged(on_machines(**slots)).message


COMMENTED = """\
class Trainer:
    def __init__(self, model, loader, optimizer):
        # what deals
        self.loader = loader
        self.place = int(os.environ["LOCAL_RANK"])
        self.optimizer = optimizer
        self.model = DDP(model.to(self.place), device_ids=[self.place])

    def train(self):
        for x, y in self.loader:
            x = x.to(self.place)
            y = y.to(self.place)
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()


def main():
    dist.init_process_group("nccl")
    data = TensorDataset(torch.zeros(8, 4), torch.zeros(8).long())
    loader = DataLoader(data, 4, sampler=DistributedSampler(data))
    model = nn.Linear(4, 2)
    Trainer(model, loader, torch.optim.SGD(model.parameters(), lr=0.1)).train()


main()
"""


def test_a_constructor_that_begins_with_a_comment_keeps_the_accelerator() -> None:
    """The comment belongs to the first statement, not to the header that gets one parameter more."""
    kept = "        self.accelerator = accelerator\n        # what deals\n        self.loader = loader\n"
    assert kept in converted(HEAD + COMMENTED)


# ---- what is left alone


@pytest.mark.parametrize(
    ("slots", "line"),
    [
        ({"step": "dist.all_gather([x], x)"}, "dist.all_gather([x], x)"),
        ({"step": "dist.broadcast(x, src=0)"}, "dist.broadcast(x, src=0)"),
        ({"step": "dist.all_reduce(x, async_op=True)"}, "dist.all_reduce(x, async_op=True)"),
        ({"step": "dist.all_reduce(x, group=other)"}, "dist.all_reduce(x, group=other)"),
        ({"step": "dist.all_reduce(x, dist.ReduceOp.PRODUCT)"}, "dist.all_reduce(x, dist.ReduceOp.PRODUCT)"),
        ({"step": "dist.all_reduce(model.weight.grad)"}, "dist.all_reduce(model.weight.grad)"),
        ({"step": "work = dist.all_reduce(x)"}, "work = dist.all_reduce(x)"),
        ({"step": "dist.reduce(x, dst=1)"}, "dist.reduce(x, dst=1)"),
        ({"step": "dist.barrier(group)"}, "dist.barrier(group)"),
        ({"before": "print(dist.get_rank(group))"}, "print(dist.get_rank(group))"),
        ({"before": "f = dist.barrier"}, "f = dist.barrier"),
        ({"before": "for k in 'ab':\n    os.environ[k] = 'x'"}, "os.environ[k] = 'x'"),
        ({"before": "os.environ.update(MASTER_PORT='1')"}, "os.environ.update(MASTER_PORT='1')"),
        (
            {"before": "os.environ['MASTER_PORT'] = '1'\nprint(os.environ['MASTER_PORT'])"},
            "print(os.environ['MASTER_PORT'])",
        ),
        ({"before": "model.register_comm_hook(None, print)"}, "model.register_comm_hook(None, print)"),
        ({"before": "import copy\nema = copy.deepcopy(model)"}, "ema = copy.deepcopy(model)"),
        ({"before": "class Ema:\n    pass\nema = Ema(model)"}, "ema = Ema(model)"),
        ({"before": "from torch.distributed import *"}, "import argparse"),
        ({"before": "if dist.is_initialized():\n    print(1)"}, "if dist.is_initialized():"),
        ({"before": "mp.Process(target=print).start()"}, "mp.Process(target=print).start()"),
        ({"before": "if isinstance(model, DDP):\n    print(1)"}, "if isinstance(model, DDP):"),
        (
            {"model": "model = DDP(nn.Linear(4, 2).to(device), process_group=group)"},
            "model = DDP(nn.Linear(4, 2).to(device), process_group=group)",
        ),
        (
            {"model": "model = DDP(nn.Linear(4, 2).to(device), find_unused_parameters=unused)"},
            "model = DDP(nn.Linear(4, 2).to(device), find_unused_parameters=unused)",
        ),
        ({"model": "model = nn.Linear(4, 2).to(device)"}, "import torch.distributed as dist"),
    ],
)
def test_beyond_the_canonical_set(slots: dict[str, str], line: str) -> None:
    text = ddp(**slots)
    found = unchanged(text)
    assert found.code == "ALREADY-DISTRIBUTED"
    named = text.splitlines()[found.line - 1].strip()
    assert named == line or line == "import torch.distributed as dist"


def test_one_of_two_models_is_not_wrapped() -> None:
    slots = {
        "before": "other = nn.Linear(2, 2).to(device)\nsecond = torch.optim.SGD(other.parameters(), lr=0.1)",
        "step": "second.step()",
    }
    assert unchanged(ddp(**slots)).code == "ALREADY-DISTRIBUTED"


def test_a_group_that_another_file_makes() -> None:
    assert unchanged(ddp("device = torch.device('cuda', dist.get_rank())")).code == "ALREADY-DISTRIBUTED"


def test_accelerate_gets_the_same_names() -> None:
    text = convert(ddp(after="dist.barrier()"), target="accelerate").output
    assert text is not None
    assert (
        text.replace(b"from accelerate import", b"from accelift import")
        == converted(ddp(after="dist.barrier()")).encode()
    )


@pytest.mark.parametrize(
    ("line", "file", "text", "left"),
    [
        ("from tools.mean import reduce_mean", "tools/mean.py", "import torch.distributed as dist\n", True),
        ("import tools", "tools/__init__.py", "from other import x\n", True),
        ("import tools", "tools/__init__.py", "import json\n", False),
        ("import json", "tools/mean.py", "import torch.distributed as dist\n", False),
    ],
)
def test_other_files_of_the_project(tmp_path: Path, line: str, file: str, text: str, left: bool) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "other.py").write_text("import torch.distributed\nimport tools\n")
    (tmp_path / file).write_text(text)
    (tmp_path / "train.py").write_text(ddp(head=f"{line}\n{HEAD}"))
    result = convert_file(tmp_path / "train.py", Options())
    assert (result.output is None) is left
    if left:
        assert result.plan is not None and result.plan.findings[0].line == 1


def test_no_loader_to_be_found() -> None:
    assert unchanged(ddp().replace("loader = DataLoader(data", "loader = make(data")).code == "ALREADY-DISTRIBUTED"


SWITCHED = """\
{flag}
if {test}:
    dist.init_process_group('nccl')
    device = torch.device('cuda', dist.get_rank())
else:
    device = torch.device('cuda')"""
PARSED = "parser = argparse.ArgumentParser()\nparser.add_argument({!r}, {})\nargs = parser.parse_args()"


SEVERAL = "int(os.environ['WORLD_SIZE']) > 1"
UNSET = "args = argparse.Namespace()\nargs.several = False"


@pytest.mark.parametrize(
    ("flag", "test", "told"),
    [
        ("several = False", "several", True),
        (PARSED.format("--several", "action='store_true'"), "args.several", True),
        ("several = True", "several", False),
        ("several = int(os.environ['WORLD_SIZE']) > 1", "several", False),
        ("several = 'RANK' in os.environ", "several", False),
        (PARSED.format("--local_rank", "type=int"), "args.local_rank >= 0", False),
        (
            PARSED.format("--several", "action='store_true'") + "\nargs.several = 'RANK' in os.environ",
            "args.several",
            False,
        ),
        (f"{UNSET}\nif 'WORLD_SIZE' in os.environ:\n    args.several = {SEVERAL}", "args.several", False),
        (f"{UNSET}\nif 'RANK' in os.environ:\n    args.several = True", "args.several", False),
        (f"several = False\nif os.getenv('RANK') is not None:\n    several = {SEVERAL}", "several", False),
        (f"{UNSET}\nif 'MANY' in os.environ:\n    args.several = False", "args.several", True),
        (f"{UNSET}\nif 'MANY' in os.environ:\n    args.several = bool(os.environ['MANY'])", "args.several", True),
        (f"{UNSET}\nif 'WORLD_SIZE' in os.environ:\n    args.more = {SEVERAL}", "args.several", True),
    ],
)
def test_a_switch_that_no_launcher_sets(flag: str, test: str, told: bool) -> None:
    """Without it, every process is the only one for all that it knows."""
    assert ("DIST-SWITCH" in findings(ddp(setup=SWITCHED.format(flag=flag, test=test)))) is told


def test_a_switch_is_told_of_once() -> None:
    text = ddp(setup=SWITCHED.format(flag="several = False", test="several"), before="if several:\n    dist.barrier()")
    assert findings(text).count("DIST-SWITCH") == 1


@pytest.mark.parametrize(
    ("test", "instead"),
    [
        ("args.local_rank == -1", "accelerator.num_processes == 1"),
        ("args.local_rank != -1", "accelerator.num_processes > 1"),
        ("args.local_rank >= 0", "accelerator.num_processes > 1"),
        ("args.local_rank < 0", "accelerator.num_processes == 1"),
        ("args.local_rank == 1", "accelerator.local_process_index == 1"),
    ],
)
def test_a_rank_below_0_is_one_process_without_a_launcher(test: str, instead: str) -> None:
    """As it is by default in scripts for torch.distributed.launch, also on one process after the conversion."""
    setup = (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--local_rank', type=int, default=-1)\n"
        "args = parser.parse_args()\ndist.init_process_group('nccl')\ndevice = torch.device('cuda', args.local_rank)"
    )
    output = converted(ddp(setup, after=f"if {test}:\n    words = 3"))
    assert f"if {instead}:" in output


@pytest.mark.parametrize(
    "device",
    [
        'torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"',
        "torch.accelerator.current_accelerator() if torch.accelerator.is_available() else 'cpu'",
    ],
)
def test_the_current_accelerator_is_a_device(device: str) -> None:
    text = TRAIN.replace("{sampler}", f"device = {device}").replace("sampler=sampler", "shuffle=True")
    text = text.replace("    sampler.set_epoch(epoch)\n", "").replace("{model}", "model = nn.Linear(4, 2).to(device)")
    plain = HEAD.replace("import torch.distributed as dist\nimport torch.multiprocessing as mp\n", "")
    output = converted(plain + filled(text, {"before": "", "batch": BATCH, "step": "", "after": ""}))
    assert (
        "accelerator = Accelerator(" in output and "current_accelerator" not in output and ".to(device)" not in output
    )
