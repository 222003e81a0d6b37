"""Decisions on values of the training loop: made on what all processes measured together."""

from __future__ import annotations

import ast

import pytest
from accelift_codemod.plan import Severity
from scripts import NO_LOOP, convert, converted, findings, lifted, script

PLATEAU = (
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
)
STEP = "scheduler.step(running / len(loader))"
ADD = "running += loss.item()"
TOTAL = "accelerator.gather_for_metrics(loss.detach())"
ADDED = "running += accelerator.batch_mean(loss.detach()).item()"
METER = """\
class Meter:
    def __init__(self):
        self.sum = self.count = 0.0

    def update(self, value):
        self.sum += value
        self.count += 1

    @property
    def average(self):
        return self.sum / self.count
"""


@pytest.mark.parametrize(
    ("forward", "before", "after"),
    [
        ("loss = F.cross_entropy(model(x), y)", ADD, ADDED),
        (
            "loss = F.cross_entropy(model(x), y)\nother = F.mse_loss(model(x), model(x).detach())",
            "running += loss.item() + 0.1 * other.item()",
            "running += (\n    "
            + "accelerator.batch_mean(loss.detach()).item()\n    "
            + "+ 0.1 * accelerator.batch_mean(other.detach()).item()\n)",
        ),
        (
            "loss = nn.CrossEntropyLoss()(model(x), y)",
            "running += loss.detach().item()",
            "running += accelerator.batch_mean(loss.detach().detach()).item()",
        ),
        (
            "out = model(x)\nloss = F.cross_entropy(out, y)",
            "running += (out.argmax(1) == y).sum().item()",
            "running += (\n    accelerator.gather_for_metrics((out.argmax(1) == y).sum().detach())\n"
            "    .sum()\n    .item()\n)",
        ),
    ],
)
def test_values_that_decide(forward: str, before: str, after: str) -> None:
    slots = {"optimizer": PLATEAU, "epoch": "running = 0.0", "forward": f"optimizer.zero_grad()\n{forward}"}
    text = script(batch_end=before, epoch_end=STEP, **slots)
    assert converted(text) == lifted(batch_end=after, epoch_end=STEP, **slots)
    assert findings(text) == []


def test_a_summed_loss_is_summed() -> None:
    forward = 'optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, reduction="sum")'
    slots = {"optimizer": PLATEAU, "epoch": "running = 0.0", "forward": forward, "epoch_end": STEP}
    assert converted(script(batch_end=ADD, **slots)) == lifted(
        backward='accelerator.backward(loss, reduction="sum")', batch_end=f"running += {TOTAL}.sum().item()", **slots
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("scheduler.step(running)", "scheduler.step(running)"),
        ("average = running / len(loader)\nscheduler.step(average)",) * 2,
        ("if running > best:\n    break\nbest = running",) * 2,
        ("if running / len(loader) < 0.1:\n    break",) * 2,
        (
            'if running < best:\n    best = running\n    torch.save(best, "m.pt")',
            'if running < best:\n    best = running\n    accelerator.save(best, "m.pt")',
        ),
    ],
)
def test_decisions(before: str, after: str) -> None:
    slots = {"optimizer": PLATEAU, "before": "best = 1e9", "epoch": "running = 0.0"}
    assert converted(script(batch_end=ADD, epoch_end=before, **slots)) == lifted(
        batch_end=ADDED, epoch_end=after, **slots
    )


@pytest.mark.parametrize(
    ("before", "after", "tells"),
    [
        ("print(running / len(loader))", "accelerator.print(running / len(loader))", "prints"),
        (*("scheduler.step(epoch)",) * 2, ""),  # nothing is told of what nobody reads
        (*("if epoch > 0:\n    break",) * 2, ""),
        (*("if running > 3:\n    best = running",) * 2, "keeps"),
        (*("history.append(running)",) * 2, "uses"),
    ],
)
def test_values_that_decide_nothing_stay_and_are_reported(before: str, after: str, tells: str) -> None:
    slots = {"optimizer": PLATEAU, "before": "best = 1e9\nhistory = []", "epoch": "running = 0.0", "batch_end": ADD}
    text = script(epoch_end=before, **slots)
    assert converted(text) == lifted(epoch_end=after, **slots)
    result = convert(text)
    assert result.plan is not None
    assert [str(f) for f in result.plan.findings] == [
        f"METRIC-TRAIN `running` covers only the share of the process that {tells} it; "
        "gather the values if the exact figure matters"
    ] * bool(tells)


EVALUATES = """\
model.eval()
correct = {start}
with torch.no_grad():
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        correct += (out.argmax(1) == y).sum().item()
print(correct)
"""


@pytest.mark.parametrize(("between", "said"), [("", []), ("print(correct)\n", ["METRIC-TRAIN"])])
def test_a_variable_that_is_bound_again_for_an_evaluation(between: str, said: list[str]) -> None:
    add = "correct += (model(x).argmax(1) == y).sum().item()"
    evaluates = EVALUATES.format(start="0")
    slots = {"epoch": "correct = 0", "batch_end": add, "epoch_end": between + evaluates}
    assert findings(script(**slots)) == said
    slots["epoch_end"] = between + EVALUATES.format(start="correct")
    assert findings(script(**slots)) == ["METRIC-TRAIN"]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("    show(i, running)", ["METRIC-TRAIN"]),  # a function that is not known may print it
        ("else:\n    print(running)", ["METRIC-TRAIN"]),
        ("    running = running + 0", []),
    ],
)
def test_a_sum_that_the_loop_itself_reads(last: str, said: list[str]) -> None:
    loop = "for i, (x, y) in enumerate(loader):\n    x, y = x.to(device), y.to(device)\n    optimizer.zero_grad()"
    loop += "\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    optimizer.step()"
    loop += "\n    running += loss.item()"
    text = script(imports="from elsewhere import show")
    start = text.index("for epoch")
    text = text[:start] + f"running = 0.0\n{loop}\n{last}\n"
    assert [f for f in findings(text) if f == "METRIC-TRAIN"] == said


@pytest.mark.parametrize("batch_end", ["n = 1", "steps += 1", "loss.item()", "running = 0.0"])
def test_what_measures_nothing(batch_end: str) -> None:
    slots = {"optimizer": PLATEAU, "before": "steps = 0", "batch_end": batch_end, "epoch_end": "scheduler.step(steps)"}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == []


