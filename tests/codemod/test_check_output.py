"""`accelift check` of what processes write, print and save: by whom it is done, and under which name."""

from __future__ import annotations

import pytest

from tests.codemod.checks import findings, marked, script

NP = "import numpy as np"
NAN = "if torch.isnan(loss):\n    print('loss is nan')"
TRY = "try:\n    risky(x)\nexcept ValueError as error:\n    print('skipped', error)"
RISKY = "def risky(x):\n    if x.sum() > 3:\n        raise ValueError\n"
MAIN = "accelerator.is_main_process"
FIRST = "isMainRank0 = first()\nif isMainRank0:\n    torch.save(3, 'm.pt')"
KEEP = """\
def keep(state, name, first):
    if not first:
        return
    torch.save(state, name){mark}
"""
CACHE = """\
def cache(names, alone=True):
    for name in names:
        if not alone:
            continue
        np.save(name + '.npy', np.zeros(3)){mark}
"""
HEAD = """\
class Head(nn.Module):
    def keep(self, folder):
        torch.save(self.state_dict(), folder + '/head.pt'){mark}


class LongHead(Head):
    pass
"""
# Whoever gives the rest may say who writes.
SAVED = "def keep(model, **rest):\n    model.save_pretrained('out'{rest}){mark}\n"
OTHER_SAVE = "class Other:\n    def save(self, folder):\n        torch.save(3, folder + '/other.pt'){mark}\n"
HOOK = """\
def hook(models, weights, folder):
    torch.save(3, folder + '/state.pt')

accelerator.register_save_state_pre_hook(hook)
"""
SHARE = """\
def share(items):
    each = len(items) // accelerator.num_processes
    first = accelerator.process_index * each
    return items[first : first + each]
"""
# Which process writes is chosen by where the files are.
LOGBOOK = """\
class Logbook:
    def __init__(self, accelerator, shared=True):
        self.accelerator = accelerator
        self.writes = {first} if shared else {other}

    @property
    def is_first(self):
        return self.accelerator.is_main_process

    @property
    def is_first_here(self):
        return self.accelerator.is_local_main_process

    def keep(self):
        if not self.writes:
            return
        torch.save(3, 'book.pt'){mark}
"""
FIRST_HERE = "self.is_first_here"
KEEPS = "Logbook(accelerator).keep()"
# A writer that is told to be quiet, by any name, on all processes but one.
QUIET = """\
class Writer:
    def __init__(self, quiet):
        self.quiet = quiet

    def write(self, folder):
        if self.quiet:
            return
        torch.save(3, folder + '/m.pt'){mark}


def make(quiet):
    return {{'writer': Writer}}['writer'](quiet=quiet)
"""
# A function that nothing runs calls another one, which is else called by one process.
UNUSED = """\
def keep(state):
    torch.save(state, 'm.pt'){mark}


def export(state):
    keep(state)
"""
SHARDS = """\
def keep(state, whole=True):
    if whole:
        torch.save(state, 'm.pt'){mark}
"""
ITEMS = "for item in {items}:\n    name = item['id']\n    np.save(f'{{name}}.npy', np.zeros(3)){mark}"
STRIPPED = "{{{key}: value for key, value in model.state_dict().items()}}"
PRETRAINED = {
    "from_imports": "from transformers import AutoModel",
    "model": "model = AutoModel.from_pretrained('bert')",
}

