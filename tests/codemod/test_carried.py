"""Numbers that an iteration measures and the loss of a later one depends on are those of all processes."""

from __future__ import annotations

import pytest
from scripts import convert, converted, findings, lifted, script

ZERO = "optimizer.zero_grad()\nout = model(x)\n"
BALANCED = f"{ZERO}real, fake = F.cross_entropy(out, y), out.pow(2).mean()\nloss = real - k * fake"


def told(text: str, **options: object) -> str:
    plan = convert(text, **options).plan
    return " ".join(finding.message for finding in plan.findings) if plan is not None else ""


MEAN = "accelerator.batch_mean({}.detach()).item()"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("k = k + 0.1 * fake.item()", f"k = k + 0.1 * {MEAN.format('fake')}"),
        ("k += 0.1 * fake.item()", f"k += 0.1 * {MEAN.format('fake')}"),
        (
            "gap = torch.mean(0.5 * real - fake)\nk = k + gap.item()\nk = min(max(k, 0), 1)",
            f"gap = torch.mean(0.5 * real - fake)\nk = k + {MEAN.format('gap')}\nk = min(max(k, 0), 1)",
        ),
        (
            "k = max(fake.item(), real.item() / 2)",
            f"k = max(\n    {MEAN.format('fake')},\n    {MEAN.format('real')} / 2,\n)",
        ),
        (
            "k = 0.9 * k + 0.1 * float(real)",
            "k = 0.9 * k + 0.1 * float(accelerator.batch_mean(real.detach()))",
        ),
    ],
)
def test_a_balance_is_that_of_all_processes(before: str, after: str) -> None:
    slots = {"before": "k = 0.0", "forward": BALANCED}
    assert converted(script(**slots, batch_end=before)) == lifted(**slots, batch_end=after)
    assert not {"COLL-RANKFLOW", "TABLE-OWN"} & set(findings(script(**slots, batch_end=before)))


MOVED = f"{ZERO}loss = F.mse_loss(out - centre, F.one_hot(y, 3).float())"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "centre = 0.9 * centre + 0.1 * out.detach().mean(0)",
            "centre = 0.9 * centre + 0.1 * accelerator.batch_mean(out.detach().mean(0))",
        ),
        (
            "centre = 0.9 * centre + 0.1 * out.mean(0).detach()",
            "centre = 0.9 * centre + 0.1 * accelerator.batch_mean(out.mean(0).detach())",
        ),
        (
            "with torch.no_grad():\n    centre = centre * 0.9 + out.mean(0) * 0.1",
            "with torch.no_grad():\n    centre = centre * 0.9 + accelerator.batch_mean(out.mean(0)) * 0.1",
        ),
    ],
)
def test_an_average_of_tensors_is_that_of_all_processes(before: str, after: str) -> None:
    slots = {"before": "centre = torch.zeros(3)", "forward": MOVED}
    assert converted(script(**slots, batch_end=before)) == lifted(**slots, batch_end=after)
    assert findings(script(**slots, batch_end=before)) == []


@pytest.mark.parametrize(
    "update",
    [
        "centre = 0.9 * centre + 0.1 * out.mean(0)",  # with its gradients
        "centre = 0.9 * centre + 0.1 * out.detach().std(0)",
        "centre = 0.9 * centre + 0.1 * out.detach().mean(0) * len(x)",
        "centre = 0.9 * centre + 0.1 * out.detach().mean(0) + weights(x)",
    ],
)
def test_another_average_of_tensors_is_reported(update: str) -> None:
    text = script(before="centre = torch.zeros(3)", forward=MOVED, batch_end=update)
    assert "batch_mean" not in converted(text)
    assert {"COLL-RANKFLOW", "TABLE-OWN"} & set(findings(text))


KEEP = "centre = 0.9 * centre + 0.1 * {}"
OF_SHARE = KEEP.format("out.detach().mean(0)")


