"""What reading the conversions of real scripts has shown to be wrong once."""

from __future__ import annotations

import json

import pytest
from accelift_codemod.api import convert_bytes
from accelift_codemod.options import Options
from scripts import CREATED, TRAINS, added, convert, converted, findings, lifted, script, unchanged

LOADER = "loader = DataLoader(data, batch_size=16, shuffle=True)"
PARAMETER = f"""\
def train(net, loader):
    {{move}}
{TRAINS.replace("model", "net")}"""


def in_a_function(move: str) -> str:
    """A script that trains in a function, which moves its parameter."""
    body = dict.fromkeys(("loop", "move", "forward", "backward", "step"), "")
    definitions = PARAMETER.format(move=move)
    return script(definitions=definitions, model="model = Net()", epochs="train(model, loader)", **body)


def test_the_import_stands_before_code_above_that_of_torch() -> None:
    lines = converted('print("first")\n' + script()).splitlines()
    assert lines[:3] == [
        "from accelift import Accelerator, DataLoaderConfiguration",
        CREATED,
        'accelerator.print("first")',
    ]
    compile("\n".join(lines), "train.py", "exec")


@pytest.mark.parametrize("move", ["net = net.to(device)", "net = net.cuda()", "net = net.to(device).train()"])
def test_a_parameter_that_is_moved_is_prepared_where_it_was_made(move: str) -> None:
    text = in_a_function(move)
    lines = added(text)
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in lines
    assert not any(line.startswith("net = accelerator") for line in lines)


ALIAS = """\
def train(net, loader):
    {alias}
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(same(x), y)
        loss.backward()
        optimizer.step()


def test(net, loader):
    {other}
    with torch.no_grad():
        return sum((same(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader)
"""


def _under_other_names(alias: str, other: str) -> str:
    body = dict.fromkeys(("loop", "move", "forward", "backward", "step"), "")
    definitions = ALIAS.format(alias=alias, other=other)
    after = "print(test(model, loader))"
    return script(definitions=definitions, model="model = Net()", epochs="train(model, loader)", after=after, **body)


@pytest.mark.parametrize(
    "alias",
    [
        "same = net",
        "same = net.train()",
        "same = net.to(device)",
        "same = net.cuda().train()",
        "print(net)\n    same = net.train()",
        "same = net\n    same.training",
    ],
)
@pytest.mark.parametrize("other", ["same = net.eval()", "same = net", "same, n = net, 3\n    same = net"])
def test_another_name_for_a_parameter_is_the_same_object(alias: str, other: str) -> None:
    lines = added(_under_other_names(alias, other))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in lines
    assert not any(line.startswith("same = accelerator") for line in lines)


@pytest.mark.parametrize(
    "alias",
    [
        "same = net.half()",
        "same = copy.deepcopy(net)",
        "same = nn.Sequential(net)",
        "net.layer = nn.Linear(8, 3)\n    same = net.to(device)",
        "same = net\n    same.layer = nn.Linear(8, 3)",
    ],
)
def test_what_is_another_object_or_changes_is_not_traced(alias: str) -> None:
    result = convert(f"import copy\n{_under_other_names(alias, 'same = net')}")
    assert result.output is None or b"accelerator.prepare(model, optimizer, loader)" not in result.output


def test_a_parameter_that_is_used_before_it_is_bound_again_is_left_alone() -> None:
    text = in_a_function("print(net)\n    net = net.to(device)")
    assert unchanged(text).code == "PREP-NO-POINT"


HAND = """\
other = Net().to(device)
for x, y in loader:
    F.cross_entropy(other(x), y).backward()
    for p in other.parameters():
        p.data -= p.grad
"""


def test_a_loop_whose_network_no_optimizer_updates_is_refused() -> None:
    assert unchanged(script(before=HAND)).code == "OPT-UNKNOWN"


def test_a_frozen_network_beside_the_trained_one_is_not() -> None:
    teacher = "teacher = Net().to(device).eval()"
    forward = "optimizer.zero_grad()\nloss = F.mse_loss(model(x), teacher(x).detach())"
    assert "accelerator.backward(loss)" in converted(script(before=teacher, forward=forward))


