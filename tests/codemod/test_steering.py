"""What one process measures is followed to whatever steers the training, and is that of all processes there."""

from __future__ import annotations

from typing import Any

import pytest
from scripts import NO_LOOP, TRAINS, added, converted, findings, script

AVERAGED = "accelerator.batch_mean(loss.detach()).item()"
PLATEAU = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"""

STOPPER = """
class Stopper:
    def __init__(self):
        self.best, self.stop, self.seen = 1e9, False, []

    def __call__(self, value):
        if value < self.best:
            self.best = value
        else:
            self.stop = True

    def step(self, value):
        self(value)
        return self.stop

    def note(self, value):
        self.seen.append(value)

    @property
    def last(self):
        return self.seen[-1]
"""

RATES = """
def set_rate(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate


def adjust(optimizer, loss):
    if loss < 1:
        set_rate(optimizer, 0.01)


def unfreeze(model):
    for parameter in model.parameters():
        parameter.requires_grad = True


def describe(loss):
    if loss < 1:
        return "good"
    return "bad"


def keep(model):
    torch.save(model.state_dict(), "best.pt")
"""

RUN = f"""
def run(model, loader, optimizer, device):
    total = 0.0
{TRAINS}        total += loss.item()
    return {{result}}
"""

STEERED = {
    "an object that decides": {
        "before": "stopper = Stopper()",
        "epoch_end": "stopper(running / len(loader))\nif stopper.stop:\n    break",
    },
    "an object's method that decides": {
        "before": "stopper = Stopper()",
        "epoch_end": "if stopper.step(running / len(loader)):\n    break",
    },
    "a property of an object": {
        "before": "stopper = Stopper()",
        "epoch_end": "stopper.note(running)\nif stopper.last < 1:\n    break",
    },
    "an object of a library": {
        "from_imports": "from stopping import EarlyStopping",
        "before": "stopper = EarlyStopping()",
        "epoch_end": "stopper(running)\nif stopper.early_stop:\n    break",
    },
    "a rate under a test": {
        "before": "rate, best = 0.1, 1e9",
        "epoch_end": "if running > best:\n    rate = rate * 0.5\n    set_rate(optimizer, rate)\nbest = running",
    },
    "a rate by an expression": {
        "before": "rate, best = 0.1, 1e9",
        "epoch_end": "rate = rate * 0.5 if running > best else rate\nset_rate(optimizer, rate)",
    },
    "a rate set under a test": {
        "epoch_end": "if running > 3:\n    for group in optimizer.param_groups:\n        group['lr'] *= 0.5",
    },
    "a rate that is computed": {"epoch_end": "optimizer.param_groups[0]['lr'] = 0.01 * running"},
    "a rate that a function sets": {"epoch_end": "adjust(optimizer, running)"},
    "weights put back": {
        "imports": "import copy",
        "before": "best, kept = 1e9, None",
        "epoch_end": "if running < best:\n    best, kept = running, copy.deepcopy(model.state_dict())\n"
        "else:\n    model.load_state_dict(kept)",
    },
    "the loop over epochs": {
        "before": "last, epoch = 10.0, 0",
        "epochs": "while last > 0.1 and epoch < 3:",
        "epoch": "running = 0.0\nepoch += 1",
        "epoch_end": "last = running / len(loader)",
    },
    "the next epoch's loss": {
        "before": "weight = 1.0",
        "forward": "optimizer.zero_grad()\nloss = weight * F.cross_entropy(model(x), y)",
        "epoch_end": "weight = 0.5 if running < 1 else weight",
    },
    "what is frozen": {
        "epoch_end": "if running < 1:\n    for p in model.parameters():\n        p.requires_grad = False"
    },
    "what a function unfreezes": {"epoch_end": "if running < 1:\n    unfreeze(model)"},
    "what a sampler draws by": {
        "loader": "sampler = torch.utils.data.WeightedRandomSampler(torch.ones(64), 64)\n"
        "loader = DataLoader(data, batch_size=16, sampler=sampler)",
        "epoch_end": "sampler.weights = torch.ones(64) * running",
    },
    "a list over the epochs": {
        "before": "history = []",
        "epoch_end": "history.append(running)\nif len(history) > 2 and history[-1] > history[-2]:\n    break",
    },
    "a dict of lists": {
        "before": "history = {'loss': []}",
        "epoch_end": "history['loss'].append(running)\nif history['loss'][-1] > 2:\n    break",
    },
    "what ends the process": {"imports": "import sys", "epoch_end": "if running < 1:\n    sys.exit(0)"},
    "what is raised and caught": {
        "epoch_end": "try:\n    if running < 1:\n        raise StopIteration\nexcept StopIteration:\n    break",
    },
    "a group that is updated": {
        "epoch_end": "for group in optimizer.param_groups:\n    group.update(lr=0.01 * running)",
    },
    "a schedule that is made": {
        "epoch_end": "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=running)\nschedule.step()",
    },
    "weights in place": {"epoch_end": "with torch.no_grad():\n    model.layer.weight.mul_(running)"},
    "weights that are drawn again": {"epoch_end": "if running > 3:\n    nn.init.zeros_(model.layer.bias)"},
    "a seed": {"epoch_end": "if running > 3:\n    torch.manual_seed(1)"},
    "a file that is kept": {
        "imports": "import shutil",
        "before": "best = 1e9",
        "epoch_end": "if running < best:\n    best = running\n    shutil.copyfile('last.pt', 'best.pt')",
    },
    "a comprehension over the epochs": {
        "before": "history = []",
        "epoch_end": "history.append(running)\n[adjust(optimizer, old) for old in history]",
    },
    "a function that saves the best": {
        "before": "best = 1e9",
        "epoch_end": "if running < best:\n    best = running\n    keep(model)",
    },
}


def measured(**slots: str) -> str:
    """A script that adds its losses up."""
    definitions = slots.pop("definitions", "") + STOPPER + RATES
    slots = {"epoch": "running = 0.0", "batch_end": "running += loss.item()", **slots}
    return script(definitions=definitions, **slots)


@pytest.mark.parametrize("slots", STEERED.values(), ids=STEERED)
def test_what_steers_is_averaged(slots: dict[str, str]) -> None:
    text = measured(**slots)
    assert f"running += {AVERAGED}" in added(text)
    assert not {"COLL-RANKFLOW", "METRIC-TRAIN"} & set(findings(text))


@pytest.mark.parametrize(
    "slots",
    [
        {"before": "history = []", "epoch_end": "history.append(running)\nif len(history) > 2:\n    break"},
        {"before": "stopper = Stopper()", "epoch_end": "stopper(epoch)\nif stopper.stop:\n    break\nprint(running)"},
        {"before": "best = 1e9", "epoch_end": "if running < best:\n    best = running\n    print('best', best)"},
        {"epoch_end": "print(describe(running))"},
        {"before": "history = []", "epoch_end": "history.append(running)\nprint(max(history))"},
        {"before": "stopper = Stopper()", "epoch_end": "stopper.note(running)\nprint(stopper.last)"},
        {"epoch_end": "adjust(optimizer, epoch)\nprint(running)"},
        {"epoch_end": "said = [adjust(optimizer, i) or running for i in range(3)]\nprint(said)"},
        {
            "imports": "from tqdm import tqdm",
            "epoch": "running = 0.0\nbar = tqdm(loader)",
            "loop": "for x, y in bar:",
            "batch_end": "running += loss.item()\nbar.set_description(str(running))",
        },
        {"epoch_end": "if running is not None and epoch > 0:\n    break"},
        {"imports": "import logging", "epoch_end": "logging.info('%s', running)\nif logging.root.level:\n    break"},
        {"epoch_end": "assert running == running\nif running != running:\n    raise ValueError(running)"},
        {"epoch_end": "model.note = running\nprint(model.note)"},
        {"before": "kept = {'a': 0.0, 'b': 1}", "epoch_end": "print(kept, running)\nif kept['b'] < 0:\n    break"},
    ],
)
def test_what_steers_nothing_stays(slots: dict[str, str]) -> None:
    text = measured(**slots)
    assert "accelerator.reduce(" not in converted(text)
    assert "COLL-RANKFLOW" not in findings(text)


def of_run(result: str, used: str, before: str = "") -> str:
    """A script that goes on in each epoch with what a function returns that adds its losses up."""
    empty = dict.fromkeys(("move", "forward", "backward", "step", "epoch", "batch_end"), "")
    definitions, call = RUN.replace("{result}", result.format()), "run(model, loader, optimizer, device)"
    return measured(definitions=definitions, loop="pass", **empty, before=before, epoch_end=used.format(call))


@pytest.mark.parametrize(
    ("result", "used"),
    [
        ("total / len(loader)", "if {} > 3:\n    break"),
        ("total, 1", "mean, _ = {}\nif mean > 3:\n    break"),
        ("{{'loss': total}}", "stats = {}\nif stats['loss'] > 3:\n    break"),
        ("total", "history.append({})\nif history[-1] > 3:\n    break"),
        ("total", "stopper({})\nif stopper.stop:\n    break"),
        ("total", "adjust(optimizer, {})"),
    ],
)
def test_what_functions_return(result: str, used: str) -> None:
    before = "history = []\nstopper = Stopper()"
    assert f"total += {AVERAGED}" in added(of_run(result, used, before))
    assert "accelerator.reduce(" not in converted(of_run(result, "print({})", before))


METER = """
class Kept:
    def __init__(self):
        self.losses = []


class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, number=1):
        self.sum += value * number
        self.count += number

    @property
    def mean(self):
        return self.sum / self.count