def test_functions_that_return_what_decides() -> None:
    definition = """\
def train(model, device, loader, optimizer):
    running = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
    return running / len(loader)"""
    output = converted(
        script(
            main=True,
            optimizer=PLATEAU,
            definitions=definition,
            **dict.fromkeys(("loop", "move", "forward", "backward", "step"), ""),
            epoch="value = train(model, device, loader, optimizer)",
            epoch_end="scheduler.step(value)",
        )
    )
    assert f"        {ADDED}\n" in output
    assert "        value = train(model, accelerator, loader, optimizer)\n        scheduler.step(value)\n" in output


@pytest.mark.parametrize("add", ["running += {}", "running += {} / 2", "running += 0.1 * {}"])
def test_tensors_without_gradients_are_reduced_as_they_are(add: str) -> None:
    slots = {"optimizer": PLATEAU, "epoch": "running = torch.zeros(())", "epoch_end": STEP}
    before, after = add.format("loss.detach()"), add.format("accelerator.batch_mean(loss.detach())")
    assert converted(script(**slots, batch_end=before)) == lifted(**slots, batch_end=after)


# ---- what cannot be reduced is reported as an error


@pytest.mark.parametrize("add", ["running += loss.item() * len(str(loss))", "running += loss"])
def test_values_that_cannot_be_reduced(add: str) -> None:
    slots = {"optimizer": PLATEAU, "epoch": "running = 0.0", "batch_end": add, "epoch_end": STEP}
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == ["COLL-RANKFLOW"]
    result = convert(script(**slots))
    assert result.plan is not None and result.plan.findings[0].severity.value == "error"


@pytest.mark.parametrize(
    ("slots", "by"),
    [
        ({"epoch": "total = 0.0", "batch_end": "total = total + loss", "epoch_end": "if total < 1:\n    break"}, True),
        ({"batch_end": "if loss > 100:\n    break"}, True),
        ({"epoch_end": "if loss < 0.1:\n    break"}, True),
        (
            {
                "batch_end": "spread = max(model(x).tolist(), key=lambda row: row[0] * len(x))[0]",
                "epoch_end": "if spread < 0.1:\n    break",
            },
            False,
        ),
    ],
)
def test_means_are_to_be_averaged_by_what_weighs_shares(slots: dict[str, str], by: bool) -> None:
    plan = convert(script(**slots)).plan
    assert plan is not None
    remedies = [f.remedy for f in plan.findings if f.code == "COLL-RANKFLOW"]
    assert len(remedies) == 1
    assert ("accelerator.batch_mean" in remedies[0]) is by and ('reduce(..., "mean")' in remedies[0]) is not by


@pytest.mark.parametrize(
    "slot",
    [
        {"batch_end": "if torch.isnan(loss):\n    break"},
        {"batch_end": "if loss.item() > 100:\n    break"},
        {"batch_end": "if not torch.isfinite(loss):\n    continue\nn = 1"},
    ],
)
def test_leaving_the_loop_on_local_values(slot: dict[str, str]) -> None:
    assert converted(script(**slot)) == lifted(**slot)
    assert findings(script(**slot)) == ["COLL-RANKFLOW"]


@pytest.mark.parametrize(
    ("test", "other", "told"),
    [
        ("y[-1] == 0", "pass", True),
        ("loss > 9", "model.eval()", True),
        ("y[-1] == 0", "break", True),
        ("epoch > 9", "pass", False),
    ],
)
def test_training_in_the_other_branch_on_local_values(test: str, other: str, told: bool) -> None:
    """Whether processes train together is decided by both branches of a condition."""
    for first, second in ((other, "{}"), ("{}", other)):
        text = f"if {test}:\n    {first}\nelse:\n    {second}"
        before, after = (text.format(line) for line in ("loss.backward()", "accelerator.backward(loss)"))
        assert converted(script(backward=before)) == lifted(backward=after)
        assert findings(script(backward=before)) == (["COLL-RANKFLOW"] if told else [])


PIECES = """\
optimizer.zero_grad()
{header}
    loss = F.cross_entropy(model(part), target) / 2
    {backward}"""


@pytest.mark.parametrize(
    ("header", "differs"),
    [
        ("for part, target in zip(x.split(4), y.split(4)):", True),
        ("for at in range(0, len(x), 4):\n    part, target = x[at : at + 4], y[at : at + 4]", True),
        ("parts = x.chunk(2)\nfor k, part in enumerate(parts):\n    target = y.chunk(2)[k]", True),
        ("for k in range(2):\n    part, target = x[k::2], y[k::2]", False),
        ("for k in (0, 1):\n    part, target = x[k::2], y[k::2]", False),
    ],
)
def test_pieces_of_a_batch(header: str, differs: bool) -> None:
    """A process whose share has fewer pieces makes fewer backward passes than the others wait for."""
    before, after = (
        PIECES.format(header=header, backward=b) for b in ("loss.backward()", "accelerator.backward(loss)")
    )
    text = script(forward=before, backward="")
    assert converted(text) == lifted(forward=after, backward="")
    assert ("COLL-RANKFLOW" in findings(text)) is differs


@pytest.mark.parametrize(
    "slot",
    [
        {"batch_end": "if i > 3:\n    break"},
        {"batch_end": "if epoch and i == len(loader) - 1:\n    continue"},
        {"batch_end": "if loss.item() > 100:\n    n = 1"},
        {"epoch_end": "if epoch > 0:\n    break"},
    ],
)
def test_leaving_the_loop_on_what_all_processes_know(slot: dict[str, str]) -> None:
    loop = "for i, (x, y) in enumerate(loader):"
    assert converted(script(loop=loop, **slot)) == lifted(loop=loop, **slot)
    assert findings(script(loop=loop, **slot)) == []


@pytest.mark.parametrize("count", ["len(x)", "len(y)"])
def test_means_weighed_by_the_size_of_the_batch(count: str) -> None:
    """In float64: on one process the sum keeps every bit of Python's own product."""
    slots = {"optimizer": PLATEAU, "epoch": "running = 0.0", "epoch_end": "scheduler.step(running / len(data))"}
    text = script(batch_end=f"running += loss.item() * {count}", **slots)
    sums = [ast.unparse(n) for n in ast.walk(ast.parse(converted(text))) if isinstance(n, ast.AugAssign)]
    share = f"loss.detach().cpu().double() * {count}"
    assert sums == [f"running += accelerator.gather_for_metrics({share}).sum().item()"]
    assert findings(text) == []
    assert findings(text, target="accelerate").count("COLL-RANKFLOW") == 1


