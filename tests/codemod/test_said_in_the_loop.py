"""What a training loop prints of its own batches is one process's share: a note says so."""

from __future__ import annotations

import pytest
from scripts import added, convert, findings, script

LOGGED = {"imports": "import logging", "setup": "log = logging.getLogger('run')"}
BATCHES = {"epoch": "batches = iter(loader)", "loop": "while (batch := next(batches, None)) is not None:"}


@pytest.mark.parametrize(
    "slots",
    [
        {"batch_end": "print(loss.item())"},
        {
            "loop": "for i, (x, y) in enumerate(loader):",
            "batch_end": "if i % 2 == 0:\n    print('loss', i, loss.item())",
        },
        {"epoch": "total = 0.0", "batch_end": "total += loss.item()\nprint(total)\ntotal = 0.0"},
        {"batch_end": "print(f'{loss.item():.4f}')"},
        {
            "from_imports": "from tqdm import tqdm",
            "loop": "bar = tqdm(loader)\nfor x, y in bar:",
            "batch_end": "bar.set_postfix(loss=loss.item())",
        },
        {
            "from_imports": "from tqdm.auto import tqdm",
            "epoch": "bar = tqdm(total=4)",
            "batch_end": "bar.update()\nbar.set_description(f'{epoch} {loss:.2f}')",
        },
    ],
)
def test_prints_in_the_loop(slots: dict[str, str]) -> None:
    assert findings(script(**slots)) == ["METRIC-TRAIN"]


@pytest.mark.parametrize(
    "slots",
    [
        {"loop": "for i, (x, y) in enumerate(loader):", "batch_end": "print(i, len(loader))"},
        {"batch_end": "print(epoch, len(x), x.size(0), y.shape)"},
        {"batch_end": "print(optimizer.param_groups[0]['lr'])"},
        {
            "from_imports": "from tqdm import tqdm",
            "loop": "bar = tqdm(loader)\nfor x, y in bar:",
            "batch_end": "bar.set_postfix(epoch=epoch, lr=optimizer.param_groups[0]['lr'])",
        },
        {"from_imports": "from other import bar", "batch_end": "bar.set_postfix(loss=loss.item())"},
    ],
)
def test_prints_of_what_is_the_same_everywhere(slots: dict[str, str]) -> None:
    assert findings(script(**slots)) == []


def test_what_shows_numbers_measures_none() -> None:
    """Neither the bar nor the logger is told of itself, though both are used again after the loop."""
    bar = {"from_imports": "from tqdm import tqdm", "epoch": "bar = tqdm(total=4)"}
    end = "bar.set_postfix(loss=loss.item())\nlog.info('loss %f', loss.item())"
    plan = convert(script(**LOGGED, **bar, batch_end=end, epoch_end="bar.close()\nlog.info('done')")).plan
    assert plan is not None
    (said,) = [f.message for f in plan.findings if f.code == "METRIC-TRAIN"]
    assert said.startswith("`loss` covers only")


def test_what_a_function_makes_of_a_batch_is_named_by_its_call() -> None:
    text = script(
        definitions="def share(x, y):\n    return (x.sum() / y.sum()).item()\n", batch_end="print(share(x, y))"
    )
    plan = convert(text).plan
    assert plan is not None
    assert [f.message.partition(" ")[0] for f in plan.findings if f.code == "METRIC-TRAIN"] == ["`share(x,"]


def test_what_is_logged_in_the_loop() -> None:
    assert "METRIC-TRAIN" in findings(script(**LOGGED, batch_end="log.info('loss %f', loss.item())"))
    assert "METRIC-TRAIN" not in findings(script(**LOGGED, batch_end="log.info('epoch %d', epoch)"))


def test_a_while_loop_is_looked_at_like_any_other() -> None:
    slots = {**BATCHES, "move": "x, y = batch\nx, y = x.to(device), y.to(device)"}
    slots["epoch"] += "\ntotal = 0.0"
    slots["batch_end"] = "total += loss.item()"
    assert "METRIC-TRAIN" in findings(script(**slots, epoch_end="print(total)"))
    stop = "if total < 1:\n    break"
    assert "COLL-RANKFLOW" in findings(script(**slots, epoch_end=stop))
    slots["batch_end"] += "\nif loss.item() > 9:\n    break"
    assert "COLL-RANKFLOW" in findings(script(**slots))