"""


@pytest.mark.parametrize(
    ("epoch", "before", "after", "mean"),
    [
        ("losses = []", "losses.append(loss.item())", f"losses.append({AVERAGED})", "sum(losses) / len(losses)"),
        ("losses = []", "losses += [loss.item()]", f"losses += [{AVERAGED}]", "losses[-1]"),
        ("meter = Meter()", "meter.update(loss.item())", f"meter.update({AVERAGED})", "meter.mean"),
        ("meter = Meter()", "meter.update(value=float(loss))", "", "meter.mean"),
        ("sums = {'loss': 0.0}", "sums['loss'] += loss.item()", f"sums['loss'] += {AVERAGED}", "sums['loss']"),
        (
            "kept = {'loss': []}",
            "kept['loss'].append(loss.item())",
            f"kept['loss'].append({AVERAGED})",
            "kept['loss'][-1]",
        ),
        ("meters = {'loss': Meter()}", "meters['loss'].update(loss.item())", "", "meters['loss'].mean"),
        ("kept = {}", "kept['loss'] = loss.item()", f"kept['loss'] = {AVERAGED}", "kept['loss']"),
        ("kept = {}", "kept.setdefault(epoch, []).append(loss.item())", "", "kept[epoch][-1]"),
        ("kept = Kept()", "kept.losses.append(loss.item())", f"kept.losses.append({AVERAGED})", "kept.losses[-1]"),
        ("last = 0.0", "last = loss.item()", f"last = {AVERAGED}", "last"),
        ("ema = 0.0", "ema = 0.9 * ema + 0.1 * loss.item()", f"ema = 0.9 * ema + 0.1 * {AVERAGED}", "ema"),
    ],
)
def test_other_ways_to_keep_what_is_measured(epoch: str, before: str, after: str, mean: str) -> None:
    slots: dict[str, Any] = {"definitions": METER, "optimizer": PLATEAU, "epoch": epoch, "batch_end": before}
    text = script(**slots, epoch_end=f"plateau.step({mean})")
    after = after or before.replace("loss.item()", AVERAGED).replace(
        "float(loss)", "float(accelerator.batch_mean(loss.detach()))"
    )
    assert after in " ".join(added(text)).replace("( ", "(").replace(" )", ")").replace("= (", "= ")
    assert "COLL-RANKFLOW" not in findings(text)
    assert "accelerator.reduce(" not in converted(script(**slots, epoch_end=f"print({mean})"))


@pytest.mark.parametrize(
    ("epoch", "batch_end", "mean"),
    [
        ("meter = Meter()", "meter.update(loss.item(), len(str(loss)))", "meter.mean"),
        ("losses = []", "losses.append(loss)", "sum(losses)"),
        ("losses = []", "if loss.item() < 3:\n    losses.append(loss.item())", "sum(losses)"),
        ("losses = []", "losses.append(loss.item())\nlosses.append(x.max().item())", "max(losses)"),
    ],
)
def test_what_cannot_be_averaged_is_reported(epoch: str, batch_end: str, mean: str) -> None:
    slots: dict[str, Any] = {"definitions": METER, "optimizer": PLATEAU, "epoch": epoch, "batch_end": batch_end}
    text = script(**slots, epoch_end=f"plateau.step({mean})")
    assert "COLL-RANKFLOW" in findings(text) and "accelerator.reduce(" not in converted(text)


@pytest.mark.parametrize(
    ("batch_end", "after"),
    [
        (
            "meter.update(loss.item(), x.size(0))",
            f"meter.update({AVERAGED}, accelerator.gather_for_metrics(torch.tensor(x.size(0))).sum().item())",
        ),
        (
            "meter.update(loss.item(), number=len(y))",
            f"meter.update({AVERAGED}, number=len(accelerator.gather_for_metrics(y)))",
        ),
        (
            "n = x.shape[0]\nother.update(1, n)\nmeter.update(loss.item(), n)",
            f"meter.update({AVERAGED}, accelerator.gather_for_metrics(torch.tensor(n)).sum().item())",
        ),
    ],
)
def test_a_meter_that_counts_samples_counts_those_of_all_processes(batch_end: str, after: str) -> None:
    slots: dict[str, Any] = {"definitions": METER, "optimizer": PLATEAU, "batch_end": batch_end}
    epoch = "meter, other = Meter(), Meter()"
    text = script(**slots, epoch=epoch, epoch_end="plateau.step(meter.mean)")
    assert "".join(after.split()) in "".join("".join(added(text)).split()).replace(",)", ")")
    assert "COLL-RANKFLOW" not in findings(text)
    other = converted(script(**slots, epoch=epoch, epoch_end="print(meter.mean)"))
    assert "gather_for_metrics" not in other and "reduce(" not in other
    assert "COLL-RANKFLOW" in findings(text, target="accelerate")


def test_what_the_next_epoch_reads_before_the_loop() -> None:
    slots = {
        "before": "kept = []",
        "epoch": "if kept and kept[-1] < 1:\n    break",
        "batch_end": "kept.append(loss.item())",
    }
    assert f"kept.append({AVERAGED})" in added(script(**slots))
    fresh = {**slots, "epoch": "kept = []\nif kept and kept[-1] < 1:\n    break"}
    assert "accelerator.reduce(" not in converted(script(**fresh))


def test_the_length_of_a_list_that_every_batch_fills_is_the_same_everywhere() -> None:
    slots = {"before": "seen = []", "batch_end": "seen.append(loss.item())\nif len(seen) > 3:\n    break"}
    assert "COLL-RANKFLOW" not in findings(script(**slots))
    assert "COLL-RANKFLOW" in findings(script(**{**slots, "batch_end": "if len(x) < 9:\n    break"}))


def test_options_and_modules_are_not_what_is_put_into_them() -> None:
    setup = "import argparse\nargs = argparse.Namespace(last=0.0, epochs=2)"
    slots = {"setup": setup, "batch_end": "args.last = loss.item()", "epoch_end": "if args.epochs < 2:\n    break"}
    assert "COLL-RANKFLOW" not in findings(script(**slots))


@pytest.mark.parametrize(
    ("put", "asked", "made"),
    [
        ("args.last = loss.item()", "args.last < 0.5", f"args.last = {AVERAGED}"),
        ("settings.last = loss.item()", "settings.last < 0.5", f"settings.last = {AVERAGED}"),
        ("settings.all.append(loss.item())", "settings.all[-1] < 0.5", f"settings.all.append({AVERAGED})"),
        ("os.environ['L'] = str(loss.item())", "float(os.environ['L']) < 0.5", ""),
        ("os.environ['L'] = str(loss.item())", "float(os.environ.get('L')) < 0.5", ""),
    ],
)
def test_what_is_put_into_options_and_modules_decides(put: str, asked: str, made: str) -> None:
    setup = "import argparse\nimport os\nimport settings\nargs = argparse.ArgumentParser().parse_args()"
    slots = {"setup": setup, "batch_end": put, "epoch_end": f"if {asked}:\n    break"}
    assert (made in added(script(**slots))) if made else ("COLL-RANKFLOW" in findings(script(**slots)))
    slots["epoch_end"] = "if args.epochs < 2 or os.environ['K'] or settings.other:\n    break"
    assert "COLL-RANKFLOW" not in findings(script(**slots))
    assert put in converted(script(**slots))


# ---- the clock, and other losses


@pytest.mark.parametrize(
    "slots",
    [
        {"batch_end": "if time.time() - begun > 100:\n    break"},
        {"batch_end": "spent = time.perf_counter() - begun\nif spent > 100:\n    break"},
        {"epoch_end": "if time.monotonic() > begun + 100:\n    break"},
        {"epochs": "while time.time() - begun < 100:"},
        {"batch_end": "if over(begun):\n    break"},
        {"batch_end": "if datetime.datetime.now().hour > 8:\n    break"},
    ],
)
def test_a_loop_that_is_left_by_the_clock_is_reported(slots: dict[str, str]) -> None:
    imports = "import datetime\nimport time"
    over = "def over(begun):\n    return time.time() - begun > 100"
    text = script(imports=imports, definitions=over, before="begun = time.time()", **slots)
    assert findings(text) == ["COLL-RANKFLOW"]


FITS = f"def fit():\n{TRAINS}\n\ndef more():\n{TRAINS}"


@pytest.mark.parametrize("test", ["time.time() > begun + 9", "os.path.exists('STOP')"])
def test_a_loop_around_calls_of_what_trains_is_too(test: str) -> None:
    slots = {"imports": "import os\nimport time", "definitions": FITS, "before": "begun = time.time()", **NO_LOOP}
    left = f"for epoch in range(2):\n    fit()\n    more()\n    if {test}:\n        break"
    assert findings(script(**slots, after=left)) == ["COLL-RANKFLOW"]
    other = f"while {test}:\n    time.sleep(1)\nfor epoch in range(2):\n    fit()\n    more()"
    assert findings(script(**slots, after=other)) == []


@pytest.mark.parametrize(
    "slots",
    [
        {"batch_end": "if time.time() - begun > 100:\n    begun = time.time()"},
        {"batch_end": "for row in range(3):\n    if time.time() - begun > 100:\n        break"},
        {"epoch_end": "if begun is None:\n    break"},
        {"after": "while time.time() - begun < 0:\n    time.sleep(1)"},
    ],
)
def test_what_else_goes_by_the_clock_is_not(slots: dict[str, str]) -> None:
    assert findings(script(imports="import time", before="begun = time.time()", **slots)) == []


@pytest.mark.parametrize(
    "slots",
    [
        {"epoch_end": 'if os.path.exists("STOP"):\n    break'},
        {"epoch_end": 'if os.path.isfile(os.path.join(out, "STOP")):\n    os.remove(out)\n    break'},
        {"batch_end": 'if Path("STOP").exists():\n    break'},
        {"epochs": 'while not os.path.exists("STOP"):'},
        {"epoch_end": "if stopped():\n    break"},
    ],
)
def test_a_loop_that_is_left_when_a_file_comes_is_reported(slots: dict[str, str]) -> None:
    imports = "import os\nfrom pathlib import Path"
    stopped = 'def stopped():\n    return os.path.exists("STOP")'
    text = script(imports=imports, definitions=stopped, before='out = "runs"', **slots)
    assert findings(text) == ["COLL-RANKFLOW"]


@pytest.mark.parametrize(
    "slots",
    [
        {"epoch_end": 'if os.path.exists("best.txt"):\n    best = 1'},
        {"epoch_end": 'if os.path.exists(f"{epoch}.txt"):\n    continue'},  # another file in each iteration
        {"epoch_end": 'path = f"{epoch}.txt"\nif not os.path.exists(path):\n    break'},
        {"epoch_end": "for name in names:\n    if os.path.exists(name):\n        break"},
        {"epoch_end": 'for name in names:\n    if os.path.exists("a"):\n        break'},  # not a loop that trains
        {"before": 'if not os.path.exists("data"):\n    raise SystemExit'},
    ],
)
def test_what_else_looks_for_a_file_is_not(slots: dict[str, str]) -> None:
    text = script(imports="import os", setup='names = ["a", "b"]', **slots)
    assert "COLL-RANKFLOW" not in findings(text)


CHOSEN = "optimizer.zero_grad()\nout = model(x)\n{}"


@pytest.mark.parametrize(
    "steps",
    [
        "loss = F.cross_entropy(out, y) if out.mean() > 0 else out.pow(2).mean()",
        "weight = 1.0 if out.mean().item() > 0 else 0.5\nloss = weight * F.cross_entropy(out, y)",
        "weight = 1.0\nif out.mean() > 0:\n    weight = 0.5\nloss = weight * F.cross_entropy(out, y)",
        "loss = F.cross_entropy(out, y)\nif loss > 1:\n    loss = loss * 0.1",
    ],
)
def test_a_loss_that_is_chosen_by_what_a_process_measures(steps: str) -> None:
    assert "COLL-RANKFLOW" in findings(script(forward=CHOSEN.format(steps)))


@pytest.mark.parametrize(
    "steps",
    [
        "loss = F.cross_entropy(out, y) if epoch > 0 else out.pow(2).mean()",
        "if y.dim() > 1:\n    y = y.squeeze(1)\nloss = F.cross_entropy(out, y)",
        "if unread(y).ndim > 1:\n    y = y.squeeze(1)\nloss = F.cross_entropy(out, y)",
        "loss = F.cross_entropy(out, y)\nif out.mean() > best:\n    best = 1.0\n    shown = loss\n    out = y",
        "if x.shape[1] > 9:\n    x = x[:, :9]\nloss = F.cross_entropy(out, y)",
        "loss = F.cross_entropy(out, y)\nif loss.dim() > 0:\n    loss = loss.mean()",
        "loss = F.cross_entropy(out, y)\nloss = loss.mean() if loss.ndim > 0 else loss",
        "loss = F.cross_entropy(out, y)\nshown = 1 if loss > 1 else 0",
    ],
)
def test_a_loss_that_is_chosen_alike_everywhere(steps: str) -> None:
    assert "COLL-RANKFLOW" not in findings(script(forward=CHOSEN.format(steps)))


PARAMETERS = "with torch.no_grad():\n    {}\n    for p in model.parameters():\n        {}"


@pytest.mark.parametrize(
    ("measured", "changed", "codes"),
    [
        ("m = loss.item()", "p.mul_(1 - 0.01 * m)", ["COLL-RANKFLOW"]),
        ("m = loss.item()", "p.data *= 1 - 0.01 * m", ["COLL-RANKFLOW"]),
        ("m = 0.1", "p.mul_(1 - 0.01 * m)", []),
        ("m = loss.item()", "p.clamp_(-1, 1)", []),
        ("m = 0.1", "p -= m * p.grad", []),
        ("m = epoch", "p.data.add_(p.grad, alpha=-0.1 * m)", []),
    ],
)
def test_parameters_that_are_changed_by_what_a_process_measures(measured: str, changed: str, codes: list[str]) -> None:
    assert findings(script(batch_end=PARAMETERS.format(measured, changed))) == codes


STEP = """\
def step(x, y, model, optimizer, hits):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    hits += (model(x).argmax(1) == y).sum().item()
    return optimizer, model, hits"""


@pytest.mark.parametrize(("test", "stops"), [("model(torch.ones(8)).sum() > 1", False), ("hits > 9", True)])
def test_a_network_that_a_step_returns_is_no_measure(test: str, stops: bool) -> None:
    """What the step has counted is."""
    text = script(
        definitions=STEP,
        epoch="hits = 0",
        forward="optimizer, model, hits = step(x, y, model, optimizer, hits)",
        backward="",
        step="",
        epoch_end=f"if {test}:\n    break",
    )
    assert ("COLL-RANKFLOW" in findings(text)) is stops


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("self.show = transforms.Normalize([0.1], [2.0])", False),
        ("self.show = self.keep", True),
        ("self.show = transforms.Normalize([0.1], [2.0])\n        self.show = self.keep", True),
    ],
)
def test_what_a_data_set_only_has_draws_nothing(made: str, told: bool) -> None:
    definitions = f"""
