"""Loaders in dicts and lists, and loops that train in some passes and evaluate in others."""

from __future__ import annotations

import ast
import re
import textwrap

import pytest
from scripts import convert, converted, findings, lifted, script, unchanged

LOADERS = "loaders = {'train': DataLoader(data, batch_size=16), 'val': DataLoader(data, batch_size=32)}"
MADE = "loaders = {p: DataLoader(data, batch_size=16) for p in ['train', 'val']}"
TWO = "a = DataLoader(data, batch_size=16)\nb = DataLoader(data, batch_size=16)"
SUM = """\
total += (
    accelerator.gather_for_metrics(loss.detach().cpu().double() * len(y))
    .sum()
    .item()
)"""
PHASES = """\
for phase in ['train', 'val']:
    total = 0.0
    for x, y in {iterable}:{move}
        loss = F.cross_entropy(model(x), y)
        if phase == 'train':
            optimizer.zero_grad()
            {backward}
            optimizer.step()
{kept}
    {print}(phase, total / len(data))"""
RUN = """\
def run(model, loader, optimizer=None, train=True, mode="train", {device}):
    total = n = 0
    losses = []
    for x, y in loader:{move}
        out = model(x)
        loss = F.cross_entropy(out, y)
{step}
{kept}
    return {result}"""
STEP = "optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()"
IF_TRAIN = f"if train:\n    {STEP}"
UNPACK = "x, _ = torch.nn.utils.rnn.pad_packed_sequence(torch.nn.utils.rnn.pack_padded_sequence(x, y), True"
BEST = """\
def best(out, y, most=(1, 2)):
    ranked = out.topk(max(most), 1)[1].t()
    right = ranked.eq(y.view(1, -1).expand_as(ranked))
    return [right[:k].reshape(-1).float().sum(0).mul_(100.0 / y.size(0)) for k in most]
"""
KEEP = """\
class Keep:
    def __init__(self):
        self.losses = []
        self.hits = 0

    def add(self, loss, out, y):
        self.losses.append(loss.item())
        self.hits += (out.argmax(1) == y).sum().item()
"""
WEIGHED = "total += loss.item() * len(y)"
EMPTY = dict.fromkeys(("loop", "move", "forward", "backward", "step"), "")


def phases(loaders: str = LOADERS, iterable: str = "loaders[phase]", kept: str = WEIGHED) -> str:
    """A script whose every epoch has two phases."""
    moved = "\n        x, y = x.to(device), y.to(device)"
    body = PHASES.format(
        iterable=iterable, move=moved, backward="loss.backward()", kept=textwrap.indent(kept, " " * 8), print="print"
    )
    return script(loader=loaders, **{**EMPTY, "epoch": body})


def phases_lifted(
    loaders: str = LOADERS, iterable: str = "loaders[phase]", kept: str = SUM, prepared: tuple[str, ...] = ()
) -> str:
    """What becomes of it; `prepared` are the loaders that prepare gets."""
    names = ", ".join(("model", "optimizer", *(prepared or ('loaders["train"]', 'loaders["val"]'))))
    line = f"{names} = accelerator.prepare({names})"
    if len(line) > 88:
        line = f"{names} = accelerator.prepare(\n    {names}\n)"
    body = PHASES.format(
        iterable=iterable,
        move="",
        backward="accelerator.backward(loss)",
        kept=textwrap.indent(kept, " " * 8),
        print="accelerator.print",
    )
    return lifted(loader=loaders, prepare=line, **{**EMPTY, "epoch": body})


def run(step: str = IF_TRAIN, kept: str = WEIGHED, result: str = "total", after: bool = False) -> str:
    """A script with one function for training and evaluation (the function of its conversion, if `after`)."""
    definition = RUN.format(
        device="accelerator=None" if after else "device=None",
        move="" if after else "\n        x, y = x.to(device), y.to(device)",
        step=textwrap.indent(step, " " * 8),
        kept=textwrap.indent(kept, " " * 8),
        result=result,
    )
    return script(
        definitions=definition,
        loader=TWO,
        **{**EMPTY, "epoch": "run(model, a, optimizer)\nprint(run(model, b, train=False, mode='val'))"},
    ).replace(", device=None", "")


def sums(text: str) -> list[str]:
    """The statements of a converted script that add to a sum."""
    return [ast.unparse(n) for n in ast.walk(ast.parse(converted(text))) if isinstance(n, ast.AugAssign)]


