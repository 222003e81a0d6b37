"""Files that several scripts share: changed in one way that suits all, or left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelift_codemod.api import convert_files
from accelift_codemod.options import Options
from accelift_codemod.project import groups
from cli_runs import accelift, tree
from projects import ENGINE, HEAD, LIFTED_ENGINE, MODEL, lifted, outputs, reason, script, write


def test_another_script_uses_what_would_change(folder: Path) -> None:
    files = {
        "train.py": script("from engine import train\nfrom model import Net"),
        "engine.py": ENGINE,
        "model.py": MODEL,
    }
    write({**files, "other.py": "import engine\n\n\ndef again(*given):\n    engine.train(*given)\n"})
    code, message = reason()
    assert code == "SHARED-FILE"
    told = "the conversion changes train in engine.py, which other.py uses, too"
    assert message == f"{told}: train() would take other arguments"
    assert tree(folder).keys() >= files.keys()


def test_scripts_that_are_only_left_alone_for_another_are_not_in_the_way(folder: Path) -> None:
    """`one.py` and `two.py` could be converted, but for `odd.py`: they are told of that one alone."""
    text = script("from engine import train\nfrom model import Net")
    odd = text.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "unknown(model)")
    odd = odd.replace("import torch\n", "import torch\nfrom elsewhere import unknown\n")
    write({"one.py": text, "two.py": text, "odd.py": odd, "engine.py": ENGINE, "model.py": MODEL})
    names = [(Path(name), True) for name in ("one.py", "two.py", "odd.py")]
    results = {Path(r.path).name: r for r in groups.flattened(convert_files(names, Options()))}
    for name in ("one.py", "two.py"):
        plan = results[name].plan
        assert plan is not None
        (found,) = plan.findings
        assert (found.code, found.message) == (
            "SHARED-FILE",
            "the conversion changes train in engine.py, which odd.py uses, too: train() would take other arguments",
        )
        assert found.remedy.startswith("do first what odd.py needs (OPT-UNKNOWN), and convert them together")


def test_another_script_uses_something_else(folder: Path) -> None:
    engine = ENGINE + "\n\ndef accuracy(right, count):\n    return right / count\n"
    write(
        {"train.py": script("from engine import train\nfrom model import Net"), "engine.py": engine, "model.py": MODEL}
    )
    write({"other.py": "from engine import accuracy\nfrom model import Net\n\nprint(accuracy(1, 2), Net)\n"})
    assert sorted(outputs("train.py")) == ["engine.py", "train.py"]


def test_a_file_further_in_uses_what_would_change(folder: Path) -> None:
    """Though nothing says where the project begins, and only from there its import leads to the file."""
    (folder / "pyproject.toml").unlink()
    package = {"train.py": script("from lib.engine import train\nfrom model import Net"), "model.py": MODEL}
    write({**package, "lib/__init__.py": "", "lib/engine.py": ENGINE, "lib/other.py": "import engine\n"})
    assert sorted(outputs("train.py")) == ["lib/engine.py", "train.py"]
    write({"lib/other.py": "from lib.engine import train\n\n\ndef again(*given):\n    train(*given)\n"})
    message = "the conversion changes train in lib/engine.py, which lib/other.py uses, too"
    message += ": train() would take other arguments"
    assert reason() == ("SHARED-FILE", message)


def test_another_script_uses_it_through_a_package(folder: Path) -> None:
    body = script("from lib import train\nfrom model import Net")
    write(
        {"train.py": body, "lib/__init__.py": "from .engine import train\n", "lib/engine.py": ENGINE, "model.py": MODEL}
    )
    write({"other.py": "from lib import train\n\nprint(train)\n"})
    assert reason()[0] == "SHARED-FILE"


@pytest.mark.parametrize(
    ("exported", "other", "alone"),
    [
        ("__all__ = (train,)\n", "", True),  # what it says it hands on, it does not use
        ('__all__ = ["train"]\n', "", True),
        ("__all__ = [train]\n", "from lib import train\n\nprint(train)\n", False),
        ("__all__ = (train,)\nprint(train)\n", "", False),
        ("__all__ = (train(),)\n", "", False),
        ("every = (train,)\n", "", False),
    ],
)
def test_a_package_that_only_hands_a_function_on(folder: Path, exported: str, other: str, alone: bool) -> None:
    write({"train.py": script("from lib import train\nfrom model import Net"), "model.py": MODEL})
    write({"lib/__init__.py": f"from .engine import train\n\n{exported}", "lib/engine.py": ENGINE, "other.py": other})
    if alone:
        assert sorted(outputs("train.py")) == ["lib/engine.py", "train.py"]
    else:
        assert reason()[0] == "SHARED-FILE"


def test_scripts_that_share_a_file_are_converted_together(folder: Path) -> None:
    body = script("from engine import train\nfrom model import Net")
    write({"one.py": body, "two.py": body.replace("lr=0.1", "lr=0.2"), "engine.py": ENGINE, "model.py": MODEL})
    found = outputs("one.py", "two.py")
    assert sorted(found) == ["engine.py", "one.py", "two.py"]
    assert found["engine.py"] == LIFTED_ENGINE
    assert reason("one.py")[0] == "SHARED-FILE"  # alone, it would break the other


def test_scripts_that_want_a_file_changed_differently(folder: Path) -> None:
    """What one would call the accelerator is the name of something else in the other."""
    one = script("from engine import train\nfrom model import Net")
    two = one + "accelerator = 'gpu'\nprint(accelerator)\n"
    write({"one.py": one, "engine.py": ENGINE, "model.py": MODEL})
    first = outputs("one.py")["engine.py"]
    Path("one.py").unlink()
    write({"two.py": two})
    assert outputs("two.py")["engine.py"] != first
    write({"one.py": one})
    results = {
        r.path: r for r in groups.flattened(convert_files([(Path(n), True) for n in ("one.py", "two.py")], Options()))
    }
    for name, other in (("one.py", "two.py"), ("two.py", "one.py")):
        plan = results[name].plan
        assert plan is not None and results[name].output is None
        assert plan.findings[0].code == "SHARED-FILE"
        message = f"train in engine.py would have to be changed in another way for {other}"
        assert plan.findings[0].message == message
    assert "engine.py" not in results


@pytest.mark.parametrize(
    "trains",
    [
        "        optimizer.step()\n        losses.append(loss.item())\n",
        "        optimizer.step()\n        losses.append(loss.item())\n        print(loss)\n",
    ],
)
def test_one_of_two_scripts_decides_by_what_the_other_only_keeps(folder: Path, trains: str) -> None:
    """What decides is the mean over the processes; who only looks at it may have that, too."""
    engine = ENGINE.replace("    for x", "    losses = []\n    for x", 1).replace("        optimizer.step()\n", trains)
    body = script("from engine import train\nfrom model import Net")
    keeps = body.replace("train(", "losses = train(").replace("import losses = train", "import train")
    decides = f"{keeps}if losses[-1] > 1:\n    model.load_state_dict(torch.load('model.pt'))\n"
    files = {"engine.py": f"{engine}    return losses\n", "model.py": MODEL}
    write({**files, "keeps.py": keeps})
    assert "batch_mean" not in outputs("keeps.py")["engine.py"]
    write({**files, "decides.py": decides})
    found = outputs("keeps.py", "decides.py")
    assert sorted(found) == ["decides.py", "engine.py", "keeps.py"]
    assert "losses.append(accelerator.batch_mean(loss.detach()).item())" in found["engine.py"]


def test_each_script_uses_another_part_of_a_file(folder: Path) -> None:
    """Both changes of the file are made: no script uses what only the other one changes."""
    other = ENGINE.replace("def train(", "def fit(")
    shared = ENGINE + "\n\n" + other.partition("\n\n\n")[2]
    lifted_shared = LIFTED_ENGINE + "\n\n" + LIFTED_ENGINE.replace("def train(", "def fit(").partition("\n\n\n")[2]
    one, two = "from engine import train\nfrom model import Net", "from engine import fit\nfrom model import Net"
    write({"one.py": script(one), "two.py": script(two, train="fit"), "engine.py": shared, "model.py": MODEL})
    assert outputs("one.py", "two.py") == {
        "one.py": lifted(one),
        "two.py": lifted(two, train="fit"),
        "engine.py": lifted_shared,
    }


LOOP = ENGINE.partition("\n\n\n")[2]
SAY = "def say(text):\n    print(text)\n"


def alone(imports: str, device: str = "") -> str:
    """A script with its training loop in it."""
    body = script(f"import torch.nn.functional as F\n{imports}\nfrom model import Net\n\n{LOOP}")
    return body.replace("Net()", f'Net().to("{device}")') if device else body


def test_a_helper_of_a_script_that_means_the_cpu_and_of_one_that_does_not(folder: Path) -> None:
    """Once it has been asked for the state of the processes, the library cannot choose the CPU any more."""
    call = "from helper import say\nsay(1)"
    write({"gpu.py": alone(call, "cuda"), "helper.py": SAY, "model.py": MODEL})
    assert "PartialState().print(text)" in outputs("gpu.py")["helper.py"]
    write({"cpu.py": alone(call)})
    both = outputs("gpu.py", "cpu.py")
    assert sorted(both) == ["cpu.py", "gpu.py"]  # what the helper prints is printed by every process
    assert "cpu=True" in both["cpu.py"] and "cpu=True" not in both["gpu.py"]
    results = convert_files([(Path("gpu.py"), True), (Path("cpu.py"), True)], Options())
    told = {r.path: [f.code for f in r.plan.findings] for r in groups.flattened(results) if r.plan}
    assert "SHARED-FILE" in told["gpu.py"] and "SHARED-FILE" not in told["cpu.py"]


def test_a_helper_that_both_call_once_it_is_known_which_of_them_means_the_cpu(folder: Path) -> None:
    """Each asks for the state of the processes after it has said that it means the CPU: one file serves both."""
    said = "from helper import say"
    write({"gpu.py": alone(said, "cuda") + "say(1)\n", "helper.py": SAY, "model.py": MODEL})
    write({"cpu.py": alone(said) + "say(1)\n"})
    both = outputs("gpu.py", "cpu.py")
    assert sorted(both) == ["cpu.py", "gpu.py", "helper.py"]
    assert "PartialState().print(text)" in both["helper.py"]
    results = convert_files([(Path("gpu.py"), True), (Path("cpu.py"), True)], Options())
    assert not any(f.code == "SHARED-FILE" for r in groups.flattened(results) if r.plan for f in r.plan.findings)
    assert "cpu=True" in both["cpu.py"] and "cpu=True" not in both["gpu.py"]


def test_a_folder_that_may_be_there_already_changes_nothing_for_others(folder: Path) -> None:
    make = "import os\n\n\ndef make(name):\n    if not os.path.exists(name):\n        os.makedirs(name)\n"
    write({"train.py": alone("from helper import make\nmake('a')"), "helper.py": make, "model.py": MODEL})
    write({"other.py": "from helper import make\n\nmake('b')\n"})
    assert outputs("train.py")["helper.py"] == make.replace("(name)\n", "(name, exist_ok=True)\n").replace(
        "def make(name, exist_ok=True)", "def make(name)"
    )


def test_a_script_that_is_left_alone_is_in_nobodys_way(folder: Path) -> None:
    """The second script cannot be converted: the main block of what it imports uses what would change."""
    one = alone("from helper import say\nsay(1)", "cuda")
    two = script("from helper import say\nfrom engine import train\nfrom model import Net\n\naccelerator = say")
    block = "\n\nif __name__ == '__main__':\n    train(None, [], None)\n"
    files = {"one.py": one, "two.py": two, "helper.py": SAY, "model.py": MODEL, "engine.py": ENGINE + block}
    write(files)
    assert sorted(outputs("one.py", "two.py")) == ["helper.py", "one.py"]


@pytest.mark.parametrize(
    ("own", "line", "kept"),
    [
        ("", "print(nn.Linear(2, 2))", True),
        ("", "print(1)", False),
        ("def show():\n    print(nn.Linear(2, 2))\n\n\n", "show()", True),  # which nothing else runs
    ],
)
def test_what_a_file_uses_when_it_is_run_itself_stays(folder: Path, own: str, line: str, kept: bool) -> None:
    spread = "from torch import nn\n\n\ndef spread(model):\n    return nn.DataParallel(model)\n"
    imports = "from engine import train\nfrom model import Net\nfrom spreading import spread"
    body = script(imports).replace("Net()", "spread(Net())")
    block = f"\n\n{own}if __name__ == '__main__':\n    {line}\n"
    write({"train.py": body, "engine.py": ENGINE, "model.py": MODEL, "spreading.py": spread + block})
    found = outputs("train.py")["spreading.py"]
    assert "DataParallel" not in found and ("from torch import nn" in found) == kept


# ---- scripts that others import from


MAIN = """\
def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=4)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, loader, optimizer)