class Rows(torch.utils.data.TensorDataset):
    def __init__(self, *rows):
        super().__init__(*rows)
        {made}

    def keep(self, x):
        self.tensors = (x, x)
"""
    text = script(
        from_imports="from torchvision import transforms",
        definitions=definitions,
        data="data = Rows(torch.arange(64.0), torch.arange(64.0))",
        epoch_end="print(data.show(loss.data).min())",
    )
    assert ("COLL-RANKFLOW" in findings(text)) is told


@pytest.mark.parametrize(
    ("use", "told"),
    [("kept['loss'].backward()", False), ("(F.cross_entropy(model(x), y) * kept['last'].item()).backward()", True)],
)
def test_what_a_backward_pass_runs_from_is_a_loss(use: str, told: bool) -> None:
    """A trainer keeps its losses in a dict, and another of its methods goes back from one."""
    trainer = f"""
class Trainer:
    def __init__(self, model, optimizer, loader):
        self.model, self.optimizer, self.loader, self.kept = model, optimizer, loader, {{}}

    def fit(self):
        for x, y in self.loader:
            out = self.model(x)
            self.kept['loss'] = F.cross_entropy(out, y)
            self.back(x, y)
            self.kept['last'] = self.kept['loss'].detach()

    def back(self, x, y):
        self.optimizer.zero_grad()
        {use.replace("kept", "self.kept").replace("model(", "self.model(")}
        self.optimizer.step()