@pytest.mark.parametrize(
    "update",
    [
        # changed in place: the mean of what is clamped is not what the mean is clamped to
        f"m = out.detach().mean(0)\nm.clamp_(min=0)\n{KEEP.format('m')}",
        f"m = out.detach().mean(0)\nm[m < 0] = 0\n{KEEP.format('m')}",
        # not all processes come by
        f"if random.random() < 0.5:\n    {OF_SHARE}",
        f"if time.time() - start < 5:\n    {OF_SHARE}",
        f"try:\n    assert y[0] > 0\n    {OF_SHARE}\nexcept AssertionError:\n    pass",
        f"for c in range(4):\n    if not (y == c).any():\n        break\n    {OF_SHARE}",
        f"if torch.isnan(out).any():\n    continue\n{OF_SHARE}",
    ],
)
def test_an_average_that_cannot_be_that_of_all_processes_is_reported(update: str) -> None:
    slots = {"imports": "import random\nimport time", "forward": MOVED, "batch_end": update}
    text = script(**slots, before="start = time.time()\ncentre = torch.zeros(3)")
    assert "batch_mean" not in converted(text)
    assert {"COLL-RANKFLOW", "TABLE-OWN"} & set(findings(text))


def test_what_changes_an_average_in_place_changes_that_of_all_processes() -> None:
    clip = "def clip(m):\n    m.clamp_(min=0)"
    slots = {"definitions": clip, "before": "centre = torch.zeros(3)", "forward": MOVED}
    end = "m = {}\nclip(m)\ncentre = 0.9 * centre + 0.1 * m"
    mean = "out.detach().mean(0)"
    whole = end.format(f"accelerator.batch_mean({mean})")
    assert converted(script(**slots, batch_end=end.format(mean))) == lifted(**slots, batch_end=whole)


@pytest.mark.parametrize(
    ("update", "loss", "told"),
    [
        ("mean = 0.9 * mean + 0.1 * out.mean().item()", "F.mse_loss(out - mean, meant)", []),
        ("mean = 0.9 * mean + 0.1 * out.detach().mean(0)", "F.mse_loss(out - mean, meant)", []),
        ("l = F.mse_loss(out, meant)\nmean = 0.9 * mean + 0.1 * l.item()", "l / mean", []),
        ("mean = 0.9 * mean + 0.1 * out.mean().item()", "F.mse_loss(out - out.mean(0), meant)", ["LOSS-INBATCH"]),
        ("mean = 0.9 * mean + 0.1 * out.mean().item()", "F.mse_loss(out * mean, out.std(0))", ["LOSS-INBATCH"]),
        ("mean = out.mean().item()", "F.mse_loss(out - mean, meant)", ["LOSS-INBATCH"]),
    ],
)
def test_a_loss_with_an_average_of_all_processes_compares_no_samples(update: str, loss: str, told: list[str]) -> None:
    forward = f"{ZERO}meant = F.one_hot(y, 3).float()\n{update}\nloss = {loss}"
    text = script(before="mean = torch.ones(3)" if "detach" in update else "mean = 1.0", forward=forward)
    assert findings(text) == told


def test_a_table_beside_a_balance_is_still_told_of() -> None:
    slots = {"before": "k = 0.0\nqueue = torch.zeros(16, 3)", "forward": f"{BALANCED} + (out @ queue.T).mean()"}
    update = "k = k + fake.item()\nk = min(k, 1)\nqueue = torch.cat([queue, k * out.detach()])[-16:]"
    assert findings(script(**slots, batch_end=update)).count("TABLE-OWN") == 1


@pytest.mark.parametrize(
    "after",
    [
        "k = 0.9 * k + 0.1 * fake",  # a tensor with its gradients
        "if epoch:\n    k = unread(fake.item(), out)",
        "if fake.item() > 0.5:\n    k = k * 1.1",
        "k = k * 1.1 if epoch else k\nif real < fake:\n    k = 0.5",
    ],
)
def test_a_balance_that_cannot_be_averaged_is_reported(after: str) -> None:
    text = script(from_imports="from other import unread", before="k = 0.0", forward=BALANCED, batch_end=after)
    assert "COLL-RANKFLOW" in findings(text)


