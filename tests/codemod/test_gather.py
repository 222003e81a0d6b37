"""Evaluation loops: what the results are computed from is gathered at the narrowest place."""

from __future__ import annotations

import textwrap

import pytest
from scripts import added, convert, converted, findings, lifted, script

LOADERS = "loader = DataLoader(data, batch_size=16, shuffle=True)\ntest_loader = DataLoader(data, batch_size=16)"
PREPARE = """\
model, optimizer, loader, test_loader = accelerator.prepare(
    model, optimizer, loader, test_loader
)"""
MOVE = "x, y = x.to(device), y.to(device)"
CORRECT = "correct += (out.argmax(1) == y).sum().item()"


def evaluation(body: str, head: str = "for x, y in test_loader:", start: str = "correct = 0") -> str:
    """An evaluation after training."""
    loop = f"{head}\n{textwrap.indent(body, '    ')}"
    return f"model.eval()\n{start}\nwith torch.no_grad():\n{textwrap.indent(loop, '    ')}\nn = len(data)"


def evaluated(body: str, **options: str) -> str:
    """A script with such an evaluation."""
    return script(loader=LOADERS, after=evaluation(f"{MOVE}\n{body}", **options))


def gathered(body: str, **options: str) -> str:
    """The converted script with the loop's body after the conversion."""
    return lifted(loader=LOADERS, prepare=PREPARE, after=evaluation(body, **options))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (  # both results need the logits
            f'loss += F.cross_entropy(out, y, reduction="sum").item()\n{CORRECT}',
            "out, y = accelerator.gather_for_metrics((out, y))\n"
            f'loss += F.cross_entropy(out, y, reduction="sum").item()\n{CORRECT}',
        ),
        (  # predictions are narrower than logits
            "pred = out.argmax(1)\ncorrect += (pred == y).sum().item()",
            "pred = out.argmax(1)\npred, y = accelerator.gather_for_metrics((pred, y))\n"
            "correct += (pred == y).sum().item()",
        ),
        (
            "_, pred = torch.max(out, 1)\ncorrect += pred.eq(y.view_as(pred)).sum().item()",
            "_, pred = torch.max(out, 1)\npred, y = accelerator.gather_for_metrics((pred, y))\n"
            "correct += pred.eq(y.view_as(pred)).sum().item()",
        ),
        (
            "_, pred = out.topk(2, 1)\ncorrect += pred.eq(y.view(-1, 1)).sum().item()",
            "_, pred = out.topk(2, 1)\npred, y = accelerator.gather_for_metrics((pred, y))\n"
            "correct += pred.eq(y.view(-1, 1)).sum().item()",
        ),
        (CORRECT, f"out, y = accelerator.gather_for_metrics((out, y))\n{CORRECT}"),
        (  # a length is asked of what is gathered anyway
            f"total += x.size(0)\n{CORRECT}",
            f"out, y = accelerator.gather_for_metrics((out, y))\ntotal += y.size(0)\n{CORRECT}",
        ),
        (
            f"total += len(y)\n{CORRECT}",
            f"y, out = accelerator.gather_for_metrics((y, out))\ntotal += len(y)\n{CORRECT}",
        ),
        (  # leaving early is decided by the whole batch, too
            f"{CORRECT}\nif correct > 10:\n    break",
            f"out, y = accelerator.gather_for_metrics((out, y))\n{CORRECT}\nif correct > 10:\n    break",
        ),
    ],
)
def test_the_narrowest_place(before: str, after: str) -> None:
    start = "correct = loss = total = 0"
    text = evaluated(f"out = model(x)\n{before}", start=start)
    assert converted(text) == gathered(f"out = model(x)\n{after}", start=start)
    assert findings(text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "preds.append(model(x).argmax(1))",
            "preds.append(accelerator.gather_for_metrics(model(x)).argmax(1))",
        ),
        (
            "preds.extend(model(x).argmax(1).cpu().numpy())\nlabels.extend(y.cpu().numpy())",
            "y = accelerator.gather_for_metrics(y)\n"
            "preds.extend(accelerator.gather_for_metrics(model(x)).argmax(1).cpu().numpy())\n"
            "labels.extend(y.cpu().numpy())",
        ),
        (
            "loss += F.cross_entropy(model(x), y)",
            "y = accelerator.gather_for_metrics(y)\n"
            "loss += F.cross_entropy(accelerator.gather_for_metrics(model(x)), y)",
        ),
    ],
)
def test_a_model_called_where_its_result_is_kept(before: str, after: str) -> None:
    start = "preds, labels, loss = [], [], 0"
    assert converted(evaluated(before, start=start)) == gathered(after, start=start)