"""
    slots = NO_LOOP
    text = script(definitions=trainer, **slots, epoch="", after="Trainer(model, optimizer, loader).fit()")
    assert ("COLL-RANKFLOW" in findings(text)) is told


@pytest.mark.parametrize(
    ("test", "then", "told"),
    [
        ("loss.item() < 0.1", "sys.exit(0)", True),
        ("loss.item() < 0.1", "exit()", True),
        ("epoch > 3", "sys.exit(0)", False),
        ("loss.item() < 0.1", "print('small')", False),
    ],
)
def test_one_process_that_ends_is_an_error(test: str, then: str, told: bool) -> None:
    text = script(imports="import sys", batch_end=f"if {test}:\n    {then}")
    assert ("COLL-RANKFLOW" in findings(text)) == told


HELPER = """
def mean_of(values):
    total = np.array(values).sum()
    return total / len(values)


def around(values):
    return mean_of(values)


class Judge:
    def __init__(self):
        self.kept = []

    def mean(self, values):
        self.kept = values
        return sum(values) / len(values)

    def last(self):
        return sum(self.kept)


judge = Judge()
"""
KEPT = {"epoch": "losses = []", "batch_end": "losses.append(loss.item())", "imports": "import numpy as np"}


@pytest.mark.parametrize(
    ("shown", "decided"),
    [
        ("mean_of(losses)", "mean_of([float(epoch)])"),
        ("around(losses)", "around([float(epoch)])"),
        ("around(losses)", "mean_of([float(epoch)])"),
        ("judge.mean(losses)", "Judge().mean([float(epoch)])"),
        ("mean_of(values=losses)", "around(values=[float(epoch)])"),
    ],
)
def test_what_a_function_is_given_comes_out_at_that_call(shown: str, decided: str) -> None:
    decides = f"print({shown})\nif {decided} < 1:\n    break"
    text = script(definitions=HELPER, epoch_end=decides, **KEPT)
    assert "COLL-RANKFLOW" not in findings(text)
    assert "accelerator.reduce" not in str(converted(text))


@pytest.mark.parametrize(
    "decided",
    [
        "mean_of(losses)",
        "around(losses)",
        "around(values=[mean_of(losses)])",
        "mean_of([around(losses), 1.0])",
        "judge.mean(losses)",
        "(lambda: mean_of(losses))()",
    ],
)
def test_what_comes_out_of_functions_decides(decided: str) -> None:
    decides = f"print(mean_of([1.0]), around([1.0]))\nif {decided} < 1:\n    break"
    text = script(definitions=HELPER, epoch_end=decides, **KEPT)
    assert AVERAGED in str(converted(text))


def test_what_an_object_keeps_comes_out_of_its_other_methods() -> None:
    decides = "judge.mean(losses)\nif judge.last() < 1:\n    break"
    assert AVERAGED in str(converted(script(definitions=HELPER, epoch_end=decides, **KEPT)))


# What a function returns: the sum first, and last what is the same everywhere.
SEVERAL = [
    ("total / len(loader), 1.0", "first, {0} = {1}"),
    ("total, total / 2, len(loader)", "first, _, {0} = {1}"),
    ("total, 1.0", "{0} = {1}[1]"),
    ("total, 1.0", "both = {1}\nfirst, {0} = both"),
    ("total, 1.0", "both = {1}\nfirst = both[0]\n{0} = both[1]"),
    ("{{'loss': total, 'rate': 1.0}}", "both = {1}\nprint(both)\n{0} = both['rate']"),
    ("{{'loss': total, 'rate': 1.0}}", "{0} = {1}['rate']"),
]
WHOLE = [
    ("total, 1.0", "{0} = max({1})"),
    ("total, 1.0", "both = {1}\n{0} = both[epoch]"),
    ("total, 1.0", "both = {1}\n{0} = both[-2]"),
    ("total, 1.0", "{0}, *_ = {1}"),
    ("total, 1.0", "kept = [{1}]\n{0} = kept[-1][0]"),
    ("total, 1.0", "for {0} in {1}:\n    pass"),
    ("{{'loss': total, 'rate': 1.0}}", "{0} = {1}.get('loss')"),
    ("{{'loss': total, **{{}}}}", "{0} = {1}['loss']"),
]


def of_several(result: str, taken: str) -> str:
    return of_run(result, f"{taken.format('value', '{}')}\nif value > 3:\n    break")


@pytest.mark.parametrize(("result", "taken"), SEVERAL)
def test_of_several_things_that_are_returned_one_decides(result: str, taken: str) -> None:
    assert "accelerator.reduce(" not in converted(of_several(result, taken))
    assert "COLL-RANKFLOW" not in findings(of_several(result, taken))


@pytest.mark.parametrize(("result", "taken"), WHOLE)
def test_several_things_that_are_used_together_decide(result: str, taken: str) -> None:
    assert f"total += {AVERAGED}" in added(of_several(result, taken))


EVALUATES = """\
def evaluate(model):
    right = 0
    with torch.no_grad():
        for x, y in held_out:
            right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
    return right