@pytest.mark.parametrize(
    "after",
    ["k = k + 0.1", "k = epoch / 2", "k = min(1.0, k * 1.1)", "shown = fake.item()", "last = real.item()\nk = k * 0.9"],
)
def test_a_schedule_is_the_same_everywhere(after: str) -> None:
    slots = {"before": "k = 0.0", "forward": BALANCED, "batch_end": after}
    assert converted(script(**slots)) == lifted(**slots)
    assert "COLL-RANKFLOW" not in findings(script(**slots))


CENTRED = f"{ZERO}centre = {{}}\nloss = F.cross_entropy(model(x - centre), y)"


@pytest.mark.parametrize("centre", ["0.9 * centre + 0.1 * x.mean(0)", "centre + out.mean()"])
def test_a_moving_average_of_samples_that_are_trained_on_is_reported(centre: str) -> None:
    text = script(before="centre = torch.zeros(8)", forward=CENTRED.format(centre))
    assert "COLL-RANKFLOW" in findings(text)


@pytest.mark.parametrize("centre", ["0.9 * centre + 0.1", "centre * epoch", "x.new_zeros(8)"])
def test_a_centre_that_is_the_same_everywhere_is_not(centre: str) -> None:
    text = script(before="centre = torch.zeros(8)", forward=CENTRED.format(centre))
    assert "COLL-RANKFLOW" not in findings(text)


@pytest.mark.parametrize("choice", ["if epoch > 1:\n    k = 0.5", "if x.size(0) < 16:\n    k = 0.5"])
def test_what_settings_or_sizes_choose_is_not(choice: str) -> None:
    text = script(before="k = 0.0", forward=BALANCED, batch_end=choice)
    assert "the loss of later iterations" not in told(text)


def test_what_is_carried_for_each_sample_stays_with_it() -> None:
    slots = {
        "before": "hidden = torch.zeros(16, 3)",
        "forward": f"{ZERO}loss = F.cross_entropy(out + hidden.mean(), y)",
        "batch_end": "hidden = out.detach()",
    }
    assert "batch_mean" not in converted(script(**slots))


def test_a_number_of_this_iteration_is_no_matter_of_the_next() -> None:
    forward = f"{ZERO}real, fake = F.cross_entropy(out, y), out.pow(2).mean()\nk = 0.5\nloss = real - k * fake"
    slots = {"before": "k = 0.0", "forward": forward, "batch_end": "k = fake.item()"}
    assert converted(script(**slots)) == lifted(**slots)


def test_what_both_arms_of_a_condition_bind_is_of_this_iteration() -> None:
    arms = "if epoch:\n    k = out.pow(2).mean()\nelse:\n    k = out.abs().mean()\nloss = F.cross_entropy(out, y) - k"
    for forward, codes in ((arms, []), (arms.replace("\nelse:\n    k = out.abs().mean()", ""), ["COLL-RANKFLOW"])):
        text = script(before="k = 0.0", forward=ZERO + forward, batch_end="if epoch:\n    k = unread(loss.item(), out)")
        assert [code for code in findings(text) if code == "COLL-RANKFLOW"] == codes


@pytest.mark.parametrize(
    "parts",
    [
        "[F.cross_entropy(a[None], b[None]) for a, b in zip(out, y)]",
        "[0.5 * part for part in (F.cross_entropy(out, y), out.pow(2).mean())]",
    ],
)
def test_what_a_comprehension_binds_is_gone_with_it(parts: str) -> None:
    assert findings(script(forward=f"{ZERO}loss = torch.stack({parts}).mean()")) == []


def test_a_balance_that_a_comprehension_reads_is_that_of_all_processes() -> None:
    steps = "real = F.cross_entropy(out, y)\nloss = torch.stack([part - k for part in (real, real)]).mean()"
    slots = {"before": "k = 0.0", "forward": ZERO + steps}
    assert converted(script(**slots, batch_end="k = real.item()")) == lifted(
        **slots, batch_end=f"k = {MEAN.format('real')}"
    )