def test_enumerated_loaders() -> None:
    head = "for i, (x, y) in enumerate(test_loader):"
    gather = "out, y = accelerator.gather_for_metrics((out, y))"
    assert converted(evaluated(f"out = model(x)\n{CORRECT}", head=head)) == gathered(
        f"out = model(x)\n{gather}\n{CORRECT}", head=head
    )


def test_functions_that_evaluate() -> None:
    definition = textwrap.dedent(
        """\
        def test(model, {0}, loader):
            correct = 0
            with torch.no_grad():
                for x, y in loader:
        {1}            pred = model(x).argmax(1)
        {2}            correct += pred.eq(y).sum().item()
            return correct / len(loader.dataset)"""
    )
    before = definition.format("device", f"            {MOVE}\n", "")
    after = definition.format("accelerator", "", "            pred, y = accelerator.gather_for_metrics((pred, y))\n")
    prepare = PREPARE.replace("\n    model", "\n    model")
    assert converted(
        script(main=True, definitions=before, loader=LOADERS, epoch_end="test(model, device, test_loader)")
    ) == lifted(
        main=True,
        definitions=after,
        loader=LOADERS,
        prepare=prepare,
        epoch_end="test(model, accelerator, test_loader)",
    )


def test_a_loader_partly_used_on_the_cpu_keeps_its_moves() -> None:
    body = f"{MOVE}\nout = model(x).argmax(1)\n%sfor p, t in zip(out, y):\n    conf[t, p] += 1"
    start = "conf = torch.zeros(3, 3)"
    text = script(loader=LOADERS, after=evaluation(body % "", start=start))
    gather = "out, y = accelerator.gather_for_metrics((out, y))\n"
    output = converted(text)
    assert textwrap.indent(body % gather, " " * 8) in output
    assert "test_loader = accelerator.prepare_data_loader(test_loader, device_placement=False)\n" in output


# ---- what cannot be gathered is evaluated by every process


@pytest.mark.parametrize(
    ("body", "loaders"),
    [
        (f"out = model(x)\n{CORRECT}\nout = model(-x)\n{CORRECT}", LOADERS),
        (f"out = model(x)\n{CORRECT}", f"{LOADERS[:-1]}, collate_fn=list)"),
        ("out = [model(x)]\ncorrect += sum(o.sum().item() for o in out)", LOADERS),
        ("out = model(x.t())\ncorrect += out.sum().item()", LOADERS),
    ],
)
def test_replicated(body: str, loaders: str) -> None:
    text = script(loader=loaders, after=evaluation(f"{MOVE}\n{body}"))
    output = converted(text)
    assert "gather_for_metrics" not in output
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in output
    assert textwrap.indent(f"{MOVE}\n{body}", " " * 8) in output
    assert findings(text) == ["EVAL-REPLICATED"]


# A loader whose collate_fn is a parameter of the function that makes it, and how that is called.
COLLATED = """\
def loaders(data, {}):
    {}return DataLoader(data, batch_size=16, collate_fn=collate)
"""


@pytest.mark.parametrize(
    ("parameter", "first", "calls", "shared"),
    [
        ("collate=None", "", "loaders(data)", True),
        ("collate=None", "", "loaders(data, None)", True),
        ("collate=None", "", "loaders(data, collate=None)", True),
        ("other=None", "collate = other\n    ", "loaders(data)", True),
        ("collate", "", "loaders(data, None)", True),
        ("collate=None", "", "loaders(data, list)", False),
        ("collate=list", "", "loaders(data)", False),
        ("collate=None", "", "loaders(data); loaders(data, list)", False),
        ("collate=None", "", "loaders(data); loaders(data, collate=list)", False),
        ("collate=None", "", "loaders(data); loaders(*[data, list])", False),
        ("collate=None", "collate = collate or list\n    ", "loaders(data)", False),
        ("collate=None", "if data:\n        collate = list\n    ", "loaders(data)", False),
        ("collate=None", "", "loaders(data)\nmaker = loaders\nmaker(data, list)", False),
        ("collate=None", "", "loaders(data)\nfor maker in [loaders]:\n    maker(data, list)", False),
        ("collate=None", "", "loaders(data)\nrun(lambda maker: maker(data, list), loaders)", False),
        ("collate=None", "", "loaders(data)\npool.map(loaders, [data], [list])", False),
    ],
)
def test_a_collate_fn_that_is_surely_none(parameter: str, first: str, calls: str, shared: bool) -> None:
    called, _, more = calls.partition(")")
    loader = f"{LOADERS.splitlines()[0]}\ntest_loader = {called}){more}"
    body = f"{MOVE}\nout = model(x)\n{CORRECT}"
    text = script(definitions=COLLATED.format(parameter, first), loader=loader, after=evaluation(body))
    assert ("gather_for_metrics" in converted(text)) == shared