def test_all_or_none_of_a_ratio_is_reduced() -> None:
    slots = {
        "epoch": "hits = n = 0",
        "batch_end": "hits += (model(x).argmax(1) == y).sum().item()\nn += len(str(loss))",
        "epoch_end": "if hits / n > 0.8:\n    break",
    }
    assert converted(script(**slots)) == lifted(**slots)
    assert findings(script(**slots)) == ["COLL-RANKFLOW", "COLL-RANKFLOW"]


def test_what_is_only_printed_of_such_a_ratio_decides_nothing() -> None:
    slots = {
        "epoch": "hits = n = total = 0",
        "batch_end": "total += loss.item() * len(y)\nhits += len(str(loss))\nn += len(y)",
        "epoch_end": "print(total / n)\nif hits / n > 0.8:\n    break",
    }
    assert findings(script(**slots)) == ["METRIC-TRAIN", "COLL-RANKFLOW", "COLL-RANKFLOW"]
    slots["epoch_end"] += "\nif total / n < 1:\n    break"
    assert findings(script(**slots)) == ["COLL-RANKFLOW"] * 3


def test_left_out() -> None:
    slots = {"optimizer": PLATEAU, "epoch": "running = 0.0", "batch_end": ADD, "epoch_end": STEP}
    assert converted(script(**slots), ignore=("REDUCE",)) == lifted(**slots)


# ---- what does not work yet: decisions that differ from process to process, unnoticed


@pytest.mark.parametrize(
    "slots",
    [
        {"epoch_end": "scheduler.step(loss.item())"},
        {"batch_end": "scheduler.step(loss.item())"},
        {"epoch_end": "if loss.item() < 0.1:\n    break"},
        {"epoch": "seen = []", "batch_end": "seen.append(loss.item())", "epoch_end": "scheduler.step(sum(seen))"},
        {"epoch": "seen = []", "batch_end": "seen.append(loss.item())", "epoch_end": "if sum(seen) < 1:\n    break"},
        {
            "before": "smooth = 0.0",
            "batch_end": "smooth = 0.9 * smooth + 0.1 * loss.item()",
            "epoch_end": "scheduler.step(smooth)",
        },
        {
            "definitions": METER,
            "epoch": "meter = Meter()",
            "batch_end": "meter.update(loss.item())",
            "epoch_end": "scheduler.step(meter.average)",
        },
    ],
    ids=["last loss", "each loss", "stop on last loss", "list", "stop on list", "moving average", "meter"],
)
def test_other_ways_to_measure(slots: dict[str, str]) -> None:
    text = script(optimizer=PLATEAU, **slots)
    assert "accelerator.batch_mean(" in converted(text) or "COLL-RANKFLOW" in findings(text)


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("loss.item() > 1", ["COLL-RANKFLOW"]),
        ("0.5 < loss.item() <= 1", ["COLL-RANKFLOW"]),
        ("epoch > 1", []),
        ("y is not None", []),
        ("isinstance(y, torch.Tensor)", []),
    ],
)
def test_which_loss_is_trained_on_is_decided_together(test: str, expected: list[str]) -> None:
    forward = f"optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\nif {test}:\n    {{}}"
    changed = script(forward=forward.format("loss = loss + model(x).pow(2).mean()"))
    assert findings(changed) == expected
    assert findings(script(forward=forward.format("other = loss * 2"))) == []


@pytest.mark.parametrize(
    ("epoch_end", "expected"),
    [
        ('print("last loss", loss.item())', ["METRIC-TRAIN"]),
        ('print(f"{epoch}: {loss:.3f} of {len(x)}")', ["METRIC-TRAIN"]),
        ("shown = loss.item()", []),  # not said
        ('print("epoch", epoch, len(loader))', []),  # the same on every process
        ("loss = 0.0\nprint(loss)", []),  # not what the loop left
    ],
)
def test_what_the_last_batch_leaves_is_of_one_process(epoch_end: str, expected: list[str]) -> None:
    assert findings(script(epoch_end=epoch_end)) == expected


@pytest.mark.parametrize(
    ("test", "codes"),
    [("epoch > 0", []), ("len(x) > 3", ["COLL-RANKFLOW"]), ("loss.item() < 1", ["COLL-RANKFLOW"])],
)
def test_an_evaluation_inside_the_training_loop_is_that_of_all(test: str, codes: list[str]) -> None:
    """What it adds up has been gathered; but a process of its own mind would evaluate without the others."""
    evaluation = """\
if {}:
    right = 0
    for a, b in test_loader:
        right += (model(a).argmax(1) == b).sum().item()
    accuracy = right / 64"""
    slots = {
        "optimizer": PLATEAU,
        "before": "test_loader = DataLoader(data, batch_size=16)",
        "batch_end": evaluation.format(test),
        "epoch_end": "scheduler.step(accuracy)",
    }
    text = script(**slots).replace(
        "a, b in test_loader:", "a, b in test_loader:\n                a, b = a.to(device), b.to(device)"
    )
    assert findings(text) == codes
    assert "accelerator.gather_for_metrics(" in converted(text)


# ---- updates of the model that follow local values


@pytest.mark.parametrize(
    "update",
    [
        "if loss.item() > 0.75:\n    optimizer.step()",
        'optimizer.param_groups[0]["lr"] = 0.1 * loss.item()',
        'if loss.item() < 1:\n    for group in optimizer.param_groups:\n        group["lr"] *= 0.5',
    ],
)
def test_updates_that_would_differ_from_process_to_process(update: str) -> None:
    assert findings(script(batch_end=update)) == ["COLL-RANKFLOW"]


@pytest.mark.parametrize(
    "update",
    [
        "if epoch > 0:\n    optimizer.step()",
        'optimizer.param_groups[0]["lr"] = 0.1 / (epoch + 1)',
        'if epoch:\n    for group in optimizer.param_groups:\n        group["lr"] *= 0.5',
        'if loss.item() < 1:\n    note["lr"] = 0.5',
    ],
)
def test_updates_that_are_the_same_everywhere(update: str) -> None:
    assert findings(script(before="note = {}", batch_end=update)) == []