CHOSEN = """
def train(model, loader, optimizer, kind, config):
    {before}
    for epoch in range(2):
        {epoch}
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            if {test}:
                loss = F.cross_entropy(model(x), y)
            elif kind == "wide":
                loss = F.multi_margin_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss = loss.item() * 2
            {end}
"""


@pytest.mark.parametrize(
    ("carries", "slots"),
    [
        (False, {}),
        (False, {"test": "config.kind == 'plain'"}),
        (False, {"before": "plain = kind == 'plain'", "test": "plain and not config.wide"}),
        (True, {"before": "loss = 1.0"}),  # which the first iteration may have used
        (True, {"test": "epoch == 0"}),
        (True, {"epoch": "kind = kind[1:]"}),
        (True, {"test": "config.kind == 'plain'", "end": "config.kind = 'other'"}),
        (True, {"test": "pick(kind)"}),
    ],
)
def test_what_settings_choose_is_bound_by_every_iteration(carries: bool, slots: dict[str, str]) -> None:
    filled = {"before": "pass", "epoch": "pass", "test": "kind == 'plain'", "end": "pass", **slots}
    text = script(
        imports="import sys\nfrom other import pick, config",
        definitions=CHOSEN.format(**filled),
        epochs="if True:",
        loop="if True:",
        move="",
        forward="train(model, loader, optimizer, sys.argv[1], config)",
        backward="",
        step="",
    )
    assert ("accelerator.batch_mean(loss.detach()" in converted(text)) is carries


STATE = """
class State:
    pass


def train(state):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        out = model(x)
        real, fake = F.cross_entropy(out, y), out.pow(2).mean()
        loss = real + {read} * fake
        loss.backward()
        optimizer.step()
        {set}
"""
NO_LOOP = dict.fromkeys(("loop", "move", "forward", "backward", "step"), "")


@pytest.mark.parametrize(("made", "read"), [("State()", "state.k"), ("{}", "state['k']")])
@pytest.mark.parametrize(
    ("value", "said"),
    [("0.9 * {} + 0.1 * fake.item()", True), ("0.9 * {}", False), ("optimizer.defaults['lr']", False)],
)
def test_what_an_object_keeps_for_the_loss_of_a_later_iteration(made: str, read: str, value: str, said: bool) -> None:
    definitions = STATE.format(read=read, set=f"{read} = {value.format(read)}")
    before = f"state = {made}\n{read} = 1.0"
    text = script(definitions=definitions, before=before, epoch="train(state)", **NO_LOOP)
    assert ("the loss of later iterations depends on it" in told(text)) is said


@pytest.mark.parametrize("read", ["state.k", "state['k']"])
def test_what_an_object_keeps_and_nothing_is_computed_with(read: str) -> None:
    other = read.replace("k", "other")
    definitions = STATE.format(read=read, set=f"{other} = fake.item()")
    made = "state = State()" if "." in read else "state = {}"
    text = script(definitions=definitions, before=f"{made}\n{read} = 1.0", epoch="train(state)", **NO_LOOP)
    assert "later iterations" not in told(text)


@pytest.mark.parametrize(("given", "said"), [("fake.item()", True), ("2.0", False)])
def test_a_list_of_an_object_that_a_later_loss_is_computed_with(given: str, said: bool) -> None:
    definitions = STATE.format(read="state.k[-1]", set=f"state.k.append({given})")
    before = "state = State()\nstate.k = [1.0]"
    text = script(definitions=definitions, before=before, epoch="train(state)", **NO_LOOP)
    assert ("the loss of later iterations depends on it" in told(text)) is said


MICRO = """


stream = iter(loader)
ahead = 0.0
for step in range(10):
    try:
        batch = next(stream)
    except StopIteration:
        stream = iter(loader)
        batch = next(stream)
    {first}
    x, y = batch[0].to(device), batch[1].to(device)
    optimizer.zero_grad()
    for micro in range(4):
        if micro > 0:
            try:
                batch = next(stream)
            except StopIteration:
                stream = iter(loader)
                batch = next(stream)
            x, y = batch[0].to(device), batch[1].to(device)
        loss = F.cross_entropy(model(x), y){weight}
        loss.backward()
        {last}
    optimizer.step()
"""


