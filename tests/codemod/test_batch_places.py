"""PLACES: rows that training takes by their place in the batch."""

from __future__ import annotations

import pytest
from scripts import convert, converted, findings, script


def trained(loss: str) -> str:
    """A script that trains by a loss."""
    forward = f"optimizer.zero_grad()\nout = model(x)\nloss = {loss}"
    return script(setup="labelled = 4\ncriterion = nn.CrossEntropyLoss()", forward=forward)


@pytest.mark.parametrize(
    "loss",
    [
        "F.cross_entropy(out[:labelled], y[:labelled])",
        "criterion(out[:4], y[:4]) + out.mean()",
        "F.mse_loss(out[4:8], out[8:12])",
        "F.cross_entropy(out[1:], y[1:])",  # each process leaves out the first row of its share
        "F.mse_loss(out[1:], out[:-1].detach())",
        "F.cross_entropy(model(x[labelled:]), y[labelled:])",
        "F.cross_entropy(out[: len(x) // 2], y[: len(x) // 2])",
        "F.mse_loss(out[: int(len(x) * 0.5)], out[: int(len(x) * 0.5)].detach() + 1)",
    ],
)
def test_other_rows_are_in_these_places(loss: str) -> None:
    assert "BATCH-PLACES" in findings(trained(loss))
    assert "BATCH-PLACES" not in findings(trained(loss), batch="per-process")


PART = "def part(out, y):\n    many = {}\n    return F.cross_entropy(out[:many], y[:many])"


@pytest.mark.parametrize("many", ["4", "len(out) // 2"])
def test_a_function_takes_rows_by_their_place(many: str) -> None:
    text = script(definitions=PART.format(many), forward="optimizer.zero_grad()\nloss = part(model(x), y)")
    assert "BATCH-PLACES" in findings(text)


@pytest.mark.parametrize("many", ["len(out)", "y.size(0)"])
def test_a_function_takes_all_rows(many: str) -> None:
    text = script(definitions=PART.format(many), forward="optimizer.zero_grad()\nloss = part(model(x), y)")
    assert "BATCH-PLACES" not in findings(text)


@pytest.mark.parametrize(
    "lines",
    [
        "out = model(torch.cat([x, x + 1]))\nhalf = len(out) // 2\nloss = F.mse_loss(out[:half], out[half:])",
        "n = len(x) // 4\nloss = 0\nfor j in range(4):\n"
        "    loss = loss + F.cross_entropy(model(x[j * n : (j + 1) * n]), y[j * n : (j + 1) * n])",
    ],
)
def test_views_and_pieces_are_no_places(lines: str) -> None:
    assert "BATCH-PLACES" not in findings(script(forward=f"optimizer.zero_grad()\n{lines}"))


RETURNED = """\
def part(out, y):
    first = out[:4].pow(2)
    return F.cross_entropy(out, y), {}
"""


@pytest.mark.parametrize(
    ("lines", "definitions"),
    [
        ("loss = model(x)[:4].mean()", ""),
        ("out = model(x)\nfirst = out[:4]\nloss = F.cross_entropy(out, y) + (first**2).mean()", ""),
        ("loss, more = part(model(x), y)\nloss = loss + more", RETURNED.format("first.mean()")),
    ],
)
def test_rows_in_a_loss_that_the_script_works_out_itself(lines: str, definitions: str) -> None:
    text = script(definitions=definitions, forward=f"optimizer.zero_grad()\n{lines}")
    assert "BATCH-PLACES" in findings(text)
    assert "BATCH-PLACES" not in findings(text, batch="per-process")


@pytest.mark.parametrize(
    ("lines", "definitions"),
    [
        ("out = model(x)\nloss = F.cross_entropy(out, y) * out[:4].size(1)", ""),
        ("out = model(x)\nloss = F.cross_entropy(out, y)\nprint(out[:4].mean().item())", ""),
        ("out = model(x)\nfirst = out[:4].detach()\nloss = F.cross_entropy(out, y)\nprint(first)", ""),
        ("loss, more = part(model(x), y)\nprint(more)", RETURNED.format("first.mean()")),  # it is only shown
        ("loss, more = part(model(x), y)\nloss = loss + more", RETURNED.format("out.mean()")),
    ],
)
def test_rows_that_no_gradient_flows_to(lines: str, definitions: str) -> None:
    text = script(definitions=definitions, forward=f"optimizer.zero_grad()\n{lines}")
    assert "BATCH-PLACES" not in findings(text)