if __name__ == "__main__":
    main()
"""


def test_a_script_imports_from_another_what_stays_as_it_is(folder: Path) -> None:
    net = MODEL.partition("\n\n\n")[2]
    one = f"{HEAD}import torch.nn as nn\nimport torch.nn.functional as F\n\n\n{net}\n\n{LOOP}\n\n{MAIN}"
    write({"one.py": one, "two.py": alone("").replace("from model", "from one")})
    assert sorted(outputs("one.py", "two.py")) == ["one.py", "two.py"]


def test_another_script_uses_what_gets_a_parameter_more(folder: Path) -> None:
    one = f"{HEAD}import torch.nn.functional as F\nfrom model import Net\n\n\n{LOOP}\n\n{MAIN}"
    write({"one.py": one, "model.py": MODEL})
    assert "def train(model, loader, optimizer, accelerator):" in outputs("one.py")["one.py"]
    write({"two.py": "from one import main\n\nmain()\n"})
    assert sorted(outputs("one.py")) == ["one.py"]  # main() is called as before
    write({"two.py": "from one import train\n\nprint(train)\n"})
    message = "the conversion changes train in one.py, which two.py uses, too: train() would take other arguments"
    assert reason("one.py") == ("SHARED-FILE", message)


def test_a_script_and_another_that_uses_its_loop_are_converted_together(folder: Path) -> None:
    block = MAIN.partition("\n\n\n")[0].replace("def main():", 'if __name__ == "__main__":')
    one = f"{HEAD}import torch.nn.functional as F\nfrom model import Net\n\n\n{LOOP}\n\n{block}\n"
    two = script("from one import train\nfrom model import Net")
    write({"one.py": one, "two.py": two, "model.py": MODEL})
    both = outputs("one.py", "two.py")
    assert sorted(both) == ["one.py", "two.py"]
    assert "def train(model, loader, optimizer, accelerator):" in both["one.py"]
    assert both["two.py"] == lifted("from one import train\nfrom model import Net")


def test_another_script_uses_what_needs_the_accelerator_of_the_main_block(folder: Path) -> None:
    main = MAIN.partition("\n\n\n")[0].replace("def main():", 'if __name__ == "__main__":')
    loop = LOOP.replace("(model, loader, optimizer)", "()") + "\n\ndef again():\n    train()\n\n\n"
    one = f"{HEAD}import torch.nn.functional as F\nfrom model import Net\n\n\n{loop}"
    one += main.replace("train(model, loader, optimizer)", "again()") + "\n"
    write({"one.py": one, "model.py": MODEL})
    assert "accelerator.backward(loss)" in outputs("one.py")["one.py"]
    write({"two.py": "from one import again\n\nprint(again)\n"})
    assert reason("one.py") == ("SHARED-FILE", "the conversion changes again in one.py, which two.py uses, too")


CHOICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
OPEN = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader

{CHOICE}
data = torch.load("data.pt")
model = nn.Linear(4, 2)
model = model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=8)

if __name__ == "__main__":
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        ("", False),
        ("from one import data\n\nprint(data)\n", False),
        ("from one import device\n\nprint(device)\n", True),
        ("from one import *\n\nprint(device, model)\n", True),
        ("import one\n\nprint(one.device)\n", True),
    ],
)
def test_the_device_of_a_script_stays_for_others(folder: Path, other: str, kept: bool) -> None:
    write({"one.py": OPEN, "two.py": other})
    assert ("\ndevice = accelerator.device\n" in outputs("one.py")["one.py"]) is kept


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        ("from settings import device\n\nprint(device)\n", False),
        ("from settings import *\n\nprint(torch.ones(1))\n", True),
    ],
)
def test_an_import_that_others_take_from_a_file_stays(folder: Path, other: str, kept: bool) -> None:
    write({"settings.py": f"import torch\n\nsize = 8\n{CHOICE}\n", "two.py": other})
    write({"one.py": OPEN.replace(CHOICE, "from settings import device, size\nprint(size)")})
    assert ("import torch\n" in outputs("one.py")["settings.py"]) is kept


CALLED = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader


def sample(net, rows):
    {{first}}
    with torch.no_grad():
        return net(torch.zeros(rows, net.in_features))


def main():
    {CHOICE}
    model = nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(torch.load("data.pt"), batch_size=8)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    sample(model, 2)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("other", ["", "from one import main\n\nmain()\n", "from one import sample\n\nprint(sample)\n"])
def test_a_function_that_others_may_call_is_handed_the_model_itself(folder: Path, other: str) -> None:
    write({"one.py": CALLED.format(first="net.eval()"), "two.py": other})
    assert "    sample(accelerator.unwrap_model(model), 2)\n" in outputs("one.py")["one.py"]


def test_a_function_that_others_call_and_that_needs_more_than_the_model(folder: Path) -> None:
    first = "net(torch.ones(rows, 4)).sum().backward()"  # with gradients: they would not be averaged
    write({"one.py": CALLED.format(first=first), "two.py": "from one import sample\n\nprint(sample)\n"})
    message = "the conversion changes sample in one.py, which two.py uses, too: sample() would take other arguments"
    assert reason("one.py") == ("SHARED-FILE", message)


BUILT = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader

{CHOICE}


def build():
    return nn.Linear(4, 2).to(device)


def run(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()


def main():
    model = build()
    loader = DataLoader(torch.load("data.pt"), batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run(model, loader, optimizer)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("taken", "moves"),
    [
        ("main", []),  # it is called as before, and gives the same
        ("build", ["return nn.Linear(4, 2).to(device)"]),  # others do not prepare what it gives
        ("run", ["model(x.to(device)), y.to(device)"]),  # others hand it a loader that is not prepared
        ("device", []),
    ],
)
def test_moves_stay_that_others_rely_on(folder: Path, taken: str, moves: list[str]) -> None:
    write({"one.py": BUILT, "two.py": f"from one import {taken}\n\nprint({taken})\n"})
    after = outputs("one.py")["one.py"]
    assert [
        line for line in ("return nn.Linear(4, 2).to(device)", "model(x.to(device)), y.to(device)") if line in after
    ] == moves


WHOLE = f"""\
import torch
from torch import nn
from torch.utils.data import DataLoader