@pytest.mark.parametrize(
    ("context", "bound"),
    [
        ("torch.no_grad()", True),
        ("open('names.txt') as f", True),
        ("torch.no_grad(), open('names.txt')", True),
        ("suppress(ValueError)", False),  # what it stands around may not have run to the end
        ("torch.no_grad(), suppress(ValueError)", False),
    ],
)
def test_what_a_later_loop_binds_in_a_with_statement_is_its_own(context: str, bound: bool) -> None:
    rated = f"for a, b in held_out:\n    with {context}:\n        loss = rate(model, a, b)\n    print(loss)"
    slots = {"from_imports": "from contextlib import suppress\nfrom elsewhere import rate", "epoch_end": rated}
    assert ("METRIC-TRAIN" not in findings(script(**slots, before="held_out = [data[:4]]"))) is bound


@pytest.mark.parametrize(
    ("body", "anew"),
    [
        ("{}", True),
        ("with torch.no_grad():\n    {}", True),
        ("if len(a) > 3:\n    {}", False),
        ("if len(a) > 3:\n    break\n{}", False),
    ],
)
def test_what_an_evaluation_has_measured_under_the_same_name(body: str, anew: bool) -> None:
    """There is something to evaluate on: what the training loop left in the variable is gone."""
    measured = "loss = F.cross_entropy(model(a), b)"
    inside = body.format(measured).replace("\n", "\n    ")
    slots = {
        "before": "held_out = DataLoader(data, batch_size=16)\nbest = 9.0",
        "epoch_end": f"for a, b in held_out:\n    {inside}\nif loss.item() < best:\n    break",
    }
    assert ("COLL-RANKFLOW" not in findings(script(**slots))) is anew


def test_what_is_read_before_the_evaluation_is_that_of_the_training() -> None:
    evaluate = "for a, b in held_out:\n    loss = F.cross_entropy(model(a), b)"
    slots = {"before": "held_out = DataLoader(data, batch_size=16)"}
    assert "COLL-RANKFLOW" in findings(script(**slots, epoch_end=f"if loss.item() < 1:\n    break\n{evaluate}"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("writer.add_scalar('loss', loss.item(), epoch)", True),
        ("writer.add_scalars('losses', {'all': loss}, epoch)", True),
        ("if epoch % 2 == 0:\n    writer.add_histogram('out', model(x), epoch)", True),
        ("wandb.log({'loss': loss.item()})", True),
        ("writer.add_scalar('rate', optimizer.param_groups[0]['lr'], epoch)", False),
        ("writer.add_scalar('rows', len(x), epoch)", False),
        ("wandb.log({'epoch': epoch})", False),
    ],
)
def test_what_the_loop_logs(line: str, told: bool) -> None:
    """A tracker on the main process is shown the numbers of that process."""
    slots = {
        "imports": "import wandb",
        "from_imports": "from torch.utils.tensorboard import SummaryWriter",
        "before": "writer = SummaryWriter()\nwandb.init()",
    }
    assert ("METRIC-TRAIN" in findings(script(**slots, batch_end=line))) is told


@pytest.mark.parametrize(
    ("drawn", "told"),
    [
        ("u, v = next(iter(test_loader))", []),  # every process has it whole
        ("u, v = x, y", ["METRIC-TRAIN"]),
    ],
)
def test_a_batch_that_every_process_has_is_no_share(drawn: str, told: list[str]) -> None:
    loaders = "loader = DataLoader(data, batch_size=16, shuffle=True)\ntest_loader = DataLoader(data, batch_size=32)"
    look = f"{drawn}\nwith torch.no_grad():\n    print(F.cross_entropy(model(u.to(device)), v.to(device)).item())"
    found = findings(script(loader=loaders, batch_end=look))
    assert [code for code in found if code == "METRIC-TRAIN"] == told


RETURNING = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=16, shuffle=True)


