"""NAME-OWN: names of folders and files that every process would make up for itself."""

from __future__ import annotations

import pytest
from scripts import findings, script

IMPORTS = """\
import datetime
import os
import random
import tempfile
import time
import uuid
from datetime import datetime as clock
from pathlib import Path
import numpy as np
"""
MAKE = "os.makedirs(folder, exist_ok=True)"
SAVE = "torch.save(model.state_dict(), os.path.join(folder, 'm.pt'))"
READ = "model.load_state_dict(torch.load(os.path.join(folder, 'm.pt')))"


def found(setup: str, **slots: str) -> list[str]:
    """The findings about names in a script."""
    return [code for code in findings(script(imports=IMPORTS, setup=setup, **slots)) if code == "NAME-OWN"]


@pytest.mark.parametrize(
    "folder",
    [
        "folder = f'runs/{time.time()}'",
        "folder = 'runs/' + time.strftime('%Y%m%d-%H%M%S')",
        "folder = os.path.join('runs', str(int(time.time())))",
        "folder = os.path.join('runs', clock.now().strftime('%b%d_%H-%M-%S'))",
        "stamp = datetime.datetime.now().isoformat()\nfolder = 'runs/{}'.format(stamp)",
        "name = uuid.uuid4().hex\nfolder = Path('runs') / name",
        "folder = 'run%d' % random.randint(0, 1000)",
        "folder = f'run{os.getpid()}'",
        "def named():\n    return f'runs/{time.time()}'\n\n\nfolder = named()",
        "class Settings:\n    pass\n\n\nsettings = Settings()\nsettings.out = str(time.time())\nfolder = settings.out",
    ],
)
@pytest.mark.parametrize(
    ("slots", "count"), [({"before": MAKE}, 1), ({"after": f"{SAVE}\n{READ}"}, 1), ({"after": SAVE}, 0)]
)
def test_names_of_the_time_and_of_chance(folder: str, slots: dict[str, str], count: int) -> None:
    assert found(folder, **slots) == ["NAME-OWN"] * count


@pytest.mark.parametrize(
    "folder",
    [
        "folder = 'runs/first'",
        "folder = time.strftime('%Y-%m-%d')",  # but at midnight
        "folder = str(clock.now().date())",
        "random.seed(1)\nfolder = 'run%d' % random.randint(0, 1000)",
        "started = time.time()\nfolder = 'runs'",
        "folder = f'runs/{len(os.sep)}'",
    ],
)
def test_names_that_are_alike(folder: str) -> None:
    assert found(folder, before=MAKE, after=f"{SAVE}\n{READ}") == []


FOLDER = "folder = f'runs/{time.time()}'"


@pytest.mark.parametrize(
    "use",
    [
        "os.makedirs(folder)",  # on the main process only
        "with open(folder + '.txt', 'w') as file:\n    file.write('done')",
        "np.save(os.path.join(folder, 'a.npy'), np.zeros(3))",
        "log = open(folder + '.txt', 'w')\nlog.write('done')",
        "print(folder)",
        "import json\nwith open(folder, 'w') as file:\n    json.dump({}, file)",
        "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter(folder)",
    ],
)
def test_what_only_the_main_process_writes_may_have_its_own_name(use: str) -> None:
    assert found(FOLDER, before=use) == []


@pytest.mark.parametrize(
    "use",
    [
        "if not os.path.exists(folder):\n    os.makedirs(folder)",
        "Path(folder).mkdir(parents=True, exist_ok=True)",
        "def begin(path):\n    os.makedirs(path, exist_ok=True)\n\n\nbegin(folder)",
    ],
)
def test_a_folder_that_every_process_makes(use: str) -> None:
    assert found(FOLDER, before=use) == ["NAME-OWN"]


def test_a_temporary_folder_is_the_process_s_own_unless_others_read_there() -> None:
    folder = "folder = tempfile.mkdtemp()"
    assert found(folder, before=MAKE) == []
    assert found(folder, after=SAVE) == []
    assert found(folder, after=f"{SAVE}\n{READ}") == ["NAME-OWN"]


def test_it_is_said_once_for_a_name_with_its_place() -> None:
    from scripts import convert

    result = convert(script(imports=IMPORTS, setup=FOLDER, before=f"{MAKE}\n{MAKE}", after=f"{SAVE}\n{READ}"))
    assert result.plan is not None
    (finding,) = (f for f in result.plan.findings if f.code == "NAME-OWN")
    assert "`time.time()` differs from process to process" in finding.message