def test_a_mean_that_has_a_name_before_it_is_printed() -> None:
    slots = {"epoch": "losses = []", "batch_end": "losses.append(loss.item())"}
    end = "mean = sum(losses) / len(losses)\nprint(mean)"
    assert findings(script(**slots, epoch_end=end)) == ["METRIC-TRAIN"]
    assert findings(script(**slots, epoch_end="mean = sum(losses) / len(losses)")) == []


def test_the_number_of_a_batch_is_the_same_everywhere() -> None:
    slots = {
        "definitions": "def collate(samples):\n    return samples",
        "loader": "loader = DataLoader(data, batch_size=16, collate_fn=collate)",
        "loop": "for i, batch in enumerate(loader):\n    x, y = batch",
        "batch_end": "if i < 3:\n    optimizer.step()",
    }
    assert "COLL-RANKFLOW" not in findings(script(**slots))


def test_a_counter_that_a_model_keeps_makes_no_model_of_each_process() -> None:
    update = 'model.seen += x.size(0)\nfor group in optimizer.param_groups:\n    group["lr"] = model.rate'
    assert "COLL-RANKFLOW" not in findings(script(batch_end=update))


def test_under_a_condition_only_what_is_computed_from_a_share_is_of_the_share() -> None:
    update = """\
if epoch:
    rate = 0.1 / epoch
    note.append(loss.item())
    for group in optimizer.param_groups:
        group["lr"] = rate"""
    assert "COLL-RANKFLOW" not in findings(script(before="note = []", batch_end=update))


CHANCE = {"imports": "import random", "before": "other = Net()\nlearned = torch.optim.SGD(other.parameters(), lr=0.1)"}
BOTH = "optimizer.zero_grad()\nlearned.zero_grad()\n"


@pytest.mark.parametrize(
    ("forward", "end"),
    [
        (
            f"{BOTH}if random.random() < 0.5:\n    out = model(x)\nelse:\n    out = other(x)\n"
            "loss = F.cross_entropy(out, y)",
            "",
        ),
        (f"{BOTH}loss = F.cross_entropy(model(x), y)\nif random.random() < 0.1:\n    continue", ""),
        (f"{BOTH}loss = F.cross_entropy(model(x), y)", "lucky = random.random()\nif lucky < 0.1:\n    learned.step()"),
        (
            f"{BOTH}loss = F.cross_entropy(model(x), y)",
            "for p in model.parameters():\n    p.data.add_(torch.randn_like(p))",
        ),
    ],
)
@pytest.mark.parametrize("seeded", [False, True])
def test_what_each_process_draws_for_itself_decides_nothing(forward: str, end: str, seeded: bool) -> None:
    seed = "torch.manual_seed(0)\nrandom.seed(0)" if seeded else ""
    text = script(**CHANCE, setup=seed, forward=forward, step="optimizer.step()\nlearned.step()", batch_end=end)
    assert ("COLL-RANKFLOW" in findings(text)) != seeded


@pytest.mark.parametrize(
    "forward",
    [
        "if random.random() < 0.5:\n    x = x.flip(1)\nloss = F.cross_entropy(model(x), y)",
        "if random.random() < 0.5:\n    loss = F.cross_entropy(model(x), y)\nelse:\n    loss = F.nll_loss(model(x), y)",
        "loss = F.cross_entropy(model(x + torch.randn_like(x)), y)",
        "while True:\n    if random.random() < 0.5:\n        break\nloss = F.cross_entropy(model(x), y)",
    ],
)
def test_noise_on_each_share_is_its_own(forward: str) -> None:
    assert "COLL-RANKFLOW" not in findings(script(imports="import random", forward=f"optimizer.zero_grad()\n{forward}"))


@pytest.mark.parametrize(
    ("data", "whole", "reduced"),
    [
        ("range(y_all.size(0))", "y_all.size(0)", True),
        ("range(len(x_all))", "len(x_all)", True),
        ("range(y_all.size(0))", "y_all.size(1)", False),
        ("range(8, y_all.size(0))", "y_all.size(0)", False),
    ],
)
def test_a_sum_over_samples_that_are_dealt_as_numbers(data: str, whole: str, reduced: bool) -> None:
    """`for index in DataLoader(range(n)): ...`, divided by `n`."""
    text = script(
        data="x_all, y_all = torch.arange(512.0).view(64, 8).to(device), torch.arange(64).to(device) % 3",
        loader=f"loader = DataLoader({data}, batch_size=16, shuffle=True)",
        epoch="running = 0.0",
        loop="for index in loader:",
        move="",
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x_all[index]), y_all[index])",
        batch_end="running += loss.item() * index.size(0)",
        epoch_end=f"print(running / {whole})",
    )
    assert ("accelerator.gather_for_metrics(loss.detach()" in converted(text)) is reduced


RIGHT = "(model(x).argmax(1) == y).sum().item()"


@pytest.mark.parametrize(
    ("before", "add", "end"),
    [
        ("hits = [0] * 9", f"hits[epoch] += {RIGHT}", "hits[epoch] /= len(data)\nprint(hits[epoch])"),
        ("hits = [0] * 9", f"hits[epoch] += {RIGHT}", "print(hits[epoch] / len(loader.dataset))"),
        ('hits = {"n": 0}', f'hits["n"] += {RIGHT}', 'print(100 * hits["n"] / len(data))'),
    ],
)
def test_sums_in_lists_and_dicts_that_the_size_of_the_data_divides(before: str, add: str, end: str) -> None:
    text = script(before=before, batch_end=add, epoch_end=end)
    gathered = "accelerator.gather_for_metrics((model(x).argmax(1) == y).sum().detach()).sum().item()"
    assert gathered in ast.unparse(ast.parse(converted(text)))
    assert findings(text) == []