SHIFTED = """
def shifted(number, by):
    places = torch.arange(number) + by
    places[-by:] = torch.arange(by)
    return places
"""


@pytest.mark.parametrize(
    "other",
    [
        "out[shifted(len(out), 1)]",
        "out[(torch.arange(len(out)) + 1) % len(out)]",
        "out.roll(1, 0)",
        "torch.roll(out, shifts=1, dims=(0,))",
        "torch.flip(out, [0])",
        "torch.cat([out[1:], out[:1]])",
    ],
)
def test_rows_that_meet_their_neighbours(other: str) -> None:
    """The pairs of one process are others than those of the whole batch."""
    forward = f"optimizer.zero_grad()\nout = model(x)\nother = {other}\nclose = (out * other).sum(1)\n"
    loss = "loss = F.mse_loss(close, torch.zeros_like(close))"
    assert "BATCH-PLACES" in findings(script(definitions=SHIFTED, forward=forward + loss))


@pytest.mark.parametrize(
    "other",
    ["out.roll(1, 1)", "torch.flip(out, [1])", "out[:, torch.arange(3)]", "out[torch.arange(len(out)), y][:, None]"],
)
def test_columns_in_other_places(other: str) -> None:
    forward = f"optimizer.zero_grad()\nout = model(x)\nother = {other}\nclose = (out * other).sum(1)\n"
    loss = "loss = F.mse_loss(close, torch.zeros_like(close))"
    assert "BATCH-PLACES" not in findings(script(forward=forward + loss))


@pytest.mark.parametrize(
    "lines",
    [
        "some, rest = out.chunk(2)\nloss = F.cross_entropy(some, y.chunk(2)[0]) + rest.abs().mean()",
        "some = torch.split(out, 4)[0]\nloss = F.cross_entropy(some, y.split(4, dim=0)[0])",
        "some, *_ = out.tensor_split(4)\nloss = F.cross_entropy(out, y) + some.pow(2).mean()",
        "loss = F.cross_entropy(out.narrow(0, 0, 4), torch.narrow(y, 0, 0, 4))",
        "loss = F.cross_entropy(out, y) + out.unbind()[0].pow(2).mean()",
        "loss = F.cross_entropy(out, y) + out.select(0, 1).pow(2).mean()",
        "mirror = torch.arange(len(x) - 1, -1, -1)\nloss = F.cross_entropy(out, y) + F.cross_entropy(out, y[mirror])",
        "ahead = torch.arange(1, len(x) + 1) % len(x)\nloss = F.cross_entropy(out, y) + (out * out[ahead]).mean()",
    ],
)
def test_pieces_of_a_batch_are_rows_in_their_places(lines: str) -> None:
    text = script(forward=f"optimizer.zero_grad()\nout = model(x)\n{lines}")
    assert findings(text) == ["BATCH-PLACES"]
    assert "BATCH-PLACES" not in findings(text, batch="per-process")


@pytest.mark.parametrize(
    "lines",
    [
        "some, rest = out.chunk(2, dim=1)\nloss = some.pow(2).mean() + rest.abs().mean()",
        "loss = F.cross_entropy(out.narrow(1, 0, 3), y) + torch.split(out, 2, 1)[0].pow(2).mean()",
        "loss = F.cross_entropy(out, y) + out.select(1, 0).pow(2).mean() + out.unbind(1)[0].pow(2).mean()",
        "one, other = model(torch.cat([x, x + 1])).chunk(2)\nloss = F.mse_loss(one, other)",
        "loss = sum(F.cross_entropy(o, t) for o, t in zip(out.chunk(2), y.chunk(2))) / 2",
        "loss = F.cross_entropy(out, y)\nshown = out.chunk(2)[0].mean().item()",
        "loss = sum(F.cross_entropy(out.narrow(0, i, 1), y.narrow(0, i, 1)) for i in range(len(out))) / len(out)",
    ],
)
def test_pieces_of_each_sample_of_views_and_all_alike(lines: str) -> None:
    text = script(forward=f"optimizer.zero_grad()\nout = model(x)\n{lines}")
    assert "BATCH-PLACES" not in findings(text)