# ---- loaders in containers


@pytest.mark.parametrize(
    ("loaders", "iterable", "prepared"),
    [
        (LOADERS, "loaders[phase]", ()),
        (MADE, "loaders[phase]", ()),
        (LOADERS, "enumerate(loaders[phase])", ()),
        (f"{TWO}\nloaders = {{'train': a, 'val': b}}", "loaders[phase]", ()),
        ("loaders = dict(train=DataLoader(data, 4), val=DataLoader(data, 4))", "loaders[phase]", ()),
        ("loaders = {k: DataLoader(v, 4) for k, v in {'train': data, 'val': data}.items()}", "loaders[phase]", ()),
        (
            "sets = {'train': data, 'val': data}\nloaders = {k: DataLoader(sets[k], 4) for k in sets}",
            "loaders[phase]",
            (),
        ),
        ("loaders = dict((p, DataLoader(data, 4)) for p in ['train', 'val'])", "loaders[phase]", ()),
        ("loaders = dict([('train', DataLoader(data, 4)), ('val', DataLoader(data, 8))])", "loaders[phase]", ()),
        (TWO, "(a if phase == 'train' else b)", ("a", "b")),
        (TWO, "{'train': a, 'val': b}[phase]", ("a", "b")),
        (f"{TWO}\nloaders = [a, b]", "loaders[phase == 'val']", ("loaders[0]", "loaders[1]")),
    ],
)
def test_loaders_are_prepared_where_they_are_kept(loaders: str, iterable: str, prepared: tuple[str, ...]) -> None:
    text = phases(loaders, iterable)
    if "enumerate" in iterable:
        text = text.replace("for x, y in", "for i, (x, y) in")
        assert converted(text) == phases_lifted(loaders, iterable).replace("for x, y in", "for i, (x, y) in")
    else:
        assert converted(text) == phases_lifted(loaders, iterable, prepared=prepared)
    assert findings(text) == []


@pytest.mark.parametrize(
    "loop",
    [
        "for phase, loader in loaders.items():\n    for x, y in loader:",
        "for loader in loaders.values():\n    for x, y in loader:",
    ],
)
def test_loops_over_the_entries(loop: str) -> None:
    slots = {"loader": LOADERS, **dict.fromkeys(("move", "forward", "backward", "step"), "")}
    body = "loss = F.cross_entropy(model(x), y)\noptimizer.zero_grad()\n{}\noptimizer.step()"
    body = textwrap.indent(body, " " * 8)
    moved = f"{loop}\n        x, y = x.to(device), y.to(device)\n"
    text = script(loop=moved + body.format("loss.backward()"), **slots)
    output = converted(text)
    assert 'model, optimizer, loaders["train"], loaders["val"] = accelerator.prepare(' in output
    assert f"{textwrap.indent(loop, '    ')}\n            loss = " in output


@pytest.mark.parametrize(
    "loaders",
    [
        "loaders = (DataLoader(data, 4), DataLoader(data, 4))",  # a tuple stays as it is
        "loaders = {p.lower(): DataLoader(data, 4) for p in ['TRAIN', 'VAL']}",  # keys that are not written out
        "loaders = {p: DataLoader(data, 4) for p in ['train', 'val', 'test'] if p != 'test'}",
        "loaders = dict((p.lower(), DataLoader(data, 4)) for p in ['TRAIN', 'VAL'])",
        "loaders = {'train': DataLoader(data, 4), 'val': data}",  # something else than a loader
        "loaders = {'train': DataLoader(data, 4)}\nloaders['val'] = data",  # or who knows what
        "loaders = {'train': DataLoader(data, 4)}\nloaders.update(val=data)",
        "names = ['train']\nnames.append('val')\nloaders = {p: DataLoader(data, 4) for p in names}",
        f"{TWO}\nloaders = {{'train': a, 'val': b}}\nfor x, y in a:\n    optimizer.zero_grad()",  # under two names
    ],
)
def test_entries_that_cannot_be_replaced(loaders: str) -> None:
    iterable = "loaders[phase == 'val']" if "(Data" in loaders and "{" not in loaders else "loaders[phase]"
    assert unchanged(phases(loaders, iterable)).code == "PREP-NO-POINT"