def test_a_literal_collate_fn_of_none() -> None:
    text = script(loader=f"{LOADERS[:-1]}, collate_fn=None)", after=evaluation(f"{MOVE}\nout = model(x)\n{CORRECT}"))
    assert "gather_for_metrics" in converted(text) and findings(text) == []


NOISY = """\
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = torch.randn(3)
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        out = self.layer(x)
        return out + 0.1 * torch.randn_like(out)
"""
PATIENCE = """\
    measured = {}
    if measured < best:
        best, waited = measured, 0
    else:
        waited += 1
    if waited > 2:
        break
"""


@pytest.mark.parametrize(
    ("count", "asked"),
    [
        ("total += x.size(0)", "total += y.size(0)"),
        ("total += len(x)", "total += len(y)"),
        ("total += x.shape[0]", "total += y.shape[0]"),
        ("total += x.size(1)", "total += accelerator.gather_for_metrics(x).size(1)"),
        ("total += x.numel()", "total += accelerator.gather_for_metrics(x).numel()"),
    ],
)
def test_what_is_only_counted_is_not_gathered_beside_a_forward_in_place(count: str, asked: str) -> None:
    right = "correct += (model(x).argmax(1) == y).sum().item()"
    text = evaluated(f"{right}\n{count}", start="correct = total = 0")
    lines = added(text)
    assert asked in lines and "y = accelerator.gather_for_metrics(y)" in lines
    assert converted(text).count("gather_for_metrics") == 2 + ("gather" in asked)


EVALUATE = """\
def evaluate(batches):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in batches:
            out = [model(x.to(device)){}]
            total += sum(F.cross_entropy(o, y.to(device)).item() for o in out)
    return total / len(batches)
"""


def stops_early(
    model: str = "Noisy()", draws: str = "", after: str = PATIENCE, definitions: str = NOISY + EVALUATE, setup: str = ""
) -> list[str]:
    """The findings of a script that stops by an evaluation which cannot be shared out."""
    text = script(
        definitions=definitions.format(draws),
        setup=setup,
        loader=LOADERS,
        model=f"model = {model}.to(device)",
        before="best, waited = float('inf'), 0",
        epoch_end=textwrap.dedent(after.format("evaluate(test_loader)")),
    )
    return findings(text)


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"model": "nn.Sequential(Noisy())"},
        {"model": "Net()", "draws": " + torch.rand(3, device=device)"},
        {"after": "    torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer).step({})"},
    ],
)
def test_a_decision_by_an_evaluation_that_draws(slots: dict[str, str]) -> None:
    """Every process evaluates everything, but with random numbers of its own."""
    assert {"COLL-RANKFLOW", "EVAL-REPLICATED"} <= set(stops_early(**slots))


STOPPER = """\
class Stopper:
    def __init__(self):
        self.best, self.waited, self.stop = None, 0, False

    def __call__(self, measured):
        if self.best is None or measured < self.best:
            self.best, self.waited = measured, 0
        else:
            self.waited += 1
            self.stop = self.waited > 2

    def save(self):
        torch.save(model.state_dict(), "m.pt")

stopper = Stopper()

"""


@pytest.mark.parametrize(
    ("stops", "told"),
    [("if stopper.stop:\n    break", True), ("print(stopper.stop)", False), ("if stopper.best:\n    break", True)],
)
def test_an_object_decides_by_what_it_is_told(stops: str, told: bool) -> None:
    after = f"    stopper({{}})\n{textwrap.indent(stops, '    ')}"
    found = stops_early(after=after, definitions=STOPPER + NOISY + EVALUATE)
    assert ("COLL-RANKFLOW" in found) is told


@pytest.mark.parametrize(
    "slots",
    [
        {"model": "Net()"},
        {"after": "    print({})"},
        {"after": "    measured = {}\n    if measured < best:\n        best = measured"},
    ],
)
def test_no_decision_or_nothing_drawn(slots: dict[str, str]) -> None:
    found = stops_early(**slots)
    assert "EVAL-REPLICATED" in found and "COLL-RANKFLOW" not in found


METER = """\
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n):
        self.sum += value * n
        self.count += n


"""