def main(epochs=1):
    {CHOICE}
    model = nn.Linear(4, 2).to(device)
    loader = DataLoader(torch.load("data.pt"), batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


def test_a_script_and_another_that_runs_it_are_converted_together(folder: Path) -> None:
    write({"one.py": WHOLE})
    alone = outputs("one.py")["one.py"]
    write({"two.py": "from one import main\n\nif __name__ == '__main__':\n    main()\n"})
    both = outputs("one.py", "two.py")
    assert both["one.py"] == alone and ".to(device)" not in alone
    assert outputs("two.py")["one.py"] == alone  # main() is called as before: it stays what it was for its own block


def test_a_function_that_another_runs_and_that_is_handed_what_it_trains(folder: Path) -> None:
    loop = WHOLE.replace("main(epochs=1)", "main(loader, epochs=1)").replace(
        "loader = DataLoader", "other = DataLoader"
    )
    made = 'loader = DataLoader(torch.load("data.pt"), batch_size=8)'
    head = f"import torch\nfrom torch.utils.data import DataLoader\nfrom one import main\n\n{made}\n"
    write({"one.py": loop.replace("    main()", f"    {made}\n    main(loader)"), "two.py": f"{head}main(loader, 3)\n"})
    assert reason("two.py")[0] == "SHARED-FILE"


def test_a_script_and_another_that_also_takes_a_part_of_it(folder: Path) -> None:
    """What is not prepared in that function is moved as before, for those who call others."""
    write({"one.py": BUILT, "two.py": "from one import build, main\n\nmain()\nprint(build().weight.device)\n"})
    moved = [line.strip() for line in BUILT.splitlines() if "return nn.Linear" in line]
    assert all(
        line in outputs(*given).get("one.py", BUILT) for given in (["one.py"], ["one.py", "two.py"]) for line in moved
    )


SETTINGS = """\
import torch


class Settings:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


device = Settings.device
"""


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        ("from settings import Settings\n\nprint(Settings.device)\n", False),
        ("from settings import *\n\nprint(device)\n", False),
        ("import torch\nfrom settings import *\n\nprint(device, torch.ones(1))\n", False),
        ("from settings import *\n\nprint(device, torch.ones(1))\n", True),  # it has torch from there
        ("from settings import device, torch\n\nprint(torch.ones(1, device=device))\n", True),
        ("import settings\n\nprint(settings.torch.ones(1))\n", True),
    ],
)
def test_an_import_that_nothing_uses_any_more_stays_for_those_who_have_it_from_there(
    folder: Path, other: str, stays: bool
) -> None:
    body = script("from engine import train\nfrom model import Net\nfrom settings import device")
    body = body.replace("Net()", "Net().to(device)")
    write({"train.py": body, "engine.py": ENGINE, "model.py": MODEL, "settings.py": SETTINGS, "other.py": other})
    assert ("import torch\n" in outputs("train.py")["settings.py"]) is stays