def test_what_is_in_a_container_in_a_container_is_prepared_before() -> None:
    output = converted(phases(f"{TWO}\nloaders = {{'train': a, 'val': [b]}}", "loaders['val'][0]"))
    assert "b = accelerator.prepare(b)\nloaders = {'train': a, 'val': [b]}\n" in output


@pytest.mark.parametrize(
    ("alias", "prepared"),
    [("loader = loaders[phase]", ()), ("loader = a if phase == 'train' else b", ("a", "b"))],
)
def test_a_variable_for_the_loader_of_the_phase(alias: str, prepared: tuple[str, ...]) -> None:
    loaders = TWO if prepared else LOADERS
    text = phases(loaders, "loader").replace("total = 0.0", f"total = 0.0\n        {alias}")
    after = phases_lifted(loaders, "loader", prepared=prepared)
    assert converted(text) == after.replace("total = 0.0", f"total = 0.0\n        {alias}")


def test_an_entry_is_prepared_before_it_gets_another_name() -> None:
    after = f"{LOADERS}\nloaders['train'] = accelerator.prepare(loaders['train'])\nloader = loaders['train']"
    assert converted(script(loader=f"{LOADERS}\nloader = loaders['train']")) == lifted(
        loader=after, prepare="model, optimizer = accelerator.prepare(model, optimizer)"
    )


# ---- the variable is bound to what it holds already


@pytest.mark.parametrize("again", ["model = model.eval()", "model = fit(model)"])
def test_bound_again_to_the_same(again: str) -> None:
    definitions = "def fit(model):\n    model.train()\n    return model"
    assert converted(script(definitions=definitions, after=again)) == lifted(definitions=definitions, after=again)


def test_bound_in_every_epoch_to_the_same() -> None:
    slots = {"epoch": "model = model.train()", "epoch_end": "model = model.eval()"}
    assert converted(script(**slots)) == lifted(**slots)


def test_bound_again_to_another() -> None:
    again = "model = Net().to(device)\noptimizer = torch.optim.SGD(model.parameters(), 0.1)"
    assert unchanged(script(epoch_end=again)).code == "PREP-NO-POINT"


def test_an_optimizer_that_is_made_anew_for_the_same_model() -> None:
    again = "optimizer = torch.optim.SGD(model.parameters(), 0.1)"
    prepared = f"{again}\noptimizer = accelerator.prepare(optimizer)"
    assert converted(script(epoch_end=again)) == lifted(epoch_end=prepared)


# ---- what such loops add up


@pytest.mark.parametrize(
    "step",
    [
        IF_TRAIN,
        f"if optimizer is not None:\n    {STEP}",
        f"if mode == 'train':\n    {STEP}",
        f"if model.training:\n    {STEP}",
        f"if not train:\n    pass\nelse:\n    {STEP}",
        f"if mode == 'none':\n    train = False\n{IF_TRAIN}",  # no batch of a pass that evaluates turns it on
    ],
)
def test_sums_of_both_kinds_of_pass(step: str) -> None:
    text = run(step, f"{WEIGHED}\nn += y.size(0)", "total / n")
    share = "accelerator.gather_for_metrics(loss.detach().cpu().double() * len(y)).sum().item()"
    assert sums(text)[-2:] == [f"total += {share}", "n += accelerator.gather_for_metrics(y).size(0)"]
    assert findings(text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("n += len(y)", "n += len(accelerator.gather_for_metrics(y))"),
        ("n += y.shape[0]", "n += accelerator.gather_for_metrics(y).shape[0]"),
        (
            "n += torch.sum(out.argmax(1) == y)",
            "n += accelerator.gather_for_metrics(torch.sum(out.argmax(1) == y).detach()).sum()",
        ),
        (
            "n += (out.argmax(1) == y).sum().item()",
            "n += accelerator.gather_for_metrics((out.argmax(1) == y).sum().detach()).sum().item()",
        ),
        ("total += loss.item()", "total += accelerator.batch_mean(loss.detach()).item()"),
    ],
)
def test_what_is_added(before: str, after: str) -> None:
    text = run(kept=before, result="total, n")
    assert sums(text) == [after]
    assert findings(text) == []