TQDM = "from tqdm.auto import tqdm"
BAR = "bar = tqdm(range(3), disable=not accelerator.is_local_main_process)"
REPORTED = [
    (
        "SAVE-RACE",
        script(definitions=LOGBOOK.format(first="self.accelerator", other="3", mark="  # HERE"), after=KEEPS),
    ),
    ("PRINT-ALL", script(from_imports=TQDM, before=BAR, batch_end="bar.write(f'{epoch}')  # HERE")),
    ("PRINT-ALL", script(from_imports=TQDM, after="tqdm.write('done')  # HERE")),
    ("PRINT-ALL", script(batch_end="if epoch > 0:\n    print('loss is nan')  # HERE")),
    ("PRINT-ALL", script(batch_end="try:\n    print('tried')  # HERE\nexcept ValueError:\n    pass")),
    ("PRINT-ALL", script(batch_end="if accelerator.gather(loss).sum() > 3:\n    print('high')  # HERE")),
    ("SAVE-RACE", script(definitions=KEEP.format(mark="  # HERE"), after="keep(3, 'm.pt', True)")),
    ("SAVE-RACE", script(imports=NP, definitions=CACHE.format(mark="  # HERE"), before="cache('ab', len('ab') > 1)")),
    ("SAVE-RACE", script(definitions=HEAD.format(mark="  # HERE"), after="LongHead().keep('out')")),
    ("SAVE-RACE", script(imports=NP, after=ITEMS.format(items="data", mark="  # HERE"))),
    ("SAVE-RACE", script(definitions=SAVED.format(rest="", mark="  # HERE"), after="keep(model)")),
    (
        "SAVE-RACE",
        script(definitions=OTHER_SAVE.format(mark="  # HERE"), after="{'other': Other}['other']().save('out')"),
    ),
    ("SAVE-RACE", script(definitions=QUIET.format(mark="  # HERE"), after="make(len(data) < 3).write('out')")),
    ("SAVE-RACE", script(definitions=UNUSED.format(mark="  # HERE"), after="keep(3)")),
    ("SAVE-RACE", script(definitions=SHARDS.format(mark="  # HERE"), after="keep(3)\nkeep(4, whole=False)")),
    ("PRINT-ALL", script(after="device = torch.device('cpu')\nprint('on', x.device)  # HERE")),
    ("SAVE-RACE", script(imports=NP, setup="processed = 3", after="np.save('features.npy', processed)  # HERE")),
    ("SAVE-RACE", script(setup="domain = 'news'", after="with open(f'{domain}.txt', 'w') as file:  # HERE\n    pass")),
    ("SAVE-RACE", script(setup="attempt = 1", after="torch.save({'attempt': attempt}, 'attempt.pt')  # HERE")),
    ("SAVE-RACE", script(after="torch.save({'by': accelerator.process_index}, 'model.pt')  # HERE")),
    ("SAVE-RACE", script(setup="remaining = 3", after="if remaining:\n    torch.save(3, 'rest.pt')  # HERE")),
    ("SAVE-WRAPPED", script(after=f"accelerator.save({STRIPPED.format(key='key.lower()')}, 'm.pt')  # HERE")),
]
SILENT = [
    ("PRINT-ALL", script(from_imports=TQDM, before=BAR, after=f"if {MAIN}:\n    bar.write('done')")),
    ("PRINT-ALL", script(from_imports=TQDM, before=BAR, after="bar.write('done', file=open('log.txt'))")),
    ("PRINT-ALL", script(after="file = open('log.txt')\nfile.write('done')")),
    ("PRINT-ALL", script(batch_end=NAN)),
    ("PRINT-ALL", script(definitions=RISKY, batch_end=TRY)),
    ("PRINT-ALL", script(batch_end="if not torch.isnan(loss):\n    continue\nprint('loss is nan')")),
    ("PRINT-ALL", script(definitions="def tell(x):\n    print(x)\n", batch_end=NAN.replace("print", "tell"))),
    ("SAVE-RACE", script(definitions=KEEP.format(mark=""), after="keep(3, 'm.pt', accelerator.is_main_process)")),
    (
        "SAVE-RACE",
        script(imports=NP, definitions=CACHE.format(mark=""), before=f"cache('a', {MAIN})"),
    ),
    ("SAVE-RACE", script(definitions=HEAD.format(mark=""))),
    (
        "SAVE-RACE",
        script(definitions=QUIET.format(mark=""), after="make(quiet=accelerator.process_index != 0).write('out')"),
    ),
    ("SAVE-RACE", script(definitions=LOGBOOK.format(first=FIRST_HERE, other="self.is_first", mark=""), after=KEEPS)),
    ("SAVE-RACE", script(definitions=UNUSED.format(mark=""), after=f"if {MAIN}:\n    keep(3)")),
    ("SAVE-RACE", script(definitions=SHARDS.format(mark=""), after="keep(4, whole=False)")),
    ("SAVE-RACE", script(before=HOOK)),
    ("SAVE-RACE", script(definitions=SAVED.format(rest=", **rest", mark=""), after="keep(model)")),
    (  # the accelerator's own method is another one
        "SAVE-RACE",
        script(
            definitions=OTHER_SAVE.format(mark=""),
            after="other = {'other': Other}['other']()\naccelerator.save(3, 'm.pt')",
        ),
    ),
    ("PRINT-ALL", script(after="print('on', accelerator.device)")),
    (
        "SAVE-RACE",
        script(imports=NP, before=SHARE, after=ITEMS.format(items="share([{'id': 'a'}, {'id': 'b'}])", mark="")),
    ),
    ("SAVE-RACE", script(setup="temp_file = 'x'", after="torch.save(3, temp_file)")),
    ("SAVE-RACE", script(imports="import os", after="torch.save(3, f'part{os.environ[\"RANK\"]}.pt')")),
    ("SAVE-RACE", script(imports=NP, after="np.save(f'part{accelerator.process_index}.npy', np.zeros(3))")),
    (
        "SAVE-RACE",
        script(from_imports="from project import first", after=FIRST),
    ),
    (
        "SAVE-WRAPPED",
        script(after=f"""accelerator.save({STRIPPED.format(key='key.removeprefix("module.")')}, 'm.pt')"""),
    ),
    ("SAVE-WRAPPED", script(after=f"weights = {STRIPPED.format(key='key[7:]')}\naccelerator.save(weights, 'm.pt')")),
    (
        "SAVE-WRAPPED",
        script(
            from_imports="from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present",
            after="state = model.state_dict()\nconsume_prefix_in_state_dict_if_present(state, 'module.')\n"
            "accelerator.save(state, 'm.pt')",
        ),
    ),
]