@pytest.mark.parametrize(
    ("kept", "value"),
    [
        ("meter.update(loss.item(), len(x))", "meter.sum / meter.count"),
        ("history.append(loss.item())", "sum(history) / len(history)"),
        ("losses[len(x)] = loss.item()", "losses[16]"),
    ],
)
def test_what_is_measured_may_be_kept_in_an_object(kept: str, value: str) -> None:
    evaluate = f"""\
def evaluate(batches):
    meter, history, losses = Meter(), [], {{{{}}}}
    with torch.no_grad():
        for x, y in batches:
            loss = sum(F.cross_entropy(o, y.to(device)) for o in [model(x.to(device)){{}}])
            {kept}
    return {value}
"""
    definitions = NOISY + METER + evaluate
    assert {"COLL-RANKFLOW", "EVAL-REPLICATED"} <= set(stops_early(definitions=definitions))
    assert "COLL-RANKFLOW" not in stops_early(definitions=definitions, after="    print({})")


@pytest.mark.parametrize(
    ("shuffled", "leaves", "told"),
    [
        (", shuffle=True", "break", True),
        (", shuffle=True", "return total / 2", True),
        (", shuffle=True", "pass", False),
        ("", "break", False),
        (", shuffle=False", "break", False),
        (", shuffle=True, generator=torch.Generator().manual_seed(0)", "break", False),
    ],
)
def test_a_decision_by_the_first_batches_of_a_random_order(shuffled: str, leaves: str, told: bool) -> None:
    """Every process evaluates the first batches by itself, and these are other samples on each."""
    cut = EVALUATE.replace("for x, y in batches:", "for i, (x, y) in enumerate(batches):")
    cut = cut.replace("            out =", f"            if i >= 2:\n                {leaves}\n            out =")
    text = script(
        definitions=cut.format(""),
        loader=LOADERS.replace(
            "test_loader = DataLoader(data, batch_size=16)", f"test_loader = DataLoader(data, batch_size=16{shuffled})"
        ),
        before="best, waited = float('inf'), 0",
        epoch_end=textwrap.dedent(PATIENCE.format("evaluate(test_loader)")),
    )
    assert ("COLL-RANKFLOW" in findings(text)) == told


def test_what_is_drawn_when_a_network_is_made_is_not_drawn_again() -> None:
    layer = "        self.layer = nn.Linear(8, 3)\n"
    made = NOISY.replace(layer, f"{layer}        self.reset()\n").replace("0.1 * torch.randn_like(out)", "0")
    reset = "    def reset(self):\n        self.layer.weight.data.uniform_(-1, 1)\n\n    def forward"
    assert "COLL-RANKFLOW" not in stops_early(definitions=made.replace("    def forward", reset) + EVALUATE)


def test_an_evaluation_that_seeds_itself() -> None:
    seeded = EVALUATE.replace("    model.eval()", "    torch.manual_seed(0)\n    model.eval()")
    found = stops_early(definitions=NOISY + seeded)
    assert "EVAL-REPLICATED" in found and "COLL-RANKFLOW" not in found


def test_processes_that_are_seeded_alike_draw_alike_for_a_while() -> None:
    """Until a smaller last batch gives them shares of different sizes."""
    assert "COLL-RANKFLOW" in stops_early(setup="torch.manual_seed(0)")


def test_left_out() -> None:
    text = evaluated(f"out = model(x)\n{CORRECT}")
    output = converted(text, ignore=("METRIC",))
    assert "gather_for_metrics" not in output and f"        {MOVE}\n        out = model(x)\n" in output
    assert findings(text, ignore=("METRIC",)) == ["EVAL-REPLICATED"]
    assert findings(text, ignore=("METRIC", "EVAL-REPLICATED")) == []


def test_training_loops_are_not_gathered() -> None:
    slots = {
        "forward": "optimizer.zero_grad()\nout = model(x)\nloss = F.cross_entropy(out, y)",
        "batch_end": "correct = (out.argmax(1) == y).sum().item()",
    }
    assert converted(script(**slots)) == lifted(**slots)


def test_loops_over_anything_else_stay() -> None:
    body = f"out = model(x.to(device))\n{CORRECT.replace('== y', '== y.to(device)')}"
    after = evaluation(body, head="for x, y in [data[:8]]:")
    output = converted(script(after=after))
    assert output.endswith(f"        optimizer.step()\n{after}\n")
    assert findings(script(after=after)) == []


def test_why_a_loop_is_not_shared_out() -> None:
    result = convert(evaluated(f"total += len(y)\nout = model(x)\n{CORRECT}", start="total = correct = 0"))
    assert result.plan is not None
    assert all("again" not in f.message for f in result.plan.findings)