CSV = {"imports": "import pandas as pd", "before": 'pd.DataFrame([1]).to_csv("a.csv")\n{}'}
WRITTEN = 'if accelerator.is_main_process:\n    pd.DataFrame([1]).to_csv("a.csv")\n{}'


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ('frame = pd.read_csv("a.csv")', True),
        ('frame = pd.read_csv("b.csv")', False),
        ('frame = "a.csv"', False),
    ],
)
def test_a_file_that_the_main_process_writes_is_waited_for(line: str, waits: bool) -> None:
    slots = {**CSV, "before": CSV["before"].format(line)}
    after = WRITTEN.format(("accelerator.wait_for_everyone()\n" if waits else "") + line)
    assert converted(script(**slots)) == lifted(**{**slots, "before": after})


@pytest.mark.parametrize(
    ("loader", "codes"),
    [
        ("loader = DataLoader(data, batch_size=1)", ["BATCH-ONE"]),
        ("loader = DataLoader(data, shuffle=True)", ["BATCH-ONE"]),
        ("loader = DataLoader(data, batch_size=None)", ["BATCH-ONE"]),
        ("loader = DataLoader(data, batch_size=None, sampler=[[0, 1], [2, 3]])", []),
        ("loader = DataLoader(data, batch_sampler=[[0, 1], [2, 3]])", []),
        ("loader = DataLoader(data, **unknown)", []),
        ("size = 1\nloader = DataLoader(data, size)", ["BATCH-ONE"]),
        ("loader = DataLoader(data, batch_size=2)", []),
        ("size = 1 + len(data)\nloader = DataLoader(data, size)", []),
        ("loader = DataLoader(data, 1 if len(data) < 3 else 1)", ["BATCH-ONE"]),
        ("loader = DataLoader(data, len(data) // 9 if len(data) else 1)", []),
        ("size = 1\nif len(data) > 9:\n    size = len(data) // 9\nloader = DataLoader(data, size)", []),
    ],
)
def test_batches_of_one(loader: str, codes: list[str]) -> None:
    assert findings(script(loader=loader)) == codes
    assert findings(script(loader=loader), batch="per-process") == ["BATCH-SCALE"]


@pytest.mark.parametrize("call", ["torch.cuda.empty_cache()", "print(torch.cuda.max_memory_allocated())"])
def test_a_device_that_something_else_chooses(call: str) -> None:
    slots = {"device": "", "model": "model = Net()", "move": ""}
    assert unchanged(script(**slots, after=call)).code == "DEV-UNKNOWN"
    assert findings(script(**slots, after=f"if torch.cuda.is_available():\n    {call}")) == ["DEV-CPU"]
    assert findings(script(after=call)) == []


@pytest.mark.parametrize("dataset", ["ZINC('z')", "PPI('p', split='train')"])
def test_data_sets_that_fetch_when_they_are_made(dataset: str) -> None:
    name = dataset.partition("(")[0]
    text = script(from_imports=f"from torch_geometric.datasets import {name}", data=f"data = {dataset}")
    assert added(text)[2:4] == ["with accelerator.main_process_first():", f"data = {dataset}"]