@pytest.mark.parametrize(
    ("before", "add", "end"),
    [
        ("hits = [0] * 9", f"hits[epoch] += {RIGHT}", "print(hits[epoch] / len(loader))"),
        ("hits = [0] * 9", f"hits[epoch] += {RIGHT}", "print(hits[0] / len(data))"),
        ("hits = [0] * 9", f"hits[y[0]] += {RIGHT}", "print(hits[epoch] / len(data))"),
        ("hits = [0] * 9", f"hits[epoch] += {RIGHT}", "print(sum(hits))"),
        ("hits = [0] * 9", "hits[epoch] += len(data)", "print(hits[epoch] / len(data))"),
    ],
)
def test_other_sums_in_lists_stay(before: str, add: str, end: str) -> None:
    assert "gather" not in converted(script(before=before, batch_end=add, epoch_end=end))


HELPERS = """\
def other(scores):
    return unknown(scores)

def count(scores, y):
    right = (unknown(scores) == y).sum()
    return right.item()

def share(scores, y):
    right = count(scores, y)
    return right / len(y)
"""


@pytest.mark.parametrize(
    ("add", "severity"),
    [
        ("hits += (other(model(x)) == y).sum().item()", Severity.WARNING),
        ("hits += torch.sum(other(model(x)) == y).item()", Severity.WARNING),
        ("hits += count(model(x), y)", Severity.WARNING),
        ("right = count(model(x), y)\nhits += 100 * right", Severity.WARNING),
        ("hits += count(model(x), y) / len(y)", Severity.NOTE),
        ("hits += share(model(x), y)", Severity.NOTE),
        ("hits += other(model(x)) * x.size(0)", Severity.WARNING),
        ("rows = x.size(0)\nhits += other(model(x)) * rows", Severity.WARNING),
        ("z = other(model(x))\nhits += z.shape[0] * z.item()", Severity.WARNING),
        ("hits += other(model(x)) * data.tensors[0].size(0)", Severity.NOTE),
        ("hits += other(model(x)) * len(data)", Severity.NOTE),
        ("hits += other(model(x)) * x.size(1)", Severity.NOTE),
        ("hits += (other(model(x)) == y).sum().item() / len(y)", Severity.NOTE),
        ("hits += other(model(x))", Severity.NOTE),
    ],
)
def test_a_sum_of_what_is_not_known_is_too_small_for_the_size_of_the_data(add: str, severity: Severity) -> None:
    text = script(
        definitions=HELPERS,
        imports="from elsewhere import unknown",
        epoch="hits = 0",
        batch_end=add,
        epoch_end="print(hits / len(data))",
    )
    plan = convert(text).plan
    assert plan is not None
    assert [f.severity for f in plan.findings if f.code == "METRIC-TRAIN"] == [severity]


@pytest.mark.parametrize(
    ("size", "severity"),
    [
        ("float(len(data))", Severity.WARNING),
        ("int(len(loader.dataset))", Severity.WARNING),
        ("float(len(loader))", Severity.NOTE),
        ("float(other(data))", Severity.NOTE),
    ],
)
def test_the_size_of_the_data_as_another_number(size: str, severity: Severity) -> None:
    add = "hits += (other(model(x)) == y).sum().item()"
    slots = {"definitions": HELPERS, "imports": "from elsewhere import unknown", "epoch": "hits = 0"}
    plan = convert(script(batch_end=add, epoch_end=f"print(hits / {size})", **slots)).plan
    assert plan is not None
    assert [f.severity for f in plan.findings if f.code == "METRIC-TRAIN"] == [severity]


@pytest.mark.parametrize("test", ["x.size(0) == 1", "len(x) < 2", "x.shape[0] <= 1", "rows == 1"])
@pytest.mark.parametrize(
    ("loader", "expected"),
    [
        ("DataLoader(data, batch_size=16, shuffle=True)", ["COLL-RANKFLOW"]),
        ("DataLoader(data, batch_size=16, drop_last=False)", ["COLL-RANKFLOW"]),
        ("DataLoader(data, batch_size=1, drop_last=True)", []),
        ("DataLoader(data, batch_size=16, shuffle=True, drop_last=True)", []),
    ],
)
def test_a_batch_of_one_row_comes_only_at_the_end(test: str, loader: str, expected: list[str]) -> None:
    skip = f"rows = x.size(0)\nif {test}:\n    continue"
    found = findings(script(loader=f"loader = {loader}", move="x, y = x.to(device), y.to(device)\n" + skip))
    assert [code for code in found if code == "COLL-RANKFLOW"] == expected


@pytest.mark.parametrize("test", ["x.size(0) == 3", "x.size(0) < 9", "x.sum() == 1", "y[0] == 1"])
def test_other_tests_of_whole_batches_are_told(test: str) -> None:
    loader = "loader = DataLoader(data, batch_size=16, drop_last=True)"
    found = findings(script(loader=loader, move=f"x, y = x.to(device), y.to(device)\nif {test}:\n    continue"))
    assert "COLL-RANKFLOW" in found


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("x.size(1) == 1", False),
        ("y.dim() > 1 or x.ndim == 1", False),
        ("epoch == 1 and len(x) > 0", False),
        ("len(x) < 16", False),  # as no share has as many, for which there is BATCH-LITERAL
        ("x.size(0) != 16", False),
        ("x.size(0) != 15", True),
        ("len(x) > 16", False),
        ("len(x) < 16 and y[0] > 1", True),
    ],
)
def test_tests_that_come_out_alike_on_every_process(test: str, told: bool) -> None:
    found = findings(script(move=f"x, y = x.to(device), y.to(device)\nif {test}:\n    continue"))
    assert ("COLL-RANKFLOW" in found) is told


def test_the_length_of_padded_samples_is_another_one_on_every_process() -> None:
    definitions = """\
def pad(batch):
    x = nn.utils.rnn.pad_sequence([s[0] for s in batch], batch_first=True)
    return x, torch.stack([s[1] for s in batch])
"""
    for collate, told in (("", False), (", collate_fn=pad", True)):
        loader = f"loader = DataLoader(data, batch_size=16{collate})"
        slots = {"definitions": definitions, "loader": loader}
        move = "x, y = x.to(device), y.to(device)\nif x.size(1) > 100:\n    continue"
        assert ("COLL-RANKFLOW" in findings(script(**slots, move=move))) is told