def micro(first: str = "pass", weight: str = " / 4", last: str = "pass") -> str:
    return script(epochs="", epoch="", after=MICRO.format(first=first, weight=weight, last=last), **NO_LOOP)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"last": "print(loss.item())"},
        {
            "first": "ahead = 1.0\n    part = 1 / ahead",
            "weight": " * part",
            "last": "ahead = loss.item()",
        },
        {"weight": " * (1.0 + 0.1 * micro)"},
    ],
)
def test_where_an_iterator_is_and_what_it_deals_are_not_measured(parts: dict[str, str]) -> None:
    assert "COLL-RANKFLOW" not in findings(micro(**parts))


@pytest.mark.parametrize(
    "parts",
    [
        {"first": "if ahead > 2.0:\n        break", "last": "ahead = loss.item()"},
        {"first": "weight = 1.0 + ahead", "weight": " * weight", "last": "ahead = loss.item()"},
        {"last": "if batch[0].mean() > 3:\n            break"},
        {"first": "if step > 3:\n        ahead = 0.0", "weight": " + ahead", "last": "ahead = loss.item()"},
    ],
)
def test_what_a_micro_batch_measures_still_decides_about_the_next_step(parts: dict[str, str]) -> None:
    assert "COLL-RANKFLOW" in findings(micro(**parts)) or "accelerator.batch_mean" in str(converted(micro(**parts)))


@pytest.mark.parametrize(
    ("update", "reported"),
    [
        ("r.data = torch.tensor(np.quantile(dist.detach().numpy(), 0.9))", True),
        ("r.data = torch.quantile(dist.detach(), 0.9)", True),
        ("r.copy_(dist.detach().median())", True),
        ("r.mul_(0.9).add_(0.1 * dist.detach().mean())", True),
        ("r[...] = dist.detach().max()", True),
        ("r.data[0] = dist.mean()", True),
        ("r.data[0] = dist.detach().mean()", False),  # made that of all
        ("r = torch.tensor(np.percentile(dist.detach().numpy(), 90))", True),
        ("r.data = torch.tensor(0.5)", False),
        ("r.mul_(0.9)", False),
        ("r.fill_(epoch)", False),
        ("other.data = torch.quantile(dist.detach(), 0.9)", False),
        ("r.data = torch.tensor(np.quantile(weights, 0.9))", False),
        ("shown = np.quantile(dist.detach().numpy(), 0.9)", False),
    ],
)
def test_a_radius_of_the_distances_so_far(update: str, reported: bool) -> None:
    forward = f"{ZERO}dist = out.pow(2).sum(1)\nloss = r + F.relu(dist - r).mean()"
    before = "r, other, weights = torch.zeros(()), torch.zeros(()), np.ones(3)"
    text = script(imports="import numpy as np", before=before, forward=forward, batch_end=update)
    assert ("`r` is measured on one process's share" in told(text)) is reported
    assert ("COLL-RANKFLOW" in findings(text)) is reported


def test_what_is_set_anew_before_it_is_read_is_of_the_same_iteration() -> None:
    forward = f"{ZERO}dist = out.pow(2).sum(1)\nr = torch.zeros(())\nr.fill_(1)\nloss = r + dist.mean()"
    assert findings(script(forward=forward, batch_end="r.copy_(dist.detach().median())")) == []


COUNTED = f"{ZERO}{{}}\nloss = min(1.0, seen / 640) * F.cross_entropy(out, y)"