def train():
    steps, losses = [], []
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.append(step)
        losses.append(loss.item())
    return {returned}


{used}
"""


@pytest.mark.parametrize(
    ("returned", "used", "told"),
    [
        ("losses", "losses = train()\nprint(sum(losses) / len(losses))", True),
        ("losses", "print(max(train()))", True),
        ("steps, losses", "steps, losses = train()\nprint(losses)", True),
        ("losses, min(losses)", "found = train()\nprint(found)", True),
        ("steps, losses", "steps, losses = train()\nprint(steps)", False),
        ("losses", "train()", False),
        ("losses", "losses = train()\nlosses = [0.0]\nprint(losses)", False),
    ],
)
def test_what_a_function_that_trains_returns_and_its_caller_prints(returned: str, used: str, told: bool) -> None:
    assert findings(RETURNING.format(returned=returned, used=used)) == ["METRIC-TRAIN"] * told


TRAIN = """\
def train(model, device, loader, optimizer):
    losses = []
    last = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        last = loss.item()
    return {result}"""


@pytest.mark.parametrize(
    ("result", "call", "told"),
    [
        ("losses", "print(sum(train(model, device, loader, optimizer)))", True),
        ("sum(losses) / len(losses)", "mean = train(model, device, loader, optimizer)\nprint(mean)", True),
        ('{"loss": last}', 'kept = train(model, device, loader, optimizer)\nprint(kept["loss"])', True),
        ("device, losses", "number, kept = train(model, device, loader, optimizer)\nhistory.append(kept)", True),
        ("device, last", "kept = train(model, device, loader, optimizer)\nprint(kept[1])", True),
        ("device, losses", "both = train(model, device, loader, optimizer)\nother, kept = both\nprint(kept)", True),
        ("device, losses", "both = train(model, device, loader, optimizer)\nother, kept = both\nprint(other)", False),
        ("losses", "train(model, device, loader, optimizer)", False),
        ("losses", "kept = train(model, device, loader, optimizer)", False),
        ("len(loader)", "print(train(model, device, loader, optimizer))", False),
        ("device, losses", "other, kept = train(model, device, loader, optimizer)\nprint(other)", False),
        ("device, last", "kept = train(model, device, loader, optimizer)\nprint(kept[0])", False),
    ],
)
def test_what_a_function_returns_is_said_by_its_callers(result: str, call: str, told: bool) -> None:
    text = script(
        main=True,
        definitions=TRAIN.format(result=result),
        before="history = []",
        **dict.fromkeys(("loop", "move", "forward", "backward", "step"), ""),
        epoch=call,
    )
    assert findings(text) == (["METRIC-TRAIN"] if told else [])


@pytest.mark.parametrize(
    ("entry", "shown", "told"),
    [
        ("result['loss']", "print(result['loss'])", True),
        ("result['loss']", "show(epoch, result)", True),
        ("result['loss']", "history.append(result)", True),
        ("result[0]", "print(result)", True),
        ("result['loss']", "print(result['rows'])", False),
        ("result['loss']", "result = {}\nprint(result)", False),
        ("result['loss']", "", False),
    ],
)
def test_what_a_loop_measures_and_an_entry_of_a_dict_keeps(entry: str, shown: str, told: bool) -> None:
    """`result` is made by an evaluation, and gets what the training has measured beside it."""
    slots = {
        "definitions": "def show(epoch, result):\n    print(epoch, result['loss'])",
        "from_imports": "from elsewhere import evaluate",
        "before": "history = []",
        "epoch": "result = evaluate(epoch)\nprint(result)\nlosses = []",
        "batch_end": "losses.append(loss.detach())",
        "epoch_end": f"{entry} = torch.stack(losses).mean().item()\n{shown}",
    }
    assert findings(script(**slots)) == ["METRIC-TRAIN"] * told


LOGGER = """
class Logger:
    def __init__(self):
        self.file = open("log.txt", "w")
        self.other = open("log.txt")

    def put(self, value):
        self.file.write(f"{value}")