@pytest.mark.parametrize(
    "look",
    [
        "for x, y in test_loader:\n    break\nprint(x.numpy())",
        "sums = [model(x.to(device)).sum().item() for x, y in test_loader]\nprint(sums)",
    ],
)
def test_a_loop_over_a_loader_of_which_every_process_has_all_and_one_that_is_shared_out(look: str) -> None:
    """It says which loader that is, and why; if both can be prepared, it gathers."""
    accuracy = (
        f"def accuracy(batches):\n    right = 0\n    for x, y in batches:\n        {MOVE}\n        out = model(x)\n"
    )
    accuracy += "        right += (out.argmax(1) == y).sum().item()\n    return right"
    both = "print(accuracy(loader), accuracy(test_loader))"
    assert "accelerator.gather_for_metrics" in converted(script(loader=LOADERS, definitions=accuracy, after=both))
    text = script(loader=LOADERS, definitions=accuracy, after=f"{both}\n{look}")
    plan = convert(text).plan
    (told,) = [f for f in plan.findings if f.code == "METRIC-LOCAL"] if plan is not None else []
    made, looked = (1 + text[: text.index(part)].count("\n") for part in ("test_loader = ", look))
    assert f"made in line {made}, of which every process has all, as the loop of line {looked} cannot" in told.message
    assert "use a loop of its own for it" in told.remedy


def test_a_perplexity_is_that_of_the_gathered_mean() -> None:
    ends = "import math\nprint(math.exp(total / len(test)))"
    add = "total += F.cross_entropy(model(x), y).item()"
    loop = f"total = 0.0\nwith torch.no_grad():\n    for x, y in {{}}:\n        {add}\n"
    shared = script(before="test = DataLoader(data, batch_size=16)", after=loop.format("test") + ends)
    gathered = "total += F.cross_entropy(accelerator.gather_for_metrics(model(x)), y).item()"
    assert [line for line in added(shared) if "gather" in line] == ["y = accelerator.gather_for_metrics(y)", gathered]
    everything = script(before="test = [data[:4]]", after=loop.format("test") + ends)
    assert not [line for line in added(everything) if "gather" in line]


METRIC = "import torchmetrics\nfrom torchmetrics.classification import MulticlassAccuracy"


@pytest.mark.parametrize(
    ("made", "used", "expected"),
    [
        ("MulticlassAccuracy(3)", "metric.update(model(x), y)", True),
        ("torchmetrics.Accuracy(task='multiclass', num_classes=3)", "metric(model(x), y)", True),
        ("MulticlassAccuracy(3, sync_on_compute=False)", "metric.update(model(x), y)", False),
        ("MulticlassAccuracy(3)", "right += (model(x).argmax(1) == y).sum().item()", False),
        ("[]", "metric.append(model(x).argmax(1))", False),
    ],
)
def test_metrics_that_join_the_processes_themselves(made: str, used: str, expected: bool) -> None:
    text = script(
        from_imports=METRIC,
        before=f"metric = {made}\ntest_loader = DataLoader(data, batch_size=8)\nright = 0",
        after=f"for x, y in test_loader:\n    {used}\nprint(metric, right)",
    )
    assert ("METRIC-SYNC" in findings(text)) is expected


MADE = """\
def make(data, size, **{name}):
    return DataLoader(data, batch_size=size, **{name})


{use}"""


@pytest.mark.parametrize(
    ("name", "use", "given", "known"),
    [
        ("kwargs", "", "num_workers=0", True),
        ("options", "", "**{'num_workers': 0}", True),
        ("kwargs", "", "**settings", False),
        ("kwargs", "", "collate_fn=settings", False),
        ("kwargs", "", "pin_memory=True, **{}", True),
        ("kwargs", "settings.maker = make\n", "num_workers=0", False),  # which others may call
        ("kwargs", "def hand(settings):\n    settings.maker = make\n", "num_workers=0", False),
        ("kwargs", "def another():\n    return make(data, 8, pin_memory=True)\n", "num_workers=0", True),
        ("kwargs", "def another():\n    return make(data, 8, **settings)\n", "num_workers=0", False),
    ],
)
def test_what_a_function_hands_on_to_the_loader(name: str, use: str, given: str, known: bool) -> None:
    """Batches are collated as ever if none of its calls says otherwise."""
    loaders = f"loader = make(data, 16, shuffle=True)\ntest_loader = make(data, 16, {given})"
    text = script(
        from_imports="from other import settings",
        definitions=MADE.format(name=name, use=use),
        loader=loaders,
        after=evaluation(f"{MOVE}\nout = model(x)\n{CORRECT}"),
    )
    assert ("gather_for_metrics" in converted(text)) is known
    assert ("EVAL-REPLICATED" in findings(text)) is not known