HALVES = """
class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.other = nn.Linear(8, 3)

    def forward(self, x):
        one, other = x.chunk(2{})
        return torch.cat([self.layer({}), self.other({})])
"""


def test_a_network_cuts_a_batch() -> None:
    text = script(definitions=HALVES.format("", "one", "other"), model="model = Halves().to(device)")
    assert "BATCH-PLACES" in findings(text)
    text = script(definitions=HALVES.format(", dim=1", "x", "x"), model="model = Halves().to(device)")
    assert "BATCH-PLACES" not in findings(text)


NUMBERED = {
    "before": "labels = torch.arange(64) % 3\nsize = 16",
    "loop": "for i, (x, _) in enumerate(loader):",
    "loader": "loader = DataLoader(data, batch_size=16)",
}


@pytest.mark.parametrize(
    "slots",
    [
        {"move": "x, y = x.to(device), labels[i * 16 : (i + 1) * 16].to(device)"},
        {"move": "x = x.to(device)\nstart = i * size\nend = start + size\ny = labels[start:end]"},
        {"move": "y = labels[i * size : i * size + len(x)]\nx, y = x.to(device), y.to(device)"},
        {
            "epoch": "seen = 0",
            "loop": "for x, _ in loader:",
            "move": "x = x.to(device)\ny = labels[seen : seen + x.size(0)]\nseen += x.size(0)",
        },
        {
            "before": "more = torch.ones(64, 8)\nlabels = torch.arange(64) % 3",
            "move": "x, y = x.to(device), _.to(device)",
            "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(x + more[i * 16 : (i + 1) * 16]), y)",
        },
    ],
)
def test_what_is_taken_by_the_number_of_the_batch(slots: dict[str, str]) -> None:
    for options in ({}, {"batch": "per-process"}):
        assert "BATCH-PLACES" in findings(script(**{**NUMBERED, **slots}), **options)


@pytest.mark.parametrize(
    "slots",
    [
        {"move": "x, y = x.to(device), _.to(device)\nscale = labels[i]", "batch_end": "print(scale * loss.item())"},
        {
            "before": "places = torch.ones(8)",
            "move": "x, y = x.to(device), _.to(device)",
            "forward": "optimizer.zero_grad()\nt, loss = 0, 0\nwhile t < 8:\n"
            "    loss = loss + F.cross_entropy(model(x * places[t : t + 8]), y)\n    t += 8",
        },
        {"move": "x, y = x.to(device), _.to(device)", "batch_end": "print(labels[i * 16 : (i + 1) * 16].sum())"},
        {
            "move": "x, y = x.to(device), _.to(device)",
            "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y, labels[:3].float())",
        },
        {
            "move": "x, y = x.to(device), _.to(device)",
            "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y) * (1 + i / 100)",
        },
        {
            "before": "xs, ys = torch.ones(64, 8), torch.arange(64) % 3",
            "loop": "for i in range(4):",
            "move": "x, y = xs[i * 16 : (i + 1) * 16].to(device), ys[i * 16 : (i + 1) * 16].to(device)",
            "loader": "",
        },
    ],
)
def test_what_does_not_belong_to_the_samples_of_a_batch(slots: dict[str, str]) -> None:
    assert "BATCH-PLACES" not in findings(script(**{**NUMBERED, **slots}))


def test_support_and_query_of_an_episode() -> None:
    forward = """
support, query = x[:4], x[4:]
far = (model(query)[:, None] - model(support)[None]).pow(2).sum(2)
loss = F.cross_entropy(-far, y[4:] % 4)
"""
    assert "BATCH-PLACES" in findings(script(forward="optimizer.zero_grad()" + forward))