@pytest.mark.parametrize(("own", "stays"), [("", True), ("import torch\n", False)])
def test_what_a_file_imports_stays_for_those_that_have_it_by_a_star(folder: Path, own: str, stays: bool) -> None:
    engine = ENGINE.replace("import torch.nn.functional as F", f"from settings import *\n{own}", 1)
    engine = engine.replace("F.cross_entropy", "torch.nn.functional.cross_entropy")
    body = script("from engine import train\nfrom model import Net\nimport settings")
    body = body.replace("Net()", "Net().to(settings.device)")
    write({"train.py": body, "engine.py": engine, "model.py": MODEL, "settings.py": SETTINGS})
    assert ("import torch\n" in outputs("train.py")["settings.py"]) is stays


def test_a_script_that_is_left_alone_says_so_where_another_imports_from_it(folder: Path) -> None:
    """What is noted of it as a part of the other script does not take the place of the reason."""
    net = MODEL.partition("\n\n\n")[2].replace("nn.Linear(4, 2)", "nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2))")
    one = f"{HEAD}import torch.nn as nn\nimport torch.nn.functional as F\n\n\n{net}\n\n{LOOP}\n\n{MAIN}"
    files = {"one.py": one, "two.py": "from one import train\n\nprint(train)\n", "engine.py": ENGINE}
    write({**files, "three.py": script("from engine import train\nfrom one import Net")})
    results = groups.flattened(convert_files([(Path(name), True) for name in ("one.py", "three.py")], Options()))
    found = {Path(r.path).name: r for r in results}
    assert found["three.py"].output is not None and found["engine.py"].output is not None
    assert found["one.py"].plan is not None and found["one.py"].output is None
    assert [f.code for f in found["one.py"].plan.findings] == ["SHARED-FILE"]