UNKNOWN = "from measures import accuracy, Deck"


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("print(accuracy(model, loader))", True),
        ("score = accuracy(model=model, data=loader)", True),
        ("print(accuracy(model, [1, 2]), len(loader))", False),
        ("print(accuracy(model, data))", False),
        (
            "other = DataLoader(data, batch_size=8)\nprint(accuracy(model, other))",
            False,
        ),  # which every process has whole
    ],
)
def test_a_prepared_loader_in_unknown_hands(use: str, told: bool) -> None:
    text = script(from_imports=UNKNOWN, epoch_end=use)
    assert [code for code in findings(text) if code == "METRIC-LOCAL"] == ["METRIC-LOCAL"] * told


IMAGES = "x = x.to(device)"
COUNTED = f"total += x.size(0)\n{CORRECT}"


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (f"if use:\n    {MOVE}", True),
        (f"if use:\n    {IMAGES}\n    y = y.to(device)", True),
        (f"if use:\n    if device:\n        {MOVE}", True),
        (f"{MOVE}\nif use:\n    x = x[1:]", False),  # it has other rows by then
        (f"{MOVE}\nif use:\n    x = x.flip(1)\nelse:\n    x = x[x[:, 0] > 0]", False),
        (f"{MOVE}\nif use:\n    y = y[1:]", False),
        (f"{MOVE}\nx = x.float().unsqueeze(1).squeeze(1)", False),  # which dimension is taken out is not looked at
        (f"{MOVE}\nx = x.transpose(1, 2)[:, 0].float()", True),
        (f"{MOVE}\nx = x.permute(0, 2, 1).unsqueeze(1)", True),
        (f"{MOVE}\nx = x.view(-1, 4)", False),
    ],
)
def test_what_is_moved_in_some_runs_need_not_be_gathered_for_its_length(moved: str, expected: bool) -> None:
    body = f"{moved}\nout = model(x)\n{COUNTED}"
    after = evaluation(body, start="correct = total = 0\nuse = bool(len(data))")
    text = converted(script(loader=LOADERS, after=after))
    assert ("total += y.size(0)" in text) is expected
    assert ("(out, y))" in text) is expected


@pytest.mark.parametrize("returned", ["model, sum(losses), right", "model"])
def test_a_function_that_trains_evaluates_and_returns_the_model(returned: str) -> None:
    """What the variable holds afterwards is what the function was given: both are worked out together."""
    definitions = (
        "def run(model, loader, held_out):\n    losses, right = [], []\n"
        "    for x, y in loader:\n        x, y = x.to(device), y.to(device)\n        optimizer.zero_grad()\n"
        "        loss = F.cross_entropy(model(x), y)\n        loss.backward()\n        optimizer.step()\n"
        "        losses.append(loss.item())\n"
        "    with torch.no_grad():\n        for x, y in held_out:\n            x, y = x.to(device), y.to(device)\n"
        "            output = model(x)\n            right.append(F.cross_entropy(output, y).item())\n"
        f"    return {returned}\n"
    )
    bound = "model, losses, right" if "," in returned else "model"
    text = script(
        definitions=definitions,
        loader="loader = DataLoader(data, batch_size=16, shuffle=True)\nheld_out = DataLoader(data, batch_size=8)",
        epochs="for epoch in range(2):",
        epoch=f"{bound} = run(model, loader, held_out)",
        loop="",
        move="",
        forward="",
        backward="",
        step="",
    )
    assert "output, y = accelerator.gather_for_metrics((output, y))" in converted(text)


@pytest.mark.parametrize(
    ("made", "now"),
    [
        ("model(x.to(device))", "accelerator.gather_for_metrics(model(x))"),
        ("model(x.to(device)).argmax(1)", "accelerator.gather_for_metrics(model(x).argmax(1))"),
    ],
)
def test_a_list_with_an_entry_for_each_batch(made: str, now: str) -> None:
    text = script(before=f"with torch.no_grad():\n    outs = [{made} for x, y in loader]")
    assert converted(text) == lifted(before=f"with torch.no_grad():\n    outs = [{now} for x, y in loader]")
    assert not findings(text)