@pytest.mark.parametrize(
    ("options", "loss", "loader", "told"),
    [
        ({"target": "accelerate"}, "", "", True),
        ({"target": "accelerate"}, "", ", drop_last=True", False),
        ({"target": "runtime"}, "", "", False),
        ({"target": "runtime"}, ", ignore_index=2", "", True),  # a mean over fewer than all samples
    ],
)
def test_means_of_means_are_told_of(options: dict[str, str], loss: str, loader: str, told: bool) -> None:
    text = run(kept="total += loss.item()", result="total").replace(
        "F.cross_entropy(out, y", f"F.cross_entropy(out, y{loss}"
    )
    text = text.replace("batch_size=16", f"batch_size=16{loader}")
    assert ('reduce(loss.detach(), reduction="mean")' in converted(text, **options)) is (
        told or "accelerate" in options.values()
    )
    assert ("METRIC-TRAIN" in findings(text, **options)) is told


def test_every_statement_that_adds_to_a_sum() -> None:
    step = f"if train:\n    {STEP}\n    n += len(y)\nelse:\n    n += len(x)"
    assert sums(run(step, "pass", "n")) == [
        "n += len(accelerator.gather_for_metrics(y))",
        "n += accelerator.gather_for_metrics(torch.tensor(len(x))).sum().item()",
    ]


@pytest.mark.parametrize(
    ("kept", "result"),
    [
        ("losses.append(loss)", "losses"),  # a gradient may be asked for later
        ("total += len(str(loss))", "total"),
        (f"{WEIGHED}\nn += len(str(loss))", "total / n"),  # all or none of a ratio
        ("losses.append(loss.item())\nif loss > 1:\n    losses.append(0)", "losses"),
        ("p = out.argmax(1).numpy()\nq = p == y.numpy()\nlosses.append(p)", "losses"),  # rows of all beside a share
        ("p = out.argmax(1).numpy()\nlosses.append(p)\nlosses.append((p == y.numpy()).mean())", "losses"),
        ("k = (out.argmax(1) == y).sum().item()\nlosses.append(k / len(y))\nn += k", "losses, n"),  # the same
        ("p = out.argmax(1).numpy()\nn += len(p)\nlosses.append(p)", "losses"),  # it would be added up twice
        ("if loss > 1:\n    n += len(y)", "n"),  # some processes would wait for the others
        ("n = loss", "n"),
    ],
)
def test_results_that_stay_those_of_one_process(kept: str, result: str) -> None:
    text = run(kept=kept, result=result)
    assert "gather_for_metrics" not in converted(text) and "batch_mean" not in converted(text)
    assert "METRIC-LOCAL" in findings(text)


@pytest.mark.parametrize(
    ("kept", "after"),
    [
        ("losses.append(loss.item())", ["losses.append(accelerator.batch_mean(loss.detach()).item())"]),
        ("losses.append(loss.detach())", ["losses.append(accelerator.batch_mean(loss.detach().detach()))"]),
        ("losses.extend(out.argmax(1).tolist())",) * 2,
        (
            "losses.append(out.argmax(1).cpu().numpy())",
            ["losses.append(accelerator.gather_for_metrics(out.argmax(1)).cpu().numpy())"],
        ),
        (
            "p = out.argmax(1).numpy()\nt = y.numpy()\nright = (p == t).mean()\nlosses.append(right)",
            [
                "p = accelerator.gather_for_metrics(out.argmax(1)).numpy()",
                "t = accelerator.gather_for_metrics(y).numpy()",
            ],
        ),
        (
            "p = out.argmax(1).numpy()\np = p + y.numpy()\nlosses.append(p)",
            [
                "p = accelerator.gather_for_metrics(out.argmax(1)).numpy()",
                "p = p + accelerator.gather_for_metrics(y).numpy()",
            ],
        ),
        (
            "p = out.argmax(1).numpy()\nlosses.extend([p[i] for i in range(p.shape[0])])",
            ["p = accelerator.gather_for_metrics(out.argmax(1)).numpy()"],
        ),
        (
            "one, two = best(out.data, y)\nlosses.append(one.item())\nprint(two, loss.item())",
            ["one, two = best(accelerator.gather_for_metrics(out.data), accelerator.gather_for_metrics(y))"],
        ),
        (
            "losses.append(max(out.tolist(), key=lambda row: row[0]))",
            ["losses.append(max(accelerator.gather_for_metrics(out).tolist(), key=lambda row: row[0]))"],
        ),
        (
            "right = (out.argmax(1) == y).sum().item()\nlosses.append(right / y.size(0))",
            [
                "right = accelerator.gather_for_metrics((out.argmax(1) == y).sum().detach()).sum().item()",
                "losses.append(right / accelerator.gather_for_metrics(y).size(0))",
            ],
        ),
        ("total += out.data.sum()", ["total += accelerator.gather_for_metrics(out.data.sum().detach()).sum()"]),
        (  # of each entry
            "total += out.data.sum(0)",
            ["total += accelerator.gather_for_metrics(out.data.sum(0).detach()[None]).sum(0)"],
        ),
        ("total += float(out.max())", ["total += float(accelerator.gather_for_metrics(out).max())"]),
        ("n += len(set(y))", ["n += len(set(accelerator.gather_for_metrics(y)))"]),
        (
            "keep.add(loss, out, y)",
            [
                "keep.add(accelerator.batch_mean(loss.detach()), accelerator.gather_for_metrics(out), "
                "accelerator.gather_for_metrics(y))"
            ],
        ),
    ],
)
def test_what_is_collected(kept: str, after: list[str] | str) -> None:
    if isinstance(after, str):
        after = [after.replace("out.argmax(1)", "accelerator.gather_for_metrics(out.argmax(1))")]
    text = run(kept=kept, result="losses, total, n, keep.hits").replace("losses = []", "losses, keep = [], Keep()")
    text = text.replace("def run(", f"{BEST}\n\n{KEEP}\n\ndef run(", 1)
    statements = (ast.unparse(n) for n in ast.walk(ast.parse(converted(text))) if isinstance(n, ast.stmt))
    gathers = [s for s in statements if re.search(r"accelerator\.(gather|batch_mean)", s) and "\n" not in s]
    assert gathers == after
    assert "METRIC-LOCAL" not in findings(text)


