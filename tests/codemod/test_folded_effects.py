"""What conditions and imports do besides, in scripts whose own distribution is taken out: it is still done."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import outputs, reason, write
from scripts import convert, converted, script, unchanged

START = """\
import os

import torch
import torch.distributed as dist


def start(args):
    if "RANK" not in os.environ:
        {acts}
        return False
    dist.init_process_group("gloo")
    return True


def several():
    return dist.is_available() and dist.is_initialized()
"""
IMPORTS = "import argparse\nfrom setup import several, start"
ARGUMENTS = "args = argparse.ArgumentParser().parse_args()\n"
DIST = "import argparse\nimport os\nimport torch.distributed as dist"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)


def after(acts: str, begin: str, imports: str = IMPORTS, head: str = "") -> dict[str, str]:
    text = script(
        imports=imports, before=ARGUMENTS + begin, epoch_end="if several():\n    print('others')\nprint(epoch)"
    )
    write({"setup.py": head + START.format(acts=acts), "train.py": text})
    return outputs("train.py")


ACTS = ["torch.manual_seed(7)", "os.makedirs('out', exist_ok=True)", "args.device = 'cpu'", "os.environ['A'] = '1'"]


@pytest.mark.parametrize("acts", ACTS)
@pytest.mark.parametrize(
    "begin", ["several_ = start(args)\nif several_:\n    print('n')", "if start(args):\n    print('n')"]
)
def test_what_a_condition_does_besides_is_done(acts: str, begin: str) -> None:
    found = after(acts, begin)
    assert "start(args)" in found["train.py"] and "dist.init_process_group" not in found["setup.py"]
    assert f"    {acts}\n    return False\n" in found["setup.py"] and "'others'" not in found["train.py"]


@pytest.mark.parametrize("acts", ["pass", "size = 1", "one = os.environ.get('HOME')", "'nothing is set'"])
def test_what_only_tells_it_goes(acts: str) -> None:
    train = after(acts, "if start(args):\n    print('n')")["train.py"]
    assert "start" not in train and "'n'" not in train


def test_a_file_that_is_not_followed_any_more_is_not_left_as_it_was() -> None:
    text = script(imports=IMPORTS, before=f"{ARGUMENTS}if start(args):\n    pass", epoch_end="several()")
    write({"setup.py": START.format(acts="torch.manual_seed(7)"), "train.py": text})
    code, why = reason()
    assert code == "ALREADY-DISTRIBUTED" and "uses setup.py" in why


def test_others_behind_a_condition_that_acts_are_in_the_way() -> None:
    """Its body is not taken out, for it is not either."""
    begin = "if start(args):\n    import torch.distributed as dist\n    dist.barrier()"
    write(
        {
            "setup.py": START.format(acts="torch.manual_seed(7)"),
            "train.py": script(imports=IMPORTS, before=ARGUMENTS + begin),
        }
    )
    assert reason()[0] == "ALREADY-DISTRIBUTED"


@pytest.mark.parametrize(
    ("head", "stays"),
    [
        ("import torch\ntorch.manual_seed(3)\n", True),
        ("import os\nos.environ['A'] = '1'\n", True),
        ("from registry import note\n\n\n@note\ndef one():\n    pass\n", True),
        ("NAMES = ('a', 'b')\n", False),
        ("import torch\n\n\n@torch.no_grad()\ndef one():\n    pass\n", False),
        ("try:\n    import apex\nexcept ImportError:\n    apex = None\n", False),
    ],
)
def test_a_file_that_acts_where_it_is_imported_is_still_imported(head: str, stays: bool) -> None:
    write({"registry.py": "def note(function):\n    return function\n"})
    text = after("pass", "start(args)", head=head)["train.py"]
    assert ("from setup import" in text) is stays


@pytest.mark.parametrize(
    ("made", "left"),
    [
        ("n = args.nodes and int(args.nodes)", "n = args.nodes and int(args.nodes)\n"),
        ("n = args.nodes or None", "n = None\n"),
        ("n = args.nodes is not None and args.nodes > 1 and int('2')", None),
        ("n = not args.nodes and len(data)", "n = len(data)\n"),
    ],
)
def test_values_are_no_mere_truths(made: str, left: str | None) -> None:
    """`None and x` is None, which is not False."""
    begin = "parser = argparse.ArgumentParser()\nparser.add_argument('--nodes', type=int)\nargs = parser.parse_args()\n"
    begin += "if args.nodes:\n    dist.init_process_group('gloo')"
    text = converted(script(imports=DIST, before=begin, after=f"{made}\nprint(n is None, n)"))
    assert "init_process_group" not in text and (left is None or left in text)
    assert "False is None" not in text


OTHERS = """\
parser = argparse.ArgumentParser()
parser.add_argument('--nodes', type=int)
parser.add_argument('--lr', type=float, default=0.1)
parser.add_argument('--debug', action='store_true')
args = parser.parse_args()
if args.nodes:
    dist.init_process_group('gloo')