"""
OPENED = {"before": "file = open('log.txt', 'w')"}


@pytest.mark.parametrize(
    "slots",
    [
        {"batch_end": "file.write(f'{loss.item()}')", **OPENED},
        {"batch_end": "with open('log.txt', 'a') as log:\n    log.write(str(loss.item()))"},
        {
            "imports": "import csv",
            "before": "rows = csv.writer(open('a.csv', 'w'))",
            "batch_end": "rows.writerow([loss])",
        },
        {"imports": "import numpy as np", "batch_end": "for k in range(len(x)):\n    np.save(f'{k}.npy', x[k])"},
        {"imports": "import json", "batch_end": "json.dump({'loss': loss.item()}, open('a.json', 'w'))"},
        {"before": "files = [open('a.csv', 'w')]", "batch_end": "files[0].write(str(loss.item()))"},
        {"before": "files = {}\nfiles['a'] = open('a.csv', 'w')", "batch_end": "files['a'].write(str(loss.item()))"},
        {
            "before": "files = {n: open(n, 'w') for n in 'ab'}",
            "batch_end": "for name, file in files.items():\n    file.write(str(loss.item()))",
        },
        {"definitions": LOGGER, "before": "log = Logger()", "batch_end": "log.put(loss.item())"},
        {"definitions": LOGGER, "before": "log = Logger()", "batch_end": "log.file.write(str(loss.item()))"},
        {"imports": "from pathlib import Path", "batch_end": "Path('a.txt').write_text(str(loss.item()))"},
    ],
)
def test_files_of_a_share(slots: dict[str, str]) -> None:
    plan = convert(script(**slots)).plan
    assert plan is not None and any("that writes it" in finding.message for finding in plan.findings)


@pytest.mark.parametrize(
    "slots",
    [
        {"batch_end": "file.write(f'{epoch} {len(x)}')", **OPENED},
        {"batch_end": "file.write(str(loss.item()))", "before": "import io\nfile = io.StringIO()"},
        {"batch_end": "torch.save(model.state_dict(), f'{loss.item():.2f}.pt')"},
        {"before": "file = open('log.txt')", "batch_end": "file.read(len(x))"},
        {"before": "files = [open('a.csv', 'w')]", "batch_end": "files[0].write(str(epoch))"},
        {"before": "import io\nfiles = {'a': io.StringIO()}", "batch_end": "files['a'].write(str(loss.item()))"},
        {"definitions": LOGGER, "before": "log = Logger()", "batch_end": "log.put(epoch)"},
        {"definitions": LOGGER, "before": "log = Logger()", "batch_end": "log.other.write(str(loss.item()))"},
        {"imports": "from pathlib import Path", "batch_end": "Path('a.txt').write_text(str(epoch))"},
    ],
)
def test_files_of_what_is_the_same_everywhere(slots: dict[str, str]) -> None:
    assert "METRIC-TRAIN" not in findings(script(**slots))


STEP = """
def one(model, x, y, optimizer, i):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    {}


def report(number, value):
    print(f"{{number}} {{value}}")
"""
CALLED = {"loop": "for i, (x, y) in enumerate(loader):", "backward": "", "step": ""}


@pytest.mark.parametrize(
    "line",
    ["print(i, loss.item())", "report(i, loss.item())", "with open('a', 'a') as log:\n        log.write(f'{loss}')"],
)
def test_a_function_that_the_loop_calls_prints_of_its_share(line: str) -> None:
    slots = {**CALLED, "definitions": STEP.format(line), "forward": "one(model, x, y, optimizer, i)"}
    assert "METRIC-TRAIN" in findings(script(**slots))


@pytest.mark.parametrize("line", ["print(i, len(x), x.shape)", "report(i, 0)", "return loss"])
def test_a_function_that_the_loop_calls_prints_what_is_the_same(line: str) -> None:
    slots = {**CALLED, "definitions": STEP.format(line), "forward": "one(model, x, y, optimizer, i)"}
    assert "METRIC-TRAIN" not in findings(script(**slots))


@pytest.mark.parametrize(
    ("batch_end", "codes"),
    [
        ("if loss.item() > 1:\n    print('high', epoch)", ["METRIC-TRAIN"]),
        ("high = loss.item() > 1\nif high == True:\n    print('high')", ["METRIC-TRAIN"]),
        ("if epoch > 1:\n    print('late', epoch)", []),
        ("if len(x) > 1:\n    print('rows')", []),
        ("if len(x[0]) > 1 and x[0].shape[0] > 2:\n    print('columns')", []),
        ("if loss.item() > 1:\n    epoch = 2", []),
    ],
)
def test_lines_that_a_share_decides_about(batch_end: str, codes: list[str]) -> None:
    assert findings(script(batch_end=batch_end)) == codes


def test_an_object_that_is_called() -> None:
    track = """