LOG = "def log(text):\n    print(text)\n"
GROUPED = """\
import torch.distributed as dist
from utils import log

log("starts")
dist.init_process_group("gloo")
dist.all_gather_object([None] * 2, "x")
"""


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        (GROUPED, True),
        ("import torch.multiprocessing as mp\nfrom utils import log\n\nmp.spawn(log, args=('x',))\n", True),
        ("from utils import log\n\nlog('x')\n", False),
        (GROUPED.replace("from utils import log", "log = print"), False),
        ("from transformers import Trainer\nfrom utils import log\n\nTrainer(log('x')).train()\n", True),
        ("import transformers\nfrom utils import log\n\ntransformers.Trainer(log('x')).train()\n", True),
        ("from transformers.trainer_seq2seq import Seq2SeqTrainer\nfrom utils import log\n\nlog('x')\n", True),
        ("from transformers import BertModel\nfrom utils import log\n\nlog(BertModel)\n", False),  # one process
        ("import transformers\nfrom utils import log\n\nlog(transformers.BertModel)\n", False),
        ("from apex import amp\nfrom utils import log\n\nlog(amp)\n", False),
        ("import deepspeed\nfrom utils import log\n\nlog('x')\n", True),
    ],
)
def test_a_script_with_a_process_group_of_its_own_is_asked_for_no_state(folder: Path, other: str, kept: bool) -> None:
    body = script("from engine import train\nfrom model import Net\nfrom utils import log") + "log('done')\n"
    write({"train.py": body, "engine.py": ENGINE, "model.py": MODEL, "utils.py": LOG, "other.py": other})
    found = convert_files([(Path("train.py"), True)], Options())[0]
    texts = {m.path: m.output.decode() for m in found.members if m.output is not None}
    assert ("utils.py" in texts) != kept
    assert kept or "PartialState().print(text)" in texts["utils.py"]