def test_places_that_training_does_not_look_at() -> None:
    shown = "shown = x[:4]\nprint(shown.mean(), x.roll(1, 0).std())"
    assert "BATCH-PLACES" not in findings(script(batch_end=shown))


@pytest.mark.parametrize(
    "loss",
    [
        "F.cross_entropy(out, y)",
        "F.cross_entropy(out[:], y[:])",
        "F.cross_entropy(out[:, :2], y % 2)",
        "F.cross_entropy(out[: x.size(0)], y)",  # rows of the share
        "F.mse_loss(out[:, 1:], out[:, :-1].detach())",  # the next of a sequence
        "F.mse_loss(out.t()[1:], out.t()[:-1].detach())",
        "F.cross_entropy(out[y > 0], y[y > 0])",
    ],
)
def test_rows_by_what_they_are(loss: str) -> None:
    assert "BATCH-PLACES" not in findings(trained(loss))


def test_rows_that_are_only_looked_at() -> None:
    looked = "with torch.no_grad():\n    print(model(x[:4]).argmax(1), F.interpolate(x[:4, None], 4).shape)"
    assert "BATCH-PLACES" not in findings(script(batch_end=looked))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("w = torch.linspace(1, 2, len(y))\nloss = (F.cross_entropy(model(x), y, reduction='none') * w).mean()", True),
        ("loss = F.cross_entropy(model(x + torch.arange(x.size(0)).float()[:, None]), y)", True),
        ("loss = F.cross_entropy(model(x + torch.arange(8).float()), y)", False),
        ("w = torch.linspace(1, 2, 3)\nloss = F.cross_entropy(model(x) * w, y)", False),
        ("out = model(x)\nloss = -out.log_softmax(1)[torch.arange(len(y)), y].mean()", False),
        ("shown = x * torch.arange(len(x))[:, None]\nloss = F.cross_entropy(model(x), y)", False),
    ],
)
def test_rows_that_are_weighed_by_their_place(lines: str, said: bool) -> None:
    assert ("BATCH-PLACES" in findings(script(forward=f"optimizer.zero_grad()\n{lines}"))) is said


EPISODES = """\
class Episodes:
    def __iter__(self):
        yield from ([0, 1, 2, 3], [2, 3, 4, 5])

    def __len__(self):
        return 2


class Proto(Net):
    def loss(self, x):
        z = self(x)
        return (z.view(2, -1, 2).mean(1).unsqueeze(0) - z.unsqueeze(1)).pow(2).mean()
"""
COMPUTED = "optimizer.zero_grad()\nloss = (model(x) - y[:, None]).pow(2).mean()"
DEALT = "loader = DataLoader(dataset, batch_sampler=Episodes())"


@pytest.mark.parametrize(
    ("loader", "forward", "said"),
    [
        (DEALT, COMPUTED, True),
        ("episodes = Episodes()\nloader = DataLoader(dataset, batch_sampler=episodes)", COMPUTED, True),
        (DEALT, "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)", False),  # one of each sample
        (  # numbers that are made for a batch
            DEALT,
            "optimizer.zero_grad()\nloss = F.cross_entropy(-torch.cdist(*model(x).chunk(2)), torch.arange(2))",
            True,
        ),
        (DEALT, "optimizer.zero_grad()\ny = y.long()\nloss = F.cross_entropy(model(x), y.to(device))", False),
        ("loader = DataLoader(dataset, batch_sampler=[[0, 1], [2, 3]])", COMPUTED, False),
        ("loader = DataLoader(dataset, batch_size=4)", COMPUTED, False),
    ],
)
def test_batches_that_the_script_composes(loader: str, forward: str, said: bool) -> None:
    text = script(definitions=EPISODES, loader=loader, forward=forward)
    assert ("BATCH-COMPOSED" in findings(text)) is said
    assert "BATCH-COMPOSED" not in findings(text, batch="per-process")