class Track:
    def __init__(self):
        self.values = []

    def __call__(self, value):
        self.values.append(value)

    def mean(self):
        return sum(self.values) / len(self.values)
"""
    slots = {"definitions": track, "before": "track = Track()", "epoch_end": "print(track.mean())"}
    assert findings(script(batch_end="track(loss.item())", **slots)) == ["METRIC-TRAIN"]
    assert findings(script(batch_end="track(epoch)", **slots)) == []
    slots["epoch_end"] = "if track.mean() < 1:\n    break"
    made = "".join(added(script(batch_end="track(loss.item())", **slots)))
    assert "batch_mean" in made and "METRIC-TRAIN" not in findings(script(batch_end="track(loss.item())", **slots))


LOG = {"before": "log = open('log.txt', 'w')", "after": "log.flush()\nlog.close()"}
PUT = {"epoch": "kept = []\nput = kept.append", "batch_end": "put(loss.item())"}
LEFT = {**PUT, "epoch_end": "if sum(kept) < 1:\n    break"}


@pytest.mark.parametrize(
    ("slots", "names"),
    [
        ({**LOG, "batch_end": "log.write(f'{loss.item()}')"}, ["`loss` covers"]),  # not the file
        ({**PUT, "epoch_end": "print(kept)"}, ["`kept`, `loss` cover"]),
        ({"batch_end": "message = f'{len(x)} of {loss.item()}'\nprint(message)"}, ["`loss` covers"]),  # not `x`
        (LEFT, []),  # which has the averages of all processes
        ({**LEFT, "batch_end": "put(loss.item())\nprint(loss.item())"}, ["`loss` covers"]),
    ],
)
def test_what_covers_one_share_is_named_and_nothing_else(slots: dict[str, str], names: list[str]) -> None:
    plan = convert(script(**slots)).plan
    told = [f.message for f in plan.findings if f.code == "METRIC-TRAIN"] if plan is not None else []
    assert [message.partition(" only")[0] for message in told] == names


@pytest.mark.parametrize(
    ("put", "codes"),
    [
        ("heapq.heappush(kept, loss.item())", ["METRIC-TRAIN"]),
        ("bisect.insort(kept, loss.item())", ["METRIC-TRAIN"]),
        ("heapq.heappush(kept, epoch)", []),
        ("bisect.bisect(kept, 3)", []),
    ],
)
def test_what_libraries_put_into_a_list(put: str, codes: list[str]) -> None:
    slots = {"imports": "import bisect\nimport heapq", "before": "kept = []", "after": "print(kept[0])"}
    assert findings(script(batch_end=put, **slots)) == codes


@pytest.mark.parametrize(("key", "codes"), [("label", ["METRIC-TRAIN"]), ("epoch", [])])
def test_entries_of_entries_by_what_samples_are(key: str, codes: list[str]) -> None:
    add = f"for label in y.tolist():\n    kept[{key}][0] += 1"
    text = script(before="kept = {k: [0, 0] for k in range(3)}", batch_end=add, after="print(kept)")
    assert findings(text) == codes


SHOW = "def show(value):\n    print('loss', value)"


@pytest.mark.parametrize(
    ("slots", "line", "told"),
    [
        ({"before": "kept = []\nto = {'loss': kept.append}"}, "to['loss'](loss.item())", True),
        ({"before": "kept = []\nadd = kept.append"}, "add(loss.item())", True),
        ({"definitions": SHOW, "before": "to = {'loss': show}"}, "to['loss'](loss.item())", True),
        ({"from_imports": "from recorder import record"}, "record(loss.item())", True),
        ({"from_imports": "from recorder import make", "before": "record = make()"}, "record(loss.item())", True),
        ({"from_imports": "from recorder import record"}, "record(epoch)", False),
        ({"from_imports": "from recorder import record"}, "record(optimizer.param_groups[0]['lr'])", False),
        ({"from_imports": "from recorder import change"}, "change(x)", False),  # which measures nothing
        ({"from_imports": "from math import sqrt"}, "sqrt(loss.item())", False),
    ],
)
def test_what_is_handed_to_what_is_not_known(slots: dict[str, str], line: str, told: bool) -> None:
    assert findings(script(**slots, batch_end=line)) == (["METRIC-TRAIN"] if told else [])


@pytest.mark.parametrize(
    ("end", "codes"),
    [
        ("print(sum(losses))", ["METRIC-TRAIN"]),
        ("if losses[-1] < 1:\n    break", ["COLL-RANKFLOW"]),
        ("print(len(loader))", []),
    ],
)
def test_what_a_function_keeps_of_the_batches_of_two_loaders(end: str, codes: list[str]) -> None:
    """Both come as one pair, which the function takes apart."""
    definitions = """\
