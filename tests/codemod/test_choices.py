"""Classes that train and are chosen while the script runs: by another name, from a dict, in the arms of a condition."""

from __future__ import annotations

import pytest
from scripts import added, converted, findings, script, unchanged

NO_BODY = dict.fromkeys(("loader", "model", "optimizer", "epochs", "loop", "move", "forward", "backward", "step"), "")
TRAINER = """\
class {name}{bases}:
    def __init__(self, {parameter}):
        self.device = device
        self.loader = DataLoader(data, batch_size=16)
        self.model = {model}
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr={rate})
        {prepare}

    def fit(self):
        for x, y in self.loader:
            {move}
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            {backward}
            self.optimizer.step()
"""
LEGACY = {
    "bases": "",
    "parameter": "device",
    "model": "Net().to(device)",
    "prepare": "self.epoch = 0",
    "move": "x, y = x.to(self.device), y.to(self.device)",
    "backward": "loss.backward()",
}
PLAIN = TRAINER.format(name="Plain", rate=0.1, **LEGACY)
FAST = TRAINER.format(name="Fast", rate=0.5, **LEGACY)
BOTH = f"{PLAIN}\n\n{FAST}"
SETUP = "import sys\nfast = 'fast' in sys.argv"


def chosen(after: str, definitions: str = BOTH, setup: str = SETUP, **slots: str) -> str:
    """A script that chooses between two classes that train."""
    return script(definitions=definitions, setup=setup, after=after, **{**NO_BODY, **slots})


def code(text: str) -> str:
    """The conversion without indentation."""
    return code_of(converted(text))


def code_of(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())


# ---- one class that has another name


@pytest.mark.parametrize(
    "after",
    [
        "Chosen = Plain\nChosen(device).fit()",
        "Chosen = Plain\nfor n in range(3):\n    one = Chosen(device)\n    one.fit()",
        "KINDS = {'plain': Plain}\nKINDS[sys.argv[1]](device).fit()",
        "KINDS = {'plain': Plain}\nChosen = KINDS.get(sys.argv[1], Plain)\nChosen(device).fit()",
    ],
)
def test_another_name_for_a_class(after: str) -> None:
    text = code(chosen(after, PLAIN))
    assert text.count("accelerator.backward(loss)") == text.count("accelerator.prepare(") == 1
    assert after.splitlines()[0] in text  # the choice itself is as it was


@pytest.mark.parametrize(
    "after",
    [
        "Chosen = Plain\nfind(Chosen)\nChosen(device).fit()",
        "Chosen = Plain\nChosen = find(Chosen)\nChosen(device).fit()",
        "KINDS = {'plain': Plain}\nfind(KINDS)\nKINDS['plain'](device).fit()",
        "KINDS = {'plain': Plain}\nKINDS['other'] = find(3)\nKINDS['plain'](device).fit()",
        "KINDS = {'plain': Plain}\nKINDS.update(find(3))\nKINDS['plain'](device).fit()",
        "KINDS = {'plain': Plain, 'other': find(3)}\nKINDS['plain'](device).fit()",
        "KINDS = {'plain': Plain, **find(3)}\nKINDS['plain'](device).fit()",
        "KINDS = {'plain': Plain}\nfor kind in KINDS.values():\n    kind(device).fit()",
    ],
)
def test_what_may_be_another_class(after: str) -> None:
    setup = f"{SETUP}\nfrom elsewhere import find"
    assert unchanged(chosen(after, PLAIN, setup)).code == "LOOP-IN-CLASS"


# ---- one of several classes

WAYS = [
    "if fast:\n    one = Fast(device)\nelse:\n    one = Plain(device)\none.fit()",
    "one = None\nif fast:\n    one = Fast(device)\nelif len(sys.argv) > 2:\n    one = Plain(device)\none.fit()",
    "one = Fast(device) if fast else Plain(device)\none.fit()",
    "Chosen = Fast if fast else Plain\none = Chosen(device)\none.fit()",
    "if fast:\n    Chosen = Fast\nelse:\n    Chosen = Plain\none = Chosen(device)\none.fit()",
    "KINDS = {'fast': Fast, 'plain': Plain}\nassert sys.argv[1] in KINDS\none = KINDS[sys.argv[1]](device)\none.fit()",
    "KINDS = {'fast': Fast, 'plain': Plain}\nprint(list(KINDS), KINDS.keys())\nChosen = KINDS[sys.argv[1]]\n"
    "Chosen(device).fit()",
    "{'fast': Fast, 'plain': Plain}[sys.argv[1]](device).fit()",
    "def make(device):\n    if fast:\n        return Fast(device)\n    return Plain(device)\n\n\nmake(device).fit()",
    "def make(device):\n    kind = {'fast': Fast, 'plain': Plain}[sys.argv[1]]\n    return kind(device)\n\n\n"
    "one = make(device)\none.fit()",
]


