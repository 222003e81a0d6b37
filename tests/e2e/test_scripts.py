"""Small scripts written for one question each: converted, and run on two processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from accelift_codemod.api import convert_bytes
from accelift_codemod.options import Options

from fixtures.runs import FIXTURES, compare
from tests.e2e.runner import Runner

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.randn(SAMPLES, 8)
data = TensorDataset(x, (x[:, 0] > 0).long())
loader = DataLoader(data, batch_size=7, shuffle=True)
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""

# Sums over samples, one of which a decision depends on, in batches of seven; 22 samples leave a last one of one.
SUMS = """
best = 1e9
for epoch in range(3):
    total = correct = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        total += loss.item() * x.size(0)
        correct += (out.argmax(1) == y).sum().item()
    print("loss %.17f accuracy %.17f" % (total / len(loader.dataset), 100.0 * correct / len(loader.dataset)))
    if total / len(loader.dataset) < best:
        best = total / len(loader.dataset)
        torch.save(model.state_dict(), "best.pt")
model.load_state_dict(torch.load("best.pt"))
print("best %.4f" % best)
"""

# Means of batches of seven, which two processes cannot share evenly: a schedule and the best model follow them.
MEANS = """
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.05)
best, smooth = 1e9, 0.0
for epoch in range(4):
    running, losses = 0.0, []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
        losses.append(loss.item())
        smooth = 0.9 * smooth + 0.1 * loss.item()
    schedule.step(running / len(loader))
    print("loss %.17f of %.17f smooth %.17f" % (running / len(loader), sum(losses) / len(losses), smooth))
    if sum(losses) < best:
        best = sum(losses)
        torch.save(model.state_dict(), "best.pt")
    if smooth < 0.1:
        break
print("best %.4f rate %.4f" % (best, optimizer.param_groups[0]["lr"]))
"""

# Another optimizer takes over after the first epoch, and a loader of the hardest samples after each.
STAGES = """
for epoch in range(3):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    if epoch == 0:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with torch.no_grad():
        hard = F.cross_entropy(model(data.tensors[0].to(device)), data.tensors[1].to(device), reduction="none")
    first = hard.argsort(descending=True)[: len(data) - 3].cpu()
    print("hardest", first[:3].tolist())
    loader = DataLoader(TensorDataset(data.tensors[0][first], data.tensors[1][first]), batch_size=7, shuffle=True)
"""

# The loop of the batches calls next(); the evaluation is decorated and gets the device.
NEXT = """
@torch.no_grad()
def evaluate(model, loader, device: torch.device):
    right = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        right += (model(x).argmax(1) == y).sum().item()
    return right / len(loader.dataset)


test_loader = DataLoader(data, batch_size=6)
batches = iter(loader)
for step in range(10):
    try:
        x, y = next(batches)
    except StopIteration:
        batches = iter(loader)
        x, y = next(batches)
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
print("accuracy %.4f" % evaluate(model, test_loader, device))
"""


# An object that keeps its iterator, and draws from it in a method.
KEPT = """
class Trainer:
    def __init__(self, loader):
        self.loader = loader
        self.batches = iter(loader)

    def next_batch(self):
        try:
            x, y = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            x, y = next(self.batches)
        return x.to(device), y.to(device)

    def fit(self, steps):
        for step in range(steps):
            x, y = self.next_batch()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()


Trainer(loader).fit(9)
print("bias %.4f" % abs(model.bias[0].item()))
"""


# A step in a function, whose loss is a sum; and one for the losses of all batches, added up, with some layers frozen.
STEPS = """
def train_step(net, batch, criterion):
    inputs, labels = [part.to(device) for part in batch]
    loss = criterion(net(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def epoch_step(net):
    total = 0.0
    for x, y in loader:
        total += F.cross_entropy(net(x.to(device)), y.to(device))
    total /= len(loader)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()


loader = DataLoader(data, batch_size=6, shuffle=True)
criterion = nn.CrossEntropyLoss(reduction="sum")
for epoch in range(2):
    model.bias.requires_grad = False
    for batch in loader:
        train_step(model, batch, criterion)
    model.bias.requires_grad = True
    epoch_step(model)
print("bias %.4f" % abs(model.bias[0].item()))
"""


# A network that is trained as a part of another one, and then by an object that keeps it.
PARTS = """
class Around(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x, y):
        return F.cross_entropy(self.net(x) * self.scale, y)


class Holder:
    def __init__(self, net, device):
        self.net = net.to(device)

    def measure(self, x, y):
        return F.cross_entropy(self.net(x), y)


around = Around(model).to(device)
other = nn.Linear(8, 2).to(device)
holder = Holder(other, device)
other_optimizer = torch.optim.Adam(other.parameters(), lr=0.01)
for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        around(x, y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        other_optimizer.zero_grad()
        holder.measure(x, y).backward()
        other_optimizer.step()
print("bias %.4f" % abs(model.bias[0].item() + other.bias[0].item()))
"""


# Two networks in half precision, one scaler for both.
# Batches stay dicts; the evaluation takes their labels out where it needs them.
ENTRIES = """
class Named(torch.utils.data.Dataset):
    def __len__(self):
        return len(data)

    def __getitem__(self, i):
        return {"x": data[i][0], "labels": data[i][1]}


def evaluate(model, loader, device):
    right = count = 0
    shown = []
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        with torch.no_grad():
            out = model(batch["x"])
        pred = out.argmax(1)
        right += (pred == batch["labels"]).sum().item()
        count += len(batch["labels"])
        shown.extend(batch["labels"].tolist())
    return right / count, shown


loader = DataLoader(Named(), batch_size=7, shuffle=True)
test_loader = DataLoader(Named(), batch_size=6)
for epoch in range(3):
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch["x"]), batch["labels"])
        loss.backward()
        optimizer.step()
    print("right", *evaluate(model, test_loader, device))
"""

# The function that trains makes the network, and returns it; others evaluate it.
RETURNED = """
def train(loader, epochs):
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return net, epochs


def test(net, loader):
    net.eval()
    right = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        right += (net(x).argmax(1) == y).sum().item()
    return right


for fold in range(2):
    net, epochs = train(loader, 3)
    print("right", test(net, DataLoader(data, batch_size=6)), "of", epochs)
"""

HALF = """
loader = DataLoader(data, batch_size=6, shuffle=True)
other = nn.Linear(8, 3).to(device)
other_optimizer = torch.optim.Adam(other.parameters(), lr=0.01)
SCALER
for epoch in range(3):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        other_optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.DTYPE):
            first = F.cross_entropy(model(x), y)
            second = F.cross_entropy(other(x), y)
        BACKWARD