def step(model, pair, losses):
    first, second = pair
    loss = F.cross_entropy(model(first[0]), first[1]) + F.cross_entropy(model(second[0]), second[1])
    losses.append(loss.item())
    return loss
"""
    text = script(
        definitions=definitions,
        loader="loader = DataLoader(data, batch_size=16, drop_last=True)\nother = DataLoader(data, 16, drop_last=True)",
        epoch="losses = []",
        loop="for pair in zip(loader, other):",
        move="",
        forward="optimizer.zero_grad()\nloss = step(model, pair, losses)",
        epoch_end=end,
    )
    assert [c for c in findings(text) if c in ("METRIC-TRAIN", "COLL-RANKFLOW")] == codes


def told_of(text: str) -> list[str]:
    plan = convert(text).plan
    assert plan is not None
    return [f.message.partition(" cover")[0] for f in plan.findings if f.code == "METRIC-TRAIN"]


ENTRIES = """\
optimizer.zero_grad()
out = model(x)
losses = {"a": F.cross_entropy(out, y), "b": out.pow(2).mean()}
loss = 0.0
for name, weight in {}:
    value = weight * losses[name]
    loss += value
    print(name, value.item())"""


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("WEIGHTS.items()", ["`value`"]),  # what the losses are called is the same everywhere
        ("zip(WEIGHTS, (1, 2))", ["`value`"]),
        ("zip(WEIGHTS, y.tolist())", ["`name`, `value`"]),
    ],
)
def test_what_losses_are_called_is_no_measure(weights: str, expected: list[str]) -> None:
    text = script(setup='WEIGHTS = {"a": 1.0, "b": 0.1}', forward=ENTRIES.replace("{}", weights))
    assert told_of(text) == expected


def test_nor_is_a_loop_that_is_left_by_one() -> None:
    loop = "for step in range(3):\n    if loss.item() > step:\n        break\nprint(step)"
    assert told_of(script(batch_end=loop)) == ["`step`"]


LOGGER = """\
class Logger:
    def __init__(self):
        self.writer = SummaryWriter()
        self.last = 0.0

    def scalar(self, name, value):
        {}"""


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("self.writer.add_scalar(name, value)", ["`value`"]),
        ("self.last = value", ["`logger`"]),
    ],
)
def test_what_shows_a_measure_is_none(method: str, expected: list[str]) -> None:
    text = script(
        from_imports="from torch.utils.tensorboard import SummaryWriter",
        definitions=LOGGER.replace("{}", method),
        before="logger = Logger()",
        batch_end="logger.scalar('loss', loss.item())",
        epoch_end="logger.scalar('epoch', epoch)\nprint(logger)",
    )
    assert told_of(text) == expected


@pytest.mark.parametrize(
    ("shown", "named"),
    [
        ("text = f'{loss.item():.3f} {y.sum()}'\nprint(text)", ["loss", "y"]),
        ("text = 'loss %.3f' % loss.item()\ntext += '!'\nprint(text)", ["loss"]),
        ("form = '{} {}'\ntext = form.format(epoch, loss.item())\nprint(text)", ["loss"]),
        ("part = f'{loss.item()}'\ntext = 'loss ' + part\nprint(text)", ["loss"]),
        ("text = str(epoch)\nvalue = loss.item()\nprint(text, value)", ["value"]),
        ("numbers = [loss.item()]\nprint(numbers)", ["numbers"]),
    ],
)
def test_of_a_text_the_numbers_in_it_are_named(shown: str, named: list[str]) -> None:
    for slots in (
        {"batch_end": shown},
        {"batch_end": shown.rpartition("\n")[0], "epoch_end": shown.rpartition("\n")[2]},
    ):
        (message,) = (f.message for f in convert(script(**slots)).plan.findings if f.code == "METRIC-TRAIN")
        assert message.partition(" cover")[0] == ", ".join(f"`{name}`" for name in named)


METER = """\
class Meter:
    def __init__(self):
        self.total = 0.0

    def update(self, value):
        self.total += value

    def reset(self):
        self.total = 0.0

    def show(self):
        print(self.total)