@pytest.mark.parametrize(("code", "text"), REPORTED)
def test_what_every_process_does_is_reported(code: str, text: str) -> None:
    assert marked(text)
    assert [f.line for f in findings(text, code)] == marked(text)


@pytest.mark.parametrize(("code", "text"), SILENT)
def test_what_one_process_does_or_keeps_apart_is_not(code: str, text: str) -> None:
    assert findings(text, code) == []


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (
            "accelerator.unwrap_model(model).save_pretrained('out', state_dict=accelerator.get_state_dict(model))",
            "give it is_main_process=accelerator.is_main_process and save_function=accelerator.save",
        ),
        (
            "torch.save(accelerator.get_state_dict(model), 'm.pt')",
            "keep `accelerator.get_state_dict(model)`, which all processes do, in a variable, and put the rest under a "
            "guard",
        ),
        (
            "accelerator.unwrap_model(model).save_pretrained('out')",
            "put it under `if accelerator.is_main_process:`",
        ),
        (
            "torch.save(3, 'm.pt')",
            "use accelerator.save, which only the main process does, or put it under a guard",
        ),
        (  # of samples that each process has for itself
            "for i, (x, y) in enumerate(loader):\n    torch.save(model(x), f'out{i}.pt')",
            "put accelerator.process_index into the name, or gather what is written (accelerator.gather_for_metrics) "
            "and write it under `if accelerator.is_main_process:`",
        ),
        (
            "for i, (x, y) in enumerate(loader):\n    torch.save(model.state_dict(), f'm{i}.pt')",
            "use accelerator.save, which only the main process does, or put it under a guard",
        ),
    ],
)
def test_no_guard_around_what_all_processes_do(call: str, remedy: str) -> None:
    (finding,) = findings(script(**PRETRAINED, after=call), "SAVE-RACE")
    assert finding.remedy == remedy


@pytest.mark.parametrize(
    ("code", "statement", "remedy"),
    [
        ("PRINT-ALL", "print('told')", "write {}.print(...)"),
        ("SAVE-RACE", "open('told.txt', 'w')", "put it under `if {}.is_main_process:`"),
        ("DL-RACE", "torchvision.datasets.MNIST('.', download=True)", "put it under `with {}.main_process_first():`"),
    ],
)
def test_what_can_be_asked_which_process_it_is(code: str, statement: str, remedy: str) -> None:
    """Where no accelerator is at hand, the state that all processes have."""
    for slots, asked in (
        ({"after": statement}, "accelerator"),
        ({"definitions": f"def tell():\n    {statement}\n", "setup": "tell()"}, "PartialState()"),
    ):
        (finding,) = findings(script(imports="import torchvision", **slots), code)
        assert finding.remedy == remedy.format(asked)


LIBRARY = """\
import torch
from accelerate import Accelerator


class Trainer:
    def __init__(self, model, loader):
        self.accelerator = Accelerator()
        self.model, self.loader = self.accelerator.prepare(model, loader)

    def save(self, name):
        torch.save(3, name)

    def step(self, x):
        self.accelerator.backward(self.model(x).mean())
        torch.save(x, 'sample.pt')  # HERE

    def train(self):
        for x in self.loader:
            self.step(x)


def export(state):
    torch.save(state, 'm.pt')
"""


def test_what_trainers_for_other_scripts_do_together_every_process_runs() -> None:
    assert [f.line for f in findings(LIBRARY, "SAVE-RACE")] == marked(LIBRARY)
    run = f"{LIBRARY}\n\nexport(3)  # a script that does not train"
    assert [f.line for f in findings(run, "SAVE-RACE")] == [*marked(LIBRARY), len(LIBRARY.splitlines())]