@pytest.mark.parametrize("dealt", [DEALT, "loader = DataLoader(dataset, batch_size=4)"])
def test_batches_that_the_script_composes_are_not_gathered_as_one(dealt: str) -> None:
    """An evaluation of whole episodes would get those of all processes at once."""
    test = "total = 0\nwith torch.no_grad():\n    for x, y in test:\n        out = model(x.to(device))\n"
    slots = {"definitions": EPISODES, "loader": f"{dealt}\n{dealt.replace('loader', 'test', 1)}", "forward": COMPUTED}
    text = script(
        **slots, after=f"{test}        total += (out - y.to(device)[:, None]).pow(2).mean().item()\nprint(total)"
    )
    assert "gather_for_metrics(" in converted(text)
    assert ("gather_for_metrics(" in converted(text, batch="per-process")) is (dealt != DEALT)
    assert ("EVAL-REPLICATED" in findings(text, batch="per-process")) is (dealt == DEALT)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("loss = F.cross_entropy(out, y) + out[0].pow(2).mean()", True),
        ("anchor = out[-1]\nloss = (out - anchor).pow(2).mean()", True),
        ("loss = out[0, 1] + F.cross_entropy(out, y)", True),
        ("loss = F.cross_entropy(out, y) / out[0].numel() * out[0].shape[0]", False),
        ("loss = F.cross_entropy(out, y)\nprint(out[0])", False),
        ("loss = out[:, 0].mean()", False),
        ("loss = sum(F.cross_entropy(out[j], y[j]) for j in range(len(out))) / len(out)", False),
    ],
)
def test_one_row_by_its_number(lines: str, told: bool) -> None:
    text = script(forward=f"optimizer.zero_grad()\nout = model(x)\n{lines}")
    assert ("BATCH-PLACES" in findings(text)) == told
    assert "BATCH-PLACES" not in findings(text.replace("batch_size=16", "batch_size=1"))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("loss = F.cross_entropy(out, y) + last(out)", True),
        ("loss = F.cross_entropy(out, y) + apart(out)", True),
        ("loss = F.cross_entropy(out, y) + out[[0, 1]].pow(2).mean()", True),
        ("loss = F.cross_entropy(out, y) + out[torch.tensor([0])].pow(2).mean()", True),
        ("loss = (out - out[-1].detach()).abs().mean()", True),
        ("first = out[0].mean().item()\nloss = F.cross_entropy(out, y) * first", True),
        ("loss = F.cross_entropy(out, y)\nshown = last(out)", False),
        ("loss = F.cross_entropy(out, y) + last(out.t())", False),
        ("loss = F.cross_entropy(out, y) + first_of(out)", False),
        ("loss = F.cross_entropy(out[:, [0, 1, 2]], y)", False),
        ("loss = F.cross_entropy(out, y)\nshown = F.mse_loss(out[0].detach(), torch.zeros(3)).item()", False),
        ("loss = F.cross_entropy([out, x][0], y)", False),
        ("loss = F.cross_entropy(out, y)\nhits = out[-1].argmax().item()\nprint(hits)", False),
    ],
)
def test_rows_by_their_number_in_functions_and_without_gradients(lines: str, told: bool) -> None:
    made = """\
def last(out):
    return out[-1].pow(2).mean()


def apart(out):
    anchor = out[0]
    return (out - anchor).pow(2).mean()


def first_of(out):
    return out[:, 0].pow(2).mean() / out[0].numel()
"""
    text = script(definitions=made, forward=f"optimizer.zero_grad()\nout = model(x)\n{lines}")
    assert ("BATCH-PLACES" in findings(text)) == told