"""


@pytest.mark.parametrize(("end", "expected"), [("", []), ("meter.reset()", []), ("meter.show()", ["METRIC-TRAIN"])])
def test_a_meter_that_is_only_set_back_tells_nothing(end: str, expected: list[str]) -> None:
    text = script(definitions=METER, setup="meter = Meter()", batch_end="meter.update(loss.item())", epoch_end=end)
    assert findings(text) == expected


BOARD = """\
class Board:
    def __init__(self, folder):
        self.board, self.step, self.last = SummaryWriter(folder), 0, 0

    def show(self, name, value):
        {}

    def rest(self):
        self.board.add_scalar("last", self.last, self.step)
"""
SHOWS = "self.board.add_scalar(name, value, self.step)"


@pytest.mark.parametrize(
    ("made", "tells", "later", "told"),
    [
        ('known("log")', 'log.info("loss %f", loss.item())', 'log.info("an epoch")', "`loss` covers"),
        ('known("log")', 'log.add_scalar("loss", loss.item())', 'log.add_text("n", "2")', "`loss` covers"),
        ('known("log")', "log.info(loss.item())", "log.info(epoch)", "`log` covers"),  # it may keep what is no text
        ('known("log")', 'log.put("loss", loss.item())', 'log.show("loss")', "`log` covers"),
        (f'Board("a")#{SHOWS}', 'log.show("loss", loss.item())', 'log.show("n", epoch)', "`value` covers"),
        ('Board("a")#self.last = value', 'log.show("loss", loss.item())', "log.rest()", "`log` covers"),
    ],
)
def test_what_shows_numbers_is_no_number(made: str, tells: str, later: str, told: str) -> None:
    """Logs and writers that are not known go by the names of their methods."""
    made, _, body = made.partition("#")
    text = script(
        from_imports="from project import known\nfrom torch.utils.tensorboard import SummaryWriter",
        definitions=BOARD.format(body or "pass"),
        before=f"log = {made}",
        batch_end=tells,
        epoch_end=later,
    )
    plan = convert(text).plan
    messages = [f.message for f in plan.findings if f.code == "METRIC-TRAIN"] if plan is not None else []
    assert [message.startswith(told) for message in messages] == [True], messages


@pytest.mark.parametrize(
    ("tells", "way"),
    [
        ("print(loss.item())", "prints"),
        ("torch.save({'loss': loss.item()}, 'a.pt')", "writes"),
        ("show(loss.item())", "records"),
        ("plot(loss.item())", "uses"),
    ],
)
def test_what_is_done_with_what_the_last_iteration_left(tells: str, way: str) -> None:
    slots = {"from_imports": "from elsewhere import show", "definitions": "def plot(value):\n    return value * 2\n"}
    plan = convert(script(**slots, epoch_end=tells)).plan
    assert plan is not None
    messages = [f.message for f in plan.findings if f.code == "METRIC-TRAIN"]
    assert messages == [f"`loss` covers only the share of the process that {way} it"]