"""


@pytest.mark.parametrize(
    "kept",
    [
        "n = args.lr > 5 and args.nodes\nprint(n is None)",
        "n = args.debug and args.nodes\nprint(n is None)",
        "n = args.lr <= 5 or args.nodes\nprint(n is None)",
        "n = args.nodes\nif args.debug:\n    n = 5\nif n:\n    print('many')",
        "n = args.nodes\nif args.lr > 5:\n    n = 5\nwhile n:\n    print('many')",
    ],
)
def test_what_other_options_are_by_default_decides_nothing(kept: str) -> None:
    text = converted(script(imports=DIST, before=OTHERS, after=kept))
    assert "init_process_group" not in text and kept.replace("print", "accelerator.print") in text


@pytest.mark.parametrize(
    ("folded", "left"),
    [
        ("if args.lr > 5 and args.nodes:\n    print('many')", ""),
        ("n = args.nodes\nif args.nodes:\n    n = 5\nif n:\n    print('many')", ""),
        ("n = 1 if args.nodes else 2\nprint(n)", "n = 2\naccelerator.print(n)"),
        ("if args.debug or not args.nodes:\n    print('one')", "accelerator.print('one')"),
    ],
)
def test_what_the_switch_decides_with_other_options(folded: str, left: str) -> None:
    text = converted(script(imports=DIST, before=OTHERS, after=folded))
    assert "many" not in text and left in text and "args.nodes" not in text


@pytest.mark.parametrize(("written", "stay"), [("print(args.__dict__)", True), ("print(args.lr)", False)])
def test_options_that_are_read_all_at_once_stay(written: str, stay: bool) -> None:
    begin = "parser = argparse.ArgumentParser()\nparser.add_argument('--nodes', type=int, default=1)\n"
    begin += "parser.add_argument('--lr', type=float)\nargs = parser.parse_args()\n"
    begin += f"if args.nodes > 1:\n    dist.init_process_group('gloo')\n{written}"
    assert ("'--nodes'" in converted(script(imports=DIST, before=begin))) is stay


@pytest.mark.parametrize("kept", ["args.__dict__", "vars(args)"])
def test_options_that_are_set_by_key_have_no_default(kept: str) -> None:
    begin = "parser = argparse.ArgumentParser()\nparser.add_argument('--nodes', type=int, default=1)\n"
    begin += f"args = parser.parse_args()\nfor key, value in (('nodes', 2),):\n    {kept}[key] = value\n"
    begin += "if args.nodes > 1:\n    dist.init_process_group('gloo')"
    assert unchanged(script(imports=DIST, before=begin)).code == "ALREADY-DISTRIBUTED"


def test_what_an_empty_function_is_given_is_computed() -> None:
    begin = "def start(where):\n    if 'RANK' in os.environ:\n        dist.init_process_group('gloo')\n\n\n"
    assert "start(os.makedirs('out'))" in converted(script(imports=DIST, before=f"{begin}start(os.makedirs('out'))"))
    assert "start(" not in converted(script(imports=DIST, before=f"{begin}start('out')"))


SUMS = [
    ('dist.all_reduce(sums["n"])', True),
    ("dist.all_reduce(tensor=n)", True),
    ("m = n\ndist.all_reduce(m)", True),
    ("n = dist.nn.all_reduce(n)", True),
    ("m = [None, None]\ndist.all_gather_object(m, n)\nn = sum(m)", True),
    ("m = torch.zeros(1)\ndist.reduce_scatter_tensor(m, n)\nn = m.sum()", True),
    ("m = n.clone()\ndist.all_reduce(m)", False),
    ("m = [None, None]\ndist.all_gather_object(m, n)\nprint(sum(m))", False),
]


TRAINS = """\
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def main():
    loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(2, (64,))), batch_size=8, shuffle=True)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        n = y.float().sum()
        sums = {"n": n}
        if dist.is_initialized():
            COMBINED
        loss = F.cross_entropy(model(x), y) / (n + 1) - sums["n"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
"""


@pytest.mark.parametrize(("combined", "told"), SUMS)
def test_however_a_sum_gets_into_a_loss(combined: str, told: bool) -> None:
    plan = convert(TRAINS.replace("COMBINED", combined.replace("\n", "\n" + " " * 12))).plan
    assert plan is not None
    assert ("DIST-SUM" in [f.code for f in plan.findings]) is told


# ---- sums that are kept in attributes, and those of helpers

KEPT = """\
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def total(n):
    if not dist.is_initialized():
        return n
    dist.all_reduce(n)
    return n


class Base:
    n = 1


class Criterion(nn.Module):
    def count(self, y):
        self.n = y.float().sum()
        COUNTED

    def forward(self, out, y):
        self.count(y)
        return F.cross_entropy(out, y, reduction="sum") / self.DIVISOR


class Meter:
    def __init__(self):
        self.n = torch.zeros(1)


def main():
    data = TensorDataset(torch.arange(256.0).view(64, 4), torch.arange(64) % 2)
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    meter = Meter()
    criterion = Criterion()
    for x, y in loader:
        loss = criterion(model(x), y)
        STEP
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(meter.n, criterion.n)


main()
"""
REDUCED = "if dist.is_initialized():\n            dist.all_reduce({})"


def kept(counted: str = "pass", divisor: str = "n", step: str = "pass", change: tuple[str, str] = ("", "")) -> bool:
    """Whether a loss is said to be computed with a sum over the processes."""
    text = KEPT.replace("COUNTED", counted).replace("DIVISOR", divisor).replace("STEP", step).replace(*change)
    plan = convert(text).plan
    assert plan is not None and "DIST-SINGLE" in [f.code for f in plan.findings]
    return "DIST-SUM" in [f.code for f in plan.findings]


COUNTED = [REDUCED.format("self.n"), "self.n = total(self.n)", "total(self.n)"]
CALLED = KEPT.replace("Criterion(nn.Module)", "Criterion").replace("def forward", "def __call__")
DERIVED = KEPT.replace("    def forward", "    pass\n\n\nclass Derived(Criterion):\n    def forward").replace(
    "= Criterion()", "= Derived()"
)


@pytest.mark.parametrize("counted", COUNTED)
@pytest.mark.parametrize("text", [KEPT, CALLED, DERIVED])
def test_a_sum_that_another_method_divides_by(counted: str, text: str) -> None:
    plan = convert(text.replace("COUNTED", counted).replace("DIVISOR", "n").replace("STEP", "pass")).plan
    assert plan is not None and "DIST-SUM" in [f.code for f in plan.findings]


@pytest.mark.parametrize("counted", COUNTED)
def test_a_sum_that_is_kept_and_only_shown(counted: str) -> None:
    assert kept(counted)
    assert not kept(counted, divisor="other", change=("class Base:\n    n", "class Base(nn.Module):\n    other"))


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("criterion.n = total(y.float().sum())", True),
        (REDUCED.format("criterion.n"), True),
        ("n = y.float().sum()\n        total(n)\n        loss = loss / n", True),
        ("meter.n = total(y.float().sum())\n        loss = loss / meter.n", True),
        ("meter.n = total(meter.n + 1)", False),  # which has an attribute of that name, too
        (REDUCED.format("meter.n"), False),
        ("n = y.float().sum()\n        total(n)\n        print(n)", False),
        ("n = total(y.float().sum())\n        meter.n += n", False),
    ],
)
def test_a_sum_that_is_set_from_outside(step: str, told: bool) -> None:
    assert kept(step=step) is told