def test_scripts_that_all_wait_for_one_say_which(folder: Path) -> None:
    text = script("from engine import train\nfrom model import Net")
    other = text.replace("loader = DataLoader(", "loader = tuple(").replace(", batch_size=4)", ")")
    write({"train.py": text, "again.py": text, "other.py": other, "engine.py": ENGINE, "model.py": MODEL})
    results = convert_files([(Path(name), True) for name in ("train.py", "again.py", "other.py")], Options())
    told = {r.path: r.plan.findings[0].remedy for r in results if r.plan is not None and r.path != "other.py"}
    assert len(told) == 2 and all(t.startswith("do first what other.py needs (") for t in told.values())


TOGETHER = "convert the scripts that share it together, in a way that suits all"


@pytest.mark.parametrize(
    ("loader", "told"),
    [
        ("loader = [(torch.randn(4, 4), torch.zeros(4).long())]", "do first what other.py needs (DATA-UNSHARDED)"),
        ("", TOGETHER),
    ],
)
def test_what_to_do_where_another_script_is_left_alone(folder: Path, loader: str, told: str) -> None:
    text = script("from engine import train\nfrom model import Net")
    write({"train.py": text, "engine.py": ENGINE, "model.py": MODEL})
    lines = text.splitlines(keepends=True)
    other = "".join(f"{loader}\n" if line.startswith("loader = ") else line for line in lines)
    write({"other.py": other if loader else "import engine\n\n\ndef again(*given):\n    engine.train(*given)\n"})
    results = convert_files([(Path(name), True) for name in ("train.py", "other.py")], Options())
    (finding,) = next(r.plan.findings for r in results if r.path == "train.py" and r.plan is not None)
    assert finding.remedy.startswith(told)
    done = accelift("verify", "train.py", "-q")
    assert done.code == 2 and finding.remedy in done.stderr