@pytest.mark.parametrize(
    ("rows", "summed"),
    [
        ("x.size(0)", "accelerator.gather_for_metrics(torch.tensor(x.size(0))).sum().item()"),
        ("len(y)", "len(accelerator.gather_for_metrics(y))"),
        (
            "len(x) / 7",
            "(\n    accelerator.gather_for_metrics(\n        torch.tensor(len(x) / 7, dtype=torch.float64)\n    )"
            "\n    .sum()\n    .item()\n)",
        ),
    ],
)
def test_how_many_samples_there_were_is_that_of_all_processes(rows: str, summed: str) -> None:
    assert converted(script(before="seen = 0", forward=COUNTED.format(f"seen += {rows}"))) == lifted(
        before="seen = 0", forward=COUNTED.format(f"seen += {summed}")
    )


def test_a_part_for_each_sample_is_reported() -> None:
    text = script(before="seen = 0.0", forward=COUNTED.format("seen += len(x) / 7"))
    assert "`seen` is measured on one process's share" in told(text, target="accelerate")


@pytest.mark.parametrize(
    "forward",
    [
        "seen += 16\nloss = min(1.0, seen / 640) * F.cross_entropy(out, y)",
        "seen = len(x)\nseen += len(y)\nloss = seen * F.cross_entropy(out, y)",
        "seen += len(x)\nloss = F.cross_entropy(out, y)",
        "seen += len(x)\nloss = F.cross_entropy(out, y, reduction='sum') / seen",
        "seen += len(x)\nloss = F.cross_entropy(out, y, reduction='sum').div(seen)",
        "seen += len(x)\nmore = F.cross_entropy(out, y, reduction='sum')\nmore /= seen\nloss = more",
    ],
)
def test_a_number_that_is_none_of_samples_so_far_or_divides_stays(forward: str) -> None:
    text = script(before="seen = 0", forward=f"{ZERO}{forward}")
    assert "gather_for_metrics" not in converted(text)
    assert "is measured on one process's share" not in told(text)


STEPS = """\
x, y = x.to(device), y.to(device)
optimizer.zero_grad()
loss = torch.zeros(1, device=device)
for t in range(4):
    missing = x[:, t] == 0
    if {test} torch.sum(missing) > 0:
        x[missing, t] = out[missing, 0]
    out = model(x)
    loss += F.cross_entropy(out, y)"""


@pytest.mark.parametrize(
    ("test", "codes"),
    [
        ("t > 0 and", []),
        ("t and", []),
        ("t != 0 and", []),
        ("t >= 1 and", []),
        ("", ["COLL-RANKFLOW"]),  # the output of the last batch, if it is of this one cannot be told
        ("t >= 0 and", ["COLL-RANKFLOW"]),
        ("t < 3 and", ["COLL-RANKFLOW"]),
        ("epoch > 0 and", ["COLL-RANKFLOW"]),
    ],
)
def test_what_the_step_before_has_set_is_of_this_iteration(test: str, codes: list[str]) -> None:
    text = script(before="out = torch.zeros(16, 3)", move="", forward=STEPS.format(test=test))
    assert [code for code in findings(text) if code == "COLL-RANKFLOW"] == codes


@pytest.mark.parametrize(
    ("entry", "asked", "carries"),
    [
        ('nets[name]["loss"]', 'nets[name]["model"].train()', False),  # beside the network
        ('nets[name]["rate"]', 'loss = loss * nets[name]["rate"]', True),
        ("nets[name][key]", 'loss = loss * nets[name]["rate"]', True),  # which entry it is is not known
    ],
)
def test_an_entry_beside_what_the_loss_is_computed_with_is_not_carried(entry: str, asked: str, carries: bool) -> None:
    before = 'name, key = "a", str(3)\nnets = {"a": {"model": model, "loss": 0.0, "rate": 1.0}}'
    forward = f'optimizer.zero_grad()\nloss = F.cross_entropy(nets[name]["model"](x), y)\n{asked}'
    slots = {"before": before, "forward": forward, "batch_end": f"{entry} = loss.item()"}
    assert (f"{entry} = {MEAN.format('loss')}" in converted(script(**slots))) == carries
    assert {"TABLE-OWN", "COLL-RANKFLOW"}.isdisjoint(findings(script(**slots)))