@pytest.mark.parametrize(
    ("body", "whole"),
    [
        ("table[t][p] += 1", True),
        ("n += int(p == t)", True),
        ("if p == t:\n        table[t] += 1\n        n += 1", True),
        ("label = t\n    table[label].append(p)", True),
        ("table[t][p] += loss.item()", False),  # that of a share
        ("table[t][p] += 1\n    if p == t:\n        break", False),
        ("table[t] += model(x)[0].item()", False),
    ],
)
def test_samples_one_by_one(body: str, whole: bool) -> None:
    loop = "for p, t in zip({}.tolist(), {}.tolist()):\n    "
    kept = f"pred = out.argmax(1)\n{loop.format('pred', 'y')}{body}"
    text = run(kept=kept, result="table, n").replace("losses = []", "table = [[0] * 3 for _ in range(3)]")
    gathered = loop.format("accelerator.gather_for_metrics(pred)", "accelerator.gather_for_metrics(y)").rstrip()
    assert (gathered in converted(text)) is whole
    assert ("METRIC-LOCAL" not in findings(text)) is whole


@pytest.mark.parametrize(
    ("made", "kept", "whole"),
    [
        ("timm.create_model('resnet18')", "total += (out.argmax(1) == y).sum().item()", True),
        ("timm.create_model('resnet18')", "total += (out['a'].argmax(1) == y).sum().item()", False),
        ("timm.create_model('resnet18')", "total += (out.argmax(1) == y.flip(0)).sum().item()", False),
        ("nn.Sequential(nn.Linear(8, 3), nn.Softmax(0))", "total += out.argmax(1).eq(y).sum().item()", False),
    ],
)
def test_what_networks_of_libraries_return(made: str, kept: str, whole: bool) -> None:
    text = run(kept=kept).replace("model = Net()", f"import timm\n\nmodel = {made}")
    assert f"model = {made}" in text
    assert ("METRIC-LOCAL" not in findings(text)) is whole
    assumed = {edit.assumes.text for edit in convert(text).plan.edits if edit.assumes and edit.rule == "REDUCE"}
    assert bool(assumed) is whole


RETURNS = """\
def step(model, x, y, optimizer=None):
    out = model(x)
    loss = F.cross_entropy(out, y)
    if optimizer is not None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {returned}


def hits(out, y):
    return (out.argmax(1) == y).sum().item() / len(y)


def run(model, loader, optimizer=None):
    total = n = 0
    for x, y in loader:
        {kept}
    return total / n
"""
ONE = "accelerator.batch_mean(torch.tensor(a, dtype=torch.float64)).item()"
SUMMED = "accelerator.gather_for_metrics(torch.tensor({}, dtype=torch.float64)).sum().item()"
SEEN = "accelerator.gather_for_metrics(torch.tensor(k)).sum().item()"