print("weights %.4f" % sum(p.abs().sum().item() for p in [*model.parameters(), *other.parameters()]))
"""
SCALES = """scaler.scale(first).backward()
        scaler.scale(second).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.step(other_optimizer)
        scaler.update()"""
STEPS_ALONE = """(first + second).backward()
        optimizer.step()
        other_optimizer.step()"""


def converted(text: str, target: str = "runtime", precision: str = "keep") -> bytes:
    """The conversion of a script."""
    result = convert_bytes(text.encode(), "/script.py", Options(target, precision=precision))
    assert result.output is not None, result.plan
    return result.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "samples"),
    [
        (SUMS, 22),
        (MEANS, 31),
        (SUMS, 31),
        (NEXT, 25),
        (KEPT, 25),
        (STEPS, 24),
        (STAGES, 25),
        (PARTS, 22),
        (ENTRIES, 23),
        (RETURNED, 23),
    ],
)
def test_prints_the_same_on_two_processes(body: str, samples: int, run: Runner, tmp_path: Path) -> None:
    text = HEAD.replace("SAMPLES", str(samples)) + body
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text(text)
    new.write_bytes(converted(text))
    original = run(old, tmp_path / "old", cwd=tmp_path)
    for processes in (None, 2):
        done = run(new, tmp_path / f"new{processes}", cwd=tmp_path, processes=processes)
        comparison = compare(original, done)
        assert comparison.steps == comparison.other_steps
        assert comparison.difference <= (0 if processes is None else 1e-6)
        if processes is None:
            assert done.stdout == original.stdout  # to the last bit
        numbers = [[float(n) for n in re.findall(r"[\d.]+", one.stdout)] for one in (original, done)]
        assert numbers[1] == pytest.approx(numbers[0], abs=2e-4)  # some have four decimals


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "scaler", "backward", "name"),
    [("float16", 'scaler = torch.amp.GradScaler("cpu")', SCALES, "fp16"), ("bfloat16", "", STEPS_ALONE, "bf16")],
)
def test_precision_that_the_accelerator_takes_over(
    dtype: str, scaler: str, backward: str, name: str, run: Runner, tmp_path: Path
) -> None:
    """On one process it is that of the script, bit for bit; on two, sums over half a batch are rounded to 16 bits, and
    may overflow at other steps."""
    body = HALF.replace("SCALER", scaler).replace("DTYPE", dtype).replace("BACKWARD", backward)
    text = HEAD.replace("SAMPLES", "24").replace('"cuda" if torch.cuda.is_available() else "cpu"', '"cpu"') + body
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text(text)
    new.write_bytes(converted(text, precision="managed"))
    assert f'mixed_precision="{name}"' in new.read_text()
    original = run(old, tmp_path / "old", cwd=tmp_path)
    done = run(new, tmp_path / "alone", cwd=tmp_path)
    comparison = compare(original, done)
    assert comparison.steps == comparison.other_steps > 0 and comparison.difference == 0
    assert done.stdout == original.stdout
    two = run(new, tmp_path / "two", cwd=tmp_path, processes=2)
    weights = [float(done.stdout.split()[-1]) for done in (original, two)]
    assert weights[1] == pytest.approx(weights[0], rel=0.05)


LEAVE_AT_ONCE = b"""    import os, sys, time
    torch.distributed.barrier()
    time.sleep(1)
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.mark.slow
def test_target_accelerate_under_its_own_launcher(tmp_path: Path) -> None:
    """Two CPU processes; Accelerate deals the data in an order of its own, so only the outcome is compared."""
    script = tmp_path / "script.py"
    text = converted((FIXTURES / "legacy" / "digits_params.py").read_text(), "accelerate")
    # Accelerate leaves gloo's threads to the interpreter's teardown, where they may abort the process.
    script.write_bytes(text + LEAVE_AT_ONCE)
    # With --cpu it would start one process; on a machine without GPUs, --multi_gpu starts two on the CPU.
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    command = [sys.executable, *launch, str(script), "--no-cuda", "--epochs", "2"]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("Test set")]
    assert len(lines) == 2
    right, total = map(int, re.findall(r"(\d+)/(\d+)", lines[-1])[0])
    assert total == 397 and right / total > 0.5  # of ten classes, after two epochs


@pytest.mark.slow
def test_torchrun_is_a_launcher_too(tmp_path: Path) -> None:
    text = HEAD.replace("SAMPLES", "31") + SUMS
    script = tmp_path / "script.py"
    script.write_bytes(converted(text))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [sys.executable, *torchrun, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("best ") == 1 and done.stdout.count("loss ") == 3