RECURRENT = """
class Trainer:
    def __init__(self):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        data = TensorDataset(torch.rand(64, 8), torch.arange(64) % 3)
        self.loader = DataLoader(data, batch_size=16, shuffle=True)
        self.valid = DataLoader(data, batch_size=16)
        self.model = nn.GRUCell(8, 3).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.best = 0.0

    def reset(self):
        return {state}

    def train(self):
        for x, y in self.loader:
            self.rows = {kept}
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x.to(self.device), self.reset()), y.to(self.device)).backward()
            self.optimizer.step()

    def evaluate(self):
        correct = 0
        with torch.no_grad():
            for x, y in self.valid:
                self.rows = len(x)
                out = self.model(x.to(self.device), self.reset())
                correct += (out.argmax(1) == y.to(self.device)).sum().item()
        return correct / len(self.valid.dataset)

    def fit(self):
        for epoch in range(4):
            self.train()
            accuracy = self.evaluate()
            if accuracy < self.best:
                break
            self.best = accuracy


Trainer().fit()
"""
IMPORTS = script().partition("\n\n\n")[0]


@pytest.mark.parametrize(
    ("state", "kept", "told"),
    [
        ("torch.zeros(self.rows, 3, device=self.device)", "x.shape[0]", False),
        ("torch.FloatTensor(self.rows, 3).fill_(0).to(self.device)", "x.size(0)", False),
        ("torch.ones(3, device=self.device).new_zeros(self.rows, 3)", "len(x)", False),
        ("torch.full((self.rows, 3), 0.0, device=self.device)", "len(x)", False),
        ("torch.full((len(self.valid), 3), self.rows, device=self.device)", "x.mean().item()", True),
        ("torch.tensor([[self.rows] * 3], device=self.device)", "x.mean().item()", True),
    ],
)
def test_the_size_of_a_tensor_is_no_measure(state: str, kept: str, told: bool) -> None:
    text = IMPORTS + RECURRENT.format(state=state, kept=kept)
    assert ("COLL-RANKFLOW" in findings(text) or "accelerator.batch_mean(" in converted(text)) is told


BOOK = 'book = {"loss": [], "best": {"loss": 9.0, "step": 0}, "acc": [0.0]}'
BETTER = 'if {}:\n    torch.save(model.state_dict(), "best.pt")'


@pytest.mark.parametrize(
    ("end", "batch_end", "read", "told"),
    [
        ('book["loss"].append(loss.item())', "", 'acc > book["best"]["loss"]', False),
        ('book["best"]["step"] = loss.item()', "", 'acc > book["best"]["loss"]', False),
        ('book.setdefault("loss", []).append(loss.item())', "", 'acc > max(book.get("acc"))', False),
        ("", 'book["loss"].append(loss)', 'acc > max(book["acc"])', False),
        ('book["best"]["loss"] = loss.item()', "", 'acc > book["best"]["loss"]', True),
        ('book["best"] = {"loss": loss.item()}', "", 'acc > book["best"]["loss"]', True),
        ("book[key].append(loss.item())", "", 'acc > book["best"]["loss"]', True),
        ('book["best"]["loss"] = loss.item()', "", "acc > book[key]", True),
        ("", 'book["acc"].append(loss)', 'acc > max(book["acc"])', True),
    ],
)
def test_what_is_kept_under_one_key_is_not_read_under_another(end: str, batch_end: str, read: str, told: bool) -> None:
    slots = {"before": f"{BOOK}\nkey, acc = input(), 0.5", "batch_end": batch_end}
    text = script(epoch_end="\n".join(filter(None, [BETTER.format(read), end])), **slots)
    assert ("COLL-RANKFLOW" in findings(text)) is told


SAVES = 'torch.save(model.state_dict(), "best.pt")'
SAVING = f"def keep(model):\n    {SAVES}"


@pytest.mark.parametrize(
    ("batch_end", "told"),
    [
        (f"if loss.item() < best:\n    best = loss.item()\n    {SAVES}", True),
        ("last = loss.item()\nif last < best:\n    keep(model)", True),
        (f"seen += 1\nif seen % 10 == 0:\n    if loss < best:\n        {SAVES}", True),
        (f"seen += 1\nif seen > 3:\n    {SAVES}", False),
        (f"if x.dim() > 1:\n    {SAVES}", False),
        ("if loss.item() < best:\n    best = loss.item()", False),
    ],
)
def test_a_checkpoint_that_an_iteration_keeps_by_its_own_share_is_told(batch_end: str, told: bool) -> None:
    plan = convert(script(definitions=SAVING, before="best, seen = 9.0, 0", batch_end=batch_end)).plan
    assert plan is not None
    codes = [f.code for f in plan.findings if f.severity is Severity.WARNING]
    assert codes == (["METRIC-TRAIN"] if told else [])


_EPOCH = """\
def epoch_of(model, loader, optimizer, size):
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
    return total / size
"""


@pytest.mark.parametrize(
    ("size", "whole"),
    [
        ("size = len(data)", True),
        ("size = len(loader.dataset)", True),
        ("held = len(loader.dataset)\nsize = held", True),
        ("size = 64", True),
        ("size = len(data) if epoch else 1", True),
        ("size = len(loader) * 16", True),
        ("size = x.shape[0] * len(loader)", False),  # the last batch's, of which a process has its share
        ("size = measured()", False),
        ("size = len(kept)", False),
    ],
)
def test_the_size_of_the_data_in_a_variable(size: str, whole: bool) -> None:
    kept = "\nkept += y.tolist()" if "kept" in size else ""
    slots = {"epoch": "total, kept = 0.0, []", "batch_end": f"total += loss.item() * len(y){kept}"}
    text = script(from_imports="from other import measured", epoch_end=f"{size}\nprint(total / size)", **slots)
    assert ("gather_for_metrics" in converted(text)) is whole
    assert findings(text) == ([] if whole else ["METRIC-TRAIN"])


@pytest.mark.parametrize(
    ("printed", "whole"),
    [
        ("hits / len(data)", True),
        ("hits.double() / len(data)", True),
        ("100 * hits.item() / len(data)", True),
        ("100.0 * float(hits.cpu()) / len(data)", True),
        ("hits.to(torch.float64) / len(data)", True),
        ("hits.float().item() / len(loader.dataset)", True),
        ("hits.double() / len(loader)", True),
        ("hits.bool() / len(data)", False),
        ("math.sqrt(hits) / len(data)", False),
        ("hits.clamp(0, 3) / len(data)", False),
        ("hits.double()", False),
    ],
)
def test_a_sum_that_is_taken_of_a_tensor_before_it_is_divided(printed: str, whole: bool) -> None:
    slots = {"epoch": "hits = 0", "forward": "optimizer.zero_grad()\nout = model(x)\nloss = F.cross_entropy(out, y)"}
    text = script(
        imports="import math", batch_end="hits += torch.sum(out.argmax(1) == y)", epoch_end=f"print({printed})", **slots
    )
    assert ("gather_for_metrics" in converted(text)) is whole
    assert findings(text) == ([] if whole else ["METRIC-TRAIN"])