@pytest.mark.parametrize(
    ("turn", "told"),
    [("range(len(out))", False), ("range(0, out.size(0))", False), ("range(8)", True), ("[0, 4]", True)],
)
def test_pieces_are_those_of_all_samples_or_not(turn: str, told: bool) -> None:
    loss = f"loss = sum(F.cross_entropy(out[j : j + 1], y[j : j + 1]) for j in {turn})"
    assert ("BATCH-PLACES" in findings(script(forward=f"optimizer.zero_grad()\nout = model(x)\n{loss}"))) == told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("x = torch.cat([x[:4] * 2, x[4:]])", True),
        ("first = self.layer(x)[:8]\n        x = x + first.mean()", True),
        ("x = x[:, :8]", False),
        ("x = x[:]", False),
        ("self.seen = x[:4].shape[1]", False),
        ("x = x + self.bias[:8]", False),  # no samples
    ],
)
def test_rows_in_a_forward_pass(line: str, told: bool) -> None:
    text = script(forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)")
    text = text.replace("        return self.layer(x)", f"        {line}\n        return self.layer(x)")
    text = text.replace("super().__init__()\n", "super().__init__()\n        self.bias = torch.ones(9)\n", 1)
    assert line in text and ("BATCH-PLACES" in findings(text)) == told


TEACHER = """
def outputs(teacher, source):
    kept = []
    with torch.no_grad():
        for x, _ in source:
            kept.append({kept})
    return kept
"""


@pytest.mark.parametrize(
    ("kept", "used", "told"),
    [
        ("teacher(x.to(device)).softmax(1)", "soft[i]", True),
        ("teacher(x.to(device)).softmax(1).mean().item()", "soft[i]", False),  # one number for the whole batch
        ("teacher(x.to(device)).softmax(1)", "soft[0]", False),
        ("teacher(x.to(device)).softmax(1)", "soft[epoch]", False),
        ("teacher(x.to(device)).softmax(1)", "other[i]", False),
    ],
)
@pytest.mark.parametrize("handed", [False, True])
def test_what_a_pass_over_whole_batches_has_kept(kept: str, used: str, told: bool, handed: bool) -> None:
    loss = f"loss = F.cross_entropy(model(x), y) + (model(x).softmax(1) - {used}).pow(2).mean()"
    slots = {
        "loader": "loader = DataLoader(data, batch_size=16)",
        "loop": "for i, (x, y) in enumerate(loader):",
        "forward": f"optimizer.zero_grad()\n{loss}",
    }
    setup = "teacher, other = Net().to(device), [torch.ones(3)] * 9\n"
    before = f"{setup}soft = outputs(teacher, loader)"
    if not handed:
        before = f"{setup}soft = []\nwith torch.no_grad():\n    for x, _ in loader:\n        soft.append({kept})"
    text = script(definitions=TEACHER.format(kept=kept), before=before, **slots)
    assert ("BATCH-PLACES" in findings(text)) is told


def with_table(table: str, taken: str, lines: str = "") -> str:
    """A script that trains on samples with rows of a table that is made before."""
    forward = f"optimizer.zero_grad()\n{lines}\nloss = F.cross_entropy(model(x + {taken}), y)"
    return script(device="", setup=f'device = torch.device("cuda")\nnoise = {table}', forward=forward)


@pytest.mark.parametrize(
    ("table", "taken"),
    [
        ("torch.randn(64, 8)", "noise[: x.size(0)]"),
        ("torch.randn(64, 8, generator=torch.Generator().manual_seed(1)).to(device)", "noise[0 : len(x), :]"),
        ("torch.arange(512.0).view(64, 8)", "noise[: len(x)]"),
        ("torch.randn(64, 8)", "noise[torch.arange(len(x))]"),
        ("[torch.randn(8) for _ in range(64)]", "torch.stack(noise[: len(x)])"),
        ("nn.Embedding(64, 8).requires_grad_(False)", "noise(torch.arange(len(x)))"),
    ],
)
def test_first_rows_of_a_table_are_the_same_on_every_process(table: str, taken: str) -> None:
    text = with_table(table, taken)
    assert "BATCH-PLACES" in findings(text)
    assert "BATCH-PLACES" not in findings(text, batch="per-process")