def test_what_is_made_before_a_cell_is_in_that_cell() -> None:
    """The value of a cell's last expression is shown only if it stays the last."""
    cells = [
        "import torch\nfrom torch import nn\nlen('a')",
        "print(1)",
        script(device="", model="model = Net()", move=""),
    ]
    book = {
        "cells": [
            {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": c} for c in cells
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    output = convert_bytes(json.dumps(book).encode(), "/a.ipynb", Options()).output
    assert output is not None
    texts = ["".join(c["source"]) for c in json.loads(output)["cells"]]
    assert texts[0].endswith("\nlen('a')")
    assert texts[1].startswith("accelerator = Accelerator(") and texts[1].endswith("accelerator.print(1)")


def test_loaders_that_are_used_under_a_condition_and_after_it_are_prepared_before_it() -> None:
    check = """\
if len(data) > 99:
    model = Net().to(device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        print(model(x).sum())
    raise SystemExit"""
    lines = added(script(loader=f"loader = DataLoader(data, batch_size=16, shuffle=True)\n{check}"))
    first, second = "loader = accelerator.prepare(loader)", "model, optimizer = accelerator.prepare(model, optimizer)"
    assert lines.index(first) < lines.index(second)
    assert sum("prepare(" in line and "loader" in line for line in lines) == 1


def squeezed(code: str) -> str:
    """Code without white space, however it was laid out."""
    return "".join(code.split())


WEIGHED = "accelerator.gather_for_metrics(loss.detach().cpu().double() * {}).sum().item()"
COUNTED = "int(accelerator.gather_for_metrics((model(x).argmax(1) == y).sum().detach()).sum())"


@pytest.mark.parametrize(
    ("add", "expected"),
    [
        ("total += float(loss) * y.size(0)", WEIGHED.format("y.size(0)")),
        ("part = float(loss) * len(y)\ntotal += part", WEIGHED.format("len(y)")),
        ("total += int((model(x).argmax(1) == y).sum())", COUNTED),
    ],
)
def test_sums_of_numbers(add: str, expected: str) -> None:
    slots = {"epoch": "total = 0.0", "batch_end": add, "epoch_end": "print(total / len(data))"}
    assert squeezed(expected) in squeezed(converted(script(**slots)))


def test_sums_of_numbers_that_are_also_read_elsewhere() -> None:
    add = "part = loss.item() * y.size(0)\ntotal += part\nprint(part)"
    text = script(epoch="total = 0.0", batch_end=add, epoch_end="print(total / len(data))")
    of_all = "total += accelerator.gather_for_metrics(torch.tensor(part, dtype=torch.float64)).sum().item()"
    assert squeezed(of_all) in squeezed(converted(text).replace("(\n", "").replace("\n        )", ""))
    assert findings(text) == ["METRIC-TRAIN"]  # of what is printed


def test_sums_of_numbers_that_are_reported_as_they_are_no_tensors() -> None:
    add = "total += loss.detach().numpy() * y.size(0)"
    slots = {"epoch": "total = 0.0", "batch_end": add, "epoch_end": "print(total / len(data))"}
    assert "gather" not in converted(script(**slots))
    assert "METRIC-TRAIN" in findings(script(**slots))


def test_sums_that_are_divided_by_each_other_are_reduced_together() -> None:
    add = "correct += (model(x).argmax(1) == y).sum().item()\ntotal += y.size(0)\nprint(correct / total)"
    slots = {"epoch": "correct, total = 0, 0", "batch_end": add, "epoch_end": "print(correct / len(data))"}
    output = converted(script(**slots))
    assert "total += accelerator.gather_for_metrics(y).size(0)" in output
    assert squeezed("gather_for_metrics((model(x).argmax(1) == y).sum().detach())") in squeezed(output)


ROWS = "batch_size // accelerator.num_processes"
SIZED = {"setup": "batch_size = 16", "loader": "loader = DataLoader(data, batch_size=batch_size, shuffle=True)"}


def test_all_that_meets_a_share_is_made_for_a_share() -> None:
    output = converted(
        script(
            **SIZED,
            before="ones = torch.ones(batch_size, 3)",
            batch_end="noise = torch.randn(batch_size, 8)\nfake = model(noise)\nprint((fake - ones).sum())",
        )
    )
    assert f"ones = torch.ones({ROWS}, 3)" in output
    assert f"noise = torch.randn({ROWS}, 8)" in output


def test_a_batch_size_that_a_function_makes_rows_of() -> None:
    noise = "def noise(rows, width):\n    return torch.randn(rows, width)"
    output = converted(script(**SIZED, definitions=noise, batch_end="print((model(x) - noise(batch_size, 3)).sum())"))
    assert f"noise({ROWS}, 3)" in output


@pytest.mark.parametrize("rows", ["x.size(0)", "len(x)", "x.shape[0]"])
def test_rows_are_compared_with_those_of_a_share(rows: str) -> None:
    output = converted(script(**SIZED, batch_end=f"if {rows} != batch_size:\n    print(1)"))
    assert f"if {rows} != ({ROWS}):" in output


@pytest.mark.parametrize("number", ["len(data)", "x.max()", "x.size(1)", "x.sum(0).size(0)"])
def test_other_numbers_are_compared_with_the_batch_size_itself(number: str) -> None:
    output = converted(script(**SIZED, batch_end=f"if {number} < batch_size:\n    print(1)"))
    assert f"if {number} < batch_size:" in output


@pytest.mark.parametrize(
    ("definitions", "call"),
    [
        ("def noise(rows):\n    return torch.randn(rows, 3) / rows", "noise(batch_size)"),  # no number of rows alone
        ("", "torch.randn(batch_size, 3)"),
    ],
)
def test_what_is_not_the_number_of_rows_of_the_whole_batch(definitions: str, call: str) -> None:
    own = "batch_size = x.size(0)\n" if not definitions else ""
    output = converted(script(**SIZED, definitions=definitions, batch_end=f"{own}print((model(x) - {call}).sum())"))
    assert "num_processes" not in output


@pytest.mark.parametrize(
    ("slots", "placed"),
    [
        ({"move": "y = torch.zeros(16, 3).scatter_(1, y.view(-1, 1), 1)\nx, y = x.to(device), y.to(device)"}, False),
        ({"before": "x, y = next(iter(loader))\nprint(x.numpy())"}, False),
        ({"before": "x, y = next(iter(loader))\nprint(x.cpu().numpy())"}, True),
        ({"model": "model = nn.DataParallel(Net()).to(device)", "move": "y = y.to(device)"}, True),
        ({"move": "y = y.to(device)"}, False),
    ],
)
def test_whether_the_prepared_loader_moves_its_batches(slots: dict[str, str], placed: bool) -> None:
    assert ("device_placement=False" not in converted(script(**slots))) is placed


def test_the_wait_stands_before_the_condition_that_asks_for_the_file() -> None:
    save = 'torch.save(model.state_dict(), "m.pt")'
    load = 'if os.path.exists("m.pt"):\n    model.load_state_dict(torch.load("m.pt"))'
    output = converted(script(imports="import os", epoch_end=save, after=load))
    assert 'accelerator.wait_for_everyone()\nif os.path.exists("m.pt"):\n' in output


def test_the_wait_stands_between_what_a_condition_writes_and_reads() -> None:
    both = (
        'if len(data) > 3:\n    torch.save(model.state_dict(), "m.pt")\n    model.load_state_dict(torch.load("m.pt"))'
    )
    written, waited, read = converted(script(after=both)).splitlines()[-3:]
    assert "accelerator.save(" in written
    assert waited == "    accelerator.wait_for_everyone()"
    assert 'torch.load("m.pt")' in read


def test_a_number_that_a_model_returns_beside_its_loss_is_not_treated_as_a_tensor() -> None:
    two = (
        "class Two(Net):\n    def forward(self, x, y):\n        out = super().forward(x)\n"
        "        return F.cross_entropy(out, y), (out.argmax(1) == y).sum().item()"
    )
    slots = {
        "definitions": two,
        "model": "model = Two().to(device)",
        "forward": "optimizer.zero_grad()\nloss, right = model(x, y)",
        "epoch": "total = 0",
        "batch_end": "total += right",
        "epoch_end": "print(total / len(data))",
    }
    assert "detach" not in converted(script(**slots))
    assert findings(script(**slots)) == ["METRIC-TRAIN"]


def test_the_parts_of_what_a_model_returns_are_known_by_its_forward() -> None:
    two = (
        "class Two(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Linear(8, 3)\n\n"
        "    def forward(self, x):\n        out = self.layer(x)\n        return out, out.norm()"
    )
    slots = {
        "definitions": two,
        "model": "model = Two().to(device)",
        "forward": "optimizer.zero_grad()\nout, size = model(x)\nloss = F.cross_entropy(out, y)",
        "epoch": "right = 0",
        "batch_end": "right += out.argmax(1).eq(y).sum()",
        "epoch_end": "print(right / len(data))",
    }
    assert "out.argmax(1).eq(y).sum().detach()" in converted(script(**slots))


@pytest.mark.parametrize(("test", "expected"), [("len(losses) < 100", []), ("loss.item() < 1", ["COLL-RANKFLOW"])])
def test_a_decision_on_losses_that_are_kept_under_a_condition(test: str, expected: list[str]) -> None:
    slots = {
        "imports": "import numpy as np",
        "before": "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)",
        "epoch": "losses = []",
        "batch_end": f"if {test}:\n    losses.append(float(loss))",
        "epoch_end": "scheduler.step(np.mean(losses))",
    }
    assert findings(script(**slots)) == expected
    assert ("accelerator.batch_mean(" in converted(script(**slots))) == (not expected)


SET = 'os.environ["CUDA_VISIBLE_DEVICES"] = "0"'


@pytest.mark.parametrize("chosen", [f"if len(data) > 3:\n    {SET}", "choose()"])
def test_the_environment_is_set_before_the_accelerator_asks_for_gpus(chosen: str) -> None:
    moved = {"device": "", "model": "model = Net().cuda()", "move": "x, y = x.cuda(), y.cuda()", "imports": "import os"}
    function = f"def choose():\n    {SET}"
    output = converted(script(**moved, definitions=function, loader=f"print(1)\n{chosen}\n{LOADER}"))
    body = output[output.index("\ndata =") :]
    assert chosen in body and body.index(chosen) < body.index("Accelerator(")


def test_forward_is_called_through_the_wrapper() -> None:
    """Its layers may be called by their forward(), too."""
    net = "class Deep(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = Net()\n\n"
    net += "    def forward(self, x):\n        return self.net.forward(x)"
    slots = {
        "definitions": net,
        "model": "model = Deep().to(device)",
        "forward": "optimizer.zero_grad()\nloss = F.cross_entropy(model.forward(x), y)",
    }
    assert "loss = F.cross_entropy(model.forward(x), y)" in converted(script(**slots))


def test_an_optimizer_of_a_picture_trains_no_module() -> None:
    """The picture is no model for being made of something that is not known."""
    definitions = (
        "def paint(path, net):\n    picture = open(path)\n"
        "    out = torch.autograd.Variable(picture.data * 0, requires_grad=True)\n"
        "    own = torch.optim.Adam([out])\n    for _ in range(3):\n        own.zero_grad()\n"
        "        net(out).sum().backward()\n        own.step()"
    )
    assert unchanged(script(definitions=definitions, after='paint("a", model)')).code == "DDP-FREEPARAM"


def test_rows_for_the_batch_size_that_an_object_was_given() -> None:
    trainer = (
        "class Trainer:\n    def __init__(self, size):\n        self.size = size\n"
        "        self.loader = DataLoader(TensorDataset(torch.zeros(64, 8), torch.arange(64) % 3), batch_size=size)\n"
        "        self.model = Net().cuda()\n"
        "        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)\n\n"
        "    def fit(self):\n        ones = torch.ones({}).long().cuda()\n        for x, y in self.loader:\n"
        "            x = x.cuda()\n            self.optimizer.zero_grad()\n"
        "            loss = F.cross_entropy(self.model(x), ones)\n            loss.backward()\n"
        "            self.optimizer.step()"
    )
    empty = dict.fromkeys(
        (
            "device",
            "data",
            "loader",
            "model",
            "optimizer",
            "epochs",
            "epoch",
            "loop",
            "move",
            "forward",
            "backward",
            "step",
        ),
        "",
    )
    text = script(definitions=trainer.format("self.size"), after="Trainer(16).fit()", **empty)
    assert "torch.ones(self.size // self.accelerator.num_processes)" in converted(text)
    other = script(definitions=trainer.format("self.model.layer.in_features"), after="Trainer(16).fit()", **empty)
    assert "num_processes" not in converted(other)


@pytest.mark.parametrize(("again", "shares"), [("", True), ("args.size = 8", False), ("args.size //= 2", False)])
def test_a_copy_of_the_batch_size_is_that_unless_it_is_set_again(again: str, shares: bool) -> None:
    options = 'p = argparse.ArgumentParser()\np.add_argument("--size", type=int, default=16)\nargs = p.parse_args()'
    slots = {
        "imports": "import argparse",
        "setup": f"{options}\nrows = args.size\n{again}",
        "loader": "loader = DataLoader(data, batch_size=args.size, shuffle=True)",
        "batch_end": "noise = torch.randn(rows, 3)",
    }
    assert ("torch.randn(rows // accelerator.num_processes, 3)" in converted(script(**slots))) is shares


def test_a_gpu_as_the_default_of_a_parameter_is_reported_where_it_is_read() -> None:
    draw = 'def draw(n, device="{}"):\n    return torch.zeros(n, device=device)'
    assert findings(script(definitions=draw.format("cuda:0"), after="draw(3)")) == ["DEV-LEFT"]
    assert findings(script(definitions=draw.format("cuda"), after="draw(3)")) == []
    assert findings(script(definitions=draw.format("cpu"), after="draw(3)")) == []


def test_arrays_are_not_gathered_but_what_they_are_made_of() -> None:
    evaluation = """\
right = 0
with torch.no_grad():
    for x, y in loader:
        out = model(x.to(device))
        guess = out.argmax(1).cpu().numpy()
        label = y.numpy()
        right += (guess == label).sum()
print(right / len(data))"""
    output = converted(script(epoch_end=evaluation))
    assert "out, y = accelerator.gather_for_metrics((out, y))" in output


def test_a_seed_that_is_drawn_is_none() -> None:
    slots = {"imports": "import random", "setup": "torch.manual_seed(random.randint(1, 999))"}
    split = "loader = DataLoader(torch.utils.data.random_split(data, [32, 32])[0], batch_size=16)"
    assert "DATA-SPLIT-UNSEEDED" in findings(script(**slots, loader=split))
    seeded = {"setup": "torch.manual_seed(3)"}
    assert "DATA-SPLIT-UNSEEDED" not in findings(script(**seeded, loader=split))


SIZED_NET = """\
class Sized(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.rows = rows
        self.layer = nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(x.view(self.rows, 8))"""


@pytest.mark.parametrize(("size", "codes"), [("batch_size", ["BATCH-MODEL"]), ("width", [])])
def test_a_model_that_is_made_for_batches_of_a_size(size: str, codes: list[str]) -> None:
    slots = {**SIZED, "setup": "batch_size = 16\nwidth = 16", "model": f"model = Sized({size}).to(device)"}
    assert findings(script(**slots, definitions=SIZED_NET)) == codes


OWN_DATA = """\
class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]

    @classmethod
    def parts(cls, rows):
        {shuffle}
        return cls(rows[:32]), cls(rows[32:])"""


@pytest.mark.parametrize(
    ("shuffle", "codes"), [("random.shuffle(rows)", ["DATA-SAMPLER-RNG"]), ("rows = rows[::-1]", [])]
)
def test_parts_of_samples_that_a_class_method_shuffles(shuffle: str, codes: list[str]) -> None:
    rows = "data, rest = Rows.parts([(torch.ones(8) * i, i % 3) for i in range(64)])"
    slots = {"imports": "import random", "definitions": OWN_DATA.format(shuffle=shuffle), "data": rows}
    assert [f for f in findings(script(**slots)) if f.startswith("DATA-S")] == codes


@pytest.mark.parametrize(("image", "guarded"), [("Image.fromarray(pixels)", True), ("Canvas(pixels)", False)])
def test_images_of_pil_are_saved_once(image: str, guarded: bool) -> None:
    slots = {
        "imports": "from PIL import Image",
        "definitions": "class Canvas:\n    def __init__(self, pixels):\n        self.save = print",
        "after": f'pixels = model.layer.weight.detach().cpu().numpy()\nimage = {image}\nimage.save("w.png")',
    }
    assert ('if accelerator.is_main_process:\n    image.save("w.png")' in converted(script(**slots))) is guarded