"""


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ({"batch_end": "if time.time() - begun > 100:\n    evaluate(model)"}, True),
        ({"epoch_end": "if time.time() - begun > 100:\n    evaluate(model)"}, True),
        ({"batch_end": "if loss.item() < 0.5:\n    evaluate(model)"}, True),
        ({"batch_end": "if loss.item() < 0.5:\n    pass\nelse:\n    print(evaluate(model))"}, True),
        ({"batch_end": "if time.time() - begun > 100:\n    print(epoch)"}, False),
        ({"batch_end": "if epoch > 0:\n    evaluate(model)"}, False),
        ({"epoch_end": "if evaluate(model) > 60:\n    print(evaluate(model))"}, False),
        ({"batch_end": "if loss.item() < 0.5:\n    print(epoch)"}, False),
    ],
)
def test_an_evaluation_that_only_some_processes_come_to(slots: dict[str, str], told: bool) -> None:
    loaders = {"loader": "loader = DataLoader(data, batch_size=16)\nheld_out = DataLoader(data, batch_size=8)"}
    text = script(imports="import time", definitions=EVALUATES, before="begun = time.time()", **loaders, **slots)
    assert ("COLL-RANKFLOW" in findings(text)) is told


def test_a_running_loss_that_an_evaluation_depends_on_is_that_of_all() -> None:
    loaders = {"loader": "loader = DataLoader(data, batch_size=16)\nheld_out = DataLoader(data, batch_size=8)"}
    slots = {"epoch": "total = 0.0", "batch_end": "total += loss.item()", "definitions": EVALUATES, **loaders}
    text = converted(script(**slots, epoch_end="if total < 9:\n    evaluate(model)"))
    assert "total += accelerator.batch_mean(loss.detach()).item()" in text
    assert "accelerator.reduce" not in converted(script(**slots, epoch_end="if total < 9:\n    print(epoch)"))


@pytest.mark.parametrize(
    ("loop", "test", "told"),
    [
        ("for i in range(len(outs)):", "i > 0", False),
        ("for i, _ in enumerate(outs):", "i > 0", False),
        ("for i in range(len(outs)):", "i > 0 and i < 2", False),
        ("for i in range(len(y)):", "i > 0", False),
        ("for i in range(len(outs)):", "y[i] > 0", True),
        ("for i in range(len(outs)):", "i > len(y) // 4", True),
        ("for i in range(int(y.sum()), 99):", "i > 0", True),
        ("for i in y.tolist():", "i > 0", True),
    ],
)
def test_the_number_of_an_iteration_is_the_same_everywhere(loop: str, test: str, told: bool) -> None:
    """Of loops inside of an iteration, over what may be as many things or not."""
    forward = (
        "optimizer.zero_grad()\nouts = [model(x), model(x * 2)]\n"
        f"loss = F.cross_entropy(outs[0], y)\n{loop}\n    if {test}:\n        loss = loss + F.cross_entropy(outs[1], y)"
    )
    assert ("COLL-RANKFLOW" in findings(script(forward=forward))) is told