@pytest.mark.parametrize(
    ("table", "taken", "lines"),
    [
        ("torch.ones(64, 8)", "noise[: len(x)]", ""),  # all rows are alike
        ("torch.randn(64, 8)", "noise[:1]", ""),
        ("torch.randn(64, 8)", "noise[y]", ""),  # by what the samples are
        ("torch.randn(64, 8)", "drawn[: len(x)]", "drawn = torch.randn(64, 8)"),  # anew for each batch: RNG-SAMENOISE
        ("nn.Embedding(64, 8).requires_grad_(False)", "noise(y)", ""),
    ],
)
def test_tables_whose_rows_go_by_no_place(table: str, taken: str, lines: str) -> None:
    assert "BATCH-PLACES" not in findings(with_table(table, taken, lines))


PLACED = """\
class Placed(nn.Module):
    def __init__(self):
        super().__init__()
        {table}

    def forward(self, x):
        return x + {taken}


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.placed = Placed()
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(self.placed(x))
"""
SINES = """pe = torch.zeros(64, 8)
        place = torch.arange(64.0).unsqueeze(1)
        pe[:, 0::2] = torch.sin(place * 0.1)
        {last}
        self.register_buffer("pe", pe)"""


@pytest.mark.parametrize(
    ("table", "taken", "told"),
    [
        (SINES.format(last="pe = pe.unsqueeze(0).transpose(0, 1)"), "self.pe[: x.size(0), 0]", True),
        (SINES.format(last=""), "self.pe[: x.size(0), :]", True),
        (SINES.format(last=""), "self.pe[: x.size(1)].mean()", False),  # by another dimension
        (SINES.format(last="pe = pe.unsqueeze(0)"), "self.pe[: x.size(0)].mean()", False),  # one row
        ("self.pe = nn.Parameter(torch.randn(64, 8))", "self.pe[: len(x)]", True),
        ("self.pe = nn.Parameter(torch.randn((1, 64, 8)))", "self.pe[: len(x)].mean()", False),
        ("self.pe = torch.ones(64, 8)", "self.pe[: len(x)]", False),  # all rows are alike
        ("self.pe = nn.Embedding(64, 8)", "self.pe(torch.arange(x.size(0)))", True),
        ("self.pe = nn.Embedding(64, 8)", "self.pe(torch.arange(x.size(1)))", False),
    ],
)
def test_tables_that_parts_of_networks_keep(table: str, taken: str, told: bool) -> None:
    text = script(
        definitions=PLACED.format(table=table, taken=taken),
        model="model = Whole().to(device)",
        forward="optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)",
    )
    found = [f for f in convert(text).plan.findings if f.code == "BATCH-PLACES"]  # type: ignore[union-attr]
    assert [taken[:7] in f.message for f in found] == [True] * told


def test_first_numbers_that_samples_are_compared_by() -> None:
    forward = "optimizer.zero_grad()\nout = model(x)\nloss = F.cross_entropy(out @ out.t(), numbers[: len(x)])"
    found = findings(script(setup="numbers = torch.arange(64)", forward=forward))
    assert "LOSS-INBATCH" in found and "BATCH-PLACES" not in found


TURNED = "def measured(x, y, paired=False):\n    if paired:\n        x = torch.cat([x, x.flip(0)])\n"


@pytest.mark.parametrize(("given", "said"), [("x, y", False), ("x, y, paired=True", True), ("x, y, len(y) > 3", True)])
def test_rows_in_a_branch_that_no_call_opens(given: str, said: bool) -> None:
    rest = "    return F.cross_entropy(model(x)[: len(y)], y)\n"
    text = script(definitions=f"{TURNED}{rest}", forward=f"optimizer.zero_grad()\nloss = measured({given})")
    assert ("BATCH-PLACES" in findings(text)) is said


@pytest.mark.parametrize(("given", "said"), [("dataset", False), ("dataset, True", True)])
def test_batches_that_no_call_has_composed(given: str, said: bool) -> None:
    build = f"def build(dataset, episodic=False):\n    if episodic:\n        {DEALT}\n        return loader\n"
    build += "    return DataLoader(dataset, batch_size=4)\n"
    text = script(definitions=f"{EPISODES}\n\n{build}", loader=f"loader = build({given})", forward=COMPUTED)
    assert ("BATCH-COMPOSED" in findings(text)) is said