@pytest.mark.parametrize("after", WAYS)
def test_every_class_is_converted_as_if_it_were_the_only_one(after: str) -> None:
    text = code(chosen(after))
    alone = {name: added(chosen(f"one = {name}(device)\none.fit()", BOTH)) for name in ("Fast", "Plain")}
    changed = [line for line in alone["Fast"] if line.startswith("self.")]
    assert changed == [line for line in alone["Plain"] if line.startswith("self.")]
    lines = text.splitlines()
    assert len(changed) == 5 and all(lines.count(line) == 2 * changed.count(line) for line in changed)
    assert text.endswith(f"\n{code_of(after)}")


def test_the_whole_text() -> None:
    lifted = {
        "self.device = device": "self.accelerator = Accelerator(\n"
        "            dataloader_config=DataLoaderConfiguration(split_batches=True)\n        )",
        "Net().to(device)": "Net()",
        "self.epoch = 0": "self.model, self.optimizer, self.loader = self.accelerator.prepare(\n"
        "            self.model, self.optimizer, self.loader\n        )\n        self.epoch = 0",
        "            x, y = x.to(self.device), y.to(self.device)\n": "",
        "loss.backward()": "self.accelerator.backward(loss)",
    }
    both = BOTH
    for old, new in lifted.items():
        both = both.replace(old, new)
    imported = "from accelift import Accelerator, DataLoaderConfiguration\nfrom torch.utils.data import"
    assert converted(chosen(WAYS[0])) == chosen(WAYS[0], both).replace("from torch.utils.data import", imported)


def test_a_class_that_is_nowhere() -> None:
    after = "if fast:\n    one = Faster(device)\nelse:\n    one = Plain(device)\none.fit()"
    assert code(chosen(after)).count("accelerator.backward(loss)") == 1
    for bound in ("from elsewhere import Faster", "from elsewhere import *", "Faster = print"):
        assert unchanged(chosen(after, PLAIN, f"{SETUP}\n{bound}")).code == "LOOP-IN-CLASS"


def test_classes_of_one_base() -> None:
    base = TRAINER.format(name="Base", rate=0.1, **LEGACY)
    families = (
        f"{base}\n\nclass Fast(Base):\n    def start(self):\n        print('fast')\n\n\n"
        "class Plain(Base):\n    def start(self):\n        print('plain')"
    )
    text = code(
        chosen(
            "KINDS = {'fast': Fast, 'plain': Plain}\none = KINDS[sys.argv[1]](device)\none.start()\none.fit()", families
        )
    )
    assert text.count("accelerator.backward(loss)") == 1 and text.count(".prepare(") == 1
    assert "accelerator.print('fast')" in text and "accelerator.print('plain')" in text


def test_a_class_that_is_chosen_may_be_asked_for_its_name() -> None:
    named = (
        f"{PLAIN}\n    @staticmethod\n    def code():\n        return 'plain'\n\n\n"
        f"{FAST}\n    @classmethod\n    def code(cls):\n        return 'fast'\n"
    )
    after = "KINDS = {Fast.code(): Fast, Plain.code(): Plain}\none = KINDS[sys.argv[1]](device)\none.fit()"
    assert code(chosen(after, named)).count("accelerator.backward(loss)") == 2
    named = named.replace("return 'fast'", "return cls.__name__")
    assert unchanged(chosen(after, named)).code == "LOOP-IN-CLASS"