@pytest.mark.parametrize(
    ("counted", "other", "whole"),
    [
        ("counts[0] += len(y)", "counts[0]", False),
        ("meter.seen += len(y)", "meter.seen", False),
        ("last = len(y)", "last", False),
        ("seen += len(y)", "seen", True),
        ("seen += 1", "len(loader)", True),
        ("seen += 1", "64", True),
    ],
)
def test_a_sum_that_is_divided_by_what_one_process_counts_too(counted: str, other: str, whole: bool) -> None:
    """Summed across processes it would be too large for that, by their number."""
    slots = {"epoch": "total, seen, counts = 0.0, 0, [0]", "batch_end": f"total += loss.item() * len(y)\n{counted}"}
    text = script(
        from_imports="from other import meter", epoch_end=f"print(total / len(data))\nprint(total / {other})", **slots
    )
    assert ("gather_for_metrics" in converted(text)) is whole
    plan = convert(text).plan
    assert plan is not None
    assert any(f.code == "METRIC-TRAIN" and f.severity is Severity.WARNING for f in plan.findings) is not whole


@pytest.mark.parametrize(
    ("returned", "use", "whole"),
    [
        ("total", "print({} / len(data))", True),
        ("total", "total = {}\nprint(total / len(loader.dataset))", True),
        ("total", "total = {}\nprint(100 * total / size)", True),
        ("total, size", "total, n = {}\nprint(total / len(data))", True),
        ("total, size", "both = {}\nprint(both[0] / len(data))", True),
        ("total, size", "n, total = {}\nprint(total / len(data))", False),
        ("total", "print({} / len(loader))", True),
        ("total", "print({})", False),
        ("total, size", "both = {}\nprint(both[1] / len(data))", False),
        ("-total", "print({} / len(data))", False),
        ("{'loss': total, 'n': size}", "print({}['loss'] / len(data))", True),
        ("{'loss': total, 'n': size}", "kept = {}\nprint(kept['loss'] / len(data))", True),
        ("{'loss': total, 'n': size}", "kept = {}\nprint(kept['loss'], kept['n'] / len(data))", False),
    ],
)
def test_what_a_function_adds_up_and_its_caller_divides(returned: str, use: str, whole: bool) -> None:
    function = _EPOCH.replace("return total / size", f"return {returned}")
    empty = NO_LOOP
    before = f"size = len(data)\n{use.replace('{}', 'epoch_of(model, loader, optimizer, 64)')}"
    text = script(definitions=function, before=before, **empty)
    assert ("gather_for_metrics" in converted(text)) is whole
    assert findings(text) == ([] if whole else ["METRIC-TRAIN"])


@pytest.mark.parametrize(("said", "codes"), [("n", []), ("kept", ["METRIC-TRAIN"]), ("m", ["METRIC-TRAIN"])])
def test_what_is_counted_under_one_header_with_what_is_measured(said: str, codes: list[str]) -> None:
    batch_end = "with torch.no_grad():\n    kept = x.mean()\n    m = kept + 1\n    n += 1"
    assert findings(script(before="n = 0", batch_end=batch_end, epoch_end=f"print({said})")) == codes


@pytest.mark.parametrize(("sizes", "whole"), [(["len(data)"] * 2, True), (["len(data)", "measured()"], False)])
def test_the_size_of_the_data_that_a_function_is_handed(sizes: list[str], whole: bool) -> None:
    calls = "\n".join(f"print(epoch_of(model, loader, optimizer, {size}))" for size in sizes)
    empty = NO_LOOP
    text = script(from_imports="from other import measured", definitions=_EPOCH, before=calls, **empty)
    assert ("gather_for_metrics" in converted(text)) is whole


NAMED = "value = loss.item()\nprint(value)\n"
STEPPED = {
    "before": "schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)",
    "epoch": "total = 0.0",
    "epoch_end": "schedule.step(total / len(loader))",
}
MEAN_OF_ALL = "total += accelerator.batch_mean(loss.detach()).item()"


@pytest.mark.parametrize(
    ("added_up", "line"),
    [
        ("total += value", MEAN_OF_ALL),
        ("total += 2 * value", MEAN_OF_ALL.replace("+= ", "+= 2 * ")),
        ("total += value * x.size(0)", "accelerator.gather_for_metrics(loss.detach().cpu().double() * x.size(0))"),
    ],
)
def test_a_number_that_has_a_name_and_is_shown_too(added_up: str, line: str) -> None:
    text = script(batch_end=NAMED + added_up, **STEPPED)
    assert line in converted(text)
    assert "COLL-RANKFLOW" not in findings(text)


NUMBER_OF_ALL = "total += accelerator.batch_mean(torch.tensor(value, dtype=torch.float64)).item()"


@pytest.mark.parametrize(
    ("added_up", "whole"),
    [
        ("loss = loss * 0\ntotal += value", True),  # another loss by now
        ("value = value / 2\ntotal += value", True),
        ("for _ in range(2):\n    total += value", True),
        ("if epoch:\n    value = 0.0\ntotal += value", False),
    ],
)
def test_a_number_that_has_changed_since(added_up: str, whole: bool) -> None:
    text = script(batch_end=NAMED + added_up, **STEPPED)
    after = " ".join(converted(text).split()).replace("( ", "(").replace(" )", ")")
    assert ("COLL-RANKFLOW" not in findings(text)) is (NUMBER_OF_ALL in after) is whole


RUN_STEP = """\
def step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    {norm}
    optimizer.step()
    return {returned}
"""
CLIPS = "norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
IN_STEP = {"move": "", "backward": "", "step": ""}