@pytest.mark.parametrize(
    "made",
    [
        "model(x.to(device)).mean() for x, y in loader",
        "model(x.to(device)) for x, y in loader if len(x) > 3",
        "(model(x.to(device)), y) for x, y in loader",
        "model(x.to(device)).sum().item() for x, y in loader",
    ],
)
def test_a_list_of_what_is_no_tensor_of_rows(made: str) -> None:
    text = script(before=f"with torch.no_grad():\n    outs = list([{made}])")
    assert "gather_for_metrics" not in converted(text) and findings(text) == ["METRIC-LOCAL"]
    assert any("a comprehension makes" in f.message for f in convert(text).plan.findings)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "made",
    [
        "[model(x) for x, y in test] if loss.item() < 0.5 else None",
        "loss.item() < 0.5 and [model(x) for x, y in test]",
        "[[model(x) for x, y in test] for _ in range(int(y.sum()))]",
    ],
)
def test_a_list_that_only_some_processes_may_make(made: str) -> None:
    text = script(before="test = DataLoader(data, batch_size=16)", epoch_end=f"outs = {made}")
    assert "gather_for_metrics" not in converted(text)
    assert any("may leave it out" in f.message for f in convert(text).plan.findings)  # type: ignore[union-attr]


LAST = """\
for inputs, labels in held_out:
    out = model(inputs.to(device)).argmax(1)
    right += (out == labels.to(device)).sum().item()
"""


@pytest.mark.parametrize(
    ("after", "gathers"),
    [
        ("", True),
        ("print(labels)", True),  # gathered
        ("print(inputs.mean())", False),
        ("for inputs, labels in loader:\n    print(inputs.mean())", True),  # of another loop
    ],
)
def test_the_last_batch_is_read_after_the_loop(after: str, gathers: bool) -> None:
    text = script(before="held_out = DataLoader(data, batch_size=16)", after=f"right = 0\n{LAST}print(right)\n{after}")
    assert ("gather_for_metrics" in converted(text)) is gathers
    assert any("of its last batch" in f.message for f in convert(text).plan.findings) is not gathers  # type: ignore[union-attr]


@pytest.mark.parametrize("numbers", ["range(len(batch))", "range(2)"])
def test_a_batch_whose_parts_are_moved_one_by_one_is_gathered(numbers: str) -> None:
    moved = f"for i in {numbers}:\n    batch[i] = batch[i].to(device)\nx, y = batch\npred = model(x).argmax(1)"
    counted = "correct += (pred == y).sum().item()"
    text = script(loader=LOADERS, after=evaluation(f"{moved}\n{counted}", head="for batch in test_loader:"))
    assert "pred, y = accelerator.gather_for_metrics((pred, y))" in converted(text)


@pytest.mark.parametrize("kept", ["parts", "batch"])
def test_what_is_put_into_something_that_stays_is_not(kept: str) -> None:
    moved = f"for i in range(2):\n    {kept}[i] = batch[i].to(device)\nx, y = {kept}\npred = model(x).argmax(1)"
    after = evaluation(
        f"{moved}\ncorrect += (pred == y).sum().item()",
        head="for batch in test_loader:",
        start="correct = 0\nparts = [0, 0]",
    )
    text = script(loader=LOADERS, after=f"{after}\nprint({kept}[0].sum())")
    assert "gather_for_metrics" not in converted(text)


# ---- loaders that training goes through, too, deal shares in any case

SIAMESE = """\
class Siamese(nn.Module):
    def __init__(self, branch):
        super().__init__()
        self.branch = branch

    def forward(self, x):
        return self.branch(x)

    def embedding(self, x):
        return self.branch(x)

    def centred(self, x):
        return self.branch(x) - self.branch(x).mean(0)


def measured(out, y):
    return {"hits": (out.argmax(1) == y).sum().item(), "loss": F.cross_entropy(out, y).item()}
"""
GATHERED = "accelerator.gather_for_metrics({})"
EMBEDDED = GATHERED.format("accelerator.unwrap_model(model).embedding(x)")


@pytest.mark.parametrize(
    ("body", "gathered"),
    [
        ("correct += model.embedding(x).argmax(1).eq(y).sum().item()", f"{EMBEDDED}.argmax(1)"),
        ("kept[n : n + len(x)] = model.embedding(x).cpu()\nn += len(x)\ncorrect += y.sum()", f"{EMBEDDED}.cpu()"),
        ("some = measured(model(x), y)\ncorrect += some['hits']", f"measured({GATHERED.format('model(x)')}, y)"),
        ("some = measured(model(x), y)\nfor name in some:\n    kept[name] += some[name]", GATHERED.format("model(x)")),
        ("correct += model.centred(x).argmax(1).eq(y).sum().item()", ""),
        ("some = measured(model(x), model(x + 1))\ncorrect += some['hits']", ""),
    ],
)
def test_networks_that_run_in_a_statement_that_measures(body: str, gathered: str) -> None:
    text = script(
        definitions=SIAMESE,
        model="model = Siamese(Net()).to(device)",
        after=evaluation(f"{MOVE}\n{body}", start="correct, n, kept = 0, 0, {}").replace("test_loader", "loader"),
    )
    assert ("METRIC-LOCAL" in findings(text)) is not bool(gathered)
    assert "".join(gathered.split()) in "".join(converted(text).split())