TRAINER = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from model import Net


class Trainer:
    def __init__(self, batch_size=4):
        torch.manual_seed(0)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = Net().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.zeros(8).long()), batch_size=batch_size)

    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x.to(self.device)), y.to(self.device)).backward()
            self.optimizer.step()


def main():
    trainer = Trainer(8)
    trainer.train()


if __name__ == "__main__":
    main()
"""
QUICK = """\
from trainer import Trainer


def quick():
    trainer = Trainer()
    trainer.train()
    {more}


if __name__ == "__main__":
    quick()
"""


def test_a_trainer_that_each_of_two_scripts_makes_once(folder: Path) -> None:
    write({"trainer.py": TRAINER, "quick.py": QUICK.format(more="print('done')"), "model.py": MODEL})
    texts = outputs("trainer.py", "quick.py")
    assert texts["trainer.py"].count("self.accelerator = Accelerator(") == 1
    assert texts["quick.py"] == QUICK.format(more="trainer.accelerator.print('done')")


def test_a_trainer_that_one_script_makes_twice(folder: Path) -> None:
    """One accelerator serves both: their constructor is no place for it, and the other script wants it there."""
    write({"trainer.py": TRAINER, "quick.py": QUICK.format(more="Trainer(2).train()"), "model.py": MODEL})
    results = convert_files([(Path(name), True) for name in ("trainer.py", "quick.py")], Options())
    assert [f.code for r in results if r.plan is not None for f in r.plan.findings] == ["SHARED-FILE"] * 2