@pytest.mark.parametrize(
    "after",
    [
        "for fast in (True, False):\n    one = Fast(device) if fast else Plain(device)\n    one.fit()",  # both of them
        "one = Plain(device)\nif fast:\n    one = Fast(device)\none.fit()",  # one is made, and then the other
        "def make(device):\n    return Fast(device) if fast else Plain(device)\n\n\n"
        "make(device).fit()\nmake(device).fit()",
        "KINDS = {'fast': Fast, 'plain': Plain}\nfor kind in KINDS:\n    KINDS[kind](device).fit()",
        "KINDS = {'fast': Fast, 'plain': Plain}\nmany = [KINDS[kind](device) for kind in sys.argv]",
        "Chosen = Fast if fast else Plain\nprint(Chosen)\nChosen(device).fit()",
        "try:\n    one = Fast(device)\nexcept ValueError:\n    one = Plain(device)\none.fit()",
    ],
)
def test_what_is_chosen_more_than_once(after: str) -> None:
    assert unchanged(chosen(after)).code == "LOOP-IN-CLASS"


# ---- what each case says


def test_a_refusal_names_the_class() -> None:
    other = FAST.replace("self.loader = DataLoader(data, batch_size=16)", "self.loader = find(data)")
    finding = unchanged(chosen(WAYS[0], f"{PLAIN}\n\n{other}", f"{SETUP}\nfrom elsewhere import find"))
    assert finding.code == "LOADER-UNKNOWN" and finding.message.startswith("where `one` is a Fast, the training loop")


def test_findings_of_all_cases() -> None:
    other = FAST.replace("F.cross_entropy(self.model(x), y)", "torch.cdist(self.model(x), self.model(x)).max()")
    both = f"{PLAIN}\n\n{other}"
    sole = {name: findings(chosen(f"{name}(device).fit()", both)) for name in ("Fast", "Plain")}
    assert findings(chosen(WAYS[0], both)) == sorted(sole["Fast"] + sole["Plain"]) != sole["Plain"]


def test_code_that_would_have_to_be_another_for_each_class() -> None:
    shared = (
        "def run(model, loader, optimizer, device):\n    for x, y in loader:\n"
        "        x, y = x.to(device), y.to(device)\n"
        "        optimizer.zero_grad()\n        F.cross_entropy(model(x), y).backward()\n        optimizer.step()\n\n\n"
    )
    calls = "    def fit(self):\n        run(self.model, self.loader, self.optimizer, self.device)\n"
    plain, fast = (text.partition("    def fit")[0] + calls for text in (PLAIN, FAST))
    text = code(chosen(WAYS[0], f"{shared}{plain}\n\n{fast}"))
    assert "def run(model, loader, optimizer, accelerator):" in text
    assert text.count("run(self.model, self.loader, self.optimizer, self.accelerator)") == 2
    fast = fast.replace("self.device)\n", "torch.device('cpu'))\n")  # this device is not that of the process
    finding = unchanged(chosen(WAYS[0], f"{shared}{plain}\n\n{fast}"))
    assert finding.code == "LOOP-IN-CLASS" and "converted differently for each class" in finding.message


def test_a_class_that_does_not_train_takes_no_part() -> None:
    tester = (
        "class Tester:\n    def __init__(self, device):\n        self.model = Net().to(device)\n\n    def fit(self):\n"
    )
    quiet = f"{tester}        torch.save(self.model, 'm.pt')\n\n\n{PLAIN}"
    after = "if fast:\n    one = Tester(device)\nelse:\n    one = Plain(device)\none.fit()"
    text = code(chosen(after, quiet))
    assert text.count("self.accelerator.backward(loss)") == 1 and "torch.save(self.model, 'm.pt')" in text
    # what both of them run would have to be as it was, and otherwise
    quiet = quiet.replace("        self.device = device\n", "").replace("self.device", "device")
    finding = unchanged(chosen(after, quiet))
    assert finding.code == "LOOP-IN-CLASS" and "would have to be converted differently" in finding.message


def test_imports_that_one_of_the_classes_uses_stay() -> None:
    device = "self.device = th.device('cuda' if th.cuda.is_available() else 'cpu')"
    plain = PLAIN.replace("self.device = device", device)
    fast = FAST.replace("self.device = device", f"{device}\n        self.scale = th.ones(1)")
    for both in (f"{plain}\n\n{fast}", f"{fast}\n\n{plain}"):
        text = code(chosen(WAYS[0], both, imports="import torch as th", device="device = None"))
        assert "import torch as th" in text and "th.ones(1)" in text and "th.cuda" not in text
    both = f"{plain}\n\n{plain.replace('Plain', 'Fast')}"
    text = code(chosen(WAYS[0], both, imports="import torch as th", device="device = None"))
    assert "import torch as th" not in text and text.count("accelerator.prepare(") == 2