@pytest.mark.parametrize(
    ("returned", "bound"),
    [("norm", "norm = step(x, y)"), ("loss, norm", "loss, norm = step(x, y)"), ("(norm, 3)", "norm, n = step(x, y)")],
)
def test_a_norm_of_gradients_that_a_function_returns_is_that_of_all(returned: str, bound: str) -> None:
    text = script(
        definitions=RUN_STEP.format(norm=CLIPS, returned=returned),
        forward=f"{bound}\nif norm > 9:\n    break",
        **IN_STEP,
    )
    assert findings(text) == []


@pytest.mark.parametrize(
    ("returned", "bound", "told"),
    [
        ("loss.item(), optimizer.param_groups[0]['lr']", "loss, rate = step(x, y)", False),
        ("loss.item(), norm", "loss, rate = step(x, y)", False),
        ("norm", "rate = step(x, y)", False),
        ("optimizer.param_groups[0]['lr'], loss.item()", "loss, rate = step(x, y)", True),
        ("loss.item(), optimizer.param_groups[0]['lr'] * loss.item()", "loss, rate = step(x, y)", True),
    ],
)
def test_a_learning_rate_that_a_function_returns_is_that_of_all(returned: str, bound: str, told: bool) -> None:
    definitions = RUN_STEP.format(norm="norm = optimizer.param_groups[0]['lr']", returned=returned)
    for ends, code in (("if rate > 9:\n    break", "COLL-RANKFLOW"), ("print(rate)", "METRIC-TRAIN")):
        text = script(definitions=definitions, forward=f"{bound}\n{ends}", **IN_STEP)
        assert findings(text) == [code] * told


@pytest.mark.parametrize(
    ("norm", "returned", "bound"),
    [
        (CLIPS, "norm, loss.item()", "other, norm = step(x, y)"),
        (CLIPS, "loss.item() / norm", "norm = step(x, y)"),
        (f"{CLIPS}\n    if loss > 3:\n        norm = loss.item()", "norm", "norm = step(x, y)"),
        ("norm = loss.item()", "norm", "norm = step(x, y)"),
    ],
)
def test_what_else_a_function_returns_is_of_its_share(norm: str, returned: str, bound: str) -> None:
    definitions = RUN_STEP.format(norm=norm, returned=returned)
    assert findings(script(definitions=definitions, forward=f"{bound}\nif norm > 9:\n    break", **IN_STEP)) == [
        "COLL-RANKFLOW"
    ]


@pytest.mark.parametrize(
    ("measured", "change", "told"),
    [
        ("loss.item() > 1", "model.layer.weight.grad.zero_()", True),
        ("loss.item() > 1", "for p in model.parameters():\n        p.grad.mul_(0.5)", True),
        ("loss.item() > 1", "model.layer.bias.requires_grad = False", True),
        ("not loss.item() > 1", "optimizer.step()", True),
        ("loss.item() > 1", "shown = 1", False),
        ("epoch > 1", "model.layer.weight.grad.zero_()", False),
    ],
)
def test_what_a_comparison_has_said_before_decides_how_is_trained(measured: str, change: str, told: bool) -> None:
    slots = {"before": "ahead = False", "backward": f"loss.backward()\nif ahead:\n    {change}"}
    text = script(batch_end=f"ahead = {measured}", **slots)
    assert ("COLL-RANKFLOW" in findings(text)) is told


@pytest.mark.parametrize(("measured", "told"), [("loss.item() > 1", True), ("epoch > 1", False)])
def test_what_an_object_keeps_of_a_comparison_decides_how_is_trained(measured: str, told: bool) -> None:
    for made, kept in (
        ("class State:\n    ahead = False\nstate = State()", "state.ahead"),
        ("state = {'a': False}", "state['a']"),
    ):
        backward = f"loss.backward()\nif {kept}:\n    model.layer.weight.grad.zero_()"
        text = script(before=made, backward=backward, batch_end=f"{kept} = {measured}")
        assert ("COLL-RANKFLOW" in findings(text)) is told


@pytest.mark.parametrize(
    ("slots", "codes"),
    [
        ({"batch_end": "print(loss.item())\nif loss.item() < 0.1:\n    break"}, []),
        ({"before": "seen = []", "batch_end": "seen.append(loss.item())", "after": "print(sum(seen))"}, []),
        ({"batch_end": "x = x + torch.rand(8)\nif loss.item() < 0.1:\n    break"}, ["COLL-RANKFLOW"]),
    ],
)
def test_what_all_processes_compute_of_single_samples(slots: dict[str, str], codes: list[str]) -> None:
    one = "loader = DataLoader(data, batch_size=1, shuffle=True)"
    assert sorted(findings(script(loader=one, **slots))) == ["BATCH-ONE", *codes]
    assert {*codes, "METRIC-TRAIN", "COLL-RANKFLOW"} & set(findings(script(**slots)))


def test_single_samples_that_draw_differ() -> None:
    drawing = """\
class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.ones(8) + {noise}, 0"""
    slots = {"loader": "loader = DataLoader(Noisy())", "batch_end": "print(loss.item())"}
    assert "METRIC-TRAIN" in findings(script(definitions=drawing.format(noise="torch.rand(8)"), **slots))
    assert "METRIC-TRAIN" not in findings(script(definitions=drawing.format(noise="torch.zeros(8)"), **slots))


@pytest.mark.parametrize(
    ("loss", "target", "loader", "told"),
    [
        ("F.cross_entropy(model(x), y)", "runtime", "batch_size=16", 0),
        ("F.cross_entropy(model(x), y, ignore_index=2)", "runtime", "batch_size=16", 1),
        ("F.cross_entropy(model(x), y)", "accelerate", "batch_size=16", 1),
        ("F.cross_entropy(model(x), y)", "accelerate", "batch_size=16, drop_last=True", 0),
    ],
)
def test_a_mean_of_means_is_told_of(loss: str, target: str, loader: str, told: int) -> None:
    """What Accelerate averages counts repeated samples twice; the runtime weighs means by the samples of the shares."""
    text = script(
        optimizer=PLATEAU,
        epoch="running = 0.0",
        forward=f"optimizer.zero_grad()\nloss = {loss}",
        batch_end=ADD,
        epoch_end=STEP,
        loader=f"loader = DataLoader(data, {loader})",
    )
    exact = target == "runtime" and not told
    assert ("accelerator.batch_mean(" in converted(text, target=target)) is exact
    assert ('reduction="mean"' in converted(text, target=target)) is not exact
    assert findings(text, target=target).count("METRIC-TRAIN") == told