@pytest.mark.parametrize(
    ("returned", "kept", "after"),
    [
        (
            "loss.item(), len(x)",
            "a, k = {}; total += a * k; n += k",
            [f"total += {SUMMED.format('a * k')}", f"n += {SEEN}"],
        ),
        ("float(loss), x.shape[0]", "a, k = {}; total += a; n += 1", [f"total += {ONE}"]),
        ("loss.item(), len(x)", "a, k = {}; total += np.multiply(a, k)", [f"total += np.multiply({ONE}, {SEEN})"]),
        ("(out.argmax(1) == y).sum().item(), 1", "k, a = {}; total += k", [f"total += {SEEN}"]),
        (
            "out.detach()",
            "out = {}; total += hits(out, y) * len(y)",
            [f"total += {SUMMED.format('hits(out, y) * len(y)')}"],
        ),
        (
            "(loss + F.cross_entropy(out, y, reduction='sum')).item() - loss.item(), 1",
            "a, k = {}; total += a",
            [],  # how it depends on the samples is not known
        ),
        (
            "F.mse_loss(out, out * 2, reduction='sum').item(), 1",
            "a, k = {}; total += a",
            [f"total += {SUMMED.format('a')}"],
        ),
        ("loss.item(), y.numpy()", "a, k = {}; total += a * k", []),  # an array
        ("out.sum().item(), 1", "k, a = {}; total += k", []),  # whole or not: it cannot be told
        ("loss.item() if len(x) > 1 else 0.0, len(x)", "a, k = {}; total += a * k", []),
    ],
)
def test_numbers_that_a_function_returns(returned: str, kept: str, after: list[str]) -> None:
    call = "step(model, x, y, optimizer)"
    defined = RETURNS.replace("{returned}", returned).replace("{kept}", kept.replace("{}", call))
    epoch = "print(run(model, a, optimizer), run(model, b))"
    text = script(imports="import numpy as np", definitions=defined, loader=TWO, **{**EMPTY, "epoch": epoch})
    statements = (ast.unparse(n) for n in ast.walk(ast.parse(converted(text))) if isinstance(n, ast.AugAssign))
    assert [s for s in statements if "accelerator" in s] == after
    assert ("METRIC-LOCAL" in findings(text)) is not after


@pytest.mark.parametrize(
    ("cut", "gathered"),
    [
        ("x = x[:, :3]", "accelerator.gather_for_metrics(x.tanh())"),
        ("x = x[:, :int(y.max())]", ""),  # as long as the longest of a share: what is gathered is alike
        (f"{UNPACK}, total_length=4)", "accelerator.gather_for_metrics(x.tanh())"),
        (f"{UNPACK})", ""),
    ],
)
def test_rows_that_may_have_another_length_on_another_process(cut: str, gathered: str) -> None:
    kept = f"{cut}\nlosses.extend(x.tanh().tolist())\nn += len(y)"
    text = "import torch\n" + run(kept=kept, result="losses, n")
    assert "METRIC-LOCAL" in findings(text) if not gathered else gathered in converted(text)


def test_numbers_of_rows_that_may_have_another_length() -> None:
    text = converted("import torch\n" + run(kept=f"{UNPACK})\nn += len(y)", result="n"))
    assert "n += accelerator.gather_for_metrics(torch.tensor(len(y))).sum().item()" in text


@pytest.mark.parametrize(
    ("rows", "after"),
    [
        ("y.size(0)", "n += accelerator.gather_for_metrics(y).size(0)"),
        ("len(e)", "n += len(accelerator.gather_for_metrics(e))"),  # the name is also a part of `len`
        ("len(str(loss))", "n += rows"),
        ("y.size(0) if train else len(str(loss))", "n += rows"),
    ],
)
def test_a_number_of_rows_that_others_read_too(rows: str, after: str) -> None:
    text = run(kept=f"e = y\nrows = {rows}\nbar.update(rows)\nn += rows", result="n").replace(
        "def run(", "bar = Bar()\n\n\ndef run("
    )
    assert sums(text) == [after]
    assert "bar.update(rows)" in converted(text)
    assert ("METRIC-LOCAL" in findings(text)) == (after == "n += rows")