@pytest.mark.parametrize(("given", "shared"), [("out", True), ("out - out.mean(0)", False)])
def test_a_network_that_sets_samples_against_each_other_is_not_trusted(given: str, shared: bool) -> None:
    """Though what it gives is compared with a part of the batch."""
    network = f"class Own(Net):\n    def forward(self, x):\n        out = self.layer(x)\n        return {given}\n"
    body = f"{MOVE}\ncorrect += model(x).argmax(1).eq(y).sum().item()"
    text = script(definitions=network, loader=LOADERS, model="model = Own().to(device)", after=evaluation(body))
    assert ("accelerator.gather_for_metrics(model(x))" in converted(text)) is shared
    assert ("EVAL-REPLICATED" in findings(text)) is not shared


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("correct += model.centred(x).argmax(1).eq(y).sum().item()", "the model runs in the statement that keeps"),
        ("correct += y.sum().item()\nmodel(x)", "before the model has run for the last time"),
    ],
)
def test_why_what_is_kept_cannot_be_gathered(body: str, reason: str) -> None:
    text = script(
        definitions=SIAMESE,
        model="model = Siamese(Net()).to(device)",
        after=evaluation(f"{MOVE}\n{body}").replace("test_loader", "loader"),
    )
    plan = convert(text).plan
    assert plan is not None and [reason in f.message for f in plan.findings if f.code == "METRIC-LOCAL"] == [True]


@pytest.mark.parametrize(
    ("test", "shared"),
    [
        ("isinstance(y, list)", True),
        ("type(x) in (list, tuple)", True),
        ("y[0] > 1", False),
        ("isinstance(3, y)", False),
    ],
)
def test_what_kind_of_object_a_batch_has_is_the_same_everywhere(test: str, shared: bool) -> None:
    text = evaluated(f"if {test}:\n    kept.append(3)\nout = model(x)\n{CORRECT}", start="correct, kept = 0, []")
    assert ("out, y = accelerator.gather_for_metrics((out, y))" in converted(text)) is shared
    assert ("EVAL-REPLICATED" in findings(text)) is not shared


def test_how_many_batches_there_were_is_no_result_of_a_share() -> None:
    """Every process has as many batches, and fewer samples."""
    text = script(
        from_imports="from elsewhere import unknown",
        after="total, n, rows = 0, 0, 0\nfor x, y in loader:\n    total += unknown(model, x)\n    n += 1\n"
        "    rows += len(x)\nprint(total / n, rows)",
    )
    plan = convert(text).plan
    assert plan is not None and [f.code for f in plan.findings] == ["METRIC-LOCAL"]
    assert "(`rows`, `total`)" in plan.findings[0].message


EMBEDS = """\
class Flat(Net):
    def embed(self, x):
        return self.layer(x)


class Deep(Net):
    def embed(self, x):
        return {deep}


def embeddings(loader, model):
    kept = []
    with torch.no_grad():
        for x, y in loader:
            x = x.to(device)
            kept.append(model.embed(x).cpu())
    return torch.cat(kept)
"""
EITHER = "model = Flat().to(device)\nif len(data) > 99:\n    model = Deep().to(device)"


@pytest.mark.parametrize(
    ("deep", "shared"),
    [("F.relu(self.layer(x)) * 2", True), ("self.layer(x).mean(0)", False), ("unknown(self.layer(x))", False)],
)
def test_a_method_of_one_of_several_networks(deep: str, shared: bool) -> None:
    slots = {"from_imports": "from elsewhere import unknown", "definitions": EMBEDS.format(deep=deep), "model": EITHER}
    tested = "tested = DataLoader(data, batch_size=8)\nprint(embeddings(tested, model).mean())"
    text = script(**slots, after=tested)
    gathers = "accelerator.gather_for_metrics(accelerator.unwrap_model(model).embed(x)).cpu()"
    assert (gathers in "".join(converted(text).split())) is shared
    assert findings(text) == ([] if shared else ["EVAL-REPLICATED"])