@pytest.mark.parametrize(("between", "told"), [("", False), ("if n > 9:\n    rate = loss.exp().item()\n", True)])
def test_a_variable_that_is_set_to_what_was_gathered_covers_no_share(between: str, told: bool) -> None:
    hits = "def hits(out, y):\n    return (out.argmax(1) == y).float().mean().item()\n\n\n"
    text = run(kept=f"rate = hits(out, y)\n{between}total += rate\nprint(rate)")
    text = text.replace("def run(", f"{hits}def run(", 1)
    assert ("accelerator.gather_for_metrics(out)" in converted(text)) is not told
    assert ("METRIC-TRAIN" in findings(text)) is told


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("scheduler.step(result)", True),
        ("if result < 1:\n        break", True),
        ("print(result)", False),
    ],
)
def test_decisions_by_what_stays_that_of_one_process(use: str, told: bool) -> None:
    text = run(kept=f"{WEIGHED}\nn += len(str(loss))", result="total / n").replace(
        "print(run(model, b, train=False, mode='val'))",
        f"result = run(model, b, train=False, mode='val')\n    {use}",
    )
    text = text.replace("\nfor epoch", "\nscheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\nfor epoch")
    assert "METRIC-LOCAL" in findings(text)
    assert ("COLL-RANKFLOW" in findings(text)) == told


@pytest.mark.parametrize(
    "step",
    [
        STEP,
        f"if loss < 100:\n    {STEP}",  # by the batch, not by the pass
        f"if mode == 'all':\n    train = True\n{IF_TRAIN}",
        "if train:\n    (loss * 2).backward()\nelse:\n    loss.backward()\noptimizer.step()",
    ],
)
def test_loops_that_only_train(step: str) -> None:
    step = step.replace("\n    ", "\n") if step == STEP else step
    text = run(step, WEIGHED, "total")
    assert "gather_for_metrics" not in converted(text)
    assert "METRIC-LOCAL" not in findings(text)


def test_left_early_is_a_pass_without_training() -> None:
    text = run(f"if not train:\n    {WEIGHED}\n    continue\n" + STEP.replace("\n    ", "\n"), "pass", "total")
    assert "gather_for_metrics" in converted(text)


@pytest.mark.parametrize(
    ("call", "evaluates"),
    [
        ("update(loss)", False),
        ("update(loss, train=True)", False),
        ("if total > 3:\n    update(loss, True)\nelse:\n    update(loss, dry=False)", False),
        ("update(loss, train)", True),
        ("update(loss, dry=train)", True),
    ],
)
def test_by_a_function_that_the_loop_hands_literals(call: str, evaluates: bool) -> None:
    update = """\
def update(loss, train=True, dry=False):
    if dry:
        return
    if not train:
        print(loss)
    else:
        loss.backward()
        optimizer.step()


"""
    text = run(call).replace("def run(", f"{update}def run(")
    assert ("gather_for_metrics" in converted(text)) == evaluates and "METRIC-LOCAL" not in findings(text)


def test_by_a_function_that_the_loop_calls() -> None:
    update = "def update(loss, train):\n    if train:\n        loss.backward()\n        optimizer.step()\n\n\n"
    text = run("update(loss, train)").replace("def run(", f"{update}def run(")
    assert "gather_for_metrics" in converted(text) and "METRIC-LOCAL" not in findings(text)


@pytest.mark.parametrize(
    "put",
    [
        "sums['loss'] += loss.item()",
        "sums['loss'] = sums['loss'] + loss.item()",
        "sums.update(loss=loss.item())",
    ],
)
def test_what_a_function_puts_into_what_it_is_handed(put: str) -> None:
    """The sums beside it are not those of all processes either: they are divided by each other."""
    measure = f"def measure(out, y, sums):\n    loss = F.cross_entropy(out, y)\n    {put}\n    return loss\n"
    body = """\
for phase in ['train', 'val']:
    sums, n = {'loss': 0.0}, 0
    for x, y in loaders[phase]:
        x, y = x.to(device), y.to(device)
        loss = measure(model(x), y, sums)
        if phase == 'train':
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        n += x.size(0)
    print(phase, sums['loss'] / n)"""
    text = script(definitions=measure, loader=LOADERS, **{**EMPTY, "epoch": body})
    assert "METRIC-LOCAL" in findings(text)
    assert "n += x.size(0)" in converted(text)


def test_the_other_library_counts_repeated_samples() -> None:
    result = convert(run(kept=f"{WEIGHED}\nn += len(y)", result="total / n"), target="accelerate")
    assert result.plan is not None
    assert "METRIC-LOCAL" in [f.code for f in result.plan.findings]
